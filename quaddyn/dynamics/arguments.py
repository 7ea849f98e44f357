"""Exact checks of the arguments of `Dynamics`, and their error messages.

`Dynamics` makes a few cheap comparisons first; these exact checks run only if one fails, and name the argument.

Checks of arguments and results of one robot's `Dynamics`: quick ones, and exact ones where those fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pinocchio as pin
from eigenpy import is_approx
from numpy import ndarray
from numpy.typing import ArrayLike

from ..errors import ArgumentError
from ..robot.arguments import FLOAT, check_vector
from ..robot.robot import Robot
from ..robot.units import JointUnits
from ..urdf.tree import Array

#: Largest deviation from 1 of the norm of a quaternion or of a continuous joint's (cos, sin).  Pinocchio uses them
#: as they are, so that this is also the relative error which a deviation of that size may leave in a result.
UNIT_NORM_TOLERANCE: Final = 1e-6

#: Norm of q beyond which M is checked to be finite, and beyond which `Dynamics.update` rejects q [m]: the
#: terms of a State are computed in world axes about the world's origin and lose digits in proportion to the distance.
MAX_CONFIGURATION_NORM: Final = 1e8

#: Kinetic energy beyond which `Dynamics.update` rejects (q, v) [J], and length of v below which none comes near it.
MAX_KINETIC_ENERGY: Final = 1e50
MAX_UNCHECKED_SPEED: Final = 1e15

#: Number of first calls in which the unit of q is checked.
UNIT_CHECKS: Final = 10
#: Factor of the excess over a position limit that `JointUnits` accepts, which is then 2.5 turns: callers may evaluate
#: dynamics at random states that are some turns beyond the limits.
EXCESS_FACTOR: Final = 5.0


def check_unit_norms(robot: Robot, q: Array) -> None:
    """Checks that quaternions and (cos, sin) pairs of `q` have norm 1 to `UNIT_NORM_TOLERANCE`, and that loops close.

    Args:
        robot: the robot.
        q: (nq,) a finite configuration.

    Raises:
        ArgumentError: naming the joint, its entries and their norm, or the loop.
    """
    for name, start, size in robot.unit_norm_slices:
        stop = start + size
        norm = math.hypot(*q[start:stop])  # hypot scales its arguments: 1e200 does not overflow
        if not abs(norm - 1.0) <= UNIT_NORM_TOLERANCE:
            what = "quaternion (x, y, z, w)" if size == 4 else "(cos, sin)"
            raise ArgumentError(
                f"q: the {what} of joint {name!r}, q[{start}:{stop}] = {q[start:stop]}, has norm {norm:.9g}, "
                f"not 1 to within {UNIT_NORM_TOLERANCE:g}; divide it by its norm"
            )
    if robot.coupling is not None:
        robot.coupling.check(q)


def _return_false(model: pin.Model, q: Array, tolerance: float) -> bool:
    """Returns False, whatever the arguments."""
    return False


def overflow_error(what: str, arguments: Mapping[str, Array]) -> ArgumentError:
    """Returns the error for finite `arguments` whose result `what` is not finite."""
    sizes = ", ".join(f"max|{name}| = {np.abs(x).max(initial=0.0):.3g}" for name, x in arguments.items())
    return ArgumentError(
        f"{what}: the result overflows although the arguments are finite ({sizes}); pass smaller values"
    )


class ArgumentChecker:
    """Checks of the arguments named q (nq,) and, under any other name, (nv,); none at all without `validate`.

    The quick check may fail for a valid argument (a q of zeros in a relative comparison, a dtype object that is not
    numpy's float64 object), so an argument that fails it is checked exactly before it is rejected.

    Attributes:
        is_normalized: quick check of the unit norms in q, with the arguments of Pinocchio's ``isNormalized``.  It
            returns False until the unit of q has been checked `UNIT_CHECKS` times, so that the exact check, which
            includes the unit, runs; afterwards it is ``isNormalized`` itself.
    """

    def __init__(self, robot: Robot, validate: bool) -> None:
        self._robot, self._validate = robot, validate
        self._model = robot.model
        self.is_normalized: Callable[[pin.Model, Array, float], bool] = _return_false
        self._unit_checks = UNIT_CHECKS
        self._joint_units: JointUnits | None = None
        self._nq, self._nv = (robot.nq,), (robot.nv,)

    def check(self, **arguments: ArrayLike) -> Iterable[Array]:
        """Returns the arguments as arrays; with `validate`, checks them quickly, and exactly where that fails."""
        if self._validate and not all(
            type(x) is ndarray
            and x.shape == (self._nq if name == "q" else self._nv)
            and x.dtype is FLOAT
            and is_approx(x, x)
            and (name != "q" or self.is_normalized(self._model, x, UNIT_NORM_TOLERANCE))
            for name, x in arguments.items()
        ):
            return self._examine(arguments)
        return arguments.values()  # type: ignore[return-value]  # arrays: checked above, or not validated

    def examine(self, **arguments: ArrayLike) -> Iterable[Array]:
        """Checks the arguments exactly and returns them as float64 arrays; raises for the first invalid one."""
        return self._examine(arguments)

    def _examine(self, arguments: Mapping[str, ArrayLike]) -> Iterable[Array]:
        """Implements `examine`, called at the same depth from it and from `check`."""
        out = []
        for name, value in arguments.items():
            shape, size = (self._nq, "nq") if name == "q" else (self._nv, "nv")
            array = check_vector(name, value, shape, f"{size} of {self._robot.name}")
            if name == "q":
                check_unit_norms(self._robot, array)
                if self._unit_checks:
                    self._check_unit(array)
            out.append(array)
        return out

    def _check_unit(self, q: Array) -> None:
        """Warns if q (nq,) seems to be in another unit; after the last such check, `is_normalized` is Pinocchio's."""
        units = self._joint_units = self._joint_units or JointUnits(self._robot, excess_factor=EXCESS_FACTOR)
        units.warn("q", q, stacklevel=6)
        units.warn_of_base("q", q, stacklevel=6)
        self._unit_checks -= 1
        if not self._unit_checks:
            self.is_normalized = self._robot.algorithms.isNormalized

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
