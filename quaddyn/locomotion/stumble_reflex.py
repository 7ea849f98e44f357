"""Compiled reaction of swing feet to unknown obstacles, and roughness of the ground from footholds."""

import math

from ..compiler import IntVector, Matrix, Record, Vec3, Vector, compiled, entry, vec3
from .morphology import BodyParameters
from .swing import SwingStates, begin_swing, set_timing

#: A foot is blocked if it lags behind its path by at least this distance [l] and is slower than this fraction of the
#: path's speed for this time [sqrt(l/g)]: slow legs lag behind, too, but keep moving.
BLOCKED_FOOT_DISTANCE, BLOCKED_SPEED_FRACTION, BLOCKED_TIME = 0.04, 0.3, 0.05
#: Minimum contact force against the path of a blocked foot, as a fraction of the weight per foot, and as a multiple of
#: the vertical force: friction against the path of a foot that lands early or scrapes along the ground is less than its
#: normal force.
MIN_BLOCKING_FORCE, MIN_BLOCKING_FORCE_RATIO = 0.05, 1.0
#: Lag behind the path from which a foot is blocked whatever the vertical force: an edge pushes up as well [l].
MAX_SCRAPING_LAG = 0.12
#: Fraction of the swing until which a blocked foot is lifted over the obstacle; later it is put down in front of it.
ELEVATING_PHASE = 0.6
#: Fraction of the swing at which the swing of a blocked foot restarts at most, and duration of its purely vertical
#: motion, as a fraction of the swing.
RESTART_PHASE, VERTICAL_PHASE = 0.1, 0.2
#: Assumed height of an obstacle that blocks a foot [l].
ASSUMED_OBSTACLE_HEIGHT = 0.12
#: Minimum deviation of a foothold from the plane of the feet that counts as rough ground, and maximum additional
#: clearance of the feet [l].
ROUGH_HEIGHT, MAX_EXTRA_CLEARANCE = 0.03, 0.15
#: Displacement of a stance foot along the ground normal above which it has left its foothold [l].
SLIP_DISTANCE = 0.03
#: Time constant with which the roughness decays [sqrt(l/g)].
ROUGHNESS_DECAY_TIME = 15.0
#: Fraction of the swing after which feet move forward on rough ground.
UP_FIRST_START = 0.12


class StumbleState(Record):
    """State of the reaction to unknown obstacles, and estimate of the roughness of the ground.

    A swing foot that lags behind its path, hardly moves and has a contact force against its path is blocked, most
    likely by a riser.  A foot that lags behind without such a force is just slow, and a foot that the ground pushes
    upward more than backward has landed early, unless its path is far ahead.  Early in its swing a blocked foot is
    lifted over the obstacle, late in the swing it is put down in front of it: the two strategies of humans who trip
    (Eng, Winter and Patla 1994, "Strategies for recovery from a trip in early and late swing during human walking").
    After that, and after footholds off the plane of the feet, all feet are lifted higher, and move up before they move
    forward, for a while.
    A stance foot that has left its foothold, off an edge, is lowered again.
    """

    roughness: float  # expected height of obstacles [l]
    has_last_feet: bool
    last_feet: Matrix  # (4, 3) centers of the foot spheres at the last tick, world [m]
    is_monitored: IntVector  # (4,) whether the foot may meet an obstacle
    blocked_time: Vector  # (4,) for which the foot has been blocked [s]
    is_lowered: IntVector  # (4,) whether the foot is put down at `lowered_position`
    lowered_position: Matrix  # (4, 2) world x and y [m]
    has_touchdown: IntVector  # (4,) whether `touchdown_position` is known
    touchdown_position: Matrix  # (4, 3) of the contact point, world [m]


class FootContacts(Record):
    """Contacts and contact forces of the four feet, as measured or estimated."""

    is_detected: bool  # whether `in_contact` is known; else the schedule is followed
    is_unreliable: bool  # whether the model is wrong, so that `in_contact` is, too
    in_contact: IntVector  # (4,)
    is_too_fast: IntVector  # (4,) whether a foot is too fast to be in contact
    has_forces: bool
    forces: Matrix  # (4, 3) on the robot, world axes [N]
    uncertainty: float  # contact force that may be an error of the estimate [N]


@compiled()
def is_rough(r: StumbleState) -> bool:
    """Returns whether the ground is rough."""
    return r.roughness > ROUGH_HEIGHT


@compiled()
def compute_extra_clearance(r: StumbleState) -> float:
    """Returns the additional clearance of the feet on rough ground [l]."""
    return r.roughness if is_rough(r) else 0.0


@compiled()
def has_lowered_foot(r: StumbleState) -> bool:
    """Returns whether any foot is put down in front of an obstacle."""
    count: int = r.is_lowered[0] + r.is_lowered[1] + r.is_lowered[2] + r.is_lowered[3]
    return count > 0


@compiled()
def set_swing_timing(r: StumbleState, swings: SwingStates, foot: int) -> None:
    """Sets the timing of a swing that begins now: on rough ground feet move up first, then forward."""
    set_timing(swings, foot, UP_FIRST_START if is_rough(r) else 0.0, 1.0, 0.0, 1.0)


@compiled()
def lower_foot(r: StumbleState, foot: int, x: float, y: float) -> None:
    """Makes a foot be put down at (x, y), world [m]."""
    r.is_lowered[foot] = 1
    r.lowered_position[foot, 0], r.lowered_position[foot, 1] = x, y


@compiled()
def add_touchdown(r: StumbleState, body: BodyParameters, foot: int, position: Vec3, height_error: float) -> None:
    """Records the touchdown of a foot.

    Args:
        r: state of the reaction.
        body: lengths and units of the robot.
        foot: index of the foot.
        position: (3,) contact point of the foot, world [m].
        height_error: height of the foothold over the plane of the others [m].
    """
    r.is_lowered[foot] = 0
    r.has_touchdown[foot] = 1
    r.touchdown_position[foot] = position
    deviation = abs(height_error) / body.length
    if deviation > ROUGH_HEIGHT:
        r.roughness = min(max(r.roughness, deviation), MAX_EXTRA_CLEARANCE)


@compiled()
def leaves_foothold(
    r: StumbleState, body: BodyParameters, foot: int, position: Vec3, normal: Vec3, has_slid_off: bool
) -> bool:
    """Returns whether a stance foot has left its foothold, and then lowers it until its next touchdown.

    A foot that slides along the ground stays in contact.  A foot that slides off an edge moves along the normal, or
    loses contact.  On stairs, the normal is that of the plane through the feet, not that of the step.

    Args:
        r: state of the reaction.
        body: lengths and units of the robot.
        foot: index of the foot.
        position: (3,) contact point of the foot, world [m].
        normal: (3,) unit normal of the ground, world.
        has_slid_off: whether the foot is too fast to be in contact.
    """
    if r.has_touchdown[foot] == 0:
        r.has_touchdown[foot] = 1
        r.touchdown_position[foot] = position
    distance: float = abs((position - vec3(r.touchdown_position[foot])) @ normal)
    if not has_slid_off and distance < SLIP_DISTANCE * body.length:
        return False
    r.has_touchdown[foot] = 0
    lower_foot(r, foot, position[0], position[1])
    return True


@compiled()
def is_stopped(
    r: StumbleState,
    swings: SwingStates,
    body: BodyParameters,
    feet: Matrix,
    contacts: FootContacts,
    foot: int,
    dt: float,
) -> bool:
    """Returns whether a swing foot lags behind its path, hardly moves, and is pushed against its path.

    Args:
        r: state of the reaction, with the positions of the feet at the last tick.
        swings: swings of the feet.
        body: lengths and units of the robot.
        feet: (4, 3) centers of the foot spheres, world [m].
        contacts: contact forces.
        foot: index of the foot.
        dt: control period [s].
    """
    u, v = swings.velocity[foot, 0], swings.velocity[foot, 1]
    speed = math.sqrt(u * u + v * v)
    x, y = feet[foot, 0], feet[foot, 1]
    lag = (swings.position[foot, 0] - x) * u + (swings.position[foot, 1] - y) * v  # times speed
    motion = (x - r.last_feet[foot, 0]) * u + (y - r.last_feet[foot, 1]) * v  # times speed
    if not lag > BLOCKED_FOOT_DISTANCE * body.length * speed:
        return False
    if not motion < BLOCKED_SPEED_FRACTION * speed * speed * dt:
        return False
    if not contacts.has_forces:
        return True
    force = vec3(contacts.forces[foot])
    min_force = max(MIN_BLOCKING_FORCE * body.mass * body.gravity / 4.0, contacts.uncertainty)
    opposing_force: float = -(force[0] * u + force[1] * v) / max(speed, 1e-12)
    max_friction: float = MIN_BLOCKING_FORCE_RATIO * force[2] if lag < MAX_SCRAPING_LAG * body.length * speed else 0.0
    return opposing_force > max(min_force, max_friction)


@compiled(inline=False)
def restart_swing(r: StumbleState, swings: SwingStates, foot: int, position: Vec3, duration: float) -> None:
    """Restarts the swing of a blocked foot from its present position.

    Early in the swing the foot is lifted over the obstacle, late in the swing it is put down in front of it.

    Args:
        r: state of the reaction.
        swings: swings of the feet.
        foot: index of the foot.
        position: (3,) center of the foot sphere, world [m].
        duration: duration of a swing [s].
    """
    progress, number = swings.progress[foot], swings.liftoff_number[foot]
    clearance, touchdown_speed, zero = swings.clearance[foot], swings.touchdown_speed[foot], vec3(0.0, 0.0, 0.0)
    begin_swing(swings, foot, position, zero, vec3(swings.normal[foot]), duration, clearance, touchdown_speed)
    swings.liftoff_number[foot] = number
    if progress > ELEVATING_PHASE:
        swings.progress[foot] = progress
        lower_foot(r, foot, position[0], position[1])
    else:
        swings.progress[foot] = min(progress, RESTART_PHASE)
        set_timing(swings, foot, swings.progress[foot] + VERTICAL_PHASE, 1.0, 0.0, 1.0)


@entry("reaction to obstacles")
def advance_stumble_reflex(
    r: StumbleState,
    swings: SwingStates,
    body: BodyParameters,
    feet: Matrix,
    contacts: FootContacts,
    duration: float,
    dt: float,
) -> None:
    """Advances the reaction by `dt` and restarts the swings of blocked feet among `r.is_monitored`.

    Args:
        r: state of the reaction.
        swings: swings of the feet.
        body: lengths and units of the robot.
        feet: (4, 3) centers of the foot spheres, world [m].
        contacts: contact forces; where they are unknown, the monitored feet are feet in contact.
        duration: duration of a swing [s].
        dt: control period [s].
    """
    r.roughness -= r.roughness * min(1.0, dt / (ROUGHNESS_DECAY_TIME * body.time_scale))
    for foot in range(4):
        if (
            r.has_last_feet
            and swings.is_swinging[foot] != 0
            and r.is_monitored[foot] != 0
            and r.is_lowered[foot] == 0
            and swings.progress[foot] < 1.0
        ):
            if is_stopped(r, swings, body, feet, contacts, foot, dt):
                r.blocked_time[foot] += dt
            else:
                r.blocked_time[foot] = 0.0
            if r.blocked_time[foot] >= BLOCKED_TIME * body.time_scale:
                r.blocked_time[foot] = 0.0
                r.roughness = max(r.roughness, ASSUMED_OBSTACLE_HEIGHT)
                restart_swing(r, swings, foot, vec3(feet[foot]), duration)
    r.has_last_feet = True
    r.last_feet[:] = feet


#: Shapes of the arrays of `StumbleState`.
STUMBLE_SHAPES = {
    "last_feet": (4, 3),
    "is_monitored": 4,
    "blocked_time": 4,
    "is_lowered": 4,
    "lowered_position": (4, 2),
    "has_touchdown": 4,
    "touchdown_position": (4, 3),
}


def allocate_foot_contacts() -> FootContacts:
    """Returns a record without contacts."""
    return FootContacts.allocate(in_contact=4, is_too_fast=4, forces=(4, 3))
