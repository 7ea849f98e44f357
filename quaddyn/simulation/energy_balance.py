"""Mechanical energy at the end of a step, from terms that the next step needs anyway; compiled."""

from __future__ import annotations

from ..compiler import Record, Vector, compiled
from ..dynamics.kinematic_tree import KinematicTree
from .terms import StepTerms

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
    gravity, M, J, composite, origin, parent_dof = (
        bodies.gravity,
        terms.M,
        terms.joints.J,
        terms.composite_inertias,
        terms.joints.origin,
        bodies.dof_parent,
    )
    kinetic, rise_power, correction_power, potential = 0.0, 0.0, 0.0, 0.0
    for i in range(len(v)):
        row = 0.5 * M[i, i] * v[i]
        j = parent_dof[i]
        while j >= 0:
            row += M[i, j] * v[j]
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
    energies.kinetic, energies.potential, energies.rise_power, energies.correction_power = (
        kinetic,
        potential,
        rise_power,
        correction_power,
    )
