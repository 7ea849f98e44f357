"""`Plant`: interface of simulated robots, which a controller moves by joint torques."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
import pinocchio as pin
from eigenpy import is_approx  # Pinocchio's own array layer

from ..contact import Contact
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics.arguments import check_unit_norms
from ..dynamics.state import KineticEnergy
from ..errors import ArgumentError, ArgumentTypeError, DivergenceError, UnknownNameError
from ..exclusive_call import ExclusiveCall
from ..robot.arguments import Numbers, check_number, check_type, check_vector, check_wrench
from ..robot.robot import Robot
from ..robot.units import JointUnits, warn_of_time
from ..robot.validation import GRAVITY
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen
from .actuators import Actuators, make_drives, persistent_arrays, reset_drives
from .held_bodies import HeldBody, HeldBodySystem, HeldState
from .log import Log, LogBuilder
from .records import ActivePush, Checkpoint, ContactPoint
from .spheres import ContactSphere, place_spheres
from .terrain import Plane, Surface, Terrain, check_friction, terrain_below, warn_of_terrain_size

#: Sets an attribute without the checks of `StrictAttributes`, which would cost time in every step.
set_attribute = object.__setattr__
#: Joint or base speed above which a simulation counts as diverged [rad/s or m/s].
DIVERGENCE_SPEED = 1e6
#: Number of steps after which torques are compared with joint positions again.
TORQUE_CHECK_INTERVAL = 128
#: Maximum plausible depth of a contact sphere below the ground at the start, divided by the height of the base in the
#: home configuration.
MAX_START_DEPTH = 0.2
#: Largest plausible duration of a push that ends, and period of a controller [s].
MAX_PLAUSIBLE_PUSH_TIME, MAX_PLAUSIBLE_PERIOD = 20.0, 0.5
#: A push seems to be in another unit if its force is above the first number of weights of the robot, and it changes the
#: velocity of the robot by more than the second number [m/s]: impacts of a few milliseconds may have large forces.
MAX_WEIGHT_RATIO, MAX_VELOCITY_CHANGE = 50.0, 50.0
#: Maximum time step [s], in which a joint at 10 rad/s turns by 6 degrees.
MAX_TIME_STEP = 0.01


@renamed_attributes(held="held_bodies", play="backlash_state", solved="ok")
class Plant(StrictAttributes, fixed=("robot", "dt", "terrain", "actuators", "spheres")):
    """Base class of a simulated robot that is advanced one time step at a time by motor torques.

    The state follows the conventions of Pinocchio in every plant: quaternions (x, y, z, w), and the velocity of the
    base in base axes. A plant belongs to one thread. Two runs from the same state with the same torques agree bit for
    bit.

    Args:
        robot: robot with a free, planar or fixed root, with or without feet.
        dt: time step, at most 0.01 [s].
        friction: friction coefficient of surfaces without a coefficient.
        floor: height of a level floor [m]; -inf for no floor. None: 0, but no floor if the root is fixed or a `terrain`
            is given.
        terrain: one or several of `Plane`, `Box` and `HeightField`; None for the floor only.
        spheres: contact spheres in addition to those of the feet, by name, such as `collision_spheres`. None for
            `body_spheres`, on which a robot that falls comes to rest; {} for contacts of the feet only.
        actuators: motors of the robot; None: ideal motors with the effort limits of the robot.
        soles: surface contacts, such as `Contact.from_sole` of each foot. Their corners are the contact points; the
            default spheres of the same bodies are left out, and forces are reported for the sole as a whole.
        held_bodies: rigid bodies that the hands of the robot hold, see `HeldBody`.

    Attributes:
        robot: robot that is simulated.
        dt: time step [s].
        friction: friction coefficient of surfaces without a coefficient; may be set at any time and applies from
            the next step on.
        terrain: `Terrain` with all surfaces, including the floor.
        actuators: motors of the robot.
        spheres: names of the contact spheres and soles: feet first, then those in `spheres` by name.

    Raises:
        ArgumentError: an argument has a wrong value.
        ArgumentTypeError: an argument has a wrong type.

    Warns:
        RuntimeWarning: a terrain without a surface below the robot that replaces the floor, or a box or height field
            that seems to be in millimeters.
    """

    #: Maximum number of simultaneous pushes; more are a programming error in a loop.
    MAX_PUSHES: ClassVar[int] = 1000
    #: Maximum number of ticks of one run: a day at 1 kHz, whose log takes about 50 GB.
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
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        dt = check_number("dt", dt)
        if not 0.0 < dt <= MAX_TIME_STEP:  # also true of NaN
            raise ArgumentError(
                f"dt: expected a time step [s], more than 0 and at most {MAX_TIME_STEP:g}, got {dt}: a longer step "
                "would miss swings and touchdowns"
            )
        self.robot, self.dt, self._friction = robot, dt, check_friction(friction)
        self.terrain = _make_terrain(robot, floor, terrain)
        if actuators is None:
            actuators = Actuators(robot)
        elif not isinstance(actuators, Actuators):
            raise ArgumentTypeError(f"actuators: expected Actuators, got {type(actuators).__name__}")
        elif actuators.robot is not robot:
            raise ArgumentError(
                f"actuators: expected Actuators of this Robot object, {self.robot.name!r}, got Actuators of "
                f"{actuators.robot.name!r}"
            )
        self.actuators = actuators
        self._spheres = place_spheres(robot, spheres, soles)
        self.spheres = tuple(dict.fromkeys(sphere.reported_name for sphere in self._spheres if sphere.link is None))
        self._link_of_sphere = {sphere.reported_name: sphere.link for sphere in self._spheres}
        self._drives = make_drives(actuators, dt)
        rotors = self._drives.armature
        if robot.loops and robot.coupling is not None:  # rotors of dependent joints turn, too
            rotors = np.array(robot.model.armature)
            rotors[robot.coupling.v_index] = self._drives.armature
        self._kinetic, self._energy_data = KineticEnergy(robot.model, rotors), robot.model.createData()
        self._held_system = HeldBodySystem(robot, held_bodies, self.dt, actuators.effort)
        self._exclusive_step, self._joint_units = ExclusiveCall("plant"), JointUnits(robot)
        self._has_warned_of_depth, self._terrain_description = False, ""
        self._contact_settings: tuple[tuple[str, Any], ...] = ()

    # -- state -----------------------------------------------------------------------------------------------
    def reset(self, q: Numbers | None = None, v: Numbers | None = None) -> None:
        """Sets the state of the robot at time 0, and clears pushes, delayed torques and the work done.

        Args:
            q: (nq,) configuration; None: ``robot.q_home``.
            v: (nv,) velocity; None: zero.

        Raises:
            ArgumentError: a wrong shape or type, a non-finite entry, or a quaternion or (cos, sin) in `q` not of unit
                norm.

        Warns:
            RuntimeWarning: joint positions far beyond their limits, which seem to be in degrees or millimeters, or a
                height of the base that seems to be in millimeters; once.
            RuntimeWarning: a contact sphere of a robot with legs is more than a fifth of the height of the base in
                ``q_home`` below the ground; once. Also in the first step from ``q_home``.
        """
        robot, is_given = self.robot, q is not None
        if q is not None:
            array = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
            self._joint_units.warn("q", array)
            if robot.root == "free":
                self._joint_units.warn_of_base("q", array, ground=float(self.terrain.height(array[0], array[1])))
        q = robot.q_home if q is None else q
        v = np.zeros(robot.nv) if v is None else v
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit_norms(robot, q)
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._q, self._v = frozen(q), frozen(v)
        self._tau = frozen(np.zeros(robot.nu))
        self._steps = 0
        self._pushes: tuple[ActivePush, ...] = ()
        reset_drives(self._drives, self._v)
        self._held_system.grasp(self._q, self._v)
        self._reset_internal_state()
        if is_given:
            self._warn_of_penetration(self._q, stacklevel=3)

    def _warn_of_penetration(self, q: Array, *, argument: str = "q", stacklevel: int) -> None:
        """Warns if a contact sphere is deep in the ground in q (nq,); at most once."""
        size = float(self.robot.q_home[2]) if self.robot.root == "free" and self.robot.legs else 0.0
        if self._has_warned_of_depth or not (size > 0.0 and self.terrain.surfaces):
            return
        data, depth = self._energy_data, MAX_START_DEPTH * size
        self.robot.algorithms.forwardKinematics(self.robot.model, data, q)
        spheres = [sphere for sphere in self._spheres if sphere.joint]
        points = np.array([data.oMi[sphere.joint].act(sphere.in_joint) for sphere in spheres]).reshape(-1, 3)
        radii = np.array([sphere.radius for sphere in spheres])
        if not points.size:
            return
        # Beside a vertical face, the ground in one of these directions is not above the sphere.
        around = depth * np.array([[x, y] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)])
        columns = points[:, None, :2] + around
        ground = self.terrain.height(*columns.T)
        depths = _compute_depths(ground, points, radii)
        if depths.max() > depth:  # below a ceiling, the ground is not the highest surface
            tops = points[:, 2] + radii
            below = [
                terrain_below(self.terrain, top).height(*column.T) for column, top in zip(columns, tops, strict=True)
            ]
            ground = np.column_stack(below)
            depths = _compute_depths(ground, points, radii)
        deepest = int(np.argmax(depths))
        if depths[deepest] > depth:
            self._has_warned_of_depth = True
            lift = float(np.fmax.reduce(ground[4] - points[:, 2] + radii))  # 4: directly below the spheres
            warnings.warn(
                f"{argument}: {spheres[deepest].reported_name!r} is {depths[deepest]:.3g} m below the ground, with the "
                f"base at a height of {q[2]:.3g} m; with q[2] = {q[2] + lift:.4g} the robot would stand on it",
                RuntimeWarning,
                stacklevel=stacklevel,
            )

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
        """Friction coefficient of surfaces without a coefficient; a new value applies from the next step on."""
        return self._friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._friction = check_friction(value)
        self._apply_friction()

    @abstractmethod
    def _apply_friction(self) -> None:
        """Applies `friction` to the surfaces without a coefficient."""

    @property
    def time(self) -> float:
        """Time since the last reset [s]."""
        return self._steps * self.dt

    @property
    def tau(self) -> Array:
        """Motor torques of the last step (nu,), after delays and limits [N m or N], read-only."""
        return self._tau

    @property
    def backlash_state(self) -> tuple[Array, Array] | None:
        """Position and velocity of the motors relative to their joints within the backlash of the gears.

        (nu,) each [rad or m, rad/s or m/s], positive if the motor is ahead; None if no gear has backlash.
        """
        drives = self._drives
        if not len(drives.backlash_motors):
            return None
        relative_speed = np.zeros(self.robot.nu)
        relative_speed[drives.backlash_motors] = (drives.speed - self._v[drives.actuated])[drives.backlash_motors]
        return frozen(drives.offset), frozen(relative_speed)

    @property
    def contact_forces(self) -> dict[str, Array]:
        """Mean ground reaction force of the last step by foot, sole or named sphere: (3,) on the robot, world axes [N].

        Each is the sum over the contact points of the foot, whose normals may differ at edges; `contacts` has the
        forces of single points.  Forces on other parts of the robot are in `body_forces`.
        """
        forces = {name: np.zeros(3) for name in self.spheres}
        for contact in self.contacts:
            if contact.link is None:
                forces[contact.sphere] += contact.force
        return forces

    @property
    def body_forces(self) -> dict[str, Array]:
        """Mean ground reaction force of the last step by link: (3,) on the robot, world axes [N].

        Contains only links in contact, and no force that is in `contact_forces`.
        """
        forces: dict[str, Array] = {}
        for contact in self.contacts:
            if contact.link is not None:
                forces[contact.link] = forces.get(contact.link, np.zeros(3)) + contact.force
        return forces

    @property
    def held_bodies(self) -> Mapping[str, HeldState]:
        """State of each held body by name, with the forces of the last step at the hands that hold it."""
        return MappingProxyType(self._held_system.states)

    @property
    @abstractmethod
    def contacts(self) -> tuple[ContactPoint, ...]:
        """Contact points with a nonzero force in the last step."""

    @property
    @abstractmethod
    def status(self) -> str:
        """Status of the last step: "free" (no contact), "solved", or a word that names the deviation."""

    @property
    def ok(self) -> bool:
        """Whether the last step met its tolerances."""
        return self.status != "inaccurate"

    @property
    def energy(self) -> float:
        """Mechanical energy, kinetic plus potential [J]; the potential is zero if the center of mass is at z = 0."""
        data = self._energy_data
        self.robot.algorithms.forwardKinematics(self.robot.model, data, self._q, self._v)
        v, coupling = self._v, self.robot.coupling
        if self.robot.loops and coupling is not None:
            v = coupling.at(self._q).velocity(v)
        energy = self._kinetic.of(data, v) + float(pin.computePotentialEnergy(self.robot.model, data))
        for j in self._drives.backlash_motors:
            energy += 0.5 * float(self._drives.rotor[j] * self._drives.speed[j] ** 2)
        return energy

    # -- time ------------------------------------------------------------------------------------------------
    def step(self, tau: Numbers | Mapping[str, float], *, external: Mapping[str, Numbers] | None = None) -> None:
        """Advances the plant by one time step under constant torques.

        Args:
            tau: (nu,) commanded torques of the actuated joints [N m or N], in the order of ``robot.actuated``, or
                {joint name: torque} with every actuated joint; `actuators` delays and limits them.
            external: external loads of this step, {frame name: (3,) force or (6,) force and moment} on the robot at the
                origin of the frame, world axes [N, N m], in addition to those of `push`; None for none.

        Raises:
            ArgumentError: `tau` or a force has a wrong shape or type or is not finite.
            UnknownNameError: no frame or actuated joint of that name.
            DivergenceError: the state became non-finite; the plant keeps its last valid state.
            ConcurrencyError: another thread is stepping this plant.

        Warns:
            RuntimeWarning: once, if `tau` contains the present or home positions of the joints; it is examined in
                every 128th step.
        """
        # is_approx(x, x) is False for non-finite entries; `check_vector` then describes the error.
        if not (
            type(tau) is np.ndarray and tau.dtype == np.float64 and tau.shape == self._tau.shape and is_approx(tau, tau)
        ):
            tau = self._as_torques(tau)
        if self._steps % TORQUE_CHECK_INTERVAL == 0:
            self._joint_units.warn_of_torques("tau", tau, self._q)
            if not self._steps:
                self._warn_of_penetration(self._q, stacklevel=3)
        if external is not None:
            check_type("external", external, Mapping, "a mapping from frame names to forces")
        with self._exclusive_step.acquire("step"):
            self._step(tau, external)

    def _as_torques(self, tau: Numbers | Mapping[str, float]) -> Array:
        """Returns torques as an array (nu,) [N m or N]; raises if they are invalid."""
        robot = self.robot
        if isinstance(tau, Mapping):
            for name in tau:
                if name not in robot.actuated:
                    raise UnknownNameError("actuated joint", name, robot.actuated)
            missing = [name for name in robot.actuated if name not in tau]
            if missing:
                more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
                raise ArgumentError(
                    f"tau: expected the torque of every actuated joint, but {', '.join(missing[:3])}{more} are missing"
                )
            tau = [check_number(f"tau[{name!r}]", tau[name]) for name in robot.actuated]
        return check_vector("tau", tau, (robot.nu,), f"nu of {robot.name}")

    def _step(self, tau: Array, external: Mapping[str, Numbers] | None) -> None:
        """Advances the plant by one step; the caller holds the lock."""
        wrenches = dict[str, Array]()
        if external is not None or self._pushes:
            self._pushes = tuple(push for push in self._pushes if push.end > self._steps)
            wrenches = self._sum_wrenches(
                [(name, self._make_wrench(name, force)) for name, force in (external or {}).items()]
            )
        if self._held_system.bodies:
            grips, held_states = self._held_system.step(self._q, self._v, tau, wrenches)
            for name, wrench in grips:
                wrenches[name] = wrenches.get(name, 0.0) + wrench
            motor_torques = self._advance(tau, wrenches)
            self._held_system.states.update(held_states)
        else:
            motor_torques = self._advance(tau, wrenches)
        motor_torques.flags.writeable = False
        set_attribute(self, "_tau", motor_torques)
        set_attribute(self, "_steps", self._steps + 1)

    def push(self, frame: str, force: Numbers, *, duration: float) -> None:
        """Applies a force from now on for some time; forces of several pushes add up, and `reset` ends all of them.

        Args:
            frame: one of ``robot.frame_names``; the force acts at its origin.
            force: (3,) force or (6,) force and moment, on the robot, world axes [N, N m].
            duration: time [s], rounded to a whole number of steps, at least one; may be inf.

        Raises:
            ArgumentError: a force of a wrong shape or not finite, or a duration that is not positive.
            UnknownNameError: no frame of that name.

        Warns:
            RuntimeWarning: a duration that seems to be in milliseconds, or a force that seems to be in another unit.
        """
        duration = check_number("duration", duration)
        if not duration > 0.0:
            raise ArgumentError(f"duration: expected a positive time [s], got {duration}")
        wrench = self._make_wrench(frame, force)
        warn_of_time("duration", duration, MAX_PLAUSIBLE_PUSH_TIME)
        self._warn_of_force(float(np.linalg.norm(wrench[:3])), duration)
        if len(self._pushes) >= self.MAX_PUSHES:
            raise ArgumentError(
                f"push: {self.MAX_PUSHES} pushes are active already, which is the maximum; use shorter durations, or "
                "reset, which ends all pushes"
            )
        steps = max(round(duration / self.dt), 1) if duration / self.dt < np.inf else np.inf
        self._pushes += (ActivePush(frame, wrench, self._steps + steps),)

    def _warn_of_force(self, force: float, duration: float) -> None:
        """Warns if the size of the force [N] of a push for a time [s] seems to be in another unit."""
        mass = self.robot.mass
        if force > MAX_WEIGHT_RATIO * GRAVITY * mass and force * duration > MAX_VELOCITY_CHANGE * mass:
            warnings.warn(
                f"force: {force:.3g} N is {force / (GRAVITY * mass):.0f} times the weight of the robot, and seems to "
                "be in another unit; pass newtons",
                RuntimeWarning,
                stacklevel=3,
            )

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
        """Runs a controller for some time and records the motion.

        Args:
            controller: function that is called with the plant once per tick. It returns the torques, as `step` takes
                them, which are held until the next tick, or a command with a ``tau`` attribute, whose status is
                recorded.
            duration: time [s], a whole number of ticks.
            control_dt: period of the controller, a whole number of time steps [s]; None: `dt`.
            on_tick: called with the plant after each tick, to draw the plant or to stop the run by an exception; None
                for none.
            record_residuals: whether to record the residual of each level of whole-body control, which takes about a
                millisecond per tick.

        Returns:
            The `Log` of the run, which `replay` accepts.

        Raises:
            ArgumentError: `duration` and `control_dt` are not whole multiples, the controller or command has a `dt`
                other than `control_dt`, or the torques are rejected by `step`.
            DivergenceError: the state became non-finite.

        Warns:
            RuntimeWarning: a `control_dt` that seems to be in milliseconds.
        """
        if control_dt is not None:
            warn_of_time("control_dt", check_number("control_dt", control_dt), MAX_PLAUSIBLE_PERIOD)
        steps_per_tick = (
            1
            if control_dt is None
            else _count_periods("control_dt", check_number("control_dt", control_dt), self.dt, "dt")
        )
        ticks = _count_periods("duration", check_number("duration", duration), steps_per_tick * self.dt, "control_dt")
        if not callable(controller):
            raise ArgumentTypeError(f"controller: expected a callable, got {type(controller).__name__}")
        if ticks > self.MAX_TICKS:
            raise ArgumentError(f"duration: expected at most {self.MAX_TICKS} ticks, which a Log can hold, got {ticks}")
        start, robot = self.checkpoint(), self.robot
        log = LogBuilder(robot, start, steps_per_tick, ticks, self.spheres, record_residuals)
        for i in range(ticks):
            log.record_state(i, self.time, self._q, self._v)
            command = controller(self)
            if i == 0:
                _check_period(controller, command, steps_per_tick * self.dt)
            torques = getattr(command, "tau", command)
            if isinstance(torques, Mapping):
                torques = self._as_torques(torques)
            for _ in range(steps_per_tick):
                self.step(torques)
            log.record_command(i, command, torques, self.contacts)
            if on_tick is not None:
                on_tick(self)
        return log.build()

    def replay(self, log: Log) -> None:
        """Restores the state at the start of `log` and applies its torques again; the final state is equal bit for bit.

        Args:
            log: log of a plant made with the same arguments.

        Raises:
            ArgumentError: the log is of a different plant; the message lists the differences, and nothing has changed.
        """
        check_type("log", log, Log, "the Log of a run")
        recorded = dict(log.initial_checkpoint.settings)
        differences = [
            f"{name} {recorded[name]}, in this plant {value}"
            for name, value in self._settings
            if name in recorded and recorded[name] != value
        ]
        if differences and log.initial_checkpoint.kind == type(self).__name__:
            raise ArgumentError(
                f"log: was made with other arguments ({'; '.join(differences)}); replay it in a plant made with "
                "the same arguments"
            )
        if np.ndim(log.tau) != 2 or np.shape(log.tau)[1] != self.robot.nu:
            raise ArgumentError(
                f"log: expected torques of shape (n, {self.robot.nu}) for {self.robot.name}, got {np.shape(log.tau)}"
            )
        try:
            self.restore(log.initial_checkpoint)
        except ArgumentError as error:
            raise ArgumentError(f"log: its initial state does not fit: {error}") from error
        for tau in log.tau:
            for _ in range(log.steps_per_tick):
                self.step(tau)

    def checkpoint(self) -> Checkpoint:
        """Returns the complete present state, for `restore`."""
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
            self._copy_internal_state(),
            tuple(array.copy() for array in persistent_arrays(self._drives)),
            self._held_system.persistent_arrays,
            self._settings,
        )

    @property
    def _settings(self) -> tuple[tuple[str, Any], ...]:
        """Names and values of what a replay needs besides the state: friction, terrain and contact law."""
        if not self._terrain_description:
            self._terrain_description = self.terrain.description
        return ("friction", self._friction), ("terrain", self._terrain_description), *self._contact_settings

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restores a state that `checkpoint` returned; the following steps are equal bit for bit.

        Args:
            checkpoint: state of a plant made with the same arguments.

        Raises:
            ArgumentError: the checkpoint is of a different plant; the message lists the differences, and nothing has
                changed.
        """
        check_type("checkpoint", checkpoint, Checkpoint, "a Checkpoint")
        state = checkpoint
        if differences := self._describe_differences(state):
            raise ArgumentError(
                f"checkpoint: was taken from a different plant ({'; '.join(differences)}); restore it in a plant "
                "made with the same arguments"
            )
        motors = persistent_arrays(self._drives)
        self._q, self._v, self._tau, self._steps, self._pushes = state.q, state.v, state.tau, state.steps, state.pushes
        for array, saved in zip(motors, state.drives, strict=True):
            array[:] = saved
        self._held_system.persistent_arrays = state.held
        self._restore_internal_state(state.inner)

    def _describe_differences(self, checkpoint: Checkpoint) -> list[str]:
        """Returns descriptions of the differences between a checkpoint and this plant."""
        spheres = tuple(sphere.name for sphere in self._spheres)
        motors = [np.shape(array) for array in persistent_arrays(self._drives)]
        differences = [
            f"{name} {theirs!r}, in this plant {own!r}"
            for name, theirs, own in (
                ("plant", checkpoint.kind, type(self).__name__),
                ("robot", checkpoint.robot, self.robot.name),
                ("dt", checkpoint.dt, self.dt),
                ("spheres", checkpoint.spheres, spheres),
                ("shape of q", np.shape(checkpoint.q), self._q.shape),
                ("shape of v", np.shape(checkpoint.v), self._v.shape),
                ("shape of tau", np.shape(checkpoint.tau), self._tau.shape),
                ("shapes of the motor states", [np.shape(array) for array in checkpoint.drives], motors),
            )
            if theirs != own
        ]
        if not self._held_system.accepts(checkpoint.held):
            differences.append("its held bodies differ from those of this plant")
        if not differences and (inner := self._describe_state_difference(checkpoint.inner)):
            differences.append(inner)
        return differences

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            f"a {type(self).__name__} cannot be copied or pickled; make another one with the same arguments and "
            "restore the checkpoint() of this one, which can be pickled"
        )

    # -- implementation by the simulator -----------------------------------------------------------------------
    def _check_integrator(self, integrator: str, supported: Iterable[str]) -> None:
        """Raises if `integrator` is unknown or does not support the motors."""
        if integrator not in supported:
            raise ArgumentError(f"integrator: expected one of {', '.join(supported)}, got {integrator!r}")
        if integrator == "rk4" and self.actuators.backlash.any():
            raise ArgumentError("integrator: 'rk4' does not support motors with backlash; use another integrator")

    def _describe_state_difference(self, inner: tuple[Any, ...]) -> str:
        """Returns the reason why `_restore_internal_state` would reject a state, or "" if it would not."""
        return ""

    @abstractmethod
    def _reset_internal_state(self) -> None:
        """Initializes everything that depends on earlier steps from ``_q`` and ``_v``."""

    @abstractmethod
    def _advance(self, tau: Array, wrenches: Mapping[str, Array]) -> Array:
        """Advances ``_q`` and ``_v`` by one step, or raises `DivergenceError` and leaves them unchanged.

        Args:
            tau: (nu,) commanded torques [N m or N].
            wrenches: external force and moment (6,) by frame, world axes [N, N m].

        Returns:
            (nu,) torques of the motors [N m or N].
        """

    @abstractmethod
    def _copy_internal_state(self) -> tuple[Any, ...]:
        """Returns copies of everything else that the next step depends on."""

    @abstractmethod
    def _restore_internal_state(self, inner: tuple[Any, ...]) -> None:
        """Restores a state that `_copy_internal_state` returned."""

    def _sum_wrenches(self, forces: Iterable[tuple[str, Array]] = ()) -> dict[str, Array]:
        """Returns the sum of active pushes and of `forces` at each frame, (6,) each, world axes [N, N m]."""
        wrenches: dict[str, Array] = {}
        for name, wrench in [*((push.frame, push.wrench) for push in self._pushes), *forces]:
            wrenches[name] = wrenches.get(name, 0.0) + wrench
        return wrenches

    def _make_divergence_error(self) -> DivergenceError:
        """Returns the exception for a state that became non-finite."""
        return DivergenceError(
            f"the simulation of {self.robot.name!r} diverged at t = {self.time:.6g} s; is dt = {self.dt:g} s too "
            "long, or are the gains too high?",
            self.time,
            self._q,
            self._v,
        )

    def _make_wrench(self, frame: str, force: Numbers) -> Array:
        """Returns a force (3,), or force and moment (6,), as (6,) [N, N m]; raises if it or the frame is invalid."""
        self.robot.frame_id(frame)
        values = check_wrench(f"force on {frame!r}", force, "force [N], or force and moment [N m]")
        return np.concatenate((values, np.zeros(6 - len(values))))


def _compute_depths(ground: Array, points: Array, radii: Array) -> Array:
    """Returns the depths (k,) of spheres at points (k, 3) below the lowest of the ground heights (m, k) around them."""
    return np.asarray(np.where(np.isnan(ground), -np.inf, ground).min(axis=0) - (points[:, 2] - radii))


def _make_terrain(robot: Robot, floor: float | None, terrain: Terrain | Surface | Iterable[Surface] | None) -> Terrain:
    """Returns the terrain of a plant with its floor, from the arguments of the constructor."""
    given = Terrain(()) if terrain is None else Terrain.from_surfaces(terrain)
    surfaces = given.surfaces
    position = robot.q_home[:2] if robot.root == "free" else np.array([robot.q_home[0] if robot.nq else 0.0, 0.0])
    if terrain is not None and floor is None and robot.root != "fixed" and np.isnan(given.height(*position)):
        warnings.warn(
            f"terrain: it has no surface below the robot at x = {position[0]:g}, y = {position[1]:g}, and replaces the "
            "floor, so that the robot falls; add Plane.floor() to the list, or pass floor=-inf for no ground there",
            RuntimeWarning,
            stacklevel=6,
        )
    # A `Terrain` that needs no floor is that of another plant, which has warned: `Simulation.batch` makes many.
    is_checked = isinstance(terrain, Terrain) and floor == -np.inf
    if robot.root == "free" and robot.legs and not is_checked:
        warn_of_terrain_size("terrain", given, position, float(robot.q_home[2]), stacklevel=8)
    if floor is None:
        floor = 0.0 if terrain is None and robot.root != "fixed" else -np.inf
    floor = check_number("floor", floor)
    if not floor < np.inf:  # also true of NaN
        raise ArgumentError(f"floor: expected a height [m] or -inf, got {floor}")
    return Terrain((*surfaces, Plane.floor(floor)) if floor > -np.inf else surfaces)


def _check_period(controller: object, command: object, period: float) -> None:
    """Raises if the controller or its command has a control period `dt` other than `period` [s]."""
    for source in (command, controller):
        dt = getattr(source, "dt", None)
        if isinstance(dt, float) and abs(dt - period) > 1e-6 * period:
            raise ArgumentError(
                f"controller: was made for a period dt = {dt:g} s, but it is called every {period:g} s; make it with "
                f"dt={period:g}, or run it with control_dt={dt:g} on a plant whose time step divides this period"
            )


def _count_periods(name: str, value: float, unit: float, unit_name: str) -> int:
    """Returns how many times `unit` fits into `value`, or raises if that is not a whole number."""
    count = round(value / unit) if np.isfinite(value / unit) else 0
    if count < 1 or abs(count * unit - value) > 1e-6 * unit:
        raise ArgumentError(f"{name}: expected an integer multiple of {unit_name} = {unit:g} s, got {value:g} s")
    return count
