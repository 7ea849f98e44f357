"""Motion of the distance of two segments: where they are nearest, how it changes, and how its rates change.

Ends of the two segments, positions, velocities and accelerations at a = 0, lie one after the other in vectors of
twelve: two of the first, two of the second.  All points of a segment move in between.
"""

from __future__ import annotations

import math

from ...compiling import Matrix, Vector, compiled, local
from ...kinematics.segments import nearest_on_segments
from ..contact_points import add_cross, rotated
from ..data import Frame

#: What keeps nearest points of nearly parallel segments from moving infinitely fast.
REGULAR = 1e-3
#: Distance of segments [m] below which no direction leads apart.
CROSSING = 1e-9


@compiled()
def dot3(a: Vector, b: Vector) -> float:
    """``a . b`` of three."""
    total: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return total


@compiled()
def length3(a: Vector) -> float:
    """Of three."""
    return math.sqrt(dot3(a, a))


@compiled(inline=False)
def end_motion(
    rotation: Matrix, origin: Vector, velocity: Vector, drift: Vector, z: Vector, P: Vector, V: Vector, C: Vector
) -> None:
    """Positions, velocities, and accelerations at a = 0, of the two ends of a segment.

    Args:
        rotation: (3, 3) of the body that it is fixed in.
        origin: (3,).
        velocity: (6,) linear, angular.
        drift: (6,) acceleration at a = 0.
        z: (6,) the segment's ends there.
        P: (6,) positions.
        V: (6,) velocities.
        C: (6,) accelerations.
    """
    r = local(3)
    for e in range(2):
        p, v, c = P[3 * e :], V[3 * e :], C[3 * e :]
        rotated(rotation, z[3 * e :], r)
        for i in range(3):
            p[i] = origin[i] + r[i]
            v[i] = 0.0
            c[i] = drift[i]
        add_cross(velocity[3:], r, v)
        add_cross(velocity[3:], v, c)
        add_cross(drift[3:], r, c)
        for i in range(3):
            v[i] += velocity[i]


@compiled()
def resting_ends(z: Vector, velocity: Vector, P: Vector, V: Vector, C: Vector) -> None:
    """The same of a segment whose ends are at z and move with one velocity."""
    for i in range(6):
        P[i] = z[i]
        V[i] = velocity[i % 3]
        C[i] = 0.0


@compiled()
def fastest(V: Vector) -> float:
    """What no point of one segment moves faster by than one of the other."""
    most = 0.0
    for i in range(2):
        for j in range(2):
            square = 0.0
            for d in range(3):
                apart = V[6 + 3 * j + d] - V[3 * i + d]
                square += apart * apart
            most = max(most, square)
    return math.sqrt(most)


@compiled(inline=False)
def pair_motion(
    P: Vector, V: Vector, C: Vector, n: Vector, w: Vector, c: Vector, u: Vector, x: Vector
) -> tuple[float, float, float, float, float, float]:
    """How the distance d of two segments moves.

    The second derivative at a = 0 is ``n . c + |w across n|^2 / d - g^T H^-1 g``: the nearest points slide along the
    segments so that the distance stays least; H is the Hessian of the distance over the two places, g its derivative
    by time.  A point at the end of its segment does not slide.

    Args:
        P: (12,) positions of the ends.
        V: (12,) velocities.
        C: (12,) accelerations.
        n: (3,) is set to the direction from the first nearest point to the second.
        w: (3,) to the velocity of the second against the first.
        c: (3,) to the acceleration of the second against the first.
        u: (3,) to the first segment.
        x: (3,) to the second.

    Returns:
        d, its second derivative, places s and t along the segments in [0, 1], and how fast these change.  d is 0 where
        the segments cross.
    """
    s, t = nearest_on_segments(P, P[3:], P[6:], P[9:])
    square = 0.0
    for i in range(3):
        u[i] = P[3 + i] - P[i]
        x[i] = P[9 + i] - P[6 + i]
        n[i] = P[6 + i] + t * x[i] - P[i] - s * u[i]
        square += n[i] * n[i]
    d = math.sqrt(square)
    if d < CROSSING:
        return 0.0, 0.0, s, t, 0.0, 0.0
    turn_u, turn_x = 0.0, 0.0
    for i in range(3):
        n[i] /= d
        turning_u, turning_x = V[3 + i] - V[i], V[9 + i] - V[6 + i]
        w[i] = V[6 + i] + t * turning_x - V[i] - s * turning_u
        c[i] = C[6 + i] + t * (C[9 + i] - C[6 + i]) - C[i] - s * (C[3 + i] - C[i])
        turn_u += n[i] * turning_u
        turn_x += n[i] * turning_x
    along = dot3(n, w)
    second = dot3(n, c) + max(dot3(w, w) - along * along, 0.0) / d
    uu, xx, ux = dot3(u, u), dot3(x, x), dot3(u, x)
    gu = -(dot3(w, u) - along * dot3(n, u)) / d - turn_u
    gx = (dot3(w, x) - along * dot3(n, x)) / d + turn_x
    inside_u, inside_x = uu > 0.0 and s > 0.0 and s < 1.0, xx > 0.0 and t > 0.0 and t < 1.0
    s_rate, t_rate = 0.0, 0.0
    if inside_u and inside_x:
        hu, hx = uu * (1.0 + REGULAR), xx * (1.0 + REGULAR)
        over = d / (hu * hx - ux * ux)
        s_rate, t_rate = -over * (hx * gu + ux * gx), -over * (hu * gx + ux * gu)
    elif inside_u:
        s_rate = -d * gu / uu
    elif inside_x:
        t_rate = -d * gx / xx
    return d, second + gu * s_rate + gx * t_rate, s, t, s_rate, t_rate


@compiled()
def plane_motion(P: Vector, V: Vector, C: Vector, n: Vector, w: Vector) -> tuple[float, float]:
    """Distance of a point from a plane and its second derivative at a = 0; n and w as of `pair_motion`.

    Args:
        P: (12,) the point twice; the plane's normal, and a point of it.
        V: (12,) velocities.
        C: (12,) accelerations.
        n: (3,) is set.
        w: (3,) is set.
    """
    distance, second = 0.0, 0.0
    for i in range(3):
        n[i] = -P[6 + i]
        w[i] = V[6 + i] - V[i]
        distance += P[6 + i] * (P[i] - P[9 + i])
        second += P[6 + i] * C[i]
    return distance, second


@compiled(inline=False)
def add_point(
    frame: Frame,
    v: Vector,
    grouped: int,
    common: int,
    p: Vector,
    sliding: Vector,
    n: Vector,
    n_rate: Vector,
    sign: float,
    J: Vector,
    J_rate: Vector,
) -> float:
    r"""Add ``sign n^T J_p`` of a point p of a body, and its derivative by time, to those over all velocities.

    With columns :math:`J_k`, axes :math:`z_k` and partial sums over a chain,

    .. math::

        \dot J_k = \Big(\sum_{j \le k} z_j \dot q_j\Big) \times J_k + z_k \times \sum_{j > k} J_j \dot q_j .

    Args:
        frame: the body's.
        v: (nv,) velocity.
        grouped: velocities below this one belong to one joint.
        common: entries of the chain that move the other body, too.
        p: (3,).
        sliding: (3,) velocity of p along its body.
        n: (3,).
        n_rate: (3,) its derivative.
        sign: 1 or -1.
        J: (nv,).
        J_rate: (nv,).

    Returns:
        What the third derivative of p is no longer than at a = 0 [m/s^3], by joints that are not common: no partial
        derivative of p, of any order, is longer than the column of the outermost of its joints.
    """
    r, omega, beyond, column, rate = local(3), local(3), local(3), local(3), local(3)
    A, count = frame.jacobian, len(frame.chain)
    for i in range(3):
        r[i] = p[i] - frame.origin[i]
        omega[i] = 0.0
        beyond[i] = frame.velocity[i]
    add_cross(frame.velocity[3:], r, beyond)
    done, turned, jerk = 0, 0.0, 0.0
    before = 0.0
    for k in range(count):
        if k == done:  # the next joint
            done = k + 1
            before = turned
            while done < count and frame.chain[done] < grouped:
                done += 1
            for j in range(k, done):
                rates = v[frame.chain[j]]
                size = 0.0
                for i in range(3):
                    omega[i] += A[3 + i, j] * rates
                    size += A[3 + i, j] * A[3 + i, j]
                    column[i] = A[i, j]
                column[0] += A[4, j] * r[2] - A[5, j] * r[1]
                column[1] += A[5, j] * r[0] - A[3, j] * r[2]
                column[2] += A[3, j] * r[1] - A[4, j] * r[0]
                for i in range(3):
                    beyond[i] -= column[i] * rates
                if j >= common:
                    turned += math.sqrt(size) * abs(rates)
            if done > k + 1:
                before = turned
        for i in range(3):
            column[i] = A[i, k]
            rate[i] = 0.0
        column[0] += A[4, k] * r[2] - A[5, k] * r[1]
        column[1] += A[5, k] * r[0] - A[3, k] * r[2]
        column[2] += A[3, k] * r[1] - A[4, k] * r[0]
        add_cross(omega, column, rate)
        rate[0] += A[4, k] * (beyond[2] + sliding[2]) - A[5, k] * (beyond[1] + sliding[1])
        rate[1] += A[5, k] * (beyond[0] + sliding[0]) - A[3, k] * (beyond[2] + sliding[2])
        rate[2] += A[3, k] * (beyond[1] + sliding[1]) - A[4, k] * (beyond[0] + sliding[0])
        J[frame.chain[k]] += sign * dot3(n, column)
        J_rate[frame.chain[k]] += sign * (dot3(n, rate) + dot3(n_rate, column))
        if k >= common:
            jerk += length3(column) * abs(v[frame.chain[k]]) * (turned * turned + turned * before + before * before)
    return jerk
