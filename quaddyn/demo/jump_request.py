"""`JumpRequest`: a jump that the demo is asked for; `JumpMonitor`: one that is under way, measured against its plan."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..locomotion import FEET, JumpPlan, LocomotionController, LocomotionMode
from ..urdf.tree import Array

#: Largest distance of the feet from where they were to land [l], and miss of the rise, as a share.
LANDING, RISE = 0.1, 0.15


class JumpRequest(NamedTuple):
    """How high [m], or None to leave it to the plan, how far forward [m], and how far round to the left [rad]."""

    height: float | None
    forward: float
    turn: float

    @staticmethod
    def parse(text: str) -> JumpRequest:
        """Of ``HEIGHT[,FORWARD[,DEGREES]]``, such as ``0.15`` or ``0,0.3,45``; a height of 0 is left to the plan.

        Raises:
            ArgumentError: anything else.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not (1 <= len(numbers) <= 3 and all(map(math.isfinite, numbers)) and numbers[0] >= 0.0):
            raise ArgumentError(
                f"jump: expected HEIGHT[,FORWARD[,DEGREES]], such as 0.15 or 0,0.3,45 (a height of 0: what it takes), "
                f"got {text!r}"
            )
        height, forward, degrees = (*numbers, 0.0, 0.0)[:3]
        return JumpRequest(height or None, forward, math.radians(degrees))

    def plan(self, controller: LocomotionController) -> JumpPlan:
        """What a controller makes of it."""
        return controller.plan_jump(height=self.height, distance=(self.forward, 0.0), turn=self.turn)


class JumpMonitor:
    """A jump from its command on.

    Args:
        leap: the jump.
        controller: of a robot that stands, which is told to jump.

    Attributes:
        plan: of the jump.

    Raises:
        ArgumentError: the robot cannot do it from there.
    """

    def __init__(self, leap: JumpRequest, controller: LocomotionController) -> None:
        ground, course = controller.ground, controller.path_reference
        self.plan = controller.jump(height=leap.height, distance=(leap.forward, 0.0), turn=leap.turn)
        assert ground is not None
        self._p, self._start, self._yaw = controller.morphology, ground.points[:, :2].mean(axis=0), course.yaw
        self._left: float | None = None
        self._top = -math.inf

    def see(self, state: State, mode: LocomotionMode, touching: bool) -> None:
        """One tick: the state, what the robot does, and whether any foot touches the ground."""
        if mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE):
            height = float(state.com[2])
            if self._left is None or (touching and mode is LocomotionMode.JUMPING):
                self._left = self._top = height
            self._top = max(self._top, height)

    def landing_error(self, feet: Array) -> tuple[float, float]:
        """Distance of the middle of the feet (4, 2) from where they were to land [l], and miss of the rise [1]."""
        c, s = math.cos(self._yaw), math.sin(self._yaw)
        goal = self._start + np.array([[c, -s], [s, c]]) @ self.plan.distance
        rise = 0.0 if self._left is None else self._top - self._left
        away = float(np.linalg.norm(feet[: len(FEET)].mean(axis=0) - goal))
        return away / self._p.length, abs(rise / self.plan.height - 1.0)
