"""`Trunk`: references of the whole-body controller for the centre of mass and the base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .course import ComReference, Course
from .ground import GroundPlane
from .proportions import FEET, Proportions
from .swing import quintic

#: Natural frequency of the height [1/sqrt(l/g)].
HEIGHT_RATE = 2.5
#: Weights of height and attitude (per l) against the horizontal motion of the centre of mass, 1.  The two cannot be had
#: together on two feet; the trunk gives way a little, for what the pendulum does decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: Feedback of the divergent component [omega].
DIVERGENT_GAIN = 0.5
#: Largest horizontal acceleration asked of the ground, as a share of what its friction pyramid allows in any direction.
PUSH = 0.9
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0
#: Longest time to stop a fall [sqrt(l/g)].
STOPPING_TIME = 1.0
#: What slow integral action may add to the height [h] and to the tilt [rad], and its time constant [sqrt(l/g)].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0


class Trunk:
    """References of the tasks "com", "base" and "forces".

    *Across the ground* the centre of mass has no position to hold.  With e the error of its divergent component, the
    centre of pressure ``z* + (1 + k / omega) e`` makes e decay at the rate k (Englsberger et al. 2015), hence

        cddot = omega^2 (c - z*) - omega (omega + k) e,

    cut to what friction can give.  *Height* is over the plane of the feet; the trunk is parallel to that plane
    and looks along the course.  Integral action makes up for mass that the robot's file does not know of.

    Args:
        proportions: of the robot.
        whole_body: the whole-body controller, whose tasks get the references, and whose friction is counted on.
        height: of the centre of mass over the ground now [m].

    Attributes:
        busy: whether it is on its way up or down.
    """

    __slots__ = ("_height", "_left", "_p", "_tilt", "_trim", "_wanted", "_whole_body")

    def __init__(self, proportions: Proportions, whole_body: WholeBodyController, height: float) -> None:
        self._p, self._whole_body = proportions, whole_body
        self._height = (height, 0.0, 0.0)
        self._wanted, self._left = height, 0.0
        self._trim, self._tilt = 0.0, (0.0, 0.0)

    @staticmethod
    def prepare(proportions: Proportions, tasks: Mapping[str, Any]) -> None:
        """Gains and weights of the tasks."""
        p = proportions
        rate = (HEIGHT_RATE / p.time) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float) -> None:
        """Bring the centre of mass to another height over the ground [m], smoothly."""
        self._wanted, self._left = height, RISING_TIME * self._p.time

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
        self._left = min(2.0 * way / max(-rate, 1e-9), STOPPING_TIME * self._p.time)
        self._wanted = height + 0.5 * rate * self._left

    @property
    def busy(self) -> bool:
        """Whether it is on its way up or down."""
        return self._left > 0.0

    def guide(
        self,
        reference: ComReference,
        course: Course,
        ground: GroundPlane,
        com: tuple[float, float, float],
        velocity: tuple[float, float, float],
        R_base: Array,
        dt: float,
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
        """
        p, omega = self._p, self._p.frequency
        x, y, z = com
        u, v, _ = velocity
        (zx, zy), (ex, ey) = reference.pressure.tolist(), reference.divergent.tolist()
        gain = omega * omega * (1.0 + DIVERGENT_GAIN)
        push_x = omega * omega * (x - zx) - gain * (x + u / omega - ex)
        push_y = omega * omega * (y - zy) - gain * (y + v / omega - ey)
        # The inner pyramid of mu bears mu / sqrt(2) along its faces' normals.
        push = PUSH * math.sqrt(0.5) * self._whole_body.friction * p.gravity
        cut = min(1.0, push / max(math.hypot(push_x, push_y), 1e-9))
        push_x, push_y = cut * push_x, cut * push_y

        if self._left > 0.0:
            self._height = quintic(*self._height, self._wanted, 0.0, self._left, dt)
            self._left -= dt
        height, rate, rush = self._height
        share, limit = dt / (TRIM_TIME * p.time), HEIGHT_TRIM * p.height
        floor, (slope_x, slope_y) = ground.height(x, y), ground.slope.tolist()
        self._trim = min(max(self._trim + share * (floor + height - z), -limit), limit)
        tasks = self._whole_body.tasks
        tasks["com"].reference(
            np.array([x, y, floor + height + self._trim]),
            np.array([u, v, rate + slope_x * u + slope_y * v]),
            np.array([push_x, push_y, rush]),
        )

        c, s = math.cos(course.yaw), math.sin(course.yaw)
        level = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ p.heading.T
        R = ground.tilt @ level
        turn = R @ R_base.T
        lean_x, lean_y = 0.5 * float(turn[2, 1] - turn[1, 2]), 0.5 * float(turn[0, 2] - turn[2, 0])  # of small angles
        a = min(max(self._tilt[0] + share * lean_x, -TILT_TRIM), TILT_TRIM)
        b = min(max(self._tilt[1] + share * lean_y, -TILT_TRIM), TILT_TRIM)
        self._tilt = a, b
        tasks["base"].reference(tilted(a, b) @ R, np.array([0.0, 0.0, float(course.velocity[2])]))
        weight = p.mass * np.array([push_x, push_y, p.gravity])
        shares = zip(FEET, reference.shares.tolist(), strict=True)
        tasks["forces"].reference({foot: part * weight for foot, part in shares if part > 0.0})


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
