"""`ImuUnitCheck`: finds accelerometers whose readings are in another unit, by the gravity that they measure."""

from __future__ import annotations

import math

from ..simulation.sensors import Measurement
from .safety_checks import GRAVITY

#: Duration of steady readings of about 1 that shows the unit g, and averaging time that shows any unit, longer than the
#: flight phase of a jump [s].
STEADY_TIME, MEAN_TIME = 0.1, 1.0
#: Readings are steady within this fraction of 1 while the gyroscope measures less than this rate [rad/s]; a robot in
#: free flight measures nothing but the centripetal acceleration of a rotation.
STEADY_DEVIATION, MAX_STEADY_RATE = 0.3, 0.5
#: Value of 1 m/s^2 in each unit (100 cm/s^2 are 102 mg), and the maximum ratio of a mean value to gravity in that unit.
UNITS, MAX_UNIT_FACTOR = {"g": 1.0 / GRAVITY, "mg or cm/s^2": 1e3 / GRAVITY, "mm/s^2": 1e3}, 1.5


class ImuUnitCheck:
    """Check of the unit of an accelerometer at the first readings, after which it ends.

    Steady readings of about 1 for 0.1 s mean that the unit is g.  Other units are determined from the mean magnitude of
    1 s, which a jump changes little.

    Args:
        gravity: gravitational acceleration of the robot's model [m/s^2].
        dt: period of the readings [s].
    """

    def __init__(self, gravity: float, dt: float) -> None:
        self._gravity, self._dt = gravity, dt
        self._count = self._steady_count = 0
        self._sum = 0.0
        self.is_completed = not gravity > 0.0

    def update(self, measurement: Measurement) -> str:
        """Takes a new reading; returns the reason of a fault, or "" without one."""
        size, rate = math.hypot(*measurement.accelerometer.tolist()), math.hypot(*measurement.gyro.tolist())
        self._count, self._sum = self._count + 1, self._sum + size
        ratio = size / (self._gravity * UNITS["g"])
        is_steady = abs(ratio - 1.0) < STEADY_DEVIATION and rate < MAX_STEADY_RATE
        self._steady_count = self._steady_count + 1 if is_steady else 0
        self.is_completed = self._count * self._dt >= MEAN_TIME
        if self._steady_count * self._dt >= STEADY_TIME:
            self.is_completed = True
            return self._describe(size, "g")
        if not self.is_completed:
            return ""
        mean = self._sum / self._count
        factors = {unit: mean / (self._gravity * scale) for unit, scale in UNITS.items()}
        found = [unit for unit, x in factors.items() if 1.0 / MAX_UNIT_FACTOR < x < MAX_UNIT_FACTOR]
        return self._describe(mean, found[0]) if found else ""

    def _describe(self, size: float, unit: str) -> str:
        return (
            f"the accelerometer measures {size:.3g}, where gravity is {self._gravity:.3g} m/s^2: its readings seem to "
            f"be in {unit}; convert them to m/s^2"
        )
