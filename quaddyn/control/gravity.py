"""Contact-consistent gravity compensation: torques that hold the robot, and the ground forces they count on."""

from __future__ import annotations

from collections.abc import Iterable

from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import State
from ..robot.arguments import check_vector
from ..urdf.tree import Array
from .load_distribution import LoadDistribution, check_state, distribute_load


def gravity_compensation(
    s: State,
    stance: Iterable[str] | None = None,
    *,
    acceleration: Array | None = None,
    friction: float = NOMINAL_FRICTION,
    rank_tolerance: float = 1e-8,
) -> LoadDistribution:
    """Torques that balance h (gravity, and Coriolis terms where ``v != 0``) through the stance feet.

    ``S^T tau + sum_i J_i^T f_i = M a + h`` with the forces of `distribute`: on level ground, purely vertical ones.

    Args:
        s: the state; ``dyn.update(q, 0 * v)`` compensates gravity alone.
        stance: names of the feet on the ground; all feet by default.
        acceleration: (nv,) wanted acceleration [m/s^2, rad/s^2]; zero by default.
        friction: Coulomb's coefficient mu that weighs tangential forces and measures the margin.
        rank_tolerance: singular values below this share of the largest count as zero.

    Raises:
        UnknownNameError: `stance` names no foot.
        ArgumentError: a foot twice, a coefficient out of range, or an acceleration of the wrong shape or not finite.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    check_state(s)
    load = s.h.copy()
    if acceleration is not None:
        acceleration = check_vector("acceleration", acceleration, (s.robot.nv,), f"nv of {s.robot.name}")
        load += s.M @ acceleration
    return distribute_load(s, load, stance, friction=friction, rank_tolerance=rank_tolerance)
