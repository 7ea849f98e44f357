"""Runs the controller of the checkout named on the command line, to compare the computing times of two versions.

    python checkout_worker.py CHECKOUT RECORDINGS LABEL

PYTHONPATH must be the checkout.  The folder RECORDINGS contains the recordings `0.npz`, `1.npz` and so on, in the
format of this package with an additional entry `robot ()`: a catalogue name or URDF text.  After an input line "i first
last" the worker runs these ticks of recording i; after an empty line it writes its results to `i.LABEL.npz` and exits.
Only the public interface of quaddyn is used, so that any version can be run.
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
    package_file = Path(qd.__file__).resolve()
    if not package_file.is_relative_to(checkout):
        sys.exit(f"quaddyn is imported from {package_file.parent} instead of {checkout}")
    robots: dict[str, qd.Robot] = {}
    runners = []
    for path in sorted(folder.glob("[0-9]*.npz"), key=lambda path: int(path.name.split(".")[0])):
        if not path.stem.isdigit():
            continue  # the result of a worker
        with np.load(path) as file:
            recording = {name: file[name] for name in file.files}
        source = str(recording["robot"])
        robot = robots[source] if source in robots else robots.setdefault(source, qd.load(source))
        runners.append(QuaddynRunner(robot, recording))
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        i, first, last = (int(word) for word in line.split())
        runners[i].run(first, last)
        print("done", flush=True)
    for i, runner in enumerate(runners):
        solved = np.array([outcome == "solved" for outcome in runner.outcomes])
        np.savez(folder / f"{i}.{label}.npz", solve=runner.solve, a=runner.a, solved=solved, kkt=runner.kkt)


if __name__ == "__main__":
    main()
