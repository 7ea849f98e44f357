"""Compiled estimate of an upper bound of the friction coefficient from slips.

All arrays of feet are in the order of `FEET`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, entry
from ..estimation import SensorNoise
from ..estimation.contact_force_fit import BodyPoints, make_body_points
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
