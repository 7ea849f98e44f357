"""Pages of the documentation: blocks print what the page states, commands exist, links lead to what they name."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from pages import DOCS, LINK, ROOT, anchors, blocks, check_command, commands, run_in_one_session
from sparing import others_slow

import quaddyn.wbc as wbc

#: Made when the site is built, which then checks their links.
GENERATED = {"api", "constraints", "gallery", "pictures", "solvers", "tasks"}
PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if not GENERATED & set(path.relative_to(DOCS).parts[:-1])
)
OTHERS = [path.name for path in ROOT.glob("*.md")]


def read(page: str) -> str:
    return ((ROOT if page in OTHERS else DOCS) / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, *OTHERS])
def test_links_lead_to_files_and_headings_that_exist(page: str) -> None:
    text, here = read(page), ROOT if page in OTHERS else (DOCS / page).parent
    for label, target in LINK.findall(text):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        path = (here / file).resolve() if file else here / Path(page).name
        if path.is_relative_to(DOCS) and path.relative_to(DOCS).parts[0] in GENERATED:
            continue
        assert path.exists(), target
        if heading:
            assert heading in anchors(path.read_text(encoding="utf-8")), target
        name = re.fullmatch(r"`(?:\w+\.)*(\w+)(?:\(\))?`", label)
        if name and path.suffix == ".py" and not label.endswith(".py`"):
            named = {getattr(node, "name", "") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))}
            assert name.group(1) in named | {path.stem}, f"{label} in {target}"


#: Pages whose blocks run at night only, with the tests that cover the same by day.
LONG_PAGES = {
    "real-robot.md": "test_preflight, test_runtime_loop",
    "logs.md": "test_runtime_log",
    "tour.md": "test_readme",
}
PRINTING = [page for page in PAGES if page != "tutorial.md" and any(b.language == "python" for b in blocks(read(page)))]


@pytest.mark.parametrize("page", others_slow(PRINTING, set(PRINTING) - LONG_PAGES.keys()))
def test_blocks_print_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_one_session(read(page), page, tmp_path, monkeypatch)


@pytest.mark.parametrize("command", sorted({command for page in PAGES for command in commands(read(page))}))
def test_command_is_understood(command: str) -> None:
    check_command(command)


def test_every_element_has_its_equation_and_its_picture() -> None:
    elements = [
        value
        for value in vars(wbc).values()
        if isinstance(value, type) and issubclass(value, (wbc.Task, wbc.ForceTask, wbc.Constraint))
    ]
    assert len(elements) >= 19
    drawn = set(
        re.findall(
            r"^def (\w+)\(ax: Axes\)", (DOCS / "_ext/element_pictures.py").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    for element in elements:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", element.__name__).lower()
        assert name in drawn, f"docs/_ext/element_pictures.py: no picture of {element.__name__}"
        if element is not wbc.Constraint:
            assert ".. math::" in (element.__doc__ or ""), f"{element.__name__} has no equation"


def test_migration_page_lists_every_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "_ext")
    import migration_table

    assert migration_table.PAGE.read_text(encoding="utf-8") == migration_table.text(), (
        "run: python docs/_ext/migration_table.py"
    )
    sys.modules.pop("migration_table")


def test_the_check_of_the_site_finds_what_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    from check_site import problems

    (tmp_path / "good.html").write_text(
        '<h1 id="top">x</h1><a href="#top">a</a><a href="https://example.org">b</a>', encoding="utf-8"
    )
    assert problems(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<a href="good.html#bottom">a</a><a href="gone.html">b</a><script src="https://cdn.example.org/x.js"></script>',
        encoding="utf-8",
    )
    assert len(problems(tmp_path)) == 3
    sys.modules.pop("check_site")
