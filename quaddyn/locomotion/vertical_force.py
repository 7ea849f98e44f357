"""`VerticalForceProfile`: vertical contact force of a gait over its cycle, and the vertical motion that it causes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import Array, FrozenArrays

#: Time over which the load of a foot ramps up after touchdown and down before lift-off [cycles].
LOADING_TIME = 0.06
#: Number of samples per cycle.
N_CYCLE_SAMPLES = 256
#: Number of fully loaded feet that carry the full vertical force; with less load the force is proportionally smaller.
FULL_SUPPORT_FEET = 2.0


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
    phase = np.arange(N_CYCLE_SAMPLES) / N_CYCLE_SAMPLES
    load = np.zeros(N_CYCLE_SAMPLES)
    for offset in phase_offsets:
        x = (phase - offset) % 1.0
        load += np.clip(np.minimum(x, duty_factor - x) / LOADING_TIME, 0.0, 1.0)
    force = np.minimum(load / FULL_SUPPORT_FEET, 1.0)
    force /= force.mean()
    acceleration = (force - 1.0) / N_CYCLE_SAMPLES
    rate = np.cumsum(acceleration)
    rate -= rate.mean()
    height = np.cumsum(rate) / N_CYCLE_SAMPLES
    return VerticalForceProfile(
        force, rate, height - height.mean(), bool(load.min() <= 0.0), bool(load.min() >= FULL_SUPPORT_FEET - 1e-9)
    )
