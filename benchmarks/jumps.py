"""Compares single jumps (up, forward, over a gap, onto a step, with a turn) with their plans: height, landing, heading.

    python benchmarks/jumps.py [--robots go2 hyq] [--plants mujoco] [--jumps up step] [--check]

Each robot stands at home, and gets the command to jump, without tuning: 0.3 l high; 0.6 l forward; as far, with its
front feet across a gap of 0.3 l; onto a step of 0.1 l right before its feet; a quarter turn; and `most`, 2 l high,
which is limited to what its legs can do.  It has a terrain map with gap and step.  A robot that rejects or limits a
jump reports it before the jump begins; the motion is then compared with its plan.

The table has, in leg lengths l: the rise of the center of mass from where the last foot leaves the ground, as planned
and as reached, and as a share of the ballistic limit that follows from torques and leg lengths alone
(`JumpDynamics.ballistic`); the distance as planned and as a share of the longest flight at that limit, 2 H; how far the
middle of the feet is in the end from where it was to be, the worst single foot, and the error of the heading; ticks
from crouch to stance whose command was without its certificate.  ``--check`` asks for landings within 0.1 l and 5
degrees, rises within 15 % or 0.02 l, no fall, and at most 1 % of such ticks, of 95 % of the
jumps.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np

import quaddyn as qd
from quaddyn.locomotion import FEET, JumpPlan, LocomotionController, LocomotionMode
from quaddyn.simulation import MujocoPlant, Plant, Simulation
from quaddyn.simulation.terrain import Box, Plane, Terrain

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "b1", "hyq", "laikago")
PLANTS: dict[str, type[Plant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
JUMPS = ("up", "forward", "gap", "step", "turn", "most")
DT = 2e-3
#: Friction coefficient of the ground and of the controller.
FRICTION = 0.8
#: Duration of standing before the jump, and of the jump with the time to stand again [sqrt(l / g)].
STANDING_TIME, JUMP_TIME = 1.0, 22.0
#: Heights and lengths [l], and the turn [rad].
HIGH, FAR, GAP, STEP, AHEAD, BEYOND, TURN, TOO_HIGH = 0.3, 0.6, 0.3, 0.1, 0.04, 0.08, 0.5 * math.pi, 2.0
#: Largest errors for ``--check``: landing and rise [l], rise relative to the plan, heading [rad], and the largest
#: fraction of ticks without a certificate.
MAX_LANDING_ERROR, MAX_RISE_ERROR, MAX_RELATIVE_RISE_ERROR, MAX_HEADING_ERROR, MAX_FLAGGED = (
    0.1,
    0.02,
    0.15,
    math.radians(5.0),
    0.01,
)


@dataclass
class Outcome:
    """Of one jump; lengths in l.

    Attributes:
        plan: None where it was refused.
        why: what refused or cut it.
        rise: of the center of mass from where the last foot leaves the ground to the top.
        landing: distance of the middle of the feet from where it was to be, in the end.
        worst: of the worst foot.
        heading: error [rad].
        unsolved: ticks without a certificate.
        ticks: of all.
        fell: whether it does not stand in the end, or no longer stood when it was to jump.
    """

    plan: JumpPlan | None
    why: str
    rise: float = math.nan
    landing: float = math.nan
    worst: float = math.nan
    heading: float = math.nan
    unsolved: int = 0
    ticks: int = 0
    fell: bool = False

    def good(self, length: float) -> bool:
        """Returns whether the jump agrees with its plan, or was rejected."""
        if self.plan is None:
            return not self.fell
        planned = self.plan.height / length
        rises = abs(self.rise - planned) <= max(MAX_RISE_ERROR, MAX_RELATIVE_RISE_ERROR * planned)
        turns = abs(self.heading) <= MAX_HEADING_ERROR
        return (
            rises
            and turns
            and self.landing <= MAX_LANDING_ERROR
            and not self.fell
            and self.unsolved <= MAX_FLAGGED * self.ticks
        )


def ground(kind: str, robot: qd.Robot, controller: LocomotionController) -> Terrain:
    """Level, or with a step ahead of the feet."""
    p = controller.morphology
    if kind not in ("gap", "step"):
        return Terrain.from_surfaces(Plane.floor())
    feet = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv)).origins(FEET)
    yaw, unit = p.yaw(robot.q_home), p.length
    R = np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    high = 2.0 * unit if kind == "gap" else STEP * unit
    size = np.array([8.0 * unit, 8.0 * unit, high])
    begins, base = (
        float(np.abs(p.nominal_stance[:, 0]).max()) + AHEAD * unit,
        np.array([*feet[:, :2].mean(axis=0), 0.0]),
    )
    if kind == "step":
        return Terrain.from_surfaces(
            [Plane.floor(), Box(base + R @ np.array([begins + 0.5 * size[0], 0.0, 0.5 * high]), size, R)]
        )
    before, after = begins - 0.5 * size[0], begins + GAP * unit + 0.5 * size[0]
    banks = [Box(base + R @ np.array([x, 0.0, -0.5 * high]), size, R) for x in (before, after)]
    return Terrain.from_surfaces([Plane.floor(-high), *banks])


def jump_arguments(kind: str, controller: LocomotionController) -> dict[str, object]:
    """Arguments of `LocomotionController.jump`."""
    p = controller.morphology
    onto = 2.0 * float(np.abs(p.nominal_stance[:, 0]).max()) + (AHEAD + BEYOND) * p.length
    return {
        "up": {"height": HIGH * p.length},
        "forward": {"distance": (FAR * p.length, 0.0)},
        "gap": {"distance": (FAR * p.length, 0.0)},
        "step": {"distance": (onto, 0.0)},
        "turn": {"turn": TURN},
        "most": {"height": TOO_HIGH * p.length},
    }[kind]


def jump(name: str, plant: str, kind: str) -> tuple[Outcome, float]:
    """One trial, and the leg's length [m]."""
    robot = qd.load(name)
    controller = LocomotionController(robot, dt=DT, friction=FRICTION)
    p = controller.morphology
    terrain = ground(kind, robot, controller)
    if kind in ("gap", "step"):
        controller.terrain = terrain
    world, dynamics = PLANTS[plant](robot, dt=DT, friction=FRICTION, terrain=terrain), qd.Dynamics(robot)
    world.reset(robot.q_home, np.zeros(robot.nv))
    for _ in range(round(STANDING_TIME * p.time_scale / DT)):
        world.step(controller.compute(dynamics.update(np.array(world.q), np.array(world.v))).tau)
    assert controller.ground is not None
    start, yaw = controller.ground.points.mean(axis=0), controller.path_reference.yaw
    try:
        plan = controller.jump(**jump_arguments(kind, controller))  # type: ignore[arg-type]
    except qd.ArgumentError as refusal:
        why = str(refusal).partition("cannot: ")[2]
        return Outcome(
            None, why or str(refusal), fell=not why
        ), p.length  # without this reason the robot no longer stands
    out = Outcome(plan, plan.limit_reason)
    left: float | None = None
    top, flown = -math.inf, False
    for _ in range(round(JUMP_TIME * p.time_scale / DT)):
        state = dynamics.update(np.array(world.q), np.array(world.v))
        command = controller.compute(state)
        flies = command.mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE)
        if flies and not flown:
            touching = any(world.contact_forces[foot][2] > 0.0 for foot in FEET)
            if touching or left is None:
                left, top = float(state.com[2]), float(state.com[2])
            flown = not touching and float(state.com[2]) > plan.crouch_com_height + start[2]
        if flies:
            top = max(top, float(state.com[2]))
        out.ticks += 1
        out.unsolved += not command.ok and command.mode is not LocomotionMode.FALLEN
        if command.mode is LocomotionMode.FALLEN:
            out.fell = True
            break
        world.step(command.tau)
    state = dynamics.update(np.array(world.q), np.array(world.v))
    feet = state.origins(FEET)
    c, s = math.cos(yaw), math.sin(yaw)
    R = np.array([[c, -s], [s, c]])
    c, s = math.cos(plan.turn), math.sin(plan.turn)
    home = p.nominal_stance @ np.array([[c, s], [-s, c]]) + plan.distance
    miss = feet[:, :2] - start[:2] - home @ R.T
    out.rise = (top - (left if left is not None else top)) / p.length
    out.landing = float(np.linalg.norm(miss.mean(axis=0))) / p.length
    out.worst = float(np.linalg.norm(miss, axis=1).max()) / p.length
    out.heading = math.remainder(p.yaw(np.array(world.q)) - yaw - plan.turn, 2.0 * math.pi)
    height = float(state.com[2]) - float((feet[:, 2] - p.radii).mean())
    out.fell |= not 0.9 * p.height < height < 1.1 * p.height
    out.fell |= abs(float(feet[:, 2].mean() - p.radii.mean()) - start[2] - plan.landing_height) > 0.05 * p.length
    return out, p.length


def line(name: str, plant: str, kind: str, found: Outcome, length: float) -> str:
    """A row of the table."""
    begin = f"{name:10}{plant:9}{kind:8}"
    plan = found.plan
    if plan is None:
        return f"{begin}refused: {found.why}"
    limit = plan.ballistic_height / length
    away = float(np.hypot(*plan.distance)) / length
    end = "FELL" if found.fell else f"{found.landing:7.3f}{found.worst:7.3f}{math.degrees(found.heading):+7.1f}"
    cut = f"  cut: {found.why}" if found.why else ""
    return (
        f"{begin}{plan.height / length:7.3f}{found.rise:8.3f}{found.rise / limit:7.2f}{away:8.3f}"
        f"{away / (2.0 * limit):7.2f}{math.degrees(plan.turn):7.0f}{end}{found.unsolved:5d}{cut}"
    )


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--plants", nargs="*", default=tuple(PLANTS))
    parser.add_argument("--jumps", nargs="*", default=JUMPS, choices=JUMPS)
    parser.add_argument(
        "--check", action="store_true", help="exit code 1 unless 95 %% of the jumps agree with their plans"
    )
    given = parser.parse_args()
    heads = ("rise", "reached", "share", "dist.", "share", "turn", "miss", "foot", "deg", "bad")
    print(
        f"{'robot':10}{'plant':9}{'jump':8}"
        + "".join(f"{h:>{w}}" for h, w in zip(heads, (7, 8, 7, 8, 7, 7, 7, 7, 7, 5), strict=True))
    )
    good = trials = refused = 0
    for name in given.robots:
        for plant in given.plants:
            for kind in given.jumps:
                found, length = jump(name, plant, kind)
                fine = found.good(length)
                good, trials, refused = good + fine, trials + 1, refused + (fine and found.plan is None)
                print(line(name, plant, kind, found, length) + ("" if fine else "  MISSED"), flush=True)
    print(f"{good} of {trials} jumps as planned, of which {refused} were refused beforehand")
    return int(given.check and good < 0.95 * trials)


if __name__ == "__main__":
    sys.exit(main())
