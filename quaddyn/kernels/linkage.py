"""Planar kinematic loops in closed form over expressions: angles, rates and accelerations of the dependent pivots.

The corners of the triangle (see `quaddyn.robot.planar_loops`) are U0 = 0, U1 and U2, its sides S0, S1, S2 where their
first bar is as at home.  The law of cosines gives U2: with ``g = (|S2|^2 - |S1|^2 - |S0|^2) / 2`` and
``h = +-sqrt(|S0|^2 |S1|^2 - g^2)``, twice the area, ``U2 - U1 = U1 (g + i h) / |S0|^2``.

Around the loop turning rates add up to zero, and so do their moments: ``sum w_k = 0``, ``sum w_k P_k = 0`` over the
pivots P_k.  A unit rate of one pivot hence makes the corners turn at minus its barycentric coordinates in the triangle.
If the other pivots do not accelerate, the corners do so with ``sum a_k = 0``, ``sum a_k U_k = i sum W_b^2 d_b`` over
the bars d_b and their rates W_b.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..robot.planar_loops import PlanarLoop
from .graph import Expr, Graph, total
from .planar_vector import PlanarVector


class Linkage:
    """Closed-form kinematics of a planar loop at given angles of its independent joints.

    The loop is a triangle: three dependent pivots are its corners, and the bars between them are rigid at given angles.

    Args:
        graph: graph to which the operations are added.
        loop: bars and pivots of the loop.
        turned: for each independent pivot, the change since home of the angle between the bars before and behind it, as
            the product of a unit vector of expressions and a constant one.
        onto: for each corner (0, 1, 2), a constant unit vector to be rotated.

    Attributes:
        turns: for each corner, the vector in `onto`, rotated by the change of the angle at the corner since home.
        ratios: for each independent pivot, the rates of the corners when it rotates at 1 rad/s and the others rest.
    """

    def __init__(
        self,
        graph: Graph,
        loop: PlanarLoop,
        turned: Mapping[int, tuple[PlanarVector, complex]],
        onto: tuple[complex, complex, complex],
    ) -> None:
        self.graph, self.loop = graph, loop
        one, self._count = PlanarVector.of(graph, 1.0), len(loop.joints)
        sides: list[PlanarVector] = []
        last: list[tuple[PlanarVector, complex]] = []  # rotation of the last bar of a side relative to its first
        #: For each pivot: its side, its position on it, and the rotation of the bar behind it, in the side's axes.
        self._pivots: dict[int, tuple[int, PlanarVector, tuple[PlanarVector, complex]]] = {}
        for corner in range(3):
            turn, constant, at = one, 1.0 + 0.0j, PlanarVector.of(graph, 0.0)
            for position in loop.side(corner):
                k = position % self._count
                if k in turned:
                    turn, constant = turn * turned[k][0], constant * turned[k][1]
                self._pivots[k] = corner, at, (turn, constant)
                at = at + turn * (constant * loop.bars[k])
            sides.append(at)
            last.append((turn, constant))
        S0, S1, S2 = sides
        squares = [side.dot(side) for side in sides]
        g = 0.5 * (squares[2] - squares[1] - squares[0])
        self._area = graph.sqrt(squares[0] * squares[1] - g * g) * float(loop.mirrored)
        bend, along = PlanarVector(g, self._area), S0.scaled(1.0 / squares[0])
        self._corners = [PlanarVector.of(graph, 0.0), S0, S0 + along * bend]
        # Rotations of the first bars of sides 1 and 2: quotient of each side and its vector at home.
        first, second = _reciprocal(S1, squares[1]), -_reciprocal(S2, squares[2])
        rest = PlanarVector(squares[0] + g, self._area)
        self._sides = [one, along * (bend * first), along * (rest * second)]
        onwards = PlanarVector(g + squares[1], -self._area)
        (z0, k0), (z1, k1), (z2, k2) = last
        self.turns = (
            (along * z2 * (rest * (second * (k2 * onto[0].conjugate())))).conjugate,
            along * z0.conjugate * (bend * (first * (k0.conjugate() * onto[1]))),
            onwards * (second * first.conjugate * (k1.conjugate() * onto[2])) * z1.conjugate,
        )
        self._inverse_area = 1.0 / self._area
        self.ratios = {k: self._ratio(k) for k in turned}

    def _ratio(self, k: int) -> tuple[Expr, Expr, Expr]:
        """Returns the rates of the corners at the unit rate of pivot k: its negative barycentric coordinates."""
        side, at, _ = self._pivots[k]
        at = at if side == 0 else self._corners[side] + self._sides[side] * at
        _, U1, U2 = self._corners
        first, second = U2.cross(at) * self._inverse_area, at.cross(U1) * self._inverse_area
        return -(1.0 + first + second), first, second

    def drift(self, rates: Mapping[int, Expr]) -> tuple[Expr, Expr, Expr]:
        """Returns the accelerations of the corners if the independent pivots rotate at constant rates.

        Args:
            rates: rate of each independent pivot.
        """
        graph, loop = self.graph, self.loop
        corner_rates = [total((rates[k] * self.ratios[k][c] for k in rates), graph.zero) for c in range(3)]
        rate, centripetal = graph.zero, PlanarVector.of(graph, 0.0)
        for corner in range(3):
            for position in loop.side(corner):
                k = position % self._count
                if k in rates:
                    rate = rate + rates[k]
                elif corner > 0:  # rates are relative to the first bar of side 0
                    rate = rate + corner_rates[corner]
                _, _, turn = self._pivots[k]
                bar = self._sides[corner] * (turn[0] * (turn[1] * loop.bars[k]))
                if len(loop.side(corner)) == 1:
                    bar = self._corners[(corner + 1) % 3] + -self._corners[corner]
                centripetal = centripetal + bar.scaled(rate * rate)
        _, U1, U2 = self._corners
        first, second = -centripetal.dot(U2) * self._inverse_area, U1.dot(centripetal) * self._inverse_area
        return -(first + second), first, second


def _reciprocal(side: PlanarVector, square: Expr) -> PlanarVector:
    """Returns ``1 / side``."""
    return side.conjugate.scaled(1.0 / square)
