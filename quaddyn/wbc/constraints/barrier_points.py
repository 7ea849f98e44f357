"""The points of two capsules that approach too fast first, for eight pairs at once: they have the rows.

With r from one point to the other and w its rate of change, these are the points of the least
``|r|^2 / 2 + ahead r . w``, which is quadratic in their places along the two segments: rigid segments have
``u . u' = 0``.  How far ahead depends on the distance of these points, so that they are sought in rounds; none ahead
are the nearest ones.  Places are those of Ericson 2005, "Real-Time Collision Detection", section 5.1.9, without
branches: the first place is found on lines, and again where the second one left its segment.
"""

from __future__ import annotations

from ...compiling import Lanes, Matrix, Vector, choose8, compiled, load8, max8, min8, splat8, sqrt8, store8
from ...kinematics.segments import PARALLEL
from .collision_blocks import KEPT, Block
from .pair_motion import CROSSING, S, T, along8, dot8, load3, plane_motion, points_motion, unit8

#: How often points are sought, each time as far ahead as those found before say; the first time they are the nearest.
ROUNDS = 4
#: Share of k' that is left at least where capsules are far within each other.
FARTHEST = 0.2


@compiled(inline=True)
def look_ahead(d: Lanes, reach: Lanes, p: float, most: float) -> Lanes:
    """How far ahead the points are nearest that have the least ``d (h' + k(h))`` [s]: ``1 / (k'(h) + k(h) / d)``.

    That is ``r . w + d k(h)``, and the derivative of ``d k(h)`` by ``|r|^2 / 2`` is the inverse of this time.
    """
    room, soft, one = d - reach - KEPT, most / (p * p), splat8(1.0)
    beyond = room - soft
    brake = sqrt8(max8(2.0 * most * (room - 0.5 * soft), splat8(0.0)))
    allowed = choose8(beyond, brake, p * room)
    slope = choose8(beyond, most / choose8(beyond, brake, one), splat8(p))
    return one / max8(slope + allowed / max8(d, splat8(CROSSING)), FARTHEST * slope)


@compiled(inline=False)
def pair_places(P: Matrix, V: Matrix, reach: Vector, p: float, most: float, out: Matrix) -> None:
    """Places of the two points along their segments.

    Args:
        P: (12, 8) positions of the ends.
        V: (12, 8) velocities.
        reach: (8,) distance at which there is no room left [m].
        p: rate of the barrier [1/s]; 0 for the nearest points.
        most: largest acceleration [m/s^2].
        out: of which S and T are set.  Where there is no least within both segments, S is 0 or 1.
    """
    zero, one, limit = splat8(0.0), splat8(1.0), load8(reach, 0)
    ax, ay, az = load3(P, 0)
    ux, uy, uz = along8(P, 0)
    rx, ry, rz = load3(P, 6)
    hx, hy, hz = along8(P, 6)
    rx, ry, rz = rx - ax, ry - ay, rz - az
    uu, hh = dot8(ux, uy, uz, ux, uy, uz), dot8(hx, hy, hz, hx, hy, hz)
    uh, ur, hr = dot8(ux, uy, uz, hx, hy, hz), dot8(ux, uy, uz, rx, ry, rz), dot8(hx, hy, hz, rx, ry, rz)
    px, py, pz = load3(V, 0)
    wx, wy, wz = load3(V, 6)
    wx, wy, wz = wx - px, wy - py, wz - pz
    px, py, pz = along8(V, 0)
    qx, qy, qz = along8(V, 6)
    uh_rate = dot8(px, py, pz, hx, hy, hz) + dot8(ux, uy, uz, qx, qy, qz)
    ur_rate = dot8(px, py, pz, rx, ry, rz) + dot8(ux, uy, uz, wx, wy, wz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_uu, over_hh, both = one / choose8(uu, uu, one), one / choose8(hh, hh, one), uu * hh
    ahead, s, t = zero, zero, zero
    for turn in range(ROUNDS if p > 0.0 else 1):
        if turn > 0:
            x, y, z = rx + t * hx - s * ux, ry + t * hy - s * uy, rz + t * hz - s * uz
            ahead = look_ahead(sqrt8(dot8(x, y, z, x, y, z)), limit, p, most)
        b, c, f = uh + ahead * uh_rate, ur + ahead * ur_rate, hr + ahead * hr_rate
        across = both - b * b
        skew = across - PARALLEL * both
        s = choose8(skew, unit8((c * hh - b * f) / choose8(skew, across, one)), zero)
        t = (b * s - f) * over_hh
        kept = min8(t, one - t)
        t = unit8(t)
        s = choose8(kept, s, unit8((b * t + c) * over_uu))
    store8(s, out, S, 0)
    store8(t, out, T, 0)


@compiled(inline=False)
def end_places(P: Matrix, V: Matrix, reach: Vector, p: float, most: float, end: int, out: Matrix) -> None:
    """`pair_places` of one of the four ends and the other segment, for the one segment shrunk to this end."""
    mine, other, one, limit = 3 * end, 6 if end < 2 else 0, splat8(1.0), load8(reach, 0)
    rx, ry, rz = load3(P, mine)
    wx, wy, wz = load3(V, mine)
    x, y, z = load3(P, other)
    rx, ry, rz = rx - x, ry - y, rz - z
    x, y, z = load3(V, other)
    wx, wy, wz = wx - x, wy - y, wz - z
    hx, hy, hz = along8(P, other)
    qx, qy, qz = along8(V, other)
    hh, hr = dot8(hx, hy, hz, hx, hy, hz), dot8(hx, hy, hz, rx, ry, rz)
    hr_rate = dot8(qx, qy, qz, rx, ry, rz) + dot8(hx, hy, hz, wx, wy, wz)
    over_hh = one / choose8(hh, hh, one)
    place = unit8(hr * over_hh)
    for _ in range(ROUNDS - 1 if p > 0.0 else 0):
        x, y, z = rx - place * hx, ry - place * hy, rz - place * hz
        ahead = look_ahead(sqrt8(dot8(x, y, z, x, y, z)), limit, p, most)
        place = unit8((hr + ahead * hr_rate) * over_hh)
    fixed = splat8(float(end % 2))
    store8(fixed if end < 2 else place, out, S, 0)
    store8(place if end < 2 else fixed, out, T, 0)


@compiled(inline=False)
def part_motion(block: Block, part: int, flat: bool, p: float, most: float) -> None:
    """Motion of one part of eight pairs, at the points that approach too fast first; at the nearest ones if p is 0."""
    P, V, motion = block.P, block.V, block.motion
    if flat:
        plane_motion(P, V, block.C, 1 if part == 2 else 0, motion)
        return
    if part == 0:
        pair_places(P, V, block.reach, p, most, motion)
    else:
        end_places(P, V, block.reach, p, most, part - 1, motion)
    points_motion(P, V, block.C, motion)
