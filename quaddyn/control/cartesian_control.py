"""Cartesian controllers of a frame: their common parts, impedance, and impedance of the trunk as a virtual model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_attributes
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..kinematics.inverse import FRAME_ROWS
from ..robot.arguments import check_positive
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, Pose
from .cartesian_task import CartesianTask, TaskMotion, as_twist
from .gains import as_gain_matrix, check_fraction, check_robot, compute_modal_damping, positive_attribute
from .load_distribution import check_stance_feet, distribute_load
from .operational_space import NullSpacePosture, OperationalSpace, check_null_space, compute_operational_space

#: Rows of the trunk by type of root, in the order in which they are added while the legs can move them independently.
TRUNK_ROWS = {"free": ("z", "rx", "ry", "x", "y", "rz"), "planar": ("z", "ry", "x")}


@renamed_attributes(saturated="saturated_joints", singular="is_singular")
@dataclass(frozen=True, slots=True, eq=False)
class TaskTorque:
    """Torques of a Cartesian controller, with the error of its task and diagnostics.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated_joints: names of the joints whose torque was clamped; if there are any, the controller's laws do not
            hold.
        force: (k,) force of the actuators along the task's rows, without gravity compensation [N, N m].
        error: (k,) error of the task, desired minus actual [m, rad].
        frequencies: (k,) undamped natural frequencies of the controlled task, ascending [rad/s].  The damping ratio is
            reached only while ``frequency * period`` of the loop is small: at 0.02 it is within 3 %.
        is_singular: whether the task's inertia had to be bounded: the limb can hardly move in some direction.
        forces: (3,) by stance foot, contact force that the torques require, on the robot, world axes [N].
        residual: largest unbalanced generalized force in a row without an actuator [N, N m].
        margin: smallest ``mu f_n - |f_t|`` over the stance feet [N].
    """

    tau: Array
    saturated_joints: tuple[str, ...]
    force: Array
    error: Array
    frequencies: Array
    is_singular: bool
    forces: Mapping[str, Array]
    residual: float
    margin: float

    @property
    def ok(self) -> bool:
        """Whether the controller's laws hold: no torque was clamped, and the posture is not singular."""
        return not (self.saturated_joints or self.is_singular)


class CartesianController(StrictAttributes, fixed=("task", "robot", "frame", "rows", "null_space")):
    """Common parts of the controllers of a frame: the task, its operational space, null space, feet and torques.

    The law of a derived class gives the force along the rows of the frame, which `_torques` realizes.  A free or planar
    root is supported by its stance feet, which do not move: the inertia Lambda of the task includes this constraint,
    and the load is distributed over actuators and feet (`distribute_load`).  A fixed root needs no feet.  Near a
    singular posture Lambda is bounded, and `TaskTorque.is_singular` reports it.  Motion in the null space of the rows
    is damped and can be drawn to a posture, see `NullSpacePosture`.  Torques are clamped to ``robot.effort_limits``;
    the result names these joints, and the law then does not hold.

    Parameters of ``compute`` that all controllers have: `s` is the state.  A `target` is the (3,) desired origin of the
    frame, world axes [m], or a `Pose` if there are angular rows.  `velocity` and `acceleration` are those desired of
    the frame, (3,) or (6,), linear before angular, world axes [m/s, rad/s, m/s^2, rad/s^2]; None for zero.  `stance`
    are the names of the stance feet; None for all feet except the controlled one.  `friction` is Coulomb's coefficient
    for the distribution over the stance feet, dimensionless.

    Args:
        robot: any robot.
        frame: name of a foot, link or joint.
        rows: names of the controlled rows, out of "x", "y", "z", "rx", "ry", "rz"; None for the linear rows that can
            move (x and z on a planar leg).  Angular rows are components of the rotation vector from the actual to the
            target orientation.
        axes: (3, 3) rotation whose columns are the axes of the rows in world axes; None for the world's axes.
        null_space: joint damping, and a posture if it has one, in the null space of the rows; None for damping alone.
        singular_tolerance: task-space mobilities below this fraction of the largest are raised to it.

    Attributes:
        robot, frame, rows: as given, or their defaults.

    The gains and the tolerance are attributes, too, and may be set.  A target that seems to be in millimeters gives a
    `RuntimeWarning`, once.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: rows, axes, gains or another argument out of range; the message names it.
    """

    singular_tolerance = ValidatedAttribute[float, float](
        lambda self, value: check_fraction("singular_tolerance", value)
    )

    def __init__(
        self,
        robot: Robot,
        frame: str,
        *,
        rows: Iterable[str] | None = None,
        axes: Array | None = None,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
    ) -> None:
        self.task = CartesianTask(robot, frame, rows, axes=axes)
        self.robot, self.frame, self.rows = robot, frame, self.task.rows
        self.null_space = check_null_space(robot, null_space)
        self.singular_tolerance = singular_tolerance

    def reset(self) -> None:
        """Fills the energy tank of the null space."""
        self.null_space.reset()

    def _stance_feet(self, stance: Iterable[str] | None) -> tuple[str, ...]:
        """Returns the feet that support a floating root."""
        robot, frame = self.robot, self.frame
        if robot.root == "fixed":
            return () if stance is None else check_stance_feet(robot, stance)[:0]
        if stance is None:
            return tuple(foot for foot in robot.feet if frame not in (foot, robot.legs[foot].foot.frame))
        return check_stance_feet(robot, stance)

    def _operational_space(self, s: State, motion: TaskMotion, feet: tuple[str, ...]) -> OperationalSpace:
        """Returns the operational space of the task on stance feet."""
        return compute_operational_space(s, motion.J, self.task.is_angular, feet, tolerance=self.singular_tolerance)

    def _torques(
        self,
        s: State,
        motion: TaskMotion,
        space: OperationalSpace,
        feet: tuple[str, ...],
        *,
        bias: Array,
        force: Array,
        dissipated: float,
        friction: float,
        error: Array,
        frequencies: Array,
    ) -> TaskTorque:
        """Returns the torques of a force along the rows, distributed over actuators and feet and clamped.

        Args:
            s: the state.
            motion: the task at this state.
            space: its operational space.
            feet: names of the stance feet.
            bias: (nv,) compensated generalized force, gravity or h [N m, N].
            force: (k,) force along the rows [N, N m].
            dissipated: power that the law dissipates, for the energy tank [W].
            friction: Coulomb's coefficient, dimensionless.
            error: (k,) see `TaskTorque` [m, rad].
            frequencies: (k,) see `TaskTorque` [rad/s].
        """
        robot = self.robot
        load = bias + motion.J.T @ force
        load += self.null_space.force(s, space, dissipated)
        distribution = distribute_load(s, load, feet, friction=friction)
        tau = np.minimum(np.maximum(distribution.tau, -robot.effort_limits), robot.effort_limits)
        return TaskTorque(
            tau=tau,
            saturated_joints=tuple(robot.actuated[i] for i in np.flatnonzero(tau != distribution.tau)),
            force=force,
            error=error,
            frequencies=frequencies,
            is_singular=space.is_singular,
            forces=distribution.forces,
            residual=distribution.residual,
            margin=distribution.margin,
        )


class CartesianImpedance(CartesianController):
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
    The energy tank of `NullSpacePosture` is part of V.

    *With* `inertia` = Md the load compensates h and shapes the inertia: ``Md e'' + D e' + K e = -F_ext`` holds exactly
    if the external force is measured and passed to `compute` (Hogan 1985, "Impedance control", part II).  Without the
    measurement the frame responds to ``Md Lambda^-1 F_ext`` instead of F_ext, also in its static deflection.  The
    storage is that of the frame alone, ``V = e'^T Md e' / 2 + e^T K e / 2``, with ``dV/dt = -e'^T D e' - e'^T F_ext``.

    By default the damping gives every mode of (Lambda or Md, K) the given damping ratio, computed at every state
    (`compute_modal_damping`).  An impedance of the trunk is a virtual model (`VirtualModel`); the reaction of an
    impedance of a swing foot is carried by the stance feet.  `CartesianController` describes stance feet, null space,
    singular postures and clamped torques.

    Args:
        robot, frame, rows, null_space, singular_tolerance: see `CartesianController`.
        stiffness: K, one number for rows of one unit, (k,) or symmetric positive semi-definite (k, k) [N/m, N m/rad].
        damping: D, of one of these shapes [N s/m, N m s/rad]; None for the modal damping of the inertia.
        damping_ratio: zeta of the default damping, dimensionless; 1 is critical.
        inertia: Md, of one of these shapes, positive definite [kg, kg m^2]; None for no inertia shaping.

    Stiffness, damping and inertia are then read-only matrices (k, k), damping and inertia None where they are not
    given.
    """

    stiffness = ValidatedAttribute[ArrayLike, Array](lambda self, value: self._gain("stiffness", value))
    damping = ValidatedAttribute[ArrayLike | None, Array | None](
        lambda self, value: None if value is None else self._gain("damping", value)
    )
    damping_ratio = positive_attribute("damping_ratio", zero=True)

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
        super().__init__(robot, frame, rows=rows, null_space=null_space, singular_tolerance=singular_tolerance)
        self.stiffness, self.damping, self.damping_ratio = stiffness, damping, damping_ratio
        self._inertia: Array | None = None
        self._inertia_roots: tuple[Array, Array] | None = None
        self.inertia = inertia

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

        `CartesianController` describes the parameters.  `external` is the (3,) or (6,) measured force on the frame,
        world axes [N, N m], used only for inertia shaping; None for zero.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or a state of another robot.
            UnknownNameError: `stance` names no foot.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.compute_motion(s, target, velocity, acceleration)
        feet, measured = self._stance_feet(stance), as_twist("external", external)
        space = self._operational_space(s, motion, feet)
        root, inverse_root = self._inertia_roots or (space.root, space.inverse_root)
        D, frequencies = compute_modal_damping(root, inverse_root, self.stiffness, self.damping_ratio)
        if self.damping is not None:
            D = self.damping
        force = self.stiffness @ motion.error + D @ motion.rate
        if self.inertia is None:
            force = force + space.inertia @ motion.acceleration
        else:
            # The measured force, converted to the equivalent force on the task's rows.
            external_force = space.inertia @ (
                motion.J @ (space.constrained_inverse @ (motion.twist_jacobian.T @ measured))
            )
            shaped = motion.acceleration + inverse_root.T @ (inverse_root @ (force + external_force))
            force = space.inertia @ (shaped - motion.drift - motion.J @ space.stance_acceleration) - external_force
        return self._torques(
            s, motion, space, feet, bias=s.gravity if self.inertia is None else s.h, force=force,
            dissipated=float(motion.rate @ D @ motion.rate), friction=friction, error=motion.error,
            frequencies=frequencies,
        )  # fmt: skip

    def storage(self, s: State, target: Array | Pose, *, velocity: Array | None = None) -> float:
        """Returns V of the class's docstring [J]: without external forces and for a target at rest, it never grows.

        The parameters are those of `compute`; the velocity is used only for inertia shaping.

        Raises:
            ArgumentError: as `compute`.
            StaleStateError: the Dynamics of `s` was updated again.
        """
        motion = self.task.compute_motion(s, target, velocity)
        spring = 0.5 * float(motion.error @ self.stiffness @ motion.error)
        if self.inertia is not None:
            return spring + 0.5 * float(motion.rate @ self.inertia @ motion.rate)
        return spring + s.energy.kinetic + self.null_space.tank_energy


class VirtualModel(CartesianImpedance):
    """Springs and dampers between the trunk and the world, realized by the stance legs; gravity is compensated.

    The wrench of the virtual components on the trunk is converted to joint torques by the Jacobians of the legs, with
    the contact forces of `distribute_load`.  This is `CartesianImpedance` of the trunk's frame, with its passivity and
    storage, as long as the feet do not move (``residual`` 0) and their forces are inside the friction cones (``margin``
    > 0).  The target is a `Pose`, and all feet are stance feet by default.

    Source: Pratt, Chew, Torres, Dilworth and Pratt 2001, "Virtual model control: an intuitive approach for bipedal
    locomotion".

    Default stiffnesses come from the robot: ``K_ii = w^2 Lambda_ii`` per row, with Lambda the operational-space inertia
    of the trunk at home with every foot on the ground; the default damping comes from Lambda at the current state.

    Args:
        robot: a robot with legs on a free or planar root.
        stiffness: (k,) or (k, k) by `rows` [N/m, N m/rad]; None for the default from the inertia.
        damping: (k,) or (k, k), likewise [N s/m, N m s/rad]; None for the default from the inertia.
        bandwidth: w of the default stiffness [Hz].
        damping_ratio: zeta of the default damping, dimensionless; 1 is critical.
        rows: names of the controlled rows, world axes; None for all that the legs can move independently at home (all
            six with three-joint legs; four on a quadruped whose two-joint legs move in parallel planes).
        null_space, singular_tolerance: see `CartesianController`; the null space has the swing legs and other joints
            that do not move the trunk.

    Attributes:
        frame: name of the trunk's frame, the root link.

    Raises:
        ArgumentError: a fixed root, no legs, or another argument out of range; the message names it.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        stiffness: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        bandwidth: float = 2.0,
        damping_ratio: float = 1.0,
        rows: Iterable[str] | None = None,
        null_space: NullSpacePosture | None = None,
        singular_tolerance: float = 1e-4,
    ) -> None:
        check_robot(robot)
        if robot.root not in TRUNK_ROWS or not robot.feet:
            raise ArgumentError(f"robot: expected legs on a free or planar root, got {robot!r}")
        frame, w = robot.tree.root.name, 2.0 * np.pi * check_positive("bandwidth", bandwidth)
        tolerance = check_fraction("singular_tolerance", singular_tolerance)
        controlled_rows = _find_independent_rows(robot, frame, tolerance) if rows is None else tuple(rows)
        if stiffness is None:
            space = _operational_space_at_home(CartesianTask(robot, frame, controlled_rows), tolerance)
            stiffness = w * w * space.inertia.diagonal()
        super().__init__(
            robot, frame, stiffness=stiffness, damping=damping, damping_ratio=damping_ratio, rows=controlled_rows,
            null_space=null_space, singular_tolerance=tolerance,
        )  # fmt: skip

    @property
    def impedance(self) -> CartesianImpedance:
        """This controller, which is a `CartesianImpedance`."""
        return self


def _operational_space_at_home(task: CartesianTask, tolerance: float) -> OperationalSpace:
    """Computes the operational space of a task in ``q_home`` with all feet on the ground."""
    robot = task.robot
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    motion = task.compute_motion(s, s.placement(task.frame))
    return compute_operational_space(s, motion.J, task.is_angular, robot.feet, tolerance=tolerance)


def _find_independent_rows(robot: Robot, frame: str, tolerance: float) -> tuple[str, ...]:
    """Finds the rows of the trunk that the legs can move independently at home, with the priority of `TRUNK_ROWS`."""
    rows: tuple[str, ...] = ()
    for row in TRUNK_ROWS[robot.root]:
        if not _operational_space_at_home(CartesianTask(robot, frame, (*rows, row)), tolerance).is_singular:
            rows = (*rows, row)
    if not rows:
        raise ArgumentError(f"robot: at q_home the legs of {robot.name!r} cannot move its trunk in any direction")
    return tuple(row for row in FRAME_ROWS if row in rows)
