"""`FrameAxisTask`: where an axis of a frame points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import Vector, compiled
from ...dynamics import State
from ...errors import ArgumentError
from ...robot.arguments import floats
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..codes import FRAME_AXIS
from ..contact_points import add_cross
from ..data import Instant, frame_of
from ..element import Layout, ReferenceResolver, RowCounts
from ..rows import Item, want_motion
from .gains import Gain
from .motion import desired, motion_parameters
from .of_frame import TURNS, OfFrame

AXES = ("x", "y", "z")

#: Length of a reference above which it is a direction: squares of less are no longer normal numbers.
SHORTEST = 1e-150


class FrameAxisTask(OfFrame, fixed=("axis",)):
    r"""An axis of a frame points in a given direction; turning about the axis itself is left free.

    Rows rx, ry, rz about world axes [rad], of which two are independent.

    .. math::

        P J_\omega\, a + P \dot J_\omega v - (\omega \times n)(n \cdot \omega) = a^\star,
        \qquad x^\star \ominus x = n \times d, \qquad P = I - n n^\top

    With n the axis in the world, d the wanted
    direction, w the angular velocity of the frame and ``P = I - n n^T``:

    - the reference position is d, (3,), of any length but zero;
    - the error is ``n x d``: perpendicular to n, as long as the sine of the angle between n and d.  It is zero, and an
      equilibrium that is not stable, where n points the opposite way;
    - the velocity is ``P w``, the Jacobian P times the frame's angular Jacobian, and the drift
      ``P drift - (w x n) (n . w)``;
    - of the wanted acceleration only the part perpendicular to n counts.

    Stiffness by default: (3 sqrt(g / l))^2.

    Args:
        robot: the robot.
        frame: whose axis it is.
        name: by which the controller knows the task; the frame's by default.
        axis: "x", "y" or "z".
        stiffness, damping, weight, axes: see `Task`.
    """

    code = FRAME_AXIS
    rows_of, units_of, size = TURNS, ("rad/s^2",) * 3, 3

    def __init__(
        self,
        robot: Robot,
        frame: str,
        name: str | None = None,
        *,
        axis: str = "x",
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        if axis not in AXES:
            raise ArgumentError(f"axis: expected one of {', '.join(AXES)}, got {axis!r}")
        self.axis = axis
        super().__init__(robot, frame, name, stiffness=stiffness, damping=damping, weight=weight, axes=axes)

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Set the direction and how it moves, world axes.

        Args:
            position: (3,) the direction; the one before if None.
            velocity: (3,) angular velocity at which the direction turns [rad/s]; its part along the direction is
                ignored.  Zero by default.
            acceleration: (3,) rate of that angular velocity [rad/s^2]; its part along the axis is ignored.

        Raises:
            ArgumentError: a shape that is wrong, an entry that is not finite, or a direction of no length.
        """
        super().reference(None if position is None else self._unit(position), velocity, acceleration)

    def _unit(self, direction: object) -> Array:
        d = floats(f"{self.name}.reference: position", direction)
        length = length_of_direction(*d.tolist()) if d.shape == (3,) else 0.0
        if length == 0.0:
            raise ArgumentError(f"{self.name}.reference: position: expected a direction (3,), got {np.array2string(d)}")
        return d / length

    def _across(self, s: State, rows: Array) -> Array:
        """Rows about world axes, without their part about n."""
        n = self.position(s)
        return np.asarray(rows - np.multiply.outer(n, n @ rows))

    def position(self, s: State) -> Array:
        """(3,) n, the axis in the world."""
        return s.placement(self.frame).rotation[:, AXES.index(self.axis)]

    def error(self, s: State) -> Array:
        """(3,) ``n x d``."""
        return np.cross(self.position(s), self._position)

    def velocity(self, s: State) -> Array:
        """(3,) ``P w`` [rad/s]."""
        return self._across(s, s.velocity(self.frame)[3:])

    def jacobian(self, s: State) -> Array:
        """(3, nv) of rank 2."""
        return self._across(s, s.jacobian(self.frame)[3:])

    def drift(self, s: State) -> Array:
        """(3,) [rad/s^2]."""
        n, w = self.position(s), s.velocity(self.frame)[3:]
        return np.asarray(self._across(s, s.drift(self.frame)[3:]) - np.cross(w, n) * (n @ w))

    def desired(self, s: State) -> Array:
        """(3,) wanted acceleration, perpendicular to n."""
        return self._across(s, super().desired(s))

    def desired_velocity(self, s: State, *, gain: float) -> Array:
        """(3,) wanted velocity, perpendicular to n; see `Task.desired_velocity`."""
        return self._across(s, super().desired_velocity(s, gain=gain))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The frame, and which of its axes."""
        return references.add_frame(self.frame), AXES.index(self.axis)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Like that of a frame's orientation, and one of three axes."""
        return super().declare_layout(counts)._replace(second=range(3))


@compiled()
def length_of_direction(x: float, y: float, z: float) -> float:
    """By which a reference is divided to be d; 0 if it has no direction: plain numbers, which is quickest."""
    length = math.sqrt(x * x + y * y + z * z)
    return length if SHORTEST < length < math.inf else 0.0  # also of NaN


@compiled()
def frame_axis_capture(item: Item, t: Instant) -> None:
    """The present direction becomes the reference."""
    p, frame = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first)
    p.given[0] = 1.0
    for i in range(3):
        p.position[i] = frame.rotation[i, item.second]


@compiled()
def along(n: Vector, x: Vector) -> float:
    """``n . x``."""
    return float(n[0] * x[0] + n[1] * x[1] + n[2] * x[2])


@compiled(inline=False)
def frame_axis_rows(item: Item, t: Instant) -> None:
    """``P J_angular a + drift = P a*``, row by row."""
    p, frame, work = motion_parameters(item.numbers, 3), frame_of(t.terms, t.model, item.first), t.work
    n, error, turning, wanted, row = work.vectors[0], work.vectors[1], work.vectors[2], work.vectors[3], work.vectors[4]
    w, J = frame.velocity[3:], frame.jacobian
    for i in range(3):
        n[i] = frame.rotation[i, item.second]
        error[i] = 0.0
        turning[i] = 0.0
    add_cross(n, p.position, error)
    add_cross(w, n, turning)  # dn/dt
    spin = along(n, w)
    for i in range(3):
        wanted[i] = desired(p, i, error[i], w[i] - spin * n[i]) - frame.drift[3 + i]
    surplus = along(n, wanted)
    for i in range(3):
        if p.mask[i] != 0.0:
            for k in range(len(frame.chain)):
                about = n[0] * J[3, k] + n[1] * J[4, k] + n[2] * J[5, k]
                row[k] = J[3 + i, k] - n[i] * about
            value = wanted[i] - n[i] * surplus + turning[i] * spin
            want_motion(t, row, frame.chain, value, p.weight[i], item.number, i)
