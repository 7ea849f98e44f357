"""Code that cannot be compiled and arguments of the wrong type are rejected by name."""

import inspect
import re
from pathlib import Path

import compiling_refused as refused
import compiling_zoo as zoo
import numpy as np
import pytest

from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.compiler.function_translator import collect_functions
from quaddyn.compiler.signatures import options_of
from quaddyn.errors import ArgumentTypeError, CompileError

SOURCE = Path(refused.__file__).read_text(encoding="utf-8").splitlines()
FINE = ("helper", "two", "first", "second", "same_name", "calls_twins")
OWN = {n: inspect.unwrap(f) for n, f in vars(refused).items() if options_of(f)}
REFUSED = [n for n, f in OWN.items() if f.__module__ == refused.__name__ and n not in FINE]


def expected(name):
    """The line and the text that the error must contain."""
    lines, start = inspect.getsourcelines(inspect.unwrap(getattr(refused, name)))
    if name in refused.AT_THE_TOP:
        return start, refused.AT_THE_TOP[name]
    marked = [(start + k, line) for k, line in enumerate(lines) if "#!" in line]
    assert len(marked) == 1
    return marked[0][0], marked[0][1].partition("#!")[2].partition("  # noqa")[0].strip()


@pytest.mark.parametrize("name", REFUSED)
def test_compile_error_names_file_line_and_remedy(name):
    target = getattr(refused, name)
    line, words = expected(name)
    with pytest.raises(CompileError) as error:
        if name in ("returns_a_tuple", "takes_lanes"):
            CompilationUnit.of_module(refused.__name__).wrapper(target)
        else:
            collect_functions([target])
    assert str(error.value).startswith(f"{refused.__file__}:{line}: {name}: ")
    assert words in str(error.value)


def test_every_expected_message_belongs_to_a_function():
    assert sum("  #! " in line for line in SOURCE) + len(refused.AT_THE_TOP) == len(REFUSED)


def test_two_functions_of_one_name_are_rejected():
    with pytest.raises(CompileError, match=r"two functions have the name compiling_refused\.same_name"):
        collect_functions([refused.calls_twins])


def test_symbol_names_contain_the_subpackage():
    from quaddyn.compiler.signatures import symbol_name
    from quaddyn.hierarchy import level_solver, workspace

    assert symbol_name(workspace.is_verified) == "hierarchy.workspace.is_verified"
    assert symbol_name(level_solver.solve_remaining_levels) == "hierarchy.level_solver.solve_remaining_levels"


def test_lambda_is_rejected():
    from quaddyn.compiler import compiled

    with pytest.raises(CompileError, match="only functions that are defined by 'def'"):
        collect_functions([compiled()(_annotated(lambda a: a))])


def _annotated(function):
    function.__annotations__ = {"a": float, "return": float}
    return function


# -- arguments -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=[True, False], ids=["builtin", "ctypes"])
def entries(request):
    return CompilationUnit.of_module(zoo.__name__).compile_uncached(builtin=request.param)


def arguments_of(name):
    return zoo.CASES[name][1](np.random.default_rng(3))


X = np.zeros(7)
WRONG = [
    ("indexing", 0, [0.0] * 7, "x: expected a C-contiguous array of float64 of rank 1, got list"),
    ("indexing", 0, X.astype(np.float32), "x: expected a C-contiguous array of float64 of rank 1, got float32"),
    ("indexing", 0, X.astype(">f8"), "x: expected a C-contiguous array of float64 of rank 1, got >f8"),
    ("indexing", 0, np.zeros(14)[::2], "x: .*not contiguous"),
    ("indexing", 0, np.zeros(57, dtype=np.uint8)[1:].view(np.float64), "x: expected .* got float64 of shape"),
    ("indexing", 0, np.zeros((7, 1)), r"x: .*got float64 of shape \(7, 1\)"),
    ("indexing", 0, None, "x: .*got NoneType"),
    ("indexing", 0, X.view(np.recarray), "x: .*got recarray"),
    ("indexing", 1, np.zeros((4, 3)).T, r"M: .*got float64 of shape \(3, 4\), not contiguous"),
    ("indexing", 3, np.zeros(5), "N: expected a C-contiguous array of int64 of rank 1, got float64"),
    ("indexing", 3, np.zeros(5, dtype=np.int32), "N: .*got int32"),
    ("indexing", 4, 1.0, "i: expected int, got float"),
    ("indexing", 4, True, "i: expected int, got bool"),
    ("indexing", 4, np.int64(1), "i: expected int, got int64"),
    ("indexing", 4, "1", "i: expected int, got str"),
    ("wrap", 1, 2**63, "b: expected an int of 64 bits, got 9223372036854775808"),
    ("wrap", 0, -(10**40), "a: expected an int of 64 bits"),
    ("relations", 0, 1, "a: expected float, got int"),
    ("relations", 1, np.float64(1.0), "b: expected float, got float64"),
    ("conversions", 3, 1, "flag: expected bool, got int"),
    ("records", 0, (1, 2), "r: expected Outer, got tuple"),
    ("records", 0, arguments_of("records")[0]._replace(count=1.5), r"r\.count: expected int, got float"),
    ("records", 0, arguments_of("records")[0]._replace(first=None), r"r\.first: expected Inner, got NoneType"),
    ("records", 1, arguments_of("records")[1]._replace(row=X.reshape(7, 1)), r"i\.row: .*of rank 1, got float64"),
    ("records", 1, arguments_of("records")[1]._replace(flag=0), r"i\.flag: expected bool, got int"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "k", "wrong", "words"), WRONG)
def test_arguments_of_wrong_type_are_rejected_by_name(entries, name, k, wrong, words):
    given = list(arguments_of(name))
    given[k] = wrong
    with pytest.raises(ArgumentTypeError, match=f"^{name}: {words}"):
        entries[name](*given)
    entries[name](*arguments_of(name))  # valid arguments are accepted after the error


@pytest.mark.parametrize("count", [0, 1, 4])
def test_wrong_number_of_arguments_is_rejected(entries, count):
    words = f"wrap: expected the arguments a, b, c, got {count} arguments"
    with pytest.raises(ArgumentTypeError, match=re.escape(words)):
        entries["wrap"](*range(count))


def test_keyword_arguments_are_rejected(entries):
    with pytest.raises(TypeError):
        entries["wrap"](a=1, b=2, c=3)


def test_extreme_ints_are_accepted(entries):
    assert entries["wrap"](-1, 1, 0) == zoo.wrap.python(-1, 1, 0)
    assert entries["remainder"](-(2**63)) == zoo.remainder.python(-(2**63))
    assert entries["remainder"](2**63 - 1) == zoo.remainder.python(2**63 - 1)


def test_equivalent_dtype_objects_are_accepted(entries):
    x = np.zeros(3, dtype=np.longlong)
    assert x.dtype == np.int64
    given = list(arguments_of("bytes_and_ints"))
    given[1] = given[1].astype(np.longlong)
    entries["bytes_and_ints"](*given)
    marked = np.zeros(4, dtype=np.dtype(np.float64, metadata={"unit": "m"}))
    entries["local_arrays"](marked, np.zeros((2, 3), dtype=np.int64))


def test_empty_arrays_are_accepted(entries):
    for name in ("cache_lines",):
        entries[name](np.zeros(0), 0)


def test_many_calls_do_not_change_reference_counts(entries):
    import sys

    x = np.zeros(3)
    call, before = entries["not_a_number"], (sys.getrefcount(x), sys.getrefcount(float))
    for _ in range(1000):
        call(1.0, x)
    assert (sys.getrefcount(x), sys.getrefcount(float)) == before
