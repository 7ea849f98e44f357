"""`Gait`: which foot is on the ground when; `Clock`: a gait in time, with smooth starts, stops and changes."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import number, several
from ..urdf.tree import Array
from .thrust import LOADING, Thrust, thrust

#: The shortest stance, as a share of the period: forces grow as its inverse.
LEAST_DUTY = 0.3


@dataclass(frozen=True, slots=True)
class Gait:
    """A periodic footfall pattern (Hildebrand 1965, "Symmetrical gaits of horses").

    Attributes:
        name: of one of `GAITS`, or the caller's own.
        period: of one cycle, in units of ``sqrt(l / g)``; see `Proportions.time`.
        duty: share of the period that each foot is on the ground, in [0.3, 1].
        offsets: phase of each foot's touchdown in [0, 1), in the order FL, FR, RL, RR.
        spread: length and width of the footprint, as shares of those at home.  Gaits that stand on one side or one end
            have the other feet's weight fall that way, ``(c - z) g / h`` at a time, and friction limits how wide.
        stride: longest way of a foot on the ground during one stance [l]; commanded velocities beyond it are cut.
    """

    name: str
    period: float
    duty: float
    offsets: tuple[float, float, float, float]
    spread: tuple[float, float] = (1.0, 1.0)
    stride: float = 0.6

    def __post_init__(self) -> None:
        if not (np.isfinite(number("period", self.period)) and self.period > 0.0):
            raise ArgumentError(f"period: expected a positive number of sqrt(l/g), got {self.period}")
        if not LEAST_DUTY <= number("duty", self.duty) <= 1.0:
            raise ArgumentError(f"duty: expected a share of the period in [{LEAST_DUTY}, 1], got {self.duty}")
        for field in ("offsets", "spread"):  # tuples whatever came, so that gaits compare by their numbers
            values = several(field, getattr(self, field), "numbers")
            object.__setattr__(self, field, tuple(number(field, value) for value in values))
        if len(self.offsets) != 4 or not all(0.0 <= o < 1.0 for o in self.offsets):
            raise ArgumentError(f"offsets: expected four phases in [0, 1), FL FR RL RR, got {self.offsets}")
        if len(self.spread) != 2 or not all(0.0 < s <= 2.0 for s in self.spread):
            raise ArgumentError(f"spread: expected two shares in (0, 2], along and across, got {self.spread}")
        if not 0.0 < number("stride", self.stride) <= 1.0:
            raise ArgumentError(f"stride: expected a share of the leg's length in (0, 1], got {self.stride}")

    @property
    def moves(self) -> bool:
        """Whether any foot ever leaves the ground."""
        return self.duty < 1.0

    @property
    def thrust(self) -> Thrust:
        """Vertical force and motion over a cycle."""
        return thrust(self.offsets, self.duty)

    @property
    def rocks(self) -> bool:
        """Whether it stands at times on front feet alone, or on rear feet alone."""
        return rocks(self.offsets, self.duty)


#: Time between two instants at which feet come and go below which they are one, as a fraction of a period: rounding.
EVENT_TOLERANCE = 1e-9


@functools.lru_cache(maxsize=64)
def rocks(offsets: tuple[float, ...], duty: float) -> bool:
    """See `Gait.rocks`; between the instants at which feet come and go nothing changes."""
    events = sorted([phase % 1.0 for offset in offsets for phase in (offset, offset + duty)])
    for before, after in itertools.pairwise([*events, events[0] + 1.0]):
        fl, fr, rl, rr = ((0.5 * (before + after) - offset) % 1.0 < duty for offset in offsets)
        if after - before > EVENT_TOLERANCE and (fl or fr) != (rl or rr):
            return True
    return False


#: Known gaits.  Periods keep the time in the air at about ``sqrt(l / g)``, what a leg of length l takes to swing.  The
#: walk is one of diagonal couplets: three feet and diagonal pairs take turns, and never a pair of one side.  The gallop
#: is the transverse one of horses: left rear, right rear, left front, right front, then all feet gathered in the air
#: (Hildebrand 1977, "Analysis of asymmetrical gaits"; Bertram, Gutmann 2009, "Motions of the running horse and cheetah
#: revisited: fundamental mechanics of the transverse and rotary gallop"), of short strides: at longer ones robots whose
#: feet are far apart, ahead, for their height fall, ANYmal B from a speed of 0.28 sqrt(g l) on.
GAITS = MappingProxyType(
    {
        gait.name: gait
        for gait in (
            Gait("stand", 2.2, 1.0, (0.0, 0.0, 0.0, 0.0)),
            Gait("crawl", 6.0, 0.82, (0.25, 0.75, 0.0, 0.5), (1.0, 1.0), 0.32),
            Gait("walk", 3.4, 0.72, (0.35, 0.85, 0.0, 0.5), (1.0, 1.0), 0.5),
            Gait("trot", 2.2, 0.56, (0.0, 0.5, 0.5, 0.0)),
            Gait("pace", 1.8, 0.56, (0.0, 0.5, 0.0, 0.5), (1.0, 0.4), 0.45),
            Gait("bound", 1.8, 0.56, (0.0, 0.0, 0.5, 0.5), (0.35, 1.0), 0.4),
            Gait("running_trot", 1.9, 0.38, (0.0, 0.5, 0.5, 0.0)),
            Gait("pronk", 2.0, 0.5, (0.0, 0.0, 0.0, 0.0)),
            Gait("gallop", 1.8, 0.42, (0.085, 0.235, 0.765, 0.915), (0.6, 1.0), 0.27),
        )
    }
)


def gait_named(gait: str | Gait) -> Gait:
    """A gait by name, or the one that was given.

    Raises:
        UnknownNameError: no gait of this name.
    """
    if isinstance(gait, Gait):
        return gait
    if not isinstance(gait, str) or gait not in GAITS:
        raise UnknownNameError("gait", gait, GAITS)
    return GAITS[gait]


#: How fast a gait turns into another, per cycle: phase of a foot against the cycle, and times on the ground and in the
#: air, relative to those wanted.
OFFSET_RATE, TIME_RATE = 0.25, 0.5
#: How much shorter than those of a trot stances may be while feet change their order, in cycles.
SHORTER = 0.01
#: What counts as having arrived at another gait: rounding of a phase, and a share of the footprint.
EXACT, CLOSE = 1e-9, 1e-5


class Clock:
    """The phase of every foot over time.

    The cycle's phase phi grows by 1 per period and is never wrapped.  A foot with offset o stands for the n-th time
    from ``phi = o + n`` to ``o + n + duty``, then swings for the n-th time to ``o + n + 1``.

    *Start*: everyone stands until phi reaches 0, and swings only in swings that begin after.  The cycle starts at a
    negative phase, so that the centre of mass has time to get under way.  *Stop*: whoever is in the air lands as
    planned, and stays.  *Change*: offsets and times move to those of the new gait at limited rates, each
    offset by the shorter way round, while the cycle goes on.  Gaits with a footprint of their own start as a trot and
    change.  Gaits with flight phases start as a trot, too, and stop as one.

    Args:
        gait: what to start with.
        unit: ``sqrt(l / g)`` [s].
        lead: time from the start until the first foot may lift, in cycles.

    Attributes:
        gait: the one that is wanted.
        phase: phi.
        running: whether any foot may still swing.
        haste: how many times faster than the gait's own the cycle is at present, see `Pace`.
        duty: at present.
        offsets: (4,) at present, not wrapped.
        spread: (2,) of the footprint at present.
        first: (4,) number of the first swing of each foot.
        last: (4,) number of the last one, inf while there is no end to it.
    """

    def __init__(self, gait: str | Gait, unit: float, *, lead: float = 0.5) -> None:
        self.gait = gait_named(gait)
        self.unit, self.lead, self.haste = unit, lead, 1.0
        self.running = self._stopping = False
        self._begin()
        self.stop()

    # -- commands ------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        # Whose footprint is narrower than the one that he stands on gets there at a trot, and so does who flies.
        gait = self.gait if self.gait.spread == (1.0, 1.0) and self.gait.thrust.steady else GAITS["trot"]
        self.phase, self.duty, self._period = -self.lead, gait.duty, gait.period * self.unit
        self.offsets = np.array(gait.offsets)
        self.spread = np.array(gait.spread)
        # The numbers of the first and of the last swing of each foot.
        self.first = np.ceil(-self.offsets - self.duty)
        self.last = np.full(4, np.inf)

    def start(self, *, lead: float | None = None) -> None:
        """Begin to step; while it runs, take back a stop.

        Args:
            lead: cycles until the first foot may lift; by default the clock's own.
        """
        if self.running:
            if self._stopping:
                self.last, self._stopping = np.full(4, np.inf), False
        elif self.gait.moves:
            self._begin()
            self.phase = -self.lead if lead is None else -lead
            self.running, self._stopping = True, False

    def stop(self) -> None:
        """Land the feet that are in the air, and lift no other; from a gait with flight phases, once it is a trot."""
        self._stopping = True
        self._end()

    def _end(self) -> None:
        """Set the last swings, unless all feet leave the ground at once."""
        if self.thrust.steady:
            stance = np.floor(self.phase - self.offsets)
            self.last = np.minimum(self.last, np.where(self.stance, stance - 1.0, stance))

    def change(self, gait: str | Gait) -> None:
        """Change to another gait over the next cycles; while standing, from the next start on.

        Raises:
            UnknownNameError: no gait of this name.
        """
        self.gait = gait_named(gait)
        if not self.gait.moves:
            self.stop()

    def advance(self, dt: float) -> None:
        """Let `dt` pass [s]."""
        if not self.running:
            return
        share = dt / self.period
        self.phase += share
        landing = self._stopping and (self.last[0] == np.inf or not self.gait.thrust.steady)
        gait = GAITS["trot"] if landing else self.gait
        ready = self.phase >= 0.0 or gait.thrust.steady  # who has lifted no foot yet cannot leave the ground
        if gait.moves and ready:
            self._blend(gait, share)
        if self._stopping and self.last[0] == np.inf:
            self._end()
        if self._stopping and bool((self.phase - self.offsets >= self.last + 1.0).all()):
            self.running = False

    def _blend(self, gait: Gait, share: float) -> None:
        """Move towards a gait by a share of a cycle.

        Slower than the cycle itself, so that no foot's phase ever runs backwards.  Stances are shortened for flight
        phases last, and lengthened after them first: feet change their order on the ground.
        """
        trot, spread = GAITS["trot"], self.spread.tolist()
        turn = [goal - now for goal, now in zip(gait.offsets, self.offsets.tolist(), strict=True)]
        # Half-way round all go back: then they pass each other apart, and two of a trot's feet stay on the ground.
        turn = [t - math.floor(t + 0.5 + EXACT) for t in turn]
        wide = all([abs(now - to) <= EXACT + CLOSE * to for now, to in zip(spread, gait.spread, strict=True)])
        there = wide and all([abs(t) <= EXACT for t in turn])
        if not there and self.duty > trot.duty - SHORTER:
            most = OFFSET_RATE * share
            self.offsets = self.offsets + [min(max(t, -most), most) for t in turn]
            most = TIME_RATE * share
            steps = [min(max(goal - now, -most), most) for goal, now in zip(gait.spread, spread, strict=True)]
            self.spread = self.spread + steps
        times = gait if there or gait.duty > trot.duty - SHORTER else trot
        period = times.period * self.unit
        down, up = (
            now + min(max(wanted - now, -TIME_RATE * share * now), TIME_RATE * share * wanted)
            for now, wanted in (
                (self.duty * self._period, times.duty * period),
                ((1.0 - self.duty) * self._period, (1.0 - times.duty) * period),
            )
        )
        self._period, self.duty = down + up, down / (down + up)

    # -- now -----------------------------------------------------------------------------------------------------
    def standing(self) -> list[tuple[bool, bool]]:
        """Of each foot: whether it is on the ground, and whether it is to carry.

        A foot that is about to lift gives its load back first, over `LOADING` cycles.
        """
        out = []
        for offset, first, last in zip(self.offsets.tolist(), self.first.tolist(), self.last.tolist(), strict=True):
            x = self.phase - offset
            n = min(max(math.floor(x), first), last + 1.0)
            end = n + self.duty if n <= last else math.inf
            stands = (n <= first or n <= x) and x < end
            out.append((stands, stands and x < end - LOADING))
        return out

    @property
    def period(self) -> float:
        """Of one cycle at present [s]."""
        return self._period / self.haste

    @property
    def changing(self) -> bool:
        """Whether it still turns into the gait wanted."""
        gait, turn = self.gait, self.offsets - self.gait.offsets
        return (
            abs(self.duty - gait.duty) > CLOSE
            or abs(self._period - gait.period * self.unit) > CLOSE * self._period
            or bool((np.abs(self.spread - gait.spread) > 2.0 * CLOSE).any())
            or bool((np.abs(turn - np.round(turn)) > CLOSE).any())
        )

    @property
    def thrust(self) -> Thrust:
        """Vertical force and motion over a cycle, at present."""
        return thrust(tuple(self.offsets.tolist()), self.duty)

    @property
    def stance(self) -> NDArray[np.bool_]:
        """(4,) who is on the ground."""
        return np.array([stands for stands, _ in self.standing()])

    @property
    def landing(self) -> Array:
        """(4,) time until the middle of each foot's next stance that is not the present one [s]."""
        out = []
        for offset, first, last in zip(self.offsets.tolist(), self.first.tolist(), self.last.tolist(), strict=True):
            x = self.phase - offset
            n = min(max(math.floor(x), first), last + 1.0)
            out.append((n + 1.0 + 0.5 * self.duty - x) * self.period)
        return np.array(out)

    @property
    def leaving(self) -> list[float]:
        """Time until each foot that stands lifts [s]; 0 in the air, and of who stays."""
        out = []
        for offset, first, last in zip(self.offsets.tolist(), self.first.tolist(), self.last.tolist(), strict=True):
            x = self.phase - offset
            n = min(max(math.floor(x), first), last + 1.0)
            out.append(max(0.0, n + self.duty - x) * self.period if n <= last else 0.0)
        return out

    @property
    def swing(self) -> Array:
        """(4,) how far each swing has come, from 0 to 1; 0 on the ground."""
        x = self.phase - self.offsets
        n = np.minimum(np.maximum(np.floor(x), self.first), self.last + 1.0)
        return np.asarray(np.where(self.stance, 0.0, (x - n - self.duty) / max(1.0 - self.duty, 1e-9)))

    @property
    def swing_time(self) -> float:
        """How long a foot is in the air [s]."""
        return (1.0 - self.duty) * self.period

    @property
    def stance_time(self) -> float:
        """How long a foot is on the ground [s]."""
        return self.duty * self.period
