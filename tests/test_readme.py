"""Every block of the README runs and prints the output shown there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from expected_outputs import check_output
from markdown_pages import Block, blocks, check_command, commands

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = [block for block in blocks(README) if block.language == "python"]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_first_screen_has_a_picture_a_formula_and_commands() -> None:
    screen = "\n".join(README.splitlines()[:45])
    assert "![" in screen
    assert "$$" in screen
    assert screen.count("```sh") == 2


def test_set_up_commands_name_what_exists() -> None:
    set_up = [block.body for block in blocks(README) if block.language == "sh" and "-m venv" in block.body]
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
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_prints_what_the_readme_says(program: Block) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program.body, "README.md", "exec"), {"__name__": "readme"})
    check_output(printed.getvalue(), program.expected)


def test_the_first_program_is_short() -> None:
    assert len(PROGRAMS[0].body.strip().splitlines()) <= 15
    assert PROGRAMS[0].expected.strip()


@pytest.mark.parametrize("command", commands(README))
def test_command_in_the_readme_is_valid(command: str) -> None:
    check_command(command)
