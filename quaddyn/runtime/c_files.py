"""`SourceFiles`: what is written beside an exported controller, from templates in C99."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArgumentError
from ..kernels.c_source import identifier
from ..version import __version__


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files in C99.

    Attributes:
        name: what files and functions begin with.
        files: texts by name of the file.
    """

    name: str
    files: dict[str, str]

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the files to a folder, which is made if it is missing.

        Raises:
            OSError: a file cannot be written.
        """
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        for file, text in self.files.items():
            (out / file).write_text(text, encoding="ascii")


def c_name(name: str | None, default: str) -> str:
    """What files and functions are to begin with.

    Raises:
        ArgumentError: a name that is none to C.
    """
    if name is None:
        return identifier(default).lstrip("_")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,60}", name):
        raise ArgumentError(f"name: expected up to 61 letters, digits and _, a letter first, got {name!r}")
    return name


def filled(text: str, name: str, parts: Mapping[str, str]) -> str:
    """A template with its words replaced, in one go: what is filled in may contain the same words.

    Args:
        text: has NAME, UPPER and VERSION besides.
        name: of the files.
        parts: by word.
    """
    parts = {"UPPER": name.upper(), "NAME": name, "VERSION": __version__} | dict(parts)
    words = re.compile("|".join(sorted(parts, key=len, reverse=True)))
    return words.sub(lambda found: parts[found[0]], text).encode("ascii", "backslashreplace").decode()


def core_named(text: str, prefix: str, name: str, about: str) -> str:
    """Compiled functions under the name of what is written, so that two fit into one program."""
    text = re.sub(rf"\b{prefix}_", f"{name}_core_", text)
    return f"/* {about} Written by quaddyn {__version__}; do not edit. */\n{text}"


def strings(names: tuple[str, ...]) -> str:
    """Entries of an array of strings."""
    return ", ".join(
        '"{}"'.format(each.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"'))
        for each in names
    )
