"""Inputs of a saved tick: taken from a controller's data, converted to and from arrays by name, and solved again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiler import LANE_WIDTH
from ..compiler.kinds import ArrayKind, Kind, RecordKind, record_kind
from ..errors import ArgumentError
from ..urdf.tree import Array
from . import tick_core
from .controller_model import ControllerTables
from .tick_data import TickOutcome, TickResult, WorkingSetMemory, result_views
from .tick_validation import TickStart, WorkingSetArrays, reject, validate_tick
from .tick_workspace import make_data


def snapshot_before_tick(memory: WorkingSetMemory, *, strict: bool) -> WorkingSetArrays:
    """Returns the working sets from which a tick started, from the copy in the memory after the tick.

    Working sets that did not lead to a solution are left out: a cold start has the same result.
    """
    formulations = memory.eliminated, memory.as_rows
    limit_starts = np.array(
        [m.limit_starts if m.was_warm_started else np.full_like(m.limit_starts, -1) for m in formulations]
    )
    working_sets = [
        m.previous[: len(starts) * max(int(starts[-1]), 0)]
        for m, starts in zip(formulations, limit_starts, strict=True)
    ]
    return WorkingSetArrays(memory.needs_min_norm, strict and memory.skipped_elimination, limit_starts, *working_sets)


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
    tables = ControllerTables(model, (), (), (), (), (), False, sizes.rows, sizes.limits, start.contacts.cone.shape[1])
    inputs = start.inputs._replace(parameters=np.append(start.inputs.parameters, np.zeros(LANE_WIDTH))[:-LANE_WIDTH])
    data = make_data(tables, start.terms, start.contacts, inputs, sizes.n)
    memory = data.memory
    memory.needs_min_norm, memory.skips_elimination = start.memory.needs_min_norm, start.memory.skips_elimination
    saved_sets = start.memory.eliminated, start.memory.as_rows
    for own, sides, starts in zip(
        (memory.eliminated, memory.as_rows), saved_sets, start.memory.limit_starts, strict=True
    ):
        own.has_solution, own.limit_starts[:], own.current[: len(sides)] = bool(starts[-1] >= 0), starts, sides
    size = nu + nv + 6 * nc + model.levels + 2 + nu + len(inputs.parameters)
    values = np.zeros(size + LANE_WIDTH)
    outcome = tick_core.tick(start.q, start.v, data, values)
    if outcome >= TickOutcome.OVERFLOW:
        raise ArgumentError("terms: expected finite numbers")
    return outcome, result_views(values[:size], nu, nv, nc, model.levels)
