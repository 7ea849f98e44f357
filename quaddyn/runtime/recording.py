"""`Recording`: every tick of a loop in a mapped file of fixed size, complete also after a crash."""

from __future__ import annotations

import json
import mmap
import os
import platform
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..operating_system import open_flags, reserve_space
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..robot.saving import to_record
from ..safe_files import file_errors
from ..simulation.log_files import RECORDING_MAGIC
from ..simulation.sensors import reading_layout
from ..strict_attributes import StrictAttributes
from ..version import __version__
from .controller import Controller
from .faults import Fault
from .loop import LoopTick, Recorder
from .motor_command import COMMAND_FIELDS
from .stages import Stage

MAGIC, VERSION = RECORDING_MAGIC, 1
#: Magic, version, bytes of the JSON text that follows, where records begin, bytes of a record, number of records.
HEAD = struct.Struct("<6sHIIIQ")
#: Parts of a record, see `record_type`.
TIMES, VELOCITY = struct.Struct("<qddd"), struct.Struct("<ddd")
STAGES_AND_FAULT, COUNT = struct.Struct("<5h"), struct.Struct("<Q")
STAGES = tuple(Stage)
STAGE_INDICES = {stage: i for i, stage in enumerate(STAGES)}
#: Page size of a mapped file; records start at a multiple of it.
PAGE = 4096


def record_type(sizes: Mapping[str, int]) -> np.dtype[Any]:
    """Returns the type of a record; `number` counts from 1 and is written last, so that partial records are skipped.

    Args:
        sizes: sizes of the robot: nu, nf, nq, nv.
    """
    nu = sizes["nu"]
    arrays = {name: part.stop - part.start for name, part in reading_layout(nu, sizes["nf"]).items()}
    arrays |= {"velocity_wanted": 3, "q": sizes["nq"], "v": sizes["nv"]}
    arrays |= {f"{of}_{name}": nu for of in ("wanted", "command") for name in COMMAND_FIELDS}
    return np.dtype(
        [
            ("number", "<u8"),
            ("tick", "<i8"),
            *((name, "<f8") for name in ("deadline", "begun", "time")),
            *((name, "<f8", (size,)) for name, size in arrays.items()),
            *((name, "<i2") for name in ("stage", "goal", "stop", "reset", "fault")),
            ("status", "S30"),
            ("reason", "S160"),
            ("last", "<u8"),
        ]
    )


class Recording(Recorder, StrictAttributes, fixed=("path", "robot", "capacity")):
    """Ring of the last ticks in a file that is allocated and mapped at the start.

    Recording a tick copies it into memory.  The whole file is reserved at the start: a disk that fills up later has no
    effect, and a full disk is an error before anything moves.  Data survive a killed process, since the pages belong to
    the operating system.  `load_recording` reads the file at any time, also while it is written.

    The system writes pages back at any time, and a slow disk may delay the writer; a file in ``/dev/shm`` avoids that.

    Args:
        path: path of the file; an existing one is replaced.
        robot: the recorded robot.
        controller: controller whose configuration is stored for a replay; None: none.
        dt: period of the loop [s]; None: that of the controller.
        seconds: duration that the ring holds [s].

    Attributes:
        path: as given.
        robot: as given.
        capacity: number of ticks that the ring holds.

    Raises:
        ArgumentError: neither a controller nor a period, or a time that is not positive.
        OSError: no space for the file, or no permission.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        robot: Robot,
        *,
        controller: Controller | None = None,
        dt: float | None = None,
        seconds: float = 10.0,
    ) -> None:
        if dt is None and controller is None:
            raise ArgumentError("dt: required without controller=; pass the period of the loop [s]")
        dt = check_number("dt", dt if dt is not None else controller.dt if controller is not None else 0.0)
        for name, value in (("dt", dt), ("seconds", check_number("seconds", seconds))):
            if not 0.0 < value < np.inf:
                raise ArgumentError(f"{name}: expected a positive time [s], got {value}")
        self.path, self.robot, self.capacity = Path(path), robot, max(1, round(seconds / dt))
        about = _describe_run(robot, controller, dt)
        kind, text = record_type(about["sizes"]), json.dumps(about).encode()
        begin = -(-(HEAD.size + len(text)) // PAGE) * PAGE
        size = begin + self.capacity * kind.itemsize
        with file_errors():
            self.path.unlink(missing_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | open_flags(), 0o600)
        try:
            reserve_space(file, size)
            self._map = mmap.mmap(file, size)
        except OSError:
            self.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        self._map[: HEAD.size] = HEAD.pack(MAGIC, VERSION, len(text), begin, kind.itemsize, self.capacity)
        self._map[HEAD.size : HEAD.size + len(text)] = text
        self._records: Any = np.frombuffer(self._map, dtype=kind, count=self.capacity, offset=begin)
        self._records["number"] = 0  # also loads every page into memory
        self._rows = np.frombuffer(self._map, np.uint8, self.capacity * kind.itemsize, begin).reshape(self.capacity, -1)
        self._numbers = self._records["number"]
        self._one = one = np.zeros(1, dtype=kind)
        self._row: Any = one.view(np.uint8)
        # Adjacent values are written together.
        self._at = at = {name: position for name, (_, position, *_) in (kind.fields or {}).items()}
        self._sensors = self._row[at["position"] : at["velocity_wanted"]].view(np.float64)
        self._state_and_commands = self._row[at["q"] : at["stage"]].view(np.float64)
        self._sizes = robot.nu, len(robot.feet)
        self._unknown = np.full(robot.nq, np.nan), np.full(robot.nv, np.nan)
        self._said: tuple[str, Fault | None] = "", None
        self._count = 0

    def record(self, tick: LoopTick) -> None:
        """Copies a tick into the ring."""
        m, request, (nu, nf) = tick.measurement, tick.request, self._sizes
        at, row, count, fault = self._at, self._row, self._count + 1, tick.fault
        self._sensors[:] = m.packed(nu, nf)
        np.concatenate(
            (
                *(self._unknown if tick.estimated_state is None else tick.estimated_state),
                tick.controller_command.packed(nu).ravel(),
                tick.command.packed(nu).ravel(),
            ),
            out=self._state_and_commands,
        )
        TIMES.pack_into(row, at["tick"], tick.number, tick.deadline, tick.start_time, m.time)
        VELOCITY.pack_into(row, at["velocity_wanted"], *request.velocity)
        STAGES_AND_FAULT.pack_into(
            row,
            at["stage"],
            STAGE_INDICES[tick.stage],
            STAGE_INDICES[request.target_stage],
            bool(request.stop_reason),
            tick.was_reset,
            0 if fault is None else fault.code,
        )
        COUNT.pack_into(row, at["last"], count)
        status, known = self._said
        if tick.status != status or fault is not known:
            self._one["status"] = tick.status.encode("ascii", "backslashreplace")
            self._one["reason"] = b"" if fault is None else str(fault).encode("ascii", "backslashreplace")
            self._said = tick.status, fault
        slot = self._count % self.capacity
        self._count = count
        self._numbers[slot] = 0
        self._rows[slot] = row  # its number is still 0
        self._numbers[slot] = count

    def close(self) -> None:
        """Unmaps the file."""
        del self._records, self._rows, self._numbers
        self._map.close()


def _describe_run(robot: Robot, controller: Controller | None, dt: float) -> dict[str, Any]:
    """Returns the description of a run in its log: robot, versions, machine, period, controller."""
    import pinocchio

    return {
        "quaddyn": __version__,
        "pinocchio": pinocchio.__version__,
        "numpy": np.__version__,
        "machine": platform.platform(),
        "processor": platform.machine(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "dt": dt,
        "controller": None if controller is None else controller.configuration,
        "joints": list(robot.actuated),
        "feet": list(robot.feet),
        "sizes": {"nu": robot.nu, "nf": len(robot.feet), "nq": robot.nq, "nv": robot.nv},
        "robot": to_record(robot),
    }
