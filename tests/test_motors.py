"""Motors: torques and speeds through gears, joints that mimic others, and four-bar linkages."""

from __future__ import annotations

import numpy as np
import pytest
from loop_robots import joint, knee, knee_leg, link, planar

import quaddyn as qd
from quaddyn.errors import ArgumentError, ModelError
from quaddyn.wbc import MotorLimits, PostureTask


def transmission(name: str, reduction: str = "", place: str = "actuator") -> str:
    gear = f"<mechanicalReduction>{reduction}</mechanicalReduction>" if reduction else ""
    parts = {"joint": f'<joint name="{name}">{gear * (place == "joint")}</joint>'}
    parts["actuator"] = f'<actuator name="m">{gear * (place == "actuator")}</actuator>'
    return f'<transmission name="t_{name}"><type>x</type>{parts["joint"]}{parts["actuator"]}</transmission>'


def with_tags(text: str, *tags: str) -> str:
    return text.replace("</robot>", "".join(tags) + "</robot>")


def test_without_transmissions_motors_are_the_actuated_joints() -> None:
    leg = qd.load(knee_leg())
    tau, v = np.array([1.0, -2.0, 3.0]), np.array([0.1, 0.2, 0.3])
    assert leg.motors.joints == leg.actuated
    np.testing.assert_allclose(leg.motors.to_motors(leg.q_home, tau), tau)
    np.testing.assert_allclose(leg.motors.speeds(leg.q_home, v), v)


def test_motor_torque_is_mapped_through_a_four_bar_knee_and_gears() -> None:
    tags = transmission("knee_motor", "-9.5"), transmission("hip_pitch", " 6 ", "joint"), transmission("abduction")
    text = knee_leg().replace(knee(), knee(motor=0.0, torque=40.0))  # the knee is the independent joint
    leg = qd.load(with_tags(text, *tags))
    motors, q = leg.motors, leg.configuration(joints={"knee": 0.2, "hip_pitch": 0.1})
    assert leg.actuated[2] == "knee" and motors.joints == ("abduction", "hip_pitch", "knee_motor")
    assert motors.reductions.tolist() == [1.0, 6.0, -9.5]
    rng = np.random.default_rng(0)
    tau, v = rng.normal(size=3), rng.normal(size=3)
    at = leg.motors.to_motors(q, tau)
    np.testing.assert_allclose(motors.to_joints(q, at), tau, atol=1e-12)
    assert at @ motors.speeds(q, v) == pytest.approx(tau @ v)  # power
    step = 1e-6
    crank = leg.model.joints[leg.model.getJointId("knee_motor")].idx_q
    ends = [leg.coupling.configuration(leg.integrate(q, side * step * v))[crank] for side in (-1.0, 1.0)]
    assert motors.speeds(q, v)[2] == pytest.approx(-9.5 * (ends[1] - ends[0]) / (2 * step), rel=1e-6)
    assert "knee_motor 1:-9.5" in repr(motors)
    with pytest.raises(ArgumentError, match="loop 'knee_loop' does not close"):
        motors.to_joints(leg.configuration(joints={"knee": -1.5}), at)


def mimic_chain() -> str:
    """Two joints, the second of which mimics the first by a belt, and whose motor is at the second."""
    second = joint("second", "a", "b", "0 0 -0.2", "0 1 0", 5.0).replace(
        "</joint>", '<mimic joint="first" multiplier="-2"/></joint>'
    )
    first = joint("first", "base", "a", "0 0 0", "0 1 0", 5.0)
    links = "".join(link(name, 1.0, "0 0 -0.1") for name in ("base", "a", "b"))
    return with_tags(f'<robot name="belt">{links}{first}{second}</robot>', transmission("second", "3"))


def test_motor_at_a_mimic_joint_drives_the_independent_joint() -> None:
    motors = qd.load(mimic_chain(), actuated=["first"]).motors
    assert motors.joints == ("second",)
    np.testing.assert_allclose(motors.to_joints(np.zeros(1), np.ones(1)), [-6.0])
    np.testing.assert_allclose(motors.speeds(np.zeros(1), np.ones(1)), [-6.0])


def test_motor_that_also_moves_an_unactuated_joint_is_rejected() -> None:
    legs = qd.load(with_tags(planar(1, 5, (2, 3)), transmission("pin2")), actuated=["swing", "pin0"])
    with pytest.raises(ModelError, match="motor of joint 'pin2' also moves joint 'pin1', which is not actuated"):
        _ = legs.motors


def test_invalid_transmissions_are_ignored() -> None:
    tags = transmission("hip_pitch", "fast"), transmission("abduction", "2"), transmission("abduction", "3")
    leg = qd.load(with_tags(knee_leg(), *tags, "<transmission><joint/></transmission>", "<transmission/>"))
    assert leg.motors.reductions.tolist() == [2.0, 1.0, 1.0]
    assert "'fast' is not a number other than 0" in str(leg.report)
    assert "another transmission already defines the reduction of joint 'abduction'" in str(leg.report)


def two_joint_transmission(kind: str, joints: tuple[str, str], numbers: dict[str, float], roles: bool = True) -> str:
    """A transmission of two joints and two motors, those of the second role first."""
    parts = []
    for part, name in (("joint", joints[1]), ("joint", joints[0]), ("actuator", "b"), ("actuator", "a")):
        role = f"{part}{1 if name in (joints[0], 'a') else 2}"
        gear = f"<mechanicalReduction>{numbers[role]}</mechanicalReduction>" if role in numbers else ""
        parts.append(f'<{part} name="{name}">{f"<role>{role}</role>" * roles}{gear}</{part}>')
    return f'<transmission name="t"><type>transmission_interface/{kind}</type>{"".join(parts)}</transmission>'


GEARS = {"joint1": 2.0, "joint2": -3.0, "actuator1": 5.0}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("DifferentialTransmission", [[10.0, -15.0], [2.0, 3.0]]),
        ("FourBarLinkageTransmission", [[10.0, 0.0], [1.0, -3.0]]),
    ],
)
def test_transmissions_of_two_joints_couple_two_motors(kind: str, wanted: list[list[float]]) -> None:
    leg = qd.load(with_tags(knee_leg(), two_joint_transmission(kind, ("abduction", "hip_pitch"), GEARS)))
    motors, rng = leg.motors, np.random.default_rng(0)
    ratios = np.eye(3)
    ratios[:2, :2] = wanted
    np.testing.assert_allclose(motors.ratios, ratios)
    assert motors.joints == leg.actuated
    tau, v = rng.normal(size=3), rng.normal(size=3)
    np.testing.assert_allclose(motors.speeds(leg.q_home, v), ratios @ v)
    there = motors.to_motors(leg.q_home, tau)
    assert there @ motors.speeds(leg.q_home, v) == pytest.approx(tau @ v)  # power
    np.testing.assert_allclose(motors.to_joints(leg.q_home, there), tau)
    assert "hip_pitch 1:" in repr(motors) and f"{wanted[1][0]:+g} abduction" in repr(motors)


def test_transmission_without_roles_is_ignored_and_with_unactuated_joint_rejected() -> None:
    kind, joints = "FourBarLinkageTransmission", ("abduction", "hip_pitch")
    left_out = qd.load(with_tags(knee_leg(), two_joint_transmission(kind, joints, GEARS, roles=False)))
    assert "do not have the roles" in str(left_out.report)
    np.testing.assert_allclose(left_out.motors.ratios, np.eye(3))
    text = with_tags(knee_leg(), two_joint_transmission(kind, joints, GEARS), transmission("hip_pitch", "7"))
    twice = qd.load(text)
    assert "another transmission already defines the reduction of joint 'hip_pitch'" in str(twice.report)
    assert twice.motors.ratios[1, 1] == -3.0
    with pytest.raises(
        ModelError, match="transmission of joint 'abduction' also moves joint 'hip_pitch', which is not actuated"
    ):
        _ = qd.load(text, actuated=[name for name in twice.actuated if name != "hip_pitch"]).motors


# -- limits of the motors ------------------------------------------------------------------------------------------
def legs() -> dict[str, str]:
    """One leg with a four-bar knee behind a gear, and one whose hip and knee are driven by two coupled motors."""
    tags = transmission("knee_motor", "-9.5"), transmission("hip_pitch", "6")
    four_bar = with_tags(knee_leg().replace(knee(), knee(motor=0.0, torque=40.0)), *tags)
    belt = two_joint_transmission(
        "FourBarLinkageTransmission", ("abduction", "hip_pitch"), {"joint1": 6.0, "actuator2": 6.0}
    )
    return {"four-bar": four_bar, "belt": with_tags(knee_leg(), belt)}


@pytest.mark.parametrize("kind", ["four-bar", "belt"])
def test_torques_stay_within_the_motor_torque_speed_limits(kind: str) -> None:
    leg = qd.load(legs()[kind], root="fixed")
    motors, dyn, rng = leg.motors, qd.Dynamics(leg), np.random.default_rng(1)
    limit = MotorLimits(leg, 3.0, no_load_speed=20.0, corner_speed=8.0)
    free = qd.WholeBodyController(leg, constraints=[], tasks=[[PostureTask(leg, stiffness=4000.0)]])
    kept = qd.WholeBodyController(leg, constraints=[limit], tasks=[[PostureTask(leg, stiffness=4000.0)]])
    broken, held = 0, 0
    for _ in range(40):
        q, v = leg.integrate(leg.q_home, 0.1 * rng.normal(size=leg.nv)), 2.0 * rng.normal(size=leg.nv)
        s = dyn.update(q, v)
        w = motors.speeds(q, v)
        share = np.clip((20.0 - np.abs(w)) / 12.0, 0.0, 1.0)  # of driving torques; braking torques are not reduced
        found = {}
        for name, controller in (("free", free), ("kept", kept)):
            given = motors.to_motors(q, controller.compute(s).tau)
            most = np.where(given * w > 0.0, share, 1.0) * 3.0
            found[name] = (np.abs(given) - most).max()
        command = kept.compute(s)
        assert command.ok and found["kept"] < 1e-6, command.explain()
        broken += found["free"] > 1e-3
        held += "motor of " in command.explain()
        [rows], B = command.details.problem.levels[0], np.transpose([motors.to_motors(q, e) for e in np.eye(leg.nu)])
        np.testing.assert_allclose(np.diff(rows.weights * np.linalg.norm(B, axis=1)), 0.0, atol=1e-9)  # joint torques
    assert broken > 10 and held > 10


def test_motor_limits_are_continuous_and_reject_invalid_values() -> None:
    leg = qd.load(legs()["four-bar"], root="fixed")
    limit = MotorLimits(leg, 3.0, no_load_speed=20.0, corner_speed=8.0)
    speeds = np.linspace(-25.0, 25.0, 2001)
    low, high = np.array([limit.bounds(np.full(3, w)) for w in speeds.tolist()]).transpose(1, 0, 2)
    assert np.abs(np.diff(low, axis=0)).max() < 0.01 and np.abs(np.diff(high, axis=0)).max() < 0.01
    assert (low[0] == 0.0).all() and (high[0] == 3.0).all() and (high[-1] == 0.0).all() and (low[-1] == -3.0).all()
    low, high = MotorLimits(leg, 3.0).bounds(np.full(3, 1e9))
    assert (low == -3.0).all() and (high == 3.0).all()
    for wrong in ({"effort": -1.0}, {"effort": np.ones(2)}, {"corner_speed": 30.0}, {"no_load_speed": -1.0}):
        with pytest.raises(ArgumentError):
            MotorLimits(leg, **({"effort": 3.0, "no_load_speed": 20.0} | wrong))
