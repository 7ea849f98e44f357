"""Screws of joints: how each moves what it carries, and how that changes, as seen from the world's origin.

A point p of a body has the velocity ``sum_k (a_k + z_k x p) v_k`` over the joints k of its chain, (a_k, z_k) the screw
of joint k, which is the same for all bodies that it moves.  Screws are carried along: with V_k, the sum of ``S_j v_j``
up to joint k, ``S_k' = V_k x S_k`` (Featherstone 2008, "Rigid Body Dynamics Algorithms", section 2.9).
"""

from __future__ import annotations

import math

from ...compiling import Matrix, Vector, compiled
from ..data import Frame

#: Entries of a row: linear and angular part of the screw; the same of its derivative by time; those of V; sum of the
#: joints' absolute angular velocities up to this one, and up to the one before; whether the row is filled.
SCREW, CHANGE, CARRIED, TURNED, BEFORE, FILLED, WIDTH = 0, 6, 12, 18, 19, 20, 21


@compiled()
def forget_screws(screws: Matrix) -> None:
    """No row is filled."""
    for k in range(screws.shape[0]):
        screws[k, FILLED] = 0.0


@compiled(inline=False)
def fill_screws(frame: Frame, v: Vector, grouped: int, screws: Matrix) -> None:
    """Fill the rows of the joints that move a frame.

    Args:
        frame: terms of it.
        v: (nv,) velocity.
        grouped: velocities below this one belong to one joint.
        screws: (nv, WIDTH).
    """
    A, o, count = frame.jacobian, frame.origin, len(frame.chain)
    k = 0
    while k < count:
        end = k + 1
        while end < count and frame.chain[end] < grouped:
            end += 1
        if screws[frame.chain[k], FILLED] == 0.0:
            last, turned = screws[frame.chain[k]], 0.0
            for i in range(6):
                last[CARRIED + i] = screws[frame.chain[k - 1], CARRIED + i] if k > 0 else 0.0
            before = screws[frame.chain[k - 1], TURNED] if k > 0 else 0.0
            turned = before
            for j in range(k, end):
                S, speed = screws[frame.chain[j]], v[frame.chain[j]]
                x, y, z = A[3, j], A[4, j], A[5, j]
                S[0] = A[0, j] + o[1] * z - o[2] * y
                S[1] = A[1, j] + o[2] * x - o[0] * z
                S[2] = A[2, j] + o[0] * y - o[1] * x
                S[3] = x
                S[4] = y
                S[5] = z
                for i in range(6):
                    last[CARRIED + i] += S[i] * speed
                turned += math.sqrt(x * x + y * y + z * z) * abs(speed)
            for j in range(k, end):
                S = screws[frame.chain[j]]
                cross_motion(last[CARRIED:], S, S[CHANGE:])
                for i in range(6):
                    S[CARRIED + i] = last[CARRIED + i]
                S[TURNED] = turned
                S[BEFORE] = turned if end > k + 1 else before
                S[FILLED] = 1.0
        k = end


@compiled()
def cross_motion(V: Vector, S: Vector, out: Vector) -> None:
    """``out = V x S`` of two screws."""
    vx, vy, vz, wx, wy, wz = V[0], V[1], V[2], V[3], V[4], V[5]
    ax, ay, az, x, y, z = S[0], S[1], S[2], S[3], S[4], S[5]
    out[0] = wy * az - wz * ay + vy * z - vz * y
    out[1] = wz * ax - wx * az + vz * x - vx * z
    out[2] = wx * ay - wy * ax + vx * y - vy * x
    out[3] = wy * z - wz * y
    out[4] = wz * x - wx * z
    out[5] = wx * y - wy * x
