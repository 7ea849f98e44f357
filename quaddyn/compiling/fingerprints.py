"""What machine code follows from: the sources of a module and of all that it imports from this package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from . import objects

_PACKAGE = Path(__file__).resolve().parents[1]

#: ``from ..room.module import names``, over as many lines as there are brackets around the names.
IMPORT = re.compile(rf"^ *from (\.+|{_PACKAGE.name}(?=[. ])\.?)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def fingerprint(file: Path) -> str:
    """Of a module's source, of all that it imports from this package and so on, and of this room."""
    room = frozenset(Path(__file__).parent.glob("*.py"))
    return objects.digest(*(f"{each.name} {_digest(each)}" for each in sorted(sources(file) | room)))


def sources(file: Path) -> frozenset[Path]:
    """A module, and those of this package that it imports, and so on."""
    found: frozenset[Path] = frozenset()
    left = frozenset({file})
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
    found = []
    for start, name, names in IMPORT.findall(_content(file).decode()):
        folder = file.parents[len(start) - 1] if start.startswith(".") else _PACKAGE
        place = folder.joinpath(*name.split("."))
        if place.is_dir():  # what is imported from a package may be modules of it
            found += [place / "__init__.py", *(place / f"{each}.py" for each in re.findall(r"\w+", names))]
        else:
            found.append(place.with_suffix(".py"))
    return frozenset(each for each in found if each.is_file())
