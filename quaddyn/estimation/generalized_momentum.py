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

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, cross, local, mat3, vec3
from ..robot.robot import Robot


class MomentumBodies(NamedTuple):
    """Inertial parameters of moving bodies, by the index of their joint, the world first."""

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
    """Creates the inertial parameters of the bodies of a robot with independent joints."""
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
    """Computes the dot product of two vectors of six entries."""
    s = 0.0
    for i in range(6):
        s += a[i] * b[i]
    return s


@compiled(inline=False)
def compute_body_momentum(
    b: MomentumBodies, joint_placements: Tensor, j: int, momentum: Vector, mass_moment: Vector
) -> None:
    """Computes the momentum (6,) about the world origin, and mass and first moment (4,), of body j from its twist."""
    twist, at, mass = b.work[0, j], joint_placements[j], b.mass[j]
    R, omega = mat3(at[0:3]).T, vec3(twist[3:6])
    c = vec3(at[3]) + R @ vec3(b.com[j])
    linear = (vec3(twist[0:3]) + cross(omega, c)) * mass
    momentum[0:3] = linear
    momentum[3:6] = cross(c, linear) + R @ (mat3(b.inertia[j]) @ (R.T @ omega))
    mass_moment[0] = mass
    mass_moment[1:4] = c * mass


@compiled(inline=False)
def compute_momentum_and_drive(
    b: MomentumBodies, columns: Matrix, joint_placements: Tensor, v: Vector, p: Vector, drive: Vector
) -> None:
    """Computes the momentum ``p = M v`` and its rate without applied forces, ``drive = C^T v - g``.

    Args:
        b: the bodies.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        p: (nv,) momentum; written.
        drive: (nv,) rate of the momentum without applied forces; written.
    """
    twists, momenta, mass_moments, n = b.work[0], b.work[1], b.work[2], len(b.mass)
    wrench, gravity = local(6), vec3(b.gravity)
    for r in range(6):
        twists[0, r] = 0.0
    for j in range(1, n):
        for r in range(6):
            twists[j, r] = twists[b.parent[j], r]
            for k in range(b.first[j], b.first[j] + b.freedoms[j]):
                twists[j, r] += columns[k, r] * v[k]
        compute_body_momentum(b, joint_placements, j, momenta[j], mass_moments[j])
    for j in range(n - 1, 0, -1):
        twist, H, mass_moment, parent = twists[j], momenta[j], mass_moments[j], b.parent[j]
        # G - V x* H
        omega, linear = vec3(twist[3:6]), vec3(H[0:3])
        wrench[0:3] = gravity * mass_moment[0] - cross(omega, linear)
        wrench[3:6] = (
            cross(vec3(mass_moment[1:4]), gravity) - cross(omega, vec3(H[3:6])) - cross(vec3(twist[0:3]), linear)
        )
        for k in range(b.first[j], b.first[j] + b.freedoms[j]):
            p[k] = dot6(columns[k], H) + b.armature[k] * v[k]
            drive[k] = dot6(columns[k], wrench)
        if parent > 0:
            for r in range(6):
                momenta[parent, r] += H[r]
                mass_moments[parent, r] += mass_moment[r]
