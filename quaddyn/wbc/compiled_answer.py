"""From the solver's answer to the robot's, on the compiled dense path.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import entry
from .compiled_aims import BIAS, FORCE, MOTION, STRICT, WISH
from .compiled_maps import substitute
from .compiled_rows import carve, sections

# What precedes torques, accelerations and forces in an answer.
VIOLATION, HEAD = 0, 1


@entry
def finish(M, h, y, table, mass, nf, reduced, shape, A, b, C, lower, upper, W, answer):  # type: ignore[no-untyped-def]
    """Accelerations, forces and torques, and how far level 0 is violated.

    Args:
        M: (nv, nv).
        h: (nv,).
        y: (unknowns,) the solution.
        table: as of `assemble`.
        mass: of the robot [kg].
        nf: number of forces.
        reduced: as of `assemble`.
        shape: as of `assemble`.
        A: (m, unknowns) and so on, likewise, as the solver got them.
        b: likewise.
        C: likewise.
        lower: likewise.
        upper: likewise.
        W: work, as `assemble` left it.
        answer: takes the violation of level 0, torques (nu,), accelerations (nv,), forces (nf,).

    Returns:
        Whether all of it is finite.
    """
    _, _, motors, passive, _, _ = sections(table)
    nv, nu, K = h.shape[0], motors.shape[0], table[5]
    free = nv - nu
    d = shape[0] - 1 if reduced else shape[0]
    L, Jc, aims, full, _, _, rest = carve(W, nv, nu, nf)
    lack, share = rest[: 8 * free].reshape(free, 8), rest[8 * free : 9 * free]
    tau, a = answer[HEAD : HEAD + nu], answer[HEAD + nu : HEAD + nu + nv]
    f = answer[HEAD + nu + nv : HEAD + nu + nv + nf]
    worst = 0.0
    for i in range(nv + nf):
        row = full[i]
        s = row[0]
        for j in range(d):
            s += row[1 + j] * y[j]
        if i < nv:
            a[i] = s
        else:
            f[i - nv] = mass * s
    # The rows without a motor once more, on what rounding leaves; then the torques.
    for i in range(free):
        o = passive[i]
        s = -h[o]
        row = M[o]
        for j in range(nv):
            s -= row[j] * a[j]
        for c in range(nf):
            s += Jc[c, o] * f[c]
        for j in range(8):
            lack[i, j] = 0.0
        lack[i, 0] = s
    substitute(L, lack, 1, share)
    for i in range(free):
        a[passive[i]] += lack[i, 0]
    for i in range(nu):
        o = motors[i]
        s = h[o]
        row = M[o]
        for j in range(nv):
            s += row[j] * a[j]
        for c in range(nf):
            s -= Jc[c, o] * f[c]
        tau[i] = s
    # Level 0: contacts solved beforehand, wanted values, limits.
    if reduced:
        for c in range(nf):
            s = 0.0
            if aims[STRICT, c] == MOTION:
                s = aims[BIAS, c] - aims[WISH, c]
                row = Jc[c]
                for j in range(nv):
                    s += row[j] * a[j]
            elif aims[STRICT, c] == FORCE:
                s = (f[c] - aims[WISH, c]) / mass
            worst = max(worst, abs(s))
    for i in range(shape[2]):
        s = -b[i]
        for j in range(d):
            s += A[i, j] * y[j]
        worst = max(worst, abs(s))
    for i in range(shape[3 + K]):
        s = 0.0
        for j in range(d):
            s += C[i, j] * y[j]
        worst = max(worst, s - upper[i], lower[i] - s)
    answer[VIOLATION] = worst
    s = 0.0
    for i in range(answer.shape[0]):
        s += abs(answer[i])
    return np.isfinite(s)
