"""The command line, tested through its commands."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app, showing
from quaddyn.cli import robots as checking
from quaddyn.cli.options import with_new_names
from quaddyn.robot.catalogue import find_entry

runner = CliRunner()


@pytest.fixture(scope="module")
def loaded() -> Callable[..., qd.Robot]:
    """`load` with a cache: each robot of the catalogue is loaded once."""
    return functools.cache(qd.load)


def test_robots_command_lists_the_whole_catalogue_with_legs_and_feet(
    loaded: Callable[..., qd.Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "load", loaded)
    result = runner.invoke(app, ["robots", "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert set(rows) == set(qd.CATALOGUE)
    assert rows["go2"]["dof"] == 18
    assert rows["go2"]["legs"] == {"FL": 3, "FR": 3, "RL": 3, "RR": 3}
    assert rows["anymal_c"]["feet"]["RR"] == "RH_FOOT"
    assert rows["ur5"]["legs"] == {}


def test_robots_table_fits_eighty_columns_and_names_every_robot(
    loaded: Callable[..., qd.Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "load", loaded)
    result = runner.invoke(app, ["robots"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {name for name in qd.CATALOGUE if any(name in line.split() for line in lines)} == set(qd.CATALOGUE)


def test_check_prints_findings_with_file_and_line_and_every_algorithms_error() -> None:
    result = runner.invoke(app, ["check", "go2", "--samples", "2"])
    assert result.exit_code == 0
    assert 'go2.urdf:991: <link name="imu">' in result.stdout
    for algorithm in ("rnea", "crba", "aba", "coriolis", "regressor", "frame_drift"):
        assert f"\n{algorithm} " in result.stdout
    assert "accepted" in result.stdout


def test_check_options_set_missing_joint_parameters_before_the_comparison() -> None:
    options = ["--armature", "0.1", "--damping", "0.2", "--friction", "0.3", "--samples", "1"]
    result = runner.invoke(app, ["check", "anymal_c", *options, "--json"])
    (verdict,) = json.loads(result.stdout)
    assert result.exit_code == 0 and verdict["agreement"]["algorithms"]["energy"]["error"] < 1e-10
    assert "of every joint" in runner.invoke(app, ["check", "--help"], env={"COLUMNS": "200"}).stdout
    assert runner.invoke(app, ["check", "go2", "--armature", "-1"]).exit_code == 2


def test_check_rejects_with_exit_code_1_and_the_reason() -> None:
    human = find_entry("go2").path.parents[2] / "human_description/robots/human.urdf"
    result = runner.invoke(app, ["check", str(human), "--json"])
    assert result.exit_code == 1
    (verdict,) = json.loads(result.stdout)
    assert not verdict["accepted"]
    assert "has no mass" in verdict["reason"]


def test_check_strict_rejects_robots_with_warnings() -> None:
    assert runner.invoke(app, ["check", "go2", "--strict", "--samples", "0"]).exit_code == 1
    assert runner.invoke(app, ["check", "small_quadruped", "--strict", "--samples", "0"]).exit_code == 0


def test_check_against_another_file_names_the_link_that_differs(tmp_path: Path) -> None:
    copy = tmp_path / "copy.urdf"
    text = find_entry("go2").path.read_text(encoding="utf-8")
    copy.write_text(text.replace('ixx="0.00108"', 'ixx="0.00109"', 1), encoding="utf-8")
    result = runner.invoke(app, ["check", str(copy), "--against", "go2", "--samples", "1"])
    assert result.exit_code == 1
    assert "FL_calf: inertia differs" in result.stdout
    assert "FR_calf" not in result.stdout.partition("differs")[2]
    assert runner.invoke(app, ["check", str(copy), "--samples", "1"]).exit_code == 0


@pytest.mark.parametrize("robots", [pytest.param([*qd.CATALOGUE], marks=pytest.mark.slow), ["bolt", "ur5"]])
def test_check_all_validates_every_robot(robots: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CATALOGUE", {name: qd.CATALOGUE[name] for name in robots})
    result = runner.invoke(app, ["check", "--all", "--json", "--samples", "1"])
    assert result.exit_code == 0
    verdicts = json.loads(result.stdout)
    assert [v["source"] for v in verdicts] == robots
    assert all(v["passed"] and v["checks"]["RNEA(ABA) error"] < 1e-9 for v in verdicts)
    assert all(v["agreement"]["algorithms"]["rnea"]["error"] < 1e-9 for v in verdicts)


def test_names_that_look_like_markup_are_printed_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "odd.urdf"
    text = find_entry("two_link_leg").path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('name="hip"', 'name="h[/]ip:100:"').replace('name="two_link_leg"', 'name="[bold]leg"'),
        encoding="utf-8",
    )
    result = runner.invoke(app, ["check", str(path), "--samples", "1"])
    assert result.exit_code == 0, result.output
    assert "h[/]ip:100:" in result.stdout, "neither markup nor an emoji"
    assert "'[bold]leg'" in result.stdout
    demo = runner.invoke(app, ["demo", "--robot", str(path), "--headless", "--seconds", "0.5"])
    assert "[bold]leg: swing" in demo.stdout


@pytest.mark.parametrize("command", [["demo", "--headless", "--record"], ["view", "go2", "--record"]])
def test_page_that_cannot_be_written_is_rejected_before_the_run(command: list[str], tmp_path: Path) -> None:
    (folder := tmp_path / "folder.html").mkdir()
    for target in (folder, tmp_path / "none" / "out.html"):
        result = runner.invoke(app, [*command, str(target)])
        assert result.exit_code == 2
        # The message is printed in a box, whose line breaks depend on the length of the path.
        assert "cannot be written" in " ".join(result.output.replace("\u2502", " ").split())


def test_demo_runs_without_standard_input() -> None:
    result = subprocess.run(
        f"{sys.executable} -m quaddyn demo --seconds 0.2 <&-",
        shell=True,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "extra", "options"),
    [
        ("mujoco", "mujoco", ("--plant", "mujoco")),
        ("matplotlib.figure", "plot", ("--plot", "torques.png")),
    ],
)
def test_missing_extra_is_reported_before_anything_is_loaded(
    module: str, extra: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a robot was loaded")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(showing, "load", never)
    result = runner.invoke(app, ["demo", "--headless", *options])
    assert isinstance(result.exception, qd.QuaddynError)
    assert f"pip install 'quaddyn[{extra}]'" in str(result.exception)
    assert isinstance(runner.invoke(app, ["demo", "--plant", "moon"]).exception, qd.UnknownNameError)


@pytest.mark.parametrize(
    "words, warning",
    [
        (("codegen", "two_link_leg", "--what=nothing"), "--what is now --target"),
        (("log", "motors", "absent.qdlog"), "log motors is now log fit-actuators"),
        (("log", "export-mcap", "absent.qdlog"), "log export-mcap is now log mcap"),
        (("campaign", "resume", "absent.db", "--force"), "--force is now --ignore-mismatch"),
    ],
)
def test_old_options_and_commands_work_with_a_warning(words: tuple[str, ...], warning: str) -> None:
    found = CliRunner().invoke(app, words)
    assert f"warning: {warning}; the old name will be removed in the next version" in found.stderr
    assert isinstance(found.exception, qd.QuaddynError | OSError), found.output


def test_arguments_after_double_dash_are_not_options() -> None:
    assert with_new_names(["--old", "--", "--old"], {"--old": "--new"}) == ["--new", "--", "--old"]
