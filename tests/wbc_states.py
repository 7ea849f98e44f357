"""Random ticks of whole-body control, over every set of contacts, easy and hard, and the checks of each tick."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

import numpy as np
from hierarchy_problems import check_optimality, levels_of

import quaddyn as qd
from quaddyn.contact import contact_jacobian
from quaddyn.reference import Reference
from quaddyn.wbc import Command, WholeBodyController

#: Violation of level 0 up to which it counts as satisfied [m/s^2].
LIMIT = 1e-6


@dataclass
class Tally:
    """Results of many ticks."""

    ticks: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    nan: int = 0
    feasible: int = 0
    verified: int = 0
    infeasible: int = 0
    proved: int = 0
    unflagged: int = 0
    imbalance: float = 0.0
    violation: float = 0.0

    def __str__(self) -> str:
        share = self.verified / max(self.feasible, 1)
        return (
            f"{self.ticks} ticks: {dict(self.outcomes)}; {self.nan} not finite; of {self.feasible} with level 0 "
            f"feasible {100.0 * share:.3f} % verified (limits to {self.violation:.1e} m/s^2), {self.unflagged} of the "
            f"others unflagged; of {self.infeasible} said to be infeasible {self.proved} proved, that is violated "
            f"least; root rows to {self.imbalance:.1e} m g"
        )


def ticks(
    robot: qd.Robot, count: int, seed: int, *, only: Container[int] | None = None
) -> Iterator[tuple[qd.State, Command]]:
    """Random states over all contact sets: calm, saturated (low friction or weak motors) and hard, a third each."""
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(seed)
    stances = [c for k in range(len(robot.feet) + 1) for c in itertools.combinations(robot.feet, k)]
    wbc = WholeBodyController(robot, ramp_time=0.0)
    for i in range(count):
        kind = i // len(stances) % 3
        size = (0.3, 1.0, 3.0)[kind]
        step, shift, v = 0.15 * size * rng.normal(size=robot.nv), rng.normal(size=3), rng.normal(size=robot.nv)
        friction = float(rng.choice((0.05, 0.3, 0.6, 1.0)))
        aside, com, turn = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
        swing = [rng.normal(size=3) for _ in robot.feet]
        if only is not None and i not in only:
            continue
        q = robot.algorithms.integrate(robot.model, robot.q_home, step)
        q[:3] += shift
        s = dyn.update(q, 0.4 * size * v)
        wbc.reset()
        wbc.friction = friction
        wbc.tasks["com"].reference(s.com + 0.02 * size * aside, acceleration=2.0 * size * com)
        wbc.tasks["base"].reference(s.placement(robot.bodies[0].name).rotation, acceleration=4.0 * size * turn)
        for foot, wanted in zip(robot.feet, swing, strict=True):
            wbc.tasks[foot].reference(s.placement(foot).translation, acceleration=5.0 * size * wanted)
        yield s, wbc.compute(s, stances[i % len(stances)])


def check_random_ticks(robot: qd.Robot, count: int, seed: int, *, only: Container[int] | None = None) -> Tally:
    """Checks random ticks by an interior-point solver and the reference implementation, and counts the results."""
    tally, reference = Tally(), Reference(robot.source, root=robot.root, armature=robot.armature)
    free = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
    for s, c in ticks(robot, count, seed, only=only):
        tally.ticks += 1
        tally.outcomes[c.status.outcome] += 1
        if not (np.isfinite(c.tau).all() and np.isfinite(c.acceleration).all()):
            tally.nan += 1
            continue
        load = reference.rnea(s.q, s.v, c.acceleration)
        for foot, force in c.forces.items():
            load = load - contact_jacobian(s, foot).T @ force
        tally.imbalance = max(tally.imbalance, float(np.abs(load[free]).max(initial=0.0)) / (robot.mass * 9.81))
        x = c.details.x
        over = max(
            float((g.weights * np.maximum(g.A @ x - g.upper, g.lower - g.A @ x)).max(initial=0.0))
            for g in c.details.problem.levels[0]
        )
        verdict = check_optimality(levels_of(c.details.problem), x)
        is_optimal = verdict.excess <= 1.0 and verdict.violation <= 1e-7
        if c.status.outcome == "infeasible":
            # Level 0 is convex: if it is violated at its optimum, it is infeasible.
            tally.infeasible += 1
            tally.proved += over > LIMIT and is_optimal
            continue
        tally.feasible += 1
        if over <= LIMIT and is_optimal:
            tally.verified += 1
            tally.violation = max(tally.violation, over)
        elif c.status.outcome == "solved":
            tally.unflagged += 1
    return tally
