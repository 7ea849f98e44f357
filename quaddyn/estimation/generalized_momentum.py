"""Generalized momentum and what changes it, by recursion over the bodies, in restricted Python.

With the world's axes about its origin, J_i the column of the world Jacobian of velocity i, and of the subtree that it
moves, from body b on: V_b the twist of b, H_b the momentum of the subtree and G_b the wrench of its weight,

    (M v)_i       = J_i . H_b + armature_i v_i
    (C^T v - g)_i = (V_b x J_i) . H_b + J_i . G_b = J_i . (G_b - V_b x* H_b),

since every J_i is fixed in body b, ``d/dt J_i = V_b x J_i``, and ``d/dt H_b`` is what acts on the subtree: the sum of
both rows' rates is Newton's and Euler's law.  It costs a few hundred operations a body and no matrix.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 2.9 to 2.14 (spatial momentum and cross
products).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, cross, local, mat3, vec3
from ..robot.robot import Robot


class Bodies(NamedTuple):
    """Moving bodies by the number of their joint, the world first."""

    parent: IntVector  # (bodies,)
    first: IntVector  # (bodies,) velocity of the joint
    freedoms: IntVector  # (bodies,) of the joint
    mass: Vector  # (bodies,) [kg]
    centre: Matrix  # (bodies, 3) of mass, the joint's axes [m]
    inertia: Tensor  # (bodies, 3, 3) about it, the joint's axes [kg m^2]
    armature: Vector  # (nv,) of the joints' rotors [kg m^2, kg]
    gravity: Vector  # (3,) world axes [m/s^2]
    work: Tensor  # (3, bodies, 6) twists, momenta, and mass before its first moment, of subtrees in the end


def bodies_of(robot: Robot) -> Bodies:
    """The bodies of a robot whose joints are independent."""
    model, n = robot.model, robot.model.njoints
    inertias = [model.inertias[j] for j in range(n)]
    return Bodies(
        parent=np.array([max(0, model.parents[j]) for j in range(n)], np.int64),
        first=np.array([max(0, model.idx_vs[j]) for j in range(n)], np.int64),
        freedoms=np.array([model.nvs[j] if j else 0 for j in range(n)], np.int64),
        mass=np.array([inertia.mass for inertia in inertias]),
        centre=np.array([inertia.lever for inertia in inertias]),
        inertia=np.array([inertia.inertia for inertia in inertias]),
        armature=np.array(model.armature, dtype=np.float64),
        gravity=np.array(model.gravity.linear, dtype=np.float64),
        work=np.zeros((3, n, 6)),
    )


@compiled()
def product(a: Vector, b: Vector) -> float:
    """``a . b`` of six entries."""
    s = 0.0
    for i in range(6):
        s += a[i] * b[i]
    return s


@compiled(inline=False)
def body_momentum(b: Bodies, placed: Tensor, j: int, momentum: Vector, moment: Vector) -> None:
    """Momentum (6,) about the world's origin, and mass with its first moment (4,), of body j with its twist."""
    twist, at, mass = b.work[0, j], placed[j], b.mass[j]
    R, omega = mat3(at[0:3]).T, vec3(twist[3:6])
    c = vec3(at[3]) + R @ vec3(b.centre[j])
    linear = (vec3(twist[0:3]) + cross(omega, c)) * mass
    momentum[0:3] = linear
    momentum[3:6] = cross(c, linear) + R @ (mat3(b.inertia[j]) @ (R.T @ omega))
    moment[0] = mass
    moment[1:4] = c * mass


@compiled(inline=False)
def momentum_and_drive(b: Bodies, columns: Matrix, placed: Tensor, v: Vector, p: Vector, drive: Vector) -> None:
    """``p = M v`` and ``drive = C^T v - g``.

    Args:
        b: the bodies.
        columns: of the world Jacobian, as of `State.kinematics`.
        placed: joints, as of `State.kinematics`.
        v: (nv,).
        p: (nv,) takes the momentum.
        drive: (nv,) takes what drives it but for forces.
    """
    twists, momenta, moments, n = b.work[0], b.work[1], b.work[2], len(b.mass)
    change, gravity = local(6), vec3(b.gravity)
    for r in range(6):
        twists[0, r] = 0.0
    for j in range(1, n):
        for r in range(6):
            twists[j, r] = twists[b.parent[j], r]
            for k in range(b.first[j], b.first[j] + b.freedoms[j]):
                twists[j, r] += columns[k, r] * v[k]
        body_momentum(b, placed, j, momenta[j], moments[j])
    for j in range(n - 1, 0, -1):
        twist, H, moment, above = twists[j], momenta[j], moments[j], b.parent[j]
        # G - V x* H
        omega, linear = vec3(twist[3:6]), vec3(H[0:3])
        change[0:3] = gravity * moment[0] - cross(omega, linear)
        change[3:6] = cross(vec3(moment[1:4]), gravity) - cross(omega, vec3(H[3:6])) - cross(vec3(twist[0:3]), linear)
        for k in range(b.first[j], b.first[j] + b.freedoms[j]):
            p[k] = product(columns[k], H) + b.armature[k] * v[k]
            drive[k] = product(columns[k], change)
        if above > 0:
            for r in range(6):
                momenta[above, r] += H[r]
                moments[above, r] += moment[r]
