"""From the solver's answer to the robot's, on the compiled dense path.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import outlined
from .compiled_maps import substitute
from .compiled_memory import BIAS, FORCE, MOTION, STRICT, TAU, WISH


@outlined(
    "b1(f8[:,::1], f8[::1], f8[::1], i8[::1], i8[::1], f8, f8[:,::1], f8[:,::1], f8[:,::1], i8, f8[:,::1], f8[::1], "
    "f8[::1])"
)
def recover(M, h, y, motors, passive, mass, L, Jc, full, d, lack, share, answer):  # type: ignore[no-untyped-def]
    """Torques, accelerations and forces.

    Args:
        M: (nv, nv).
        h: (nv,).
        y: (unknowns,) the solution.
        motors: accelerations with a motor.
        passive: accelerations without.
        mass: of the robot [kg].
        L: as of `compiled_memory.kept`.
        Jc: likewise.
        full: likewise.
        d: number of unknowns.
        lack: (passive, 8) work.
        share: work.
        answer: takes torques (nu,), accelerations (nv,), forces (nf,) from `TAU` on.

    Returns:
        Whether all of them are finite.
    """
    nv, nu, nf, free = h.shape[0], motors.shape[0], Jc.shape[0], passive.shape[0]
    tau, a = answer[TAU : TAU + nu], answer[TAU + nu : TAU + nu + nv]
    f = answer[TAU + nu + nv : TAU + nu + nv + nf]
    for i in range(nv + nf):
        row = full[i]
        s = row[d]
        for j in range(d):
            s += row[j] * y[j]
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
    s = 0.0
    for i in range(TAU, TAU + nu + nv + nf):
        s += abs(answer[i])
    return np.isfinite(s)


@outlined(
    "f8(f8[::1], f8[::1], i8, i8, i8, f8, b1, f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1])"
)
def violation(y, moved, d, m, p, mass, hidden, Jc, aims, A, b, C, lower, upper):  # type: ignore[no-untyped-def]
    """How far level 0 is violated at most: contacts solved beforehand, m wanted values, p limits.

    Args:
        y: (unknowns,) the solution.
        moved: (nv + nf,) accelerations, and forces [N].
        d: number of unknowns.
        m: number of equalities.
        p: number of inequalities.
        mass: of the robot [kg].
        hidden: whether contacts are solved beforehand.
        Jc: as of `compiled_memory.kept`.
        aims: likewise.
        A: (m, unknowns), and so on: the rows as the solver got them.
        b: likewise.
        C: likewise.
        lower: likewise.
        upper: likewise.
    """
    worst, nv = 0.0, Jc.shape[1]
    if hidden:
        for c in range(Jc.shape[0]):
            s = 0.0
            if aims[STRICT, c] == MOTION:
                s = aims[BIAS, c] - aims[WISH, c]
                row = Jc[c]
                for j in range(nv):
                    s += row[j] * moved[j]
            elif aims[STRICT, c] == FORCE:
                s = (moved[nv + c] - aims[WISH, c]) / mass
            worst = max(worst, abs(s))
    for i in range(m):
        s = -b[i]
        for j in range(d):
            s += A[i, j] * y[j]
        worst = max(worst, abs(s))
    for i in range(p):
        s = 0.0
        for j in range(d):
            s += C[i, j] * y[j]
        worst = max(worst, s - upper[i], lower[i] - s)
    return worst
