"""Compiled clamping of torques to the limits of the motors; see `TorqueLimiter`."""

from ..compiler import IntVector, Record, Vector, compiled, entry


class MotorParameters(Record):
    """Damping, speed limit and default torque limit of the motors."""

    damping: Vector  # (nu,) of a joint that brakes [N m s/rad or N s/m]
    velocity_index: IntVector  # (nu,) index of each joint in the velocity vector
    max_driven_speed: float  # joint speed above which a motor only brakes [rad/s or m/s]
    default_limit: float  # maximum torque of motors without a meaningful limit [N m]


@compiled()
def clamp_torque(motors: MotorParameters, limit: float, i: int, tau: float, speed: float) -> float:
    """Returns the torque of a motor [N m], clamped to its limit; above the maximum driven speed it brakes.

    Args:
        motors: parameters of the motors.
        limit: torque limit of the motor [N m].
        i: index of the motor.
        tau: torque [N m].
        speed: joint velocity [rad/s or m/s].
    """
    max_torque = min(limit, motors.default_limit)
    torque, excess_speed = min(max(tau, -max_torque), max_torque), abs(speed) - motors.max_driven_speed
    if excess_speed > 0.0:
        braking = motors.damping[i] * excess_speed
        torque = min(torque, -braking) if speed > 0.0 else max(torque, braking)
    return min(max(torque, -max_torque), max_torque)


@entry("clamping of torques")
def limit_overspeed(motors: MotorParameters, limits: Vector, tau: Vector, speed: Vector, clamped: Vector) -> None:
    """Writes the torques (nu,) clamped to the limits at joint velocities (nu,) [N m].

    Args:
        motors: parameters of the motors.
        limits: (nu,) torque limits [N m].
        tau: (nu,) torques [N m].
        speed: (nu,) joint velocities [rad/s or m/s].
        clamped: (nu,) written; may be `tau`.
    """
    for i in range(len(tau)):
        clamped[i] = clamp_torque(motors, limits[i], i, tau[i], speed[i])


@entry("clamping of torques")
def clamp_torques(motors: MotorParameters, limits: Vector, tau: Vector, v: Vector, clamped: Vector) -> None:
    """Writes the torques (nu,) clamped to the limits at a velocity (nv,) of the robot [N m].

    Args:
        motors: parameters of the motors.
        limits: (nu,) torque limits [N m].
        tau: (nu,) torques [N m].
        v: (nv,) velocity of the robot.
        clamped: (nu,) written; may be `tau`.
    """
    for i in range(len(tau)):
        clamped[i] = clamp_torque(motors, limits[i], i, tau[i], v[motors.velocity_index[i]])


@entry("clamping of torques")
def compute_damping_torques(
    motors: MotorParameters, limits: Vector, v: Vector, reference_speed: Vector, tau: Vector
) -> None:
    """Writes clamped damping torques (nu,) [N m].

    Args:
        motors: parameters of the motors.
        limits: (nu,) torque limits [N m].
        v: (nv,) velocity of the robot.
        reference_speed: (nu,) joint velocities relative to which the joints are damped [rad/s or m/s].
        tau: (nu,) written.
    """
    for i in range(len(tau)):
        speed = v[motors.velocity_index[i]]
        tau[i] = clamp_torque(motors, limits[i], i, motors.damping[i] * (reference_speed[i] - speed), speed)
