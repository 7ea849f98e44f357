"""Experiments of source D and growth of computational cost, as in the benchmarks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from slow_parameters import NIGHT, others_slow

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import complexity
import falls
from counting import count_operations
from falls import STEPS, Fall, distance
from integrators import Array, Motion, clock, extrapolation, rk4, semi_implicit_euler, variational_midpoint

PINOCCHIO = "Pinocchio, ABA"
REFERENCES = ("reference, ABA", "reference, Lie group")
SHORT = [(name, way) for name in ("as coded", "rods") for way in REFERENCES]
HALF = STEPS // 2  # the first half second

FALLS: dict[str, Callable[[], Fall]] = {
    "as coded": falls.fall_4_as_coded,
    "rods": falls.fall_4_rods,
    "ten links": falls.fall_10,
    "ten links bent": falls.fall_10_bent,
}
short = pytest.mark.parametrize("name", ["as coded", "rods"])
long = pytest.mark.parametrize("name", ["ten links", "ten links bent"])


@functools.cache
def fall(name: str) -> Fall:
    return FALLS[name]()


@functools.cache
def path(name: str) -> Array:
    """Path of the center of mass of the last link, with Pinocchio and semi-implicit Euler."""
    return fall(name).last_com(fall(name).euler(PINOCCHIO))


def pendulum(q: Array, v: Array) -> Array:
    return -9.81 * np.sin(q)


def pendulum_energy(motion: Motion) -> Array:
    return np.asarray(0.5 * motion.v[:, 0] ** 2 - 9.81 * np.cos(motion.q[:, 0]))


def swing(dt: float, seconds: float, method: str) -> Motion:
    q, v, steps = np.array([2.0]), np.array([0.5]), round(seconds / dt)
    if method == "variational midpoint":
        force = lambda q, v: -9.81 * np.sin(q)  # noqa: E731
        return variational_midpoint(lambda q: np.eye(1), force, q, v, dt=dt, steps=steps)
    return {"Euler": semi_implicit_euler, "Runge-Kutta": rk4}[method](pendulum, q, v, dt=dt, steps=steps)


# -- integrators ------------------------------------------------------------------------------------------------------
def test_extrapolation_follows_a_harmonic_oscillator_to_rounding() -> None:
    times = np.linspace(0.0, 20.0, 41)
    motion = extrapolation(lambda q, v: -4.0 * q, np.array([1.0]), np.array([0.0]), times=times)
    np.testing.assert_array_equal(motion.t, times)
    np.testing.assert_allclose(motion.q[:, 0], np.cos(2.0 * times), rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(motion.v[:, 0], -2.0 * np.sin(2.0 * times), rtol=0.0, atol=2e-11)


def test_extrapolation_raises_if_its_tolerance_is_unreachable() -> None:
    with pytest.raises(ArithmeticError, match="out of reach"):
        extrapolation(pendulum, np.array([2.0]), np.array([0.0]), times=np.array([0.0, 1.0]), tolerance=1e-30)


def test_variational_midpoint_raises_if_its_step_is_too_long() -> None:
    raises(ArithmeticError, "no convergence", swing, 5.0, 10.0, "variational midpoint")


@pytest.mark.parametrize(("method", "order"), [("Euler", 1), ("variational midpoint", 2), ("Runge-Kutta", 4)])
def test_error_decreases_with_the_order_of_the_integrator(method: str, order: int) -> None:
    exact = extrapolation(pendulum, np.array([2.0]), np.array([0.5]), times=np.array([0.0, 1.0])).q[-1]
    coarse, fine = (abs(float(swing(dt, 1.0, method).q[-1, 0] - exact[0])) for dt in (0.01, 0.005))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.15)


def test_energy_error_is_bounded_with_variational_midpoint_and_drifts_with_runge_kutta() -> None:
    energies = {way: pendulum_energy(swing(0.05, 200.0, way)) for way in ("variational midpoint", "Runge-Kutta")}

    def worst(method: str, part: slice) -> float:
        return float(np.abs(energies[method] - energies[method][0])[part].max())

    early, late = slice(0, 400), slice(-400, None)
    assert worst("variational midpoint", late) <= 1.05 * worst("variational midpoint", early)
    assert worst("Runge-Kutta", late) >= 5.0 * worst("Runge-Kutta", early)


# -- four links -------------------------------------------------------------------------------------------------------
def test_published_code_has_identity_inertias() -> None:
    coded = fall("as coded")
    for body in coded.robot.bodies[1:]:
        assert body.inertial.mass == 1.0
        np.testing.assert_array_equal(body.inertial.inertia, np.eye(3))
    np.testing.assert_array_equal(coded.start, np.full(4, np.pi / 2))


def test_rods_start_horizontal_along_y() -> None:
    np.testing.assert_allclose(path("rods")[0], [0.0, 0.35, 0.0], atol=1e-15)


@pytest.mark.parametrize(("name", "implementation"), others_slow(SHORT, SHORT[::3]))
def test_four_link_fall_agrees_with_the_reference_to_a_nanometer(name: str, implementation: str) -> None:
    steps = STEPS if NIGHT else HALF
    other = fall(name).last_com(fall(name).euler(implementation, steps=steps))
    assert distance(other, path(name)[: steps + 1]).max() <= 1e-9


@short
def test_four_link_fall_agrees_with_mujoco_to_a_millimeter(name: str) -> None:
    pytest.importorskip("mujoco")
    motion, com = fall(name).mujoco()
    assert distance(com, path(name)).max() < 1e-3
    assert np.abs(motion.q[-1] - motion.q[0]).max() > 0.2  # the chain moved


@short
def test_four_links_move_in_the_y_z_plane(name: str) -> None:
    np.testing.assert_allclose(path(name)[:, 0], 0.0, atol=1e-15)
    assert np.ptp(path(name)[:, 1:], axis=0).min() > 0.01


@pytest.mark.parametrize(("name", "least", "most"), [("as coded", 0.03e-3, 0.1e-3), ("rods", 10e-3, 20e-3)])
def test_integration_error_has_the_documented_size(name: str, least: float, most: float) -> None:
    times = clock(falls.DT, STEPS)[::20]
    exact = fall(name).last_com(fall(name).exact(times))
    assert least < distance(exact, path(name)[::20]).max() < most


def test_integration_error_halves_with_the_step() -> None:
    chain = fall("rods")
    exact = chain.last_com(chain.exact(np.array([0.0, 0.5])))[-1]

    def error(dt: float) -> float:
        return float(np.linalg.norm(chain.last_com(chain.euler(PINOCCHIO, dt=dt, steps=round(0.5 / dt)))[-1] - exact))

    assert error(falls.DT) / error(falls.DT / 2) == pytest.approx(2.0, abs=0.05)


@short
def test_energy_drifts_most_with_semi_implicit_euler(name: str) -> None:
    chain = fall(name)
    motions = (chain.euler(PINOCCHIO), chain.variational(), chain.rk4())
    drifts = [float(np.ptp(chain.energy(m))) for m in motions]
    assert drifts[0] > 100.0 * drifts[1] > 100.0 * drifts[2]
    assert drifts[0] > 1e-4 and drifts[1] < 5e-3 and drifts[2] < 1e-5


# -- ten links --------------------------------------------------------------------------------------------------------
@long
def test_ten_link_fall_agrees_with_mujoco_for_half_a_second(name: str) -> None:
    pytest.importorskip("mujoco")
    com = fall(name).mujoco(steps=HALF)[1]
    assert distance(com, path(name)[: HALF + 1]).max() <= 1e-6


def test_straight_chain_stays_in_its_plane_and_bent_chain_does_not() -> None:
    assert np.abs(path("ten links")[:, 0]).max() < 1e-12
    assert np.abs(path("ten links bent")[:, 0]).max() > 0.05


CHAOS = [("ten links", 7.0, 13.0), ("ten links bent", 25.0, 50.0)]


@pytest.mark.parametrize(("name", "least", "most"), others_slow(CHAOS, CHAOS[1:]))
def test_ten_link_fall_is_chaotic(name: str, least: float, most: float) -> None:
    steps = 4 * STEPS if name == "ten links" else STEPS
    d = falls.divergence(fall(name), np.random.default_rng(0), steps=steps)
    assert least < d.rate < most  # [1/s]
    # Exponential growth over at least five decades.
    assert d.scatter < 1.0 and d.rate * (d.window[1] - d.window[0]) > np.log(1e5)


def test_divergence_of_a_short_fall_is_rejected() -> None:
    raises(ValueError, "short of", falls.divergence, fall("ten links"), np.random.default_rng(0), steps=100)


# -- growth of cost ---------------------------------------------------------------------------------------------------
def test_operation_counts_of_known_products_are_exact() -> None:
    rng = np.random.default_rng(0)
    A, B, x = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=4)
    assert count_operations(lambda a, b: a @ b, A, B) == 2 * 3 * 4 * 5
    assert count_operations(lambda a, x: (a @ x)[0] * np.cos(x[1]) + 1.0, A, x) == 2 * 3 * 4 + 3
    assert count_operations(lambda a, x: np.stack([a, a]) * x, A, x) == 2 * 3 * 4
    assert count_operations(np.linalg.solve, np.eye(3), np.ones((3, 2))) == 18 + 36
    assert count_operations(np.linalg.inv, np.eye(6)) == 2 * 6**3


def test_counting_operations_does_not_change_results() -> None:
    model, (q, v, x) = complexity.reference_chain(6), complexity.random_state(6)
    for algorithm in complexity.REFERENCE.values():
        results: list[Array] = []
        count_operations(lambda m, *a, f=algorithm, r=results: r.append(np.array(f(m, *a))), model, q, v, x)
        np.testing.assert_array_equal(results[0], algorithm(model, q, v, x))


def test_reference_and_pinocchio_chains_are_the_same() -> None:
    ours, theirs, (q, v, x) = complexity.reference_chain(7), complexity.pinocchio_chain(7), complexity.random_state(7)
    data = theirs.createData()
    raw = {"RNEA": pin.rnea(theirs, data, q, v, x), "ABA": pin.aba(theirs, data, q, v, x)}
    raw |= {"Lie group": raw["ABA"], "CRBA": pin.crba(theirs, data, q)}
    for name, algorithm in complexity.REFERENCE.items():
        np.testing.assert_allclose(algorithm(ours, q, v, x), raw[name], rtol=1e-9, atol=1e-12)


def test_dense_inverse_inverts() -> None:
    M = complexity.REFERENCE["CRBA"](complexity.reference_chain(8), *complexity.random_state(8))
    np.testing.assert_allclose(complexity.dense_inverse(M) @ M, np.eye(8), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("RNEA", 0.98, 1.02),
        ("ABA", 0.98, 1.02),
        ("Lie group", 0.98, 1.02),
        ("CRBA", 1.6, 2.0),
        ("dense M^-1", 2.95, 3.05),
    ],
)
def test_operation_counts_grow_with_the_theoretical_exponent(name: str, least: float, most: float) -> None:
    assert least <= complexity.count_costs(name, (40, 80, 160)).exponent(0) <= most


def test_recursions_have_constant_cost_per_link() -> None:
    for name in ("RNEA", "ABA"):  # the Lie group's exponential map has a cheaper formula for large angles
        first, second, third, fourth = complexity.count_costs(name, (10, 12, 20, 22)).costs
        assert second - first == fourth - third
