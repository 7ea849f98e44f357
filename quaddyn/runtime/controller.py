"""`Controller`: what a loop calls, from readings to motor commands."""

from __future__ import annotations

from abc import abstractmethod

from ..deprecation import renamed_overrides
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .motor_command import MotorCommand
from .stages import Stage


@renamed_overrides(settled="is_settled", failure="failure_reason", estimate="estimated_state")
class Controller(StrictAttributes):
    """Readings in, motor commands out, once per period; the same object in simulation and on the robot.

    A controller depends on nothing but what it is given: the same readings after `reset` give the same commands, bit
    for bit, which is what `replay` of a log relies on.

    Attributes:
        robot: that is controlled.
        dt: period at which it is called [s].
    """

    robot: Robot
    dt: float

    @property
    def status(self) -> str:
        """What became of the last `compute`, in a word or two for the log; "" where there is nothing to say."""
        return ""

    @property
    def estimated_state(self) -> tuple[Array, Array] | None:
        """The state (q, v) that the last `compute` believed in, for the log; None of one that estimates none."""
        return None

    @property
    def is_settled(self) -> bool:
        """Whether it has done what the present stage is for: it stands, or it lies."""
        return True

    @property
    def failure_reason(self) -> str:
        """Why it has given up, in words, such as that the robot has fallen: the loop damps; "" while it has not."""
        return ""

    def warmup(self) -> None:
        """Compile and allocate what is needed, before the first command is written."""

    def reset(self, measurement: Measurement) -> None:
        """Begin anew from a reading; called when a robot that was damped is to stand up."""

    @abstractmethod
    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """One tick.

        Args:
            measurement: the newest reading.
            stage: STAND_UP, RUN or LIE_DOWN.
            velocity: wanted by the operator: forward, leftward [m/s] and yaw rate [rad/s].
        """

    @property
    def configuration(self) -> dict[str, object]:
        """What a log says of it, and from which `walker_of` makes it again; JSON's types alone."""
        return {"kind": type(self).__name__}
