"""`Controller`: base class of controllers, which map sensor readings to motor commands in a control loop."""

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
    """Controller that maps readings to motor commands once per period, in simulation and on the robot.

    A controller depends on its inputs alone: the same readings after `reset` give the same commands, bit for bit, as
    the replay of a log requires.

    Attributes:
        robot: the robot.
        dt: period of `compute` [s].
    """

    robot: Robot
    dt: float

    @property
    def status(self) -> str:
        """Result of the last `compute` in one or two words for the log; "" for none."""
        return ""

    @property
    def estimated_state(self) -> tuple[Array, Array] | None:
        """State (q, v) that the last `compute` estimated, for the log; None without an estimate."""
        return None

    @property
    def is_settled(self) -> bool:
        """Whether the controller has completed the present stage: the robot has stood up, or lies on the ground."""
        return True

    @property
    def failure_reason(self) -> str:
        """Reason for which the controller has aborted, such as a fall; the loop then damps. "" while it works."""
        return ""

    @property
    def velocity_limit(self) -> str:
        """How and why the last `compute` limited the requested velocity, for the report of the loop; "" if not."""
        return ""

    def warmup(self) -> None:
        """Compiles and allocates everything before the first command is written."""

    def reset(self, measurement: Measurement) -> None:
        """Resets the controller to a reading; called when a damped robot is to stand up."""

    @abstractmethod
    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """Computes the motor command of one tick.

        Args:
            measurement: the newest reading.
            stage: STAND_UP, RUN or LIE_DOWN.
            velocity: requested forward and leftward velocity [m/s] and yaw rate [rad/s].
        """

    @property
    def configuration(self) -> dict[str, object]:
        """Description for the log, from which `make_walking_controller` makes the controller again; JSON types only."""
        return {"kind": type(self).__name__}
