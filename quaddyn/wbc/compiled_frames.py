"""Kinematics of any robot from what Pinocchio has computed, compiled: twists, drifts, frames, Jacobians of points.

Velocities and drifts follow from the joints' columns of the world Jacobian alone: a joint whose axes are fixed in its
body turns them with it, so that the drift of a body is its parent's plus ``V x (J_j v_j)``, with V the body's own
spatial velocity (Featherstone 2008, section 3.5).  World axes, linear before angular; classical accelerations.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import inner, outlined

#: Slots of a frame: rotation row by row, origin, velocity of the origin, angular velocity, their drifts.
ROTATION, ORIGIN, SPEED, SPIN, DRIFT, SPIN_DRIFT, FRAME = 0, 9, 12, 15, 18, 21, 24


@inner
def cross(a, b, out):  # type: ignore[no-untyped-def]
    """``out = a x b``."""
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@outlined("void(i8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1])")
def motions(joints, J, v, twist, drift):  # type: ignore[no-untyped-def]
    """Spatial velocity and drift of every joint's body about the world's origin.

    Args:
        joints: (joints, 3) parent, first entry in v, number of entries; the world first.
        J: (nv, 6) columns of the world Jacobian, one a row.
        v: (nv,).
        twist: (joints, 6) takes the velocities.
        drift: (joints, 6) takes the accelerations at ``a = 0``.
    """
    for c in range(6):
        twist[0, c] = 0.0
        drift[0, c] = 0.0
    for j in range(1, joints.shape[0]):
        V, D = twist[j], drift[j]
        before, start = joints[j, 0], joints[j, 1]
        for c in range(6):
            s = 0.0
            for i in range(start, start + joints[j, 2]):
                s += J[i, c] * v[i]
            D[c] = s
            V[c] = twist[before, c] + s
        x, y, z, a, b, c_ = D[0], D[1], D[2], D[3], D[4], D[5]
        D[0] = V[4] * z - V[5] * y + V[1] * c_ - V[2] * b
        D[1] = V[5] * x - V[3] * z + V[2] * a - V[0] * c_
        D[2] = V[3] * y - V[4] * x + V[0] * b - V[1] * a
        D[3] = V[4] * c_ - V[5] * b
        D[4] = V[5] * a - V[3] * c_
        D[5] = V[3] * b - V[4] * a
        for c in range(6):
            D[c] += drift[before, c]


@outlined("void(i8, f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def frame(joint, fixed, placed, twist, drift, out):  # type: ignore[no-untyped-def]
    """One frame.

    Args:
        joint: that it is fixed to.
        fixed: (4, 3) the columns of its rotation in the joint, then its origin there.
        placed: (joints, 4, 3) likewise every joint in the world.
        twist: (joints, 6) as of `motions`.
        drift: (joints, 6) likewise.
        out: (FRAME,) takes the slots.
    """
    at, V, D = placed[joint], twist[joint], drift[joint]
    for i in range(3):
        for c in range(3):
            out[3 * i + c] = at[0, i] * fixed[c, 0] + at[1, i] * fixed[c, 1] + at[2, i] * fixed[c, 2]
        out[ORIGIN + i] = at[3, i] + at[0, i] * fixed[3, 0] + at[1, i] * fixed[3, 1] + at[2, i] * fixed[3, 2]
        out[SPIN + i] = V[3 + i]
        out[SPIN_DRIFT + i] = D[3 + i]
    p, u, w, c, g = out[ORIGIN:SPEED], out[SPEED:SPIN], out[SPIN:DRIFT], out[DRIFT:SPIN_DRIFT], out[SPIN_DRIFT:FRAME]
    cross(w, p, u)
    cross(g, p, c)
    for i in range(3):
        u[i] += V[i]
        c[i] += D[i]
    c[0] += w[1] * u[2] - w[2] * u[1]
    c[1] += w[2] * u[0] - w[0] * u[2]
    c[2] += w[0] * u[1] - w[1] * u[0]


@outlined("void(i8[::1], f8[:,::1], f8[::1], f8[:,::1])")
def point_jacobian(chain, J, p, out):  # type: ignore[no-untyped-def]
    """Jacobian of a point p (3,) of a body: the columns of its chain alone, side by side in out (6, ...)."""
    for k in range(chain[0]):
        column = J[chain[1 + k]]
        a, b, c = column[3], column[4], column[5]
        out[0, k] = column[0] + b * p[2] - c * p[1]
        out[1, k] = column[1] + c * p[0] - a * p[2]
        out[2, k] = column[2] + a * p[1] - b * p[0]
        out[3, k] = a
        out[4, k] = b
        out[5, k] = c
