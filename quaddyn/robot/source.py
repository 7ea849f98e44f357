"""Reads the source given to `load` (a catalog name, a path or text of URDF or MJCF) into one document."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pinocchio as pin

from ..errors import ArgumentError, ArgumentTypeError, ModelError, UnknownNameError, UnreadableFileError
from ..safe_files import read_regular_file
from ..urdf.meshes import MeshFinder
from ..urdf.mjcf import is_mjcf
from ..urdf.srdf import NamedPose
from ..urdf.tree import Finding
from ..urdf.xml import MAX_BYTES
from .catalogue import CATALOGUE, find_entry
from .other_sources import expand_xacro, find_robot_description, is_xacro


@dataclass(frozen=True, slots=True)
class Document:
    """URDF document.

    Attributes:
        data: the document itself.
        name: name for messages.
        folder: folder of the file; None for text.
        packages: package roots.
        root: root that the catalog prescribes; None if it is detected.
        path: path of a file that may be xacro.
        findings: findings of the conversion from MJCF.
        poses: keyframes of an MJCF by name.
        converted: whether `data` was converted from MJCF.
    """

    data: bytes | str
    name: str
    folder: Path | None
    packages: tuple[Path, ...]
    root: str | None = None
    path: Path | None = None
    findings: tuple[Finding, ...] = ()
    poses: Mapping[str, NamedPose] = field(default_factory=dict)
    converted: bool = False


def read_source(
    source: str | os.PathLike[str] | pin.Model,
    packages: Iterable[str | os.PathLike[str]],
    arguments: Mapping[str, str | float] | None = None,
) -> Document:
    """Reads `source` into a URDF document.

    Args:
        source: a catalog name, a path, text of URDF or MJCF, or a ``pin.Model``.
        packages: package roots.
        arguments: values of the arguments of a xacro file.

    Raises:
        ModelError: nothing is named; the file is missing, not a regular file, too large or unreadable.
        UnknownNameError: neither a catalog name nor a file name.
        ArgumentError: a package root that is not a folder, a source of the wrong type, or arguments that are invalid or
            given for a file that is not xacro.
    """
    document = _read_document(source, packages)
    values = _xacro_arguments(arguments)
    if is_mjcf(document.data) and not values:
        from ..urdf.mjcf_document import urdf_of_mjcf

        found = urdf_of_mjcf(document.data, document.name, MeshFinder(document.folder, document.packages))
        name = f"{document.name} as URDF"  # the lines in messages are those of what `quaddyn convert` writes
        return replace(document, data=found.text, name=name, findings=found.findings, poses=found.poses, converted=True)
    if is_xacro(document.data, document.name if document.path else ""):
        finder = MeshFinder(document.folder, document.packages)
        data, folders = expand_xacro(document.path, document.name, finder, values)
        return replace(document, data=data, packages=tuple(dict.fromkeys((*document.packages, *folders))))
    if values:
        raise ArgumentError(f"arguments: {document.name} is not a xacro file and has no arguments; remove arguments=")
    return document


def _xacro_arguments(arguments: Mapping[str, str | float] | None) -> dict[str, str]:
    """Returns the arguments of a xacro file as texts."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ArgumentTypeError(f"arguments: expected a mapping from name to value, got {type(arguments).__name__}")
    out = {}
    for name, value in arguments.items():
        if not isinstance(name, str) or not isinstance(value, str | bool | int | float):
            raise ArgumentTypeError(f"arguments[{name!r}]: expected a text or a number, got {type(value).__name__}")
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def _read_document(source: str | os.PathLike[str] | pin.Model, packages: Iterable[str | os.PathLike[str]]) -> Document:
    """Returns the document that `source` names, before xacro expansion."""
    for item in packages:
        if not isinstance(item, str | os.PathLike):
            raise ArgumentTypeError(f"packages: expected folders, got {type(item).__name__}")
    roots = tuple(Path(p) for p in packages)
    for folder in roots:
        if not folder.is_dir():
            raise ArgumentError(f"packages: {str(folder)!r} is not a folder; pass existing folders")
    if isinstance(source, pin.Model):
        from .pinocchio_source import write_urdf

        text, root = write_urdf(source)
        return Document(text, f"<pinocchio.Model {source.name}>", None, roots, root)
    if isinstance(source, str):
        if not source.strip("\ufeff \t\r\n"):
            raise ModelError(f"source={source[:20]!r}: expected a catalogue name, a path or URDF text")
        if is_text(source):
            text = source.lstrip("\ufeff \t\r\n")
            return Document(text, "<text>", None, roots)
        if source in CATALOGUE:
            entry = find_entry(source)
            data = _read_bytes(entry.path)
            return Document(data, entry.path.name, entry.path.parent, roots + entry.packages, entry.root)
        if not source.endswith((".urdf", ".xml", ".xacro")) and os.sep not in source and not _is_existing_path(source):
            found = find_robot_description(source)
            if found is not None:
                return _read_file_document(found.file, roots + found.packages)
            raise UnknownNameError("robot", source, CATALOGUE)
    elif not isinstance(source, os.PathLike):
        raise ArgumentTypeError(
            f"source: expected a catalogue name, a path, URDF text or pinocchio.Model, got {type(source).__name__}"
        )
    try:
        return _read_file_document(Path(source), roots)
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{str(source)[:80]!r}: not a file name ({error})") from None


def is_text(source: str) -> bool:
    """Returns whether a string is a document, not the name of a robot or file."""
    return source.lstrip("\ufeff \t\r\n").startswith("<")


def _read_file_document(path: Path, packages: tuple[Path, ...]) -> Document:
    return Document(_read_bytes(path), path.name, path.parent, packages, path=path)


def _is_existing_path(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for a file name, or a NUL in it
        return False


def _read_bytes(path: Path) -> bytes:
    """Returns the bytes of a file."""
    try:
        return read_regular_file(path, MAX_BYTES)
    except OSError as error:
        raise UnreadableFileError(f"{path}: the file cannot be read: {error.strerror}") from None


def insert_element(source: str | bytes, tag: str) -> str | bytes:
    """Returns the document with one or several elements added at its end."""
    if isinstance(source, bytes):
        end = source.rfind(b"</robot")
        return source[:end] + tag.encode() + b"\n" + source[end:]
    end = source.rfind("</robot")
    return f"{source[:end]}{tag}\n{source[end:]}"
