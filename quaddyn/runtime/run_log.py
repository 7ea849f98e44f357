"""`RunLog`: ticks of a recording, with methods to inspect, compare, plot and replay them."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ..errors import ArgumentError, QuaddynError
from ..identification import ActuatorFit, fit_actuators
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..robot.saving import from_record
from ..safe_files import open_regular_file
from ..simulation.log import (
    REQUESTED_VELOCITY,
    Log,
    LogColumns,
    RecordedRun,
    base_columns,
    joint_columns,
    make_joint_fields,
    plot_panels,
)
from ..simulation.log_files import RECORDING, SUFFIX_FORMATS, recognize_format
from ..simulation.mcap_file import COMMANDED_EFFORT, Message, RobotMessages
from ..simulation.sensors import Measurement, reading_layout
from ..urdf.tree import Array, frozen
from .controller import Controller
from .motor_command import COMMAND_FIELDS, MotorCommand
from .recording import HEAD, MAGIC, STAGES, VERSION, record_type
from .run_mcap import make_tick_messages
from .stages import Stage
from .walking_controller import make_walking_controller

#: Largest size of a robot in a recording.
MAX_SIZE = 1 << 20
#: Largest time of the clock of a loop [s]: a century.
MAX_LOOP_TIME = 4e9
#: Tolerance of the norm of a recorded quaternion.
QUATERNION_TOLERANCE = 1e-3


@renamed_fields(differing="n_different", largest="max_difference", first="first_different")
@dataclass(frozen=True, slots=True)
class LogReplay:
    """Comparison of the commands of a controller on recorded readings with the recorded commands.

    Attributes:
        ticks: number of ticks computed.
        n_different: number of ticks with a command that differs in any bit.
        max_difference: largest difference of a feed-forward torque [N m].
        first_different: number of the first tick that differs, from 0 in the log; None without one.
    """

    ticks: int
    n_different: int
    max_difference: float
    first_different: int | None

    @property
    def identical(self) -> bool:
        """Whether all commands are equal bit for bit."""
        return self.n_different == 0


@renamed_attributes(asked="commanded_torques", actuators="fit_actuators", about="metadata")
class RunLog(RecordedRun):
    """Ticks of a recording, oldest first.

    Attributes:
        metadata: description of the run: robot, versions, machine, period, controller.
        records: (n,) structured array of the ticks with fields and units of `quaddyn.runtime.recording.record_type`.
        path: path of the file, for messages.
    """

    @renamed_parameters(about="metadata")
    def __init__(self, metadata: dict[str, Any], records: np.ndarray[Any, Any], path: str = "log") -> None:
        self.metadata, self.records, self.path = metadata, records, path

    def __len__(self) -> int:
        return len(self.records)

    @property
    def name(self) -> str:
        """Name of the robot."""
        return str(self.metadata["robot"]["name"])

    @property
    def stages(self) -> tuple[Stage, ...]:
        """(n,) stage of each tick."""
        return tuple(STAGES[i] for i in self.records["stage"])

    @property
    def faults(self) -> tuple[str, ...]:
        """Fault messages of the run, in order of time; a message that lasts for several ticks occurs once."""
        messages = [text.decode("ascii") for text in self.records["reason"]]
        return tuple(
            message
            for message, previous in zip(messages, ["", *messages], strict=False)
            if message and message != previous
        )

    @property
    def statuses(self) -> dict[str, int]:
        """Number of ticks by status of the controller."""
        return dict(Counter(text.decode("ascii") for text in self.records["status"].tolist() if text))

    def robot(
        self, source: str | os.PathLike[str] | None = None, *, packages: Iterable[str | os.PathLike[str]] = ()
    ) -> Robot:
        """Builds the robot, with all its parameters, from the metadata of the log; no other file is required.

        Args:
            source: catalogue name or file of the same robot, from which its meshes are read; None: without meshes.
            packages: folders in which the packages of ``package://`` URIs are searched, see `quaddyn.load`.

        Raises:
            ArgumentError: the description in the log is damaged, or `source` does not exist or is another robot.

        Warns:
            RuntimeWarning: the masses of `source`, which the returned robot has, are not those of the log.
        """
        record = self.metadata["robot"]
        try:
            robot = from_record(record, packages=packages)
        except (QuaddynError, TypeError, ValueError) as error:
            raise ArgumentError(f"{self.path}: the description of the robot in the log is damaged: {error}") from error
        sizes = {"nu": robot.nu, "nf": len(robot.feet), "nq": robot.nq, "nv": robot.nv}
        if (list(robot.actuated), sizes) != (self.metadata["joints"], self.metadata["sizes"]):
            raise ArgumentError(
                f"{self.path}: the log is damaged: the joints and sizes of its ticks are not those of its robot"
            )
        return robot if source is None else from_record(record, source=source, packages=packages)

    def measurement(self, i: int) -> Measurement:
        """Returns the reading of tick i."""
        return _measurement(self._columns, i)

    @property
    def _columns(self) -> dict[str, Any]:
        """All fields by name as views, whose entries are read faster than those of a record."""
        return {name: self.records[name] for name in self.records.dtype.names or ()}

    def state(self, i: int, robot: Robot) -> tuple[Array, Array | None]:
        """Returns the state that the controller estimated at tick i: q (nq,) and v (nv,).

        Without an estimate, q has the measured joints and the base of `robot.q_home`, and v is None.

        Raises:
            ArgumentError: q is not a configuration of the robot: the file is damaged.
        """
        r = self.records[i]
        if np.isfinite(r["q"]).all() and np.isfinite(r["v"]).all():
            q = np.array(r["q"])
            lengths = [np.linalg.norm(q[first : first + size]) for _, first, size in robot.unit_norm_slices]
            if any(abs(length - 1.0) > QUATERNION_TOLERANCE for length in lengths):
                raise ArgumentError(f"{self.path}: tick {i} is damaged: its q is not a configuration of {robot.name}")
            return q, np.array(r["v"])
        position = np.where(np.isfinite(r["position"]), r["position"], 0.0)
        return robot.configuration(joints=position), None

    def _configuration(self, i: int, robot: Robot) -> Array:
        return self.state(i, robot)[0]

    @property
    def commanded_torques(self) -> Array:
        """(n, nu) torques of the commands at the readings, PD terms included [N m]."""
        r = self._columns
        command = MotorCommand(*(np.array(r[f"command_{name}"]) for name in COMMAND_FIELDS))
        turning = JointPositions.actuated(self.robot()).turning
        with np.errstate(invalid="ignore", over="ignore"):  # failed sensors may have any value
            return command.compute_torque(r["position"], r["velocity"], turning)

    def fit_actuators(self) -> ActuatorFit:
        """Fits delay and torque-speed line of the motors to the measured torques, see `fit_actuators`.

        The delay is the time from a reading to the reading with the resulting torque, of which one period is that of
        the loop: ``log.fit_actuators().actuators(robot, period=log.metadata["dt"])`` are the motors for a plant in the
        same loop.  Only ticks with a new reading and with the controller are used, since damping acts on the true joint
        velocity between readings.

        Raises:
            ArgumentError: no measured torques, readings that are not finite, or a log that is too short.
        """
        r = self._columns
        if np.isnan(r["torque"]).any():
            raise ArgumentError(
                f"{self.path}: the log has no measured torques of the motors, which the identification of actuators "
                "requires"
            )
        controlled = np.array([stage.is_controlled for stage in STAGES])[r["stage"]]
        counted = controlled & (np.diff(r["time"], prepend=-np.inf) > 0.0)
        return fit_actuators(
            self.robot(),
            dt=self.metadata["dt"],
            commanded=self.commanded_torques,
            velocity=r["velocity"],
            motor_torque=r["torque"],
            valid=counted,
        )

    def __str__(self) -> str:
        r, about = self.records, self.metadata
        if not len(r):
            return f"{self.name}: no tick"
        stages = ", ".join(f"{name} {count}" for name, count in Counter(each.value for each in self.stages).items())
        late = 1e6 * (r["begun"] - r["deadline"])
        statuses = ", ".join(f"{name} {count}" for name, count in self.statuses.items()) or "none"
        lines = [
            f"{self.name}, {len(r)} ticks of {1e3 * about['dt']:g} ms",
            f"recorded from {about['began']} with quaddyn {about['quaddyn']}",
            f"stages: {stages}",
            f"controller: {statuses}",
            f"start of ticks after their scheduled time: median {np.median(late):.0f} us, at most {late.max():.0f} "
            f"us; {int((np.diff(r['tick']) > 1).sum())} gaps between recorded ticks",
            f"largest torque: {np.abs(r['command_tau']).max(initial=0.0):.3g} N m",
            *(f"fault: {fault}" for fault in self.faults or ("none",)),
        ]
        return "\n".join(lines)

    # -- the same again ------------------------------------------------------------------------------------------
    def replay(self, controller: Controller | None = None) -> LogReplay:
        """Computes the commands of a controller on the recorded readings and compares them with the recorded ones.

        The bits are equal on machines with the same processor features and libraries, see `metadata`.

        Args:
            controller: in its state before the first tick; None: made from the log.

        Raises:
            ArgumentError: the log has no known controller, does not contain its start, or is damaged.
        """
        r = self._columns
        if controller is None:
            configuration = self.metadata["controller"]
            if configuration is None or configuration.get("kind") not in ("WalkingController", "Walker"):
                raise ArgumentError(
                    "controller: required, because the log does not describe a WalkingController (its controller: "
                    f"{configuration}); pass controller="
                )
            robot = self.robot()
            try:
                controller = make_walking_controller(robot, configuration)
            except Exception as error:  # the options may have any name and type
                raise ArgumentError(
                    f"{self.path}: the description of the controller in the log is damaged: {error}"
                ) from error
        begins = np.flatnonzero(r["reset"])
        if not len(begins):
            raise ArgumentError(
                f"{self.path}: the log does not contain the start of the controller, from which a replay begins; "
                "record with a larger seconds="
            )
        controller.warmup()
        ticks = n_different = 0
        largest, first = 0.0, None
        columns = [(name, r[f"wanted_{name}"]) for name in COMMAND_FIELDS]
        stages, resets = r["stage"].tolist(), r["reset"].tolist()
        for i in range(int(begins[0]), len(stages)):
            stage = STAGES[stages[i]]
            if not stage.is_controlled:
                continue
            measurement = _measurement(r, i)
            if resets[i]:
                try:
                    controller.reset(measurement)
                except QuaddynError as error:
                    raise ArgumentError(
                        f"{self.path}: the replay stopped at tick {i}, where the log contains a reset of the "
                        f"controller: {error}"
                    ) from error
            x, y, turn = r["velocity_wanted"][i].tolist()
            try:
                command = controller.compute(measurement, stage, (x, y, turn))
            except Exception:  # the loop responds with damping
                command = MotorCommand.from_damping(r["wanted_damping"][i])
            ticks += 1
            if any([getattr(command, name).tobytes() != column[i].tobytes() for name, column in columns]):
                n_different += 1
                first = i if first is None else first
                largest = max(largest, float(np.abs(command.tau - r["wanted_tau"][i]).max()))
        return LogReplay(ticks, n_different, largest, first)

    def compare(self, other: RunLog) -> dict[str, float]:
        """Returns the largest difference of each field, by name, over the ticks that both logs contain.

        Raises:
            ArgumentError: logs of robots with other joints, or without a common tick.
        """
        if self.metadata["joints"] != other.metadata["joints"] or self.metadata["sizes"] != other.metadata["sizes"]:
            raise ArgumentError(
                f"other: expected a log of a robot with the joints of {self.name!r}, got one of {other.name!r}"
            )
        _, mine, theirs = np.intersect1d(self.records["last"], other.records["last"], return_indices=True)
        if not len(mine):
            raise ArgumentError("other: expected a log of the same run, but no tick is in both logs")
        out = {}
        for name in self.records.dtype.names or ():
            a, b = self.records[name][mine], other.records[name][theirs]
            if a.dtype.kind == "f" and a.size and name not in ("deadline", "begun"):
                # NaN means a missing or failed sensor, and is equal only to NaN.
                missing = np.isnan(a) != np.isnan(b)
                with np.errstate(invalid="ignore", over="ignore"):  # infinities are equal only to themselves
                    gap = np.where(missing, np.inf, np.where(np.isnan(a) | (a == b), 0.0, np.abs(a - b)))
                out[name] = float(gap.max())
        return out

    # -- for others ----------------------------------------------------------------------------------------------
    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Plots positions, velocities, torques, foot forces and latency over time to a file (extra: plot).

        Raises:
            QuaddynError: matplotlib is not installed.
            OSError: the file cannot be written.
        """
        r, about = self.records, self.metadata
        panels = [
            ("position", r["position"], about["joints"]),
            ("velocity [1/s]", r["velocity"], about["joints"]),
            ("torque [N m]", r["command_tau"], about["joints"]),
            ("late [us]", 1e6 * (r["begun"] - r["deadline"])[:, None], ["tick"]),
        ]
        if np.isfinite(r["foot_forces"]).any():
            panels.insert(3, ("foot force [N]", r["foot_forces"], about["feet"]))
        plot_panels(r["begun"] - r["begun"][:1], [(label, table, tuple(names)) for label, table, names in panels], path)
        return Path(path)

    def columns(self) -> dict[str, Array]:
        """Returns each quantity as an array (n,) by name and unit, such as "torque FL_hip_joint [N m]".

        "time" counts from the first tick, "reading time" is the time stamp of the sensor reading. "torque" is measured;
        "tau" is the torque of the command at the reading, PD terms included, from this tick to the next one. Columns of
        the command begin with "command", those of the controller's command before the safety layer with "controller".
        The base and its velocity, in base axes, are estimated; NaN where there is no estimate. Sensors that the robot
        does not have are left out.

        Raises:
            ArgumentError: the description of the robot in the log is damaged.
        """
        r, joints, start = self._columns, self.metadata["joints"], self.records["begun"].min(initial=np.inf)
        fields = make_joint_fields(robot := self.robot())
        units = fields["joint_units"]
        columns = {"time [s]": r["begun"] - start, "reading time [s]": r["time"]}
        columns |= {"tick [1]": r["tick"].astype(np.float64), "latency [s]": r["begun"] - r["deadline"]}
        measured = {"position": r["position"], "velocity": r["velocity"]}
        measured |= {name: r[name] for name in ("torque", "temperature") if np.isfinite(r[name]).any()}
        for name, values in (*measured.items(), ("tau", self.commanded_torques)):
            columns |= joint_columns(name, values, joints, units)
        for prefix, of in (("command", "command"), ("controller", "wanted")):
            for name in COMMAND_FIELDS:
                columns |= joint_columns(name, r[f"{of}_{name}"], joints, units, prefix=f"{prefix} ")
        for name, unit in (("gyro", "rad/s"), ("accelerometer", "m/s^2")):
            columns |= {f"{name} {axis} [{unit}]": r[name][:, i] for i, axis in enumerate("xyz")}
        if np.isfinite(r["foot_forces"]).any():
            columns |= {
                f"foot force {foot} [N]": r["foot_forces"][:, i] for i, foot in enumerate(self.metadata["feet"])
            }
        columns |= base_columns(robot.root, r["q"], r["v"])
        return LogColumns(columns | dict(zip(REQUESTED_VELOCITY, r["velocity_wanted"].T, strict=True)))

    def text_columns(self) -> dict[str, Sequence[str]]:
        """Returns the columns "stage", "status" and "fault"."""
        texts = {
            name: [x.decode("ascii") for x in self.records[field].tolist()]
            for name, field in (("status", "status"), ("fault", "reason"))
        }
        return {"stage": [stage.value for stage in self.stages], **texts}

    def _recorded_robot(self) -> Robot | None:
        return self.robot()

    def _attachments(self) -> dict[str, bytes]:
        robot = {name: value for name, value in self.metadata["robot"].items() if name != "urdf"}
        return {"about.json": json.dumps({**self.metadata, "robot": robot}).encode()}

    def _channel_metadata(self) -> dict[str, dict[str, str]]:
        return {} if np.isfinite(self.records["torque"]).any() else {"/joint_states": COMMANDED_EFFORT}

    def _tick_messages(self, robot: RobotMessages | None) -> Iterator[tuple[float, list[Message]]]:
        """Yields the time since the earliest record and the messages of `quaddyn.runtime.run_mcap`."""
        assert robot is not None
        r, root_link = self.records, robot.robot.tree.root.name
        is_measured = {name: bool(np.isfinite(r[name]).any()) for name in ("torque", "foot_forces", "temperature")}
        start, commanded_torques = r["begun"].min(initial=np.inf), self.commanded_torques.tolist()
        for i, record in enumerate(r):
            seconds = float(record["begun"] - start)
            messages = make_tick_messages(self.metadata, record, is_measured, commanded_torques[i], root_link)
            yield seconds, messages + robot.make_transforms(seconds, partial(self._configuration, i, robot.robot))


def _measurement(columns: dict[str, Any], i: int) -> Measurement:
    """Returns the reading of tick i."""
    nu, nf = len(columns["position"][i]), len(columns["foot_forces"][i])
    values = frozen(np.concatenate([columns[name][i] for name in reading_layout(nu, nf)]))
    return Measurement.from_packed(float(columns["time"][i]), nu, nf, values)


def load_recording(path: str | os.PathLike[str]) -> RunLog:
    """Reads a recording: all complete ticks, oldest first, also while it is written or after its process was killed.

    Args:
        path: path of the file.

    Raises:
        ArgumentError: not a recording, of another version, or truncated.
        OSError: the file cannot be read.
    """
    with open_regular_file(path) as file:
        # Mapped, since the complete records are copied below.
        total = os.fstat(file.fileno()).st_size
        data = mmap.mmap(file.fileno(), total, access=mmap.ACCESS_READ) if total else b""
    if len(data) < HEAD.size or data[:6] != MAGIC:
        found = recognize_format(path)
        advice = "; logs of simulations are accepted by load_log and by quaddyn log show, plot, csv, parquet and mcap"
        raise ArgumentError(
            f"{path}: expected a recording of a control loop (quaddyn.runtime.Recording), got {found}"
            f"{advice if found == SUFFIX_FORMATS['.npz'] else ''}"
        )
    _, version, length, begin, size, capacity = HEAD.unpack_from(data)
    if version != VERSION:
        raise ArgumentError(
            f"{path}: the recording has format version {version}, but this version of quaddyn reads version {VERSION}"
        )
    try:
        about = json.loads(data[HEAD.size : HEAD.size + length])
        _validate_metadata(about)
        kind = record_type(about["sizes"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ArgumentError(
            f"{path}: the description of the run is damaged ({type(error).__name__}: {error})"
        ) from None
    if kind.itemsize != size or len(data) < begin + capacity * size:
        raise ArgumentError(f"{path}: the recording is truncated, or its layout is different")
    records = np.frombuffer(data, dtype=kind, count=capacity, offset=begin)
    numbers = np.array(records["number"])
    whole = np.flatnonzero((numbers > 0) & (numbers == records["last"]))
    whole = whole[np.argsort(numbers[whole])]
    complete = records[whole]
    same = (complete["number"] == numbers[whole]) & (complete["last"] == numbers[whole])  # a loop may write meanwhile
    complete = complete if same.all() else complete[same]
    for name, wrong in _find_damage(complete):
        if wrong.any():
            tick = int(np.flatnonzero(wrong)[0])
            raise ArgumentError(f"{path}: tick {tick} is damaged: its {name} is {complete[name][tick]!r}")
    return RunLog(about, complete, str(path))


def load_log(path: str | os.PathLike[str]) -> RunLog | Log:
    """Reads the log of a simulation or the recording of a control loop, according to the content of the file.

    Args:
        path: file of `quaddyn.simulation.Log.save` or of `quaddyn.runtime.Recording`.

    Raises:
        ArgumentError: the file is neither, or it is damaged.
        OSError: the file cannot be read.
    """
    found = recognize_format(path)
    if found == RECORDING:
        return load_recording(path)
    if found == SUFFIX_FORMATS[".npz"]:
        return Log.load(path)
    advice = "; tables and messages cannot be converted back: pass the file from which they were written"
    raise ArgumentError(
        f"{path}: expected a log of a simulation (Log.save) or a recording of a control loop "
        f"(quaddyn.runtime.Recording), got {found}{advice if found in SUFFIX_FORMATS.values() else ''}"
    )


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like a recording of a control loop.

    Raises:
        OSError: the file cannot be read.
    """
    return recognize_format(path) == RECORDING


def _validate_metadata(about: Any) -> None:
    """Validates the description of a run.

    Raises:
        KeyError: an entry is missing.
        ValueError: an entry is of a wrong type or size.
    """
    sizes = {name: about["sizes"][name] for name in ("nu", "nf", "nq", "nv")}
    if not all(type(size) is int and 0 <= size <= MAX_SIZE for size in sizes.values()):
        raise ValueError(f"sizes: expected integers of at least 0, got {sizes}")
    for name, count in (("joints", sizes["nu"]), ("feet", sizes["nf"])):
        if type(about[name]) is not list or not all(type(each) is str for each in about[name]):
            raise ValueError(f"{name}: expected a list of names")
        if len(about[name]) != count or len(set(about[name])) != count:
            raise ValueError(f"{name}: expected {count} different names, got {about[name]}")
    if type(about["dt"]) not in (int, float) or not 0.0 < about["dt"] < math.inf:
        raise ValueError(f"dt: expected a positive number, got {about['dt']!r}")
    kinds: dict[str, tuple[type, ...]] = {"began": (str,), "quaddyn": (str,), "controller": (dict, type(None))}
    for name, types in {**kinds, "robot": (dict,)}.items():
        if type(about[name]) not in types:
            raise ValueError(f"{name}: unexpected type {type(about[name]).__name__}")
    for name in ("name", "urdf", "root"):
        if type(about["robot"][name]) is not str:
            raise ValueError(f"robot: expected {name} to be a str, got {type(about['robot'][name]).__name__}")


def _find_damage(records: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yields each field that the loop writes and (n,) whether its value is impossible; sensors are not checked."""
    for name in ("deadline", "begun"):
        yield name, ~(np.abs(records[name]) <= MAX_LOOP_TIME)
    for name in ("stage", "goal"):
        yield name, (records[name] < 0) | (records[name] >= len(STAGES))
    for name in ("status", "reason"):
        text = np.ascontiguousarray(records[name])
        yield name, (text.view(np.uint8).reshape(len(text), text.dtype.itemsize) > 127).any(axis=1)
