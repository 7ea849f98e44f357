"""`StrictAttributes`: objects on which a misspelt attribute is an error instead of a new attribute.

Python lets ``controller.firction = 0.1`` pass and nothing comes of it.  A class derived from `StrictAttributes` knows
its attributes once its constructor is through; what is assigned from then on must be one of them.  A subclass of the
user's own introduces attributes as usual, in ``__init__`` or by annotations of the class; names with a leading
underscore are its private affair.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from .errors import UnknownAttributeError

_MISSING = object()


class _Completed(ABCMeta):
    """Metaclass that marks an object as complete once its constructor, subclasses' included, has returned."""

    if not TYPE_CHECKING:  # a type checker reads the constructor itself

        def __call__(cls, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            object.__setattr__(made, "_complete", True)
            return made

        @property
        def __signature__(cls) -> inspect.Signature:
            """The constructor's signature without ``self``, which `inspect` would take from ``__call__`` above."""
            constructor = cls.__init__ if cls.__init__ is not object.__init__ else cls.__new__
            if constructor is object.__new__:
                return inspect.Signature()
            found = inspect.signature(constructor)
            return found.replace(parameters=list(found.parameters.values())[1:])


class StrictAttributes(metaclass=_Completed):
    """Refuses to be given an attribute that it does not have.

    Args (of the ``class`` statement):
        fixed: attributes that keep the value which the constructor gave them, since something was derived from it.

    Raises:
        UnknownAttributeError: on assigning to a name that is no attribute; near matches are listed.
        AttributeError: on assigning to a property without setter, to a fixed attribute, or anything but a function in
            place of a method.
    """

    _fixed: ClassVar[frozenset[str]] = frozenset()
    # Nothing here touches an object's __dict__, which would make every later look-up on it several times slower.
    _complete = False
    #: Names found to be settable on every object of the class, so that they are looked up once.
    _settable: ClassVar[set[str]] = set()

    def __init_subclass__(cls, *, fixed: Iterable[str] = (), **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._fixed, cls._settable = cls._fixed.union(fixed), set()

    if not TYPE_CHECKING:  # where there is a __setattr__, a type checker takes every name for known

        def __setattr__(self, name, value):
            if name[:1] != "_" and name not in self._settable and self._complete:
                _check(self, name, value)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The class, the robot's name, and those arguments of the constructor that are numbers and words today."""
        shown = []
        for name in inspect.signature(type(self).__init__).parameters:
            value = getattr(self, name, None)
            if name == "robot":
                shown.append(repr(getattr(value, "name", "")))
            elif isinstance(value, float):
                shown.append(f"{name}={value:g}")
            elif isinstance(value, int | str):
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _check(owner: StrictAttributes, name: str, value: object) -> None:
    """Raise unless `owner`, which is complete, takes a value by that name."""
    kind = type(owner)
    found = next((each.__dict__[name] for each in kind.__mro__ if name in each.__dict__), _MISSING)
    who = f"{kind.__name__}.{name}"
    if isinstance(found, property) and found.fset is None:
        raise AttributeError(f"{who} cannot be set: it is read-only")
    if hasattr(found, "__set__"):
        kind._settable.add(name)
        return
    if name in kind._fixed:
        raise AttributeError(f"{who} cannot be changed: it was settled by the constructor; make another object")
    if found is not _MISSING and (callable(found) or isinstance(found, classmethod | staticmethod)):
        if callable(value):
            return
        raise AttributeError(f"{who} cannot be set: it is a method; call it")
    if found is _MISSING and not hasattr(owner, name):
        annotated = {n for each in kind.__mro__ for n in inspect.get_annotations(each)}
        if name not in annotated:
            names = annotated.union(owner.__dict__, dir(kind))
            raise UnknownAttributeError(kind.__name__, name, sorted(n for n in names if not n.startswith("_")))


Given = TypeVar("Given")
Kept = TypeVar("Kept")


class Setting(Generic[Given, Kept]):
    """An attribute that may be set at any time, and is examined whenever it is.

    Args:
        take: given the object and the value that is assigned, the value to keep; raises for a bad one.
    """

    def __init__(self, take: Callable[[Any, Given], Kept]) -> None:
        self._take = take

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    @overload
    def __get__(self, owner: None, kind: type) -> Setting[Given, Kept]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Kept: ...
    def __get__(self, owner: object | None, kind: type) -> Setting[Given, Kept] | Kept:
        if owner is None:
            return self
        kept: Kept = getattr(owner, self._place)
        return kept

    def __set__(self, owner: object, value: Given) -> None:
        object.__setattr__(owner, self._place, self._take(owner, value))
