"""Torques at the joints: joint PD, compensation of gravity and friction, impedance, force and trunk control."""

from .distribution import Compensation, distribute
from .force import ForceControl, ForceRegulator
from .friction import friction_compensation
from .gravity import gravity_compensation
from .hybrid import HybridControl
from .impedance import CartesianImpedance
from .joint_pd import JointPD, JointTorque
from .posture import NullSpacePosture
from .torque import TaskTorque
from .virtual_model import VirtualModel

__all__ = [
    "CartesianImpedance",
    "Compensation",
    "ForceControl",
    "ForceRegulator",
    "HybridControl",
    "JointPD",
    "JointTorque",
    "NullSpacePosture",
    "TaskTorque",
    "VirtualModel",
    "distribute",
    "friction_compensation",
    "gravity_compensation",
]
