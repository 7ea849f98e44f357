"""`CudaArray`, an array in the memory of a GPU, and `view_array`, which reads those of other libraries."""

from __future__ import annotations

import math
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from . import dlpack
from .driver import Device, device, parse_device

#: Handle of the legacy default stream in the array interface and in DLPack, which do not allow 0.
_LEGACY_STREAM = 1


class CudaArray:
    """Array in C order in the memory of a GPU, which other libraries read without a copy.

    ``torch.from_dlpack(x)``, ``cupy.asarray(x)`` and ``jax.dlpack.from_dlpack(x)`` make arrays of other libraries that
    share its memory.  The memory is freed with the last of them.

    Args:
        shape: shape.
        dtype: float64 or float32.
        gpu: the GPU.
        stream: stream on which the array is written.

    Attributes:
        shape: shape.
        dtype: float64 or float32.
        stream: stream on which the array is written; 0 is the default stream.
        address: address of the first entry.

    Raises:
        CudaError: the memory of the GPU is exhausted.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], gpu: Device, stream: int = 0) -> None:
        self.shape, self.dtype, self.stream, self._gpu = shape, dtype, stream, gpu
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.address = gpu.allocate(self.nbytes)
        weakref.finalize(self, gpu.free, self.address).atexit = False

    @property
    def device(self) -> str:
        """Name of the GPU as in `quaddyn.compile`, such as "cuda:0"."""
        return f"cuda:{self._gpu.index}"

    def to_numpy(self) -> NDArray[Any]:
        """Waits for the array to be written and returns a copy in host memory."""
        out = np.empty(self.shape, self.dtype)
        self._gpu.synchronize(self.stream)
        if out.size:
            self._gpu.call("cuMemcpyDtoH_v2", out.ctypes.data, self.address, out.nbytes)
        return out

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream or _LEGACY_STREAM,
            "version": 3,
        }

    def __dlpack__(self, *, stream: int | None = None, **options: object) -> Any:
        """Returns a capsule; work of `stream` waits for the array to be written."""
        if stream != -1:
            self._gpu.order_streams(self.stream, stream if stream not in (None, _LEGACY_STREAM) else 0)
        return dlpack.write_capsule(self.address, self.shape, self.dtype, self._gpu.index, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self._gpu.index

    def __repr__(self) -> str:
        return f"CudaArray({self.shape}, {self.dtype}, {self.device})"


def to_device(array: NDArray[Any], device_name: str = "cuda") -> CudaArray:
    """Copies an array to a GPU.

    Args:
        array: array of float64 or float32.
        device_name: "cuda" or "cuda:N".

    Raises:
        ArgumentTypeError: not an array of float64 or float32.
        CudaError: there is no GPU that can be used, or its memory is exhausted.
    """
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float64, np.float32):
        got = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ArgumentTypeError(f"array: expected a numpy array of float64 or float32, got {got}")
    index = parse_device(device_name)
    if index is None:
        raise ArgumentError(f"device_name: expected 'cuda' or 'cuda:N', got {device_name!r}")
    gpu, source = device(index), np.ascontiguousarray(array)
    out = CudaArray(array.shape, source.dtype, gpu)
    if source.size:
        gpu.call("cuMemcpyHtoD_v2", out.address, source.ctypes.data, source.nbytes)
    return out


class ArrayView(NamedTuple):
    """Array in the memory of a GPU, of any library.

    Attributes:
        address: address of the first entry.
        shape: shape.
        strides: distances of entries [bytes].
        owner: object that keeps the memory alive.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: object

    @property
    def end(self) -> int:
        """Address of the last entry."""
        return self.address + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


def library_of(array: object) -> str:
    """Returns the name of the library of an array, such as "torch"."""
    return type(array).__module__.partition(".")[0]


def current_stream(array: object, gpu: Device) -> int:
    """Returns the stream on which the library of an array works at present; 0 if it has no such stream."""
    library = library_of(array)
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(gpu.index).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return array.stream if isinstance(array, CudaArray) else 0


def view_array(name: str, array: Any, dtype: np.dtype[Any], gpu: Device, stream: int) -> ArrayView:
    """Returns the view of an argument; work of the stream then waits for the argument to be written.

    Args:
        name: name of the argument.
        array: object with ``__cuda_array_interface__`` or ``__dlpack__``.
        dtype: expected dtype.
        gpu: expected GPU.
        stream: stream on which the array will be read or written.

    Raises:
        ArgumentTypeError: not such an object, or another dtype.
        ArgumentError: an array in other memory.
    """
    expected = f"an array of {dtype} in the memory of cuda:{gpu.index}"
    if isinstance(array, (np.ndarray, np.generic, list, tuple)):
        raise ArgumentTypeError(
            f"{name}: expected {expected}, got {type(array).__name__} in host memory; copy it with "
            "quaddyn.cuda.to_device"
        )
    own_stream = library_of(array) in ("torch", "cupy") and current_stream(array, gpu) == stream
    try:
        interface = None if _prefers_dlpack(array, own_stream) else array.__cuda_array_interface__
    except AttributeError:
        interface = None
    except (RuntimeError, TypeError) as error:  # PyTorch rejects tensors that require a gradient
        raise ArgumentTypeError(f"{name}: the array cannot be read ({error}); pass {name}.detach()") from None
    if interface is not None:
        address, shape, typestr = int(interface["data"][0] or 0), tuple(interface["shape"]), interface["typestr"]
        strides = tuple(interface.get("strides") or dlpack.contiguous_strides(shape, dtype.itemsize))
        owner, producer = array, interface.get("stream")
        if producer is not None and not own_stream:
            gpu.order_streams(0 if producer == _LEGACY_STREAM else int(producer), stream)
    elif hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        if kind == dlpack.CPU:
            raise ArgumentError(f"{name}: expected {expected}, got an array in host memory; copy it to the GPU")
        if kind != dlpack.CUDA or index != gpu.index:
            raise ArgumentError(
                f"{name}: expected {expected}, got an array on device {index} (DLPack device type {kind})"
            )
        capsule = array.__dlpack__(stream=stream or _LEGACY_STREAM)
        address, shape, strides, typestr, _ = dlpack.read_capsule(name, capsule)
        owner = (array, capsule)
    else:
        raise ArgumentTypeError(
            f"{name}: expected {expected} (with __cuda_array_interface__ or __dlpack__), got {type(array).__name__}"
        )
    if np.dtype(typestr) != dtype:
        raise ArgumentTypeError(f"{name}: expected {expected}, got one of {np.dtype(typestr)}; convert it")
    if math.prod(shape) and not gpu.owns(address):
        raise ArgumentError(f"{name}: expected {expected}, but its address is not in the memory of this GPU")
    if address % dtype.itemsize or any(step < 0 or step % dtype.itemsize for step in strides):
        raise ArgumentError(
            f"{name}: addresses of entries are not multiples of {dtype.itemsize} bytes, or decrease; copy it"
        )
    return ArrayView(address, shape, strides, owner)


def _prefers_dlpack(array: Any, own_stream: bool) -> bool:
    """Returns whether to read an array by DLPack, which orders streams where the array interface names none."""
    return not own_stream and not isinstance(array, CudaArray) and hasattr(array, "__dlpack__")


def make_result(like: object, shape: tuple[int, ...], dtype: np.dtype[Any], gpu: Device, stream: int) -> Any:
    """Returns a new array of the library of another one, with uninitialized entries.

    Libraries with a current stream allocate their arrays for this stream; for other streams and libraries the result is
    a `CudaArray`, which `convert_result` converts.
    """
    library = library_of(like)
    if library in ("torch", "cupy") and current_stream(like, gpu) == stream:
        module = sys.modules[library]
        if library == "torch":
            return module.empty(shape, dtype=like.dtype, device=like.device)  # type: ignore[attr-defined]
        with module.cuda.Device(gpu.index):
            return module.empty(shape, dtype)
    return CudaArray(shape, dtype, gpu, stream)


def convert_result(like: object, result: Any) -> Any:
    """Returns a result as an array of the library of another one, without a copy."""
    if not isinstance(result, CudaArray):
        return result
    library = {"jaxlib": "jax"}.get(library_of(like), library_of(like))
    module = sys.modules.get(library)
    convert = getattr(getattr(module, "dlpack", module), "from_dlpack", None) if library != "quaddyn" else None
    return result if convert is None else convert(result)
