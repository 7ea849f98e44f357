"""The compiled core of the frictional solver: Newton's method and block Gauss-Seidel for a few contacts.

`warmup` of `quaddyn.contact.solvers` compiles it at a time that the caller chooses.  All functions work in place, in a
`ContactWorkspace` of the caller, and may be called from other compiled functions.  Arguments are not checked here;
`ContactProblem` does that.

Each contact has its own frame: rows 3i and 3i + 1 are tangential, 3i + 2 is along the normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiler import IntVector, Matrix, Record, Vector, compiled, entry, local, matrix

#: Maximum number of Newton steps in the first round and in each later one, and of the Gauss-Seidel sweeps that follow.
MAX_FIRST_NEWTON_STEPS, MAX_NEWTON_STEPS, MAX_SWEEPS = 12, 30, 20
#: Proximal damping of the Newton system in the first round, as a fraction of the mean diagonal; without it the system
#: of redundant contacts would be singular.
FIRST_DAMPING = 1e-11
#: Maximum number of rounds, and that for many contacts, whose dense Newton steps are slow; the number of contacts
#: above which the second applies.
MAX_ROUNDS, MAX_ROUNDS_MANY_CONTACTS, MANY_CONTACTS_THRESHOLD = 8, 1, 128
#: Number of multiplications after which no further round or attempt starts, 0.1 to 0.4 s.  A simulation counts those of
#: a whole step.  Without the bound, steps of a robot with 70 to 134 contacts inside the ground take 1 to 3 s.
MAX_MULTIPLICATIONS = 3e8
#: Residual at which the Newton steps end, as a fraction of the tolerance.
NEWTON_TARGET_RATIO = 1e-2


class SolverEffort(Record):
    """Number of iterations of a solve."""

    steps: int  # Newton steps and sweeps of the last solve
    multiplications: float  # of all solves since a caller set the number to 0


class ContactWorkspace(NamedTuple):
    """Preallocated arrays of one solve of up to k contacts."""

    mass: Vector  # (k,) effective masses of the contacts, which scale the natural map
    velocity: Vector  # (3k,) ``G lambda + g``
    system: Vector  # (9 k^2,) matrix of a Newton step
    step: Vector  # (3k,) right-hand side of a Newton step, then its solution
    best: Vector  # (3k,) impulses of the best iterate
    rows: IntVector  # (3k,) rows that take part in a Newton step
    effort: SolverEffort  # effort of the last solve


def make_contact_workspace(k: int) -> ContactWorkspace:
    """Allocates the workspace for up to k contacts."""
    n = 3 * k
    return ContactWorkspace(
        np.zeros(k), np.zeros(n), np.zeros(n * n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64),
        SolverEffort.allocate(),
    )  # fmt: skip


@compiled()
def project_to_cone(x: float, y: float, n: float, mu: float) -> tuple[float, float, float]:
    """Projects a point to the cone ``|(x, y)| <= mu n``."""
    tangential = math.sqrt(x * x + y * y)
    if n >= 0.0 and tangential <= mu * n:  # for mu = 0, 0 <= 0 n does not imply n >= 0
        return x, y, n
    normal = (n + mu * tangential) / (1.0 + mu * mu)
    if normal <= 0.0:
        return 0.0, 0.0, 0.0
    scale = mu * normal / tangential
    return scale * x, scale * y, normal


@compiled()
def compute_natural_map_residual(impulses: Vector, c: Vector, mass: Vector, mu: Vector) -> float:
    """Returns the largest ``|lambda - P_K(lambda - m c~)| / m`` over the contacts [m/s]; inf for NaN or infinity."""
    largest = 0.0
    for i in range(len(mu)):
        m = mass[i]
        x, y, n = impulses[3 * i], impulses[3 * i + 1], impulses[3 * i + 2]
        u, v, w = c[3 * i], c[3 * i + 1], c[3 * i + 2]
        tangential_speed = math.sqrt(u * u + v * v)
        px, py, pn = project_to_cone(x - m * u, y - m * v, n - m * (w + mu[i] * tangential_speed), mu[i])
        ex, ey, en = x - px, y - py, n - pn
        error = math.sqrt(ex * ex + ey * ey + en * en) / m
        if not error < math.inf:
            return math.inf
        if error > largest:
            largest = error
    return largest


@compiled()
def compute_velocities(G: Matrix, g: Vector, impulses: Vector, out: Vector) -> None:
    """Computes ``out = G lambda + g`` for a symmetric G."""
    n = len(g)
    for i in range(n):
        total = g[i]
        for j in range(n):
            total += G[i, j] * impulses[j]
        out[i] = total


@compiled()
def _solve_linear(A: Matrix, b: Vector, n: int) -> bool:
    """Solves ``b <- A^-1 b`` by Gaussian elimination with partial pivoting; returns False if a pivot vanishes."""
    for p in range(n):
        best, row = abs(A[p, p]), p
        for i in range(p + 1, n):
            if abs(A[i, p]) > best:
                best, row = abs(A[i, p]), i
        if not best > 0.0:
            return False
        if row != p:
            for j in range(p, n):
                A[p, j], A[row, j] = A[row, j], A[p, j]
            b[p], b[row] = b[row], b[p]
        inverse = 1.0 / A[p, p]
        for i in range(p + 1, n):
            factor = A[i, p] * inverse
            if factor != 0.0:
                for j in range(p + 1, n):
                    A[i, j] -= factor * A[p, j]
                b[i] -= factor * b[p]
    for p in range(n - 1, -1, -1):
        total = b[p]
        for j in range(p + 1, n):
            total -= A[p, j] * b[j]
        b[p] = total / A[p, p]
    return True


@compiled()
def _newton_step(G: Matrix, impulses: Vector, mu: Vector, damping: float, work: ContactWorkspace) -> bool:
    """Takes one semismooth Newton step of the augmented Lagrangian equations; returns whether it was taken.

    With ``y = lambda - m c``, contact i is open (``y_n <= 0``: lambda = 0), sticks (``|y_t| <= mu y_n``: c = 0) or
    slides (``c_n = 0``, ``lambda_t = mu lambda_n y_t / |y_t|``); the equations of each mode are smooth (Alart and
    Curnier 1991).  Open contacts leave the linear system.
    """
    c, mass, b, rows = work.velocity, work.mass, work.step, work.rows
    k = len(mu)
    n = 0
    for i in range(k):
        if impulses[3 * i + 2] - mass[i] * c[3 * i + 2] > 0.0:
            rows[n], rows[n + 1], rows[n + 2] = 3 * i, 3 * i + 1, 3 * i + 2
            n += 3
        else:  # its impulse becomes zero; the velocities of the others are updated
            for a in range(3):
                change = -impulses[3 * i + a]
                if change != 0.0:
                    for j in range(3 * k):
                        c[j] += G[j, 3 * i + a] * change
                    impulses[3 * i + a] = 0.0
    A = matrix(work.system, 0, n, n)
    for p in range(0, n, 3):
        r = rows[p]
        i = r // 3
        m = mass[i]
        for a in range(3):
            for q in range(n):
                A[p + a, q] = G[r + a, rows[q]]
            A[p + a, p + a] += damping
            b[p + a] = -c[r + a]
        yx, yy, yn = impulses[r] - m * c[r], impulses[r + 1] - m * c[r + 1], impulses[r + 2] - m * c[r + 2]
        tangential = math.sqrt(yx * yx + yy * yy)
        if tangential <= mu[i] * yn:
            continue
        dx, dy = yx / tangential, yy / tangential
        normal = impulses[r + 2]
        if normal <= 0.0:
            normal = yn
        scale = min(mu[i] * normal / tangential, 1.0)
        # lambda_t - mu lambda_n d(y_t) = 0 with d' = (1 - d d^T) / |y_t|, y_t' = lambda_t' - m c_t'
        xx, xy, yy_ = scale * (1.0 - dx * dx), -scale * dx * dy, scale * (1.0 - dy * dy)
        for q in range(n):
            gx, gy = m * A[p, q], m * A[p + 1, q]
            A[p, q], A[p + 1, q] = xx * gx + xy * gy, xy * gx + yy_ * gy
        A[p, p] += 1.0 - xx
        A[p, p + 1] -= xy
        A[p + 1, p] -= xy
        A[p + 1, p + 1] += 1.0 - yy_
        A[p, p + 2] -= mu[i] * dx
        A[p + 1, p + 2] -= mu[i] * dy
        b[p] = mu[i] * impulses[r + 2] * dx - impulses[r]
        b[p + 1] = mu[i] * impulses[r + 2] * dy - impulses[r + 1]
    if n == 0:
        return True
    work.effort.multiplications += n * n * n / 3.0
    if not _solve_linear(A, b, n):
        return False
    for p in range(n):
        if not abs(b[p]) < math.inf:
            return False
    for p in range(n):
        impulses[rows[p]] += b[p]
    return True


@compiled()
def _solve_contact(G: Matrix, r: int, c: Vector, impulses: Vector, mu: float, out: Vector) -> None:
    """Computes the exact impulse of one contact while all others keep theirs.

    Sticking is tried first.  In sliding ``lambda_t = -(A + s 1)^-1 b`` with A the block's Schur complement in the
    normal; ``|lambda_t| = mu lambda_n`` is one equation for s > 0, which is solved by bisection.
    """
    xx, xy, yy = G[r, r], G[r, r + 1], G[r + 1, r + 1]
    xn, yn, nn = G[r, r + 2], G[r + 1, r + 2], G[r + 2, r + 2]
    x, y, n = impulses[r], impulses[r + 1], impulses[r + 2]
    qx = c[r] - (xx * x + xy * y + xn * n)
    qy = c[r + 1] - (xy * x + yy * y + yn * n)
    qn = c[r + 2] - (xn * x + yn * y + nn * n)
    if qn >= 0.0:
        out[0], out[1], out[2] = 0.0, 0.0, 0.0
        return
    regularization = 1e-12 * (xx + yy + nn)
    axx, axy, ayy = xx - xn * xn / nn, xy - xn * yn / nn, yy - yn * yn / nn
    bx, by = qx - xn * qn / nn, qy - yn * qn / nn
    low, high, s = 0.0, -1.0, 0.0
    lx, ly, ln = 0.0, 0.0, 0.0
    for _ in range(100):
        dxx, dyy = axx + s + regularization, ayy + s + regularization
        det = dxx * dyy - axy * axy
        lx, ly = -(dyy * bx - axy * by) / det, -(dxx * by - axy * bx) / det
        ln = -(qn + xn * lx + yn * ly) / nn
        cone_violation = math.sqrt(lx * lx + ly * ly) - mu * ln
        if s == 0.0 and cone_violation <= 0.0:
            break
        if cone_violation > 0.0:
            low = s
        else:
            high = s
        if high < 0.0:
            s = 4.0 * s + 0.5 * (xx + yy)
            if s > 1e12 * (xx + yy):
                break
        else:
            if high - low <= 1e-15 * high:
                break
            s = 0.5 * (low + high)
    if ln < 0.0:
        lx, ly, ln = 0.0, 0.0, 0.0
    out[0], out[1], out[2] = project_to_cone(lx, ly, ln, mu)


@compiled()
def run_gauss_seidel(
    G: Matrix, g: Vector, mu: Vector, impulses: Vector, tolerance: float, sweeps: int, work: ContactWorkspace
) -> tuple[int, float]:
    """Runs nonlinear block Gauss-Seidel, one exact contact after the other; returns sweeps and residual [m/s]."""
    c, impulse, k = work.velocity, local(3), len(mu)
    residual = math.inf
    for sweep in range(sweeps):
        for i in range(k):
            r = 3 * i
            _solve_contact(G, r, c, impulses, mu[i], impulse)
            for a in range(3):
                change = impulse[a] - impulses[r + a]
                if change != 0.0:
                    impulses[r + a] = impulse[a]
                    for j in range(3 * k):
                        c[j] += G[r + a, j] * change
        compute_velocities(G, g, impulses, c)
        residual = compute_natural_map_residual(impulses, c, work.mass, mu)
        if residual <= tolerance:
            return sweep + 1, residual
    return sweeps, residual


@compiled()
def get_proximal_damping(round_index: int) -> float:
    """Returns the proximal damping of a round of Newton steps, as a fraction of the mean diagonal of G.

    With a large damping contacts choose their modes one after the other; with a small one the last digits are found.
    Robots that lie on many contacts need both alternately: with 1e-3 in every round 32 of their 103 hardest problems
    stayed above 1e-8 m/s, with these values 10.
    """
    if round_index == 0:
        return FIRST_DAMPING
    phase = round_index % 4
    return 1e-5 if phase == 1 else 1e-8 if phase == 2 else 1e-3 if phase == 3 else 1e-6


@compiled()
def get_max_rounds(k: int) -> int:
    """Returns the maximum number of rounds for a problem of k contacts."""
    return MAX_ROUNDS if k <= MANY_CONTACTS_THRESHOLD else MAX_ROUNDS_MANY_CONTACTS


@entry("contact solver", separate=True)
def solve_contact_problem(
    G: Matrix, g: Vector, mu: Vector, impulses: Vector, tolerance: float, round_count: int, work: ContactWorkspace
) -> float:
    """Improves `impulses` (3k,) in place until the residual of the natural map is within `tolerance` [m/s].

    Args:
        G: (3k, 3k) Delassus matrix, symmetric [1/kg].
        g: (3k,) velocities without impulses, offsets included [m/s].
        mu: (k,) friction coefficients.
        impulses: (3k,) initial impulses [N s], zeros for a cold start; overwritten by the solution.
        tolerance: largest residual of the natural map [m/s].
        round_count: bound of the rounds of Newton steps and Gauss-Seidel sweeps, such as from `get_max_rounds`.
        work: workspace for k contacts or more; its `effort` receives the number of steps, and the multiplications
            are added to it. After `MAX_MULTIPLICATIONS` only the first round is done.

    Returns:
        The residual of the best iterate [m/s], which is in `impulses`.
    """
    k, c, best, mass, effort = len(mu), work.velocity, work.best, work.mass, work.effort
    n = 3 * k
    trace = 0.0
    for i in range(k):
        x, y, z = G[3 * i, 3 * i], G[3 * i + 1, 3 * i + 1], G[3 * i + 2, 3 * i + 2]
        largest = max(x, y, z)
        mass[i] = 1.0 / largest if largest > 1e-300 else 1.0
        trace += x + y + z
    effort.steps = 0
    compute_velocities(G, g, impulses, c)
    best_residual = compute_natural_map_residual(impulses, c, mass, mu)
    best[:n] = impulses[:n]
    if best_residual <= tolerance:
        return best_residual
    target = NEWTON_TARGET_RATIO * tolerance  # costs one step at most: Newton steps square the error
    if best_residual == math.inf:
        for i in range(n):
            impulses[i] = 0.0
            c[i] = g[i]
    for round_index in range(round_count):
        if round_index > 0 and effort.multiplications > MAX_MULTIPLICATIONS:
            break
        damping = get_proximal_damping(round_index) * trace / n
        for _ in range(MAX_FIRST_NEWTON_STEPS if round_index == 0 else MAX_NEWTON_STEPS):
            if (round_index > 0 and effort.multiplications > MAX_MULTIPLICATIONS) or not _newton_step(
                G, impulses, mu, damping, work
            ):
                break
            effort.steps += 1
            compute_velocities(G, g, impulses, c)
            residual = compute_natural_map_residual(impulses, c, mass, mu)
            if residual < best_residual:
                best_residual = residual
                best[:n] = impulses[:n]
                if best_residual <= target:
                    return best_residual
            elif best_residual <= tolerance:
                break
        impulses[:n] = best[:n]
        if best_residual <= tolerance:
            return best_residual
        compute_velocities(G, g, impulses, c)
        n_sweeps, residual = run_gauss_seidel(G, g, mu, impulses, tolerance, MAX_SWEEPS, work)
        effort.steps += n_sweeps
        effort.multiplications += n_sweeps * n * n
        if residual < best_residual:
            best_residual = residual
            best[:n] = impulses[:n]
            if best_residual <= tolerance:
                return best_residual
    impulses[:n] = best[:n]
    return best_residual
