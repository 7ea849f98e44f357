"""Lagrange's equations of an arm in 4x4 matrices, as one would write them down, for whatever counts the arithmetic.

Source: Uicker's Lagrangian as Kahn wrote it (Hollerbach, *A recursive Lagrangian formulation of manipulator dynamics
and a comparative study of dynamics formulation complexity*, 1980, equation 2.2):

    tau_i = sum_j sum_p tr(U_pj J_p U_pi^T) a_j + sum_jk sum_p tr(U_pjk J_p U_pi^T) v_j v_k - sum_p m_p g^T U_pi r_p

with ``U_pj = d W_p / d q_j``, ``U_pjk`` its derivative, W_p the pose of link p and J_p its pseudo-inertia.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import quaddyn as qd
from quaddyn.kernels.graph import Graph
from quaddyn.kernels.mechanism import GRAVITY, UPPER_TRIANGLE, Mechanism, build_mechanism
from quaddyn.kernels.program import OperationCounts, Program, make_program
from quaddyn.kernels.rnea import joint_placements

Matrix = list[list[Any]]


class Tally:
    """Multiplications and additions made with `Counted` numbers."""

    def __init__(self) -> None:
        self.mul = self.add = 0


class Counted:
    """A number of which nothing is known: zeros and ones cost what any other does."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def __mul__(self, other: object) -> Counted:
        self.tally.mul += 1
        return self

    def __add__(self, other: object) -> Counted:
        self.tally.add += 1
        return self

    def __neg__(self) -> Counted:
        return self

    __rmul__ = __mul__
    __radd__ = __sub__ = __add__


def product(A: Matrix, B: Matrix) -> Matrix:
    """``A B``."""
    columns = list(zip(*B, strict=True))
    return [[inner(row, column) for column in columns] for row in A]


def inner(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Sum of products."""
    out = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        out = out + a * b
    return out


def turned(T: Matrix, zero: Any) -> Matrix:
    """``T Q``, the derivative of a pose by the angle about its own z: columns swapped, no arithmetic."""
    return [[row[1], -row[0], zero, zero] for row in T]


def torques(T: list[Matrix], J: list[Matrix], v: Sequence[Any], a: Sequence[Any], g: Any, zero: Any) -> list[Any]:
    """Torques of a serial arm of turning joints.

    Args:
        T: per link its pose in the one before.
        J: per link its pseudo-inertia, second moments, first moments and mass.
        v: velocities.
        a: accelerations.
        g: gravity along -z.
        zero: the number 0.
    """
    n = len(T)
    eye = [T[0]]  # W_1
    W = eye + [[] for _ in range(n - 1)]
    for p in range(1, n):
        W[p] = product(W[p - 1], T[p])
    U: dict[tuple[int, int], Matrix] = {}
    second: dict[tuple[int, int, int], Matrix] = {}
    for j in range(n):
        U[j, j] = turned(W[j], zero)
        for p in range(j + 1, n):
            U[p, j] = product(U[p - 1, j], T[p])
    for j in range(n):
        for k in range(j, n):
            second[k, j, k] = turned(U[k, j], zero)
            for p in range(k + 1, n):
                second[p, j, k] = product(second[p - 1, j, k], T[p])
    out = []
    for i in range(n):
        tau = zero
        for j in range(n):
            mass = zero
            for p in range(max(i, j), n):
                mass = mass + trace(U[p, j], J[p], U[p, i])
            tau = tau + mass * a[j]
            for k in range(n):
                force = zero
                for p in range(max(i, j, k), n):
                    force = force + trace(second[p, min(j, k), max(j, k)], J[p], U[p, i])
                tau = tau + force * v[j] * v[k]
        for p in range(i, n):  # m r is J's last column
            tau = tau + inner(U[p, i][2], [row[3] for row in J[p]]) * g
        out.append(tau)
    return out


def trace(A: Matrix, J: Matrix, B: Matrix) -> Any:
    """``tr(A J B^T)``."""
    AJ = product(A, J)
    return inner([x for row in AJ for x in row], [x for row in B for x in row])


def written(n: int) -> tuple[int, int]:
    """Multiplications and additions of n joints as written, nothing known of any number and nothing shared."""
    tally = Tally()
    x = Counted(tally)
    full = [[x] * 4 for _ in range(4)]
    torques([full] * n, [full] * n, [x] * n, [x] * n, x, x)
    return tally.mul, tally.add


def shared(robot: qd.Robot) -> Program:
    """The same formula recorded in the kernels' graph: zeros and constants folded, equal parts computed once."""
    graph = Graph()
    mech = build_mechanism(robot, plain=True)
    q, v, a = (graph.inputs(k * mech.nv, mech.nv) for k in range(3))
    zero = graph.constant(0.0)
    J = [pseudo_inertia(link.inertia, graph.constant) for link in mech.links]
    tau = torques(poses(graph, mech, q), J, v, a, graph.constant(GRAVITY), zero)
    for link in mech.links:
        tau[link.v] = tau[link.v] + a[link.v] * link.armature
    inputs = (("q", mech.nq), ("v", mech.nv), ("a", mech.nv))
    return make_program("lagrange", graph, inputs, (("tau", (mech.nv,)),), tau)


def poses(graph: Graph, mech: Mechanism, q: Sequence[Any]) -> list[Matrix]:
    """Per link its pose in the one before, 4x4."""
    at, zero, one = joint_placements(graph, mech, q), graph.constant(0.0), graph.constant(1.0)
    out = []
    for R, r in zip(at.rotations, at.origins, strict=True):
        columns = [R.to_parent([one if k == j else zero for k in range(3)]) for j in range(3)]
        out.append([[*(columns[j][i] for j in range(3)), r[i]] for i in range(3)] + [[zero, zero, zero, one]])
    return out


def pseudo_inertia(p: Any, number: Callable[[float], Any]) -> Matrix:
    """4x4 of m, h, K."""
    out = [[number(0.0)] * 4 for _ in range(4)]
    for value, (i, j) in zip(p[4:], UPPER_TRIANGLE, strict=True):
        out[i][j] = out[j][i] = number(float(value))
    for k in range(3):
        out[k][3] = out[3][k] = number(float(p[1 + k]))
    out[3][3] = number(float(p[0]))
    return out


def counts(robot: qd.Robot) -> OperationCounts:
    """Operations of Lagrange's equations by the kernels' counter."""
    return shared(robot).operations
