"""The URDF reader of the reference: models that it builds and files that it rejects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from raising import raises
from reference_models import CHAIN, inertial

from quaddyn.errors import ModelError
from quaddyn.reference import Reference, read_urdf
from quaddyn.reference.algebra import (
    exp,
    log,
)

LIMIT = '<limit lower="-1" upper="1" velocity="5" effort="50"/>'
ENDS = '<parent link="base"/><child link="tip"/>'


def robot_xml(joint: str, links: str = "") -> str:
    return f'<robot name="r"><link name="base"/><link name="tip">{inertial(1)}</link>{links}{joint}</robot>'


def joint_xml(kind: str, inside: str = "", name: str = "j") -> str:
    return f'<joint name="{name}" type="{kind}">{ENDS}{inside}</joint>'


# -- spatial algebra --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0, 0.8), (-0.48, 0.6, 0.64)])
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-5, 0.499, 0.501, 3.0, math.pi - 1e-9, math.pi])
def test_exp_inverts_log_at_every_angle(axis: tuple[float, ...], angle: float) -> None:
    T = exp(np.array([*(angle * np.array(axis)), 0.3, -0.2, 0.5]))
    assert exp(log(T)) == pytest.approx(T, abs=1e-14)
    assert np.linalg.norm(log(T)[:3]) == pytest.approx(angle, abs=1e-14)


# -- roots ------------------------------------------------------------------------------------------------------------
FLOATS = (
    f'<robot name="r"><link name="{{}}"/><link name="base">{inertial(0)}</link><link name="tip">{inertial(1)}</link>'
    '<joint name="up" type="{}"><origin xyz="0 0 1"/><parent link="{}"/><child link="base"/></joint>'
    f'<joint name="j" type="revolute">{ENDS}{LIMIT}</joint></robot>'
)


@pytest.mark.parametrize(("name", "kind"), [("world", "floating"), ("world", "fixed"), ("ground", "floating")])
def test_world_link_is_replaced_by_a_moving_root(name: str, kind: str) -> None:
    text = FLOATS.format(name, kind, name)
    free = Reference(text, root="free").model
    assert (free.nq, free.nv, [b.joint for b in free.bodies]) == (8, 7, ["root_joint", "j"])
    assert name not in free.frames
    assert Reference(text, root="planar").nv == 4
    assert Reference(text, root="fixed").nv == 1
    # With a fixed root, the floating joint is fixed at its placement in the file.
    assert Reference(text, root="fixed").frame_placement(np.zeros(1), "base")[2, 3] == 1.0


def test_a_link_that_is_not_the_world_moves_with_the_root() -> None:
    model = Reference(FLOATS.format("trunk", "fixed", "trunk"), root="free").model
    assert "trunk" in model.frames
    assert model.frames["base"][1][2, 3] == 1.0


def test_movable_world_link_is_rejected_with_a_moving_root() -> None:
    raises(ModelError, "world", Reference, FLOATS.format("world", "revolute", "world"), root="free")


def test_extra_frames_override_links_of_the_same_name() -> None:
    reference = Reference(CHAIN, frames={"body0": ("body1", np.array([0.1, 0.2, 0.3])), "toe": ("tool1", np.ones(3))})
    assert reference.model.frames["body0"][0] == 1
    weld = reference.model.frames["tool1"][1]
    assert reference.model.frames["toe"][1][:3, 3] == pytest.approx(weld[:3, :3] @ np.ones(3) + weld[:3, 3])


# -- refusals ---------------------------------------------------------------------------------------------------------
MASSLESS = "<inertial><mass value='1'/></inertial>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<robot", "not readable XML"),
        ("<!DOCTYPE r [<!ENTITY a 'b'>]><robot name='&a;'/>", "not readable XML"),
        ("<sdf/>", "not <robot>"),
        ("<robot name='r'/>", "do not form a tree"),
        (robot_xml(joint_xml("ball")), "unknown type 'ball'"),
        (robot_xml(joint_xml("revolute", "<mimic joint='k'/>")), "mimics another"),
        (robot_xml(joint_xml("revolute", "<axis xyz='0 0 0'/>")), "axis of length 0"),
        (robot_xml(joint_xml("revolute", "<axis xyz='0 1'/>")), "expected 3 finite"),
        (robot_xml(joint_xml("revolute", "<origin xyz='0 1,0 0'/>")), "expected 3 finite"),
        (robot_xml(joint_xml("revolute", "<origin rpy='0 nan 0'/>")), "expected 3 finite"),
        (robot_xml(joint_xml("revolute", "<limit lower='low' upper='1'/>")), "expected 1 finite"),
        (robot_xml(joint_xml("revolute") + joint_xml("revolute")), "share a name"),
        (robot_xml(joint_xml("revolute") + joint_xml("revolute", name="k")), "two parents"),
        (robot_xml(joint_xml("revolute"), "<link name='alone'/>"), "roots"),
        (robot_xml(joint_xml("revolute").replace("tip", "toe")), "does not exist"),
        (robot_xml("<joint name='j' type='revolute'><parent link='base'/></joint>"), "has no <child>"),
        (robot_xml(joint_xml("revolute"), f"<link name='x'>{MASSLESS}</link>"), "has no <inertia>"),
        (robot_xml(joint_xml("revolute")).replace('name="base"', ""), "no attribute 'name'"),
    ],
)
def test_unsupported_elements_are_rejected_by_name(text: str, words: str) -> None:
    raises(ModelError, words, read_urdf, text)


def test_cycle_separate_from_the_root_is_rejected() -> None:
    links = "<link name='x'/><link name='y'/>"
    ring = "".join(
        f"<joint name='{a}{b}' type='fixed'><parent link='{a}'/><child link='{b}'/></joint>" for a, b in ("xy", "yx")
    )
    raises(ModelError, "cycle", read_urdf, robot_xml(joint_xml("revolute") + ring, links))


def test_mimic_joints_can_be_made_independent() -> None:
    text = robot_xml(joint_xml("revolute", "<mimic joint='k'/>"))
    assert Reference(text, mimic="independent").nv == 1
    assert read_urdf(robot_xml(joint_xml("fixed", "<mimic joint='k'/>"))).joints[0].type == "fixed"  # it cannot move


def test_missing_file_raises_a_model_error() -> None:
    raises(ModelError, "not readable XML", read_urdf, "nowhere/robot.urdf")
