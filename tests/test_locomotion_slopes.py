"""Limits of slopes that a controller reports before it reaches them."""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np
import pytest
from test_compiled_motion import read_by_pinocchio

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, LocomotionMode, Morphology, slope_limiter
from quaddyn.locomotion.com_preview import allocate_com_reference, make_preview_parameters, update_com_reference
from quaddyn.locomotion.footwork import MAX_OUTWARD_OFFSET
from quaddyn.locomotion.friction_model import SLIP_SAFETY_FACTOR, FrictionModel, adapt_friction, set_normals
from quaddyn.locomotion.gait import GAITS, Gait, GaitParameters, GaitScheduler, write_gait_parameters
from quaddyn.locomotion.ground_plane import GroundPlane, advance_on_map
from quaddyn.locomotion.morphology import FEET, make_body_parameters
from quaddyn.locomotion.path_reference import PathReference
from quaddyn.locomotion.slope_limiter import (
    CAPTURE_DISTANCE_RATIO,
    SlopeLimiter,
    SlopeStatics,
    clamp_velocity_on_slope,
    list_stances,
    run_to_end,
    update_slope,
)
from quaddyn.locomotion.trunk_controller import (
    BLIND_SLOPE_LOWERINGS,
    KNOWN_SLOPE_LOWERING,
    TrunkController,
    update_trunk_references,
)
from quaddyn.locomotion.velocity_limits import REASON_TEXTS, LegPoseSolver, LegWorkspace, LimitReason, find_stride_scale
from quaddyn.robot.configuration import rotate_configuration
from quaddyn.simulation.terrain import Plane
from quaddyn.wbc import WholeBodyController


@pytest.fixture(scope="module")
def controller() -> LocomotionController:
    return LocomotionController(qd.load("go2"))


def test_friction_limit_of_a_slope_is_at_the_center_of_a_pyramid_face(controller: LocomotionController) -> None:
    most = np.arctan(0.5 * np.sqrt(0.5))
    assert controller.slope_limit_reason(0.99 * most, friction=0.5) == ""
    assert controller.slope_limit_reason(1.01 * most, friction=0.5) == "friction of the ground"
    assert controller.slope_limit_reason(1.01 * most, friction=0.8) == ""
    assert controller.slope_limit_reason(np.radians(20.0)) != ""  # with the assumed friction, 0.4


def test_robot_tips_on_a_slope_unless_a_step_recovers_it(controller: LocomotionController) -> None:
    """The offset of the center of mass grows by a factor e per sqrt(h / g) during the swing phase of a trot."""
    p, trot = controller.morphology, GAITS["trot"]
    growth = np.exp(trot.period * (1.0 - trot.duty_factor) * p.time_scale * np.sqrt(p.gravity / p.height))
    width = np.abs(p.nominal_stance[:, 1]).min()
    tip = float(np.arctan(CAPTURE_DISTANCE_RATIO * (width + MAX_OUTWARD_OFFSET * p.length) / (growth * p.height)))
    assert tip > np.arctan(width / p.height)  # where a static analysis predicts tipping
    for side in (0.5 * np.pi, -0.5 * np.pi):
        assert controller.slope_limit_reason(0.98 * tip, side, friction=1.0) == ""
        assert controller.slope_limit_reason(1.02 * tip, side, friction=1.0) == "center of mass outside the support"
    assert controller.slope_limit_reason(1.02 * tip, 0.0, friction=1.0) == ""  # the robot is longer than wide


def test_sufficiently_wide_stance_does_not_tip_at_any_step_duration(
    monkeypatch: pytest.MonkeyPatch, go2: qd.Robot
) -> None:
    statics, p = SlopeStatics(go2, Morphology.from_robot(go2)), Morphology.from_robot(go2)
    monkeypatch.setattr(slope_limiter, "CAPTURE_DISTANCE_RATIO", 0.0)
    tip, limits = float(np.arctan(np.abs(p.nominal_stance[:, 1]).min() / p.height)), np.full(go2.nu, 1e3)
    for share, said in ((0.95, ""), (1.05, "center of mass outside the support")):
        assert statics.limit_reason(GAITS["trot"], np.zeros(3), share * tip, 0.5 * np.pi, 1.0, limits) == said


def test_trunk_lowering_on_estimated_slopes_is_limited_by_leg_reach() -> None:
    """HyQ's knees do not fold far enough for an uphill foothold.  On known terrain the lowering does not change."""
    robot = qd.load("anymal_c")
    p = Morphology.from_robot(robot)
    assert SlopeStatics(qd.load("hyq"), Morphology.from_robot(qd.load("hyq"))).slope_lowering == KNOWN_SLOPE_LOWERING
    deep = SlopeStatics(robot, p).slope_lowering
    assert deep == BLIND_SLOPE_LOWERINGS[0] > KNOWN_SLOPE_LOWERING
    state = qd.Dynamics(robot).update(
        rotate_configuration(np.array(robot.q_home), Plane.slope(0.3).tilt), np.zeros(robot.nv)
    )
    heights = []
    for share in (KNOWN_SLOPE_LOWERING, deep):
        for known in (False, True):
            body = WholeBodyController(robot)
            trunk = TrunkController(p, body, FrictionModel(body), p.height, slope_lowering=share)
            ground = GroundPlane(state.origins(FEET))
            ground.points -= p.radii[:, None] * ground.normal
            if known:
                advance_on_map(ground.state, 1e-3, 1.0, 1.0, 1.0, 0.0)
            assert ground.state.follows_map is known
            course = PathReference(ground.points[:, :2].mean(axis=0), 0.0)
            reference, clock, points = allocate_com_reference(), GaitScheduler("trot", p.time_scale), ground.points
            records = clock.state, course.state, p.nominal_stance, points, np.zeros((2, 3)), reference
            update_com_reference(make_preview_parameters(p), *records)
            motion = read_by_pinocchio(state, p)
            motion.R_base = np.eye(3)  # type: ignore[assignment]
            friction = FrictionModel(body).state
            records = reference, course.state, ground.state, make_body_parameters(p), motion, friction
            update_trunk_references(trunk.state, *records, 1e-3)
            trunk.write_references()
            heights.append(float(body.tasks["com"].reference_position[2]))  # type: ignore[attr-defined]
    steep = np.sin(np.arctan(np.hypot(*ground.slope)))
    assert heights[1] == pytest.approx(heights[0], abs=1e-4) == heights[3]
    assert heights[0] - heights[2] == pytest.approx(
        (deep - KNOWN_SLOPE_LOWERING) * p.length * steep, rel=5e-3
    )  # and trim


def test_slope_torques_equal_static_holding_torques(controller: LocomotionController) -> None:
    """On level ground a motor too weak for half the weight is named; the limit is the torque of standing."""
    robot, p = controller.robot, controller.morphology
    statics, trot = SlopeStatics(robot, p), GAITS["trot"]
    state = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    need = np.zeros(robot.nu)
    for pair in (("FL", "RR"), ("FR", "RL")):
        J = np.vstack([state.jacobian(foot)[:3] for foot in pair])
        tau = state.gravity - J.T @ np.tile([0.0, 0.0, 0.5 * robot.mass * p.gravity], 2)
        need = np.maximum(need, np.abs(tau[robot.actuated_index]))
    knee = int(need.argmax())
    limits = np.full(robot.nu, 100.0)
    for share, said in ((1.05, ""), (0.95, f"torque of {robot.actuated[knee]}")):
        limits[knee] = share * need[knee]
        assert statics.limit_reason(trot, np.zeros(3), 0.0, 0.0, 0.8, limits) == said


def test_long_strides_and_steep_slopes_are_out_of_reach(controller: LocomotionController) -> None:
    statics = SlopeStatics(controller.robot, controller.morphology)
    limits, far = np.full(controller.robot.nu, 1e3), np.array([20.0, 0.0, 0.0])
    assert statics.limit_reason(GAITS["trot"], far, 0.1, 0.0, 0.8, limits).startswith("reach of ")
    assert (
        statics.limit_reason(GAITS["trot"], np.zeros(3), 1.0, 0.0, 3.0, limits) == "slope above the supported maximum"
    )


def test_list_stances_returns_the_stance_sets_of_a_gait() -> None:
    assert set(list_stances(GAITS["trot"])) == {("FL", "RR"), ("FR", "RL"), ("FL", "FR", "RL", "RR")}
    assert {len(each) for each in list_stances(GAITS["crawl"])} == {3, 4}
    assert list_stances(dataclasses.replace(GAITS["trot"], duty_factor=1.0)) == {("FL", "FR", "RL", "RR"): 1.0}


def test_single_stance_foot_has_half_the_thrust_of_two() -> None:
    """The demand on each stance set is the vertical force of the gait during its stance."""
    gait = Gait("own", 1.9, 0.4, (0.1, 0.3, 0.7, 0.9))
    found, push = list_stances(gait), gait.vertical_force_profile.force
    assert max(found.values()) == push.max()
    alone, pairs = (max(most for feet, most in found.items() if len(feet) == n) for n in (1, 2))
    assert alone == pytest.approx(0.5 * push.max(), rel=0.1) and pairs == push.max()
    assert found["RL",] == pytest.approx(max(push[round(0.7 * len(push)) : round(0.9 * len(push))]), rel=0.1)
    assert all(list_stances(GAITS["trot"])[pair] == 1.0 for pair in (("FL", "RR"), ("FR", "RL")))


@pytest.mark.parametrize("wrong", [{"angle": -0.1}, {"angle": 1.6}, {"direction": np.inf}, {"friction": -1.0}])
def test_invalid_slopes_are_rejected(controller: LocomotionController, wrong: dict[str, float]) -> None:
    with pytest.raises(qd.ArgumentError):
        controller.slope_limit_reason(**{"angle": 0.1, **wrong})


def set_uphill_slope(grip: FrictionModel, rise: float) -> None:
    """Ground that rises forward."""
    size = np.hypot(1.0, rise)
    set_normals(grip.state, np.tile((-rise / size, 0.0, 1.0 / size), (4, 1)))
    adapt_friction(grip.state)
    grip.apply()


def make_slope_limiter(
    controller: LocomotionController, *, sure: float | None = None
) -> tuple[SlopeLimiter, FrictionModel]:
    robot, p = controller.robot, controller.morphology
    grip = FrictionModel(WholeBodyController(robot))
    if sure is not None:
        grip.nominal = sure
    return SlopeLimiter(SlopeStatics(robot, p), p.speed_scale), grip


def clamp(
    limiter: SlopeLimiter, velocity: np.ndarray, grip: FrictionModel, limits: np.ndarray
) -> tuple[np.ndarray, str]:
    """Clamps the velocity of a trot for one tick, and returns it with the reason."""
    timing, clamped = GaitParameters.allocate(phase_offsets=4, footprint_scale=2), velocity.copy()
    write_gait_parameters(timing, GAITS["trot"], 1.0)
    evaluation = update_slope(limiter.state, timing, velocity, 0.0, grip.state)
    limiter.advance_evaluation(evaluation, GAITS["trot"], timing, velocity, limits)
    reason = clamp_velocity_on_slope(limiter.state, clamped)
    return clamped, limiter.leg_reason if reason == LimitReason.LEGS_ON_SLOPE else REASON_TEXTS[LimitReason(reason)]


def test_known_friction_stops_the_robot_and_assumed_friction_does_not(controller: LocomotionController) -> None:
    ahead, limits = np.array([0.3, 0.0, 0.0]), np.full(controller.robot.nu, 1e3)
    verdict, grip = make_slope_limiter(controller)
    assert np.array_equal(clamp(verdict, ahead, grip, limits)[0], ahead)  # level
    set_uphill_slope(grip, 0.35)
    assert clamp(verdict, ahead, grip, limits)[1] == ""
    grip.set_slip_bound(SLIP_SAFETY_FACTOR * 0.4)
    cut, said = clamp(verdict, ahead, grip, limits)
    assert said == "friction of the ground" and not cut.any()
    grip.set_slip_bound(SLIP_SAFETY_FACTOR * 0.6)  # not sufficient after a slip
    assert clamp(verdict, ahead, grip, limits)[1] != ""
    grip.set_slip_bound(SLIP_SAFETY_FACTOR * 0.8)
    assert clamp(verdict, ahead, grip, limits)[1] == ""
    grip.nominal = 0.4
    assert clamp(verdict, ahead, grip, limits)[1] == "friction of the ground"
    assert clamp(verdict, np.zeros(3), grip, limits)[1] == ""
    set_uphill_slope(grip, 0.25)
    assert clamp(verdict, ahead, grip, limits)[1] == ""


def test_weak_motors_shorten_the_strides(controller: LocomotionController) -> None:
    """The evaluation in the background, one leg per tick, gives the same result as the immediate one."""
    robot, trot, ahead, uphill = controller.robot, GAITS["trot"], np.array([0.6, 0.0, 0.0]), np.array([0.3, 0.0])
    statics = SlopeStatics(robot, controller.morphology)

    def able(share: float, strength: float) -> bool:
        return not run_to_end(statics.evaluate_legs(trot, share * ahead, uphill, strength * robot.effort_limits))

    strengths = np.geomspace(1.0, 0.05, 200)  # weaker motors allow less
    strength = strengths[bisect.bisect_left(strengths, True, key=lambda s: not able(1.0, s))]
    assert able(0.25, strength)
    verdict, grip = make_slope_limiter(controller)
    set_uphill_slope(grip, 0.3)
    shares = []
    for _ in range(300):
        cut, said = clamp(verdict, ahead, grip, strength * robot.effort_limits)
        shares.append(cut[0] / ahead[0])
    assert shares[0] == 1.0 and shares[-1] < 1.0 and said.startswith("torque of ")
    assert able(shares[-1], strength) and not able(shares[-1] + 0.25, strength)
    cut, said = clamp(verdict, ahead, grip, strength * robot.effort_limits)  # the evaluation is complete
    assert cut[0] == shares[-1] * ahead[0]
    set_uphill_slope(grip, 0.02)
    assert np.array_equal(clamp(verdict, ahead, grip, strength * robot.effort_limits)[0], ahead)


def test_robot_on_a_slope_of_insufficient_known_friction_stands_and_reports_it(solo12: qd.Robot) -> None:
    controller, dynamics = LocomotionController(solo12, dt=2e-3, friction=0.4), qd.Dynamics(solo12)
    ground, p = Plane.slope(np.radians(19.0)), controller.morphology
    plant = qd.Simulation(solo12, dt=2e-3, friction=0.8, terrain=[ground])
    plant.reset(rotate_configuration(np.array(solo12.q_home), ground.tilt), np.zeros(solo12.nv))
    for k in range(700):
        wanted = 0.25 * p.speed_scale if k > 150 else 0.0
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), (wanted, 0.0, 0.0))
        plant.step(command.tau)
    assert command.mode is LocomotionMode.STANDING and command.is_limited
    assert command.limit_reason == "friction of the ground" and not command.clamped_velocity.any()
    assert "friction of the ground" in str(command)


def test_first_of_equally_loaded_legs_is_named_independently_of_rounding() -> None:
    robot = qd.load("small_quadruped")  # left and right are mirror images of each other to the last digit
    p = Morphology.from_robot(robot)
    statics, named = SlopeStatics(robot, p), set()
    for gait in ("trot", "walk", "crawl"):
        for degrees in (5.0, 10.0, 15.0, 20.0):
            for uphill in (0.0, np.pi):
                weak = 0.2 * robot.effort_limits
                named.add(
                    statics.limit_reason(GAITS[gait], np.array([0.3, 0, 0]), np.radians(degrees), uphill, 2.0, weak)
                )
    motors = {said.removeprefix("torque of ") for said in named if said.startswith("torque of ")}
    right = {joint for foot in ("FR", "RR") for joint in robot.legs[foot].joints}
    assert motors and not motors & right
    reach = LegWorkspace(robot, p, LegPoseSolver(robot)).measure_reach((1.0, 1.0))
    assert reach is not None
    for ahead in (0.1, -0.1, 0.05, 0.033):
        assert FEET[find_stride_scale(reach, np.array([(ahead, 0.0)] * 4))[1]] in ("FL", "RL")
