"""`CodeCache`: compiled code on disk, which counts as long as the sources that it follows from are the same.

numba takes what it finds there as long as the function's own file is the same, whatever became of what that calls: a
number that has changed would be wrong, and a function that is gone would end the process.  Here every module counts
that the function's own one imports, and what those import, to the letter.

Importing this module imports numba.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

#: ``from ..room.module import names``, over as many lines as there are brackets around the names.
IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


class CodeCache(FunctionCache):
    """Of one function.

    Args:
        function: what is compiled.

    Raises:
        RuntimeError: there is no place where a cache could be written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = fingerprint(Path(function.__code__.co_filename))
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]


@cache
def fingerprint(file: Path) -> str:
    """Of a module's source and of all that it imports from this package, and so on."""
    return hashlib.sha256(b"".join(_digest(each) for each in sorted(sources(file)))).hexdigest()


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
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.name.encode() + _content(file)).digest()


@cache
def _imported(file: Path) -> frozenset[Path]:
    found = []
    for dots, name, names in IMPORT.findall(_content(file).decode()):
        place = file.parents[len(dots) - 1].joinpath(*name.split("."))
        if place.is_dir():  # what is imported from a package may be modules of it
            found += [place / "__init__.py", *(place / f"{each}.py" for each in re.findall(r"\w+", names))]
        else:
            found.append(place.with_suffix(".py"))
    return frozenset(each for each in found if each.is_file())
