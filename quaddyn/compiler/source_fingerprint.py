"""Fingerprints of machine code: hashes of the sources of modules and of all that they import from the same package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from . import object_cache

_PACKAGE = Path(__file__).resolve().parents[1]

#: ``from ..subpackage.module import names``, also over several lines in parentheses, or ``import module``.
IMPORT = re.compile(r"^ *(?:from (\.*)([\w.]*) import (\((?:#.*|[^)#])*\)|.*)|import (.*))", re.MULTILINE)


@cache
def fingerprint(*files: Path) -> str:
    """Returns a hash of modules, of all that they import (`sources`), and of the compiler's own sources."""
    compiler_sources = frozenset(Path(__file__).parent.glob("*.py"))
    return object_cache.hash_parts(
        *(f"{each.name} {_digest(each)}" for each in sorted(sources(*files) | compiler_sources))
    )


def sources(*files: Path) -> frozenset[Path]:
    """Returns modules and, recursively, the modules that they import from this package, their own, or their folder."""
    found: frozenset[Path] = frozenset()
    left = frozenset(files)
    while left:
        found |= left
        left = frozenset().union(*map(_imported, left)) - found
    return found


@cache
def _content(file: Path) -> bytes:
    """Returns the content of a file, read once per process."""
    return file.read_bytes()


@cache
def _digest(file: Path) -> str:
    """Returns a hash of a file's content."""
    return object_cache.hash_parts(_content(file))


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Returns the files that a module imports directly."""
    root, package = _outermost(file.parent)
    installed = root == _PACKAGE.parent  # then what lies beside the package is others' packages
    found = frozenset[Path]()
    for dots, module, names, plain in IMPORT.findall(_content(file).decode()):
        for name in re.findall(r"(?:^|,)\s*([\w.]+)", plain) if plain else (module,):
            top = name.partition(".")[0]
            if dots:
                found |= _modules(file.parents[len(dots) - 1], name, names)
            elif top == _PACKAGE.name:
                found |= _modules(_PACKAGE.parent, name, names)
            elif top == package or not installed:
                found |= _modules(root, name, names)
    return found


@cache
def _outermost(folder: Path) -> tuple[Path, str]:
    """Returns the folder that contains a folder's outermost package, and its name; (folder, "") outside of packages."""
    package = ""
    while (folder / "__init__.py").is_file():
        folder, package = folder.parent, folder.name
    return folder, package


@cache
def _modules(folder: Path, name: str, names: str) -> frozenset[Path]:
    """Returns the files of a module below a folder; for a package also its modules among the imported `names`."""
    path = folder.joinpath(*name.split("."))
    found = [path.with_suffix(".py")]
    if path.is_dir():
        found = [path / f"{each}.py" for each in ("__init__", *re.findall(r"\w+", names))]
    return frozenset(each for each in found if each.is_file())
