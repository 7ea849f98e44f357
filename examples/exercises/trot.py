"""Exercise: a trot.

The checker simulates Go2 with whole-body control, which moves the center of mass at a constant velocity, keeps the
trunk level, and follows the functions of this file. In a trot the diagonal legs FL, RR and FR, RL swing in turn.
"""

import numpy as np

PERIOD = 0.4  # of the gait [s]
DUTY = 0.6  # fraction of the period in which a foot is on the ground
HEIGHT = 0.07  # largest height of a swing foot above the ground [m]


def phase(foot: str, t: float) -> float:
    """Returns the phase of a foot at a time [s], from 0 to 1: on the ground below DUTY, above it swinging."""
    raise NotImplementedError("one pair of legs begins at phase 0, the other half a period later")


def touchdown(neutral: np.ndarray, velocity: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Returns the touchdown position (3,) of a foot [m].

    At the reference velocity the foot is below the hip in the middle of its stance. If the robot is faster, the foot
    lands farther out in that direction, by 0.02 to 0.3 m for an error of 1 m/s.

    Args:
        neutral: (3,) position below the hip at the present time [m].
        velocity: (3,) velocity of the center of mass [m/s].
        reference: (3,) reference of the velocity [m/s].
    """
    raise NotImplementedError(
        "half of the distance of a stance ahead, and a feedback of the velocity; see Raibert 1986, chapter 2"
    )


def swing(start: np.ndarray, goal: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the position (3,) of a swing foot [m], at the fraction alpha of the swing.

    It begins at `start` and ends at `goal` at rest, and rises HEIGHT above the straight line between.
    """
    raise NotImplementedError("a smooth blend of start and goal, plus a height that is zero at both ends")
