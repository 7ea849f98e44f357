"""What the robot is doing, and the signs by which it decides to do something else."""

from __future__ import annotations

import enum

import numpy as np

from ..urdf.tree import Array
from .course import Course, footholds

#: A standing foot is out of place from here on [l], and the divergent component out of hand beyond this share of the
#: way from the middle of the feet to their edge.
MISPLACED, ESCAPING = 0.12, 0.5
#: From how far the centre of mass of who stands can be brought back without a step, as a share of the way to the edge.
TOPPLING = 0.98


class Mode(enum.Enum):
    """What the robot is doing.

    A robot is "starting" until it is measured that the ground carries it: by feet that are in contact, by a terrain map
    on which all feet stand, or by the acceleration of the centre of mass.  Whole-body control is that of "standing".
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
    def upright(self) -> bool:
        """Whether the trunk is at its height."""
        return self in (Mode.STARTING, Mode.STANDING, Mode.MOVING, Mode.RECOVERING)


def escaping(error: tuple[float, float], feet: Array, share: float = ESCAPING) -> bool:
    """Whether the divergent component nears the edge of the feet, beyond which only a step prevents a fall.

    Args:
        error: of the divergent component from the middle of the feet [m].
        feet: (4, 3) or (4, 2) in the order FL, FR, RL, RR [m].
        share: of the way from the middle of the feet to their edge, beyond which it does.
    """
    centre = feet[:, :2].mean(axis=0)
    for i, j in ((0, 2), (2, 3), (3, 1), (1, 0)):  # once round, left side first: inside is to the left
        ax, ay = (feet[i, :2] - centre).tolist()
        ex, ey = (feet[j, :2] - feet[i, :2]).tolist()
        room = ey * ax - ex * ay  # of the centre from the edge, times the edge's length
        if ey * error[0] - ex * error[1] > share * room:
            return True
    return False


def misplaced(feet: Array, course: Course, stance: Array, length: float) -> bool:
    """Whether a standing foot is far from where it stands at home.

    Args:
        feet: (4, 3) or (4, 2) [m].
        course: of the robot, for its heading.
        stance: (4, 2) of the feet at home about the course, heading axes [m].
        length: of the legs [m].
    """
    home = footholds(course, np.zeros(4), stance)
    home += feet[:, :2].mean(axis=0) - home.mean(axis=0)
    return bool(np.abs(feet[:, :2] - home).max() > MISPLACED * length)
