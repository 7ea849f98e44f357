"""`load`: a catalogue name, a path or URDF text becomes a trusted `Robot`."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.meshes import MeshFinder
from ..urdf.parse import NO_LIMIT, parse
from ..urdf.tree import Array, Finding, Joint, Limits, Tree, Where, frozen
from ..urdf.xml import MAX_BYTES
from . import guard
from .bodies import Body, merge
from .catalogue import CATALOGUE, find
from .limbs import SIDES, Limb, find_limbs, make_limb, name_legs
from .contact import Contact, on_link
from .model import add_feet, build
from .report import Report
from .robot import Foot, Leg, Robot
from .stance import StanceProblem, middle, put

ROOTS = ("free", "planar", "fixed")
REPAIRS = ("inertia",)
#: A root link of this name is the inertial frame itself, not a part of the robot.
WORLD = "world"


def load(
    source: str | os.PathLike[str],
    *,
    root: str | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
    actuated: Sequence[str] | None = None,
    legs: Mapping[str, Sequence[str]] | None = None,
    feet: Mapping[str, str | Foot] | None = None,
    bend: str | Mapping[str, str] | None = None,
    q_home: Array | None = None,
    limits: Mapping[str, Limits | Mapping[str, float]] | None = None,
    damping: float | Mapping[str, float] | None = None,
    friction: float | Mapping[str, float] | None = None,
    armature: float | Mapping[str, float] | None = None,
    strict: bool = False,
    repair: Collection[str] = (),
    allow_massless: bool = False,
) -> Robot:
    """Read, judge and resolve a robot.

    Args:
        source: a catalogue name ("go2"), a path to a URDF file, or URDF text.
        root: "free" (floating base), "planar" (sagittal x, z, pitch; gravity along -z) or "fixed".  By default a
            robot that stands on several legs floats, all else is bolted down; the report says which.
        packages: package roots for ``package://`` meshes; nothing outside them and the file's folder is opened.
        actuated: names of the actuated 1-dof joints in torque order; by default all, in model order, except those
            whose effort limit is 0.
        legs: joint names by leg name, hip first, instead of detection.
        feet: by leg name, the link that is the foot, or a `Foot` with radius and offset.
        bend: "forward" or "backward", for all knees or by leg name: where knees point in `q_home`.
        q_home: (nq,) home configuration instead of the computed one.
        limits: by joint name, `Limits` or a mapping with any of lower, upper, velocity, effort.
        damping: viscous friction [N m s/rad], one value for all joints or by joint name.
        friction: Coulomb friction [N m], likewise.
        armature: rotor inertia seen at the joint [kg m^2], likewise.
        strict: turn every warning into an error.
        repair: repairs to make, each reported: "inertia" (nearest physical composite inertia).
        allow_massless: accept moving bodies without mass where bodies further out carry mass.

    Returns:
        The frozen, picklable `Robot`.

    Raises:
        ModelError: the description is refused; the message names file, element, value and what to do.
        UnknownNameError: an unknown catalogue, joint or link name.
        ArgumentError: a bad option.
    """
    if root is not None and root not in ROOTS:
        raise ArgumentError(f"root={root!r}: expected one of {', '.join(ROOTS)}")
    if unknown := set(repair) - set(REPAIRS):
        raise ArgumentError(f"repair: unknown {sorted(unknown)}; known: {', '.join(REPAIRS)}")
    document = _read(source, tuple(packages))
    tree = parse(document.data, file=document.name, meshes=MeshFinder(document.folder, document.packages))
    findings = list(tree.findings)
    root = root or document.root or _natural_root(tree, findings)
    tree = _rooted(tree, root, findings)
    tree, provenance = _override(tree, limits=limits, damping=damping, friction=friction, armature=armature)
    bodies = merge(tree)
    if "inertia" in repair:
        bodies, repaired = guard.repair_inertia(bodies)
        findings += repaired
    guard.judge_bodies(bodies, free=root != "fixed", allow_massless=allow_massless)
    nv = sum(b.joint.nv for b in bodies if b.joint is not None) + {"free": 6, "planar": 3, "fixed": 0}[root]
    guard.judge_size(nv, tree.file)
    limbs = _choose_limbs(bodies, legs, feet)
    feet_found = {name: _foot(name, limb, (feet or {}).get(name), provenance) for name, limb in limbs.items()}
    model = build(tree, root, bodies if "inertia" in repair else None)
    add_feet(model, feet_found.values())
    checks = guard.judge_model(model, tree.file)
    for name in limbs:
        if name in tree.link and limbs[name].contact.link.name != name:
            reason = f"link {name!r} shares its name with a foot; look-ups mean the foot"
            findings.append(Finding("warning", tree.link[name].where, reason, "rename the link or name legs by legs="))
    robot = Robot(
        name=tree.name,
        root=root,
        tree=tree,
        bodies=bodies,
        model=model,
        actuated=_actuated(tree, bodies, actuated, findings),
        q_home=frozen(np.zeros(model.nq)),
        lower=frozen(_unbounded(model.lowerPositionLimit, -1.0, model, bodies, root)),
        upper=frozen(_unbounded(model.upperPositionLimit, 1.0, model, bodies, root)),
        velocity_limits=frozen(()),
        effort_limits=frozen(()),
        damping=frozen(model.damping),
        friction=frozen(model.upperDryFrictionLimit),
        armature=frozen(model.armature),
        legs={},
        report=Report((), {}, checks),
    )
    index = robot.actuated_index
    wishes = _bends(bend, limbs)
    q, found_legs = _home(robot, limbs, feet_found, wishes, findings)
    if q_home is not None:
        q = _given_home(robot, q_home)
    if strict:
        warnings = [f for f in findings if f.level == "warning"]
        if warnings:
            more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
            raise ModelError(f"{warnings[0].where}: {warnings[0].reason}; refused because strict=True{more}")
    return replace(
        robot,
        q_home=frozen(q),
        velocity_limits=frozen(model.upperVelocityLimit[index]),
        effort_limits=frozen(model.upperEffortLimit[index]),
        legs=found_legs,
        report=Report(tuple(findings), provenance, checks),
    )


# -- source --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Document:
    data: bytes | str
    name: str
    folder: Path | None
    packages: tuple[Path, ...]
    root: str | None = None


def _read(source: str | os.PathLike[str], packages: tuple[str | os.PathLike[str], ...]) -> _Document:
    roots = tuple(Path(p) for p in packages)
    for folder in roots:
        if not folder.is_dir():
            raise ArgumentError(f"packages: {str(folder)!r} is no folder")
    if isinstance(source, str):
        if source.lstrip("\ufeff \t\r\n").startswith("<"):
            return _Document(source.lstrip("\ufeff \t\r\n"), "<text>", None, roots)
        if source in CATALOGUE:
            entry = find(source)
            data = _read_file(entry.path)
            return _Document(data, entry.path.name, entry.path.parent, roots + entry.packages, entry.root)
        if not source.endswith((".urdf", ".xml")) and os.sep not in source and not os.path.exists(source):
            raise UnknownNameError("robot", source, CATALOGUE)
    elif not isinstance(source, os.PathLike):
        raise ArgumentError(f"source: expected a catalogue name, a path or URDF text, got {type(source).__name__}")
    try:
        path = Path(source)
        return _Document(_read_file(path), path.name, path.parent, roots)
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{str(source)[:80]!r}: not a file name ({error})") from None


def _read_file(path: Path) -> bytes:
    """The bytes of a regular file; opened without blocking, judged by its descriptor, so that no FIFO can hang us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise ModelError(f"{path}: cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path}: not a regular file; copy its content into one")
        if status.st_size > MAX_BYTES:
            raise ModelError(f"{path}: {status.st_size} bytes; at most {MAX_BYTES} are read")
        try:
            return stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


# -- root ----------------------------------------------------------------------------------------------------------
def _natural_root(tree: Tree, findings: list[Finding]) -> str:
    first = tree.children[tree.root.name]
    if len(first) == 1 and first[0].type == "floating":
        root, why = "free", f"joint {first[0].name!r} floats"
    elif len(name_legs(find_limbs(merge(tree)))) > 1:
        root, why = "free", "it stands on several legs"
    else:
        root, why = "fixed", "it does not stand on several legs"
    findings.append(Finding("note", tree.root.where, f"root={root!r} was chosen: {why}", "pass root= to choose"))
    return root


def _rooted(tree: Tree, root: str, findings: list[Finding]) -> Tree:
    """Drop a world link above the robot when the root moves, and a floating joint that `root` stands for."""
    above = tree.root
    first = tree.children[above.name]
    is_world = above.inertial is None and len(first) == 1 and not above.visuals and not above.collisions
    if not is_world:
        if root != "fixed" and above.name == WORLD and first:
            raise ModelError(
                f"{above.where}: the world link carries {len(first)} joints or shapes of its own, so a moving root "
                "would carry the world along; pass root='fixed' or remove them"
            )
        return tree
    joint = first[0]
    floats = joint.type == "floating"
    if root == "fixed" and floats:
        held = replace(joint, type="fixed", limits=Limits())
        findings.append(Finding("note", joint.where, "the floating joint is held, because root='fixed'"))
        return replace(tree, joints=(held, *tree.joints[1:]))
    if root == "fixed" or not (floats or (above.name == WORLD and joint.type == "fixed")):
        if root != "fixed" and above.name == WORLD:
            raise ModelError(
                f"{joint.where}: the robot hangs from the world by a {joint.type} joint; pass root='fixed', "
                "or remove the world link"
            )
        return tree
    reason = f"link {above.name!r} and joint {joint.name!r} are replaced by the {root} root; q is the pose of {joint.child!r}"
    findings.append(Finding("note", above.where, reason))
    return replace(tree, links=tree.links[1:], joints=tree.joints[1:])


# -- overrides -----------------------------------------------------------------------------------------------------
def _override(
    tree: Tree,
    *,
    limits: Mapping[str, Limits | Mapping[str, float]] | None,
    damping: float | Mapping[str, float] | None,
    friction: float | Mapping[str, float] | None,
    armature: float | Mapping[str, float] | None,
) -> tuple[Tree, dict[str, str]]:
    moving = [j for j in tree.joints if j.nv == 1]
    names = [j.name for j in moving]
    for argument, given in (("limits", limits), ("damping", damping), ("friction", friction), ("armature", armature)):
        if isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise UnknownNameError(f"joint in {argument}=", name, names)
    provenance: dict[str, str] = {}
    joints = []
    for joint in tree.joints:
        if joint.nv == 1:
            joint = _override_joint(joint, limits, {"damping": damping, "friction": friction, "armature": armature}, provenance)
        joints.append(joint)
    return replace(tree, joints=tuple(joints)), provenance


def _override_joint(
    joint: Joint,
    limits: Mapping[str, Limits | Mapping[str, float]] | None,
    losses: Mapping[str, float | Mapping[str, float] | None],
    provenance: dict[str, str],
) -> Joint:
    file = str(joint.where)
    for f in fields(Limits):
        value = getattr(joint.limits, f.name)
        provenance[f"{joint.name}.{f.name}"] = file if np.isfinite(value) else f"unlimited, {file}"
    changes: dict[str, object] = {}
    if limits is not None and joint.name in limits:
        given = limits[joint.name]
        values = {f.name: getattr(given, f.name) for f in fields(Limits)} if isinstance(given, Limits) else dict(given)
        if unknown := set(values) - {f.name for f in fields(Limits)}:
            raise ArgumentError(f"limits[{joint.name!r}]: unknown {sorted(unknown)}; known: lower, upper, velocity, effort")
        new = replace(joint.limits, **{k: float(v) for k, v in values.items()})
        if not (new.lower <= new.upper and new.velocity > 0.0 and new.effort >= 0.0):
            raise ArgumentError(f"limits[{joint.name!r}]: {new} needs lower <= upper, velocity > 0, effort >= 0")
        changes["limits"] = new
        provenance.update({f"{joint.name}.{k}": "argument limits" for k in values})
    for quantity, option in losses.items():
        chosen = option.get(joint.name) if isinstance(option, Mapping) else option
        in_file = getattr(joint, quantity)
        provenance[f"{joint.name}.{quantity}"] = file if in_file else f"0, not given in {file}"
        if chosen is not None:
            if not 0.0 <= float(chosen) < NO_LIMIT:
                raise ArgumentError(f"{quantity}: {chosen} for joint {joint.name!r} must be finite and not negative")
            changes[quantity] = float(chosen)
            provenance[f"{joint.name}.{quantity}"] = f"argument {quantity}"
    return replace(joint, **changes) if changes else joint  # type: ignore[arg-type]


def _actuated(
    tree: Tree, bodies: Sequence[Body], chosen: Sequence[str] | None, findings: list[Finding]
) -> tuple[str, ...]:
    joints = [b.joint for b in bodies[1:] if b.joint is not None and b.joint.nv == 1]
    names = [j.name for j in joints]
    if chosen is not None:
        for name in chosen:
            if name not in names:
                raise UnknownNameError("joint in actuated=", name, names)
        if len(set(chosen)) != len(tuple(chosen)):
            raise ArgumentError("actuated: a joint is named twice")
        return tuple(chosen)
    for joint in joints:
        if joint.limits.effort == 0.0:
            findings.append(Finding("note", joint.where, "effort=0: a passive joint, not actuated", "pass actuated= or limits="))
    return tuple(j.name for j in joints if j.limits.effort > 0.0)


# -- legs ----------------------------------------------------------------------------------------------------------
def _choose_limbs(
    bodies: Sequence[Body], legs: Mapping[str, Sequence[str]] | None, feet: Mapping[str, str | Foot] | None
) -> dict[str, Limb]:
    limbs = name_legs(find_limbs(bodies)) if legs is None else _given_limbs(bodies, legs)
    for name, foot in (feet or {}).items():
        if name not in limbs:
            raise UnknownNameError("leg in feet=", name, limbs)
        limb = limbs[name]
        body = bodies[limb.indices[-1]]
        frame = foot.frame if isinstance(foot, Foot) else foot
        by_name = {link.name: (link, pose) for link, pose in body.links}
        if frame not in by_name:
            raise UnknownNameError(f"link of the last body of leg {name!r}", frame, by_name)
        link, pose = by_name[frame]
        contact = on_link(body, link)
        if isinstance(foot, Foot):
            if not (np.isfinite(foot.radius) and foot.radius >= 0.0 and np.shape(foot.offset) == (3,)):
                raise ArgumentError(f"feet[{name!r}]: radius {foot.radius} must be finite and >= 0, offset (3,)")
            contact = Contact(link, frozen(foot.offset), pose.apply(frozen(foot.offset)), foot.radius, "argument feet")
        limbs[name] = make_limb(bodies, limb.indices, contact)
    return limbs


def _given_limbs(bodies: Sequence[Body], legs: Mapping[str, Sequence[str]]) -> dict[str, Limb]:
    index = {b.joint.name: i for i, b in enumerate(bodies) if b.joint is not None and b.joint.nv == 1}
    detected = {limb.indices[-1]: limb.contact for limb in find_limbs(bodies)}
    out = {}
    for name, joints in legs.items():
        for joint in joints:
            if joint not in index:
                raise UnknownNameError(f"joint of leg {name!r}", joint, index)
        run = tuple(index[j] for j in joints)
        if not run or any(bodies[b].parent != a for a, b in zip(run[:-1], run[1:], strict=True)):
            raise ArgumentError(f"legs[{name!r}]: {list(joints)} is not a serial chain, hip first")
        from .contact import find_contact

        out[name] = make_limb(bodies, run, detected.get(run[-1]) or find_contact(bodies[run[-1]]))
    return out


def _foot(name: str, limb: Limb, given: str | Foot | None, provenance: dict[str, str]) -> Foot:
    contact = limb.contact
    provenance[f"{name}.frame"] = "geometry" if given is None else "argument feet"
    provenance[f"{name}.radius"] = contact.source
    return Foot(name, contact.link.name, contact.radius, frozen(contact.offset))


def limbs_of(robot: Robot) -> dict[str, Limb]:
    """The limbs behind `robot.legs`, with their kinematics."""
    out = {}
    index = {b.joint.name: i for i, b in enumerate(robot.bodies) if b.joint is not None}
    for name, leg in robot.legs.items():
        run = tuple(index[j] for j in leg.joints)
        body = robot.bodies[run[-1]]
        link, pose = next((x, p) for x, p in body.links if x.name == leg.foot.frame)
        contact = Contact(link, leg.foot.offset, pose.apply(leg.foot.offset), leg.foot.radius, "robot")
        out[name] = make_limb(robot.bodies, run, contact)
    return out


def _bends(bend: str | Mapping[str, str] | None, limbs: Mapping[str, Limb]) -> dict[str, str]:
    wishes = dict.fromkeys(limbs, bend) if isinstance(bend, str) else dict(bend or {})
    for name, value in wishes.items():
        if name not in limbs:
            raise UnknownNameError("leg in bend=", name, limbs)
        if value not in ("forward", "backward"):
            raise ArgumentError(f"bend[{name!r}]={value!r}: expected 'forward' or 'backward'")
    return {k: str(v) for k, v in wishes.items()}


# -- home ----------------------------------------------------------------------------------------------------------
def _home(
    robot: Robot, limbs: Mapping[str, Limb], feet: Mapping[str, Foot], wishes: Mapping[str, str], findings: list[Finding]
) -> tuple[Array, dict[str, Leg]]:
    if not limbs:
        return middle(robot), {}
    problem = StanceProblem(robot, limbs)
    q, residual, bends = problem.solve(bend=wishes)
    standing = len(limbs) > 1
    if standing and residual > 1e-6:
        where = Where(robot.tree.file, 0, "home stance")
        reason = f"no level stance within the joint limits: a foot misses the ground by {residual:.3g} m"
        findings.append(Finding("warning", where, reason, "pass q_home=, or check the limits"))
    legs = {}
    for name, limb in limbs.items():
        chain = limb.chain
        names = tuple(j.name for j in chain.joints if j is not None)
        side = SIDES.get(name[-1], "center") if standing else "center"
        knee = limb.knee if chain.n > 1 else None
        sign = _knee_sign(robot, limb, q)
        legs[name] = Leg(name, names, side, feet[name], names[knee] if knee is not None else None, sign, bends[name])
    return (q if standing else middle(robot)), legs


def _knee_sign(robot: Robot, limb: Limb, q: Array) -> int:
    """+1 when a growing knee coordinate shortens the leg, seen from the stance."""
    angles = np.array([joint_value(robot, j, q) for j in limb.chain.joints if j is not None])
    step = np.zeros(limb.chain.n)
    step[limb.knee] = 1e-4
    lengths = []
    for sign in (1.0, -1.0):
        origins, _, tip = limb.chain.forward(angles + sign * step)
        lengths.append(float(np.linalg.norm(tip - origins[limb.hip])))
    return 1 if lengths[0] < lengths[1] else -1


def joint_value(robot: Robot, joint: Joint, q: Array) -> float:
    """The value of a 1-dof joint in a configuration [rad or m]."""
    i = robot.configuration_index(joint.name)
    return float(np.arctan2(q[i + 1], q[i])) if joint.type == "continuous" else float(q[i])


def _given_home(robot: Robot, q_home: Array) -> Array:
    q = np.asarray(q_home, dtype=np.float64)
    if q.shape != (robot.nq,) or not np.isfinite(q).all():
        raise ArgumentError(f"q_home: expected ({robot.nq},) finite numbers, got shape {q.shape}")
    if robot.root == "free" and abs(float(np.linalg.norm(q[3:7])) - 1.0) > 1e-6:
        raise ArgumentError(f"q_home: its quaternion q[3:7] has norm {np.linalg.norm(q[3:7]):.6g}, expected 1")
    return q


def _unbounded(limit: Array, sign: float, model: object, bodies: Sequence[Body], root: str) -> Array:
    """Position limits where only 1-dof joints with a range have finite ones."""
    out = np.full(np.shape(limit), sign * np.inf)
    at = {"free": 7, "planar": 3, "fixed": 0}[root]
    for body in bodies[1:]:
        assert body.joint is not None
        if body.joint.nq == 1:
            out[at] = limit[at]
        at += body.joint.nq
    return out


__all__ = ["ROOTS", "joint_value", "limbs_of", "load", "put"]
