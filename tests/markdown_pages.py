"""Markdown pages: their blocks, links, headings and commands."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from expected_outputs import check_output
from typer.testing import CliRunner

from quaddyn.cli import app

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\[((?:[^\]\[]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,}|:{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code, and its expected output from the text block below it."""

    language: str
    body: str
    expected: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    below = [*found, ("", "")][1:]
    return [
        Block(language, body, after[1] if after[0] == "text" else "")
        for (language, body), after in zip(found, below, strict=True)
    ]


def anchors(text: str) -> set[str]:
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def run_in_one_session(text: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the Python blocks of a page in one session and compares their outputs with the page.

    A block that begins with a comment ``# name.py`` is written to that file and imported.
    """
    monkeypatch.chdir(folder)
    session: dict[str, object] = {"__name__": name}
    for block in blocks(text):
        if block.language != "python":
            continue
        file = re.match(r"# (\w+)\.py\n", block.body)
        if file:
            path = folder / f"{file.group(1)}.py"
            path.write_text(block.body, encoding="utf-8")
            spec = importlib.util.spec_from_file_location(file.group(1), path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, file.group(1), module)
            spec.loader.exec_module(module)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.body, name, "exec"), session)
        check_output(printed.getvalue(), block.expected)


def commands(text: str) -> list[str]:
    """The lines of shell blocks that call `quaddyn`."""
    lines = [line for block in blocks(text) if block.language == "sh" for line in block.body.splitlines()]
    return [line.split("#")[0].strip() for line in lines if line.startswith("quaddyn ")]


@functools.cache
def help_of(*named: str) -> str:
    """The text that a command prints with `--help`."""
    shown = CliRunner().invoke(app, [*named, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0, shown.output
    return shown.output


def check_command(command: str) -> None:
    """Every option of a command line exists: `--help` lists it."""
    words = shlex.split(command, comments=True)[1:]
    named = words[: 2 if words[0] in ("campaign", "log") else 1]  # a command of a group
    shown = help_of(*named)
    for word in words[1:]:
        if word.startswith("--"):
            assert word.split("=")[0] in shown, command
