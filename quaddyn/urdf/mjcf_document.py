"""A compiled MJCF as a URDF document, which then goes through the one reader.

MuJoCo's conventions are turned into the URDF's without a change of q: a link has the frame of its body, and a joint is
at 0 where MuJoCo's is.  Source: the XML reference of MuJoCo's documentation, and its section on computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from ..errors import ModelError
from .meshes import MeshFinder
from .mjcf import MeshFile, compile_mjcf, import_mujoco
from .tree import Array, Finding, Pose, Where

#: What stands for no limit: beyond what the reader takes for one.
UNLIMITED = 1e9
WORLD = "world"
#: Groups of geoms that MuJoCo draws by default.
DRAWN_GROUPS = 3
#: Gravity that is assumed everywhere [m/s^2], and how far a file's may be off.
GRAVITY, GRAVITY_TOLERANCE = (0.0, 0.0, -9.81), 1e-2
#: Names that one finding lists.
LISTED = 4
#: What MuJoCo calls a model without a name.
UNNAMED = "MuJoCo Model"
#: Name of the keyframe that is taken for the home configuration.
HOME = "home"


@dataclass(frozen=True, slots=True)
class HomePose:
    """A keyframe: `joints` by name [rad or m], and of a floating base `position` (3,) [m] and `orientation` (3, 3)."""

    joints: Mapping[str, float]
    position: Array | None
    orientation: Array | None


@dataclass(frozen=True, slots=True)
class Converted:
    """A URDF document, what was found on the way to it, and the home keyframe, if there is one."""

    text: str
    findings: tuple[Finding, ...]
    home: HomePose | None


def urdf_of_mjcf(data: bytes | str, name: str, finder: MeshFinder) -> Converted:
    """The URDF of an MJCF.

    Args:
        data: the document.
        name: its name, for messages.
        finder: finds what it includes, and its meshes.

    Raises:
        ModelError: MuJoCo is not installed or refuses the document; or it has what a URDF cannot say and the dynamics
            need: ball joints, tendons that pull, or several robots.
    """
    model, meshes = compile_mjcf(data, name, finder)
    return _Writer(model, meshes, name).document()


@dataclass(slots=True)
class _JointData:
    """What the document says about a joint of MuJoCo: its URDF `name` and what acts on it."""

    name: str
    effort: float = 0.0
    mimic: tuple[int, float, float] | None = None  # joint, multiplier, offset
    armature: float = 0.0
    damping: float = 0.0


@dataclass(slots=True)
class _Names:
    """Names that are not taken twice."""

    taken: set[str] = field(default_factory=set)

    def new(self, wanted: str, otherwise: str) -> str:
        name, number = wanted or otherwise, 2
        while name in self.taken:
            name, number = f"{wanted or otherwise}_{otherwise if number == 2 and wanted else number}", number + 1
        self.taken.add(name)
        return name


class _Writer:
    """Writes one document."""

    def __init__(self, model: Any, meshes: Mapping[str, MeshFile], file: str) -> None:
        self.mujoco, self.model, self.meshes, self.file = import_mujoco(), model, meshes, file
        self.findings: list[Finding] = []
        self.kinds = self.mujoco.mjtJoint

    # -- the whole -------------------------------------------------------------------------------------------
    def document(self) -> Converted:
        m = self.model
        tops = self.robots()
        self.bodies = [b for b in range(1, m.nbody) if int(m.body_rootid[b]) in tops]
        inside = set(self.bodies)
        links = _Names({WORLD})
        self.links = {0: WORLD} | {b: links.new(m.body(b).name, f"body_{b}") for b in self.bodies}
        joint_names = _Names()
        self.joints = {
            j: _JointData(joint_names.new(m.joint(j).name, f"{self.links[int(m.jnt_bodyid[j])]}_joint"))
            for j in range(m.njnt)
            if int(m.jnt_bodyid[j]) in inside
        }
        self.judge_joints()
        self.couplings()
        self.actuators()
        self.tendons()
        self.losses()
        root = Element("robot", name=_robot_name(m, self.file))
        SubElement(root, "link", name=WORLD)
        for b in self.bodies:
            self.body(root, b, links, joint_names)
        for s in range(m.nsite):
            if int(m.site_bodyid[s]) in inside:
                name = links.new(m.site(s).name, f"site_{s}")
                SubElement(root, "link", name=name)
                parent = self.links[int(m.site_bodyid[s])]
                placement = _pose(m.site_pos[s], m.site_quat[s])
                _joint(root, joint_names.new(f"{name}_fixed", ""), "fixed", parent, name, placement)
        self.loops(root, inside)
        self.judge_options()
        indent(root)
        return Converted(tostring(root, encoding="unicode"), tuple(self.findings), self.home())

    def robots(self) -> set[int]:
        """The bodies on the world that carry the robot: what has actuators, or else what has joints."""
        m = self.model
        tops = [b for b in range(1, m.nbody) if int(m.body_parentid[b]) == 0]
        if not tops:
            raise ModelError(f"{self.file}: no <body> in it; is this a scene without a robot?")
        joints = {b: [j for j in range(m.njnt) if int(m.body_rootid[m.jnt_bodyid[j]]) == b] for b in tops}
        moving = [b for b in tops if joints[b]] or tops
        driven_joints = {int(j) for i in range(m.nu) for j in self.driven(i)}
        driven = [b for b in moving if driven_joints & set(joints[b])]
        articulated = [b for b in moving if any(m.jnt_type[j] != self.kinds.mjJNT_FREE for j in joints[b])]
        chosen = driven or articulated or moving
        floating = [b for b in chosen if any(m.jnt_type[j] == self.kinds.mjJNT_FREE for j in joints[b])]
        if floating and len(chosen) > 1:
            names = ", ".join(repr(m.body(b).name) for b in chosen[:LISTED])
            raise ModelError(
                f"{self.file}: {len(chosen)} bodies on the world may be the robot ({names}), and {len(floating)} of "
                "them float; keep one robot in the file"
            )
        if left := [b for b in tops if b not in chosen]:
            names = ", ".join(repr(m.body(b).name) for b in left[:LISTED]) + (", ..." if len(left) > LISTED else "")
            count = f"{len(left)} bodies on the world are" if len(left) > 1 else "a body on the world is"
            level = "warning" if any(joints[b] for b in left) else "note"
            self.find(level, "<worldbody>", f"{count} not part of the robot and left out: {names}")
        return set(chosen)

    def find(self, level: str, element: str, reason: str, advice: str = "") -> None:
        self.findings.append(Finding(level, Where(self.file, 0, element), reason, advice))

    def refuse(self, element: str, reason: str, advice: str) -> ModelError:
        return ModelError(f"{Where(self.file, 0, element)}: {reason}; {advice}")

    def listed(self, joints: Iterable[int]) -> str:
        names = [self.joints[j].name for j in joints]
        return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")

    # -- joints ----------------------------------------------------------------------------------------------
    def judge_joints(self) -> None:
        """Refuse what has no coordinates in a URDF, report what has no counterpart."""
        m = self.model
        balls = [j for j in self.joints if m.jnt_type[j] == self.kinds.mjJNT_BALL]
        if balls:
            raise self.refuse(
                f'<joint name="{self.joints[balls[0]].name}">',
                f"{len(balls)} ball joints ({self.listed(balls)}), which are not modelled",
                "replace each by three hinges",
            )
        stiffer = getattr(m, "jnt_stiffnesspoly", np.zeros(m.njnt))
        springs = [j for j in self.joints if m.jnt_stiffness[j] or np.any(stiffer[j])]
        if springs:
            reason = f"springs of {len(springs)} joints ({self.listed(springs)}) are not modelled; left out"
            self.find("warning", f'<joint name="{self.joints[springs[0]].name}">', reason)
        for j in self.joints:
            at = int(m.jnt_dofadr[j])
            if m.jnt_type[j] != self.kinds.mjJNT_FREE:
                continue
            own = {k: float(getattr(m, f"dof_{k}")[at]) for k in ("armature", "damping", "frictionloss")}
            if any(own.values()):
                given = ", ".join(f"{k}={value:g}" for k, value in own.items() if value)
                self.find("warning", f'<joint name="{self.joints[j].name}">', f"{given} of a free joint; left out")
        bent = getattr(m, "dof_dampingpoly", np.zeros(m.nv))
        curved = [j for j in self.joints if np.any(bent[m.jnt_dofadr[j]])]
        if curved:
            reason = f"damping that is not linear, of {self.listed(curved)}; its linear part counts"
            self.find("warning", f'<joint name="{self.joints[curved[0]].name}">', reason)

    def couplings(self) -> None:
        """Joints that linear equality constraints tie to others mimic them."""
        m, kinds = self.model, self.mujoco.mjtEq
        for e in range(m.neq):
            if m.eq_type[e] != kinds.mjEQ_JOINT or int(m.eq_obj1id[e]) not in self.joints or not m.eq_active0[e]:
                continue
            follower, leader = int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
            data = [float(x) for x in m.eq_data[e][:5]]
            element = f'<equality><joint joint1="{self.joints[follower].name}">'
            if leader < 0:
                self.find("warning", element, "holds the joint where it is; left out", "remove the joint")
            elif any(data[2:]) or self.joints[follower].mimic is not None or leader not in self.joints:
                reason = "a coupling that is not linear, a second one of this joint, or to another robot's; left out"
                self.find("warning", element, reason)
            elif data[1] != 0.0:
                zero = [float(m.qpos0[m.jnt_qposadr[j]]) for j in (follower, leader)]
                self.joints[follower].mimic = leader, data[1], zero[0] + data[0] - data[1] * zero[1]

    def free_of(self, joint: int) -> tuple[int, float]:
        """The joint whose coordinate moves this one, and how many times as fast this one moves."""
        rate, seen = 1.0, set[int]()
        while (mimic := self.joints[joint].mimic) is not None and joint not in seen:
            seen.add(joint)
            joint, rate = mimic[0], rate * mimic[1]
        return joint, rate

    # -- what acts on joints ---------------------------------------------------------------------------------
    def driven(self, actuator: int) -> list[int]:
        """The joints that an actuator turns: one, or those of its fixed tendon."""
        m, kinds = self.model, self.mujoco.mjtTrn
        target = int(m.actuator_trnid[actuator][0])
        if _one_of(m.actuator_trntype[actuator], kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
            return [target]
        return list(self.wrapped(target)) if m.actuator_trntype[actuator] == kinds.mjTRN_TENDON else []

    def wrapped(self, tendon: int) -> dict[int, float]:
        """The joints of a fixed tendon, and their coefficients; none of a spatial one."""
        m = self.model
        at, count = int(m.tendon_adr[tendon]), int(m.tendon_num[tendon])
        parts = range(at, at + count)
        if any(m.wrap_type[i] != self.mujoco.mjtWrap.mjWRAP_JOINT for i in parts):
            return {}
        return {int(m.wrap_objid[i]): float(m.wrap_prm[i]) for i in parts}

    def strength(self, actuator: int, element: str) -> float:
        """Largest force of an actuator before its gear, the same both ways; infinite without a limit."""
        m = self.model
        low, high = -math.inf, math.inf
        if m.actuator_ctrllimited[actuator] and m.actuator_biastype[actuator] == self.mujoco.mjtBias.mjBIAS_NONE:
            if m.actuator_gaintype[actuator] == self.mujoco.mjtGain.mjGAIN_FIXED:
                gain = float(m.actuator_gainprm[actuator][0])
                dynamics = self.mujoco.mjtDyn
                if _one_of(m.actuator_dyntype[actuator], dynamics.mjDYN_NONE, dynamics.mjDYN_FILTER):
                    low, high = sorted(gain * float(x) for x in m.actuator_ctrlrange[actuator])
        if m.actuator_forcelimited[actuator]:
            low = max(low, float(m.actuator_forcerange[actuator][0]))
            high = min(high, float(m.actuator_forcerange[actuator][1]))
        return self.magnitude(low, high, element)

    def magnitude(self, low: float, high: float, element: str) -> float:
        """One limit for both directions: the smaller one, or the larger where the other is 0."""
        sizes = sorted((abs(low), abs(high)))
        if sizes[1] - sizes[0] > 1e-9 * sizes[0] and not math.isinf(sizes[0]):
            chosen = sizes[0] or sizes[1]
            self.find("warning", element, f"forces from {low:g} to {high:g}; {chosen:g} is taken for both directions")
            return chosen
        return sizes[0]

    def actuators(self) -> None:
        """Effort limits of the joints; without an actuator in the file, joints are driven without a limit."""
        m, kinds = self.model, self.mujoco.mjtTrn
        others: list[str] = []
        count = 0
        for i in range(m.nu):
            name = m.actuator(i).name or f"actuator_{i}"
            element = f'<actuator name="{name}">'
            gear = float(m.actuator_gear[i][0])
            drives = [j for j in self.driven(i) if j in self.joints]
            if not drives or any(m.jnt_type[j] == self.kinds.mjJNT_FREE for j in drives):
                others.append(name)
                continue
            count += 1
            target, rate = self.free_of(drives[0])
            if m.actuator_trntype[i] == kinds.mjTRN_TENDON:
                tendon = int(m.actuator_trnid[i][0])
                parts = [(*self.free_of(j), c) for j, c in self.wrapped(tendon).items() if j in self.joints]
                if {part[0] for part in parts} != {target}:
                    raise self.refuse(
                        f'<fixed name="{m.tendon(tendon).name}">',
                        f"a tendon, pulled by actuator {name!r}, moves joints that are independent "
                        f"({self.listed(drives)}), and tendons are not modelled",
                        "drive the joints themselves, or couple them by <equality>",
                    )
                rate = sum(one_rate * coefficient for _, one_rate, coefficient in parts)
            data = self.joints[target]
            if gear * rate != 0.0:
                data.effort += abs(gear * rate) * self.strength(i, element)
            data.armature += gear**2 * rate**2 * float(getattr(m, "actuator_armature", np.zeros(m.nu))[i])
            data.damping += gear**2 * rate**2 * float(np.ravel(getattr(m, "actuator_damping", np.zeros(m.nu))[i])[0])
        if others:
            names = ", ".join(others[:LISTED]) + (f" and {len(others) - LISTED} more" if len(others) > LISTED else "")
            self.find("warning", "<actuator>", f"{names}: actuators that turn no joint of the robot; left out")
        for j, data in self.joints.items():
            if not count:
                data.effort = math.inf
            if m.jnt_actfrclimited[j]:
                low, high = (float(x) for x in m.jnt_actfrcrange[j])
                data.effort = min(data.effort, self.magnitude(low, high, f'<joint name="{data.name}">'))

    def tendons(self) -> None:
        """Refuse tendons that pull, brake or limit joints of the robot."""
        m, kinds = self.model, self.mujoco.mjtEq
        tied = {int(m.eq_obj1id[e]) for e in range(m.neq) if m.eq_type[e] == kinds.mjEQ_TENDON and m.eq_active0[e]}
        pulled = {
            int(m.actuator_trnid[i][0]) for i in range(m.nu) if m.actuator_trntype[i] == self.mujoco.mjtTrn.mjTRN_TENDON
        }
        for t in range(m.ntendon):
            joints = self.wrapped(t)
            if joints and not set(joints) & set(self.joints):
                continue
            does = [
                word
                for word, attribute in (
                    ("a spring", "stiffness"),
                    ("damping", "damping"),
                    ("friction", "frictionloss"),
                    ("inertia", "armature"),
                    ("limits", "limited"),
                )
                if np.any(getattr(m, f"tendon_{attribute}", np.zeros(m.ntendon))[t])
            ]
            does += ["an equality constraint"] if t in tied else []
            does += ["an actuator"] if t in pulled and not joints else []
            if does:
                raise self.refuse(
                    f'<tendon name="{m.tendon(t).name}">',
                    f"a tendon with {', '.join(does)}, and tendons are not modelled",
                    "remove it, or replace it by actuators of joints and by <equality><joint .../>",
                )

    def losses(self) -> None:
        """Damping and rotor inertia of the joints themselves."""
        m = self.model
        for j, data in self.joints.items():
            at = int(m.jnt_dofadr[j])
            data.damping += float(m.dof_damping[at])
            data.armature += float(m.dof_armature[at])

    # -- bodies ----------------------------------------------------------------------------------------------
    def body(self, root: Element, b: int, links: _Names, joint_names: _Names) -> None:
        """The link of a body, and the chain of its joints above: one frame each at the joint's anchor."""
        m = self.model
        name, parent = self.links[b], self.links[int(m.body_parentid[b])]
        placement = _pose(m.body_pos[b], m.body_quat[b])
        first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
        joints = list(range(first, first + count))
        link = SubElement(root, "link", name=name)
        self.inertial(link, b)
        self.shapes(link, b)
        if not joints:
            _joint(root, joint_names.new(f"{name}_fixed", ""), "fixed", parent, name, placement)
            return
        if m.jnt_type[first] == self.kinds.mjJNT_FREE:
            _joint(root, self.joints[first].name, "floating", parent, name, placement)
            return
        for j in joints:
            anchor = Pose.of(np.eye(3), m.jnt_pos[j])
            last = j == joints[-1] and not np.any(m.jnt_pos[j])
            child = name if last else links.new(f"{name}_{self.joints[j].name}_link", "")
            if not last:
                SubElement(root, "link", name=child)
            self.moving(root, j, parent, child, placement @ anchor)
            parent, placement = child, anchor.inverse()
        if parent != name:
            _joint(root, joint_names.new(f"{name}_fixed", ""), "fixed", parent, name, placement)

    def moving(self, root: Element, j: int, parent: str, child: str, placement: Pose) -> None:
        """A hinge or slide."""
        m, data = self.model, self.joints[j]
        axis, zero = np.array(m.jnt_axis[j]), float(m.qpos0[m.jnt_qposadr[j]])
        limited = bool(m.jnt_limited[j])
        low, high = (float(x) for x in m.jnt_range[j]) if limited else (-UNLIMITED, UNLIMITED)
        if m.jnt_type[j] == self.kinds.mjJNT_SLIDE:
            kind, before = "prismatic", Pose.of(np.eye(3), -zero * axis)
        else:
            kind = "revolute" if limited else "continuous"
            before = Pose.of(_about(axis, -zero), np.zeros(3))
        joint = _joint(root, data.name, kind, parent, child, placement @ before if zero else placement)
        SubElement(joint, "axis", xyz=_words(axis))
        effort = _word(data.effort if math.isfinite(data.effort) else UNLIMITED)
        SubElement(joint, "limit", lower=_word(low), upper=_word(high), effort=effort, velocity=_word(UNLIMITED))
        friction = float(m.dof_frictionloss[m.jnt_dofadr[j]])
        if data.damping or friction or data.armature:
            numbers = {"damping": data.damping, "friction": friction, "armature": data.armature}
            SubElement(joint, "dynamics", {k: _word(value) for k, value in numbers.items()})
        if data.mimic is not None:
            leader, multiplier, offset = data.mimic
            numbers = {"multiplier": multiplier, "offset": offset}
            words = {k: _word(value) for k, value in numbers.items()}
            SubElement(joint, "mimic", {"joint": self.joints[leader].name} | words)

    def inertial(self, link: Element, b: int) -> None:
        m = self.model
        mass, moments = float(m.body_mass[b]), np.array(m.body_inertia[b])
        if mass == 0.0 and not moments.any():
            return
        R = _rotation(m.body_iquat[b])
        about = (R * moments) @ R.T
        element = SubElement(link, "inertial")
        SubElement(element, "origin", xyz=_words(m.body_ipos[b]))
        SubElement(element, "mass", value=_word(mass))
        entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        tensor = 0.5 * (about + about.T)
        SubElement(element, "inertia", {k: _word(tensor[at]) for k, at in entries.items()})

    # -- shapes ----------------------------------------------------------------------------------------------
    def shapes(self, link: Element, b: int) -> None:
        """Geoms that touch are collision shapes, and those that MuJoCo draws are visual ones."""
        m = self.model
        at, count = int(m.body_geomadr[b]), int(m.body_geomnum[b])
        pairs = {int(g) for p in range(m.npair) for g in (m.pair_geom1[p], m.pair_geom2[p])}
        for g in range(at, at + count):
            touches = bool(m.geom_contype[g] or m.geom_conaffinity[g]) or g in pairs
            drawn = int(m.geom_group[g]) < DRAWN_GROUPS
            for tag, wanted in (("visual", drawn), ("collision", touches)):
                if wanted:
                    self.shape(link, tag, g)

    def shape(self, link: Element, tag: str, g: int) -> None:
        m, kinds = self.model, self.mujoco.mjtGeom
        size = [float(x) for x in m.geom_size[g]]
        placement = _pose(m.geom_pos[g], m.geom_quat[g])
        kind = m.geom_type[g]
        shape: tuple[str, dict[str, str]]
        if kind == kinds.mjGEOM_SPHERE or (kind == kinds.mjGEOM_ELLIPSOID and size[0] == size[1] == size[2]):
            shape = "sphere", {"radius": _word(size[0])}
        elif kind == kinds.mjGEOM_BOX:
            shape = "box", {"size": _words([2.0 * x for x in size])}
        elif _one_of(kind, kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER):
            name = "capsule" if kind == kinds.mjGEOM_CAPSULE else "cylinder"
            shape = name, {"radius": _word(size[0]), "length": _word(2.0 * size[1])}
        elif _one_of(kind, kinds.mjGEOM_MESH, kinds.mjGEOM_SDF):
            found = self.mesh(int(m.geom_dataid[g]))
            if found is None:
                self.lost(tag, g, "a mesh without a file, or one that is turned and then stretched")
                return
            shape, own = found
            placement = placement @ own
        else:
            self.lost(tag, g, "a shape that URDF does not have (ellipsoid, plane or height field)")
            return
        element = SubElement(link, tag)
        _origin(element, placement)
        SubElement(SubElement(element, "geometry"), shape[0], shape[1])
        if tag == "visual":
            material = int(m.geom_matid[g])
            rgba = m.mat_rgba[material] if material >= 0 else m.geom_rgba[g]
            name = m.mat(material).name if material >= 0 else ""
            SubElement(SubElement(element, "material", name=name), "color", rgba=_words(rgba))

    def lost(self, tag: str, g: int, what: str) -> None:
        name = self.model.geom(g).name or self.links[int(self.model.geom_bodyid[g])]
        place = Where(self.file, 0, f'<geom name="{name}">')
        self.findings.append(Finding("warning", place, f"{tag}: {what}; left out", cosmetic=tag == "visual"))

    def mesh(self, number: int) -> tuple[tuple[str, dict[str, str]], Pose] | None:
        """A mesh, and the pose of its file's frame in MuJoCo's, whose origin is the centre of the mesh."""
        m = self.model
        file = self.meshes.get(m.mesh(number).name)
        if file is None:
            return None
        turn = _rotation(file.origin[1])
        x, y, z = file.scale
        if not (x == y == z or np.array_equal(turn, np.eye(3))):
            return None
        inner = Pose.of(turn.T, -np.array(file.scale) * (turn.T @ np.array(file.origin[0])))
        centred = _pose(m.mesh_pos[number], m.mesh_quat[number]).inverse()
        return ("mesh", {"filename": file.uri, "scale": _words(file.scale)}), centred @ inner

    # -- loops -----------------------------------------------------------------------------------------------
    def loops(self, root: Element, inside: set[int]) -> None:
        """Connect and weld constraints close loops."""
        m, kinds = self.model, self.mujoco.mjtEq
        names = _Names()
        for e in range(m.neq):
            if not _one_of(m.eq_type[e], kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
                continue
            kind = "spherical" if m.eq_type[e] == kinds.mjEQ_CONNECT else "fixed"
            name = m.equality(e).name
            one, two, data = int(m.eq_obj1id[e]), int(m.eq_obj2id[e]), np.array(m.eq_data[e])
            if m.eq_objtype[e] == self.mujoco.mjtObj.mjOBJ_SITE:
                ends = [(int(m.site_bodyid[s]), _pose(m.site_pos[s], m.site_quat[s])) for s in (one, two)]
            elif kind == "spherical":
                ends = [(one, Pose.of(np.eye(3), data[:3])), (two, Pose.of(np.eye(3), data[3:6]))]
            else:
                ends = [(one, _pose(data[3:6], data[6:10])), (two, Pose.of(np.eye(3), data[:3]))]
            element = f'<equality name="{name}">'
            bodies = {end[0] for end in ends}
            if not m.eq_active0[e] or not bodies & inside:
                continue
            if not bodies <= inside:
                reason = "closes a loop with the world or with a body that is not part of the robot; left out"
                self.find("warning", element, reason)
                continue
            loop = SubElement(root, "loop_joint", name=names.new(name, f"loop_{e}"), type=kind)
            for tag, (b, placement) in zip(("link1", "link2"), ends, strict=True):
                _placed(SubElement(loop, tag, link=self.links[b]), placement)

    # -- what remains ----------------------------------------------------------------------------------------
    def judge_options(self) -> None:
        m = self.model
        disabled = int(m.opt.disableflags) & int(self.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        gravity = np.zeros(3) if disabled else np.array(m.opt.gravity)
        if np.abs(gravity - GRAVITY).max() > GRAVITY_TOLERANCE:
            self.find("warning", "<option>", f"gravity={_words(gravity)} is not used; here it is 9.81 downwards")
        if held := [b for b in self.bodies if m.body_gravcomp[b]]:
            reason = f"gravity compensation of {len(held)} bodies ({self.links[held[0]]}, ...) is left out"
            self.find("warning", f'<body name="{self.links[held[0]]}">', reason, "add the torque in the controller")

    def home(self) -> HomePose | None:
        """The keyframe of this name."""
        m = self.model
        keys = [k for k in range(m.nkey) if m.key(k).name == HOME]
        if not keys:
            return None
        qpos = np.array(m.key_qpos[keys[0]])
        joints, position, orientation = {}, None, None
        for j, data in self.joints.items():
            at = int(m.jnt_qposadr[j])
            if m.jnt_type[j] == self.kinds.mjJNT_FREE:
                position, orientation = qpos[at : at + 3], _rotation(qpos[at + 3 : at + 7])
            else:
                joints[data.name] = float(qpos[at])
        return HomePose(joints, position, orientation)


def _one_of(value: object, *kinds: object) -> bool:
    """Whether a number is that of one of MuJoCo's constants, which do not equal it from their side."""
    return any(value == kind for kind in kinds)


def _robot_name(model: Any, file: str) -> str:
    """The model's name, or the file's where it has none."""
    name = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    return name if name and name != UNNAMED else file.removeprefix("<").rstrip(">").removesuffix(".xml") or "robot"


def _joint(root: Element, name: str, kind: str, parent: str, child: str, placement: Pose) -> Element:
    joint = SubElement(root, "joint", name=name, type=kind)
    _origin(joint, placement)
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    return joint


def _origin(element: Element, placement: Pose) -> None:
    if placement.translation.any() or not np.array_equal(placement.rotation, np.eye(3)):
        _placed(SubElement(element, "origin"), placement)


def _placed(element: Element, placement: Pose) -> None:
    element.set("xyz", _words(placement.translation))
    element.set("rpy", _words(rpy_from_rotation(placement.rotation)))


def _word(number: float) -> str:
    return repr(float(number) + 0.0)


def _words(numbers: Iterable[float]) -> str:
    return " ".join(map(_word, numbers))


def _pose(position: object, quaternion: object) -> Pose:
    return Pose.of(_rotation(quaternion), position)


def _rotation(quaternion: object) -> Array:
    """(3, 3) of a quaternion, scalar first, of any length."""
    w, x, y, z = np.asarray(quaternion, dtype=np.float64) / np.linalg.norm(np.asarray(quaternion, dtype=np.float64))
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def _about(axis: Array, angle: float) -> Array:
    """(3, 3) rotation by an angle [rad] about a unit axis."""
    return _rotation((math.cos(0.5 * angle), *(math.sin(0.5 * angle) * axis)))


def rpy_from_rotation(R: Array) -> tuple[float, float, float]:
    """Roll, pitch and yaw [rad] of a rotation matrix (3, 3), as exact at a pitch of 90 degrees as elsewhere."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    yaw = math.atan2(R[1, 0], R[0, 0])
    # Roll is what is left when yaw is taken out: whatever yaw rounding makes of it near 90 degrees, both fit together.
    c, s = math.cos(yaw), math.sin(yaw)
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw
