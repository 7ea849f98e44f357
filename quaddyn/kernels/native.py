"""Machine code from LLVM IR, in memory: compiled once, kept on disk by what it depends on, called through addresses."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .llvm_call import CONTEXT
from .llvm_writer import Target

#: The number of NumPy's binary interface that this code is written for, and the place of PyArray_New in it.
_ABI, _PYARRAY_NEW = 0x02000000, 93
_METH_FASTCALL_KEYWORDS = 0x80 | 0x02


class Unsupported(RuntimeError):
    """Machine code cannot be made or run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor: `cpu` and `features` in LLVM's words, `bits` of its vectors."""

    cpu: str
    features: str
    bits: int

    def target(self, element: str) -> Target:
        """How many states a block holds."""
        return Target(element, self.bits // (64 if element == "double" else 32), 16 if self.bits == 256 else 32)


_lock = threading.Lock()
_machine: list[Machine] = []


def machine() -> Machine:
    """This processor.

    Raises:
        Unsupported: llvmlite is missing, or the processor has no fused multiply-add.
    """
    if not _machine:
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            raise Unsupported(f"llvmlite cannot be imported: {error}") from None
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        have = {k for k, v in llvm.get_host_cpu_features().items() if v}
        triple = llvm.get_process_triple()
        if triple.startswith(("aarch64", "arm64")):
            bits = 128
        elif {"avx512f", "avx512dq", "avx512vl"} <= have:
            bits = 512
        elif {"avx2", "fma"} <= have:
            bits = 256
        else:
            raise Unsupported(f"processor {llvm.get_host_cpu_name()!r} ({triple}) has no AVX2 with fused multiply-add")
        features = llvm.get_host_cpu_features().flatten()
        _machine.append(Machine(llvm.get_host_cpu_name(), features, bits))
    return _machine[0]


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """Compiled functions of one program, valid as long as this object: whoever calls them must hold it.

    Attributes:
        engine: owns the code.
        one, batch: callables over addresses (see `llvm_ir.module`).
        call: address of the Python entry, or 0.
        context: address of its table.
        kept: what the Python entry points to.
    """

    engine: Any
    one: Any
    batch: Any
    call: int
    context: int
    kept: list[object]


def digest(*parts: object) -> str:
    """A key for what `parts` say."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def cache_folder() -> Path | None:
    """Where machine code is kept: ``$QUADDYN_CACHE`` or the user's cache folder; None where it is not ours alone.

    Code found there will be run, so the folder must belong to the user and be writable by nobody else.
    """
    given = os.environ.get("QUADDYN_CACHE")
    if given == "":
        return None
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quaddyn"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = base.stat()
    except (OSError, RuntimeError):
        return None
    mine = not hasattr(os, "getuid") or info.st_uid == os.getuid()
    return base if mine and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _read(path: Path) -> bytes | None:
    """A cached file, if it is whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, body = data[:32], data[32:]
    return body if hashlib.sha256(body).digest() == head else None


def _write(path: Path, body: bytes) -> None:
    """Write whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()


def cached(key: str) -> bytes | None:
    """What is kept under `key`."""
    folder = cache_folder()
    return _read(folder / f"{key}.bin") if folder is not None else None


def keep(key: str, body: bytes) -> None:
    """Keep `body` under `key`, where a cache folder can be had."""
    folder = cache_folder()
    if folder is not None:
        _write(folder / f"{key}.bin", body)


def object_code(ir: str) -> bytes:
    """Relocatable machine code of an IR module, for this processor."""
    import llvmlite.binding as llvm

    with _lock:
        module = llvm.parse_assembly(ir)
        module.verify()
        return bytes(_target_machine().emit_object(module))


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    here = machine()
    features = here.features + (",-prefer-256-bit" if here.bits == 512 else "")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=here.cpu, features=features, opt=2, reloc="pic", codemodel="jitdefault", jit=True
    )


def load(code: bytes, arguments: int, *, callable_: bool) -> Native:
    """Link machine code into the process.

    Args:
        code: from `object_code`.
        arguments: how many arrays the kernel takes, inputs and outputs.
        callable_: whether it has an entry for Python.

    Raises:
        Unsupported: memory cannot be made executable, or the code is for another machine.
    """
    import llvmlite.binding as llvm

    with _lock:
        try:
            backing = llvm.parse_assembly("")
            engine = llvm.create_mcjit_compiler(backing, _target_machine())
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            engine.finalize_object()
        except (RuntimeError, OSError) as error:
            raise Unsupported(f"machine code cannot be loaded: {error}") from None
        addresses = {name: engine.get_function_address(name) for name in ("one", "batch")}
        entry = engine.get_function_address("call") if callable_ else 0
        context = engine.get_global_value_address("context") if callable_ else 0
    if not all(addresses.values()) or (callable_ and not (entry and context)):
        raise Unsupported("machine code lacks an entry")
    pointer = ctypes.c_void_p
    one = ctypes.CFUNCTYPE(ctypes.c_int64, *[pointer] * arguments)(addresses["one"])
    batch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, *[pointer] * arguments)(addresses["batch"])
    return Native(engine, one, batch, entry, context, [])


# -- the quick way from Python -----------------------------------------------------------------------------------
class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def quick(native: Native, slow: Callable[..., Any], name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A builtin function that runs the kernel on exactly fitting arrays and leaves every other call to `slow`.

    The function holds `slow`, which must hold `native`.  It is `slow` itself where this interpreter or NumPy lays out
    its objects otherwise than the code expects.
    """
    table = _addresses(dtype) if native.call else None
    if table is None:
        return slow
    slots = (ctypes.c_void_p * len(CONTEXT)).from_address(native.context)
    for k, key in enumerate(CONTEXT):
        slots[k] = table[key]
    method = _MethodDef(name.encode(), native.call, _METH_FASTCALL_KEYWORDS, (slow.__doc__ or "").encode())
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    native.kept.append(method)
    out: Callable[..., Any] = make(ctypes.addressof(method), slow, None)
    return out


def _addresses(dtype: np.dtype[Any]) -> dict[str, int] | None:
    """Addresses that the quick way needs; None where a look at an array's memory is not as expected."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    if hasattr(sys, "gettotalrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None  # objects have other heads
    if not layout_as_expected(dtype):
        return None
    api = _numpy_api()
    if api is None:
        return None
    functions = {
        n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0
        for n in CONTEXT
        if n.startswith("Py") and n != "PyArray_New"
    }
    words = {"ndarray": np.ndarray, "descr": np.dtype(dtype), "out": sys.intern("out")}
    return {**{n: id(x) for n, x in words.items()}, "PyArray_New": api, **functions}


def layout_as_expected(dtype: np.dtype[Any]) -> bool:
    """Whether type, data, rank, shape, descriptor and flags of an array lie where `llvm_call` reads them."""
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
