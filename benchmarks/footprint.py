"""Measures the time of `import quaddyn` and the disk space of the package with all its dependencies.

    python benchmarks/footprint.py [--rounds 10] [--check]

The time is that in addition to `import pinocchio`, the minimum over fresh processes.  The disk space is that of all
packages which `pip install quaddyn` installs, without extras.  With --check the exit code is 1 if `MAX_IMPORT_TIME` or
`MAX_SIZE` is exceeded.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: Maximum time that `import quaddyn` adds [s], and maximum size of all packages [MB].
MAX_IMPORT_TIME, MAX_SIZE = 0.15, 1200.0

#: Program that prints the CPU times of both imports.
CODE = """import time
t = time.process_time()
import pinocchio
a = time.process_time()
import quaddyn
print(a - t, time.process_time() - a)
"""


def measure_import_times() -> tuple[float, float]:
    """Measures the CPU times of `import pinocchio` and of `import quaddyn` after it [s], in a fresh process."""
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, encoding="utf-8", check=True).stdout
    first, second = map(float, out.split())
    return first, second


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


def main() -> int:
    """Prints times and sizes; returns 1 if a limit of `--check` is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="number of processes that are measured")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is exceeded")
    options = parser.parse_args()
    times = [measure_import_times() for _ in range(options.rounds)]
    added_time = min(b for _, b in times)
    print(f"import pinocchio: {min(a for a, _ in times):.3f} s; import quaddyn adds {added_time:.3f} s")
    command = [sys.executable, "-X", "importtime", "-c", "import pinocchio, quaddyn"]
    trace = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stderr.splitlines()
    rows = [line.split("|") for line in trace if "quaddyn" in line]
    for self_time, total, name in sorted(rows, key=lambda row: -int(row[0].split()[-1]))[:5]:
        print(
            f"  {name.strip():<40} {int(self_time.split()[-1]) / 1e3:8.1f} ms self "
            f"{int(total) / 1e3:8.1f} ms cumulative"
        )
    sizes = add_package_sizes("quaddyn", {})
    root = Path(__file__).resolve().parent.parent
    sizes["quaddyn"] = sum(f.stat().st_size for d in ("quaddyn", "robots") for f in (root / d).rglob("*.*")) / 1e6
    print(f"{len(sizes)} packages, {sum(sizes.values()):.0f} MB installed; the largest packages:")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:10]:
        print(f"  {name:<40} {size:8.1f} MB")
    return int(options.check and (added_time > MAX_IMPORT_TIME or sum(sizes.values()) > MAX_SIZE))


if __name__ == "__main__":
    sys.exit(main())
