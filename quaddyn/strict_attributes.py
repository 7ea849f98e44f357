"""`StrictAttributes`: classes in which a misspelled attribute raises an error instead of creating a new attribute.

In plain Python, ``controller.firction = 0.1`` creates an attribute without effect.  A class derived from
`StrictAttributes` accepts only its own attributes once its constructor has returned.  A user's subclass introduces
attributes as usual, in ``__init__`` or by annotations of the class; names with a leading underscore are not checked.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from .errors import UnknownAttributeError

_MISSING = object()


class _CompletedType(ABCMeta):
    """Metaclass that marks an object as complete once its constructor, subclasses' included, has returned."""

    if not TYPE_CHECKING:  # a type checker reads the constructor itself

        def __call__(cls, *args, **kwargs):
            instance = super().__call__(*args, **kwargs)
            object.__setattr__(instance, "_complete", True)
            return instance

        @property
        def __signature__(cls) -> inspect.Signature:
            """The constructor's signature without ``self``, which `inspect` would take from ``__call__`` above."""
            constructor = cls.__init__ if cls.__init__ is not object.__init__ else cls.__new__
            if constructor is object.__new__:
                return inspect.Signature()
            found = inspect.signature(constructor)
            return found.replace(parameters=list(found.parameters.values())[1:])


class StrictAttributes(metaclass=_CompletedType):
    """Base class whose objects reject unknown attributes.

    Args (of the ``class`` statement):
        fixed: attributes that keep the value of the constructor, since other values were derived from it.

    Raises:
        UnknownAttributeError: on assigning to a name that is not an attribute; near matches are listed.
        AttributeError: on assigning to a property without setter, to a fixed attribute, or anything but a function in
            place of a method.
    """

    _fixed: ClassVar[frozenset[str]] = frozenset()
    # Nothing here accesses an object's __dict__, which would make every later look-up on it several times slower.
    _complete = False
    #: Names found to be settable on every object of the class, so that they are looked up once.
    _settable: ClassVar[set[str]] = set()

    def __init_subclass__(cls, *, fixed: Iterable[str] = (), **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._fixed, cls._settable = cls._fixed.union(fixed), set()

    if not TYPE_CHECKING:  # with a __setattr__, a type checker would accept every name

        def __setattr__(self, name, value):
            if name[:1] != "_" and name not in self._settable and self._complete:
                _check_assignment(self, name, value)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Shows the class, the robot's name, and constructor arguments that are now numbers or strings."""
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


def _check_assignment(owner: StrictAttributes, name: str, value: object) -> None:
    """Raises unless `owner`, which is complete, accepts `value` under that name."""
    owner_class = type(owner)
    current = next((each.__dict__[name] for each in owner_class.__mro__ if name in each.__dict__), _MISSING)
    attribute = f"{owner_class.__name__}.{name}"
    if isinstance(current, property) and current.fset is None:
        raise AttributeError(f"{attribute} cannot be set, because it is read-only")
    if hasattr(current, "__set__"):
        owner_class._settable.add(name)
        return
    if name in owner_class._fixed:
        raise AttributeError(f"{attribute} is fixed at construction; create a new object")
    if current is not _MISSING and (callable(current) or isinstance(current, classmethod | staticmethod)):
        if callable(value):
            return
        raise AttributeError(f"{attribute} cannot be set, because it is a method; call it instead")
    if current is _MISSING and not hasattr(owner, name):
        annotated = {n for each in owner_class.__mro__ for n in inspect.get_annotations(each)}
        if name not in annotated:
            names = annotated.union(owner.__dict__, dir(owner_class))
            raise UnknownAttributeError(owner_class.__name__, name, sorted(n for n in names if not n.startswith("_")))


AssignedT = TypeVar("AssignedT")
StoredT = TypeVar("StoredT")


class ValidatedAttribute(Generic[AssignedT, StoredT]):
    """A descriptor of an attribute that can be set at any time and is validated on assignment.

    Args:
        validate: returns the value to store for an object and the assigned value; raises for an invalid one.
    """

    def __init__(self, validate: Callable[[Any, AssignedT], StoredT]) -> None:
        self._validate = validate

    def __set_name__(self, owner: type, name: str) -> None:
        self._storage_name = f"_{name}"

    @overload
    def __get__(self, owner: None, kind: type) -> ValidatedAttribute[AssignedT, StoredT]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> StoredT: ...
    def __get__(self, owner: object | None, kind: type) -> ValidatedAttribute[AssignedT, StoredT] | StoredT:
        if owner is None:
            return self
        stored: StoredT = getattr(owner, self._storage_name)
        return stored

    def __set__(self, owner: object, value: AssignedT) -> None:
        object.__setattr__(owner, self._storage_name, self._validate(owner, value))
