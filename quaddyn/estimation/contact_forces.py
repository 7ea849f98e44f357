"""`ContactForceEstimator`: forces at the feet from the generalized force of the surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..attributes import StrictAttributes
from ..contact import ContactSet
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..urdf.tree import Array
from .momentum_observer import MomentumObserver

Rows = Literal["all", "joints"]


@dataclass(frozen=True, slots=True, eq=False)
class ContactForces:
    """Estimated contact forces.

    Attributes:
        forces: (3,) by point contact, (6,) by surface, on the robot, world axes [N, N m].
        unexplained: (nv,) ``tau_ext - sum J_i^T f_i`` [N m, N]: pushes elsewhere, model errors.
        undetermined: number of directions of the forces that the motion does not show: a straight leg hides the force
            along it from its joints.  These directions are set to zero.
    """

    forces: Mapping[str, Array]
    unexplained: Array
    undetermined: int


class ContactForceEstimator(StrictAttributes, fixed=("contacts", "observer")):
    """Contact forces without foot sensors: a `MomentumObserver`, and its residual shared out to the contacts.

    The forces are those of the *active* contacts that explain the residual best: least ``|tau_ext - J^T f|`` in the
    metric ``M^-1`` ("all"), by which a kilogram counts alike wherever it is, or leg by leg from the joints alone
    ("joints"), which does not use the root's motion but for gravity and Coriolis terms.  Without knowledge of which
    feet touch, leave all
    active: those in the air then get nearly nothing.

    Args:
        contacts: of the robot.
        dt: time between updates [s].
        gain: of the observer [1/s].
        rows: "all" or "joints".
        rank_tolerance: singular values below this share of the largest count as zero.

    Raises:
        ArgumentTypeError: no `ContactSet`.
        ArgumentError: a value out of range.
    """

    def __init__(
        self,
        contacts: ContactSet,
        *,
        dt: float,
        gain: float | Array = 100.0,
        rows: Rows = "all",
        rank_tolerance: float = 1e-3,
    ) -> None:
        if not isinstance(contacts, ContactSet):
            raise ArgumentTypeError(f"contacts: expected a ContactSet, got {type(contacts).__name__}")
        if rows not in get_args(Rows):
            raise ArgumentError(f"rows: expected one of {get_args(Rows)}, got {rows!r}")
        self._tolerance = number("rank_tolerance", rank_tolerance)
        if not 0.0 <= self._tolerance < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share of the largest singular value, got {rank_tolerance}")
        self.contacts, self._rows = contacts, rows
        self.observer = MomentumObserver(contacts.robot, dt=dt, gain=gain)

    def reset(self) -> None:
        """Forget the motion; the next update is the first."""
        self.observer.reset()

    def update(self, s: State, tau: Array) -> ContactForces:
        """One step further; arguments and errors of `MomentumObserver.update`."""
        r = self.observer.update(s, tau)
        J = self.contacts.jacobian(s)
        forces, undetermined = np.zeros(len(J)), 0
        if len(J):
            if self._rows == "all":
                root = np.linalg.cholesky(s.M)
                A, b = np.linalg.solve(root, J.T), np.linalg.solve(root, r)
            else:
                driven = self.contacts.robot.actuated_index
                A, b = J.T[driven], r[driven]
            forces, _, rank, _ = np.linalg.lstsq(A, b, rcond=self._tolerance)
            undetermined = len(J) - int(rank)
        return ContactForces(
            {name: forces[rows] for name, rows in self.contacts.slices().items()}, r - J.T @ forces, undetermined
        )
