"""Behavior of the command line."""

from __future__ import annotations

import json
import sys
import types
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

import quaddyn as qd
from quaddyn.__main__ import main as start
from quaddyn.cli.app import main, print_error
from quaddyn.verification import cross_check


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
    from quaddyn.cli import robots

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
