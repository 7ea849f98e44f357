"""`FallWatch`: a trunk that is down, and a fall that nothing holds any more, seen before it is."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .course import Course
from .ground import GroundPlane
from .modes import Mode
from .motion import Motion
from .proportions import Proportions

#: What it says.
BEYOND_REACH, TIPPING = "capture point beyond the reach of all feet", "trunk tips over"
#: How far beyond one step's reach the capture point must be [l]: hips go on moving, and a second step catches some.
FURTHER = 0.2
#: How far ahead the trunk's tilt is foreseen [sqrt(l/g)], from which tilt on, and what counts as fallen then [rad].
AHEAD, TILTED, TIPPED = 0.5, 0.25, 1.05
#: How long a sign must last [sqrt(l/g)].
LASTING = 0.05
#: Height of the centre of mass below which nobody can walk, as a share of that at home, and steepest tilt of the trunk
#: against the ground, before it counts as a fall (cosine).
FALLEN_HEIGHT, FALLEN_TILT = 0.45, 0.5
#: Who slips gives in from this height and this tilt (cosine) on: legs that fight on such ground are hurled about.
GIVING_IN, GIVING_IN_TILT = 0.75, 0.9


class FallWatch:
    """Looks at where feet would have to be, and at how the trunk turns; and whether it is down already.

    *Capture point* (Pratt et al. 2006): the point ``c + (cdot - cdot*) / omega`` on the ground, with cdot* the velocity
    that is wanted, is where a robot would have to put its weight at once to lose what speed is too much.  Feet are
    within ``sqrt(l^2 - z^2)`` of their hips, seen from above, where these are at height z.  A capture point beyond the
    rectangle of the hips by more than that is beyond whatever
    polygon all feet could make.  Further steps catch what is a little beyond (Koolen et al. 2012, N-step
    capturability), so that it counts from ``0.2 l`` on.

    *Tipping*: trunk that leans, and that at its present rate is at 60 deg from the ground's normal soon.

    Args:
        proportions: of the robot.
        dt: [s].
    """

    __slots__ = ("_dt", "_hips", "_p", "_radius", "_time")

    def __init__(self, proportions: Proportions, dt: float) -> None:
        p = proportions
        self._p, self._dt = p, dt
        above = p.height + float(p.hips[:, 2].mean())
        self._radius = math.sqrt(max(p.length**2 - above**2, 0.0))
        x, y = (float(abs(p.hips[:, i]).max()) for i in (0, 1))
        self._hips = x, y
        self.reset()

    def reset(self) -> None:
        """Forget what was seen."""
        self._time = 0.0

    def down(self, mode: Mode, motion: Motion, ground: GroundPlane, *, slippery: bool) -> bool:
        """Whether the robot is too low or too tilted to go on.

        Args:
            mode: now.
            motion: of the robot.
            ground: the plane of its feet.
            slippery: whether the ground has shown much less friction than was told.
        """
        x, y, z = motion.com
        low = z - ground.height(x, y) < (GIVING_IN if slippery else FALLEN_HEIGHT) * self._p.height
        a, b, c = motion.axes[:, 2].tolist()
        d, e, f = ground.normal.tolist()
        return (low and mode.upright) or a * d + b * e + c * f < (GIVING_IN_TILT if slippery else FALLEN_TILT)

    def room(self, motion: Motion, course: Course) -> float:
        """How far the capture point is within the reach of all feet [m], negative beyond.

        Args:
            motion: of the robot.
            course: its wanted motion.
        """
        c, s = math.cos(motion.yaw), math.sin(motion.yaw)
        u, v, _ = motion.velocity
        forward, leftward, _ = course.velocity.tolist()
        omega, (x, y) = self._p.frequency, self._hips
        ahead = max(abs(c * u + s * v - forward) / omega - x, 0.0)
        aside = max(abs(c * v - s * u - leftward) / omega - y, 0.0)
        return self._radius - math.hypot(ahead, aside)

    def sees(self, motion: Motion, spin: Array, ground: GroundPlane, course: Course) -> str:
        """One tick: what ends in a fall, "" while nothing does.

        Args:
            motion: of the robot.
            spin: (3,) angular velocity of the trunk, world axes [rad/s].
            ground: under its feet.
            course: its wanted motion.
        """
        why = BEYOND_REACH if self.room(motion, course) < -FURTHER * self._p.length else ""
        if not why:
            a, b, c = motion.axes[:, 2].tolist()
            d, e, f = ground.normal.tolist()
            cosine = min(a * d + b * e + c * f, 1.0)
            if cosine < math.cos(TILTED):
                wx, wy, wz = spin.tolist()
                # of the angle between trunk and normal: (w x up) . normal = -sin(angle) d/dt angle
                turn = (wy * c - wz * b) * d + (wz * a - wx * c) * e + (wx * b - wy * a) * f
                angle = math.acos(max(cosine, -1.0))
                if angle - turn / math.sin(angle) * AHEAD * self._p.time > TIPPED:
                    why = TIPPING
        self._time = self._time + self._dt if why else 0.0
        return why if self._time > LASTING * self._p.time else ""
