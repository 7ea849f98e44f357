"""Functions that compiled functions may call besides each other and `math`: memory views, small arrays, SIMD lanes.

This module has the versions that run in Python.  SIMD loads and stores move `LANE_WIDTH` consecutive numbers and may
pass the end of an array, which must be padded accordingly.  (In Python they stop at the end of the array and read 0
beyond.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .kinds import FLOAT, LANE_WIDTH, MAT3, QUAT, VEC3, Kind, Lanes, Mat3, Quat, SmallArrayKind, Vec3

F = TypeVar("F", bound=Callable[..., Any])

#: Compiled functions that implement operators on small arrays, by the operator and the kinds of its operands.
OPERATIONS: dict[tuple[str, *tuple[Kind, ...]], Callable[..., Any]] = {}


def operation(operator: str, *operands: Kind) -> Callable[[F], F]:
    """Returns a decorator that registers a compiled function as an operator on these kinds (see `OPERATIONS`)."""

    def register(function: F) -> F:
        OPERATIONS[(operator, *operands)] = function
        return function

    return register


class _Value(np.ndarray[Any, np.dtype[np.float64]]):
    """Array with value semantics: ``a += b`` makes a new array and does not change other references to the old one."""

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self * other

    def __truediv__(self, other: Any) -> Any:
        with np.errstate(all="ignore"):  # infinite or NaN, as compiled
            return super().__truediv__(other)

    def __rtruediv__(self, other: Any) -> Any:
        with np.errstate(all="ignore"):
            return super().__rtruediv__(other)

    def __itruediv__(self, other: Any) -> Any:
        return self / other


class SmallArray(_Value):
    """Immutable array that represents a small array when a compiled function runs in Python.

    Products sum from left to right, as compiled code does.
    """

    def __matmul__(self, other: Any) -> Any:
        kinds = [_SHAPES.get(np.shape(each)) for each in (self, other)]
        found = OPERATIONS.get(("@", *(kind for kind in kinds if kind is not None)))
        if found is None or not isinstance(other, SmallArray):
            raise TypeError(
                f"operator @ is not defined for shape {np.shape(self)} and {type(other).__name__} of shape "
                f"{np.shape(other)}"
            )
        return found(self, other)


_SHAPES: dict[tuple[int, ...], Kind] = {(): FLOAT, **{kind.shape: kind for kind in (VEC3, MAT3, QUAT)}}


def _small_array(kind: SmallArrayKind, entries: tuple[Any, ...]) -> SmallArray:
    out = np.array(entries[0] if len(entries) == 1 else entries, dtype=np.float64)
    if out.shape != kind.shape and len(entries) != len(kind.items):
        raise ValueError(f"{kind.name.lower()}: expected an array of shape {kind.shape}, got {out.shape}")
    small = out.reshape(kind.shape).view(SmallArray)
    small.flags.writeable = False
    return small


def vec3(*entries: Any) -> Vec3:
    """Makes a vector.

    Args:
        entries: three numbers, or an array of shape (3,); any unit.
    """
    return _small_array(VEC3, entries)


def mat3(*entries: Any) -> Mat3:
    """Makes a matrix.

    Args:
        entries: nine numbers row by row, three rows (`Vec3`), or an array of shape (3, 3); any unit.
    """
    return _small_array(MAT3, entries)


def quat(*entries: Any) -> Quat:
    """Makes a quaternion.

    Args:
        entries: the quaternion's x, y, z and w, or an array of shape (4,).
    """
    return _small_array(QUAT, entries)


class _Lanes(_Value):
    """SIMD register of `LANE_WIDTH` numbers when a compiled function runs in Python."""


def matrix(memory: NDArray[Any], at: int, rows: int, columns: int) -> NDArray[Any]:
    """Returns a view of a vector's entries as a matrix of shape (rows, columns).

    Args:
        memory: (n,) vector, any unit.
        at: index of the first entry of the view.
        rows: number of rows.
        columns: number of columns.
    """
    return memory[at : at + rows * columns].reshape(rows, columns)


def tensor(memory: NDArray[Any], at: int, count: int, rows: int, columns: int) -> NDArray[Any]:
    """Returns a view of a vector's entries as an array of shape (count, rows, columns).

    Args:
        memory: (n,) vector, any unit.
        at: index of the first entry of the view.
        count: number of matrices.
        rows: number of rows of each.
        columns: number of columns of each.
    """
    return memory[at : at + count * rows * columns].reshape(count, rows, columns)


def local(*sizes: int) -> NDArray[np.float64]:
    """Returns a new, uninitialized (NaN) array of floats that exists until the function returns.

    Args:
        sizes: size of each axis; constants.
    """
    return np.full(sizes, np.nan)


def zeros(*sizes: int) -> NDArray[np.float64]:
    """Returns a new array of zeros that exists until the function returns.

    Args:
        sizes: size of each axis; constants.
    """
    return np.zeros(sizes)


def alignment(memory: NDArray[np.float64]) -> int:
    """Returns the number of entries of a vector before the first one that begins a cache line (64 bytes).

    Args:
        memory: (n,) vector, any unit.
    """
    address: int = memory.__array_interface__["data"][0]
    return (-address % 64) // memory.itemsize


def call_kernel(address: int, x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64]) -> int:
    """Calls machine code of the signature ``int64_t f(const double *x, const double *y, double *out)``.

    Args:
        address: address of the function, dimensionless, such as `quaddyn.kernels.TickTerms.address`; not checked.
        x: (n,) first vector, of the size that the function requires, any unit; not checked.
        y: (m,) second vector, any unit; not checked.
        out: (k,) vector that the function writes, any unit; not checked.

    Returns:
        The result of the function.
    """
    pointers = (each.__array_interface__["data"][0] for each in (x, y, out))
    result: int = _KERNEL(address)(*pointers)
    return result


_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)


def _lane_view(array: NDArray[np.float64], index: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns a view of up to `LANE_WIDTH` consecutive numbers, from the entry at `index` on."""
    start = 0
    for i, size in zip(index, array.shape, strict=True):
        start = start * size + i
    return array.reshape(-1)[start : start + LANE_WIDTH]


def load8(array: NDArray[np.float64], *index: int) -> Lanes:
    """Returns the entry at an index and the `LANE_WIDTH` - 1 entries that follow it in memory.

    Args:
        array: of any shape (n, ...) and any unit.
        index: one index for each axis.
    """
    out = np.zeros(LANE_WIDTH).view(_Lanes)
    found = _lane_view(array, index)
    out[: len(found)] = found
    return out


def store8(lanes: Lanes, array: NDArray[np.float64], *index: int) -> None:
    """Writes lanes to the entry at an index and the entries that follow it in memory.

    Args:
        lanes: (8,) values, in the units of `array`.
        array: of any shape (n, ...) and any unit.
        index: one index for each axis.
    """
    view = _lane_view(array, index)
    view[:] = lanes[: len(view)]


def broadcast8(x: float) -> Lanes:
    """Returns lanes that all equal x.

    Args:
        x: value, any unit.
    """
    return np.full(LANE_WIDTH, x).view(_Lanes)


def sum8(lanes: Lanes) -> float:
    """Returns the sum of the lanes, added pairwise: the upper half to the lower half until one number remains.

    Args:
        lanes: (8,) values, any unit.
    """
    half = lanes[:4] + lanes[4:]
    quarter = half[:2] + half[2:]
    return float(quarter[0] + quarter[1])


def mask_range8(lanes: Lanes, first: int, last: int) -> Lanes:
    """Returns the lanes with indices in [first, last); the others become zero.

    Args:
        lanes: (8,) values, any unit.
        first: index of the first lane that is not set to zero.
        last: index after the last lane that is not set to zero.
    """
    at = np.arange(LANE_WIDTH)
    return np.where((at >= first) & (at < last), lanes, 0.0).view(_Lanes)


def sqrt8(lanes: Lanes) -> Lanes:
    """Returns the square root of each lane.

    Args:
        lanes: (8,) values, any unit.
    """
    with np.errstate(invalid="ignore"):
        return np.sqrt(lanes).view(_Lanes)


def min8(a: Lanes, b: Lanes) -> Lanes:
    """Returns the smaller value of each pair of lanes, or that of a if one is NaN.

    Args:
        a: (8,) values, any unit.
        b: (8,) values in the same unit.
    """
    return np.where(b < a, b, a).view(_Lanes)


def max8(a: Lanes, b: Lanes) -> Lanes:
    """Returns the larger value of each pair of lanes, or that of a if one is NaN.

    Args:
        a: (8,) values, any unit.
        b: (8,) values in the same unit.
    """
    return np.where(b > a, b, a).view(_Lanes)


def select8(test: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """Returns the lanes of a where `test` is positive, and those of b elsewhere.

    Args:
        test: (8,) values, any unit.
        a: (8,) values, any unit.
        b: (8,) values in the same unit.
    """
    return np.where(test > 0.0, a, b).view(_Lanes)
