"""`SlipDetector`: slip probability of each foot, and the friction coefficient that slips show."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, entry, local
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .contact_forces import BodyPoints, compute_body_velocity, compute_position, make_body_points
from .foot_forces import FootForces, FootLoads
from .sensor_noise import SensorNoise

#: Probability above which a foot counts as slipping, and below which it no longer does.
SLIP_ONSET_PROBABILITY, SLIP_END_PROBABILITY = 0.9, 0.5
#: Maximum logarithm of odds.
MAX_LOG_ODDS = 50.0
#: Ratio of a foot's speed to that shortly before below which it is decelerating and gives no friction estimate.
BRAKED_SPEED_FRACTION = 0.9
#: Maximum squared residual of a foot's velocity, divided by its variance, at which it is used for the creep compliance.
CREEP_GATE = 9.0


class SlipModel(NamedTuple):
    """Constant parameters of a `SlipDetector`."""

    holding_variance: float  # variance of the velocity of a holding foot, per axis [m^2/s^2]
    slipping_variance: float  # variance of the velocity of a slipping foot, per axis [m^2/s^2]
    touchdown_variance: float  # variance added to those of the velocity at touchdown [m^2/s^2]
    touchdown_decay: float  # factor of that variance from one update to the next
    max_gap: float  # longest time without load after which a foot has not landed again [updates]
    settled_variance: float  # touchdown variance below which a foot is used for the creep compliance [m^2/s^2]
    onset_probability: float  # probability that a slip starts between two updates
    end_probability: float  # probability that a slip ends between two updates
    reading_weight: float  # weight of one reading, since successive ones are correlated
    evidence_decay: float  # factor of the evidence of slips from one update to the next
    min_evidence: float  # minimum mean of squared normal forces for a friction estimate [N^2]
    min_normal_force: float  # minimum normal force of a foot for creep compliance and held ratio [N]
    creep_prior_variance: float  # prior variance of the creep compliance [(m/s/N)^2]
    creep_relative_variance: float  # variance of the creep compliance from foot to foot, divided by its square
    max_creep: float  # maximum creep compliance [m/s/N]
    creep_decay: float  # factor of the evidence of creep from one update to the next
    holding_alpha: float  # weight of one reading in the held ratio
    radius: Vector  # (nf,) radii of the foot spheres [m]


class SlipMemory(Record):
    """State of a `SlipDetector`, for each foot and for the creep compliance."""

    probability: Vector  # (nf,) that a foot slips
    is_slipping: IntVector  # (nf,) whether a foot counts as slipping
    evidence: Matrix  # (nf, 2) sums of tangential times normal and of squared normal forces [N^2]
    touchdown_variance: Vector  # (nf,) remaining touchdown variance of the velocity [m^2/s^2]
    unloaded_updates: Vector  # (nf,) time without load [updates]
    speed: Vector  # (nf,) speed along the ground shortly before [m/s]
    unbraked_updates: Vector  # (nf,) time of slip without deceleration, minus that with it [updates]
    held_ratio: Vector  # (nf,) mean ratio of tangential to normal force while a foot holds
    creep: Vector  # (2,) sums of velocity against force times force [N m/s], and of squared force [N^2]
    motion: Matrix  # (nf, 6) velocities of the centers of the foot spheres, linear before angular, world axes


def make_slip_memory(m: SlipModel) -> SlipMemory:
    """Creates the state of a detector before its first update."""
    n = len(m.radius)
    memory = SlipMemory.allocate(
        probability=n, is_slipping=n, evidence=(n, 2), touchdown_variance=n, unloaded_updates=n, speed=n,
        unbraked_updates=n, held_ratio=n, creep=2, motion=(n, 6),
    )  # fmt: skip
    reset_slip_memory(m, memory)
    return memory


@compiled()
def reset_foot(f: SlipMemory, i: int) -> None:
    """Resets the state of a foot to that before a touchdown, but for `update_touchdown_variance`."""
    f.probability[i] = 0.0
    f.is_slipping[i] = 0
    f.evidence[i, 0], f.evidence[i, 1] = 0.0, 0.0
    f.speed[i], f.unbraked_updates[i], f.held_ratio[i] = 0.0, 0.0, 0.0


@compiled()
def reset_slip_memory(m: SlipModel, f: SlipMemory) -> None:
    """Resets the detector: no foot slips, friction and creep compliance are unknown."""
    f.creep[0], f.creep[1] = 0.0, 0.0
    for i in range(len(f.probability)):
        reset_foot(f, i)
        f.touchdown_variance[i] = m.touchdown_variance
        f.unloaded_updates[i] = 0.0


@compiled()
def update_touchdown_variance(m: SlipModel, f: SlipMemory, i: int, is_loaded: bool) -> None:
    """Updates the touchdown variance of a foot, which starts again if the foot has no load for more than a short gap.

    Contact states and estimated forces drop out for single readings at lift-off and at impacts of other feet.
    """
    f.unloaded_updates[i] = 0.0 if is_loaded else f.unloaded_updates[i] + 1.0
    f.touchdown_variance[i] = (
        m.touchdown_variance if f.unloaded_updates[i] > m.max_gap else m.touchdown_decay * f.touchdown_variance[i]
    )


@compiled()
def compute_slip_posterior(m: SlipModel, p: float, odds: float) -> float:
    """Computes the probability of a slip by Bayes' rule from the previous one and the log odds of a reading."""
    p = p * (1.0 - m.end_probability) + (1.0 - p) * m.onset_probability
    odds = math.log(p / (1.0 - p)) + m.reading_weight * min(odds, MAX_LOG_ODDS)
    return 1.0 / (1.0 + math.exp(-min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)))


@entry("the slip detector")
def update_slip_probabilities(m: SlipModel, f: SlipMemory, loads: FootLoads) -> None:
    """Updates the slip probability, friction estimate and creep compliance of all feet by one step.

    Args:
        m: parameters.
        f: state, with the velocities of the feet in contact in `f.motion`; updated.
        loads: contact states, forces and normals.
    """
    tangential_velocity, shear = local(3), local(3)
    motion, forces, has_force, normals = f.motion, loads.forces, loads.has_force, loads.normals
    f.creep[0] *= m.creep_decay
    f.creep[1] *= m.creep_decay
    information = f.creep[1] + m.holding_variance / m.creep_prior_variance
    compliance = min(max(f.creep[0] / information, 0.0), m.max_creep)
    compliance_variance = m.holding_variance / information + m.creep_relative_variance * compliance * compliance
    for i in range(len(loads.in_contact)):
        if loads.in_contact[i] == 0:
            reset_foot(f, i)
            update_touchdown_variance(m, f, i, False)
            continue
        normal = normals[i]
        for r in range(3):
            a, b = (r + 1) % 3, (r + 2) % 3
            rotation_speed = motion[i, 3 + a] * normal[b] - motion[i, 3 + b] * normal[a]
            tangential_velocity[r] = motion[i, r] - m.radius[i] * rotation_speed
        normal_speed = (
            tangential_velocity[0] * normal[0] + tangential_velocity[1] * normal[1] + tangential_velocity[2] * normal[2]
        )
        normal_force = forces[i, 0] * normal[0] + forces[i, 1] * normal[1] + forces[i, 2] * normal[2]
        speed_square, shear_square, creep_power = 0.0, 0.0, 0.0
        for r in range(3):
            tangential_velocity[r] -= normal_speed * normal[r]
            shear[r] = forces[i, r] - normal_force * normal[r] if has_force[i] != 0 and normal_force > 0.0 else 0.0
            speed_square += tangential_velocity[r] * tangential_velocity[r]
            shear_square += shear[r] * shear[r]
            creep_power -= tangential_velocity[r] * shear[r]
        # A foot that holds moves at ``-c f``: its velocity along the force is less certain than that across it.
        across_square = (
            max(speed_square - creep_power * creep_power / shear_square, 0.0)
            if shear_square > 0.0
            else 0.5 * speed_square
        )
        excess = creep_power - compliance * shear_square
        along_error = excess * excess / shear_square if shear_square > 0.0 else 0.5 * speed_square
        across_variance = (
            m.holding_variance
            + f.touchdown_variance[i]
            + m.creep_relative_variance * compliance * compliance * shear_square
        )
        along_variance = m.holding_variance + f.touchdown_variance[i] + compliance_variance * shear_square
        slip_variance = m.slipping_variance + f.touchdown_variance[i]
        odds = 0.5 * (
            along_error / along_variance
            + across_square / across_variance
            - speed_square / slip_variance
            + math.log(along_variance * across_variance / (slip_variance * slip_variance))
        )
        # A foot with a small normal force has not landed yet, or lands again.
        update_touchdown_variance(m, f, i, has_force[i] == 0 or normal_force >= m.min_normal_force)
        p = compute_slip_posterior(m, f.probability[i], odds)
        f.probability[i] = p
        # The first reading of a slip is its reference speed: a foot that is jolted, as where a contact drops out for
        # one reading, is braked from then on.
        speed_weight = m.reading_weight if f.is_slipping[i] != 0 else 1.0
        f.is_slipping[i] = 1 if p > (SLIP_END_PROBABILITY if f.is_slipping[i] != 0 else SLIP_ONSET_PROBABILITY) else 0
        speed, tangential = math.sqrt(speed_square), math.sqrt(shear_square)
        braked = speed < BRAKED_SPEED_FRACTION * f.speed[i]
        f.speed[i] += speed_weight * (speed - f.speed[i])
        f.unbraked_updates[i] = (
            max(f.unbraked_updates[i] + (-1.0 if braked else 1.0), 0.0) if f.is_slipping[i] != 0 else 0.0
        )
        if has_force[i] == 0 or not normal_force > 0.0:
            continue
        # Recursive least squares for tangential over normal force, weighted with the slip probability.  A foot that a
        # soft contact brakes is below the friction limit.
        if not braked:
            weight = (1.0 - m.evidence_decay) * p
            f.evidence[i, 0] = m.evidence_decay * f.evidence[i, 0] + weight * tangential * normal_force
            f.evidence[i, 1] = m.evidence_decay * f.evidence[i, 1] + weight * normal_force * normal_force
        if normal_force < m.min_normal_force or f.touchdown_variance[i] > m.settled_variance:
            continue
        f.held_ratio[i] += m.holding_alpha * (
            (tangential / normal_force if p < SLIP_END_PROBABILITY else 0.0) - f.held_ratio[i]
        )
        if along_error < CREEP_GATE * along_variance and across_square < CREEP_GATE * across_variance:
            f.creep[0] += m.reading_weight * (1.0 - p) * creep_power
            f.creep[1] += m.reading_weight * (1.0 - p) * shear_square


@compiled()
def compute_foot_motion(
    f: SlipMemory, feet: BodyPoints, in_contact: IntVector, columns: Matrix, joint_placements: Tensor, v: Vector
) -> None:
    """Computes the velocities of the feet in contact from the kinematics and writes them to ``f.motion``.

    Args:
        f: state; updated.
        feet: centers of the foot spheres.
        in_contact: (nf,) whether a foot is in contact.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
    """
    at = local(3)
    for i in range(len(in_contact)):
        if in_contact[i] != 0:
            compute_position(feet, joint_placements, i, at)
            compute_body_velocity(feet, columns, v, i, at, f.motion[i])


@entry("the slip detector")
def update_slip_from_state(
    m: SlipModel,
    f: SlipMemory,
    feet: BodyPoints,
    loads: FootLoads,
    columns: Matrix,
    joint_placements: Tensor,
    v: Vector,
) -> None:
    """Computes the foot velocities from the kinematics and calls `update_slip_probabilities`.

    Args:
        m: parameters.
        f: state; updated.
        feet: centers of the foot spheres.
        loads: contact states, forces and normals.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
    """
    compute_foot_motion(f, feet, loads.in_contact, columns, joint_placements, v)
    update_slip_probabilities(m, f, loads)


@entry("the slip detector")
def estimate_slip_friction(m: SlipModel, f: SlipMemory, updates: float) -> float:
    """Returns the smallest ratio of tangential to normal force of all slipping feet; inf if there is none.

    Args:
        m: parameters.
        f: state.
        updates: minimum time of slip without deceleration [updates].
    """
    smallest = math.inf
    for i in range(len(f.is_slipping)):
        if f.is_slipping[i] != 0 and f.evidence[i, 1] > m.min_evidence and f.unbraked_updates[i] >= updates:
            smallest = min(smallest, f.evidence[i, 0] / f.evidence[i, 1])
    return smallest


@entry("the slip detector")
def find_max_held_ratio(f: SlipMemory) -> float:
    """Returns the largest ratio of tangential to normal force transmitted by a foot for some time without slip."""
    largest = 0.0
    for i in range(len(f.held_ratio)):
        largest = max(largest, f.held_ratio[i])
    return largest


#: Standard deviation of the velocity of a foot that slips, by axis [sqrt(g l)].
SLIDING_SPEED = 0.3
#: Rate at which a foot starts to slip [1/sqrt(l/g)], and mean duration of a slip [sqrt(l/g)].
ONSET_RATE, SLIP_TIME = 0.1, 0.3
#: Correlation time of the errors of a foot's velocity [sqrt(l/g)].
CORRELATION_TIME = 0.02
#: Time constant of the friction estimate during slips [sqrt(l/g)].
FRICTION_TIME = 0.1
#: Minimum mean of squared normal forces of slips for a friction estimate [(m g / n)^2].
MIN_EVIDENCE = 0.1
#: Standard deviation of a foot's tangential velocity at touchdown [sqrt(g l)], the time constant with which contacts
#: brake it [sqrt(l/g)], and the deviation below which it no longer disturbs the creep estimate [sqrt(g l)].
TOUCHDOWN_SPEED, BRAKING_TIME, SETTLED_SPEED = 0.5, 0.075, 0.01
#: Longest time without load that is not the end of a contact [sqrt(l/g)]; one reading in any case.
MAX_GAP = 0.03
#: Creep compliance in sqrt(g l) per m g / n, n the number of feet: standard deviation before anything is measured,
#: maximum, and difference between feet as a fraction.
UNKNOWN_CREEP, MAX_CREEP, CREEP_FRACTION = 0.3, 0.5, 0.25
#: Time constant of the creep compliance [sqrt(l/g)].
CREEP_TIME = 20.0
#: Time constant of the ratio of forces that a foot holds [sqrt(l/g)], and minimum normal force [m g / n].
HOLDING_TIME, MIN_HOLDING_FORCE = 0.3, 0.2


def make_slip_model(robot: Robot, feet: Sequence[str], dt: float, length: float, noise: SensorNoise) -> SlipModel:
    """Creates the constant parameters of a slip detector.

    Args:
        robot: a robot with feet.
        feet: names of all feet, in the order of the detector's arrays.
        dt: time between updates [s].
        length: leg length, as the unit of times and speeds [m].
        noise: standard deviations of the sensors.
    """
    gravity = float(np.linalg.norm(robot.model.gravity.linear))
    time_unit = math.sqrt(length / gravity)
    weight_per_foot = robot.mass * gravity / len(feet)
    speed_unit_squared = gravity * length
    holding_variance = noise.contact_velocity**2 + (length * noise.velocity) ** 2
    compliance = math.sqrt(speed_unit_squared) / weight_per_foot  # unit of the creep compliance [m/s/N]
    return SlipModel(
        holding_variance=holding_variance,
        slipping_variance=holding_variance + SLIDING_SPEED**2 * speed_unit_squared,
        touchdown_variance=TOUCHDOWN_SPEED**2 * speed_unit_squared,
        touchdown_decay=math.exp(-2.0 * dt / (BRAKING_TIME * time_unit)),
        max_gap=max(1.0, MAX_GAP * time_unit / dt),
        settled_variance=SETTLED_SPEED**2 * speed_unit_squared,
        onset_probability=min(1.0, ONSET_RATE * dt / time_unit),
        end_probability=min(1.0, dt / (SLIP_TIME * time_unit)),
        reading_weight=min(1.0, dt / (CORRELATION_TIME * time_unit)),
        evidence_decay=math.exp(-dt / (FRICTION_TIME * time_unit)),
        min_evidence=MIN_EVIDENCE * weight_per_foot**2,
        min_normal_force=MIN_HOLDING_FORCE * weight_per_foot,
        creep_prior_variance=(UNKNOWN_CREEP * compliance) ** 2,
        creep_relative_variance=CREEP_FRACTION**2,
        max_creep=MAX_CREEP * compliance,
        creep_decay=math.exp(-dt / (CREEP_TIME * time_unit)),
        holding_alpha=dt / (HOLDING_TIME * time_unit + dt),
        radius=np.array([robot.legs[foot].foot.radius for foot in feet]),
    )


@renamed_attributes(
    probability="slip_probability",
    friction="friction_estimate",
    slipping="slipping_feet",
    friction_after="estimate_friction",
    held="max_held_ratio",
    creep="creep_compliance",
)
class SlipDetector(StrictAttributes, fixed=("robot", "dt", "length", "noise")):
    """Detector of slipping feet, from the tangential velocity of their contact points and from their contact forces.

    Each foot is a hidden Markov chain with the states holding and slipping.  Soft contacts creep under tangential load:
    the contact point of a holding foot moves at ``-c f``, with the tangential force f on the robot and the creep
    compliance c, up to a normally distributed error.  The velocity of a slipping foot is normally distributed with a
    larger variance, independent of the force.  Bayes' rule converts each reading to odds (forward recursion of Rabiner
    1989, "A tutorial on hidden Markov models").  Errors of an estimated velocity are correlated in time; therefore each
    of successive readings has the weight of a fraction of an independent one.  At touchdown a foot has a tangential
    velocity that the contact has to brake, so that the variance of its velocity is larger at first.  Swing feet do not
    slip; their state is reset at touchdown.

    The creep compliance is estimated by recursive least squares from holding feet, with its uncertainty: as long as it
    is unknown, only a motion that no plausible compliance explains is classified as a slip.

    While a foot slips, the tangential force is the maximum that its friction allows: the ratio of tangential to normal
    force is the friction coefficient, estimated by least squares over the last forces.  The ratio of a holding foot is
    a lower bound of the coefficient.

    Args:
        robot: a robot with feet.
        dt: time between updates [s].
        length: leg length, as the unit of times and speeds [m].
        noise: standard deviations of the sensors; None for those of a commercial quadruped.

    Attributes:
        robot: as given.
        dt: as given [s].
        length: as given [m].

    Raises:
        ArgumentTypeError: `robot` is not a Robot, or `noise` not a `SensorNoise`.
        ArgumentError: the robot has no feet, or a number is out of range.
    """

    def __init__(self, robot: Robot, *, dt: float, length: float, noise: SensorNoise | None = None) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if not robot.feet:
            raise ArgumentError(f"robot: expected a robot with feet, got {robot.name!r}, which has none")
        noise = SensorNoise() if noise is None else noise
        if not isinstance(noise, SensorNoise):
            raise ArgumentTypeError(f"noise: expected a SensorNoise, got {type(noise).__name__}")
        self.robot, self.dt, self.length, self.noise = (
            robot,
            check_number("dt", dt),
            check_number("length", length),
            noise,
        )
        for name, value in (("dt", self.dt), ("length", self.length)):
            if not 0.0 < value < math.inf:
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        feet = robot.feet
        self._model = make_slip_model(robot, feet, self.dt, self.length, noise)
        self._memory = make_slip_memory(self._model)
        self._points = (
            make_body_points(robot, [(foot, np.zeros(3)) for foot in feet]) if robot.coupling is None else None
        )
        self._forces = FootForces(feet)

    def reset(self) -> None:
        """Resets the detector: no foot slips, friction and creep compliance are unknown."""
        reset_slip_memory(self._model, self._memory)

    @property
    def slip_probability(self) -> dict[str, float]:
        """Probability that a foot slips, by name; 0 for swing feet."""
        return dict(zip(self.robot.feet, self._memory.probability.tolist(), strict=True))

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that slip."""
        return tuple(
            foot for foot, slips in zip(self.robot.feet, self._memory.is_slipping.tolist(), strict=True) if slips
        )

    @property
    def friction_estimate(self) -> float | None:
        """Friction coefficient estimated from the feet that slip now, the minimum of all; None while no foot slips."""
        return self.estimate_friction(0.0)

    def estimate_friction(self, min_slip_time: float) -> float | None:
        """Estimates the friction coefficient from feet that have slipped for a minimum time; None without such feet.

        Args:
            min_slip_time: minimum time of slip without deceleration, minus the time with it [s].
        """
        friction = float(
            estimate_slip_friction(self._model, self._memory, check_number("time", min_slip_time) / self.dt)
        )
        return None if friction == math.inf else friction

    @property
    def max_held_ratio(self) -> float:
        """Largest ratio of tangential to normal force of a foot that does not slip; 0 without such feet."""
        return float(find_max_held_ratio(self._memory))

    @property
    def creep_compliance(self) -> float:
        """Estimated creep compliance, velocity divided by tangential force [m/s/N]."""
        model, (product, square) = self._model, self._memory.creep.tolist()
        creep: float = product / (square + model.holding_variance / model.creep_prior_variance)
        return min(max(creep, 0.0), model.max_creep)

    @renamed_parameters(touching="contacts")
    def update(
        self, s: State, forces: Mapping[str, Array] | Array, contacts: Collection[str], *, normal: Array | None = None
    ) -> tuple[str, ...]:
        """Updates the detector by one step and returns the names of the feet that slip.

        Args:
            s: present estimated state.
            forces: (3,) by name of the foot, or (nf, 3) of all feet, estimated, on the robot, world axes [N].
            contacts: names of the feet in contact.
            normal: (3,) unit normal out of the ground, or (nf, 3) of the ground under each foot; None for world z.

        Raises:
            ArgumentError: `normal` has a wrong shape or is not finite, or the state belongs to another robot.
            UnknownNameError: `contacts` or `forces` has a name that is not a foot.
        """
        if not isinstance(s, State) or s.robot is not self.robot:
            raise ArgumentError(f"s: expected a State of {self.robot.name!r}, got {s!r}")
        foot_forces, loads, model, memory = self._forces, self._forces.loads, self._model, self._memory
        foot_forces.set_normals(normal)
        foot_forces.set_contacts(contacts)
        foot_forces.set_forces(forces)
        if self._points is not None:
            v = s.writable_coordinates()[1]
            update_slip_from_state(model, memory, self._points, loads, *s.kinematic_arrays(), v)
        else:
            for row, foot in zip(memory.motion, self.robot.feet, strict=True):
                row[:] = s.velocity(foot)
            update_slip_probabilities(model, memory, loads)
        return self.slipping_feet
