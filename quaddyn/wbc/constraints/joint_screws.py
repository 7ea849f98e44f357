"""Screws of joints and their time derivatives, about the origin of the world.

A point p of a body has the velocity ``sum_k (a_k + z_k x p) v_k`` over the joints k of its chain, with (a_k, z_k) the
screw of joint k, which is the same for all bodies that the joint moves.  The derivative of a screw follows from the
motion that moves it: with V_k, the sum of ``S_j v_j`` up to joint k, ``S_k' = V_k x S_k`` (Featherstone 2008, "Rigid
Body Dynamics Algorithms", section 2.9).
"""

from __future__ import annotations

from ...compiler import Vec3, Vector, column3, compiled, cross, norm, set_column3, vec3
from ..collision_data import JointScrews
from ..tick_data import FrameKinematics


@compiled()
def clear_screws(screws: JointScrews) -> None:
    """Marks all columns as empty."""
    for j in range(len(screws.is_filled)):
        screws.is_filled[j] = 0


@compiled(inline=True)
def add_cross3(a: Vec3, b: Vec3, c: Vec3) -> Vec3:
    """Returns ``a + b x c``."""
    return vec3(a[0] + b[1] * c[2] - b[2] * c[1], a[1] + b[2] * c[0] - b[0] * c[2], a[2] + b[0] * c[1] - b[1] * c[0])


@compiled(inline=False)
def fill_screws(frame: FrameKinematics, v: Vector, base_velocities: int, screws: JointScrews) -> None:
    """Fills the columns of the joints that move a frame.

    Args:
        frame: kinematics of the frame.
        v: (nv,) velocity.
        base_velocities: velocities with a smaller index belong to one joint, the floating base.
        screws: the screws.
    """
    chain, count, origin = frame.chain, len(frame.chain), vec3(frame.origin)
    k = 0
    while k < count:
        end = k + 1
        while end < count and chain[end] < base_velocities:
            end += 1
        if screws.is_filled[chain[k]] == 0:
            body_linear, body_angular, turn_sum_before = vec3(0.0, 0.0, 0.0), vec3(0.0, 0.0, 0.0), 0.0
            if k > 0:
                before = chain[k - 1]
                body_linear, body_angular = (
                    column3(screws.body_linear, 0, before),
                    column3(screws.body_angular, 0, before),
                )
                turn_sum_before = screws.turn_sum[before]
            turn_sum = turn_sum_before
            for i in range(k, end):
                j, angular = chain[i], column3(frame.jacobian, 3, i)
                linear = add_cross3(column3(frame.jacobian, 0, i), origin, angular)
                set_column3(screws.linear, 0, j, linear)
                set_column3(screws.angular, 0, j, angular)
                body_linear += linear * v[j]
                body_angular += angular * v[j]
                turn_sum += norm(angular) * abs(v[j])
            for i in range(k, end):
                j = chain[i]
                linear, angular = column3(screws.linear, 0, j), column3(screws.angular, 0, j)
                set_column3(
                    screws.linear_rate, 0, j, add_cross3(cross(body_angular, linear), body_linear, angular)
                )  # fmt: skip
                set_column3(screws.angular_rate, 0, j, cross(body_angular, angular))
                set_column3(screws.body_linear, 0, j, body_linear)
                set_column3(screws.body_angular, 0, j, body_angular)
                screws.turn_sum[j] = turn_sum
                screws.turn_sum_before[j] = turn_sum if end > k + 1 else turn_sum_before
                screws.speed[j] = abs(v[j])
                screws.is_filled[j] = 1
        k = end
