"""Exercises: the checker accepts the solutions and rejects the exercises themselves and the wrong versions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from raising import raises

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "exercises"
NAMES = ("friction_cone", "null_space", "rnea", "trot")
#: Parts of the failed checks of each wrong version.
MISTAKES = {
    "friction_cone": "FAILED  pyramid of 4 faces",
    "null_space": "FAILED  independent tasks",
    "rnea": "FAILED  ur5, accelerations",
    "trot": "FAILED  schedule: diagonal legs together",
}


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exercises_check", FOLDER / "check.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_exercise_has_a_solution_and_a_wrong_version(checker: ModuleType) -> None:
    assert sorted(checker.CHECKS) == list(NAMES)
    for folder in ("solutions", "wrong"):
        assert {file.stem for file in (FOLDER / folder).glob("*.py")} == set(NAMES)
    assert {file.stem for file in FOLDER.glob("*.py")} == {*NAMES, "check"}


@pytest.mark.parametrize("name", NAMES)
def test_solution_passes(checker: ModuleType, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checker.check(name, FOLDER / "solutions" / f"{name}.py"), capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_wrong_version_is_rejected_by_the_check_of_its_mistake(
    checker: ModuleType, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not checker.check(name, FOLDER / "wrong" / f"{name}.py")
    assert MISTAKES[name] in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_exercise_begins_with_its_gaps(checker: ModuleType, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not checker.check(name, FOLDER / f"{name}.py")
    assert "a gap is not filled yet" in capsys.readouterr().out


def test_error_of_a_solution_is_reported_with_its_line(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def projector(J):\n    return J.T @ J + 1 / 0\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["check.py", "null_space", str(file)])
    assert checker.main() == 1
    assert "ZeroDivisionError: division by zero (mine.py:2)" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["check.py", "null_space", str(tmp_path / "none.py")])
    raises(SystemExit, "FILE: expected a Python file", checker.main)
