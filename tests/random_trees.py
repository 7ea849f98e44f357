"""Random URDF trees of all joint types, for campaigns over kernels."""

from __future__ import annotations

import numpy as np
from oracle import inertial

import quaddyn as qd

KINDS = ("revolute", "continuous", "prismatic", "planar", "floating")
ALIGNED = ("1 0 0", "0 1 0", "0 0 1", "-1 0 0", "0 -1 0", "0 0 -1")
TURNS = ("0 0 0", "1.5707963267948966 0 0", "0 -1.5707963267948966 0", "0 0 3.141592653589793")


def random_tree(rng: np.random.Generator, joints: int) -> str:
    """A URDF: joints about aligned and any axes, parallel and skew; chains and branches."""
    parts = [f'<link name="b0">{inertial(int(rng.integers(1 << 30)))}</link>']
    for i in range(1, joints + 1):
        kind = rng.choice(KINDS, p=(0.5, 0.18, 0.22, 0.06, 0.04))
        parent = f"b{i - 1 if rng.random() < 0.6 else rng.integers(i)}"
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
    # Few joints more often than many: every size occurs, and the whole stays cheap.
    joints = int(np.ceil(largest ** rng.random()))
    root = str(rng.choice(("free", "fixed", "planar")))
    return qd.load(random_tree(rng, joints), root=root, armature=float(rng.uniform(0, 0.1)))


def random_states(robot: qd.Robot, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q (n, nq) with angles in +-2 pi, v and a (n, nv)."""
    import pinocchio as pin

    steps = rng.uniform(-2 * np.pi, 2 * np.pi, size=(n, robot.nv))
    neutral = pin.neutral(robot.model)
    q = np.array([pin.integrate(robot.model, neutral, step) for step in steps])
    return q, rng.normal(size=(n, robot.nv)) * 2, rng.normal(size=(n, robot.nv)) * 5
