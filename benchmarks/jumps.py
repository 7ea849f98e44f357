"""Compares single jumps (up, forward, over a gap, onto a step, with a turn) with their plans: height, landing, heading.

    python benchmarks/jumps.py [--robots go2 hyq] [--plants mujoco] [--jumps up step] [--check]

Each robot stands in its home configuration and receives the command of a jump, without tuning per robot: 0.3 l high
(l: leg length); 0.6 l forward; 0.6 l forward with the front feet over a gap of 0.3 l; onto a step of 0.1 l right in
front of the feet; a quarter turn; and `most`, 2 l high, which the controller limits to the capability of the legs.  The
controller has a terrain map with gap and step.  If it rejects or limits a jump, it reports this before the jump begins;
the motion is then compared with its plan.

The table has, in leg lengths l: the planned and the measured rise of the center of mass from the lift-off of the last
foot, and the measured rise as a fraction of the ballistic limit that follows from torques and leg lengths alone
(`JumpDynamics.ballistic`); the planned distance, and the same as a fraction of the longest flight at that limit, 2 H;
the final error of the center of the feet, the largest error of a foot, and the error of the heading; and the number of
ticks from crouch to stance whose command has no valid certificate.  ``--check`` requires of 95 % of the jumps: landing
within 0.1 l and 5 degrees, rise within 15 % or 0.02 l, no fall, and at most 1 % of ticks without certificate.
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
DT = 2e-3  # period of controller and plant [s]
#: Friction coefficient of the ground and of the controller.
FRICTION = 0.8
#: Durations of standing before the jump, and of the jump including the recovery [sqrt(l / g)].
STANDING_TIME, JUMP_TIME = 1.0, 22.0
#: Height and distance of a jump, length of the gap, height of the step, distances of an edge before and after the feet
#: [l], turn [rad], and height of the jump `most` [l].
HEIGHT, DISTANCE, GAP, STEP, EDGE_DISTANCE, LANDING_MARGIN, TURN, EXCESSIVE_HEIGHT = (
    0.3,
    0.6,
    0.3,
    0.1,
    0.04,
    0.08,
    0.5 * math.pi,
    2.0,
)
#: Maximum errors for ``--check``: landing and rise [l], rise relative to the plan, heading [rad], and the maximum
#: fraction of ticks without a valid certificate.
MAX_LANDING_ERROR, MAX_RISE_ERROR, MAX_RELATIVE_RISE_ERROR, MAX_HEADING_ERROR, MAX_FLAGGED = (
    0.1,
    0.02,
    0.15,
    math.radians(5.0),
    0.01,
)


@dataclass
class JumpOutcome:
    """Outcome of a jump; lengths in leg lengths l.

    Attributes:
        plan: plan of the jump; None if it was rejected.
        limit_reason: reason for the rejection or the limitation.
        rise: rise of the center of mass from the lift-off of the last foot to the apex.
        landing: final distance of the center of the feet from its target.
        worst: largest final distance of a foot from its target.
        heading: error of the heading [rad].
        unsolved: number of ticks without a valid certificate.
        ticks: number of all ticks.
        fell: whether the robot does not stand at the end, or did not stand before the jump.
    """

    plan: JumpPlan | None
    limit_reason: str
    rise: float = math.nan
    landing: float = math.nan
    worst: float = math.nan
    heading: float = math.nan
    unsolved: int = 0
    ticks: int = 0
    fell: bool = False

    def agrees_with_plan(self, length: float) -> bool:
        """Returns whether the jump agrees with its plan, or was rejected."""
        if self.plan is None:
            return not self.fell
        planned_rise = self.plan.height / length
        rise_agrees = abs(self.rise - planned_rise) <= max(MAX_RISE_ERROR, MAX_RELATIVE_RISE_ERROR * planned_rise)
        heading_agrees = abs(self.heading) <= MAX_HEADING_ERROR
        return (
            rise_agrees
            and heading_agrees
            and self.landing <= MAX_LANDING_ERROR
            and not self.fell
            and self.unsolved <= MAX_FLAGGED * self.ticks
        )


def make_terrain(kind: str, robot: qd.Robot, controller: LocomotionController) -> Terrain:
    """Builds level ground, or ground with a gap or a step in front of the feet."""
    morphology = controller.morphology
    if kind not in ("gap", "step"):
        return Terrain.from_surfaces(Plane.floor())
    feet = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv)).origins(FEET)
    yaw, length = morphology.yaw(robot.q_home), morphology.length
    R = np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    height = 2.0 * length if kind == "gap" else STEP * length
    size = np.array([8.0 * length, 8.0 * length, height])
    edge_distance, feet_center = (
        float(np.abs(morphology.nominal_stance[:, 0]).max()) + EDGE_DISTANCE * length,
        np.array([*feet[:, :2].mean(axis=0), 0.0]),
    )
    if kind == "step":
        return Terrain.from_surfaces(
            [
                Plane.floor(),
                Box(feet_center + R @ np.array([edge_distance + 0.5 * size[0], 0.0, 0.5 * height]), size, R),
            ]
        )
    before, after = edge_distance - 0.5 * size[0], edge_distance + GAP * length + 0.5 * size[0]
    sides = [Box(feet_center + R @ np.array([x, 0.0, -0.5 * height]), size, R) for x in (before, after)]
    return Terrain.from_surfaces([Plane.floor(-height), *sides])


def jump_arguments(kind: str, controller: LocomotionController) -> dict[str, object]:
    """Returns the arguments of `LocomotionController.jump` for a kind of jump."""
    morphology = controller.morphology
    step_distance = (
        2.0 * float(np.abs(morphology.nominal_stance[:, 0]).max())
        + (EDGE_DISTANCE + LANDING_MARGIN) * morphology.length
    )
    return {
        "up": {"height": HEIGHT * morphology.length},
        "forward": {"distance": (DISTANCE * morphology.length, 0.0)},
        "gap": {"distance": (DISTANCE * morphology.length, 0.0)},
        "step": {"distance": (step_distance, 0.0)},
        "turn": {"turn": TURN},
        "most": {"height": EXCESSIVE_HEIGHT * morphology.length},
    }[kind]


def simulate_jump(name: str, plant: str, kind: str) -> tuple[JumpOutcome, float]:
    """Simulates a jump; returns its outcome and the leg length [m]."""
    robot = qd.load(name)
    controller = LocomotionController(robot, dt=DT, friction=FRICTION)
    morphology = controller.morphology
    terrain = make_terrain(kind, robot, controller)
    if kind in ("gap", "step"):
        controller.terrain = terrain
    simulator, dynamics = PLANTS[plant](robot, dt=DT, friction=FRICTION, terrain=terrain), qd.Dynamics(robot)
    simulator.reset(robot.q_home, np.zeros(robot.nv))
    for _ in range(round(STANDING_TIME * morphology.time_scale / DT)):
        simulator.step(controller.compute(dynamics.update(np.array(simulator.q), np.array(simulator.v))).tau)
    assert controller.ground is not None
    start, yaw = controller.ground.points.mean(axis=0), controller.path_reference.yaw
    try:
        plan = controller.jump(**jump_arguments(kind, controller))  # type: ignore[arg-type]
    except qd.ArgumentError as error:
        limit_reason = str(error).partition("cannot jump: ")[2]
        # Another reason means that the robot does not stand.
        return JumpOutcome(None, limit_reason or str(error), fell=not limit_reason), morphology.length
    outcome = JumpOutcome(plan, plan.limit_reason)
    lift_off_height: float | None = None
    apex_height, has_left_ground = -math.inf, False
    for _ in range(round(JUMP_TIME * morphology.time_scale / DT)):
        state = dynamics.update(np.array(simulator.q), np.array(simulator.v))
        command = controller.compute(state)
        is_flying = command.mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE)
        if is_flying and not has_left_ground:
            in_contact = any(simulator.contact_forces[foot][2] > 0.0 for foot in FEET)
            if in_contact or lift_off_height is None:
                lift_off_height, apex_height = float(state.com[2]), float(state.com[2])
            has_left_ground = not in_contact and float(state.com[2]) > plan.crouch_com_height + start[2]
        if is_flying:
            apex_height = max(apex_height, float(state.com[2]))
        outcome.ticks += 1
        outcome.unsolved += not command.ok and command.mode is not LocomotionMode.FALLEN
        if command.mode is LocomotionMode.FALLEN:
            outcome.fell = True
            break
        simulator.step(command.tau)
    state = dynamics.update(np.array(simulator.q), np.array(simulator.v))
    feet = state.origins(FEET)
    c, s = math.cos(yaw), math.sin(yaw)
    R = np.array([[c, -s], [s, c]])
    c, s = math.cos(plan.turn), math.sin(plan.turn)
    target = morphology.nominal_stance @ np.array([[c, s], [-s, c]]) + plan.distance
    foot_errors = feet[:, :2] - start[:2] - target @ R.T
    outcome.rise = (apex_height - (lift_off_height if lift_off_height is not None else apex_height)) / morphology.length
    outcome.landing = float(np.linalg.norm(foot_errors.mean(axis=0))) / morphology.length
    outcome.worst = float(np.linalg.norm(foot_errors, axis=1).max()) / morphology.length
    outcome.heading = math.remainder(morphology.yaw(np.array(simulator.q)) - yaw - plan.turn, 2.0 * math.pi)
    height = float(state.com[2]) - float((feet[:, 2] - morphology.radii).mean())
    outcome.fell |= not 0.9 * morphology.height < height < 1.1 * morphology.height
    outcome.fell |= (
        abs(float(feet[:, 2].mean() - morphology.radii.mean()) - start[2] - plan.landing_height)
        > 0.05 * morphology.length
    )
    return outcome, morphology.length


def format_row(name: str, plant: str, kind: str, outcome: JumpOutcome, length: float) -> str:
    """Returns a row of the table."""
    labels = f"{name:10}{plant:9}{kind:8}"
    plan = outcome.plan
    if plan is None:
        return f"{labels}rejected: {outcome.limit_reason}"
    limit = plan.ballistic_height / length
    distance = float(np.hypot(*plan.distance)) / length
    landing_text = (
        "FELL" if outcome.fell else f"{outcome.landing:7.3f}{outcome.worst:7.3f}{math.degrees(outcome.heading):+7.1f}"
    )
    limit_text = f"  limited: {outcome.limit_reason}" if outcome.limit_reason else ""
    return (
        f"{labels}{plan.height / length:7.3f}{outcome.rise:8.3f}{outcome.rise / limit:7.2f}{distance:8.3f}"
        f"{distance / (2.0 * limit):7.2f}{math.degrees(plan.turn):7.0f}{landing_text}{outcome.unsolved:5d}{limit_text}"
    )


def main() -> int:
    """Prints the table; returns 1 if the requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="*", default=ROBOTS, help="names of the catalogue")
    parser.add_argument("--plants", nargs="*", default=tuple(PLANTS), help="plants in which jumps are run")
    parser.add_argument("--jumps", nargs="*", default=JUMPS, choices=JUMPS, help="kinds of jumps")
    parser.add_argument(
        "--check", action="store_true", help="exit code 1 unless 95 %% of the jumps agree with their plans"
    )
    options = parser.parse_args()
    headers = ("plan", "rise", "frac.", "dist.", "frac.", "turn", "error", "foot", "deg", "flag")
    print(
        f"{'robot':10}{'plant':9}{'jump':8}"
        + "".join(f"{h:>{w}}" for h, w in zip(headers, (7, 8, 7, 8, 7, 7, 7, 7, 7, 5), strict=True))
    )
    n_agree = n_trials = n_rejected = 0
    for name in options.robots:
        for plant in options.plants:
            for kind in options.jumps:
                outcome, length = simulate_jump(name, plant, kind)
                agrees = outcome.agrees_with_plan(length)
                n_agree, n_trials, n_rejected = (
                    n_agree + agrees,
                    n_trials + 1,
                    n_rejected + (agrees and outcome.plan is None),
                )
                print(format_row(name, plant, kind, outcome, length) + ("" if agrees else "  MISSED"), flush=True)
    print(f"{n_agree} of {n_trials} jumps agree with their plans; {n_rejected} of them were rejected before the jump")
    return int(options.check and n_agree < 0.95 * n_trials)


if __name__ == "__main__":
    sys.exit(main())
