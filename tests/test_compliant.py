"""Compliant floors and walls: no adhesion, dissipation, Coulomb friction, and forces on the foot spheres of a robot."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from finite_differences import by_vector
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

import quaddyn as qd
from quaddyn.contact import CompliantPlane, foot_forces

Array = np.ndarray
coordinate = st.floats(-2.0, 2.0)
vector = st.tuples(coordinate, coordinate, coordinate).map(np.array)
direction = vector.filter(lambda x: np.linalg.norm(x) > 0.1)


def plane(**options: object) -> CompliantPlane:
    given_ = {"point": (0.1, -0.2, 0.3), "normal": (0.3, -0.5, 2.0), "stiffness": 2e3, "damping": 30.0}
    return CompliantPlane(**{**given_, "friction": 0.7, "stiction_speed": 0.05, **options})  # type: ignore[arg-type]


def tangential(p: CompliantPlane, x: Array) -> Array:
    return x - np.multiply.outer(x @ p.normal, p.normal)


# -- the law -------------------------------------------------------------------------------------------------------
def test_force_on_a_point_at_rest_is_the_spring_force_along_the_normal() -> None:
    p = CompliantPlane(point=(0.0, 0.0, 1.0), normal=(0.0, 0.0, 4.0), stiffness=500.0, damping=7.0, friction=0.5)
    np.testing.assert_allclose(p.normal, (0.0, 0.0, 1.0))
    positions = np.array([[3.0, -2.0, 0.98], [0.0, 0.0, 1.0], [0.0, 0.0, 1.5]])
    np.testing.assert_allclose(p.depths(positions), [0.02, 0.0, -0.5], atol=1e-15)
    np.testing.assert_allclose(p.forces(positions, np.zeros((3, 3))), [[0, 0, 10.0], [0, 0, 0], [0, 0, 0]], atol=1e-12)
    assert p.energy(positions) == pytest.approx(0.5 * 500.0 * 0.02**2)
    # at 0.1 m/s into the plane the damper adds its force
    np.testing.assert_allclose(p.forces(positions[0], np.array([0.0, 0.0, -0.1])), [0, 0, 10.7], atol=1e-12)
    # at a high separation speed the force is zero, not negative
    np.testing.assert_array_equal(p.forces(positions[0], np.array([0.0, 0.0, 2.0])), np.zeros(3))


def test_friction_is_coulomb_when_sliding_and_viscous_below_stiction_speed() -> None:
    p = CompliantPlane.floor(friction=0.5, stiffness=1e4, stiction_speed=0.01)
    deep = np.array([0.0, 0.0, -0.002])  # f_n = 20 N
    np.testing.assert_allclose(p.forces(deep, np.array([0.3, 0.4, 0.0])), [-6.0, -8.0, 20.0], atol=1e-12)
    np.testing.assert_allclose(p.forces(deep, np.array([0.003, 0.004, 0.0])), [-3.0, -4.0, 20.0], atol=1e-12)


@given(point=vector, normal=direction, x=vector, v=vector)
@settings(max_examples=300, deadline=None)
def test_compliant_force_is_unilateral_in_the_cone_and_dissipative(
    point: Array, normal: Array, x: Array, v: Array
) -> None:
    p = plane(point=point, normal=normal)
    f = p.forces(x, v)
    f_n, f_t = float(f @ p.normal), tangential(p, f)
    size = 1e-12 * (1.0 + np.linalg.norm(f))
    assert f_n >= -size
    assert np.linalg.norm(f_t) <= p.friction * f_n + size
    assert f_t @ v <= size * (1.0 + np.linalg.norm(v))
    # power on the body plus the rate of spring energy is never positive
    stored = -p.stiffness * max(float(p.depths(x)), 0.0) * float(v @ p.normal)
    assert f @ v + stored <= size * (1.0 + np.linalg.norm(v))
    if p.depths(x) <= 0.0:
        assert not f.any()


@given(normal=direction, x=vector, v=vector)
@settings(max_examples=100, deadline=None)
def test_derivatives_are_those_of_the_forces(normal: Array, x: Array, v: Array) -> None:
    p = plane(normal=normal)
    d, v_n = float(p.depths(x)), float(v @ p.normal)
    kinks = (d, p.stiffness * d - p.damping * v_n, np.linalg.norm(tangential(p, v)) - p.stiction_speed)
    if min(abs(k) for k in kinks) < 1e-3:
        return  # no derivative there
    by_x, by_v = p.derivatives(x, v)
    scale = p.stiffness + np.linalg.norm(p.forces(x, v)) / p.stiction_speed
    np.testing.assert_allclose(by_x, by_vector(lambda y: p.forces(y, v), x, 1e-5), atol=1e-6 * scale)
    np.testing.assert_allclose(by_v, by_vector(lambda u: p.forces(x, u), v, 1e-5), atol=1e-6 * scale)
    # without friction, stiffness and damping are symmetric and negative semidefinite
    smooth = plane(normal=normal, friction=0.0).derivatives(x, v)
    for matrix in smooth:
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
        assert np.linalg.eigvalsh(matrix).max() <= 1e-9


def test_batch_of_points_agrees_with_single_points() -> None:
    p, rng = plane(), np.random.default_rng(0)
    x, v = rng.normal(size=(2, 40, 3))
    np.testing.assert_allclose(p.forces(x, v), [p.forces(a, b) for a, b in zip(x, v, strict=True)], atol=1e-12)
    by_x, by_v = p.derivatives(x, v)
    for i in range(40):
        one = p.derivatives(x[i], v[i])
        np.testing.assert_allclose(by_x[i], one[0], atol=1e-9)
        np.testing.assert_allclose(by_v[i], one[1], atol=1e-9)
    assert p.energy(x) == pytest.approx(sum(p.energy(a) for a in x))
    assert p.forces(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)


# -- on a robot ----------------------------------------------------------------------------------------------------
def test_foot_force_acts_at_the_deepest_point_of_the_sphere(go2: qd.Robot) -> None:
    dyn, rng = qd.Dynamics(go2), np.random.default_rng(3)
    s = dyn.update(go2.q_home, rng.normal(size=go2.nv))
    p = plane(point=s.placement("FL").translation + np.array([0.0, 0.0, 0.01]), normal=(0.2, 0.3, 1.0))
    wrench = foot_forces(s, p, ("FL",))["FL"]
    lever = -go2.legs["FL"].foot.radius * p.normal
    touch = s.placement("FL").translation + lever
    # independent computation of the velocity of the material point
    J = s.jacobian("FL")
    velocity = J[:3] @ s.v + np.cross(J[3:] @ s.v, lever)
    force = p.forces(touch, velocity)
    assert force @ p.normal > 0.0
    np.testing.assert_allclose(wrench[:3], force, atol=1e-12)
    np.testing.assert_allclose(wrench[3:], np.cross(lever, force), atol=1e-12)
    # power of the wrench on the foot's frame is that of the force on the touching point
    assert wrench @ s.velocity("FL") == pytest.approx(force @ velocity)
    a = dyn.aba(go2.q_home, np.zeros(go2.nv), np.zeros(go2.nv), fext={"FL": wrench})
    assert np.isfinite(a).all()


def test_forces_of_two_planes_add_and_vanish_without_penetration() -> None:
    robot = qd.load("two_link_leg")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(2))
    foot = s.placement("leg").translation
    floor = CompliantPlane.floor(foot[2] + 0.01, stiffness=1e3)
    wall = CompliantPlane.wall(foot[0] - 0.02, stiffness=1e3)
    r = robot.legs["leg"].foot.radius
    both = foot_forces(s, (floor, wall))["leg"]
    np.testing.assert_allclose(both[:3], [-1e3 * (0.02 + r), 0.0, 1e3 * (0.01 + r)], atol=1e-9)
    assert not foot_forces(s, CompliantPlane.wall(foot[0] + 1.0))["leg"].any()


# -- invalid arguments ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"normal": (0.0, 0.0, 0.0)}, "normal"),
        ({"normal": (0.0, np.nan, 1.0)}, "normal"),
        ({"normal": (0.0, 1.0)}, "normal"),
        ({"point": (np.inf, 0.0, 0.0)}, "point"),
        ({"point": "abc"}, "point"),
        ({"stiffness": 0.0}, "stiffness"),
        ({"stiffness": -1.0}, "stiffness"),
        ({"stiffness": np.inf}, "stiffness"),
        ({"damping": -1e-3}, "damping"),
        ({"damping": np.nan}, "damping"),
        ({"friction": 10.1}, "friction"),
        ({"friction": -0.1}, "friction"),
        ({"friction": "ice"}, "friction"),
        ({"stiction_speed": 0.0}, "stiction_speed"),
    ],
)
def test_invalid_plane_is_rejected_by_name(options: dict[str, object], word: str) -> None:
    raises(qd.ArgumentError, word, plane, **options)


def test_invalid_points_and_overflow_are_rejected_by_name(go2: qd.Robot) -> None:
    p, zero = plane(), np.zeros((2, 3))
    for call, word in (
        (lambda: p.forces(np.zeros((2, 2)), zero), "positions"),
        (lambda: p.forces(zero, np.zeros(3)), "velocities"),
        (lambda: p.forces(zero, zero + np.nan), "velocities"),
        (lambda: p.forces(zero + np.inf, zero), "positions"),
        (lambda: p.depths("abc"), "positions"),
        (lambda: p.forces(np.array([0.0, 0.0, -1e308]), np.zeros(3)), "overflows"),
        (lambda: p.derivatives(np.array([0.0, 0.0, -1e308]), np.zeros(3)), "overflows"),
        (lambda: p.derivatives(np.zeros(3), np.full(3, 1e308)), "overflows"),
        (lambda: p.energy(np.array([0.0, 0.0, -1e200])), "overflows"),
    ):
        raises(qd.ArgumentError, word, call)
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    raises(qd.UnknownNameError, "FL", foot_forces, s, p, ("FLL",))
    raises(qd.ArgumentTypeError, "planes", foot_forces, s, ("floor",))
    raises(qd.ArgumentTypeError, "feet", foot_forces, s, p, "FL")


def test_plane_is_frozen_and_can_be_pickled() -> None:
    p = plane()
    copy = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(copy.normal, p.normal)
    assert copy.stiffness == p.stiffness
    with pytest.raises(ValueError, match="read-only"):
        copy.normal[0] = 1.0
    with pytest.raises(AttributeError):
        p.stiffness = 1.0  # type: ignore[misc]
