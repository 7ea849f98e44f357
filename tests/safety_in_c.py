"""Comparison of the safety layer in Python with its export to C99 on random readings, clocks and commands."""

from __future__ import annotations

import ctypes
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from compiling_c import COMPILER, FLAGS

import quaddyn as qd
from quaddyn.compiler import silence_messages
from quaddyn.runtime import MotorCommand, Safety, SafetyLimits, export_safety
from quaddyn.runtime.safety import EXTERNAL_FAULTS
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.simulation import Measurement

DT = 2e-3
LIMITS = SafetyLimits(max_power=1000.0)
PARTS = ("position", "velocity", "gyro", "accelerometer", "torque", "foot_forces", "temperature")
WRONG = (np.nan, np.inf, -np.inf, 1e308, -1e12, 0.0)


class SafetyInC:
    """An exported and compiled safety layer.

    Args:
        safety: the layer to export.
        folder: folder for the sources.
    """

    def __init__(self, safety: Safety, folder: Path) -> None:
        with silence_messages():
            export_safety(safety, folder, name="layer")
        sources, out = [str(folder / f"layer{part}.c") for part in ("", "_core")], folder / "layer.so"
        flags = *FLAGS, "-O1", "-ffp-contract=off", "-shared", "-fPIC"
        subprocess.run([COMPILER, *flags, "-o", str(out), *sources, "-lm"], check=True)
        self.library, self.safety = ctypes.CDLL(str(out)), safety
        self.library.layer_name.restype = ctypes.c_char_p
        pointers, number = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p), ctypes.c_double
        self.library.layer_tick_at.argtypes = (*pointers, number, number, ctypes.c_int)
        self.library.layer_tick.argtypes = (*pointers, ctypes.c_bool, number, ctypes.c_int)
        self.library.layer_size.restype = ctypes.c_size_t
        self.memory = ctypes.create_string_buffer(self.library.layer_size())
        self.library.layer_initialize(self.memory)
        self.damp = MotorCommand.from_damping(safety.limit_arrays.fault_damping)

    def reset(self) -> None:
        """Same as `Safety.reset`."""
        self.library.layer_reset(self.memory)

    def filter_command(
        self, m: Measurement, command: MotorCommand | None, now: float, raised: int
    ) -> tuple[int, str | None, np.ndarray]:
        """Code of the fault, its joint, and the motor command (5, nu)."""
        return self._called(self.library.layer_tick_at, m, command, m.time, now, raised)

    def tick(
        self, m: Measurement, command: MotorCommand | None, fresh: bool, elapsed: float, raised: int = 0
    ) -> tuple[int, str | None, np.ndarray]:
        """The same, with the age of the reading given by the caller."""
        return self._called(self.library.layer_tick, m, command, fresh, elapsed, raised)

    def name(self, code: int) -> str:
        """Name of a fault code."""
        return str(self.library.layer_name(code).decode())

    def _called(
        self, function: Any, m: Measurement, command: MotorCommand | None, first: float, second: float, raised: int
    ) -> tuple[int, str | None, np.ndarray]:
        kept = [None if (part := getattr(m, name)) is None else np.ascontiguousarray(part) for name in PARTS]
        reading = (ctypes.c_void_p * len(PARTS))(*(None if part is None else part.ctypes.data for part in kept))
        given = self.damp if command is None else command
        out = np.array([given.tau, given.position, given.velocity, given.stiffness, given.damping])
        raised = FaultCode.NO_COMMAND if command is None and not raised else raised
        code = function(self.memory, ctypes.byref(reading), out.ctypes.data, first, second, raised)
        joint = self.library.layer_joint(self.memory)
        return code, None if joint < 0 else self.safety.robot.actuated[joint], out


@dataclass
class RandomSequences:
    """Random sequences of readings, times of the caller, and commands.

    Joints oscillate, some of them about the end of their range, and readings are correct apart from random faults:
    invalid numbers; missing, intermittent or frozen sensors; late, repeated or reordered readings; invalid, repeated,
    past or future time stamps; clocks that run, stop, go back or are NaN.
    """

    robot: qd.Robot
    rng: np.random.Generator
    drawn: Counter[str] = field(default_factory=Counter)

    def sequence(self, ticks: int) -> Iterator[tuple[Measurement, MotorCommand | None, float, int]]:
        """Yields reading, command, time of the caller, and code of an externally raised fault, for each tick."""
        rng, nu = self.rng, self.robot.nu
        lower, upper = (
            np.maximum(self.robot.lower_position_limits, -1.0),
            np.minimum(self.robot.upper_position_limits, 1.0),
        )
        start, size, phase = 100.0 * rng.random(), 0.1 * rng.random(nu), 6.3 * rng.random(nu)
        rate = 20.0 * rng.random(nu)
        end = np.where(rng.random(nu) < 0.5, self.robot.lower_position_limits, self.robot.upper_position_limits)
        at_stop = (rng.random(nu) < rng.choice([0.0, 0.3])) & np.isfinite(end)
        middle = np.where(at_stop, end, 0.5 * (lower + upper))
        gains = rng.choice([0.0, 100.0]), rng.choice([0.0, 5.0])
        slope = rng.choice([0.0, 1.0])
        absent = [name for name in ("torque", "foot_forces", "temperature") if rng.random() < 0.2]
        empty = rng.random() < 0.5  # whether missing sensors give NaN instead of None
        clock = rng.choice(["runs", "stands", "goes back", "none"], p=[0.7, 0.1, 0.1, 0.1])
        events = [(*np.sort(rng.integers(ticks + 1, size=2)), self._event()) for _ in range(rng.integers(0, 3))]
        told, before = np.zeros(nu), list[Measurement]()
        for k in range(ticks):
            t = start + DT * k
            position = middle + size * np.sin(rate * t + phase)
            velocity = size * rate * np.cos(rate * t + phase) + rng.normal(0.0, 0.01, nu)
            gyro, up = 0.01 * rng.standard_normal((2, 3))
            parts = [
                told + rng.normal(0.0, 0.1, nu),
                50.0 * rng.random(len(self.robot.feet)),
                np.full(nu, 40.0 + slope * k),
            ]
            m = Measurement(t, position, velocity, gyro, np.array([0.0, 0.0, 9.81]) + up, *parts)
            m = replace(m, **{name: np.full(getattr(m, name).shape, np.nan) if empty else None for name in absent})
            tau = rng.normal(0.0, 3.0, nu)
            targets = position + rng.normal(0.0, 0.1, nu), velocity, *np.outer(gains, rng.random(nu))
            command: MotorCommand | None = MotorCommand.from_targets(*targets, tau=tau)
            true, raised = m, 0
            for first, last, (kind, what) in events:
                if first <= k < last:
                    m, command, raised = self._changed(kind, what, m, command, before, k - first)
                    self.drawn[kind] += 1
            before.append(true)
            told = command.compute_torque(position, velocity) if command is not None else np.zeros(nu)
            now = {"runs": 7.0 + DT * k, "stands": 3.0, "goes back": 50.0 - DT * k, "none": np.nan}[clock]
            yield m, command, now, raised

    def _event(self) -> tuple[str, tuple[str, int, float]]:
        kinds = (
            "number",
            "part",
            "gone",
            *("stuck",) * 3,
            "late",
            "again",
            "out of order",
            "stamp",
            "command",
            "none",
            "raised",
        )
        name = str(self.rng.choice(PARTS))
        return str(self.rng.choice(kinds)), (name, int(self.rng.integers(1000)), float(self.rng.choice(WRONG)))

    def _changed(
        self,
        kind: str,
        what: tuple[str, int, float],
        m: Measurement,
        command: MotorCommand | None,
        before: list[Measurement],
        k: int,
    ) -> tuple[Measurement, MotorCommand | None, int]:
        """Reading, command and external fault changed by an event, k ticks after its start."""
        name, at, value = what
        part, held, raised = getattr(m, name), before[max(len(before) - 1 - k, 0)] if before else m, 0
        if kind in ("number", "part") and part is not None and part.size:
            part = part.copy()
            part[slice(None) if kind == "part" else at % part.size] = value
            m = replace(m, **{name: part})
        elif kind == "gone" and (name in ("torque", "foot_forces", "temperature") or at % 2):
            m = replace(m, **{name: None})
        elif kind == "stuck":
            names = ("position", "velocity") if name in ("position", "velocity") and at % 2 else (name,)
            m = replace(m, **{name: getattr(held, name) for name in names})
        elif kind == "late":
            m = held
        elif kind == "again":
            m = replace(m, time=held.time)
        elif kind == "out of order" and len(before) > 3 and self.rng.random() < 0.5:
            m = before[-int(self.rng.integers(1, 4))]
        elif kind == "stamp":
            stamps = np.nan, np.inf, -np.inf, -m.time, m.time - 0.1, m.time + 0.1, m.time + 0.03, 0.0, 1e300
            if at % 2 or not k:  # at the first tick, or during the whole event
                m = replace(m, time=stamps[at % len(stamps)])
        elif kind == "command" and command is not None:
            wild = value * self.rng.standard_normal((5, self.robot.nu))
            wild[3:] = abs(wild[3:]) if at % 4 else wild[3:]
            command = MotorCommand(*np.where(self.rng.random((5, self.robot.nu)) < 0.3, wild, 0.0))
        elif kind == "none":
            command = None
        elif kind == "raised":
            raised = EXTERNAL_FAULTS[at % len(EXTERNAL_FAULTS)]
        return m, command, raised


@np.errstate(all="ignore")
def differences(other: SafetyInC, ticks: int, seed: int) -> tuple[list[str], Counter[str], Counter[str]]:
    """Texts about ticks that differ by more than rounding, counts of faults by name, and of events by kind."""
    safety, rng = other.safety, np.random.default_rng(seed)
    drawn = RandomSequences(safety.robot, rng)
    found, faults, done = list[str](), Counter[str](), 0
    while done < ticks:
        safety.reset()
        other.reset()
        for m, command, now, raised in drawn.sequence(int(rng.integers(2, 60))):
            done += 1
            if raised:
                safety.raise_fault(raised, "")
            report = safety.filter_command(m, command, now=now)
            code, joint, given = other.filter_command(m, command, now, raised)
            ours = report.command
            expected = [ours.tau, ours.position, ours.velocity, ours.stiffness, ours.damping]
            same = np.allclose(given, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
            fault = (0, None) if report.fault is None else (report.fault.code, report.fault.joint)
            if fault != (code, joint) or not same:
                found.append(f"tick {done}: {report.fault}, in C {other.name(code)}, {m}, {command}")
                break
            if report.fault is not None:
                faults[report.fault.name] += 1
                break
    return found, faults, drawn.drawn
