"""`Log`: recorded run of a plant, for plots, files and other programs.

`RecordedRun` is the interface of the logs of simulations and robots: tables for other programs, and MCAP files.  A
`LogBuilder` collects states, torques and contacts of a plant tick by tick.  A file is an archive of arrays and one
JSON text, without pickles.
"""

from __future__ import annotations

import csv
import json
import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..archives import read_arrays
from ..deprecation import renamed_fields
from ..errors import ArgumentError, QuaddynError, UnknownNameError
from ..extras import import_extra
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..robot.root import ROOT_SIZES
from ..robot.saving import from_record, to_record, urdf_text
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, file_errors, open_regular_file
from ..urdf.tree import Array, frozen
from .mcap_file import (
    COMMANDED_EFFORT,
    JOINTS,
    LATCHED,
    WORLD,
    WRENCH,
    Encoding,
    Message,
    RobotMessages,
    make_base_messages,
    make_foxglove_layout,
    make_vector,
    make_velocity_message,
    write_messages,
)
from .records import ActivePush, Checkpoint, ContactPoint

#: Units of quantities of a joint, for "rad" and for "m".
JOINT_UNITS = {
    "position": ("rad", "m"),
    "velocity": ("rad/s", "m/s"),
    "tau": ("N m", "N"),
    "torque": ("N m", "N"),
    "stiffness": ("N m/rad", "N/m"),
    "damping": ("N m s/rad", "N s/m"),
    "temperature": ("degC", "degC"),
}
#: Columns of the position and velocity of a root; the velocity of a free root is in base axes.
BASE_COLUMNS = {
    "free": (
        *(f"base {name}" for name in ("x [m]", "y [m]", "z [m]", "qx [1]", "qy [1]", "qz [1]", "qw [1]")),
        *(f"base v{axis} [m/s]" for axis in "xyz"),
        *(f"base w{axis} [rad/s]" for axis in "xyz"),
    ),
    "planar": (
        *("base x [m]", "base z [m]", "base pitch [rad]"),
        *("base vx [m/s]", "base vz [m/s]", "base wy [rad/s]"),
    ),
    "fixed": (),
}

#: Columns of the velocity that a locomotion controller was given: forward, leftward, yaw rate.
REQUESTED_VELOCITY = ("requested velocity x [m/s]", "requested velocity y [m/s]", "requested turn rate [rad/s]")


def joint_columns(
    quantity: str, values: Array, names: Sequence[str], units: Sequence[str], *, prefix: str = ""
) -> dict[str, Array]:
    """Returns the columns of a quantity of joints, such as "position FL_hip_joint [rad]".

    Args:
        quantity: key of `JOINT_UNITS`.
        values: (n, k) values at n ticks.
        names: (k,) names of the joints.
        units: (k,) "rad" or "m" for each joint.
        prefix: begins each name.
    """
    choices = dict(zip(("rad", "m"), JOINT_UNITS[quantity], strict=True))
    pairs = zip(names, units, strict=True)
    return {f"{prefix}{quantity} {name} [{choices[unit]}]": values[:, i] for i, (name, unit) in enumerate(pairs)}


def base_columns(root: str, q: Array, v: Array) -> dict[str, Array]:
    """Returns the columns of `BASE_COLUMNS` for configurations q (n, nq) and velocities v (n, nv)."""
    names = BASE_COLUMNS[root]
    size_v = ROOT_SIZES[root][1]
    table = [*q.T[: len(names) - size_v], *v.T[:size_v]]
    return dict(zip(names, table, strict=True))


class LogColumns(dict[str, Array]):
    """Columns of numbers by name; errors about other names mention the columns of text."""

    def __missing__(self, name: str) -> Array:
        raise UnknownNameError("column of numbers (those of text are in text_columns())", name, self)


class RecordedRun(ABC):
    """Interface of `quaddyn.simulation.Log` and `quaddyn.runtime.RunLog`."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> dict[str, Array]:
        """Returns each quantity as an array (n,) by name and unit, such as "velocity FL_hip_joint [rad/s]".

        Texts are in `text_columns`.
        """

    @abstractmethod
    def text_columns(self) -> dict[str, Sequence[str]]:
        """Returns the columns of text, such as "status"; n entries each."""

    @abstractmethod
    def _tick_messages(self, robot: RobotMessages | None) -> Iterator[tuple[float, list[Message]]]:
        """Yields time [s] and messages of each tick."""

    @abstractmethod
    def _recorded_robot(self) -> Robot | None:
        """Returns the robot; None if the log does not contain it."""

    def _attachments(self) -> dict[str, bytes]:
        """Returns the files that are attached to an MCAP file."""
        return {}

    def _channel_metadata(self) -> dict[str, dict[str, str]]:
        """Returns the metadata of the channels of an MCAP file, by topic."""
        return {}

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Writes `columns` and `text_columns` as a table with a header line, and returns the path.

        Raises:
            OSError: the file cannot be written.
        """
        columns, texts = self.columns(), self.text_columns()
        with file_errors(), Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, *texts])
            table = np.column_stack(list(columns.values()))
            for row, *words in zip(table.tolist(), *texts.values(), strict=True):
                writer.writerow([*row, *words])
        return Path(path)

    def to_pandas(self) -> Any:
        """Returns `columns` and `text_columns` as a ``pandas.DataFrame`` with one row per tick (extra: export).

        Raises:
            QuaddynError: pandas is not installed.
        """
        return import_extra("pandas", "export").DataFrame({**self.columns(), **self.text_columns()})

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Writes `columns` and `text_columns` as a Parquet file (extra: export), and returns the path.

        Raises:
            QuaddynError: pyarrow is not installed.
            OSError: the file cannot be written.
        """
        pyarrow, parquet = import_extra("pyarrow", "export"), import_extra("pyarrow.parquet", "export")
        data = {**self.columns(), **{name: list(text) for name, text in self.text_columns().items()}}
        with file_errors():
            parquet.write_table(pyarrow.table(data), str(path))
        return Path(path)

    def to_mcap(self, path: str | os.PathLike[str], *, encoding: Encoding = "ros2") -> Path:
        """Writes an MCAP file for Foxglove, PlotJuggler and rosbag2 (extra: mcap), and returns the path.

        The topics are those of `quaddyn.simulation.mcap_file` and of the kind of log.  The URDF and a layout for
        Foxglove are attached.

        Args:
            path: file to write.
            encoding: "ros2" for messages in CDR, which rosbag2 reads; "json" for JSON.

        Raises:
            ArgumentError: another encoding.
            QuaddynError: the package mcap is not installed.
            OSError: the file cannot be written.
        """
        robot, attachments = self._recorded_robot(), self._attachments()
        described = None if robot is None else RobotMessages(robot)
        if robot is not None:
            attachments["robot.urdf"] = urdf_text(robot).encode("utf-8", "surrogateescape")
            feet = [f"/contact/{foot}" for foot in robot.feet]
            attachments["foxglove_layout.json"] = make_foxglove_layout(robot, feet)

        def with_description() -> Iterable[tuple[float, list[Message]]]:
            for i, (seconds, messages) in enumerate(self._tick_messages(described)):
                description = described.describe(seconds) if described is not None and i == 0 else []
                yield seconds, [*description, *messages]

        return write_messages(
            path,
            with_description(),
            encoding=encoding,
            attachments=attachments,
            latched=LATCHED,
            metadata=self._channel_metadata(),
        )


#: Format of the files that `save` writes, and the formats that `load` reads.
FORMAT, READABLE_FORMATS = 4, (1, 2, 3, 4)
#: New names of the classes and of their fields that files of format 1 hold under an old name.
RENAMED_CLASSES = {"Push": "ActivePush", "TouchingPoint": "ContactPoint"}
RENAMED_FIELDS = {
    "Log": {
        "joints": "joint_names",
        "lost": "level_residuals",
        "places": "joint_slices",
        "ratio": "steps_per_tick",
        "start": "initial_checkpoint",
        "units": "joint_units",
    }
}


def save(record: object, path: str | os.PathLike[str]) -> Path:
    """Writes a record, a dataclass of numbers, strings, arrays, tuples and other such records, and returns the path."""
    arrays: dict[str, Any] = {}
    text = json.dumps({"format": FORMAT, "record": _to_json(record, arrays)})
    with file_errors(), Path(path).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    return Path(path)


def load(path: str | os.PathLike[str], kinds: Iterable[type]) -> Any:
    """Reads a record that `save` wrote.

    Args:
        path: file to read.
        kinds: classes that may occur in the file: first that of the record, then those within it.

    Raises:
        ArgumentError: the file does not contain such a record.
        OSError: the file cannot be opened.
    """
    record_class, classes = next(iter(kinds)), {kind.__name__: kind for kind in kinds}
    message = f"{path}: the file is not a {record_class.__name__.lower()} saved by quaddyn, or it is damaged"
    with open_regular_file(path) as file:
        try:
            arrays = read_arrays(file)
            meta = json.loads(arrays.pop("meta").tobytes())
            if meta["format"] not in READABLE_FORMATS:
                raise ArgumentError(
                    f"the file has format {meta['format']}, but this version of quaddyn reads formats up to {FORMAT}"
                )
            record = _from_json(meta["record"], arrays, classes)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None
        except DAMAGED_ARCHIVE_ERRORS:
            raise ArgumentError(message) from None
    if not isinstance(record, record_class):
        raise ArgumentError(message)
    return record


def _to_json(value: Any, arrays: dict[str, Any]) -> Any:
    """Returns a value as JSON data; its arrays are added to `arrays`, and the data contain their names."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return {"tuple": [_to_json(item, arrays) for item in value]}
    if isinstance(value, Robot):
        return {"robot": json.dumps(to_record(value))}
    if is_dataclass(value):
        return {type(value).__name__: {f.name: _to_json(getattr(value, f.name), arrays) for f in fields(value)}}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _from_json(value: Any, arrays: dict[str, Any], classes: Mapping[str, type]) -> Any:
    """Returns the value that `_to_json` converted; `classes` are the dataclasses by name."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        array = arrays[content]
        array.flags.writeable = False
        return array
    if kind == "robot":  # built when it is needed, see `Log.robot`
        return str(content)
    if kind == "tuple":
        return tuple(_from_json(item, arrays, classes) for item in content)
    kind = RENAMED_CLASSES.get(str(kind), str(kind))
    new_names = RENAMED_FIELDS.get(kind, {})
    return classes[kind](
        **{new_names.get(name, name): _from_json(item, arrays, classes) for name, item in content.items()}
    )


@renamed_fields(
    joints="joint_names",
    lost="level_residuals",
    places="joint_slices",
    ratio="steps_per_tick",
    start="initial_checkpoint",
    units="joint_units",
)
@dataclass(frozen=True, slots=True, eq=False)
class Log(RecordedRun):
    """Recorded run of `Plant.run`, at each of its n ticks.

    Attributes:
        initial_checkpoint: state at the start.
        steps_per_tick: time steps per tick.
        time: (n,) time [s].
        q, v: (n, nq), (n, nv) configuration and velocity when the controller was called.
        tau: (n, nu) torques that the controller returned, before delays and limits [N m or N].
        forces: (n, s, 3) mean ground reaction force over the last step of each tick, on the robot, world axes [N].
        spheres: (s,) names for `forces`: feet, other named spheres, then links of the body that were in contact.
        status: (n,) outcome of whole-body control; the mode, such as "fallen", of a `LocomotionCommand` without
            whole-body control; "" if the controller returned torques only.
        level_residuals: (n, L) residual of each level of whole-body control [m/s^2], see `quaddyn.wbc.LevelReport`; (n,
            0) unless `Plant.run` was called with ``record_residuals=True``.
        root: "free", "planar" or "fixed".
        joint_names: (nu,) names of the actuated joints, in the order of `tau`.
        joint_units: (nu,) unit of each joint, "rad" or "m".
        joint_slices: (nu, 3) for each joint its entry in v, its first entry in q, and its number of entries in q.
        robot_record: the robot, or its record as JSON in a log from a file; None in logs of old files, see `robot`.
        requested_velocity: (n, 3) velocity that a `LocomotionController` was given: forward and leftward [m/s], yaw
            rate [rad/s]; NaN at ticks of other controllers, (0, 3) if there is none.
        modes: (n,) mode of a `LocomotionController`, such as "moving"; "" at ticks of other controllers, empty if there
            is none.
    """

    initial_checkpoint: Checkpoint
    steps_per_tick: int
    time: Array
    q: Array
    v: Array
    tau: Array
    forces: Array
    spheres: tuple[str, ...]
    status: tuple[str, ...] = ()
    level_residuals: Array = field(default_factory=lambda: np.zeros((0, 0)))
    root: str = "fixed"
    joint_names: tuple[str, ...] = ()
    joint_units: tuple[str, ...] = ()
    joint_slices: Array = field(default_factory=lambda: np.zeros((0, 3)))
    robot_record: Robot | str | None = None
    requested_velocity: Array = field(default_factory=lambda: np.zeros((0, 3)))
    modes: tuple[str, ...] = ()

    @property
    def positions(self) -> Array:
        """Positions of the actuated joints (n, nu) [rad or m]."""
        _, first_entry, entries = self.joint_slices.astype(np.intp).T
        return JointPositions(first_entry, entries == 2).of(self.q)

    @property
    def velocities(self) -> Array:
        """Velocities of the actuated joints (n, nu) [rad/s or m/s]."""
        return self.v[:, self.joint_slices[:, 0].astype(int)]

    @property
    def base(self) -> Array | None:
        """Position [m] and quaternion (x, y, z, w) of a free base (n, 7); None for other roots."""
        return self.q[:, :7] if self.root == "free" else None

    def __repr__(self) -> str:
        outcomes = "".join(f", {n} {outcome}" for outcome, n in Counter(self.status).most_common() if outcome)
        start = self.initial_checkpoint
        return f"Log({start.robot!r}, {len(self.time)} ticks of {1e3 * start.dt * self.steps_per_tick:g} ms{outcomes})"

    def robot(
        self, source: str | os.PathLike[str] | None = None, *, packages: Iterable[str | os.PathLike[str]] = ()
    ) -> Robot:
        """Returns the robot of the run, also of a log from a file.

        Args:
            source: catalogue name or file of the same robot, from which a log from a file reads the meshes; None:
                without meshes.
            packages: folders in which the packages of ``package://`` URIs are searched, see `quaddyn.load`.

        Raises:
            ArgumentError: the log does not contain its robot, its description is damaged, or `source` does not exist or
                is another robot.

        Warns:
            RuntimeWarning: the masses of `source`, which the returned robot has, are not those of the log.
        """
        if self.robot_record is None:
            raise ArgumentError(
                f"the log of {self.initial_checkpoint.robot!r} does not contain its robot, because it was saved by a "
                "version of quaddyn that did not save it; load the robot with quaddyn.load"
            )
        if isinstance(self.robot_record, Robot):
            return self.robot_record
        try:
            record = json.loads(self.robot_record)
            robot = from_record(record, packages=packages)
        except (QuaddynError, TypeError, ValueError) as error:
            raise ArgumentError(f"the description of the robot in the log is damaged: {error}") from error
        return robot if source is None else from_record(record, source=source, packages=packages)

    def columns(self) -> dict[str, Array]:
        """Returns each quantity as an array (n,) by name and unit, such as "tau FL_hip_joint [N m]".

        "tau" is the torque from this tick to the next one. The velocity of a free base is in base axes, forces are in
        world axes.
        """
        quantities = {"position": self.positions, "velocity": self.velocities, "tau": self.tau}
        by_joint = [
            {
                name: column
                for quantity, values in quantities.items()
                for name, column in joint_columns(quantity, values[:, [i]], [joint], [unit]).items()
            }
            for i, (joint, unit) in enumerate(zip(self.joint_names, self.joint_units, strict=True))
        ]
        columns = {"time [s]": self.time}
        for each in (*by_joint, base_columns(self.root, self.q, self.v)):
            columns |= each
        for s, sphere in enumerate(self.spheres):
            columns |= {f"force {sphere} {axis} [N]": self.forces[:, s, i] for i, axis in enumerate("xyz")}
        if len(self.requested_velocity):
            columns |= dict(zip(REQUESTED_VELOCITY, self.requested_velocity.T, strict=True))
        columns |= {f"residual of level {k} [m/s^2]": residual for k, residual in enumerate(self.level_residuals.T)}
        return LogColumns(columns)

    def text_columns(self) -> dict[str, Sequence[str]]:
        """Returns the columns "status" and "mode", if there is any status or mode."""
        texts = {"status": self.status, "mode": self.modes}
        return {name: values for name, values in texts.items() if any(values)}

    def _recorded_robot(self) -> Robot | None:
        return None if self.robot_record is None else self.robot()

    def _channel_metadata(self) -> dict[str, dict[str, str]]:
        return {"/joint_states": COMMANDED_EFFORT}

    def _tick_messages(self, robot: RobotMessages | None) -> Iterator[tuple[float, list[Message]]]:
        """Yields time and messages.

        They are those of the robot, /contact/NAME with forces in world axes, /cmd_vel and /status.
        """
        positions, velocities, names = self.positions.tolist(), self.velocities.tolist(), list(self.joint_names)
        for i, seconds in enumerate(self.time.tolist()):
            joints = {
                "name": names,
                "position": positions[i],
                "velocity": velocities[i],
                "effort": self.tau[i].tolist(),
            }
            messages: list[Message] = [("/joint_states", JOINTS, "", joints)]
            if self.base is not None:
                child = "base" if robot is None else robot.robot.tree.root.name
                messages += make_base_messages(self.q[i], self.v[i], child)
            if robot is not None:
                messages += robot.make_transforms(seconds, partial(self.q.__getitem__, i))
            for sphere, force in zip(self.spheres, self.forces[i].tolist(), strict=True):
                wrench = {"force": make_vector(force), "torque": make_vector([0.0, 0.0, 0.0])}
                messages.append((f"/contact/{sphere}", WRENCH, WORLD, {"wrench": wrench}))
            if len(self.requested_velocity) and np.isfinite(self.requested_velocity[i]).all():
                messages.append(make_velocity_message(self.requested_velocity[i].tolist()))
            if any(self.status):
                residuals = self.level_residuals[i].tolist() if self.level_residuals.size else []
                status = {"outcome": self.status[i], "ok": self.status[i] == "solved"}
                status["mode"] = self.modes[i] if self.modes else ""
                status["level_residuals"] = [x for x in residuals if math.isfinite(x)]
                messages.append(("/status", "quaddyn/msg/Status", "", status))
            yield seconds, messages

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the complete log, including the checkpoint, to an archive that `load` reads bit for bit.

        Returns:
            The path of the file.

        Raises:
            OSError: the file cannot be written.
        """
        return save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Log:
        """Reads a log from a file of `save`; no code in the file is executed.

        Raises:
            ArgumentError: the file is not a saved log.
            OSError: the file cannot be read.
        """
        log: Log = load(path, (Log, Checkpoint, ActivePush, ContactPoint))
        return log

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plots joints, torques, vertical contact forces, a free base and level residuals over time (extra: plot).

        Args:
            path: PNG, PDF or SVG file to write; None for none.

        Returns:
            The matplotlib ``Figure``, which notebooks display.

        Raises:
            QuaddynError: matplotlib is not installed.
        """
        all_revolute = set(self.joint_units) <= {"rad"}
        panels: list[tuple[str, Array, tuple[str, ...]]] = [
            (f"position [{'rad' if all_revolute else 'rad, m'}]", self.positions, self.joint_names),
            (f"velocity [{'rad/s' if all_revolute else 'rad/s, m/s'}]", self.velocities, self.joint_names),
            (f"torque [{'N m' if all_revolute else 'N m, N'}]", self.tau, self.joint_names),
        ]
        loaded = [s for s in range(len(self.spheres)) if self.forces[:, s].any()]
        if loaded:
            panels.append(("vertical force [N]", self.forces[:, loaded, 2], tuple(self.spheres[s] for s in loaded)))
        if self.base is not None:
            panels.append(("base [m]", self.base[:, :3], ("x", "y", "z")))
        if self.level_residuals.size:
            panels.append(
                (
                    "residual [m/s$^2$]",
                    self.level_residuals,
                    tuple(f"level {k}" for k in range(self.level_residuals.shape[1])),
                )
            )
        return plot_panels(self.time, panels, path)


def plot_panels(
    time: Array, panels: list[tuple[str, Array, tuple[str, ...]]], path: str | os.PathLike[str] | None = None
) -> Any:
    """Plots quantities over time in one panel each.

    Args:
        time: (n,) time [s].
        panels: label of the axis, values (n, k), and names of the k lines of each panel.
        path: PNG, PDF or SVG file to write; None for none.

    Returns:
        The matplotlib ``Figure``.

    Raises:
        QuaddynError: matplotlib is not installed.
    """
    colormaps, Figure = import_extra("matplotlib", "plot").colormaps, import_extra("matplotlib.figure", "plot").Figure
    panels = [panel for panel in panels if panel[2]]  # a free body has no joints
    figure = Figure(figsize=(9.0, 2.2 * len(panels)), layout="constrained")
    for axes, (label, values, names) in zip(
        np.atleast_1d(figure.subplots(len(panels), 1, sharex=True)), panels, strict=True
    ):
        palette = colormaps["tab10" if len(names) <= 10 else "tab20"]
        axes.set_prop_cycle(color=list(palette(np.arange(len(names)) % palette.N)))
        axes.plot(time, values, linewidth=1.0, label=names)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6, ncols=1 + len(names) // 7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_xlabel("time [s]")
    if path is not None:
        figure.savefig(path)
    return figure


def make_joint_fields(robot: Robot) -> dict[str, Any]:
    """Returns the fields of a `Log` that describe the joints of a robot."""
    one_dof, prismatic = robot.one_dof_joints, {joint.name for joint in robot.tree.joints if joint.type == "prismatic"}
    rows = [(v, *one_dof[v]) for v in map(robot.velocity_index, robot.actuated)]
    units = tuple("m" if name in prismatic else "rad" for name in robot.actuated)
    return {
        "root": robot.root,
        "joint_names": robot.actuated,
        "joint_units": units,
        "joint_slices": frozen(np.reshape(rows, (-1, 3))),
    }


class LogBuilder:
    """Buffers for the ticks of a run.

    Args:
        robot: robot of the plant.
        start: state at the start of the run.
        steps_per_tick: time steps per tick.
        ticks: maximum number of ticks.
        spheres: names whose forces are recorded even if they are zero.
        record_residuals: whether to record the residual of each level of whole-body control.
    """

    __slots__ = (
        "_forces",
        "_modes",
        "_outcomes",
        "_q",
        "_record_residuals",
        "_requested",
        "_residuals",
        "_robot",
        "_start",
        "_steps_per_tick",
        "_tau",
        "_time",
        "_v",
    )

    def __init__(
        self,
        robot: Robot,
        start: Checkpoint,
        steps_per_tick: int,
        ticks: int,
        spheres: Sequence[str],
        record_residuals: bool,
    ) -> None:
        self._robot = robot
        self._start = start
        self._steps_per_tick = steps_per_tick
        self._record_residuals = record_residuals
        self._time = np.empty(ticks)
        self._q, self._v, self._tau = (np.empty((ticks, n)) for n in (robot.nq, robot.nv, robot.nu))
        self._forces = {name: np.zeros((ticks, 3)) for name in spheres}
        self._outcomes, self._residuals = list[str](), list[list[float]]()
        self._requested, self._modes = np.full((ticks, 3), np.nan), list[str]()

    def record_state(self, i: int, time: float, q: Array, v: Array) -> None:
        """Records the state of the plant before the controller is called.

        Args:
            i: number of the tick, from 0.
            time: time of the plant [s].
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        self._time[i], self._q[i], self._v[i] = time, q, v

    def record_command(self, i: int, command: object, tau: Any, contacts: Sequence[ContactPoint]) -> None:
        """Records the command of a tick and the contacts after it.

        Args:
            i: number of the tick.
            command: value that the controller returned.
            tau: (nu,) torques of that value [N m or N].
            contacts: contacts of the last step.
        """
        self._tau[i] = tau
        for contact in contacts:
            name = contact.sphere if contact.link is None else contact.link
            self._forces.setdefault(name, np.zeros((len(self._time), 3)))[i] += contact.force
        self._outcomes.append(_read_outcome(command))
        velocity = getattr(command, "requested_velocity", None)
        if velocity is not None:
            self._requested[i] = velocity
        self._modes.append(str(getattr(getattr(command, "mode", None), "value", "")))
        self._residuals.append(_read_level_residuals(command) if self._record_residuals else [])

    def build(self) -> Log:
        """Returns the log of all ticks."""
        forces = np.array(list(self._forces.values())).reshape(-1, len(self._time), 3).transpose(1, 0, 2)
        return Log(
            self._start,
            self._steps_per_tick,
            frozen(self._time),
            frozen(self._q),
            frozen(self._v),
            frozen(self._tau),
            frozen(forces),
            tuple(self._forces),
            status=tuple(self._outcomes),
            level_residuals=_pad_rows(self._residuals),
            **make_joint_fields(self._robot),
            robot_record=self._robot,
            requested_velocity=frozen(self._requested if np.isfinite(self._requested).any() else self._requested[:0]),
            modes=tuple(self._modes) if any(self._modes) else (),
        )


def _read_outcome(command: object) -> str:
    """Returns the outcome of a command's whole-body control; its mode without that; "" for torques only."""
    wbc_command = getattr(command, "wbc_command", command)
    if wbc_command is None:
        return str(getattr(getattr(command, "mode", None), "value", ""))
    return str(getattr(getattr(wbc_command, "status", None), "outcome", ""))


def _read_level_residuals(command: object) -> list[float]:
    """Returns the residual of each level of a command's whole-body control [m/s^2]."""
    return [level.residual for level in getattr(getattr(command, "wbc_command", command), "levels", ())]


def _pad_rows(rows: list[list[float]]) -> Array:
    """Returns rows of different lengths as one array, padded with NaN."""
    out = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for padded, row in zip(out, rows, strict=True):
        padded[: len(row)] = row
    return frozen(out)
