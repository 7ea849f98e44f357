"""Files with missing or superfluous elements are loaded with a finding instead of rejected with misleading advice."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.robot.catalogue import find_entry

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
BOX = '<visual><geometry><box size="1 1 1"/></geometry></visual>'
FLOATING = (
    '<robot name="r"><link name="ground">{}</link>'
    f'<link name="base">{INERTIAL}</link><link name="arm">{INERTIAL}</link>'
    '<joint name="free" type="floating"><parent link="ground"/><child link="base"/></joint>'
    '<joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>'
)


@pytest.mark.parametrize("shape", ["", BOX, BOX.replace("visual", "collision")])
def test_geometry_above_a_floating_joint_belongs_to_the_world(shape: str) -> None:
    robot = qd.load(FLOATING.format(shape))
    assert (robot.root, robot.nv, robot.mass, robot.tree.root.name) == ("free", 7, 2.0, "base")
    assert bool(shape) == any("belong to the world" in f.reason for f in robot.report.warnings)
    held = qd.load(FLOATING.format(shape), root="fixed", strict=not shape)
    assert held.nv == 1


def test_joints_without_limits_are_reported() -> None:
    robot = qd.load(FLOATING.format(""))
    assert np.isinf(robot.effort_limits).all()
    for kind in ("effort", "velocity"):
        (found,) = [f for f in robot.report if f"no {kind} limit" in f.reason]
        assert "1 joints (hinge)" in found.reason and found.level == "note"
    assert not any("no effort limit for" in f.reason for f in qd.load("go2").report)


def test_lowest_of_several_spheres_is_the_foot_in_any_order() -> None:
    def sphere(radius: float, z: float) -> str:
        return f'<collision><origin xyz="0 0 {z}"/><geometry><sphere radius="{radius}"/></geometry></collision>'

    for spheres in ((sphere(0.02, -0.01), sphere(0.03, -0.01)), (sphere(0.01, -0.02), sphere(0.05, -0.01))):
        radii = set()
        for order in (spheres, spheres[::-1]):
            text = find_entry("small_quadruped").path.read_text(encoding="utf-8")
            tree = ElementTree.fromstring(text)
            for link in tree.iter("link"):
                if "foot" in link.attrib["name"].lower():
                    for old in link.findall("collision"):
                        link.remove(old)
                    link.extend(ElementTree.fromstring(each) for each in order)
            robot = qd.load(ElementTree.tostring(tree, encoding="unicode"))
            radii.add((float(robot.q_home[2]), robot.legs["FL"].foot.radius))
        assert len(radii) == 1, radii


def test_home_does_not_depend_on_the_order_of_elements_in_a_link() -> None:
    """Elements of every link are reversed, collision shapes included."""
    for name in ("go2", "anymal_c", "small_quadruped"):
        tree = ElementTree.parse(find_entry(name).path)
        straight = qd.load(ElementTree.tostring(tree.getroot(), encoding="unicode"))
        for link in tree.getroot().iter("link"):
            link[:] = reversed(list(link))
        turned = qd.load(ElementTree.tostring(tree.getroot(), encoding="unicode"))
        np.testing.assert_array_equal(turned.q_home, straight.q_home, err_msg=name)
        assert {n: leg.foot.radius for n, leg in turned.legs.items()} == {
            n: leg.foot.radius for n, leg in straight.legs.items()
        }


def test_random_configurations_are_within_a_meter_of_home_and_within_limits() -> None:
    robot, rng = qd.load("small_quadruped"), np.random.default_rng(0)
    drawn = np.array([robot.random_configuration(rng) for _ in range(200)])
    off = drawn[:, :3] - robot.q_home[:3]
    assert (off.min(0) < -0.9).all() and (off.max(0) > 0.9).all() and np.abs(off).max() <= 1.0
    np.testing.assert_allclose(np.linalg.norm(drawn[:, 3:7], axis=1), 1.0, atol=1e-12)
    assert ((drawn[:, 7:] >= robot.lower[7:]) & (drawn[:, 7:] <= robot.upper[7:])).all()
    planar = qd.load("small_quadruped", root="planar")
    drawn = np.array([planar.random_configuration(rng) for _ in range(200)])
    off = drawn[:, :3] - [*planar.q_home[:2], 0.0]
    assert (off.min(0) < (-0.9, -0.9, -2.8)).all() and (off.max(0) > (0.9, 0.9, 2.8)).all()
    assert (np.abs(off).max(0) <= (1.0, 1.0, np.pi)).all()


def test_error_names_the_first_invalid_entry_and_counts_the_others() -> None:
    robot, q = qd.load("two_link_leg"), np.zeros(2)
    for bad, said in (([np.nan, 1.0], r"q\[0\] = nan$"), ([np.inf, np.nan], r"q\[0\] = inf \(and 1 more\)$")):
        raises(qd.ArgumentError, said, robot.integrate, bad, q)
