"""The package's machine code in a folder of a test's own, so that the test compiles no more than it is about."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from quaddyn.compiler import object_cache
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.compiler.machine import portable_target


def keep_in(folder: Path, units: Iterable[CompilationUnit]) -> None:
    """Copy what is kept for the user, compiled now where it is missing, into a new private folder."""
    folder.mkdir(mode=0o700)
    target = portable_target()
    for unit in units:
        found, key = unit.load_machine_code(target) or unit.compile(target), unit.cache_key(target)
        object_cache.write_object(folder / f"{key}.bin", key, struct.pack("<d", found.seconds) + found.code)
