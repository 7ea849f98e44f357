"""`StateField`: an attribute that lies in the record of compiled functions."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class StateField(Generic[T]):
    """Attribute that is a field of the record `state` of its object.

    Numbers are read and assigned; array fields are read as views, and assigning one writes its entries.

    Args:
        name: name of the field; None for that of the attribute.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Self | T:
        if instance is None:
            return self
        value: T = getattr(instance.state, self._name)  # type: ignore[arg-type]
        return value

    def __set__(self, instance: Any, value: T) -> None:
        state, name = instance.state, self._name
        stored = getattr(state, name)  # type: ignore[arg-type]
        if hasattr(stored, "flags") and stored.flags.writeable:  # an array, which is not replaced
            stored[...] = value
        else:
            setattr(state, name, value)  # type: ignore[arg-type]
