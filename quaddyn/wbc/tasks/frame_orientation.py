"""`FrameOrientationTask`: how a frame is turned."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ...compiler import compiled
from ...dynamics import State
from ...urdf.tree import Array
from ..codes import FRAME_ORIENTATION
from ..data import Instant, frame_of
from ..rows import Item
from .motion import motion_parameters, motion_rows, rotation_found
from .of_frame import TURNS, OfFrame, rotation_reference, turn_between


class FrameOrientationTask(OfFrame):
    r"""The orientation of a frame: rows rx, ry, rz about world axes [rad].

    .. math::

        J_\omega\, a + \dot J_\omega v = a^\star, \qquad x^\star \ominus x = \log (R^\star R^\top)

    The reference position is the (3, 3) rotation matrix R* of the frame in the world; the error is the rotation vector
    of ``R* R^T``.  Stiffness by default: (3 sqrt(g / l))^2.
    """

    code = FRAME_ORIENTATION
    rows_of, units_of, size = TURNS, ("rad/s^2",) * 3, 9

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Set the rotation (3, 3), angular velocity (3,) [rad/s] and acceleration (3,) [rad/s^2], world axes."""
        super().reference(None if position is None else rotation_reference(self.name, position), velocity, acceleration)

    def position(self, s: State) -> Array:
        """(9,) rotation matrix, row by row."""
        return s.placement(self.frame).rotation.ravel()

    def error(self, s: State) -> Array:
        """(3,) rotation vector, world axes [rad]."""
        return turn_between(self._position.reshape(3, 3), s.placement(self.frame).rotation)

    def velocity(self, s: State) -> Array:
        """(3,) [rad/s]."""
        return s.velocity(self.frame)[3:]

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.jacobian(self.frame)[3:]

    def drift(self, s: State) -> Array:
        """(3,) [rad/s^2]."""
        return s.drift(self.frame)[3:]


@compiled()
def frame_orientation_capture(item: Item, t: Instant) -> None:
    """The present orientation becomes the reference."""
    p, frame = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first)
    p.given[0] = 1.0
    for i in range(3):
        for j in range(3):
            p.position[3 * i + j] = frame.rotation[i, j]


@compiled(inline=False)
def frame_orientation_rows(item: Item, t: Instant) -> None:
    """``J_angular a + drift = a*``."""
    p, frame, found = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first), t.work.found
    rotation_found(p.position, p.given[0], frame.rotation, frame.velocity[3:], frame.drift[3:], found, 0)
    motion_rows(t, item, p, frame.jacobian[3:], frame.chain, found)
