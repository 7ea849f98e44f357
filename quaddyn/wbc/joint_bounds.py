"""`JointBounds`: limits of joint position and velocity as bounds of the acceleration, viable whatever comes next."""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .block import Scalar, Vector
from .constraints import Constraint
from .scales import scales
from .tick import Rows, Tick


class JointBounds(Constraint):
    """Joint accelerations such that positions and velocities stay within limits, now and later.

    Per joint, the intersection over one `horizon` h of constant acceleration of

    - ``|a| <= a_max``;
    - ``|v + h a| <= v_max``;
    - the position stays inside at every instant of h;
    - after h the joint can still stop in time: ``(v + h a)^2 <= 2 a_max (q_max - q(h))`` (*viability*: without it,
      bounds on position and acceleration end up in conflict).

    A joint that is outside comes back with speed ``depth / recovery`` at least; where bounds conflict, those that say
    stop win, and nothing asks for more than a_max.  Source: Del Prete 2018, "Joint position and velocity bounds in
    discrete-time acceleration/torque control of robot manipulators".

    Args:
        robot: the robot.
        dt: control period [s].
        acceleration: a_max, (nu,) or scalar [rad/s^2]; by default ``20 g / l`` with l the leg's length, as no file
            gives one.
        horizon: h [s]; ten periods by default, over which noise in v asks for a tenth of what it would over one.
        recovery: time constant of the way back inside [s].
        position, velocity, viability: whether to hold these limits.
        name: by which the controller knows it.

    Attributes:
        horizon, recovery, acceleration: as given.
        lower, upper, velocity: (nu,) the limits, infinite where there is none.
        viability: 1 to hold it, 0 not to.
    """

    code = 107
    horizon, recovery, viability = Scalar(0, zero=False), Scalar(1, zero=False), Scalar(2)
    lower, upper = Vector(3, 4, 0), Vector(3, 4, 1)
    velocity, acceleration = Vector(3, 4, 2, least=0.0), Vector(3, 4, 3, least=0.0)

    def __init__(
        self,
        robot: Robot,
        dt: float,
        *,
        acceleration: Array | float | None = None,
        horizon: float | None = None,
        recovery: float = 0.1,
        position: bool = True,
        velocity: bool = True,
        viability: bool = True,
        name: str = "joint bounds",
    ) -> None:
        super().__init__(name, 3 + 4 * robot.nu, robot=robot)
        unit = scales(robot)
        a = np.asarray(20.0 * unit.gravity / unit.length if acceleration is None else acceleration, dtype=np.float64)
        if a.shape not in ((), (robot.nu,)) or not ((a > 0.0).all() and np.isfinite(a).all()):
            raise ArgumentError(f"acceleration: expected a positive number or {robot.nu} of them, got {acceleration}")
        self.acceleration = a
        self.horizon = 10.0 * dt if horizon is None else horizon
        self.recovery = recovery
        self.index = robot.actuated_index
        self._entries = np.array([robot.configuration_index(joint) for joint in robot.actuated], dtype=np.intp)
        lower, upper = robot.lower[self._entries], robot.upper[self._entries]
        ranged = (lower < upper) & position  # no room at all is what files write for "no limit"
        self.lower, self.upper = np.where(ranged, lower, -np.inf), np.where(ranged, upper, np.inf)
        self.velocity = np.where(velocity, robot.velocity_limits, np.inf)
        self.viability = float(viability)
        self._names = tuple(f"{joint} joint bound" for joint in robot.actuated)
        self._rows = np.zeros((robot.nu, robot.nv))
        self._rows[np.arange(robot.nu), self.index] = 1.0

    def bounds(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Least and largest acceleration of the actuated joints.

        Args:
            q: (nu,) positions of the actuated joints.
            v: (nu,) their velocities.

        Returns:
            (nu,) and (nu,), finite, the first not above the second.
        """
        high = self._upper(self.upper - q, v)
        low = -self._upper(q - self.lower, -v)
        crossed = low > high
        if crossed.any():  # a joint too fast for its range, say: brake first
            brake = np.clip(-v / self.horizon, -self.acceleration, self.acceleration)
            low, high = np.where(crossed, brake, low), np.where(crossed, brake, high)
        return low, high

    def _upper(self, room: Array, v: Array) -> Array:
        """Largest acceleration with `room` left to the upper limit."""
        h, a = self.horizon, self.acceleration
        high = np.minimum(a, (self.velocity - v) / h)
        limited = np.isfinite(room)
        if limited.any():
            room = np.where(limited, room, 0.0)
            stop = -v / h  # at rest after h
            # Position: at the end of h if still moving out then, else at the turning point inside h.
            end = 2.0 * (room - h * v) / (h * h)
            inside = np.maximum(room, 0.0)
            turn = -v * v / np.maximum(2.0 * inside, 1e-12)
            position = np.where(end > stop, end, np.minimum(stop, np.where(v > 0.0, turn, np.inf)))
            high = np.where(limited, np.minimum(high, position), high)
            if self.viability:
                b = h * (2.0 * v + a * h)
                c = v * v - 2.0 * a * (room - h * v)
                root = b * b - 4.0 * h * h * c
                viable = np.where(root >= 0.0, (-b + np.sqrt(np.maximum(root, 0.0))) / (2.0 * h * h), stop)
                high = np.where(limited, np.minimum(high, np.maximum(viable, stop)), high)
            out = limited & (room < 0.0)
            high = np.where(out, np.minimum(high, (room / self.recovery - v) / h), high)
        # Whatever was asked, never more than a_max of braking.
        return np.asarray(np.maximum(high, -a))

    def rows(self, tick: Tick) -> list[Rows]:
        """One row per actuated joint."""
        s = tick.state
        low, high = self.bounds(s.q[self._entries], s.v[self.index])
        weights = np.full(len(low), tick.scales.length)
        return [Rows(self._names, "rad/s^2", low, high, acceleration=self._rows, weights=weights)]
