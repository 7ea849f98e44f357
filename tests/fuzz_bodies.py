"""Mutants of robots with closed loops, mimic joints and collision shapes, and checks of those that load.

The harness is that of `fuzzing`.  The loaded robot is compared with the tags of the file, read by the standard
library's XML parser, and with the bodies of `fuzz_oracle`: joints connect their links, mimic joints follow, loops are
closed, ``v^T M v / 2`` is the energy of the bodies' motion, found by finite differences, and
capsules contain the shapes.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import fuzz_mutants
import fuzz_oracle
import loop_robots
import numpy as np
import test_capsules
import test_loops
import test_mimic
from fuzz_reading import Array, Reading, rotation_of
from fuzzing import Base, base_of, files

#: Step of finite differences [s]; relative tolerance of the energy, for velocities of size 1.
STEP, ENERGY = 1e-5, 1e-6
#: Tolerance of joints, mimic joints and loops, relative to the size of the robot.
CLOSED = 1e-9
#: Largest catalogue file that is mutated [byte].
LARGEST = 40_000
TAGS = ("loop_joint", "link1", "link2", "mimic")
SHAPES = ("sphere", "box", "cylinder")


@functools.cache
def body_bases() -> tuple[Base, ...]:
    """Robots of the tests of loops and mimic joints, and small catalogue files with mimic joints."""
    texts = {
        "knee leg": loop_robots.knee_leg(),
        "quadruped": loop_robots.quadruped(),
        "ankle": loop_robots.ankle(),
        "mimics": test_mimic.machine(),
        "shapes": test_capsules.URDF,
        "four-bar": loop_robots.planar(3),
        "five-bar": loop_robots.planar(4, 5, (1, 2)),
        "hinged four-bar": loop_robots.planar(5, closed_by="revolute"),
        **{kind: test_loops.machine(kind) for kind in ("gripper", "belt", "toe")},
    }
    out = [_base(name, text.encode(), "fixed") for name, text in texts.items()]
    out.append(_base("floating toe", texts["toe"].encode(), "free"))
    coupled = ((name, data) for name, data in files() if b"<mimic" in data and len(data) <= LARGEST)
    real = filter(None, itertools.starmap(base_of, coupled))
    return (*out, *(_base(b.name, b.data, b.root) for b in real))


def _base(name: str, data: bytes, root: str | None) -> Base:
    return Base(name, data, root, frozenset(fuzz_oracle.read(data, root).doubts))


# -- mutants ---------------------------------------------------------------------------------------------------------
def in_tag(change: Callable[[ElementTree.Element, ElementTree.Element, random.Random], None]) -> fuzz_mutants.Mutation:
    """A mutation of one of the tags that couple joints."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        robot = ElementTree.fromstring(data)
        found = [each for each in robot.iter() if each.tag in TAGS]
        if not found:
            return None
        change(rng.choice(found), robot, rng)
        return ElementTree.tostring(robot)

    return mutate


def _number(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    keys = [key for key in ("xyz", "rpy", "multiplier", "offset") if key in tag.attrib] or ["xyz"]
    key = rng.choice(keys)
    parts = tag.get(key, "0 0 0").split()
    at = rng.randrange(len(parts))
    change = rng.choice((fuzz_mutants.nudge, fuzz_mutants.scale, fuzz_mutants.special, fuzz_mutants.zero))
    parts[at] = change(parts[at], rng)
    tag.set(key, " ".join(parts))


def _shape(data: bytes, rng: random.Random) -> bytes | None:
    """Changes a number of a collision shape or of its placement."""
    robot = ElementTree.fromstring(data)
    found = [each for shape in robot.iter("collision") for each in shape.iter() if each.tag in (*SHAPES, "origin")]
    if not found:
        return None
    tag = rng.choice(found)
    key = rng.choice(sorted(tag.attrib) or ["xyz"])
    parts = tag.get(key, "0 0 0").split()
    change = rng.choice((fuzz_mutants.nudge, fuzz_mutants.scale, fuzz_mutants.special, fuzz_mutants.zero, _larger))
    at = rng.randrange(len(parts))
    parts[at] = change(parts[at], rng)
    tag.set(key, " ".join(parts))
    return ElementTree.tostring(robot)


def _larger(text: str, rng: random.Random) -> str:
    return repr(float(text) * rng.uniform(0.1, 10.0))


def _target(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    key = {"mimic": "joint", "loop_joint": rng.choice(("type", "dependent", "name"))}.get(tag.tag, "link")
    names = [each.get("name", "") for each in robot.findall("joint" if key in ("joint", "dependent") else "link")]
    kinds = ["spherical", "revolute", "fixed", "prismatic", "", "ball"]
    tag.set(key, rng.choice(kinds if key == "type" else [*names, "", "nobody", f"{names[0]} {names[-1]}"]))


def _attribute(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    if tag.attrib:
        del tag.attrib[rng.choice(sorted(tag.attrib))]


def _joint(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    joint = rng.choice(robot.findall("joint"))
    match rng.randrange(4):
        case 0:
            joint.set("type", rng.choice(("fixed", "prismatic", "continuous", "revolute", "floating", "planar")))
        case 1:
            names = [each.get("name", "") for each in robot.findall("joint")]
            numbers = {key: str(round(rng.uniform(-3, 3), 3)) for key in ("multiplier", "offset")}
            ElementTree.SubElement(joint, "mimic", joint=rng.choice(names), **numbers)
        case 2:
            limit = joint.find("limit")
            if limit is not None:
                limit.set("lower", str(rng.uniform(-0.5, 0.0)))
                limit.set("upper", str(rng.uniform(0.0, 0.5)))
        case _:
            links = [each.get("name", "") for each in robot.findall("link")]
            loop = ElementTree.SubElement(robot, "loop_joint", name="another", type="spherical")
            for end in ("link1", "link2"):
                ElementTree.SubElement(loop, end, link=rng.choice(links), xyz="0 0 0")


def _swap(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    for loop in robot.findall("loop_joint"):
        ends = [end for end in loop if end.tag in ("link1", "link2")]
        for end, name in zip(ends, ("link2", "link1"), strict=False):
            end.tag = name


def _again(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    parents = [each for each in robot.iter() if tag in each]
    if parents:
        parents[0].append(ElementTree.fromstring(ElementTree.tostring(tag)))


def _drop(tag: ElementTree.Element, robot: ElementTree.Element, rng: random.Random) -> None:
    for parent in robot.iter():
        if tag in parent:
            parent.remove(tag)


OWN: dict[str, tuple[float, fuzz_mutants.Mutation]] = {
    "body: number": (16, in_tag(_number)),
    "body: target": (10, in_tag(_target)),
    "body: attribute": (4, in_tag(_attribute)),
    "body: joint": (14, in_tag(_joint)),
    "body: twice": (3, in_tag(_again)),
    "body: dropped": (3, in_tag(_drop)),
    "body: shape": (10, _shape),
    "harmless: ends swapped": (6, in_tag(_swap)),
}
#: Mutations that do not change the robot, which has to load.
SAME = ("untouched", "comment", "whitespace", "shuffle", "respelt number", "extension", "ends swapped")


def mutate(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A mutant and its kind; half of the mutations change joint couplings."""
    if rng.random() < 0.5:
        return fuzz_mutants.mutate(data, rng)
    kind = rng.choices(list(OWN), [weight for weight, _ in OWN.values()])[0]
    return kind, OWN[kind][1](data, rng) or data


# -- in the child process --------------------------------------------------------------------------------------------
def probe(robot: Any) -> dict[str, Any]:
    """Placements of links around two configurations, energies, capsules, and internal errors (`wrong`)."""
    import quaddyn as qd
    from quaddyn.kinematics import CapsuleModel

    dyn, rng, wrong, moments = qd.Dynamics(robot), np.random.default_rng(0), [], []
    links = [link.name for link in robot.tree.links]
    for seed in (0, 1):
        q, v = robot.random_configuration(seed), rng.uniform(-1.0, 1.0, robot.nv)
        if robot.coupling is not None:  # dependent joints may be much faster
            v /= max(1.0, float(np.abs(robot.coupling.at(q).velocity(v)).max(initial=0.0)))
        here = dyn.update(q, v)
        tau = rng.uniform(-1.0, 1.0, robot.nv)
        back = dyn.rnea(q, v, dyn.aba(q, v, tau))
        least = float(np.linalg.eigvalsh(fuzz_oracle.unit_diagonal(here.M))[0]) if robot.nv else 1.0
        scale = 1.0 + float(np.abs(here.M).max(initial=0.0) + np.abs(here.h).max(initial=0.0))
        if not least > 0.0 or np.abs(back - tau).max(initial=0.0) > 1e-12 * scale / least:
            wrong.append(f"RNEA(ABA(tau)) is not tau: {back - tau}, M of condition {least:.1e}")
        poses = []
        for way in (-STEP, 0.0, STEP):
            x = robot.integrate(q, way * v)
            places = {name: dyn.frame_placement(x, name) for name in links}
            poses.append({name: np.c_[T.rotation, T.translation] for name, T in places.items()})
        moments.append({"poses": poses, "energy": 0.5 * float(v @ here.M @ v)})
    try:
        model = CapsuleModel(robot, reach=np.inf)
    except qd.ArgumentError as error:
        capsules: list[tuple[str, Array, float]] | str = str(error)
    else:
        placed = model.world_segments(robot.random_configuration(0))
        capsules = [(c.link, ends, c.radius) for c, ends in zip(model.capsules, placed, strict=True)]
        if not np.isfinite(model.distances(robot.q_home)).all():
            wrong.append("distances are not finite")
    shapes = {link.name: len(link.collisions) for link in robot.tree.links}
    report = qd.cross_check(robot, samples=2, seed=1)
    if not report.passed:
        wrong.append(f"cross_check: {report}")
    return {
        "root": robot.root,
        "nv": robot.nv,
        "moments": moments,
        "wrong": wrong,
        "capsules": capsules,
        "shapes": shapes,
    }


# -- in the parent process -------------------------------------------------------------------------------------------
def misfits(data: bytes, facts: dict[str, Any]) -> list[str]:
    """Differences between an accepted robot, given by its `facts` (see `probe`), and its file."""
    reading = fuzz_oracle.read(data, facts["root"])
    faults = [f for f in reading.faults if not f.startswith("mass matrix") and not f.endswith("no mass")]
    wrong = [f"accepted: {f}" for f in faults] + list(facts["wrong"])
    if wrong:
        return wrong
    robot = ElementTree.fromstring(fuzz_oracle.without_default_namespace(data))
    for moment in facts["moments"]:
        poses = moment["poses"][1]
        if set(poses) != set(reading.links):
            return [f"links differ: {sorted(set(poses) ^ set(reading.links))[:5]}"]
        reach = 1.0 + max(float(np.abs(T).max()) for T in poses.values())
        x, out = coordinates(reading, poses, CLOSED * reach)
        wrong += out + unlike(robot, reading, x, CLOSED * reach) + open_loops(robot, poses, CLOSED * reach)
        energy = energy_of(reading, moment["poses"])
        if not abs(energy - moment["energy"]) <= ENERGY * max(abs(energy), 1e-3 * reading.mass):
            wrong.append(f"energy {moment['energy']} J instead of {energy} J")
    return wrong + uncovered(robot, facts["moments"][0]["poses"][1], facts["capsules"], facts["shapes"])


def coordinates(reading: Reading, poses: dict[str, Array], tolerance: float) -> tuple[dict[str, float], list[str]]:
    """Coordinates of one-DOF joints from placements of links, and joints whose links do not fit."""
    out: dict[str, float] = {}
    wrong = []
    for name, joint in reading.joints.items():
        A, B = poses[joint.parent], poses[joint.child]
        R = joint.rotation.T @ A[:, :3].T @ B[:, :3]
        p = joint.rotation.T @ (A[:, :3].T @ (B[:, 3] - A[:, 3]) - joint.translation)
        axis = joint.axis / max(float(np.linalg.norm(joint.axis)), 1e-300)
        x, gap = 0.0, 0.0
        if joint.type == "prismatic":
            x = float(axis @ p)
            gap = max(float(np.abs(p - x * axis).max()), float(np.abs(R - np.eye(3)).max()))
        elif joint.type in ("revolute", "continuous"):
            turn = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
            x = float(np.arctan2(0.5 * axis @ turn, 0.5 * (np.trace(R) - 1.0)))
            gap = max(float(np.abs(p).max()), float(np.abs(R - about(axis, x)).max()))
        elif joint.type == "fixed":
            gap = max(float(np.abs(p).max()), float(np.abs(R - np.eye(3)).max()))
        else:
            continue
        if joint.type != "fixed":
            out[name] = x
        if not gap <= tolerance:
            wrong.append(f"joint {name!r} is {gap:.1e} from where it leads to")
    return out, wrong


def about(axis: Array, x: float) -> Array:
    """Rotation (3, 3) about an axis."""
    K = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    return np.asarray(np.eye(3) + np.sin(x) * K + (1.0 - np.cos(x)) * K @ K)


def unlike(robot: ElementTree.Element, reading: Reading, x: dict[str, float], tolerance: float) -> list[str]:
    """Joints that do not follow their mimic tag, with angles modulo whole turns."""
    wrong = []
    for joint in robot.findall("joint"):
        tag, name = joint.find("mimic"), joint.get("name", "")
        if tag is None or name not in x:
            continue
        scale, offset = (float(tag.get(key, default)) for key, default in (("multiplier", "1"), ("offset", "0")))
        leader, turns = tag.get("joint", ""), reading.joints[name].type != "prismatic"
        if leader not in x:
            wrong.append(f"{name!r} mimics {leader!r}, which does not move")
            continue
        more = range(-3, 4) if reading.joints[leader].type != "prismatic" else range(1)
        errors = [scale * (x[leader] + 2.0 * np.pi * k) + offset - x[name] for k in more]
        if turns:
            errors = [(e + np.pi) % (2.0 * np.pi) - np.pi for e in errors]
        if not min(map(abs, errors)) <= 10.0 * tolerance * (1.0 + abs(scale)):
            wrong.append(f"{name!r} does not mimic {leader!r}: {min(errors, key=abs):.1e}")
    return wrong


def open_loops(robot: ElementTree.Element, poses: dict[str, Array], tolerance: float) -> list[str]:
    """Loops that are not closed."""
    wrong = []
    for loop in robot.findall("loop_joint"):
        ends = [loop.find(tag) for tag in ("link1", "link2")]
        places, turns = [], []
        for end in ends:
            assert end is not None
            T = poses[end.get("link", "")]
            xyz, rpy = ([float(z) for z in end.get(key, "0 0 0").split()] for key in ("xyz", "rpy"))
            places.append(T[:, :3] @ xyz + T[:, 3])
            turns.append(T[:, :3] @ rotation_of(rpy))
        gaps = [float(np.abs(places[0] - places[1]).max())]
        tag = loop.find("axis")
        axis = np.array([float(z) for z in ("1 0 0" if tag is None else tag.get("xyz", "1 0 0")).split()])
        kind = loop.get("type")
        if kind in ("revolute", "continuous"):
            gaps.append(float(np.abs((turns[0] - turns[1]) @ axis).max() / np.linalg.norm(axis)))
        elif kind == "fixed":
            gaps.append(float(np.abs(turns[0] - turns[1]).max()))
        if not max(gaps) <= tolerance:
            wrong.append(f"loop {loop.get('name')!r} is open by {max(gaps):.1e}")
    return wrong


def energy_of(reading: Reading, poses: list[dict[str, Array]]) -> float:
    """Kinetic energy of links between the first and the last pose [J]."""
    total = 0.0
    for name, (mass, com, turn, inertia) in reading.inertials.items():
        before, here, after = (T[name] for T in poses)
        rate = (after - before) / (2.0 * STEP)
        spin = here[:, :3].T @ rate[:, :3]
        omega = 0.5 * np.array([spin[2, 1] - spin[1, 2], spin[0, 2] - spin[2, 0], spin[1, 0] - spin[0, 1]])
        speed = rate[:, :3] @ com + rate[:, 3]
        own = turn.T @ omega
        total += 0.5 * mass * float(speed @ speed) + 0.5 * float(own @ inertia @ own)
    return total


def uncovered(
    robot: ElementTree.Element,
    poses: dict[str, Array],
    capsules: list[tuple[str, Array, float]] | str,
    shapes: dict[str, int],
) -> list[str]:
    """Points of collision shapes that no capsule of their link contains."""
    wrong = []
    for link in robot.findall("link"):
        name, found = link.get("name", ""), link.findall("collision")
        if shapes.get(name) != len(found):
            continue  # omitted shapes must be in the report, which `fuzz_oracle` checks
        for collision in found:
            points = points_of(collision)
            if points is None:
                continue
            if isinstance(capsules, str):
                wrong.append(f"no capsules: {capsules}")
                continue
            T = poses[name]
            points = points @ T[:, :3].T + T[:, 3]
            room = np.full(len(points), np.inf)
            for _, ends, radius in (each for each in capsules if each[0] == name):
                along = ends[1] - ends[0]
                s = np.clip((points - ends[0]) @ along / max(float(along @ along), 1e-300), 0.0, 1.0)
                room = np.minimum(room, np.linalg.norm(points - ends[0] - s[:, None] * along, axis=1) - radius)
            if not room.max() <= CLOSED * (1.0 + float(np.abs(points).max())):
                wrong.append(f"a shape of {name!r} sticks {room.max():.1e} m out of its capsules")
    return wrong


def points_of(collision: ElementTree.Element) -> Array | None:
    """Outermost points (n, 3) of a primitive in link axes; None for a mesh or invalid geometry."""
    geometry, origin = collision.find("geometry"), collision.find("origin")
    shape = None if geometry is None or len(geometry) != 1 else geometry[0]
    if shape is None or shape.tag not in SHAPES:
        return None
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    if shape.tag == "box":
        points = 0.5 * corners * [float(x) for x in shape.get("size", "").split()]
    elif shape.tag == "sphere":
        axes = np.vstack((np.eye(3), -np.eye(3), corners / np.sqrt(3.0)))
        points = float(shape.get("radius", "")) * axes
    else:
        turn = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
        rim = float(shape.get("radius", "")) * np.stack((np.cos(turn), np.sin(turn)), axis=1)
        half = 0.5 * float(shape.get("length", ""))
        points = np.vstack([np.c_[rim, np.full(16, side * half)] for side in (-1.0, 1.0)])
    if origin is None:
        return np.asarray(points)
    xyz, rpy = ([float(x) for x in origin.get(key, "0 0 0").split()] for key in ("xyz", "rpy"))
    return np.asarray(points @ rotation_of(np.array(rpy)).T + xyz)
