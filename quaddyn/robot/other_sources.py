"""Sources that other packages turn into URDF, where these are installed: xacro files, and robot_descriptions."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ..errors import ModelError
from ..urdf.meshes import MeshFinder
from ..urdf.xml import shorten

#: A macro's expression in an attribute, or a macro itself.
UNEXPANDED = re.compile(rb"=\s*(\"[^\"<]*\$[{(]|'[^'<]*\$[{(])|<xacro:(macro|include|property|arg|if|unless)\b")

#: What xacro asks for the folder of a package; a part of ROS.
ROS_INDEX = "ament_index_python"
#: How xacro names an argument that has neither a default nor a value.
NO_ARGUMENT = re.compile(r"[Uu]ndefined substitution argument:?\s+'?([\w./-]+)")

#: A comment, or the rest after one that does not end.
COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)


class PackageDescription(NamedTuple):
    """File of robot_descriptions, and the folders in which its meshes are searched."""

    file: Path
    packages: tuple[Path, ...]


def is_xacro(data: bytes | str, name: str) -> bool:
    """Returns whether a document must be expanded by xacro before it is a URDF."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    return name.endswith(".xacro") or UNEXPANDED.search(COMMENT.sub(b"", raw)) is not None


def expand_xacro(
    path: Path | None, name: str, finder: MeshFinder, arguments: Mapping[str, str]
) -> tuple[bytes, tuple[Path, ...]]:
    """Expands a xacro file; returns the URDF and the folders of the packages that it names.

    Args:
        path: path of the file; None for text, which cannot be expanded.
        name: name of the file, for the message.
        finder: finds the packages that ``$(find ...)`` names; ROS, if installed, finds the others.
        arguments: values of ``$(arg ...)``.

    Raises:
        ModelError: the package xacro is not installed, or rejects the file; or a package is not found.
    """
    if path is None or importlib.util.find_spec("xacro") is None:
        command = f"xacro {name} > robot.urdf" if path is not None else "xacro on the file"
        raise ModelError(
            f"{name}: the file has xacro macros or ${{...}} that were not expanded; run {command} and load the result"
            + (
                ""
                if path is None
                else ", or install the package xacro (pip install xacro), with which load expands them"
            )
        )
    xacro = importlib.import_module("xacro")
    index = _PackageIndex(finder)
    try:
        with _resolving_packages_by(index.folder):
            document = xacro.process_file(str(path), **({"mappings": dict(arguments)} if arguments else {}))
        text: str = document.toxml()
    except Exception as error:  # of any kind: its expressions are Python
        words = _one_line(error)
        if index.missing:
            package = index.missing[0]
            tried = f" (looked in: {', '.join(map(str, finder.roots))})" if finder.roots else ""
            words = f"$(find {package}) names a package that is not found{tried}; pass packages= with the folder " + (
                f"{package!r} or its parent folder, or run xacro where ROS is installed"
            )
        elif missing := NO_ARGUMENT.search(words):
            words += f"; pass arguments={{{missing.group(1)!r}: ...}}"
        raise ModelError(f"{name}: xacro rejects the file: {words}") from None
    return text.encode(), tuple(index.found)


class _PackageIndex:
    """Folders of packages by name; `found` and `missing` list the packages requested."""

    def __init__(self, finder: MeshFinder) -> None:
        self.finder = finder
        self.found: list[Path] = []
        self.missing: list[str] = []
        installed = importlib.util.find_spec(ROS_INDEX) is not None
        self._ros = importlib.import_module(f"{ROS_INDEX}.packages") if installed else None

    def folder(self, package: str) -> str:
        """Returns the folder of a package.

        Raises:
            LookupError: there is none.
        """
        folder = self.finder.package(package)
        if folder is not None:
            self.found.append(folder)
            return str(folder)
        try:
            if self._ros is None:
                raise LookupError(
                    f"the ROS package {package!r} was not found; pass its folder or its parent folder as packages="
                )
            share = str(self._ros.get_package_share_directory(package))
        except LookupError:
            self.missing.append(package)
            raise
        self.found.append(Path(share))
        return share


#: Held while xacro runs: it keeps the state of a document in its module.
_XACRO = threading.Lock()


@contextmanager
def _resolving_packages_by(folder: Callable[[str], str]) -> Iterator[None]:
    """Makes xacro call `folder`, instead of ROS, for the folder of a package."""
    index, packages = ModuleType(ROS_INDEX), ModuleType(f"{ROS_INDEX}.packages")
    packages.__dict__["get_package_share_directory"] = folder
    index.__dict__["packages"] = packages
    with _XACRO:
        before = {module.__name__: sys.modules.get(module.__name__) for module in (index, packages)}
        sys.modules |= {module.__name__: module for module in (index, packages)}
        try:
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module


def find_robot_description(name: str) -> PackageDescription | None:
    """Returns the robot of this name in the package robot_descriptions; None if either is missing.

    The package may download the robot's files at its first use.

    Raises:
        ModelError: the package has this robot, but neither as a URDF nor as an MJCF, or cannot download it.
    """
    if not name.isidentifier() or importlib.util.find_spec("robot_descriptions") is None:
        return None
    if importlib.util.find_spec(f"robot_descriptions.{name}") is None:
        return None
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
    except Exception as error:  # whatever a download may come to
        raise ModelError(
            f"{name}: the package robot_descriptions cannot provide this robot: {_one_line(error)}"
        ) from None
    file = getattr(module, "URDF_PATH", None) or getattr(module, "MJCF_PATH", None)
    if file is None:
        raise ModelError(f"{name}: the package robot_descriptions has this robot neither as a URDF nor as an MJCF")
    folders = (getattr(module, what, None) for what in ("PACKAGE_PATH", "REPOSITORY_PATH"))
    found = [Path(folder) for folder in folders if folder is not None]
    return PackageDescription(Path(file), tuple(dict.fromkeys([*(f.parent for f in found[:1]), *found])))


def _one_line(error: Exception) -> str:
    return shorten(" ".join(str(error).split()))
