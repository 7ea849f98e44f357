"""A reference robot with closed loops: Lagrange's multipliers on the open tree, and nothing eliminated beforehand.

With ``K V = 0`` for the velocities V of all joints of the closed loops, motion obeys

    M A + h = S^T tau + K^T lambda,   K A = -dK/dt V

(Featherstone, RBDA 2008, section 8.3).  Forward dynamics solves for A and lambda together; inverse dynamics finds the A
that the independent joints' a demand, then the lambda that spares the dependent joints any torque.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ..errors import ModelError
from . import frames
from .algebra import Array
from .loop_reader import LoopDescription
from .reference import Forces, Reference, ReferenceEnergy

#: Steps of this size lead from home to a configuration [rad or m], each with so many iterations of Newton's; the last
#: one has more.  A step that moves a dependent joint further than by `MAX_BRANCH_JUMP` is halved: it may lead to
#: another branch.
MAX_STEP, NEWTON_ITERATIONS, LAST_NEWTON_ITERATIONS, MAX_BRANCH_JUMP = 0.05, 3, 6, 0.2
#: Share of the largest singular value of K below which its rows say the same.
RANK_TOLERANCE = 1e-9
#: One over the condition number of the open tree's mass matrix from which on its accelerations have too few digits.
SINGULARITY_TOLERANCE = 1e-8


class ClosedReference:
    """The names of `Reference` in the coordinates of the independent joints.

    Args:
        tree: the open tree.
        loops: what closes it.
        home: coordinates at home, by joint, of all joints whose loops are closed there.
        dependent: names of the joints that follow.
        ranges: limits of joints, by name, where they are narrower than the file's.
        gears: joints that mimic others: the follower, the leader, multiplier and offset.
    """

    def __init__(
        self,
        tree: Reference,
        loops: Collection[LoopDescription],
        home: Mapping[str, float],
        dependent: Collection[str],
        ranges: Mapping[str, tuple[float, float]],
        gears: Collection[tuple[str, str, float, float]] = (),
    ) -> None:
        known = dict(tree.model.frames)
        for k, loop in enumerate(loops):
            for side, link, T in (("A", loop.link_a, loop.T_a), ("B", loop.link_b, loop.T_b)):
                if link not in known:
                    raise ModelError(f"reference: a loop ends at link {link!r}, which does not exist")
                body, place = known[link]
                known[f"loop {k} {side}"] = body, place @ T
        self.tree, self.loops, self.dependent = tree, tuple(loops), frozenset(dependent)
        self.tree.model = replace(tree.model, frames=known)
        self.model, self.home, self.ranges = tree.model, dict(home), dict(ranges)
        follow = [body for body in tree.model.bodies if body.joint in self.dependent]
        places = {body.joint: (body.q.start, body.v.start) for body in tree.model.bodies}
        self._gears = [(places[one], places[other], gear, bias) for one, other, gear, bias in gears]
        self._last: tuple[bytes, Array] = b"", np.zeros(0)
        self._z = np.array([body.v.start for body in follow], dtype=np.intp)
        self._z_q = np.array([body.q.start for body in follow], dtype=np.intp)
        self._y = np.setdiff1d(np.arange(tree.nv), self._z)
        self._y_q = np.setdiff1d(np.arange(tree.nq), self._z_q)

    @property
    def nq(self) -> int:
        """Size of q."""
        return len(self._y_q)

    @property
    def nv(self) -> int:
        """Size of v."""
        return len(self._y)

    # -- constraints -----------------------------------------------------------------------------------------
    def constraints(self, Q: Array) -> tuple[Array, Array]:
        """K (m, nv of the tree) and e (m,) where all joints are at Q."""
        rows, errors, at = [], [], self.tree.forward_kinematics(Q)
        for k, loop in enumerate(self.loops):
            ends = [self.model.frames[f"loop {k} {side}"] for side in "AB"]
            (A, J_A), (B, J_B) = (
                (frames.placement(at, end), frames.jacobian(at, end, "local_world_aligned")) for end in ends
            )
            rows.append(J_B[:3] - J_A[:3])
            errors.append(B[:3, 3] - A[:3, 3])
            turned = J_B[3:] - J_A[3:]
            if loop.kind == "revolute":
                rows.append(A[:3, :2].T @ turned)
                errors.append(A[:3, :2].T @ np.cross(A[:3, 2], B[:3, 2]))
            elif loop.kind == "weld":
                rows.append(turned)
                errors.append(0.5 * sum((np.cross(A[:3, i], B[:3, i]) for i in range(3)), np.zeros(3)))
        for (q, v), (q_leader, v_leader), gear, bias in self._gears:
            row = np.zeros((1, self.tree.nv))
            row[0, v], row[0, v_leader] = 1.0, -gear
            rows.append(row)
            errors.append(Q[q : q + 1] - gear * Q[q_leader : q_leader + 1] - bias)
        return np.vstack(rows), np.concatenate(errors)

    def drifts(self, Q: Array, V: Array) -> Array:
        """(m,) ``dK/dt V``."""
        out = []
        for k, loop in enumerate(self.loops):
            a, b = (self.tree.frame_drift(Q, V, f"loop {k} {side}") for side in "AB")
            out.append(b[:3] - a[:3])
            if loop.kind == "revolute":
                A = self.tree.frame_placement(Q, f"loop {k} A")[:3, :2]
                w_a, w_b = (self.tree.frame_velocity(Q, V, f"loop {k} {side}")[3:] for side in "AB")
                out.append(A.T @ (b[3:] - a[3:]) + np.cross(w_a, A.T) @ (w_b - w_a))
            elif loop.kind == "weld":
                out.append(b[3:] - a[3:])
        return np.concatenate([*out, np.zeros(len(self._gears))])

    def all_joints(self, q: Array) -> Array:
        """Q of all joints: from home in small steps, so that the branch is that of home."""
        key = np.asarray(q).tobytes()
        if self._last[0] == key:
            return self._last[1].copy()
        wanted = np.zeros(self.tree.nq)
        wanted[self._y_q] = q
        start = wanted.copy()
        for body in self.model.bodies:
            if body.joint in self.home:
                start[body.q] = self.home[body.joint]
        way = (wanted - start)[self._y_q]
        most = min(1.0, MAX_STEP / max(float(np.abs(way).max(initial=0.0)), MAX_STEP))
        done, step, Q = 0.0, most, start
        while done < 1.0:
            share = min(1.0, done + step)
            there = Q.copy()
            there[self._y_q] = wanted[self._y_q] if share == 1.0 else start[self._y_q] + share * way
            self._close(there, NEWTON_ITERATIONS if share < 1.0 else LAST_NEWTON_ITERATIONS)
            if np.abs(there - Q)[self._z_q].max(initial=0.0) > MAX_BRANCH_JUMP and step > most / 64:
                step *= 0.5
                continue
            done, step, Q = share, min(most, 2.0 * step), there
        self._last = key, Q.copy()
        return Q

    def _close(self, Q: Array, iterations: int) -> None:
        """Let the dependent joints of Q close the loops."""
        for _ in range(iterations):
            K, e = self.constraints(Q)
            Q[self._z_q] -= np.linalg.lstsq(K[:, self._z], e, rcond=RANK_TOLERANCE)[0]

    def map(self, Q: Array) -> Array:
        """G (nv of the tree, nv) with ``V = G v``: the normal equations, which complex steps pass through, refined."""
        K = self.constraints(Q)[0]
        z = K[:, self._z]
        G = np.zeros((self.tree.nv, self.nv), dtype=K.dtype)
        G[self._y, np.arange(self.nv)] = 1.0
        for _ in range(3):
            G[self._z] -= np.linalg.solve(z.T @ z, z.T @ (K @ G))
        return G

    def motion(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Q, V and A of all joints."""
        Q = self.all_joints(q)
        K = self.constraints(Q)[0]
        V, A = np.zeros(self.tree.nv), np.zeros(self.tree.nv)
        V[self._y], A[self._y] = v, a
        V[self._z] = np.linalg.lstsq(K[:, self._z], -K[:, self._y] @ v, rcond=RANK_TOLERANCE)[0]
        A[self._z] = np.linalg.lstsq(K[:, self._z], -self.drifts(Q, V) - K[:, self._y] @ a, rcond=RANK_TOLERANCE)[0]
        return Q, V, A

    def spared(self, Q: Array, f: Array) -> Array:
        """What of generalized forces f of all joints is left to the independent ones when multipliers take the rest."""
        K = self.constraints(Q)[0]
        multipliers = np.linalg.lstsq(K[:, self._z].T, f[self._z], rcond=RANK_TOLERANCE)[0]
        return np.asarray(f[self._y] - K[:, self._y].T @ multipliers)

    # -- configurations --------------------------------------------------------------------------------------
    def random_configuration(self, rng: np.random.Generator, *, beyond: float = 0.0) -> Array:
        """(nq,) random, joints of loops within their ranges."""
        Q = self.tree.random_configuration(rng, beyond=beyond)
        for body in self.model.bodies:
            if body.joint in self.ranges and body.joint not in self.dependent:
                low, high = self.ranges[body.joint]
                home = self.home[body.joint]
                ends = max(low, home - 2.0 * np.pi), min(high, home + 2.0 * np.pi)
                Q[body.q] = rng.uniform(*ends)
        return np.asarray(Q[self._y_q])

    # -- joint space -----------------------------------------------------------------------------------------
    def rnea(self, q: Array, v: Array, a: Array, *, fext: Forces | None = None) -> Array:
        """As of `Reference`."""
        Q, V, A = self.motion(q, v, a)
        return self.spared(Q, self.tree.rnea(Q, V, A, fext=fext))

    def nle(self, q: Array, v: Array) -> Array:
        """As of `Reference`."""
        return self.rnea(q, v, np.zeros(self.nv))

    def gravity(self, q: Array) -> Array:
        """As of `Reference`."""
        return self.rnea(q, np.zeros(self.nv), np.zeros(self.nv))

    def crba(self, q: Array) -> Array:
        """As of `Reference`: the forces of unit accelerations, at rest and without weight."""
        Q = self.all_joints(q)
        return self.spared(Q, self.tree.crba(Q) @ self.map(Q))

    def aba(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """As of `Reference`: accelerations and multipliers together."""
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        K = self.constraints(Q)[0]
        force = -self.tree.rnea(Q, V, np.zeros(self.tree.nv), fext=fext)
        force[self._y] += tau
        return self._forward(Q, K, force, -self.drifts(Q, V))[self._y]

    def lie_group(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """As of `Reference`: what the open tree does, and impulses that close it (Delassus' matrix).

        Only where `has_lie_group`: an open tree with a body without mass at its end has no accelerations.
        """
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        K, force = self.constraints(Q)[0], np.zeros(self.tree.nv)
        force[self._y] = tau
        free = self.tree.lie_group(Q, V, force, fext=fext)
        inverse = self.tree.mass_inverse(Q)
        wrong = -self.drifts(Q, V) - K @ free
        multipliers = np.linalg.lstsq(K @ inverse @ K.T, wrong, rcond=RANK_TOLERANCE)[0]
        return np.asarray((free + inverse @ K.T @ multipliers)[self._y])

    def has_lie_group(self, q: Array) -> bool:
        """Whether `lie_group` is defined: whether the mass matrix of the open tree can be inverted well."""
        return bool(np.linalg.cond(self.tree.crba(self.all_joints(q))) < 1.0 / SINGULARITY_TOLERANCE)

    def conditioning(self, q: Array) -> float:
        """As of `Reference`: of M, of the system with the multipliers, and of the open tree where it is inverted."""
        Q = self.all_joints(q)
        systems = [self.crba(q), self._system(Q, self.constraints(Q)[0])[0]]
        if self.has_lie_group(q):
            systems.append(self.tree.crba(Q))
        return float(max(np.linalg.cond(system) for system in systems))

    def mass_inverse(self, q: Array) -> Array:
        """As of `Reference`: accelerations of unit torques."""
        Q = self.all_joints(q)
        K, units = self.constraints(Q)[0], np.zeros((self.tree.nv, self.nv))
        units[self._y, np.arange(self.nv)] = 1.0
        return self._forward(Q, K, units, np.zeros((len(K), self.nv)))[self._y]

    def _forward(self, Q: Array, K: Array, force: Array, wanted: Array) -> Array:
        """A of ``M A - K^T lambda = force`` and ``K A = wanted``; rows of K that say the same are taken as one."""
        system, U = self._system(Q, K)
        return np.asarray(np.linalg.solve(system, np.concatenate([force, U.T @ wanted]))[: self.tree.nv])

    def _system(self, Q: Array, K: Array) -> tuple[Array, Array]:
        """The matrix of `_forward`, and the columns that turn its wanted accelerations into independent ones."""
        U, s, rows = np.linalg.svd(K)
        rank = int((s > RANK_TOLERANCE * s[0]).sum())
        apart = s[:rank, None] * rows[:rank]
        return np.block([[self.tree.crba(Q), -apart.T], [apart, np.zeros((rank, rank))]]), U[:, :rank]

    def coriolis(self, q: Array, v: Array) -> Array:
        """As of `Reference`: ``G^T (C G + M dG/dt)``, the rate by a complex step along the motion."""
        Q, h = self.all_joints(q), 1e-30
        G = self.map(Q)
        V = G @ v
        rate = self.map(self.tree.integrate(Q, 1j * h * V)).imag / h
        return np.asarray(G.T @ (self.tree.coriolis(Q, V) @ G + self.tree.crba(Q) @ rate))

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """As of `Reference`: friction of dependent joints is left out."""
        Q, V, A = self.motion(q, v, a)
        H = self.tree.regressor(Q, V, A).copy()
        names = [body.joint for body in self.model.bodies if body.name is not None]
        first = 0 if self.model.base is None else 1
        for k, name in enumerate(names):
            if name in self.dependent:
                H[:, 13 * (first + k) + 10 : 13 * (first + k) + 12] = 0.0
        return self.spared(Q, H)

    def parameters(self) -> Array:
        """As of `Reference`."""
        return self.tree.parameters()

    def joint_friction(self, v: Array) -> Array:
        """As of `Reference`."""
        return np.asarray(self.model.damping[self._y] * v + self.model.friction[self._y] * np.sign(v))

    # -- frames ----------------------------------------------------------------------------------------------
    def frame_placement(self, q: Array, name: str) -> Array:
        """As of `Reference`."""
        return self.tree.frame_placement(self.all_joints(q), name)

    def frame_jacobian(self, q: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """As of `Reference`."""
        Q = self.all_joints(q)
        return np.asarray(self.tree.frame_jacobian(Q, name, reference=reference) @ self.map(Q))

    def frame_velocity(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """As of `Reference`."""
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        return self.tree.frame_velocity(Q, V, name, reference=reference)

    def frame_drift(self, q: Array, v: Array, name: str, *, reference: str = "local_world_aligned") -> Array:
        """As of `Reference`."""
        Q, V, A = self.motion(q, v, np.zeros(self.nv))
        J = self.tree.frame_jacobian(Q, name, reference=reference)
        return np.asarray(self.tree.frame_drift(Q, V, name, reference=reference) + J @ A)

    # -- the whole robot -------------------------------------------------------------------------------------
    def center_of_mass(self, q: Array) -> Array:
        """As of `Reference`."""
        return self.tree.center_of_mass(self.all_joints(q))

    def com_jacobian(self, q: Array) -> Array:
        """As of `Reference`."""
        Q = self.all_joints(q)
        return np.asarray(self.tree.com_jacobian(Q) @ self.map(Q))

    def com_drift(self, q: Array, v: Array) -> Array:
        """As of `Reference`."""
        Q, V, A = self.motion(q, v, np.zeros(self.nv))
        return np.asarray(self.tree.com_drift(Q, V) + self.tree.com_jacobian(Q) @ A)

    def centroidal_momentum(self, q: Array, v: Array) -> Array:
        """As of `Reference`."""
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        return self.tree.centroidal_momentum(Q, V)

    def energy(self, q: Array, v: Array) -> ReferenceEnergy:
        """As of `Reference`."""
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        return self.tree.energy(Q, V)
