"""URDF texts of a biped with flat feet and of two arms with palms on a stand."""

from __future__ import annotations

BOX = '<collision><origin xyz="0.03 0 -0.05" rpy="{rpy}"/><geometry><box size="0.2 0.1 0.03"/></geometry></collision>'


def _link(name: str, mass: float, com: str, shapes: str = "", moment: float = 0.02) -> str:
    return (
        f'<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/><inertia ixx="{moment}" '
        f'iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial>{shapes}</link>'
    )


def _joint(name: str, parent: str, child: str, xyz: str, axis: str, low: float, high: float, rpy: str = "0 0 0") -> str:
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}" '
        f'rpy="{rpy}"/><axis xyz="{axis}"/><limit lower="{low}" upper="{high}" effort="200" velocity="20"/></joint>'
    )


def biped(shapes: str = BOX.format(rpy="0 0 0"), *, turned: bool = False) -> str:
    """A biped with two legs of six joints; `shapes` of each foot are in axes of its link.

    With `turned` the foot link has its y axis up and its z axis forward; the robot is otherwise the same.
    """
    out = ['<robot name="biped">', _link("pelvis", 12.0, "0 0 0.15", moment=0.2)]
    for side, y in (("left", 0.1), ("right", -0.1)):
        chain = [
            ("hip_yaw", "0 0 1", f"0 {y} 0", -0.8, 0.8, 0.5, "0 0 0"),
            ("hip_roll", "1 0 0", "0 0 0", -0.6, 0.6, 0.5, "0 0 0"),
            ("hip_pitch", "0 1 0", "0 0 0", -2.0, 1.0, 3.0, "0 0 -0.17"),
            ("knee", "0 1 0", "0 0 -0.35", 0.0, 2.4, 2.0, "0 0 -0.17"),
            ("ankle_pitch", "0 1 0", "0 0 -0.35", -1.2, 0.8, 0.3, "0 0 0"),
        ]
        parent = "pelvis"
        for name, axis, xyz, low, high, mass, com in chain:
            child = f"{side}_{name}_link"
            out += [_link(child, mass, com), _joint(f"{side}_{name}", parent, child, xyz, axis, low, high)]
            parent = child
        foot, com, axis, rpy = f"{side}_foot", "0.03 0 -0.04", "1 0 0", "0 0 0"
        if turned:  # link x = left, link y = up, link z = forward
            com, axis, rpy = "0 -0.04 0.03", "0 0 1", "1.5707963267948966 0 1.5707963267948966"
        out += [
            _link(foot, 0.8, com, shapes),
            _joint(f"{side}_ankle_roll", parent, foot, "0 0 0", axis, -0.6, 0.6, rpy),
        ]
    return "".join([*out, "</robot>"])


def two_arms() -> str:
    """Two arms of six joints on a stand, each with a palm."""
    out = ['<robot name="two_arms">', _link("stand", 5.0, "0 0 0")]
    for side, y in (("left", 0.25), ("right", -0.25)):
        chain = [
            ("yaw", "0 0 1", f"0 {y} 1", 1.0, "0 0 0"),
            ("pitch", "0 1 0", "0 0 0", 2.0, "0.15 0 0"),
            ("elbow", "0 1 0", "0.3 0 0", 1.5, "0.15 0 0"),
            ("turn", "1 0 0", "0.3 0 0", 0.5, "0 0 0"),
            ("wrist", "0 1 0", "0 0 0", 0.3, "0 0 0"),
            ("palm", "0 0 1", "0 0 0", 0.4, "0.05 0 0"),
        ]
        parent = "stand"
        for name, axis, xyz, mass, com in chain:
            child = f"{side}_{name}"
            out += [
                _link(child, mass, com, moment=0.005),
                _joint(f"{side}_{name}_joint", parent, child, xyz, axis, -2.5, 2.5),
            ]
            parent = child
    return "".join([*out, "</robot>"])
