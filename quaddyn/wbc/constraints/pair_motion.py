"""Motion of the distances of eight pairs of segments at once, a pair to a lane: nearest points, rates, derivatives.

Ends of the two segments, three numbers each, lie in rows 3 e + d of matrices of eight columns: e = 0 and 1 are the ends
of the first, 2 and 3 of the second.  P has their positions, V velocities and C accelerations at a = 0; all points of a
segment move in between.  A segment may be a point.
"""

from __future__ import annotations

from ...compiling import Lanes, Matrix, choose8, compiled, load8, max8, min8, splat8, sqrt8, store8
from ...kinematics.segments import PARALLEL

#: Rows of a motion: distance; places along both segments in [0, 1], and how fast they change; second derivative of the
#: distance at a = 0; direction from the first nearest point to the second; velocity of the second against the first;
#: the first, and its velocity as a point of the body; what of the second derivative is due to points that slide;
#: and how often in a period they could come to an end.
D, S, T, S_RATE, T_RATE, SECOND, N, W, AT, AT_RATE, SLIDING, HASTE, MOTION = 0, 1, 2, 3, 4, 5, 6, 9, 12, 15, 18, 19, 20
#: What keeps nearest points of nearly parallel segments from moving infinitely fast.
REGULAR = 1e-3
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
def inside8(length: Lanes, place: Lanes) -> Lanes:
    """Positive where a point may slide: on a segment that has a length, and not at an end."""
    return min8(length, min8(place, splat8(1.0) - place))


@compiled(inline=True)
def kept8(rate: Lanes, free: Lanes, place: Lanes, each: float) -> Lanes:
    """How fast a place changes if it stays on its segment for a period, of which there are `each` in a second."""
    kept = min8(max8(rate, -each * place), each * (splat8(1.0) - place))
    return choose8(free, kept, splat8(0.0))


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
def store3(x: Lanes, y: Lanes, z: Lanes, out: Matrix, row: int) -> None:
    """Three rows."""
    store8(x, out, row, 0)
    store8(y, out, row + 1, 0)
    store8(z, out, row + 2, 0)


@compiled(inline=True)
def haste8(rate: Lanes, free: Lanes, place: Lanes, each: float) -> Lanes:
    """How often in a period a point that slides could come to the end of its segment."""
    way = each * choose8(rate, splat8(1.0) - place, place)
    return choose8(free, max8(rate, -rate) / max8(way, splat8(1e-9)), splat8(0.0))


@compiled(inline=False)
def pair_motion(P: Matrix, V: Matrix, C: Matrix, period: float, out: Matrix) -> None:
    """How the distances d of segments move.

    The second derivative at a = 0 is ``n . c + |w across n|^2 / d + min over r of (2 g . r + r . H r)``: the nearest
    points slide along the segments at the rates r that make the distance least; H is the Hessian of the distance over
    the two places, g its derivative by time.  Rates are those that do not lead off the segments within a period, from
    where on distances are those of an end: nearly parallel segments have nearest points that are anywhere at once.  A
    point at the end of its segment does not slide.

    Places are those of Ericson 2005, "Real-Time Collision Detection", section 5.1.9, without branches: the first place
    is found on lines, or anywhere if they are parallel, and again where the second one left its segment.

    Args:
        P: (12, 8) positions of the ends.
        V: (12, 8) velocities.
        C: (12, 8) accelerations.
        period: [s].
        out: (MOTION, 8) is set.  Where the segments cross n is 0, and what is divided by d is finite.
    """
    zero, one = splat8(0.0), splat8(1.0)
    ax, ay, az = load3(P, 0)
    ux, uy, uz = load3(P, 3)
    ux, uy, uz = ux - ax, uy - ay, uz - az
    bx, by, bz = load3(P, 6)
    hx, hy, hz = load3(P, 9)
    hx, hy, hz = hx - bx, hy - by, hz - bz
    rx, ry, rz = bx - ax, by - ay, bz - az
    uu, hh = dot8(ux, uy, uz, ux, uy, uz), dot8(hx, hy, hz, hx, hy, hz)
    uh, ur, hr = dot8(ux, uy, uz, hx, hy, hz), dot8(ux, uy, uz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz)
    over_uu, over_hh = one / choose8(uu, uu, one), one / choose8(hh, hh, one)
    across = uu * hh - uh * uh
    skew = across - PARALLEL * uu * hh
    s = choose8(skew, unit8((ur * hh - uh * hr) / choose8(skew, across, one)), splat8(0.5))
    t = (uh * s - hr) * over_hh
    kept = min8(skew, min8(t, one - t))
    t = unit8(t)
    s = choose8(kept, s, unit8((uh * t + ur) * over_uu))
    nx, ny, nz = rx + t * hx - s * ux, ry + t * hy - s * uy, rz + t * hz - s * uz
    d = sqrt8(dot8(nx, ny, nz, nx, ny, nz))
    over = one / max8(d, splat8(CROSSING))
    nx, ny, nz = nx * over, ny * over, nz * over
    px, py, pz = between(V, 0, s)
    qx, qy, qz = between(V, 6, t)
    store3(ax + s * ux, ay + s * uy, az + s * uz, out, AT)
    store3(px, py, pz, out, AT_RATE)
    store3(nx, ny, nz, out, N)
    wx, wy, wz = qx - px, qy - py, qz - pz
    store3(wx, wy, wz, out, W)
    px, py, pz = between(C, 0, s)
    qx, qy, qz = between(C, 6, t)
    along = dot8(nx, ny, nz, wx, wy, wz)
    second = dot8(nx, ny, nz, qx - px, qy - py, qz - pz)
    second += max8(dot8(wx, wy, wz, wx, wy, wz) - along * along, zero) * over
    wx, wy, wz = wx - along * nx, wy - along * ny, wz - along * nz
    gu = -dot8(wx, wy, wz, ux, uy, uz) * over - turning(V, 0, nx, ny, nz)
    gh = dot8(wx, wy, wz, hx, hy, hz) * over + turning(V, 6, nx, ny, nz)
    free_u, free_h = inside8(uu, s), inside8(hh, t)
    both, each = min8(free_u, free_h), 1.0 / period
    more = choose8(both, splat8(1.0 + REGULAR), one)
    ku, kh, less = uu * more, hh * more, one / more
    over_uu, over_hh = over_uu * less, over_hh * less
    gu, gh = d * gu, d * gh
    ratio = one / choose8(both, ku * kh - uh * uh, one)
    # the least within the box is on a side that the least of all is beyond
    s_rate, t_rate = -ratio * (kh * gu + uh * gh), -ratio * (ku * gh + uh * gu)
    store8(max8(haste8(s_rate, free_u, s, each), haste8(t_rate, free_h, t, each)), out, HASTE, 0)
    s_rate = kept8(s_rate, free_u, s, each)
    t_after = kept8((uh * s_rate - gh) * over_hh, free_h, t, each)
    t_rate = kept8(t_rate, free_h, t, each)
    s_after = kept8((uh * t_rate - gu) * over_uu, free_u, s, each)
    change = sliding(gu, gh, ku, uh, kh, s_rate, t_after)
    better = change - sliding(gu, gh, ku, uh, kh, s_after, t_rate)
    s_rate, t_rate = choose8(better, s_after, s_rate), choose8(better, t_rate, t_after)
    change = choose8(better, change - better, change)
    store8(d, out, D, 0)
    store8(s, out, S, 0)
    store8(t, out, T, 0)
    store8(s_rate, out, S_RATE, 0)
    store8(t_rate, out, T_RATE, 0)
    store8(second + change * over, out, SECOND, 0)
    store8(change * over, out, SLIDING, 0)


@compiled(inline=True)
def sliding(gu: Lanes, gh: Lanes, uu: Lanes, uh: Lanes, hh: Lanes, s: Lanes, t: Lanes) -> Lanes:
    """``2 g . r + r . H r``, of what is multiplied by the distance."""
    return s * (2.0 * gu + uu * s - uh * t) + t * (2.0 * gh + hh * t - uh * s)


@compiled(inline=True)
def turning(V: Matrix, row: int, nx: Lanes, ny: Lanes, nz: Lanes) -> Lanes:
    """How fast a segment turns into a direction."""
    x, y, z = load3(V, row)
    u, v, w = load3(V, row + 3)
    return dot8(nx, ny, nz, u - x, v - y, w - z)


@compiled(inline=False)
def end_motion(P: Matrix, V: Matrix, C: Matrix, period: float, end: int, out: Matrix) -> None:
    """`pair_motion` of one of the four ends with the other segment, for the one segment shrunk to this end."""
    zero, one = splat8(0.0), splat8(1.0)
    mine, other, sign = 3 * end, 6 if end < 2 else 0, -1.0 if end < 2 else 1.0
    ax, ay, az = load3(P, mine)
    bx, by, bz = load3(P, other)
    hx, hy, hz = load3(P, other + 3)
    hx, hy, hz = hx - bx, hy - by, hz - bz
    rx, ry, rz = ax - bx, ay - by, az - bz
    hh = dot8(hx, hy, hz, hx, hy, hz)
    over_hh = one / choose8(hh, hh, one)
    t = unit8(dot8(hx, hy, hz, rx, ry, rz) * over_hh)
    nx, ny, nz = sign * (rx - t * hx), sign * (ry - t * hy), sign * (rz - t * hz)
    d = sqrt8(dot8(nx, ny, nz, nx, ny, nz))
    over = one / max8(d, splat8(CROSSING))
    nx, ny, nz = nx * over, ny * over, nz * over
    px, py, pz = load3(V, mine)
    qx, qy, qz = between(V, other, t)
    wx, wy, wz = sign * (px - qx), sign * (py - qy), sign * (pz - qz)
    store3(nx, ny, nz, out, N)
    store3(wx, wy, wz, out, W)
    if end < 2:
        store3(ax, ay, az, out, AT)
        store3(px, py, pz, out, AT_RATE)
    else:
        store3(bx + t * hx, by + t * hy, bz + t * hz, out, AT)
        store3(qx, qy, qz, out, AT_RATE)
    px, py, pz = load3(C, mine)
    qx, qy, qz = between(C, other, t)
    along = dot8(nx, ny, nz, wx, wy, wz)
    second = sign * dot8(nx, ny, nz, px - qx, py - qy, pz - qz)
    second += max8(dot8(wx, wy, wz, wx, wy, wz) - along * along, zero) * over
    wx, wy, wz = wx - along * nx, wy - along * ny, wz - along * nz
    g = -sign * (dot8(wx, wy, wz, hx, hy, hz) * over + turning(V, other, nx, ny, nz))
    rate, free, each = -d * g * over_hh, inside8(hh, t), 1.0 / period
    store8(haste8(rate, free, t, each), out, HASTE, 0)
    rate = kept8(rate, free, t, each)
    store8(d, out, D, 0)
    store8(zero if end < 2 else t, out, S, 0)
    store8(zero if end < 2 else rate, out, S_RATE, 0)
    store8(t if end < 2 else zero, out, T, 0)
    store8(rate if end < 2 else zero, out, T_RATE, 0)
    change = rate * (2.0 * g + hh * rate * over)
    store8(second + change, out, SECOND, 0)
    store8(change, out, SLIDING, 0)


@compiled(inline=False)
def plane_motion(P: Matrix, V: Matrix, C: Matrix, end: int, out: Matrix) -> None:
    """`pair_motion` of end 0 or 1 with a plane: its normal and a point of it are the ends of the second segment."""
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
    for row in range(S, T_RATE + 1):
        store8(zero, out, row, 0)
    store8(zero, out, HASTE, 0)
    store8(zero, out, SLIDING, 0)


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
