"""`RobotInterface`: sensors and motors of a robot as a control loop accesses them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ..deprecation import renamed_overrides
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from .motor_command import MotorCommand


@renamed_overrides(stopped="stop_reason")
class RobotInterface(StrictAttributes):
    """Access to the sensors and motors of a robot: plant, MuJoCo, another process, a network, or a vendor's messages.

    Both calls return at once.  If no newer reading has arrived, `read` returns the last one again, with its time stamp;
    the caller evaluates its age.

    Attributes:
        robot: the robot; all vectors are in the order of ``robot.actuated``.  A subclass sets it in its constructor.

    Raises:
        AttributeError: on reading `robot`, if the subclass has not set it.
    """

    robot: Robot

    if not TYPE_CHECKING:  # with a __getattr__, a type checker would accept every name

        def __getattr__(self, name):
            owner = type(self).__name__
            text = f"{owner!r} object has no attribute {name!r}"
            if name == "robot":
                text += f"; assign the Robot in {owner}.__init__, as in self.robot = robot"
            raise AttributeError(text, name=name, obj=self)

    @abstractmethod
    def read(self) -> Measurement:
        """Returns the newest reading."""

    @property
    def stop_reason(self) -> str:
        """Reason for which the robot has damped its motors, as of the last `read`; "" while it follows commands.

        A robot that has stopped accepts no command until one requests only damping, or zero torque.
        """
        return ""

    @property
    def silences(self) -> int:
        """Number of intervals without commands in which the robot has damped its motors; 0 if it does not count them.

        After an interval that is no fault the robot follows commands again, and `stop_reason` remains "".
        """
        return 0

    @abstractmethod
    def write(self, command: MotorCommand) -> None:
        """Sets the command that the motors follow from now on, unless the robot has stopped.

        Raises:
            ArgumentError: a command of a wrong shape, or not finite.
        """

    def close(self) -> None:
        """Releases resources; nothing by default."""
