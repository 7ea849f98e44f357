"""`Program`: a finished graph with named inputs and outputs, the order in which its code is written, and its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .graph import ADD, CONST, COS, DIV, INPUT, MUL, SIN, SQRT, Expr, Graph, factor_graph, live_nodes, operands


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Number of operations of the code for one state.

    Attributes:
        mul: number of multiplications.
        add: number of additions and subtractions, those of offsets to joint angles included.
        div: number of divisions.
        neg: number of negations that need a separate instruction; within a fused multiply-add they are free.
        sincos: number of pairs of sine and cosine.
        fused: number of pairs of a multiplication and an addition that become one instruction (counted in mul and add).
        instructions: number of arithmetic instructions of the compiled code, without those of sine and cosine.
        sqrt: number of square roots, which occur in closed loops only.
    """

    mul: int
    add: int
    div: int
    neg: int
    sincos: int
    fused: int
    instructions: int
    sqrt: int = 0

    def __str__(self) -> str:
        return (
            f"{self.mul} mul, {self.add} add, {self.div} div, {self.neg} neg, {self.sincos} sincos"
            f"{f', {self.sqrt} sqrt' if self.sqrt else ''}; "
            f"{self.instructions} instructions ({self.fused} fused multiply-adds)"
        )


@dataclass(frozen=True, eq=False)
class Program:
    """Straight-line code that computes outputs from inputs.

    Attributes:
        name: name of the operation.
        graph: expression graph of the code.
        inputs: (name, size) of each input in order; the index of an `INPUT` node refers to their concatenation.
        outputs: (name, shape) of each output in order.
        results: one expression per entry of the outputs, row by row.
        units: groups of input indices with unit norm: the sum of their squares must be one (quaternions).
        ranges: (input index, lower bound, upper bound) of inputs that must lie in a range.
        order: nodes in the order in which code is written.
        fused: products that are fused with a sum into one instruction.
        operations: operation counts.
        unit_tolerance: tolerance of the sum of squares of the groups in `units`; None for the one of the element type.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    graph: Graph
    results: tuple[Expr, ...]
    units: tuple[tuple[int, ...], ...]
    ranges: tuple[tuple[int, float, float], ...]
    order: tuple[int, ...]
    fused: frozenset[int]
    operations: OperationCounts
    unit_tolerance: float | None = None

    @property
    def angles(self) -> tuple[int, ...]:
        """Inputs whose sine and cosine are computed."""
        return tuple(sorted(self.angle_factors))

    @property
    def angle_factors(self) -> dict[int, float]:
        """Inputs whose sine and cosine are computed, each with the largest factor that multiplies it there."""
        graph, out = self.graph, dict[int, float]()
        for node in {graph.left[i] >> 1 for i in self.order if graph.op[i] in (SIN, COS)}:
            source, scale = (node, 1.0) if graph.op[node] == INPUT else graph._as_multiple(2 * node)
            out[graph.left[source]] = max(abs(scale), out.get(graph.left[source], 0.0))
        return out


def make_program(
    name: str,
    graph: Graph,
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, tuple[int, ...]]],
    results: Sequence[Expr],
    units: Sequence[Sequence[int]] = (),
    ranges: Sequence[tuple[int, float, float]] = (),
    unit_tolerance: float | None = None,
) -> Program:
    """Factors, orders and counts the operations that `results` need."""
    graph, out = factor_graph(*factor_graph(graph, results))  # a factor taken out may be shared in turn
    order, fused = schedule(graph, out)
    return Program(
        name,
        tuple(inputs),
        tuple(outputs),
        graph,
        tuple(out),
        tuple(map(tuple, units)),
        tuple(ranges),
        tuple(order),
        frozenset(fused),
        count_operations(graph, out, order, fused),
        unit_tolerance,
    )


def schedule(graph: Graph, results: Sequence[Expr]) -> tuple[list[int], set[int]]:
    """Returns nodes in order of creation, sines and cosines just before their first use, and the fused products.

    Recursions are traced branch by branch, so that this order keeps few values alive.  A product that a single sum
    reads is fused with it into one multiply-add.
    """
    order, uses = live_nodes(graph, results)
    order = _delay_sin_cos(graph, order)
    fused: set[int] = set()
    for i in order:
        if graph.op[i] == ADD:
            for ref in (graph.right[i], graph.left[i]):
                if graph.op[ref >> 1] == MUL and uses[ref >> 1] == 1:
                    fused.add(ref >> 1)
                    break
    return order, fused


def _delay_sin_cos(graph: Graph, order: Sequence[int]) -> list[int]:
    """Returns `order` with every sine and cosine moved to just before its first use."""
    out: list[int] = []
    waiting = {i for i in order if graph.op[i] in (SIN, COS)}
    for i in order:
        if i in waiting:
            continue
        for ref in operands(graph, i):
            if ref >> 1 in waiting:
                waiting.remove(ref >> 1)
                out.append(ref >> 1)
        out.append(i)
    return [*out, *sorted(waiting)]  # those that are results themselves


def count_operations(graph: Graph, results: Sequence[Expr], order: Sequence[int], fused: set[int]) -> OperationCounts:
    """Counts the operations of the code of `order`."""
    kinds = [graph.op[i] for i in order]
    mul, add, div, sqrt = (kinds.count(op) for op in (MUL, ADD, DIV, SQRT))
    turned = {(graph.left[i], graph.value[i]) for i in order if graph.op[i] in (SIN, COS)}
    add += sum(1 for _, offset in turned if offset)
    neg = len({r.ref for r in results if r.ref & 1 and graph.op[r.ref >> 1] not in (CONST,)})
    neg += sum(1 for i in order if graph.op[i] in (SIN,) and graph.left[i] & 1)
    return OperationCounts(mul, add, div, neg, len(turned), len(fused), mul + add + div + sqrt + neg - len(fused), sqrt)
