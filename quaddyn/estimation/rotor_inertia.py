"""Estimate of the rotor inertias of swing legs that the robot's model lacks, from the residual of the momentum.

While a foot is in the air, the residual r of the generalized momentum (`quaddyn.estimation.momentum_observer`) of each
joint j of its leg is due to errors of the model.  A missing rotor inertia I and a missing viscous friction d cause

    r_j = -I F(dv_j/dt) - d F(v_j),

where F is the first-order filter of the residual.  Both are fitted by weighted least squares with forgetting.  Other
errors, such as those of masses and of filtered velocities, are similar in every swing and bias the fit.  It is
therefore used only as far as it explains the residual: by a factor that rises from 0 to 1 with its coefficient of
determination.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Vector, compiled, entry
from ..dynamics import Dynamics
from ..robot.robot import Robot
from .momentum_observer import ResidualFilter

#: Number of standard deviations by which the used rotor inertia is below its estimate.
SIGNIFICANCE_LEVEL = 2.0
#: Minimum number of independent samples of a fit.  It is the number of unknowns, since robots on soft ground may fall
#: unless rotor inertias are compensated in the first swing.
MIN_SAMPLES = 2.0
#: Rotor inertia that is neglected, as a fraction of the inertia that the model has at the joint.
NEGLIGIBLE_FRACTION = 0.1
#: Coefficients of determination up to which a fit is not used, and above which it is fully used.
MIN_DETERMINATION, FULL_DETERMINATION = 0.85, 0.95
#: Minimum of one minus the squared correlation of acceleration and velocity, below which they cannot be distinguished.
MIN_INDEPENDENCE = 1e-3


class RotorInertiaParameters(NamedTuple):
    """Legs of a robot, and parameters of the fit."""

    foot: IntVector  # (nv,) index of the foot whose leg has this joint, -1 for other velocities
    negligible_inertia: Vector  # (nv,) rotor inertia that is neglected [kg m^2]
    max_inertia: float  # largest rotor inertia that is used [kg m^2]
    decay: float  # factor of previous ticks in the sums of the fit
    correlated_ticks: float  # number of ticks over which the residual is correlated
    smoothing_factor: float  # fraction of the difference by which the used values approach the estimate at a tick


class RotorInertiaEstimate(Record):
    """Sums of the fit, and the rotor inertias and friction coefficients that are used."""

    previous_velocity: Vector  # (nv,) velocity at the last tick
    acceleration: Vector  # (nv,) acceleration, filtered like the residual
    velocity: Vector  # (nv,) velocity, filtered like the residual
    # Sums over ticks with x = (acceleration, velocity): x x^T, x r, r^2 and the number of ticks.
    products: Matrix  # (nv, 3) entries 00, 01 and 11 of the sum of x x^T
    moments: Matrix  # (nv, 2)
    squares: Vector  # (nv,)
    weights: Vector  # (nv,)
    inertia: Vector  # (nv,) rotor inertia in addition to the model [kg m^2]
    damping: Vector  # (nv,) viscous friction in addition to the model [N m s/rad]
    is_active: bool  # whether any rotor inertia has been used since the last reset


@compiled()
def filter_motion(e: RotorInertiaEstimate, o: ResidualFilter, v: Vector) -> None:
    """Updates the filtered velocity and acceleration; call it before the residual of the same tick is updated.

    Args:
        e: estimate; updated.
        o: observer, with the residual of the last tick.
        v: (nv,) velocity.
    """
    for i in range(len(v)):
        if o.is_initialized:
            gain = 1.0 - o.beta[i]
            e.acceleration[i] = o.beta[i] * e.acceleration[i] + gain * (v[i] - e.previous_velocity[i]) / o.dt
            e.velocity[i] = o.beta[i] * e.velocity[i] + gain * 0.5 * (v[i] + e.previous_velocity[i])
        else:
            e.acceleration[i] = 0.0
            e.velocity[i] = 0.0
        e.previous_velocity[i] = v[i]


@compiled()
def add_sample(p: RotorInertiaParameters, e: RotorInertiaEstimate, i: int, residual: float) -> None:
    """Adds the residual of joint velocity i at this tick to the sums of its fit."""
    a, w = e.acceleration[i], e.velocity[i]
    e.products[i, 0] = p.decay * e.products[i, 0] + a * a
    e.products[i, 1] = p.decay * e.products[i, 1] + a * w
    e.products[i, 2] = p.decay * e.products[i, 2] + w * w
    e.moments[i, 0] = p.decay * e.moments[i, 0] - a * residual
    e.moments[i, 1] = p.decay * e.moments[i, 1] - w * residual
    e.squares[i] = p.decay * e.squares[i] + residual * residual
    e.weights[i] = p.decay * e.weights[i] + 1.0


@compiled()
def used_fraction(error: float, square: float) -> float:
    """Returns the fraction of a fit that is used, from the sums of its squared errors and of the squared residuals."""
    determination = 1.0 - error / square
    return min(max((determination - MIN_DETERMINATION) / (FULL_DETERMINATION - MIN_DETERMINATION), 0.0), 1.0)


@compiled()
def follow_fit(p: RotorInertiaParameters, e: RotorInertiaEstimate, i: int) -> None:
    """Moves rotor inertia and friction of joint velocity i toward the lower confidence bounds of the fit."""
    inertia, damping = 0.0, 0.0
    determinant = e.products[i, 0] * e.products[i, 2] - e.products[i, 1] * e.products[i, 1]
    is_determined = determinant > MIN_INDEPENDENCE * e.products[i, 0] * e.products[i, 2]
    if e.weights[i] > MIN_SAMPLES * p.correlated_ticks and is_determined:
        fitted_inertia = (e.products[i, 2] * e.moments[i, 0] - e.products[i, 1] * e.moments[i, 1]) / determinant
        fitted_damping = (e.products[i, 0] * e.moments[i, 1] - e.products[i, 1] * e.moments[i, 0]) / determinant
        error = e.squares[i] - fitted_inertia * e.moments[i, 0] - fitted_damping * e.moments[i, 1]
        variance = p.correlated_ticks * max(error, 0.0) / (e.weights[i] * determinant)
        bound = fitted_inertia - SIGNIFICANCE_LEVEL * math.sqrt(variance * e.products[i, 2])
        if bound > p.negligible_inertia[i]:
            # Continuous: zero at the negligible inertia, and nearly the bound far above it.
            inertia = min(bound - p.negligible_inertia[i] * p.negligible_inertia[i] / bound, p.max_inertia)
            inertia *= used_fraction(error, e.squares[i])
            damping = max(fitted_damping - SIGNIFICANCE_LEVEL * math.sqrt(variance * e.products[i, 0]), 0.0)
    e.inertia[i] += p.smoothing_factor * (inertia - e.inertia[i])
    e.damping[i] += p.smoothing_factor * (damping - e.damping[i])


@compiled(inline=False)
def update_rotor_inertia(
    p: RotorInertiaParameters, e: RotorInertiaEstimate, residual: Vector, is_swinging: IntVector
) -> None:
    """Updates the estimate by one tick, after `filter_motion` and the residual.

    Args:
        p: legs and parameters.
        e: estimate; updated.
        residual: (nv,) residual of the observer, which includes the effect of the missing rotor inertias.
        is_swinging: (feet,) whether each foot is certainly in the air.
    """
    for i in range(len(residual)):
        if p.foot[i] >= 0 and is_swinging[p.foot[i]] != 0:
            add_sample(p, e, i, residual[i])
            follow_fit(p, e, i)
            e.is_active = e.is_active or e.inertia[i] > 0.0


@compiled()
def correct_residual(e: RotorInertiaEstimate, residual: Vector, corrected: Vector) -> None:
    """Writes the residual (nv,) without the effect of the estimated rotor inertias and friction."""
    for i in range(len(residual)):
        corrected[i] = residual[i] + e.inertia[i] * e.acceleration[i] + e.damping[i] * e.velocity[i]


@entry("the rotor inertias")
def add_rotor_torques(e: RotorInertiaEstimate, actuated: IntVector, acceleration: Vector, tau: Vector) -> None:
    """Adds the torques that accelerate the estimated rotor inertias to the torques tau of the motors.

    Args:
        e: estimate.
        actuated: (nu,) velocity indices of the motors.
        acceleration: (nv,) desired acceleration.
        tau: (nu,) torques for the robot's model [N m]; updated.
    """
    for i in range(len(tau)):
        tau[i] += e.inertia[actuated[i]] * acceleration[actuated[i]]


@compiled()
def reset_rotor_inertia(e: RotorInertiaEstimate) -> None:
    """Resets the estimate: the model is assumed to be correct."""
    for i in range(len(e.inertia)):
        e.products[i] = 0.0
        e.moments[i] = 0.0
    e.squares[:] = 0.0
    e.weights[:] = 0.0
    e.inertia[:] = 0.0
    e.damping[:] = 0.0
    e.is_active = False


def make_rotor_inertia_parameters(
    robot: Robot, feet: Sequence[str], max_inertia: float, *, memory: float, correlation_time: float, dt: float
) -> RotorInertiaParameters:
    """Returns the parameters of the fit for a robot with independent joints.

    Args:
        robot: a legged robot.
        feet: names of the feet.
        max_inertia: largest rotor inertia that is used [kg m^2].
        memory: time constant with which samples of swings are forgotten [s].
        correlation_time: time over which the residual is correlated [s].
        dt: time between updates [s].
    """
    model, foot_index = robot.model, np.full(robot.nv, -1, dtype=np.int64)
    if robot.coupling is None:
        chains = [set(model.supports[model.frames[robot.frame_id(foot)].parentJoint]) for foot in feet]
        for i, chain in enumerate(chains):
            for j in chain.difference(*chains[:i], *chains[i + 1 :]):  # without joints that carry several feet
                if model.idx_vs[j] in robot.actuated_index:
                    foot_index[model.idx_vs[j]] = i
    M = Dynamics(robot, validate=False).update(robot.q_home, np.zeros(robot.nv)).M
    return RotorInertiaParameters(
        foot=foot_index,
        negligible_inertia=NEGLIGIBLE_FRACTION * M.diagonal(),
        max_inertia=max_inertia,
        decay=math.exp(-dt / memory),
        correlated_ticks=correlation_time / dt,
        smoothing_factor=min(1.0, dt / correlation_time),
    )


def make_rotor_inertia_estimate(robot: Robot) -> RotorInertiaEstimate:
    """Returns an estimate before its first tick."""
    n = robot.nv
    return RotorInertiaEstimate.allocate(
        previous_velocity=n, acceleration=n, velocity=n, products=(n, 3), moments=(n, 2), squares=n, weights=n,
        inertia=n, damping=n,
    )  # fmt: skip
