"""Random URDF trees of all joint types, for campaigns over kernels."""

from __future__ import annotations

import numpy as np
from reference_models import inertial

import quaddyn as qd

KINDS = ("revolute", "continuous", "prismatic", "planar", "floating")
ALIGNED = ("1 0 0", "0 1 0", "0 0 1", "-1 0 0", "0 -1 0", "0 0 -1")
TURNS = ("0 0 0", "1.5707963267948966 0 0", "0 -1.5707963267948966 0", "0 0 3.141592653589793")


def random_tree(rng: np.random.Generator, joints: int, *, chain: bool = False) -> str:
    """A random URDF: joints with aligned, parallel and skew axes, as a tree, or as a chain."""
    parts = [f'<link name="b0">{inertial(int(rng.integers(1 << 30)))}</link>']
    for i in range(1, joints + 1):
        kind = rng.choice(KINDS, p=(0.5, 0.18, 0.22, 0.06, 0.04))
        parent = f"b{i - 1 if chain or rng.random() < 0.6 else rng.integers(i)}"
        axis = rng.choice(ALIGNED) if rng.random() < 0.6 else " ".join(map(repr, rng.normal(size=3).tolist()))
        rpy = rng.choice(TURNS) if rng.random() < 0.6 else " ".join(map(repr, rng.uniform(-3, 3, 3).tolist()))
        xyz = [float(x) * bool(rng.random() < 0.6) for x in rng.normal(size=3) * 0.3]
        body = inertial(int(rng.integers(1 << 30)))
        limit = '<limit lower="-9" upper="9" velocity="9" effort="99"/>'
        dynamics = f'<dynamics damping="{rng.uniform(0, 0.5)!r}" friction="{rng.uniform(0, 0.5)!r}"/>'
        parts.append(f'<link name="b{i}">{body}</link>')
        parts.append(
            f'<joint name="j{i}" type="{kind}"><parent link="{parent}"/><child link="b{i}"/>'
            f'<origin xyz="{" ".join(map(repr, xyz))}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}{dynamics}</joint>'
        )
    return f'<robot name="random">{"".join(parts)}</robot>'


def random_robot(seed: int, largest: int = 40) -> qd.Robot:
    """A loaded robot of 1 to `largest` joints, with rotors, on any root."""
    rng = np.random.default_rng(seed)
    # Small numbers of joints are more frequent, to save time.
    joints = int(np.ceil(largest ** rng.random()))
    root = str(rng.choice(("free", "fixed", "planar")))
    return qd.load(random_tree(rng, joints), root=root, armature=float(rng.uniform(0, 0.1)))


def random_states(robot: qd.Robot, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q (n, nq) with angles in +-2 pi, v and a (n, nv)."""
    steps = rng.uniform(-2 * np.pi, 2 * np.pi, size=(n, robot.nv))
    q = np.array([robot.integrate(robot.neutral, step) for step in steps])
    return q, rng.normal(size=(n, robot.nv)) * 2, rng.normal(size=(n, robot.nv)) * 5


#: Serial arms as modified Denavit-Hartenberg rows (kind, alpha, a, d) [rad, m], after the textbooks.
QUARTER = np.pi / 2
ARMS = {
    "puma": (
        ("revolute", 0.0, 0.0, 0.0),
        ("revolute", -QUARTER, 0.0, 0.0),
        ("revolute", 0.0, 0.4318, 0.15005),
        ("revolute", -QUARTER, 0.0203, 0.4318),
        ("revolute", QUARTER, 0.0, 0.0),
        ("revolute", -QUARTER, 0.0, 0.0),
    ),
    "stanford": (
        ("revolute", 0.0, 0.0, 0.4),
        ("revolute", -QUARTER, 0.0, 0.15),
        ("prismatic", QUARTER, 0.0, 0.3),
        ("revolute", 0.0, 0.0, 0.0),
        ("revolute", -QUARTER, 0.0, 0.0),
        ("revolute", QUARTER, 0.0, 0.0),
    ),
    "scara": (
        ("revolute", 0.0, 0.0, 0.0),
        ("revolute", 0.0, 0.325, 0.0),
        ("revolute", 0.0, 0.275, 0.0),
        ("prismatic", 0.0, 0.0, 0.0),
    ),
}


def arm(name: str, tilt: float = 0.0) -> qd.Robot:
    """A serial arm with dense inertias; `tilt` turns its first axis away from gravity [rad]."""
    parts = ['<link name="base"/>']
    for i, (kind, alpha, a, d) in enumerate(ARMS[name], start=1):
        xyz = (a, -np.sign(alpha) * d, 0.0) if alpha else (a, 0.0, d)  # alpha is 0 or a quarter turn
        rpy = f"{alpha if i > 1 else tilt!r} 0 0"
        parent = f"link{i - 1}" if i > 1 else "base"
        parts.append(f'<link name="link{i}">{inertial(100 + i)}</link>')
        parts.append(
            f'<joint name="joint{i}" type="{kind}"><parent link="{parent}"/><child link="link{i}"/>'
            f'<origin xyz="{" ".join(repr(float(x)) for x in xyz)}" rpy="{rpy}"/><axis xyz="0 0 1"/>'
            '<limit lower="-9" upper="9" velocity="9" effort="99"/></joint>'
        )
    return qd.load(f'<robot name="{name}">{"".join(parts)}</robot>', root="fixed")
