"""Functions reachable from entries, and their symbol names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from .function_translator import translate_function
from .signatures import raise_compile_error
from .typed_tree import Function


def collect_functions(entries: Iterable[Any]) -> list[Function]:
    """Returns all functions reachable from entries, callees before callers.

    Raises:
        CompileError: one of them cannot be compiled, or calls itself.
    """
    done: dict[str, Function] = {}
    path: list[str] = []

    def visit(target: Any) -> None:
        name = symbol_name(target)
        if name in path:
            raise_compile_error(
                target,
                0,
                f"the function calls itself through {' -> '.join(path[path.index(name) :])}; use a loop instead of "
                "recursion",
            )
        if name in done:
            if done[name].source is not inspect.unwrap(target):
                raise_compile_error(target, 0, f"two functions have the name {name}; rename one of them")
            return
        path.append(name)
        function = translate_function(target, name)
        for each in function.calls:
            visit(each)
        path.pop()
        done[name] = function

    for each in entries:
        visit(each)
    return list(done.values())


def symbol_name(target: Any) -> str:
    """Returns the symbol of a compiled function: its module's name within the package and its qualified name."""
    function = inspect.unwrap(target)
    module = function.__module__.removeprefix(f"{__package__.partition('.')[0]}.")
    return f"{module}.{function.__qualname__.replace('.<locals>', '')}"
