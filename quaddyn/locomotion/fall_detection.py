"""Compiled detection of falls, also before the trunk reaches the ground."""

import enum
import math
from types import MappingProxyType

from ..compiler import Record, compiled, cross, entry
from .ground_plane import GroundState, plane_height, plane_normal
from .morphology import BodyParameters, Morphology
from .motion import Motion, trunk_up
from .path_reference import PathState

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
    """Parameters of the detector, and the time for which a fall has been predicted.

    Falls are detected relative to the commanded height and the plane of the feet.

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
    """

    dt: float  # control period [s]
    radius: float  # horizontal distance from the hip within which a foot can be put down [m]
    hip_x: float  # half length of the rectangle of the hips [m]
    hip_y: float  # half width [m]
    duration: float  # time for which a fall has been predicted [s]
    sign: FallSign  # reason of a fall that was detected at the last tick, or of the present one after a fall


@compiled()
def tilt_cosine(motion: Motion, ground: GroundState) -> float:
    """Returns the cosine of the angle between the trunk's upward axis and the normal of the ground."""
    cosine: float = trunk_up(motion) @ plane_normal(ground)
    return cosine


@compiled()
def com_height(motion: Motion, ground: GroundState) -> float:
    """Returns the height of the center of mass over the plane of the feet [m]."""
    com = motion.com
    height: float = com[2] - plane_height(ground, com[0], com[1])
    return height


@entry("detection of falls")
def is_trunk_on_ground(motion: Motion, ground: GroundState, is_upright: bool, desired_height: float) -> FallSign:
    """Returns whether the trunk is on the ground or tilted beyond recovery, as the reason, else `FallSign.NONE`.

    Args:
        motion: present motion.
        ground: plane of the feet.
        is_upright: whether the trunk is at its commanded height in the present mode, so that its height is checked.
        desired_height: commanded height of the center of mass over the ground [m].
    """
    if is_upright and com_height(motion, ground) < FALLEN_HEIGHT * desired_height:
        return FallSign.TRUNK_LOW
    return FallSign.TRUNK_TILTED if tilt_cosine(motion, ground) < FALLEN_TILT else FallSign.NONE


@entry("detection of falls")
def capture_margin(d: FallDetectorState, body: BodyParameters, motion: Motion, path: PathState) -> float:
    """Returns the distance of the capture point from the border of the reachable area [m]; negative outside."""
    c, s, velocity, omega = math.cos(motion.yaw), math.sin(motion.yaw), motion.velocity, body.natural_frequency
    forward = c * velocity[0] + s * velocity[1] - path.velocity[0]
    leftward = c * velocity[1] - s * velocity[0] - path.velocity[1]
    x, y = max(abs(forward) / omega - d.hip_x, 0.0), max(abs(leftward) / omega - d.hip_y, 0.0)
    return d.radius - math.sqrt(x * x + y * y)


@compiled()
def predict_tilt(body: BodyParameters, motion: Motion, ground: GroundState) -> float:
    """Returns the tilt of the trunk after the prediction time at its present rate [rad]; 0 if it is hardly tilted."""
    cosine = min(tilt_cosine(motion, ground), 1.0)
    if cosine >= math.cos(MIN_PREDICTED_TILT):
        return 0.0
    # rate of the angle between trunk and normal: (w x up) . normal = -sin(angle) d/dt angle
    cosine_rate: float = cross(motion.angular_velocity, trunk_up(motion)) @ plane_normal(ground)
    angle = math.acos(max(cosine, -1.0))
    return angle - cosine_rate / math.sin(angle) * TILT_PREDICTION_TIME * body.time_scale


@compiled()
def predict_rest_height(body: BodyParameters, motion: Motion, ground: GroundState, desired_rate: float) -> float:
    """Returns the height over the ground at which the legs can stop the center of mass, if it sinks [m].

    Args:
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
        desired_rate: commanded rate of the height [m/s].
    """
    velocity = motion.velocity
    ground_rate = ground.slope[0] * velocity[0] + ground.slope[1] * velocity[1]
    sinking: float = max(desired_rate + ground_rate - velocity[2], 0.0)
    return com_height(motion, ground) - 0.5 * sinking * sinking / (STOPPING_ACCELERATION * body.gravity)


@entry("detection of falls")
def detect_fall(
    d: FallDetectorState,
    body: BodyParameters,
    motion: Motion,
    ground: GroundState,
    path: PathState,
    desired_height: float,
    desired_rate: float,
) -> FallSign:
    """Updates the detector by one tick and returns the reason for a fall that has been predicted for long enough.

    Args:
        d: state of the detector.
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
        path: path reference.
        desired_height: commanded height of the center of mass over the ground [m].
        desired_rate: its rate [m/s].
    """
    sign = FallSign.NONE
    if capture_margin(d, body, motion, path) < -CAPTURE_POINT_MARGIN * body.length:
        sign = FallSign.BEYOND_REACH
    elif predict_tilt(body, motion, ground) > MAX_PREDICTED_TILT:
        sign = FallSign.TRUNK_TIPPING
    elif predict_rest_height(body, motion, ground, desired_rate) < FALLEN_HEIGHT * desired_height:
        sign = FallSign.TRUNK_SINKING
    d.duration = d.duration + d.dt if sign != FallSign.NONE else 0.0
    return sign if d.duration > MIN_FALL_DURATION * body.time_scale else FallSign.NONE


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
    """Updates the detector by one tick; returns the reason for a fall that has happened, or else for a predicted one.

    A fall is predicted only where the trunk is at its commanded height.

    Args:
        d: state of the detector.
        body: parameters of the robot.
        motion: present motion.
        ground: plane of the feet.
        path: path reference.
        is_upright: whether the trunk is at its commanded height in the present mode.
        desired_height: commanded height of the center of mass over the ground [m].
        desired_rate: its rate [m/s].
    """
    sign: FallSign = is_trunk_on_ground(motion, ground, is_upright, desired_height)
    if sign != FallSign.NONE:
        return sign
    if is_upright:
        sign = detect_fall(d, body, motion, ground, path, desired_height, desired_rate)
    else:
        d.duration = 0.0
    return sign


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
    state = FallDetectorState.allocate()
    state.dt, state.radius, state.hip_x, state.hip_y = dt, radius, hip_x, hip_y
    return state
