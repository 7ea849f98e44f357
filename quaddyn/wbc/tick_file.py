"""One tick in a file: every number that went into it and came out, and the same numbers again when it is replayed.

A file is a NumPy archive without pickles: the equations of motion (M, h, contact Jacobians), the rows of every level
with their names, the memory that the solver started from, and the answer.  It needs no robot file to be read.  What a
compiled tick was told is there too, and with it the digest of the sources that know how to read it: other sources leave
it aside and solve the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..urdf.tree import Array
from . import dense, fast
from .certificate import Details, Status
from .command import Command
from .commands import decide
from .elimination import Elimination
from .levels import Plain
from .parts import Parts
from .problem import Group, Problem, Stack
from .solving import Memory, Solver

FORMAT = 4

#: What reading a file raises that is none of ours: archives have errors of several kinds, and so has what is in them.
UNREADABLE = (
    KeyError, ValueError, TypeError, AttributeError, IndexError, EOFError, NotImplementedError, RuntimeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TickRecord:
    """Everything that a tick's answer follows from, and the answer.

    Attributes:
        robot: name of the robot.
        tick: number of the tick, from 0.
        joints: names of the actuated joints, in torque order.
        contacts: by name, the columns of each contact's force.
        shares: by name, how much of each contact there was.
        q, v: the state.
        elimination, problem: the equations of motion and the levels.
        memory: what the solver started from.
        solver: its options.
        command: the answer.
        inputs: of the compiled tick that gave it, of either path; None where plain matrices did, or other sources.
    """

    robot: str
    tick: int
    joints: tuple[str, ...]
    contacts: Mapping[str, slice]
    shares: Mapping[str, float]
    q: Array
    v: Array
    elimination: Elimination
    problem: Problem
    memory: Memory | None
    solver: Solver
    command: Command
    inputs: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A tick of a file, solved again.

    Attributes:
        record: what the file says; its command is the one of then.
        command: the one of now.
        identical: whether torques, accelerations and forces agree bit for bit.
        difference: largest difference of a torque [N m].
    """

    record: TickRecord
    command: Command
    identical: bool
    difference: float


def recorded(
    parts: Parts,
    command: Command,
    count: int,
    plain: Plain,
    state: State,
    *,
    memory: Memory | None = None,
    inputs: Mapping[str, Array] | None = None,
) -> TickRecord:
    """The record of a controller's tick.

    Args:
        parts: of the controller.
        command: the answer.
        count: number of the tick.
        plain: the tick by plain matrices.
        state: its state.
        memory: as in `TickRecord`.
        inputs: likewise.
    """
    elimination, problem, columns, shares = plain
    return TickRecord(
        robot=parts.robot.name,
        tick=count,
        joints=parts.robot.actuated,
        contacts=columns,
        shares=shares,
        q=state.q,
        v=state.v,
        elimination=elimination,
        problem=problem,
        memory=memory,
        solver=parts.solver,
        command=command,
        inputs=inputs,
    )


def save(record: TickRecord, path: str | os.PathLike[str]) -> None:
    """Write a tick; the name's ending is taken as it is.

    Raises:
        OSError: the file cannot be written.
    """
    e, c = record.elimination, record.command
    groups = [(k, g) for k, level in enumerate(record.problem.levels) for g in level]
    meta = {
        "format": FORMAT,
        "robot": record.robot,
        "tick": record.tick,
        "joints": record.joints,
        "contacts": {name: [s.start, s.stop] for name, s in record.contacts.items()},
        "shares": dict(record.shares),
        "mass": e.mass,
        "levels": len(record.problem.levels),
        "groups": [{"level": k, "owner": g.owner, "unit": g.unit, "names": g.names} for k, g in groups],
        "rank_tolerance": record.solver.rank_tolerance,
        "damping": record.solver.damping,
        "compiled": record.solver.compiled,
        "path": c.status.path,
        "outcome": c.status.outcome,
        "violation": c.status.violation,
        "kkt": c.status.kkt,
        "ranks": c.details.ranks,
        "code": None if record.inputs is None else _code(c.status.path),
    }
    arrays: dict[str, Any] = {"M": e.M, "h": e.h, "J": e.J, "actuated": e.actuated, "q": record.q, "v": record.v}
    arrays |= {"x": c.details.x, "tau": c.tau, "acceleration": c.acceleration}
    arrays["force"] = np.concatenate([np.zeros(0), *c.forces.values()])
    for name in ("A", "lower", "upper", "offset", "weights"):
        empty = np.zeros((0, record.problem.n)) if name == "A" else np.zeros(0)
        arrays[name] = np.concatenate([empty, *(getattr(g, name) for _, g in groups)])
    if record.memory is not None:
        arrays["memory"] = record.memory
    if record.inputs is not None:
        arrays |= {f"input_{name}": array for name, array in record.inputs.items()}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with Path(path).open("wb") as file:
        np.savez_compressed(file, digest=_digest(arrays), **arrays)


def _digest(arrays: Mapping[str, Array]) -> Any:
    """(32,) bytes that tell whether arrays are those that were saved: compiled code must not be told others."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {np.shape(arrays[name])}".encode() + array.tobytes())
    return np.frombuffer(whole.digest(), dtype=np.uint8)


def _code(path: str) -> str:
    """A digest of the sources that solve compiled ticks."""
    from ..hierarchy.code_cache import fingerprint  # imports numba

    name = "compiled_tick.py" if path == "compiled" else "compiled_dense.py"
    return fingerprint(Path(__file__).with_name(name))


def read(path: str | os.PathLike[str]) -> TickRecord:
    """A tick from a file.

    Raises:
        ArgumentError: the file is no such archive, or is not as it was saved.
        OSError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        digest, meta = arrays.pop("digest", None), json.loads(arrays["meta"].tobytes())
        if meta["format"] != FORMAT:
            raise ArgumentError(f"{path}: format {meta['format']}, this version reads {FORMAT}")
        if digest is None or not np.array_equal(digest, _digest(arrays)):
            raise ArgumentError(f"{path}: damaged: these are not the numbers that were saved")
        return _record(meta, arrays)
    except UNREADABLE as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{path}: not a tick saved by WholeBodyController.save_tick ({error})") from None


def _record(data: dict[str, Any], arrays: dict[str, Array]) -> TickRecord:
    elimination = Elimination(
        arrays["M"], arrays["h"], arrays["J"], np.asarray(arrays["actuated"], dtype=np.intp), float(data["mass"])
    )
    levels: list[list[Group]] = [[] for _ in range(int(data["levels"]))]
    start = 0
    for group in data["groups"]:
        rows = slice(start, start + len(group["names"]))
        start = rows.stop
        parts = (arrays[name][rows] for name in ("A", "lower", "upper", "offset", "weights"))
        levels[group["level"]].append(Group(group["owner"], tuple(group["names"]), group["unit"], *parts))
    problem = Problem([Stack.joined(groups, elimination.n) for groups in levels], elimination.n)
    solver = Solver(
        rank_tolerance=float(data["rank_tolerance"]),
        damping=float(data["damping"]),
        compiled=bool(data["compiled"]),
    )
    contacts = {name: slice(*ends) for name, ends in data["contacts"].items()}
    details = Details(problem, arrays["x"], tuple(data["ranks"]), solver.again)
    inputs = {name[6:]: array for name, array in arrays.items() if name.startswith("input_")}
    if inputs and data["code"] != _code(data["path"]):
        inputs = {}
    status = Status(data["outcome"], data["path"], float(data["violation"]), float(data["kkt"]))
    forces = {name: arrays["force"][columns] for name, columns in contacts.items()}
    return TickRecord(
        robot=str(data["robot"]),
        tick=int(data["tick"]),
        joints=tuple(data["joints"]),
        contacts=contacts,
        shares=dict(data["shares"]),
        q=arrays["q"],
        v=arrays["v"],
        elimination=elimination,
        problem=problem,
        memory=np.asarray(arrays["memory"], dtype=np.int8) if "memory" in arrays else None,
        solver=solver,
        command=Command(arrays["tau"], arrays["acceleration"], forces, status, details),
        inputs=inputs or None,
    )


def replay(path: str | os.PathLike[str]) -> Replay:
    """Solve a saved tick again, from the same memory.

    The answer is the same bit for bit on the same processor with the same versions of NumPy, numba and this package;
    elsewhere it differs by rounding, which `Replay.difference` tells.

    Raises:
        ArgumentError: the file is no saved tick, or is not as it was saved.
        OSError: it cannot be read.
    """
    record = read(path)
    before = record.command
    if record.inputs is None:
        record.solver.remember(record.problem, record.memory)
        command = decide(record.elimination, record.problem, record.solver, record.contacts)
    elif before.status.path == "dense":
        tau, a, f = dense.rerun(record.q, record.v, record.inputs)
        forces = {name: f[columns] for name, columns in record.contacts.items()}
        command = Command(tau, a, forces, before.status, before.details)
    else:
        answer = fast.rerun(record.q, record.v, record.inputs)
        f, status = answer[fast.FORCE].reshape(4, 3), before.status
        there = fast.present(record.inputs)
        forces = {name: f[i] for name, i in zip(before.forces, there, strict=True)}
        command = Command(answer[fast.TAU], answer[fast.ACCELERATION], forces, status, before.details)
    same = (
        np.array_equal(command.tau, before.tau)
        and np.array_equal(command.acceleration, before.acceleration)
        and all(np.array_equal(command.forces[name], force) for name, force in before.forces.items())
    )
    return Replay(record, command, bool(same), float(np.abs(command.tau - before.tau).max(initial=0.0)))
