"""Control of legs and trunk from the loss of the ground to a stance, compiled.

*In the air* the center of mass moves on a parabola, whatever the legs do.  The feet are held at their home positions
under a level heading frame, however the trunk is tilted, so that all reach flat ground at once; for a drifting robot
they are moved by ``v / omega``, to the point above which it comes to rest (the capture point of Pratt et al. 2006).
*After the first touchdown*, feet in contact carry the load; the others are lowered until they are in contact, too, or
until their legs are at full length; then the trunk is lowered for them, down to the minimum height.  A foot that finds
no ground there stays where it is, and the robot stands on three.  The center of mass is stopped along a minimum-jerk
path that starts with its present height and speed, and the trunk is leveled; with every further foot the path starts
again, since one foot alone can neither stop nor rotate the robot as desired.  It does not start again if a foot loses
contact and regains it.
"""

import math

from ..compiler import IntVector, Matrix, Record, Tensor, Vec3, Vector, compiled, entry, local, vec3
from ..estimation.contact_forces import compute_contact_jacobian
from ..estimation.momentum_observer import compute_momentum_and_drive, reset_residual
from ..estimation.touchdown_detector import raise_thresholds, reset_triggers, update_trigger
from ..wbc.tasks.motion_parameters import motion_parameters
from .com_preview import update_com_reference
from .contact_estimation import (
    begin_flight,
    count_contacts,
    fit_forces,
    is_in_free_fall,
    reset_contact_estimate,
    reset_ground_contact,
)
from .friction_model import adapt_friction, set_normals
from .gait import restart_gait
from .ground_plane import advance_slope
from .morphology import BodyParameters
from .motion import Motion
from .trunk_controller import (
    FLIGHT_BASE_FRACTION,
    is_trunk_moving,
    lower_trunk,
    set_base_weight,
    start_trunk_motion,
    start_trunk_stop,
    update_trunk_references,
    write_motion_reference,
    write_task_references,
)
from .walk_start import place_path_reference, set_ground_points
from .walking import RISING_TIME, SLOPE_TIME, WalkData

#: Height of the center of mass over the feet in the air, as a fraction of that at home, and offset of the feet in the
#: direction of motion, as a fraction of the capture point's.
READY_HEIGHT, CAPTURE_POINT_FRACTION = 1.0, 1.0
#: Maximum offset of the feet from their nominal position under the body [l].
MAX_LANDING_FOOT_OFFSET = 0.3
#: Weight of the task "com" until the feet in contact can stop the fall (`can_stop_fall`): attitude then has priority.
LOW_COM_WEIGHT = 1e-3
#: Initial depth of the other feet below those in contact, see `lower_foot` [l].
SEARCH_DEPTH = 0.03
#: Stopping distance of a fall [l], and minimum height of the center of mass, as a fraction of that at home.
STOPPING_DISTANCE, MIN_STOPPING_HEIGHT = 0.22, 0.55
#: Time for which enough feet must be in contact before the robot rises [sqrt(l/g)].
SETTLED_TIME = 0.15
#: Speed at which a foot without contact is lowered, and speed of the trunk if the leg is at its full length [sqrt(g
#: l)]; usable fraction of that length.
SEARCH_SPEED, LOWERING_SPEED, USABLE_REACH_FRACTION = 0.3, 0.15, 0.97
#: Upward displacement of a foot from its reference beyond which more than the force of a lift-off is a contact [l].
PRESSED_FOOT_DISPLACEMENT = 0.05
#: Time without contact from which the search of a foot delays the rise of the trunk [sqrt(l/g)].
CONTACT_LOSS_TOLERANCE = 0.05


class LandingState(Record):
    """State of a landing, and the references of the feet."""

    reach: Vector  # (4,) maximum distance of a foot from its leg's first joint [m]
    depth: Vector  # (4,) below the level of the feet in contact: measured in contact; else beyond `SEARCH_DEPTH` [m]
    time_without_contact: Vector  # (4,) since the last contact of each foot [s]
    has_touched: IntVector  # (4,) whether a foot was in contact since the robot was last in the air
    settled_time: float  # for which enough feet have been in contact [s]
    stopping_distance: float  # nominal vertical distance over which the fall is stopped [m]
    is_com_weight_changed: bool  # whether the weight of the task "com" is not that of a robot on the ground
    com_weight: Vector  # (3,) saved weight of a robot on the ground
    in_contact: IntVector  # (4,) whether a foot is in contact at the present tick
    positions: Matrix  # (4, 3) references of the feet, world [m]
    velocities: Matrix  # (4, 3) [m/s]
    acceleration: Vec3  # of all feet [m/s^2]
    is_active: bool  # whether the present tick is one of the landing
    is_jump: bool  # whether a jump sets the references of the feet until touchdown
    jump_yaw: float  # yaw angle of the trunk at the end of the jump [rad]


@compiled()
def com_task_weight(com: Vector) -> Vector:
    """Returns a writable view of the weight (rows,) of the task "com" with parameters `com` (1 + 7 rows,)."""
    return motion_parameters(com, (len(com) - 1) // 7).weight


@compiled()
def clear_contacts(landing: LandingState) -> None:
    """Clears the contact history of all feet."""
    for foot in range(4):
        landing.has_touched[foot] = 0
        landing.depth[foot] = 0.0
        landing.time_without_contact[foot] = 0.0


@compiled()
def can_stop_fall(in_contact: IntVector) -> bool:
    """Returns whether feet can stop a fall without tipping the trunk: three feet, or a diagonal pair."""
    count = count_contacts(in_contact)
    return count > 2 or (count == 2 and in_contact[0] == in_contact[3])


# -- in the air ------------------------------------------------------------------------------------------------------
@entry("landing")
def begin_landing(landing: LandingState, w: WalkData, distance: float) -> None:
    """Starts a landing, after the loss of the ground.

    Args:
        landing: state of the landing.
        w: records of the controller.
        distance: lower bound of the nominal stopping distance of the fall [m].
    """
    begin_flight(w.ground_contact)
    gait = w.gait_limits.timing
    restart_gait(w.gait, gait if gait.has_swing_phase else w.gait.trot, w.parameters.lead_phase)
    reset_contact_estimate(w.contacts)
    raise_thresholds(w.contacts.trigger, 0.0)
    landing.stopping_distance = max(distance, STOPPING_DISTANCE * w.body.length)
    landing.settled_time = 0.0
    clear_contacts(landing)
    if not landing.is_com_weight_changed:
        weight = com_task_weight(w.tasks.com)
        for i in range(len(weight)):
            landing.com_weight[i] = weight[i]
        landing.is_com_weight_changed = True


@entry("landing")
def restore_com_weight(landing: LandingState, com: Vector) -> None:
    """Restores the weight of the task "com", with parameters `com`, when the robot stands or has fallen."""
    if landing.is_com_weight_changed:
        weight = com_task_weight(com)
        for i in range(len(weight)):
            weight[i] = landing.com_weight[i]
        landing.is_com_weight_changed = False


@entry("landing")
def compute_ready_positions(body: BodyParameters, motion: Motion, positions: Matrix) -> None:
    """Computes the positions (4, 3) of the feet in the air, world [m]."""
    omega, yaw, com = body.natural_frequency, motion.yaw, motion.com
    c, s = math.cos(yaw), math.sin(yaw)
    x = CAPTURE_POINT_FRACTION / omega * motion.velocity[0]
    y = CAPTURE_POINT_FRACTION / omega * motion.velocity[1]
    scale = min(1.0, MAX_LANDING_FOOT_OFFSET * body.length / max(math.sqrt(x * x + y * y), 1e-12))
    for foot in range(4):
        forward, left = body.nominal_stance[foot, 0], body.nominal_stance[foot, 1]
        positions[foot, 0] = c * forward - s * left + com[0] + x * scale
        positions[foot, 1] = s * forward + c * left + com[1] + y * scale
        positions[foot, 2] = com[2] - READY_HEIGHT * body.height + body.radii[foot]


@entry("landing")
def prepare_landing(landing: LandingState, w: WalkData) -> None:
    """Clears the contacts, sets the acceleration of the feet to gravity, and reduces the weight of the attitude."""
    clear_contacts(landing)
    set_base_weight(w.trunk, w.tasks.base, FLIGHT_BASE_FRACTION)
    landing.acceleration = vec3(0.0, 0.0, -w.body.gravity)


@entry("landing")
def extend_legs(landing: LandingState, w: WalkData) -> None:
    """Sets the references of one tick in the air."""
    compute_ready_positions(w.body, w.motion, landing.positions)
    for foot in range(4):
        landing.velocities[foot] = w.motion.velocity
    prepare_landing(landing, w)


# -- touchdowns ------------------------------------------------------------------------------------------------------
@compiled()
def is_pressed(landing: LandingState, w: WalkData, foot: int) -> bool:
    """Returns whether the ground has pushed a foot up from its reference, with more than the force of a lift-off.

    A light leg does not press harder on the ground before it carries load.  A foot in contact has its measured position
    as reference, and remains in contact.
    """
    displacement: float = w.motion.feet[foot, 2] - landing.positions[foot, 2]
    was_pushed_up = landing.in_contact[foot] != 0 or displacement > PRESSED_FOOT_DISPLACEMENT * w.body.length
    return was_pushed_up and w.contacts.forces[foot, 2] > w.contacts.trigger.liftoff_threshold


@entry("landing")
def detect_touchdowns(
    landing: LandingState,
    w: WalkData,
    columns: Matrix,
    joint_placements: Tensor,
    M: Matrix,
    v: Vector,
    tau: Vector,
) -> int:
    """Detects the feet in contact, with foot sensors or from the estimated contact forces; returns their number.

    In free fall, the estimated contact forces are ignored: they are errors of the estimate.

    Args:
        landing: state of the landing.
        w: records of the controller.
        columns: (nv, 6) columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: (joints, 4, 3) placements of the joints, see `State.kinematic_arrays`.
        M: (nv, nv) inertia; only its lower triangle is read.
        v: (nv,) velocity.
        tau: (nu,) torques since the last tick [N m].
    """
    e, m = w.contacts, w.contact_model
    if w.contact_inputs.has_sensors:
        # The estimate starts again from these contacts if the sensors are lost.
        is_in_free_fall(w.ground_contact, w.body, w.motion.velocity[2])
        reset_residual(e.observer)
        e.trigger.in_contact[:] = w.contact_inputs.is_touching
        landing.in_contact[:] = w.contact_inputs.is_touching
        return count_contacts(landing.in_contact)
    if not w.parameters.has_coupled_joints:
        compute_momentum_and_drive(m.bodies, columns, joint_placements, v, e.observer.current[0], e.observer.current[1])
        compute_contact_jacobian(m.feet, m.work, m.is_active, columns, joint_placements)
    fit_forces(m, e, M, v, tau)
    e.time += m.dt
    is_falling = is_in_free_fall(w.ground_contact, w.body, w.motion.velocity[2])
    if is_falling:
        reset_triggers(e.trigger)
    else:
        for foot in range(4):
            update_trigger(e.trigger, foot, e.time, e.forces[foot, 2])
    for foot in range(4):
        has_contact = e.trigger.in_contact[foot] != 0 or (not is_falling and is_pressed(landing, w, foot))
        landing.in_contact[foot] = int(has_contact)
    return count_contacts(landing.in_contact)


# -- on the feet -----------------------------------------------------------------------------------------------------
@entry("landing")
def begin_stop(w: WalkData, yaw: float) -> None:
    """Sets the plane of the feet to z = 0, and the path reference to their center with a yaw angle [rad]."""
    feet, points = w.motion.feet, local(4, 3)
    for foot in range(4):
        points[foot] = vec3(feet[foot, 0], feet[foot, 1], 0.0)
    set_ground_points(w.ground, points)
    place_path_reference(w.path, points, yaw)


@compiled()
def compute_search_depth(landing: LandingState, w: WalkData, foot: int, level: float) -> float:
    """Returns how far a leg reaches below `SEARCH_DEPTH`, with a level trunk at its reference [m]."""
    c, s = math.cos(w.path.yaw), math.sin(w.path.yaw)
    com, feet, hip = w.motion.com, w.motion.feet, vec3(w.body.hips[foot])
    x = com[0] + c * hip[0] - s * hip[1] - feet[foot, 0]
    y = com[1] + s * hip[0] + c * hip[1] - feet[foot, 1]
    usable_reach = USABLE_REACH_FRACTION * landing.reach[foot]
    lowest = com[2] + hip[2] - math.sqrt(max(usable_reach * usable_reach - x * x - y * y, 0.0))
    return float(level + w.body.radii[foot] - SEARCH_DEPTH * w.body.length - lowest)


@compiled()
def lower_foot(landing: LandingState, w: WalkData, foot: int, level: float) -> bool:
    """Lowers a foot without contact by one tick, or the trunk for it; returns whether the search for ground goes on."""
    body, dt = w.body, w.parameters.dt
    max_depth = compute_search_depth(landing, w, foot, level)
    speed = SEARCH_SPEED * body.speed_scale if landing.depth[foot] < max_depth else 0.0
    landing.depth[foot] = min(landing.depth[foot] + speed * dt, max(max_depth, 0.0))
    z = level + body.radii[foot] - SEARCH_DEPTH * body.length - landing.depth[foot]
    landing.positions[foot] = vec3(w.motion.feet[foot, 0], w.motion.feet[foot, 1], z)
    landing.velocities[foot] = vec3(0.0, 0.0, -speed)
    is_lowered = False
    if speed == 0.0 and not is_trunk_moving(w.trunk):
        is_lowered = lower_trunk(w.trunk, LOWERING_SPEED * body.speed_scale, MIN_STOPPING_HEIGHT * body.height, dt)
    is_lost = landing.time_without_contact[foot] > CONTACT_LOSS_TOLERANCE * body.time_scale
    return is_lost and (speed > 0.0 or is_lowered)


@compiled()
def mark_new_contacts(landing: LandingState) -> int:
    """Marks the feet in contact for the first time since the robot was in the air, and returns their number."""
    count = 0
    for foot in range(4):
        if landing.in_contact[foot] != 0 and landing.has_touched[foot] == 0:
            landing.has_touched[foot] = 1
            count += 1
    return count


@entry("landing")
def stop_fall(landing: LandingState, w: WalkData) -> None:
    """Sets ground and feet for one tick with at least one foot in contact."""
    body, dt, feet, ground, trunk = w.body, w.parameters.dt, w.motion.feet, w.ground, w.trunk
    total, contacts = 0.0, count_contacts(landing.in_contact)
    for foot in range(4):
        if landing.in_contact[foot] != 0:
            total += feet[foot, 2] - body.radii[foot]
    level = total / contacts
    for foot in range(4):
        ground.points[foot] = vec3(feet[foot, 0], feet[foot, 1], level)
    weight = com_task_weight(w.tasks.com)
    for i in range(len(weight)):
        weight[i] = landing.com_weight[i] if can_stop_fall(landing.in_contact) else LOW_COM_WEIGHT
    if mark_new_contacts(landing) > 0:
        for i in range(2):
            w.path.position[i] = 0.25 * (feet[0, i] + feet[1, i] + feet[2, i] + feet[3, i])
        min_height = MIN_STOPPING_HEIGHT * body.height
        start_trunk_stop(
            trunk, body, w.motion.com[2] - level, w.motion.velocity[2], landing.stopping_distance, min_height
        )
    landing.acceleration = vec3(0.0, 0.0, 0.0)
    is_searching = False
    for foot in range(4):
        landing.time_without_contact[foot] += dt
        if landing.in_contact[foot] != 0:
            landing.time_without_contact[foot] = 0.0
            landing.depth[foot] = max(level - (feet[foot, 2] - body.radii[foot]), 0.0)
            landing.positions[foot] = vec3(feet[foot])
            landing.velocities[foot] = vec3(0.0, 0.0, 0.0)
        elif lower_foot(landing, w, foot, level):
            is_searching = True
    if contacts > 2 and not is_trunk_moving(trunk) and not is_searching:
        landing.settled_time += dt
    else:
        landing.settled_time = max(landing.settled_time - dt, 0.0)
    advance_slope(ground, min(1.0, dt / (SLOPE_TIME * body.time_scale)))


@compiled()
def is_fall_stopped(landing: LandingState, body: BodyParameters) -> bool:
    """Returns whether enough feet have been in contact for long enough that the robot may rise."""
    return landing.settled_time >= SETTLED_TIME * body.time_scale


@entry("landing")
def balance_landing(landing: LandingState, w: WalkData, is_stopped: bool) -> None:
    """Sets the references of the trunk after `stop_fall`, and ends a landing whose fall is stopped.

    Args:
        landing: state of the landing.
        w: records of the controller, with the normals of the ground in `WalkData.contact_inputs`.
        is_stopped: whether the robot may rise.
    """
    trunk, body, dt = w.trunk, w.body, w.parameters.dt
    if set_normals(w.friction, w.contact_inputs.normals):
        adapt_friction(w.friction)
    stance, points = body.nominal_stance, w.ground.points
    update_com_reference(w.preview, w.gait, w.path, stance, points, trunk.com_offset, w.reference)
    trunk.is_stepping_fast = False
    update_trunk_references(trunk, w.reference, w.path, w.ground, body, w.motion, w.friction, dt)
    if w.parameters.writes_tasks:
        write_task_references(trunk, w.tasks.com, w.tasks.base, w.tasks.forces)
    if is_stopped:
        reset_ground_contact(w.ground_contact)
        reset_contact_estimate(w.contacts)
        restore_com_weight(landing, w.tasks.com)
        start_trunk_motion(trunk, body.height, 0.0, 0.0, RISING_TIME * body.time_scale)


@compiled()
def write_landing_reference(landing: LandingState, foot: int, task: Vector) -> None:
    """Writes the reference of a foot to its task."""
    position = write_motion_reference(task, vec3(landing.velocities[foot]), landing.acceleration)
    position[0:3] = vec3(landing.positions[foot])


@entry("landing")
def write_landing_references(landing: LandingState, w: WalkData) -> None:
    """Writes the references of the feet to their tasks."""
    write_landing_reference(landing, 0, w.tasks.fl)
    write_landing_reference(landing, 1, w.tasks.fr)
    write_landing_reference(landing, 2, w.tasks.rl)
    write_landing_reference(landing, 3, w.tasks.rr)


def make_landing_state(reach: Vector) -> LandingState:
    """Returns the state of a robot on the ground.

    Args:
        reach: (4,) maximum distance of a foot from its leg's first joint [m], see `measure_leg_lengths`.
    """
    state = LandingState.allocate(
        **dict.fromkeys(("reach", "depth", "time_without_contact", "has_touched", "in_contact"), 4),
        com_weight=3,
        positions=(4, 3),
        velocities=(4, 3),
    )
    state.reach[:] = reach
    return state
