"""Runs quaddyn's controller of the checkout named on the command line, to compare the times of two versions.

    python checkout_worker.py CHECKOUT RECORDINGS LABEL

with PYTHONPATH at the checkout.  RECORDINGS holds `0.npz`, `1.npz` and so on, recordings as in this package's head with
`robot ()` besides: a catalogue name or URDF text.  A line "i first last" runs these ticks of recording i; an empty one
ends, with answers in `i.LABEL.npz`.  Only the package's public face is used, so that any version of it can be run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_wbc import QuaddynRunner

import quaddyn as qd


def main() -> None:
    checkout, folder, label = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    found = Path(qd.__file__).resolve()
    if not found.is_relative_to(checkout):
        sys.exit(f"quaddyn is imported from {found.parent} instead of {checkout}")
    robots: dict[str, qd.Robot] = {}
    ours = []
    for path in sorted(folder.glob("[0-9]*.npz"), key=lambda path: int(path.name.split(".")[0])):
        if not path.stem.isdigit():
            continue  # the answer of a worker
        with np.load(path) as file:
            recording = {name: file[name] for name in file.files}
        source = str(recording["robot"])
        robot = robots[source] if source in robots else robots.setdefault(source, qd.load(source))
        ours.append(QuaddynRunner(robot, recording))
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        i, first, last = (int(word) for word in line.split())
        ours[i].run(first, last)
        print("done", flush=True)
    for i, one in enumerate(ours):
        solved = np.array([outcome == "solved" for outcome in one.outcomes])
        np.savez(folder / f"{i}.{label}.npz", solve=one.solve, a=one.a, solved=solved, kkt=one.kkt)


if __name__ == "__main__":
    main()
