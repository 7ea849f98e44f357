"""Compares generated kernels with Pinocchio, CasADi, JAX and MuJoCo: number of operations and computing time.

    python benchmarks/bench_kernels.py               # tables
    python benchmarks/bench_kernels.py --check       # exit code 1 if a requirement is missed
    python benchmarks/bench_kernels.py --out docs    # draw docs/kernels.png
    python benchmarks/bench_kernels.py --no-rivals   # without CasADi and JAX, which need an environment of their own

Every ratio is the median over rounds in which both programs alternate in this process, on one thread.  Times are CPU
times, which other processes disturb less than the wall clock.  Batches are (N, n) arrays in C order with N = 1,024.
Results are written to new arrays, but matrices, which take megabytes, to `out`.  The batched functions of Pinocchio are
`rneaInParallel(1)` and `abaInParallel(1)` with arrays in Fortran order; where there is no batched function, its Python
function is called once per state.  The required ratios are those of a processor with AVX-512; for batches they are
halved on processors without it.
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
from kernel_operations import robot_of, tables
from rich.console import Console
from rich.table import Table
from rivals.arithmetic import KINDS, Worker
from rivals.environments import UnavailableError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from random_trees import random_states

import quaddyn as qd
from quaddyn.compiler.machine import kernel_machine
from quaddyn.kernels.operations import KernelOptions, trace_operation

N = 1024
ROUNDS = 15
SIZES = (1, 2, 4, 8, 16, 64, 512, 1024, 8192, 65536, 1_000_000)

#: Least ratio of the times of Pinocchio and the kernel for ur5 and go2, by measurement; None without a requirement.
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


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Measures the CPU time per call [s]."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


@dataclass(frozen=True)
class Pair:
    """Median times of two programs over alternating rounds [s per state], median ratio, error of quaddyn's result."""

    ours: float
    theirs: float
    ratio: float
    error: float


def alternate(
    ours: Callable[[], object], theirs: Callable[[], object], n: int, rounds: int = ROUNDS, m: int | None = None
) -> tuple[float, float, float]:
    """Returns the median times per state [s] of both programs and the median ratio; `theirs` computes `m` states."""
    m = m or n
    ours(), theirs()
    a = max(1, int(0.004 / max(seconds(ours, 1), 1e-9)))
    b = max(1, int(0.004 / max(seconds(theirs, 1), 1e-9)))
    gc.disable()
    pairs = []
    try:
        for _ in range(rounds):
            x = seconds(ours, a) / n
            pairs.append((x, seconds(theirs, b) / m))
    finally:
        gc.enable()
    xs, ys = zip(*pairs, strict=True)
    return statistics.median(xs), statistics.median(ys), statistics.median(y / x for x, y in pairs)


def repeated(
    call: Callable[..., object], arguments: tuple[np.ndarray, ...], times: int, out: np.ndarray | None = None
) -> Callable[[], None]:
    """Returns a function that calls `call` a number of times in a plain loop."""
    q, v, a = arguments

    def new() -> None:
        for _ in range(times):
            call(q, v, a)

    def into() -> None:
        for _ in range(times):
            call(q, v, a, out=out)

    return new if out is None else into


def max_relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest error, divided by the largest entry of the expected array."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def measure(name: str) -> dict[str, Pair]:
    """Measures every entry of `MIN_SPEED_RATIOS` for a robot."""
    robot = robot_of(name)
    model, data, nv = robot.model, robot.model.createData(), robot.nv
    q, v, a = random_states(robot, np.random.default_rng(0), N)
    fast = qd.compile(robot, ("rnea", "aba", "crba", "base_regressor", "rnea_derivatives"))
    single = qd.compile(robot, "rnea", dtype=np.float32)
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
        max_relative_error(fast.rnea(q, v, a), tau),
        alternate(lambda: fast.rnea(q, v, a), rnea_parallel, N),
    )
    add(
        "rnea batch float32",
        max_relative_error(single.rnea(q32, v32, a32), tau),
        alternate(lambda: single.rnea(q32, v32, a32), rnea_parallel, N),
    )
    add(
        "aba batch",
        max_relative_error(fast.aba(q, v, tau), acc),
        alternate(lambda: fast.aba(q, v, tau), aba_parallel, N),
    )
    M = fast.crba(q)
    add(
        "crba batch",
        max_relative_error(M[:n_checked], masses),
        alternate(lambda: fast.crba(q, out=M), each(pin.crba, q), N, m=n_checked),
    )
    inertial_parameters = qd.compile(robot, "rnea", parameters="runtime").parameters
    H = np.empty((N, nv, fast.base_regressor(q[0], v[0], a[0]).shape[1]))
    fast.base_regressor(q, v, a, out=H)
    add(
        "base_regressor batch",
        max_relative_error(
            H[:n_checked] @ inertial_parameters[: H.shape[2]] + robot.armature * a[:n_checked], tau[:n_checked]
        ),
        alternate(
            lambda: fast.base_regressor(q, v, a, out=H), each(pin.computeJointTorqueRegressor, q, v, a), N, m=n_checked
        ),
    )
    expected_derivatives = [
        tuple(x.copy() for x in pin.computeRNEADerivatives(model, data, *x))
        for x in zip(q[:9], v[:9], a[:9], strict=True)
    ]
    got = fast.rnea_derivatives(q[:9], v[:9], a[:9])
    derivative_arrays = tuple(np.empty((N, nv, nv)) for _ in range(3))
    add(
        "rnea_derivatives batch",
        max(max_relative_error(got[k], np.array([p[k] for p in expected_derivatives])) for k in range(3)),
        alternate(
            lambda: fast.rnea_derivatives(q, v, a, out=derivative_arrays),
            each(pin.computeRNEADerivatives, q, v, a),
            N,
            m=n_checked,
        ),
    )
    x, y, z = (w[0].copy() for w in (q, v, a))
    n_calls, target = 1000, np.empty(nv)

    def theirs() -> None:
        call = pin.rnea
        for _ in range(n_calls):
            call(model, data, x, y, z)

    new, into = repeated(fast.rnea, (x, y, z), n_calls), repeated(fast.rnea, (x, y, z), n_calls, target)
    add("rnea single", max_relative_error(fast.rnea(x, y, z), tau[0]), alternate(new, theirs, n_calls))
    add(
        "rnea single, into out",
        max_relative_error(fast.rnea(x, y, z, out=target), tau[0]),
        alternate(into, theirs, n_calls),
    )
    return pairs_by_name


def first_use(name: str) -> float:
    """Measures the CPU time from a loaded robot to the first torque with an empty cache [s]; median of five."""
    robot = robot_of(name)
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


# -- the same program in other frameworks ------------------------------------------------------------------------
def rivals(name: str, others: bool) -> dict[str, Pair | str]:
    """Compares a kernel with the same program in CasADi and JAX and with MuJoCo's inverse dynamics.

    Returns:
        The times by program, or the reason for which a program was skipped.
    """
    robot = robot_of(name)
    q, v, a = random_states(robot, np.random.default_rng(0), N)
    program = trace_operation("rnea", robot, KernelOptions())
    fast = qd.compile(robot, "rnea")
    tau = fast.rnea(q, v, a)
    out: dict[str, Pair | str] = {}

    def ours() -> object:
        return fast.rnea(q, v, a)

    for kind, what in KINDS.items() if others else ():
        try:
            worker = Worker(kind, program, np.concatenate([q, v, a], axis=1))
        except UnavailableError as reason:
            out[what] = f"skipped: {reason}"
            continue
        repeats = max(1, int(0.004 / seconds(ours, 1)))
        pairs = [(seconds(ours, repeats) / N, worker.seconds()) for _ in range(ROUNDS)]
        worker.close()
        mine, theirs = (statistics.median(x) for x in zip(*pairs, strict=True))
        out[what] = Pair(
            mine, theirs, statistics.median(y / x for x, y in pairs), max_relative_error(worker.result, tau)
        )
    try:
        out["MuJoCo mj_inverse, no constraints"] = mujoco_inverse(robot, ours, q, v, a)
    except ImportError as reason:
        out["MuJoCo mj_inverse, no constraints"] = f"skipped: {reason}"
    return out


def mujoco_inverse(robot: qd.Robot, ours: Callable[[], object], q: np.ndarray, v: np.ndarray, a: np.ndarray) -> Pair:
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
        got, tau = data.qfrc_inverse.copy(), dynamics.rnea(q[k], v[k], a[k])
        if robot.root == "free":
            got[:3] = R.T @ got[:3]
        error = max(error, max_relative_error(got, tau))

    def inverse() -> None:
        for qpos, qvel, qacc in rows:
            data.qpos, data.qvel, data.qacc = qpos, qvel, qacc
            mujoco.mj_inverse(model, data)

    return Pair(*alternate(ours, inverse, N, m=64), error)


def curve(name: str, largest: int) -> list[tuple[int, float, float]]:
    """Returns batch sizes with the times per state [s] of results in a new array and in an existing one.

    Allocating a new array of a million rows would measure the operating system.  For batches larger than N both times
    are therefore that of the existing array.
    """
    robot = robot_of(name)
    fast = qd.compile(robot, "rnea")
    n_checked = random_states(robot, np.random.default_rng(0), 64)
    out = []
    for n in (s for s in SIZES if s <= largest):
        arrays = tuple(np.ascontiguousarray(np.resize(x, (n, x.shape[1]))) for x in n_checked)
        if n == 1:
            arrays = tuple(x[0].copy() for x in arrays)
        target = np.empty_like(arrays[1])
        times = max(1, int(0.003 / max(seconds(repeated(fast.rnea, arrays, 1, target), 3), 1e-9)))
        into = min_time(repeated(fast.rnea, arrays, times, target)) / times / n
        new = min_time(repeated(fast.rnea, arrays, times)) / times / n if n <= N else into
        out.append((n, new, into))
    return out


def min_time(call: Callable[[], object]) -> float:
    """Returns the least time of 15 calls [s]."""
    call()
    return min(seconds(call, 1) for _ in range(15))


def python_overheads() -> tuple[float, float]:
    """Returns the times [s] of calling a builtin function that compares two pointers, and of making an array of six."""
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


def bandwidth() -> float:
    """Measures the memory bandwidth of a copy, reads and writes [bytes/s]."""
    x = np.zeros(16_000_000)
    y = np.ones_like(x)
    return 2 * x.nbytes / min(seconds(lambda: np.copyto(y, x), 1) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--out", type=Path, help="folder for kernels.png")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest batch of the curve")
    parser.add_argument("--no-rivals", action="store_true", help="without CasADi and JAX")
    options = parser.parse_args()
    console = Console(width=160)
    machine = kernel_machine()
    console.print(f"{cpu()}, {machine.bits}-bit vectors; Pinocchio {pin.__version__}, numpy {np.__version__}")
    fine = tables(console)
    vector_factor = 1.0 if machine.bits == 512 else 0.5
    table = Table(title=f"Speed: N = {N:,}, one thread, ratio in alternation, {ROUNDS} rounds")
    for column in ("robot", "operation", "quaddyn [ns/state]", "Pinocchio [ns/state]", "ratio", "required", "error"):
        table.add_column(column, justify="left" if column in ("robot", "operation") else "right")
    for k, name in enumerate(("ur5", "go2")):
        for what, pair in measure(name).items():
            bar = MIN_SPEED_RATIOS[what][k]
            required = None if bar is None else bar * (vector_factor if "batch" in what else 1.0)
            met = required is None or pair.ratio >= required
            fine &= met
            words = "" if required is None else f"{required:g} {'met' if met else 'MISSED'}"
            times = (f"{pair.ours * 1e9:.1f}", f"{pair.theirs * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, what, *times, words, f"{pair.error:.1e}")
        took = first_use(name)
        met = took <= MAX_FIRST_USE_TIME[name]
        fine &= met
        words = f"{MAX_FIRST_USE_TIME[name]:g} s {'met' if met else 'MISSED'}"
        table.add_row(name, "first use of rnea", f"{took:.3f} s", "", "", words, "")
    console.print(table)
    table = Table(title="The same inverse dynamics in other programs")
    for column in ("robot", "program", "quaddyn [ns/state]", "program [ns/state]", "ratio", "error"):
        table.add_column(column, justify="left" if column in ("robot", "program") else "right")
    for name in ("ur5", "go2"):
        for how, pair in rivals(name, not options.no_rivals).items():
            if isinstance(pair, str):
                table.add_row(name, f"{how}: {pair}")
                continue
            times = (f"{pair.ours * 1e9:.1f}", f"{pair.theirs * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, how, *times, f"{pair.error:.1e}")
    console.print(table)
    rate, (call, made) = bandwidth(), python_overheads()
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
        curves[name] = points = curve(name, options.largest)
        robot = robot_of(name)
        roof = 8 * (robot.nq + 3 * robot.nv) / rate
        middle = next(new for n, new, _ in points if n == N)
        for n, new, into in points:
            met = min(new, into) <= MAX_RELATIVE_TIME * middle
            fine &= met or n < MIN_BATCH_SIZE
            words = f"{MAX_RELATIVE_TIME:g} {'met' if met else 'MISSED, see below' if n < MIN_BATCH_SIZE else 'MISSED'}"
            times = f"{new * 1e9:.1f}", f"{into * 1e9:.1f}", f"{min(new, into) / middle:.2f}"
            table.add_row(name, f"{n:,}", *times, words, f"{roof * 1e9:.1f}", f"{roof / min(new, into):.0%}")
    console.print(table)
    console.print(
        f"Roofline: time to move the arrays' bytes at the {rate / 1e9:.1f} GB/s of a copy in memory.  The limit is "
        f"that of batches of {MIN_BATCH_SIZE} or more states.  In smaller ones Python overhead dominates: calling a "
        f"builtin that compares two pointers takes {call * 1e9:.0f} ns, and making an array {made * 1e9:.0f} ns."
    )
    if options.out is not None:
        draw(options.out / "kernels.png", curves, rate)
    return int(options.check and not fine)


def draw(path: Path, curves: dict[str, list[tuple[int, float, float]]], rate: float) -> None:
    """Draws the time per state over the batch size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, points), color in zip(curves.items(), ("tab:blue", "tab:orange"), strict=True):
        sizes, robot = [n for n, _, _ in points], robot_of(name)
        axes.loglog(sizes, [s * 1e9 for _, s, _ in points], "o-", color=color, label=f"{name}, result in a new array")
        axes.loglog(sizes, [s * 1e9 for _, _, s in points], "o:", color=color, mfc="w", label=f"{name}, into out=")
        roof = 8e9 * (robot.nq + 3 * robot.nv) / rate
        axes.axhline(roof, color=color, lw=0.8, ls="--", label=f"{name}, its bytes at {rate / 1e9:.0f} GB/s")
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
