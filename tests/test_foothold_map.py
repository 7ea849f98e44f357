"""Locomotion with a terrain map: footholds, swing clearance, updates of the map window, and stairs."""

from __future__ import annotations

import functools
import re
import warnings

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.kinematics import LegKinematics
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.foothold_map import FootholdMap
from quaddyn.locomotion.gait import GaitScheduler
from quaddyn.locomotion.ground_plane import GroundPlane, advance_on_map, advance_slope
from quaddyn.locomotion.leg_margins import USABLE_REACH_FRACTION, compute_required_lowering, measure_leg_lengths
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.path_reference import PathReference
from quaddyn.locomotion.swing import (
    OVER_FIRST_TIMINGS,
    UNIFORM_TIMING,
    UP_FIRST_TIMINGS,
    SwingTrajectory,
    allocate_swings,
)

LEVEL = np.zeros(2)


@functools.cache
def proportions() -> Morphology:
    return Morphology.from_robot(qd.load("go2"))


def foothold_map(terrain: object) -> FootholdMap:
    out = FootholdMap(terrain, proportions())  # type: ignore[arg-type]
    out.advance(0.0, 0.0, 1e-3)
    return out


def test_map_in_millimeters_gives_one_warning() -> None:
    def rough(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(y > 9.0, np.inf, 50.0 * np.sin(9.0 * x) ** 2)  # 50 mm

    with pytest.warns(RuntimeWarning, match=r"^terrain: the height .* in millimeters; pass meters") as caught:
        whole = foothold_map(rough)
        whole.advance(9.0, 9.0, 1e-3)
    assert len(caught) == 1
    foothold_map(lambda x, y: np.where(x > 1.0, 8.0, 1e-3 * rough(x, y)))  # a wall; warnings are errors in tests


def test_footholds_keep_distance_from_edges() -> None:
    length = proportions().length
    step = foothold_map(lambda x, y: np.where(x > 0.15, 0.1, 0.0))
    for wanted, height in ((0.135, 0.0), (0.165, 0.1)):
        x, y, z, _ = step.choose_foothold(wanted, 0.0)  # type: ignore[misc]
        assert abs(x - 0.15) > 0.06 * length and abs(y) < 0.03 * length and z == height
        assert abs(x - wanted) < 0.2 * length


def test_unknown_terrain_has_no_foothold_or_normal() -> None:
    half = foothold_map(lambda x, y: np.where(x > 0.2, np.nan, 0.0))
    assert half.choose_foothold(0.3, 0.0) is None and half.normal(0.3, 0.0, 0.0) is None
    assert half.choose_foothold(0.0, 0.0) is not None
    assert half.choose_foothold(50.0, 0.0) is None  # outside of the window
    near = half.choose_foothold(0.19, 0.0)
    assert near is not None and near[0] < 0.19  # not at the border of the known terrain


@pytest.mark.parametrize("beside", [0.005, 0.02, 0.05])
def test_contact_normal_next_to_an_edge_is_that_of_the_surface_below_the_foot(beside: float) -> None:
    """Holds on both sides of the edge and on slopes; the lift direction points away from the riser."""
    steep = np.array([-0.2, 0.1, 1.0]) / np.sqrt(1.05)
    cliff = foothold_map(lambda x, y: 0.2 * x - 0.1 * y + np.where(x < 0.15, 0.0, -0.2))
    for x, drop in ((0.15 - beside, 0.0), (0.15 + beside, -0.2)):
        normal = cliff.normal(x, 0.03, 0.2 * x - 0.003 + drop)
        assert normal is not None and np.abs(normal - steep).max() < 1e-9
    away = foothold_map(lambda x, y: np.where(x < 0.15, 0.0, 0.1)).lift_direction(0.1, 0.03)
    assert away is not None and away[0] < -0.1  # away from the riser in front


def test_swing_clearance_exceeds_obstacles_on_the_path() -> None:
    start, end = np.array([-0.1, 0.0, 0.02]), np.array([0.1, 0.0, 0.02])
    assert foothold_map(lambda x, y: 0.0 * x).compute_clearance(start, end, 0.02, 0.03, LEVEL) == 0.03
    wall = foothold_map(lambda x, y: np.where(np.abs(x) < 0.02, 0.1, 0.0))
    assert 0.1 < wall.compute_clearance(start, end, 0.02, 0.01, LEVEL) < 0.2
    assert wall.compute_clearance(start, end, 0.02, 0.19, LEVEL) >= 0.19
    assert foothold_map(lambda x, y: np.nan * x).compute_clearance(start, end, 0.02, 0.03, LEVEL) == 0.03


def test_swing_timing_at_edges_reduces_clearance() -> None:
    """With the chosen timing the foot sphere clears the step, and the swing is lower than with uniform timing."""
    length, radius = proportions().length, 0.02
    for rise in (0.25 * length, -0.25 * length):
        step = foothold_map(lambda x, y, rise=rise: np.where(x > 0.0, rise, 0.0))
        start = np.array([-0.06 if rise > 0.0 else -0.3, 0.0, radius])
        end = np.array([0.3 if rise > 0.0 else 0.06, 0.0, radius + rise])
        timing = step.choose_swing_timing(start, end, radius, 0.06, LEVEL)
        high = step.compute_clearance(start, end, radius, 0.06, LEVEL, timing)
        assert timing in (UP_FIRST_TIMINGS if rise > 0.0 else OVER_FIRST_TIMINGS)
        assert high < step.compute_clearance(start, end, radius, 0.06, LEVEL)
        swing = SwingTrajectory(start, np.zeros(3), duration=0.2, clearance=high, touchdown_speed=0.1)
        swing.timing = timing
        while swing.progress < 1.0 - 1e-9:
            swing.advance(1e-3, end)
            x, _, z = swing.position
            beside, above = -np.sign(rise) * x, z - max(rise, 0.0)  # relative to the upper level
            assert np.hypot(max(beside, 0.0), max(above, 0.0)) > 0.9 * radius
            assert z > min(rise, 0.0) + 0.9 * radius
        np.testing.assert_allclose(swing.position, end, atol=1e-3)
    assert foothold_map(lambda x, y: 0.0 * x).choose_swing_timing(start, end, radius, 0.06, LEVEL) is UNIFORM_TIMING


def test_ground_plane_follows_planned_footholds_continuously() -> None:
    """Height and slope are continuous, and the trunk is lowered by the requested distance."""
    plane = GroundPlane(np.array([[0.2, 0.1, 0.0], [0.2, -0.1, 0.0], [-0.2, 0.1, 0.0], [-0.2, -0.1, 0.0]]))
    dt, before, height = 1e-3, plane.slope.copy(), 0.0
    for k in range(3000):
        share = min(1.0, k / 200)
        plane.set_next_foothold(0, 0.2, 0.1, -0.08 * share)
        advance_on_map(plane.state, dt, 0.15, 0.05, 0.2, 0.01)
        low = plane.height(0.0, 0.0) - plane.state.lowering
        assert np.abs(plane.slope - before).max() < 0.01 and low - height == pytest.approx(
            plane.state.climb_rate * dt, abs=1e-12
        )
        assert abs(plane.state.climb_rate) < 1.0
        before, height = plane.slope.copy(), low
    assert plane.height(0.0, 0.0) == pytest.approx(-0.02, abs=1e-6)
    assert plane.state.lowering == pytest.approx(0.01, abs=1e-6)
    np.testing.assert_allclose(plane.slope, [-0.1, -0.2], atol=1e-6)
    advance_slope(plane.state, 0.01)
    assert plane.state.lowering == plane.state.climb_rate == 0.0


def test_swing_clearance_on_a_slope_equals_that_on_level_ground() -> None:
    slope = np.array([-0.4, 0.25])
    hill = foothold_map(lambda x, y: slope[0] * x + slope[1] * y)
    up = np.array([*-slope, 1.0]) / np.linalg.norm([*slope, 1.0])
    for x in np.linspace(-0.05, 0.05, 11):
        start, end = (np.array([a, 0.1, slope @ [a, 0.1]]) + 0.02 * up for a in (x, x + 0.08))
        assert hill.compute_clearance(start, end - 0.004 * up, 0.02, 0.03, slope) == 0.03


def test_map_window_follows_the_robot_and_is_refreshed() -> None:
    asked = []

    class Ground:
        def height(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
            asked.append((float(x.mean()), float(y.mean())))
            return np.zeros_like(x)

    where, p = foothold_map(Ground()), proportions()
    where.advance(0.1 * p.length, 0.0, 1e-3)
    assert len(asked) == 1
    where.advance(2.0 * p.length, 0.0, 1e-3)
    assert len(asked) == 2 and asked[1][0] == pytest.approx(2.0 * p.length, abs=0.05 * p.length)
    where.advance(2.0 * p.length, 0.0, 2.9 * p.time_scale)
    assert len(asked) == 2
    where.advance(2.0 * p.length, 0.0, 0.2 * p.time_scale)
    assert len(asked) == 3


def test_map_window_is_read_in_parts_and_replaced_at_once() -> None:
    """The previous window is used until the next one is complete."""
    p, asked = proportions(), []

    def ground(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        asked.append(x.size)
        return 0.1 * np.sin(5.0 * x) * np.cos(3.0 * y)

    where, dt = foothold_map(ground), 2e-3
    before, rows, gone = where.window, len(where.window.heights), 0.25 * p.length
    ticks = 0
    while where.window is before:
        where.advance(gone, 0.0, dt)
        ticks += 1
    assert (
        0.7 < ticks * dt / (0.25 * p.time_scale) < 1.1 and sum(asked[1:]) == rows * rows + rows
    )  # one row is read twice
    assert max(asked[1:]) < 0.1 * rows * rows
    whole = FootholdMap(ground, p)
    whole.advance(gone, 0.0, dt)
    for a, b in zip(where.window, whole.window, strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def test_terrain_shift_while_reading_causes_no_edge() -> None:
    p, shift = proportions(), [0.0]
    where = foothold_map(lambda x, y: np.where(x > 1e3, np.inf, 0.0 * x + shift[0]))
    before, ticks = where.window, 0
    while where.window is before:
        where.advance(0.25 * p.length, 0.0, 1e-3)
        ticks += 1
        shift[0] = 0.08 if ticks > 20 else 0.0
    assert ticks > 30 and np.all(where.window.heights == 0.08) and np.all(where.window.slopes[10:-10, 10:-10] == 0.0)


def test_failed_terrain_query_is_repeated_at_the_next_tick() -> None:
    fails = [True]

    def ground(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if fails:
            fails.clear()
            raise OSError("no camera")
        return 0.0 * x

    where = FootholdMap(ground, proportions())
    raises(OSError, "camera", where.advance, 0.0, 0.0, 1e-3)
    where.advance(0.0, 0.0, 1e-3)
    assert np.all(where.window.heights == 0.0)


def test_reset_controller_reads_the_terrain_again() -> None:
    robot, high = qd.load("go2"), [0.0]
    controller, dynamics = LocomotionController(robot, terrain=lambda x, y: 0.0 * x + high[0]), qd.Dynamics(robot)
    state = dynamics.update(robot.q_home, np.zeros(robot.nv))
    controller.compute(state)
    high[0] = -0.1
    controller.reset()
    controller.compute(state)
    ground = controller._quadruped.foothold_map
    assert ground is not None and np.all(ground.window.heights == -0.1)


def test_foot_blocked_by_a_known_step_is_placed_before_it() -> None:
    """The foot is placed on the known terrain below the step, and the plane of the feet includes that foothold."""
    robot, p = qd.load("go2"), proportions()
    dynamics, edge = qd.Dynamics(robot), 0.3 * p.length
    controller = LocomotionController(robot, dt=2e-3, terrain=lambda x, y: np.where(x > edge, 0.1, 0.0))
    plant, x = qd.Simulation(robot, dt=2e-3), edge - 0.01
    for _ in range(2000):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.2, 0.0, 0.0))
        swing = command.swings.get("FL")
        if swing is not None and 0.6 < swing.progress < 0.7:
            break
        plant.step(command.tau)
    assert swing is not None and not command.footholds["FL"].is_blind
    stumble = controller._walking.footwork.state.stumble
    stumble.is_lowered[0], stumble.lowered_position[0] = 1, (x, 0.15)
    command = controller.compute(dynamics.update(plant.q, plant.v), (0.2, 0.0, 0.0))
    assert controller.ground is not None and controller.ground.next_footholds[0] == (x, 0.15, 0.0)
    assert not command.footholds["FL"].is_blind and "put down" in command.explain()


@pytest.mark.parametrize(("offset", "side"), [(0.06, "below"), (-0.07, "above"), (0.0, "")])
def test_map_that_contradicts_the_stance_feet_gives_one_warning(offset: float, side: str) -> None:
    robot = qd.load("go2")
    plant, dyn = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot)
    controller = qd.LocomotionController(robot, dt=2e-3, terrain=lambda x, y: 0.0 * x + offset)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(1500):
            plant.step(controller.compute(dyn.update(plant.q, plant.v), (0.3, 0.0, 0.0)).tau)
    messages = [(str(each.message), each.filename) for each in caught]
    assert len(messages) == bool(side)
    for message, file in messages:
        assert re.search(f"^terrain: the feet stand far from .* {side} it at x = ", message) and file == __file__


def test_invalid_terrain_is_rejected(go2: qd.Robot) -> None:
    raises(qd.ArgumentTypeError, "terrain", LocomotionController, go2, terrain=3.0)
    wrong = FootholdMap(lambda x, y: np.zeros(3), proportions())
    raises(qd.ArgumentError, "terrain", wrong.advance, 0.0, 0.0, 1e-3)


def test_trunk_is_lowered_for_feet_out_of_reach(go2: qd.Robot) -> None:
    """The hip is lowered until the foot is within reach of the leg, given the knee limit."""
    p, leg = proportions(), LegKinematics(go2, "FL")
    lengths, feet = measure_leg_lengths(go2), np.column_stack((p.nominal_stance, np.zeros(4)))
    straight = leg.forward([0.0, 0.6, leg.upper[2]]) - leg.hip
    assert lengths[0] == pytest.approx(np.linalg.norm(straight), rel=1e-3)
    course, clock = PathReference(np.zeros(2), 0.0), GaitScheduler("trot", p.time_scale)
    plane = GroundPlane(feet)
    records = make_body_parameters(p), lengths, clock.state, course.state, plane.state, allocate_swings()
    assert compute_required_lowering(*records, 0.0, 0.0) == 0.0
    feet[0, 0] -= 0.5 * p.length
    plane.points = feet
    plane.state.slope[:] = 0.0
    deep = compute_required_lowering(*records, 0.0, 0.0)
    hip = p.hips[0] + [0.0, 0.0, p.height - deep]
    assert 0.0 < deep < 0.25 * p.height
    assert np.linalg.norm(hip - feet[0] - [0.0, 0.0, p.radii[0]]) == pytest.approx(USABLE_REACH_FRACTION * lengths[0])


def test_normals_follow_the_feet_again_without_a_map() -> None:
    robot, dt = qd.load("go2"), 2e-3
    controller, dynamics = qd.LocomotionController(robot, dt=dt, terrain=lambda x, y: 0.2 * x), qd.Dynamics(robot)
    state = dynamics.update(np.array(robot.q_home), np.zeros(robot.nv))
    on_map = controller.compute(state).contact_normals["FL"]
    controller.terrain = None
    blind = controller.compute(state).contact_normals["FL"]
    assert on_map[0] < -0.1 and abs(blind[0]) < 0.01
