"""Measures the CPU time of processes that start with empty caches and with the caches of an earlier process.

    python benchmarks/cold_start.py --check
    python benchmarks/cold_start.py --checkout DIR    # measures another checkout of this package

Two commands are measured, each in a fresh process with separate, empty cache folders: the first whole-body torque of
Go2 (load, `Dynamics`, controller, one tick), and ``quaddyn demo --headless`` for two simulated seconds, in which the
robot stands up and trots.  Each command is then repeated with the caches that the first process filled; the minimum
over the repetitions is printed.  The limits of `JOBS` are for the CPU time (user and system, all threads and child
processes); wall-clock time and peak memory are printed beside it.  Python's byte code is compiled beforehand, as in an
installed package.

The time of imports is measured in one more process with filled caches by ``python -X importtime``, late imports
included.  For the demo, the time of its ticks according to its report is printed, too; it is part of the CPU time.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_wbc import cpu

ROOT = Path(__file__).resolve().parents[1]

#: Program that computes the first whole-body torque.
TORQUE = """
import json
import numpy as np
import quaddyn as qd
robot = qd.load("go2")
dynamics, controller = qd.Dynamics(robot), qd.WholeBodyController(robot)
command = controller.compute(dynamics.update(robot.q_home, np.zeros(robot.nv)))
print(json.dumps({"passed": command.status.ok, "tau": command.tau.tolist()}))
"""


@dataclass(frozen=True)
class Job:
    """Command and its maximum CPU time [s] with empty (`max_cold_time`) and with filled caches (`max_warm_time`)."""

    title: str
    arguments: tuple[str, ...]
    max_cold_time: float
    max_warm_time: float


#: Arguments of Python for the demo.
DEMO = ("-m", "quaddyn", "demo", "--headless", "--json", "--seconds", "2")
JOBS = {
    "torque": Job("first whole-body torque", ("-c", TORQUE), 4.0, 0.8),
    "demo": Job("demo, 2 s simulated", DEMO, 7.0, 1.8),
}


@dataclass(frozen=True)
class ProcessUsage:
    """CPU and wall-clock time [s], peak memory [MiB], and output of a process."""

    cpu: float
    wall: float
    memory: float
    out: str
    err: str

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} CPU s  {self.wall:6.2f} s  {self.memory:4.0f} MiB"


def run_process(arguments: tuple[str, ...], env: dict[str, str], folder: Path) -> ProcessUsage:
    """Runs a process to its end.

    Raises:
        RuntimeError: The exit code of the process is not 0.
    """
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], env=env, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        run_usage = ProcessUsage(
            usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024.0, out.read(), err.read()
        )
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {process.returncode}: {run_usage.err[-400:]}")
    return run_usage


def sum_import_times(listing: str) -> tuple[float, str]:
    """Returns the time of all imports in a listing of ``-X importtime`` [s], and the four slowest packages."""
    total, packages = 0.0, {}
    for line in listing.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if not line.startswith("import time:") or not parts[0].strip().isdigit():
            continue
        seconds = 1e-6 * int(parts[0])
        total += seconds
        package = parts[2].strip().split(".")[0]
        packages[package] = packages.get(package, 0.0) + seconds
    longest = sorted(packages.items(), key=lambda item: -item[1])[:4]
    return total, ", ".join(f"{name} {seconds:.2f}" for name, seconds in longest)


def measure_job(job: Job, checkout: Path, repeats: int) -> list[str]:
    """Measures and prints the times of a job; returns the missed requirements."""
    missed = []
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPATH": str(checkout), "HOME": folder_name, "XDG_CACHE_HOME": str(folder / "xdg")}
        for name in ("QUADDYN_CACHE", "NUMBA_CACHE_DIR"):
            (folder / name).mkdir(mode=0o700)
            env[name] = str(folder / name)
        cold_run = run_process(job.arguments, env, folder)
        warm_run = min(
            (run_process(job.arguments, env, folder) for _ in range(repeats)), key=lambda run_usage: run_usage.cpu
        )
        import_run = run_process(("-X", "importtime", *job.arguments), env, folder)
        size = sum(file.stat().st_size for name in ("QUADDYN_CACHE", "NUMBA_CACHE_DIR", "xdg")
                   for file in (folder / name).rglob("*") if file.is_file())  # fmt: skip
    for title, run_usage, max_time in (
        ("empty caches", cold_run, job.max_cold_time),
        ("filled caches", warm_run, job.max_warm_time),
    ):
        print(f"{job.title:26s} {title:14s} {run_usage}  (limit {max_time:g} CPU s)")
        if run_usage.cpu > max_time:
            missed.append(f"{job.title}, {title}: {run_usage.cpu:.2f} > {max_time:g} CPU s")
        if not json.loads(run_usage.out)["passed"]:
            missed.append(f"{job.title}, {title}: the checks of the program fail")
    total, longest = sum_import_times(import_run.err)
    line = f"{'':26s} imports {total:.2f} s ({longest}); caches on disk {size / 2**20:.1f} MiB"
    report = json.loads(warm_run.out)
    if "steps_per_second" in report:
        line += f"; {report['steps']} steps {report['steps'] / report['steps_per_second']:.2f} s"
    print(line, flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS), help="commands that are measured")
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, metavar="DIR", help="checkout that is measured (default: this one)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="number of runs with filled caches (default 3)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{cpu()}; Python {platform.python_version()}")
    checkout = options.checkout.resolve()
    compileall.compile_dir(checkout / "quaddyn", quiet=2)
    missed = [line for name in options.jobs for line in measure_job(JOBS[name], checkout, options.repeats)]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
