"""The command line, tested through its commands."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console
from test_runtime_log import tick
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn import demo, identification, runtime, verification
from quaddyn.__main__ import main as start
from quaddyn.campaigns import campaign
from quaddyn.cli import app, main, robots, showing
from quaddyn.cli.app import print_error
from quaddyn.cli.doctor import Health
from quaddyn.cli.options import with_new_names
from quaddyn.demo.report import DemoCheck, RequestedValue
from quaddyn.robot.catalogue import find_entry
from quaddyn.runtime.preflight_report import PreflightCheck, PreflightReport
from quaddyn.runtime.run_log import LogReplay, RunLog
from quaddyn.verification import check, cross_check
from quaddyn.wbc import WholeBodyController, tick_file

runner = CliRunner()


@pytest.fixture(scope="module")
def loaded() -> Callable[..., qd.Robot]:
    """`load` with a cache: each robot of the catalogue is loaded once."""
    return functools.cache(qd.load)


def test_robots_command_lists_the_whole_catalogue_with_legs_and_feet(
    loaded: Callable[..., qd.Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots, "load", loaded)
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
    monkeypatch.setattr(robots, "load", loaded)
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
    assert "FR_calf" not in result.stdout.partition("differs")[2].rpartition("failed: ")[0]
    assert "failed: differences in FL_calf; different results of " in result.stdout
    assert runner.invoke(app, ["check", str(copy), "--samples", "1"]).exit_code == 0


@pytest.mark.parametrize("names", [pytest.param([*qd.CATALOGUE], marks=pytest.mark.slow), ["bolt", "ur5"]])
def test_check_all_validates_every_robot(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "CATALOGUE", {name: qd.CATALOGUE[name] for name in names})
    result = runner.invoke(app, ["check", "--all", "--json", "--samples", "1"])
    assert result.exit_code == 0
    verdicts = json.loads(result.stdout)
    assert [v["source"] for v in verdicts] == names
    assert all(v["passed"] and v["checks"]["RNEA(ABA) error"] < 1e-9 for v in verdicts)
    assert all(v["agreement"]["algorithms"]["rnea"]["error"] < 1e-9 for v in verdicts)


@pytest.fixture(scope="module")
def robot_in_grams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quadruped whose masses are in grams; the name of the file needs quotes in a shell."""
    path = tmp_path_factory.mktemp("grams") / "a robot.urdf"
    text = find_entry("small_quadruped").path.read_text(encoding="utf-8")
    path.write_text(re.sub('mass value="([^"]+)"', lambda m: f'mass value="{1e3 * float(m[1]):g}"', text), "utf-8")
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--headless", "--seconds", "0.1", "--json", "--robot", "ROBOT"),
        ("view", "ROBOT", "--record", "page.html"),
        ("leg", "ROBOT", "--json", "--samples", "1"),
        ("codegen", "ROBOT", "--target", "rnea", "--out", "code"),
        ("excite", "ROBOT", "--out", "motion.csv", "--iterations", "0"),
        ("convert", "ROBOT", "--out", "other.urdf"),
        ("campaign", "gaits", "--robot", "ROBOT", "--workers", "0"),
        ("datasheet", "ROBOT", "--only", "none", "--workers", "0"),
    ],
)
def test_every_command_prints_warnings_of_the_model_on_stderr(
    arguments: tuple[str, ...], robot_in_grams: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("quaddyn.campaigns.run", interrupt)
    errors = {}
    for robot in (str(robot_in_grams), "small_quadruped"):
        result = runner.invoke(app, [robot if x == "ROBOT" else x for x in arguments])
        errors[robot] = result.stderr
    assert "seem to be in grams" in errors[str(robot_in_grams)]
    assert f"quaddyn check {shlex.quote(str(robot_in_grams))}" in errors[str(robot_in_grams)]
    assert "quaddyn check" not in errors["small_quadruped"]


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
    monkeypatch.setattr(showing, "load_robot", never)
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


# -- behavior of the command line -------------------------------------------------------------------------------------
def run_command(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["quaddyn", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def test_minus_h_prints_help_and_shells_complete_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ([], ["demo"], ["check"], ["leg"], ["identify"], ["campaign"]):
        code, said, _ = run_command([*command, "-h"], monkeypatch, capsys)
        assert code == 0 and "Usage" in said and "--help" in said
    assert "--show-completion" in run_command(["-h"], monkeypatch, capsys)[1]


def test_help_texts_contain_units(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = run_command(["demo", "--help"], monkeypatch, capsys)[1]
    assert "[m/s]" in said and "[rad/s]" in said and "[s]" in said
    assert "[N m]" in run_command(["identify", "--help"], monkeypatch, capsys)[1]
    said = run_command(["campaign", "slopes", "--help"], monkeypatch, capsys)[1]
    assert "[sqrt(g l)]" in said and "[default: 10]" in said


@pytest.mark.parametrize(
    ("arguments", "kind", "word"),
    [
        (["check", "nonesuch", "--json"], "UnknownNameError", "nonesuch"),
        (["check", "--json"], "BadParameter", "NAME"),
        (["replay", "none.npz", "--json"], "MissingFileError", "none.npz"),
        (["demo", "--json", "--port", "99999"], "BadParameter", "65535"),
        (["demo", "--json", "--no-such-option"], "NoSuchOption", "--no-such-option"),
        (["demo", "--json", "--headless", "--plant", "bullet"], "UnknownNameError", "bullet"),
        (["leg", "ur5", "--json"], "ArgumentError", "no legs"),
    ],
)
def test_errors_are_json_with_the_option_json(
    arguments: list[str], kind: str, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = run_command(arguments, monkeypatch, capsys)
    answer = json.loads(said)
    assert code == answer["exit_code"] == 2
    assert answer["error"]["type"] == kind and word in answer["error"]["message"]


def test_an_interrupt_exits_with_130_after_printing_the_results_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judged, judge = [], robots.validate

    def twice(name: str, **options: object) -> object:
        judged.append(name)
        if len(judged) > 2:
            raise KeyboardInterrupt
        return judge(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(robots, "validate", twice)
    code, said, errors = run_command(["check", "--all", "--samples", "0"], monkeypatch, capsys)
    assert code == 130 and judged[0][:4] in said and judged[1] in said and "interrupted" in errors
    monkeypatch.setattr(robots, "validate", lambda name, **options: (_ for _ in ()).throw(KeyboardInterrupt))
    code, said, _ = run_command(["check", "go2", "--json"], monkeypatch, capsys)
    assert code == 130 and json.loads(said)["error"]["message"] == "interrupted"


def test_an_interrupted_demo_reports_the_run_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quaddyn.demo.locomotion_run import LocomotionRun

    tick = LocomotionRun.tick

    def ticks(self: LocomotionRun, *arguments: Any) -> object:
        if self.ticks >= 100:
            raise KeyboardInterrupt
        return tick(self, *arguments)

    monkeypatch.setattr(LocomotionRun, "tick", ticks)
    code, said, _ = run_command(["demo", "--headless", "--json", "--seconds", "3000"], monkeypatch, capsys)
    report = json.loads(said)
    assert code == 130 and report["interrupted"] is True and report["steps"] == 100


def test_interrupt_during_imports_exits_with_130_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "quaddyn.cli", Slow("quaddyn.cli"))
    with pytest.raises(SystemExit) as stopped:
        start()
    assert stopped.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_the_largest_difference_is_listed_first() -> None:
    go1, go2 = qd.load("go1"), qd.load("go2")
    agreement = cross_check(go2, samples=1, source=go1.source)
    quantities = [d.quantity for d in agreement.deviations]
    assert quantities[0] in ("mass", "inertia", "center of mass", "placement", "axis")
    assert "mass" in quantities and quantities[-1] == "frame"
    frames = [i for i, q in enumerate(quantities) if q == "frame"]
    assert frames == list(range(frames[0], len(quantities)))
    lines = str(agreement).splitlines()
    assert lines[1].startswith("DIFFERS") and "differs by inf" not in str(agreement)


def test_only_the_word_error_is_colored(monkeypatch: pytest.MonkeyPatch) -> None:
    said = StringIO()
    console = Console(file=said, force_terminal=True, color_system="standard", width=40)
    monkeypatch.setitem(print_error.__globals__, "err", console)
    print_error(qd.ArgumentError("q: expected 19 numbers from 'here', got [1.5, None] of http://x/y, that is all"))
    message = "q: expected 19 numbers from 'here', got [1.5, None] of http://x/y, that is all"
    assert said.getvalue() == f"\x1b[1;31merror:\x1b[0m {message}\n"


# -- exit codes of every command --------------------------------------------------------------------------------------


def exit_code(*arguments: object) -> int:
    return runner.invoke(app, [str(x) for x in arguments]).exit_code


def exit_code_of_main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Exit code of the program, run in this process."""
    monkeypatch.setattr(sys, "argv", ["quaddyn", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code is None or type(end.value.code) is int
    return end.value.code or 0


def commands() -> set[tuple[str, ...]]:
    """All commands, as tuples of words."""
    found, ahead = set(), [((), typer.main.get_command(app))]
    while ahead:
        words, command = ahead.pop()
        if hasattr(command, "list_commands"):
            ahead += [((*words, name), command.get_command(None, name)) for name in command.list_commands(None)]
        else:
            found.add(words)
    return found


#: Invalid arguments, for every command whose misuse is not a missing file.
MISUSED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("robots",): ("--no-such-option",),
    ("check",): (),
    ("view",): ("missing_robot",),
    ("demo",): ("--robot", "missing_robot"),
    ("leg",): ("ur5",),
    ("datasheet",): ("go2", "--only", "nothing", "--workers", "0"),
    ("excite",): ("go2",),
    ("preflight",): ("go2", "--udp", "here"),
    ("codegen",): ("go2", "--target", "nothing"),
    ("doctor",): ("--no-such-option",),
    **{("campaign", name): ("--no-such-option",) for name in campaign.names()},
    ("no such command",): (),
}


@pytest.mark.parametrize("command", MISUSED, ids=" ".join)
def test_misuse_exits_with_2(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of_main(monkeypatch, *command, *MISUSED[command]) == 2
    said = capsys.readouterr()
    assert said.err and not said.out


#: Commands with a file that does not exist, for each option and argument that names a file to read.
MISSING_FILES = [
    "codegen two_link_leg --out absent.c",  # is a folder
    *(f"{command} absent.urdf" for command in ("check", "view", "convert", "leg", "codegen", "preflight")),
    "check absent",
    "check go2 --against absent.urdf",
    "excite absent.urdf --out x.csv",
    "demo --headless --robot absent.urdf",
    "datasheet absent.urdf --workers 0",
    "datasheet go2 --compare absent.urdf --only slope --workers 0",
    "campaign gaits --robot absent.urdf --workers 0",
    "identify absent.csv --robot two_link_leg",
    "replay absent.npz",
    "replay absent.db#1",
    "log view absent.npz --robot go2",
    "log compare absent.qdlog absent.qdlog",
    *(f"log {name} absent.qdlog" for name in ("show", "plot", "view", "replay", "fit-actuators")),
    *(f"log {name} absent.qdlog" for name in ("csv", "parquet", "mcap")),
    *(f"campaign {name} absent.db" for name in ("resume", "show", "export --csv x.csv")),
]


def test_every_command_has_a_misuse_case() -> None:
    starts = {tuple(words.split()[:n]) for words in MISSING_FILES for n in (1, 2)} | set(MISUSED)
    assert commands() <= starts


@pytest.mark.parametrize("words", MISSING_FILES)
def test_missing_files_exit_with_2_and_are_named(
    words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of_main(monkeypatch, *words.split()) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ") and "absent" in said.err and not said.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [(), ("campaign",), ("log",)])
def test_incomplete_commands_print_help_and_exit_with_2(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of_main(monkeypatch, *words) == 2
    assert "Usage" in "".join(capsys.readouterr())


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("campaign", "--help"), ("log", "compare", "--help")])
def test_successful_commands_exit_with_0(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of_main(monkeypatch, *words) == 0
    assert (capsys.readouterr().out.strip() == qd.__version__) == (words == ("--version",))


def interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("quaddyn.cli.robots.load", ("robots",)),
        ("quaddyn.cli.showing.load_robot", ("view", "go2")),
        ("quaddyn.kinematics.survey_leg", ("leg", "go2")),
        ("quaddyn.runtime.preflight", ("preflight", "go2")),
        ("quaddyn.identification.exciting_trajectory", ("excite", "ur5", "--out", "x.csv")),
        ("quaddyn.campaigns.datasheet.measure", ("datasheet", "go2", "--workers", "0")),
        ("quaddyn.campaigns.run", ("campaign", "gaits", "--workers", "0")),
    ],
)
def test_interrupt_exits_with_130(
    where: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(where, interrupt)
    assert exit_code_of_main(monkeypatch, *arguments) == 130
    assert "interrupted" in capsys.readouterr().err


def test_names_that_the_output_cannot_encode_are_escaped(tmp_path: Path) -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "r.urdf"
    path.write_text(f'<robot name="r"><link name="gr\u00fcn">{inertial}<odd/></link></robot>', encoding="utf-8")
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "quaddyn", "check", str(path), "--samples", "0"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=ascii_only, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "gr\\xfcn" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "excite two_link_leg --out FILE.npz",
        "excite two_link_leg --out FILE",
        "identify x.csv --robot ur5 --out FILE.csv",
        "identify x.csv --robot ur5 --out x.json --actuators FILE.urdf",
        "log plot x.qdlog --out FILE.csv",
        "log csv x.qdlog --out FILE.npz",
        "log parquet x.qdlog --out FILE.csv",
        "log mcap x.qdlog --out FILE.csv",
        "log fit-actuators x.qdlog --out FILE.csv",
        "log view x.qdlog --record FILE.mp4",
        "view go2 --record FILE.png",
        "leg go2 --record FILE.png",
        "demo --record FILE.mp4",
        "demo --video FILE.html",
        "demo --plot FILE.csv",
        "replay x.db#1 --record FILE.png",
        "campaign export x.db --csv FILE.parquet",
        "campaign export x.db --parquet FILE.csv",
        "datasheet go2 --out FILE.png",
        "convert go2 --out FILE.json",
    ],
)
def test_files_with_another_ending_are_rejected_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    arguments = words.replace("FILE", str(tmp_path / "out")).split()
    assert exit_code_of_main(monkeypatch, *arguments) == 2
    assert "expected a file name that ends in ." in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_robots_leg_view_codegen_and_excite_exit_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "CATALOGUE", {"two_link_leg": qd.CATALOGUE["two_link_leg"]})
    assert exit_code("robots") == 0
    assert exit_code("leg", "two_link_leg", "--samples", 5, "--json") == 0
    assert exit_code("view", "two_link_leg", "--record", tmp_path / "page.html") == 0
    assert exit_code("codegen", "two_link_leg", "--out", tmp_path) == 0
    assert exit_code("excite", "two_link_leg", "--out", tmp_path / "x.csv", "--iterations", 1) == 0


def test_check_exits_with_1_if_an_algorithm_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code("check", "two_link_leg", "--samples", 1) == 0
    original = qd.Dynamics.rnea
    monkeypatch.setattr(qd.Dynamics, "rnea", lambda *a, **k: original(*a, **k) * (1.0 + 1e-9))
    assert exit_code("check", "two_link_leg", "--samples", 1) == 1
    assert exit_code("check", "two_link_leg", "--samples", 1, "--json") == 1
    assert exit_code("check", "two_link_leg", "--samples", 0) == 0, "validation alone"


@pytest.mark.parametrize("options", [["two_link_leg"], ["two_link_leg", "--json"], ["--all"]])
def test_check_exits_with_1_if_only_the_reference_rejects_a_robot(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = check.read_reference

    def read(robot: qd.Robot, *rest: object) -> object:
        if robot.name == "two_link_leg":
            raise qd.ModelError("not readable")
        return original(robot, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "read_reference", read)
    monkeypatch.setattr(robots, "CATALOGUE", ("two_link_leg", "planar_3r"))
    assert exit_code("check", "planar_3r", "--samples", 1) == 0
    assert exit_code("check", *options, "--samples", 1) == 1


@pytest.mark.parametrize("gait", [pytest.param("squat", marks=pytest.mark.slow), "stand"])
def test_demo_exits_with_1_if_a_check_or_the_reference_disagrees(gait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["demo", "--headless", "--robot", "small_quadruped", "--gait", gait, "--seconds", "0.2"]
    made: dict[str, object] = {}

    def once(name: str, original: Callable[..., object]) -> Callable[..., object]:
        """The function with its first result cached: motion and comparison are the same in every call."""

        def call(*a: object, **k: object) -> object:
            if name not in made:
                made[name] = original(*a, **k)
            return made[name]

        return call

    for name in ("run_squat_demo", "run_locomotion_demo"):
        monkeypatch.setattr(demo, name, once(name, getattr(demo, name)))
    monkeypatch.setattr(verification, "cross_check", once("cross_check", verification.cross_check))
    assert exit_code(*arguments) == 0 and len(made) == 2
    asked = RequestedValue("jump forward", 5.0, 4.4, "m", "torque of a joint")
    with monkeypatch.context() as patch:
        for name in ("run_squat_demo", "run_locomotion_demo"):
            one = made.get(name, made.get("run_locomotion_demo", made.get("run_squat_demo")))
            cut = dataclasses.replace(one, requests=(asked,))  # type: ignore[type-var]
            patch.setattr(demo, name, lambda *a, cut=cut, **k: cut)
        found = runner.invoke(app, arguments)
        assert found.exit_code == 3 and "limits reduced the request: jump forward" in found.stdout
        shown = json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)
        assert shown["passed"] is True and shown["requests"][0]["is_reduced"] is True
    assert not asked._replace(planned=4.6).is_reduced, "a reduction by less than a tenth is accepted"
    original = verification.cross_check

    def disagrees(*a: object, **k: object) -> object:
        found = original(*a, **k)
        return dataclasses.replace(found, ratios={**found.ratios, "rnea": 2.0})

    with monkeypatch.context() as patch:
        patch.setattr(verification, "cross_check", disagrees)
        assert exit_code(*arguments) == 1
        assert json.loads(runner.invoke(app, [*arguments, "--json"]).stdout)["passed"] is False
    for name in ("run_squat_demo", "run_locomotion_demo"):
        real = getattr(demo, name)

        def bad(*a: object, real: object = real, **k: object) -> object:
            report = real(*a, **k)  # type: ignore[operator]
            return dataclasses.replace(report, checks={**report.checks, "bad": DemoCheck(1.0, 0.0, False, "1")})

        monkeypatch.setattr(demo, name, bad)
    assert exit_code(*arguments) == 1
    assert exit_code(*arguments, "--json") == 1


def test_replay_exits_with_1_if_the_solution_differs(tmp_path: Path) -> None:
    robot, path = qd.load("small_quadruped"), tmp_path / "tick.npz"
    wbc = WholeBodyController(robot)
    wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
    wbc.save_tick(path)
    assert exit_code("replay", path) == 0
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "digest"}
    arrays["answer.torque"] = arrays["answer.torque"] + 0.01
    np.savez(path, digest=tick_file.digest(arrays), **arrays)
    assert exit_code("replay", path) == 1
    assert exit_code("replay", path, "--json") == 1


def test_identify_exits_with_1_if_the_fit_did_not_converge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, rng = qd.load("two_link_leg", root="fixed"), np.random.default_rng(0)
    q, v, a = (rng.normal(size=(40, robot.nv)) for _ in range(3))
    oracle = qd.Dynamics(robot)
    tau = np.array([oracle.rnea(*x) + oracle.joint_friction(x[1]) for x in zip(q, v, a, strict=True)])
    path = tmp_path / "x.npz"
    identification.save_samples(path, robot, identification.Samples(q, v, a, tau))
    arguments = ["identify", path, "--robot", "two_link_leg", "--root", "fixed", "--method", "least_squares"]
    assert exit_code(*arguments) == 0
    real = identification.identify
    monkeypatch.setattr(identification, "identify", lambda *a, **k: dataclasses.replace(real(*a, **k), converged=False))
    assert exit_code(*arguments) == 1
    assert exit_code(*arguments, "--json") == 1


def test_doctor_exits_with_1_if_there_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Health({}, {}, {}, [], [], []).passed and not Health({}, {}, {}, [], [], ["wrong"]).passed
    monkeypatch.setenv("QUADDYN_CACHE", "/proc/nowhere")
    assert exit_code("doctor", "--json") == 1


def test_preflight_exits_with_1_if_a_check_failed_or_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for passed, wanted in ((True, 0), (False, 1), (None, 1)):
        report = PreflightReport((PreflightCheck("limits", passed, "found"),))
        monkeypatch.setattr(runtime, "preflight", lambda *a, report=report, **k: report)
        assert exit_code("preflight", "two_link_leg") == wanted
        assert exit_code("preflight", "two_link_leg", "--json") == wanted


def test_preflight_does_not_test_a_robot_that_is_not_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "UdpInterface", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert exit_code_of_main(monkeypatch, "preflight", "go2", "--udp", "127.0.0.1:9") == 3


def test_log_compare_and_replay_exit_with_1_if_logs_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load("go2")
    for name, first in (("one", 0), ("two", 1)):
        recording = runtime.Recording(tmp_path / name, robot, dt=0.002, seconds=0.1)
        for k in range(3):
            changed = tick(k + first)
            recording.record(dataclasses.replace(changed, number=k))
        recording.close()
    assert exit_code("log", "compare", tmp_path / "one", tmp_path / "one") == 0
    assert exit_code("log", "compare", tmp_path / "one", tmp_path / "two") == 1
    assert exit_code("log", "compare", tmp_path / "one", tmp_path / "two", "--json") == 1
    assert exit_code("log", "mcap", tmp_path / "one", "--out", tmp_path / "one.mcap") == 0
    assert exit_code_of_main(monkeypatch, "log", "replay", tmp_path / "one") == 2, "no controller in the recording"
    for again, wanted in ((LogReplay(3, 0, 0.0, None), 0), (LogReplay(3, 1, 1e-9, 2), 1)):
        monkeypatch.setattr(RunLog, "replay", lambda self, again=again: again)
        assert exit_code("log", "replay", tmp_path / "one") == wanted
        assert exit_code("log", "replay", tmp_path / "one", "--json") == wanted


@pytest.mark.parametrize(("what", "wanted"), [("throw", 0), ("raise", 1)])
def test_campaigns_exit_with_1_if_a_case_raised(
    what: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(campaign.BUILT_IN_CAMPAIGNS, "throws", "campaign_examples:Throws")
    store = tmp_path / "runs.db"
    arguments = ("--trials", 4, "--what", what, "--store", store, "--workers", 0)
    assert exit_code("campaign", "throws", *arguments) == wanted
    assert exit_code("campaign", "resume", store, "--workers", 0) == wanted
    assert exit_code("campaign", "resume", store, "--workers", 0, "--json") == wanted
    assert (
        exit_code("campaign", "show", store) == exit_code("campaign", "export", store, "--csv", tmp_path / "x.csv") == 0
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("view",), "NAME|FILE: required argument is missing"),
        (("check", "anymal"), "unknown robot 'anymal'; did you mean 'anymal_"),
        (("demo", "--prot", "3"), "--prot: no such option; did you mean --plot or --port or --root?"),
        (("demo", "--robot"), "--robot: a value is required"),
        (("demo", "--seconds", "x"), "--seconds: "),
        (("log", "csv", "missing.npz"), "missing.npz: no such file or directory"),
        (("demo", "--gait", "trott"), "unknown gait 'trott'; did you mean 'trot'?"),
    ],
)
def test_errors_have_one_form(
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first line has the error, and the second one, for invalid command lines, the command that prints help."""
    monkeypatch.chdir(tmp_path)
    assert exit_code_of_main(monkeypatch, *words) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {message}")
    assert len(rest) <= 1 and all(line.startswith("help: ") and line.endswith(" --help") for line in rest)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("view anymal_b", ["anymal_b", "anymal_b_kinova"]),
        ("demo --gait tr", ["trot"]),
        ("demo --root f", ["fixed", "free"]),
        ("demo --terrain st", ["stairs="]),
        ("codegen go2 --target rnea,cr", ["rnea,crba"]),
        ("campaign sweep --disturbance pa", ["payload"]),
        ("campaign robustness --robot solo1", ["solo12"]),
    ],
)
def test_shells_complete_values_of_options(
    words: str, values: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_QUADDYN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"quaddyn {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    exit_code_of_main(monkeypatch)
    assert sorted(capsys.readouterr().out.split()) == values
