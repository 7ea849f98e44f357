"""Generalized momentum and its rate, by recursion over the bodies, in restricted Python.

With world axes about the world origin, the column J_i of the world Jacobian for velocity i, and for the subtree that it
moves, starting with body b: the twist V_b of b, the momentum H_b of the subtree and the wrench G_b of its weight,

    (M v)_i       = J_i . H_b + armature_i v_i
    (C^T v - g)_i = (V_b x J_i) . H_b + J_i . G_b = J_i . (G_b - V_b x* H_b),

since every J_i is fixed in body b, ``d/dt J_i = V_b x J_i``, and ``d/dt H_b`` is the wrench on the subtree: the sum of
the rates of both rows is the Newton-Euler equation.  It costs a few hundred operations per body and needs no matrix.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, sections 2.9 to 2.14 (spatial momentum and cross
products).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, local
from ..robot.robot import Robot
from .rotations import cross


class MomentumBodies(NamedTuple):
    """Moving bodies by the index of their joint, the world first."""

    parent: IntVector  # (bodies,)
    first: IntVector  # (bodies,) index of the first velocity of the joint
    freedoms: IntVector  # (bodies,) number of velocities of the joint
    mass: Vector  # (bodies,) [kg]
    com: Matrix  # (bodies, 3) center of mass, joint frame [m]
    inertia: Tensor  # (bodies, 3, 3) inertia about the center of mass, joint axes [kg m^2]
    armature: Vector  # (nv,) rotor inertias of the joints [kg m^2, kg]
    gravity: Vector  # (3,) world axes [m/s^2]
    work: Tensor  # (3, bodies, 6) scratch: twists, and momenta and mass before first moment of subtrees


def make_momentum_bodies(robot: Robot) -> MomentumBodies:
    """Creates the bodies of a robot with independent joints."""
    model, n = robot.model, robot.model.njoints
    inertias = [model.inertias[j] for j in range(n)]
    return MomentumBodies(
        parent=np.array([max(0, model.parents[j]) for j in range(n)], np.int64),
        first=np.array([max(0, model.idx_vs[j]) for j in range(n)], np.int64),
        freedoms=np.array([model.nvs[j] if j else 0 for j in range(n)], np.int64),
        mass=np.array([inertia.mass for inertia in inertias]),
        com=np.array([inertia.lever for inertia in inertias]),
        inertia=np.array([inertia.inertia for inertia in inertias]),
        armature=np.array(model.armature, dtype=np.float64),
        gravity=np.array(model.gravity.linear, dtype=np.float64),
        work=np.zeros((3, n, 6)),
    )


@compiled()
def dot6(a: Vector, b: Vector) -> float:
    """Computes ``a . b`` of six entries."""
    s = 0.0
    for i in range(6):
        s += a[i] * b[i]
    return s


@compiled(inline=False)
def compute_body_momentum(
    b: MomentumBodies, joint_placements: Tensor, j: int, momentum: Vector, moment: Vector
) -> None:
    """Computes the momentum (6,) about the world origin, and mass and first moment (4,), of body j from its twist."""
    twist, at, mass = b.work[0, j], joint_placements[j], b.mass[j]
    omega, c, x, y, turned = twist[3:6], local(3), local(3), local(3), local(3)
    for r in range(3):
        c[r] = at[3, r]
        y[r] = 0.0
        for k in range(3):
            c[r] += at[k, r] * b.com[j, k]
            y[r] += at[r, k] * omega[k]  # R^T omega
    cross(omega, c, x)
    for r in range(3):
        momentum[r] = mass * (twist[r] + x[r])
        moment[1 + r] = mass * c[r]
        x[r] = b.inertia[j, r, 0] * y[0] + b.inertia[j, r, 1] * y[1] + b.inertia[j, r, 2] * y[2]
    moment[0] = mass
    cross(c, momentum, turned)
    for r in range(3):
        momentum[3 + r] = turned[r] + at[0, r] * x[0] + at[1, r] * x[1] + at[2, r] * x[2]


@compiled(inline=False)
def compute_momentum_and_drive(
    b: MomentumBodies, columns: Matrix, joint_placements: Tensor, v: Vector, p: Vector, drive: Vector
) -> None:
    """Computes ``p = M v`` and ``drive = C^T v - g``.

    Args:
        b: the bodies.
        columns: columns of the world Jacobian, as of `State.kinematic_arrays`.
        joint_placements: placements of the joints, as of `State.kinematic_arrays`.
        v: (nv,) velocity.
        p: (nv,) momentum; written.
        drive: (nv,) rate of the momentum without applied forces; written.
    """
    twists, momenta, moments, n = b.work[0], b.work[1], b.work[2], len(b.mass)
    x, y, change = local(3), local(3), local(6)
    for r in range(6):
        twists[0, r] = 0.0
    for j in range(1, n):
        for r in range(6):
            twists[j, r] = twists[b.parent[j], r]
            for k in range(b.first[j], b.first[j] + b.freedoms[j]):
                twists[j, r] += columns[k, r] * v[k]
        compute_body_momentum(b, joint_placements, j, momenta[j], moments[j])
    for j in range(n - 1, 0, -1):
        twist, H, moment, above = twists[j], momenta[j], moments[j], b.parent[j]
        # G - V x* H
        cross(twist[3:6], H, x)
        for r in range(3):
            change[r] = moment[0] * b.gravity[r] - x[r]
        cross(moment[1:4], b.gravity, y)
        cross(twist[3:6], H[3:6], x)
        for r in range(3):
            change[3 + r] = y[r] - x[r]
        cross(twist, H, x)
        for r in range(3):
            change[3 + r] -= x[r]
        for k in range(b.first[j], b.first[j] + b.freedoms[j]):
            p[k] = dot6(columns[k], H) + b.armature[k] * v[k]
            drive[k] = dot6(columns[k], change)
        if above > 0:
            for r in range(6):
                momenta[above, r] += H[r]
                moments[above, r] += moment[r]
