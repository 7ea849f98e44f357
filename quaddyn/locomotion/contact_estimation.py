"""Compiled detection of the feet in contact from encoders, IMU and torques alone, while the robot walks.

All arrays of feet are in the order of `FEET`.

A `ContactMonitor` detects lost ground contact in stance, and free fall.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vec3, Vector, compiled, entry, norm, vec3
from ..contact import ContactSet
from ..estimation.contact_forces import (
    ContactSetArrays,
    ForceFitWorkspace,
    compute_contact_jacobian,
    make_contact_set_arrays,
    make_force_fit_workspace,
    solve_contact_forces,
)
from ..estimation.momentum_observer import (
    MomentumBodies,
    ResidualFilter,
    compute_momentum_and_drive,
    make_momentum_bodies,
    make_residual_filter,
    reset_residual,
    update_residual,
)
from ..estimation.rotor_inertia import (
    RotorInertiaEstimate,
    RotorInertiaParameters,
    correct_residual,
    filter_motion,
    make_rotor_inertia_estimate,
    make_rotor_inertia_parameters,
    update_rotor_inertia,
)
from ..estimation.touchdown_detector import (
    LIFTOFF_FORCE_RATIO,
    TOUCHDOWN_FORCE_FRACTION,
    SchmittTrigger,
    make_schmitt_trigger,
    raise_thresholds,
    reset_triggers,
    update_trigger,
)
from ..robot.robot import Robot
from .morphology import FEET, BodyParameters, Morphology
from .motion import Motion
from .stumble_reflex import FootContacts

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
    """

    __slots__ = ("state",)

    def __init__(self, dt: float) -> None:
        self.state = allocate_ground_contact(dt)


#: Multiple of the error of the estimated forces that a force must exceed to count as contact.
ERROR_MULTIPLE = 2.0
#: Time after a start in which the estimated forces are not used [sqrt(l/g)].
STARTUP_TIME = 0.2
#: Normal force with which a foot that lags behind its path counts as in contact, as a fraction of the weight per foot.
BLOCKED_FOOT_FORCE_FRACTION = 0.05
#: Maximum error of the estimated forces that is considered, as a fraction of the weight per foot: the forces of stance
#: feet have to exceed the threshold.
MAX_ERROR = 0.4
#: Ratio to the largest singular value below which a singular value of the force fit counts as zero.
RANK_TOLERANCE = 1e-3
#: Largest estimated rotor inertia [m l^2], time constant with which samples of swings are forgotten, and time over
#: which they are correlated [sqrt(l/g)].
MAX_ROTOR_INERTIA, ROTOR_INERTIA_MEMORY, ROTOR_CORRELATION_TIME = 0.02, 4.0, 0.1


class ContactModel(NamedTuple):
    """Robot and parameters of the estimate of contact forces."""

    bodies: MomentumBodies
    feet: ContactSetArrays
    work: ForceFitWorkspace
    is_active: IntVector  # (4,) ones: the forces of all feet are fitted
    rotors: RotorInertiaParameters
    dt: float  # control period [s]
    startup_time: float  # time after a reset in which the estimated forces are not used [s]
    min_blocked_force: float  # normal force with which a foot that lags behind its path counts as in contact [N]
    max_error: float  # largest error of the estimated forces that is considered [N]
    detects_contacts: bool  # whether the gait follows the contacts in place of the schedule
    needs_forces: bool  # whether forces are estimated also with foot sensors
    estimates_rotors: bool  # whether rotor inertias that the model lacks are estimated where the forces are


class ContactInputs(Record):
    """Inputs of `estimate_contacts` that `walk` computes or measures at each tick."""

    normals: Matrix  # (4, 3) unit normals of the ground under each foot, world
    # Feet that lag behind their paths need less force to count as in contact: the shanks of some robots are so light
    # that a swing foot cannot press harder.
    is_blocked: IntVector  # (4,) whether a foot lags behind its path
    is_at_rest: IntVector  # (4,) whether a foot is far behind its path and hardly moves
    is_mid_swing: IntVector  # (4,) whether a foot is far from the ground
    is_too_fast: IntVector  # (4,) whether a foot is too fast to be in contact, see `is_too_fast`
    is_touching: IntVector  # (4,) whether the sensor of a foot measures contact
    has_sensors: bool  # whether contacts are measured
    has_flight_phase: bool  # whether the gait has flight phases


class ContactEstimate(Record):
    """Estimated contact forces, and which feet are in contact.

    The forces of all feet are estimated, as by `quaddyn.estimation.ContactForceEstimator`, so that touchdowns outside
    the schedule are detected.  The force estimated at a swing foot is the error of the estimate: with masses, damping
    or rotor inertias that differ from those of the robot, it grows with the accelerations of the swing.  The error is
    the second largest of the four feet's maxima over their present or last swings, so that a single foot that meets an
    obstacle in its swing is ignored, and a force counts as contact only beyond a multiple of the error.
    """

    observer: ResidualFilter
    rotors: RotorInertiaEstimate
    residual: Vector  # (nv,) residual of the observer, corrected for the estimated rotor inertias
    trigger: SchmittTrigger
    time: float  # since the last reset [s]
    forces: Matrix  # (4, 3) estimated contact forces on the robot, world axes [N]
    error: float  # error of the estimated forces [N]
    peaks: Vector  # (4,) largest force in the present or last swing of each foot [N]
    was_mid_swing: IntVector  # (4,) `ContactInputs.is_mid_swing` of the last tick
    in_contact: IntVector  # (4,) whether a foot is in contact, as measured or estimated
    is_known: bool  # whether `in_contact` is measured or estimated
    is_followed: bool  # whether the gait follows `in_contact`, in place of its schedule


@compiled()
def compute_uncertainty(e: ContactEstimate) -> float:
    """Returns the upper bound of the error of an estimated contact force [N]."""
    return ERROR_MULTIPLE * e.error


@compiled()
def has_model_mismatch(e: ContactEstimate) -> bool:
    """Returns whether the uncertainty exceeds the contact threshold of a correct model."""
    return compute_uncertainty(e) > e.trigger.touchdown_threshold


@compiled()
def compute_second_largest(x: Vector) -> float:
    """Returns the second largest of at least two entries that are not negative."""
    largest, second = 0.0, 0.0
    for i in range(len(x)):
        second = max(second, min(x[i], largest))
        largest = max(largest, x[i])
    return second


@compiled()
def update_error(m: ContactModel, e: ContactEstimate, is_mid_swing: IntVector) -> None:
    """Updates the error of the estimate from mid-swing feet, whose true contact force is zero.

    The thresholds do not change before the first swing after a reset.
    """
    has_changed = False
    for foot in range(4):
        if is_mid_swing[foot] != 0:
            last_peak = e.peaks[foot] if e.was_mid_swing[foot] != 0 else 0.0
            e.peaks[foot] = max(last_peak, norm(vec3(e.forces[foot])))
        has_changed = has_changed or is_mid_swing[foot] != 0 or e.was_mid_swing[foot] != 0
        e.was_mid_swing[foot] = is_mid_swing[foot]
    if has_changed:
        e.error = min(compute_second_largest(e.peaks), m.max_error)
        raise_thresholds(e.trigger, compute_uncertainty(e))


@compiled()
def detect_contacts(m: ContactModel, e: ContactEstimate, x: ContactInputs) -> None:
    """Updates the contact states from the estimated forces."""
    e.time += m.dt
    update_error(m, e, x.is_mid_swing)
    min_blocked_force = max(m.min_blocked_force, compute_uncertainty(e))
    for foot in range(4):
        force = vec3(e.forces[foot]) @ vec3(x.normals[foot])
        update_trigger(e.trigger, foot, e.time, force)
        # Impacts on obstacles raise the error of the estimate; for a foot at rest, the minimum force is sufficient.
        min_force = min_blocked_force if x.is_at_rest[foot] == 0 else m.min_blocked_force
        is_pressed = x.is_blocked[foot] != 0 and force > min_force
        e.in_contact[foot] = int(x.is_too_fast[foot] == 0 and (e.trigger.in_contact[foot] != 0 or is_pressed))
    e.is_known = e.time >= m.startup_time


@compiled()
def fit_forces(m: ContactModel, e: ContactEstimate, M: Matrix, v: Vector, tau: Vector) -> None:
    """Updates the observer and the forces, with momenta in ``e.observer.current`` and the Jacobian in ``m.work.J``."""
    filter_motion(e.rotors, e.observer, v)
    update_residual(e.observer, v, tau)
    correct_residual(e.rotors, e.observer.r, e.residual)
    for i in range(len(v)):
        for j in range(i + 1):
            m.work.M[i, j] = M[i, j]
        m.work.M[i, i] += e.rotors.inertia[i]
    solve_contact_forces(m.feet, m.work, 12, e.residual)
    for foot in range(4):
        for r in range(3):
            e.forces[foot, r] = m.work.forces[3 * foot + r]


@compiled()
def estimates_forces(m: ContactModel, x: ContactInputs) -> bool:
    """Returns whether the contact forces are estimated at this tick."""
    return m.needs_forces or (m.detects_contacts and not x.has_sensors)


@compiled()
def choose_contacts(m: ContactModel, e: ContactEstimate, x: ContactInputs) -> None:
    """Replaces the estimated contact states by measured ones where sensors exist, and decides about their use.

    In gaits with flight phases estimated contacts are not followed: a flying robot can neither wait for the ground nor
    carry load sooner, and its center-of-mass motion is planned for the moment at which all feet land.
    """
    if x.has_sensors:
        for foot in range(4):
            e.in_contact[foot] = x.is_touching[foot]
        e.is_known = True
    elif not estimates_forces(m, x):
        e.is_known = False
    e.is_followed = x.has_sensors or (e.is_known and m.detects_contacts and not x.has_flight_phase)


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("contacts of the feet")
def estimate_contacts(
    m: ContactModel,
    e: ContactEstimate,
    x: ContactInputs,
    columns: Matrix,
    joint_placements: Tensor,
    M: Matrix,
    v: Vector,
    tau: Vector,
) -> None:
    """Updates the contact forces and the contact states by one tick.

    Args:
        m: robot and parameters.
        e: estimate; updated.
        x: ground and swing feet.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        M: (nv, nv) inertia; only its lower triangle is read.
        v: (nv,) velocity.
        tau: (nu,) torques since the last tick [N m].
    """
    if estimates_forces(m, x):
        compute_momentum_and_drive(m.bodies, columns, joint_placements, v, e.observer.current[0], e.observer.current[1])
        compute_contact_jacobian(m.feet, m.work, m.is_active, columns, joint_placements)
        fit_forces(m, e, M, v, tau)
        if m.estimates_rotors:
            update_rotor_inertia(m.rotors, e.rotors, e.observer.r, x.is_mid_swing)
        detect_contacts(m, e, x)
    choose_contacts(m, e, x)


@entry("contacts of the feet")
def estimate_contacts_of_coupled_joints(
    m: ContactModel, e: ContactEstimate, x: ContactInputs, M: Matrix, v: Vector, tau: Vector
) -> None:
    """Updates the estimate of a robot with coupled joints; momenta and Jacobian are given, as in `fit_forces`.

    Args:
        m: robot and parameters.
        e: estimate; updated.
        x: ground and swing feet.
        M: (nv, nv) inertia; only its lower triangle is read.
        v: (nv,) velocity.
        tau: (nu,) torques since the last tick [N m].
    """
    if estimates_forces(m, x):
        fit_forces(m, e, M, v, tau)
        detect_contacts(m, e, x)
    choose_contacts(m, e, x)


@entry("contacts of the feet")
def write_foot_contacts(m: ContactModel, e: ContactEstimate, x: ContactInputs, contacts: FootContacts) -> None:
    """Writes contact states and forces for the footwork, after `estimate_contacts`."""
    contacts.is_detected = e.is_followed
    contacts.is_unreliable = has_model_mismatch(e) and not x.has_sensors
    contacts.has_forces = m.detects_contacts or m.needs_forces
    contacts.uncertainty = compute_uncertainty(e)
    contacts.in_contact[:] = e.in_contact
    contacts.is_too_fast[:] = x.is_too_fast
    contacts.forces[:] = e.forces


@entry("contacts of the feet")
def reset_contact_estimate(e: ContactEstimate) -> None:
    """Resets all estimates but the rotor inertias.

    Raised thresholds stay raised until the next swing, since the model is the same.
    """
    reset_residual(e.observer)
    reset_triggers(e.trigger)
    e.time, e.error = 0.0, 0.0
    for foot in range(4):
        e.peaks[foot] = 0.0
        e.was_mid_swing[foot] = 0
        for r in range(3):
            e.forces[foot, r] = 0.0


def make_contact_model(
    robot: Robot,
    morphology: Morphology,
    dt: float,
    *,
    detects_contacts: bool = True,
    needs_forces: bool = True,
    estimates_rotors: bool = False,
) -> ContactModel:
    """Creates the parameters of the estimate.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
        detects_contacts: whether the gait follows the contacts in place of the schedule.
        needs_forces: whether forces are estimated also with foot sensors.
        estimates_rotors: whether rotor inertias that the model lacks are estimated where the forces are.
    """
    time_scale, weight = morphology.time_scale, morphology.mass * morphology.gravity / len(FEET)
    contact_set = ContactSet.from_feet(robot, FEET)
    return ContactModel(
        bodies=make_momentum_bodies(robot),
        feet=make_contact_set_arrays(robot, contact_set, joints=False, tolerance=RANK_TOLERANCE),
        work=make_force_fit_workspace(3 * len(FEET), robot.nv),
        is_active=np.ones(len(FEET), dtype=np.int64),
        rotors=make_rotor_inertia_parameters(
            robot,
            FEET,
            MAX_ROTOR_INERTIA * morphology.mass * morphology.length**2,
            memory=ROTOR_INERTIA_MEMORY * time_scale,
            correlation_time=ROTOR_CORRELATION_TIME * time_scale,
            dt=dt,
        ),
        dt=dt,
        startup_time=STARTUP_TIME * time_scale,
        min_blocked_force=BLOCKED_FOOT_FORCE_FRACTION * weight,
        max_error=MAX_ERROR * weight,
        detects_contacts=detects_contacts,
        needs_forces=needs_forces,
        estimates_rotors=estimates_rotors and robot.coupling is None,
    )


def make_contact_estimate(robot: Robot, morphology: Morphology, dt: float) -> ContactEstimate:
    """Creates the state of the estimate at the start; for the arguments see `make_contact_model`."""
    time_scale = morphology.time_scale
    touchdown_threshold = TOUCHDOWN_FORCE_FRACTION * morphology.mass * morphology.gravity / len(FEET)
    thresholds = touchdown_threshold, LIFTOFF_FORCE_RATIO * touchdown_threshold
    beta = np.full(robot.nv, math.exp(-dt / (FORCE_TIME_CONSTANT * time_scale)))
    return ContactEstimate.from_values(
        observer=make_residual_filter(robot, dt, beta),
        rotors=make_rotor_inertia_estimate(robot),
        residual=np.zeros(robot.nv),
        trigger=make_schmitt_trigger(len(FEET), *thresholds, CONTACT_DWELL_TIME * time_scale),
        time=0.0,
        forces=np.zeros((len(FEET), 3)),
        error=0.0,
        peaks=np.zeros(len(FEET)),
        was_mid_swing=np.zeros(len(FEET), dtype=np.int64),
        in_contact=np.zeros(len(FEET), dtype=np.int64),
        is_known=False,
        is_followed=False,
    )


def allocate_contact_inputs() -> ContactInputs:
    """Returns a record for `estimate_contacts`."""
    feet = dict.fromkeys(("is_blocked", "is_at_rest", "is_mid_swing", "is_too_fast", "is_touching"), len(FEET))
    return ContactInputs.allocate(normals=(len(FEET), 3), **feet)
