"""`CartesianImpedance`: a frame of the robot behaves like a mass on a spring and a damper."""

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
    r"""Makes a foot, hand or trunk answer external forces like a mass, a spring K and a damper D around its target.

    With e the error (wanted less actual) of the rows, J their Jacobian and F_ext what the environment does to them:

    *Without inertia shaping* (the default) the load on the actuators is ``g(q) + J^T (K e + D e' + Lambda a_wanted)``.
    The frame keeps its own inertia Lambda, no force needs to be measured, a constant force F displaces it by
    ``K^-1 F``, and the loop is passive: with the storage

    .. math::

        V = \tfrac{1}{2} v^\top M v + \tfrac{1}{2} e^\top K e, \qquad
        \dot V = -\dot e^\top D\, \dot e - |N v|^2_{K_d} + v^\top J_{ext}^\top F_{ext}

    for a target at rest, whatever the gains (Ott 2008, *Cartesian Impedance Control of Redundant and Flexible-Joint
    Robots*, ch. 3).  Gravity alone is compensated: to cancel Coriolis forces too would make this balance inexact.

    *With* `inertia` = Md the load cancels h and shapes the inertia: ``Md e'' + D e' + K e = -F_ext`` exactly, where the
    external force is measured and given to `compute` (Hogan 1985, "Impedance control", part II).  Without it the
    frame answers a push by ``Md Lambda^-1 F_ext`` instead of F_ext, static deflection included.  The storage is that of
    the frame alone, ``V = e'^T Md e' / 2 + e^T K e / 2``, with ``dV/dt = -e'^T D e' - e'^T F_ext``.

    The damping defaults to the given ratio in every mode of (Lambda or Md, K), computed afresh at every posture
    (`modal_damping`).  Near a singular posture Lambda is bounded and the answer says so.  What the rows leave free is
    damped, and may seek a posture: see `NullSpacePosture`, whose tank then belongs to V.

    A free or planar root stands on its `stance` feet, which the ground holds: Lambda includes that, and the load is
    borne by actuators and feet together (`distribute`).  So an impedance of the trunk is a virtual model (see
    `VirtualModel`), one of a foot in the air has the others bear its reaction.  A fixed root needs no feet.

    Torques are cut at ``robot.effort_limits``; the answer names the joints, and what is said above does not hold then.

    Args:
        robot: any.
        frame: a foot, link or joint.
        stiffness: K, one number for rows of one unit, (k,) or symmetric positive semi-definite (k, k) [N/m, N m/rad].
        damping: D, alike [N s/m, N m s/rad]; by default from the inertia.
        damping_ratio: zeta of the default damping; 1 is critical.
        inertia: Md, alike but positive definite [kg, kg m^2]; None for no inertia shaping.
        rows: what is controlled, out of "x", "y", "z", "rx", "ry", "rz", world axes; by default the linear rows that
            can move (x and z on a planar leg).  Angular rows are those of the rotation vector of `FrameTask`.
        null_space: dampers, and if wanted springs, for what the rows leave free; by default dampers alone.
        singular_tolerance: mobilities below this share of the largest are raised to it.

    Attributes:
        robot, frame, rows: as given or found.
        stiffness, damping, inertia: (k, k) read-only, damping and inertia None where they are not given; may be set.
        damping_ratio, singular_tolerance: as given; may be set.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, gains or another argument out of range, named.
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
        return as_gain_matrix(name, value, self.task.k, definite=definite, units=self.task.units)

    @property
    def inertia(self) -> Array | None:
        """(k, k) Md, None for no inertia shaping."""
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
        """Torques at one state; with a `null_space` that seeks a posture, once per period: its tank is drawn on.

        Args:
            s: the state.
            target: (3,) wanted origin of the frame, world axes [m]; a `Pose` if there are angular rows.
            velocity: (3,) or (6,) wanted velocity of the frame, world axes [m/s, rad/s].
            acceleration: (3,) or (6,) wanted acceleration of the frame, world axes [m/s^2, rad/s^2].
            external: (3,) or (6,) measured force on the frame, world axes [N, N m]; only inertia shaping uses it.
            stance: feet held by the ground, on a free or planar root; by default all, without the one controlled.
            friction: Coulomb's coefficient for the distribution over the stance feet.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.motion(s, target, velocity, acceleration)
        feet = select_stance_feet(self.robot, self.frame, stance)
        measured = as_twist("external", external)
        space = compute_operational_space(s, motion.J, self.task.angular, feet, tolerance=self.singular_tolerance)
        root, inverse_root = space.root, space.inverse_root
        if self._inertia_roots is not None:
            root, inverse_root = self._inertia_roots
        D, frequencies = compute_modal_damping(root, inverse_root, self.stiffness, self.damping_ratio)
        if self.damping is not None:
            D = self.damping
        spring = self.stiffness @ motion.error + D @ motion.rate
        if self.inertia is None:
            force = spring + space.inertia @ motion.acceleration
            load = s.gravity + motion.J.T @ force
        else:
            # What the measured force does to the task, as a force on its rows.
            external_task_force = space.inertia @ (
                motion.J @ (space.constrained_inverse @ (motion.twist_jacobian.T @ measured))
            )
            desired_acceleration = motion.acceleration + inverse_root.T @ (
                inverse_root @ (spring + external_task_force)
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
        """V of the class's docstring [J]: without external forces and for a target at rest, it never grows.

        Args:
            s: the state.
            target: as in `compute`.
            velocity: as in `compute`; only inertia shaping uses it.

        Raises:
            ArgumentError: as `compute`.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.motion(s, target, velocity)
        spring = 0.5 * float(motion.error @ self.stiffness @ motion.error)
        if self.inertia is not None:
            return spring + 0.5 * float(motion.rate @ self.inertia @ motion.rate)
        return spring + s.energy.kinetic + self.null_space.tank_energy

    def reset(self) -> None:
        """Forget the past: fill the tank of the null space."""
        self.null_space.reset()


def select_stance_feet(robot: Robot, frame: str, stance: Iterable[str] | None) -> tuple[str, ...]:
    """The feet that bear a floating robot: those named, else all but the one that is `frame` itself."""
    if robot.root == "fixed":
        return () if stance is None else check_stance_feet(robot, stance)[:0]
    if stance is None:
        return tuple(foot for foot in robot.feet if frame not in (foot, robot.legs[foot].foot.frame))
    return check_stance_feet(robot, stance)
