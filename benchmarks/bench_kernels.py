"""Generated kernels: operations of the emitted code, and speed against Pinocchio, CasADi, JAX and MuJoCo.

    python benchmarks/bench_kernels.py               # tables
    python benchmarks/bench_kernels.py --check       # exit 1 if a bar is missed
    python benchmarks/bench_kernels.py --out docs    # and draw docs/kernels.png
    python benchmarks/bench_kernels.py --no-rivals   # without CasADi and JAX, which need an environment of their own

Every ratio is the median over rounds in which both sides run in alternation in this process, on one thread, by its
own time on the processor, which others on the machine disturb less than the clock on the wall.  Batches are (N, n)
arrays in C order, N = 1,024, results in new arrays (matrices, which are megabytes: into `out`); Pinocchio's are its
`rneaInParallel(1)` and `abaInParallel(1)` with arrays in its own order, and its Python functions one call after the
other where there is no batched one.  Bars are those of a processor with AVX-512, halved for batches where there is
none.
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

#: What is timed, and the least ratio for ur5 and go2.
SPEED = {
    "rnea batch": (60, 35),
    "rnea batch float32": (90, 60),
    "aba batch": (50, 30),
    "crba batch": (40, 15),
    "base_regressor batch": (20, 10),
    "rnea_derivatives batch": (None, None),
    "rnea single": (8, 8),
    "rnea single, into out": (8, 8),
}
#: No state may cost more than so many times one of N, in batches from SMALLEST on.
FLAT, SMALLEST = 2.0, 8
#: Seconds from a loaded robot to the first result of `rnea`, nothing cached.
FIRST_USE = {"ur5": 0.1, "go2": 0.3}


def seconds(call: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


@dataclass(frozen=True)
class Pair:
    """Medians over alternating rounds [s per state], the median ratio, and the error of ours."""

    ours: float
    theirs: float
    ratio: float
    error: float


def alternate(
    ours: Callable[[], object], theirs: Callable[[], object], n: int, rounds: int = ROUNDS, m: int | None = None
) -> tuple[float, float, float]:
    """Seconds per state of each side, and the ratio; `m` states for their side where it differs."""
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
    """`call` so many times, with nothing but the loop around it."""
    q, v, a = arguments

    def new() -> None:
        for _ in range(times):
            call(q, v, a)

    def into() -> None:
        for _ in range(times):
            call(q, v, a, out=out)

    return new if out is None else into


def worst(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def measure(name: str) -> dict[str, Pair]:
    """Every line of `SPEED` for a robot."""
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
    few = 64
    masses = np.array([pin.crba(model, data, x).copy() for x in q[:few]])
    answers: dict[str, Pair] = {}

    def add(what: str, error: float, times: tuple[float, float, float]) -> None:
        answers[what] = Pair(times[0], times[1], times[2], error)

    def rnea_parallel() -> None:
        pin.rneaInParallel(1, pool, *columns, out)

    tau_columns = np.asfortranarray(tau.T)

    def aba_parallel() -> None:
        pin.abaInParallel(1, pool, columns[0], columns[1], tau_columns, out)

    def each(function: Callable[..., object], *arrays: np.ndarray) -> Callable[[], None]:
        rows = [tuple(x[k].copy() for x in arrays) for k in range(few)]

        def call() -> None:
            for row in rows:
                function(model, data, *row)

        return call

    add("rnea batch", worst(fast.rnea(q, v, a), tau), alternate(lambda: fast.rnea(q, v, a), rnea_parallel, N))
    add(
        "rnea batch float32",
        worst(single.rnea(q32, v32, a32), tau),
        alternate(lambda: single.rnea(q32, v32, a32), rnea_parallel, N),
    )
    add("aba batch", worst(fast.aba(q, v, tau), acc), alternate(lambda: fast.aba(q, v, tau), aba_parallel, N))
    M = fast.crba(q)
    add("crba batch", worst(M[:few], masses), alternate(lambda: fast.crba(q, out=M), each(pin.crba, q), N, m=few))
    beta = qd.compile(robot, "rnea", parameters="runtime").parameters
    H = np.empty((N, nv, fast.base_regressor(q[0], v[0], a[0]).shape[1]))
    fast.base_regressor(q, v, a, out=H)
    add(
        "base_regressor batch",
        worst(H[:few] @ beta[: H.shape[2]] + robot.armature * a[:few], tau[:few]),
        alternate(
            lambda: fast.base_regressor(q, v, a, out=H), each(pin.computeJointTorqueRegressor, q, v, a), N, m=few
        ),
    )
    parts = [
        tuple(x.copy() for x in pin.computeRNEADerivatives(model, data, *x))
        for x in zip(q[:9], v[:9], a[:9], strict=True)
    ]
    got = fast.rnea_derivatives(q[:9], v[:9], a[:9])
    room = tuple(np.empty((N, nv, nv)) for _ in range(3))
    add(
        "rnea_derivatives batch",
        max(worst(got[k], np.array([p[k] for p in parts])) for k in range(3)),
        alternate(
            lambda: fast.rnea_derivatives(q, v, a, out=room), each(pin.computeRNEADerivatives, q, v, a), N, m=few
        ),
    )
    x, y, z = (w[0].copy() for w in (q, v, a))
    many, target = 1000, np.empty(nv)

    def theirs() -> None:
        call = pin.rnea
        for _ in range(many):
            call(model, data, x, y, z)

    new, into = repeated(fast.rnea, (x, y, z), many), repeated(fast.rnea, (x, y, z), many, target)
    add("rnea single", worst(fast.rnea(x, y, z), tau[0]), alternate(new, theirs, many))
    add("rnea single, into out", worst(fast.rnea(x, y, z, out=target), tau[0]), alternate(into, theirs, many))
    return answers


def first_use(name: str) -> float:
    """Seconds from a robot to a first torque, nothing cached; the median of five."""
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


# -- the same program elsewhere ----------------------------------------------------------------------------------
def rivals(name: str, others: bool) -> dict[str, Pair | str]:
    """Ours against the same program run by CasADi and JAX, and against MuJoCo's inverse dynamics; or why not."""
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
        out[what] = Pair(mine, theirs, statistics.median(y / x for x, y in pairs), worst(worker.result, tau))
    try:
        out["MuJoCo mj_inverse, no constraints"] = mujoco_inverse(robot, ours, q, v, a)
    except ImportError as reason:
        out["MuJoCo mj_inverse, no constraints"] = f"skipped: {reason}"
    return out


def mujoco_inverse(robot: qd.Robot, ours: Callable[[], object], q: np.ndarray, v: np.ndarray, a: np.ndarray) -> Pair:
    """MuJoCo's inverse dynamics of the same states, contacts, limits and damping off."""
    import mujoco

    plant = qd.MujocoPlant(robot, dt=1e-3)
    model, data = plant.model, plant.data
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_damping[:] = 0.0
    rows = []
    turned = 0.0
    dynamics = qd.Dynamics(robot)
    for k in range(64):
        place, rate, push = q[k].copy(), v[k].copy(), a[k].copy()
        R = np.eye(3)
        if robot.root == "free":  # its quaternion is w first, the root's linear velocity in world axes
            R = pin.Quaternion(q[k, 3:7]).toRotationMatrix()
            place[3:7] = q[k, [6, 3, 4, 5]]
            rate[:3], push[:3] = R @ v[k, :3], R @ (a[k, :3] + np.cross(v[k, 3:6], v[k, :3]))
        rows.append((place, rate, push))
        data.qpos, data.qvel, data.qacc = rows[-1]
        mujoco.mj_inverse(model, data)
        got, tau = data.qfrc_inverse.copy(), dynamics.rnea(q[k], v[k], a[k])
        if robot.root == "free":
            got[:3] = R.T @ got[:3]
        turned = max(turned, worst(got, tau))

    def inverse() -> None:
        for place, rate, push in rows:
            data.qpos, data.qvel, data.qacc = place, rate, push
            mujoco.mj_inverse(model, data)

    return Pair(*alternate(ours, inverse, N, m=64), turned)


def curve(name: str, largest: int) -> list[tuple[int, float, float]]:
    """Batch sizes, and seconds per state into a new array and into one that is there.

    A million fresh rows would time the operating system, so that beyond N the second stands for both.
    """
    robot = robot_of(name)
    fast = qd.compile(robot, "rnea")
    few = random_states(robot, np.random.default_rng(0), 64)
    out = []
    for n in (s for s in SIZES if s <= largest):
        arrays = tuple(np.ascontiguousarray(np.resize(x, (n, x.shape[1]))) for x in few)
        if n == 1:
            arrays = tuple(x[0].copy() for x in arrays)
        target = np.empty_like(arrays[1])
        times = max(1, int(0.003 / max(seconds(repeated(fast.rnea, arrays, 1, target), 3), 1e-9)))
        into = least(repeated(fast.rnea, arrays, times, target)) / times / n
        new = least(repeated(fast.rnea, arrays, times)) / times / n if n <= N else into
        out.append((n, new, into))
    return out


def least(call: Callable[[], object]) -> float:
    """Seconds of a call at the least disturbed of some."""
    call()
    return min(seconds(call, 1) for _ in range(15))


def floor() -> tuple[float, float]:
    """Seconds of a builtin call that compares two pointers, and of a new array of six numbers."""
    times = 20000

    def empty() -> None:
        call = operator.is_
        for _ in range(times):
            call(times, times)

    def made() -> None:
        make = np.empty
        for _ in range(times):
            make(6)

    return least(empty) / times, least(made) / times


def bandwidth() -> float:
    """Bytes per second of a copy in memory, reads and writes."""
    x = np.zeros(16_000_000)
    y = np.ones_like(x)
    return 2 * x.nbytes / min(seconds(lambda: np.copyto(y, x), 1) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is missed")
    parser.add_argument("--out", type=Path, help="folder for kernels.png")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest batch of the curve")
    parser.add_argument("--no-rivals", action="store_true", help="without CasADi and JAX")
    options = parser.parse_args()
    console = Console(width=160)
    machine = kernel_machine()
    console.print(f"{cpu()}, {machine.bits}-bit vectors; Pinocchio {pin.__version__}, numpy {np.__version__}")
    fine = tables(console)
    share = 1.0 if machine.bits == 512 else 0.5
    table = Table(title=f"Speed: N = {N:,}, one thread, ratio in alternation, {ROUNDS} rounds")
    for column in ("robot", "what", "ours [ns/state]", "Pinocchio [ns/state]", "ratio", "bar", "error"):
        table.add_column(column, justify="left" if column in ("robot", "what") else "right")
    for k, name in enumerate(("ur5", "go2")):
        for what, pair in measure(name).items():
            bar = SPEED[what][k]
            wanted = None if bar is None else bar * (share if "batch" in what else 1.0)
            met = wanted is None or pair.ratio >= wanted
            fine &= met
            words = "" if wanted is None else f"{wanted:g} {'met' if met else 'MISSED'}"
            times = (f"{pair.ours * 1e9:.1f}", f"{pair.theirs * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, what, *times, words, f"{pair.error:.1e}")
        took = first_use(name)
        met = took <= FIRST_USE[name]
        fine &= met
        words = f"{FIRST_USE[name]:g} s {'met' if met else 'MISSED'}"
        table.add_row(name, "first use of rnea", f"{took:.3f} s", "", "", words, "")
    console.print(table)
    table = Table(title="The same inverse dynamics elsewhere")
    for column in ("robot", "how", "ours [ns/state]", "theirs [ns/state]", "ratio", "error"):
        table.add_column(column, justify="left" if column in ("robot", "how") else "right")
    for name in ("ur5", "go2"):
        for how, pair in rivals(name, not options.no_rivals).items():
            if isinstance(pair, str):
                table.add_row(name, f"{how}: {pair}")
                continue
            times = (f"{pair.ours * 1e9:.1f}", f"{pair.theirs * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, how, *times, f"{pair.error:.1e}")
    console.print(table)
    rate, (call, made) = bandwidth(), floor()
    table = Table(title="Cost of inverse dynamics over the size of the batch")
    for column in ("robot", "N", "ns/state", "into out", "over N = 1,024", "bar", "roofline [ns/state]", "share of it"):
        table.add_column(column, justify="right")
    curves = {}
    for name in ("ur5", "go2"):
        curves[name] = points = curve(name, options.largest)
        robot = robot_of(name)
        roof = 8 * (robot.nq + 3 * robot.nv) / rate
        middle = next(new for n, new, _ in points if n == N)
        for n, new, into in points:
            met = min(new, into) <= FLAT * middle
            fine &= met or n < SMALLEST
            words = f"{FLAT:g} {'met' if met else 'MISSED, see below' if n < SMALLEST else 'MISSED'}"
            times = f"{new * 1e9:.1f}", f"{into * 1e9:.1f}", f"{min(new, into) / middle:.2f}"
            table.add_row(name, f"{n:,}", *times, words, f"{roof * 1e9:.1f}", f"{roof / min(new, into):.0%}")
    console.print(table)
    console.print(
        f"Roofline: what the arrays' bytes take at the {rate / 1e9:.1f} GB/s of a copy in memory.  Batches of "
        f"{SMALLEST} and more are held to the bar.  Below, Python itself costs more: calling a builtin that "
        f"compares two pointers takes {call * 1e9:.0f} ns, and making an array {made * 1e9:.0f} ns."
    )
    if options.out is not None:
        draw(options.out / "kernels.png", curves, rate)
    return int(options.check and not fine)


def draw(path: Path, curves: dict[str, list[tuple[int, float, float]]], rate: float) -> None:
    """Cost per state over the size of the batch."""
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
