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

from ..robot.robot import Robot
from ..urdf.tree import Array
from .tick import Rows, Tick


class Elimination:
    """The affine maps from x to accelerations and torques at one instant.

    Args:
        tick: the instant.

    Attributes:
        T, t: ``a = T x + t``, (nv, n) and (nv,).
        W, w: ``tau = W x + w``, (nu, n) and (nu,).
        n: size of x.
    """

    def __init__(self, tick: Tick) -> None:
        s, robot, m = tick.state, tick.robot, tick.scales.mass
        self.mass = m
        self._M, self._h = s.M.copy(), s.h.copy()
        self.actuated = A = robot.actuated_index
        self.passive = U = passive_index(robot)
        nu, nf = robot.nu, tick.nf
        self.nu, self.n = nu, nu + nf
        self.J = np.zeros((nf, robot.nv))
        for contact in tick.contacts:
            self.J[contact.columns] = contact.jacobian
        T, t = np.zeros((robot.nv, self.n)), np.zeros(robot.nv)
        T[A, :nu] = np.eye(nu)
        if len(U):
            # one factorization for all columns; M_UU is symmetric positive definite
            right = np.column_stack((-self._M[np.ix_(U, A)], m * self.J[:, U].T, -self._h[U]))
            solved = np.linalg.solve(self._M[np.ix_(U, U)], right)
            T[U], t[U] = solved[:, :-1], solved[:, -1]
        self.T, self.t = T, t
        self.W = self._M[A] @ T
        self.W[:, nu:] -= m * self.J[:, A].T
        self.w = self._M[A] @ t + self._h[A]

    def express(self, rows: Rows) -> tuple[Array, Array]:
        """`rows` over x: matrix (m, n) and the value (m,) that they take at ``x = 0``."""
        A, c = np.zeros((rows.size, self.n)), np.zeros(rows.size)
        if rows.acceleration is not None:
            A += rows.acceleration @ self.T
            c += rows.acceleration @ self.t
        if rows.force is not None:
            A[:, self.nu :] += self.mass * rows.force
        if rows.torque is not None:
            A += rows.torque @ self.W
            c += rows.torque @ self.w
        return A, c

    def recover(self, x: Array) -> tuple[Array, Array, Array]:
        """Accelerations (nv,), stacked forces (nf,) and torques (nu,) of `x`.

        The rows U are solved again for the forces that x really holds, once more on what rounding leaves.
        """
        f = self.mass * x[self.nu :]
        a = self.T @ x + self.t
        U = self.passive
        load = self._h - self.J.T @ f
        if len(U):
            a[U] -= np.linalg.solve(self._M[np.ix_(U, U)], (self._M @ a + load)[U])
        tau = (self._M @ a + load)[self.actuated]
        return a, f, tau


def passive_index(robot: Robot) -> NDArray[np.intp]:
    """Indices in v of the rows without a motor: the root's and those of passive joints."""
    free = np.ones(robot.nv, dtype=bool)
    free[robot.actuated_index] = False
    return np.flatnonzero(free)
