"""Velocity, Jacobian and drift of a frame: the same meaning of `reference` for all three.

A frame's velocity is (6,), linear before angular, and `reference` selects its coordinates:

=========================  =============================================================================================
"local_world_aligned"      velocity of the frame's origin and angular velocity, both along world axes
"local"                    the same two vectors along the frame's own axes (the body twist)
"world"                    the spatial twist: velocity of the point that passes through the world's origin, world axes
=========================  =============================================================================================

For each of them ``velocity = J v`` and ``d/dt velocity = J a + drift``, the derivative being that of the six numbers.
Hence ``drift = dJ/dt v`` in all three: the *classical* acceleration of the frame's origin at ``a = 0`` in
"local_world_aligned", and the *spatial* acceleration at ``a = 0`` in "local" and "world" (which differs from the
classical one by ``omega x v``: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 2.11).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal

import pinocchio as pin

from ..errors import ArgumentError
from ..urdf.tree import Array

#: A word, or Pinocchio's own constant.
ReferenceFrame = Literal["local_world_aligned", "local", "world"] | pin.ReferenceFrame

#: Pinocchio's constant for each reference.
REFERENCES: Final = MappingProxyType(
    {"local_world_aligned": pin.LOCAL_WORLD_ALIGNED, "local": pin.LOCAL, "world": pin.WORLD}
)


def resolve_reference(reference: object) -> pin.ReferenceFrame:
    """Pinocchio's constant for `reference`.

    Raises:
        ArgumentError: no such reference; the three are listed.
    """
    try:
        return REFERENCES[reference]  # type: ignore[index]  # any object may arrive here
    except (KeyError, TypeError):
        if isinstance(reference, pin.ReferenceFrame):
            return reference
        known = ", ".join(map(repr, REFERENCES))
        raise ArgumentError(f"reference: expected one of {known}; got {reference!r}") from None


def velocity(model: pin.Model, data: pin.Data, frame: int, reference: object) -> Array:
    """(6,) velocity of `frame`; needs joint placements and velocities in `data`."""
    out: Array = pin.getFrameVelocity(model, data, frame, resolve_reference(reference)).vector.copy()
    return out


def drift(model: pin.Model, data: pin.Data, frame: int, reference: object) -> Array:
    """(6,) ``dJ/dt v`` of `frame`; needs joint placements, velocities and accelerations at ``a = 0`` in `data`."""
    axes = resolve_reference(reference)
    acceleration = pin.getFrameClassicalAcceleration if axes == pin.LOCAL_WORLD_ALIGNED else pin.getFrameAcceleration
    out: Array = acceleration(model, data, frame, axes).vector.copy()
    return out
