"""`ContactMonitor`: detection of lost ground contact in stance, and of touchdowns in flight."""

from __future__ import annotations

import math

import numpy as np

from ..contact import ContactSet
from ..dynamics import State
from ..estimation import ContactForceEstimator, TouchdownDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import FEET, Morphology

#: Minimum number of feet on which a robot can stand.
MIN_STANCE_FEET = 3
#: Time without any contact, and time with too few contacts, after which the ground counts as lost [sqrt(l/g)].
NO_CONTACT_TIME, FEW_CONTACTS_TIME = 0.02, 0.25
#: Without foot sensors: time constant of the estimated ground force [sqrt(l/g)], fraction of the weight below which the
#: robot is falling, and speed above which a stance foot has no ground under it [sqrt(g l)].
GROUND_FORCE_TIME, FALLING_FORCE_FRACTION, MAX_STANCE_FOOT_SPEED = 0.05, 0.5, 0.1
#: Ground force below which the robot is in free fall, as a fraction of the weight.
FREE_FALL_FORCE_FRACTION = 0.15
#: Minimum time of standing before a recovery step [sqrt(l/g)].
RECOVERY_DELAY = 0.1
#: Maximum deviation of stance feet from a common plane [l].
COPLANARITY_TOLERANCE = 0.01
#: Time constant of estimated contact forces, and minimum time for which they must last [sqrt(l/g)].
FORCE_TIME_CONSTANT, CONTACT_DWELL_TIME = 0.02, 0.01


class ContactMonitor:
    """Detector of lost ground contact, and of the touchdowns after it.

    *Ground lost*: with foot sensors, if no foot is in contact, or fewer than three for some time.  Without, if the
    center of mass accelerates downward as in a fall while stance feet move: without ground the contact forces that the
    controller assumes do not act, and the torques move the legs.

    *Touchdown*: ground contact is restored when a foot sensor or the estimated contact force
    (`quaddyn.estimation`) reports a touchdown.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].
    """

    __slots__ = (
        "_detector",
        "_dt",
        "_estimator",
        "_few_contacts_time",
        "_ground_force",
        "_last_rate",
        "_last_sample",
        "_morphology",
        "_no_contact_time",
        "_robot",
        "_stance_time",
        "_time",
    )

    def __init__(self, robot: Robot, morphology: Morphology, dt: float) -> None:
        self._robot, self._morphology, self._dt = robot, morphology, dt
        time_scale = morphology.time_scale
        self._estimator = ContactForceEstimator(
            ContactSet.from_feet(robot, FEET), dt=dt, gain=1.0 / (FORCE_TIME_CONSTANT * time_scale)
        )
        self._detector = TouchdownDetector(robot, dwell_time=CONTACT_DWELL_TIME * time_scale)
        self.reset()

    def reset(self) -> None:
        """Resets all estimates; the robot is assumed to stand."""
        self._last_sample: tuple[float, Array] | None = None
        self._last_rate: float | None = None
        self._ground_force: float | None = None
        self._no_contact_time = self._few_contacts_time = 0.0
        self._estimator.reset()
        self._detector.reset()
        self._time = self._stance_time = 0.0

    def is_coplanar(self, feet: Array) -> bool:
        """Returns whether all feet may be in contact: whether their lowest points are near one plane.

        Args:
            feet: (4, 3) centers of the foot spheres, world [m].
        """
        bottoms = feet - np.array([0.0, 0.0, 1.0]) * self._morphology.radii[:, None]
        plane_deviation = np.linalg.svd(bottoms - bottoms.mean(axis=0), compute_uv=False)[2]
        return bool(plane_deviation <= COPLANARITY_TOLERANCE * self._morphology.length)

    def ground_lost(self, rate: float, feet: Array, measured_contacts: tuple[str, ...] | None) -> bool:
        """Returns whether a standing robot has lost the ground; call it at every tick in stance.

        Args:
            rate: vertical velocity of the center of mass [m/s].
            feet: (4, 3) centers of the foot spheres, world [m].
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        p, dt, last_sample = self._morphology, self._dt, self._last_sample
        self._stance_time += dt
        self._last_sample = rate, feet
        if measured_contacts is not None:
            self._no_contact_time = 0.0 if measured_contacts else self._no_contact_time + dt
            self._few_contacts_time = 0.0 if len(measured_contacts) >= MIN_STANCE_FEET else self._few_contacts_time + dt
            return (
                self._no_contact_time >= max(2.0 * dt, NO_CONTACT_TIME * p.time_scale)
                or self._few_contacts_time >= FEW_CONTACTS_TIME * p.time_scale
            )
        if last_sample is None or self._stance_time <= 2.0 * dt:  # soft ground does not push before it is pressed
            return False
        if self._update_ground_force(rate, last_sample[0], GROUND_FORCE_TIME) > FALLING_FORCE_FRACTION * p.gravity:
            return False
        displacement = feet - last_sample[1]
        return (
            math.sqrt(float((displacement * displacement).sum(axis=1).max()))
            > MAX_STANCE_FOOT_SPEED * p.speed_scale * dt
        )

    @property
    def is_supported(self) -> bool:
        """Whether the acceleration of the center of mass shows that the ground carries more than half of the weight.

        It is measured by `ground_lost`, from the third tick on, without foot sensors only.
        """
        return self._ground_force is not None and self._ground_force > FALLING_FORCE_FRACTION * self._morphology.gravity

    @property
    def is_settled(self) -> bool:
        """Whether the robot has stood long enough for a loss of the ground to be detected."""
        return self._stance_time >= RECOVERY_DELAY * self._morphology.time_scale

    def begin_touchdown_search(self) -> None:
        """Starts the detection of touchdowns, with all feet in the air."""
        self.reset()
        self._ground_force = 0.0

    def detect_touchdown(self, state: State, tau: Array, measured_contacts: tuple[str, ...] | None) -> tuple[str, ...]:
        """Returns the names of the feet in contact.

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        if measured_contacts is not None:
            return tuple(foot for foot in FEET if foot in measured_contacts)
        forces, rate = self._estimator.update(state, tau).forces, float(state.com_velocity[2])
        self._time += self._dt
        ground_force = (
            0.0 if self._last_rate is None else self._update_ground_force(rate, self._last_rate, FORCE_TIME_CONSTANT)
        )
        self._last_rate = rate
        if (
            ground_force < FREE_FALL_FORCE_FRACTION * self._morphology.gravity
        ):  # in free fall, estimated contact forces are errors of the estimate
            self._detector.reset()
            return ()
        self._detector.update(self._time, forces)
        return tuple(foot for foot in FEET if foot in self._detector.feet_in_contact)

    def _update_ground_force(self, rate: float, last_rate: float, time: float) -> float:
        """Updates the filtered vertical ground force per mass and returns it [m/s^2].

        Args:
            rate: vertical velocity of the center of mass [m/s].
            last_rate: vertical velocity one tick earlier [m/s].
            time: time constant of the filter [sqrt(l/g)].
        """
        force_per_mass = (rate - last_rate) / self._dt + self._morphology.gravity
        alpha = self._dt / (time * self._morphology.time_scale + self._dt)
        self._ground_force = (
            force_per_mass
            if self._ground_force is None
            else self._ground_force + alpha * (force_per_mass - self._ground_force)
        )
        return self._ground_force
