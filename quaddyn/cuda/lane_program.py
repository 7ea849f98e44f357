"""Compiled functions of lanes on a GPU: memory of the lanes, copies of host arrays, and launches.

`LaneProgram` launches the kernel of `quaddyn.compiler.lane_kernels`.  The threads that run at the same time have a
`LaneWorkspace`, which each of them uses for one lane after the other.  `DeviceState` keeps the arrays of a batch in the
memory of the GPU, and copies them to the host for calls that change them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..compiler.kinds import Kind, RecordKind
from ..compiler.lane_kernels import KERNEL_NAME, lane_kernel
from ..compiler.lane_memory import BLOCK_LANES, LaneMemory
from ..compiler.signatures import signature_of
from ..errors import ArgumentError, ArgumentTypeError
from ..exclusive_call import ExclusiveCall
from .arrays import ArrayView, CudaArray, contiguous_strides, to_device, view_array
from .driver import CudaError, Device, LoadedKernel

#: Maximum memory of the threads of a program [bytes].
MAX_WORKSPACE: Final = 8 << 30
#: Sets of arguments that a program keeps on the GPU.
_MAX_RECORDS: Final = 64
#: Arrays that `UploadedArrays` keeps on the GPU.
_MAX_UPLOADED: Final = 16


def load_lane_kernel(gpu: Device, function: Callable[..., Any]) -> LoadedKernel:
    """Returns the kernel of a compiled function of a lane."""
    return LoadedKernel(gpu, lane_kernel(function).ptx, KERNEL_NAME)


class DeviceCopies:
    """Copies of arrays in the memory of a GPU."""

    def __init__(self, gpu: Device) -> None:
        self._gpu, self._copies = gpu, dict[tuple[int, int], tuple[NDArray[Any], CudaArray]]()

    def add(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Copies arrays that have not been copied yet; views of one array become separate arrays."""
        for x in arrays:
            if x.size and _key(x) not in self._copies:
                copy = CudaArray(x.shape, x.dtype, self._gpu)
                copy.write(x)
                self._copies[_key(x)] = x, copy

    def __getitem__(self, x: NDArray[Any]) -> CudaArray:
        """Returns the copy of an array."""
        return self._copies[_key(x)][1] if x.size else CudaArray(x.shape, x.dtype, self._gpu)

    def address(self, x: NDArray[Any]) -> int:
        """Returns the address of the copy of an array; 0 for an array without entries."""
        return self._copies[_key(x)][1].address if x.size else 0

    def values(self) -> Iterable[tuple[NDArray[Any], CudaArray]]:
        """Returns all arrays and their copies."""
        return self._copies.values()


class UploadedArrays:
    """Small arrays of the host that calls of a batch repeat, such as gains, each copied once to "cuda:N"."""

    def __init__(self, device: str) -> None:
        self._device, self._copies = device, dict[bytes, CudaArray]()

    def address(self, x: NDArray[Any]) -> int:
        """Returns the address of the copy of an array; all arrays must have the same dtype and shape."""
        key = x.tobytes()
        if key not in self._copies:
            if len(self._copies) == _MAX_UPLOADED:
                self._copies.clear()  # the driver frees memory when the kernels that read it have ended
            self._copies[key] = to_device(x, self._device)
        return self._copies[key].address


class DeviceState(ExclusiveCall):
    """Lock of a batch on a GPU, and its arrays, which are in the memory of the GPU and in host memory.

    `acquire` is for calls that read or change the arrays in host memory: it copies them there and back.  `launching` is
    for calls that change them on the GPU.

    Args:
        of: what the lock protects, as in `ExclusiveCall`.
        gpu: the GPU.

    Attributes:
        copies: the arrays.
    """

    __slots__ = ("_gpu", "_is_ahead", "_stream", "copies")

    def __init__(self, of: str, gpu: Device) -> None:
        super().__init__(of)
        self.copies = DeviceCopies(gpu)
        self._gpu, self._stream, self._is_ahead = gpu, 0, False

    @property
    def stream(self) -> int:
        """Stream of the last launch."""
        return self._stream

    @contextmanager
    def acquire(self, call: str) -> Iterator[bool]:
        """Returns the context manager of a call that reads or changes the arrays in host memory."""
        with super().acquire(call):
            self._download()
            try:
                yield True
            finally:
                for x, copy in self.copies.values():
                    copy.write(x)

    @contextmanager
    def launching(self, call: str, stream: int) -> Iterator[bool]:
        """Returns the context manager of a call that changes the arrays on a stream of the GPU."""
        with super().acquire(call):
            self._gpu.order_streams(self._stream, stream)
            self._stream, self._is_ahead = stream, True
            for _, copy in self.copies.values():
                copy.stream = stream
            yield True

    def update_host(self, call: str) -> None:
        """Copies the arrays to host memory if the GPU has changed them since."""
        context: AbstractContextManager[bool] = super().acquire(call)
        with context:
            self._download()

    def _download(self) -> None:
        self._gpu.synchronize(self._stream)
        if self._is_ahead:
            for x, copy in self.copies.values():
                copy.read(x)
        self._is_ahead = False


class LaneWorkspace:
    """Memory of the threads of a program on a GPU, each of which begins with the same values.

    The number of threads is at most the number that run on the GPU at the same time and the number of lanes; a thread
    computes one lane after the other.

    Args:
        program: the program.
        values: records and arrays that each thread has for itself, by the names of parameters.
        kinds: their kinds.
        n: number of lanes.
        shared: arrays among them that all threads share and only read.
        threads: maximum number of threads; None: as many as run on the GPU at the same time.

    Attributes:
        registers: registers of the values by name.
        n_blocks: number of blocks of 32 threads.
        block_bytes: memory of such a block [bytes].
        bytes_per_thread: memory of a thread [bytes].
        shared_bytes: memory that all threads share [bytes].

    Raises:
        CudaError: the memory of the GPU is exhausted; for the memory of the threads, the error names `threads`.
    """

    def __init__(
        self,
        program: LaneProgram,
        values: Mapping[str, object],
        kinds: Mapping[str, Kind],
        n: int,
        *,
        shared: Sequence[NDArray[Any]] = (),
        threads: int | None = None,
    ) -> None:
        gpu, memory = program.gpu, LaneMemory(list(values.values()), [kinds[name] for name in values], 1, shared)
        memory.store(0)
        block = np.ascontiguousarray(np.broadcast_to(memory.words[0, :, :1], memory.words.shape[1:]))
        self.block_bytes, self.bytes_per_thread = memory.block_bytes, memory.bytes_per_lane
        resident, fitting = program.kernel.resident_blocks(BLOCK_LANES), MAX_WORKSPACE // max(memory.block_bytes, 1)
        needed = -(-min(n, threads or n) // BLOCK_LANES)
        self.n_blocks = blocks = max(1, min(needed, resident, fitting))
        try:
            self._words = CudaArray((blocks, *block.shape), block.dtype, gpu)
        except CudaError as error:
            raise CudaError(
                f"threads: {blocks * memory.block_bytes / 1e6:,.0f} MB for {blocks * BLOCK_LANES} threads cannot be "
                f"allocated; pass a smaller number, such as threads={max(blocks // 4, 1) * BLOCK_LANES} ({error})"
            ) from None
        self._shared, self._memory = DeviceCopies(gpu), memory
        for k in range(blocks):
            self._words.write(block, k * block.size)
        self._shared.add(shared)
        self.shared_bytes = sum(copy.nbytes for _, copy in self._shared.values())
        placed = memory.registers(self._words.address, self._shared.address)
        self.registers: dict[str, Sequence[int]] = dict(zip(values, placed, strict=True))

    def address(self, x: NDArray[Any]) -> int:
        """Returns the address of the first entry of an array of the first thread."""
        return self._words.address + self._memory.first_byte(x)


class LaneProgram:
    """Compiled function ``f(lane, ...)`` on a GPU.

    Attributes:
        gpu: the GPU.
        kernel: the kernel on the GPU.
        kinds: kinds of the parameters after the number of the lane, by name.

    Raises:
        CudaError: the driver rejects the kernel.
    """

    def __init__(self, gpu: Device, function: Callable[..., Any]) -> None:
        signature = signature_of(function)
        assert signature is not None
        self.kinds: dict[str, Kind] = dict(signature[0][1:])
        self.gpu, self.kernel = gpu, load_lane_kernel(gpu, function)
        self._records = dict[tuple[int, ...], CudaArray]()

    def launch(
        self,
        workspace: LaneWorkspace,
        n: int,
        stream: int,
        registers: Mapping[str, Sequence[int]],
        inputs: tuple[CudaArray, NDArray[Any]] | None = None,
    ) -> None:
        """Starts the function for n lanes and returns at once.

        Args:
            workspace: memory of the threads.
            n: number of lanes.
            stream: the stream.
            registers: registers of the parameters by name; floats as the 64 bits of the number.
            inputs: words (blocks, entries, 32) of the lanes, which the thread of a lane copies to an array of the
                workspace first, and that array.
        """
        words, given, copied = list[int](), list[int](), (0, 0, 0)
        for name, kind in self.kinds.items():
            (words if isinstance(kind, RecordKind) else given).extend(registers[name])
        if inputs is not None:
            copied = (inputs[1].size, inputs[0].address, workspace.address(inputs[1]))
        arguments = [n, workspace.n_blocks, workspace.block_bytes, *copied, self._upload(tuple(words)), *given]
        self.kernel.launch(workspace.n_blocks, BLOCK_LANES, stream, arguments)

    def _upload(self, words: tuple[int, ...]) -> int:
        """Returns the address of records with these registers."""
        if words not in self._records:
            if len(self._records) == _MAX_RECORDS:
                self._records.clear()  # the driver frees memory when the kernels that read it have ended
            array = CudaArray((len(words),), np.dtype(np.int64), self.gpu)
            array.write(np.array([word & (1 << 64) - 1 for word in words], dtype=np.uint64))
            self._records[words] = array
        return self._records[words].address


def lane_words(n: int, size: int, gpu: Device) -> CudaArray:
    """Returns words (blocks, size, 32) for n lanes, 32 lanes next to each other, see `quaddyn.compiler.lane_memory`."""
    return CudaArray((-(-n // BLOCK_LANES), size, BLOCK_LANES), np.dtype(np.int64), gpu)


def view_rows(
    name: str,
    array: Any,
    n: int,
    size: int,
    gpu: Device,
    stream: int,
    *,
    dtype: Any = np.float64,
    one_row: bool = False,
) -> ArrayView:
    """Returns the view of an argument (n, size) in the memory of a GPU, in C order.

    Args:
        name: name of the argument.
        array: the argument.
        n: number of lanes.
        size: size of a row.
        gpu: the GPU.
        stream: stream on which the argument will be read.
        dtype: expected dtype.
        one_row: whether the argument may be one row (size,) for all lanes.

    Raises:
        ArgumentTypeError: not an array in the memory of this GPU, or another dtype.
        ArgumentError: another shape, device, or order of entries.
    """
    view = view_array(name, array, np.dtype(dtype), gpu, stream)
    if one_row and view.shape == (size,):
        view = view._replace(shape=(1, size), strides=(size * view.strides[0], view.strides[0]))
    if view.shape != (n, size) and not (one_row and view.shape == (1, size)):
        expected = f"({n}, {size}) or ({size},)" if one_row else f"({n}, {size})"
        raise ArgumentError(f"{name}: expected shape {expected}, got {view.shape}")
    regular = contiguous_strides(view.shape, np.dtype(dtype).itemsize)
    if any(k > 1 and a != b for k, a, b in zip(view.shape, view.strides, regular, strict=True)):
        raise ArgumentError(f"{name}: the entries have the strides {view.strides}; pass a contiguous array")
    return view


def to_host(name: str, array: Any, gpu: Device) -> Any:
    """Returns an argument that may be in the memory of a GPU in host memory.

    Raises:
        ArgumentTypeError: entries that are not numbers of 64 bits or bools.
        ArgumentError: an array on another GPU, or not in C order.
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return array
    dtype = np.dtype(interface["typestr"])
    if dtype not in (np.float64, np.int8, np.bool_):
        raise ArgumentTypeError(f"{name}: expected float64, int8 or bool, got {dtype}; convert it")
    shape = tuple(interface["shape"])
    rows, size = shape[0] if shape else 1, int(np.prod(shape[1:], dtype=int))
    flat = view_array(name, array, dtype, gpu, 0)
    if any(
        k > 1 and a != b for k, a, b in zip(shape, flat.strides, contiguous_strides(shape, dtype.itemsize), strict=True)
    ):
        raise ArgumentError(f"{name}: the entries have the strides {flat.strides}; pass a contiguous array")
    gpu.synchronize(0)
    out = np.empty(shape, dtype)
    if rows * size:
        gpu.call("cuMemcpyDtoH_v2", out.ctypes.data, flat.address, out.nbytes)
    return out


def _key(x: NDArray[Any]) -> tuple[int, int]:
    return int(x.__array_interface__["data"][0]), x.nbytes
