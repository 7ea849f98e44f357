"""Closed loops beside joints that mimic others: one map from the independent joints to all of them."""

from __future__ import annotations

import numpy as np
import pytest
from loop_robots import joint, knee, link
from raising import raises

import quaddyn as qd
from quaddyn.errors import ModelError
from quaddyn.wbc import PostureTask, TorqueLimits


def mimic(text: str, leader: str, multiplier: float, offset: float = 0.0) -> str:
    """Adds a mimic tag to the text of a joint."""
    tag = f'<mimic joint="{leader}" multiplier="{multiplier}" offset="{offset}"/></joint>'
    return text.replace("</joint>", tag)


def machine(kind: str) -> str:
    """A leg with a four-bar knee.

    "gripper": two fingers on the base, one of which mimics the other; "belt": the knee's motor mimics the hip, the one
    on the loop and the other before it; "toe": a joint that mimics the knee, which the loop moves, and one that mimics
    the toe.
    """
    leg = knee()
    if kind == "belt":
        motor = joint("knee_motor", "thigh", "crank", "0 0.02 0", "0 1 0")
        assert motor in leg
        leg = leg.replace(motor, mimic(motor, "hip_pitch", -0.5, 0.1))
    parts = [
        link("base", 3.0, "0 0 0.02", "0.02 0.03 0.03"),
        link("hip", 0.5, "0.01 0 0"),
        joint("abduction", "base", "hip", "0.1 0.05 0", "1 0 0", ends="-0.8 0.8"),
        leg,
    ]
    ends = ("base", "finger_a", "finger_b") if kind == "gripper" else ("shank", "toe", "nail")
    if kind != "belt":
        parts += [
            link(ends[1], 0.2, "0.02 0.01 0.03"),
            link(ends[2], 0.1, "0.01 -0.01 0.02"),
            joint(ends[1] + "_joint", ends[0], ends[1], "0.02 0.03 -0.19", "0 0.6 0.8"),
            mimic(joint(ends[2] + "_joint", ends[0 if kind == "gripper" else 1], ends[2], "0.01 0 0.02", "1 0 0"),
                  ends[1] + "_joint", -0.7, 0.05),
        ]  # fmt: skip
    if kind == "toe":
        parts[-2] = mimic(parts[-2], "knee", -0.5, 0.02)
    return f'<robot name="{kind}">{"".join(parts)}</robot>'


@pytest.fixture(scope="module", params=["gripper", "belt", "toe", "floating gripper"])
def robot(request: pytest.FixtureRequest) -> qd.Robot:
    return qd.load(machine(request.param.split()[-1]), root="free" if "floating" in request.param else "fixed")


def coupling_errors(robot: qd.Robot, q: np.ndarray) -> list[float]:
    """Residuals of loops [m] and of mimic joints [rad], by the robot's kinematics."""
    dyn, at, out = qd.Dynamics(robot), robot.coupling.at(q).q, []
    for each in robot.loops:
        a, b = dyn.frame_placement(q, each.link_a), dyn.frame_placement(q, each.link_b)
        out.append(float(np.linalg.norm(a.apply(each.placement_a.translation) - b.apply(each.placement_b.translation))))
    place = {name: robot.model.joints[robot.model.getJointId(name)].idx_q for name in robot.tree.joints_by_name}
    for each in robot.tree.joints:
        if each.mimic is not None:
            leader = at[place[each.mimic.joint]]
            out.append(abs(at[place[each.name]] - each.mimic.multiplier * leader - each.mimic.offset))
    return out


def test_dependent_joints_satisfy_loops_and_mimics_everywhere(robot: qd.Robot) -> None:
    rng = np.random.default_rng(2)
    assert len(robot.loops) == 1 and len(coupling_errors(robot, robot.q_home)) in (2, 3)
    assert max(max(coupling_errors(robot, robot.random_configuration(rng))) for _ in range(100)) <= 1e-13
    freedom = {"gripper": 4, "belt": 2, "toe": 3}[robot.name] + (6 if robot.root == "free" else 0)
    assert robot.nv == freedom


def test_followers_name_their_loop_or_mimic_tag(robot: qd.Robot) -> None:
    assert "loop 'knee_loop'" in robot.coupling.followers["rod_pin"]
    assert {"knee_motor", "hip_pitch"} & set(robot.joint_names)
    if robot.name == "gripper":
        assert robot.coupling.followers["finger_b_joint"] == "is moved by <mimic joint='finger_a_joint'>"


def test_swinging_motion_is_the_same_in_both_plants() -> None:
    pytest.importorskip("mujoco")
    robot = qd.load(machine("toe"), root="fixed")
    q, ways = [], []
    start = np.array(robot.q_home)
    for Plant, dt in ((qd.Simulation, 1e-4), (qd.MujocoPlant, 1e-4)):
        sim = Plant(robot, dt=dt)
        sim.reset(start, np.zeros(robot.nv))
        for _ in range(1500):
            sim.step(np.zeros(robot.nu))
        q.append(sim.q.copy())
        ways.append(np.abs(sim.q - start).max())
        assert max(coupling_errors(robot, sim.q)) <= 1e-12
    assert min(ways) > 0.02
    np.testing.assert_allclose(q[0], q[1], atol=1e-6)


def test_whole_body_control_moves_dependent_joints() -> None:
    robot = qd.load(machine("belt"), root="fixed")
    wbc = qd.WholeBodyController(
        robot, constraints=[TorqueLimits(robot)], tasks=[[PostureTask(robot, stiffness=100.0)]], contacts=[], dt=1e-3
    )
    dyn, q, v = qd.Dynamics(robot), np.array(robot.q_home), np.array([0.3, -0.2])
    target = q + np.array([0.1, -0.1])
    wbc.tasks["posture"].reference(target)
    for _ in range(250):
        command = wbc.compute(dyn.update(q, v))
        assert command.ok
        a = dyn.aba(q, v, robot.generalized_torques(command.tau))
        np.testing.assert_allclose(a, command.acceleration, atol=1e-9)
        q, v = robot.integrate(q, 1e-3 * v), v + 1e-3 * a
    np.testing.assert_allclose(q, target, atol=5e-2)


def test_kernels_reject_loops_combined_with_mimic_joints(robot: qd.Robot) -> None:
    raises(ModelError, r"closed loops and joints that mimic others", qd.compile, robot, ("rnea",))
    assert qd.load(machine("gripper"), root="fixed", loops=False).loops == ()
    assert qd.load(machine("gripper"), root="fixed", mimic=False).nv == 5


def test_loop_locked_by_a_mimic_joint_is_rejected() -> None:
    text = machine("belt").replace('<joint name="hip_pitch" type="revolute">', '<joint name="hip_pitch" type="fixed">')
    raises(ModelError, "hip_pitch", qd.load, text, root="fixed")
    lever = machine("gripper").replace("</robot>", "")
    pin = joint("rod_pin", "crank", "rod", "-0.04 0 0", "0 1 0", 0.0, "-3 3")
    assert pin in lever
    with pytest.raises(ModelError, match="knee_loop"):
        qd.load(lever.replace(pin, mimic(pin, "knee_motor", 1.0)) + "</robot>", root="fixed")
