"""Vectors of three coordinates in SIMD registers: eight vectors, one per lane."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler import Lanes, Matrix, Vec3, Vector, broadcast8, compiled, load8, max8, min8, sqrt8, store8, vec3


class Lanes3(NamedTuple):
    """Eight vectors."""

    x: Lanes
    y: Lanes
    z: Lanes


@compiled(inline=True)
def load3(A: Vector) -> Lanes3:
    """Loads the eight vectors of a field of a block, (24,)."""
    return Lanes3(load8(A, 0), load8(A, 8), load8(A, 16))


@compiled(inline=True)
def store3(a: Lanes3, out: Vector) -> None:
    """Stores eight vectors in a field of a block, (24,)."""
    store8(a.x, out, 0)
    store8(a.y, out, 8)
    store8(a.z, out, 16)


@compiled(inline=True)
def set_lane3(out: Vector, lane: int, x: Vec3) -> None:
    """Writes one of the eight vectors of a field of a block, (24,)."""
    out[lane] = x[0]
    out[8 + lane] = x[1]
    out[16 + lane] = x[2]


@compiled(inline=True)
def lane3(A: Vector, lane: int) -> Vec3:
    """Returns one of the eight vectors of a field of a block, (24,)."""
    return vec3(A[lane], A[8 + lane], A[16 + lane])


@compiled(inline=True)
def load3_at(A: Matrix, first: int) -> Lanes3:
    """Loads eight columns of a matrix of three rows."""
    return Lanes3(load8(A, 0, first), load8(A, 1, first), load8(A, 2, first))


@compiled(inline=True)
def broadcast3(x: Vec3) -> Lanes3:
    """Returns a vector in all lanes."""
    return Lanes3(broadcast8(x[0]), broadcast8(x[1]), broadcast8(x[2]))


@compiled(inline=True)
def sum3(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a + b``."""
    return Lanes3(a.x + b.x, a.y + b.y, a.z + b.z)


@compiled(inline=True)
def difference3(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a - b``."""
    return Lanes3(a.x - b.x, a.y - b.y, a.z - b.z)


@compiled(inline=True)
def negative3(a: Lanes3) -> Lanes3:
    """Returns ``-a``."""
    return Lanes3(-a.x, -a.y, -a.z)


@compiled(inline=True)
def scaled3(s: Lanes, a: Lanes3) -> Lanes3:
    """Returns ``s a``."""
    return Lanes3(s * a.x, s * a.y, s * a.z)


@compiled(inline=True)
def add_scaled3(a: Lanes3, s: Lanes, b: Lanes3) -> Lanes3:
    """Returns ``a + s b``."""
    return Lanes3(a.x + s * b.x, a.y + s * b.y, a.z + s * b.z)


@compiled(inline=True)
def dot8(a: Lanes3, b: Lanes3) -> Lanes:
    """Returns ``a . b``."""
    return a.x * b.x + a.y * b.y + a.z * b.z


@compiled(inline=True)
def cross8(a: Lanes3, b: Lanes3) -> Lanes3:
    """Returns ``a x b``."""
    return Lanes3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@compiled(inline=True)
def add_cross8(a: Lanes3, b: Lanes3, c: Lanes3) -> Lanes3:
    """Returns ``a + b x c``."""
    return Lanes3(a.x + b.y * c.z - b.z * c.y, a.y + b.z * c.x - b.x * c.z, a.z + b.x * c.y - b.y * c.x)


@compiled(inline=True)
def norm8(a: Lanes3) -> Lanes:
    """Returns the lengths of the vectors."""
    return sqrt8(dot8(a, a))


@compiled(inline=True)
def abs8(x: Lanes) -> Lanes:
    """Returns absolute values."""
    return max8(x, -x)


@compiled(inline=True)
def clamp_to_unit8(x: Lanes) -> Lanes:
    """Returns x clamped to [0, 1]."""
    return min8(max8(x, broadcast8(0.0)), broadcast8(1.0))
