"""Linear tasks ``J x = w`` by pseudo-inverse: one task, several of equal priority, or several in strict order.

Source: the *Robot Dynamics* lecture of ETH Zurich, on multi-task inverse differential kinematics: ``x = J^+
w``; equal priority stacks the tasks; strict priority solves each level in the null space of all levels above, ``x =
J_1^+ w_1 + N_1 (J_2 N_1)^+ (w_2 - J_2 J_1^+ w_1) + ...``.

Two arguments determine the accuracy of these formulas near singularities:

*rank_tolerance* (relative): a task can move along a direction if the singular value of the direction exceeds
``rank_tolerance * |J|``, with ``|J|`` the largest singular value of the level's own matrix *before* it is projected.
Rounding leaves singular values of about 1e-16 where exact arithmetic has 0; a tolerance of machine precision accepts
them, divides by them and destroys the tasks above.

*damping* (in the unit of J): singular values s are inverted as ``s / (s^2 + damping^2)`` (Nakamura and Hanafusa 1986;
Wampler 1986), which bounds ``|x|`` near a singularity at the price of an error in the level's own task.  The null
spaces stay exact, so that damping never lets a lower level disturb a higher one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError

Array = NDArray[np.float64]

#: A task: its matrix J (m, n) and its target w (m,).
LinearTask = tuple[Array, Array]

#: Singular values below this fraction of their matrix's largest count as zero.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class NullSpaceSolution:
    """Solution of a hierarchy of linear tasks.

    Attributes:
        x: (n,) the solution, such as joint rates [rad/s].
        residuals: per task (m_k,) ``w_k - J_k x``, in its unit.
        ranks: per level, the number of independent directions in which it could act; an equal-priority stack is one
            level.
    """

    x: Array
    residuals: tuple[Array, ...]
    ranks: tuple[int, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Squared residual ``|w_k - J_k x|^2`` of each task."""
        return tuple(float(r @ r) for r in self.residuals)


def solve_single_task(
    J: Array, w: Array, *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE
) -> NullSpaceSolution:
    """Computes the x of minimum norm that minimizes ``|w - J x|``: ``x = J^+ w``.

    Args:
        J: (m, n) matrix of the task, in any unit.
        w: (m,) target of the task, in any unit.
        damping: in the unit of J, see the docstring of the module; 0 for the exact pseudo-inverse.
        rank_tolerance: relative to the largest singular value, in [0, 1).

    Raises:
        ArgumentError: wrong shapes, an entry that is not finite, or an option out of its range.
    """
    return solve_prioritized([(J, w)], damping=damping, rank_tolerance=rank_tolerance)


def solve_equal_priority(
    tasks: Sequence[LinearTask], *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE
) -> NullSpaceSolution:
    """Solves all tasks at once, stacked: ``x = [J_1; J_2; ...]^+ [w_1; w_2; ...]``, in the least-squares sense.

    Args:
        tasks: pairs (J, w) with the same number of columns n.
        damping: in the unit of J, see the docstring of the module; 0 for the exact pseudo-inverse.
        rank_tolerance: relative to the largest singular value, in [0, 1).

    Returns:
        A `NullSpaceSolution` with one residual per task and one rank.

    Raises:
        ArgumentError: as `solve_single_task`; no task at all.
    """
    checked = _check_tasks(tasks)
    stack = (np.vstack([J for J, _ in checked]), np.concatenate([w for _, w in checked]))
    x, ranks = _solve_in_null_spaces([stack], damping, rank_tolerance)
    return NullSpaceSolution(x, tuple(w - J @ x for J, w in checked), ranks)


def solve_prioritized(
    tasks: Sequence[LinearTask], *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE
) -> NullSpaceSolution:
    """Solves tasks in strict order of priority, the first the highest, each in the null space of all tasks above.

    The result of a task does not depend on the tasks below it.

    Args:
        tasks: pairs (J, w) with the same number of columns n; any number of levels.
        damping: in the unit of J, see the docstring of the module; 0 for the exact pseudo-inverse.
        rank_tolerance: relative to the largest singular value, in [0, 1).

    Returns:
        A `NullSpaceSolution` with one residual and one rank per task; a level of rank 0 had no null space left.

    Raises:
        ArgumentError: as `solve_single_task`; no task at all.
    """
    checked = _check_tasks(tasks)
    x, ranks = _solve_in_null_spaces(checked, damping, rank_tolerance)
    return NullSpaceSolution(x, tuple(w - J @ x for J, w in checked), ranks)


def _solve_in_null_spaces(
    tasks: Sequence[LinearTask], damping: float, rank_tolerance: float
) -> tuple[Array, tuple[int, ...]]:
    """Solves tasks level by level in the null spaces of the levels above; returns x and the ranks."""
    if not (np.isfinite(damping) and damping >= 0.0):
        raise ArgumentError(f"damping: expected a finite number >= 0, got {damping}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(
            f"rank_tolerance: expected a number in [0, 1), relative to the largest singular value, got {rank_tolerance}"
        )
    n = tasks[0][0].shape[1]
    x = np.zeros(n)
    # An orthonormal basis Z of the null space of all levels above replaces N = Z Z^T: N (J N)^+ = Z (J Z)^+.
    Z = np.eye(n)
    ranks = []
    for J, w in tasks:
        U, s, Vt = np.linalg.svd(J @ Z, full_matrices=True)
        max_singular_value = float(np.linalg.norm(J, 2)) if J.size else 0.0
        rank = int(np.count_nonzero(s > rank_tolerance * max_singular_value))
        s = s[:rank]
        # s / (s^2 + damping^2), written so that nothing is squared that might vanish
        inverse = 1.0 / (s + damping * (damping / s))
        x = x + Z @ (Vt[:rank].T @ (inverse * (U[:, :rank].T @ (w - J @ x))))
        Z = Z @ Vt[rank:].T
        ranks.append(rank)
    return x, tuple(ranks)


def _check_tasks(tasks: Sequence[LinearTask]) -> list[LinearTask]:
    """Returns the tasks as pairs of float arrays.

    Raises:
        ArgumentError: wrong shapes, different numbers of columns, or an entry that is not finite.
    """
    if not tasks:
        raise ArgumentError("tasks: expected at least one pair (J, w), got none")
    checked: list[LinearTask] = []
    for k, task in enumerate(tasks):
        try:
            J, w = (np.asarray(part, dtype=np.float64) for part in task)
        except (TypeError, ValueError):
            raise ArgumentError(f"tasks[{k}]: expected a pair of arrays, J (m, n) and w (m,)") from None
        if J.ndim != 2 or w.shape != J.shape[:1]:
            raise ArgumentError(f"tasks[{k}]: expected J (m, n) and w (m,), got {J.shape} and {w.shape}")
        if checked and J.shape[1] != checked[0][0].shape[1]:
            raise ArgumentError(
                f"tasks[{k}]: J has {J.shape[1]} columns, but J of tasks[0] has {checked[0][0].shape[1]}"
            )
        if not (np.isfinite(J).all() and np.isfinite(w).all()):
            raise ArgumentError(f"tasks[{k}]: every entry of J and w must be finite")
        checked.append((J, w))
    return checked
