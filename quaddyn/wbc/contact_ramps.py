"""Ramps of contacts that are made or broken: activation between 0 and 1, and upper bound of the normal force."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Vector, compiled
from .tick_data import ContactStateData

#: Flags of a tick: all ramps are at their ends; a contact has reached activation 1 at this tick.
ALL_RAMPS_ENDED, CONTACT_COMPLETED = 1, 2


class ContactRamps(NamedTuple):
    """Activation of each contact: 0 inactive, 1 closed, in between while the contact is made or broken.

    While a contact is made, the normal force may not exceed ``F s / (1 - s)``, which grows from 0 without bound as the
    activation s goes from 0 to 1; while it is broken, it may not exceed ``f s``, with f the force when the ramp began.
    F is the robot's weight divided by the number of contacts.  A ramp that is reversed half-way starts at the current
    cap, with the remaining distance of s.
    """

    activation: Vector  # s
    cap: Vector  # largest normal force [N]
    is_rising: IntVector  # whether the activation is increasing
    start_cap: Vector  # cap where the ramp began [N]
    start_activation: Vector  # activation where the ramp began
    force_unit: Vector  # F [N]
    was_completed: IntVector  # whether the activation reached 1 at this tick


def make_ramps(count: int) -> ContactRamps:
    """Returns ramps of `count` contacts, all inactive."""
    activation, cap, start_cap, start_activation, force_unit = (np.zeros(count) for _ in range(5))
    is_rising, was_completed = (np.zeros(count, dtype=np.int64) for _ in range(2))
    return ContactRamps(activation, cap, is_rising, start_cap, start_activation, force_unit, was_completed)


@compiled()
def set_ramp(ramps: ContactRamps, c: int, requested: bool) -> None:
    """Sets contact c to closed or inactive at once."""
    ramps.is_rising[c] = int(requested)
    ramps.activation[c] = 1.0 if requested else 0.0
    ramps.cap[c] = math.inf if requested else 0.0
    ramps.start_cap[c] = 0.0
    ramps.start_activation[c] = 0.0
    ramps.force_unit[c] = 0.0


@compiled()
def advance_ramp(
    ramps: ContactRamps, c: int, requested: bool, step: float, force_unit: float, normal_force: float
) -> None:
    """Advances the ramp of contact c by one tick.

    Args:
        ramps: ramps of all contacts.
        c: index of the contact.
        requested: whether the contact should be made.
        step: change of the activation per tick; 1 or more switches at once.
        force_unit: F [N].
        normal_force: normal force of the tick before [N].
    """
    if int(requested) != ramps.is_rising[c]:
        ramps.is_rising[c] = int(requested)
        ramps.start_activation[c] = ramps.activation[c]
        ramps.start_cap[c] = ramps.cap[c] if requested else min(ramps.cap[c], max(normal_force, 0.0))
        ramps.force_unit[c] = force_unit
    s, start = ramps.activation[c], ramps.start_activation[c]
    if requested:
        # an activation within rounding of 1 is 1: the last step of a ramp must not be a spurious tick
        s = 1.0 if s + step > 1.0 - 1e-9 else s + step
        ramps.cap[c] = math.inf
        if s < 1.0:
            progress = (s - start) / (1.0 - start)
            ramps.cap[c] = ramps.start_cap[c] + ramps.force_unit[c] * progress / (1.0 - progress)
        ramps.activation[c] = s
    elif s > 0.0:
        s = 0.0 if s - step < 1e-9 else s - step
        ramps.cap[c] = ramps.start_cap[c] * s / start
        ramps.activation[c] = s


@compiled(inline=False)
def advance_contacts(
    ramps: ContactRamps, contacts: ContactStateData, requested: IntVector, step: float, weight: float, force: Matrix
) -> int:
    """Advances the ramps of all contacts by one tick, with their activations and caps.

    Args:
        ramps: ramps of all contacts.
        contacts: state of the contacts; activation and cap are written.
        requested: whether each contact should be made.
        step: change of the activation per tick; 1 or more switches at once.
        weight: weight of the robot [N].
        force: (contacts, 6) forces of the tick before [N, N m].

    Returns:
        The sum of the flags `ALL_RAMPS_ENDED` and `CONTACT_COMPLETED`, or 0.
    """
    count, settled, completed = 0, ALL_RAMPS_ENDED, 0
    for c in range(len(requested)):
        count += requested[c]
    force_unit = weight / max(1, count)
    for c in range(len(requested)):
        is_requested, previous = requested[c] != 0, ramps.activation[c]
        goal = 1.0 if is_requested else 0.0
        if step != math.inf:
            has_normal = contacts.is_unilateral[c] != 0 and contacts.is_surface[c] == 0
            advance_ramp(
                ramps, c, is_requested, step, force_unit, contact_load(force[c], contacts.normal[c], has_normal)
            )
        elif previous != goal or (
            is_requested and ramps.cap[c] != math.inf
        ):  # a ramp may have begun too slowly to move s
            set_ramp(ramps, c, is_requested)
        s = ramps.activation[c]
        if s != goal:
            settled = 0
        ramps.was_completed[c] = int(previous < 1.0 and s >= 1.0)
        if ramps.was_completed[c] != 0:
            completed = CONTACT_COMPLETED
        contacts.activation[c] = s
        contacts.cap[c] = ramps.cap[c]
    return settled + completed


@compiled()
def contact_load(force: Vector, normal: Vector, has_normal: bool) -> float:
    """Returns the load of a contact: the force along the normal (3,), or the norm of the force without a normal."""
    normal_force: float = force[0] * normal[0] + force[1] * normal[1] + force[2] * normal[2]
    if has_normal:
        return normal_force
    return math.sqrt(force[0] * force[0] + force[1] * force[1] + force[2] * force[2])
