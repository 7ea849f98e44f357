"""`Fall`: how a fall is seen, how legs fold in it, and how the robot gets onto its belly again."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..errors import ArgumentTypeError
from ..robot.joint_positions import JointPositions
from ..urdf.tree import Array
from .command import FALLEN, LocomotionCommand
from .curl import Curl
from .fall_watch import FallWatch
from .modes import Mode
from .motion import Motion
from .quadruped import Quadruped
from .righting import Recovery, Righting


class Fall:
    """From the first sign of a fall (`FallWatch`) to the belly, from which the robot stands up.

    Legs fold by dampers alone (`Curl`), which take the violence out of a fall; nothing but a wish to stand up leaves
    it, by the rolls of a `Righting` where one is known (`Recovery`).

    Args:
        quadruped: that falls.
        righting: how it gets onto its belly; None: who lies on its back stays there.

    Attributes:
        curl: how legs fold.

    Raises:
        ArgumentError: a plan for other joints.
        ArgumentTypeError: what is no plan.
    """

    __slots__ = ("_joints", "_quadruped", "_recovery", "_watch", "_why", "curl")

    def __init__(self, quadruped: Quadruped, righting: Righting | None) -> None:
        quad, robot, p = quadruped, quadruped.robot, quadruped.proportions
        if righting is not None and not isinstance(righting, Righting):
            raise ArgumentTypeError(f"righting: expected a Righting or None, got {type(righting).__name__}")
        self._quadruped, self._watch = quad, FallWatch(p, quad.dt)
        self.curl, self._joints = Curl(robot, p, quad.guard, quad.dt), JointPositions.actuated(robot)
        self._recovery = None if righting is None else Recovery(robot, p, righting, quad.guard, quad.dt)
        self.reset()

    def reset(self) -> None:
        """Forget what was seen."""
        self._why = FALLEN
        self._watch.reset()

    def why(self, state: State, motion: Motion) -> str:
        """The sign by which a fall is recognised, "" while there is none; at every tick.

        Args:
            state: now.
            motion: of the robot.
        """
        quad = self._quadruped
        if quad.mode is Mode.FALLEN:
            return self._why
        assert quad.ground is not None
        trunk = quad.trunk
        sign = self._watch.down(quad.mode, motion, quad.ground, trunk.desired_height)
        if sign:
            return sign
        if not quad.mode.upright:
            self._watch.reset()
            return ""
        desired = trunk.desired_height, trunk.desired_rate
        return self._watch.sees(motion, state.velocity(quad.base)[3:], quad.ground, quad.course, desired)

    def fold(self, state: State, asked: Array, why: str) -> LocomotionCommand:
        """One tick of a fall, or of lying where it ended.

        Args:
            state: now.
            asked: (3,) velocity that is commanded, in vain.
            why: the robot cannot go on.
        """
        quad = self._quadruped
        if quad.mode is not Mode.FALLEN:
            quad.mode = Mode.FALLEN
            quad.trunk.end()
            self.curl.begin()
            self._why = why
        return self._helpless(self.curl.torques(state), asked, self._why)

    def recover(self) -> bool:
        """Begin to get onto the belly; whether the robot has fallen, and knows how."""
        quad, recovery = self._quadruped, self._recovery
        if quad.mode is not Mode.FALLEN or recovery is None:
            return False
        recovery.begin()
        quad.mode = Mode.RIGHTING
        return True

    def right(self, state: State, motion: Motion, asked: Array) -> LocomotionCommand:
        """One tick from back or side to the belly; on it, the next tick is a first one.

        Args:
            state: now.
            motion: of the robot.
            asked: (3,) velocity that is commanded, in vain.
        """
        quad, recovery = self._quadruped, self._recovery
        assert recovery is not None
        quad.senses.pause()
        tau = recovery.torques(self._joints.of(state.q), state.v[quad.robot.actuated_index], motion.axes)
        command = self._helpless(tau, asked, self._why)
        if recovery.failure:
            quad.mode, self._why = Mode.FALLEN, recovery.failure
        elif recovery.done:
            quad.start_over()
        return command

    def _helpless(self, tau: Array, asked: Array, limit: str) -> LocomotionCommand:
        """Of a robot that is not on its feet."""
        quad = self._quadruped
        pressure, still = quad.course.position.copy(), np.zeros(3)
        quad.tau = tau
        return LocomotionCommand(tau, quad.mode, (), None, pressure, asked, still, still, limit, {})
