"""`ContactForceEstimator`: forces at the feet from the generalized force of the surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..contact import ContactSet
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .contact_force_fit import (
    fit_contact_forces,
    make_contact_set_arrays,
    make_force_fit_workspace,
    solve_contact_forces,
)
from .momentum_observer import MomentumObserver

Rows = Literal["all", "joints"]


@renamed_attributes(unexplained="residual", undetermined="unobservable_dimensions", stacked="stacked_forces")
@dataclass(frozen=True, slots=True, eq=False)
class ContactForces:
    """Estimated contact forces.

    Attributes:
        forces: (3,) by point contact, (6,) by surface, on the robot, world axes [N, N m].
        residual: (nv,) ``tau_ext - sum J_i^T f_i`` [N m, N]: pushes elsewhere, model errors.
        unobservable_dimensions: number of directions of the forces that the motion does not show: a straight leg hides
            the force along it from its joints.  These directions are set to zero.
        stacked_forces: all forces, one after the other, in the order of the contacts.
    """

    forces: Mapping[str, Array]
    residual: Array
    unobservable_dimensions: int
    stacked_forces: Array


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
        tolerance = number("rank_tolerance", rank_tolerance)
        if not 0.0 <= tolerance < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share of the largest singular value, got {rank_tolerance}")
        self.contacts, robot, joints = contacts, contacts.robot, rows == "joints"
        self.observer = MomentumObserver(robot, dt=dt, gain=gain)
        self._arrays = make_contact_set_arrays(robot, contacts, joints=joints, tolerance=tolerance)
        self._work = make_force_fit_workspace(int(self._arrays.size.sum()), robot.nv)
        self._metric, self._coupled = not joints, robot.coupling is not None
        self._is_active = np.zeros(len(contacts.names), dtype=np.int64)
        self._fit_contact_forces: Callable[..., int] | None = (
            None  # with its memory looked up, from the first update on
        )
        self._active: tuple[str, ...] = ()
        self._slices: dict[str, slice] = {}

    def reset(self) -> None:
        """Forget the motion; the next update is the first."""
        self.observer.reset()

    def update(self, s: State, tau: Array) -> ContactForces:
        """One step further; arguments and errors of `MomentumObserver.update`."""
        r, contacts, work = self.observer.update(s, tau), self.contacts, self._work
        active = contacts.active
        if active != self._active:
            self._active, self._slices = active, contacts.slices()
            self._is_active[:] = [name in active for name in contacts.names]
        if self._metric:
            work.M[:] = s.M.T  # symmetric, and this is how it lies in memory
        k = next(reversed(self._slices.values())).stop if self._slices else 0
        if self._coupled:
            work.J[:k] = contacts.jacobian(s)
            rank = solve_contact_forces(self._arrays, work, k, r)
        else:
            if self._fit_contact_forces is None:
                self._fit_contact_forces = fit_contact_forces.bind(self._arrays, work)
            rank = self._fit_contact_forces(self._is_active, *s.kinematic_arrays(), r)
        forces = work.forces[:k].copy()
        by_name = {name: forces[at] for name, at in self._slices.items()}
        return ContactForces(by_name, work.residual.copy(), k - rank, forces)
