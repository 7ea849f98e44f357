"""Output of the commands, compared in text and color in wide and narrow terminals, and all options."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import typer
from expected_outputs import check_expected_file, check_output, terminal
from raising import raises
from rich.console import Console
from typer.testing import CliRunner

import quaddyn
import quaddyn as qd
from quaddyn.campaigns import Progress
from quaddyn.cli import app, codegen, console, identifying, robots, tables
from quaddyn.cli.tables import Verdict
from quaddyn.demo.report import DemoCheck, DemoReport, RequestedValue, TorqueRange
from quaddyn.robot.report import ValidationReport
from quaddyn.urdf.tree import Finding, Where
from quaddyn.verification.report import Deviation, ThirdOpinion, VerificationReport, WorstSample

WIDTHS = (100, 56)


def assert_printed(
    name: str, show: Any, *arguments: object, modules: tuple[ModuleType, ...] = (tables, console)
) -> None:
    """Compares the output of a function in a wide and in a narrow terminal with the stored output."""
    parts = []
    for width in WIDTHS:
        with terminal(*modules, width=width) as said:
            show(*arguments)
            parts.append(f"-- {width} columns\n{said()}")
    check_expected_file(name, "\n".join(parts))


WHERE = Where("dog.urdf", 12, '<link name="a">')


class Dog(SimpleNamespace):
    def __str__(self) -> str:
        return "Robot('[dog]'): 2 links"


def dog() -> Any:
    legs = {
        "FL": SimpleNamespace(name="FL", joints=("hip", "knee"), knee="knee", knee_direction="backward",
                              foot=SimpleNamespace(frame="FL_foot", radius=0.0212345)),
        "FR": SimpleNamespace(name="FR", joints=("slide",), knee=None, knee_direction="straight",
                              foot=SimpleNamespace(frame="FR_foot", radius=0.02)),
    }  # fmt: skip
    findings = tuple(
        [Finding("warning", WHERE, "odd [x]", "mend it"), Finding("note", Where("", 0, ""), "assumed")]
        + [Finding("warning", Where("dog.urdf", 20 + i, f'<link name="l{i}">' if i else ""), "same") for i in range(9)]
    )
    report = ValidationReport(
        findings, {"FL.radius": "the file", "FR.radius": "a guess"}, {"RNEA(ABA) error": 1.25e-12}
    )
    return Dog(name="[dog]", root="free", report=report, legs=legs, bodies=())


def agreement(**changes: Any) -> VerificationReport:
    errors = {"rnea": 1e-12, "crba": 3e-11, "aba": 2e-10}
    given: dict[str, Any] = {
        "robot": "dog",
        "root": "free",
        "samples": 3,
        "seed": 1,
        "errors": errors,
        "medians": {name: 0.5 * error for name, error in errors.items()},
        "tolerances": dict.fromkeys(errors, 1e-9),
        "ratios": {"rnea": 0.001, "crba": 0.03, "aba": 0.2},
        "condition": (10.0, 20.0),
        "deviations": (),
        "third_opinion": ThirdOpinion("agrees", 1e-9),
        "worst_sample": WorstSample("aba", 0.2, *(np.zeros(1) for _ in range(4)), {}),
    }
    return VerificationReport(**given | changes)


def make_verdicts() -> list[Verdict]:
    differs = agreement(deviations=(Deviation("a", "mass", "1", "2", 0.5),))
    return [
        Verdict("two_link_leg", dog(), "", None),
        Verdict("small_quadruped", dog(), "", agreement()),
        Verdict("broken", None, "dog.urdf:3: <link>: [no] mass; give it one", None),
        Verdict("other", dog(), "", differs),
        Verdict("unread", dog(), "the reference's reader: [bad]", None),
    ]


def test_printed_verdicts_of_several_robots_are_unchanged() -> None:
    assert_printed("verdicts", tables.print_summary, make_verdicts())
    assert [v.passed for v in make_verdicts()] == [True, True, False, False, False]


def test_printed_report_of_one_robot_is_unchanged() -> None:
    def all_of_them() -> None:
        for verdict in make_verdicts()[1:]:
            tables.print_report(verdict)

    assert_printed("report", all_of_them)
    check_expected_file("report_json", json.dumps([v.to_json() for v in make_verdicts()], indent=1))


def demo_report(**changes: Any) -> DemoReport:
    given: dict[str, Any] = {
        "robot": "[dog]",
        "motion": "trot",
        "seconds": 8.0,
        "steps": 8000,
        "cpu": "a processor",
        "steps_per_second": 12345.6,
        "plant_steps_per_second": 54321.0,
        "torques": {"hip": TorqueRange(-1.234, 5.678, 23.7), "knee": TorqueRange(-9.0, 1.0, math.inf)},
        "normal_force": (1.23, 99.87),
        "weight": 151.2,
        "weight_mean": 1.00012,
        "weight_deviation": 0.0567,
        "base_height": (0.2991, 0.3129),
        "energy_change": 12.3456,
        "work": {"actuators": 20.5, "contacts": -8.123456},
        "checks": {"slip of a foot": DemoCheck(0.00123, 0.005, True, "m"), "share": DemoCheck(0.5, 1.0, True, "1")},
        "requested_velocity": (9.0, 0.0, 0.1),
        "clamped_velocity": (0.8, 0.0, 0.1),
        "limit_reason": "stride of the gait",
        "measured_velocity": (0.79, 0.01, 0.09),
    }
    return DemoReport(**given | changes)


CUT = (
    RequestedValue("forward velocity", 9.0, 0.8, "m/s", "stride of the gait"),
    RequestedValue("yaw rate", 0.1, 0.1, "rad/s", "stride of the gait"),
)
NOTHING = {
    "normal_force": None, "weight_mean": None, "weight_deviation": None, "base_height": None, "work": {},
    "requested_velocity": None, "clamped_velocity": None, "limit_reason": "", "measured_velocity": None,
}  # fmt: skip


def test_printed_table_of_the_demo_is_unchanged() -> None:
    differs = agreement(
        ratios={"rnea": 0.1, "crba": 2.0, "aba": 0.2}, deviations=make_verdicts()[3].agreement.deviations
    )  # type: ignore[union-attr]
    failed = {"bad": DemoCheck(math.nan, 1.0, False, "N m")}

    def all_of_them() -> None:
        tables.print_demo(demo_report(requests=CUT), agreement())
        tables.print_demo(demo_report(limit_reason="", measured_velocity=None), agreement())
        tables.print_demo(demo_report(motion="swing", checks=failed, **NOTHING), agreement())
        tables.print_demo(demo_report(motion="swing", **NOTHING), differs)

    assert_printed("demo", all_of_them)
    reports = [demo_report(requests=CUT), demo_report(motion="swing", **NOTHING)]
    check_expected_file("demo_json", json.dumps([tables.demo_json(report) for report in reports], indent=1))


# -- options -------------------------------------------------------------------------------------------------------
def list_parameters(words: tuple[str, ...], command: Any) -> list[str]:
    """All parameters of a command and its subcommands: names, range, default and whether it is required."""
    out = []
    for p in command.params:
        if p.name in ("help", "install_completion", "show_completion"):
            continue
        of = p if hasattr(p, "min") else p.type  # depends on the version of typer
        limits = [f"{name}={getattr(of, name)}" for name in ("min", "max") if getattr(of, name, None) is not None]
        flags = [name for name in ("required", "multiple", "is_flag") if getattr(p, name, False)]
        names = ", ".join((*p.opts, *p.secondary_opts))
        told = " ".join([*limits, *flags])
        default = p.default if not callable(p.default) and "Sentinel" not in type(p.default).__name__ else None
        default = None if default in ((), []) or default is False else getattr(default, "value", default)
        own = re.search(r"\[default: (.*)\]", getattr(p, "help", None) or "")  # of a campaign's field
        default = own[1] if own else default
        known = [each for each in (told, "" if default is None else f"default {default}") if each]
        out.append(f"{' '.join(words)}: {names}" + (f" ({', '.join(known)})" if known else ""))
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        out += list_parameters((*words, name), command.get_command(None, name))
    return out


def test_options_have_unchanged_names_ranges_and_defaults() -> None:
    check_expected_file("options", "\n".join(list_parameters(("quaddyn",), typer.main.get_command(app))))


# -- progress ------------------------------------------------------------------------------------------------------
class Display:
    """A progress display that records its calls."""

    made: ClassVar[list[Display]] = []

    def __init__(self, *columns: Any, console: Any, transient: bool, disable: bool = False) -> None:
        self.told: list[Any] = [transient, disable]
        Display.made.append(self)

    def add_task(self, title: str, **fields: Any) -> int:
        self.told.append((title, fields))
        return 7

    def update(self, task: int, **fields: Any) -> None:
        self.told.append((task, fields))

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_from_the_first_step_on_and_then_removed(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "Progress", Display)
    monkeypatch.setattr(console, "err", Console(stderr=True, force_terminal=True))  # nothing is shown in files
    with console.progress_bar("working", quiet=quiet) as tick:
        tick(0.25)
    assert Display.made.pop().told == [
        True,
        quiet,
        ("working", {"total": 1.0}),
        "start",
        (7, {"completed": 0.25}),
        "stop",
    ]
    with pytest.raises(ZeroDivisionError), console.campaign_progress("cases", quiet=quiet) as tell:
        tell(Progress(10, 1200, 3.14159, 3725.4, 0))
        tell(Progress(10, None, 3.0, None, 0))
        raise ZeroDivisionError
    none = {"total": None, "of": "?", "rate": "", "remaining": ""}
    first = {"completed": 10, "total": 1200, "of": "1,200", "rate": "3.14/s", "remaining": "1:02:05 left"}
    second = {"completed": 10, "total": None, "of": "?", "rate": "3/s", "remaining": ""}
    expected = [True, quiet, ("cases", none), "start", (7, first), "start", (7, second), "stop"]
    assert Display.made.pop().told == expected


def test_progress_yields_items_in_order() -> None:
    with terminal(console):
        assert list(console.progress([3, 1, 2], "title")) == [3, 1, 2]


def test_waiting_for_an_interrupt_calls_a_function_thirty_times_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(console.time, "sleep", sleep)
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        console.wait_for_interrupt(lambda: seen.append(1))
    assert slept == [1.0 / 30.0] * 3 and seen == [1, 1, 1]
    slept.clear()
    with pytest.raises(KeyboardInterrupt):
        console.wait_for_interrupt()
    assert slept == [1.0] * 3


def test_is_terminal_requires_an_open_interactive_stream() -> None:
    def stream(closed: bool, person: bool) -> Any:
        return SimpleNamespace(closed=closed, isatty=lambda: person)

    found = [console.is_terminal(stream(closed, person)) for closed in (False, True) for person in (False, True)]
    assert found == [False, True, False, False] and console.is_terminal(None) is False


def test_check_writable_rejects_paths_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console.check_writable(None)
    console.check_writable(tmp_path / "new.html")
    monkeypatch.setattr(console.os, "access", lambda path, how: how != console.os.W_OK)
    raises(typer.BadParameter, "permission is missing", console.check_writable, tmp_path / "new.html")


# -- single commands -----------------------------------------------------------------------------------------------
def run_command(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_check_command_passes_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def judge(name: str, **options: Any) -> Verdict:
        told.append((name, options))
        return Verdict(name, dog(), "", None)

    def compare(loaded: Verdict, **options: Any) -> Verdict:
        told.append(options)
        return loaded

    monkeypatch.setattr(robots, "validate", judge)
    monkeypatch.setattr(robots, "add_cross_check", compare)
    given: dict[str, Any] = {
        "root": None,
        "packages": [],
        "strict": False,
        "damping": None,
        "friction": None,
        "armature": None,
    }
    run_command("check", "go2")
    assert told == [("go2", given), {"samples": 5, "seed": 0, "source": None}]
    told.clear()
    run_command("check", "go2", "--root", "fixed", "--strict", "--damping", "1", "--friction", "2", "--armature", "3",
         "--seed",
         "4", "--samples", "2", "--package", "/a", "--package", "/b")  # fmt: skip
    more = {
        "root": "fixed",
        "packages": [Path("/a"), Path("/b")],
        "strict": True,
        "damping": 1.0,
        "friction": 2.0,
        "armature": 3.0,
    }
    assert told == [("go2", more), {"samples": 2, "seed": 4, "source": None}]
    told.clear()
    run_command("check", "go2", "--samples", "0")
    assert told == [("go2", given)]


def test_c_files_are_named_and_counted(tmp_path: Path) -> None:
    lines = run_command("codegen", "two_link_leg", "--target", "rnea, crba", "--out", tmp_path / "a" / "b").splitlines()
    sources = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    names = [source.removesuffix(".c") for source in sources if source.endswith(".c")]
    assert sources == sorted(f"{name}.{kind}" for name in names for kind in "ch") and len(names) == 2
    for line, name in zip(sorted(lines), names, strict=True):
        place, _, counts = line.partition(".c, .h: ")
        assert place == str(tmp_path / "a" / "b" / name)
        assert f"Operations: {counts}" in (tmp_path / "a" / "b" / f"{name}.c").read_text(encoding="utf-8")
    for words, message in (
        (
            ("--target", "controller", "--single-precision"),
            "--frame, --external-force, --single-precision, --runtime-parameters, --friction: not accepted with "
            "--target controller",
        ),
        (("--target", "interface", "--dt", "0.1"), "--dt: not accepted with --target interface"),
        (("--target", "rnea", "--dt", "0.1"), "--dt: not accepted with --target rnea"),
        (("--target", "rnea", "--frame", "foot"), "--frame: not accepted with --target rnea"),
    ):
        done = CliRunner().invoke(app, ["codegen", "two_link_leg", "--out", str(tmp_path), *words])
        assert str(done.exception).startswith(message), done.output


def test_codegen_writes_the_requested_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def c_files(robot: qd.Robot, name: str, **options: Any) -> Any:
        made.append((name, options))
        return SimpleNamespace(name=f"{name}_{len(made)}", header="", source="/* Operations: 1 add */")

    monkeypatch.setattr("quaddyn.kernels.c_files", c_files)
    double = {"dtype": "float64", "parameters": "folded", "friction": False, "frame": None, "forces": ()}
    run_command("codegen", "small_quadruped", "--out", tmp_path)
    run_command("codegen", "small_quadruped", "--out", tmp_path, "--target", "frame_drift,rnea", "--single-precision",
         "--runtime-parameters", "--friction", "--external-force", "FL", "--external-force", "FR")  # fmt: skip
    single = {"dtype": "float32", "parameters": "runtime", "friction": True, "frame": None, "forces": ("FL", "FR")}
    feet = [("frame_drift", {**single, "frame": foot}) for foot in ("FL", "FR", "RL", "RR")]
    assert made == [("rnea", double), *feet, ("rnea", single)]


@pytest.mark.parametrize(
    "what", ["controller", "walker", "safety", "estimator", "interface", "program", "walking_program", "ros2"]
)
@pytest.mark.parametrize("words", [(), ("--dt", "0.002")])
def test_export_functions_receive_name_and_period(
    what: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "interface" and words:
        pytest.skip("it has no period")
    made: list[Any] = []

    def export(*arguments: Any, name: str) -> Any:
        made.append((getattr(arguments[0], "dt", None), arguments[1], name))
        files = {"one.c": "x" * 1600, "one.h": "x" * 400}
        return SimpleNamespace(files=files, memory={"constant": 1499, "set": 2500, "zero": 900})

    monkeypatch.setattr("quaddyn.wbc.export_c", export)
    for name in ("walker", "safety", "estimator", "interface", "program", "ros2"):
        monkeypatch.setattr(f"quaddyn.runtime.export_{name}", export)
    lines = run_command("codegen", "small_quadruped", "--target", f" {what} ", "--out", tmp_path, *words).splitlines()
    ((dt, out, name),) = made
    assert out == tmp_path and dt == (None if what == "interface" else 0.002 if words else 0.001)
    suffix = {"controller": "_wbc", "program": "", "walking_program": "", "ros2": ""}.get(what, f"_{what}")
    assert name == f"small_quadruped{suffix}"
    assert lines[:2] == [f"{tmp_path}/one.c: 2 kB", f"{tmp_path}/one.h: 0 kB"]
    program = [f"cc -std=c99 -O2 {tmp_path}/*.c -lm -o small_quadruped_drive"]
    ends = {
        "controller": ["memory: 1 kB constant, 2 kB set, 1 kB zero at the start"],
        "program": program,
        "walking_program": program,
    }
    assert lines[2:] == ends.get(what, [])
    assert len(codegen.TARGET_WRITERS) == 8


def test_an_excitation_has_the_requested_duration_and_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def motion(robot: qd.Robot, *, progress: Any, **options: Any) -> Any:
        asked.append({**options, "root": robot.root})

        def sample(t: np.ndarray) -> list[np.ndarray]:
            return [np.outer(t, np.ones(n)) for n in (robot.nq, robot.nv, robot.nv)]

        fractions = {"effort_fractions": np.array([0.1, 0.5]), "certificate": "rank 9 of 26"}
        return SimpleNamespace(sample=sample, initial_condition=1234.5, condition=12.345, **fractions)

    monkeypatch.setattr("quaddyn.identification.exciting_trajectory", motion)
    out = tmp_path / "x.csv"
    text = run_command("excite", "two_link_leg", "--out", out)
    assert asked.pop() == {"period": 10.0, "harmonics": 5, "iterations": 300, "seed": 0, "root": "fixed"}
    assert text == (
        "rank 9 of 26\nlargest torque according to the file: 50% of the effort limit of knee\n"
        f"condition number 1.23e+03 -> 12.3; wrote 1000 samples to {out}\n"
    )
    table = np.loadtxt(out, delimiter=",", skiprows=1)
    assert out.read_text(encoding="utf-8").splitlines()[0] == "t,q 0,q 1,v 0,v 1,a 0,a 1"
    np.testing.assert_allclose(table, np.outer(0.01 * np.arange(1000), np.ones(7)), atol=1e-9)

    def unwanted(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    for period, rate, well in ((10.0, 1e5, True), (10.1, 1e5, False)):
        done = CliRunner().invoke(app, ["excite", "two_link_leg", "--out", str(tmp_path / "none" / "x.csv"),
                                        "--rate", str(rate),
                                        "--period", str(period)])  # fmt: skip
        assert done.exit_code == 2  # not writable
        monkeypatch.setattr(identifying, "load_robot", unwanted)
        done = CliRunner().invoke(
            app, ["excite", "arm", "--out", str(out), "--rate", str(rate), "--period", str(period)]
        )
        assert ("expected at most 1,000,000 samples" in str(done.exception)) is not well


def test_preflight_receives_address_port_and_torque_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Side:
        def __init__(self, robot: qd.Robot, peer: tuple[str, int], **options: Any) -> None:
            made.append((robot.name, peer, options))

        def close(self) -> None:
            made.append("closed")

    def preflight(side: Any, *, torque_fraction: float, prompt: Any, clock: Any = None) -> Any:
        made.append((type(side).__name__, torque_fraction))
        return SimpleNamespace(passed=True, checks=())

    monkeypatch.setattr("quaddyn.runtime.UdpInterface", Side)
    monkeypatch.setattr("quaddyn.runtime.preflight", preflight)
    run_command(
        "preflight",
        "two_link_leg",
        "--udp",
        "10.0.0.2:9000",
        "--assume-hanging",
        "--listen-port",
        "9001",
        "--bind",
        "0.0.0.0",
        "--torque-fraction",
        "0.1",
    )
    expected = [("two_link_leg", ("10.0.0.2", 9000), {"port": 9001, "bind": "0.0.0.0"}), ("Side", 0.1), "closed"]
    assert made == expected
    made.clear()
    run_command("preflight", "two_link_leg", "--udp", "[::1]:9000", "--assume-hanging")
    assert made[0][1:] == (("[::1]", 9000), {"port": 0, "bind": "127.0.0.1"}) and made[1] == ("Side", 0.2)
    for wrong in ("here", ":9000", "here:", "here:port"):
        done = CliRunner().invoke(app, ["preflight", "two_link_leg", "--udp", wrong, "--assume-hanging"])
        assert str(done.exception) == f"--udp: expected ADDRESS:PORT, got {wrong!r}"
    made.clear()
    assert json.loads(run_command("preflight", "two_link_leg", "--json")) == {"passed": True, "checks": []}
    assert made == [("HangingRobot", 0.2)]


@pytest.mark.parametrize(
    ("text", "expected", "same"),
    [
        ("[0.0, 5.71]", "[-0.0, 5.71]", True),
        ("[0.001 0.    0.341]", "[ 0.001 -0.     0.341]", True),
        ("5.72 N,\n 1e-05", "5.71 N, 2e-05", True),
        ("5.73", "5.71", False),
        ("-5.71", "5.71", False),
        ("51 mm", "50 mm", False),
        ("FL1 moved", "FL2 moved", False),
        ("stood", "fell", False),
        ("1.0 2.0", "1.0", False),
    ],
)
def test_output_is_compared_to_the_last_printed_digit(text: str, expected: str, same: bool) -> None:
    with nullcontext() if same else pytest.raises(AssertionError):
        check_output(text, expected)


# -- options of dataclasses and default arguments, which a small change could alter unnoticed, are unchanged ----------
def modules() -> Iterator[ModuleType]:
    """Every module of the package."""
    for module in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if not module.name.endswith("__main__"):
            yield importlib.import_module(module.name)


def own_definitions(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Objects that a module defines itself, by their qualified names without that of the package."""
    for name, thing in sorted(vars(module).items()):
        if getattr(thing, "__module__", None) == module.__name__:
            yield f"{module.__name__.removeprefix('quaddyn.')}.{name}", thing


def test_dataclass_options_of_records_are_unchanged() -> None:
    """The stored lines change only deliberately; new lines may be added."""
    lines = []
    for module in modules():
        for name, kind in own_definitions(module):
            if inspect.isclass(kind) and "__dataclass_params__" in vars(kind):
                params = kind.__dataclass_params__
                words = [word for word in ("frozen", "eq", "order") if getattr(params, word)]
                named = [f.kw_only for f in dataclasses.fields(kind)]
                words += ["by name"] if named and all(named) else ["some by name"] if any(named) else []
                lines.append(f"{name}: {', '.join(words)}")
    check_expected_file("records", "\n".join(sorted(lines)), more=True)


def is_plain_value(value: object) -> bool:
    """Returns whether the representation of a value is the same on all platforms."""
    if isinstance(value, tuple):
        return all(map(is_plain_value, value))
    return value is None or type(value) in (bool, int, float, str)


def defaults(thing: Callable[..., object]) -> list[str]:
    """Arguments with default values of a function."""
    found = inspect.signature(thing).parameters.items()
    return [f"{name}={p.default!r}" for name, p in found if p.default is not p.empty and is_plain_value(p.default)]


def test_defaults_are_unchanged() -> None:
    lines = []
    for module in modules():
        for name, thing in own_definitions(module):
            if name.rpartition(".")[2].startswith("_"):
                continue
            found: dict[str, Callable[..., object]] = {}
            thing = inspect.unwrap(thing) if hasattr(thing, "cache_info") else thing
            if inspect.isfunction(thing):
                found[name] = thing
            elif inspect.isclass(thing):
                for own, method in vars(thing).items():
                    function = getattr(method, "__func__", method)
                    if inspect.isfunction(function) and (own == "__init__" or not own.startswith("_")):
                        found[name if own == "__init__" else f"{name}.{own}"] = function
            lines += [f"{each} {said}" for each, function in found.items() for said in defaults(function)]
    check_expected_file("defaults", "\n".join(sorted(lines)), more=True)
