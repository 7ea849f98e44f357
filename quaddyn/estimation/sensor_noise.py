"""`SensorNoise`: how far a state estimate believes its sensors, its feet and its beginning."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import number
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorNoise:
    """Standard deviations, by axis or joint; the defaults are those of a quadruped as it is sold.

    Attributes:
        position: of an encoder's reading [rad or m].
        velocity: of a joint velocity [rad/s or m/s].
        gyro: of a reading [rad/s].
        accelerometer: of a reading [m/s^2].
        gyro_walk: growth of the bias per square root of time [rad/s/sqrt(s)].
        accelerometer_walk: growth of the bias per square root of time [m/s^2/sqrt(s)].
        creep: of the place of a foot that stands, per square root of time [m/sqrt(s)].
        slip: of the velocity of a foot that stands [m/s].
        shape: of a foot's place in the trunk's axes, beside that of the encoders [m].
        level: of the ground's height, where `floor` says that it is level [m].
        gate: largest squared distance, in standard deviations, of a reading of a foot that does not slip.
        attitude: of roll and pitch at the beginning [rad].
        speed: at the beginning [m/s].
        gyro_bias: at the beginning [rad/s].
        accelerometer_bias: at the beginning [m/s^2].
    """

    position: float = 5e-4
    velocity: float = 0.05
    gyro: float = 0.01
    accelerometer: float = 0.1
    gyro_walk: float = 2e-4
    accelerometer_walk: float = 1e-3
    creep: float = 0.01
    slip: float = 0.03
    shape: float = 5e-4
    level: float = 5e-3
    gate: float = 25.0
    attitude: float = 0.02
    speed: float = 0.05
    gyro_bias: float = 0.01
    accelerometer_bias: float = 0.1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = number(field.name, getattr(self, field.name))
            if not 0.0 < value < np.inf:
                raise ArgumentError(f"{field.name}: expected a positive number, got {value}")

    def variances(self) -> Array:
        """(10,) as the compiled filter takes them."""
        names = ("position", "velocity", "gyro", "accelerometer", "gyro_walk", "accelerometer_walk", "creep", "slip")
        return np.array([getattr(self, name) ** 2 for name in (*names, "shape", "level")])

    def doubt(self) -> Array:
        """(4,) variances at the beginning: attitude, velocity, and the biases."""
        return np.square([self.attitude, self.speed, self.gyro_bias, self.accelerometer_bias])
