"""Contact-consistent gravity compensation: torques that hold the robot, and the ground forces they count on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError, UnknownNameError
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, eq=False)
class Compensation:
    """Torques and contact forces in balance.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m], not saturated.
        forces: (3,) by stance foot, on the robot, world axes [N], acting at the foot's frame (the sphere's centre): for
            horizontal forces the moment of the radius is left to the feedback.
        residual: largest row of ``M a + h - sum_i J_i^T f_i`` among those without an actuator [N, N m]: zero when
            the feet can hold the robot, the unbalanced wrench when they cannot (two point feet, a passive joint).
        margin: smallest ``mu f_n - |f_t|`` over the stance feet [N]: negative where the balance would take a pull
            or a slip; inf without stance feet.
    """

    tau: Array
    forces: Mapping[str, Array]
    residual: float
    margin: float


def gravity_compensation(
    s: State,
    stance: Iterable[str] | None = None,
    *,
    acceleration: Array | None = None,
    friction: float = 0.6,
    rank_tolerance: float = 1e-8,
) -> Compensation:
    """Torques that balance h (gravity, and Coriolis terms where ``v != 0``) through the stance feet.

    The rows without an actuator (the root's six or three, and passive joints) leave only the contact forces to
    do the balancing, ``sum_i J_i^T f_i = M a + h``.  Of all forces that do, those of least
    ``sum_i f_n^2 + |f_t|^2 / mu^2`` are taken: on level ground, purely vertical ones.  If none do, the unbalanced
    rest is least in the metric of the inertia, as in Gauss's principle of least constraint.  The actuated rows
    then give tau.  Source: Righetti, Buchli, Mistry, Schaal 2011, "Inverse dynamics control of floating-base robots
    with external constraints"; Gauss 1829.

    Cones are not enforced: ``margin`` tells whether the answer lies inside them.  A fixed root needs no forces
    and gets none.

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
    robot = s.robot
    feet = robot.feet if stance is None else tuple(stance)
    for foot in feet:
        if foot not in robot.feet:
            raise UnknownNameError("foot", foot, robot.feet)
    if len(set(feet)) != len(feet):
        raise ArgumentError(f"stance: every foot once, got {feet}")
    if not (np.isfinite(friction) and friction > 0.0):
        raise ArgumentError(f"friction: expected a positive coefficient, got {friction}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(f"rank_tolerance: expected a share of the largest singular value, got {rank_tolerance}")

    load = s.h.copy()
    if acceleration is not None:
        acceleration = np.asarray(acceleration, dtype=np.float64)
        if acceleration.shape != (robot.nv,) or not np.isfinite(acceleration).all():
            raise ArgumentError(f"acceleration: expected {robot.nv} finite numbers, got {acceleration}")
        load += s.M @ acceleration
    unactuated = np.ones(robot.nv, dtype=bool)
    unactuated[robot.actuated_index] = False
    free = np.flatnonzero(unactuated)
    f = np.zeros(3 * len(feet))
    if len(free) and len(feet):
        J = np.vstack([s.jacobian(foot)[:3] for foot in feet])
        scale = np.array((friction, friction, 1.0) * len(feet))  # f = scale * y, |y| least
        L = np.linalg.cholesky(s.M[np.ix_(free, free)])
        rows = np.linalg.solve(L, np.column_stack((J[:, free].T * scale, load[free])))
        f = scale * np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=rank_tolerance)[0]
        load -= J.T @ f
    forces = {foot: f[3 * i : 3 * i + 3] for i, foot in enumerate(feet)}
    return Compensation(
        tau=load[robot.actuated_index],
        forces=forces,
        residual=float(np.abs(load[free]).max(initial=0.0)),
        margin=min((friction * f_n - float(np.hypot(x, y)) for x, y, f_n in forces.values()), default=np.inf),
    )
