"""Old public names, which work for one more version with a `DeprecationWarning` that says the new name.

Everything that is renamed is declared where the new name is defined, with one of `renamed_names` (of a module),
`renamed_attributes` (of a class), `renamed_fields` (of a dataclass), `renamed_overrides` (of a class that users derive
from), `renamed_parameters` (of a function or constructor) and `renamed_values` (of one parameter).  Each adds to
`RENAMED`, from which the migration table of the documentation is made.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from .strict_attributes import __file__ as _STRICT_ATTRIBUTES_FILE

#: Pairs of old and new name, such as "quaddyn.locomotion.Clock" and "GaitScheduler", of the modules imported so far.
RENAMED: dict[str, str] = {}

_OWN_FILES = {__file__, _STRICT_ATTRIBUTES_FILE, "<frozen abc>"}

P = ParamSpec("P")
T = TypeVar("T")
Class = TypeVar("Class", bound=type)


def _warn(old: str, new: str) -> None:
    """Warns of `old` at the line that uses it: the first frame outside of this module and of `StrictAttributes`."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename in _OWN_FILES:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{old} is now {new}; the old name will be removed in the next version",
        DeprecationWarning,
        stacklevel=level,
    )


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's ``__getattr__`` that serves old names of its classes, functions and constants.

    Args:
        module: ``__name__`` of the module.
        names: new name of each old one.
    """
    RENAMED.update({f"{module}.{old}": new for old, new in names.items()})

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", names[name])
        return getattr(sys.modules[module], names[name])

    return __getattr__


def renamed_attributes(**names: str) -> Callable[[Class], Class]:
    """Returns a class decorator that forwards old attributes and methods, ``old="new"``, to the new ones."""

    def decorate(kind: Class) -> Class:
        for old, new in names.items():
            RENAMED[f"{kind.__module__}.{kind.__qualname__}.{old}"] = new
            setattr(kind, old, _forward(kind.__name__, old, new))
        return kind

    return decorate


class _Forward:
    """Descriptor that reads, writes and, for class methods, calls an attribute under its old name."""

    def __init__(self, kind: str, old: str, new: str) -> None:
        self.new, self.names = new, (f"{kind}.{old}", f"{kind}.{new}")
        self.__doc__ = f"Deprecated: the old name of `{new}`."

    def __get__(self, owner: Any, kind: type) -> Any:
        _warn(*self.names)
        return getattr(kind if owner is None else owner, self.new)

    def __set__(self, owner: Any, value: Any) -> None:
        _warn(*self.names)
        setattr(owner, self.new, value)


def _forward(kind: str, old: str, new: str) -> _Forward:
    """Returns an attribute by the name `old` that stands for the attribute `new` of a class."""
    return _Forward(kind, old, new)


def renamed_fields(**names: str) -> Callable[[Class], Class]:
    """Returns a class decorator for dataclasses: constructor and attributes take old field names, ``old="new"``."""

    def decorate(kind: Class) -> Class:
        type.__setattr__(kind, "__init__", renamed_parameters(**names)(kind.__init__))  # type: ignore[misc]
        return renamed_attributes(**names)(kind)

    return decorate


def renamed_overrides(**names: str) -> Callable[[Class], Class]:
    """Returns a class decorator for classes that users derive from, ``old="new"``.

    Old attributes and methods forward to the new ones, see `renamed_attributes`.  A derived class that defines an old
    name and not the new one defines the new one by it, with a warning.
    """

    def decorate(kind: Class) -> Class:
        own = kind.__dict__.get("__init_subclass__")

        def __init_subclass__(cls: Any, /, **rest: Any) -> None:
            if own is not None:
                own.__func__(cls, **rest)
            else:
                super(kind, cls).__init_subclass__(**rest)  # type: ignore[arg-type]
            for old, new in names.items():
                if old in cls.__dict__ and new not in cls.__dict__:
                    _warn(f"{kind.__name__}.{old}", f"{kind.__name__}.{new}")
                    setattr(cls, new, cls.__dict__[old])

        type.__setattr__(kind, "__init_subclass__", classmethod(__init_subclass__))
        return renamed_attributes(**names)(kind)

    return decorate


def renamed_parameters(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Returns a decorator of a function, method or ``__init__`` that takes old keyword arguments, ``old="new"``.

    Raises:
        TypeError: on calling with both the old and the new name.
    """
    old_names = names.keys()

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        shown = function.__qualname__.removesuffix(".__init__")
        RENAMED.update({f"{function.__module__}.{shown}({old})": new for old, new in names.items()})

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if kwargs and not old_names.isdisjoint(kwargs):
                for old in old_names & kwargs.keys():
                    new = names[old]
                    if new in kwargs:
                        raise TypeError(
                            f"{shown}({old}=, {new}=): these are the old and the new name of one argument; pass only "
                            f"{new}="
                        )
                    _warn(f"{shown}({old}=)", f"{shown}({new}=)")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_values(parameter: str, **values: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Returns a decorator that takes old values, ``old="new"``, of a parameter whose values are words."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        shown = function.__qualname__.removesuffix(".__init__")
        position = list(inspect.signature(function).parameters).index(parameter)
        RENAMED.update(
            {f"{function.__module__}.{shown}({parameter}={old!r})": repr(new) for old, new in values.items()}
        )

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            given = kwargs[parameter] if parameter in kwargs else args[position] if position < len(args) else None
            if isinstance(given, str) and given in values:
                _warn(f"{shown}({parameter}={given!r})", f"{parameter}={values[given]!r}")
                if parameter in kwargs:
                    kwargs[parameter] = values[given]
                else:
                    args = (*args[:position], values[given], *args[position + 1 :])  # type: ignore[assignment]
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_module(old: str, new: str) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of a module `old` that serves everything of the module `new`.

    Args:
        old: ``__name__`` of the module that stands under the old name.
        new: dotted name of the module under its new name.
    """
    RENAMED[old] = new

    def __getattr__(name: str) -> Any:
        found = getattr(importlib.import_module(new), name)
        if not name.startswith("__"):
            _warn(f"{old}.{name}", f"{new}.{name}")
        return found

    return __getattr__


def renamed_modules(package: str, modules: Mapping[str, str]) -> None:
    """Makes old modules of a package importable, each of which serves everything of the module that replaced it.

    Args:
        package: ``__name__`` of the package, which calls this function in its ``__init__``.
        modules: name of the new module by the name of the old one, both within the package.
    """
    for old, new in modules.items():
        module = types.ModuleType(f"{package}.{old}", f"Deprecated: the old name of `{package}.{new}`.")
        module.__dict__["__getattr__"] = renamed_module(module.__name__, f"{package}.{new}")
        sys.modules[module.__name__] = module
        setattr(sys.modules[package], old, module)
