"""Mechanical energy of a step's end: compiled, from the terms that the next step begins with anyway."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiling import IntVector, Matrix, Vector, entry
from .contact_step import StepDynamics

#: Error of the energy that a step may make per second: this share of the kinetic energy, and what lifts the robot at
#: these speeds [m/s], in flight and on the ground.  Steps that make more are refined.
SHARE, FLIGHT_RISE, GROUND_RISE = 5e-3, 1e-4, 3e-3
#: Error of one step that is no longer accurate even if it was refined: a share of the kinetic energy, and a height [m].
BROKEN_SHARE, BROKEN_HEIGHT = 5e-3, 1e-3
#: Slots of an account: kinetic and potential energy [J], and the rates at which the latter grows with the velocity and
#: with a velocity that corrects positions [W].
KINETIC, POTENTIAL, RISING, LIFTING = range(4)


class Bodies(NamedTuple):
    """Where the robot's mass is.

    Attributes:
        parent: (joints,) the joint before each; the first is the world.
        carrier: (nv,) the joint that each degree of freedom belongs to.
        moments: (joints, 4) of what each joint carries: mass times its centre in the joint's frame [kg m], mass [kg].
        gravity: (3,) [m/s^2].
        sums: (joints, 4) work: the same of whole branches, in the world.
    """

    parent: IntVector
    carrier: IntVector
    moments: Matrix
    gravity: Vector
    sums: Matrix


def bodies_of(model: Any) -> Bodies:
    """Of a Pinocchio model."""
    moments = np.array([[*(inertia.mass * inertia.lever), inertia.mass] for inertia in model.inertias])
    moments[0] = 0.0  # what is bolted to the world
    carrier = np.empty(model.nv, dtype=np.int64)
    for index, joint in enumerate(model.joints):
        carrier[max(joint.idx_v, 0) : max(joint.idx_v, 0) + joint.nv] = index
    parent = np.array(list(model.parents), dtype=np.int64)
    return Bodies(parent, carrier, moments, model.gravity.linear.copy(), np.zeros((len(parent), 4)))


@entry("the energy account", release=True)
def mechanical_energy(
    bodies: Bodies, tree: IntVector, dynamics: StepDynamics, v: Vector, correction: Vector, account: Vector
) -> None:
    """Kinetic and potential energy, and powers against gravity, into `account` (4,).

    The potential is zero with the centre of mass at the world's origin.

    Args:
        bodies: where the mass is.
        tree: (nv,) the degree of freedom before each, -1 at the root.
        dynamics: inertia, Jacobian and poses.
        v: (nv,) velocity.
        correction: (nv,) velocity of the positions alone.
        account: of `KINETIC` and what follows it.
    """
    sums, moments, gravity = bodies.sums, bodies.moments, bodies.gravity
    M, J, poses = dynamics.M, dynamics.J, dynamics.poses
    count, kinetic, rising, lifting = len(bodies.parent), 0.0, 0.0, 0.0
    for i in range(len(v)):
        row = 0.5 * M[i, i] * v[i]
        j = tree[i]
        while j >= 0:
            row += M[i, j] * v[j]
            j = tree[j]
        kinetic += v[i] * row
    for b in range(count):
        x, y, z, mass = moments[b, 0], moments[b, 1], moments[b, 2], moments[b, 3]
        for a in range(3):
            sums[b, a] = poses[b, a] * x + poses[b, 3 + a] * y + poses[b, 6 + a] * z + poses[b, 9 + a] * mass
        sums[b, 3] = mass
    for b in range(count - 1, 0, -1):
        for a in range(4):
            sums[bodies.parent[b], a] += sums[b, a]
    for i in range(len(v)):  # the mass that moves with it: m v_O + omega x sum m c
        b = bodies.carrier[i]
        x, y, z, mass = sums[b, 0], sums[b, 1], sums[b, 2], sums[b, 3]
        weight = (
            gravity[0] * (mass * J[i, 0] + J[i, 4] * z - J[i, 5] * y)
            + gravity[1] * (mass * J[i, 1] + J[i, 5] * x - J[i, 3] * z)
            + gravity[2] * (mass * J[i, 2] + J[i, 3] * y - J[i, 4] * x)
        )
        rising -= v[i] * weight
        lifting -= correction[i] * weight
    account[KINETIC], account[RISING], account[LIFTING] = kinetic, rising, lifting
    account[POTENTIAL] = -(gravity[0] * sums[0, 0] + gravity[1] * sums[0, 1] + gravity[2] * sums[0, 2])
