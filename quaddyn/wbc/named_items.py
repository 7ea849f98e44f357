"""`Named`: things by name, with near matches when a name is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn, TypeVar

from ..errors import UnknownNameError
from ..robot.arguments import several

Item = TypeVar("Item")


class NamedItems(dict[str, Item]):
    """A mapping that lists near matches when a name is unknown, and takes no others in."""

    __slots__ = ("_kind",)

    def __init__(self, kind: str, items: Mapping[str, Item]) -> None:
        super().__init__(items)
        self._kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._kind, dict(self))

    def __missing__(self, name: str) -> Item:
        raise UnknownNameError(self._kind, name, self)

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        raise TypeError(f"names of {self._kind}s are read-only; add and remove them by the methods of their controller")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def known_names(contacts: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Names of contacts.

    Raises:
        ArgumentTypeError: a string alone, or nothing that can be iterated.
        UnknownNameError: a contact that is not known.
    """
    names = several("contacts", contacts, "names of contacts")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise UnknownNameError("contact", name, known)
    return names
