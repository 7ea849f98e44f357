"""Exact bounds of a probability from successes and trials, and sequential tests that may end early.

The bounds are those of Clopper and Pearson (1934, "The use of confidence or fiducial limits illustrated in the case of
the binomial"): they hold for every probability and every number of trials, without approximation.

`search` finds the hardest level at which trials still succeed: bisection, then a claim with exact confidence.  It is a
generator that yields requests for trials and is sent their outcomes.  Many searches can therefore run concurrently
(`quaddyn.campaigns.datasheet`), and a test can compute outcomes by a formula.  It has three parts:

1. *Find*: bisection.  A level passes if `pilot` trials in a row succeed; the first failure ends it.  Trial number k
   uses the same random numbers at every level (common random numbers), which reduces the variance of comparisons.
2. *Claim*: the level below the one found is tested with new trials, which were not used to choose it, by the
   `interim_tests`.  (A few trials in a row prove nothing, and a failed attempt costs more than one level.)  If the test
   fails, an easier level is tested, again with new trials.  Attempt number a may be wrong with probability
   ``risk / 2^a``, so that all together stay below ``risk = 1 - confidence`` for any success curve, monotone or not:
   given all earlier outcomes, each attempt is an exact test of one level.
3. *Check*: easier levels down to the easiest are tried, since the claim implies nothing about easier levels.  The
   result lists those that do worse.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Generator, Sequence
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


#: Trials requested at once while bisecting, while claiming, and while checking.
PILOT_WAVES, CLAIM_WAVE_SIZE = (4, 16), 10
#: Largest number of attempts at a claim, and number of first attempts that allow no failure, since an easier level is
#: cheaper than many more trials.
MAX_CLAIM_ATTEMPTS, N_STRICT_ATTEMPTS = 5, 2


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """Request of a search for trials."""

    level: int  # index of the level, 0 the easiest
    trials: tuple[int, ...]  # numbers of the trials; a number has the same random numbers at every level


@dataclass(frozen=True, slots=True)
class Threshold:
    """Result of a search.

    Attributes:
        level: index of the hardest level that could be claimed; None if none could.
        successes, trials: of the test that supports the claim; without a claim, of the last attempt.
        probability: claimed probability of success.
        confidence: confidence of the claim.
        top: whether the claim is about the hardest level, so that the true threshold may be beyond.
        counts: by level, (successes, trials) of all trials there.
        upper: with `confidence`, the probability of success at the easiest level is below this; 1 with a claim.
        monotone: whether no easier level did worse than the claim, see `exceptions`.
        exceptions: easier levels at which success is less probable than `probability`, with `confidence`.
        inversions: number of trials that failed at an easier level although the same random numbers succeeded at a
            harder one.
    """

    level: int | None
    successes: int
    trials: int
    probability: float
    confidence: float
    top: bool
    counts: dict[int, tuple[int, int]]
    upper: float
    exceptions: tuple[int, ...]
    inversions: int

    @property
    def monotone(self) -> bool:
        """Whether no easier level did worse than the claim."""
        return not self.exceptions


Search = Generator[TrialRequest, Sequence[bool], Threshold]


def search(
    levels: int, *, probability: float = 0.95, confidence: float = 0.95, pilot: int = 12, checks: int = 2
) -> Search:
    """Searches the hardest of `levels` at which a trial succeeds with at least `probability`.

    Args:
        levels: number of levels; 0 is the easiest.
        probability: probability to claim.
        confidence: confidence of the claim.
        pilot: number of trials in a row that a level must pass in the bisection.
        checks: number of easier levels to try afterwards.

    Yields:
        `TrialRequest`; the caller sends the outcomes in the order of its trials.

    Returns:
        The `Threshold`.

    Raises:
        ArgumentError: an argument out of range.
    """
    if levels < 1 or pilot < 1 or checks < 0:
        raise ArgumentError(f"levels, pilot, checks: expected at least 1, 1 and 0, got {levels}, {pilot} and {checks}")
    interim_tests(probability, 1.0 - confidence)  # validates the arguments before any trial
    return _search(_TrialLedger(), levels, probability, confidence, pilot, checks)


class _TrialLedger:
    """Outcomes of all trials by level and number."""

    def __init__(self) -> None:
        self.outcomes: dict[int, dict[int, bool]] = {}

    def request(self, level: int, trials: Sequence[int]) -> Generator[TrialRequest, Sequence[bool], list[bool]]:
        """Returns the outcomes of these trials; only those that have not been run are requested."""
        known = self.outcomes.setdefault(level, {})
        missing = tuple(k for k in trials if k not in known)
        if missing:
            known.update(zip(missing, (yield TrialRequest(level, missing)), strict=True))
        return [known[k] for k in trials]


def _search(
    ledger: _TrialLedger, levels: int, probability: float, confidence: float, pilot: int, checks: int
) -> Search:
    level, next_trial = (yield from _bisect(ledger, levels, pilot)), pilot
    if 0 < level < levels - 1:
        level -= 1
    successes = trials = 0
    claimed = None
    for attempt in range(1, MAX_CLAIM_ATTEMPTS + 1):
        max_failures = (0,) if attempt <= N_STRICT_ATTEMPTS else (0, 2)
        plan = interim_tests(probability, (1.0 - confidence) / 2.0**attempt, failures=max_failures)
        is_confirmed, successes, trials = yield from _test_level(ledger, level, next_trial, plan)
        next_trial += trials
        if is_confirmed:
            claimed = level
        if is_confirmed or level == 0:
            break
        level = max(level - 2 ** (attempt - 1), 0)
    upper, exceptions, inversions = 1.0, [], 0
    if claimed is None:
        outcomes = yield from ledger.request(0, range(pilot))
        upper = upper_bound(sum(outcomes), pilot, confidence)
    else:
        easier_levels = sorted({i * claimed // max(checks, 1) for i in range(checks)} - {claimed})
        for easier_level in easier_levels:
            outcomes = yield from ledger.request(easier_level, range(pilot))
            if upper_bound(sum(outcomes), pilot, 1.0 - (1.0 - confidence) / len(easier_levels)) < probability:
                exceptions.append(easier_level)
            harder = [
                outcomes_there
                for tested_level, outcomes_there in ledger.outcomes.items()
                if tested_level > easier_level
            ]
            inversions += sum(
                not succeeded and any(outcomes_there.get(k, False) for outcomes_there in harder)
                for k, succeeded in enumerate(outcomes)
            )
    counts = {tested_level: (sum(o.values()), len(o)) for tested_level, o in sorted(ledger.outcomes.items())}
    return Threshold(
        claimed, successes, trials, probability, confidence, claimed == levels - 1, counts, upper, tuple(exceptions),
        inversions,
    )  # fmt: skip


def _bisect(ledger: _TrialLedger, levels: int, pilot: int) -> Generator[TrialRequest, Sequence[bool], int]:
    """Returns the hardest level that passes, by bisection; 0 if none does."""
    if (yield from _passes(ledger, levels - 1, pilot)):
        return levels - 1
    passing, failing = 0, levels - 1
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if (yield from _passes(ledger, middle, pilot)):
            passing = middle
        else:
            failing = middle
    return passing


def _passes(ledger: _TrialLedger, level: int, pilot: int) -> Generator[TrialRequest, Sequence[bool], bool]:
    """Returns whether the first `pilot` trials of a level all succeed."""
    start = 0
    for end in (*(w for w in PILOT_WAVES if w < pilot), pilot):
        if not all((yield from ledger.request(level, range(start, end)))):
            return False
        start = end
    return True


def _test_level(
    ledger: _TrialLedger, level: int, first_trial: int, plan: tuple[InterimTest, ...]
) -> Generator[TrialRequest, Sequence[bool], tuple[bool, int, int]]:
    """Tests one level with trials from number `first_trial` on; returns whether the claim holds, and its counts."""
    outcomes: list[bool] = []
    for test in plan:
        while len(outcomes) < test.trials:
            start = first_trial + len(outcomes)
            wave_size = min(CLAIM_WAVE_SIZE, test.trials - len(outcomes))
            outcomes += yield from ledger.request(level, range(start, start + wave_size))
            if outcomes.count(False) > plan[-1].failures:
                return False, sum(outcomes), len(outcomes)
        if outcomes.count(False) <= test.failures:
            return True, sum(outcomes), len(outcomes)
    return False, sum(outcomes), len(outcomes)
