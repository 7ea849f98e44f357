"""`Drives`: what a plant's motors remember: torques on their way to them, and where they are within their gears' play.

A torque that is asked for takes effect `delay` later.  A motor behind a gear with backlash is a body of its own: the
two-mass system with a gap of Nordin and Gutman (2002, "Controlling mechanical systems with backlash: a survey",
Automatica 38), with teeth and shaft rigid.  Within the gap motor and joint move by themselves,

    J w' = tau - b w - c sign(w),        and the joint feels no motor at all;

where teeth meet they go on together, without bouncing, as long as they are pressed.  That is a unilateral constraint on
either side, stepped velocities first as contacts of the ground are (Moreau 1999): over a step h the motor may be ahead
of its joint by half the gap, e <= g, so that where e would be beyond it

    w+ = v+ + r,    r = (g - e) / h,    tau_joint = tau - b v+ - c sign(v+) + J (w - r - v+) / h.

The last term is the rotor's inertia at the joint, ``J (v - v+) / h``, and the impulse of the impact, which ends with
the step.  Whether teeth meet is foreseen from the joint's velocity and the one before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import IntVector, Matrix, Vector, compiled, entry
from ..urdf.tree import Array
from .actuators import Actuators, TorqueSpeedLimits, limit_motor_torques


class Drives(NamedTuple):
    """Motors of a plant between the torques that are asked for and the joints.

    Attributes:
        actuated: (nu,) degrees of freedom.
        whole: (nu,) steps by which torques come late, and
        share: (nu,) of another one.
        given: (nu,) torques of the motors in the last step [N m or N].
        waiting: (m, nu) torques that were asked for in the last m steps, round and round; m = 0 where none comes late.
        late: (nu,) work: those that arrive.
        row: (1,) of `waiting` that is this step's.
        loose: (l,) motors whose gears have backlash.
        half: (nu,) of the backlash [rad or m].
        rotor: (nu,) inertia on the motor's side [kg m^2 or kg].
        viscous, coulomb: (nu,) friction there.
        offset: (nu,) by how far the motor is ahead of its joint [rad or m].
        speed: (nu,) of the motor, for those that are loose [rad/s or m/s].
        offset_here, speed_here: (nu,) the same at the start of a piece of the step.
        before: (nv,) velocity one step earlier, of a plant that does not keep it itself.
        turning: (nu,) work: speeds of motors.
        touching: (nu,) in this piece: 1 or -1 where teeth push the joint forward or back, 0 where none do.
        closing: (nu,) speed at which what is left of the gap, or too much, goes within the piece.
        alone: (nu,) speed of the motor at the end of the piece if no teeth touch.
        torque: (nu,) on the joints, but for friction and the inertia `carried` [N m or N].
        carried: (nv,) inertia of rotors that move with their joints.
        damping, friction: (nv,) of the joints, with those of motors whose teeth touch.
        damping_alone, friction_alone, armature: (nv,) of the joints, without motors that have backlash.
    """

    actuated: IntVector
    whole: IntVector
    share: Vector
    given: Vector
    waiting: Matrix
    late: Vector
    row: IntVector
    loose: IntVector
    half: Vector
    rotor: Vector
    viscous: Vector
    coulomb: Vector
    offset: Vector
    speed: Vector
    offset_here: Vector
    speed_here: Vector
    before: Vector
    turning: Vector
    touching: IntVector
    closing: Vector
    alone: Vector
    torque: Vector
    carried: Vector
    damping: Vector
    friction: Vector
    damping_alone: Vector
    friction_alone: Vector
    armature: Vector


def drives_of(actuators: Actuators, dt: float) -> Drives:
    """For a plant whose steps take dt [s], at rest."""
    nu, nv, index = actuators.robot.nu, actuators.robot.nv, np.array(actuators.robot.actuated_index, dtype=np.int64)
    steps = actuators.delay / dt
    whole = np.floor(steps + 1e-9)
    room = int(whole.max(initial=0.0)) + 2 if steps.any() else 0
    loose = np.flatnonzero(actuators.backlash)
    alone = []
    for total, share in (
        (actuators.damping, actuators.viscous),
        (actuators.friction, actuators.coulomb),
        (actuators.armature, actuators.motor_side_inertia),
    ):
        own = total.copy()
        own[index[loose]] = np.maximum(own[index[loose]] - share[loose], 0.0)
        alone.append(own)
    x = np.zeros
    return Drives(
        index, whole.astype(np.int64), np.maximum(steps - whole, 0.0), x(nu), x((room, nu)), x(nu),
        x(1, dtype=np.int64), loose.astype(np.int64), 0.5 * actuators.backlash, actuators.motor_side_inertia.copy(),
        actuators.viscous.copy(), actuators.coulomb.copy(), x(nu), x(nu), x(nu), x(nu), x(nv), x(nu),
        x(nu, dtype=np.int64), x(nu), x(nu), x(nu), x(nv), actuators.damping.copy(), actuators.friction.copy(), *alone,
    )  # fmt: skip


def restart(drives: Drives, v: Array) -> None:
    """Motors at rest beside their joints at velocity v (nv,), in the middle of their gaps; no torque is on its way."""
    drives.waiting[:], drives.row[:], drives.offset[:], drives.given[:], drives.before[:] = 0.0, 0, 0.0, 0.0, v
    drives.speed[:] = v[drives.actuated]


def remembered(drives: Drives) -> tuple[NDArray[np.float64] | NDArray[np.int64], ...]:
    """What of drives outlives a step; nothing where torques come at once and no gear has backlash."""
    if not len(drives.waiting) and not len(drives.loose):
        return ()
    return drives.waiting, drives.row, drives.offset, drives.speed, drives.before


@compiled()
def supply(motors: TorqueSpeedLimits, drives: Drives, tau: Vector, v: Vector, out: Vector) -> None:
    """The torques of motors in this step, into `out` (nu,), of those asked for now; the mean over the step."""
    turning, m, now = drives.turning, len(drives.waiting), drives.row[0]
    for j in range(len(out)):
        turning[j] = v[drives.actuated[j]]
        drives.late[j] = tau[j]
    for each in range(len(drives.loose)):
        turning[drives.loose[each]] = drives.speed[drives.loose[each]]
    if m > 0:
        for j in range(len(out)):
            drives.waiting[now, j] = tau[j]
        for j in range(len(out)):
            k, part = now - drives.whole[j], drives.share[j]
            k = k if k >= 0 else k + m
            drives.late[j] = (1.0 - part) * drives.waiting[k, j] + part * drives.waiting[k - 1 if k > 0 else m - 1, j]
    limit_motor_torques(motors, drives.late, turning, out)


@compiled()
def begin(drives: Drives) -> None:
    """The first piece begins where the step does."""
    for j in range(len(drives.offset)):
        drives.offset_here[j], drives.speed_here[j] = drives.offset[j], drives.speed[j]


@compiled()
def engage(drives: Drives, given: Vector, v: Vector, before: Vector, h: float) -> None:
    """Which teeth touch in a piece of length h, and what is on the joints then.

    Args:
        drives: the motors.
        given: (nu,) their torques [N m or N].
        v: (nv,) velocity at the start of the piece.
        before: (nv,) velocity as long before as the piece is.
        h: [s].
    """
    for j in range(len(given)):
        drives.torque[j] = given[j]
    for each in range(len(drives.loose)):
        j = drives.loose[each]
        i, rotor, offset, speed = drives.actuated[j], drives.rotor[j], drives.offset_here[j], drives.speed_here[j]
        pushed, brake = rotor * speed + h * given[j], h * drives.coulomb[j]
        alone = 0.0
        if pushed > brake:
            alone = (pushed - brake) / (rotor + h * drives.viscous[j])
        elif pushed < -brake:
            alone = (pushed + brake) / (rotor + h * drives.viscous[j])
        there = offset + h * (alone - (2.0 * v[i] - before[i]))
        side = 1 if there > drives.half[j] else -1 if there < -drives.half[j] else 0
        drives.alone[j], drives.touching[j] = alone, side
        drives.damping[i], drives.friction[i], drives.carried[i] = (
            drives.damping_alone[i],
            drives.friction_alone[i],
            0.0,
        )
        drives.torque[j] = 0.0
        if side != 0:
            drives.closing[j] = (side * drives.half[j] - offset) / h
            drives.torque[j] = given[j] + rotor * (speed - drives.closing[j] - v[i]) / h
            drives.carried[i] = rotor
            drives.damping[i] += drives.viscous[j]
            drives.friction[i] += drives.coulomb[j]


@compiled()
def follow(drives: Drives, after: Vector, h: float) -> None:
    """Motors move on by a piece of length h, at whose end the robot's velocity is `after` (nv,)."""
    for each in range(len(drives.loose)):
        j = drives.loose[each]
        moved, side = after[drives.actuated[j]], drives.touching[j]
        if side != 0:
            drives.offset_here[j], drives.speed_here[j] = side * drives.half[j], moved + drives.closing[j]
        else:
            drives.offset_here[j] += h * (drives.alone[j] - moved)
            drives.speed_here[j] = drives.alone[j]


@compiled()
def settle(drives: Drives, given: Vector) -> None:
    """The step is taken, in which motors gave these torques (nu,)."""
    drives.row[0] = drives.row[0] + 1 if drives.row[0] + 1 < len(drives.waiting) else 0
    for j in range(len(given)):
        drives.given[j] = given[j]
        drives.offset[j], drives.speed[j] = drives.offset_here[j], drives.speed_here[j]


@entry("drives with delay and backlash")
def start_step(motors: TorqueSpeedLimits, drives: Drives, tau: Vector, v: Vector, h: float, out: Vector) -> None:
    """`supply` and `engage` for a step in one piece, of a plant that does not keep the velocity before."""
    supply(motors, drives, tau, v, out)
    begin(drives)
    engage(drives, out, v, drives.before, h)


@entry("drives with delay and backlash")
def end_step(drives: Drives, given: Vector, v: Vector, after: Vector, h: float) -> None:
    """The motors after such a step, in which they gave these torques (nu,), from v (nv,) to `after` (nv,)."""
    follow(drives, after, h)
    settle(drives, given)
    for i in range(len(v)):
        drives.before[i] = v[i]
