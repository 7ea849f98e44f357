"""`Motors`: torques and speeds of the motors that drive a robot's joints through gears, couplings and closed loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ModelError
from ..urdf.tree import Array, Transmission, frozen
from .arguments import check_vector
from .coupling import Index, MimicCoupling

if TYPE_CHECKING:
    from .loops import LoopCoupling


class Motors:
    """The motors of a robot, one for each entry of a torque vector.

    Each motor turns one joint, ``reduction`` times as fast: by default the joint of its entry in ``robot.actuated``.  A
    ``<transmission>`` may name a dependent joint instead, such as the crank of a four-bar knee.  Two motors turn two
    joints together where a transmission is a differential or a belt past a joint.  With the rows G_m of `Tangent.G` of
    these joints and the ratios N, motors turn at ``N G_m v``, and from equal power the torques of ``robot.actuated``
    are ``(N G_m)^T tau_m``.  Friction and rotors are left out: these belong to the dynamics.

    Made by `Robot.motors`.

    Args:
        model: the model of all joints, dependent ones included.
        coupling: the map from independent to all joints of the robot.
        transmissions: the transmissions of the robot's file.
        actuated: (nu,) names of the actuated joints.
        index: (nu,) their entries of v.

    Attributes:
        joints: (nu,) names of the joints that the motors turn.
        ratios: (nu, nu) N: how many times as fast as each of these joints a motor turns.
        reductions: (nu,) the diagonal of `ratios`, negative if motor and joint turn in opposite directions; 1
            without a value in the file.

    Raises:
        ModelError: a motor on a linkage that also moves a joint without a motor, whose torque the motor would change.
    """

    def __init__(
        self,
        model: pin.Model,
        coupling: MimicCoupling | LoopCoupling | None,
        transmissions: Sequence[Transmission],
        actuated: Sequence[str],
        index: Index,
    ) -> None:
        self._coupling, self._index = coupling, index
        self._nq: int = model.nq if coupling is None else len(coupling.q_index)
        self._nv: int = model.nv if coupling is None else len(coupling.v_index)
        ratio_by_joint = {
            transmission.joints[0]: transmission.ratios[0][0]
            for transmission in transmissions
            if len(transmission.joints) == 1
        }
        velocity_index = {model.names[i]: int(model.joints[i].idx_v) for i in range(1, model.njoints)}
        joints = list(actuated)
        if coupling is not None:
            _assign_to_followers(joints, velocity_index, coupling, ratio_by_joint, index)
        self.joints: tuple[str, ...] = tuple(joints)
        ratios = np.diag([ratio_by_joint.get(name, 1.0) for name in joints])
        for transmission in transmissions:
            if len(transmission.joints) > 1:
                _set_coupled_ratios(ratios, joints, transmission)
        self.ratios: Array = frozen(ratios)
        self.reductions: Array = frozen(ratios.diagonal())
        self._rows = np.array([velocity_index[name] for name in joints], dtype=np.intp)

    def to_motors(self, q: Array, tau: Array) -> Array:
        """Returns the motor torques (nu,) [N m] that produce given joint torques.

        Args:
            q: (nq,) configuration.
            tau: (nu,) torques of ``robot.actuated`` [N m].

        Raises:
            ArgumentError: a wrong shape, or a linkage at a dead point, where its motor does not move the joint.
        """
        tau, motor_matrix = check_vector("tau", tau, (len(self.joints),), "the actuated joints"), self.matrix(q)
        try:
            solution = np.linalg.solve(motor_matrix.T, tau)
        except np.linalg.LinAlgError:
            solution = np.full(len(tau), np.nan)
        if not np.isfinite(solution).all():
            raise ArgumentError(
                "q: at this configuration a linkage is at a dead point, where its motor cannot produce torque at its "
                "joint; pass another q"
            )
        return np.asarray(solution)

    def to_joints(self, q: Array, tau: Array) -> Array:
        """Returns the torques (nu,) of ``robot.actuated`` [N m] for given motor torques.

        Args:
            q: (nq,) configuration.
            tau: (nu,) torques of the motors [N m].
        """
        return np.asarray(self.matrix(q).T @ check_vector("tau", tau, (len(self.joints),), "the motors"))

    def speeds(self, q: Array, v: Array) -> Array:
        """Returns the motor speeds (nu,) [rad/s] at q (nq,) and v (nv,)."""
        v = check_vector("v", v, (self._nv,), "the robot")
        return np.asarray(self.matrix(q) @ v[self._index])

    def matrix(self, q: Array) -> Array:
        """Returns the motor speeds at unit speeds of the actuated joints, ``N G_m`` (nu, nu), at q (nq,)."""
        q = check_vector("q", q, (self._nq,), "the robot")
        if self._coupling is None:
            return np.array(self.ratios)
        self._coupling.check(q)
        G = self._coupling.at(q).G[np.ix_(self._rows, self._index)]
        return np.asarray(self.ratios @ G)

    def __repr__(self) -> str:
        descriptions = []
        for name, reduction, row in zip(self.joints, self.reductions.tolist(), self.ratios.tolist(), strict=True):
            other_terms = [f"{x:+g} {other}" for other, x in zip(self.joints, row, strict=True) if x and other != name]
            descriptions.append(" ".join([f"{name} 1:{reduction:g}", *other_terms]))
        return f"Motors({', '.join(descriptions)})"


def _set_coupled_ratios(ratios: Array, joints: Sequence[str], pair: Transmission) -> None:
    """Writes the ratios of motors that drive several joints together."""
    actuated_joints = [joint for joint in pair.joints if joint in joints]
    if not actuated_joints:
        return
    if len(actuated_joints) < len(pair.joints):
        passive_joint = next(joint for joint in pair.joints if joint not in joints)
        raise ModelError(
            f"motors: the transmission of joint {actuated_joints[0]!r} also moves joint {passive_joint!r}, which is "
            "not actuated; name both or neither in actuated="
        )
    indices = [joints.index(joint) for joint in pair.joints]
    ratios[np.ix_(indices, indices)] = pair.ratios


def _assign_to_followers(
    joints: list[str],
    velocity_index: dict[str, int],
    coupling: MimicCoupling | LoopCoupling,
    ratio_by_joint: dict[str, float],
    index: Index,
) -> None:
    """Replaces joints without a transmission by those that follow them and have one."""
    joint_by_index, actuated_indices = {i: name for name, i in velocity_index.items()}, index.tolist()
    for follower in [name for name in coupling.followers if name in ratio_by_joint]:
        movers = coupling.chain([velocity_index[follower]])
        candidates = [
            k
            for k, index_in_v in enumerate(actuated_indices)
            if index_in_v in movers and joints[k] not in ratio_by_joint
        ]
        if candidates:
            if unactuated := set(movers) - set(actuated_indices):
                unactuated_joint = joint_by_index[int(coupling.v_index[min(unactuated)])]
                raise ModelError(
                    f"motors: the motor of joint {follower!r} also moves joint {unactuated_joint!r}, which is not "
                    "actuated; add it to actuated="
                )
            joints[candidates[0]] = follower
