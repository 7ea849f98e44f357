"""Plausibility: detects lengths, angles, masses and inertias that are probably not in SI units.

Each quantity is examined over the whole robot and reported in one finding that names the likely unit, because an author
a file in millimeters has them everywhere.  The reader reports links that are implausible individually.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..urdf.tree import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Finding,
    Geometry,
    Joint,
    Link,
    MeshShape,
    SphereShape,
    Tree,
    Where,
)

#: A position limit of a revolute joint beyond this [rad] is an angle in degrees: joints turn a few times at most.
MAX_REVOLUTE_LIMIT = 4.0 * 2.0 * math.pi
#: Up to this [degrees] a limit is an angle in degrees; beyond, the joint is unlimited.
MAX_DEGREES = 1080.0
#: Upper ends of symmetric ranges [rad] that mean "no limit".
UNLIMITED_VALUES = (100.0, 1000.0)
#: Distance from the root to the farthest link [m] from which on lengths are in another unit.
MAX_SIZE = 20.0
#: Total mass [kg], and mass per volume of a cube around the robot [kg/m^3], from which on masses are in another unit.
#: Robots that stand or reach have 1 to 200 kg/m^3; a cube of solid aluminium has 2,700.
MAX_MASS, MAX_DENSITY = 1e4, 3e3
#: Size of a link divided by its radius of gyration, as robots have it in the median: 3.5 for a thin rod.
USUAL_RATIO = 3.0
#: Distance from the root to the farthest link of most robots [m].
USUAL_SIZE = 0.5
#: Factors between the usual ratio and the median of a robot that are taken for a unit error: lengths in inches give 39,
#: inertias in g m^2 1/32.
MAX_EXCESS, MIN_EXCESS = 10.0, 0.05
#: Radius of gyration of a single link above which a unit error is assumed, as a fraction of the distance from the root
#: to the farthest link; and the fraction of the robot's mass from which on a link counts.
MAX_GYRATION_FRACTION, MIN_MASS_FRACTION = 1.5, 0.01
#: Factor by which the usual ratio and the usual size may be wrong for a robot.
USUAL_VALUE_UNCERTAINTY = 4.0
#: Lengths of what a unit's name stands for, in metres, and inertias in kg m^2.
LENGTHS = MappingProxyType({"centimeters": 1e-2, "inches": 0.0254, "millimeters": 1e-3})
INERTIAS = MappingProxyType({"g m^2": 1e-3, "kg cm^2": 1e-4, "kg mm^2": 1e-6, "g cm^2": 1e-7, "g mm^2": 1e-9})
#: Mass of a payload [masses of the robot], and its size and its distance from the origin of its link [distance from the
#: root to the farthest link], from which on they are in another unit; and the usual size and distance.
MAX_PAYLOAD_MASS, MAX_PAYLOAD_DISTANCE, USUAL_PAYLOAD_DISTANCE = 5.0, 3.0, 0.3
#: Joints that a finding lists.
MAX_LISTED_JOINTS = 4


def find_unit_errors(tree: Tree) -> list[Finding]:
    """Returns warnings for a robot whose values contradict each other or its size; each names the likely unit."""
    findings = find_angles_in_degrees(tree.joints)
    where = Where(tree.file, 0, f'<robot name="{tree.name}">')
    size = _reach(tree)
    mass = sum(link.inertial.mass for link in tree.links if link.inertial is not None)
    ratio = _median_length_to_gyration_ratio(tree)
    excess = 1.0 if ratio is None else ratio / USUAL_RATIO
    dense = size > 0.0 and mass > MAX_DENSITY * (2.0 * size) ** 3
    words = f"the robot reaches {size:.3g} m from its root"
    if size > MAX_SIZE or (excess > MAX_EXCESS and not dense):
        unit = _likely_units(
            LENGTHS, 1.0 / excess if excess > MAX_EXCESS else USUAL_SIZE / size, USUAL_VALUE_UNCERTAINTY
        )
        if excess > MAX_EXCESS:
            words += f", and its links are {ratio:.3g} times as long as their radii of gyration"
        findings.append(Finding("warning", where, words, f"lengths seem to be in {unit}; convert them to meters"))
    elif mass > MAX_MASS or dense:
        words = f"the robot has a mass of {mass:.4g} kg, and {words}"
        findings.append(Finding("warning", where, words, "masses seem to be in grams; convert them to kilograms"))
    elif excess < MIN_EXCESS:
        unit = _likely_units(INERTIAS, excess**2, USUAL_VALUE_UNCERTAINTY**2)
        words = f"radii of gyration are {1.0 / (excess * USUAL_RATIO):.3g} times as large as the links (in the median)"
        findings.append(Finding("warning", where, words, f"inertias seem to be in {unit}; convert them to kg m^2"))
    elif large := [
        link
        for link in tree.links
        if link.inertial is not None
        and link.inertial.mass > MIN_MASS_FRACTION * mass
        and _radius_of_gyration(link) > MAX_GYRATION_FRACTION * size > 0.0
    ]:
        names = ", ".join(link.name for link in large[:MAX_LISTED_JOINTS]) + (
            ", ..." if len(large) > MAX_LISTED_JOINTS else ""
        )
        words = (
            f"the inertia of {len(large)} links ({names}) is that of a body larger than the robot: a radius of "
            f"gyration of {_radius_of_gyration(large[0]):.3g} m, where the robot reaches {size:.3g} m from its root"
        )
        findings.append(Finding("warning", large[0].where, words, "correct <mass> or <inertia>, in kg and kg m^2"))
    return findings


def find_payload_unit_errors(tree: Tree, mass: float, lengths: Mapping[str, float]) -> list[str]:
    """Returns a sentence about each value of a payload that is too large for the robot; it names the likely unit.

    Args:
        tree: the robot without the payload.
        mass: mass of the payload [kg].
        lengths: distances of the payload from the origin of its link, or its sizes, by name of the argument [m].
    """
    own_mass = sum(link.inertial.mass for link in tree.links if link.inertial is not None)
    reach, findings = _reach(tree), list[str]()
    if mass > MAX_PAYLOAD_MASS * own_mass > 0.0:
        findings.append(
            f"mass: {mass:g} kg is {mass / own_mass:.0f} times the mass of the robot, {own_mass:.3g} kg, and seems to "
            "be in grams; pass kilograms"
        )
    for name, length in lengths.items():
        if length > MAX_PAYLOAD_DISTANCE * reach > 0.0:
            unit = _likely_units(LENGTHS, USUAL_PAYLOAD_DISTANCE * reach / length, USUAL_VALUE_UNCERTAINTY)
            findings.append(
                f"{name}: {length:.4g} m is much for a robot that reaches {reach:.3g} m from its root, and seems to be "
                f"in {unit}; pass meters"
            )
    return findings


def find_angles_in_degrees(joints: Sequence[Joint]) -> list[Finding]:
    """Returns one warning if position limits of revolute joints are angles in degrees."""
    found = []
    for joint in joints:
        largest = max(abs(joint.limits.lower), abs(joint.limits.upper))
        if joint.type == "revolute" and MAX_REVOLUTE_LIMIT < largest <= MAX_DEGREES:
            found.append(joint)
    if all(-joint.limits.lower == joint.limits.upper in UNLIMITED_VALUES for joint in found):
        return []
    limits, names = found[0].limits, ", ".join(joint.name for joint in found[:MAX_LISTED_JOINTS])
    low, high = math.radians(limits.lower), math.radians(limits.upper)
    more = ", ..." if len(found) > MAX_LISTED_JOINTS else ""
    reason = (
        f"the position limits {limits.lower:g} .. {limits.upper:g} rad span many turns and seem to be in degrees, as "
        f"do those of {len(found)} joints in all ({names}{more})"
    )
    advice = f"convert them to radians ({low:.4g} .. {high:.4g} here), or use a continuous joint"
    return [Finding("warning", found[0].where, reason, advice)]


def _reach(tree: Tree) -> float:
    """Returns the largest distance of a link's far end from the root [m], see `_link_distances`."""
    distances = _link_distances(tree)
    return max(distances[link.name] + _extent(link) for link in tree.links)


def _link_distances(tree: Tree) -> dict[str, float]:
    """Returns the distance of each link's origin from the root's [m], at zero configuration, frames parallel."""
    origins = {tree.root.name: np.zeros(3)}
    for joint in tree.joints:
        origins[joint.child] = origins[joint.parent] + joint.placement.translation
    return {name: float(np.linalg.norm(origin)) for name, origin in origins.items()}


def _median_length_to_gyration_ratio(tree: Tree) -> float | None:
    """Returns size divided by radius of gyration, the median over the links by mass; None if no link has both."""
    ratios, weights = [], []
    for link in tree.links:
        gyration = _radius_of_gyration(link)
        length = max(
            [float(np.linalg.norm(joint.placement.translation)) for joint in tree.children[link.name]] + [_extent(link)]
        )
        if gyration > 0.0 and length > 0.0 and link.inertial is not None:
            ratios.append(length / gyration)
            weights.append(link.inertial.mass)
    if not ratios:
        return None
    order = np.argsort(ratios)
    cumulative_mass = np.cumsum(np.array(weights)[order])
    return float(np.array(ratios)[order][np.searchsorted(cumulative_mass, 0.5 * cumulative_mass[-1])])


def _radius_of_gyration(link: Link) -> float:
    """Returns the mean radius of gyration of a link about its center of mass [m]; 0 without mass."""
    if link.inertial is None or not link.inertial.mass > 0.0:
        return 0.0
    return math.sqrt(max(float(np.trace(link.inertial.inertia)), 0.0) / (2.0 * link.inertial.mass))


def _extent(link: Link) -> float:
    """Returns the distance from a link's origin to the end of its shapes and center of mass [m]; meshes are points."""
    ends = [_shape_end(geometry) for geometry in (*link.collisions, *link.visuals)]
    if link.inertial is not None:
        ends.append(float(np.linalg.norm(link.inertial.com)))
    return max(ends, default=0.0)


def _shape_end(geometry: Geometry) -> float:
    """Returns the distance from the link's origin to the far end of a shape [m]."""
    at = float(np.linalg.norm(geometry.placement.translation))
    match geometry.shape:
        case SphereShape(radius):
            return at + radius
        case BoxShape(size):
            return at + 0.5 * float(np.linalg.norm(size))
        case CylinderShape(radius, length):
            return at + math.hypot(radius, 0.5 * length)
        case CapsuleShape(radius, length):
            return at + radius + 0.5 * length
        case MeshShape():
            return at


def _likely_units(units: Mapping[str, float], estimate: float, uncertainty: float) -> str:
    """Returns the units whose size may be `estimate`, known up to a factor `uncertainty`; at least the nearest one."""
    distance = {name: abs(math.log(size / estimate)) for name, size in units.items()}
    nearest = min(distance.values())
    return " or ".join(name for name, far in distance.items() if far <= max(nearest, math.log(uncertainty)))
