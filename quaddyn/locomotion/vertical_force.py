"""`VerticalForceProfile`: vertical contact force of a gait over its cycle, and the vertical motion that it causes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import Array, FrozenArrays
from .force_profile import N_CYCLE_SAMPLES, allocate_force_profile, compute_force_profile


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

    def sample(self, phase: float) -> tuple[float, float, float]:
        """Returns force, rate and height at a phase of the cycle [cycles], by linear interpolation of the samples."""
        position = phase % 1.0 * N_CYCLE_SAMPLES
        i, j = int(position) % N_CYCLE_SAMPLES, int(position + 1.0) % N_CYCLE_SAMPLES
        fraction = position - int(position)
        force, rate, height = (
            float(x[i]) + fraction * float(x[j] - x[i]) for x in (self.force, self.rate, self.height)
        )
        return force, rate, height


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
