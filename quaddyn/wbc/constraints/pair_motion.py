"""Motion of the distances of eight pairs of segments at once, a pair to a lane: points, rates, derivatives.

Ends of the two segments, three numbers each, lie in rows 3 e + d of matrices of eight columns: e = 0 and 1 are the ends
of the first, 2 and 3 of the second.  P has their positions, V velocities and C accelerations at a = 0; all points of a
segment move in between.  A segment may be a point.
"""

from __future__ import annotations

from ...compiling import Lanes, Matrix, compiled, load8, max8, min8, splat8, sqrt8, store8

#: Rows of a motion: distance; places along both segments in [0, 1]; second derivative of the distance at a = 0, and
#: how fast that changes but for the third derivatives of the points; direction from the first point to the second;
#: velocity of the second against the first; the first, and its velocity.
D, S, T, SECOND, THIRD, N, W, AT, AT_RATE, MOTION = 0, 1, 2, 3, 4, 5, 8, 11, 14, 17
#: Distance of segments [m] below which no direction leads apart.
CROSSING = 1e-9


@compiled(inline=True)
def dot8(ax: Lanes, ay: Lanes, az: Lanes, bx: Lanes, by: Lanes, bz: Lanes) -> Lanes:
    """``a . b`` of three."""
    return ax * bx + ay * by + az * bz


@compiled(inline=True)
def unit8(x: Lanes) -> Lanes:
    """x, or the nearer of 0 and 1."""
    return min8(max8(x, splat8(0.0)), splat8(1.0))


@compiled(inline=True)
def load3(M: Matrix, row: int) -> tuple[Lanes, Lanes, Lanes]:
    """Three rows."""
    return load8(M, row, 0), load8(M, row + 1, 0), load8(M, row + 2, 0)


@compiled(inline=True)
def between(M: Matrix, row: int, place: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Of the segment whose ends begin with a row, what belongs to a place."""
    x, y, z = load3(M, row)
    u, v, w = load3(M, row + 3)
    return x + place * (u - x), y + place * (v - y), z + place * (w - z)


@compiled(inline=True)
def along8(M: Matrix, row: int) -> tuple[Lanes, Lanes, Lanes]:
    """What the second end has more than the first, of the segment whose ends begin with a row."""
    x, y, z = load3(M, row)
    u, v, w = load3(M, row + 3)
    return u - x, v - y, w - z


@compiled(inline=True)
def store3(x: Lanes, y: Lanes, z: Lanes, out: Matrix, row: int) -> None:
    """Three rows."""
    store8(x, out, row, 0)
    store8(y, out, row + 1, 0)
    store8(z, out, row + 2, 0)


@compiled(inline=False)
def points_motion(P: Matrix, V: Matrix, C: Matrix, out: Matrix) -> None:
    """Motion of the distance of two points, at the places S and T of their segments, whatever these are.

    With the direction n, and velocity w and acceleration c of the second point against the first, its second derivative
    is ``n . c + |w across n|^2 / d``.  Where the segments cross n is 0, and what is divided by d is finite.

    Args:
        P: (12, 8) positions of the ends.
        V: (12, 8) velocities.
        C: (12, 8) accelerations.
        out: (MOTION, 8) is set but for S and T.
    """
    s, t = load8(out, S, 0), load8(out, T, 0)
    ax, ay, az = between(P, 0, s)
    nx, ny, nz = between(P, 6, t)
    px, py, pz = between(V, 0, s)
    wx, wy, wz = between(V, 6, t)
    store3(ax, ay, az, out, AT)
    store3(px, py, pz, out, AT_RATE)
    nx, ny, nz, wx, wy, wz = nx - ax, ny - ay, nz - az, wx - px, wy - py, wz - pz
    d = sqrt8(dot8(nx, ny, nz, nx, ny, nz))
    over = splat8(1.0) / max8(d, splat8(CROSSING))
    nx, ny, nz = nx * over, ny * over, nz * over
    px, py, pz = between(C, 0, s)
    cx, cy, cz = between(C, 6, t)
    cx, cy, cz = cx - px, cy - py, cz - pz
    along = dot8(nx, ny, nz, wx, wy, wz)
    second = dot8(nx, ny, nz, cx, cy, cz)
    second += max8(dot8(wx, wy, wz, wx, wy, wz) - along * along, splat8(0.0)) * over
    store8(d, out, D, 0)
    store3(nx, ny, nz, out, N)
    store3(wx, wy, wz, out, W)
    store8(second, out, SECOND, 0)
    store8(3.0 * over * (dot8(wx, wy, wz, cx, cy, cz) - along * second), out, THIRD, 0)


@compiled(inline=False)
def plane_motion(P: Matrix, V: Matrix, C: Matrix, end: int, out: Matrix) -> None:
    """`points_motion` of end 0 or 1 and a plane: its normal and a point of it are the ends of the second segment."""
    zero = splat8(0.0)
    ax, ay, az = load3(P, 3 * end)
    nx, ny, nz = load3(P, 6)
    bx, by, bz = load3(P, 9)
    store8(dot8(nx, ny, nz, ax - bx, ay - by, az - bz), out, D, 0)
    store3(-nx, -ny, -nz, out, N)
    store3(ax, ay, az, out, AT)
    ax, ay, az = load3(V, 3 * end)
    bx, by, bz = load3(V, 6)
    store3(ax, ay, az, out, AT_RATE)
    store3(bx - ax, by - ay, bz - az, out, W)
    ax, ay, az = load3(C, 3 * end)
    store8(dot8(nx, ny, nz, ax, ay, az), out, SECOND, 0)
    store8(zero, out, S, 0)
    store8(zero, out, T, 0)
    store8(zero, out, THIRD, 0)


@compiled(inline=False)
def fastest(V: Matrix) -> Lanes:
    """What no point of one segment moves faster by than one of the other."""
    most = splat8(0.0)
    for i in range(0, 6, 3):
        ax, ay, az = load3(V, i)
        for j in range(6, 12, 3):
            bx, by, bz = load3(V, j)
            bx, by, bz = bx - ax, by - ay, bz - az
            most = max8(most, dot8(bx, by, bz, bx, by, bz))
    return sqrt8(most)
