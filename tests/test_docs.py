"""The pages on whole-body control and compiling are true: blocks print what they say, links lead to what they name."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("whole-body-control", "compiling")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")


def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text()


def blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_that_have_what_is_named(page: str) -> None:
    for label, target in LINK.findall(text(page)):
        if "://" in target:
            continue
        path = DOCS / target
        assert path.exists(), target
        name = re.fullmatch(r"`(?:\w+\.)*(\w+)(?:\(\))?`", label)
        if name and path.suffix == ".py" and not label.endswith(".py`"):
            named = {getattr(node, "name", "") for node in ast.walk(ast.parse(path.read_text()))}
            assert name.group(1) in named | {path.stem}, f"{label} in {target}"


@pytest.mark.parametrize("page", PAGES)
def test_blocks_print_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that begins with a comment that names a file is that file."""
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": page}
    found = blocks(page)
    for i, (language, body) in enumerate(found):
        if language != "python":
            continue
        file = re.match(r"# (\w+)\.py\n", body)
        if file:
            path = tmp_path / f"{file.group(1)}.py"
            path.write_text(body)
            spec = importlib.util.spec_from_file_location(file.group(1), path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, file.group(1), module)
            spec.loader.exec_module(module)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(body, f"{page}.md", "exec"), session)
        expected = found[i + 1][1] if i + 1 < len(found) and found[i + 1][0] == "text" else ""
        assert printed.getvalue() == expected
