"""Maps between a robot's coordinates and those of all joints, where joints mimic others or loops move them.

Programs are traced over all joints; their inputs and results are the robot's: ``v_all = G v``, ``a_all = G a + drift``
and the transposes.  G is constant under mimics (`quaddyn.robot.coupling`); planar loops have a closed form (`Linkage`).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Sequence

from ..robot.coupling import MimicCoupling
from ..robot.loops import LoopCoupling
from ..robot.planar_loops import PlanarLoop
from ..robot.robot import Robot
from .graph import Expr, Graph, Vector, total
from .linkage import Linkage
from .mechanism import COORDINATE_COUNTS, Mechanism, MechanismBody
from .planar_vector import PlanarVector

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
