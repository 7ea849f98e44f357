"""`RobotInterface`: the robot as a control loop sees it, whatever is behind it."""

from __future__ import annotations

from abc import abstractmethod

from ..deprecation import renamed_overrides
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from .motor_command import MotorCommand


@renamed_overrides(stopped="stop_reason")
class RobotInterface(StrictAttributes):
    """A robot's sensors and motors: a plant, MuJoCo, another process, a network, a vendor's messages.

    Both calls return at once.  Where no newer reading has come, `read` gives the last one again, whose time stamp says
    how old it is; whoever controls the robot judges that.

    Attributes:
        robot: whose joints these are; all vectors are in the order of ``robot.actuated``.
    """

    robot: Robot

    @abstractmethod
    def read(self) -> Measurement:
        """The newest reading."""

    @property
    def stop_reason(self) -> str:
        """Why the robot's side has damped the motors by itself, as of the last `read`; "" while it follows commands.

        A robot that has stopped takes no command until one comes that asks for damping alone, or for nothing.
        """
        return ""

    @abstractmethod
    def write(self, command: MotorCommand) -> None:
        """What the motors do from now on, unless the robot's side has `stopped`.

        Raises:
            ArgumentError: a command of another shape, or not finite.
        """

    def close(self) -> None:
        """Let go of what is held; nothing by default."""
