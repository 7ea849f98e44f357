"""Compares estimated base states from noisy sensors with the true states of both plants: drift, errors, consistency.

    python benchmarks/estimation.py [--robot go2] [--seconds 6] [--seeds 3] [--grounds flat slope=10 ...] [--check]

A robot that is controlled by its true state stands, crawls, walks, trots, paces and bounds on level ground, up a slope,
up stairs and over waves.  Simulated sensors with the noise and biases of a consumer IMU and of 14-bit encoders measure
the motion, with different noise for every seed.  Three estimates use the same readings: that of `BaseEstimator`; that
of a plain Kalman filter (linear, in world axes, with the attitude from a complementary filter; Bloesch et al. 2013,
Bledt et al. 2018); and leg odometry, the mean velocity of the stance feet, constant while no foot is in contact.  A
foot is in contact if its force exceeds a twentieth of the weight.

NEES is the squared error of attitude, velocity and position in the metric of the filter's covariance, divided by its
nine dimensions: its mean is 1 for a consistent filter, and 95 % of its values lie below 1.88.  It is printed for the
default filter, which assumes that feet creep and slip as on real ground, and, in the embedded plant, for a filter with
the true parameters of that plant: contacts are rigid, and stance feet do not move (`RIGID`; not on stairs, where feet
roll on edges and not on a plane).  The last columns are velocities from readings that are 4 ms late, without and with
`BaseEstimator.predict`.

With ``--check`` the exit code is 1 unless the filter drifts by less than 1 % of the distance walked or less than 2
mm/s; the mean NEES of every scene is within the 95 % bounds of one error, 0.30 and 2.11, for the filter with the
parameters of the plant, and not above them for the default filter; and no other estimate of the velocity is better.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.campaigns.trial_runner import encoders, imu, sensor_noise
from quaddyn.demo.locomotion_run import parse_terrain
from quaddyn.estimation import BaseEstimator
from quaddyn.kernels import TickTerms
from quaddyn.robot.configuration import rotate_configuration
from quaddyn.simulation import FootSensors, Measurement, MujocoPlant, Sensors, Simulation
from quaddyn.simulation.sensors import Observable

DT, LATE = 2e-3, 2  # control period [s], delay of late readings [ticks]
PLANTS = {"embedded": Simulation, "mujoco": MujocoPlant}
GAITS = ("stand", "crawl", "walk", "trot", "pace", "bound")
GROUNDS = ("flat", "slope=10", "stairs=0.05,0.3", "waves=0.04,0.8")
NOISE = sensor_noise()
#: Noise of the feet in the embedded plant, whose contacts are rigid: stance feet do not move, except for the simplified
#: rolling of their spheres.
RIGID = replace(NOISE, foothold_random_walk=1e-4, contact_velocity=1e-3)
#: Two-sided and one-sided 95 % bounds of chi-square with nine degrees of freedom, divided by the dimension.
BOUNDS, UPPER = (2.700 / 9.0, 19.023 / 9.0), 16.919 / 9.0


@dataclass(frozen=True)
class Motion(Observable):
    """Recorded motion of a robot; simulated sensors measure the tick `at[0]`."""

    robot: qd.Robot
    states: np.ndarray
    velocities: np.ndarray
    torques: np.ndarray
    forces: np.ndarray
    accelerations: np.ndarray
    at: list[int]

    @property
    def q(self) -> np.ndarray:
        """Configuration (nq,) at the tick."""
        return self.states[self.at[0]]

    @property
    def v(self) -> np.ndarray:
        """Generalized velocity (nv,) at the tick."""
        return self.velocities[self.at[0]]

    @property
    def time(self) -> float:
        """Time of the tick [s]."""
        return self.at[0] * DT

    @property
    def tau(self) -> np.ndarray:
        """Joint torques (nu,) at the tick [N m]."""
        return self.torques[self.at[0]]

    @property
    def contact_forces(self) -> Mapping[str, np.ndarray]:
        """Contact forces (3,) at the tick by foot, world axes [N]."""
        return dict(zip(self.robot.feet, self.forces[self.at[0]], strict=True))

    @property
    def length(self) -> float:
        """Length of the path of the base [m]."""
        return float(np.linalg.norm(np.diff(self.states[:, :3], axis=0), axis=1).sum())


def simulate_motion(robot: qd.Robot, plant: str, gait: str, where: str, seconds: float) -> Motion | None:
    """Simulates a motion controlled by the true state; returns None if the robot falls.

    On uneven ground the controller has a terrain map and measured contacts.
    """
    ground = None if where == "flat" else parse_terrain(where, robot)
    uneven = ground is not None and not where.startswith("slope")
    terrain = None if ground is None else ground.terrain
    controller = qd.LocomotionController(robot, dt=DT, gait=gait, terrain=terrain if uneven else None)
    simulator = PLANTS[plant](robot, dt=DT, friction=0.8, terrain=terrain)
    start = np.array(robot.q_home) if ground is None else rotate_configuration(robot.q_home, ground.tilt)
    simulator.reset(start, np.zeros(robot.nv))
    scale = math.sqrt(controller.morphology.length / 0.3)
    velocity_command = np.array([0.3, 0.05, 0.2] if ground is None else [0.25, 0.0, 0.0]) * [scale, scale, 1.0 / scale]
    dynamics, rows = qd.Dynamics(robot), []
    for k in range(round(seconds / DT)):
        q, v, contact_forces = np.array(simulator.q), np.array(simulator.v), simulator.contact_forces
        forward = k * DT > 0.5 and gait != "stand"
        contacts = (
            [foot for foot in robot.feet if foot in contact_forces and contact_forces[foot].any()] if uneven else None
        )
        state = dynamics.update(q, v)
        command = controller.compute(state, velocity_command if forward else np.zeros(3), measured_contacts=contacts)
        if command.wbc_command is None or command.mode.value == "fallen":
            return None
        forces = np.array([contact_forces.get(foot, np.zeros(3)) for foot in robot.feet])
        rows.append((q, v, np.array(simulator.tau), forces, command.wbc_command.acceleration))
        simulator.step(command.tau)
    return Motion(robot, *(np.array(x) for x in zip(*rows, strict=True)), at=[0])


def read_sensors(
    motion: Motion, seed: int, delay: float = 0.0
) -> Iterator[tuple[int, Measurement, list[str], Sensors]]:
    """Yields tick, sensor readings, stance feet and sensors of a motion."""
    robot = motion.robot
    feet = FootSensors(noise=1e-3 * robot.mass * 9.81)
    rng = np.random.default_rng(seed)
    sensors = Sensors(robot, rng, encoders=encoders(), imu=imu(), feet=feet, delay=delay)
    for k in range(len(motion.states)):
        motion.at[0] = k
        m = sensors.read(motion)
        foot_forces = zip(robot.feet, m.foot_forces, strict=True)
        yield k, m, [foot for foot, force in foot_forces if force > 0.05 * 9.81 * robot.mass], sensors


class LegKinematics:
    """Leg kinematics: positions and velocities of the feet relative to the base, and their rolling."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.terms = robot, TickTerms(robot, robot.feet)
        self.q, self.v, self.out = np.array(robot.neutral), np.zeros(robot.nv), np.zeros(self.terms.size)
        self.at = [robot.configuration_index(name) for name in robot.actuated]

    def feet(self, m: Measurement, stance: list[str], R: np.ndarray, omega: np.ndarray) -> dict[str, np.ndarray]:
        """Computes rows ``(R c, v, u)`` in world axes for each stance foot.

        Args:
            m: measurement.
            stance: names of the stance feet.
            R: rotation from base to world axes.
            omega: angular velocity of the base in base axes [rad/s].

        Returns:
            By foot, its position relative to the base [m], the base velocity according to the foot [m/s], and the
            velocity of its center due to rolling [m/s].
        """
        self.q[self.at], self.v[self.robot.actuated_index] = m.position, m.velocity
        views = self.terms.layout.views(self.terms(self.q, self.v, self.out))
        results = {}
        for foot in stance:
            c, rate = views[f"{foot}.origin"], views[f"{foot}.velocity"]
            rolling = np.cross(R @ (rate[3:] + omega), [0.0, 0.0, self.robot.legs[foot].foot.radius])
            results[foot] = np.array([R @ c, rolling - R @ (np.cross(omega, c) + rate[:3]), rolling])
        return results


class PlainFilter:
    """Kalman filter of base and foot positions and of the velocity in world axes; complementary filter of attitude."""

    def __init__(self, robot: qd.Robot, q: np.ndarray) -> None:
        n = len(robot.feet)
        self.legs, self.R = LegKinematics(robot), pin.Quaternion(q[3:7].copy()).toRotationMatrix()
        self.x, self.P = np.zeros(6 + 3 * n), np.zeros((6 + 3 * n, 6 + 3 * n))
        self.x[:3] = q[:3]
        self.P[3:6, 3:6] = NOISE.initial_velocity**2 * np.eye(3)
        self.known_feet: set[str] = set()

    def update(self, m: Measurement, stance: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the estimates of rotation, position [m] and velocity [m/s] of the base in world axes."""
        direction = m.accelerometer / np.linalg.norm(m.accelerometer)
        self.R = self.R @ pin.exp3((m.gyro + 0.1 * np.cross(direction, self.R[2])) * DT)
        x, P, F = self.x, self.P, np.eye(len(self.x))
        a = self.R @ m.accelerometer + self.legs.robot.model.gravity.linear
        x[:3] += DT * (x[3:6] + 0.5 * DT * a)
        x[3:6] += DT * a
        F[:3, 3:6] = DT * np.eye(3)
        # The attitude error contributes to the error of the acceleration, in addition to the noise of the sensor.
        noise = np.r_[np.full(3, 1e-10), np.full(3, (DT * (NOISE.accelerometer + 0.1)) ** 2), np.zeros(len(x) - 6)]
        noise[6:] = NOISE.foothold_random_walk**2 * DT
        P[:] = F @ P @ F.T + np.diag(noise)
        feet = self.legs.feet(m, stance, self.R, m.gyro)
        for i, foot in enumerate(self.legs.robot.feet):
            at = slice(6 + 3 * i, 9 + 3 * i)
            if foot not in feet:
                self.known_feet.discard(foot)
                continue
            position, velocity, rolling = feet[foot]
            if foot not in self.known_feet:
                self.known_feet.add(foot)
                x[at], P[at], P[:, at] = x[:3] + position, 0.0, 0.0
                P[at, at] = np.eye(3)
            x[at] += DT * rolling
            H, z = np.zeros((6, len(x))), np.r_[position - (x[at] - x[:3]), velocity - x[3:6]]
            H[:3, at], H[:3, :3], H[3:, 3:6] = np.eye(3), -np.eye(3), np.eye(3)
            noises = np.r_[
                np.full(3, (0.3 * NOISE.position) ** 2 + NOISE.leg_kinematics**2),
                np.full(3, (0.3 * NOISE.velocity) ** 2),
            ]
            noises[3:] += NOISE.contact_velocity**2
            K = P @ H.T @ np.linalg.inv(H @ P @ H.T + np.diag(noises))
            x += K @ z
            P -= K @ H @ P
            P[:] = 0.5 * (P + P.T)
        return self.R, x[:3], x[3:6]


class Odometry:
    """Leg odometry: mean velocity of the stance feet, constant while no foot is in contact; integrated gyroscope."""

    def __init__(self, robot: qd.Robot, q: np.ndarray) -> None:
        self.legs, self.R = LegKinematics(robot), pin.Quaternion(q[3:7].copy()).toRotationMatrix()
        self.p, self.v = q[:3].copy(), np.zeros(3)

    def update(self, m: Measurement, stance: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the estimates of rotation, position [m] and velocity [m/s] of the base in world axes."""
        self.R = self.R @ pin.exp3(m.gyro * DT)
        if stance:
            self.v = np.mean([v for _, v, _ in self.legs.feet(m, stance, self.R, m.gyro).values()], axis=0)
        self.p = self.p + DT * self.v
        return self.R, self.p, self.v


@dataclass
class EstimateErrors:
    """Errors of an estimate.

    Attributes:
        velocity: rms error of the velocity in base axes [m/s].
        tilt: rms error of roll and pitch [rad].
        end: error of the final position [m].
    """

    velocity: float
    tilt: float
    end: float


def compute_errors(motion: Motion, rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> EstimateErrors:
    """Returns the errors of estimates (R, p, v) of the base."""
    errors, tilts = [], []
    for (R, _, v), q, true_state in zip(rows, motion.states, motion.velocities, strict=True):
        errors.append(R.T @ v - true_state[:3])
        up = pin.Quaternion(q[3:7].copy()).toRotationMatrix()[2]
        tilts.append(np.linalg.norm(np.cross(R[2], up)))
    end = float(np.linalg.norm(rows[-1][1] - motion.states[-1, :3]))
    rms = float(np.sqrt((np.array(errors) ** 2).sum(axis=1).mean()))
    return EstimateErrors(rms, float(np.sqrt((np.array(tilts) ** 2).mean())), end)


def normalized_squared_error(estimator: BaseEstimator, q: np.ndarray, v: np.ndarray) -> float:
    """Returns the normalized squared estimation error (NEES) at a true state (q, v), per dimension."""
    filter_state, P, lever = estimator._state, estimator.covariance[:9, :9], np.array(estimator._model.lever)
    R = pin.Quaternion(q[3:7].copy()).toRotationMatrix()
    rotation_error = np.array(filter_state.R) @ R.T
    velocity = R @ (v[:3] + np.cross(v[3:6], lever))
    error = np.r_[
        pin.log3(rotation_error),
        filter_state.v - rotation_error @ velocity,
        filter_state.p - rotation_error @ (q[:3] + R @ lever),
    ]
    return float(error @ np.linalg.solve(P + 1e-16 * np.eye(9), error)) / 9.0


def compare_estimates(
    motion: Motion, seed: int, *, rigid: bool
) -> tuple[dict[str, EstimateErrors], np.ndarray, np.ndarray]:
    """Returns the errors of all three estimates, and the NEES of the default and the rigid-contact filter by tick."""
    robot, q = motion.robot, motion.states[0]
    estimator, plain, odometry = BaseEstimator(robot, dt=DT, noise=NOISE), PlainFilter(robot, q), Odometry(robot, q)
    estimator.reset(q, motion.velocities[0])
    rows: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {"invariant": [], "plain": [], "odometry": []}
    rigid_estimator = BaseEstimator(robot, dt=DT, noise=RIGID) if rigid else None
    if rigid_estimator is not None:
        rigid_estimator.reset(q, motion.velocities[0])
    nees, nees_rigid = [], []
    for k, m, stance, _ in read_sensors(motion, seed):
        q, v = estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, stance)
        filter_state = estimator._state
        R = np.array(filter_state.R)
        rows["invariant"].append((R, q[:3], R @ v[:3]))
        rows["plain"].append(tuple(x.copy() for x in plain.update(m, stance)))
        rows["odometry"].append(tuple(x.copy() for x in odometry.update(m, stance)))
        true_state = motion.states[k], motion.velocities[k]
        nees.append(normalized_squared_error(estimator, *true_state))
        if rigid_estimator is not None:
            rigid_estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, stance)
            nees_rigid.append(normalized_squared_error(rigid_estimator, *true_state))
    return {name: compute_errors(motion, x) for name, x in rows.items()}, np.array(nees), np.array(nees_rigid)


def errors_with_delay(motion: Motion, seed: int) -> tuple[float, float]:
    """Returns the rms velocity errors with delayed readings [m/s]: as estimated, and after prediction."""
    estimator, before, after = BaseEstimator(motion.robot, dt=DT, noise=NOISE), [], []
    estimator.reset(motion.states[0], motion.velocities[0])
    for k, m, stance, _ in read_sensors(motion, seed, LATE * DT):
        _, v = estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, stance)
        if k >= LATE:
            true_state = motion.velocities[k, :6]
            before.append(v[:6] - true_state)
            after.append(estimator.predict(motion.accelerations[k - LATE : k])[1][:6] - true_state)
    return tuple(float(np.sqrt((np.array(x)[:, :3] ** 2).sum(axis=1).mean())) for x in (before, after))  # type: ignore


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="go2", help="name of the catalogue")
    parser.add_argument("--seconds", type=float, default=6.0, help="duration of a motion [s]")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of the sensor noise")
    parser.add_argument("--gaits", nargs="*", default=GAITS, choices=GAITS, help="gaits of the motions")
    parser.add_argument(
        "--plants", nargs="*", default=tuple(PLANTS), choices=tuple(PLANTS), help="plants of the motions"
    )
    parser.add_argument(
        "--grounds", nargs="*", default=GROUNDS, help="flat, or a value of the option --terrain of quaddyn demo"
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    robot, missed = qd.load(options.robot), []
    print(f"{robot.name}, {options.seconds:g} s, {options.seeds} seeds; errors of velocity in mm/s and of tilt in mrad")
    print(
        f"{'scene':<32}{'path':>6}{'drift':>13}{'velocity: invariant, plain, odometry':>38}{'tilt: the same':>20}"
        f"{'NEES':>7}{'below 1.88':>12}{'rigid':>7}{'late, pred.':>14}"
    )
    for plant in options.plants:
        for gait in options.gaits:
            for where in options.grounds:
                name = f"{plant} {gait} {where}"
                # Feet do not roll on the edges of stairs as on a plane: only the default filter is evaluated.
                rigid = plant == "embedded" and not where.startswith("stairs")
                motion = simulate_motion(robot, plant, gait, where, options.seconds)
                if motion is None:
                    print(f"{name:<32}  the robot falls", flush=True)
                    continue
                results = [compare_estimates(motion, seed, rigid=rigid) for seed in range(options.seeds)]
                mean_errors = {
                    quantity: {
                        estimate: float(np.mean([getattr(each[estimate], quantity) for each, *_ in results]))
                        for estimate in results[0][0]
                    }
                    for quantity in ("velocity", "tilt", "end")
                }
                nees = np.array([x for _, x, _ in results])
                mean_nees = float(np.mean([x for _, _, x in results])) if rigid else float(nees.mean())
                drift, path_length = mean_errors["end"]["invariant"], motion.length
                before, after = errors_with_delay(motion, 0)
                error_texts = {
                    quantity: "".join(f"{1e3 * x:>9.1f}" for x in mean_errors[quantity].values())
                    for quantity in ("velocity", "tilt")
                }
                drift_text = (
                    f"{1e3 * drift:.0f} mm{100.0 * drift / path_length:6.1f} %"
                    if path_length > 0.1
                    else f"{1e3 * drift:.0f} mm"
                )
                print(
                    f"{name:<32}{path_length:>6.2f}{drift_text:>13}{error_texts['velocity']:>38}"
                    f"{error_texts['tilt']:>27}{nees.mean():>7.2f}"
                    f"{100.0 * (nees < UPPER).mean():>11.1f}%{mean_nees:>7.2f}{1e3 * before:>7.1f}{1e3 * after:>7.1f}",
                    flush=True,
                )
                if drift > max(0.01 * path_length, 2e-3 * options.seconds):
                    missed.append(f"{name}: drift")
                if not (BOUNDS[0] <= mean_nees <= BOUNDS[1] and nees.mean() <= BOUNDS[1]):
                    missed.append(f"{name}: NEES")
                if min(mean_errors["velocity"].values()) < mean_errors["velocity"]["invariant"]:
                    missed.append(f"{name}: another estimate is better")
    print("missed: " + "; ".join(missed) if missed else "all requirements met")
    return int(options.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
