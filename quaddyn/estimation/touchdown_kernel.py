"""Compiled function of `TouchdownDetector`."""

from __future__ import annotations

from ..compiler import IntVector, Record, Vector, compiled, entry, vec3
from .foot_loads import FootLoads

#: Default normal force of a touchdown, as a fraction of the weight per foot, and of a lift-off, as a fraction of that.
TOUCHDOWN_FORCE_FRACTION, LIFTOFF_FORCE_RATIO = 0.2, 0.5


class SchmittTrigger(Record):
    """Thresholds and states of the Schmitt triggers on the normal forces of all feet."""

    touchdown_threshold: float  # normal force of a touchdown [N]
    liftoff_threshold: float  # normal force of a lift-off [N]
    threshold_scale: float  # factor by which both thresholds are raised
    dwell_time: float  # time for which a threshold has to be passed [s]
    in_contact: IntVector  # (nf,) whether a foot is in contact
    is_beyond_threshold: IntVector  # (nf,) whether the force is beyond the threshold of the next event
    passed_since: Vector  # (nf,) time since which the force is beyond the threshold [s]
    changed: IntVector  # (nf,) whether the contact state changed at the last update


def make_schmitt_trigger(
    n: int, touchdown_threshold: float, liftoff_threshold: float, dwell_time: float
) -> SchmittTrigger:
    """Creates the triggers of n feet that are all in the air.

    Args:
        n: number of feet.
        touchdown_threshold: normal force of a touchdown [N].
        liftoff_threshold: normal force of a lift-off [N].
        dwell_time: time for which a threshold has to be passed [s].
    """
    trigger = SchmittTrigger.allocate(in_contact=n, is_beyond_threshold=n, passed_since=n, changed=n)
    trigger.touchdown_threshold, trigger.liftoff_threshold = touchdown_threshold, liftoff_threshold
    trigger.threshold_scale, trigger.dwell_time = 1.0, dwell_time
    return trigger


@compiled()
def reset_triggers(t: SchmittTrigger) -> None:
    """Resets the contact states: all feet in the air.  The thresholds do not change."""
    for i in range(len(t.in_contact)):
        t.in_contact[i] = 0
        t.is_beyond_threshold[i] = 0


@compiled()
def raise_thresholds(t: SchmittTrigger, force: float) -> None:
    """Raises the touchdown threshold to a force [N], and the lift-off threshold in proportion.

    With a force below the touchdown threshold, both get their original values.
    """
    t.threshold_scale = max(1.0, force / t.touchdown_threshold)


@compiled()
def update_trigger(t: SchmittTrigger, i: int, time: float, force: float) -> bool:
    """Updates the contact state of a foot and returns whether it changed.

    Args:
        t: the triggers; updated.
        i: index of the foot.
        time: present time [s].
        force: normal force [N].
    """
    t.changed[i] = 0
    has_changed = False
    is_beyond = force > t.threshold_scale * t.touchdown_threshold
    if t.in_contact[i] != 0:
        is_beyond = force < t.threshold_scale * t.liftoff_threshold
    if not is_beyond:
        t.is_beyond_threshold[i] = 0
        return False
    if t.is_beyond_threshold[i] == 0:
        t.is_beyond_threshold[i] = 1
        t.passed_since[i] = time
    if time - t.passed_since[i] >= t.dwell_time * (1.0 - 1e-9):  # tolerance for rounded sums of periods
        t.is_beyond_threshold[i] = 0
        t.in_contact[i] = 1 - t.in_contact[i]
        t.changed[i] = 1
        has_changed = True
    return has_changed


@entry("the touchdown detector")
def update_triggers(t: SchmittTrigger, loads: FootLoads, time: float) -> int:
    """Updates the contact states of all feet from their forces and returns how many changed.

    Args:
        t: the triggers; updated.
        loads: forces and normals; feet without a force keep their state.
        time: present time [s].
    """
    count = 0
    for i in range(len(t.in_contact)):
        t.changed[i] = 0
        if loads.has_force[i] != 0 and update_trigger(t, i, time, vec3(loads.forces[i]) @ vec3(loads.normals[i])):
            count += 1
    return count
