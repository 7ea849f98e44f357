"""`LoopStatistics`: histograms of the times of a control loop, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_fields, renamed_parameters

#: Maximum number of different error texts that are counted separately.
MAX_READ_ERRORS = 5
#: Width of a bin [s], and number of bins up to 20 ms; one more bin has all longer times.
BIN_WIDTH, N_BINS = 1e-6, 20_000


class Histogram:
    """Histogram of times with bins of 1 us; quantiles are exact to a bin, the largest time exactly.

    Attributes:
        counts: (N_BINS + 1,) counts by bin; the last bin has all longer times.
        total: number of times.
        largest: largest time [s].
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(N_BINS + 1, dtype=np.int64)
        self.total, self.largest, self._sum = 0, 0.0, 0.0

    def add(self, seconds: float) -> None:
        """Adds a time [s]; negative times are counted in the first bin."""
        bin_ = int(seconds / BIN_WIDTH)
        self.counts[min(max(bin_, 0), N_BINS)] += 1
        self.total += 1
        self._sum += seconds
        if seconds > self.largest:
            self.largest = seconds

    @property
    def mean(self) -> float:
        """Mean [s]; 0 without any time."""
        return self._sum / max(self.total, 1)

    @renamed_parameters(share="fraction")
    def quantile(self, fraction: float) -> float:
        """Returns the quantile of the times at a fraction from 0 to 1, to the upper end of a bin [s]; 0 if empty."""
        if not self.total:
            return 0.0
        rank = min(max(int(np.ceil(fraction * self.total)), 1), self.total)
        bin_ = int(np.searchsorted(np.cumsum(self.counts), rank))
        return self.largest if bin_ >= N_BINS else min((bin_ + 1) * BIN_WIDTH, self.largest)


@dataclass(frozen=True, slots=True)
class LateTick:
    """Tick that ended after the next deadline.

    Attributes:
        number: number of the tick, from 0.
        latency: time from its deadline to its start [s].
        compute: time from its start to its written command [s].
        missed_deadlines: number of deadlines that passed meanwhile.
    """

    number: int
    latency: float
    compute: float
    missed_deadlines: int

    @property
    def started_late(self) -> bool:
        """Whether the tick is late because it started late, rather than because it took long."""
        return self.latency >= self.compute

    def __str__(self) -> str:
        cause = "started late" if self.started_late else "took long"
        return (
            f"tick {self.number} {cause}: started {1e3 * self.latency:.3g} ms after its deadline, "
            f"took {1e3 * self.compute:.3g} ms, missed deadlines: {self.missed_deadlines}"
        )


@renamed_fields(missed="missed_deadlines")
@dataclass(slots=True)
class LoopStatistics:
    """Times of the ticks of a loop.

    Attributes:
        period: times between the starts of ticks.
        latency: times from a deadline to the start of its tick.
        compute: times from the start of a tick to its written command.
        ticks: number of ticks.
        overruns: number of ticks that ended after the next deadline.
        missed_deadlines: number of deadlines that passed during them.
        late_starts: number of overruns of ticks that started late, because the process did not run before; the others
            took long.
        latest_tick: overrun that ended latest after its deadline; None without one.
        read_failures: number of readings that raised, were no `Measurement`, or had an invalid time stamp.
        read_errors: number of failed calls of ``read()`` by text, such as ``{"OSError: no route to host": 12}``; the
            first `MAX_READ_ERRORS` texts, and ``"other errors"``.
        write_failures: number of commands that could not be written.
    """

    period: Histogram
    latency: Histogram
    compute: Histogram
    ticks: int = 0
    overruns: int = 0
    missed_deadlines: int = 0
    late_starts: int = 0
    latest_tick: LateTick | None = None
    read_failures: int = 0
    write_failures: int = 0
    read_errors: dict[str, int] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> LoopStatistics:
        """Returns statistics of no tick."""
        return cls(Histogram(), Histogram(), Histogram())

    def add_late_tick(self, tick: LateTick) -> None:
        """Adds a tick that ended after the next deadline."""
        self.overruns += 1
        self.missed_deadlines += tick.missed_deadlines
        self.late_starts += tick.started_late
        latest = self.latest_tick
        if latest is None or tick.latency + tick.compute > latest.latency + latest.compute:
            self.latest_tick = tick

    def add_read_error(self, error: Exception) -> None:
        """Adds an exception that reading the sensors raised."""
        self.read_failures += 1
        text = f"{type(error).__name__}: {error}"
        if text not in self.read_errors and len(self.read_errors) >= MAX_READ_ERRORS:
            text = "other errors"
        self.read_errors[text] = self.read_errors.get(text, 0) + 1

    def __str__(self) -> str:
        """Returns a table in microseconds, and the causes of late ticks."""
        lines = [f"{self.ticks} ticks, {self.overruns} overruns, {self.missed_deadlines} deadlines missed"]
        if self.latest_tick is not None:
            lines.append(
                f"{self.late_starts} late ticks started late (see RealTimeOptions), "
                f"{self.overruns - self.late_starts} took long; the latest: {self.latest_tick}"
            )
        lines.append(f"{'[us]':<10}{'mean':>10}{'median':>10}{'p99':>10}{'p99.99':>10}{'largest':>10}")
        for name, times in (("period", self.period), ("latency", self.latency), ("compute", self.compute)):
            numbers = (times.mean, *(times.quantile(p) for p in (0.5, 0.99, 0.9999)), times.largest)
            lines.append(f"{name:<10}" + "".join(f"{1e6 * x:>10.0f}" for x in numbers))
        return "\n".join(lines)
