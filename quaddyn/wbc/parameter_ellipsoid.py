"""`ParameterEllipsoid`: uncertainty of the inertias, friction and rotors of a robot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_array
from ..urdf.tree import Array, FrozenArrays, frozen


@dataclass(frozen=True, slots=True, eq=False)
class ParameterEllipsoid(FrozenArrays):
    """Ellipsoid of dynamic parameters, ``delta = delta_model + directions^T z`` for all ``|z| <= 1``.

    `quaddyn.identification.Identification.parameter_band` computes one from the covariance of a fit.

    Attributes:
        directions: (k, n) half axes of the ellipsoid, or any rows that span it, in the units of the n entries of
            `Dynamics.parameters`.

    Raises:
        ArgumentError: not a finite matrix.
    """

    directions: Array

    def __post_init__(self) -> None:
        given = check_array("directions", self.directions)
        if given.ndim != 2 or not np.isfinite(given).all():
            raise ArgumentError(f"directions: expected a finite matrix (k, n), got shape {given.shape}")
        object.__setattr__(self, "directions", frozen(given))
