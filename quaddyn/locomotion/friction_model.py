"""`FrictionModel`: friction coefficient and contact normals that the whole-body controller assumes."""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Record, Vector, compiled, entry, norm, vec3
from ..urdf.tree import frozen
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


class FrictionState(Record):
    """Friction coefficient and normals of the contact constraints."""

    nominal: float  # friction coefficient assumed on level ground
    is_given: bool  # whether the nominal friction is known to be that of the ground, instead of assumed
    assumed_bound: float  # upper bound of the assumed coefficient from slips; inf before any slip
    friction: float  # coefficient of the contact constraints
    normals: Matrix  # (4, 3) normals of the contact constraints, in the order of `FEET`, world
    has_new_normal: IntVector  # (4,) whether the normal of a foot was changed by the last call of `set_normals`
    normal: Vector  # (3,) mean unit normal of the ground under all feet, out of the ground, world


@compiled()
def compute_ground_slope(f: FrictionState) -> float:
    """Returns the tangent of the angle of the ground."""
    slope: float = math.sqrt(f.normal[0] * f.normal[0] + f.normal[1] * f.normal[1]) / f.normal[2]
    return slope


@compiled()
def compute_known_friction(f: FrictionState) -> float:
    """Returns the friction coefficient of the ground if it was given; inf if it is only assumed."""
    return f.nominal if f.is_given else math.inf


@compiled()
def compute_slip_bound(f: FrictionState) -> float:
    """Returns the upper bound of the friction coefficient from slips; inf before any slip."""
    return f.assumed_bound / SLIP_SAFETY_FACTOR


@compiled()
def is_slippery(f: FrictionState) -> bool:
    """Returns whether slips have shown much less friction than the nominal one."""
    return f.assumed_bound < SLIPPERY_FRICTION_RATIO * f.nominal


@compiled()
def is_steep(f: FrictionState) -> bool:
    """Returns whether the slope is steeper than the nominal friction allows."""
    return compute_ground_slope(f) > PYRAMID_FACE_RATIO * f.nominal


@compiled()
def compute_required_friction(f: FrictionState) -> float:
    """Returns the friction coefficient that the contact constraints should assume; see `FrictionModel`."""
    slope = compute_ground_slope(f)
    required = max(f.nominal, (slope + min(slope, SLOPE_FRICTION_MARGIN)) / PYRAMID_FACE_RATIO)
    return min(required, max(f.assumed_bound, (1.0 + SLIP_MARGIN_FRACTION) * slope / PYRAMID_FACE_RATIO))


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("friction of the contacts")
def adapt_friction(f: FrictionState) -> bool:
    """Sets the coefficient of the constraints to the required one if it has changed enough; returns whether it did."""
    required = compute_required_friction(f)
    min_change = MIN_FRICTION_CHANGE * min(1.0, required / FINE_STEP_FRICTION)
    returns_to_nominal = required == f.nominal and required != f.friction
    if not returns_to_nominal and not abs(required - f.friction) > min_change:
        return False
    f.friction = required
    return True


@entry("friction of the contacts")
def set_normals(f: FrictionState, normals: Matrix) -> bool:
    """Sets normals (4, 3) of the ground under the feet that differ enough; returns whether there were any."""
    has_changed = False
    for foot in range(4):
        normal = vec3(normals[foot])
        change = normal - vec3(f.normals[foot])
        f.has_new_normal[foot] = int(change @ change >= MIN_NORMAL_CHANGE * MIN_NORMAL_CHANGE)
        if f.has_new_normal[foot] != 0:
            f.normals[foot] = normal
            has_changed = True
    if has_changed:
        total = vec3(f.normals[0]) + vec3(f.normals[1]) + vec3(f.normals[2]) + vec3(f.normals[3])
        f.normal[:] = total / norm(total)
    return has_changed


@entry("friction of the contacts")
def set_assumed_bound(f: FrictionState, bound: float) -> bool:
    """Sets the upper bound of the assumed coefficient from slips; returns whether it has changed."""
    if bound == f.assumed_bound:
        return False
    f.assumed_bound = bound
    return True


def allocate_friction_state(friction: float) -> FrictionState:
    """Returns the state on level ground whose nominal friction coefficient is assumed."""
    state = FrictionState.allocate(normals=(4, 3), has_new_normal=4, normal=3)
    state.nominal = state.friction = friction
    state.assumed_bound = math.inf
    state.normals[:] = state.normal[:] = 0.0, 0.0, 1.0
    return state


class FrictionModel:
    """Friction coefficient and normals of the contact constraints.

    On a slope the coefficient is at least what walking there needs, ``(tan(angle) + SLOPE_FRICTION_MARGIN) /
    cos(pi / 4)``: with less the robot would slide in any case, and ground on which it stands must have more.

    Args:
        wbc: the whole-body controller, whose contacts are set; its friction is the nominal one.
        is_given: whether the nominal friction is known to be that of the ground, instead of assumed.

    Attributes:
        state: record of the compiled functions, with all of the state.
    """

    __slots__ = ("_wbc", "state")

    def __init__(self, wbc: WholeBodyController, *, is_given: bool = False) -> None:
        self._wbc, self.state = wbc, allocate_friction_state(wbc.friction)
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
    def friction(self) -> float:
        """Friction coefficient that the contact constraints assume at present, dimensionless."""
        return self._wbc.friction

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
