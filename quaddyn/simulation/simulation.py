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
from numpy.typing import NDArray

from ..compiling import quietly
from ..contact.solvers import ContactProblem, FrictionalSolver, RigidSolver
from ..contact.solvers.compiled import solve
from ..errors import ArgumentError, QuaddynError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from . import contact_step
from .actuators import Actuators
from .plant import RUNAWAY_SPEED, Plant, keep
from .records import TouchingPoint
from .runge_kutta import rk4_step
from .spheres import ContactSphere, Placed
from .terrain import Surface, Terrain

INTEGRATORS = ("euler", "rk4")
CONTACTS = ("frictional", "rigid", "compliant")
#: A sphere takes part in the contact problem when it could reach the ground within one step at this speed [m/s].
APPROACH_SPEED = 20.0
#: Penetrations deeper than this [m] are undone: a share per step, at no more than this speed [m/s].
SLOP, RECOVERY_SHARE, RECOVERY_SPEED = 1e-4, 0.1, 0.1
#: Below this joint speed Coulomb friction turns into viscous friction [rad/s or m/s].
STICTION_SPEED = 1e-3
#: Residual of the contact law up to which a solve counts [m/s].
TOLERANCE = 1e-8
#: Positive work that a passive contact may do in a step, as a share of the energy that lifts the robot by 1 m.
PASSIVE = 5e-12
#: Rate at which a compliant ground's oscillation under the robot would go on undamped, and its damping ratio.
GROUND_FREQUENCY, GROUND_DAMPING = 15.0, 1.0


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
    """

    actuators: float = 0.0
    joints: float = 0.0
    contacts: float = 0.0
    pushes: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all [J]: the change of mechanical energy, up to the integrator's error of order dt.

        What undoing penetrations lifts or lowers the robot is not in it.
        """
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

    Joint friction is implicit, ``f = damping + friction / max(|v*|, 1 mm/s or mrad/s)`` with v* the velocity foreseen
    for the end of the step (as much beyond v as v is beyond the one before), hence stable for any coefficient and never
    a source of energy.  Coulomb friction is exact in steady sliding and at steady acceleration; where it should
    stick it creeps, at 1 mrad/s at most.  Joint stops are not modelled.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step [s].
        friction: Coulomb's coefficient of surfaces without their own.
        contact: the contact law: "frictional", "rigid" or "compliant".
        floor: height of a level floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere, or where there is a `terrain`.
        terrain: surfaces, one or several of `Plane`, `Box` and `HeightField`.
        spheres: where else than at its feet the robot can touch something, by name, such as `collision_spheres`; None:
            `body_spheres`, with which a robot that falls comes to lie; {}: its feet alone.
        actuators: the motors; by default they are perfect within the robot's effort limits.
        integrator: "euler", the above; "rk4": steps out of reach of the ground by a fourth-order Runge-Kutta method on
            the configuration manifold, joint friction split off and implicit.
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
        integrator: str = "euler",
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
        law = self._contact_law(stiffness, damping)
        self._rigid, self._frictional = RigidSolver(tolerance=TOLERANCE), FrictionalSolver(tolerance=TOLERANCE)
        self._model, self._data = robot.model.copy(), robot.model.createData()
        self._model.armature = self.actuators.armature.copy()
        poses = placements(self._data, self._model.njoints)
        # Views of Pinocchio's results: they show what its last call left there.
        self._dynamics = contact_step.StepDynamics(
            self._data.M.reshape(robot.nv, robot.nv).T, self._data.nle, self._data.J.reshape(6, -1, order="F").T,
            poses,
        )  # fmt: skip
        self._step_model = self._made_model(law)
        self._motion = contact_step.room_for_motion(robot.nv)
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
        """Of the last contact solve.

        "free" (nothing near the ground), "solved", "passive" (solved, and a contact had to rebound lest it give
        energy), "retried" (only a further attempt met the tolerance) or "inaccurate" (none did; the best answer was
        used).
        """
        return self._status

    @property
    def work(self) -> Work:
        """Work done on the robot since the last reset."""
        return Work(*self._work.tolist())

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
            for each in (contact_step.step, contact_step.finish, contact_step.position_correction, solve):
                each.ready()
            self.step(np.zeros(self.robot.nu))
        self.restore(here)
        return time.perf_counter() - start

    # -- time ------------------------------------------------------------------------------------------------
    def _restart(self) -> None:
        self._v_before = self._v
        self._work = np.zeros(4)
        self._forget_contacts()

    def _forget_contacts(self) -> None:
        self._k, self._residual, self._status = 0, 0.0, "free"
        self._room.held[0] = 0

    def _inner(self) -> tuple[Any, ...]:
        outcome = (self._k, self._residual, self._status)
        memory = tuple(each.copy() for each in contact_step.remembered(self._room))
        return self._v_before, self._work.copy(), outcome, memory

    def _resume(self, inner: tuple[Any, ...]) -> None:
        v_before, work, outcome, memory = inner
        self._v_before = frozen(v_before)
        room = len(memory[0])
        if room != len(self._room.keys):
            self._make_room(room)
        self._work = work.copy()
        self._k, self._residual, self._status = outcome
        for to, kept in zip(contact_step.remembered(self._room), memory, strict=True):
            to[:] = kept

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> None:
        model, data, motion, q, v, dt = self._model, self._data, self._motion, self._q, self._v, self.dt
        external = self._generalized(wrenches, q) if wrenches else self._nothing
        state, after = contact_step.StepState(v, self._v_before, tau, external), np.empty(len(v))
        pin.nonLinearEffects(model, data, q, v)
        pin.crba(model, data, q, WORLD)
        k = contact_step.step(self._step_model, self._dynamics, state, motion, self._room, after)
        if k < 0:
            self._make_room(-2 * k)
            return self._advance(tau, wrenches)
        largest, residual, rebound, corrected = motion.report.tolist()
        status = "passive" if rebound else "solved" if k else "free"
        if k and not residual <= self._step_model.law.tolerance:
            residual, status = self._solve(k)
            corrected = contact_step.position_correction(k, self._step_model, TOLERANCE, motion, self._room)
            largest = contact_step.finish(k, self._step_model, state, motion, self._room, after)
        moved = pin.integrate(model, q, dt * (after + motion.correction if corrected else after))
        if self._integrator == "rk4" and not k:
            moved, after, largest = self._smooth(tau, wrenches)
        if not largest < RUNAWAY_SPEED:  # also true of NaN
            self._forget_contacts()  # those of the step that is not taken
            raise self._diverged()
        self._work[:3] += motion.work
        if wrenches:
            self._work[3] += 0.5 * dt * float(external @ (v + after))
        moved.flags.writeable = after.flags.writeable = False
        keep(self, "_k", k)
        keep(self, "_residual", residual)
        keep(self, "_status", status)
        keep(self, "_v_before", v)
        keep(self, "_q", moved)
        keep(self, "_v", after)
        return None

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
        model, data, total = self._model, self._data, np.zeros(self.robot.nv)
        pin.computeJointJacobians(model, data, q)
        for name, wrench in wrenches.items():
            index = self.robot.frame_id(name)
            pin.updateFramePlacement(model, data, index)
            J = pin.getFrameJacobian(model, data, index, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
            total += J.T @ wrench
        return frozen(total)

    # -- making ----------------------------------------------------------------------------------------------
    def _contact_law(self, stiffness: float | None, damping: float | None) -> contact_step.ContactLaw:
        compliant = self._contact == "compliant"
        if not compliant and not (stiffness is damping is None):
            raise ArgumentError(f'stiffness, damping: only contact="compliant" has them, not {self._contact!r}')
        k, c = np.inf, 0.0
        if compliant:
            w, share = 2.0 * np.pi * GROUND_FREQUENCY, self.robot.mass / max(len(self.robot.feet), 1)
            k = share * w * w if stiffness is None else number("stiffness", stiffness)
            if not 0.0 < k < np.inf:
                raise ArgumentError(f"stiffness: expected a positive number [N/m], got {stiffness}")
            c = 2.0 * GROUND_DAMPING * np.sqrt(share * k) if damping is None else number("damping", damping)
            if not 0.0 <= c < np.inf:
                raise ArgumentError(f"damping: expected a number, 0 or more [N s/m], got {damping}")
        return contact_step.ContactLaw(
            self.dt, APPROACH_SPEED * self.dt, SLOP, RECOVERY_SHARE, RECOVERY_SPEED, float(k), float(c), STICTION_SPEED,
            -1.0 if self._contact == "rigid" else TOLERANCE,
            PASSIVE * float(self.robot.mass) * 9.81 if self._contact == "frictional" else math.inf,
        )  # fmt: skip

    def _made_model(self, law: contact_step.ContactLaw) -> contact_step.StepModel:
        """What stays from step to step; spheres by centre in their joint's frame, radius, joint and its last column."""
        movable = [sphere for sphere in self._spheres if sphere.joint]  # what is bolted to the world touches nothing
        self._sphere_of = tuple(sphere.name for sphere in movable)
        joints = [self._model.joints[s.joint] for s in movable]
        clusters, around = _clusters(movable)
        return contact_step.StepModel(
            np.array(list(self._data.parents_fromRow), dtype=np.int64),
            self.robot.actuated_index,
            self.actuators.damping,
            self.actuators.friction,
            np.array([s.in_joint for s in movable], dtype=np.float64).reshape(-1, 3),
            np.array([s.radius for s in movable], dtype=np.float64),
            np.array([s.joint for s in movable], dtype=np.int64),
            np.array([joint.idx_v + joint.nv - 1 for joint in joints], dtype=np.int64),
            clusters,
            around,
            self.terrain.packed(self.friction),
            law,
        )

    def _make_room(self, n: int) -> None:
        """Workspace for n contacts, with the contacts of the last step."""
        old, model = self._room, self._step_model
        self._room = new = contact_step.room_for_contacts(n, len(model.radii), self.robot.nv)
        count = min(int(old.held[0]), n)
        new.held[0], new.keys[:count], new.world[:count] = count, old.keys[:count], old.world[:count]


def _clusters(spheres: list[Placed]) -> tuple[NDArray[np.int64], Array]:
    """Runs of spheres that one joint carries: the first after each, and a sphere around it (c, 4) [m]."""
    ends: list[int] = []
    around: list[list[float]] = []
    first = 0
    for end in range(1, len(spheres) + 1):
        if end < len(spheres) and spheres[end].joint == spheres[first].joint:
            continue
        centres = np.array([s.in_joint for s in spheres[first:end]])
        middle = 0.5 * (centres.min(axis=0) + centres.max(axis=0))
        radii = np.array([s.radius for s in spheres[first:end]])
        ends.append(end)
        around.append([*middle, float((np.linalg.norm(centres - middle, axis=1) + radii).max())])
        first = end
    return np.array(ends, dtype=np.int64), np.array(around, dtype=np.float64).reshape(-1, 4)


def placements(data: pin.Data, joints: int) -> Array:
    """A view (joints, 12) of all joint placements of `data`: the rotation column by column, then the translation.

    Pinocchio hands them out one by one, at a microsecond each; they are contiguous in its memory, which is checked.

    Raises:
        QuaddynError: they do not: this is no Pinocchio 4.1.
    """
    first = data.oMi[0].rotation
    start, stride = first.ctypes.data, 12 * first.itemsize
    for i in range(joints):
        rotation, translation = data.oMi[i].rotation, data.oMi[i].translation
        here = (rotation.ctypes.data, rotation.strides, translation.ctypes.data)
        if here != (start + i * stride, (8, 24), start + i * stride + 72):
            raise QuaddynError("Pinocchio keeps joint placements in an unknown way; this package needs pin 4.1")
    return np.lib.stride_tricks.as_strided(first.T, (joints, 12), (stride, 8), writeable=False)
