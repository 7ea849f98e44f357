"""Operations on a GPU: the PTX runs in a stand-in for NVIDIA's driver library, which interprets it on the CPU.

Every figure is compared with the kernel for the CPU, bit by bit.  `stand_in_cuda.c` is not a GPU: it has no cache, no
scheduler and no compiler; `ptxas`, where it is installed, is NVIDIA's compiler of PTX.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiling_c import COMPILER
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_robots import knee_leg
from raising import raises
from slow_parameters import others_slow
from test_mimic import machine

import quaddyn as qd
from quaddyn.compiler.machine import generate_ptx
from quaddyn.cuda import CudaArray, CudaError, arrays, driver, to_device
from quaddyn.errors import ArgumentError, ArgumentTypeError
from quaddyn.kernels.cuda_kernels import LAYOUTS, ptx_module
from quaddyn.kernels.differentiable import DifferentiableOperation
from quaddyn.kernels.operations import OPERATIONS, KernelOptions, trace_operation

ROBOTS: dict[str, Callable[[], qd.Robot]] = {
    **{
        name: lambda name=name: qd.load(name)
        for name in ("go2", "solo12", "anymal_c", "hyq", "b1_z1", "panda", "ur5", "double_pendulum_continuous")
    },
    "loop": lambda: qd.load(knee_leg()),
    "mimic": lambda: qd.load(machine()),
}
QUICK = [("double_pendulum_continuous", name) for name in OPERATIONS]
QUICK += [("go2", "rnea"), ("go2", "crba"), ("loop", "aba"), ("mimic", "rnea_derivatives")]
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The stand-in as a library, compiled once."""
    out = tmp_path_factory.mktemp("cuda") / "stand_in.so"
    source = Path(__file__).with_name("stand_in_cuda.c")
    command = [COMPILER, "-std=gnu99", "-O2", "-Wall", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*map(str, command), "-o", str(out), str(source), "-lm"], check=True)
    return out


@pytest.fixture(autouse=True)
def library(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in in the place of the driver, with its usual settings."""
    monkeypatch.setattr(driver, "LIBRARIES", [str(stand_in)])
    monkeypatch.setattr(driver, "_devices", {})
    driver.driver.cache_clear()
    library = ctypes.CDLL(str(stand_in))
    library.stand_in_get.restype = ctypes.c_long
    usual = {"driver_version": 12040, "devices": 2, "major": 9, "minor": 0, "memory": 1 << 30, "ptx_version": 80}
    for name, value in usual.items():
        put(library, name, value)
    yield library
    driver.driver.cache_clear()


def put(library: Any, name: str, value: int) -> None:
    library.stand_in_set(name.encode(), ctypes.c_long(value))


def get(library: Any, name: str) -> int:
    return int(library.stand_in_get(name.encode()))


def states(robot: qd.Robot, n: int, dtype: Any = np.float64, seed: int = 0) -> dict[str, np.ndarray]:
    """Arguments of all operations: n configurations, velocities, and accelerations or torques."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(seed=k) for k in range(n)]).reshape(n, robot.nq)
    v, x = rng.normal(size=(2, n, robot.nv))
    return {"q": q.astype(dtype), "v": v.astype(dtype), "a": x.astype(dtype), "tau": x.astype(dtype)}


def arranged(x: np.ndarray, layout: str) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 0, -1)) if layout == "columns" else x


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


# -- results ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "what"), others_slow([(r, o) for r in ROBOTS for o in OPERATIONS], QUICK))
def test_results_equal_those_of_the_cpu(name: str, what: str) -> None:
    robot = ROBOTS[name]()
    n = 33 if len(robot.bodies) > 4 else 70
    for dtype in (np.float64, np.float32):
        given = states(robot, n, dtype)
        arguments = [given[key] for key in OPERATIONS[what].arguments]
        frame = [robot.frame_names[-1]] if OPERATIONS[what].needs_frame else []
        options = {"dtype": dtype, "frames": frame}
        want = as_tuple(getattr(qd.compile(robot, what, **options), what)(*arguments, *frame))
        for layout in LAYOUTS:
            fast = qd.compile(robot, what, device="cuda", layout=layout, **options)
            got = getattr(fast, what)(*[to_device(arranged(x, layout)) for x in arguments], *frame)
            for x, y in zip(want, as_tuple(got), strict=True):
                assert np.array_equal(arranged(x, layout), y.to_numpy()), (dtype, layout)


@settings(max_examples=20)
@given(
    n=st.integers(0, 70),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    padding=st.integers(0, 3),
    per_state=st.booleans(),
)
def test_strides_parameters_and_borders_of_batches(
    n: int, layout: str, dtype: Any, padding: int, per_state: bool
) -> None:
    """Arguments and results are parts of larger arrays, of which nothing else is written."""
    robot = ROBOTS["ur5"]()
    options: Any = {"parameters": "runtime", "friction": True, "forces": ["tool0"], "dtype": dtype}
    cpu = qd.compile(robot, "rnea", **options)
    fast = qd.compile(robot, "rnea", device="cuda", layout=layout, **options)
    rng, given = np.random.default_rng(n), states(robot, n, dtype)
    parameters = (cpu.parameters * rng.uniform(0.5, 1.5, (n, len(cpu.parameters)))).astype(dtype)
    fext = rng.normal(size=(n, 6) if per_state else 6).astype(dtype)
    arguments = [given["q"], given["v"], given["a"], fext]
    want = cpu.rnea(*arguments, *([parameters] if per_state else []))

    def inner(x: np.ndarray) -> Any:
        """An array in the memory of the GPU, as part of a larger one."""
        x = arranged(x, layout) if x.ndim == 2 else x
        larger = np.full((*x.shape[:-1], x.shape[-1] + (padding if x.ndim == 2 else 0)), 7.0, dtype)
        larger[..., : x.shape[-1]] = x
        return Part(to_device(larger), x.shape)

    out = inner(np.zeros((n, robot.nv), dtype))
    parts = [inner(x) for x in arguments]
    assert fast.rnea(*parts, **({"parameters": inner(parameters)} if per_state else {}), out=out) is out
    whole = out.base.to_numpy()
    shape = arranged(want, layout).shape
    assert np.array_equal(whole[..., : shape[-1]], arranged(want, layout))
    assert (whole[..., shape[-1] :] == 7.0).all()


class Part:
    """First entries of the last axis of a `CudaArray`, with the array interface of version 2."""

    def __init__(self, base: CudaArray, shape: tuple[int, ...], *, read_only: bool = False) -> None:
        self.base, strides = base, arrays.contiguous_strides(base.shape, base.dtype.itemsize)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": base.dtype.str,
            "data": (base.address, read_only),
            "strides": strides,
            "version": 2,
        }


def test_invalid_states_have_nan_and_do_not_affect_others() -> None:
    robot = ROBOTS["go2"]()
    given = states(robot, 40)
    want = qd.compile(robot, "crba").crba(given["q"])
    invalid = {3: (7, np.nan), 17: (8, np.inf), 31: (3, 5.0), 39: (9, 2e9)}
    for row, (entry, value) in invalid.items():
        given["q"][row, entry] = value
    for layout in LAYOUTS:
        fast = qd.compile(robot, "crba", device="cuda", layout=layout)
        got = np.moveaxis(
            fast.crba(to_device(arranged(given["q"], layout))).to_numpy(), 0 if layout == "rows" else -1, 0
        )
        for row in range(40):
            assert np.isnan(got[row]).all() if row in invalid else np.array_equal(got[row], want[row]), (layout, row)


def test_single_states_and_views_of_scratch_arrays() -> None:
    robot = ROBOTS["ur5"]()
    given = states(robot, 1)
    fast = qd.compile(robot, ("rnea", "rnea_derivatives"), device="cuda:1", layout="columns")
    one = [given[key][0] for key in "qva"]
    tau = fast.rnea(*[to_device(x, "cuda:1") for x in one])
    assert np.array_equal(tau.to_numpy(), qd.compile(robot).rnea(*one)) and tau.device == "cuda:1"
    parts = fast.rnea_derivatives(*[to_device(x, "cuda:1") for x in one])
    assert parts.dtau_dq.shape == (robot.nv, robot.nv)
    again = pickle.loads(pickle.dumps(fast))
    assert (again.device, again.layout) == ("cuda:1", "columns") and "cuda:1, columns" in repr(again)


@pytest.mark.parametrize(
    ("name", "what"), others_slow([(r, o) for r in ("loop", "go2") for o in ("rnea", "aba")], [("loop", "aba")])
)
def test_gradients_equal_those_of_the_cpu(name: str, what: str) -> None:
    robot, n = ROBOTS[name](), 33
    operation = DifferentiableOperation(robot, what, KernelOptions(runtime=True, normalized=True), None, 1)
    given = states(robot, n)
    parameters = np.tile(qd.compile(robot, what, parameters="runtime").parameters, (n, 1))
    arguments = [*(given[key] for key in OPERATIONS[what].arguments), parameters]
    weights, value = np.random.default_rng(0).normal(size=(n, robot.nv)), operation.value(arguments)
    assert np.array_equal(operation.on_gpu("value", value.dtype, 0)(*map(to_device, arguments)).to_numpy(), value)
    rest = [value, weights] if operation.uses_result else [weights]
    want = operation.gradient(arguments, *rest)
    got = operation.on_gpu("gradient", value.dtype, 0)(*map(to_device, [*arguments, *rest]))
    for x, y in zip(want, got, strict=True):
        assert np.array_equal(x, y.to_numpy())


# -- launches, streams and memory ----------------------------------------------------------------------------------
def test_launches_use_the_stream_and_one_thread_per_state(library: Any) -> None:
    robot = ROBOTS["ur5"]()
    given = [to_device(states(robot, 257)[key]) for key in "qva"]
    for layout, threads, blocks in (("rows", 32, 9), ("columns", 128, 3)):
        fast = qd.compile(robot, device="cuda", layout=layout)
        arguments = given if layout == "rows" else [to_device(x.to_numpy().T) for x in given]
        waits, launches = get(library, "waits"), get(library, "launches")
        stream = type("Stream", (), {"cuda_stream": 5})()
        result = fast.rnea(*arguments, stream=stream)
        assert (get(library, "block"), get(library, "grid"), get(library, "stream")) == (threads, blocks, 5)
        assert get(library, "waits") == waits + 3 and get(library, "wait_stream") == 5  # arguments are of stream 0
        assert result.stream == 5 and result.__cuda_array_interface__["stream"] == 5
        fast.rnea(*arguments, out=result, stream=5)
        assert get(library, "launches") == launches + 2
    empty = fast.rnea(*[to_device(np.zeros((n, 0))) for n in (robot.nq, robot.nv, robot.nv)])
    assert empty.shape == (robot.nv, 0) and get(library, "launches") == launches + 2
    assert get(library, "pushed") == 0


def test_memory_and_modules_are_freed(library: Any) -> None:
    robot = ROBOTS["ur5"]()
    gc.collect()
    before = get(library, "allocations"), get(library, "modules")
    fast = qd.compile(robot, "crba", device="cuda")
    result = fast.crba(to_device(states(robot, 5)["q"]))
    tensors = set(arrays._exported)
    result.__dlpack__(stream=-1)
    del result, fast
    gc.collect()
    assert get(library, "allocations") == before[0] + 1  # the tensor holds the result
    (tensor,) = set(arrays._exported) - tensors
    arrays._release(tensor)  # as a library does
    gc.collect()
    assert (get(library, "allocations"), get(library, "modules")) == before


class Exported:
    """Array of a library that only has DLPack."""

    def __init__(self, array: CudaArray) -> None:
        self.array, self.streams = array, list[int]()

    def __dlpack__(self, *, stream: int) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_are_exchanged_by_dlpack(library: Any) -> None:
    robot = ROBOTS["ur5"]()
    given = states(robot, 6)
    fast = qd.compile(robot, device="cuda")
    arguments = [Exported(to_device(given[key])) for key in "qva"]
    result = fast.rnea(*arguments, stream=9)
    assert np.array_equal(result.to_numpy(), qd.compile(robot).rnea(*[given[key] for key in "qva"]))
    assert [x.streams for x in arguments] == [[9]] * 3
    view = arrays.read_capsule("x", result.__dlpack__(stream=4))
    assert view == (result.address, (6, robot.nv), (8 * robot.nv, 8), "<f8", 0)
    assert (get(library, "recorded"), get(library, "wait_stream")) == (9, 4)


# -- errors -----------------------------------------------------------------------------------------------------------
def test_arguments_are_checked() -> None:
    robot = ROBOTS["ur5"]()
    given = states(robot, 8)
    fast = qd.compile(robot, ("rnea", "crba"), device="cuda")
    columns = qd.compile(robot, "rnea", device="cuda", layout="columns")
    q, v, a = (to_device(given[key]) for key in "qva")
    host = np.zeros(2)

    class OnHost:
        def __dlpack__(self, *, stream: int) -> Any:
            raise AssertionError("not to be called")

        def __dlpack_device__(self) -> tuple[int, int]:
            return arrays.CPU, 0

    class NeedsGradient:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("requires grad")

    class NotOfTheGpu:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (8, 6), "typestr": "<f8", "data": (host.ctypes.data, False), "strides": None, "version": 3
        }  # fmt: skip

    half = to_device(np.zeros((8, 12)))
    interface = {"shape": (8, 6), "typestr": "<f8", "data": (half.address, False), "version": 3}

    def strided(*strides: int, **more: Any) -> Any:
        return type("View", (), {"__cuda_array_interface__": {**interface, "strides": strides, **more}, "base": half})()

    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ArgumentTypeError, "q: .*ndarray in host memory; copy it", lambda: fast.rnea(given["q"], v, a)),
        (ArgumentError, "v: .*host memory", lambda: fast.rnea(q, OnHost(), a)),
        (ArgumentTypeError, "v: .*requires grad.*detach", lambda: fast.rnea(q, NeedsGradient(), a)),
        (ArgumentError, "a: .*address is not in the memory", lambda: fast.rnea(q, v, NotOfTheGpu())),
        (ArgumentError, "v: .*device 1", lambda: fast.rnea(q, Exported(to_device(given["v"], "cuda:1")), a)),
        (ArgumentError, "v: .*not in the memory", lambda: fast.rnea(q, to_device(given["v"], "cuda:1"), a)),
        (ArgumentTypeError, "v: .*float64.*float32", lambda: fast.rnea(q, to_device(given["v"].astype("f4")), a)),
        (ArgumentTypeError, "v: .*got object", lambda: fast.rnea(q, object(), a)),
        (ArgumentError, r"v: .*\(N, 6\) for ur5.*\(8, 5\)", lambda: fast.rnea(q, to_device(np.zeros((8, 5))), a)),
        (ArgumentError, "v: .*same number of states", lambda: fast.rnea(q, to_device(np.zeros((7, 6))), a)),
        (ArgumentError, "v: .*same number of states", lambda: fast.rnea(q, to_device(np.zeros(6)), a)),
        (ArgumentTypeError, "'a' is missing", lambda: fast.rnea(q, v)),
        (ArgumentError, "v: .*16 bytes apart, not 8; .*columns", lambda: fast.rnea(q, strided(96, 16), a)),
        (ArgumentError, "q: .*neighboring.*48 bytes.*rows", lambda: columns.rnea(*[strided(8, 48, shape=(6, 8))] * 3)),
        (ArgumentError, "v: .*decrease", lambda: fast.rnea(q, strided(48, -8), a)),
        (ArgumentError, "v: .*multiples of 8", lambda: fast.rnea(q, strided(44, 8), a)),
        (ArgumentError, "out: shares memory with v", lambda: fast.rnea(q, v, a, out=v)),
        (ArgumentError, "out: .*read-only", lambda: fast.rnea(q, v, a, out=strided(48, 8, data=(half.address, True)))),
        (ArgumentError, "out: its entries share memory", lambda: fast.rnea(q, v, a, out=strided(40, 8))),
        (ArgumentError, r"out: expected shape \(8, 6\)", lambda: fast.rnea(q, v, a, out=to_device(np.zeros((6, 8))))),
        (ArgumentError, "out: expected 1 arrays, got 2", lambda: fast.rnea(q, v, a, out=(half, half))),
        (ArgumentTypeError, "stream: .*got str", lambda: fast.rnea(q, v, a, stream="s")),
        (ArgumentTypeError, "array: expected a numpy array", lambda: to_device([1.0])),
        (ArgumentError, "device_name", lambda: to_device(host, "cpu")),
    ]
    for kind, text, call in cases:
        raises(kind, text, call)


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"driver_version": 10020}, CudaError, "supports CUDA 10.2, and 11.0 is required"),
        ({"devices": 0}, CudaError, "finds no GPU"),
        ({"devices": 1}, ArgumentError, "'cuda:1' does not exist; the driver finds 1 GPUs"),
        ({"major": 7, "minor": 0}, CudaError, "compute capability 7.0, and 7.5 is required"),
        ({"ptx_version": 65}, CudaError, "UNSUPPORTED_PTX_VERSION.*unsupported .version 7.0"),
    ],
)
def test_unfit_drivers_and_gpus(library: Any, changed: dict[str, int], error: type[Exception], text: str) -> None:
    for name, value in changed.items():
        put(library, name, value)
    with pytest.raises(error, match=text):
        qd.compile(ROBOTS["ur5"](), device="cuda:1")


def test_exhausted_memory_and_missing_driver(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = ROBOTS["ur5"]()
    fast = qd.compile(robot, device="cuda")
    arguments = [to_device(states(robot, 8)[key]) for key in "qva"]
    put(library, "memory", 1200)
    raises(CudaError, "memory of the GPU is exhausted", fast.rnea, *arguments)
    monkeypatch.setattr(driver, "LIBRARIES", ["libquaddyn_missing.so.1"])
    monkeypatch.setattr(driver, "_devices", {})
    driver.driver.cache_clear()
    raises(CudaError, r"no NVIDIA driver .*libquaddyn_missing\.so\.1.*device='cpu'", qd.compile, robot, device="cuda")


def test_options_of_compile() -> None:
    robot = ROBOTS["ur5"]()
    for options, text in (
        ({"device": "gpu"}, "device: .*'gpu'"),
        ({"device": "cuda:x"}, "device: .*'cuda:x'"),
        ({"layout": "columns"}, "layout='columns': expected 'rows' for device='cpu'"),
        ({"device": "cuda", "layout": "c"}, "layout='c': expected 'rows' or 'columns'"),
    ):
        raises(ArgumentError, text, qd.compile, robot, **options)


# -- PTX --------------------------------------------------------------------------------------------------------------
def find_ptxas() -> str | None:
    """NVIDIA's compiler of PTX, of the CUDA toolkit or of the package nvidia-cuda-nvcc."""
    found = shutil.which("ptxas")
    for folder in (Path(entry) / "nvidia" for entry in sys.path if entry):
        found = found or next(map(str, sorted(folder.glob("**/bin/ptxas"))), None)
    return found


@pytest.mark.slow
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("name", list(ROBOTS)[:8])
def test_ptx_is_compiled_for_three_generations(name: str, tmp_path: Path) -> None:
    """Prints registers and spilled bytes; kernels of 18 velocities are emitted in two seconds of processor time.

    Kernels for float64 and rows are compiled for three generations of GPUs, the others for one.
    """
    robot = ROBOTS[name]()
    for what, definition in OPERATIONS.items():
        frame = robot.frame_names[-1] if definition.needs_frame else None
        program = trace_operation(what, robot, KernelOptions(), frame)
        for dtype, element in ((np.float64, "double"), (np.float32, "float")):
            for layout in LAYOUTS:
                start = time.process_time()
                ptx = generate_ptx(ptx_module(program, element, layout))
                seconds = time.process_time() - start
                (tmp_path / "kernel.ptx").write_bytes(ptx)
                row = [f"{name} {what} {np.dtype(dtype)} {layout}: {seconds:.2f} s"]
                for target in ("sm_90", "sm_80", "sm_120")[: 3 if (dtype, layout) == (np.float64, "rows") else 1]:
                    command = [find_ptxas(), "-v", f"-arch={target}", "kernel.ptx", "-o", "kernel.cubin"]
                    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
                    assert done.returncode == 0, done.stderr
                    stack, stores, loads = re.search(
                        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr
                    ).groups()
                    registers = re.search(r"Used (\d+) registers", done.stderr).group(1)
                    row.append(f"{target} {registers} registers, stack {stack}, spilled {stores} and {loads} bytes")
                print("; ".join(row), flush=True)
                assert seconds <= (2.0 if robot.nv <= 18 else 4.0)
