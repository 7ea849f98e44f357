"""Machine code of kernels in this process, called by address or as a builtin function."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler.machine import Machine, UnsupportedMachineError, link_object
from ..compiler.python_calls import (
    builtin,
    function_address,
    has_expected_array_layout,
    has_expected_headers,
    write_address_table,
)
from .llvm_python_entry import CONTEXT
from .llvm_writer import Target

#: Version of NumPy's binary interface that this code requires, and the index of PyArray_New in its table.
_ABI, _PYARRAY_NEW = 0x02000000, 93
_METH_FASTCALL_KEYWORDS = 0x80 | 0x02


def vector_target(machine: Machine, element: str) -> Target:
    """Returns the vector size and register count for elements of a type on a machine."""
    return Target(element, machine.bits // (64 if element == "double" else 32), 16 if machine.bits == 256 else 32)


@dataclass(frozen=True, slots=True, eq=False)
class NativeKernel:
    """Machine code of one program; its functions are valid as long as this object exists, so callers must hold it.

    Attributes:
        engine: owns the code.
        one: function of addresses, for one state (see `llvm_module.batch_module`).
        batch: the same for many states; None where the program runs on one state at a time only.
        call: address of the Python entry, or 0.
        context: address of its table of addresses.
    """

    engine: Any
    one: Any
    batch: Any
    call: int
    context: int


def link_kernel(code: bytes, machine: Machine, arguments: int) -> NativeKernel:
    """Links machine code into the process.

    Args:
        code: of a module with ``one``, and ``batch`` or ``call`` or both.
        machine: machine that it was compiled for.
        arguments: number of arrays that the kernel takes, inputs and outputs.

    Raises:
        UnsupportedMachineError: memory cannot be made executable, or the code is for another machine.
    """
    engine = link_object(code, machine)
    one, batch, call = map(engine.get_function_address, ("one", "batch", "call"))
    if not one:
        raise UnsupportedMachineError("the compiled machine code does not contain the expected function")
    arrays = [ctypes.c_void_p] * arguments
    return NativeKernel(
        engine,
        ctypes.CFUNCTYPE(ctypes.c_int64, *arrays)(one),
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *arrays)(batch) if batch else None,
        call,
        engine.get_global_value_address("context") if call else 0,
    )


def make_fast_entry(
    native: NativeKernel, slow: Callable[..., Any], name: str, dtype: np.dtype[Any]
) -> Callable[..., Any]:
    """Returns a builtin function that runs the kernel on exactly fitting arrays; `slow` takes every other call.

    The function holds `slow`, which must hold `native`.  It is `slow` itself where this interpreter or NumPy has an
    object layout that the code does not expect.
    """
    table = _addresses(dtype) if native.call else None
    if table is None:
        return slow
    write_address_table(native.context, [table[key] for key in CONTEXT])
    return builtin(name, native.call, slow, _METH_FASTCALL_KEYWORDS, slow.__doc__ or "")


def _addresses(dtype: np.dtype[Any]) -> dict[str, int] | None:
    """Returns the addresses of Python objects and C functions that the fast entry point uses, by name.

    None if the memory layout of Python objects or NumPy arrays is not as expected.
    """
    if not (has_expected_headers() and has_expected_array_layout(dtype)):
        return None
    api = _numpy_api()
    if api is None:
        return None
    functions = {n: function_address(n) for n in CONTEXT if n.startswith("Py") and n != "PyArray_New"}
    objects = {"ndarray": np.ndarray, "descr": np.dtype(dtype), "out": sys.intern("out")}
    return {**{n: id(x) for n, x in objects.items()}, "PyArray_New": api, **functions}


def _numpy_api() -> int | None:
    """Returns the address of PyArray_New, from the capsule by which NumPy exports its C interface.

    None if not available.
    """
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
    # The address is tested by creating an array with it.
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


def data_addresses(arrays: Sequence[np.ndarray[Any, Any]]) -> list[int]:
    """Returns the addresses of the data of `arrays`."""
    return [x.__array_interface__["data"][0] for x in arrays]
