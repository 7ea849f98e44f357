"""`Grip`: normals and friction of the ground that whole-body control counts on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .felt_friction import SAFE
from .proportions import FEET

#: What a slope takes of the friction pyramid's faces, beside its own tangent, so that the robot can walk there.
RESERVE = 0.2
#: What a slope needs beside its tangent, as a share of it, of who slips there.
SPARE = 0.05
#: Share of the friction that is told from which on less is slippery.
SLIPPERY = 0.6
#: Share of Coulomb's coefficient that the middle of a face of the pyramid allows.
FACE = math.sqrt(0.5)
#: The normal is followed in steps of so much [rad], friction in such steps.
TURN, CHANGE = 0.02, 0.02
#: Below this coefficient steps are as much finer as it is smaller.
FINE = 0.4


class Grip:
    """Friction pyramids about the normal of the ground.

    On a slope the coefficient is at least what it takes to walk there, ``(tan(angle) + RESERVE) / cos(pi / 4)``: with
    any less the robot would slide whatever it did, and ground on which it stands has shown that it has more.

    Args:
        whole_body: the whole-body controller, whose contacts are set; its friction is what is told.
        sure: whether that is what the ground has, instead of an assumption.

    Attributes:
        normal: (3,) unit, out of the ground: of all feet together.
    """

    __slots__ = ("_normals", "_shown", "_sure", "_told", "_whole_body", "normal")

    def __init__(self, whole_body: WholeBodyController, *, sure: bool = False) -> None:
        self._whole_body = whole_body
        self._told, self._shown, self._sure = whole_body.friction, math.inf, sure
        self.normal: Array = np.array([0.0, 0.0, 1.0])
        self._normals = [(0.0, 0.0, 1.0)] * len(FEET)

    @property
    def told(self) -> float:
        """Coulomb's coefficient that is assumed on level ground; may be set, and is then what the ground has."""
        return self._told

    @told.setter
    def told(self, value: float) -> None:
        self._whole_body.friction = value
        self._told, self._sure = self._whole_body.friction, True
        self._count(self._slope)

    @property
    def _slope(self) -> float:
        return math.hypot(*self.normal[:2].tolist()) / float(self.normal[2])

    @property
    def known(self) -> float:
        """Coulomb's coefficient, where it was told as that of the ground; inf where it is only assumed."""
        return self._told if self._sure else math.inf

    @property
    def shown(self) -> float:
        """Coulomb's coefficient that slips have shown; inf where nothing has slipped."""
        return self._shown / SAFE

    def show(self, bound: float) -> None:
        """Slips have shown that friction is no more than `bound`; inf where nothing has slipped."""
        if bound != self._shown:
            self._shown = bound
            self._count(self._slope)

    @property
    def slippery(self) -> bool:
        """Whether slips have shown much less friction than what is told."""
        return self._shown < SLIPPERY * self._told

    @property
    def steep(self) -> bool:
        """Whether it stands on a slope that what is told would not hold: the ground has shown that it has more."""
        return self._slope > FACE * self._told

    @property
    def friction(self) -> float:
        """Coulomb's coefficient that is counted on now."""
        return self._whole_body.friction

    def follow(self, normals: Sequence[tuple[float, float, float]]) -> None:
        """The normals of the ground under the feet, in the order of `FEET`, are now these."""
        changed = False
        for i, (normal, before) in enumerate(zip(normals, self._normals, strict=True)):
            x, y, z = normal[0] - before[0], normal[1] - before[1], normal[2] - before[2]
            if x * x + y * y + z * z < TURN * TURN:
                continue
            self._normals[i] = normal
            self._whole_body.contacts[FEET[i]].normal = normal
            changed = True
        if changed:
            total = np.array(self._normals).sum(axis=0)
            self.normal = total / np.linalg.norm(total)
            self._count(self._slope)

    def _count(self, slope: float) -> None:
        wanted = max(self._told, (slope + min(slope, RESERVE)) / FACE)
        wanted = min(wanted, max(self._shown, (1.0 + SPARE) * slope / FACE))
        now = self._whole_body.friction
        if abs(wanted - now) > CHANGE * min(1.0, wanted / FINE) or (wanted == self._told != now):
            self._whole_body.friction = wanted
