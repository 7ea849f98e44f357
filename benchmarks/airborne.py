"""Drops quadrupeds with a tilted trunk and random joint positions onto flat ground and counts successful landings.

    python benchmarks/airborne.py [--seeds 6] [--height 0.3] [--tilt 10] [--felt] [--check]

Each quadruped of the catalogue starts in the air, at rest: the lowest foot is up to `height` leg lengths above the
ground, the trunk is tilted by up to `tilt` degrees about a random horizontal axis, and every leg joint is up to 0.3 rad
from its home position, within its limits.  A trial succeeds if the controller never reports a fall and the robot stands
at its nominal height at the end.  With ``--felt`` the controller gets the measured contacts of the feet; otherwise it
estimates them.  ``--check`` requires that 95 % of the trials succeed.
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
DT = 2e-3  # period of controller and plant [s]
#: Duration of a trial [sqrt(l / g)], and at its end the minimum height of the center of mass as a fraction of the
#: nominal one and the minimum cosine of the trunk's tilt.
DURATION, MIN_HEIGHT_FRACTION, MIN_TILT_COSINE = 24.0, 0.85, 0.95


def random_airborne_configuration(
    robot: qd.Robot, height: float, tilt: float, joint_spread: float, rng: np.random.Generator
) -> np.ndarray:
    """Draws a configuration in the air.

    Args:
        robot: a quadruped.
        height: largest height of the lowest foot above the ground [m].
        tilt: largest tilt of the trunk [rad].
        joint_spread: largest offset of a joint from home [rad].
        rng: random number generator of the trial.
    """
    q, morphology = np.array(robot.q_home), LocomotionController(robot, dt=DT).morphology
    for joint in (joint for foot in robot.feet for joint in robot.legs[foot].joints):
        index = robot.configuration_index(joint)
        low, high = robot.lower[index], robot.upper[index]
        value = q[index] + rng.uniform(-joint_spread, joint_spread)
        q[index] = np.clip(value, low, high) if low < high else value
    direction, yaw = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(-np.pi, np.pi)
    axis = np.array([np.cos(direction), np.sin(direction), 0.0])
    R = pin.exp3(rng.uniform(0.0, tilt) * axis) @ pin.exp3(np.array([0.0, 0.0, yaw]))
    q[3:7] = pin.Quaternion(R @ pin.Quaternion(q[3:7]).toRotationMatrix()).coeffs()
    dynamics = qd.Dynamics(robot)
    feet = [dynamics.frame_placement(q, foot).translation[2] for foot in robot.feet]
    q[2] += rng.uniform(0.0, height) - min(np.array(feet) - morphology.radii)
    return q


def run_trial(
    name: str, kind: str, seed: int, *, height: float, tilt: float, joint_spread: float, measured: bool
) -> str:
    """Runs a trial and returns "" if the robot stands at its end, else a description of the failure."""
    robot = qd.load(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    controller = LocomotionController(robot, dt=DT)
    morphology = controller.morphology
    q = random_airborne_configuration(robot, height * morphology.length, np.radians(tilt), joint_spread, rng)
    plant, dynamics = PLANTS[kind](robot, dt=DT), qd.Dynamics(robot)
    plant.reset(q, np.zeros(robot.nv))
    min_force, modes = 0.02 * morphology.mass * morphology.gravity, list[LocomotionMode]()
    for k in range(round(DURATION * morphology.time_scale / DT)):
        contacts = [f for f in robot.feet if plant.contact_forces[f][2] > min_force] if measured else None
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state, measured_contacts=contacts)
        modes.append(command.mode)
        if command.mode is LocomotionMode.FALLEN:
            return f"fell at {k * DT:.2f} s"
        try:
            plant.step(command.tau)
        except qd.DivergenceError:
            return "diverged"
    state = dynamics.update(np.array(plant.q), np.array(plant.v))
    R = state.placement(robot.bodies[0].name).rotation @ morphology.heading
    if state.com[2] < MIN_HEIGHT_FRACTION * morphology.height or R[2, 2] < MIN_TILT_COSINE:
        return (
            f"{modes[-1].value} at {state.com[2] / morphology.height:.2f} h, {np.degrees(np.arccos(R[2, 2])):.0f} deg"
        )
    return ""


def main() -> int:
    """Prints the table; returns 1 if the requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="trials of each robot in each plant")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--height", type=float, default=0.3, help="largest height of the lowest foot [leg lengths]")
    parser.add_argument("--tilt", type=float, default=10.0, help="largest tilt of the trunk [deg]")
    parser.add_argument("--spread", type=float, default=0.3, help="largest offset of a joint from home [rad]")
    parser.add_argument("--robots", nargs="*", default=ROBOTS, help="names of the catalogue")
    parser.add_argument("--plants", nargs="*", default=tuple(PLANTS), help="plants in which trials are run")
    parser.add_argument("--felt", action="store_true", help="give the controller the measured contacts of the feet")
    parser.add_argument("--check", action="store_true", help="exit code 1 unless 95 %% of the trials succeed")
    options = parser.parse_args()
    n_standing = n_trials = 0
    for name in options.robots:
        cells = [f"{name:16}"]
        for kind in options.plants:
            failures = [
                run_trial(
                    name,
                    kind,
                    seed,
                    height=options.height,
                    tilt=options.tilt,
                    joint_spread=options.spread,
                    measured=options.felt,
                )
                for seed in range(options.first, options.first + options.seeds)
            ]
            n_success = sum(not each for each in failures)
            n_standing, n_trials = n_standing + n_success, n_trials + len(failures)
            failure_texts = "; ".join(f"{options.first + i}: {each}" for i, each in enumerate(failures) if each)
            cells.append(f"{kind} {n_success}/{len(failures)}{f' ({failure_texts})' if failure_texts else ''}")
        print("  ".join(cells), flush=True)
    print(f"{n_standing} of {n_trials} stand ({100.0 * n_standing / max(n_trials, 1):.1f} %)")
    return int(options.check and n_standing < 0.95 * n_trials)


if __name__ == "__main__":
    sys.exit(main())
