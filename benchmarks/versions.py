"""Tests installations with the lowest and the newest versions of all dependencies on every available Python.

    python benchmarks/versions.py --check
    python benchmarks/versions.py --python 3.13 --resolution lowest-direct --tests tests/test_dynamics.py

uv creates each environment in a temporary folder.  "lowest-direct" installs the lowest versions that `pyproject.toml`
permits, and the newest versions of their own dependencies.  The exit code is 0 only if all jobs succeed in all
environments.
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

#: Small versions of the main jobs: loading and verifying a robot, kernels, controlled steps, a page, the command.
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
    """Tests the selected environments and prints a line for each; returns 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", nargs="*", default=PYTHONS, help="versions; those that are not installed are skipped"
    )
    parser.add_argument("--resolution", nargs="*", default=RESOLUTIONS, choices=RESOLUTIONS)
    parser.add_argument("--tests", nargs="*", default=(), help="also run these tests")
    parser.add_argument("--check", action="store_true", help="fail if only one Python version is installed")
    options = parser.parse_args()
    n_failed = n_tested = 0
    for version in options.python:
        python = find_interpreter(version)
        if python is None:
            print(f"{version}: not installed")
            continue
        for resolution in options.resolution:
            start = time.perf_counter()
            problem = check_environment(python, resolution, options.tests)
            print(f"{version} {resolution}: {problem or 'passed'} ({time.perf_counter() - start:.0f} s)", flush=True)
            n_failed += bool(problem)
            n_tested += 1
    return 1 if n_failed or n_tested == 0 or (options.check and n_tested <= len(options.resolution)) else 0


def find_interpreter(version: str) -> str | None:
    """Returns an interpreter of this version that runs: of pyenv, or on the path, where pyenv may have empty shims."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (*map(str, folder.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")):
        if candidate is not None and subprocess.run([candidate, "-V"], capture_output=True).returncode == 0:
            return candidate
    return None


def check_environment(python: str, resolution: str, tests: tuple[str, ...]) -> str:
    """Runs the jobs in a new environment; returns the error, "" if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        environment, environment_python = Path(folder) / "venv", Path(folder) / "venv" / "bin" / "python"
        uv = [sys.executable, "-m", "uv"]
        requirement = f"{ROOT}[test]" if tests else str(ROOT)
        steps = [
            [*uv, "venv", "-q", "--python", python, str(environment)],
            [*uv, "pip", "install", "-q", "--python", str(environment_python), "--resolution", resolution, requirement],
            [str(environment_python), "-W", "error::DeprecationWarning:quaddyn", "-c", JOBS],
            *([str(environment_python), "-m", "quaddyn", *command] for command in COMMANDS),
        ]
        if tests:
            steps.append([str(environment_python), "-m", "pytest", "-q", *(str(ROOT / test) for test in tests)])
        variables = os.environ | {"QUADDYN_CACHE": str(Path(folder) / "cache")}
        for step in steps:
            result = subprocess.run(step, cwd=folder, env=variables, capture_output=True, encoding="utf-8")
            if result.returncode:
                command = step[step.index("-m") + 1 :] if "-m" in step else step[:1]
                return f"{' '.join(command)[:60]}: {(result.stderr or result.stdout).strip()[-1500:]}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
