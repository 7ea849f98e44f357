"""Options of dataclasses and default arguments, which a small change could alter unnoticed, are unchanged."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType

from expected_outputs import check_expected_file

import quaddyn


def modules() -> Iterator[ModuleType]:
    """Every module of the package."""
    for module in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if not module.name.endswith("__main__"):
            yield importlib.import_module(module.name)


def own_definitions(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Objects that a module defines itself, by their qualified names without that of the package."""
    for name, thing in sorted(vars(module).items()):
        if getattr(thing, "__module__", None) == module.__name__:
            yield f"{module.__name__.removeprefix('quaddyn.')}.{name}", thing


def test_dataclass_options_of_records_are_unchanged() -> None:
    """The stored lines change only deliberately; new lines may be added."""
    lines = []
    for module in modules():
        for name, kind in own_definitions(module):
            if inspect.isclass(kind) and "__dataclass_params__" in vars(kind):
                params = kind.__dataclass_params__
                words = [word for word in ("frozen", "eq", "order") if getattr(params, word)]
                named = [f.kw_only for f in dataclasses.fields(kind)]
                words += ["by name"] if named and all(named) else ["some by name"] if any(named) else []
                lines.append(f"{name}: {', '.join(words)}")
    check_expected_file("records", "\n".join(sorted(lines)), more=True)


def is_plain_value(value: object) -> bool:
    """Returns whether the representation of a value is the same on all platforms."""
    if isinstance(value, tuple):
        return all(map(is_plain_value, value))
    return value is None or type(value) in (bool, int, float, str)


def defaults(thing: Callable[..., object]) -> list[str]:
    """Arguments with default values of a function."""
    found = inspect.signature(thing).parameters.items()
    return [f"{name}={p.default!r}" for name, p in found if p.default is not p.empty and is_plain_value(p.default)]


def test_defaults_are_unchanged() -> None:
    lines = []
    for module in modules():
        for name, thing in own_definitions(module):
            if name.rpartition(".")[2].startswith("_"):
                continue
            found: dict[str, Callable[..., object]] = {}
            thing = inspect.unwrap(thing) if hasattr(thing, "cache_info") else thing
            if inspect.isfunction(thing):
                found[name] = thing
            elif inspect.isclass(thing):
                for own, method in vars(thing).items():
                    function = getattr(method, "__func__", method)
                    if inspect.isfunction(function) and (own == "__init__" or not own.startswith("_")):
                        found[name if own == "__init__" else f"{name}.{own}"] = function
            lines += [f"{each} {said}" for each, function in found.items() for said in defaults(function)]
    check_expected_file("defaults", "\n".join(sorted(lines)), more=True)
