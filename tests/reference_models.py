"""Robots and states for tests of the reference implementation, without Pinocchio."""

from __future__ import annotations

import functools

import numpy as np

from quaddyn.reference import Reference

LIMIT = '<limit lower="-1" upper="1" velocity="5" effort="50"/>'
KINDS = ("revolute", "continuous", "prismatic", "planar", "floating")


def inertial(seed: int) -> str:
    """A physically valid <inertial> without aligned axes."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(5, 3)) * 0.1  # points of equal mass, which are always a valid body
    mass, com = rng.uniform(0.5, 3.0), rng.normal(size=3) * 0.2
    x = points - points.mean(axis=0)
    second = mass * x.T @ x / 5
    i = np.trace(second) * np.eye(3) - second
    entries = {"ixx": i[0, 0], "ixy": i[0, 1], "ixz": i[0, 2], "iyy": i[1, 1], "iyz": i[1, 2], "izz": i[2, 2]}
    numbers = " ".join(f'{k}="{v!r}"' for k, v in ((k, float(v)) for k, v in entries.items()))
    at = " ".join(repr(float(c)) for c in com)
    return f'<inertial><origin xyz="{at}" rpy="0.3 -0.5 0.7"/><mass value="{mass!r}"/><inertia {numbers}/></inertial>'


def joint(name: str, kind: str, parent: str, child: str, seed: int) -> str:
    rng = np.random.default_rng(seed)
    xyz, rpy, axis = (" ".join(repr(float(x)) for x in rng.normal(size=3) * s) for s in (0.3, 1.0, 1.0))
    origin = f'<origin xyz="{xyz}" rpy="{rpy}"/>'
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{origin}<axis xyz="{axis}"/>{LIMIT}</joint>'


def tree(kinds: tuple[str, ...]) -> str:
    """A branching URDF with joints of the given types; every second body has a link fixed to it."""
    parts = [f'<link name="base">{inertial(0)}</link>']
    for i, kind in enumerate(kinds):
        parent = "base" if i == 0 else f"body{(i - 1) // 2}"
        parts.append(f'<link name="body{i}">{inertial(i + 1)}</link>')
        parts.append(joint(f"joint{i}", kind, parent, f"body{i}", 10 + i))
        if i % 2:
            parts.append(f'<link name="tool{i}">{inertial(i + 20)}</link>')
            parts.append(joint(f"weld{i}", "fixed", f"body{i}", f"tool{i}", 30 + i))
    return f'<robot name="tree">{"".join(parts)}</robot>'


REVOLUTE = tree(("revolute",) * 5)
SLIDING = tree(("prismatic", "revolute", "revolute", "prismatic", "continuous"))
EVERYTHING = tree((*KINDS, "revolute", "continuous"))
CHAIN = tree(("revolute", "revolute"))  # body1 hangs below body0

MODELS = {
    "revolute fixed": (REVOLUTE, "fixed"),
    "revolute free": (REVOLUTE, "free"),
    "sliding fixed": (SLIDING, "fixed"),
    "sliding planar": (SLIDING, "planar"),
    "everything fixed": (EVERYTHING, "fixed"),
    "everything free": (EVERYTHING, "free"),
    "everything planar": (EVERYTHING, "planar"),
}
#: Models with minimal coordinates, for which Christoffel symbols exist.
COORDINATES = ("revolute fixed", "sliding fixed", "sliding planar")


@functools.cache
def reference(key: str) -> Reference:
    """The model `key`, with rotors."""
    text, root = MODELS[key]
    bare = Reference(text, root=root)
    rotors = np.concatenate([np.full(b.v.stop - b.v.start, 0.0 if b.root else 0.03) for b in bare.model.bodies])
    return Reference(text, root=root, armature=rotors)


def state(oracle: Reference, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Random (q, v, a, fext), with forces on up to three links."""
    rng = np.random.default_rng(seed)
    q, (v, a) = oracle.random_configuration(rng), rng.normal(size=(2, oracle.nv))
    names = rng.choice(list(oracle.model.frames), size=3)
    return q, v, a, {str(n): rng.normal(size=6) * 10 for n in names}
