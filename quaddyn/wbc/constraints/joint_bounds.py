"""`JointBounds`: limits of joint position and velocity as bounds of the acceleration, viable whatever comes next."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiling import Vector, compiled
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar
from ..block import Vector as Numbers
from ..codes import JOINT_BOUNDS
from ..data import Instant
from ..element import Counts, Layout, References
from ..rows import Item, bound_joint
from ..scales import scales
from .constraint import Constraint


class JointBoundParameters(NamedTuple):
    """Parameters in the order in which they lie."""

    horizon: float  # [s]
    recovery: float  # [s]
    viability: float  # whether to hold it
    lower: Vector  # (nu,)
    upper: Vector  # (nu,)
    velocity: Vector  # (nu,)
    acceleration: Vector  # (nu,)


class JointBounds(Constraint, fixed=("index",)):
    r"""Joint accelerations such that positions and velocities stay within limits, now and later.

    Per joint, the intersection over one `horizon` h of constant acceleration of

    - the acceleration bound, :math:`|a| \le a_{max}`;
    - the velocity bound, :math:`|v + h a| \le v_{max}`;
    - the position stays inside at every instant of h, :math:`q_{min} \le q + t v + \tfrac{1}{2} t^2 a \le q_{max}`;
    - after h the joint can still stop in time (*viability*: without it, bounds on position and acceleration end up in
      conflict):

    .. math::

        (v + h a)^2 \le 2\, a_{max} \left(q_{max} - q - h v - \tfrac{1}{2} h^2 a\right)

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

    All of them may be set at any time; the vectors are views, so that entries may be set too.
    """

    code = JOINT_BOUNDS
    unit = "rad/s^2"
    horizon, recovery, viability = Scalar(0, zero=False), Scalar(1, zero=False), Scalar(2)
    lower, upper = Numbers(3, 4, 0), Numbers(3, 4, 1)
    velocity, acceleration = Numbers(3, 4, 2, least=0.0), Numbers(3, 4, 3, least=0.0)

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

    def bounds(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Least and largest acceleration of the actuated joints.

        Args:
            q: (nu,) positions of the actuated joints.
            v: (nu,) their velocities.

        Returns:
            (nu,) and (nu,), finite, the first not above the second.
        """
        p = joint_bound_parameters(self.block, len(q))
        every = [joint_bound(p, i, float(q[i]), float(v[i])) for i in range(len(q))]
        return np.array([low for low, _ in every]), np.array([high for _, high in every])

    def refer(self, to: References) -> tuple[int, int]:
        """The list of its joints' places in q."""
        return to.index(self._entries), -1

    @classmethod
    def layout(cls, of: Counts) -> Layout:
        """Three numbers and four vectors; a row for every motor."""
        return Layout(0, 3 + 4 * of.nu, first=range(of.entries - of.nu + 1), limits=of.nu, places=of.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return self._names[row]


@compiled()
def joint_bound_parameters(z: Vector, nu: int) -> JointBoundParameters:
    """The parameters that begin z."""
    return JointBoundParameters(
        z[0], z[1], z[2], z[3 : 3 + nu], z[3 + nu : 3 + 2 * nu], z[3 + 2 * nu : 3 + 3 * nu], z[3 + 3 * nu : 3 + 4 * nu]
    )


@compiled(inline=False)
def largest_acceleration(p: JointBoundParameters, room: float, v: float, fastest: float, a: float) -> float:
    """Largest acceleration of a joint with `room` to its upper limit; see `JointBounds`."""
    h = p.horizon
    high = min(a, (fastest - v) / h)
    if math.isfinite(room):
        stop = -v / h
        # Position: at the end of h if still moving out then, else at the turning point inside h.
        end = 2.0 * (room - h * v) / (h * h)
        if end > stop:
            position = end
        else:
            position = stop
            if v > 0.0:
                position = min(stop, -v * v / max(2.0 * max(room, 0.0), 1e-12))
        high = min(high, position)
        if p.viability > 0.0:
            b = h * (2.0 * v + a * h)
            root = b * b - 4.0 * h * h * (v * v - 2.0 * a * (room - h * v))
            allowed = stop
            if root >= 0.0:
                allowed = (-b + math.sqrt(root)) / (2.0 * h * h)
            high = min(high, max(allowed, stop))
        if room < 0.0:
            high = min(high, (room / p.recovery - v) / h)
    return max(high, -a)


@compiled()
def joint_bound(p: JointBoundParameters, i: int, q: float, v: float) -> tuple[float, float]:
    """Least and largest acceleration of joint i at (q, v)."""
    a, fastest = p.acceleration[i], p.velocity[i]
    high = largest_acceleration(p, p.upper[i] - q, v, fastest, a)
    low = -largest_acceleration(p, q - p.lower[i], -v, fastest, a)
    if low > high:  # a joint too fast for its range, say: brake first
        low = min(max(-v / p.horizon, -a), a)
        high = low
    return low, high


@compiled(inline=False)
def joint_bound_rows(item: Item, t: Instant) -> None:
    """``least <= a_j <= largest`` of each actuated joint; `index` has its place in q."""
    actuated = t.model.actuated
    p = joint_bound_parameters(item.numbers, len(actuated))
    for i in range(len(actuated)):
        j = actuated[i]
        low, high = joint_bound(p, i, t.q[t.model.index[item.first + i]], t.v[j])
        bound_joint(t, j, low, high, t.model.length, item.number, i)
