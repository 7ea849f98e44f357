"""Identities between the algorithms of the reference; `test_verification` compares them with Pinocchio's."""

from __future__ import annotations

import ast
import doctest
import sys
from pathlib import Path

import numpy as np
import pytest
import reference_algorithms
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
from quaddyn.reference.algorithms import (
    aba,
    forward_by_mass,
    forward_dynamics,
)

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


@pytest.mark.parametrize("key", ["revolute fixed", "sliding fixed"])
def test_coriolis_matrix_by_bodies_equals_the_christoffel_matrix_on_fixed_bases(key: str) -> None:
    found, _, _ = all_coriolis(key, 4)
    close(found["by bodies"], found["Christoffel"], 1e-11)
    assert np.abs(found["closed form"] - found["Christoffel"]).max() > 1e-3  # the matrix of source A differs


# -- kinematics -------------------------------------------------------------------------------------------------------


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


# -- the boundary -----------------------------------------------------------------------------------------------------
def test_unknown_names_and_wrong_sizes_are_rejected() -> None:
    oracle, q, v, *_ = draw_state("revolute fixed", 0)
    raises(UnknownNameError, "did you mean", oracle.frame_placement, q, "tool")
    raises(ArgumentError, "reference", oracle.frame_velocity, q, v, "tool1", reference="body")
    raises(ArgumentError, "armature", Reference, tree(("revolute",)), armature=np.zeros(3))


# -- the Lie group ----------------------------------------------------------------------------------------------------


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
