"""Changes of a controller between ticks take effect or raise errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.kinematics import LegKinematics
from quaddyn.wbc import (
    ComTask,
    ForceTask,
    FramePositionTask,
    FrameTask,
    JointBounds,
    LinearConstraint,
    TorqueLimits,
    TorqueRate,
    VelocityController,
    WholeBodyController,
    default_constraints,
)
from quaddyn.wbc.constraints.joint_bounds import (
    JointBoundParameters,
    acceleration_bounds,
    is_joint_viable,
    max_bounded_acceleration,
)


def test_acceleration_bounds_of_a_joint_keep_its_range_and_velocity() -> None:
    """By the motion over the horizon; within the range, beyond its ends, and for speeds beyond the limit."""
    rng, h, large = np.random.default_rng(0), 0.02, np.full(1, 1e9)
    times = np.linspace(0.0, h, 101)
    for viable in (False, True) * 200:
        speed, recovery = float(rng.uniform(0.5, 3.0)), float(rng.choice([0.02, 0.1]))
        braking = np.full(1, rng.uniform(20.0, 100.0)) if viable else large
        ends = np.full(1, -1.0), np.full(1, 1.0)
        p = JointBoundParameters(h, recovery, viable, *ends, np.full(1, speed), large, braking)
        q, v = float(rng.uniform(-1.2, 1.2)), float(rng.uniform(-1.0, 1.0) * speed)
        low, high = acceleration_bounds(p, 0, q, v)
        for sign, bound in ((1.0, high), (-1.0, low)):
            distance, toward, a = 1.0 - sign * q, sign * v, sign * bound
            if (low == high and distance >= 0.0) or a <= -braking[0] * (1.0 - 1e-9):
                continue  # the ranges of both sides are empty, or the joint brakes as strongly as it can
            assert toward + h * a <= speed * (1.0 + 1e-9)
            if distance < 0.0:  # it returns at the speed that ends the violation in the given time, or at its limit
                assert toward + h * a == pytest.approx(max(distance / recovery, -speed), abs=1e-9)
            else:
                assert (toward * times + 0.5 * a * times**2).max() <= distance + 1e-9
        assert is_joint_viable(p, 0, q, 0.0) == (abs(q) <= 1.0) and not is_joint_viable(p, 0, q, 1.01 * speed)


def test_warmup_does_not_change_the_controller(go2: qd.Robot) -> None:
    """References and results of earlier ticks do not change, in this controller and in others."""
    constraints = [*default_constraints(go2, 1e-3), TorqueRate(go2, 100.0)]
    wbc = WholeBodyController(go2, constraints=constraints)
    wbc.tasks["com"].reference(np.array([3.0, 2.0, 0.3]))
    before = wbc.parameter_vector.copy()
    wbc.warmup(quiet=True)
    np.testing.assert_array_equal(wbc.parameter_vector, before)
    wbc.tasks["com"].clear_references()
    away = go2.q_home.copy()
    away[:3] += (3.0, 2.0, 0.0)
    state = qd.Dynamics(go2).update(away, np.zeros(go2.nv))
    command = wbc.compute(state)
    assert np.abs(command.acceleration).max() < 1e-9  # it holds the current position
    again = [wbc.compute(state).tau.copy()]
    wbc.warmup(quiet=True)
    again.append(wbc.compute(state).tau)
    np.testing.assert_allclose(again[1], again[0], atol=1e-9)


def at_home(robot: qd.Robot, dyn: qd.Dynamics | None = None) -> qd.State:
    return (dyn or qd.Dynamics(robot)).update(robot.q_home, np.zeros(robot.nv))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda wbc: wbc.tasks["torque"].limits.fill(np.nan),
        lambda wbc: wbc.tasks["joint bounds"].upper.__setitem__(3, np.nan),
        lambda wbc: wbc.parameter_vector.fill(np.nan),
    ],
)
def test_nan_written_in_place_is_rejected_by_name(spoil: Callable[[WholeBodyController], None], go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    wbc.compute(at_home(go2, dyn))
    good = wbc.parameter_vector.copy()
    spoil(wbc)
    with pytest.raises(qd.ArgumentError, match=r"(torque|joint bounds|contact): a gain, reference or limit is NaN"):
        wbc.compute(at_home(go2, dyn))
    wbc.parameter_vector[:] = good
    assert wbc.compute(at_home(go2, dyn)).status.ok


def test_values_are_validated_when_they_are_set(go2: qd.Robot) -> None:
    wbc = WholeBodyController(go2, constraints=[*default_constraints(go2, 1e-3), TorqueRate(go2, 9.0)])
    torque, bounds, com, forces = (wbc.tasks[name] for name in ("torque", "joint bounds", "com", "forces"))
    for thing, name, value in (
        (torque, "limits", -1.0),
        (torque, "limits", "none"),
        (wbc.tasks["torque rate"], "rate", -1.0),
        (bounds, "velocity", -1.0),
        (bounds, "horizon", 0.0),
        (bounds, "recovery", -1.0),
        (forces, "bandwidth", 0.0),
        (com, "weight", "heavy"),
        (wbc, "ramp_time", np.nan),
        (wbc, "ramp_time", -1.0),
    ):
        before = np.array(getattr(thing, name))
        raises(qd.ArgumentError, name, setattr, thing, name, value)
        np.testing.assert_array_equal(getattr(thing, name), before)
    for refused in (lambda: com.gains("stiff"), lambda: com.reference("there"), lambda: forces.reference([1.0])):
        raises(qd.ArgumentTypeError, "expected", refused)
    # Attributes with a fixed layout reject changes without effect.
    for thing, name, value in (
        (wbc, "dt", 0.01),
        (wbc, "robot", go2),
        (wbc.tasks["friction"], "faces", 8),
        (forces, "contacts", ()),
    ):
        raises(AttributeError, name, setattr, thing, name, value)
    with pytest.raises(TypeError, match="read-only"):
        wbc.tasks["hand"] = ComTask(go2)  # type: ignore[index]
    raises(qd.UnknownNameError, "FL", forces.reference, {"FLL": np.zeros(3)})
    with pytest.raises(qd.UnknownNameError, match="FL"):
        WholeBodyController(go2, tasks=[ForceTask(go2, contacts=("FLL",))])
    own = LinearConstraint("own", 0.0, 0.0, forces={"FLL": np.ones((1, 3))})
    raises(qd.UnknownNameError, "FL", WholeBodyController, go2, tasks=[own])
    own.set(0.0, 0.0, forces={"FL": np.ones((1, 3))})
    WholeBodyController(go2, tasks=[own])
    raises(qd.UnknownNameError, "FL", own.set, 0.0, 0.0, forces={"FLL": np.ones((1, 3))})


def test_elements_of_another_robot_are_rejected() -> None:
    robot, solo = qd.load("go2"), qd.load("solo12")
    for task in (ComTask(solo), ForceTask(solo), TorqueLimits(solo, name="t"), JointBounds(solo, 1e-3, name="b")):
        raises(qd.ArgumentError, f"'{task.name}' was made for robot 'solo", WholeBodyController, robot, tasks=[task])
    with pytest.raises(qd.ArgumentError, match="'com' was made for robot 'solo"):
        VelocityController(robot, tasks=[ComTask(solo)])
    assert WholeBodyController(robot, tasks=[ComTask(qd.load("go2"))]).compute(at_home(robot)).status.ok


def test_copied_task_is_independent(go2: qd.Robot) -> None:
    for copied in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        wbc = WholeBodyController(go2)
        for element in (wbc.tasks["com"], wbc.tasks["joint bounds"]):
            twin = copied(element)
            before = wbc.parameter_vector.copy()
            twin.block[:] = np.arange(len(twin.block))
            np.testing.assert_array_equal(wbc.parameter_vector, before)
        twin = copied(wbc.tasks["com"])
        twin.reference(np.array([1.0, 2.0, 3.0]))
        twin.gains(7.0)
        assert twin.block[-3:].tolist() == [1.0, 2.0, 3.0] and twin.block[4:7].tolist() == [7.0] * 3
        assert WholeBodyController(go2, tasks=[twin]).compute(at_home(go2)).status.outcome == "solved"
        assert wbc.compute(at_home(go2)).status.ok  # its own block is unchanged
    raises(TypeError, "cannot be copied or pickled", copy.deepcopy, wbc)


def test_a_copied_command_needs_no_controller(go2: qd.Robot) -> None:
    wbc = WholeBodyController(go2, friction=0.2)
    wbc.tasks["com"].reference(acceleration=np.array([5.0, 0.0, 0.0]))
    command = wbc.compute(at_home(go2))
    for copied in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        twin = copied(command)
        np.testing.assert_array_equal(twin.tau, command.tau)
        np.testing.assert_array_equal(twin.acceleration, command.acceleration)
        assert {k: f.tolist() for k, f in twin.forces.items()} == {k: f.tolist() for k, f in command.forces.items()}
        assert (twin.status, twin.margins, twin.explain()) == (command.status, command.margins, command.explain())
        twin.tau[:] = 0.0
        assert command.tau.any()


def test_contact_names_are_accepted_in_any_collection_and_must_be_strings(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    ik = VelocityController(go2)
    for names in (["FL", "RR"], {"FL", "RR"}, iter(("FL", "RR")), np.array(["FL", "RR"]), {"FL": 1, "RR": 2}):
        wbc.reset()
        assert set(wbc.compute(at_home(go2, dyn), names).forces) == {"FL", "RR"}
    for wrong in ([["FL"]], np.array([["FL"]]), [None], ["fl"], [{}]):
        for controller in (wbc, ik):
            with pytest.raises(qd.UnknownNameError, match="contact"):
                controller.compute(at_home(go2, dyn), wrong)


def test_frames_of_feet_are_rejected_with_the_name_of_the_foot() -> None:
    robot = qd.load("anymal_c")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for call in (
        lambda: qd.WholeBodyController(robot).compute(s, ["FR", "LF_FOOT"]),
        lambda: qd.LocomotionController(robot).compute(s, measured_contacts=("LF_FOOT",)),
        lambda: LegKinematics(robot, "LF_FOOT"),
    ):
        raises(qd.UnknownNameError, "unknown .* 'LF_FOOT'; this is the frame of 'FL' in the file", call)
    raises(qd.UnknownNameError, "unknown contact 'FX'; did you mean", qd.WholeBodyController(robot).compute, s, ["FX"])


def test_unvalidated_states_are_read_correctly_or_rejected(go2: qd.Robot) -> None:
    dyn, q, v = qd.Dynamics(go2, validate=False), go2.q_home, np.zeros(go2.nv)
    want = WholeBodyController(go2).compute(at_home(go2)).tau
    for one, other in (
        (q.astype(np.float32), v.astype(np.float32)),
        (q[:, None], v[:, None]),
        (np.repeat(q, 2)[::2], v),
    ):
        tau = WholeBodyController(go2).compute(dyn.update(one, other)).tau
        np.testing.assert_allclose(tau, want, atol=1e-5)
    with np.errstate(all="ignore"), pytest.raises(qd.ArgumentError, match="overflow"):
        WholeBodyController(go2).compute(dyn.update(q, np.full(go2.nv, 1e160)))


def test_continuous_joint_on_the_world_has_correct_posture_terms() -> None:
    """Its position has two entries in q, while the world has none; it takes the shorter way."""
    robot = qd.load("double_pendulum_continuous")
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(0)
    wbc = WholeBodyController(robot)
    for _ in range(20):
        q, goal = (pin.integrate(robot.model, robot.q_home, rng.uniform(-3.0, 3.0, 2)) for _ in range(2))
        wbc.tasks["posture"].reference(goal)
        s = dyn.update(q, np.zeros(2))
        wanted = wbc.tasks["posture"].desired(s)
        np.testing.assert_allclose(wbc.compute(s).acceleration, wanted, atol=1e-9 * np.abs(wanted).max())


class FaultyTask(FramePositionTask):
    """A custom task with an error."""

    def __init__(self, robot: qd.Robot, mistake: str) -> None:
        super().__init__(robot, robot.bodies[0].name, "lift", axes="z")
        self.mistake = mistake

    def jacobian(self, s: qd.State) -> np.ndarray:
        J = super().jacobian(s).copy()
        return J[:2] if self.mistake == "rows" else np.where(J == 0.0, np.nan, J) if self.mistake == "nan" else J

    def drift(self, s: qd.State) -> np.ndarray:
        return super().drift(s) + (np.inf if self.mistake == "inf" else 0.0)


def test_errors_of_custom_elements_are_named(go2: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    mistakes = (
        ("rows", r"shape \(3, "),
        ("nan", "acceleration: expected finite"),
        ("inf", "expected finite"),
        ("", ""),
    )
    for mistake, words in mistakes:
        wbc = WholeBodyController(go2, tasks=[FaultyTask(go2, mistake)])
        if not mistake:
            assert wbc.compute(at_home(go2, dyn)).status.ok
            continue
        with pytest.raises(qd.ArgumentError, match=f"lift.*{words}"):
            wbc.compute(at_home(go2, dyn))
    for options in ({"tasks": ComTask(go2)}, {"constraints": TorqueLimits(go2)}, {"damping": "much"}):
        raises(qd.ArgumentTypeError, f"{next(iter(options))}: expected", WholeBodyController, go2, **options)


def test_arguments_of_a_velocity_controller_are_validated(go2: qd.Robot) -> None:
    dyn, ik = qd.Dynamics(go2), VelocityController(go2)
    raises(qd.ArgumentTypeError, "state: expected", ik.compute, go2.q_home)
    raises(qd.ArgumentTypeError, "contacts: expected", VelocityController, go2, contacts=["FL"])
    unchecked = qd.Dynamics(go2, validate=False)
    with pytest.raises(qd.ArgumentError, match="state: expected finite"):
        ik.compute(unchecked.update(np.where(np.arange(go2.nq) == 9, np.nan, go2.q_home), np.zeros(go2.nv)))
    ik.tasks["com"].reference(np.array([0.1, 0.0, 0.3]))
    ik.tasks["com"].weight = 0.0
    state = at_home(go2, dyn)
    found = ik.compute(state)  # the residual of a task with zero weight is reported
    lacking = ik.tasks["com"].desired_velocity(state, gain=10.0) - state.com_jacobian @ found.v
    np.testing.assert_allclose(found.residuals["com"], lacking, atol=1e-12)
    assert np.abs(lacking).max() > 0.1


def test_pose_reference_sets_position_and_orientation(go2: qd.Robot) -> None:
    task, state = FrameTask(go2, "base"), at_home(go2)
    pose, turn = state.placement("base"), np.array([0.1, -0.2, 0.3])
    velocity, acceleration = np.arange(6.0), -np.arange(6.0)
    task.pose_reference(pose.translation + 0.05, pin.exp3(turn) @ pose.rotation, velocity, acceleration)
    np.testing.assert_allclose(task.error(state), [0.05, 0.05, 0.05, *turn], atol=1e-12)
    stiffness, damping = task.block[7:13], task.block[13:19]
    wanted = acceleration + damping * velocity + stiffness * task.error(state)
    np.testing.assert_allclose(task.desired(state), wanted, atol=1e-12)
    raises(qd.ArgumentError, "rotation matrix", task.pose_reference, pose.translation, np.ones((3, 3)))
    raises(qd.ArgumentError, "12 finite", task.pose_reference, pose.translation[:2], pose.rotation)


@pytest.mark.parametrize(("room", "v"), [(0.05, 1.0), (0.015, 1.0), (0.001, 1.0), (0.001, 2.0), (0.02, -1.0)])
def test_acceleration_bound_takes_a_joint_exactly_to_its_limit(room: float, v: float) -> None:
    """Also if the velocity reverses before the horizon: ``-v^2 / (2 room)``."""
    h = 0.02
    a = max_bounded_acceleration(room, v, h)
    times = [h, *([-v / a] if 0.0 < -v / a < h else [])]
    assert max(v * t + 0.5 * a * t * t for t in times) == pytest.approx(room, rel=1e-12)
