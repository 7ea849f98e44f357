"""Mechanical energy of a step's end: compiled, from the terms that the next step begins with anyway."""

from __future__ import annotations

from ..compiler import Vector, compiled
from .bodies import Bodies
from .terms import Terms

#: Error of the energy that a step may make per second: this share of the kinetic energy, and what lifts the robot at
#: these speeds [m/s], in flight and on the ground.  Steps that make more are refined.
SHARE, FLIGHT_RISE, GROUND_RISE = 5e-3, 1e-4, 3e-3
#: Error of one step that is no longer accurate even if it was refined: a share of the kinetic energy, and a height [m].
BROKEN_SHARE, BROKEN_HEIGHT = 5e-3, 1e-3
#: Slots of an account: kinetic and potential energy [J], and the rates at which the latter grows with the velocity and
#: with a velocity that corrects positions [W].
KINETIC, POTENTIAL, RISING, LIFTING = range(4)


@compiled(inline=False)
def mechanical_energy(bodies: Bodies, terms: Terms, v: Vector, correction: Vector, account: Vector) -> None:
    """Kinetic and potential energy, and powers against gravity, into `account` (4,).

    The potential is zero with the centre of mass at the world's origin.

    Args:
        bodies: the robot's.
        terms: its inertia, Jacobian and composite bodies.
        v: (nv,) velocity.
        correction: (nv,) velocity of the positions alone.
        account: of `KINETIC` and what follows it.
    """
    gravity, M, J, whole, origin, tree = bodies.gravity, terms.M, terms.J, terms.whole, terms.origin, bodies.tree
    kinetic, rising, lifting, potential = 0.0, 0.0, 0.0, 0.0
    for i in range(len(v)):
        row = 0.5 * M[i, i] * v[i]
        j = tree[i]
        while j >= 0:
            row += M[i, j] * v[j]
            j = tree[j]
        kinetic += v[i] * row
    for b in range(1, len(bodies.kind)):
        mass, x, y, z = whole[b, 0], whole[b, 1], whole[b, 2], whole[b, 3]
        for i in range(
            bodies.row[b], bodies.row[b] + bodies.size[b]
        ):  # the mass that moves with it: m v_o + omega x m c
            weight = (
                gravity[0] * (mass * J[i, 0] + J[i, 4] * z - J[i, 5] * y)
                + gravity[1] * (mass * J[i, 1] + J[i, 5] * x - J[i, 3] * z)
                + gravity[2] * (mass * J[i, 2] + J[i, 3] * y - J[i, 4] * x)
            )
            rising -= v[bodies.own[i]] * weight
            lifting -= correction[bodies.own[i]] * weight
    for a in range(3):
        potential -= gravity[a] * (whole[0, 1 + a] + whole[0, 0] * origin[a])
    account[KINETIC], account[POTENTIAL], account[RISING], account[LIFTING] = kinetic, potential, rising, lifting
