"""`NamedItems`: a read-only mapping of names, whose error for an unknown name lists near matches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn, TypeVar

from ..errors import UnknownNameError
from ..robot.arguments import check_sequence

Item = TypeVar("Item")


class NamedItems(dict[str, Item]):
    """Read-only mapping of names to items; an unknown name raises an error with near matches."""

    __slots__ = ("_kind",)

    def __init__(self, kind: str, items: Mapping[str, Item]) -> None:
        super().__init__(items)
        self._kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._kind, dict(self))

    def __missing__(self, name: str) -> Item:
        raise UnknownNameError(self._kind, name, self)

    def _raise_read_only(self, *_args: object, **_named: object) -> NoReturn:
        """Raises the error of an attempt to change the mapping."""
        raise TypeError(f"{self._kind}s are read-only; use the controller's methods to add and remove them")

    __setitem__ = __delitem__ = __ior__ = _raise_read_only
    clear = pop = popitem = setdefault = update = _raise_read_only


def check_contact_names(contacts: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Returns names of contacts after checking that they exist.

    Raises:
        ArgumentTypeError: a single string, or an object that is not iterable.
        UnknownNameError: a contact that does not exist.
    """
    names = check_sequence("contacts", contacts, "names of contacts")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise UnknownNameError("contact", name, known)
    return names
