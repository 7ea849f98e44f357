"""Torques at the joints: PD control and contact-consistent gravity compensation."""

from .gravity import Compensation, gravity_compensation
from .joint_pd import JointPD, JointTorque

__all__ = ["Compensation", "JointPD", "JointTorque", "gravity_compensation"]
