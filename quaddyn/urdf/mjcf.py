"""Compilation of MJCF by MuJoCo, with included files and meshes that a `MeshFinder` finds."""

from __future__ import annotations

import importlib.util
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, QuaddynError
from ..safe_files import read_regular_file
from .meshes import MeshFinder
from .xml import MAX_BYTES, XmlElement, read_xml, shorten

#: Byte order mark, blanks, declarations and comments that may precede the first tag; then the first tag of an MJCF.
_MJCF_START = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->)*+<mujoco[\s/>]", re.DOTALL)
#: Maximum number of files that a document includes or attaches, nested ones counted.
MAX_FILES = 64
#: Vertices and faces of the tetrahedron that replaces a mesh from which MuJoCo computes nothing.
TETRAHEDRON_VERTICES = (0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1)
TETRAHEDRON_FACES = (0, 2, 1, 0, 3, 2, 0, 1, 3, 1, 2, 3)
#: Lock during compilation, since MuJoCo has one warning handler per process.
_COMPILE_LOCK = threading.Lock()
#: Values of the compiler's option ``inertiafromgeom``.
INERTIA_FROM_GEOM_ALWAYS, INERTIA_FROM_GEOM_IF_MISSING = 1, 2


class ActuatorIndices(NamedTuple):
    """Indices of the controls and outputs of the actuators of a MuJoCo model.

    From MuJoCo 4 on, an actuator may have several controls and outputs, or none; ``nu`` is the number of controls.
    """

    first_control: NDArray[np.integer[Any]]  # (actuators,) index of the first control of each actuator
    control_count: NDArray[np.integer[Any]]  # (actuators,) number of controls of each actuator
    # (actuators,) index of the first output of each actuator; each output has a gear
    first_output: NDArray[np.integer[Any]]

    @classmethod
    def of_model(cls, model: Any) -> ActuatorIndices:
        """Returns the indices of a `mujoco.MjModel`."""
        n = len(model.actuator_trntype)
        return cls(
            getattr(model, "actuator_ctrladr", np.arange(n)),
            getattr(model, "actuator_ctrlnum", np.ones(n, dtype=int)),
            getattr(model, "actuator_outadr", np.arange(n)),
        )


def has_mujoco() -> bool:
    """Returns whether MuJoCo is installed.

    ``pip uninstall mujoco`` leaves the files of mujoco-core, which Python imports as a namespace package.
    """
    spec = importlib.util.find_spec("mujoco")
    return spec is not None and spec.origin is not None


def import_mujoco() -> Any:
    """Imports and returns the module mujoco.

    Raises:
        QuaddynError: MuJoCo is not installed.
    """
    if not has_mujoco():
        raise QuaddynError("MuJoCo is not installed; install it with: pip install 'quaddyn[mujoco]'")
    return importlib.import_module("mujoco")


def is_mjcf(data: bytes | str) -> bool:
    """Returns whether the root element of a document is ``<mujoco>``."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    return _MJCF_START.match(raw) is not None


@dataclass(frozen=True, slots=True)
class MeshFile:
    """Mesh file of an MJCF."""

    uri: str  # file name as written in the MJCF, in the mesh folder
    path: Path | None  # path of the file; None if it is not found
    scale: tuple[float, float, float]  # scale along x, y and z, dimensionless
    problem: str  # reason why the file is not found, for messages
    # pose in the file that becomes the origin of the mesh: position [m] and quaternion (w, x, y, z)
    origin: tuple[tuple[float, ...], tuple[float, ...]]


def compile_mjcf(data: bytes | str, name: str, finder: MeshFinder) -> tuple[Any, dict[str, MeshFile]]:
    """Compiles an MJCF.

    Args:
        data: text of the MJCF.
        name: name of the MJCF, for messages.
        finder: finds included files and meshes.  No other file is opened: images are left out, and meshes are read
            only if MuJoCo computes an inertia or the size of a shape from them.

    Returns:
        The ``mujoco.MjModel``, and the mesh files by mesh name.

    Raises:
        ModelError: MuJoCo is not installed or rejects the document, or a required file is not found.
    """
    if not has_mujoco():
        raise ModelError(
            f"{name}: MuJoCo, which reads MJCF files, is not installed; install it with pip install "
            "'quaddyn[mujoco]', or load a URDF of the robot"
        )
    mujoco = import_mujoco()
    root = read_xml(data, name)
    writer = _MjcfTextWriter(finder, name)
    text = writer.text(root)
    try:
        with _without_warnings(mujoco):
            spec = mujoco.MjSpec.from_string(text, include=writer.attached)
            meshes = _replace_files(mujoco, spec, name, finder)
            model = spec.compile()
    except ModelError:
        raise
    except Exception as error:  # ValueError of the parser and compiler, or an error of another type from a damaged file
        raise ModelError(f"{name}: MuJoCo rejects the file: {shorten(' '.join(str(error).split()))}") from None
    return model, meshes


@contextmanager
def _without_warnings(mujoco: Any) -> Iterator[None]:
    """Context in which MuJoCo does not write its warnings to a log file in the working folder."""
    with _COMPILE_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = mujoco.get_mju_user_warning() if hasattr(mujoco, "get_mju_user_warning") else None
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(before)


class _MjcfTextWriter:
    """Writer of an MJCF with its included files as one text; elements of the main file keep their line numbers.

    Attributes:
        finder: finder of the files.
        file: name of the main file.
        line: number of the line being written.
        opened: paths of all files opened so far.
        attached: texts of the documents attached by ``<model file=...>``, by the names that replace their files.
    """

    def __init__(self, finder: MeshFinder, file: str) -> None:
        self.finder, self.file, self.line = finder, file, 1
        self.opened: list[Path] = []
        self.attached: dict[str, bytes] = {}

    def text(self, root: XmlElement) -> str:
        """Returns the text of a document."""
        parts: list[str] = []
        self._write(root, parts)
        return "".join(parts)

    def _write(self, element: XmlElement, parts: list[str]) -> None:
        """Appends the text of an element to `parts`; an ``<include>`` is replaced by the elements of its file."""
        if element.tag == "include":
            for child in self._open_document(element)[0]:
                self._write(child, parts)
            return
        if element.file == self.file and self.line < element.line:
            parts.append("\n" * (element.line - self.line))
            self.line = element.line
        attributes = dict(element.attrib)
        if element.tag == "model" and "file" in attributes:
            attributes["file"] = self._attach(element)
        from xml.sax.saxutils import quoteattr  # imports urllib and ssl

        attribute_text = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
        parts.append(f"<{element.tag}{attribute_text}>")
        for child in element:
            self._write(child, parts)
        parts.append(f"</{element.tag}>")

    def _open_document(self, element: XmlElement) -> tuple[XmlElement, Path]:
        """Opens the file of an element; returns its root element and path."""
        uri = element.attrib.get("file", "")
        path, _, problem = self.finder.find(uri)
        if path is None:
            raise ModelError(f"{element.where}: file={uri!r}: {problem}; {self.finder.advice(uri)}")
        if element.tag == "include" and path in self.opened:
            raise ModelError(f"{element.where}: file={uri!r} is included a second time; include it once")
        if len(self.opened) >= MAX_FILES:
            raise ModelError(
                f"{element.where}: file={uri!r}: more than {MAX_FILES} files are included or attached; check whether "
                "a file includes itself"
            )
        self.opened.append(path)
        try:
            return read_xml(
                read_regular_file(path, MAX_BYTES), path.name if path.name != self.file else str(path)
            ), path
        except OSError as error:
            raise ModelError(f"{element.where}: file={uri!r}: the file cannot be read: {error.strerror}") from None

    def _attach(self, element: XmlElement) -> str:
        """Adds a document to `attached` and returns its name; relative paths in it are resolved from its own folder."""
        root, path = self._open_document(element)
        folder = str(path.parent)
        for compiler in root.children_with_tag("compiler"):
            for key in ("meshdir", "assetdir"):
                if key in compiler.attrib:
                    compiler.attrib[key] = f"{folder}/{compiler.attrib[key]}"
        root.children.insert(0, XmlElement("compiler", {"meshdir": folder}, root.line, root, root.file))
        finder = MeshFinder(path.parent, self.finder.roots, confined=self.finder.confined)
        finder.outside = self.finder.outside
        inner = _MjcfTextWriter(finder, str(path))
        inner.opened, inner.attached = [*self.opened], self.attached
        text = inner.text(root)
        name = f"attached_{len(self.attached)}.xml"
        self.attached[name] = text.encode()
        return name


def _replace_files(mujoco: Any, spec: Any, name: str, finder: MeshFinder) -> dict[str, MeshFile]:
    """Replaces the files of `spec`: required meshes by their paths, other meshes by a tetrahedron, images by nothing.

    Returns:
        The mesh files by mesh name.
    """
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
    required = _required_meshes(mujoco, spec)
    out: dict[str, MeshFile] = {}
    for mesh in spec.meshes:
        if not mesh.file:
            continue
        if not mesh.name:  # before MuJoCo 4 it is set by the compilation, from the file
            mesh.name = PurePosixPath(mesh.file.replace("\\", "/")).stem
        compiler = mesh.compiler
        uri = PurePosixPath(mesh.file.replace("\\", "/")).name if spec.strippath else mesh.file
        if compiler.meshdir and not uri.startswith("/"):
            uri = f"{compiler.meshdir.rstrip('/')}/{uri}"
        path, _, problem = finder.find(uri)
        origin = tuple(map(float, mesh.refpos)), tuple(map(float, mesh.refquat))
        x, y, z = map(float, mesh.scale)
        out[mesh.name] = MeshFile(uri, path, (x, y, z), problem, origin)
        if mesh.name in required:
            if path is None:
                raise ModelError(
                    f'{name}: <mesh name="{mesh.name}">: file={uri!r}: {problem}, and MuJoCo computes '
                    f"{required[mesh.name]} from it; {finder.advice(uri)}, or give the body an <inertial>"
                )
            mesh.file = str(path)
        else:
            mesh.file, mesh.content_type = "", ""
            mesh.refpos, mesh.refquat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
            mesh.uservert, mesh.userface = TETRAHEDRON_VERTICES, TETRAHEDRON_FACES
    return out


def _required_meshes(mujoco: Any, spec: Any) -> dict[str, str]:
    """Returns the meshes from which MuJoCo computes an inertia or a size: mesh name -> description of that quantity."""
    out: dict[str, str] = {}
    for body in spec.bodies[1:]:
        rule = int(body.compiler.inertiafromgeom)
        low, high = (int(group) for group in body.compiler.inertiagrouprange)
        has_mesh_inertia = rule == INERTIA_FROM_GEOM_ALWAYS or (
            rule == INERTIA_FROM_GEOM_IF_MISSING and not body.explicitinertial
        )
        for geom in body.geoms:
            if not geom.meshname:
                continue
            if geom.type != mujoco.mjtGeom.mjGEOM_MESH and geom.type != mujoco.mjtGeom.mjGEOM_SDF:
                out[geom.meshname] = f"the size of a shape of body {body.name!r}"
            elif has_mesh_inertia and low <= int(geom.group) <= high and geom.mass != 0.0 and geom.density != 0.0:
                out[geom.meshname] = f"the inertia of body {body.name!r}"
    return out
