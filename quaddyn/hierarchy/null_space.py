"""Linear tasks ``J x = w`` by pseudo-inverse: one, several of equal priority, several in strict order.

Source: source E, the *Robot Dynamics* lecture of ETH Zurich, on multi-task inverse differential kinematics:
``x = J^+ w``; equal priority stacks the tasks; priority puts each level in the null space of all above,
``x = J_1^+ w_1 + N_1 (J_2 N_1)^+ (w_2 - J_2 J_1^+ w_1) + ...``.

Two numbers decide whether such a formula can be trusted, and both are arguments here.

*rank_tolerance* (relative): a direction counts as one that a task can move in when its singular value exceeds
``rank_tolerance * |J|``, with ``|J|`` the largest singular value of the level's own matrix *before* it is projected.
Rounding leaves singular values of about 1e-16 where exact arithmetic has 0; a tolerance of machine size takes them for
real, divides by them and destroys the tasks above.

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

#: A task: its matrix J (m, n) and its wanted value w (m,).
Task = tuple[Array, Array]

#: Singular values below this share of their matrix's largest are taken for zero.
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a hierarchy of tasks came to.

    Attributes:
        x: (n,) the vector asked for, such as joint rates [rad/s].
        residuals: per task (m_k,) ``w_k - J_k x``, in the task's own unit.
        ranks: per level, in how many independent directions it could act; an equal-priority stack is one level.
    """

    x: Array
    residuals: tuple[Array, ...]
    ranks: tuple[int, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Per task, its squared residual ``|w_k - J_k x|^2``."""
        return tuple(float(r @ r) for r in self.residuals)


def single_task(J: Array, w: Array, *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE) -> Solution:
    """The shortest x with the least ``|w - J x|``: ``x = J^+ w``.

    Args:
        J: (m, n) matrix of the task.
        w: (m,) its wanted value.
        damping: see the module's head; 0 for the exact pseudo-inverse.
        rank_tolerance: relative, in [0, 1).

    Raises:
        ArgumentError: wrong shapes, an entry that is not finite, or an option out of its range.
    """
    return prioritized([(J, w)], damping=damping, rank_tolerance=rank_tolerance)


def equal_priority(tasks: Sequence[Task], *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE) -> Solution:
    """All tasks at once, stacked: ``x = [J_1; J_2; ...]^+ [w_1; w_2; ...]``, errors traded in the least-squares sense.

    Args:
        tasks: pairs (J, w) with the same number of columns n.
        damping: see the module's head.
        rank_tolerance: relative, in [0, 1).

    Returns:
        A `Solution` with one residual per task and one rank.

    Raises:
        ArgumentError: as `single_task`; no task at all.
    """
    checked = _checked(tasks)
    stack = (np.vstack([J for J, _ in checked]), np.concatenate([w for _, w in checked]))
    x, ranks = _descend([stack], damping, rank_tolerance)
    return Solution(x, tuple(w - J @ x for J, w in checked), ranks)


def prioritized(tasks: Sequence[Task], *, damping: float = 0.0, rank_tolerance: float = RANK_TOLERANCE) -> Solution:
    """Tasks in strict order of priority, the first the highest, each in the null space of all above it.

    What a task achieves does not depend on the tasks below it.

    Args:
        tasks: pairs (J, w) with the same number of columns n; any number of levels.
        damping: see the module's head.
        rank_tolerance: relative, in [0, 1).

    Returns:
        A `Solution` with one residual and one rank per task; a level of rank 0 had no freedom left.

    Raises:
        ArgumentError: as `single_task`; no task at all.
    """
    checked = _checked(tasks)
    x, ranks = _descend(checked, damping, rank_tolerance)
    return Solution(x, tuple(w - J @ x for J, w in checked), ranks)


def _descend(tasks: Sequence[Task], damping: float, rank_tolerance: float) -> tuple[Array, tuple[int, ...]]:
    if not (np.isfinite(damping) and damping >= 0.0):
        raise ArgumentError(f"damping: expected a finite number >= 0, got {damping}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(f"rank_tolerance: expected a relative number in [0, 1), got {rank_tolerance}")
    n = tasks[0][0].shape[1]
    x = np.zeros(n)
    # An orthonormal basis Z of the null space of all levels above says the same as N = Z Z^T: N (J N)^+ = Z (J Z)^+.
    Z = np.eye(n)
    ranks = []
    for J, w in tasks:
        U, s, Vt = np.linalg.svd(J @ Z, full_matrices=True)
        size = float(np.linalg.norm(J, 2)) if J.size else 0.0
        rank = int(np.count_nonzero(s > rank_tolerance * size))
        s = s[:rank]
        # s / (s^2 + damping^2), written so that nothing is squared that might vanish
        inverse = 1.0 / (s + damping * (damping / s))
        x = x + Z @ (Vt[:rank].T @ (inverse * (U[:, :rank].T @ (w - J @ x))))
        Z = Z @ Vt[rank:].T
        ranks.append(rank)
    return x, tuple(ranks)


def _checked(tasks: Sequence[Task]) -> list[Task]:
    if not tasks:
        raise ArgumentError("tasks: expected at least one pair (J, w)")
    out: list[Task] = []
    for k, task in enumerate(tasks):
        try:
            J, w = (np.asarray(part, dtype=np.float64) for part in task)
        except (TypeError, ValueError):
            raise ArgumentError(f"tasks[{k}]: expected a pair of arrays, J (m, n) and w (m,)") from None
        if J.ndim != 2 or w.shape != J.shape[:1]:
            raise ArgumentError(f"tasks[{k}]: expected J (m, n) and w (m,), got {J.shape} and {w.shape}")
        if out and J.shape[1] != out[0][0].shape[1]:
            raise ArgumentError(f"tasks[{k}]: J has {J.shape[1]} columns, that of tasks[0] {out[0][0].shape[1]}")
        if not (np.isfinite(J).all() and np.isfinite(w).all()):
            raise ArgumentError(f"tasks[{k}]: every entry of J and w must be finite")
        out.append((J, w))
    return out
