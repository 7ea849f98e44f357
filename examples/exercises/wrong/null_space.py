"""Wrong on purpose: the second task is added without regard to the motion of the first."""

import numpy as np


def projector(J: np.ndarray) -> np.ndarray:
    """Returns the orthogonal projector to the null space of J."""
    return np.eye(J.shape[1]) - np.linalg.pinv(J, rcond=1e-9) @ J


def prioritized(J1: np.ndarray, e1: np.ndarray, J2: np.ndarray, e2: np.ndarray) -> np.ndarray:
    """Returns the velocity of two tasks in strict priority."""
    v1, N1 = np.linalg.pinv(J1, rcond=1e-9) @ e1, projector(J1)
    return v1 + N1 @ np.linalg.pinv(J2, rcond=1e-9) @ e2


def self_motion(J: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Returns the velocity closest to `desired` that does not move the frame."""
    return projector(J) @ desired
