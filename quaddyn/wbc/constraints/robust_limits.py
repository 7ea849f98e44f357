"""`RobustLimits`: torque and friction limits that hold for every payload, and all parameters, of a band."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...contact import Contact
from ...contact.contact_kinematics import cross_matrix
from ...deprecation import renamed_parameters
from ...dynamics import Dynamics
from ...errors import ArgumentError, ArgumentTypeError
from ...robot.arguments import number
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..contacts import ContactFrame, ContactSettings
from ..parameter_ellipsoid import ParameterEllipsoid
from ..payload_set import PayloadSet
from ..scales import scales
from ..tick import Rows, Tick
from .constraint import Constraint, per_motor
from .held_object import RANK_TOLERANCE


class RobustLimits(Constraint):
    r"""Torques and contact forces stay within their limits, whatever payload of a band the robot carries.

    The accelerations a are to be those that the tick decides on.  A payload k that the model does not have needs for
    them the wrench

    .. math::

        w_k(a) = m_k \begin{pmatrix} 1 \\ [r_k]_\times \end{pmatrix} (\ddot p_k(a) - g)

    at its link, which contacts and motors provide together: contact forces change by :math:`\Delta f = P\, w_k`, the
    least ones that balance the rows without a motor, :math:`J_u^T \Delta f = J_{l,u}^T w_k`, and torques by
    :math:`\Delta \tau = T\, w_k = J_{l,a}^T w_k - J_a^T \Delta f`.  For each vertex k of the band, each motor i and
    each face d of a friction pyramid,

    .. math::

        |\tau_i + (T w_k(a))_i| \le \tau_{max,i} - \epsilon_i - \rho\,|T^\omega_i|, \qquad
        d \cdot (f + P w_k(a)) \le -\rho\,|d\, P^\omega|

    with friction at the least of its band, and :math:`\epsilon` the band of the motors' torques.  As w is linear in
    mass and mass times centre, what holds at the vertices holds for all payloads in between: a controller that keeps
    the motion by feedback then finds forces and torques within their limits.  :math:`\rho = m (e^2 + s^2)(|\omega|^2 +
    \alpha_{max})` bounds the moments of what is not linear, the square of the centre's distance e from the middle of
    its box, and the payload's own radius of gyration s.

    Where the contacts cannot balance a payload (a trot's two feet, for the moment about the line between them), what is
    left over moves the robot.

    **Parameters.** Where inertias, friction and rotors of the robot itself are known only within a
    `ParameterEllipsoid`, ``S^T z`` with :math:`|z| \le 1` about the model's, generalized forces differ by :math:`Y(q,
    v, a)\, S^T z`, Y the regressor.  Contacts and motors take them as they take a payload's, and each bound narrows by
    the most of it, the length of the row of :math:`Y S^T`.  As that is no linear function of a, a is there that of the
    tick before (and zero on the first): exact where accelerations settle.

    Rows are computed with NumPy, all vertices at once: `benchmarks/parameter_bands.py` prints what they cost.

    Source: Del Prete, Mansard 2016, "Robustness to joint-torque-tracking errors in task-space inverse dynamics",
    section IV, for the form; there the uncertainty is that of torques.

    Args:
        robot: the robot.
        payload: the band; None for none.
        parameters: the band of the robot's own parameters; None for none.
        friction: least share of each contact's coefficient that the ground may have.
        torque: (nu,) or scalar, by how much the torque at a joint may differ from that which was commanded [N m]: the
            band of its friction, and of the motor's constant.
        limits: (nu,) or scalar [N m]; ``robot.effort_limits`` by default.
        turning: angular acceleration of the link that is reserved for [rad/s^2]; ``g / l`` by default, l the leg's
            length.
        faces: of the friction pyramids.
        name: by which the controller knows it.

    Raises:
        ArgumentError: a share outside [0, 1], negative numbers, shapes that do not fit.
        UnknownNameError: no such link.
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
        for what, given, kind in (("payload", payload, PayloadSet), ("parameters", parameters, ParameterEllipsoid)):
            if given is not None and not isinstance(given, kind):
                raise ArgumentTypeError(f"{what}: expected a {kind.__name__}, got {type(given).__name__}")
        self.parameters, self._dynamics = parameters, None if parameters is None else Dynamics(robot)
        if parameters is not None and self._dynamics is not None:
            robot.reject_coupled_joints("RobustLimits(parameters=)")
            count = len(self._dynamics.parameters())
            if parameters.directions.shape[1] != count:
                raise ArgumentError(
                    f"parameters: expected directions of {count} parameters, got {parameters.directions.shape[1]}"
                )
        unit, self._share, self._faces, self.payload = (
            scales(robot),
            number("friction_fraction", friction_fraction),
            faces,
            payload,
        )
        if not 0.0 <= self._share <= 1.0:
            raise ArgumentError(f"friction_fraction: expected a number in [0, 1], got {friction_fraction}")
        self._turning = (
            unit.gravity / unit.length
            if angular_acceleration is None
            else number("angular_acceleration", angular_acceleration)
        )
        if not 0.0 <= self._turning < np.inf:
            raise ArgumentError(f"angular_acceleration: expected a finite number >= 0, got {angular_acceleration}")
        bound = per_motor(robot, "limits", robot.effort_limits if limits is None else limits)
        self._limits = np.maximum(bound - per_motor(robot, "torque_margin", torque_margin), 0.0)
        self._passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        band = PayloadSet((0.0, 0.0), np.zeros(3), np.zeros(3)) if payload is None else payload
        self._link, self._spread = band.link or robot.bodies[0].name, band.max_second_moment
        robot.frame_id(self._link)
        self._mass, self._centre = band.vertices()
        self._with = tuple(
            f" with {m:.3g} kg at ({', '.join(f'{x:.3g}' for x in c)})" if m != 0.0 else ""
            for m, c in zip(self._mass.tolist(), self._centre.tolist(), strict=True)
        )
        self._names = tuple(f"{joint} torque limit{each}" for each in self._with for joint in robot.actuated)
        self._weights = np.full(len(self._names), 1.0 / (unit.mass * unit.length))
        #: Of each contact as it was, the same at the least friction.
        self._least: dict[str, tuple[Contact, ContactSettings]] = {}

    def rows(self, tick: Tick) -> list[Rows]:
        """Of every vertex, those of all motors, and those of the pyramids of all contacts that push."""
        s, pushing = tick.state, list[ContactFrame]()
        Jf, share = np.zeros((tick.nf, tick.robot.nv)), np.zeros((tick.nf, 1))
        for contact in tick.contacts:
            if contact.settings.role != "compliant":
                Jf[contact.columns], share[contact.columns] = contact.jacobian, contact.activation
                pushing += [contact] if contact.settings.contact.unilateral else []
        J, passive, driven = s.jacobian(self._link), self._passive, tick.robot.actuated_index
        # Least forces over their share: contacts that are only just made take little.
        balance = share * np.linalg.pinv((share * Jf)[:, passive].T, rcond=RANK_TOLERANCE)
        P = balance @ J[:, passive].T
        T = J[:, driven].T - Jf[:, driven].T @ P
        omega = s.velocity(self._link)[3:]
        reserve = self._spread * (float(omega @ omega) + self._turning)
        W, w = self._wrenches(tick)
        forces, torques = self._unsure(tick, Jf, balance)
        narrowed = reserve * np.linalg.norm(T[:, 3:], axis=1) + np.linalg.norm(torques, axis=1)
        room = np.maximum(self._limits - narrowed, 0.0)
        there, k = (w @ T.T).ravel(), len(W)
        rows = [
            Rows(
                self._names, "N m", -np.tile(room, k) - there, np.tile(room, k) - there, weights=self._weights,
                acceleration=(T @ W).reshape(len(there), -1), torque=np.tile(np.eye(len(T)), (k, 1)),
            )
        ]  # fmt: skip
        for contact in pushing:
            C, names = self._cone(contact, tick.robot)
            D = C @ P[contact.columns]
            doubt = np.linalg.norm(C @ forces[contact.columns], axis=1)
            upper = -(w @ D.T + reserve * np.linalg.norm(D[:, 3:], axis=1) + doubt).ravel()
            rows.append(
                Rows(
                    names, "N", np.full(len(upper), -np.inf), upper, acceleration=(D @ W).reshape(len(upper), -1),
                    force=np.tile(tick.force_rows(contact, C), (k, 1)),
                    weights=np.full(len(upper), 1.0 / tick.scales.mass),
                )
            )  # fmt: skip
        return rows

    def _unsure(self, tick: Tick, Jf: Array, balance: Array) -> tuple[Array, Array]:
        """(nf, k) and (nu, k): what contact forces and torques change by along each direction of the parameters."""
        s, driven = tick.state, tick.robot.actuated_index
        if self.parameters is None or self._dynamics is None:
            return np.zeros((len(Jf), 1)), np.zeros((len(driven), 1))
        a = np.zeros(tick.robot.nv) if tick.acceleration_before is None else tick.acceleration_before
        E = self._dynamics.regressor(s.q, s.v, a) @ self.parameters.directions.T
        forces = balance @ E[self._passive]
        return forces, E[driven] - Jf[:, driven].T @ forces

    def _wrenches(self, tick: Tick) -> tuple[Array, Array]:
        """(k, 6, nv) and (k, 6): what each vertex needs at the link's origin, ``W a + w``."""
        s, m = tick.state, self._mass[:, None, None]
        omega, r = s.velocity(self._link)[3:], self._centre @ s.placement(self._link).rotation.T
        B = np.zeros((len(r), 3, 6))  # acceleration of the payload from that of the link's origin
        B[:, :, :3] = np.eye(3)
        B[:, :, 3:] = [-cross_matrix(each) for each in r]
        across = cross_matrix(omega)
        still = B @ s.drift(self._link) + r @ (across @ across).T - tick.robot.model.gravity.linear
        lift = m * B.transpose(0, 2, 1)
        return lift @ (B @ s.jacobian(self._link)), (lift @ still[:, :, None])[:, :, 0]

    def _cone(self, contact: ContactFrame, robot: Robot) -> tuple[Array, tuple[str, ...]]:
        """A contact's pyramid at the least friction, and the names of its rows for all vertices."""
        now, known = contact.settings.contact, self._least.get(contact.name)
        if known is None or known[0] is not now:
            known = now, ContactSettings(robot, now, friction=self._share * now.friction)
            self._least[contact.name] = known
        C = known[1].cone_face_rows(self._faces, contact.rotation)
        return C, tuple(f"{contact.name} friction cone{each}" for each in self._with for _ in C)
