"""Recorded numbers of tests, in one file per test module in ``tests/recorded``.

Properties and comparisons with independent code do not notice every change of a rule with many thresholds.  A test
therefore notes numbers with `note`; after the test they are compared with the recorded ones.  After an intended change,
``QUADDYN_PRINTED=write pytest -n 0 FILES`` rewrites the records; ``git diff`` shows which rules changed.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_parameters import NIGHT

FOLDER = Path(__file__).resolve().parent / "recorded"
#: Magnitude below which entries are compared absolutely, above relatively.
SMALL = 1e-3
#: Magnitude to which entries are clipped, and the projection of NaN.
LARGE, NAN = 1e20, 5.0
#: For each name of the present test: number of calls, sum of the projections and tolerance.
_noted: dict[str, tuple[int, float, float]] = {}


def flatten(value: Any) -> list[np.ndarray]:
    """All numbers of nested tuples, lists, mappings and records, logarithmic beyond `SMALL`."""
    if isinstance(value, dict):
        return [x for key in value for x in flatten(value[key])]
    if isinstance(value, tuple | list):
        return [x for each in value for x in flatten(each)]
    if value is None or isinstance(value, str):
        return [np.array([float(sum(map(ord, value or "")))])]
    x = np.asarray(value)
    if x.dtype.kind not in "fiub":
        return []
    x = x.astype(float).ravel()
    return [np.where(np.isnan(x), NAN, np.arcsinh(np.clip(x, -LARGE, LARGE) / SMALL))]


def note(name: str, value: Any, tolerance: float = 1e-6) -> None:
    """Adds numbers, or nested tuples, lists and mappings of them, to the record of the present test.

    Args:
        name: name in the record; several calls with one name make one number.
        value: numbers; a relative change of one of them by `tolerance`, or an absolute one of `tolerance` times
            `SMALL`, is noticed.
        tolerance: tolerance of the recorded number.
    """
    count, total, _ = _noted.get(name, (0, 0.0, 0.0))
    flat = flatten(value)
    x = np.concatenate(flat) if flat else np.zeros(0)
    # Weights between 0.5 and 1.5 in size, different in each call and each entry: changes do not cancel.
    hashed = (np.arange(1, len(x) + 1, dtype=np.uint64) * 2654435761 + (count + 1) * 2246822519) % 4294967291 % 2000
    weights = np.where(hashed < 1000, 1.0, -1.0) * (0.5 + hashed % 1000 / 1000.0)
    _noted[name] = count + 1, total + math.fsum(weights * x), tolerance


def begin() -> None:
    """Forgets what was noted."""
    _noted.clear()


def check(item: pytest.Item) -> None:
    """Compares what a test noted with the recorded numbers, or records it."""
    if not _noted or NIGHT:
        return
    path, test = FOLDER / f"{item.path.stem}.txt", item.nodeid.partition("::")[2]
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = dict(line.rsplit(maxsplit=1) for line in lines)
    found = {f"{test} {name}": (total, tolerance) for name, (_, total, tolerance) in _noted.items()}
    if os.environ.get("QUADDYN_PRINTED") == "write":
        known = {key: x for key, x in known.items() if not key.startswith(f"{test} ")}
        known |= {key: f"{total:.12g}" for key, (total, _) in found.items()}
        FOLDER.mkdir(exist_ok=True)
        path.write_text("".join(f"{key} {known[key]}\n" for key in sorted(known)), encoding="utf-8")
        return
    changed = [
        f"{key}: {total:.12g}, recorded {known.get(key)}"
        for key, (total, tolerance) in found.items()
        if not abs(float(known.get(key, "nan")) - total) <= tolerance + 1e-9 * abs(total)
    ]
    changed += [f"{key}: not noted" for key in known if key.startswith(f"{test} ") and key not in found]
    assert not changed, f"{path.name}: numbers changed; after an intended change, see tests/recorded.py:\n" + "\n".join(
        changed
    )
