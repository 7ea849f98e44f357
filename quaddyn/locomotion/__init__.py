"""How a quadruped gets about: gaits, swing curves, footholds, the motion of the trunk, and who commands them."""

from .controller import LocomotionCommand, LocomotionController
from .gait import GAITS, Clock, Gait
from .modes import Mode
from .proportions import FEET, Proportions
from .swing import Swing

__all__ = [
    "FEET",
    "GAITS",
    "Clock",
    "Gait",
    "LocomotionCommand",
    "LocomotionController",
    "Mode",
    "Proportions",
    "Swing",
]
