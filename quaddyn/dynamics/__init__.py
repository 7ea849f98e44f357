"""Every rigid-body quantity of a robot by its field name: `Dynamics` computes, `State` holds one tick."""

from typing import TYPE_CHECKING

from ..deprecation import renamed_names
from ..extras import lazy_names
from .arguments import UNIT_NORM_TOLERANCE
from .dynamics import Dynamics
from .state import AbaDerivatives, Energy, ReferenceFrame, RneaDerivatives, State

if TYPE_CHECKING:
    from .compiled import compile

__getattr__ = lazy_names(
    __name__,
    {"compile": "compiled"},  # imports kernels and compiler
    renamed_names(__name__, {"Reference": "ReferenceFrame", "UNIT_TOLERANCE": "UNIT_NORM_TOLERANCE"}),
)

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
