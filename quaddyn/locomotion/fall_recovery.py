"""`FallRecovery`: detection of a fall, folding of the legs, and righting onto the belly."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..errors import ArgumentTypeError
from ..robot.home import JointPositions
from ..urdf.tree import Array
from .command import FALLEN, LocomotionCommand
from .fall_detection import SIGN_TEXTS
from .leg_folding import LegFolding
from .modes import LocomotionMode
from .motion import CentroidalState
from .quadruped import Quadruped
from .righting import RightingController, RightingPlan


class FallRecovery:
    """Control of the robot from the first sign of a fall (`update_fall_detection`) until it lies on its belly.

    After a fall the controller folds the legs with joint damping (`LegFolding`), which absorbs the impact.  The fallen
    state is left only on request, by the motions of a `RightingPlan` if one is available (`RightingController`).

    Args:
        quadruped: shared state of the robot.
        leg_folding: controller that folds the legs.
        righting_plan: righting motions; None: a robot on its back stays there.

    Raises:
        ArgumentError: the plan is for other joints.
        ArgumentTypeError: `righting_plan` is not a `RightingPlan`.
    """

    __slots__ = ("_failure", "_joints", "_leg_folding", "_quadruped", "_righting")

    def __init__(self, quadruped: Quadruped, leg_folding: LegFolding, righting_plan: RightingPlan | None) -> None:
        quad, robot, p = quadruped, quadruped.robot, quadruped.morphology
        if righting_plan is not None and not isinstance(righting_plan, RightingPlan):
            raise ArgumentTypeError(
                f"righting_plan: expected a RightingPlan or None, got {type(righting_plan).__name__}"
            )
        self._quadruped, self._leg_folding = quad, leg_folding
        self._joints, self._failure = JointPositions.actuated(robot), ""
        self._righting = (
            None if righting_plan is None else RightingController(robot, p, righting_plan, quad.torque_limiter, quad.dt)
        )

    @property
    def reason(self) -> str:
        """Sign by which the fall was detected, or why the robot could not be righted."""
        return self._failure or SIGN_TEXTS[self._quadruped.fall_detector.sign] or FALLEN

    def fold_legs(self, state: State, requested: Array) -> LocomotionCommand:
        """Computes the command of one tick of a fall, or of lying after it.

        Args:
            state: present state of the robot.
            requested: (3,) requested velocity, which has no effect [m/s, rad/s].
        """
        return self._make_command(self._leg_folding.torques(state), requested)

    def begin_righting(self) -> bool:
        """Starts to roll onto the belly; returns False if the robot has not fallen or there is no plan."""
        quad, recovery = self._quadruped, self._righting
        if quad.mode is not LocomotionMode.FALLEN or recovery is None:
            return False
        recovery.begin()
        quad.mode, self._failure = LocomotionMode.RIGHTING, ""
        return True

    def advance_righting(self, state: State, motion: CentroidalState, requested: Array) -> LocomotionCommand:
        """Computes the command of one tick of righting.

        Once the robot is on its belly, the controller restarts; after a failure the mode is "fallen" again.

        Args:
            state: present state of the robot.
            motion: present state of center of mass and trunk.
            requested: (3,) requested velocity, which has no effect [m/s, rad/s].
        """
        quad, recovery = self._quadruped, self._righting
        assert recovery is not None
        quad.estimators.pause()
        tau = recovery.torques(self._joints.of(state.q), state.v[quad.robot.actuated_index], motion.axes)
        command = self._make_command(tau, requested)
        if recovery.failure:
            quad.mode, self._failure = LocomotionMode.FALLEN, recovery.failure
        elif recovery.is_done:
            quad.request_restart()
        return command

    def _make_command(self, tau: Array, requested: Array) -> LocomotionCommand:
        """Returns the command of a robot that is not on its feet.

        Args:
            tau: (nu,) torques of the actuated joints [N m].
            requested: (3,) requested velocity [m/s, rad/s].
        """
        quad = self._quadruped
        cop, zero, reason = quad.path_reference.position.copy(), np.zeros(3), self.reason
        quad.tau = tau
        return LocomotionCommand(tau, quad.mode, (), None, cop, requested, zero, zero, reason, {})
