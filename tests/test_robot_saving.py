"""A robot is restored from plain data bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from raising import raises
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.robot import saving
from quaddyn.robot.saving import from_record, to_record

ARRAYS = ("q_home", "lower", "upper", "velocity_limits", "effort_limits", "damping", "friction", "armature")


def save_and_restore(robot: qd.Robot) -> qd.Robot:
    return from_record(json.loads(json.dumps(to_record(robot))))


def assert_same_robot(a: qd.Robot, b: qd.Robot) -> None:
    assert a.model == b.model and a.actuated == b.actuated and a.name == b.name
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)
    assert list(a.legs) == list(b.legs)
    for leg, other in zip(a.legs.values(), b.legs.values(), strict=True):
        assert (leg.joints, leg.side, leg.knee_sign, leg.knee_direction) == (
            other.joints,
            other.side,
            other.knee_sign,
            other.knee_direction,
        )
        assert leg.foot.radius == other.foot.radius and np.array_equal(leg.foot.offset, other.foot.offset)


@pytest.mark.parametrize("name", ["go2", "anymal_c", "kinova", "bolt"])
def test_restored_robot_needs_neither_its_file_nor_its_meshes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load(name)
    with monkeypatch.context() as patch:
        patch.setattr(saving, "_find_in_catalogue", lambda urdf: None)
        assert_same_robot(robot, save_and_restore(robot))
    if name == "go2":
        meshes = [g.shape.path for link in save_and_restore(robot).tree.links for g in link.visuals]
        assert meshes and all(path is not None for path in meshes)  # the file of the catalogue is found again


def test_overrides_are_preserved() -> None:
    robot = qd.load(
        "go2",
        limits={"FL_calf_joint": {"effort": 12.3}},
        damping=0.1,
        friction={"FR_hip_joint": 0.2},
        armature=0.01,
        knee_direction="forward",
        actuated=qd.load("go2").actuated[::-1],
    )
    assert_same_robot(robot, save_and_restore(robot))


BAD = urdf(link("a"), link("b", inertial(moments="1 0.1 0.1")), joint("j", "a", "b"))


def test_repairs_are_applied_again() -> None:
    assert_same_robot(*(2 * [qd.load("two_link_leg")]))
    robot = qd.load(BAD, repair=("inertia",))
    assert_same_robot(robot, save_and_restore(robot))


def test_invalid_records_are_rejected() -> None:
    good = to_record(qd.load("two_link_leg"))
    for wrong, why in (
        ({"format": 7}, "format 7"),
        ({"limits": {"joint": {"torque": 1.0}}}, "not a record"),
        ({"feet": 3}, "not a record"),
        ({"actuated": ["nobody"]}, "nobody"),
    ):
        raises(qd.QuaddynError, why, from_record, {**good, **wrong})
    raises(qd.ArgumentError, "not a record", from_record, {"format": 1})
