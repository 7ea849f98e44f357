"""An independent reading of a URDF, and its comparison with a model that a loader made of the file.

Shares no code with quaddyn: the standard library's XML parser, NumPy and the URDF specification
(https://wiki.ros.org/urdf/XML).  `read` collects *faults* (no loader may accept the file) and *doubts* (the
specification is ambiguous, and a loader may accept or reject).  A file with neither is *good* and has to load.

Decisions where the specification is silent or real files disagree:

* an `<inertial>` that is present must be complete: origin optional, mass and all six moments required;
* physics is checked for composite bodies (links connected by fixed joints), not for single links;
* the pseudo-inertia of a composite body, taken about its center of mass, may miss semi-definiteness by
  `PSD_TOLERANCE` of its trace (files round their numbers) before the body counts as impossible;
* a revolute or prismatic joint without `<limit>`, effort or velocity, a locked joint, whitespace around numbers,
  an infinite limit, unknown attributes on physical elements, anything about materials, a floating or planar joint
  directly below a massless root: doubts;
* errors in visual elements, and undeclared prefixes (of other tools), are doubts;
* a negative mass, damping or friction, or reversed limits, within `ROUNDING` of 0 or of each other are doubts, which a
  loader may read as 0 or as equal limits: exporters write such residues of rounding;
* identical duplicate children are harmless, contradictory ones are faults;
* inertia practically without mass (a radius of gyration beyond `GYRATION`) is a fault;
* numbers beyond `ABSURD` are faults, beyond `LARGE` doubts (both in `fuzz_reading`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import numpy as np
from fuzz_reading import NV, ROUNDING, Array, Body, Reading, parse, without_default_namespace

PSD_TOLERANCE = 1e-6
VOID = 1e4  # [rad or m]; a position limit beyond this may be read as no limit
GYRATION = 1e6  # [m]; a larger radius of gyration counts as inertia without mass
SINGULAR, ILL = 1e-13, 1e-9  # smallest eigenvalue of M scaled to a unit diagonal: fault below, doubt below


def read(data: bytes, root: str | None) -> Reading:
    """Reading of the bytes of a URDF for a `root` joint as in `quaddyn.load` (None: the loader chooses)."""
    with np.errstate(all="ignore"):  # extreme numbers overflow; the results are checked instead
        out = parse(data)
        if not out.faults:
            _judge_physics(out, root)
    return out


# -- physics ----------------------------------------------------------------------------------------------------
def _judge_physics(out: Reading, root: str | None) -> None:
    base = out.bodies[0]
    if root in ("free", "planar") and out.root == "world":
        if "world" in out.inertials or sum(j.parent == "world" for j in out.joints.values()) > 1:
            out.doubts.append("a world with mass or several joints, under a moving root")
    if base.mass == 0 and root != "fixed":
        out.doubts.append("massless base: whether it may float is the loader's choice")
    if not out.moving and root in (None, "fixed"):
        out.doubts.append("nothing moves")
    for body in out.bodies:
        still = body is base and (root == "fixed" or (root is None and body.mass == 0))
        _judge_body(body, still, out)
    if out.faults:
        return
    if not out.moving and (root or "fixed") == "fixed":
        return
    for seed in (-1, 0, 1):
        m = mass_matrix(out, root or "free", seed)
        d = np.diag(m)
        scaled = unit_diagonal(m)
        low = float(np.linalg.eigvalsh(scaled)[0]) if np.isfinite(scaled).all() else -np.inf
        if not low > SINGULAR or d.min() < 1e-24 * d.max():
            # A point mass that crosses an axis makes M singular at that configuration alone.
            harmless = seed < 0 or (base.mass == 0 and root is None)
            (out.doubts if harmless else out.faults).append(f"mass matrix singular: {low:.1e}")
        elif low < ILL or d.min() < 1e-12 * d.max():
            out.doubts.append(f"mass matrix ill-conditioned: {low:.1e}")


def _judge_body(body: Body, still: bool, out: Reading) -> None:
    label = f"body {body.head!r}"
    if body.mass < 0:
        out.faults.append(f"{label}: mass {body.mass}")
        return
    if body.mass == 0:
        if not still:
            (out.doubts if body.joint is None else out.faults).append(f"{label}: no mass")
        return
    com, inertia = body.about_com()
    sigma = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    low = float(np.linalg.eigvalsh(sigma)[0])
    # Rounding error of the shift to the center of mass, of order m |c|^2.
    scale = abs(float(np.trace(inertia)))
    noise = 1e-13 * (body.mass * float(com @ com) + float(np.abs(body.inertia).max()))
    with np.errstate(over="ignore"):
        gyration = float(np.sqrt(np.float64(scale) / body.mass))
    if gyration > 20:
        out.doubts.append(f"{label}: a radius of gyration of {gyration:.1e} m")
    if gyration > GYRATION and not still:
        out.faults.append(f"{label}: {scale:.1e} kg m^2 of {body.mass} kg, a radius of gyration of {gyration:.1e} m")
    if low < -PSD_TOLERANCE * scale - noise:
        (out.doubts if still else out.faults).append(
            f"{label}: pseudo-inertia eigenvalue {low:.1e} of trace {scale:.1e}"
        )
    elif low < 0:
        out.doubts.append(f"{label}: pseudo-inertia on the edge")
    if body.mass < 1e-6 or (low > 0 and scale < 1e-12):
        out.doubts.append(f"{label}: mass {body.mass}, trace {scale:.1e}")


def coordinate(name: str, seed: int) -> float:
    """A joint coordinate in (-1, 1) [rad or m] that depends only on the joint's name and `seed`; 0 if `seed` < 0."""
    if seed < 0:
        return 0.0
    return (zlib.crc32(f"{seed}:{name}".encode("utf-8", "surrogatepass")) % 20011) / 10005.5 - 1.0


def placements(out: Reading, seed: int) -> list[tuple[Array, Array]]:
    """Pose (rotation, translation) of each body in the root link, at the joint positions of `coordinate`."""
    poses: list[tuple[Array, Array]] = [(np.eye(3), np.zeros(3))]
    for body in out.bodies[1:]:
        joint = out.joints[body.joint or ""]
        r, p = poses[body.parent]
        r, p = r @ body.rotation, r @ body.translation + p
        if joint.type in ("revolute", "continuous", "prismatic"):
            axis = joint.axis / np.linalg.norm(joint.axis)
            x = coordinate(joint.name, seed)
            if joint.type == "prismatic":
                p = p + r @ axis * x
            else:
                k = _skew(axis)
                r = r @ (np.eye(3) + np.sin(x) * k + (1 - np.cos(x)) * k @ k)
        poses.append((r, p))
    return poses


def mass_matrix(out: Reading, root: str, seed: int) -> Array:
    """Joint-space inertia (nv, nv) by its definition, sum of J^T I J over the bodies, in the root link's axes."""
    poses = placements(out, seed)
    offset = {"free": 6, "planar": 3, "fixed": 0}[root]
    nv = offset + sum(NV[out.joints[b.joint or ""].type] for b in out.bodies[1:])
    jacobians: list[Array] = []  # rows: angular, linear velocity of the point at the root origin
    column = offset
    total = np.zeros((nv, nv))
    for body, (r, p) in zip(out.bodies, poses, strict=True):
        if body.joint is None:
            jac = np.zeros((6, nv))
            if root == "free":
                jac[:, :6] = np.eye(6)
            elif root == "planar":
                jac[[3, 5, 1], [0, 1, 2]] = 1.0
        else:
            joint = out.joints[body.joint]
            jac = jacobians[body.parent].copy()
            n = NV[joint.type]
            if joint.type == "planar":
                axis = joint.axis / np.linalg.norm(joint.axis)
                span = np.linalg.svd(axis[None])[2][1:]
                screws = np.array([np.r_[axis, 0, 0, 0], np.r_[0, 0, 0, span[0]], np.r_[0, 0, 0, span[1]]]).T
            elif joint.type == "floating":
                screws = np.eye(6)
            else:
                axis = joint.axis / np.linalg.norm(joint.axis)
                screws = (np.r_[0, 0, 0, axis] if joint.type == "prismatic" else np.r_[axis, 0, 0, 0])[:, None]
            angular = r @ screws[:3]
            jac[:3, column : column + n] += angular
            jac[3:, column : column + n] += r @ screws[3:] + np.cross(p, angular, axis=0)
            column += n
        jacobians.append(jac)
        c, about_com = body.about_com()
        velocity = jac[3:] - _skew(r @ c + p) @ jac[:3]
        total += body.mass * velocity.T @ velocity + (r.T @ jac[:3]).T @ about_com @ (r.T @ jac[:3])
    return total


def unit_diagonal(m: Array) -> Array:
    """`m` scaled to a unit diagonal, whose conditioning does not depend on units; -1 if that is impossible."""
    d = np.diag(m)
    if not (np.isfinite(m).all() and (d > 0).all()):
        return -np.eye(len(m))
    s = 1 / np.sqrt(d)
    return np.asarray(m * np.outer(s, s))


def _skew(v: Array) -> Array:
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


# -- comparison with the loaded robot ---------------------------------------------------------------------------
def without_world(data: bytes, links: Iterable[str]) -> bytes:
    """The file without its root link and the joint below, if the loader replaced a massless "world" by its own root.

    The loader may do so only with a finding that names the link.
    """
    robot = ElementTree.fromstring(data)
    roots = {e.get("name") for e in robot.findall("link")} - {c.get("link") for c in robot.findall("joint/child")}
    joints = [j for j in robot.findall("joint") if (p := j.find("parent")) is not None and p.get("link") in roots]
    world = [e for e in robot.findall("link") if e.get("name") in roots and e.find("inertial") is None]
    if len(world) != 1 or len(joints) != 1 or world[0].get("name") in set(links):
        return data
    robot.remove(world[0])
    robot.remove(joints[0])
    return bytes(ElementTree.tostring(robot))


def with_held_joint(data: bytes, name: str, root: str, notes: Iterable[str]) -> bytes:
    """The file with the floating joint below the root link fixed, for a fixed root.

    The loader may do so only with a finding that the joint becomes fixed.
    """
    robot = ElementTree.fromstring(data)
    for joint in robot.findall("joint"):
        parent = joint.find("parent")
        floats = joint.get("type") == "floating" and parent is not None and parent.get("link") == root
        if (
            joint.get("name") == name
            and floats
            and any(f"{name!r} is a floating joint and becomes fixed" in note for note in notes)
        ):
            joint.set("type", "fixed")
    return bytes(ElementTree.tostring(robot))


def misfits(data: bytes, facts: dict[str, Any]) -> list[str]:
    """Differences between an accepted robot, given by its `facts` (see `fuzzing.probe`), and its file."""
    data = without_default_namespace(data)
    reading = read(data, facts["root"])
    if reading.root not in facts["links"] and any(f"{reading.root!r}" in f for f in facts["notes"]):
        reading = read(without_world(data, facts["links"]), facts["root"])
    elif facts["root"] == "fixed" and len(lost := reading.moving - set(facts["joints"])) == 1:
        reading = read(with_held_joint(data, lost.pop(), reading.root, facts["notes"]), "fixed")
    wrong = [f"accepted: {f}" for f in reading.faults] + list(facts["wrong"])
    if reading.faults:
        return wrong
    if set(facts["links"]) != set(reading.links):
        wrong.append(f"links differ: {sorted(set(facts['links']) ^ set(reading.links))[:5]}")
    if set(facts["joints"]) != reading.moving:
        wrong.append(f"moving joints differ: {sorted(set(facts['joints']) ^ reading.moving)[:5]}")
    if wrong:
        return wrong
    if not abs(facts["mass"] - reading.mass) <= 1e-9 * abs(reading.mass):
        wrong.append(f"mass {facts['mass']} instead of {reading.mass}")
    nv = sum(NV[j.type] for j in reading.joints.values()) + {"free": 6, "planar": 3, "fixed": 0}[facts["root"]]
    if facts["nv"] != nv:
        wrong.append(f"nv {facts['nv']} instead of {nv}")
    poses = placements(reading, seed=0)
    base = facts["links"][reading.root]
    reach = 1.0 + max(float(np.abs(p).max()) for _, p in poses)
    for body, (r, p) in zip(reading.bodies, poses, strict=True):
        pose, (m, c, inertia) = facts["links"][body.head], facts["inertias"][body.head]
        pose = base[:, :3].T @ np.c_[pose[:, :3], pose[:, 3] - base[:, 3]]
        if not np.allclose(pose, np.c_[r, p], rtol=0, atol=1e-8 * reach):
            wrong.append(f"placement of {body.head!r} differs by {np.abs(pose - np.c_[r, p]).max():.1e}")
        if body.joint is None and facts["root"] == "fixed":
            continue  # the inertia of a fixed base has no effect
        com, about_com = body.about_com()
        size = body.mass * float(com @ com) + float(np.abs(about_com).max())
        if not (
            abs(m - body.mass) <= 1e-9 * body.mass
            and np.allclose(c, com, rtol=1e-7, atol=1e-9 * reach)
            and np.allclose(inertia, about_com, rtol=0, atol=1e-9 * size)
        ):
            wrong.append(f"mass properties of {body.head!r} differ")
    for joint in reading.joints.values():
        given = facts["limits"].get(joint.name)
        if given and joint.type in ("revolute", "prismatic") and joint.lower is not None and joint.upper is not None:
            for got, want in zip(given, (joint.lower, joint.upper), strict=True):
                void = np.isinf(got) and abs(want) >= VOID and np.sign(got) == np.sign(want)
                # Limits that a residue of rounding, such as -5e-324, reverses are read as equal.
                if not (void or abs(got - want) <= 1e-12 * abs(want) + (ROUNDING if joint.lower > joint.upper else 0)):
                    wrong.append(f"limits of {joint.name!r}: {given} instead of {(joint.lower, joint.upper)}")
    if any(d.startswith(f"body {reading.root!r}: pseudo") for d in reading.doubts) and facts["geometry"] is not None:
        if not any(f'"{link}"' in f for link in reading.bodies[0].links for f in facts["findings"]):
            wrong.append(f"impossible base {reading.root!r} fixed without a finding")
    for name, counts in reading.links.items():
        if facts["geometry"] is None:
            break
        if facts["geometry"][name] != counts and not any(name in f for f in facts["findings"]):
            wrong.append(f"geometry of {name!r} dropped without a finding: {facts['geometry'][name]} of {counts}")
    return wrong
