"""One tick of the safety layer in the compiled language: fault detection, command limits, damping after a fault.

`filter_command` runs as machine code in Python and is exported as C99.  Torques are limited in `limit_command`; a fault
leads to `apply_fault_damping`.
"""

import math
from typing import NamedTuple

from ..compiler import Matrix, Vector, compiled, entry
from .safety_checks import (
    FaultCode,
    LimitArrays,
    SafetyMemory,
    SensorArrays,
    check_reading,
    is_later,
    is_stamp,
    report_fault,
    wrap_angle,
)

# Fraction of the speed limit above which accelerating torques are reduced, and distance to a position limit below which
# torques towards it are reduced [rad].
SPEED_LIMIT_ONSET, POSITION_LIMIT_ZONE = 0.9, 0.05


class CommandArrays(NamedTuple):
    """Arrays of a motor command, changed in place; see `quaddyn.runtime.MotorCommand`."""

    tau: Vector
    position: Vector
    velocity: Vector
    stiffness: Vector
    damping: Vector


@entry("the safety layer")
def is_valid_command(values: Matrix) -> bool:
    """Returns whether a command (5, nu), see `MotorCommand.packed`, is finite and has no negative gain."""
    for i in range(len(values)):
        for j in range(len(values[i])):
            if not math.isfinite(values[i, j]) or (i >= 3 and values[i, j] < 0.0):
                return False
    return True


@compiled(inline=False)
def check_command(command: CommandArrays, memory: SafetyMemory) -> tuple[FaultCode, int]:
    """Checks that a command is finite and has no negative gain; returns the fault code and the joint."""
    for i in range(len(command.tau)):
        total = command.tau[i] + command.position[i] + command.velocity[i] + command.stiffness[i] + command.damping[i]
        if not (math.isfinite(total) and command.stiffness[i] >= 0.0 and command.damping[i] >= 0.0):
            return report_fault(memory, FaultCode.INVALID_COMMAND, 0.0, 0.0), i
    return FaultCode.NO_FAULT, 0


@compiled(inline=False)
def limit_command(limits: LimitArrays, reading: SensorArrays, command: CommandArrays, memory: SafetyMemory) -> None:
    """Clamps gains, then the torque that they produce at the present reading by each limit in turn, in place."""
    for i in range(len(command.tau)):
        q, v, max_torque = reading.position[i], reading.velocity[i], limits.max_torque[i]
        kp, kd = min(command.stiffness[i], limits.max_stiffness[i]), min(command.damping[i], limits.max_damping[i])
        if kp < command.stiffness[i] or kd < command.damping[i]:
            memory.clamp_counts.gain += 1
        command.stiffness[i] = kp
        command.damping[i] = kd
        error = command.position[i] - q
        if limits.is_continuous[i] != 0:
            error = wrap_angle(error)
        pd_torque = kp * error + kd * (command.velocity[i] - v)
        requested = command.tau[i] + pd_torque
        # Of NaN, as the sum of infinite torques is, min and max depend on the compiler.
        torque = min(max(requested, -max_torque), max_torque) if math.isfinite(requested) else 0.0
        if torque != requested:
            memory.clamp_counts.torque += 1
        if abs(torque - memory.commanded_torque[i]) > limits.max_torque_step[i]:
            memory.clamp_counts.torque_rate += 1
            torque = min(
                max(torque, memory.commanded_torque[i] - limits.max_torque_step[i]),
                memory.commanded_torque[i] + limits.max_torque_step[i],
            )
        if torque * v > 0.0 and abs(v) > SPEED_LIMIT_ONSET * limits.max_speed[i]:
            memory.clamp_counts.speed += 1
            max_driving = (
                max_torque * max(limits.max_speed[i] - abs(v), 0.0) / ((1.0 - SPEED_LIMIT_ONSET) * limits.max_speed[i])
            )
            torque = min(max(torque, -max_driving), max_driving)
        distance = limits.max_position[i] - q if torque > 0.0 else q - limits.min_position[i]
        if distance < POSITION_LIMIT_ZONE and torque != 0.0:
            max_towards_limit = max_torque * max(distance, 0.0) / POSITION_LIMIT_ZONE
            if abs(torque) > max_towards_limit:
                memory.clamp_counts.position += 1
            torque = min(max(torque, -max_towards_limit), max_towards_limit)
        # A torque that is not finite is replaced by zero.
        if not math.isfinite(torque):
            torque = 0.0
        # The command is unchanged if its torque is within all limits.
        tau = command.tau[i] if torque == requested else torque - pd_torque
        # If a spring or feed-forward torque alone is above the limit, the other one compensates it only until the joint
        # moves.  A spring is replaced by the clamped torque, a feed-forward torque is clamped.
        if not abs(pd_torque) <= max_torque:
            tau = torque
            command.position[i] = 0.0
            command.velocity[i] = 0.0
            command.stiffness[i] = 0.0
            command.damping[i] = 0.0
        elif abs(tau) > max_torque:
            memory.clamp_counts.torque += 1
            tau = min(max(tau, -max_torque), max_torque)
            torque = tau + pd_torque
        command.tau[i] = tau
        memory.commanded_torque[i] = torque


@compiled(inline=False)
def apply_fault_damping(
    limits: LimitArrays, reading: SensorArrays, command: CommandArrays, memory: SafetyMemory
) -> None:
    """Replaces the command by pure damping, reduced to the torque limits at the present velocity."""
    for i in range(len(command.tau)):
        v = reading.velocity[i]
        kd = limits.fault_damping[i]
        if math.isfinite(v) and kd * abs(v) > limits.max_torque[i]:
            kd = limits.max_torque[i] / abs(v)
        command.tau[i] = 0.0
        command.position[i] = 0.0
        command.velocity[i] = 0.0
        command.stiffness[i] = 0.0
        command.damping[i] = kd
        memory.commanded_torque[i] = -kd * v if math.isfinite(v) else 0.0


@compiled(inline=False)
def accept_reading(limits: LimitArrays, memory: SafetyMemory, time: float, now: float) -> float:
    """Returns the time between this reading and the last accepted one [s]; 0 for a reading that is not newer."""
    memory.periods_waited += 1
    elapsed_clock = float(memory.periods_waited) * limits.period
    if now - memory.caller_clock > elapsed_clock:  # ignores a clock that stands still, decreases or is NaN
        elapsed_clock = now - memory.caller_clock
    is_first = memory.n_accepted == 0
    if not (is_stamp(time) if is_first else is_later(time, memory.reading_stamp, elapsed_clock)):
        return 0.0
    elapsed = limits.period if is_first else time - memory.reading_stamp
    memory.periods_waited = 0
    memory.reading_stamp = time
    memory.caller_clock = now
    return elapsed


@entry("the safety layer")
def filter_command(
    limits: LimitArrays,
    reading: SensorArrays,
    command: CommandArrays,
    memory: SafetyMemory,
    time: float,
    now: float,
    raised: int,
) -> int:
    """Runs one tick: latches the first fault, then limits the command or, after a fault, replaces it by damping.

    Args:
        limits: limits by joint and period.
        reading: the newest reading.
        command: the controller's command; on return the command for the motors.
        memory: state between ticks, updated.
        time: time stamp of the reading by the robot's clock [s]; if it is not `is_later`, there is no new reading.
        now: the caller's clock [s]; if it stands still, periods are counted instead.
        raised: code of a fault detected elsewhere, such as a failed controller; `FaultCode.NO_FAULT` for none,
            `FaultCode.NO_COMMAND` if no command has arrived: motors are damped at this tick without a fault.

    Returns:
        The code of the latched fault, 0 for none.
    """
    elapsed = accept_reading(limits, memory, time, now)
    if memory.fault == FaultCode.NO_FAULT:
        code, index = FaultCode.NO_FAULT, 0
        memory.fault_value, memory.fault_limit = 0.0, 0.0
        if memory.periods_waited > limits.max_reading_periods:
            code = report_fault(
                memory,
                FaultCode.STALE_READING,
                float(memory.periods_waited) * limits.period,
                float(limits.max_reading_periods) * limits.period,
            )
        if code == FaultCode.NO_FAULT and elapsed > 0.0:
            code, index = check_reading(limits, reading, memory, elapsed)
        # Sensor faults come first, since they may have caused a failure of the controller.
        if code == FaultCode.NO_FAULT and raised != FaultCode.NO_COMMAND:
            code = FaultCode(raised)
        if code == FaultCode.NO_FAULT:
            code, index = check_command(command, memory)
        memory.fault = code
        memory.fault_index = index
    if memory.fault == FaultCode.NO_FAULT and raised != FaultCode.NO_COMMAND:
        limit_command(limits, reading, command, memory)
    else:
        apply_fault_damping(limits, reading, command, memory)
    return memory.fault
