"""Public classes and functions show their signatures, and their docstrings describe every parameter."""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quaddyn
from quaddyn.deprecation import RENAMED

PACKAGE = Path(quaddyn.__file__).parent

#: A unit in brackets, such as [m/s] or [m, rad]; code such as x[0] or a list of strings does not match.
UNIT = re.compile(r"(?<![\w\])])\[(?![\"'])[^\[\]]+\]")
#: Words which state that a number or an array has no unit, or which fix its units.
UNITLESS = re.compile(
    r"\b(dimensionless|fractions?|ratios?|counts?|ind(?:ex|exes|ices)|seeds?|number of|how many|coefficients?|factors?"
    r"|relative|probabilit(?:y|ies)|portion|normalized|configurations?|quaternions?|unit vectors?|unit normal|rotation"
    r"|masks?|booleans?|port|percent(?:age)?|alpha|activations?|weights?|exit code|bits?|identifiers?|true|levels?"
    r"|binary|version|any unit|same units?|its units?|units? of)\b",
    re.IGNORECASE,
)
#: Words that state what an integer counts.
COUNTED = re.compile(
    r"\b(iterations?|ticks?|steps?|samples?|cases?|rows?|columns?|dimensions?|size|rank|threads?|processes|cores"
    r"|faces|joints|feet|contacts|unknowns|trials|lines|digits|bytes|repetitions)\b",
    re.IGNORECASE,
)
#: A shape, such as (nv,), (n, 3), shape (3, 3), 4x4 or one value per joint.
SHAPE = re.compile(
    r"\(\s*[\w .+*-]+,[\w ,.+*/-]*\)|\bshapes?\b|\b\w+[x×]\w+\b|\((?:n[qv]|\d+|[nmk])\)"
    r"|\b(?:per|for each|for every|of each|of every) \w+"
)


#: The names at the beginning of an entry, such as `kp, kd (nu,):`, and the text behind them.
_NAME = r"[*`]*\w+`*(?:\s*\([^)]*\))?"
ENTRY = re.compile(rf"\s*({_NAME}(?:(?:,\s*|\s+and\s+){_NAME})*):(?:\s+(.*))?$")


# -- the public surface -----------------------------------------------------------------------------------------------
@functools.cache
def modules() -> tuple[str, ...]:
    """Returns the names of all modules of the package, after importing them."""
    names = [
        info.name for info in pkgutil.walk_packages(quaddyn.__path__, "quaddyn.") if not info.name.endswith("__main__")
    ]
    for name in names:
        importlib.import_module(name)
    return ("quaddyn", *names)


@functools.cache
def subpackages() -> tuple[str, ...]:
    """Returns the packages that export names by ``__all__``."""
    return tuple(
        name
        for name in modules()
        if vars(sys.modules[name]).keys() >= {"__path__", "__all__"} and sys.modules[name].__all__
    )


def exported(subpackage: str) -> Iterator[tuple[str, Any]]:
    """Yields the public classes and functions of a subpackage.  Those of `quaddyn` belong to where they come from."""
    for name in sys.modules[subpackage].__all__:
        value = getattr(sys.modules[subpackage], name)
        if inspect.isclass(value) or inspect.isroutine(value):
            home = value.__module__.rpartition(".")[0]
            if subpackage != "quaddyn" or not any(home.startswith(other) for other in subpackages()[1:]):
                yield name, value


def has_constructor(value: Any) -> bool:
    """Returns False for classes which are not called by users: errors, enumerations and protocols."""
    return not inspect.isclass(value) or not (
        issubclass(value, BaseException | enum.Enum) or getattr(value, "_is_protocol", False)
    )


# -- docstrings -------------------------------------------------------------------------------------------------------
def entries(docstring: str) -> dict[str, str]:
    """Returns the text of each parameter in the sections ``Args`` and ``Attributes`` of a Google-style docstring."""
    found: dict[str, str] = {}
    names: list[str] = []
    inside, indent = False, None
    for line in inspect.cleandoc(docstring).splitlines():
        if re.match(r"\S", line):
            inside, indent, names = bool(re.match(r"(Args|Attributes|Keyword Args)\b.*:\s*$", line)), None, []
            continue
        if not inside or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        start = ENTRY.match(line)
        if depth == indent and start:
            names = re.findall(r"\w+", re.sub(r"\([^)]*\)|\band\b", "", start.group(1)))
            described = re.findall(r"\([^)]*\)", start.group(1))  # a type or shape before the colon
            found.update({name: " ".join([*described, start.group(2) or ""]) for name in names})
        else:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


def described_parameters(value: Any) -> dict[str, str]:
    """Returns the entries of a function, or of a class and its bases down to the one that defines the constructor."""
    if not inspect.isclass(value):
        return entries(value.__doc__ or "")
    found: dict[str, str] = {}
    for kind in value.__mro__:
        if kind.__module__.startswith("quaddyn"):
            constructor = kind.__dict__.get("__init__")
            for docstring in (getattr(constructor, "__doc__", None), kind.__doc__):
                found = {**entries(docstring or ""), **found}
        if "__init__" in kind.__dict__ or "__new__" in kind.__dict__:
            break
    return found


def annotation_of(parameter: inspect.Parameter) -> str:
    """Returns the annotation as text, without the argument and result types of callables."""
    text = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
    return re.sub(r"Callable\[(?:\[[^\]]*\]|\.\.\.), [^\]]*\]+", "Callable", text)


def parameter_problems(parameter: inspect.Parameter, text: str | None) -> list[str]:
    """Returns what is missing in the entry `text` of a parameter."""
    if text is None or not text.strip():
        return ["no entry in Args"]
    if re.match(r"\s*see `\w+`", text):  # described where it is defined first
        return []
    annotation, problems = annotation_of(parameter), []
    is_array = bool(re.search(r"\b(Array\w*|ndarray|NDArray)\b", annotation))
    if parameter.annotation is parameter.empty and not re.search(r"\(|\bshape\b", text):
        problems.append("neither annotated nor described by a type or shape")
    if is_array and not SHAPE.search(text):
        problems.append("an array without shape")
    if is_array or re.search(r"\b(float|int)\b", annotation):
        words = f"{parameter.name} {text}".replace("_", " ")
        counts = not is_array and "float" not in annotation and COUNTED.search(words)
        if not (counts or UNIT.search(text) or UNITLESS.search(words)):
            problems.append("no unit such as [m], nor a word such as dimensionless, fraction, number of, index")
    if parameter.default is None and not re.search(r"\bNone\b|\bdefault\w*\b|\bwithout\b|\bunless\b", text):
        problems.append("the default None is not explained")
    return problems


def signature_problems(value: Any) -> list[str]:
    """Returns why the signature does not show which arguments a class or function takes."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError) as error:
        return [f"no signature: {error}"]
    described = described_parameters(value)
    return [
        f"{parameter}: hides the names of the arguments, and has no entry in Args"
        for parameter in parameters
        if parameter.name in ("args", "kwargs") and parameter.name not in described
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def docstring_problems(value: Any) -> list[str]:
    """Returns what is missing in the docstring of a public class or function, one text for each parameter."""
    if not (value.__doc__ or "").strip():
        return ["no docstring"]
    described = described_parameters(value)
    return [
        f"{parameter.name}: {'; '.join(problems)}"
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name not in ("self", "cls") and not parameter.name.startswith("_")
        if (problems := parameter_problems(parameter, described.get(parameter.name)))
    ]


def missing(subpackage: str) -> list[str]:
    """Returns every problem of the public signatures and docstrings of a subpackage."""
    return [
        f"{subpackage}.{name} ({inspect.unwrap(value).__module__}): {problem}"
        for name, value in exported(subpackage)
        if has_constructor(value)
        for problem in [*signature_problems(value), *docstring_problems(value)]
    ]


# -- renamed things ---------------------------------------------------------------------------------------------------
def owner_of(path: str) -> tuple[Any, str]:
    """Returns the module, class or function of a dotted path, and what remains of the path after its modules."""
    parts = path.split(".")
    count = max(n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in sys.modules)
    return sys.modules[".".join(parts[:count])], ".".join(parts[count:])


def has_attribute(kind: type, name: str) -> bool:
    """Returns whether a class has an attribute, one that its methods assign to ``self`` included."""
    return any(
        name in base.__dict__
        or name in inspect.get_annotations(base)
        or (base.__module__.startswith("quaddyn") and re.search(rf"\bself\.{name}\b[^=\n]*=", inspect.getsource(base)))
        for base in kind.__mro__
    )


def renaming_problem(old: str, new: str) -> str:
    """Returns why the new name of an old one does not exist, or an empty text."""
    path, parenthesis, parameter = old.removesuffix(")").partition("(")
    owner, rest = owner_of(path)
    if not parenthesis and not rest:
        return "" if new in sys.modules else f"no module {new}"
    *classes, last = rest.split(".")
    for name in [*classes, last] if parenthesis else classes:
        owner = getattr(owner, name)
    if not parenthesis:
        found = has_attribute(owner, new) if inspect.isclass(owner) else hasattr(owner, new)
        return "" if found else f"{owner} has no attribute {new}"
    parameter, _, value = parameter.partition("=")
    expected = parameter if value else new
    return "" if expected in inspect.signature(owner).parameters else f"{owner} has no parameter {expected}"


def class_definitions() -> dict[str, list[str]]:
    """Returns the modules that define a class of each name, classes inside functions excepted."""
    found: dict[str, list[str]] = defaultdict(list)

    def visit(node: ast.AST, module: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found[child.name].append(module)
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                visit(child, module)

    for path in sorted(PACKAGE.rglob("*.py")):
        visit(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(PACKAGE.parent).as_posix())
    return found


# -- tests ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("subpackage", subpackages())
def test_every_public_parameter_is_described(subpackage: str) -> None:
    assert missing(subpackage) == []


def test_no_two_classes_share_a_name() -> None:
    shared = {name: where for name, where in class_definitions().items() if len(where) > 1}
    assert shared == {}


def test_every_old_name_leads_to_an_existing_new_name() -> None:
    modules()
    renamed = {old: new for old, new in RENAMED.items() if old.startswith("quaddyn.")}
    assert renamed
    assert {old: problem for old, new in renamed.items() if (problem := renaming_problem(old, new))} == {}


def _described(speed: float, names: list[str] | None = None, *, shape: Callable[[float], float] = abs) -> None:
    """Moves.

    Args:
        speed: of the trunk [m/s],
            in its heading direction.
        names, shape: of the joints; None: all.
    """


def test_docstring_checks_find_missing_entries() -> None:
    assert entries(_described.__doc__ or "") == {
        "speed": "of the trunk [m/s], in its heading direction.",
        "names": "of the joints; None: all.",
        "shape": "of the joints; None: all.",
    }
    assert docstring_problems(_described) == []
    parameters = inspect.signature(_described).parameters
    assert "unit" in parameter_problems(parameters["speed"], "of the trunk")[0]
    assert "None" in parameter_problems(parameters["names"], "of the joints")[0]
    assert parameter_problems(parameters["names"], None) == ["no entry in Args"]
    assert signature_problems(lambda *args, **kwargs: None) != []
    assert renaming_problem("quaddyn.agreement", "quaddyn.nothing") == "no module quaddyn.nothing"
    assert "no attribute" in renaming_problem("quaddyn.robot.Robot.old", "no_such_name")
    assert "no parameter" in renaming_problem("quaddyn.load(old)", "no_such_name")
