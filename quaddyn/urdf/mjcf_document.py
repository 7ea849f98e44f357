"""Conversion of a compiled MJCF to a URDF document, which the URDF reader then reads.

The conversion preserves q: the frame of a link is the frame of its MuJoCo body, and the zero of a joint is MuJoCo's.
Source: the XML reference of MuJoCo's documentation, and its section on computation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from ..errors import ModelError, UnknownNameError
from .meshes import MeshFinder
from .mjcf import ActuatorIndices, MeshFile, compile_mjcf, import_mujoco
from .srdf import NamedPose
from .tree import Array, Finding, Pose, Where

#: Limit written for a joint without one; the URDF reader treats limits of this size as infinite.
UNLIMITED = 1e9
WORLD = "world"
#: Number of geom groups that MuJoCo draws by default (groups 0, 1 and 2).
N_DRAWN_GROUPS = 3
#: Gravity of this package [m/s^2], and the difference from it above which the gravity of a file is reported.
GRAVITY, GRAVITY_TOLERANCE = (0.0, 0.0, -9.81), 1e-2
#: Maximum number of names in the text of a finding.
MAX_LISTED_NAMES = 4
#: Name that MuJoCo gives to a model without a name.
DEFAULT_MODEL_NAME = "MuJoCo Model"


@dataclass(frozen=True, slots=True)
class UrdfDocument:
    """Result of the conversion of an MJCF."""

    text: str  # the URDF document
    findings: tuple[Finding, ...]  # warnings and notes about elements of the MJCF that were left out or changed
    poses: Mapping[str, NamedPose]  # keyframes that have a name


def urdf_of_mjcf(data: bytes | str, name: str, finder: MeshFinder, body: str | None = None) -> UrdfDocument:
    """Converts an MJCF to a URDF document.

    Args:
        data: text of the MJCF.
        name: name of the MJCF, for messages.
        finder: finds included files and meshes.
        body: name of the child of the world body that is the robot; None to choose it.

    Raises:
        ModelError: MuJoCo is not installed or rejects the document; or the document has elements that affect the
            dynamics and have no counterpart in a URDF: tendons with inertia, or several robots.
        UnknownNameError: the world has no child of the name `body`.
    """
    model, meshes = compile_mjcf(data, name, finder)
    return _UrdfWriter(model, meshes, name).document(body)


@dataclass(slots=True)
class _JointData:
    """Data of a MuJoCo joint that are written to the URDF."""

    name: str  # name of the joint in the URDF
    effort: float = 0.0  # effort limit [N m or N]
    # index of the leading joint, multiplier and offset [rad or m]; None for an independent joint
    mimic: tuple[int, float, float] | None = None
    armature: float = 0.0  # rotor inertia seen at the joint [kg m^2 or kg]
    damping: float = 0.0  # viscous damping [N m s/rad or N s/m]
    hinge_names: tuple[str, ...] = ()  # names of the three hinges of a ball joint


@dataclass(slots=True)
class _UniqueNames:
    """Set of used names, which makes further names unique."""

    used: set[str] = field(default_factory=set)

    def make_unique(self, preferred: str, fallback: str) -> str:
        """Returns `preferred`, or `fallback` if it is empty, with a suffix if the name is used already."""
        name, number = preferred or fallback, 2
        while name in self.used:
            name, number = f"{preferred or fallback}_{fallback if number == 2 and preferred else number}", number + 1
        self.used.add(name)
        return name


class _UrdfWriter:
    """Writer of the URDF document of one MJCF.

    Attributes:
        mujoco: the module mujoco.
        model: the compiled `mujoco.MjModel`.
        meshes: mesh files by mesh name.
        file: name of the MJCF, for messages.
        findings: warnings and notes so far.
        kinds: MuJoCo's joint types.
        spatial_kinds: types of joints with 3 or 6 degrees of freedom.
        n_actuators: number of actuators.
        actuator_indices: indices of their controls and outputs.
    """

    def __init__(self, model: Any, meshes: Mapping[str, MeshFile], file: str) -> None:
        self.mujoco, self.model, self.meshes, self.file = import_mujoco(), model, meshes, file
        self.findings: list[Finding] = []
        self.kinds = self.mujoco.mjtJoint
        self.spatial_kinds = (self.kinds.mjJNT_FREE, self.kinds.mjJNT_BALL)
        self.n_actuators = len(model.actuator_trntype)
        self.actuator_indices = ActuatorIndices.of_model(model)

    # -- document -------------------------------------------------------------------------------------------
    def document(self, body: str | None = None) -> UrdfDocument:
        """Converts the whole model, or the robot that is the child `body` of the world body."""
        m = self.model
        root_bodies = self.find_robot_roots(body)
        self.bodies = [b for b in range(1, m.nbody) if int(m.body_rootid[b]) in root_bodies]
        robot_bodies = set(self.bodies)
        links = _UniqueNames({WORLD})
        self.links = {0: WORLD} | {b: links.make_unique(m.body(b).name, f"body_{b}") for b in self.bodies}
        joint_names = _UniqueNames()
        self.joints = {
            j: _JointData(joint_names.make_unique(m.joint(j).name, f"{self.links[int(m.jnt_bodyid[j])]}_joint"))
            for j in range(m.njnt)
            if int(m.jnt_bodyid[j]) in robot_bodies
        }
        for j, data in self.joints.items():
            if m.jnt_type[j] == self.kinds.mjJNT_BALL:
                data.hinge_names = tuple(joint_names.make_unique(f"{data.name}_{axis}", "") for axis in "xyz")
        self.check_joints()
        self.read_couplings()
        self.read_actuators()
        self.read_tendons()
        self.read_losses()
        root = Element("robot", name=_robot_name(m, self.file))
        SubElement(root, "link", name=WORLD)
        for b in self.bodies:
            self.write_body(root, b, links, joint_names)
        for s in range(m.nsite):
            if int(m.site_bodyid[s]) in robot_bodies:
                name = links.make_unique(m.site(s).name, f"site_{s}")
                SubElement(root, "link", name=name)
                parent = self.links[int(m.site_bodyid[s])]
                placement = _make_pose(m.site_pos[s], m.site_quat[s])
                _add_joint(root, joint_names.make_unique(f"{name}_fixed", ""), "fixed", parent, name, placement)
        self.write_loops(root, robot_bodies)
        self.check_options()
        indent(root)
        return UrdfDocument(tostring(root, encoding="unicode"), tuple(self.findings), self.read_poses())

    def find_robot_roots(self, body: str | None = None) -> set[int]:
        """Returns the children of the world body that are the robot: those with actuators, otherwise with joints.

        If one of them has a free joint and more joints than all others, it alone is the robot; the child with the name
        `body` is in any case.
        """
        m = self.model
        root_bodies = [b for b in range(1, m.nbody) if int(m.body_parentid[b]) == 0]
        if not root_bodies:
            raise ModelError(f"{self.file}: the file has no <body>; is this a scene without a robot?")
        joints = {b: [j for j in range(m.njnt) if int(m.body_rootid[m.jnt_bodyid[j]]) == b] for b in root_bodies}
        moving = [b for b in root_bodies if joints[b]] or root_bodies
        driven_joints = {int(j) for i in range(self.n_actuators) for j in self.actuated_joints(i)}
        driven = [b for b in moving if driven_joints & set(joints[b])]
        articulated = [b for b in moving if any(m.jnt_type[j] != self.kinds.mjJNT_FREE for j in joints[b])]
        chosen = driven or articulated or moving
        floating = [b for b in chosen if any(m.jnt_type[j] == self.kinds.mjJNT_FREE for j in joints[b])]
        if len(floating) == 1 and 2 * (len(joints[floating[0]]) - 1) > sum(len(joints[b]) for b in chosen) - 1:
            chosen = floating
        if body is not None:
            names_of_roots = {m.body(b).name or f"body_{b}": b for b in root_bodies}
            if body not in names_of_roots:
                raise UnknownNameError("body attached to the world", body, names_of_roots)
            chosen = [names_of_roots[body]]
        elif floating and len(chosen) > 1:
            names = _list_names([repr(m.body(b).name or f"body_{b}") for b in chosen])
            raise ModelError(
                f"{self.file}: {len(chosen)} bodies attached to the world may be the robot ({names}), and "
                f"{len(floating)} of them have a free joint; pass the name of one of them as body="
            )
        if left := [b for b in root_bodies if b not in chosen]:
            names = ", ".join(repr(m.body(b).name) for b in left[:MAX_LISTED_NAMES]) + (
                ", ..." if len(left) > MAX_LISTED_NAMES else ""
            )
            count = (
                f"{len(left)} bodies attached to the world are" if len(left) > 1 else "a body attached to the world is"
            )
            level = "warning" if any(joints[b] for b in left) else "note"
            self.report(level, "<worldbody>", f"{count} not part of the robot and left out: {names}")
        return set(chosen)

    def report(self, level: str, element: str, reason: str, advice: str = "") -> None:
        """Adds a finding about an element of the MJCF."""
        self.findings.append(Finding(level, Where(self.file, 0, element), reason, advice))

    def make_error(self, element: str, reason: str, advice: str) -> ModelError:
        """Returns the error for an element that cannot be converted."""
        return ModelError(f"{Where(self.file, 0, element)}: {reason}; {advice}")

    def list_joints(self, joints: Iterable[int]) -> str:
        """Returns the names of the first joints, and the number of the others."""
        return _list_names([self.joints[j].name for j in joints])

    # -- joints ----------------------------------------------------------------------------------------------
    def check_joints(self) -> None:
        """Reports ball joints, springs, nonlinear damping, and joint dynamics of a floating base."""
        m = self.model
        balls = [j for j in self.joints if m.jnt_type[j] == self.kinds.mjJNT_BALL]
        if balls:
            reason = (
                f"the {len(balls)} ball joints ({self.list_joints(balls)}) become three hinges each, about x, y and z; "
                "the second one must stay away from 90 degrees, where the mass matrix is singular"
            )
            self.report("note", f'<joint name="{self.joints[balls[0]].name}">', reason)
        if lossy := [j for j in balls if m.dof_damping[m.jnt_dofadr[j]] or m.jnt_limited[j]]:
            reason = (
                f"damping of {self.list_joints(lossy)} acts on the three hinges instead of the angular velocity, and "
                "the limit of the angle of a ball joint is left out"
            )
            self.report("warning", f'<joint name="{self.joints[lossy[0]].name}">', reason)
        stiffness_coefficients = getattr(m, "jnt_stiffnesspoly", np.zeros(m.njnt))
        springs = [j for j in self.joints if m.jnt_stiffness[j] or np.any(stiffness_coefficients[j])]
        if springs:
            reason = (
                f"the springs of {len(springs)} joints ({self.list_joints(springs)}) are not supported and are left out"
            )
            self.report("warning", f'<joint name="{self.joints[springs[0]].name}">', reason)
        for j in self.joints:
            dof = int(m.jnt_dofadr[j])
            if m.jnt_type[j] != self.kinds.mjJNT_FREE:
                continue
            dynamics = {k: float(getattr(m, f"dof_{k}")[dof]) for k in ("armature", "damping", "frictionloss")}
            if any(dynamics.values()):
                given = ", ".join(f"{k}={value:g}" for k, value in dynamics.items() if value)
                self.report(
                    "warning",
                    f'<joint name="{self.joints[j].name}">',
                    f"{given} of a free joint: not supported and left out",
                )
        damping_coefficients = getattr(m, "dof_dampingpoly", np.zeros(m.nv))
        nonlinear_joints = [j for j in self.joints if np.any(damping_coefficients[m.jnt_dofadr[j]])]
        if nonlinear_joints:
            reason = f"the damping of {self.list_joints(nonlinear_joints)} is not linear; only its linear part is used"
            self.report("warning", f'<joint name="{self.joints[nonlinear_joints[0]].name}">', reason)

    def read_couplings(self) -> None:
        """Converts linear equality constraints between two joints to mimic joints."""
        m, kinds = self.model, self.mujoco.mjtEq
        for e in range(m.neq):
            if m.eq_type[e] != kinds.mjEQ_JOINT or int(m.eq_obj1id[e]) not in self.joints or not m.eq_active0[e]:
                continue
            follower, leader = int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
            data = [float(x) for x in m.eq_data[e][:5]]
            element = f'<equality><joint joint1="{self.joints[follower].name}">'
            if leader < 0:
                self.report(
                    "warning",
                    element,
                    "the constraint locks a joint at a fixed position; it is left out",
                    "change the joint to a fixed connection by removing <joint>",
                )
            elif any(data[2:]) or self.joints[follower].mimic is not None or leader not in self.joints:
                reason = (
                    "the coupling is left out, because it is not linear, is a second one of this joint, or "
                    "refers to a joint outside the robot"
                )
                self.report("warning", element, reason)
            elif data[1] != 0.0:
                zero = [float(m.qpos0[m.jnt_qposadr[j]]) for j in (follower, leader)]
                self.joints[follower].mimic = leader, data[1], zero[0] + data[0] - data[1] * zero[1]

    def find_independent_joint(self, joint: int) -> tuple[int, float]:
        """Returns the independent joint that a joint follows (itself if independent), and the ratio of their rates."""
        rate, visited = 1.0, set[int]()
        while (mimic := self.joints[joint].mimic) is not None and joint not in visited:
            visited.add(joint)
            joint, rate = mimic[0], rate * mimic[1]
        return joint, rate

    # -- actuators, tendons and joint dynamics --------------------------------------------------------------
    def actuated_joints(self, actuator: int) -> list[int]:
        """Returns the joints that an actuator drives: one, those of a fixed tendon, or none for other transmissions."""
        m, kinds = self.model, self.mujoco.mjtTrn
        target = int(m.actuator_trnid[actuator][0])
        if _is_one_of(m.actuator_trntype[actuator], kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
            return [target]
        return list(self.tendon_joints(target)) if m.actuator_trntype[actuator] == kinds.mjTRN_TENDON else []

    def tendon_joints(self, tendon: int) -> dict[int, float]:
        """Returns the coefficient of each joint of a fixed tendon; empty for a spatial tendon."""
        m = self.model
        first, count = int(m.tendon_adr[tendon]), int(m.tendon_num[tendon])
        wraps = range(first, first + count)
        if any(m.wrap_type[i] != self.mujoco.mjtWrap.mjWRAP_JOINT for i in wraps):
            return {}
        return {int(m.wrap_objid[i]): float(m.wrap_prm[i]) for i in wraps}

    def max_actuator_force(self, actuator: int, element: str) -> float:
        """Returns the symmetric force limit of an actuator before its gear [N m or N]; inf without a limit."""
        m = self.model
        low, high = -math.inf, math.inf
        indices = self.actuator_indices
        control = int(indices.first_control[actuator]) if indices.control_count[actuator] == 1 else None
        has_no_bias = m.actuator_biastype[actuator] == self.mujoco.mjtBias.mjBIAS_NONE
        if control is not None and m.actuator_ctrllimited[control] and has_no_bias:
            if m.actuator_gaintype[actuator] == self.mujoco.mjtGain.mjGAIN_FIXED:
                gain = float(m.actuator_gainprm[actuator][0])
                dynamics = self.mujoco.mjtDyn
                if _is_one_of(m.actuator_dyntype[actuator], dynamics.mjDYN_NONE, dynamics.mjDYN_FILTER):
                    low, high = sorted(gain * float(x) for x in m.actuator_ctrlrange[control])
        if m.actuator_forcelimited[actuator]:
            low = max(low, float(m.actuator_forcerange[actuator][0]))
            high = min(high, float(m.actuator_forcerange[actuator][1]))
        return self.symmetric_limit(low, high, element)

    def symmetric_limit(self, low: float, high: float, element: str) -> float:
        """Returns the smaller magnitude of two limits, or the larger one if the smaller is 0; reports a difference."""
        sizes = sorted((abs(low), abs(high)))
        if sizes[1] - sizes[0] > 1e-9 * sizes[0] and not math.isinf(sizes[0]):
            chosen = sizes[0] or sizes[1]
            self.report(
                "warning",
                element,
                f"the force limits {low:g} and {high:g} differ in magnitude; {chosen:g} is used in both directions",
            )
            return chosen
        return sizes[0]

    def read_actuators(self) -> None:
        """Computes the effort limits of the joints from their actuators; they are infinite without any actuator."""
        m, kinds = self.model, self.mujoco.mjtTrn
        omitted, combined = list[str](), dict[str, list[int]]()
        count = 0
        for i in range(self.n_actuators):
            name = m.actuator(i).name or f"actuator_{i}"
            element = f'<actuator name="{name}">'
            gear = float(m.actuator_gear[self.actuator_indices.first_output[i]][0])
            driven = [j for j in self.actuated_joints(i) if j in self.joints]
            if not driven or any(_is_one_of(m.jnt_type[j], *self.spatial_kinds) for j in driven):
                omitted.append(name)
                continue
            count += 1
            target, rate = self.find_independent_joint(driven[0])
            if m.actuator_trntype[i] == kinds.mjTRN_TENDON:
                tendon = int(m.actuator_trnid[i][0])
                terms = [
                    (*self.find_independent_joint(j), c)
                    for j, c in self.tendon_joints(tendon).items()
                    if j in self.joints
                ]
                if {term[0] for term in terms} != {target}:
                    combined[name] = driven
                    continue
                rate = sum(one_rate * coefficient for _, one_rate, coefficient in terms)
            data = self.joints[target]
            if gear * rate != 0.0:
                data.effort += abs(gear * rate) * self.max_actuator_force(i, element)
            armature, damping = (
                float(np.ravel(getattr(m, f"actuator_{k}", np.zeros(self.n_actuators))[i])[0])
                for k in ("armature", "damping")
            )
            data.armature += gear**2 * rate**2 * armature
            data.damping += gear**2 * rate**2 * damping
        if omitted:
            self.report(
                "warning",
                "<actuator>",
                f"the actuators {_list_names(omitted)} are left out, because they drive no joint of the robot",
            )
        if combined:
            joints = self.list_joints(dict.fromkeys(itertools.chain.from_iterable(combined.values())))
            self.report(
                "warning",
                "<actuator>",
                f"the actuators {_list_names(list(combined))} are left out, because each drives a combination of "
                f"joints by a tendon; {joints} have no motor unless another actuator drives them",
                "attach actuators to the joints, or couple the joints by <equality>",
            )
        for j, data in self.joints.items():
            if not count:
                data.effort = math.inf
            if m.jnt_actfrclimited[j]:
                low, high = (float(x) for x in m.jnt_actfrcrange[j])
                data.effort = min(data.effort, self.symmetric_limit(low, high, f'<joint name="{data.name}">'))

    def read_tendons(self) -> None:
        """Reports tendons whose forces on joints of the robot are left out.

        Raises:
            ModelError: the inertia of a tendon is part of the mass matrix.
        """
        m, kinds = self.model, self.mujoco.mjtEq
        constrained_tendons = {
            int(m.eq_obj1id[e]) for e in range(m.neq) if m.eq_type[e] == kinds.mjEQ_TENDON and m.eq_active0[e]
        }
        actuated_tendons = {
            int(m.actuator_trnid[i][0])
            for i in range(self.n_actuators)
            if m.actuator_trntype[i] == self.mujoco.mjtTrn.mjTRN_TENDON
        }
        left_out = dict[str, dict[str, None]]()
        for t in range(m.ntendon):
            joints, name = self.tendon_joints(t), m.tendon(t).name
            if joints and not set(joints) & set(self.joints):
                continue
            if np.any(getattr(m, "tendon_armature", np.zeros(m.ntendon))[t]):
                raise self.make_error(
                    f'<tendon name="{name}">', "a tendon with inertia is not supported", "remove its armature"
                )
            effects = [
                effect
                for effect, attribute in (
                    ("springs", "stiffness"),
                    ("damping", "damping"),
                    ("friction", "frictionloss"),
                    ("limits", "limited"),
                )
                if np.any(getattr(m, f"tendon_{attribute}", np.zeros(m.ntendon))[t])
            ]
            effects += ["equality constraints"] if t in constrained_tendons else []
            effects += ["actuators"] if t in actuated_tendons and not joints else []
            if effects:
                left_out[name or f"tendon_{t}"] = dict.fromkeys(effects)
        if left_out:
            effects = list(dict.fromkeys(itertools.chain.from_iterable(left_out.values())))
            self.report(
                "warning",
                "<tendon>",
                f"{', '.join(effects)} of the tendons {_list_names(list(left_out))} are left out: the dynamics contain "
                "no force of a tendon",
                "replace them by actuators, damping and limits of joints, or couple the joints by <equality>",
            )

    def read_losses(self) -> None:
        """Adds the damping and armature of the joints to those of their actuators."""
        m = self.model
        for j, data in self.joints.items():
            dof = int(m.jnt_dofadr[j])
            data.damping += float(m.dof_damping[dof])
            data.armature += float(m.dof_armature[dof])

    # -- bodies ----------------------------------------------------------------------------------------------
    def write_body(self, root: Element, b: int, links: _UniqueNames, joint_names: _UniqueNames) -> None:
        """Writes the link of body b and its joints; several joints become a chain of links at the joint anchors."""
        m = self.model
        name, parent = self.links[b], self.links[int(m.body_parentid[b])]
        placement = _make_pose(m.body_pos[b], m.body_quat[b])
        first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
        joints = list(range(first, first + count))
        link = SubElement(root, "link", name=name)
        self.write_inertial(link, b)
        self.write_shapes(link, b)
        if not joints:
            _add_joint(root, joint_names.make_unique(f"{name}_fixed", ""), "fixed", parent, name, placement)
            return
        if m.jnt_type[first] == self.kinds.mjJNT_FREE:
            _add_joint(root, self.joints[first].name, "floating", parent, name, placement)
            return
        for j in joints:
            anchor = Pose.of(np.eye(3), m.jnt_pos[j])
            last = j == joints[-1] and not np.any(m.jnt_pos[j])
            child = name if last else links.make_unique(f"{name}_{self.joints[j].name}_link", "")
            if not last:
                SubElement(root, "link", name=child)
            placement = placement @ anchor
            is_ball = m.jnt_type[j] == self.kinds.mjJNT_BALL
            names = self.joints[j].hinge_names or (self.joints[j].name,)
            for k, (joint, axis) in enumerate(zip(names, np.eye(3) if is_ball else [m.jnt_axis[j]], strict=True)):
                end = child if k == len(names) - 1 else links.make_unique(f"{joint}_link", "")
                if end != child:
                    SubElement(root, "link", name=end)
                self.write_joint(root, j, joint, np.array(axis), parent, end, placement)
                parent, placement = end, Pose.of(np.eye(3), np.zeros(3))
            placement = anchor.inverse()
        if parent != name:
            _add_joint(root, joint_names.make_unique(f"{name}_fixed", ""), "fixed", parent, name, placement)

    def write_joint(
        self, root: Element, j: int, name: str, axis: Array, parent: str, child: str, placement: Pose
    ) -> None:
        """Writes hinge or slide joint j, or one hinge of ball joint j.

        Args:
            root: root element of the URDF.
            j: index of the joint.
            name: name of the joint in the URDF.
            axis: (3,) axis in the child's frame.
            parent: name of the parent link.
            child: name of the child link.
            placement: placement of the child in the parent at ``qpos0``.
        """
        m, data = self.model, self.joints[j]
        is_ball = m.jnt_type[j] == self.kinds.mjJNT_BALL
        zero = 0.0 if is_ball else float(m.qpos0[m.jnt_qposadr[j]])
        limited = bool(m.jnt_limited[j]) and not is_ball
        low, high = (float(x) for x in m.jnt_range[j]) if limited else (-UNLIMITED, UNLIMITED)
        if m.jnt_type[j] == self.kinds.mjJNT_SLIDE:
            kind, zero_offset = "prismatic", Pose.of(np.eye(3), -zero * axis)
        else:
            kind = "revolute" if limited else "continuous"
            zero_offset = Pose.of(_rotation_about_axis(axis, -zero), np.zeros(3))
        joint = _add_joint(root, name, kind, parent, child, placement @ zero_offset if zero else placement)
        SubElement(joint, "axis", xyz=_format_numbers(axis))
        effort = _format_number(data.effort if math.isfinite(data.effort) else UNLIMITED)
        SubElement(
            joint,
            "limit",
            lower=_format_number(low),
            upper=_format_number(high),
            effort=effort,
            velocity=_format_number(UNLIMITED),
        )
        friction = float(m.dof_frictionloss[m.jnt_dofadr[j]])
        if data.damping or friction or data.armature:
            numbers = {"damping": data.damping, "friction": friction, "armature": data.armature}
            SubElement(joint, "dynamics", {k: _format_number(value) for k, value in numbers.items()})
        if data.mimic is not None:
            leader, multiplier, offset = data.mimic
            numbers = {"multiplier": multiplier, "offset": offset}
            words = {k: _format_number(value) for k, value in numbers.items()}
            SubElement(joint, "mimic", {"joint": self.joints[leader].name} | words)

    def write_inertial(self, link: Element, b: int) -> None:
        """Writes mass, center of mass and inertia of body b; nothing for a body without mass and inertia."""
        m = self.model
        mass, moments = float(m.body_mass[b]), np.array(m.body_inertia[b])
        if mass == 0.0 and not moments.any():
            return
        R = _rotation_from_quaternion(m.body_iquat[b])
        inertia = (R * moments) @ R.T  # about the center of mass, in the axes of the body
        element = SubElement(link, "inertial")
        SubElement(element, "origin", xyz=_format_numbers(m.body_ipos[b]))
        SubElement(element, "mass", value=_format_number(mass))
        entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        symmetric = 0.5 * (inertia + inertia.T)
        SubElement(element, "inertia", {k: _format_number(symmetric[index]) for k, index in entries.items()})

    # -- shapes ----------------------------------------------------------------------------------------------
    def write_shapes(self, link: Element, b: int) -> None:
        """Writes the geoms of body b: those that can collide as <collision>, those that MuJoCo draws as <visual>."""
        m = self.model
        first, count = int(m.body_geomadr[b]), int(m.body_geomnum[b])
        pairs = {int(g) for p in range(m.npair) for g in (m.pair_geom1[p], m.pair_geom2[p])}
        for g in range(first, first + count):
            can_collide = bool(m.geom_contype[g] or m.geom_conaffinity[g]) or g in pairs
            is_drawn = int(m.geom_group[g]) < N_DRAWN_GROUPS
            for tag, is_needed in (("visual", is_drawn), ("collision", can_collide)):
                if is_needed:
                    self.write_shape(link, tag, g)

    def write_shape(self, link: Element, tag: str, g: int) -> None:
        """Writes geom g as the shape of a <visual> or <collision>; reports a shape that a URDF cannot have."""
        m, kinds = self.model, self.mujoco.mjtGeom
        size = [float(x) for x in m.geom_size[g]]
        placement = _make_pose(m.geom_pos[g], m.geom_quat[g])
        kind = m.geom_type[g]
        shape: tuple[str, dict[str, str]]
        if kind == kinds.mjGEOM_SPHERE or (kind == kinds.mjGEOM_ELLIPSOID and size[0] == size[1] == size[2]):
            shape = "sphere", {"radius": _format_number(size[0])}
        elif kind == kinds.mjGEOM_BOX:
            shape = "box", {"size": _format_numbers([2.0 * x for x in size])}
        elif _is_one_of(kind, kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER):
            name = "capsule" if kind == kinds.mjGEOM_CAPSULE else "cylinder"
            shape = name, {"radius": _format_number(size[0]), "length": _format_number(2.0 * size[1])}
        elif _is_one_of(kind, kinds.mjGEOM_MESH, kinds.mjGEOM_SDF):
            converted = self.convert_mesh(int(m.geom_dataid[g]))
            if converted is None:
                self.report_omitted_shape(
                    tag, g, "a mesh without a file, or with both a rotation and a scale that differs between the axes"
                )
                return
            shape, file_placement = converted
            placement = placement @ file_placement
        else:
            self.report_omitted_shape(tag, g, "a shape that URDF does not have (ellipsoid, plane or height field)")
            return
        element = SubElement(link, tag)
        _add_origin(element, placement)
        SubElement(SubElement(element, "geometry"), shape[0], shape[1])
        if tag == "visual":
            material = int(m.geom_matid[g])
            rgba = m.mat_rgba[material] if material >= 0 else m.geom_rgba[g]
            name = m.mat(material).name if material >= 0 else ""
            SubElement(SubElement(element, "material", name=name), "color", rgba=_format_numbers(rgba))

    def report_omitted_shape(self, tag: str, g: int, shape: str) -> None:
        """Reports that geom g is left out; `shape` describes it."""
        name = self.model.geom(g).name or self.links[int(self.model.geom_bodyid[g])]
        where = Where(self.file, 0, f'<geom name="{name}">')
        self.findings.append(
            Finding("warning", where, f"{tag}: {shape} is not supported and is left out", cosmetic=tag == "visual")
        )

    def convert_mesh(self, number: int) -> tuple[tuple[str, dict[str, str]], Pose] | None:
        """Returns tag and attributes of a mesh, and the pose of its file's frame in the geom frame of MuJoCo.

        MuJoCo moves the origin of a mesh to its center of mass and aligns its axes with those of its inertia.
        Returns None for a mesh without a file, or with a rotation and a scale that differs between the axes.
        """
        m = self.model
        file = self.meshes.get(m.mesh(number).name)
        if file is None:
            return None
        R_origin = _rotation_from_quaternion(file.origin[1])
        x, y, z = file.scale
        if not (x == y == z or np.array_equal(R_origin, np.eye(3))):
            return None
        origin_to_file = Pose.of(R_origin.T, -np.array(file.scale) * (R_origin.T @ np.array(file.origin[0])))
        file_frame = _make_pose(m.mesh_pos[number], m.mesh_quat[number]).inverse()
        return ("mesh", {"filename": file.uri, "scale": _format_numbers(file.scale)}), file_frame @ origin_to_file

    # -- loops -----------------------------------------------------------------------------------------------
    def write_loops(self, root: Element, robot_bodies: set[int]) -> None:
        """Writes connect and weld constraints as loop closures; reports those to the world or to other bodies."""
        m, kinds = self.model, self.mujoco.mjtEq
        names = _UniqueNames()
        for e in range(m.neq):
            if not _is_one_of(m.eq_type[e], kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
                continue
            kind = "spherical" if m.eq_type[e] == kinds.mjEQ_CONNECT else "fixed"
            name = m.equality(e).name
            one, two, data = int(m.eq_obj1id[e]), int(m.eq_obj2id[e]), np.array(m.eq_data[e])
            if m.eq_objtype[e] == self.mujoco.mjtObj.mjOBJ_SITE:
                ends = [(int(m.site_bodyid[s]), _make_pose(m.site_pos[s], m.site_quat[s])) for s in (one, two)]
            elif kind == "spherical":
                ends = [(one, Pose.of(np.eye(3), data[:3])), (two, Pose.of(np.eye(3), data[3:6]))]
            else:
                ends = [(one, _make_pose(data[3:6], data[6:10])), (two, Pose.of(np.eye(3), data[:3]))]
            element = f'<equality name="{name}">'
            bodies = {end[0] for end in ends}
            if not m.eq_active0[e] or not bodies & robot_bodies:
                continue
            if not bodies <= robot_bodies:
                reason = (
                    "the constraint is left out, because it closes a loop with the world or with a body that is "
                    "not part of the robot"
                )
                self.report("warning", element, reason)
                continue
            loop = SubElement(root, "loop_joint", name=names.make_unique(name, f"loop_{e}"), type=kind)
            for tag, (b, placement) in zip(("link1", "link2"), ends, strict=True):
                _set_placement(SubElement(loop, tag, link=self.links[b]), placement)

    # -- options and keyframe ----------------------------------------------------------------------------------------
    def check_options(self) -> None:
        """Reports another gravity than that of this package, and gravity compensation."""
        m = self.model
        disabled = int(m.opt.disableflags) & int(self.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        gravity = np.zeros(3) if disabled else np.array(m.opt.gravity)
        if np.abs(gravity - GRAVITY).max() > GRAVITY_TOLERANCE:
            self.report(
                "warning",
                "<option>",
                f"gravity={_format_numbers(gravity)} is not used; quaddyn uses 9.81 m/s^2 along -z",
            )
        if compensated := [b for b in self.bodies if m.body_gravcomp[b]]:
            reason = (
                f"gravity compensation of {len(compensated)} bodies ({self.links[compensated[0]]}, ...) is left out"
            )
            self.report(
                "warning", f'<body name="{self.links[compensated[0]]}">', reason, "add the torque in the controller"
            )

    def read_poses(self) -> dict[str, NamedPose]:
        """Returns the keyframes that have a name; of several with one name the first."""
        m = self.model
        poses: dict[str, NamedPose] = {}
        for k in range(m.nkey):
            if m.key(k).name:
                poses.setdefault(m.key(k).name, self.read_pose(np.array(m.key_qpos[k])))
        return poses

    def read_pose(self, qpos: Array) -> NamedPose:
        """Returns the pose of MuJoCo's positions `qpos`."""
        m = self.model
        joints: dict[str, float] = {}
        position, orientation = None, None
        for j, data in self.joints.items():
            start = int(m.jnt_qposadr[j])
            if m.jnt_type[j] == self.kinds.mjJNT_FREE:
                position, orientation = qpos[start : start + 3], _rotation_from_quaternion(qpos[start + 3 : start + 7])
            elif data.hinge_names:  # R = Rx(x) Ry(y) Rz(z), and its transpose is Rz(-z) Ry(-y) Rx(-x)
                angles = rpy_from_rotation(_rotation_from_quaternion(qpos[start : start + 4]).T)
                joints |= {name: 0.0 - angle for name, angle in zip(data.hinge_names, angles, strict=True)}
            else:
                joints[data.name] = float(qpos[start])
        return NamedPose(joints, position, orientation)


def _list_names(names: Sequence[str]) -> str:
    """Returns the first names, and the number of the others."""
    n_others = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {n_others} more" if n_others > 0 else "")


def _is_one_of(value: object, *kinds: object) -> bool:
    """Returns whether a number equals one of MuJoCo's enumerators (``enumerator == number`` would be false)."""
    return any(value == kind for kind in kinds)


def _robot_name(model: Any, file: str) -> str:
    """Returns the name of the model, or of the file if the model has none."""
    name = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    return (
        name
        if name and name != DEFAULT_MODEL_NAME
        else file.removeprefix("<").rstrip(">").removesuffix(".xml") or "robot"
    )


def _add_joint(root: Element, name: str, kind: str, parent: str, child: str, placement: Pose) -> Element:
    """Adds a joint with its origin, parent and child."""
    joint = SubElement(root, "joint", name=name, type=kind)
    _add_origin(joint, placement)
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    return joint


def _add_origin(element: Element, placement: Pose) -> None:
    """Adds an <origin>, unless the placement is the identity."""
    if placement.translation.any() or not np.array_equal(placement.rotation, np.eye(3)):
        _set_placement(SubElement(element, "origin"), placement)


def _set_placement(element: Element, placement: Pose) -> None:
    """Sets the attributes xyz and rpy."""
    element.set("xyz", _format_numbers(placement.translation))
    element.set("rpy", _format_numbers(rpy_from_rotation(placement.rotation)))


def _format_number(number: float) -> str:
    """Returns a number with all digits; -0 as 0."""
    return repr(float(number) + 0.0)


def _format_numbers(numbers: Iterable[float]) -> str:
    """Returns numbers with all digits, separated by blanks."""
    return " ".join(map(_format_number, numbers))


def _make_pose(position: object, quaternion: object) -> Pose:
    """Returns the pose with a position [m] and a quaternion (w, x, y, z)."""
    return Pose.of(_rotation_from_quaternion(quaternion), position)


def _rotation_from_quaternion(quaternion: object) -> Array:
    """Returns the rotation matrix (3, 3) of a quaternion (w, x, y, z) of any norm but zero."""
    w, x, y, z = np.asarray(quaternion, dtype=np.float64) / np.linalg.norm(np.asarray(quaternion, dtype=np.float64))
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def _rotation_about_axis(axis: Array, angle: float) -> Array:
    """Returns the matrix (3, 3) of the rotation by an angle [rad] about a unit axis."""
    return _rotation_from_quaternion((math.cos(0.5 * angle), *(math.sin(0.5 * angle) * axis)))


def rpy_from_rotation(R: Array) -> tuple[float, float, float]:
    """Returns roll, pitch and yaw [rad] of a rotation matrix (3, 3), accurate also near a pitch of 90 degrees."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    yaw = math.atan2(R[1, 0], R[0, 0])
    # Roll is computed from Rz(-yaw) R: near a pitch of 90 degrees rounding determines yaw, and roll matches it.
    c, s = math.cos(yaw), math.sin(yaw)
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw
