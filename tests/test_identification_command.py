"""`quaddyn excite` and `quaddyn identify` as programs: files of every kind in, parameters in every format out."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.cli.console import use_one_linear_algebra_thread
from quaddyn.identification import Samples, save_samples


def read_motion(path: Path, robot: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """t, q, v and a of a file of `quaddyn excite`."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    t, q, v, a = np.split(table, np.cumsum([1, robot.nq, robot.nv]), axis=1)
    return t[:, 0], *map(np.ascontiguousarray, (q, v, a))


def run_program(*words: object, cwd: Path) -> tuple[str, float]:
    """Output of the `quaddyn` program, and its CPU time [s], with as many threads as linear algebra chooses."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "quaddyn", *map(str, words)], cwd=cwd, env=environment,
                          capture_output=True, encoding="utf-8", timeout=300.0)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_go2_is_excited_and_identified_from_8000_samples_within_10_seconds(tmp_path: Path) -> None:
    """Both commands choose the same root without an option, and the fit finds the simulated friction."""
    run_program("excite", "go2", "--out", "motion.csv", "--period", 20, "--rate", 400, "--iterations", 0, cwd=tmp_path)
    robot = qd.load("go2", root="fixed")
    _, q, v, a = read_motion(tmp_path / "motion.csv", robot)
    assert len(q) == 8000
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    tau = np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])
    tau += 0.3 * v + 0.2 * np.sign(v) + 0.05 * rng.standard_normal(v.shape)
    save_samples(tmp_path / "data.csv", robot, Samples(q, v, a, tau))
    text, seconds = run_program("identify", "data.csv", "--robot", "go2", "--json", cwd=tmp_path)
    assert seconds < 10.0
    found = json.loads(text)
    assert found["converged"] and found["samples"] == 6400 and found["inconsistent"] == []
    for joint in robot.actuated:
        assert abs(found["parameters"][f"fv {joint}"] - 0.3) < 0.03
        assert abs(found["parameters"][f"fc {joint}"] - 0.2) < 0.03


def test_linear_algebra_of_commands_uses_one_thread() -> None:
    assert use_one_linear_algebra_thread()
