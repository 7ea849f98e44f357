"""Restricted Python gives the same bits in Python, as machine code and as C99, if products are not fused."""

import math
import os

import compiling_c as c
import compiling_zoo as zoo
import numpy as np
import pytest

from quaddyn.compiler import interpret
from quaddyn.compiler.compilation_units import CompilationUnit

COUNT = 10_000 if "QUADDYN_SLOW" in os.environ else 200
UNIT = CompilationUnit.of_module(zoo.__name__)


@pytest.fixture(scope="module")
def plain():
    return UNIT.compile_uncached(contract=False)


@pytest.fixture(scope="module")
def through_ctypes():
    return UNIT.compile_uncached(contract=False, builtin=False)


@pytest.fixture(scope="module")
def fused():
    return UNIT.compile_uncached()


@pytest.fixture(scope="module")
def as_c(tmp_path_factory):
    if c.COMPILER is None:
        pytest.skip("there is no C compiler")
    return c.from_c(UNIT.entries, tmp_path_factory.mktemp("zoo"), "zoo", "-O2", "-ffp-contract=off")


def test_every_entry_of_the_zoo_is_tested():
    assert {each.__name__ for each in UNIT.entries} == set(zoo.CASES)


def random_arguments(name, count):
    rng = np.random.default_rng([len(name), *name.encode()])
    for _ in range(count):
        yield zoo.CASES[name][1](rng)


def outcome(function, arguments):
    """Return value of a function, and its arrays after the call."""
    given = c.copied(arguments)
    return function(*given), c.arrays_in(given)


def as_python(name, arguments):
    """The same in Python; None if Python raises an arithmetic error."""
    function = zoo.CASES[name][0].python
    with interpret():
        try:
            found, arrays = outcome(function, arguments)
        except (ZeroDivisionError, OverflowError, ValueError):
            return None
    return found, arrays


def same(a, b, tolerance=0.0):
    """Whether two outcomes are equal; all NaN are equal, and integers are compared modulo 2**64."""
    (x, left), (y, right) = a, b
    if isinstance(x, float):
        fine = _close(np.array(x), np.array(float(y)), tolerance)
    else:
        fine = (int(x) - int(y)) % 2**64 == 0
    return fine and all(_close(p, q, tolerance) for p, q in zip(left, right, strict=True))


def _close(x, y, tolerance):
    if x.dtype != np.float64:
        return np.array_equal(x, y)
    known = ~(np.isnan(x) & np.isnan(y))
    if tolerance == 0.0:
        return x[known].tobytes() == y[known].tobytes()
    return np.allclose(x[known], y[known], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", list(zoo.CASES))
def test_python_and_machine_code_agree_bit_for_bit(name, plain):
    for arguments in random_arguments(name, COUNT):
        expected = as_python(name, arguments)
        if expected is None or (name in ("to_int", "to_floor") and abs(expected[0]) >= 2**63):
            continue
        if name == "cache_lines":  # copies have other addresses
            assert plain[name](*arguments) == zoo.CASES[name][0].python(*arguments)
            continue
        found = outcome(plain[name], arguments)
        assert same(found, expected), (arguments, found, expected)


@pytest.mark.parametrize("name", [each for each in zoo.CASES if each != "cache_lines"])
def test_c_and_machine_code_agree_bit_for_bit(name, plain, as_c):
    for arguments in random_arguments(name, COUNT):
        found, expected = outcome(as_c[name], arguments), outcome(plain[name], arguments)
        assert same(found, expected), (arguments, found, expected)


@pytest.mark.parametrize("name", [each for each in zoo.CASES if each != "cache_lines"])
def test_ctypes_and_builtin_functions_agree_bit_for_bit(name, plain, through_ctypes):
    for arguments in random_arguments(name, 25):
        found, expected = outcome(through_ctypes[name], arguments), outcome(plain[name], arguments)
        assert type(found[0]) is type(expected[0])
        assert same(found, expected)


# The others have cancellation, or infinities that depend on rounding.
TAME = [each for each in zoo.CASES if each not in ("cache_lines", "arithmetic", "small_vectors", "small_matrices")]


@pytest.mark.parametrize("name", TAME)
def test_fused_products_change_no_more_than_roundoff(name, plain, fused):
    for arguments in random_arguments(name, COUNT):
        found, expected = outcome(fused[name], arguments), outcome(plain[name], arguments)
        assert same(found, expected, 1e-13), (arguments, found, expected)


def test_fused_arithmetic_error_is_bounded_by_its_terms(plain, fused):
    for arguments in random_arguments("arithmetic", COUNT):
        if all(abs(x) < 1e6 for x in arguments):
            size = (1.0 + max(map(abs, arguments))) ** 3
            assert abs(fused["arithmetic"](*arguments) - plain["arithmetic"](*arguments)) <= 1e-14 * size


def test_float_to_int_conversion_saturates(plain, as_c):
    for call in (plain, as_c):
        assert call["to_int"](math.nan) == call["to_floor"](math.nan) == 0
        assert call["to_int"](math.inf) == call["to_int"](2.0**63) == call["to_floor"](1e300) == 2**63 - 1
        assert call["to_int"](-math.inf) == call["to_int"](-(2.0**63)) == call["to_floor"](-1e300) == -(2**63)
        assert call["to_int"](2.0**63 - 1024.0) == 2**63 - 1024
        assert call["to_int"](-1.9) == -1 and call["to_floor"](-1.1) == -2


def test_floor_division_of_the_smallest_int_is_exact(plain, as_c):
    for call in (plain, as_c):
        n = -(2**63)
        expected = n // 7 + n // 1 - n // 8 + n // 1000003
        assert (call["floor_division"](n) - expected) % 2**64 == 0


def test_cached_entry_agrees_with_its_unit(monkeypatch, tmp_path, plain):
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path))
    for arguments in random_arguments("records", 20):
        assert math.isclose(zoo.records(*arguments), plain["records"](*arguments), rel_tol=1e-12, abs_tol=1e-12)
