"""Measures the start-up time of processes with empty caches and of the processes after them.

    python benchmarks/cold_start.py --check
    python benchmarks/cold_start.py --checkout DIR    # of another checkout of this package

Two commands, each in a fresh process with cache folders of its own that are empty: the first whole-body torque of Go2
(load, Dynamics, controller, one tick), and ``quaddyn demo --headless`` for two simulated seconds, in which it rises and
trots.  Then the same again with what the first process kept, the least of some runs.  Seconds of the processor (user
and system, all threads and children) are what the bars are about; beside them the wall clock, and the most memory.
Python's own byte code is there from the start, as it is in a package that was installed.

What importing takes is measured in one more process that finds everything, by ``python -X importtime``, late imports
included; of the demo also what its ticks take by its own report, which is part of its seconds.
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

HERE = Path(__file__).resolve().parents[1]

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
    """A command and the seconds of the processor that it may take: on nothing, and with what a first run kept."""

    title: str
    arguments: tuple[str, ...]
    cold: float
    warm: float


DEMO = ("-m", "quaddyn", "demo", "--headless", "--json", "--seconds", "2")
JOBS = {
    "torque": Job("first whole-body torque", ("-c", TORQUE), 6.0, 1.5),
    "demo": Job("demo, 2 s simulated", DEMO, 10.0, 3.0),
}


@dataclass(frozen=True)
class ProcessUsage:
    """Seconds of the processor and of the clock, most memory [MiB], and what was said."""

    cpu: float
    wall: float
    memory: float
    out: str
    err: str

    def __str__(self) -> str:
        return f"{self.cpu:6.2f} CPU s  {self.wall:6.2f} s  {self.memory:4.0f} MiB"


def run_process(arguments: tuple[str, ...], env: dict[str, str], folder: Path) -> ProcessUsage:
    """One process, run to its end.

    Raises:
        RuntimeError: it failed.
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


def importing(listing: str) -> tuple[float, str]:
    """Seconds of all imports in what ``-X importtime`` said, and the packages that took most."""
    total, packages = 0.0, {}
    for line in listing.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if not line.startswith("import time:") or not parts[0].strip().isdigit():
            continue
        seconds = 1e-6 * int(parts[0])
        total += seconds
        top = parts[2].strip().split(".")[0]
        packages[top] = packages.get(top, 0.0) + seconds
    first = sorted(packages.items(), key=lambda item: -item[1])[:4]
    return total, ", ".join(f"{name} {seconds:.2f}" for name, seconds in first)


def measure_job(job: Job, checkout: Path, repeats: int) -> list[str]:
    """Measures and prints the times of a job; returns the limits that are exceeded."""
    missed = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPATH": str(checkout), "HOME": place, "XDG_CACHE_HOME": str(folder / "xdg")}
        for name in ("QUADDYN_CACHE", "NUMBA_CACHE_DIR"):
            (folder / name).mkdir(mode=0o700)
            env[name] = str(folder / name)
        cold = run_process(job.arguments, env, folder)
        kept = min(
            (run_process(job.arguments, env, folder) for _ in range(repeats)), key=lambda run_usage: run_usage.cpu
        )
        listed = run_process(("-X", "importtime", *job.arguments), env, folder)
        size = sum(file.stat().st_size for name in ("QUADDYN_CACHE", "NUMBA_CACHE_DIR", "xdg")
                   for file in (folder / name).rglob("*") if file.is_file())  # fmt: skip
    for title, run_usage, bar in (("nothing kept", cold, job.cold), ("after that", kept, job.warm)):
        print(f"{job.title:26s} {title:14s} {run_usage}  (bar {bar:g} CPU s)")
        if run_usage.cpu > bar:
            missed.append(f"{job.title}, {title}: {run_usage.cpu:.2f} > {bar:g} CPU s")
        if not json.loads(run_usage.out)["passed"]:
            missed.append(f"{job.title}, {title}: its own checks do not hold")
    total, first = importing(listed.err)
    line = f"{'':26s} imports {total:.2f} s ({first}); kept on disk {size / 2**20:.1f} MiB"
    report = json.loads(kept.out)
    if "steps_per_second" in report:
        line += f"; {report['steps']} steps {report['steps'] / report['steps_per_second']:.2f} s"
    print(line, flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--checkout", type=Path, default=HERE, metavar="DIR", help="whose package (default: this one)")
    parser.add_argument("--repeats", type=int, default=3, help="runs with what was kept (default 3)")
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
