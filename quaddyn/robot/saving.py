"""Records of a `Robot` as plain data for files: the document and every value that `load` resolved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ArgumentError, QuaddynError
from ..urdf.tree import LIMITS, Array, Limits
from .catalogue import CATALOGUE, find_entry
from .inertial_update import LOSSES
from .loader import load
from .model import add_feet, build_pinocchio_model
from .robot import Foot, Robot
from .source import BASE_JOINT, is_text

RECORD_FORMAT = 1
#: Relative deviation up to which joints and masses of two files are those of the same robot.
SOURCE_TOLERANCE = 1e-6


def urdf_text(robot: Robot) -> str:
    """Returns the URDF of a robot as text; bytes that are not UTF-8 become surrogates ("surrogateescape")."""
    return robot.source if isinstance(robot.source, str) else robot.source.decode("utf-8", "surrogateescape")


def to_record(robot: Robot) -> dict[str, Any]:
    """Returns the data, in JSON types, from which `from_record` restores the same robot; numbers are exact.

    The record contains the URDF and what does not follow from its text alone: radii of feet from meshes, and values
    that arguments of `load` have changed.
    """
    joints = {b.joint.name: b.joint for b in robot.bodies if b.joint is not None and b.joint.nv == 1}
    plain = build_pinocchio_model(robot.tree, robot.root)
    add_feet(plain, (leg.foot for leg in robot.legs.values()))
    return {
        "format": RECORD_FORMAT,
        "name": robot.name,
        "urdf": urdf_text(robot),
        "root": robot.root,
        "base": robot.tree.joints_by_name[BASE_JOINT].placement.rotation.tolist()
        if "base" in robot.report.provenance
        else None,
        "coupled": any(joint.mimic is not None for joint in robot.tree.joints),
        "closed": bool(robot.loops),
        "repaired": any(a != b for a, b in zip(robot.model.inertias, plain.inertias, strict=True)),
        "actuated": list(robot.actuated),
        "q_home": robot.q_home.tolist(),
        "poses": {name: q.tolist() for name, q in robot.poses.items()},
        "legs": {name: list(leg.joints) for name, leg in robot.legs.items()},
        "feet": {
            name: {"frame": leg.foot.frame, "radius": leg.foot.radius, "offset": leg.foot.offset.tolist()}
            for name, leg in robot.legs.items()
        },
        "limits": {
            name: {k: getattr(joint.limits, k) for k in LIMITS if np.isfinite(getattr(joint.limits, k))}
            for name, joint in joints.items()
        },
        **{loss: {name: getattr(joint, loss) for name, joint in joints.items()} for loss in LOSSES},
    }


def from_record(
    record: Mapping[str, Any],
    *,
    source: str | os.PathLike[str] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
) -> Robot:
    """Restores the robot of a record of `to_record`.

    Args:
        record: record of `to_record`; one from elsewhere is rejected where `load` would reject it.
        source: a catalogue name or file of the same robot, for the meshes that a viewer draws.  None: the file of the
            catalogue if it is the same document, else the text without meshes.
        packages: package roots, see `load`.

    Raises:
        ArgumentError: not a record, or of another format; or `source` does not exist or is another robot.
        ModelError: its URDF is rejected.

    Warns:
        RuntimeWarning: the masses of `source`, which the returned robot has, are not those of the record.
    """
    try:
        if record["format"] != RECORD_FORMAT:
            raise ArgumentError(
                f"robot: the record has format {record['format']}, but this version of quaddyn reads format "
                f"{RECORD_FORMAT}"
            )
        feet = {
            name: Foot(name, str(foot["frame"]), float(foot["radius"]), np.array(foot["offset"], dtype=np.float64))
            for name, foot in record["feet"].items()
        }
        # A joint without a limit in the record has none, even if the document has one.
        unlimited = {k: getattr(Limits(), k) for k in LIMITS}
        limits = {
            name: Limits(**(unlimited | {k: float(x) for k, x in given.items()}))
            for name, given in record["limits"].items()
        }
        losses = {loss: {name: float(x) for name, x in record[loss].items()} for loss in LOSSES}
        options: dict[str, Any] = {
            "root": record["root"],
            "mimic": bool(record.get("coupled", False)),  # earlier records are of joints that all move on their own
            "loops": bool(record.get("closed", False)),
            "repair": ("inertia",) if record["repaired"] else (),
            "actuated": tuple(record["actuated"]),
            "q_home": np.array(record["q_home"], dtype=np.float64),
            "legs": {name: tuple(joints) for name, joints in record["legs"].items()},
            "limits": limits,
            **losses,
        }
        urdf = str(record["urdf"])
        if not is_text(urdf):  # else a record could name any file
            raise ArgumentError(f"robot: expected the text of a URDF as record['urdf'], got {urdf[:40]!r}")
    except QuaddynError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"robot: not a record that to_record returns ({type(error).__name__}: {error})") from None
    poses = _poses_of(record)
    found = _find_in_catalogue(urdf) if source is None else source
    if source is not None:
        options["base"] = record.get("base")  # the text of the record is turned already
    options |= {"feet": feet, "packages": packages, "allow_massless": True}
    robot = load(urdf if found is None else found, **options) if source is None else _load_from(source, urdf, options)
    return replace(robot, poses={name: q for name, q in poses.items() if q.shape == robot.q_home.shape})


def _load_from(source: str | os.PathLike[str], urdf: str, options: dict[str, Any]) -> Robot:
    """Returns the robot of `source` with the options of a record.

    Raises:
        ArgumentError: the source does not exist, or is another robot than that of the document `urdf` of the record.

    Warns:
        RuntimeWarning: it is the same robot with other masses.
    """
    recorded = load(urdf, **options | {"base": None})
    try:
        robot = load(source, **options)
    except (QuaddynError, ValueError) as error:
        raise ArgumentError(
            f"source: {str(source)!r} is not the robot {recorded.name!r} of the record: {error}"
        ) from error
    recorded_model, model = recorded.model, robot.model
    names, recorded_names = set(model.names), set(recorded_model.names)
    if names != recorded_names:
        differing = ", ".join(sorted(names ^ recorded_names)[:4])
        raise ArgumentError(
            f"source: {str(source)!r} is another robot than {recorded.name!r}: its joints differ ({differing})"
        )
    pairs = [(model.getJointId(name), i) for i, name in enumerate(recorded_model.names)]
    if displaced := [
        recorded_model.names[i]
        for k, i in pairs
        if not model.jointPlacements[k].isApprox(recorded_model.jointPlacements[i], SOURCE_TOLERANCE)
    ]:
        raise ArgumentError(
            f"source: {str(source)!r} is another robot than {recorded.name!r}: joint {displaced[0]!r} has another "
            "placement"
        )
    if not all(model.inertias[k].isApprox(recorded_model.inertias[i], SOURCE_TOLERANCE) for k, i in pairs):
        warnings.warn(
            f"source: {str(source)!r} has other masses than {recorded.name!r} of the record: in total "
            f"{robot.mass:.4g} kg instead of {recorded.mass:.4g} kg; omit source to use the masses of the record",
            RuntimeWarning,
            stacklevel=4,
        )
    return robot


def _poses_of(record: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the named poses of a record; earlier records have none.

    Raises:
        ArgumentError: they are not finite vectors by name.
    """
    try:
        poses = {str(name): np.array(q, dtype=np.float64) for name, q in dict(record.get("poses", {})).items()}
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"robot: record['poses'] has no vectors of numbers by name ({error})") from None
    if not all(np.isfinite(q).all() for q in poses.values()):
        raise ArgumentError("robot: record['poses'] has numbers that are not finite")
    return poses


def _find_in_catalogue(urdf: str) -> str | None:
    """Returns the catalogue name of the robot with this document; None if there is none."""
    data = urdf.encode("utf-8", "surrogateescape")
    for name in CATALOGUE:
        path = find_entry(name).path
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return name
    return None
