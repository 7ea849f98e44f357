"""All kinds of tasks and constraints: those whose classes `quaddyn.wbc.tasks` and `quaddyn.wbc.constraints` export."""

from __future__ import annotations

from . import constraints, tasks
from .element import Element
from .element_kind import CUSTOM

_KIND_CLASSES: list[type[Element]] = [
    cls
    for cls in (getattr(module, name) for module in (tasks, constraints) for name in module.__all__)
    if "kind" in vars(cls)
]
#: Classes by the code of their kind.
ELEMENT_CLASSES: dict[int, type[Element]] = {cls.kind.code: cls for cls in _KIND_CLASSES} | {CUSTOM.code: Element}

for _cls in _KIND_CLASSES:
    if ELEMENT_CLASSES[_cls.kind.code] is not _cls:
        _other = ELEMENT_CLASSES[_cls.kind.code].__name__
        raise ImportError(f"{_cls.__name__} and {_other} have the same code of their kind, {_cls.kind.code}")

#: All kinds, in the order in which compiled code compares their codes.
ELEMENT_KINDS = tuple(cls.kind for cls in ELEMENT_CLASSES.values())
