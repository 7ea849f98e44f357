"""The boundary of one robot's `Dynamics`: quick looks at arguments and results, exact ones where those fail."""

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

    Quick looks may say no to what is right (a zero q to a test of nearness, a dtype object that is not numpy's own
    float64): whatever fails is examined exactly before it is refused.
    """

    def __init__(self, robot: Robot, validate: bool) -> None:
        self._robot, self._validate = robot, validate
        self._model, self._is_normalized = robot.model, robot.algorithms.isNormalized
        self._nq, self._nv = (robot.nq,), (robot.nv,)

    def check(self, **arguments: ArrayLike) -> Iterable[Array]:
        """The arguments as arrays; if validating, the quick check, and the exact one where it fails."""
        if self._validate and not all(
            type(x) is ndarray
            and x.shape == (self._nq if name == "q" else self._nv)
            and x.dtype is FLOAT
            and is_approx(x, x)
            and (name != "q" or self._is_normalized(self._model, x, UNIT_NORM_TOLERANCE))
            for name, x in arguments.items()
        ):
            return self.examine(**arguments)
        return arguments.values()  # type: ignore[return-value]  # arrays, as was seen, or the caller's own risk

    def examine(self, **arguments: ArrayLike) -> Iterable[Array]:
        """The arguments as float64 arrays; raises for the first that cannot be what it must be.  The exact check."""
        out = []
        for name, value in arguments.items():
            shape, size = (self._nq, "nq") if name == "q" else (self._nv, "nv")
            array = check_vector(name, value, shape, f"{size} of {self._robot.name}")
            if name == "q":
                check_unit_norms(self._robot, array)
            out.append(array)
        return out

    def refuse(self, what: str, result: Array, **arguments: Array) -> None:
        """After a quick look has failed: raise for a bad argument, or for a `result` that is not finite."""
        self.examine(**arguments)
        if not np.isfinite(result).all():
            raise overflow_error(what, arguments)

    def finite(self, what: str, result: Array, **arguments: Array) -> Array:
        """`result`, which must be finite."""
        # Eigen is quicker on short vectors, numpy on matrices.
        if self._validate and not (is_approx(result, result) if result.ndim == 1 else np.isfinite(result).all()):
            raise overflow_error(what, arguments)
        return result
