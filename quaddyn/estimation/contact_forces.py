"""`ContactForceEstimator`: contact forces from the residual of a momentum observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..contact import ContactSet
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
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
    """Contact forces estimated by `ContactForceEstimator`.

    Attributes:
        forces: (3,) force of each point contact or (6,) wrench of each surface contact, by name, on the robot, world
            axes [N, N m].
        residual: (nv,) generalized force that the contact forces do not explain, ``tau_ext - sum J_i^T f_i`` [N m, N]:
            pushes elsewhere, model errors.
        unobservable_dimensions: number of directions of the forces that cannot be estimated from the motion: for
            example, the force along a straight leg does not act on its joints.  The forces are zero in these
            directions.
        stacked_forces: (rows,) all forces, in the order of the contacts [N, N m].
    """

    forces: Mapping[str, Array]
    residual: Array
    unobservable_dimensions: int
    stacked_forces: Array


class ContactForceEstimator(StrictAttributes, fixed=("contacts", "observer")):
    """Estimator of contact forces without foot sensors: a `MomentumObserver` and a least-squares fit of contact forces.

    The forces of the *active* contacts minimize ``|tau_ext - J^T f|`` in the metric ``M^-1`` ("all"), in which every
    mass of the robot has the same weight, or leg by leg in the joint torques alone ("joints"), which uses the root's
    motion for gravity and Coriolis terms only.  If the feet in contact are unknown, leave all contacts active: the
    estimated forces of swing feet are then nearly zero.

    Args:
        contacts: contacts of the robot.
        dt: time between updates [s].
        gain: gain of the observer [1/s], one or (nv,).
        rows: "all" or "joints".
        rank_tolerance: ratio to the largest singular value below which a singular value counts as zero.

    Raises:
        ArgumentTypeError: `contacts` is not a `ContactSet`.
        ArgumentError: a value is out of range.
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
        tolerance = check_number("rank_tolerance", rank_tolerance)
        if not 0.0 <= tolerance < 1.0:
            raise ArgumentError(
                f"rank_tolerance: expected a fraction of the largest singular value, got {rank_tolerance}"
            )
        self.contacts, robot, joints = contacts, contacts.robot, rows == "joints"
        self.observer = MomentumObserver(robot, dt=dt, gain=gain)
        self._arrays = make_contact_set_arrays(robot, contacts, joints=joints, tolerance=tolerance)
        self._work = make_force_fit_workspace(int(self._arrays.size.sum()), robot.nv)
        self._metric, self._coupled = not joints, robot.coupling is not None
        self._is_active = np.zeros(len(contacts.names), dtype=np.int64)
        self._fit_contact_forces: Callable[..., int] | None = None  # bound to its arrays at the first update
        self._active: tuple[str, ...] = ()
        self._slices: dict[str, slice] = {}

    def reset(self) -> None:
        """Resets the observer; the next update is the first one."""
        self.observer.reset()

    def update(self, s: State, tau: Array) -> ContactForces:
        """Updates the observer by one step and fits the contact forces; see `MomentumObserver.update`.

        Args:
            s: present state, dt after the last one.
            tau: (nu,) motor torques since the last update, mean over the step [N m].
        """
        r, contacts, work = self.observer.update(s, tau), self.contacts, self._work
        active = contacts.active
        if active != self._active:
            self._active, self._slices = active, contacts.slices()
            self._is_active[:] = [name in active for name in contacts.names]
        if self._metric:
            work.M[:] = s.M.T  # symmetric; its transpose is contiguous
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
