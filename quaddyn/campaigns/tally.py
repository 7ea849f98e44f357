"""Results counted: successes, and failures by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from .campaign import Campaign, Record
from .store import Failure


@dataclass(frozen=True)
class Tally:
    """Results counted.

    Attributes:
        successes: records that are none of the following.
        failures: number of records by reason, as `Campaign.failure` gives it; most frequent first.
        errors: number of cases that raised, by exception.
        poison: number of cases whose workers died.
    """

    successes: int
    failures: dict[str, int]
    errors: dict[str, int]
    poison: int

    @property
    def total(self) -> int:
        """Of all cases."""
        return self.successes + sum(self.failures.values()) + sum(self.errors.values()) + self.poison

    @classmethod
    def of(cls, campaign: Campaign[Any], results: Iterable[Record | Failure]) -> Self:
        """Count results of a campaign."""
        successes = poison = 0
        failures: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for result in results:
            if isinstance(result, Failure):
                if result.poison:
                    poison += 1
                else:
                    errors[result.error.splitlines()[0] if result.error else "error"] += 1
            elif (reason := campaign.failure(result)) is None:
                successes += 1
            else:
                failures[reason] += 1
        return cls(successes, dict(failures.most_common()), dict(errors.most_common()), poison)
