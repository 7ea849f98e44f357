"""Every record of the package: whether it can be changed, and whether two of them can be compared."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

from printed import same_as_kept

import quaddyn


def test_records_are_frozen_compared_and_made_as_they_always_were() -> None:
    """A line here changes where that is decided, not where a word of a decorator is lost."""
    lines = []
    for module in pkgutil.walk_packages(quaddyn.__path__, "quaddyn."):
        if module.name.endswith("__main__"):
            continue
        found = importlib.import_module(module.name)
        for name, kind in sorted(vars(found).items()):
            if inspect.isclass(kind) and kind.__module__ == module.name and "__dataclass_params__" in vars(kind):
                params = kind.__dataclass_params__
                words = [word for word in ("frozen", "eq", "order") if getattr(params, word)]
                named = [f.kw_only for f in dataclasses.fields(kind)]
                words += ["by name"] if named and all(named) else ["some by name"] if any(named) else []
                lines.append(f"{module.name.removeprefix('quaddyn.')}.{name}: {', '.join(words)}")
    same_as_kept("records", "\n".join(sorted(lines)))
