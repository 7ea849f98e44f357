"""The README is true: every block in it runs, and prints what it says it prints."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quaddyn.cli import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_screen_has_what_a_newcomer_needs() -> None:
    screen = "\n".join(README.splitlines()[:45])
    assert "![" in screen
    assert "$$" in screen
    assert screen.count("```sh") == 2


def test_every_picture_and_link_in_the_readme_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_set_up_commands_name_what_exists() -> None:
    set_up = [body for language, body in BLOCKS if language == "sh" and "-m venv" in body]
    assert len(set_up) == 2
    assert "quaddyn demo" in set_up[0]
    assert "pytest" in set_up[1]
    for body in set_up:
        assert len(body.strip().splitlines()) == 1
        assert body.startswith("python3 -m venv ")


def test_continuous_integration_runs_the_readmes_test_command() -> None:
    marked = re.search(r"<!-- test command -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert marked is not None
    assert "pytest" in marked.group(1)
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text()


def python_blocks() -> list[tuple[str, str]]:
    """(code, the expected output: the ```text block that follows, or "")."""
    out = []
    for i, (language, body) in enumerate(BLOCKS):
        if language == "python":
            follows = BLOCKS[i + 1] if i + 1 < len(BLOCKS) else ("", "")
            out.append((body, follows[1] if follows[0] == "text" else ""))
    return out


@pytest.mark.parametrize(("code", "expected"), python_blocks())
def test_python_block_prints_what_the_readme_says(code: str, expected: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue() == expected


def test_the_first_example_is_short() -> None:
    code, expected = python_blocks()[0]
    assert len(code.strip().splitlines()) <= 15
    assert expected.strip()


def commands() -> list[str]:
    lines = [line for language, body in BLOCKS if language == "sh" for line in body.splitlines()]
    return [line.split("#")[0].strip() for line in lines if line.startswith("quaddyn ")]


@pytest.mark.parametrize("command", commands())
def test_command_in_the_readme_is_understood(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option of every command line in the README exists: `--help` lists it."""
    words = shlex.split(command)[1:]
    shown = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0, shown.output
    for word in words[1:]:
        if word.startswith("--"):
            assert word.split("=")[0] in shown.output
