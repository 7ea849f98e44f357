"""Compiled function of `TouchdownDetector`."""

from __future__ import annotations

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Vector, entry


class SchmittTrigger(NamedTuple):
    """Thresholds and states of the Schmitt triggers on the normal forces of all feet."""

    touchdown_threshold: float  # normal force of a touchdown [N]
    liftoff_threshold: float  # normal force of a lift-off [N]
    dwell_time: float  # time for which a threshold has to be passed [s]
    in_contact: IntVector  # (nf,) whether a foot is in contact
    is_beyond_threshold: IntVector  # (nf,) whether the force is beyond the threshold of the next event
    passed_since: Vector  # (nf,) time since which the force is beyond the threshold [s]
    changed: IntVector  # (nf,) whether the contact state changed at the last update


@entry("the touchdown detector")
def update_triggers(t: SchmittTrigger, time: float, forces: Matrix, given: IntVector, normals: Matrix) -> int:
    """Updates the contact states of all feet from their forces and returns how many changed.

    Args:
        t: the triggers; updated.
        time: present time [s].
        forces: (nf, 3) contact forces on the robot, world axes [N].
        given: (nf,) whether the force of a foot is given; feet without one keep their state.
        normals: (nf, 3) unit normals out of the ground under each foot.
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
            t.passed_since[i] = time
        if time - t.passed_since[i] >= t.dwell_time * (1.0 - 1e-9):  # tolerance for rounded sums of periods
            t.is_beyond_threshold[i] = 0
            t.in_contact[i] = 1 - t.in_contact[i]
            t.changed[i] = 1
            count += 1
    return count
