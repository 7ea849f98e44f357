"""Cache folders with the machine code of the package, so that a test compiles only the functions under test."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from quaddyn.compiler import object_cache
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.compiler.machine import portable_target


def fill_cache(folder: Path, units: Iterable[CompilationUnit]) -> None:
    """Copies cached machine code of units, compiled now if it is missing, to a new private folder."""
    folder.mkdir(mode=0o700)
    target = portable_target()
    for unit in units:
        found, key = unit.load_machine_code(target) or unit.compile(target), unit.cache_key(target)
        object_cache.write_object(folder / f"{key}.bin", key, struct.pack("<d", found.seconds) + found.code)
