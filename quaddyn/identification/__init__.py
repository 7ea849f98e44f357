"""Identification of a robot's parameters from measured motion.

`base_parameters` computes which combinations of parameters can be identified, `exciting_trajectory` a motion that
identifies them well, `identify` the parameters from `Samples` of that motion, and `fit_actuators` models of the motors.
"""

from ..deprecation import renamed_names
from .accumulator import Accumulator
from .actuator_fit import ActuatorFit, fit_actuators
from .base_parameters import BaseParameters, Grouping, RankCertificate, base_parameters, group_by_rule
from .excitation import FourierTrajectory, exciting_trajectory
from .fit import fit_accumulated, identify, likely_causes
from .identification_result import Identification, Validation
from .log_samples import accelerations, low_pass, samples_from_columns
from .sample_files import load_samples, save_samples, stream_samples
from .samples import MotionRange, Samples, split_samples

__all__ = [
    "Accumulator",
    "ActuatorFit",
    "BaseParameters",
    "FourierTrajectory",
    "Grouping",
    "Identification",
    "MotionRange",
    "RankCertificate",
    "Samples",
    "Validation",
    "accelerations",
    "base_parameters",
    "exciting_trajectory",
    "fit_accumulated",
    "fit_actuators",
    "group_by_rule",
    "identify",
    "likely_causes",
    "load_samples",
    "low_pass",
    "samples_from_columns",
    "save_samples",
    "split_samples",
    "stream_samples",
]

__getattr__ = renamed_names(
    __name__,
    {
        "Extent": "MotionRange",
        "load": "load_samples",
        "save": "save_samples",
        "smooth": "low_pass",
        "solve": "fit_accumulated",
        "split": "split_samples",
        "stream": "stream_samples",
    },
)
