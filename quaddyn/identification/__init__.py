"""From measured motion to parameters: base parameters, exciting motion, least squares, physically consistent fits."""

from .actuators import ActuatorFit, fit_actuators
from .base import BaseParameters, RankCertificate, base_parameters
from .data import load, save, stream
from .excitation import FourierTrajectory, exciting_trajectory
from .filtering import accelerations, smooth
from .fit import identify, solve
from .grouping import Grouping, group_by_rule
from .identified import Identification, Validation
from .samples import Extent, Samples, split
from .streaming import Accumulator

__all__ = [
    "Accumulator",
    "ActuatorFit",
    "BaseParameters",
    "Extent",
    "FourierTrajectory",
    "Grouping",
    "Identification",
    "RankCertificate",
    "Samples",
    "Validation",
    "accelerations",
    "base_parameters",
    "exciting_trajectory",
    "fit_actuators",
    "group_by_rule",
    "identify",
    "load",
    "save",
    "smooth",
    "solve",
    "split",
    "stream",
]
