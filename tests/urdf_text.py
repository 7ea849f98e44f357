"""Elements of small URDF files, as text."""

from __future__ import annotations


def inertial(mass: float = 1.0, com: str = "0 0 0", moments: float | str = 1.0, products: str = "0 0 0") -> str:
    """An <inertial> element; `moments` are those about x, y and z or the one of all axes, `products` xy, xz and yz."""
    xx, yy, zz = moments.split() if isinstance(moments, str) else [moments] * 3
    xy, xz, yz = products.split()
    inertia = f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="{xz}" iyz="{yz}"/>'
    return f'<inertial><origin xyz="{com}"/><mass value="{mass}"/>{inertia}</inertial>'


def link(name: str, *elements: str) -> str:
    return f'<link name="{name}">{"".join(elements)}</link>'


def _origin(xyz: str, rpy: str) -> str:
    return f'<origin xyz="{xyz}"' + (f' rpy="{rpy}"/>' if rpy else "/>")


def collision(shape: str, xyz: str = "0 0 0", rpy: str = "") -> str:
    """A <collision> element; the shape is as in 'sphere radius="0.02"'."""
    return f"<collision>{_origin(xyz, rpy)}<geometry><{shape}/></geometry></collision>"


def joint(
    name: str, parent: str, child: str, axis: str = "0 1 0", xyz: str = "0 0 0", rpy: str = "", *,
    kind: str = "revolute", ends: str = "-1.5 1.5", effort: float = 9, velocity: float = 9, more: str = "",
) -> str:  # fmt: skip
    """A joint; a fixed or floating one has neither axis nor limits, a continuous one no ends."""
    lower, upper = ends.split()
    stops = "" if kind == "continuous" else f'lower="{lower}" upper="{upper}" '
    moves = f'<axis xyz="{axis}"/><limit {stops}effort="{effort}" velocity="{velocity}"/>'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{_origin(xyz, rpy)}'
        f"{'' if kind in ('fixed', 'floating') else moves}{more}</joint>"
    )


def urdf(*elements: str, name: str = "r") -> str:
    return f'<robot name="{name}">{"".join(elements)}</robot>'


def chain(n: int, *elements: str) -> str:
    """A chain of n links l0, l1, ... with these elements, connected by fixed joints j0, j1, ..."""
    joints = [joint(f"j{i}", f"l{i}", f"l{i + 1}", kind="fixed") for i in range(n - 1)]
    return urdf(*(link(f"l{i}", *elements) for i in range(n)), *joints)


def star(n: int, *elements: str, kind: str = "fixed") -> str:
    """n links with these elements; joints connect the first one with all others."""
    joints = [joint(f"j{i}", "l0", f"l{i}", kind=kind) for i in range(1, n)]
    return urdf(*(link(f"l{i}", *elements) for i in range(n)), *joints)
