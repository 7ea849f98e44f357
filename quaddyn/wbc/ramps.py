"""How a contact is made and broken: its activation from 0 to 1 or back, and the bound of its normal force meanwhile."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Vector, compiled
from .data import Contacts

#: What came of a tick: all contacts have arrived; some has just been made.
SETTLED, MADE = 1, 2


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
    made: IntVector  # whether it arrived at 1 at this tick


def make_ramps(count: int) -> ContactRamps:
    """Of so many contacts, all apart."""
    activation, cap, offset, start, unit = (np.zeros(count) for _ in range(5))
    making, made = (np.zeros(count, dtype=np.int64) for _ in range(2))
    return ContactRamps(activation, cap, making, offset, start, unit, made)


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


@compiled(inline=False)
def advance_contacts(
    ramps: ContactRamps, contacts: Contacts, wanted: IntVector, step: float, weight: float, force: Matrix
) -> int:
    """All contacts one tick on, their shares and caps with them; what came of it, `SETTLED` and `MADE` or none.

    Args:
        ramps: of each contact.
        contacts: as they are now; `share` and `cap` are written.
        wanted: whether each is to be.
        step: as of `advance_ramp`; infinite for at once.
        weight: of the robot [N].
        force: (contacts, 6) of the tick before [N, N m].
    """
    count, settled, made = 0, SETTLED, 0
    for c in range(len(wanted)):
        count += wanted[c]
    load = weight / max(1, count)
    for c in range(len(wanted)):
        on, was = wanted[c] != 0, ramps.activation[c]
        goal = 1.0 if on else 0.0
        if step != math.inf:
            along = contacts.pushes[c] != 0 and contacts.surface[c] == 0
            advance_ramp(ramps, c, on, step, load, carried(force[c], contacts.normal[c], along))
        elif was != goal or (on and ramps.cap[c] != math.inf):  # a ramp may have begun too slowly to move s
            set_ramp(ramps, c, on)
        s = ramps.activation[c]
        if s != goal:
            settled = 0
        ramps.made[c] = int(was < 1.0 and s >= 1.0)
        if ramps.made[c] != 0:
            made = MADE
        contacts.share[c] = s
        contacts.cap[c] = ramps.cap[c]
    return settled + made


@compiled()
def carried(force: Vector, normal: Vector, along: bool) -> float:
    """What a contact carries: its force's part along the normal (3,), or, where that does not bound it, its length."""
    part: float = force[0] * normal[0] + force[1] * normal[1] + force[2] * normal[2]
    if along:
        return part
    return math.sqrt(force[0] * force[0] + force[1] * force[1] + force[2] * force[2])
