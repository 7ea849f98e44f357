"""Root joint of a robot, and the treatment of a world link or a floating joint that the file has already."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..errors import ModelError
from ..urdf.tree import Finding, Joint, Limits, Link, Tree
from ..urdf.values import UNIVERSE

#: Entries of q and of v that each root takes.
ROOT_SIZES = MappingProxyType({"free": (7, 6), "planar": (3, 3), "fixed": (0, 0)})
ROOTS = tuple(ROOT_SIZES)
#: Names of the joints of a moving root; a robot on a fixed one may use them.
ROOT_JOINTS = frozenset({"root_joint", "root_x", "root_z", "root_pitch"})
#: Names that no leg may have, whatever the root.
RESERVED_NAMES = ROOT_JOINTS | {UNIVERSE}
#: A root link of this name is the inertial frame itself, not a part of the robot.
WORLD = "world"


def is_held_by_world(tree: Tree) -> bool:
    """Returns whether the root link is the world, in which the robot floats or to which it is fixed."""
    first = tree.children[tree.root.name]
    return len(first) == 1 and (first[0].type == "floating" or (tree.root.name == WORLD and first[0].type == "fixed"))


def choose_root(tree: Tree, legs: int, has_moved_trunk: bool, findings: list[Finding]) -> str:
    """Returns the root for a file that specifies none: "free" if it floats, stands on several legs or is one body.

    With `has_moved_trunk`, joints of the file move the body from which the legs extend, in place of a root joint.
    """
    first = tree.children[tree.root.name]
    if len(first) == 1 and first[0].type == "floating":
        root, why = "free", f"{first[0].name!r} is a floating joint"
    elif tree.root.name == WORLD and not (len(first) == 1 and first[0].type == "fixed"):
        root, why = "fixed", "a moving joint attaches the robot to the world, or the world carries further joints"
    elif not any(j.nv for j in tree.joints):
        root, why = "free", "the robot has no moving joint"
    elif legs > 1 and has_moved_trunk:
        root, why = "fixed", "joints of the file move the trunk of the robot"
    elif legs > 1:
        root, why = "free", "the robot stands on several legs"
    else:
        root, why = "fixed", "the robot does not stand on several legs"
    findings.append(
        Finding("note", tree.root.where, f"root={root!r} is assumed, because {why}", "pass root= for another root")
    )
    return root


def attach_root(tree: Tree, root: str, findings: list[Finding]) -> Tree:
    """Removes a world link above the robot if the root moves, and a floating joint that `root` replaces."""
    above = tree.root
    first = tree.children[above.name]
    shapes = len(above.visuals) + len(above.collisions)
    floats = len(first) == 1 and first[0].type == "floating"
    # What a floating joint hangs from is the world, whatever is drawn on it.
    is_world = above.inertial is None and len(first) == 1 and (not shapes or floats)
    if not is_world:
        if root != "fixed" and above.name == WORLD and first:
            raise ModelError(
                f"{above.where}: {len(first)} joints or shapes are attached to the world link, which would move "
                "together with a moving root; pass root='fixed', or remove them"
            )
        if root != "fixed" and floats:
            apart = (
                f"link {above.name!r} has a mass and moves freely beside {first[0].child!r}, because a floating joint "
                "is between them"
            )
            findings.append(Finding("warning", above.where, apart, "remove its <inertial> if it is the world"))
        return tree
    joint = first[0]
    if root == "fixed" and floats:
        held = replace(joint, type="fixed", limits=Limits())
        findings.append(
            Finding(
                "note", joint.where, f"joint {joint.name!r} is a floating joint and becomes fixed, because root='fixed'"
            )
        )
        return replace(tree, joints=(held, *tree.joints[1:]))
    if root == "fixed" or not (floats or (above.name == WORLD and joint.type == "fixed")):
        if root != "fixed" and above.name == WORLD:
            raise ModelError(
                f"{joint.where}: a {joint.type} joint attaches the robot to the world; pass root='fixed', "
                "or remove the world link"
            )
        return tree
    reason = f"link {above.name!r} and joint {joint.name!r} are replaced by the {root} root"
    if shapes:
        lost = (
            f"{shapes} shapes of link {above.name!r}, the parent of a floating joint, belong to the world and "
            "are ignored"
        )
        findings.append(Finding("warning", above.where, lost, "add them to a terrain instead"))
    findings.append(Finding("note", above.where, reason, f"q holds the pose of {joint.child!r}"))
    return replace(tree, links=tree.links[1:], joints=tree.joints[1:])


def reject_root_names(tree: Tree, root: str) -> None:
    """Rejects names of the file that a moving root uses for its own joints.

    Raises:
        ModelError: a link or joint of `tree`, to which `root` is attached, has such a name.
    """
    named: tuple[Link | Joint, ...] = (*tree.links, *tree.joints)
    for each in named if root != "fixed" else ():
        if each.name in ROOT_JOINTS:
            raise ModelError(
                f"{each.where}: the name {each.name!r} is reserved for the joints of a {root} root; rename it, or pass "
                "root='fixed'"
            )
