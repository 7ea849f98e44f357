"""Derivatives of a graph by forward-mode differentiation, one direction at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .factoring import live_nodes
from .graph import ADD, COS, DIV, INPUT, MUL, SIN, SQRT, Expr, Graph, Vector
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
