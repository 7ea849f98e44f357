"""Null space of the parameters from the joint axes: inertia that can move from a body to its parent, joint by joint.

No state is sampled here: the rules follow from the joint axes alone, so that they check the numeric rank
independently.  They hold for every joint type, for prismatic joints and for axes parallel to the first one, where rules
given as tables have gaps.

Source: Wensing, Niemeyer, Slotine, *A geometric characterization of observability in inertial parameter
identification* (2017, arXiv:1711.03896), the recursive parameter nullspace algorithm; rotor inertias are added here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentTypeError
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .base_parameters import BaseParameters


@dataclass(frozen=True, slots=True, eq=False)
class Grouping(FrozenArrays):
    """Null space of the parameters: the changes that no motion can reveal, from the joint axes.

    Attributes:
        columns: number n of parameters.
        null_space: (n, d) orthonormal parameter changes that leave the torques of every motion unchanged; each row
            in the unit of its parameter.
        by_body: number of these changes that are due to the joint of each body, by body name.
    """

    columns: int
    null_space: Array
    by_body: dict[str, int]

    @property
    def rank(self) -> int:
        """Number of base parameters."""
        return self.columns - len(self.null_space.T)

    def disagreement(self, base: BaseParameters) -> float:
        """Compares the null space with that of numerically computed base parameters; 0 if they are equal.

        Args:
            base: base parameters of the same robot and parameters.

        Returns:
            Sine of the largest angle between the two null spaces; inf where their dimensions differ.
        """
        if self.rank != base.size:
            return np.inf
        Q = np.linalg.qr(base.K.T)[0]  # changes that motions reveal; the null space must be orthogonal to them
        return float(np.linalg.norm(Q.T @ self.null_space, 2)) if self.null_space.size and Q.size else 0.0


def group_by_rule(robot: Robot, *, inertial: bool = False, tolerance: float = 1e-9) -> Grouping:
    """Computes the null space of the parameters of a robot from its joint axes.

    A change of a body's inertia has no effect if the opposite change of its parent compensates for it: if it puts no
    momentum on the joint's axis, for any velocity that the parent can have, and if moving the joint does not change its
    effect on the parent.  The velocities that a parent can have form a subspace, computed from the base outwards;
    gravity is an acceleration of the world, hence one of them.

    Args:
        robot: any robot.
        inertial: whether to use ten parameters per body instead of 13.
        tolerance: threshold of the singular values of each small matrix, relative to the largest.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    robot.reject_coupled_joints("base parameters")
    width = N_INERTIAL_COLUMNS if inertial else N_COLUMNS
    n = width * len(robot.bodies)
    gravity = robot.model.gravity.linear
    world = np.zeros((6, 0))
    if gravity.any():
        world = np.concatenate([gravity / np.linalg.norm(gravity), np.zeros(3)])[:, None]
    spans: list[Array] = []  # for each body, a basis of the velocities that it can have, in its own frame
    null, by_body = [], {}
    for i, body in enumerate(robot.bodies):
        Phi = _motion_subspace(body, robot.root)
        X = _transform_from_parent(body)
        before = _invariant_closure(X @ (world if body.parent < 0 else spans[body.parent]), Phi, tolerance)
        spans.append(_span(np.hstack([before, Phi]), tolerance))
        if body.parent < 0 and not Phi.shape[1]:  # fixed to the world
            free = np.eye(N_INERTIAL_COLUMNS + 1)[:, :N_INERTIAL_COLUMNS]
        else:
            free = _unobservable_changes(
                before, Phi, rotor=not inertial and Phi.shape[1] == 1 and body.parent >= 0, tol=tolerance
            )
        by_body[body.name] = free.shape[1]
        for change in free.T:
            parameter_change = np.zeros((len(robot.bodies), width))
            parameter_change[i, :N_INERTIAL_COLUMNS] = change[:N_INERTIAL_COLUMNS]
            if not inertial:
                parameter_change[i, N_COLUMNS - 1] = change[N_INERTIAL_COLUMNS]
            if body.parent >= 0:
                inertia_in_parent = X.T @ np.tensordot(change[:N_INERTIAL_COLUMNS], UNIT_INERTIAS, 1) @ X
                parameter_change[body.parent, :N_INERTIAL_COLUMNS] -= _parameters(inertia_in_parent)
            null.append(parameter_change.ravel())
        if not inertial:  # the base and joints of several degrees of freedom have no joint parameters
            for k in range(N_INERTIAL_COLUMNS, N_COLUMNS):
                if body.parent < 0 or Phi.shape[1] != 1:
                    by_body[body.name] += 1
                    null.append(np.eye(n)[width * i + k])
    basis = np.linalg.qr(np.array(null).T)[0] if null else np.zeros((n, 0))
    return Grouping(n, basis, by_body)


def _unobservable_changes(before: Array, Phi: Array, *, rotor: bool, tol: float) -> Array:
    """Returns the changes of a body that an opposite change of its parent compensates.

    Args:
        before: (6, k) basis of the velocities of the body that its parent can cause.
        Phi: (6, dof) motion subspace of the joint.
        rotor: whether the joint has a rotor inertia.
        tol: relative tolerance of the rank.

    Returns:
        (11, d) changes of the ten inertial parameters and the rotor inertia.
    """
    pairs = np.triu_indices(before.shape[1])
    joint_crosses = [_cross(phi) for phi in Phi.T]
    conditions = []
    for G in UNIT_INERTIAS:
        on_axes = Phi.T @ G @ np.hstack([Phi, before])
        # Derivative of the inertia seen by the parent with respect to the joint coordinate, d/dq X^T G X.
        derivatives = [(before.T @ (G @ cross + cross.T @ G) @ before)[pairs] for cross in joint_crosses]
        conditions.append(np.concatenate([on_axes.ravel(), *derivatives]))
    rotor_condition = np.zeros_like(conditions[0])
    rotor_condition[0] = 1.0
    A = np.array([*conditions, rotor_condition]).T
    if not rotor:
        A = np.vstack([A, np.eye(N_INERTIAL_COLUMNS + 1)[-1]])
    scale = np.linalg.norm(A, axis=1)
    A = A[scale > tol * max(scale.max(initial=0.0), 1e-300)]
    _, sigma, Vt = np.linalg.svd(A)
    return np.asarray(Vt[np.count_nonzero(sigma > tol * sigma.max(initial=0.0)) :].T)


def _motion_subspace(body: CompositeBody, root: str) -> Array:
    """Returns the motion subspace (6, dof) of the joint of a body, linear before angular, in the frame of the body."""
    eye = np.eye(6)
    if body.joint is None:
        return {"free": eye, "planar": eye[:, [0, 2, 4]], "fixed": eye[:, :0]}[root]
    axis, zero = body.joint.axis / np.linalg.norm(body.joint.axis), np.zeros(3)
    kind = body.joint.type
    if kind == "floating":
        return eye
    if kind == "prismatic":
        return np.concatenate([axis, zero])[:, None]
    rotation = np.concatenate([zero, axis])[:, None]
    if kind == "planar":
        normals = np.linalg.svd(axis[None])[2][1:].T
        return np.hstack([np.vstack([normals, np.zeros((3, 2))]), rotation])
    return rotation


def _transform_from_parent(body: CompositeBody) -> Array:
    """Returns the motion transform (6, 6) from the frame of the parent to that of the body, with the joint at zero."""
    Rt, p = body.placement.rotation.T, body.placement.translation
    return np.block([[Rt, -Rt @ _skew(p)], [np.zeros((3, 3)), Rt]])


def _invariant_closure(V: Array, Phi: Array, tolerance: float) -> Array:
    """Returns a basis of the smallest subspace that contains V and is invariant under every motion of the joint."""
    V = _span(V, tolerance)
    while True:
        extended = _span(np.hstack([V, *(_cross(phi) @ V for phi in Phi.T)]), tolerance)
        if extended.shape[1] == V.shape[1]:
            return extended
        V = extended


def _span(V: Array, tolerance: float) -> Array:
    """Returns an orthonormal basis of the span of the columns of V."""
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    return np.asarray(U[:, sigma > tolerance * sigma.max(initial=0.0)])


def _skew(p: Array) -> Array:
    """Returns the matrix (3, 3) of the cross product with p."""
    x, y, z = p
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _cross(twist: Array) -> Array:
    """Returns the motion cross product (6, 6) of a twist (linear, angular)."""
    v, w = _skew(twist[:3]), _skew(twist[3:])
    return np.block([[w, v], [np.zeros((3, 3)), w]])


def _parameters(G: Array) -> Array:
    """Returns the inertial parameters (10,) of a spatial inertia (6, 6), linear before angular."""
    return np.array([*G[3:, 3:][np.triu_indices(3)], G[5, 1], G[3, 2], G[4, 0], G[0, 0]])


def _units() -> Array:
    """Returns the spatial inertias (10, 6, 6) of the unit parameters ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]``."""
    out = np.zeros((N_INERTIAL_COLUMNS, 6, 6))
    for k, (row, column) in enumerate(zip(*np.triu_indices(3), strict=True)):
        out[k, 3 + row, 3 + column] = out[k, 3 + column, 3 + row] = 1.0
    for k in range(3):
        H = _skew(np.eye(3)[k])
        out[6 + k, :3, 3:], out[6 + k, 3:, :3] = -H, H
    out[9, :3, :3] = np.eye(3)
    return out


UNIT_INERTIAS = _units()
