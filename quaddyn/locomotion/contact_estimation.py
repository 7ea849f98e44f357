"""`ContactEstimation`: detection of the feet in contact from encoders, IMU and torques alone, while the robot walks."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..contact import ContactSet
from ..dynamics import State
from ..estimation import ContactForceEstimator, TouchdownDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_monitor import CONTACT_DWELL_TIME, FORCE_TIME_CONSTANT
from .morphology import FEET, Morphology

#: Time after a start in which the estimated forces are not used [sqrt(l/g)].
STARTUP_TIME = 0.2
#: Normal force with which a foot that lags behind its path counts as in contact, as a fraction of the weight per foot.
BLOCKED_FOOT_FORCE_FRACTION = 0.05
#: Multiple of the error of the estimated forces that a force must exceed to count as contact, and maximum error that is
#: considered, as a fraction of the weight per foot: the forces of stance feet have to exceed the threshold.
ERROR_MULTIPLE, MAX_ERROR = 2.0, 0.4


class ContactEstimation:
    """Estimator of contact forces and detector of the feet in contact.

    All contacts are active in the force estimate (`quaddyn.estimation.ContactForceEstimator`), so that touchdowns
    outside the schedule are detected.  The force estimated at a swing foot is the error of the estimate: with masses,
    damping or rotor inertias that differ from those of the robot, it grows with the accelerations of the swing.  The
    error is the second largest of the four feet's maxima over their present or last swings, so that a single foot that
    meets an obstacle in its swing is ignored, and a force counts as contact only beyond `ERROR_MULTIPLE` times the
    error.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].

    Attributes:
        forces: (3,) last estimated contact force of each foot, by name, on the robot, world axes [N].
        stacked_forces: (4, 3) the same in the order of the robot's feet [N].
        error: error of the estimated forces, measured at mid-swing feet [N].
    """

    __slots__ = (
        "_blocked_foot_force",
        "_detector",
        "_dt",
        "_estimator",
        "_foot_index",
        "_max_error",
        "_peaks",
        "_startup_time",
        "_swinging",
        "_time",
        "error",
        "forces",
        "stacked_forces",
    )  # fmt: skip

    def __init__(self, robot: Robot, morphology: Morphology, dt: float) -> None:
        time_scale = morphology.time_scale
        self._dt, self._startup_time = dt, STARTUP_TIME * time_scale
        self._estimator = ContactForceEstimator(
            ContactSet.from_feet(robot), dt=dt, gain=1.0 / (FORCE_TIME_CONSTANT * time_scale)
        )
        self._detector = TouchdownDetector(robot, dwell_time=CONTACT_DWELL_TIME * time_scale)
        self._foot_index = {foot: i for i, foot in enumerate(robot.feet)}
        weight = morphology.mass * morphology.gravity / len(FEET)
        self._blocked_foot_force, self._max_error = BLOCKED_FOOT_FORCE_FRACTION * weight, MAX_ERROR * weight
        self.reset()

    def reset(self) -> None:
        """Resets all estimates."""
        self._estimator.reset()
        self._detector.reset()
        self._time = self.error = 0.0
        self._peaks, self._swinging = [0.0] * len(FEET), frozenset[str]()
        self.forces: Mapping[str, Array] = {}
        self.stacked_forces = np.zeros((len(FEET), 3))

    def update(
        self,
        state: State,
        tau: Array,
        normals: Array,
        blocked: Collection[str] = (),
        swinging: Collection[str] = (),
    ) -> tuple[str, ...] | None:
        """Updates the estimate by one tick and returns the names of the feet in contact; None during the startup time.

        Args:
            state: present state of the robot.
            tau: (nu,) torques since the last tick [N m].
            normals: (4, 3) unit normals of the ground under each foot, in the order of the robot's feet, world.
            blocked: names of the feet that lag behind their paths.  They need less force to count as in contact, since
                the shanks of some robots are so light that a swing foot cannot press harder.
            swinging: names of the mid-swing feet, which are far from the ground.
        """
        estimate = self._estimator.update(state, tau)
        self.forces, self.stacked_forces = estimate.forces, estimate.stacked_forces.reshape(-1, 3)
        self._time += self._dt
        self._update_error(swinging)
        self._detector.update(self._time, self.stacked_forces, normal=normals)
        if self._time < self._startup_time:
            return None
        min_force = max(self._blocked_foot_force, self.uncertainty)
        in_contact = {
            *self._detector.feet_in_contact,
            *(foot for foot in blocked if estimate.forces[foot] @ normals[self._foot_index[foot]] > min_force),
        }
        return tuple(foot for foot in FEET if foot in in_contact)

    @property
    def uncertainty(self) -> float:
        """Upper bound of the error of an estimated contact force [N]."""
        return ERROR_MULTIPLE * self.error

    @property
    def model_mismatch(self) -> bool:
        """Whether the uncertainty exceeds the contact threshold of a correct model."""
        return self.uncertainty > self._detector.touchdown_threshold

    def _update_error(self, swinging: Collection[str]) -> None:
        """Updates the error of the estimate from mid-swing feet, whose true contact force is zero."""
        if not swinging and not self._swinging:
            return
        for foot in swinging:
            i = self._foot_index[foot]
            last_peak = self._peaks[i] if foot in self._swinging else 0.0
            self._peaks[i] = max(last_peak, math.hypot(*self.stacked_forces[i].tolist()))
        self._swinging = frozenset(swinging)
        self.error = min(sorted(self._peaks)[-2], self._max_error)
        self._detector.raise_thresholds(self.uncertainty)
