"""Marks parameters of tests that only the nightly run uses."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

#: Whether this is the nightly run, which takes more samples and finer steps.
NIGHT = "QUADDYN_SLOW" in os.environ


def others_slow(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test; all but the quick ones have the marker "slow".

    Args:
        values: all parameters; tuples for several arguments.
        quick: parameters without the marker; each has to be among `values`.
    """
    values = list(values)
    assert set(quick) <= set(values), f"not among them: {set(quick) - set(values)}"
    marks = {False: [pytest.mark.slow], True: []}
    return [pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=marks[v in quick]) for v in values]
