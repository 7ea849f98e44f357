"""The triggers of `TouchdownDetector`, in restricted Python."""

from __future__ import annotations

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Vector, entry


class SchmittTrigger(NamedTuple):
    """Thresholds, and what each foot's trigger remembers."""

    touchdown_threshold: float  # of touching [N]
    liftoff_threshold: float  # of letting go [N]
    dwell_time: float  # how long a threshold has to be passed [s]
    in_contact: IntVector  # (nf,) whether it touches
    is_beyond_threshold: IntVector  # (nf,) whether the threshold is being passed
    since: Vector  # (nf,) since when, then [s]
    changed: IntVector  # (nf,) whether it began or ceased to touch at the last update


@entry("the touchdown detector")
def update_triggers(t: SchmittTrigger, time: float, forces: Matrix, given: IntVector, normals: Matrix) -> int:
    """How many feet began or ceased to touch.

    Args:
        t: the triggers.
        time: now [s].
        forces: (nf, 3) [N].
        given: (nf,) whether there is a force; feet without stay as they are.
        normals: (nf, 3) unit, out of the ground under each foot.
    """
    count = 0
    for i in range(len(given)):
        t.changed[i] = 0
        if given[i] == 0:
            continue
        force = forces[i, 0] * normals[i, 0] + forces[i, 1] * normals[i, 1] + forces[i, 2] * normals[i, 2]
        passed = force < t.liftoff_threshold if t.in_contact[i] != 0 else force > t.touchdown_threshold
        if not passed:
            t.is_beyond_threshold[i] = 0
            continue
        if t.is_beyond_threshold[i] == 0:
            t.is_beyond_threshold[i] = 1
            t.since[i] = time
        if time - t.since[i] >= t.dwell_time * (1.0 - 1e-9):  # sums of periods are off by rounding
            t.is_beyond_threshold[i] = 0
            t.in_contact[i] = 1 - t.in_contact[i]
            t.changed[i] = 1
            count += 1
    return count
