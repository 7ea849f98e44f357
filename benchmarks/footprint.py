"""Measures the import time of dynamics, the time of `quaddyn --version`, and the disk space that each dependency needs.

    python benchmarks/footprint.py [--rounds 10] [--check]

The import time is that of `quaddyn.Dynamics` in addition to `import pinocchio`, the minimum over fresh processes.  The
disk space of a dependency is that of all packages which it brings and the dependencies before it do not, without
extras; "unused" are packages which neither this package, nor the dependency for what this package uses, imports.  With
--check the exit code is 1 if one of the limits is exceeded.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

#: Maximum CPU times [s]: of the import of dynamics in addition to that of Pinocchio, and of `quaddyn --version`.
MAX_IMPORT_TIME, MAX_VERSION_TIME = 0.2, 0.5
#: Dependencies without which the package cannot work, and maximum size of all others [MB].
BASE, MAX_EXCESS = ("numpy", "pin", "example-robot-data", "meshcat", "llvmlite"), 20.0
#: Dependencies of which only data files are used, and none of their modules.
DATA_ONLY = ("example-robot-data", "meshcat")

#: Program that prints the CPU times of both imports, and the number of modules of this package.
CODE = """import sys
import time
t = time.process_time()
import pinocchio
a = time.process_time()
from quaddyn import Dynamics
b = time.process_time()
print(a - t, b - a, sum(name.split(".")[0] == "quaddyn" for name in sys.modules))
"""
#: Program that prints the CPU time of a process that prints the version.
VERSION = """import os, subprocess, sys
subprocess.run([sys.executable, "-m", "quaddyn", "--version"], stdout=subprocess.DEVNULL, check=True)
print(os.times().children_user + os.times().children_system)
"""
#: Program that uses every part of the default installation and prints the imported modules.
EVERYTHING = """import sys
import quaddyn as qd
import quaddyn.cli, quaddyn.viewer.server, quaddyn.viewer.video
qd.compile(qd.load("two_link_leg"), ("rnea",))
print(*sys.modules)
"""


def run_program(code: str) -> list[str]:
    """Returns the words that a program prints in a fresh process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def add_package_sizes(name: str, sizes: dict[str, float]) -> dict[str, float]:
    """Adds the sizes of a package and of its dependencies to a dictionary by name [MB]; returns the dictionary."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in sizes:
        return sizes
    try:
        package = distribution(name)
    except PackageNotFoundError:  # a dependency of another platform or Python version
        return sizes
    files = {Path(str(file.locate())).resolve() for file in package.files or ()}
    sizes[key] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    for line in package.requires or ():
        if "extra ==" not in line:
            add_package_sizes(re.split(r"[^\w.-]", line, maxsplit=1)[0], sizes)
    return sizes


def direct_dependencies() -> list[str]:
    """Returns the dependencies of this package, those of `BASE` first."""
    lines = [line for line in distribution("quaddyn").requires or () if "extra ==" not in line]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    return sorted(names, key=lambda name: BASE.index(name) if name in BASE else len(BASE))


def main() -> int:
    """Prints times and sizes; returns 1 if a limit of `--check` is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="number of processes that are measured")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is exceeded")
    options = parser.parse_args()
    times = [tuple(map(float, run_program(CODE))) for _ in range(options.rounds)]
    added_time = min(b for _, b, _ in times)
    print(f"import pinocchio: {min(a for a, _, _ in times):.3f} s; quaddyn.Dynamics adds {added_time:.3f} s", end=" ")
    print(f"and {times[0][2]:.0f} modules")
    version_time = min(float(run_program(VERSION)[0]) for _ in range(options.rounds))
    print(f"quaddyn --version: {version_time:.3f} s of CPU time")

    imported = {name.split(".")[0] for name in run_program(EVERYTHING)}
    providers: dict[str, set[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            providers.setdefault(re.sub(r"[-_.]+", "-", package).lower(), set()).add(module)
    sizes: dict[str, float] = {}
    excess = 0.0
    print(f"{'dependency':<20} {'MB':>7}  packages that it brings, in MB")
    for name in direct_dependencies():
        before = set(sizes)
        new = {key: size for key, size in add_package_sizes(name, sizes).items() if key not in before}
        excess += sum(new.values()) if name not in BASE else 0.0
        # Packages of Pinocchio contain libraries, which are loaded without an import.
        unused = [key for key in new if key in providers and not providers[key] & imported and name != "pin"]
        parts = ", ".join(f"{key} {size:.1f}" for key, size in sorted(new.items(), key=lambda item: -item[1])[:6])
        print(f"{name:<20} {sum(new.values()):7.1f}  {parts}" + (" (data only)" if name in DATA_ONLY else ""))
        if unused := [key for key in unused if key not in DATA_ONLY]:
            print(f"{'':<20} {sum(new[key] for key in unused):7.1f}  unused: {', '.join(sorted(unused))}")
    total = sum(sizes.values())
    print(f"{len(sizes)} packages, {total:.0f} MB; {excess:.1f} MB beyond {', '.join(BASE)}")
    return int(
        options.check and (added_time > MAX_IMPORT_TIME or version_time > MAX_VERSION_TIME or excess > MAX_EXCESS)
    )


if __name__ == "__main__":
    sys.exit(main())
