"""Elevation maps: accuracy of fused heights, motion of the window, cameras, borders, and invalid input."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.estimation import ElevationMap
from quaddyn.simulation import (
    Box,
    DepthCamera,
    HeightField,
    MujocoPlant,
    Plane,
    Simulation,
    Terrain,
    camera_pose,
    stairs,
)
from quaddyn.urdf.tree import Array, Pose


def hills(x: Array, y: Array) -> Array:
    return np.asarray(0.1 * np.sin(3.0 * x) * np.cos(2.0 * y))


def scan(rng: np.random.Generator, at: float, noise: float, offset: float = 0.0) -> tuple[Array, Pose]:
    """Points of the hills from a sensor 0.5 m above (at, 0), with a height error of `offset` [m]."""
    x, y = rng.uniform(-1.2, 1.2, (2, 4000))
    z = hills(x + at, y) + noise * rng.standard_normal(len(x))
    turned = Pose.of([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [at, 0.0, 0.5])
    return turned.inverse().apply(np.column_stack((x + at, y, z + offset))), turned


# -- fusing -----------------------------------------------------------------------------------------------------------
def test_errors_of_heights_agree_with_their_standard_deviations() -> None:
    rng, grid = np.random.default_rng(0), ElevationMap((2.0, 2.0), resolution=0.02, drift_rate=0.0)
    for _ in range(20):
        offset = 0.003 * rng.standard_normal()
        points, pose = scan(rng, 0.0, 0.01, offset)
        assert grid.update(points, pose, noise=0.01, position_deviation=0.003) > 2000
    x, y = np.meshgrid(*grid.axes, indexing="ij")
    known = np.isfinite(grid.heights)
    assert known.mean() > 0.99
    error = (grid.heights - hills(x, y))[known]
    # the map does not model the slope within a cell, up to 0.3 over 0.02 m
    within = np.abs(error) <= 3.0 * np.hypot(grid.standard_deviations[known], 0.3 * 0.02 / np.sqrt(12))
    assert within.mean() > 0.97
    assert error.std() < 0.006


def test_tilt_deviation_increases_the_variance_of_distant_points() -> None:
    grid, points = ElevationMap((4.0, 4.0), resolution=0.1), np.array([[0.3, 0.4, -0.5], [-0.3, 1.2, -0.5]])
    grid.update(points, Pose.of(np.eye(3), [0.5, 0.2, 0.5]), noise=0.01, position_deviation=0.02, tilt_deviation=0.03)
    found = np.sort(grid.standard_deviations[np.isfinite(grid.heights)])
    away = np.linalg.norm(points[:, :2], axis=1)
    np.testing.assert_allclose(found, np.sqrt(0.01**2 + 0.02**2 + (0.03 * away) ** 2), rtol=1e-12)


def test_the_variance_of_heights_grows_with_the_distance_traveled() -> None:
    grid, points = ElevationMap((2.0, 2.0), drift_rate=0.02), np.array([[0.3, 0.1, -0.5]])
    grid.update(points, Pose.of(np.eye(3), [0.0, 0.0, 0.5]), noise=0.01)
    before = grid.standard_deviations[np.isfinite(grid.heights)]
    grid.update(np.zeros((0, 3)), Pose.of(np.eye(3), [0.0, 0.25, 0.5]))
    after = grid.standard_deviations[np.isfinite(grid.heights)]
    np.testing.assert_allclose(after**2, before**2 + 0.02**2 * 0.25, rtol=1e-12)


def test_outliers_are_rejected_and_changed_terrain_is_accepted() -> None:
    grid, pose = ElevationMap((1.0, 1.0), drift_rate=0.0), Pose.of(np.eye(3), [0.0, 0.0, 0.5])
    floor, raised = np.array([[0.1, 0.1, -0.5]]), np.array([[0.1, 0.1, -0.3]])
    for _ in range(5):
        grid.update(floor, pose)
    grid.update(raised, pose)
    assert grid.height(0.1, 0.1) == pytest.approx(0.0, abs=1e-12)
    doubt = grid.standard_deviations[np.isfinite(grid.heights)]
    assert doubt > 0.05
    grid.update(floor, pose)
    assert grid.height(0.1, 0.1) == pytest.approx(0.0, abs=1e-12)
    assert grid.standard_deviations[np.isfinite(grid.heights)] < 0.011
    for _ in range(2):
        grid.update(raised, pose)
    assert grid.height(0.1, 0.1) == pytest.approx(0.2, abs=0.01)


def test_height_at_an_edge_is_that_of_the_upper_points() -> None:
    grid = ElevationMap((1.0, 1.0))
    wall = np.column_stack((np.zeros(50), np.zeros(50), np.linspace(-0.5, -0.3, 50)))
    grid.update(wall, Pose.of(np.eye(3), [0.0, 0.0, 0.5]), noise=0.005)
    assert 0.185 < grid.height(0.0, 0.0) <= 0.2


# -- the window -------------------------------------------------------------------------------------------------------
def test_window_moves_by_whole_cells_and_keeps_the_cells_inside() -> None:
    whole = ElevationMap.from_function(hills, (4.0, 4.0), resolution=0.05)
    part = ElevationMap.from_function(hills, (1.0, 1.0), resolution=0.05)
    before = part.height(0.2, 0.1)
    part.recenter((0.31, -0.2))
    assert part.height(0.2, 0.1) == before == whole.height(0.2, 0.1)
    x, _ = part.axes
    assert x[0] <= 0.31 - 0.47
    assert x[-1] >= 0.31 + 0.47
    assert np.isnan(part.heights[-1]).all()
    part.recenter((30.0, 0.0))
    assert part.known_fraction == 0.0
    whole.clear()
    assert whole.known_fraction == 0.0


def test_heights_and_normals_are_interpolated_between_cells() -> None:
    grid, rng = ElevationMap.from_function(hills, (3.0, 3.0), resolution=0.01), np.random.default_rng(1)
    x, y = rng.uniform(-1.4, 1.4, (2, 500))
    np.testing.assert_allclose(grid.height(x, y), hills(x, y), atol=3e-5)
    normal = np.stack((-0.3 * np.cos(3 * x) * np.cos(2 * y), 0.2 * np.sin(3 * x) * np.sin(2 * y), np.ones(500)), -1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    np.testing.assert_allclose(grid.normal(x, y), normal, atol=1e-3)
    assert np.isnan(grid.height([1.6, np.nan], [0.0, 0.0])).all()
    assert np.isnan(grid.normal(1.5, 0.0)).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ElevationMap((0.0, 1.0)), "size"),
        (lambda: ElevationMap(resolution=np.nan), "resolution"),
        (lambda: ElevationMap((1e3, 1e3), resolution=1e-3), "cells"),
        (lambda: ElevationMap(drift_rate=-1.0), "drift"),
        (lambda: ElevationMap(center=(np.inf, 0.0)), "center"),
        (lambda: ElevationMap.from_function(lambda x, y: np.zeros(3)), "function"),
        (lambda: ElevationMap().update(np.zeros(3), Pose.identity()), "points"),
        (lambda: ElevationMap().update(np.zeros((4, 3)), Pose.identity(), noise=[0.1, 0.1]), "noise"),
        (lambda: ElevationMap().update(np.zeros((4, 3)), Pose.identity(), noise=0.0), "noise"),
        (lambda: ElevationMap().update(np.zeros((4, 3)), Pose.identity(), tilt_deviation=-1.0), "tilt_deviation"),
        (lambda: ElevationMap().update(np.zeros((4, 3)), np.eye(4)), "pose"),  # type: ignore[arg-type]
        (lambda: ElevationMap().update(np.zeros((4, 3)), Pose.of(np.eye(3), [0.0, np.nan, 0.0])), "pose"),
    ],
)
def test_invalid_input_is_rejected_by_name(make: object, words: str) -> None:
    assert callable(make)
    raises(qd.ArgumentError, words, make)


# -- terrain and depth camera -----------------------------------------------------------------------------------------
def landscape() -> Terrain:
    turned = Pose.of([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], np.zeros(3)).rotation
    tilted = np.array([[0.8, 0.0, 0.6], [0.0, 1.0, 0.0], [-0.6, 0.0, 0.8]])
    return Terrain(
        (
            Plane.slope(0.1, heading=0.4),
            Plane.wall(9.0),
            *stairs(3, rise=0.15, tread=0.3, distance=0.6, width=1.0),
            Box(np.array([-0.8, 0.3, 0.1]), np.array([0.5, 0.4, 0.6]), turned),
            Box(np.array([-0.2, -1.2, 0.2]), np.array([0.5, 0.4, 0.3]), tilted),
            HeightField.from_function(hills, (-2.0, -1.3), (-1.0, 1.0), spacing=0.1),
        )
    )


def test_terrain_height_agrees_with_vertical_rays_of_mujoco(solo12: qd.Robot) -> None:
    mujoco = pytest.importorskip("mujoco")
    plant = MujocoPlant(solo12, terrain=landscape())
    q = solo12.q_home.copy()
    q[:3] = 50.0, 50.0, 20.0
    plant.reset(q)
    mujoco.mj_forward(plant.model, plant.data)
    rng, down = np.random.default_rng(2), np.array([0.0, 0.0, -1.0])
    x, y = rng.uniform(-2.2, 2.2, (2, 400))
    miss = np.zeros(1, np.int32)
    above = np.column_stack((x, y, np.full(len(x), 5.0)))
    ended = [5.0 - mujoco.mj_ray(plant.model, plant.data, at, down, None, 1, -1, miss) for at in above]
    np.testing.assert_allclose(landscape().height(x, y), ended, atol=2e-6)
    assert np.isnan(Terrain((Plane.wall(1.0),)).height([0.0], [0.0])).all()


@pytest.mark.parametrize("kind", [Simulation, MujocoPlant])
def test_camera_on_the_robot_maps_the_terrain_ahead(
    kind: type[Simulation] | type[MujocoPlant], solo12: qd.Robot
) -> None:
    pytest.importorskip("mujoco")
    terrain = Terrain((Plane.floor(), *stairs(3, rise=0.04, tread=0.25, distance=0.5)))
    plant = kind(solo12, terrain=terrain)
    rng, placement = np.random.default_rng(0), camera_pose(0.6, position=(0.2, 0.0, 0.1))
    camera = DepthCamera(solo12, rng, placement=placement, noise=0.002)
    grid = ElevationMap((3.0, 2.0), resolution=0.03)
    points = camera.read(plant)
    assert points.shape == (106 * 60, 3)
    near, far = np.nanquantile(np.linalg.norm(points, axis=1), (0.3, 0.7))
    camera = DepthCamera(solo12, rng, placement=placement, noise=0.0, depth_range=(near, far))
    distances = np.linalg.norm(camera.read(plant), axis=1)
    assert near <= np.nanmin(distances) < 1.05 * near and 0.95 * far < np.nanmax(distances) <= far
    camera = DepthCamera(solo12, rng, placement=placement, noise=0.002)
    for _ in range(4):
        grid.update(camera.read(plant), camera.pose(plant), noise=0.004)
    x, y = np.meshgrid(np.linspace(0.52, 0.95, 30), np.linspace(-0.2, 0.2, 15), indexing="ij")
    found, true = grid.height(x, y), terrain.height(x, y)
    flat = np.abs((x - 0.5) / 0.25 - np.rint((x - 0.5) / 0.25)) > 0.15  # away from the edges
    known = np.isfinite(found)
    assert known[flat].mean() > 0.8
    np.testing.assert_allclose(found[flat & known], true[flat & known], atol=0.012)


def test_invalid_cameras_are_rejected_by_name() -> None:
    pytest.importorskip("mujoco")
    robot, rng = qd.load("solo12"), np.random.default_rng(0)
    for words, options in (
        ("resolution", {"resolution": (0, 4)}), ("field_of_view", {"field_of_view": 4.0}),
        ("depth_range", {"depth_range": (1.0, 0.5)}),
        ("noise", {"noise": -0.1}), ("frame", {"frame": "nose"}), ("placement", {"placement": np.eye(4)}),
    ):  # fmt: skip
        raises(qd.QuaddynError, words, DepthCamera, robot, rng, **options)
    raises(qd.ArgumentError, "plant", DepthCamera(robot, rng).read, Simulation(qd.load("go2")))


# -- borders -----------------------------------------------------------------------------------------------------------
def test_height_field_has_a_height_on_its_border() -> None:
    for low, high, spacing in ((-0.7, 0.7, 0.1), (-0.3, 0.6, 0.07), (0.1, 2.3, 0.03), (-1.1, 1.9, 0.13)):
        field = HeightField.from_function(lambda x, y: 0.5 * x + 0.0 * y, (low, high), (low, high), spacing=spacing)
        x = np.array([low, high, *field.bounds[:2]])
        np.testing.assert_allclose(field.height(x, x), 0.5 * x, atol=1e-12)
        assert np.isnan(field.height(np.array([low - 1e-6, high + 1e-6]), np.array([0.2, 0.2]))).all()


@pytest.mark.parametrize(("cell", "center"), [(0.02, 1.3), (0.04, 0.5), (0.06, 0.0), (0.1, 0.0)])
def test_elevation_map_has_heights_on_borders_and_next_to_unknown_cells(cell: float, center: float) -> None:
    ground = ElevationMap.from_function(
        lambda x, y: np.where(x > center + 0.31, np.nan, 1.0 + 0.0 * y),
        (2.0, 1.5),
        resolution=cell,
        center=(center, center),
    )
    x, y = (np.linspace(axis[0], axis[-1], len(axis)) for axis in ground.axes)
    found = ground.height(*np.meshgrid(x, y, indexing="ij"))
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(ground.heights))


@pytest.mark.parametrize(("run", "start", "cell"), [(0.28, 0.5, 0.02), (0.2, 0.4, 0.04), (0.3, 0.5, 0.05)])
def test_treads_of_stairs_on_a_grid_have_equal_lengths(run: float, start: float, cell: float) -> None:
    at = np.arange(round(4.0 / cell)) * cell
    for heading in (0.0, 0.5 * np.pi):
        ground = Terrain.from_surfaces(stairs(8, rise=0.1, tread=run, distance=start, heading=heading))
        heights = ground.height(at * round(np.cos(heading)), at * round(np.sin(heading)))
        steps = [int((np.abs(heights - 0.1 * k) < 1e-9).sum()) for k in range(1, 8)]
        assert steps == [round(run / cell)] * 7
