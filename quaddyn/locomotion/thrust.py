"""`Thrust`: how hard a gait pushes off the ground over its cycle, and how the centre of mass rises and sinks."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import Array, FrozenArrays

#: Time over which a foot takes its load and gives it back, in cycles.
LOADING = 0.06
#: Instants of a cycle.
SAMPLES = 256
#: So many feet carry all that is asked for; fewer, as they take their load or give it back, less.
CARRYING = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Thrust(FrozenArrays):
    """Vertical force over a cycle, and the motion that it causes.

    The force follows the load of the feet, up to that of two: constant for gaits that always stand on two, a trapezoid
    of each stance for gaits with flight phases, zero in flight.  Its mean is the weight, so that the motion repeats:
    ``zddot = g (push - 1)``.

    Attributes:
        push: (SAMPLES,) vertical force, in weights.
        rate: (SAMPLES,) vertical velocity, in ``g T`` with the period T.
        rise: (SAMPLES,) height over its mean, in ``g T^2``.
        flies: whether there is an instant at which nobody carries.
        steady: whether the force is the weight throughout.
    """

    push: Array
    rate: Array
    rise: Array
    flies: bool
    steady: bool

    def at(self, phase: float) -> tuple[float, float, float]:
        """Push, rate and rise at a phase of the cycle."""
        place = phase % 1.0 * SAMPLES
        i, j = int(place) % SAMPLES, int(place + 1.0) % SAMPLES
        share = place - int(place)
        push, rate, rise = (float(x[i]) + share * float(x[j] - x[i]) for x in (self.push, self.rate, self.rise))
        return push, rate, rise


@functools.lru_cache(maxsize=256)
def thrust(offsets: tuple[float, ...], duty: float) -> Thrust:
    """Of a gait.

    Args:
        offsets: phase of each foot's touchdown.
        duty: share of the period that each foot is on the ground.
    """
    phase = np.arange(SAMPLES) / SAMPLES
    load = np.zeros(SAMPLES)
    for offset in offsets:
        x = (phase - offset) % 1.0
        load += np.clip(np.minimum(x, duty - x) / LOADING, 0.0, 1.0)
    push = np.minimum(load / CARRYING, 1.0)
    push /= push.mean()
    acceleration = (push - 1.0) / SAMPLES
    rate = np.cumsum(acceleration)
    rate -= rate.mean()
    rise = np.cumsum(rate) / SAMPLES
    return Thrust(push, rate, rise - rise.mean(), bool(load.min() <= 0.0), bool(load.min() >= CARRYING - 1e-9))
