"""What `import quaddyn` adds to `import pinocchio`: best of alternated fresh processes; and what each part of it takes.

python benchmarks/import_time.py [--rounds 10]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

CODE = """import time
t = time.process_time()
import pinocchio
a = time.process_time()
{}
print(a - t, time.process_time() - a)
"""


def measured(then: str) -> tuple[float, float]:
    """Processor time of `import pinocchio`, and of what comes after it [s], in a fresh process."""
    out = subprocess.run([sys.executable, "-c", CODE.format(then)], capture_output=True, text=True, check=True).stdout
    first, second = map(float, out.split())
    return first, second


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    found = [measured("import quaddyn") for _ in range(rounds)]
    print(f"import pinocchio: {min(a for a, _ in found):.3f} s; import quaddyn adds {min(b for _, b in found):.3f} s")
    command = [sys.executable, "-X", "importtime", "-c", "import pinocchio, quaddyn"]
    trace = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    rows = [line.split("|") for line in trace if "quaddyn" in line]
    for own, total, name in sorted(rows, key=lambda row: -int(row[0].split()[-1]))[:8]:
        print(f"{name.strip():<40} {int(own.split()[-1]) / 1e3:8.1f} ms own {int(total) / 1e3:8.1f} ms in all")


if __name__ == "__main__":
    main()
