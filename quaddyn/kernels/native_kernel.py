"""Machine code of programs in this process, called through addresses, or as a builtin function on fitting arrays."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler.machine import Machine, Unsupported, link
from ..compiler.python_calls import builtin, fill, function_address, heads_as_expected, layout_as_expected
from .llvm_python_entry import CONTEXT
from .llvm_writer import Target

#: The number of NumPy's binary interface that this code is written for, and the place of PyArray_New in it.
_ABI, _PYARRAY_NEW = 0x02000000, 93
_METH_FASTCALL_KEYWORDS = 0x80 | 0x02


def target(machine: Machine, element: str) -> Target:
    """How many states a block holds on a machine."""
    return Target(element, machine.bits // (64 if element == "double" else 32), 16 if machine.bits == 256 else 32)


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """Compiled functions of one program, valid as long as this object: whoever calls them must hold it.

    Attributes:
        engine: owns the code.
        one: callable over addresses (see `llvm_ir.module`).
        batch: the same for many states; None where the program runs on one state at a time only.
        call: address of the Python entry, or 0.
        context: address of its table.
    """

    engine: Any
    one: Any
    batch: Any
    call: int
    context: int


def load(code: bytes, machine: Machine, arguments: int) -> Native:
    """Link machine code into the process.

    Args:
        code: of a module with ``one``, and ``batch`` or ``call`` or both.
        machine: that it was made for.
        arguments: how many arrays the kernel takes, inputs and outputs.

    Raises:
        Unsupported: memory cannot be made executable, or the code is for another machine.
    """
    engine = link(code, machine)
    one, batch, call = map(engine.get_function_address, ("one", "batch", "call"))
    if not one:
        raise Unsupported("machine code lacks its entry")
    arrays = [ctypes.c_void_p] * arguments
    return Native(
        engine,
        ctypes.CFUNCTYPE(ctypes.c_int64, *arrays)(one),
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *arrays)(batch) if batch else None,
        call,
        engine.get_global_value_address("context") if call else 0,
    )


def quick(native: Native, slow: Callable[..., Any], name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A builtin function that runs the kernel on exactly fitting arrays and leaves every other call to `slow`.

    The function holds `slow`, which must hold `native`.  It is `slow` itself where this interpreter or NumPy lays out
    its objects otherwise than the code expects.
    """
    table = _addresses(dtype) if native.call else None
    if table is None:
        return slow
    fill(native.context, [table[key] for key in CONTEXT])
    return builtin(name, native.call, slow, _METH_FASTCALL_KEYWORDS, slow.__doc__ or "")


def _addresses(dtype: np.dtype[Any]) -> dict[str, int] | None:
    """Addresses that the quick way needs; None where a look at an array's memory is not as expected."""
    if not (heads_as_expected() and layout_as_expected(dtype)):
        return None
    api = _numpy_api()
    if api is None:
        return None
    functions = {n: function_address(n) for n in CONTEXT if n.startswith("Py") and n != "PyArray_New"}
    words = {"ndarray": np.ndarray, "descr": np.dtype(dtype), "out": sys.intern("out")}
    return {**{n: id(x) for n, x in words.items()}, "PyArray_New": api, **functions}


def _numpy_api() -> int | None:
    """Address of PyArray_New, from the capsule by which NumPy hands its C interface to extensions."""
    try:
        capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(capsule, None)
    if not table:
        return None
    slots = (ctypes.c_void_p * (_PYARRAY_NEW + 1)).from_address(table)
    if not slots[0] or ctypes.CFUNCTYPE(ctypes.c_uint)(slots[0])() != _ABI:
        return None
    address = int(slots[_PYARRAY_NEW] or 0)
    # Tried before it is trusted.
    create = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.py_object,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
    )(address)
    made = create(np.ndarray, 2, (ctypes.c_int64 * 2)(2, 3), 12, None, None, 0, 0, None)
    fine = type(made) is np.ndarray and made.shape == (2, 3) and made.dtype == np.float64 and made.flags.c_contiguous
    return address if fine else None


def addresses(arrays: Sequence[np.ndarray[Any, Any]]) -> list[int]:
    """Where the data of `arrays` begin."""
    return [x.__array_interface__["data"][0] for x in arrays]
