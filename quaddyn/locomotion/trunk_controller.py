"""`TrunkController`: references of the whole-body controller for center of mass, base and contact forces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .friction_model import PYRAMID_FACE_RATIO, FrictionModel
from .ground_plane import GroundPlane
from .minimum_jerk import advance_quintic
from .morphology import FEET, Morphology
from .path_reference import ComReference, OffsetMotion, PathReference

#: Natural frequency of the height control [1/sqrt(l/g)].
HEIGHT_FREQUENCY = 2.5
#: Weights of height and attitude (per l) relative to that of the horizontal motion of the center of mass, 1.  With two
#: feet in contact not all can be satisfied; the horizontal motion has priority, since it decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: Fraction of the attitude weight in flight: the legs move to their footholds, and the trunk rotates in reaction.
FLIGHT_BASE_FRACTION = 8e-4
#: The same after a push that accelerates the steps: the trunk then acts as a flywheel.
FAST_STEP_BASE_FRACTION = 0.25
#: Feedback of the divergent component [omega].
DIVERGENT_GAIN = 0.5
#: Maximum horizontal acceleration, as a fraction of that which the friction pyramid allows in any direction or, after a
#: push that accelerates the steps, of that which the friction cone allows: the edges of the pyramid lie on the cone.
GROUND_FORCE_FRACTION = 0.9
#: Lowering of the trunk on a slope, divided by the sine of its angle [l]: feet at touchdown ahead and at lift-off
#: behind are then no farther from their hips than on level ground.
KNOWN_SLOPE_LOWERING = 0.1
#: The same in blind locomotion, for robots whose legs fold that far: a leg that is nearly straight at lift-off needs a
#: very fast knee.
BLIND_SLOPE_LOWERINGS = 0.3, 0.2
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0
#: Longest time to stop a fall [sqrt(l/g)].
STOPPING_TIME = 1.0
#: Maximum integral correction of height [h] and tilt [rad], and its time constant [sqrt(l/g)].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0
#: Offset of a center of mass above the center of the feet.
NO_OFFSET: OffsetMotion = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)


class TrunkController:
    """References of the tasks "com", "base" and "forces".

    *Horizontally* the center of mass has no position reference.  With the error e of its divergent component, the
    center of pressure ``z* + (1 + k) e`` makes e decay at the rate k lambda / omega (Englsberger et al. 2015; lambda is
    omega^2 except in gaits with flight phases, see `ComPreview`), hence

        cddot = lambda (c - z*) - lambda (1 + k) e,

    clamped to the friction limit.  Two point feet exert no moment about the line between them: a force that moves the
    center of mass across that line rotates the trunk, and keeping the trunk upright costs force.  After a push that
    accelerates the steps (`StepTimingAdapter`) the weight of the attitude is reduced: the trunk acts as a flywheel for
    a while (Stephens 2007, "Humanoid push recovery").  The *height* is measured vertically over the plane of the feet:
    then the same law holds on a slope, with the vertical acceleration that keeps the height.  The trunk is parallel to
    that plane and points along the path reference.  Integral action compensates mass that is not in the robot's model.

    Args:
        morphology: lengths and units of the robot.
        wbc: the whole-body controller, whose references are set.
        friction_model: friction and normals of the contacts.
        height: present height of the center of mass over the ground [m].
        com_offset: (2,) present offset of the center of mass from the center of the feet, world [m].
        slope_lowering: lowering on slopes in blind locomotion, divided by the sine of their angle [l].

    Attributes:
        is_moving: whether a motion to another height or offset is in progress.
        desired_height: height of the center of mass over the plane of the feet as last commanded, measured vertically
            [m]: the lowering on slopes and for low footholds and the vertical motion of the gait included.
        desired_rate: rate of change of `desired_height` [m/s].
    """

    __slots__ = (
        "_base_weight",
        "_com_offset",
        "_friction_model",
        "_height",
        "_height_trim",
        "_morphology",
        "_remaining_time",
        "_slope_lowering",
        "_target_height",
        "_target_offset",
        "_tilt_trim",
        "_wbc",
        "_weight_fraction",
        "desired_height",
        "desired_rate",
    )  # fmt: skip

    def __init__(
        self,
        morphology: Morphology,
        wbc: WholeBodyController,
        friction_model: FrictionModel,
        height: float,
        com_offset: tuple[float, float] = (0.0, 0.0),
        slope_lowering: float = KNOWN_SLOPE_LOWERING,
    ) -> None:
        self._morphology, self._wbc, self._friction_model, self._slope_lowering = (
            morphology,
            wbc,
            friction_model,
            slope_lowering,
        )
        self._height = (height, 0.0, 0.0)
        self._target_height, self._target_offset, self._remaining_time = height, (0.0, 0.0), 0.0
        self._com_offset: OffsetMotion = (com_offset[0], 0.0, 0.0), (com_offset[1], 0.0, 0.0)
        self._height_trim, self._tilt_trim = 0.0, (0.0, 0.0)
        self._base_weight: Array | None = None  # weight of the attitude on the ground, while it is reduced
        self._weight_fraction = 1.0  # remaining fraction of that weight
        self.desired_height, self.desired_rate = height, 0.0

    @staticmethod
    def set_gains(morphology: Morphology, tasks: Mapping[str, Any]) -> None:
        """Sets gains and weights of the tasks.

        Args:
            morphology: lengths and units of the robot.
            tasks: tasks "com" and "base" of the whole-body controller.
        """
        p = morphology
        rate = (HEIGHT_FREQUENCY / p.time_scale) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float, com_offset: tuple[float, float] = (0.0, 0.0), time: float = RISING_TIME) -> None:
        """Starts a smooth motion of the center of mass to another height and offset.

        Args:
            height: target height over the ground [m].
            com_offset: (2,) target offset from the center of the feet, world [m].
            time: duration [sqrt(l/g)].
        """
        self._target_height, self._target_offset, self._remaining_time = (
            height,
            com_offset,
            time * self._morphology.time_scale,
        )

    def stop_fall(self, height: float, rate: float, distance: float, min_height: float) -> None:
        """Starts to bring the falling center of mass to rest, along a minimum-jerk path.

        Args:
            height: present height of the center of mass over the ground [m].
            rate: its rate of change [m/s].
            distance: stopping distance [m], as far as it stays above `min_height`.
            min_height: minimum height [m].
        """
        self._height, self._height_trim, self._tilt_trim = (height, rate, 0.0), 0.0, (0.0, 0.0)
        distance = min(distance, max(height - min_height, 0.2 * distance))
        self._com_offset, self._target_offset = NO_OFFSET, (0.0, 0.0)
        self._remaining_time = min(2.0 * distance / max(-rate, 1e-9), STOPPING_TIME * self._morphology.time_scale)
        self._target_height = height + 0.5 * rate * self._remaining_time

    def lower(self, rate: float, min_height: float, dt: float) -> bool:
        """Lowers the trunk by one tick; returns False if it is already at the minimum height.

        Args:
            rate: speed of the lowering [m/s].
            min_height: minimum height of the center of mass over the ground [m].
            dt: control period [s].
        """
        height = self._height[0]
        is_above = height > min_height
        self._height = (max(height - rate * dt, min_height), -rate, 0.0) if is_above else (height, 0.0, 0.0)
        self._target_height = self._height[0]
        return is_above

    @property
    def is_moving(self) -> bool:
        """Whether a motion to another height or offset is in progress."""
        return self._remaining_time > 0.0

    @property
    def com_offset(self) -> OffsetMotion:
        """Offset of the center of mass during such a motion: position [m], velocity and acceleration along x and y."""
        x, y = self._com_offset
        return x, y

    def update_references(
        self,
        reference: ComReference,
        path: PathReference,
        ground: GroundPlane,
        com: tuple[float, float, float],
        velocity: tuple[float, float, float],
        R_base: Array,
        dt: float,
        *,
        is_stepping_fast: bool = False,
    ) -> None:
        """Sets the references of the whole-body controller for one tick.

        Args:
            reference: reference of the center of mass from the preview.
            path: path reference.
            ground: plane of the feet.
            com: (3,) center of mass, world [m].
            velocity: (3,) its velocity [m/s].
            R_base: (3, 3) attitude of the base.
            dt: control period [s].
            is_stepping_fast: whether a push has accelerated the steps.
        """
        p, omega = self._morphology, reference.frequency
        x, y, z = com
        u, v, _ = velocity
        (zx, zy), (ex, ey) = reference.cop.tolist(), reference.dcm.tolist()
        if self._remaining_time > 0.0:
            self._height = advance_quintic(*self._height, self._target_height, 0.0, self._remaining_time, dt)
            (offset_x, offset_y), (goal_x, goal_y) = self._com_offset, self._target_offset
            self._com_offset = (
                advance_quintic(*offset_x, goal_x, 0.0, self._remaining_time, dt),
                advance_quintic(*offset_y, goal_y, 0.0, self._remaining_time, dt),
            )
            self._remaining_time -= dt
        height, rate, height_acceleration = self._height
        # Vertical contact force per mass: while a fall is stopped, much more than the weight.
        weight = max(reference.vertical_force * p.gravity + height_acceleration, 0.0)
        height_motion, height_rate = reference.height_motion
        stiffness = weight / (p.height + height_motion)
        gain = stiffness * (1.0 + DIVERGENT_GAIN)
        acceleration_x = stiffness * (x - zx) - gain * (x + u / omega - ex)
        acceleration_y = stiffness * (y - zy) - gain * (y + v / omega - ey)
        axes = ground.axes(path.yaw)
        slope_x, slope_y = ground.slope.tolist()
        friction_ratio, (a, b, n) = (
            GROUND_FORCE_FRACTION * (1.0 if is_stepping_fast else PYRAMID_FACE_RATIO) * self._friction_model.friction,
            self._friction_model.normal.tolist(),
        )
        allowed_fraction = compute_friction_fraction(
            acceleration_x, acceleration_y, -a / n, -b / n, friction_ratio, weight
        )
        acceleration_x, acceleration_y = allowed_fraction * acceleration_x, allowed_fraction * acceleration_y
        vertical_acceleration = slope_x * acceleration_x + slope_y * acceleration_y

        alpha, limit = dt / (TRIM_TIME * p.time_scale), HEIGHT_TRIM * p.height
        lowering = compute_slope_lowering(p, axes, KNOWN_SLOPE_LOWERING if ground.follows_map else self._slope_lowering)
        plane = ground.height(x, y)
        base_height = plane - ground.lowering - lowering + height_motion
        self.desired_height, self.desired_rate = base_height + height - plane, rate + height_rate + ground.climb_rate
        self._height_trim = min(max(self._height_trim + alpha * (base_height + height - z), -limit), limit)
        tasks = self._wbc.tasks
        tasks["com"].reference(
            np.array([x, y, base_height + height + self._height_trim]),
            np.array([u, v, rate + height_rate + slope_x * u + slope_y * v + ground.climb_rate]),
            np.array([acceleration_x, acceleration_y, weight - p.gravity + vertical_acceleration]),
        )

        R = axes @ p.heading.T
        attitude_error = R @ R_base.T
        lean_x, lean_y = (
            0.5 * float(attitude_error[2, 1] - attitude_error[1, 2]),
            0.5 * float(attitude_error[0, 2] - attitude_error[2, 0]),
        )  # of small angles
        a = min(max(self._tilt_trim[0] + alpha * lean_x, -TILT_TRIM), TILT_TRIM)
        b = min(max(self._tilt_trim[1] + alpha * lean_y, -TILT_TRIM), TILT_TRIM)
        self._tilt_trim = a, b
        (tilt_x, tilt_y), cosine_squared = ground.slope_rate, float(axes[2, 2]) ** 2
        tasks["base"].reference(
            make_tilt_rotation(a, b) @ R,
            float(path.velocity[2]) * axes[:, 2] + np.array([cosine_squared * tilt_y, -cosine_squared * tilt_x, 0.0]),
        )
        if not reference.load_fractions.any():
            self.reduce_base_weight()
        elif is_stepping_fast:
            self.reduce_base_weight(FAST_STEP_BASE_FRACTION)
        else:
            self.restore_base_weight()
        force = p.mass * np.array([acceleration_x, acceleration_y, weight + vertical_acceleration])
        fractions = zip(FEET, reference.load_fractions.tolist(), strict=True)
        tasks["forces"].reference(
            {foot: load_fraction * force for foot, load_fraction in fractions if load_fraction > 0.0}
        )

    def restore_base_weight(self) -> None:
        """Restores the weight of the task "base"; `update_references` does so where feet carry load."""
        if self._base_weight is not None:
            self._wbc.tasks["base"].weight = self._base_weight
            self._base_weight, self._weight_fraction = None, 1.0

    def reduce_base_weight(self, fraction: float = FLIGHT_BASE_FRACTION) -> None:
        """Reduces the weight of the task "base", until `restore_base_weight`.

        Args:
            fraction: fraction of the weight that remains.
        """
        if fraction == self._weight_fraction:
            return
        base = self._wbc.tasks["base"]
        if self._base_weight is None:
            self._base_weight = np.array(base.weight)
        self._weight_fraction, base.weight = fraction, fraction * self._base_weight


def compute_slope_lowering(morphology: Morphology, axes: Array, fraction: float = KNOWN_SLOPE_LOWERING) -> float:
    """Computes the lowering of the trunk on a slope [m].

    Args:
        morphology: lengths and units of the robot.
        axes: (3, 3) `heading_axes` of the slope.
        fraction: lowering divided by leg length and sine of the slope's angle.
    """
    return fraction * morphology.length * math.sqrt(1.0 - float(axes[2, 2]) ** 2)


def compute_friction_fraction(
    x: float, y: float, slope_x: float, slope_y: float, friction: float, gravity: float
) -> float:
    """Computes the fraction of an acceleration along the ground that friction allows, in [0, 1].

    With the weight m g, the force tangential to the ground is ``m (a + g sin(angle) u)`` with the uphill direction u,
    and the normal force ``m g cos(angle)``.

    Args:
        x: horizontal acceleration along x [m/s^2].
        y: horizontal acceleration along y [m/s^2].
        slope_x: slope of the ground along x.
        slope_y: slope of the ground along y.
        friction: maximum ratio of tangential to normal force.
        gravity: gravitational acceleration [m/s^2].
    """
    rise = slope_x * x + slope_y * y
    steep = slope_x * slope_x + slope_y * slope_y
    max_acceleration = friction * gravity
    squared_acceleration, uphill_power = x * x + y * y + rise * rise, gravity * rise
    margin = (max_acceleration * max_acceleration - gravity * gravity * steep) / (1.0 + steep)
    if margin <= 0.0:  # the foot slides in any case
        return 0.0 if uphill_power > 0.0 else 1.0
    if squared_acceleration + 2.0 * uphill_power <= margin:
        return 1.0
    return (
        math.sqrt(uphill_power * uphill_power + squared_acceleration * margin) - uphill_power
    ) / squared_acceleration


def make_tilt_rotation(a: float, b: float) -> Array:
    """Returns the rotation matrix (3, 3) of the horizontal rotation vector (a, b, 0) [rad] (Rodrigues' formula)."""
    angle = math.hypot(a, b)
    s = math.sin(angle) / angle if angle > 1e-9 else 1.0
    k = 0.5 * (math.sin(0.5 * angle) / (0.5 * angle)) ** 2 if angle > 1e-9 else 0.5
    return np.array(
        [
            [1.0 - k * b * b, k * a * b, s * b],
            [k * a * b, 1.0 - k * a * a, -s * a],
            [-s * b, s * a, 1.0 - k * angle * angle],
        ]
    )
