"""Tracing of the rigid-body terms of a control tick over a mechanism, all in one recursion, branch by branch.

The downward pass computes orientations and motions, the upward pass forces and composite bodies: bias forces, the
columns of M and the center-of-mass terms follow from the same values.  Gravity acts on composite bodies as their
weight, not as an acceleration of the world, so that motions are those at ``a = 0``, from which drifts follow.

Sources: Featherstone, *Rigid Body Dynamics Algorithms*, 2008, chapters 5, 6; Orin, Goswami and Lee, *Centroidal
dynamics of a humanoid robot*, 2013 (the centroidal momentum matrix from composite bodies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .graph import Expr, Graph, Vector, cross, plus, total
from .kinematics import FramePlacement, jacobian_and_origin, path_from_root
from .mechanism import COORDINATE_COUNTS, GRAVITY, N_INERTIAL_PARAMETERS, Mechanism, group_inertias
from .parameters import constant_parameters
from .rnea import (
    BodyMotion,
    Matrix,
    Wrench,
    add_to_parent,
    add_wrenches,
    dot,
    inertial_wrench,
    joint_forces,
    joint_placements,
    link_inertias,
    propagate_motion,
    times,
    unit_wrenches,
    world_motion,
    wrench_in_parent,
    wrenches_to_root,
)


@dataclass(frozen=True, eq=False)
class FrameTerms:
    """Terms of a frame: rotation by rows, origin, velocity, drift, and Jacobian by rows over its chain."""

    rotation: Matrix
    origin: Vector
    velocity: Vector
    drift: Vector
    jacobian: Matrix


def moving_velocity_indices(mechanism: Mechanism, link: int) -> list[int]:
    """Returns the entries of v that move a body, ascending; none for the world."""
    links = [mechanism.links[i] for i in path_from_root(mechanism, link)]
    return sorted(x.v + k for x in links for k in range(COORDINATE_COUNTS[x.kind][1]))


class TermTracer:
    """Expressions of the rigid-body terms of a mechanism and its frames at (q, v), recorded in a graph.

    Args:
        graph: records the operations.
        mechanism: the robot.
        q: nq expressions.
        v: nv expressions.
        drift: nv expressions, accelerations of all joints if those of the robot's coordinates are zero.
        frames: placements by name.

    Attributes:
        M: (nv, nv) joint-space inertia.
        h: (nv,) bias forces.
        frames: terms by name.
        mass: mass of all moving bodies, in the mechanism's unit.
    """

    def __init__(
        self,
        graph: Graph,
        mechanism: Mechanism,
        q: Sequence[Expr],
        v: Sequence[Expr],
        drift: Sequence[Expr],
        frames: Mapping[str, FramePlacement],
    ) -> None:
        self.graph, self.mechanism, self.v, self.drift = graph, mechanism, list(v), list(drift)
        self.at, self.parameters = joint_placements(graph, mechanism, q), constant_parameters(graph, mechanism)
        zero, n = graph.constant(0.0), mechanism.nv
        self.M = [[zero] * n for _ in range(n)]
        self.h = [zero] * n
        self.frames: dict[str, FrameTerms] = {}
        self._frame_placements = frames
        self._bodies = link_inertias(self.parameters.inertia)  # composite once all below is visited
        self._axes: dict[int, Matrix] = {}
        #: By root the wrench of its joint at a = 0 without gravity; by entry of v the momentum at its unit speed.
        self._root_wrenches: dict[int, Wrench] = {}
        self._momenta: dict[int, tuple[int, Wrench]] = {}
        one = graph.constant(1.0)
        aligned = [[one if i == j else zero for j in range(3)] for i in range(3)]
        ground = world_motion(graph, 0.0, mechanism.length)
        self._trace_frames(-1, aligned, ground)
        for i, link in enumerate(mechanism.links):
            if link.parent < 0:
                self._root_wrenches[i] = self._visit(i, aligned, ground)
        world_fixed = np.zeros(N_INERTIAL_PARAMETERS)  # what grouping left to the world
        group_inertias(mechanism.links, np.array([link.inertia for link in mechanism.links]), world_fixed)
        self._world_fixed_inertia: list[float] = world_fixed.tolist()
        self._masses = {i: self._bodies[i][0].number or 0.0 for i in self._root_wrenches}
        self.mass = sum(self._masses.values(), self._world_fixed_inertia[0])

    # -- one body ------------------------------------------------------------------------------------------------
    def _visit(self, i: int, above: Matrix, motion_above: BodyMotion) -> Wrench:
        """Traverses the subtree of body i; returns the wrench that its joint carries, about its origin in its axes."""
        mechanism, at = self.mechanism, self.at
        link, R, r, L = mechanism.links[i], at.rotations[i], at.origins[i], mechanism.length
        axes = self._axes[i] = [R.to_child(row) for row in above]
        motion = propagate_motion(self.graph, link, motion_above, R, r, self.v, self.drift, L)
        self._trace_frames(i, axes, motion)
        wrench = inertial_wrench(motion, self.parameters.inertia[i])
        for c in mechanism.children[i]:
            wrench = add_wrenches(
                wrench, wrench_in_parent(at.rotations[c], at.origins[c], self._visit(c, axes, motion))
            )
        self._add_inertia_and_bias(i, wrench)
        add_to_parent(mechanism, at, self._bodies, i)
        return wrench

    def _add_inertia_and_bias(self, i: int, wrench: Wrench) -> None:
        """Computes the entries of M and h of joint i, from its composite body and the wrench of that body's motion."""
        mechanism, armature = self.mechanism, self.parameters.armature[i]
        link, (m, first, _), L = mechanism.links[i], self._bodies[i], mechanism.length
        up = [x * (GRAVITY / L) for x in self._axes[i][2]]
        weight = [m * x for x in up], cross(first, up)
        for k, x in joint_forces(link, *add_wrenches(wrench, weight), L):
            self.h[k] = x
        for column, unit in enumerate(unit_wrenches(self.graph, link, self._bodies[i], L), start=link.v):
            for k, here in wrenches_to_root(mechanism, self.at, i, unit):
                for row, x in joint_forces(mechanism.links[k], *here, L):
                    if row <= column:
                        self.M[row][column] = self.M[column][row] = x
                self._momenta[column] = k, here  # the last one is the root
        if COORDINATE_COUNTS[link.kind][1] == 1:
            self.M[link.v][link.v] = self.M[link.v][link.v] + armature
            self.h[link.v] = self.h[link.v] + armature * self.drift[link.v]

    def _trace_frames(self, i: int, axes: Matrix, motion: BodyMotion) -> None:
        """Computes the terms of the frames on body i."""
        graph, L = self.graph, self.mechanism.length
        moving = moving_velocity_indices(self.mechanism, i)
        for name, placement in self._frame_placements.items():
            if placement.link != i:
                continue
            J, origin = jacobian_and_origin(graph, self.mechanism, self.at, placement)
            J = [[row[k] for k in moving] for row in J]
            rotation = [[graph.constant(x) for x in column] for column in placement.rotation.T.tolist()]
            point = [graph.constant(x) for x in placement.point.tolist()]
            linear = [x * L for x in plus(motion.a, times(motion.U, point))]
            self.frames[name] = FrameTerms(
                [[dot(row, column) for column in rotation] for row in axes],
                [x * L for x in origin],
                product(J, [self.v[k] for k in moving], graph.zero),
                [*times(axes, linear), *times(axes, motion.dw)],
                J,
            )

    # -- the whole -----------------------------------------------------------------------------------------------
    def com(self) -> Vector:
        """Returns the center of mass (3,), world axes [m]."""
        out = [self.graph.constant(x * self._per_mass) for x in self._world_fixed_inertia[1:4]]
        for root, arm in self._com_arms.items():
            scale = self.mechanism.length * self._masses[root] / self.mass
            out = plus(out, plus([x * scale for x in self.at.origins[root]], arm))
        return out

    def com_velocity(self) -> Vector:
        """Returns the velocity (3,) of the center of mass, world axes."""
        out = [self.graph.zero] * 3
        for root in self._root_wrenches:
            momentum = [self.graph.zero] * 3
            for k, (of, unit) in sorted(self._momenta.items()):
                if of == root:
                    momentum = plus(momentum, [x * self.v[k] for x in unit[0]])
            out = plus(out, self._per_mass_in_world(root, momentum))
        return out

    def com_jacobian(self) -> Matrix:
        """Returns the Jacobian (3, nv) of the center of mass by rows, world axes."""
        columns = [self._per_mass_in_world(root, unit[0]) for _, (root, unit) in sorted(self._momenta.items())]
        return [list(row) for row in zip(*columns, strict=True)]

    def com_drift(self) -> Vector:
        """Returns the acceleration (3,) of the center of mass at ``a = 0``, world axes."""
        out = [self.graph.zero] * 3
        for root, wrench in self._root_wrenches.items():
            out = plus(out, self._per_mass_in_world(root, wrench[0]))
        return out

    def momentum(self) -> tuple[Vector, Matrix, Vector]:
        """Returns centroidal momentum (6,), its matrix A (6, nv) by rows, and dA/dt v (6,).

        Linear before angular, world axes.
        """
        if list(self._masses.values()) == [self.mass]:
            origins = {root: [-x for x in arm] for root, arm in self._com_arms.items()}
        else:
            com, L = self.com(), self.mechanism.length
            origins = {
                root: [x * L - c for x, c in zip(self.at.origins[root], com, strict=True)] for root in self._com_arms
            }

        def about_com(root: int, about_root: Wrench) -> Vector:
            f = [x * (1.0 / self.mechanism.length) for x in times(self._axes[root], about_root[0])]
            return [*f, *plus(times(self._axes[root], about_root[1]), cross(origins[root], f))]

        columns = [about_com(*momentum) for _, momentum in sorted(self._momenta.items())]
        A = [list(row) for row in zip(*columns, strict=True)]
        change = [self.graph.zero] * 6
        for root, wrench in self._root_wrenches.items():
            change = plus(change, about_com(root, wrench))
        return product(A, self.v, self.graph.zero), A, change

    @property
    def _per_mass(self) -> float:
        return self.mechanism.length / self.mass

    @cached_property
    def _com_arms(self) -> dict[int, Vector]:
        """By root its subtree's part of the center of mass, from the root's origin, world axes [m]."""
        return {i: self._per_mass_in_world(i, self._bodies[i][1]) for i in self._root_wrenches}

    def _per_mass_in_world(self, root: int, x: Sequence[Expr]) -> Vector:
        """Returns first moments, momentum or force of a root's subtree, divided by the total mass, in world axes."""
        return [y * self._per_mass for y in times(self._axes[root], x)]


def product(A: Sequence[Sequence[Expr]], x: Sequence[Expr], zero: Expr) -> Vector:
    """Returns ``A x`` of any size."""
    return [total((a * b for a, b in zip(row, x, strict=True)), zero) for row in A]
