"""`VerticalForceProfile`: vertical contact force of a gait over its cycle, and the vertical motion that it causes."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from ..compiler import Record, Vector, compiled, entry
from ..urdf.tree import Array, FrozenArrays

#: Time over which the load of a foot ramps up after touchdown and down before lift-off [cycles].
LOADING_TIME = 0.06
#: Number of samples per cycle.
N_CYCLE_SAMPLES = 256
#: Number of fully loaded feet that carry the full vertical force; with less load the force is proportionally smaller.
FULL_SUPPORT_FEET = 2.0
#: Rounding of the load [feet].
LOAD_TOLERANCE = 1e-9
#: Shapes of the arrays of a `ForceProfile`.
FORCE_PROFILE_SHAPES = {
    "phase_offsets": 4,
    "force": N_CYCLE_SAMPLES,
    "rate": N_CYCLE_SAMPLES,
    "height": N_CYCLE_SAMPLES,
}


class ForceProfile(Record):
    """Vertical contact force over a cycle, and the vertical motion that it causes; see `VerticalForceProfile`."""

    phase_offsets: Vector  # (4,) for which the samples were computed [cycles]
    duty_factor: float  # likewise
    force: Vector  # (N_CYCLE_SAMPLES,) vertical force, divided by the weight
    rate: Vector  # (N_CYCLE_SAMPLES,) vertical velocity, divided by g T with the period T
    height: Vector  # (N_CYCLE_SAMPLES,) height minus its mean, divided by g T^2
    has_flight_phase: bool  # whether no foot is loaded at some instant
    is_constant: bool  # whether the force equals the weight at all times


@compiled()
def compute_load(phase: float, phase_offsets: Vector, duty_factor: float) -> float:
    """Returns the number of loaded feet at a phase of the cycle [cycles]."""
    load = 0.0
    for foot in range(len(phase_offsets)):
        x = phase - phase_offsets[foot]
        x -= math.floor(x)
        load += min(max(min(x, duty_factor - x) / LOADING_TIME, 0.0), 1.0)
    return load


@compiled()
def subtract_mean(x: Vector) -> None:
    """Subtracts the mean of the entries from each of them."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    mean = total / len(x)
    for i in range(len(x)):
        x[i] -= mean


@entry("vertical force of the gait")
def compute_force_profile(profile: ForceProfile, phase_offsets: Vector, duty_factor: float) -> None:
    """Computes the samples of a gait, unless the profile has them already.

    Args:
        profile: written.
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time of each foot divided by the period.
    """
    is_known = profile.duty_factor == duty_factor
    for foot in range(len(phase_offsets)):
        is_known = is_known and profile.phase_offsets[foot] == phase_offsets[foot]
    if is_known:
        return
    profile.duty_factor = duty_factor
    profile.phase_offsets[:] = phase_offsets
    n = len(profile.force)
    total, min_load = 0.0, math.inf
    for i in range(n):
        load = compute_load(i / n, phase_offsets, duty_factor)
        min_load = min(min_load, load)
        profile.force[i] = min(load / FULL_SUPPORT_FEET, 1.0)
        total += profile.force[i]
    profile.has_flight_phase = min_load <= 0.0
    profile.is_constant = min_load >= FULL_SUPPORT_FEET - LOAD_TOLERANCE
    rate, height = 0.0, 0.0
    for i in range(n):
        profile.force[i] *= n / total
        rate += (profile.force[i] - 1.0) / n
        profile.rate[i] = rate
    subtract_mean(profile.rate)
    for i in range(n):
        height += profile.rate[i] / n
        profile.height[i] = height
    subtract_mean(profile.height)


def allocate_force_profile() -> ForceProfile:
    """Returns a profile without samples."""
    return ForceProfile.allocate(**FORCE_PROFILE_SHAPES)


@dataclass(frozen=True, slots=True, eq=False)
class VerticalForceProfile(FrozenArrays):
    """Vertical contact force over a cycle, and the vertical motion that it causes.

    The force is proportional to the load of the feet, up to that of two: constant for gaits that always stand on two
    feet, a trapezoid per stance for gaits with flight phases, zero in flight.  Its mean is the weight, so that the
    motion is periodic: ``zddot = g (force - 1)``.

    Attributes:
        force: (N_CYCLE_SAMPLES,) vertical force, divided by the weight.
        rate: (N_CYCLE_SAMPLES,) vertical velocity, divided by ``g T`` with the period T.
        height: (N_CYCLE_SAMPLES,) height minus its mean, divided by ``g T^2``.
        has_flight_phase: whether no foot is loaded at some instant.
        is_constant: whether the force equals the weight at all times.
    """

    force: Array
    rate: Array
    height: Array
    has_flight_phase: bool
    is_constant: bool


@functools.lru_cache(maxsize=256)
def compute_vertical_force_profile(phase_offsets: tuple[float, ...], duty_factor: float) -> VerticalForceProfile:
    """Computes the vertical force profile of a gait.

    Args:
        phase_offsets: (4,) phase of each foot's touchdown [cycles].
        duty_factor: stance time of each foot divided by the period.
    """
    profile = allocate_force_profile()
    compute_force_profile(profile, np.array(phase_offsets), float(duty_factor))
    return VerticalForceProfile(
        profile.force, profile.rate, profile.height, profile.has_flight_phase, profile.is_constant
    )
