"""Compares estimated base states from noisy sensors with the true states of both plants: drift, errors, consistency.

    python benchmarks/estimation.py [--robot go2] [--seconds 6] [--seeds 3] [--grounds flat slope=10 ...] [--check]

A robot stands, crawls, walks, trots, paces and bounds on its true state, on level ground, up a slope, up stairs and
over waves; sensors with the noise and biases of a consumer IMU and of 14-bit encoders read the motion, with other noise
by every seed.  Three estimates are made of the same readings: that of `BaseEstimator`; that of a plain Kalman filter
(linear, in world axes, the attitude from a complementary filter; Bloesch et al. 2013, Bledt et al. 2018); and leg
odometry, the mean velocity of the standing feet, held while none stands.  A foot stands when it carries a twentieth of
the weight.

NEES is the squared error of attitude, velocity and position in the metric of the filter's own
covariance, divided by its nine dimensions: its mean is 1 for a consistent filter, and 95 % of its values lie below
1.88.  It is printed for the default filter, which assumes that feet creep and slip as on real ground, and, in the
embedded plant, for a filter with the true parameters of that plant: contacts are rigid, and stance feet do not move
(`RIGID`; not on stairs, where feet roll on edges and not on a plane).  The last columns are velocities from readings
that are 4 ms late, without and with `BaseEstimator.predict`.

With ``--check`` the exit code says whether the filter drifts less than 1 % of the way (2 mm/s where that is less);
whether the mean NEES of every scene is within the 95 % bounds of one error, 0.30 and 2.11, for the filter with
the plant's ground, and not above them for the cautious one; and whether no other estimate of the velocity is better.
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
from quaddyn.campaigns import trial_setup
from quaddyn.demo.demo_terrain import parse_terrain
from quaddyn.estimation import BaseEstimator
from quaddyn.kernels import TickTerms
from quaddyn.robot.configuration import rotate_configuration
from quaddyn.simulation import FootSensors, Measurement, MujocoPlant, Sensors, Simulation
from quaddyn.simulation.sensors import Observable

DT, LATE = 2e-3, 2
PLANTS = {"embedded": Simulation, "mujoco": MujocoPlant}
GAITS = ("stand", "crawl", "walk", "trot", "pace", "bound")
GROUNDS = ("flat", "slope=10", "stairs=0.05,0.3", "waves=0.04,0.8")
NOISE = trial_setup.sensor_noise()
#: What is true of feet in the embedded plant, whose contacts are rigid: they stay where they stand, but for how a
#: sphere's rolling is simplified.
RIGID = replace(NOISE, foothold_random_walk=1e-4, contact_velocity=1e-3)
#: 95 % of chi-square with nine degrees of freedom, two-sided, by dimension; and one-sided.
BOUNDS, UPPER = (2.700 / 9.0, 19.023 / 9.0), 16.919 / 9.0


@dataclass(frozen=True)
class Motion(Observable):
    """Recorded motion of a robot; simulated sensors read the tick `at[0]`."""

    robot: qd.Robot
    states: np.ndarray
    velocities: np.ndarray
    torques: np.ndarray
    forces: np.ndarray
    accelerations: np.ndarray
    at: list[int]

    @property
    def q(self) -> np.ndarray:
        """(nq,) at the tick."""
        return self.states[self.at[0]]

    @property
    def v(self) -> np.ndarray:
        """(nv,) at the tick."""
        return self.velocities[self.at[0]]

    @property
    def time(self) -> float:
        """Of the tick [s]."""
        return self.at[0] * DT

    @property
    def tau(self) -> np.ndarray:
        """(nu,) at the tick."""
        return self.torques[self.at[0]]

    @property
    def contact_forces(self) -> Mapping[str, np.ndarray]:
        """(3,) by foot at the tick."""
        return dict(zip(self.robot.feet, self.forces[self.at[0]], strict=True))

    @property
    def length(self) -> float:
        """Of the way [m]."""
        return float(np.linalg.norm(np.diff(self.states[:, :3], axis=0), axis=1).sum())


def simulate_motion(robot: qd.Robot, plant: str, gait: str, where: str, seconds: float) -> Motion | None:
    """Simulates a motion controlled by the true state; None if the robot falls.

    On uneven ground the controller has a terrain map and measured contacts.
    """
    ground = None if where == "flat" else parse_terrain(where, robot)
    uneven = ground is not None and not where.startswith("slope")
    terrain = None if ground is None else ground.terrain
    controller = qd.LocomotionController(robot, dt=DT, gait=gait, terrain=terrain if uneven else None)
    world = PLANTS[plant](robot, dt=DT, friction=0.8, terrain=terrain)
    start = np.array(robot.q_home) if ground is None else rotate_configuration(robot.q_home, ground.tilt)
    world.reset(start, np.zeros(robot.nv))
    scale = math.sqrt(controller.morphology.length / 0.3)
    wanted = np.array([0.3, 0.05, 0.2] if ground is None else [0.25, 0.0, 0.0]) * [scale, scale, 1.0 / scale]
    dynamics, rows = qd.Dynamics(robot), []
    for k in range(round(seconds / DT)):
        q, v, felt = np.array(world.q), np.array(world.v), world.contact_forces
        forward = k * DT > 0.5 and gait != "stand"
        touching = [foot for foot in robot.feet if foot in felt and felt[foot].any()] if uneven else None
        state = dynamics.update(q, v)
        command = controller.compute(state, wanted if forward else np.zeros(3), measured_contacts=touching)
        if command.wbc_command is None or command.mode.value == "fallen":
            return None
        forces = np.array([felt.get(foot, np.zeros(3)) for foot in robot.feet])
        rows.append((q, v, np.array(world.tau), forces, command.wbc_command.acceleration))
        world.step(command.tau)
    return Motion(robot, *(np.array(x) for x in zip(*rows, strict=True)), at=[0])


def read(motion: Motion, seed: int, delay: float = 0.0) -> Iterator[tuple[int, Measurement, list[str], Sensors]]:
    """Yields tick, sensor readings, stance feet and sensors of a motion."""
    robot = motion.robot
    feet = FootSensors(noise=1e-3 * robot.mass * 9.81)
    rng = np.random.default_rng(seed)
    sensors = Sensors(robot, rng, encoders=trial_setup.encoders(), imu=trial_setup.imu(), feet=feet, delay=delay)
    for k in range(len(motion.states)):
        motion.at[0] = k
        m = sensors.read(motion)
        carried = zip(robot.feet, m.foot_forces, strict=True)
        yield k, m, [foot for foot, force in carried if force > 0.05 * 9.81 * robot.mass], sensors


class Legs:
    """Feet from the base: centers, their velocities, and how they roll."""

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.terms = robot, TickTerms(robot, robot.feet)
        self.q, self.v, self.out = np.array(robot.neutral), np.zeros(robot.nv), np.zeros(self.terms.size)
        self.at = [robot.configuration_index(name) for name in robot.actuated]

    def feet(self, m: Measurement, standing: list[str], R: np.ndarray, omega: np.ndarray) -> dict[str, np.ndarray]:
        """By standing foot ``(R c, v, u)``, world axes: its place, what it says of the base's velocity, its rolling."""
        self.q[self.at], self.v[self.robot.actuated_index] = m.position, m.velocity
        views = self.terms.layout.views(self.terms(self.q, self.v, self.out))
        found = {}
        for foot in standing:
            c, rate = views[f"{foot}.origin"], views[f"{foot}.velocity"]
            rolling = np.cross(R @ (rate[3:] + omega), [0.0, 0.0, self.robot.legs[foot].foot.radius])
            found[foot] = np.array([R @ c, rolling - R @ (np.cross(omega, c) + rate[:3]), rolling])
        return found


class PlainFilter:
    """A Kalman filter of position, velocity and the places of feet, all in world axes; the attitude is another's."""

    def __init__(self, robot: qd.Robot, q: np.ndarray) -> None:
        n = len(robot.feet)
        self.legs, self.R = Legs(robot), pin.Quaternion(q[3:7].copy()).toRotationMatrix()
        self.x, self.P = np.zeros(6 + 3 * n), np.zeros((6 + 3 * n, 6 + 3 * n))
        self.x[:3] = q[:3]
        self.P[3:6, 3:6] = NOISE.initial_velocity**2 * np.eye(3)
        self.known: set[str] = set()

    def update(self, m: Measurement, standing: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R, p, v."""
        felt = m.accelerometer / np.linalg.norm(m.accelerometer)
        self.R = self.R @ pin.exp3((m.gyro + 0.1 * np.cross(felt, self.R[2])) * DT)
        x, P, F = self.x, self.P, np.eye(len(self.x))
        a = self.R @ m.accelerometer + self.legs.robot.model.gravity.linear
        x[:3] += DT * (x[3:6] + 0.5 * DT * a)
        x[3:6] += DT * a
        F[:3, 3:6] = DT * np.eye(3)
        # What the attitude's error adds to the acceleration is beside the sensor's own noise.
        noise = np.r_[np.full(3, 1e-10), np.full(3, (DT * (NOISE.accelerometer + 0.1)) ** 2), np.zeros(len(x) - 6)]
        noise[6:] = NOISE.foothold_random_walk**2 * DT
        P[:] = F @ P @ F.T + np.diag(noise)
        feet = self.legs.feet(m, standing, self.R, m.gyro)
        for i, foot in enumerate(self.legs.robot.feet):
            at = slice(6 + 3 * i, 9 + 3 * i)
            if foot not in feet:
                self.known.discard(foot)
                continue
            place, velocity, rolling = feet[foot]
            if foot not in self.known:
                self.known.add(foot)
                x[at], P[at], P[:, at] = x[:3] + place, 0.0, 0.0
                P[at, at] = np.eye(3)
            x[at] += DT * rolling
            H, z = np.zeros((6, len(x))), np.r_[place - (x[at] - x[:3]), velocity - x[3:6]]
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
    """Mean velocity of the standing feet, held while none stands; the gyroscope integrated."""

    def __init__(self, robot: qd.Robot, q: np.ndarray) -> None:
        self.legs, self.R = Legs(robot), pin.Quaternion(q[3:7].copy()).toRotationMatrix()
        self.p, self.v = q[:3].copy(), np.zeros(3)

    def update(self, m: Measurement, standing: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R, p, v."""
        self.R = self.R @ pin.exp3(m.gyro * DT)
        if standing:
            self.v = np.mean([v for _, v, _ in self.legs.feet(m, standing, self.R, m.gyro).values()], axis=0)
        self.p = self.p + DT * self.v
        return self.R, self.p, self.v


@dataclass
class Found:
    """Errors of an estimate: rms of velocity in base axes [m/s], rms of roll and pitch [rad], final position [m]."""

    velocity: float
    tilt: float
    end: float


def errors_of(motion: Motion, rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Found:
    """Returns the errors of estimates (R, p, v) of the base."""
    errors, tilts = [], []
    for (R, _, v), q, truth in zip(rows, motion.states, motion.velocities, strict=True):
        errors.append(R.T @ v - truth[:3])
        up = pin.Quaternion(q[3:7].copy()).toRotationMatrix()[2]
        tilts.append(np.linalg.norm(np.cross(R[2], up)))
    end = float(np.linalg.norm(rows[-1][1] - motion.states[-1, :3]))
    rms = float(np.sqrt((np.array(errors) ** 2).sum(axis=1).mean()))
    return Found(rms, float(np.sqrt((np.array(tilts) ** 2).mean())), end)


def normalized_squared_error(estimator: BaseEstimator, q: np.ndarray, v: np.ndarray) -> float:
    """Returns the normalized squared estimation error (NEES) at a true state (q, v), per dimension."""
    f, P, lever = estimator._state, estimator.covariance[:9, :9], np.array(estimator._model.lever)
    R = pin.Quaternion(q[3:7].copy()).toRotationMatrix()
    turned = np.array(f.R) @ R.T
    velocity = R @ (v[:3] + np.cross(v[3:6], lever))
    error = np.r_[pin.log3(turned), f.v - turned @ velocity, f.p - turned @ (q[:3] + R @ lever)]
    return float(error @ np.linalg.solve(P + 1e-16 * np.eye(9), error)) / 9.0


def estimates(motion: Motion, seed: int, *, rigid: bool) -> tuple[dict[str, Found], np.ndarray, np.ndarray]:
    """Returns the errors of all three estimates, and the NEES of the default and the rigid-contact filter by tick."""
    robot, q = motion.robot, motion.states[0]
    ours, plain, odometry = BaseEstimator(robot, dt=DT, noise=NOISE), PlainFilter(robot, q), Odometry(robot, q)
    ours.reset(q, motion.velocities[0])
    rows: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {"invariant": [], "plain": [], "odometry": []}
    rigid_estimator = BaseEstimator(robot, dt=DT, noise=RIGID) if rigid else None
    if rigid_estimator is not None:
        rigid_estimator.reset(q, motion.velocities[0])
    nees, nees_rigid = [], []
    for k, m, standing, _ in read(motion, seed):
        q, v = ours.update(m.position, m.velocity, m.gyro, m.accelerometer, standing)
        f = ours._memory
        rows["invariant"].append((f.R.copy(), q[:3], f.R @ v[:3]))
        rows["plain"].append(tuple(x.copy() for x in plain.update(m, standing)))
        rows["odometry"].append(tuple(x.copy() for x in odometry.update(m, standing)))
        truth = motion.states[k], motion.velocities[k]
        nees.append(normalized_squared_error(ours, *truth))
        if rigid_estimator is not None:
            rigid_estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing)
            nees_rigid.append(normalized_squared_error(rigid_estimator, *truth))
    return {name: errors_of(motion, x) for name, x in rows.items()}, np.array(nees), np.array(nees_rigid)


def errors_with_delay(motion: Motion, seed: int) -> tuple[float, float]:
    """Returns the rms velocity errors with delayed readings [m/s]: as estimated, and after prediction."""
    estimator, before, after = BaseEstimator(motion.robot, dt=DT, noise=NOISE), [], []
    estimator.reset(motion.states[0], motion.velocities[0])
    for k, m, standing, _ in read(motion, seed, LATE * DT):
        _, v = estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing)
        if k >= LATE:
            truth = motion.velocities[k, :6]
            before.append(v[:6] - truth)
            after.append(estimator.predict(motion.accelerations[k - LATE : k])[1][:6] - truth)
    return tuple(float(np.sqrt((np.array(x)[:, :3] ** 2).sum(axis=1).mean())) for x in (before, after))  # type: ignore


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--gaits", nargs="*", default=GAITS, choices=GAITS)
    parser.add_argument("--plants", nargs="*", default=tuple(PLANTS), choices=tuple(PLANTS))
    parser.add_argument("--grounds", nargs="*", default=GROUNDS, help="flat, or as of quaddyn demo --terrain")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    robot, missed = qd.load(options.robot), []
    print(f"{robot.name}, {options.seconds:g} s, {options.seeds} seeds; velocity in mm/s, tilt in mrad")
    print(
        f"{'scene':<32}{'way':>6}{'drift':>13}{'velocity: invariant, plain, odometry':>38}{'tilt: the same':>20}"
        f"{'NEES':>7}{'below 1.88':>12}{'rigid':>7}{'late, ahead':>14}"
    )
    for plant in options.plants:
        for gait in options.gaits:
            for where in options.grounds:
                name = f"{plant} {gait} {where}"
                # On the edges of stairs feet roll otherwise than on a plane: only the default filter is compared.
                rigid = plant == "embedded" and not where.startswith("stairs")
                motion = simulate_motion(robot, plant, gait, where, options.seconds)
                if motion is None:
                    print(f"{name:<32}  the robot falls", flush=True)
                    continue
                found = [estimates(motion, seed, rigid=rigid) for seed in range(options.seeds)]
                of = {
                    part: {
                        which: float(np.mean([getattr(each[which], part) for each, *_ in found]))
                        for which in found[0][0]
                    }
                    for part in ("velocity", "tilt", "end")
                }
                nees = np.array([x for _, x, _ in found])
                mean_nees = float(np.mean([x for _, _, x in found])) if rigid else float(nees.mean())
                drift, way = of["end"]["invariant"], motion.length
                before, after = errors_with_delay(motion, 0)
                words = {part: "".join(f"{1e3 * x:>9.1f}" for x in of[part].values()) for part in ("velocity", "tilt")}
                share = f"{1e3 * drift:.0f} mm{100.0 * drift / way:6.1f} %" if way > 0.1 else f"{1e3 * drift:.0f} mm"
                print(
                    f"{name:<32}{way:>6.2f}{share:>13}{words['velocity']:>38}{words['tilt']:>27}{nees.mean():>7.2f}"
                    f"{100.0 * (nees < UPPER).mean():>11.1f}%{mean_nees:>7.2f}{1e3 * before:>7.1f}{1e3 * after:>7.1f}",
                    flush=True,
                )
                if drift > max(0.01 * way, 2e-3 * options.seconds):
                    missed.append(f"{name}: drift")
                if not (BOUNDS[0] <= mean_nees <= BOUNDS[1] and nees.mean() <= BOUNDS[1]):
                    missed.append(f"{name}: NEES")
                if min(of["velocity"].values()) < of["velocity"]["invariant"]:
                    missed.append(f"{name}: another is better")
    print("missed: " + "; ".join(missed) if missed else "all requirements met")
    return int(options.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
