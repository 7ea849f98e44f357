"""`SlopeVerdict`: what of a command the slope under the robot allows."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from ..urdf.tree import Array
from .gait import Gait
from .grip import FACE, Grip
from .slope_statics import FRICTION, SlopeStatics

#: Ground that rises by less is not looked into.
LEAST = 0.1
#: A verdict holds until the slope, seen from the robot, has changed by so much, or the command by so much [sqrt(g l)].
TURN, CHANGE = 0.03, 0.03
#: The shares of a command that are tried one after the other; none is left of who can do no such share.
SHARES = 1.0, 0.75, 0.5, 0.25
#: Who was stopped by friction that slips have shown goes on where so many times as much is counted on.
AGAIN = 1.5


class SlopeVerdict:
    """Cuts a command to what friction and torques allow on the slope that the robot is on.

    *Friction*: with the lesser of what is told and what slips have shown, the weight must be in the pyramid about the
    ground's normal; friction that is only assumed forbids nothing, for ground on which a robot stands has shown that it
    has more.  *Legs*: `SlopeStatics` at the ends of the strides, for the whole command and then for smaller shares of
    it.  That takes milliseconds, so it is worked out in the background, one leg a tick; until then, what was found
    before holds.

    Args:
        statics: of the robot; None for legs that have none, or no quick ones.
        unit: of speed, ``sqrt(g l)`` [m/s].
    """

    __slots__ = ("_at", "_found", "_parts", "_slides", "_statics", "_unit")

    def __init__(self, statics: SlopeStatics | None, unit: float) -> None:
        self._statics, self._unit = statics, unit
        self.reset()

    def reset(self) -> None:
        """Forget the slope."""
        self._at: tuple[Gait, Array, Array] | None = None
        self._found = 1.0, ""
        self._parts: Generator[None, None, tuple[float, str]] | None = None
        self._slides = False

    def within(self, gait: Gait, velocity: Array, grip: Grip, yaw: float, limits: Array) -> tuple[Array, str]:
        """The part of a velocity that the slope allows, cut in all components alike, and what cuts it ("": nothing).

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            grip: normal and friction of the ground.
            yaw: of the heading frame [rad].
            limits: (nu,) of the motors [N m].
        """
        x, y, z = grip.normal.tolist()
        steep = math.hypot(x, y) / z
        if steep < LEAST:
            if self._at is not None or self._slides:
                self.reset()
            return velocity, ""
        if not velocity.any():
            return velocity, ""
        need = steep / FACE
        self._slides = grip.known < need or grip.shown < need * (AGAIN if self._slides else 1.0)
        if self._slides:
            return np.zeros(3), FRICTION
        c, s = math.cos(yaw), math.sin(yaw)
        self._judge(gait, velocity, np.array([-(c * x + s * y) / z, (s * x - c * y) / z]), limits)
        share, why = self._found
        return share * velocity, why

    def _judge(self, gait: Gait, velocity: Array, uphill: Array, limits: Array) -> None:
        """One part of the judgement, if there is anything to judge."""
        if self._statics is None:
            return
        if self._parts is None and self._new(gait, velocity, uphill):
            self._at = gait, velocity, uphill
            self._parts = self._allowed(self._statics, gait, velocity, uphill, limits)
        if self._parts is not None:
            try:
                next(self._parts)
            except StopIteration as end:
                self._found, self._parts = end.value, None

    def _new(self, gait: Gait, velocity: Array, uphill: Array) -> bool:
        if self._at is None:
            return True
        before, speed, slope = self._at
        moved, turned = np.abs(velocity - speed).max(), np.abs(uphill - slope).max()
        return gait != before or bool(turned > TURN or moved > CHANGE * self._unit)

    @staticmethod
    def _allowed(
        statics: SlopeStatics, gait: Gait, velocity: Array, uphill: Array, limits: Array
    ) -> Generator[None, None, tuple[float, str]]:
        """The largest share of a command that legs can do, and what keeps them from all of it."""
        first = yield from statics.legs(gait, np.zeros(3), uphill, limits)
        if first:
            return 0.0, first
        for share in SHARES:
            why = yield from statics.legs(gait, share * velocity, uphill, limits)
            if not why:
                return share, first
            first = first or why
        return 0.0, first
