"""Source B's two-link leg: Lagrange's equations by SymPy, the source's closed form, Pinocchio and the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_algorithms import two_body_torque

import quaddyn as qd
from quaddyn.reference import Reference

L1, L2, M1, M2, G = 0.5, 0.5, 2.0, 1.0, 9.81  # of robots/two_link_leg.urdf: half the rods [m], masses [kg], [m/s^2]

l1, l2, m1, m2, g = sp.symbols("L1 L2 m1 m2 g", positive=True)
t1, t2, v1, v2, a1, a2 = sp.symbols("t1 t2 v1 v2 a1 a2", real=True)
NUMBERS = {l1: L1, l2: L2, m1: M1, m2: M2, g: G}
T = sp.Symbol("t")
ANGLES = [sp.Function("theta1")(T), sp.Function("theta2")(T)]

states = st.lists(st.floats(-np.pi, np.pi), min_size=2, max_size=2).map(np.array)
rates = st.lists(st.floats(-10.0, 10.0), min_size=2, max_size=2).map(np.array)
torques = st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=2).map(np.array)


@dataclass(frozen=True, eq=False)
class Lagrangian:
    """Derived once: torques, inertia and energies as expressions in the symbols above."""

    tau: sp.ImmutableMatrix
    M: sp.ImmutableMatrix
    kinetic: sp.Expr
    potential: sp.Expr
    foot: sp.ImmutableMatrix


@functools.cache
def derive_lagrangian() -> Lagrangian:
    """``d/dt dL/dv - dL/dq = tau`` for ``L = T - U`` of two point masses, one at the middle of each rod."""
    q1, q2 = ANGLES
    first = l1 * sp.ImmutableMatrix([sp.cos(q1), sp.sin(q1)])
    second = 2 * first + l2 * sp.ImmutableMatrix([sp.cos(q1 + q2), sp.sin(q1 + q2)])
    foot = 2 * second - 2 * first  # twice as far along each rod
    kinetic = (m1 * first.diff(T).dot(first.diff(T)) + m2 * second.diff(T).dot(second.diff(T))) / 2
    potential = g * (m1 * first[1] + m2 * second[1])
    L = kinetic - potential
    tau = sp.ImmutableMatrix([L.diff(q.diff(T)).diff(T) - L.diff(q) for q in ANGLES])
    tau, kinetic, potential, foot = (substitute_symbols(x) for x in (tau, kinetic, potential, foot))
    tau = tau.applyfunc(sp.expand)
    return Lagrangian(tau, tau.jacobian([a1, a2]), kinetic, potential, foot)


def substitute_symbols(expression: sp.Basic) -> sp.Basic:
    """Replaces functions of time and their derivatives, highest first, by symbols."""
    for order, symbols in ((2, (a1, a2)), (1, (v1, v2)), (0, (t1, t2))):
        for angle, symbol in zip(ANGLES, symbols, strict=True):
            expression = expression.subs(angle.diff(T, order) if order else angle, symbol)
    return expression


def closed_form_symbols() -> sp.ImmutableMatrix:
    """The torques as source B prints them."""
    c1, c2, s2, c12 = sp.cos(t1), sp.cos(t2), sp.sin(t2), sp.cos(t1 + t2)
    tau1 = (
        (m1 * l1**2 + 4 * m2 * l1**2 + m2 * l2**2 + 4 * m2 * l1 * l2 * c2) * a1
        + (m2 * l2**2 + 2 * m2 * l1 * l2 * c2) * a2
        - 2 * m2 * l1 * l2 * s2 * v2**2
        - 4 * m2 * l1 * l2 * s2 * v1 * v2
        + g * (m1 * l1 * c1 + 2 * m2 * l1 * c1 + m2 * l2 * c12)
    )
    tau2 = m2 * l2 * (2 * l1 * s2 * v1**2 + l2 * a1 + l2 * a2 + g * c12 + 2 * l1 * c2 * a1)
    return sp.ImmutableMatrix([tau1, tau2])


def closed_form(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """(2,) source B's torques in numbers."""
    return numeric(closed_form_symbols())(*q, *v, *a)[:, 0]


@functools.cache
def numeric(matrix: sp.ImmutableMatrix) -> Callable[..., np.ndarray]:
    """The matrix as a function of (t1, t2, v1, v2, a1, a2)."""
    compiled: Callable[..., np.ndarray] = sp.lambdify((t1, t2, v1, v2, a1, a2), matrix.subs(NUMBERS), "numpy")
    return compiled


@functools.cache
def numeric_forward() -> Callable[..., np.ndarray]:
    """Source B's accelerations as a function of (t1, t2, v1, v2, tau1, tau2); the source omits the torques."""
    u1, u2 = sp.symbols("tau1 tau2", real=True)
    tau = closed_form_symbols()
    M, h = tau.jacobian([a1, a2]), tau.subs({a1: 0, a2: 0})
    solved = M.adjugate() * (sp.ImmutableMatrix([u1, u2]) - h) / M.det()
    compiled: Callable[..., np.ndarray] = sp.lambdify((t1, t2, v1, v2, u1, u2), solved.subs(NUMBERS), "numpy")
    return compiled


@functools.cache
def leg() -> tuple[qd.Dynamics, Reference]:
    robot = qd.load("two_link_leg")
    return qd.Dynamics(robot), Reference(robot.source, root="fixed")


def close(actual: object, expected: np.ndarray, terms: float = 0.0) -> None:
    """Asserts equality to 1e-12 of the largest of the entries, `terms` (which cancel) and 1."""
    scale = max(1.0, float(np.abs(expected).max()), terms)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=0.0, atol=1e-12 * scale)


# -- the derivation ---------------------------------------------------------------------------------------------------
# -- the numbers ------------------------------------------------------------------------------------------------------
def test_file_has_the_parameters_of_the_closed_form() -> None:
    dynamics, _ = leg()
    thigh, shank = dynamics.robot.bodies[1:]
    assert (thigh.inertial.mass, shank.inertial.mass) == (M1, M2)
    assert not thigh.inertial.inertia.any() and not shank.inertial.inertia.any()
    np.testing.assert_array_equal([thigh.inertial.com[0], shank.inertial.com[0]], [L1, L2])


@settings(max_examples=40, deadline=None)
@given(q=states, v=rates, a=torques)
def test_torques_of_pinocchio_and_reference_equal_those_of_source_b(
    q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> None:
    dynamics, oracle = leg()
    expected = closed_form(q, v, a)
    close(numeric(derive_lagrangian().tau)(*q, *v, *a).ravel(), expected)
    close(dynamics.rnea(q, v, a), expected)
    close(oracle.rnea(q, v, a), expected)
    close(two_body_torque(oracle.forward_kinematics(q), v, a), expected)


@settings(max_examples=40, deadline=None)
@given(q=states, v=rates, tau=torques)
def test_accelerations_of_pinocchio_and_reference_equal_those_of_source_b_with_torque(
    q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> None:
    dynamics, oracle = leg()
    for u in (tau, np.zeros(2)):  # the source gives the solution without torque
        expected = numeric_forward()(*q, *v, *u).ravel()
        terms = float(np.linalg.norm(dynamics.mass_inverse(q), 2) * np.abs([u, dynamics.nle(q, v)]).max())
        close(dynamics.aba(q, v, u), expected, terms)
        close(oracle.aba(q, v, u), expected, terms)
        close(oracle.lie_group(q, v, u), expected, terms)


@settings(max_examples=20, deadline=None)
@given(q=states, v=rates)
def test_energies_inertia_and_foot_position_agree_with_the_lagrangian(q: np.ndarray, v: np.ndarray) -> None:
    dynamics, oracle = leg()
    here = (*q, *v, 0.0, 0.0)
    kinetic, potential = (
        float(numeric(sp.ImmutableMatrix([e]))(*here)[0, 0])
        for e in (derive_lagrangian().kinetic, derive_lagrangian().potential)
    )
    for side in (dynamics, oracle):
        energy = side.energy(q, v)
        close([energy.kinetic, energy.potential], np.array([kinetic, potential]))
        close(side.crba(q), numeric(derive_lagrangian().M)(*here))
    x, z = numeric(derive_lagrangian().foot)(*here).ravel()
    close(dynamics.frame_placement(q, "foot").translation, np.array([x, 0.0, z]))
    close(oracle.frame_placement(q, "foot")[:3, 3], np.array([x, 0.0, z]))


@pytest.mark.parametrize("q", [(0.0, 0.0), (np.pi / 2, 0.0), (0.3, np.pi / 2), (-2.0, np.pi)])
def test_static_torque_is_weight_times_lever_arm(q: tuple[float, float]) -> None:
    dynamics, _ = leg()
    x1 = L1 * np.cos(q[0])
    x2 = 2 * x1 + L2 * np.cos(q[0] + q[1])
    levers = np.array([M1 * x1 + M2 * x2, M2 * (x2 - 2 * x1)])
    close(dynamics.gravity(np.array(q)), G * levers)
