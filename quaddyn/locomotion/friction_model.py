"""`FrictionModel`: friction coefficient and contact normals that the whole-body controller assumes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..urdf.tree import Array, frozen
from ..wbc import WholeBodyController
from .friction_state import (
    adapt_friction,
    allocate_friction_state,
    is_slippery,
    is_steep,
    set_assumed_bound,
    set_normals,
)
from .morphology import FEET
from .state_fields import StateField


class FrictionModel:
    """Friction coefficient and normals of the contact constraints.

    On a slope the coefficient is at least what walking there needs, ``(tan(angle) + SLOPE_FRICTION_MARGIN) /
    cos(pi / 4)``: with less the robot would slide in any case, and ground on which it stands must have more.

    Args:
        wbc: the whole-body controller, whose contacts are set; its friction is the nominal one.
        is_given: whether the nominal friction is known to be that of the ground, instead of assumed.

    Attributes:
        state: record of the compiled functions, with all of the state.
        normal: (3,) mean unit normal of the ground under all feet, out of the ground, world; a view.
    """

    __slots__ = ("_given_normals", "_wbc", "state")

    normal = StateField[Array]()

    def __init__(self, wbc: WholeBodyController, *, is_given: bool = False) -> None:
        self._wbc, self._given_normals = wbc, np.zeros((len(FEET), 3))
        self.state = allocate_friction_state(wbc.friction)
        self.state.is_given = is_given

    @property
    def nominal(self) -> float:
        """Friction coefficient assumed on level ground; a value that is set is taken as the ground's."""
        return self.state.nominal

    @nominal.setter
    def nominal(self, value: float) -> None:
        self._wbc.friction = value
        self.state.nominal, self.state.is_given = self._wbc.friction, True
        self._adapt_friction()

    def set_slip_bound(self, bound: float) -> None:
        """Sets the upper bound of the assumed coefficient from slips; inf before any slip."""
        if set_assumed_bound.python(self.state, float(bound)):
            self._adapt_friction()

    @property
    def is_slippery(self) -> bool:
        """Whether slips have shown much less friction than the nominal one."""
        return is_slippery(self.state)

    @property
    def is_steep(self) -> bool:
        """Whether the slope is steeper than the nominal friction allows, so that the ground must have more friction."""
        return bool(is_steep(self.state))

    @property
    def friction(self) -> float:
        """Friction coefficient that the contact constraints assume at present, dimensionless."""
        return self._wbc.friction

    def set_normals(self, normals: Array | Sequence[tuple[float, float, float]]) -> None:
        """Sets the unit normals (4, 3) of the ground under the feet, in the order of `FEET`, world."""
        self._given_normals[:] = normals
        self.read_friction()
        if set_normals(self.state, self._given_normals):
            adapt_friction(self.state)
        self.apply()

    def read_friction(self) -> None:
        """Reads the friction coefficient of the contacts, which users may have set."""
        self.state.friction = self._wbc.friction

    def apply(self) -> None:
        """Sets normals and friction coefficient of the contacts where they have changed."""
        state, wbc = self.state, self._wbc
        if state.has_new_normal.any():
            for foot, normal, is_new in zip(FEET, state.normals, state.has_new_normal.tolist(), strict=True):
                if is_new:
                    wbc.contacts[foot].set_valid(normal=frozen(normal))
            state.has_new_normal[:] = 0
        if state.friction != wbc.friction:
            wbc.friction = state.friction

    def _adapt_friction(self) -> None:
        """Sets the friction coefficient of the contacts if the required one has changed enough."""
        self.read_friction()
        adapt_friction.python(self.state)
        self.apply()
