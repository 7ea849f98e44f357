"""`LegLimits`: the velocities that a gait can do on a robot's legs."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .footwork import INWARDS
from .gait import Gait
from .leg_room import LegRoom
from .proportions import Proportions

#: Mean speed of a swinging foot against its hip, and that of a hip against feet that push off, at most, in units of l
#: times the slowest joint's velocity limit.
SWIFTNESS = 0.18
#: What cuts a velocity.
GAIT_STANDS, STRAIGHT_LEGS = "gait does not step", "legs cannot step aside"
STRIDE, JOINTS, CROSSING, REACH = "stride of the gait", "speed of the joints", "feet would cross", "reach of"


class LegLimits:
    """How fast a robot can go.

    Feet stay within the stride of the gait and the reach of their legs, joints can follow, and no foot crosses another.

    Args:
        proportions: of the robot.
        room: of its feet.
    """

    __slots__ = ("_answer", "_asked", "_half_width", "_p", "_radius", "_room")

    def __init__(self, proportions: Proportions, room: LegRoom) -> None:
        self._p, self._room = proportions, room
        stance = np.abs(proportions.stance)
        self._radius = float(np.hypot(*stance.max(axis=0)))
        self._half_width = float(stance[:, 1].min())
        self._asked: tuple[Gait, list[float]] | None = None
        self._answer: tuple[list[float], str] = [0.0, 0.0, 0.0], ""

    def lifting(self, gait: Gait) -> str:
        """What keeps legs from pushing off as fast as a gait with flight phases rises, "" for nothing."""
        p = self._p
        rate = p.gravity * gait.period * p.time * float(gait.thrust.rate.max())
        return JOINTS if rate > SWIFTNESS * p.length * p.joint_speed else ""

    def within(self, gait: Gait, velocity: Array) -> tuple[Array, str]:
        """The part of a velocity that a gait can do, cut in all components alike, and what cuts it ("" for nothing).

        Args:
            gait: to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
        """
        asked = gait, velocity.tolist()
        if asked != self._asked:  # commands change seldom beside ticks
            self._answer, self._asked = self._cut(gait, *asked[1]), asked
        inside, limit = self._answer
        return np.array(inside), limit

    def _cut(self, gait: Gait, x: float, y: float, turn: float) -> tuple[list[float], str]:
        p = self._p
        if not gait.moves:
            return [0.0, 0.0, 0.0], GAIT_STANDS if x or y or turn else ""
        limit = ""
        if not p.sideways and gait.spread[1] != 1.0:
            return [0.0, 0.0, 0.0], STRAIGHT_LEGS if x or y or turn else ""
        if not p.sideways and (y or turn):
            y, turn, limit = 0.0, 0.0, STRAIGHT_LEGS
        stance, swing = gait.duty * gait.period * p.time, (1.0 - gait.duty) * gait.period * p.time
        quick = SWIFTNESS * p.joint_speed * swing
        inwards = 2.0 * INWARDS * gait.spread[1] * self._half_width
        speed = math.hypot(x, y) + abs(turn) * self._radius
        cuts = (
            (1.0, limit),
            (gait.stride * p.length / stance / max(speed, 1e-9), STRIDE),
            (quick * p.length / stance / max(speed, 1e-9), JOINTS),
            (inwards / stance / max(abs(y), 1e-9), CROSSING),
        )
        half, (long, wide) = 0.5 * stance, gait.spread
        ways = [(half * (x - turn * wide * b), half * (y + turn * long * a)) for a, b in p.stance.tolist()]
        room, foot = self._room.share(gait.spread, ways)
        cut, limit = min((*cuts, (room, f"{REACH} {foot}")), key=lambda each: each[0])
        return [cut * x, cut * y, cut * turn], limit
