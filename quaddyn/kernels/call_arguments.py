"""Arguments of compiled operations by name, on the CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ArgumentTypeError
from .kernel_cache import KernelSignature

#: Arguments for which a batch accepts one value that holds for all of its states.
BROADCAST_ARGUMENTS = ("fext", "parameters")


def arguments_by_name(
    operation: str,
    signature: KernelSignature,
    arguments: Sequence[object],
    named: Mapping[str, object],
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the arguments of an operation by name, with defaults for those that are missing.

    Raises:
        ArgumentTypeError: an argument is unknown, repeated or missing.
    """
    names = [name for name, _ in signature.inputs]
    if len(arguments) > len(names):
        raise ArgumentTypeError(f"{operation}: takes {', '.join(names)}, got {len(arguments)} arguments")
    given: dict[str, Any] = dict(zip(names, arguments, strict=False))
    for key, value in named.items():
        if key not in names or key in given:
            raise ArgumentTypeError(
                f"{operation}: got an unknown or repeated argument {key!r}; it takes {', '.join(names)}, each once"
            )
        given[key] = value
    if given.get("fext") is None:  # as in `Dynamics`
        given.pop("fext", None)
    for name in names:
        if name not in given and name not in defaults:
            raise ArgumentTypeError(f"{operation}: argument {name!r} is missing; it takes {', '.join(names)}")
    return {name: given[name] if name in given else defaults[name] for name in names}
