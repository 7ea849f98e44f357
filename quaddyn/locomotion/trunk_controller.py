"""`Trunk`: references of the whole-body controller for the centre of mass and the base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .friction_model import PYRAMID_FACE_RATIO, FrictionModel
from .ground_plane import GroundPlane
from .morphology import FEET, Morphology
from .path_reference import ComReference, OffsetMotion, PathReference
from .swing import advance_quintic

#: Natural frequency of the height [1/sqrt(l/g)].
HEIGHT_FREQUENCY = 2.5
#: Weights of height and attitude (per l) against the horizontal motion of the centre of mass, 1.  The two cannot be had
#: together on two feet; the trunk gives way a little, for what the pendulum does decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: Share of that weight of attitude while nobody touches: there legs go where they will land, and the trunk gives way.
FLIGHT_BASE_FRACTION = 8e-4
#: The same of a robot that was pushed and hurries: its trunk turns instead, like a flywheel.
FAST_STEP_BASE_FRACTION = 0.25
#: Feedback of the divergent component [omega].
DIVERGENT_GAIN = 0.5
#: Largest horizontal acceleration asked of the ground, as a share of what its friction pyramid allows in any direction,
#: or, in a hurry, of what friction does: whole-body control knows the pyramid, whose edges reach so far.
GROUND_FORCE_FRACTION = 0.9
#: How much lower the trunk is on a slope, times the sine of its angle [l]: feet that are put down ahead by so much, or
#: lift off behind, are no farther from their hips than on level ground.
KNOWN_SLOPE_LOWERING = 0.1
#: The same on ground that is felt only, of robots whose legs can be folded so far there: a leg that is nearly straight
#: as its foot lifts off has to turn its knee very fast.
BLIND_SLOPE_LOWERINGS = 0.3, 0.2
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0
#: Longest time to stop a fall [sqrt(l/g)].
STOPPING_TIME = 1.0
#: What slow integral action may add to the height [h] and to the tilt [rad], and its time constant [sqrt(l/g)].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0
#: Of who leans nowhere.
NO_OFFSET: OffsetMotion = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)


class TrunkController:
    """References of the tasks "com", "base" and "forces".

    *Across the ground* the centre of mass has no position to hold.  With e the error of its divergent component, the
    centre of pressure ``z* + (1 + k) e`` makes e decay at the rate k lambda / omega (Englsberger et al. 2015; lambda is
    omega^2 but for gaits with flight phases, see `Preview`), hence

        cddot = lambda (c - z*) - lambda (1 + k) e,

    cut to what friction can give.  Two point feet give no moment about the line between them: a force that pushes the
    centre of mass across that line turns the trunk, and a trunk that is kept upright takes force away.  Of a robot that
    was pushed so far that it hurries (`Pace`) the attitude gives way: the trunk is a flywheel for a while (Stephens
    2007, "Humanoid push recovery").  *Height* is over the plane of the feet, measured vertically: then the same holds
    on a slope, with the vertical acceleration that keeps the height.  The trunk is parallel to that plane and looks
    along the course.  Integral action makes up for mass that the robot's file does not know of.

    Args:
        morphology: of the robot.
        wbc: the whole-body controller, whose tasks get the references.
        friction_model: what is counted on of the ground.
        height: of the centre of mass over the ground now [m].
        com_offset: (2,) of the centre of mass from the middle of the feet now, world [m].
        slope_lowering: how much lower it is on slopes that are only felt, times the sine of their angle [l].

    Attributes:
        is_moving: whether it is on its way up, down, or over the middle of its feet.
        desired_height: of the centre of mass over the plane of the feet, measured vertically, as last commanded [m]:
            the lowering on slopes and for low footholds and the bounce of a gait with flight phases included.
        desired_rate: at which that changes [m/s].
    """

    __slots__ = (
        "_base_weight",
        "_com_offset",
        "_friction_model",
        "_height",
        "_height_trim",
        "_p",
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
        self._p, self._wbc, self._friction_model, self._slope_lowering = morphology, wbc, friction_model, slope_lowering
        self._height = (height, 0.0, 0.0)
        self._target_height, self._target_offset, self._remaining_time = height, (0.0, 0.0), 0.0
        self._com_offset: OffsetMotion = (com_offset[0], 0.0, 0.0), (com_offset[1], 0.0, 0.0)
        self._height_trim, self._tilt_trim = 0.0, (0.0, 0.0)
        self._base_weight: Array | None = None  # of attitude, while it gives way
        self._weight_fraction = 1.0  # of it that is left
        self.desired_height, self.desired_rate = height, 0.0

    @staticmethod
    def set_gains(morphology: Morphology, tasks: Mapping[str, Any]) -> None:
        """Gains and weights of the tasks."""
        p = morphology
        rate = (HEIGHT_FREQUENCY / p.time_scale) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float, com_offset: tuple[float, float] = (0.0, 0.0), time: float = RISING_TIME) -> None:
        """Bring the centre of mass to another height over the ground, smoothly, and over the middle of the feet.

        Args:
            height: over the ground [m].
            com_offset: (2,) of the centre of mass from the middle of the feet then, world [m].
            time: it takes [sqrt(l/g)].
        """
        self._target_height, self._target_offset, self._remaining_time = height, com_offset, time * self._p.time_scale

    def stop_fall(self, height: float, rate: float, distance: float, min_height: float) -> None:
        """Bring the centre of mass to rest from where it is, as steadily as can be.

        Args:
            height: of the centre of mass over the ground now [m].
            rate: at which it changes [m/s].
            distance: over which to stop [m], as long as it stays above `min_height`.
            min_height: height [m].
        """
        self._height, self._height_trim, self._tilt_trim = (height, rate, 0.0), 0.0, (0.0, 0.0)
        distance = min(distance, max(height - min_height, 0.2 * distance))
        self._com_offset, self._target_offset = NO_OFFSET, (0.0, 0.0)
        self._remaining_time = min(2.0 * distance / max(-rate, 1e-9), STOPPING_TIME * self._p.time_scale)
        self._target_height = height + 0.5 * rate * self._remaining_time

    def lower(self, rate: float, min_height: float, dt: float) -> bool:
        """One tick of sinking at a rate [m/s] that goes no further than `min_height` [m]; whether it went down.

        Args:
            rate: at which the height shrinks [m/s].
            min_height: height of the centre of mass over the ground at which it stays [m].
            dt: [s].
        """
        height = self._height[0]
        sinks = height > min_height
        self._height = (max(height - rate * dt, min_height), -rate, 0.0) if sinks else (height, 0.0, 0.0)
        self._target_height = self._height[0]
        return sinks

    @property
    def is_moving(self) -> bool:
        """Whether it is on its way up, down, or over the middle of its feet."""
        return self._remaining_time > 0.0

    @property
    def com_offset(self) -> OffsetMotion:
        """Of the centre of mass that goes to the middle of its feet, along x and y: place, velocity, acceleration."""
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
        """Set the references.

        Args:
            reference: of the centre of mass.
            path: of the robot.
            ground: as far as it is known.
            com: the centre of mass, world [m].
            velocity: its velocity [m/s].
            R_base: (3, 3) attitude of the base.
            dt: [s].
            is_stepping_fast: whether it was pushed so far that it steps sooner.
        """
        p, omega = self._p, reference.frequency
        x, y, z = com
        u, v, _ = velocity
        (zx, zy), (ex, ey) = reference.cop.tolist(), reference.dcm.tolist()
        if self._remaining_time > 0.0:
            self._height = advance_quintic(*self._height, self._target_height, 0.0, self._remaining_time, dt)
            (along, aside), (goal_x, goal_y) = self._com_offset, self._target_offset
            self._com_offset = (
                advance_quintic(*along, goal_x, 0.0, self._remaining_time, dt),
                advance_quintic(*aside, goal_y, 0.0, self._remaining_time, dt),
            )
            self._remaining_time -= dt
        height, rate, rush = self._height
        # What the ground pushes upwards, per mass: while a fall is stopped, much more than the weight.
        weight = max(reference.vertical_force * p.gravity + rush, 0.0)
        rise, rising = reference.height_motion
        stiffness = weight / (p.height + rise)
        gain = stiffness * (1.0 + DIVERGENT_GAIN)
        push_x = stiffness * (x - zx) - gain * (x + u / omega - ex)
        push_y = stiffness * (y - zy) - gain * (y + v / omega - ey)
        axes = ground.axes(path.yaw)
        slope_x, slope_y = ground.slope.tolist()
        push, (a, b, n) = (
            GROUND_FORCE_FRACTION * (1.0 if is_stepping_fast else PYRAMID_FACE_RATIO) * self._friction_model.friction,
            self._friction_model.normal.tolist(),
        )
        cut = compute_friction_fraction(push_x, push_y, -a / n, -b / n, push, weight)
        push_x, push_y = cut * push_x, cut * push_y
        lift = slope_x * push_x + slope_y * push_y

        share, limit = dt / (TRIM_TIME * p.time_scale), HEIGHT_TRIM * p.height
        low = compute_slope_lowering(p, axes, KNOWN_SLOPE_LOWERING if ground.follows_map else self._slope_lowering)
        plane = ground.height(x, y)
        floor = plane - ground.lowering - low + rise
        self.desired_height, self.desired_rate = floor + height - plane, rate + rising + ground.climb_rate
        self._height_trim = min(max(self._height_trim + share * (floor + height - z), -limit), limit)
        tasks = self._wbc.tasks
        tasks["com"].reference(
            np.array([x, y, floor + height + self._height_trim]),
            np.array([u, v, rate + rising + slope_x * u + slope_y * v + ground.climb_rate]),
            np.array([push_x, push_y, weight - p.gravity + lift]),
        )

        R = axes @ p.heading.T
        turn = R @ R_base.T
        lean_x, lean_y = 0.5 * float(turn[2, 1] - turn[1, 2]), 0.5 * float(turn[0, 2] - turn[2, 0])  # of small angles
        a = min(max(self._tilt_trim[0] + share * lean_x, -TILT_TRIM), TILT_TRIM)
        b = min(max(self._tilt_trim[1] + share * lean_y, -TILT_TRIM), TILT_TRIM)
        self._tilt_trim = a, b
        (tilt_x, tilt_y), flat = ground.slope_rate, float(axes[2, 2]) ** 2
        tasks["base"].reference(
            make_tilt_rotation(a, b) @ R,
            float(path.velocity[2]) * axes[:, 2] + np.array([flat * tilt_y, -flat * tilt_x, 0.0]),
        )
        if not reference.load_fractions.any():
            self.reduce_base_weight()
        elif is_stepping_fast:
            self.reduce_base_weight(FAST_STEP_BASE_FRACTION)
        else:
            self.restore_base_weight()
        force = p.mass * np.array([push_x, push_y, weight + lift])
        shares = zip(FEET, reference.load_fractions.tolist(), strict=True)
        tasks["forces"].reference({foot: part * force for foot, part in shares if part > 0.0})

    def restore_base_weight(self) -> None:
        """The task "base" has the weight again that it had before it gave way; `guide` does so where feet carry."""
        if self._base_weight is not None:
            self._wbc.tasks["base"].weight = self._base_weight
            self._base_weight, self._weight_fraction = None, 1.0

    def reduce_base_weight(self, fraction: float = FLIGHT_BASE_FRACTION) -> None:
        """The attitude gives way, until `end`: in flight to the legs.

        Args:
            fraction: of its weight that it keeps.
        """
        if fraction == self._weight_fraction:
            return
        base = self._wbc.tasks["base"]
        if self._base_weight is None:
            self._base_weight = np.array(base.weight)
        self._weight_fraction, base.weight = fraction, fraction * self._base_weight


def compute_slope_lowering(morphology: Morphology, axes: Array, fraction: float = KNOWN_SLOPE_LOWERING) -> float:
    """How much lower the trunk is on a slope [m].

    Args:
        morphology: of the robot.
        axes: (3, 3) `heading_axes` of the slope.
        fraction: of the leg's length, times the sine of the slope's angle.
    """
    return fraction * morphology.length * math.sqrt(1.0 - float(axes[2, 2]) ** 2)


def compute_friction_fraction(
    x: float, y: float, slope_x: float, slope_y: float, friction: float, gravity: float
) -> float:
    """The share of an acceleration along the ground that friction can give, in [0, 1].

    With a weight m g, the force tangential to the ground is ``m (a + g sin(angle) u)``, u uphill, and the normal one
    ``m g cos(angle)``.

    Args:
        x: of the acceleration seen from above [m/s^2].
        y: of the acceleration seen from above [m/s^2].
        slope_x: rise of the ground along x.
        slope_y: rise of the ground along y.
        friction: largest tangential over normal force.
        gravity: [m/s^2].
    """
    rise = slope_x * x + slope_y * y
    steep = slope_x * slope_x + slope_y * slope_y
    most = friction * gravity
    size, along = x * x + y * y + rise * rise, gravity * rise
    room = (most * most - gravity * gravity * steep) / (1.0 + steep)
    if room <= 0.0:  # it slides
        return 0.0 if along > 0.0 else 1.0
    if size + 2.0 * along <= room:
        return 1.0
    return (math.sqrt(along * along + size * room) - along) / size


def make_tilt_rotation(a: float, b: float) -> Array:
    """(3, 3) the rotation by the horizontal rotation vector (a, b, 0) [rad] (Rodrigues' formula)."""
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
