"""From controller to robot: one interface to plants, processes and robots, a loop that keeps time, safety, logs."""

from .clock import Clock, ManualClock, SystemClock
from .controller import Controller
from .faults import Fault
from .interface import RobotInterface
from .loop import Loop, LoopReport, Overrun, Recorder, Tick
from .motor_command import MotorCommand
from .mujoco_interface import MujocoInterface
from .operator import Operator, Request
from .realtime import RealTime
from .safety import Safety, SafetyReport
from .safety_export import export_safety
from .simulated import PlantInterface, SimulatedInterface
from .stages import Stage
from .statistics import Histogram, LoopStatistics
from .walker import Walker

__all__ = [
    "Clock",
    "Controller",
    "Fault",
    "Histogram",
    "Loop",
    "LoopReport",
    "LoopStatistics",
    "ManualClock",
    "MotorCommand",
    "MujocoInterface",
    "Operator",
    "Overrun",
    "PlantInterface",
    "RealTime",
    "Recorder",
    "Request",
    "RobotInterface",
    "Safety",
    "SafetyReport",
    "SimulatedInterface",
    "Stage",
    "SystemClock",
    "Tick",
    "Walker",
    "export_safety",
]
