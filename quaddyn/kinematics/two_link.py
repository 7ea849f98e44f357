"""`TwoLinks`: a planar leg of 2 to 4 links as two rigid ones, by a named choice where there are more than two."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .leg_geometry import LegGeometry

Complex = NDArray[np.complex128]

#: What joints beyond the knee do when nobody says where the last link points.
REDUNDANCY_MODES = ("hold", "parallel")


@dataclass(frozen=True, slots=True, eq=False)
class TwoLinks:
    """Two links that turn, `A` with the thigh and `B` with the shank, and one that does not, `G` [m].

    The foot is at ``hip + A exp(i t_A) + B exp(i t_B) + G``, with the turns t counted from the zero configuration.

    Attributes:
        hip: in-plane position of the hip [m].
        A, B: links as complex numbers.
        G: the last link where its angle is given, () or (N,), else 0.
        groups: per link, which of the three it belongs to.
        offsets: per link, its turn less that of its group; for the given link its whole turn, () or (N,).
        signs: per joint, as in `LegGeometry`.
    """

    hip: complex
    A: complex
    B: complex
    G: Complex
    groups: tuple[int, ...]
    offsets: tuple[Array, ...]
    signs: Array

    @property
    def longest(self) -> float:
        """Length of the stretched leg [m]."""
        return abs(self.A) + abs(self.B)

    @property
    def shortest(self) -> float:
        """Length of the folded leg [m]."""
        return abs(abs(self.A) - abs(self.B))

    def select(self, rows: NDArray[np.bool_] | slice) -> TwoLinks:
        """The same for a part of N targets."""
        if self.G.ndim == 0:
            return self
        offsets = tuple(x[rows] if x.ndim else x for x in self.offsets)
        return replace(self, G=self.G[rows], offsets=offsets)

    def solve(self, foot: Complex, bend: int) -> Array:
        """The joints' values for a foot at in-plane position `foot`; too near or too far, the leg folds or stretches.

        The law of cosines, with the sine from its factored form (Kahan, 2014), so that nothing is lost at full stretch.

        Args:
            foot: (...) [m].
            bend: -1 for a knee forward, +1 for a knee backward.

        Returns:
            (..., m) [rad], not yet brought into the joints' ranges.
        """
        line = foot - self.hip - self.G
        a, b, r = abs(self.A), abs(self.B), np.abs(line)
        fourth = (a + b - r) * (a + b + r) * (r - abs(a - b)) * (r + abs(a - b))
        delta = bend * np.arctan2(np.sqrt(np.maximum(fourth, 0.0)), (r - a) * (r + a) - b * b)
        thigh = np.angle(line) - np.angle(a + b * np.exp(1j * delta))
        turns = (thigh - np.angle(self.A), thigh + delta - np.angle(self.B), np.zeros_like(thigh))
        q = np.empty((*line.shape, len(self.groups)))
        above: Array = np.zeros(())
        for k, (group, offset) in enumerate(zip(self.groups, self.offsets, strict=True)):
            turn = turns[group] + offset
            q[..., k] = self.signs[k] * (turn - above)
            above = turn
        return q

    @property
    def joint_rates(self) -> Array:
        """(m, 2) rates of the joints for unit rates of the two turns t_A and t_B, every choice kept."""
        turns = np.array([[group == 0, group == 1] for group in self.groups], dtype=np.float64)
        return np.asarray(self.signs[:, None] * np.diff(turns, axis=0, prepend=0.0))

    def bend_sign(self, q: Array) -> int:
        """-1 for a knee forward, +1 backward, 0 straight, of a leg with these joint values (m,)."""
        turn = np.cumsum(self.signs * q)
        delta = np.angle(self.B) - np.angle(self.A) + turn[1] - turn[0]
        return int(np.sign(np.round(np.sin(delta), 12)))


def reduce_links(geometry: LegGeometry, angle: Array | None, redundancy: str) -> TwoLinks:
    """Make two links of a planar leg.

    Args:
        geometry: the leg.
        angle: () or (N,) where the last link of three or four points [rad], from forward to up; None to leave it free.
        redundancy: what the free joints beyond the knee do: "hold" their home values, so that shank and all below
            are one rigid link, or stay "parallel" to the link before the last one, as in a pantograph.
    """
    links, m = geometry.links, len(geometry.links)
    first = geometry.n_active - m
    groups, offsets = [0, 1], [np.zeros(()), np.zeros(())]
    free = m if angle is None or m == 2 else m - 1
    for k in range(2, free):
        if redundancy == "hold":
            groups.append(1)
            offsets.append(offsets[-1] + geometry.signs[k] * geometry.q_ref[first + k])
        else:
            groups.append(groups[k - 2])
            offsets.append(offsets[k - 2] + np.angle(links[k - 2]) - np.angle(links[k]))
    if free < m:
        assert angle is not None
        groups.append(2)
        offsets.append(np.asarray(angle - np.angle(links[-1])))
    total: list[Complex] = [np.zeros((), dtype=np.complex128) for _ in range(3)]
    for link, group, offset in zip(links, groups, offsets, strict=True):
        total[group] = total[group] + link * np.exp(1j * offset)
    return TwoLinks(
        geometry.hip, complex(total[0]), complex(total[1]), total[2], tuple(groups), tuple(offsets), geometry.signs
    )
