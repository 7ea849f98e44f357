"""Factorization of an inertia that keeps its zeros, ``M = L^T L`` from the leaves of the tree to its root; compiled.

Two limbs that meet only at the root have no common entry in M, and none in L (Featherstone 2008, *Rigid Body Dynamics
Algorithms*, sec. 6.5). `parent` (nv,) is the preceding degree of freedom of each one, -1 at the root.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Vector, compiled


@compiled()
def factorize(L: Matrix, parent: IntVector) -> bool:
    """Factors the matrix ``M = L^T L`` whose lower triangle is in `L` in place.

    Returns:
        False if M is not positive definite.
    """
    for k in range(len(parent) - 1, -1, -1):
        if not L[k, k] > 0.0:
            return False
        L[k, k] = math.sqrt(L[k, k])
        inverse = 1.0 / L[k, k]
        i = parent[k]
        while i >= 0:
            L[k, i] *= inverse
            i = parent[i]
        i = parent[k]
        while i >= 0:
            j, f = i, L[k, i]
            while j >= 0:
                L[i, j] -= f * L[k, j]
                j = parent[j]
            i = parent[i]
    return True


@compiled()
def solve_transposed(L: Matrix, parent: IntVector, x: Vector, last: int) -> None:
    """Computes ``x <- L^-T x`` for an x that is zero except at `last` and its ancestors."""
    i = last
    while i >= 0:
        _eliminate_entry(L, parent, x, i)
        i = parent[i]


@compiled()
def solve_all_transposed(L: Matrix, parent: IntVector, x: Vector) -> None:
    """Computes ``x <- L^-T x``."""
    for i in range(len(x) - 1, -1, -1):
        _eliminate_entry(L, parent, x, i)


@compiled()
def _eliminate_entry(L: Matrix, parent: IntVector, x: Vector, i: int) -> None:
    """Computes entry i of ``L^-T x`` and subtracts its contribution from its ancestors."""
    x[i] /= L[i, i]
    j = parent[i]
    while j >= 0:
        x[j] -= L[i, j] * x[i]
        j = parent[j]


@compiled()
def solve_lower(L: Matrix, parent: IntVector, x: Vector) -> None:
    """Computes ``x <- L^-1 x``."""
    for i in range(len(x)):
        j = parent[i]
        while j >= 0:
            x[i] -= L[i, j] * x[j]
            j = parent[j]
        x[i] /= L[i, i]
