"""`SensorNoise`: how far a state estimate believes its sensors, its feet and its beginning."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError
from ..robot.arguments import number
from ..urdf.tree import Array


@renamed_fields(
    creep="foothold_random_walk",
    slip="contact_velocity",
    shape="leg_kinematics",
    level="ground_height",
    gate="innovation_gate",
    attitude="initial_attitude",
    speed="initial_velocity",
    gyro_bias="initial_gyro_bias",
    accelerometer_bias="initial_accelerometer_bias",
    gyro_walk="gyro_bias_walk",
    accelerometer_walk="accelerometer_bias_walk",
)
@renamed_attributes(doubt="initial_variances")
@dataclass(frozen=True, slots=True, kw_only=True)
class SensorNoise:
    """Standard deviations, by axis or joint; the defaults are those of a quadruped as it is sold.

    Attributes:
        position: of an encoder's reading [rad or m].
        velocity: of a joint velocity [rad/s or m/s].
        gyro: of a reading [rad/s].
        accelerometer: of a reading [m/s^2].
        gyro_bias_walk: growth of the bias per square root of time [rad/s/sqrt(s)].
        accelerometer_bias_walk: growth of the bias per square root of time [m/s^2/sqrt(s)].
        foothold_random_walk: of the place of a foot that stands, per square root of time [m/sqrt(s)].
        contact_velocity: of the velocity of a foot that stands [m/s].
        leg_kinematics: of a foot's place in the trunk's axes, beside that of the encoders [m].
        ground_height: of the ground's height, where `floor` says that it is level [m].
        innovation_gate: largest squared distance, in standard deviations, of a reading of a foot that does not slip.
        initial_attitude: of roll and pitch at the beginning [rad].
        initial_velocity: at the beginning [m/s].
        initial_gyro_bias: at the beginning [rad/s].
        initial_accelerometer_bias: at the beginning [m/s^2].
    """

    position: float = 5e-4
    velocity: float = 0.05
    gyro: float = 0.01
    accelerometer: float = 0.1
    gyro_bias_walk: float = 2e-4
    accelerometer_bias_walk: float = 1e-3
    foothold_random_walk: float = 0.01
    contact_velocity: float = 0.03
    leg_kinematics: float = 5e-4
    ground_height: float = 5e-3
    innovation_gate: float = 25.0
    initial_attitude: float = 0.02
    initial_velocity: float = 0.05
    initial_gyro_bias: float = 0.01
    initial_accelerometer_bias: float = 0.1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = number(field.name, getattr(self, field.name))
            if not 0.0 < value < np.inf:
                raise ArgumentError(f"{field.name}: expected a positive number, got {value}")

    def variances(self) -> Array:
        """(10,) as the compiled filter takes them."""
        names = (
            "position", "velocity", "gyro", "accelerometer", "gyro_bias_walk", "accelerometer_bias_walk",
            "foothold_random_walk", "contact_velocity", "leg_kinematics", "ground_height",
        )  # fmt: skip
        return np.array([getattr(self, name) ** 2 for name in names])

    def initial_variances(self) -> Array:
        """(4,) variances at the beginning: attitude, velocity, and the biases."""
        return np.square(
            [self.initial_attitude, self.initial_velocity, self.initial_gyro_bias, self.initial_accelerometer_bias]
        )
