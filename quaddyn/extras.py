"""Imports that happen later than at the top of a module: optional packages, and names imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .errors import QuaddynError


def import_extra(module: str, extra: str, *, name: str = "", error: type[QuaddynError] = QuaddynError) -> Any:
    """Imports a module of an optional package.

    Args:
        module: dotted name of the module.
        extra: extra of quaddyn that installs the package.
        name: name of the package in the error message; "" for the first part of `module`.
        error: type of the error.

    Raises:
        QuaddynError: the package is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        package = name or module.partition(".")[0]
        if (missing.name or "").partition(".")[0] != module.partition(".")[0]:
            raise error(f"{package} cannot be imported, because {missing.name} is not installed") from missing
        raise error(f"{package} is not installed; install it with: pip install 'quaddyn[{extra}]'") from None


def lazy_names(package: str, names: Mapping[str, str], otherwise: Callable[[str], Any]) -> Callable[[str], Any]:
    """Returns a package's ``__getattr__`` that imports names on first use.

    Args:
        package: ``__name__`` of the package.
        names: module of the package, such as "payload", by the name that is imported from it; "" for a module of this
            name itself.
        otherwise: ``__getattr__`` for all other names.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            return otherwise(name)
        found = importlib.import_module(f"{package}.{names[name] or name}")
        value = getattr(found, name) if names[name] else found
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
