"""`PayloadSet`: what a robot may carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_vector, number
from ..urdf.tree import Array, FrozenArrays, frozen


@renamed_attributes(low="com_lower", high="com_upper", gyration="radius_of_gyration", spread="max_second_moment")
@dataclass(frozen=True, slots=True, eq=False)
class PayloadSet(FrozenArrays):
    """Everything that a link may carry beyond what the model says.

    Attributes:
        mass: (2,) least and largest [kg]; below zero where the link may be lighter than its file says.
        com_lower, com_upper: (3,) corners of the box, in the link's axes, that the payload's centre of mass is in [m].
        link: that carries it; the root link where it is None.
        radius_of_gyration: no radius of gyration of the payload about its own centre is longer than this [m].

    Raises:
        ArgumentError: bounds that cross, or numbers that are not finite.
    """

    mass: Array | Sequence[float]
    com_lower: Array | Sequence[float]
    com_upper: Array | Sequence[float]
    link: str | None = None
    radius_of_gyration: float = 0.0

    def __post_init__(self) -> None:
        mass = frozen(check_vector("mass", self.mass, (2,), "least and largest"))
        low, high = (
            frozen(check_vector(k, getattr(self, k), (3,), "in the link's axes")) for k in ("com_lower", "com_upper")
        )
        if mass[0] > mass[1]:
            raise ArgumentError(f"mass: expected the least first, got {self.mass}")
        if not (low <= high).all():
            raise ArgumentError(
                f"com_lower, com_upper: expected no entry of com_lower above that of com_upper, got {low}, {high}"
            )
        if not 0.0 <= number("radius_of_gyration", self.radius_of_gyration) < np.inf:
            raise ArgumentError(f"radius_of_gyration: expected a finite number >= 0, got {self.radius_of_gyration}")
        for name, value in (("mass", mass), ("com_lower", low), ("com_upper", high)):
            object.__setattr__(self, name, value)

    @property
    def max_second_moment(self) -> float:
        """Most of mass times the squares of the distance from the box's middle and of the gyration [kg m^2]."""
        away = 0.5 * (np.asarray(self.com_upper) - np.asarray(self.com_lower))
        return float(np.abs(self.mass).max() * (away @ away + self.radius_of_gyration**2))

    def vertices(self) -> tuple[Array, Array]:
        """(k,) masses and (k, 3) centres whose convex hull, in mass and mass times centre, is the band."""
        box = np.array([self.com_lower, self.com_upper])
        corners = np.unique(np.array(list(product(*box.T))), axis=0)
        found = [(m, c) for m in np.unique(self.mass) for c in (corners if m != 0.0 else corners[:1])]
        return np.array([m for m, _ in found]), np.array([c for _, c in found])


_renamed = renamed_parameters(low="com_lower", high="com_upper", gyration="radius_of_gyration")
PayloadSet.__init__ = _renamed(PayloadSet.__init__)  # type: ignore[method-assign]  # old arguments of a dataclass
