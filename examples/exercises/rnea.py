"""Exercise: inverse dynamics by the recursive Newton-Euler algorithm.

The model is a tree of rigid bodies, parents before children. Body i has these attributes:

- ``parent``: index of the parent, -1 for the world;
- ``T``: (4, 4) placement of its joint at angle zero in the frame of the parent;
- ``axis``: (3,) unit vector of the revolute joint, in the frame of the body;
- ``mass`` [kg], ``com`` (3,) [m] and ``inertia`` (3, 3) about the center of mass [kg m^2], in the frame of the body.

The frame of a body is T times the rotation of the joint angle about the axis. Joint i has the entries q[i], v[i], a[i].
"""

import numpy as np


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Returns the rotation matrix (3, 3) of an angle [rad] about a unit vector."""
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def rnea(bodies: list, gravity: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Returns the joint torques (n,) [N m].

    Args:
        bodies: the bodies of the tree.
        gravity: (3,) gravitational acceleration in the world [m/s^2].
        q: (n,) joint positions [rad].
        v: (n,) joint velocities [rad/s].
        a: (n,) joint accelerations [rad/s^2].
    """
    raise NotImplementedError("forward recursion: velocities and accelerations; backward recursion: forces and torques")
