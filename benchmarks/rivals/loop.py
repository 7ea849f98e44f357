"""Main loop of a worker process, see the protocol in the package `rivals`; it requires only NumPy."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


def urdf_file(recording: Any) -> str:
    """Writes the robot of a recording to a URDF file and returns its path."""
    path = Path(tempfile.mkdtemp()) / "robot.urdf"
    path.write_text(str(recording["urdf"]), encoding="utf-8")
    return str(path)


def serve(make_controller: Any) -> None:
    """Runs the ticks that the parent process requests until it sends an empty line, then writes the results.

    Args:
        make_controller: function that makes a controller from the recording (a dict of arrays).  The controller has
            the methods ``set_contacts(mask)``, ``set_references(k)`` and ``solve(k) -> (tau, a, f, ok)`` for tick k.
    """
    recording_file, result_file = sys.argv[1:3]
    with np.load(recording_file) as file:
        recording = {name: file[name] for name in file.files}
    T, nv, nu = len(recording["q"]), recording["v"].shape[1], len(recording["joints"])
    tau, a, f, ok = np.zeros((T, nu)), np.zeros((T, nv)), np.zeros((T, 4, 3)), np.zeros(T, dtype=bool)
    solve, references, changes = np.full(T, np.inf), np.full(T, np.inf), np.full(T, np.inf)
    controller = make_controller(recording)
    print("ready", flush=True)
    clock = time.perf_counter
    active_mask = None
    for line in sys.stdin:
        if not line.strip():
            break
        first, last = (int(word) for word in line.split())
        for k in range(first, last):
            mask = recording["contacts"][k]
            changed = active_mask is None or bool((mask != active_mask).any())
            t0 = clock()
            if changed:
                controller.set_contacts(mask)
                active_mask = mask
            t1 = clock()
            controller.set_references(k)
            t2 = clock()
            tau[k], a[k], f[k], ok[k] = controller.solve(k)
            t3 = clock()
            changes[k] = min(changes[k], t1 - t0)
            references[k], solve[k] = min(references[k], t2 - t1), min(solve[k], t3 - t2)
        print("done", flush=True)
    np.savez(result_file, tau=tau, a=a, f=f, ok=ok, solve=solve, references=references, changes=changes)
