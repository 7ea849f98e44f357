"""Locomotion of quadrupeds: gaits, swing trajectories, footholds, center-of-mass preview, and their controller."""

#: All compiled functions are one unit, since most of them call each other.
__compilation_unit__ = "walking"

from ..deprecation import renamed_names
from .command import LIMIT_MESSAGE, LocomotionCommand
from .controller import LocomotionController
from .embedded.walker_batch import LocomotionBatch, LocomotionBatchCommand
from .foothold import Foothold, FootholdCandidate
from .gait import GAITS, Gait, GaitScheduler
from .ground_plane import heading_axes
from .jump_plan import JumpPlan
from .modes import LocomotionMode
from .morphology import FEET, Morphology
from .path_reference import as_velocity_command
from .righting import RightingMotion, RightingPlan
from .swing import SwingTrajectory

__getattr__ = renamed_names(
    __name__,
    {
        "GAIT_LIMIT_MESSAGE": "LIMIT_MESSAGE",
        "LIMIT": "LIMIT_MESSAGE",
        "Clock": "GaitScheduler",
        "Mode": "LocomotionMode",
        "Proportions": "Morphology",
        "Righting": "RightingPlan",
        "Roll": "RightingMotion",
        "Spot": "FootholdCandidate",
        "Swing": "SwingTrajectory",
        "commanded_velocity": "as_velocity_command",
    },
)

__all__ = [
    "FEET",
    "GAITS",
    "LIMIT_MESSAGE",
    "Foothold",
    "FootholdCandidate",
    "Gait",
    "GaitScheduler",
    "JumpPlan",
    "LocomotionBatch",
    "LocomotionBatchCommand",
    "LocomotionCommand",
    "LocomotionController",
    "LocomotionMode",
    "Morphology",
    "RightingMotion",
    "RightingPlan",
    "SwingTrajectory",
    "as_velocity_command",
    "heading_axes",
]
