"""`TwoLinks`: a planar leg of 2 to 4 links reduced to two rigid links, by a named rule where it has more than two."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..urdf.tree import Array
from .leg_geometry import LegGeometry

Complex = NDArray[np.complex128]

#: Rules for joints beyond the knee if the direction of the last link is not given.
REDUNDANCY_MODES = ("hold", "parallel")


@dataclass(frozen=True, slots=True, eq=False)
class TwoLinks:
    """Two links that rotate, `A` with the thigh and `B` with the shank, and one with a given direction, `G` [m].

    The foot is at ``hip + A exp(i t_A) + B exp(i t_B) + G``, with the angles t relative to the zero configuration.

    Attributes:
        hip: in-plane position of the hip [m].
        A, B: rotating links as complex numbers [m].
        G: last link where its angle is given, () or (N,), else 0 [m].
        groups: for each link of the leg, which of the three it belongs to: 0, 1 or 2.
        offsets: for each link, its angle relative to that of its group; for the last link with a given angle, the whole
            angle, () or (N,) [rad].
        signs: for each joint, as in `LegGeometry`.
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
        """Returns the links for some of the N targets."""
        if self.G.ndim == 0:
            return self
        offsets = tuple(x[rows] if x.ndim else x for x in self.offsets)
        return replace(self, G=self.G[rows], offsets=offsets)

    def solve(self, foot: Complex, bend: int) -> Array:
        """Computes the joint values for in-plane positions of the foot.

        Beyond its reach the leg is stretched, or folded if the foot is too near.  Law of cosines, with the sine in
        factored form (Kahan 2014), which is accurate at full stretch.

        Args:
            foot: (...) in-plane positions as complex numbers [m].
            bend: -1 for a knee forward, +1 for a knee backward.

        Returns:
            (..., m) [rad], not yet wrapped to the joints' ranges.
        """
        hip_to_foot = foot - self.hip - self.G
        a, b, r = abs(self.A), abs(self.B), np.abs(hip_to_foot)
        sine_product = (a + b - r) * (a + b + r) * (r - abs(a - b)) * (r + abs(a - b))
        delta = bend * np.arctan2(np.sqrt(np.maximum(sine_product, 0.0)), (r - a) * (r + a) - b * b)
        thigh = np.angle(hip_to_foot) - np.angle(a + b * np.exp(1j * delta))
        turns = (thigh - np.angle(self.A), thigh + delta - np.angle(self.B), np.zeros_like(thigh))
        q = np.empty((*hip_to_foot.shape, len(self.groups)))
        previous: Array = np.zeros(())
        for k, (group, offset) in enumerate(zip(self.groups, self.offsets, strict=True)):
            turn = turns[group] + offset
            q[..., k] = self.signs[k] * (turn - previous)
            previous = turn
        return q

    @property
    def joint_rates(self) -> Array:
        """(m, 2) joint rates for unit rates of the two angles t_A and t_B."""
        turns = np.array([[group == 0, group == 1] for group in self.groups], dtype=np.float64)
        return np.asarray(self.signs[:, None] * np.diff(turns, axis=0, prepend=0.0))

    def bend_sign(self, q: Array) -> int:
        """Returns -1 for a knee forward, +1 for one backward, 0 for a straight one, at joint values (m,)."""
        turn = np.cumsum(self.signs * q)
        delta = np.angle(self.B) - np.angle(self.A) + turn[1] - turn[0]
        return int(np.sign(np.round(np.sin(delta), 12)))


def reduce_links(geometry: LegGeometry, angle: Array | None, redundancy: str) -> TwoLinks:
    """Reduces a planar leg to two links.

    Args:
        geometry: the leg.
        angle: () or (N,) direction of the last of three or four links [rad], from forward to up; None to leave it free.
        redundancy: rule for free joints beyond the knee: "hold" for their home values, so that the shank and all links
            below it are one rigid link, or "parallel" to keep each link parallel to the one before the last, as in a
            pantograph.
    """
    links, m = geometry.links, len(geometry.links)
    first = geometry.n_active - m
    groups, offsets = [0, 1], [np.zeros(()), np.zeros(())]
    n_free = m if angle is None or m == 2 else m - 1
    for k in range(2, n_free):
        if redundancy == "hold":
            groups.append(1)
            offsets.append(offsets[-1] + geometry.signs[k] * geometry.q_ref[first + k])
        else:
            groups.append(groups[k - 2])
            offsets.append(offsets[k - 2] + np.angle(links[k - 2]) - np.angle(links[k]))
    if n_free < m:
        assert angle is not None
        groups.append(2)
        offsets.append(np.asarray(angle - np.angle(links[-1])))
    total: list[Complex] = [np.zeros((), dtype=np.complex128) for _ in range(3)]
    for link, group, offset in zip(links, groups, offsets, strict=True):
        total[group] = total[group] + link * np.exp(1j * offset)
    return TwoLinks(
        geometry.hip, complex(total[0]), complex(total[1]), total[2], tuple(groups), tuple(offsets), geometry.signs
    )
