"""Saved ticks: one tick in a file, with all its inputs and its result, which `replay` solves again.

A file is a NumPy archive without pickles.  It contains the fields of the records that compiled code reads by name
(`TickStart`), the result, and the rows of every level with their names.  Reading it needs no robot file.
Compiled code does not check indices, so every field is validated first (`quaddyn.wbc.tick_validation`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..archives import read_arrays
from ..compiler import LANE_WIDTH
from ..compiler.kinds import ArrayKind, Kind, RecordKind, record_kind
from ..compiler.object_cache import fingerprint
from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..safe_files import DAMAGED_ARCHIVE_ERRORS, file_errors, open_regular_file
from ..urdf.tree import Array
from . import tick_core
from .command import OUTCOMES, Command, TickCommand
from .controller_model import ControllerTables, make_data
from .tick_data import (
    MIN_STEADINESS,
    ElementTable,
    TickOutcome,
    TickResult,
    WorkingSetMemory,
    result_length,
    result_views,
)
from .tick_problem import RowGroup, Status, TickDetails, TickProblem
from .tick_solver import Resolve, compute_centers_of_pressure
from .tick_validation import TickStart, WorkingSetArrays, reject, validate_tick


def snapshot_before_tick(memory: WorkingSetMemory, *, strict: bool) -> WorkingSetArrays:
    """Returns the working sets from which a tick started, from the copy in the memory after the tick.

    Working sets that did not lead to a solution are left out: a cold start has the same result.
    """
    formulations = memory.eliminated, memory.as_rows
    steadiness = np.array([m.start_steadiness for m in formulations])
    limit_starts = np.array(
        [m.limit_starts if m.start_steadiness > 0 else np.full_like(m.limit_starts, -1) for m in formulations]
    )
    working_sets = [
        m.previous[: len(starts) * max(int(starts[-1]), 0)]
        for m, starts in zip(formulations, limit_starts, strict=True)
    ]
    return WorkingSetArrays(
        memory.needs_min_norm, strict and memory.skipped_elimination, limit_starts, steadiness, *working_sets
    )


def flatten_fields(record: Any, prefix: str = "") -> dict[str, Any]:
    """Returns the fields of nested records by name."""
    out: dict[str, Any] = {}
    for name, value in zip(record._fields, record, strict=True):
        out |= flatten_fields(value, f"{name}.") if isinstance(value, tuple) else {prefix + name: value}
    return out


def make_tick_start(arrays: Mapping[str, Array]) -> TickStart:
    """Converts arrays by name to records with the types that compiled code reads."""

    def make_record(kind: RecordKind, prefix: str) -> Any:
        """Returns a record; `prefix` is the beginning of the names of its fields."""
        fields = [
            make_record(field_kind, f"{name}.")
            if isinstance(field_kind, RecordKind)
            else read_array(arrays, prefix + name, field_kind)
            for name, field_kind in kind.fields
        ]
        return kind.cls(*fields)

    kind = record_kind(TickStart)
    assert kind is not None
    start: TickStart = make_record(kind, "")
    return start


def read_array(arrays: Mapping[str, Array], name: str, kind: Kind, shape: tuple[int, ...] | None = None) -> Any:
    """Returns an array or number of the given type; arrays are padded to whole SIMD lanes."""
    if name not in arrays:
        raise ArgumentError(f"{name}: this array is missing in the file")
    x = arrays[name]
    rank = kind.rank if isinstance(kind, ArrayKind) else 0
    dtype = kind.dtype if isinstance(kind, ArrayKind) else np.dtype(str(kind))
    if x.dtype != dtype or x.ndim != rank or (shape is not None and x.shape != shape):
        reject(name, f"{dtype} of {f'rank {rank}' if shape is None else f'shape {shape}'}", f"{x.dtype} of {x.shape}")
    if rank == 0:
        return np.array(x) if isinstance(kind, ArrayKind) else x.item()  # a number of a mutable record is an array
    padded = np.zeros(x.size + LANE_WIDTH, dtype=dtype)
    padded[: x.size] = x.ravel()
    return padded[: x.size].reshape(x.shape)


def rerun_tick(start: TickStart) -> tuple[int, TickResult]:
    """Solves a tick again, from the same working sets, and returns its outcome and `TickResult`.

    Raises:
        ArgumentError: the inputs are invalid for compiled code, or the rigid-body terms are not finite.
    """
    sizes = validate_tick(start)
    model, nv, nu, nc = start.model, len(start.v), len(start.model.actuated), len(start.contacts.size)
    tables = ControllerTables(
        model,
        (),
        (),
        (),
        (),
        (),
        False,
        sizes.rows,
        sizes.rows,
        sizes.rows + sizes.limits,
        sizes.limits,
        start.contacts.cone.shape[1],
    )
    inputs = start.inputs._replace(parameters=np.append(start.inputs.parameters, np.zeros(LANE_WIDTH))[:-LANE_WIDTH])
    data = make_data(tables, start.terms, start.contacts, inputs, sizes.n)
    memory = data.memory
    memory.needs_min_norm, memory.skips_elimination = start.memory.needs_min_norm, start.memory.skips_elimination
    saved_sets = start.memory.eliminated, start.memory.as_rows
    formulations, steadiness = (memory.eliminated, memory.as_rows), start.memory.steadiness.tolist()
    for own, sides, starts, value in zip(formulations, saved_sets, start.memory.limit_starts, steadiness, strict=True):
        own.steadiness, own.limit_starts[:], own.current[: len(sides)] = value, starts, sides
    tasks = len(inputs.force_references)
    size = result_length(nu, nv, nc, model.levels, tasks, len(inputs.parameters))
    values = np.zeros(size + LANE_WIDTH)
    outcome = tick_core.tick(start.q, start.v, data, values)
    if outcome >= TickOutcome.OVERFLOW:
        raise ArgumentError("terms: expected finite numbers")
    return outcome, result_views(values[:size], nu, nv, nc, model.levels, tasks)


FORMAT_VERSION = 13

#: Largest size of the arrays of a file [bytes].
MAX_FILE_BYTES = 1 << 26
#: Largest difference of two commands that are equal up to rounding, relative to 1 plus the largest number.
ROUNDING_TOLERANCE = 1e-6

#: Field names in files of formats 9 and 10, which are still read, and the current names.
OLD_NAMES = {
    "contacts.share": "contacts.activation",
    "contacts.least": "contacts.min_force",
    "contacts.largest": "contacts.max_force",
    "contacts.height": "contacts.surface_height",
    "contacts.arm": "contacts.moment_arm",
    "contacts.guide": "contacts.foot_task",
    "contacts.pushes": "contacts.is_unilateral",
    "contacts.surface": "contacts.is_surface",
    "contacts.rows": "contacts.cone_row_count",
    "contacts.face": "contacts.surface_normal",
    "model.held": "model.contact_motion_start",
    "model.strict": "model.has_strict_contacts",
    "model.moved_mass": "model.total_mass",
    "inputs.numbers": "inputs.parameters",
    "inputs.started": "inputs.has_previous_tick",
    "inputs.torque_before": "inputs.previous_torque",
    "memory.good": "memory.is_valid",
    "memory.free": "memory.needs_min_norm",
    "memory.starts": "memory.limit_starts",
    "memory.now": "memory.eliminated",
    "memory.now_full": "memory.as_rows",
    "memory.current": "memory.eliminated",
    "memory.current_full": "memory.as_rows",
}

RESULT_FIELDS = ("torque", "acceleration", "force", "ranks", "certificate", "friction")
ROW_FIELDS = ("A", "lower", "upper", "offset", "weights")


@renamed_attributes(shares="contact_activations", every_contact="all_contacts", same_code="is_same_version")
@dataclass(frozen=True, slots=True, eq=False)
class TickRecord:
    """A saved tick: all its inputs, and its result.

    Attributes:
        robot: name of the robot.
        tick: index of the tick, from 0.
        joints: names of the actuated joints, in the order of the torques.
        contacts: components of the contact force by name of each active contact.
        contact_activations: activation by name of each active contact, in (0, 1].
        q: (nq,) configuration.
        v: (nv,) velocity [m/s, rad/s].
        problem: the levels, with names.
        command: the saved command.
        inputs: inputs of compiled code.
        all_contacts: names of all contacts, including inactive ones.
        is_same_version: whether the file was written by the same source code.
    """

    robot: str
    tick: int
    joints: tuple[str, ...]
    contacts: Mapping[str, slice]
    contact_activations: Mapping[str, float]
    q: Array
    v: Array
    problem: TickProblem
    command: Command
    inputs: TickStart
    all_contacts: tuple[str, ...]
    is_same_version: bool


@renamed_attributes(rounding="equal_to_rounding")
@dataclass(frozen=True, slots=True, eq=False)
class TickReplay:
    """A saved tick that was solved again.

    Attributes:
        record: the saved tick, with the saved command.
        command: the new command.
        identical: whether torques, accelerations and forces are equal bit for bit.
        difference: largest difference of a torque [N m].
        equal_to_rounding: whether they are equal up to rounding, as on another processor.
    """

    record: TickRecord
    command: Command
    identical: bool
    difference: float
    equal_to_rounding: bool


# -- writing -------------------------------------------------------------------------------------------------------
def save(command: TickCommand, memory: WorkingSetMemory, tick: int, path: str | os.PathLike[str]) -> None:
    """Writes the last tick of a controller; the ending of the file name is used as given.

    Args:
        command: command of the tick.
        memory: working sets after the tick.
        tick: index of the tick.
        path: path of the file.

    Raises:
        OSError: the file cannot be written.
    """
    solver, tick_inputs, problem = command.solver, command.inputs, command.details.problem
    data, result = solver.reconstruct_data(tick_inputs), solver.split_result(command.values)
    start = TickStart(
        tick_inputs.q,
        tick_inputs.v,
        data.model,
        data.terms,
        data.contacts,
        data.inputs,
        snapshot_before_tick(memory, strict=data.model.has_strict_contacts),
    )
    groups = [(k, g) for k, level in enumerate(problem.levels) for g in level]
    meta = {
        "format": FORMAT_VERSION,
        "code": _source_digest(),
        "robot": solver.robot.name,
        "tick": tick,
        "joints": solver.robot.actuated,
        "contacts": solver.names,
        "outcome": command.status.outcome,
        "remarks": command.details.remarks,
        "nonviable": command.nonviable,
        "groups": [
            {"level": k, "element": g.element, "unit": g.unit, "names": g.names, "contact": g.contact}
            for k, g in groups
        ],
    }
    arrays = {name: np.asarray(value) for name, value in flatten_fields(start).items()}
    arrays |= {f"answer.{name}": getattr(result, name) for name in RESULT_FIELDS}
    for name in ROW_FIELDS:
        empty = np.zeros((0, problem.n)) if name == "A" else np.zeros(0)
        arrays[f"rows.{name}"] = np.concatenate([empty, *(getattr(g, name) for _, g in groups)])
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    contents: dict[str, Any] = {"digest": digest(arrays), **arrays}
    with file_errors(), Path(path).open("wb") as file:
        np.savez_compressed(file, **contents)


def digest(arrays: Mapping[str, Array]) -> Any:
    """Returns (32,) bytes by which changes of saved arrays are detected."""
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {np.shape(arrays[name])}".encode() + array.tobytes())
    return np.frombuffer(hasher.digest(), dtype=np.uint8)


def _source_digest() -> str:
    """Returns a digest of the source code from which ticks are compiled."""
    return fingerprint(Path(tick_core.__file__))


# -- reading -------------------------------------------------------------------------------------------------------
def read(path: str | os.PathLike[str]) -> TickRecord:
    """Reads and validates a saved tick.

    Args:
        path: path of the file.

    Raises:
        ArgumentError: the file is not a saved tick, was changed after it was saved, or has a number out of range.
        OSError: the file cannot be read.
    """
    with open_regular_file(path) as file:
        try:
            return _read(file)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None
        except DAMAGED_ARCHIVE_ERRORS:
            raise ArgumentError(
                f"{path}: the file was not saved by WholeBodyController.save_tick, or it is damaged"
            ) from None


def _read(file: IO[bytes]) -> TickRecord:
    """Reads a saved tick from an open file; errors do not name the file."""
    arrays = read_arrays(file, MAX_FILE_BYTES)
    saved_digest, meta = arrays.pop("digest", None), json.loads(arrays["meta"].tobytes())
    if meta["format"] not in range(9, FORMAT_VERSION + 1):
        raise ArgumentError(
            f"format: expected format 9 to {FORMAT_VERSION}, got {meta['format']}; use the version of quaddyn that "
            "saved the file"
        )
    if saved_digest is None or not np.array_equal(saved_digest, digest(arrays)):
        raise ArgumentError(
            "digest: does not match the contents, because the file was changed or damaged after it was saved; "
            "save the tick again"
        )
    if meta["format"] < 11:
        arrays = {OLD_NAMES.get(name, name): array for name, array in arrays.items()}
        # The second entry was 2 after a tick without a solution; the first was redundant.
        arrays["memory.skips_elimination"] = arrays.pop("memory.is_valid")[1] == 2
        arrays["memory.needs_min_norm"] = arrays["memory.needs_min_norm"][0] == 1
        columns = arrays.pop("model.items").T  # one row per element
        arrays |= {f"elements.{name}": x for name, x in zip(ElementTable._fields, columns, strict=True)}
    if meta["format"] < 12:
        arrays |= {
            "previous.exists": arrays.pop("inputs.has_previous_tick").reshape(()),
            "previous.torque": arrays.pop("inputs.previous_torque"),
            "answer.certificate": np.concatenate([arrays.pop("answer.violation"), arrays.pop("answer.kkt")]),
        }
    if meta["format"] < 13:
        arrays["memory.steadiness"] = np.where(arrays["memory.limit_starts"][:, -1] >= 0, MIN_STEADINESS, 0)
    if meta["format"] == 9:
        meta |= {"nonviable": meta["outside"], "groups": [{**g, "element": g["owner"]} for g in meta["groups"]]}
    return _make_record(meta, arrays)


def _make_record(meta: dict[str, Any], arrays: Mapping[str, Array]) -> TickRecord:
    """Validates the contents of a file and returns them as a record."""
    start = make_tick_start(arrays)
    buffer_sizes = validate_tick(start)
    nv, nu, K, sizes = len(start.v), len(start.model.actuated), start.model.levels, start.contacts.size.tolist()
    shapes = ((nu,), (nv,), (len(sizes), 6), (K,), (2,), (nu,))
    result = [
        read_array(arrays, f"answer.{name}", ArrayKind("float", len(shape)), shape)
        for name, shape in zip(RESULT_FIELDS, shapes, strict=True)
    ]
    names, activation = _read_names(meta, "contacts", len(sizes)), start.contacts.activation.tolist()
    active = {name: (i, sizes[i], activation[i]) for i, name in enumerate(names) if activation[i] > 0.0}
    ends = np.cumsum([0, *(size for _, size, _ in active.values())]).tolist()
    outcome = meta["outcome"]
    if outcome not in OUTCOMES:
        reject("outcome", f"one of {OUTCOMES}", outcome)
    for name in ("remarks", "nonviable"):
        if not isinstance(meta[name], list):
            reject(name, "a list of sentences or names", meta[name])
    problem = _make_problem(
        meta, arrays, K, nu + ends[-1], buffer_sizes.rows + buffer_sizes.limits + buffer_sizes.custom
    )
    return TickRecord(
        robot=str(meta["robot"]),
        tick=int(meta["tick"]),
        joints=_read_names(meta, "joints", nu),
        contacts={name: slice(a, b) for name, a, b in zip(active, ends, ends[1:], strict=False)},
        contact_activations={name: activation for name, (_, _, activation) in active.items()},
        q=start.q,
        v=start.v,
        problem=problem,
        command=_make_command(
            start, names, result, OUTCOMES.index(outcome), problem, meta["remarks"], meta["nonviable"]
        ),
        inputs=start,
        all_contacts=names,
        is_same_version=meta["code"] == _source_digest(),
    )


def _read_names(meta: Mapping[str, Any], name: str, count: int) -> tuple[str, ...]:
    """Returns a list of `count` different names in the file."""
    names = meta[name]
    if not isinstance(names, list) or len(set(map(str, names))) != count or len(names) != count:
        reject(name, f"{count} names", names)
    return tuple(map(str, names))


def _make_problem(
    meta: Mapping[str, Any], arrays: Mapping[str, Array], count: int, n: int, max_rows: int
) -> TickProblem:
    """Returns the levels in the file, `count` of them over n unknowns, with up to `max_rows` rows."""
    m = sum(len(group["names"]) for group in meta["groups"])
    if m > max_rows:
        reject("groups", f"up to {max_rows} rows", m)
    rows = {
        name: read_array(arrays, f"rows.{name}", ArrayKind("float", 1 + (name == "A")), (m, n) if name == "A" else (m,))
        for name in ROW_FIELDS
    }
    levels, start = [list[RowGroup]() for _ in range(count)], 0
    for group in meta["groups"]:
        if type(group["level"]) is not int or not 0 <= group["level"] < count:
            reject("groups", f"levels below {count}", group["level"])
        group_rows = slice(start, start + len(group["names"]))
        start = group_rows.stop
        names = tuple(map(str, group["names"]))
        fields = {name: rows[name][group_rows] for name in ROW_FIELDS}
        contact = str(group.get("contact", ""))  # missing in older files
        levels[group["level"]].append(
            RowGroup(str(group["element"]), names, str(group["unit"]), **fields, contact=contact)
        )
    return TickProblem(levels, n)


def _make_command(
    start: TickStart,
    names: Sequence[str],
    result: Any,
    outcome: int,
    problem: TickProblem,
    remarks: Sequence[object],
    nonviable: Sequence[object],
) -> Command:
    """Returns the command of a saved result.

    Args:
        start: inputs of the tick.
        names: names of all contacts.
        result: fields of the result, in the order of `RESULT_FIELDS` ("answer." in the file).
        outcome: index of the outcome in `OUTCOMES`.
        problem: the levels.
        remarks: further sentences for explanations, such as about joint friction.
        nonviable: names of joints and pairs outside their viable set.
    """
    torque, acceleration, force, ranks, certificate, friction = result[:6]
    model, contacts = start.model, start.contacts
    forces = {name: force[i, : contacts.size[i]] for i, name in enumerate(names) if contacts.activation[i] > 0.0}
    x = np.concatenate((acceleration[model.actuated], *(f / model.mass for f in forces.values())))

    if not np.isfinite(ranks).all():
        reject("answer.ranks", "finite numbers", ranks)
    status = Status(OUTCOMES[outcome], *certificate.tolist())
    resolve = Resolve(model.rank_tolerance, model.damping)
    texts = tuple(map(str, remarks)), tuple(map(str, nonviable))
    details = TickDetails(problem, x, tuple(map(int, ranks[: model.levels])), resolve, *texts, 0 in model.actuated)
    centers_of_pressure = compute_centers_of_pressure(start.terms, contacts, names, forces)
    return Command(torque, acceleration, forces, status, details, friction, centers_of_pressure)


# -- replay --------------------------------------------------------------------------------------------------------
def replay(path: str | os.PathLike[str]) -> TickReplay:
    """Solves a saved tick again, from the same working sets.

    The command is equal bit for bit on the same kind of processor with the same source code
    (`TickRecord.is_same_version`); elsewhere it differs by rounding, see `TickReplay.difference`.

    Args:
        path: path of the file.

    Raises:
        ArgumentError: the file is not a saved tick, was changed after it was saved, or has a number out of range.
        OSError: the file cannot be read.
    """
    record = read(path)
    try:
        outcome, result = rerun_tick(record.inputs)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None
    saved = record.command
    texts = saved.details.remarks, saved.details.nonviable
    command = _make_command(record.inputs, record.all_contacts, result, outcome, record.problem, *texts)
    pairs = [(command.tau, saved.tau), (command.acceleration, saved.acceleration)]
    pairs += [(command.forces[name], force) for name, force in saved.forces.items()]
    identical = all(a.tobytes() == b.tobytes() for a, b in pairs)
    with np.errstate(all="ignore"):
        differences = [float(np.abs(a - b).max(initial=0.0)) for a, b in pairs]
        scales = [1.0 + float(np.abs(b).max(initial=0.0)) for _, b in pairs]
    is_close = identical or all(d <= ROUNDING_TOLERANCE * s < np.inf for d, s in zip(differences, scales, strict=True))
    return TickReplay(record, command, identical, 0.0 if identical else differences[0], is_close)
