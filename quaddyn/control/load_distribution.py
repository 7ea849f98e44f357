"""Who bears a load: actuators, and on a robot that stands, contact forces at its feet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..contact.force_distribution import passive_rows, share_load
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_vector
from ..robot.robot import Robot
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, eq=False)
class Compensation:
    """Torques and contact forces in balance.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], not saturated.
        forces: (3,) by stance foot, on the robot, world axes [N], acting at the foot's frame (the sphere's centre): for
            horizontal forces the moment of the radius is left to the feedback.
        residual: largest row of ``load - sum_i J_i^T f_i`` among those without an actuator [N, N m]: zero when
            the feet can bear the load, the unbalanced wrench when they cannot (two point feet, a passive joint).
        margin: smallest ``mu f_n - |f_t|`` over the stance feet [N]: negative where the balance would take a pull
            or a slip; inf without stance feet.
    """

    tau: Array
    forces: Mapping[str, Array]
    residual: float
    margin: float


def distribute(
    s: State,
    load: Array,
    stance: Iterable[str] | None = None,
    *,
    friction: float = NOMINAL_FRICTION,
    rank_tolerance: float = 1e-8,
) -> Compensation:
    """Torques and contact forces that together make a generalized force: ``S^T tau + sum_i J_i^T f_i = load``.

    The rows without an actuator (the root's six or three, and passive joints) leave only the contact forces to
    do the balancing.  Of all forces that do, those of least ``sum_i f_n^2 + |f_t|^2 / mu^2`` are taken, n being the
    world's z; if none do, the unbalanced rest is least in the metric of the inertia (`share_load`).  The actuated
    rows then give tau.  Forces at the spheres' lowest points, on slopes and through surfaces:
    `quaddyn.contact.inverse_dynamics`.

    Cones are not enforced: ``margin`` tells whether the answer lies inside them.  A fixed root needs no forces
    and gets none.

    Args:
        s: the state.
        load: (nv,) generalized force to make [N m, N].
        stance: names of the feet on the ground; all feet by default.
        friction: Coulomb's coefficient mu that weighs tangential forces and measures the margin.
        rank_tolerance: singular values below this share of the largest count as zero.

    Raises:
        UnknownNameError: `stance` names no foot.
        ArgumentError: a foot twice, a coefficient out of range, or a load of the wrong shape or not finite.
        StaleStateError: the Dynamics of `s` was updated again.
    """
    check_state(s)
    robot = s.robot
    feet = stance_feet(robot, stance)
    friction, rank_tolerance = check_number("friction", friction), check_number("rank_tolerance", rank_tolerance)
    if not (np.isfinite(friction) and friction > 0.0):
        raise ArgumentError(f"friction: expected a positive coefficient, got {friction}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(f"rank_tolerance: expected a share of the largest singular value, got {rank_tolerance}")
    load = check_vector("load", load, (robot.nv,), f"nv of {robot.name}")
    J = np.vstack([np.zeros((0, robot.nv)), *(s.jacobian(foot)[:3] for foot in feet)])
    T = np.diag((friction, friction, 1.0) * len(feet))
    passive = passive_rows(robot)
    f, rest = share_load(s.M, load, passive, J, T, rank_tolerance=rank_tolerance)
    forces = {foot: f[3 * i : 3 * i + 3] for i, foot in enumerate(feet)}
    return Compensation(
        tau=rest[robot.actuated_index],
        forces=forces,
        residual=float(np.abs(rest[passive]).max(initial=0.0)),
        margin=min((friction * f_n - float(np.hypot(x, y)) for x, y, f_n in forces.values()), default=np.inf),
    )


def check_state(s: object) -> None:
    """Raise `ArgumentTypeError` unless `s` is a `State`."""
    if not isinstance(s, State):
        raise ArgumentTypeError(f"s: expected the State that Dynamics.update returns, got {type(s).__name__}")


def stance_feet(robot: Robot, stance: Iterable[str] | None) -> tuple[str, ...]:
    """The feet that `stance` names, checked; all by default.

    Raises:
        UnknownNameError: no such foot.
        ArgumentError: one twice, or a lone string.
    """
    feet = robot.feet if stance is None else check_sequence("stance", stance, "names of feet")
    for foot in feet:
        if foot not in robot.feet:
            raise UnknownNameError("foot", foot, robot.feet)
    if len(set(feet)) != len(feet):
        raise ArgumentError(f"stance: every foot once, got {feet}")
    return feet
