"""Rigid-body terms of a plant for any kinematic tree; compiled loops over inertial parameters that are data.

Each trial of a campaign may have a different robot (payload, center of mass), so that no code is generated for one
robot, in contrast to the kernels of a controller's model (`quaddyn.kernels`).

Vectors are in world axes. Spatial vectors are about one point, the origin of the first joint, linear part first, so
that no digits are lost far from the world's origin.

Source: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, chapters 5 (bias) and 6 (inertia).

Mechanical energy at the end of a step, from terms that the next step needs anyway; compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import Matrix, Record, Vector, compiled, local
from ..dynamics.joint_placements import PlacedJoints, make_placed_joints, transform_point, write_jacobian_rows
from ..dynamics.kinematic_tree import INERTIA, KinematicTree, PointForces
from ..robot.loop_solver import drift_all


class StepTerms(NamedTuple):
    """Rigid-body terms at a state."""

    M: Matrix  # (nv, nv) joint-space inertia, upper triangle; zero between limbs
    h: Vector  # (nv,) Coriolis, centrifugal and gravity terms
    joints: PlacedJoints  # placements and Jacobian of the joints, and the reference point of spatial vectors
    body_inertias: Matrix  # (n, 10) inertias of the bodies about `origin`
    composite_inertias: Matrix  # (n, 10) inertias of each body with all its descendants; number 0 is the whole robot
    velocities: Matrix  # (n, 6) scratch
    accelerations: Matrix  # (n, 6) scratch
    forces: Matrix  # (n, 6) scratch
    # velocity, and acceleration for zero acceleration of the independent joints, of all joints; empty without closed
    # loops
    v_all: Vector
    drift: Vector  # likewise


def make_step_terms(bodies: KinematicTree) -> StepTerms:
    """Returns buffers for the rigid-body terms of a kinematic tree."""
    n, nv, zeros = len(bodies.kind), len(bodies.dof_parent), np.zeros
    joints = make_placed_joints(bodies)
    nv_all = len(joints.G)
    return StepTerms(
        zeros((nv, nv)), zeros(nv), joints, zeros((n, INERTIA)), zeros((n, INERTIA)),
        zeros((n, 6)), zeros((n, 6)), zeros((n, 6)), zeros(nv_all), zeros(nv_all),
    )  # fmt: skip


# -- inertia ---------------------------------------------------------------------------------------------------------
@compiled(inline=False)
def compute_inertia(bodies: KinematicTree, terms: StepTerms) -> None:
    """Computes M by the composite-rigid-body algorithm, from the leaves to the root."""
    n = len(bodies.kind)
    M = terms.M
    J = terms.joints.J
    body_inertias = terms.body_inertias
    composite = terms.composite_inertias
    parent_dof = bodies.dof_parent
    if bodies.coupled:
        for d in range(len(parent_dof)):
            for j in range(d):
                M[j, d] = 0.0
            M[d, d] = bodies.armature[d]
        for i in range(1, n):
            if bodies.follows_v[i] >= 0:
                rates = terms.joints.G[bodies.follows_v[i]]
                for d in range(len(parent_dof)):
                    for j in range(d + 1):
                        M[j, d] += bodies.rotors[i] * rates[d] * rates[j]
    momentum = local(6)
    for e in range(INERTIA):
        composite[0, e] = 0.0
    for i in range(1, n):
        body = bodies.inertias[i] if i > 1 else bodies.root_inertia
        _transform_inertia(body, terms.joints.poses[i], terms.joints.origin, body_inertias[i])
        for e in range(INERTIA):
            composite[i, e] = body_inertias[i, e]
    for i in range(n - 1, 0, -1):
        for e in range(INERTIA):
            composite[bodies.parent[i], e] += composite[i, e]
        for d in range(bodies.row[i], bodies.row[i] + bodies.dof_count[i]):
            _multiply_inertia(composite[i], J[d], momentum)
            if bodies.coupled:
                _add_inertia(bodies, d, J, momentum, M)
            else:
                j = d
                while j >= 0:
                    M[j, d] = _scalar_product(J[j], momentum)
                    j = parent_dof[j]
                M[d, d] += bodies.armature[d]


@compiled()
def _add_inertia(bodies: KinematicTree, d: int, J: Matrix, momentum: Vector, M: Matrix) -> None:
    """Adds the contribution of row d and the rows above it to M, if several rows belong to one degree of freedom."""
    b, j = bodies.row_dof[d], d
    while j >= 0:
        a, x = bodies.row_dof[j], _scalar_product(J[j], momentum)
        if a == b:
            M[a, a] += x if j == d else 2.0 * x
        elif a > b:
            M[b, a] += x
        else:
            M[a, b] += x
        j = bodies.parent_row[j]


@compiled()
def _transform_inertia(body: Vector, pose: Vector, origin: Vector, out: Vector) -> None:
    """Computes the inertia of a body in world axes about `origin`."""
    m = body[0]
    dx, dy, dz = pose[9] - origin[0], pose[10] - origin[1], pose[11] - origin[2]
    gx = pose[0] * body[1] + pose[3] * body[2] + pose[6] * body[3]
    gy = pose[1] * body[1] + pose[4] * body[2] + pose[7] * body[3]
    gz = pose[2] * body[1] + pose[5] * body[2] + pose[8] * body[3]
    RI = local(3, 3)  # R I
    for a in range(3):
        x, y, z = pose[a], pose[3 + a], pose[6 + a]
        RI[a, 0] = x * body[4] + y * body[5] + z * body[6]
        RI[a, 1] = x * body[5] + y * body[7] + z * body[8]
        RI[a, 2] = x * body[6] + y * body[8] + z * body[9]
    hx, hy, hz = gx + m * dx, gy + m * dy, gz + m * dz
    # with r = d + rho: the sum of m (r.r 1 - r r^T), of which the part of rho alone is R I R^T
    trace = gx * dx + gy * dy + gz * dz + hx * dx + hy * dy + hz * dz
    out[0], out[1], out[2], out[3] = m, hx, hy, hz
    out[4] = _rotated_inertia_entry(RI, pose, 0, 0) + trace - (gx * dx + hx * dx)
    out[5] = _rotated_inertia_entry(RI, pose, 0, 1) - (dx * gy + hx * dy)
    out[6] = _rotated_inertia_entry(RI, pose, 0, 2) - (dx * gz + hx * dz)
    out[7] = _rotated_inertia_entry(RI, pose, 1, 1) + trace - (gy * dy + hy * dy)
    out[8] = _rotated_inertia_entry(RI, pose, 1, 2) - (dy * gz + hy * dz)
    out[9] = _rotated_inertia_entry(RI, pose, 2, 2) + trace - (gz * dz + hz * dz)


@compiled()
def _rotated_inertia_entry(RI: Matrix, pose: Vector, a: int, b: int) -> float:
    """Returns entry (a, b) of ``R I R^T`` from ``R I``."""
    out: float = RI[a, 0] * pose[b] + RI[a, 1] * pose[3 + b] + RI[a, 2] * pose[6 + b]
    return out


@compiled()
def _multiply_inertia(body: Vector, motion: Vector, out: Vector) -> None:
    """Computes ``I v``: the momentum of a body from its velocity, or its inertial force from its acceleration."""
    m, hx, hy, hz = body[0], body[1], body[2], body[3]
    vx, vy, vz, wx, wy, wz = motion[0], motion[1], motion[2], motion[3], motion[4], motion[5]
    out[0] = m * vx + wy * hz - wz * hy
    out[1] = m * vy + wz * hx - wx * hz
    out[2] = m * vz + wx * hy - wy * hx
    out[3] = body[4] * wx + body[5] * wy + body[6] * wz + hy * vz - hz * vy
    out[4] = body[5] * wx + body[7] * wy + body[8] * wz + hz * vx - hx * vz
    out[5] = body[6] * wx + body[8] * wy + body[9] * wz + hx * vy - hy * vx


@compiled()
def _scalar_product(motion: Vector, force: Vector) -> float:
    """Returns the scalar product of a motion and a force vector."""
    total = 0.0
    for a in range(6):
        total += motion[a] * force[a]
    return total


# -- forces ----------------------------------------------------------------------------------------------------------
@compiled(inline=False)
def compute_bias(bodies: KinematicTree, v: Vector, terms: StepTerms) -> None:
    """Computes the bias h at v by the recursive Newton-Euler algorithm; gravity is an acceleration of the world."""
    J = terms.joints.J
    V = terms.velocities
    A = terms.accelerations
    F = terms.forces
    body_inertias = terms.body_inertias
    n = len(bodies.kind)
    joint_motion, inertial, row_dof = local(6), local(6), bodies.row_dof
    if bodies.coupled:
        terms.h[:] = 0.0
    if len(terms.joints.q_all) > 0:
        _compute_loop_drift(bodies, v, terms)
    for a in range(6):
        V[0, a], A[0, a] = 0.0, 0.0
    for a in range(3):
        A[0, a] = -bodies.gravity[a]
    for i in range(1, n):
        b = bodies.parent[i]
        joint_motion[:6] = 0.0
        for d in range(bodies.row[i], bodies.row[i] + bodies.dof_count[i]):
            for a in range(6):
                joint_motion[a] += J[d, a] * v[row_dof[d]]
        _motion_cross(V[b], joint_motion, A[i])
        if bodies.follows_v[i] >= 0:
            _add_drift(bodies, i, terms, A[i])
        for a in range(6):
            V[i, a] = V[b, a] + joint_motion[a]
            A[i, a] += A[b, a]
        _multiply_inertia(body_inertias[i], V[i], joint_motion)
        _force_cross(V[i], joint_motion, F[i])
        _multiply_inertia(body_inertias[i], A[i], inertial)
        for a in range(6):
            F[i, a] += inertial[a]
    for i in range(n - 1, 0, -1):
        for d in range(bodies.row[i], bodies.row[i] + bodies.dof_count[i]):
            if bodies.coupled:
                terms.h[row_dof[d]] += _scalar_product(J[d], F[i])
            else:
                terms.h[d] = _scalar_product(J[d], F[i])
        for a in range(6):
            F[bodies.parent[i], a] += F[i, a]


@compiled(inline=False)
def _compute_loop_drift(bodies: KinematicTree, v: Vector, terms: StepTerms) -> None:
    """Computes the drift of all joints at v, and adds the inertial forces of rotors of dependent joints to h."""
    for i in range(len(terms.v_all)):
        total = 0.0
        for d in range(len(v)):
            total += terms.joints.G[i, d] * v[d]
        terms.v_all[i] = total
    drift_all(bodies.closures, terms.joints.closing, terms.joints.q_all, terms.v_all, terms.drift)
    for i in range(1, len(bodies.kind)):
        dof = bodies.follows_v[i]
        if dof >= 0:
            for d in range(len(v)):
                terms.h[d] += terms.joints.G[dof, d] * bodies.rotors[i] * terms.drift[dof]


@compiled()
def _add_drift(bodies: KinematicTree, i: int, terms: StepTerms, out: Vector) -> None:
    """Adds the acceleration of a dependent joint for zero acceleration of the independent joints."""
    joint_row = local(1, 6)
    write_jacobian_rows(bodies.kind[i], bodies.axes[i], terms.joints.poses[i], terms.joints.origin, joint_row)
    for a in range(6):
        out[a] += joint_row[0, a] * terms.drift[bodies.follows_v[i]]


@compiled()
def _motion_cross(a: Vector, b: Vector, out: Vector) -> None:
    """Computes ``a x b`` of motion vectors (6,): the rate of change of a vector b that moves with velocity a."""
    out[0] = a[4] * b[2] - a[5] * b[1] + a[1] * b[5] - a[2] * b[4]
    out[1] = a[5] * b[0] - a[3] * b[2] + a[2] * b[3] - a[0] * b[5]
    out[2] = a[3] * b[1] - a[4] * b[0] + a[0] * b[4] - a[1] * b[3]
    out[3] = a[4] * b[5] - a[5] * b[4]
    out[4] = a[5] * b[3] - a[3] * b[5]
    out[5] = a[3] * b[4] - a[4] * b[3]


@compiled()
def _force_cross(a: Vector, f: Vector, out: Vector) -> None:
    """Computes ``a x* f`` (6,): the rate of change of a momentum or force f that moves with velocity a."""
    out[0] = a[4] * f[2] - a[5] * f[1]
    out[1] = a[5] * f[0] - a[3] * f[2]
    out[2] = a[3] * f[1] - a[4] * f[0]
    out[3] = a[4] * f[5] - a[5] * f[4] + a[1] * f[2] - a[2] * f[1]
    out[4] = a[5] * f[3] - a[3] * f[5] + a[2] * f[0] - a[0] * f[2]
    out[5] = a[3] * f[4] - a[4] * f[3] + a[0] * f[1] - a[1] * f[0]


@compiled()
def compute_push_forces(bodies: KinematicTree, terms: StepTerms, pushes: PointForces, out: Vector) -> None:
    """Computes the generalized forces of point forces at the present placements, into `out` (nv,)."""
    point, wrench, J, parent_row, origin = local(3), local(6), terms.joints.J, bodies.parent_row, terms.joints.origin
    out[:] = 0.0
    for i in range(len(pushes.joints)):
        transform_point(terms.joints.poses[pushes.joints[i]], pushes.points[i], point)
        x, y, z, f = point[0] - origin[0], point[1] - origin[1], point[2] - origin[2], pushes.wrenches[i]
        wrench[:6] = f[:6]
        wrench[3] += y * f[2] - z * f[1]
        wrench[4] += z * f[0] - x * f[2]
        wrench[5] += x * f[1] - y * f[0]
        d = pushes.last[i]
        while d >= 0:
            out[bodies.row_dof[d]] += _scalar_product(J[d], wrench)
            d = parent_row[d]


#: Tolerated energy error per second: a fraction of the kinetic energy plus the power that lifts the robot at these
#: speeds [m/s], in flight and on the ground. Steps with a larger error are refined.
KINETIC_ERROR_FRACTION, FLIGHT_RISE_SPEED, GROUND_RISE_SPEED = 5e-3, 1e-4, 3e-3
#: Energy error above which a refined step is inaccurate: a fraction of the kinetic energy plus the energy of a height
#: [m].
INACCURATE_KINETIC_FRACTION, INACCURATE_HEIGHT = 5e-3, 1e-3


class Energies(Record):
    """Mechanical energy of the robot, and the power against gravity."""

    kinetic: float  # [J]
    potential: float  # zero with the center of mass at the world's origin [J]
    rise_power: float  # rate at which the potential energy grows with the velocity [W]
    correction_power: float  # the same with the velocity that corrects positions [W]


@compiled(inline=False)
def compute_mechanical_energy(
    bodies: KinematicTree, terms: StepTerms, v: Vector, correction: Vector, energies: Energies
) -> None:
    """Computes kinetic and potential energy, and the rate at which the velocity, and a correction, raise the robot.

    Args:
        bodies: kinematic tree of the robot.
        terms: its inertia, Jacobian and composite bodies at the configuration.
        v: (nv,) velocity.
        correction: (nv,) velocity that moves positions out of penetration, but is no part of v.
        energies: receives the energies [J] and powers [W].
    """
    gravity = bodies.gravity
    M = terms.M
    J = terms.joints.J
    composite = terms.composite_inertias
    origin = terms.joints.origin
    parent_dof = bodies.dof_parent
    kinetic, rise_power, correction_power, potential = 0.0, 0.0, 0.0, 0.0
    for i in range(len(v)):
        row = 0.5 * M[i, i] * v[i]
        j = parent_dof[i]
        while j >= 0:
            row += M[j, i] * v[j]
            j = parent_dof[j]
        kinetic += v[i] * row
    for b in range(1, len(bodies.kind)):
        mass, x, y, z = composite[b, 0], composite[b, 1], composite[b, 2], composite[b, 3]
        for i in range(
            bodies.row[b], bodies.row[b] + bodies.dof_count[b]
        ):  # the mass that moves with it: m v_o + omega x m c
            weight = (
                gravity[0] * (mass * J[i, 0] + J[i, 4] * z - J[i, 5] * y)
                + gravity[1] * (mass * J[i, 1] + J[i, 5] * x - J[i, 3] * z)
                + gravity[2] * (mass * J[i, 2] + J[i, 3] * y - J[i, 4] * x)
            )
            rise_power -= v[bodies.row_dof[i]] * weight
            correction_power -= correction[bodies.row_dof[i]] * weight
    for a in range(3):
        potential -= gravity[a] * (composite[0, 1 + a] + composite[0, 0] * origin[a])
    energies.kinetic = kinetic
    energies.potential = potential
    energies.rise_power = rise_power
    energies.correction_power = correction_power
