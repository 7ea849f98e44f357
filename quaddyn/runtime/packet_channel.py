"""`PacketChannel`: simulated network link with latency, jitter, loss and duplication, drawn from a seed."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ..deprecation import renamed_fields
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.units import MAX_PLAUSIBLE_DELAY, warn_of_time

T = TypeVar("T")


@renamed_fields(repeat="duplication")
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """Quality of a simulated link.

    Attributes:
        latency: delay of every packet [s].
        jitter: largest additional delay, uniformly distributed [s].
        loss: fraction of packets that are lost.
        duplication: fraction of packets that arrive twice, with independent delays.
    """

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = check_number(name, getattr(self, name))
            is_time = name in ("latency", "jitter")
            if not (0.0 <= value < (np.inf if is_time else 1.0)):
                raise ArgumentError(
                    f"{name}: expected {'a time [s]' if is_time else 'a fraction below 1'}, 0 or more, got {value}"
                )
            if is_time:
                warn_of_time(name, value, MAX_PLAUSIBLE_DELAY)


class PacketChannel(Generic[T]):
    """Queue of packets in transit; the caller provides the time.

    Args:
        quality: quality of the link.
        seed: seed of all random numbers.

    Attributes:
        sent, lost, repeated: numbers of packets so far.
    """

    def __init__(self, quality: LinkQuality, seed: int) -> None:
        self.quality, self._rng = quality, np.random.default_rng(seed)
        self._in_transit: list[tuple[float, int, T]] = []
        self.sent = self.lost = self.repeated = self._count = 0

    def send(self, now: float, packet: T) -> None:
        """Sends a packet at time `now` [s]."""
        quality = self.quality
        jitter_draw, duplicate_jitter_draw, loss_draw, duplication_draw = self._rng.random(4).tolist()
        self.sent += 1
        if loss_draw < quality.loss:
            self.lost += 1
            return
        self._push(now + quality.latency + jitter_draw * quality.jitter, packet)
        if duplication_draw < quality.duplication:
            self.repeated += 1
            self._push(now + quality.latency + duplicate_jitter_draw * quality.jitter, packet)

    def receive(self, now: float) -> list[T]:
        """Returns the packets that have arrived by `now` [s] in order of arrival, which jitter may change."""
        out = []
        while self._in_transit and self._in_transit[0][0] <= now + 1e-9:
            out.append(heapq.heappop(self._in_transit)[2])
        return out

    def _push(self, due: float, packet: T) -> None:
        """Adds a packet that arrives at the time `due` [s]."""
        self._count += 1
        heapq.heappush(self._in_transit, (due, self._count, packet))
