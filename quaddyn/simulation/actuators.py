"""`Actuators`: motors of a robot with torque and speed limits, delay, friction, rotor inertia and backlash.

`limit_motor_torques` limits the torques of all simulated motors.  `Drives` are the motors of a plant between commanded
torques and joints, with delay and backlash.  A commanded torque takes effect `delay` later. A motor behind a gear with
backlash is a separate body: the two-mass system with a gap of Nordin and Gutman (2002, "Controlling mechanical systems
with backlash: a survey", Automatica 38), with rigid teeth and shaft. Within the gap motor and joint move independently,

    J w' = tau - b w - c sign(w),        and no motor torque acts on the joint.

When teeth meet, motor and joint move together without bouncing while the teeth are pressed. This is a unilateral
constraint on either side, stepped semi-implicitly like ground contacts (Moreau 1999): over a step h the motor may be
ahead of its joint by at most half the gap, e <= g, so that if e would exceed it

    w+ = v+ + r,    r = (g - e) / h,    tau_joint = tau - b v+ - c sign(v+) + J (w - r - v+) / h.

The last term contains the inertia of the rotor at the joint, ``J (v - v+) / h``, and the impulse of the impact, which
ends with the step. Whether teeth meet is predicted from the velocity of the joint and that of the step before.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiler import ByteVector, IntVector, Matrix, Record, Vector, compiled, entry
from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_type, check_vector
from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from ..safe_files import file_errors, read_regular_file
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen

#: Derating range of a limit without a corner [rad/s or m/s], and smallest nonzero fraction of the maximum torque.
MIN_TORQUE_FRACTION = 1e-9
#: Format of files of actuators, their maximum size [bytes], and the values that may be infinite.
FILE_FORMAT, MAX_FILE_SIZE, INFINITE = 1, 1 << 22, ("effort", "corner_speed", "no_load_speed")
#: Maximum delay [s], for which a plant buffers torques.
MAX_DELAY = 1.0


class TorqueSpeedLimits(NamedTuple):
    """Torque-speed limits of `Actuators` for compiled code."""

    max_torque: Vector  # (nu,) maximum torque [N m or N]
    no_load_speed: Vector  # (nu,) speed at which the driving torque is zero [rad/s or m/s]
    derating_range: Vector  # (nu,) difference between no-load speed and corner speed [rad/s or m/s]
    is_speed_limited: ByteVector  # (nu,) whether there is a no-load speed


@compiled()
def limit_motor_torques(motors: TorqueSpeedLimits, tau: Vector, motor_speeds: Vector, out: Vector) -> None:
    """Computes the motor torques for requested torques `tau` at motor speeds, into `out`; (nu,) each.

    Torques are clamped to the effort limit, and driving torques to the torque-speed line beyond the corner speed.
    """
    for j in range(len(out)):
        torque = min(max(tau[j], -motors.max_torque[j]), motors.max_torque[j])
        if motors.is_speed_limited[j]:
            speed = motor_speeds[j]
            fraction = min((motors.no_load_speed[j] - abs(speed)) / motors.derating_range[j], 1.0)
            available = (
                motors.max_torque[j] * max(fraction, MIN_TORQUE_FRACTION) if fraction > 0.0 else 0.0
            )  # an infinite maximum torque stays infinite below the no-load speed
            if torque * speed > 0.0:
                torque = min(max(torque, -available), available)
        out[j] = torque


@entry("motors")
def limit_motor_torques_entry(motors: TorqueSpeedLimits, tau: Vector, motor_speeds: Vector, out: Vector) -> None:
    """Calls `limit_motor_torques` from Python."""
    limit_motor_torques(motors, tau, motor_speeds, out)


@renamed_attributes(
    arguments="constructor_arguments", deliver="apply_limits", motors="torque_speed_limits", rotor="motor_side_inertia"
)
class Actuators(
    StrictAttributes,
    fixed=(
        "robot", "effort", "no_load_speed", "corner_speed", "delay", "backlash", "damping", "friction", "armature",
        "viscous", "coulomb", "rotor_inertia", "motor_side_inertia", "torque_speed_limits",
    ),
):  # fmt: skip
    """Geared motors at the actuated joints.

    A motor delivers any torque up to its effort limit at low speed. Beyond the corner speed the torque that it can
    deliver *in the direction of motion* decreases linearly, to zero at the no-load speed (the line of a DC motor at
    constant voltage); braking torques are not reduced.

    A torque takes effect `delay` after it is commanded; before that it is zero. If the delay is not a whole number of
    time steps, the torque is the mean over the step. This is the delay of the drive: if springs and dampers contribute
    to a torque, they are delayed, too.

    Friction and rotor inertia are added to those of the joints in the robot's record.

    A gear with backlash lets its motor turn by that angle, from stop to stop, before it moves the joint. Motor and
    joint are two masses with a gap, with rigid teeth that meet without bouncing (Nordin and Gutman 2002, "Controlling
    mechanical systems with backlash: a survey", without their elastic shaft). Rotor inertia, the armature of the joint
    in the record and the friction given here are on the motor side of the gap; the friction of the record is on the
    joint side. Encoders are on the motors, as in most legged robots: `Sensors` measure the motor position divided by
    the gear ratio, and ``q`` of a plant is the joint position. Plants start in the middle of the gaps.

    Args:
        robot: any robot.
        effort: maximum torque [N m or N], a number for all joints or (nu,) in torque order, as all arguments below;
            None: ``effort_limits`` of the robot.
        corner_speed: maximum speed at which the full torque drives [rad/s or m/s]; None: the no-load speed (a sharp
            limit).
        no_load_speed: speed at which the driving torque is zero [rad/s or m/s]; inf: no speed limit.
        viscous: viscous friction [N m s/rad or N s/m].
        coulomb: Coulomb friction [N m or N].
        rotor_inertia: inertia of the rotor at the joint (times the gear ratio squared) [kg m^2 or kg].
        delay: time from a command to its torque, at most 1 [s].
        backlash: backlash of the gear at the joint, from stop to stop [rad or m]; requires inertia on the motor side.

    Attributes:
        effort, corner_speed, no_load_speed, delay, backlash: (nu,) values of the arguments in the same units, with None
            replaced by the values that it stands for; read-only.
        damping, friction, armature: (nv,) viscous friction [N m s/rad or N s/m], Coulomb friction [N m or N] and rotor
            inertia [kg m^2 or kg] of the joints including the motors, read-only.
        viscous, coulomb, rotor_inertia: (nu,) values of the arguments in the same units, of the motors; read-only.
        motor_side_inertia: (nu,) inertia on the motor side, including the armature of the record, read-only [kg m^2 or
            kg].
        torque_speed_limits: torque-speed limits for compiled code.

    Raises:
        ArgumentError: a value that is negative, NaN or of a wrong shape, a corner speed beyond the no-load speed, a
            delay above 1 s, or backlash without inertia on the motor side.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        effort: Array | float | None = None,
        corner_speed: Array | float | None = None,
        no_load_speed: Array | float = np.inf,
        viscous: Array | float = 0.0,
        coulomb: Array | float = 0.0,
        rotor_inertia: Array | float = 0.0,
        delay: Array | float = 0.0,
        backlash: Array | float = 0.0,
    ) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        self.robot, nu = robot, robot.nu
        self.effort = _expand_parameter("effort", robot.effort_limits if effort is None else effort, nu, finite=False)
        self.no_load_speed = _expand_parameter("no_load_speed", no_load_speed, nu, finite=False)
        self.corner_speed = self.no_load_speed
        if corner_speed is not None:
            self.corner_speed = _expand_parameter("corner_speed", corner_speed, nu, finite=False)
            if (self.corner_speed > self.no_load_speed).any():
                raise ArgumentError(
                    f"corner_speed: expected at most the no-load speed {no_load_speed}, got {corner_speed}"
                )
        self.delay = _expand_parameter("delay", delay, nu, finite=True)
        if (self.delay > MAX_DELAY).any():
            raise ArgumentError(f"delay: expected at most {MAX_DELAY:g} s, got {delay}; is the value in seconds?")
        index, joint_totals, motor_values = robot.actuated_index, [], []
        for name, value, joint_value in (
            ("viscous", viscous, robot.damping),
            ("coulomb", coulomb, robot.friction),
            ("rotor_inertia", rotor_inertia, robot.armature),
        ):
            joint_total, motor_value = joint_value.copy(), _expand_parameter(name, value, nu, finite=True)
            joint_total[index] += motor_value
            joint_totals.append(frozen(joint_total))
            motor_values.append(motor_value)
        self.damping, self.friction, self.armature = joint_totals
        self.viscous, self.coulomb, self.rotor_inertia = motor_values
        joints = independent_joints(robot.bodies)
        self.motor_side_inertia = frozen(
            self.rotor_inertia + np.array([joints[name].armature for name in robot.actuated])
        )
        self.backlash = _expand_parameter("backlash", backlash, nu, finite=True)
        lacks_inertia = (self.backlash > 0.0) & (self.motor_side_inertia == 0.0)
        massless = [name for name, lacking in zip(robot.actuated, lacks_inertia, strict=True) if lacking]
        if massless:
            raise ArgumentError(
                f"backlash: requires inertia on the motor side of the gear, but that of {', '.join(massless)} is 0; "
                "pass rotor_inertia="
            )
        is_limited = np.isfinite(self.no_load_speed)
        no_load = np.where(is_limited, self.no_load_speed, 1.0)
        derating_range = np.where(is_limited, np.maximum(no_load - self.corner_speed, MIN_TORQUE_FRACTION), 1.0)
        self.torque_speed_limits = TorqueSpeedLimits(
            np.array(self.effort), no_load, derating_range, is_limited.astype(np.int8)
        )

    @property
    def constructor_arguments(self) -> dict[str, list[float]]:
        """Keyword arguments of `Actuators` that make the same motors for another robot with the same joints."""
        names = ("effort", "corner_speed", "no_load_speed", "viscous", "coulomb", "rotor_inertia", "delay", "backlash")
        return {name: getattr(self, name).tolist() for name in names}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a JSON file that `load` reads, with the values of each joint by name; null stands for infinity.

        Returns:
            The path of the file.

        Raises:
            OSError: the file cannot be written.
        """
        columns = self.constructor_arguments
        joints = {
            name: {key: values[i] if np.isfinite(values[i]) else None for key, values in columns.items()}
            for i, name in enumerate(self.robot.actuated)
        }
        document = {"format": FILE_FORMAT, "robot": self.robot.name, "joints": joints}
        with file_errors():
            Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], robot: Robot) -> Actuators:
        """Reads actuators from a file of `save`, in which values may be changed or left out.

        Args:
            path: file to read.
            robot: robot with the joints of the file, in any order.

        Raises:
            ArgumentError: not such a file, other joints, or an invalid value; the message names the file and the joint.
            OSError: the file cannot be read.
        """
        try:
            document = json.loads(read_regular_file(path, MAX_FILE_SIZE))
            joints = document["joints"]
            valid = document["format"] == FILE_FORMAT and all(isinstance(row, dict) for row in joints.values())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid:
            raise ArgumentError(f"{path}: expected a file of Actuators.save with format {FILE_FORMAT}")
        if set(joints) != set(robot.actuated):
            different = min(set(joints) ^ set(robot.actuated))
            where = "file" if different in joints else "robot"
            raise ArgumentError(
                f"{path}: expected the actuated joints of {robot.name!r}, but {different!r} is only in the {where}"
            )
        defaults = cls(robot).constructor_arguments
        values = {name: list(column) for name, column in defaults.items()}
        for i, name in enumerate(robot.actuated):
            for key, value in joints[name].items():
                number = math.inf if value is None and key in INFINITE else value
                if key not in values or type(number) not in (int, float) or not number >= 0.0:
                    raise ArgumentError(
                        f"{path}: joint {name!r}: expected numbers of at least 0 for {', '.join(values)}, got "
                        f"{key} = {value!r}"
                    )
                values[key][i] = check_number(f"{path}: joint {name!r}: {key}", number)
        try:
            return cls(robot, **{name: np.array(column) for name, column in values.items()})
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None

    def apply_limits(self, tau: Array, v: Array) -> Array:
        """Returns the torques that the motors deliver.

        Args:
            tau: (nu,) requested torques, after the delay [N m or N].
            v: (nv,) velocity; motors turn with their joints.

        Returns:
            (nu,) delivered torques [N m or N].

        Raises:
            ArgumentError: a wrong shape or type, or an entry that is not finite.
        """
        out = np.empty(self.robot.nu)
        tau = check_vector("tau", tau, out.shape, f"nu of {self.robot.name}")
        v = check_vector("v", v, (self.robot.nv,), f"nv of {self.robot.name}")
        limit_motor_torques_entry(
            self.torque_speed_limits, np.ascontiguousarray(tau), v[self.robot.actuated_index], out
        )
        return out


def _expand_parameter(name: str, value: Any, size: int, *, finite: bool) -> Array:
    """Returns a parameter as an array (size,) from one number or `size` numbers; raises if an entry is negative or NaN.

    With `finite`, infinity is rejected, too.
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected a number or {size} numbers, got {str(value)[:60]!r}") from None
    if array.shape not in ((), (size,)) or not (array >= 0.0).all() or (finite and not np.isfinite(array).all()):
        requirement = "finite and not negative" if finite else "not negative"
        raise ArgumentError(f"{name}: expected a number or {size} numbers, {requirement}, got {value}")
    return frozen(np.broadcast_to(array, (size,)))


class DelayBuffer(Record):
    """Ring buffer of commanded torques."""

    torques: Matrix  # (m, nu) torques commanded in the last m steps; m = 0 without delays [N m or N]
    row: int  # row of the present step


class Drives(NamedTuple):
    """Motors of a plant, nu of them at nv degrees of freedom."""

    actuated: IntVector  # (nu,) degrees of freedom of the motors
    whole_delay_steps: IntVector  # (nu,) whole steps of the delay
    fractional_delay: Vector  # (nu,) remaining delay, divided by the step
    delivered: Vector  # (nu,) motor torques of the last step [N m or N]
    delay: DelayBuffer  # torques commanded in the last steps
    arriving: Vector  # (nu,) scratch: commanded torques after the delay
    backlash_motors: IntVector  # (l,) motors whose gears have backlash
    half_gap: Vector  # (nu,) half of the backlash [rad or m]
    rotor: Vector  # (nu,) inertia on the motor side [kg m^2 or kg]
    viscous: Vector  # (nu,) viscous friction on the motor side
    coulomb: Vector  # (nu,) Coulomb friction on the motor side
    offset: Vector  # (nu,) position of the motor relative to its joint [rad or m]
    speed: Vector  # (nu,) velocity of motors with backlash [rad/s or m/s]
    offset_start: Vector  # (nu,) `offset` at the start of the substep
    speed_start: Vector  # (nu,) `speed` at the start of the substep
    v_previous: Vector  # (nv,) velocity one step earlier, for plants that do not store it
    motor_speed: Vector  # (nu,) scratch: velocities of the motors
    # (nu,) 1 or -1 if teeth push the joint forward or back in this substep, 0 if they are apart
    teeth_contact: IntVector
    gap_speed: Vector  # (nu,) speed at which the rest of the gap closes within the substep
    free_speed: Vector  # (nu,) velocity of the motor at the end of the substep if the teeth are apart
    torque: Vector  # (nu,) torque on the joint without friction and the inertia `coupled_inertia` [N m or N]
    coupled_inertia: Vector  # (nv,) inertia of rotors that move with their joints
    damping: Vector  # (nv,) viscous friction of the joints, including motors in teeth contact
    friction: Vector  # (nv,) Coulomb friction of the joints, including motors in teeth contact
    joint_damping: Vector  # (nv,) viscous friction of the joints without motors that have backlash
    joint_friction: Vector  # (nv,) Coulomb friction of the joints without motors that have backlash
    armature: Vector  # (nv,) rotor inertia at the joints without motors that have backlash


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
    for k_motor in range(len(drives.backlash_motors)):
        j = drives.backlash_motors[k_motor]
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
        i = drives.actuated[j]
        rotor_inertia = drives.rotor[j]
        offset = drives.offset_start[j]
        speed = drives.speed_start[j]
        momentum, friction_impulse = rotor_inertia * speed + h * motor_torque[j], h * drives.coulomb[j]
        free_speed = 0.0
        if momentum > friction_impulse:
            free_speed = (momentum - friction_impulse) / (rotor_inertia + h * drives.viscous[j])
        elif momentum < -friction_impulse:
            free_speed = (momentum + friction_impulse) / (rotor_inertia + h * drives.viscous[j])
        predicted_offset = offset + h * (free_speed - (2.0 * v[i] - v_previous[i]))
        side = 1 if predicted_offset > drives.half_gap[j] else -1 if predicted_offset < -drives.half_gap[j] else 0
        drives.free_speed[j], drives.teeth_contact[j] = free_speed, side
        drives.damping[i] = drives.joint_damping[i]
        drives.friction[i] = drives.joint_friction[i]
        drives.coupled_inertia[i] = 0.0
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
    for k_motor in range(len(drives.backlash_motors)):
        j = drives.backlash_motors[k_motor]
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
