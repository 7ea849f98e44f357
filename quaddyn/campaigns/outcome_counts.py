"""`OutcomeCounts`: numbers of successes, and of failures by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from ..deprecation import renamed_attributes, renamed_fields
from .campaign import Campaign, Failure
from .store import StoredCase

#: Number of examples stored for each reason.
MAX_EXAMPLES = 5


@renamed_attributes(of="from_rows")
@renamed_fields(poison="killed_workers")
@dataclass(frozen=True)
class OutcomeCounts:
    """Numbers of outcomes of a campaign.

    Attributes:
        successes: number of successes.
        failures: number of failed records by reason, as `Campaign.failure_reason` gives it; most frequent first.
        errors: number of cases that raised, by the first line of the exception, its numbers replaced by dots.
        killed_workers: number of cases whose workers died.
        examples: the first case numbers of each failure and error; those of `killed_workers` under "poison".
    """

    successes: int
    failures: dict[str, int]
    errors: dict[str, int]
    killed_workers: int
    examples: dict[str, tuple[int, ...]]

    @property
    def total(self) -> int:
        """Number of all cases."""
        return self.successes + sum(self.failures.values()) + sum(self.errors.values()) + self.killed_workers

    @classmethod
    def from_rows(cls, campaign: Campaign[Any], rows: Iterable[StoredCase]) -> Self:
        """Counts the outcomes of the stored cases of a campaign."""
        successes = killed_workers = 0
        failures: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        examples: dict[str, tuple[int, ...]] = {}
        for row in rows:
            if isinstance(row.result, Failure):
                reason = "poison" if row.result.killed_workers else _without_numbers(row.result.error)
                if row.result.killed_workers:
                    killed_workers += 1
                else:
                    errors[reason] += 1
            else:
                failure_reason = campaign.failure_reason(row.result)
                if failure_reason is None:
                    successes += 1
                    continue
                failures[reason := failure_reason] += 1
            numbers = examples.get(reason, ())
            if len(numbers) < MAX_EXAMPLES:
                examples[reason] = (*numbers, row.number)
        return cls(successes, dict(failures.most_common()), dict(errors.most_common()), killed_workers, examples)


def _without_numbers(error: str) -> str:
    """Returns the first line of an error with its numbers replaced by "…", so that similar errors count together."""
    return re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "…", error.partition("\n")[0])
