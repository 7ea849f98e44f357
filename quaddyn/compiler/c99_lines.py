"""Lines and variable names of one C99 function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .c99_types import HELPERS, Types, identifier
from .typed_tree import Expression, Function


class LineWriter:
    """Collector of the lines of one C99 function.

    Args:
        function: typed tree of the function.
        types: C names of kinds.
        symbol: returns the C name of a compiled function.
        helpers: receives the definitions of helper functions by name.
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
        """Appends a line to the current block."""
        self.lines.append("    " * self.depth + text)

    def temporary(self) -> str:
        """Returns an unused variable name."""
        self.temporary_count += 1
        name = f"t{self.temporary_count}"
        return name if name not in self.names.values() else self.temporary()

    def store_in_variable(self, e: Expression, text: str) -> str:
        """Writes a constant variable with the value of an expression and returns its name."""
        name = self.temporary()
        self.line(f"const {self.types.type_of(e.kind)} {name} = {text};")
        return name

    def capture_lines(self, write: Callable[[], str], deeper: int = 0) -> tuple[str, list[str]]:
        """Returns the text that `write` makes, and the lines that must precede it, without appending them."""
        lines, self.lines = self.lines, []
        self.depth += deeper
        text = write()
        self.depth -= deeper
        lines, self.lines = self.lines, lines
        return text, lines

    def helper(self, name: str, definition: str = "") -> str:
        """Returns the name of a helper function and registers its definition."""
        if name.startswith("lanes"):
            self.helper("Lanes")
        self.helpers.setdefault(name, definition or HELPERS[name])
        return name
