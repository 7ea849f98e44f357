"""The MuJoCo plant has the same inertia, bias, motion and forces in Pinocchio's coordinates."""

from __future__ import annotations

import sys

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from slow_parameters import others_slow
from test_simulation import Stand

import quaddyn as qd
from quaddyn.simulation.mujoco_plant import MujocoPlant

mujoco = pytest.importorskip("mujoco")

G = 9.81

# Not in the catalogue: a free body, floating and planar joints inside, a dummy body without mass, slanted axes.
BODY = """<link name="{0}"><inertial><origin xyz="0.02 -0.01 0.03" rpy="0.3 0.2 -0.5"/><mass value="{1}"/>
<inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="-0.002" iyz="0.003"/></inertial></link>"""
JOINT = """<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/>
<origin xyz="0.1 -0.2 0.3" rpy="0.4 -0.3 1"/>
<axis xyz="{4}"/><limit lower="-1" upper="1" effort="50" velocity="9"/></joint>"""
ODD = (
    '<robot name="odd">'
    + BODY.format("base", 3)
    + BODY.format("puck", 1)
    + BODY.format("ghost", 2)
    + '<link name="cross"/>'
    + BODY.format("wheel", 1)
    + BODY.format("rail", 0.5)
    + JOINT.format("glide", "planar", "base", "puck", "0.6 0 0.8")
    + JOINT.format("drift", "floating", "puck", "ghost", "1 0 0")
    + JOINT.format("first", "revolute", "base", "cross", "1 0 0")
    + JOINT.format("second", "continuous", "cross", "wheel", "0 0.6 0.8")
    + JOINT.format("third", "prismatic", "wheel", "rail", "0.6 0.8 0")
    + "</robot>"
)


def load_robot_of_all_joint_types(root: str) -> qd.Robot:
    return qd.load(ODD, root=root, allow_massless=True)


def mujoco_mass_matrix_and_bias(plant: MujocoPlant, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M and the bias force of MuJoCo, transformed to Pinocchio's velocity by differentiating the coordinate map."""
    robot, model, data = plant.robot, plant.model, mujoco.MjData(plant.model)

    def qvel(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        plant.reset(q, v)
        return plant.data.qvel.copy()

    T = np.stack([qvel(q, e) for e in np.eye(robot.nv)], axis=1)
    step = 1e-3
    ways = {t: qvel(pin.integrate(robot.model, q, t * v), v) for t in (-2 * step, -step, step, 2 * step)}
    rate = (8.0 * (ways[step] - ways[-step]) - (ways[2 * step] - ways[-2 * step])) / (12.0 * step)
    plant.reset(q, v)
    data.qpos[:], data.qvel[:] = plant.data.qpos, plant.data.qvel
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    for row, e in zip(M, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, row, e)
    return T.T @ M @ T, T.T @ (data.qfrc_bias + M @ rate)


def acceleration(plant: MujocoPlant, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Acceleration during the step from (q, v), for a free root; it is constant in world axes in MuJoCo."""
    R, R_next = (pin.XYZQUATToSE3(x[:7]).rotation for x in (q, plant.q))
    a = (plant.v - v) / plant.dt
    a[:3] = R.T @ (R_next @ plant.v[:3] - R @ v[:3]) / plant.dt - np.cross(v[3:6], v[:3])
    return a, R, R_next


def state(robot: qd.Robot, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return pin.integrate(robot.model, robot.q_home, rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


#: Legs of two and three joints, with an arm and with wheels; a biped, an arm, unbounded joints, joints of all kinds.
QUICK = {"go2", "solo8", "anymal_b_kinova", "centauro", "bolt", "ur5", "double_pendulum_continuous", "odd"}


@pytest.mark.parametrize("name", others_slow([*qd.CATALOGUE, "odd"], QUICK))
def test_mass_matrix_and_bias_equal_pinocchio(name: str) -> None:
    robot = load_robot_of_all_joint_types("free") if name == "odd" else qd.load(name, mimic=False)
    plant, dyn = MujocoPlant(robot, floor=-np.inf), qd.Dynamics(robot)
    assert plant.model.body_mass.sum() == pytest.approx(robot.mass, rel=1e-12)
    for seed in range(2):
        q, v = state(robot, seed)
        M, h = mujoco_mass_matrix_and_bias(plant, q, v)
        np.testing.assert_allclose(M, dyn.crba(q), atol=1e-11 * np.abs(M).max())
        np.testing.assert_allclose(h, dyn.nle(q, v), atol=1e-9 * np.abs(h).max())


@pytest.mark.parametrize("root", ["free", "planar", "fixed"])
def test_state_conversion_to_mujoco_and_back_is_exact(root: str) -> None:
    robot = load_robot_of_all_joint_types(root) if root != "planar" else qd.load("solo12", root=root)
    plant = MujocoPlant(robot)
    q, v = state(robot, 3)
    plant.reset(q, v)
    back_q, back_v = np.empty(robot.nq), np.empty(robot.nv)
    plant._coordinates.from_mujoco(plant.data.qpos, plant.data.qvel, back_q, back_v)
    np.testing.assert_allclose(pin.difference(robot.model, q, back_q), 0.0, atol=1e-14)
    np.testing.assert_allclose(back_v, v, atol=1e-14)


def test_tumbling_follows_pinocchios_forward_dynamics() -> None:
    """Free flight under torques: the velocity of the base as MuJoCo integrates it, linear part in world axes."""
    robot = qd.load("anymal_c", armature=0.05, damping=0.3)
    plant, dyn, rng = MujocoPlant(robot, floor=-np.inf, joint_stops=False), qd.Dynamics(robot), np.random.default_rng(5)
    q, v = state(robot, 5)
    v[3:6] = 2.0, -3.0, 1.0
    plant.reset(q, v)
    for _ in range(200):
        q, v = plant.q, plant.v
        tau = rng.uniform(-20.0, 20.0, robot.nu)
        plant.step(tau)
        a, R, R_next = acceleration(plant, q, v)  # joint damping is implicit
        np.testing.assert_allclose(
            dyn.rnea(q, v, a), robot.generalized_torques(tau) - robot.damping * plant.v, atol=1e-8
        )
        world = q[:3] + plant.dt * R_next @ plant.v[:3]
        np.testing.assert_allclose(plant.q[:3], world, atol=1e-13)
        np.testing.assert_allclose(R_next, R @ pin.exp3(plant.dt * plant.v[3:6]), atol=1e-13)
        np.testing.assert_allclose(plant.q[7:], q[7:] + plant.dt * plant.v[6:], atol=1e-13)


def test_foot_forces_equal_the_rate_of_change_of_momentum(solo12: qd.Robot) -> None:
    plant, dyn, stand = MujocoPlant(solo12, friction=0.4), qd.Dynamics(solo12), Stand(solo12)
    v = np.zeros(solo12.nv)
    v[:3] = 0.5, -0.3, -0.2
    plant.reset(None, v)
    touched = 0
    for _ in range(100):
        q, v = plant.q, plant.v
        plant.step(stand(plant))
        total = sum(plant.contact_forces.values()) - np.array([0.0, 0.0, solo12.mass * G])
        a, _, _ = acceleration(plant, q, v)
        drift = dyn.update(q, v).com_drift
        np.testing.assert_allclose(solo12.mass * (dyn.com_jacobian(q) @ a + drift), total, rtol=1e-5, atol=1e-3)
        touched += plant.status == "solved"
        for force in plant.contact_forces.values():
            assert np.hypot(*force[:2]) <= 0.4 * force[2] + 1e-6
    assert touched > 50


def test_joint_friction_holds_a_hanging_leg() -> None:
    way = []
    for friction in (0.0, 100.0):
        robot = qd.load("two_link_leg", friction=friction)
        plant = MujocoPlant(robot)
        for _ in range(100):
            plant.step(np.full(robot.nu, 5.0))
        way.append(np.abs(plant.q - robot.q_home).max())
    assert way[0] > 0.01 and way[1] < 0.01 * way[0]


def test_invalid_options_raise_errors_that_name_them(go2: qd.Robot) -> None:
    for options in (
        {"dt": 0.0},
        {"friction": -0.1},
        {"friction": "x"},
        {"floor": np.nan},
        {"time_constant": 0.0},
        {"impratio": np.inf},
        {"integrator": "magic"},
    ):
        raises(qd.ArgumentError, next(iter(options)), MujocoPlant, go2, **options)
    raises(qd.ArgumentError, "tau", MujocoPlant(go2).step, np.zeros(11))


def test_without_mujoco_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    raises(qd.QuaddynError, r"quaddyn\[mujoco\]", qd.MujocoPlant, qd.load("two_link_leg"))
