"""Conventions of other libraries are accepted or rejected by name."""

from __future__ import annotations

import importlib
import inspect
import math
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn import demo
from quaddyn.campaigns.trial import Trial
from quaddyn.contact import NOMINAL_FRICTION, Contact
from quaddyn.control import JointPD, gravity_compensation
from quaddyn.kinematics import CollisionModel
from quaddyn.robot.configuration import rotation_matrix

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
