"""Screws of joints and their time derivatives, about the origin of the world.

A point p of a body has the velocity ``sum_k (a_k + z_k x p) v_k`` over the joints k of its chain, with (a_k, z_k) the
screw of joint k, which is the same for all bodies that the joint moves.  The derivative of a screw follows from the
motion that moves it: with V_k, the sum of ``S_j v_j`` up to joint k, ``S_k' = V_k x S_k`` (Featherstone 2008, "Rigid
Body Dynamics Algorithms", section 2.9).
"""

from __future__ import annotations

import math

from ...compiler import Matrix, Vector, compiled
from ...compiler.lanes import clear
from ..tick_data import FrameKinematics

#: Rows of the table of screws, one column per joint: linear and angular part of the screw; of its time derivative; of
#: V; sums of absolute angular velocities of the joints up to this one, and up to the previous one; absolute velocity;
#: whether the column is filled.
SCREW, SCREW_RATE, VELOCITY_SUM, TURN_SUM, TURN_SUM_BEFORE, ABSOLUTE_SPEED, IS_FILLED, N_SCREW_ROWS = (
    0,
    6,
    12,
    18,
    19,
    20,
    21,
    22,
)


@compiled()
def clear_screws(S: Matrix) -> None:
    """Marks all columns as empty."""
    clear(S[IS_FILLED], S.shape[1])


@compiled(inline=False)
def fill_screws(frame: FrameKinematics, v: Vector, base_velocities: int, S: Matrix) -> None:
    """Fills the columns of the joints that move a frame.

    Args:
        frame: kinematics of the frame.
        v: (nv,) velocity.
        base_velocities: velocities with a smaller index belong to one joint, the floating base.
        S: (N_SCREW_ROWS, nv or more) table of screws.
    """
    A, chain, count = frame.jacobian, frame.chain, len(frame.chain)
    ox, oy, oz = frame.origin[0], frame.origin[1], frame.origin[2]
    k = 0
    while k < count:
        end = k + 1
        while end < count and chain[end] < base_velocities:
            end += 1
        if S[IS_FILLED, chain[k]] == 0.0:
            vx, vy, vz, wx, wy, wz, turn_sum_before = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            if k > 0:
                j = chain[k - 1]
                vx, vy, vz = S[VELOCITY_SUM, j], S[VELOCITY_SUM + 1, j], S[VELOCITY_SUM + 2, j]
                wx, wy, wz = S[VELOCITY_SUM + 3, j], S[VELOCITY_SUM + 4, j], S[VELOCITY_SUM + 5, j]
                turn_sum_before = S[TURN_SUM, j]
            turn_sum = turn_sum_before
            for i in range(k, end):
                j, x, y, z = chain[i], A[3, i], A[4, i], A[5, i]
                ax, ay, az = A[0, i] + oy * z - oz * y, A[1, i] + oz * x - ox * z, A[2, i] + ox * y - oy * x
                S[SCREW, j] = ax
                S[SCREW + 1, j] = ay
                S[SCREW + 2, j] = az
                S[SCREW + 3, j] = x
                S[SCREW + 4, j] = y
                S[SCREW + 5, j] = z
                vx, vy, vz = vx + ax * v[j], vy + ay * v[j], vz + az * v[j]
                wx, wy, wz = wx + x * v[j], wy + y * v[j], wz + z * v[j]
                turn_sum += math.sqrt(x * x + y * y + z * z) * abs(v[j])
            for i in range(k, end):
                j = chain[i]
                ax, ay, az, x, y, z = S[0, j], S[1, j], S[2, j], S[3, j], S[4, j], S[5, j]
                S[SCREW_RATE, j] = wy * az - wz * ay + vy * z - vz * y
                S[SCREW_RATE + 1, j] = wz * ax - wx * az + vz * x - vx * z
                S[SCREW_RATE + 2, j] = wx * ay - wy * ax + vx * y - vy * x
                S[SCREW_RATE + 3, j] = wy * z - wz * y
                S[SCREW_RATE + 4, j] = wz * x - wx * z
                S[SCREW_RATE + 5, j] = wx * y - wy * x
                S[VELOCITY_SUM, j] = vx
                S[VELOCITY_SUM + 1, j] = vy
                S[VELOCITY_SUM + 2, j] = vz
                S[VELOCITY_SUM + 3, j] = wx
                S[VELOCITY_SUM + 4, j] = wy
                S[VELOCITY_SUM + 5, j] = wz
                S[TURN_SUM, j] = turn_sum
                S[TURN_SUM_BEFORE, j] = turn_sum if end > k + 1 else turn_sum_before
                S[ABSOLUTE_SPEED, j] = abs(v[j])
                S[IS_FILLED, j] = 1.0
        k = end
