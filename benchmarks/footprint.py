"""Measures the time of `import quaddyn` and the disk space of the package with all its dependencies.

python benchmarks/footprint.py [--rounds 10] [--check]

The time is that in addition to `import pinocchio`, the least over fresh processes.  The disk space is that of all
packages which `pip install quaddyn` installs, without extras.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: Largest time that `import quaddyn` adds [s], and largest size of all packages [MB].
MAX_IMPORT_TIME, MAX_SIZE = 0.15, 1200.0

CODE = """import time
t = time.process_time()
import pinocchio
a = time.process_time()
import quaddyn
print(a - t, time.process_time() - a)
"""


def measure_import_times() -> tuple[float, float]:
    """Processor time of `import pinocchio`, and of `import quaddyn` after it [s], in a fresh process."""
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, encoding="utf-8", check=True).stdout
    first, second = map(float, out.split())
    return first, second


def add_package_sizes(name: str, found: dict[str, float]) -> dict[str, float]:
    """Room of a package and of everything that it needs [MB], by name."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return found
    try:
        package = distribution(name)
    except PackageNotFoundError:  # for another platform or version of Python
        return found
    files = {Path(str(file.locate())).resolve() for file in package.files or ()}
    found[key] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    for line in package.requires or ():
        if "extra ==" not in line:
            add_package_sizes(re.split(r"[^\w.-]", line, maxsplit=1)[0], found)
    return found


def main() -> int:
    """Print the figures; with --check, fail where they are too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    found = [measure_import_times() for _ in range(chosen.rounds)]
    adds = min(b for _, b in found)
    print(f"import pinocchio: {min(a for a, _ in found):.3f} s; import quaddyn adds {adds:.3f} s")
    command = [sys.executable, "-X", "importtime", "-c", "import pinocchio, quaddyn"]
    trace = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stderr.splitlines()
    rows = [line.split("|") for line in trace if "quaddyn" in line]
    for own, total, name in sorted(rows, key=lambda row: -int(row[0].split()[-1]))[:5]:
        print(f"  {name.strip():<40} {int(own.split()[-1]) / 1e3:8.1f} ms own {int(total) / 1e3:8.1f} ms in all")
    sizes = add_package_sizes("quaddyn", {})
    own = Path(__file__).resolve().parent.parent
    sizes["quaddyn"] = sum(f.stat().st_size for d in ("quaddyn", "robots") for f in (own / d).rglob("*.*")) / 1e6
    print(f"{len(sizes)} packages, {sum(sizes.values()):.0f} MB installed, the largest:")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:10]:
        print(f"  {name:<40} {size:8.1f} MB")
    return int(chosen.check and (adds > MAX_IMPORT_TIME or sum(sizes.values()) > MAX_SIZE))


if __name__ == "__main__":
    sys.exit(main())
