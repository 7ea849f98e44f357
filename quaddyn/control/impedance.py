"""`CartesianImpedance`: a frame of the robot responds to forces like a mass on a spring and a damper."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import State
from ..robot.arguments import check_positive
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, Pose
from .cartesian_task import CartesianTask, as_twist
from .gains import as_gain_matrix, check_fraction, compute_modal_damping
from .load_distribution import check_stance_feet
from .null_space_posture import NullSpacePosture, check_null_space
from .operational_space import compute_operational_space
from .task_torque import TaskTorque, make_task_torque


class CartesianImpedance(StrictAttributes, fixed=("task", "robot", "frame", "rows", "null_space")):
    r"""Impedance control of a foot, hand or trunk: a mass, a spring K and a damper D around a target.

    With e the error (desired minus actual) of the rows, J their Jacobian and F_ext the external force on them:

    *Without inertia shaping* (the default) the load on the actuators is ``g(q) + J^T (K e + D e' + Lambda
    a_desired)``.  The frame keeps its own inertia Lambda, no force needs to be measured, a constant force F displaces
    it by ``K^-1 F``, and the loop is passive: with the storage

    .. math::

        V = \tfrac{1}{2} v^\top M v + \tfrac{1}{2} e^\top K e, \qquad
        \dot V = -\dot e^\top D\, \dot e - |N v|^2_{K_d} + v^\top J_{ext}^\top F_{ext}

    for a target at rest and any gains (Ott 2008, *Cartesian Impedance Control of Redundant and Flexible-Joint Robots*,
    ch. 3).  Only gravity is compensated: compensating Coriolis forces as well would make this energy balance inexact.

    *With* `inertia` = Md the load compensates h and shapes the inertia: ``Md e'' + D e' + K e = -F_ext`` holds exactly
    if the external force is measured and passed to `compute` (Hogan 1985, "Impedance control", part II).  Without the
    measurement the frame responds to ``Md Lambda^-1 F_ext`` instead of F_ext, also in its static deflection.  The
    storage is that of the frame alone, ``V = e'^T Md e' / 2 + e^T K e / 2``, with ``dV/dt = -e'^T D e' - e'^T F_ext``.

    By default the damping gives every mode of (Lambda or Md, K) the given damping ratio, computed at every state
    (`compute_modal_damping`).  Near a singular posture Lambda is bounded, and `TaskTorque.is_singular` reports it.
    Motion in the null space of the rows is damped and can be drawn to a posture: see `NullSpacePosture`, whose energy
    tank is then part of V.

    A free or planar root is supported by its `stance` feet, which do not move: Lambda includes this constraint, and the
    load is distributed over actuators and feet (`distribute_load`).  An impedance of the trunk is thus a virtual model
    (see `VirtualModel`); the reaction of an impedance of a swing foot is carried by the stance feet.  A fixed root
    needs no feet.

    Torques are clamped to ``robot.effort_limits``; the result names these joints, and the properties above then do not
    hold.

    Args:
        robot: any robot.
        frame: name of a foot, link or joint.
        stiffness: K, one number for rows of one unit, (k,) or symmetric positive semi-definite (k, k) [N/m, N m/rad].
        damping: D, of one of these shapes [N s/m, N m s/rad]; None for the modal damping of the inertia.
        damping_ratio: zeta of the default damping, dimensionless; 1 is critical.
        inertia: Md, of one of these shapes, positive definite [kg, kg m^2]; None for no inertia shaping.
        rows: names of the controlled rows, out of "x", "y", "z", "rx", "ry", "rz", world axes; None for the linear rows
            that can move (x and z on a planar leg).  Angular rows are components of the rotation vector from the actual
            to the target orientation.
        null_space: joint damping, and a posture if it has one, in the null space of the rows; None for damping alone.
        singular_tolerance: task-space mobilities below this fraction of the largest are raised to it.

    Attributes:
        robot, frame, rows: as given, or their defaults.

    The gains, the damping ratio and the tolerance are attributes, too, and may be set.  Stiffness, damping and inertia
    are then read-only matrices (k, k), damping and inertia None where they are not given.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, gains or another argument out of range; the message names it.
    """

    stiffness = ValidatedAttribute[ArrayLike, Array](lambda self, value: self._gain("stiffness", value))
    damping = ValidatedAttribute[ArrayLike | None, Array | None](
        lambda self, value: None if value is None else self._gain("damping", value)
    )
    damping_ratio = ValidatedAttribute[float, float](
        lambda self, value: check_positive("damping_ratio", value, zero=True)
    )
    singular_tolerance = ValidatedAttribute[float, float](
        lambda self, value: check_fraction("singular_tolerance", value)
    )

    def __init__(
        self,
        robot: Robot,
        frame: str,
        *,
        stiffness: ArrayLike,
        damping: ArrayLike | None = None,
        damping_ratio: float = 1.0,
        inertia: ArrayLike | None = None,
        rows: Iterable[str] | None = None,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
    ) -> None:
        self.task = task = CartesianTask(robot, frame, rows)
        self.robot, self.frame, self.rows = robot, frame, task.rows
        self.stiffness, self.damping, self.damping_ratio = stiffness, damping, damping_ratio
        self._inertia: Array | None = None
        self._inertia_roots: tuple[Array, Array] | None = None
        self.inertia = inertia
        self.null_space = check_null_space(robot, null_space)
        self.singular_tolerance = singular_tolerance

    def _gain(self, name: str, value: ArrayLike, *, definite: bool = False) -> Array:
        """Returns a stiffness, damping or inertia as a (k, k) matrix after checking it."""
        return as_gain_matrix(name, value, self.task.k, definite=definite, n_units=self.task.n_units)

    @property
    def inertia(self) -> Array | None:
        """(k, k) shaped inertia Md [kg, kg m^2]; None without inertia shaping."""
        return self._inertia

    @inertia.setter
    def inertia(self, value: ArrayLike | None) -> None:
        self._inertia = None if value is None else self._gain("inertia", value, definite=True)
        self._inertia_roots = None
        if self._inertia is not None:
            root = np.asarray(np.linalg.cholesky(self._inertia), dtype=np.float64)
            self._inertia_roots = root, np.asarray(np.linalg.inv(root), dtype=np.float64)

    def compute(
        self,
        s: State,
        target: Array | Pose,
        *,
        velocity: Array | None = None,
        acceleration: Array | None = None,
        external: Array | None = None,
        stance: Iterable[str] | None = None,
        friction: float = NOMINAL_FRICTION,
    ) -> TaskTorque:
        """Computes the torques at one state. Call it once per period if the null space has a posture: it has a tank.

        Args:
            s: the state.
            target: (3,) desired origin of the frame, world axes [m]; a `Pose` if there are angular rows.
            velocity: (3,) or (6,) desired velocity of the frame, world axes [m/s, rad/s]; None for zero.
            acceleration: (3,) or (6,) desired acceleration of the frame, world axes [m/s^2, rad/s^2]; None for zero.
            external: (3,) or (6,) measured force on the frame, world axes [N, N m], used only for inertia shaping; None
                for zero.
            stance: names of the stance feet of a free or planar root; None for all feet except the controlled one.
            friction: Coulomb's coefficient for the distribution over the stance feet, dimensionless.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.compute_motion(s, target, velocity, acceleration)
        feet = select_stance_feet(self.robot, self.frame, stance)
        measured = as_twist("external", external)
        space = compute_operational_space(s, motion.J, self.task.is_angular, feet, tolerance=self.singular_tolerance)
        root, inverse_root = space.root, space.inverse_root
        if self._inertia_roots is not None:
            root, inverse_root = self._inertia_roots
        D, frequencies = compute_modal_damping(root, inverse_root, self.stiffness, self.damping_ratio)
        if self.damping is not None:
            D = self.damping
        impedance_force = self.stiffness @ motion.error + D @ motion.rate
        if self.inertia is None:
            force = impedance_force + space.inertia @ motion.acceleration
            load = s.gravity + motion.J.T @ force
        else:
            # The measured force, converted to the equivalent force on the task's rows.
            external_task_force = space.inertia @ (
                motion.J @ (space.constrained_inverse @ (motion.twist_jacobian.T @ measured))
            )
            desired_acceleration = motion.acceleration + inverse_root.T @ (
                inverse_root @ (impedance_force + external_task_force)
            )
            force = (
                space.inertia @ (desired_acceleration - motion.drift - motion.J @ space.stance_acceleration)
                - external_task_force
            )
            load = s.h + motion.J.T @ force
        load += self.null_space.force(s, space, float(motion.rate @ D @ motion.rate))
        return make_task_torque(
            s,
            load,
            feet,
            friction=friction,
            force=force,
            error=motion.error,
            frequencies=frequencies,
            is_singular=space.is_singular,
        )

    def storage(self, s: State, target: Array | Pose, *, velocity: Array | None = None) -> float:
        """Returns V of the class's docstring [J]: without external forces and for a target at rest, it never grows.

        Args:
            s: the state.
            target: desired placement, as in `compute`.
            velocity: desired velocity, as in `compute`, used only for inertia shaping; None for zero.

        Raises:
            ArgumentError: as `compute`.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.compute_motion(s, target, velocity)
        spring = 0.5 * float(motion.error @ self.stiffness @ motion.error)
        if self.inertia is not None:
            return spring + 0.5 * float(motion.rate @ self.inertia @ motion.rate)
        return spring + s.energy.kinetic + self.null_space.tank_energy

    def reset(self) -> None:
        """Fills the energy tank of the null space."""
        self.null_space.reset()


def select_stance_feet(robot: Robot, frame: str, stance: Iterable[str] | None) -> tuple[str, ...]:
    """Returns the feet that support a floating root: those in `stance`; for None all except the foot at `frame`."""
    if robot.root == "fixed":
        return () if stance is None else check_stance_feet(robot, stance)[:0]
    if stance is None:
        return tuple(foot for foot in robot.feet if frame not in (foot, robot.legs[foot].foot.frame))
    return check_stance_feet(robot, stance)
