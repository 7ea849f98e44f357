"""Derivatives of a graph: by forward-mode differentiation in one direction, and the gradient by reverse mode.

Source: Griewank and Walther, *Evaluating Derivatives*, 2008, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .graph import ADD, CONST, COS, DIV, INPUT, MUL, SIN, SQRT, Expr, Graph, Vector, live_nodes
from .mechanism import COORDINATE_COUNTS, ROTATING_KINDS, Mechanism


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


def configuration_rates(graph: Graph, mechanism: Mechanism, q: Sequence[Expr]) -> list[dict[int, Expr]]:
    """Returns, per entry of v, the rates of the entries of q: ``d integrate(q, t e_k) / dt`` at 0."""
    one = graph.constant(1.0)
    out: list[dict[int, Expr]] = [{} for _ in range(mechanism.nv)]
    for link in mechanism.links:
        if COORDINATE_COUNTS[link.kind] == (1, 1):
            out[link.v] = {link.q: one}
        elif link.kind in ROTATING_KINDS:
            c, s = q[link.q], q[link.q + 1]
            out[link.v] = {link.q: -s, link.q + 1: c}
        elif link.kind == "planar":
            c, s = q[link.q + 2], q[link.q + 3]
            out[link.v] = {link.q: c, link.q + 1: s}
            out[link.v + 1] = {link.q: -s, link.q + 1: c}
            out[link.v + 2] = {link.q + 2: -s, link.q + 3: c}
        else:
            _floating_joint_rates(q, link.q, link.v, out)
    return out


def _floating_joint_rates(q: Sequence[Expr], first: int, v: int, out: list[dict[int, Expr]]) -> None:
    from .rnea import quaternion_matrix

    x, y, z, w = (0.5 * k for k in q[first + 3 : first + 7])
    R = quaternion_matrix(q[first + 3 : first + 7])
    for k in range(3):
        out[v + k] = {first + row: R[row][k] for row in range(3)}
    quaternion_entries = range(first + 3, first + 7)
    # Half the product of the quaternion with i, j and k.
    for k, rates in enumerate(((w, z, -y, -x), (-z, w, x, -y), (y, -x, w, -z))):
        out[v + 3 + k] = dict(zip(quaternion_entries, rates, strict=True))
