"""`Simulation`: a robot on rigid, dry ground, one step at a time; contacts on Pinocchio's dynamics."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from ..compiling import quietly
from ..contact.solvers import ContactProblem, FrictionalSolver, RigidSolver
from ..contact.solvers.compiled import solve
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from . import contact_step
from .actuators import Actuators
from .energy_account import (
    BROKEN_HEIGHT,
    BROKEN_SHARE,
    FLIGHT_RISE,
    GROUND_RISE,
    SHARE,
    bodies_of,
    mechanical_energy,
)
from .plant import RUNAWAY_SPEED, Plant, keep
from .records import TouchingPoint
from .refinement import Collected, Piece, Start, summed
from .runge_kutta import rk4_step
from .spheres import ContactSphere
from .step_model import APPROACH_SPEED, TOLERANCE, contact_law, placements, step_model
from .terrain import Surface, Terrain

INTEGRATORS = ("adaptive", "euler", "rk4")
CONTACTS = ("frictional", "rigid", "compliant")

#: Rounds of the midpoint rule, at most, and the change of velocities that ends them, relative to the largest.
ROUNDS, CONVERGED = 4, 1e-7
#: The shortest part of a step, and how many are tried for one step, at most.
SHORTEST, MOST_TRIES = 1.0 / 32.0, 24
#: What the compiled solver could not do is not repeated with better terms.
HARD = ("retried", "inaccurate")

#: Work of a step that left the finite numbers.
NO_WORK = 0.0, 0.0, 0.0, 0.0, 0.0
#: Contacts that there is room for at first, at most.
MUCH_ROOM = 512

#: The convention in which the inertia leaves the joints' Jacobian behind, in world axes.
WORLD = pin.Convention.WORLD


@dataclass(frozen=True, slots=True)
class Work:
    """Work done on the robot since the last reset [J], each force times the mean of the velocities around the step.

    Attributes:
        actuators: by the torques that the motors delivered.
        joints: by viscous and Coulomb friction in the joints.
        contacts: by the ground; never positive but for what a compliant ground had stored.
        pushes: by external forces.
        corrections: what undoing penetrations lifted the robot.
        error: the rest of the change of mechanical energy: what the integrator made (or, negative, lost).
    """

    actuators: float = 0.0
    joints: float = 0.0
    contacts: float = 0.0
    pushes: float = 0.0
    corrections: float = 0.0
    error: float = 0.0

    @property
    def total(self) -> float:
        """Work of all forces [J]: the change of mechanical energy, but for `corrections` and `error`."""
        return self.actuators + self.joints + self.contacts + self.pushes


class Simulation(Plant):
    """A robot on rigid ground, its feet dry frictional spheres; starts in ``q_home`` at rest.

    Time stepping in the manner of Stewart and Trinkle (1996) and Anitescu and Potra (1997), velocities first:

        M(q) (v+ - v) = dt (S^T tau - h(q, v) - f v+) + J^T lambda,      q+ = q (+) dt v+,

    where lambda are the contact impulses over the step, of the spheres' nearest points with every surface.  Contact i
    near the ground obeys ``v_n+ >= -gap / dt``: it may close its gap within the step but not pass through.
    Impacts are inelastic.  The contact laws are

    - "frictional": Signorini's condition and Coulomb's law, exactly (`FrictionalSolver`; its status tells how well).
      No contact does positive work, ``lambda . (v + v+) / 2 <= 0``; a penetration of more than a tenth of a
      millimetre, such as a start inside the ground, is undone slowly (a tenth a step, at 0.1 m/s at most) by a shift
      of q alone, which leaves v as it is.
    - "rigid": what touches sticks, whatever the direction of the force, as long as it is pressed (`RigidSolver` on the
      contacts that are left when those that pull are let go).
    - "compliant": the ground is a spring and a damper along its normal, ``f_n = max(0, k d - c v_n)``, taken
      implicitly and hence stable for any stiffness and step; Coulomb's law as above.

    Whenever that step makes or loses energy that no work explains, it is taken again by the midpoint rule of Moreau
    (1999, "Numerical aspects of the sweeping process"), M, h and J at ``q (+) dt/2 v`` and h at the mean of the
    velocities: of second order, in halves of halves, of dt / 32 at least, until the account holds.  `work` is that
    account; where an error of more than 0.5 % of the kinetic energy and 1 mm of height is left in a step, its status is
    "inaccurate".

    Joint friction is implicit, ``f = damping + friction / max(|v*|, 1 mm/s or mrad/s)`` with v* the velocity foreseen
    for the end of the step (as much beyond v as v is beyond the one before), hence stable for any coefficient and never
    a source of energy.  Coulomb friction is exact in steady sliding and at steady acceleration; where it should
    stick it creeps, at 1 mrad/s at most.  Joint stops are not modelled.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step, at most 0.01 [s].
        friction: Coulomb's coefficient of surfaces without their own.
        contact: the contact law: "frictional", "rigid" or "compliant".
        floor: height of a level floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere, or where there is a `terrain`.
        terrain: surfaces, one or several of `Plane`, `Box` and `HeightField`.
        spheres: where else than at its feet the robot can touch something, by name, such as `collision_spheres`; None:
            `body_spheres`, with which a robot that falls comes to lie; {}: its feet alone.
        actuators: the motors; by default they are perfect within the robot's effort limits.
        integrator: "adaptive", the above; "euler": no step is taken again; "rk4": neither, and steps out of reach of
            the ground by a fourth-order Runge-Kutta method on the configuration manifold, joint friction split off and
            implicit.
        stiffness: of compliant ground [N/m]; by default the robot on all its feet would bounce at 15 Hz.
        damping: of compliant ground [N s/m]; critical by default.

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given.
        terrain: the `Terrain`, floor included.
        spheres: names of what can touch: the feet first, then those asked for by name.

    Raises:
        ArgumentError: an argument is not what it must be.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = 0.6,
        contact: str = "frictional",
        floor: float | None = None,
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
        spheres: Mapping[str, ContactSphere] | None = None,
        actuators: Actuators | None = None,
        integrator: str = "adaptive",
        stiffness: float | None = None,
        damping: float | None = None,
    ) -> None:
        super().__init__(
            robot, dt=dt, friction=friction, floor=floor, terrain=terrain, spheres=spheres, actuators=actuators
        )
        for name, value, known in (("contact", contact, CONTACTS), ("integrator", integrator, INTEGRATORS)):
            if value not in known:
                raise ArgumentError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
        self._contact, self._integrator = contact, integrator
        law = contact_law(robot, contact, self.dt, stiffness, damping)
        self._rigid, self._frictional = RigidSolver(tolerance=TOLERANCE), FrictionalSolver(tolerance=TOLERANCE)
        self._model, self._data = robot.model.copy(), robot.model.createData()
        self._model.armature = self.actuators.armature.copy()
        poses = placements(self._data, self._model.njoints)
        # Views of Pinocchio's results: they show what its last call left there.
        self._dynamics = contact_step.StepDynamics(
            self._data.M.reshape(robot.nv, robot.nv).T, self._data.nle, self._data.J.reshape(6, -1, order="F").T,
            poses,
        )  # fmt: skip
        movable = [sphere for sphere in self._spheres if sphere.joint]  # what is bolted to the world touches nothing
        self._sphere_of = tuple(sphere.name for sphere in movable)
        parents = np.array(list(self._data.parents_fromRow), dtype=np.int64)
        self._step_model = step_model(
            self._model, parents, self.actuators, movable, self.terrain.packed(self.friction), law
        )
        self._motion = contact_step.room_for_motion(robot.nv)
        self._bodies, self._energies = bodies_of(self._model), np.zeros(4)
        self._midpoint_models: dict[float, tuple[contact_step.StepModel, contact_step.StepModel]] = {}
        self._weight = float(robot.mass) * float(np.linalg.norm(self._model.gravity.linear))
        count = len(self._step_model.radii)
        # Zeros that are never touched take no memory; where more touches there will be more room.
        self._room = contact_step.room_for_contacts(min(max(8, 2 * count), MUCH_ROOM), count, robot.nv)
        self.reset()

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def contacts(self) -> tuple[TouchingPoint, ...]:
        """Every point that carried a force in the last step."""
        out, where = [], self._room.touching
        for i in range(self._k):
            force = self._room.world[i] / self.dt
            if force.any():
                s = where.spheres[i]
                name = self._sphere_of[s]
                depth = self._step_model.radii[s] + where.gaps[i]
                point = self._room.centers[s] - depth * where.normals[i]
                out.append(
                    TouchingPoint(
                        name, frozen(point), frozen(where.normals[i]), frozen(force),
                        float(where.friction[i]), self._link_of[name],
                    )
                )  # fmt: skip
        return tuple(out)

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean force of the ground over the last step by foot (or sphere), (3,) on the robot, world axes [N].

        Those on the rest of the body are in `body_forces`.
        """
        forces = {name: np.zeros(3) for name in self.spheres}
        for i in range(self._k):
            name = self._sphere_of[self._room.touching.spheres[i]]
            if name in forces:
                forces[name] += self._room.world[i] / self.dt
        return forces

    @property
    def residual(self) -> float:
        """Largest violation of the contact law in the last step, as a velocity [m/s]."""
        return self._residual

    @property
    def status(self) -> str:
        """Of the last step.

        "free" (nothing near the ground), "solved", "passive" (solved, and a contact had to rebound lest it give
        energy), "retried" (only a further attempt met the tolerance of the contact law) or "inaccurate" (none did, and
        the best answer was used; or energy was made or lost, see `Work.error`).
        """
        return self._status

    @property
    def work(self) -> Work:
        """Work done on the robot since the last reset."""
        return Work(*self._work)

    def warmup(self, *, quiet: bool = False) -> float:
        """Compile everything now (seconds once per machine, then a tenth of a second), so that no step is late.

        The state stays what it is.

        Args:
            quiet: whether to leave out the lines that say what is being compiled.

        Returns:
            How long it took [s].
        """
        start = time.perf_counter()
        here = self.checkpoint()
        with quietly() if quiet else nullcontext():
            for each in (contact_step.step, contact_step.finish, contact_step.position_correction):
                each.ready()
            solve.ready()
            mechanical_energy.ready()
            self.step(np.zeros(self.robot.nu))
        self.restore(here)
        return time.perf_counter() - start

    # -- time ------------------------------------------------------------------------------------------------
    def _restart(self) -> None:
        self._v_before = self._v
        self._work: tuple[float, ...] = (*NO_WORK, 0.0)
        self._evaluated = False
        self._forget_contacts()

    def _forget_contacts(self) -> None:
        self._k, self._residual, self._status, self._fast = 0, 0.0, "free", False
        self._room.held[0] = 0

    def _inner(self) -> tuple[Any, ...]:
        outcome = (self._k, self._residual, self._status, self._fast)
        memory = tuple(each.copy() for each in contact_step.remembered(self._room))
        return self._v_before, self._work, outcome, memory

    def _resume(self, inner: tuple[Any, ...]) -> None:
        v_before, work, outcome, memory = inner
        self._evaluated = False
        self._v_before = frozen(v_before)
        room = len(memory[0])
        if room != len(self._room.keys):
            self._make_room(room)
        self._work = work
        self._k, self._residual, self._status, self._fast = outcome
        for to, kept in zip(contact_step.remembered(self._room), memory, strict=True):
            to[:] = kept

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> None:
        q, v, dt = self._q, self._v, self.dt
        if not self._evaluated:
            self._evaluate(q, v)
        keep(self, "_evaluated", False)  # until the step is taken
        kinetic, potential, rising, _ = self._energies.tolist()
        start = Start(q, v, self._v_before, kinetic, potential)
        adaptive, fast, step = self._integrator == "adaptive", self._fast, None
        if adaptive and self._fast:
            step = self._midpoint(start, tau, wrenches, dt, 1)
            if step.contacts:
                self._evaluate(q, v)
                step = None
        if step is None:
            step = self._whole(start, tau, wrenches, rising)
        if adaptive and not abs(step.error) <= self._allowed(start, step):
            step, fast = self._refined(start, tau, wrenches), True
        if not step.speed < RUNAWAY_SPEED:  # also true of NaN
            self._forget_contacts()  # those of the step that is not taken
            raise self._diverged()
        status = step.status
        if abs(step.error) > BROKEN_SHARE * max(kinetic, step.kinetic) + BROKEN_HEIGHT * self._weight:
            status = "inaccurate"
        a, b, c, d, e, f = self._work
        actuators, joints, contacts, pushes, lifted = step.work
        keep(self, "_work", (a + actuators, b + joints, c + contacts, d + pushes, e + lifted, f + step.made))
        step.q.flags.writeable = step.v.flags.writeable = False
        keep(self, "_fast", fast and not step.contacts)
        keep(self, "_k", step.contacts)
        keep(self, "_residual", step.residual)
        keep(self, "_status", status)
        keep(self, "_v_before", v)
        keep(self, "_q", step.q)
        keep(self, "_v", step.v)
        keep(self, "_evaluated", True)

    def _allowed(self, start: Start, step: Piece) -> float:
        """Error of the energy that needs no refinement [J]."""
        rise = GROUND_RISE if step.contacts else FLIGHT_RISE
        return self.dt * (SHARE * max(start.kinetic, step.kinetic) + rise * self._weight)

    def _evaluate(self, q: Array, v: Array) -> None:
        """Pinocchio's inertia at a configuration, as `_dynamics` shows it, and the energies there at v."""
        pin.crba(self._model, self._data, q, WORLD)
        mechanical_energy(
            self._bodies, self._step_model.parent, self._dynamics, v, self._motion.correction, self._energies
        )

    def _whole(self, start: Start, tau: Array, wrenches: Mapping[str, Array], rising: float) -> Piece:
        """The step from the terms at its start, velocities first."""
        q, v, dt, motion = start.q, start.v, self.dt, self._motion
        external = self._generalized(wrenches, q) if wrenches else self._nothing
        state, after = contact_step.StepState(v, start.before, tau, external), np.empty(len(v))
        pin.nonLinearEffects(self._model, self._data, q, v)
        k, residual, status, corrected, largest = self._solved(self._step_model, state, after)
        moved = pin.integrate(self._model, q, dt * (after + motion.correction if corrected else after))
        if self._integrator == "rk4" and not k:
            moved, after, largest = self._smooth(tau, wrenches)
            return self._piece(start, dt, moved, after, external, (k, residual, status, largest))
        return self._piece(start, dt, moved, after, external, (k, residual, status, largest), rising)

    def _midpoint(self, start: Start, tau: Array, wrenches: Mapping[str, Array], h: float, rounds: int) -> Piece:
        """A step of length h from the terms at its middle: that of q if v stayed, and the mean of the velocities."""
        model, data, motion, v, closing = self._model, self._data, self._motion, start.v, 0.5 * h
        step_model = self._midpoint_model(h)
        middle = pin.integrate(model, start.q, closing * v)
        external = self._generalized(wrenches, middle) if wrenches else self._nothing
        mean, before, last = v + 0.5 * (v - start.before), start.before, v
        outcome = 0, 0.0, "free", False, math.nan
        for turn in range(rounds):
            pin.nonLinearEffects(model, data, middle, mean)
            if turn == 0:
                pin.crba(model, data, middle, WORLD)
            after = np.empty(len(v))
            state = contact_step.StepState(v, before, tau, external)
            outcome = self._solved(step_model, state, after)
            settled = not np.abs(after - last).max() > CONVERGED * outcome[4]  # also true of NaN
            if settled or turn == rounds - 1 or outcome[2] in HARD:
                break
            mean, before, last = 0.5 * (v + after), 2.0 * v - after, after
        k, residual, status, corrected, largest = outcome
        move = closing * after + h * motion.correction if corrected else closing * after
        moved = pin.integrate(model, middle, move)
        return self._piece(start, h, moved, after, external, (k, residual, status, largest))

    def _midpoint_model(self, h: float) -> contact_step.StepModel:
        """For steps of length h, in which positions move on with the new velocity from the middle."""
        kept, model = self._midpoint_models.get(h, (None, self._step_model))
        if kept is not self._step_model:
            law = self._step_model.law._replace(dt=h, closing=0.5 * h, reach=APPROACH_SPEED * h)
            model = self._step_model._replace(law=law)
            self._midpoint_models[h] = self._step_model, model
        return model

    def _refined(self, start: Start, tau: Array, wrenches: Mapping[str, Array]) -> Piece:
        """The step by the midpoint rule, in halves of halves where a whole one does not keep the account."""
        pieces: list[Piece] = []
        collected = Collected()
        lengths, tried, here = [self.dt], 0, start
        while lengths:
            h = lengths.pop()
            piece, tried = self._midpoint(here, tau, wrenches, h, ROUNDS), tried + 1
            poor = not abs(piece.error) <= self._allowed(here, piece) and piece.status != "inaccurate"
            if poor and h > self.dt * SHORTEST and tried < MOST_TRIES:
                lengths += [0.5 * h, 0.5 * h]
                continue
            pieces.append(piece)
            if not piece.speed < RUNAWAY_SPEED:
                return piece
            collected.add(piece.contacts, self._room)
            shorter = 1.0 if not lengths else lengths[-1] / h
            here = Start(piece.q, piece.v, piece.v - shorter * (piece.v - here.v), piece.kinetic, piece.potential)
        whole = summed(pieces)
        if len(pieces) > 1:
            if len(collected) > len(self._room.keys):
                self._make_room(2 * len(collected))
            whole = whole._replace(contacts=collected.write(self._room))
        return whole

    def _solved(
        self, model: contact_step.StepModel, state: contact_step.StepState, after: Array
    ) -> tuple[int, float, str, bool, float]:
        """Contacts and the velocity `after`: how many, residual, status, whether positions are corrected, speed."""
        motion = self._motion
        k = contact_step.step(model, self._dynamics, state, motion, self._room, after)
        while k < 0:
            self._make_room(-2 * k)
            k = contact_step.step(model, self._dynamics, state, motion, self._room, after)
        largest, residual, rebound, corrected = motion.report.tolist()
        status = "passive" if rebound else "solved" if k else "free"
        if k and not residual <= model.law.tolerance:
            residual, status = self._solve(k)
            corrected = contact_step.position_correction(k, model, TOLERANCE, motion, self._room)
            largest = contact_step.finish(k, model, state, motion, self._room, after)
        return k, residual, status, bool(corrected), largest

    def _piece(
        self,
        start: Start,
        h: float,
        q: Array,
        v: Array,
        external: Array,
        outcome: tuple[int, float, str, float],
        leapfrog: float | None = None,
    ) -> Piece:
        """What came out, with the terms and energies there; `leapfrog` is the power against gravity at the start."""
        k, residual, status, speed = outcome
        if not speed < RUNAWAY_SPEED:  # also true of NaN
            return Piece(q, v, math.inf, math.inf, NO_WORK, math.inf, math.inf, k, residual, status, speed)
        self._evaluate(q, v)
        kinetic, potential, rising, lifting = self._energies.tolist()
        actuators, joints, contacts = self._motion.work.tolist()
        pushes = 0.0 if external is self._nothing else 0.5 * h * float(external @ (start.v + v))
        lifting *= h
        made = kinetic + potential - start.kinetic - start.potential - actuators - joints - contacts - pushes - lifting
        # Positions half a step ahead of velocities (leapfrog) move energy to and fro, but make none.
        error = made if leapfrog is None else made - 0.5 * h * (rising - leapfrog)
        work = actuators, joints, contacts, pushes, lifting
        return Piece(q, v, kinetic, potential, work, made, error, k, residual, status, speed)

    def _smooth(self, tau: Array, wrenches: Mapping[str, Array]) -> tuple[Array, Array, float]:
        """The step without contacts by Runge-Kutta, then joint friction, implicitly: q, v and the largest speed."""
        model, data, v, dt = self._model, self._data, self._v, self.dt
        torques = self.robot.expand(tau)

        def force(q: Array) -> Array:
            return torques + self._generalized(wrenches, q) if wrenches else torques

        with np.errstate(all="ignore"):  # what overflows is noticed by its speed
            q, free = rk4_step(model, data, self._q, v, force, dt)
            if self._motion.f.any():
                free = free - self._brake(q, free)
        after = np.empty(len(v))
        self._motion.free[:] = free
        state = contact_step.StepState(v, self._v_before, tau, self._nothing)
        largest = contact_step.finish(0, self._step_model, state, self._motion, self._room, after)
        return q, after, largest if np.isfinite(q).all() else np.nan

    def _brake(self, q: Array, v: Array) -> Array:
        """``(M + dt f)^-1 dt f v``: what joint friction takes from v in a step."""
        M = pin.crba(self._model, self._data, q)
        M = np.triu(M) + np.triu(M, 1).T
        return np.asarray(np.linalg.solve(M + np.diag(self.dt * self._motion.f), self.dt * self._motion.f * v))

    def _solve(self, k: int) -> tuple[float, str]:
        """The problem of k contacts by other means than the compiled core, into its impulses; residual and status."""
        parts, n = self._room, 3 * k
        problem = ContactProblem(
            parts.G[: n * n].reshape(n, n).copy(),
            parts.g[:n].copy(),
            parts.touching.friction[:k].copy(),
            offset=parts.offset[:k].copy(),
            before=parts.before[:n].copy() if self._contact == "frictional" else None,
            guess=parts.impulses[:n].reshape(k, 3).copy(),
        )
        if self._contact != "rigid":
            solution = self._frictional.solve(problem)
            impulses = solution.impulses.ravel()
            if problem.before is not None and solution.status == "inaccurate":
                # Energy is not created even then: less of the same impulses.
                linear = float(impulses @ (problem.g + problem.before))
                square = float(impulses @ problem.G @ impulses)
                if linear + square > 0.0:
                    impulses = impulses * max(-linear / square, 0.0)
            parts.impulses[:n] = impulses
            return solution.residual, solution.status
        return self._stick(k, problem)

    def _stick(self, k: int, problem: ContactProblem) -> tuple[float, str]:
        """The contact law "rigid": which contacts hold is found one by one."""
        g = problem.shifted
        held = g[2::3] < 0.0  # those that would otherwise go through
        impulses, moved = np.zeros(3 * k), g
        for _ in range(4 * k):
            rows = np.flatnonzero(np.repeat(held, 3))
            part = ContactProblem(problem.G[np.ix_(rows, rows)].copy(), g[rows].copy(), 0.0)
            impulses = np.zeros(3 * k)
            impulses[rows] = self._rigid.solve(part).impulses.ravel()
            moved = problem.G @ impulses + g
            pull, sink = np.where(held, impulses[2::3], 0.0), np.where(held, 0.0, moved[2::3])
            if pull.min() < 0.0:
                held[int(np.argmin(pull))] = False
            elif sink.min() < -TOLERANCE:
                held[int(np.argmin(sink))] = True
            else:
                break
        self._room.impulses[: 3 * k] = impulses
        stuck = np.linalg.norm(moved.reshape(-1, 3)[held], axis=1).max(initial=0.0)
        residual = max(float(stuck), float(-np.minimum(moved[2::3], 0.0).min()), float(-min(impulses[2::3].min(), 0.0)))
        return residual, "solved" if residual <= TOLERANCE else "inaccurate"

    def _generalized(self, wrenches: Mapping[str, Array], q: Array) -> Array:
        """``sum J^T f`` (nv,) of forces and moments at frames."""
        model, data, total = self._model, self._energy_data, np.zeros(self.robot.nv)
        pin.computeJointJacobians(model, data, q)
        for name, wrench in wrenches.items():
            index = self.robot.frame_id(name)
            pin.updateFramePlacement(model, data, index)
            J = pin.getFrameJacobian(model, data, index, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
            total += J.T @ wrench
        return frozen(total)

    # -- making ----------------------------------------------------------------------------------------------
    def _make_room(self, n: int) -> None:
        """Workspace for n contacts, with the contacts of the last step."""
        old, model = self._room, self._step_model
        self._room = new = contact_step.room_for_contacts(n, len(model.radii), self.robot.nv)
        count = min(int(old.held[0]), n)
        new.held[0], new.keys[:count], new.world[:count] = count, old.keys[:count], old.world[:count]
