"""The blocks of the tutorial run in one session and print the output shown there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from expected_outputs import check_output

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEXT = (DOCS / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_tutorial_has_five_steps_and_its_pictures_exist() -> None:
    assert re.findall(r"^## (\d)\.", TEXT, re.MULTILINE) == list("12345")
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert "://" in target or (DOCS / target).exists(), target


def test_the_session_prints_what_the_tutorial_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "tutorial"}
    steps = [i for i, (language, _) in enumerate(BLOCKS) if language == "python"]
    assert len(steps) == 5
    for step, i in enumerate(steps, 1):
        language, expected = BLOCKS[i + 1]
        assert language == "text"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(BLOCKS[i][1], f"step {step}", "exec"), session)
        check_output(printed.getvalue(), expected)
    assert (tmp_path / "trot.html").stat().st_size > 50_000
    assert (tmp_path / "trot.png").read_bytes().startswith(b"\x89PNG")
