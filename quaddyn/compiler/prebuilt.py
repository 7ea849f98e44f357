"""Prebuilt objects of all units for a wheel: ``python -m quaddyn.compiler.prebuilt FOLDER [TARGET ...]``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..errors import UnknownNameError
from .compilation_units import PACKAGE, CompilationUnit, defines_entries

#: Targets that a wheel has objects for; others compile at first use.
TARGETS = ("x86-64-v3", "aarch64")


def entry_modules() -> list[str]:
    """Returns the names of all modules of the package that define entries."""
    files = sorted(file for file in PACKAGE.rglob("*.py") if defines_entries(file))
    return [".".join((PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts)) for file in files]


def all_units() -> list[CompilationUnit]:
    """Returns all compilation units of the package."""
    for module in entry_modules():
        importlib.import_module(module)
    units = list(dict.fromkeys(CompilationUnit.of_module(module) for module in entry_modules()))
    for unit in units:
        unit.import_entries()
    return units


def main(folder: Path, targets: Sequence[str] = TARGETS) -> None:
    """Compiles every unit for every target into a folder and prints one line for each.

    Raises:
        UnknownNameError: a target that is not in `TARGETS`.
    """
    for target in targets:
        if target not in TARGETS:
            raise UnknownNameError("target", target, TARGETS)
    folder.mkdir(parents=True, exist_ok=True)
    for unit in all_units():
        for target in targets:
            start = time.perf_counter()
            file = unit.export_object(folder, target)
            took = time.perf_counter() - start
            print(f"{unit.title}, {target}: {file.stat().st_size / 1024.0:.0f} kB in {took:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or TARGETS)
