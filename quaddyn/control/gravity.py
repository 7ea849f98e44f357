"""Contact-consistent gravity compensation: torques for static equilibrium, and the corresponding ground forces."""

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
    """Computes the torques that balance h (gravity, and Coriolis terms where ``v != 0``) through the stance feet.

    ``S^T tau + sum_i J_i^T f_i = M a + h`` with the contact forces of `distribute_load`: on level ground, purely
    vertical ones.

    Args:
        s: the state; ``dyn.update(q, 0 * v)`` compensates gravity alone.
        stance: names of the stance feet; None for all feet.
        acceleration: (nv,) desired acceleration [m/s^2, rad/s^2]; None for zero.
        friction: Coulomb's coefficient mu, dimensionless, in the cost of tangential forces and the margin.
        rank_tolerance: singular values below this fraction of the largest count as zero.

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
