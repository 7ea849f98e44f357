"""An independent reader of URDF files, based on the standard library's XML parser and the specification.

Part of the fuzzer's oracle (`fuzz_oracle`, which lists the decisions taken where the specification is silent).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Element = ElementTree.Element

ABSURD, LARGE = 1e30, 1e3
ROUNDING = 1e-12  # a number this close to 0 may be read as 0
MAX_DEPTH, MAX_LINKS, MAX_NV = 128, 2000, 200

NV = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "floating": 6, "planar": 3}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
ENDS = re.compile(rb"\A\s+(<\?xml)|\0+\Z")
PREFIX = re.compile(rb"([<\s/])([A-Za-z_][\w.-]*):(?=[A-Za-z_])")
MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
#: Physical children by parent; other tags are doubts inside <inertial>, <geometry>, <visual>, <collision>.
PHYSICAL = {
    "link": {"inertial"},
    "inertial": {"origin", "mass", "inertia"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
}
ATTRIBUTES = {
    "origin": {"xyz", "rpy"},
    "mass": {"value"},
    "inertia": set(MOMENTS),
    "axis": {"xyz"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction"},
    "parent": {"link"},
    "child": {"link"},
}
#: Tags that real files have directly in <robot>, <link> and <joint>, including those of the specification.
EXTENSIONS = frozenset(
    "robot link joint inertial visual collision origin mass inertia parent child axis limit dynamics mimic material "
    "gazebo transmission sensor ros2_control safety_controller calibration contact collision_checking gravity "
    "kinematic self_filter surface hardwareInterface".split()
)
SHAPES = {"box": ("size",), "sphere": ("radius",), "cylinder": ("radius", "length"), "mesh": ("filename",)}


@dataclass
class Body:
    """Links connected by fixed joints: mass [kg], first moment (3,) and inertia (3, 3) about the origin of `head`."""

    head: str
    joint: str | None
    parent: int
    rotation: Array
    translation: Array
    mass: float = 0.0
    links: list[str] = field(default_factory=list)
    moment: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))

    def about_com(self) -> tuple[Array, Array]:
        """Centre of mass (3,) and inertia (3, 3) about it."""
        c = self.moment / self.mass if self.mass else np.zeros(3)
        return c, self.inertia - self.mass * (c @ c * np.eye(3) - np.outer(c, c))


@dataclass
class JointRead:
    """One `<joint>`: placement in the parent link, `axis` as written (not normalized), limits None where absent."""

    name: str
    type: str
    parent: str
    child: str
    rotation: Array
    translation: Array
    axis: Array
    lower: float | None = None
    upper: float | None = None


@dataclass
class Reading:
    """Content of the file, as far as it could be read."""

    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    links: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> (visuals, collisions)
    joints: dict[str, JointRead] = field(default_factory=dict)
    inertials: dict[str, tuple[float, Array, Array, Array]] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    root: str = ""

    def good(self, known: frozenset[str] = frozenset()) -> bool:
        """Whether a loader has to accept the file; `known` doubts (those of the unmutated file) do not count."""
        return not self.faults and not set(self.doubts) - known

    @property
    def moving(self) -> set[str]:
        """Names of the joints that move."""
        return {j.name for j in self.joints.values() if j.type != "fixed"}

    @property
    def mass(self) -> float:
        """Total mass [kg]."""
        return sum(m for m, *_ in self.inertials.values())


def without_default_namespace(data: bytes) -> bytes:
    """The document without a default namespace of its root element, which every reader of URDF ignores."""
    return re.sub(rb"""(<robot\b[^>]*?)\sxmlns\s*=\s*(?:"[^"]*"|'[^']*')""", rb"\1", data, count=1)


def parse(data: bytes) -> Reading:
    """Reads names, numbers, tree and composite bodies of a URDF, with faults and doubts."""
    out, data = Reading(), without_default_namespace(data)
    if (inner := ENDS.sub(rb"\1", data)) != data and b"\0" not in inner:  # no UTF-16
        out.doubts.append("white space before the declaration, or NUL characters at the end")
        data = inner
    try:
        try:
            robot = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            if "unbound prefix" not in str(error):
                raise
            robot = ElementTree.fromstring(PREFIX.sub(rb"\1\2__", data))
            out.doubts.append("a prefix that is not declared")
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        out.faults.append(f"not XML: {error}")
        return out
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", data):
        # In a comment it is only text, but a loader may reject it.
        bare = re.sub(rb"<!--.*?-->", b"", data, flags=re.DOTALL)
        (out.faults if b"<!DOCTYPE" in bare else out.doubts).append("document type declaration")
    declared = re.match(rb"[\s\xef\xbb\xbf]*<\?xml[^>]*encoding\s*=\s*[\"']([^\"'>]*)", data)
    told = declared.group(1).lower() if declared else b"utf-8"
    if told not in (b"utf-8", b"us-ascii") or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        out.doubts.append("an encoding other than UTF-8")
    if any("}" in e.tag for e in robot.iter() if "urdf}" in e.tag):
        out.doubts.append("namespaces on elements of the specification")
    if robot.tag != "robot":
        out.faults.append(f"root element <{robot.tag}>")
        return out
    if not robot.get("name"):
        out.doubts.append("robot without a name")
    _read_elements(robot, out)
    if not out.faults:
        _read_tree(out)
    return out


# -- elements ---------------------------------------------------------------------------------------------------
def _read_elements(robot: Element, out: Reading) -> None:
    for element in robot:
        if element.tag not in EXTENSIONS:
            out.doubts.append(f"unknown element <{element.tag}>")
        if element.tag == "link":
            _read_link(element, out)
        elif element.tag == "joint":
            _read_joint(element, out)
    for material in robot.iter("material"):
        colour = material.find("color")
        named = bool(material.get("name"))
        rgba = _loose(colour.get("rgba")) if colour is not None else [0.0] * 4
        if not named or len(rgba) != 4 or not all(0 <= x <= 1 for x in rgba):
            out.doubts.append(f"material of rgba {rgba}")
    names = Counter(m.get("name") for m in robot.findall("material"))
    defined = {m.get("name") for m in robot.iter("material") if len(m)}
    if any(n > 1 for n in names.values()) or any(m.get("name") not in defined for m in robot.iter("material")):
        out.doubts.append("material twice or undefined")
    for tag in ("safety_controller", "calibration"):
        for element in robot.iter(tag):
            if any(NUMBER.fullmatch(v) is None for v in element.attrib.values()):
                out.doubts.append(f"odd <{tag}>")
            if tag == "safety_controller" and "k_velocity" not in element.attrib:
                out.doubts.append("safety_controller without k_velocity")


def _read_link(element: Element, out: Reading) -> None:
    name = _name(element, out.links, out)
    counts = [0, 0]
    for child in element:
        if child.tag in ("visual", "collision"):
            counts[child.tag == "collision"] += 1
            scratch = Reading()
            _check_geometry(child, scratch)
            # Visual elements never make a file invalid: unreadable numbers there are a doubt.
            (out.doubts if child.tag == "visual" else out.faults).extend(scratch.faults)
            out.doubts += scratch.doubts
    _vocabulary(element, out)
    inertial = _only(element, "inertial", out)
    if name is None:
        return
    out.links[name] = (counts[0], counts[1])
    if inertial is None:
        return
    _vocabulary(inertial, out)
    rotation, com = _placement(inertial, out)
    mass = _scalar(_only(inertial, "mass", out), "value", out)
    moments = _only(inertial, "inertia", out)
    xx, xy, xz, yy, yz, zz = (_scalar(moments, k, out) for k in MOMENTS)
    if mass < 0:
        out.doubts.append(f"link {name!r} alone: mass {mass}")
    if -ROUNDING <= mass < 0:  # a residue of rounding, as in the documentation of the loader
        mass = 0.0
    out.inertials[name] = (mass, com, rotation, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def _read_joint(element: Element, out: Reading) -> None:
    name = _name(element, out.joints, out)
    kind = element.get("type", "")
    if kind not in NV:
        out.faults.append(f"joint type {kind!r}")
        return
    _vocabulary(element, out)
    rotation, translation = _placement(element, out)
    ends = []
    for tag in ("parent", "child"):
        end = _only(element, tag, out)
        ends.append(end.get("link", "") if end is not None else "")
    axis = np.array([1.0, 0.0, 0.0])
    has_axis = kind not in ("fixed", "floating")
    scratch = out if has_axis else Reading()
    axis_element = _only(element, "axis", scratch)
    if axis_element is not None:
        if "xyz" not in axis_element.attrib:
            out.doubts.append("axis without xyz")
        else:
            axis = _vector(axis_element, "xyz", scratch)
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(axis))
        if has_axis and not 1e-100 < norm < 1e100:
            out.faults.append(f"axis of length {norm}")
        elif has_axis and not 1e-3 <= norm <= 1e3:
            out.doubts.append(f"axis of length {norm}")
    if not has_axis and scratch.faults:
        out.doubts.append("malformed axis on a joint that has none")
    if name is None:
        return
    joint = JointRead(name, kind, ends[0], ends[1], rotation, translation, axis)
    out.joints[name] = joint
    if name == "root_joint":  # reserved for a moving root
        out.doubts.append("joint named root_joint")
    if kind == "fixed":  # limits and friction of a fixed joint are at most a doubt
        scratch = Reading()
        _read_limits(element, joint, scratch)
        out.doubts += scratch.doubts + scratch.faults
    else:
        _read_limits(element, joint, out)


def _read_limits(element: Element, joint: JointRead, out: Reading) -> None:
    limit = _only(element, "limit", out)
    bounded = joint.type in ("revolute", "prismatic")
    if limit is None:
        if bounded:
            out.doubts.append(f"{joint.type} joint without <limit>")
    else:
        values: dict[str, float | None] = {}
        for key in ("lower", "upper", "effort", "velocity"):
            text = limit.get(key)
            if text is None:
                values[key] = None
                if bounded or key in ("effort", "velocity"):
                    out.doubts.append(f"limit without {key}")
            elif text.strip().lower().lstrip("+-") in ("inf", "infinity") or not bounded:
                values[key] = None
                if NUMBER.fullmatch(text) is None or abs(float(text)) > LARGE:
                    out.doubts.append(f"limit {key}={text!r}")
            elif NUMBER.fullmatch(text) and abs(float(text)) > ABSURD:
                values[key] = float(text)  # extreme limits may be rejected, or read as no limit
                out.doubts.append(f"limit {key}={text!r}")
            else:
                values[key] = _scalar(limit, key, out, large=1e7)
        joint.lower, joint.upper = values["lower"], values["upper"]
        low, high = (0.0 if x is None else x for x in (joint.lower, joint.upper))
        if bounded and None not in (joint.lower, joint.upper) and low > high:
            (out.faults if low - high > ROUNDING else out.doubts).append(f"lower {low} > upper {high}")
        if bounded and low >= high:
            out.doubts.append("locked joint")
        for key in ("effort", "velocity"):
            if (values[key] or 0.0) < 0 or (bounded and values[key] == 0):
                out.doubts.append(f"{key} limit {values[key]}")
    dynamics = _only(element, "dynamics", out)
    if dynamics is not None:
        for key in ("damping", "friction"):
            if key in dynamics.attrib:
                value = _scalar(dynamics, key, out)
                if value < 0:
                    (out.faults if value < -ROUNDING else out.doubts).append(f"{key} {value}")
    mimic = _only(element, "mimic", out)
    if mimic is not None:
        for key in ("multiplier", "offset"):
            if key in mimic.attrib:
                _scalar(mimic, key, out)
        if not mimic.get("joint") or mimic.get("joint") == joint.name or joint.type == "fixed":
            out.doubts.append("odd mimic")


def _check_geometry(element: Element, out: Reading) -> None:
    """Malformed geometry is a doubt; whether it is dropped without a finding is checked for the accepted robot."""
    _placement(element, out)
    geometry = _only(element, "geometry", out, required=False)
    shapes = [] if geometry is None else list(geometry)
    if len(shapes) != 1 or shapes[0].tag not in SHAPES:
        out.doubts.append("odd geometry")
        return
    shape = shapes[0]
    for key in SHAPES[shape.tag]:
        if key not in shape.attrib:
            out.doubts.append(f"{shape.tag} without {key}")
    for key in ("size", "radius", "length", "scale"):
        if key in shape.attrib:
            sizes = _loose(shape.get(key))
            wrong = len(sizes) != (3 if key in ("size", "scale") else 1)
            small = any(abs(x) < 1e-9 or (x < 0 and key != "scale") for x in sizes)
            if wrong or small or not all(abs(x) <= LARGE for x in sizes):
                out.doubts.append(f"{shape.tag} {key}={shape.get(key)!r}")
    if shape.tag == "mesh" and not shape.get("filename"):
        out.doubts.append("mesh without a file")


def _name(element: Element, taken: Any, out: Reading) -> str | None:
    name = element.get("name", "")
    if not name or name in taken or name == "universe":
        out.faults.append(f"{element.tag} name {name!r} empty, taken or reserved")
        return None
    if name.strip() != name or not name.isprintable() or len(name) > 128 or name == "root_joint":
        out.doubts.append(f"{element.tag} name {name!r}")
    return name


def _vocabulary(element: Element, out: Reading) -> None:
    known = PHYSICAL["inertial"] if element.tag == "inertial" else EXTENSIONS
    for child in element:
        if child.tag not in known or (element.tag, child.tag) in _MISPLACED:
            out.doubts.append(f"unknown element <{child.tag}> in <{element.tag}>")
        allowed = ATTRIBUTES.get(child.tag)
        if allowed is not None and child.tag in PHYSICAL.get(element.tag, ()) and set(child.attrib) - allowed:
            out.doubts.append(f"unknown attribute on <{child.tag}>")


_MISPLACED = {
    (outer, inner)
    for outer in ("link", "joint")
    for inner in PHYSICAL["joint"]
    | PHYSICAL["inertial"]
    | {"inertial", "link", "joint", "visual", "collision", "robot"}
    if inner not in PHYSICAL[outer] and not (outer == "link" and inner in ("visual", "collision"))
}


def _only(element: Element, tag: str, out: Reading, *, required: bool = True) -> Element | None:
    found = element.findall(tag)
    if len({ElementTree.tostring(e).strip() for e in found}) > 1:
        # Equal numbers with another spelling do not contradict each other; contradictory geometry is a doubt.
        (out.faults if required and len({_canonical(e) for e in found}) > 1 else out.doubts).append(f"two <{tag}>")
    return found[0] if found else None


def _canonical(element: Element) -> str:
    values = {k: tuple(float(x) if NUMBER.fullmatch(x) else x for x in v.split()) for k, v in element.attrib.items()}
    return f"{element.tag}{sorted(values.items())}{[_canonical(e) for e in element]}"


def _placement(element: Element, out: Reading) -> tuple[Array, Array]:
    origin = _only(element, "origin", out)
    zero = np.zeros(3)
    if origin is None:
        return np.eye(3), zero
    xyz = _vector(origin, "xyz", out) if "xyz" in origin.attrib else zero
    rpy = _vector(origin, "rpy", out) if "rpy" in origin.attrib else zero
    return (rotation_of(rpy) if np.all(np.abs(rpy) < ABSURD) else np.eye(3)), xyz


def _vector(element: Element, key: str, out: Reading) -> Array:
    text = element.get(key, "")
    parts = text.split()
    if len(parts) != 3:
        out.faults.append(f"<{element.tag} {key}={text!r}>: {len(parts)} components")
        return np.full(3, np.nan)
    return np.array([_number(p, f"<{element.tag} {key}={text!r}>", out, LARGE) for p in parts])


def _scalar(element: Element | None, key: str, out: Reading, *, large: float = LARGE) -> float:
    text = None if element is None else element.get(key)
    if element is None or text is None:
        out.faults.append(f"{key} missing")
        return 0.0
    if text.strip() != text:
        out.doubts.append(f"<{element.tag} {key}={text!r}>: spacing")
    return _number(text.strip(), f"<{element.tag} {key}={text!r}>", out, large)


def _number(text: str, where: str, out: Reading, large: float) -> float:
    if NUMBER.fullmatch(text) is None:
        out.faults.append(f"{where}: not a number")
        return float("nan")
    value = float(text)
    if not abs(value) <= ABSURD:
        out.faults.append(f"{where}: absurd")
    elif abs(value) > large:
        out.doubts.append(f"{where}: large")
    return value


def _loose(text: str | None) -> list[float]:
    return [float(x) if NUMBER.fullmatch(x) else float("nan") for x in (text or "").split()]


def rotation_of(rpy: Array) -> Array:
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


# -- tree ---------------------------------------------------------------------------------------------
def _read_tree(out: Reading) -> None:
    parents: dict[str, JointRead] = {}
    for joint in out.joints.values():
        if joint.parent not in out.links or joint.child not in out.links:
            out.faults.append(f"joint {joint.name!r} between {joint.parent!r} and {joint.child!r}: no such link")
        elif joint.child in parents:
            out.faults.append(f"link {joint.child!r} has two parents")
        else:
            parents[joint.child] = joint
    roots = [n for n in out.links if n not in parents]
    if len(roots) != 1:
        out.faults.append(f"{len(roots)} roots")
    if out.faults:
        return
    out.root = roots[0]
    children: dict[str, list[JointRead]] = {n: [] for n in out.links}
    for joint in out.joints.values():
        children[joint.parent].append(joint)
    where: dict[str, tuple[int, Array, Array]] = {out.root: (0, np.eye(3), np.zeros(3))}
    out.bodies = [Body(out.root, None, -1, np.eye(3), np.zeros(3))]
    level = [out.root]
    depth = 0
    while level:
        depth += 1
        for joint in [j for n in level for j in children[n]]:
            index, r, p = where[joint.parent]
            r, p = r @ joint.rotation, r @ joint.translation + p
            if joint.type == "fixed":
                where[joint.child] = (index, r, p)
            else:
                out.bodies.append(Body(joint.child, joint.name, index, r, p))
                where[joint.child] = (len(out.bodies) - 1, np.eye(3), np.zeros(3))
        level = [j.child for n in level for j in children[n]]
    if len(where) != len(out.links):
        out.faults.append(f"{len(out.links) - len(where)} links in a cycle")
    if depth > MAX_DEPTH or len(out.links) > MAX_LINKS or sum(NV[j.type] for j in out.joints.values()) + 6 > MAX_NV:
        out.faults.append("too deep or too large")
    for name, (index, _, _) in where.items():
        out.bodies[index].links.append(name)
    for name, (m, com, rotation, inertia) in out.inertials.items():
        if name not in where:
            continue
        index, r, p = where[name]
        c, local = r @ com + p, r @ rotation @ inertia @ rotation.T @ r.T
        body = out.bodies[index]
        body.mass += m
        body.moment = body.moment + m * c
        body.inertia = body.inertia + local + m * (c @ c * np.eye(3) - np.outer(c, c))
