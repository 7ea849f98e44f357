"""`FeltGround`: which feet of a walking robot touch the ground, from encoders, IMU and torques alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..contact import ContactSet
from ..dynamics import State
from ..estimation import ContactForceEstimator, TouchdownDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .footing import DWELL, FORCE_TIME
from .proportions import FEET, Proportions

#: How long forces are estimated before they are believed [sqrt(l/g)].
STARTING = 0.2
#: A foot whose path goes on without it stands if it is pressed with this share of what a foot carries of the weight.
PRESSING = 0.05


class FeltGround:
    """Forces at the feet (`quaddyn.estimation.ContactForceEstimator`), and whether they say that a foot touches.

    All contacts are active in the estimate, as a touchdown out of turn is what is looked for; feet in the air get
    nearly nothing.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].

    Attributes:
        forces: (3,) by foot, as last estimated, on the robot, world axes [N].
        stacked: (4, 3) the same in the order of the robot's feet.
    """

    __slots__ = ("_at", "_detector", "_dt", "_estimator", "_pressing", "_starting", "_time", "forces", "stacked")

    def __init__(self, robot: Robot, proportions: Proportions, dt: float) -> None:
        unit = proportions.time
        self._dt, self._starting = dt, STARTING * unit
        self._estimator = ContactForceEstimator(ContactSet.of_feet(robot), dt=dt, gain=1.0 / (FORCE_TIME * unit))
        self._detector = TouchdownDetector(robot, dwell=DWELL * unit)
        self._at = {foot: i for i, foot in enumerate(robot.feet)}
        self._pressing = PRESSING * proportions.mass * proportions.gravity / len(FEET)
        self.reset()

    def reset(self) -> None:
        """Forget the motion."""
        self._estimator.reset()
        self._detector.reset()
        self._time = 0.0
        self.forces: Mapping[str, Array] = {}
        self.stacked = np.zeros((len(FEET), 3))

    def update(self, state: State, tau: Array, normals: Array, blocked: Collection[str] = ()) -> tuple[str, ...] | None:
        """The feet that touch; None as long as that is not known yet.

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            normals: (4, 3) of the ground under each foot, in the order of the robot's.
            blocked: feet whose paths have gone on without them.  The shanks of some robots are so light that a foot in
                the air cannot press as hard as the detector of touchdowns wants.
        """
        found = self._estimator.update(state, tau)
        self.forces, self.stacked = found.forces, found.stacked.reshape(-1, 3)
        self._time += self._dt
        self._detector.update(self._time, self.stacked, normal=normals)
        if self._time < self._starting:
            return None
        touching = {
            *self._detector.touching,
            *(foot for foot in blocked if found.forces[foot] @ normals[self._at[foot]] > self._pressing),
        }
        return tuple(foot for foot in FEET if foot in touching)
