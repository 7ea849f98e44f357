"""`ContactStep`: one step of a robot's velocities under forces and contacts of spheres with the ground, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ...dynamics.arguments import check_vector
from ...errors import ArgumentError
from ...urdf.tree import Array
from .frictional import FrictionalSolver
from .problem import MAX_FRICTION, ContactProblem


@dataclass(frozen=True, slots=True, eq=False)
class Sphere:
    """A sphere on a moving body that may touch the ground.

    Attributes:
        joint: index of the joint in ``model.joints`` that carries it.
        centre: (3,) in that joint's frame [m].
        radius: [m]; 0 for a point.
    """

    joint: int
    centre: Array
    radius: float


class ContactStep:
    """Velocities and contact impulses over one step of time.

        (M + dt D)(v+ - v) = dt (force - h - D v) + J^T lambda

    with D = diag(damping), taken at the end of the step, and contacts between spheres and the ground's tangent planes
    that obey the law of `FrictionalSolver`: each sphere may close its gap within the step but not pass through,
    penetrations are undone at a limited speed.  Time stepping in the manner of Stewart and Trinkle (1996) and Moreau
    (1988).

    Geometry, Delassus matrix and solve are one compiled call of a few microseconds; what that does not solve goes down
    the ladder of `FrictionalSolver`.  Owns memory: one per thread and ``pin.Data``.

    Args:
        model: of the robot.
        data: its ``pin.Data``.  When `advance` is called, the caller has computed M and the joint Jacobians
            (``pin.crba`` in the world convention does both) and h (``pin.nonLinearEffects``) into it.
        spheres: what may touch.
        friction: Coulomb's coefficient, one for all spheres or one each.
        dt: length of the step [s].
        tolerance: of the contact law [m/s].
        reach: a sphere takes part when it could reach the ground within the step at this speed [m/s].
        recovery_share: share of a penetration undone per step.
        recovery_speed: largest speed of doing so [m/s].
        passive_depth: no contact that is less deep in the ground than this [m] does positive work over the step, see
            `FrictionalSolver`; deeper ones, where a simulation was started inside the ground, are lifted out of it
            whatever that takes.  0 to let all recover.

    Attributes:
        impulses: (k, 3) of the last step by sphere, on the robot, world axes [N s]; the next step starts from them.
        gaps: (k,) between spheres and ground at the start of the last step [m].
        residual: largest violation of the contact law in the last step [m/s].
        iterations: of the solver in the last step.
        status: of the last step, as `ContactSolution.status`.

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(
        self,
        model: pin.Model,
        data: pin.Data,
        spheres: Sequence[Sphere],
        friction: float | Array,
        *,
        dt: float,
        tolerance: float = 1e-8,
        reach: float = 20.0,
        recovery_share: float = 0.1,
        recovery_speed: float = 0.1,
        passive_depth: float = 1e-4,
    ) -> None:
        from . import compiled_step as core  # imports numba

        k, nv = len(spheres), model.nv
        mu = friction if isinstance(friction, np.ndarray) else np.full(k, float(friction))
        check_vector("friction", mu, (k,), "one for each sphere")
        if k and not (mu.min() >= 0.0 and mu.max() <= MAX_FRICTION):
            raise ArgumentError(f"friction: expected coefficients between 0 and {MAX_FRICTION:g}, got {friction}")
        if not (np.isfinite(dt) and dt > 0.0):
            raise ArgumentError(f"dt: expected a positive time [s], got {dt}")
        self._core: Any = core
        self._data = data
        self._ladder = FrictionalSolver(tolerance=tolerance)
        self._rows = np.zeros((k, core.COLUMNS))
        for row, sphere, coefficient in zip(self._rows, spheres, mu, strict=True):
            if not 0 < sphere.joint < model.njoints:
                raise ArgumentError(f"spheres: expected a joint between 1 and {model.njoints - 1}, got {sphere.joint}")
            joint = model.joints[sphere.joint]
            row[core.OFFSET : core.OFFSET + 3] = sphere.centre
            row[core.RADIUS], row[core.BODY], row[core.FRICTION] = sphere.radius, sphere.joint, coefficient
            row[core.LAST] = joint.idx_v + joint.nv - 1
            row[core.NORMAL + 2] = 1.0
        self._options = np.zeros(core.OPTIONS)
        self._options[:] = dt, reach, recovery_share, recovery_speed, tolerance, passive_depth
        self._parent = np.array(list(data.parents_fromRow), dtype=np.int64)
        self._placements = _Placements(data)
        # Eigen never moves these; transposed, its columns are rows in memory.
        self._M, self._h, self._J_T = data.M.T, data.nle, data.J.T
        self.impulses, self.gaps = np.zeros((k, 3)), np.full(k, np.inf)
        self._frames, self._active = np.zeros((k, 3, 3)), np.zeros(k, dtype=np.int64)
        self._L, self._Y, self._G = np.zeros((nv, nv)), np.zeros((3 * k, nv)), np.zeros((3 * k, 3 * k))
        self._g, self._before, self._offset = np.zeros(3 * k), np.zeros(3 * k), np.zeros(k)
        self._k = 0
        self.residual, self.iterations, self.status = 0.0, 0, "free"

    def centres(self) -> Array:
        """(k, 3) centres of the spheres in the world, where the data's joint placements are now [m]."""
        out = np.empty((len(self._rows), 3))
        self._core.locate(self._rows, self._placements.read(), out)
        return out

    def ground(self, normals: Array, levels: Array | float) -> None:
        """Set the plane ``normal . p = level`` under each sphere, until further notice; ``z = 0`` at the start.

        Args:
            normals: (k, 3) or (3,) unit vectors out of the ground, world axes.
            levels: (k,) or one number [m]; -inf for no ground.
        """
        self._rows[:, self._core.NORMAL : self._core.NORMAL + 3] = normals
        self._rows[:, self._core.LEVEL] = levels

    def reset(self) -> None:
        """Forget the last step."""
        self.impulses[:], self.gaps[:] = 0.0, np.inf
        self._k, self.residual, self.iterations, self.status = 0, 0.0, 0, "free"

    def advance(self, v: Array, force: Array, damping: Array) -> Array:
        """The velocity after the step.

        Args:
            v: (nv,) velocity at its start, at which the data's h was computed.
            force: (nv,) generalized force: actuators, pushes [N m, N].
            damping: (nv,) coefficients of viscous friction, taken at the end of the step [N m s/rad, N s/m].

        Returns:
            (nv,) a new array; not finite only where M was not.
        """
        after = np.empty_like(v)
        k, residual, iterations, rebounds = self._core.advance(
            self._M,
            self._parent,
            self._h,
            force,
            damping,
            v,
            self._J_T,
            self._placements.read(),
            self._rows,
            self._options,
            self.impulses,
            self.gaps,
            self._frames,
            self._active,
            self._L,
            self._Y,
            self._G,
            self._g,
            self._before,
            self._offset,
            after,
        )
        self._k, self.residual, self.iterations = k, residual, iterations
        self.status = "free" if k == 0 else "passive" if rebounds else "solved"
        if k and not residual <= self._ladder.tolerance and np.isfinite(after).all():
            self._retry(after)
        return after

    def problem(self) -> ContactProblem:
        """The contact problem of the last step's active spheres, for a second opinion."""
        k, depth = self._k, self._options[self._core.DEPTH]
        passive = depth > 0.0 and bool((self.gaps[self._active[:k]] > -depth).all())
        return ContactProblem(
            self._G[: 3 * k, : 3 * k].copy(),
            self._g[: 3 * k].copy(),
            self._rows[self._active[:k], self._core.FRICTION].copy(),
            self._offset[:k].copy(),
            self._before[: 3 * k].copy() if passive else None,
        )

    @property
    def active(self) -> NDArray[np.int64]:
        """Indices of the spheres that took part in the last step."""
        return self._active[: self._k].copy()

    @property
    def frames(self) -> Array:
        """(active, 3, 3) rotations into the contact frames of the last step: rows t1, t2, n in world axes."""
        return self._frames[: self._k].copy()

    @property
    def contact_work(self) -> float:
        """Work of the contacts over the last step [J], ``sum lambda . (v_before + v_after) / 2``."""
        k = self._k
        x = np.einsum("iab,ib->ia", self._frames[:k], self.impulses[self._active[:k]]).ravel()
        return float(x @ (0.5 * (self._before[: 3 * k] + self._g[: 3 * k] + self._G[: 3 * k, : 3 * k] @ x)))

    def _retry(self, after: Array) -> None:
        """The slow ladder, from the compiled attempt's best iterate."""
        k, near = self._k, self._active[: self._k]
        tried = np.einsum("iab,ib->ia", self._frames[:k], self.impulses[near])
        solution = self._ladder.solve(self.problem())
        change = (solution.impulses - tried).ravel()
        self._core.finish(change, k, self._frames, self._active, self._parent, self._L, self._Y, self.impulses, after)
        self.impulses[near] = np.einsum("iab,ia->ib", self._frames[:k], solution.impulses)
        self.residual, self.iterations = solution.residual, self.iterations + solution.iterations
        self.status = "retried" if solution.status == "solved" else solution.status


class _Placements:
    """All joint placements of a ``pin.Data`` as one (njoints, 12) array: rotation by columns, translation.

    Pinocchio keeps them side by side in memory; where a build of it should not, they are copied.
    """

    def __init__(self, data: pin.Data) -> None:
        self._data = data
        poses = list(data.oMi)
        self._copy = np.empty((len(poses), 12))
        first = poses[0].rotation
        start = first.__array_interface__["data"][0]
        self._view: Array | None = None
        # Moving each number in turn would be proof of the layout; equal addresses of every block are as good.
        if first.strides == (8, 24) and all(
            pose.rotation.__array_interface__["data"][0] == start + 96 * i
            and pose.translation.__array_interface__["data"][0] == start + 96 * i + 72
            for i, pose in enumerate(data.oMi)
        ):
            self._view = np.lib.stride_tricks.as_strided(first.T, (len(poses), 12), (96, 8), writeable=False)

    def read(self) -> Array:
        if self._view is not None:
            return self._view
        for row, pose in zip(self._copy, self._data.oMi, strict=True):
            row[:9], row[9:] = pose.rotation.T.ravel(), pose.translation
        return self._copy
