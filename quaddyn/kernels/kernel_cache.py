"""Cache of kernels on disk: `load_or_compile` makes the key and loads or compiles a kernel.

Machine code of kernels in this process, called by address or as a builtin function.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler import machine, object_cache
from ..compiler.machine import Machine, UnsupportedMachineError, link_object
from ..compiler.object_cache import fingerprint
from ..compiler.python_calls import (
    builtin,
    function_address,
    has_expected_array_layout,
    has_expected_headers,
    write_address_table,
)
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from .graph import OperationCounts, Program
from .llvm_module import CONTEXT
from .llvm_writer import Target

#: Version of NumPy's binary interface that this code requires, and the index of PyArray_New in its table.
_ABI, _PYARRAY_NEW = 0x02000000, 93
_METH_FASTCALL_KEYWORDS = 0x80 | 0x02


def vector_target(machine: Machine, element: str) -> Target:
    """Returns the vector size and register count for elements of a type on a machine."""
    return Target(element, machine.bits // (64 if element == "double" else 32), 16 if machine.bits == 256 else 32)


@dataclass(frozen=True, slots=True, eq=False)
class NativeKernel:
    """Machine code of one program; its functions are valid as long as this object exists, so callers must hold it."""

    engine: Any  # owns the code
    one: Any  # function of addresses, for one state (see `llvm_module.batch_module`)
    batch: Any  # the same for many states; None where the program runs on one state at a time only
    call: int  # address of the Python entry, or 0
    context: int  # address of its table of addresses


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


#: Prefix of the file names of cached kernels.
CACHE_KIND = "kernel"


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """Description of a compiled kernel that callers need."""

    inputs: tuple[tuple[str, int], ...]  # (name, size) in order
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # (name, shape) of one state, in order
    units: tuple[tuple[int, ...], ...]  # groups of entries of q that have unit norm
    angles: tuple[int, ...]  # entries of q that are angles
    operations: OperationCounts  # operation counts


@cache
def _sources() -> str:
    """Returns the hash of the sources of this subpackage, of all that they import, and of the compiler."""
    return fingerprint(*sorted(Path(__file__).parent.glob("*.py")))


def hash_robot_properties(robot: Robot) -> str:
    """Returns the hash of all properties of a robot on which a kernel may depend: root, tree and numbers."""
    parts: list[object] = [robot.root, robot.nq, robot.nv, robot.name]
    parts += [(leg.foot.name, leg.foot.frame, leg.foot.offset.tobytes()) for leg in robot.legs.values()]
    for link in robot.tree.joints:
        parts += [link.name, link.type, link.child]
    for body in robot.bodies:
        j, i = body.joint, body.inertial
        parts += [body.name, body.parent, body.placement.rotation.tobytes(), body.placement.translation.tobytes()]
        parts += [(link.name, pose.rotation.tobytes(), pose.translation.tobytes()) for link, pose in body.links]
        parts += [float(i.mass).hex(), i.com.tobytes(), i.inertia.tobytes()]
        if j is not None:
            parts += [
                j.type,
                j.axis.tobytes(),
                float(j.armature).hex(),
                float(j.damping).hex(),
                float(j.friction).hex(),
            ]
            if j.mimic is not None:
                parts += [j.mimic.joint, float(j.mimic.multiplier).hex(), float(j.mimic.offset).hex()]
    if isinstance(robot.coupling, LoopCoupling):
        parts += [x.tobytes() for x in robot.coupling.closures]
    return object_cache.hash_parts(*parts)


def kernel_cache_key(robot: Robot, element: str, what: Sequence[object], processor: machine.Machine) -> str:
    """Returns the name under which a kernel is stored: a hash of all that its machine code depends on.

    These are the sources that generate it, the compiler, the processor, the robot, and the arguments of
    `load_or_compile`.
    """
    target = (machine.llvm_version(), processor.triple, processor.cpu, processor.features, processor.bits)
    parts = (_sources(), *target, hash_robot_properties(robot), element, *what)
    return f"{CACHE_KIND}-{object_cache.hash_parts(*parts)}"


def load_or_compile(
    robot: Robot,
    element: str,
    what: Sequence[object],
    trace: Callable[[], Program],
    write: Callable[[Program, Target], str],
) -> tuple[KernelSignature, NativeKernel]:
    """Returns a program as machine code: loaded from the cache, or traced, compiled and stored there.

    The function `write` returns the IR module of a program for a target; for the others see `load_or_generate`.

    Raises:
        UnsupportedMachineError: machine code cannot be made or run here.
    """
    here = machine.kernel_machine()
    target = vector_target(here, element)
    interface, code = load_or_generate(
        robot,
        element,
        what,
        here,
        trace,
        lambda program: machine.compile_ir(write(program, target), here, optimize=False),
    )
    return interface, link_kernel(code, here, len(interface.inputs) + len(interface.outputs))


def load_or_generate(
    robot: Robot,
    element: str,
    what: Sequence[object],
    processor: machine.Machine,
    trace: Callable[[], Program],
    generate: Callable[[Program], bytes],
) -> tuple[KernelSignature, bytes]:
    """Returns the code of a program: loaded from the cache, or traced, generated and stored there.

    Args:
        robot: the robot of the program.
        element: "double" or "float".
        what: name of the program, and all options that it depends on.
        processor: processor of the code.
        trace: returns the program.
        generate: returns its code.
    """
    key = kernel_cache_key(robot, element, what, processor)
    cached = object_cache.load_object(key)
    if cached is not None:
        head, code = _split_kernel_file(cached)
        interface = _decode_signature(head["interface"])
    else:
        program = trace()
        interface = KernelSignature(program.inputs, program.outputs, program.units, program.angles, program.operations)
        code = generate(program)
        text = {"robot": robot.name, "what": program.name, "interface": asdict(interface)}
        encoded = json.dumps(text).encode()
        object_cache.store_object(key, len(encoded).to_bytes(8, "little") + encoded + code)
    return interface, code


def _split_kernel_file(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Splits the content of a cached kernel into its header (JSON) and the machine code."""
    end = 8 + int.from_bytes(content[:8], "little")
    head: dict[str, Any] = json.loads(content[8:end])
    return head, content[end:]


def _decode_signature(data: dict[str, Any]) -> KernelSignature:
    """Returns the signature in a header."""
    return KernelSignature(
        tuple((n, s) for n, s in data["inputs"]),
        tuple((n, tuple(s)) for n, s in data["outputs"]),
        tuple(map(tuple, data["units"])),
        tuple(data["angles"]),
        OperationCounts(**data["operations"]),
    )


@dataclass(frozen=True, slots=True)
class CachedKernel:
    """A kernel in the cache folder."""

    robot: str  # name of the robot
    what: str  # name of the algorithm, such as "rnea"
    file: Path  # path
    size: int  # size of the file [bytes]


def cached_kernels() -> Iterator[CachedKernel]:
    """Yields every undamaged kernel in the cache folder, also those of other versions and of earlier robots."""
    folder = object_cache.cache_folder()
    for file in sorted(folder.glob(f"{CACHE_KIND}-*.bin")) if folder is not None else ():
        found = object_cache.read_object(file, file.stem)
        if found is not None:
            head, _ = _split_kernel_file(found)
            yield CachedKernel(head["robot"], head["what"], file, file.stat().st_size)
