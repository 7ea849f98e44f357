"""Actuator models from recorded motion: delay, friction, torque-speed line and backlash, joint by joint.

A commanded torque reaches the motor with a delay and is saturated at the limit for its speed; friction is lost between
motor and joint:

    motor_torque(t) = saturate(commanded(t - delay), velocity)
    joint_torque = motor_torque - viscous v - coulomb sign(v)

All fits are least squares.  The delay is the one that minimizes the residual of the unsaturated samples; the saturated
samples give the torque-speed line, whose corner is searched; the other parameters are linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..simulation import Actuators
from ..urdf.tree import Array, FrozenArrays, frozen

#: Speeds below this share of a joint's largest count as rest, where friction may be anything up to Coulomb's.
REST_SPEED_FRACTION = 0.05
#: Samples of a kind that it takes to say anything.
MIN_SAMPLES = 20
#: How many standard deviations of the noise a torque is short of what was asked for when it was cut.
SATURATION_DEVIATIONS = 5.0
#: Share of the largest torque up to which next to nothing is cut, and how often samples that do not fit are left out.
UNSATURATED_FRACTION, N_OUTLIER_ROUNDS = 0.3, 6
#: Backlash of fewer standard deviations is none; that of a median is so many times that of a mean.
BACKLASH_DEVIATIONS, MEDIAN_STD_RATIO = 5.0, 1.2533
#: A delay is not determined where another one explains the torques as well, to within so many standard deviations of
#: the noise, and differs by more than this share of the range in which delays are looked for.
DELAY_DEVIATIONS, MAX_DELAY_ERROR = 5.0, 0.25
#: Samples beyond a limit, as a share of those that were cut at it, with which it is none.
MAX_EXCEEDING_FRACTION = 0.1
#: Corners of the torque-speed line that are tried at a time, and times that the search is narrowed down.
N_CORNERS, N_REFINEMENTS = 25, 4


@dataclass(frozen=True, slots=True, eq=False)
class ActuatorFit(FrozenArrays):
    """Identified models of motors and gears, arrays (nu,) in torque order; NaN where the data do not determine a value.

    Attributes:
        names: names of the joints.
        delay: time from a commanded torque to the same torque at the motor [s]; NaN, too, where the noise leaves it
            uncertain by more than a quarter of the range that was searched.
        viscous: viscous friction [N m s/rad or N s/m].
        coulomb: Coulomb friction [N m or N].
        effort: largest torque [N m or N].
        corner_speed: speed up to which that torque is available [rad/s or m/s].
        no_load_speed: speed at which no driving torque is available [rad/s or m/s].
        backlash: play between motor and joint, from stop to stop [rad or m].
        noise: standard deviation of the residual of unsaturated torques [N m or N].
    """

    names: tuple[str, ...]
    delay: Array
    viscous: Array
    coulomb: Array
    effort: Array
    corner_speed: Array
    no_load_speed: Array
    backlash: Array
    noise: Array

    def actuators(
        self,
        robot: Robot,
        *,
        rotor_inertia: Array | float = 0.0,
        delay: Array | float | None = None,
        period: float = 0.0,
    ) -> Actuators:
        """Returns actuators of a simulated robot; values that were not identified are those of the robot's record.

        The identified friction replaces that of the robot: load a robot without friction in its record, or it counts
            twice.

        Args:
            robot: the robot that was measured.
            rotor_inertia: (nu,) or one for all, as of `Actuators` [kg m^2 or kg]; joints with backlash need some, here
                or in the robot's record.
            delay: (nu,) or one for all, delay of the motors that replaces the identified one [s]; 0 where the delay is
                that of the communication.  By default the identified one.
            period: subtracted from the identified delay [s].  The log of a control loop holds a torque beside the
                reading one period after the torque acted.

        Raises:
            ArgumentError: a robot with other joints, or backlash without rotor inertia.
        """
        if robot.actuated != self.names:
            raise ArgumentError(f"robot: expected the joints {', '.join(self.names)}, {robot.name!r} has others")
        known = np.isfinite(self.no_load_speed)
        return Actuators(
            robot,
            effort=np.where(np.isfinite(self.effort), self.effort, robot.effort_limits),
            corner_speed=np.where(known, self.corner_speed, np.inf),
            no_load_speed=np.where(known, self.no_load_speed, np.inf),
            viscous=np.nan_to_num(self.viscous),
            coulomb=np.nan_to_num(self.coulomb),
            rotor_inertia=rotor_inertia,
            delay=np.maximum(np.nan_to_num(self.delay) - check_number("period", period), 0.0)
            if delay is None
            else delay,
            backlash=np.nan_to_num(self.backlash),
        )

    def __str__(self) -> str:
        heads = ("delay [ms]", "viscous", "Coulomb", "effort", "corner", "no load", "backlash", "noise")
        parts = (1e3 * self.delay, self.viscous, self.coulomb, self.effort, self.corner_speed, self.no_load_speed)
        table = np.column_stack((*parts, self.backlash, self.noise))
        wide = max(map(len, self.names), default=0)
        lines = [" " * wide + "".join(f"{head:>11}" for head in heads)]
        for name, row in zip(self.names, table, strict=True):
            lines.append(f"{name:<{wide}}" + "".join(f"{'-' if np.isnan(x) else f'{x:.3g}':>11}" for x in row))
        return "\n".join(lines)


@renamed_parameters(
    asked="commanded",
    delivered="motor_torque",
    load="joint_torque",
    play="backlash_offset",
    counted="valid",
    longest="max_delay",
)
def fit_actuators(
    robot: Robot,
    *,
    dt: float,
    commanded: Array,
    velocity: Array,
    motor_torque: Array | None = None,
    joint_torque: Array | None = None,
    backlash_offset: Array | None = None,
    valid: NDArray[np.bool_] | None = None,
    max_delay: float = 0.05,
) -> ActuatorFit:
    """Fits a model of every actuator to recorded motion.

    Torques of the motors (`motor_torque`, from their currents) determine delay and torque-speed line; torques at the
    joints (`joint_torque`, as of `Dynamics.rnea` for a robot on a stand) determine friction besides.  One of them is
    needed.

    Args:
        robot: the robot.
        dt: time between samples [s].
        commanded: (N, nu) commanded torques, equally spaced in time [N m or N].
        velocity: (N, nu) joint velocities [rad/s or m/s].
        motor_torque: (N, nu) measured torques of the motors [N m or N]; None if not measured.
        joint_torque: (N, nu) torques that moved the joints and rotors, without their friction [N m or N], as of
            `Dynamics.rnea` of a robot whose record has the rotors' inertia as armature; None if not known.
        backlash_offset: (N, nu) position of the motor times the gear ratio minus that of the joint [rad or m], where
            both are measured; determines the backlash.  None if not measured.
        valid: (N,) bool, which samples enter the fit; the others, such as lost readings, only keep the time.  By
            default all.
        max_delay: largest delay that is searched [s].

    Raises:
        ArgumentError: an array of another shape or not finite, fewer than 100 samples, or neither of the two torques.
            Where fewer than 20 samples are valid, all values are NaN.
    """
    dt, max_delay, shape = check_number("dt", dt), check_number("max_delay", max_delay), np.shape(commanded)
    if not (0.0 < dt < np.inf and 0.0 <= max_delay < np.inf):
        raise ArgumentError(
            f"dt, max_delay: expected a positive time and one that is not negative, got {dt}, {max_delay}"
        )
    if motor_torque is None and joint_torque is None:
        raise ArgumentError(
            "motor_torque, joint_torque: pass at least one; commanded torques alone do not identify an actuator"
        )
    if len(shape) != 2 or shape[1] != robot.nu or shape[0] < 100 or shape[0] * dt <= 4.0 * max_delay:
        raise ArgumentError(
            f"commanded: expected shape (N, {robot.nu}) with 100 samples or more over more than four times max_delay, "
            f"got {shape}"
        )
    given = {
        "commanded": commanded,
        "velocity": velocity,
        "motor_torque": motor_torque,
        "joint_torque": joint_torque,
        "backlash_offset": backlash_offset,
    }
    for name, x in given.items():
        if x is not None and (np.shape(x) != shape or not np.isfinite(x).all()):
            raise ArgumentError(f"{name}: expected {shape} finite numbers, got shape {np.shape(x)}")
    valid = np.ones(shape[0], dtype=bool) if valid is None else np.asarray(valid)
    if valid.shape != shape[:1] or valid.dtype != np.bool_:
        raise ArgumentError(f"valid: expected {shape[0]} truth values, got {valid.dtype} of shape {valid.shape}")
    rows = [
        _fit_joint(
            dt, max_delay, valid, *(None if x is None else np.array(x[:, j], dtype=np.float64) for x in given.values())
        )
        for j in range(robot.nu)
    ]
    return ActuatorFit(robot.actuated, *(frozen(column) for column in np.reshape(rows, (robot.nu, 8)).T))


def _fit_joint(
    dt: float,
    longest: float,
    counted: NDArray[np.bool_],
    asked: Array | None,
    v: Array | None,
    delivered: Array | None,
    load: Array | None,
    play: Array | None,
) -> tuple[float, ...]:
    """Returns the values of `ActuatorFit` for one joint."""
    assert asked is not None and v is not None
    if counted.sum() < MIN_SAMPLES:
        return (np.nan,) * 8
    fastest = float(np.abs(v[counted]).max())
    moving = counted & (np.abs(v) > REST_SPEED_FRACTION * fastest)
    friction = np.column_stack((v, np.sign(v)))
    y, losses = (load, friction) if delivered is None else (delivered, friction[:, :0])
    assert y is not None
    delay, cut, noise, lost = _fit_delay(dt, longest, asked, y, losses, moving if losses.shape[1] else counted)
    viscous = coulomb = backlash = np.nan
    if load is not None and moving.sum() >= MIN_SAMPLES:
        if delivered is not None:
            lost = np.linalg.lstsq(friction[moving], (delivered - load)[moving], rcond=None)[0]
        viscous, coulomb = max(float(lost[0]), 0.0), max(float(lost[1]), 0.0)
    motor = y if not len(lost) or delivered is not None else y + friction @ lost
    effort, corner, no_load = _fit_torque_speed_line(motor, v, cut, counted, noise)
    if play is not None:
        pushed = motor if load is None else load
        # Not of the largest: where teeth meet there are peaks.
        sure = max(2.0 * noise, 0.2 * float(np.quantile(np.abs(pushed[counted]), 0.95)))
        forth, back = play[counted & (pushed > sure)], play[counted & (pushed < -sure)]
        if min(len(forth), len(back)) >= MIN_SAMPLES:
            backlash = float(np.median(forth) - np.median(back))
            doubt = BACKLASH_DEVIATIONS * np.hypot(
                *(MEDIAN_STD_RATIO * part.std() / np.sqrt(len(part)) for part in (forth, back))
            )
            backlash = backlash if backlash > doubt else 0.0
    return delay, viscous, coulomb, effort, corner, no_load, backlash, noise


def _fit_delay(
    dt: float, longest: float, asked: Array, y: Array, losses: Array, counted: NDArray[np.bool_]
) -> tuple[float, NDArray[np.bool_], float, Array]:
    """Returns the delay [s], a mask of the saturated samples, the noise, and the friction coefficients.

    Only samples where `counted` is true are used.
    """
    times, steps = dt * np.arange(len(asked)), int(longest / dt)
    seen = (times >= (steps + 1) * dt) & counted

    def explained(delay: float) -> tuple[float, NDArray[np.bool_], Array, Array]:
        """Explain the torques by those that were asked for a delay before.

        Returns the standard deviation of what that leaves where nothing was cut, by the share of these samples; which
        they are; what it leaves of all; and the losses.
        """
        late = np.interp(times - delay, times, asked)
        gap, beta = late - y, np.zeros(losses.shape[1])
        # What is asked for far below the largest torque is hardly ever cut: from there on, what fits is let in.
        small = seen & (np.abs(late) <= UNSATURATED_FRACTION * np.abs(y[seen]).max(initial=0.0))
        keep = small if small.sum() >= MIN_SAMPLES else seen
        if losses.shape[1]:
            beta = np.linalg.lstsq(losses[keep], gap[keep], rcond=None)[0]
        size = np.inf
        for _ in range(N_OUTLIER_ROUNDS):
            off = gap - losses @ beta
            if np.isinf(size):
                size = float(np.quantile(np.abs(off[keep]), 0.3)) / 0.385  # of a normal distribution's
            keep = seen & (np.abs(off) <= 3.0 * max(size, 1e-12))
            if keep.sum() < MIN_SAMPLES:
                break
            if losses.shape[1]:
                beta = np.linalg.lstsq(losses[keep], gap[keep], rcond=None)[0]
            size = float(np.sqrt(np.mean((gap - losses @ beta)[keep] ** 2))) / 0.987  # of what 3 deviations leave
        # A delay that explains few samples well explains nothing.
        share = max(float(keep.sum()) / max(seen.sum(), 1), 1e-3)
        return size / share, keep, (gap - losses @ beta) * np.sign(late), beta

    tried = [dt * k for k in range(steps + 1)]
    sizes = [explained(delay)[0] for delay in tried]
    best = int(np.argmin(sizes))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, steps)]
    for _ in range(N_REFINEMENTS):  # between samples, too
        finer = np.linspace(low, high, 9)
        at = int(np.argmin([explained(delay)[0] for delay in finer]))
        low, high = finer[max(at - 1, 0)], finer[min(at + 1, 8)]
    delay = float(finer[at])
    if sizes[best] <= explained(delay)[0] * 1.02:
        delay = tried[best]  # a whole number of samples explains as much
    if not np.ptp(asked) > 0.0:
        return np.nan, np.zeros(len(asked), dtype=bool), explained(0.0)[0], np.zeros(losses.shape[1])
    score, fitting, short, beta = explained(delay)
    noise = score * float(fitting.sum()) / max(seen.sum(), 1)

    def misfit(delay: float) -> float:
        """Squares that a delay leaves of the samples that the best one explains, whatever their losses are."""
        gap, known = (np.interp(times - delay, times, asked) - y)[fitting], losses[fitting]
        return float(np.sum((gap - known @ np.linalg.lstsq(known, gap, rcond=None)[0]) ** 2))

    doubt = misfit(delay) + (DELAY_DEVIATIONS * noise) ** 2
    if any(abs(other - delay) > MAX_DELAY_ERROR * longest and misfit(other) <= doubt for other in tried):
        delay = np.nan
    return delay, seen & (short > SATURATION_DEVIATIONS * noise), noise, beta


def _fit_torque_speed_line(
    motor: Array, v: Array, cut: NDArray[np.bool_], counted: NDArray[np.bool_], noise: float
) -> tuple[float, float, float]:
    """Returns effort, corner speed and no-load speed from saturated samples; NaN where they are not determined.

    If other samples exceed a limit, it is rejected: their torques were short for another reason, such as a lost
        command.
    """
    # A ramp that is late for a tick is no cut: those come in company.
    cut = cut & (np.roll(cut, 1) | np.roll(cut, -1))
    driving = cut & (motor * v >= 0.0)
    if driving.sum() < MIN_SAMPLES:
        return np.nan, np.nan, np.nan
    y, speed = np.abs(motor[driving]), np.abs(v[driving])
    flat = float(y.mean())
    low, high = 0.0, float(speed.max())

    def fitted(corner: float) -> tuple[float, Array]:
        A = np.column_stack((np.ones(len(y)), np.maximum(speed - corner, 0.0)))
        x = np.linalg.lstsq(A, y, rcond=None)[0]
        return float(np.sum((y - A @ x) ** 2)), x

    for _ in range(N_REFINEMENTS):
        corners = np.linspace(low, high, N_CORNERS)
        at = int(np.argmin([fitted(corner)[0] for corner in corners]))
        low, high = float(corners[max(at - 1, 0)]), float(corners[min(at + 1, N_CORNERS - 1)])
    corner = float(corners[at])
    left, (effort, slope) = fitted(corner)
    beyond = int((speed > corner).sum())
    plain = float(np.sum((y - flat) ** 2))
    # A line that falls has to explain more than a torque that is the same at all speeds, beyond what noise does.
    found = float(effort), corner, corner - float(effort / slope)
    if slope >= 0.0 or beyond < MIN_SAMPLES or plain - left < 25.0 * max(noise, 1e-12) ** 2:
        effort, corner, slope, found = flat, high, 0.0, (flat, np.nan, np.nan)
    forward = counted & (motor * v >= 0.0)
    most = effort + slope * np.maximum(np.abs(v[forward]) - corner, 0.0)
    over = int((np.abs(motor[forward]) > most + SATURATION_DEVIATIONS * noise).sum())
    return found if over <= MAX_EXCEEDING_FRACTION * driving.sum() else (np.nan, np.nan, np.nan)
