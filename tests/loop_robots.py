"""Robots with closed loops: a leg with a four-bar knee, and an ankle with two parallel motors."""

from __future__ import annotations

import numpy as np
import urdf_text
from urdf_text import inertial


def link(name: str, mass: float, com: str, size: str = "0.0004 0.0005 0.0002", shape: str = "") -> str:
    """A link; `size` is its moments of inertia."""
    return urdf_text.link(name, inertial(mass, com, size, f"0 {0.1 * float(size.split()[2])} 0"), shape)


def joint(name: str, parent: str, child: str, xyz: str, axis: str, effort: float = 40.0, ends: str = "-2 2") -> str:
    """A revolute joint."""
    return urdf_text.joint(name, parent, child, axis, xyz, ends=ends, effort=effort, velocity=20)


def loop(name: str, kind: str, one: str, two: str, more: str = "", inside: str = "") -> str:
    """A <loop_joint> element; ends are "link x y z"."""
    ends = []
    for number, end in ((1, one), (2, two)):
        where, xyz = end.split(maxsplit=1)
        ends.append(f'<link{number} link="{where}" xyz="{xyz}" rpy="0 0 0"/>')
    return f'<loop_joint name="{name}" type="{kind}"{more}>{"".join(ends)}{inside}</loop_joint>'


FOOT = '<collision><origin xyz="0 0 -0.2"/><geometry><sphere radius="0.02"/></geometry></collision>'


def knee(prefix: str = "", *, motor: float = 40.0, torque: float = 0.0) -> str:
    """Thigh, shank, and crank and rod that drive the knee; the parent of the thigh is the link "hip"."""
    p, rod = prefix, 0.19
    return "".join((
        link(f"{p}thigh", 1.0, "0.005 0.01 -0.09", "0.004 0.0042 0.0006"),
        link(f"{p}crank", 0.1, "-0.02 0 0", "0.00005 0.00006 0.00006"),
        link(f"{p}rod", 0.08, f"0 0 {-rod / 2}", "0.0003 0.0003 0.00002"),
        link(f"{p}shank", 0.3, "0 0.004 -0.09", "0.002 0.002 0.0001", FOOT),
        joint(f"{p}hip_pitch", f"{p}hip", f"{p}thigh", "0 0 0", "0 1 0"),
        joint(f"{p}knee_motor", f"{p}thigh", f"{p}crank", "0 0.02 0", "0 1 0", motor),
        joint(f"{p}rod_pin", f"{p}crank", f"{p}rod", "-0.04 0 0", "0 1 0", 0.0, "-3 3"),
        joint(f"{p}knee", f"{p}thigh", f"{p}shank", "0 0 -0.2", "0 1 0", torque, "-1.2 1.2"),
        loop(f"{p}knee_loop", "spherical", f"{p}rod 0 0 {-rod}", f"{p}shank -0.035 0.02 0.01"),
    ))  # fmt: skip


def knee_leg() -> str:
    """A leg with abduction, hip and knee joints, and the knee motor at the hip."""
    return (
        '<robot name="knee_leg">'
        + link("base", 3.0, "0 0 0.02", "0.02 0.03 0.03")
        + link("hip", 0.5, "0.01 0 0")
        + joint("abduction", "base", "hip", "0.1 0.05 0", "1 0 0", ends="-0.8 0.8")
        + knee()
        + "</robot>"
    )


def quadruped() -> str:
    """A quadruped with four of these legs; knees are the independent joints, and torques are knee torques."""
    parts = [link("base", 8.0, "0 0 0", "0.05 0.15 0.18")]
    for name, (x, y) in {"FL": (1, 1), "FR": (1, -1), "RL": (-1, 1), "RR": (-1, -1)}.items():
        leg = knee(f"{name}_", motor=0.0, torque=40.0)
        parts += [
            link(f"{name}_hip", 0.5, "0 0 0"),
            joint(f"{name}_abduction", "base", f"{name}_hip", f"{0.19 * x} {0.15 * y} 0", "1 0 0", ends="-0.8 0.8"),
            leg,
        ]
    return f'<robot name="quadruped">{"".join(parts)}</robot>'


def ankle() -> str:
    """A shank and a foot driven by two motors with cranks and rods: a universal and a ball joint at each rod."""
    parts = [
        link("shank", 2.0, "0 0 0.15", "0.02 0.02 0.003"),
        link("cross", 0.05, "0 0 0", "0.00001 0.00001 0.00001"),
        link("foot", 0.6, "0.03 0 -0.03", "0.0006 0.002 0.002"),
        joint("ankle_pitch", "shank", "cross", "0 0 0", "0 1 0", 0.0, "-0.7 0.7"),
        joint("ankle_roll", "cross", "foot", "0 0 0", "1 0 0", 0.0, "-0.5 0.5"),
    ]
    for side, y in (("left", 0.04), ("right", -0.04)):
        parts += [
            link(f"{side}_crank", 0.15, "-0.02 0 0", "0.00005 0.00006 0.00006"),
            link(f"{side}_yoke", 0.01, "0 0 0", "0.000001 0.000001 0.000001"),
            link(f"{side}_rod", 0.1, "0 0 -0.12", "0.0006 0.0006 0.00002"),
            joint(f"{side}_motor", "shank", f"{side}_crank", f"-0.03 {y} 0.25", "0 1 0", ends="-1 1"),
            joint(f"{side}_yaw", f"{side}_crank", f"{side}_yoke", "-0.05 0 0", "0 1 0", 0.0),
            joint(f"{side}_tilt", f"{side}_yoke", f"{side}_rod", "0 0 0", "1 0 0", 0.0),
            loop(f"{side}_ball", "spherical", f"{side}_rod 0 0 -0.25", f"foot -0.08 {y} 0"),
        ]
    return f'<robot name="ankle">{"".join(parts)}</robot>'


def planar(seed: int, pivots: int = 4, follow: tuple[int, int] = (0, 2), *, closed_by: str = "spherical") -> str:
    """A linkage with parallel axes and random bars, on a moving body with arbitrary orientation of all frames.

    All its joints but those of `follow` are independent: four pivots make a four-bar linkage, five a parallel leg.
    """
    rng = np.random.default_rng(seed)
    turn, area = np.linalg.qr(rng.normal(size=(3, 3)))[0], 0.0
    while abs(area) < 0.01:  # the triangle of the dependent pivots
        points = rng.uniform(-0.3, 0.3, size=(pivots, 2))
        a, b = (points[k] - points[-1] for k in follow)
        area = float(a[0] * b[1] - a[1] * b[0])

    def pose(k: int) -> np.ndarray:
        T = np.eye(4)
        T[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        T[:3, :3] *= np.linalg.det(T[:3, :3])
        T[:3, 3] = turn @ [*points[k], rng.uniform(-0.1, 0.1)]
        return T

    def words(T: np.ndarray) -> str:
        R = T[:3, :3]
        rpy = np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0])
        return f'xyz="{" ".join(map(repr, T[:3, 3].tolist()))}" rpy="{" ".join(repr(float(x)) for x in rpy)}"'

    parts = [link("base", 1.0, "0 0 0"), link("mount", 1.0, "0.05 0.02 -0.03", "0.004 0.005 0.003")]
    parts.append(joint("swing", "base", "mount", "0.1 0 0.2", "0.6 0 0.8"))
    # The loop is cut at the last pivot: joint 0 starts one side, the other joints form a chain.
    body, at = {-1: "mount"}, {-1: np.eye(4)}
    for k in range(pivots - 1):
        before, body[k], at[k] = k - 1 if k > 1 else -1, f"bar{k}", pose(k)
        axis = rng.choice([-1.0, 1.0]) * at[k][:3, :3].T @ turn[:, 2]
        com = " ".join(map(str, rng.uniform(-0.1, 0.1, 3)))
        parts.append(link(f"bar{k}", float(rng.uniform(0.2, 1.0)), com, "0.002 0.0025 0.0015"))
        end = f'<axis xyz="{" ".join(map(repr, axis.tolist()))}"/><limit lower="-2" upper="2" effort="5" velocity="9"/>'
        parts.append(
            f'<joint name="pin{k}" type="revolute"><parent link="{body[before]}"/><child link="{body[k]}"/>'
            f"<origin {words(np.linalg.inv(at[before]) @ at[k])}/>{end}</joint>"
        )
    ends, cut = [], pose(pivots - 1)
    for number, k in enumerate((0, pivots - 2), start=1):
        ends.append(f'<link{number} link="bar{k}" {words(np.linalg.inv(at[k]) @ cut)}/>')
    axis = " ".join(map(repr, (cut[:3, :3].T @ turn[:, 2]).tolist()))
    inside = f'<axis xyz="{axis}"/>' if closed_by == "revolute" else ""
    parts.append(
        f'<loop_joint name="cut" type="{closed_by}" dependent="pin{follow[0]} pin{follow[1]}">'
        f"{''.join(ends)}{inside}</loop_joint>"
    )
    return f'<robot name="planar_{seed}_{pivots}">{"".join(parts)}</robot>'
