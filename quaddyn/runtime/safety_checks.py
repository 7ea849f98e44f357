"""Fault detection of the safety layer in the compiled language: checks of sensor readings.

Each check compares sensor values with limits, with earlier values or with each other, independently of the controller.
The first check that fails returns a fault code and an index, and stores the offending value and its limit.
"""

import enum
import math
from typing import NamedTuple

from ..compiler import IntVector, Matrix, Record, Vector, compiled, local


class FaultCode(enum.IntEnum):
    """Faults in the order of the checks; `faults.FAULT_TEXTS` has their names and messages."""

    NO_COMMAND = -1  # not a fault: no command has arrived
    NO_FAULT = 0
    CONTROLLER_FAILURE = 1
    CONTROLLER_OVERRUN = 2
    LINK_LOSS = 3
    OPERATOR_STOP = 4
    STALE_READING = 5
    NON_FINITE_READING = 6
    ENCODER_JUMP = 7
    FROZEN_ENCODER = 8
    ENCODER_INCONSISTENCY = 9
    FROZEN_GYROSCOPE = 10
    FROZEN_ACCELEROMETER = 11
    IMU_INCONSISTENCY = 12
    EXCESSIVE_TILT = 13
    POSITION_LIMIT = 14
    VELOCITY_LIMIT = 15
    TORQUE_LIMIT = 16
    TORQUE_TRACKING_ERROR = 17
    TEMPERATURE_LIMIT = 18
    POWER_LIMIT = 19
    INVALID_COMMAND = 20
    ROBOT_STOP = 21  # this one and the next are raised by the control loop
    CONTROLLER_ABORT = 22
    MISSING_SENSOR = 23  # an optional sensor that reported values before and does not any more
    IMU_UNIT = 24  # raised by `Safety`


class OptionalSensor(enum.IntEnum):
    """Index of the fault `FaultCode.MISSING_SENSOR`."""

    TORQUES = 0
    FEET = 1
    TEMPERATURES = 2


# Joint speed above which the robot is not at rest [rad/s or m/s].
MOVING_JOINT_SPEED = 0.2
# Time constant with which position drift decays [s], and rate at which the estimated vertical is corrected towards the
# accelerometer [1/s].
DRIFT_TIME_CONSTANT, GRAVITY_CORRECTION_RATE = 0.25, 1.0
# Time constants of the low-pass filters of the torque error and of the correction of the vertical [s].
TORQUE_FILTER_TIME, TILT_DRIFT_FILTER_TIME = 0.1, 0.5
# Minimum weight of an accelerometer reading that initializes the vertical (0.8: within 10 % of 1 g), and the time after
# which any reading does [s].
MIN_GRAVITY_WEIGHT, MAX_GRAVITY_WAIT = 0.8, 1.0
# Gravitational acceleration [m/s^2].
GRAVITY = 9.81
# Readings that are further apart than this are not compared [periods].
MAX_COMPARED_PERIODS = 8.0
# Largest advance of the robot's clock over the caller's clock between two readings [s].
MAX_CLOCK_ADVANCE = 0.05
# Minimum time in which a joint accelerates from rest to its speed limit [s]; bounds joint accelerations.
MIN_SPEED_UP_TIME = 0.01


class LimitArrays(NamedTuple):
    """Limits of the safety layer; arrays have one entry per actuated joint (nu,)."""

    max_torque: Vector  # torque [N m]
    max_torque_step: Vector  # change of the torque from tick to tick [N m]
    max_speed: Vector  # [rad/s]
    min_position: Vector  # [rad]
    max_position: Vector  # [rad]
    max_temperature: Vector  # [degrees Celsius]
    max_stiffness: Vector  # largest gain [N m/rad]
    max_damping: Vector  # largest gain [N m s/rad]
    fault_damping: Vector  # damping of all motors after a fault [N m s/rad]
    max_position_jump: Vector  # between a position and the integral of the velocity [rad]
    is_continuous: IntVector  # 1 for a continuous joint
    imu_rotation: Matrix  # (3, 3) rotation from IMU axes to base axes
    max_power: float  # of all motors together [W]
    min_cos_tilt: float  # smallest cosine of the angle between the base's z axis and the vertical
    max_overtravel: float  # beyond the position limits [rad]
    max_tilt_drift_rate: float  # between the verticals of gyroscope and accelerometer [rad/s]
    max_torque_tracking_error: float  # measured minus commanded torque, divided by the limit
    period: float  # of the control loop [s]
    max_reading_periods: int  # periods without a new reading
    violation_readings: int  # consecutive readings beyond a limit that are a fault
    max_frozen_readings: int  # consecutive bitwise equal readings that are a fault


class SensorArrays(NamedTuple):
    """Arrays of one sensor reading; see `quaddyn.simulation.Measurement`.

    A missing sensor is an array of length 0 or, as in packets, all NaN.
    """

    position: Vector
    velocity: Vector
    gyro: Vector
    accelerometer: Vector
    torque: Vector
    feet: Vector
    temperature: Vector


class ClampCounts(Record):
    """Numbers of clamped commands: joints times ticks."""

    torque: int
    torque_rate: int
    speed: int  # at the speed limit
    position: int  # at the position limit
    gain: int
    ignored_foot_sensor: int  # ticks


class SafetyMemory(Record):
    """State of the safety layer between ticks."""

    position: Vector  # (nu,) last reading
    velocity: Vector  # (nu,) last reading
    gyro: Vector  # (3,) last reading
    accelerometer: Vector  # (3,) last reading
    feet: Vector  # (nf,) last reading
    commanded_torque: Vector  # (nu,) torque of the last command [N m]
    position_drift: Vector  # (nu,) decaying sum of the difference between motion and integrated velocity [rad]
    torque_error: Vector  # (nu,) measured minus commanded torque, low-pass filtered [N m]
    vertical: Vector  # (3,) estimated unit vertical in base axes; zero until initialized
    tilt_drift_rate: Vector  # (3,) correction of the vertical, low-pass filtered [rad/s]
    overspeed: IntVector  # (nu,) consecutive readings beyond the limit
    overtorque: IntVector  # (nu,) likewise
    overheat: IntVector  # (nu,) likewise
    overpower: int  # likewise, of all motors
    encoder_repeats: IntVector  # (nu,) consecutive equal readings
    gyro_repeats: int  # likewise
    accelerometer_repeats: int  # likewise
    foot_repeats: IntVector  # (nf,) likewise
    invalid_feet: int  # mask of the foot sensors that are ignored: 1 for the first foot, 2 for the second, and so on
    periods_waited: int  # since the last accepted reading
    n_accepted: int  # accepted readings
    has_torques: bool  # whether the sensor has reported values
    has_feet: bool  # likewise
    has_temperatures: bool  # likewise
    clamp_counts: ClampCounts
    fault: FaultCode  # the latched fault
    fault_index: int  # joint or sensor
    fault_value: float
    fault_limit: float
    reading_stamp: float  # time stamp of the last accepted reading [s]
    caller_clock: float  # the caller's clock at that time [s]


@compiled()
def report_fault(memory: SafetyMemory, code: FaultCode, value: float, allowed: float) -> FaultCode:
    """Stores the offending value and its limit, and returns the fault code."""
    memory.fault_value, memory.fault_limit = value, allowed
    return code


@compiled()
def is_finite(x: Vector) -> bool:
    """Returns whether all entries are finite."""
    all_finite = True
    for i in range(len(x)):
        all_finite = all_finite and math.isfinite(x[i])
    return all_finite


@compiled()
def is_equal(x: Vector, y: Vector) -> bool:
    """Returns whether all entries of two vectors are equal."""
    all_equal = True
    for i in range(len(x)):
        all_equal = all_equal and x[i] == y[i]
    return all_equal


@compiled()
def has_values(x: Vector) -> bool:
    """Returns whether a sensor reports any value that is not NaN; see `SensorArrays`."""
    found_value = False
    for i in range(len(x)):
        found_value = found_value or x[i] == x[i]
    return found_value


@compiled()
def is_stamp(time: float) -> bool:
    """Returns whether a number is a valid time stamp: finite and not negative."""
    return math.isfinite(time) and time >= 0.0


@compiled()
def is_later(time: float, last: float, passed: float) -> bool:
    """Returns whether a reading with time stamp `time` is newer than the last accepted one with time stamp `last`.

    A stamp is not newer if it is NaN, infinite or negative, if it repeats or decreases, or if it advances by more than
    `MAX_CLOCK_ADVANCE` over the time `passed` [s] that the caller's clock has advanced since.
    """
    return is_stamp(time) and time > last and time - last <= passed + MAX_CLOCK_ADVANCE


@compiled()
def wrap_angle(angle: float) -> float:
    """Returns an angle [rad] wrapped to the interval [-pi, pi)."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@compiled()
def find_missing_sensor(reading: SensorArrays, memory: SafetyMemory) -> int:
    """Returns the index of a sensor that reported values before and does not now, or -1; updates which ones report."""
    torques, feet, temperatures = has_values(reading.torque), has_values(reading.feet), has_values(reading.temperature)
    missing = -1
    if memory.has_torques and not torques:
        missing = OptionalSensor.TORQUES
    if memory.has_feet and not feet:
        missing = OptionalSensor.FEET
    if memory.has_temperatures and not temperatures:
        missing = OptionalSensor.TEMPERATURES
    memory.has_torques = memory.has_torques or torques
    memory.has_feet = memory.has_feet or feet
    memory.has_temperatures = memory.has_temperatures or temperatures
    return missing


@compiled(inline=False)
def check_reading(
    limits: LimitArrays, reading: SensorArrays, memory: SafetyMemory, elapsed: float
) -> tuple[FaultCode, int]:
    """Checks a new reading, `elapsed` [s] after the last one, and stores it; returns the fault code and its index."""
    missing = find_missing_sensor(reading, memory)
    if missing >= 0:
        return report_fault(memory, FaultCode.MISSING_SENSOR, 0.0, 0.0), missing
    n = len(reading.position)
    for i in range(n):
        if not (math.isfinite(reading.position[i]) and math.isfinite(reading.velocity[i])):
            return report_fault(memory, FaultCode.NON_FINITE_READING, 0.0, 0.0), i
        if memory.has_torques and not math.isfinite(reading.torque[i]):
            return report_fault(memory, FaultCode.NON_FINITE_READING, 0.0, 0.0), i
        if memory.has_temperatures and not math.isfinite(reading.temperature[i]):
            return report_fault(memory, FaultCode.NON_FINITE_READING, 0.0, 0.0), i
    if not (is_finite(reading.gyro) and is_finite(reading.accelerometer)):
        return report_fault(memory, FaultCode.NON_FINITE_READING, 0.0, 0.0), -1
    first = memory.n_accepted == 0
    memory.n_accepted += 1
    code, index = FaultCode.NO_FAULT, 0
    if not first:
        code, index = check_encoders(limits, reading, memory, elapsed)
    if code == FaultCode.NO_FAULT and len(reading.gyro) > 0:
        code = check_imu(limits, reading, memory, elapsed, first)
    if code == FaultCode.NO_FAULT:
        code, index = check_joint_limits(limits, reading, memory)
    if memory.has_feet:
        check_foot_sensors(limits, reading, memory)
    for i in range(n):
        memory.position[i] = reading.position[i]
        memory.velocity[i] = reading.velocity[i]
    for i in range(len(reading.gyro)):
        memory.gyro[i] = reading.gyro[i]
        memory.accelerometer[i] = reading.accelerometer[i]
    return code, index


@compiled()
def integration_residual(difference: float, change: float, speed: float, elapsed: float, period: float) -> float:
    """Returns the part of `difference`, motion minus integrated velocity, beyond the bound of the integration error.

    The trapezoidal rule errs by at most ``|change| h / 2`` over a time h in which the velocity changes monotonically,
    however suddenly, as at a landing.  If readings were lost in between, an acceleration of up to a may add
    ``a h^2 / 4``.
    """
    excess_time = max(elapsed - period, 0.0)
    error = 0.5 * abs(change) * elapsed + speed * excess_time * min(0.25 * elapsed / MIN_SPEED_UP_TIME, 1.0)
    return difference - min(max(difference, -error), error)


@compiled(inline=False)
def check_encoders(
    limits: LimitArrays, reading: SensorArrays, memory: SafetyMemory, elapsed: float
) -> tuple[FaultCode, int]:
    """Checks joint encoders for position jumps, frozen values, and inconsistency of positions and velocities."""
    n = len(reading.position)
    is_comparable = elapsed < MAX_COMPARED_PERIODS * limits.period
    speed_sum = 0.0
    for i in range(n):
        speed_sum += abs(reading.velocity[i])
    code, index = FaultCode.NO_FAULT, 0
    for i in range(n):
        displacement = reading.position[i] - memory.position[i]
        if limits.is_continuous[i] != 0:
            displacement = wrap_angle(displacement)
        difference = displacement - 0.5 * (reading.velocity[i] + memory.velocity[i]) * elapsed
        # The error bound of the integration rule is subtracted, so that its errors do not accumulate to a false fault.
        difference = (
            integration_residual(
                difference, reading.velocity[i] - memory.velocity[i], limits.max_speed[i], elapsed, limits.period
            )
            if is_comparable
            else 0.0
        )
        if abs(difference) > limits.max_position_jump[i] and code == FaultCode.NO_FAULT:
            code, index = report_fault(memory, FaultCode.ENCODER_JUMP, difference, limits.max_position_jump[i]), i
        memory.position_drift[i] = (memory.position_drift[i] + difference) * math.exp(-elapsed / DRIFT_TIME_CONSTANT)
        if abs(memory.position_drift[i]) > limits.max_position_jump[i] and code == FaultCode.NO_FAULT:
            code, index = (
                report_fault(
                    memory, FaultCode.ENCODER_INCONSISTENCY, memory.position_drift[i], limits.max_position_jump[i]
                ),
                i,
            )
        is_repeated = reading.position[i] == memory.position[i] and reading.velocity[i] == memory.velocity[i]
        memory.encoder_repeats[i] = memory.encoder_repeats[i] + 1 if is_repeated else 0
        mean_other_speed = (speed_sum - abs(reading.velocity[i])) / max(n - 1, 1)
        moving = mean_other_speed > MOVING_JOINT_SPEED or abs(reading.velocity[i]) > MOVING_JOINT_SPEED
        if memory.encoder_repeats[i] >= limits.max_frozen_readings and moving and code == FaultCode.NO_FAULT:
            code, index = (
                report_fault(
                    memory,
                    FaultCode.FROZEN_ENCODER,
                    float(memory.encoder_repeats[i]),
                    float(limits.max_frozen_readings),
                ),
                i,
            )
    return code, index


@compiled(inline=False)
def check_imu(
    limits: LimitArrays, reading: SensorArrays, memory: SafetyMemory, elapsed: float, first: bool
) -> FaultCode:
    """Checks the IMU for frozen values and inconsistency of gyroscope and accelerometer, and the base for its tilt."""
    omega, specific_force, rotated = local(3), local(3), local(3)
    for i in range(3):
        omega[i] = (
            limits.imu_rotation[i, 0] * reading.gyro[0]
            + limits.imu_rotation[i, 1] * reading.gyro[1]
            + limits.imu_rotation[i, 2] * reading.gyro[2]
        )
        specific_force[i] = (
            limits.imu_rotation[i, 0] * reading.accelerometer[0]
            + limits.imu_rotation[i, 1] * reading.accelerometer[1]
            + limits.imu_rotation[i, 2] * reading.accelerometer[2]
        )
    size = math.sqrt(
        specific_force[0] * specific_force[0]
        + specific_force[1] * specific_force[1]
        + specific_force[2] * specific_force[2]
    )
    # In free fall and impacts the accelerometer does not measure gravity: its weight decreases away from 1 g.
    weight = max(0.0, 1.0 - abs(size / GRAVITY - 1.0) / 0.5)
    if not first:
        speed = 0.0
        for i in range(len(reading.velocity)):
            speed = max(speed, abs(reading.velocity[i]))
        memory.gyro_repeats = memory.gyro_repeats + 1 if is_equal(reading.gyro, memory.gyro) else 0
        memory.accelerometer_repeats = (
            memory.accelerometer_repeats + 1 if is_equal(reading.accelerometer, memory.accelerometer) else 0
        )
        if memory.gyro_repeats >= limits.max_frozen_readings and speed > MOVING_JOINT_SPEED:
            return report_fault(
                memory, FaultCode.FROZEN_GYROSCOPE, float(memory.gyro_repeats), float(limits.max_frozen_readings)
            )
        if memory.accelerometer_repeats >= limits.max_frozen_readings and speed > MOVING_JOINT_SPEED:
            return report_fault(
                memory,
                FaultCode.FROZEN_ACCELEROMETER,
                float(memory.accelerometer_repeats),
                float(limits.max_frozen_readings),
            )
    up = memory.vertical
    if up[0] == 0.0 and up[1] == 0.0 and up[2] == 0.0:  # not initialized: the robot may be falling at the first reading
        if weight < MIN_GRAVITY_WEIGHT and float(memory.n_accepted) * limits.period < MAX_GRAVITY_WAIT:
            return FaultCode.NO_FAULT
        for i in range(3):
            up[i] = specific_force[i] / size if size > 0.0 else (1.0 if i == 2 else 0.0)
    # Complementary filter: the gyroscope rotates the vertical, the accelerometer corrects it (Mahony et al. 2008).
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        rotated[i] = up[j] * omega[k] - up[k] * omega[j]
    correction_gain = GRAVITY_CORRECTION_RATE * elapsed
    filter_gain = min(elapsed / TILT_DRIFT_FILTER_TIME, 1.0)
    norm = 0.0
    for i in range(3):
        error = weight * (specific_force[i] / size - up[i]) if size > 0.0 else 0.0
        memory.tilt_drift_rate[i] = memory.tilt_drift_rate[i] + filter_gain * (
            GRAVITY_CORRECTION_RATE * error - memory.tilt_drift_rate[i]
        )
        rotated[i] = up[i] + elapsed * rotated[i] + correction_gain * error
        norm += rotated[i] * rotated[i]
    norm = math.sqrt(norm)
    for i in range(3):
        up[i] = rotated[i] / norm if norm > 0.0 else up[i]
    drift_rate = math.sqrt(
        memory.tilt_drift_rate[0] * memory.tilt_drift_rate[0]
        + memory.tilt_drift_rate[1] * memory.tilt_drift_rate[1]
        + memory.tilt_drift_rate[2] * memory.tilt_drift_rate[2]
    )
    if drift_rate > limits.max_tilt_drift_rate:
        return report_fault(memory, FaultCode.IMU_INCONSISTENCY, drift_rate, limits.max_tilt_drift_rate)
    if up[2] < limits.min_cos_tilt:
        return report_fault(memory, FaultCode.EXCESSIVE_TILT, up[2], limits.min_cos_tilt)
    return FaultCode.NO_FAULT


@compiled(inline=False)
def check_joint_limits(limits: LimitArrays, reading: SensorArrays, memory: SafetyMemory) -> tuple[FaultCode, int]:
    """Checks positions, velocities, torques, temperatures and power of the motors against their limits."""
    n, power = len(reading.position), 0.0
    code, index = FaultCode.NO_FAULT, 0
    filter_gain = min(limits.period / TORQUE_FILTER_TIME, 1.0)
    for i in range(n):
        overtravel = max(reading.position[i] - limits.max_position[i], limits.min_position[i] - reading.position[i])
        if overtravel > limits.max_overtravel and code == FaultCode.NO_FAULT:
            code, index = report_fault(memory, FaultCode.POSITION_LIMIT, overtravel, limits.max_overtravel), i
        memory.overspeed[i] = memory.overspeed[i] + 1 if abs(reading.velocity[i]) > limits.max_speed[i] else 0
        if memory.overspeed[i] >= limits.violation_readings and code == FaultCode.NO_FAULT:
            code, index = report_fault(memory, FaultCode.VELOCITY_LIMIT, reading.velocity[i], limits.max_speed[i]), i
        tau = memory.commanded_torque[i]
        if memory.has_torques:
            tau = reading.torque[i]
            memory.overtorque[i] = memory.overtorque[i] + 1 if abs(tau) > 1.1 * limits.max_torque[i] else 0
            if memory.overtorque[i] >= limits.violation_readings and code == FaultCode.NO_FAULT:
                code, index = report_fault(memory, FaultCode.TORQUE_LIMIT, tau, limits.max_torque[i]), i
            memory.torque_error[i] = memory.torque_error[i] + filter_gain * (
                tau - memory.commanded_torque[i] - memory.torque_error[i]
            )
            if (
                abs(memory.torque_error[i]) > limits.max_torque_tracking_error * limits.max_torque[i]
                and code == FaultCode.NO_FAULT
            ):
                code, index = (
                    report_fault(
                        memory,
                        FaultCode.TORQUE_TRACKING_ERROR,
                        memory.torque_error[i],
                        limits.max_torque_tracking_error * limits.max_torque[i],
                    ),
                    i,
                )
        if memory.has_temperatures:
            memory.overheat[i] = memory.overheat[i] + 1 if reading.temperature[i] > limits.max_temperature[i] else 0
            if memory.overheat[i] >= limits.violation_readings and code == FaultCode.NO_FAULT:
                code, index = (
                    report_fault(
                        memory, FaultCode.TEMPERATURE_LIMIT, reading.temperature[i], limits.max_temperature[i]
                    ),
                    i,
                )
        power += max(tau * reading.velocity[i], 0.0)
    memory.overpower = memory.overpower + 1 if power > limits.max_power else 0
    if memory.overpower >= limits.violation_readings and code == FaultCode.NO_FAULT:
        code, index = report_fault(memory, FaultCode.POWER_LIMIT, power, limits.max_power), 0
    return code, index


@compiled(inline=False)
def check_foot_sensors(limits: LimitArrays, reading: SensorArrays, memory: SafetyMemory) -> None:
    """Marks foot sensors that are frozen or not finite as invalid; they are ignored and cause no fault."""
    changed = False
    for i in range(len(reading.feet)):
        changed = changed or reading.feet[i] != memory.feet[i]
    memory.invalid_feet = 0
    bit = 1
    for i in range(len(reading.feet)):
        # A swing foot reports 0 for many readings; a constant nonzero value while others change is a defect.
        is_frozen = reading.feet[i] == memory.feet[i] and reading.feet[i] != 0.0 and changed
        if not math.isfinite(reading.feet[i]):
            memory.foot_repeats[i] = limits.max_frozen_readings
        elif is_frozen:
            memory.foot_repeats[i] += 1
        elif reading.feet[i] != memory.feet[i]:
            memory.foot_repeats[i] = 0
        if memory.foot_repeats[i] >= limits.max_frozen_readings:
            memory.invalid_feet += bit
        bit *= 2
        memory.feet[i] = reading.feet[i]
    if memory.invalid_feet != 0:
        memory.clamp_counts.ignored_foot_sensor += 1
