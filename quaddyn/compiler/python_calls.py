"""Calls of machine code from Python: a builtin function that reads arrays, numbers and named tuples in place.

The builtin functions (`wrapper`) read arrays as compiled extensions do; the layout of a few arrays is tested first, and
where it is not as expected calls go through `ctypes`.  Arguments that do not fit exactly are passed to a Python
function, which converts them or raises.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .entry_wrapper import FUNCTIONS, TABLE, EntryWrapper
from .kinds import BOOL, FLOAT, INT, ArrayKind, Kind, RecordKind

_METH_FASTCALL = 0x80


@cache
def _items_offset() -> int:
    """Where a tuple holds its items."""
    marks = (object(), object())
    for offset in (24, 32):
        if ctypes.c_int64.from_address(id(marks) + offset).value == id(marks[0]):
            return offset
    return 24


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _method(name: str, address: int, flags: int, doc: str) -> _MethodDef:
    """What builtin functions of the same code share; it must outlive them all, and stays."""
    return _MethodDef(name.encode(), address, flags, doc.encode())


def builtin(name: str, address: int, holder: Any, flags: int, doc: str) -> Callable[..., Any]:
    """A builtin function of machine code.

    Args:
        name: of the function.
        address: of the code.
        holder: what the code gets for its `self`; lives as long as the function.
        flags: how it takes its arguments.
        doc: its docstring.
    """
    method = _method(name, address, flags, doc)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    out: Callable[..., Any] = make(ctypes.addressof(method), holder, None)
    return out


def has_expected_headers() -> bool:
    """Whether this interpreter is one whose objects begin as machine code reads them."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return not hasattr(sys, "gettotalrefcount") and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


@cache
def has_expected_layout() -> bool:
    """Whether objects of this interpreter lie as expected."""
    if not has_expected_headers():
        return False
    word = ctypes.c_int64.from_address
    number, marks = 1.5, (object(), object())
    return (
        all(has_expected_array_layout(np.dtype(t)) for t in (np.float64, np.int64, np.int8))
        and word(id(number) + 8).value == id(float)
        and ctypes.c_double.from_address(id(number) + 16).value == number
        and word(id(marks) + _items_offset() + 8).value == id(marks[1])
    )


def has_expected_array_layout(dtype: np.dtype[Any]) -> bool:
    """Whether type, data, rank, shape, descriptor and flags of an array lie where machine code reads them."""
    for shape in ((3,), (4, 5)):
        x = np.zeros(shape, dtype=dtype)
        at = id(x)
        word = ctypes.c_int64.from_address
        interface = x.__array_interface__
        dims = word(at + 32).value
        if (
            word(at + 8).value != id(np.ndarray)
            or word(at + 16).value != interface["data"][0]
            or ctypes.c_int32.from_address(at + 24).value != x.ndim
            or tuple(word(dims + 8 * k).value for k in range(x.ndim)) != shape
            or word(at + 56).value != id(np.dtype(dtype))
            or ctypes.c_int32.from_address(at + 64).value & 0x501 != 0x501
        ):
            return False
        frozen = x[::2] if x.ndim == 1 else x.T
        frozen.flags.writeable = False
        if ctypes.c_int32.from_address(id(frozen) + 64).value & 0x501 != 0x100:
            return False
    return True


def make_builtin(engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any]) -> Callable[..., Any]:
    """The entry of linked code as a function; `holder` is called with what does not fit."""
    functions = [function_address(name) for name in FUNCTIONS]
    types = (np.ndarray, np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int8), None, float, int, bool)
    words = [*functions, *map(id, types), _items_offset(), *map(id, wrapper.classes)]
    write_address_table(engine.get_global_value_address(TABLE), words)
    address = engine.get_function_address(f"{wrapper.name}.python")
    return builtin(wrapper.name, address, holder, _METH_FASTCALL, holder.__doc__ or "")


def make_bound_builtin(
    engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any], records: Sequence[object]
) -> Callable[..., Any]:
    """The same, connected before, with its records read now: only the other arguments are passed.

    The function holds the arrays beside the records, so that NumPy refuses to resize them in place.
    """
    kinds = [kind for _, kind in wrapper.parameters if isinstance(kind, RecordKind)]
    found = [r for record, kind in zip(records, kinds, strict=True) for r in registers(record, kind)]
    block = np.array(found, dtype=np.int64)
    held = (holder, block, *records, *flatten_records(records))
    address = engine.get_function_address(f"{wrapper.name}.bound")
    return builtin(wrapper.name, address, held, _METH_FASTCALL, holder.__doc__ or "")


def flatten_records(records: Sequence[object]) -> list[object]:
    """What records hold, and the records in them."""
    return [x for each in records for x in (flatten_records(each) if isinstance(each, tuple) else [each])]


def function_address(name: str) -> int:
    """Of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def write_address_table(table: int, words: Sequence[int]) -> None:
    """Write a table of addresses that machine code reads."""
    slots = (ctypes.c_void_p * len(words)).from_address(table)
    for k, word in enumerate(words):
        slots[k] = word


def registers(value: object, kind: Kind) -> list[int]:
    """Registers of an object as 64-bit numbers."""
    if isinstance(kind, ArrayKind):
        assert isinstance(value, np.ndarray)
        return [value.__array_interface__["data"][0], *value.shape]
    if isinstance(kind, RecordKind):
        assert isinstance(value, tuple)
        return [r for x, (_, k) in zip(value, kind.fields, strict=True) for r in registers(x, k)]
    if kind == FLOAT:
        return [int(np.float64(value).view(np.int64))]  # type: ignore[arg-type]
    return [int(value)]  # type: ignore[call-overload]


def make_ctypes_call(engine: Any, wrapper: EntryWrapper) -> Callable[..., Any]:
    """The entry of linked code through `ctypes`."""
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address(f"{wrapper.name}.direct")
    )

    def call(*arguments: object) -> Any:
        given: list[int] = []
        blocks = []
        for x, (_, kind) in zip(arguments, wrapper.parameters, strict=True):
            found = registers(x, kind)
            if isinstance(kind, RecordKind):  # handed over by its address
                blocks.append((ctypes.c_int64 * len(found))(*found))
                found = [ctypes.addressof(blocks[-1])]
            given += found
        block, out = (ctypes.c_int64 * max(1, len(given)))(*given), ctypes.c_int64(0)
        run(ctypes.addressof(block), ctypes.addressof(out))
        if wrapper.returns == FLOAT:
            return ctypes.c_double.from_buffer(out).value
        return out.value if wrapper.returns == INT else bool(out.value) if wrapper.returns == BOOL else None

    return call
