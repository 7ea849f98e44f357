"""Sources of robots, and objects that can be copied; docstrings state the former behavior."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.control import CartesianImpedance, JointPD
from quaddyn.urdf.mjcf import has_mujoco
from quaddyn.wbc import ComTask, VelocityController

XACRO = """<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="2"/>
<link name="base"><inertial><mass value="${m}"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
PLAIN = XACRO.replace('<xacro:property name="m" value="2"/>', "").replace("${m}", "2")

FAKE_XACRO = """
class Document:
    def __init__(self, text):
        self.text = text
    def toxml(self):
        return self.text

def process_file(path):
    with open(path) as file:
        text = file.read()
    if "broken" in text:
        raise RuntimeError("no such macro")
    return Document(text.replace('<xacro:property name="m" value="2"/>', "").replace("${m}", "2"))
"""


def package(name: str, files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a package of this name importable for the duration of a test."""
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file).write_text(text, encoding="utf-8")
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(str(folder))


def test_unexpanded_macros_are_reported_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formerly ``${m}`` was rejected as an invalid number."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "xacro" else find(name, *rest))
    for file in ("robot.urdf.xacro", "robot.urdf"):
        (tmp_path / file).write_text(XACRO, encoding="utf-8")
        raises(qd.ModelError, f"run xacro {file}.*pip install xacro", qd.load, tmp_path / file)
    raises(qd.ModelError, "run xacro", qd.load, XACRO)
    raises(qd.ModelError, "run xacro", qd.load, PLAIN.replace('"2"', '"$(arg m)"'))
    assert qd.load(PLAIN + '<!-- <mass value="${m}"/> -->', root="free").mass == 2.0


def test_xacro_files_are_expanded_where_xacro_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("xacro", {"__init__.py": FAKE_XACRO}, tmp_path / "lib", monkeypatch)
    file = tmp_path / "robot.urdf.xacro"
    file.write_text(XACRO, encoding="utf-8")
    assert qd.load(file, root="free").mass == 2.0
    file.write_text(XACRO + "<!-- broken -->", encoding="utf-8")
    raises(qd.ModelError, "no such macro", qd.load, file)


def test_names_of_robot_descriptions_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urdf = tmp_path / "repository" / "thing" / "thing.urdf"
    urdf.parent.mkdir(parents=True)
    urdf.write_text(PLAIN, encoding="utf-8")
    mjcf = urdf.with_name("thing.xml")
    mjcf.write_text('<mujoco><worldbody><body><geom size="1" mass="3"/></body></worldbody></mujoco>', encoding="utf-8")
    files = {
        "__init__.py": "",
        "thing_description.py": f"URDF_PATH = {str(urdf)!r}\nPACKAGE_PATH = {str(urdf.parent)!r}\n",
        "mjcf_description.py": f"MJCF_PATH = {str(mjcf)!r}\n",
        "sdf_description.py": "SDF_PATH = 'thing.sdf'\n",
        "away_description.py": "raise OSError('no network')\n",
    }
    package("robot_descriptions", files, tmp_path / "lib", monkeypatch)
    assert qd.load("thing_description", root="free").mass == 2.0
    if has_mujoco():
        assert qd.load("mjcf_description", root="free").mass == 3.0
    else:
        raises(qd.ModelError, "MuJoCo, which reads MJCF files", qd.load, "mjcf_description", root="free")
    for name, word in (("sdf_description", "neither as a URDF nor as an MJCF"), ("away_description", "no network")):
        raises(qd.ModelError, word, qd.load, name)
    raises(qd.UnknownNameError, "nothing_description", qd.load, "nothing_description")
    raises(qd.UnknownNameError, "'go2'", qd.load, "go22")


def test_pickling_error_names_the_alternative() -> None:
    """Formerly the message was Boost's about pin.Data."""
    robot = qd.load("go2")
    sim = qd.Simulation(robot)
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    cannot = (
        sim, qd.WholeBodyController(robot), qd.LocomotionController(robot), state, qd.Viewer(robot, serve=False),
        qd.MujocoPlant(robot),
    )  # fmt: skip
    for thing in cannot:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            raises(TypeError, "cannot be copied or pickled", call, thing)
    for thing in (
        robot, qd.Dynamics(robot), JointPD(robot), ComTask(robot), sim.checkpoint(), VelocityController(robot),
        CartesianImpedance(robot, "FL", stiffness=1.0), robot.decompose(robot.q_home),
    ):  # fmt: skip
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
