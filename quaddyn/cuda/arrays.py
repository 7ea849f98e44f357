"""`CudaArray`, an array in the memory of a GPU, and `view_array`, which reads those of other libraries.

DLPack capsules of other libraries are read, and those of `CudaArray` are written, with ctypes.  Source: DLPack, *Open
In Memory Tensor Structure*, version 0.8 (``dlpack.h``).
"""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError
from .driver import Device, device, parse_device

#: Types of devices.
CPU: Final = 1
CUDA: Final = 2
#: Codes of types of entries in DLPack by the kinds of NumPy.
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAME: Final = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class TensorView(NamedTuple):
    """Description of the tensor in a capsule."""

    address: int  # address of the first entry
    shape: tuple[int, ...]  # shape
    strides: tuple[int, ...]  # distances of entries [bytes]
    typestr: str  # type of entries in the notation of NumPy, such as "<f8"
    device: int  # number of the device


def _api(name: str, result: Any, *arguments: Any) -> Any:
    """Returns a function of Python's C interface."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_get_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_new_capsule = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

#: Tensors that other libraries hold, with the owners of their memory, by address.
_exported: dict[int, tuple[Any, ...]] = {}


def _release(address: int) -> None:
    """Deletes a tensor that a library no longer uses."""
    _exported.pop(address, None)


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)


def read_capsule(name: str, capsule: Any) -> TensorView:
    """Returns the tensor in a capsule, which is valid while the capsule exists.

    Raises:
        ArgumentTypeError: entries are not numbers of one lane.
    """
    tensor = _ManagedTensor.from_address(_get_pointer(capsule, _NAME)).tensor
    if tensor.lanes != 1:
        raise ArgumentTypeError(f"{name}: expected an array of numbers, got vectors of {tensor.lanes} numbers")
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    size = tensor.bits // 8
    if tensor.strides:
        strides = tuple(tensor.strides[k] * size for k in range(tensor.ndim))
    else:
        strides = contiguous_strides(shape, size)
    kind = next((key for key, code in _CODES.items() if code == tensor.code), "V")
    address = (tensor.data or 0) + tensor.byte_offset
    return TensorView(address, shape, strides, f"<{kind}{size}", tensor.device_id)


def write_capsule(address: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: int, owner: object) -> Any:
    """Returns a capsule of a contiguous array on a GPU, whose `owner` lives until a library has used the tensor.

    The capsule has no destructor, which Python would have to run while an exception is raised: a capsule that no
    library takes keeps the owner alive.
    """
    n = len(shape)
    extents, strides = (ctypes.c_int64 * n)(*shape), (ctypes.c_int64 * n)()
    strides[:] = [x // dtype.itemsize for x in contiguous_strides(shape, dtype.itemsize)]
    pointer = ctypes.POINTER(ctypes.c_int64)
    managed = _ManagedTensor()
    managed.tensor = _Tensor(
        address,
        CUDA,
        device,
        n,
        _CODES[dtype.kind],
        8 * dtype.itemsize,
        1,
        ctypes.cast(extents, pointer),
        ctypes.cast(strides, pointer),
        0,
    )
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    key = ctypes.addressof(managed)
    _exported[key] = (managed, extents, strides, owner)
    return _new_capsule(key, _NAME, None)


def contiguous_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Returns the distances of the entries of an array in C order whose entries have this size [bytes]."""
    out, step = [], size
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return tuple(reversed(out))


#: Handle of the legacy default stream in the array interface and in DLPack, which do not allow 0.
_LEGACY_STREAM = 1


class CudaArray:
    """Array in C order in the memory of a GPU, which other libraries read without a copy.

    ``torch.from_dlpack(x)``, ``cupy.asarray(x)`` and ``jax.dlpack.from_dlpack(x)`` make arrays of other libraries that
    share its memory.  The memory is freed with the last of them.

    Args:
        shape: number of entries along each axis.
        dtype: float64, float32, int64, int8 or bool.
        gpu: the GPU.
        stream: identifier of the stream on which the array is written.

    Attributes:
        shape: number of entries along each axis.
        dtype: dtype of the entries.
        stream: identifier of the stream on which the array is written; 0 is the default stream.
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
        self.read(out)
        return out

    def read(self, out: NDArray[Any]) -> None:
        """Waits for the array to be written and copies it to an array in host memory of the same size, in C order."""
        self._gpu.synchronize(self.stream)
        if out.size:
            self._gpu.call("cuMemcpyDtoH_v2", out.ctypes.data, self.address, self.nbytes)

    def write(self, source: NDArray[Any], start: int = 0) -> None:
        """Copies an array in host memory, in C order and of the same dtype, to the entries from `start` on."""
        if source.size:
            address = self.address + start * self.dtype.itemsize
            self._gpu.call("cuMemcpyHtoD_v2", address, source.ctypes.data, source.nbytes)

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
        return write_capsule(self.address, self.shape, self.dtype, self._gpu.index, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._gpu.index

    def __repr__(self) -> str:
        return f"CudaArray({self.shape}, {self.dtype}, {self.device})"


#: Types of entries of the arrays of `to_device`.
_DTYPES = tuple(np.dtype(x) for x in (np.float64, np.float32, np.int64, np.int8, np.bool_))


def to_device(array: NDArray[Any], device_name: str = "cuda") -> CudaArray:
    """Copies an array to a GPU.

    Args:
        array: of any shape and any unit; float64, float32, int64, int8 or bool.
        device_name: "cuda" or "cuda:N".

    Raises:
        ArgumentTypeError: not an array of these dtypes.
        CudaError: there is no GPU that can be used, or its memory is exhausted.
    """
    if not isinstance(array, np.ndarray) or array.dtype not in _DTYPES:
        got = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ArgumentTypeError(f"array: expected a numpy array of {', '.join(map(str, _DTYPES))}, got {got}")
    index = parse_device(device_name)
    if index is None:
        raise ArgumentError(f"device_name: expected 'cuda' or 'cuda:N', got {device_name!r}")
    source = np.ascontiguousarray(array)
    out = CudaArray(array.shape, source.dtype, device(index))
    out.write(source)
    return out


class ArrayView(NamedTuple):
    """Array in the memory of a GPU, of any library."""

    address: int  # address of the first entry
    shape: tuple[int, ...]  # shape
    strides: tuple[int, ...]  # distances of entries [bytes]
    owner: object  # object that keeps the memory alive

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


def stream_handle(stream: object) -> int:
    """Returns the handle of a CUDA stream.

    Args:
        stream: a handle, or a stream of PyTorch, CuPy or cuda.core.

    Raises:
        ArgumentTypeError: not a stream.
    """
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        stream = protocol()[1]
    if isinstance(stream, (bool, np.bool_)) or not hasattr(stream, "__index__"):
        raise ArgumentTypeError(
            f"stream: expected a CUDA stream of PyTorch, CuPy or cuda.core, or its handle, got {type(stream).__name__}"
        )
    return int(stream)


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
        strides = tuple(interface.get("strides") or contiguous_strides(shape, dtype.itemsize))
        owner, producer = array, interface.get("stream")
        if producer is not None and not own_stream:
            gpu.order_streams(0 if producer == _LEGACY_STREAM else int(producer), stream)
    elif hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        if kind == CPU:
            raise ArgumentError(f"{name}: expected {expected}, got an array in host memory; copy it to the GPU")
        if kind != CUDA or index != gpu.index:
            raise ArgumentError(
                f"{name}: expected {expected}, got an array on device {index} (DLPack device type {kind})"
            )
        capsule = array.__dlpack__(stream=stream or _LEGACY_STREAM)
        address, shape, strides, typestr, _ = read_capsule(name, capsule)
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
