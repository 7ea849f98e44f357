"""Capsule distances against coal, and collision limits under hostile references: see `benchmarks/collisions.py`."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from exact_optimum import excess

import quaddyn as qd
from quaddyn.campaigns import Campaign, Record, case_rng, hash_robot, hash_texts, load_cached_robot
from quaddyn.kinematics import CapsuleModel, CollisionModel
from quaddyn.wbc import CollisionLimits, Command, JointBounds, PostureTask, TorqueLimits
from quaddyn.wbc.tick_problem import TickProblem

#: Tolerance of coal [m]; tolerance of the comparison [m]; control period [s]; ticks between references.
COAL, NEARLY, DT, EVERY = 1e-9, 1e-8, 1e-3, 150
#: Ticks after an unsolved one in which violations are attributed to it; minimal distance [m].
AFTER, MARGIN = 200, 0.005
#: Poses per case; ticks per case; ticks per comparison with the exact optimum; largest relative excess of a level.
POSES, TICKS, JUDGED, OPTIMAL = 500, 5000, 250, 1e-6
#: Largest torque step due to rows that appear or disappear, relative to the effort limits.
STEP = 0.05


# -- distances -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class PoseCase:
    """Random poses of a robot: batch `number` of `seed`."""

    robot: str
    number: int
    poses: int
    seed: int


@functools.lru_cache(maxsize=4)
def geometry(name: str) -> tuple[CapsuleModel, CollisionModel]:
    """Capsule model with all pairs, and collision model with the shapes of the file."""
    exact = CollisionModel(load_cached_robot(name))
    for each in exact._scratch.distanceRequests:
        each.gjk_tolerance, each.gjk_max_iterations = COAL, 1000
    return CapsuleModel(load_cached_robot(name), reach=np.inf), exact


@dataclass(frozen=True, kw_only=True)
class Distances(Campaign[PoseCase]):
    """Compares capsule distances with those of coal for the shapes of the file, for each pair of links."""

    name: ClassVar[str] = "distances"
    Case: ClassVar[type[PoseCase]] = PoseCase

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "robots with collision geometry"})
    poses: int = field(default=100, metadata={"help": "poses of each robot"})
    seed: int = field(default=0, metadata={"help": "seed of the campaign"})

    def cases(self) -> Iterator[PoseCase]:
        for name in self.robot:
            for number, poses in parts(self.poses, POSES):
                yield PoseCase(robot=name, number=number, poses=poses, seed=self.seed)

    def count(self) -> int:
        return len(self.robot) * -(-self.poses // POSES)

    def model_hash(self) -> str:
        return hash_texts(*(hash_robot(name) for name in sorted(self.robot)))

    def run(self, case: PoseCase) -> Record:
        try:
            model, exact = geometry(case.robot)
        except qd.ArgumentError as error:
            return {"success": True, "reason": None, "void": str(error)}
        rng, links = case_rng(case.seed, case.number), [each.link for each in model.capsules]
        excess = np.array([each.overapproximation for each in model.capsules])
        too_large, too_small, lacks = 0.0, 0.0, list[float]()
        for _ in range(case.poses):
            q = model.robot.random_configuration(rng)
            true = {frozenset(s.links): s.distance for s in exact.separations(q)}
            nearest: dict[frozenset[str], tuple[float, float]] = {}
            for (i, j), distance in zip(model.pairs.tolist(), model.distances(q).tolist(), strict=True):
                pair = frozenset((links[i], links[j]))
                nearest[pair] = min(nearest.get(pair, (np.inf, 0.0)), (distance, float(excess[i] + excess[j])))
            for pair, (distance, fit) in nearest.items():
                if distance > 0.0 and pair in true:
                    lacks.append(true[pair] - distance)
                    too_large, too_small = max(too_large, -lacks[-1]), max(too_small, lacks[-1] - fit)
        good = max(too_large, too_small) <= NEARLY
        return {
            "success": good,
            "reason": None if good else f"too large by {too_large:.1e} m, beyond the excess by {too_small:.1e} m",
            "void": None,
            "distances": len(lacks),
            "too_large": too_large,
            "too_small": too_small,
            "lack": float(np.median(lacks)) if lacks else 0.0,
        }


# -- hostile references ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class HostileCase:
    """Ticks of a robot: batch `number` of `seed`."""

    robot: str
    number: int
    ticks: int
    seed: int
    limited: bool


def controller(robot: qd.Robot, limits: CollisionLimits | None, stiffness: float) -> qd.WholeBodyController:
    """Controller with torque limits, joint bounds, optional collision limits, and a posture task."""
    bounds = JointBounds(robot, DT, acceleration=300.0)
    constraints = [TorqueLimits(robot), bounds] + ([limits] if limits else [])
    tasks = [[PostureTask(robot, stiffness=stiffness)]]
    return qd.WholeBodyController(robot, constraints=constraints, tasks=tasks, contacts=[], dt=DT)


@functools.lru_cache(maxsize=4)
def robot_with_limits(name: str) -> tuple[qd.Robot, CapsuleModel]:
    """A robot with a fixed root, its limits replaced if the file has none, and its capsules."""
    found = load_cached_robot(name, root="fixed")
    if found.velocity_limits.max() >= 100.0:
        limits = {"lower": -3.0, "upper": 3.0, "velocity": 10.0, "effort": 5.0}
        found = qd.load(name, root="fixed", limits=dict.fromkeys(found.actuated, limits))
    return found, CapsuleModel(found)


class Rows(NamedTuple):
    """A command, and the pairs with rows in it."""

    command: Command
    rows: tuple[int, ...]


def step(robot: qd.Robot, tick: Rows, changed: set[int]) -> float:
    """Change of torques without the rows of some pairs, relative to the effort limits."""
    found, chosen = tick.command.details, [row in changed for row in tick.rows]
    levels = [list(level) for level in found.problem.levels]
    place, group = next((i, g) for i, g in enumerate(levels[0]) if g.element == "collisions")
    y = group.A @ found.x
    if (np.minimum(y - group.lower, group.upper - y) * group.weights)[chosen].min() > 1e-7:
        return 0.0  # inactive limits have no effect
    kept = ~np.array(chosen)
    names = tuple(name for name, keep in zip(group.names, kept.tolist(), strict=True) if keep)
    arrays = {name: getattr(group, name)[kept] for name in ("A", "lower", "upper", "offset", "weights")}
    levels[0][place] = type(group)(owner=group.element, names=names, unit=group.unit, contact=group.contact, **arrays)
    apart = found.resolve(TickProblem(levels, found.problem.n)) - found.x
    M = qd.Dynamics(robot).crba(tick.command.inputs.q)[robot.actuated_index][:, robot.actuated_index]
    return float(np.abs(M @ apart / robot.effort_limits).max())


@dataclass(frozen=True, kw_only=True)
class HostileReferences(Campaign[HostileCase]):
    """Robots with a fixed root and random posture references, most of which lead through self-collisions."""

    name: ClassVar[str] = "hostile references"
    Case: ClassVar[type[HostileCase]] = HostileCase

    robot: tuple[str, ...] = field(default=("go2",), metadata={"help": "any"})
    ticks: int = field(default=3000, metadata={"help": "of each robot"})
    seed: int = field(default=0, metadata={"help": "of the campaign"})
    limited: bool = field(default=True, metadata={"help": "whether with CollisionLimits"})

    def cases(self) -> Iterator[HostileCase]:
        for name in self.robot:
            for number, ticks in parts(self.ticks, TICKS):
                yield HostileCase(robot=name, number=number, ticks=ticks, seed=self.seed, limited=self.limited)

    def count(self) -> int:
        return len(self.robot) * -(-self.ticks // TICKS)

    def model_hash(self) -> str:
        return hash_texts(*(hash_robot(name, root="fixed") for name in sorted(self.robot)))

    def run(self, case: HostileCase) -> Record:
        robot, model = robot_with_limits(case.robot)
        dyn, limits = qd.Dynamics(robot), CollisionLimits(model, margin=MARGIN)
        links = [capsule.link for capsule in model.capsules]
        pairs = [f"{links[i]} - {links[j]}" for i, j in model.pairs.tolist()]
        kept = [k for k, pair in enumerate(pairs) if pair in limits.pairs]
        wbc = controller(robot, limits if case.limited else None, 200.0)
        rng, count = case_rng(case.seed, case.number), Counter[str]()
        q, v, steps, caused, worst = np.array(robot.q_home), np.zeros(robot.nv), list[float](), 0.0, 0.0
        for _ in range(200 if case.number else 0):  # any configuration at rest is viable if no pair is too close
            q = robot.random_configuration(rng)
            if limits.distance_margins(q, v)[0].min() > 0.0:
                break
        else:
            q = np.array(robot.q_home)
        least, last, unsolved = np.inf, None, -AFTER
        for tick in range(case.ticks):
            if tick % EVERY == 0:  # the next random reference, possibly in collision
                wbc.tasks["posture"].reference(robot.random_configuration(rng))
            command = wbc.compute(dyn.update(q, v))
            if not command.ok:
                count[command.status.outcome] += 1
                unsolved = tick
            buffer = wbc._structure.solver.data.rows  # the fastest way to read which rows exist
            source = buffer.C_source[: buffer.n_limits]
            now = Rows(command, tuple(source[source[:, 0] == 2, 2].tolist()) if case.limited else ())
            if last is not None and tick % EVERY:
                steps.append(float((np.abs(command.tau - last.command.tau) / robot.effort_limits).max()))
                came, went = set(now.rows) - set(last.rows), set(last.rows) - set(now.rows)
                count["changes"] += bool(came or went)
                caused = max([caused, *(step(robot, at, rows) for at, rows in ((now, came), (last, went)) if rows)])
            last = now
            if tick % JUDGED == JUDGED // 2:
                count["judged"] += 1
                if command.ok or command.status.outcome == "infeasible":
                    over = excess(command.details.problem.matrices(), command.details.x)
                    worst = max(worst, *([np.inf] if over is None else over))
                count["outside"] += bool(command.nonviable)
                active = {row.removesuffix(" distance") for row in command.levels[0].active}
                if active & set(limits.pairs):
                    count["held"] += 1
                    count["named"] += any(
                        pair in command.explain(include_last_level=True, max_lines=None) for pair in active
                    )
            a = command.acceleration
            q, v = robot.integrate(q, DT * v + 0.5 * DT * DT * a), v + DT * a
            room = float(model.distances(q)[kept].min()) - MARGIN
            least = min(least, room)
            count["below"] += room < 0.0
            count["broken"] += room < 0.0 and tick > unsolved + AFTER
            count["penetrating"] += room < -MARGIN
        wrong = [f"{count[key]} ticks {key}" for key in ("broken", "penetrating") if count[key]]
        wrong += [f"optimality to {worst:.1e}"] if worst > OPTIMAL else []
        wrong += [f"a pair moves torques by {caused:.1%}"] if caused > STEP else []
        return {
            "success": not (case.limited and wrong),
            "reason": "; ".join(wrong) or None,
            "pairs": len(kept),
            "least": least,
            "caused": caused,
            "worst": worst,
            "step": float(np.median(steps)),
            "large_step": float(np.quantile(steps, 0.999)),
            **{
                key: count[key]
                for key in (
                    "infeasible", "inaccurate", "fallback", "below", "broken", "penetrating", "changes", "judged",
                    "outside", "held", "named",
                )
            },
        }  # fmt: skip


def parts(total: int, most: int) -> Iterator[tuple[int, int]]:
    """Splits `total` into parts of at most `most`; yields their numbers and sizes."""
    for number in range(-(-total // most)):
        yield number, min(most, total - number * most)
