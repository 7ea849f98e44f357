"""Algebraic factoring: `factor_graph` returns the same outputs with fewer operations.

Sums whose partial sums have no other reader are flattened; products in them that share a factor become one product of a
sum (``a b + a c = a (b + c)``), the factor shared by most products first.  Values change by rounding only.
"""

from __future__ import annotations

from collections.abc import Sequence

from .graph import ADD, CONST, COS, DIV, INPUT, MUL, SIGN, SIN, SQRT, Expr, Graph


def live_nodes(graph: Graph, outputs: Sequence[Expr]) -> tuple[list[int], dict[int, int]]:
    """Returns the nodes that `outputs` need, operands first, and how often each is read."""
    uses: dict[int, int] = {}
    for out in outputs:
        uses[out.ref >> 1] = uses.get(out.ref >> 1, 0) + 1
    order = []
    for i in range(len(graph.op) - 1, -1, -1):  # operands have smaller numbers
        if i not in uses:
            continue
        order.append(i)
        for ref in operands(graph, i):
            uses[ref >> 1] = uses.get(ref >> 1, 0) + 1
    order.reverse()
    return order, uses


def operands(graph: Graph, i: int) -> tuple[int, ...]:
    """Returns the signed references that node i reads."""
    op = graph.op[i]
    if op in (ADD, MUL, DIV):
        return graph.left[i], graph.right[i]
    return (graph.left[i],) if op in (SIN, COS, SIGN, SQRT) else ()


def factor_graph(graph: Graph, outputs: Sequence[Expr]) -> tuple[Graph, list[Expr]]:
    """Returns a new graph with fewer operations and its expressions for the same `outputs`."""
    return _Factoring(graph, outputs).factor()


class _Factoring:
    """Translator of a graph to a factored graph."""

    def __init__(self, graph: Graph, outputs: Sequence[Expr]) -> None:
        self.old, self.new, self.outputs = graph, Graph(), outputs
        self.order, self.uses = live_nodes(graph, outputs)
        self.translated: dict[int, int] = {}

    def factor(self) -> tuple[Graph, list[Expr]]:
        """Returns the factored graph and its outputs."""
        inner = set()  # partial sums, and products that only a sum reads, are written with that sum
        old = self.old
        for i in self.order:
            if old.op[i] == ADD:
                inner |= {
                    ref >> 1
                    for ref in operands(old, i)
                    if self.is_used_once(ref >> 1) and old.op[ref >> 1] in (ADD, MUL)
                }
        for i in self.order:
            if i not in inner:
                self.translated[i] = self.translate_node(i)
        return self.new, [Expr(self.new, self.translate(out.ref)) for out in self.outputs]

    def is_used_once(self, i: int) -> bool:
        """Returns whether a node has a single reader."""
        return self.uses[i] == 1

    def translate(self, ref: int) -> int:
        """Returns the reference in the new graph for a reference in the old one."""
        i = ref >> 1
        if i not in self.translated:
            self.translated[i] = self.translate_node(i)
        return self.translated[i] ^ (ref & 1)

    def translate_node(self, i: int) -> int:
        """Writes node i of the old graph to the new one and returns its reference."""
        old, new, op = self.old, self.new, self.old.op[i]
        if op == CONST:
            return new.constant(old.value[i]).ref
        if op == INPUT:
            return new.input(old.left[i]).ref
        if op in (SIN, COS, SIGN):
            ref = self.translate(old.left[i])
            return 2 * new._node(op, ref & ~1, 0, old.value[i]) + (ref & 1 if op != COS else 0)
        if op == SQRT:
            return new.sqrt(Expr(new, self.translate(old.left[i]))).ref
        if op == MUL:
            return new.mul(self.translate(old.left[i]), self.translate(old.right[i]))
        if op == DIV:
            return new.div(self.translate(old.left[i]), self.translate(old.right[i]))
        return self.write_factored_sum(self.flatten_sum(2 * i))

    def flatten_sum(self, ref: int) -> list[tuple[tuple[int, ...], int]]:
        """Returns (factors, sign) of each term of the flattened sum.

        One factor means that it is not a product to take apart.
        """
        out: list[tuple[tuple[int, ...], int]] = []
        stack = [(ref, True)]
        old = self.old
        while stack:
            ref, top = stack.pop()
            i, sign = ref >> 1, ref & 1
            if old.op[i] == ADD and (top or self.is_used_once(i)):
                stack += [(old.right[i] ^ sign, False), (old.left[i] ^ sign, False)]
            elif old.op[i] == MUL and self.is_used_once(i):
                a, b = self.translate(old.left[i]), self.translate(old.right[i])
                out.append(((a & ~1, b & ~1), sign ^ (a & 1) ^ (b & 1)))
            else:
                a = self.translate(2 * i)
                out.append(((a & ~1,), sign ^ (a & 1)))
        return out

    def write_factored_sum(self, terms: list[tuple[tuple[int, ...], int]]) -> int:
        """Writes a sum of terms, with common factors taken out, and returns its reference."""
        new = self.new
        while True:
            counts: dict[int, int] = {}
            for factors, _ in terms:
                if len(factors) == 2:
                    for f in set(factors):
                        counts[f] = counts.get(f, 0) + 1
            best = max(counts, key=lambda f: (counts[f], -f), default=-1)
            if best < 0 or counts[best] < 2:
                break
            first = next(k for k, (fs, _) in enumerate(terms) if len(fs) == 2 and best in fs)
            chosen = [(fs, s) for fs, s in terms if len(fs) == 2 and best in fs]
            rest: list[tuple[tuple[int, ...], int]] = []
            for fs, s in chosen:
                other = fs[1] if fs[0] == best else fs[0]
                rest.append(((other,), s))
            inside = self.write_factored_sum(rest)
            product = new.mul(best, inside)
            others = [t for t in terms if t not in chosen]
            position = sum(1 for t in terms[:first] if t not in chosen)
            terms = [*others[:position], ((product & ~1,), product & 1), *others[position:]]
        out = new.zero.ref
        for factors, sign in terms:
            ref = factors[0] if len(factors) == 1 else new.mul(factors[0], factors[1])
            out = new.add(out, ref ^ sign)
        return out
