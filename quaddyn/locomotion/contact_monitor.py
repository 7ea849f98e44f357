"""`ContactMonitor`: detection of lost ground contact in stance, and of touchdowns in flight."""

from __future__ import annotations

import numpy as np

from ..contact import ContactSet
from ..dynamics import State
from ..estimation import ContactForceEstimator, TouchdownDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .ground_contact import (
    FLIGHT_FORCE_TIME,
    GroundEvent,
    allocate_ground_contact,
    begin_flight,
    check_ground,
    ground_lost,
    is_coplanar,
    is_in_free_fall,
    is_settled,
    reset_ground_contact,
)
from .morphology import FEET, Morphology, make_body_parameters
from .motion import CentroidalState

#: Time constant of estimated contact forces, and minimum time for which they must last [sqrt(l/g)].
FORCE_TIME_CONSTANT, CONTACT_DWELL_TIME = FLIGHT_FORCE_TIME, 0.01


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

    __slots__ = ("_body", "_contacts", "_detector", "_dt", "_estimator", "_time", "state")

    def __init__(self, robot: Robot, morphology: Morphology, dt: float) -> None:
        self._dt, self._body = dt, make_body_parameters(morphology)
        self._contacts, self.state = np.zeros(4, dtype=np.int64), allocate_ground_contact(dt)
        time_scale = morphology.time_scale
        self._estimator = ContactForceEstimator(
            ContactSet.from_feet(robot, FEET), dt=dt, gain=1.0 / (FORCE_TIME_CONSTANT * time_scale)
        )
        self._detector = TouchdownDetector(robot, dwell_time=CONTACT_DWELL_TIME * time_scale)
        self.reset()

    def reset(self) -> None:
        """Resets all estimates; the robot is assumed to stand."""
        reset_ground_contact(self.state)
        self._estimator.reset()
        self._detector.reset()
        self._time = 0.0

    def is_coplanar(self, feet: Array) -> bool:
        """Returns whether all feet may be in contact: whether their lowest points are near one plane.

        Args:
            feet: (4, 3) centers of the foot spheres, world [m].
        """
        return bool(is_coplanar(self._body, np.ascontiguousarray(feet)))

    def ground_lost(self, rate: float, feet: Array, measured_contacts: tuple[str, ...] | None) -> bool:
        """Returns whether a standing robot has lost the ground; call it at every tick in stance.

        Args:
            rate: vertical velocity of the center of mass [m/s].
            feet: (4, 3) centers of the foot spheres, world [m].
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        contacts, is_measured = self._mask_contacts(measured_contacts), measured_contacts is not None
        feet = np.ascontiguousarray(feet)
        return bool(ground_lost(self.state, self._body, float(rate), feet, contacts, is_measured))

    def check_ground(self, motion: CentroidalState, measured_contacts: tuple[str, ...] | None) -> GroundEvent:
        """Returns whether a standing robot has lost the ground, or is known to be carried by it.

        Call it at every tick in stance, instead of `ground_lost`.

        Args:
            motion: present state of center of mass and trunk.
            measured_contacts: names of the feet in contact; None without foot sensors.
        """
        is_measured = measured_contacts is not None
        contacts = self._mask_contacts(measured_contacts)
        return GroundEvent(check_ground(self.state, self._body, motion.state, contacts, is_measured))

    def _mask_contacts(self, names: tuple[str, ...] | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Returns whether each foot is named."""
        if names is not None:
            self._contacts[:] = [foot in names for foot in FEET]
        return self._contacts

    @property
    def is_settled(self) -> bool:
        """Whether the robot has stood long enough for a loss of the ground to be detected."""
        return bool(is_settled(self.state, self._body))

    def begin_touchdown_search(self) -> None:
        """Starts the detection of touchdowns, with all feet in the air."""
        self.reset()
        begin_flight(self.state)

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
        if is_in_free_fall(self.state, self._body, rate):  # estimated contact forces are then errors of the estimate
            self._detector.reset()
            return ()
        self._detector.update(self._time, forces)
        return tuple(foot for foot in FEET if foot in self._detector.feet_in_contact)
