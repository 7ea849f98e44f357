"""A pytest plugin that runs compiled functions as Python, so that changes of their sources need no compilation.

Used with ``-p interpreting`` in `benchmarks/mutation.py`, which changes sources repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quaddyn.compiler import interpret


@pytest.fixture(autouse=True, scope="session")
def _interpreted() -> Iterator[None]:
    with interpret():
        yield
