"""Maps between a robot's coordinates and those of all joints, where joints mimic others or loops move them.

Programs are traced over all joints; their inputs and results are the robot's: ``v_all = G v``, ``a_all = G a + drift``
and the transposes.  G is constant under mimics (`quaddyn.robot.coupling`); planar loops have a closed form (`Linkage`).

*Planar loops*: angles, rates and accelerations of the dependent pivots are expressions.  The corners of the triangle
(see `quaddyn.robot.loops`) are U0 = 0, U1 and U2, its sides S0, S1, S2 where their first bar is as at home.  The law of
cosines gives U2: with ``g = (|S2|^2 - |S1|^2 - |S0|^2) / 2`` and ``h = +-sqrt(|S0|^2 |S1|^2 - g^2)``, twice the area,
``U2 - U1 = U1 (g + i h) / |S0|^2``.

Around the loop turning rates add up to zero, and so do their moments: ``sum w_k = 0``, ``sum w_k P_k = 0`` over the
pivots P_k.  A unit rate of one pivot hence makes the corners turn at minus its barycentric coordinates in the triangle.
If the other pivots do not accelerate, the corners do so with ``sum a_k = 0``, ``sum a_k U_k = i sum W_b^2 d_b`` over
the bars d_b and their rates W_b.

Planar vectors of expressions multiply like complex numbers: multiplication by a unit vector rotates.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..robot.coupling import MimicCoupling
from ..robot.loops import LoopCoupling, PlanarLoop
from ..robot.robot import Robot
from .graph import Expr, Graph, Vector, total
from .mechanism import COORDINATE_COUNTS, Mechanism, MechanismBody


@dataclass(frozen=True, slots=True)
class PlanarVector:
    """Planar vector ``x + i y`` of two expressions."""

    x: Expr
    y: Expr

    @staticmethod
    def of(graph: Graph, z: complex) -> PlanarVector:
        """Returns a constant vector."""
        return PlanarVector(graph.constant(z.real), graph.constant(z.imag))

    def __add__(self, other: PlanarVector) -> PlanarVector:
        return PlanarVector(self.x + other.x, self.y + other.y)

    def __neg__(self) -> PlanarVector:
        return PlanarVector(-self.x, -self.y)

    def __mul__(self, other: PlanarVector | complex) -> PlanarVector:
        x, y = (other.x, other.y) if isinstance(other, PlanarVector) else (other.real, other.imag)
        return PlanarVector(self.x * x - self.y * y, self.x * y + self.y * x)

    def scaled(self, factor: Expr | float) -> PlanarVector:
        """Returns a multiple."""
        return PlanarVector(self.x * factor, self.y * factor)

    @property
    def conjugate(self) -> PlanarVector:
        """Reflection at the x axis: the inverse of a unit vector."""
        return PlanarVector(self.x, -self.y)

    def dot(self, other: PlanarVector) -> Expr:
        """Returns the scalar product."""
        return self.x * other.x + self.y * other.y

    def cross(self, other: PlanarVector) -> Expr:
        """Returns the component of the vector product normal to the plane."""
        return self.x * other.y - self.y * other.x


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
        """Returns the accelerations of the corners if the independent pivots rotate at constant rates."""
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


#: For each entry of the velocities of all joints, (entry of v, ratio) of those that move it.
Rows = list[list[tuple[int, Expr]]]


def moving_entries(robot: Robot, moving: Iterable[int]) -> list[int]:
    """Returns the entries of v, ascending, that move the same as these entries of v_all.

    Raises:
        ModelError: a loop that has no closed form.
    """
    robot.reject_spatial_loops("compiled kernels")
    return sorted(moving) if robot.coupling is None else robot.coupling.chain(moving)


class JointCoordinateMap:
    """Coordinates of all joints at q, and the maps of velocities and forces between them and the robot's coordinates.

    Args:
        graph: records the operations.
        robot: the robot.
        mechanism: mechanism of the robot.
        q: (nq,) configuration of the robot.

    Attributes:
        coupled: whether some joints depend on others.
        nv: number of the robot's degrees of freedom.
        q: coordinates of all joints of the mechanism.
        ranges: (entry of the robot's q, lower, upper) of the range in which loops close.

    Raises:
        ModelError: a loop without closed form.
    """

    def __init__(self, graph: Graph, robot: Robot, mechanism: Mechanism, q: Sequence[Expr]) -> None:
        robot.reject_spatial_loops("compiled kernels")
        self.graph, self.robot, self.nv = graph, robot, robot.nv
        self.coupled, self.q = robot.coupling is not None, list(q)
        self.ranges: list[tuple[int, float, float]] = []
        self._rows: Rows = []
        #: For each coordinate of all joints, the entry of q that determines it; -1 if a loop does.
        self._q_from: list[int] = list(range(robot.nq))
        self._linkages: list[_LoopCoordinates] = []
        if isinstance(robot.coupling, MimicCoupling):
            self._set_mimic_map(robot.coupling, q)
        elif robot.coupling is not None:
            self._set_loop_map(robot.coupling, mechanism, q)

    def _set_mimic_map(self, c: MimicCoupling, q: Sequence[Expr]) -> None:
        self._q_from = c.q_from.tolist()
        maps = zip(self._q_from, c.q_scale.tolist(), c.q_offset.tolist(), strict=True)
        self.q = [q[i] * scale + offset for i, scale, offset in maps]
        rows = zip(c.v_from.tolist(), c.v_scale.tolist(), strict=True)
        self._rows = [[(i, self.graph.constant(scale))] for i, scale in rows]

    def _set_loop_map(self, loops: LoopCoupling, mechanism: Mechanism, q: Sequence[Expr]) -> None:
        links = {link.v: link for link in mechanism.links if COORDINATE_COUNTS[link.kind][1] == 1}
        self._rows = [[(int(i), self.graph.one)] if i >= 0 else [] for i in loops.v_from]
        turns: dict[int, PlanarVector] = {}  # by entry of v_all, of joints that follow
        for loop in loops.planar:
            assert loop is not None
            closed = _LoopCoordinates(self.graph, loops, loop, links, q)
            self._linkages.append(closed)
            self.ranges += closed.ranges
            for entry, turn, row in closed.dependent_joints():
                turns[entry], self._rows[entry] = turn, row
        own, self.q, self._q_from = iter(range(len(q))), [], []
        for link in mechanism.links:
            if link.v in turns:
                self.q += [turns[link.v].x, turns[link.v].y]
                self._q_from += [-1, -1]
            else:
                entries = [next(own) for _ in range(COORDINATE_COUNTS[link.kind][0])]
                self.q += [q[i] for i in entries]
                self._q_from += entries

    def velocity(self, v: Sequence[Expr]) -> Vector:
        """Returns the velocities of all joints, ``G v``."""
        if not self.coupled:
            return list(v)
        return [total((v[i] * x for i, x in row), self.graph.zero) for row in self._rows]

    def acceleration(self, v: Sequence[Expr], a: Sequence[Expr]) -> Vector:
        """Returns the accelerations of all joints, ``G a + dG/dt v``."""
        moved = self.velocity(a)
        return [x + y for x, y in zip(moved, self.drift(v), strict=True)] if self._linkages else moved

    def drift(self, v: Sequence[Expr]) -> Vector:
        """Returns the accelerations of all joints at ``a = 0``."""
        out = [self.graph.zero] * (len(self._rows) or self.nv)
        for closed in self._linkages:
            for entry, x in closed.drift(v):
                out[entry] = x
        return out

    def force(self, tau: Sequence[Expr]) -> Vector:
        """Returns ``G^T tau``; also used for a row of a matrix times G."""
        if not self.coupled:
            return list(tau)
        out = [self.graph.zero] * self.nv
        for row, x in zip(self._rows, tau, strict=True):
            for i, scale in row:
                out[i] = out[i] + x * scale
        return out

    def columns(self, J: Iterable[Sequence[Expr]]) -> list[Vector]:
        """Returns ``J G`` by rows."""
        return [self.force(row) for row in J]

    def rows(self, H: Sequence[Sequence[Expr]]) -> list[Vector]:
        """Returns ``G^T H`` by rows."""
        if not self.coupled:
            return [list(row) for row in H]
        columns = [self.force(column) for column in zip(*H, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def inertia(self, M: Sequence[Sequence[Expr]]) -> list[Vector]:
        """Returns ``G^T M G``, of which one triangle is computed and both are returned."""
        out = self.rows(self.columns(M))
        if self.coupled:
            for i, row in enumerate(out):
                row[:i] = [out[j][i] for j in range(i)]
        return out

    def chain_jacobian(self, J: Iterable[Sequence[Expr]], moving: Sequence[int]) -> list[Vector]:
        """Returns ``J G`` over `moving_entries`, from a Jacobian over the entries `moving` of all joints."""
        if not self.coupled:
            return [list(row) for row in J]
        entries, out = moving_entries(self.robot, moving), []
        for row in J:
            sums = dict.fromkeys(entries, self.graph.zero)
            for k, x in zip(moving, row, strict=True):
                for i, scale in self._rows[k]:
                    sums[i] = sums[i] + x * scale
            out.append([sums[i] for i in entries])
        return out

    def tangents(self, rates: Sequence[dict[int, Expr]]) -> list[dict[int, Expr]]:
        """Returns the rates of the entries of q for each entry of v, from those of all joints."""
        if self.robot.coupling is None:
            return list(rates)
        return [{self._q_from[i]: x for i, x in rates[int(k)].items()} for k in self.robot.coupling.v_index]

    def unit_norm_groups(self, parts: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
        """Returns, as entries of the robot's q, the groups of entries that form a quaternion or a (cos, sin)."""
        return [tuple(self._q_from[i] for i in part) for part in parts]


class _LoopCoordinates:
    """Coordinates of a planar loop: velocities and accelerations of its dependent joints."""

    def __init__(
        self, graph: Graph, loops: LoopCoupling, loop: PlanarLoop, links: dict[int, MechanismBody], q: Sequence[Expr]
    ) -> None:
        c, self.graph, self.loop = loops.closures, graph, loop
        entries = [int(c.v[i]) if i >= 0 else -1 for i in loop.joints]
        angles = [float(c.home[i]) + links[int(c.v[i])].rotation_angles[2] if i >= 0 else 0.0 for i in loop.joints]
        turned: dict[int, tuple[PlanarVector, complex]] = {}
        self.ranges: list[tuple[int, float, float]] = []
        #: By pivot that does not follow, its entry of v.
        self._own: dict[int, int] = {}
        for k, i in enumerate(loop.joints):
            if k in loop.corners:
                continue
            at, sense = int(loops.q_from[c.q[i]]), loop.senses[k]
            s, cosine = graph.sin_cos(q[at], links[entries[k]].rotation_angles[2])
            turned[k] = PlanarVector(cosine, s * float(sense)), cmath.rect(1.0, -sense * angles[k])
            self._own[k] = int(c.own[i])
            if math.isfinite(max(map(abs, loop.ends))):
                self.ranges.append((at, *loop.ends))
        self._corners = [(entries[k], loop.senses[k]) for k in loop.corners]
        first, second, third = (cmath.rect(1.0, loop.senses[k] * angles[k]) for k in loop.corners)
        self._linkage = Linkage(graph, loop, turned, (first, second, third))

    def dependent_joints(self) -> list[tuple[int, PlanarVector, list[tuple[int, Expr]]]]:
        """Returns, for each dependent joint, its index in v_all, cosine and sine of its angle, and its row of G."""
        out = []
        for corner, (entry, sense) in enumerate(self._corners):
            if entry >= 0:
                turn, ratios = self._linkage.turns[corner], self._linkage.ratios
                row = [(own, float(sense * self.loop.senses[k]) * ratios[k][corner]) for k, own in self._own.items()]
                out.append((entry, turn if sense > 0 else turn.conjugate, row))
        return out

    def drift(self, v: Sequence[Expr]) -> list[tuple[int, Expr]]:
        """Returns, for each dependent joint, its entry of v_all and its acceleration where v does not change."""
        rates = {k: v[own] * float(self.loop.senses[k]) for k, own in self._own.items()}
        values = zip(self._corners, self._linkage.drift(rates), strict=True)
        return [(entry, x * float(sense)) for (entry, sense), x in values if entry >= 0]
