"""`JumpRequest`: a jump requested in the demo; `JumpMonitor`: comparison of a jump with its plan."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..locomotion import FEET, JumpPlan, LocomotionController, LocomotionMode
from ..urdf.tree import Array

#: Maximum landing error of the feet [leg lengths], and maximum relative error of the rise.
MAX_LANDING_ERROR, MAX_RISE_ERROR = 0.1, 0.15


class JumpRequest(NamedTuple):
    """Requested jump: height [m], or None for the height of the plan; distance forward [m]; turn to the left [rad]."""

    height: float | None
    forward: float
    turn: float

    @staticmethod
    def parse(text: str) -> JumpRequest:
        """Returns the jump of ``HEIGHT[,FORWARD[,DEGREES]]``, such as ``0.15`` or ``0,0.3,45``.

        Args:
            text: specification; height 0 means that of the plan.

        Raises:
            ArgumentError: another format.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not (1 <= len(numbers) <= 3 and all(map(math.isfinite, numbers)) and numbers[0] >= 0.0):
            raise ArgumentError(
                f"jump: expected HEIGHT[,FORWARD[,DEGREES]], such as 0.15 or 0,0.3,45 (height 0: that of the plan), "
                f"got {text!r}"
            )
        height, forward, degrees = (*numbers, 0.0, 0.0)[:3]
        return JumpRequest(height or None, forward, math.radians(degrees))

    def plan(self, controller: LocomotionController) -> JumpPlan:
        """Returns the jump plan of a controller."""
        return controller.plan_jump(height=self.height, distance=(self.forward, 0.0), turn=self.turn)


class JumpMonitor:
    """Measurement of a jump from its command on.

    Args:
        request: requested jump.
        controller: controller that jumps.

    Raises:
        ArgumentError: the jump is infeasible in the present state.
    """

    def __init__(self, request: JumpRequest, controller: LocomotionController) -> None:
        ground, course = controller.ground, controller.path_reference
        self.plan = controller.jump(height=request.height, distance=(request.forward, 0.0), turn=request.turn)
        assert ground is not None
        self._p, self._start, self._yaw = controller.morphology, ground.points[:, :2].mean(axis=0), course.yaw
        self._left: float | None = None
        self._top = -math.inf

    def update(self, state: State, mode: LocomotionMode, touching: bool) -> None:
        """Records one tick: state, mode, and whether any foot is in contact."""
        if mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE):
            height = float(state.com[2])
            if self._left is None or (touching and mode is LocomotionMode.JUMPING):
                self._left = self._top = height
            self._top = max(self._top, height)

    def landing_error(self, feet: Array) -> tuple[float, float]:
        """Returns the landing error of the center of the feet (4, 2) [leg lengths] and the relative rise error."""
        c, s = math.cos(self._yaw), math.sin(self._yaw)
        goal = self._start + np.array([[c, -s], [s, c]]) @ self.plan.distance
        rise = 0.0 if self._left is None else self._top - self._left
        away = float(np.linalg.norm(feet[: len(FEET)].mean(axis=0) - goal))
        return away / self._p.length, abs(rise / self.plan.height - 1.0)
