"""Constraints of whole-body control: classes, parameters, and the functions that write the rows."""

from .collision_limits import CollisionLimits
from .constraint import Constraint
from .contact_constraints import ContactMotion, FrictionPyramid, NormalForce
from .held_object import HeldObject
from .joint_bounds import JointBounds
from .joint_friction import JointFriction
from .linear import LinearConstraint
from .robust_limits import RobustLimits
from .torque_limits import MotorLimits, TorqueLimits, TorqueRate

__all__ = [
    "CollisionLimits",
    "Constraint",
    "ContactMotion",
    "FrictionPyramid",
    "HeldObject",
    "JointBounds",
    "JointFriction",
    "LinearConstraint",
    "MotorLimits",
    "NormalForce",
    "RobustLimits",
    "TorqueLimits",
    "TorqueRate",
]
