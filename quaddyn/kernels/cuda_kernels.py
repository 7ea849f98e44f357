"""Compiled operations on arrays in the memory of a GPU; and arguments of operations by name, on CPU and GPU.

`ptx_module` writes a program as a CUDA kernel, in which one thread computes one state.  Arguments of the kernel: the
number of states N (i64), and for each input and output a pointer, the distance of two states and the distance of two
entries of one state, both in bytes (i64).  A distance of states of 0 is an input that holds for all states.  Threads
beyond the last state repeat it.  A state whose arguments are invalid (see `llvm_body`) has NaN in all its results.

In the layout "columns" the entries of neighboring states are neighbors in memory, so that threads read and write them
directly.  In the layout "rows" a warp copies its 32 rows of each input to shared memory first, and writes results in
tiles of 32 rows through shared memory, so that neighboring threads access neighboring addresses as well.

In the layout `LANES` inputs are as in "columns", and results lie in the memory of lanes, see
`quaddyn.compiler.lane_memory`: the distance of states of an output is that of two blocks of 32 states.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

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
from .graph import Program
from .kernel_cache import KernelSignature, load_or_generate
from .llvm_body import ProgramBodyWriter, RegisterAllocator, Window
from .llvm_writer import BYTES, Target, VectorWriter

#: Memory layouts of batches: (N, n) and (n, N).
LAYOUTS: Final = ("rows", "columns")
#: Layout of results in the memory of lanes.
LANES: Final = "lanes"
#: Threads of a block.  A warp that shares its memory with no other needs no barrier of the block.
THREADS_PER_BLOCK: Final = {"rows": 32, "columns": 128, LANES: 32}
WARP: Final = 32
#: Maximum memory for the rows of inputs of a warp [bytes]; with a tile of results they must fit into 48 kB.
MAX_STAGED_BYTES: Final = 40_000
#: Size of the rows that are written in one tile, and width of the tiles of larger ones: 16 float64 are a cache line.
MAX_SINGLE_TILE: Final = 24
TILE_WIDTH: Final = 16
#: Values of a thread in registers: a thread has 255 registers of 32 bits, of which some are needed for addresses.
REGISTERS: Final = {"double": 104, "float": 208}
#: Name of the kernel in the module.
KERNEL_NAME: Final = "quaddyn_kernel"

_GLOBAL, _SHARED, _LOCAL = "ptr addrspace(1)", "ptr addrspace(3)", "ptr addrspace(5)"
_NAN = {"double": "0x7FF8000000000000", "float": "0x7FF8000000000000"}


def odd_stride(size: int) -> int:
    """Returns the distance of rows in shared memory: an odd number, so that 32 rows occupy all banks."""
    return size | 1


class LocalMemoryAllocator(RegisterAllocator):
    """Register allocator whose spilled values lie in the local memory of the thread.

    Inline PTX computes the address, so that LLVM does not promote the array to registers.
    """

    spill_pointer = _LOCAL

    def _allocate(self, array: str) -> list[str]:
        asm = 'asm "cvta.to.local.u64 $0, $1;", "=l,l"'
        return [f"  %slots = alloca {array}, align 16", f"  %far = call {_LOCAL} {asm}(ptr %slots)"]


class ThreadWriter(VectorWriter):
    """Writer of the instructions of one thread."""

    def __init__(self, element: str, staged: frozenset[str], tile: bool) -> None:
        super().__init__(element, 1)
        self.staged, self.tile = staged, tile

    def input_address(self, pointer: str, index: int) -> str:
        """Writes the address of an entry of an input of this thread's state, with its type."""
        if pointer in self.staged:
            return f"{_SHARED} " + self.new(f"getelementptr {self.element}, {_SHARED} {pointer}.row, i32 {index}")
        return f"{_GLOBAL} " + self._global_address(pointer, index)

    def _global_address(self, pointer: str, index: int) -> str:
        return self.multiply_add(f"{pointer}.entry", str(index), pointer) if index else pointer

    def multiply_add(self, a: str, b: str, pointer: str) -> str:
        """Writes ``pointer + a b``, with a distance in bytes.

        As inline PTX it is not subject to LLVM's elimination of common subexpressions, which takes seconds for
        hundreds of entries, and whose results would occupy registers.
        """
        asm = 'asm "mad.lo.s64 $0, $1, $2, $3;", "=l,l,ln,l"'
        return self.new(f"call {_GLOBAL} {asm}(i64 {a}, i64 {b}, {_GLOBAL} {pointer})")

    def load_address(self, address: str) -> str:
        """Loads from an address of an input."""
        constant = ", !invariant.load !0" if address.startswith(_GLOBAL) else ""
        return self.new(f"load {self.type}, {address}, align {BYTES[self.element]}{constant}")

    def store(self, pointer: str, size: int, start: int, values: Sequence[str]) -> None:
        """Stores a window of results of this thread's state, or with the other threads of the warp a tile."""
        align = BYTES[self.element]
        if not self.tile:
            for k, x in enumerate(values):
                at = self._global_address(pointer, start + k)
                self.line(f"store {self.type} {x}, {_GLOBAL} {at}, align {align}")
            return
        width, stride = len(values), odd_stride(len(values))
        row = self.new(f"mul i32 %lane, {stride}")
        row = self.new(f"getelementptr {self.element}, {_SHARED} @tile, i32 {row}")
        for k, x in enumerate(values):
            at = self.new(f"getelementptr {self.element}, {_SHARED} {row}, i32 {k}")
            self.line(f"store {self.type} {x}, {_SHARED} {at}, align {align}")
        self.synchronize()
        for source, target in self.tile_addresses(pointer, start, width, "@tile", stride):
            x = self.new(f"load {self.type}, {_SHARED} {source}, align {align}")
            self.line(f"store {self.type} {x}, {_GLOBAL} {target}, align {align}")
        self.synchronize()

    def tile_addresses(self, pointer: str, start: int, width: int, tile: str, stride: int) -> Iterator[tuple[str, str]]:
        """Writes the addresses of entries of 32 rows in shared and global memory, one for a thread and step.

        The threads are arranged in rows of a power of two; those beyond the width access its last entry once more.

        Args:
            pointer: name of the array.
            start: index of the first entry in the rows of the array.
            width: number of entries, at most 32.
            tile: address of the first of these entries in shared memory.
            stride: distance of rows in shared memory.
        """
        threads = 1 << (width - 1).bit_length()
        column = self.new(f"and i32 %lane, {threads - 1}")
        if width < threads:
            column = self.new(f"call i32 @llvm.umin.i32(i32 {column}, i32 {width - 1})")
        own_row = self.new(f"lshr i32 %lane, {threads.bit_length() - 1}") if threads < WARP else "0"
        shared = self.new(f"mul i32 {own_row}, {stride}") if threads < WARP else "0"
        shared = self.new(f"add i32 {shared}, {column}")
        shared = self.new(f"getelementptr {self.element}, {_SHARED} {tile}, i32 {shared}")
        column = self.new(f"add i32 {column}, {start}")
        base = self.new(f"getelementptr {self.element}, {_GLOBAL} {pointer}.base, i32 {column}")
        first = self.new(f"zext i32 {own_row} to i64") if threads < WARP else "0"
        first = self.new(f"add i64 %first, {first}")
        for row in range(0, WARP, WARP // threads):
            state = self.new(f"add i64 {first}, {row}")
            state = self.new(f"call i64 @llvm.umin.i64(i64 {state}, i64 %last)")
            at = self.new(f"getelementptr {self.element}, {_SHARED} {shared}, i32 {row * stride}")
            yield at, self.multiply_add(state, f"{pointer}.state", base)

    def synchronize(self) -> None:
        """Waits for the other threads of the warp, whose memory accesses are then complete."""
        self.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")


class ThreadBodyWriter(ProgramBodyWriter):
    """Writer of a program as a CUDA kernel."""

    w: ThreadWriter

    def __init__(self, program: Program, element: str, layout: str) -> None:
        self.layout, self.staged = layout, frozenset[str]()
        if layout == "rows":
            self.staged = frozenset(f"%in{k}" for k in _staged_inputs(program, element))
        super().__init__(program, KERNEL_NAME, Target(element, 1, 0), 1, max_operations=len(program.order) + 1)
        self.stores_at_end = self.packs_angles = False
        self.n_registers = REGISTERS[element]

    def _make_writer(self) -> ThreadWriter:
        return ThreadWriter(self.element, self.staged, self.layout == "rows")

    def _make_allocator(self) -> RegisterAllocator:
        return LocalMemoryAllocator(self.w, self.n_registers)

    def _windows(self) -> list[Window]:
        """Returns the stores: single entries in the layout "columns", tiles in the layout "rows"."""
        out: list[Window] = []
        results = [r.ref for r in self.program.results]
        for pointer, (_, shape) in zip(self.output_pointers, self.program.outputs, strict=True):
            size = math.prod(shape)
            width = tile_width(size) if self.layout == "rows" else 1
            for start in range(0, size, width):
                refs = results[start : min(start + width, size)]
                out.append((pointer, size, start, refs, 0))
            del results[:size]
        return out

    def _load_inputs(self, index: int, keep: Sequence[int]) -> None:
        """Loads an input; a value that leaves its register is loaded from there again."""
        first, _, pointer = next(s for s in self.input_rows if s[0] <= index < s[0] + s[1])
        address = self.w.input_address(pointer, index - first)
        x = self.w.load_address(address)
        self._validate_input(index, x)
        i = self.input_nodes.get(index, -1)
        if self.values.is_read_again(i) and i not in self.values:
            self.values.define(i, x, keep)
            self.values.in_memory[i] = address

    def kernel(self) -> str:
        """Returns the definitions of the kernel and of its shared memory."""
        program, element = self.program, self.element
        self._begin_part(0)
        w = self.w
        pointers = [*self.input_pointers, *self.output_pointers]
        parameters = ", ".join(["i64 %n", *(f"{_GLOBAL} {p}.base, i64 {p}.state, i64 {p}.entry" for p in pointers)])
        threads = THREADS_PER_BLOCK[self.layout]
        w.lines += [
            "entry:",
            "  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
            "  %block.wide = zext i32 %block to i64",
            "  %lane.wide = zext i32 %lane to i64",
            f"  %first = mul i64 %block.wide, {threads}",
            "  %last = sub i64 %n, 1",
            "  %own = add i64 %first, %lane.wide",
            "  %beyond = icmp ugt i64 %own, %last",
            "  %state = select i1 %beyond, i64 %last, i64 %own",
            "  %never = icmp eq i64 %n, 0",
        ]
        for p in pointers:
            state, base = "%state", f"{p}.base"
            if self.layout == LANES and p in self.output_pointers:
                state, lane = w.new(f"lshr i64 %state, {WARP.bit_length() - 1}"), w.new(f"and i64 %state, {WARP - 1}")
                base = w.new(f"getelementptr i64, {_GLOBAL} {base}, i64 {lane}")
            w.line(f"{p} = getelementptr i8, {_GLOBAL} {w.multiply_add(state, f'{p}.state', base)}, i64 0")
        shared = []
        for k, (p, (_, size)) in enumerate(zip(self.input_pointers, program.inputs, strict=True)):
            if p in self.staged:
                shared.append(_shared_array(f"@rows{k}", element, size))
                self._stage_rows(k, p, size)
        if self.staged:
            w.synchronize()
        bad = self._write_events(0, cut=True)
        w.line(f"br i1 {bad}, label %invalid, label %cold")
        w.lines.append("invalid:")
        for k, (p, (_, shape)) in enumerate(zip(self.output_pointers, program.outputs, strict=True)):
            self._fill_with_nan(k, p, math.prod(shape))
        w.line("br label %cold")
        w.lines += ["cold:", "  ret void"]
        if self.layout == "rows":
            width = max((len(window[3]) for window in self.windows), default=1)
            shared.append(_shared_array("@tile", element, width))
        head = f'define ptx_kernel void @{KERNEL_NAME}({parameters}) nounwind "nvvm.maxntid"="{threads}" {{'
        entry, *rest = w.lines
        return "\n".join([*shared, head, entry, *self.values.allocation(), *rest, "}"])

    def _stage_rows(self, k: int, pointer: str, size: int) -> None:
        """Writes the copy of 32 rows of an input to shared memory."""
        w, align = self.w, BYTES[self.element]
        stride = odd_stride(size)
        for start in range(0, size, WARP):
            tile = w.new(f"getelementptr {w.type}, {_SHARED} @rows{k}, i32 {start}")
            for target, source in w.tile_addresses(pointer, start, min(WARP, size - start), tile, stride):
                x = w.new(f"load {w.type}, {_GLOBAL} {source}, align {align}, !invariant.load !0")
                w.line(f"store {w.type} {x}, {_SHARED} {target}, align {align}")
        row = w.new(f"mul i32 %lane, {odd_stride(size)}")
        w.line(f"{pointer}.row = getelementptr {self.element}, {_SHARED} @rows{k}, i32 {row}")

    def _fill_with_nan(self, k: int, pointer: str, size: int) -> None:
        """Writes a loop that sets all entries of an output of this thread's state to NaN."""
        w = self.w
        w.line(f"br label %nan{k}")
        w.lines += [
            f"nan{k}:",
            f"  %i{k} = phi i64 [ 0, {'%invalid' if k == 0 else f'%filled{k - 1}'} ], [ %i{k}.next, %nan{k} ]",
            f"  %i{k}.at = mul i64 %i{k}, {pointer}.entry",
            f"  %i{k}.address = getelementptr i8, {_GLOBAL} {pointer}, i64 %i{k}.at",
            f"  store {w.type} {_NAN[self.element]}, {_GLOBAL} %i{k}.address, align {BYTES[self.element]}",
            f"  %i{k}.next = add i64 %i{k}, 1",
            f"  %i{k}.more = icmp ult i64 %i{k}.next, {size}",
            f"  br i1 %i{k}.more, label %nan{k}, label %filled{k}",
            f"filled{k}:",
        ]


def tile_width(size: int) -> int:
    """Returns the number of entries of a tile of results with rows of this size."""
    return size if size <= MAX_SINGLE_TILE else TILE_WIDTH


def _staged_inputs(program: Program, element: str) -> list[int]:
    """Returns the inputs that a warp copies to shared memory: as many as fit, base parameters last."""
    out, left = [], MAX_STAGED_BYTES
    for k, (_, size) in enumerate(program.inputs):
        left -= odd_stride(size) * WARP * BYTES[element]
        if left < 0:
            break
        out.append(k)
    return out


def _shared_array(name: str, element: str, size: int) -> str:
    length = odd_stride(size) * WARP
    return f"{name} = internal addrspace(3) global [{length} x {element}] poison, align 16"


def ptx_module(program: Program, element: str, layout: str) -> str:
    """Returns the module of a program over "double" or "float", in the layout "rows", "columns" or `LANES`."""
    w = ThreadWriter(element, frozenset(), tile=False)
    t = w.type
    declarations = [
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        "declare void @llvm.nvvm.bar.warp.sync(i32)",
        "declare i32 @llvm.umin.i32(i32, i32)",
        "declare i64 @llvm.umin.i64(i64, i64)",
        f"declare {t} @llvm.fma.{w.suffix}({t}, {t}, {t})",
        *(f"declare {t} @llvm.{name}.{w.suffix}({t})" for name in ("fabs", "sqrt")),
        "!0 = !{}",
    ]
    return "\n".join([ThreadBodyWriter(program, element, layout).kernel(), *declarations]) + "\n"


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
        name, signature, kernel, dtype, layout: as the arguments.
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

    For the arguments see `CudaOperation` and `load_or_generate`.  Defaults that the program does not have are ignored.

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
