"""Lines and names of a function in C99."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .c99_types import HELPERS, Types, identifier
from .typed_tree import Expression, Function


class LineWriter:
    """Collects the lines of one function.

    Args:
        function: its tree.
        types: names of kinds.
        symbol: C's name of a function.
        helpers: takes definitions of helpers by name.
    """

    def __init__(self, function: Function, types: Types, symbol: Callable[[Any], str], helpers: dict[str, str]) -> None:
        self.function, self.types, self.symbol, self.helpers = function, types, symbol, helpers
        self.lines: list[str] = []
        self.declarations: list[str] = []
        self.depth = 1
        self.unmodified_parameters = frozenset(name for name, _ in function.parameters) - function.assigned
        self.names: dict[str, str] = {}
        for name in function.variables:
            c = identifier(name)
            while c in self.names.values() or c in HELPERS:
                c += "_"
            self.names[name] = c
        self.temporary_count = 0

    # -- lines -------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """A line of the block."""
        self.lines.append("    " * self.depth + text)

    def temporary(self) -> str:
        """A new name."""
        self.temporary_count += 1
        name = f"t{self.temporary_count}"
        return name if name not in self.names.values() else self.temporary()

    def store_in_variable(self, e: Expression, text: str) -> str:
        """A variable for a value that is computed here."""
        name = self.temporary()
        self.line(f"const {self.types.type_of(e.kind)} {name} = {text};")
        return name

    def capture_lines(self, write: Callable[[], str], deeper: int = 0) -> tuple[str, list[str]]:
        """A text, and the lines that it wants before it."""
        lines, self.lines = self.lines, []
        self.depth += deeper
        text = write()
        self.depth -= deeper
        lines, self.lines = self.lines, lines
        return text, lines

    def helper(self, name: str, definition: str = "") -> str:
        """The name of a helper, which will be there."""
        if name.startswith("lanes"):
            self.helper("Lanes")
        self.helpers.setdefault(name, definition or HELPERS[name])
        return name
