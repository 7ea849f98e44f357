"""`Motors`: torques and speeds of the motors behind a robot's joints, through gears, couplings and closed loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArgumentError, ModelError
from ..urdf.tree import Array, frozen
from .arguments import check_vector

if TYPE_CHECKING:
    from .robot import Robot


class Motors:
    """The motors of a robot, one for each entry of a torque vector.

    A motor turns a joint, ``reduction`` times as fast: that of ``robot.actuated``, or the one in place of it that a
    ``<transmission>`` names among the joints that follow it, such as the crank of a four-bar knee.  With the rows G_m
    of `Tangent.G` of these joints and the reductions N, motors turn at ``N G_m v``, and from equal power the torques of
    ``robot.actuated`` are ``(N G_m)^T tau_m``.  Friction and rotors are left out: these belong to the dynamics.

    Args:
        robot: the robot.

    Attributes:
        joints: (nu,) names of the joints that the motors turn.
        reductions: (nu,) N, negative where motor and joint turn opposite ways; 1 where the file says nothing.

    Raises:
        ModelError: a motor on a linkage that also moves a joint without a motor, whose torque the motor would change.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot, coupling = robot, robot.coupling
        told = {each.joint: each.reduction for each in robot.tree.transmissions}
        entries = {robot.model.names[i]: int(robot.model.joints[i].idx_v) for i in range(1, robot.model.njoints)}
        behind = [] if coupling is None else [name for name in coupling.followers if name in told]
        joints: list[str] = []
        for name, own in zip(robot.actuated, robot.actuated_index.tolist(), strict=True):
            for other in behind if coupling is not None and name not in told else ():
                movers = coupling.chain([entries[other]]) if coupling is not None else []
                if own in movers and other not in joints:
                    if left := set(movers) - set(robot.actuated_index.tolist()):
                        free = next(x for x in robot.joint_names if robot.velocity_index(x) in left)
                        raise ModelError(f"motors: the motor of joint {other!r} also moves {free!r}, which has none")
                    joints.append(other)
                    break
            else:
                joints.append(name)
        self.joints: tuple[str, ...] = tuple(joints)
        self.reductions: Array = frozen([told.get(name, 1.0) for name in joints])
        self._rows = np.array([entries[name] for name in joints], dtype=np.intp)

    def to_motors(self, q: Array, tau: Array) -> Array:
        """(nu,) torques of the motors [N m] that give those of the joints.

        Args:
            q: (nq,) configuration.
            tau: (nu,) torques of ``robot.actuated`` [N m].

        Raises:
            ArgumentError: a wrong shape, or a linkage at a dead point, where its motor does not move the joint.
        """
        tau, map_ = check_vector("tau", tau, (self._robot.nu,), "the actuated joints"), self._map(q)
        try:
            found = np.linalg.solve(map_.T, tau)
        except np.linalg.LinAlgError:
            found = np.full(len(tau), np.nan)
        if not np.isfinite(found).all():
            raise ArgumentError("q: a linkage is at a dead point there, where its motor gives its joint no torque")
        return np.asarray(found)

    def to_joints(self, q: Array, tau: Array) -> Array:
        """(nu,) torques of ``robot.actuated`` [N m] under those of the motors.

        Args:
            q: (nq,) configuration.
            tau: (nu,) torques of the motors [N m].
        """
        return np.asarray(self._map(q).T @ check_vector("tau", tau, (self._robot.nu,), "the motors"))

    def speeds(self, q: Array, v: Array) -> Array:
        """(nu,) of the motors [rad/s] at q (nq,) and v (nv,)."""
        v = check_vector("v", v, (self._robot.nv,), "the robot")
        return np.asarray(self._map(q) @ v[self._robot.actuated_index])

    def _map(self, q: Array) -> Array:
        """(nu, nu) speeds of the motors at unit speeds of the actuated joints."""
        robot = self._robot
        q = check_vector("q", q, (robot.nq,), "the robot")
        if robot.coupling is None:
            return np.diag(self.reductions)
        robot.coupling.check(q)
        G = robot.coupling.at(q).G[np.ix_(self._rows, robot.actuated_index)]
        return np.asarray(self.reductions[:, None] * G)

    def __repr__(self) -> str:
        gears = zip(self.joints, self.reductions.tolist(), strict=True)
        return f"Motors({self._robot.name!r}: {', '.join(f'{name} 1:{reduction:g}' for name, reduction in gears)})"
