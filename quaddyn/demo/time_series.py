"""`DemoTimeSeries`: samples of a run over time, with a limited number of samples."""

from __future__ import annotations

import numpy as np

from ..robot import Robot
from ..urdf.tree import Array

#: Minimum number of samples of a long run; the maximum is twice as many.
MIN_STORED_SAMPLES = 5000


class DemoTimeSeries:
    """Samples of a run at a constant interval, which doubles whenever twice `MIN_STORED_SAMPLES` are stored.

    Args:
        robot: robot of the run.
        feet: feet whose contact forces are stored.

    Attributes:
        robot: robot of the run.
        feet: feet whose contact forces are stored.
        events: times [s] of events by name, such as "push".
    """

    def __init__(self, robot: Robot, feet: tuple[str, ...]) -> None:
        self.robot, self.feet = robot, feet
        self.events: dict[str, list[float]] = {}
        self._rows: list[Array] = []
        self._stride, self._count = 1, 0

    def add(
        self,
        time: float,
        tau: Array,
        forces: Array,
        height: float,
        desired_velocity: Array | None,
        velocity: Array | None,
    ) -> None:
        """Adds a step; must be called at every step.

        Args:
            time: time [s].
            tau: (nu,) torques [N m or N].
            forces: (m, 3) contact forces on the feet, world axes [N].
            height: height of the center of mass [m].
            desired_velocity: (3,) forward and leftward velocity [m/s] and yaw rate [rad/s] of the reference; None for
                none.
            velocity: (3,) measured velocity; None for none.
        """
        self._count += 1
        if (self._count - 1) % self._stride:
            return
        missing = np.full(3, np.nan)
        values = (
            tau,
            forces.ravel(),
            missing if desired_velocity is None else desired_velocity,
            missing if velocity is None else velocity,
        )
        self._rows.append(np.concatenate(([time, height], *values)))
        if len(self._rows) >= 2 * MIN_STORED_SAMPLES:
            self._rows = self._rows[::2]
            self._stride *= 2

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def times(self) -> Array:
        """Times of the samples (N,) [s]."""
        return self._columns(0, 1)[:, 0]

    @property
    def height(self) -> Array:
        """Height of the center of mass (N,) [m]."""
        return self._columns(1, 1)[:, 0]

    @property
    def tau(self) -> Array:
        """Torques (N, nu) [N m or N]."""
        return self._columns(2, self.robot.nu)

    @property
    def forces(self) -> Array:
        """Contact forces on the feet (N, m, 3), world axes [N]."""
        return self._columns(2 + self.robot.nu, 3 * len(self.feet)).reshape(-1, len(self.feet), 3)

    @property
    def desired_velocity(self) -> Array:
        """Velocity of the reference (N, 3) [m/s, rad/s]; NaN for none."""
        return self._columns(2 + self.robot.nu + 3 * len(self.feet), 3)

    @property
    def velocity(self) -> Array:
        """Measured velocity (N, 3) [m/s, rad/s]; NaN for none."""
        return self._columns(5 + self.robot.nu + 3 * len(self.feet), 3)

    def _columns(self, start: int, count: int) -> Array:
        """Returns `count` columns of the stored samples, from column `start` on."""
        rows = np.array(self._rows).reshape(len(self._rows), 8 + self.robot.nu + 3 * len(self.feet))
        return rows[:, start : start + count]
