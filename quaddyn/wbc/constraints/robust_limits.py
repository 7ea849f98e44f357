"""`RobustLimits`: torque and friction limits that hold for every payload and all parameters of a given set.

The set is a `ParameterEllipsoid`, the uncertainty of the inertias, friction and rotors of a robot, or a `PayloadSet`,
the payloads that a robot may carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from ...contact import Contact
from ...contact.contact_set import cross_matrix
from ...deprecation import renamed_attributes, renamed_parameters
from ...dynamics import Dynamics
from ...errors import ArgumentError, ArgumentTypeError
from ...robot.arguments import check_array, check_number, check_vector
from ...robot.robot import Robot
from ...urdf.tree import Array, FrozenArrays, frozen
from ..contact_settings import ContactFrame, ContactSettings
from ..element import scales
from ..tick import Rows, Tick
from .constraint import Constraint, check_motor_values
from .held_object import RANK_TOLERANCE


@dataclass(frozen=True, slots=True, eq=False)
class ParameterEllipsoid(FrozenArrays):
    """Ellipsoid of dynamic parameters, ``delta = delta_model + directions^T z`` for all ``|z| <= 1``.

    `quaddyn.identification.Identification.parameter_band` computes one from the covariance of a fit.

    Attributes:
        directions: (k, n) half axes of the ellipsoid, or any rows that span it, in the units of the n entries of
            `Dynamics.parameters`.

    Raises:
        ArgumentError: not a finite matrix.
    """

    directions: Array

    def __post_init__(self) -> None:
        given = check_array("directions", self.directions)
        if given.ndim != 2 or not np.isfinite(given).all():
            raise ArgumentError(f"directions: expected a finite matrix (k, n), got shape {given.shape}")
        object.__setattr__(self, "directions", frozen(given))


@renamed_attributes(low="com_lower", high="com_upper", gyration="radius_of_gyration", spread="max_second_moment")
@dataclass(frozen=True, slots=True, eq=False)
class PayloadSet(FrozenArrays):
    """Set of payloads that a link may carry in addition to what the model contains.

    Attributes:
        mass: (2,) smallest and largest mass [kg]; negative if the link may be lighter than its file states.
        com_lower, com_upper: (3,) corners of a box, in the axes of the link, that contains the payload's center of mass
            [m].
        link: name of the link that carries the payload; the root link if None.
        radius_of_gyration: largest radius of gyration of the payload about its own center of mass [m].

    Raises:
        ArgumentError: bounds in the wrong order, or numbers that are not finite.
    """

    mass: Array | Sequence[float]
    com_lower: Array | Sequence[float]
    com_upper: Array | Sequence[float]
    link: str | None = None
    radius_of_gyration: float = 0.0

    def __post_init__(self) -> None:
        mass = frozen(check_vector("mass", self.mass, (2,), "smallest and largest"))
        low, high = (
            frozen(check_vector(k, getattr(self, k), (3,), "in the link's axes")) for k in ("com_lower", "com_upper")
        )
        if mass[0] > mass[1]:
            raise ArgumentError(f"mass: expected the smallest and the largest mass in this order, got {self.mass}")
        if not (low <= high).all():
            raise ArgumentError(
                f"com_lower, com_upper: expected no entry of com_lower above that of com_upper, got {low}, {high}"
            )
        if not 0.0 <= check_number("radius_of_gyration", self.radius_of_gyration) < np.inf:
            raise ArgumentError(f"radius_of_gyration: expected a finite number >= 0, got {self.radius_of_gyration}")
        for name, value in (("mass", mass), ("com_lower", low), ("com_upper", high)):
            object.__setattr__(self, name, value)

    @property
    def max_second_moment(self) -> float:
        """Largest second moment of mass about the middle of the box [kg m^2].

        It is that of the payload of largest ``|mass|`` with its center of mass in a corner of the box, at the distance
        r from the middle: ``|mass| (r^2 + radius_of_gyration^2)``.
        """
        half_diagonal = 0.5 * (np.asarray(self.com_upper) - np.asarray(self.com_lower))
        return float(np.abs(self.mass).max() * (half_diagonal @ half_diagonal + self.radius_of_gyration**2))

    def vertices(self) -> tuple[Array, Array]:
        """Returns (k,) masses and (k, 3) centers of mass of the vertices of the set.

        The set is the convex hull of the vertices in the coordinates mass and mass times center.
        """
        box = np.array([self.com_lower, self.com_upper])
        corners = np.unique(np.array(list(product(*box.T))), axis=0)
        vertices = [(m, c) for m in np.unique(self.mass) for c in (corners if m != 0.0 else corners[:1])]
        return np.array([m for m, _ in vertices]), np.array([c for _, c in vertices])


_renamed = renamed_parameters(low="com_lower", high="com_upper", gyration="radius_of_gyration")
PayloadSet.__init__ = _renamed(PayloadSet.__init__)  # type: ignore[method-assign]  # old arguments of a dataclass


class RobustLimits(Constraint):
    r"""Torques and contact forces within their limits for every payload of a set.

    The tick's accelerations a should be realized with any payload.  A payload k that is not in the model requires the
    wrench

    .. math::

        w_k(a) = m_k \begin{pmatrix} 1 \\ [r_k]_\times \end{pmatrix} (\ddot p_k(a) - g)

    at its link, which contacts and motors provide together.  Contact forces change by :math:`\Delta f = P\, w_k`, the
    smallest change that balances the unactuated rows, :math:`J_u^T \Delta f = J_{l,u}^T w_k`, and torques by
    :math:`\Delta \tau = T\, w_k = J_{l,a}^T w_k - J_a^T \Delta f`.  For each vertex k of the set, each motor i and each
    face d of a friction pyramid,

    .. math::

        |\tau_i + (T w_k(a))_i| \le \tau_{max,i} - \epsilon_i - \rho\,|T^\omega_i|, \qquad
        d \cdot (f + P w_k(a)) \le -\rho\,|d\, P^\omega|

    with friction at the smallest coefficient, and :math:`\epsilon` the uncertainty of the motor torques.  As w is
    linear in mass and mass times center of mass, bounds that hold at the vertices hold for all payloads of the set: a
    controller that realizes the motion by feedback then finds forces and torques within their limits. :math:`\rho = m
    (e^2 + s^2)(|\omega|^2 + \alpha_{max})` bounds the moments of the nonlinear part: the square of the center's
    distance e from the middle of its box, and the payload's own radius of gyration s.

    Where the contacts cannot balance a payload (such as the two feet of a trot, about the line between them), the
    remaining moment accelerates the robot.

    **Parameters.** If the inertias, friction and rotors of the robot itself are known only within a
    `ParameterEllipsoid`, ``S^T z`` with :math:`|z| \le 1` about the model's, generalized forces differ by :math:`Y(q,
    v, a)\, S^T z`, with Y the regressor.  Contacts and motors balance them like the wrench of a payload, and each bound
    is tightened by the largest value, the length of the row of :math:`Y S^T`.  Since this is not linear in a, the
    acceleration of the previous tick is used (zero on the first): exact where accelerations are steady.

    Use it on level 0 for robots that carry unknown loads.  Rows are computed with NumPy, all vertices at once;
    `benchmarks/parameter_bands.py` measures their cost.

    Source: Del Prete, Mansard 2016, "Robustness to joint-torque-tracking errors in task-space inverse dynamics",
    section IV, for the form; there the uncertainty is that of torques.

    Args:
        robot: the robot.
        payload: set of payloads; None for no payload.
        parameters: uncertainty of the robot's own parameters; None for none.
        friction_fraction: smallest friction coefficient of the ground, as a fraction of each contact's coefficient.
        torque_margin: (nu,) or scalar, largest difference of the torque at a joint from the commanded one [N m], due to
            joint friction and the torque constant of the motor.
        limits: (nu,) or scalar, largest torques [N m]; ``robot.effort_limits`` if None.
        angular_acceleration: angular acceleration of the link for which to reserve torque [rad/s^2]; ``g / l`` with l
            the leg length if None.
        faces: number of faces of the friction pyramids.
        name: name of the constraint in the controller.

    Raises:
        ArgumentError: a fraction outside [0, 1], negative numbers, or shapes that do not fit.
        UnknownNameError: the link does not exist.
    """

    unit = "N m"

    @renamed_parameters(torque="torque_margin", turning="angular_acceleration", friction="friction_fraction")
    def __init__(
        self,
        robot: Robot,
        payload: PayloadSet | None = None,
        *,
        parameters: ParameterEllipsoid | None = None,
        friction_fraction: float = 1.0,
        torque_margin: ArrayLike = 0.0,
        limits: ArrayLike | None = None,
        angular_acceleration: float | None = None,
        faces: int = 4,
        name: str = "robust",
    ) -> None:
        super().__init__(name, robot=robot)
        for argument, given, kind in (("payload", payload, PayloadSet), ("parameters", parameters, ParameterEllipsoid)):
            if given is not None and not isinstance(given, kind):
                raise ArgumentTypeError(f"{argument}: expected a {kind.__name__}, got {type(given).__name__}")
        self.parameters, self._dynamics = parameters, None if parameters is None else Dynamics(robot)
        if parameters is not None and self._dynamics is not None:
            robot.reject_coupled_joints("RobustLimits(parameters=)")
            count = len(self._dynamics.parameters())
            if parameters.directions.shape[1] != count:
                raise ArgumentError(
                    f"parameters: expected an ellipsoid over {count} parameters of the robot, got directions with "
                    f"{parameters.directions.shape[1]} entries"
                )
        unit, self._friction_fraction, self._faces, self.payload = (
            scales(robot),
            check_number("friction_fraction", friction_fraction),
            faces,
            payload,
        )
        if not 0.0 <= self._friction_fraction <= 1.0:
            raise ArgumentError(f"friction_fraction: expected a number in [0, 1], got {friction_fraction}")
        self._angular_acceleration = (
            unit.gravity / unit.length
            if angular_acceleration is None
            else check_number("angular_acceleration", angular_acceleration)
        )
        if not 0.0 <= self._angular_acceleration < np.inf:
            raise ArgumentError(f"angular_acceleration: expected a finite number >= 0, got {angular_acceleration}")
        bound = check_motor_values(robot, "limits", robot.effort_limits if limits is None else limits)
        self._limits = np.maximum(bound - check_motor_values(robot, "torque_margin", torque_margin), 0.0)
        self._passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        payloads = PayloadSet((0.0, 0.0), np.zeros(3), np.zeros(3)) if payload is None else payload
        self._link, self._max_second_moment = payloads.link or robot.bodies[0].name, payloads.max_second_moment
        robot.frame_id(self._link)
        self._mass, self._centers = payloads.vertices()
        self._vertex_labels = tuple(
            f" with {m:.3g} kg at ({', '.join(f'{x:.3g}' for x in c)})" if m != 0.0 else ""
            for m, c in zip(self._mass.tolist(), self._centers.tolist(), strict=True)
        )
        self._names = tuple(f"{joint} torque limit{label}" for label in self._vertex_labels for joint in robot.actuated)
        self._weights = np.full(len(self._names), 1.0 / (unit.mass * unit.length))
        #: By contact name, the contact when it was last used, and its settings at the smallest friction.
        self._low_friction_contacts: dict[str, tuple[Contact, ContactSettings]] = {}

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns, for every vertex, the rows of all motors and of the friction pyramids of unilateral contacts."""
        s, unilateral_contacts = tick.state, list[ContactFrame]()
        Jf, activation = np.zeros((tick.nf, tick.robot.nv)), np.zeros((tick.nf, 1))
        for contact in tick.contacts:
            if contact.settings.role != "compliant":
                Jf[contact.columns], activation[contact.columns] = contact.jacobian, contact.activation
                unilateral_contacts += [contact] if contact.settings.contact.unilateral else []
        J, passive, driven = s.jacobian(self._link), self._passive, tick.robot.actuated_index
        # Smallest forces divided by their activations: contacts that have just been made take little.
        balance = activation * np.linalg.pinv((activation * Jf)[:, passive].T, rcond=RANK_TOLERANCE)
        P = balance @ J[:, passive].T
        T = J[:, driven].T - Jf[:, driven].T @ P
        omega = s.velocity(self._link)[3:]
        reserve = self._max_second_moment * (float(omega @ omega) + self._angular_acceleration)
        W, w = self._vertex_wrenches(tick)
        forces, torques = self._parameter_effects(tick, Jf, balance)
        torque_reserve = reserve * np.linalg.norm(T[:, 3:], axis=1) + np.linalg.norm(torques, axis=1)
        margin = np.maximum(self._limits - torque_reserve, 0.0)
        constant_torques, k = (w @ T.T).ravel(), len(W)
        rows = [
            Rows(
                self._names, "N m", -np.tile(margin, k) - constant_torques, np.tile(margin, k) - constant_torques,
                weights=self._weights,
                acceleration=(T @ W).reshape(len(constant_torques), -1), torque=np.tile(np.eye(len(T)), (k, 1)),
            )
        ]  # fmt: skip
        for contact in unilateral_contacts:
            C, names = self._low_friction_cone(contact, tick.robot)
            D = C @ P[contact.columns]
            force_uncertainty = np.linalg.norm(C @ forces[contact.columns], axis=1)
            upper = -(w @ D.T + reserve * np.linalg.norm(D[:, 3:], axis=1) + force_uncertainty).ravel()
            rows.append(
                Rows(
                    names, "N", np.full(len(upper), -np.inf), upper, acceleration=(D @ W).reshape(len(upper), -1),
                    force=np.tile(tick.force_rows(contact, C), (k, 1)),
                    weights=np.full(len(upper), 1.0 / tick.scales.mass),
                )
            )  # fmt: skip
        return rows

    def _parameter_effects(self, tick: Tick, Jf: Array, balance: Array) -> tuple[Array, Array]:
        """Returns (nf, k) and (nu, k) changes of contact forces and torques along each direction of the parameters."""
        s, driven = tick.state, tick.robot.actuated_index
        if self.parameters is None or self._dynamics is None:
            return np.zeros((len(Jf), 1)), np.zeros((len(driven), 1))
        a = np.zeros(tick.robot.nv) if tick.acceleration_before is None else tick.acceleration_before
        E = self._dynamics.regressor(s.q, s.v, a) @ self.parameters.directions.T
        forces = balance @ E[self._passive]
        return forces, E[driven] - Jf[:, driven].T @ forces

    def _vertex_wrenches(self, tick: Tick) -> tuple[Array, Array]:
        """Returns (k, 6, nv) W and (k, 6) w of the wrench ``W a + w`` of each vertex at the origin of the link."""
        s, m = tick.state, self._mass[:, None, None]
        omega, r = s.velocity(self._link)[3:], self._centers @ s.placement(self._link).rotation.T
        B = np.zeros((len(r), 3, 6))  # acceleration of the payload from that of the link's origin
        B[:, :, :3] = np.eye(3)
        B[:, :, 3:] = [-cross_matrix(position) for position in r]
        omega_cross = cross_matrix(omega)
        drift = B @ s.drift(self._link) + r @ (omega_cross @ omega_cross).T - tick.robot.model.gravity.linear
        to_wrench = m * B.transpose(0, 2, 1)
        return to_wrench @ (B @ s.jacobian(self._link)), (to_wrench @ drift[:, :, None])[:, :, 0]

    def _low_friction_cone(self, contact: ContactFrame, robot: Robot) -> tuple[Array, tuple[str, ...]]:
        """Returns a contact's friction pyramid at the smallest friction, and the names of its rows for all vertices."""
        contact_now, cached = contact.settings.contact, self._low_friction_contacts.get(contact.name)
        if cached is None or cached[0] is not contact_now:
            cached = (
                contact_now,
                ContactSettings(robot, contact_now, friction=self._friction_fraction * contact_now.friction),
            )
            self._low_friction_contacts[contact.name] = cached
        C = cached[1].cone_face_rows(self._faces, contact.rotation)
        return C, tuple(f"{contact.name} friction cone{label}" for label in self._vertex_labels for _ in C)
