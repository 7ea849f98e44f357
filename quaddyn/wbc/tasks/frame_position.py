"""`FramePositionTask`: the origin of a frame."""

from __future__ import annotations

import numpy as np

from ...compiler import compiled
from ...dynamics import State
from ...urdf.tree import Array
from ..codes import FRAME_POSITION
from ..data import Instant, frame_of
from ..rows import Item
from .motion import motion_parameters, motion_rows, position_found
from .of_frame import XYZ, OfFrame


class FramePositionTask(OfFrame):
    r"""The origin of a frame, world axes [m]: rows x, y, z.

    .. math::

        J_p\, a + \dot J_p v = a^\star, \qquad x^\star \ominus x = p^\star - p

    Stiffness by default: (4 sqrt(g / l))^2.
    """

    code = FRAME_POSITION
    rows_of, units_of, size, quickness = XYZ, ("m/s^2",) * 3, 3, 4.0

    def position(self, s: State) -> Array:
        """(3,) origin of the frame [m]."""
        return s.placement(self.frame).translation

    def error(self, s: State) -> Array:
        """(3,) [m]."""
        return np.asarray(self._position - self.position(s))

    def velocity(self, s: State) -> Array:
        """(3,) [m/s]."""
        return s.velocity(self.frame)[:3]

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.jacobian(self.frame)[:3]

    def drift(self, s: State) -> Array:
        """(3,) [m/s^2]."""
        return s.drift(self.frame)[:3]


@compiled()
def frame_position_capture(item: Item, t: Instant) -> None:
    """The present origin becomes the reference."""
    p, frame = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first)
    p.given[0] = 1.0
    for i in range(3):
        p.position[i] = frame.origin[i]


@compiled(inline=False)
def frame_position_rows(item: Item, t: Instant) -> None:
    """``J a + drift = a*`` of the origin."""
    p, frame, found = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first), t.work.found
    position_found(p, frame.origin, frame.velocity, frame.drift, found)
    motion_rows(t, item, p, frame.jacobian, frame.chain, found)
