"""Starts in the air: quadrupeds dropped askew, with random joints, onto flat ground; how many land and stand.

    python benchmarks/airborne.py [--seeds 6] [--height 0.3] [--tilt 10] [--felt] [--check]

Each robot of the catalogue that stands on four legs is put into the air: its lowest foot up to `height` leg lengths
above the ground, its trunk tilted by up to `tilt` degrees about a random horizontal axis, every joint of its legs up to
0.3 rad off home and within its limits, at rest.  It has landed if it is never given up as fallen and stands at its
height in the end.  Without ``--felt`` the controller has no foot sensors and estimates what touches.
"""

from __future__ import annotations

import argparse
import sys
import zlib

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, LocomotionMode
from quaddyn.simulation import MujocoPlant, Plant, Simulation

ROBOTS = (
    "a1", "anymal_b", "anymal_c", "b1", "b1_z1", "go1", "go2", "hyq", "laikago", "quadruped", "solo8", "solo12",
    "small_quadruped",
)  # fmt: skip
PLANTS: dict[str, type[Plant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
DT = 2e-3
#: How long a trial takes [sqrt(l / g)], and what the controller should do by then: share of its height, tilt (cosine).
DURATION, UPRIGHT, LEVEL = 24.0, 0.85, 0.95


def start(robot: qd.Robot, height: float, tilt: float, spread: float, rng: np.random.Generator) -> np.ndarray:
    """A configuration in the air.

    Args:
        robot: a quadruped.
        height: largest height of the lowest foot above the ground [m].
        tilt: largest tilt of the trunk [rad].
        spread: largest offset of a joint from home [rad].
        rng: of the trial.
    """
    q, p = np.array(robot.q_home), LocomotionController(robot, dt=DT).morphology
    for joint in (joint for foot in robot.feet for joint in robot.legs[foot].joints):
        at = robot.configuration_index(joint)
        low, high = robot.lower[at], robot.upper[at]
        value = q[at] + rng.uniform(-spread, spread)
        q[at] = np.clip(value, low, high) if low < high else value
    direction, yaw = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(-np.pi, np.pi)
    axis = np.array([np.cos(direction), np.sin(direction), 0.0])
    R = pin.exp3(rng.uniform(0.0, tilt) * axis) @ pin.exp3(np.array([0.0, 0.0, yaw]))
    q[3:7] = pin.Quaternion(R @ pin.Quaternion(q[3:7]).toRotationMatrix()).coeffs()
    dynamics = qd.Dynamics(robot)
    feet = [dynamics.frame_placement(q, foot).translation[2] for foot in robot.feet]
    q[2] += rng.uniform(0.0, height) - min(np.array(feet) - p.radii)
    return q


def land(name: str, kind: str, seed: int, *, height: float, tilt: float, spread: float, felt: bool) -> str:
    """One trial: "" if the robot stands in the end, else what happened."""
    robot = qd.load(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    controller = LocomotionController(robot, dt=DT)
    p = controller.morphology
    q = start(robot, height * p.length, np.radians(tilt), spread, rng)
    plant, dynamics = PLANTS[kind](robot, dt=DT), qd.Dynamics(robot)
    plant.reset(q, np.zeros(robot.nv))
    load, modes = 0.02 * p.mass * p.gravity, list[LocomotionMode]()
    for k in range(round(DURATION * p.time_scale / DT)):
        touching = [f for f in robot.feet if plant.contact_forces[f][2] > load] if felt else None
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state, measured_contacts=touching)
        modes.append(command.mode)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.2f} s"
        try:
            plant.step(command.tau)
        except qd.DivergenceError:
            return "diverged"
    state = dynamics.update(np.array(plant.q), np.array(plant.v))
    R = state.placement(robot.bodies[0].name).rotation @ p.heading
    if state.com[2] < UPRIGHT * p.height or R[2, 2] < LEVEL:
        return f"{modes[-1].value} at {state.com[2] / p.height:.2f} h, {np.degrees(np.arccos(R[2, 2])):.0f} deg"
    return ""


def main() -> int:
    """Print the table; 1 if `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="trials of each robot in each plant")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--height", type=float, default=0.3, help="most height of the lowest foot [leg lengths]")
    parser.add_argument("--tilt", type=float, default=10.0, help="most tilt of the trunk [deg]")
    parser.add_argument("--spread", type=float, default=0.3, help="most offset of a joint from home [rad]")
    parser.add_argument("--robots", nargs="*", default=ROBOTS)
    parser.add_argument("--plants", nargs="*", default=tuple(PLANTS))
    parser.add_argument("--felt", action="store_true", help="feet have sensors")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless 95 %% stand")
    asked = parser.parse_args()
    stood = trials = 0
    for name in asked.robots:
        line = [f"{name:16}"]
        for kind in asked.plants:
            found = [
                land(name, kind, seed, height=asked.height, tilt=asked.tilt, spread=asked.spread, felt=asked.felt)
                for seed in range(asked.first, asked.first + asked.seeds)
            ]
            good = sum(not each for each in found)
            stood, trials = stood + good, trials + len(found)
            failed = "; ".join(f"{asked.first + i}: {each}" for i, each in enumerate(found) if each)
            line.append(f"{kind} {good}/{len(found)}{f' ({failed})' if failed else ''}")
        print("  ".join(line), flush=True)
    print(f"{stood} of {trials} stand ({100.0 * stood / max(trials, 1):.1f} %)")
    return int(asked.check and stood < 0.95 * trials)


if __name__ == "__main__":
    sys.exit(main())
