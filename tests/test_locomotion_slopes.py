"""What a controller says of slopes before it is there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.locomotion import LocomotionController
from quaddyn.locomotion.gait import GAITS
from quaddyn.locomotion.slope_statics import SlopeStatics, stances


@pytest.fixture(scope="module")
def controller() -> LocomotionController:
    return LocomotionController(qd.load("go2"))


def test_friction_holds_up_to_the_middle_of_a_face(controller: LocomotionController) -> None:
    most = np.arctan(0.5 * np.sqrt(0.5))
    assert controller.slope_limit(0.99 * most, friction=0.5) == ""
    assert controller.slope_limit(1.01 * most, friction=0.5) == "friction of the ground"
    assert controller.slope_limit(1.01 * most, friction=0.8) == ""
    assert controller.slope_limit(np.radians(20.0)) != ""  # with the friction that is assumed, 0.4


def test_weight_beside_the_feet_topples(controller: LocomotionController) -> None:
    p = controller.proportions
    tip = float(np.arctan(np.abs(p.stance[:, 1]).min() / p.height))
    for side in (0.5 * np.pi, -0.5 * np.pi):
        assert controller.slope_limit(0.95 * tip, side, friction=1.0) == ""
        assert controller.slope_limit(1.05 * tip, side, friction=1.0) == "topples where it stands"
    assert controller.slope_limit(1.05 * tip, 0.0, friction=1.0) == ""  # it is longer than wide


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
    assert stances(dataclasses.replace(GAITS["trot"], duty=1.0)) == [("FL", "FR", "RL", "RR")]


@pytest.mark.parametrize("wrong", [{"angle": -0.1}, {"angle": 1.6}, {"direction": np.inf}, {"friction": -1.0}])
def test_slopes_that_are_none_are_refused(controller: LocomotionController, wrong: dict[str, float]) -> None:
    with pytest.raises(qd.ArgumentError):
        controller.slope_limit(**{"angle": 0.1, **wrong})
