"""`FallWatch`: a trunk that is down, and a fall that nothing holds any more, seen before it is."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .course import Course
from .ground import GroundPlane
from .modes import Mode
from .motion import Motion
from .proportions import Proportions

#: The signs of a fall, as `LocomotionCommand.limit` reports them.
BEYOND_REACH = "fallen: capture point beyond the reach of all feet"
TIPPING = "fallen: trunk tips over"
TILTED = "fallen: trunk tilted beyond recovery"
SINKING = "fallen: trunk sinks faster than legs can stop it"
LOW = "fallen: trunk near the ground"
#: Distance of the capture point from what one step reaches, beyond which it counts [l]: hips go on moving, and a second
#: step can catch some of it.
FURTHER = 0.2
#: Time for which tilt is predicted [sqrt(l/g)], the smallest tilt for which it is, and the predicted tilt that counts
#: as a fall [rad].
AHEAD, LEAST_TILT, TIPPED = 0.5, 0.25, 1.05
#: Time for which a predicted fall must last [sqrt(l/g)].
LASTING = 0.05
#: Height of the centre of mass, as a fraction of the commanded one, below which the trunk is near the ground, and the
#: cosine of the tilt of the trunk against the ground beyond which no feet can bring it back.
FALLEN_HEIGHT, FALLEN_TILT = 0.45, 0.5
#: Deceleration with which legs can stop a trunk that sinks [g].
STOPPING_ACCELERATION = 1.0


class FallWatch:
    """Detector of falls: what cannot be recovered, judged against the commanded height and the plane of the feet.

    *Capture point* (Pratt et al. 2006): the point ``c + (cdot - cdot*) / omega`` on the ground, with cdot* the
    commanded velocity, is where a robot would have to put its weight at once to lose its excess speed.  Feet are within
    ``sqrt(l^2 - z^2)`` of their hips, seen from above, where these are at height z.  A capture point beyond the
    rectangle of the hips by more than that is beyond the support polygon of any placement of the feet.  Further steps
    catch what is a little beyond (Koolen et al. 2012, N-step capturability), so that it counts from ``0.2 l`` on.

    *Tilt*: the trunk leans, and at its present rate is at 60 deg from the ground's normal within ``0.5 sqrt(l/g)``;
    or it is there.

    *Height*: the trunk is below 0.45 of the commanded height, or sinks so fast that it comes to rest below that with
    the deceleration that legs can give.  A trunk that was commanded to be low, on a slope or for low footholds, or that
    a gait lets bounce, is measured against that command.

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

    def down(self, mode: Mode, motion: Motion, ground: GroundPlane, desired_height: float | None = None) -> str:
        """Sign that the robot is down already; "" while it is not.

        Args:
            mode: now; the height counts only where the trunk is at its commanded height.
            motion: of the robot.
            ground: the plane of its feet.
            desired_height: of the centre of mass over that plane [m]; None for that at home.
        """
        x, y, z = motion.com
        desired = self._p.height if desired_height is None else desired_height
        if mode.upright and z - ground.height(x, y) < FALLEN_HEIGHT * desired:
            return LOW
        a, b, c = motion.axes[:, 2].tolist()
        d, e, f = ground.normal.tolist()
        return TILTED if a * d + b * e + c * f < FALLEN_TILT else ""

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

    def sees(
        self,
        motion: Motion,
        spin: Array,
        ground: GroundPlane,
        course: Course,
        desired: tuple[float, float] | None = None,
    ) -> str:
        """One tick: the sign of a fall to come; "" while there is none.

        Args:
            motion: of the robot.
            spin: (3,) angular velocity of the trunk, world axes [rad/s].
            ground: under its feet.
            course: its commanded motion.
            desired: height of the centre of mass over the ground [m], and its rate [m/s]; None for that at home.
        """
        p = self._p
        why = BEYOND_REACH if self.room(motion, course) < -FURTHER * p.length else ""
        if not why:
            a, b, c = motion.axes[:, 2].tolist()
            d, e, f = ground.normal.tolist()
            cosine = min(a * d + b * e + c * f, 1.0)
            if cosine < math.cos(LEAST_TILT):
                wx, wy, wz = spin.tolist()
                # of the angle between trunk and normal: (w x up) . normal = -sin(angle) d/dt angle
                turn = (wy * c - wz * b) * d + (wz * a - wx * c) * e + (wx * b - wy * a) * f
                angle = math.acos(max(cosine, -1.0))
                if angle - turn / math.sin(angle) * AHEAD * p.time > TIPPED:
                    why = TIPPING
        if not why:
            (x, y, z), (u, v, w) = motion.com, motion.velocity
            height, rate = (p.height, 0.0) if desired is None else desired
            slope_x, slope_y = ground.slope.tolist()
            sinking = max(rate + slope_x * u + slope_y * v - w, 0.0)
            rest = z - ground.height(x, y) - 0.5 * sinking * sinking / (STOPPING_ACCELERATION * p.gravity)
            why = SINKING if rest < FALLEN_HEIGHT * height else ""
        self._time = self._time + self._dt if why else 0.0
        return why if self._time > LASTING * p.time else ""
