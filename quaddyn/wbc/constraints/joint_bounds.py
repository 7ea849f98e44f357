"""`JointBounds`: limits of joint position and velocity as bounds of the acceleration, viable whatever comes next.

Why the promise of `JointBounds` holds, per joint.  Let d be the deceleration that is counted on, h the horizon.

1. *Viable* are the states from which braking with d keeps the limits: ``|v| <= v_max`` and
   ``-sqrt(2 d (q - q_min)) <= v <= sqrt(2 d (q_max - q))``.
2. At a viable state, ``a = -d`` is within what the upper limit allows, and ``a = d`` within what the lower one does.
   The two leave a common acceleration if braking over h from the edge of one limit cannot leave the set at the other:
   ``d h^2 <= q_max - q_min`` and ``d h <= v_max``.  d is reduced to that where a range is very narrow.
3. An acceleration that is allowed, held for h, keeps the limits on the way and ends in a viable state.  At any earlier
   time the state is viable, too: from there, to go on and then to brake is a way that keeps the limits.  So the next
   period, no longer than h, begins in a viable state again.
"""

from __future__ import annotations

import numpy as np

from ...deprecation import renamed_attributes
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar, Vector
from ..codes import JOINT_BOUNDS
from ..element import Layout, ReferenceResolver, RowCounts
from ..scales import scales
from .constraint import Constraint
from .joint_bound_rows import joint_bound, joint_bound_parameters, joint_viable


@renamed_attributes(viable="viable_mask")
class JointBounds(Constraint, fixed=("index",)):
    r"""Joint accelerations such that positions and velocities stay within limits, now and later.

    Per joint, the intersection over one `horizon` h of constant acceleration of

    - the acceleration bound, :math:`|a| \le a_{max}`;
    - the velocity bound, :math:`|v + h a| \le v_{max}`;
    - the position stays inside at every instant of h, :math:`q_{min} \le q + t v + \tfrac{1}{2} t^2 a \le q_{max}`;
    - after h the joint can still stop in time with the deceleration d (*viability*: without it, bounds on position and
      acceleration end up in conflict):

    .. math::

        (v + h a)^2 \le 2\, d \left(q_{max} - q - h v - \tfrac{1}{2} h^2 a\right)

    **What is promised.** From a viable state (`viable_mask`) all limits hold at all times, whatever the tasks ask for,
    and the bounds never ask a joint for more than d.  This assumes that accelerations are those that were asked for
    and constant over a control period, which is no longer than h, and that the robot can always decelerate by d; the
    module's docstring has the proof.  Set d to what the torque limits leave: all joints of a robot with a fixed root
    can decelerate by d at once where :math:`\sum_j |M_{ij}| d_j \le \tau_i - |h_i|`.  A level 0 on which torques
    cannot give d is infeasible, and the command says so.

    **Outside.** `viable_mask` and `Command.nonviable` name the joints.  One that is too fast to stop in time
    decelerates by d.  One beyond a limit returns with speed ``depth / recovery`` at least; with ``recovery=0`` as fast
    as d, v_max and h allow.  Where bounds conflict, those that stop the joint win.

    Source: Del Prete 2018, "Joint position and velocity bounds in discrete-time acceleration/torque control of robot
    manipulators", sections III and IV; d apart from a_max, and its reduction in narrow ranges, are additions.

    Args:
        robot: the robot.
        dt: control period [s].
        acceleration: a_max, (nu,) or scalar [rad/s^2]; by default ``20 g / l`` with l the leg's length, as no file
            gives one.
        deceleration: d, (nu,) or scalar [rad/s^2], what is counted on to stop a joint; `acceleration` by default, and
            not above it.
        horizon: h [s], not below `dt`; ten periods by default, over which noise in v asks for a tenth of what it would
            over one.
        recovery: time constant of the way back inside [s]; 0 for as fast as possible.
        position, velocity, viability: whether to hold these limits.
        name: by which the controller knows it.

    Attributes:
        horizon, recovery, acceleration, deceleration: as given.
        lower, upper, velocity: (nu,) the limits, infinite where there is none.
        viability: 1 to hold it, 0 not to.

    All of them may be set at any time; the vectors are views, so that entries may be set too.

    Raises:
        ArgumentError: an acceleration that is not positive and finite, or a deceleration above it.
    """

    code = JOINT_BOUNDS
    unit = "rad/s^2"
    horizon, recovery, viability = Scalar(0, zero=False), Scalar(1), Scalar(2)
    lower, upper = Vector(3, 5, 0), Vector(3, 5, 1)
    velocity = Vector(3, 5, 2, least=0.0)
    acceleration, deceleration = Vector(3, 5, 3, least=0.0), Vector(3, 5, 4, least=0.0)

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
        most = 20.0 * unit.gravity / unit.length if acceleration is None else acceleration
        self.acceleration = _per_joint("acceleration", most, robot.nu)
        self.deceleration = self.acceleration
        if deceleration is not None:
            self.deceleration = _per_joint("deceleration", deceleration, robot.nu)
            if (self.deceleration > self.acceleration).any():
                raise ArgumentError(f"deceleration: expected none above acceleration, got {deceleration}")
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

    def viable_mask(self, q: Array, v: Array) -> Array:
        """Which joints can keep all limits from here on, braking with `deceleration`.

        Args:
            q: (nu,) positions of the actuated joints.
            v: (nu,) their velocities.

        Returns:
            (nu,) bool; 1e-9 of the range, or of 1 rad if that is less, is allowed for rounding.
        """
        p = joint_bound_parameters(self.block, len(q))
        return np.array([joint_viable(p, i, float(q[i]), float(v[i])) for i in range(len(q))], dtype=bool)

    def find_nonviable(self, numbers: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Names of the joints that are not viable."""
        assert self.robot is not None
        p = joint_bound_parameters(numbers, self.robot.nu)
        there = zip(self.robot.actuated, q[self._entries].tolist(), v[self.index].tolist(), strict=True)
        return tuple(name for i, (name, x, speed) in enumerate(there) if not joint_viable(p, i, x, speed))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The list of its joints' places in q."""
        return references.add_index_list(self._entries), -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Three numbers and five vectors; a row for every motor."""
        return Layout(
            0, 3 + 5 * counts.nu, first=range(counts.entries - counts.nu + 1), limits=counts.nu, places=counts.nu
        )

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return self._names[row]


def _per_joint(what: str, given: Array | float, nu: int) -> Array:
    a = np.asarray(given, dtype=np.float64)
    if a.shape not in ((), (nu,)) or not ((a > 0.0).all() and np.isfinite(a).all()):
        raise ArgumentError(f"{what}: expected a positive number or {nu} of them, got {given}")
    return a
