"""Every command's exit codes: 0 where all is well, 1 where a verdict is bad, 2 where it was misused."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn import agreement, demo, identification
from quaddyn.cli import app
from quaddyn.cli.doctor import Health
from quaddyn.demo.report import Check
from quaddyn.wbc import WholeBodyController, tick_file

runner = CliRunner()


def code(*arguments: object) -> int:
    return runner.invoke(app, [str(x) for x in arguments]).exit_code


def test_the_entry_point_ends_misuse_and_missing_files_with_2() -> None:
    """Errors leave the application as exceptions; `main` makes one line and a code of them."""
    script = """
import contextlib, io, sys
from quaddyn.cli import main
for arguments in (["leg", "ur5"], ["replay", "absent.npz"], ["identify", "absent.csv", "--robot", "go2"],
                  ["view", "nobody"], ["check"], ["codegen", "go2", "--what", "nothing"], ["excite", "go2"],
                  ["demo", "--robot", "nobody"], ["no such command"], ["robots", "--no-such-option"]):
    sys.argv = ["quaddyn", *arguments]
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
            ended = 0
        except SystemExit as end:
            ended = end.code
    assert ended == 2, (arguments, ended)
sys.argv = ["quaddyn", "--version"]
try:
    main()
except SystemExit as end:
    assert not end.code
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_names_that_the_output_cannot_spell_are_shown_by_their_codes(tmp_path: Path) -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "r.urdf"
    path.write_text(f'<robot name="r"><link name="gr\u00fcn">{inertial}<odd/></link></robot>', encoding="utf-8")
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "quaddyn", "check", str(path), "--samples", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=ascii_only, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "gr\\xfcn" in done.stdout


def test_robots_and_leg_and_view_and_codegen_end_with_0(tmp_path: Path) -> None:
    assert code("robots") == 0
    assert code("leg", "two_link_leg", "--samples", 5, "--json") == 0
    assert code("view", "two_link_leg", "--record", tmp_path / "page.html") == 0
    assert code("codegen", "two_link_leg", "--out", tmp_path) == 0
    assert code("excite", "two_link_leg", "--out", tmp_path / "x.csv", "--iterations", 1) == 0


def test_check_ends_with_1_where_an_algorithm_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code("check", "two_link_leg", "--samples", 1) == 0
    honest = qd.Dynamics.rnea
    monkeypatch.setattr(qd.Dynamics, "rnea", lambda *a, **k: honest(*a, **k) * (1.0 + 1e-9))
    assert code("check", "two_link_leg", "--samples", 1) == 1
    assert code("check", "two_link_leg", "--samples", 1, "--json") == 1
    assert code("check", "two_link_leg", "--samples", 0) == 0, "the guard alone"


@pytest.mark.parametrize("gait", [pytest.param("squat", marks=pytest.mark.slow), "stand"])
def test_demo_ends_with_1_where_a_check_or_the_reference_disagrees(gait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["demo", "--headless", "--robot", "small_quadruped", "--gait", gait, "--seconds", "0.2"]
    assert code(*arguments) == 0
    honest = agreement.cross_check

    def disagrees(*a: object, **k: object) -> object:
        found = honest(*a, **k)
        return dataclasses.replace(found, ratios={**found.ratios, "rnea": 2.0})

    with monkeypatch.context() as patch:
        patch.setattr(agreement, "cross_check", disagrees)
        assert code(*arguments) == 1
        assert json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)["passed"] is False
    for name in ("run", "travel"):
        real = getattr(demo, name)

        def bad(*a: object, real: object = real, **k: object) -> object:
            report = real(*a, **k)  # type: ignore[operator]
            return dataclasses.replace(report, checks={**report.checks, "bad": Check(1.0, 0.0, False, "1")})

        monkeypatch.setattr(demo, name, bad)
    assert code(*arguments) == 1
    assert code(*arguments, "--json") == 1


def test_replay_ends_with_1_where_the_answer_is_another(tmp_path: Path) -> None:
    robot, path = qd.load("small_quadruped"), tmp_path / "tick.npz"
    wbc = WholeBodyController(robot)
    wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
    wbc.save_tick(path)
    assert code("replay", path) == 0
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "digest"}
    arrays["answer.torque"] = arrays["answer.torque"] + 0.01
    np.savez(path, digest=tick_file.digest(arrays), **arrays)
    assert code("replay", path) == 1
    assert code("replay", path, "--json") == 1


def test_identify_ends_with_1_where_the_fit_did_not_converge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, rng = qd.load("two_link_leg", root="fixed"), np.random.default_rng(0)
    q, v, a = (rng.normal(size=(40, robot.nv)) for _ in range(3))
    oracle = qd.Dynamics(robot)
    tau = np.array([oracle.rnea(*x) + oracle.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
    path = tmp_path / "x.npz"
    identification.save(path, robot, identification.Samples(q, v, a, tau))
    arguments = ["identify", path, "--robot", "two_link_leg", "--root", "fixed", "--method", "least_squares"]
    assert code(*arguments) == 0
    real = identification.identify
    monkeypatch.setattr(identification, "identify", lambda *a, **k: dataclasses.replace(real(*a, **k), converged=False))
    assert code(*arguments) == 1
    assert code(*arguments, "--json") == 1


def test_doctor_ends_with_1_where_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Health({}, {}, {}, [], [], []).passed and not Health({}, {}, {}, [], [], ["wrong"]).passed
    monkeypatch.setenv("QUADDYN_CACHE", "/proc/nowhere")
    assert code("doctor", "--json") == 1
