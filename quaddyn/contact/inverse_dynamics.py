"""Contact-consistent inverse dynamics: torques and contact forces that make a wanted acceleration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_vector
from ..urdf.tree import Array
from .contact_set import ContactSet
from .force_distribution import passive_rows, share_load


@dataclass(frozen=True, slots=True, eq=False)
class InverseDynamics:
    """Torques and contact forces of one acceleration.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], not saturated.
        forces: by active contact, (3,) at a point's contact point or (6,) at a surface's centre, on the robot, world
            axes [N, N m].
        residual: largest entry of ``M a + h - S^T tau - J^T f`` [N, N m]: zero where motors and contacts can make the
            acceleration, what is missing where they cannot.
        slip: largest acceleration ``|J a + drift|`` that the wanted motion gives a contact [m/s^2, rad/s^2].
        margin: smallest ``mu f_n - |f_t|`` over the unilateral contacts [N]: negative where the forces would take a
            pull or a slip; inf without any.
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
    """Torques tau and contact forces f with ``M a + h = S^T tau + J^T f``, the cheapest of them.

    The rows without a motor (a free root's six, passive joints) fix part of f: ``J_u^T f = (M a + h)_u``.  Among the
    forces that do, those are taken that make ``force_weight |f|_W^2 + torque_weight |tau|^2`` least, with
    ``|f|_W^2 = f_n^2 + |f_t|^2 / mu^2`` of a point, so that forces lean towards the middle of their cones.  Where none
    do, the rest is least in the metric of the inertia, as in Gauss's principle of least constraint.

    Source: Righetti, Buchli, Mistry, Kalakrishnan and Schaal 2013, "Optimal distribution of contact forces with inverse
    dynamics control"; 2011, "Inverse dynamics control of floating-base robots with external constraints".  Cones are
    not enforced: `InverseDynamics.margin` tells.

    Args:
        s: the state.
        contacts: the active members push; all of them unilateral, bilateral or force-only alike.
        acceleration: (nv,) wanted [rad/s^2, m/s^2].
        torque_weight: [1 / (N m)^2].
        force_weight: [1 / N^2]; one of the weights is positive.
        rank_tolerance: singular values below this share of the largest count as zero.

    Raises:
        ArgumentTypeError: no `State`, or no `ContactSet`.
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
        raise ArgumentError(f"rank_tolerance: expected a share of the largest singular value, got {tolerance}")

    passive = passive_rows(robot)
    f, rest = share_load(
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
        tau=rest[robot.actuated_index],
        forces=forces,
        residual=float(np.abs(rest[passive]).max(initial=0.0)),
        slip=float(np.abs(slip).max(initial=0.0)),
        margin=min(margins.values(), default=np.inf),
    )


def _cone_metric(contacts: ContactSet) -> Array:
    """T with ``f = T y`` and ``|y|^2 = sum f_n^2 + |f_t|^2 / mu^2``; moments of a surface by its half size."""
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
