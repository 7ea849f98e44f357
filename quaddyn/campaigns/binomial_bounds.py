"""Exact bounds of a probability from successes and trials, and sequential tests that may end early.

The bounds are those of Clopper and Pearson (1934, "The use of confidence or fiducial limits illustrated in the case of
the binomial"): they hold for every probability and every number of trials, without approximation.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

from ..deprecation import renamed_names
from ..errors import ArgumentError
from ..robot.arguments import check_number


def lower_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Returns the one-sided lower Clopper-Pearson bound of a probability of success.

    For any probability, the bound exceeds it in at most ``1 - confidence`` of all experiments of this size.  "At least
    95 %, with 95 % confidence" requires 59 successes in a row.

    Args:
        successes: number of successful trials.
        trials: number of trials, which must not depend on their outcomes; otherwise see `interim_tests`.
        confidence: in (0, 1).

    Raises:
        ArgumentError: impossible counts, or a confidence out of range.
    """
    _check_counts(successes, trials, confidence)
    if successes == 0:
        return 0.0
    # The probability at which as many successes, or more, have the probability 1 - confidence.
    return _quantile(1.0 - confidence, successes, trials - successes + 1)


def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Returns the one-sided upper Clopper-Pearson bound of a probability; without a success in n trials about 3 / n.

    Parameters and errors are those of `lower_bound`.
    """
    _check_counts(successes, trials, confidence)
    return 1.0 - lower_bound(trials - successes, trials, confidence)


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the two-sided Clopper-Pearson interval: both one-sided bounds, each with half of the risk.

    Parameters and errors are those of `lower_bound`.
    """
    _check_counts(successes, trials, confidence)
    half = 0.5 * (1.0 + confidence)
    return lower_bound(successes, trials, half), upper_bound(successes, trials, half)


@dataclass(frozen=True, slots=True)
class InterimTest:
    """Point of a sequential test at which it may end in favor of the claim."""

    trials: int  # number of trials at this point
    failures: int  # largest number of failures among them for the claim
    confidence: float  # confidence of the Clopper-Pearson bound at this point


def interim_tests(probability: float, risk: float, *, failures: tuple[int, ...] = (0, 2)) -> tuple[InterimTest, ...]:
    """Returns the interim tests of a sequential test of "succeeds with at least `probability`".

    After each number of trials in the result the claim is made if at most that many have failed: the lower bound is
    then at least `probability`.  Each interim test adds a risk of a wrong claim.  The risks are fixed beforehand, four
    fifths on the first test and the rest in equal parts, and add up to `risk` (Bonferroni's inequality; a group
    sequential test, Jennison and Turnbull 1999, *Group Sequential Methods*, chapter 12, with the error spending of Lan
    and DeMets).  Trials after the last allowed failure need not be run, since they cannot change the result.

    Args:
        probability: probability to claim, in (0, 1).
        risk: probability of a wrong claim, in (0, 1).
        failures: numbers of failures allowed at each interim test, increasing.

    Raises:
        ArgumentError: an argument out of range.
    """
    for name, value in (("probability", probability), ("risk", risk)):
        if not 0.0 < check_number(name, value) < 1.0:
            raise ArgumentError(f"{name}: expected a number between 0 and 1, got {value}")
    if not failures or any(a >= b for a, b in itertools.pairwise(failures)) or failures[0] < 0:
        raise ArgumentError(f"failures: expected increasing counts, got {failures}")
    first = 1.0 if len(failures) == 1 else 0.8
    risk_fractions = (first, *((1.0 - first) / (len(failures) - 1) for _ in failures[1:]))
    tests = []
    for max_failures, fraction in zip(failures, risk_fractions, strict=True):
        confidence = 1.0 - fraction * risk
        low, high = max_failures, max_failures + 1
        while lower_bound(high - max_failures, high, confidence) < probability:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            is_sufficient = lower_bound(middle - max_failures, middle, confidence) >= probability
            low, high = (low, middle) if is_sufficient else (middle, high)
        tests.append(InterimTest(high, max_failures, confidence))
    return tuple(tests)


def _check_counts(successes: int, trials: int, confidence: float) -> None:
    """Raises an error if counts or confidence are out of range."""
    if not (trials > 0 and 0 <= successes <= trials):
        raise ArgumentError(f"successes, trials: expected 0 <= successes <= trials > 0, got {successes} of {trials}")
    if not 0.0 < check_number("confidence", confidence) < 1.0:
        raise ArgumentError(f"confidence: expected a number between 0 and 1, got {confidence}")


@functools.lru_cache(maxsize=10_000)
def _quantile(level: float, a: int, b: int) -> float:
    """Returns the x at which the regularized incomplete beta function I_x(a, b), increasing in x, reaches `level`."""
    low, high = 0.0, 1.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if incomplete_beta(middle, a, b) < level else (low, middle)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Returns the regularized incomplete beta function I_x(a, b) for x in [0, 1] and a, b > 0.

    I_p(k, n - k + 1) is the probability of at least k successes in n trials of probability p.

    Source: the continued fraction of DLMF 8.17.22 (National Institute of Standards and Technology, Digital Library of
    Mathematical Functions), evaluated by Lentz's method (Thompson and Barnett 1986).
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):  # the continued fraction converges fast on the other side
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    scale = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0) or tiny)
    value, m = d, 1
    while True:
        change = 1.0
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + term * d or tiny)
            c = 1.0 + term / c or tiny
            change = c * d
            value *= change
        if abs(change - 1.0) < 1e-15:
            return scale * value / a
        m += 1


__getattr__ = renamed_names(__name__, {"Look": "InterimTest", "looks": "interim_tests"})
