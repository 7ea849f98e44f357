"""Compiling: `jit` for what Python calls, `inner` for parts of it, `outlined` for parts that many others call.

Everything is cached on disk where a cache can be written (`CodeCache`); where none can, it is compiled again in every
process.
Importing this module imports numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import types
from numba.core.ccallback import CFunc
from numba.core.cgutils import get_or_insert_function
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from .code_cache import CodeCache

#: Sums in any order (they are vectorized), NaN and infinities as they are.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}

#: Arrays are borrowed: nothing is allocated, so no references are counted.
BORROWED: dict[str, Any] = {"_nrt": False}

#: For what Python never calls: half of a small function's code would be for reading its arguments.
UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_outlined: list[Any] = []

njit: Any = numba.njit


def jit(function: Callable[..., Any]) -> Any:
    """`function` compiled, to be called from Python and from compiled code."""
    return _cached(njit(**OPTIONS)(function), function)


def entry(function: Callable[..., Any]) -> Any:
    """`jit` for a function that allocates no array."""
    return _cached(njit(**OPTIONS, **BORROWED, no_cfunc_wrapper=True)(function), function)


def inner(function: Callable[..., Any]) -> Any:
    """`function` compiled as a part of every compiled function that calls it; it allocates no array."""
    return _cached(njit(**OPTIONS, **BORROWED, **UNWRAPPED)(function), function)


def placed(function: Callable[..., Any]) -> Any:
    """`function` tells numba what to put in its place."""
    return intrinsic(function)


@placed
def ahead(_context, F):  # type: ignore[no-untyped-def]
    """How many numbers of F lie before the first with which a line of the cache, 64 bytes, begins."""

    def count(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source, word = context.make_array(signature.args[0])(context, builder, values[0]), ir.IntType(64)
        beyond = builder.neg(builder.ptrtoint(source.data, word))
        return builder.udiv(builder.and_(beyond, ir.Constant(word, 63)), source.itemsize)

    return types.int64(F), count


@placed
def matrix(_context, F, at, rows, columns):  # type: ignore[no-untyped-def]
    """The (rows, columns) matrix that lies in F from `at` on, borrowed: numba's own ``reshape`` takes 40 ns."""
    kind = types.Array(F.dtype, 2, "C")
    return kind(F, types.int64, types.int64, types.int64), _carved(kind)


@placed
def matrices(_context, F, at, count, rows, columns):  # type: ignore[no-untyped-def]
    """(count, rows, columns) as `matrix`."""
    kind = types.Array(F.dtype, 3, "C")
    return kind(F, types.int64, types.int64, types.int64, types.int64), _carved(kind)


def _carved(kind: Any) -> Callable[..., Any]:
    def view(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source, out = (context.make_array(one) for one in (signature.args[0], kind))
        source, out = source(context, builder, values[0]), out(context, builder)
        strides = [source.itemsize]
        for size in reversed(values[3:]):
            strides.insert(0, builder.mul(strides[0], size))
        populate_array(  # type: ignore[no-untyped-call]
            out,
            data=builder.gep(source.data, [values[1]]),
            shape=values[2:],
            strides=strides,
            itemsize=source.itemsize,
            meminfo=source.meminfo,
        )
        return out._getvalue()

    return view


def outlined(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function once and on its own: compiled functions that call it jump to it.

    numba compiles what a function calls anew as a part of that function, which multiplies with the depth of calls.
    Outlined functions are linked by name instead, when their callers are compiled or loaded from the cache.  They are
    compiled when they are defined, allocate no array, and raise nothing.

    Args:
        signature: as numba writes it, such as ``"f8(i8, f8[::1])"``.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options = {k: v for k, v in (OPTIONS | BORROWED).items() if k != "nogil"}
        arguments, returned = normalize_signature(signature)  # type: ignore[no-untyped-call]
        native = _cached(CFunc(function, (arguments, returned), {}, options), function)
        native.compile()
        _outlined.append(native)  # its code must outlive every caller
        symbol = f"{function.__module__}.{function.__qualname__}"
        llvmlite.binding.add_symbol(symbol, native.address)
        declared = returned(*arguments)

        def jump(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            value = context.get_value_type
            kind = ir.FunctionType(value(returned), [value(argument) for argument in arguments])
            target = get_or_insert_function(builder.module, kind, symbol)  # type: ignore[no-untyped-call]
            return builder.call(target, values)

        def call(_context: Any, *given: Any) -> Any:
            return declared, jump

        names = ["_context", *inspect.signature(function).parameters]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        return intrinsic(call)

    return decorate


def _cached(compiler: Any, function: Callable[..., Any]) -> Any:
    """The `compiler` of a function, with a cache if there is a place to write one, and sources to compare."""
    with suppress(RuntimeError, OSError):
        compiler._cache = CodeCache(function)
    return compiler
