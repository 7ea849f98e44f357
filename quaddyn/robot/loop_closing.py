"""Closes kinematic loops: converts a robot with open branches, and the loops between them, to one with closed loops.

Ranges of the independent joints of closed loops: where the loops close, within the limits of all joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.loops import rotation_of_z_to
from ..urdf.reader import parse
from ..urdf.tree import Array, Finding, Joint, KinematicLoop, Limits, Pose, Tree, Where, frozen
from .arguments import check_sequence, check_vector
from .bodies import merge_fixed_links
from .home import make_legs, validate_home
from .legs import make_limbs
from .loop_assembly import LoopAnalysis, LoopVerdict, validate_loops
from .loops import LoopCoupling, LoopCut, cut_loops, loop_branches, make_closures, mimic_constraints
from .model import add_feet, build_pinocchio_model, independent_joint_losses
from .robot import Robot
from .source import insert_element

#: Number of samples between home and an end of a joint's range, and halvings where a loop stops closing.
N_SAMPLES, N_HALVINGS = 24, 12
#: Rays to each side of the box of several joints' ranges, about: it can be narrower anywhere, not at its corners alone.
RAYS_PER_SIDE = 24.0
#: Fraction of a range that stays free where it ends because a loop cannot close beyond: there G grows without bound.
RANGE_MARGIN = 0.05
#: Joints without a range are tried this far on each side of home [rad], lengths in loop sizes.
UNBOUNDED_JOINT_RANGE = 2.0 * np.pi
#: Distance beyond its range at which a joint counts as within it [rad, m]: what closing a loop leaves.
LIMIT_TOLERANCE = 1e-9
#: A range that is narrower is none [rad], or [sizes of the loop].
MIN_RANGE = 1e-3


def limit_to_closed_range(
    model: pin.Model, coupling: LoopCoupling, q: Array, joints: Mapping[str, Joint], findings: list[Finding]
) -> dict[str, Joint]:
    """Returns the independent joints of loops, their limits narrowed to where the loops close within all limits."""
    c, out = coupling.closures, {}
    names = {model.joints[i].idx_q: model.names[i] for i in range(1, model.njoints)}
    for g in range(len(c.size)):
        group = range(c.joints[g], c.joints[g + 1])
        bounds = _RangeSearch(
            coupling,
            [
                (int(c.q[i]), joints[names[int(c.q[i])]].limits)
                for i in group
                if c.own[i] < 0 and joints[names[int(c.q[i])]].mimic is None
            ],
            q,
        )  # the joint that it mimics has the range
        leaders = [(int(coupling.q_from[c.q[i]]), joints[names[int(c.q[i])]]) for i in group if c.own[i] >= 0]
        reach = np.array([_search_width(q[at], joint.limits, c.size[g], joint.type) for at, joint in leaders]).reshape(
            -1, 2
        )
        if len(leaders) == 1:
            fractions = np.array(
                [[bounds.feasible_fraction(leaders, reach, np.array([[side]])) for side in (-1.0, 1.0)]]
            )
        else:
            fractions = np.full(
                (len(leaders), 2), bounds.feasible_fraction(leaders, reach, _cube_surface(len(leaders)))
            )
        if bounds.jams and not fractions.any():
            loop = coupling.loops[c.loops[g]]
            raise ModelError(
                f"{loop.where}: loop {loop.name!r} closes only at home and not after any motion of "
                f"{' or '.join((repr(joint.name) for _, joint in leaders))}; correct the frames and axes of its "
                "joints, or leave it open by loops=False"
            )
        for (at, joint), (below, above), (left, right) in zip(leaders, reach, fractions, strict=True):
            range_text = f"[{joint.limits.lower:.4g}, {joint.limits.upper:.4g}]"
            if not joint.limits.lower - LIMIT_TOLERANCE <= q[at] <= joint.limits.upper + LIMIT_TOLERANCE:
                raise ModelError(
                    f"{joint.where}: joint {joint.name!r} must be at {q[at]:.4g} for its loops to close, which is "
                    f"outside its range {range_text}; correct the range or the frames of the loops, or leave them "
                    "open by loops=False"
                )
            lower = joint.limits.lower if left == 1.0 else float(q[at] - left * below)
            upper = joint.limits.upper if right == 1.0 else float(q[at] + right * above)
            if max(left * below, right * above) < MIN_RANGE * (1.0 if joint.type != "prismatic" else c.size[g]):
                lower = upper = float(q[at])
                reason = (
                    f"the range {range_text} of {joint.name!r} is reduced to its home position, because near home "
                    "its loops do not close elsewhere within the limits of all joints"
                )
                fix = "correct the frames of the loops, or the ranges of the joints that follow"
                findings.append(Finding("warning", joint.where, reason, fix))
            elif min(left, right) < 1.0:
                reason = (
                    f"the range {range_text} is reduced to [{lower:.4g}, {upper:.4g}], where its loop closes within "
                    "all limits"
                )
                findings.append(Finding("note", joint.where, reason))
            out[joint.name] = replace(joint, limits=replace(joint.limits, lower=lower, upper=upper))
    return out


class _RangeSearch:
    """Search along rays from home for the range in which loops close and dependent joints are within their limits."""

    def __init__(self, coupling: LoopCoupling, limits: list[tuple[int, Limits]], q: Array) -> None:
        home = coupling.configuration(q)
        self.coupling, self.q, self.jams = coupling, q, False
        # A limit that home violates is left out; validation reports it.
        self.limits = [
            (at, of) for at, of in limits if of.lower - LIMIT_TOLERANCE <= home[at] <= of.upper + LIMIT_TOLERANCE
        ]

    def feasible_fraction(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array) -> float:
        """Returns the fraction of the rays that is feasible; 0 if the loops jam immediately."""
        good, bad, jammed = 0.0, None, False
        for k in range(1, N_SAMPLES + 1):
            state = self.find_violation(leaders, reach, rays, k / N_SAMPLES)
            if state != "well":
                bad, jammed = k / N_SAMPLES, state == "open"
                break
            good = k / N_SAMPLES
        if bad is None:
            return 1.0
        for _ in range(N_HALVINGS):
            middle = 0.5 * (good + bad)
            state = self.find_violation(leaders, reach, rays, middle)
            if state == "well":
                good = middle
            else:
                bad, jammed = middle, state == "open"
        self.jams = self.jams or (jammed and good == 0.0)
        return good * (1.0 - RANGE_MARGIN) if jammed else good

    def find_violation(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array, fraction: float) -> str:
        """Returns the first violation on the rays at a fraction, "open" or "outside", otherwise "well"."""
        for ray in rays:
            q = self.q.copy()
            for (at, _), (below, above), side in zip(leaders, reach, ray, strict=True):
                q[at] += fraction * (above if side > 0.0 else below) * side
            q_all = self.coupling.configuration(q)
            if not np.isfinite(q_all).all():
                return "open"
            if not all(of.lower - LIMIT_TOLERANCE <= q_all[at] <= of.upper + LIMIT_TOLERANCE for at, of in self.limits):
                return "outside"
        return "well"


def _cube_surface(n: int) -> Array:
    """Returns points (rays, n) on the surface of the cube [-1, 1]^n, its corners first, where loops jam soonest."""
    steps = np.linspace(-1.0, 1.0, 1 + 2 * max(1, round(RAYS_PER_SIDE ** (1.0 / (n - 1)) / 2.0)))
    grid = np.stack(np.meshgrid(*[steps] * n, indexing="ij"), -1).reshape(-1, n)
    rays = grid[np.abs(grid).max(axis=1) == 1.0]
    return np.array(sorted(rays.tolist(), key=lambda ray: -sum(map(abs, ray))))


def _search_width(home: float, limits: Limits, size: float, kind: str) -> tuple[float, float]:
    """Returns the search distance below and above home."""
    far = UNBOUNDED_JOINT_RANGE if kind != "prismatic" else 4.0 * size
    ends = home - limits.lower, limits.upper - home
    below, above = (max(x, 0.0) if np.isfinite(x) else far for x in ends)
    return below, above


#: Name of each kind of loop in the file.
JOINT_TAGS = MappingProxyType({"point": "spherical", "revolute": "revolute", "weld": "fixed"})


def close_loops_of(robot: Robot, loops: Sequence[KinematicLoop], *, q_home: ArrayLike | None = None) -> Robot:
    """Returns a robot in which loops move the dependent joints.

    Args:
        robot: robot with independent joints; its existing loops are kept.
        loops: further loops to close.
        q_home: (nq,) home configuration of the closed robot, on the branch that its legs, motors or zero coordinates
            lead to.  None: the closed configuration nearest to that of the open robot.

    Raises:
        ModelError: a loop that does not close, is singular at home, or whose rank is undetermined there.
    """
    _reject_missing_ends(robot, loops)
    findings: list[Finding] = []
    q_all = robot.q_home if robot.coupling is None else robot.coupling.configuration(robot.q_home)
    tree, q_all = _merge_loops(robot, loops, q_all)
    model = _build_model(robot, tree)
    found = cut_loops(model, tree.loops)
    for cut in found:
        _reject_unsupported_shape(model, cut, tree)
    found += mimic_constraints(model, tree.joints)
    assembly = LoopAnalysis(model, found, q_all, tree.joints_by_name, robot.actuated, _leg_joints(robot))
    verdict = validate_loops(assembly)
    joints = {}
    for name, joint in tree.joints_by_name.items():
        if name in verdict.followers:
            loop = verdict.followers[name]
            if joint.damping or joint.friction:
                reason = "damping and friction of a joint that a closed loop moves are ignored"
                findings.append(Finding("warning", joint.where, reason, "assign them to the independent joints"))
            at = float(verdict.q_all[model.joints[model.getJointId(name)].idx_q])
            joint = replace(joint, loop=loop, at_home=at, damping=0.0, friction=0.0)
        joints[name] = joint
    order, numbers = make_closures(model, found, verdict.q_all, verdict.followers, joints)
    coupling = LoopCoupling([cut.loop for cut in order], verdict.followers, numbers)
    q = verdict.q_all[coupling.q_index]
    joints |= limit_to_closed_range(model, coupling, q, joints, findings)
    tree = replace(tree, joints=tuple(joints[joint.name] for joint in tree.joints))
    findings += _report_loops(tree, verdict)
    robot = _make_closed_robot(robot, tree, coupling, q, findings, verdict, model)
    return _with_legs_at_home(robot if q_home is None else _with_home(robot, q_home))


def close_frames(
    robot: Robot,
    frame_a: str | tuple[str, ArrayLike],
    frame_b: str | tuple[str, ArrayLike],
    kind: str,
    axis: ArrayLike | None,
    name: str | None,
    dependent: Iterable[str],
) -> Robot:
    """Closes a loop between two frames; see `Robot.close_loop`."""
    if kind not in JOINT_TAGS:
        raise ArgumentError(f"kind={kind!r}: expected one of {', '.join(JOINT_TAGS)}")
    if (axis is None) is (kind == "revolute"):
        raise ArgumentError(f"axis: {'required' if axis is None else 'not accepted'} with kind={kind!r}")
    taken = {loop.name for loop in robot.tree.loops}
    if left := [loop.name for loop in parse(robot.source).loops if loop.name not in taken]:
        raise ArgumentError(
            f"close_loop: the robot was loaded with loops=False, which left loop {left[0]!r} of its file open; load "
            "it without loops=False first"
        )
    name = f"loop_{len(taken) + 1}" if name is None else name
    if name in taken:
        raise ArgumentError(f"name: this robot already has a loop {name!r}; pass another name")
    names = check_sequence("dependent", dependent, "joint names")
    for joint in names:
        if joint not in robot.tree.joints_by_name:
            raise UnknownNameError("joint in dependent=", joint, robot.tree.joints_by_name)
    tag = Element("loop_joint", {"name": name, "type": JOINT_TAGS[kind]})
    if names:
        tag.set("dependent", " ".join(names))
    ends = []
    for number, (argument, frame) in enumerate((("frame_a", frame_a), ("frame_b", frame_b)), start=1):
        link, at = _resolve_frame(robot, argument, frame)
        ends.append((link, at))
        SubElement(tag, f"link{number}", {"link": link, "xyz": _format_numbers(at), "rpy": "0 0 0"})
    turn = np.eye(3)
    if axis is not None:
        along = check_vector("axis", axis, (3,), "the same in both frames")
        if not np.linalg.norm(along) > 0.0:
            raise ArgumentError("axis: expected a vector of nonzero length, got zeros")
        SubElement(tag, "axis", {"xyz": _format_numbers(along)})
        turn = rotation_of_z_to(along / np.linalg.norm(along))
    (link_a, at_a), (link_b, at_b) = ends
    where = Where("<close>", 0, f'<loop_joint name="{name}">')
    loop = KinematicLoop(name, kind, link_a, link_b, Pose.of(turn, at_a), Pose.of(turn, at_b), names, where)
    return replace(
        close_loops_of(robot, [loop]), source=insert_element(robot.source, tostring(tag, encoding="unicode"))
    )


def _resolve_frame(robot: Robot, argument: str, frame: str | tuple[str, ArrayLike]) -> tuple[str, Array]:
    """Returns the link to which a frame belongs, and the position of its point in the link [m]."""
    name, offset = (frame, (0.0, 0.0, 0.0)) if isinstance(frame, str) else frame
    point = check_vector(f"{argument}[1]", offset, (3,), "in the frame [m]")
    robot.frame_id(name)
    if name in robot.legs:
        foot = robot.legs[name].foot
        return foot.frame, foot.offset + point
    return robot.tree.joints_by_name[name].child if name in robot.tree.joints_by_name else name, point


def _format_numbers(values: Array) -> str:
    return " ".join(repr(x) for x in values.tolist())


def open_loops_of(robot: Robot) -> Robot:
    """Returns a robot with its loops cut and all joints independent; home and ranges are those of the closed robot."""
    assert robot.coupling is not None
    tree = replace(robot.tree, joints=tuple(replace(j, loop=None, mimic=None) for j in robot.tree.joints), loops=())
    q, model, independent = robot.coupling.configuration(robot.q_home), robot.model, [j for j in tree.joints if j.nv]
    lower, upper = (_stack_limits(independent, q, side) for side in ("lower", "upper"))
    damping, friction = model.damping.copy(), model.upperDryFrictionLimit.copy()
    for joint in robot.tree.joints:  # what follows has none, see `close_loops_of`
        if joint.loop is not None:
            at = model.joints[model.getJointId(joint.name)].idx_v
            damping[at] = friction[at] = 0.0
    return replace(
        robot, tree=tree, bodies=merge_fixed_links(tree), q_home=frozen(q), lower=lower, upper=upper,
        damping=frozen(damping), friction=frozen(friction), armature=frozen(model.armature), poses={},
    )  # fmt: skip


def _make_closed_robot(
    robot: Robot,
    tree: Tree,
    coupling: LoopCoupling,
    q: Array,
    findings: Sequence[Finding],
    verdict: LoopVerdict,
    model: pin.Model,
) -> Robot:
    """Returns a robot with closed loops, whose coordinates and limits are those of its independent joints.

    Args:
        robot: robot before its further loops are closed.
        tree: its tree with closed loops.
        coupling: relation between the coordinates of all joints and of the independent ones.
        q: (nq,) home configuration of the independent joints.
        findings: further findings of the report.
        verdict: result of the validation of the loops.
        model: Pinocchio model of all joints.
    """
    independent = [joint for joint in tree.joints if joint.nv and joint.independent]
    damping, friction, armature = independent_joint_losses(model, coupling)
    actuated = tuple(name for name in robot.actuated if tree.joints_by_name[name].independent)
    lower, upper = (_stack_limits(independent, q, side) for side in ("lower", "upper"))
    report = replace(
        robot.report,
        findings=tuple(sorted((*robot.report.findings, *findings), key=lambda f: f.where.line)),
        provenance={
            **robot.report.provenance,
            **{f"{name}.range": "where its loops close" for group in verdict.groups for name in group.independent},
        },
        check_results={**robot.report.check_results, "loop closure at home (m)": verdict.residual},
    )
    return replace(
        robot, tree=tree, bodies=merge_fixed_links(tree), model=model, actuated=actuated, q_home=frozen(q),
        lower=lower, upper=upper,
        velocity_limits=frozen([tree.joints_by_name[name].limits.velocity for name in actuated]),
        effort_limits=frozen([tree.joints_by_name[name].limits.effort for name in actuated]),
        damping=frozen(damping), friction=frozen(friction), armature=frozen(armature), report=report, poses={},
    )  # fmt: skip


def _with_home(robot: Robot, q_home: ArrayLike) -> Robot:
    """Returns the robot with another home configuration on the branch of the present one."""
    coupling, model, findings = robot.coupling, robot.model, list[Finding]()
    assert coupling is not None
    q = validate_home(model, robot.algorithms, robot.bodies, robot.root, np.asarray(q_home), findings)
    coupling.check(q)
    q_all = coupling.configuration(q)
    joints = [
        j if j.loop is None else replace(j, at_home=float(q_all[model.joints[model.getJointId(j.name)].idx_q]))
        for j in robot.tree.joints
    ]
    tree = replace(robot.tree, joints=tuple(joints))
    report = replace(robot.report, findings=(*robot.report.findings, *findings))
    return replace(robot, tree=tree, bodies=merge_fixed_links(tree), q_home=frozen(q), report=report)


def _with_legs_at_home(robot: Robot) -> Robot:
    """Returns the robot with its leg records evaluated at home."""
    feet = {name: leg.foot for name, leg in robot.legs.items()}
    assert robot.coupling is not None
    q_all = robot.coupling.configuration(robot.q_home)
    return replace(robot, legs=make_legs(robot.bodies, robot.root, make_limbs(robot), feet, q_all))


# -- refusals --------------------------------------------------------------------------------------------------------
def _reject_missing_ends(robot: Robot, loops: Sequence[KinematicLoop]) -> None:
    """Raises a ModelError if a loop ends at a link that the root replaces."""
    for loop in loops:
        for link in (loop.link_a, loop.link_b):
            if link not in robot.tree.links_by_name:
                raise ModelError(
                    f"{loop.where}: loop {loop.name!r} ends at {link!r}, which the {robot.root} root replaces; pass "
                    "root='fixed', or leave the loop open by loops=False"
                )


def _reject_unsupported_shape(model: pin.Model, cut: LoopCut, tree: Tree) -> None:
    """Raises a ModelError if nothing moves in a loop, or a joint of it has several degrees of freedom."""
    loop = cut.loop
    a, b, _ = loop_branches(model, cut)
    if not a and not b:
        raise ModelError(
            f"{loop.where}: loop {loop.name!r} connects links {loop.link_a!r} and {loop.link_b!r}, between which no "
            "joint moves; remove the loop"
        )
    for joint in (*a, *b):
        name = model.names[joint]
        if name not in tree.joints_by_name or tree.joints_by_name[name].nv != 1:
            what = (
                "the root"
                if name not in tree.joints_by_name
                else f"the {tree.joints_by_name[name].type} joint {name!r}"
            )
            raise ModelError(
                f"{loop.where}: loop {loop.name!r} contains {what}, but every joint of a loop must have one degree "
                "of freedom; define the loop so that it is cut at this joint, or leave the loop open by loops=False"
            )


# -- parts -----------------------------------------------------------------------------------------------------------
def _merge_loops(robot: Robot, loops: Sequence[KinematicLoop], q_all: Array) -> tuple[Tree, Array]:
    """Returns the tree with all loops and all joints independent (loop joints count turns), and its home."""
    tree = replace(robot.tree, loops=(*robot.tree.loops, *loops))
    model = robot.model
    on_loops = {
        model.names[joint]
        for cut in cut_loops(model, tree.loops)
        for side in loop_branches(model, cut)[:2]
        for joint in side
    }
    joints, q = [], [*q_all[: model.nq - sum(j.nq for j in tree.joints)]]
    for joint in tree.joints:
        if joint.nq == 0:
            joints.append(joint)
            continue
        at = model.joints[model.getJointId(joint.name)].idx_q
        here = q_all[at : at + joint.nq].tolist()
        if joint.name in on_loops and joint.type == "continuous":
            here = [float(np.arctan2(here[1], here[0]))]
            joint = replace(joint, type="revolute", limits=replace(joint.limits, lower=-np.inf, upper=np.inf))
        joints.append(replace(joint, loop=None))
        q += here
    return replace(tree, joints=tuple(joints)), np.array(q)


def _build_model(robot: Robot, tree: Tree) -> pin.Model:
    """Returns the Pinocchio model of the tree, with the inertias of the robot."""
    model = build_pinocchio_model(tree, robot.root, robot.bodies)
    add_feet(model, [leg.foot for leg in robot.legs.values()])
    return model


def _leg_joints(robot: Robot) -> set[str]:
    return {joint for leg in robot.legs.values() for joint in leg.joints}


def _stack_limits(own: Sequence[Joint], q: Array, side: str) -> Array:
    values = [[getattr(j.limits, side)] if j.nq == 1 else [np.inf if side == "upper" else -np.inf] * j.nq for j in own]
    root = len(q) - sum(map(len, values))
    return frozen([*[np.inf if side == "upper" else -np.inf] * root, *(x for each in values for x in each)])


def _report_loops(tree: Tree, verdict: LoopVerdict) -> list[Finding]:
    """Returns notes on the dependent and independent joints of each loop."""
    out = []
    for group in verdict.groups:
        for cut in group.cuts:
            loop = cut.loop
            if loop.kind == "gear":
                continue
            follow, lead = ", ".join(group.dependent), ", ".join(group.independent)
            reason = (
                f"loop {loop.name!r} ({loop.kind}) closes {loop.link_a!r} and {loop.link_b!r}: {follow} follow {lead}; "
                f"rank {group.rank} of {group.rows} constraints"
            )
            out.append(Finding("note", loop.where, reason, "pass loops=False to leave it open"))
    return out
