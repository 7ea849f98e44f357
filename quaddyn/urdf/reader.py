"""URDF text -> `Tree`: strict where Pinocchio is silent, tolerant (with a finding) where real files are odd.

Specification: http://wiki.ros.org/urdf/XML.  What this reader adds to it: numbers must be plain decimal and
bounded, every element is read or reported, and the links must form one tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from ..errors import ModelError
from .loops import read_loops
from .meshes import MeshFinder
from .transmissions import read_transmissions
from .tree import (
    JOINT_TYPES,
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Finding,
    Geometry,
    Inertial,
    Joint,
    Limits,
    Link,
    MeshShape,
    Mimic,
    Pose,
    Shape,
    SphereShape,
    Tree,
    frozen,
)
from .values import ROUNDING_PER_MASS, ROUNDING_TOLERANCE, ElementReader
from .xml import XmlElement, read_xml, shorten

MAX_LINKS = 2000
MAX_DEPTH = 128
#: <visual> and <collision> elements at most.
MAX_SHAPES = 20_000
#: Magnitudes beyond which a limit means "none" (files write 1e9, 1e16 or 1.8e308 for it).
NO_LIMIT = 1e6
#: Velocity and effort limit that exporters write for "none".
EXPORTED_NO_LIMIT = -1.0
#: Magnitude of a roll, pitch or yaw angle beyond which it is in degrees [rad]: a full turn, and some rounding.
MAX_ANGLE = 6.4

#: Red, green, blue and opacity.
Color = tuple[float, float, float, float]
DEFAULT_COLOR: Color = (0.5, 0.5, 0.5, 1.0)

T = TypeVar("T", Link, Joint)


def parse(data: bytes | str, *, file: str = "<text>", meshes: MeshFinder | None = None) -> Tree:
    """Read a URDF.

    Args:
        data: the document.
        file: its name, for messages and provenance.
        meshes: resolves mesh URIs; without one every mesh stays unresolved.

    Returns:
        The `Tree`, its findings included.

    Raises:
        ModelError: the file is not one finite tree; the message names file, line, element and value.
    """
    root = read_xml(data, file)
    if root.tag != "robot":
        raise ModelError(f"{root.where}: the root element must be <robot>, not <{root.tag}>; is this a URDF?")
    return _UrdfReader(file, meshes or MeshFinder(None, ())).read_tree(root)


class _UrdfReader(ElementReader):
    """Reads one document."""

    def __init__(self, file: str, meshes: MeshFinder) -> None:
        super().__init__()
        self.file, self.meshes = file, meshes
        #: Elements and URIs of meshes that were not found, by folder, reason and whether they only affect drawings.
        self.missing_meshes: dict[tuple[str, str, bool], list[tuple[XmlElement, str]]] = {}
        self._has_angle_warning = False

    # -- elements --------------------------------------------------------------------------------------------
    def read_origin(self, element: XmlElement) -> Pose:
        """Returns the placement of an element; the identity without an <origin>."""
        origin = self.find_unique(element, "origin")
        if origin is None:
            return Pose.identity()
        xyz = self.read_vector(origin, "xyz", 3, default=(0.0, 0.0, 0.0))
        rpy = self.read_vector(origin, "rpy", 3, default=(0.0, 0.0, 0.0), bound=1e4)
        if max(map(abs, rpy)) > MAX_ANGLE and not self._has_angle_warning:
            self._has_angle_warning = True  # one warning for the file
            self.warn(
                origin,
                f"rpy={origin.attrib.get('rpy')!r}: more than a full turn, which seems to be in degrees; other origins "
                "of the file may be, too",
                "give angles in radians",
            )
        if not any(rpy) and not any(xyz):
            return Pose.identity()
        return Pose.of(rotation_from_rpy(*rpy), xyz)

    def read_inertial(self, link: XmlElement) -> Inertial | None:
        """Returns the mass properties of a link; None without an <inertial>."""
        element = self.find_unique(link, "inertial")
        if element is None:
            return None
        placement = self.read_origin(element)
        mass_element = self.find_required(element, "mass")
        mass = self.check_nonnegative(
            mass_element, "value", self.read_number(mass_element, "value"), "a mass must not be negative"
        )
        tensor = self.find_required(element, "inertia")
        ixx, ixy, ixz, iyy, iyz, izz = (self.read_number(tensor, k) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
        about_com = np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
        rotated = placement.rotation @ about_com @ placement.rotation.T
        self.check_inertia(element, mass, about_com)
        return Inertial(mass, placement.translation, frozen(0.5 * (rotated + rotated.T)))

    def check_inertia(self, element: XmlElement, mass: float, inertia: Array) -> None:
        """Reports implausible inertias of a single link; only composite bodies are rejected, by `robot.validation`."""
        moments = np.linalg.eigvalsh(inertia)
        scale = max(abs(moments[0]), abs(moments[2]))
        values = ", ".join(f"{m:.4g}" for m in moments)
        if mass == 0.0:
            self.warn(
                element,
                f"the mass is 0 (principal moments {values})",
                "remove <inertial>, which a dummy link does not need",
            )
        elif scale <= ROUNDING_PER_MASS * mass:
            self.warn(element, f"all moments of inertia are 0; the link is a point mass of {mass:g} kg")
        rounding = ROUNDING_PER_MASS * mass
        if moments[0] < -1e-9 * scale - rounding:
            self.warn(element, f"the inertia is not positive semi-definite (principal moments {values})")
        elif moments[0] + moments[1] < moments[2] * (1.0 - 1e-9) - rounding:
            self.warn(element, f"the inertia violates the triangle inequality (principal moments {values})")

    def read_link(self, element: XmlElement, materials: dict[str, Color]) -> Link:
        """Reads a <link>; materials: colors of the file by name."""
        self.report_unknown(element)
        name = self.read_name(element)
        inertial = self.read_inertial(element)
        visuals: list[Geometry | None] = []
        for visual in element.children_with_tag("visual"):
            with self.read_as_cosmetic("this visual is ignored"):
                visuals.append(self.read_geometry(visual, materials))
        collisions = [self.read_geometry(c, materials) for c in element.children_with_tag("collision")]
        return Link(name, inertial, _without_none(visuals), _without_none(collisions), element.where)

    def read_geometry(self, element: XmlElement, materials: dict[str, Color]) -> Geometry | None:
        """Reads a <visual> or <collision>; returns None for one without a shape or with a shape of size 0."""
        self.report_unknown(element)
        placement = self.read_origin(element)
        holder = self.find_unique(element, "geometry")
        if holder is None or not holder.children:
            self.warn(element, f"<{element.tag}> has no shape and is ignored", "add a shape or remove it")
            return None
        readers: dict[str, Callable[[XmlElement], Shape]] = {
            "box": self._read_box,
            "cylinder": self._read_cylinder,
            "capsule": self._read_capsule,
            "sphere": self._read_sphere,
            "mesh": self._read_mesh,
        }
        shapes = [c for c in holder if c.tag in readers]
        for other in shapes[1:]:
            if not shapes[0].equals(other):
                raise self.make_error(
                    other,
                    f"<geometry> of <{element.tag}> has a second shape",
                    "use one shape per <visual> or <collision>",
                )
            self.warn(other, f"<{other.tag}> is repeated identically; the first one is used", "remove the second one")
        if not shapes:
            advice = "use box, cylinder, sphere, capsule or mesh"
            raise self.make_error(holder, f"<geometry> of <{element.tag}> has no supported shape", advice)
        self.report_unknown(shapes[0])
        shape = readers[shapes[0].tag](shapes[0])
        if isinstance(shape, CapsuleShape) and shape.length == 0.0 and shape.radius > 0.0:
            shape = SphereShape(shape.radius)
        if 0.0 in _shape_sizes(shape):
            where = shapes[0]
            size = " ".join(f"{name}={value!r}" for name, value in where.attrib.items() if name != "filename")
            if element.tag == "collision" and isinstance(shape, SphereShape):
                self.warn(
                    where,
                    f"{size}: the sphere of radius 0 is treated as a point",
                    "give a positive radius for a sphere",
                )
            else:
                self.warn(
                    where, f"{size}: a {where.tag} of size 0 is ignored", "correct the size or remove the element"
                )
                return None
        return Geometry(shape, placement, self.read_color(element, materials), element.where)

    def read_size(self, element: XmlElement, attribute: str) -> float:
        """Returns a length of a shape [m], which must not be negative."""
        value = self.read_number(element, attribute, bound=1e3)
        if value < 0.0:
            raise self.make_error(element, f"{attribute}={value:g}: a size must not be negative", "correct it")
        return value

    def _read_box(self, element: XmlElement) -> BoxShape:
        """Reads a <box>."""
        x, y, z = self.read_vector(element, "size", 3)
        if min(x, y, z) < 0.0:
            raise self.make_error(element, f"size={element.attrib['size']!r}: sizes must not be negative", "correct it")
        return BoxShape((x, y, z))

    def _read_sphere(self, element: XmlElement) -> SphereShape:
        """Reads a <sphere>."""
        return SphereShape(self.read_size(element, "radius"))

    def _read_cylinder(self, element: XmlElement) -> CylinderShape:
        """Reads a <cylinder>."""
        return CylinderShape(self.read_size(element, "radius"), self.read_size(element, "length"))

    def _read_capsule(self, element: XmlElement) -> CapsuleShape:
        """Reads a <capsule>."""
        return CapsuleShape(self.read_size(element, "radius"), self.read_size(element, "length"))

    def _read_mesh(self, element: XmlElement) -> MeshShape:
        """Reads a <mesh>; a file that is not found is noted in `missing`."""
        uri = self.read_text(element, "filename")
        if not uri.strip():
            raise self.make_error(element, "filename is empty", "name a mesh file or remove the element")
        scale = element.attrib.get("scale", "1 1 1")
        if len(scale.split()) == 1 and "," not in scale:
            self.warn(
                element, f"scale={scale!r} has one number, which is used for all three axes", "give three numbers"
            )
            x = y = z = self.read_number(element, "scale")
        else:
            x, y, z = self.read_vector(element, "scale", 3, default=(1.0, 1.0, 1.0), bound=1e6)
        path, root, problem = self.meshes.find(uri)
        if problem:
            self.missing_meshes.setdefault((uri.rpartition("/")[0], problem, self.cosmetic), []).append((element, uri))
        return MeshShape(uri, path, (x, y, z), root)

    def read_color(self, element: XmlElement, materials: dict[str, Color]) -> Color | None:
        """Returns the color of a <visual>; None without a known material, and for a <collision>."""
        found = element.children_with_tag("material")
        if not found or element.tag == "collision":
            return None
        colors = found[0].children_with_tag("color")
        if colors:
            return self.read_rgba(colors[0])
        return materials.get(found[0].attrib.get("name", ""))

    def read_rgba(self, element: XmlElement) -> Color:
        """Returns the color of a <color>; gray if it cannot be read."""
        color = DEFAULT_COLOR
        with self.read_as_cosmetic("the color is gray"):
            color = self._read_rgba(element)
        return color

    def _read_rgba(self, element: XmlElement) -> Color:
        """Returns the attribute rgba; three numbers or commas are accepted with a warning."""
        text = element.attrib.get("rgba")
        if text is None:
            return DEFAULT_COLOR
        words = text.replace(",", " ").split()
        if len(words) in (3, 4) and (len(words) == 3 or "," in text):
            words = [*words, "1"][:4]
            reason = f"rgba={text!r}: expected 4 numbers separated by blanks; the value is read as {' '.join(words)}"
            self.warn(element, reason, "write 4 numbers separated by blanks")
            element = XmlElement(element.tag, {"rgba": " ".join(words)}, element.line, element.parent, element.file)
        r, g, b, a = self.read_vector(element, "rgba", 4, bound=255.0)
        return (r, g, b, a)

    def read_joint(self, element: XmlElement) -> Joint:
        """Reads a <joint>."""
        self.report_unknown(element)
        name = self.read_name(element)
        kind = self.read_text(element, "type")
        if kind not in JOINT_TYPES:
            advice = f"use one of {', '.join(JOINT_TYPES)}"
            raise self.make_error(element, f"type={kind!r} is not a URDF joint type", advice)
        parent = self.read_text(self.find_required(element, "parent"), "link")
        child = self.read_text(self.find_required(element, "child"), "link")
        placement = self.read_origin(element)
        moving = kind not in ("fixed", "floating")
        axis = self.read_axis(element) if moving else frozen((1.0, 0.0, 0.0))
        limits = self.read_limits(element, kind) if kind != "fixed" else Limits()
        damping = friction = armature = 0.0
        dynamics = self.find_unique(element, "dynamics")
        if dynamics is not None and kind in ("floating", "planar"):
            self.warn(
                dynamics, f"damping and friction of a {kind} joint are not supported and are ignored", "remove them"
            )
        elif dynamics is not None and kind != "fixed":
            damping, friction, armature = (
                self.read_coefficient(dynamics, k) for k in ("damping", "friction", "armature")
            )
        mimic = self.read_mimic(element) if kind != "fixed" else None
        where = element.where
        return Joint(name, kind, parent, child, placement, axis, limits, damping, friction, armature, mimic, where)

    def read_coefficient(self, element: XmlElement, attribute: str) -> float:
        """Returns a damping, friction or armature, which must not be negative; 0 if it is missing."""
        value = self.read_number(element, attribute, default=0.0)
        return self.check_nonnegative(
            element, attribute, value, "the value must not be negative, which would create energy"
        )

    def read_axis(self, joint: XmlElement) -> Array:
        """Returns the unit vector of a joint's axis; x without an <axis>."""
        element = self.find_unique(joint, "axis")
        if element is None:
            return frozen((1.0, 0.0, 0.0))  # the specification's default
        xyz = np.array(self.read_vector(element, "xyz", 3, default=(1.0, 0.0, 0.0), bound=1e3))
        norm = float(np.linalg.norm(xyz))
        if norm < 1e-3:
            raise self.make_error(
                element, f"xyz={element.attrib.get('xyz')!r}: the axis has length {norm:g}", "give a unit vector"
            )
        if abs(norm - 1.0) > 1e-3:
            self.warn(
                element,
                f"xyz={element.attrib.get('xyz')!r}: the length is {norm:g}; the axis is normalized",
                "give a unit vector",
            )
        return frozen(xyz / norm if norm != 1.0 else xyz)

    def read_limits(self, joint: XmlElement, kind: str) -> Limits:
        """Returns the limits of a joint of type `kind`; missing ones are infinite."""
        element = self.find_unique(joint, "limit")
        if element is None:
            if kind in ("revolute", "prismatic"):
                self.warn(
                    joint,
                    f"a {kind} joint has no <limit> and is assumed to be unlimited",
                    "add <limit>, or pass limits=",
                )
            return Limits()
        velocity, effort = (self.read_limit(element, k) for k in ("velocity", "effort"))
        if velocity == 0.0 and effort == 0.0:
            self.warn(
                element,
                "effort and velocity are both 0, which some exporters write for unknown limits; both are assumed to "
                "be unlimited",
                "set them, or pass limits=",
            )
            velocity = effort = np.inf
        elif velocity == 0.0:
            self.warn(
                element,
                "velocity=0 would prevent any motion; the velocity is assumed to be unlimited",
                "give it, or pass limits=",
            )
            velocity = np.inf
        if kind not in ("revolute", "prismatic"):
            return Limits(velocity=velocity, effort=effort)
        lower, upper = element.attrib.get("lower"), element.attrib.get("upper")
        if lower is None and upper is None:
            reason = (
                "lower and upper are not given: the default (0, 0) of the specification would lock the joint; they "
                "are assumed to be unlimited"
            )
            self.warn(element, reason, "give both, or pass limits=")
            return Limits(velocity=velocity, effort=effort)
        if lower is None or upper is None:
            given, missing = ("upper", "lower") if lower is None else ("lower", "upper")
            self.warn(
                element,
                f"{given} is given without {missing}, which is 0 by the specification",
                "give both, or pass limits=",
            )
        low, high = (self.read_number(element, k, default=0.0, bound=np.finfo(float).max) for k in ("lower", "upper"))
        if 0.0 < low - high <= ROUNDING_TOLERANCE:
            low = high
        if low > high:
            raise self.make_error(element, f"lower={low:g} is greater than upper={high:g}", "swap the two values")
        if low >= NO_LIMIT or high <= -NO_LIMIT:
            reason = f"lower={low:g}, upper={high:g}: the joint can never be in this range"
            raise self.make_error(element, reason, "correct it")
        if low == high:
            self.warn(
                element,
                f"lower and upper are both {low:g}, so that the joint is locked",
                "use a fixed joint, or pass limits=",
            )
        return Limits(
            low if abs(low) < NO_LIMIT else -np.inf, high if abs(high) < NO_LIMIT else np.inf, velocity, effort
        )

    def read_limit(self, element: XmlElement, attribute: str) -> float:
        """Returns a velocity or effort limit; inf if it is missing, -1, or at least `NO_LIMIT`."""
        if attribute not in element.attrib:
            self.warn(
                element,
                f"no {attribute} limit is given; the {attribute} is assumed to be unlimited",
                "give it, or pass limits=",
            )
            return np.inf
        value = self.read_number(element, attribute, bound=np.finfo(float).max)
        if value == EXPORTED_NO_LIMIT:
            reason = f"{attribute}={value:g} is read as no limit"
            self.warn(element, reason, "remove it, or pass limits=")
            return np.inf
        value = self.check_nonnegative(element, attribute, value, "a limit must not be negative")
        return value if value < NO_LIMIT else np.inf

    def read_mimic(self, joint: XmlElement) -> Mimic | None:
        """Returns the <mimic> of a joint; None without one."""
        element = self.find_unique(joint, "mimic")
        if element is None:
            return None
        return Mimic(
            self.read_text(element, "joint"),
            self.read_number(element, "multiplier", default=1.0),
            self.read_number(element, "offset", default=0.0),
        )

    # -- document -------------------------------------------------------------------------------------------
    def read_tree(self, root: XmlElement) -> Tree:
        """Returns the tree of a <robot> element with all findings, in the order of the file."""
        self.report_unknown(root)
        materials: dict[str, Color] = {}
        for element in root.children_with_tag("material"):
            color = element.children_with_tag("color")
            if color:
                materials[element.attrib.get("name", "")] = self.read_rgba(color[0])
        link_elements, joint_elements = root.children_with_tag("link"), root.children_with_tag("joint")
        if len(link_elements) > MAX_LINKS:
            raise ModelError(
                f"{self.file}: the file has {len(link_elements)} links, but at most {MAX_LINKS} are accepted"
            )
        shapes = sum(1 for link in link_elements for child in link if child.tag in ("visual", "collision"))
        if shapes > MAX_SHAPES:
            raise ModelError(
                f"{self.file}: the file has {shapes} <visual> and <collision> elements, but at most {MAX_SHAPES} are "
                "accepted"
            )
        if not link_elements:
            raise ModelError(f"{self.file}: the file has no <link>; is this a URDF (expand a .xacro first)?")
        links = self.index_by_name(((self.read_link(e, materials), e) for e in link_elements), "link")
        joints = self.index_by_name(((self.read_joint(e), e) for e in joint_elements), "joint")
        for (folder, problem, cosmetic), found in self.missing_meshes.items():  # one folder, one finding
            files, (element, uri) = len({uri for _, uri in found}), found[0]
            more = f" and {files - 1} more in {folder!r}" if files > 1 else ""
            advice = f"{self.meshes.advice(uri)}; meshes are not needed for the dynamics; the viewer shows a substitute"
            reason = shorten(f"filename={uri!r}{more}: {problem}")
            self.findings.append(Finding("warning", element.where, reason, advice, cosmetic))
        ordered_links, ordered_joints = self.order_tree(links, joints)
        name = root.attrib.get("name") or "robot"
        loops = read_loops(self, root, rotation_from_rpy)
        for loop in loops:
            for link in (loop.link_a, loop.link_b):
                if link not in links:
                    reason, advice = f"link {link!r} does not exist", "correct the name"
                    raise ModelError(f"{loop.where}: {reason}; {advice}")
        transmissions = read_transmissions(self, root)
        self.report_foreign(root)
        findings = tuple(sorted(self.findings, key=lambda f: f.where.line))
        return Tree(name, self.file, ordered_links, ordered_joints, findings, tuple(loops), transmissions)

    def index_by_name(self, items: Iterable[tuple[T, XmlElement]], kind: str) -> dict[str, tuple[T, XmlElement]]:
        """Returns items and their elements by name; rejects a repeated name."""
        out: dict[str, tuple[T, XmlElement]] = {}
        for item, element in items:
            if item.name in out:
                first = out[item.name][1].line
                raise self.make_error(element, f"another {kind} has the same name (line {first})", "rename one of them")
            out[item.name] = (item, element)
        return out

    def order_tree(
        self, links: dict[str, tuple[Link, XmlElement]], joints: dict[str, tuple[Joint, XmlElement]]
    ) -> tuple[tuple[Link, ...], tuple[Joint, ...]]:
        """Orders links and joints depth first, children by joint name; rejects a graph that is not a single tree."""
        parent_of: dict[str, str] = {}
        below: dict[str, list[Joint]] = {name: [] for name in links}
        for joint, element in joints.values():
            for role, link in (("parent", joint.parent), ("child", joint.child)):
                if link not in links:
                    raise self.make_error(element, f"its {role} link {link!r} does not exist", "correct the name")
            if joint.child in parent_of:
                reason = (
                    f"link {joint.child!r} is already the child of joint {parent_of[joint.child]!r}, so that the "
                    "joints form a closed loop"
                )
                raise self.make_error(
                    element, reason, "remove this joint and close the loop by <loop_joint>, because a URDF is a tree"
                )
            parent_of[joint.child] = joint.name
            below[joint.parent].append(joint)
        roots = [name for name in links if name not in parent_of]
        if len(roots) != 1:
            what = (
                f"the file has {len(roots)} root links ({', '.join(roots[:5])})"
                if roots
                else "the file has no root link, because the joints form a cycle"
            )
            raise ModelError(f"{self.file}: {what}; a URDF must have exactly one link that is not the child of a joint")
        ordered_links, ordered_joints = [links[roots[0]][0]], []
        stack = [(j, 1) for j in sorted(below[roots[0]], key=_name_bytes, reverse=True)]
        while stack:
            joint, depth = stack.pop()
            if depth > MAX_DEPTH:
                raise self.make_error(
                    joints[joint.name][1],
                    f"the chain of joints from the root to this joint has more than {MAX_DEPTH} joints",
                    "shorten the chain",
                )
            ordered_joints.append(joint)
            ordered_links.append(links[joint.child][0])
            stack.extend((j, depth + 1) for j in sorted(below[joint.child], key=_name_bytes, reverse=True))
        if len(ordered_links) != len(links):
            seen = {x.name for x in ordered_links}
            lost = next(e for name, (_, e) in links.items() if name not in seen)
            raise self.make_error(
                lost,
                "the link is not connected to the root, because its joints form a cycle",
                "remove one joint of the cycle",
            )
        return tuple(ordered_links), tuple(ordered_joints)


def _without_none(shapes: Iterable[Geometry | None]) -> tuple[Geometry, ...]:
    return tuple(shape for shape in shapes if shape is not None)


def _shape_sizes(shape: Shape) -> tuple[float, ...]:
    """Returns the sizes of a shape, which must not be 0."""
    match shape:
        case BoxShape(size):
            return size
        case SphereShape(radius):
            return (radius,)
        case CylinderShape(radius, length) | CapsuleShape(radius, length):
            return radius, length
        case MeshShape():
            return shape.scale


def _name_bytes(joint: Joint) -> bytes:
    return joint.name.encode()


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Rotation matrix (3, 3) of fixed-axis angles [rad]: Rz(yaw) Ry(pitch) Rx(roll) (URDF specification)."""
    cr, sr, cp, sp, cy, sy = (f(x) for x in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
