"""What every change is tested on, and what the nightly run adds."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

#: Whether this is the nightly run, which takes more samples and finer steps.
NIGHT = "QUADDYN_SLOW" in os.environ


def others_slow(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test, of which those that are like one of the quick ones get the marker "slow".

    Args:
        values: all of them; tuples for several parameters.
        quick: those that stay as they are; each has to be among `values`.
    """
    values = list(values)
    assert set(quick) <= set(values), f"not among them: {set(quick) - set(values)}"
    marks = {False: [pytest.mark.slow], True: []}
    return [pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=marks[v in quick]) for v in values]
