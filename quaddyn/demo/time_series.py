"""`DemoTimeSeries`: what a run looked like over time, thinned so that no run is too long to keep."""

from __future__ import annotations

import numpy as np

from ..robot import Robot
from ..urdf.tree import Array

#: Samples kept are between this many and twice as many.
KEPT = 5000


class DemoTimeSeries:
    """Samples over a run, in step with it, of which every second is dropped whenever there are too many.

    Args:
        robot: the robot.
        feet: whose contact forces are kept.

    Attributes:
        robot: as given.
        feet: as given.
        events: times [s] by what happened then, such as "push".
    """

    def __init__(self, robot: Robot, feet: tuple[str, ...]) -> None:
        self.robot, self.feet = robot, feet
        self.events: dict[str, list[float]] = {}
        self._rows: list[Array] = []
        self._stride, self._count = 1, 0

    def add(
        self, time: float, tau: Array, forces: Array, height: float, wanted: Array | None, velocity: Array | None
    ) -> None:
        """One step; called at every one.

        Args:
            time: [s].
            tau: (nu,) torques [N m].
            forces: (m, 3) contact forces on the feet, world axes [N].
            height: of the centre of mass [m].
            wanted: (3,) forward and leftward speed [m/s] and yaw rate [rad/s] steered for; None where nothing is.
            velocity: (3,) the same as measured.
        """
        self._count += 1
        if (self._count - 1) % self._stride:
            return
        none = np.full(3, np.nan)
        parts = (tau, forces.ravel(), none if wanted is None else wanted, none if velocity is None else velocity)
        self._rows.append(np.concatenate(([time, height], *parts)))
        if len(self._rows) >= 2 * KEPT:
            self._rows = self._rows[::2]
            self._stride *= 2

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def times(self) -> Array:
        """(N,) of the samples [s]."""
        return self._columns(0, 1)[:, 0]

    @property
    def height(self) -> Array:
        """(N,) of the centre of mass [m]."""
        return self._columns(1, 1)[:, 0]

    @property
    def tau(self) -> Array:
        """(N, nu) torques [N m]."""
        return self._columns(2, self.robot.nu)

    @property
    def forces(self) -> Array:
        """(N, m, 3) contact forces on the feet [N]."""
        return self._columns(2 + self.robot.nu, 3 * len(self.feet)).reshape(-1, len(self.feet), 3)

    @property
    def wanted(self) -> Array:
        """(N, 3) velocity steered for; NaN where nothing is."""
        return self._columns(2 + self.robot.nu + 3 * len(self.feet), 3)

    @property
    def velocity(self) -> Array:
        """(N, 3) velocity measured; NaN where nothing is steered for."""
        return self._columns(5 + self.robot.nu + 3 * len(self.feet), 3)

    def _columns(self, start: int, count: int) -> Array:
        rows = np.array(self._rows).reshape(len(self._rows), 8 + self.robot.nu + 3 * len(self.feet))
        return rows[:, start : start + count]
