"""URDFs for tests: real files edited element by element, and quadrupeds built from a description of their legs.

Edits preserve everything else, so the correct result is known beforehand: the joints of each leg, its foot link and
the position of the foot.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pinocchio as pin

from quaddyn.robot.catalogue import find_entry

FEET = ("FL", "FR", "RL", "RR")
Vector = Sequence[float]

# Names of the legs in the files: front/rear (or hind, back), left/right; and their joints, hip first, then the foot.
_UNITREE = (FEET, ("{}_hip_joint", "{}_thigh_joint", "{}_calf_joint"), "{}_foot")
_ANYMAL = (("LF", "RF", "LH", "RH"), ("{}_HAA", "{}_HFE", "{}_KFE"), "{}_FOOT")
_HIP = "hip_yaw_{0} hip_pitch_{0} knee_pitch_{0} ankle_pitch_{0} ankle_yaw_{0} j_wheel_{0}"
_NAMES: dict[str, tuple[Sequence[str], Sequence[str], str]] = {
    **dict.fromkeys(("small_quadruped", "a1", "go1", "go2", "b1", "b1_z1", "laikago"), _UNITREE),
    **dict.fromkeys(("anymal_b", "anymal_c", "anymal_b_kinova"), _ANYMAL),
    "hyq": (("lf", "rf", "lh", "rh"), ("{}_haa_joint", "{}_hfe_joint", "{}_kfe_joint"), "{}_foot"),
    "solo12": (("FL", "FR", "HL", "HR"), ("{}_HAA", "{}_HFE", "{}_KFE"), "{}_FOOT"),
    "solo8": (("FL", "FR", "HL", "HR"), ("{}_HFE", "{}_KFE"), "{}_FOOT"),
    "quadruped": (("FL", "FR", "BL", "BR"), ("{}_HFE", "{}_KFE"), "{}_contact"),
    "centauro": (("1", "2", "3", "4"), _HIP.replace("{0}", "{}").split(), "wheel_{}"),
}
QUADRUPEDS = tuple(_NAMES)


@dataclass(frozen=True)
class LegNames:
    """Names of one leg in a file: its joints, hip first, and its foot link."""

    joints: tuple[str, ...]
    foot: str


def leg_names(robot: str) -> dict[str, LegNames]:
    """The legs of a catalogue quadruped as its file names them."""
    prefixes, joints, foot = _NAMES[robot]
    return {
        leg: LegNames(tuple(j.format(p) for j in joints), foot.format(p)) for leg, p in zip(FEET, prefixes, strict=True)
    }


def words(values: Iterable[float]) -> str:
    return " ".join(repr(float(v)) for v in values)


def numbers(text: str) -> np.ndarray:
    return np.array([float(w) for w in text.split()])


class Urdf:
    """A URDF that can be edited; methods change it in place and return it, so that edits chain."""

    def __init__(self, root: Element) -> None:
        self.root = root

    @classmethod
    def of(cls, name: str) -> Urdf:
        """Returns the file of a catalogue name."""
        return cls(ElementTree.parse(find_entry(name).path).getroot())

    @classmethod
    def parse(cls, path: Path) -> Urdf:
        """Returns the URDF of a path."""
        return cls(ElementTree.parse(path).getroot())

    def copy(self) -> Urdf:
        return Urdf(copy.deepcopy(self.root))

    def __str__(self) -> str:
        return ElementTree.tostring(self.root, encoding="unicode")

    # -- looking ---------------------------------------------------------------------------------------------
    @property
    def links(self) -> list[Element]:
        return self.root.findall("link")

    @property
    def joints(self) -> list[Element]:
        return self.root.findall("joint")

    def link(self, name: str) -> Element:
        return next(x for x in self.links if x.attrib["name"] == name)

    def joint(self, name: str) -> Element:
        return next(x for x in self.joints if x.attrib["name"] == name)

    def above(self, link: str) -> Element:
        """The joint that carries this link."""
        return next(j for j in self.joints if below(j, "child").attrib["link"] == link)

    def carried(self, joint: str) -> str:
        """The link that this joint carries."""
        return below(self.joint(joint), "child").attrib["link"]

    @property
    def base(self) -> str:
        """The root link."""
        children = {below(j, "child").attrib["link"] for j in self.joints}
        return next(x.attrib["name"] for x in self.links if x.attrib["name"] not in children)

    # -- adding and removing ---------------------------------------------------------------------------------
    def add_link(self, name: str, mass: float = 0.0, com: Vector = (0, 0, 0), size: float = 0.05) -> Urdf:
        """A link; with `mass` it is a solid cube of edge `size`."""
        link = SubElement(self.root, "link", name=name)
        if mass > 0.0:
            inertial = SubElement(link, "inertial")
            SubElement(inertial, "origin", xyz=words(com), rpy="0 0 0")
            SubElement(inertial, "mass", value=repr(float(mass)))
            moment = repr(mass * size**2 / 6.0)
            SubElement(inertial, "inertia", ixx=moment, iyy=moment, izz=moment, ixy="0", ixz="0", iyz="0")
        return self

    def add_joint(
        self,
        name: str,
        kind: str,
        parent: str,
        child: str,
        xyz: Vector = (0, 0, 0),
        rpy: Vector = (0, 0, 0),
        axis: Vector | None = None,
        limit: tuple[float, float] | None = None,
    ) -> Urdf:
        joint = SubElement(self.root, "joint", name=name, type=kind)
        SubElement(joint, "origin", xyz=words(xyz), rpy=words(rpy))
        SubElement(joint, "parent", link=parent)
        SubElement(joint, "child", link=child)
        if axis is not None:
            SubElement(joint, "axis", xyz=words(axis))
        if limit is not None:
            low, high = limit
            SubElement(joint, "limit", lower=repr(low), upper=repr(high), effort="30.0", velocity="20.0")
        elif kind == "continuous":
            SubElement(joint, "limit", effort="30.0", velocity="20.0")
        return self

    def add_shape(self, link: str, tag: str, xyz: Vector = (0, 0, 0), rpy: Vector = (0, 0, 0), **sizes: str) -> Urdf:
        """A collision shape on a link."""
        collision = SubElement(self.link(link), "collision")
        SubElement(collision, "origin", xyz=words(xyz), rpy=words(rpy))
        SubElement(SubElement(collision, "geometry"), tag, sizes)
        return self

    def clear_shapes(self, link: str) -> Urdf:
        for tag in ("collision", "visual"):
            for shape in self.link(link).findall(tag):
                self.link(link).remove(shape)
        return self

    def remove(self, link: str) -> Urdf:
        """Take away a link, the joint above it, and all that hangs from it."""
        for joint in self.joints:
            if below(joint, "parent").attrib["link"] == link:
                self.remove(below(joint, "child").attrib["link"])
        self.root.remove(self.above(link))
        self.root.remove(self.link(link))
        return self

    def under(self, name: str, kind: str, xyz: Vector = (0, 0, 0), rpy: Vector = (0, 0, 0)) -> Urdf:
        """Put a massless link of this name above the root."""
        base = self.base
        return self.add_link(name).add_joint(f"{name}_to_{base}", kind, name, base, xyz, rpy)

    # -- the same machine, written otherwise -----------------------------------------------------------------
    def rename(self, new: Callable[[str], str]) -> Urdf:
        """Give every link and joint another name."""
        for x in (*self.links, *self.joints):
            x.attrib["name"] = new(x.attrib["name"])
        for joint in self.joints:
            for end in ("parent", "child"):
                below(joint, end).attrib["link"] = new(below(joint, end).attrib["link"])
        return self

    def shuffle(self, seed: int) -> Urdf:
        """Shuffles the elements."""
        elements = [*self.links, *self.joints]
        for x in elements:
            self.root.remove(x)
        random.Random(seed).shuffle(elements)
        self.root.extend(elements)
        return self

    def flip_axis(self, joint: str) -> Urdf:
        """Reverses the axis of a joint, with its limits."""
        element = self.joint(joint)
        axis = below(element, "axis")
        axis.attrib["xyz"] = words(-numbers(axis.attrib["xyz"]))
        limit = element.find("limit")
        if limit is not None and "lower" in limit.attrib:
            low, high = float(limit.attrib["lower"]), float(limit.attrib["upper"])
            limit.attrib.update(lower=repr(-high), upper=repr(-low))
        return self

    def shift_zero(self, joint: str, angle: float) -> Urdf:
        """Shifts the zero of a revolute joint to `angle` [rad]."""
        element = self.joint(joint)
        axis = numbers(below(element, "axis").attrib["xyz"])
        R = pin.rpy.rpyToMatrix(*self._rpy(element)) @ pin.exp3(axis * angle)
        origin = _origin(element)
        origin.attrib["rpy"] = words(pin.rpy.matrixToRpy(R))
        limit = element.find("limit")
        if limit is not None and "lower" in limit.attrib:
            for end in ("lower", "upper"):
                limit.attrib[end] = words([float(limit.attrib[end]) - angle])
        return self

    def unlimit(self, joint: str) -> Urdf:
        """Make a revolute joint continuous."""
        element = self.joint(joint)
        element.attrib["type"] = "continuous"
        limit = element.find("limit")
        if limit is not None:
            limit.attrib.pop("lower", None)
            limit.attrib.pop("upper", None)
        return self

    def limit(self, joint: str, **values: float) -> Urdf:
        below(self.joint(joint), "limit").attrib.update({k: repr(float(v)) for k, v in values.items()})
        return self

    def turn_base(self, yaw: float, shift: Vector = (0, 0, 0)) -> Urdf:
        """Changes the base frame: everything on the root link rotates by `yaw` [rad] and moves by `shift` [m]."""
        return self.turn_base_by(pin.rpy.rpyToMatrix(0.0, 0.0, yaw), shift)

    def turn_base_by(self, rotation: np.ndarray, shift: Vector = (0, 0, 0)) -> Urdf:
        """Changes the base frame: everything on the root link rotates by `rotation` (3, 3) and moves by `shift` [m]."""
        T = pin.SE3(rotation, np.array(shift, dtype=float))
        base = self.base
        owners = [j for j in self.joints if below(j, "parent").attrib["link"] == base]
        owners += [x for x in self.link(base) if x.tag in ("inertial", "visual", "collision")]
        for element in owners:
            origin = _origin(element)
            placed = T * pin.SE3(pin.rpy.rpyToMatrix(*self._rpy(element)), numbers(origin.attrib.get("xyz", "0 0 0")))
            origin.attrib.update(xyz=words(placed.translation), rpy=words(pin.rpy.matrixToRpy(placed.rotation)))
        return self

    def mirror(self) -> Urdf:
        """Mirrors the robot in the x-z plane: left and right are exchanged."""
        M = np.diag([1.0, -1.0, 1.0])
        for element in (*self.joints, *(x for link in self.links for x in link if x.tag != "gazebo")):
            origin = _origin(element)
            R = pin.rpy.rpyToMatrix(*self._rpy(element))
            xyz = M @ numbers(origin.attrib.get("xyz", "0 0 0"))
            origin.attrib.update(xyz=words(xyz), rpy=words(pin.rpy.matrixToRpy(M @ R @ M)))
        for joint in self.joints:
            axis = joint.find("axis")
            if axis is not None:  # a rotation axis, as a pseudovector, is reversed in addition
                sign = 1.0 if joint.attrib["type"] == "prismatic" else -1.0
                axis.attrib["xyz"] = words(sign * M @ numbers(axis.attrib["xyz"]))
        for inertia in (x for link in self.links for x in link.iter("inertia")):
            for product in ("ixy", "iyz"):
                inertia.attrib[product] = repr(-float(inertia.attrib.get(product, 0.0)))
        return self

    def scale(self, factor: float) -> Urdf:
        """Scales the robot by `factor` at the same density."""

        def times(element: Element, power: int, *attributes: str) -> None:
            for name in attributes:
                if name in element.attrib:
                    element.attrib[name] = words(numbers(element.attrib[name]) * factor**power)

        for link in self.links:
            for x in link.iter():
                if x.tag == "inertia":
                    times(x, 5, *x.attrib)
                elif x.tag == "mass":
                    times(x, 3, "value")
                else:
                    times(x, 1, "xyz", "size", "radius", "length", "scale")
        for joint in self.joints:
            times(_origin(joint), 1, "xyz")
            limit = joint.find("limit")
            if joint.attrib["type"] == "prismatic" and limit is not None:
                times(limit, 1, "lower", "upper")
        return self

    @staticmethod
    def _rpy(element: Element) -> np.ndarray:
        return numbers(_origin(element).attrib.get("rpy", "0 0 0"))


def below(element: Element, tag: str) -> Element:
    found = element.find(tag)
    assert found is not None, f"<{element.tag}> has no <{tag}>"
    return found


def _origin(element: Element) -> Element:
    found = element.find("origin")
    return SubElement(element, "origin", xyz="0 0 0", rpy="0 0 0") if found is None else found


# -- dogs from a plan -------------------------------------------------------------------------------------------
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Segment:
    """A joint and the rod that it moves: `to` (3,) is the vector from this joint to the next one, or to the foot [m].

    On the right side of the robot, `to` is mirrored.
    """

    axis: Vector
    to: Vector
    limit: tuple[float, float] | None = (-2.8, 2.8)
    kind: str = "revolute"
    name: str = ""


HIP = Segment(X, (0.0, 0.06, 0.0), (-0.8, 0.8), name="roll")
THIGH = Segment(Y, (0.0, 0.0, -0.2), (-1.6, 1.6), name="thigh")
SHANK = Segment(Y, (0.0, 0.0, -0.2), (-2.6, 2.6), name="shank")
PLAIN = (HIP, THIGH, SHANK)
CORNERS = {"FL": (0.2, 0.06, 0.0), "FR": (0.2, -0.06, 0.0), "RL": (-0.2, 0.06, 0.0), "RR": (-0.2, -0.06, 0.0)}


def dog(
    plan: Sequence[Segment] | Mapping[str, Sequence[Segment]] = PLAIN,
    *,
    hips: Mapping[str, Vector] | None = None,
    radius: float | None = 0.02,
    parents: Mapping[str, str] | None = None,
) -> Urdf:
    """Builds a quadruped with the legs of `plan` (one for all, or by leg), rods of 0.4 kg and a trunk of 8 kg.

    Args:
        plan: the segments, hip first.
        hips: by leg, the position of its first joint in the trunk [m]; numbers of legs other than four are allowed.
        radius: of the collision sphere on the foot link "FL_foot"; None leaves the foot link out.
        parents: by leg, the link that carries it instead of the trunk.
    """
    out = Urdf(Element("robot", name="dog")).add_link("trunk", 8.0, size=0.25)
    for leg, place in (hips or CORNERS).items():
        side = -1.0 if leg.endswith("R") else 1.0
        at, link = place, (parents or {}).get(leg, "trunk")
        for i, segment in enumerate(plan[leg] if isinstance(plan, Mapping) else plan):
            to = np.array(segment.to) * (1.0, side, 1.0)
            child = f"{leg}_{segment.name or i}"
            out.add_link(child, 0.4, to / 2.0)
            out.add_joint(f"{child}_joint", segment.kind, link, child, at, axis=segment.axis, limit=segment.limit)
            at, link = to, child
        if radius is not None:
            out.add_link(f"{leg}_foot").add_joint(f"{leg}_foot_joint", "fixed", link, f"{leg}_foot", at)
            out.add_shape(f"{leg}_foot", "sphere", radius=words([radius]))
    return out


def turned(angle: float) -> Vector:
    """Roll, pitch, yaw of a rotation about z by a fraction of half a turn: 1 is a half turn."""
    return (0.0, 0.0, math.pi * angle)
