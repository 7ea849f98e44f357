"""Counts the operations of Lagrange's equations of motion of a serial arm, for comparison with the kernels.

The equations are evaluated with 4x4 matrices as published, for numbers of any type: operation-counting numbers or
nodes of the kernels' graph.

Source: Uicker's Lagrangian in the form of Kahn (Hollerbach, *A recursive Lagrangian formulation of manipulator dynamics
and a comparative study of dynamics formulation complexity*, 1980, equation 2.2):

    tau_i = sum_j sum_p tr(U_pj J_p U_pi^T) a_j + sum_jk sum_p tr(U_pjk J_p U_pi^T) v_j v_k - sum_p m_p g^T U_pi r_p

with ``U_pj = d W_p / d q_j``, its derivative ``U_pjk``, the pose W_p of link p and its pseudo-inertia J_p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import quaddyn as qd
from quaddyn.kernels.graph import Graph, OperationCounts, Program, make_program
from quaddyn.kernels.mechanism import GRAVITY, UPPER_TRIANGLE, Mechanism, build_mechanism
from quaddyn.kernels.rnea import joint_placements

Matrix = list[list[Any]]


class OperationTally:
    """Number of multiplications and additions carried out with `CountedNumber`."""

    def __init__(self) -> None:
        self.mul = self.add = 0


class CountedNumber:
    """Number without a value that counts its operations; those with zeros and ones count, too."""

    def __init__(self, tally: OperationTally) -> None:
        self.tally = tally

    def __mul__(self, other: object) -> CountedNumber:
        self.tally.mul += 1
        return self

    def __add__(self, other: object) -> CountedNumber:
        self.tally.add += 1
        return self

    def __neg__(self) -> CountedNumber:
        return self

    __rmul__ = __mul__
    __radd__ = __sub__ = __add__


def matrix_product(A: Matrix, B: Matrix) -> Matrix:
    """Returns the product ``A B``."""
    columns = list(zip(*B, strict=True))
    return [[inner_product(row, column) for column in columns] for row in A]


def inner_product(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Returns the inner product of two vectors."""
    out = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        out = out + a * b
    return out


def angle_derivative(T: Matrix, zero: Any) -> Matrix:
    """Returns ``T Q``, the derivative of a pose with respect to the angle about its own z axis, without arithmetic."""
    return [[row[1], -row[0], zero, zero] for row in T]


def compute_torques(
    T: list[Matrix], J: list[Matrix], v: Sequence[Any], a: Sequence[Any], g: Any, zero: Any
) -> list[Any]:
    """Computes the torques of a serial arm with revolute joints.

    Args:
        T: pose of each link relative to the preceding link, 4x4.
        J: pseudo-inertia of each link (second moments, first moments and mass), 4x4.
        v: joint velocities.
        a: joint accelerations.
        g: acceleration of gravity, which acts along -z.
        zero: the number 0 in the type of the other arguments.
    """
    n = len(T)
    first_pose = [T[0]]  # W_1
    W = first_pose + [[] for _ in range(n - 1)]
    for p in range(1, n):
        W[p] = matrix_product(W[p - 1], T[p])
    derivatives: dict[tuple[int, int], Matrix] = {}
    second_derivatives: dict[tuple[int, int, int], Matrix] = {}
    for j in range(n):
        derivatives[j, j] = angle_derivative(W[j], zero)
        for p in range(j + 1, n):
            derivatives[p, j] = matrix_product(derivatives[p - 1, j], T[p])
    for j in range(n):
        for k in range(j, n):
            second_derivatives[k, j, k] = angle_derivative(derivatives[k, j], zero)
            for p in range(k + 1, n):
                second_derivatives[p, j, k] = matrix_product(second_derivatives[p - 1, j, k], T[p])
    out = []
    for i in range(n):
        tau = zero
        for j in range(n):
            inertia_entry = zero
            for p in range(max(i, j), n):
                inertia_entry = inertia_entry + trace_product(derivatives[p, j], J[p], derivatives[p, i])
            tau = tau + inertia_entry * a[j]
            for k in range(n):
                coefficient = zero
                for p in range(max(i, j, k), n):
                    second = second_derivatives[p, min(j, k), max(j, k)]
                    coefficient = coefficient + trace_product(second, J[p], derivatives[p, i])
                tau = tau + coefficient * v[j] * v[k]
        for p in range(i, n):  # the last column of J is m r
            tau = tau + inner_product(derivatives[p, i][2], [row[3] for row in J[p]]) * g
        out.append(tau)
    return out


def trace_product(A: Matrix, J: Matrix, B: Matrix) -> Any:
    """Returns ``tr(A J B^T)``."""
    AJ = matrix_product(A, J)
    return inner_product([x for row in AJ for x in row], [x for row in B for x in row])


def count_unsimplified(n: int) -> tuple[int, int]:
    """Returns the multiplications and additions for n joints without simplification or reuse of common terms."""
    tally = OperationTally()
    x = CountedNumber(tally)
    full = [[x] * 4 for _ in range(4)]
    compute_torques([full] * n, [full] * n, [x] * n, [x] * n, x, x)
    return tally.mul, tally.add


def record_program(robot: qd.Robot) -> Program:
    """Records the equations in the kernels' graph, which folds constants and computes common subexpressions once."""
    graph = Graph()
    mech = build_mechanism(robot, keep_file_axes=True)
    q, v, a = (graph.inputs(k * mech.nv, mech.nv) for k in range(3))
    zero = graph.constant(0.0)
    J = [pseudo_inertia(link.inertia, graph.constant) for link in mech.links]
    tau = compute_torques(link_poses(graph, mech, q), J, v, a, graph.constant(GRAVITY), zero)
    for link in mech.links:
        tau[link.v] = tau[link.v] + a[link.v] * link.armature
    inputs = (("q", mech.nq), ("v", mech.nv), ("a", mech.nv))
    return make_program("lagrange", graph, inputs, (("tau", (mech.nv,)),), tau)


def link_poses(graph: Graph, mech: Mechanism, q: Sequence[Any]) -> list[Matrix]:
    """Returns the 4x4 pose of each link relative to the preceding link."""
    placements, zero, one = joint_placements(graph, mech, q), graph.constant(0.0), graph.constant(1.0)
    out = []
    for R, r in zip(placements.rotations, placements.origins, strict=True):
        columns = [R.to_parent([one if k == j else zero for k in range(3)]) for j in range(3)]
        out.append([[*(columns[j][i] for j in range(3)), r[i]] for i in range(3)] + [[zero, zero, zero, one]])
    return out


def pseudo_inertia(p: Any, number: Callable[[float], Any]) -> Matrix:
    """Returns the 4x4 pseudo-inertia of a link with mass, first moments and second moments ``p``."""
    out = [[number(0.0)] * 4 for _ in range(4)]
    for value, (i, j) in zip(p[4:], UPPER_TRIANGLE, strict=True):
        out[i][j] = out[j][i] = number(float(value))
    for k in range(3):
        out[k][3] = out[3][k] = number(float(p[1 + k]))
    out[3][3] = number(float(p[0]))
    return out


def count_operations(robot: qd.Robot) -> OperationCounts:
    """Returns the operations of Lagrange's equations for a robot as counted by the kernels' counter."""
    return record_program(robot).operations
