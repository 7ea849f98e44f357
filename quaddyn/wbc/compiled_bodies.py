"""M, h and the centre of mass of any robot from its joints' Jacobian, compiled: composite rigid bodies.

What moves with a joint is one body.  Its momentum at unit speed of the joint, along the axes of the joints before, is a
column of M; the force that it takes at ``a = 0`` tells h (Featherstone 2008, chapter 6).  World axes, moments about the
origin of the first joint, which is never as far away as the world's.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import matrix, outlined
from .compiled_inertia import CENTRE, MASS, OF_BODY, body, momentum_of, power_of


@outlined(
    "void(i8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], "
    "f8[::1], f8[:,::1], f8[::1], f8[::1])"
)
def inertia(joints, JT, placed, twist, drift, bodies, armature, gravity, whole, J, work, M, h, com):  # type: ignore[no-untyped-def]
    """Everything that the masses say.

    Args:
        joints: (joints, 3) parent, first entry in v, number of entries; the world first.
        JT: (nv, 6) columns of the world Jacobian, one a row.
        placed: (joints, 4, 3) the columns of each joint's rotation in the world, then its origin.
        twist: (joints, 6) as of `compiled_frames.motions`.
        drift: (joints, 6) likewise.
        bodies: (joints, 10) as of `compiled_inertia.body`.
        armature: (nv,) added to the diagonal of M.
        gravity: (>= 3,).
        whole: (OF_BODY, joints) work.
        J: (nv, 6) work.
        work: (18,) work.
        M: (nv, nv), zero where it stays so.
        h: (nv,).
        com: (3,) takes the centre of mass.
    """
    R, at = matrix(work, 0, 3, 3), matrix(work, 9, 3, 3)
    w, g, c = at[0], at[1], at[2]
    o0, o1, o2 = placed[1, 3, 0], placed[1, 3, 1], placed[1, 3, 2]
    for j in range(1, joints.shape[0]):
        V, D, P = twist[j], drift[j], placed[j]
        for i in range(3):
            R[0, i] = P[i, 0]
            R[1, i] = P[i, 1]
            R[2, i] = P[i, 2]
            w[i] = V[3 + i]
            g[i] = D[3 + i]
        x, y, z = P[3, 0], P[3, 1], P[3, 2]
        u0 = V[0] + w[1] * z - w[2] * y
        u1 = V[1] + w[2] * x - w[0] * z
        u2 = V[2] + w[0] * y - w[1] * x
        c[0] = D[0] + g[1] * z - g[2] * y + w[1] * u2 - w[2] * u1
        c[1] = D[1] + g[2] * x - g[0] * z + w[2] * u0 - w[0] * u2
        c[2] = D[2] + g[0] * y - g[1] * x + w[0] * u1 - w[1] * u0
        body(bodies[j], R, x - o0, y - o1, z - o2, w, g, c, gravity, j, whole)
    for a in range(J.shape[0]):
        t0, t1, t2 = JT[a, 3], JT[a, 4], JT[a, 5]
        J[a, 0] = JT[a, 0] + t1 * o2 - t2 * o1
        J[a, 1] = JT[a, 1] + t2 * o0 - t0 * o2
        J[a, 2] = JT[a, 2] + t0 * o1 - t1 * o0
        J[a, 3] = t0
        J[a, 4] = t1
        J[a, 5] = t2
    for r in range(OF_BODY):
        whole[r, 0] = 0.0
    for j in range(joints.shape[0] - 1, 0, -1):
        for a in range(joints[j, 1], joints[j, 1] + joints[j, 2]):
            u0, u1, u2, t0, t1, t2 = J[a, 0], J[a, 1], J[a, 2], J[a, 3], J[a, 4], J[a, 5]
            h[a] = power_of(whole, j, u0, u1, u2, t0, t1, t2)
            p0, p1, p2, l0, l1, l2 = momentum_of(whole, j, u0, u1, u2, t0, t1, t2)
            k, end = j, a + 1
            while k > 0:
                for b in range(joints[k, 1], end):
                    s = J[b, 0] * p0 + J[b, 1] * p1 + J[b, 2] * p2 + J[b, 3] * l0 + J[b, 4] * l1 + J[b, 5] * l2
                    M[a, b] = s
                    M[b, a] = s
                k = joints[k, 0]
                end = joints[k, 1] + joints[k, 2]
            M[a, a] += armature[a]
        k = joints[j, 0]
        for r in range(OF_BODY):
            whole[r, k] += whole[r, j]
    f = 1.0 / max(whole[MASS, 0], 1e-300)
    com[0] = o0 + f * whole[CENTRE, 0]
    com[1] = o1 + f * whole[CENTRE + 1, 0]
    com[2] = o2 + f * whole[CENTRE + 2, 0]
