"""Joint torques and contact forces for a generalized force or a desired acceleration: `inverse_dynamics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dynamics import State
from ..errors import ArgumentError
from ..robot.arguments import check_number, check_type, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_set import ContactSet


def solve_force_distribution(
    M: Array,
    load: Array,
    passive: NDArray[np.bool_],
    J: Array,
    T: Array,
    *,
    torque_weight: float = 0.0,
    force_weight: float = 1.0,
    rank_tolerance: float,
) -> tuple[Array, Array]:
    """Computes the contact forces f that minimize a cost; the motors provide the remaining ``load - J^T f``.

    The rows without a motor determine a part of f: ``J_u^T f = load_u``.  Among the forces that satisfy them, the
    result minimizes ``force_weight |y|^2 + torque_weight |(load - J^T f)_m|^2``, with ``f = T y`` and m the rows with a
    motor.  If no forces satisfy them, their residual is minimized in the metric of the inertia, as in Gauss's principle
    of least constraint (1829).

    Source: Righetti, Buchli, Mistry, Kalakrishnan and Schaal 2013, "Optimal distribution of contact forces with inverse
    dynamics control"; 2011, "Inverse dynamics control of floating-base robots with external constraints".

    Args:
        M: (nv, nv) mass matrix.
        load: (nv,) generalized force to be exerted [N, N m].
        passive: (nv,) true at the rows without a motor.
        J: (k, nv) Jacobian of the contacts; k may be 0.
        T: (k, k) invertible metric of the forces.
        torque_weight: weight of the squared motor torques, 0 or more.
        force_weight: weight of ``|y|^2``, 0 or more; one of the weights must be positive.
        rank_tolerance: singular values below this fraction of the largest count as zero.

    Returns:
        f (k,) and the rest ``load - J^T f`` (nv,): the motors' torques, and at the rows without a motor the residual.
    """
    k = len(J)
    if k == 0:
        return np.zeros(0), load
    y, null = np.zeros(k), np.eye(k)
    if passive.any():
        L = np.linalg.cholesky(M[passive][:, passive])
        rows = np.linalg.solve(L, np.column_stack((J[:, passive].T @ T, load[passive])))
        y, null = _least_squares(rows[:, :-1], rows[:, -1], rank_tolerance)
    if torque_weight > 0.0 and null.shape[1]:  # remaining freedom: y + null z; without a torque weight, z = 0
        cost = np.vstack((np.sqrt(force_weight) * np.eye(k), np.sqrt(torque_weight) * (J[:, ~passive].T @ T)))
        target = np.concatenate((np.zeros(k), np.sqrt(torque_weight) * load[~passive])) - cost @ y
        y = y + null @ _least_squares(cost @ null, target, rank_tolerance)[0]
    f = T @ y
    return f, load - J.T @ f


def unactuated_rows(robot: Robot) -> NDArray[np.bool_]:
    """Returns a mask (nv,), true at the rows that no motor drives: a free root's six, passive joints."""
    rows = np.ones(robot.nv, dtype=np.bool_)
    rows[robot.actuated_index] = False
    return rows


def _least_squares(A: Array, b: Array, tolerance: float) -> tuple[Array, Array]:
    """Returns the x of minimum norm that minimizes ``|A x - b|``, and an orthonormal basis of the null space of A."""
    U, sigma, Vt = np.linalg.svd(A)
    rank = int((sigma > tolerance * max(sigma[0], np.finfo(float).tiny)).sum()) if len(sigma) else 0
    x = Vt[:rank].T @ ((U[:, :rank].T @ b) / sigma[:rank])
    return np.asarray(x), np.asarray(Vt[rank:].T)


@dataclass(frozen=True, slots=True, eq=False)
class InverseDynamics:
    """Joint torques and contact forces for one acceleration.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], not saturated.
        forces: by active contact, (3,) at a point's contact point or (6,) at a surface's center, on the robot, world
            axes [N, N m].
        residual: largest entry of ``M a + h - S^T tau - J^T f`` [N, N m]: zero where motors and contacts can realize
            the acceleration, otherwise the missing generalized force.
        slip: largest acceleration ``|J a + drift|`` that the desired motion gives a contact [m/s^2, rad/s^2].
        margin: smallest ``mu f_n - |f_t|`` over the unilateral contacts [N]: negative where a contact would pull or
            slip; inf without unilateral contacts.
    """

    tau: Array
    forces: Mapping[str, Array]
    residual: float
    slip: float
    margin: float


def inverse_dynamics(
    s: State,
    contacts: ContactSet,
    acceleration: Array,
    *,
    torque_weight: float = 0.0,
    force_weight: float = 1.0,
    rank_tolerance: float = 1e-8,
) -> InverseDynamics:
    """Computes the torques tau and contact forces f that minimize a cost with ``M a + h = S^T tau + J^T f``.

    The forces are those of `solve_force_distribution` for the generalized force ``M a + h``, with the cost
    ``force_weight |f|_W^2 + torque_weight |tau|^2`` and ``|f|_W^2 = f_n^2 + |f_t|^2 / mu^2`` of a point, which keeps
    forces near the centers of their cones.  Friction cones are not enforced; `InverseDynamics.margin` reports the
    margin.

    Args:
        s: the state.
        contacts: the active members exert forces, whether unilateral, bilateral or force-only.
        acceleration: (nv,) desired acceleration [rad/s^2, m/s^2].
        torque_weight: weight of the squared torques [1 / (N m)^2].
        force_weight: weight of the squared forces [1 / N^2]; one of the two weights must be positive.
        rank_tolerance: singular values below this fraction of the largest count as zero.

    Raises:
        ArgumentTypeError: `s` is not a `State`, or `contacts` is not a `ContactSet`.
        ArgumentError: a wrong shape, an entry that is not finite, or a weight out of range.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    check_type("s", s, State, "a State from Dynamics.update")
    check_type("contacts", contacts, ContactSet, "a ContactSet")
    robot = s.robot
    acceleration = check_vector("acceleration", acceleration, (robot.nv,), f"nv of {robot.name}")
    w_tau, w_f = check_number("torque_weight", torque_weight), check_number("force_weight", force_weight)
    if not (0.0 <= w_tau < np.inf and 0.0 <= w_f < np.inf and w_tau + w_f > 0.0):
        raise ArgumentError(
            f"torque_weight, force_weight: expected weights of 0 or more, not both 0, got {w_tau}, {w_f}"
        )
    tolerance = check_number("rank_tolerance", rank_tolerance)
    if not 0.0 <= tolerance < 1.0:
        raise ArgumentError(
            f"rank_tolerance: expected a fraction of the largest singular value in [0, 1), got {tolerance}"
        )

    passive = unactuated_rows(robot)
    f, remainder = solve_force_distribution(
        s.M,
        s.M @ acceleration + s.h,
        passive,
        contacts.jacobian(s),
        _cone_metric(contacts),
        torque_weight=w_tau,
        force_weight=w_f,
        rank_tolerance=tolerance,
    )
    forces = {name: f[rows] for name, rows in contacts.slices().items()}
    margins = contacts.cone_margins({c.name: forces[c.name] for c in contacts if c.unilateral})
    slip = contacts.jacobian(s, motion_only=True) @ acceleration + contacts.drift(s, motion_only=True)
    return InverseDynamics(
        tau=remainder[robot.actuated_index],
        forces=forces,
        residual=float(np.abs(remainder[passive]).max(initial=0.0)),
        slip=float(np.abs(slip).max(initial=0.0)),
        margin=min(margins.values(), default=np.inf),
    )


def _cone_metric(contacts: ContactSet) -> Array:
    """Returns T with ``f = T y`` and ``|y|^2 = sum f_n^2 + |f_t|^2 / mu^2``; moments are divided by the half size."""
    T = np.zeros((contacts.rows, contacts.rows))
    for contact, rows in zip(contacts, contacts.slices().values(), strict=True):
        mu = max(contact.friction, 1e-3) if contact.unilateral else 1.0
        scale = [mu, mu, 1.0]
        if contact.half_size is not None:
            x, y = contact.half_size
            scale += [float(y), float(x), mu * float(x + y)]
        axes = np.kron(np.eye(contact.rows // 3), contact.axes)
        T[rows, rows] = axes.T @ np.diag(scale)
    return T
