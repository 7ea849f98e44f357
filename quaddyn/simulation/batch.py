"""`SimulationBatch`: n equal robots whose states are arrays and which compiled code steps in several threads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contact.solvers import MAX_FRICTION
from ..dynamics.arguments import UNIT_CHECKS, check_unit_norms
from ..dynamics.kinematic_tree import inertia_entries
from ..errors import ArgumentError
from ..exclusive_call import ExclusiveCall
from ..lane_blocks import LaneBlocks, check_mask, count_bytes, read_only
from ..robot.arguments import Numbers, check_integer, check_vector
from ..robot.units import JointUnits
from ..robot.validation import find_payload_unit_errors
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .lanes import (
    INITIAL_CONTACTS,
    LaneBlock,
    LaneCommands,
    LaneParameters,
    LaneWorker,
    SteppedPlant,
    make_ball_inertia,
    reset_lanes,
)
from .plant_data import ContactStatus

#: Names of the statuses by their number.
STATUS_NAMES = np.array([status.name.lower() for status in ContactStatus])
#: Largest plausible motor torque, divided by that of the plant; larger ones seem to be percentages.
MAX_PLAUSIBLE_STRENGTH = 10.0


class SimulationBatch(StrictAttributes, fixed=("robot", "dt", "n", "threads", "spheres", "links")):
    """Batch of n robots, each like the `Simulation` that made it; created by `Simulation.batch`.

    A robot of a batch is a *lane*. All lanes have the same robot, terrain, contact law and motors, and may differ in
    friction, motor strength and payload (`set_parameters`). Lanes do not interact. Each lane equals a single
    `Simulation` bit for bit, for any number of lanes and threads. All lanes start at rest in ``q_home`` at time 0.

    A lane whose motion diverges keeps its last valid state and is not stepped until it is reset; the other lanes are
    unaffected.

    Args:
        workers: simulations made with the same arguments, one for each thread; their states are overwritten.
        n: number of lanes.
        exclusive_call: lock of the batch; None: a new one.

    Attributes:
        robot: robot of each lane.
        dt: time step [s].
        n: number of lanes.
        threads: number of threads.
        spheres: names of the rows of `contact_forces`: feet, soles and named spheres.
        links: names of the rows of `body_forces`.
    """

    def __init__(self, workers: Sequence[SteppedPlant], n: int, *, exclusive_call: ExclusiveCall | None = None) -> None:
        first = workers[0]
        self.robot, self.dt, self.n, self.threads, self.spheres = first.robot, first.dt, n, len(workers), first.spheres
        lane_workers = [LaneWorker(worker) for worker in workers]
        self.links, self._first_worker = lane_workers[0].links, lane_workers[0]
        for worker in lane_workers:
            worker.simulation._contacts, worker.simulation._accumulated = worker.simulation._make_buffers(
                INITIAL_CONTACTS
            )
        self._lane_blocks = LaneBlocks(n, lane_workers, "simulation batch")
        self._simulations = tuple(workers)
        robot = self.robot
        whole = lane_workers[0].make_block(np.tile(robot.q_home, (n, 1)), np.zeros((n, robot.nv)))
        self._states, self._parameters = whole.states, whole.parameters
        self._payload = np.zeros(n)
        self._blocks = []
        for rows in self._lane_blocks.rows:
            states = type(whole.states)._make(array[rows] for array in whole.states)
            # Keys and impulses of contacts are arrays of each block, since the number of contacts differs.
            states = states._replace(keys=states.keys.copy(), impulses=states.impulses.copy())
            self._blocks.append(LaneBlock(states, LaneParameters._make(array[rows] for array in whole.parameters)))
        self._states = whole.states._replace(keys=np.zeros((n, 0), dtype=np.int64), impulses=np.zeros((n, 0, 3)))
        self._no_states = np.zeros((0, 1, robot.nq + robot.nv))
        self._exclusive_call = exclusive_call or ExclusiveCall("batch")
        self._joint_units, self._step_checks, self._reset_checks = JointUnits(robot), UNIT_CHECKS, UNIT_CHECKS

    # -- state -----------------------------------------------------------------------------------------------
    @property
    def q(self) -> Array:
        """Configurations (n, nq), a read-only view that later steps change."""
        return read_only(self._states.q)

    @property
    def v(self) -> Array:
        """Velocities (n, nv), a read-only view that later steps change [m/s, rad/s]."""
        return read_only(self._states.v)

    @property
    def tau(self) -> Array:
        """Motor torques of the last step (n, nu), after delays and limits, a read-only view [N m or N]."""
        return read_only(self._states.tau)

    @property
    def time(self) -> Array:
        """Time of each lane since its last reset (n,) [s]."""
        return np.asarray(self._states.n_steps * self.dt)

    @property
    def contact_forces(self) -> Array:
        """Mean ground reaction forces of the last step (n, len(spheres), 3), a read-only view, world axes [N]."""
        return read_only(self._states.forces[:, : len(self.spheres)])

    @property
    def body_forces(self) -> Array:
        """Mean ground reaction forces on other links (n, len(links), 3), a read-only view, world axes [N]."""
        return read_only(self._states.forces[:, len(self.spheres) :])

    @property
    def status(self) -> NDArray[np.str_]:
        """Status of the last step of each lane (n,), see `Simulation.status`."""
        return STATUS_NAMES[self._states.status]

    @property
    def residual(self) -> Array:
        """Largest violation of the contact law in the last step (n,) [m/s], a read-only view."""
        return read_only(self._states.residual)

    @property
    def has_diverged(self) -> NDArray[np.bool_]:
        """Whether the motion of each lane has diverged (n,)."""
        return self._states.has_diverged.astype(bool)

    @property
    def n_inaccurate_steps(self) -> NDArray[np.int64]:
        """Number of steps with status "inaccurate" since the last reset of each lane (n,)."""
        return self._states.n_inaccurate.copy()

    @property
    def friction(self) -> Array:
        """Friction coefficient of surfaces without a coefficient (n,), see `set_parameters`."""
        return read_only(self._parameters.friction)

    @property
    def motor_strength(self) -> Array:
        """Maximum motor torque of each lane divided by that of the plant (n,), see `set_parameters`."""
        return read_only(self._parameters.strength)

    @property
    def payload(self) -> Array:
        """Mass of the payload of each lane (n,) [kg], see `set_parameters`."""
        return read_only(self._payload)

    @property
    def bytes_per_lane(self) -> float:
        """Memory of the state and the parameters of a lane, mean over all lanes [bytes]."""
        contacts = sum(block.states.keys.nbytes + block.states.impulses.nbytes for block in self._blocks)
        return (contacts + count_bytes(self._states) + count_bytes(self._parameters)) / self.n

    @property
    def bytes_per_thread(self) -> int:
        """Memory for a step in progress, which a thread needs once for all its lanes; maximum over threads [bytes].

        It grows with the square of the number of simultaneous contacts of a robot.
        """
        return max(
            sum(count_bytes(part) for part in (s._terms, s._memory, s._motion, s._contacts, s._accumulated))
            for s in self._simulations
        )

    # -- time ------------------------------------------------------------------------------------------------
    def step(
        self,
        tau: Numbers | None = None,
        *,
        position: Numbers | None = None,
        velocity: Numbers | None = None,
        stiffness: Numbers | float | None = None,
        damping: Numbers | float | None = None,
        steps: int = 1,
    ) -> None:
        """Advances all lanes by one or several time steps, in one call of compiled code for each block of lanes.

        The commanded torques are ``tau + stiffness (position - q) + damping (velocity - v)`` of the motors, computed
        in every time step, as in `MotorCommand`. Continuous joints take the shorter way. Actuators delay and limit the
        torques. Each array has a row for each lane, (n, nu), or is the same for all lanes, (nu,).

        Args:
            tau: torques [N m or N]; None: zero.
            position: desired positions of the actuated joints [rad or m]; None: no PD targets.
            velocity: desired velocities [rad/s or m/s]; None: zero.
            stiffness: gains [N m/rad or N/m], or a number; required with `position`.
            damping: gains [N m s/rad or N s/m], or a number; required with `position`.
            steps: number of time steps.

        Raises:
            ArgumentError: an array of a wrong shape or with an entry that is not finite, a negative gain, gains without
                positions or positions without gains; or a lane has more contacts than a `Simulation` accepts. In the
                last case some lanes have been stepped and others have not.
            ConcurrencyError: another thread is stepping this batch.

        Warns:
            RuntimeWarning: once, in one of the first calls: desired positions that seem to be in degrees or
                millimeters, torques that are the present or home positions of the joints, or a start below the ground.
        """
        steps = check_integer("steps", steps)
        torques = np.zeros((1, self.robot.nu)) if tau is None else self._check_rows("tau", tau)
        targets = self._check_targets(position, velocity, stiffness, damping)
        if self._step_checks:
            q, units = self._states.q[0], self._joint_units
            if self._step_checks == UNIT_CHECKS:
                self._simulations[0]._warn_of_penetration(q, argument="q of lane 0", stacklevel=3)
            self._step_checks -= 1
            units.warn_of_lanes("position", targets[0])
            units.warn_of_torques("tau", torques[0], q)
        with self._exclusive_call.acquire("step"):
            self._run(LaneCommands(torques[:, np.newaxis], *targets, steps_per_period=steps))

    def _run(self, commands: LaneCommands) -> None:
        """Takes the commanded steps of all blocks."""

        def run_block(worker: LaneWorker, index: int) -> None:
            rows = self._lane_blocks.rows[index]
            own = LaneCommands._make(
                array[rows] if isinstance(array, np.ndarray) and len(array) > 1 else array for array in commands
            )
            worker.run(self._blocks[index], own, self._no_states)

        self._lane_blocks.run(run_block)

    def reset(self, mask: Any = None, *, q: Numbers | None = None, v: Numbers | None = None) -> None:
        """Sets lanes to a state at time 0, and clears delayed torques, contacts and the work done.

        Parameters are unchanged.

        Args:
            mask: (n,) bools, which lanes are reset; None: all.
            q: configurations (nq,) for all lanes or (n, nq), of which the rows in `mask` are used; None: ``q_home``.
            v: velocities (nv,) or (n, nv) likewise; None: zero.

        Raises:
            ArgumentError: a wrong shape, a non-finite entry, or a quaternion or (cos, sin) not of unit norm; no lane
                has changed.
            ArgumentTypeError: `mask` is not an array of bools.
            ConcurrencyError: another thread is stepping this batch.

        Warns:
            RuntimeWarning: once, in one of the first calls with `q`: joint positions or a height of the base that seem
                to be in another unit, or a lane whose start is below the ground, see `Simulation.reset`.
        """
        rows = check_mask(mask, self.n)
        q_rows = self._select_rows("q", self.robot.q_home if q is None else q, self.robot.nq, rows)
        v_rows = self._select_rows("v", np.zeros(self.robot.nv) if v is None else v, self.robot.nv, rows)
        for row in q_rows:
            check_unit_norms(self.robot, row)
        if q is not None and self._reset_checks and len(q_rows):
            self._reset_checks -= 1
            self._warn_of_states(q_rows, np.flatnonzero(rows))
        with self._exclusive_call.acquire("reset"):
            self._states.q[rows], self._states.v[rows] = q_rows, v_rows
            reset_lanes(self._states, rows, self._simulations[0]._drives)

    def set_parameters(
        self,
        mask: Any = None,
        *,
        friction: Numbers | float | None = None,
        motor_strength: Numbers | float | None = None,
        payload: Numbers | float | None = None,
        payload_position: Numbers = (0.0, 0.0, 0.0),
    ) -> None:
        """Sets parameters of lanes from the next step on, such as random ones for training.

        Each parameter is a number for all lanes or (n,), of which the entries in `mask` are used; None: unchanged.

        Args:
            mask: (n,) bools, which lanes get the parameters; None: all.
            friction: friction coefficient of surfaces without a coefficient.
            motor_strength: maximum motor torque divided by that of ``Simulation.actuators``; 0 or more.
            payload: mass of a ball without extent at `payload_position` [kg], as by `with_payload`; replaces the last
                payload. May be negative if the root link keeps a possible inertia.
            payload_position: (3,) position of the payload in the axes of the root link [m].

        Raises:
            ArgumentError: a value out of range, or a payload of a robot whose root is fixed; nothing has changed.
            ConcurrencyError: another thread is stepping this batch.

        Warns:
            RuntimeWarning: a payload or its distance that seems to be in another unit, see `with_payload`, or a motor
                strength that seems to be a percentage.
        """
        rows = check_mask(mask, self.n)
        new_friction = self._check_parameter("friction", friction, 0.0, MAX_FRICTION)
        new_strength = self._check_parameter("motor_strength", motor_strength, 0.0, np.inf)
        masses = self._check_parameter("payload", payload, -np.inf, np.inf)
        inertias = None if masses is None else self._compute_loaded_inertias(masses, payload_position, rows)
        self._warn_of_units(new_strength, masses, payload_position)
        with self._exclusive_call.acquire("set_parameters"):
            parameters = self._parameters
            if new_friction is not None:
                parameters.friction[rows] = new_friction[rows]
            if new_strength is not None:
                parameters.strength[rows] = new_strength[rows]
            if masses is not None and inertias is not None:
                model = self._simulations[0]._step_model
                scale = (self.robot.mass + masses[rows]) / self.robot.mass
                self._payload[rows], parameters.root_inertias[rows] = masses[rows], inertias
                parameters.weights[rows] = scale * model.weight
                parameters.allowed_work[rows] = scale * model.law.allowed_work

    def _warn_of_states(self, q: Array, lanes: NDArray[np.intp]) -> None:
        """Warns about configurations (m, nq) of lanes in another unit, and about the lowest one below the ground."""
        units, plant = self._joint_units, self._simulations[0]
        units.warn_of_lanes("q", q[:, units.index], lanes, stacklevel=4)
        if self.robot.root == "free":
            highest, lowest = int(np.argmax(q[:, 2])), int(np.argmin(q[:, 2]))
            ground = float(plant.terrain.height(q[highest, 0], q[highest, 1]))
            units.warn_of_base(f"q of lane {lanes[highest]}", q[highest], ground=ground, stacklevel=4)
            plant._warn_of_penetration(q[lowest], argument=f"q of lane {lanes[lowest]}", stacklevel=4)

    def _warn_of_units(self, strength: Array | None, masses: Array | None, position: Numbers) -> None:
        """Warns about motor strengths in percent, and about payloads in grams or at distances in millimeters."""
        texts: list[str] = []
        if masses is not None and masses.any():
            distance = float(np.linalg.norm(position))
            texts += find_payload_unit_errors(
                self.robot.tree, float(masses.max()), {"payload_position": distance}, argument="payload"
            )
        if strength is not None and MAX_PLAUSIBLE_STRENGTH < (largest := float(strength.max())) < np.inf:
            texts.append(f"motor_strength: {largest:g} seems to be a percentage; pass a fraction, such as 0.9")
        for text in texts:
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _compute_loaded_inertias(self, masses: Array, position: Numbers, rows: NDArray[np.bool_]) -> Array:
        """Returns the inertia of the first body with each payload in `rows`, (k, 10)."""
        robot = self.robot
        if robot.root == "fixed":
            raise ArgumentError(f"payload: not accepted, since the root of {robot.name!r} is fixed to the world")
        at = check_vector("payload_position", position, (3,), "in the axes of the root link")
        root = robot.bodies[0]
        at = next(pose for link, pose in root.links if link.name == root.name).apply(at)
        body, out = robot.model.inertias[1], []
        for mass in masses[rows]:
            if body.mass + mass <= 0.0:
                raise ArgumentError(f"payload: {mass:g} kg would leave the root link with {body.mass + mass:g} kg")
            loaded = make_ball_inertia(body, float(mass), at) if mass else body
            moments = np.linalg.eigvalsh(loaded.inertia)
            if not 0.0 < moments[0] + 1e-12 or moments[2] > moments[0] + moments[1] + 1e-9:
                raise ArgumentError(
                    f"payload: {mass:g} kg at {at.tolist()} m gives the root link an impossible inertia; choose "
                    "another mass or position"
                )
            out.append(inertia_entries(loaded))
        return np.array(out).reshape(-1, 10)

    # -- arguments -------------------------------------------------------------------------------------------
    def _check_rows(self, name: str, value: object, size: int | None = None) -> Array:
        """Returns an argument as an array (1, size) or (n, size); `size` is nu by default."""
        size = self.robot.nu if size is None else size
        if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == (self.n, size):
            # `check_vector` sums squares by BLAS, whose threads take milliseconds for many lanes.
            if np.isfinite(value).all():
                return np.ascontiguousarray(value)
        shape = (size,) if np.ndim(value) <= 1 else (self.n, size)  # type: ignore[arg-type]
        try:
            array = check_vector(name, value, shape, f"one row or n = {self.n} rows for {self.robot.name}")
        except ArgumentError:
            lanes = _find_lanes_not_finite(value, (self.n, size))
            if not len(lanes):
                raise
            raise ArgumentError(f"{name}: expected finite numbers, got others in lanes {lanes[:8].tolist()}") from None
        return np.ascontiguousarray(array.reshape(-1, size))

    def _check_targets(
        self, position: Any, velocity: Any, stiffness: Any, damping: Any
    ) -> tuple[Array, Array, Array, Array]:
        """Returns PD targets and gains as arrays of one or n rows, none without targets."""
        nu = self.robot.nu
        if position is None:
            given = {"velocity": velocity, "stiffness": stiffness, "damping": damping}
            if names := [name for name, value in given.items() if value is not None]:
                raise ArgumentError(f"position: required with {', '.join(names)}")
            return (np.zeros((0, nu)),) * 4
        arrays = [
            self._check_rows("position", position),
            np.zeros((1, nu)) if velocity is None else self._check_rows("velocity", velocity),
        ]
        for name, gain in (("stiffness", stiffness), ("damping", damping)):
            if gain is None:
                raise ArgumentError(f"{name}: required with position")
            array = self._check_rows(name, np.full(nu, gain) if np.ndim(gain) == 0 else gain)
            if (array < 0.0).any():
                raise ArgumentError(f"{name}: expected gains of 0 or more, got {array.min():g}")
            arrays.append(array)
        position, velocity, stiffness, damping = arrays
        return position, velocity, stiffness, damping

    def _select_rows(self, name: str, value: Any, size: int, rows: NDArray[np.bool_]) -> Array:
        """Returns the `rows` of an argument (size,) or (n, size); the other rows may have any values."""
        count = int(rows.sum())
        if np.ndim(value) == 2 and np.shape(value) == (self.n, size):
            return check_vector(name, np.asarray(value)[rows], (count, size), "lanes of the mask")
        return np.tile(check_vector(name, value, (size,), f"one row or n = {self.n} rows"), (count, 1))

    def _check_parameter(self, name: str, value: Any, low: float, high: float) -> Array | None:
        """Returns a parameter as an array (n,); None if it is not given."""
        if value is None:
            return None
        array = check_vector(name, np.full(self.n, value) if np.ndim(value) == 0 else value, (self.n,), "lanes")
        if not ((array >= low) & (array <= high)).all():
            raise ArgumentError(
                f"{name}: expected numbers from {low:g} to {high:g}, got {array.min():g}, {array.max():g}"
            )
        return array

    def __repr__(self) -> str:
        return (
            f"<SimulationBatch of {self.n} x {self.robot.name}, {self.bytes_per_lane / 1024:.1f} kB a lane, "
            f"{self.bytes_per_thread / 1024:.0f} kB for each of {self.threads} threads>"
        )


def _find_lanes_not_finite(value: object, shape: tuple[int, int]) -> NDArray[np.intp]:
    """Returns the rows of an array of numbers of `shape` that have an entry that is not finite; none for others."""
    if isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in "fiu":
        return np.flatnonzero(~np.isfinite(value).all(axis=1))
    return np.zeros(0, dtype=np.intp)
