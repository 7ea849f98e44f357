"""Fingerprints of machine code: of the sources of modules and of what these import, except other distributions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from . import objects

_PACKAGE = Path(__file__).resolve().parents[1]

#: ``from ..room.module import names``, over as many lines as there are brackets around the names, or ``import module``.
IMPORT = re.compile(r"^ *(?:from (\.*)([\w.]*) import (\((?:#.*|[^)#])*\)|.*)|import (.*))", re.MULTILINE)


@cache
def fingerprint(*files: Path) -> str:
    """Returns the digest of the source files of modules, of all modules that they import, and of the compiler."""
    room = frozenset(Path(__file__).parent.glob("*.py"))
    return objects.digest(*(f"{each.name} {_digest(each)}" for each in sorted(sources(*files) | room)))


def sources(*files: Path) -> frozenset[Path]:
    """Returns modules with all their imports, recursively, from this package, their package and their folder."""
    found: frozenset[Path] = frozenset()
    left = frozenset(files)
    while left:
        found |= left
        left = frozenset().union(*map(_imported, left)) - found
    return found


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _digest(file: Path) -> str:
    return objects.digest(_content(file))


@cache
def _imported(file: Path) -> frozenset[Path]:
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
    """The folder that a folder's outermost package lies in, and that package's name; itself and "" outside of any."""
    package = ""
    while (folder / "__init__.py").is_file():
        folder, package = folder.parent, folder.name
    return folder, package


@cache
def _modules(folder: Path, name: str, names: str) -> frozenset[Path]:
    """The files of a module below a folder; of a package also those of its modules among `names`."""
    place = folder.joinpath(*name.split("."))
    found = [place.with_suffix(".py")]
    if place.is_dir():
        found = [place / f"{each}.py" for each in ("__init__", *re.findall(r"\w+", names))]
    return frozenset(each for each in found if each.is_file())
