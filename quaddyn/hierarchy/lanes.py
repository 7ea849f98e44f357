"""Inner loops over rows that lie side by side, `WIDTH` at a time, as vector instructions without leftovers.

Compilers guard short loops over arrays: may they overlap, how many rounds are left over.  Over a few dozen rows the
guards cost more than the sums.  These loops promise instead that arrays do not overlap, and run on to the next multiple
of `WIDTH`: every column must have room for that many rows, and what lies beyond the last one is overwritten.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from .jit import placed as lane

WIDTH = 8

LANE, WORD = ir.DoubleType(), ir.IntType(64)
LANES = ir.VectorType(LANE, WIDTH)
NOTHING = ir.Constant(LANES, [0.0] * WIDTH)
FAST = ("reassoc", "contract")


def _data(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """Pointer to the first number of an array, and numbers from one of its columns to the next."""
    array = context.make_array(kind)(context, builder, value)
    if kind.ndim == 1:
        return array.data, None
    return array.data, builder.extract_value(array.shape, kind.ndim - 1)


def _splat(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(LANES, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _load(builder: Any, base: Any, at: Any) -> Any:
    where = builder.bitcast(builder.gep(base, [at]), LANES.as_pointer())
    return builder.load(where, align=8)


def _store(builder: Any, value: Any, base: Any, at: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(base, [at]), LANES.as_pointer()), align=8)


def _blocks(builder: Any, m: Any) -> Any:
    return builder.udiv(builder.add(m, ir.Constant(WORD, WIDTH - 1)), ir.Constant(WORD, WIDTH))


@contextmanager
def _along(builder: Any, m: Any) -> Iterator[Any]:
    """Code for where each of the blocks of m rows begins."""
    with cgutils.for_range(builder, _blocks(builder, m), intp=WORD) as block:
        yield builder.mul(block.index, ir.Constant(WORD, WIDTH))


def _accumulate(builder: Any, start: Any, count: Any, term: Any) -> Any:
    """``start + term(0) + term(1) + ...``, in a register."""
    total = cgutils.alloca_once_value(builder, start)  # type: ignore[no-untyped-call]
    with cgutils.for_range(builder, count, intp=WORD) as loop:
        f, x = term(loop.index)
        builder.store(builder.fadd(builder.load(total), builder.fmul(f, x, FAST), FAST), total)
    return builder.load(total)


def _term(builder: Any, factor: Any, matrix: Any, stride: Any, at: Any) -> Any:
    """Code for column c of a matrix: its factor, and its block from row `at` on."""

    def term(c: Any) -> tuple[Any, Any]:
        place = builder.add(builder.mul(c, stride), at)
        return _splat(builder, _number(builder, factor, c)), _load(builder, matrix, place)

    return term


def _dot(builder: Any, vector: Any, matrix: Any, first: Any, blocks: Any) -> Any:
    """Of a vector and the column of a matrix that begins at `first`."""

    def term(o: Any) -> tuple[Any, Any]:
        at = builder.mul(o, ir.Constant(WORD, WIDTH))
        return _load(builder, vector, at), _load(builder, matrix, builder.add(first, at))

    return _sum(builder, _accumulate(builder, NOTHING, blocks, term))


def _sum(builder: Any, sums: Any) -> Any:
    """Of the numbers of one vector."""
    name = f"llvm.vector.reduce.fadd.v{WIDTH}f64"
    adder = cgutils.get_or_insert_function(builder.module, ir.FunctionType(LANE, [LANE, LANES]), name)  # type: ignore[no-untyped-call]
    return builder.call(adder, [ir.Constant(LANE, 0.0), sums], fastmath=FAST)


def _mine(builder: Any, at: Any, m: Any) -> Any:
    """Which of the lanes from `at` on lie before m."""
    words = ir.VectorType(WORD, WIDTH)
    left = builder.insert_element(ir.Constant(words, ir.Undefined), builder.sub(m, at), ir.Constant(WORD, 0))
    left = builder.shuffle_vector(left, left, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))
    return builder.icmp_signed("<", ir.Constant(words, list(range(WIDTH))), left)


def _number(builder: Any, base: Any, at: Any) -> Any:
    return builder.load(builder.gep(base, [at]))


@lane
def blend(_context, out, start, f, M, n, m):  # type: ignore[no-untyped-def]
    """``out[:m] = start[:m] + sum_c f[c] M[c, :m]`` over n columns; `start` may be `out`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        begin, _ = _data(context, builder, signature.args[1], values[1])
        factor, _ = _data(context, builder, signature.args[2], values[2])
        matrix, stride = _data(context, builder, signature.args[3], values[3])
        with _along(builder, values[5]) as at:
            term = _term(builder, factor, matrix, stride, at)
            _store(builder, _accumulate(builder, _load(builder, begin, at), values[4], term), to, at)
        return context.get_dummy_value()

    return types.void(out, start, f, M, types.int64, types.int64), generate


@lane
def total(_context, out, f, M, n, m):  # type: ignore[no-untyped-def]
    """``out[:m] = sum_c f[c] M[c, :m]`` over n columns."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        factor, _ = _data(context, builder, signature.args[1], values[1])
        matrix, stride = _data(context, builder, signature.args[2], values[2])
        with _along(builder, values[4]) as at:
            term = _term(builder, factor, matrix, stride, at)
            _store(builder, _accumulate(builder, NOTHING, values[3], term), to, at)
        return context.get_dummy_value()

    return types.void(out, f, M, types.int64, types.int64), generate


@lane
def gather(_context, out, f, index, M, n, m):  # type: ignore[no-untyped-def]
    """``out[:m] = sum_c f[c] M[index[c], :m]`` over n columns of M."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        factor, _ = _data(context, builder, signature.args[1], values[1])
        where, _ = _data(context, builder, signature.args[2], values[2])
        matrix, stride = _data(context, builder, signature.args[3], values[3])
        with _along(builder, values[5]) as at:

            def term(c: Any) -> tuple[Any, Any]:
                place = builder.add(builder.mul(_number(builder, where, c), stride), at)
                return _splat(builder, _number(builder, factor, c)), _load(builder, matrix, place)

            _store(builder, _accumulate(builder, NOTHING, values[4], term), to, at)
        return context.get_dummy_value()

    return types.void(out, f, index, M, types.int64, types.int64), generate


@lane
def scaled(_context, out, source, f, m):  # type: ignore[no-untyped-def]
    """``out[:m] = f source[:m]``, and the sum of their squares; `source` may be `out`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        begin, _ = _data(context, builder, signature.args[1], values[1])
        factor, m = _splat(builder, values[2]), values[3]
        sums = cgutils.alloca_once_value(builder, NOTHING)  # type: ignore[no-untyped-call]
        with _along(builder, m) as at:
            x = builder.fmul(factor, _load(builder, begin, at), FAST)
            _store(builder, x, to, at)
            x = builder.select(_mine(builder, at, m), x, NOTHING)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(x, x, FAST), FAST), sums)
        return _sum(builder, builder.load(sums))

    return types.float64(out, source, types.float64, types.int64), generate


@lane
def tail(_context, out, source, k, m):  # type: ignore[no-untyped-def]
    """``out[k:m] = source[k:m]``, zeros before and beyond, and the sum of their squares."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        begin, _ = _data(context, builder, signature.args[1], values[1])
        k, m = values[2], values[3]
        sums = cgutils.alloca_once_value(builder, NOTHING)  # type: ignore[no-untyped-call]
        with _along(builder, m) as at:
            mine = builder.and_(_mine(builder, at, m), builder.not_(_mine(builder, at, k)))
            x = builder.select(mine, _load(builder, begin, at), NOTHING)
            _store(builder, x, to, at)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(x, x, FAST), FAST), sums)
        return _sum(builder, builder.load(sums))

    return types.float64(out, source, types.int64, types.int64), generate


@lane
def turn(_context, R, v, n, m):  # type: ignore[no-untyped-def]
    """``R[j, :m] -= 2 v[j] sum_c v[c] R[c, :m]`` over n columns: m rows reflected, v of length 1."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        matrix, stride = _data(context, builder, signature.args[0], values[0])
        factor, _ = _data(context, builder, signature.args[1], values[1])
        n, m = values[2], values[3]
        with _along(builder, m) as at:
            term = _term(builder, factor, matrix, stride, at)
            along = _accumulate(builder, NOTHING, n, term)
            twice = builder.fmul(along, ir.Constant(LANES, [-2.0] * WIDTH), FAST)
            with cgutils.for_range(builder, n, intp=WORD) as loop:
                place = builder.add(builder.mul(loop.index, stride), at)
                part = builder.fmul(_splat(builder, _number(builder, factor, loop.index)), twice, FAST)
                _store(builder, builder.fadd(_load(builder, matrix, place), part, FAST), matrix, place)
        return context.get_dummy_value()

    return types.void(R, v, types.int64, types.int64), generate


@lane
def clear(_context, out, m):  # type: ignore[no-untyped-def]
    """``out[:m] = 0``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        with _along(builder, values[1]) as at:
            _store(builder, NOTHING, to, at)
        return context.get_dummy_value()

    return types.void(out, types.int64), generate


@lane
def add(_context, out, f, x, m):  # type: ignore[no-untyped-def]
    """``out[:m] += f x[:m]``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        source, _ = _data(context, builder, signature.args[2], values[2])
        factor = _splat(builder, values[1])
        with _along(builder, values[3]) as at:
            part = builder.fmul(factor, _load(builder, source, at), FAST)
            _store(builder, builder.fadd(_load(builder, to, at), part, FAST), to, at)
        return context.get_dummy_value()

    return types.void(out, types.float64, x, types.int64), generate


@lane
def squares(_context, out, M, n, m):  # type: ignore[no-untyped-def]
    """``out[:m] = sum_c M[c, :m]^2`` over n columns."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        matrix, stride = _data(context, builder, signature.args[1], values[1])
        with _along(builder, values[3]) as at:

            def term(c: Any) -> tuple[Any, Any]:
                x = _load(builder, matrix, builder.add(builder.mul(c, stride), at))
                return x, x

            _store(builder, _accumulate(builder, NOTHING, values[2], term), to, at)
        return context.get_dummy_value()

    return types.void(out, M, types.int64, types.int64), generate


@lane
def copied(_context, out, M, n, m):  # type: ignore[no-untyped-def]
    """``out[c, :m] = M[c, :m]`` for n columns."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, step = _data(context, builder, signature.args[0], values[0])
        matrix, stride = _data(context, builder, signature.args[1], values[1])
        with cgutils.for_range(builder, values[2], intp=WORD) as loop:
            source, target = builder.mul(loop.index, stride), builder.mul(loop.index, step)
            with _along(builder, values[3]) as at:
                _store(builder, _load(builder, matrix, builder.add(source, at)), to, builder.add(target, at))
        return context.get_dummy_value()

    return types.void(out, M, types.int64, types.int64), generate


@lane
def dots(_context, out, M, v, n, m):  # type: ignore[no-untyped-def]
    """``out[c] = v[:m] . M[c, :m]`` for n columns."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, _ = _data(context, builder, signature.args[0], values[0])
        matrix, stride = _data(context, builder, signature.args[1], values[1])
        vector, _ = _data(context, builder, signature.args[2], values[2])
        m = values[4]
        with cgutils.for_range(builder, values[3], intp=WORD) as loop:
            first = builder.mul(loop.index, stride)

            def term(o: Any) -> tuple[Any, Any]:
                at = builder.mul(o, ir.Constant(WORD, WIDTH))
                f, x = _load(builder, vector, at), _load(builder, matrix, builder.add(first, at))
                mine = _mine(builder, at, m)
                return builder.select(mine, f, NOTHING), builder.select(mine, x, NOTHING)

            sums = _accumulate(builder, NOTHING, _blocks(builder, m), term)
            builder.store(_sum(builder, sums), builder.gep(to, [loop.index]))
        return context.get_dummy_value()

    return types.void(out, M, v, types.int64, types.int64), generate


@lane
def mirror(_context, T, u, half, n, m):  # type: ignore[no-untyped-def]
    """``T[j, :m] -= half u (u . T[j, :m])`` for n columns: columns reflected; u is zero beyond its m entries."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        matrix, stride = _data(context, builder, signature.args[0], values[0])
        normal, _ = _data(context, builder, signature.args[1], values[1])
        half, n, m = values[2], values[3], values[4]
        blocks = _blocks(builder, m)
        with cgutils.for_range(builder, n, intp=WORD) as loop:
            first = builder.mul(loop.index, stride)
            dot = _dot(builder, normal, matrix, first, blocks)
            share = _splat(builder, builder.fneg(builder.fmul(dot, half, FAST)))
            with _along(builder, m) as at:
                place = builder.add(first, at)
                part = builder.fmul(share, _load(builder, normal, at), FAST)
                _store(builder, builder.fadd(_load(builder, matrix, place), part, FAST), matrix, place)
        return context.get_dummy_value()

    return types.void(T, u, types.float64, types.int64, types.int64), generate
