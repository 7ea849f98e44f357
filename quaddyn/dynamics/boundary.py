"""Checks of arguments and results of one robot's `Dynamics`: quick ones, and exact ones where those fail."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from eigenpy import is_approx  # Pinocchio's own array layer
from numpy import ndarray
from numpy.typing import ArrayLike

from ..robot.arguments import FLOAT, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .arguments import UNIT_NORM_TOLERANCE, check_unit_norms, overflow_error


class ArgumentChecker:
    """Checks of the arguments named q (nq,) and, under any other name, (nv,); none at all without `validate`.

    The quick check may fail for a valid argument (a q of zeros in a relative comparison, a dtype object that is not
    numpy's float64 object), so an argument that fails it is checked exactly before it is rejected.
    """

    def __init__(self, robot: Robot, validate: bool) -> None:
        self._robot, self._validate = robot, validate
        self._model, self._is_normalized = robot.model, robot.algorithms.isNormalized
        self._nq, self._nv = (robot.nq,), (robot.nv,)

    def check(self, **arguments: ArrayLike) -> Iterable[Array]:
        """Returns the arguments as arrays; with `validate`, checks them quickly, and exactly where that fails."""
        if self._validate and not all(
            type(x) is ndarray
            and x.shape == (self._nq if name == "q" else self._nv)
            and x.dtype is FLOAT
            and is_approx(x, x)
            and (name != "q" or self._is_normalized(self._model, x, UNIT_NORM_TOLERANCE))
            for name, x in arguments.items()
        ):
            return self.examine(**arguments)
        return arguments.values()  # type: ignore[return-value]  # arrays: checked above, or not validated

    def examine(self, **arguments: ArrayLike) -> Iterable[Array]:
        """Checks the arguments exactly and returns them as float64 arrays; raises for the first invalid one."""
        out = []
        for name, value in arguments.items():
            shape, size = (self._nq, "nq") if name == "q" else (self._nv, "nv")
            array = check_vector(name, value, shape, f"{size} of {self._robot.name}")
            if name == "q":
                check_unit_norms(self._robot, array)
            out.append(array)
        return out

    def refuse(self, what: str, result: Array, **arguments: Array) -> None:
        """Repeats a failed quick check exactly; raises for an invalid argument or a `result` that is not finite."""
        self.examine(**arguments)
        if not np.isfinite(result).all():
            raise overflow_error(what, arguments)

    def finite(self, what: str, result: Array, **arguments: Array) -> Array:
        """Returns `result`; raises an `ArgumentError` if it is not finite."""
        # Eigen is quicker on short vectors, numpy on matrices.
        if self._validate and not (is_approx(result, result) if result.ndim == 1 else np.isfinite(result).all()):
            raise overflow_error(what, arguments)
        return result
