"""The points of two capsules that approach too fast first, for eight pairs at once: they have the rows."""

from __future__ import annotations

from ...compiling import Lanes, choose8, compiled, load8, max8, splat8, sqrt8, store8
from .collision_blocks import KEPT, Block
from .pair_motion import AHEAD, CROSSING, D, end_motion, pair_motion, plane_motion

#: How often points are sought anew, each time as far ahead as those found before say.
ROUNDS = 3
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
def part_motion(block: Block, part: int, flat: bool, p: float, most: float) -> None:
    """Motion of one part of eight pairs, at the points that approach too fast first; at the nearest ones if p is 0."""
    P, V, C, motion = block.P, block.V, block.C, block.motion
    if flat:
        plane_motion(P, V, C, 1 if part == 2 else 0, motion)
        return
    store8(splat8(0.0), motion, AHEAD, 0)
    for turn in range(ROUNDS + 1 if p > 0.0 else 1):
        if turn > 0:
            store8(look_ahead(load8(motion, D, 0), load8(block.reach, 0), p, most), motion, AHEAD, 0)
        if part == 0:
            pair_motion(P, V, C, motion)
        else:
            end_motion(P, V, C, part - 1, motion)
