"""Joints that mimic others: the same mechanism in fewer coordinates, in every algorithm."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
import urdf_text
from raising import raises

import quaddyn as qd
from quaddyn.dynamics import joint_placements, kinematic_tree
from quaddyn.errors import ArgumentError, ModelError, UnknownNameError
from quaddyn.kernels import TickTerms

#: Joint: type, parent, child, axis, and what it mimics (joint, multiplier, offset).
JOINTS = {
    "before": ("revolute", "base", "a", "0 0 1", ("z_leader", 0.7, 0.2)),  # precedes its leader in the file
    "b": ("revolute", "a", "b", "0 1 0", None),
    "slide": ("prismatic", "b", "c", "0.6 0.8 0", ("b", -0.15, 0.05)),
    "chained": ("continuous", "c", "d", "1 0 0", ("slide", 2.5, -0.1)),
    "endless": ("continuous", "base", "e", "0 1 0", None),
    "z_leader": ("revolute", "e", "f", "1 1 0", None),
    "z_mirror": ("revolute", "f", "g", "1 0 0", ("z_leader", -1.0, 0.4)),
}


def machine(joints: dict[str, tuple] = JOINTS) -> str:
    """URDF of a tree whose joints mimic each other across branches."""
    rng = np.random.default_rng(3)
    parts = []
    for link in ("base", *(joint[2] for joint in joints.values())):
        mass, (x, y, z), com = rng.uniform(0.5, 2.0), rng.uniform(0.01, 0.02, 3), rng.uniform(-0.1, 0.1, 3)
        body = urdf_text.inertial(mass, " ".join(map(str, com)), f"{x} {y} {z}", "0.001 0.0005 -0.001")
        parts.append(urdf_text.link(link, body))
    for name, (kind, parent, child, axis, mimic) in joints.items():
        xyz, rpy = (" ".join(map(str, rng.uniform(-size, size, 3))) for size in (0.3, 1.0))
        follows = '<mimic joint="{}" multiplier="{}" offset="{}"/>'.format(*mimic) if mimic else ""
        more = f'<dynamics damping="{rng.uniform(0.1, 1)}" friction="{rng.uniform(0.1, 1)}"/>{follows}'
        parts.append(
            urdf_text.joint(
                name, parent, child, axis, xyz, rpy, kind=kind, ends="-3 3", effort=10, velocity=5, more=more
            )
        )
    return urdf_text.urdf(*parts, name="machine")


@pytest.fixture(scope="module", params=["fixed", "free"])
def robot(request: pytest.FixtureRequest) -> qd.Robot:
    return qd.load(machine(), root=request.param, armature=0.1)


@pytest.fixture(scope="module")
def state(robot: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return robot.random_configuration(4), rng.normal(size=robot.nv), rng.normal(size=robot.nv)


def test_coordinates_are_those_of_the_independent_joints(robot: qd.Robot) -> None:
    assert robot.joint_names == robot.actuated == ("b", "endless", "z_leader")
    assert robot.nv - {"fixed": 0, "free": 6}[robot.root] == 3
    assert robot.model.nv == robot.nv + 4 and robot.algorithms is not pin
    # The range of the joint and of its followers; that of z_mirror is narrower.
    at = robot.configuration_index("z_leader")
    assert (robot.lower[at], robot.upper[at]) == pytest.approx((-2.6, 3.0))
    assert robot.velocity_limits[0] == pytest.approx(5.0) and robot.effort_limits[2] == 10.0
    raises(UnknownNameError, r"mimics 'b'", robot.velocity_index, "chained")
    raises(UnknownNameError, r"mimics 'z_leader'", robot.configuration, joints={"z_leader": 0.1, "z_mirror": 0.3})
    raises(ArgumentError, r"'slide' mimics joint 'b'", qd.load, machine(), actuated=["slide"])


def test_other_kernels_and_tick_terms_agree_with_dynamics(robot: qd.Robot, state: tuple) -> None:
    q, v, a = state
    dyn = qd.Dynamics(robot)
    names = ("regressor", "rnea_derivatives", "frame_jacobian")
    fast = qd.compile(robot, names, frames=("d",))
    np.testing.assert_allclose(fast.regressor(q, v, a), dyn.regressor(q, v, a), atol=1e-11)
    for x, y in zip(fast.rnea_derivatives(q, v, a), dyn.rnea_derivatives(q, v, a), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)
    np.testing.assert_allclose(fast.frame_jacobian(q, "d"), dyn.frame_jacobian(q, "d"), atol=1e-12)
    terms, s = TickTerms(robot, ("d", "before"), momentum=True), dyn.update(q, v)
    found = terms.layout.views(terms(q, v, np.zeros(terms.size)))
    np.testing.assert_allclose(found["M"], s.M, atol=1e-12)
    np.testing.assert_allclose(found["h"], s.h, atol=1e-11)
    np.testing.assert_allclose(found["momentum_matrix"] @ v, s.centroidal_momentum, atol=1e-11)
    for name in terms.frames:
        J = np.zeros((6, robot.nv))
        J[:, terms.layout.frames[name].chain] = found[f"{name}.jacobian"]
        np.testing.assert_allclose(J, s.jacobian(name), atol=1e-12)
        np.testing.assert_allclose(found[f"{name}.drift"], s.drift(name), atol=1e-11)


def test_real_robot_files_load_with_independent_coordinates() -> None:
    arm = qd.load("panda")
    assert (arm.nv, arm.model.nv) == (8, 9) and dict(arm.coupling.mimics).keys() == {"panda_finger_joint2"}
    fingers = [qd.Dynamics(arm).frame_placement(arm.configuration(joints={"panda_finger_joint1": x}), f).translation
               for x in (0.0, 0.03) for f in ("panda_leftfinger", "panda_rightfinger")]  # fmt: skip
    assert np.linalg.norm(fingers[3] - fingers[1]) == pytest.approx(np.linalg.norm(fingers[2] - fingers[0]))
    assert qd.cross_check(arm, samples=1, tolerance=1e-10).passed


@pytest.mark.parametrize(
    ("mimic", "says"),
    [
        (("b", 0.0, 0.0), "multiplier=0"),
        (("b", 5e-324, 0.0), "a multiplier must be between 1e-06 and 1e\\+06"),
        (("b", -1e-7, 0.0), "a multiplier must be between"),
        (("z_mirror", 1.0, 0.0), "mimics itself"),
        (("missing_joint", 1.0, 0.0), "does not exist"),
        (("before", 1.0, 0.0), "in a circle"),
        (("bolted", 1.0, 0.0), "a fixed joint, which has no single coordinate"),
    ],
)
def test_invalid_mimic_joints_are_rejected(mimic: tuple, says: str) -> None:
    joints = dict(JOINTS)
    joints["bolted"] = ("fixed", "base", "h", "0 0 1", None)
    joints["before"] = (*JOINTS["before"][:4], ("z_mirror", 0.7, 0.2))
    joints["z_mirror"] = (*JOINTS["z_mirror"][:4], mimic)
    raises(ModelError, says, qd.load, machine(joints))
    assert qd.load(machine(joints), mimic=False).nv == 7


def test_contradictory_ranges_are_reported() -> None:
    text = machine().replace('<mimic joint="z_leader" multiplier="-1.0"', '<mimic joint="z_leader" multiplier="-1e-3"')
    robot = qd.load(text.replace('offset="0.4"', 'offset="4"'))
    assert any("no position of 'z_leader' within its range" in str(w) for w in robot.report.warnings)
    assert robot.upper[robot.configuration_index("z_leader")] == pytest.approx(3.0)


def test_identification_rejects_mimic_joints_by_name(robot: qd.Robot) -> None:
    from quaddyn.identification import base_parameters

    raises(ModelError, r"'before' of 'machine' mimics 'z_leader'", base_parameters, robot)


def test_contact_impulse_reaches_the_joints_through_the_coupled_jacobian(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    dyn = qd.Dynamics(robot)
    smooth = qd.load(machine(), root=robot.root, armature=0.1, damping=0.0, friction=0.0)
    low = dyn.frame_placement(q, "d").translation[2] - 0.05
    J = dyn.frame_jacobian(q, "d")
    v = v - np.linalg.pinv(J[:3]) @ (J[:3] @ v + np.array([0.1, 0.0, 1.0]))
    sphere = {"tip": qd.simulation.ContactSphere("d", 0.05)}
    plant = qd.Simulation(smooth, dt=1e-3, floor=low - 1e-5, spheres=sphere, integrator="euler")
    plant.reset(q, v)
    plant.step(np.zeros(3))
    (touching,) = plant.contacts
    lever = pin.skew(np.array([0.0, 0.0, -0.05]))
    force = (J[:3] - lever @ J[3:]).T @ touching.force
    np.testing.assert_allclose(plant.v - v, 1e-3 * dyn.aba(q, v, force), atol=1e-10)


def test_embedded_plant_adds_the_offset_of_a_joint_that_follows_with_the_same_speed() -> None:
    robot = qd.load(machine(JOINTS | {"z_mirror": (*JOINTS["z_mirror"][:4], ("z_leader", 1.0, 0.4))}))
    q, tree = (
        robot.random_configuration(2),
        kinematic_tree.make_kinematic_tree(robot.model, robot.armature, robot.coupling),
    )
    joints = joint_placements.make_placed_joints(tree)
    joint_placements.place_joints(tree, q, joints)
    place = qd.Dynamics(robot).frame_placement(q, "z_mirror")
    np.testing.assert_allclose(
        joints.poses[robot.model.getJointId("z_mirror")][:9], place.rotation.T.ravel(), atol=1e-12
    )


def test_motion_is_the_same_in_both_plants(robot: qd.Robot, state: tuple) -> None:
    plants = [kind(robot, dt=1e-3, floor=-np.inf) for kind in (qd.Simulation, qd.MujocoPlant)]
    for plant in plants:
        plant.reset(*state[:2])
        for _ in range(50):
            plant.step(np.array([1.0, -2.0, 0.5]))
    assert np.abs(robot.difference(plants[0].q, plants[1].q)).max() < 2e-3
    assert np.abs(plants[0].q - state[0]).max() > 0.02
