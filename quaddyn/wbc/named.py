"""`Named`: things by name, with near matches when a name is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ..errors import UnknownNameError

Item = TypeVar("Item")


class Named(dict[str, Item]):
    """A mapping that lists near matches when a name is unknown."""

    def __init__(self, kind: str, items: Mapping[str, Item]) -> None:
        super().__init__(items)
        self._kind = kind

    def __missing__(self, name: str) -> Item:
        raise UnknownNameError(self._kind, name, self)
