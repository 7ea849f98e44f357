"""Generated kernels: operations of the emitted code, and speed against Pinocchio, numba and MuJoCo.

    python benchmarks/bench_kernels.py               # tables
    python benchmarks/bench_kernels.py --check       # exit 1 if a bar is missed
    python benchmarks/bench_kernels.py --out docs    # and draw docs/kernels.png

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
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from boundary import cpu
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import os

from random_trees import arm, random_states

import quaddyn as qd
from quaddyn.kernels import native
from quaddyn.kernels.graph import ADD, CONST, COS, DIV, INPUT, MUL, SIGN, SIN
from quaddyn.kernels.program import Program
from quaddyn.kernels.recipes import Options, traced

N = 1024
ROUNDS = 15
SIZES = (1, 8, 64, 512, 1024, 8192, 65536, 1_000_000)

#: mul, add of inverse dynamics: the bar, and what others publish or print for the same robot.
OPERATIONS = {
    "rx90": ((213, 209), "source C (its own 6R arm) 551/312; SYMORO+ 253/238; SymPyBotics 655/460"),
    "puma": ((228, 219), "a 6R arm with full inertias, as source C's"),
    "ur5": ((143, 127), "SymPyBotics 681/488"),
    "go2": ((653, 653), "naive trace 1054/871"),
    "solo12": ((546, 514), ""),
    "anymal_b": ((640, 638), ""),
    "anymal_c": (None, ""),
    "hyq": (None, ""),
    "panda": (None, ""),
    "stanford": (None, "a sliding joint"),
    "scara": (None, "axes parallel to the first, a sliding joint"),
}

#: What is timed, and the least ratio for ur5 and go2.
SPEED = {
    "rnea batch": (60, 35),
    "rnea batch float32": (90, 60),
    "aba batch": (50, 30),
    "crba batch": (40, 15),
    "base_regressor batch": (20, 10),
    "rnea_derivatives batch": (None, None),
    "rnea single": (8, 8),
}
#: Seconds from a loaded robot to the first result of `rnea`, nothing cached.
FIRST_USE = {"ur5": 0.1, "go2": 0.3}


def robot_of(name: str) -> qd.Robot:
    return arm(name) if name in ("puma", "stanford", "scara") else qd.load(name)


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
    many = 1000

    def ours() -> None:
        call = fast.rnea
        for _ in range(many):
            call(x, y, z)

    def theirs() -> None:
        call = pin.rnea
        for _ in range(many):
            call(model, data, x, y, z)

    add("rnea single", worst(fast.rnea(x, y, z), tau[0]), alternate(ours, theirs, many))
    return answers


def first_use(name: str) -> float:
    """Seconds from a robot to a first torque, nothing cached; the median of five."""
    robot = robot_of(name)
    native.machine()
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
def interpreted(program: Program, columns: list[Any], sin: Any, cos: Any, sign: Any) -> list[Any]:
    """Results of a program on any arithmetic."""
    graph, values = program.graph, {}

    def get(ref: int) -> Any:
        return -values[ref >> 1] if ref & 1 else values[ref >> 1]

    for i in program.order:
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op == CONST:
            values[i] = graph.value[i]
        elif op == INPUT:
            values[i] = columns[left]
        elif op in (SIN, COS):
            values[i] = (sin if op == SIN else cos)(get(left) + graph.value[i])
        elif op == SIGN:
            values[i] = sign(get(left))
        else:
            x, y = get(left), get(right)
            values[i] = x + y if op == ADD else x * y if op == MUL else x / y
            assert op in (ADD, MUL, DIV)
    return [get(r.ref) for r in program.results]


def rivals(name: str) -> dict[str, Pair]:
    """Ours against the same program run by numba, CasADi and JAX, and against MuJoCo's inverse dynamics."""
    robot = robot_of(name)
    q, v, a = random_states(robot, np.random.default_rng(0), N)
    program = traced("rnea", robot, Options())
    fast = qd.compile(robot, "rnea")
    tau = fast.rnea(q, v, a)
    out: dict[str, Pair] = {}

    def add(what: str, call: Callable[[], object], result: np.ndarray | None) -> None:
        ours, theirs, ratio = alternate(lambda: fast.rnea(q, v, a), call, N)
        out[what] = Pair(ours, theirs, ratio, worst(result, tau) if result is not None else float("nan"))

    numba_call = numba_rnea(program)
    numba_out = np.zeros_like(tau)
    numba_call(q, v, a, numba_out)
    add("numba, loop over states", lambda: numba_call(q, v, a, numba_out), numba_out)
    joined = np.concatenate([q, v, a], axis=1)
    try:
        import casadi
    except ImportError:
        pass
    else:
        x = casadi.SX.sym("x", joined.shape[1])
        entries = interpreted(program, casadi.vertsplit(x), casadi.sin, casadi.cos, casadi.sign)
        mapped = casadi.Function("f", [x], [casadi.vertcat(*entries)]).map(N)
        add("CasADi map", lambda: mapped(joined.T), np.array(mapped(joined.T)).T)
    try:
        import jax
    except ImportError:
        pass
    else:
        jax.config.update("jax_enable_x64", True)
        compiled = jax.jit(
            lambda x: jax.numpy.stack(
                interpreted(program, list(x.T), jax.numpy.sin, jax.numpy.cos, jax.numpy.sign), axis=1
            )
        )
        device = jax.numpy.asarray(joined)
        add("JAX jit", lambda: compiled(device).block_until_ready(), np.asarray(compiled(device)))
    try:
        import mujoco
    except ImportError:
        pass
    else:
        plant = qd.MujocoPlant(robot, dt=1e-3)
        model, data = plant.model, plant.data

        def inverse() -> None:
            for _ in range(64):
                mujoco.mj_inverse(model, data)

        ours, theirs, ratio = alternate(lambda: fast.rnea(q, v, a), inverse, N, m=64)
        out["MuJoCo mj_inverse, contacts and all"] = Pair(ours, theirs, ratio, float("nan"))
    return out


def numba_rnea(program: Program) -> Callable[..., None]:
    """The program as a numba function over rows, written to a file as numba wants to read it."""
    import importlib.util

    inputs = [f"{name}[i, {k}]" for name, size in program.inputs for k in range(size)]
    graph, lines = (
        program.graph,
        ["import math", "import numba", "", "", "@numba.njit(fastmath=False, error_model='numpy')"],
    )
    lines += [
        f"def f({', '.join(n for n, _ in program.inputs)}, out):",
        f"    for i in range({program.inputs[0][0]}.shape[0]):",
    ]

    def get(ref: int) -> str:
        i = ref >> 1
        if graph.op[i] == CONST:
            return f"({-graph.value[i] if ref & 1 else graph.value[i]!r})"
        word = inputs[graph.left[i]] if graph.op[i] == INPUT else f"t{i}"
        return f"(-{word})" if ref & 1 else word

    for i in program.order:
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        if op in (CONST, INPUT):
            continue
        if op in (SIN, COS):
            text = f"math.{'sin' if op == SIN else 'cos'}({get(left)} + {graph.value[i]!r})"
        else:
            text = f"{get(left)} {'+' if op == ADD else '*' if op == MUL else '/'} {get(right)}"
        lines.append(f"        t{i} = {text}")
    lines += [f"        out[i, {k}] = {get(r.ref)}" for k, r in enumerate(program.results)]
    folder = Path(tempfile.mkdtemp())
    (folder / "generated.py").write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("generated", folder / "generated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f  # type: ignore[no-any-return]


def curve(name: str, largest: int) -> list[tuple[int, float]]:
    """Seconds per state over the size of the batch."""
    robot = robot_of(name)
    fast = qd.compile(robot, "rnea")
    few = random_states(robot, np.random.default_rng(0), 64)
    out = []
    for n in (s for s in SIZES if s <= largest):
        q, v, a = (np.ascontiguousarray(np.resize(x, (n, x.shape[1]))) for x in few)
        target = np.empty_like(v)
        fast.rnea(q, v, a, out=target)
        repeats = max(1, int(0.01 / seconds(lambda: fast.rnea(q, v, a), 1)))  # noqa: B023
        # Into memory that is there: a million fresh rows would time the operating system.
        call = (lambda: fast.rnea(q, v, a)) if n <= N else (lambda: fast.rnea(q, v, a, out=target))  # noqa: B023
        out.append((n, min(seconds(call, repeats) for _ in range(7)) / n))
    return out


def bandwidth() -> float:
    """Bytes per second of a copy in memory, reads and writes."""
    x = np.zeros(16_000_000)
    y = np.ones_like(x)
    return 2 * x.nbytes / min(seconds(lambda: np.copyto(y, x), 1) for _ in range(5))


def operations_table(console: Console) -> bool:
    table = Table(title="Inverse dynamics: operations of the emitted code")
    for column in ("robot", "dof", "mul", "add", "div", "neg", "sincos", "instructions", "fused", "bar", "others"):
        table.add_column(column, justify="left" if column in ("robot", "others") else "right")
    fine = True
    for name, (bar, others) in OPERATIONS.items():
        robot = robot_of(name)
        o = traced("rnea", robot, Options()).operations
        met = bar is None or (o.mul <= bar[0] and o.add <= bar[1])
        fine &= met
        words = "" if bar is None else f"{bar[0]}/{bar[1]} {'met' if met else 'MISSED'}"
        numbers = (robot.nv, o.mul, o.add, o.div, o.neg, o.sincos, o.instructions, o.fused)
        table.add_row(name, *map(str, numbers), words, others)
    console.print(table)
    table = Table(title="Its kin: mul/add/div")
    kin = ("nle", "gravity", "crba", "aba", "base_regressor", "rnea_derivatives")
    for column in ("robot", *kin):
        table.add_column(column, justify="left" if column == "robot" else "right")
    for name in ("ur5", "go2"):
        counts = [traced(what, robot_of(name), Options()).operations for what in kin]
        table.add_row(name, *(f"{o.mul}/{o.add}" + (f"/{o.div}" if o.div else "") for o in counts))
    console.print(table)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is missed")
    parser.add_argument("--out", type=Path, help="folder for kernels.png")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest batch of the curve")
    parser.add_argument("--operations", action="store_true", help="count only")
    options = parser.parse_args()
    console = Console(width=160)
    machine = native.machine()
    console.print(f"{cpu()}, {machine.bits}-bit vectors; Pinocchio {pin.__version__}, numpy {np.__version__}")
    fine = operations_table(console)
    if options.operations:
        return int(options.check and not fine)
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
        for how, pair in rivals(name).items():
            times = (f"{pair.ours * 1e9:.1f}", f"{pair.theirs * 1e9:.0f}", f"{pair.ratio:.1f}")
            table.add_row(name, how, *times, f"{pair.error:.1e}")
    console.print(table)
    rate = bandwidth()
    table = Table(title=f"Cost over the size of the batch; copying runs at {rate / 1e9:.1f} GB/s")
    for column in ("robot", "N", "ns/state", "over N = 1,024", "roofline [ns/state]"):
        table.add_column(column, justify="right")
    curves = {}
    for name in ("ur5", "go2"):
        curves[name] = points = curve(name, options.largest)
        robot = robot_of(name)
        roof = 8 * (robot.nq + 3 * robot.nv) / rate
        middle = dict(points)[N]
        for n, s in points:
            table.add_row(name, f"{n:,}", f"{s * 1e9:.1f}", f"{s / middle:.2f}", f"{roof * 1e9:.1f}")
            fine &= n < N or s <= 2.0 * middle
    console.print(table)
    if options.out is not None:
        draw(options.out / "kernels.png", curves)
    return int(options.check and not fine)


def draw(path: Path, curves: dict[str, list[tuple[int, float]]]) -> None:
    """Cost per state over the size of the batch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, points in curves.items():
        axes.loglog([n for n, _ in points], [s * 1e9 for _, s in points], "o-", label=name)
    axes.set_xlabel("states in a batch")
    axes.set_ylabel("inverse dynamics, ns per state")
    axes.set_title(f"Generated kernels, one thread, {cpu()}", fontsize=10)
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


if __name__ == "__main__":
    sys.exit(main())
