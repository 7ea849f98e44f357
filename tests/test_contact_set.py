"""Contacts as data, their sets, cones, support polygons, events and inverse dynamics."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

import quaddyn as qd
from quaddyn.contact import (
    Contact,
    ContactEvents,
    ContactSet,
    cone_margin,
    contact_jacobian,
    friction_pyramid,
    inverse_dynamics,
    pyramid_friction_ratio,
    support_margin,
    support_polygon,
)
from quaddyn.contact.contact_events import MAX_HISTORY
from quaddyn.contact.solvers import FrictionalSolver, RigidSolver

G = 9.81
MIXED = ("go2", "free"), ("solo12", "planar"), ("hyq", "free")


def mixed_set(robot: qd.Robot, rng: np.random.Generator) -> ContactSet:
    """Spheres on slopes, bare points with an offset, and a surface on the base."""
    feet = [Contact.from_foot(robot, foot, normal=np.append(rng.normal(0.0, 0.3, 2), 1.0)) for foot in robot.feet[:2]]
    shin = robot.legs[robot.feet[2]].joints[-1]
    point = Contact(name="shin", frame=shin, offset=rng.normal(0.0, 0.1, 3), radius=0.01)
    base = robot.tree.links[0].name
    plate = Contact(name="belly", frame=base, kind="surface", half_size=np.array([0.1, 0.05]), offset=(0.0, 0.0, -0.1))
    return ContactSet(robot, [*feet, point, plate])


def state(robot: qd.Robot, seed: int) -> tuple[qd.Dynamics, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.3, robot.nv))
    return qd.Dynamics(robot), q, rng.normal(0.0, 1.0, robot.nv)


# -- motion --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "root"), MIXED)
def test_jacobian_and_drift_are_the_derivatives_of_the_contact_points(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    dyn, q, v = state(robot, 1)
    contacts, eps = mixed_set(robot, np.random.default_rng(2)), 1e-6
    a = np.random.default_rng(3).normal(size=robot.nv)

    def rates(t: float) -> np.ndarray:
        moved = pin.integrate(robot.model, q, t * (v + 0.5 * t * a))
        s = dyn.update(moved, v + t * a)
        return contacts.jacobian(s) @ s.v

    s = dyn.update(q, v)
    expected = contacts.jacobian(s) @ a + contacts.drift(s)
    np.testing.assert_allclose((rates(eps) - rates(-eps)) / (2.0 * eps), expected, atol=1e-6)
    # a contact without sphere is fixed in its body; its velocity is the derivative of its position
    places = [contacts.positions(dyn.update(pin.integrate(robot.model, q, t * v), v))["belly"] for t in (-eps, eps)]
    s = dyn.update(q, v)
    velocity = (contacts.jacobian(s) @ v)[contacts.slices()["belly"]]
    np.testing.assert_allclose((places[1] - places[0]) / (2.0 * eps), velocity[:3], atol=1e-8)


def test_feet_on_level_ground_are_the_lowest_points_of_their_spheres(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 4)
    s, contacts = dyn.update(q, v), ContactSet.from_feet(go2)
    np.testing.assert_allclose(contacts.jacobian(s), np.vstack([contact_jacobian(s, f) for f in go2.feet]), atol=1e-14)
    for foot, place in contacts.positions(s).items():
        expected = s.placement(foot).translation - (0.0, 0.0, go2.legs[foot].foot.radius)
        np.testing.assert_allclose(place, expected, atol=1e-15)


def test_contacts_are_activated_by_name(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 5)
    s, contacts = dyn.update(q, v), ContactSet.from_feet(go2)
    whole = contacts.jacobian(s)
    contacts.activate(("RR", "FL"))
    assert contacts.active == ("FL", "RR") and contacts.rows == 6 and len(contacts) == 2
    np.testing.assert_array_equal(contacts.jacobian(s), whole[[0, 1, 2, 9, 10, 11]])
    assert contacts.slices() == {"FL": slice(0, 3), "RR": slice(3, 6)}
    contacts.set_active("FL", False)
    contacts.set_active("RR", False)
    assert contacts.jacobian(s).shape == (0, 18) and contacts.drift(s).shape == (0,)
    assert contacts.pyramid(s).shape == (0, 0) and contacts.support_polygon(s).shape == (0, 2)
    assert FrictionalSolver().solve(contacts.contact_problem(s, v)).status == "free"
    contacts.activate(go2.feet)
    np.testing.assert_array_equal(contacts.jacobian(s), whole)


def test_force_only_contacts_have_no_motion_rows(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 6)
    s = dyn.update(q, v)
    contacts = ContactSet(go2, [Contact.from_foot(go2, "FL"), Contact.from_foot(go2, "FR", force_only=True)])
    assert contacts.jacobian(s).shape == (6, 18) and contacts.jacobian(s, motion_only=True).shape == (3, 18)
    drift = ContactSet.from_feet(go2, ("FL", "FR")).drift(s)
    np.testing.assert_array_equal(contacts.drift(s), drift)
    np.testing.assert_array_equal(contacts.drift(s, motion_only=True), drift[:3])


def test_generalized_forces_have_the_same_effect_as_external_forces_of_aba(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 7)
    rng = np.random.default_rng(8)
    contacts = mixed_set(go2, rng)
    forces = {c.name: rng.normal(0.0, 10.0, c.rows) for c in contacts}
    total = contacts.generalized_forces(dyn.update(q, v), forces)
    fext: dict[str, np.ndarray] = {}
    s = dyn.update(q, v)
    for c in contacts:
        lever = contacts.positions(s)[c.name] - s.placement(c.frame).translation
        wrench = np.concatenate((forces[c.name][:3], np.cross(lever, forces[c.name][:3])))
        wrench[3:] += forces[c.name][3:] if c.rows == 6 else 0.0
        fext[c.frame] = fext.get(c.frame, 0.0) + wrench
    zero = np.zeros(18)
    np.testing.assert_allclose(dyn.rnea(q, v, zero) - dyn.rnea(q, v, zero, fext=fext), total, atol=1e-10)


# -- cones ---------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), faces=st.integers(3, 16), mu=st.floats(0.05, 2.0))
def test_inner_pyramid_is_inside_the_cone_and_the_outer_one_outside(seed: int, faces: int, mu: float) -> None:
    rng = np.random.default_rng(seed)
    contact = Contact(name="c", frame="f", friction=mu, normal=rng.normal(size=3))
    inner, outer = friction_pyramid(contact, faces=faces), friction_pyramid(contact, faces=faces, inner=False)
    for force in rng.normal(size=(200, 3)) @ contact.axes:
        force = force + 1.5 * contact.normal
        margin = cone_margin(contact, force)
        if (inner @ force).max() <= 0.0:
            assert margin >= -1e-12
        if margin >= 0.0:
            assert (outer @ force).max() <= 1e-12
    # documented conservatism: mu cos(pi / n) along the center of a face, mu along an edge
    assert pyramid_friction_ratio(faces) == pytest.approx(np.cos(np.pi / faces))
    for angle, reach in ((0.0, mu * np.cos(np.pi / faces)), (np.pi / faces, mu)):
        edge = np.array([reach * np.cos(angle), reach * np.sin(angle), 1.0]) @ contact.axes
        assert abs((inner @ edge)[:-1].max()) < 1e-12


def test_bilateral_contacts_have_no_cone_and_stacked_pyramids_use_separate_columns(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 10)
    contacts = ContactSet(
        go2,
        [Contact.from_foot(go2, "FL"), Contact.from_foot(go2, "FR", unilateral=False), Contact.from_foot(go2, "RL")],
    )
    A = contacts.pyramid(dyn.update(q, v), faces=6)
    assert A.shape == (14, 9)
    assert not A[:, 3:6].any() and not A[:7, 6:].any() and not A[7:, :3].any()
    np.testing.assert_array_equal(A[:7, :3], friction_pyramid(contacts["FL"], faces=6))


def test_tangential_moment_vanishes_at_the_center_of_pressure(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 11)
    s = dyn.update(q, v)
    contacts = mixed_set(go2, np.random.default_rng(12))
    T, plate = s.placement(contacts["belly"].frame), contacts["belly"]
    point = plate.offset + np.array([0.03, -0.02, 0.0])
    force = T.rotation @ np.array([1.0, -2.0, 20.0])
    lever = T.rotation @ (point - plate.offset)
    wrench = np.concatenate((force, np.cross(lever, force)))
    pressure = contacts.center_of_pressure(s, "belly", wrench)
    np.testing.assert_allclose(pressure, T.translation + T.rotation @ point, atol=1e-12)
    assert contacts.center_of_pressure(s, "belly", -wrench) is None
    raises(qd.ArgumentError, "surface", contacts.center_of_pressure, s, contacts.names[0], wrench)


# -- support -------------------------------------------------------------------------------------------------------
def test_support_polygon_of_a_stance_is_the_rectangle_of_its_feet(go2: qd.Robot) -> None:
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    contacts = ContactSet.from_feet(go2)
    hull = contacts.support_polygon(s)
    assert len(hull) == 4
    x, y = hull.T
    assert 0.5 * (x @ np.roll(y, -1) - y @ np.roll(x, -1)) > 0.0  # counter-clockwise
    assert support_margin(hull, s.com[:2]) > 0.05
    contacts.activate(("FL", "RR"))
    assert len(contacts.support_polygon(s)) == 2
    assert support_margin(contacts.support_polygon(s), s.com[:2]) <= 0.0
    contacts.activate(("FL", "FR", "RL"))
    assert len(contacts.support_polygon(s)) == 3


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 30))
def test_hull_contains_every_point_and_margin_has_the_right_sign(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 2)).round(1)  # with duplicates and collinear points
    hull = support_polygon(points)
    assert {tuple(p) for p in hull} <= {tuple(p) for p in points}
    if len(hull) > 2:
        assert all(support_margin(hull, p) >= -1e-9 for p in points)
        assert support_margin(hull, hull.mean(axis=0)) > 0.0
        far = hull.mean(axis=0) + np.array([100.0, 0.0])
        assert support_margin(hull, far) == pytest.approx(-100.0, abs=5.0)
    assert support_margin(np.zeros((0, 2)), np.zeros(2)) == -np.inf
    line = np.array([[0.0, 0.0], [1.0, 1.0]])
    for point, distance in ((2.0, np.sqrt(2.0)), (0.5, 0.0), (-1.0, np.sqrt(2.0))):  # outside, also along the line
        assert support_margin(line, np.full(2, point)) == pytest.approx(-distance)
    raises(qd.ArgumentError, "points", support_polygon, np.full((2, 2), np.nan))


def test_support_polygon_is_robust_to_rounding() -> None:
    rng = np.random.default_rng(3)
    corners = np.array([[-0.2, -0.1], [0.2, -0.1], [0.2, 0.1], [-0.2, 0.1]])
    between = 0.5 * (corners + np.roll(corners, -1, axis=0))
    for origin in (np.zeros(2), np.array([3.0, -500.0])):
        points = origin + np.vstack((corners, between, corners))
        for _ in range(200):
            noise = 16.0 * np.finfo(float).eps * np.abs(points).max() * rng.uniform(-1.0, 1.0, size=points.shape)
            np.testing.assert_allclose(support_polygon(points + noise), origin + corners, rtol=0.0, atol=1e-11)
            line, dot = points[[0, 4, 1]], points[[0, 8]]
            assert len(support_polygon(line + noise[:3])) == 2 and len(support_polygon(dot + noise[:2])) == 1
    raised = np.vstack((corners, [[0.0, -0.1 - 1e-9]]))  # 1 nm is a corner
    assert len(support_polygon(raised)) == 5


# -- events --------------------------------------------------------------------------------------------------------
def test_events_are_the_changes_of_contact_states() -> None:
    events = ContactEvents(("FL", "FR"))
    assert events.update(0.0, {"FL": False, "FR": False}) == ()
    (down,) = events.update(0.1, {"FL": True})
    assert (down.time, down.name, down.kind) == (0.1, "FL", "touchdown")
    assert events.in_contact == ("FL",) and events.update(0.2, {"FL": True}) == ()
    both = events.update(0.3, {"FL": False, "FR": True})
    assert [(e.name, e.kind) for e in both] == [("FL", "lift_off"), ("FR", "touchdown")]
    assert len(events.history) == 3
    raises(qd.ArgumentError, "time", events.update, 0.2, {})
    raises(qd.ArgumentError, "time", events.update, np.nan, {})
    raises(qd.UnknownNameError, "FX", events.update, 0.4, {"FX": True})
    events.reset()
    assert events.history == [] and events.in_contact == ()
    for k in range(MAX_HISTORY + 3):
        events.update(0.1 * k, {"FL": k % 2 == 0})
    assert len(events.history) == MAX_HISTORY and events.history[0].time == pytest.approx(0.3)


# -- problems ------------------------------------------------------------------------------------------------------
def test_contact_problem_of_a_set_stops_its_contacts(go2: qd.Robot) -> None:
    dyn, q, v = state(go2, 13)
    s = dyn.update(q, v)
    contacts = mixed_set(go2, np.random.default_rng(14))
    problem = contacts.contact_problem(s, v)
    assert problem.n_contacts == 3 + 4  # the surface counts as its corners
    solution = RigidSolver().solve(problem)
    assert solution.converged
    # the impulses stop the contact points
    contacts.activate(contacts.names[:1])
    problem = contacts.contact_problem(s, v)
    impulse = contacts[contacts.names[0]].axes.T @ RigidSolver().solve(problem).impulses[0]
    J = contacts.jacobian(s)
    np.testing.assert_allclose(J @ (v + np.linalg.solve(s.M, J.T @ impulse)), 0.0, atol=1e-9)
    # contacts on slopes can be solved
    frictional = FrictionalSolver().solve(contacts.contact_problem(s, v, enforce_passivity=True))
    assert frictional.converged


def test_body_on_a_compliant_plate_settles_at_the_spring_deflection() -> None:
    text = """<robot name="table"><link name="base"><inertial><mass value="3"/>
    <inertia ixx="0.05" iyy="0.06" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    home = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    table = qd.load(text, root="free", q_home=home)
    below = {"frame": "base", "offset": (0.0, 0.0, -0.1), "stiffness": 4000.0, "damping": 200.0}
    contacts = ContactSet(table, [Contact(name="plate", kind="surface", half_size=np.array([0.2, 0.1]), **below)])
    dyn, dt, plate = qd.Dynamics(table), 2e-3, contacts["plate"]
    solver, q, v = contacts.compliant_solver(dt), home, np.zeros(6)
    for _ in range(600):
        s = dyn.update(q, v)
        T, J = s.placement("base"), s.jacobian("base")
        free = v - dt * np.linalg.solve(s.M, s.h)
        heights = (T.translation + plate.corners @ T.rotation.T)[:, 2]
        solution = solver.solve(contacts.contact_problem(s, free, offset=heights / dt))
        assert solution.converged
        corners = np.vstack([J[:3] - pin.skew(T.rotation @ corner) @ J[3:] for corner in plate.corners])
        v = free + np.linalg.solve(s.M, corners.T @ solution.impulses.ravel())
        q = pin.integrate(table.model, q, dt * v)
    assert q[2] - 0.1 == pytest.approx(
        -3.0 * G / 4000.0, rel=1e-6
    )  # the stiffness of the plate is distributed over its corners
    raises(qd.ArgumentError, "stiffness", ContactSet(table, [Contact(name="c", frame="base")]).compliant_solver, dt)


# -- inverse dynamics ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c", "hyq"])
def test_forward_dynamics_inverts_inverse_dynamics(name: str) -> None:
    robot, rng = qd.load(name), np.random.default_rng(15)
    dyn, contacts = qd.Dynamics(robot), ContactSet.from_feet(robot)
    s = dyn.update(robot.q_home, rng.normal(0.0, 0.1, robot.nv))
    J, drift = contacts.jacobian(s), contacts.drift(s)
    a = rng.normal(size=robot.nv)
    a -= np.linalg.pinv(J) @ (J @ a + drift)  # a motion that the contacts allow
    for options in ({}, {"torque_weight": 1.0, "force_weight": 0.0}, {"torque_weight": 1.0, "force_weight": 1e-3}):
        result = inverse_dynamics(s, contacts, a, **options)
        assert result.residual < 1e-9 and result.slip < 1e-9
        f = np.concatenate(list(result.forces.values()))
        np.testing.assert_allclose(s.M @ a + s.h, robot.generalized_torques(result.tau) + J.T @ f, atol=1e-9)
    # forward dynamics with rigid contacts and these torques gives the same accelerations
    free = np.linalg.solve(s.M, robot.generalized_torques(result.tau) - s.h)
    W = J @ np.linalg.solve(s.M, J.T)
    reaction = -np.linalg.solve(W, J @ free + drift)
    np.testing.assert_allclose(free + np.linalg.solve(s.M, J.T @ reaction), a, atol=1e-8)


def test_inverse_dynamics_minimizes_weighted_forces_and_torques(go2: qd.Robot) -> None:
    s, contacts = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), ContactSet.from_feet(go2)
    J, zero = contacts.jacobian(s), np.zeros(go2.nv)
    upright = inverse_dynamics(s, contacts, zero)
    lazy = inverse_dynamics(s, contacts, zero, torque_weight=1.0, force_weight=0.0)
    assert sum(f[2] for f in upright.forces.values()) == pytest.approx(go2.mass * G)
    assert upright.margin > 0.5 * 0.6 * go2.mass * G / 4
    assert all(np.abs(f[:2]).max() < 1e-6 for f in upright.forces.values())
    # internal forces, which do not accelerate the base, cannot reduce the weighted squares of forces and torques
    internal = np.linalg.svd(J[:, :6].T)[2][6:]
    W = np.tile([1.0 / 0.6**2, 1.0 / 0.6**2, 1.0], 4)  # of the friction coefficient
    for force_weight, torque_weight in ((0.0, 1.0), (1.0, 0.0), (1e-3, 1.0)):
        found = inverse_dynamics(s, contacts, zero, force_weight=force_weight, torque_weight=torque_weight)
        f = np.concatenate(list(found.forces.values()))
        gradient = force_weight * W * f - torque_weight * J[:, 6:] @ (s.h - J.T @ f)[6:]
        np.testing.assert_allclose(internal @ gradient, 0.0, atol=1e-9)
    assert np.linalg.norm(lazy.tau) < np.linalg.norm(upright.tau)


def test_inverse_dynamics_reports_the_unbalanced_force(go2: qd.Robot) -> None:
    s, contacts = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), ContactSet.from_feet(go2)
    contacts.activate(())
    flying = inverse_dynamics(s, contacts, np.zeros(go2.nv))
    assert flying.residual == pytest.approx(go2.mass * G) and flying.margin == np.inf and flying.forces == {}
    contacts.activate(go2.feet)
    up = np.zeros(go2.nv)
    up[2] = 1.0
    assert inverse_dynamics(s, contacts, up).slip == pytest.approx(1.0)  # the feet would lift off
    up[2] = -20.0
    assert inverse_dynamics(s, contacts, up).margin < 0.0  # the feet would have to pull
    raises(qd.ArgumentError, "acceleration", inverse_dynamics, s, contacts, np.zeros(3))
    raises(qd.ArgumentError, "weight", inverse_dynamics, s, contacts, up, torque_weight=0.0, force_weight=0.0)
    raises(qd.ArgumentError, "rank_tolerance", inverse_dynamics, s, contacts, up, rank_tolerance=-1.0)


# -- misuse --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("friction", {"friction": 11.0}),
        ("friction", {"friction": np.nan}),
        ("friction", {"friction": "much"}),
        ("normal", {"normal": np.zeros(3)}),
        ("normal", {"normal": np.ones(2)}),
        ("normal", {"normal": "up"}),
        ("offset", {"offset": np.array([0.0, np.inf, 0.0])}),
        ("radius", {"radius": -0.1}),
        ("kind", {"kind": "line"}),
        ("half_size", {"kind": "surface"}),
        ("half_size", {"half_size": np.ones(2)}),
        ("half_size", {"kind": "surface", "half_size": np.array([0.1, 0.0])}),
        ("radius", {"kind": "surface", "half_size": np.ones(2), "radius": 0.1}),
        ("stiffness", {"stiffness": 0.0}),
        ("damping", {"damping": -1.0}),
        ("name", {"name": ""}),
        ("frame", {"frame": 3}),
    ],
)
def test_invalid_contact_raises_an_error_that_names_the_argument(name: str, change: dict[str, object]) -> None:
    raises(qd.ArgumentError, name, Contact, **{"name": "c", "frame": "f"} | change)


def test_invalid_contact_set_raises_an_error_that_names_the_argument(go2: qd.Robot) -> None:
    foot = Contact.from_foot(go2, "FL")
    raises(qd.UnknownNameError, "FX", Contact.from_foot, go2, "FX")
    raises(qd.ArgumentError, "twice", ContactSet, go2, [foot, foot])
    raises(qd.UnknownNameError, "nowhere", ContactSet, go2, [Contact(name="c", frame="nowhere")])
    raises(qd.ArgumentTypeError, "contacts", ContactSet, go2, "FL")
    raises(qd.ArgumentTypeError, "contacts", ContactSet, go2, ["FL"])
    raises(qd.ArgumentTypeError, "robot", ContactSet, "go2", [])
    contacts = ContactSet(go2, [foot])
    raises(qd.UnknownNameError, "FR", contacts.set_active, "FR", True)
    raises(qd.UnknownNameError, "FR", contacts.activate, ("FL", "FR"))
    assert contacts.active == ("FL",)
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    raises(qd.UnknownNameError, "FR", contacts.generalized_forces, s, {"FR": np.zeros(3)})
    raises(qd.ArgumentError, "FL", contacts.generalized_forces, s, {"FL": np.zeros(6)})
    raises(qd.ArgumentError, "faces", contacts.pyramid, s, faces=2)
    raises(qd.ArgumentError, "another Robot object", ContactSet.from_feet(qd.load("solo12")).jacobian, s)
    raises(qd.ArgumentTypeError, "State", contacts.jacobian, go2.q_home)
    raises(qd.ArgumentError, r"^v", contacts.contact_problem, s, np.full(go2.nv, np.nan))
    for force in (np.full(3, np.nan), np.zeros(4)):
        raises(qd.ArgumentError, "force", contacts.cone_margins, {"FL": force})
        raises(qd.ArgumentError, "force", cone_margin, foot, force)
    raises(qd.UnknownNameError, "foot", contact_jacobian, s, "base")
    raises(qd.ArgumentTypeError, "contacts", inverse_dynamics, s, None, np.zeros(go2.nv))
    raises(qd.ArgumentError, "point", support_margin, np.eye(3)[:, :2], np.array([np.nan, 0.0]))
    raises(qd.ArgumentError, "polygon", support_margin, np.eye(3), np.zeros(2))
    raises(qd.ArgumentTypeError, "in_contact", ContactEvents(("FL",)).update, 0.0, ["FL"])
