"""`SensorNoise`: standard deviations of sensors, contacts and initial state for `BaseEstimator`."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields
from ..errors import ArgumentError
from ..robot.arguments import check_number
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
    """Standard deviations, per axis or joint; the defaults are those of a commercial quadruped.

    Attributes:
        position: encoder reading [rad or m].
        velocity: measured joint velocity [rad/s or m/s].
        gyro: gyroscope reading [rad/s].
        accelerometer: accelerometer reading [m/s^2].
        gyro_bias_walk: random walk of the gyroscope bias [rad/s/sqrt(s)].
        accelerometer_bias_walk: random walk of the accelerometer bias [m/s^2/sqrt(s)].
        foothold_random_walk: random walk of the position of a stance foot [m/sqrt(s)].
        contact_velocity: velocity of a stance foot [m/s].
        leg_kinematics: error of the leg kinematics in the position of a foot, besides that of the encoders [m].
        ground_height: deviation of the ground from height 0, for `BaseEstimator(flat_ground=True)` [m].
        innovation_gate: maximum squared Mahalanobis distance of the reading of a foot that does not slip,
            dimensionless.
        initial_attitude: initial roll and pitch [rad].
        initial_velocity: initial velocity [m/s].
        initial_gyro_bias: initial gyroscope bias [rad/s].
        initial_accelerometer_bias: initial accelerometer bias [m/s^2].
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
            value = check_number(field.name, getattr(self, field.name))
            if not 0.0 < value < np.inf:
                raise ArgumentError(f"{field.name}: expected a positive number, got {value}")

    def variances(self) -> Array:
        """Returns the variances (10,) in the order of the compiled filter."""
        names = (
            "position", "velocity", "gyro", "accelerometer", "gyro_bias_walk", "accelerometer_bias_walk",
            "foothold_random_walk", "contact_velocity", "leg_kinematics", "ground_height",
        )  # fmt: skip
        return np.array([getattr(self, name) ** 2 for name in names])

    def initial_variances(self) -> Array:
        """Returns the initial variances (4,) of attitude, velocity and both biases."""
        return np.square(
            [self.initial_attitude, self.initial_velocity, self.initial_gyro_bias, self.initial_accelerometer_bias]
        )
