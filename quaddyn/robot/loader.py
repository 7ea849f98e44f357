"""`load`: reads a catalogue name, or a path or text of URDF or MJCF, and returns a validated `Robot`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ModelError
from ..urdf.meshes import MeshFinder
from ..urdf.reader import parse
from ..urdf.tree import Array, Limits, Where, frozen
from ..urdf.values import SPELLING_ADVICE
from . import validation
from .algorithms import algorithms
from .arguments import check_sequence
from .bodies import CompositeBody, joint_indices, joints_in_loops, merge_fixed_links
from .configuration import independent_joints
from .coupling import coupling, remove_mimics, resolve_mimics
from .home import (
    HOME_KEYFRAME,
    compute_home,
    find_srdf_poses,
    home_from_keyframe,
    make_legs,
    requested_knee_directions,
    resolve_poses,
    validate_home,
)
from .leg_recognition import parse_legs_argument, recognize_legs
from .legs import (
    find_guessed_feet,
    find_leg_unit_errors,
    find_unlike_legs,
    find_weak_legs,
    make_foot,
    select_limbs,
)
from .limbs import find_limbs, trunk_index
from .model import add_feet, build_pinocchio_model, independent_joint_losses
from .overrides import apply_overrides, select_actuated_joints
from .report import Finding, ValidationReport
from .robot import Foot, Robot
from .root import ROOT_SIZES, ROOTS, attach_root, choose_root, reject_root_names
from .source import base_rotation_matrix, read_source, rotate_document
from .validation import find_angles_in_degrees, find_outlying_inertias, find_unit_errors, tree_reach

REPAIRS = ("inertia",)


@renamed_parameters(bend="knee_direction")
def load(
    source: str | os.PathLike[str] | pin.Model,
    *,
    root: str | None = None,
    base: ArrayLike | None = None,
    body: str | None = None,
    packages: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    arguments: Mapping[str, str | float] | None = None,
    actuated: Sequence[str] | None = None,
    legs: Mapping[str, Sequence[str]] | str | None = None,
    feet: Mapping[str, str | Foot] | None = None,
    knee_direction: str | Mapping[str, str] | None = None,
    q_home: Array | None = None,
    limits: Limits | Mapping[str, Limits | Mapping[str, float]] | None = None,
    damping: float | Mapping[str, float] | None = None,
    friction: float | Mapping[str, float] | None = None,
    armature: float | Mapping[str, float] | None = None,
    mimic: bool = True,
    loops: bool = True,
    strict: bool = False,
    repair: Collection[str] = (),
    allow_massless: bool = False,
) -> Robot:
    """Reads, validates and resolves a robot description.

    Args:
        source: a catalogue name ("go2"), a path to a URDF or MJCF file, or the text of one; also a xacro file where the
            package xacro is installed, a name of robot_descriptions ("go2_description") where that is installed, and a
            ``pin.Model`` whose joints have one degree of freedom.  An MJCF (root element ``<mujoco>``) is compiled by
            MuJoCo (extra ``mujoco``) and converted to a URDF: bodies without a joint of an actuator are left out (see
            `body`),
            joints without an actuator are passive where the file has actuators, and the keyframe "home" becomes
            `q_home` where the robot can stand in it.
        root: "free" (floating base), "planar" (sagittal x, z, pitch; gravity along -z) or "fixed".  None: "free" for a
            robot that stands on several legs, otherwise "fixed"; ``robot.report`` states the choice.
        base: rotation from the base frame of the file to the base frame of the robot, for a file whose x axis does not
            point forward or whose z axis does not point up: a (3, 3) matrix, or (3,) roll, pitch, yaw [rad].  The
            rotation is applied to the document, so that model, meshes, contacts and poses refer to the same frame.
            ``robot.report`` warns where a rotation is needed, and gives it.  None: no rotation.
        body: name of the body of an MJCF that is the robot, one of those attached to the world.  None: the bodies with
            actuators, otherwise those with joints; an error names the candidates if they are several robots.
        packages: package roots for ``package://`` meshes: a folder that contains packages or is a package, or several
            folders.  Files are opened in them, in the folder of the file and in the package around it (a folder with a
            ``package.xml``, or one with a folder ``meshes`` or ``assets`` next to the folder of the file); with a
            warning, also by relative names (``../common/a.xml``) up to four folders above the file.
            ``$(find ...)`` of a xacro file and ``<include>`` of an MJCF are resolved in them as well.
        arguments: values of the arguments (``$(arg ...)``) of a xacro file, by name, in any unit.  None: the file's
            defaults.
        actuated: names of the actuated 1-dof joints in torque order.  None: all, in model order, except those whose
            effort limit is 0.
        legs: kind of robot ("quadruped", "hexapod", "biped", "leg", or "none" for a robot without legs), or joint names
            by leg name, hip first.  None: the most likely legs, see `quaddyn.robot.leg_recognition`.
        feet: by leg name, the name of the link that is the foot, or a `Foot` with radius and offset.  None: from the
            geometry.
        knee_direction: "forward" or "backward", for all knees or by leg name: the side of the line from hip to foot on
            which the knees are in `q_home`.  None: forward for knees whose range is mostly forward, as that of human
            legs; else backward where the joint limits permit it.
        q_home: (nq,) home configuration [m, rad].  None: the computed stance.
        limits: by joint name, `Limits` or a mapping with any of lower, upper [rad or m], velocity [rad/s or m/s] and
            effort [N m or N]; a limit that is not given keeps the value of the file, and inf removes a limit.  One
            `Limits` holds for all joints except those whose effort limit is 0 in the file.  None: the values of the
            file.
        damping: viscous friction [N m s/rad], one value for all joints or by joint name.  None: the values of the file.
        friction: Coulomb friction [N m], one value or by joint name.  None: the values of the file.
        armature: rotor inertia seen at the joint [kg m^2], one value or by joint name.  None: the values of the file.
        mimic: whether joints with ``<mimic>`` follow the joints they name, so that only the latter have coordinates in
            q and v; False lets every joint move independently.
        loops: whether loops that the file closes (``<loop_joint>``, ``<drake:ball_constraint>``) move their dependent
            joints; False leaves them open.  `Robot.close_loop` closes further loops.
        strict: whether every warning is an error, except warnings about visual elements; no file outside the package
            roots is opened then.
        repair: names of repairs to make, each of them reported: "inertia" (nearest physical composite inertia).
        allow_massless: whether moving bodies without mass are accepted where bodies further out have mass.  Those of a
            closed loop are accepted in any case if the loop as a whole has inertia.

    Returns:
        The frozen, picklable `Robot`.

    Warns:
        RuntimeWarning: position limits in `limits` that seem to be in degrees.

    Raises:
        ModelError: the description is rejected; the message names file, element, value and what to do.
        UnknownNameError: an unknown catalogue, joint or link name.
        ArgumentError: an invalid option.
    """
    if root is not None and root not in ROOTS:
        raise ArgumentError(f"root={root!r}: expected one of {', '.join(ROOTS)}")
    if unknown := [r for r in check_sequence("repair", repair, "names") if r not in REPAIRS]:
        raise ArgumentError(f"repair: unknown names {unknown}; known names: {', '.join(REPAIRS)}")
    if isinstance(packages, str | os.PathLike):
        packages = (packages,)
    document = read_source(source, check_sequence("packages", packages, "folders"), arguments, body, confined=strict)
    meshes = MeshFinder(document.folder, document.packages, confined=strict)
    tree = parse(document.data, file=document.name, meshes=meshes)
    if base is not None:
        document = replace(document, data=rotate_document(document.data, tree, base_rotation_matrix(base)))
        tree = parse(document.data, file=document.name, meshes=meshes)
    unit_errors = find_unit_errors(tree)
    findings = [*document.findings, *tree.findings, *unit_errors]
    findings += _report_outside_files(document.name, {**document.outside, **meshes.outside})
    tree, ties = replace(tree, loops=()), tree.loops if loops else ()
    bodies = merge_fixed_links(tree)
    requested_kind, legs = parse_legs_argument(legs)
    floats = document.root == "free" or any(joint.type == "floating" for joint in tree.joints)
    verdict = recognize_legs(bodies, find_limbs(bodies, ties), tree.file, requested_kind, floats=floats)
    standing = max(len(verdict.best.legs), len(legs or ()))
    root = root or document.root or choose_root(tree, standing, trunk_index(bodies) > 0, findings)
    rooted = attach_root(tree, root, findings)
    reject_root_names(rooted, root)
    resolved, provenance = apply_overrides(rooted, limits=limits, damping=damping, friction=friction, armature=armature)
    if limits:
        in_file = {(j.name, j.limits.lower, j.limits.upper) for j in rooted.joints}
        given = [j for j in resolved.joints if (j.name, j.limits.lower, j.limits.upper) not in in_file]
        for finding in find_angles_in_degrees(given):
            findings.append(replace(finding, where=Where("limits", 0, "")))
            warnings.warn(f"limits: {finding.reason}; {finding.advice}", RuntimeWarning, stacklevel=3)
    if base is not None:
        provenance["base"] = "argument base"
    resolved = (resolve_mimics if mimic else remove_mimics)(resolved, findings)
    if resolved is not tree:
        tree, bodies = resolved, merge_fixed_links(resolved)
        verdict = recognize_legs(bodies, find_limbs(bodies, ties), tree.file, requested_kind, floats=floats)
    limbs = verdict.best.legs
    findings += verdict.findings if legs is None else ()
    if "inertia" in repair:
        bodies, repaired = validation.repair_inertia(bodies)
        findings += repaired
    in_loops = joints_in_loops(tree, ties)
    try:
        validation.validate_inertias(
            bodies, free=root != "fixed", allow_massless=allow_massless or document.converted, in_loops=in_loops
        )
    except ModelError as error:  # the element that is missed may be misspelled
        if (misspelled := next((f for f in tree.findings if f.advice == SPELLING_ADVICE), None)) is None:
            raise
        raise ModelError(f"{error}; {misspelled.where}: {misspelled.reason}: {SPELLING_ADVICE}") from None
    # A body of a loop that has no mass leaves the open tree singular: only the closed robot can be validated.
    bare = any(b.joint is not None and b.joint.name in in_loops and not b.inertial.mass > 0.0 for b in bodies)
    findings += validation.find_implausible_limits(bodies)
    findings += validation.find_implausible_losses(bodies)
    nv = sum(b.joint.nv for b in bodies if b.joint is not None) + ROOT_SIZES[root][1]
    validation.validate_dof_count(nv, tree.file)
    limbs = select_limbs(bodies, limbs, legs, feet, ties)
    feet_found = {name: make_foot(name, limb, (feet or {}).get(name), provenance) for name, limb in limbs.items()}
    # Lengths or masses in other units make any effort limit too low.
    findings += find_guessed_feet(limbs)
    if not unit_errors:
        leg_errors = find_leg_unit_errors(bodies, limbs)
        findings += leg_errors or find_outlying_inertias(bodies, tree_reach(tree))
        findings += find_weak_legs(bodies, limbs)
        findings += find_unlike_legs(bodies, limbs)
    model = build_pinocchio_model(tree, root, bodies if "inertia" in repair else None)
    add_feet(model, feet_found.values())
    if isinstance(source, pin.Model):
        from .source import check_joint_order

        check_joint_order(source, model, tree.file)
    checks = {} if bare else validation.validate_model(model, tree.file)
    coupled = coupling(bodies, root)
    pinocchio = algorithms(coupled)
    for name in limbs:
        if name in tree.links_by_name and limbs[name].contact.link.name != name:
            reason = f"link {name!r} has the same name as a foot; the name refers to the foot"
            findings.append(
                Finding(
                    "warning",
                    tree.links_by_name[name].where,
                    reason,
                    "rename the link, or name the legs differently by legs=",
                )
            )
    names = select_actuated_joints(bodies, actuated, findings)
    requested_directions = requested_knee_directions(knee_direction, limbs)
    if q_home is not None and not ties:
        q = validate_home(model, pinocchio, bodies, root, q_home, findings)
    else:
        q = compute_home(model, pinocchio, bodies, root, limbs, requested_directions, tree.file, findings, bool(ties))
        if HOME_KEYFRAME in document.poses and base is None and not requested_directions:
            pose = document.poses[HOME_KEYFRAME]
            q = home_from_keyframe(model, pinocchio, bodies, root, feet_found, pose, q, tree.file, findings)
    confined_finder = MeshFinder(document.folder, document.packages)
    poses = document.poses or find_srdf_poses(document.name, tree.name, confined_finder, findings)
    viscous, coulomb, rotors = independent_joint_losses(model, coupled)
    findings.sort(key=lambda f: f.where.line)
    lower, upper = _stack_position_limits(bodies, root)
    q_all = q if coupled is None else coupled.configuration(q)
    joints = independent_joints(bodies)
    robot = Robot(
        name=tree.name,
        root=root,
        tree=tree,
        bodies=bodies,
        model=model,
        actuated=names,
        q_home=frozen(q),
        lower=frozen(lower),
        upper=frozen(upper),
        velocity_limits=frozen([joints[name].limits.velocity for name in names]),
        effort_limits=frozen([joints[name].limits.effort for name in names]),
        damping=frozen(viscous),
        friction=frozen(coulomb),
        armature=frozen(rotors),
        legs=make_legs(bodies, root, limbs, feet_found, q_all),
        report=ValidationReport(tuple(findings), provenance, checks),
        source=document.data,
    )
    if ties:
        from .loop_closing import close_loops_of  # imports the compiler

        try:
            robot = close_loops_of(robot, ties, q_home=q_home)
        except ModelError:
            if len(limbs) != 2 or q_home is not None:
                raise
            # Ankles that level the soles may be where a loop does not close.
            q = compute_home(
                model, pinocchio, bodies, root, limbs, requested_directions, tree.file, [], True, level_soles=False
            )
            legs_found = make_legs(bodies, root, limbs, feet_found, q if coupled is None else coupled.configuration(q))
            robot = close_loops_of(replace(robot, q_home=frozen(q), legs=legs_found), ties, q_home=None)
        if bare:
            found = validation.validate_model(robot.model, tree.file, robot.coupling, robot.q_home)
            robot = replace(robot, report=replace(robot.report, check_results={**robot.report.check_results, **found}))
    if base is None:
        robot = replace(robot, poses=resolve_poses(robot, poses))
    if strict and (counted := [each for each in robot.report.warnings if not each.cosmetic]):
        more = f" (and {len(counted) - 1} more)" if len(counted) > 1 else ""
        raise ModelError(f"{counted[0].where}: {counted[0].reason}; strict=True rejects a robot with warnings{more}")
    return robot


def _report_outside_files(name: str, outside: Mapping[str, Path]) -> list[Finding]:
    """Returns a warning that files outside the package roots were opened, as a list; [] if there are none."""
    if not outside:
        return []
    uri = next(iter(outside))
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    reason = f"{uri!r}{more}: outside the package roots, and opened because the name is relative to the file"
    advice = f"pass packages=[{os.path.commonpath([each.parent for each in outside.values()])!r}] if this is intended"
    return [
        Finding("warning", Where(name, 0, "files"), reason, f"{advice}; strict=True does not open such files", True)
    ]


def _stack_position_limits(bodies: Sequence[CompositeBody], root: str) -> tuple[Array, Array]:
    """Returns the lower and upper position limits (nq,), finite only for 1-dof joints with a range."""
    first_indices = joint_indices(bodies, root)
    nq = ROOT_SIZES[root][0] + sum(b.joint.nq for b in bodies[1:] if b.joint is not None and b.joint.independent)
    lower, upper = np.full(nq, -np.inf), np.full(nq, np.inf)
    for name, joint in independent_joints(bodies).items():
        if joint.nq == 1:
            lower[first_indices[name][0]], upper[first_indices[name][0]] = joint.limits.lower, joint.limits.upper
    return lower, upper
