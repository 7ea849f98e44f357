"""Compiled start of a robot on the ground: plane of the feet, path reference, trunk and mode at the first tick."""

import math

from ..compiler import IntVector, Matrix, compiled, entry, vec3
from .contact_estimation import (
    MIN_STANCE_FEET,
    count_contacts,
    is_coplanar,
    reset_contact_estimate,
    reset_ground_contact,
)
from .footwork import FootworkState
from .gait import restart_gait
from .ground_plane import GroundState, compute_heading_axes, plane_height, plane_normal, set_slope
from .modes import MAX_STANDING_FRACTION, ModeCode, is_dcm_near_edge
from .path_reference import PathState
from .progress_monitor import reset_progress
from .steering import reset_steering
from .trunk_controller import reset_trunk, set_base_weight, slope_lowering, start_trunk_motion
from .walking import RISING_TIME, WalkData

#: Initial height of the center of mass, as a fraction of that at home, and its offset from the center of the feet [l],
#: within which the robot need not first move to its nominal height and position.
MIN_STANDING_HEIGHT, MAX_STANDING_HEIGHT, MAX_STANDING_OFFSET = 0.95, 1.02, 0.1


@compiled()
def set_ground_points(ground: GroundState, points: Matrix) -> None:
    """Sets the plane of the feet to the plane through four points (4, 3), world [m], on unknown terrain."""
    ground.points[:] = points
    ground.has_next_foothold[:] = 0
    ground.follows_map = False
    ground.slope_rate[:] = 0.0
    ground.climb_rate, ground.lowering = 0.0, 0.0
    set_slope(ground)


@compiled()
def place_ground_under_feet(w: WalkData) -> None:
    """Sets the plane of the feet to the plane under the foot spheres.

    It is parallel to the plane through their centers, which is that of the ground if the radii are equal.
    """
    set_ground_points(w.ground, w.motion.feet)
    normal = plane_normal(w.ground)
    for foot in range(4):
        w.ground.points[foot] = vec3(w.motion.feet[foot]) - normal * w.body.radii[foot]


@compiled()
def place_path_reference(path: PathState, points: Matrix, yaw: float) -> None:
    """Sets the path reference to the center of four points (4, 3), world [m], at rest with a yaw angle [rad]."""
    for i in range(2):
        path.position[i] = 0.25 * (points[0, i] + points[1, i] + points[2, i] + points[3, i])
    path.yaw = yaw
    path.velocity[:] = 0.0


@compiled()
def place_trunk(w: WalkData, lowering_fraction: float) -> bool:
    """Starts the motion of the center of mass from its measured height and offset to the nominal ones.

    Small deviations are ignored.

    Args:
        w: records of the controller; the trunk is written.
        lowering_fraction: lowering on slopes, divided by leg length and sine of the slope's angle.

    Returns:
        Whether the center of mass is below its nominal height, or beside the center of the feet.
    """
    body, com, trunk = w.body, w.motion.com, w.trunk
    axes = compute_heading_axes(w.path.yaw, w.ground.slope[0], w.ground.slope[1])
    lowering = slope_lowering(body.length, axes[2, 2], lowering_fraction)
    height = com[2] - plane_height(w.ground, com[0], com[1]) + lowering
    x, y = com[0] - w.path.position[0], com[1] - w.path.position[1]
    if MIN_STANDING_HEIGHT * body.height <= height and height <= MAX_STANDING_HEIGHT * body.height:
        height = body.height
    is_beside = math.sqrt(x * x + y * y) > MAX_STANDING_OFFSET * body.length
    is_beside = is_beside and not is_dcm_near_edge(x, y, w.motion.feet, MAX_STANDING_FRACTION)
    reset_trunk(trunk, height)
    if is_beside:
        trunk.com_offset[0, 0], trunk.com_offset[1, 0] = x, y
    if height != body.height or is_beside:
        start_trunk_motion(trunk, body.height, 0.0, 0.0, RISING_TIME * body.time_scale)
    return height < body.height or is_beside


@entry("walking")
def begin_walk(w: WalkData, initial_footwork: FootworkState, lowering_fraction: float) -> ModeCode:
    """Initializes the records of a robot whose feet are on the ground.

    Args:
        w: records of the controller; the gait is that of `WalkData.gait_limits`.
        initial_footwork: footwork of a robot that has not moved.
        lowering_fraction: lowering of the trunk on slopes, divided by leg length and sine of the slope's angle.

    Returns:
        `ModeCode.STANDING`, or `ModeCode.RISING` if the trunk must move to its nominal position first.
    """
    place_ground_under_feet(w)
    place_path_reference(w.path, w.ground.points, w.motion.yaw)
    gait = w.gait_limits.timing
    restart_gait(w.gait, gait if gait.has_swing_phase else w.gait.trot, w.parameters.lead_phase)
    w.footwork.copy_from(initial_footwork)
    set_base_weight(w.trunk, w.tasks.base, 1.0)
    for i in range(2):
        w.balance.velocity[i] = w.motion.velocity[i]
    reset_steering(w.steering)
    reset_progress(w.progress)
    reset_contact_estimate(w.contacts)
    reset_ground_contact(w.ground_contact)
    return ModeCode.RISING if place_trunk(w, lowering_fraction) else ModeCode.STANDING


@compiled()
def is_in_the_air(w: WalkData) -> bool:
    """Returns whether the feet are far from a common plane, so that the robot cannot stand."""
    return not is_coplanar(w.body, w.motion.feet)


@compiled()
def choose_initial_mode(mode: ModeCode, contacts: IntVector, is_measured: bool) -> ModeCode:
    """Returns the mode of a robot at its first tick, on unknown terrain: "starting" until the ground carries it.

    Foot sensors may not have been read yet at that tick.

    Args:
        mode: result of `begin_walk`.
        contacts: (4,) whether each foot is in contact.
        is_measured: whether `contacts` are measured by foot sensors; they are ignored otherwise.
    """
    if mode == ModeCode.STANDING and not (is_measured and count_contacts(contacts) >= MIN_STANCE_FEET):
        return ModeCode.STARTING
    return mode
