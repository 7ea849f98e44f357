"""A pytest plugin: what is compiled runs as plain Python, so that a change to its source needs no compiler.

Used with ``-p interpreting`` where sources are changed again and again (`benchmarks/mutation.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quaddyn.compiler import interpret


@pytest.fixture(autouse=True, scope="session")
def _interpreted() -> Iterator[None]:
    with interpret():
        yield
