"""Records of foothold selection agree with the terrain map and do not change the motion."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.kinematics import LegKinematics
from quaddyn.locomotion import Foothold, LocomotionController, Morphology
from quaddyn.locomotion.foothold import (
    ALL_UNKNOWN,
    COST_TERMS,
    LOWEST_COST,
    NOMINAL_ACCEPTABLE,
    PLACED_BEFORE_OBSTACLE,
    TERRAIN_UNKNOWN,
    FootholdSelection,
)
from quaddyn.locomotion.foothold_map import (
    ACCEPTABLE_COST,
    CELL_SIZE,
    DEVIATION_SCALE,
    PATCH_RADIUS,
    ROUGHNESS_SCALE,
    SLOPE_SCALE,
    FootholdMap,
)
from quaddyn.locomotion.leg_margins import LegMargins, StanceInterval, measure_leg_lengths
from quaddyn.locomotion.morphology import FEET
from quaddyn.simulation.terrain import Box, Plane, Terrain, stairs

DT = 2e-3


@functools.cache
def proportions() -> Morphology:
    return Morphology.from_robot(qd.load("go2"))


@functools.cache
def margins(name: str = "go2") -> LegMargins:
    robot = qd.load(name)
    p = Morphology.from_robot(robot)
    return LegMargins(robot, p, measure_leg_lengths(robot))


def stay(x: float = 0.0, y: float = 0.0, height: float | None = None) -> StanceInterval:
    """Stance interval at home without motion."""
    return StanceInterval((x, y, proportions().height if height is None else height), (0.0, 0.0), 0.0, np.zeros(2), 0.0)


def select_foothold(
    terrain: Callable[[np.ndarray, np.ndarray], np.ndarray], x: float, y: float
) -> tuple[FootholdMap, Foothold]:
    known = FootholdMap(terrain, proportions())
    known.advance(0.0, 0.0, DT)
    found = known.choose_foothold(x, y)
    assert found is not None
    return known, Foothold(
        FootholdSelection(0, (x, y), (x, y), found[:3], found[3], "", known.window, stay(), (0.0, 0.0)), margins()
    )


def rough(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Waves with a step in y; unknown beyond x = 0.1 m."""
    out = 0.02 * np.sin(9.0 * x + 1.0) * np.cos(13.0 * y) + 0.1 * x + np.where(y > 0.03, 0.05, 0.0)
    return np.where(x > 0.1, np.nan, out)


@pytest.mark.parametrize("seed", range(5))
def test_foothold_costs_match_least_squares_planes_at_each_cell(seed: int) -> None:
    x, y = np.random.default_rng(seed).uniform((-0.2, -0.1), (0.08, 0.1))
    _, foothold = select_foothold(rough, x, y)
    cell, length = CELL_SIZE * proportions().length, proportions().length
    away = cell * np.arange(-PATCH_RADIUS, PATCH_RADIUS + 1)
    X, Y = (grid.ravel() for grid in np.meshgrid(away, away, indexing="ij"))
    A = np.column_stack((X, Y, np.ones_like(X)))
    assert len(foothold.candidates) + len(foothold.rejected) == 13 * 13 and foothold.candidates.shape[0] > 20
    for place, terms, normal in zip(foothold.candidates, foothold.cost_terms, foothold.normals, strict=True):
        heights = rough(place[0] + X, place[1] + Y)
        plane, *_ = np.linalg.lstsq(A, heights)
        steep, off = np.hypot(*plane[:2]) / SLOPE_SCALE, np.abs(heights - A @ plane).max() / (ROUGHNESS_SCALE * length)
        aside = np.hypot(place[0] - x, place[1] - y) / (DEVIATION_SCALE * length)
        np.testing.assert_allclose(terms, [steep**2, off**2, aside**2], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normal, [*-plane[:2], 1.0] / np.sqrt(1.0 + plane[:2] @ plane[:2]), atol=1e-12)
    for place in foothold.rejected:
        assert np.isnan(rough(place[0] + X, place[1] + Y)).any()
    np.testing.assert_allclose(foothold.costs, foothold.cost_terms.sum(axis=1))
    if foothold.reason == LOWEST_COST:
        best = int(foothold.costs.argmin())
        assert foothold.nominal.cost > ACCEPTABLE_COST or math.isnan(foothold.nominal.cost)
        assert foothold.selected.cost == pytest.approx(foothold.costs[best], rel=1e-12)
        np.testing.assert_allclose(foothold.position, foothold.candidates[best], atol=1e-12)
    else:
        assert (
            foothold.reason == NOMINAL_ACCEPTABLE
            and foothold.nominal.cost <= ACCEPTABLE_COST
            and foothold.deviation == 0.0
        )
    assert foothold.next_best is None or foothold.next_best.cost >= foothold.selected.cost


def test_nominal_foothold_is_used_on_smooth_terrain_and_edge_distance_is_reported() -> None:
    cell = CELL_SIZE * proportions().length
    _, even = select_foothold(lambda x, y: 0.2 * x, 0.031, -0.02)
    assert (
        even.reason == NOMINAL_ACCEPTABLE
        and even.deviation == 0.0
        and even.edge_distance == math.inf
        and not len(even.rejected)
    )
    assert even.selected.cost == pytest.approx(0.04 / SLOPE_SCALE**2) and even.selected.costs["deviation"] == 0.0
    assert even.position[2] == pytest.approx(0.2 * 0.031) == pytest.approx(even.nominal.position[2])
    _, near = select_foothold(lambda x, y: np.where(x > 0.05, 0.1, 0.0), 0.03, 0.0)
    assert (
        near.reason == LOWEST_COST
        and near.position[0] < 0.03
        and near.deviation == pytest.approx(math.dist((0.03, 0.0), near.position[:2]))
    )
    assert near.edge_distance == pytest.approx(0.05 - near.position[0], abs=cell)
    assert near.nominal.costs["roughness"] > 10.0 > near.selected.cost
    said = str(near)
    assert LOWEST_COST in said and f"cost {near.selected.cost:.2f} = " in said and "next best candidate" in said
    assert (
        f"{1e3 * near.edge_distance:.0f} mm from an edge" in said
        and f"nominal foothold {1e3 * near.deviation:.0f} mm away" in said
    )


def test_foothold_without_known_cells_has_no_candidates() -> None:
    _, lone = select_foothold(lambda x, y: np.where(np.hypot(x, y) < 0.03, 0.0, np.nan), 0.0, 0.0)
    assert lone.reason == ALL_UNKNOWN and not len(lone.candidates) and len(lone.rejected) == 13 * 13
    assert math.isnan(lone.selected.cost) and lone.next_best is None
    assert "169 of 169 cells rejected" in str(lone) and "the ground around it is partly unknown" in str(lone)


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c", "solo8"])
def test_leg_margins_agree_with_forward_kinematics(name: str) -> None:
    """For random joint positions: margin to the maximal distance from the first joint, and height of the shank."""
    robot = qd.load(name)
    p, rng = Morphology.from_robot(robot), np.random.default_rng(2)
    reach, data = measure_leg_lengths(robot), robot.model.createData()
    known = FootholdMap(lambda x, y: 0.0 * x, p)
    known.advance(0.0, 0.0, DT)
    for i in (0, 3):
        leg = LegKinematics(robot, FEET[i])
        for _ in range(10):
            q = np.array(robot.q_home)
            places = [robot.configuration_index(joint) for joint in leg.joints]
            q[places] += rng.uniform(-0.25, 0.25, leg.n)
            q[:7] = robot.q_home[:7]
            pin.framesForwardKinematics(robot.model, data, q)
            foot = data.oMf[robot.frame_id(FEET[i])].translation.copy()
            bottom = foot - [0.0, 0.0, p.radii[i]]
            first, knee = (
                data.oMi[robot.model.getJointId(joint)].translation.copy() for joint in (leg.joints[0], leg.joints[-1])
            )
            com = pin.centerOfMass(robot.model, data, np.array(robot.q_home)).copy()
            room, shank = LegMargins(robot, p, reach).compute(
                i,
                bottom[None],
                np.array([0.0, 0.0, 1.0]),
                StanceInterval(tuple(com), (0.0, 0.0), 0.0, np.zeros(2), p.yaw(q)),
                known.window,
            )[0]
            assert room == pytest.approx(reach[i] - np.linalg.norm(foot - first), abs=1e-9)
            line = foot + np.linspace(0.0, 1.0, 9)[:, None] * (knee - foot)
            cells = np.rint(line[:, :2] / known.window.cell) - np.rint(bottom[:2] / known.window.cell)
            beside = np.abs(cells).sum(axis=1) > 1
            assert shank == pytest.approx(line[beside, 2].min() if beside.any() else np.inf, abs=1e-9)


def test_margins_detect_unreachable_footholds_and_shank_collisions() -> None:
    p = proportions()
    foot = np.array([*p.nominal_stance[0], 0.0])
    near, far = margins().compute(
        0, foot + np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0]]), np.array([0.0, 0.0, 1.0]), stay(), None
    )
    assert near[0] > 0.0 > far[0] and np.isnan([near[1], far[1]]).all()
    # Knees of Go2 point backward: an obstacle behind the foot collides with the shank.
    for high, clear in ((0.0, True), (0.2, False)):
        known = FootholdMap(lambda x, y, high=high: np.where(x < foot[0] - 0.04, high, 0.0), p)
        known.advance(0.0, 0.0, DT)
        _, shank = margins().compute(0, foot[None], np.array([0.0, 0.0, 1.0]), stay(), known.window)[0]
        assert (shank > 0.0) == clear
    # Thighs are not checked: below the hip of a leg that points backward, the obstacle is in front of the knee.
    back = foot - [0.12, 0.0, 0.0]
    known = FootholdMap(lambda x, y: np.where(x > foot[0] - 0.03, 1.0, 0.0), p)
    known.advance(0.0, 0.0, DT)
    assert margins().compute(0, back[None], np.array([0.0, 0.0, 1.0]), stay(), known.window)[0, 1] > 0.0


def test_trunk_motion_during_stance_reduces_the_reach_margin() -> None:
    p, up = proportions(), np.array([0.0, 0.0, 1.0])
    foot = np.array([[*p.nominal_stance[0], 0.0]])
    still, moving = (
        margins().compute(
            0, foot, up, StanceInterval((0.0, 0.0, p.height), (way / 0.4, 0.0), 0.4, np.zeros(2), 0.0), None
        )[0, 0]
        for way in (0.0, 0.2)
    )
    ahead = margins().compute(0, foot, up, stay(0.2), None)[0, 0]
    uphill = stay()._replace(slope=np.array([0.3, 0.1])).shift((0.2, -0.1))
    assert stay().shift((0.2, 0.0)).com == stay(0.2).com and uphill.com == pytest.approx((0.2, -0.1, p.height + 0.05))
    turned = StanceInterval((0.0, 0.0, p.height), (0.4, 0.1), 0.5, np.zeros(2), 0.5 * math.pi)
    np.testing.assert_allclose(turned.travel, [-0.05, 0.2], atol=1e-12)
    assert moving == pytest.approx(ahead, abs=1e-12) and ahead < still


def steps() -> Terrain:
    p = proportions()
    rise, tread, start = 0.2 * p.length, 0.6 * p.length, float(p.nominal_stance[:, 0].max()) + 0.3 * p.length
    top = Box(np.array([start + 3 * tread + 2.0, 0.0, 1.5 * rise]), np.array([4.0, 3.0, 3 * rise]))
    return Terrain.from_surfaces([Plane.floor(), *stairs(3, rise=rise, tread=tread, distance=start), top])


def test_blind_robot_reports_blind_footholds() -> None:
    robot, said = qd.load("go2"), set[str]()
    controller = LocomotionController(robot, dt=2.0 * DT)
    plant, dynamics = qd.Simulation(robot, dt=2.0 * DT, friction=0.8, terrain=steps()), qd.Dynamics(robot)
    for _ in range(300):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.25 * proportions().speed_scale, 0.0, 0.1))
        plant.step(command.tau)
        for foothold in command.footholds.values():
            assert foothold.is_blind and foothold.terrain_window is None and not len(foothold.candidates)
            assert not len(foothold.rejected) and foothold.next_best is None and math.isnan(foothold.edge_distance)
            assert math.isfinite(foothold.selected.reach_margin) and "blind" in str(foothold)
            said.add(foothold.reason)
    assert TERRAIN_UNKNOWN in said and said <= {TERRAIN_UNKNOWN, PLACED_BEFORE_OBSTACLE}


def test_foothold_costs_are_named_and_read_only() -> None:
    _, foothold = select_foothold(rough, -0.1, 0.0)
    assert tuple(foothold.selected.costs) == COST_TERMS and foothold.cost_terms.shape[1] == len(COST_TERMS)
    with pytest.raises(ValueError, match="read-only"):
        foothold.costs[0] = 0.0


def test_margin_of_a_stance_on_a_slope_is_the_smaller_one_of_its_ends(go2: qd.Robot) -> None:
    p = Morphology.from_robot(go2)
    margins, rng = LegMargins(go2, p, measure_leg_lengths(go2)), np.random.default_rng(0)
    for i in range(4):
        slope, points = 0.3 * rng.normal(size=2), np.array([[*rng.normal(p.nominal_stance[i], 0.1), 0.0]])
        stance = StanceInterval((0.0, 0.0, p.height), (0.5, -0.2), 0.6, slope, 1.1)
        begin, normal = stance._replace(duration=0.0), np.array([0.0, 0.0, 1.0])
        ends = [margins.compute(i, points, normal, each, None)[:, 0] for each in (begin, begin.shift(stance.travel))]
        np.testing.assert_allclose(
            margins.compute(i, points, normal, stance, None)[:, 0], np.minimum(*ends), atol=1e-12
        )
