"""`Graph`: arithmetic recorded as a hash-consed expression graph, where every operation can be counted.

An `Expr` is a signed reference to a node, so that a negation costs nothing and ``a - b`` and ``b - a`` are one node.
Constants fold, equal expressions are one node, ``c1 x + c2 x`` is ``(c1 + c2) x``.

Algebraic factoring: `factor_graph` returns the same outputs with fewer operations.

Sums whose partial sums have no other reader are flattened; products in them that share a factor become one product of a
sum (``a b + a c = a (b + c)``), the factor shared by most products first.  Values change by rounding only.

`Program` is a finished graph with named inputs and outputs, the order in which its code is written, and its counts.

`differentiate` and `pull_back` are derivatives of a graph: by forward-mode differentiation in one direction, and the
gradient by reverse mode (Griewank and Walther, *Evaluating Derivatives*, 2008, sections 3.1 and 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CONST: Final = "const"
INPUT: Final = "input"
ADD: Final = "add"  # a + b, or a - b where b's reference is negative
MUL: Final = "mul"
DIV: Final = "div"
SIN: Final = "sin"  # of an input, or a multiple of one, plus a constant
COS: Final = "cos"
SIGN: Final = "sign"  # -1, 0 or 1
SQRT: Final = "sqrt"  # of a non-negative number; kernels reject arguments for which it is negative

Number = float | int


class Graph:
    """Nodes in order of creation: the operands of a node stand before it.

    Attributes:
        op: per node, what it does.
        left, right: signed operand references ``2 * node + negative``; the index of the input of an `INPUT`.
        value: the value of a `CONST` (positive), the constant added to the angle of a `SIN` or `COS`.
    """

    def __init__(self) -> None:
        self.op: list[str] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.value: list[float] = []
        self._nodes: dict[tuple[object, ...], int] = {}
        self._constants: dict[float, int] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)

    # -- leaves ----------------------------------------------------------------------------------------------
    def constant(self, value: Number) -> Expr:
        """Returns a finite constant."""
        value = float(value)
        if not math.isfinite(value):
            raise ValueError(f"a constant of an expression graph must be finite, got {value}")
        size = abs(value)
        node = self._constants.get(size)
        if node is None:
            node = self._constants[size] = self._append(CONST, 0, 0, size)
        return Expr(self, 2 * node + (value < 0.0))

    def input(self, index: int) -> Expr:
        """Returns the input of this index."""
        return Expr(self, 2 * self._node(INPUT, index, 0))

    def inputs(self, start: int, count: int) -> list[Expr]:
        """Returns `count` inputs from index `start` on."""
        return [self.input(i) for i in range(start, start + count)]

    def sin_cos(self, angle: Expr, offset: float = 0.0) -> tuple[Expr, Expr]:
        """Returns sine and cosine of ``angle + offset`` [rad].

        Multiples of 90 degrees in the constant part cost no operations: sine and cosine are exchanged or negated.

        Args:
            angle: an input or a multiple of one, plus or minus constants.
            offset: constant angle to add [rad].
        """
        angle, more = self._constant_part(angle)
        offset += more
        turns = offset / (0.5 * math.pi)
        quarter = round(turns)
        if abs(turns - quarter) < 1e-15:
            offset = 0.0
        else:
            quarter = 0
        sign = angle.ref & 1
        node = angle.ref >> 1
        if sign:
            offset = -offset
        s = Expr(self, 2 * self._node(SIN, 2 * node, 0, offset) + sign)
        c = Expr(self, 2 * self._node(COS, 2 * node, 0, offset))
        for _ in range(quarter % 4):
            s, c = c, -s
        return s, c

    def _constant_part(self, x: Expr) -> tuple[Expr, float]:
        """Returns x as an expression plus a constant."""
        i = x.ref >> 1
        if self.op[i] == ADD:
            for one, other in ((self.left[i], self.right[i]), (self.right[i], self.left[i])):
                if self.op[one >> 1] == CONST:
                    return Expr(self, other ^ (x.ref & 1)), self._signed_constant(one ^ (x.ref & 1))
        return x, 0.0

    def sign(self, x: Expr) -> Expr:
        """Returns the sign of x: -1, 0 or 1."""
        return Expr(self, 2 * self._node(SIGN, x.ref & ~1, 0) + (x.ref & 1))

    def sqrt(self, x: Expr) -> Expr:
        """Returns the square root."""
        number = x.number
        return self.constant(math.sqrt(number)) if number is not None else Expr(self, 2 * self._node(SQRT, x.ref, 0))

    # -- arithmetic ------------------------------------------------------------------------------------------
    def add(self, a: int, b: int) -> int:
        """Returns the reference of a + b."""
        i, j = a >> 1, b >> 1
        if self.op[i] == CONST or self.op[j] == CONST:
            if self.op[i] == CONST and self.value[i] == 0.0:
                return b
            if self.op[j] == CONST and self.value[j] == 0.0:
                return a
            if self.op[i] == self.op[j]:
                return self.constant(self._signed_constant(a) + self._signed_constant(b)).ref
        (x, m), (y, n) = self._as_multiple(a), self._as_multiple(b)
        if x == y:
            return self.mul(self.constant(m + n).ref, 2 * x)
        if j < i:
            a, b = b, a
        flip = a & 1
        return 2 * self._node(ADD, a ^ flip, b ^ flip) + flip

    def mul(self, a: int, b: int) -> int:
        """Returns the reference of a * b."""
        sign = (a ^ b) & 1
        a, b = a & ~1, b & ~1
        if b < a:
            a, b = b, a
        i, j = a >> 1, b >> 1
        if self.op[j] == CONST:
            i, j, a, b = j, i, b, a
        if self.op[i] == CONST:
            factor = self.value[i]
            if factor == 0.0:
                return self.zero.ref
            if factor == 1.0:
                return b ^ sign
            if self.op[j] == CONST:
                return self.constant(factor * self.value[j]).ref ^ sign
            if self.op[j] == MUL and self.op[self.left[j] >> 1] == CONST:
                inner = factor * self.value[self.left[j] >> 1]
                return self.mul(self.constant(inner).ref, self.right[j]) ^ sign
        return 2 * self._node(MUL, a, b) + sign

    def div(self, a: int, b: int) -> int:
        """Returns the reference of a / b."""
        sign = (a ^ b) & 1
        a, b = a & ~1, b & ~1
        if self.op[b >> 1] == CONST:
            return self.mul(a, self.constant(1.0 / self.value[b >> 1]).ref) ^ sign
        if self.op[a >> 1] == CONST and self.value[a >> 1] == 0.0:
            return self.zero.ref
        return 2 * self._node(DIV, a, b) + sign

    def _signed_constant(self, ref: int) -> float:
        return -self.value[ref >> 1] if ref & 1 else self.value[ref >> 1]

    def _as_multiple(self, ref: int) -> tuple[int, float]:
        """Returns (node, factor) of a reference read as a constant multiple of a node."""
        i, sign = ref >> 1, -1.0 if ref & 1 else 1.0
        if self.op[i] == MUL and self.op[self.left[i] >> 1] == CONST:
            return self.right[i] >> 1, sign * self.value[self.left[i] >> 1]
        return i, sign

    def _node(self, op: str, left: int, right: int, value: float = 0.0) -> int:
        key = (op, left, right, value)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._append(op, left, right, value)
        return node

    def _append(self, op: str, left: int, right: int, value: float) -> int:
        self.op.append(op)
        self.left.append(left)
        self.right.append(right)
        self.value.append(value)
        return len(self.op) - 1


class Expr:
    """A signed reference to a node of a graph, with arithmetic."""

    __slots__ = ("graph", "ref")

    def __init__(self, graph: Graph, ref: int) -> None:
        self.graph, self.ref = graph, ref

    def _coerce(self, other: Expr | Number) -> int:
        return other.ref if isinstance(other, Expr) else self.graph.constant(other).ref

    def __add__(self, other: Expr | Number) -> Expr:
        return Expr(self.graph, self.graph.add(self.ref, self._coerce(other)))

    def __sub__(self, other: Expr | Number) -> Expr:
        return Expr(self.graph, self.graph.add(self.ref, self._coerce(other) ^ 1))

    def __rsub__(self, other: Number) -> Expr:
        return Expr(self.graph, self.graph.add(self._coerce(other), self.ref ^ 1))

    def __mul__(self, other: Expr | Number) -> Expr:
        return Expr(self.graph, self.graph.mul(self.ref, self._coerce(other)))

    def __truediv__(self, other: Expr | Number) -> Expr:
        return Expr(self.graph, self.graph.div(self.ref, self._coerce(other)))

    def __rtruediv__(self, other: Number) -> Expr:
        return Expr(self.graph, self.graph.div(self._coerce(other), self.ref))

    def __neg__(self) -> Expr:
        return Expr(self.graph, self.ref ^ 1)

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def number(self) -> float | None:
        """The value of a constant, None for anything else."""
        graph, i = self.graph, self.ref >> 1
        if graph.op[i] != CONST:
            return None
        return -graph.value[i] if self.ref & 1 else graph.value[i]

    @property
    def is_zero(self) -> bool:
        """Whether the expression is the constant 0."""
        return self.number == 0.0


Vector = list[Expr]


def total(terms: Iterable[Expr], zero: Expr) -> Expr:
    """Returns the sum of `terms`."""
    out = zero
    for term in terms:
        out = out + term
    return out


def plus(a: Sequence[Expr], b: Sequence[Expr]) -> Vector:
    """Returns a + b by components."""
    return [x + y for x, y in zip(a, b, strict=True)]


def cross(a: Sequence[Expr | float], b: Sequence[Expr]) -> Vector:
    """Returns a x b."""
    return [b[2] * a[1] - b[1] * a[2], b[0] * a[2] - b[2] * a[0], b[1] * a[0] - b[0] * a[1]]


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
    """Straight-line code that computes outputs from inputs."""

    name: str  # name of the operation
    # (name, size) of each input in order; the index of an `INPUT` node refers to their concatenation
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # (name, shape) of each output in order
    graph: Graph  # expression graph of the code
    results: tuple[Expr, ...]  # one expression per entry of the outputs, row by row
    # groups of input indices with unit norm: the sum of their squares must be one (quaternions)
    units: tuple[tuple[int, ...], ...]
    # (input index, lower bound, upper bound) of inputs that must lie in a range
    ranges: tuple[tuple[int, float, float], ...]
    order: tuple[int, ...]  # nodes in the order in which code is written
    fused: frozenset[int]  # products that are fused with a sum into one instruction
    operations: OperationCounts  # operation counts
    # tolerance of the sum of squares of the groups in `units`; None for the one of the element type
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


def differentiate(
    graph: Graph, results: Sequence[Expr], seeds: Mapping[int, Expr], constants: Sequence[Expr] = ()
) -> Vector:
    """Returns the derivatives of `results` in one direction.

    Args:
        graph: the graph.
        results: expressions to differentiate.
        seeds: rate of change of each input, by index; inputs not listed are constant.
        constants: expressions that do not change, whatever they depend on.
    """
    fixed = {x.ref >> 1 for x in constants}
    order, _ = live_nodes(graph, results)
    zero = graph.constant(0.0)
    rate: dict[int, Expr] = {}

    def value(ref: int) -> Expr:
        return Expr(graph, ref)

    def rate_of(ref: int) -> Expr:
        out = rate.get(ref >> 1, zero)
        return -out if ref & 1 else out

    for i in order:
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if i in fixed:
            continue
        if op == INPUT:
            if left in seeds:
                rate[i] = seeds[left]
        elif op == ADD:
            if left >> 1 in rate or right >> 1 in rate:
                rate[i] = rate_of(left) + rate_of(right)
        elif op == MUL:
            if left >> 1 in rate or right >> 1 in rate:
                rate[i] = rate_of(left) * value(right) + value(left) * rate_of(right)
        elif op == DIV:
            if left >> 1 in rate or right >> 1 in rate:
                rate[i] = (rate_of(left) - value(2 * i) * rate_of(right)) / value(right)
        elif op == SQRT:
            if left >> 1 in rate:
                rate[i] = rate_of(left) * (0.5 / value(2 * i))
        elif op in (SIN, COS) and left >> 1 in rate:
            s, c = graph.sin_cos(value(left & ~1), graph.value[i])
            rate[i] = c * rate_of(left & ~1) if op == SIN else -(s * rate_of(left & ~1))
    return [rate_of(r.ref) for r in results]


def pull_back(
    graph: Graph, results: Sequence[Expr], weights: Sequence[Expr], inputs: Sequence[Sequence[Expr]]
) -> list[Vector]:
    """Returns the gradient of ``sum(weights * results)`` by reverse-mode differentiation; weights are constant.

    The result has at most about four times the operations of `results`, however many inputs there are.

    Args:
        graph: the graph.
        results: expressions to differentiate.
        weights: weight of each result.
        inputs: groups of expressions, inputs or others, by which to differentiate.

    Returns:
        The gradient by each group.
    """
    order, _ = live_nodes(graph, results)
    gradient: dict[int, Expr] = {}

    def value(ref: int) -> Expr:
        return Expr(graph, ref)

    def add(ref: int, x: Expr) -> None:
        i, x = ref >> 1, -x if ref & 1 else x
        if graph.op[i] != CONST:
            gradient[i] = gradient[i] + x if i in gradient else x

    for result, weight in zip(results, weights, strict=True):
        add(result.ref, weight)
    for i in reversed(order):
        x = gradient.get(i, graph.zero)
        if x.is_zero:
            continue
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op == ADD:
            add(left, x)
            add(right, x)
        elif op == MUL:
            add(left, x * value(right))
            add(right, x * value(left))
        elif op == DIV:
            share = x / value(right)
            add(left, share)
            add(right, -(share * value(2 * i)))
        elif op == SQRT:
            add(left, x * (0.5 / value(2 * i)))
        elif op in (SIN, COS):
            s, c = graph.sin_cos(value(left), graph.value[i])
            add(left, x * c if op == SIN else -(x * s))
    return [[gradient.get(x.ref >> 1, graph.zero) * (-1.0 if x.ref & 1 else 1.0) for x in group] for group in inputs]
