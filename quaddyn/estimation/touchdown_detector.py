"""`TouchdownDetector`: feet in contact from estimated forces, with hysteresis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..contact import ContactEvent, ContactEvents
from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .foot_forces import FootForces
from .touchdown_kernel import (
    LIFTOFF_FORCE_RATIO,
    TOUCHDOWN_FORCE_FRACTION,
    make_schmitt_trigger,
    raise_thresholds,
    reset_triggers,
    update_triggers,
)


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
