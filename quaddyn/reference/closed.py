"""Reference robot with closed loops: Lagrange multipliers on the open tree, without eliminating coordinates beforehand.

With ``K V = 0`` for the velocities V of all joints of the closed loops, motion obeys

    M A + h = S^T tau + K^T lambda,   K A = -dK/dt V

(Featherstone, RBDA 2008, section 8.3).  Forward dynamics solves for A and lambda together.  Inverse dynamics computes A
from the independent joints' accelerations a, then the lambda for which the torques of dependent joints are zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ..errors import ModelError
from . import algorithms
from .algebra import Array
from .kinematics import BodyPlacements
from .reader import LoopDescription
from .reference import Forces, JointQuantities, Reference

#: Continuation from home to a configuration: largest step [rad or m], Newton iterations of each step and of the last.
#: A step that moves a dependent joint by more than `MAX_BRANCH_JUMP` is halved, since it may change the branch.
MAX_STEP, NEWTON_ITERATIONS, LAST_NEWTON_ITERATIONS, MAX_BRANCH_JUMP = 0.05, 3, 6, 0.2
#: Rank tolerance of K, relative to its largest singular value.
RANK_TOLERANCE = 1e-9
#: Minimum reciprocal condition number of the open tree's mass matrix for accurate accelerations.
SINGULARITY_TOLERANCE = 1e-8


class ClosedReference(JointQuantities):
    """Reference robot with closed loops; same methods as `Reference`, in the coordinates of the independent joints.

    Args:
        tree: the open tree.
        loops: the loop closures.
        home: position [rad or m] of every joint of a loop, by name, at a configuration where the loops are closed.
        dependent: names of the dependent joints.
        ranges: (lower, upper) limits [rad or m] of joints, by name, where they are narrower than the file's.
        gears: joints that mimic others: follower, leader, multiplier (dimensionless) and offset [rad or m].
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
                body, placement = known[link]
                known[f"loop {k} {side}"] = body, placement @ T
        self.tree, self.loops, self.dependent = tree, tuple(loops), frozenset(dependent)
        self.tree.model = replace(tree.model, frames=known)
        self.model, self.home, self.ranges = tree.model, dict(home), dict(ranges)
        follow = [body for body in tree.model.bodies if body.joint in self.dependent]
        indices = {body.joint: (body.q.start, body.v.start) for body in tree.model.bodies}
        self._gears = [(indices[one], indices[other], gear, bias) for one, other, gear, bias in gears]
        self._last: tuple[bytes, Array] = b"", np.zeros(0)
        self._masks = [self._joint_mask(k) for k in range(len(self.loops))]
        self._dependent_v = np.array([body.v.start for body in follow], dtype=np.intp)
        self._dependent_q = np.array([body.q.start for body in follow], dtype=np.intp)
        self.independent_v = np.setdiff1d(np.arange(tree.nv), self._dependent_v)
        self._independent_q = np.setdiff1d(np.arange(tree.nq), self._dependent_q)

    def _joint_mask(self, loop: int) -> Array:
        """Returns 1 for the velocities of joints between the frames of a loop, otherwise 0.

        The joints before a loop move it as a whole, but their columns of K are not exactly 0 if rounding in the file
        keeps the frames apart.
        """
        chains = []
        for side in "AB":
            number, chain = self.model.frames[f"loop {loop} {side}"][0], set[int]()
            while number >= 0:
                chain.add(number)
                number = self.model.bodies[number].parent
            chains.append(chain)
        mask = np.zeros(self.tree.nv)
        for number in chains[0] ^ chains[1]:
            mask[self.model.bodies[number].v] = 1.0
        return mask

    @property
    def nq(self) -> int:
        """Size of q."""
        return len(self._independent_q)

    @property
    def nv(self) -> int:
        """Size of v."""
        return len(self.independent_v)

    def forward_kinematics(self, q: Array) -> BodyPlacements:
        """Returns the placements of all bodies at `q` (nq,)."""
        return self.tree.forward_kinematics(self.all_joints(q))

    def motion_at_rest(self, q: Array, v: Array) -> tuple[Array, Array | None]:
        """Same as `JointQuantities.motion_at_rest`: the dependent joints accelerate."""
        return self.motion(q, v, np.zeros(self.nv))[1:]

    def reduce(self, q: Array, J: Array) -> Array:
        """Same as `JointQuantities.reduce`: ``J G``."""
        return np.asarray(J @ self.velocity_map(self.all_joints(q)))

    # -- constraints -----------------------------------------------------------------------------------------
    def constraints(self, Q: Array) -> tuple[Array, Array]:
        """Returns K (m, nv of the tree) and the constraint errors e (m,) at the configuration Q of all joints."""
        rows, errors, at = [], [], self.tree.forward_kinematics(Q)
        for k, loop in enumerate(self.loops):
            ends = [self.model.frames[f"loop {k} {side}"] for side in "AB"]
            (A, J_A), (B, J_B) = (
                (algorithms.placement(at, end), algorithms.jacobian(at, end, "local_world_aligned") * self._masks[k])
                for end in ends
            )
            rows.append(J_B[:3] - J_A[:3])
            errors.append(B[:3, 3] - A[:3, 3])
            angular = J_B[3:] - J_A[3:]
            if loop.kind == "revolute":
                rows.append(A[:3, :2].T @ angular)
                errors.append(A[:3, :2].T @ np.cross(A[:3, 2], B[:3, 2]))
            elif loop.kind == "weld":
                rows.append(angular)
                errors.append(0.5 * sum((np.cross(A[:3, i], B[:3, i]) for i in range(3)), np.zeros(3)))
        for (q, v), (q_leader, v_leader), gear, bias in self._gears:
            row = np.zeros((1, self.tree.nv))
            row[0, v], row[0, v_leader] = 1.0, -gear
            rows.append(row)
            errors.append(Q[q : q + 1] - gear * Q[q_leader : q_leader + 1] - bias)
        return np.vstack(rows), np.concatenate(errors)

    def constraint_drift(self, Q: Array, V: Array) -> Array:
        """Returns ``dK/dt V`` (m,)."""
        out = []
        for k, loop in enumerate(self.loops):
            v = V * self._masks[k]
            a, b = (self.tree.frame_drift(Q, v, f"loop {k} {side}") for side in "AB")
            out.append(b[:3] - a[:3])
            if loop.kind == "revolute":
                A = self.tree.frame_placement(Q, f"loop {k} A")[:3, :2]
                w_a, w_b = (self.tree.frame_velocity(Q, v, f"loop {k} {side}")[3:] for side in "AB")
                out.append(A.T @ (b[3:] - a[3:]) + np.cross(w_a, A.T) @ (w_b - w_a))
            elif loop.kind == "weld":
                out.append(b[3:] - a[3:])
        return np.concatenate([*out, np.zeros(len(self._gears))])

    def all_joints(self, q: Array) -> Array:
        """Returns the configuration of all joints, followed from home in small steps to stay on the branch of home."""
        key = np.asarray(q).tobytes()
        if self._last[0] == key:
            return self._last[1].copy()
        target = np.zeros(self.tree.nq)
        target[self._independent_q] = q
        start = target.copy()
        for body in self.model.bodies:
            if body.joint in self.home:
                start[body.q] = self.home[body.joint]
        displacement = (target - start)[self._independent_q]
        max_fraction = min(1.0, MAX_STEP / max(float(np.abs(displacement).max(initial=0.0)), MAX_STEP))
        done, step, Q = 0.0, max_fraction, start
        while done < 1.0:
            fraction = min(1.0, done + step)
            candidate = Q.copy()
            candidate[self._independent_q] = (
                target[self._independent_q] if fraction == 1.0 else start[self._independent_q] + fraction * displacement
            )
            self._close_loops(candidate, NEWTON_ITERATIONS if fraction < 1.0 else LAST_NEWTON_ITERATIONS)
            if np.abs(candidate - Q)[self._dependent_q].max(initial=0.0) > MAX_BRANCH_JUMP and step > max_fraction / 64:
                step *= 0.5
                continue
            done, step, Q = fraction, min(max_fraction, 2.0 * step), candidate
        self._last = key, Q.copy()
        return Q

    def _close_loops(self, Q: Array, iterations: int) -> None:
        """Moves the dependent joints of Q by Newton's method so that the loops close."""
        for _ in range(iterations):
            K, e = self.constraints(Q)
            Q[self._dependent_q] -= np.linalg.lstsq(K[:, self._dependent_v], e, rcond=RANK_TOLERANCE)[0]

    def velocity_map(self, Q: Array) -> Array:
        """Returns G (nv of the tree, nv) with ``V = G v``.

        It is solved by refined normal equations, which complex steps can differentiate.
        """
        K = self.constraints(Q)[0]
        z = K[:, self._dependent_v]
        G = np.zeros((self.tree.nv, self.nv), dtype=K.dtype)
        G[self.independent_v, np.arange(self.nv)] = 1.0
        for _ in range(3):
            G[self._dependent_v] -= np.linalg.solve(z.T @ z, z.T @ (K @ G))
        return G

    def motion(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Returns configuration Q, velocity V and acceleration A of all joints."""
        Q = self.all_joints(q)
        K = self.constraints(Q)[0]
        V, A = np.zeros(self.tree.nv), np.zeros(self.tree.nv)
        V[self.independent_v], A[self.independent_v] = v, a
        V[self._dependent_v] = np.linalg.lstsq(
            K[:, self._dependent_v], -K[:, self.independent_v] @ v, rcond=RANK_TOLERANCE
        )[0]
        A[self._dependent_v] = np.linalg.lstsq(
            K[:, self._dependent_v], -self.constraint_drift(Q, V) - K[:, self.independent_v] @ a, rcond=RANK_TOLERANCE
        )[0]
        return Q, V, A

    def independent_forces(self, Q: Array, f: Array) -> Array:
        """Returns the forces on independent joints when multipliers balance the forces f on dependent joints."""
        K = self.constraints(Q)[0]
        multipliers = np.linalg.lstsq(K[:, self._dependent_v].T, f[self._dependent_v], rcond=RANK_TOLERANCE)[0]
        return np.asarray(f[self.independent_v] - K[:, self.independent_v].T @ multipliers)

    # -- configurations --------------------------------------------------------------------------------------
    def random_configuration(self, rng: np.random.Generator, *, beyond: float = 0.0) -> Array:
        """Returns a random configuration (nq,) with the joints of loops within their ranges."""
        Q = self.tree.random_configuration(rng, beyond=beyond)
        for body in self.model.bodies:
            if body.joint in self.ranges and body.joint not in self.dependent:
                low, high = self.ranges[body.joint]
                home = self.home[body.joint]
                ends = max(low, home - 2.0 * np.pi), min(high, home + 2.0 * np.pi)
                Q[body.q] = rng.uniform(*ends)
        return np.asarray(Q[self._independent_q])

    # -- joint space -----------------------------------------------------------------------------------------
    def rnea(self, q: Array, v: Array, a: Array, *, fext: Forces | None = None) -> Array:
        """Same as `Reference.rnea`."""
        Q, V, A = self.motion(q, v, a)
        return self.independent_forces(Q, self.tree.rnea(Q, V, A, fext=fext))

    def crba(self, q: Array) -> Array:
        """Same as `Reference.crba`: the forces of unit accelerations at rest without gravity."""
        Q = self.all_joints(q)
        return self.independent_forces(Q, self.tree.crba(Q) @ self.velocity_map(Q))

    def aba(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """Same as `Reference.aba`: accelerations and multipliers are solved together."""
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        K = self.constraints(Q)[0]
        force = -self.tree.rnea(Q, V, np.zeros(self.tree.nv), fext=fext)
        force[self.independent_v] += tau
        A = self._solve_accelerations(Q, K, force, -self.constraint_drift(Q, V))
        return np.asarray(A[self.independent_v])

    def lie_group(self, q: Array, v: Array, tau: Array, *, fext: Forces | None = None) -> Array:
        """Same as `Reference.lie_group`: open-tree accelerations plus multipliers that close it (Delassus matrix).

        Requires `has_lie_group`: an open tree that ends in a massless body has no accelerations.
        """
        Q, V, _ = self.motion(q, v, np.zeros(self.nv))
        K, force = self.constraints(Q)[0], np.zeros(self.tree.nv)
        force[self.independent_v] = tau
        free = self.tree.lie_group(Q, V, force, fext=fext)
        inverse = self.tree.mass_inverse(Q)
        constraint_error = -self.constraint_drift(Q, V) - K @ free
        multipliers = np.linalg.lstsq(K @ inverse @ K.T, constraint_error, rcond=RANK_TOLERANCE)[0]
        return np.asarray((free + inverse @ K.T @ multipliers)[self.independent_v])

    def has_lie_group(self, q: Array) -> bool:
        """Returns whether `lie_group` is defined: whether the mass matrix of the open tree is well conditioned."""
        return bool(np.linalg.cond(self.tree.crba(self.all_joints(q))) < 1.0 / SINGULARITY_TOLERANCE)

    def conditioning(self, q: Array) -> float:
        """Same as `Reference.conditioning`: of M, of the system with multipliers, and of the open tree's M."""
        Q = self.all_joints(q)
        systems = [self.crba(q), self._constrained_system(Q, self.constraints(Q)[0])[0]]
        if self.has_lie_group(q):
            systems.append(self.tree.crba(Q))
        return float(max(np.linalg.cond(system) for system in systems))

    def mass_inverse(self, q: Array) -> Array:
        """Same as `Reference.mass_inverse`: the accelerations due to unit torques."""
        Q = self.all_joints(q)
        K, units = self.constraints(Q)[0], np.zeros((self.tree.nv, self.nv))
        units[self.independent_v, np.arange(self.nv)] = 1.0
        A = self._solve_accelerations(Q, K, units, np.zeros((len(K), self.nv)))
        return np.asarray(A[self.independent_v])

    def _solve_accelerations(self, Q: Array, K: Array, force: Array, target: Array) -> Array:
        """Returns A of ``M A - K^T lambda = force`` and ``K A = target``, using independent rows of K."""
        system, U = self._constrained_system(Q, K)
        return np.asarray(np.linalg.solve(system, np.concatenate([force, U.T @ target]))[: self.tree.nv])

    def _constrained_system(self, Q: Array, K: Array) -> tuple[Array, Array]:
        """Returns the matrix of `_solve_accelerations` and the map (m, rank) of `target` to independent rows."""
        U, s, rows = np.linalg.svd(K)
        rank = min(int((s > RANK_TOLERANCE * s[0]).sum()), len(self.dependent))
        independent_rows = s[:rank, None] * rows[:rank]
        return np.block([[self.tree.crba(Q), -independent_rows.T], [independent_rows, np.zeros((rank, rank))]]), U[
            :, :rank
        ]

    def coriolis(self, q: Array, v: Array) -> Array:
        """Same as `Reference.coriolis`: ``G^T (C G + M dG/dt)``, dG/dt by a complex step along the motion."""
        Q, h = self.all_joints(q), 1e-30
        G = self.velocity_map(Q)
        V = G @ v
        rate = self.velocity_map(self.tree.integrate(Q, 1j * h * V)).imag / h
        return np.asarray(G.T @ (self.tree.coriolis(Q, V) @ G + self.tree.crba(Q) @ rate))

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Same as `Reference.regressor`, without the friction of dependent joints."""
        Q, V, A = self.motion(q, v, a)
        H = self.tree.regressor(Q, V, A).copy()
        names = [body.joint for body in self.model.bodies if body.name is not None]
        first = 0 if self.model.base is None else 1
        for k, name in enumerate(names):
            if name in self.dependent:
                H[:, 13 * (first + k) + 10 : 13 * (first + k) + 12] = 0.0
        return self.independent_forces(Q, H)
