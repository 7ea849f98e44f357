"""`TouchdownDetector`: which feet touch, from estimated forces, without trembling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..contact import ContactEvent, ContactEvents
from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .foot_forces import FootForces
from .touchdown_kernel import SchmittTrigger, update_triggers


@renamed_attributes(
    on="touchdown_threshold",
    off="liftoff_threshold",
    dwell="dwell_time",
    touching="feet_in_contact",
    raise_to="raise_thresholds",
)
class TouchdownDetector(StrictAttributes, fixed=("touchdown_threshold", "liftoff_threshold", "dwell_time", "events")):
    """A Schmitt trigger on the normal force of each foot.

    A foot touches when its force along the normal has been above `touchdown_threshold` for `dwell_time`, and is in the
    air again when it has been below `liftoff_threshold` for as long: between the two thresholds nothing changes, so
    that noise smaller than their difference makes no event, nor does any spike shorter than `dwell_time`.

    Args:
        robot: whose feet; all in the air at the start.
        touchdown_threshold: threshold of touching [N]; by default a fifth of the weight that a foot carries in a stance
            on all.
        liftoff_threshold: threshold of letting go [N], below `touchdown_threshold`; by default half of it.
        dwell_time: how long a threshold has to be passed [s].

    Attributes:
        events: touchdowns and lift-offs with their times, see `ContactEvents`.

    Raises:
        ArgumentTypeError: no robot.
        ArgumentError: no feet, or thresholds that are not ``0 < off < on``.
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
            raise ArgumentError(f"robot: expected one with feet, got {robot.name!r}")
        weight = robot.mass * float(np.linalg.norm(robot.model.gravity.linear)) / len(robot.feet)
        self.touchdown_threshold = (
            0.2 * weight if touchdown_threshold is None else number("touchdown_threshold", touchdown_threshold)
        )
        self.liftoff_threshold = (
            0.5 * self.touchdown_threshold
            if liftoff_threshold is None
            else number("liftoff_threshold", liftoff_threshold)
        )
        if not 0.0 < self.liftoff_threshold < self.touchdown_threshold < np.inf:
            raise ArgumentError(
                "touchdown_threshold, liftoff_threshold: expected 0 < liftoff < touchdown [N], got "
                f"{self.liftoff_threshold} and {self.touchdown_threshold}"
            )
        self.dwell_time = number("dwell_time", dwell_time)
        if not 0.0 <= self.dwell_time < np.inf:
            raise ArgumentError(f"dwell_time: expected a time of 0 or more [s], got {dwell_time}")
        self._feet, n = robot.feet, len(robot.feet)
        flags = [np.zeros(n, dtype=np.int64) for _ in range(3)]
        self._trigger = SchmittTrigger(
            self.touchdown_threshold, self.liftoff_threshold, self.dwell_time, flags[0], flags[1], np.zeros(n), flags[2]
        )
        self._forces = FootForces(robot.feet)
        self.events = ContactEvents(robot.feet)
        self.reset()

    @property
    def feet_in_contact(self) -> tuple[str, ...]:
        """Feet on the ground."""
        return self.events.touching

    def reset(self) -> None:
        """All feet in the air, no history."""
        self.events.reset()
        self._last = -np.inf
        self._trigger.in_contact[:] = self._trigger.is_beyond_threshold[:] = 0

    def raise_thresholds(self, force: float) -> None:
        """Raises the threshold of touching to a force, and that of letting go with it; never below `on` and `off`.

        Args:
            force: normal force that may be an error of the estimate [N].
        """
        scale = max(1.0, number("force", force) / self.touchdown_threshold)
        self._trigger = self._trigger._replace(
            touchdown_threshold=scale * self.touchdown_threshold, liftoff_threshold=scale * self.liftoff_threshold
        )

    def update(
        self, time: float, forces: Mapping[str, Array] | Array, *, normal: Array | None = None
    ) -> tuple[ContactEvent, ...]:
        """What changed.

        Args:
            time: now [s].
            forces: (3,) by foot, or (nf, 3) of all feet, on the robot, world axes [N]; feet left out stay as they are.
            normal: (3,) unit vector out of the ground, or (nf, 3) of the ground under each foot; world z by default.

        Raises:
            UnknownNameError: no such foot.
            ArgumentError: a force of another shape or not finite, or time running backwards.
        """
        trigger, forced = self._trigger, self._forces
        n = forced.set_normals(normal)
        time = number("time", time)
        if not time >= self._last:  # False of NaN
            raise ArgumentError(f"time: expected no less than the last one, {self._last}, got {time}")
        forced.set_forces(forces)
        self._last = time
        if not update_triggers(trigger, time, forced.values, forced.has_force, n):
            return ()
        change = zip(self._feet, trigger.changed.tolist(), trigger.in_contact.tolist(), strict=True)
        return self.events.update(time, {foot: bool(touches) for foot, changed, touches in change if changed})
