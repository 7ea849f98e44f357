"""MJCF through MuJoCo's own compiler: includes and meshes from the package roots alone, everything else is MuJoCo's."""

from __future__ import annotations

import importlib.util
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..errors import ModelError, QuaddynError
from ..safe_files import read_regular_file
from .meshes import MeshFinder
from .xml import MAX_BYTES, XmlElement, read_xml, shorten

#: What may stand before the first tag: a byte order mark, blanks, declarations and comments; then the tag of MJCF.
_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->)*+<mujoco[\s/>]", re.DOTALL)
#: Files that one document includes and attaches, one in another, at most.
MAX_OPENED = 64
#: Points of the tetrahedron that stands in for a mesh whose shape decides nothing, and its faces.
TETRAHEDRON = (0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1)
FACES = (0, 2, 1, 0, 3, 2, 0, 1, 3, 1, 2, 3)
#: Held while MuJoCo compiles: its handler of warnings is one for the process.
_COMPILING = threading.Lock()
#: Values of the compiler's option ``inertiafromgeom``.
ALWAYS, WHERE_MISSING = 1, 2


def import_mujoco() -> Any:
    """The module mujoco.

    Raises:
        QuaddynError: it is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise QuaddynError("MuJoCo is not installed; pip install 'quaddyn[mujoco]' brings it") from None
    return mujoco


def is_mjcf(data: bytes | str) -> bool:
    """Whether the root element of a document is ``<mujoco>``."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    return _FIRST.match(raw) is not None


@dataclass(frozen=True, slots=True)
class MeshFile:
    """A mesh of an MJCF: its `uri` as written, `path` (None where it is not found), `scale`, and why it is missing.

    `origin` is the pose (position, quaternion wxyz) that MuJoCo moves to the origin of the mesh.
    """

    uri: str
    path: Path | None
    scale: tuple[float, float, float]
    problem: str
    origin: tuple[tuple[float, ...], tuple[float, ...]]


def compile_mjcf(data: bytes | str, name: str, finder: MeshFinder) -> tuple[Any, dict[str, MeshFile]]:
    """Compile an MJCF.

    Args:
        data: the document.
        name: its name, for messages.
        finder: finds what it includes, and meshes.  Nothing else is opened: images are left out, and meshes are read
            only where MuJoCo computes an inertia or the size of a shape from them.

    Returns:
        The ``mujoco.MjModel``, and the mesh files by the name of their mesh.

    Raises:
        ModelError: MuJoCo is not installed or refuses the document, or a file that it needs is not found.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise ModelError(
            f"{name}: an MJCF is read by MuJoCo, which is not installed; pip install 'quaddyn[mujoco]' brings it, or "
            "load a URDF of the robot"
        )
    mujoco = import_mujoco()
    root = read_xml(data, name)
    writer = _Writer(finder, name)
    text = writer.text(root)
    try:
        with _silent(mujoco):
            spec = mujoco.MjSpec.from_string(text, include=writer.attached)
            meshes = _prepared(mujoco, spec, name, finder)
            model = spec.compile()
    except ModelError:
        raise
    except Exception as error:  # ValueError of its parser and compiler, and whatever its files may come to
        raise ModelError(f"{name}: MuJoCo refuses it: {shorten(' '.join(str(error).split()))}") from None
    return model, meshes


@contextmanager
def _silent(mujoco: Any) -> Iterator[None]:
    """Keeps MuJoCo from writing its warnings, about names that it will drop, to a log file in the working folder."""
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = mujoco.get_mju_user_warning() if hasattr(mujoco, "get_mju_user_warning") else None
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(before)


class _Writer:
    """Writes a document as one text without ``<include>``; elements of the file itself keep their lines.

    `attached` holds the documents that ``<model file=...>`` names, written alike, by the names that stand for them.
    """

    def __init__(self, finder: MeshFinder, file: str) -> None:
        self.finder, self.file, self.line = finder, file, 1
        self.opened: list[Path] = []
        self.attached: dict[str, bytes] = {}

    def text(self, root: XmlElement) -> str:
        parts: list[str] = []
        self._write(root, parts)
        return "".join(parts)

    def _write(self, element: XmlElement, parts: list[str]) -> None:
        if element.tag == "include":
            for child in self._opened(element)[0]:
                self._write(child, parts)
            return
        if element.file == self.file and self.line < element.line:
            parts.append("\n" * (element.line - self.line))
            self.line = element.line
        given = dict(element.attrib)
        if element.tag == "model" and "file" in given:
            given["file"] = self._attach(element)
        from xml.sax.saxutils import quoteattr  # imports urllib and ssl

        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in given.items())
        parts.append(f"<{element.tag}{attributes}>")
        for child in element:
            self._write(child, parts)
        parts.append(f"</{element.tag}>")

    def _opened(self, element: XmlElement) -> tuple[XmlElement, Path]:
        """The document that an element names, and its path."""
        uri = element.attrib.get("file", "")
        path, _, problem = self.finder.find(uri)
        if path is None:
            raise ModelError(f"{element.where}: file={uri!r}: {problem}; {self.finder.advice(uri)}")
        if element.tag == "include" and path in self.opened:
            raise ModelError(f"{element.where}: file={uri!r} is included a second time; include it once")
        if len(self.opened) >= MAX_OPENED:
            raise ModelError(f"{element.where}: file={uri!r}: more than {MAX_OPENED} files, or one that names itself")
        self.opened.append(path)
        try:
            return read_xml(
                read_regular_file(path, MAX_BYTES), path.name if path.name != self.file else str(path)
            ), path
        except OSError as error:
            raise ModelError(f"{element.where}: file={uri!r}: cannot be read: {error.strerror}") from None

    def _attach(self, element: XmlElement) -> str:
        """The name that stands for an attached document, whose files are found from its own folder."""
        root, path = self._opened(element)
        folder = str(path.parent)
        for each in root.all("compiler"):
            for key in ("meshdir", "assetdir"):
                if key in each.attrib:
                    each.attrib[key] = f"{folder}/{each.attrib[key]}"
        root.children.insert(0, XmlElement("compiler", {"meshdir": folder}, root.line, root, root.file))
        inner = _Writer(MeshFinder(path.parent, self.finder.roots), str(path))
        inner.opened, inner.attached = [*self.opened], self.attached
        text = inner.text(root)
        name = f"attached_{len(self.attached)}.xml"
        self.attached[name] = text.encode()
        return name


def _prepared(mujoco: Any, spec: Any, name: str, finder: MeshFinder) -> dict[str, MeshFile]:
    """Give `spec` the meshes that decide inertias or sizes by their path, and stand-ins for all other files."""
    spec.compiler.discardvisual = spec.compiler.fusestatic = False
    for texture in list(spec.textures):
        spec.delete(texture)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    for skin in list(spec.skins):
        spec.delete(skin)
    for field_ in spec.hfields:
        if field_.file:
            field_.file, field_.nrow, field_.ncol, field_.userdata = "", 2, 2, [0.0] * 4
    needed = _needed(mujoco, spec)
    out: dict[str, MeshFile] = {}
    for mesh in spec.meshes:
        if not mesh.file:
            continue
        compiler = mesh.compiler
        uri = PurePosixPath(mesh.file.replace("\\", "/")).name if spec.strippath else mesh.file
        if compiler.meshdir and not uri.startswith("/"):
            uri = f"{compiler.meshdir.rstrip('/')}/{uri}"
        path, _, problem = finder.find(uri)
        origin = tuple(map(float, mesh.refpos)), tuple(map(float, mesh.refquat))
        x, y, z = map(float, mesh.scale)
        out[mesh.name] = MeshFile(uri, path, (x, y, z), problem, origin)
        if mesh.name in needed:
            if path is None:
                raise ModelError(
                    f'{name}: <mesh name="{mesh.name}">: file={uri!r}: {problem}, and MuJoCo computes '
                    f"{needed[mesh.name]} from it; {finder.advice(uri)}, or give the body an <inertial>"
                )
            mesh.file = str(path)
        else:
            mesh.file, mesh.content_type = "", ""
            mesh.refpos, mesh.refquat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
            mesh.uservert, mesh.userface = TETRAHEDRON, FACES
    return out


def _needed(mujoco: Any, spec: Any) -> dict[str, str]:
    """Returns, by name of the mesh, what MuJoCo computes from it, in words: a body's inertia or a shape's size."""
    out: dict[str, str] = {}
    for body in spec.bodies[1:]:
        rule = int(body.compiler.inertiafromgeom)
        low, high = (int(group) for group in body.compiler.inertiagrouprange)
        weighed = rule == ALWAYS or (rule == WHERE_MISSING and not body.explicitinertial)
        for geom in body.geoms:
            if not geom.meshname:
                continue
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH and geom.type != mujoco.mjtGeom.mjGEOM_SDF:
                out[geom.meshname] = f"the size of a shape of body {body.name!r}"
            elif weighed and low <= int(geom.group) <= high and geom.mass != 0.0 and geom.density != 0.0:
                out[geom.meshname] = f"the inertia of body {body.name!r}"
    return out
