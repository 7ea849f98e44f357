"""`FrameTask`: position and orientation of a frame."""

from __future__ import annotations

import numpy as np

from ...compiler import compiled
from ...dynamics import State
from ...urdf.tree import Array
from ..codes import FRAME
from ..data import Instant, frame_of
from ..rows import Item
from .motion import motion_parameters, motion_rows, position_found, rotation_found
from .of_frame import POSE_UNITS, TURNS, XYZ, OfFrame, rotation_reference, turn_between


class FrameTask(OfFrame):
    r"""Position and orientation of a frame: rows x, y, z [m], rx, ry, rz [rad], world axes.

    .. math::

        \begin{bmatrix} J_p \\ J_\omega \end{bmatrix} a
        + \begin{bmatrix} \dot J_p \\ \dot J_\omega \end{bmatrix} v = a^\star,
        \qquad x^\star \ominus x = \begin{bmatrix} p^\star - p \\ \log (R^\star R^\top) \end{bmatrix}

    The reference position is (12,): the origin, then the rotation matrix row by row (`pose_reference` takes them
    apart).  Stiffness by default: (3 sqrt(g / l))^2.
    """

    code = FRAME
    rows_of, units_of, size = XYZ + TURNS, POSE_UNITS, 12

    def pose_reference(
        self,
        translation: Array,
        rotation: Array,
        velocity: Array | None = None,
        acceleration: Array | None = None,
    ) -> None:
        """Set origin (3,) [m], rotation (3, 3), velocity (6,) and acceleration (6,), world axes, linear first."""
        turned = rotation_reference(self.name, rotation)
        self.reference(np.concatenate((np.asarray(translation, dtype=np.float64), turned)), velocity, acceleration)

    def position(self, s: State) -> Array:
        """(12,) origin, then rotation row by row."""
        pose = s.placement(self.frame)
        return np.concatenate((pose.translation, pose.rotation.ravel()))

    def error(self, s: State) -> Array:
        """(6,) [m, rad]."""
        pose = s.placement(self.frame)
        turn = turn_between(self._position[3:].reshape(3, 3), pose.rotation)
        return np.concatenate((self._position[:3] - pose.translation, turn))

    def velocity(self, s: State) -> Array:
        """(6,) [m/s, rad/s]."""
        return s.velocity(self.frame)

    def jacobian(self, s: State) -> Array:
        """(6, nv)."""
        return s.jacobian(self.frame)

    def drift(self, s: State) -> Array:
        """(6,) [m/s^2, rad/s^2]."""
        return s.drift(self.frame)


@compiled()
def frame_capture(item: Item, t: Instant) -> None:
    """The present placement becomes the reference."""
    p, frame = motion_parameters(item.numbers, 6), frame_of(t.terms, t.model, item.first)
    p.given[0] = 1.0
    for i in range(3):
        p.position[i] = frame.origin[i]
        for j in range(3):
            p.position[3 + 3 * i + j] = frame.rotation[i, j]


@compiled(inline=False)
def frame_rows(item: Item, t: Instant) -> None:
    """``J a + drift = a*`` of the origin, then of the rotation."""
    p, frame, found = motion_parameters(item.numbers, 6), frame_of(t.terms, t.model, item.first), t.work.found
    position_found(p, frame.origin, frame.velocity, frame.drift, found)
    rotation_found(p.position[3:], p.given[0], frame.rotation, frame.velocity[3:], frame.drift[3:], found, 3)
    motion_rows(t, item, p, frame.jacobian, frame.chain, found)
