"""Sources that other packages turn into URDF, where these are installed: xacro files, and robot_descriptions."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

from ..errors import ModelError
from ..urdf.xml import clipped

#: A macro's expression in an attribute, or a macro itself.
UNEXPANDED = re.compile(rb"=\s*(\"[^\"<]*\$[{(]|'[^'<]*\$[{(])|<xacro:(macro|include|property|arg|if|unless)\b")

#: A comment, or the rest after one that does not end.
COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)


class Description(NamedTuple):
    """A file of robot_descriptions, and the folders in which its meshes are looked for."""

    file: Path
    packages: tuple[Path, ...]


def is_xacro(data: bytes | str, name: str) -> bool:
    """Whether a document has to go through xacro before it is a URDF."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    return name.endswith(".xacro") or UNEXPANDED.search(COMMENT.sub(b"", raw)) is not None


def expanded(path: Path | None, name: str) -> bytes:
    """A xacro file as URDF.

    Args:
        path: of the file; None for text, which cannot be expanded.
        name: for the message.

    Raises:
        ModelError: the package xacro is not installed, or refuses the file.
    """
    if path is None or importlib.util.find_spec("xacro") is None:
        command = f"xacro {name} > robot.urdf" if path is not None else "xacro on the file"
        raise ModelError(
            f"{name}: has macros or ${{...}} that were not expanded: run {command} and load the result"
            + ("" if path is None else "; where the package xacro is installed (pip install xacro), load does it")
        )
    xacro = importlib.import_module("xacro")
    try:
        text: str = xacro.process_file(str(path)).toxml()
    except Exception as error:  # of any kind: its expressions are Python
        raise ModelError(f"{name}: xacro refuses it: {_line(error)}") from None
    return text.encode()


def described(name: str) -> Description | None:
    """The robot of this name in the package robot_descriptions; None where either is missing.

    The package may fetch the robot's files at its first use.

    Raises:
        ModelError: the package has this robot, but not as a URDF, or cannot fetch it.
    """
    if not name.isidentifier() or importlib.util.find_spec("robot_descriptions") is None:
        return None
    if importlib.util.find_spec(f"robot_descriptions.{name}") is None:
        return None
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
    except Exception as error:  # whatever a download may come to
        raise ModelError(f"{name}: robot_descriptions cannot provide it: {_line(error)}") from None
    file = getattr(module, "URDF_PATH", None)
    if file is None:
        raise ModelError(f"{name}: robot_descriptions has it, but not as a URDF")
    folders = (getattr(module, what, None) for what in ("PACKAGE_PATH", "REPOSITORY_PATH"))
    found = [Path(folder) for folder in folders if folder is not None]
    return Description(Path(file), tuple(dict.fromkeys([*(f.parent for f in found[:1]), *found])))


def _line(error: Exception) -> str:
    return clipped(" ".join(str(error).split()))
