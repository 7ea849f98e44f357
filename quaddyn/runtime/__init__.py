"""Execution of controllers on robots: interfaces to simulated and real robots, control loop, safety layer, logs."""

from ..deprecation import renamed_names
from .clock import Clock, ManualClock, SystemClock
from .controller import Controller
from .exports import (
    export_estimator,
    export_interface,
    export_program,
    export_ros2,
    export_safety,
    export_walker,
)
from .faults import Fault
from .gamepad import GamepadOperator
from .hanging_robot import HangingRobot
from .interface import RobotInterface
from .keyboard import KeyboardOperator
from .loop import ControlLoop, LoopReport, LoopTick, OverrunPolicy, Recorder
from .loop_statistics import Histogram, LateTick, LoopStatistics
from .motor_command import MotorCommand
from .mujoco_interface import MujocoInterface
from .operator import Operator, Request
from .packet_channel import LinkQuality
from .packets import PacketError, Packets
from .preflight import preflight
from .preflight_report import OperatorPrompt, PreflightCheck, PreflightReport
from .realtime import RealTimeOptions
from .recording import Recording
from .robot_process import RobotProcess
from .ros2 import Ros2Interface
from .run_log import LogReplay, RunLog, load_log, load_recording
from .safety import Safety, SafetyReport
from .safety_limits import SafetyLimits
from .server import RobotServer
from .shared_memory import SharedMemory, SharedMemoryInterface
from .simulated_interface import PlantInterface, SimulatedInterface
from .stages import Stage
from .udp import UdpInterface
from .unitree import UnitreeInterface
from .walking_controller import WalkingController

__all__ = [
    "Clock",
    "ControlLoop",
    "Controller",
    "Fault",
    "GamepadOperator",
    "HangingRobot",
    "Histogram",
    "KeyboardOperator",
    "LateTick",
    "LinkQuality",
    "LogReplay",
    "LoopReport",
    "LoopStatistics",
    "LoopTick",
    "ManualClock",
    "MotorCommand",
    "MujocoInterface",
    "Operator",
    "OperatorPrompt",
    "OverrunPolicy",
    "PacketError",
    "Packets",
    "PlantInterface",
    "PreflightCheck",
    "PreflightReport",
    "RealTimeOptions",
    "Recorder",
    "Recording",
    "Request",
    "RobotInterface",
    "RobotProcess",
    "RobotServer",
    "Ros2Interface",
    "RunLog",
    "Safety",
    "SafetyLimits",
    "SafetyReport",
    "SharedMemory",
    "SharedMemoryInterface",
    "SimulatedInterface",
    "Stage",
    "SystemClock",
    "UdpInterface",
    "UnitreeInterface",
    "WalkingController",
    "export_estimator",
    "export_interface",
    "export_program",
    "export_ros2",
    "export_safety",
    "export_walker",
    "load_log",
    "load_recording",
    "preflight",
]

__getattr__ = renamed_names(
    __name__,
    {
        "Ask": "OperatorPrompt",
        "Check": "PreflightCheck",
        "Loop": "ControlLoop",
        "Overrun": "OverrunPolicy",
        "RealTime": "RealTimeOptions",
        "Replay": "LogReplay",
        "Tick": "LoopTick",
        "Walker": "WalkingController",
    },
)
