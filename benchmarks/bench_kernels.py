"""Compares generated kernels with Pinocchio, CasADi, JAX and MuJoCo: number of operations and computing time.

    python benchmarks/bench_kernels.py               # tables
    python benchmarks/bench_kernels.py --check       # exit code 1 if a requirement is missed
    python benchmarks/bench_kernels.py --out docs    # draw docs/kernels.png
    python benchmarks/bench_kernels.py --no-rivals   # without CasADi and JAX, which need a separate environment

Every ratio is the median over rounds in which both programs alternate in this process, on one thread.  Times are CPU
times, which other processes disturb less than the wall clock.  Batches are (N, n) arrays in C order with N = 1,024.
Results are written to new arrays; matrices, which take megabytes, are written to `out`.  The batched functions of
Pinocchio are `rneaInParallel(1)` and `abaInParallel(1)` with arrays in Fortran order; where there is no batched
function, its Python function is called once per state.  The required ratios are those of a processor with AVX-512; for
batches they are halved on processors without it.
"""

from __future__ import annotations

import argparse
import gc
import operator
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
from boundary import cpu
from kernel_operations import load_robot, print_tables
from rich.console import Console
from rich.table import Table
from rivals.arithmetic import KINDS, Worker
from rivals.environments import UnavailableError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from random_trees import random_states

import quaddyn as qd
from quaddyn.compiler.machine import kernel_machine
from quaddyn.kernels.operations import KernelOptions, trace_operation

N = 1024  # states of a batch
ROUNDS = 15  # alternations of a comparison
#: Batch sizes of the last table.
SIZES = (1, 2, 4, 8, 16, 64, 512, 1024, 8192, 65536, 1_000_000)

#: Minimum ratio of the times of Pinocchio and the kernel for ur5 and go2, by measurement; None without a requirement.
MIN_SPEED_RATIOS = {
    "rnea batch": (60, 35),
    "rnea batch float32": (90, 60),
    "aba batch": (50, 30),
    "crba batch": (40, 15),
    "base_regressor batch": (20, 10),
    "rnea_derivatives batch": (None, None),
    "rnea single": (8, 8),
    "rnea single, into out": (8, 8),
}
#: Largest time per state relative to that of a batch of N states, and the smallest batch for which it is required.
MAX_RELATIVE_TIME, MIN_BATCH_SIZE = 2.0, 8
#: Largest time from a loaded robot to the first result of `rnea` with an empty cache [s].
MAX_FIRST_USE_TIME = {"ur5": 0.1, "go2": 0.3}


def measure_time(call: Callable[[], object], repeats: int) -> float:
    """Measures the CPU time per call [s]."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


@dataclass(frozen=True)
class Pair:
    """Result of a comparison of quaddyn's kernel with another program.

    Attributes:
        kernel_time, other_time: median times over alternating rounds [s per state].
        ratio: median of the ratio of other_time to kernel_time.
        error: largest relative error of quaddyn's result.
    """

    kernel_time: float
    other_time: float
    ratio: float
    error: float


def measure_alternately(
    kernel: Callable[[], object], other: Callable[[], object], n: int, rounds: int = ROUNDS, n_other: int | None = None
) -> tuple[float, float, float]:
    """Returns the median times per state [s] of both programs and the median ratio.

    Args:
        kernel: call of quaddyn's kernel with `n` states.
        other: call of the other program with `n_other` states.
        n: number of states of a call of `kernel`.
        rounds: number of alternations.
        n_other: number of states of a call of `other`; None: n.
    """
    n_other = n_other or n
    kernel(), other()
    a = max(1, int(0.004 / max(measure_time(kernel, 1), 1e-9)))
    b = max(1, int(0.004 / max(measure_time(other, 1), 1e-9)))
    gc.disable()
    pairs = []
    try:
        for _ in range(rounds):
            x = measure_time(kernel, a) / n
            pairs.append((x, measure_time(other, b) / n_other))
    finally:
        gc.enable()
    xs, ys = zip(*pairs, strict=True)
    return statistics.median(xs), statistics.median(ys), statistics.median(y / x for x, y in pairs)


def make_loop(
    call: Callable[..., object], arguments: tuple[np.ndarray, ...], times: int, out: np.ndarray | None = None
) -> Callable[[], None]:
    """Returns a function that calls `call` a number of times in a loop, with results in new arrays or in `out`."""
    q, v, a = arguments

    def new() -> None:
        for _ in range(times):
            call(q, v, a)

    def into() -> None:
        for _ in range(times):
            call(q, v, a, out=out)

    return new if out is None else into


def max_relative_error(result: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest error, divided by the largest entry of the expected array."""
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def compare_with_pinocchio(name: str) -> dict[str, Pair]:
    """Compares the kernels of a robot with Pinocchio; returns the result by entry of `MIN_SPEED_RATIOS`."""
    robot = load_robot(name)
    model, data, nv = robot.model, robot.model.createData(), robot.nv
    q, v, a = random_states(robot, np.random.default_rng(0), N)
    kernels = qd.compile(robot, ("rnea", "aba", "crba", "base_regressor", "rnea_derivatives"))
    float32_kernels = qd.compile(robot, "rnea", dtype=np.float32)
    q32, v32, a32 = (x.astype(np.float32) for x in (q, v, a))
    pool = pin.ModelPool(model, 1)
    columns = [np.asfortranarray(x.T) for x in (q, v, a)]
    out = np.zeros((nv, N), order="F")
    tau = np.array([pin.rnea(model, data, *x) for x in zip(q, v, a, strict=True)])
    acc = np.array([pin.aba(model, data, *x) for x in zip(q, v, tau, strict=True)])
    n_checked = 64
    masses = np.array([pin.crba(model, data, x).copy() for x in q[:n_checked]])
    pairs_by_name: dict[str, Pair] = {}

    def add(name: str, error: float, times: tuple[float, float, float]) -> None:
        pairs_by_name[name] = Pair(times[0], times[1], times[2], error)

    def rnea_parallel() -> None:
        pin.rneaInParallel(1, pool, *columns, out)

    tau_columns = np.asfortranarray(tau.T)

    def aba_parallel() -> None:
        pin.abaInParallel(1, pool, columns[0], columns[1], tau_columns, out)

    def each(function: Callable[..., object], *arrays: np.ndarray) -> Callable[[], None]:
        rows = [tuple(x[k].copy() for x in arrays) for k in range(n_checked)]

        def call() -> None:
            for row in rows:
                function(model, data, *row)

        return call

    add(
        "rnea batch",
        max_relative_error(kernels.rnea(q, v, a), tau),
        measure_alternately(lambda: kernels.rnea(q, v, a), rnea_parallel, N),
    )
    add(
        "rnea batch float32",
        max_relative_error(float32_kernels.rnea(q32, v32, a32), tau),
        measure_alternately(lambda: float32_kernels.rnea(q32, v32, a32), rnea_parallel, N),
    )
    add(
        "aba batch",
        max_relative_error(kernels.aba(q, v, tau), acc),
        measure_alternately(lambda: kernels.aba(q, v, tau), aba_parallel, N),
    )
    M = kernels.crba(q)
    add(
        "crba batch",
        max_relative_error(M[:n_checked], masses),
        measure_alternately(lambda: kernels.crba(q, out=M), each(pin.crba, q), N, n_other=n_checked),
    )
    inertial_parameters = qd.compile(robot, "rnea", parameters="runtime").parameters
    H = np.empty((N, nv, kernels.base_regressor(q[0], v[0], a[0]).shape[1]))
    kernels.base_regressor(q, v, a, out=H)
    add(
        "base_regressor batch",
        max_relative_error(
            H[:n_checked] @ inertial_parameters[: H.shape[2]] + robot.armature * a[:n_checked], tau[:n_checked]
        ),
        measure_alternately(
            lambda: kernels.base_regressor(q, v, a, out=H),
            each(pin.computeJointTorqueRegressor, q, v, a),
            N,
            n_other=n_checked,
        ),
    )
    expected_derivatives = [
        tuple(x.copy() for x in pin.computeRNEADerivatives(model, data, *x))
        for x in zip(q[:9], v[:9], a[:9], strict=True)
    ]
    result = kernels.rnea_derivatives(q[:9], v[:9], a[:9])
    derivative_arrays = tuple(np.empty((N, nv, nv)) for _ in range(3))
    add(
        "rnea_derivatives batch",
        max(max_relative_error(result[k], np.array([p[k] for p in expected_derivatives])) for k in range(3)),
        measure_alternately(
            lambda: kernels.rnea_derivatives(q, v, a, out=derivative_arrays),
            each(pin.computeRNEADerivatives, q, v, a),
            N,
            n_other=n_checked,
        ),
    )
    x, y, z = (w[0].copy() for w in (q, v, a))
    n_calls, out_array = 1000, np.empty(nv)

    def other() -> None:
        call = pin.rnea
        for _ in range(n_calls):
            call(model, data, x, y, z)

    new, into = make_loop(kernels.rnea, (x, y, z), n_calls), make_loop(kernels.rnea, (x, y, z), n_calls, out_array)
    add("rnea single", max_relative_error(kernels.rnea(x, y, z), tau[0]), measure_alternately(new, other, n_calls))
    add(
        "rnea single, into out",
        max_relative_error(kernels.rnea(x, y, z, out=out_array), tau[0]),
        measure_alternately(into, other, n_calls),
    )
    return pairs_by_name


def measure_first_use(name: str) -> float:
    """Measures the CPU time from a loaded robot to the first torque with an empty cache [s]; median of five."""
    robot = load_robot(name)
    kernel_machine()
    times = []
    q, v, a = (x[0].copy() for x in random_states(robot, np.random.default_rng(0), 1))
    before = os.environ.get("QUADDYN_CACHE")
    os.environ["QUADDYN_CACHE"] = ""
    try:
        for _ in range(5):
            start = time.process_time()
            qd.compile(robot, "rnea").rnea(q, v, a)
            times.append(time.process_time() - start)
    finally:
        os.environ.pop("QUADDYN_CACHE")
        if before is not None:
            os.environ["QUADDYN_CACHE"] = before
    return statistics.median(times)


# -- other programs ----------------------------------------------------------------------------------------------
def compare_with_programs(name: str, with_casadi_and_jax: bool) -> dict[str, Pair | str]:
    """Compares a kernel with the same program in CasADi and JAX and with MuJoCo's inverse dynamics.

    Returns:
        By program, the result of the comparison or the reason for which the program was skipped.
    """
    robot = load_robot(name)
    q, v, a = random_states(robot, np.random.default_rng(0), N)
    program = trace_operation("rnea", robot, KernelOptions())
    kernels = qd.compile(robot, "rnea")
    tau = kernels.rnea(q, v, a)
    out: dict[str, Pair | str] = {}

    def kernel() -> object:
        return kernels.rnea(q, v, a)

    for kind, title in KINDS.items() if with_casadi_and_jax else ():
        try:
            worker = Worker(kind, program, np.concatenate([q, v, a], axis=1))
        except UnavailableError as reason:
            out[title] = f"skipped: {reason}"
            continue
        repeats = max(1, int(0.004 / measure_time(kernel, 1)))
        pairs = [(measure_time(kernel, repeats) / N, worker.seconds()) for _ in range(ROUNDS)]
        worker.close()
        kernel_time, other_time = (statistics.median(x) for x in zip(*pairs, strict=True))
        out[title] = Pair(
            kernel_time, other_time, statistics.median(y / x for x, y in pairs), max_relative_error(worker.result, tau)
        )
    try:
        out["MuJoCo mj_inverse, no constraints"] = compare_with_mujoco(robot, kernel, q, v, a)
    except ImportError as reason:
        out["MuJoCo mj_inverse, no constraints"] = f"skipped: {reason}"
    return out


def compare_with_mujoco(
    robot: qd.Robot, kernel: Callable[[], object], q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> Pair:
    """Compares a kernel with MuJoCo's inverse dynamics of the same states, without contacts, limits and damping."""
    import mujoco

    plant = qd.MujocoPlant(robot, dt=1e-3)
    model, data = plant.model, plant.data
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_damping[:] = 0.0
    rows = []
    error = 0.0
    dynamics = qd.Dynamics(robot)
    for k in range(64):
        qpos, qvel, qacc = q[k].copy(), v[k].copy(), a[k].copy()
        R = np.eye(3)
        if robot.root == "free":  # MuJoCo's quaternions begin with w; its linear velocity of the root is in world axes
            R = pin.Quaternion(q[k, 3:7]).toRotationMatrix()
            qpos[3:7] = q[k, [6, 3, 4, 5]]
            qvel[:3], qacc[:3] = R @ v[k, :3], R @ (a[k, :3] + np.cross(v[k, 3:6], v[k, :3]))
        rows.append((qpos, qvel, qacc))
        data.qpos, data.qvel, data.qacc = rows[-1]
        mujoco.mj_inverse(model, data)
        result, tau = data.qfrc_inverse.copy(), dynamics.rnea(q[k], v[k], a[k])
        if robot.root == "free":
            result[:3] = R.T @ result[:3]
        error = max(error, max_relative_error(result, tau))

    def inverse() -> None:
        for qpos, qvel, qacc in rows:
            data.qpos, data.qvel, data.qacc = qpos, qvel, qacc
            mujoco.mj_inverse(model, data)

    return Pair(*measure_alternately(kernel, inverse, N, n_other=64), error)


def measure_batch_sizes(name: str, max_size: int) -> list[tuple[int, float, float]]:
    """Measures the time per state [s] by batch size, with results in a new array and in an existing one.

    The time of a new array of a million rows would mainly be that of the operating system.  For batches larger than N,
    both times are therefore those of the existing array.

    Returns:
        Tuples (batch size, time with a new array, time with an existing array).
    """
    robot = load_robot(name)
    kernels = qd.compile(robot, "rnea")
    n_checked = random_states(robot, np.random.default_rng(0), 64)
    out = []
    for n in (s for s in SIZES if s <= max_size):
        arrays = tuple(np.ascontiguousarray(np.resize(x, (n, x.shape[1]))) for x in n_checked)
        if n == 1:
            arrays = tuple(x[0].copy() for x in arrays)
        out_array = np.empty_like(arrays[1])
        times = max(1, int(0.003 / max(measure_time(make_loop(kernels.rnea, arrays, 1, out_array), 3), 1e-9)))
        into = min_time(make_loop(kernels.rnea, arrays, times, out_array)) / times / n
        new = min_time(make_loop(kernels.rnea, arrays, times)) / times / n if n <= N else into
        out.append((n, new, into))
    return out


def min_time(call: Callable[[], object]) -> float:
    """Returns the minimum CPU time of 15 calls [s]."""
    call()
    return min(measure_time(call, 1) for _ in range(15))


def measure_python_overheads() -> tuple[float, float]:
    """Measures the times [s] of a call of a builtin function, which compares two pointers, and of a new array of 6."""
    times = 20000

    def call_builtin() -> None:
        call = operator.is_
        for _ in range(times):
            call(times, times)

    def make_arrays() -> None:
        make = np.empty
        for _ in range(times):
            make(6)

    return min_time(call_builtin) / times, min_time(make_arrays) / times


def measure_bandwidth() -> float:
    """Measures the memory bandwidth of a copy, reads and writes [bytes/s]."""
    x = np.zeros(16_000_000)
    y = np.ones_like(x)
    return 2 * x.nbytes / min(measure_time(lambda: np.copyto(y, x), 1) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--out", type=Path, help="folder for kernels.png")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest batch of the last table")
    parser.add_argument("--no-rivals", action="store_true", help="skip the comparison with CasADi and JAX")
    options = parser.parse_args()
    console = Console(width=160)
    machine = kernel_machine()
    console.print(f"{cpu()}, {machine.bits}-bit vectors; Pinocchio {pin.__version__}, numpy {np.__version__}")
    all_met = print_tables(console)
    vector_factor = 1.0 if machine.bits == 512 else 0.5
    table = Table(title=f"Speed: N = {N:,}, one thread, median ratio over {ROUNDS} alternating rounds")
    for column in ("robot", "operation", "quaddyn [ns/state]", "Pinocchio [ns/state]", "ratio", "required", "error"):
        table.add_column(column, justify="left" if column in ("robot", "operation") else "right")
    for k, name in enumerate(("ur5", "go2")):
        for operation, pair in compare_with_pinocchio(name).items():
            min_ratio = MIN_SPEED_RATIOS[operation][k]
            required = None if min_ratio is None else min_ratio * (vector_factor if "batch" in operation else 1.0)
            met = required is None or pair.ratio >= required
            all_met &= met
            requirement = "" if required is None else f"{required:g} {'met' if met else 'MISSED'}"
            times = (f"{pair.kernel_time * 1e9:.1f}", f"{pair.other_time * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, operation, *times, requirement, f"{pair.error:.1e}")
        first_use_time = measure_first_use(name)
        met = first_use_time <= MAX_FIRST_USE_TIME[name]
        all_met &= met
        requirement = f"{MAX_FIRST_USE_TIME[name]:g} s {'met' if met else 'MISSED'}"
        table.add_row(name, "first use of rnea", f"{first_use_time:.3f} s", "", "", requirement, "")
    console.print(table)
    table = Table(title="Inverse dynamics compared with other programs")
    for column in ("robot", "program", "quaddyn [ns/state]", "program [ns/state]", "ratio", "error"):
        table.add_column(column, justify="left" if column in ("robot", "program") else "right")
    for name in ("ur5", "go2"):
        for program, pair in compare_with_programs(name, not options.no_rivals).items():
            if isinstance(pair, str):
                table.add_row(name, f"{program}: {pair}")
                continue
            times = (f"{pair.kernel_time * 1e9:.1f}", f"{pair.other_time * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, program, *times, f"{pair.error:.1e}")
    console.print(table)
    rate, (call, array_time) = measure_bandwidth(), measure_python_overheads()
    table = Table(title="Time of inverse dynamics over the batch size")
    for column in (
        "robot",
        "N",
        "ns/state",
        "into out",
        "relative to N = 1,024",
        "limit",
        "roofline [ns/state]",
        "fraction",
    ):
        table.add_column(column, justify="right")
    curves = {}
    for name in ("ur5", "go2"):
        curves[name] = points = measure_batch_sizes(name, options.largest)
        robot = load_robot(name)
        roofline = 8 * (robot.nq + 3 * robot.nv) / rate
        reference_time = next(new for n, new, _ in points if n == N)
        for n, new, into in points:
            met = min(new, into) <= MAX_RELATIVE_TIME * reference_time
            all_met &= met or n < MIN_BATCH_SIZE
            requirement = (
                f"{MAX_RELATIVE_TIME:g} {'met' if met else 'MISSED, see below' if n < MIN_BATCH_SIZE else 'MISSED'}"
            )
            times = f"{new * 1e9:.1f}", f"{into * 1e9:.1f}", f"{min(new, into) / reference_time:.2f}"
            table.add_row(
                name, f"{n:,}", *times, requirement, f"{roofline * 1e9:.1f}", f"{roofline / min(new, into):.0%}"
            )
    console.print(table)
    console.print(
        f"Roofline: time to move the arrays' bytes at the {rate / 1e9:.1f} GB/s of a copy in memory.  The limit "
        f"applies to batches of {MIN_BATCH_SIZE} or more states.  In smaller ones Python overhead dominates: calling a "
        f"builtin that compares two pointers takes {call * 1e9:.0f} ns, and making "
        f"an array takes {array_time * 1e9:.0f} ns."
    )
    if options.out is not None:
        draw(options.out / "kernels.png", curves, rate)
    return int(options.check and not all_met)


def draw(path: Path, curves: dict[str, list[tuple[int, float, float]]], rate: float) -> None:
    """Draws the time per state over the batch size as a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, points), color in zip(curves.items(), ("tab:blue", "tab:orange"), strict=True):
        sizes, robot = [n for n, _, _ in points], load_robot(name)
        axes.loglog(sizes, [s * 1e9 for _, s, _ in points], "o-", color=color, label=f"{name}, result in a new array")
        axes.loglog(sizes, [s * 1e9 for _, _, s in points], "o:", color=color, mfc="w", label=f"{name}, into out=")
        roofline = 8e9 * (robot.nq + 3 * robot.nv) / rate
        axes.axhline(
            roofline, color=color, lw=0.8, ls="--", label=f"{name}, transfer of the arrays at {rate / 1e9:.0f} GB/s"
        )
    axes.set_xlabel("states in a batch")
    axes.set_ylabel("inverse dynamics, ns per state")
    axes.set_title(f"Generated kernels, one thread, {cpu()}", fontsize=10)
    axes.grid(which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


if __name__ == "__main__":
    sys.exit(main())
