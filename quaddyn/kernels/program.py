"""`Program`: a finished graph with named inputs and outputs, in the order in which code is written, and its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .factoring import factored, live, operands
from .graph import ADD, CONST, COS, DIV, INPUT, MUL, SIN, SQRT, Expr, Graph


@dataclass(frozen=True, slots=True)
class Operations:
    """What the emitted code of one state does.

    Attributes:
        mul, add, div: multiplications, additions and subtractions (of offsets to joint angles, too), divisions.
        neg: negations that an instruction of their own would need; a fused multiply-add has them for free.
        sincos: pairs of sine and cosine.
        fused: pairs of a multiplication and an addition that the compiled code does as one (already in mul and add).
        instructions: arithmetic instructions of the compiled code, those of sine and cosine left out.
        sqrt: square roots, which only closed loops take.
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
    """Straight-line code: `graph` from `inputs` to `outputs`.

    Attributes:
        name: what it computes.
        inputs: (name, size) in order; an `INPUT` node's index runs through them.
        outputs: (name, shape) in order.
        results: one expression per entry of the outputs, row by row.
        angles: inputs whose sine and cosine are taken.
        units: groups of inputs whose squares must sum to one.
        ranges: inputs that must lie between two numbers, and these.
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
    operations: Operations

    @property
    def angles(self) -> tuple[int, ...]:
        """Inputs whose sine and cosine are taken."""
        return tuple(sorted(self.turned))

    @property
    def turned(self) -> dict[int, float]:
        """Inputs whose sine and cosine are taken, and the largest multiple of each of which they are."""
        graph, out = self.graph, dict[int, float]()
        for node in {graph.left[i] >> 1 for i in self.order if graph.op[i] in (SIN, COS)}:
            source, scale = (node, 1.0) if graph.op[node] == INPUT else graph._multiple(2 * node)
            out[graph.left[source]] = max(abs(scale), out.get(graph.left[source], 0.0))
        return out


def program(
    name: str,
    graph: Graph,
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, tuple[int, ...]]],
    results: Sequence[Expr],
    units: Sequence[Sequence[int]] = (),
    ranges: Sequence[tuple[int, float, float]] = (),
) -> Program:
    """Factor, order and count what `results` need."""
    graph, out = factored(*factored(graph, results))  # a factor taken out may be shared in turn
    order, fused = scheduled(graph, out)
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
        counted(graph, out, order, fused),
    )


def scheduled(graph: Graph, results: Sequence[Expr]) -> tuple[list[int], set[int]]:
    """Nodes in order of creation, sines and cosines just before their first use, and the fused products.

    Recursions are traced branch by branch, so that this order keeps few values alive.  A product that a single sum
    reads is fused with it into one multiply-add.
    """
    order, uses = live(graph, results)
    order = _turned_late(graph, order)
    fused: set[int] = set()
    for i in order:
        if graph.op[i] == ADD:
            for ref in (graph.right[i], graph.left[i]):
                if graph.op[ref >> 1] == MUL and uses[ref >> 1] == 1:
                    fused.add(ref >> 1)
                    break
    return order, fused


def _turned_late(graph: Graph, order: Sequence[int]) -> list[int]:
    """`order` with every sine and cosine moved to where it is first read."""
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


def counted(graph: Graph, results: Sequence[Expr], order: Sequence[int], fused: set[int]) -> Operations:
    """Counts of the code of `order`."""
    kinds = [graph.op[i] for i in order]
    mul, add, div, sqrt = (kinds.count(op) for op in (MUL, ADD, DIV, SQRT))
    turned = {(graph.left[i], graph.value[i]) for i in order if graph.op[i] in (SIN, COS)}
    add += sum(1 for _, offset in turned if offset)
    neg = len({r.ref for r in results if r.ref & 1 and graph.op[r.ref >> 1] not in (CONST,)})
    neg += sum(1 for i in order if graph.op[i] in (SIN,) and graph.left[i] & 1)
    return Operations(mul, add, div, neg, len(turned), len(fused), mul + add + div + sqrt + neg - len(fused), sqrt)
