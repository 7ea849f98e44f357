"""`FrictionModel`: friction coefficient and contact normals that the whole-body controller assumes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .friction_estimation import SLIP_SAFETY_FACTOR
from .morphology import FEET

#: Friction at a face of the pyramid that walking on a slope needs beyond the tangent of the slope.
SLOPE_FRICTION_MARGIN = 0.2
#: The same after slips on the slope, as a fraction of its tangent.
SLIP_MARGIN_FRACTION = 0.05
#: Ratio of the slip bound to the nominal friction below which the ground counts as slippery.
SLIPPERY_FRICTION_RATIO = 0.6
#: Ratio of the tangential force at the middle of a face of the inscribed friction pyramid to that of the cone.
PYRAMID_FACE_RATIO = math.sqrt(0.5)
#: Minimum change of a normal [rad] and of the friction coefficient with which the contacts are updated.
MIN_NORMAL_CHANGE, MIN_FRICTION_CHANGE = 0.02, 0.02
#: Friction coefficient below which the minimum change decreases in proportion.
FINE_STEP_FRICTION = 0.4


class FrictionModel:
    """Friction coefficient and normals of the contact constraints.

    On a slope the coefficient is at least what walking there needs, ``(tan(angle) + SLOPE_FRICTION_MARGIN) /
    cos(pi / 4)``: with less the robot would slide in any case, and ground on which it stands must have more.

    Args:
        wbc: the whole-body controller, whose contacts are set; its friction is the nominal one.
        is_given: whether the nominal friction is known to be that of the ground, instead of assumed.

    Attributes:
        normal: (3,) mean unit normal of the ground under all feet, out of the ground, world.
    """

    __slots__ = ("_is_given", "_nominal", "_normals", "_slip_bound", "_wbc", "normal")

    def __init__(self, wbc: WholeBodyController, *, is_given: bool = False) -> None:
        self._wbc = wbc
        self._nominal, self._slip_bound, self._is_given = wbc.friction, math.inf, is_given
        self.normal: Array = np.array([0.0, 0.0, 1.0])
        self._normals = [(0.0, 0.0, 1.0)] * len(FEET)

    @property
    def nominal(self) -> float:
        """Friction coefficient assumed on level ground; a value that is set counts as that of the ground."""
        return self._nominal

    @nominal.setter
    def nominal(self, value: float) -> None:
        self._wbc.friction = value
        self._nominal, self._is_given = self._wbc.friction, True
        self._update_friction(self._slope)

    @property
    def _slope(self) -> float:
        """Tangent of the angle of the ground."""
        return math.hypot(*self.normal[:2].tolist()) / float(self.normal[2])

    @property
    def known_friction(self) -> float:
        """Friction coefficient of the ground if it was given; inf if it is only assumed."""
        return self._nominal if self._is_given else math.inf

    @property
    def slip_bound(self) -> float:
        """Upper bound of the friction coefficient from slips, dimensionless; inf before any slip."""
        return self._slip_bound / SLIP_SAFETY_FACTOR

    def set_slip_bound(self, bound: float) -> None:
        """Sets the upper bound of the assumed coefficient from slips; inf before any slip."""
        if bound != self._slip_bound:
            self._slip_bound = bound
            self._update_friction(self._slope)

    @property
    def is_slippery(self) -> bool:
        """Whether slips have shown much less friction than the nominal one."""
        return self._slip_bound < SLIPPERY_FRICTION_RATIO * self._nominal

    @property
    def is_steep(self) -> bool:
        """Whether the slope is steeper than the nominal friction allows, so that the ground must have more friction."""
        return self._slope > PYRAMID_FACE_RATIO * self._nominal

    @property
    def friction(self) -> float:
        """Friction coefficient that the contact constraints assume at present, dimensionless."""
        return self._wbc.friction

    def set_normals(self, normals: Sequence[tuple[float, float, float]]) -> None:
        """Sets the unit normals of the ground under the feet, in the order of `FEET`, world."""
        has_changed = False
        for i, (normal, last_normal) in enumerate(zip(normals, self._normals, strict=True)):
            x, y, z = normal[0] - last_normal[0], normal[1] - last_normal[1], normal[2] - last_normal[2]
            if x * x + y * y + z * z < MIN_NORMAL_CHANGE * MIN_NORMAL_CHANGE:
                continue
            self._normals[i] = normal
            self._wbc.contacts[FEET[i]].normal = normal
            has_changed = True
        if has_changed:
            total = np.array(self._normals).sum(axis=0)
            self.normal = total / np.linalg.norm(total)
            self._update_friction(self._slope)

    def _update_friction(self, slope: float) -> None:
        """Sets the friction coefficient of the contacts for the tangent of a slope, if it has changed enough."""
        required = max(self._nominal, (slope + min(slope, SLOPE_FRICTION_MARGIN)) / PYRAMID_FACE_RATIO)
        required = min(required, max(self._slip_bound, (1.0 + SLIP_MARGIN_FRACTION) * slope / PYRAMID_FACE_RATIO))
        present = self._wbc.friction
        if abs(required - present) > MIN_FRICTION_CHANGE * min(1.0, required / FINE_STEP_FRICTION) or (
            required == self._nominal != present
        ):
            self._wbc.friction = required
