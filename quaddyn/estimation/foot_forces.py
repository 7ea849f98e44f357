"""Forces of feet by name, as rows of an array for compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_vector
from ..urdf.tree import Array


class FootForces:
    """Takes up forces by foot, checked.

    Args:
        feet: their names.

    Attributes:
        values: (nf, 3) of each foot; zero where there is none.
        given: (nf,) whether there is one.
    """

    __slots__ = ("_feet", "given", "values")

    def __init__(self, feet: Sequence[str]) -> None:
        self._feet = tuple(feet)
        self.values, self.given = np.zeros((len(feet), 3)), np.zeros(len(feet), dtype=np.int64)

    def take(self, forces: Mapping[str, Array] | Array) -> None:
        """Forces are now these, (3,) by foot or (nf, 3) of all feet.

        Raises:
            ArgumentTypeError: neither a mapping nor an array.
            UnknownNameError: no such foot.
            ArgumentError: a force of another shape or not finite.
        """
        feet, values = self._feet, self.values
        if type(forces) is np.ndarray:
            values[:] = check_vector("forces", forces, values.shape, "of all feet, world axes")
            self.given.fill(1)
            return
        if not isinstance(forces, Mapping):
            raise ArgumentTypeError(f"forces: expected a mapping of feet, got {type(forces).__name__}")
        for foot in forces:
            if foot not in feet:
                raise UnknownNameError("foot", foot, feet)
        checked = {foot: check_vector(f"forces[{foot!r}]", f, (3,), "world axes") for foot, f in forces.items()}
        for i, foot in enumerate(feet):
            self.given[i] = foot in checked
            values[i] = checked.get(foot, 0.0)
