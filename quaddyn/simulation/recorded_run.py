"""`RecordedRun`: interface of the logs of simulations and robots: tables for other programs, and MCAP files."""

from __future__ import annotations

import csv
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UnknownNameError
from ..extras import import_extra
from ..robot.robot import Robot
from ..robot.root import ROOT_SIZES
from ..robot.saving import urdf_text
from ..safe_files import file_errors
from ..urdf.tree import Array
from .mcap_file import LATCHED, Encoding, Message, RobotMessages, make_foxglove_layout, write_messages

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
        """Writes `columns` and `text_columns` as a table with a header line.

        Args:
            path: file to write.

        Returns:
            The path of the file.

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
        """Writes `columns` and `text_columns` as a Parquet file (extra: export).

        Args:
            path: file to write.

        Returns:
            The path of the file.

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
        """Writes an MCAP file for Foxglove, PlotJuggler and rosbag2 (extra: mcap).

        The topics are those of `quaddyn.simulation.mcap_file` and of the kind of log.  The URDF and a layout for
        Foxglove are attached.

        Args:
            path: file to write.
            encoding: "ros2" for messages in CDR, which rosbag2 reads; "json" for JSON.

        Returns:
            The path of the file.

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
