"""Both plants behind one interface: terrain, spheres, pushes, motors, checkpoints, control loop, equal motion."""

from __future__ import annotations

import functools
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import NIGHT
from test_simulation import Stand

import quaddyn as qd

pytest.importorskip("mujoco")

from quaddyn.simulation import (
    Actuators,
    Box,
    ContactSphere,
    HeightField,
    MujocoPlant,
    Plane,
    Simulation,
    Terrain,
    collision_spheres,
    stairs,
)
from quaddyn.simulation.simulation import MAX_CONTACTS
from quaddyn.simulation.terrain import CollisionBuffer, collide

G = 9.81
PLANTS = [Simulation, MujocoPlant]
Plants = type[Simulation] | type[MujocoPlant]


@functools.cache
def robot_of(name: str) -> qd.Robot:
    return qd.load(name)


def block() -> qd.Robot:
    """A block of 2 kg on three fixed spheres around its center of mass, which are not feet: pass `corners`."""
    return qd.load(
        """<robot name="block"><link name="base"><inertial><mass value="2"/>
        <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>""",
        root="free",
    )


def corners(radius: float = 0.02, low: float = 0.03) -> dict[str, ContactSphere]:
    places = ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.0))
    return {f"corner {i}": ContactSphere("base", radius, np.array([x, y, -low])) for i, (x, y) in enumerate(places)}


# -- where spheres touch -------------------------------------------------------------------------------------------
def find_contacts(
    surface: Any, centers: np.ndarray, radii: np.ndarray, reach: float
) -> list[tuple[int, float, np.ndarray]]:
    """(sphere, gap, normal) of every contact."""
    n = 100
    integers = np.empty((2, n), dtype=np.int64)
    found = CollisionBuffer(np.empty(n), np.empty((n, 3)), np.empty(n), integers[0], integers[1])
    k = collide(centers, radii, Terrain.from_surfaces(surface).to_arrays(0.6), reach, found)
    assert k >= 0
    return [(int(found.spheres[i]), float(found.gaps[i]), found.normals[i].copy()) for i in range(k)]


def test_distance_to_a_box_is_that_of_its_nearest_point() -> None:
    rng = np.random.default_rng(0)
    R = pin.exp3(rng.normal(size=3))
    box = Box(np.array([0.3, -0.2, 0.5]), np.array([0.4, 0.6, 0.2]), R)
    u = np.linspace(-1.0, 1.0, 81)
    a, b = (x.ravel() for x in np.meshgrid(u, u))
    faces = [np.insert(np.column_stack((a, b)), axis, side, axis=1) for axis in range(3) for side in (-1.0, 1.0)]
    skin = (0.5 * box.size * np.concatenate(faces)) @ R.T + box.center
    for _ in range(200 if NIGHT else 80):
        c, r = box.center + rng.uniform(-0.5, 0.5, 3), rng.uniform(0.0, 0.05)
        ((_, gap, normal),) = find_contacts(box, c[None], np.array([r]), 10.0)
        inside = bool((np.abs(R.T @ (c - box.center)) < 0.5 * box.size).all())
        distance = np.linalg.norm(skin - c, axis=1).min() * (-1.0 if inside else 1.0)
        assert abs(gap + r) <= abs(distance) + 1e-12 and (gap + r) * distance > 0.0
        assert abs(distance) <= np.hypot(gap + r, 0.006)  # samples are half a millimeter to 6 mm apart
        # moving along the normal closes the gap at the same rate
        ((_, nearer, _),) = find_contacts(box, (c + 1e-4 * normal)[None], np.array([r]), 10.0)
        assert nearer - gap == pytest.approx(1e-4, abs=1e-9)


@pytest.mark.parametrize("heading", [0.0, 0.7, -2.0])
def test_slope_rises_and_wall_stands_in_the_given_direction(heading: float) -> None:
    ahead, angle, distance = np.array([np.cos(heading), np.sin(heading), 0.0]), 0.3, 1.5
    (x, y), aside = 0.8 * ahead[:2], np.array([-ahead[1], ahead[0]])
    slope, wall = Plane.slope(angle, heading=heading), Plane.wall(distance, heading=heading)
    heights = slope.height(np.array([x, aside[0]]), np.array([y, aside[1]]))
    np.testing.assert_allclose(heights, [0.8 * np.tan(angle), 0.0], atol=1e-12)
    np.testing.assert_allclose([wall.point, wall.normal], [distance * ahead, -ahead], atol=1e-12)


def test_stairs_stand_on_the_floor_and_rise_in_their_direction() -> None:
    steps, along = stairs(3, rise=0.1, tread=0.3, distance=1.0, heading=0.7), np.array([0.9, 1.15, 1.45, 1.75])
    heights = Terrain(steps).height(along * np.cos(0.7), along * np.sin(0.7))
    np.testing.assert_allclose(heights, [np.nan, 0.1, 0.2, 0.3], atol=1e-12)
    assert all(step.center[2] == 0.5 * step.size[2] for step in steps)


@pytest.mark.parametrize("normal", [(0.0, 0.0, 1.0), (0.0, 0.0, -1.0), (0.6, 0.0, -0.8), (-0.48, 0.36, 0.8)])
def test_tilt_of_a_plane_is_the_smallest_rotation_of_the_vertical_to_its_normal(
    normal: tuple[float, float, float],
) -> None:
    R = Plane(np.zeros(3), np.array(normal)).tilt
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(R[:, 2], normal, atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1.0) and np.trace(R) == pytest.approx(1.0 + 2.0 * normal[2])


def test_heights_of_boxes_and_fields_are_those_of_their_tops() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        R, size = pin.rpy.rpyToMatrix(0.0, 0.0, rng.uniform(-3.0, 3.0)), rng.uniform(0.2, 1.0, 3)
        box, local = Box(np.array([0.3, -0.2, 0.1]), size, R), rng.uniform(-1.0, 1.0, (50, 2))
        x, y = (R[:2, :2] @ local.T) + box.center[:2, None]
        inside = (np.abs(local) <= 0.5 * size[:2]).all(axis=1)
        np.testing.assert_allclose(box.height(x, y), np.where(inside, 0.1 + 0.5 * size[2], np.nan), atol=1e-12)
    field = HeightField(np.array([1.0, -2.0]), np.array([0.1, 0.2]), rng.normal(size=(4, 5)))
    for u, v in rng.uniform(0.0, 1.0, (200, 2)) * (3.0, 4.0):  # the plane through the corners of the triangle
        i, j = int(u), int(v)
        third = (i + 1, j) if u - i > v - j else (i, j + 1)
        points = np.array([(i, j, 1.0), (i + 1, j + 1, 1.0), (*third, 1.0)])
        plane = np.linalg.solve(points, [field.heights[int(a), int(b)] for a, b, _ in points])
        assert field.height(1.0 + 0.1 * u, -2.0 + 0.2 * v) == pytest.approx(plane @ (u, v, 1.0), abs=1e-9)


def test_bounds_of_a_rotated_box_are_those_of_its_corners() -> None:
    R = pin.exp3(np.array([0.3, -0.5, 0.8]))
    box = Box(np.array([0.3, -0.2, 0.5]), np.array([0.4, 0.6, 0.2]), R)
    signs = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    x, y, _ = ((signs * box.size) @ R.T + box.center).T
    np.testing.assert_allclose(box.bounds, [x.min(), x.max(), y.min(), y.max()], atol=1e-8)


@pytest.mark.parametrize("kind", PLANTS)
def test_terrain_without_a_surface_below_the_robot_gives_a_warning(kind: Plants) -> None:
    robot, step = block(), Box([1.0, 0.0, 0.0], [0.5, 1.0, 0.1])
    for without_ground in ([step], []):
        with pytest.warns(
            RuntimeWarning, match=r"^terrain: it has no surface below the robot .* Plane\.floor\(\)"
        ) as caught:
            kind(robot, terrain=without_ground)
        assert len(caught) == 1 and caught[0].filename == __file__
    for terrain, floor in (([step, Plane.floor()], None), (step, 0.0), (step, -np.inf), ((), -np.inf), ((), 0.0)):
        kind(robot, terrain=terrain, floor=floor)  # warnings are errors in tests


SPIKES = 30.0 * np.random.default_rng(0).random((40, 40))


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize(
    "surfaces",
    [
        [Box([1000.0, 0.0, 0.0], [400.0, 1000.0, 100.0])],
        stairs(1, rise=60.0, tread=300.0, distance=800.0),
        [HeightField([-1000.0, -1000.0], [50.0, 50.0], SPIKES)],
        [HeightField([-1.0, -1.0], [0.05, 0.05], SPIKES)],
    ],
)
def test_terrain_in_millimeters_gives_a_warning(kind: Plants, surfaces: list[Box], go2: qd.Robot) -> None:
    with pytest.warns(RuntimeWarning, match=r"^terrain: surface 1: .* in millimeters") as caught:
        kind(go2, terrain=[Plane.floor(), *surfaces])
    assert len(caught) == 1 and caught[0].filename == __file__
    wall, rough = Box([3.0, 0.0, 4.0], [0.3, 9.0, 8.0]), HeightField([-1.0, -1.0], [0.05, 0.05], 1e-3 * SPIKES)
    kind(go2, terrain=[wall, rough, HeightField([-99.0, 0.0], [1.0, 1.0], np.array([[500.0] * 2, [501.0] * 2]))])


@pytest.mark.parametrize("kind", PLANTS)
def test_robot_that_starts_below_the_ground_gives_one_warning(kind: Plants, go2: qd.Robot) -> None:
    plant, q, height = kind(go2), go2.q_home.copy(), go2.q_home[2]
    q[2] = 0.0
    with pytest.warns(RuntimeWarning, match=rf"^q: 'FL' is {height:.3g} m below .* q\[2\] = {height:.4g}") as caught:
        plant.reset(q)
        plant.reset(q)
        plant.step(np.zeros(12))
    assert len(caught) == 1 and caught[0].filename == __file__
    block_of_ground = Box([0.0, 0.0, 0.1], [2.0, 2.0, 0.2])
    plant = kind(go2, terrain=block_of_ground)
    q[2] = height + 0.2
    plant.reset(q)  # warnings are errors in tests
    plant.step(np.zeros(12))
    plant = kind(go2, terrain=block_of_ground)
    with pytest.warns(RuntimeWarning, match=r"^q: 'FL' is 0\.2 m below the ground"):
        plant.step(np.zeros(12))
    q[0], q[2] = -1.2, height  # the front feet touch the side of the block
    kind(go2, terrain=[Plane.floor(), block_of_ground]).reset(q)


@pytest.mark.parametrize("kind", PLANTS)
def test_robot_below_a_ceiling_is_not_below_the_ground(kind: Plants, go2: qd.Robot) -> None:
    plant, q = kind(go2, terrain=[Plane.floor(), Box([0.0, 0.0, 0.7], [4.0, 4.0, 0.1])]), go2.q_home.copy()
    plant.reset(q)  # warnings are errors in tests
    height = q[2]
    q[2] = 0.0
    with pytest.warns(RuntimeWarning, match=rf"^q: 'FL' is {height:.3g} m below the ground.* q\[2\] = {height:.4g} "):
        plant.reset(q)


def test_batch_does_not_repeat_the_warning_about_terrain() -> None:
    hill = Box([1000.0, 0.0, 0.0], [400.0, 1000.0, 100.0])
    with pytest.warns(RuntimeWarning, match="in millimeters"):
        simulation = Simulation(qd.load("go2"), terrain=[Plane.floor(), hill])
    simulation.batch(2, threads=2)  # warnings are errors in tests


def test_both_plants_have_the_same_terrain_contacts() -> None:
    """Gaps, points and normals of a ball at rest against every kind of surface, compared with MuJoCo's collisions."""
    robot, rng = block(), np.random.default_rng(3)
    tilt = pin.exp3(np.array([0.1, -0.2, 0.3]))
    field = HeightField(np.array([-0.5, -0.5]), np.array([0.2, 0.25]), rng.uniform(-0.1, 0.1, (6, 5)), friction=0.3)
    surfaces = (Plane.slope(0.3, heading=1.0), Plane.wall(0.6, heading=2.0), Box(np.zeros(3), np.ones(3), tilt), field)
    ball = {"ball": ContactSphere("base", 0.1)}
    compared = 0
    for surface in surfaces:
        plant = MujocoPlant(robot, floor=-np.inf, terrain=surface, spheres=ball)
        for _ in range(40):
            q = robot.q_home.copy()
            q[:3] = rng.uniform((-0.6, -0.6, 0.0), 0.8)
            found = find_contacts(surface, q[None, :3], np.array([0.1]), 1.0)
            if not found or found[0][1] < -0.1:  # the center itself is inside: no direction is preferred
                continue
            q[:3] -= (found[0][1] + 1e-5) * found[0][2]
            plant.reset(q)
            plant.step(np.zeros(0))
            _, gap, normal = find_contacts(surface, q[None, :3], np.array([0.1]), 0.0)[0]
            contact = min(plant.contacts, key=lambda c: float(np.linalg.norm(c.normal - normal)))
            np.testing.assert_allclose(contact.normal, normal, atol=1e-4)
            np.testing.assert_allclose(contact.point, q[:3] - (0.1 + gap) * contact.normal, atol=2e-5)
            assert contact.friction == (0.3 if surface is field else 0.6)
            compared += 1
    assert compared > 80


# -- motion on terrain ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("share", [0.99, 1.01, 1.5])
def test_block_on_a_slope_sticks_up_to_the_friction_angle(kind: Plants, share: float) -> None:
    slope = np.arctan(0.5)
    plant = kind(block(), terrain=Plane.slope(-slope), spheres=corners(), friction=0.5 / share)
    R = pin.utils.rotate("y", slope)
    plant.reset(np.concatenate((R @ np.array([0.0, 0.0, 0.05]), pin.Quaternion(R).coeffs())))
    for _ in range(200):
        plant.step(np.zeros(0))
    down = G * max(0.0, np.sin(slope) - 0.5 / share * np.cos(slope)) * 0.2
    exact = kind is Simulation  # MuJoCo's soft contacts chatter when they slide
    assert plant.v[0] == pytest.approx(down, abs=1e-9 if exact else 5e-3)
    assert R.T[0] @ plant.q[:3] == pytest.approx(down * 0.201 / 2.0, abs=1e-9 if exact else 5e-4)
    if exact:
        assert np.abs(plant.v[1:]).max() < 1e-9
        assert R[:, 2] @ sum(plant.contact_forces.values()) == pytest.approx(2.0 * G * np.cos(slope), rel=1e-9)


@pytest.mark.parametrize("kind", PLANTS)
def test_wall_and_step_stop_a_sliding_block(kind: Plants) -> None:
    wall, step = Plane.wall(0.5), Box(np.array([0.75, 0.0, 0.02]), np.array([0.5, 2.0, 0.04]))
    for obstacle, reached in ((wall, 0.28), (step, 0.28)):
        plant = kind(block(), terrain=(obstacle, Plane.floor()), spheres=corners(low=0.0), friction=0.05)
        start, v = plant.robot.q_home.copy(), np.zeros(6)
        start[2], v[0] = 0.02, 2.0
        plant.reset(start, v)
        furthest = 0.0
        for _ in range(400):
            plant.step(np.zeros(0))
            furthest = max(furthest, plant.q[0])
            assert plant.status in ("free", "solved", "passive")
        assert furthest == pytest.approx(reached, abs=2e-3)


@pytest.mark.parametrize("count", [1, 2])
def test_contact_points_of_repeated_steps_are_under_their_spheres(count: int) -> None:
    """Steps of a fast block that rotates are divided; the points are those of the substep."""
    robot = block()
    places = {f"ball {i}": ContactSphere("base", 0.05, np.array([0.1 * i, 0.2, 0.0])) for i in range(count)}
    sim, q, touched = Simulation(robot, spheres=places, dt=4e-3), robot.q_home.copy(), 0
    q[:3] = 3.0, -2.0, 0.3
    sim.reset(q, np.array([8.0, 0.0, -12.0, 18.0, 10.0, 0.0]))
    dynamics = qd.Dynamics(robot)
    for _ in range(60):
        before = dynamics.frame_placement(sim.q, "base")
        sim.step(np.zeros(0))
        after = dynamics.frame_placement(sim.q, "base")
        for contact in sim.contacts:
            ends = np.array([place.apply(places[contact.sphere].offset) for place in (before, after)])
            low, high = ends.min(axis=0) - 0.03, ends.max(axis=0) + 0.03
            assert (low[:2] <= contact.point[:2]).all() and (contact.point[:2] <= high[:2]).all()
            touched += 1
    assert touched > 3


def test_sphere_in_a_corner_has_two_contacts_and_slides_without_friction() -> None:
    sim = Simulation(
        block(), terrain=(Plane.floor(friction=0.0), Plane.wall(0.3)), spheres={"ball": corners()["corner 0"]}
    )
    q = sim.robot.q_home.copy()
    q[:3] = 0.3 - 0.2 - 0.02, 0.0, 0.05
    sim.reset(q, np.array([1.0, 0.0, -1.0, 0.0, 0.0, 0.0]))
    sim.step(np.zeros(0))
    floor, wall = sorted(sim.contacts, key=lambda c: -c.normal[2])
    np.testing.assert_allclose(floor.normal, [0.0, 0.0, 1.0], atol=1e-15)
    np.testing.assert_allclose(wall.normal, [-1.0, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(floor.point[2], 0.0, atol=1e-12)
    assert floor.friction == 0.0 and wall.friction == 0.6
    assert abs(floor.force[0]) < 1e-9 and wall.force[0] < 0.0 and abs(wall.force[2]) > 0.1
    np.testing.assert_allclose(sim.contact_forces["ball"], floor.force + wall.force)


def test_spheres_of_collision_shapes_reach_as_far_as_the_shapes() -> None:
    text = """<robot name="shapes"><link name="base"><inertial><mass value="1"/>
        <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
        <collision><origin xyz="0 0 0.1"/><geometry><box size="0.2 0.4 0.6"/></geometry></collision>
        <collision><origin xyz="1 0 0" rpy="0 1.5707963267948966 0"/><geometry><cylinder radius="0.1" length="0.6"/>
        </geometry></collision><collision><geometry><sphere radius="0.05"/></geometry></collision></link></robot>"""
    spheres = collision_spheres(qd.load(text, root="free"))
    assert [s.radius for s in spheres.values()] == [0.0] * 8 + [0.1] * 2 + [0.05]
    offsets = np.array([s.offset for s in spheres.values()])
    np.testing.assert_allclose(offsets[:8].max(axis=0), [0.1, 0.2, 0.4])
    np.testing.assert_allclose(offsets[8:10, 0], [0.8, 1.2])
    with pytest.raises(qd.UnknownNameError, match="bas"):
        collision_spheres(qd.load(text, root="free"), ["bas"])
    a1 = collision_spheres(robot_of("a1"), ["trunk", "FL_foot"])
    assert len(a1) >= 8 and not any(name.startswith("FL_foot") for name in a1)  # the foot is there already
    trunk = collision_spheres(robot_of("go2"), ["base"])  # a mesh
    size = np.ptp([s.offset for s in trunk.values()], axis=0)
    assert 8 <= len(trunk) <= 26 and 0.3 < size[0] < 0.5 and 0.05 < size[2] < 0.3


def test_too_many_contacts_are_rejected_without_changing_the_state() -> None:
    def plate(count: int) -> Simulation:
        rng = np.random.default_rng(7)
        points = np.column_stack([rng.uniform(-0.2, 0.2, (count, 2)), np.full(count, -0.05)])
        sim = Simulation(block(), spheres={f"{i}": ContactSphere("base", 0.0, at) for i, at in enumerate(points)})
        q = sim.robot.q_home.copy()
        q[2] = 0.05
        sim.reset(q)
        return sim

    sim = plate(MAX_CONTACTS + 1)
    start = sim.checkpoint()
    for _ in range(2):
        with pytest.raises(
            qd.ArgumentError, match=f"spheres: {MAX_CONTACTS + 1} contacts at t = 0 s exceed the maximum of"
        ):
            sim.step(np.zeros(0))
        assert sim.time == 0.0 and np.array_equal(sim.q, start.q) and not sim.contacts
    sim.reset(sim.q + np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]))
    for _ in range(3):
        sim.step(np.zeros(0))
    assert sim.v[2] == pytest.approx(-3e-3 * G) and len(plate(MAX_CONTACTS)._contacts.keys) == MAX_CONTACTS


# -- contact laws --------------------------------------------------------------------------------------------------
def test_step_satisfies_momentum_balance_and_contact_law() -> None:
    rng = np.random.default_rng(4)
    pushed, draws = 0, 15 if NIGHT else 4
    for name in ("go2", "solo8", "hyq"):
        robot = robot_of(name)
        dyn = qd.Dynamics(robot)
        for _ in range(draws):
            q = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.2, robot.nv))
            v = rng.normal(0.0, 0.5, robot.nv)
            ground = []
            for foot, leg in robot.legs.items():  # a small plate under each foot, just touching
                R = pin.exp3(rng.normal(0.0, 0.3, 3))
                centre = dyn.frame_placement(q, foot).translation
                ground.append(Box(centre - R[:, 2] * (leg.foot.radius + 0.005), np.array([0.02, 0.02, 0.01]), R))
            sim = Simulation(robot, floor=-np.inf, terrain=ground, integrator="euler", joint_stops=False)
            sim.reset(q, v)
            tau = rng.normal(0.0, 3.0, robot.nu)
            push = rng.normal(0.0, 10.0, 6)
            sim.step(tau, external={"FL": push})
            s, impulse = dyn.update(q, v), np.zeros(robot.nv)
            for contact in sim.contacts:
                J, centre = s.jacobian(contact.sphere), s.placement(contact.sphere).translation
                n, force = contact.normal, contact.force
                impulse += sim.dt * (J[:3].T @ force + J[3:].T @ np.cross(contact.point - centre, force))
                assert np.linalg.norm(force - n * (n @ force)) <= 0.6 * (n @ force) + 1e-6
                pushed += 1
            wanted = sim.dt * (
                robot.generalized_torques(sim.tau) + s.jacobian("FL").T @ push - s.h - robot.damping * sim.v
            )
            np.testing.assert_allclose(s.M @ (sim.v - v), wanted + impulse, atol=1e-8)
            assert sim.residual <= 1e-8 and sim.status in ("solved", "passive", "retried")
    assert pushed > 4 * draws


@settings(max_examples=40 if NIGHT else 8, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(("go2", "solo12", "anymal_c", "solo8")),
    friction=st.floats(0.0, 2.0),
    dt=st.sampled_from((5e-4, 1e-3, 2e-3)),
    slope=st.floats(-0.3, 0.3),
)
def test_ground_adds_no_energy_to_a_dropped_robot(
    seed: int, name: str, friction: float, dt: float, slope: float
) -> None:
    robot, rng, height = robot_of(name), np.random.default_rng(seed), 0.05
    sim = Simulation(robot, terrain=Plane.slope(slope), friction=friction, dt=dt)
    q, v = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.1, robot.nv)), rng.normal(0.0, 0.3, robot.nv)
    dyn, normal = qd.Dynamics(robot), sim.terrain.surfaces[0].normal
    low = min(normal @ dyn.frame_placement(q, f).translation - leg.foot.radius for f, leg in robot.legs.items())
    q[2] += height - low / normal[2]
    sim.reset(q, v)
    bar, touched, inaccurate = 1e-9 * robot.mass * G * height, 0, 0
    for _ in range(round(0.3 / dt)):
        before = sim.work.contacts
        spring = 10.0 * robot.mass * (robot.q_home[-robot.nu :] - sim.q[-robot.nu :])
        sim.step(spring - 0.02 * robot.mass * sim.v[-robot.nu :])
        assert sim.work.contacts - before <= bar + 1e-15
        assert (sim.status == "inaccurate") == (sim.residual > 1e-8) and np.isfinite(sim.v).all()
        touched += any(f.any() for f in sim.contact_forces.values())
        inaccurate += sim.status == "inaccurate"
    assert touched and inaccurate <= 2


def test_compliant_ground_has_the_deflection_and_natural_frequency_of_its_stiffness() -> None:
    robot = block()
    sim = Simulation(robot, spheres=corners(low=0.0), contact="compliant", stiffness=2e4, damping=0.0, dt=2e-4)
    q = robot.q_home.copy()
    q[2] = 0.02
    sim.reset(q)
    heights = []
    for _ in range(3000):
        sim.step(np.zeros(0))
        heights.append(sim.q[2] - 0.02)
    sag = 0.375 * 2.0 * G / 2e4  # the two in front carry a quarter each, the one behind a half
    assert np.mean(heights) == pytest.approx(-sag, rel=0.05)
    damped = Simulation(robot, spheres=corners(low=0.0), contact="compliant", stiffness=2e4, damping=400.0)
    damped.reset(q)
    for _ in range(1000):
        damped.step(np.zeros(0))
    # the load is not shared evenly: two spheres in front, one behind
    total = sum(f[2] for f in damped.contact_forces.values())
    assert total == pytest.approx(2.0 * G, rel=1e-6)
    for contact in damped.contacts:
        assert contact.force[2] == pytest.approx(2e4 * 0.02 - 2e4 * height_of(damped, contact.sphere), rel=1e-4)
    assert damped.work.contacts < 0.0 and np.abs(damped.v).max() < 1e-6


def height_of(sim: Simulation, corner: str) -> float:
    place = corners(low=0.0)[corner].offset
    return float((pin.XYZQUATToSE3(sim.q) * place)[2])


def test_compliant_contacts_creep_in_proportion_to_the_tangential_force_until_they_slide() -> None:
    creep, mu, force = 0.02, 0.6, 3.0
    sim = Simulation(block(), spheres=corners(low=0.0), contact="compliant", friction=mu, creep=creep)
    sim.reset()
    sim.push("base", (force, 0.0, 0.0), duration=1.0)
    for _ in range(900):
        sim.step(np.zeros(0))
    carried = {c.sphere: c.force for c in sim.contacts}
    assert sum(f[0] for f in carried.values()) == pytest.approx(-force, rel=1e-6)
    for f in carried.values():
        assert sim.v[0] == pytest.approx(-creep * f[0], rel=1e-3) and abs(f[0]) < mu * f[2]
    sim.push("base", (2.0 * mu * 2.0 * G, 0.0, 0.0), duration=1.0)
    for _ in range(50):
        sim.step(np.zeros(0))
    for c in sim.contacts:
        assert abs(c.force[0]) == pytest.approx(mu * c.force[2], rel=1e-6)
    assert sim.v[0] > 2.0 * creep * mu * 2.0 * G / len(carried)


def test_rigid_contacts_stick_at_any_friction_and_release() -> None:
    robot = robot_of("go2")
    sim, stand, dyn = Simulation(robot, contact="rigid", friction=0.0), Stand(robot), qd.Dynamics(robot)
    v = np.zeros(robot.nv)
    v[:2] = 0.1, 0.05
    sim.reset(None, v)
    start = {foot: dyn.frame_placement(sim.q, foot).translation for foot in robot.feet}
    for _ in range(300):
        sim.step(stand(sim))
        assert sim.status == "solved" and all(f[2] >= -1e-9 for f in sim.contact_forces.values())
    for foot in robot.feet:
        np.testing.assert_allclose(dyn.frame_placement(sim.q, foot).translation, start[foot], atol=2e-3)
    jump = robot.effort_limits.copy() * 0.8
    for _ in range(150):
        sim.step(np.where(stand.target[7:] < 0.0, jump, -jump))
        lifted = not sim.contacts  # the legs are at their stops
        if lifted:
            break
    assert lifted


# -- time stepping -------------------------------------------------------------------------------------------------
def test_runge_kutta_keeps_energy_and_converges_with_the_fourth_order() -> None:
    robot = robot_of("go2")
    ends, drifts = [], []
    v = 3.0 * np.random.default_rng(0).normal(size=robot.nv)
    for dt in (4e-3, 2e-3, 5e-4):
        sim = Simulation(robot, floor=-np.inf, integrator="rk4", dt=dt, joint_stops=False)
        sim.reset(None, v)
        start = sim.energy
        for _ in range(round(0.2 / dt)):
            sim.step(np.zeros(robot.nu))
        drifts.append(abs(sim.energy - start))
        ends.append(sim.q)
    errors = [np.abs(pin.difference(robot.model, end, ends[-1])).max() for end in ends[:2]]
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.2)
    assert drifts[0] < 1e-6 and drifts[1] < drifts[0] / 10.0


def test_runge_kutta_handles_landing_and_joint_friction() -> None:
    robot = qd.load("go2", damping=0.5, friction=0.2)
    fine, euler, rk4 = (
        Simulation(robot, integrator=n, dt=dt) for n, dt in (("euler", 5e-5), ("euler", 1e-3), ("rk4", 1e-3))
    )
    for sim in (fine, euler, rk4):
        q, v = robot.q_home.copy(), np.zeros(robot.nv)
        q[2] += 0.1
        v[6:] = np.random.default_rng(0).normal(0.0, 3.0, robot.nu)
        sim.reset(q, v)
        for _ in range(round(0.1 / sim.dt)):
            sim.step(np.zeros(robot.nu))
        assert sim.work.joints < 0.0
    off = [np.abs(pin.difference(robot.model, fine.q, sim.q)).max() for sim in (euler, rk4)]
    assert max(off) < 5e-3 < 0.05 < np.abs(pin.difference(robot.model, robot.q_home, fine.q))[6:].max()
    for _ in range(200):
        rk4.step(np.zeros(robot.nu))
    assert sum(f[2] for f in rk4.contact_forces.values()) > 0.0 and rk4.work.contacts < 0.0


# -- pushes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", PLANTS)
def test_a_push_changes_the_momentum_by_its_impulse_about_any_point(kind: Plants) -> None:
    robot = robot_of("anymal_c")
    plant, dyn = kind(robot, floor=-np.inf, dt=1e-4), qd.Dynamics(robot)
    force, moment = np.array([300.0, -200.0, 500.0]), np.array([10.0, 20.0, -30.0])
    lever = dyn.frame_placement(plant.q, "LF_KFE").translation - dyn.center_of_mass(plant.q)
    plant.push("LF_KFE", np.concatenate((force, moment)), duration=0.01)
    for _ in range(200):
        plant.step(np.zeros(robot.nu))
    gained = dyn.centroidal_momentum(plant.q, plant.v)
    np.testing.assert_allclose(gained[:3], 0.01 * force + 0.02 * robot.mass * np.array([0.0, 0.0, -G]), atol=0.02)
    np.testing.assert_allclose(gained[3:], 0.01 * (np.cross(lever, force) + moment), atol=0.05)
    other = kind(robot, floor=-np.inf, dt=1e-4)
    for _ in range(200):
        other.step(
            np.zeros(robot.nu), external={"LF_KFE": np.concatenate((force, moment))} if other.time < 0.00995 else None
        )
    np.testing.assert_array_equal(plant.q, other.q)
    if kind is Simulation:
        assert plant.work.pushes == pytest.approx(plant.energy - kind(robot).energy, rel=1e-2)


@pytest.mark.parametrize("kind", PLANTS)
def test_pushes_add_up_expire_and_are_validated(kind: Plants) -> None:
    plant, f = kind(robot_of("solo12")), np.array([0.0, 0.0, 5.0])
    plant.push("base_link", f, duration=np.inf)
    plant.push("base_link", 2.0 * f, duration=0.002)
    for expected in (15.0, 15.0, 5.0):
        free = kind(plant.robot)
        free.restore(plant.checkpoint())
        free._pushes = ()
        plant.step(np.zeros(12))
        free.step(np.zeros(12), external={"base_link": np.array([0.0, 0.0, expected])})
        np.testing.assert_array_equal(plant.v, free.v)
    plant.reset()
    assert not plant._pushes
    for frame, force, error in (
        ("no_link", f, qd.UnknownNameError),
        ("base_link", np.zeros(4), qd.ArgumentError),
        ("base_link", np.full(3, np.nan), qd.ArgumentError),
        ("base_link", "x", qd.ArgumentTypeError),
    ):
        with pytest.raises(error):
            plant.push(frame, force, duration=1.0)  # type: ignore[arg-type]
        with pytest.raises(error):
            plant.step(np.zeros(12), external={frame: force})  # type: ignore[dict-item]
    raises(qd.ArgumentError, "duration", plant.push, "base_link", f, duration=0.0)


def test_pushes_and_periods_in_other_units_give_a_warning() -> None:
    plant = qd.Simulation(robot_of("solo12"))
    with pytest.warns(RuntimeWarning, match="^duration: 100 s seems to be in milliseconds") as caught:
        plant.push("base_link", [0.0, 60.0, 0.0], duration=100)
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="^force: 6e\\+04 N is .* times the weight .* pass newtons") as caught:
        plant.push("base_link", [0.0, 6e4, 0.0], duration=0.1)
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="^control_dt: 2 s seems to be in milliseconds"):
        raises(qd.ArgumentTypeError, "controller", plant.run, None, 4.0, control_dt=2.0)
    for force, duration in ((5.0, np.inf), (5.0, 15.0), (5e3, 1e-3)):  # a constant load, and an impact
        plant.push("base_link", [0.0, force, 0.0], duration=duration)


# -- motors --------------------------------------------------------------------------------------------------------
def test_driving_torque_falls_from_corner_speed_to_no_load_speed() -> None:
    robot = robot_of("double_pendulum_simple")
    motors = Actuators(robot, effort=10.0, corner_speed=5.0, no_load_speed=15.0)
    for speed, asked, delivered in (
        (0.0, 20.0, 10.0),
        (4.0, 20.0, 10.0),
        (10.0, 20.0, 5.0),
        (10.0, 3.0, 3.0),
        (15.0, 20.0, 0.0),
        (99.0, 20.0, 0.0),
        (10.0, -20.0, -10.0),  # braking
        (-10.0, -20.0, -5.0),
    ):
        np.testing.assert_allclose(motors.apply_limits(np.full(2, asked), np.full(2, speed)), delivered, atol=1e-12)
    endless = Actuators(robot, effort=np.inf, corner_speed=5.0, no_load_speed=np.array([15.0, np.inf]))
    np.testing.assert_allclose(endless.apply_limits(np.full(2, 1e3), np.full(2, 20.0)), [0.0, 1e3])
    sharp = Actuators(robot, effort=10.0, no_load_speed=5.0)
    np.testing.assert_allclose(sharp.apply_limits(np.full(2, 20.0), np.array([4.99, 5.01])), [10.0, 0.0])
    for name, value in (
        ("effort", -1.0),
        ("viscous", np.inf),
        ("coulomb", np.nan),
        ("rotor_inertia", np.zeros(3)),
        ("no_load_speed", "x"),
    ):
        raises(qd.ArgumentError, name, Actuators, robot, **{name: value})
    raises(qd.ArgumentError, "corner_speed", Actuators, robot, corner_speed=6.0, no_load_speed=5.0)
    with pytest.raises(qd.ArgumentError, match="actuators"):
        Simulation(robot_of("solo12"), actuators=motors)


@pytest.mark.parametrize("kind", PLANTS)
def test_motor_accelerates_until_friction_equals_the_available_torque(kind: Plants) -> None:
    text = """<robot name="wheel"><link name="base"/><link name="wheel"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="2" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="axle" type="continuous"><parent link="base"/><child link="wheel"/><axis xyz="0 0 1"/>
        <limit effort="99" velocity="99"/></joint></robot>"""
    robot = qd.load(text, root="fixed")
    losses = {"viscous": 2.0, "coulomb": 1.0, "rotor_inertia": 3.0}
    plant = kind(robot, actuators=Actuators(robot, effort=50.0, corner_speed=1.0, no_load_speed=3.0, **losses))
    for _ in range(100):
        plant.step(np.array([100.0]))
    # below the corner: (2 + 3) a = 50 - 2 v - 1
    assert plant.v[0] == pytest.approx(24.5 * (1.0 - np.exp(-0.4 * 0.1)), rel=0.02) and plant.tau[0] == 50.0
    assert plant.energy == pytest.approx(0.5 * 5.0 * plant.v[0] ** 2, rel=1e-9)
    for _ in range(3000):
        plant.step(np.array([100.0]))
    assert plant.v[0] == pytest.approx(74.0 / 27.0, rel=1e-3)  # 50 (3 - v) / 2 = 2 v + 1
    assert plant.tau[0] == pytest.approx(25.0 * (3.0 - plant.v[0]), rel=1e-3)
    for _ in range(5000):
        plant.step(np.zeros(1))
    assert abs(plant.v[0]) < 2e-3


# -- memory --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", PLANTS)
def test_restored_plants_continue_bit_for_bit(kind: Plants) -> None:
    robot = robot_of("go1")  # with friction in its joints
    ground = (Plane.floor(), Box(np.array([0.3, 0.0, 0.0]), np.array([0.3, 1.0, 0.04])))
    plant, stand = kind(robot, terrain=ground), Stand(robot)
    q = robot.q_home.copy()
    q[2] += 0.05
    plant.reset(q)
    plant.push("trunk", np.array([20.0, 5.0, 0.0]), duration=0.3)

    def run(plant: Any) -> tuple[bytes, ...]:
        for _ in range(150):
            plant.step(stand(plant))
        forces = np.array(list(plant.contact_forces.values()))
        return (
            plant.q.tobytes(),
            plant.v.tobytes(),
            plant.tau.tobytes(),
            forces.tobytes(),
            bytes(str(plant.time), "ascii"),
        )

    run(plant)
    saved = plant.checkpoint()
    before = {name: f.copy() for name, f in plant.contact_forces.items()}
    first = run(plant)
    plant.restore(saved)
    np.testing.assert_array_equal(list(plant.contact_forces.values()), list(before.values()))
    assert run(plant) == first
    other = kind(robot, terrain=ground)
    other.restore(pickle.loads(pickle.dumps(saved)))
    assert run(other) == first
    with pytest.raises(qd.ArgumentError, match="checkpoint"):
        kind(robot_of("solo12")).restore(saved)
    with pytest.raises(qd.ArgumentError, match="checkpoint"):
        kind(robot, terrain=ground, dt=2e-3).restore(saved)
    raises(qd.ArgumentTypeError, "checkpoint", plant.restore, "x")
    q = plant.q
    with pytest.raises(qd.ArgumentError, match="spheres"):
        plant.restore(kind(robot, spheres={"trunk": ContactSphere("base", 0.1)}).checkpoint())
    assert plant.q is q  # the state is unchanged


@pytest.mark.parametrize("kind", PLANTS)
def test_checkpoint_or_log_of_another_plant_is_rejected_with_the_differences(kind: Plants) -> None:
    robot = robot_of("small_quadruped")
    plant = kind(robot)
    saved, q, time = plant.checkpoint(), plant.q, plant.time
    log = plant.run(lambda _: np.zeros(robot.nu), 0.004)
    plant.restore(saved)
    inner = saved.inner
    for changed, said in (
        ({"kind": "Other"}, f"plant 'Other', in this plant {kind.__name__!r}"),
        ({"robot": "spot"}, "robot 'spot', in this plant 'small_quadruped'"),
        ({"dt": 0.5}, f"dt 0.5, in this plant {plant.dt}"),
        ({"spheres": ("a", "b")}, r"spheres \('a', 'b'\), in this plant \('FL'"),
        (
            {"q": np.zeros(3), "v": np.zeros(2)},
            r"shape of q \(3,\), in this plant \(19,\); shape of v \(2,\), in "
            r"this plant \(18,\)",
        ),
        ({"drives": (np.zeros(77),)}, r"shapes of the motor states \[\(77,\)\], in this plant \["),
        ({"held": ((np.zeros(3),),)}, "held bodies differ"),
        ({"inner": ()}, "state"),
        ({"inner": (np.zeros(3), *inner[1:])}, r"\(3,\).*, in this plant .*\("),
        ({"inner": inner[:-1]}, "state"),
    ):
        other = replace(saved, **changed)
        raises(qd.ArgumentError, f"^checkpoint: was taken from a different plant .*{said}", plant.restore, other)
        message = f"^log: its initial state does not fit: checkpoint: was taken from a different plant .*{said}"
        with pytest.raises(qd.ArgumentError, match=message):
            plant.replay(replace(log, initial_checkpoint=other))
        assert plant.q is q and plant.time == time  # the state is unchanged
    with pytest.raises(qd.ArgumentError, match=rf"^log: expected torques of shape \(n, {robot.nu}\) .* got \(2, 3\)"):
        plant.replay(replace(log, tau=np.zeros((2, 3))))


@pytest.mark.parametrize("kind", PLANTS)
def test_a_log_is_not_replayed_with_other_friction_ground_or_contact_law(kind: Plants, tmp_path: Path) -> None:
    robot = robot_of("solo12")
    box = Box(center=np.zeros(3), size=np.array([2.0, 2.0, 0.02]))
    log = kind(robot, friction=0.7).run(Stand(robot), 0.002)
    law = {"contact": "compliant"} if kind is qd.Simulation else {"contact": "soft"}
    for each in (log, type(log).load(log.save(tmp_path / "run.npz"))):
        for other, said in (
            ({"friction": 0.05}, r"friction 0\.7, in this plant 0\.05"),
            ({"floor": -1.0}, "terrain floor at 0 m .*, in this plant floor at -1 m"),
            ({"terrain": [Plane.floor(), box]}, "terrain floor at 0 m .*, in this plant floor at 0 m, Box"),
            (law, f"contact .*, in this plant {law['contact']}"),
        ):
            with pytest.raises(qd.ArgumentError, match=f"^log: was made with other arguments .*{said}"):
                kind(robot, **{"friction": 0.7, **other}).replay(each)
        kind(robot, friction=0.7, terrain=[Plane.floor()]).replay(each)
    kind(robot).replay(
        replace(log, initial_checkpoint=replace(log.initial_checkpoint, settings=()))
    )  # earlier versions


@pytest.mark.parametrize("kind", PLANTS)
def test_a_log_replays_bit_for_bit(kind: Plants) -> None:
    robot = robot_of("solo12")
    plant, stand = kind(robot), Stand(robot)
    seen = []
    log = plant.run(stand, 0.2, control_dt=0.004, on_tick=lambda p: seen.append(p.time))
    assert plant.time == pytest.approx(0.2) and log.tau.shape == (50, 12) and log.steps_per_tick == 4
    np.testing.assert_allclose(log.time, 0.004 * np.arange(50), atol=1e-12)
    np.testing.assert_allclose(seen, log.time + 0.004)
    assert log.forces.shape == (50, 4, 3) and log.forces[-1, :, 2].sum() == pytest.approx(robot.mass * G, rel=0.1)
    end = plant.q.tobytes(), plant.v.tobytes()
    for _ in range(7):
        plant.step(np.ones(12))
    plant.replay(log)
    assert (plant.q.tobytes(), plant.v.tobytes()) == end


@pytest.mark.parametrize("kind", PLANTS)
def test_control_period_must_be_a_multiple_of_the_step(kind: Plants) -> None:
    plant = kind(robot_of("solo12"))
    for times in ({"control_dt": 0.0025}, {"control_dt": 0.0}, {"control_dt": np.nan}, {"control_dt": 5e-4}):
        raises(qd.ArgumentError, "control_dt", plant.run, lambda p: np.zeros(12), 0.1, **times)
    for seconds in (0.0, 0.1005, np.inf):
        raises(qd.ArgumentError, "duration", plant.run, lambda p: np.zeros(12), seconds, control_dt=0.002)
    raises(qd.ArgumentError, "tau", plant.run, lambda p: np.zeros(11), 0.1)
    for seconds in (1e308, 1e12):
        raises(qd.ArgumentError, "duration", plant.run, lambda p: np.zeros(12), seconds)
    raises(qd.ArgumentTypeError, "controller", plant.run, None, 0.1)
    raises(qd.ArgumentTypeError, "log", plant.replay, None)
    raises(qd.ArgumentTypeError, "external", plant.step, np.zeros(12), external=["base_link"])
    plant.push("base_link", np.zeros(3), duration=1e307)
    plant.step(np.zeros(12))


@pytest.mark.parametrize("kind", PLANTS)
def test_sphere_may_have_any_name_and_divergence_clears_contacts(kind: Plants) -> None:
    robot = robot_of("solo12")
    plant = kind(robot, spheres={"terrain 0": ContactSphere("base_link", 0.05)})
    for _ in range(20):
        plant.step(np.zeros(12))
    assert plant.contacts
    q, v = plant.q, plant.v
    with pytest.raises(qd.DivergenceError):
        plant.step(np.zeros(12), external={"base_link": np.full(3, 1e300)})
    assert plant.q is q and plant.v is v and plant.contacts == () and plant.status == "free"
    plant.step(np.zeros(12))
    assert plant.contacts and np.isfinite(plant.v).all()


def test_invalid_terrain_is_rejected_by_name() -> None:
    robot = robot_of("solo12")
    for make, name in (
        (lambda: Plane(np.zeros(3), np.zeros(3)), "normal"),
        (lambda: Plane(np.zeros(2), np.ones(3)), "point"),
        (lambda: Plane.slope(2.0), "angle"),
        (lambda: Plane.floor(friction=-1.0), "friction"),
        (lambda: Plane.floor(np.inf), "point"),
        (lambda: Box(np.zeros(3), np.array([1.0, 0.0, 1.0])), "size"),
        (lambda: Box(np.zeros(3), np.ones(3), 2.0 * np.eye(3)), "rotation"),
        (lambda: HeightField(np.zeros(2), np.ones(2), np.zeros((1, 5))), "heights"),
        (lambda: HeightField(np.zeros(2), -np.ones(2), np.zeros((3, 5))), "spacing"),
        (lambda: HeightField.from_function(lambda x, y: x / 0.0 * np.nan, (0, 1), (0, 1)), "heights"),
        (lambda: HeightField.from_function(lambda x, y: x, (1, 0), (0, 1)), "x"),
        (lambda: HeightField.from_function(lambda x, y: x, (0, 1e9), (0, 1)), "spacing"),
        (lambda: HeightField.from_function(lambda x, y: x[:3], (0, 1), (0, 1)), "heights"),
        (lambda: HeightField.from_function(None, (0, 1), (0, 1)), "function"),
        (lambda: HeightField.from_function(lambda x, y: x, ("a", 1), (0, 1)), "x"),
        (lambda: Plane.wall(1.0, heading=np.inf), "heading"),
        (lambda: Terrain(5), "surfaces"),
        (lambda: stairs(0, rise=0.1, tread=0.1), "n_steps"),
        (lambda: stairs(3, rise="high", tread=0.1), "rise"),
        (lambda: ContactSphere(3, 0.1), "frame"),
        (lambda: ContactSphere("base", 1.0, "x"), "offset"),
        (lambda: Simulation(robot, spheres={"": ContactSphere("base_link", 0.1)}), "spheres"),
        (lambda: ContactSphere("base", -1.0), "radius"),
        (lambda: ContactSphere("base", 1.0, np.zeros(2)), "offset"),
        (lambda: Simulation(robot, terrain="floor"), "terrain"),
        (lambda: Simulation(robot, terrain=[1]), "terrain"),
        (lambda: Simulation(robot, spheres={"FL": ContactSphere("base_link", 0.1)}), "spheres"),
        (lambda: Simulation(robot, spheres={"x": 0.1}), "spheres"),
        (lambda: Simulation(robot, integrator="magic"), "integrator"),
        (lambda: Simulation(robot, stiffness=1e4), "stiffness"),
        (lambda: Simulation(robot, contact="compliant", stiffness=-1.0), "stiffness"),
        (lambda: Simulation(robot, contact="compliant", damping=np.inf), "damping"),
        (lambda: Simulation(robot, contact="compliant", creep=-1.0), "creep"),
        (lambda: Simulation(robot, creep=0.1), "creep"),
        (lambda: Simulation(robot, actuators="strong"), "actuators"),
    ):
        with np.errstate(all="ignore"), pytest.raises(qd.ArgumentError, match=name):
            make()
    with pytest.raises(qd.UnknownNameError, match="bas"):
        Simulation(robot, spheres={"x": ContactSphere("bas", 0.1)})


# -- the two of them -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("v", [pytest.param((0.0, 0.0, -0.5), marks=pytest.mark.slow), (0.5, 0.0, 0.0)])
def test_dropped_go2_has_the_same_motion_in_both_plants(v: tuple[float, float, float]) -> None:
    robot = robot_of("go2")
    ways, forces = [], []
    for kind in (Simulation, MujocoPlant):
        plant, stand = kind(robot, dt=5e-4), Stand(robot)
        q, start = robot.q_home.copy(), np.zeros(robot.nv)
        q[2] += 0.05
        start[:3] = v
        plant.reset(q, start)
        log = plant.run(stand, 0.6 if NIGHT else 0.3)
        ways.append(log.q[:, :3])
        forces.append(log.forces[:, :, 2].sum(axis=1).mean())
    assert np.linalg.norm(ways[0] - ways[1], axis=1).max() < 1e-3
    assert forces[0] == pytest.approx(forces[1], rel=5e-3)


def test_joint_friction_does_not_exceed_coulomb_friction() -> None:
    robot = qd.load("go2", friction=1.0)
    sim, dyn = Simulation(robot, floor=-np.inf, integrator="euler", joint_stops=False), qd.Dynamics(robot)
    rng = np.random.default_rng(6)
    for k in range(100):
        q, v = sim.q, sim.v
        sim.step(rng.uniform(-20.0, 20.0, robot.nu) if k % 10 < 5 else 5.0 * np.ones(robot.nu))
        dry = robot.generalized_torques(sim.tau) - dyn.rnea(q, v, (sim.v - v) / sim.dt)
        assert np.abs(dry[6:]).max() <= 1.2 and np.abs(dry[:6]).max() < 1e-8
        assert (dry[6:] * sim.v[6:] >= -1e-9).all()


def test_torques_by_joint_name_do_not_depend_on_the_order(go2: qd.Robot) -> None:
    tau = np.linspace(-3.0, 3.0, go2.nu)
    by_name = dict(reversed(list(zip(go2.actuated, tau.tolist(), strict=True))))
    plants = [Simulation(go2), Simulation(go2)]
    plants[0].step(tau)
    plants[1].step(by_name)
    np.testing.assert_array_equal(plants[0].v, plants[1].v)
    log = plants[1].run(lambda plant: by_name, 0.002)
    np.testing.assert_array_equal(log.tau[0], tau)
    with pytest.raises(qd.UnknownNameError, match=r"unknown actuated joint 'FL_calf'.*FL_calf_joint"):
        plants[0].step({**by_name, "FL_calf": 1.0})
    del by_name["FR_hip_joint"]
    with pytest.raises(qd.ArgumentError, match=r"tau: .* FR_hip_joint .*missing"):
        plants[0].step(by_name)
    by_name["FR_hip_joint"] = np.nan
    with pytest.raises(qd.ArgumentError, match="tau"):
        plants[0].step(by_name)


@pytest.mark.parametrize("name", ["go2", "ur5"])
def test_joint_positions_in_place_of_torques_are_reported_once(name: str) -> None:
    robot = qd.load(name)
    plant, positions = Simulation(robot), robot.q_home[-robot.nu :]
    if name == "ur5":
        positions = positions + np.linspace(0.1, 0.2, robot.nu)
        plant.reset(positions)
    with pytest.warns(RuntimeWarning, match="tau: its entries are the .* positions of the actuated joints") as caught:
        plant.step(positions)
        plant.step(positions)
    assert len(caught) == 1 and caught[0].filename == __file__
    plant = Simulation(robot)
    for tau in (np.zeros(robot.nu), 10.0 * robot.q_home[-robot.nu :] + 0.1, np.ones(robot.nu)):
        plant.reset()
        plant.step(tau)  # a warning would be an error
