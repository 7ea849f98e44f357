"""Worker process of the protocol of `rivals`; it needs only NumPy."""

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


def serve(make: Any) -> None:
    """Serves requests of the parent process until it sends an empty line.

    Args:
        make: called with the recording (a dict of arrays); what it returns has ``stand(mask)``,
            ``set_references(k)`` and ``solve(k) -> (tau, a, f, ok)``, k being a tick.
    """
    source, target = sys.argv[1:3]
    with np.load(source) as file:
        recording = {name: file[name] for name in file.files}
    T, nv, nu = len(recording["q"]), recording["v"].shape[1], len(recording["joints"])
    tau, a, f, ok = np.zeros((T, nu)), np.zeros((T, nv)), np.zeros((T, 4, 3)), np.zeros(T, dtype=bool)
    solve, references, changes = np.full(T, np.inf), np.full(T, np.inf), np.full(T, np.inf)
    rival = make(recording)
    print("ready", flush=True)
    clock = time.perf_counter
    standing = None
    for line in sys.stdin:
        if not line.strip():
            break
        first, last = (int(word) for word in line.split())
        for k in range(first, last):
            mask = recording["contacts"][k]
            changed = standing is None or bool((mask != standing).any())
            t0 = clock()
            if changed:
                rival.stand(mask)
                standing = mask
            t1 = clock()
            rival.set_references(k)
            t2 = clock()
            tau[k], a[k], f[k], ok[k] = rival.solve(k)
            t3 = clock()
            changes[k] = min(changes[k], t1 - t0)
            references[k], solve[k] = min(references[k], t2 - t1), min(solve[k], t3 - t2)
        print("done", flush=True)
    np.savez(target, tau=tau, a=a, f=f, ok=ok, solve=solve, references=references, changes=changes)
