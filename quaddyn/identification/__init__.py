"""From measured motion to parameters: base parameters, exciting motion, least squares, physically consistent fits."""

from .accumulator import Accumulator
from .actuator_fit import ActuatorFit, fit_actuators
from .base_parameters import BaseParameters, RankCertificate, base_parameters
from .excitation import FourierTrajectory, exciting_trajectory
from .filtering import accelerations, smooth
from .fit import identify, solve
from .grouping import Grouping, group_by_rule
from .identification_result import Identification, Validation
from .sample_files import load, save, stream
from .samples import Extent, Samples, split

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
