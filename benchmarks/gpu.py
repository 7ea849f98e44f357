"""Measures compiled operations and batches of controllers and plants on a GPU, and compares them with the CPU.

    python benchmarks/gpu.py                 # table for go2 and rx90
    python benchmarks/gpu.py --check         # exit code 1 if a result differs, or a bar of the H100 and H200 is missed

Needs NVIDIA's driver and no other package; if PyTorch with CUDA is installed, its tensors are used as well.  The times
are those between two events around ten launches, the shortest of five, and do not contain the transfer of arguments.
4,096 states of each batch, and all if there are fewer, are compared with the kernel for the CPU: "equal" means bit by
bit.  Operations that remain after `--seconds` are left out and listed.  Then 256 robots of a batch of controllers and
of one of plants are compared with the batch on the CPU; the driver compiles their kernels in about a minute at the
first run.  `--library` takes another driver library, such as the stand-in of the tests, which interprets PTX on the
CPU; it does not run these batches.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.cuda import CudaError, driver, to_device
from quaddyn.kernels.cuda_kernels import LAYOUTS
from quaddyn.kernels.operations import OPERATIONS

#: Operations and states of their batches, as fractions of the largest; the first ones are compiled quickly.
MEASURED = {
    "rnea": 1.0,
    "crba": 0.25,
    "aba": 1.0,
    "center_of_mass": 1.0,
    "rnea_derivatives": 1 / 16,
    "aba_derivatives": 1 / 32,
}
#: Lowest rates [states/s] of Go2 on an H100 or H200, for float32 and float64 in both layouts.
MIN_RATES = {"rnea": (8e9, 4e9), "aba": (3e9, 1.3e9), "rnea_derivatives": (2e8, 2e8)}
BAR_CARDS = ("H100", "H200")
#: Lowest rates of batches of Go2 on an H100 or H200: ticks of whole-body control and steps of the plant [1/s].
MIN_BATCH_RATES = {"ticks": 5e6, "steps": 5e6}
#: Largest permitted differences from the CPU: torques of a tick [N m], and configurations after 50 steps [m, rad].
BATCH_TOLERANCES = {"ticks": 1e-9, "steps": 1e-6}
COMPARED, COMPARED_LANES = 4096, 256
LAUNCHES, ROUNDS = 10, 5


def draw_states(robot: qd.Robot, n: int) -> dict[str, np.ndarray]:
    """Returns n configurations, velocities, and accelerations or torques."""
    rng = np.random.default_rng(0)
    few = np.stack([robot.random_configuration(seed=k) for k in range(256)])
    v, x = rng.normal(size=(2, n, robot.nv))
    return {"q": few[rng.integers(0, 256, n)], "v": v, "a": x, "tau": x}


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def arranged(x: np.ndarray, layout: str) -> np.ndarray:
    """Returns a batch (N, ...) in a layout."""
    return np.ascontiguousarray(np.moveaxis(x, 0, -1)) if layout == "columns" else x


def shortest_time(call: Any, gpu: driver.Device) -> float:
    """Returns the time of a launch [s]."""
    times = []
    call()
    for _ in range(ROUNDS):
        with gpu.event(timed=True) as start, gpu.event(timed=True) as end:
            gpu.call("cuEventRecord", start, 0)
            for _ in range(LAUNCHES):
                call()
            gpu.call("cuEventRecord", end, 0)
            gpu.synchronize(0)
            times.append(gpu.elapsed_time(start, end) / LAUNCHES)
    return min(times)


def measure(robot: qd.Robot, what: str, n: int, dtype: Any, layout: str) -> dict[str, Any]:
    """Returns the rate of an operation, its traffic, and the difference from the CPU."""
    states = {key: x.astype(dtype) for key, x in draw_states(robot, n).items()}
    arguments = [states[key] for key in OPERATIONS[what].arguments]
    invalid = n // 2
    arguments[0][invalid, -1] = np.nan  # this state alone has NaN in its results
    begin = time.perf_counter()
    fast = qd.compile(robot, what, dtype=dtype, device="cuda", layout=layout)
    seconds, operation = time.perf_counter() - begin, getattr(fast, what)
    given = [to_device(arranged(x, layout)) for x in arguments]
    out = operation(*given)
    compared = np.unique(np.linspace(0, n - 1, min(n, COMPARED)).astype(int))
    compared = compared[compared != invalid]
    want = as_tuple(getattr(qd.compile(robot, what, dtype=dtype), what)(*[x[compared] for x in arguments]))
    got = [x.to_numpy() for x in as_tuple(out)]
    rows = [x if layout == "rows" else np.moveaxis(x, -1, 0) for x in got]
    error = max(np.abs(x[compared] - y).max() / np.abs(y).max() for x, y in zip(rows, want, strict=True))
    equal = all(np.array_equal(x[compared], y) for x, y in zip(rows, want, strict=True))
    valid = all(np.isnan(x[invalid]).all() for x in rows)
    gpu = operation.kernel.device
    duration = shortest_time(lambda: operation(*given, out=out), gpu)
    traffic = sum(x.nbytes for x in given) + sum(x.nbytes for x in as_tuple(out))
    return {
        "robot": robot.name, "operation": what, "dtype": np.dtype(dtype).name, "layout": layout, "states": n,
        "ns": 1e9 * duration / n, "rate": n / duration, "bandwidth": traffic / duration, "error": error, "equal": equal,
        "flagged": valid, "registers": operation.kernel.registers, "local": operation.kernel.local_bytes,
        "build": seconds,
    }  # fmt: skip


def measure_all(robots: list[str], n: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yields the results of all operations, until the time is over; then the names of those that are left out."""
    begin, left_out = time.perf_counter(), []
    cases = [(r, what, d, a) for what in MEASURED for r in robots for d in (np.float32, np.float64) for a in LAYOUTS]
    for name, what, dtype, layout in cases:
        if time.perf_counter() - begin > seconds:
            left_out.append(f"{name} {what} {np.dtype(dtype).name} {layout}")
        else:
            yield measure(qd.load(name), what, max(int(n * MEASURED[what]), 2), dtype, layout)
    if left_out:
        print(f"left out after {seconds:g} s: {'; '.join(left_out)}")


def check_torch() -> str:
    """Compares a call with tensors of PyTorch; returns what was found."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    if not torch.cuda.is_available():
        return "PyTorch has no CUDA"
    robot = qd.load("go2")
    states = draw_states(robot, 1000)
    arguments = [states[key] for key in "qva"]
    want, fast = qd.compile(robot).rnea(*arguments), qd.compile(robot, device="cuda")
    tensors = [torch.tensor(x, device="cuda") for x in arguments]
    side = torch.cuda.Stream()
    found = [fast.rnea(*tensors), fast.rnea(*tensors, stream=side)]
    side.synchronize()
    equal = all(isinstance(x, torch.Tensor) and np.array_equal(x.cpu().numpy(), want) for x in found)
    return f"PyTorch {torch.__version__}: results {'equal' if equal else 'DIFFER'}"


def measure_ticks(n: int) -> dict[str, Any]:
    """Returns the rate of a batch of whole-body controllers, and the difference of torques from the CPU."""
    robot, few, rng = qd.load("go2"), min(n, COMPARED_LANES), np.random.default_rng(0)
    q, v = np.tile(robot.q_home, (n, 1)), rng.normal(0.0, 0.1, (n, robot.nv))
    invalid = few // 2
    v[invalid, 0] = np.nan
    begin = time.perf_counter()
    batch = qd.WholeBodyController(robot).batch(n, device="cuda")
    seconds, given = time.perf_counter() - begin, (to_device(q), to_device(v))
    want, got = qd.WholeBodyController(robot).batch(few).compute(q[:few], v[:few]), batch.compute(*given)
    tau, codes = got.tau.to_numpy()[:few], got.codes.to_numpy()[:few]
    same = np.array_equal(codes, want.codes) and np.count_nonzero(codes) == 1 and codes[invalid] != 0
    rate = n / shortest_time(lambda: batch.compute(*given), driver.device(0))
    return {
        "what": "ticks", "n": n, "rate": rate, "error": np.abs(tau - want.tau).max(), "same": same, "build": seconds,
        "batch": batch,
    }  # fmt: skip


def measure_steps(n: int) -> dict[str, Any]:
    """Returns the rate of a batch of plants, and the difference of configurations from the CPU after 50 steps."""
    robot, few, rng = qd.load("go2"), min(n, COMPARED_LANES), np.random.default_rng(0)
    q = np.tile(robot.q_home, (n, 1))
    q[:, 2] += np.linspace(0.0, 0.02, n)
    targets = robot.q_home[7:] + rng.normal(0.0, 0.03, (n, robot.nu))
    simulation, gains = qd.Simulation(robot, spheres={}), {"stiffness": 40.0, "damping": 1.0}
    begin = time.perf_counter()
    batch = simulation.batch(n, device="cuda")
    seconds, expected, given = time.perf_counter() - begin, simulation.batch(few), to_device(targets)
    batch.reset(q=q)
    expected.reset(q=q[:few])
    batch.step(position=given, **gains, steps=50)
    expected.step(position=targets[:few], **gains, steps=50)
    error = np.abs(batch.q.to_numpy()[:few] - expected.q).max()
    same = not batch.results.to_numpy().any() and not batch.has_diverged.to_numpy().any()
    rate = 2 * n / shortest_time(lambda: batch.step(position=given, **gains, steps=2), driver.device(0))
    return {"what": "steps", "n": n, "rate": rate, "error": error, "same": same, "build": seconds, "batch": batch}


def measure_batches(n: int) -> tuple[Table, list[str]]:
    """Returns a table of the batches of controllers and plants, and the requirements that they miss."""
    table = Table(
        "go2", "robots", "threads", "1/s", "error", "regs", "local [B]", "robot [kB]", "thread [kB]", "all [MB]",
        "build [s]",
    )  # fmt: skip
    missed = []
    for row in (measure_ticks(n), measure_steps(n)):
        what, batch = row["what"], row["batch"]
        kernel = (batch._tick if what == "ticks" else batch._program).kernel
        total = n * batch.bytes_per_lane + batch.threads * batch.bytes_per_thread
        table.add_row(
            what, str(n), str(batch.threads), f"{row['rate']:.2e}", f"{row['error']:.1e}", str(kernel.registers),
            str(kernel.local_bytes), f"{batch.bytes_per_lane / 1024:.1f}", f"{batch.bytes_per_thread / 1024:.1f}",
            f"{total / 2**20:.0f}", f"{row['build']:.1f}",
        )  # fmt: skip
        if not (row["same"] and row["error"] <= BATCH_TOLERANCES[what]):
            missed.append(f"{what}: differ from those of the CPU by {row['error']:.1e}, or in the outcomes of lanes")
        if any(card in driver.device(0).name for card in BAR_CARDS) and row["rate"] < MIN_BATCH_RATES[what]:
            missed.append(f"{what}: {row['rate']:.2e}/s, required {MIN_BATCH_RATES[what]:.1e}/s")
    return table, missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", default=["go2", "rx90"], help="names of robots")
    parser.add_argument("--states", type=int, default=1 << 20, help="number of states of the largest batches")
    parser.add_argument("--seconds", type=float, default=80.0, help="time after which no operation is begun [s]")
    parser.add_argument("--robots-of-batches", type=int, default=1 << 14, help="robots of batches")
    parser.add_argument("--library", help="driver library in the place of NVIDIA's")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is missed")
    arguments = parser.parse_args()
    if arguments.library:
        driver.LIBRARIES[:] = [arguments.library]
    try:
        gpu = driver.device(0)
    except CudaError as error:
        raise SystemExit(str(error)) from None
    version = driver.driver().version
    capability = ".".join(map(str, gpu.compute_capability))
    print(f"{gpu.name}, compute capability {capability}, driver for CUDA {version // 1000}.{version % 1000 // 10}, "
          f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")  # fmt: skip
    table = Table("robot", "operation", "dtype", "layout", "states", "ns a state", "states/s", "TB/s", "error", "regs",
                  "local [B]", "build [s]")  # fmt: skip
    missed = []
    for row in measure_all(arguments.robots, arguments.states, arguments.seconds):
        label = f"{row['robot']} {row['operation']} {row['dtype']} {row['layout']}"
        table.add_row(
            row["robot"], row["operation"], row["dtype"], row["layout"], str(row["states"]), f"{row['ns']:.3f}",
            f"{row['rate']:.2e}", f"{1e-12 * row['bandwidth']:.2f}", "equal" if row["equal"] else f"{row['error']:.1e}",
            str(row["registers"]), str(row["local"]), f"{row['build']:.1f}",
        )  # fmt: skip
        if not (row["equal"] and row["flagged"]):
            missed.append(f"{label}: results differ from those of the CPU by {row['error']:.1e}, or NaN is not flagged")
        bars = MIN_RATES.get(row["operation"])
        if bars and row["robot"].startswith("go2") and any(card in gpu.name for card in BAR_CARDS):
            least = bars[row["dtype"] == "float64"]
            if row["rate"] < least:
                missed.append(f"{label}: {row['rate']:.2e} states/s, required {least:.1e}")
    Console(width=140).print(table)
    if not arguments.library:
        batches, missed_by_batches = measure_batches(arguments.robots_of_batches)
        Console(width=140).print(batches)
        missed += missed_by_batches
    torch_result = check_torch() if not arguments.library else "not compared"
    print(torch_result)
    missed += [torch_result] * ("DIFFER" in torch_result)
    print("\n".join(missed) or "all results agree with those of the CPU")
    if arguments.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
