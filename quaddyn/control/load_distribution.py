"""Distribution of a generalized force, such as gravity, over actuators and contact forces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..contact.inverse_dynamics import solve_force_distribution, unactuated_rows
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_type, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, eq=False)
class LoadDistribution:
    """Torques and contact forces that balance a generalized force.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], not saturated.
        forces: (3,) by stance foot, on the robot, world axes [N], at the foot's frame (the sphere's center): the moment
            of horizontal forces about the sphere's radius is left to the feedback.
        residual: largest row of ``generalized_force - sum_i J_i^T f_i`` among those without an actuator [N, N m]: zero
            when the feet can balance it, otherwise the unbalanced wrench (two point feet, a passive joint).
        margin: smallest ``mu f_n - |f_t|`` over the stance feet [N]: negative where a foot would pull or slip; inf
            without stance feet.
    """

    tau: Array
    forces: Mapping[str, Array]
    residual: float
    margin: float


@renamed_parameters(load="generalized_force")
def distribute_load(
    s: State,
    generalized_force: Array,
    stance: Iterable[str] | None = None,
    *,
    friction: float = NOMINAL_FRICTION,
    rank_tolerance: float = 1e-8,
) -> LoadDistribution:
    """Computes torques and contact forces with ``S^T tau + sum_i J_i^T f_i = generalized_force``.

    In the rows without an actuator (the root's six or three, and passive joints) only the contact forces can balance
    the generalized force.  Of all forces that do, the result minimizes ``sum_i f_n^2 + |f_t|^2 / mu^2``, n being
    the world's z; if none do, the residual is minimized in the metric of the inertia (`solve_force_distribution`).  The
    actuated rows then give tau.  For forces at the spheres' lowest points, on slopes and on surfaces use
    `quaddyn.contact.inverse_dynamics`.

    Friction cones are not enforced; ``margin`` reports whether the result lies inside them.  A fixed root needs no
    forces and gets none.

    Args:
        s: the state.
        generalized_force: (nv,) generalized force to be exerted [N m, N].
        stance: names of the stance feet; None for all feet.
        friction: Coulomb's coefficient mu, dimensionless, in the cost of tangential forces and the margin.
        rank_tolerance: singular values below this fraction of the largest count as zero.

    Raises:
        UnknownNameError: `stance` names no foot.
        ArgumentError: a foot twice, a coefficient out of range, or a generalized force of the wrong shape or not
            finite.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    check_state(s)
    robot = s.robot
    feet = check_stance_feet(robot, stance)
    friction, rank_tolerance = check_number("friction", friction), check_number("rank_tolerance", rank_tolerance)
    if not (np.isfinite(friction) and friction > 0.0):
        raise ArgumentError(f"friction: expected a positive coefficient, got {friction}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(
            f"rank_tolerance: expected a fraction of the largest singular value in [0, 1), got {rank_tolerance}"
        )
    generalized_force = check_vector("generalized_force", generalized_force, (robot.nv,), f"nv of {robot.name}")
    J = np.vstack([np.zeros((0, robot.nv)), *(s.jacobian(foot)[:3] for foot in feet)])
    T = np.diag((friction, friction, 1.0) * len(feet))
    passive = unactuated_rows(robot)
    f, remainder = solve_force_distribution(s.M, generalized_force, passive, J, T, rank_tolerance=rank_tolerance)
    forces = {foot: f[3 * i : 3 * i + 3] for i, foot in enumerate(feet)}
    return LoadDistribution(
        tau=remainder[robot.actuated_index],
        forces=forces,
        residual=float(np.abs(remainder[passive]).max(initial=0.0)),
        margin=min((friction * f_n - float(np.hypot(f_x, f_y)) for f_x, f_y, f_n in forces.values()), default=np.inf),
    )


def check_state(s: object) -> None:
    """Raises `ArgumentTypeError` unless `s` is a `State`."""
    check_type("s", s, State, "the State that Dynamics.update returns")


def check_stance_feet(robot: Robot, stance: Iterable[str] | None) -> tuple[str, ...]:
    """Returns the feet named by `stance`; None for all feet.

    Raises:
        UnknownNameError: no such foot.
        ArgumentError: a foot twice, or a single string.
    """
    feet = robot.feet if stance is None else check_sequence("stance", stance, "names of feet")
    for foot in feet:
        if foot not in robot.feet:
            raise UnknownNameError("foot", foot, robot.feet)
    if len(set(feet)) != len(feet):
        raise ArgumentError(f"stance: expected every foot at most once, got {feet}")
    return feet


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
