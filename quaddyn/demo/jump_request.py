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
    """Requested jump.

    Attributes:
        height: rise of the center of mass [m]; None: chosen by the plan.
        forward: distance forward [m].
        turn: turn to the left [rad].
    """

    height: float | None
    forward: float
    turn: float

    @staticmethod
    def parse(text: str) -> JumpRequest:
        """Returns the jump of ``HEIGHT[,FORWARD[,DEGREES]]``, such as ``0.15`` or ``0,0.3,45``.

        Args:
            text: specification [m, m, degrees]; with height 0 the plan chooses the height.

        Raises:
            ArgumentError: the text has another format.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not (1 <= len(numbers) <= 3 and all(map(math.isfinite, numbers)) and numbers[0] >= 0.0):
            raise ArgumentError(
                "jump: expected HEIGHT[,FORWARD[,DEGREES]], such as 0.15 or 0,0.3,45 (height 0: the plan chooses the "
                f"height), got {text!r}"
            )
        height, forward, degrees = (*numbers, 0.0, 0.0)[:3]
        return JumpRequest(height or None, forward, math.radians(degrees))

    def plan(self, controller: LocomotionController) -> JumpPlan:
        """Returns the jump plan of a controller."""
        return controller.plan_jump(height=self.height, distance=(self.forward, 0.0), turn=self.turn)


class JumpMonitor:
    """Measurement of a jump, from the tick that starts it, for comparison with its plan.

    Args:
        request: requested jump.
        controller: controller that jumps.

    Raises:
        ArgumentError: the jump is infeasible in the present state.
    """

    def __init__(self, request: JumpRequest, controller: LocomotionController) -> None:
        ground, path = controller.ground, controller.path_reference
        self.plan = controller.jump(height=request.height, distance=(request.forward, 0.0), turn=request.turn)
        assert ground is not None
        self._morphology, self._start_position, self._start_yaw = (
            controller.morphology,
            ground.points[:, :2].mean(axis=0),
            path.yaw,
        )
        self._liftoff_height: float | None = None
        self._max_height = -math.inf

    def update(self, state: State, mode: LocomotionMode, in_contact: bool) -> None:
        """Records the height of the center of mass at one tick.

        Args:
            state: measured state.
            mode: mode of the controller.
            in_contact: whether any foot is in contact.
        """
        if mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE):
            height = float(state.com[2])
            if self._liftoff_height is None or (in_contact and mode is LocomotionMode.JUMPING):
                self._liftoff_height = self._max_height = height
            self._max_height = max(self._max_height, height)

    def landing_error(self, feet: Array) -> tuple[float, float]:
        """Returns the landing error of the center of the feet (4, 2) [leg lengths] and the relative rise error."""
        c, s = math.cos(self._start_yaw), math.sin(self._start_yaw)
        goal = self._start_position + np.array([[c, -s], [s, c]]) @ self.plan.distance
        rise = 0.0 if self._liftoff_height is None else self._max_height - self._liftoff_height
        distance = float(np.linalg.norm(feet[: len(FEET)].mean(axis=0) - goal))
        return distance / self._morphology.length, abs(rise / self.plan.height - 1.0)
