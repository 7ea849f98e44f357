"""`Headway`: whether a robot that is told to go gets anywhere, or is stuck."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .motion import Motion
from .proportions import Proportions

#: What it says.
STUCK = "stuck: no headway with this velocity"
#: Over how long headway is averaged [sqrt(l/g)], and how much of the commanded speed is too little.
WHILE, LITTLE = 20.0, 0.1
#: Share of the commanded speed that the average of what was commanded must have come to before it is judged.
LONG_ENOUGH = 1.0 - math.exp(-1.0)
#: Speed from which on it is judged [sqrt(g l)]: what is slower is lost in the sway of the trunk.
SLOW = 0.01
#: By what share of its size a command must change to count as another one.
OTHER = 0.5


class Headway:
    """Compares the velocity that a robot has with the one that it is told to have, over the last steps.

    Both are averaged with a time constant of `WHILE`, turning at the rate of a foot at the end of a leg counted as
    speed: ``|(v_x, v_y, l omega)|``, and of what the robot has only the part along the command.  Who got less than
    `LITTLE` of it is stuck: held by what its trunk lies on, by a wall, or by ground on which its feet only slip.
    The command in which it got stuck is then refused, and the robot stands instead of treading on, until the command is
    another one, in direction or in size.

    Args:
        proportions: of the robot.
        dt: [s].

    Attributes:
        stuck: whether the command is refused.
    """

    __slots__ = ("_command", "_had", "_p", "_share", "_wanted", "stuck")

    def __init__(self, proportions: Proportions, dt: float) -> None:
        self._p, self._share = proportions, dt / (WHILE * proportions.time)
        self.reset()

    def reset(self) -> None:
        """Forget what was seen: every command may be tried again."""
        self._begin((0.0, 0.0, 0.0))

    def _begin(self, command: tuple[float, float, float]) -> None:
        """Look at another command from now on."""
        self._wanted = self._had = 0.0
        self._command, self.stuck = command, False

    def within(self, wanted: Array, limit: str, motion: Motion, turn: float) -> tuple[Array, str]:
        """One tick of a robot on its feet: what of a command is to be followed, and why not all of it.

        Args:
            wanted: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            limit: what has cut it so far, "" where nothing did.
            motion: of the robot.
            turn: its yaw rate [rad/s].
        """
        p, (x, y, spin) = self._p, wanted.tolist()
        command = x, y, p.length * spin
        speed = math.hypot(*command)
        if math.dist(command, self._command) > OTHER * math.hypot(*self._command):
            self._begin(command)
        if self.stuck:
            return np.zeros(3), STUCK
        if speed < SLOW * p.speed:
            return wanted, limit
        c, s, (u, v, _) = math.cos(motion.yaw), math.sin(motion.yaw), motion.velocity
        has = c * u + s * v, c * v - s * u, p.length * turn
        along = sum(a * b for a, b in zip(has, command, strict=True)) / speed
        self._wanted += (speed - self._wanted) * self._share
        self._had += (along - self._had) * self._share
        self.stuck = self._wanted >= LONG_ENOUGH * speed and self._had < LITTLE * self._wanted
        return (np.zeros(3), STUCK) if self.stuck else (wanted, limit)
