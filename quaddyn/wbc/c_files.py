"""`SourceFiles`: generated C99 files, and functions that fill their templates."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..kernels.c_source import identifier
from ..version import __version__
from .export_data import StaticData

_MEMORY = """\
/* Memory of NAME.h. Written by quaddyn VERSION; do not edit. */
#ifndef UPPER_MEMORY_H
#define UPPER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Memory of a robot. A copy has the same state. The members are for internal use. */
typedef struct {
    MEMBERS
} NAME;

#endif
"""

_MEMORY_FUNCTIONS = """\
/* Pointers to the memory of a robot. */
static TYPE_ view(const NAME *robot)
{
    NAME *m = (NAME *)robot;
    return (TYPE_)POINTERS;
}

void NAME_initialize(NAME *m)
{
    memset(m, 0, sizeof *m);
    INITIALIZATIONS
}

size_t NAME_size(void)
{
    return sizeof(NAME);
}"""


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
    return name


def fill_template(text: str, name: str, parts: Mapping[str, str]) -> str:
    """Returns a template with its placeholders replaced in one pass, since replacements may contain placeholders.

    Args:
        text: template, in which NAME, UPPER and VERSION are placeholders, too.
        name: prefix of the files.
        parts: replacement of each placeholder.
    """
    parts = {"UPPER": name.upper(), "NAME": name, "VERSION": __version__} | dict(parts)
    placeholders = re.compile("|".join(sorted(parts, key=len, reverse=True)))
    return placeholders.sub(lambda match: parts[match[0]], text).encode("ascii", "backslashreplace").decode()


def define_robot(data: StaticData, record: Any, name: str) -> tuple[str, str]:
    """Returns the memory of an export as one C structure per robot.

    Args:
        data: writer of the memory with the owner ``m``; members and initial values that it has are kept.
        record: record of the arrays and numbers that functions use.
        name: prefix of the files, and name of the structure.

    Returns:
        Text of ``NAME_memory.h``; and the functions ``view``, which returns the record of a robot, ``NAME_initialize``
        and ``NAME_size``.  `StaticData.definitions` must be written before them.
    """
    pointers = "\n    ".join(data.define_value(record).splitlines())
    parts = {
        "TYPE_": type(record).__name__,
        "POINTERS": pointers,
        "MEMBERS": "\n    ".join(data.members),
        "INITIALIZATIONS": "\n    ".join(data.initializations),
    }
    return fill_template(_MEMORY, name, parts), fill_template(_MEMORY_FUNCTIONS, name, parts)


def rename_core_functions(text: str, prefix: str, name: str, about: str) -> str:
    """Renames functions in generated C text, so that two exports can be linked into one program.

    Args:
        text: C text of compiled functions.
        prefix: prefix of their names without the final underscore; it is replaced by ``NAME_core``.
        name: prefix of the files and functions of the export.
        about: sentence that says what the text contains.

    Returns:
        The text with the new names, after a comment of `about` and the version.
    """
    text = re.sub(rf"\b{prefix}_", f"{name}_core_", text)
    return f"/* {about} Written by quaddyn {__version__}; do not edit. */\n{text}"


def c_string_list(names: Sequence[str]) -> str:
    """Returns the entries of a C array of strings, without trigraphs; ``NULL`` if there are none."""
    quoted = [
        name.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"') for name in names
    ]
    return ", ".join(f'"{literal}"' for literal in quoted).replace("??", "?\\?") or "NULL"
