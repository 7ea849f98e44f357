"""`quaddyn doctor` reports the installation, compiles missing parts, and reports problems by its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app, doctor
from quaddyn.compiler import compilation_units, machine, prebuilt
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.errors import CompileError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, with three units that compile fast."""
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation_units, "PREBUILT_FOLDER", tmp_path / "shipped")
    small = [
        unit for unit in prebuilt.all_units() if unit.title in ("contact solver", "motors", "distances of capsules")
    ]
    monkeypatch.setattr(prebuilt, "all_units", lambda: small)
    yield tmp_path / "cache"


def doctor_report(*options: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["doctor", "--json", *options])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_doctor_compiles_missing_parts_and_caches_them(cache: Path) -> None:
    first = doctor_report()
    assert first["passed"] and {unit["state"] for unit in first["units"]} == {"not yet"}
    assert first["versions"]["quaddyn"] == qd.__version__ and first["processor"]["target"] in machine.PORTABLE
    assert first["cache"] == {"folder": str(cache), "used": True, "reason": ""} and first["kernels"] == []
    made, kept = doctor_report("--compile"), doctor_report()
    assert {unit["state"] for unit in made["units"]} == {"compiled"}
    for unit, again in zip(made["units"], kept["units"], strict=True):
        assert again == {**unit, "state": "cached"}
        assert Path(unit["place"]).stat().st_size > unit["size"] > 1000 and unit["seconds"] > 0.0
    qd.compile(qd.load("two_link_leg"))
    (kernel,) = doctor_report()["kernels"]
    assert kernel["what"] == "rnea" and Path(kernel["file"]).is_file()


def test_doctor_prints_a_table_and_a_line_for_each_unit(cache: Path) -> None:
    runner = CliRunner()
    made, kept = runner.invoke(app, ["doctor", "--compile"]), runner.invoke(app, ["doctor", "--compile"])
    assert made.exit_code == kept.exit_code == 0
    count = len(prebuilt.all_units())
    assert count == 3
    assert f"{count}/{count} " in made.stderr and made.stderr.count(" s\n") == count
    assert kept.stderr.count(": cached\n") == count
    assert "no problems found" in kept.stdout and "size [kB]" in kept.stdout and "contact solver" in kept.stdout
    assert "not yet" not in made.stdout


def test_missing_extra_is_reported_with_the_command_to_install_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as metadata

    version = metadata.version

    def without(name: str) -> str:
        if name == "mujoco":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    assert doctor_report()["versions"]["mujoco"] == "not installed: pip install 'quaddyn[mujoco]'"


def test_unusable_cache_is_a_problem_unless_disabled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    cache.chmod(0o777)
    wrong = doctor_report(code=1)
    assert not wrong["passed"] and not wrong["cache"]["used"] and "chmod go-w" in wrong["problems"][0]
    cache.chmod(0o700)
    assert doctor_report()["passed"]
    cache.rmdir()
    cache.touch()
    assert "cannot be created" in doctor_report(code=1)["problems"][0]
    monkeypatch.setenv("QUADDYN_CACHE", "")
    assert "empty" in doctor_report()["cache"]["reason"]
    assert "empty" in doctor_report("--compile", code=1)["problems"][0]
    shown = CliRunner().invoke(app, ["doctor", "--compile"])
    assert shown.exit_code == 1 and "problem:" in shown.stderr and "no problems found" not in shown.stdout


@pytest.mark.slow
def test_every_unit_can_be_compiled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation_units, "PREBUILT_FOLDER", tmp_path / "shipped")
    made = doctor_report("--compile")
    assert made["passed"] and {unit["state"] for unit in made["units"]} == {"compiled"} and len(made["units"]) > 8


def test_doctor_reports_that_nothing_can_be_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(unit: CompilationUnit, target: str) -> bytes:
        raise CompileError(f"{unit.module}:7: no")

    with monkeypatch.context() as patched:
        patched.setattr(CompilationUnit, "code", fail)
        report = doctor_report("--compile", code=1)
        assert len(report["problems"]) == len(report["units"]) and all(":7: no" in x for x in report["problems"])
        assert {unit["state"] for unit in report["units"]} == {"not yet"}

    def refuse() -> str:
        raise machine.UnsupportedMachineError("machine code for the platform pdp11 is not supported")

    monkeypatch.setattr(machine, "portable_target", refuse)
    report = doctor_report(code=1)
    assert "pdp11" in report["problems"][0] and report["processor"]["target"] == ""


def test_only_missing_parts_are_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    said = StringIO()
    monkeypatch.setattr(doctor, "out", Console(file=said, force_terminal=True, color_system="standard", width=200))
    monkeypatch.setattr(doctor, "print_text", lambda *_: None)
    states = ("compiled", "cached", "prebuilt", "not yet")
    parts = [doctor.UnitState(f"part {state}", "m", state, "", None, None) for state in states]
    processor = {"cpu": "c", "triple": "t", "target": "x", "kernels": ""}
    doctor._print_health(doctor.Health({}, processor, {"folder": None, "reason": None}, parts, [], []))
    found = {state: f"\x1b[{color}m{state}" in said.getvalue() for state in states for color in (33,)}
    assert found == {"compiled": False, "cached": False, "prebuilt": False, "not yet": True}
    assert all(f"\x1b[32m{state}" in said.getvalue() for state in states[:3])
