"""`CentroidalState`: the quantities that a locomotion tick takes from the robot's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dynamics import State
from ..dynamics.state_terms import make_tick_terms
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.tick_solver import TickSolver
from ..wbc.tick_workspace import make_terms
from .morphology import FEET, Morphology, make_body_parameters
from .motion import Motion, allocate_motion, read_motion, write_attitude
from .state_fields import StateField

Vector3 = tuple[float, float, float]


class CentroidalState:
    """Center of mass, heading and feet of the robot at one tick, in world axes.

    Arrays and vectors are copies of the record's, so that they may be kept when the record changes.

    Attributes:
        state: the record of compiled functions.
        com: center of mass of the robot with its estimated payload [m].
        velocity: velocity of the robot's center of mass [m/s].
        R_base: (3, 3) attitude of the base.
        axes: (3, 3) heading axes of the trunk: columns forward, left and up.
        yaw: yaw angle of the forward direction [rad].
        feet: (4, 3) centers of the foot spheres [m].
        angular_velocity: angular velocity of the base [rad/s].
    """

    __slots__ = ("_R_base", "_angular_velocity", "_axes", "_com", "_feet", "_velocity", "state")

    yaw = StateField[float]()

    def __init__(
        self,
        com: Vector3,
        velocity: Vector3,
        R_base: Array,
        axes: Array,
        yaw: float,
        feet: Array,
        angular_velocity: Vector3 = (0.0, 0.0, 0.0),
    ) -> None:
        self._set_record(allocate_motion())
        motion = self.state
        motion.com, motion.velocity, motion.angular_velocity = com, velocity, angular_velocity
        motion.R_base, motion.axes, motion.yaw = R_base, axes, yaw
        motion.feet[:] = feet

    @classmethod
    def from_record(cls, motion: Motion) -> CentroidalState:
        """Returns the state whose numbers lie in a record."""
        out = cls.__new__(cls)
        out._set_record(motion)
        return out

    @classmethod
    def from_state(cls, state: State, base: str, heading: Array, com_shift: tuple[float, float]) -> CentroidalState:
        """Computes these quantities from a state by Pinocchio; `MotionReader` is faster.

        Args:
            state: state of a quadruped.
            base: name of its root link.
            heading: (3, 3) rotation from heading axes to the root link.
            com_shift: center of mass with payload minus that of the robot, world x and y [m].
        """
        motion, (x, y, z) = allocate_motion(), state.com.tolist()
        write_attitude(motion, np.array(state.placement(base).rotation, order="C"), np.array(heading))
        motion.com, motion.velocity = (x + com_shift[0], y + com_shift[1], z), state.com_velocity
        motion.angular_velocity = state.velocity(base)[3:]
        motion.feet[:] = state.origins(FEET)
        return cls.from_record(motion)

    def _set_record(self, motion: Motion) -> None:
        """Sets the record, and views of its arrays, which are faster to read than its attributes."""
        self.state = motion
        self._com, self._velocity, R_base, axes, _, self._feet, self._angular_velocity = motion
        self._R_base, self._axes = R_base.reshape(3, 3), axes.reshape(3, 3)

    @property
    def com(self) -> Vector3:
        """Center of mass of the robot with its estimated payload [m]."""
        x, y, z = self._com.tolist()
        return x, y, z

    @property
    def velocity(self) -> Vector3:
        """Velocity of the robot's center of mass [m/s]."""
        x, y, z = self._velocity.tolist()
        return x, y, z

    @property
    def R_base(self) -> Array:
        """(3, 3) attitude of the base."""
        R_base: Array = self._R_base.copy()
        return R_base

    @property
    def axes(self) -> Array:
        """(3, 3) heading axes of the trunk: columns forward, left and up."""
        axes: Array = self._axes.copy()
        return axes

    @property
    def feet(self) -> Array:
        """(4, 3) centers of the foot spheres [m]."""
        feet: Array = self._feet.copy()
        return feet

    @property
    def angular_velocity(self) -> Vector3:
        """Angular velocity of the base [rad/s]."""
        x, y, z = self._angular_velocity.tolist()
        return x, y, z


class MotionReader:
    """Reader of the motion from the rigid-body terms that the whole-body controller computes at every tick anyway.

    Args:
        wbc: whole-body controller of a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        motion: the motion that was read last.
    """

    _update_terms: Callable[[Array, Array], Any]
    _read: Callable[..., None]

    __slots__ = ("_foot_frames", "_parameters", "_read", "_solver", "_update_terms", "_wbc", "motion")

    def __init__(self, wbc: WholeBodyController, morphology: Morphology) -> None:
        self._wbc, self._parameters = wbc, make_body_parameters(morphology)
        self.motion = CentroidalState.from_record(allocate_motion())
        self._solver: TickSolver | None = None

    def read(self, state: State, com_shift: tuple[float, float] = (0.0, 0.0)) -> CentroidalState:
        """Returns the motion at a state; the next call overwrites it.

        Args:
            state: present state of the robot.
            com_shift: center of mass with payload minus that of the robot, world x and y [m].

        Raises:
            StaleStateError: the Dynamics of `state` was updated again.
        """
        q, v = state.writable_coordinates()
        if self._wbc.solver is not self._solver:
            self._bind(self._wbc.solver)
        self._update_terms(q, v)
        self._read(q, v, self._foot_frames, float(com_shift[0]), float(com_shift[1]))
        return self.motion

    def _bind(self, solver: TickSolver) -> None:
        """Binds the compiled function to the terms of a solver, or to own ones if a foot is not in them."""
        robot, frames = self._wbc.robot, solver.tables.frames
        ids, feet = [robot.frame_id(name) for name in frames], [robot.frame_id(foot) for foot in FEET]
        if set(feet) <= set(ids):
            terms, self._update_terms = solver.data.terms, solver.update_terms
        else:
            own = make_tick_terms(robot, FEET)
            terms, ids = make_terms(own, FEET), feet
            self._update_terms = lambda q, v: own.compute(q, v, terms.values)
        self._foot_frames = np.array([ids.index(foot) for foot in feet])
        self._read, self._solver = read_motion.bind(terms, self._parameters, self.motion.state), solver
