"""Search of the hardest level at which trials still succeed: bisection, then a claim with exact confidence.

A search is a generator that yields requests for trials and is sent their outcomes.  Many searches can therefore run
concurrently (`quaddyn.campaigns.datasheet`), and a test can compute outcomes by a formula.  It has three parts:

1. *Find*: bisection.  A level passes if `pilot` trials in a row succeed; the first failure ends it.  Trial number k
   uses the same random numbers at every level (common random numbers), which reduces the variance of comparisons.
2. *Claim*: the level below the one found is tested with new trials, which were not used to choose it, by the
   `interim_tests` of `quaddyn.campaigns.binomial_bounds`.  (A few trials in a row prove nothing, and a failed attempt
   costs more than one level.)  If the test fails, an easier level is tested, again with new trials.  Attempt number a
   may be wrong with probability ``risk / 2^a``, so that all together stay below ``risk = 1 - confidence`` for any
   success curve, monotone or not: given all earlier outcomes, each attempt is an exact test of one level.
3. *Check*: easier levels down to the easiest are tried, since the claim implies nothing about easier levels.  The
   result lists those that do worse.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from ..errors import ArgumentError
from .binomial_bounds import InterimTest, interim_tests, upper_bound

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
