"""`TouchdownDetector`: feet in contact from estimated forces, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..compiler import IntVector, Record, Vector, compiled, entry, vec3
from ..contact import ContactEvent, ContactEvents
from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .foot_forces import FootForces, FootLoads

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


@renamed_attributes(
    on="touchdown_threshold",
    off="liftoff_threshold",
    dwell="dwell_time",
    touching="feet_in_contact",
    raise_to="raise_thresholds",
)
class TouchdownDetector(StrictAttributes, fixed=("touchdown_threshold", "liftoff_threshold", "dwell_time", "events")):
    """Detector of the feet in contact: a Schmitt trigger on the normal force of each foot.

    A foot is in contact when its normal force has been above `touchdown_threshold` for `dwell_time`, and in the air
    again when it has been below `liftoff_threshold` for as long.  Noise smaller than the difference of the thresholds
    and spikes shorter than `dwell_time` cause no events.

    Args:
        robot: a robot with feet; all in the air at the start.
        touchdown_threshold: normal force of a touchdown [N]; None for a fifth of the weight per foot.
        liftoff_threshold: normal force of a lift-off [N], below `touchdown_threshold`; None for half of it.
        dwell_time: time for which a threshold has to be passed [s].

    Attributes:
        events: touchdowns and lift-offs with their times, see `ContactEvents`.

    Raises:
        ArgumentTypeError: `robot` is not a Robot.
        ArgumentError: the robot has no feet, or not ``0 < liftoff_threshold < touchdown_threshold``.
    """

    @renamed_parameters(on="touchdown_threshold", off="liftoff_threshold", dwell="dwell_time")
    def __init__(
        self,
        robot: Robot,
        *,
        touchdown_threshold: float | None = None,
        liftoff_threshold: float | None = None,
        dwell_time: float = 0.003,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if not robot.feet:
            raise ArgumentError(f"robot: expected a robot with feet, got {robot.name!r}, which has none")
        weight = robot.mass * float(np.linalg.norm(robot.model.gravity.linear)) / len(robot.feet)
        self.touchdown_threshold = (
            TOUCHDOWN_FORCE_FRACTION * weight
            if touchdown_threshold is None
            else check_number("touchdown_threshold", touchdown_threshold)
        )
        self.liftoff_threshold = (
            LIFTOFF_FORCE_RATIO * self.touchdown_threshold
            if liftoff_threshold is None
            else check_number("liftoff_threshold", liftoff_threshold)
        )
        if not 0.0 < self.liftoff_threshold < self.touchdown_threshold < np.inf:
            raise ArgumentError(
                "touchdown_threshold, liftoff_threshold: expected 0 < liftoff < touchdown [N], got "
                f"{self.liftoff_threshold} and {self.touchdown_threshold}"
            )
        self.dwell_time = check_number("dwell_time", dwell_time)
        if not 0.0 <= self.dwell_time < np.inf:
            raise ArgumentError(f"dwell_time: expected a time of 0 or more [s], got {dwell_time}")
        self._feet = robot.feet
        self._trigger = make_schmitt_trigger(
            len(robot.feet), self.touchdown_threshold, self.liftoff_threshold, self.dwell_time
        )
        self._forces = FootForces(robot.feet)
        self.events = ContactEvents(robot.feet)
        self.reset()

    @property
    def feet_in_contact(self) -> tuple[str, ...]:
        """Names of the feet in contact."""
        return self.events.in_contact

    def reset(self) -> None:
        """Resets the detector: all feet in the air, no events."""
        self.events.reset()
        self._last = -np.inf
        reset_triggers(self._trigger)

    def raise_thresholds(self, force: float) -> None:
        """Raises the touchdown threshold to a force, and the lift-off threshold in proportion; never below those given.

        Args:
            force: normal force that may be an error of the estimate [N].
        """
        raise_thresholds(self._trigger, check_number("force", force))

    def update(
        self, time: float, forces: Mapping[str, Array] | Array, *, normal: Array | None = None
    ) -> tuple[ContactEvent, ...]:
        """Updates the contact states from forces and returns the new touchdowns and lift-offs.

        Args:
            time: present time [s].
            forces: (3,) by name of the foot, or (nf, 3) of all feet, on the robot, world axes [N]; feet that are left
                out keep their state.
            normal: (3,) unit normal out of the ground, or (nf, 3) of the ground under each foot; None for world z.

        Raises:
            UnknownNameError: there is no such foot.
            ArgumentError: a force has a wrong shape or is not finite, or the time decreases.
        """
        trigger, foot_forces = self._trigger, self._forces
        foot_forces.set_normals(normal)
        time = check_number("time", time)
        if not time >= self._last:  # False of NaN
            raise ArgumentError(f"time: expected at least the time of the previous call, {self._last}, got {time}")
        foot_forces.set_forces(forces)
        self._last = time
        if not update_triggers(trigger, foot_forces.loads, time):
            return ()
        states = zip(self._feet, trigger.changed.tolist(), trigger.in_contact.tolist(), strict=True)
        return self.events.update(time, {foot: bool(in_contact) for foot, changed, in_contact in states if changed})
