"""Exercise: friction cones of point contacts on horizontal ground, normal z, and of a block on a slope.

A force f (3,) of the ground on a foot is in the cone of the friction coefficient mu if ``|(f_x, f_y)| <= mu f_z``.
"""

import numpy as np


def is_inside(f: np.ndarray, mu: float) -> bool:
    """Returns whether a force (3,) is in the cone."""
    raise NotImplementedError("Coulomb's law")


def pyramid(mu: float, faces: int) -> np.ndarray:
    """Returns rows A (faces, 3) with ``A f <= 0`` for the forces of the regular pyramid inscribed in the cone.

    The edges of the pyramid are on the cone, and its first face is centered on the x axis.
    """
    raise NotImplementedError("faces touch the cone at their edges, not at their centers")


def project(f: np.ndarray, mu: float) -> np.ndarray:
    """Returns the point of the cone (3,) closest to f."""
    raise NotImplementedError("three cases: inside, in the polar cone, between both")


def friction_on_slope(angle: float) -> float:
    """Returns the smallest friction coefficient with which a block rests on a slope of an angle [rad]."""
    raise NotImplementedError("weight in the axes of the slope")
