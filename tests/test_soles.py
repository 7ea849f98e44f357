"""Flat feet: soles from files, their friction cones and pressure in whole-body control, standing in both plants."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from raising import raises
from robots_with_soles import BOX, biped

import quaddyn as qd
from quaddyn.contact import Contact, ContactSet, flat_foot_stance, friction_pyramid
from quaddyn.contact.contact import _largest_rectangle, simplify_outline
from quaddyn.contact.support import support_polygon
from quaddyn.wbc import replay

SPHERES = "".join(
    f'<collision><origin xyz="{x} {y} -0.06"/><geometry><sphere radius="0.005"/></geometry></collision>'
    for x, y in ((-0.07, 0.04), (-0.07, -0.04), (0.13, 0.05), (0.13, -0.05))
)
SHAPE = '<collision><origin xyz="0.03 0 -0.05" rpy="{}"/><geometry>{}</geometry></collision>'
CYLINDER = SHAPE.format("0 0 0", '<cylinder radius="0.08" length="0.03"/>')
BALL = SHAPE.format("0 0 0", '<sphere radius="0.03"/>')
BAR = SHAPE.format("0 1.5707963267948966 0", '<capsule radius="0.02" length="0.2"/>')
RUNNERS = "".join(BAR.replace('xyz="0.03 0', f'xyz="0.03 {y}') for y in (-0.05, 0.05))
TURNED = '<collision><origin xyz="0 -0.05 0.03"/><geometry><box size="0.1 0.03 0.2"/></geometry></collision>'


@pytest.fixture(scope="module")
def robot() -> qd.Robot:
    return qd.load(biped())


def soles_of(robot: qd.Robot) -> list[Contact]:
    return [Contact.from_sole(robot, foot) for foot in robot.feet]


def box_mesh(folder: Path) -> str:
    """The box with its edges broken, so that its lowest points are those of a smaller rectangle."""
    rings = ((-0.065, 0.9), (-0.055, 1.0))
    corners = [(x * s, y * s, z) for z, s in rings for x in (-0.1, 0.1) for y in (-0.05, 0.05)]
    path = folder / "sole.obj"
    path.write_text("".join(f"v {x + 0.03} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\nf 5 6 7\n", encoding="utf-8")
    return '<collision><geometry><mesh filename="sole.obj"/></geometry></collision>'


# -- from the file -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shapes", "centre", "half"),
    [
        (BOX.format(rpy="0 0 0"), (0.03, 0.0, -0.065), (0.1, 0.05)),
        (BOX.format(rpy="3.141592653589793 0 0"), (0.03, 0.0, -0.065), (0.1, 0.05)),
        (SPHERES, (0.03, 0.0, -0.065), (0.1, 0.04)),
        ("mesh", (0.03, 0.0, -0.065), (0.09, 0.045)),
        (CYLINDER, (0.03, 0.0, -0.065), (0.08 / np.sqrt(2), 0.08 / np.sqrt(2))),
        (RUNNERS, (0.03, 0.0, -0.07), (0.1, 0.05)),
    ],
    ids=["box", "box upside down", "four spheres", "mesh", "cylinder", "two capsules"],
)
def test_sole_is_the_largest_rectangle_at_the_bottom_of_the_foot(
    shapes: str, centre: tuple[float, ...], half: tuple[float, ...], tmp_path: Path
) -> None:
    file = tmp_path / "biped.urdf"
    file.write_text(biped(box_mesh(tmp_path) if shapes == "mesh" else shapes), encoding="utf-8")
    robot = qd.load(file)
    for foot in robot.feet:
        sole = Contact.from_sole(robot, foot, friction=0.4)
        assert (sole.name, sole.frame, sole.kind, sole.friction) == (foot, foot, "surface", 0.4)
        np.testing.assert_array_equal(sole.rotation, np.eye(3))
        np.testing.assert_allclose(sole.offset + robot.legs[foot].foot.offset, centre, atol=1e-9)
        np.testing.assert_allclose(sole.half_size, half, atol=1e-9)


@pytest.mark.parametrize("shapes", [BALL, BAR, ""], ids=["ball", "bar", "none"])
def test_feet_without_a_flat_sole_raise_a_clear_error(shapes: str) -> None:
    robot = qd.load(biped(shapes))
    raises(qd.ArgumentError, r"no flat sole.*half_size", Contact.from_sole, robot, "L")
    raises(qd.UnknownNameError, "foot", Contact.from_sole, robot, "left")


def test_contacts_that_are_not_surfaces_raise_errors(robot: qd.Robot) -> None:
    raises(qd.ArgumentError, "rotation: expected None for the point", Contact, name="c", frame="L", rotation=np.eye(3))
    for wrong in (np.zeros((3, 3)), -np.eye(3), np.eye(2), np.full((3, 3), np.nan)):
        with pytest.raises(qd.ArgumentError, match="rotation: expected"):
            Contact(name="c", frame="L", kind="surface", half_size=(0.1, 0.1), rotation=wrong)
    with pytest.raises(qd.ArgumentTypeError, match="rotation"):
        Contact(name="c", frame="L", kind="surface", half_size=(0.1, 0.1), rotation="up")  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError, match="half_size: expected lengths of at least"):
        Contact(name="c", frame="L", kind="surface", half_size=(0.1, 1e-9))
    sole = Contact.from_sole(robot, "L")
    for plant in (qd.Simulation, qd.MujocoPlant):
        with pytest.raises(qd.ArgumentError, match="soles: expected contacts of kind 'surface'"):
            plant(robot, soles=[Contact.from_foot(robot, "L")])
        raises(qd.ArgumentError, "soles: expected every name once", plant, robot, soles=[sole, sole])
        raises(qd.ArgumentTypeError, "soles", plant, robot, soles=[robot])
    raises(qd.ArgumentError, "at least one", flat_foot_stance, robot, [])
    raises(qd.ArgumentError, "no stance with flat feet", flat_foot_stance, robot, [sole], height=3.0)
    raises(qd.ArgumentError, "free root", flat_foot_stance, qd.load(biped(), root="fixed"), [sole])


# -- axes ----------------------------------------------------------------------------------------------------------
def test_results_do_not_depend_on_the_axes_of_the_foot_link(robot: qd.Robot) -> None:
    other = qd.load(biped(TURNED, turned=True))
    commands = []
    for each in (robot, other):
        soles = soles_of(each)
        q = flat_foot_stance(each, soles)
        dyn, contacts = qd.Dynamics(each), ContactSet(each, soles)
        s = dyn.update(q, np.zeros(each.nv))
        np.testing.assert_allclose(s.com[:2], np.mean([*contacts.positions(s).values()], axis=0)[:2], atol=1e-5)
        wbc = qd.WholeBodyController(each, contacts=soles)
        wbc.tasks.com.reference(s.com, acceleration=np.array([2.5, -1.0, 0.5]))
        command = wbc.compute(s)
        assert command.ok
        commands.append((command, q, contacts.pyramid(s), contacts.support_polygon(s)))
    (one, q, A, area), (two, r, B, ground) = commands
    np.testing.assert_allclose(r, q, atol=1e-9)
    np.testing.assert_allclose(B, A, atol=1e-9)
    np.testing.assert_allclose(ground, area, atol=1e-9)
    np.testing.assert_allclose(two.tau, one.tau, atol=1e-6)
    for foot in robot.feet:
        np.testing.assert_allclose(two.forces[foot], one.forces[foot], atol=1e-6)
        np.testing.assert_allclose(two.centers_of_pressure[foot], one.centers_of_pressure[foot], atol=1e-8)


def test_center_of_pressure_reaches_the_edge_and_explain_reports_it(robot: qd.Robot) -> None:
    soles = soles_of(robot)
    s = qd.Dynamics(robot).update(flat_foot_stance(robot, soles), np.zeros(robot.nv))
    wbc = qd.WholeBodyController(robot, contacts=soles, friction=1.0)
    wbc.tasks.com.reference(s.com, acceleration=np.array([-6.0, 0.0, 0.0]))
    command = wbc.compute(s)
    assert command.ok
    assert "center of pressure" in command.explain()
    assert min(room for name, room in command.margins.items() if "center of pressure" in name) > -1e-6
    contacts = ContactSet(robot, soles)
    for sole in soles:
        local = command.centers_of_pressure[sole.name] - contacts.positions(s)[sole.name]
        np.testing.assert_allclose(local[0], 0.1, atol=1e-6)  # the front edge: the weight moves back with the body
        assert abs(local[1]) <= 0.05 + 1e-9 and abs(local[2]) < 1e-9
        np.testing.assert_allclose(
            command.centers_of_pressure[sole.name],
            contacts.center_of_pressure(s, sole.name, command.forces[sole.name]),
            atol=1e-12,
        )
    assert set(pickle.loads(pickle.dumps(command)).centers_of_pressure) == {"L", "R"} and set(
        copy.copy(command).centers_of_pressure
    ) == {
        "L",
        "R",
    }


# -- plants --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("plant", [qd.Simulation, qd.MujocoPlant])
def test_a_biped_stands_shifts_its_weight_and_squats(robot: qd.Robot, plant: type[qd.Simulation]) -> None:
    soles = soles_of(robot)
    sim = plant(robot, soles=soles)
    sim.reset(flat_foot_stance(robot, soles))
    assert sim.spheres[:2] == ("L", "R")
    dyn, wbc, contacts = qd.Dynamics(robot), qd.WholeBodyController(robot, contacts=soles), ContactSet(robot, soles)
    start = np.array(dyn.update(sim.q, sim.v).com)
    weight, loads, before = robot.mass * 9.81, [], np.zeros(3)
    for way in (np.array([0.0, 0.04, 0.0]), np.array([0.0, 0.0, -0.08])):
        for tick in range(500):
            t, step = min(tick / 400.0, 1.0), way - before
            speed, rate = 6.0 * (t - t**2) / 0.4, (6.0 - 12.0 * t) / 0.4**2 if t < 1.0 else 0.0
            wanted = start + before + (3.0 - 2.0 * t) * t**2 * step
            wbc.tasks.com.reference(wanted, velocity=speed * step, acceleration=rate * step)
            command = wbc.compute(dyn.update(sim.q, sim.v))
            assert command.ok and sim.ok, (tick, command.status, sim.status)
            sim.step(command.tau)
        s = dyn.update(sim.q, sim.v)
        np.testing.assert_allclose(s.com, start + way, atol=2e-3)
        forces = sim.contact_forces
        assert set(forces) >= {"L", "R"} and not sim.body_forces
        assert sum(forces.values())[2] == pytest.approx(weight, rel=0.01)
        assert len({point.sphere for point in sim.contacts}) == 2 and len(sim.contacts) >= 6
        for foot in robot.feet:  # of the ground, and of the controller
            points = [(p.point, p.force[2]) for p in sim.contacts if p.sphere == foot]
            felt = sum(f * x for x, f in points) / sum(f for _, f in points)
            np.testing.assert_allclose(felt, command.centers_of_pressure[foot], atol=5e-3)
            inside = contacts[foot].axes_at(s.placement(foot).rotation) @ (felt - contacts.positions(s)[foot])
            assert (np.abs(inside[:2]) <= contacts[foot].half_size).all()
            loads.append(forces[foot][2])
        before = way
    assert loads[0] > 1.5 * loads[1]  # most of the weight was on the left


def test_saved_ticks_and_viewers_contain_the_center_of_pressure(robot: qd.Robot, tmp_path: Path) -> None:
    soles = soles_of(robot)
    s = qd.Dynamics(robot).update(flat_foot_stance(robot, soles), np.zeros(robot.nv))
    wbc = qd.WholeBodyController(robot, contacts=soles)
    command = wbc.compute(s)
    wbc.save_tick(tmp_path / "tick.npz")
    again = replay(tmp_path / "tick.npz")
    assert again.identical and set(again.command.centers_of_pressure) == {"L", "R"}
    for foot, place in command.centers_of_pressure.items():
        np.testing.assert_allclose(again.command.centers_of_pressure[foot], place, atol=1e-12)
    viewer = qd.Viewer(robot, serve=False)
    viewer.show(s.q, forces=command.forces, points=command.centers_of_pressure, show_support_polygon=True)


def test_plants_with_soles_restore_only_checkpoints_of_such_plants(robot: qd.Robot) -> None:
    soles = soles_of(robot)
    flat, round_one = qd.Simulation(robot, soles=soles), qd.Simulation(robot)
    flat.reset(flat_foot_stance(robot, soles))
    for _ in range(3):
        flat.step(np.zeros(robot.nu))
    there = flat.checkpoint()
    flat.step(np.zeros(robot.nu))
    q = flat.q
    flat.restore(there)
    flat.step(np.zeros(robot.nu))
    np.testing.assert_array_equal(flat.q, q)
    raises(qd.ArgumentError, "from a different plant", round_one.restore, there)
    assert round_one.spheres == ("L", "R")
    with pytest.raises(qd.ArgumentError, match="spheres"):
        qd.Simulation(robot, soles=soles, spheres={"L": qd.simulation.ContactSphere("pelvis", 0.1)})


# -- polygons ------------------------------------------------------------------------------------------------------
def test_rectangular_polygon_has_the_cone_of_the_rectangle() -> None:
    X, Y = 0.1, 0.04
    made = {"name": "sole", "frame": "f", "kind": "surface", "friction": 0.7}
    rectangle = friction_pyramid(Contact(**made, half_size=(X, Y)))
    polygon = friction_pyramid(Contact(**made, polygon=[(X, Y), (-X, -Y), (X, -Y), (-X, Y)]))  # in any order
    assert rectangle.shape == polygon.shape == (17, 6)
    for row in rectangle:
        assert np.abs(polygon - row).max(axis=1).min() < 1e-12


def test_cone_of_a_polygon_is_spanned_by_forces_at_its_corners() -> None:
    sole = Contact(
        name="sole",
        frame="f",
        kind="surface",
        friction=0.5,
        polygon=[(0.15, 0.02), (0.1, 0.05), (-0.06, 0.03), (0.0, -0.05)],
    )
    A, mu = friction_pyramid(sole), 0.5 / np.sqrt(2.0)
    edges = [np.array([s * mu, t * mu, 1.0]) for s in (1.0, -1.0) for t in (1.0, -1.0)]
    spanning = np.array([np.append(f, np.cross([*p, 0.0], f)) for p in sole.polygon for f in edges])
    touched = np.abs(spanning @ A.T) < 1e-9
    assert (spanning @ A.T).max() < 1e-9
    for row, on in zip(A[1:], touched[:, 1:].T, strict=True):  # a face: five independent ones lie on it
        assert np.linalg.matrix_rank(spanning[on], tol=1e-6) == 5, row
    # outside: pressure beyond an edge, and a yaw moment above that of friction at the farthest corner
    inside = np.append([0.0, 0.0, 1.0], np.cross([*sole.polygon.mean(axis=0), 0.0], [0.0, 0.0, 1.0]))
    assert (A @ inside < 0.0).all()
    reach = np.abs(sole.polygon).sum(axis=1).max()
    for away in (np.cross([0.16, 0.0, 0.0], [0.0, 0.0, 1.0]), np.array([0.0, 0.0, 2.0 * mu * reach])):
        assert (A @ np.append([0.0, 0.0, 1.0], away) > 0.0).any()
    flat = friction_pyramid(Contact(name="ice", frame="f", kind="surface", friction=0.0, polygon=sole.polygon))
    assert (flat @ inside < 1e-12).all() and (flat @ (inside + 0.01 * np.eye(6)[5]) > 0.0).any()


def test_polygons_of_soles_have_all_corners_or_the_requested_maximum() -> None:
    robot = qd.load(biped(SPHERES))
    all_four, three = (Contact.from_sole(robot, "L", corners=n) for n in (8, 3))
    assert {tuple(p) for p in all_four.polygon.round(9)} == {(-0.1, 0.04), (-0.1, -0.04), (0.1, 0.05), (0.1, -0.05)}
    assert len(three.corners) == 3
    np.testing.assert_allclose(all_four.half_size, (0.1, 0.05))
    for wrong, words in (
        ({"polygon": [(0, 0), (1, 0)]}, "3 to 8 corners"),
        ({"polygon": [(0, 0), (1, 0), (2, 0), (1, 1)]}, "corners of a convex"),
        ({"polygon": [(0, 0), (1, np.nan), (2, 0)]}, "finite"),
        ({"polygon": np.eye(3), "kind": "point"}, "expected None for the point"),
    ):
        raises(qd.ArgumentError, words, Contact, **{"name": "x", "frame": "L", "kind": "surface"} | wrong)
    raises(qd.ArgumentError, "corners", Contact.from_sole, robot, "L", corners=2)


def test_polygonal_soles_allow_more_lean_than_rectangular_soles() -> None:
    """The pressure reaches points outside the rectangle, and plants stand on the corners."""
    robot = qd.load(biped(SPHERES))
    soles = [Contact.from_sole(robot, foot, corners=6) for foot in robot.feet]
    sim, dyn = qd.Simulation(robot, soles=soles), qd.Dynamics(robot)
    sim.reset(flat_foot_stance(robot, soles))
    wbc = qd.WholeBodyController(robot, contacts=soles)
    start = dyn.center_of_mass(sim.q)
    aside = {}
    for kind, contacts in (("polygon", soles), ("rectangle", [Contact.from_sole(robot, foot) for foot in robot.feet])):
        pushed = qd.WholeBodyController(robot, contacts=contacts)
        s = dyn.update(sim.q, np.zeros(robot.nv))
        pushed.tasks.com.reference(start, acceleration=np.array([0.0, 8.0, 0.0]))
        command = pushed.compute(s)
        assert command.ok
        aside[kind] = (s.com_jacobian @ command.acceleration)[1]
        said = command.explain()
        assert "center of pressure" in said or "friction" in said, said
    assert aside["polygon"] >= aside["rectangle"] - 1e-9
    for tick in range(300):
        command = wbc.compute(dyn.update(sim.q, sim.v))
        assert command.ok and sim.ok, (tick, command.explain())
        sim.step(command.tau)
    assert np.abs(dyn.center_of_mass(sim.q) - start).max() < 2e-3
    viewer = qd.Viewer(robot, serve=False)
    viewer.show_soles(soles)
    viewer.show(sim.q, points=command.centers_of_pressure)
    edges = sorted(name.rpartition(" ")[0] for kind, name in viewer._drawing._markers._slots if kind == "sole")
    assert edges == sorted(sole.name for sole in soles for _ in sole.corners)
    raises(qd.ArgumentError, "soles", viewer.show_soles, [Contact.from_foot(robot, "L")])


def test_simplified_outline_of_a_round_sole_does_not_depend_on_rounding() -> None:
    angles, rng = 2.0 * np.pi * np.arange(16) / 16, np.random.default_rng(0)
    circle = 0.03 * np.column_stack((np.cos(angles), np.sin(angles)))
    for count, apart in ((8, 45.0), (4, 90.0)):
        found = set()
        for _ in range(10):
            left = simplify_outline(support_polygon(circle * (1.0 + 2e-16 * rng.standard_normal((16, 2)))), count)
            found.add(tuple(np.round(np.degrees(np.arctan2(left[:, 1], left[:, 0])), 6).tolist()))
        (corners,) = found
        np.testing.assert_allclose(np.diff(corners) % 360.0, apart)


def test_each_corner_that_is_left_out_of_an_outline_reduces_its_area_least() -> None:
    angles = np.sort(2.0 * np.pi * np.random.default_rng(0).random(12))
    outline = np.column_stack((0.1 * np.cos(angles), 0.05 * np.sin(angles)))

    def area(polygon: np.ndarray) -> float:
        x, y = polygon.T
        return float(0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))

    for count in range(11, 3, -1):
        before, left = (simplify_outline(outline, n) for n in (count + 1, count))
        assert len(left) == count
        assert area(left) == pytest.approx(max(area(np.delete(before, k, axis=0)) for k in range(count + 1)))


def test_choice_among_equally_large_rectangles_does_not_depend_on_rounding() -> None:
    slanted = np.array([[0.0, 0.0], [0.1, 0.05], [0.1, 0.12], [0.0, 0.07]])
    rng, found = np.random.default_rng(1), set()
    for _ in range(10):
        low, high = _largest_rectangle(support_polygon(slanted * (1.0 + 4e-16 * rng.standard_normal((4, 2)))))
        found.add((*low.round(5).tolist(), *high.round(5).tolist()))
    assert len(found) == 1
