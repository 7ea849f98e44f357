"""Faults injected into readings and commands of a trot, with the expected reaction of the safety layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import quaddyn as qd
from quaddyn.simulation import Encoders, FootSensors, Imu, Measurement, Sensors, Simulation

DT = 2e-3
Trot = list[tuple[Measurement, np.ndarray]]
#: Function of reading, torques, ticks since the start of the fault, and the reading at its start.
Change = Callable[[Measurement, np.ndarray, int, Measurement], tuple[Measurement, np.ndarray]]

CALF = 2
FLIP = np.where(np.arange(12) == CALF, -1.0, 1.0)
SWAPPED = np.array([3, 4, 5, 0, 1, 2, 6, 7, 8, 9, 10, 11])
REVERSED = np.arange(12)[::-1]
EFFORT = np.tile([23.7, 23.7, 45.43], 4)  # of a Go2


def recorded_trot(robot: qd.Robot, ticks: int = 500) -> Trot:
    """Noisy readings and torques of a robot that trots with a fixed contact schedule.

    The detection delay of a fault depends on the motion of its joint, which is the same in each run.
    """
    plant, dyn = Simulation(robot, dt=DT), qd.Dynamics(robot)
    walker = qd.LocomotionController(robot, dt=DT, contact_detection="scheduled", friction="nominal")
    sensors = Sensors(
        robot,
        np.random.default_rng(0),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05, torque_noise=0.2),
        imu=Imu(gyro_noise=0.02, accelerometer_noise=0.2),
        feet=FootSensors(noise=1.0),
    )
    out = []
    for tick in range(200 + ticks):
        reading = sensors.read(plant)
        tau = walker.compute(dyn.update(plant.q, plant.v), (0.6, 0.0, 0.3)).tau
        if tick >= 200:
            out.append((replace(reading, temperature=np.full(robot.nu, 40.0)), tau))
        plant.step(tau)
    return out


def with_fault(trot: Trot, change: Change, begin: int) -> Trot:
    """The trot with a fault from tick `begin` on."""
    kept = trot[begin][0]
    return [change(m, tau, k - begin, kept) if k >= begin else (m, tau) for k, (m, tau) in enumerate(trot)]


def reading(**parts: Callable[[Measurement, int], np.ndarray]) -> Change:
    """Fault that replaces parts of readings by functions of reading and tick."""
    return lambda m, tau, k, kept: (replace(m, **{name: f(m, k) for name, f in parts.items()}), tau)


def stamped(time: Callable[[float, int], float]) -> Change:
    """Fault that replaces time stamps."""
    return lambda m, tau, k, kept: (replace(m, time=time(m.time, k)), tau)


def stuck(*names: str, at: object = slice(None)) -> Change:
    """Fault that freezes entries of readings."""

    def change(m: Measurement, tau: np.ndarray, k: int, kept: Measurement) -> tuple[Measurement, np.ndarray]:
        parts = {name: getattr(m, name).copy() for name in names}
        for name, part in parts.items():
            part[at] = getattr(kept, name)[at]
        return replace(m, **parts), tau

    return change


def entry(name: str, at: object, value: float) -> Change:
    """Fault that sets an entry of readings to a value."""

    def change(m: Measurement, tau: np.ndarray, k: int, kept: Measurement) -> tuple[Measurement, np.ndarray]:
        part = getattr(m, name).copy()
        part[at] = value
        return replace(m, **{name: part}), tau

    return change


def command(value: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Fault that replaces commanded torques."""
    return lambda m, tau, k, kept: (m, value(tau))


def at_joint(joint: int, size: float) -> np.ndarray:
    """(12,) array with a value at one joint and 0 elsewhere."""
    return size * (np.arange(12) == joint)


def rolls(m: Measurement, tau: np.ndarray, k: int, kept: Measurement) -> tuple[Measurement, np.ndarray]:
    """Consistent gyroscope and accelerometer readings of a robot that falls over sideways."""
    c, s = np.cos(3.0 * DT * k), np.sin(3.0 * DT * k)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    return replace(m, gyro=m.gyro + np.array([3.0, 0.0, 0.0]), accelerometer=R.T @ m.accelerometer), tau


def stalls(m: Measurement, tau: np.ndarray, k: int, kept: Measurement) -> tuple[Measurement, np.ndarray]:
    """The same reading for 50 ms."""
    return (kept if k < 25 else m), tau


@dataclass(frozen=True)
class Injected:
    """An injected fault with the expected reaction.

    `named` is the latched fault, "" if the robot continues; `within` is the largest time from the first wrong reading
    to the reaction [s]; `by` is the criterion that detects the fault, as in docs/safety.md.
    """

    change: Change
    named: str
    within: float
    by: str

    @property
    def reaction(self) -> str:
        return "damping" if self.named else "ignored" if "foot" in self.by else "clamped"


IMU_AXES = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
FAULTS: dict[str, Injected] = {
    "stuck encoder": Injected(
        stuck("position", "velocity", at=CALF),
        "encoder frozen",
        0.06,
        "unchanged bit for bit while other encoders change",
    ),
    "stuck position": Injected(
        stuck("position", at=CALF), "encoder inconsistent", 0.25, "position differs from integrated velocity"
    ),
    "stuck velocity": Injected(
        stuck("velocity", at=CALF), "encoder inconsistent", 0.2, "position differs from integrated velocity"
    ),
    "encoder counts backwards": Injected(
        reading(position=lambda m, k: FLIP * m.position, velocity=lambda m, k: FLIP * m.velocity),
        "encoder jumps",
        DT,
        "position differs from last position plus velocity",
    ),
    "velocity of opposite sign": Injected(
        reading(velocity=lambda m, k: FLIP * m.velocity),
        "encoder inconsistent",
        0.1,
        "position differs from integrated velocity",
    ),
    "velocity doubled": Injected(
        reading(velocity=lambda m, k: 2.0 * m.velocity),
        "encoder inconsistent",
        0.06,
        "position differs from integrated velocity",
    ),
    "encoder slips": Injected(
        reading(position=lambda m, k: m.position + at_joint(4, 0.3)),
        "encoder jumps",
        DT,
        "position differs from last position plus velocity",
    ),
    "swapped legs": Injected(
        reading(position=lambda m, k: m.position[SWAPPED], velocity=lambda m, k: m.velocity[SWAPPED]),
        "encoder jumps",
        DT,
        "position differs from last position plus velocity",
    ),
    "wrong order": Injected(
        reading(position=lambda m, k: m.position[REVERSED], velocity=lambda m, k: m.velocity[REVERSED]),
        "encoder jumps",
        DT,
        "position differs from last position plus velocity",
    ),
    "NaN position": Injected(entry("position", CALF, np.nan), "reading not a number", DT, "not finite"),
    "infinite velocity": Injected(entry("velocity", CALF, np.inf), "reading not a number", DT, "not finite"),
    "NaN torque": Injected(entry("torque", CALF, np.nan), "reading not a number", DT, "not finite"),
    "NaN gyroscope": Injected(entry("gyro", 1, np.nan), "reading not a number", DT, "not finite"),
    "reading of wrong shape": Injected(
        reading(position=lambda m, k: m.position[:3]), "reading not a number", DT, "shape"
    ),
    "frozen IMU": Injected(
        stuck("gyro", "accelerometer"), "gyroscope frozen", 0.06, "unchanged bit for bit while joints move"
    ),
    "frozen accelerometer": Injected(
        stuck("accelerometer"), "accelerometer frozen", 0.06, "unchanged bit for bit while joints move"
    ),
    "gyroscope bias of 1.2 rad/s": Injected(
        reading(gyro=lambda m, k: m.gyro + np.array([0.0, 1.2, 0.0])),
        "IMU inconsistent",
        0.7,
        "integrated gyroscope differs from gravity direction",
    ),
    "axes of the IMU permuted": Injected(
        reading(gyro=lambda m, k: IMU_AXES @ m.gyro, accelerometer=lambda m, k: IMU_AXES @ m.accelerometer),
        "IMU inconsistent",
        0.1,
        "integrated gyroscope differs from gravity direction",
    ),
    "falls over": Injected(rolls, "tilted", 0.4, "angle to the vertical"),
    "stall of 50 ms": Injected(stalls, "stale reading", 0.014, "age of the reading"),
    "joint beyond its stop": Injected(
        reading(
            position=lambda m, k: m.position + at_joint(CALF, 2.0 * DT * k),
            velocity=lambda m, k: m.velocity + at_joint(CALF, 2.0),
        ),
        "position limit",
        0.3,
        "position limit and overtravel",
    ),
    "joint too fast": Injected(
        reading(
            position=lambda m, k: m.position + at_joint(1, 34.0 * DT * (k + 0.5)),
            velocity=lambda m, k: m.velocity + at_joint(1, 34.0),
        ),
        "velocity limit",
        0.012,
        "velocity limit for 10 ms",
    ),
    "torque beyond the limit": Injected(entry("torque", CALF, 60.0), "torque limit", 0.012, "torque limit for 10 ms"),
    "motor without torque": Injected(
        reading(torque=lambda m, k: m.torque * (np.arange(12) != CALF)),
        "motor does not follow",
        0.15,
        "measured torque differs from commanded torque",
    ),
    "motor with torque of opposite sign": Injected(
        reading(torque=lambda m, k: m.torque * FLIP),
        "motor does not follow",
        0.08,
        "measured torque differs from commanded torque",
    ),
    "hot motor": Injected(
        reading(temperature=lambda m, k: np.full(12, 40.0) + k), "temperature limit", 0.1, "temperature limit for 10 ms"
    ),
    "torque sensors all NaN": Injected(
        reading(torque=lambda m, k: np.full(12, np.nan)), "sensor missing", DT, "sensor was present before"
    ),
    "torque sensors missing": Injected(
        reading(torque=lambda m, k: None), "sensor missing", DT, "sensor was present before"
    ),
    "temperature sensors missing": Injected(
        reading(temperature=lambda m, k: None), "sensor missing", DT, "sensor was present before"
    ),
    "foot sensors missing": Injected(
        reading(foot_forces=lambda m, k: None), "sensor missing", DT, "sensor was present before"
    ),
    "time stamps NaN": Injected(stamped(lambda time, k: np.nan), "stale reading", 0.014, "time stamp not a number"),
    "time stamps infinite": Injected(
        stamped(lambda time, k: np.inf), "stale reading", 0.014, "time stamp not a number"
    ),
    "time stamps negative": Injected(stamped(lambda time, k: -time), "stale reading", 0.014, "time stamp not a number"),
    "time stamps repeated": Injected(
        stamped(lambda time, k: time - DT * k), "stale reading", 0.014, "time stamp not later than the previous one"
    ),
    "time stamps go back": Injected(
        stamped(lambda time, k: time - 0.1), "stale reading", 0.014, "time stamp not later than the previous one"
    ),
    "time stamps 0.1 s ahead": Injected(
        stamped(lambda time, k: time + 0.1), "stale reading", 0.014, "time stamp ahead of the caller's clock"
    ),
    "NaN command": Injected(command(lambda tau: np.full(12, np.nan)), "command not a number", DT, "not finite"),
    "infinite command": Injected(command(lambda tau: np.full(12, np.inf)), "command not a number", DT, "not finite"),
    "command tenfold": Injected(
        lambda m, tau, k, kept: (replace(m, torque=np.clip(10.0 * tau, -EFFORT, EFFORT)), 10.0 * tau),
        "",
        DT,
        "torque limit and torque rate limit",
    ),
    "foot sensor NaN": Injected(entry("foot_forces", 1, np.nan), "", DT, "foot force not finite"),
    "foot sensor stuck": Injected(
        entry("foot_forces", 1, 37.0), "", 0.06, "foot force unchanged bit for bit while others change"
    ),
}
