"""From controller to robot: one interface to plants, processes and robots, a loop that keeps time, safety, logs."""

from .clock import Clock, ManualClock, SystemClock
from .controller import Controller
from .estimator_export import export_estimator
from .faults import Fault
from .gamepad import GamepadOperator
from .hanging import HangingRobot
from .interface import RobotInterface
from .interface_export import export_interface
from .keyboard import KeyboardOperator
from .link import LinkQuality
from .loop import Loop, LoopReport, Overrun, Recorder, Tick
from .motor_command import MotorCommand
from .mujoco_interface import MujocoInterface
from .operator import Operator, Request
from .packets import PacketError, Packets
from .preflight import preflight
from .preflight_report import Ask, Check, PreflightReport
from .program_export import export_program
from .realtime import RealTime
from .recording import Recording
from .robot_process import RobotProcess
from .ros2 import Ros2Interface
from .run_log import Replay, RunLog, load_recording
from .safety import Safety, SafetyReport
from .safety_export import export_safety
from .safety_limits import SafetyLimits
from .server import RobotServer
from .shared_memory import SharedMemory, SharedMemoryInterface
from .simulated import PlantInterface, SimulatedInterface
from .stages import Stage
from .statistics import Histogram, LoopStatistics
from .udp import UdpInterface
from .unitree import UnitreeInterface
from .walker import Walker

__all__ = [
    "Ask",
    "Check",
    "Clock",
    "Controller",
    "Fault",
    "GamepadOperator",
    "HangingRobot",
    "Histogram",
    "KeyboardOperator",
    "LinkQuality",
    "Loop",
    "LoopReport",
    "LoopStatistics",
    "ManualClock",
    "MotorCommand",
    "MujocoInterface",
    "Operator",
    "Overrun",
    "PacketError",
    "Packets",
    "PlantInterface",
    "PreflightReport",
    "RealTime",
    "Recorder",
    "Recording",
    "Replay",
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
    "Tick",
    "UdpInterface",
    "UnitreeInterface",
    "Walker",
    "export_estimator",
    "export_interface",
    "export_program",
    "export_safety",
    "load_recording",
    "preflight",
]
