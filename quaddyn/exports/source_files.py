"""`SourceFiles`: generated source files, and functions that fill their templates.

Records of arrays are written as C source: memory with the sizes of the Python arrays, and structures of pointers to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..compiler.c99_types import RESERVED, identifier, literal
from ..compiler.kinds import BOOL, FLOAT, INT, ArrayKind, Kind, RecordKind, record_kind
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..version import __version__

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Generated source files."""

    name: str  # prefix of file and function names
    files: dict[str, str]  # texts by file name, which may contain folders

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes the files to a folder; it and the folders in names of files are created if they do not exist.

        Raises:
            OSError: a file cannot be written.
        """
        for file, text in self.files.items():
            path = Path(folder) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")


def make_c_name(text: str) -> str:
    """Returns a text as a prefix of files and functions: up to 61 letters, digits and _, a letter first."""
    word = identifier(text).lstrip("_")
    return (word if word[:1].isalpha() else f"r{word}")[:61]


def validate_c_name(name: str | None, default: str) -> str:
    """Returns the prefix of files and functions: `name`, or a C identifier made from `default` if `name` is None.

    Raises:
        ArgumentError: `name` is not a valid C identifier.
    """
    if name is None:
        return make_c_name(default)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,60}", name):
        raise ArgumentError(f"name: expected up to 61 letters, digits and _, a letter first, got {name!r}")
    if name in RESERVED:
        raise ArgumentError(f"name: {name!r} is reserved in C or C++; choose another name, such as {name + '_'!r}")
    return name


def fill_template(file: str, name: str, robot: Robot, parts: Mapping[str, object] | None = None) -> str:
    """Returns a file of the folder ``templates`` with its placeholders replaced, in ASCII.

    Every word ``QD_`` and letters is a placeholder.  All are replaced in one pass: replacements are not searched.

    Args:
        file: name of the template.
        name: prefix of files and functions, QD_NAME; in capitals QD_UPPER.
        robot: the robot, QD_ROBOT, with the sizes QD_NQ, QD_NV, QD_NU and QD_NF and the names QD_JOINTS and QD_FEET.
        parts: replacements of other placeholders, without ``QD_``.
    """
    known = {
        "NAME": name,
        "UPPER": name.upper(),
        "VERSION": __version__,
        "ROBOT": re.sub(r"[^\w .-]", "_", robot.name, flags=re.ASCII),
        "NQ": robot.nq,
        "NV": robot.nv,
        "NU": robot.nu,
        "NF": len(robot.feet),
        "JOINTS": c_string_list(robot.actuated),
        "FEET": c_string_list(robot.feet),
    } | dict(parts or {})
    text = (_TEMPLATES / file).read_text(encoding="ascii")
    text = re.sub("QD_([A-Z]+)", lambda found: str(known[found[1]]), text)
    return text.encode("ascii", "backslashreplace").decode()


def define_robot(data: StaticData, record: Any, name: str, robot: Robot) -> tuple[str, str]:
    """Returns the memory of an export as one C structure per robot.

    Args:
        data: writer of the memory with the owner ``m``; members and initial values that it has are kept.
        record: record of the arrays and numbers that functions use.
        name: prefix of the files, and name of the structure.
        robot: the robot.

    Returns:
        Text of ``NAME_memory.h``; and the functions ``view``, which returns the record of a robot, ``NAME_initialize``
        and ``NAME_size``.  `StaticData.definitions` must be written before them.
    """
    pointers = "\n    ".join(data.define_value(record).splitlines())
    parts = {
        "TYPE": type(record).__name__,
        "POINTERS": pointers,
        "MEMBERS": "\n    ".join(data.members),
        "INITIALIZATIONS": "\n    ".join(data.initializations),
    }
    return fill_template("memory.h", name, robot, parts), fill_template("memory.c", name, robot, parts).rstrip()


def core_files(functions: Sequence[Callable[..., Any]], module: str, name: str, about: str) -> dict[str, str]:
    """Returns the files ``NAME_core.h`` and ``NAME_core.c`` of compiled functions.

    Args:
        functions: functions of one module, and those that they call.
        module: prefix of the names of the functions in C, without the final underscore; it is replaced by
            ``NAME_core``, so that two exports can be linked into one program.
        name: prefix of the files and functions of the export.
        about: sentence that says what the files contain.
    """
    from ..compiler.c99 import c_source  # the compiler is not imported where nothing is exported

    core = c_source(functions, f"{name}_core")
    return {
        f"{name}_core.{end}": f"/* {about} Written by quaddyn {__version__}; do not edit. */\n"
        + re.sub(rf"\b{module}_", f"{name}_core_", text)
        for end, text in (("h", core.header), ("c", core.source))
    }


def c_string_list(names: Sequence[str]) -> str:
    """Returns the entries of a C array of strings, without trigraphs; ``NULL`` if there are none."""
    quoted = [
        name.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"') for name in names
    ]
    return re.sub(r"\?(?=\?)", r"?\\", ", ".join(f'"{literal}"' for literal in quoted)) or "NULL"


#: Types of array entries in C, by type of the entries in compiled code.
_C_ITEM_TYPES = {"float": "double", "int": "int64_t", "byte": "int8_t"}


class StaticData:
    """Writer of the definitions of memory for records.

    Args:
        constant: prefix of the names of arrays that are only read.
        owner: name of a pointer to a structure, whose members are the arrays that are written.

    Attributes:
        definitions: definitions of static arrays.
        members: declarations of the members of the structure.
        initializations: statements that set the members to their initial values where these are not all zero.
        sizes: bytes of constants, of data with initial values, and of zero-initialized data.
    """

    def __init__(self, constant: str, *, owner: str = "") -> None:
        self.definitions: list[str] = []
        self.members: list[str] = []
        self.initializations: list[str] = []
        self._owner = owner
        self.sizes = {"constant": 0, "set": 0, "zero": 0}
        self._constant = constant
        self._arrays_of_base: dict[int, list[tuple[str, np.ndarray[Any, Any]]]] = {}
        self._names: dict[int, str] = {}

    def define_structure(self, record: Any, name: str, type_: str, prefix: str = "", *, const: bool = False) -> str:
        """Returns the definition of a record as a static structure, and adds its arrays to `definitions`.

        Args:
            record: the record.
            name: name of the structure.
            type_: its type in C.
            prefix: beginning of the names of its arrays, different for each structure of a program.
            const: whether the structure is constant.
        """
        return f"static {'const ' if const else ''}{type_} {name} = {self.define_value(record, prefix)};"

    def define_value(self, record: Any, prefix: str = "") -> str:
        """Returns the initializer of a record, and adds its arrays to `definitions` or `members`."""
        kind = record_kind(type(record))
        assert kind is not None
        self._collect_arrays(record, prefix)
        return self._format_value(record, kind, prefix.rstrip("_"), 0)

    def _collect_arrays(self, record: Any, path: str) -> None:
        """Registers all arrays of a record by the memory that they use."""
        for field, value in zip(record._fields, record, strict=True):
            if isinstance(value, np.ndarray):
                self._arrays_of_base.setdefault(id(_base_array(value)), []).append((f"{path}{field}", value))
            elif isinstance(value, tuple):
                self._collect_arrays(value, f"{path}{field}_")

    def _format_value(self, x: Any, kind: Kind, path: str, depth: int) -> str:
        """Returns the initializer of a value in C."""
        if isinstance(kind, RecordKind):
            indent = "    " * (depth + 1)
            fields = [
                f"{indent}.{identifier(name)} = "
                f"{self._format_value(field_value, field_kind, f'{path}_{name}', depth + 1)},\n"
                for field_value, (name, field_kind) in zip(x, kind.fields, strict=True)
            ]
            return "{\n" + "".join(fields) + "    " * depth + "}"
        if isinstance(kind, ArrayKind):
            return self._format_array(x, kind, path.lstrip("_"))
        return format_number(x, kind)

    def _format_array(self, x: np.ndarray[Any, Any], kind: ArrayKind, path: str) -> str:
        """Returns a structure of pointer and sizes; arrays that share memory in Python share it in C."""
        root = _base_array(x)
        sharing = self._arrays_of_base[id(root)]
        if id(root) not in self._names:
            self._names[id(root)] = self._define_memory(root, sharing, kind)
        begin = min(each.ctypes.data for _, each in sharing)
        offset = (x.ctypes.data - begin) // x.itemsize if x.size else 0
        item, name = _C_ITEM_TYPES[kind.item], self._names[id(root)]
        pointer = f"({item} *){name}" if path.startswith(self._constant) else name
        pointer += f" + {offset}" if offset else ""
        return f"{{{pointer}, {', '.join(map(str, x.shape))}}}" if kind.rank else pointer

    def _define_memory(self, root: np.ndarray[Any, Any], sharing: Any, kind: ArrayKind) -> str:
        """Defines the memory of arrays with one base, named like the largest of them; returns the address in C."""
        path: str = max(sharing, key=lambda pair: pair[1].size)[0]
        name, item = path.removeprefix("data_"), _C_ITEM_TYPES[kind.item]
        begin = (min(each.ctypes.data for _, each in sharing) - root.ctypes.data) // root.itemsize
        flat = np.concatenate((root.ravel()[begin:], np.zeros(begin, dtype=root.dtype)))
        size, element = max(1, flat.size), FLOAT if kind.item == "float" else INT
        constant = path.startswith(self._constant)
        has_values = flat.size and (constant or flat.view(np.uint8).any())
        self.sizes["constant" if constant else "set" if has_values else "zero"] += size * root.itemsize
        values = f" = {{\n{_wrap_items([format_number(n, element) for n in flat])}}};" if has_values else ";"
        if constant:
            self.definitions.append(f"static const {item} {name}[{size}]{values}")
            return name
        self.members.append(f"{item} {name}[{size}];")
        member = f"{self._owner}->{name}"
        if has_values:
            self.definitions.append(f"static const {item} initial_{name}[{size}]{values}")
            self.initializations.append(f"memcpy({member}, initial_{name}, sizeof initial_{name});")
        return member


def format_number(x: Any, kind: Kind) -> str:
    """Returns a number as an exact literal of C."""
    plain = bool(x) if kind == BOOL else float(x) if kind == FLOAT else int(x)
    from ..compiler.typed_tree import Constant  # the compiler is not imported where nothing is exported

    return literal(Constant(kind, plain))[0]


def define_constant_array(name: str, values: Any, *, static: bool = False) -> str:
    """Returns the definition of a constant array."""
    text = _wrap_items([format_number(x, FLOAT) for x in values] or ["0.0"])
    return f"{'static ' if static else ''}const double {name}[{max(1, len(values))}] = {{\n{text}}};"


def _wrap_items(items: list[str]) -> str:
    """Returns the items, separated by commas, in lines of up to 110 characters."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) > 110:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "".join(f"{each}\n" for each in [*lines, line])


def _base_array(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the array that owns the memory of a view."""
    while isinstance(x.base, np.ndarray) and x.base.dtype == x.dtype:  # not the bytes of a mutable record
        x = x.base
    return x
