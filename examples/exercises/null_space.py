"""Exercise: null spaces and strict priorities of velocity tasks.

The reference of a task is ``J v = e`` with a Jacobian J (m, n) and a velocity e (m,). A task of lower priority may only
use velocities that do not change ``J v`` of the higher one. Use `numpy.linalg.pinv` (or a singular value
decomposition); the matrices may be rank deficient.
"""

import numpy as np


def projector(J: np.ndarray) -> np.ndarray:
    """Returns the orthogonal projector N (n, n) to the null space of J: ``J N = 0``, ``N N = N``, ``N = N^T``."""
    raise NotImplementedError("projector to the null space of J")


def prioritized(J1: np.ndarray, e1: np.ndarray, J2: np.ndarray, e2: np.ndarray) -> np.ndarray:
    """Returns the velocity v (n,) of smallest norm that minimizes ``|J1 v - e1|`` first and ``|J2 v - e2|`` second."""
    raise NotImplementedError("solve task 1, then task 2 in the null space of J1")


def self_motion(J: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Returns the velocity (n,) closest to `desired` that does not move the frame with the Jacobian J."""
    raise NotImplementedError("joint motion that leaves the hand at rest")
