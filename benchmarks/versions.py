"""Tests installations with the lowest and the newest versions of all dependencies on every available Python.

    python benchmarks/versions.py --check
    python benchmarks/versions.py --python 3.13 --resolution lowest-direct --tests tests/test_dynamics.py

Each environment is made by uv in a folder of its own and thrown away.  "lowest-direct" is what `pyproject.toml` says at
least; what those packages need themselves is the newest.  Ends with exit code 0 only if every job is done everywhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = ("lowest-direct", "highest")

#: The main jobs, small: a robot read and judged, kernels, a controlled step, a page, the command.
JOBS = """
import pathlib, tempfile
import numpy as np
import quaddyn as qd
from quaddyn.viewer import Viewer

robot = qd.load("small_quadruped")
dyn, fast = qd.Dynamics(robot), qd.compile(robot, ("rnea",))
q, v, a = robot.q_home, np.full(robot.nv, 0.1), np.ones(robot.nv)
np.testing.assert_allclose(fast.rnea(q, v, a), dyn.rnea(q, v, a), rtol=1e-9, atol=1e-9)
sim, wbc = qd.Simulation(robot), qd.WholeBodyController(robot)
for _ in range(20):
    command = wbc.compute(dyn.update(sim.q, sim.v))
    assert command.status.ok, command.status
    sim.step(command.tau)
assert qd.cross_check(robot, samples=1).passed
with tempfile.TemporaryDirectory() as folder, Viewer(robot, serve=False) as viewer:
    viewer.show(robot.q_home)
    viewer.record(pathlib.Path(folder) / "page.html")
"""
COMMANDS = (("--version",), ("--help",), ("check", "--help"), ("check", "two_link_leg", "--samples", "1"))


def main() -> int:
    """Make every environment asked for; print one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="*", default=PYTHONS, help="versions; those that are not here are skipped")
    parser.add_argument("--resolution", nargs="*", default=RESOLUTIONS, choices=RESOLUTIONS)
    parser.add_argument("--tests", nargs="*", default=(), help="run these tests too")
    parser.add_argument("--check", action="store_true", help="fail where no Python but this one is at hand")
    options = parser.parse_args()
    failed = done = 0
    for version in options.python:
        python = interpreter(version)
        if python is None:
            print(f"{version}: not here")
            continue
        for resolution in options.resolution:
            start = time.perf_counter()
            problem = attempt(python, resolution, options.tests)
            print(f"{version} {resolution}: {problem or 'well'} ({time.perf_counter() - start:.0f} s)", flush=True)
            failed += bool(problem)
            done += 1
    return 1 if failed or done == 0 or (options.check and done <= len(options.resolution)) else 0


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: among those of pyenv, or on the path (where pyenv may have empty shims)."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (*map(str, folder.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")):
        if found is not None and subprocess.run([found, "-V"], capture_output=True).returncode == 0:
            return found
    return None


def attempt(python: str, resolution: str, tests: tuple[str, ...]) -> str:
    """What goes wrong in a new environment; "" where nothing does."""
    with tempfile.TemporaryDirectory() as place:
        environment, own = Path(place) / "venv", Path(place) / "venv" / "bin" / "python"
        uv = [sys.executable, "-m", "uv"]
        what = f"{ROOT}[test]" if tests else str(ROOT)
        steps = [
            [*uv, "venv", "-q", "--python", python, str(environment)],
            [*uv, "pip", "install", "-q", "--python", str(own), "--resolution", resolution, what],
            [str(own), "-W", "error::DeprecationWarning:quaddyn", "-c", JOBS],
            *([str(own), "-m", "quaddyn", *words] for words in COMMANDS),
        ]
        if tests:
            steps.append([str(own), "-m", "pytest", "-q", *(str(ROOT / test) for test in tests)])
        aside = os.environ | {"QUADDYN_CACHE": str(Path(place) / "cache")}
        for step in steps:
            done = subprocess.run(step, cwd=place, env=aside, capture_output=True, encoding="utf-8")
            if done.returncode:
                words = step[step.index("-m") + 1 :] if "-m" in step else step[:1]
                return f"{' '.join(words)[:60]}: {(done.stderr or done.stdout).strip()[-1500:]}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
