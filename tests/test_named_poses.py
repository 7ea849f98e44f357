"""Named poses of a robot: group states of an SRDF, and keyframes of an MJCF."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from raising import raises
from urdf_editing import dog

import quaddyn as qd
from quaddyn.robot.catalogue import find_entry
from quaddyn.robot.saving import from_record, to_record
from quaddyn.urdf.srdf import read_poses

SRDF = """<robot name="dog"><group name="all"/>
<group_state name="low" group="all"><joint name="FL_thigh_joint" value="0.7"/>
<joint name="nothing" value="1"/></group_state>
<group_state name="low" group="others"><joint name="FL_shank_joint" value="-1.4"/></group_state>
<group_state name="placed">
<joint name="root_joint" value="1 2 0.5 0 0 0.7071067811865476 0.7071067811865476"/></group_state>
</robot>"""


def joint(robot: qd.Robot, pose: str, name: str) -> float:
    return float(robot.poses[pose][robot.configuration_index(name)])


@pytest.mark.parametrize("place", ["dog.srdf", "../srdf/dog.srdf", "../srdf/r.srdf"])
def test_srdf_beside_a_urdf_gives_named_poses(tmp_path: Path, place: str) -> None:
    (tmp_path / "package.xml").write_text("<package/>", encoding="utf-8")
    file = tmp_path / "urdf" / "r.urdf"
    file.parent.mkdir()
    file.write_text(str(dog()), encoding="utf-8")
    assert qd.load(file).poses == {}
    srdf = file.parent / place
    srdf.parent.mkdir(exist_ok=True)
    srdf.write_text(SRDF, encoding="utf-8")
    robot = qd.load(file, strict=True)
    assert set(robot.poses) == {"low", "placed"}
    assert joint(robot, "low", "FL_thigh_joint") == 0.7 and joint(robot, "low", "FL_shank_joint") == -1.4
    assert joint(robot, "low", "FR_shank_joint") == robot.q_home[robot.configuration_index("FR_shank_joint")]
    np.testing.assert_allclose(robot.poses["placed"][:7], [1, 2, 0.5, 0, 0, 0.5**0.5, 0.5**0.5], atol=1e-15)
    s = qd.Dynamics(robot).update(robot.poses["low"], np.zeros(robot.nv))
    lowest = [s.placement(n).translation[2] - leg.foot.radius for n, leg in robot.legs.items()]
    assert min(lowest) == pytest.approx(0.0, abs=1e-12)
    assert not robot.poses["low"].flags.writeable
    for same in (pickle.loads(pickle.dumps(robot)), from_record(to_record(robot)), qd.robot.with_payload(robot, 0.5)):
        assert {n: q.tolist() for n, q in same.poses.items()} == {n: q.tolist() for n, q in robot.poses.items()}
    assert qd.load(file, base=(0.0, 0.0, np.pi)).poses == {}


def test_damaged_srdf_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(str(dog()), encoding="utf-8")
    (tmp_path / "r.srdf").write_text(SRDF.replace("-1.4", "low"), encoding="utf-8")
    robot = qd.load(tmp_path / "r.urdf")
    (warning,) = [w for w in robot.report.warnings if w.where.element == "named poses"]
    assert "value='low'" in warning.reason and robot.poses == {}


def test_catalogue_name_and_path_of_its_file_have_the_same_poses() -> None:
    named, file = qd.load("talos"), qd.load(find_entry("talos").path)
    assert list(named.poses) == list(file.poses) == ["half_sitting"]
    np.testing.assert_array_equal(named.poses["half_sitting"], file.poses["half_sitting"])
    assert joint(named, "half_sitting", "leg_left_4_joint") == pytest.approx(0.859, abs=1e-2)


def test_keyframes_of_an_mjcf_are_poses() -> None:
    pytest.importorskip("mujoco")
    keys = '<key name="home" qpos=".1 .2"/><key name="bent" qpos="1 -2"/><key qpos="0 0"/>'
    robot = qd.load(
        '<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size=".1"/><body pos="0 0 1"><joint name="b" '
        f'axis="0 1 0"/><geom size=".1"/></body></body></worldbody><keyframe>{keys}</keyframe></mujoco>'
    )
    assert set(robot.poses) == {"home", "bent"}
    np.testing.assert_allclose(robot.configuration(joints={"a": 1.0, "b": -2.0}), robot.poses["bent"])
    np.testing.assert_allclose(robot.q_home, robot.poses["home"])


def test_poses_of_a_text_need_numbers() -> None:
    assert set(read_poses(SRDF)) == {"low", "placed"}
    for value in ("", "x", "nan"):
        raises(qd.ModelError, "expected the position of the joint", read_poses, SRDF.replace('0.7"', f'{value}"', 1))
