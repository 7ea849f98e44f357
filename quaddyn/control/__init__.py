"""Torques at the joints: PD control, contact-consistent gravity compensation and friction compensation."""

from .friction import friction_compensation
from .gravity import Compensation, gravity_compensation
from .joint_pd import JointPD, JointTorque

__all__ = ["Compensation", "JointPD", "JointTorque", "friction_compensation", "gravity_compensation"]
