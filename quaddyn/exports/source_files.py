"""`SourceFiles`: generated source files, and functions that fill their templates."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..compiler.c99_types import RESERVED, identifier
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..version import __version__
from .static_data import StaticData

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Generated source files.

    Attributes:
        name: prefix of file and function names.
        files: texts by file name, which may contain folders.
    """

    name: str
    files: dict[str, str]

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
