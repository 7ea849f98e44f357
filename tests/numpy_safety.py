"""The safety layer in NumPy, from its documentation: vectors over the joints in place of the compiled loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from quaddyn.runtime import MotorCommand, Safety
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.simulation import Measurement


def wrapped(angle: np.ndarray, is_continuous: np.ndarray) -> np.ndarray:
    """Differences of positions; those of continuous joints the shorter way."""
    return np.where(is_continuous != 0, np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi, angle)


def present(sensor: Any) -> bool:
    """Whether an optional sensor reports values."""
    return sensor is not None and not np.isnan(sensor).all()


class NumpySafety:
    """The same layer as `safety`, of a robot with a free root.

    Attributes:
        fault: code and joint of the latched fault; (0, 0) without one.
        valid_feet: validity of the foot sensors.
        counts: clamped commands, as `Safety.clamp_counts`.
    """

    def __init__(self, safety: Safety) -> None:
        self.limits, nu = safety.limit_arrays, safety.robot.nu
        self.fault, self.waits, self.last, self.stamp, self.clock = (0, 0), 0, None, 0.0, 0.0
        self.torque, self.drift, self.error, self.tilt_rate = np.zeros(nu), np.zeros(nu), np.zeros(nu), np.zeros(3)
        self.up: np.ndarray | None = None
        self.had, self.repeats, self.beyond, self.accepted = set[str](), dict[str, Any](), dict[str, Any](), 0
        self.feet, self.foot_repeats = None, np.zeros(len(safety.robot.feet), dtype=int)
        self.counts = dict.fromkeys(safety.clamp_counts, 0)

    @property
    def valid_feet(self) -> np.ndarray:
        return self.foot_repeats < self.limits.max_frozen_readings

    def filter_command(self, m: Measurement, command: MotorCommand | None, now: float, raised: int) -> np.ndarray:
        """The command (5, nu) for the motors."""
        sizes = {"position": len(self.torque), "velocity": len(self.torque), "gyro": 3, "accelerometer": 3}
        m = replace(m, **{name: np.full(n, np.inf) for name, n in sizes.items() if getattr(m, name) is None})
        elapsed = self._elapsed(m.time, now)
        if not self.fault[0]:
            self.fault = next(self._faults(m, command, elapsed, raised), (0, 0))
        if self.fault[0] or command is None:
            return self._damped(m.velocity)
        return self._limited(m.position, m.velocity, command)

    def _elapsed(self, stamp: float, now: float) -> float:
        """Time between this reading and the last one; 0 if it is not newer."""
        self.waits += 1
        passed = np.fmax(self.waits * self.limits.period, now - self.clock)
        age = stamp - self.stamp if self.accepted else self.limits.period
        if not (np.isfinite(stamp) and stamp >= 0.0 and 0.0 < age <= (passed + 0.05 if self.accepted else np.inf)):
            return 0.0
        self.waits, self.stamp, self.clock = 0, stamp, now
        return age

    def _count(self, kind: str, condition: Any) -> Any:
        """Number of consecutive readings at which a condition has held."""
        self.beyond[kind] = np.where(condition, self.beyond.get(kind, 0) + 1, 0)
        return self.beyond[kind]

    def _faults(
        self, m: Measurement, command: MotorCommand | None, elapsed: float, raised: int
    ) -> Iterator[tuple[int, int]]:
        """Code and index of each fault of a tick, in the order of the checks."""
        if self.waits > self.limits.max_reading_periods:
            yield FaultCode.STALE_READING, 0
        if elapsed > 0.0:
            yield from self._reading_faults(m, elapsed)
        if raised:
            yield raised, 0
        if command is not None:
            parts = command.tau, command.position, command.velocity, command.stiffness, command.damping
            wrong = ~np.isfinite(sum(parts)) | ~(command.stiffness >= 0.0) | ~(command.damping >= 0.0)
            yield from self._by_joint((FaultCode.INVALID_COMMAND, wrong))

    @staticmethod
    def _by_joint(*checks: tuple[int, np.ndarray]) -> Iterator[tuple[int, int]]:
        """The fault of the first joint, and of that the first kind."""
        found = [(int(np.argmax(mask)), k, code) for k, (code, mask) in enumerate(checks) if mask.any()]
        if found:
            joint, _, code = min(found)
            yield code, joint

    def _reading_faults(self, m: Measurement, h: float) -> Iterator[tuple[int, int]]:
        """Faults of a new reading, h after the last one."""
        sensors = {"torque": m.torque, "foot_forces": m.foot_forces, "temperature": m.temperature}
        now = {name for name, values in sensors.items() if present(values)}
        for k, name in reversed(list(enumerate(sensors))):
            if name in self.had - now:
                yield FaultCode.MISSING_SENSOR, k
        self.had |= now
        needed = [m.position, m.velocity, *(sensors[x] for x in ("torque", "temperature") if x in self.had)]
        yield from self._by_joint((FaultCode.NON_FINITE_READING, ~np.isfinite(needed).all(axis=0)))
        if not np.isfinite([m.gyro, m.accelerometer]).all():
            yield FaultCode.NON_FINITE_READING, -1
        self.accepted += 1
        if self.last is not None:
            yield from self._encoder_faults(m, self.last, h)
        yield from self._imu_faults(m, h)
        yield from self._limit_faults(m)
        if "foot_forces" in self.had:
            self._check_feet(np.asarray(m.foot_forces))
        self.last = m

    def _encoder_faults(self, m: Measurement, last: Measurement, h: float) -> Iterator[tuple[int, int]]:
        limits, frozen = self.limits, self.limits.max_frozen_readings
        moved = wrapped(m.position - last.position, limits.is_continuous)
        late = max(h - limits.period, 0.0)
        bound = 0.5 * h * np.abs(m.velocity - last.velocity)
        bound += limits.max_speed * late * min(0.25 * h / 0.01, 1.0)
        difference = moved - 0.5 * h * (m.velocity + last.velocity)
        difference = np.sign(difference) * np.maximum(np.abs(difference) - bound, 0.0) * (h < 8.0 * limits.period)
        self.drift = (self.drift + difference) * np.exp(-h / 0.25)
        same = self._count("encoder", (m.position == last.position) & (m.velocity == last.velocity))
        speed = np.abs(m.velocity)
        moving = np.maximum((speed.sum() - speed) / max(len(speed) - 1, 1), speed) > 0.2
        yield from self._by_joint(
            (FaultCode.ENCODER_JUMP, np.abs(difference) > limits.max_position_jump),
            (FaultCode.ENCODER_INCONSISTENCY, np.abs(self.drift) > limits.max_position_jump),
            (FaultCode.FROZEN_ENCODER, (same >= frozen) & moving),
        )
        for code, name in ((FaultCode.FROZEN_GYROSCOPE, "gyro"), (FaultCode.FROZEN_ACCELEROMETER, "accelerometer")):
            same = self._count(name, (getattr(m, name) == getattr(last, name)).all())
            if same >= frozen and speed.max() > 0.2:
                yield code, 0

    def _imu_faults(self, m: Measurement, h: float) -> Iterator[tuple[int, int]]:
        limits, omega, force = (
            self.limits,
            self.limits.imu_rotation @ m.gyro,
            self.limits.imu_rotation @ m.accelerometer,
        )
        size = float(np.linalg.norm(force))
        weight = max(0.0, 1.0 - abs(size / 9.81 - 1.0) / 0.5)
        measured = force / size if size > 0.0 else np.array([0.0, 0.0, 1.0])
        if self.up is None:
            if weight < 0.8 and self.accepted * limits.period < 1.0:
                return
            self.up = measured
        error = weight * (measured - self.up) if size > 0.0 else np.zeros(3)
        self.tilt_rate = self.tilt_rate + min(h / 0.5, 1.0) * (error - self.tilt_rate)
        up = self.up + h * (np.cross(self.up, omega) + error)
        self.up = up / np.linalg.norm(up)
        if np.linalg.norm(self.tilt_rate) > limits.max_tilt_drift_rate:
            yield FaultCode.IMU_INCONSISTENCY, 0
        if self.up[2] < limits.min_cos_tilt:
            yield FaultCode.EXCESSIVE_TILT, 0

    def _limit_faults(self, m: Measurement) -> Iterator[tuple[int, int]]:
        limits, times = self.limits, self.limits.violation_readings
        beyond = np.maximum(m.position - limits.max_position, limits.min_position - m.position)
        checks = [
            (FaultCode.POSITION_LIMIT, beyond > limits.max_overtravel),
            (FaultCode.VELOCITY_LIMIT, self._count("speed", np.abs(m.velocity) > limits.max_speed) >= times),
        ]
        torque = self.torque
        if "torque" in self.had:
            torque = np.asarray(m.torque)
            checks += [
                (FaultCode.TORQUE_LIMIT, self._count("torque", np.abs(torque) > 1.1 * limits.max_torque) >= times)
            ]
            self.error = self.error + min(limits.period / 0.1, 1.0) * (torque - self.torque - self.error)
            most = limits.max_torque_tracking_error * limits.max_torque
            checks += [(FaultCode.TORQUE_TRACKING_ERROR, np.abs(self.error) > most)]
        if "temperature" in self.had:
            hot = self._count("heat", np.asarray(m.temperature) > limits.max_temperature)
            checks += [(FaultCode.TEMPERATURE_LIMIT, hot >= times)]
        yield from self._by_joint(*checks)
        if self._count("power", np.maximum(torque * m.velocity, 0.0).sum() > limits.max_power) >= times:
            yield FaultCode.POWER_LIMIT, 0

    def _check_feet(self, feet: np.ndarray) -> None:
        last = np.zeros(len(feet)) if self.feet is None else self.feet
        held = (feet == last) & (feet != 0.0) & (feet != last).any()
        counts = np.where(held, self.foot_repeats + 1, np.where(feet != last, 0, self.foot_repeats))
        self.foot_repeats = np.where(np.isfinite(feet), counts, self.limits.max_frozen_readings)
        self.feet = feet
        self.counts["lost foot"] += int(not self.valid_feet.all())

    def _damped(self, v: np.ndarray) -> np.ndarray:
        """Damping within the torque limits."""
        limits, speed = self.limits, np.where(np.isfinite(v), np.abs(v), 0.0)
        kd = np.minimum(limits.fault_damping, limits.max_torque / np.maximum(speed, 1e-300))
        self.torque = -kd * np.where(np.isfinite(v), v, 0.0)
        return np.vstack((np.zeros((4, len(kd))), kd))

    def _limited(self, q: np.ndarray, v: np.ndarray, command: MotorCommand) -> np.ndarray:
        """The command within all limits."""
        limits, counts, most = self.limits, self.counts, self.limits.max_torque
        kp, kd = np.minimum(command.stiffness, limits.max_stiffness), np.minimum(command.damping, limits.max_damping)
        counts["gain"] += int(((kp < command.stiffness) | (kd < command.damping)).sum())
        pd = kp * wrapped(command.position - q, limits.is_continuous) + kd * (command.velocity - v)
        torque = np.where(np.isfinite(command.tau + pd), np.clip(command.tau + pd, -most, most), 0.0)
        counts["torque"] += int((torque != command.tau + pd).sum())
        counts["torque rate"] += int((np.abs(torque - self.torque) > limits.max_torque_step).sum())
        torque = np.clip(torque, self.torque - limits.max_torque_step, self.torque + limits.max_torque_step)
        fast = (torque * v > 0.0) & (np.abs(v) > 0.9 * limits.max_speed)
        counts["velocity"] += int(fast.sum())
        left = most * np.maximum(limits.max_speed - np.abs(v), 0.0) / (0.1 * limits.max_speed)
        torque = np.where(fast, np.clip(torque, -left, left), torque)
        distance = np.where(torque > 0.0, limits.max_position - q, q - limits.min_position)
        left = np.where(distance < 0.05, most * np.maximum(distance, 0.0) / 0.05, most)
        counts["position"] += int((np.abs(torque) > left).sum())
        torque = np.clip(torque, -left, left)
        self.torque = np.where(np.isfinite(torque), torque, 0.0)
        tau, keeps = np.where(self.torque == command.tau + pd, command.tau, self.torque - pd), np.abs(pd) <= most
        tau = np.where(keeps, tau, self.torque)
        counts["torque"] += int((np.abs(tau) > most).sum())
        self.torque = np.where(keeps & (np.abs(tau) > most), np.clip(tau, -most, most) + pd, self.torque)
        kept = [np.where(keeps, part, 0.0) for part in (command.position, command.velocity, kp, kd)]
        return np.array([np.clip(tau, -most, most), *kept])
