"""`LoopStatistics`: histograms of a loop's times, in memory that does not grow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_fields, renamed_parameters

#: Width of a bin [s], and how many there are: up to 20 ms one by one, beyond that in one more.
BIN, BINS = 1e-6, 20_000


class Histogram:
    """Counts of times by the microsecond; quantiles are right to a bin, the largest exactly.

    Attributes:
        counts: (BINS + 1,) by bin; the last for everything beyond.
        total: how many.
        largest: [s].
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(BINS + 1, dtype=np.int64)
        self.total, self.largest, self._sum = 0, 0.0, 0.0

    def add(self, seconds: float) -> None:
        """One time; what is negative counts as 0."""
        bin_ = int(seconds / BIN)
        self.counts[min(max(bin_, 0), BINS)] += 1
        self.total += 1
        self._sum += seconds
        if seconds > self.largest:
            self.largest = seconds

    @property
    def mean(self) -> float:
        """[s]; 0 of none."""
        return self._sum / max(self.total, 1)

    @renamed_parameters(share="fraction")
    def quantile(self, fraction: float) -> float:
        """Time that this fraction of all does not exceed [s], to a bin's upper end; 0 of none."""
        if not self.total:
            return 0.0
        wanted = min(max(int(np.ceil(fraction * self.total)), 1), self.total)
        bin_ = int(np.searchsorted(np.cumsum(self.counts), wanted))
        return self.largest if bin_ >= BINS else min((bin_ + 1) * BIN, self.largest)


@renamed_fields(missed="missed_deadlines")
@dataclass(slots=True)
class LoopStatistics:
    """What a loop's ticks took.

    Attributes:
        period: between the beginnings of ticks.
        latency: from a deadline to the beginning of its tick.
        compute: from the beginning of a tick to its written command.
        ticks: that were run.
        overruns: ticks that ended after the next deadline.
        missed: deadlines that passed during them.
        read_failures: readings that raised, or whose time stamps could not be.
        write_failures: commands that could not be written.
    """

    period: Histogram
    latency: Histogram
    compute: Histogram
    ticks: int = 0
    overruns: int = 0
    missed_deadlines: int = 0
    read_failures: int = 0
    write_failures: int = 0

    @classmethod
    def empty(cls) -> LoopStatistics:
        """Of no tick."""
        return cls(Histogram(), Histogram(), Histogram())

    def __str__(self) -> str:
        """A table, in microseconds."""
        lines = [f"{self.ticks} ticks, {self.overruns} overruns, {self.missed_deadlines} deadlines missed"]
        lines.append(f"{'[us]':<10}{'mean':>10}{'median':>10}{'p99':>10}{'p99.99':>10}{'largest':>10}")
        for name, times in (("period", self.period), ("latency", self.latency), ("compute", self.compute)):
            numbers = (times.mean, *(times.quantile(p) for p in (0.5, 0.99, 0.9999)), times.largest)
            lines.append(f"{name:<10}" + "".join(f"{1e6 * x:>10.0f}" for x in numbers))
        return "\n".join(lines)
