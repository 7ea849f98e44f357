"""Compiled functions as kernels with a lane a thread: the same code and packing on the CPU, and PTX that assembles.

The kernels have not run on a GPU.
"""

from __future__ import annotations

import math
import re
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_host import HostKernel, LaneHost
from raising import raises
from test_cuda import find_ptxas

from quaddyn.compiler import (
    ByteVector,
    IntVector,
    Matrix,
    Record,
    Vector,
    compiled,
    device_math,
    load8,
    machine,
    store8,
    sum8,
)
from quaddyn.compiler.kinds import FLOAT
from quaddyn.compiler.lane_kernels import lane_kernel, module_text
from quaddyn.compiler.lane_memory import LaneMemory, collect_arrays
from quaddyn.compiler.signatures import signature_of
from quaddyn.errors import ArgumentError, CompileError
from quaddyn.simulation.lanes import step_lane as step_lane_of_plant
from quaddyn.wbc.controller_lanes import compute_lane

TARGETS = ("sm_80", "sm_90", "sm_120")


class Counter(Record):
    """Sums of a lane."""

    total: float
    calls: int


class Workspace(NamedTuple):
    """Memory of a lane, of arrays of all types."""

    counter: Counter
    numbers: Vector
    square: Matrix
    steps: IntVector
    flags: ByteVector
    scale: float


class Rows(NamedTuple):
    """Results of all lanes."""

    angles: Matrix
    totals: Vector


@compiled(inline=False)
def fill(w: Workspace, x: Vector) -> float:
    """Fills the arrays of a lane and returns a sum of eight numbers."""
    for k in range(len(w.numbers)):
        w.numbers[k] = w.scale * x[k % 4] + k
        w.steps[k % 4] += k
        w.flags[k % 5] = k - 3
    w.square[1] = w.numbers[:3]
    row = w.square[1]
    row[2] = -1.0
    store8(load8(w.numbers, 1) * load8(w.numbers, 2), w.numbers, 1)
    return sum8(load8(w.numbers, 1))


@compiled(inline=False)
def step_lane(lane: int, w: Workspace, rows: Rows, x: Matrix) -> None:
    """Computes a step of a lane."""
    w.counter.total += fill(w, x[lane])
    w.counter.calls += 1
    rows.angles[lane, 0] = math.atan2(x[lane, 0], x[lane, 1])
    rows.angles[lane, 1] = math.copysign(math.sqrt(abs(x[lane, 2])), x[lane, 0])
    rows.totals[lane] = w.counter.total + w.square[1, 2] + w.flags[0] + w.steps[1]


@compiled(inline=False)
def add_inputs(lane: int, x: Vector, out: Matrix) -> None:
    """Adds the entries of x to those of a lane, and overwrites them."""
    for k in range(len(x)):
        out[lane, k] += x[k]
        x[k] = -1.0


@compiled(inline=False)
def call_exponential(lane: int, x: Vector) -> None:
    """Calls a function that GPUs do not have."""
    x[lane] = math.exp(x[lane])


@compiled(inline=False)
def return_number(lane: int, x: Vector) -> float:
    """Returns a number."""
    return x[lane]


def make_workspace() -> Workspace:
    counter = Counter.allocate()
    return Workspace(counter, np.zeros(11), np.zeros((2, 3)), np.zeros(4, np.int64), np.zeros(5, np.int8), 0.75)


@pytest.mark.parametrize("n", [1, 32, 45])
def test_lanes_equal_calls_with_separate_memory(n: int) -> None:
    rng = np.random.default_rng(n)
    rows, single, works = (
        Rows(np.zeros((n, 2)), np.zeros(n)),
        Rows(np.zeros((n, 2)), np.zeros(n)),
        [make_workspace() for _ in range(n)],
    )
    own = make_workspace()
    host = LaneHost(step_lane, {"w": own}, n)
    for _ in range(3):
        x = rng.integers(-9, 9, (n, 4)).astype(float)  # sums and products are exact in any order
        host.run(rows=rows, x=x)
        for lane, w in enumerate(works):
            step_lane(lane, w, single, x)
    assert rows.totals.tobytes() == single.totals.tobytes()
    np.testing.assert_allclose(rows.angles, single.angles, rtol=4e-16)
    kind = signature_of(step_lane)[0][1][1]
    for lane, w in enumerate(works):
        host.memory.load(lane)
        for a, b in zip(collect_arrays(own, kind), collect_arrays(w, kind), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_threads_compute_lanes_in_turn_from_the_inputs_of_each(blocks: int) -> None:
    n, size, x = 101, 5, np.zeros(5)
    kernel, inputs, out = (
        HostKernel(add_inputs),
        np.random.default_rng(0).normal(size=(4, size, 32)),
        np.zeros((n, size)),
    )
    memory = LaneMemory([x], [dict(kernel.parameters)["x"]], 32 * blocks)
    base = memory.words.ctypes.data
    (placed,) = memory.registers(base)
    arguments = [n, blocks, memory.block_bytes, size, inputs.ctypes.data, base + memory.first_byte(x), 0, *placed]
    for _ in range(2):
        kernel.launch(blocks, 32, 0, [*arguments, out.ctypes.data, n, size])
    assert np.array_equal(out, 2.0 * inputs.transpose(0, 2, 1).reshape(-1, size)[:n])


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 70), sizes=st.lists(st.integers(0, 7), min_size=3, max_size=3), seed=st.integers(0, 99))
def test_memory_of_lanes_keeps_views_and_other_lanes(n: int, sizes: list[int], seed: int) -> None:
    rng, kind = np.random.default_rng(seed), signature_of(step_lane)[0][1][1]
    base = np.zeros(1 + sum(sizes))
    w = Workspace(
        Counter.allocate(), base[: 1 + sizes[0]], base[: 2 * ((1 + sizes[0]) // 2)].reshape(2, -1),
        np.zeros(sizes[1], np.int64), np.zeros(sizes[2], np.int8), 1.0,
    )  # fmt: skip
    memory, given = LaneMemory([w], [kind], n), []
    assert memory.bytes_per_lane == 8 * (
        2 + 1 + sizes[0] + sizes[1] + -(-sizes[2] // 8)
    )  # the view is in the same memory
    for lane in range(n):
        base[:], w.steps[:] = rng.normal(size=len(base)), rng.integers(-9, 9, sizes[1])
        w.flags[:], w.counter.total = rng.integers(-128, 128, sizes[2]), rng.normal()
        memory.store(lane)
        given.append([x.copy() for x in collect_arrays(w, kind)])
    for lane in rng.permutation(n):
        memory.load(int(lane))
        assert all(np.array_equal(x, y) for x, y in zip(collect_arrays(w, kind), given[lane], strict=True))


def test_shared_arrays_stay_where_they_are_and_mixed_items_are_rejected() -> None:
    w, kind = make_workspace(), signature_of(step_lane)[0][1][1]
    memory = LaneMemory([w], [kind], 5, shared=[w.square])
    (registers,), base = memory.registers(4096), w.square.__array_interface__["data"][0]
    assert registers[4:7] == [base, 2, 3] and all(r >> 63 for r in (registers[0], registers[2], registers[7]))
    assert memory.bytes_per_lane == LaneMemory([w], [kind], 5).bytes_per_lane - w.square.nbytes
    mixed = w._replace(flags=w.numbers.view(np.int8))
    raises(ArgumentError, "values: arrays of different item sizes share memory", LaneMemory, [mixed], [kind], 1)


@settings(max_examples=300, deadline=None)
@given(y=st.floats(allow_nan=False, allow_infinity=False), x=st.floats(allow_nan=False, allow_infinity=False))
def test_arc_tangent_of_kernels_is_accurate(y: float, x: float) -> None:
    if max(abs(x), abs(y)) < 1e300 and (min(abs(x), abs(y)) > 1e-290 or 0.0 in (x, y)):
        expected = math.atan2(y, x)
        assert abs(device_math.atan2(y, x) - expected) <= 2.0 * math.ulp(expected)


@settings(max_examples=300, deadline=None)
@given(x=st.floats(-1e6, 1e6) | st.floats(-4.0, 4.0))
def test_sine_and_cosine_of_kernels_are_accurate(x: float) -> None:
    for got, want in ((device_math.sin(x), math.sin(x)), (device_math.cos(x), math.cos(x))):
        assert abs(got - want) <= 2.0 * max(math.ulp(want), 1e-19)
    assert math.isnan(device_math.sin(math.nan)) and math.isnan(device_math.cos(1e7))


def test_functions_without_kernel_are_rejected() -> None:
    raises(CompileError, "GPUs have no function exp", module_text, call_exponential, contract=True)
    raises(CompileError, "first parameter is an int and that returns nothing", lane_kernel, return_number)
    assert signature_of(return_number)[1] == FLOAT


def test_kernel_of_a_function_is_generated_and_cached() -> None:
    kernel = lane_kernel(step_lane)
    assert lane_kernel(step_lane).ptx == kernel.ptx and b".entry quaddyn_lanes" in kernel.ptx
    assert [name for name, _ in kernel.parameters] == ["w", "rows", "x"]
    assert kernel.record_words == 2 + 2 + 3 + 2 + 2 + 1 + 3 + 2


@pytest.mark.slow
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("function", [step_lane, compute_lane, step_lane_of_plant])
def test_ptx_is_compiled_for_three_generations(function: Any, tmp_path: Path) -> None:
    """Prints processor times, registers and spilled bytes; the tick of whole-body control takes 40 s each."""
    start = time.process_time()
    ptx = machine.generate_ptx(module_text(function, contract=True), optimize=False)
    row = [f"{function.__name__}: {time.process_time() - start:.1f} s, {len(ptx) / 1e6:.2f} MB of PTX"]
    (tmp_path / "kernel.ptx").write_bytes(ptx)
    for target in TARGETS:
        command = [find_ptxas(), "-v", f"-arch={target}", "kernel.ptx", "-o", "kernel.cubin"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        registers = re.search(r"Used (\d+) registers", done.stderr)[1]
        sizes = np.array(re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", done.stderr), dtype=int)
        stack, stores, loads = sizes.reshape(-1, 3).sum(axis=0)
        row.append(f"{target} {registers} registers, stack frames {stack} bytes, spilled {stores} and {loads} bytes")
    print("; ".join(row), flush=True)
