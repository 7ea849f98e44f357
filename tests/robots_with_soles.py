"""URDF texts of a biped with flat feet and of two arms with palms on a stand."""

from __future__ import annotations

from urdf_text import inertial, joint, link

BOX = '<collision><origin xyz="0.03 0 -0.05" rpy="{rpy}"/><geometry><box size="0.2 0.1 0.03"/></geometry></collision>'


def biped(shapes: str = BOX.format(rpy="0 0 0"), *, turned: bool = False) -> str:
    """A biped with two legs of six joints; `shapes` of each foot are in axes of its link.

    With `turned` the foot link has its y axis up and its z axis forward; the robot is otherwise the same.
    """
    out = ['<robot name="biped">', link("pelvis", inertial(12.0, "0 0 0.15", 0.2))]
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
            out += [
                link(child, inertial(mass, com, 0.02)),
                joint(f"{side}_{name}", parent, child, axis, xyz, ends=f"{low} {high}", effort=200, velocity=20),
            ]
            parent = child
        foot, com, axis, rpy = f"{side}_foot", "0.03 0 -0.04", "1 0 0", "0 0 0"
        if turned:  # link x = left, link y = up, link z = forward
            com, axis, rpy = "0 -0.04 0.03", "0 0 1", "1.5707963267948966 0 1.5707963267948966"
        out += [
            link(foot, inertial(0.8, com, 0.02), shapes),
            joint(f"{side}_ankle_roll", parent, foot, axis, rpy=rpy, ends="-0.6 0.6", effort=200, velocity=20),
        ]
    return "".join([*out, "</robot>"])


def two_arms() -> str:
    """Two arms of six joints on a stand, each with a palm."""
    out = ['<robot name="two_arms">', link("stand", inertial(5.0, moments=0.02))]
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
                link(child, inertial(mass, com, 0.005)),
                joint(f"{side}_{name}_joint", parent, child, axis, xyz, ends="-2.5 2.5", effort=200, velocity=20),
            ]
            parent = child
    return "".join([*out, "</robot>"])
