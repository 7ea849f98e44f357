"""`FrictionModel`: friction coefficient and contact normals that the whole-body controller assumes.

Compiled code estimates an upper bound of the friction coefficient from slips.  All arrays of feet are in the order of
`FEET`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, entry, norm, vec3
from ..estimation import SensorNoise
from ..estimation.contact_forces import BodyPoints, make_body_points
from ..estimation.foot_forces import FootLoads, allocate_foot_loads
from ..estimation.slip_detector import (
    SlipMemory,
    SlipModel,
    compute_foot_motion,
    estimate_slip_friction,
    find_max_held_ratio,
    make_slip_memory,
    make_slip_model,
    reset_slip_memory,
    update_slip_probabilities,
)
from ..robot.robot import Robot
from ..urdf.tree import frozen
from ..wbc import WholeBodyController
from .contact_estimation import ContactEstimate, ContactInputs
from .morphology import FEET, Morphology

#: Fraction of the friction coefficient measured in slips that is assumed, and the smallest coefficient assumed.
SLIP_SAFETY_FACTOR, MIN_FRICTION = 0.8, 0.03
#: Ratio of the friction of a slip to the bound up to which the slip confirms the bound.
CONFIRMATION_RATIO = 1.2
#: Number of feet that must slip at once on rough ground for their slips to be used.
MIN_SLIPPING_FEET = 2
#: Uncertainty of the forces that feet hold without slipping, as a ratio of tangential to normal force.
HOLDING_UNCERTAINTY = 0.05
#: Time constant with which a slip lowers the bound [sqrt(l/g)].
SLIP_TIME_CONSTANT = 0.03
#: Time scale T of the return of a bound that no slip confirms, which grows by ``exp(t^2 / (2 T^2))`` [sqrt(l/g)].
RECOVERY_TIME = 4.0
#: Minimum time of a slip, without deceleration, before its forces are used for the friction [sqrt(l/g)].
MIN_SLIP_TIME = 0.03
#: Time constant with which the bound is raised to forces that feet hold without slipping [sqrt(l/g)].
HOLDING_TIME_CONSTANT = 1.0


class FrictionParameters(NamedTuple):
    """Robot and parameters of the estimate of the friction bound."""

    slip: SlipModel
    feet: BodyPoints  # centers of the foot spheres
    dt: float  # control period [s]
    slip_alpha: float  # fraction of its distance from the friction of a slip by which the bound changes per tick
    holding_alpha: float  # the same for the ratio of forces that a foot holds
    growth_rate: float  # increase per tick of the logarithm of the bound, per time since the last slip [1/s]
    min_slip_updates: float  # minimum time of a slip, without deceleration, before its forces are used [updates]
    is_enabled: bool  # whether slips are detected in locomotion


class FrictionInputs(Record):
    """Inputs of `update_friction` that `walk` computes at each tick."""

    is_carrying: IntVector  # (4,) whether a foot carries load
    may_lower: bool  # whether slips lower the bound
    is_rough: bool  # whether only simultaneous slips of several feet lower the bound


class FrictionEstimate(Record):
    """Slip detection, and upper bound of the friction coefficient, lowered by slips and raised by time and by forces.

    The bound is infinite before the first slip.  A slip with a friction below the bound lowers it to
    `SLIP_SAFETY_FACTOR` times that friction.  Without further slips of similar friction the bound grows again, the
    faster the longer none confirms it.  If a foot holds a larger ratio of forces without slipping, the bound was too
    low and follows that ratio.  Slips are detected as by `quaddyn.estimation.SlipDetector`.
    """

    slip: SlipMemory
    loads: FootLoads
    bound: float  # upper bound of the friction coefficient; inf before the first slip
    time_since_slip: float  # since a slip confirmed the bound [s]


@compiled()
def count_slipping_feet(f: FrictionEstimate) -> int:
    """Returns the number of feet that slip."""
    count = 0
    for foot in range(4):
        count += f.slip.is_slipping[foot]
    return count


@compiled()
def measure_slip_friction(p: FrictionParameters, f: FrictionEstimate, is_rough: bool) -> float:
    """Returns the friction coefficient that the present slips show; inf if they show none."""
    if count_slipping_feet(f) < (MIN_SLIPPING_FEET if is_rough else 1):
        return math.inf
    slip_friction: float = estimate_slip_friction(p.slip, f.slip, p.min_slip_updates)
    return slip_friction


@compiled()
def update_bound(p: FrictionParameters, f: FrictionEstimate, slip_friction: float) -> None:
    """Updates the bound by one tick from the friction of the present slips, inf if they show none."""
    safe_friction = SLIP_SAFETY_FACTOR * slip_friction
    f.time_since_slip += p.dt
    if safe_friction < CONFIRMATION_RATIO * f.bound:
        f.time_since_slip = 0.0
    if safe_friction < f.bound:
        start = min(f.bound, 1.0)
        f.bound = start + p.slip_alpha * (max(safe_friction, MIN_FRICTION) - start)
    elif f.bound < math.inf:
        f.bound *= math.exp(p.growth_rate * f.time_since_slip)
        held_ratio = find_max_held_ratio(f.slip) - HOLDING_UNCERTAINTY
        if SLIP_SAFETY_FACTOR * held_ratio > f.bound:
            f.bound += p.holding_alpha * (held_ratio - f.bound)


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("slips and friction of the ground")
def update_slips(p: FrictionParameters, f: FrictionEstimate, may_lower: bool, is_rough: bool) -> None:
    """Updates slip detection and bound by one tick, with the present ``f.loads`` and foot velocities ``f.slip.motion``.

    Args:
        p: robot and parameters.
        f: estimate; updated.
        may_lower: whether slips lower the bound.
        is_rough: whether only simultaneous slips of several feet lower the bound.
    """
    update_slip_probabilities(p.slip, f.slip, f.loads)
    slip_friction = math.inf
    if may_lower:
        slip_friction = measure_slip_friction(p, f, is_rough)
    update_bound(p, f, slip_friction)


@entry("slips and friction of the ground")
def update_slips_from_state(
    p: FrictionParameters,
    f: FrictionEstimate,
    columns: Matrix,
    joint_placements: Tensor,
    v: Vector,
    may_lower: bool,
    is_rough: bool,
) -> None:
    """Computes the foot velocities from the kinematics and calls `update_slips`.

    Args:
        p: robot and parameters.
        f: estimate, with the present ``f.loads``; updated.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        may_lower: whether slips lower the bound.
        is_rough: whether only simultaneous slips of several feet lower the bound.
    """
    compute_foot_motion(f.slip, p.feet, f.loads.in_contact, columns, joint_placements, v)
    update_slips(p, f, may_lower, is_rough)


@entry("slips and friction of the ground")
def set_foot_loads(f: FrictionEstimate, x: FrictionInputs, e: ContactEstimate, c: ContactInputs) -> None:
    """Sets ``f.loads``: estimated forces, normals of the ground, and the feet in contact that carry load."""
    for foot in range(4):
        f.loads.in_contact[foot] = int(x.is_carrying[foot] != 0 and e.in_contact[foot] != 0)
        f.loads.has_force[foot] = 1
        for r in range(3):
            f.loads.forces[foot, r] = e.forces[foot, r]
            f.loads.normals[foot, r] = c.normals[foot, r]


@entry("slips and friction of the ground")
def update_friction(
    p: FrictionParameters,
    f: FrictionEstimate,
    x: FrictionInputs,
    e: ContactEstimate,
    c: ContactInputs,
    columns: Matrix,
    joint_placements: Tensor,
    v: Vector,
) -> None:
    """Updates slip detection and bound by one tick, after `estimate_contacts`; without known contacts nothing changes.

    Args:
        p: robot and parameters.
        f: estimate; updated.
        x: feet that carry load, and use of their slips.
        e: contact forces and contact states of this tick.
        c: inputs of the contact estimate.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
    """
    if p.is_enabled and e.is_known:
        set_foot_loads(f, x, e, c)
        update_slips_from_state(p, f, columns, joint_placements, v, x.may_lower, x.is_rough)


@entry("slips and friction of the ground")
def reset_friction_estimate(p: FrictionParameters, f: FrictionEstimate) -> None:
    """Resets slip detection and bound."""
    reset_slip_memory(p.slip, f.slip)
    f.time_since_slip = 0.0
    f.bound = math.inf


def make_friction_parameters(
    robot: Robot, morphology: Morphology, dt: float, *, is_enabled: bool = True
) -> FrictionParameters:
    """Creates the parameters of the estimate.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        is_enabled: whether slips are detected in locomotion.
    """
    time_scale = morphology.time_scale
    centers = [] if robot.coupling is not None else [(foot, np.zeros(3)) for foot in FEET]
    return FrictionParameters(
        slip=make_slip_model(robot, FEET, dt, morphology.length, SensorNoise()),
        feet=make_body_points(robot, centers),
        dt=dt,
        slip_alpha=dt / (SLIP_TIME_CONSTANT * time_scale + dt),
        holding_alpha=dt / (HOLDING_TIME_CONSTANT * time_scale + dt),
        growth_rate=dt / (RECOVERY_TIME * time_scale) ** 2,
        min_slip_updates=MIN_SLIP_TIME * time_scale / dt,
        is_enabled=is_enabled,
    )


def make_friction_estimate(parameters: FrictionParameters) -> FrictionEstimate:
    """Creates the state of the estimate before the first slip."""
    return FrictionEstimate.from_values(
        slip=make_slip_memory(parameters.slip),
        loads=allocate_foot_loads(len(FEET)),
        bound=math.inf,
        time_since_slip=0.0,
    )


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
