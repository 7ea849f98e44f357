"""`JointBounds`: joint position and velocity limits as acceleration bounds that stay feasible at all future ticks.

Proof of the guarantee of `JointBounds`, per joint.  Let d be the assumed deceleration and h the horizon.

1. *Viable* are the states from which braking with d keeps the limits: ``|v| <= v_max`` and
   ``-sqrt(2 d (q - q_min)) <= v <= sqrt(2 d (q_max - q))``.
2. At a viable state, ``a = -d`` is within the bounds due to the upper limit, and ``a = d`` within those due to the
   lower one.  The two sets of bounds have a common acceleration if braking over h from the edge of one limit cannot
   leave the set at the other: ``d h^2 <= q_max - q_min`` and ``d h <= v_max``.  In very narrow ranges d is reduced
   accordingly.
3. An admissible acceleration, held for h, keeps the limits during h and ends in a viable state.  At any
   earlier time the state is viable, too: continuing until h and then braking keeps the limits from there.  So the next
   period, which is not longer than h, starts in a viable state again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiler import Vector, compiled
from ...deprecation import renamed_attributes
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts, ScalarParameter, VectorParameter, scales
from ..row_writing import Item, add_joint_bounds
from ..tick_data import TickContext
from .constraint import Constraint


class JointBoundParameters(NamedTuple):
    """Parameters of `JointBounds`: views of its parameter array, in this order; all but three are limits."""

    horizon: float  # [s]
    recovery: float  # [s]
    applies_viability: bool
    lower: Vector  # (nu,)
    upper: Vector  # (nu,)
    velocity: Vector  # (nu,)
    acceleration: Vector  # (nu,)
    deceleration: Vector  # (nu,)


@compiled()
def joint_bound_parameters(z: Vector, nu: int) -> JointBoundParameters:
    """Returns views of the parameters at the beginning of z."""
    return JointBoundParameters(
        z[0], z[1], z[2] > 0.0, z[3 : 3 + nu], z[3 + nu : 3 + 2 * nu], z[3 + 2 * nu : 3 + 3 * nu],
        z[3 + 3 * nu : 3 + 4 * nu], z[3 + 4 * nu : 3 + 5 * nu],
    )  # fmt: skip


@compiled()
def viable_deceleration(p: JointBoundParameters, i: int) -> float:
    """Returns the deceleration that viability assumes: reduced for a narrow range or a low velocity limit."""
    h, width = p.horizon, max(p.upper[i] - p.lower[i], 0.0)
    d: float = max(min(p.deceleration[i], min(width / (h * h), p.velocity[i] / h)), 1e-12)
    return d


@compiled(inline=False)
def max_stoppable_acceleration(distance: float, v: float, d: float, h: float) -> float:
    """Returns the largest acceleration over h that keeps `distance` >= 0, during h and while braking with d afterwards.

    With w the speed after h, ``w^2 + d h w = 2 d (distance - h v / 2)``, unless the joint stops earlier; otherwise it
    reverses exactly at the limit.
    """
    rest = distance - 0.5 * h * v  # distance to the limit if the joint stops at the end of h
    if rest >= 0.0:
        half = 0.5 * d * h
        return (2.0 * d * rest / (half + math.sqrt(half * half + 2.0 * d * rest)) - v) / h
    return -v * v / (2.0 * max(distance, 1e-300))


@compiled()
def max_bounded_acceleration(distance: float, v: float, h: float) -> float:
    """Returns the largest acceleration over h that keeps `distance` >= 0 during h."""
    stopping = -v / h
    reaching = 2.0 * (distance - h * v) / (h * h)  # at the limit after h, if it still moves out then
    if reaching > stopping:
        return reaching
    return min(stopping, -v * v / (2.0 * max(distance, 1e-300)))


@compiled(inline=False)
def max_acceleration_toward(p: JointBoundParameters, i: int, distance: float, v: float) -> float:
    """Returns the largest acceleration of joint i, `distance` below its upper limit, with v toward the limit."""
    h, max_speed = p.horizon, p.velocity[i]
    high: float = min(p.acceleration[i], (max_speed - v) / h)
    if distance < 0.0:
        return_velocity = max(distance / max(p.recovery, h), -max_speed)
        high = min(high, (return_velocity - v) / h)
    elif math.isfinite(distance):
        if p.applies_viability:
            high = min(high, max_stoppable_acceleration(distance, v, viable_deceleration(p, i), h))
        else:
            high = min(high, max_bounded_acceleration(distance, v, h))
    lowest: float = -p.deceleration[i]
    return max(high, lowest)


@compiled()
def acceleration_bounds(p: JointBoundParameters, i: int, q: float, v: float) -> tuple[float, float]:
    """Returns the smallest and largest acceleration of joint i at (q, v)."""
    high = max_acceleration_toward(p, i, p.upper[i] - q, v)
    low = -max_acceleration_toward(p, i, q - p.lower[i], -v)
    if low > high:  # possible outside the viable set only: the acceleration that stops the joint, between the two
        low = min(max(-v / p.horizon, high), low)
        high = low
    return low, high


@compiled()
def is_joint_viable(p: JointBoundParameters, i: int, q: float, v: float) -> bool:
    """Returns whether joint i can keep its limits by braking."""
    d, slack = viable_deceleration(p, i), 1e-9 * min(p.upper[i] - p.lower[i], 1.0)
    speed = abs(v)
    ahead = p.upper[i] - q if v > 0.0 else q - p.lower[i]
    behind = q - p.lower[i] if v > 0.0 else p.upper[i] - q
    within: bool = min(ahead, behind) >= -slack and speed <= p.velocity[i] * (1.0 + 1e-9)
    return within and speed * speed <= 2.0 * d * (ahead + slack) * (1.0 + 1e-9)


@compiled(inline=False)
def write_joint_bound_rows(item: Item, t: TickContext) -> None:
    """Writes the acceleration bounds of each actuated joint."""
    actuated = t.model.actuated
    p = joint_bound_parameters(item.parameters, len(actuated))
    for i in range(len(actuated)):
        j = actuated[i]
        low, high = acceleration_bounds(p, i, t.q[t.model.index[item.first + i]], t.v[j])
        add_joint_bounds(t, j, low, high, t.model.length, item.element_index, i)


@renamed_attributes(viable="viable_mask")
class JointBounds(Constraint, fixed=("index",)):
    r"""Bounds of joint accelerations that keep positions and velocities within limits, now and in the future.

    Per joint, the intersection over one `horizon` h of constant acceleration of

    - the acceleration bound, :math:`|a| \le a_{max}`;
    - the velocity bound, :math:`|v + h a| \le v_{max}`;
    - the position bound at every instant of h, :math:`q_{min} \le q + t v + \tfrac{1}{2} t^2 a \le q_{max}`;
    - the condition that after h the joint can still stop in time with the deceleration d (*viability*; without it,
      bounds of position and acceleration eventually conflict):

    .. math::

        (v + h a)^2 \le 2\, d \left(q_{max} - q - h v - \tfrac{1}{2} h^2 a\right)

    **Guarantee.** From a viable state (`viable_mask`) all limits hold at all times, for any tasks, and the bounds
    never require more than d of a joint.  This assumes that the robot realizes the commanded accelerations, that these
    are constant over a control period, which is not longer than h, and that the robot can always decelerate by d; the
    docstring of the module has the proof.  Set d to a value that the torque limits can provide: all joints of a robot
    with a fixed root can decelerate by d at once where :math:`\sum_j |M_{ij}| d_j \le \tau_i - |h_i|`.  If torques
    cannot provide d, level 0 is infeasible, and the status of the command reports it.

    **Outside the viable set.** `viable_mask` and `Command.nonviable` report the joints.  A joint that is too fast to
    stop in time decelerates by d.  A joint beyond a limit returns with a speed of at least ``depth / recovery``; with
    ``recovery=0`` as fast as d, v_max and h allow.  Where bounds conflict, those that stop the joint take precedence.

    Use it on level 0 of every controller.

    Source: Del Prete 2018, "Joint position and velocity bounds in discrete-time acceleration/torque control of robot
    manipulators", sections III and IV; d separate from a_max, and its reduction in narrow ranges, are additions.

    Args:
        robot: the robot.
        dt: control period [s].
        acceleration: a_max, (nu,) or scalar [rad/s^2]; ``20 g / l`` with l the leg length if None, as robot files have
            no acceleration limits.
        deceleration: d, (nu,) or scalar [rad/s^2], assumed available to stop a joint, at most `acceleration`; equal to
            it if None.
        horizon: h [s], at least `dt`; ten periods if None, over which noise in v causes a tenth of the acceleration
            that it would cause over one.
        recovery: time constant of the return into the limits [s]; 0 for as fast as possible.
        position: whether to apply the position limits.
        velocity: whether to apply the velocity limits.
        viability: whether to apply the viability condition.
        name: name of the constraint in the controller.

    Attributes:
        horizon: h [s], ten periods if None was given.
        recovery: time constant [s].
        acceleration, deceleration: (nu,) [rad/s^2, m/s^2], the defaults if None was given.
        lower, upper: (nu,) position limits [rad, m], infinite without limit.
        velocity: (nu,) velocity limits [rad/s, m/s], infinite without limit.
        viability: 1 to apply the viability condition, 0 not to.

    All of them may be set at any time; the vectors are views, whose entries may be set, too.

    Raises:
        ArgumentError: an acceleration that is not positive and finite, or a deceleration above it.
    """

    unit = "rad/s^2"
    horizon, recovery, viability = ScalarParameter(0, zero=False), ScalarParameter(1), ScalarParameter(2)
    lower, upper = VectorParameter(3, 5, 0), VectorParameter(3, 5, 1)
    velocity = VectorParameter(3, 5, 2, minimum=0.0)
    acceleration, deceleration = VectorParameter(3, 5, 3, minimum=0.0), VectorParameter(3, 5, 4, minimum=0.0)

    def __init__(
        self,
        robot: Robot,
        dt: float,
        *,
        acceleration: Array | float | None = None,
        deceleration: Array | float | None = None,
        horizon: float | None = None,
        recovery: float = 0.1,
        position: bool = True,
        velocity: bool = True,
        viability: bool = True,
        name: str = "joint bounds",
    ) -> None:
        super().__init__(name, 3 + 5 * robot.nu, robot=robot)
        unit = scales(robot)
        largest = 20.0 * unit.gravity / unit.length if acceleration is None else acceleration
        self.acceleration = _check_joint_values("acceleration", largest, robot.nu)
        self.deceleration = self.acceleration
        if deceleration is not None:
            self.deceleration = _check_joint_values("deceleration", deceleration, robot.nu)
            if (self.deceleration > self.acceleration).any():
                raise ArgumentError(f"deceleration: expected no entry above acceleration, got {deceleration}")
        self.horizon = 10.0 * dt if horizon is None else horizon
        self.recovery = recovery
        self.index = robot.actuated_index
        self._entries = np.array([robot.configuration_index(joint) for joint in robot.actuated], dtype=np.intp)
        lower, upper = robot.lower[self._entries], robot.upper[self._entries]
        has_range = (lower < upper) & position  # an empty range means "no limit" in robot files
        self.lower, self.upper = np.where(has_range, lower, -np.inf), np.where(has_range, upper, np.inf)
        self.velocity = np.where(velocity, robot.velocity_limits, np.inf)
        self.viability = float(viability)
        self._names = tuple(f"{joint} joint bound" for joint in robot.actuated)

    def bounds(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Returns the smallest and largest accelerations of the actuated joints.

        Args:
            q: (nu,) positions of the actuated joints.
            v: (nu,) their velocities.

        Returns:
            (nu,) and (nu,) [rad/s^2], finite, the first not above the second.
        """
        p = joint_bound_parameters(self.block, len(q))
        joint_bounds = [acceleration_bounds(p, i, float(q[i]), float(v[i])) for i in range(len(q))]
        return np.array([low for low, _ in joint_bounds]), np.array([high for _, high in joint_bounds])

    def viable_mask(self, q: Array, v: Array) -> Array:
        """Returns which joints can keep all limits from this state on, braking with `deceleration`.

        Args:
            q: (nu,) positions of the actuated joints.
            v: (nu,) their velocities.

        Returns:
            (nu,) bool.  The tolerance for rounding is 1e-9 of the range, or of 1 rad if that is smaller.
        """
        p = joint_bound_parameters(self.block, len(q))
        return np.array([is_joint_viable(p, i, float(q[i]), float(v[i])) for i in range(len(q))], dtype=bool)

    def find_nonviable(self, parameters: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Returns the names of the joints that are not viable."""
        assert self.robot is not None
        p = joint_bound_parameters(parameters, self.robot.nu)
        states = zip(self.robot.actuated, q[self._entries].tolist(), v[self.index].tolist(), strict=True)
        return tuple(name for i, (name, x, speed) in enumerate(states) if not is_joint_viable(p, i, x, speed))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the position of the list of the joints' indices in q, and -1."""
        return references.add_index_list(self._entries), -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of three scalars, five vectors, and a limit per motor."""
        return Layout(
            0, 3 + 5 * counts.nu, first=range(counts.entries - counts.nu + 1), limits=counts.nu, q_entries=counts.nu
        )

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self._names[row]


def _check_joint_values(argument: str, given: Array | float, nu: int) -> Array:
    """Validates positive finite numbers, scalar or (nu,), and returns them."""
    a = np.asarray(given, dtype=np.float64)
    if a.shape not in ((), (nu,)) or not ((a > 0.0).all() and np.isfinite(a).all()):
        raise ArgumentError(f"{argument}: expected a positive number or {nu} positive numbers, got {given}")
    return a


JointBounds.kind = ElementKind(107, write_joint_bound_rows)
