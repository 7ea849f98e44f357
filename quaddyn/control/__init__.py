"""Joint torques: joint PD, compensation of gravity and friction, impedance, force control and virtual models."""

from ..deprecation import renamed_modules, renamed_names
from .cartesian_control import CartesianController, CartesianImpedance, TaskTorque, VirtualModel
from .force_control import ForceControl, ForceRegulator, HybridControl
from .joint_pd import JointPD, JointTorque, friction_compensation
from .load_distribution import LoadDistribution, distribute_load, gravity_compensation
from .operational_space import NullSpacePosture

__all__ = [
    "CartesianController",
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

renamed_modules(
    __name__,
    {
        "friction": "joint_pd",
        "gravity": "load_distribution",
        "hybrid_control": "force_control",
        "impedance": "cartesian_control",
        "null_space_posture": "operational_space",
        "task_torque": "cartesian_control",
        "virtual_model": "cartesian_control",
    },
)
__getattr__ = renamed_names(__name__, {"Compensation": "LoadDistribution", "distribute": "distribute_load"})
