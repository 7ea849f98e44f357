"""From controller to robot: one interface to plants, processes and robots, a loop that keeps time, safety, logs."""

from .clock import Clock, ManualClock, SystemClock
from .interface import RobotInterface
from .motor_command import MotorCommand
from .mujoco_interface import MujocoInterface
from .simulated import PlantInterface, SimulatedInterface

__all__ = [
    "Clock",
    "ManualClock",
    "MotorCommand",
    "MujocoInterface",
    "PlantInterface",
    "RobotInterface",
    "SimulatedInterface",
    "SystemClock",
]
