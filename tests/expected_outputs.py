"""Comparison of long outputs with reviewed files in ``tests/printed``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from types import ModuleType
from unittest import mock

from rich.console import Console
from rich.text import Text

KEPT = Path(__file__).resolve().parent / "printed"


def check_expected_file(name: str, text: str, *, more: bool = False) -> None:
    """Compares a text with ``tests/printed/NAME.txt``; with `more`, additional lines are allowed.

    With QUADDYN_PRINTED=write in the environment the file is rewritten; review the changes before committing.
    """
    path = KEPT / f"{name}.txt"
    lines = [line.rstrip() for line in text.splitlines()]
    if os.environ.get("QUADDYN_PRINTED") == "write":
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    kept = path.read_text(encoding="utf-8").splitlines()
    how = f"{path.name}: run QUADDYN_PRINTED=write pytest to rewrite it, and git diff to review the changes"
    if more:
        lost = sorted(set(kept) - set(lines))
        assert not lost, how
    else:
        assert lines == kept, how


def rounded(text: str, digits: int = 6) -> str:
    """Text with rounded decimal numbers, because the last digits depend on the machine."""
    number = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")
    return number.sub(lambda found: f"{float(found[0]) + 0.0:.{digits}g}", text)


NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:e([-+]?\d+))?(?![\w.]*\d)")


def check_output(text: str, expected: str) -> None:
    """Asserts that a program printed what a page shows.

    Words, signs and whole numbers must be equal.  A decimal number may differ by one in its last printed digit, and a
    zero may have either sign: both depend on how the processor rounds.  White space is not compared.
    """
    shown, kept = (re.sub(r"([\[(])\s+", r"\1", NUMBER.sub("#", each)).split() for each in (text, expected))
    assert shown == kept, f"printed:\n{text}\nexpected:\n{expected}"
    for got, want in zip(NUMBER.finditer(text), NUMBER.finditer(expected), strict=True):
        digits, exponent = want[1] or "", int(want[2] or 0)
        unit = 10.0 ** (exponent - len(digits)) if digits or want[2] else 0.0
        assert abs(float(got[0]) - float(want[0])) <= 1.001 * unit, f"{got[0]} for {want[0]}, printed:\n{text}"


@contextmanager
def terminal(*modules: ModuleType, width: int = 100) -> Iterator[Callable[[], str]]:
    """Replaces `out` and `err` of modules by a terminal; yields a function that returns its text, `marked`."""
    said = StringIO()
    console = Console(
        file=said, force_terminal=True, color_system="standard", no_color=False, width=width, emoji=False, _environ={}
    )
    with ExitStack() as stack:
        for module in modules:
            for name in ("out", "err"):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, console))
        yield lambda: "\n".join(map(marked, said.getvalue().splitlines()))


def marked(line: str) -> str:
    """A line of a terminal with styles in braces; blanks between words of one style have that style, too."""
    text, console = Text.from_ansi(line), Console(_environ={})
    runs: list[tuple[str, str]] = []
    for part in re.split(r"(\s+)", text.plain):
        at = sum(len(words) for _, words in runs)
        if not part.strip():
            runs.append(("", part))
            continue
        for offset, letter in enumerate(part):
            style = str(text.get_style_at_offset(console, at + offset)).removeprefix("none")
            if runs and runs[-1][0] == style and runs[-1][1].strip():
                runs[-1] = (style, runs[-1][1] + letter)
            elif len(runs) > 1 and style and runs[-2][0] == style and not runs[-1][1].strip():
                (_, before), (_, blanks) = runs[-2:]
                runs[-2:] = [(style, before + blanks + letter)]
            else:
                runs.append((style, letter))
    return "".join(f"{{{style}: {words}}}" if style else words for style, words in runs)
