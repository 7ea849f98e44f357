"""`Simulation`: the simulator of this package, by time stepping with contact solvers.

Motion without contacts takes classical Runge-Kutta steps on the configuration manifold.  A `FallbackContactSolver`
solves contact problems for which the compiled solver did not converge.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..compiler import silence_messages
from ..contact import Contact
from ..contact.solvers import ContactProblem, FrictionalSolver, RigidSolver
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..cuda.driver import parse_device
from ..deprecation import renamed_parameters
from ..dynamics.kinematic_tree import PointForces, last_moving_row, make_kinematic_tree, make_point_forces
from ..errors import ArgumentError
from ..lane_blocks import max_threads
from ..robot.algorithms import Algorithms
from ..robot.arguments import check_integer, check_number
from ..robot.robot import Robot
from ..urdf.tree import Array, first_largest, frozen
from . import integrator
from .actuators import Actuators, Drives
from .batch import SimulationBatch
from .contact_step import TOLERANCE
from .held_bodies import HeldBody
from .lanes import INITIAL_CONTACTS
from .plant import DIVERGENCE_SPEED, Plant, set_attribute
from .plant_data import (
    ContactLaw,
    ContactStatus,
    JointStops,
    PlantData,
    SphereContacts,
    StepModel,
    StepResult,
    StepWork,
    SubstepContacts,
    make_contact_buffers,
    make_joint_stops,
    make_step_dynamics,
    make_step_memory,
    make_substep_buffers,
    persistent_arrays,
)
from .records import ContactPoint, Work
from .spheres import ContactSphere, PlacedSphere
from .terms import make_step_terms
from .terrain import Surface, Terrain, TerrainArrays

if TYPE_CHECKING:
    from .batch_cuda import CudaSimulationBatch


#: Spheres that would reach the ground within one step at this speed [m/s] take part in the contact problem.
MAX_APPROACH_SPEED = 20.0
#: Penetration that is not corrected [m], fraction of a deeper one corrected per step, and maximum speed of that [m/s].
SLOP, RECOVERY_FRACTION, RECOVERY_SPEED = 1e-4, 0.1, 0.1
#: Joint speed below which Coulomb friction becomes viscous [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Positive work that a passive contact may do in a step, divided by the energy that lifts the robot by 1 m.
PASSIVE_WORK_FRACTION = 5e-12
#: Undamped natural frequency of the robot on compliant ground by default [Hz], and its damping ratio.
GROUND_FREQUENCY, GROUND_DAMPING = 15.0, 1.0


def make_contact_law(
    robot: Robot, contact: str, dt: float, stiffness: float | None, damping: float | None, creep: float = 0.0
) -> ContactLaw:
    """Returns the contact law for arguments of `Simulation`.

    Raises:
        ArgumentError: stiffness, damping or creep is out of range, or the law does not have this parameter.
    """
    compliant, creep = contact == "compliant", check_number("creep", creep)
    if not 0.0 <= creep < np.inf:
        raise ArgumentError(f"creep: expected a number, 0 or more [m/s/N], got {creep}")
    if creep and not compliant:
        raise ArgumentError(f'creep: not accepted with contact={contact!r}; use contact="compliant"')
    if not compliant and not (stiffness is damping is None):
        raise ArgumentError(f'stiffness, damping: not accepted with contact={contact!r}; use contact="compliant"')
    ground_stiffness, ground_damping = np.inf, 0.0
    if compliant:
        angular_frequency, mass_per_foot = 2.0 * np.pi * GROUND_FREQUENCY, robot.mass / max(len(robot.feet), 1)
        ground_stiffness = (
            mass_per_foot * angular_frequency * angular_frequency
            if stiffness is None
            else check_number("stiffness", stiffness)
        )
        if not 0.0 < ground_stiffness < np.inf:
            raise ArgumentError(f"stiffness: expected a positive number [N/m], got {stiffness}")
        ground_damping = (
            2.0 * GROUND_DAMPING * np.sqrt(mass_per_foot * ground_stiffness)
            if damping is None
            else check_number("damping", damping)
        )
        if not 0.0 <= ground_damping < np.inf:
            raise ArgumentError(f"damping: expected a number, 0 or more [N s/m], got {damping}")
    return ContactLaw(
        dt, dt, MAX_APPROACH_SPEED * dt, SLOP, RECOVERY_FRACTION, RECOVERY_SPEED, float(ground_stiffness),
        float(ground_damping), creep, STICTION_SPEED,
        -1.0 if contact == "rigid" else TOLERANCE,
        PASSIVE_WORK_FRACTION * float(robot.mass) * 9.81 if contact == "frictional" else math.inf,
    )  # fmt: skip


def make_step_model(
    robot: Robot,
    drives: Drives,
    spheres: list[PlacedSphere],
    ground: TerrainArrays,
    stops: JointStops,
    law: ContactLaw,
    integrator: str,
) -> StepModel:
    """Returns the constant data of a plant: kinematic tree, contact spheres, terrain, joint stops and contact law."""
    model, coupling = robot.model, robot.coupling
    bodies, (clusters, cluster_spheres) = make_kinematic_tree(model, drives.armature, coupling), _group_spheres(spheres)
    last_rows = np.array([last_moving_row(bodies, s.joint) for s in spheres], dtype=np.int64)
    return StepModel(
        bodies,
        drives.actuated,
        np.array([s.in_joint for s in spheres], dtype=np.float64).reshape(-1, 3),
        np.array([s.radius for s in spheres], dtype=np.float64),
        np.array([s.joint for s in spheres], dtype=np.int64),
        last_rows,
        last_rows if coupling is None else np.where(last_rows < 0, -1, robot.nv - 1),
        clusters,
        cluster_spheres,
        ground,
        stops,
        law,
        integrator == "adaptive",
        integrator == "rk4",
        robot.root == "free",
        float(robot.mass) * float(np.linalg.norm(model.gravity.linear)),
        DIVERGENCE_SPEED,
    )


def _group_spheres(spheres: list[PlacedSphere]) -> tuple[NDArray[np.int64], Array]:
    """Groups consecutive spheres on one joint.

    Returns:
        Index after the last sphere of each group (c,), and a bounding sphere of each: center and radius (c, 4) [m].
    """
    ends: list[int] = []
    bounding_spheres: list[list[float]] = []
    first_sphere = 0
    for end in range(1, len(spheres) + 1):
        if end < len(spheres) and spheres[end].joint == spheres[first_sphere].joint:
            continue
        centers = np.array([s.in_joint for s in spheres[first_sphere:end]])
        cluster_center = 0.5 * (centers.min(axis=0) + centers.max(axis=0))
        radii = np.array([s.radius for s in spheres[first_sphere:end]])
        ends.append(end)
        bounding_spheres.append(
            [*cluster_center, float((np.linalg.norm(centers - cluster_center, axis=1) + radii).max())]
        )
        first_sphere = end
    return np.array(ends, dtype=np.int64), np.array(bounding_spheres, dtype=np.float64).reshape(-1, 4)


def rk4_step(
    algorithms: Algorithms,
    model: pin.Model,
    data: pin.Data,
    q: Array,
    v: Array,
    force: Callable[[Array], Array],
    dt: float,
) -> tuple[Array, Array]:
    """Returns the state after one fourth-order step, with rotations on the manifold.

    Configurations are ``q (+) theta`` with theta in the tangent space at q, which starts at 0 and obeys ``theta' =
    A(theta)^-1 v`` with the derivative A of (+) with respect to theta. This is the method of Munthe-Kaas (1998,
    "Runge-Kutta methods on Lie groups"), with A inverted instead of expanded.

    Args:
        algorithms: algorithms of the robot.
        model: Pinocchio model, including armature.
        data: Pinocchio data of `model`.
        q: (nq,) configuration.
        v: (nv,) velocity.
        force: function that returns the generalized forces (nv,) at a configuration.
        dt: time step [s].

    Returns:
        Configuration (nq,) and velocity (nv,).
    """
    theta, rates, accelerations = np.zeros(len(v)), [], []
    velocity = v
    for step_fraction in (0.5, 0.5, 1.0, 0.0):
        q_stage = algorithms.integrate(model, q, theta)
        A = algorithms.dIntegrate(model, q, theta, pin.ARG1)
        rates.append(np.linalg.solve(A, velocity))
        accelerations.append(algorithms.aba(model, data, q_stage, velocity, force(q_stage)).copy())
        theta, velocity = step_fraction * dt * rates[-1], v + step_fraction * dt * accelerations[-1]
    weights = dt * np.array([1.0, 2.0, 2.0, 1.0]) / 6.0
    displacement: Array = weights @ np.array(rates)
    return algorithms.integrate(model, q, displacement), v + weights @ np.array(accelerations)


#: Pulling impulse that is attributed to rounding, divided by the largest impulse.
PULL_TOLERANCE = 1e-12


class FallbackContactSolver:
    """Solver of the contact problem of a step by the solvers of `quaddyn.contact`.

    Args:
        law: contact law "frictional", "rigid" or "compliant", see `Simulation`.
    """

    __slots__ = ("_frictional", "_law", "_rigid")

    def __init__(self, law: str) -> None:
        self._law = law
        self._rigid, self._frictional = RigidSolver(tolerance=TOLERANCE), FrictionalSolver(tolerance=TOLERANCE)

    def solve(self, contacts: SphereContacts, k: int) -> tuple[float, str]:
        """Solves for the impulses of the first k contacts and writes them to ``contacts.impulses``.

        Returns:
            The largest violation of the contact law [m/s], and the status, see `Simulation.status`.
        """
        n = 3 * k
        problem = ContactProblem(
            contacts.G[: n * n].reshape(n, n).copy(),
            contacts.g[:n].copy(),
            contacts.collisions.friction[:k].copy(),
            offset=contacts.offset[:k].copy(),
            previous_velocity=contacts.velocities_before[:n].copy() if self._law == "frictional" else None,
            initial_impulses=contacts.impulses[:n].reshape(k, 3).copy(),
        )
        self._frictional.prior_multiplications = contacts.solver.effort.multiplications
        impulses, residual, status = (
            self._solve_rigid(problem) if self._law == "rigid" else self._solve_frictional(problem)
        )
        contacts.solver.effort.multiplications = max(
            contacts.solver.effort.multiplications, self._frictional.multiplications
        )
        contacts.impulses[:n] = impulses
        return residual, status

    def _solve_frictional(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """Solves a contact law with friction; returns impulses, residual [m/s] and status."""
        solution = self._frictional.solve(problem)
        impulses = solution.impulses.ravel()
        if problem.previous_velocity is not None and solution.status == "inaccurate":
            # Scale the impulses down so that they create no energy.
            linear = float(impulses @ (problem.g + problem.previous_velocity))
            square = float(impulses @ problem.G @ impulses)
            if linear + square > 0.0:
                impulses = impulses * max(-linear / square, 0.0)
        return impulses, solution.residual, solution.status

    def _solve_rigid(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """Solves the law "rigid" with an active set of sticking contacts; returns impulses, residual [m/s], status."""
        g = problem.offset_velocity
        is_sticking = g[2::3] < 0.0  # contacts that would penetrate otherwise
        impulses, velocities = np.zeros(len(g)), g
        for _ in range(4 * len(is_sticking)):
            rows = np.flatnonzero(np.repeat(is_sticking, 3))
            subproblem = ContactProblem(problem.G[np.ix_(rows, rows)].copy(), g[rows].copy(), 0.0)
            impulses = np.zeros(len(g))
            impulses[rows] = self._rigid.solve(subproblem).impulses.ravel()
            velocities = problem.G @ impulses + g
            pulling, approach = np.where(is_sticking, impulses[2::3], 0.0), np.where(is_sticking, 0.0, velocities[2::3])
            if pulling.min() < -PULL_TOLERANCE * np.abs(impulses).max():
                is_sticking[first_largest(-pulling)] = False
            elif approach.min() < -TOLERANCE:
                is_sticking[first_largest(-approach)] = True
            else:
                break
        slip_speed = np.linalg.norm(velocities.reshape(-1, 3)[is_sticking], axis=1).max(initial=0.0)
        residual = max(
            float(slip_speed), float(-np.minimum(velocities[2::3], 0.0).min()), float(-min(impulses[2::3].min(), 0.0))
        )
        return impulses, residual, "solved" if residual <= TOLERANCE else "inaccurate"


INTEGRATORS = ("adaptive", "euler", "rk4")
LAWS = ("frictional", "rigid", "compliant")

#: Maximum number of simultaneous contacts: one matrix couples them all, and its cost grows with their cube.
MAX_CONTACTS = 200
#: Maximum initial capacity of the contact buffers, in contacts of all substeps of a step.
INITIAL_CAPACITY = 512


class Simulation(Plant):
    """Simulated robot with dry friction at its contact spheres; starts at rest in ``q_home``.

    Velocity-level time stepping after Stewart and Trinkle (1996) and Anitescu and Potra (1997):

        M(q) (v+ - v) = dt (S^T tau - h(q, v) - f v+) + J^T lambda,      q+ = q (+) dt v+,

    with the contact impulses lambda of the step at the points of the spheres nearest to each surface. Contact i near
    the ground satisfies ``v_n+ >= -gap / dt``, so that it can close its gap within the step but not pass through.
    Impacts are inelastic. Without contact, gravity moves a free root along its parabola: q is corrected by ``-dt^2/2
    g``. The contact laws are

    - "frictional": Signorini's condition and Coulomb's law, solved exactly (`FrictionalSolver`; its status reports the
      residual). No contact does positive work, ``lambda . (v + v+) / 2 <= 0``. A penetration deeper than 0.1 mm, such
      as an initial state inside the ground, is removed slowly (a tenth per step, at most at 0.1 m/s) by a shift of q
      that does not change v.
    - "rigid": contact points stick for any direction of the contact force while the normal force is positive
      (`RigidSolver` on the contacts that remain after pulling contacts are removed).
    - "compliant": a spring and a damper along the normal, ``f_n = max(0, k d - c v_n)``, integrated implicitly and
      hence stable for any stiffness and time step; Coulomb's law as above. With `creep` a sticking contact moves
      against the tangential force on the robot, ``v_t = -creep f_t``, as in simulators with soft contacts.

    If the work of all forces does not explain the change of energy in a step, the step is repeated by the midpoint rule
    of Moreau (1999, "Numerical aspects of the sweeping process"), with M, h and J at ``q (+) dt/2 v`` and h at the mean
    velocity. This second-order step is split into halves repeatedly, down to dt / 32, until the energy balance holds.
    `work` is that balance. A step with a remaining error of more than 0.5 % of the kinetic energy plus the energy of 1
    mm of height has status "inaccurate".

    Joint friction is implicit, ``f = damping + friction / max(|v*|, 1 mm/s or mrad/s)``, with the velocity v*
    extrapolated to the end of the step, hence stable for any coefficient and dissipative. Coulomb friction is exact in
    steady sliding and at constant acceleration; a joint that should stick creeps at up to 1 mrad/s.

    Args:
        robot, dt, friction, floor, terrain: see `Plant`.
        spheres, actuators, soles, held_bodies: see `Plant`.
        contact: contact law: "frictional", "rigid" or "compliant".
        integrator: "adaptive" (as above), "euler" (no step is repeated) or "rk4" (no step is repeated; steps without
            contact use a fourth-order Runge-Kutta method on the configuration manifold, with joint friction applied
            implicitly afterwards).
        stiffness: stiffness of compliant ground at each contact [N/m]; None: the robot on all its feet would oscillate
            at 15 Hz without damping.
        damping: damping of compliant ground at each contact [N s/m]; None: critical damping.
        creep: tangential velocity of a sticking contact on compliant ground per tangential force [m/s/N].
        joint_stops: whether the position limits of the joints hold, as inelastic contacts without friction. Joints that
            start beyond their limits are moved back like penetrations.

    Raises:
        ArgumentError: an argument has a wrong value; in a step also if there are more than `MAX_CONTACTS` contacts at
            once.
    """

    @renamed_parameters(held="held_bodies")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = NOMINAL_FRICTION,
        contact: str = "frictional",
        floor: float | None = None,
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
        spheres: Mapping[str, ContactSphere] | None = None,
        actuators: Actuators | None = None,
        soles: Iterable[Contact] = (),
        held_bodies: Iterable[HeldBody] = (),
        integrator: str = "adaptive",
        stiffness: float | None = None,
        damping: float | None = None,
        creep: float = 0.0,
        joint_stops: bool = True,
    ) -> None:
        soles, spheres = tuple(soles), dict(spheres) if isinstance(spheres, Mapping) else spheres
        super().__init__(
            robot, dt=dt, friction=friction, floor=floor, terrain=terrain, spheres=spheres, actuators=actuators,
            soles=soles, held_bodies=held_bodies,
        )  # fmt: skip
        self._batch_arguments: dict[str, Any] = {
            "contact": contact, "spheres": spheres, "soles": soles, "integrator": integrator, "stiffness": stiffness,
            "damping": damping, "creep": creep, "joint_stops": joint_stops,
        }  # fmt: skip
        self._contact_settings = tuple(
            (name, self._batch_arguments[name])
            for name in ("contact", "integrator", "stiffness", "damping", "creep", "joint_stops")
        )
        if contact not in LAWS:
            raise ArgumentError(f"contact: expected one of {', '.join(LAWS)}, got {contact!r}")
        self._check_integrator(integrator, INTEGRATORS)
        law = make_contact_law(robot, contact, self.dt, stiffness, damping, creep)
        self._fallback_solver = FallbackContactSolver(contact)
        movable = [sphere for sphere in self._spheres if sphere.joint]  # spheres fixed to the world have no contacts
        self._reported_names = tuple(sphere.reported_name for sphere in movable)
        ground, stops = self.terrain.to_arrays(self.friction), make_joint_stops(robot, enabled=bool(joint_stops))
        self._step_model = make_step_model(robot, self._drives, movable, ground, stops, law, integrator)
        self._terms, self._motion = make_step_terms(self._step_model.bodies), make_step_dynamics(robot.nv)
        self._memory = make_step_memory(robot.nq, robot.nv, self._drives)
        self._commanded, self._no_states = np.zeros((1, robot.nu)), np.zeros((0, robot.nq + robot.nv))
        self._no_pushes = self._active_pushes = make_point_forces()
        self._frame_locations: dict[str, tuple[int, int, Array]] = {}
        # Unused zero pages take no memory; the buffers grow when there are more contacts.
        self._contacts, self._accumulated = self._make_buffers(min(max(8, 2 * len(movable)), INITIAL_CAPACITY))
        self.reset()

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Contact points with a nonzero force in the last step."""
        points, collisions = [], self._contacts.collisions
        for i in range(self._n_contacts):
            force = self._contacts.world_impulses[i] / self.dt
            s = collisions.spheres[i]
            if force.any() and s >= 0:
                name = self._reported_names[s]
                depth = self._step_model.radii[s] + collisions.gaps[i]
                point = self._contacts.centers[s] - depth * collisions.normals[i]
                points.append(
                    ContactPoint(
                        name, frozen(point), frozen(collisions.normals[i]), frozen(force),
                        float(collisions.friction[i]), self._link_of_sphere[name],
                    )
                )  # fmt: skip
        return tuple(points)

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean ground reaction force of the last step by foot, sole or named sphere: (3,) on the robot, world axes [N].

        Forces on other parts of the robot are in `body_forces`.
        """
        forces = {name: np.zeros(3) for name in self.spheres}
        for i in range(self._n_contacts):
            s = self._contacts.collisions.spheres[i]
            if s >= 0 and (name := self._reported_names[s]) in forces:
                forces[name] += self._contacts.world_impulses[i] / self.dt
        return forces

    def _apply_friction(self) -> None:
        for array, new_values in zip(self._step_model.terrain, self.terrain.to_arrays(self.friction), strict=True):
            array[:] = new_values

    @property
    def residual(self) -> float:
        """Largest violation of the contact law in the last step, as a velocity [m/s]."""
        return float(self._memory.total.residual)

    @property
    def status(self) -> str:
        """Status of the last step.

        "free": no contact and no joint at its stop. "solved": the contact law holds. "passive": the contact law holds,
        and a contact was solved again as rebounding so that it does no positive work. "retried": only the fallback
        solver met the tolerance of the contact law. "inaccurate": no solver met it and the best solution was used, or
        the energy balance does not hold (see `Work.integration_error`).
        """
        return self._memory.progress.status.name.lower()

    @property
    def work(self) -> Work:
        """Work done on the robot since the last reset."""
        return Work(*np.array(self._memory.work).tolist())

    def warmup(self, *, quiet: bool = False) -> float:
        """Compiles all functions now, so that no step is delayed by it.

        It takes seconds once per machine and a tenth of a second later. The state does not change.

        Args:
            quiet: whether to suppress the messages about functions being compiled.

        Returns:
            The time it took [s].
        """
        start = time.perf_counter()
        initial_state = self.checkpoint()
        with silence_messages() if quiet else nullcontext():
            integrator.run_steps.compile(self._plant_data())
            self.step(np.zeros(self.robot.nu))
        self.restore(initial_state)
        return time.perf_counter() - start

    # -- batches ---------------------------------------------------------------------------------------------
    @overload
    def batch(self, n: int, *, device: Literal["cpu"] = "cpu", threads: int | None = None) -> SimulationBatch: ...
    @overload
    def batch(
        self, n: int, *, device: str, threads: int | None = None, max_contacts: int = INITIAL_CONTACTS
    ) -> SimulationBatch | CudaSimulationBatch: ...
    def batch(
        self, n: int, *, device: str = "cpu", threads: int | None = None, max_contacts: int = INITIAL_CONTACTS
    ) -> SimulationBatch | CudaSimulationBatch:
        """Returns n robots like this one whose states are arrays, to step them together, see `SimulationBatch`.

        The lanes have the arguments of this simulation and its present `friction`, and start at rest in ``q_home``.
        Later changes of this simulation do not affect them.

        Args:
            n: number of robots.
            device: "cpu", or "cuda" or "cuda:N" for a `CudaSimulationBatch`, which has not run on a GPU yet.
            threads: number of threads; None: the number of cores available to this process.  On a GPU the maximum
                number of those that run at the same time, each of which needs memory; None: as many as can run.
            max_contacts: contacts for which a lane has memory on a GPU; on the CPU it grows.

        Raises:
            CudaError: there is no driver or GPU that can be used, or its memory is exhausted.
            ArgumentError: `n`, `threads` or `max_contacts` is not a positive integer, another device, or this
                simulation has held bodies.
        """
        n = check_integer("n", n)
        index, max_contacts = parse_device(device), check_integer("max_contacts", max_contacts)
        n_workers = min(max_threads(threads), n)
        if self.held_bodies:
            raise ArgumentError("batch: not supported by a simulation with held_bodies=; make one without them")
        workers = [
            Simulation(
                self.robot, dt=self.dt, friction=self.friction, floor=-np.inf, terrain=self.terrain,
                actuators=self.actuators, **self._batch_arguments,
            )
            for _ in range(n_workers if index is None else 1)
        ]  # fmt: skip
        if index is not None:
            from .batch_cuda import CudaSimulationBatch

            return CudaSimulationBatch(workers[0], n, index, max_contacts, threads)
        return SimulationBatch(workers, n)

    # -- time ------------------------------------------------------------------------------------------------
    def _reset_internal_state(self) -> None:
        memory = self._memory
        memory.q[:], memory.v[:], memory.v_previous[:], memory.work.block[:] = self._q, self._v, self._v, 0
        self._clear_contacts()

    def _clear_contacts(self) -> None:
        """Removes the contacts and the status of the last step."""
        self._memory.progress.block[:], self._memory.total.block[:], self._contacts.stored.n_contacts = 0, 0, 0

    @property
    def _n_contacts(self) -> int:
        """Number of contacts in the last step."""
        return self._memory.progress.n_contacts

    def _copy_internal_state(self) -> tuple[Any, ...]:
        memory = self._memory
        progress = memory.progress
        outcome = (progress.n_contacts, int(progress.status), int(progress.was_in_flight)), memory.total.residual
        contacts = tuple(array.copy() for array in persistent_arrays(self._contacts))
        return memory.v_previous.copy(), np.array(memory.work), outcome, contacts

    def _describe_state_difference(self, inner: tuple[Any, ...]) -> str:
        if len(inner) != 4 or len(inner[2]) != 2 or np.shape(inner[2][0]) != (3,):
            return "its internal state is not that of a Simulation"
        own_state, (v_previous, work, _, contacts) = self._copy_internal_state(), inner
        for name, given_shape, own_shape in (
            (
                "shapes of the last step",
                [np.shape(v_previous), np.shape(work)],
                [own_state[0].shape, own_state[1].shape],
            ),
            # The number of contacts may differ, the size of each not.
            (
                "shapes of contacts",
                [np.shape(array)[1:] for array in contacts],
                [array.shape[1:] for array in own_state[3]],
            ),
        ):
            if given_shape != own_shape:
                return f"{name} {given_shape!r}, in this plant {own_shape!r}"
        return ""

    def _restore_internal_state(self, inner: tuple[Any, ...]) -> None:
        v_previous, work, (counts, residual), contacts = inner
        memory = self._memory
        progress = memory.progress
        memory.q[:], memory.v[:], memory.v_previous[:] = self._q, self._v, v_previous
        memory.work.copy_from(StepWork.from_values(**dict(zip(StepWork._fields, work, strict=True))))
        progress.block[:], memory.total.block[:] = 0, 0
        progress.n_contacts, progress.status, progress.was_in_flight = counts
        memory.total.residual = residual
        capacity = len(contacts[0])
        if capacity != len(self._contacts.keys):
            self._contacts, self._accumulated = self._make_buffers(capacity)
        for array, saved in zip(persistent_arrays(self._contacts), contacts, strict=True):
            array[:] = saved

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        self._commanded[0] = tau
        set_attribute(self, "_active_pushes", self._make_point_forces(wrenches) if wrenches else self._no_pushes)
        if not self._run_compiled_steps(self._commanded, self._no_states):
            self._clear_contacts()  # of the step that was not completed
            raise self._make_divergence_error()
        self._read_state()
        return self._memory.tau.copy()

    def _run_torques(self, torques: Array, states: Array) -> tuple[int, int]:
        """Takes a step under each row of `torques`, and writes the state after each to `states`.

        Args:
            torques: (steps, nu) commanded torques [N m or N].
            states: (steps, nq + nv) receives q and v after each step; rows of steps not taken repeat the last state.

        Returns:
            The number of steps taken, and how many of them were inaccurate.
        """
        n_taken = n_inaccurate = 0
        is_finite = True
        while is_finite and n_taken < len(torques):
            self._pushes = tuple(push for push in self._pushes if push.end > self._steps)
            end = min([len(torques), *(n_taken + push.end - self._steps for push in self._pushes)])
            self._active_pushes = self._make_point_forces(self._sum_wrenches())
            rows = slice(n_taken, int(end))
            is_finite = self._run_compiled_steps(torques[rows], states[rows])
            progress = self._memory.progress
            n_steps = progress.n_steps
            n_taken += n_steps
            n_inaccurate += progress.n_inaccurate
            self._steps += n_steps
            self._read_state()
        if n_taken:
            self._tau = frozen(self._drives.delivered)
        if not is_finite:
            self._clear_contacts()
            states[n_taken:] = np.concatenate((self._q, self._v))
        return n_taken, n_inaccurate

    def _read_lane(self, n_steps: int, *, diverged: bool) -> None:
        """Continues from the state of a lane in the memory, which was at time 0 `n_steps` steps ago."""
        self._steps = n_steps
        self._read_state()
        if n_steps:
            self._tau = frozen(self._drives.delivered)
        if diverged:
            self._clear_contacts()

    def _read_state(self) -> None:
        """Copies the state from the compiled step into ``_q`` and ``_v``."""
        q, v = self._memory.q.copy(), self._memory.v.copy()
        q.flags.writeable = v.flags.writeable = False
        set_attribute(self, "_q", q)
        set_attribute(self, "_v", v)

    def _run_compiled_steps(self, torques: Array, states: Array) -> bool:
        """Takes a step under each row of `torques` by compiled code, and provides the results that this code requests.

        Args:
            torques: (steps, nu) commanded torques [N m or N].
            states: (steps, nq + nv) receives q and v after each step; (0, ...) if they are not needed.

        Returns:
            False if the motion diverged.
        """
        return self._run_resuming(lambda resume: integrator.run_steps(self._plant_data(), torques, states, resume))

    def _plant_data(self) -> PlantData:
        """Returns data and memory of the plant for compiled code."""
        return PlantData(
            self._step_model, self.actuators.torque_speed_limits, self._active_pushes, self._terms, self._memory,
            self._motion, self._contacts, self._accumulated,
        )  # fmt: skip

    def _run_resuming(self, call: Callable[[bool], int]) -> bool:
        """Calls compiled code until all its steps are taken, and provides the results that it requests.

        Args:
            call: function of `resume`, whether to continue where the last call returned early; returns a `StepResult`.

        Returns:
            False if the motion diverged.
        """
        resume = False
        while True:
            result = call(resume)
            if result in (StepResult.DONE, StepResult.DIVERGED):
                return bool(result == StepResult.DONE)
            if result == StepResult.NEEDS_CONTACT_SOLVER:
                residual, status = self._fallback_solver.solve(self._contacts, self._n_contacts)
                self._motion.report.residual = residual
                self._memory.progress.has_help = True
                self._memory.progress.status = ContactStatus[status.upper()]
            elif result == StepResult.NEEDS_RK4_STEP:
                self._step_rk4()
            else:
                self._enlarge_buffers(self._memory.progress.required_capacity)
            resume = True

    # -- Runge-Kutta steps and point forces --------------------------------------------------------------------
    def _step_rk4(self) -> None:
        """Integrates the pending step without contacts by Runge-Kutta, and then joint friction implicitly."""
        memory, dt = self._memory, self.dt
        torques = self.robot.generalized_torques(memory.tau)

        def force(q: Array) -> Array:
            push_forces = np.zeros(self.robot.nv)
            integrator.compute_push_forces_at(self._step_model.bodies, q, self._active_pushes, self._terms, push_forces)
            return torques + push_forces

        model = self._smooth_model
        data = model.createData()
        with np.errstate(all="ignore"):  # an overflow is detected by its speed
            q, free_velocity = rk4_step(self.robot.algorithms, model, data, memory.q.copy(), memory.v.copy(), force, dt)
            if self._motion.f.any():
                free_velocity = free_velocity - self._compute_friction_velocity_change(data, q, free_velocity)
        memory.q_end[:] = q
        self._motion.free_velocity[:] = free_velocity if np.isfinite(q).all() else np.nan
        memory.progress.has_help, memory.progress.has_rk4_step = True, True

    def _compute_friction_velocity_change(self, data: pin.Data, q: Array, v: Array) -> Array:
        """Returns ``(M + dt f)^-1 dt f v``, the change of the velocity v by joint friction in a step (nv,)."""
        M = self.robot.algorithms.crba(self._smooth_model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        return np.asarray(np.linalg.solve(M + np.diag(self.dt * self._motion.f), self.dt * self._motion.f * v))

    @cached_property
    def _smooth_model(self) -> pin.Model:
        """Pinocchio model whose armature includes the rotor inertia of the motors."""
        model, robot = self.robot.model.copy(), self.robot
        if robot.coupling is None:
            model.armature = self.actuators.armature.copy()
        else:  # the motors are at independent joints
            model.armature[robot.coupling.v_index] += self.actuators.armature - robot.armature
        return model

    def _make_point_forces(self, wrenches: Mapping[str, Array]) -> PointForces:
        """Returns forces and moments (6,) at frames as arrays for compiled code."""
        pushes = make_point_forces(len(wrenches))
        for i, (name, wrench) in enumerate(wrenches.items()):
            if name not in self._frame_locations:
                frame = self.robot.model.frames[self.robot.frame_id(name)]
                last = last_moving_row(self._step_model.bodies, frame.parentJoint)
                self._frame_locations[name] = frame.parentJoint, last, frame.placement.translation.copy()
            pushes.joints[i], pushes.last[i], pushes.points[i] = self._frame_locations[name]
            pushes.wrenches[i] = wrench
        return pushes

    # -- buffers ---------------------------------------------------------------------------------------------
    def _make_buffers(self, n: int) -> tuple[SphereContacts, SubstepContacts]:
        """Returns buffers for n contacts, at once and over all substeps of a step, but at most `MAX_CONTACTS`."""
        n = min(n, MAX_CONTACTS)
        contacts = make_contact_buffers(n, len(self._step_model.radii), self.robot.nv)
        return contacts, make_substep_buffers(n)

    def _enlarge_buffers(self, n: int) -> None:
        """Replaces the contact buffers by ones for at least n contacts, and copies their content.

        Raises:
            ArgumentError: there are more than `MAX_CONTACTS` contacts in a step.
        """
        old_contacts, old_accumulated = self._contacts, self._accumulated
        if n > MAX_CONTACTS or len(old_accumulated.keys) >= MAX_CONTACTS:
            self._reset_internal_state()
            count = f"{n} contacts" if n > MAX_CONTACTS else f"more than {n} contacts within a step"
            raise ArgumentError(
                f"spheres: {count} at t = {self.time:.6g} s exceed the maximum of {MAX_CONTACTS}; pass fewer spheres"
            )
        self._contacts, self._accumulated = new_contacts, new_accumulated = self._make_buffers(
            max(2 * n, len(old_accumulated.keys))
        )
        for array, old_array in zip(persistent_arrays(new_contacts), persistent_arrays(old_contacts), strict=True):
            array[: len(old_array)] = old_array
        for array, old_array in zip(
            (*new_accumulated.collisions, *new_accumulated[1:-1]),
            (*old_accumulated.collisions, *old_accumulated[1:-1]),
            strict=True,
        ):
            array[: len(old_array)] = old_array
        new_accumulated.summary.copy_from(old_accumulated.summary)
