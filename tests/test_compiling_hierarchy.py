"""The hierarchy solver as C99: no warnings, no findings of sanitizers, and the same bits as machine code."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import compiling_c as c
import hierarchy_problems as hp
import numpy as np
import pytest
from slow_parameters import others_slow

from quaddyn.compiler import interpret
from quaddyn.compiler.c99 import c_source
from quaddyn.compiler.c99_types import identifier
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.compiler.signatures import symbol_name
from quaddyn.hierarchy import HierarchySolver, core, solver
from quaddyn.hierarchy.workspace import LevelBuffers, SolutionBuffers

COUNT = 40 if "QUADDYN_SLOW" in os.environ else 3
UNIT = CompilationUnit.of_module(core.__name__)
NAME = "solve_weighted_levels"

pytestmark = pytest.mark.skipif(c.COMPILER is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def calls():
    """Calls with random problems of every kind, cold, warm and damped."""
    recorded, real = [], getattr(core, NAME)

    def record(*arguments):
        recorded.append(tuple(map(c.copied, arguments)))
        return real(*arguments)

    def bind(rows, problem, settings, solution, work):
        return lambda *guess: record(rows, problem, settings, *guess, solution, work)

    record.bind = bind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, NAME, record)
        for kind in hp.KINDS:
            rng = np.random.default_rng([91, hp.KINDS.index(kind)])
            for i in range(COUNT):
                levels = hp.problem(kind, rng)
                one = HierarchySolver(levels[0].n, [(len(level.A), len(level.C)) for level in levels])
                one.load(levels)
                one.solve(damping=0.2 if i % 3 == 2 else 0.0)
                for to in one.levels:
                    to.b[...] += 0.01 * rng.normal(size=to.b.shape)
                one.solve()
    assert len(recorded) >= 2 * COUNT * len(hp.KINDS)
    return recorded


@pytest.fixture(scope="module")
def plain(calls):
    function = UNIT.compile_uncached(contract=False)[NAME]
    return [solve_outputs(function, each) for each in calls]


def solve_outputs(function, arguments):
    """Outputs of a solve: whether it is verified, x, working sets, multipliers and all other buffers."""
    given = tuple(map(c.copied, arguments))
    verified = function(*given)
    *arrays, summary = next(x for x in given if isinstance(x, SolutionBuffers))
    return [np.array(verified), *arrays, *map(np.asarray, tuple(summary))]


def same(found, expected):
    return all(np.array_equal(a, b, equal_nan=a.dtype == np.float64) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("level", others_slow(["-O0", "-O2", "-O3"], {"-O0"}))
def test_c_has_the_bits_of_uncontracted_machine_code(calls, plain, tmp_path, level):
    function = c.from_c(UNIT.entries, tmp_path, "hierarchy", level, "-ffp-contract=off")[NAME]
    for arguments, expected in zip(calls, plain, strict=True):
        assert same(solve_outputs(function, arguments), expected)


@pytest.mark.slow
def test_c_for_this_processor_agrees_to_roundoff(calls, plain, tmp_path):
    """With fused products, x agrees to roundoff if the problem determines it."""
    function = c.from_c(UNIT.entries, tmp_path, "hierarchy", "-O2", "-march=native", "-ffp-contract=fast")[NAME]
    close = 0
    for arguments, expected in zip(calls, plain, strict=True):
        x, y = solve_outputs(function, arguments)[1], expected[1]
        close += bool(np.abs(x - y).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(y).max(initial=0.0)))
    assert close >= 0.98 * len(calls)


def test_python_has_the_bits_of_uncontracted_machine_code(calls, plain):
    function = getattr(core, NAME).python
    for arguments, expected in list(zip(calls, plain, strict=True))[::9]:
        with interpret():
            assert same(solve_outputs(function, arguments), expected)


@pytest.mark.slow
def test_sanitizers_report_no_error(calls, plain, tmp_path):
    runtime = [sanitizer(name) for name in ("libasan.so", "libubsan.so")]
    if not all(runtime):
        pytest.skip("there are no sanitizers")
    files = c_source(UNIT.entries, "hierarchy")
    library = c.compile_c(
        tmp_path, "hierarchy", files.source, files.header, "-O1", "-g", "-ffp-contract=off",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    )  # fmt: skip
    path = tmp_path / "calls"

    def run(what):
        path.write_bytes(pickle.dumps(what))
        environment = {**os.environ, "LD_PRELOAD": " ".join(runtime), "ASAN_OPTIONS": "detect_leaks=0"}
        program = str(Path(__file__).with_name("compiling_sanitized.py"))
        command = [sys.executable, program, str(library), identifier(symbol_name(getattr(core, NAME))), str(path)]
        return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")

    rows = next(k for k, x in enumerate(calls[0]) if isinstance(x, LevelBuffers))
    short = [x._replace(lower=x.lower[:-1]) if k == rows else x for k, x in enumerate(calls[0])]
    short = [x._replace(lower=x.lower[:-1]) if hasattr(x, "C_start") else x for x in short]
    assert "heap-buffer-overflow" in run([records_as_lists(short)]).stderr
    found = run([records_as_lists(each) for each in calls])
    assert found.returncode == 0, found.stderr[:4000]
    k = next(k for k, x in enumerate(calls[0]) if isinstance(x, SolutionBuffers))
    start, count = len(c.arrays_in(tuple(calls[0][:k]))), len(c.arrays_in(calls[0][k]))
    for arrays, expected in zip(pickle.loads(path.read_bytes()), plain, strict=True):
        assert same(arrays[start : start + count], expected[1 : 1 + count])


def records_as_lists(x):
    """Arguments with records converted to lists."""
    return [records_as_lists(each) for each in x] if isinstance(x, tuple | list) else x


def sanitizer(name):
    out = subprocess.run([c.COMPILER, f"-print-file-name={name}"], capture_output=True, encoding="utf-8").stdout.strip()
    return out if Path(out).is_absolute() else ""
