"""Pages made from the package itself: one per element, solver, subpackage and example.

Equations, options and units stand in docstrings; these pages arrange them.  They are written into the source
folder before Sphinx reads it and are not under version control.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import quaddyn

#: Subpackages without a public interface.
HIDDEN = ("quaddyn.cli",)

SOLVERS = {
    "quaddyn.hierarchy": ("Level", "solve", "HierarchySolver", "solve_prioritized", "solve_equal_priority"),
    "quaddyn.contact.solvers": ("FrictionalSolver", "RigidSolver", "CompliantSolver", "ImpactSolver"),
    "quaddyn.contact": ("CompliantPlane",),
}

Elements = dict[str, list[tuple[str, str]]]


def elements() -> Elements:
    """Returns (subpackage, name) of each element and solver with its own page, by chapter."""
    from quaddyn import wbc

    tasks, constraints = [], []
    for name in wbc.__all__:
        value = getattr(wbc, name)
        if not inspect.isclass(value):
            continue
        if issubclass(value, wbc.Constraint):
            constraints.append(("quaddyn.wbc", name))
        elif issubclass(value, (wbc.Task, wbc.ForceTask)):
            tasks.append(("quaddyn.wbc", name))
    # The base class comes first.
    tasks.sort(key=lambda each: (each[1] != "Task", each[1]))
    constraints.sort(key=lambda each: (each[1] != "Constraint", each[1]))
    solvers = [(subpackage, name) for subpackage, names in SOLVERS.items() for name in names]
    return {"tasks": tasks, "constraints": constraints, "solvers": solvers}


def subpackages() -> list[str]:
    """Returns the packages with an ``__all__``."""
    found = []
    for info in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if info.ispkg and not info.name.startswith(HIDDEN):
            if getattr(importlib.import_module(info.name), "__all__", ()):
                found.append(info.name)
    return ["quaddyn", *sorted(found)]


def owners() -> dict[str, list[str]]:
    """Returns the names on the page of each subpackage, each once: where it is defined, at the highest level."""
    claimed: dict[int, tuple[str, str]] = {}
    names = subpackages()
    for subpackage in sorted(names, key=lambda each: (each == "quaddyn", each.count("."))):
        module = importlib.import_module(subpackage)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            home = getattr(value, "__module__", None) or ""
            held = claimed.get(id(value))
            if held is None or (held[0] not in home and subpackage != "quaddyn" and home.startswith(subpackage)):
                claimed[id(value)] = (subpackage, name)
    out: dict[str, list[str]] = {subpackage: [] for subpackage in names}
    for subpackage, name in claimed.values():
        out[subpackage].append(name)
    return {subpackage: sorted(found, key=str.lower) for subpackage, found in out.items()}


def documented_constant(subpackage: str, name: str) -> str:
    """Returns the dotted name of the definition whose comment ``#:`` describes an exported constant."""
    value = getattr(importlib.import_module(subpackage), name)
    for module in [each for each in sys.modules if each == subpackage or each.startswith(f"{subpackage}.")]:
        if getattr(sys.modules[module], name, None) is value:
            analyzer = ModuleAnalyzer.for_module(module)
            analyzer.analyze()
            if ("", name) in analyzer.attr_docs:
                return f"{module}.{name}"
    raise LookupError(f"{subpackage}.{name} has no comment `#:` where it is defined")


def directive(subpackage: str, name: str) -> str:
    """Returns the autodoc directive of one object."""
    value = getattr(importlib.import_module(subpackage), name)
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    else:
        kind = "autofunction" if callable(value) and hasattr(value, "__name__") else "autodata"
    if kind == "autodata":
        return f".. autodata:: {documented_constant(subpackage, name)}\n   :no-value:\n"
    options = "   :members:\n" if kind == "autoclass" else ""
    return f".. {kind}:: {subpackage}.{name}\n{options}"


def rst(text: str) -> str:
    """Wraps reStructuredText for a Markdown page."""
    return f"```{{eval-rst}}\n{text}```\n"


def write(path: Path, text: str) -> None:
    """Writes a file unless it has this text already, so that Sphinx does not read it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def summary(value: object) -> str:
    """Returns the first paragraph of a docstring, as Markdown."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def page_of(name: str) -> str:
    """Returns the file name of an element's page."""
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)).replace("_", "-")


def write_elements(docs: Path) -> set[Path]:
    """Writes one page per task, constraint and solver."""
    written = set()
    for chapter, members in elements().items():
        for subpackage, name in members:
            picture = f"pictures/{page_of(name)}.svg"
            head = f"# {name}\n\n"
            if (docs / picture).exists():
                head += f"![{name}](../{picture})\n\n"
            path = docs / chapter / f"{page_of(name)}.md"
            write(path, head + rst(directive(subpackage, name)))
            written.add(path)
    return written


def write_api(docs: Path) -> set[Path]:
    """Writes one page per subpackage, and their table of contents."""
    written = set()
    with_page = {member: chapter for chapter, members in elements().items() for member in members}
    owned = owners()
    for subpackage, names in owned.items():
        module: ModuleType = importlib.import_module(subpackage)
        listed = [(subpackage, name) for name in names]
        elsewhere = sorted(set(module.__all__) - set(names)) if subpackage == "quaddyn" else []
        body = f"# {subpackage}\n\n" + rst(f".. automodule:: {subpackage}\n   :no-members:\n") + "\n"
        links = [
            f"- [{name}](../{with_page[subpackage, name]}/{page_of(name)}.md)"
            for _, name in listed
            if (subpackage, name) in with_page
        ]
        if links:
            body += "On separate pages:\n\n" + "\n".join(links) + "\n\n"
        if elsewhere:
            body += "Described with their subpackages:\n\n"
            for name in elsewhere:
                home = next((r for r, n in owned.items() if r != subpackage and name in n), None)
                if home:
                    body += f"- {{py:obj}}`{name} <{home}.{name}>`\n"
            body += "\n"
        body += "\n".join(rst(directive(subpackage, name)) for _, name in listed if (subpackage, name) not in with_page)
        path = docs / "api" / f"{subpackage}.md"
        write(path, body)
        written.add(path)
    rows = "\n".join(
        f"| [{subpackage}]({subpackage}.md) | {summary(importlib.import_module(subpackage))} |" for subpackage in owned
    )
    toc = "\n".join(owned)
    text = (
        "# API reference\n\nGenerated from the docstrings.  Arrays are float64; shapes and units are in brackets.\n\n"
        f"| subpackage | content |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    path = docs / "api" / "index.md"
    write(path, text)
    return written | {path}


def write_gallery(docs: Path) -> set[Path]:
    """Writes one page per example, and the table of their pictures."""
    written, cards, names = set(), [], []
    folder = docs.parent / "examples"
    for file in sorted(folder.glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
        title, _, rest = text.partition("\n")
        title = title.rstrip(".")
        picture = folder / "pictures" / f"{file.stem}.png"
        image = f"![{title}](../../examples/pictures/{picture.name})\n\n" if picture.exists() else ""
        code = f"```{{literalinclude}} ../../examples/{file.name}\n:language: python\n```\n"
        body = f"# {title}\n\n{rest.strip()}\n\n{image}{code}"
        path = docs / "gallery" / f"{file.stem}.md"
        write(path, body)
        written.add(path)
        names.append(file.stem)
        cards.append(
            f":::{{grid-item-card}} {title}\n:link: {file.stem}\n:link-type: doc\n"
            f":img-bottom: ../../examples/pictures/{picture.name}\n:::\n"
        )
    for file in sorted(folder.glob("*.ipynb")):
        path = docs / "gallery" / file.name
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, path)
        written.add(path)
        names.append(file.stem)
    index = docs / "gallery" / "index.md"
    grid = "::::{grid} 1 2 3 3\n:gutter: 3\n\n" + "\n".join(cards) + "::::\n" if cards else ""
    toc = "\n".join(names)
    lead = "Each example runs alone: `python examples/NAME.py`, with `--picture FILE` for its picture.\n"
    write(index, f"# Examples\n\n{lead}\n{grid}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n")
    return written | {index}


def generate(app: Sphinx) -> None:
    """Writes all pages and deletes those of removed objects."""
    docs = Path(app.srcdir)
    from element_pictures import draw_all
    from recordings import write_recordings

    draw_all(docs / "pictures")
    for write_pages in (write_elements, write_api, write_gallery, write_recordings):
        written = write_pages(docs)
        for folder in {path.parent for path in written}:
            for path in folder.iterdir():
                if path.suffix in (".md", ".ipynb") and path not in written and path.name != "index.md":
                    path.unlink()


#: How Sphinx writes a NumPy array of floats.
ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[~?(?:numpy\.)?float64\]\]"
)


def shorten(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Abbreviates array types in signatures to ``Array``."""
    return tuple(text and ARRAY.sub("Array", text) for text in (signature, returns))  # type: ignore[return-value]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
