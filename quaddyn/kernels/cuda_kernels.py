"""Compiled operations on arrays in the memory of a GPU; and arguments of operations by name, on CPU and GPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..compiler import machine
from ..cuda.arrays import (
    ArrayView,
    contiguous_strides,
    convert_result,
    current_stream,
    make_result,
    stream_handle,
    to_device,
    view_array,
)
from ..cuda.driver import LoadedKernel, device
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .kernel_cache import KernelSignature, load_or_generate
from .program import Program
from .ptx_module import KERNEL_NAME, THREADS_PER_BLOCK, ptx_module

#: Arguments for which a batch accepts one value that holds for all of its states.
BROADCAST_ARGUMENTS = ("fext", "parameters")


def arguments_by_name(
    operation: str,
    signature: KernelSignature,
    arguments: Sequence[object],
    named: Mapping[str, object],
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the arguments of an operation by name, with defaults for those that are missing.

    Raises:
        ArgumentTypeError: an argument is unknown, repeated or missing.
    """
    names = [name for name, _ in signature.inputs]
    if len(arguments) > len(names):
        raise ArgumentTypeError(f"{operation}: takes {', '.join(names)}, got {len(arguments)} arguments")
    given: dict[str, Any] = dict(zip(names, arguments, strict=False))
    for key, value in named.items():
        if key not in names or key in given:
            raise ArgumentTypeError(
                f"{operation}: got an unknown or repeated argument {key!r}; it takes {', '.join(names)}, each once"
            )
        given[key] = value
    if given.get("fext") is None:  # as in `Dynamics`
        given.pop("fext", None)
    for name in names:
        if name not in given and name not in defaults:
            raise ArgumentTypeError(f"{operation}: argument {name!r} is missing; it takes {', '.join(names)}")
    return {name: given[name] if name in given else defaults[name] for name in names}


#: Maximum number of blocks of a launch.
MAX_BLOCKS = 2**31 - 1


class CudaOperation:
    """Operation on arrays in the memory of a GPU: ``fast.rnea(q, v, a)``; made by `quaddyn.compile` for a GPU.

    Calls start the computation on a stream and return at once.  States with invalid arguments (not finite, a quaternion
    without unit norm, an angle too large) have NaN in all their results; the other states are not affected.

    Args:
        name: name of the operation.
        robot: name of the robot.
        signature: arguments and results.
        kernel: the kernel on the GPU.
        dtype: float64 or float32.
        layout: "rows" for batches (N, n), "columns" for batches (n, N).
        defaults: values (k,) of optional arguments.
        pack: function of several results, by default their tuple.

    Attributes:
        name: name of the operation.
        signature: arguments and results.
        kernel: the kernel on the GPU, with its registers and local memory.
        dtype: dtype of arguments and results.
        layout: "rows" or "columns".
    """

    def __init__(
        self,
        name: str,
        robot: str,
        signature: KernelSignature,
        kernel: LoadedKernel,
        dtype: np.dtype[Any],
        layout: str,
        defaults: Mapping[str, Array],
        pack: Callable[..., Any] | None = None,
    ) -> None:
        self.name, self.signature, self.kernel, self.dtype, self.layout = name, signature, kernel, dtype, layout
        self._robot, self._pack, gpu = robot, pack, f"cuda:{kernel.device.index}"
        self._defaults = {key: to_device(np.asarray(x, dtype=dtype), gpu) for key, x in defaults.items()}

    def __call__(self, *arguments: object, out: object = None, stream: object = None, **named: object) -> Any:
        """Starts the operation on one state or a batch.

        Args:
            arguments: arrays in the memory of the GPU, with ``__cuda_array_interface__`` or ``__dlpack__`` (PyTorch,
                CuPy, JAX, `CudaArray`), of the dtype of the kernels: (n,), or (N, n) in the layout "rows" and
                (n, N) in the layout "columns".
            out: arrays for the results, as many as there are; by default new arrays of the library of the first
                argument.
            stream: CUDA stream: a handle, or an object with ``cuda_stream``, ``ptr`` or ``__cuda_stream__``; by default
                the current stream of the library of the first argument.
            named: arguments by name.

        Returns:
            The results: (..., N) after the axes of a state in the layout "columns", (N, ...) in the layout "rows".

        Raises:
            ArgumentTypeError: an argument that is not in the memory of the GPU, or of another dtype.
            ArgumentError: a wrong shape, strides or device.
            CudaError: the driver reports an error, such as exhausted memory.
        """
        gpu, given = self.kernel.device, arguments_by_name(self.name, self.signature, arguments, named, self._defaults)
        first = given[self.signature.inputs[0][0]]
        handle = current_stream(first, gpu) if stream is None else stream_handle(stream)
        views: list[ArrayView] = []
        rows = -1
        for name, size in self.signature.inputs:
            view = view_array(name, given[name], self.dtype, gpu, handle)
            mine = self._count_states(name, view, (size,))
            if not views:
                rows = mine
            elif mine != rows and not (name in BROADCAST_ARGUMENTS and mine == -1):
                raise ArgumentError(
                    f"{name}: has shape {view.shape}, but {self.signature.inputs[0][0]} has shape {views[0].shape}; "
                    "pass single states only, or batches with the same number of states"
                )
            views.append(view)
        shapes = [self._batch_shape(shape, rows) for _, shape in self.signature.outputs]
        results: Sequence[Any]
        if out is None:
            results = [make_result(first, shape, self.dtype, gpu, handle) for shape in shapes]
        else:
            results = out if isinstance(out, (tuple, list)) else (out,)
            if len(results) != len(shapes):
                raise ArgumentError(f"out: expected {len(shapes)} arrays, got {len(results)}")
        targets = [
            view_array("out" if out is not None else name, x, self.dtype, gpu, handle)
            for x, (name, _) in zip(results, self.signature.outputs, strict=True)
        ]
        for view, shape in zip(targets, shapes, strict=True):
            if view.shape != shape:
                raise ArgumentError(f"out: expected shape {shape}, got {view.shape}")
        if out is not None:
            self._reject_overlaps(results, views, targets)
        self._launch(views, targets, 1 if rows == -1 else rows, handle)
        if out is None:
            results = [convert_result(first, x) for x in results]
        if self._pack is not None:
            return self._pack(*results)
        return results[0] if len(results) == 1 else tuple(results)

    def _batch_shape(self, shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
        """Returns the shape of a batch of arrays of a shape; `rows` is -1 for a single state."""
        if rows == -1:
            return shape
        return (rows, *shape) if self.layout == "rows" else (*shape, rows)

    def _count_states(self, name: str, view: ArrayView, shape: tuple[int, ...]) -> int:
        """Returns the number of states of an input, -1 for a single state."""
        axis = 0 if self.layout == "rows" else -1
        rows = view.shape[axis] if len(view.shape) == len(shape) + 1 else -1
        if view.shape != self._batch_shape(shape, rows):
            (n,) = shape
            expected = f"({n},) or " + (f"(N, {n})" if self.layout == "rows" else f"({n}, N)")
            raise ArgumentError(f"{name}: expected shape {expected} for {self._robot}, got {view.shape}")
        return rows

    def _reject_overlaps(
        self, results: Sequence[Any], views: Sequence[ArrayView], targets: Sequence[ArrayView]
    ) -> None:
        """Raises if results share memory with each other or with arguments, or cannot be written."""
        for x in results:
            if getattr(x, "__cuda_array_interface__", {"data": (0, False)})["data"][1]:
                raise ArgumentError("out: the array is read-only")
        names = [name for name, _ in self.signature.inputs]
        pairs = [(a, b, name) for a in targets for b, name in zip(views, names, strict=True)]
        pairs += [(a, b, "another array of out") for a, b in itertools.combinations(targets, 2)]
        for a, b, name in pairs:
            used = math.prod(a.shape) and math.prod(b.shape)
            if used and a.address <= b.end and b.address <= a.end:
                raise ArgumentError(f"out: shares memory with {name}; pass a separate array")

    def _launch(self, views: Sequence[ArrayView], targets: Sequence[ArrayView], n: int, stream: int) -> None:
        values = [n]
        named = [name for name, _ in self.signature.inputs] + ["out"] * len(targets)
        sizes = [(size,) for _, size in self.signature.inputs] + [shape for _, shape in self.signature.outputs]
        for name, view, shape in zip(named, [*views, *targets], sizes, strict=True):
            values += [view.address, *self._steps(name, view, shape)]
        threads = THREADS_PER_BLOCK[self.layout]
        blocks = math.ceil(n / threads)
        if blocks > MAX_BLOCKS:
            raise ArgumentError(f"{named[0]}: at most {MAX_BLOCKS * threads} states in one call, got {n}")
        if blocks:
            self.kernel.launch(blocks, threads, stream, values)

    def _steps(self, name: str, view: ArrayView, shape: tuple[int, ...]) -> tuple[int, int]:
        """Returns the distances of states and of entries of one state [bytes].

        Entries of one state must have equal distances; in the layout "rows" they must be neighbors, in the layout
        "columns" states must be.
        """
        width, entries, is_batch = self.dtype.itemsize, math.prod(shape), len(view.shape) > len(shape)
        axis = (0 if self.layout == "rows" else -1) if is_batch else None
        n, state = (1, 0) if axis is None else (view.shape[axis], view.strides[axis])
        strides = list(view.strides)
        if axis is not None:
            del strides[axis]
        # Distance of entries, by the last axis with several of them; other axes must agree with it.
        entry = next((step for x, step in zip(shape[::-1], strides[::-1], strict=True) if x > 1), width)
        regular = contiguous_strides(shape, entry)
        if any(x > 1 and a != b for x, a, b in zip(shape, strides, regular, strict=True)):
            raise ArgumentError(
                f"{name}: the axes of one state have the strides {tuple(strides)}; pass a contiguous array"
            )
        if entry != width and (self.layout == "rows" or not is_batch):
            hint = ", or compile with layout='columns'" if is_batch else ""
            raise ArgumentError(
                f"{name}: the entries of one state are {entry} bytes apart, not {width}; pass a contiguous array{hint}"
            )
        if is_batch and n > 1 and self.layout == "columns" and state != width:
            raise ArgumentError(
                f"{name}: neighboring states are {state} bytes apart, not {width}; pass a contiguous array, or compile "
                "with layout='rows'"
            )
        step, least = (state, entries * width) if self.layout == "rows" else (entry, n * width)
        if name == "out" and n > 1 and entries and step < least and (entries > 1 or self.layout == "rows"):
            raise ArgumentError(f"out: its entries share memory (they are {step} bytes apart); pass a separate array")
        return state, entry


def build_cuda_operation(
    robot: Robot,
    what: Sequence[object],
    trace: Callable[[], Program],
    dtype: np.dtype[Any],
    layout: str,
    index: int,
    *,
    defaults: Mapping[str, Array] | None = None,
    pack: Callable[..., Any] | None = None,
) -> CudaOperation:
    """Returns a program on a GPU; its PTX is generated or loaded from the cache.

    Args:
        robot: a loaded robot.
        what: name of the program, and all options that it depends on.
        trace: returns the program.
        dtype: float64 or float32.
        layout: "rows" or "columns".
        index: number of the GPU.
        defaults: values (k,) of optional arguments by name, in SI units; those that the program does not have are
            ignored.
        pack: function of several results.

    Raises:
        CudaError: there is no driver or GPU that can be used.
        UnsupportedMachineError: llvmlite cannot generate code for GPUs.
    """
    gpu, element = device(index), "double" if dtype == np.float64 else "float"
    signature, ptx = load_or_generate(
        robot,
        element,
        ("cuda", layout, *what),
        machine.GPU,
        trace,
        lambda program: machine.generate_ptx(ptx_module(program, element, layout)),
    )
    values = {key: x for key, x in (defaults or {}).items() if key in dict(signature.inputs)}
    kernel = LoadedKernel(gpu, ptx, KERNEL_NAME)
    return CudaOperation(str(what[0]), robot.name, signature, kernel, dtype, layout, values, pack)
