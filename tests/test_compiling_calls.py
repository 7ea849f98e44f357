"""Arguments of compiled entries: wrong types are rejected by name, and no Python error stays pending."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.compiler import IntVector, Vector, entry, interpret, python_calls
from quaddyn.compiler import compilation_units as units_module
from quaddyn.compiler.compilation_units import CompilationUnit


class Numbers(NamedTuple):
    """Argument of `total`."""

    whole: int
    values: Vector
    indices: IntVector


@entry("a number more")
def successor(n: int) -> int:
    return n + 1


@entry("a sum over a record")
def total(numbers: Numbers, scale: float) -> float:
    out = scale * float(numbers.whole)
    for k in range(len(numbers.indices)):
        out += numbers.values[numbers.indices[k]]
    return out


class Factors(NamedTuple):
    """Second argument of `scaled`."""

    factor: float
    large: int
    on: bool
    numbers: Numbers


@entry("a product")
def scaled(x: Vector, factors: Factors, last: int) -> float:
    out = x[0] * factors.factor + float(factors.large) + (1.0 if factors.on else 0.0)
    return out + float(factors.numbers.whole) + factors.numbers.values[factors.numbers.indices[0]] + float(last)


@pytest.fixture(params=["builtin", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways in which Python calls machine code; entries are linked again."""
    monkeypatch.setattr(units_module, "has_expected_layout", lambda: request.param == "builtin")
    for each in CompilationUnit.of_module(__name__).entries:
        monkeypatch.setattr(each, "_call", None)
    yield request.param


def test_int_beyond_64_bits_is_rejected_without_a_pending_error(way: str) -> None:
    for n in (-(2**63), -1, 0, 2**63 - 2):
        assert successor(n) == n + 1
    for n in (2**63, -(2**63) - 1, 10**30):
        for _ in range(3):
            raises(qd.ArgumentTypeError, r"successor: n: expected an int of 64 bits", successor, n)
        assert successor(-1) == 0  # -1 is a valid result, not only an error code
        assert int("7") == 7


def test_records_are_read_and_checked_field_by_field(way: str) -> None:
    x = np.arange(5.0)
    assert total(Numbers(3, x, np.array([1, 4])), 2.0) == 11.0
    assert total(Numbers(-1, x, np.array([2])), 1.0) == 1.0
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("numbers.whole: expected an int of 64 bits", lambda: total(Numbers(2**64, x, np.array([1])), 1.0)),
        ("numbers.whole: expected int", lambda: total(Numbers(True, x, np.array([1])), 1.0)),
        ("numbers.indices", lambda: total(Numbers(1, x, x), 1.0)),
        ("numbers: expected Numbers", lambda: total((1, x, np.array([1])), 1.0)),  # type: ignore[arg-type]
        ("expected the arguments numbers, scale", lambda: total(Numbers(1, x, np.array([1])))),
    ]
    for words, call in wrong:
        raises(qd.ArgumentTypeError, words, call)


@pytest.mark.skipif(
    not units_module.has_expected_layout(), reason="an interpreter whose objects machine code cannot read"
)
def test_valid_arguments_are_not_checked_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Numbers(3, np.arange(5.0), np.array([1, 4]))
    for each in CompilationUnit.of_module(__name__).entries:
        monkeypatch.setattr(each, "_call", None)
    assert total(numbers, 2.0) == 11.0
    monkeypatch.setattr(units_module, "check_arguments", lambda *_: pytest.fail("looked at by Python"))
    assert total(numbers, 2.0) == 11.0 and successor(1) == 2
    assert scaled(np.ones(1), Factors(2.0, 3, True, numbers), 4) == 2.0 + 3.0 + 1.0 + 3.0 + 1.0 + 4.0


def test_bound_records_are_passed_once(way: str) -> None:
    x = np.arange(5.0)
    numbers = Numbers(3, x, np.array([1, 4]))
    call = total.bind(numbers)
    assert call(2.0) == total(numbers, 2.0) == 11.0
    x[4] = 10.0  # the array itself is read, not a copy
    numbers.indices[0] = 0
    assert call(-1.0) == total(numbers, -1.0) == 7.0
    for words, wrong in (
        ("scale: expected float", ("no",)),
        ("expected the arguments numbers, scale", ()),
        ("expected the arguments", (1.0, 2.0)),
    ):
        raises(qd.ArgumentTypeError, words, call, *wrong)
    for record in (Numbers(3, x[::2], np.array([1])), (3, x, np.array([1])), Numbers(2**63, x, np.array([1]))):
        raises(qd.ArgumentTypeError, "numbers", total.bind, record)
    raises(qd.ArgumentTypeError, "expected the arguments numbers, got 2", total.bind, numbers, numbers)
    with interpret():
        assert total.bind(numbers)(-1.0) == 7.0


def test_bound_records_stay_alive_and_cannot_be_resized() -> None:
    call = total.bind(Numbers(0, np.arange(1000.0), np.array([999])))
    np.ones(1000)  # would reuse the memory of the record if that had been freed
    assert call(0.0) == 999.0
    values = np.arange(5.0)
    numbers = Numbers(0, values, np.array([4]))
    del values
    call = total.bind(numbers)
    raises(ValueError, "resize", numbers.values.resize, 1 << 20)
    assert call(0.0) == 4.0


def test_bound_scalars_of_records_keep_their_bits(way: str) -> None:
    call = scaled.bind(Factors(-0.5, -(2**40), True, Numbers(-1, np.array([2.0]), np.array([0]))))
    assert call(np.array([3.0]), 4) == 3.0 * -0.5 - 2.0**40 + 1.0 - 1.0 + 2.0 + 4.0


def test_method_definitions_outlive_their_cache():
    """Builtin functions that are collected at the end of the process still read them."""
    method = weakref.ref(python_calls._method("a function", 0, 0, "of this test"))
    python_calls._method.cache_clear()
    gc.collect()
    assert method() is not None and method().name == b"a function"
