"""Every rigid-body quantity of a robot by its field name: `Dynamics` computes, `State` holds one tick."""

from ..deprecation import renamed_names
from .arguments import UNIT_NORM_TOLERANCE
from .compiled import compile
from .dynamics import Dynamics
from .frames import ReferenceFrame
from .results import AbaDerivatives, Energy, RneaDerivatives
from .state import State

__getattr__ = renamed_names(__name__, {"Reference": "ReferenceFrame", "UNIT_TOLERANCE": "UNIT_NORM_TOLERANCE"})

__all__ = [
    "UNIT_NORM_TOLERANCE",
    "AbaDerivatives",
    "Dynamics",
    "Energy",
    "ReferenceFrame",
    "RneaDerivatives",
    "State",
    "compile",
]
