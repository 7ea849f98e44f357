"""Solution: friction cones."""

import numpy as np


def is_inside(f: np.ndarray, mu: float) -> bool:
    """Returns whether a force is in the cone."""
    return bool(np.hypot(f[0], f[1]) <= mu * f[2])


def pyramid(mu: float, faces: int) -> np.ndarray:
    """Returns the rows of the inscribed pyramid."""
    angle = 2.0 * np.pi * np.arange(faces) / faces
    reach = mu * np.cos(np.pi / faces)  # from the axis to the center of a face, at f_z = 1
    return np.column_stack([np.cos(angle), np.sin(angle), np.full(faces, -reach)])


def project(f: np.ndarray, mu: float) -> np.ndarray:
    """Returns the closest point of the cone."""
    tangential = np.hypot(f[0], f[1])
    if tangential <= mu * f[2]:
        return np.array(f)
    if mu * tangential <= -f[2]:
        return np.zeros(3)  # in the polar cone
    normal = (f[2] + mu * tangential) / (1.0 + mu**2)
    return np.array([*(mu * normal / tangential * f[:2]), normal])


def friction_on_slope(angle: float) -> float:
    """Returns the smallest friction coefficient on a slope."""
    return float(np.tan(angle))
