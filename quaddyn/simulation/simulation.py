"""`Simulation`: a robot on rigid, dry ground, one step at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import pinocchio as pin

from ..compiler import silence_messages
from ..contact import Contact
from ..contact.solvers.frictional_core import solve
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_parameters
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from . import contact_data
from . import integrator as core
from .actuators import Actuators
from .bodies import Pushes, last_mover, no_pushes
from .contact_step import RESIDUAL
from .hard_contacts import HardContacts
from .held_bodies import HeldBody
from .pieces import Collected, room_for_pieces
from .plant import Plant, keep
from .records import ContactPoint, Work
from .runge_kutta import rk4_step
from .spheres import ContactSphere
from .step_memory import (
    ANSWERED,
    CONTACTS,
    DIVERGED,
    DONE,
    FLYING,
    HARD,
    NEEDED,
    POOR,
    SMOOTH,
    SMOOTHED,
    STATUS,
    STATUSES,
    STEPS,
    WORST,
    memory,
)  # fmt: skip
from .step_model import contact_law, step_model
from .stops import stops_of
from .terms import room_for_terms
from .terrain import Surface, Terrain

INTEGRATORS = ("adaptive", "euler", "rk4")
LAWS = ("frictional", "rigid", "compliant")

#: Contacts that a step takes at once: one matrix couples them all, and its cost grows with their cube.
MAX_CONTACTS = 200
#: Contacts of all pieces of a step that there is room for at first, at most.
MUCH_ROOM = 512


class Simulation(Plant):
    """A robot on rigid ground, its feet dry frictional spheres; starts in ``q_home`` at rest.

    Time stepping in the manner of Stewart and Trinkle (1996) and Anitescu and Potra (1997), velocities first:

        M(q) (v+ - v) = dt (S^T tau - h(q, v) - f v+) + J^T lambda,      q+ = q (+) dt v+,

    where lambda are the contact impulses over the step, of the spheres' nearest points with every surface.  Contact i
    near the ground obeys ``v_n+ >= -gap / dt``: it may close its gap within the step but not pass through.
    Impacts are inelastic.  Gravity accelerates all of a robot alike: of a free root out of reach of the ground, q falls
    by ``dt^2/2 g`` less, along its parabola.  The contact laws are

    - "frictional": Signorini's condition and Coulomb's law, exactly (`FrictionalSolver`; its status tells how well).
      No contact does positive work, ``lambda . (v + v+) / 2 <= 0``; a penetration of more than a tenth of a
      millimetre, such as a start inside the ground, is undone slowly (a tenth a step, at 0.1 m/s at most) by a shift
      of q alone, which leaves v as it is.
    - "rigid": what touches sticks, whatever the direction of the force, as long as it is pressed (`RigidSolver` on the
      contacts that are left when those that pull are let go).
    - "compliant": the ground is a spring and a damper along its normal, ``f_n = max(0, k d - c v_n)``, taken
      implicitly and hence stable for any stiffness and step; Coulomb's law as above.  With `creep` a contact that
      holds moves against the tangential force on the robot, ``v_t = -creep f_t``, as soft contacts of other
      simulators do.

    Whenever that step makes or loses energy that no work explains, it is taken again by the midpoint rule of Moreau
    (1999, "Numerical aspects of the sweeping process"), M, h and J at ``q (+) dt/2 v`` and h at the mean of the
    velocities: of second order, in halves of halves, of dt / 32 at least, until the account holds.  `work` is that
    account; where an error of more than 0.5 % of the kinetic energy and 1 mm of height is left in a step, its status is
    "inaccurate".

    Joint friction is implicit, ``f = damping + friction / max(|v*|, 1 mm/s or mrad/s)`` with v* the velocity foreseen
    for the end of the step (as much beyond v as v is beyond the one before), hence stable for any coefficient and never
    a source of energy.  Coulomb friction is exact in steady sliding and at steady acceleration; where it should
    stick it creeps, at 1 mrad/s at most.

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
        soles: surfaces, such as `Contact.of_sole` of each foot: their corners touch, and by default nothing else of
            these bodies; forces are those on a sole as a whole.
        held_bodies: bodies that hands of the robot hold, see `HeldBody`.
        integrator: "adaptive", the above; "euler": no step is taken again; "rk4": neither, and steps out of reach of
            the ground by a fourth-order Runge-Kutta method on the configuration manifold, joint friction split off and
            implicit.
        stiffness: of compliant ground [N/m]; by default the robot on all its feet would bounce at 15 Hz.
        damping: of compliant ground [N s/m]; critical by default.
        creep: of compliant ground: velocity of a contact that holds per tangential force [m/s/N].
        joint_stops: whether the joints' position limits hold, as inelastic contacts without friction, where the file
            has any; joints that begin beyond them are moved back as out of the ground.

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given.
        terrain: the `Terrain`, floor included.
        spheres: names of what can touch: the feet first, then those asked for by name.

    Raises:
        ArgumentError: an argument is not what it must be; in a step also where the robot touches something in more
            than `MAX_CONTACTS` points at once.
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
        super().__init__(
            robot, dt=dt, friction=friction, floor=floor, terrain=terrain, spheres=spheres, actuators=actuators,
            soles=soles, held_bodies=held_bodies,
        )  # fmt: skip
        if contact not in LAWS:
            raise ArgumentError(f"contact: expected one of {', '.join(LAWS)}, got {contact!r}")
        self._check_integrator(integrator, INTEGRATORS)
        law = contact_law(robot, contact, self.dt, stiffness, damping, creep)
        self._hard = HardContacts(contact)
        movable = [sphere for sphere in self._spheres if sphere.joint]  # what is bolted to the world touches nothing
        self._sphere_of = tuple(sphere.part for sphere in movable)
        ground, stops = self.terrain.to_arrays(self.friction), stops_of(robot, wanted=bool(joint_stops))
        self._step_model = step_model(robot, self._drives, movable, ground, stops, law, integrator)
        self._terms, self._motion = room_for_terms(self._step_model.bodies), contact_data.room_for_motion(robot.nv)
        self._memory = memory(robot.nq, robot.nv, self._drives)
        self._asked, self._unwanted = np.zeros((1, robot.nu)), np.zeros((0, robot.nq + robot.nv))
        self._no_pushes = self._pushing = no_pushes()
        self._places: dict[str, tuple[int, int, Array]] = {}
        # Zeros that are never touched take no memory; where more touches there will be more room.
        self._room, self._collected = self._rooms(min(max(8, 2 * len(movable)), MUCH_ROOM))
        self.reset()

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Every point that carried a force in the last step."""
        out, where = [], self._room.touching
        for i in range(self._k):
            force = self._room.world[i] / self.dt
            s = where.spheres[i]
            if force.any() and s >= 0:
                name = self._sphere_of[s]
                depth = self._step_model.radii[s] + where.gaps[i]
                point = self._room.centers[s] - depth * where.normals[i]
                out.append(
                    ContactPoint(
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
            s = self._room.touching.spheres[i]
            if s >= 0 and (name := self._sphere_of[s]) in forces:
                forces[name] += self._room.world[i] / self.dt
        return forces

    def _apply_friction(self) -> None:
        for packed, now in zip(self._step_model.ground, self.terrain.to_arrays(self.friction), strict=True):
            packed[:] = now

    @property
    def residual(self) -> float:
        """Largest violation of the contact law in the last step, as a velocity [m/s]."""
        return float(self._memory.total[WORST])

    @property
    def status(self) -> str:
        """Of the last step.

        "free" (nothing near the ground, no joint near a stop), "solved", "passive" (solved, and a contact had to
        rebound lest it give energy), "retried" (only a further attempt met the tolerance of the contact law) or
        "inaccurate" (none did, and the best answer was used; or energy was made or lost, see `Work.integration_error`).
        """
        return STATUSES[self._memory.progress[STATUS]]

    @property
    def work(self) -> Work:
        """Work done on the robot since the last reset."""
        return Work(*self._memory.work.tolist())

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
        with silence_messages() if quiet else nullcontext():
            core.run.compile()
            solve.compile()
            self.step(np.zeros(self.robot.nu))
        self.restore(here)
        return time.perf_counter() - start

    # -- time ------------------------------------------------------------------------------------------------
    def _restart(self) -> None:
        memory = self._memory
        memory.q[:], memory.v[:], memory.before[:], memory.work[:] = self._q, self._v, self._v, 0.0
        self._forget_contacts()

    def _forget_contacts(self) -> None:
        self._memory.progress[:], self._memory.total[:], self._room.held[0] = 0, 0.0, 0

    @property
    def _k(self) -> int:
        return int(self._memory.progress[CONTACTS])

    def _inner(self) -> tuple[Any, ...]:
        memory = self._memory
        outcome = tuple(memory.progress[[CONTACTS, STATUS, FLYING]].tolist()), float(memory.total[WORST])
        contacts = tuple(each.copy() for each in contact_data.remembered(self._room))
        return memory.before.copy(), memory.work.copy(), outcome, contacts

    def _unlike(self, inner: tuple[Any, ...]) -> str:
        if len(inner) != 4 or len(inner[2]) != 2 or np.shape(inner[2][0]) != (3,):
            return "its inner state is not that of a Simulation"
        here, (before, work, _, contacts) = self._inner(), inner
        for name, theirs, own in (
            ("shapes of the last step", [np.shape(before), np.shape(work)], [here[0].shape, here[1].shape]),
            # However many contacts there are, each has as many numbers.
            ("shapes of contacts", [np.shape(x)[1:] for x in contacts], [x.shape[1:] for x in here[3]]),
        ):
            if theirs != own:
                return f"{name} {theirs!r}, here {own!r}"
        return ""

    def _resume(self, inner: tuple[Any, ...]) -> None:
        before, work, (counts, residual), contacts = inner
        memory = self._memory
        memory.q[:], memory.v[:], memory.before[:], memory.work[:] = self._q, self._v, before, work
        memory.progress[:], memory.total[:] = 0, 0.0
        memory.progress[[CONTACTS, STATUS, FLYING]], memory.total[WORST] = counts, residual
        room = len(contacts[0])
        if room != len(self._room.keys):
            self._room, self._collected = self._rooms(room)
        for to, kept in zip(contact_data.remembered(self._room), contacts, strict=True):
            to[:] = kept

    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        self._asked[0] = tau
        keep(self, "_pushing", self._pushes_of(wrenches) if wrenches else self._no_pushes)
        if not self._run(self._asked, self._unwanted):
            self._forget_contacts()  # those of the step that is not taken
            raise self._diverged()
        self._take_over()
        return self._memory.tau.copy()

    def _play(self, torques: Array, states: Array) -> tuple[int, int]:
        """A step under each row of `torques` (steps, nu): how many were taken, and how many of them were inaccurate.

        After each the state goes to `states` (steps, nq + nv); rows of steps that were not taken repeat the last one.
        """
        taken = poor = 0
        going = True
        while going and taken < len(torques):
            self._pushes = tuple(push for push in self._pushes if push.end > self._steps)
            end = min([len(torques), *(taken + push.end - self._steps for push in self._pushes)])
            self._pushing = self._pushes_of(self._wrenches())
            part = slice(taken, int(end))
            going = self._run(torques[part], states[part])
            progress = self._memory.progress
            count = int(progress[STEPS])
            taken, poor, self._steps = taken + count, poor + int(progress[POOR]), self._steps + count
            self._take_over()
        if taken:
            self._tau = frozen(self._drives.given)
        if not going:
            self._forget_contacts()
            states[taken:] = np.concatenate((self._q, self._v))
        return taken, poor

    def _take_over(self) -> None:
        """The state that was reached."""
        q, v = self._memory.q.copy(), self._memory.v.copy()
        q.flags.writeable = v.flags.writeable = False
        keep(self, "_q", q)
        keep(self, "_v", v)

    def _run(self, torques: Array, states: Array) -> bool:
        """A step under each row of `torques`, the compiled part helped where it asks for it; False: it diverged."""
        again = False
        while True:
            said = core.run(
                self._step_model, self.actuators.torque_speed_limits, self._pushing, self._terms, self._memory,
                self._motion, self._room, self._collected, torques, states, again,
            )  # fmt: skip
            if said in (DONE, DIVERGED):
                return bool(said == DONE)
            if said == HARD:
                residual, status = self._hard.solve(self._room, self._k)
                self._motion.report[RESIDUAL] = residual
                self._memory.progress[[ANSWERED, STATUS]] = 1, STATUSES.index(status)
            elif said == SMOOTH:
                self._smooth()
            else:
                self._make_room(int(self._memory.progress[NEEDED]))
            again = True

    # -- help ------------------------------------------------------------------------------------------------
    def _smooth(self) -> None:
        """The step without contacts by Runge-Kutta, then joint friction, implicitly."""
        memory, dt = self._memory, self.dt
        torques = self.robot.generalized_torques(memory.tau)

        def force(q: Array) -> Array:
            out = np.zeros(self.robot.nv)
            core.forces_at(self._step_model.bodies, q, self._pushing, self._terms, out)
            return torques + out

        model = self._smooth_model
        data = model.createData()
        with np.errstate(all="ignore"):  # what overflows is noticed by its speed
            q, free = rk4_step(self.robot.algorithms, model, data, memory.q.copy(), memory.v.copy(), force, dt)
            if self._motion.f.any():
                free = free - self._brake(data, q, free)
        memory.q_there[:] = q
        self._motion.free[:] = free if np.isfinite(q).all() else np.nan
        memory.progress[[ANSWERED, SMOOTHED]] = 1

    def _brake(self, data: pin.Data, q: Array, v: Array) -> Array:
        """``(M + dt f)^-1 dt f v``: what joint friction takes from v in a step."""
        M = self.robot.algorithms.crba(self._smooth_model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        return np.asarray(np.linalg.solve(M + np.diag(self.dt * self._motion.f), self.dt * self._motion.f * v))

    @cached_property
    def _smooth_model(self) -> pin.Model:
        """With the motors' inertia."""
        model, robot = self.robot.model.copy(), self.robot
        if robot.coupling is None:
            model.armature = self.actuators.armature.copy()
        else:  # what motors add is at the independent joints
            model.armature[robot.coupling.v_index] += self.actuators.armature - robot.armature
        return model

    def _pushes_of(self, wrenches: Mapping[str, Array]) -> Pushes:
        """Forces and moments at frames, for compiled code."""
        pushes = no_pushes(len(wrenches))
        for i, (name, wrench) in enumerate(wrenches.items()):
            if name not in self._places:
                frame = self.robot.model.frames[self.robot.frame_id(name)]
                last = last_mover(self._step_model.bodies, frame.parentJoint)
                self._places[name] = frame.parentJoint, last, frame.placement.translation.copy()
            pushes.joints[i], pushes.last[i], pushes.points[i] = self._places[name]
            pushes.wrenches[i] = wrench
        return pushes

    # -- making ----------------------------------------------------------------------------------------------
    def _rooms(self, n: int) -> tuple[contact_data.Contacts, Collected]:
        """Workspace for n contacts in the pieces of a step, as many of them at once as it takes."""
        return contact_data.room_for_contacts(
            min(n, MAX_CONTACTS), len(self._step_model.radii), self.robot.nv
        ), room_for_pieces(n)

    def _make_room(self, n: int) -> None:
        """Workspace for n contacts at least, with those that are there.

        Raises:
            ArgumentError: more than a step takes at once.
        """
        old, before = self._room, self._collected
        if n > MAX_CONTACTS and n != len(before.keys):  # which would be those of all pieces
            self._restart()
            raise ArgumentError(
                f"spheres: {n} contacts at t = {self.time:.6g} s; a step takes {MAX_CONTACTS} at once: "
                "give fewer spheres"
            )
        self._room, self._collected = new, after = self._rooms(max(2 * n, len(before.keys)))
        for to, kept in zip(contact_data.remembered(new), contact_data.remembered(old), strict=True):
            to[: len(kept)] = kept
        for to, kept in zip((*after.touching, *after[1:]), (*before.touching, *before[1:]), strict=True):
            to[: len(kept)] = kept
