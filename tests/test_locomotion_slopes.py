"""What a controller says of slopes before it is there."""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, Mode, Proportions, slope_statics
from quaddyn.locomotion.course import Course, Preview
from quaddyn.locomotion.felt_friction import SAFE
from quaddyn.locomotion.footwork import OUTWARDS
from quaddyn.locomotion.gait import GAITS, Clock, Gait
from quaddyn.locomotion.grip import Grip
from quaddyn.locomotion.ground import GroundPlane
from quaddyn.locomotion.leg_room import LegRoom
from quaddyn.locomotion.poses import Poses
from quaddyn.locomotion.proportions import FEET
from quaddyn.locomotion.slope_statics import SAVED, SlopeStatics, finished, stances
from quaddyn.locomotion.slope_verdict import SlopeVerdict
from quaddyn.locomotion.trunk import CROUCH, DEEP_CROUCHES, Trunk
from quaddyn.robot.configuration import turned
from quaddyn.simulation.terrain import Plane
from quaddyn.wbc import WholeBodyController


@pytest.fixture(scope="module")
def controller() -> LocomotionController:
    return LocomotionController(qd.load("go2"))


def test_friction_holds_up_to_the_middle_of_a_face(controller: LocomotionController) -> None:
    most = np.arctan(0.5 * np.sqrt(0.5))
    assert controller.slope_limit(0.99 * most, friction=0.5) == ""
    assert controller.slope_limit(1.01 * most, friction=0.5) == "friction of the ground"
    assert controller.slope_limit(1.01 * most, friction=0.8) == ""
    assert controller.slope_limit(np.radians(20.0)) != ""  # with the friction that is assumed, 0.4


def test_weight_beside_the_feet_topples_unless_a_step_catches_it(controller: LocomotionController) -> None:
    """What is beside the middle of the feet grows by e in sqrt(h / g) while a trot's foot swings."""
    p, trot = controller.proportions, GAITS["trot"]
    growth = np.exp(trot.period * (1.0 - trot.duty) * p.time * np.sqrt(p.gravity / p.height))
    width = np.abs(p.stance[:, 1]).min()
    tip = float(np.arctan(SAVED * (width + OUTWARDS * p.length) / (growth * p.height)))
    assert tip > np.arctan(width / p.height)  # where statics alone would have it fall
    for side in (0.5 * np.pi, -0.5 * np.pi):
        assert controller.slope_limit(0.98 * tip, side, friction=1.0) == ""
        assert controller.slope_limit(1.02 * tip, side, friction=1.0) == "topples where it stands"
    assert controller.slope_limit(1.02 * tip, 0.0, friction=1.0) == ""  # it is longer than wide


def test_who_stands_wide_enough_does_not_topple_however_slow_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load("go2")
    statics, p = SlopeStatics(robot, Proportions.of(robot)), Proportions.of(robot)
    monkeypatch.setattr(slope_statics, "SAVED", 0.0)
    tip, limits = float(np.arctan(np.abs(p.stance[:, 1]).min() / p.height)), np.full(robot.nu, 1e3)
    for share, said in ((0.95, ""), (1.05, "topples where it stands")):
        assert statics.limit(GAITS["trot"], np.zeros(3), share * tip, 0.5 * np.pi, 1.0, limits) == said


def test_trunks_are_as_low_on_felt_slopes_as_legs_reach() -> None:
    """HyQ's knees do not fold far enough for a foot ahead uphill.  On known ground trunks stay where they were."""
    robot = qd.load("anymal_c")
    p = Proportions.of(robot)
    assert SlopeStatics(qd.load("hyq"), Proportions.of(qd.load("hyq"))).crouch == CROUCH
    deep = SlopeStatics(robot, p).crouch
    assert deep == DEEP_CROUCHES[0] > CROUCH
    state = qd.Dynamics(robot).update(turned(np.array(robot.q_home), Plane.slope(0.3).tilt), np.zeros(robot.nv))
    heights = []
    for share in (CROUCH, deep):
        for known in (False, True):
            body = WholeBodyController(robot)
            trunk = Trunk(p, body, Grip(body), p.height, deep=share)
            ground = GroundPlane.under(state.origins(FEET), p.radii, 1.0)
            if known:
                ground.follow(1e-3, 1.0, 1.0, 1.0, 0.0)
            assert ground.known is known
            course = Course(ground.points[:, :2].mean(axis=0), 0.0)
            reference = Preview(p).reference(Clock("trot", p.time), course, ground.points[:, :2], p.stance)
            trunk.guide(reference, course, ground, tuple(state.com), (0.0, 0.0, 0.0), np.eye(3), 1e-3)
            heights.append(float(body.tasks["com"].reference_position[2]))  # type: ignore[attr-defined]
    steep = np.sin(np.arctan(np.hypot(*ground.slope)))
    assert heights[1] == pytest.approx(heights[0], abs=1e-4) == heights[3]
    assert heights[0] - heights[2] == pytest.approx((deep - CROUCH) * p.length * steep, rel=5e-3)  # and trim


def test_torques_are_those_that_hold_the_robot(controller: LocomotionController) -> None:
    """On level ground a motor too weak for half the weight is named; the limit is the torque that standing takes."""
    robot, p = controller.robot, controller.proportions
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
        assert statics.limit(trot, np.zeros(3), 0.0, 0.0, 0.8, limits) == said


def test_long_strides_and_steep_slopes_are_out_of_reach(controller: LocomotionController) -> None:
    statics = SlopeStatics(controller.robot, controller.proportions)
    limits, far = np.full(controller.robot.nu, 1e3), np.array([20.0, 0.0, 0.0])
    assert statics.limit(GAITS["trot"], far, 0.1, 0.0, 0.8, limits).startswith("reach of ")
    assert statics.limit(GAITS["trot"], np.zeros(3), 1.0, 0.0, 3.0, limits) == "steeper than ground is believed to be"


def test_sets_of_feet_that_a_gait_stands_on() -> None:
    assert set(stances(GAITS["trot"])) == {("FL", "RR"), ("FR", "RL"), ("FL", "FR", "RL", "RR")}
    assert {len(each) for each in stances(GAITS["crawl"])} == {3, 4}
    assert stances(dataclasses.replace(GAITS["trot"], duty=1.0)) == {("FL", "FR", "RL", "RR"): 1.0}


def test_a_foot_that_stands_alone_pushes_half_as_hard_as_two() -> None:
    """And nothing is asked of any set of feet but what the thrust is while it stands."""
    gait = Gait("own", 1.9, 0.4, (0.1, 0.3, 0.7, 0.9))
    found, push = stances(gait), gait.thrust.push
    assert max(found.values()) == push.max()
    alone, pairs = (max(most for feet, most in found.items() if len(feet) == n) for n in (1, 2))
    assert alone == pytest.approx(0.5 * push.max(), rel=0.1) and pairs == push.max()
    assert found["RL",] == pytest.approx(max(push[round(0.7 * len(push)) : round(0.9 * len(push))]), rel=0.1)
    assert all(stances(GAITS["trot"])[pair] == 1.0 for pair in (("FL", "RR"), ("FR", "RL")))


@pytest.mark.parametrize("wrong", [{"angle": -0.1}, {"angle": 1.6}, {"direction": np.inf}, {"friction": -1.0}])
def test_slopes_that_are_none_are_refused(controller: LocomotionController, wrong: dict[str, float]) -> None:
    with pytest.raises(qd.ArgumentError):
        controller.slope_limit(**{"angle": 0.1, **wrong})


def tilted(grip: Grip, rise: float) -> None:
    """Ground that rises forward."""
    size = np.hypot(1.0, rise)
    grip.follow([(-rise / size, 0.0, 1.0 / size)] * 4)


def verdict_on(controller: LocomotionController, *, sure: float | None = None) -> tuple[SlopeVerdict, Grip]:
    robot, p = controller.robot, controller.proportions
    grip = Grip(WholeBodyController(robot))
    if sure is not None:
        grip.told = sure
    return SlopeVerdict(SlopeStatics(robot, p), p.speed), grip


def test_friction_that_is_known_stops_and_that_is_assumed_does_not(controller: LocomotionController) -> None:
    trot, ahead, limits = GAITS["trot"], np.array([0.3, 0.0, 0.0]), np.full(controller.robot.nu, 1e3)
    verdict, grip = verdict_on(controller)
    assert verdict.within(trot, ahead, grip, 0.0, limits)[0] is ahead  # level
    tilted(grip, 0.35)
    assert verdict.within(trot, ahead, grip, 0.0, limits)[1] == ""
    grip.show(SAFE * 0.4)
    cut, said = verdict.within(trot, ahead, grip, 0.0, limits)
    assert said == "friction of the ground" and not cut.any()
    grip.show(SAFE * 0.6)  # not enough for who has slipped
    assert verdict.within(trot, ahead, grip, 0.0, limits)[1] != ""
    grip.show(SAFE * 0.8)
    assert verdict.within(trot, ahead, grip, 0.0, limits)[1] == ""
    grip.told = 0.4
    assert verdict.within(trot, ahead, grip, 0.0, limits)[1] == "friction of the ground"
    still = np.zeros(3)
    assert verdict.within(trot, still, grip, 0.0, limits) == (still, "")
    tilted(grip, 0.25)
    assert verdict.within(trot, ahead, grip, 0.0, limits)[1] == ""


def test_motors_too_weak_for_the_ends_of_strides_allow_shorter_ones(controller: LocomotionController) -> None:
    """In the background, a leg a tick, and the same as is said at once."""
    robot, trot, ahead, uphill = controller.robot, GAITS["trot"], np.array([0.6, 0.0, 0.0]), np.array([0.3, 0.0])
    statics = SlopeStatics(robot, controller.proportions)

    def able(share: float, strength: float) -> bool:
        return not finished(statics.legs(trot, share * ahead, uphill, strength * robot.effort_limits))

    strengths = np.geomspace(1.0, 0.05, 200)  # the weaker the motors, the less they are able to do
    strength = strengths[bisect.bisect_left(strengths, True, key=lambda s: not able(1.0, s))]
    assert able(0.25, strength)
    verdict, grip = verdict_on(controller)
    tilted(grip, 0.3)
    shares = []
    for _ in range(300):
        cut, said = verdict.within(trot, ahead, grip, 0.0, strength * robot.effort_limits)
        shares.append(cut[0] / ahead[0])
    assert shares[0] == 1.0 and shares[-1] < 1.0 and said.startswith("torque of ")
    assert able(shares[-1], strength) and not able(shares[-1] + 0.25, strength)
    cut, said = verdict.within(trot, ahead, grip, 0.0, strength * robot.effort_limits)  # nothing left to find out
    assert cut[0] == shares[-1] * ahead[0]
    tilted(grip, 0.02)
    assert verdict.within(trot, ahead, grip, 0.0, strength * robot.effort_limits)[0] is ahead


def test_a_robot_on_a_slope_that_is_told_to_be_too_slippery_stands_and_says_so() -> None:
    robot = qd.load("solo12")
    controller, dynamics = LocomotionController(robot, dt=2e-3, friction=0.4), qd.Dynamics(robot)
    ground, p = Plane.slope(np.radians(19.0)), controller.proportions
    plant = qd.Simulation(robot, dt=2e-3, friction=0.8, terrain=[ground])
    plant.reset(turned(np.array(robot.q_home), ground.tilt), np.zeros(robot.nv))
    for k in range(700):
        wanted = 0.25 * p.speed if k > 150 else 0.0
        command = controller.compute(dynamics.update(np.array(plant.q), np.array(plant.v)), (wanted, 0.0, 0.0))
        plant.step(command.tau)
    assert command.mode is Mode.STANDING and command.limited
    assert command.limit == "friction of the ground" and not command.commanded.any()
    assert "friction of the ground" in str(command)


@pytest.mark.parametrize("angle", [15.0, 25.0])
def test_who_begins_on_a_slope_is_not_dropped_to_the_height_it_has_there(angle: float) -> None:
    robot = qd.load("solo12")
    slope = Plane.slope(np.radians(angle), heading=0.5 * np.pi)
    controller, dyn = LocomotionController(robot), qd.Dynamics(robot)
    q, weight = turned(np.array(robot.q_home), slope.tilt), robot.mass * controller.proportions.gravity
    command = controller.compute(dyn.update(q, np.zeros(robot.nv)), (0.0, 0.0, 0.0))
    assert sum(force[2] for force in command.forces.values()) > 0.95 * weight


def test_of_legs_that_carry_the_same_the_first_one_is_named_whatever_the_rounding() -> None:
    robot = qd.load("small_quadruped")  # left and right are mirror images of each other to the last digit
    p = Proportions.of(robot)
    statics, named = SlopeStatics(robot, p), set()
    for gait in ("trot", "walk", "crawl"):
        for degrees in (5.0, 10.0, 15.0, 20.0):
            for uphill in (0.0, np.pi):
                weak = 0.2 * robot.effort_limits
                named.add(statics.limit(GAITS[gait], np.array([0.3, 0, 0]), np.radians(degrees), uphill, 2.0, weak))
    motors = {said.removeprefix("torque of ") for said in named if said.startswith("torque of ")}
    right = {joint for foot in ("FR", "RR") for joint in robot.legs[foot].joints}
    assert motors and not motors & right
    room = LegRoom(robot, p, Poses(robot))
    assert {room.share((1.0, 1.0), [(ahead, 0.0)] * 4)[1] for ahead in (0.1, -0.1, 0.05, 0.033)} <= {"FL", "RL"}
