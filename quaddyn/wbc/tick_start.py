"""What a tick starts from: taken from a controller's memory, as arrays by name, and run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiler import LANE_WIDTH
from ..compiler.kinds import ArrayKind, Kind, RecordKind, record_kind
from ..errors import ArgumentError
from ..urdf.tree import Array
from . import tick_core
from .data import Answer, Memory, answer_views
from .model import Tables
from .tick_check import Kept, TickStart, check, refuse
from .workspace import make_data


def before(memory: Memory, *, strict: bool) -> Kept:
    """The memory that a tick found, from what it left: it keeps a copy of the working sets that it started from.

    Sets that did not lead to an answer are left out: a tick that starts cold comes to the same.
    """
    good, starts, sets = np.zeros(2, dtype=np.int64), np.full_like(memory.starts, -1), list[Any]()
    for way, before in enumerate((memory.before, memory.before_full)):
        warm = bool(memory.warm[way])
        if warm:
            starts[way] = memory.starts[way]
        good[way] = warm
        sets.append(before[: memory.starts.shape[1] * max(int(starts[way, -1]), 0)])
    if strict and memory.warm[2] == 1:
        good[1] = 2  # contacts were rows at once
    return Kept(good, memory.free.copy(), starts, *sets)


def flat(record: Any, head: str = "") -> dict[str, Any]:
    """The fields of records by name."""
    out: dict[str, Any] = {}
    for name, value in zip(record._fields, record, strict=True):
        out |= flat(value, f"{name}.") if isinstance(value, tuple) else {head + name: value}
    return out


def start_of(arrays: Mapping[str, Array]) -> TickStart:
    """Arrays as records, of the types that compiled code reads."""

    def made(kind: RecordKind, head: str) -> Any:
        fields = [
            made(each, f"{name}.") if isinstance(each, RecordKind) else array_of(arrays, head + name, each)
            for name, each in kind.fields
        ]
        return kind.cls(*fields)

    kind = record_kind(TickStart)
    assert kind is not None
    start: TickStart = made(kind, "")
    return start


def array_of(arrays: Mapping[str, Array], name: str, kind: Kind, shape: tuple[int, ...] | None = None) -> Any:
    """An array or a number of this kind; arrays have room for whole lanes beyond their last number."""
    if name not in arrays:
        raise ArgumentError(f"{name}: missing")
    x = arrays[name]
    rank = kind.rank if isinstance(kind, ArrayKind) else 0
    dtype = kind.dtype if isinstance(kind, ArrayKind) else np.dtype(str(kind))
    if x.dtype != dtype or x.ndim != rank or (shape is not None and x.shape != shape):
        refuse(name, f"{dtype} of {f'rank {rank}' if shape is None else f'shape {shape}'}", f"{x.dtype} of {x.shape}")
    if rank == 0:
        return x.item()
    room = np.zeros(x.size + LANE_WIDTH, dtype=dtype)
    room[: x.size] = x.ravel()
    return room[: x.size].reshape(x.shape)


def again(start: TickStart) -> tuple[int, Answer]:
    """Run a tick again, from the same memory: its outcome, and its `Answer`.

    Raises:
        ArgumentError: compiled code may not run on it, or its terms are not finite.
    """
    sizes = check(start)
    model, nv, nu, nc = start.model, len(start.v), len(start.model.actuated), len(start.contacts.size)
    tables = Tables(model, (), (), (), (), (), False, sizes.rows, sizes.limits, start.contacts.cone.shape[1])
    inputs = start.inputs._replace(numbers=np.append(start.inputs.numbers, np.zeros(LANE_WIDTH))[:-LANE_WIDTH])
    data = make_data(tables, start.terms, start.contacts, inputs, sizes.n)
    memory = data.memory
    for name in ("good", "free", "starts"):
        getattr(memory, name)[:] = getattr(start.memory, name)
    for to, sides in ((memory.now, start.memory.now), (memory.now_full, start.memory.now_full)):
        to[: len(sides)] = sides
    size = nu + nv + 6 * nc + model.levels + 2 + nu + len(inputs.numbers)
    values = np.zeros(size + LANE_WIDTH)
    outcome = tick_core.tick(start.q, start.v, data, values)
    if outcome >= tick_core.OVERFLOW:
        raise ArgumentError("terms: expected finite numbers")
    return outcome, answer_views(values[:size], nu, nv, nc, model.levels)
