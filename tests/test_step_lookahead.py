"""Velocity limits by steps ahead: joint speed and range, reported reasons, and stops before high steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from slow_parameters import NIGHT

import quaddyn as qd
from quaddyn.kinematics import LegKinematics
from quaddyn.locomotion import LocomotionController
from quaddyn.locomotion.foothold_map import FootholdMap
from quaddyn.locomotion.gait import GAITS
from quaddyn.locomotion.morphology import FEET, Morphology
from quaddyn.locomotion.step_lookahead import (
    LIFT_POSITIONS,
    STEP_JOINT_SPEED,
    STEP_LEG_REACH,
    STEP_TOO_HIGH,
    UNLIMITED_HEIGHT,
    StepLookahead,
    fill_ditches,
    measure_foot_lift,
)
from quaddyn.locomotion.velocity_limits import LegWorkspace, VelocityLimits
from quaddyn.robot.legs import make_limbs
from quaddyn.urdf.tree import Array

TROT = GAITS["trot"]


@pytest.fixture(scope="module")
def anymal_c() -> qd.Robot:
    return qd.load("anymal_c")


def stairs(rise: float, tread: float, first: float, length: float) -> object:
    """Heights of four stairs along x, in leg lengths."""

    def height(x: Array, y: Array) -> Array:
        return rise * length * np.clip(np.floor((x / length - first) / tread) + 1.0, 0.0, 4.0)

    return height


def steps_of(robot: qd.Robot) -> StepLookahead:
    p = Morphology.from_robot(robot)
    return StepLookahead(robot, p, VelocityLimits(p, LegWorkspace(robot, p, None)))


def limit_velocity(
    robot: qd.Robot, steps: StepLookahead, heights: object, velocity: tuple[float, float, float], at: float = 0.0
) -> tuple[Array, str]:
    """Limits a velocity [sqrt(g l), rad/s] at a position along x [l]."""
    p = Morphology.from_robot(robot)
    known = FootholdMap(heights, p)  # type: ignore[arg-type]
    known.advance(at * p.length, 0.0, 0.0)
    asked = np.array(velocity) * [p.speed_scale, p.speed_scale, 1.0]
    out, limit = steps.clamp_velocity(TROT, asked, "", known.window, (at * p.length, 0.0), 0.0)
    return out / [p.speed_scale, p.speed_scale, 1.0], limit


def velocity_fraction_and_limit(
    robot: qd.Robot, heights: object, speed: float = 0.25, at: float = 0.0
) -> tuple[float, str]:
    """The remaining fraction of a forward velocity [sqrt(g l)], and the reason of the limit."""
    out, limit = limit_velocity(robot, steps_of(robot), heights, (speed, 0.0, 0.0), at)
    return float(out[0] / speed), limit


def test_only_edges_across_the_path_limit_the_velocity(anymal_c: qd.Robot) -> None:
    p = Morphology.from_robot(anymal_c)
    unit = p.length
    for name, heights in {
        "level": lambda x, y: 0.0 * x,
        "slope": lambda x, y: 0.46 * x - 0.3 * y,
        "waves": lambda x, y: 0.15 * unit * np.sin(x / unit * 1.5) * np.cos(y / unit),
        "a box beside the way": lambda x, y: 0.15 * unit * ((x > unit) & (y > 0.1 * unit)),
        "a narrow ditch": lambda x, y: -unit * ((x > unit) & (x < 1.2 * unit)),
        "unknown": lambda x, y: np.full(x.shape, np.nan),
    }.items():
        assert velocity_fraction_and_limit(anymal_c, heights) == (1.0, ""), name
    for name, heights in {
        "a wide ditch": lambda x, y: -unit * ((x > unit) & (x < 1.6 * unit)),
        "a cliff": lambda x, y: np.where(x > unit, -unit, 0.0),
        "a wall": lambda x, y: np.where(x > unit, 2.0 * unit, 0.0),
    }.items():
        share, limit = velocity_fraction_and_limit(anymal_c, heights)
        assert share == 0.0 and limit == STEP_TOO_HIGH, name
        assert velocity_fraction_and_limit(anymal_c, heights, speed=-0.25)[0] == 1.0, f"{name} is behind"


def test_slow_joints_reduce_the_velocity_at_steps_and_stop_at_high_ones(anymal_c: qd.Robot, go2: qd.Robot) -> None:
    for robot, rise, least, most, said in (
        (anymal_c, 0.15, 0.8, 0.95, STEP_JOINT_SPEED),
        (anymal_c, 0.25, 0.0, 0.0, STEP_JOINT_SPEED),
        (anymal_c, -0.25, 0.8, 1.0, STEP_JOINT_SPEED),
        (go2, 0.25, 1.0, 1.0, ""),
        (qd.load("solo12"), 0.25, 1.0, 1.0, ""),
        (qd.load("solo12"), 0.5, 0.0, 0.0, STEP_TOO_HIGH),
    ):
        p = Morphology.from_robot(robot)
        share, limit = velocity_fraction_and_limit(robot, stairs(rise, 0.6, 1.0, p.length))
        assert least <= share <= most, (robot.name, rise, share)
        assert limit == said


def test_steps_ahead_of_the_rear_feet_slow_the_robot_but_do_not_stop_it(anymal_c: qd.Robot) -> None:
    p = Morphology.from_robot(anymal_c)
    far = float(np.abs(p.nominal_stance[:, 0]).max()) / p.length
    up = stairs(0.3, 9.0, 1.0, p.length)
    shares = [velocity_fraction_and_limit(anymal_c, up, at=x)[0] for x in (0.0, 0.95, 1.05, 0.9 + far, 1.05 + far)]
    assert shares == [0.0, 0.0, 0.3, 0.3, 1.0]
    assert velocity_fraction_and_limit(anymal_c, up, speed=-0.2, at=0.9 - far)[0] == 1.0  # leaves the wall


def test_unknown_terrain_ends_at_the_known_height_behind_it(anymal_c: qd.Robot) -> None:
    unit = Morphology.from_robot(anymal_c).length

    def shadow(rise: float, first: float, last: float) -> object:
        return lambda x, y: np.where(
            (x > first * unit) & (x < last * unit), np.nan, np.where(x > unit, rise * unit, 0.0)
        )

    for rise, first, last in ((0.3, 0.95, 1.05), (-2.0, 1.0, 1.4), (0.5, 0.8, 1.2)):
        assert velocity_fraction_and_limit(anymal_c, shadow(rise, first, last), at=0.2)[0] == 0.0, (rise, first, last)
    assert velocity_fraction_and_limit(anymal_c, shadow(-2.0, 1.0, 9.0)) == (1.0, "")  # unknown: blind locomotion


def test_stopped_robot_turns_in_place_and_restarts_only_at_clearly_lower_steps(anymal_c: qd.Robot) -> None:
    unit = Morphology.from_robot(anymal_c).length
    steps, shares = steps_of(anymal_c), []
    for rise in (0.26, 0.235, 0.22, 0.19, 0.22, 0.235):
        out, limit = limit_velocity(anymal_c, steps, stairs(rise, 0.6, 1.0, unit), (0.25, 0.0, 0.4))
        shares.append(float(out[0]))
        assert out[2] == (0.4 if not out[0] else pytest.approx(0.4 * out[0] / 0.25))
        assert limit == STEP_JOINT_SPEED
    alone = [velocity_fraction_and_limit(anymal_c, stairs(rise, 0.6, 1.0, unit))[0] for rise in (0.235, 0.22)]
    assert shares[:3] == [0.0, 0.0, 0.0] and shares[3] > 0.0 and shares[4] > 0.0 and alone[1] > 0.0


def test_denormal_velocities_are_accepted(anymal_c: qd.Robot) -> None:
    p = Morphology.from_robot(anymal_c)
    out, _ = limit_velocity(anymal_c, steps_of(anymal_c), stairs(0.15, 0.6, 1.0, p.length), (5e-324, 0.0, 0.4))
    assert out[2] == pytest.approx(0.4)


def test_extreme_heights_are_steps_that_are_too_high(go2: qd.Robot) -> None:
    for far in (1e200, -1e200, np.inf, -np.inf):
        assert velocity_fraction_and_limit(go2, lambda x, y, far=far: np.where(x > 0.5, far, 0.0))[1] == STEP_TOO_HIGH


def test_velocity_limit_does_not_increase_with_edge_height(anymal_c: qd.Robot) -> None:
    p = Morphology.from_robot(anymal_c)
    shares = [
        velocity_fraction_and_limit(anymal_c, stairs(rise, 0.6, 1.0, p.length))[0]
        for rise in np.linspace(0.0, 0.4, 21 if NIGHT else 11)
    ]
    assert all(b <= a for a, b in itertools.pairwise(shares)) and shares[0] == 1.0 and shares[-1] == 0.0


def test_short_joint_ranges_are_named_as_the_limit() -> None:
    hyq = qd.load("hyq")
    p = Morphology.from_robot(hyq)
    low, high = (velocity_fraction_and_limit(hyq, stairs(rise, 0.6, 1.0, p.length)) for rise in (0.15, 0.2))
    assert 0.3 <= high[0] < 0.8 < low[0] < 1.0
    assert low[1].startswith(STEP_LEG_REACH) and high[1].startswith(STEP_LEG_REACH)
    assert velocity_fraction_and_limit(hyq, stairs(0.25, 0.6, 1.0, p.length))[0] == 0.0


@pytest.mark.parametrize("name", ["hyq", "go2", "a1"])
def test_foot_lift_agrees_with_inverse_kinematics(name: str) -> None:
    robot = qd.load(name)
    p = Morphology.from_robot(robot)
    for i, foot in enumerate(FEET):
        room, leg = measure_foot_lift(make_limbs(robot)[foot].chain, i, p), LegKinematics(robot, foot)
        base = np.array([0.0, 0.0, p.height]) + p.base_offset
        for k in (6, 8, 10):
            heights = np.linspace(0.0, 1.2, 121)
            at = np.empty((len(heights), 3))
            at[:, :2] = p.nominal_stance[i] + [LIFT_POSITIONS[k] * p.length, 0.0]
            at[:, 2] = float(p.radii[i]) + heights * p.length
            found = leg.inverse((at - base) @ p.heading.T)
            good = np.asarray(found.reached) & np.asarray(found.within_limits)
            # The search covers all branches and nearby positions: its result is at least that of the home branch.
            if good.any():
                upto = heights[np.argmin(good)] if not good.all() else heights[-1]
                assert room[k] > upto - 0.06, (foot, k)
    hyq_rear = measure_foot_lift(
        make_limbs(qd.load("hyq"))["RL"].chain, FEET.index("RL"), Morphology.from_robot(qd.load("hyq"))
    )
    assert hyq_rear[12] < hyq_rear[8] < 0.5  # a rear leg lifts its foot less far ahead than below its hip


def fill(heights: list[float] | Array, count: int) -> Array:
    out = np.array(heights)
    fill_ditches(out, count, np.empty_like(out))
    return out


def test_narrow_ditches_are_filled_and_unknown_heights_are_kept() -> None:
    nan = np.nan
    out = fill([0.0, 0.0, -1.0, -1.0, 0.0, 0.5, 0.5, nan, 0.5, 0.5], 3)
    assert np.array_equal(out, [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, nan, 0.5, 0.5], equal_nan=True)
    step = np.repeat([0.0, 0.2, 0.4], 5)
    assert np.array_equal(fill(step, 4), step)


def test_robot_stops_before_stairs_that_are_too_high_and_reports_it(anymal_c: qd.Robot) -> None:
    p = Morphology.from_robot(anymal_c)
    heights = stairs(0.25, 0.6, 1.6, p.length)
    dt = 2e-3 if NIGHT else 4e-3
    plant, dyn = qd.Simulation(anymal_c, dt=dt), qd.Dynamics(anymal_c)  # level: it never gets to the first step
    controller = LocomotionController(anymal_c, dt=dt, terrain=heights)  # type: ignore[arg-type]
    speed = 0.25 * p.speed_scale
    for _ in range(round(5.0 / dt)):
        command = controller.compute(dyn.update(plant.q, plant.v), (speed, 0.0, 0.0))
        plant.step(command.tau)
    assert command.limit_reason == STEP_JOINT_SPEED and not command.clamped_velocity.any()
    assert command.mode.value == "standing"
    assert 0.2 * p.length < plant.q[0] < 1.6 * p.length - np.abs(p.nominal_stance[:, 0]).max()


def test_foot_lift_of_legs_with_many_joints_is_unlimited() -> None:
    centauro = qd.load("centauro")
    chain = make_limbs(centauro)["FL"].chain
    assert chain.n > 3 and (measure_foot_lift(chain, 0, Morphology.from_robot(centauro)) == UNLIMITED_HEIGHT).all()
    assert (
        velocity_fraction_and_limit(centauro, stairs(0.15, 0.6, 1.0, Morphology.from_robot(centauro).length))[0] > 0.0
    )


@pytest.mark.parametrize("width", range(1, 7))
def test_ditches_up_to_a_width_are_filled_to_their_lower_border(width: int) -> None:
    for size in (width, width + 1):
        heights = np.r_[np.zeros(10), np.full(size, -1.0), np.full(10, 0.2)]
        filled = heights.copy()
        fill_ditches(filled, width, np.empty(len(heights)))
        assert filled[10 : 10 + size] == pytest.approx(0.0 if size == width else -1.0)
        assert (filled[:10] == heights[:10]).all() and (filled[10 + size :] == heights[10 + size :]).all()
