"""`ContactMonitor`: detection of lost ground contact in stance, and of free fall."""

from __future__ import annotations

import enum

import numpy as np

from ..compiler import IntVector, Matrix, Record, Vec3, compiled, entry, norm, vec3
from .morphology import FEET, BodyParameters
from .motion import Motion

#: Minimum number of feet on which a robot can stand.
MIN_STANCE_FEET = 3
#: Time without any contact, and time with too few contacts, after which the ground counts as lost [sqrt(l/g)].
NO_CONTACT_TIME, FEW_CONTACTS_TIME = 0.02, 0.25
#: Without foot sensors: time constant of the estimated ground force [sqrt(l/g)], fraction of the weight below which the
#: robot is falling, and speed above which a stance foot has no ground under it [sqrt(g l)].
GROUND_FORCE_TIME, FALLING_FORCE_FRACTION, MAX_STANCE_FOOT_SPEED = 0.05, 0.5, 0.1
#: In flight: time constant of the ground force [sqrt(l/g)], and fraction of the weight below which the robot is in free
#: fall.
FLIGHT_FORCE_TIME, FREE_FALL_FORCE_FRACTION = 0.02, 0.15
#: Minimum time of standing before a recovery step [sqrt(l/g)].
RECOVERY_DELAY = 0.1
#: Maximum deviation of stance feet from a common plane [l].
COPLANARITY_TOLERANCE = 0.01


class GroundEvent(enum.IntEnum):
    """Result of `check_ground`."""

    NONE = 0
    LOST = 1  # the robot has lost the ground
    SUPPORTED = 2  # it is measured that the ground carries the robot


class GroundContactState(Record):
    """Measurements of the ground contact of a standing robot, or of one in flight."""

    dt: float  # control period [s]
    has_last_rate: bool  # whether there was a tick before
    last_rate: float  # vertical velocity of the center of mass at that tick [m/s]
    last_feet: Matrix  # (4, 3) centers of the foot spheres at that tick, world [m]
    has_ground_force: bool
    ground_force: float  # filtered vertical ground force per mass [m/s^2]
    no_contact_time: float  # time without any measured contact [s]
    few_contacts_time: float  # time with fewer than `MIN_STANCE_FEET` measured contacts [s]
    stance_time: float  # time of standing [s]


@compiled()
def update_ground_force(g: GroundContactState, body: BodyParameters, rate: float, time: float) -> float:
    """Updates the filtered vertical ground force per mass and returns it [m/s^2]; there must be a tick before.

    Args:
        g: state of the monitor.
        body: parameters of the robot.
        rate: vertical velocity of the center of mass [m/s].
        time: time constant of the filter [sqrt(l/g)].
    """
    force = (rate - g.last_rate) / g.dt + body.gravity
    if g.has_ground_force:
        alpha = g.dt / (time * body.time_scale + g.dt)
        force = g.ground_force + alpha * (force - g.ground_force)
    g.ground_force = force
    g.has_ground_force = True
    return force


@compiled()
def count_contacts(contacts: IntVector) -> int:
    """Returns the number of feet in contact."""
    count: int = contacts[0] + contacts[1] + contacts[2] + contacts[3]
    return count


@compiled()
def lost_measured_contacts(g: GroundContactState, body: BodyParameters, contacts: IntVector) -> bool:
    """Returns whether foot sensors show that the ground is lost."""
    count = count_contacts(contacts)
    g.no_contact_time = 0.0 if count > 0 else g.no_contact_time + g.dt
    g.few_contacts_time = 0.0 if count >= MIN_STANCE_FEET else g.few_contacts_time + g.dt
    return (
        g.no_contact_time >= max(2.0 * g.dt, NO_CONTACT_TIME * body.time_scale)
        or g.few_contacts_time >= FEW_CONTACTS_TIME * body.time_scale
    )


@compiled()
def is_falling(g: GroundContactState, body: BodyParameters, rate: float, feet: Matrix) -> bool:
    """Returns whether the acceleration of the center of mass and the motion of the feet show that the ground is lost.

    Soft ground does not push before it is pressed; so there is no result in the first two ticks.
    """
    if not g.has_last_rate or g.stance_time <= 2.0 * g.dt:
        return False
    if update_ground_force(g, body, rate, GROUND_FORCE_TIME) > FALLING_FORCE_FRACTION * body.gravity:
        return False
    distance = 0.0
    for foot in range(4):
        distance = max(distance, norm(vec3(feet[foot]) - vec3(g.last_feet[foot])))
    return distance > MAX_STANCE_FOOT_SPEED * body.speed_scale * g.dt


@entry("ground contact")
def ground_lost(
    g: GroundContactState, body: BodyParameters, rate: float, feet: Matrix, contacts: IntVector, is_measured: bool
) -> bool:
    """Returns whether a standing robot has lost the ground; call it at every tick in stance.

    Args:
        g: state of the monitor.
        body: parameters of the robot.
        rate: vertical velocity of the center of mass [m/s].
        feet: (4, 3) centers of the foot spheres, world [m].
        contacts: (4,) whether each foot is in contact.
        is_measured: whether `contacts` are measured by foot sensors; they are ignored otherwise.
    """
    g.stance_time += g.dt
    is_lost = lost_measured_contacts(g, body, contacts) if is_measured else is_falling(g, body, rate, feet)
    g.has_last_rate = True
    g.last_rate = rate
    g.last_feet[:] = feet
    return is_lost


@entry("ground contact")
def is_supported(g: GroundContactState, body: BodyParameters) -> bool:
    """Returns whether the acceleration of the center of mass shows that the ground carries half of the weight."""
    return g.has_ground_force and g.ground_force > FALLING_FORCE_FRACTION * body.gravity


@entry("ground contact")
def is_settled(g: GroundContactState, body: BodyParameters) -> bool:
    """Returns whether the robot has stood long enough for a loss of the ground to be detected."""
    return g.stance_time >= RECOVERY_DELAY * body.time_scale


@entry("ground contact")
def check_ground(
    g: GroundContactState, body: BodyParameters, motion: Motion, contacts: IntVector, is_measured: bool
) -> GroundEvent:
    """Returns whether a standing robot has lost the ground, or whether the ground is known to carry it.

    Call it at every tick in stance; for the arguments see `ground_lost`.
    """
    if ground_lost(g, body, motion.velocity[2], motion.feet, contacts, is_measured):
        return GroundEvent.LOST
    has_support = count_contacts(contacts) >= MIN_STANCE_FEET if is_measured else is_supported(g, body)
    return GroundEvent.SUPPORTED if has_support else GroundEvent.NONE


@entry("ground contact")
def is_in_free_fall(g: GroundContactState, body: BodyParameters, rate: float) -> bool:
    """Updates the ground force in flight, and returns whether the robot is in free fall.

    Args:
        g: state of the monitor.
        body: parameters of the robot.
        rate: vertical velocity of the center of mass [m/s].
    """
    force = update_ground_force(g, body, rate, FLIGHT_FORCE_TIME) if g.has_last_rate else 0.0
    g.has_last_rate = True
    g.last_rate = rate
    return force < FREE_FALL_FORCE_FRACTION * body.gravity


@compiled()
def lowest_point(body: BodyParameters, feet: Matrix, foot: int) -> Vec3:
    """Returns the lowest point of a foot sphere, world [m]."""
    return vec3(feet[foot]) - vec3(0.0, 0.0, body.radii[foot])


@entry("ground contact")
def is_coplanar(body: BodyParameters, feet: Matrix) -> bool:
    """Returns whether the lowest points of the feet (4, 3), world [m], are near one plane.

    The root of the sum of the squared distances from the nearest plane is the smallest singular value of the points
    about their center, and its square the smallest eigenvalue of their second moments A.  It exceeds the tolerance t
    if ``A - t^2 I`` is positive definite: if the pivots of its factorization are positive.
    """
    center = vec3(0.0, 0.0, 0.0)
    for foot in range(4):
        center = center + lowest_point(body, feet, foot) * 0.25
    tolerance = COPLANARITY_TOLERANCE * body.length
    xx, yy, zz = -tolerance * tolerance, -tolerance * tolerance, -tolerance * tolerance
    xy, xz, yz = 0.0, 0.0, 0.0
    for foot in range(4):
        p = lowest_point(body, feet, foot) - center
        xx += p[0] * p[0]
        yy += p[1] * p[1]
        zz += p[2] * p[2]
        xy += p[0] * p[1]
        xz += p[0] * p[2]
        yz += p[1] * p[2]
    if xx <= 0.0:
        return True
    pivot = yy - xy * xy / xx
    if pivot <= 0.0:
        return True
    rest = yz - xy * xz / xx
    return zz - xz * xz / xx - rest * rest / pivot <= 0.0


@compiled()
def reset_ground_contact(g: GroundContactState) -> None:
    """Resets all measurements; the robot is assumed to stand."""
    g.has_last_rate = False
    g.has_ground_force = False
    g.no_contact_time = 0.0
    g.few_contacts_time = 0.0
    g.stance_time = 0.0


@compiled()
def begin_flight(g: GroundContactState) -> None:
    """Resets all measurements for a robot in the air."""
    reset_ground_contact(g)
    g.ground_force = 0.0
    g.has_ground_force = True


def allocate_ground_contact(dt: float) -> GroundContactState:
    """Returns the state of a monitor of the control period `dt` [s], of a standing robot."""
    state = GroundContactState.allocate(last_feet=(4, 3))
    state.dt = dt
    return state


#: Time constant of estimated contact forces, and minimum time for which they must last [sqrt(l/g)].
FORCE_TIME_CONSTANT, CONTACT_DWELL_TIME = FLIGHT_FORCE_TIME, 0.01


class ContactMonitor:
    """Detector of lost ground contact.

    With foot sensors the ground is lost if no foot is in contact, or fewer than three for some time.  Without, it is
    lost if the center of mass accelerates downward as in a fall while stance feet move: without ground the contact
    forces that the controller assumes do not act, and the torques move the legs.

    Args:
        dt: control period [s].

    Attributes:
        state: state of the detection.
        measured_contacts: (4,) whether the sensor of each foot measures contact.
    """

    __slots__ = ("measured_contacts", "state")

    def __init__(self, dt: float) -> None:
        self.measured_contacts, self.state = np.zeros(4, dtype=np.int64), allocate_ground_contact(dt)

    def set_measured_contacts(self, names: tuple[str, ...]) -> None:
        """Sets the feet that foot sensors measure to be in contact."""
        self.measured_contacts[:] = [foot in names for foot in FEET]
