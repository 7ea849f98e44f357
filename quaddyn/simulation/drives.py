"""`Drives`: motors of a plant between commanded torques and joints, with delay and backlash.

A commanded torque takes effect `delay` later. A motor behind a gear with backlash is a separate body: the two-mass
system with a gap of Nordin and Gutman (2002, "Controlling mechanical systems with backlash: a survey", Automatica 38),
with rigid teeth and shaft. Within the gap motor and joint move independently,

    J w' = tau - b w - c sign(w),        and no motor torque acts on the joint.

When teeth meet, motor and joint move together without bouncing while the teeth are pressed. This is a unilateral
constraint on either side, stepped semi-implicitly like ground contacts (Moreau 1999): over a step h the motor may be
ahead of its joint by at most half the gap, e <= g, so that if e would exceed it

    w+ = v+ + r,    r = (g - e) / h,    tau_joint = tau - b v+ - c sign(v+) + J (w - r - v+) / h.

The last term contains the inertia of the rotor at the joint, ``J (v - v+) / h``, and the impulse of the impact, which
ends with the step. Whether teeth meet is predicted from the velocity of the joint and that of the step before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import IntVector, Matrix, Record, Vector, compiled, entry
from ..urdf.tree import Array
from .actuators import Actuators, TorqueSpeedLimits, limit_motor_torques


class DelayBuffer(Record):
    """Ring buffer of commanded torques."""

    torques: Matrix  # (m, nu) torques commanded in the last m steps; m = 0 without delays [N m or N]
    row: int  # row of the present step


class Drives(NamedTuple):
    """Motors of a plant, nu of them at nv degrees of freedom.

    Attributes:
        actuated: (nu,) degrees of freedom of the motors.
        whole_delay_steps: (nu,) whole steps of the delay.
        fractional_delay: (nu,) remaining delay, divided by the step.
        delivered: (nu,) motor torques of the last step [N m or N].
        delay: torques commanded in the last steps.
        arriving: (nu,) scratch: commanded torques after the delay.
        backlash_motors: (l,) motors whose gears have backlash.
        half_gap: (nu,) half of the backlash [rad or m].
        rotor: (nu,) inertia on the motor side [kg m^2 or kg].
        viscous: (nu,) viscous friction on the motor side.
        coulomb: (nu,) Coulomb friction on the motor side.
        offset: (nu,) position of the motor relative to its joint [rad or m].
        speed: (nu,) velocity of motors with backlash [rad/s or m/s].
        offset_start: (nu,) `offset` at the start of the substep.
        speed_start: (nu,) `speed` at the start of the substep.
        v_previous: (nv,) velocity one step earlier, for plants that do not store it.
        motor_speed: (nu,) scratch: velocities of the motors.
        teeth_contact: (nu,) 1 or -1 if teeth push the joint forward or back in this substep, 0 if they are apart.
        gap_speed: (nu,) speed at which the rest of the gap closes within the substep.
        free_speed: (nu,) velocity of the motor at the end of the substep if the teeth are apart.
        torque: (nu,) torque on the joint without friction and the inertia `coupled_inertia` [N m or N].
        coupled_inertia: (nv,) inertia of rotors that move with their joints.
        damping: (nv,) viscous friction of the joints, including motors in teeth contact.
        friction: (nv,) Coulomb friction of the joints, including motors in teeth contact.
        joint_damping: (nv,) viscous friction of the joints without motors that have backlash.
        joint_friction: (nv,) Coulomb friction of the joints without motors that have backlash.
        armature: (nv,) rotor inertia at the joints without motors that have backlash.
    """

    actuated: IntVector
    whole_delay_steps: IntVector
    fractional_delay: Vector
    delivered: Vector
    delay: DelayBuffer
    arriving: Vector
    backlash_motors: IntVector
    half_gap: Vector
    rotor: Vector
    viscous: Vector
    coulomb: Vector
    offset: Vector
    speed: Vector
    offset_start: Vector
    speed_start: Vector
    v_previous: Vector
    motor_speed: Vector
    teeth_contact: IntVector
    gap_speed: Vector
    free_speed: Vector
    torque: Vector
    coupled_inertia: Vector
    damping: Vector
    friction: Vector
    joint_damping: Vector
    joint_friction: Vector
    armature: Vector


def make_drives(actuators: Actuators, dt: float) -> Drives:
    """Returns the motors at rest of a plant with time step dt [s]."""
    nu, nv, index = actuators.robot.nu, actuators.robot.nv, np.array(actuators.robot.actuated_index, dtype=np.int64)
    steps = actuators.delay / dt
    whole_steps = np.floor(steps + 1e-9)
    buffer_rows = int(whole_steps.max(initial=0.0)) + 2 if steps.any() else 0
    with_backlash = np.flatnonzero(actuators.backlash)
    joint_values = []  # losses and inertia at the joints, without those of motors behind backlash
    for joint_total, motor_value in (
        (actuators.damping, actuators.viscous),
        (actuators.friction, actuators.coulomb),
        (actuators.armature, actuators.motor_side_inertia),
    ):
        joint_value = joint_total.copy()
        joint_value[index[with_backlash]] = np.maximum(
            joint_value[index[with_backlash]] - motor_value[with_backlash], 0.0
        )
        joint_values.append(joint_value)
    zeros = np.zeros
    return Drives(
        index, whole_steps.astype(np.int64), np.maximum(steps - whole_steps, 0.0), zeros(nu),
        DelayBuffer.allocate(torques=(buffer_rows, nu)), zeros(nu), with_backlash.astype(np.int64),
        0.5 * actuators.backlash, actuators.motor_side_inertia.copy(), actuators.viscous.copy(),
        actuators.coulomb.copy(), zeros(nu), zeros(nu), zeros(nu), zeros(nu), zeros(nv), zeros(nu),
        zeros(nu, dtype=np.int64), zeros(nu), zeros(nu), zeros(nu), zeros(nv),
        actuators.damping.copy(), actuators.friction.copy(), *joint_values,
    )  # fmt: skip


def reset_drives(drives: Drives, v: Array) -> None:
    """Sets the motors to the joint velocities v (nv,), in the middle of their gaps, without delayed torques."""
    drives.delay.torques[:], drives.delay.row = 0.0, 0
    drives.offset[:], drives.delivered[:], drives.v_previous[:] = 0.0, 0.0, v
    drives.speed[:] = v[drives.actuated]


def persistent_arrays(drives: Drives) -> tuple[NDArray[np.float64] | NDArray[np.int64], ...]:
    """Returns the arrays that later steps use; no arrays if there is neither delay nor backlash."""
    if not len(drives.delay.torques) and not len(drives.backlash_motors):
        return ()
    torques, row = drives.delay  # the arrays of its fields
    return torques, row.reshape(1), drives.offset, drives.speed, drives.v_previous


@compiled()
def write_motor_torques(motors: TorqueSpeedLimits, drives: Drives, tau: Vector, v: Vector, out: Vector) -> None:
    """Computes the motor torques of this step into `out` (nu,): delayed commands within the torque-speed limits.

    With a delay that is not a whole number of steps, the torque is the mean over the step.
    """
    motor_speed, n_rows, present_row = drives.motor_speed, len(drives.delay.torques), drives.delay.row
    for j in range(len(out)):
        motor_speed[j] = v[drives.actuated[j]]
        drives.arriving[j] = tau[j]
    for k_motor in range(len(drives.backlash_motors)):
        motor_speed[drives.backlash_motors[k_motor]] = drives.speed[drives.backlash_motors[k_motor]]
    if n_rows > 0:
        for j in range(len(out)):
            drives.delay.torques[present_row, j] = tau[j]
        for j in range(len(out)):
            row, fraction = present_row - drives.whole_delay_steps[j], drives.fractional_delay[j]
            row = row if row >= 0 else row + n_rows
            drives.arriving[j] = (1.0 - fraction) * drives.delay.torques[row, j] + fraction * drives.delay.torques[
                row - 1 if row > 0 else n_rows - 1, j
            ]
    limit_motor_torques(motors, drives.arriving, motor_speed, out)


@compiled()
def begin_motor_step(drives: Drives) -> None:
    """Sets the start of the first substep to the start of the step."""
    for j in range(len(drives.offset)):
        drives.offset_start[j], drives.speed_start[j] = drives.offset[j], drives.speed[j]


@compiled()
def close_backlash(drives: Drives, motor_torque: Vector, v: Vector, v_previous: Vector, h: float) -> None:
    """Determines which teeth are in contact in a substep, and the resulting torque, friction and inertia at the joints.

    Args:
        drives: the motors.
        motor_torque: (nu,) motor torques [N m or N].
        v: (nv,) velocity at the start of the substep.
        v_previous: (nv,) velocity one substep length before the start.
        h: length of the substep [s].
    """
    drives.torque[: len(motor_torque)] = motor_torque
    for k_motor in range(len(drives.backlash_motors)):
        j = drives.backlash_motors[k_motor]
        i, rotor_inertia, offset, speed = (
            drives.actuated[j],
            drives.rotor[j],
            drives.offset_start[j],
            drives.speed_start[j],
        )
        momentum, friction_impulse = rotor_inertia * speed + h * motor_torque[j], h * drives.coulomb[j]
        free_speed = 0.0
        if momentum > friction_impulse:
            free_speed = (momentum - friction_impulse) / (rotor_inertia + h * drives.viscous[j])
        elif momentum < -friction_impulse:
            free_speed = (momentum + friction_impulse) / (rotor_inertia + h * drives.viscous[j])
        predicted_offset = offset + h * (free_speed - (2.0 * v[i] - v_previous[i]))
        side = 1 if predicted_offset > drives.half_gap[j] else -1 if predicted_offset < -drives.half_gap[j] else 0
        drives.free_speed[j], drives.teeth_contact[j] = free_speed, side
        drives.damping[i], drives.friction[i], drives.coupled_inertia[i] = (
            drives.joint_damping[i],
            drives.joint_friction[i],
            0.0,
        )
        drives.torque[j] = 0.0
        if side != 0:
            drives.gap_speed[j] = (side * drives.half_gap[j] - offset) / h
            drives.torque[j] = motor_torque[j] + rotor_inertia * (speed - drives.gap_speed[j] - v[i]) / h
            drives.coupled_inertia[i] = rotor_inertia
            drives.damping[i] += drives.viscous[j]
            drives.friction[i] += drives.coulomb[j]


@compiled()
def advance_motors(drives: Drives, v_end: Vector, h: float) -> None:
    """Advances the motors by a substep of length h [s] that ends with the joint velocities `v_end` (nv,)."""
    for k_motor in range(len(drives.backlash_motors)):
        j = drives.backlash_motors[k_motor]
        joint_speed, side = v_end[drives.actuated[j]], drives.teeth_contact[j]
        if side != 0:
            drives.offset_start[j], drives.speed_start[j] = side * drives.half_gap[j], joint_speed + drives.gap_speed[j]
        else:
            drives.offset_start[j] += h * (drives.free_speed[j] - joint_speed)
            drives.speed_start[j] = drives.free_speed[j]


@compiled()
def finish_motor_step(drives: Drives, motor_torque: Vector) -> None:
    """Stores the state of the motors at the end of a step with motor torques `motor_torque` (nu,)."""
    delay = drives.delay
    delay.row = delay.row + 1 if delay.row + 1 < len(delay.torques) else 0
    for j in range(len(motor_torque)):
        drives.delivered[j] = motor_torque[j]
        drives.offset[j], drives.speed[j] = drives.offset_start[j], drives.speed_start[j]


@entry("drives with delay and backlash")
def start_step(motors: TorqueSpeedLimits, drives: Drives, tau: Vector, v: Vector, h: float, out: Vector) -> None:
    """Computes the motor torques and teeth contacts of a step without substeps, for a plant in another simulator."""
    write_motor_torques(motors, drives, tau, v, out)
    begin_motor_step(drives)
    close_backlash(drives, out, v, drives.v_previous, h)


@entry("drives with delay and backlash")
def end_step(drives: Drives, motor_torque: Vector, v: Vector, v_end: Vector, h: float) -> None:
    """Advances the motors by the step that `start_step` began, with the joint velocities v (nv,) and `v_end` around it.

    The motor torques `motor_torque` (nu,) are those of `start_step`.
    """
    advance_motors(drives, v_end, h)
    finish_motor_step(drives, motor_torque)
    drives.v_previous[: len(v)] = v
