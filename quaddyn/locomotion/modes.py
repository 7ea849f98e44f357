"""`LocomotionMode`, and the conditions under which a standing robot has to step."""

from __future__ import annotations

import enum

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from .path_reference import PathReference, compute_footholds

#: Offset of a stance foot from its nominal position above which the robot steps [l], and offset of the divergent
#: component above which it steps, as a fraction of the distance from the center of the feet to the support edge.
MAX_FOOT_OFFSET, MAX_DCM_FRACTION = 0.12, 0.5
#: Offset of the center of mass that a standing robot can correct without a step, as a fraction of the distance from
#: the center of the feet to the support edge.
MAX_STANDING_FRACTION = 0.98


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


def is_dcm_near_edge(error: tuple[float, float], feet: Array, fraction: float = MAX_DCM_FRACTION) -> bool:
    """Returns whether the divergent component is so near the support edge that only a step prevents a fall.

    Args:
        error: divergent component minus the center of the feet, world x and y [m].
        feet: (4, 3) or (4, 2) positions of the feet in the order FL, FR, RL, RR, world [m].
        fraction: limit, as a fraction of the distance from the center of the feet to the support edge.
    """
    center = feet[:, :2].mean(axis=0)
    for i, j in ((0, 2), (2, 3), (3, 1), (1, 0)):  # edges counterclockwise: the inside is to the left
        ax, ay = (feet[i, :2] - center).tolist()
        ex, ey = (feet[j, :2] - feet[i, :2]).tolist()
        margin = ey * ax - ex * ay  # distance of the center from the edge times the edge's length
        if ey * error[0] - ex * error[1] > fraction * margin:
            return True
    return False


def is_stance_misplaced(feet: Array, path: PathReference, stance: Array, length: float) -> bool:
    """Returns whether a stance foot is far from its nominal position.

    Args:
        feet: (4, 3) or (4, 2) positions of the feet, world [m].
        path: path reference, for its heading.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        length: leg length [m].
    """
    home = compute_footholds(path, np.zeros(4), stance)
    home += feet[:, :2].mean(axis=0) - home.mean(axis=0)
    return bool(np.abs(feet[:, :2] - home).max() > MAX_FOOT_OFFSET * length)
