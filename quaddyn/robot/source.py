"""Reads the source given to `load` (a catalogue name, a path or text of URDF or MJCF) into one document.

Xacro files and robot_descriptions are converted to URDF by other packages, where these are installed.  The argument
`base` of `load`, a rotation of the base frame, is applied to the document.  The module also writes the URDF of a
``pin.Model`` that was built elsewhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError, ModelError, UnknownNameError, UnreadableFileError
from ..safe_files import read_regular_file
from ..urdf.meshes import MeshFinder
from ..urdf.mjcf import is_mjcf
from ..urdf.spherical import has_spherical_joints, replace_spherical_joints
from ..urdf.srdf import NamedPose
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, Finding, Tree
from ..urdf.xml import MAX_BYTES, shorten
from .catalogue import CATALOGUE, find_entry
from .root import is_held_by_world

#: Frames that are links of the document, and the kind of joint that holds one.
BODY_FRAME, FIXED_JOINT_FRAME = pin.FrameType.BODY, pin.FrameType.FIXED_JOINT


def write_urdf(model: pin.Model) -> tuple[str, str]:
    """Returns the URDF of a model, and its root: "free" or "fixed".

    Every joint of the model becomes one of the document, with its limits, damping, friction and rotor inertia, and
    every frame of type BODY becomes a link.  The mass properties of a joint are those of the first link on it.

    Args:
        model: joints with one degree of freedom, on a free flyer or a fixed base.

    Raises:
        ModelError: a joint of another kind.
    """
    floats = model.njoints > 1 and model.joints[1].shortname() == "JointModelFreeFlyer"
    robot = Element("robot", name=model.name or "robot")
    links = _body_frames_by_joint(model)
    names = {frame.name for frame in model.frames if frame.type == BODY_FRAME}
    carriers = {}
    for j in range(model.njoints):
        if j == 0 and floats:
            continue
        at_joint_frame = [i for i in links.get(j, []) if model.frames[i].placement.isIdentity(1e-15)]
        carriers[j] = (
            model.frames[at_joint_frame[0]].name if at_joint_frame else _unique_name(f"{model.names[j]}_link", names)
        )
        link = SubElement(robot, "link", name=carriers[j])
        if model.inertias[j].mass > 0.0:
            _inertial_element(link, model.inertias[j])
        for i in links.get(j, []):
            frame = model.frames[i]
            if frame.name != carriers[j]:
                SubElement(robot, "link", name=frame.name)
                _joint_element(
                    robot, _fixed_joint_name(model, i, names), "fixed", carriers[j], frame.name, frame.placement
                )
    for j in range(2 if floats else 1, model.njoints):
        _moving_joint_element(robot, model, j, carriers[model.parents[j]], carriers[j])
    return ElementTree.tostring(robot, encoding="unicode"), "free" if floats else "fixed"


def check_joint_order(given: pin.Model, made: pin.Model, file: str) -> None:
    """Rejects a model whose joint order differs from that of the robot built from it, because q would differ.

    Args:
        given: the model from which the document was written.
        made: the model of the robot.
        file: name of the document, for messages.

    Raises:
        ModelError: the orders differ.
    """
    first = 2 if given.njoints > 1 and given.joints[1].shortname() == "JointModelFreeFlyer" else 1
    for ours, theirs in zip(list(made.names)[first:], list(given.names)[first:], strict=False):
        if ours != theirs:
            raise ModelError(
                f"{file}: the joints are not in the order in which Pinocchio imports a URDF (expected {ours!r}, got "
                f"{theirs!r}); build the model so that the children of each joint are added in the order of their "
                "names"
            )


def _body_frames_by_joint(model: pin.Model) -> dict[int, list[int]]:
    """Returns the frames of type BODY on each joint, in their order."""
    found: dict[int, list[int]] = {}
    for i, frame in enumerate(model.frames):
        if frame.type == BODY_FRAME:
            found.setdefault(frame.parentJoint, []).append(i)
    return found


def _unique_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _fixed_joint_name(model: pin.Model, link: int, names: set[str]) -> str:
    """Returns the name of the fixed joint that holds a link."""
    parent = model.frames[model.frames[link].parentFrame]
    return parent.name if parent.type == FIXED_JOINT_FRAME else _unique_name(f"{model.frames[link].name}_fixed", names)


def _joint_element(robot: Element, name: str, kind: str, parent: str, child: str, placement: pin.SE3) -> Element:
    joint = SubElement(robot, "joint", name=name, type=kind)
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    SubElement(
        joint,
        "origin",
        xyz=_format_numbers(placement.translation),
        rpy=_format_numbers(pin.rpy.matrixToRpy(placement.rotation)),
    )
    return joint


def _moving_joint_element(robot: Element, model: pin.Model, j: int, parent: str, child: str) -> None:
    """Writes the j-th joint of the model."""
    joint, name = model.joints[j], model.names[j]
    motion = _joint_axis(model, j)
    if motion is None:
        raise ModelError(
            f"joint {name!r} of the pinocchio.Model: a {joint.shortname()} is not supported; expected revolute and "
            "prismatic joints, after a free flyer or a fixed base"
        )
    kind, axis = motion
    q, v = joint.idx_q, joint.idx_v
    lower, upper = float(model.lowerPositionLimit[q]), float(model.upperPositionLimit[q])
    endless = joint.nq == 2 or not (np.isfinite(lower) and np.isfinite(upper))
    if kind == "revolute" and joint.nq == 2:
        kind = "continuous"
    element = _joint_element(robot, name, kind, parent, child, model.jointPlacements[j])
    SubElement(element, "axis", xyz=_format_numbers(axis))
    limits = {} if endless else {"lower": lower, "upper": upper}
    limits |= {"effort": float(model.upperEffortLimit[v]), "velocity": float(model.upperVelocityLimit[v])}
    SubElement(element, "limit", {what: repr(value) for what, value in limits.items() if np.isfinite(value)})
    losses = {"damping": model.damping[v], "friction": model.upperDryFrictionLimit[v], "armature": model.armature[v]}
    SubElement(element, "dynamics", {what: repr(float(value)) for what, value in losses.items() if value})


def _joint_axis(model: pin.Model, j: int) -> tuple[str, Array] | None:
    """Returns whether a joint is revolute or prismatic, and its axis; None for other joints."""
    joint = model.joints[j]
    if joint.nv != 1 or "Mimic" in joint.shortname() or "Helical" in joint.shortname():
        return None
    data = joint.createData()
    joint.calc(data, pin.neutral(model), np.zeros(model.nv))
    along, about = np.split(np.asarray(data.S).ravel(), 2)
    if not (about.any() or along.any()) or (about.any() and along.any()):
        return None
    axis = about if about.any() else along
    clean = np.where(np.abs(axis) < FILE_ANGLE_TOLERANCE, 0.0, axis)
    return "revolute" if about.any() else "prismatic", clean


def _inertial_element(link: Element, inertia: pin.Inertia) -> None:
    element = SubElement(link, "inertial")
    SubElement(element, "origin", xyz=_format_numbers(inertia.lever), rpy="0 0 0")
    SubElement(element, "mass", value=repr(float(inertia.mass)))
    entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    SubElement(element, "inertia", {name: repr(float(inertia.inertia[at])) for name, at in entries.items()})


def _format_numbers(values: Array) -> str:
    return " ".join(repr(float(x) + 0.0) for x in values)


#: A macro's expression in an attribute, or a macro itself.
UNEXPANDED = re.compile(rb"=\s*(\"[^\"<]*\$[{(]|'[^'<]*\$[{(])|<xacro:(macro|include|property|arg|if|unless)\b")

#: What xacro asks for the folder of a package; a part of ROS.
ROS_INDEX = "ament_index_python"
#: How xacro names an argument that has neither a default nor a value.
NO_ARGUMENT = re.compile(r"[Uu]ndefined substitution argument:?\s+'?([\w./-]+)")

#: A comment, or the rest after one that does not end.
COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)


#: Beginning of a document up to its root element <robot>, and the default namespace of this element.
_DEFAULT_NAMESPACE = re.compile(
    rb"""\A((?:\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->)*+<robot(?>\s+(?!xmlns\s*=)[^\s=<>]+\s*=\s*(?:"[^"]*"|'[^']*'))*+)"""
    rb"""\s+xmlns\s*=\s*(?:"[^"<]*"|'[^'<]*')""",
    re.DOTALL,
)


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
        ModelError: the package xacro is not installed, or rejects the file; a package is not found; or the result has
            no link.
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
    if "<link" not in text:
        raise ModelError(
            f"{name}: the expanded file has no <link>; if it only defines macros, load the file that includes it"
        )
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


#: White space before an XML declaration, which must be at the beginning of the file.
_SPACE_BEFORE_DECLARATION = re.compile(rb"\A(\s+)(<\?xml[^>]*\?>)")


@dataclass(frozen=True, slots=True)
class Document:
    """URDF document.

    Attributes:
        data: the document itself.
        name: name for messages.
        folder: folder of the file; None for text.
        packages: package roots.
        root: root that the catalogue prescribes; None if it is detected.
        path: path of a file that may be xacro.
        findings: findings of the conversion from MJCF.
        poses: keyframes of an MJCF by name.
        outside: files outside the package roots that were opened, by the names that the document gives them.
        converted: whether `data` has links without mass that `load` has added between the hinges of ball joints, or was
            converted from MJCF.
    """

    data: bytes | str
    name: str
    folder: Path | None
    packages: tuple[Path, ...]
    root: str | None = None
    path: Path | None = None
    findings: tuple[Finding, ...] = ()
    poses: Mapping[str, NamedPose] = field(default_factory=dict)
    outside: Mapping[str, Path] = field(default_factory=dict)
    converted: bool = False


def read_source(
    source: str | os.PathLike[str] | pin.Model,
    packages: Iterable[str | os.PathLike[str]],
    arguments: Mapping[str, str | float] | None = None,
    body: str | None = None,
    *,
    confined: bool = True,
) -> Document:
    """Reads `source` into a URDF document.

    Args:
        source: a catalogue name, a path, text of URDF or MJCF, or a ``pin.Model``.
        packages: package roots.
        arguments: values of the arguments of a xacro file.
        body: name of the body of an MJCF that is the robot; None to choose it.
        confined: whether files are opened in the package roots only, see `MeshFinder`.

    Raises:
        ModelError: nothing is named; the file is missing, not a regular file, too large or unreadable.
        UnknownNameError: neither a catalogue name nor a file name.
        ArgumentError: a package root that is not a folder, a source of the wrong type, or arguments or a body that are
            invalid or given for a file of another format.
    """
    document = _read_document(source, packages)
    values = _xacro_arguments(arguments)
    if is_mjcf(document.data) and not values:
        from ..urdf.mjcf_document import urdf_of_mjcf

        finder = MeshFinder(document.folder, document.packages, confined=confined)
        found = urdf_of_mjcf(document.data, document.name, finder, body)
        name = f"{document.name} as URDF"  # the lines in messages are those of what `quaddyn convert` writes
        return replace(
            document,
            data=found.text,
            name=name,
            findings=found.findings,
            poses=found.poses,
            outside=finder.outside,
            converted=True,
        )
    if body is not None:
        raise ArgumentError(f"body={body!r}: {document.name} is not an MJCF, whose robot it selects; remove body=")
    if is_xacro(document.data, document.name if document.path else ""):
        finder = MeshFinder(document.folder, document.packages)
        data, folders = expand_xacro(document.path, document.name, finder, values)
        document = replace(document, data=data, packages=tuple(dict.fromkeys((*document.packages, *folders))))
    elif values:
        raise ArgumentError(f"arguments: {document.name} is not a xacro file and has no arguments; remove arguments=")
    document = replace(document, data=_remove_default_namespace(document.data))
    if has_spherical_joints(document.data):
        text, findings = replace_spherical_joints(document.data, document.name)
        return replace(document, data=text, findings=findings, converted=True)
    return document


def _remove_default_namespace(data: bytes | str) -> bytes | str:
    """Returns a URDF without the default namespace of its root element, which some tools write and none needs."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    raw = _DEFAULT_NAMESPACE.sub(lambda match: match[1], raw, count=1)
    return raw.decode(errors="surrogatepass") if isinstance(data, str) else raw


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
    """Returns the bytes of a file, without NUL characters at its end and white space before its XML declaration."""
    try:
        data = read_regular_file(path, MAX_BYTES)
    except OSError as error:
        raise UnreadableFileError(f"{path}: the file cannot be read: {error.strerror}") from None
    text = data.rstrip(b"\0")
    if b"\0" in text:  # UTF-16
        return data
    return _SPACE_BEFORE_DECLARATION.sub(rb"\2\1", text)  # the lines of elements stay the same


def insert_element(source: str | bytes, tag: str) -> str | bytes:
    """Returns the document with one or several elements added at its end."""
    if isinstance(source, bytes):
        end = source.rfind(b"</robot")
        return source[:end] + tag.encode() + b"\n" + source[end:]
    end = source.rfind("</robot")
    return f"{source[:end]}{tag}\n{source[end:]}"


#: Names of the link that is the base frame then, and of the fixed joint from it to the file's own root link.
BASE_LINK, BASE_JOINT = "turned_base", "turned_base_joint"
#: Largest deviation of the product of a rotation matrix with its transpose from the identity.
ORTHOGONALITY_TOLERANCE = 1e-5


def base_rotation_matrix(base: ArrayLike | Sequence[float]) -> Array:
    """Returns the rotation (3, 3) from the base frame of the file to the rotated one.

    Args:
        base: (3, 3) rotation matrix, or (3,) roll, pitch and yaw as in URDF [rad].

    Raises:
        ArgumentError: not a rotation.
        ArgumentTypeError: not numbers.
    """
    try:
        given = np.array(base, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"base: expected numbers, got {type(base).__name__}") from None
    if given.shape not in ((3,), (3, 3)) or not np.isfinite(given).all():
        raise ArgumentError(
            f"base: expected a (3, 3) rotation matrix or (3,) roll, pitch, yaw [rad], finite, got shape {given.shape}"
        )
    if given.shape == (3,):
        return np.asarray(pin.rpy.rpyToMatrix(*given.tolist()))
    if np.abs(given @ given.T - np.eye(3)).max() > ORTHOGONALITY_TOLERANCE or np.linalg.det(given) < 0.0:
        raise ArgumentError(f"base: expected a rotation matrix (orthonormal rows, determinant 1), got {given.tolist()}")
    return given


def rotate_document(source: str | bytes, tree: Tree, rotation: Array) -> str | bytes:
    """Returns the document of `tree` with a new massless root link, rotated against the old one and fixed to it.

    If a joint of the file attaches the robot to the world, that joint carries the new link.  Everything else in the
    document keeps its line number.

    Raises:
        ModelError: the file has a link or a joint of this name, or the joint above the robot is not found in the text.
    """
    if BASE_LINK in tree.links_by_name or BASE_JOINT in tree.joints_by_name:
        raise ModelError(
            f"{tree.file}: base= adds a link {BASE_LINK!r} and a joint {BASE_JOINT!r}, but the file already has one "
            "of this name; rename it, or rotate the base frame in the file and omit base="
        )
    carried = tree.root.name
    if is_held_by_world(tree):
        carried = tree.joints[0].child
        source = _attach_base_link(source, carried, tree.file)
    rpy = " ".join(repr(float(x) + 0.0) for x in pin.rpy.matrixToRpy(rotation))
    link = f'<link name="{BASE_LINK}"/>'
    joint = f'<joint name="{BASE_JOINT}" type="fixed"><origin xyz="0 0 0" rpy="{rpy}"/>'
    from xml.sax.saxutils import quoteattr  # imports urllib and ssl

    ends = f'<parent link="{BASE_LINK}"/><child link={quoteattr(carried)}/></joint>'
    return insert_element(source, link + joint + ends)


def _attach_base_link(source: str | bytes, link: str, file: str) -> str | bytes:
    """Returns the document in which the joint that carries `link` carries the new base link instead."""
    from xml.sax.saxutils import escape  # imports urllib and ssl

    pattern = rf"""(<child\s+link\s*=\s*)(["']){re.escape(escape(link))}\2"""
    replacement = rf"\g<1>\g<2>{BASE_LINK}\g<2>"
    if isinstance(source, str):
        out, count = re.subn(pattern, replacement, source)
        found: str | bytes = out
    else:
        found, count = re.subn(pattern.encode(), replacement.encode(), source)
    if not count:
        raise ModelError(
            f"{file}: base: the file has no <child link=...> element for link {link!r}, so its joint cannot be "
            "rotated; omit base= and rotate the <origin> of this joint in the file"
        )
    return found
