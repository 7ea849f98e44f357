"""Records of arrays as C: static arrays of the sizes that Python uses, and structures that point to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiler.c99_types import identifier, literal
from ..compiler.kinds import BOOL, FLOAT, INT, ArrayKind, Kind, RecordKind, record_kind
from ..compiler.typed_tree import Constant

#: Types of entries in C.
_ITEMS = {"float": "double", "int": "int64_t", "byte": "int8_t"}


class StaticData:
    """Definitions of static memory for records.

    Args:
        constant: prefix of the names of arrays that are only read.

    Attributes:
        definitions: definitions of the arrays.
        sizes: bytes of constants, of data with initial values, and of zero-initialized data.
    """

    def __init__(self, constant: str) -> None:
        self.definitions: list[str] = []
        self.sizes = {"constant": 0, "set": 0, "zero": 0}
        self._constant = constant
        self._shared: dict[int, list[tuple[str, np.ndarray[Any, Any]]]] = {}
        self._names: dict[int, str] = {}

    def structure(self, record: Any, name: str, type_: str) -> str:
        """Returns the definition of a record as a static structure, and adds its arrays to `definitions`."""
        kind = record_kind(type(record))
        assert kind is not None
        self._collect(record, "")
        return f"static {type_} {name} = {self._value(record, kind, '', 0)};"

    def _collect(self, record: Any, path: str) -> None:
        for field, value in zip(record._fields, record, strict=True):
            if isinstance(value, np.ndarray):
                self._shared.setdefault(id(_root(value)), []).append((f"{path}{field}", value))
            elif isinstance(value, tuple):
                self._collect(value, f"{path}{field}_")

    def _value(self, x: Any, kind: Kind, path: str, depth: int) -> str:
        if isinstance(kind, RecordKind):
            pad = "    " * (depth + 1)
            fields = [
                f"{pad}.{identifier(name)} = {self._value(each, of, f'{path}_{name}', depth + 1)},\n"
                for each, (name, of) in zip(x, kind.fields, strict=True)
            ]
            return "{\n" + "".join(fields) + "    " * depth + "}"
        if isinstance(kind, ArrayKind):
            return self._array(x, kind, path.lstrip("_"))
        return number(x, kind)

    def _array(self, x: np.ndarray[Any, Any], kind: ArrayKind, path: str) -> str:
        """Returns a structure of pointer and sizes; arrays that share memory in Python share it in C."""
        root = _root(x)
        together = self._shared[id(root)]
        if id(root) not in self._names:
            self._names[id(root)] = self._define(root, together, kind)
        begin = min(each.ctypes.data for _, each in together)
        offset = (x.ctypes.data - begin) // x.itemsize if x.size else 0
        item, name = _ITEMS[kind.item], self._names[id(root)]
        place = f"({item} *){name}" if path.startswith(self._constant) else name
        sizes = ", ".join(map(str, x.shape))
        return f"{{{place}{f' + {offset}' if offset else ''}, {sizes}}}"

    def _define(self, root: np.ndarray[Any, Any], together: Any, kind: ArrayKind) -> str:
        """Defines the memory of arrays with one base, named like the largest of them."""
        path: str = max(together, key=lambda pair: pair[1].size)[0]
        name, item = path.removeprefix("data_"), _ITEMS[kind.item]
        begin = (min(each.ctypes.data for _, each in together) - root.ctypes.data) // root.itemsize
        flat = np.concatenate((root.ravel()[begin:], np.zeros(begin, dtype=root.dtype)))
        size, element = max(1, flat.size), FLOAT if kind.item == "float" else INT
        constant = path.startswith(self._constant)
        head = f"static {'const ' if constant else 'ALIGNED '}{item} {name}[{size}]"
        there = flat.size and (constant or flat.view(np.uint8).any())
        self.sizes["constant" if constant else "set" if there else "zero"] += size * root.itemsize
        self.definitions.append(
            f"{head} = {{\n{_wrapped([number(n, element) for n in flat])}}};" if there else f"{head};"
        )
        return name


def number(x: Any, kind: Kind) -> str:
    """Returns a number as an exact literal of C."""
    plain = bool(x) if kind == BOOL else float(x) if kind == FLOAT else int(x)
    return literal(Constant(kind, plain))[0]


def numbers(name: str, values: Any, *, static: bool = False) -> str:
    """Returns the definition of a constant array."""
    text = _wrapped([number(x, FLOAT) for x in values] or ["0.0"])
    return f"{'static ' if static else ''}const double {name}[{max(1, len(values))}] = {{\n{text}}};"


def _wrapped(items: list[str]) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) > 110:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "".join(f"{each}\n" for each in [*lines, line])


def _root(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x
