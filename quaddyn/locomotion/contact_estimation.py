"""`FeltGround`: which feet of a walking robot touch the ground, from encoders, IMU and torques alone."""

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

#: How long forces are estimated before they are believed [sqrt(l/g)].
STARTUP_TIME = 0.2
#: A foot whose path goes on without it stands if it is pressed with this share of what a foot carries of the weight.
BLOCKED_FOOT_FORCE_FRACTION = 0.05
#: Multiple of the error of estimated forces that a force has to exceed to count as contact, and the error that counts
#: at most, as a fraction of the weight that a foot carries: feet that stand have to exceed the threshold.
ERROR_MULTIPLE, MAX_ERROR = 2.0, 0.4


class ContactEstimation:
    """Forces at the feet (`quaddyn.estimation.ContactForceEstimator`), and whether they say that a foot touches.

    All contacts are active in the estimate, so that touchdowns outside the schedule are found.  The force estimated at
    a swing foot is the error of the estimate: with masses, damping or rotor inertias that are not those of the robot,
    it grows with the accelerations of the swing.  The error is the second largest
    of the four feet's maxima over their present or last swings, so that a single foot that meets an obstacle in its
    swing does not count, and a force counts as contact only beyond `ERROR_MULTIPLE` times the error.

    Args:
        robot: a quadruped.
        morphology: of the robot.
        dt: [s].

    Attributes:
        forces: (3,) by foot, as last estimated, on the robot, world axes [N].
        stacked_forces: (4, 3) the same in the order of the robot's feet.
        error: of the estimated forces, as feet in their swings have shown [N].
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
        unit = morphology.time_scale
        self._dt, self._startup_time = dt, STARTUP_TIME * unit
        self._estimator = ContactForceEstimator(
            ContactSet.of_feet(robot), dt=dt, gain=1.0 / (FORCE_TIME_CONSTANT * unit)
        )
        self._detector = TouchdownDetector(robot, dwell_time=CONTACT_DWELL_TIME * unit)
        self._foot_index = {foot: i for i, foot in enumerate(robot.feet)}
        weight = morphology.mass * morphology.gravity / len(FEET)
        self._blocked_foot_force, self._max_error = BLOCKED_FOOT_FORCE_FRACTION * weight, MAX_ERROR * weight
        self.reset()

    def reset(self) -> None:
        """Forget the motion."""
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
        """The feet that touch; None as long as that is not known yet.

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            normals: (4, 3) of the ground under each foot, in the order of the robot's.
            blocked: feet whose paths have gone on without them.  The shanks of some robots are so light that a foot in
                the air cannot press as hard as the detector of touchdowns wants.
            swinging: feet in the middle of their swings, which are far from the ground.
        """
        found = self._estimator.update(state, tau)
        self.forces, self.stacked_forces = found.forces, found.stacked_forces.reshape(-1, 3)
        self._time += self._dt
        self._update_error(swinging)
        self._detector.update(self._time, self.stacked_forces, normal=normals)
        if self._time < self._startup_time:
            return None
        pressing = max(self._blocked_foot_force, self.uncertainty)
        touching = {
            *self._detector.feet_in_contact,
            *(foot for foot in blocked if found.forces[foot] @ normals[self._foot_index[foot]] > pressing),
        }
        return tuple(foot for foot in FEET if foot in touching)

    @property
    def uncertainty(self) -> float:
        """Force that may be an error of the estimate [N]."""
        return ERROR_MULTIPLE * self.error

    @property
    def model_mismatch(self) -> bool:
        """Whether the uncertainty is beyond the threshold of contact of a model that explains the motion."""
        return self.uncertainty > self._detector.touchdown_threshold

    def _update_error(self, swinging: Collection[str]) -> None:
        """Takes the error of the estimate from feet in the middle of their swings, where the ground exerts nothing."""
        if not swinging and not self._swinging:
            return
        for foot in swinging:
            i = self._foot_index[foot]
            before = self._peaks[i] if foot in self._swinging else 0.0
            self._peaks[i] = max(before, math.hypot(*self.stacked_forces[i].tolist()))
        self._swinging = frozenset(swinging)
        self.error = min(sorted(self._peaks)[-2], self._max_error)
        self._detector.raise_thresholds(self.uncertainty)
