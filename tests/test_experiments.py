"""Experiments of source D and growth of computational cost, as in the benchmarks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from slow_parameters import NIGHT, others_slow

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import complexity
import falls
from counting import count_operations
from falls import STEPS, Fall, distance
from integrators import Array, clock

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


# -- four links -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("name", "least", "most"), [("as coded", 0.03e-3, 0.1e-3), ("rods", 10e-3, 20e-3)])
def test_integration_error_has_the_documented_size(name: str, least: float, most: float) -> None:
    times = clock(falls.DT, STEPS)[::20]
    exact = fall(name).last_com(fall(name).exact(times))
    assert least < distance(exact, path(name)[::20]).max() < most


# -- ten links --------------------------------------------------------------------------------------------------------
@long
def test_ten_link_fall_agrees_with_mujoco_for_half_a_second(name: str) -> None:
    pytest.importorskip("mujoco")
    com = fall(name).mujoco(steps=HALF)[1]
    assert distance(com, path(name)[: HALF + 1]).max() <= 1e-6


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
