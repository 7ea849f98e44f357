"""`Plant`: what every world that a robot can be put into offers to a controller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
import pinocchio as pin
from eigenpy import is_approx  # Pinocchio's own array layer

from ..contact import Contact
from ..contact.solvers import MAX_FRICTION
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics.arguments import check_unit
from ..dynamics.kinetic import KineticEnergy
from ..errors import ArgumentError, ArgumentTypeError, DivergenceError
from ..exclusive_call import OneCall
from ..robot.arguments import Numbers, check_vector, check_wrench, number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen
from .actuators import Actuators
from .drives import drives_of, remembered, restart
from .held_bodies import HeldBody, HeldState, Holding
from .log import Log
from .recording import Recording
from .records import ActivePush, Checkpoint, ContactPoint
from .spheres import ContactSphere, placed
from .terrain import Plane, Surface, Terrain

#: Sets a private attribute quickly, at every step.
keep = object.__setattr__
#: Beyond this generalized speed [rad/s or m/s] a simulation has diverged.
DIVERGENCE_SPEED = 1e6
#: Longest time step [s]: a joint at 10 rad/s turns by 6 degrees in it.
MAX_TIME_STEP = 0.01


@renamed_attributes(held="held_bodies", play="backlash_state", solved="ok")
class Plant(StrictAttributes, fixed=("robot", "dt", "terrain", "actuators", "spheres")):
    """A robot in a world, advanced one step at a time by the torques of its motors.

    The state is Pinocchio's (q, v) whatever computes the motion: quaternions (x, y, z, w), the base's velocity in the
    base's axes.  A plant belongs to one thread.  Two runs from the same state with the same torques agree bit for bit.

    Args:
        robot: any `Robot`: free, planar or fixed root, with or without feet.
        dt: time step, at most 0.01 [s].
        friction: Coulomb's coefficient of surfaces without their own.
        floor: height of a level floor [m], -inf for none; by default 0, and none under a fixed root, whose feet may
            hang anywhere, or where there is a `terrain`.
        terrain: surfaces, one or several.
        spheres: where else than at its feet the robot can touch something, by name; None: `body_spheres`, with which
            a robot that falls comes to lie; {}: its feet alone.
        actuators: the motors; by default they are perfect within the robot's effort limits.
        soles: surfaces, such as `Contact.of_sole` of each foot: their corners touch, and by default nothing else of
            these bodies; forces are those on a sole as a whole.
        held_bodies: bodies that hands of the robot hold, see `HeldBody`.

    Attributes:
        robot: as given.
        dt: as given [s].
        friction: as given; may be set at any time, and counts from the next step on.
        terrain: the `Terrain`, floor included.
        actuators: as given.
        spheres: names of what can touch: the feet first, then those asked for by name.

    Raises:
        ArgumentError: an argument is not what it must be.
    """

    #: Most pushes at a time; more are a loop that forgot to stop.
    MAX_PUSHES: ClassVar[int] = 1000
    #: Most ticks of one run: a day at 1 kHz, of which the log takes some 50 GB.
    MAX_TICKS: ClassVar[int] = 86_400_000

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float,
        friction: float,
        floor: float | None,
        terrain: Terrain | Surface | Iterable[Surface] | None,
        spheres: Mapping[str, ContactSphere] | None,
        actuators: Actuators | None,
        soles: Iterable[Contact] = (),
        held_bodies: Iterable[HeldBody] = (),
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        dt = number("dt", dt)
        if not 0.0 < dt <= MAX_TIME_STEP:  # also true of NaN
            raise ArgumentError(
                f"dt: expected a time step [s], more than 0 and at most {MAX_TIME_STEP:g}, got {dt}: within a longer "
                "one legs swing and feet touch down unseen"
            )
        self.robot, self.dt, self._friction = robot, dt, _coefficient(friction)
        self.terrain = _terrain(robot, floor, terrain)
        if actuators is None:
            actuators = Actuators(robot)
        elif not isinstance(actuators, Actuators):
            raise ArgumentTypeError(f"actuators: expected Actuators, got {type(actuators).__name__}")
        elif actuators.robot is not robot:
            raise ArgumentError(f"actuators: they were made for another robot, {actuators.robot.name!r}")
        self.actuators = actuators
        self._spheres = placed(robot, spheres, soles)
        self.spheres = tuple(dict.fromkeys(sphere.part for sphere in self._spheres if sphere.link is None))
        self._link_of = {sphere.part: sphere.link for sphere in self._spheres}
        self._drives = drives_of(actuators, dt)
        rotors = self._drives.armature
        if robot.loops and robot.coupling is not None:  # those that loops move turn, too
            rotors = np.array(robot.model.armature)
            rotors[robot.coupling.v_index] = self._drives.armature
        self._kinetic, self._energy_data = KineticEnergy(robot.model, rotors), robot.model.createData()
        self._nothing = frozen(np.zeros(robot.nv))
        self._holding = Holding(robot, held_bodies, self.dt, actuators.effort)
        self._one_step = OneCall("plant")

    # -- state -----------------------------------------------------------------------------------------------
    def reset(self, q: Numbers | None = None, v: Numbers | None = None) -> None:
        """Put the robot into a state, at time 0, with all sums at 0 and no pushes.

        Args:
            q: (nq,) configuration; ``robot.q_home`` by default.
            v: (nv,) velocity; at rest by default.

        Raises:
            ArgumentError: wrong shape or type, not finite, or a quaternion or (cos, sin) in `q` not of length 1.
        """
        robot = self.robot
        q = robot.q_home if q is None else q
        v = np.zeros(robot.nv) if v is None else v
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit(robot, q)
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._q, self._v = frozen(q), frozen(v)
        self._tau = frozen(np.zeros(robot.nu))
        self._steps = 0
        self._pushes: tuple[ActivePush, ...] = ()
        restart(self._drives, self._v)
        self._holding.take(self._q, self._v)
        self._restart()

    @property
    def q(self) -> Array:
        """Configuration (nq,), read-only."""
        return self._q

    @property
    def v(self) -> Array:
        """Velocity (nv,), read-only."""
        return self._v

    @property
    def friction(self) -> float:
        """Coulomb's coefficient of surfaces without their own; may be set, and counts from the next step on."""
        return self._friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._friction = _coefficient(value)
        self._apply_friction()

    @abstractmethod
    def _apply_friction(self) -> None:
        """The surfaces without a friction of their own have `friction` from now on."""

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return self._steps * self.dt

    @property
    def tau(self) -> Array:
        """Torques that the motors delivered in the last step (nu,) [N m], read-only."""
        return self._tau

    @property
    def backlash_state(self) -> tuple[Array, Array] | None:
        """By how much motors are ahead of their joints within their gears' backlash, and how much faster they turn.

        (nu,) each [rad or m, rad/s or m/s]; None where no gear has any.
        """
        drives = self._drives
        if not len(drives.loose):
            return None
        faster = np.zeros(self.robot.nu)
        faster[drives.loose] = (drives.speed - self._v[drives.actuated])[drives.loose]
        return frozen(drives.offset), frozen(faster)

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean force of the ground over the last step by foot (or sphere), (3,) on the robot, world axes [N].

        Those on the rest of the body are in `body_forces`.
        """
        forces = {name: np.zeros(3) for name in self.spheres}
        for contact in self.contacts:
            if contact.link is None:
                forces[contact.sphere] += contact.force
        return forces

    @property
    def body_forces(self) -> dict[str, Array]:
        """Mean force of the ground over the last step by link, (3,) on the robot, world axes [N].

        Only links that touch it, and without what is in `contact_forces`.
        """
        forces: dict[str, Array] = {}
        for contact in self.contacts:
            if contact.link is not None:
                forces[contact.link] = forces.get(contact.link, np.zeros(3)) + contact.force
        return forces

    @property
    def held_bodies(self) -> Mapping[str, HeldState]:
        """Where each held body is, and the forces of the last step at the hands that hold it, by name."""
        return MappingProxyType(self._holding.states)

    @property
    @abstractmethod
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Every point that carried a force in the last step."""

    @property
    @abstractmethod
    def status(self) -> str:
        """Of the last step: "free" (no contact), "solved", or a word for what went wrong."""

    @property
    def ok(self) -> bool:
        """Whether the last step met its tolerances."""
        return self.status != "inaccurate"

    @property
    def energy(self) -> float:
        """Mechanical energy, kinetic and potential (zero with the CoM in the plane z = 0) [J]."""
        data = self._energy_data
        self.robot.algorithms.forwardKinematics(self.robot.model, data, self._q, self._v)
        v, coupling = self._v, self.robot.coupling
        if self.robot.loops and coupling is not None:
            v = coupling.at(self._q).velocity(v)
        energy = self._kinetic.of(data, v) + float(pin.computePotentialEnergy(self.robot.model, data))
        for j in self._drives.loose:
            energy += 0.5 * float(self._drives.rotor[j] * self._drives.speed[j] ** 2)
        return energy

    # -- time ------------------------------------------------------------------------------------------------
    def step(self, tau: Numbers, *, external: Mapping[str, Numbers] | None = None) -> None:
        """Advance by dt under constant torques.

        Args:
            tau: (nu,) torques of the actuated joints [N m]; `actuators` deliver what they can of them.
            external: {frame name: (3,) force or (6,) force and moment} of this step [N, N m], on the robot at the
                frame's origin, world axes; beside those of `push`.

        Raises:
            ArgumentError: `tau` or a force has another shape or type or is not finite.
            UnknownNameError: no such frame.
            DivergenceError: the motion left the finite numbers; the plant keeps its last good state.
            ConcurrencyError: another thread is in a step of this plant.
        """
        # is_approx(x, x): every entry is finite; who fails is examined at leisure.
        if not (
            type(tau) is np.ndarray and tau.dtype == np.float64 and tau.shape == self._tau.shape and is_approx(tau, tau)
        ):
            tau = check_vector("tau", tau, (self.robot.nu,), f"nu of {self.robot.name}")
        if external is not None and not isinstance(external, Mapping):
            raise ArgumentTypeError(f"external: expected a mapping of frames, got {type(external).__name__}")
        with self._one_step("step"):
            self._step(tau, external)

    def _step(self, tau: Array, external: Mapping[str, Numbers] | None) -> None:
        """One step of this plant alone."""
        wrenches = dict[str, Array]()
        if external is not None or self._pushes:
            self._pushes = tuple(push for push in self._pushes if push.end > self._steps)
            wrenches = self._wrenches([(name, self._wrench(name, force)) for name, force in (external or {}).items()])
        if self._holding.bodies:
            grips, held = self._holding.step(self._q, self._v, tau, wrenches)
            for name, wrench in grips:
                wrenches[name] = wrenches.get(name, 0.0) + wrench
            given = self._advance(tau, wrenches)
            self._holding.states.update(held)
        else:
            given = self._advance(tau, wrenches)
        given.flags.writeable = False
        keep(self, "_tau", given)
        keep(self, "_steps", self._steps + 1)

    def push(self, frame: str, force: Numbers, *, duration: float) -> None:
        """ActivePush the robot from now on for some time; several pushes add up, and `reset` ends all.

        Args:
            frame: where, at the origin of any of ``robot.frame_names``.
            force: (3,) force or (6,) force and moment, on the robot, world axes [N, N m].
            duration: [s], rounded to steps, one at least; may be inf.

        Raises:
            ArgumentError: a force of another shape or not finite, or a duration that is not positive.
            UnknownNameError: no such frame.
        """
        duration = number("duration", duration)
        if not duration > 0.0:
            raise ArgumentError(f"duration: expected a positive time [s], got {duration}")
        if len(self._pushes) >= self.MAX_PUSHES:
            raise ArgumentError(f"push: there are {self.MAX_PUSHES} already")
        steps = max(round(duration / self.dt), 1) if duration / self.dt < np.inf else np.inf
        self._pushes += (ActivePush(frame, self._wrench(frame, force), self._steps + steps),)

    @renamed_parameters(lost_levels="record_residuals", seconds="duration", watch="on_tick")
    def run(
        self,
        controller: Callable[[Plant], Any],
        duration: float,
        *,
        control_dt: float | None = None,
        on_tick: Callable[[Plant], object] | None = None,
        record_residuals: bool = False,
    ) -> Log:
        """Let a controller move the robot for some time.

        Args:
            controller: called with the plant once per tick; returns tau (nu,), which is held until the next one, or a
                command that has it, of which the log keeps the status.
            duration: how long, a whole number of ticks [s].
            control_dt: between ticks, a whole number of steps [s]; `dt` by default.
            on_tick: called with the plant after each tick, to draw it or to stop it by an exception.
            record_residuals: whether the log says how far each level of whole-body control was missed; this takes about
                a millisecond a tick.

        Returns:
            The `Log`, which `replay` takes.

        Raises:
            ArgumentError: times that do not divide, a controller or command with a `dt` that is not the time between
                ticks, or a torque that `step` refuses.
            DivergenceError: the motion left the finite numbers.
        """
        ratio = 1 if control_dt is None else _whole("control_dt", number("control_dt", control_dt), self.dt, "dt")
        ticks = _whole("duration", number("duration", duration), ratio * self.dt, "control_dt")
        if not callable(controller):
            raise ArgumentTypeError(f"controller: expected something to call, got {type(controller).__name__}")
        if ticks > self.MAX_TICKS:
            raise ArgumentError(f"duration: expected at most {self.MAX_TICKS} ticks, which a Log keeps, got {ticks}")
        start, robot = self.checkpoint(), self.robot
        recording = Recording(robot, start, ratio, ticks, self.spheres, record_residuals)
        for i in range(ticks):
            recording.before(i, self.time, self._q, self._v)
            answer = controller(self)
            if i == 0:
                _check_period(controller, answer, ratio * self.dt)
            asked = getattr(answer, "tau", answer)
            for _ in range(ratio):
                self.step(asked)
            recording.after(i, answer, asked, self.contacts)
            if on_tick is not None:
                on_tick(self)
        return recording.log()

    def replay(self, log: Log) -> None:
        """Go back to where `log` began and apply its torques again: ends in the same state, bit for bit.

        Raises:
            ArgumentError: the log is another plant's; the message says what differs, and nothing has changed.
        """
        if not isinstance(log, Log):
            raise ArgumentTypeError(f"log: expected the Log of a run, got {type(log).__name__}")
        if np.ndim(log.tau) != 2 or np.shape(log.tau)[1] != self.robot.nu:
            raise ArgumentError(
                f"log: torques of shape {np.shape(log.tau)}, expected (n, {self.robot.nu}) for {self.robot.name}"
            )
        try:
            self.restore(log.initial_checkpoint)
        except ArgumentError as error:
            raise ArgumentError(f"log: it begins with a {error}") from error
        for tau in log.tau:
            for _ in range(log.steps_per_tick):
                self.step(tau)

    def checkpoint(self) -> Checkpoint:
        """All of the present state, to `restore` later."""
        return Checkpoint(
            type(self).__name__,
            self.robot.name,
            tuple(sphere.name for sphere in self._spheres),
            self.dt,
            self._q,
            self._v,
            self._tau,
            self._steps,
            self._pushes,
            self._inner(),
            tuple(each.copy() for each in remembered(self._drives)),
            self._holding.memory,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint as if nothing had happened since, bit for bit.

        Raises:
            ArgumentError: it is not of a plant like this one; the message says what differs, and nothing has changed.
        """
        if not isinstance(checkpoint, Checkpoint):
            raise ArgumentTypeError(f"checkpoint: expected a Checkpoint, got {type(checkpoint).__name__}")
        c = checkpoint
        if differences := self._differences(c):
            raise ArgumentError(
                f"checkpoint: of another plant: {'; '.join(differences)}; restore it in a plant made with the same "
                "arguments"
            )
        motors = remembered(self._drives)
        self._q, self._v, self._tau, self._steps, self._pushes = c.q, c.v, c.tau, c.steps, c.pushes
        for to, kept in zip(motors, c.drives, strict=True):
            to[:] = kept
        self._holding.memory = c.held
        self._resume(c.inner)

    def _differences(self, c: Checkpoint) -> list[str]:
        """Returns the differences between a checkpoint and this plant, in words."""
        spheres = tuple(sphere.name for sphere in self._spheres)
        motors = [np.shape(x) for x in remembered(self._drives)]
        found = [
            f"{name} {theirs!r}, here {own!r}"
            for name, theirs, own in (
                ("plant", c.kind, type(self).__name__),
                ("robot", c.robot, self.robot.name),
                ("dt", c.dt, self.dt),
                ("spheres", c.spheres, spheres),
                ("shape of q", np.shape(c.q), self._q.shape),
                ("shape of v", np.shape(c.v), self._v.shape),
                ("shape of tau", np.shape(c.tau), self._tau.shape),
                ("shapes of the motors' memory", [np.shape(x) for x in c.drives], motors),
            )
            if theirs != own
        ]
        if not self._holding.fits(c.held):
            found.append("other held bodies than here")
        if not found and (inner := self._unlike(c.inner)):
            found.append(inner)
        return found

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            f"a {type(self).__name__} cannot be copied or pickled; make another with the same arguments "
            "and restore the checkpoint() of this one, which can be"
        )

    # -- what a plant is made of -------------------------------------------------------------------------------
    def _check_integrator(self, integrator: str, known: Iterable[str]) -> None:
        if integrator not in known:
            raise ArgumentError(f"integrator: expected one of {', '.join(known)}, got {integrator!r}")
        if integrator == "rk4" and self.actuators.backlash.any():
            raise ArgumentError("integrator: 'rk4' takes no motors with backlash, whose teeth meet within a step")

    def _unlike(self, inner: tuple[Any, ...]) -> str:
        """Why `_resume` cannot take over what another plant's `_inner` gave, "" where it can."""
        return ""

    @abstractmethod
    def _restart(self) -> None:
        """Take over ``_q`` and ``_v``, and forget what happened before."""

    @abstractmethod
    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        """One step under torques that are asked for: new ``_q`` and ``_v``, or `DivergenceError` with the old ones.

        Returns:
            (nu,) what the motors delivered.
        """

    @abstractmethod
    def _inner(self) -> tuple[Any, ...]:
        """Copies of what else the next step depends on."""

    @abstractmethod
    def _resume(self, inner: tuple[Any, ...]) -> None:
        """Take over what `_inner` gave."""

    def _wrenches(self, forces: Iterable[tuple[str, Array]] = ()) -> dict[str, Array]:
        """Sums of the pushes of today and other forces, by frame."""
        wrenches: dict[str, Array] = {}
        for name, wrench in [*((push.frame, push.wrench) for push in self._pushes), *forces]:
            wrenches[name] = wrenches.get(name, 0.0) + wrench
        return wrenches

    def _diverged(self) -> DivergenceError:
        return DivergenceError(
            f"the simulation of {self.robot.name!r} diverged at t = {self.time:.6g} s; is dt = {self.dt:g} s too "
            "long, or are the gains too high?",
            self.time,
            self._q,
            self._v,
        )

    def _wrench(self, frame: str, force: Numbers) -> Array:
        self.robot.frame_id(frame)
        given = check_wrench(f"force on {frame!r}", force, "force [N], or force and moment [N m]")
        return np.concatenate((given, np.zeros(6 - len(given))))


def _coefficient(friction: float) -> float:
    value = number("friction", friction)
    if not 0.0 <= value <= MAX_FRICTION:
        raise ArgumentError(f"friction: expected a coefficient between 0 and {MAX_FRICTION:g}, got {friction}")
    return value


def _terrain(robot: Robot, floor: float | None, terrain: Terrain | Surface | Iterable[Surface] | None) -> Terrain:
    surfaces = () if terrain is None else Terrain.from_surfaces(terrain).surfaces
    if floor is None:
        floor = 0.0 if terrain is None and robot.root != "fixed" else -np.inf
    floor = number("floor", floor)
    if not floor < np.inf:  # also true of NaN
        raise ArgumentError(f"floor: expected a height [m] or -inf, got {floor}")
    return Terrain((*surfaces, Plane.floor(floor)) if floor > -np.inf else surfaces)


def _check_period(controller: object, answer: object, period: float) -> None:
    """Refuse a controller whose control period, which its commands or itself may say as `dt`, is another one."""
    for part in (answer, controller):
        dt = getattr(part, "dt", None)
        if isinstance(dt, float) and abs(dt - period) > 1e-6 * period:
            raise ArgumentError(
                f"controller: made for a tick every {dt:g} s (its dt), but it is called every {period:g} s; make it "
                f"with dt={period:g}, or run it with control_dt={dt:g} on a plant whose step divides that"
            )


def _whole(name: str, value: float, unit: float, of: str) -> int:
    """How often `unit` goes into `value`, which must be a whole number."""
    count = round(value / unit) if np.isfinite(value / unit) else 0
    if count < 1 or abs(count * unit - value) > 1e-6 * unit:
        raise ArgumentError(f"{name}: expected a whole number of times {of} = {unit:g} s, got {value:g} s")
    return count
