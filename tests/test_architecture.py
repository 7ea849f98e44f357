"""Structure of the package: one import direction, no cycles, and no heavy package loaded by an import."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import quaddyn

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "quaddyn"

# In import order: a subpackage may import only from those above it.
SUBPACKAGES = (
    "version",
    "errors",
    "extras",
    "operating_system",
    "safe_files",
    "archives",
    "strict_attributes",
    "deprecation",
    "forks",
    "exclusive_call",
    "compiler",
    "urdf",
    "robot",
    "lane_blocks",
    "cuda",
    "exports",
    "kernels",
    "torch",
    "jax",
    "hierarchy",
    "dynamics",
    "kinematics",
    "contact",
    "estimation",
    "control",
    "wbc",
    "locomotion",
    "simulation",
    "planning",
    "identification",
    "runtime",
    "reference",
    "verification",
    "viewer",
    "envs",
    "demo",
    "campaigns",
    "cli",
    "__main__",
)
MUST_NOT_IMPORT = {
    "errors": {"numpy", "pinocchio"},
    "safe_files": {"numpy", "pinocchio"},
    "archives": {"pinocchio"},
    "compiler": {"pinocchio"},
    "urdf": {"pinocchio"},
    "cuda": {"pinocchio"},
    "kernels": {"pinocchio"},
    "hierarchy": {"pinocchio"},
    "reference": {"pinocchio"},
    "simulation": {"meshcat"},
    "runtime": {"meshcat"},
}


@functools.cache
def modules() -> dict[str, Path]:
    out = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


class Import(NamedTuple):
    """An import statement, and whether it is for types alone."""

    node: ast.Import | ast.ImportFrom
    for_types: bool


@functools.cache
def read(path: Path) -> tuple[Import, ...]:
    """All imports of a file; expressions are skipped, because they contain none."""
    found: list[Import] = []

    def visit(node: ast.AST, for_types: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(Import(node, for_types))
            return
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for_types = True
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            for child in getattr(node, block, ()):
                visit(child, for_types)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return tuple(found)


def imports(name: str, path: Path) -> list[tuple[str, int]]:
    """Pairs (dotted name inside the package, or "!" and an external package; line), without imports for types."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: list[tuple[str, int]] = []

    for node, for_types in read(path):
        if for_types:
            continue
        if isinstance(node, ast.Import):
            found.extend(("!" + alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif node.level == 0:
            found.append(("!" + str(node.module).split(".")[0], node.lineno))
        else:
            base = [p for p in package if p][: len([p for p in package if p]) - node.level + 1]
            target = ".".join(base + (node.module.split(".") if node.module else []))
            found.extend(
                (f"{target}.{alias.name}".strip(".") if not node.module else target, node.lineno)
                for alias in node.names
            )
    return found


def test_every_module_is_in_a_listed_subpackage() -> None:
    strangers = {name.split(".")[0] for name in modules() if name} - set(SUBPACKAGES)
    assert not strangers, f"subpackages that are not in the import order: {sorted(strangers)}"


def test_subpackages_import_in_one_direction_only() -> None:
    wrong = []
    for name, path in modules().items():
        room = name.split(".")[0]
        for target, line in imports(name, path) if room else ():
            if target.startswith("!") or not target:
                continue
            other = target.split(".")[0]
            if other in SUBPACKAGES and SUBPACKAGES.index(other) > SUBPACKAGES.index(room):
                wrong.append(f"{path.relative_to(PACKAGE.parent)}:{line}: {room} -> {other}")
    assert not wrong, "imports in the wrong direction:\n" + "\n".join(wrong)


def test_subpackages_do_not_import_excluded_packages() -> None:
    wrong = []
    for name, path in modules().items():
        banned = MUST_NOT_IMPORT.get(name.split(".")[0], set())
        wrong += [f"{name}:{line}: {t[1:]}" for t, line in imports(name, path) if t.startswith("!") and t[1:] in banned]
    assert not wrong


def everything_imported(name: str, path: Path) -> set[str]:
    """Modules of the package that a module imports anywhere, also in functions and for types."""
    known, package = modules(), name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node, _ in read(path):
        if isinstance(node, ast.ImportFrom) and node.level:
            target = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            base = ".".join(part for part in target if part)
            for alias in node.names:
                inner = f"{base}.{alias.name}".strip(".")
                found.add(inner if inner in known else base)
    return found - {name, ""}


def import_cycles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Cycles: groups of modules of which each imports all others of its group, directly or indirectly."""
    reach = {}
    for start in graph:
        seen, ahead = set[str](), list(graph[start])
        while ahead:
            if (node := ahead.pop()) not in seen:
                seen.add(node)
                ahead += graph.get(node, ())
        reach[start] = seen
    return sorted({tuple(sorted(b for b in graph if b in reach[a] and a in reach[b])) for a in graph if a in reach[a]})


def test_modules_have_no_import_cycles_in_functions_and_types() -> None:
    graph = {name: everything_imported(name, path) for name, path in modules().items() if name}
    found = import_cycles(graph)
    assert not found, "modules that import each other:\n" + "\n".join(" <-> ".join(each) for each in found)


def test_import_cycles_are_detected() -> None:
    assert import_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [("b", "c")]
    package = PACKAGE / "wbc" / "controller.py"
    assert {"compiler", "wbc.command", "wbc.tick_data"} <= everything_imported("wbc.controller", package)


def test_relative_imports_of_every_form_are_found(tmp_path: Path) -> None:

    path = tmp_path / "bad.py"
    path.write_text("from ..viewer import Viewer\nfrom .. import cli\nimport pinocchio as pin\n", encoding="utf-8")
    assert [t for t, _ in imports("urdf.bad", path)] == ["viewer", "cli", "!pinocchio"]


HEAVY = (
    "llvmlite", "meshcat", "mujoco", "numba", "matplotlib", "typer", "rich", "tornado", "mcap", "scipy", "pandas",
    "IPython", "dask", "xacro", "torch", "jax", "gymnasium",
)  # fmt: skip


DYNAMICS = """
import sys
import quaddyn as qd
print(*sys.modules, sep=",")
robot = qd.load("go2")
dyn = qd.Dynamics(robot)
dyn.rnea(robot.q_home, dyn.gravity(robot.q_home), dyn.gravity(robot.q_home))
print(*sys.modules, sep=",")
"""

#: Largest number of modules of this package that dynamics of a robot without closed loops import.
MAX_DYNAMICS_MODULES = 60


def test_dynamics_import_few_modules_no_kernels_and_no_compiler() -> None:
    run = subprocess.run([sys.executable, "-c", DYNAMICS], check=True, timeout=60, capture_output=True, text=True)
    imported, used = (set(line.split(",")) for line in run.stdout.splitlines())
    assert not imported & {*HEAVY, "numpy", "pinocchio"}
    assert not used & {*HEAVY, "quaddyn.kernels", "quaddyn.compiler"}
    ours = {name for name in used if name.split(".")[0] == "quaddyn"}
    assert "quaddyn.dynamics" in ours and len(ours) <= MAX_DYNAMICS_MODULES, sorted(ours)


def test_version_option_imports_no_subcommand() -> None:
    code = "import sys, quaddyn.__main__ as m; sys.argv[1:] = ['--version']; m.main(); print(*sys.modules, sep=',')"
    run = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    version, imported = run.stdout.splitlines()
    assert version == quaddyn.__version__
    assert not set(imported.split(",")) & {"quaddyn.cli", "numpy", "pinocchio", "typer"}


def test_required_dependencies_are_the_listed_ones() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in table} == {
        "pin", "numpy", "example-robot-data", "meshcat", "tornado", "llvmlite", "defusedxml", "typer", "rich",
    }  # fmt: skip
