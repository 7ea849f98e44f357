"""Between a robot's coordinates and those of all joints of its mechanism, where joints mimic others.

Programs are traced over all joints; their inputs and results are the robot's.  See `quaddyn.robot.coupling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..robot.robot import Robot
from .graph import Expr, Graph, Vector


class Coordinates:
    """The maps ``q_all = G q + g``, ``v_all = G v`` and their transposes over expressions; identities without mimics.

    Args:
        graph: records the operations.
        robot: the robot.

    Attributes:
        coupled: whether joints mimic others.
        nq, nv: of the robot.
    """

    def __init__(self, graph: Graph, robot: Robot) -> None:
        self.graph, self._coupling = graph, robot.mimicry("compiled kernels")
        self.coupled, self.nq, self.nv = robot.coupling is not None, robot.nq, robot.nv

    def configuration(self, q: Sequence[Expr]) -> Vector:
        """q_all of q."""
        if self._coupling is None:
            return list(q)
        c = self._coupling
        rows = zip(c.q_from.tolist(), c.q_scale.tolist(), c.q_offset.tolist(), strict=True)
        return [q[i] * scale + offset for i, scale, offset in rows]

    def velocity(self, v: Sequence[Expr]) -> Vector:
        """v_all of v."""
        if self._coupling is None:
            return list(v)
        return [v[i] * scale for i, scale in self._rows()]

    def force(self, tau: Sequence[Expr]) -> Vector:
        """``G^T tau``; also a row of a matrix times G."""
        if self._coupling is None:
            return list(tau)
        out = [self.graph.zero] * self.nv
        for (i, scale), x in zip(self._rows(), tau, strict=True):
            out[i] = out[i] + x * scale
        return out

    def columns(self, J: Iterable[Sequence[Expr]]) -> list[Vector]:
        """``J G`` by rows."""
        return [self.force(row) for row in J]

    def rows(self, H: Sequence[Sequence[Expr]]) -> list[Vector]:
        """``G^T H`` by rows."""
        if self._coupling is None:
            return [list(row) for row in H]
        columns = [self.force(column) for column in zip(*H, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def inertia(self, M: Sequence[Sequence[Expr]]) -> list[Vector]:
        """``G^T M G``, of which one triangle is computed and both are given."""
        out = self.rows(self.columns(M))
        if self.coupled:
            for i, row in enumerate(out):
                row[:i] = [out[j][i] for j in range(i)]
        return out

    def chain(self, moving: Iterable[int]) -> list[int]:
        """Entries of v that move what these entries of v_all move, ascending."""
        return sorted(moving) if self._coupling is None else self._coupling.chain(moving)

    def in_chain(self, J: Iterable[Sequence[Expr]], moving: Sequence[int]) -> list[Vector]:
        """By rows ``J G`` over `chain`, of a J over the entries `moving` of v_all."""
        if self._coupling is None:
            return [list(row) for row in J]
        kept, all_rows, out = self.chain(moving), self._rows(), []
        for row in J:
            sums = dict.fromkeys(kept, self.graph.zero)
            for k, x in zip(moving, row, strict=True):
                i, scale = all_rows[k]
                sums[i] = sums[i] + x * scale
            out.append([sums[i] for i in kept])
        return out

    def tangents(self, rates: Sequence[dict[int, Expr]]) -> list[dict[int, Expr]]:
        """Per entry of v the rates of the entries of q, of those per entry of v_all of the entries of q_all."""
        if self._coupling is None:
            return list(rates)
        c = self._coupling
        return [{int(c.q_from[i]): x for i, x in rates[int(k)].items()} for k in c.v_index]

    def unit(self, parts: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
        """Entries of q of entries of q_all that form a quaternion or a (cos, sin)."""
        if self._coupling is None:
            return [tuple(part) for part in parts]
        return [tuple(int(self._coupling.q_from[i]) for i in part) for part in parts]

    def _rows(self) -> list[tuple[int, float]]:
        assert self._coupling is not None
        return list(zip(self._coupling.v_from.tolist(), self._coupling.v_scale.tolist(), strict=True))
