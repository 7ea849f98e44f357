"""`FallDetector`: detection of falls, also before the trunk reaches the ground."""

from __future__ import annotations

import math

from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .ground_plane import GroundPlane
from .modes import LocomotionMode
from .morphology import Morphology
from .path_reference import PathReference

#: Signs of a fall, as `LocomotionCommand.limit_reason` reports them.
BEYOND_REACH = "fallen: capture point beyond the reach of all feet"
TRUNK_TIPPING = "fallen: trunk tips over"
TRUNK_TILTED = "fallen: trunk tilted beyond recovery"
TRUNK_SINKING = "fallen: trunk sinks faster than legs can stop it"
TRUNK_LOW = "fallen: trunk near the ground"
#: Distance of the capture point from the area that one step reaches, above which it is a fall [l]: the hips move on,
#: and a second step can correct some of it.
CAPTURE_POINT_MARGIN = 0.2
#: Prediction time of the tilt [sqrt(l/g)], minimum tilt for a prediction, and predicted tilt that is a fall [rad].
TILT_PREDICTION_TIME, MIN_PREDICTED_TILT, MAX_PREDICTED_TILT = 0.5, 0.25, 1.05
#: Minimum time for which a fall must be predicted [sqrt(l/g)].
MIN_FALL_DURATION = 0.05
#: Height of the center of mass, as a fraction of the commanded one, below which the trunk is near the ground, and
#: cosine of the tilt of the trunk against the ground below which it cannot recover.
FALLEN_HEIGHT, FALLEN_TILT = 0.45, 0.5
#: Deceleration with which legs can stop a sinking trunk [g].
STOPPING_ACCELERATION = 1.0


class FallDetector:
    """Detector of falls, relative to the commanded height and the plane of the feet.

    *Capture point* (Pratt et al. 2006): the point ``c + (cdot - cdot*) / omega`` on the ground, with the commanded
    velocity cdot*, is where a robot would have to put its weight at once to lose its excess speed.  Feet are within
    ``sqrt(l^2 - z^2)`` of their hips in the horizontal projection, with the height z of the hips.  A capture point
    beyond the rectangle of the hips by more than that is beyond the support polygon of any placement of the feet.
    Further steps can correct a little more (Koolen et al. 2012, N-step capturability), hence the margin of ``0.2 l``.

    *Tilt*: the trunk is tilted by more than 60 deg against the ground normal, or will be within ``0.5 sqrt(l/g)`` at
    its present rate.

    *Height*: the trunk is below 0.45 of the commanded height, or sinks so fast that it would come to rest below that
    with the deceleration of the legs.  The commanded height includes the lowering on slopes and for low footholds and
    the vertical motion of the gait.

    Args:
        morphology: lengths and units of the robot.
        dt: control period [s].
    """

    __slots__ = ("_dt", "_hips", "_morphology", "_radius", "_time")

    def __init__(self, morphology: Morphology, dt: float) -> None:
        p = morphology
        self._morphology, self._dt = p, dt
        hip_height = p.height + float(p.hips[:, 2].mean())
        self._radius = math.sqrt(max(p.length**2 - hip_height**2, 0.0))
        x, y = (float(abs(p.hips[:, i]).max()) for i in (0, 1))
        self._hips = x, y
        self.reset()

    def reset(self) -> None:
        """Resets the detection."""
        self._time = 0.0

    def trunk_on_ground(
        self, mode: LocomotionMode, motion: CentroidalState, ground: GroundPlane, desired_height: float | None = None
    ) -> str:
        """Returns the sign that the trunk is already on the ground or tilted beyond recovery; "" if it is not.

        Args:
            mode: present mode; the height is checked only where the trunk is at its commanded height.
            motion: present state of center of mass and trunk.
            ground: plane of the feet.
            desired_height: commanded height of the center of mass over that plane [m]; None for that at home.
        """
        x, y, z = motion.com
        desired = self._morphology.height if desired_height is None else desired_height
        if mode.is_upright and z - ground.height(x, y) < FALLEN_HEIGHT * desired:
            return TRUNK_LOW
        a, b, c = motion.axes[:, 2].tolist()
        d, e, f = ground.normal.tolist()
        return TRUNK_TILTED if a * d + b * e + c * f < FALLEN_TILT else ""

    def capture_margin(self, motion: CentroidalState, path: PathReference) -> float:
        """Computes the distance of the capture point from the border of the reachable area [m]; negative outside.

        Args:
            motion: present state of center of mass and trunk.
            path: path reference.
        """
        c, s = math.cos(motion.yaw), math.sin(motion.yaw)
        u, v, _ = motion.velocity
        forward, leftward, _ = path.velocity.tolist()
        omega, (x, y) = self._morphology.natural_frequency, self._hips
        excess_forward = max(abs(c * u + s * v - forward) / omega - x, 0.0)
        excess_sideways = max(abs(c * v - s * u - leftward) / omega - y, 0.0)
        return self._radius - math.hypot(excess_forward, excess_sideways)

    def detect(
        self,
        motion: CentroidalState,
        angular_velocity: Array,
        ground: GroundPlane,
        path: PathReference,
        desired: tuple[float, float] | None = None,
    ) -> str:
        """Updates the detector by one tick and returns the sign of a predicted fall; "" if there is none.

        Args:
            motion: present state of center of mass and trunk.
            angular_velocity: (3,) angular velocity of the trunk, world axes [rad/s].
            ground: plane of the feet.
            path: path reference.
            desired: height of the center of mass over the ground [m], and its rate [m/s]; None for those at home.
        """
        p = self._morphology
        sign = BEYOND_REACH if self.capture_margin(motion, path) < -CAPTURE_POINT_MARGIN * p.length else ""
        if not sign:
            a, b, c = motion.axes[:, 2].tolist()
            d, e, f = ground.normal.tolist()
            cosine = min(a * d + b * e + c * f, 1.0)
            if cosine < math.cos(MIN_PREDICTED_TILT):
                wx, wy, wz = angular_velocity.tolist()
                # rate of the angle between trunk and normal: (w x up) . normal = -sin(angle) d/dt angle
                cosine_rate = (wy * c - wz * b) * d + (wz * a - wx * c) * e + (wx * b - wy * a) * f
                angle = math.acos(max(cosine, -1.0))
                if angle - cosine_rate / math.sin(angle) * TILT_PREDICTION_TIME * p.time_scale > MAX_PREDICTED_TILT:
                    sign = TRUNK_TIPPING
        if not sign:
            (x, y, z), (u, v, w) = motion.com, motion.velocity
            height, rate = (p.height, 0.0) if desired is None else desired
            slope_x, slope_y = ground.slope.tolist()
            sinking = max(rate + slope_x * u + slope_y * v - w, 0.0)
            rest_height = z - ground.height(x, y) - 0.5 * sinking * sinking / (STOPPING_ACCELERATION * p.gravity)
            sign = TRUNK_SINKING if rest_height < FALLEN_HEIGHT * height else ""
        self._time = self._time + self._dt if sign else 0.0
        return sign if self._time > MIN_FALL_DURATION * p.time_scale else ""
