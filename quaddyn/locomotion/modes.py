"""`LocomotionMode`, and the conditions under which a standing robot has to step."""

from __future__ import annotations

import enum

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from . import mode_decisions
from .mode_decisions import MAX_DCM_FRACTION, ModeCode
from .path_reference import PathReference


@renamed_attributes(upright="is_upright")
class LocomotionMode(enum.Enum):
    """Mode of the locomotion controller.

    The mode is "starting" until it is measured that the ground carries the robot: by feet in contact, by a terrain map
    on which all feet stand, or by the acceleration of the center of mass.  Whole-body control is that of "standing".
    """

    STARTING = "starting"
    LYING = "lying"
    RISING = "rising"
    STANDING = "standing"
    MOVING = "moving"
    RECOVERING = "recovering"
    LOWERING = "lowering"
    CROUCHING = "crouching"
    JUMPING = "jumping"
    AIRBORNE = "airborne"
    LANDING = "landing"
    FALLEN = "fallen"
    RIGHTING = "righting"

    @property
    def is_upright(self) -> bool:
        """Whether the trunk is at its commanded height in this mode."""
        return self in (
            LocomotionMode.STARTING,
            LocomotionMode.STANDING,
            LocomotionMode.MOVING,
            LocomotionMode.RECOVERING,
        )

    @property
    def code(self) -> ModeCode:
        """Code of the mode in compiled functions."""
        return _CODES[self]

    @staticmethod
    def from_code(code: int) -> LocomotionMode:
        """Returns the mode of a code of compiled functions."""
        return _MODES[code]


_CODES = {mode: ModeCode[mode.name] for mode in LocomotionMode}
_MODES = {int(code): mode for mode, code in _CODES.items()}


def is_dcm_near_edge(error: tuple[float, float], feet: Array, fraction: float = MAX_DCM_FRACTION) -> bool:
    """Returns whether the divergent component is so near the support edge that only a step prevents a fall.

    Args:
        error: divergent component minus the center of the feet, world x and y [m].
        feet: (4, 3) or (4, 2) positions of the feet in the order FL, FR, RL, RR, world [m].
        fraction: limit, as a fraction of the distance from the center of the feet to the support edge.
    """
    return bool(mode_decisions.is_dcm_near_edge(float(error[0]), float(error[1]), as_matrix(feet), float(fraction)))


def is_stance_misplaced(feet: Array, path: PathReference, stance: Array, length: float) -> bool:
    """Returns whether a stance foot is far from its nominal position.

    Args:
        feet: (4, 3) or (4, 2) positions of the feet, world [m].
        path: path reference, for its heading.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        length: leg length [m].
    """
    return bool(mode_decisions.is_stance_misplaced(as_matrix(feet), path.state, as_matrix(stance), float(length)))


def as_matrix(x: Array) -> Array:
    """Returns an array as compiled functions take it."""
    return np.ascontiguousarray(x, dtype=float)
