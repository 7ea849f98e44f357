"""Contact-consistent inverse dynamics: joint torques and contact forces for a desired acceleration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_vector
from ..urdf.tree import Array
from .contact_set import ContactSet
from .force_distribution import solve_force_distribution, unactuated_rows


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

    The rows without a motor (a free root's six, passive joints) determine a part of f: ``J_u^T f = (M a + h)_u``.
    Among the forces that satisfy them, the result minimizes ``force_weight |f|_W^2 + torque_weight |tau|^2`` with
    ``|f|_W^2 = f_n^2 + |f_t|^2 / mu^2`` of a point, which keeps forces near the centers of their cones.  If no forces
    satisfy them, the residual is minimized in the metric of the inertia, as in Gauss's principle of least constraint.

    Source: Righetti, Buchli, Mistry, Kalakrishnan and Schaal 2013, "Optimal distribution of contact forces with inverse
    dynamics control"; 2011, "Inverse dynamics control of floating-base robots with external constraints".  Friction
    cones are not enforced; `InverseDynamics.margin` reports the margin.

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
    if not isinstance(s, State):
        raise ArgumentTypeError(f"s: expected a State from Dynamics.update, got {type(s).__name__}")
    if not isinstance(contacts, ContactSet):
        raise ArgumentTypeError(f"contacts: expected a ContactSet, got {type(contacts).__name__}")
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
