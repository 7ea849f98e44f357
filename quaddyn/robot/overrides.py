"""Overrides: values given by the caller replace those of the file; the origin of each value is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..urdf.reader import NO_LIMIT
from ..urdf.tree import LIMITS, Finding, Joint, Limits, Tree
from .arguments import check_number, check_sequence
from .bodies import CompositeBody
from .configuration import independent_joints


def apply_overrides(
    tree: Tree,
    *,
    limits: Limits | Mapping[str, Limits | Mapping[str, float]] | None,
    damping: float | Mapping[str, float] | None,
    friction: float | Mapping[str, float] | None,
    armature: float | Mapping[str, float] | None,
) -> tuple[Tree, dict[str, str]]:
    """Returns the tree with the values of the caller, and the origin of each value."""
    moving = [j for j in tree.joints if j.nv == 1]
    names = [j.name for j in moving]
    if isinstance(limits, Limits):  # joints without a motor get none
        limits = {joint.name: limits for joint in moving if joint.limits.effort > 0.0}
    if limits is not None and not isinstance(limits, Mapping):
        raise ArgumentTypeError(
            f"limits: expected Limits, or a mapping from joint to limits, got {type(limits).__name__}"
        )
    for argument, given in (("limits", limits), ("damping", damping), ("friction", friction), ("armature", armature)):
        if isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise UnknownNameError(f"joint in {argument}=", name, names)
    provenance: dict[str, str] = {}
    joints = []
    for joint in tree.joints:
        if joint.nv == 1:
            joint = _override_joint(
                joint, limits, {"damping": damping, "friction": friction, "armature": armature}, provenance
            )
        joints.append(joint)
    if all(a is b for a, b in zip(joints, tree.joints, strict=True)):
        return tree, provenance
    return replace(tree, joints=tuple(joints)), provenance


def _override_joint(
    joint: Joint,
    limits: Mapping[str, Limits | Mapping[str, float]] | None,
    losses: Mapping[str, float | Mapping[str, float] | None],
    provenance: dict[str, str],
) -> Joint:
    """Returns a joint with the values of the caller; records the origin of each value in `provenance`."""
    file = str(joint.where)
    for quantity in LIMITS:
        value = getattr(joint.limits, quantity)
        provenance[f"{joint.name}.{quantity}"] = file if np.isfinite(value) else f"unlimited, {file}"
    changes: dict[str, object] = {}
    if limits is not None and joint.name in limits:
        given = limits[joint.name]
        if not isinstance(given, Limits | Mapping):
            raise ArgumentTypeError(f"limits[{joint.name!r}]: expected Limits or a mapping, got {type(given).__name__}")
        values = (
            {k: getattr(given, k) for k in LIMITS if k in given.given} if isinstance(given, Limits) else dict(given)
        )
        if unknown := set(values) - set(LIMITS):
            raise ArgumentError(
                f"limits[{joint.name!r}]: unknown names {sorted(unknown)}; known names: {', '.join(LIMITS)}"
            )
        values = {k: check_number(f"limits[{joint.name!r}][{k!r}]", v) for k, v in values.items()}
        new = Limits(**({k: getattr(joint.limits, k) for k in LIMITS} | values))
        if not (new.lower <= new.upper and new.velocity > 0.0 and new.effort >= 0.0):
            raise ArgumentError(
                f"limits[{joint.name!r}]: expected lower <= upper, velocity > 0 and effort >= 0, got {new}"
            )
        changes["limits"] = new
        provenance.update({f"{joint.name}.{k}": "argument limits" for k in values})
    for quantity, option in losses.items():
        chosen = option.get(joint.name) if isinstance(option, Mapping) else option
        in_file = getattr(joint, quantity)
        provenance[f"{joint.name}.{quantity}"] = file if in_file else f"0, not given in {file}"
        if chosen is not None:
            chosen = check_number(quantity, chosen)
            if not 0.0 <= chosen < NO_LIMIT:
                raise ArgumentError(f"{quantity}: expected a finite number >= 0 for joint {joint.name!r}, got {chosen}")
            changes[quantity] = chosen
            provenance[f"{joint.name}.{quantity}"] = f"argument {quantity}"
    return replace(joint, **changes) if changes else joint  # type: ignore[arg-type]


def select_actuated_joints(
    bodies: Sequence[CompositeBody], chosen: Sequence[str] | None, findings: list[Finding]
) -> tuple[str, ...]:
    """Returns the names of the actuated joints: those given, or every 1-dof joint whose effort limit is not 0."""
    joints = list(independent_joints(bodies).values())
    names = [j.name for j in joints]
    if chosen is not None:
        chosen = check_sequence("actuated", chosen, "joint names")
        mimics = {b.joint.name: b.joint.mimic for b in bodies if b.joint is not None}
        for name in chosen:
            if (mimic := mimics.get(name)) is not None:
                raise ArgumentError(
                    f"actuated: joint {name!r} mimics joint {mimic.joint!r} and has no motor; name joint "
                    f"{mimic.joint!r}, which moves both"
                )
            if name not in names:
                raise UnknownNameError("joint in actuated=", name, names)
        if len(set(chosen)) != len(tuple(chosen)):
            raise ArgumentError("actuated: expected each joint once, but a joint is named twice")
        return tuple(chosen)
    for joint in joints:
        if joint.limits.effort == 0.0:
            findings.append(
                Finding(
                    "note", joint.where, "effort=0: the joint is assumed to be passive", "pass actuated= or limits="
                )
            )
    return tuple(j.name for j in joints if j.limits.effort > 0.0)
