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

#: A joint slower than this fraction of its largest speed counts as at rest: Coulomb friction is then undetermined.
REST_SPEED_FRACTION = 0.05
#: Minimum number of samples for a fit.
MIN_SAMPLES = 20
#: A sample is saturated if its torque is smaller than the commanded one by more than this [standard deviations].
SATURATION_DEVIATIONS = 5.0
#: Fraction of the largest torque up to which torques are assumed not saturated; number of times outliers are removed.
UNSATURATED_FRACTION, N_OUTLIER_ROUNDS = 0.3, 6
#: Backlash below this is rounded to 0 [standard deviations]; standard deviation of a median, divided by that of a mean.
BACKLASH_DEVIATIONS, MEDIAN_STD_RATIO = 5.0, 1.2533
#: A delay is not determined if another one fits the torques as well, to within this number of standard deviations of
#: the noise, and differs by more than this fraction of the largest delay that is searched.
DELAY_DEVIATIONS, MAX_DELAY_ERROR = 5.0, 0.25
#: A limit is rejected if the samples that exceed it are more than this fraction of those that are saturated at it.
MAX_EXCEEDING_FRACTION = 0.1
#: Corners of the torque-speed line in one round of the search, and number of rounds, each over a narrower range.
N_CORNERS, N_REFINEMENTS = 25, 4


@dataclass(frozen=True, slots=True, eq=False)
class ActuatorFit(FrozenArrays):
    """Identified models of motors and gears, arrays (nu,) in torque order; NaN where the data do not determine a value.

    Attributes:
        names: names of the joints.
        delay: (nu,) time from a commanded torque to the same torque at the motor [s]; also NaN where the noise leaves
            it uncertain by more than a quarter of the range that was searched.
        viscous: (nu,) viscous friction [N m s/rad or N s/m].
        coulomb: (nu,) Coulomb friction [N m or N].
        effort: (nu,) largest torque [N m or N].
        corner_speed: (nu,) speed up to which that torque is available [rad/s or m/s].
        no_load_speed: (nu,) speed at which no driving torque is available [rad/s or m/s].
        backlash: (nu,) play between motor and joint, from stop to stop [rad or m].
        noise: (nu,) standard deviation of the residual of unsaturated torques [N m or N].
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
            rotor_inertia: (nu,) or one for all, see `Actuators` [kg m^2 or kg]; joints with backlash need some, here
                or in the robot's record.
            delay: (nu,) or one for all, delay of the motors that replaces the identified one [s]; 0 where the delay is
                that of the communication.  By default the identified one.
            period: subtracted from the identified delay [s].  The log of a control loop holds a torque beside the
                reading one period after the torque acted.

        Raises:
            ArgumentError: a robot with other joints, or backlash without rotor inertia.
        """
        if robot.actuated != self.names:
            raise ArgumentError(
                f"robot: expected a robot with the actuated joints {', '.join(self.names)}; those of {robot.name!r} "
                "differ"
            )
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
    joints (`joint_torque`, for example from `Dynamics.rnea` for a robot on a stand) determine friction besides.  One of
    them is needed.

    Args:
        robot: the robot.
        dt: time between samples [s].
        commanded: (N, nu) commanded torques, equally spaced in time [N m or N].
        velocity: (N, nu) joint velocities [rad/s or m/s].
        motor_torque: (N, nu) measured torques of the motors [N m or N]; None if not measured.
        joint_torque: (N, nu) torques that moved the joints and rotors, without their friction [N m or N], for
            example from `Dynamics.rnea` of a robot whose record has the rotors' inertia as armature; None if not known.
        backlash_offset: (N, nu) position of the motor times the gear ratio minus that of the joint [rad or m], where
            both are measured; determines the backlash.  None if not measured.
        valid: (N,) mask of the samples that enter the fit; the others, such as lost readings, only count as elapsed
            time.  None: all samples.
        max_delay: largest delay that is searched [s].

    Raises:
        ArgumentError: an array of another shape or not finite, fewer than 100 samples, or neither of the two torques.
            Where fewer than 20 samples are valid, all values are NaN.
    """
    dt, max_delay, shape = check_number("dt", dt), check_number("max_delay", max_delay), np.shape(commanded)
    if not (0.0 < dt < np.inf and 0.0 <= max_delay < np.inf):
        raise ArgumentError(
            f"dt: expected a time above 0, and max_delay: 0 or more [s], got dt={dt}, max_delay={max_delay}"
        )
    if motor_torque is None and joint_torque is None:
        raise ArgumentError(
            "motor_torque, joint_torque: pass at least one; commanded torques alone do not identify an actuator"
        )
    if len(shape) != 2 or shape[1] != robot.nu or shape[0] < 100 or shape[0] * dt <= 4.0 * max_delay:
        raise ArgumentError(
            f"commanded: expected shape (N, {robot.nu}) with N >= 100 samples that last longer than 4 max_delay, got "
            f"shape {shape}"
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
    max_delay: float,
    valid: NDArray[np.bool_],
    commanded: Array | None,
    v: Array | None,
    motor_torque: Array | None,
    joint_torque: Array | None,
    backlash_offset: Array | None,
) -> tuple[float, ...]:
    """Returns the values of `ActuatorFit` for one joint."""
    assert commanded is not None and v is not None
    if valid.sum() < MIN_SAMPLES:
        return (np.nan,) * 8
    fastest = float(np.abs(v[valid]).max())
    moving = valid & (np.abs(v) > REST_SPEED_FRACTION * fastest)
    friction = np.column_stack((v, np.sign(v)))
    y, losses = (joint_torque, friction) if motor_torque is None else (motor_torque, friction[:, :0])
    assert y is not None
    delay, saturated, noise, loss_coefficients = _fit_delay(
        dt, max_delay, commanded, y, losses, moving if losses.shape[1] else valid
    )
    viscous = coulomb = backlash = np.nan
    if joint_torque is not None and moving.sum() >= MIN_SAMPLES:
        if motor_torque is not None:
            loss_coefficients = np.linalg.lstsq(friction[moving], (motor_torque - joint_torque)[moving], rcond=None)[0]
        viscous, coulomb = max(float(loss_coefficients[0]), 0.0), max(float(loss_coefficients[1]), 0.0)
    motor = y if not len(loss_coefficients) or motor_torque is not None else y + friction @ loss_coefficients
    effort, corner, no_load = _fit_torque_speed_line(motor, v, saturated, valid, noise)
    if backlash_offset is not None:
        push_torque = motor if joint_torque is None else joint_torque
        # A quantile instead of the maximum: the torque has peaks when teeth collide.
        min_torque = max(2.0 * noise, 0.2 * float(np.quantile(np.abs(push_torque[valid]), 0.95)))
        forward_offsets = backlash_offset[valid & (push_torque > min_torque)]
        backward_offsets = backlash_offset[valid & (push_torque < -min_torque)]
        if min(len(forward_offsets), len(backward_offsets)) >= MIN_SAMPLES:
            backlash = float(np.median(forward_offsets) - np.median(backward_offsets))
            uncertainty = BACKLASH_DEVIATIONS * np.hypot(
                *(
                    MEDIAN_STD_RATIO * offsets.std() / np.sqrt(len(offsets))
                    for offsets in (forward_offsets, backward_offsets)
                )
            )
            backlash = backlash if backlash > uncertainty else 0.0
    return delay, viscous, coulomb, effort, corner, no_load, backlash, noise


def _fit_delay(
    dt: float, max_delay: float, commanded: Array, y: Array, losses: Array, valid: NDArray[np.bool_]
) -> tuple[float, NDArray[np.bool_], float, Array]:
    """Returns the delay [s], a mask of the saturated samples, the noise, and the friction coefficients.

    Only samples where `valid` is true are used.
    """
    times, steps = dt * np.arange(len(commanded)), int(max_delay / dt)
    considered = (times >= (steps + 1) * dt) & valid

    def fit_losses(delay: float) -> tuple[float, NDArray[np.bool_], Array, Array]:
        """Fits the friction coefficients for a given delay.

        Returns:
            The score of the delay (standard deviation of the residual, divided by the fraction of samples that fit),
            a mask of the samples that fit (not saturated), the missing torque of all samples, and the coefficients.
        """
        delayed = np.interp(times - delay, times, commanded)
        torque_difference, loss_coefficients = delayed - y, np.zeros(losses.shape[1])
        # Small commanded torques are rarely saturated; the fit begins with them and then adds all samples that agree.
        small = considered & (np.abs(delayed) <= UNSATURATED_FRACTION * np.abs(y[considered]).max(initial=0.0))
        fitting = small if small.sum() >= MIN_SAMPLES else considered
        if losses.shape[1]:
            loss_coefficients = np.linalg.lstsq(losses[fitting], torque_difference[fitting], rcond=None)[0]
        deviation = np.inf
        for _ in range(N_OUTLIER_ROUNDS):
            residual = torque_difference - losses @ loss_coefficients
            if np.isinf(deviation):
                deviation = (
                    float(np.quantile(np.abs(residual[fitting]), 0.3)) / 0.385
                )  # quantile of a normal distribution
            fitting = considered & (np.abs(residual) <= 3.0 * max(deviation, 1e-12))
            if fitting.sum() < MIN_SAMPLES:
                break
            if losses.shape[1]:
                loss_coefficients = np.linalg.lstsq(losses[fitting], torque_difference[fitting], rcond=None)[0]
            deviation = (
                float(np.sqrt(np.mean((torque_difference - losses @ loss_coefficients)[fitting] ** 2))) / 0.987
            )  # of a normal distribution cut off at 3
        # A delay with which only few samples fit gets a bad score.
        fraction = max(float(fitting.sum()) / max(considered.sum(), 1), 1e-3)
        return (
            deviation / fraction,
            fitting,
            (torque_difference - losses @ loss_coefficients) * np.sign(delayed),
            loss_coefficients,
        )

    delays = [dt * k for k in range(steps + 1)]
    scores = [fit_losses(delay)[0] for delay in delays]
    best = int(np.argmin(scores))
    low, high = delays[max(best - 1, 0)], delays[min(best + 1, steps)]
    for _ in range(N_REFINEMENTS):  # between samples, too
        fine_delays = np.linspace(low, high, 9)
        index = int(np.argmin([fit_losses(delay)[0] for delay in fine_delays]))
        low, high = fine_delays[max(index - 1, 0)], fine_delays[min(index + 1, 8)]
    delay = float(fine_delays[index])
    if scores[best] <= fit_losses(delay)[0] * 1.02:
        delay = delays[best]  # a whole number of samples fits as well
    if not np.ptp(commanded) > 0.0:
        return np.nan, np.zeros(len(commanded), dtype=bool), fit_losses(0.0)[0], np.zeros(losses.shape[1])
    score, fitting, shortfall, loss_coefficients = fit_losses(delay)
    noise = score * float(fitting.sum()) / max(considered.sum(), 1)

    def misfit(delay: float) -> float:
        """Returns the sum of squared residuals of the samples that fit the best delay; friction is fitted anew."""
        torque_difference, fitting_losses = (np.interp(times - delay, times, commanded) - y)[fitting], losses[fitting]
        return float(
            np.sum(
                (torque_difference - fitting_losses @ np.linalg.lstsq(fitting_losses, torque_difference, rcond=None)[0])
                ** 2
            )
        )

    uncertainty = misfit(delay) + (DELAY_DEVIATIONS * noise) ** 2
    if any(abs(other - delay) > MAX_DELAY_ERROR * max_delay and misfit(other) <= uncertainty for other in delays):
        delay = np.nan
    return delay, considered & (shortfall > SATURATION_DEVIATIONS * noise), noise, loss_coefficients


def _fit_torque_speed_line(
    motor: Array, v: Array, saturated: NDArray[np.bool_], valid: NDArray[np.bool_], noise: float
) -> tuple[float, float, float]:
    """Returns effort, corner speed and no-load speed from saturated samples; NaN where they are not determined.

    If other samples exceed a limit, it is rejected: their torques were short for another reason, such as a lost
        command.
    """
    # A single sample is not saturation but, for example, a ramp that is one tick late: a neighbor must be so too.
    saturated = saturated & (np.roll(saturated, 1) | np.roll(saturated, -1))
    driving = saturated & (motor * v >= 0.0)
    if driving.sum() < MIN_SAMPLES:
        return np.nan, np.nan, np.nan
    y, speed = np.abs(motor[driving]), np.abs(v[driving])
    mean_torque = float(y.mean())
    low, high = 0.0, float(speed.max())

    def fit_line(corner: float) -> tuple[float, Array]:
        A = np.column_stack((np.ones(len(y)), np.maximum(speed - corner, 0.0)))
        x = np.linalg.lstsq(A, y, rcond=None)[0]
        return float(np.sum((y - A @ x) ** 2)), x

    for _ in range(N_REFINEMENTS):
        corners = np.linspace(low, high, N_CORNERS)
        index = int(np.argmin([fit_line(corner)[0] for corner in corners]))
        low, high = float(corners[max(index - 1, 0)]), float(corners[min(index + 1, N_CORNERS - 1)])
    corner = float(corners[index])
    line_error, (effort, slope) = fit_line(corner)
    n_beyond = int((speed > corner).sum())
    constant_error = float(np.sum((y - mean_torque) ** 2))
    # A falling line must fit better than a constant torque, by more than the noise can explain.
    result = float(effort), corner, corner - float(effort / slope)
    if slope >= 0.0 or n_beyond < MIN_SAMPLES or constant_error - line_error < 25.0 * max(noise, 1e-12) ** 2:
        effort, corner, slope, result = mean_torque, high, 0.0, (mean_torque, np.nan, np.nan)
    forward = valid & (motor * v >= 0.0)
    limit = effort + slope * np.maximum(np.abs(v[forward]) - corner, 0.0)
    n_exceeding = int((np.abs(motor[forward]) > limit + SATURATION_DEVIATIONS * noise).sum())
    return result if n_exceeding <= MAX_EXCEEDING_FRACTION * driving.sum() else (np.nan, np.nan, np.nan)
