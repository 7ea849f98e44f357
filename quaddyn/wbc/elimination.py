"""`Elimination`: the equations of motion solved once and for all, so that no tick can violate them.

The unknowns of a tick are ``x = (a_A, f / m)``: the accelerations of the actuated joints and the contact forces per
robot mass.  The rows U of ``M a + h = S^T tau + J^T f`` without a motor (the root's and passive joints') give the other
accelerations, ``a_U = M_UU^-1 (J_U^T f - h_U - M_UA a_A)``, and M_UU is positive definite whatever the contacts; the
rows A give the torques.  Hence a, f and tau are affine in x, and every x obeys the equations of motion.

(To prioritize accelerations alone is wrong on an under-actuated robot: on two point feet no torques and forces exist
that produce the result.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..urdf.tree import Array
from .tick import Tick


class Elimination:
    """The affine maps from x to accelerations and torques at one instant.

    Args:
        M: (nv, nv) joint-space inertia.
        h: (nv,) nonlinear effects.
        J: (nf, nv) Jacobians of the contact points, stacked.
        actuated: (nu,) indices of the rows with a motor.
        mass: of the robot [kg].

    Attributes:
        M, h, J, actuated, mass: as given.
        passive: indices of the rows without a motor: the root's and those of passive joints.
        T, t: ``a = T x + t``, (nv, n) and (nv,).
        W, w: ``tau = W x + w``, (nu, n) and (nu,).
        n: size of x.
    """

    def __init__(self, M: Array, h: Array, J: Array, actuated: NDArray[np.intp], mass: float) -> None:
        self.M, self.h, self.J, self.mass = M, h, J, mass
        free = np.ones(len(h), dtype=bool)
        free[actuated] = False
        self.actuated, self.passive = actuated, np.flatnonzero(free)
        A, U, nu, nf = actuated, self.passive, len(actuated), len(J)
        self.nu, self.n = nu, nu + nf
        T, t = np.zeros((len(h), self.n)), np.zeros(len(h))
        T[A, np.arange(nu)] = 1.0
        if len(U):
            # one factorization for all columns; M_UU is symmetric positive definite
            right = np.column_stack((-M[np.ix_(U, A)], mass * J[:, U].T, -h[U]))
            solved = np.linalg.solve(M[np.ix_(U, U)], right)
            T[U], t[U] = solved[:, :-1], solved[:, -1]
        self.T, self.t = T, t
        self.W = M[A] @ T
        self.W[:, nu:] -= mass * J[:, A].T
        self.w = M[A] @ t + h[A]

    @classmethod
    def at(cls, tick: Tick) -> Elimination:
        """The maps at a tick; they outlive its state.

        Raises:
            ArgumentError: the state is too fast for finite numbers, which only an unchecked one can be.
        """
        s, robot = tick.state, tick.robot
        if not (np.isfinite(s.h).all() and np.isfinite(s.M).all()):
            raise ArgumentError(
                "state: its dynamics overflow; it was computed unchecked from a q or v out of all bounds"
            )
        J = np.zeros((tick.nf, robot.nv))
        for contact in tick.contacts:
            J[contact.columns] = contact.jacobian
        return cls(s.M.copy(), s.h.copy(), J, robot.actuated_index, tick.scales.mass)

    def recover(self, x: Array) -> tuple[Array, Array, Array]:
        """Accelerations (nv,), stacked forces (nf,) and torques (nu,) of `x`.

        The rows U are solved again for the forces that x really holds, once more on what rounding leaves.
        """
        f = self.mass * x[self.nu :]
        a = self.T @ x + self.t
        U = self.passive
        load = self.h - self.J.T @ f
        if len(U):
            a[U] -= np.linalg.solve(self.M[np.ix_(U, U)], (self.M @ a + load)[U])
        tau = (self.M @ a + load)[self.actuated]
        return a, f, tau
