"""Every rigid-body quantity of a robot by its field name: `Dynamics` computes, `State` holds one tick."""

from .arguments import UNIT_TOLERANCE
from .compiled import compile
from .dynamics import Dynamics
from .frames import Reference
from .results import AbaDerivatives, Energy, RneaDerivatives
from .state import State

__all__ = ["UNIT_TOLERANCE", "AbaDerivatives", "Dynamics", "Energy", "Reference", "RneaDerivatives", "State", "compile"]
