"""Standing up, standing, walking, trotting, recovering and falling, in both plants, without tuning for a robot."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from slow_parameters import NIGHT, others_slow
from urdf_editing import Urdf, dog, leg_names

import quaddyn as qd
from quaddyn.control import JointPD
from quaddyn.kinematics import LegKinematics
from quaddyn.locomotion import LocomotionCommand, LocomotionController, LocomotionMode, Morphology
from quaddyn.locomotion.gait import GAITS, Gait
from quaddyn.locomotion.ground_plane import GroundPlane, advance_slope
from quaddyn.locomotion.morphology import FEET
from quaddyn.locomotion.path_reference import PathReference, compute_world_velocity
from quaddyn.locomotion.steering import (
    SteeringState,
    allocate_steering_state,
    is_blocked,
    limit_reference_lead,
    set_conditions,
    update_speed_averages,
    update_steering,
)
from quaddyn.locomotion.trunk_controller import compute_friction_fraction, make_tilt_rotation
from quaddyn.locomotion.velocity_limits import (
    COMMAND_RESERVE,
    LegPoseSolver,
    VelocityLimits,
    clamp_velocity,
)
from quaddyn.locomotion.walking import is_obstructed
from quaddyn.robot.configuration import rotate_configuration
from quaddyn.simulation import MujocoPlant, Plant, Simulation
from quaddyn.simulation.terrain import Plane
from quaddyn.wbc import PostureTask

DT = 2e-3 if NIGHT else 4e-3  # [s]


@functools.cache
def robot_of(name: str) -> qd.Robot:
    return qd.load(name)


@functools.cache
def unused_go2_controller() -> LocomotionController:
    """A controller of Go2 for tests that do not modify it; it never computes a command."""
    return LocomotionController(robot_of("go2"), dt=DT)


def drive(
    plant: Plant,
    controller: LocomotionController,
    seconds: float,
    velocity: object = (0.0, 0.0, 0.0),
    *,
    feel: bool = False,
) -> list[LocomotionCommand]:
    """Runs the controller on the plant and returns the commands."""
    dynamics, out = qd.Dynamics(plant.robot), []
    for _ in range(round(seconds / DT)):
        touching = None
        if feel:
            load = 0.02 * controller.morphology.mass * controller.morphology.gravity
            touching = [foot for foot in plant.robot.feet if plant.contact_forces[foot][2] > load]
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state, velocity, measured_contacts=touching)  # type: ignore[arg-type]
        assert np.isfinite(command.tau).all()
        plant.step(command.tau)
        out.append(command)
    return out


def com_and_heading(plant: Plant) -> tuple[np.ndarray, float]:
    """Returns the center of mass [m] and the heading [rad]."""
    com = qd.Dynamics(plant.robot).center_of_mass(np.array(plant.q))
    x, y, z, w = plant.q[3:7]
    return com, float(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))


def crouched(robot: qd.Robot, share: float) -> np.ndarray:
    """Home with the base at `share` of its height, on the same footholds."""
    q, dynamics = np.array(robot.q_home), qd.Dynamics(robot)
    base = dynamics.frame_placement(q, robot.bodies[0].name)
    down = (1.0 - share) * base.translation[2]
    for foot in robot.feet:
        leg = LegKinematics(robot, foot)
        home = base.inverse().apply(dynamics.frame_placement(np.array(robot.q_home), foot).translation)
        found = leg.inverse(home + np.array([0.0, 0.0, down]))
        assert found.reached
        for joint, angle in zip(leg.joints, found.q, strict=True):
            q[robot.configuration_index(joint)] = angle
    q[2] -= down
    return q


def plant_of(kind: str, robot: qd.Robot, **options: float) -> Plant:
    return (Simulation if kind == "embedded" else MujocoPlant)(robot, dt=DT, **options)  # type: ignore[arg-type]


# -- gaits with flight phases --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "gait", "kind", "speed"),
    [
        ("go2", "pronk", "embedded", 0.2),
        pytest.param("a1", "gallop", "embedded", 0.25, marks=pytest.mark.slow),
        pytest.param("solo12", "running_trot", "mujoco", 0.4, marks=pytest.mark.slow),
        pytest.param("solo8", "pronk", "embedded", 0.2, marks=pytest.mark.slow),
        pytest.param("anymal_b", "pronk", "mujoco", 0.2, marks=pytest.mark.slow),
        pytest.param("b1", "running_trot", "embedded", 0.5, marks=pytest.mark.slow),
        pytest.param("laikago", "gallop", "mujoco", 0.25, marks=pytest.mark.slow),
    ],
)
def test_gaits_with_flight_phases_leave_the_ground_and_follow_the_command(
    name: str, gait: str, kind: str, speed: float
) -> None:
    robot = robot_of(name)
    plant, controller = plant_of(kind, robot), LocomotionController(robot, dt=DT, gait=gait)
    p, dynamics = controller.morphology, qd.Dynamics(robot)

    def run(seconds: float, forward: float) -> tuple[float, np.ndarray]:
        """Returns the fraction of the ticks without a contact and the positions of the base."""
        air, places = 0, []
        for _ in range(round(seconds / DT)):
            command = controller.compute(dynamics.update(plant.q, plant.v), (forward, 0.0, 0.0))
            plant.step(command.tau)
            air += not plant.contacts
            places.append(plant.q[:3].copy())
        return air / len(places), np.array(places)

    # A gallop is initially up to 25 % too fast: the path reference adapts slowly to its speed.
    run((18.0 if gait == "gallop" else 12.0) * p.time_scale, speed * p.speed_scale)
    clock = controller.gait_scheduler
    # A gallop sways from side to side, and no two of its cycles are alike.
    air, places = run((8.0 if gait == "gallop" else 2.0) * clock.period, speed * p.speed_scale)
    beats = 2 if gait == "running_trot" else 1  # flights of a cycle
    flight = float((clock.vertical_force_profile.force == 0.0).mean())
    most = 1.2 * flight
    if gait == "gallop":  # its feet change one at a time; a single stance foot may not carry load yet
        phases = (np.arange(1000)[:, None] / 1000.0 - clock.phase_offsets) % 1.0
        most = float(((phases < clock.duty_factor).sum(axis=1) < 2).mean())
    assert 0.4 * flight < air < most
    miss = 0.04 if gait == "gallop" else 0.06
    assert (places[-1] - places[0])[0] / (len(places) - 1) / DT == pytest.approx(speed * p.speed_scale, rel=miss)
    jump = p.gravity * (flight * clock.period / beats) ** 2 / 8.0
    assert np.ptp(places[:, 2]) > 0.9 * jump
    for _ in range(14):
        if controller.mode is not LocomotionMode.STANDING:
            run(p.time_scale, 0.0)
    assert controller.mode is LocomotionMode.STANDING


def test_reset_or_fall_during_flight_restores_task_weights() -> None:
    robot = robot_of("go2")
    controller, dynamics = LocomotionController(robot, dt=DT, gait="pronk"), qd.Dynamics(robot)
    base = controller.wbc.tasks["base"]
    before = np.array(base.weight)
    over = np.array(robot.q_home)
    over[3:7] = 1.0, 0.0, 0.0, 0.0  # on its back

    def fly() -> None:
        plant = qd.Simulation(robot, dt=DT)
        while np.array_equal(base.weight, before) and plant.time < 3.0:
            plant.step(controller.compute(dynamics.update(plant.q, plant.v), (0.2, 0.0, 0.0)).tau)
        assert (base.weight < 0.1 * before).all()

    fly()
    controller.reset()
    np.testing.assert_array_equal(base.weight, before)
    fly()
    assert controller.compute(dynamics.update(over, np.zeros(robot.nv))).mode is LocomotionMode.FALLEN
    np.testing.assert_array_equal(base.weight, before)
    controller.stand_up()
    controller.compute(dynamics.update(np.array(robot.q_home), np.zeros(robot.nv)))
    np.testing.assert_array_equal(base.weight, before)


def test_flight_gait_is_rejected_if_motors_are_too_weak() -> None:
    robot = robot_of("go2")
    weak = qd.load("go2", limits={joint: {"effort": 9.0} for joint in robot.actuated})
    with pytest.raises(
        qd.ArgumentError,
        match=r"gait: .* cannot move with the gait 'running_trot', .* 1\.6 times the weight: torque of",
    ):
        LocomotionController(weak, gait="running_trot")
    controller = LocomotionController(weak, gait="trot")
    with pytest.raises(qd.ArgumentError, match="running_trot"):
        controller.gait = "running_trot"
    assert controller.gait.name == "trot"
    with pytest.raises(qd.ArgumentError, match=r"cannot move with the gait 'pronk', .*: speed of the joints"):
        LocomotionController(robot_of("anymal_c"), gait="pronk")


@pytest.mark.parametrize("gait", others_slow(["bound", "gallop"], ["bound"]))
def test_gait_with_end_support_is_rejected_if_joints_are_too_slow(gait: str) -> None:
    """With fast joints the gait is accepted; its velocity limit leaves a margin for lag compensation."""
    robot = robot_of("anymal_c")
    with pytest.raises(qd.ArgumentError, match=rf"cannot move with the gait '{gait}', .*: speed of the joints$"):
        LocomotionController(robot, gait=gait)
    with pytest.raises(qd.ArgumentError, match=gait):
        LocomotionController(robot).gait = gait
    controller = LocomotionController(robot_of("anymal_b"), gait=gait)
    legs, far = controller._quadruped.capability.velocity_limits, np.array([9.0, 0.0, 0.0])
    fastest = far.copy()
    clamp_velocity(legs.body, legs.legs, legs.gait_limits(GAITS[gait]), fastest, 1.0)
    assert controller.clamp_velocity(far)[0] == pytest.approx(COMMAND_RESERVE * fastest[0])


# -- trot ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "kind", "velocity"),
    others_slow(
        [
            ("go2", "embedded", (0.25, 0.0, 0.0)),
            ("go2", "mujoco", (0.0, 0.25, 0.0)),
            ("solo12", "mujoco", (0.25, 0.0, 0.0)),
            ("anymal_c", "embedded", (0.15, -0.1, 0.3)),
            ("hyq", "mujoco", (0.0, 0.0, 0.5)),
        ],
        [("solo12", "mujoco", (0.25, 0.0, 0.0)), ("anymal_c", "embedded", (0.15, -0.1, 0.3))],
    ),
)
def test_trot_follows_the_commanded_velocity(name: str, kind: str, velocity: tuple[float, float, float]) -> None:
    robot = robot_of(name)
    plant, controller = plant_of(kind, robot), LocomotionController(robot, dt=DT)
    p = controller.morphology
    wanted = np.array(velocity) * [p.speed_scale, p.speed_scale, 1.0]
    drive(plant, controller, 1.2, wanted)
    cycles = 2 if name == "anymal_c" else 3
    seconds = round(cycles * controller.gait_scheduler.period / DT) * DT
    before, heading = com_and_heading(plant)
    commands = drive(plant, controller, seconds, wanted)
    after, turned = com_and_heading(plant)
    assert controller.mode is LocomotionMode.MOVING
    # Feet carry load from touchdown to lift-off: the pairs alternate except for a few ticks.
    pairs = [c.contacts for c in commands if len(c.contacts) == 2]
    assert set(pairs) == {("FL", "RR"), ("FR", "RL")} and len(pairs) > 0.85 * len(commands)
    turn = wanted[2] * seconds
    middle = heading + 0.5 * turn
    way = (after - before)[:2] / seconds
    seen = np.array(
        [np.cos(middle) * way[0] + np.sin(middle) * way[1], np.cos(middle) * way[1] - np.sin(middle) * way[0]]
    )
    np.testing.assert_allclose(seen, wanted[:2], atol=0.15 * max(np.linalg.norm(wanted[:2]), 0.1 * p.speed_scale))
    assert turned - heading == pytest.approx(turn, abs=0.15 * max(abs(turn), 0.1))
    assert after[2] == pytest.approx(p.height, rel=0.03)
    assert np.mean([c.ok for c in commands]) > 0.98  # level 0 is satisfied and the certificate is valid


@pytest.mark.parametrize("gait", others_slow(["trot", "walk"], ["trot"]))
def test_path_reference_follows_the_command_without_jumps_at_touchdown(
    gait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foothold that is updated one tick late causes an error of a stride, which would shift the path reference.

    Both gaits have a diagonal on the ground where two feet stand, from the first step on.
    """
    robot = robot_of("go2")
    plant, controller = plant_of("embedded", robot), LocomotionController(robot, dt=DT, gait=gait)
    p, errors, wanted = controller.morphology, list[float](), np.zeros(3)
    wanted[0] = 0.2 * p.speed_scale
    compute = LocomotionController.compute

    def watched(self: LocomotionController, *arguments: Any, **named: Any) -> Any:
        command = compute(self, *arguments, **named)
        errors.append(float(np.hypot(*self._walking._balance.error)))
        return command

    monkeypatch.setattr(LocomotionController, "compute", watched)
    commands = drive(plant, controller, 1.2, wanted)
    errors.clear()
    before, start = controller.path_reference.position.copy(), com_and_heading(plant)[0]
    seconds = round(3 * controller.gait_scheduler.period / DT) * DT
    commands += drive(plant, controller, seconds, wanted)
    assert {c.contacts for c in commands if len(c.contacts) == 2} <= {("FL", "RR"), ("FR", "RL")}
    np.testing.assert_allclose(controller.path_reference.position - before, wanted[:2] * seconds, atol=1e-9)
    assert np.max(errors) < 0.06 * p.length
    settled = 0.02 if gait == "trot" else 0.04  # the walk still compensates its start
    assert (com_and_heading(plant)[0] - start)[0] == pytest.approx(wanted[0] * seconds, rel=settled)


def steer(
    steering: SteeringState,
    legs: VelocityLimits,
    course: PathReference,
    ground: GroundPlane,
    gait: Gait,
    wanted: np.ndarray,
    *,
    is_transitioning: bool = False,
    is_obstructed: bool = False,
) -> None:
    """Moves the velocity of the path reference toward the command, at a friction of 0.6."""
    set_conditions(steering, 0.6, is_transitioning, is_obstructed)
    update_steering(steering, legs.body, legs.legs, legs.gait_limits(gait), course.state, ground.state, wanted)


def follow(
    steering: SteeringState, legs: VelocityLimits, course: PathReference, x: float, y: float, yaw: float
) -> None:
    """Limits the lead of the path reference over a robot with an error (x, y) and a heading."""
    limit_reference_lead(steering, legs.body, course.state, float(x), float(y), float(yaw))


@pytest.mark.parametrize("turn", [0.0, -1.2])
def test_robot_below_half_of_its_reference_speed_is_blocked(turn: float) -> None:
    p, controller = Morphology.from_robot(robot_of("go2")), LocomotionController(robot_of("go2"), dt=DT)
    legs = controller._quadruped.capability.velocity_limits
    wanted, way = 0.2 * p.speed_scale * np.array([np.cos(turn), np.sin(turn), 0.0]), 1.0 + turn
    ground = GroundPlane(np.column_stack((p.nominal_stance, np.zeros(4))))
    for share, held in ((0.4, True), (0.8, False)):
        steering, course = allocate_steering_state(DT), PathReference(np.zeros(2), 1.0)
        for _ in range(3000):
            u, v = share * np.array(compute_world_velocity(course.state, 0.0))
            update_speed_averages(steering, legs.body, course.state, float(u), float(v))
            follow(steering, legs, course, -0.12 * p.length * np.cos(way), -0.12 * p.length * np.sin(way), 1.0)
            steer(steering, legs, course, ground, GAITS["trot"], wanted)
        is_faster = bool(np.linalg.norm(course.velocity) > 1.1 * np.linalg.norm(wanted))
        assert is_blocked(steering, legs.body) is held and is_faster is not held


def test_obstacle_contact_or_slip_of_a_foot_obstructs_the_robot() -> None:
    controller, dynamics = LocomotionController(robot_of("go2"), dt=DT), qd.Dynamics(robot_of("go2"))
    controller.compute(dynamics.update(np.array(robot_of("go2").q_home), np.zeros(robot_of("go2").nv)))
    data, quad = controller._walking._calls.data, controller._quadruped  # type: ignore[union-attr]
    assert not is_obstructed(data)
    data.footwork.stumble.roughness = 0.1
    assert is_obstructed(data)
    data.footwork.stumble.roughness = 0.0
    data.footwork.stumble.is_lowered[1] = 1
    assert is_obstructed(data)
    data.footwork.stumble.is_lowered[1] = 0
    data.slips.slip.is_slipping[2] = 1
    assert is_obstructed(data)
    data.slips.slip.is_slipping[2] = 0
    quad.friction_model.set_slip_bound(0.1)
    assert is_obstructed(data)


# -- what is in reach ----------------------------------------------------------------------------------------------
def test_command_beyond_reach_is_clamped_and_reported() -> None:
    robot = robot_of("go2")
    plant, controller = plant_of("embedded", robot), LocomotionController(robot, dt=DT)
    p = controller.morphology
    top = controller.clamp_velocity((10.0, 0.0, 0.0))[0]
    assert 0.4 * p.speed_scale < top < 0.7 * p.speed_scale
    fine = np.array([0.25 * p.speed_scale, 0.0, 0.0])
    np.testing.assert_array_equal(controller.clamp_velocity(fine), fine)
    commands = drive(plant, controller, 1.3, (10.0, 0.0, 0.0))
    assert all(c.is_limited for c in commands)
    assert commands[-1].reference_velocity[0] == pytest.approx(top)
    assert not any(c.is_limited for c in drive(plant, controller, 0.1, fine))
    curve = controller.clamp_velocity((3.0, -2.0, 1.0))
    np.testing.assert_allclose(curve / curve[0], [1.0, -2.0 / 3.0, 1.0 / 3.0])  # by the same factor in all components
    assert (controller.clamp_velocity((0.0, 3.0, 0.0)) < (1e-9, top, 1e-9)).all()  # a foot does not cross another


@pytest.mark.parametrize(
    ("name", "gait"),
    others_slow(
        [("centauro", "trot"), *((name, gait) for name in ("a1", "hyq", "b1") for gait in ("trot", "bound"))],
        [("centauro", "trot"), ("a1", "bound"), ("hyq", "trot")],
    ),
)
def test_joints_stay_within_limits_throughout_a_stance(name: str, gait: str) -> None:
    """In all directions; beyond the velocity limit due to the reach of a leg, its footholds are out of reach."""
    robot = robot_of(name)
    controller, poses = LocomotionController(robot, gait=gait), LegPoseSolver(robot)
    p, of, rng = controller.morphology, GAITS[gait], np.random.default_rng(5)
    half, base, cut = 0.5 * of.duty_factor * of.period * p.time_scale, np.array([0.0, 0.0, p.height]) + p.base_offset, 0
    most = 1.0 / COMMAND_RESERVE if of.has_end_support else 1.0  # of the admissible command
    for _ in range(20):
        asked = 9.0 * rng.normal(size=3) / (1.0, 1.0, p.length)
        x, y, turn = controller.clamp_velocity(asked)
        why, beyond = controller.velocity_limit_reason(asked), True
        for i, foot in enumerate(FEET):
            place = p.nominal_stance[i] * of.footprint_scale
            way = half * np.array([x - turn * place[1], y + turn * place[0]])
            for share in (-1.0, 0.0, 1.0):
                at = np.array([*(place + share * way), p.radii[i]]) - base
                found = poses.legs[foot].inverse(p.heading @ at)
                assert found.reached and found.within_limits, (foot, asked, share)
            if why == f"reach of {foot}" and name != "centauro":  # whose legs have a small lateral reach
                cut += 1
                far = [
                    np.array([*(place + s * way), p.radii[i]]) - base
                    for s in (-2.0 * most, -1.6 * most, 1.6 * most, 2.0 * most)
                ]
                found = poses.legs[foot].inverse(np.array(far) @ p.heading.T)
                beyond = not (found.reached & found.within_limits).all()  # type: ignore[operator, union-attr]
        assert beyond, (asked, why)
    assert cut > 0 or gait == "trot" or name == "centauro"


# -- any quadruped -------------------------------------------------------------------------------------------------
def scaled_go2(factor: float) -> qd.Robot:
    """A scaled Go2 whose motors have scaled torque and speed."""
    urdf = Urdf.of("go2").scale(factor)
    for joint in urdf.joints:
        limit = joint.find("limit")
        if limit is not None:
            limit.attrib["effort"] = repr(float(limit.attrib["effort"]) * factor**4)
            limit.attrib["velocity"] = repr(float(limit.attrib["velocity"]) / factor**0.5)
    return qd.load(str(urdf))


def a1_with_other_conventions() -> qd.Robot:
    """An A1 with another base frame, other names, another order of elements and flipped joint axes."""
    urdf, legs = Urdf.of("a1"), leg_names("a1")
    for leg in ("FL", "RR"):
        for joint in legs[leg].joints:
            urdf.flip_axis(joint)
    urdf.turn_base(0.5 * np.pi, (0.1, -0.05, 0.03))
    return qd.load(str(urdf.rename(lambda name: "x" + name[::-1]).shuffle(3)))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(lambda: scaled_go2(0.5), "embedded", marks=pytest.mark.slow),
        pytest.param(lambda: scaled_go2(2.0), "mujoco", marks=pytest.mark.slow),
        (a1_with_other_conventions, "embedded"),
        pytest.param(lambda: qd.load(str(dog())), "mujoco", marks=pytest.mark.slow),
    ],
    ids=["half", "double", "rewritten", "dog"],
)
def test_modified_robots_trot_without_tuning(make: Callable[[], qd.Robot], kind: str) -> None:
    robot = make()
    controller = LocomotionController(robot, dt=DT)
    plant, p = plant_of(kind, robot), controller.morphology
    wanted = np.array([0.2 * p.speed_scale, 0.0, 0.1 / p.time_scale])
    drive(plant, controller, 6.0 * p.time_scale, wanted)
    cycles = 2
    seconds = round(cycles * controller.gait_scheduler.period / DT) * DT
    before, heading = com_and_forward_direction(plant, p)
    drive(plant, controller, seconds, wanted)
    after, turned = com_and_forward_direction(plant, p)
    assert controller.mode is LocomotionMode.MOVING
    turn = np.remainder(turned - heading + np.pi, 2.0 * np.pi) - np.pi
    assert turn == pytest.approx(wanted[2] * seconds, rel=0.1)
    middle = heading + 0.5 * turn
    way = (after - before)[:2] / seconds
    forward = np.array([np.cos(middle), np.sin(middle)])
    assert way @ forward == pytest.approx(wanted[0], rel=0.1)
    assert np.linalg.norm(way - forward * (way @ forward)) < 0.1 * wanted[0]


def com_and_forward_direction(plant: Plant, p: Morphology) -> tuple[np.ndarray, float]:
    """Returns the center of mass [m] and the forward direction of the robot [rad]."""
    x, y, z, w = plant.q[3:7]
    R = pin.Quaternion(w, x, y, z).toRotationMatrix() @ p.heading
    return com_and_heading(plant)[0], float(np.arctan2(R[1, 0], R[0, 0]))


# -- modes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "anymal_c"], ["go2"]))
def test_robot_stands_up_from_a_crouch_and_lies_down_again(name: str) -> None:
    robot = robot_of(name)
    plant, controller = plant_of("embedded", robot), LocomotionController(robot, dt=DT)
    plant.reset(crouched(robot, 0.55))
    p = controller.morphology
    drive(plant, controller, 0.1)
    assert controller.mode is LocomotionMode.RISING
    drive(plant, controller, 8.0 * p.time_scale)
    assert controller.mode is LocomotionMode.STANDING
    assert com_and_heading(plant)[0][2] == pytest.approx(p.height, rel=0.02)
    controller.lie_down()
    drive(plant, controller, 8.0 * p.time_scale)
    assert controller.mode is LocomotionMode.LYING
    assert com_and_heading(plant)[0][2] == pytest.approx(0.5 * p.height, rel=0.05)
    controller.stand_up()
    drive(plant, controller, 0.1)
    assert controller.mode is LocomotionMode.RISING


def test_fallen_robot_folds_its_legs_with_damping_until_commanded_to_rise() -> None:
    robot = robot_of("go2")
    controller, dynamics = LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    v = np.zeros(robot.nv)
    controller.compute(dynamics.update(np.array(robot.q_home), v))
    q = np.array(robot.q_home)
    q[3:7] = np.sin(0.6), 0.0, 0.0, np.cos(0.6)  # rolled over by 1.2 rad
    v[6:] = np.linspace(-3.0, 3.0, robot.nu)
    for _ in range(2):
        command = controller.compute(dynamics.update(q, v), (0.5, 0.0, 0.0))
        assert command.mode is LocomotionMode.FALLEN and not command.ok and not command.desired_forces
        most = 0.25 * JointPD(robot, dt=DT).kd * (0.5 / controller.morphology.time_scale) ** 2  # see `LegFolding`
        assert (command.tau * v[6:] <= most).all() and (np.abs(command.tau) <= robot.effort_limits).all()
    controller.stand_up()
    command = controller.compute(dynamics.update(np.array(robot.q_home), np.zeros(robot.nv)))
    assert command.mode is LocomotionMode.STARTING


def test_torques_stay_within_motor_limits_even_if_constraints_are_infeasible() -> None:
    """Whole-body control may violate contradictory limits; the torques sent to the motors may not."""
    robot = robot_of("go2")
    controller, dynamics, cut = LocomotionController(robot, dt=DT), qd.Dynamics(robot), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        controller.reset()
        controller.compute(dynamics.update(np.array(robot.q_home), np.zeros(robot.nv)))
        v = rng.standard_normal(robot.nv) * np.r_[np.full(6, 3.0), np.full(robot.nu, 300.0)]
        command = controller.compute(dynamics.update(np.array(robot.q_home), v))
        assert (np.abs(command.tau) <= robot.effort_limits).all()
        assert command.wbc_command is not None
        cut += bool((np.abs(command.wbc_command.tau) > 1.01 * robot.effort_limits).any())
    assert cut > 3


# -- arguments -----------------------------------------------------------------------------------------------------
def test_invalid_arguments_are_rejected_by_name() -> None:
    robot = robot_of("go2")
    for options, match in (
        ({"dt": 0.0}, "dt"),
        ({"dt": 0.1}, "dt"),
        ({"gait": "tort"}, "trot"),
        ({"friction": -1.0}, "friction"),
    ):
        raises((qd.ArgumentError, qd.UnknownNameError), match, LocomotionController, robot, **options)
    raises(qd.ArgumentError, "quadruped", LocomotionController, qd.load("ur5"))
    controller, dynamics = LocomotionController(robot, dt=DT), qd.Dynamics(robot)
    state = dynamics.update(np.array(robot.q_home), np.zeros(robot.nv))
    for velocity in ((np.nan, 0.0, 0.0), (0.1, 0.2), np.zeros((3, 1))):
        raises(qd.ArgumentError, "velocity", controller.compute, state, velocity)
    raises(qd.ArgumentTypeError, "state", controller.compute, robot.q_home)
    other = robot_of("solo12")
    with pytest.raises(qd.ArgumentError, match="another robot"):
        controller.compute(qd.Dynamics(other).update(np.array(other.q_home), np.zeros(other.nv)))


@pytest.mark.parametrize(
    "velocity",
    [None, "abc", ("1", "2", "3"), (0.1, 0.0), [[0.1, 0.0, 0.0]], (0.1, 1j, 0.0), (True, 0.0, 0.0), [[1.0], [2.0, 3.0]]]
    + [(bad, 0.0, 0.0) for bad in (np.nan, np.inf, 10**400)],
)
def test_invalid_velocity_is_rejected_by_every_method(velocity: object) -> None:
    robot, controller = robot_of("go2"), unused_go2_controller()
    state = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    for take in (controller.clamp_velocity, lambda v: controller.compute(state, v)):
        raises((qd.ArgumentError, qd.ArgumentTypeError), "velocity", take, velocity)
    assert controller.ground is None  # before the first tick


def test_measured_contacts_must_be_names_of_feet() -> None:
    robot = robot_of("go2")
    controller = LocomotionController(robot, dt=DT)
    state = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    raises(qd.UnknownNameError, "FL", controller.compute, state, measured_contacts=("FL", "LF"))
    for touching in ("FL", 4, {"FL": False}):
        raises(qd.ArgumentTypeError, "measured_contacts", controller.compute, state, measured_contacts=touching)
    assert controller.compute(state, measured_contacts=np.array(robot.feet)).contacts == robot.feet  # type: ignore[arg-type]


def test_mismatched_whole_body_controller_is_rejected() -> None:
    robot, other = robot_of("go2"), robot_of("solo12")
    for whole_body, match in (
        (qd.WholeBodyController(other, dt=DT), "another Robot object"),
        (qd.WholeBodyController(robot, dt=2 * DT), "period"),
        (qd.WholeBodyController(robot, dt=DT, tasks=[PostureTask(robot)]), "com, base"),
    ):
        raises(qd.ArgumentError, match, LocomotionController, robot, dt=DT, wbc=whole_body)
    raises(qd.ArgumentTypeError, "WholeBodyController", LocomotionController, robot, dt=DT, wbc=3)


def test_stand_up_cancels_lie_down() -> None:
    robot = robot_of("go2")
    plant, controller = plant_of("embedded", robot), LocomotionController(robot, dt=DT)
    drive(plant, controller, 0.5, (0.3, 0.0, 0.0))
    controller.lie_down()
    drive(plant, controller, 0.1)
    controller.stand_up()
    assert LocomotionMode.LOWERING not in {c.mode for c in drive(plant, controller, 1.5)}
    assert controller.mode is LocomotionMode.STANDING


def test_lie_down_before_the_first_tick_takes_effect() -> None:
    robot = robot_of("solo12")
    plant, controller = plant_of("embedded", robot), LocomotionController(robot, dt=DT)
    controller.lie_down()
    drive(plant, controller, 0.05)
    assert controller.mode is LocomotionMode.LOWERING


# -- ground --------------------------------------------------------------------------------------------------------
def test_ground_plane_passes_through_the_feet() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.3, 0.3, (4, 3)) + np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]) * 0.3
    points[:, 2] = 0.1 + 0.2 * points[:, 0] - 0.1 * points[:, 1]
    ground = GroundPlane(points)
    np.testing.assert_allclose(ground.slope, [0.2, -0.1], atol=1e-12)
    assert ground.height(0.5, 0.7) == pytest.approx(0.1 + 0.2 * 0.5 - 0.1 * 0.7)
    for yaw in (0.0, 0.7, -2.5):
        R = ground.axes(yaw)
        np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(R) > 0.0 and np.arctan2(R[1, 0], R[0, 0]) == pytest.approx(yaw)
        np.testing.assert_allclose(R[:, 2], ground.normal, atol=1e-12)
        turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
        np.testing.assert_allclose(turn @ ground.compute_projection(yaw), R[:2, :2], atol=1e-12)
    np.testing.assert_allclose(ground.normal, np.array([-0.2, 0.1, 1.0]) / np.sqrt(1.05), atol=1e-12)
    points[0, 2] += 0.05
    ground.points = points
    before = ground.slope.copy()
    advance_slope(ground.state, 0.01)
    assert 0.0 < np.abs(ground.slope - before).max() < 0.02
    line = GroundPlane(np.outer(np.arange(4.0), [1.0, 1.0, 0.3]))
    assert np.isfinite(line.axes(0.3)).all() and not line.slope.any()


@pytest.mark.parametrize("slope", [(0.0, 0.0), (0.3, -0.2)])
def test_acceleration_feasible_with_friction_is_in_the_cone_about_the_normal(slope: tuple[float, float]) -> None:
    rng, gravity, friction = np.random.default_rng(1), 9.81, 0.5
    normal = np.array([-slope[0], -slope[1], 1.0]) / np.sqrt(1.0 + slope[0] ** 2 + slope[1] ** 2)
    for x, y in rng.normal(scale=4.0, size=(50, 2)):
        share = compute_friction_fraction(x, y, *slope, friction, gravity)
        force = share * np.array([x, y, slope[0] * x + slope[1] * y]) + [0.0, 0.0, gravity]
        used = np.linalg.norm(force - normal * (normal @ force)) / (normal @ force)
        assert used == pytest.approx(friction) if share < 1.0 else used <= friction
    assert compute_friction_fraction(1.0, 0.0, 0.6, 0.0, friction, gravity) == 0.0  # none uphill while sliding
    assert compute_friction_fraction(-1.0, 0.0, 0.6, 0.0, friction, gravity) == 1.0


def test_slow_leg_swings_do_not_pull_the_robot_downhill() -> None:
    """ANYmal C's swings meet the velocity limits of its joints there; this must not disturb the center of mass."""
    robot, slope = robot_of("anymal_c"), Plane.slope(np.radians(15.0), heading=np.pi)
    plant = Simulation(robot, dt=DT, friction=0.8, terrain=slope)
    controller = LocomotionController(robot, dt=DT)
    plant.reset(rotate_configuration(np.array(robot.q_home), slope.tilt))
    wanted = np.array([0.25 * controller.morphology.speed_scale, 0.0, 0.0])
    drive(plant, controller, 3.0, wanted)
    before, seconds = com_and_heading(plant)[0], round(controller.gait_scheduler.period / DT) * DT
    commands = drive(plant, controller, seconds, wanted)
    assert np.linalg.norm(com_and_heading(plant)[0] - before) / seconds == pytest.approx(wanted[0], rel=0.2)
    assert all(c.ok for c in commands)


def test_tilt_rotation_is_the_exponential_of_a_horizontal_vector() -> None:
    for a, b in ((0.0, 0.0), (0.1, -0.2), (1e-12, 0.0), (0.7, 1.1)):
        np.testing.assert_allclose(make_tilt_rotation(a, b), pin.exp3(np.array([a, b, 0.0])), atol=1e-12)


def test_commands_can_be_pickled_and_copied_before_their_details_are_read(go2: qd.Robot) -> None:
    dynamics, controller = qd.Dynamics(go2), qd.LocomotionController(go2)
    for command_velocity in ((0.0, 0.0, 0.0), (0.3, 0.0, 0.1)):
        command = controller.compute(dynamics.update(go2.q_home, np.zeros(go2.nv)), command_velocity)
        copies = pickle.loads(pickle.dumps(command)), copy.deepcopy(command)
        controller.compute(dynamics.update(go2.q_home, np.zeros(go2.nv)), (0.0, 0.2, 0.0))
        for copied in copies:
            np.testing.assert_array_equal(copied.tau, command.tau)
            np.testing.assert_array_equal(copied.reference_velocity, command.reference_velocity)
            assert copied.limit_reason == command.limit_reason and copied.footholds.keys() == command.footholds.keys()
