"""Import of optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import QuaddynError


def import_extra(module: str, extra: str, *, name: str = "") -> Any:
    """Imports a module of an optional package.

    Args:
        module: dotted name of the module.
        extra: extra of quaddyn that installs the package.
        name: name of the package in the error message; "" for the first part of `module`.

    Raises:
        QuaddynError: the package is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = name or module.partition(".")[0]
        raise QuaddynError(f"{package} is not installed; install it with: pip install 'quaddyn[{extra}]'") from None
