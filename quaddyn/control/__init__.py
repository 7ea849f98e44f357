"""Joint torques: joint PD, compensation of gravity and friction, impedance, force control and virtual models."""

from ..deprecation import renamed_names
from .force_control import ForceControl, ForceRegulator
from .friction import friction_compensation
from .gravity import gravity_compensation
from .hybrid_control import HybridControl
from .impedance import CartesianImpedance
from .joint_pd import JointPD, JointTorque
from .load_distribution import LoadDistribution, distribute_load
from .null_space_posture import NullSpacePosture
from .task_torque import TaskTorque
from .virtual_model import VirtualModel

__all__ = [
    "CartesianImpedance",
    "ForceControl",
    "ForceRegulator",
    "HybridControl",
    "JointPD",
    "JointTorque",
    "LoadDistribution",
    "NullSpacePosture",
    "TaskTorque",
    "VirtualModel",
    "distribute_load",
    "friction_compensation",
    "gravity_compensation",
]

__getattr__ = renamed_names(__name__, {"Compensation": "LoadDistribution", "distribute": "distribute_load"})
