"""`CentroidalState`: the quantities that a locomotion tick takes from the robot's state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compiler import IntVector, Mat3, Matrix, Record, Vec3, Vector, compiled, entry, quat, rotation_of, vec3
from ..dynamics import State
from ..dynamics.state_terms import make_tick_terms
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.tick_data import RigidBodyTerms, frame_origin
from ..wbc.tick_solver import TickSolver
from ..wbc.tick_workspace import make_terms
from .morphology import FEET, BodyParameters, Morphology, make_body_parameters
from .state_fields import StateField

Vector3 = tuple[float, float, float]


class Motion(Record):
    """Center of mass, trunk and feet of the robot at one tick, world axes."""

    com: Vec3  # center of mass of the robot with its estimated payload [m]
    velocity: Vec3  # of the robot's center of mass [m/s]
    R_base: Mat3  # attitude of the base
    axes: Mat3  # heading axes of the trunk: columns forward, left and up
    yaw: float  # of the forward direction [rad]
    feet: Matrix  # (4, 3) centers of the foot spheres [m]
    angular_velocity: Vec3  # of the base [rad/s]


@compiled()
def set_attitude(motion: Motion, R_base: Mat3, heading: Mat3) -> None:
    """Sets attitude, heading axes and yaw angle; `heading` is the rotation from heading axes to the base frame."""
    axes = R_base @ heading
    motion.R_base = R_base
    motion.axes = axes
    motion.yaw = math.atan2(axes[1, 0], axes[0, 0])


@compiled()
def trunk_up(motion: Motion) -> Vec3:
    """Returns the upward axis of the trunk, world."""
    axes = motion.axes
    return vec3(axes[0, 2], axes[1, 2], axes[2, 2])


@entry("motion of the robot")
def read_motion(
    q: Vector,
    v: Vector,
    terms: RigidBodyTerms,
    foot_frames: IntVector,
    body: BodyParameters,
    com_shift_x: float,
    com_shift_y: float,
    motion: Motion,
) -> None:
    """Reads the motion of a robot with a free root from the terms of the whole-body controller.

    Args:
        q: (nq,) configuration: position [m] and quaternion of the base, then joint positions.
        v: (nv,) velocity: linear [m/s] and angular [rad/s] velocity of the base, base axes, then joint velocities.
        terms: rigid-body terms at (q, v).
        foot_frames: (4,) indices of the feet in `terms.frames`.
        body: parameters of the robot.
        com_shift_x: center of mass with payload minus that of the robot, world x [m].
        com_shift_y: the same, world y [m].
        motion: takes the result.
    """
    R_base = rotation_of(quat(q[3], q[4], q[5], q[6]))
    set_attitude(motion, R_base, body.heading)
    motion.angular_velocity = R_base @ vec3(v[3], v[4], v[5])
    motion.com = vec3(terms.com) + vec3(com_shift_x, com_shift_y, 0.0)
    motion.velocity = vec3(terms.com_velocity)
    for foot in range(4):
        motion.feet[foot] = frame_origin(terms, foot_frames[foot])


def allocate_motion() -> Motion:
    """Returns a motion of zeros."""
    return Motion.allocate(feet=(4, 3))


class CentroidalState:
    """Center of mass, heading and feet of the robot at one tick, in world axes.

    Arrays and vectors are copies of the record's, so that they may be kept when the record changes.

    Args:
        motion: the record of compiled functions.

    Attributes:
        state: the record.
        com: center of mass of the robot with its estimated payload [m].
        velocity: velocity of the robot's center of mass [m/s].
        axes: (3, 3) heading axes of the trunk: columns forward, left and up.
        yaw: yaw angle of the forward direction [rad].
        feet: (4, 3) centers of the foot spheres [m].
    """

    __slots__ = ("_axes", "_com", "_feet", "_velocity", "state")

    yaw = StateField[float]()

    def __init__(self, motion: Motion) -> None:
        # Views of the arrays are faster to read than the attributes of the record.
        self.state = motion
        self._com, self._velocity, _, axes, _, self._feet, _ = motion
        self._axes = axes.reshape(3, 3)

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
    def axes(self) -> Array:
        """(3, 3) heading axes of the trunk: columns forward, left and up."""
        axes: Array = self._axes.copy()
        return axes

    @property
    def feet(self) -> Array:
        """(4, 3) centers of the foot spheres [m]."""
        feet: Array = self._feet.copy()
        return feet


class MotionReader:
    """Reader of the motion from the rigid-body terms that the whole-body controller computes at every tick anyway.

    Args:
        wbc: whole-body controller of a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        motion: the motion that was read last.
        terms: rigid-body terms from which it is read, available after `bind`.
        foot_frames: (4,) indices of the feet in their frames, likewise.
        update_terms: function that computes the terms at (q, v), likewise.
    """

    terms: RigidBodyTerms
    foot_frames: IntVector
    update_terms: Callable[[Array, Array], Any]
    _read: Callable[..., None]

    __slots__ = (
        "_parameters",
        "_read",
        "_solver",
        "_wbc",
        "displacements",
        "foot_frames",
        "motion",
        "terms",
        "update_terms",
    )

    def __init__(self, wbc: WholeBodyController, morphology: Morphology) -> None:
        self._wbc, self._parameters = wbc, make_body_parameters(morphology)
        self.motion = CentroidalState(allocate_motion())
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
        self.bind()
        self.update_terms(q, v)
        self._read(q, v, self.foot_frames, float(com_shift[0]), float(com_shift[1]))
        return self.motion

    def bind(self) -> None:
        """Binds the compiled function to the terms of the present solver, or to own ones if a foot is not in them."""
        solver = self._wbc.solver
        if solver is self._solver:
            return
        robot, frames = self._wbc.robot, solver.tables.frames
        ids, feet = [robot.frame_id(name) for name in frames], [robot.frame_id(foot) for foot in FEET]
        if set(feet) <= set(ids):
            self.terms, self.update_terms = solver.data.terms, solver.update_terms
        else:
            own = make_tick_terms(robot, FEET)
            self.terms = terms = make_terms(own, FEET)
            ids, self.update_terms = feet, lambda q, v: own.compute(q, v, terms.values)
        self.foot_frames = np.array([ids.index(foot) for foot in feet])
        self._read, self._solver = read_motion.bind(self.terms, self._parameters, self.motion.state), solver
