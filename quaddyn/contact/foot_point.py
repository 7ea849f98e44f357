"""The contact point of a foot on level ground: the lowest point of its sphere."""

from __future__ import annotations

import numpy as np

from ..dynamics import State
from ..errors import UnknownNameError
from ..urdf.tree import Array


def contact_jacobian(s: State, foot: str) -> Array:
    """Returns the Jacobian (3, nv) of the lowest point of a foot's sphere, world axes.

    The point c + (0, 0, -r) of the sphere moves with ``v_c + omega x (0, 0, -r)`` [m/s]; a force there has the moment
    of the same lever about the sphere's center.

    Args:
        s: the state.
        foot: one of ``s.robot.feet``.

    Raises:
        UnknownNameError: no such foot.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    if foot not in s.robot.legs:
        raise UnknownNameError("foot", foot, s.robot.feet)
    J = s.jacobian(foot)
    radius = s.robot.legs[foot].foot.radius
    return np.asarray(J[:3] + radius * np.stack((-J[4], J[3], 0.0 * J[3])))
