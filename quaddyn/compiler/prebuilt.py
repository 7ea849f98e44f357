"""Every unit of the package, and their objects for a wheel: ``python -m quaddyn.compiler.prebuilt FOLDER``."""

from __future__ import annotations

import importlib
import re
import sys
import time
from pathlib import Path

from .compilation_units import PACKAGE, Unit

#: Targets that a wheel has objects for; others compile at first use.
TARGETS = ("x86-64-v3", "aarch64")

ENTRY = re.compile(r"^@entry\(", re.MULTILINE)


def modules() -> list[str]:
    """Every module of the package that has entries."""
    files = sorted(file for file in PACKAGE.rglob("*.py") if ENTRY.search(file.read_text(encoding="utf-8")))
    return [".".join((PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts)) for file in files]


def units() -> list[Unit]:
    """Every unit of the package; needs no robot."""
    for module in modules():
        importlib.import_module(module)
    return [Unit.of(module) for module in modules()]


def main(folder: Path) -> None:
    """Compile every unit for every target into a folder, one line each."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit in units():
        for target in TARGETS:
            start = time.perf_counter()
            file = unit.ship(folder, target)
            took = time.perf_counter() - start
            print(f"{unit.title}, {target}: {file.stat().st_size / 1024.0:.0f} kB in {took:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
