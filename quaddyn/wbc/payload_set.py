"""`PayloadSet`: the payloads that a robot may carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_number, check_vector
from ..urdf.tree import Array, FrozenArrays, frozen


@renamed_attributes(low="com_lower", high="com_upper", gyration="radius_of_gyration", spread="max_second_moment")
@dataclass(frozen=True, slots=True, eq=False)
class PayloadSet(FrozenArrays):
    """Set of payloads that a link may carry in addition to what the model contains.

    Attributes:
        mass: (2,) smallest and largest mass [kg]; negative if the link may be lighter than its file states.
        com_lower, com_upper: (3,) corners of a box, in the axes of the link, that contains the payload's center of mass
            [m].
        link: name of the link that carries the payload; the root link if None.
        radius_of_gyration: largest radius of gyration of the payload about its own center of mass [m].

    Raises:
        ArgumentError: bounds in the wrong order, or numbers that are not finite.
    """

    mass: Array | Sequence[float]
    com_lower: Array | Sequence[float]
    com_upper: Array | Sequence[float]
    link: str | None = None
    radius_of_gyration: float = 0.0

    def __post_init__(self) -> None:
        mass = frozen(check_vector("mass", self.mass, (2,), "smallest and largest"))
        low, high = (
            frozen(check_vector(k, getattr(self, k), (3,), "in the link's axes")) for k in ("com_lower", "com_upper")
        )
        if mass[0] > mass[1]:
            raise ArgumentError(f"mass: expected the smallest and the largest mass in this order, got {self.mass}")
        if not (low <= high).all():
            raise ArgumentError(
                f"com_lower, com_upper: expected no entry of com_lower above that of com_upper, got {low}, {high}"
            )
        if not 0.0 <= check_number("radius_of_gyration", self.radius_of_gyration) < np.inf:
            raise ArgumentError(f"radius_of_gyration: expected a finite number >= 0, got {self.radius_of_gyration}")
        for name, value in (("mass", mass), ("com_lower", low), ("com_upper", high)):
            object.__setattr__(self, name, value)

    @property
    def max_second_moment(self) -> float:
        """Largest second moment of mass about the middle of the box [kg m^2].

        It is that of the payload of largest ``|mass|`` with its center of mass in a corner of the box, at the distance
        r from the middle: ``|mass| (r^2 + radius_of_gyration^2)``.
        """
        half_diagonal = 0.5 * (np.asarray(self.com_upper) - np.asarray(self.com_lower))
        return float(np.abs(self.mass).max() * (half_diagonal @ half_diagonal + self.radius_of_gyration**2))

    def vertices(self) -> tuple[Array, Array]:
        """Returns (k,) masses and (k, 3) centers of mass of the vertices of the set.

        The set is the convex hull of the vertices in the coordinates mass and mass times center.
        """
        box = np.array([self.com_lower, self.com_upper])
        corners = np.unique(np.array(list(product(*box.T))), axis=0)
        vertices = [(m, c) for m in np.unique(self.mass) for c in (corners if m != 0.0 else corners[:1])]
        return np.array([m for m, _ in vertices]), np.array([c for _, c in vertices])


_renamed = renamed_parameters(low="com_lower", high="com_upper", gyration="radius_of_gyration")
PayloadSet.__init__ = _renamed(PayloadSet.__init__)  # type: ignore[method-assign]  # old arguments of a dataclass
