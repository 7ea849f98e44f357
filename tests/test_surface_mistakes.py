"""Former silent mistakes raise errors or take effect."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
import quaddyn.wbc
from quaddyn import demo
from quaddyn.campaigns.trial import Trial
from quaddyn.contact import NOMINAL_FRICTION, Contact
from quaddyn.control import CartesianImpedance, ForceControl, JointPD, NullSpacePosture, gravity_compensation
from quaddyn.errors import MissingFileError
from quaddyn.identification import Samples, load_samples, save_samples
from quaddyn.kinematics import CollisionModel, LegKinematics
from quaddyn.robot.configuration import rotation_matrix
from quaddyn.runtime import load_recording
from quaddyn.simulation import Box, Log, Plane, stairs
from quaddyn.strict_attributes import StrictAttributes
from quaddyn.wbc import (
    ComTask,
    FrameAxisTask,
    FramePositionTask,
    FrameTask,
    LinearConstraint,
    PostureTask,
    TorqueLimits,
    TorqueRate,
    VelocityController,
    WholeBodyController,
)


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load("solo12")


@pytest.fixture(scope="module")
def dyn(robot: qd.Robot) -> qd.Dynamics:
    return qd.Dynamics(robot)


@pytest.fixture
def wbc(robot: qd.Robot) -> WholeBodyController:
    return WholeBodyController(robot)


def displaced_state(robot: qd.Robot, dyn: qd.Dynamics) -> qd.State:
    """A state away from the references."""
    q = robot.q_home.copy()
    q[2] -= 0.01
    q[7:] += 0.02
    return dyn.update(q, np.full(robot.nv, 0.02))


# -- gains, weights, limits and references are properties that act on the next tick -------------------------------
def test_assigned_stiffness_takes_effect_at_the_next_tick(
    robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController
) -> None:
    com = wbc.tasks["com"]
    com.reference(np.array([0.0, 0.0, 1.0]) + dyn.center_of_mass(robot.q_home))
    before = wbc.compute(displaced_state(robot, dyn)).tau.copy()
    com.stiffness = 10.0
    np.testing.assert_array_equal(com.stiffness, [10.0] * 3)
    np.testing.assert_allclose(com.damping, 2.0 * np.sqrt(10.0))  # critical damping by default
    after = wbc.compute(displaced_state(robot, dyn)).tau.copy()
    assert np.abs(after - before).max() > 1e-3
    wbc.tasks["com"].gains(10.0)
    np.testing.assert_array_equal(wbc.compute(displaced_state(robot, dyn)).tau, after)


def test_explicit_damping_is_kept_when_stiffness_changes(robot: qd.Robot) -> None:
    task = ComTask(robot, damping=7.0)
    task.stiffness = [1.0, 4.0, 9.0]
    np.testing.assert_array_equal(task.damping, [7.0] * 3)
    task.gains(16.0)
    np.testing.assert_array_equal(task.damping, [8.0] * 3)
    task.damping = 1
    task.stiffness = 100
    np.testing.assert_array_equal(task.damping, [1.0] * 3)


# Task, attribute and new value.
SETTINGS = [
    ("com", "damping", 3.0),
    ("com", "weight", [5.0, 0.1, 1.0]),
    ("com", "reference_position", [0.1, 0.0, 0.3]),
    ("com", "reference_velocity", (0.3, 0, 0)),
    ("com", "reference_acceleration", np.array([0, 0, 1], dtype=np.float32)),
    ("base", "stiffness", 1.0),
    ("base", "reference_position", [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    ("posture", "weight", 100.0),
    ("posture", "stiffness", 1000.0),
    ("forces", "weight", 10.0),
    ("forces", "references", {"FL": [1, 2, 3]}),
    ("torque", "limits", 0.2),
    ("joint bounds", "acceleration", 0.5),
    ("joint bounds", "upper", -2.0),
    ("contact", "damping", 500.0),
]


@pytest.mark.parametrize(("name", "what", "value"), SETTINGS)
def test_every_setting_of_an_element_takes_effect_at_the_next_tick(
    robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController, name: str, what: str, value: object
) -> None:
    wbc.tasks.com.reference(dyn.center_of_mass(robot.q_home) + np.array([0.2, 0.1, 0.2]))  # not attainable
    if name in ("posture", "forces"):
        wbc.tasks.com.axes = "z"  # leaves freedom to the level below
    before = wbc.compute(displaced_state(robot, dyn)).tau.copy()
    np.testing.assert_allclose(wbc.compute(displaced_state(robot, dyn)).tau, before, atol=1e-7)
    setattr(wbc.tasks[name], what, value)
    assert np.abs(wbc.compute(displaced_state(robot, dyn)).tau - before).max() > 1e-4


def test_settings_take_effect_after_elements_are_added_or_removed(
    robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController
) -> None:
    torque = wbc.tasks.torque
    wbc.add(TorqueRate(robot, 1e4), level=0)
    wbc.compute(displaced_state(robot, dyn))
    wbc.remove("torque rate")
    torque.limits = 0.3
    assert np.abs(wbc.compute(displaced_state(robot, dyn)).tau).max() <= 0.3 + 1e-9


def test_a_walking_controller_reads_limits_and_friction_at_every_tick(robot: qd.Robot, dyn: qd.Dynamics) -> None:
    controller = qd.LocomotionController(robot)
    controller.compute(displaced_state(robot, dyn))
    controller.wbc.add(TorqueRate(robot, 1e6), level=0)
    controller.wbc.tasks.torque.limits = 0.25
    assert np.abs(controller.compute(displaced_state(robot, dyn)).tau).max() <= 0.25
    controller.friction = 0.3
    assert controller.wbc.friction == 0.3


def test_arrays_read_from_a_task_do_not_change_and_are_read_only(robot: qd.Robot) -> None:
    task = ComTask(robot, stiffness=4.0)
    old = task.stiffness
    task.stiffness = 9.0
    np.testing.assert_array_equal(old, [4.0] * 3)
    for what in ("stiffness", "damping", "weight", "reference_velocity", "reference_acceleration"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(task, what)[0] = 5.0
    limits = TorqueLimits(robot)
    limits.limits[0] = 0.5  # entries of limits may be set
    assert limits.limits[0] == 0.5


def test_reference_position_of_none_holds_the_current_position(robot: qd.Robot, dyn: qd.Dynamics) -> None:
    task = ComTask(robot)
    assert task.reference_position is None and not task.has_reference
    task.reference_position = (1, 2, 3)
    np.testing.assert_array_equal(task.reference_position, [1.0, 2.0, 3.0])
    task.reference_velocity = [1, 0, 0]
    task.reference_position = None
    assert not task.has_reference and task.reference_velocity[0] == 1.0


def test_force_references_are_read_only(wbc: WholeBodyController) -> None:
    wbc.tasks.forces.references = {"FL": np.ones(3)}
    with pytest.raises(TypeError):
        wbc.tasks.forces.references["FR"] = np.ones(3)  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        wbc.tasks.forces.references["FL"][0] = 2.0
    twin = pickle.loads(pickle.dumps(copy.copy(wbc.tasks.forces)))
    np.testing.assert_array_equal(twin.references["FL"], np.ones(3))


def test_matrices_of_a_linear_constraint_are_readable_and_settable(
    robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController
) -> None:
    row = np.zeros((1, robot.nv))
    row[0, 6] = 1.0
    own = LinearConstraint("own", 1.0, 1.0, acceleration=row.tolist())
    wbc.add(own, 0)
    assert wbc.compute(displaced_state(robot, dyn)).acceleration[6] == pytest.approx(1.0)
    own.upper = 2.0
    own.lower = 2.0
    assert wbc.compute(displaced_state(robot, dyn)).acceleration[6] == pytest.approx(2.0)
    np.testing.assert_array_equal(own.acceleration, row)
    assert own.torque is None and not own.forces and own.weights.tolist() == [1.0]
    with pytest.raises(qd.ArgumentError):
        own.lower = 3.0


def test_bounds_of_a_normal_force_are_settable(robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController) -> None:
    wbc.contacts["FL"].min_normal_force = 9.0
    assert wbc.compute(displaced_state(robot, dyn)).forces["FL"][2] >= 9.0 - 1e-7
    wbc.contacts["FL"].min_normal_force, wbc.contacts["FL"].max_normal_force = 0.0, 1.0
    assert wbc.compute(displaced_state(robot, dyn)).forces["FL"][2] <= 1.0 + 1e-7


def test_gains_of_other_controllers_are_checked_whenever_they_are_set(robot: qd.Robot) -> None:
    pd = JointPD(robot)
    pd.kp = 3
    assert pd.kp.tolist() == [3.0] * robot.nu
    with pytest.raises(qd.ArgumentError):
        pd.kd = [1.0, 2.0]
    foot = CartesianImpedance(robot, "FL", stiffness=100.0)
    foot.stiffness, foot.damping = 50.0, 2.0
    assert foot.stiffness[0, 0] == 50.0 and foot.damping is not None and foot.damping[0, 0] == 2.0
    with pytest.raises(qd.ArgumentError):
        foot.inertia = -1.0
    force = ForceControl(robot, "FL", rows=("z",))
    force.regulator.ki = 3.0
    for wrong in (pd, foot, force, force.regulator, NullSpacePosture(robot)):
        with pytest.raises(AttributeError, match="no attribute"):
            wrong.stifness = 1.0  # type: ignore[attr-defined]
    solver = VelocityController(robot)
    solver.gain = 5
    with pytest.raises(qd.ArgumentError, match="gain"):
        solver.gain = 5000.0


# -- unknown attributes -------------------------------------------------------------------------------------------
def test_misspelled_attribute_raises_and_lists_near_matches(
    robot: qd.Robot, dyn: qd.Dynamics, wbc: WholeBodyController
) -> None:
    sim, viewer = qd.Simulation(robot), qd.Viewer(robot, serve=False)
    locomotion, velocity = qd.LocomotionController(robot), VelocityController(robot)
    command = wbc.compute(displaced_state(robot, dyn))
    for owner, name, meant in (
        (wbc, "firction", "friction"),
        (locomotion, "giat", "gait"),
        (velocity, "gian", "gain"),
        (wbc.tasks["com"], "stifness", "stiffness"),
        (wbc.tasks.feet["FL"], "wieght", "weight"),
        (wbc.tasks["forces"], "bandwith", "bandwidth"),
        (wbc.tasks["torque"], "limit", "limits"),
        (wbc.contacts["FL"], "frction", "friction"),
        (sim, "tiem", "time"),
        (sim.actuators, "efort", "effort"),
        (dyn, "valdate", "validate"),
        (viewer, "newtons_per_metre", "newtons_per_meter"),
    ):
        with pytest.raises(qd.QuaddynError, match=f"'{meant}'") as caught:
            setattr(owner, name, 1.0)
        assert isinstance(caught.value, AttributeError) and not hasattr(owner, name)
    for frozen in (command, wbc.tasks, command.status):
        with pytest.raises((AttributeError, TypeError)):  # a frozen dataclass with slots raises either
            frozen.foo = 1.0  # type: ignore[union-attr]
    with pytest.raises(AttributeError, match="'status'"):
        command.staus  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'com'"):
        wbc.tasks.cmo  # type: ignore[attr-defined]  # noqa: B018
    assert pickle.loads(pickle.dumps(qd.errors.UnknownAttributeError("A", "b", ("bc",)))).name == "b"


def test_attributes_fixed_by_the_constructor_cannot_be_assigned(robot: qd.Robot, wbc: WholeBodyController) -> None:
    sim = qd.Simulation(robot)
    axis = FrameAxisTask(robot, robot.feet[0])
    for owner, name, value in (
        (sim, "dt", 0.01),
        (axis, "axis", "z"),
        (axis, "frame", "FR"),
        (axis, "name", "other"),
        (wbc, "tasks", {}),
        (wbc, "dt", 0.01),
        (wbc.tasks["com"], "reference", np.zeros(3)),  # a method
        (wbc.tasks["com"], "block", np.zeros(3)),
        (wbc, "compute", 1.0),
    ):
        raises(AttributeError, name, setattr, owner, name, value)


def test_user_subclasses_may_add_attributes(robot: qd.Robot) -> None:
    class Mine(FramePositionTask):
        later: float

        def __init__(self, robot: qd.Robot) -> None:
            super().__init__(robot, "FL", "mine")
            self.speed = 1.0

    mine = Mine(robot)
    mine.speed, mine.later, mine._private = 2.0, 3.0, 4.0  # type: ignore[attr-defined]
    twin = copy.deepcopy(mine)
    twin.speed = 5.0
    assert mine.speed == 2.0
    for owner in (mine, twin, pickle.loads(pickle.dumps(ComTask(robot)))):
        with pytest.raises(AttributeError, match="no attribute"):
            owner.sped = 1.0
    assert issubclass(Mine, StrictAttributes)


# -- typed accessors ----------------------------------------------------------------------------------------------
def test_tasks_are_the_same_by_name_and_by_attribute(robot: qd.Robot, wbc: WholeBodyController) -> None:
    tasks = wbc.tasks
    by_attribute = {
        "com": tasks.com, "base": tasks.base, "posture": tasks.posture, "forces": tasks.forces,
        "contact": tasks.contact, "friction": tasks.friction, "normal force": tasks.normal_force,
        "torque": tasks.torque, "joint bounds": tasks.joint_bounds, "joint friction": tasks.joint_friction,
        **tasks.feet,
    }  # fmt: skip
    assert by_attribute == dict(tasks)
    hand = FrameTask(robot, "FL", "hand")
    wbc.add(hand, level=1)
    assert wbc.tasks.get_typed("hand", FrameTask) is hand
    raises(qd.ArgumentTypeError, "'hand' is of class FrameTask", wbc.tasks.get_typed, "hand", ComTask)
    with pytest.raises(qd.UnknownNameError, match="'FL'"):
        wbc.tasks.feet["Fl"]
    arm = qd.load("planar_3r")
    with pytest.raises(qd.UnknownNameError, match="'com'"):
        WholeBodyController(arm).tasks.com  # noqa: B018


USER_CODE = """
import numpy as np

import quaddyn as qd

robot = qd.load("go2")
dyn, sim, viewer = qd.Dynamics(robot), qd.Simulation(robot), qd.Viewer(robot, serve=False)
wbc = qd.WholeBodyController(robot)
wbc.firction = 0.1  # 1
wbc.tasks.com.stifness = 10.0  # 2
wbc.tasks["com"].dampign = 10.0  # 3
wbc.tasks.pasture  # 4
wbc.contacts["FL"].frction = 0.3  # 5
state = dyn.update(robot.q_home, np.zeros(robot.nv))
command = wbc.compute(state)
print(command.torque)  # 6
if command.sovled:  # 7
    sim.stpe(command.tau)  # 8
viewer.shwo(sim.q)  # 9
print(dyn.rne(sim.q, sim.v, sim.v), robot.q_hom)  # 10, 11
wbc.friction = 0.3
wbc.tasks.com.stiffness = 10.0
wbc.tasks["com"].damping = np.ones(3)
wbc.tasks["posture"].weight = [1.0] * robot.nu
wbc.tasks.base.reference_position = np.eye(3)
wbc.tasks.get_typed("com", qd.wbc.ComTask).stiffness = 5
"""


def test_a_type_checker_finds_every_wrong_name_in_user_code_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(USER_CODE, encoding="utf-8")
    checkout = Path(__file__).parent.parent  # with its strict configuration and the cache of checks of the package
    command = [sys.executable, "-m", "mypy", "--strict", str(file)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, cwd=checkout)
    wrong = [line for line in done.stdout.splitlines() if "error:" in line]
    lines = USER_CODE.splitlines()
    marked = sum(len(line.partition("  # ")[2].split(", ")) for line in lines if "  # " in line)
    assert marked == 11 and len(wrong) == marked, done.stdout
    assert all("has no attribute" in line for line in wrong), done.stdout


# -- files -----------------------------------------------------------------------------------------------------------
def test_missing_files_and_folders_raise_errors_of_the_package_and_of_python(tmp_path: Path) -> None:
    for package in ("mcap", "pyarrow"):
        pytest.importorskip(package)
    robot = qd.load("two_link_leg")
    log = qd.Simulation(robot).run(lambda s: np.zeros(robot.nu), duration=0.01)
    missing, folder = tmp_path / "none.npz", tmp_path / "folder.csv"
    folder.mkdir()
    for read in (Log.load, load_recording, quaddyn.wbc.replay, lambda path: load_samples(path, robot)):
        with pytest.raises(qd.QuaddynError) as caught:
            read(missing)
        assert isinstance(caught.value, FileNotFoundError) and str(missing) in str(caught.value)
    samples = Samples(*(np.zeros((1, n)) for n in (robot.nq, robot.nv, robot.nv, robot.nu)))
    for write in (log.to_csv, log.save, log.to_mcap, log.to_parquet, lambda path: save_samples(path, robot, samples)):
        with pytest.raises(qd.QuaddynError) as caught:
            write(folder)
        assert isinstance(caught.value, OSError)
    with pytest.raises(qd.QuaddynError) as caught:
        log.to_csv(tmp_path / "absent" / "x.csv")
    assert isinstance(caught.value, FileNotFoundError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.errno, again.filename) == (MissingFileError, 2, str(tmp_path / "absent" / "x.csv"))


# -- other units ------------------------------------------------------------------------------------------------
def test_angles_in_degrees_and_lengths_in_millimeters_raise_warnings_that_name_the_unit() -> None:
    robot = qd.load("go2")
    degrees = robot.q_home.copy()
    degrees[7:] = np.degrees(degrees[7:])
    high = robot.q_home.copy()
    high[2] = 300.0
    plant = qd.Simulation(robot)
    for q, reason in (
        (degrees, r"^q: 36\.\S+ rad of FL_thigh_joint .* 7 more joints .* degrees; pass np.radians"),
        (high, r"^q: the height of the base 300 m is .* times .* millimeters"),
    ):
        with pytest.warns(RuntimeWarning, match=reason):
            plant.reset(q)
    qd.Simulation(robot, floor=299.6).reset(high)  # a floor at this height; warnings are errors in tests
    dyn, v = qd.Dynamics(robot), np.zeros(robot.nv)
    dyn.update(robot.q_home, v)
    with pytest.warns(RuntimeWarning, match=r"^q: 36\.\S+ rad of FL_thigh_joint .* degrees") as caught:
        dyn.update(degrees, v)
    dyn.update(degrees, v)
    assert caught[0].filename == __file__
    for call in ("rnea", "gravity", "frame_placement"):
        dyn = qd.Dynamics(robot)
        others = {"rnea": (v, v), "gravity": (), "frame_placement": ("FL",)}[call]
        for q, reason in ((degrees, "FL_thigh_joint .* degrees"), (high, "height of the base 300 m .* millimeters")):
            with pytest.warns(RuntimeWarning, match=f"^q: .*{reason}") as caught:
                getattr(dyn, call)(q, *others)
            getattr(dyn, call)(q, *others)
            assert caught[0].filename == __file__
    leg = LegKinematics(robot, "FL")
    with pytest.warns(RuntimeWarning, match=r"^q: .* FL_thigh_joint .* degrees"):
        leg.forward(np.degrees(leg.q_home))
    arm = qd.load("panda", mimic=False)
    s = qd.Dynamics(arm).update(arm.q_home, np.zeros(arm.nv))
    hand_control = CartesianImpedance(arm, "panda_hand", stiffness=300.0, rows=("x", "y", "z"))
    target = s.placement("panda_hand").translation
    with pytest.warns(RuntimeWarning, match=r"^target: the distance from the frame .* millimeters") as caught:
        hand_control.compute(s, 1000.0 * target)
    assert caught[0].filename == __file__
    hand_control.compute(s, 1000.0 * target)
    posture = PostureTask(robot)
    with pytest.warns(RuntimeWarning, match=r"^posture.reference: position: .* degrees"):
        posture.reference(degrees)
    with pytest.warns(RuntimeWarning, match=r"^q_desired: .* degrees"):
        JointPD(robot).compute(robot.q_home, np.zeros(robot.nv), degrees)
    for task in (ComTask(robot), FramePositionTask(robot, "FL")):
        with pytest.warns(RuntimeWarning, match=r"reference: position: the height 280 m is .* millimeters"):
            task.reference([0.0, 0.0, 280.0])
        for height in (28.0, -30.0):
            with pytest.warns(RuntimeWarning, match=f"the height {height:g} m is .* centimeters") as caught:
                task.reference([0.0, 0.0, height])
            assert caught[0].filename == __file__
        for height in (-2.0, 6.0):  # in a pit, and on a hill
            task.reference([0.0, 0.0, height])
    with pytest.warns(RuntimeWarning, match=r"^height: .* 150 m .* millimeters"), pytest.raises(qd.ArgumentError):
        qd.LocomotionController(robot).plan_jump(height=150.0)
    with pytest.warns(RuntimeWarning, match=r"^q: 20 m of panda_finger_joint1 .* millimeters"):
        qd.Simulation(arm).reset([0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0, 20.0, 20.0])


def test_directions_in_degrees_and_terrain_in_centimeters_raise_warnings_that_name_the_unit() -> None:
    robot = qd.load("go2")
    controller = qd.LocomotionController(robot)
    leg = LegKinematics(robot, "FL")
    rows = [Box([60.0 + 30.0 * i, 0.0, 3.0 * i + 3.0], [30.0, 400.0, 6.0 * i + 6.0]) for i in range(3)]
    degrees = r" rad is more than a full turn .* degrees; pass np.radians"
    for reason, call in (
        (f"^heading: 90{degrees}", lambda: stairs(3, rise=0.1, tread=0.3, heading=90.0)),
        (f"^heading: -45{degrees}", lambda: Plane.slope(0.1, heading=-45.0)),
        (f"^heading: 180{degrees}", lambda: Plane.wall(1.0, heading=180.0)),
        (f"^turn: 45{degrees}", lambda: controller.plan_jump(turn=45.0)),
        (f"^direction: 90{degrees}", lambda: controller.slope_limit_reason(0.1, 90.0)),
        (r"^rise: steps of 6 m .* centimeters", lambda: stairs(3, rise=6.0, tread=30.0, distance=80.0)),
        (
            r"^terrain: the nearest of 3 boxes is 45 m away, 124 times .* centimeters",
            lambda: qd.Simulation(robot, terrain=[Plane.floor(), *rows]),
        ),
        (r"^q: .* FL_thigh_joint .* degrees", lambda: leg.jacobian(np.degrees(leg.q_home))),
    ):
        with pytest.warns(RuntimeWarning, match=reason) as caught:
            call()
        assert [each.filename for each in caught] == [__file__]


def test_turns_walls_and_distant_buildings_raise_no_warning() -> None:
    robot = qd.load("go2")
    stairs(1, rise=3.0, tread=0.2)  # a wall; warnings are errors in tests
    stairs(12, rise=0.3, tread=0.3, heading=2.0 * np.pi)
    qd.LocomotionController(robot).plan_jump(turn=-np.pi)
    near, far = Box([4.0, 0.0, 3.0], [2.0, 4.0, 6.0]), Box([60.0, 0.0, 5.0], [10.0, 10.0, 10.0])
    for terrain in ([near, far], [far], [far, Box([40.0, 0.0, 1.0], [0.2, 10.0, 2.0])]):
        qd.Simulation(robot, terrain=[Plane.floor(), *terrain])


def test_positions_a_little_beyond_limits_and_high_places_raise_no_warning() -> None:
    robot = qd.load("go2")
    q = robot.q_home.copy()
    q[2], q[7:] = 8.0, robot.upper[7:] + 0.5
    plant, posture = qd.Simulation(robot), PostureTask(robot)
    plant.reset(q)  # warnings are errors in tests
    posture.reference(q)
    ComTask(robot).reference([3000.0, -3000.0, 8.0])


# -- conventions of other libraries are accepted or rejected by name --------------------------------------------------
ROOTS = [("go2", "free"), ("small_quadruped", "planar"), ("go2", "fixed"), ("double_pendulum_continuous", "fixed")]


# -- arrays -------------------------------------------------------------------------------------------------------
KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "float32": lambda x: x.astype(np.float32),
    "int": lambda x: np.round(x).astype(int),
    "list of ints": lambda x: [round(i) for i in x.tolist()],
    "longdouble": lambda x: x.astype(np.longdouble),
    "foreign byte order": lambda x: x.astype(">f8"),
    "read-only": lambda x: np.frombuffer(x.tobytes()),
    "strided": lambda x: np.repeat(x, 2)[::2],
}


@pytest.mark.parametrize("kind", KINDS)
def test_dynamics_plants_and_controllers_accept_arrays_of_any_real_type(kind: str) -> None:
    make, robot = KINDS[kind], qd.load("go2")
    dyn, sim = qd.Dynamics(robot), qd.Simulation(robot)
    q, v = robot.configuration(position=(0, 0, 1), joints=np.round(robot.q_home[7:])), np.ones(robot.nv)
    exact = {k: np.array(make(x), dtype=float) for k, x in (("q", q), ("v", v))}
    assert np.array_equal(dyn.rnea(make(q), make(v), make(v)), dyn.rnea(exact["q"], exact["v"], exact["v"]))
    assert np.array_equal(dyn.update(make(q), make(v)).M, dyn.update(exact["q"], exact["v"]).M)
    for call in ("aba", "coriolis", "nle", "energy", "update", "crba", "gravity", "center_of_mass", "com_jacobian"):
        arguments = [q, v, v][
            : {"aba": 3, "crba": 1, "gravity": 1, "center_of_mass": 1, "com_jacobian": 1}.get(call, 2)
        ]
        getattr(dyn, call)(*map(make, arguments))
    dyn.frame_jacobian(make(q), "FL")
    dyn.aba(make(q), make(v), make(v), fext={"FL": make(np.ones(3)), "FR": make(np.ones(6))})
    sim.reset(make(q), make(v))
    sim.step(make(np.zeros(robot.nu)), external={"base": make(np.ones(3))})
    sim.push("base", make(np.ones(6)), duration=0.1)
    assert robot.generalized_torques(make(np.ones(robot.nu))).sum() == robot.nu
    JointPD(robot).compute(make(q), make(v), make(q), feedforward=make(np.zeros(robot.nu)))
    assert np.isfinite(sim.q).all()


def test_a_controller_may_return_a_list_in_a_run() -> None:
    robot = qd.load("planar_3r")
    log = qd.Simulation(robot).run(lambda plant: [0, 0, 0], 0.01)
    assert log.tau.shape == (10, 3) and log.tau.dtype == np.float64


@pytest.mark.parametrize(
    ("word", "constant"),
    [("local", pin.LOCAL), ("world", pin.WORLD), ("local_world_aligned", pin.LOCAL_WORLD_ALIGNED)],
)
def test_reference_frame_is_a_string_or_a_pinocchio_constant(word: Any, constant: pin.ReferenceFrame) -> None:
    robot = qd.load("go2")
    dyn = qd.Dynamics(robot)
    q, v = robot.random_configuration(1), np.linspace(-1.0, 1.0, robot.nv)
    s = dyn.update(q, v)
    for by_word, by_constant in (
        (s.jacobian("FL", reference=word), s.jacobian("FL", reference=constant)),
        (s.velocity("FL", reference=word), s.velocity("FL", reference=constant)),
        (s.drift("FL", reference=word), s.drift("FL", reference=constant)),
        (dyn.frame_jacobian(q, "FL", reference=word), dyn.frame_jacobian(q, "FL", reference=constant)),
    ):
        np.testing.assert_array_equal(by_word, by_constant)
    raises(qd.ArgumentError, "reference", s.jacobian, "FL", reference=1)


# -- configurations -----------------------------------------------------------------------------------------------
def test_configuration_is_built_by_name_and_unlabeled_quaternions_are_rejected() -> None:
    robot = qd.load("go2")
    half = math.sqrt(0.5)
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # a quarter turn about z
    rotation = SimpleNamespace(as_matrix=lambda: turned)  # like scipy's Rotation
    for orientation in (
        {"wxyz": [half, 0, 0, half]}, {"xyzw": [0, 0, half, half]}, {"rpy": (0, 0, math.pi / 2)},
        {"rotation_vector": [0, 0, math.pi / 2]}, turned, turned.tolist(), rotation, pin.Quaternion(turned),
    ):  # fmt: skip
        q = robot.configuration(position=[1, 2, 3], orientation=orientation)
        np.testing.assert_allclose(q[:7], [1.0, 2.0, 3.0, 0.0, 0.0, half, half], atol=1e-12)
        np.testing.assert_array_equal(q[7:], robot.q_home[7:])
    parts = robot.decompose(q)
    np.testing.assert_allclose(parts.quaternion("wxyz"), [half, 0.0, 0.0, half], atol=1e-12)
    np.testing.assert_allclose(parts.quaternion("xyzw"), [0.0, 0.0, half, half], atol=1e-12)
    np.testing.assert_allclose(parts.rpy, [0.0, 0.0, math.pi / 2], atol=1e-12)
    for bad, word in (
        ([half, 0, 0, half], "wxyz"), ([0.0, 0.0, 1.0], "rpy"), ({"wxyz": [2, 0, 0, 0]}, "unit length"),
        ({"zyx": [0, 0, 0]}, "wxyz"), (np.eye(3) * 1.1, "rotation matrix"), ("up", "Rotation"), ({}, "wxyz"),
        (np.diag([1.0, 1.0, -1.0]), "rotation matrix"), ({"rpy": [0, 0, np.nan]}, "finite"),
    ):  # fmt: skip
        raises(qd.ArgumentError, word, robot.configuration, orientation=bad)
    assert rotation_matrix("x", np.eye(3)).shape == (3, 3)


def test_scipy_rotations_are_accepted() -> None:
    transform = pytest.importorskip("scipy.spatial.transform")
    robot = qd.load("go2")
    turn = transform.Rotation.from_euler("xyz", [0.1, 0.2, 0.3])
    np.testing.assert_allclose(robot.decompose(robot.configuration(orientation=turn)).rpy, [0.1, 0.2, 0.3], atol=1e-12)


def test_joints_are_given_by_name_or_in_an_order() -> None:
    robot = qd.load("go2")
    q = robot.configuration(joints={"RL_calf_joint": -1})
    assert q[robot.configuration_index("RL_calf_joint")] == -1.0
    values = np.linspace(-0.5, 0.5, robot.nu)
    in_torque_order = robot.configuration(joints=values)
    backwards = robot.configuration(joints=values[::-1].tolist(), order=robot.actuated[::-1])
    np.testing.assert_array_equal(in_torque_order, backwards)
    assert list(robot.decompose(in_torque_order).joints.values()) == values.tolist()
    raises(qd.UnknownNameError, "'RL_calf_joint'", robot.configuration, joints={"RL_calf": 1.0})
    for bad in ([0.0] * 11, {"RL_calf_joint": math.inf}, {"RL_calf_joint": "1"}):
        raises(qd.ArgumentError, "joints", robot.configuration, joints=bad)


@pytest.mark.parametrize(("name", "root"), ROOTS)
def test_decomposed_configuration_can_be_rebuilt(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    for seed in range(5):
        q = robot.random_configuration(seed)
        assert pin.isNormalized(robot.model, q, 1e-9)
        parts = pickle.loads(pickle.dumps(robot.decompose(q)))
        again = robot.configuration(position=parts.position, orientation=parts.orientation, joints=parts.joints)
        np.testing.assert_allclose(robot.difference(q, again), 0.0, atol=1e-9)
        assert (robot.random_configuration(seed) == q).all()
        held = np.isfinite(robot.lower) & np.isfinite(robot.upper)
        assert (q >= robot.lower)[held].all() and (q <= robot.upper)[held].all()


def test_base_pose_is_restricted_to_the_degrees_of_freedom_of_the_root() -> None:
    planar, fixed = qd.load("go2", root="planar"), qd.load("go2", root="fixed")
    q = planar.configuration(position=(1.0, 2.0), orientation=0.3)
    np.testing.assert_array_equal(q[:3], [1.0, 2.0, 0.3])
    same = planar.configuration(position=(1.0, 0.0, 2.0), orientation={"rpy": (0.0, 0.3, 0.0)})
    np.testing.assert_allclose(q, same, atol=1e-15)
    for bad in ({"position": (1.0, 1.0, 2.0)}, {"orientation": {"rpy": (0.1, 0.0, 0.0)}}):
        raises(qd.ArgumentError, "planar", planar.configuration, **bad)
    raises(qd.ArgumentError, "fixed", fixed.configuration, position=(0.0, 0.0, 1.0))
    raises(qd.ArgumentError, "fixed", fixed.decompose(fixed.q_home).quaternion, "wxyz")


@pytest.mark.parametrize(("name", "root"), ROOTS)
def test_configurations_are_integrated_and_subtracted_as_in_pinocchio(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    q, v = robot.random_configuration(0), np.linspace(-0.3, 0.3, robot.nv)
    there = robot.integrate(q.tolist(), v.tolist(), 0.5)
    np.testing.assert_array_equal(there, pin.integrate(robot.model, q, 0.5 * v))
    np.testing.assert_allclose(robot.difference(q, there), 0.5 * v, atol=1e-9)
    np.testing.assert_allclose(robot.interpolate(q, there, 0.5), robot.integrate(q, v, 0.25), atol=1e-9)
    np.testing.assert_array_equal(robot.neutral, pin.neutral(robot.model))
    for call in (lambda: robot.integrate(q[:-1], v), lambda: robot.difference(q, q * np.nan)):
        raises(qd.ArgumentError, "q", call)


def test_limits_of_actuated_joints_are_in_torque_order() -> None:
    robot = qd.load("go2", actuated=tuple(reversed(qd.load("go2").actuated)))
    for i, joint in enumerate(robot.actuated):
        at = robot.configuration_index(joint)
        limits = robot.lower_position_limits[i], robot.upper_position_limits[i]
        assert limits == (robot.lower[at], robot.upper[at])
        v = robot.velocity_index(joint)
        assert (robot.velocity_limits[i], robot.effort_limits[i]) == (
            robot.model.upperVelocityLimit[v], robot.model.upperEffortLimit[v],
        )  # fmt: skip


# -- collision distances ------------------------------------------------------------------------------------------
BALLS = """<robot name="balls">
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.1"/></geometry></collision></link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="hand"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
  <joint name="a" type="prismatic"><parent link="base"/><child link="arm"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="b" type="prismatic"><parent link="arm"/><child link="hand"/><axis xyz="0 0 1"/>
    <origin xyz="0.5 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""


def test_link_distances_agree_with_the_geometry_of_the_file() -> None:
    robot = qd.load(BALLS)
    model = pickle.loads(pickle.dumps(CollisionModel(robot)))
    assert model.pairs == (("base", "hand"),) and model.links == ("base", "hand")
    for x in (-0.2, 0.0, 0.3):
        (found,) = model.separations([x, 0.0])
        assert found.distance == pytest.approx(0.5 + x - 0.1 - 0.1, abs=1e-6)
        np.testing.assert_allclose(found.points, [[0.1, 0.0, 0.0], [0.4 + x, 0.0, 0.0]], atol=1e-4)
    assert model.distance([-0.35, 0.0]) == pytest.approx(-0.05, abs=1e-6)
    assert model.colliding_pairs([-0.35, 0.0]) == (("base", "hand"),)
    assert not model.colliding_pairs([0.0, 0.0]) and model.colliding_pairs([0.0, 0.0], margin=0.5)
    raises(qd.UnknownNameError, "'hand'", CollisionModel, robot, links=("base", "hnd"))
    raises(qd.ArgumentError, "links: expected at least two links", CollisionModel, robot, links=("base",))
    raises(qd.ArgumentError, "q", model.distance, [np.nan, 0.0])


def test_collision_pairs_do_not_depend_on_the_link_order() -> None:
    robot = qd.load("go2")
    model = CollisionModel(robot)
    backward = CollisionModel(robot, links=model.links[::-1])
    assert {frozenset(pair) for pair in backward.pairs} == {frozenset(pair) for pair in model.pairs}
    assert {frozenset(pair) for pair in backward.excluded_pairs} == {frozenset(pair) for pair in model.excluded_pairs}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, classes and their methods of every subpackage, by name."""
    rooms = [info.name for info in pkgutil.walk_packages(qd.__path__, "quaddyn.") if info.ispkg]
    for room in map(importlib.import_module, ["quaddyn", *rooms]):
        for name in getattr(room, "__all__", ()):
            value = getattr(room, name)
            if callable(value):
                yield f"{room.__name__}.{name}", value
            methods = vars(value).items() if inspect.isclass(value) else ()
            for method, f in methods:
                if inspect.isfunction(f) and not method.startswith("_"):
                    yield f"{room.__name__}.{name}.{method}", f


def test_every_argument_can_be_passed_by_keyword() -> None:
    unnamed = set()
    for name, f in public_callables():
        try:
            parameters = inspect.signature(f).parameters.values()
        except ValueError:  # of enumerations and the like
            continue
        unnamed |= {name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    # Further positional arguments are passed to the function.
    assert unnamed == {"quaddyn.campaigns.DaskExecutor.submit"}


def test_friction_has_one_default_and_is_printed() -> None:
    """Of ground, contacts and controllers; locomotion, which estimates friction, assumes two thirds of it."""
    named = (
        qd.Simulation, qd.MujocoPlant, qd.WholeBodyController, demo.run_squat_demo, demo.run_locomotion_demo, Contact,
        gravity_compensation, Trial,
    )  # fmt: skip
    makers = [each.__init__ if isinstance(each, type) else each for each in named]  # type: ignore[misc]
    defaults = {each.__qualname__: inspect.signature(each).parameters["friction"].default for each in makers}
    assert set(defaults.values()) == {NOMINAL_FRICTION}, defaults
    robot = qd.load("go2")
    for each in (qd.Simulation(robot), qd.MujocoPlant(robot), qd.WholeBodyController(robot)):
        assert f"friction={NOMINAL_FRICTION:g}" in repr(each)
    walking = qd.LocomotionController(robot)
    assert walking.friction == pytest.approx(2.0 / 3.0 * NOMINAL_FRICTION)
    assert f"friction={walking.friction:g}" in repr(walking)


def test_mistakes_at_the_doors_of_simulation_batches_raise_warnings_with_the_lane() -> None:
    robot, n = qd.load("go2"), 3
    q = np.tile(robot.q_home, (n, 1))
    degrees, sunk, high = q.copy(), q.copy(), q.copy()
    degrees[1, 7:], sunk[2, 2], high[1, 2] = np.degrees(q[1, 7:]), 0.0, 300.0

    def batch() -> qd.simulation.SimulationBatch:
        return qd.Simulation(robot, dt=2e-3).batch(n, threads=1)

    gains = {"stiffness": 20.0, "damping": 0.5}
    for reason, call in (
        (r"^q of lane 1: 36\.\S+ rad of FL_thigh_joint .* degrees", lambda b: b.reset(q=degrees)),
        (r"^q of lane 2: 36\.\S+ rad of", lambda b: b.reset([False, True, True], q=degrees[[0, 0, 1]])),
        (r"^q of lane 2: 'FL' is .* below the ground", lambda b: b.reset(q=sunk)),
        (r"^q of lane 1: the height of the base 300 m .* millimeters", lambda b: b.reset(q=high)),
        (r"^position of lane 1: 36\.\S+ rad .* degrees", lambda b: b.step(position=degrees[:, 7:], **gains)),
        (r"^position: 36\.\S+ rad .* degrees", lambda b: b.step(position=degrees[1, 7:], **gains)),
        (r"^tau: its entries are the present positions", lambda b: b.step(q[:, 7:])),
    ):
        lanes = batch()
        with pytest.warns(RuntimeWarning, match=reason) as caught:
            call(lanes)
        assert [each.filename for each in caught] == [__file__]
        call(lanes)  # once; warnings are errors in tests
    floor = qd.Simulation(robot, dt=2e-3, floor=0.3).batch(1)
    with pytest.warns(RuntimeWarning, match=r"^q of lane 0: .* below the ground"):
        floor.step(np.zeros(robot.nu))


def test_mistakes_at_the_doors_of_controller_batches_raise_warnings_with_the_lane() -> None:
    robot, n = qd.load("solo12"), 2
    com, home = qd.Dynamics(robot).center_of_mass(robot.q_home), np.tile(robot.q_home, (n, 1))
    degrees, v = home.copy(), np.zeros((n, robot.nv))
    degrees[1, 7:] = np.degrees(home[1, 7:])
    controllers = qd.WholeBodyController(robot).batch(n, threads=1)
    with pytest.warns(
        RuntimeWarning, match=r"^com.position of lane 1: the height 24\d\.?\d* m .* millimeters"
    ) as caught:
        controllers.references["com"].set(np.stack([com, 1e3 * com]))
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match=r"^posture.position of lane 1: .* degrees"):
        controllers.references["posture"].position = degrees
    controllers.gains["com"].set(stiffness=np.array([[20.0] * 3, [1e7] * 3]))
    with pytest.warns(RuntimeWarning, match=r"^lane 1: com: the stiffness 1e\+07 .* unstable"):
        controllers.compute(home, v)
    controllers.compute(home, v)
    for lanes in (
        qd.WholeBodyController(robot).batch(n, threads=1),
        qd.LocomotionController(robot).batch(n, threads=1),
    ):
        with pytest.warns(RuntimeWarning, match=r"^q of lane 1: .* degrees"):
            lanes.compute(degrees, v)


@pytest.mark.parametrize("kind", [qd.WholeBodyController, qd.LocomotionController])
def test_other_periods_and_conventions_raise_warnings_in_batches(kind: type) -> None:
    robot, n, dt = qd.load("solo12"), 2, 2e-3
    dyn, q, v = qd.Dynamics(robot), np.tile(robot.q_home, (n, 1)), np.zeros((n, robot.nv))
    q[:, 3:7], v[1, :2], v[:, 5] = [0.0, 0.0, np.sin(0.8), np.cos(0.8)], [0.3, 0.1], 0.2

    def move(dt_of_motion: float, *, w_first: bool = False, in_world: bool = False) -> None:
        """Moves lane 1 along and turns both, as plants would."""
        lanes, present = kind(robot, dt=dt).batch(n, threads=1), q.copy()
        for _ in range(800):
            given, given_v = present.copy(), v.copy()
            if in_world:
                R = dyn.frame_placement(present[0], robot.bodies[0].name).rotation
                given_v[:, :3] = v[:, :3] @ R.T
            if w_first:
                given[:, 3:7] = np.roll(given[:, 3:7], 1, axis=1)
            lanes.compute(given, given_v)
            present = np.array([robot.integrate(each, dt_of_motion * w) for each, w in zip(present, v, strict=True)])

    move(dt)  # warnings are errors in tests
    for reason, arguments in (
        (r"^lane 1: dt: .* made with dt=0.002 s, .* period of 0.004 s", {"dt_of_motion": 2.0 * dt}),
        (r"^lane 1: v: .* world axes", {"dt_of_motion": dt, "in_world": True}),
        (r"^lane 1: q: .* \(w, x, y, z\)", {"dt_of_motion": dt, "w_first": True}),
    ):
        with pytest.warns(RuntimeWarning, match=reason) as caught:
            move(**arguments)
        assert [each.filename for each in caught] == [__file__]
