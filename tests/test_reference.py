"""Identities between the algorithms of the reference, and physical laws."""

from __future__ import annotations

import ast
import doctest
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference_algorithms
from finite_differences import derivative
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from reference_algorithms import (
    closed_form_gravity,
    closed_form_inverse_dynamics,
    coriolis_christoffel,
    mass_by_rnea,
    mass_rate,
    two_body_torque,
)
from reference_models import COORDINATES, MODELS, reference, state, tree
from urdf_text import inertial

import quaddyn.reference as reference_room
from quaddyn.errors import ArgumentError, UnknownNameError
from quaddyn.reference import Reference, algorithms, kinematics
from quaddyn.reference.algebra import exp
from quaddyn.reference.algorithms import (
    INERTIAL_PARAMETERS,
    aba,
    derivative_along,
    derivatives_by_configuration,
    forward_by_mass,
    forward_dynamics,
    relative_motion,
    unit_inertia,
)
from quaddyn.reference.kinematics import body_jacobian_rates, body_jacobians, place_bodies, twists

every_model = pytest.mark.parametrize("key", MODELS)
seeds = settings(max_examples=5, deadline=None)


def close(a: object, b: object, bound: float = 1e-12, *, terms: float = 1e-3) -> None:
    """Asserts equality up to `bound` times the larger of b and `terms`, the size of the summands."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0.0) <= bound * max(np.abs(b).max(initial=0.0), terms)


def draw_state(key: str, seed: int):  # -> oracle, q, v, a, fext, the pose and the wrenches at q
    oracle = reference(key)
    q, v, a, fext = state(oracle, seed)
    at = oracle.forward_kinematics(q)
    return oracle, q, v, a, fext, at, oracle.wrenches(at, fext)


# -- inverse dynamics -------------------------------------------------------------------------------------------------
@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_recursive_newton_euler_equals_the_closed_form_with_weights_as_forces(key: str, seed: int) -> None:
    _, _, v, a, _, at, wrenches = draw_state(key, seed)
    close(closed_form_inverse_dynamics(at, v, a, wrenches=wrenches), algorithms.rnea(at, v, a, wrenches=wrenches))
    close(closed_form_gravity(at), algorithms.nle(at, np.zeros_like(v)))


@every_model
def test_nonlinear_effects_are_the_inverse_dynamics_at_zero_acceleration(key: str) -> None:
    oracle, q, v, _, _, _, _ = draw_state(key, 1)
    close(oracle.nle(q, v), oracle.rnea(q, v, np.zeros(oracle.nv)))
    close(oracle.gravity(q), oracle.nle(q, np.zeros(oracle.nv)))


@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_torque_is_mass_times_acceleration_plus_coriolis_and_gravity_less_external_forces(key: str, seed: int) -> None:
    oracle, q, v, a, fext, _, _ = draw_state(key, seed)
    external = sum(oracle.frame_jacobian(q, name).T @ f for name, f in fext.items())
    tau = oracle.crba(q) @ a + oracle.coriolis(q, v) @ v + oracle.gravity(q) - external
    close(oracle.rnea(q, v, a, fext=fext), tau)


def test_force_without_moment_equals_a_wrench_with_zero_moment() -> None:
    oracle, q, v, a, _, _, _ = draw_state("everything free", 2)
    f = np.array([1.0, -2.0, 3.0])
    close(
        oracle.rnea(q, v, a, fext={"tool3": f}), oracle.rnea(q, v, a, fext={"tool3": np.concatenate([f, np.zeros(3)])})
    )


def test_worked_two_body_torque_of_the_source_equals_the_recursion() -> None:
    oracle = Reference(tree(("revolute", "continuous")), root="fixed", armature=np.array([0.1, 0.2]))
    for seed in range(5):
        q, v, a, fext = state(oracle, seed)
        at = oracle.forward_kinematics(q)
        first, second = oracle.wrenches(at, fext) or ()
        close(two_body_torque(at, v, a, wrenches=(first, second)), oracle.rnea(q, v, a, fext=fext))


def test_docstring_example_of_the_worked_torque_holds() -> None:
    assert doctest.testmod(reference_algorithms) == (0, 5)


# -- mass -------------------------------------------------------------------------------------------------------------
@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_three_mass_matrix_algorithms_give_one_symmetric_positive_definite_matrix(key: str, seed: int) -> None:
    at = draw_state(key, seed)[5]
    M = algorithms.crba(at)
    close(M, M.T, 1e-15)
    assert np.linalg.eigvalsh(M).min() > 0.0
    close(algorithms.mass_by_jacobians(at), M)
    close(mass_by_rnea(at), M)


# -- forward dynamics -------------------------------------------------------------------------------------------------
@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_three_forward_dynamics_algorithms_invert_inverse_dynamics(key: str, seed: int) -> None:
    oracle, q, v, a, fext, at, wrenches = draw_state(key, seed)
    tau = oracle.rnea(q, v, a, fext=fext)
    bound = 1e-14 * np.linalg.cond(oracle.crba(q)) + 1e-12
    close(aba(at, v, tau, wrenches=wrenches), a, bound)
    close(forward_by_mass(at, v, tau, wrenches=wrenches), a, bound)
    close(forward_dynamics(oracle.model, q, v, tau, wrenches=wrenches), a, bound)


def test_mass_inverse_columns_are_accelerations_by_unit_torques() -> None:
    oracle, q, *_ = draw_state("everything free", 3)
    rest, still = np.zeros(oracle.nv), oracle.gravity(q)
    columns = [oracle.aba(q, rest, still + e) for e in np.eye(oracle.nv)]
    close(oracle.mass_inverse(q), np.stack(columns, axis=1), 1e-10)


# -- Coriolis ---------------------------------------------------------------------------------------------------------
def all_coriolis(key: str, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    oracle, q, v, _, _, at, _ = draw_state(key, seed)
    found = {"closed form": algorithms.coriolis_closed_form(at, v), "by bodies": algorithms.coriolis_by_bodies(at, v)}
    if key in COORDINATES:
        found["Christoffel"] = coriolis_christoffel(oracle.model, q, v)
    return found, v, mass_rate(oracle.model, q, v)


@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_every_coriolis_matrix_has_the_same_product_with_the_velocity(key: str, seed: int) -> None:
    found, v, _ = all_coriolis(key, seed)
    oracle, q, *_ = draw_state(key, seed)
    for C in found.values():
        close(C @ v, oracle.nle(q, v) - oracle.gravity(q), 1e-11)


@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_mass_rate_is_the_symmetric_part_of_twice_coriolis(key: str, seed: int) -> None:
    found, _, Mdot = all_coriolis(key, seed)
    for C in found.values():
        close(C + C.T, Mdot, 1e-11)


@pytest.mark.parametrize("key", COORDINATES)
@seeds
@given(seed=st.integers(0, 10**6))
def test_christoffel_makes_mdot_minus_2c_skew(key: str, seed: int) -> None:
    found, _, Mdot = all_coriolis(key, seed)
    skew = Mdot - 2 * found["Christoffel"]
    close(skew, -skew.T, 1e-11)


@pytest.mark.parametrize("key", ["revolute fixed", "sliding fixed"])
def test_coriolis_matrix_by_bodies_equals_the_christoffel_matrix_on_fixed_bases(key: str) -> None:
    found, _, _ = all_coriolis(key, 4)
    close(found["by bodies"], found["Christoffel"], 1e-11)
    assert np.abs(found["closed form"] - found["Christoffel"]).max() > 1e-3  # the matrix of source A differs


# -- kinematics -------------------------------------------------------------------------------------------------------
@every_model
@pytest.mark.parametrize("axes", ["local_world_aligned", "local", "world"])
def test_frame_velocity_is_the_jacobian_times_velocity_and_drift_its_rate(key: str, axes: str) -> None:
    oracle, q, v, *_ = draw_state(key, 6)
    for name in oracle.model.frames:
        J = oracle.frame_jacobian(q, name, reference=axes)
        terms = max(1e-3, float((np.abs(J) @ np.abs(v)).max()))
        close(oracle.frame_velocity(q, v, name, reference=axes), J @ v, terms=terms)
        rate = derivative_along(oracle.model, lambda x, n=name: oracle.frame_jacobian(x, n, reference=axes), q, v)
        terms = max(1e-3, float((np.abs(rate) @ np.abs(v)).max()))
        close(oracle.frame_drift(q, v, name, reference=axes), rate @ v, terms=terms)


@every_model
def test_jacobian_is_the_derivative_of_the_placement(key: str) -> None:
    """By finite differences of the placement, without complex steps."""
    oracle, q, v, *_ = draw_state(key, 7)
    name = list(oracle.model.frames)[-1]
    T = oracle.frame_placement(q, name)
    Tdot = derivative(lambda t: oracle.frame_placement(oracle.integrate(q, t * v), name))
    V = oracle.frame_velocity(q, v, name, reference="local")
    W = np.array([[0, -V[5], V[4], V[0]], [V[5], 0, -V[3], V[1]], [-V[4], V[3], 0, V[2]], [0, 0, 0, 0]])
    close(Tdot, T @ W, 1e-9)


@every_model
def test_body_jacobian_rate_is_the_derivative_of_the_body_jacobian(key: str) -> None:
    oracle, q, v, _, _, at, _ = draw_state(key, 8)
    J = body_jacobians(at)
    for i, rate in enumerate(body_jacobian_rates(at, twists(at, v), v, J)):
        close(
            rate, derivative_along(oracle.model, lambda x, i=i: body_jacobians(place_bodies(oracle.model, x))[i], q, v)
        )


@every_model
def test_support_lists_the_joints_whose_jacobian_columns_are_not_zero(key: str) -> None:
    oracle, *_, at, _ = draw_state(key, 9)
    for support, J in zip(oracle.model.support, body_jacobians(at), strict=True):
        moved = {i for i, b in enumerate(oracle.model.bodies) if J[:, b.v].any()}
        assert moved == set(support)


@every_model
def test_integration_is_reversible_and_keeps_unit_norms(key: str) -> None:
    oracle, q, v, *_ = draw_state(key, 10)
    there = oracle.integrate(q, v)
    close(oracle.integrate(there, -v), q, 1e-14)
    for body in oracle.model.bodies:
        if body.kind in ("continuous", "planar", "floating"):
            unit = there[body.q][3 if body.kind == "floating" else -2 :]
            assert abs(unit @ unit - 1.0) < 1e-14
    assert np.abs(there - q).max() > 0.1


@every_model
def test_random_configurations_stay_within_the_limits_and_exceed_them_on_request(key: str) -> None:
    oracle, rng = reference(key), np.random.default_rng(0)
    bounded = [b for b in oracle.model.bodies if b.kind in ("revolute", "prismatic") and np.isfinite(b.lower)]
    assert bounded
    inside = [oracle.random_configuration(rng) for _ in range(20)]
    outside = [oracle.random_configuration(rng, beyond=0.5) for _ in range(20)]
    assert all(b.lower <= q[b.q][0] <= b.upper for q in inside for b in bounded)
    assert any(not b.lower <= q[b.q][0] <= b.upper for q in outside for b in bounded)
    assert (kinematics.neutral(oracle.model) == oracle.integrate(kinematics.neutral(oracle.model), v0(oracle))).all()


def v0(oracle: Reference) -> np.ndarray:
    return np.zeros(oracle.nv)


# -- the whole robot --------------------------------------------------------------------------------------------------
@every_model
def test_com_jacobian_and_drift_are_derivatives_of_the_center_of_mass(key: str) -> None:
    oracle, q, v, *_ = draw_state(key, 11)
    J = oracle.com_jacobian(q)
    close(derivatives_by_configuration(oracle.model, oracle.center_of_mass, q), J)
    close(derivative_along(oracle.model, oracle.com_jacobian, q, v) @ v, oracle.com_drift(q, v))
    total = sum(b.mass for b in oracle.model.bodies)
    close(total * J @ v, oracle.centroidal_momentum(q, v)[:3])


@every_model
def test_kinetic_energy_is_quadratic_in_velocity_and_gravity_is_the_potential_gradient(
    key: str,
) -> None:
    oracle, q, v, *_ = draw_state(key, 12)
    assert oracle.energy(q, v).kinetic == pytest.approx(0.5 * v @ oracle.crba(q) @ v, rel=1e-13)
    slope = [
        derivative(lambda t, e=e: np.array(oracle.energy(oracle.integrate(q, t * e), v).potential))
        for e in np.eye(oracle.nv)
    ]
    close(np.array(slope), oracle.gravity(q), 1e-9)


@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_power_of_torques_and_forces_is_the_rate_of_energy(key: str, seed: int) -> None:
    oracle, q, v, a, fext, _, _ = draw_state(key, seed)
    tau = oracle.rnea(q, v, a, fext=fext)
    power = tau @ v + sum(f @ oracle.frame_velocity(q, v, name) for name, f in fext.items())
    rate = derivative(lambda t: np.array(sum(oracle.energy(oracle.integrate(q, t * v + t * t / 2 * a), v + t * a))))
    close(rate, power, 1e-8)


@pytest.mark.parametrize("key", ["revolute free", "everything free"])
@pytest.mark.parametrize("gravity", [0.0, -9.81])
def test_momentum_in_flight_changes_by_the_weight_alone(key: str, gravity: float) -> None:
    text, root = MODELS[key]
    oracle = Reference(text, root=root, gravity=(0.0, 0.0, gravity))
    q, v, _, _ = state(oracle, 14)
    tau = np.concatenate([np.zeros(6), np.random.default_rng(0).normal(size=oracle.nv - 6)])
    a = oracle.aba(q, v, tau)
    rate = derivative(lambda t: oracle.centroidal_momentum(oracle.integrate(q, t * v + t * t / 2 * a), v + t * a))
    weight = gravity * sum(b.mass for b in oracle.model.bodies)
    close(rate, np.array([0, 0, weight, 0, 0, 0]), 1e-8, terms=np.abs(oracle.centroidal_momentum(q, v)).max())


# -- parameters and derivatives ---------------------------------------------------------------------------------------
@every_model
@seeds
@given(seed=st.integers(0, 10**6))
def test_torque_is_linear_in_the_parameters(key: str, seed: int) -> None:
    oracle, q, v, a, *_ = draw_state(key, seed)
    tau = oracle.regressor(q, v, a) @ oracle.parameters()
    # The root joint and joints with several degrees of freedom have no column for a rotor.
    single = np.concatenate(
        [[not b.root and b.v.stop - b.v.start == 1] * (b.v.stop - b.v.start) for b in oracle.model.bodies]
    )
    several = np.where(single, 0.0, oracle.model.armature * a)
    friction = np.where(single, oracle.joint_friction(v), 0.0)
    close(tau + several, oracle.rnea(q, v, a) + friction)


def test_regressor_columns_are_the_inverse_dynamics_of_unit_parameters() -> None:
    """By definition: a robot with one nonzero parameter."""
    oracle, q, v, a, *_ = draw_state("everything planar", 15)
    H = oracle.regressor(q, v, a)
    named = [i for i, b in enumerate(oracle.model.bodies) if b.name is not None]
    for k, i in enumerate(named):
        for column, parameter in enumerate(INERTIAL_PARAMETERS):
            bodies = tuple(
                replace(b, G=unit_inertia(parameter) if j == i else np.zeros((6, 6)))
                for j, b in enumerate(oracle.model.bodies)
            )
            single = replace(oracle.model, bodies=bodies, armature=np.zeros(oracle.nv))
            close(H[:, 13 * k + column], algorithms.rnea(place_bodies(single, q), v, a))


@pytest.mark.parametrize("key", ["revolute free", "everything fixed"])
def test_complex_steps_agree_with_finite_differences(key: str) -> None:
    oracle, q, v, a, *_ = draw_state(key, 16)
    exact = oracle.rnea_derivatives(q, v, a)
    columns = [derivative(lambda t, e=e: oracle.rnea(oracle.integrate(q, t * e), v, a)) for e in np.eye(oracle.nv)]
    close(exact[0], np.stack(columns, axis=1), 1e-8)
    close(exact[2], oracle.crba(q))
    tau = oracle.rnea(q, v, a)
    by_q, by_v, by_tau = oracle.aba_derivatives(q, v, tau)
    close(by_tau, oracle.mass_inverse(q), 1e-10)
    close(by_q, -by_tau @ exact[0], 1e-9)
    close(by_v, -by_tau @ exact[1], 1e-9)


# -- the boundary -----------------------------------------------------------------------------------------------------
def test_unknown_names_and_wrong_sizes_are_rejected() -> None:
    oracle, q, v, *_ = draw_state("revolute fixed", 0)
    raises(UnknownNameError, "did you mean", oracle.frame_placement, q, "tool")
    raises(ArgumentError, "reference", oracle.frame_velocity, q, v, "tool1", reference="body")
    raises(ArgumentError, "armature", Reference, tree(("revolute",)), armature=np.zeros(3))


# -- the Lie group ----------------------------------------------------------------------------------------------------
def test_body_twists_and_parent_twists_give_the_same_motion_unless_mixed() -> None:
    """Source D's two sets of twists: ``g(0) exp(xi q) = exp(Ad(g(0)) xi q) g(0)``, which is not ``exp(xi q) g(0)``."""
    oracle, q, *_ = draw_state("sliding fixed", 17)
    for body in oracle.model.bodies:
        moved = body.T @ kinematics.joint_motion(body, q[body.q])
        close(relative_motion(body, q[body.q]), moved)
        angle = np.arctan2(*q[body.q][::-1]) if body.kind == "continuous" else q[body.q][0]
        close(body.T @ exp(body.S[:, 0] * angle), moved)
        assert np.abs(exp(body.S[:, 0] * angle) @ body.T - moved).max() > 1e-2


def test_chains_of_a_thousand_links_are_computed_accurately() -> None:
    links = 1000
    parts = ['<link name="0"/>']
    for i in range(links):
        parts.append(f'<link name="{i + 1}">{ROD}</link><joint name="j{i:04}" type="revolute">')
        parts.append(f'<parent link="{i}"/><child link="{i + 1}"/><origin xyz="0 0.1 0"/><axis xyz="1 0 0"/></joint>')
    oracle = Reference(f'<robot name="chain">{"".join(parts)}</robot>')
    q, a = np.zeros(links), np.zeros(links)
    # Straight and horizontal: the first joint carries all rods, the last one only its own.
    tau = oracle.rnea(q, np.zeros(links), a)
    arms = 0.05 + 0.1 * np.arange(links)
    assert tau[0] == pytest.approx(9.81 * arms.sum(), rel=1e-12)
    assert tau[-1] == pytest.approx(9.81 * 0.05, rel=1e-9)
    assert np.abs(oracle.aba(q, np.zeros(links), tau)).max() < 1e-3  # rounding error of the large load


ROD = inertial(1, "0 0.05 0", "1e-3 1e-5 1e-3")


# -- independence -----------------------------------------------------------------------------------------------------
def test_reference_does_not_import_pinocchio_and_only_errors_and_old_names_of_the_package() -> None:
    folder = Path(reference_room.__file__).parent
    outside = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                outside |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 2:
                outside.add(f"..{node.module}")
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                outside.add(str(node.module).split(".")[0])
    assert outside - set(sys.stdlib_module_names) == {"numpy", "defusedxml", "..errors", "..deprecation"}
