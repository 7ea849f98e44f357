"""How a contact is made and broken: its activation from 0 to 1 or back, and the bound of its normal force meanwhile."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiling import IntVector, Vector, compiled


class ContactRamps(NamedTuple):
    """The activation of each contact: 0 apart, 1 made, in between while it is made or broken.

    Making, the normal force may not exceed ``F s / (1 - s)``, which grows from 0 without bound as the activation s goes
    from 0 to 1; breaking, ``f s``, with f the force at the moment of release.  F is the weight over the number of
    contacts.  A change of mind half-way starts at the bound it finds, with what is left of the way for s.
    """

    activation: Vector  # s
    cap: Vector  # largest normal force [N]
    making: IntVector  # whether it is on the way to 1
    offset: Vector  # cap where the ramp began [N]
    start: Vector  # activation where the ramp began
    unit: Vector  # F [N]


def make_ramps(count: int) -> ContactRamps:
    """Of so many contacts, all apart."""
    floats = [np.zeros(count) for _ in range(5)]
    return ContactRamps(floats[0], floats[1], np.zeros(count, dtype=np.int64), *floats[2:])


@compiled()
def set_ramp(ramps: ContactRamps, c: int, wanted: bool) -> None:
    """Contact c made or apart at once."""
    ramps.making[c] = int(wanted)
    ramps.activation[c] = 1.0 if wanted else 0.0
    ramps.cap[c] = math.inf if wanted else 0.0
    ramps.offset[c] = 0.0
    ramps.start[c] = 0.0
    ramps.unit[c] = 0.0


@compiled()
def advance_ramp(ramps: ContactRamps, c: int, wanted: bool, step: float, load: float, force: float) -> None:
    """Contact c one tick on.

    Args:
        ramps: of all contacts.
        c: which.
        wanted: whether the contact is to be.
        step: change of the activation per tick; 1 or more switches at once.
        load: F [N].
        force: normal force of the tick before [N].
    """
    if int(wanted) != ramps.making[c]:
        ramps.making[c] = int(wanted)
        ramps.start[c] = ramps.activation[c]
        ramps.offset[c] = ramps.cap[c] if wanted else min(ramps.cap[c], max(force, 0.0))
        ramps.unit[c] = load
    s, start = ramps.activation[c], ramps.start[c]
    if wanted:
        # an activation within rounding of 1 is 1: the last step of a ramp must not be a spurious tick
        s = 1.0 if s + step > 1.0 - 1e-9 else s + step
        ramps.cap[c] = math.inf
        if s < 1.0:
            progress = (s - start) / (1.0 - start)
            ramps.cap[c] = ramps.offset[c] + ramps.unit[c] * progress / (1.0 - progress)
        ramps.activation[c] = s
    elif s > 0.0:
        s = 0.0 if s - step < 1e-9 else s - step
        ramps.cap[c] = ramps.offset[c] * s / start
        ramps.activation[c] = s


@compiled()
def switch_contact(
    ramps: ContactRamps, c: int, wanted: bool, at_once: bool, step: float, load: float, force: float
) -> bool:
    """Contact c one tick on, or at once; whether it has been made now.  Arguments as of `advance_ramp`."""
    was = ramps.activation[c]
    if not at_once:
        advance_ramp(ramps, c, wanted, step, load, force)
    elif was != (1.0 if wanted else 0.0):
        set_ramp(ramps, c, wanted)
    made: bool = was < 1.0 and ramps.activation[c] >= 1.0
    return made


@compiled()
def carried(force: Vector, normal: Vector, along: bool) -> float:
    """What a contact carries: its force's part along the normal (3,), or, where that does not bound it, its length."""
    part: float = force[0] * normal[0] + force[1] * normal[1] + force[2] * normal[2]
    if along:
        return part
    return math.sqrt(force[0] * force[0] + force[1] * force[1] + force[2] * force[2])
