"""`Trunk`: references of the whole-body controller for the centre of mass and the base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .course import ComReference, Course, Lean
from .grip import FACE, Grip
from .ground import GroundPlane
from .proportions import FEET, Proportions
from .swing import quintic

#: Natural frequency of the height [1/sqrt(l/g)].
HEIGHT_RATE = 2.5
#: Weights of height and attitude (per l) against the horizontal motion of the centre of mass, 1.  The two cannot be had
#: together on two feet; the trunk gives way a little, for what the pendulum does decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: Share of that weight of attitude while nobody touches: there legs go where they will land, and the trunk gives way.
LOOSE_BASE = 8e-4
#: The same of a robot that was pushed and hurries: its trunk turns instead, like a flywheel.
HURRIED_BASE = 0.25
#: Feedback of the divergent component [omega].
DIVERGENT_GAIN = 0.5
#: Largest horizontal acceleration asked of the ground, as a share of what its friction pyramid allows in any direction,
#: or, in a hurry, of what friction does: whole-body control knows the pyramid, whose edges reach so far.
PUSH = 0.9
#: How much lower the trunk is on a slope, times the sine of its angle [l]: feet that are put down ahead by so much, or
#: lift off behind, are no farther from their hips than on level ground.
CROUCH = 0.1
#: The same on ground that is felt only, of robots whose legs can be folded so far there: a leg that is nearly straight
#: as its foot lifts off has to turn its knee very fast.
DEEP_CROUCHES = 0.3, 0.2
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0
#: Longest time to stop a fall [sqrt(l/g)].
STOPPING_TIME = 1.0
#: What slow integral action may add to the height [h] and to the tilt [rad], and its time constant [sqrt(l/g)].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0
#: Of who leans nowhere.
UPRIGHT: Lean = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)


class Trunk:
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
        proportions: of the robot.
        whole_body: the whole-body controller, whose tasks get the references.
        grip: what is counted on of the ground.
        height: of the centre of mass over the ground now [m].
        lean: (2,) of the centre of mass from the middle of the feet now, world [m].
        deep: how much lower it is on slopes that are only felt, times the sine of their angle [l].

    Attributes:
        busy: whether it is on its way up, down, or over the middle of its feet.
        desired_height: of the centre of mass over the plane of the feet, measured vertically, as last commanded [m]:
            the lowering on slopes and for low footholds and the bounce of a gait with flight phases included.
        desired_rate: at which that changes [m/s].
    """

    __slots__ = (
        "_aside", "_deep", "_grip", "_height", "_lean", "_left", "_p", "_share", "_tilt", "_trim", "_wanted", "_weight",
        "_whole_body", "desired_height", "desired_rate",
    )  # fmt: skip

    def __init__(
        self,
        proportions: Proportions,
        whole_body: WholeBodyController,
        grip: Grip,
        height: float,
        lean: tuple[float, float] = (0.0, 0.0),
        deep: float = CROUCH,
    ) -> None:
        self._p, self._whole_body, self._grip, self._deep = proportions, whole_body, grip, deep
        self._height = (height, 0.0, 0.0)
        self._wanted, self._aside, self._left = height, (0.0, 0.0), 0.0
        self._lean: Lean = (lean[0], 0.0, 0.0), (lean[1], 0.0, 0.0)
        self._trim, self._tilt = 0.0, (0.0, 0.0)
        self._weight: Array | None = None  # of attitude, while it gives way
        self._share = 1.0  # of it that is left
        self.desired_height, self.desired_rate = height, 0.0

    @staticmethod
    def prepare(proportions: Proportions, tasks: Mapping[str, Any]) -> None:
        """Gains and weights of the tasks."""
        p = proportions
        rate = (HEIGHT_RATE / p.time) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float, lean: tuple[float, float] = (0.0, 0.0), time: float = RISING_TIME) -> None:
        """Bring the centre of mass to another height over the ground, smoothly, and over the middle of the feet.

        Args:
            height: over the ground [m].
            lean: (2,) of the centre of mass from the middle of the feet then, world [m].
            time: it takes [sqrt(l/g)].
        """
        self._wanted, self._aside, self._left = height, lean, time * self._p.time

    def stop(self, height: float, rate: float, way: float, lowest: float) -> None:
        """Bring the centre of mass to rest from where it is, as steadily as can be.

        Args:
            height: of the centre of mass over the ground now [m].
            rate: at which it changes [m/s].
            way: over which to stop [m], as long as it stays above `lowest`.
            lowest: height [m].
        """
        self._height, self._trim, self._tilt = (height, rate, 0.0), 0.0, (0.0, 0.0)
        way = min(way, max(height - lowest, 0.2 * way))
        self._lean, self._aside = UPRIGHT, (0.0, 0.0)
        self._left = min(2.0 * way / max(-rate, 1e-9), STOPPING_TIME * self._p.time)
        self._wanted = height + 0.5 * rate * self._left

    def lower(self, rate: float, lowest: float, dt: float) -> bool:
        """One tick of sinking at a rate [m/s] that goes no further than `lowest` [m]; whether it went down.

        Args:
            rate: at which the height shrinks [m/s].
            lowest: height of the centre of mass over the ground at which it stays [m].
            dt: [s].
        """
        height = self._height[0]
        sinks = height > lowest
        self._height = (max(height - rate * dt, lowest), -rate, 0.0) if sinks else (height, 0.0, 0.0)
        self._wanted = self._height[0]
        return sinks

    @property
    def busy(self) -> bool:
        """Whether it is on its way up, down, or over the middle of its feet."""
        return self._left > 0.0

    @property
    def lean(self) -> Lean:
        """Of the centre of mass that goes to the middle of its feet, along x and y: place, velocity, acceleration."""
        x, y = self._lean
        return x, y

    def guide(
        self,
        reference: ComReference,
        course: Course,
        ground: GroundPlane,
        com: tuple[float, float, float],
        velocity: tuple[float, float, float],
        R_base: Array,
        dt: float,
        *,
        hurried: bool = False,
    ) -> None:
        """Set the references.

        Args:
            reference: of the centre of mass.
            course: of the robot.
            ground: as far as it is known.
            com: the centre of mass, world [m].
            velocity: its velocity [m/s].
            R_base: (3, 3) attitude of the base.
            dt: [s].
            hurried: whether it was pushed so far that it steps sooner.
        """
        p, omega = self._p, reference.frequency
        x, y, z = com
        u, v, _ = velocity
        (zx, zy), (ex, ey) = reference.pressure.tolist(), reference.divergent.tolist()
        if self._left > 0.0:
            self._height = quintic(*self._height, self._wanted, 0.0, self._left, dt)
            (along, aside), (goal_x, goal_y) = self._lean, self._aside
            self._lean = quintic(*along, goal_x, 0.0, self._left, dt), quintic(*aside, goal_y, 0.0, self._left, dt)
            self._left -= dt
        height, rate, rush = self._height
        # What the ground pushes upwards, per mass: while a fall is stopped, much more than the weight.
        weight = max(reference.push * p.gravity + rush, 0.0)
        rise, rising = reference.rise
        stiffness = weight / (p.height + rise)
        gain = stiffness * (1.0 + DIVERGENT_GAIN)
        push_x = stiffness * (x - zx) - gain * (x + u / omega - ex)
        push_y = stiffness * (y - zy) - gain * (y + v / omega - ey)
        axes = ground.axes(course.yaw)
        slope_x, slope_y = ground.slope.tolist()
        push, (a, b, n) = PUSH * (1.0 if hurried else FACE) * self._grip.friction, self._grip.normal.tolist()
        cut = gripped(push_x, push_y, -a / n, -b / n, push, weight)
        push_x, push_y = cut * push_x, cut * push_y
        lift = slope_x * push_x + slope_y * push_y

        share, limit = dt / (TRIM_TIME * p.time), HEIGHT_TRIM * p.height
        low = crouch(p, axes, CROUCH if ground.known else self._deep)
        plane = ground.height(x, y)
        floor = plane - ground.dip - low + rise
        self.desired_height, self.desired_rate = floor + height - plane, rate + rising + ground.climb
        self._trim = min(max(self._trim + share * (floor + height - z), -limit), limit)
        tasks = self._whole_body.tasks
        tasks["com"].reference(
            np.array([x, y, floor + height + self._trim]),
            np.array([u, v, rate + rising + slope_x * u + slope_y * v + ground.climb]),
            np.array([push_x, push_y, weight - p.gravity + lift]),
        )

        R = axes @ p.heading.T
        turn = R @ R_base.T
        lean_x, lean_y = 0.5 * float(turn[2, 1] - turn[1, 2]), 0.5 * float(turn[0, 2] - turn[2, 0])  # of small angles
        a = min(max(self._tilt[0] + share * lean_x, -TILT_TRIM), TILT_TRIM)
        b = min(max(self._tilt[1] + share * lean_y, -TILT_TRIM), TILT_TRIM)
        self._tilt = a, b
        (tilt_x, tilt_y), flat = ground.tilting, float(axes[2, 2]) ** 2
        tasks["base"].reference(
            tilted(a, b) @ R, float(course.velocity[2]) * axes[:, 2] + np.array([flat * tilt_y, -flat * tilt_x, 0.0])
        )
        if not reference.shares.any():
            self.give_way()
        elif hurried:
            self.give_way(HURRIED_BASE)
        else:
            self.end()
        force = p.mass * np.array([push_x, push_y, weight + lift])
        shares = zip(FEET, reference.shares.tolist(), strict=True)
        tasks["forces"].reference({foot: part * force for foot, part in shares if part > 0.0})

    def end(self) -> None:
        """The task "base" has the weight again that it had before it gave way; `guide` does so where feet carry."""
        if self._weight is not None:
            self._whole_body.tasks["base"].weight = self._weight
            self._weight, self._share = None, 1.0

    def give_way(self, share: float = LOOSE_BASE) -> None:
        """The attitude gives way, until `end`: in flight to the legs.

        Args:
            share: of its weight that it keeps.
        """
        if share == self._share:
            return
        base = self._whole_body.tasks["base"]
        if self._weight is None:
            self._weight = np.array(base.weight)
        self._share, base.weight = share, share * self._weight


def crouch(proportions: Proportions, axes: Array, share: float = CROUCH) -> float:
    """How much lower the trunk is on a slope [m].

    Args:
        proportions: of the robot.
        axes: (3, 3) `heading_axes` of the slope.
        share: of the leg's length, times the sine of the slope's angle.
    """
    return share * proportions.length * math.sqrt(1.0 - float(axes[2, 2]) ** 2)


def gripped(x: float, y: float, slope_x: float, slope_y: float, friction: float, gravity: float) -> float:
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


def tilted(a: float, b: float) -> Array:
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
