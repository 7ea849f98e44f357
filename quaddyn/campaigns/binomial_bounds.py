"""What so many successes of so many trials say about a probability: exact bounds, and tests that may end early.

The bounds are Clopper and Pearson's (1934, "The use of confidence or fiducial limits illustrated in the case of the
binomial"): they hold for every probability and every number of trials, and no approximation is in them.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

from ..errors import ArgumentError
from ..robot.arguments import number


def lower_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """The one-sided lower Clopper-Pearson bound of a probability of success.

    Whatever the probability is, this number is above it in at most ``1 - confidence`` of all experiments of so many
    trials.  It takes 59 successes in a row for "at least 95 %, with 95 % confidence".

    Args:
        successes: how many trials succeeded.
        trials: how many there were, a number that must not depend on how they went; see `interim_tests` where it does.
        confidence: in (0, 1).

    Raises:
        ArgumentError: counts that cannot be, or a confidence out of range.
    """
    _check(successes, trials, confidence)
    if successes == 0:
        return 0.0
    # The probability at which as many successes, or more, have the probability 1 - confidence.
    return _quantile(1.0 - confidence, successes, trials - successes + 1)


def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """The one-sided upper Clopper-Pearson bound of a probability: of none in n trials, about 3 / n at 95 %.

    Raises:
        ArgumentError: counts that cannot be, or a confidence out of range.
    """
    _check(successes, trials, confidence)
    return 1.0 - lower_bound(trials - successes, trials, confidence)


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The two-sided Clopper-Pearson interval: both one-sided bounds, each with half of the risk.

    Raises:
        ArgumentError: counts that cannot be, or a confidence out of range.
    """
    _check(successes, trials, confidence)
    half = 0.5 * (1.0 + confidence)
    return lower_bound(successes, trials, half), upper_bound(successes, trials, half)


@dataclass(frozen=True, slots=True)
class InterimTest:
    """A moment at which a test may end in favour of the claim.

    Attributes:
        trials: after how many.
        failures: most that may be among them.
        confidence: of the Clopper-Pearson bound that is then taken.
    """

    trials: int
    failures: int
    confidence: float


def interim_tests(probability: float, risk: float, *, failures: tuple[int, ...] = (0, 2)) -> tuple[InterimTest, ...]:
    """The looks of a test of "succeeds with at least `probability`" that ends early where all goes well.

    After each number of trials in the answer the claim is made if no more than so many have failed: the lower bound
    is then at least `probability`.  Every look risks a wrong claim of its own; the risks are spent beforehand, four
    fifths on the first look and the rest in equal parts, and add up to `risk` (Bonferroni's inequality; the plan is a
    group sequential test, Jennison and Turnbull 1999, *Group Sequential Methods*, chapter 12, with Lan and DeMets'
    error spending).  Trials that follow the last failure allowed need not be run: they change nothing.

    Args:
        probability: that is to be claimed, in (0, 1).
        risk: of the claim where it is not true, in (0, 1).
        failures: allowed at each look, increasing.

    Raises:
        ArgumentError: an argument is out of range.
    """
    for name, value in (("probability", probability), ("risk", risk)):
        if not 0.0 < number(name, value) < 1.0:
            raise ArgumentError(f"{name}: expected a number between 0 and 1, got {value}")
    if not failures or any(a >= b for a, b in itertools.pairwise(failures)) or failures[0] < 0:
        raise ArgumentError(f"failures: expected increasing counts, got {failures}")
    first = 1.0 if len(failures) == 1 else 0.8
    shares = (first, *((1.0 - first) / (len(failures) - 1) for _ in failures[1:]))
    out = []
    for allowed, share in zip(failures, shares, strict=True):
        confidence = 1.0 - share * risk
        low, high = allowed, allowed + 1
        while lower_bound(high - allowed, high, confidence) < probability:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            enough = lower_bound(middle - allowed, middle, confidence) >= probability
            low, high = (low, middle) if enough else (middle, high)
        out.append(InterimTest(high, allowed, confidence))
    return tuple(out)


def _check(successes: int, trials: int, confidence: float) -> None:
    if not (trials > 0 and 0 <= successes <= trials):
        raise ArgumentError(f"successes, trials: expected 0 <= successes <= trials > 0, got {successes} of {trials}")
    if not 0.0 < number("confidence", confidence) < 1.0:
        raise ArgumentError(f"confidence: expected a number between 0 and 1, got {confidence}")


@functools.lru_cache(maxsize=10_000)
def _quantile(level: float, a: int, b: int) -> float:
    """Where the regularized incomplete beta function I_x(a, b), which grows with x, reaches `level`."""
    low, high = 0.0, 1.0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if incomplete_beta(middle, a, b) < level else (low, middle)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b) for x in [0, 1] and a, b > 0.

    I_p(k, n - k + 1) is the probability of at least k successes in n trials of probability p.

    Source: the continued fraction of DLMF 8.17.22 (National Institute of Standards and Technology, Digital Library of
    Mathematical Functions), evaluated by Lentz's method (Thompson and Barnett 1986).
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges fast on the other side
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
