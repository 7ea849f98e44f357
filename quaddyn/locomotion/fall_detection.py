"""Compiled detection of falls, also before the trunk reaches the ground."""

import enum
import math
from types import MappingProxyType

from ..compiler import Record, Vector, compiled, cross, entry
from .ground_plane import GroundState, plane_height, plane_normal
from .morphology import BodyParameters, Morphology
from .motion import Motion, trunk_up
from .path_reference import PathState

#: Distance of the capture point from the area that one step reaches, above which it is a fall [l]: the hips move on,
#: and a second step can correct some of it.
CAPTURE_POINT_MARGIN = 0.3
#: Prediction time of the tilt [sqrt(l/g)], minimum tilt for a prediction, and predicted tilt that is a fall [rad].
TILT_PREDICTION_TIME, MIN_PREDICTED_TILT, MAX_PREDICTED_TILT = 0.4, 0.25, 1.0
#: Minimum time for which a fall must be predicted, and for which the trunk must be near the ground, from which a robot
#: may bounce [sqrt(l/g)].
MIN_PREDICTION_DURATION, MIN_LOW_DURATION = 0.05, 0.3
#: Height of the center of mass, as a fraction of the commanded one, below which the trunk is near the ground, and
#: cosine of the tilt of the trunk against the ground below which it cannot recover.
FALLEN_HEIGHT, FALLEN_TILT = 0.4, 0.5
#: Deceleration with which legs can stop a sinking trunk [g].
STOPPING_ACCELERATION = 0.5


#: Signs of a fall, as `LocomotionCommand.limit_reason` reports them.
BEYOND_REACH = "fallen: capture point beyond the reach of all feet"
TRUNK_TIPPING = "fallen: trunk tips over"
TRUNK_TILTED = "fallen: trunk tilted beyond recovery"
TRUNK_SINKING = "fallen: trunk sinks faster than legs can stop it"
TRUNK_LOW = "fallen: trunk near the ground"


class FallSign(enum.IntEnum):
    """Reason for which a fall is detected or predicted."""

    NONE = 0
    BEYOND_REACH = 1  # the capture point is beyond the reach of all feet
    TRUNK_TIPPING = 2
    TRUNK_TILTED = 3  # beyond recovery
    TRUNK_SINKING = 4  # faster than legs can stop it
    TRUNK_LOW = 5


SIGN_TEXTS = MappingProxyType(
    {
        FallSign.NONE: "",
        FallSign.BEYOND_REACH: BEYOND_REACH,
        FallSign.TRUNK_TIPPING: TRUNK_TIPPING,
        FallSign.TRUNK_TILTED: TRUNK_TILTED,
        FallSign.TRUNK_SINKING: TRUNK_SINKING,
        FallSign.TRUNK_LOW: TRUNK_LOW,
    }
)


class FallDetectorState(Record):
    """Parameters of the detector, and the times for which the signs of a fall have been present.

    *Capture point* (Pratt et al. 2006): the point ``c + (cdot - cdot*) / omega`` on the ground, with the commanded
    velocity cdot*, is where a robot would have to put its weight at once to lose its excess speed.  Feet are within
    ``sqrt(l^2 - z^2)`` of their hips in the horizontal projection, with the height z of the hips.  A capture point
    beyond the rectangle of the hips by more than that is beyond the support polygon of any placement of the feet.
    Further steps can correct a little more (Koolen et al. 2012, N-step capturability), hence the margin of ``0.3 l``.

    *Tilt*: the trunk is tilted by more than 60 deg against the ground normal, or its tilt against gravity will be more
    than 1 rad within ``0.4 sqrt(l/g)`` at its present rate.

    *Height*: the trunk is below 0.4 of the commanded height, or sinks so fast that it would come to rest below that
    with the deceleration of the legs.  The commanded height includes the lowering on slopes and for low footholds and
    the vertical motion of the gait.  An upward command is no sinking: it jumps with the plane of the feet when a foot
    touches down at another height than expected.
    """

    dt: float  # control period [s]
    radius: float  # horizontal distance from the hip within which a foot can be put down [m]
    hip_x: float  # half length of the rectangle of the hips [m]
    hip_y: float  # half width [m]
    durations: Vector  # (6,) time for which each `FallSign` has been present [s]
    sign: FallSign  # reason of a fall that was detected at the last tick, or of the present one after a fall


@compiled()
def com_height(body: BodyParameters, motion: Motion, ground: GroundState) -> float:
    """Returns the height of the center of mass over the plane of the feet, or over a lower parallel one [m].

    The ground is not above a foot, but the last footholds of a robot that falls may be: legs that the trunk hits, or
    the side of an obstacle.

    Args:
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
    """
    com, feet, slope = motion.com, motion.feet, ground.slope
    level = plane_height(ground, com[0], com[1])
    for foot in range(4):
        rise = slope[0] * (com[0] - feet[foot, 0]) + slope[1] * (com[1] - feet[foot, 1])
        level = min(level, feet[foot, 2] - body.radii[foot] + rise)
    height: float = com[2] - level
    return height


@entry("detection of falls")
def capture_margin(d: FallDetectorState, body: BodyParameters, motion: Motion, path: PathState) -> float:
    """Returns the distance of the capture point from the border of the reachable area [m]; negative outside."""
    c, s, velocity, omega = math.cos(motion.yaw), math.sin(motion.yaw), motion.velocity, body.natural_frequency
    forward = c * velocity[0] + s * velocity[1] - path.velocity[0]
    leftward = c * velocity[1] - s * velocity[0] - path.velocity[1]
    x, y = max(abs(forward) / omega - d.hip_x, 0.0), max(abs(leftward) / omega - d.hip_y, 0.0)
    return d.radius - math.sqrt(x * x + y * y)


@compiled()
def predict_tilt(body: BodyParameters, motion: Motion) -> float:
    """Returns the tilt of the trunk after the prediction time at its present rate [rad]; 0 if it is hardly tilted.

    The tilt is that against gravity, which makes a robot fall, since the plane of the feet tilts with the robot.
    """
    up = trunk_up(motion)
    cosine = max(min(up[2], 1.0), -1.0)
    if cosine >= math.cos(MIN_PREDICTED_TILT):
        return 0.0
    # rate of the angle between trunk and vertical: (w x up)_z = -sin(angle) d/dt angle
    cosine_rate: float = cross(motion.angular_velocity, up)[2]
    angle = math.acos(cosine)
    return angle - cosine_rate / max(math.sin(angle), 1e-12) * TILT_PREDICTION_TIME * body.time_scale


@compiled()
def predict_rest_height(body: BodyParameters, motion: Motion, ground: GroundState, desired_rate: float) -> float:
    """Returns the height over the ground at which the legs can stop the center of mass [m]; inf if it does not sink.

    Args:
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
        desired_rate: commanded rate of the height [m/s].
    """
    velocity = motion.velocity
    ground_rate = ground.slope[0] * velocity[0] + ground.slope[1] * velocity[1]
    sinking: float = min(desired_rate, 0.0) + ground_rate - velocity[2]
    if sinking <= 0.0:
        return math.inf
    return com_height(body, motion, ground) - 0.5 * sinking * sinking / (STOPPING_ACCELERATION * body.gravity)


@compiled()
def has_lasted(d: FallDetectorState, sign: FallSign, is_present: bool, min_duration: float) -> bool:
    """Updates the time for which a sign has been present, and returns whether that is more than a minimum [s]."""
    duration = d.durations[sign] + d.dt if is_present else 0.0
    d.durations[sign] = duration
    return duration > min_duration


@entry("detection of falls")
def update_fall_detection(
    d: FallDetectorState,
    body: BodyParameters,
    motion: Motion,
    ground: GroundState,
    path: PathState,
    is_upright: bool,
    desired_height: float,
    desired_rate: float,
) -> FallSign:
    """Updates the detector by one tick and returns the reason for a fall that has happened, or else a predicted one.

    Args:
        d: state of the detector.
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
        path: path reference.
        is_upright: whether the trunk is at its commanded height in the present mode, so that a fall is predicted.
        desired_height: commanded height of the center of mass over the ground, at least [m]; 0: it may be any.
        desired_rate: its rate [m/s].
    """
    min_height = FALLEN_HEIGHT * desired_height
    is_low = desired_height > 0.0 and com_height(body, motion, ground) < min_height
    is_beyond_reach = is_upright and capture_margin(d, body, motion, path) < -CAPTURE_POINT_MARGIN * body.length
    is_tipping = is_upright and predict_tilt(body, motion) > MAX_PREDICTED_TILT
    is_sinking = is_upright and predict_rest_height(body, motion, ground, desired_rate) < min_height
    min_duration, sign = MIN_PREDICTION_DURATION * body.time_scale, FallSign.NONE
    if has_lasted(d, FallSign.TRUNK_SINKING, is_sinking, min_duration):
        sign = FallSign.TRUNK_SINKING
    if has_lasted(d, FallSign.TRUNK_TIPPING, is_tipping, min_duration):
        sign = FallSign.TRUNK_TIPPING
    if has_lasted(d, FallSign.BEYOND_REACH, is_beyond_reach, min_duration):
        sign = FallSign.BEYOND_REACH
    if has_lasted(d, FallSign.TRUNK_LOW, is_low, MIN_LOW_DURATION * body.time_scale):
        sign = FallSign.TRUNK_LOW
    tilt_cosine: float = trunk_up(motion) @ plane_normal(ground)
    return FallSign.TRUNK_TILTED if tilt_cosine < FALLEN_TILT else sign


def make_fall_detector(morphology: Morphology, dt: float) -> FallDetectorState:
    """Creates the state of a detector.

    Args:
        morphology: lengths and units of the robot.
        dt: control period [s].
    """
    p = morphology
    hip_height = p.height + float(p.hips[:, 2].mean())
    hip_x, hip_y = (float(abs(p.hips[:, i]).max()) for i in (0, 1))
    radius = math.sqrt(max(p.length**2 - hip_height**2, 0.0))
    state = FallDetectorState.allocate(durations=len(FallSign))
    state.dt, state.radius, state.hip_x, state.hip_y = dt, radius, hip_x, hip_y
    return state
