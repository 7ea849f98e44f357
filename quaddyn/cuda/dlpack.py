"""DLPack capsules by ctypes: reading those of other libraries, and writing those of `CudaArray`.

Source: DLPack, *Open In Memory Tensor Structure*, version 0.8 (``dlpack.h``).
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np

from ..errors import ArgumentTypeError

#: Types of devices.
CPU: Final = 1
CUDA: Final = 2
_FLOAT: Final = 2
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
    """Description of the tensor in a capsule.

    Attributes:
        address: address of the first entry.
        shape: shape.
        strides: distances of entries [bytes].
        typestr: type of entries in the notation of NumPy, such as "<f8".
        device: number of the device.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    typestr: str
    device: int


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
    kind = {0: "i", 1: "u", _FLOAT: "f", 5: "c", 6: "b"}.get(tensor.code, "V")
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
        _FLOAT,
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
