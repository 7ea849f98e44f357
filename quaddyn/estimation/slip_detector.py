"""`SlipDetector`: slip probability of each foot, and the friction coefficient that slips show."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .body_points import make_body_points
from .foot_forces import FootForces
from .sensor_noise import SensorNoise
from .slip_kernel import (
    SlipModel,
    estimate_slip_friction,
    find_max_held_ratio,
    make_slip_memory,
    reset_slip_memory,
    update_slip_from_state,
    update_slip_probabilities,
)

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
    time_unit, weight_per_foot, speed_unit_squared = (
        math.sqrt(length / gravity),
        robot.mass * gravity / len(feet),
        gravity * length,
    )
    holding_variance = noise.contact_velocity**2 + (length * noise.velocity) ** 2
    compliance = math.sqrt(speed_unit_squared) / weight_per_foot  # unit of the creep compliance [m/s/N]
    return SlipModel(
        holding_variance=holding_variance,
        slipping_variance=holding_variance + SLIDING_SPEED**2 * speed_unit_squared,
        touchdown_variance=TOUCHDOWN_SPEED**2 * speed_unit_squared,
        touchdown_decay=math.exp(-2.0 * dt / (BRAKING_TIME * time_unit)),
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
