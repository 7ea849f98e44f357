"""Clopper-Pearson bounds against tables and the binomial sum; claims of searches hold at their confidence."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.campaigns.binomial_bounds import (
    Search,
    Threshold,
    incomplete_beta,
    interim_tests,
    interval,
    lower_bound,
    search,
    upper_bound,
)


def tail(k: int, n: int, p: float) -> float:
    """P(at least k of n), summed term by term."""
    return math.fsum(math.comb(n, i) * p**i * (1.0 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (10, 3), (59, 59), (100, 95), (300, 1)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_bounds_match_the_binomial_sum(n: int, k: int, confidence: float) -> None:
    low, high = lower_bound(k, n, confidence), upper_bound(k, n, confidence)
    assert low == 0.0 if k == 0 else tail(k, n, low) == pytest.approx(1.0 - confidence, rel=1e-9)
    assert high == 1.0 if k == n else 1.0 - tail(k + 1, n, high) == pytest.approx(1.0 - confidence, rel=1e-9)
    assert 0.0 <= low <= k / n <= high <= 1.0


def test_clopper_pearson_bounds_match_published_values() -> None:
    # Clopper and Pearson 1934, and every table since: two-sided 95 % of 5 in 10, and of 0 in 20.
    assert interval(5, 10) == pytest.approx((0.18709, 0.81291), abs=1e-5)
    assert interval(0, 20) == pytest.approx((0.0, 0.16843), abs=1e-5)
    assert lower_bound(59, 59) > 0.95 > lower_bound(58, 58)
    assert upper_bound(0, 1000) == pytest.approx(1.0 - 0.05**1e-3, rel=1e-12)  # the rule of three: 3 / n


def test_bounds_agree_with_scipy() -> None:
    beta = pytest.importorskip("scipy.stats").beta
    rng = np.random.default_rng(0)
    for n in (1, 7, 200, 100_000):
        for k in {0, 1, n // 3, n - 1, n, int(rng.integers(0, n + 1))} - {-1}:
            low = beta.ppf(0.05, k, n - k + 1) if k else 0.0
            high = beta.ppf(0.95, k + 1, n - k) if k < n else 1.0
            assert lower_bound(k, n) == pytest.approx(low, abs=1e-11)
            assert upper_bound(k, n) == pytest.approx(high, abs=1e-11)


def test_incomplete_beta_function_is_symmetric() -> None:
    for x, a, b in ((0.3, 2.0, 5.0), (0.95, 59.0, 1.0), (0.5, 1e4, 1e4)):
        assert incomplete_beta(x, a, b) + incomplete_beta(1.0 - x, b, a) == pytest.approx(1.0, abs=1e-12)
    assert (incomplete_beta(0.0, 2.0, 3.0), incomplete_beta(1.0, 2.0, 3.0)) == (0.0, 1.0)


@pytest.mark.parametrize("wrong", [(-1, 5, 0.95), (6, 5, 0.95), (0, 0, 0.95), (1, 2, 1.0), (1, 2, math.nan)])
def test_impossible_counts_are_rejected(wrong: tuple[int, int, float]) -> None:
    raises(qd.ArgumentError, "expected", lower_bound, *wrong)


def test_interim_tests_divide_the_risk() -> None:
    plan = interim_tests(0.95, 0.05)
    assert [look.failures for look in plan] == [0, 2]
    assert math.fsum(1.0 - look.confidence for look in plan) == pytest.approx(0.05)
    for look in plan:
        assert lower_bound(look.trials - look.failures, look.trials, look.confidence) >= 0.95
        assert lower_bound(look.trials - 1 - look.failures, look.trials - 1, look.confidence) < 0.95
    # Exact risk of the test at success rate 0.95: P(pass the first or the second interim test).
    (n, _), (m, c) = ((look.trials, look.failures) for look in plan)
    at_once = 0.95**n
    later = math.fsum(
        math.comb(n, i) * 0.05**i * 0.95 ** (n - i) * (1.0 - tail(c - i + 1, m - n, 0.05)) for i in range(1, c + 1)
    )
    assert 0.02 < at_once + later <= 0.05


def run_search(task: Search, success: Callable[[int], float], rng: np.random.Generator) -> tuple[Threshold, int]:
    """Runs a search with random numbers common to all levels; returns the threshold and the number of trials."""
    luck: dict[int, float] = {}
    asked = 0
    try:
        ask = next(task)
        while True:
            asked += len(ask.trials)
            ask = task.send([luck.setdefault(k, rng.random()) < success(ask.level) for k in ask.trials])
    except StopIteration as end:
        return end.value, asked


def logistic(middle: float, width: float) -> Callable[[int], float]:
    return lambda level: 1.0 / (1.0 + math.exp((level - middle) / width))


@pytest.mark.parametrize(
    "success",
    [
        pytest.param(logistic(20.0, 0.5), id="steep"),
        pytest.param(logistic(15.0, 3.0), id="gentle"),
        pytest.param(lambda level: 0.945, id="just below everywhere"),
        pytest.param(lambda level: 0.97 if level % 2 else 0.9, id="jagged"),
    ],
)
def test_claims_hold_at_their_confidence(success: Callable[[int], float]) -> None:
    """The fraction of wrong claims over 300 searches is consistent with at most 5 %."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(300):
        found, _ = run_search(search(32), success, rng)
        wrong += found.level is not None and success(found.level) < found.probability
    assert lower_bound(wrong, 300, 0.999) <= 0.05


def test_steep_threshold_is_found_within_one_level() -> None:
    rng = np.random.default_rng(3)
    for middle in (1, 7, 30):
        found, trials = run_search(search(32), lambda level, middle=middle: float(level <= middle), rng)
        assert found.level == middle - 1 and found.monotone and not found.top and trials < 180
        assert lower_bound(found.successes, found.trials) >= 0.95


def test_certain_success_needs_few_trials_and_is_reported_as_end_of_range() -> None:
    found, trials = run_search(search(32, checks=0), lambda level: 1.0, np.random.default_rng(0))
    assert found.level == 31 and found.top and trials == 12 + interim_tests(0.95, 0.025, failures=(0,))[0].trials


def test_certain_failure_gives_no_claim_and_an_upper_bound() -> None:
    found, trials = run_search(search(32), lambda level: 0.2, np.random.default_rng(0))
    assert found.level is None and trials < 60
    assert 0.2 < found.upper < 0.6  # never "0 %", and never "1" after so many failures


def test_failures_at_easier_levels_are_detected() -> None:
    found, _ = run_search(
        search(33), lambda level: 0.5 if 5 < level < 25 else float(level <= 30), np.random.default_rng(1)
    )
    hole, _ = run_search(
        search(33), lambda level: 0.5 if 5 < level < 12 else float(level <= 20), np.random.default_rng(1)
    )
    assert found.level is not None and found.level <= 5
    assert hole.level == 19 and not hole.monotone and hole.exceptions == (9,) and hole.inversions > 0


def test_search_rejects_arguments_out_of_range() -> None:
    for options in ({"probability": 1.0}, {"confidence": 0.0}, {"pilot": 0}):
        with pytest.raises(qd.ArgumentError):
            search(10, **options)  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError):
        search(0)


@pytest.mark.parametrize("n_failed", range(5))
def test_attempts_at_a_claim_use_new_trials_and_half_of_the_remaining_risk(n_failed: int) -> None:
    """The pilot trials of every level succeed, but the trials of the first attempts fail."""
    task, levels = search(64, checks=0), list[int]()
    asked: list[tuple[int, int]] = []
    ask = next(task)
    while True:
        asked += [(ask.level, k) for k in ask.trials]
        if min(ask.trials) >= 12 and ask.level not in levels:
            levels.append(ask.level)
        try:
            ask = task.send([k < 12 or levels.index(ask.level) >= n_failed for k in ask.trials])
        except StopIteration as end:
            found = end.value
            break
    plan = interim_tests(0.95, 0.05 / 2.0 ** (n_failed + 1), failures=(0,) if n_failed < 2 else (0, 2))
    assert levels == [63, 62, 60, 56, 48][: n_failed + 1] and found.level == levels[-1]
    assert found.trials == plan[0].trials == found.successes
    numbers = [k for _, k in asked if k >= 12]
    assert len(set(numbers)) == len(numbers) and min(numbers) == 12, "a trial supports one attempt only"
