"""Locomotion of quadrupeds: gaits, swing curves, footholds, motion of the trunk, and their controller."""

from .command import LIMIT, LocomotionCommand
from .controller import LocomotionController
from .course import commanded_velocity
from .foothold import Foothold, Spot
from .gait import GAITS, Clock, Gait
from .ground import heading_axes
from .jump_plan import JumpPlan
from .modes import Mode
from .proportions import FEET, Proportions
from .righting import Righting, Roll
from .swing import Swing

__all__ = [
    "FEET",
    "GAITS",
    "LIMIT",
    "Clock",
    "Foothold",
    "Gait",
    "JumpPlan",
    "LocomotionCommand",
    "LocomotionController",
    "Mode",
    "Proportions",
    "Righting",
    "Roll",
    "Spot",
    "Swing",
    "commanded_velocity",
    "heading_axes",
]
