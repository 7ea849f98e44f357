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
#: Share of that which may be commanded of gaits that rock the trunk: the legs of an end that swing together push the
#: robot back in every cycle, and the course is led ahead of the command to make up for it (`Steering`).
COMMANDED = 0.7
#: Least way that a foot has time for in its swing [l], in gaits that rock the trunk: a leg that comes late has nobody
#: beside it.  Up and down alone are 0.3.
NIMBLE = 0.36
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

    def speed(self, x: float, y: float, turn: float) -> float:
        """Of the fastest hip, at most [m/s]: forward and leftward speed [m/s] and yaw rate [rad/s] together."""
        return math.hypot(x, y) + abs(turn) * self._radius

    def swinging(self, gait: Gait) -> str:
        """What keeps legs from a gait, at whatever speed, "" for nothing.

        They push off as fast as the trunk of a gait with flight phases rises, and where front or rear feet are all in
        the air while others carry, they come in time.
        """
        p = self._p
        rate = p.gravity * gait.period * p.time * float(gait.thrust.rate.max())
        late = gait.rocks and self.quick(gait) < NIMBLE
        return JOINTS if late or rate > SWIFTNESS * p.length * p.joint_speed else ""

    def quick(self, gait: Gait) -> float:
        """Way that joints have time for during a swing [l]."""
        return SWIFTNESS * self._p.joint_speed * (1.0 - gait.duty) * gait.period * self._p.time

    def within(self, gait: Gait, velocity: Array, *, led: bool = False) -> tuple[Array, str]:
        """The part of a velocity that a gait can do, cut in all components alike, and what cuts it ("" for nothing).

        Args:
            gait: to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            led: whether it is that of a course that is led ahead of the command.
        """
        asked = gait, velocity.tolist()
        if led:
            return np.array(self._cut(*asked)[0]), ""
        if asked != self._asked:  # commands change seldom beside ticks
            self._answer, self._asked = self._cut(*asked, COMMANDED if gait.rocks else 1.0), asked
        inside, limit = self._answer
        return np.array(inside), limit

    def _cut(self, gait: Gait, velocity: list[float], share: float = 1.0) -> tuple[list[float], str]:
        p, (x, y, turn) = self._p, velocity
        if not gait.moves:
            return [0.0, 0.0, 0.0], GAIT_STANDS if x or y or turn else ""
        limit = ""
        if not p.sideways and gait.spread[1] != 1.0:
            return [0.0, 0.0, 0.0], STRAIGHT_LEGS if x or y or turn else ""
        if not p.sideways and (y or turn):
            y, turn, limit = 0.0, 0.0, STRAIGHT_LEGS
        stance, quick = gait.duty * gait.period * p.time, self.quick(gait)
        inwards = 2.0 * INWARDS * gait.spread[1] * self._half_width
        speed = self.speed(x, y, turn)
        cuts = (
            (1.0, limit),
            (share * gait.stride * p.length / stance / max(speed, 1e-9), STRIDE),
            (share * quick * p.length / stance / max(speed, 1e-9), JOINTS),
            (share * inwards / stance / max(abs(y), 1e-9), CROSSING),
        )
        half, (long, wide) = 0.5 * stance, gait.spread
        ways = [(half * (x - turn * wide * b), half * (y + turn * long * a)) for a, b in p.stance.tolist()]
        room, foot = self._room.share(gait.spread, ways)
        cut, limit = min((*cuts, (share * room, f"{REACH} {foot}")), key=lambda each: each[0])
        return [cut * x, cut * y, cut * turn], limit
