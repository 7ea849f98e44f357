"""What an argument must be, and the words for what it was: the slow, exact half of the boundary.

`Dynamics` looks first with a few cheap comparisons; only when those fail does it come here to name the culprit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ArgumentTypeError
from ..urdf.tree import Array

#: Largest deviation from 1 of the norm of a quaternion or of a continuous joint's (cos, sin).  Pinocchio uses them
#: as they are, so that this is also the relative error which a deviation of that size may leave in a result.
UNIT_TOLERANCE: Final = 1e-6

#: Norm of q beyond which M is not trusted to be finite unseen, and beyond which `Dynamics.update` refuses q [m]: the
#: terms of a State are computed in world axes about the world's origin and lose digits in proportion to the distance.
FAR: Final = 1e8

#: Kinetic energy beyond which `Dynamics.update` refuses (q, v) [J].
ENERGETIC: Final = 1e50

FLOAT: Final = np.dtype(np.float64)


def check_vector(name: str, value: object, shape: tuple[int, ...], meaning: str) -> None:
    """Raise unless `value` is a plain, finite float64 array of `shape`.

    Args:
        name: the argument's name, for the message.
        value: what the caller gave.
        shape: the exact shape it must have.
        meaning: what the shape stands for, such as "nq of go2".

    Raises:
        ArgumentTypeError: not exactly a ``numpy.ndarray`` (lists, matrices, masked arrays), or not float64.
        ArgumentError: another shape, or an entry that is NaN or infinite.
    """
    wanted = f"a float64 numpy array of shape {shape} ({meaning})"
    if type(value) is not np.ndarray:
        kind = type(value)
        if isinstance(value, np.ma.MaskedArray):
            advice = "fill the masked entries and pass a plain array"
        else:
            advice = f"use numpy.asarray({name}, dtype=float), and ravel() it if it is a matrix"
        raise ArgumentTypeError(f"{name}: expected {wanted}, got {kind.__module__}.{kind.__qualname__}; {advice}")
    if value.dtype != FLOAT:
        raise ArgumentTypeError(
            f"{name}: expected {wanted}, got dtype {value.dtype.str if value.dtype.fields is None else value.dtype}; "
            f"use {name}.astype(float) where that loses nothing"
        )
    if value.shape != shape:
        advice = f"; use {name}.ravel()" if value.size == np.prod(shape) else ""
        raise ArgumentError(f"{name}: expected {wanted}, got shape {value.shape}{advice}")
    bad = np.flatnonzero(~np.isfinite(value))
    if bad.size:
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise ArgumentError(f"{name}: every entry must be finite, got {name}[{bad[0]}] = {value[bad[0]]}{more}")


def check_unit(model: pin.Model, q: Array) -> None:
    """Raise unless every quaternion and every (cos, sin) of `q` has norm 1 to within `UNIT_TOLERANCE`.

    Args:
        model: the Pinocchio model.
        q: (nq,) a finite configuration.

    Raises:
        ArgumentError: naming the joint, its entries and their norm.
    """
    for name, joint in zip(model.names[1:], list(model.joints)[1:], strict=True):
        # Floating joints end in a quaternion, continuous and planar ones in (cos, sin); others have no unit part.
        if joint.nq == joint.nv:
            continue
        size = 4 if joint.nv == 6 else 2
        start, stop = joint.idx_q + joint.nq - size, joint.idx_q + joint.nq
        norm = math.hypot(*q[start:stop])  # scaled inside: 1e200 is no overflow
        if not abs(norm - 1.0) <= UNIT_TOLERANCE:
            what = "quaternion (x, y, z, w)" if size == 4 else "(cos, sin)"
            raise ArgumentError(
                f"q: the {what} of joint {name!r}, q[{start}:{stop}] = {q[start:stop]}, has norm {norm:.9g}, "
                f"not 1 to within {UNIT_TOLERANCE:g}; divide it by its norm"
            )


def overflow(what: str, arguments: Mapping[str, Array]) -> ArgumentError:
    """The error for finite `arguments` whose result `what` is not finite."""
    sizes = ", ".join(f"max|{name}| = {np.abs(x).max(initial=0.0):.3g}" for name, x in arguments.items())
    return ArgumentError(f"{what}: the arguments are finite but the result overflows ({sizes}); scale them down")
