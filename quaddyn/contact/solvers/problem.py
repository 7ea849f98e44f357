"""`ContactProblem`: input of every contact solver; `ContactSolution`: output, with its residual."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from eigenpy import is_approx  # Pinocchio's own array layer

from ...deprecation import renamed_attributes, renamed_fields, renamed_parameters
from ...errors import ArgumentError
from ...robot.arguments import check_number, check_type, check_vector
from ...urdf.tree import Array

#: Largest friction coefficient accepted; above about 50 the cone programs lose all their digits.
MAX_FRICTION = 10.0
#: Default Coulomb coefficient of grounds, contacts and controllers.
NOMINAL_FRICTION = 0.6
#: Smallest positive normal number, as a bound of divisors.
TINY = float(np.finfo(float).tiny)
#: Asymmetry of G up to which it counts as rounding, as a fraction of its norm.
SYMMETRY_TOLERANCE = 1e-9


@renamed_attributes(k="n_contacts", masses="apparent_masses", shifted="offset_velocity")
@renamed_fields(before="previous_velocity", guess="initial_impulses")
@dataclass(frozen=True, slots=True, eq=False)
class ContactProblem:
    """k point contacts at one instant, each in its own frame: rows 3i, 3i + 1 tangential, 3i + 2 along the normal.

    Impulses lambda [N s], on the robot, change the contacts' velocities from g to ``v = G lambda + g``; solvers find
    the impulses that satisfy their law.  The same equations hold for forces [N] and accelerations [m/s^2].  On level
    ground the contact frame may have world axes.

    Args:
        G: (3k, 3k) Delassus matrix ``J M^-1 J^T`` [1/kg], symmetric positive semi-definite.
        g: (3k,) velocities without impulses [m/s].
        friction: (k,) Coulomb's coefficients, dimensionless, 0 to 10, or one number for all contacts.
        offset: (k,) normal velocity [m/s] by which each contact may approach (positive: gap / dt, the gap closes within
            the step) or must separate (negative: minus the speed that removes a penetration); None for zero.
        previous_velocity: (3k,) velocities at the start of the step [m/s], used for restitution and the energy balance;
            None if neither is needed.
        initial_impulses: (k, 3) impulses to start from, such as those of the last step [N s]; None for a cold start.

    Raises:
        ArgumentTypeError: an array is not of type float64.
        ArgumentError: a wrong shape, an entry that is not finite, a coefficient out of range, a negative diagonal entry
            of G.
    """

    G: Array
    g: Array
    friction: Array | float
    offset: Array | None = None
    previous_velocity: Array | None = None
    initial_impulses: Array | None = None

    def __post_init__(self) -> None:
        G, g, mu = self.G, self.g, self.friction
        if not isinstance(mu, np.ndarray):
            mu = np.full(np.size(g) // 3, check_number("friction", mu))
            object.__setattr__(self, "friction", mu)
        # A cheap check of each array; details only if it fails.  is_approx(x, x): all entries are finite.
        if (
            type(G) is type(g) is type(mu) is np.ndarray
            and G.dtype == g.dtype == mu.dtype == np.float64
            and g.ndim == mu.ndim == 1
            and len(g) == 3 * len(mu)
            and G.shape == (len(g), len(g))
            and (len(mu) == 0 or (is_approx(G, G) and is_approx(g, g) and mu.min() >= 0.0 and mu.max() <= MAX_FRICTION))
            and (len(mu) == 0 or (G.diagonal().min() >= 0.0 and is_approx(G, G.T, SYMMETRY_TOLERANCE)))
            and self.offset is self.previous_velocity is self.initial_impulses is None
        ):
            return
        self._validate()

    def _validate(self) -> None:
        """Checks every array and converts it; raises an error that names the first invalid one."""
        g = check_vector("g", self.g, (3 * (np.size(self.g) // 3),), "three rows a contact")
        n = len(g)
        k = n // 3
        G = check_vector("G", self.G, (n, n), "three rows and columns for each contact of g")
        mu = check_vector("friction", self.mu, (k,), "one for each contact of g")
        for name, array in (("g", g), ("G", G), ("friction", mu)):
            object.__setattr__(self, name, array)
        if k and not (mu.min() >= 0.0 and mu.max() <= MAX_FRICTION):
            invalid = mu[(mu < 0.0) | (mu > MAX_FRICTION)][0]
            raise ArgumentError(f"friction: expected coefficients between 0 and {MAX_FRICTION:g}, got {invalid}")
        if k and self.G.diagonal().min() < 0.0:
            raise ArgumentError(
                f"G: expected a positive semi-definite matrix, got {self.G.diagonal().min()} on its diagonal"
            )
        if not is_approx(self.G, self.G.T, SYMMETRY_TOLERANCE) and self.G.any():
            index = np.unravel_index(int(np.abs(self.G - self.G.T).argmax()), self.G.shape)
            raise ArgumentError(f"G: expected a symmetric matrix, got {self.G[index]} and {self.G.T[index]} at {index}")
        for name, shape in (("offset", (k,)), ("previous_velocity", (n,)), ("initial_impulses", (k, 3))):
            if getattr(self, name) is not None:
                array = check_vector(name, getattr(self, name), shape, "for each contact of g")
                object.__setattr__(self, name, array)

    @classmethod
    @renamed_parameters(before="previous_velocity", guess="initial_impulses")
    def from_jacobian(
        cls,
        J: Array,
        M_inverse: Array,
        v: Array,
        friction: Array | float,
        *,
        offset: Array | None = None,
        previous_velocity: Array | None = None,
        initial_impulses: Array | None = None,
    ) -> ContactProblem:
        """Returns the contact problem of a robot from contact Jacobian, inverse inertia and velocity.

        Args:
            J: (3k, nv) Jacobian of the contact points, rows in contact frames.
            M_inverse: (nv, nv) inverse of the joint-space inertia.
            v: (nv,) generalized velocity without contact impulses, ``v_before + dt aba(q, v_before, tau)``.
            friction: (k,) or one number, dimensionless.
            offset: (k,) as in the constructor [m/s]; None for zero.
            previous_velocity: (nv,) generalized velocity at the start of the step; None as in the constructor.
            initial_impulses: (k, 3) as in the constructor [N s]; None for a cold start.

        Raises:
            ArgumentError: as the class.
        """
        n = len(v) if isinstance(v, np.ndarray) and v.ndim == 1 else np.size(v)
        v = check_vector("v", v, (n,), "nv")
        M_inverse = check_vector("M_inverse", M_inverse, (n, n), "(nv, nv)")
        rows = J.shape[0] if isinstance(J, np.ndarray) and J.ndim == 2 else 3
        J = check_vector("J", J, (3 * (rows // 3), n), "three rows a contact, nv columns")
        if previous_velocity is not None:
            previous_velocity = check_vector("previous_velocity", previous_velocity, (n,), "nv")
        G = J @ M_inverse @ J.T
        coefficients = (
            friction if isinstance(friction, np.ndarray) else np.full(rows // 3, check_number("friction", friction))
        )
        return cls(
            0.5 * (G + G.T),
            J @ v,
            coefficients,
            offset,
            None if previous_velocity is None else J @ previous_velocity,
            initial_impulses,
        )

    @property
    def n_contacts(self) -> int:
        """Number of contacts, k."""
        return len(self.mu)

    @property
    def mu(self) -> Array:
        """(k,) friction coefficients, whether `friction` was given as an array or as a number."""
        return self.friction  # type: ignore[return-value]  # by __post_init__

    @property
    def offset_velocity(self) -> Array:
        """(3k,) g with the offsets added to its normal rows [m/s]: the velocity in Signorini's condition."""
        if self.offset is None:
            return self.g
        out = self.g.copy()
        out[2::3] += self.offset
        return out

    @property
    def apparent_masses(self) -> Array:
        """(k,) smallest apparent mass of each contact: the inverse of its largest diagonal entry of G [kg], or 1."""
        largest = self.G.diagonal().reshape(-1, 3).max(axis=1, initial=0.0)
        return np.where(largest > TINY, 1.0 / np.maximum(largest, TINY), 1.0)


@renamed_attributes(relative="law_velocities", solved="ok")
@dataclass(frozen=True, slots=True, eq=False)
class ContactSolution:
    """Impulses of k contacts, with the residual of the solver's law.

    Attributes:
        impulses: (k, 3) on the robot, contact frames [N s].
        velocities: (k, 3) of the contacts after the impulses, contact frames [m/s].
        residual: largest violation of the law by any contact, as a velocity [m/s].  For Coulomb's law the natural map,
            see `contact_residual`; for bilateral contacts the remaining velocity.
        iterations: number of iterations of the solver that produced the solution.
        status: "free" (no contact), "solved", "retried" (only a further attempt was within the tolerance), "passive"
            (solved, and some contacts had to rebound, see `FrictionalSolver`), or "inaccurate" (no attempt was within
            the tolerance; the best one is returned).
        tolerance: residual up to which a solution counts as solved [m/s].
        law_velocities: (k, 3) velocities in the solver's law: `velocities` with offset and restitution [m/s].
        friction: (k,) Coulomb's coefficients; empty for laws without friction.
    """

    impulses: Array
    velocities: Array
    residual: float
    iterations: int
    status: str
    tolerance: float
    law_velocities: Array
    friction: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance, whatever status the solver reported."""
        return self.residual <= self.tolerance

    @property
    def ok(self) -> bool:
        """The same as `converged`."""
        return self.converged

    @property
    def gap_velocity(self) -> float:
        """Largest normal velocity into the ground beyond the offset [m/s]; 0 for bilateral laws."""
        if not len(self.friction):
            return 0.0
        return float(np.maximum(-self.law_velocities[:, 2], 0.0).max(initial=0.0))

    @property
    def cone_distance(self) -> float:
        """Largest distance of an impulse from its friction cone [N s]; 0 for bilateral laws."""
        if not len(self.friction):
            return 0.0
        distance = 0.0
        for (x, y, n), mu in zip(self.impulses.tolist(), self.friction.tolist(), strict=True):
            distance = max(distance, float(np.linalg.norm(np.subtract(project_to_cone(x, y, n, mu), (x, y, n)))))
        return distance

    @property
    def complementarity(self) -> float:
        """Largest ``|lambda . (c + mu |c_t| n)|`` [J], c the velocity in the law; 0 for bilateral laws.

        A separating contact has zero normal impulse; a sliding contact has friction ``mu lambda_n`` opposite to its
        velocity.
        """
        if not len(self.friction):
            return 0.0
        velocities = self.law_velocities.copy()
        velocities[:, 2] += self.friction * np.hypot(velocities[:, 0], velocities[:, 1])
        power = np.where(self.impulses == 0.0, 0.0, self.impulses) * np.where(self.impulses == 0.0, 0.0, velocities)
        return float(np.abs(power.sum(axis=1)).max(initial=0.0))


def check_problem(problem: object) -> None:
    """Raises `ArgumentTypeError` unless `problem` is a `ContactProblem`."""
    check_type("problem", problem, ContactProblem, "a ContactProblem")


class ContactSolver(Protocol):
    """Interface of solvers that turn a problem into impulses and their residual."""

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """Computes the impulses of k contacts, finite for every valid problem.

        Args:
            problem: the contact problem.
        """
        ...


class CheckedSolver(ABC):
    """Base class of the solvers: checks of the problem, overflow, and the solution with its residual.

    Args:
        tolerance: residual up to which a solution counts as solved [m/s].

    Raises:
        ArgumentError: a tolerance out of range.
    """

    #: Whether the impulses are in Coulomb's cones, so that the solution has the friction coefficients.
    has_friction_cones: ClassVar[bool] = False

    def __init__(self, tolerance: float) -> None:
        self.tolerance = check_number("tolerance", tolerance)
        if not 0.0 < self.tolerance < 1.0:
            raise ArgumentError(f"tolerance: expected a small positive velocity [m/s], got {tolerance}")

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """Computes the impulses of k contacts, finite for every valid problem; the class describes law and status.

        Args:
            problem: the contact problem.

        Raises:
            ArgumentTypeError: something else than a `ContactProblem`.
        """
        check_problem(problem)
        if problem.n_contacts == 0:
            return self._solution(problem, problem.g, np.zeros((0, 3)), 0.0, 0, "free")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # an overflow shows in the residual
            return self._solve(problem)

    @abstractmethod
    def _solve(self, problem: ContactProblem) -> ContactSolution:
        """Solves a checked problem of at least one contact."""

    def _solution(
        self, problem: ContactProblem, g: Array, impulses: Array, error: float, iterations: int, status: str = ""
    ) -> ContactSolution:
        """Returns the solution; zero impulses with an infinite residual where they exceed the floating-point range.

        Args:
            problem: the contact problem.
            g: (3k,) velocities without impulses in the solver's law, such as ``problem.offset_velocity`` [m/s].
            impulses: (k, 3) or (3k,) [N s].
            error: the residual [m/s].
            iterations: number of iterations.
            status: see `ContactSolution`; "" for "solved" or "inaccurate", by the residual.
        """
        change = problem.G @ impulses.ravel()
        if not (np.isfinite(error) or (np.isfinite(impulses).all() and np.isfinite(change).all())):
            impulses, change, error = np.zeros_like(impulses), np.zeros_like(change), np.inf
        return ContactSolution(
            impulses.reshape(-1, 3),
            (change + problem.g).reshape(-1, 3),
            error,
            iterations,
            status or ("solved" if error <= self.tolerance else "inaccurate"),
            self.tolerance,
            (change + g).reshape(-1, 3),
            problem.mu if self.has_friction_cones else np.zeros(0),
        )


def contact_residual(impulses: Array, G: Array, g: Array, friction: Array | float) -> float:
    """Computes the violation of Signorini's and Coulomb's laws by `impulses`, as a velocity [m/s].

    This is the natural map of the cone complementarity problem, ``|lambda - P_K(lambda - m c~)| / m`` with ``c~ = c +
    (0, 0, mu |c_t|)``, zero exactly at solutions (Acary and Brogliato 2008, *Numerical Methods for Nonsmooth Dynamical
    Systems*, sec. 12.2); m is each contact's apparent mass, which gives the result the unit of a velocity.

    Args:
        impulses: (k, 3) [N s].
        G: (3k, 3k) Delassus matrix [1/kg].
        g: (3k,) contact velocities without impulses, offsets included [m/s].
        friction: Coulomb's coefficient mu, (k,) or one for all.

    Returns:
        The largest violation over the contacts; NaN if any impulse is NaN.
    """
    if not len(impulses):
        return 0.0
    mu = np.broadcast_to(np.asarray(friction, dtype=np.float64), (len(impulses),))
    largest = np.diagonal(G).reshape(-1, 3).max(axis=1)
    m = np.where(largest > TINY, 1.0 / np.maximum(largest, TINY), 1.0)[:, None]
    c = (G @ impulses.ravel() + g).reshape(-1, 3)
    points = impulses - m * c
    points[:, 2] -= m[:, 0] * mu * np.hypot(c[:, 0], c[:, 1])
    errors = np.linalg.norm(impulses - project_to_cones(points, mu), axis=1) / m[:, 0]
    return float(errors.max())


def project_to_cones(points: Array, friction: Array) -> Array:
    """Projects points (k, 3) to the cones ``|(x, y)| <= mu n``.

    Args:
        points: (k, 3) tangential and normal components, in any unit.
        friction: (k,) Coulomb's coefficients, dimensionless.
    """
    tangential, n = np.hypot(points[:, 0], points[:, 1]), points[:, 2]
    normal = np.maximum((n + friction * tangential) / (1.0 + friction * friction), 0.0)
    scale = friction * normal / np.maximum(tangential, TINY)
    projected = np.column_stack((scale * points[:, 0], scale * points[:, 1], normal))
    # for mu = 0, 0 <= 0 n does not imply n >= 0
    return np.where(((n >= 0.0) & (tangential <= friction * n))[:, None], points, projected)


def project_to_cone(x: float, y: float, n: float, friction: float) -> tuple[float, float, float]:
    """Projects (x, y, n) to the cone ``|(x, y)| <= mu n``.

    Source: Acary and Brogliato 2008, sec. 12.2.

    Args:
        x: first tangential component [any unit].
        y: second tangential component, in the same unit.
        n: normal component, in the same unit.
        friction: Coulomb's coefficient mu, dimensionless.
    """
    px, py, pn = project_to_cones(np.array([[x, y, n]]), np.array([friction]))[0].tolist()
    return px, py, pn
