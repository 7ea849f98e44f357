"""`TouchdownDetector`: which feet touch, from estimated forces, without trembling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..contact import ContactEvent, ContactEvents
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .foot_forces import FootForces
from .force_trigger import Trigger, pull


class TouchdownDetector(StrictAttributes, fixed=("on", "off", "dwell", "events")):
    """A Schmitt trigger on the normal force of each foot.

    A foot touches when its force along the normal has been above `on` for `dwell`, and is in the air again when it has
    been below `off` for as long: between the two thresholds nothing changes, so that noise smaller than their
    difference makes no event, nor does any spike shorter than `dwell`.

    Args:
        robot: whose feet; all in the air at the start.
        on: threshold of touching [N]; by default a fifth of the weight that a foot carries in a stance on all.
        off: threshold of letting go [N], below `on`; by default half of it.
        dwell: how long a threshold has to be passed [s].

    Attributes:
        events: touchdowns and lift-offs with their times, see `ContactEvents`.

    Raises:
        ArgumentTypeError: no robot.
        ArgumentError: no feet, or thresholds that are not ``0 < off < on``.
    """

    def __init__(
        self, robot: Robot, *, on: float | None = None, off: float | None = None, dwell: float = 0.003
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if not robot.feet:
            raise ArgumentError(f"robot: expected one with feet, got {robot.name!r}")
        weight = robot.mass * float(np.linalg.norm(robot.model.gravity.linear)) / len(robot.feet)
        self.on = 0.2 * weight if on is None else number("on", on)
        self.off = 0.5 * self.on if off is None else number("off", off)
        if not 0.0 < self.off < self.on < np.inf:
            raise ArgumentError(f"on, off: expected 0 < off < on [N], got on = {self.on}, off = {self.off}")
        self.dwell = number("dwell", dwell)
        if not 0.0 <= self.dwell < np.inf:
            raise ArgumentError(f"dwell: expected a time of 0 or more [s], got {dwell}")
        self._feet, n = robot.feet, len(robot.feet)
        flags = [np.zeros(n, dtype=np.int64) for _ in range(3)]
        self._trigger = Trigger(self.on, self.off, self.dwell, flags[0], flags[1], np.zeros(n), flags[2])
        self._forces = FootForces(robot.feet)
        self.events = ContactEvents(robot.feet)
        self.reset()

    @property
    def touching(self) -> tuple[str, ...]:
        """Feet on the ground."""
        return self.events.touching

    def reset(self) -> None:
        """All feet in the air, no history."""
        self.events.reset()
        self._last = -np.inf
        self._trigger.touching[:] = self._trigger.passing[:] = 0

    def raise_to(self, force: float) -> None:
        """Raises the threshold of touching to a force, and that of letting go with it; never below `on` and `off`.

        Args:
            force: normal force that may be an error of the estimate [N].
        """
        scale = max(1.0, number("force", force) / self.on)
        self._trigger = self._trigger._replace(on=scale * self.on, off=scale * self.off)

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
        n = forced.facing(normal)
        time = number("time", time)
        if not time >= self._last:  # False of NaN
            raise ArgumentError(f"time: expected no less than the last one, {self._last}, got {time}")
        forced.take(forces)
        self._last = time
        if not pull(trigger, time, forced.values, forced.given, n):
            return ()
        change = zip(self._feet, trigger.changed.tolist(), trigger.touching.tolist(), strict=True)
        return self.events.update(time, {foot: bool(touches) for foot, changed, touches in change if changed})
