"""Calls of machine code from Python: builtin functions that read arrays, numbers and named tuples in memory.

The builtin functions (see `entry_wrapper`) read arrays as compiled extensions do.  The layout of a few arrays is
verified first; if it is not as expected, calls use `ctypes`.  Arguments that do not match exactly are passed to a
Python function, which converts them or raises an error.
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
    """Returns the offset of the items in a tuple object [bytes]."""
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
    """Returns the method definition of builtin functions with the same code; cached, since it must outlive them."""
    return _MethodDef(name.encode(), address, flags, doc.encode())


def builtin(name: str, address: int, holder: Any, flags: int, doc: str) -> Callable[..., Any]:
    """Returns a builtin function that runs machine code.

    Args:
        name: name of the function.
        address: address of the code.
        holder: object passed to the code as `self`; kept alive by the function.
        flags: calling convention (``METH_...``).
        doc: docstring.
    """
    method = _method(name, address, flags, doc)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    out: Callable[..., Any] = make(ctypes.addressof(method), holder, None)
    return out


def has_expected_headers() -> bool:
    """Returns whether this is a 64-bit CPython with the object header that the machine code expects."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return not hasattr(sys, "gettotalrefcount") and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


@cache
def has_expected_layout() -> bool:
    """Returns whether floats, tuples and arrays have the memory layout that the machine code expects."""
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
    """Returns whether the fields of an array object are at the offsets that the machine code reads."""
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
    """Returns a compiled entry as a builtin function; calls with arguments of other types go to `holder`."""
    functions = [function_address(name) for name in FUNCTIONS]
    types = (np.ndarray, np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int8), None, float, int, bool)
    words = [*functions, *map(id, types), _items_offset(), *map(id, wrapper.classes)]
    write_address_table(engine.get_global_value_address(TABLE), words)
    address = engine.get_function_address(f"{wrapper.symbol}.python")
    return builtin(wrapper.name, address, holder, _METH_FASTCALL, holder.__doc__ or "")


def make_bound_builtin(
    engine: Any, wrapper: EntryWrapper, holder: Callable[..., Any], records: Sequence[object]
) -> Callable[..., Any]:
    """Returns a linked entry as a builtin function with bound records, which takes the other arguments only.

    The records' arrays are read once, here; `make_builtin` must have been called before.  The function also holds the
    arrays themselves, so that NumPy does not resize them in place.
    """
    kinds = [kind for _, kind in wrapper.parameters if isinstance(kind, RecordKind)]
    found = [r for record, kind in zip(records, kinds, strict=True) for r in registers(record, kind)]
    block = np.array(found, dtype=np.int64)
    held = (holder, block, *records, *flatten_records(records))
    address = engine.get_function_address(f"{wrapper.symbol}.bound")
    return builtin(wrapper.name, address, held, _METH_FASTCALL, holder.__doc__ or "")


def flatten_records(records: Sequence[object]) -> list[object]:
    """Returns all values of records, those of nested records included."""
    return [x for each in records for x in (flatten_records(each) if isinstance(each, tuple) else [each])]


def function_address(name: str) -> int:
    """Returns the address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def write_address_table(table: int, words: Sequence[int]) -> None:
    """Writes addresses to the table that machine code reads."""
    slots = (ctypes.c_void_p * len(words)).from_address(table)
    for k, word in enumerate(words):
        slots[k] = word


def registers(value: object, kind: Kind) -> list[int]:
    """Returns the registers of a value as 64-bit ints."""
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
    """Returns a function that calls a linked entry through `ctypes`."""
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address(f"{wrapper.symbol}.direct")
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
