"""`raises`: asserts that a call raises an error, in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def raises(error: type[BaseException], match: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Asserts that a call raises an error whose message matches a regular expression."""
    with pytest.raises(error, match=match):
        call(*arguments, **options)
