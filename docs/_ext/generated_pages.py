"""Pages made from the package itself: one for each element and solver, one for each room, one for each example.

Equations, options and units stand in docstrings; these pages only arrange them.  They are written into the source
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

#: Rooms without an interface of their own for users.
HIDDEN = ("quaddyn.cli",)

SOLVERS = {
    "quaddyn.hierarchy": ("Level", "solve", "HierarchySolver", "solve_prioritized", "solve_equal_priority"),
    "quaddyn.contact.solvers": ("FrictionalSolver", "RigidSolver", "CompliantSolver", "ImpactSolver"),
    "quaddyn.contact": ("CompliantPlane",),
}

Elements = dict[str, list[tuple[str, str]]]


def elements() -> Elements:
    """(room, name) of everything that has a page of its own, by chapter."""
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
    solvers = [(room, name) for room, names in SOLVERS.items() for name in names]
    return {"tasks": tasks, "constraints": constraints, "solvers": solvers}


def rooms() -> list[str]:
    """Packages whose ``__init__`` lists what they offer."""
    found = []
    for info in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if info.ispkg and not info.name.startswith(HIDDEN):
            if getattr(importlib.import_module(info.name), "__all__", ()):
                found.append(info.name)
    return ["quaddyn", *sorted(found)]


def owners() -> dict[str, list[str]]:
    """By room, the names that are described on its page: each in the room that defines it, closest to the top."""
    claimed: dict[int, tuple[str, str]] = {}
    names = rooms()
    for room in sorted(names, key=lambda each: (each == "quaddyn", each.count("."))):
        module = importlib.import_module(room)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            home = getattr(value, "__module__", None) or ""
            held = claimed.get(id(value))
            if held is None or (held[0] not in home and room != "quaddyn" and home.startswith(room)):
                claimed[id(value)] = (room, name)
    out: dict[str, list[str]] = {room: [] for room in names}
    for room, name in claimed.values():
        out[room].append(name)
    return {room: sorted(found, key=str.lower) for room, found in out.items()}


def documented_constant(room: str, name: str) -> str:
    """Where the comment is that describes a constant which a room exports."""
    value = getattr(importlib.import_module(room), name)
    for module in [each for each in sys.modules if each == room or each.startswith(f"{room}.")]:
        if getattr(sys.modules[module], name, None) is value:
            analyzer = ModuleAnalyzer.for_module(module)
            analyzer.analyze()
            if ("", name) in analyzer.attr_docs:
                return f"{module}.{name}"
    raise LookupError(f"{room}.{name} has no comment `#:` where it is defined")


def directive(room: str, name: str) -> str:
    """What describes one object."""
    value = getattr(importlib.import_module(room), name)
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    else:
        kind = "autofunction" if callable(value) and hasattr(value, "__name__") else "autodata"
    if kind == "autodata":
        return f".. autodata:: {documented_constant(room, name)}\n   :no-value:\n"
    options = "   :members:\n" if kind == "autoclass" else ""
    return f".. {kind}:: {room}.{name}\n{options}"


def rst(text: str) -> str:
    """ReStructuredText inside a Markdown page."""
    return f"```{{eval-rst}}\n{text}```\n"


def write(path: Path, text: str) -> None:
    """Keep the file as it is where it says the same, so that Sphinx need not read it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def summary(value: object) -> str:
    """First sentence of a docstring, as Markdown."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def page_of(name: str) -> str:
    """File name of an element's page."""
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)).replace("_", "-")


def write_elements(docs: Path) -> set[Path]:
    """One page per task, constraint and solver."""
    written = set()
    for chapter, members in elements().items():
        for room, name in members:
            picture = f"pictures/{page_of(name)}.svg"
            head = f"# {name}\n\n"
            if (docs / picture).exists():
                head += f"![{name}](../{picture})\n\n"
            path = docs / chapter / f"{page_of(name)}.md"
            write(path, head + rst(directive(room, name)))
            written.add(path)
    return written


def write_api(docs: Path) -> set[Path]:
    """One page per room, and their table of contents."""
    written = set()
    with_page = {member: chapter for chapter, members in elements().items() for member in members}
    owned = owners()
    for room, names in owned.items():
        module: ModuleType = importlib.import_module(room)
        listed = [(room, name) for name in names]
        elsewhere = sorted(set(module.__all__) - set(names)) if room == "quaddyn" else []
        body = f"# {room}\n\n" + rst(f".. automodule:: {room}\n   :no-members:\n") + "\n"
        links = [
            f"- [{name}](../{with_page[room, name]}/{page_of(name)}.md)"
            for _, name in listed
            if (room, name) in with_page
        ]
        if links:
            body += "On pages of their own:\n\n" + "\n".join(links) + "\n\n"
        if elsewhere:
            body += "Described with the room that they are from:\n\n"
            for name in elsewhere:
                home = next((r for r, n in owned.items() if r != room and name in n), None)
                if home:
                    body += f"- {{py:obj}}`{name} <{home}.{name}>`\n"
            body += "\n"
        body += "\n".join(rst(directive(room, name)) for _, name in listed if (room, name) not in with_page)
        path = docs / "api" / f"{room}.md"
        write(path, body)
        written.add(path)
    rows = "\n".join(f"| [{room}]({room}.md) | {summary(importlib.import_module(room))} |" for room in owned)
    toc = "\n".join(owned)
    text = (
        "# API reference\n\nMade from the docstrings.  Arrays are float64; shapes and units are in brackets.\n\n"
        f"| room | what is in it |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    path = docs / "api" / "index.md"
    write(path, text)
    return written | {path}


def write_gallery(docs: Path) -> set[Path]:
    """One page per example, and the table of their pictures."""
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
    lead = "Each is a short file that runs alone: `python examples/NAME.py`, with `--picture FILE` for its picture.\n"
    write(index, f"# Examples\n\n{lead}\n{grid}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n")
    return written | {index}


def generate(app: Sphinx) -> None:
    """Write all pages; take away those of what is no more."""
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
    """Arrays by the name that the package gives them."""
    return tuple(text and ARRAY.sub("Array", text) for text in (signature, returns))  # type: ignore[return-value]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register."""
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
