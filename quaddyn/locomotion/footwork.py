"""`Footwork`: contact states of the feet, swing trajectories, and the next footholds."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compiler import IntVector, Matrix, Record, Vec3, Vector, compiled, entry, norm, vec3
from ..urdf.tree import Array
from ..wbc.tasks.motion_parameters import motion_parameters, set_has_reference
from ..wbc.tasks.single_frame_task import FootTask
from .foothold import DESCENT_BEGUN, PLACED_BEFORE_OBSTACLE, FootholdSelection
from .foothold_map import FootholdMap, TerrainWindow
from .gait import (
    GaitScheduler,
    GaitState,
    compute_contact_state,
    compute_period,
    compute_time_to_mid_stance,
)
from .ground_plane import GroundPlane, GroundState, plane_height, plane_normal
from .leg_margins import StanceInterval
from .morphology import FEET, BodyParameters, Morphology, make_body_parameters
from .motion import CentroidalState, Motion
from .path_reference import PathReference, PathState, compute_foothold
from .state_fields import RecordSnapshot
from .stumble_reflex import (
    BLOCKED_SPEED_FRACTION,
    STUMBLE_SHAPES,
    FootContacts,
    StumbleState,
    add_touchdown,
    advance_stumble_reflex,
    allocate_foot_contacts,
    compute_extra_clearance,
    is_rough,
    leaves_foothold,
    set_swing_timing,
)
from .swing import (
    APEX_PHASE,
    EVEN_TERRAIN_TOLERANCE,
    TARGET_FREEZE_PHASE,
    UP_FIRST_TIMINGS,
    SwingStates,
    SwingTrajectory,
    advance_swing,
    begin_swing,
    find_next_swing,
    list_swings,
    set_target,
    swing_shapes,
)


@compiled()
def set_foot_reference(s: SwingStates, feet: Matrix, foot: int, parameters: Vector) -> None:
    """Sets the reference of the task of a foot.

    Args:
        s: swings of the feet.
        feet: (4, 3) centers of the foot spheres, world [m].
        foot: index of the foot.
        parameters: parameters of the task, `FootTask.block`; position, velocity and acceleration are written.
    """
    p = motion_parameters(parameters, 3)
    set_has_reference(p, True)
    if s.is_swinging[foot] != 0:
        p.position[:] = s.position[foot]
        p.velocity[:] = s.velocity[foot]
        p.acceleration[:] = s.acceleration[foot]
    else:
        p.position[:] = feet[foot]
        p.velocity[:] = 0.0
        p.acceleration[:] = 0.0


@entry("references of the feet")
def set_foot_references(s: SwingStates, feet: Matrix, fl: Vector, fr: Vector, rl: Vector, rr: Vector) -> None:
    """Sets the references of the tasks of all feet; see `set_foot_reference`."""
    set_foot_reference(s, feet, 0, fl)
    set_foot_reference(s, feet, 1, fr)
    set_foot_reference(s, feet, 2, rl)
    set_foot_reference(s, feet, 3, rr)


#: Clearance of a swing [l], downward speed at touchdown [sqrt(g l)], and depth of the target below the ground [l].
NOMINAL_CLEARANCE, TOUCHDOWN_SPEED, TARGET_DEPTH = 0.15, 0.15, 0.01
#: Reduction of the clearance on a slope, divided by the sine of its angle [l], and minimum clearance [l]: motors of
#: heavy legs are near their limits there.
SLOPE_CLEARANCE_REDUCTION, MIN_CLEARANCE = 0.3, 0.06
#: Fraction of the swing above which a contact is a touchdown; before, it is a stumble.
TOUCHDOWN_PHASE = 0.6
#: Fraction of the swing above which the foot is far from level ground, until `TOUCHDOWN_PHASE`.
MID_SWING_START = 0.2
#: The same as `TOUCHDOWN_PHASE` for accelerated steps on even ground, where fast feet scrape, and height over the
#: ground, or over a foothold on a map, below which a foot whose swing has ended then counts as in contact [l].
FAST_TOUCHDOWN_PHASE, FAST_TOUCHDOWN_HEIGHT = 0.85, 0.03
#: Speed above which a foot is not in contact, and the same for the speed at which it moves away from the ground
#: [sqrt(g l)]: a foot that slides off an edge under load has both within milliseconds.
MAX_CONTACT_SPEED, MAX_SEPARATION_SPEED = 1.0, 0.5
#: Minimum distance by which the path of a late foot has moved on into the ground if the foot is blocked [l].
BLOCKED_FOOT_DEPTH = 0.02
#: The same for a foot that hardly moves [l]: the minimum contact force is then sufficient for a contact.
RESTING_FOOT_DEPTH = 0.06
#: Maximum time for which the gait waits for a late touchdown, as a fraction of the swing.
MAX_TOUCHDOWN_DELAY = 0.3
#: Maximum offset of a foothold from the nominal position under the body: forward or backward and outward [l], and
#: inward as a fraction of half the stance width.
MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET, MAX_INWARD_FRACTION = 0.5, 0.45, 0.65
#: Maximum shift of a foothold as a multiple of the present error, and additional fraction beyond the shift that keeps
#: the motion bounded, so that the robot returns to the path reference.
MAX_ERROR_GAIN, EXTRA_ERROR_GAIN = 1.0, 0.25


class SelectionReason(enum.IntEnum):
    """Reason for the selection of a foothold."""

    BY_COST = 0
    PLACED_BEFORE_OBSTACLE = 1
    DESCENT_BEGUN = 2


class SelectionStates(Record):
    """Last foothold selection of each swing foot, one row per foot; see `FootholdSelection`."""

    is_selected: IntVector  # (4,)
    is_on_map: IntVector  # (4,) whether a terrain map was used
    requested: Matrix  # (4, 2) for balance and path, before the limits of the leg, world [m]
    nominal: Matrix  # (4, 2) `requested` within the limits of the leg, world [m]
    position: Matrix  # (4, 3) selected foothold on the ground, world [m]
    normal: Matrix  # (4, 3) unit normal of the ground there
    reason: IntVector  # (4,) `SelectionReason`
    com_displacement: Matrix  # (4, 2) of the center of mass until touchdown, world x and y [m]
    com: Matrix  # (4, 3) center of mass [m]; this and the following: see `StanceInterval`
    velocity: Matrix  # (4, 2) [m/s]
    stance_time: Vector  # (4,) [s]
    slope: Matrix  # (4, 2)
    yaw: Vector  # (4,) [rad]


class FootholdRequest(Record):
    """Foothold that is being selected, and motion of the trunk during the stance of a foot that begins now."""

    requested: Vector  # (2,) for balance and path, before the limits of the leg, world [m]
    nominal: Vector  # (2,) `requested` within the limits of the leg, world [m]
    com_displacement: Vector  # (2,) of the center of mass until touchdown, world x and y [m]
    com: Vec3  # (3,) center of mass at its level-ground height over the plane of the feet, world [m]
    velocity: Vector  # (2,) forward and leftward, horizontal [m/s]
    stance_time: float  # [s]
    slope: Vector  # (2,) of the plane of the feet, along world x and y
    yaw: float  # of the path reference [rad]


class TerrainContacts(Record):
    """Ground under the feet according to a terrain map."""

    is_known: bool  # whether there is a map
    has_lift_direction: IntVector  # (4,)
    lift_direction: Matrix  # (4, 3) unit direction in which a foot that lifts off now is lifted
    is_ground_known: IntVector  # (4,) whether the ground under a foot that touches down now is known


class BalanceState(Record):
    """Balance of the robot at one tick, for which footholds are selected."""

    velocity: Vector  # (2,) filtered velocity of the center of mass, world x and y [m/s]
    error: Vector  # (2,) of the divergent component, world x and y [m]
    foothold_gain: float  # derivative of the divergent component with respect to a shift of all coming footholds
    stance: Matrix  # (4, 2) nominal positions of the feet about the path reference, heading axes [m]


class FootworkState(Record):
    """State of `Footwork`."""

    swings: SwingStates
    selections: SelectionStates
    stumble: StumbleState
    terrain: TerrainContacts
    request: FootholdRequest
    max_hip_distance: Vector  # (4,) of a foothold from the leg's first joint, horizontal [m]
    is_carrying: IntVector  # (4,) whether the foot is to carry load
    is_blind: IntVector  # (4,) whether the next foothold is, or was last, on unknown ground
    is_touchdown_late: bool  # whether a foot without contact should be in stance
    waiting_time: float  # for which a touchdown has been late [s]


@compiled()
def compute_swing_time(gait: GaitState) -> float:
    """Returns the duration of a swing [s]."""
    return (1.0 - gait.duty_factor) * compute_period(gait)


@entry("contacts and footholds")
def compute_nominal_clearance(ground: GroundState) -> float:
    """Returns the clearance of a swing over the straight line on the plane of the feet [l]."""
    n = plane_normal(ground)
    return max(NOMINAL_CLEARANCE - SLOPE_CLEARANCE_REDUCTION * math.sqrt(n[0] * n[0] + n[1] * n[1]), MIN_CLEARANCE)


@entry("contacts and footholds")
def is_waiting_for_touchdown(f: FootworkState, gait: GaitState) -> bool:
    """Returns whether the gait scheduler is to wait for a late touchdown."""
    return f.is_touchdown_late and f.waiting_time <= MAX_TOUCHDOWN_DELAY * compute_swing_time(gait)


@entry("contacts and footholds")
def is_mid_swing(f: FootworkState, foot: int) -> bool:
    """Returns whether a foot is in the middle of its swing, far from level ground."""
    if f.swings.is_swinging[foot] == 0:
        return False
    progress: float = f.swings.progress[foot]
    return progress > MID_SWING_START and progress < TOUCHDOWN_PHASE


@entry("contacts and footholds")
def is_blocked(f: FootworkState, body: BodyParameters, feet: Matrix, normals: Matrix, foot: int) -> bool:
    """Returns whether a late foot is blocked: its path has continued below the ground.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        feet: (4, 3) centers of the foot spheres, world [m].
        normals: (4, 3) unit normals of the ground under the feet, world.
        foot: index of the foot.
    """
    if f.swings.is_swinging[foot] == 0 or f.swings.progress[foot] <= 1.0:
        return False
    depth: float = (vec3(feet[foot]) - vec3(f.swings.position[foot])) @ vec3(normals[foot])
    return depth > BLOCKED_FOOT_DEPTH * body.length


@entry("contacts and footholds")
def is_at_rest(f: FootworkState, body: BodyParameters, motion: Motion, normals: Matrix, foot: int) -> bool:
    """Returns whether a late foot hardly moves although its path has continued far into the ground.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        motion: motion of the feet.
        normals: (4, 3) unit normals of the ground under the feet, world.
        foot: index of the foot.
    """
    if f.swings.is_swinging[foot] == 0 or f.swings.progress[foot] <= 1.0:
        return False
    normal = vec3(normals[foot])
    depth: float = (vec3(motion.feet[foot]) - vec3(f.swings.position[foot])) @ normal
    rate: float = vec3(motion.foot_velocities[foot]) @ normal
    path_rate: float = vec3(f.swings.velocity[foot]) @ normal
    return depth > RESTING_FOOT_DEPTH * body.length and rate > BLOCKED_SPEED_FRACTION * path_rate


@entry("contacts and footholds")
def is_too_fast(body: BodyParameters, motion: Motion, normals: Matrix, foot: int) -> bool:
    """Returns whether a foot is too fast to be in contact.

    Args:
        body: lengths and units of the robot.
        motion: motion of the feet.
        normals: (4, 3) unit normals of the ground under the feet, world.
        foot: index of the foot.
    """
    velocity = vec3(motion.foot_velocities[foot])
    is_lifted: bool = velocity @ vec3(normals[foot]) > MAX_SEPARATION_SPEED * body.speed_scale
    return is_lifted or norm(velocity) > MAX_CONTACT_SPEED * body.speed_scale


@entry("contacts and footholds")
def is_grounded(f: FootworkState, foot: int) -> bool:
    """Returns whether a foot carries load and has finished its swing."""
    found: bool = f.is_carrying[foot] != 0 and f.swings.is_swinging[foot] == 0
    return found


# -- contacts --------------------------------------------------------------------------------------------------------
@compiled()
def compute_contact_point(body: BodyParameters, feet: Matrix, normals: Matrix, foot: int) -> Vec3:
    """Returns the lowest point of a foot sphere along the normal of the ground (3,), world [m]."""
    return vec3(feet[foot]) - vec3(normals[foot]) * body.radii[foot]


@compiled()
def compute_height_over_plane(ground: GroundState, point: Vec3) -> float:
    """Returns the height of a point (3,) over the plane of the feet [m]."""
    height: float = point[2] - plane_height(ground, point[0], point[1])
    return height


@compiled(inline=False)
def lift_foot(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    ground: GroundState,
    foot: int,
    position: Vec3,
    direction: Vec3,
) -> None:
    """Begins the swing of a foot at its present position.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait.
        ground: plane of the feet.
        foot: index of the foot.
        position: (3,) center of the foot sphere, world [m].
        direction: (3,) unit direction in which the foot is lifted, world.
    """
    clearance = compute_nominal_clearance(ground) * body.length
    zero, speed = vec3(0.0, 0.0, 0.0), TOUCHDOWN_SPEED * body.speed_scale
    begin_swing(f.swings, foot, position, zero, direction, compute_swing_time(gait), clearance, speed)


@entry("contacts and footholds")
def update_contacts(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    ground: GroundState,
    feet: Matrix,
    normals: Matrix,
    contacts: FootContacts,
    dt: float,
) -> None:
    """Starts and ends swings by the gait schedule, unless a touchdown is early or late, and reacts to obstacles.

    After a push that accelerates the steps (`adapt_step_timing`) feet lag behind their paths.  On unknown ground that
    has been even, the schedule is then followed where it is nearly true: a foot whose swing has ended close to the
    ground carries load, which lowers it faster than its path, and a foot that scrapes the ground early continues its
    swing.  The same applies to a foot over a foothold of a terrain map.  If the model is wrong, the schedule is
    followed on even and on known ground as well; forces against the path of a foot still count as an obstacle.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait, already advanced by `dt`.
        ground: plane of the feet; receives the footholds of the stance feet.
        feet: (4, 3) centers of the foot spheres, world [m].
        normals: (4, 3) unit normals of the ground under the feet, world.
        contacts: measured or estimated contacts.
        dt: control period [s].
    """
    is_even = not is_rough(f.stumble)
    is_hurried = gait.rate_scale > 1.0 and is_even and not f.terrain.is_known
    follows_schedule = not contacts.is_detected or (contacts.is_unreliable and is_even)
    was_late = f.is_touchdown_late
    f.is_touchdown_late = False
    for foot in range(4):
        in_stance, is_loaded = compute_contact_state(gait, foot)
        is_on_map = f.terrain.is_known and f.is_blind[foot] == 0
        f.is_carrying[foot] = 0
        if f.swings.is_swinging[foot] != 0:
            has_contact = follows_schedule or contacts.in_contact[foot] != 0
            if in_stance:
                point = compute_contact_point(body, feet, normals, foot)
                height = compute_height_over_plane(ground, point)
                if is_on_map:
                    height = feet[foot, 2] - f.swings.target[foot, 2]
                is_near = height < FAST_TOUCHDOWN_HEIGHT * body.length
                if has_contact or ((is_hurried or is_on_map) and is_near):
                    touch_down(f, body, ground, foot, point, follows_schedule)
                    f.is_carrying[foot] = 1
                else:
                    wait_for_touchdown(f, ground, foot, point)
            elif has_contact and not follows_schedule and not is_on_map:
                # An early contact; on a map it is an edge beside the path of the foot.
                phase = FAST_TOUCHDOWN_PHASE if is_hurried else TOUCHDOWN_PHASE
                f.is_carrying[foot] = int(f.swings.progress[foot] > phase)
        elif in_stance:
            point, normal = compute_contact_point(body, feet, normals, foot), vec3(normals[foot])
            has_slid_off = contacts.is_too_fast[foot] != 0 and contacts.in_contact[foot] == 0 and not is_hurried
            if not follows_schedule and leaves_foothold(f.stumble, body, foot, point, normal, has_slid_off):
                # The foot is lowered where it is.
                lift_foot(f, body, gait, ground, foot, vec3(feet[foot]), normal)
                f.swings.progress[foot] = 1.0
                wait_for_touchdown(f, ground, foot, point)
            else:
                ground.points[foot] = point
                ground.has_next_foothold[foot] = 0
                # While a late foot has no contact, the other feet are not unloaded.
                f.is_carrying[foot] = int(is_loaded or was_late)
        elif f.terrain.is_known and f.terrain.has_lift_direction[foot] != 0:
            lift_foot(f, body, gait, ground, foot, vec3(feet[foot]), vec3(f.terrain.lift_direction[foot]))
        else:
            lift_foot(f, body, gait, ground, foot, vec3(feet[foot]), vec3(normals[foot]))
            set_swing_timing(f.stumble, f.swings, foot)
    for foot in range(4):
        f.stumble.is_monitored[foot] = int(may_stumble(f, body, contacts, foot))
    advance_stumble_reflex(f.stumble, f.swings, body, feet, contacts, compute_swing_time(gait), dt)
    f.waiting_time = f.waiting_time + dt if f.is_touchdown_late else 0.0


@compiled()
def touch_down(
    f: FootworkState, body: BodyParameters, ground: GroundState, foot: int, point: Vec3, follows_schedule: bool
) -> None:
    """Ends the swing of a foot, with its contact point as its foothold.

    The foothold is set at the tick of the touchdown: with the old one the error of the plan would be a stride.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        ground: plane of the feet; receives the foothold.
        foot: index of the foot.
        point: (3,) contact point of the foot, world [m].
        follows_schedule: whether the contact is assumed and not detected.
    """
    f.swings.is_swinging[foot] = 0
    f.selections.is_selected[foot] = 0
    is_foreseen = f.terrain.is_known and f.terrain.is_ground_known[foot] != 0
    height_error = 0.0 if follows_schedule or is_foreseen else compute_height_over_plane(ground, point)
    add_touchdown(f.stumble, body, foot, point, height_error)
    ground.points[foot] = point
    ground.has_next_foothold[foot] = 0


@compiled()
def wait_for_touchdown(f: FootworkState, ground: GroundState, foot: int, point: Vec3) -> None:
    """Marks a touchdown as late, with the point of the plane below the foot as its foothold.

    The plan assumes contact soon, about here; the old foothold would be a stride behind.  On rough ground the old one
    is kept, since the foot may still be far from its next foothold.

    Args:
        f: state of the footwork.
        ground: plane of the feet; receives the foothold.
        foot: index of the foot.
        point: (3,) contact point of the foot, world [m].
    """
    f.is_touchdown_late = True
    if not is_rough(f.stumble):
        ground.points[foot] = vec3(point[0], point[1], plane_height(ground, point[0], point[1]))


@compiled()
def may_stumble(f: FootworkState, body: BodyParameters, contacts: FootContacts, foot: int) -> bool:
    """Returns whether an obstacle may block a foot: it moves to unknown ground or up.

    A foot that scrapes along an edge while it is lowered slides off it.  Without contact detection obstacles cannot be
    detected; without forces, a contact of a foot that moves to unknown ground is an obstacle.
    """
    if not contacts.is_detected:
        return False
    is_blind: bool = f.is_blind[foot] != 0
    if not contacts.has_forces:
        has_contact: bool = contacts.in_contact[foot] != 0
        return is_blind and has_contact
    rise: float = f.swings.target[foot, 2] - f.swings.start[foot, 2]
    return is_blind or rise > EVEN_TERRAIN_TOLERANCE * body.length


# -- footholds -------------------------------------------------------------------------------------------------------
@entry("contacts and footholds")
def begin_selections(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    path: PathState,
    ground: GroundState,
    motion: Motion,
) -> int:
    """Begins the selections of a tick; returns the first swing foot, -1 if there is none.

    It sets the motion of the trunk during the stance of a foot that begins now.
    """
    x, y, _ = motion.com
    request = f.request
    request.com = vec3(x, y, plane_height(ground, x, y) - ground.lowering + body.height)
    request.velocity[:] = path.velocity[0:2]
    request.stance_time = gait.duty_factor * compute_period(gait)
    request.slope[:] = ground.slope
    request.yaw = path.yaw
    return find_next_swing(f.swings, 0)


@entry("contacts and footholds")
def compute_nominal_foothold(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    path: PathState,
    ground: GroundState,
    motion: Motion,
    balance: BalanceState,
    foot: int,
) -> None:
    """Computes the nominal foothold of a swing foot and writes it to `f.request`.

    It is the foothold of the path reference, shifted by the error of the divergent component and clamped to the reach.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait.
        path: path reference.
        ground: plane of the feet.
        motion: motion of center of mass and trunk.
        balance: filtered velocity, error of the divergent component, and nominal positions of the feet.
        foot: index of the foot.
    """
    request = f.request
    gain = (1.0 + EXTRA_ERROR_GAIN) * min(1.0 / max(balance.foothold_gain, 1e-3), MAX_ERROR_GAIN)
    x, y = compute_foothold(path, balance.stance, foot, compute_time_to_mid_stance(gait, foot))
    x, y = x + gain * balance.error[0], y + gain * balance.error[1]
    request.requested[0], request.requested[1] = x, y
    com_x, com_y, _ = motion.com
    # The foothold is clamped relative to the body at touchdown, in heading axes.
    remaining_time = max(0.0, (1.0 - f.swings.progress[foot]) * compute_swing_time(gait))
    dx, dy = remaining_time * balance.velocity[0], remaining_time * balance.velocity[1]
    request.com_displacement[0], request.com_displacement[1] = dx, dy
    x, y = x - com_x - dx, y - com_y - dy
    opposite = foot + 1 - 2 * (foot % 2)
    u, v = ground.points[opposite, 0], ground.points[opposite, 1]
    if f.swings.is_swinging[opposite] != 0:
        u, v = f.swings.target[opposite, 0], f.swings.target[opposite, 1]
    u, v = u - com_x - dx, v - com_y - dy
    c, s = math.cos(motion.yaw), math.sin(motion.yaw)
    forward, left = clamp_foothold(
        body, f.max_hip_distance[foot], foot, c * x + s * y, c * y - s * x, gait.footprint_scale[1], c * v - s * u
    )
    request.nominal[0] = c * forward - s * left + com_x + dx
    request.nominal[1] = s * forward + c * left + com_y + dy


@compiled()
def clamp_foothold(
    body: BodyParameters,
    max_hip_distance: float,
    foot: int,
    forward: float,
    left: float,
    width_scale: float,
    opposite_left: float,
) -> tuple[float, float]:
    """Returns a foothold relative to the body, clamped to the reach of the leg and beside the other foot.

    The inward limit is proportional to the footprint width.  The actual position of the opposite foot is used, which a
    body that is pushed sideways leaves behind.  If both limits conflict, the foothold is beyond the reach of the leg
    rather than across the other foot.

    Args:
        body: lengths and units of the robot.
        max_hip_distance: maximum horizontal distance from the leg's first joint [m].
        foot: index of the foot.
        forward: foothold relative to the body, forward [m].
        left: foothold relative to the body, leftward [m].
        width_scale: width of the footprint, divided by that at home.
        opposite_left: position of the opposite foot relative to the body, leftward [m].

    Returns:
        The clamped foothold, forward and leftward [m].
    """
    home_x, home_y = body.nominal_stance[foot, 0], body.nominal_stance[foot, 1]
    hip_x, hip_y = body.hips[foot, 0], body.hips[foot, 1]
    side, half_width, max_forward = math.copysign(1.0, home_y), abs(home_y), MAX_FORWARD_OFFSET * body.length
    along = min(max(forward - home_x, -max_forward), max_forward)
    out = min(side * left - half_width, MAX_OUTWARD_OFFSET * body.length)
    u, v = home_x + along - hip_x, half_width + out - side * hip_y
    fraction = min(1.0, max_hip_distance / max(math.sqrt(u * u + v * v), 1e-9))
    if fraction < 1.0:
        along, out = hip_x + fraction * u - home_x, side * hip_y + fraction * v - half_width
    inner = width_scale * (1.0 - MAX_INWARD_FRACTION) * half_width
    clear = side * opposite_left + inner
    return home_x + along, side * (half_width + max(out, max(inner, clear) - half_width))


@compiled()
def compute_sphere_height(body: BodyParameters, foot: int) -> float:
    """Returns the height over the ground of the target of a foot sphere's center, along the normal [m]."""
    height: float = body.radii[foot] - TARGET_DEPTH * body.length
    return height


@compiled(inline=False)
def select_foothold(
    f: FootworkState, body: BodyParameters, gait: GaitState, foot: int, point: Vec3, normal: Vec3, reason: int
) -> bool:
    """Sets the target of a swing foot; returns whether the selection was stored.

    A selection is not replaced after the target is frozen, except in front of an obstacle.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait.
        foot: index of the foot.
        point: (3,) foothold on the ground, world [m].
        normal: (3,) unit normal of the ground there.
        reason: `SelectionReason`.
    """
    f.swings.duration[foot] = compute_swing_time(gait)
    set_target(f.swings, foot, point + normal * compute_sphere_height(body, foot))
    s, request = f.selections, f.request
    is_frozen = f.swings.progress[foot] >= TARGET_FREEZE_PHASE and s.is_selected[foot] != 0
    if is_frozen and reason != SelectionReason.PLACED_BEFORE_OBSTACLE:
        return False
    s.is_selected[foot], s.is_on_map[foot], s.reason[foot] = 1, 0, reason
    s.position[foot] = point
    s.normal[foot] = normal
    s.com[foot] = request.com
    s.stance_time[foot], s.yaw[foot] = request.stance_time, request.yaw
    s.requested[foot] = request.requested
    s.nominal[foot] = request.nominal
    s.com_displacement[foot] = request.com_displacement
    s.velocity[foot] = request.velocity
    s.slope[foot] = request.slope
    return True


@entry("contacts and footholds")
def select_blind_foothold(
    f: FootworkState, body: BodyParameters, gait: GaitState, ground: GroundState, foot: int
) -> bool:
    """Sets the target of a swing foot on the plane of the feet; returns whether the selection was stored.

    The foothold is the one of `f.request`, or, in front of an obstacle, the position to which the foot is lowered.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait.
        ground: plane of the feet.
        foot: index of the foot.
    """
    x, y, reason = f.request.nominal[0], f.request.nominal[1], SelectionReason.BY_COST
    if f.stumble.is_lowered[foot] != 0:
        x, y = f.stumble.lowered_position[foot, 0], f.stumble.lowered_position[foot, 1]
        reason = SelectionReason.PLACED_BEFORE_OBSTACLE
    else:
        f.is_blind[foot] = 1
    add_clearance(f, body, ground, foot)
    return select_foothold(f, body, gait, foot, vec3(x, y, plane_height(ground, x, y)), plane_normal(ground), reason)


@entry("contacts and footholds")
def add_clearance(f: FootworkState, body: BodyParameters, ground: GroundState, foot: int) -> None:
    """Sets the clearance of a swing on rough ground."""
    if is_rough(f.stumble):
        f.swings.clearance[foot] = (
            compute_nominal_clearance(ground) + compute_extra_clearance(f.stumble)
        ) * body.length


@entry("contacts and footholds")
def finish_selection(f: FootworkState, foot: int, dt: float) -> int:
    """Advances the swing of a foot by `dt` [s]; returns the swing foot that lifted off next, -1 if there is none."""
    advance_swing(f.swings, foot, dt)
    return find_next_swing(f.swings, f.swings.liftoff_number[foot])


@entry("contacts and footholds")
def advance_swings(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    path: PathState,
    ground: GroundState,
    motion: Motion,
    balance: BalanceState,
    dt: float,
) -> None:
    """Selects the footholds of all swing feet on the plane of the feet and advances their swings by `dt`.

    Args:
        f: state of the footwork.
        body: lengths and units of the robot.
        gait: phases of the gait.
        path: path reference.
        ground: plane of the feet.
        motion: motion of center of mass and trunk.
        balance: filtered velocity, error of the divergent component, and nominal positions of the feet.
        dt: control period [s].
    """
    foot: int = begin_selections(f, body, gait, path, ground, motion)
    while foot >= 0:
        compute_nominal_foothold(f, body, gait, path, ground, motion, balance, foot)
        select_blind_foothold(f, body, gait, ground, foot)
        foot = finish_selection(f, foot, dt)


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("contacts and footholds")
def aim_swing(
    f: FootworkState,
    body: BodyParameters,
    gait: GaitState,
    foot: int,
    point: Vector,
    normal: Vector,
    reason: int,
) -> bool:
    """Sets the target of a swing foot on a terrain map; see `select_foothold`."""
    is_stored = select_foothold(f, body, gait, foot, vec3(point), vec3(normal), reason)
    if is_stored:
        f.selections.is_on_map[foot] = 1
    return is_stored


def allocate_footwork() -> FootworkState:
    """Returns the state of a footwork without swings."""
    pairs, triples = (4, 2), (4, 3)
    return FootworkState.allocate(
        swings=swing_shapes(4),
        selections={
            **dict.fromkeys(("is_selected", "is_on_map", "reason", "stance_time", "yaw"), 4),
            **dict.fromkeys(("requested", "nominal", "com_displacement", "velocity", "slope"), pairs),
            **dict.fromkeys(("position", "normal", "com"), triples),
        },
        stumble=STUMBLE_SHAPES,
        terrain={"has_lift_direction": 4, "lift_direction": triples, "is_ground_known": 4},
        request={"requested": 2, "nominal": 2, "com_displacement": 2, "velocity": 2, "slope": 2},
        max_hip_distance=4,
        is_carrying=4,
        is_blind=4,
    )


def allocate_balance() -> BalanceState:
    """Returns a record for `advance_swings`."""
    return BalanceState.allocate(velocity=2, error=2, stance=(4, 2))


#: Factor by which the trunk moves to its height over a known foothold sooner than the foot.
TRUNK_LEAD_FACTOR = 2.0
#: Fraction of the swing until which its timing may change.
TIMING_DECISION_PHASE = UP_FIRST_TIMINGS[0].horizontal_start
#: Ratio of the maximum distance of a foothold to the reach of the leg: the trunk sinks a little over legs that spread.
REACH_EXCESS_RATIO = 1.05
#: Distance from the hip that is always allowed: half of the longest stride of any gait [l].
MIN_STEP_LENGTH = 0.3
#: Texts of the reasons for a selection.
REASONS = {
    SelectionReason.BY_COST: "",
    SelectionReason.PLACED_BEFORE_OBSTACLE: PLACED_BEFORE_OBSTACLE,
    SelectionReason.DESCENT_BEGUN: DESCENT_BEGUN,
}


class Footwork:
    """Contact states and swing feet of a walking robot.

    The target of a swing foot is the foothold of the path reference, shifted by the present error of the divergent
    component: for the present xi to be the bounded one, all coming footholds have to be shifted by
    ``(xi - xi*) / gain`` (`preview_com`).  The stance feet correct a part of the error until touchdown;
    `MAX_ERROR_GAIN` limits the shift.

    A late foot, which has no contact when its swing has ended, is lowered on, the gait scheduler waits for it up to
    `MAX_TOUCHDOWN_DELAY` (`is_waiting_for_touchdown`), and a foot that something blocks then counts as in contact
    (`is_blocked`).

    Args:
        morphology: lengths and units of the robot.
        reach: (4,) maximum distance of a foot from its leg's first joint [m].

    Attributes:
        state: record of the compiled functions.
        contacts: record of the contacts of a tick, likewise.
        snapshots: source of copies of the state.
        windows: terrain window of the selection of each foot, None without one.
    """

    __slots__ = ("_body", "_had_stance", "_is_map_known", "_morphology", "contacts", "snapshots", "state", "windows")

    def __init__(self, morphology: Morphology, reach: Array) -> None:
        self._morphology = p = morphology
        hip_height = p.height + p.hips[:, 2]
        reach_distance = np.sqrt(
            np.maximum((REACH_EXCESS_RATIO * reach) ** 2 - hip_height**2, 0.0)
        )  # from the hips, seen from above
        minimum = np.linalg.norm(p.nominal_stance - p.hips[:, :2], axis=1) + MIN_STEP_LENGTH * p.length
        self.state = allocate_footwork()
        self.state.max_hip_distance[:] = np.maximum(reach_distance, minimum)
        self.snapshots = RecordSnapshot(self.state)
        self._body, self.contacts = make_body_parameters(morphology), allocate_foot_contacts()
        self.windows: list[TerrainWindow | None] = [None] * len(FEET)
        self._is_map_known = False
        self._had_stance = [False] * len(FEET)  # whether the last stance was compared with the map

    @property
    def swings(self) -> dict[int, SwingTrajectory]:
        """`SwingTrajectory` of each swing foot, by index in `FEET`; they change with the state."""
        return list_swings(self.state.swings)

    @property
    def selections(self) -> dict[int, FootholdSelection]:
        """Data of the last foothold selection of each swing foot, by index."""
        return make_selections(self.state, self.windows)

    def restart(self) -> None:
        """Forgets the terrain of all foothold selections, after the record is reset."""
        self.windows[:] = [None] * len(FEET)
        self._had_stance[:] = [False] * len(FEET)
        self._is_map_known = self.state.terrain.is_known

    def set_map_known(self, is_known: bool) -> None:
        """Sets whether there is a terrain map, which `read_ground` reads."""
        if self._is_map_known is not is_known:
            self.state.terrain.is_known = self._is_map_known = is_known

    def read_ground(
        self, scheduler: GaitScheduler, ground: GroundPlane, feet: Array, normals: Array, foothold_map: FootholdMap
    ) -> None:
        """Reads from the map the ground under feet that may lift off or touch down at this tick.

        Args:
            scheduler: phases of the gait, already advanced.
            ground: plane of the feet.
            feet: (4, 3) centers of the foot spheres, world [m].
            normals: (4, 3) unit normals of the ground under the feet, world.
            foothold_map: foothold map.
        """
        terrain, swings = self.state.terrain, self.state.swings.is_swinging.tolist()
        points, had_stance = feet - self._morphology.radii[:, None] * normals, self._had_stance
        for i, (in_stance, is_swinging) in enumerate(zip(scheduler.stance_mask.tolist(), swings, strict=True)):
            if is_swinging and in_stance:
                terrain.is_ground_known[i] = foothold_map.normal(*points[i].tolist()) is not None
                had_stance[i] = False
            elif not is_swinging and not in_stance:
                if not had_stance[i]:
                    had_stance[i] = True
                    foothold_map.compare_stance(*ground.points[i].tolist())
                direction = foothold_map.lift_direction(*ground.points[i, :2].tolist())
                terrain.has_lift_direction[i] = direction is not None
                if direction is not None:
                    terrain.lift_direction[i] = direction

    def advance_on_map(
        self,
        scheduler: GaitScheduler,
        path: PathReference,
        ground: GroundPlane,
        foothold_map: FootholdMap,
        motion: CentroidalState,
        balance: BalanceState,
        dt: float,
    ) -> None:
        """Advances the swing trajectories by one tick, with new footholds on a terrain map.

        Args:
            scheduler: phases of the gait.
            path: path reference.
            ground: plane of the feet.
            foothold_map: foothold map.
            motion: motion of center of mass and trunk.
            balance: error of the divergent component, and nominal positions of the feet.
            dt: control period [s].
        """
        records = self.state, self._body, scheduler.state, path.state, ground.state, motion.state
        foot = begin_selections(*records)
        while foot >= 0:
            compute_nominal_foothold(*records, balance, foot)
            position = self._select_foothold(foot, scheduler, ground, foothold_map)
            following = finish_selection(self.state, foot, float(dt))
            if position is not None:
                # The trunk moves to its height over the foothold before the foot lands.
                fraction = min(TRUNK_LEAD_FACTOR * float(self.state.swings.progress[foot]), 1.0)
                last = ground.points[foot]
                ground.set_next_foothold(foot, *(last + fraction * (position - last)).tolist())
            foot = following

    def _select_foothold(
        self, foot: int, scheduler: GaitScheduler, ground: GroundPlane, foothold_map: FootholdMap
    ) -> Array | None:
        """Selects the next foothold of a swing foot on the map, with clearance and timing of the swing.

        Args:
            foot: index of the foot.
            scheduler: phases of the gait.
            ground: plane of the feet.
            foothold_map: foothold map.

        Returns:
            (3,) position of the foothold, world [m]; None on unknown ground and in front of an obstacle.
        """
        state, p = self.state, self._morphology
        swing = SwingTrajectory.from_row(state.swings, foot)
        if state.stumble.is_lowered[foot]:
            x, y = state.stumble.lowered_position[foot].tolist()
            self._put_down(foot, (x, y), scheduler, ground, foothold_map)
            return None
        foothold = foothold_map.choose_foothold(*state.request.nominal.tolist())
        if foothold is None:
            select_blind_foothold(state, self._body, scheduler.state, ground.state, foot)
            return None
        state.is_blind[foot] = 0
        *point, normal = foothold
        position, radius = np.array(point), float(p.radii[foot])
        reason, offset = SelectionReason.BY_COST, (radius - TARGET_DEPTH * p.length) * normal
        change = float(normal @ (position + offset - swing.target))
        if swing.progress > APEX_PHASE and abs(change) > EVEN_TERRAIN_TOLERANCE * p.length:
            position, reason = swing.target - offset, SelectionReason.DESCENT_BEGUN
        if aim_swing(state, self._body, scheduler.state, foot, position, normal, int(reason)):
            self.windows[foot] = foothold_map.window
        if swing.progress < APEX_PHASE:
            end, slope = position + offset, ground.slope
            minimum = compute_nominal_clearance(ground.state) * p.length
            if swing.progress <= TIMING_DECISION_PHASE:
                swing.timing = foothold_map.choose_swing_timing(swing.start, end, radius, minimum, slope)
            state.swings.clearance[foot] = foothold_map.compute_clearance(
                swing.start, end, radius, minimum, slope, swing.timing
            )
        return position

    def _put_down(
        self,
        foot: int,
        position: tuple[float, float],
        scheduler: GaitScheduler,
        ground: GroundPlane,
        foothold_map: FootholdMap,
    ) -> None:
        """Aims a foot at the ground in front of an obstacle.

        Args:
            foot: index of the foot.
            position: (2,) of the foot, world x and y [m].
            scheduler: phases of the gait.
            ground: plane of the feet.
            foothold_map: foothold map.
        """
        state, (x, y), z = self.state, position, foothold_map.lowest_height(*position)
        if z is None:
            select_blind_foothold(state, self._body, scheduler.state, ground.state, foot)
            return
        reason = int(SelectionReason.PLACED_BEFORE_OBSTACLE)
        add_clearance(state, self._body, ground.state, foot)
        aim_swing(state, self._body, scheduler.state, foot, np.array([x, y, z]), ground.normal, reason)
        self.windows[foot] = foothold_map.window
        ground.set_next_foothold(foot, x, y, z)

    def update_references(self, tasks: Mapping[str, Any], feet: Array) -> None:
        """Sets the references of the feet: swing feet follow their trajectory, stance feet hold their position.

        Args:
            tasks: tasks by name of the foot.
            feet: (4, 3) centers of the foot spheres, world [m].
        """
        of_feet = [tasks[foot] for foot in FEET]
        if all(type(task) is FootTask for task in of_feet):
            set_foot_references(self.state.swings, feet, *(task.block for task in of_feet))
            return
        swings = self.swings
        for i, task in enumerate(of_feet):  # tasks of other classes
            swing = swings.get(i)
            if swing is None:
                task.reference(feet[i])
            else:
                task.reference(swing.position, swing.velocity, swing.acceleration)


def make_selections(state: FootworkState, windows: Sequence[TerrainWindow | None]) -> dict[int, FootholdSelection]:
    """Returns the foothold selections that a record contains, by index of the foot.

    Args:
        state: the record.
        windows: terrain window of each selection that was made on a map.
    """
    return {
        i: make_selection(state.selections, i, windows[i])
        for i in list_swings(state.swings)
        if state.selections.is_selected[i]
    }


def make_selection(s: SelectionStates, foot: int, window: TerrainWindow | None) -> FootholdSelection:
    """Returns the foothold selection in a row of a record.

    Args:
        s: the record.
        foot: index of the foot.
        window: terrain window of the selection if it was made on a map.
    """
    rows = s.requested, s.nominal, s.position, s.normal, s.com, s.velocity, s.com_displacement
    requested, nominal, position, normal, com, velocity, displacement = (tuple(x[foot].tolist()) for x in rows)
    stance = StanceInterval(com, velocity, float(s.stance_time[foot]), s.slope[foot].copy(), float(s.yaw[foot]))
    reason, window = REASONS[SelectionReason(s.reason[foot])], window if s.is_on_map[foot] else None
    return FootholdSelection(foot, requested, nominal, position, normal, reason, window, stance, displacement)
