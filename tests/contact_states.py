"""Random contact problems of legged robots, and a direct check of the contact laws, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

import quaddyn as qd

#: Arrangements of contact points, see `cases`.
KINDS = ("four", "straight", "redundant")
DT = 1e-3


@dataclass(frozen=True)
class Case:
    """One step of a robot that stands, slides, falls or jumps: v+ = v + M^-1 J^T lambda."""

    M: np.ndarray
    J: np.ndarray
    v: np.ndarray
    friction: np.ndarray

    @property
    def G(self) -> np.ndarray:
        G = self.J @ np.linalg.solve(self.M, self.J.T)
        return 0.5 * (G + G.T)

    @property
    def g(self) -> np.ndarray:
        return self.J @ self.v


def cases(robot: qd.Robot, count: int, kind: str, seed: int) -> Iterator[Case]:
    """Random states with all feet on the ground.

    The trunk is tilted by about 20 degrees, the joints are about 0.4 rad from home, each state is at rest, moves slowly
    or at 1 m/s, with or without torques of half the robot's weight at 1 m, on ice or rubber.

    Args:
        robot: a robot with feet.
        count: number of cases.
        kind: "four": one point per foot; "straight": the same with knees straight within 1 mrad; "redundant": four
            points per foot, 2 cm around it, sixteen on a quadruped.
        seed: seed of the generator.
    """
    rng, dyn = np.random.default_rng(seed), qd.Dynamics(robot)
    knees = [robot.configuration_index(leg.knee) for leg in robot.legs.values() if leg.knee]
    for _ in range(count):
        step = np.concatenate((rng.normal(0.0, 0.2, 6), rng.normal(0.0, 0.4, robot.nv - 6)))
        q = pin.integrate(robot.model, robot.q_home, step)
        if kind == "straight":
            q[knees] = rng.normal(0.0, 1e-3, len(knees))
        v = rng.normal(0.0, 1.0, robot.nv) * rng.choice((0.0, 0.1, 1.0))
        tau = rng.normal(0.0, 0.5 * robot.mass, robot.nu) * rng.choice((0.0, 1.0))
        s = dyn.update(q, v)
        rows = []
        for foot, leg in robot.legs.items():
            J = s.jacobian(foot)
            around = ((0.0, 0.0),) if kind != "redundant" else ((1, 1), (1, -1), (-1, 1), (-1, -1))
            for x, y in around:
                lever = np.array([0.02 * x, 0.02 * y, -leg.foot.radius])
                rows.append(J[:3] - pin.skew(lever) @ J[3:])
        M = s.M.copy()
        free = v + DT * np.linalg.solve(M, robot.generalized_torques(tau) - s.h)
        yield Case(M, np.vstack(rows), free, np.full(len(rows), rng.uniform(0.05, 1.5)))


def violation(case: Case, impulses: np.ndarray) -> float:
    """Violation of Signorini's and Coulomb's laws, from joint velocities, without the Delassus matrix.

    Returns:
        The largest of: velocity into the ground [m/s], distance from the cone [N s], and normal and tangential
        complementarity ``lambda_n c_n`` and ``mu lambda_n |c_t| + lambda_t . c_t`` [J].
    """
    after = case.v + np.linalg.solve(case.M, case.J.T @ impulses.ravel())
    worst = 0.0
    for (x, y, n), (cx, cy, cn), mu in zip(impulses, (case.J @ after).reshape(-1, 3), case.friction, strict=True):
        outside = max(np.hypot(x, y) - mu * n, 0.0) / np.hypot(1.0, mu) if n > -mu * np.hypot(x, y) else np.hypot(x, y)
        outside = max(outside, -n)
        braking = mu * n * np.hypot(cx, cy) + x * cx + y * cy
        worst = max(worst, -cn, outside, abs(n * cn), abs(braking))
    return float(worst)
