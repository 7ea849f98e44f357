"""`VelocityTask`: n quadrupeds that follow velocity commands, as arrays of observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..lane_blocks import check_mask
from ..locomotion.controller import LocomotionController
from ..locomotion.fall_detection import FALLEN_HEIGHT, FALLEN_TILT
from ..robot import load
from ..robot.arguments import check_array, check_integer, check_positive, check_vector
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..simulation import Simulation, Terrain
from ..simulation.terrain import Surface
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

#: Kinds of actions.
ACTIONS = ("targets", "torques", "residuals")
#: Default of `action_scale` for "residuals", as a fraction of the effort limits.
RESIDUAL_FRACTION = 0.2
#: Default speeds of commands: forward and sideways as fractions of sqrt(g l), turning as a fraction of sqrt(g / l).
FORWARD_FROUDE, SIDEWAYS_FROUDE, TURNING_FRACTION = 0.6, 0.3, 0.17
#: Default gains: stiffness divided by m g l [1/rad], and damping divided by stiffness and sqrt(l / g).
STIFFNESS_FACTOR, DAMPING_FACTOR = 1.0, 0.1
#: Maximum default gains, which only light joints, such as those of grippers, reach: stiffness times dt^2 and damping
#: times dt, divided by the inertia that the joint moves.  In these units, damping is stable below 2 minus half of the
#: stiffness, which is 1.7 at the maximum stiffness.  The third number is the maximum damping of joints at that
#: stiffness: `_compute_joint_inertias` returns lower bounds, and for these joints nearly the inertias themselves.
MAX_STIFFNESS_STEP, MAX_DAMPING_STEP, MAX_LIGHT_DAMPING_STEP = 0.6, 1.9, 1.6
#: Speed error at which the reward of following has fallen to 1/e, divided by the largest commanded speed.
ERROR_SCALE = 0.5
#: Random initial joint positions around the home configuration [rad], and height above it [l].
INITIAL_JOINT_RANGE, INITIAL_LIFT = 0.05, 0.02
#: Weights of following the turning rate, of mechanical power divided by ``m g`` [s/m], and of the change of actions.
TURNING_WEIGHT, POWER_WEIGHT, ACTION_CHANGE_WEIGHT = 0.5, 0.05, 0.01
#: Largest absolute value of an entry of an observation [SI units]; larger ones are clamped.
MAX_OBSERVATION = 100.0


class VelocityTask(
    StrictAttributes, fixed=("robot", "n", "action", "observation_size", "action_size", "terrain", "control_dt")
):
    """Task of n quadrupeds: follow commanded velocities of the base without falling.

    The robots are a `SimulationBatch` with contacts at the feet. Lengths l, masses m and times are those of the robot,
    so that the same parameters suit small and large ones; l is the height of the base in ``q_home``. The environments
    of Gymnasium call `reset` and `step`; a program without Gymnasium may do so, too. There is no automatic reset here;
    ``step(action, restart=has_ended)`` begins the episodes again that ended at the step before.

    An observation has, in this order: velocity of the base in its axes (3) [m/s], angular velocity (3) [rad/s],
    direction of gravity in base axes (3), command (3): forward and sideways [m/s] and turning [rad/s], positions of
    the actuated joints relative to ``q_home`` (nu) [rad], their velocities (nu) [rad/s], the last action (nu), and the
    heights of the terrain at `height_points` relative to the ground under a base at its height in ``q_home`` [m].
    Values are clamped to +-100.

    An action is (nu,) from -1 to 1; values beyond are clamped. "targets" are joint positions ``q_home + action_scale *
    action``, clamped to the joint limits, which PD control follows in every time step of the simulation. "torques" are
    ``action_scale * action``. "residuals" are torques ``action_scale * action`` that are added to those of a
    `LocomotionController` without a terrain map, which follows the command by whole-body control in every time step of
    the simulation.

    The reward of a step is ``exp(-(e_v / s_v)^2) + 0.5 exp(-(e_w / s_w)^2) - 0.05 P / (m g 1 m/s) - 0.01 mean((a -
    a')^2)`` with the errors e_v and e_w of horizontal velocity and turning rate, scales s of half of the largest
    commands, the mechanical power P of the motors (absolute values) and the last action a'.

    An episode ends with a fall if the base tilts by more than 60 degrees, its height above the ground is less than 40 %
    of that in ``q_home``, or the simulation diverges. It is cut off after `episode_time`, or where there is no terrain
    under the base.

    Args:
        n: number of robots.
        robot: robot with four legs and a free root, or what `quaddyn.load` accepts: a catalogue name, a path or the
            text of a URDF.
        action: "targets", "torques" or "residuals".
        action_scale: change of a joint target for the action 1 [rad], 0.3 if None, or torque for the action 1 [N m],
            (nu,) or a number; if None, the effort limits, and 20 % of them for "residuals".
        control_dt: time of a step of the task, a whole number of `dt` [s].
        dt: time step of the simulation [s].
        integrator: integrator of the simulation, see `Simulation`; "adaptive" is more accurate, and takes several
            times as long with random actions.
        stiffness: gain of "targets" [N m/rad], (nu,) or a number; None: ``m g l`` for each radian, or the largest
            stable gain at `dt` of joints that move a smaller inertia.
        damping: gain of "targets" [N m s/rad], (nu,) or a number; None: ``0.1 sqrt(l / g)`` times the stiffness, or
            the largest stable gain at `dt`.
        max_command: (3,) largest forward and sideways speed [m/s] and turning rate [rad/s] of the random commands, in
            both directions; None: ``0.6 sqrt(g l)``, ``0.3 sqrt(g l)`` and ``0.17 sqrt(g / l)``.
        command_time: time after which a new command is drawn [s].
        episode_time: maximum time of an episode [s].
        friction: (2,) range of the random friction coefficient of an episode.
        payload: (2,) range of the random mass on the root link in an episode [kg].
        motor_strength: (2,) range of the random maximum motor torque of an episode, as a fraction of that of the robot.
        terrain: terrain of all robots, see `Simulation`; None: the plane z = 0.
        start_area: (2,) or a number, largest distance of the base from the origin along x and y at the start of an
            episode [m]; positions within it are drawn uniformly.
        height_points: (k, 2) points around the base, in its heading frame (x forward, y to the left) [m], whose terrain
            heights are observed; where there is no terrain, that of the ground under the base. None: no points.
        threads: number of threads; None: the number of cores available to this process.

    Attributes:
        robot: the robot.
        n: number of robots.
        action: "targets", "torques" or "residuals".
        action_size: number of entries of an action, nu.
        observation_size: number of entries of an observation.
        batch: the simulated robots.

    Raises:
        ArgumentError: an argument is out of range, or the robot does not have four legs and a free root.
        ArgumentTypeError: an argument has a wrong type.
    """

    def __init__(
        self,
        n: int,
        robot: Robot | str | PathLike[str] = "go2",
        *,
        action: str = "targets",
        action_scale: float | Sequence[float] | Array | None = None,
        control_dt: float = 0.02,
        dt: float = 0.004,
        integrator: str = "euler",
        stiffness: float | Sequence[float] | Array | None = None,
        damping: float | Sequence[float] | Array | None = None,
        max_command: Sequence[float] | Array | None = None,
        command_time: float = 5.0,
        episode_time: float = 20.0,
        friction: Sequence[float] = (0.6, 0.6),
        payload: Sequence[float] = (0.0, 0.0),
        motor_strength: Sequence[float] = (1.0, 1.0),
        terrain: Terrain | Surface | Iterable[Surface] | None = None,
        start_area: float | Sequence[float] = (0.0, 0.0),
        height_points: Sequence[Sequence[float]] | Array | None = None,
        threads: int | None = None,
    ) -> None:
        self.n = check_integer("n", n)
        self.robot = robot = robot if isinstance(robot, Robot) else load(robot)
        if len(robot.legs) != 4 or robot.root != "free":
            raise ArgumentError(
                f"robot: expected four legs and a free root, got {len(robot.legs)} legs and a {robot.root} root of "
                f"{robot.name!r}"
            )
        if action not in ACTIONS:
            raise ArgumentError(f"action: expected one of {', '.join(ACTIONS)}, got {action!r}")
        self.action, nu = action, robot.nu
        length, gravity = float(robot.q_home[2]), float(np.linalg.norm(robot.model.gravity.linear))
        fraction = RESIDUAL_FRACTION if action == "residuals" else 1.0
        default_scale = 0.3 if action == "targets" else fraction * robot.effort_limits
        self._action_scale = _expand("action_scale", default_scale if action_scale is None else action_scale, nu)
        simulation = Simulation(robot, dt=dt, spheres={}, integrator=integrator, terrain=terrain)
        dt, inertias = simulation.dt, _compute_joint_inertias(robot)
        desired_stiffness = STIFFNESS_FACTOR * robot.mass * gravity * length
        stable_stiffness = MAX_STIFFNESS_STEP * inertias / dt**2
        default_stiffness = np.minimum(desired_stiffness, stable_stiffness)
        self._stiffness = _expand("stiffness", default_stiffness if stiffness is None else stiffness, nu)
        damping_step = np.where(desired_stiffness < stable_stiffness, MAX_DAMPING_STEP, MAX_LIGHT_DAMPING_STEP)
        default_damping = np.minimum(
            DAMPING_FACTOR * np.sqrt(length / gravity) * self._stiffness, damping_step * inertias / dt
        )
        self._damping = _expand("damping", default_damping if damping is None else damping, nu)
        self.control_dt = control_dt = check_positive("control_dt", control_dt)
        self._steps_per_action = round(control_dt / dt)
        if self._steps_per_action < 1 or abs(self._steps_per_action * dt - control_dt) > 1e-9:
            raise ArgumentError(f"control_dt: expected a whole number of dt = {dt:g} s, got {control_dt:g} s")
        speed = np.sqrt(gravity * length)
        default_command = [FORWARD_FROUDE * speed, SIDEWAYS_FROUDE * speed, TURNING_FRACTION * speed / length]
        self._max_command = frozen(
            check_vector("max_command", default_command if max_command is None else max_command, (3,), "x, y, turning")
        )
        if (self._max_command < 0.0).any():
            raise ArgumentError(f"max_command: expected speeds of 0 or more, got {self._max_command.tolist()}")
        # With commands of zero the errors are compared with the default speeds.
        scales = np.where(self._max_command > 0.0, self._max_command, default_command)
        self._speed_scale, self._turning_scale = ERROR_SCALE * float(scales[:2].max()), ERROR_SCALE * float(scales[2])
        self._command_steps = max(round(check_positive("command_time", command_time) / control_dt), 1)
        self._episode_steps = max(round(check_positive("episode_time", episode_time) / control_dt), 1)
        self._ranges = {
            "friction": _check_range("friction", friction),
            "payload": _check_range("payload", payload),
            "motor_strength": _check_range("motor_strength", motor_strength),
        }
        self._is_randomized = any(low != high for low, high in self._ranges.values())
        self.batch = simulation.batch(self.n, threads=threads)
        self._walkers = (
            LocomotionController(robot, dt=dt).batch(self.n, threads=threads) if action == "residuals" else None
        )
        self.batch.set_parameters(**{name: low for name, (low, _) in self._ranges.items()})
        self.batch.set_parameters(**{name: high for name, (_, high) in self._ranges.items()})
        self._joints = JointPositions.actuated(robot)
        self._home_joints, self._home_height, self._weight = self._joints.of(robot.q_home), length, robot.mass * gravity
        self._lower = np.where(self._joints.turning, -np.inf, robot.lower[self._joints.at])
        self._upper = np.where(self._joints.turning, np.inf, robot.upper[self._joints.at])
        self.terrain = simulation.terrain
        self._start_area = frozen(_expand("start_area", start_area, 2, "x, y"))
        self._height_points = frozen(_check_points("height_points", height_points))
        # The locomotion controller walks at once if all feet are in contact; otherwise it would first land.
        self._joint_range = 0.0 if action == "residuals" else INITIAL_JOINT_RANGE
        self._initial_lift = 0.0 if action == "residuals" else INITIAL_LIFT * length
        self._foot_offsets = frozen(_compute_foot_offsets(robot))
        self._check_start(np.abs(self._foot_offsets).max())
        self.action_size, self.observation_size = nu, 12 + 3 * nu + len(self._height_points)
        self._command, self._last_action = np.zeros((self.n, 3)), np.zeros((self.n, nu))
        self._steps = np.zeros(self.n, dtype=np.int64)
        self._generators = [np.random.default_rng(i) for i in range(self.n)]
        self.reset()

    @property
    def command(self) -> Array:
        """Commanded velocities of the base (n, 3) in its axes: forward and sideways [m/s], turning [rad/s]."""
        return self._command.copy()

    def set_command(self, command: Sequence[float] | Array) -> None:
        """Sets the commands until new ones are drawn.

        Args:
            command: (3,) for all robots or (n, 3): forward and sideways speed [m/s] and turning rate [rad/s].

        Raises:
            ArgumentError: a wrong shape, or an entry that is not finite.
        """
        shape = (3,) if np.ndim(command) == 1 else (self.n, 3)
        self._command[:] = check_vector("command", command, shape, "x, y, turning")

    def set_generator(self, lane: int, generator: np.random.Generator) -> None:
        """Sets the generator that all random numbers of a robot are drawn from.

        Robot i has its own generator, so that its episodes do not depend on the other robots.

        Raises:
            ArgumentError: `lane` is not an index of a robot.
        """
        if not 0 <= lane < self.n:
            raise ArgumentError(f"lane: expected 0 to {self.n - 1}, got {lane}")
        self._generators[lane] = generator

    def reset(self, mask: BoolArray | None = None, *, seed: int | None = None) -> FloatArray:
        """Begins new episodes with random position, heading, parameters and command.

        Robots start at rest, 2 % of the base height above the ground, with random joint positions near ``q_home``; for
        "residuals", on the ground in ``q_home``.

        Args:
            mask: (n,) bools, which robots; None: all.
            seed: seed of the generator of robot 0; that of robot i is ``seed + i``. Only robots in `mask` get new
                generators. None: the random numbers continue.

        Returns:
            The observations of all robots (n, observation_size).

        Raises:
            ArgumentError: `mask` has a wrong shape, or `seed` is not a whole number of 0 or more.
            ArgumentTypeError: `mask` is not an array of bools.
        """
        first = None if seed is None else check_integer("seed", seed, least=0)
        mask = check_mask(mask, self.n)
        lanes = np.flatnonzero(mask)
        if first is not None:
            for i in lanes.tolist():
                self.set_generator(i, np.random.default_rng(first + i))
        nu = self.action_size
        draws = np.array([self._generators[i].uniform(-1.0, 1.0, nu + 9) for i in lanes]).reshape(-1, nu + 9)
        q = np.tile(self.robot.q_home, (self.n, 1))
        for lane, draw in zip(lanes, draws, strict=True):
            joints = np.clip(self._home_joints + self._joint_range * draw[:nu], self._lower, self._upper)
            self._joints.put(q[lane], joints)
        headings = np.pi * draws[:, nu]
        q[lanes, :2] = self._start_area * draws[:, nu + 7 :]
        q[lanes, 2] += self._initial_lift
        if len(lanes):
            heights = self._heights_around(q[lanes, :2], headings, self._foot_offsets)
            q[lanes, 2] += np.fmax.reduce(heights, axis=1)  # NaN in gaps that are narrower than the grid of the check
        q[lanes, 3:7] = _turn_about_vertical(q[lanes, 3:7], headings)
        self.batch.reset(mask, q=q)
        if self._walkers is not None:
            self._walkers.reset(mask)
        self._command[lanes] = self._max_command * draws[:, nu + 1 : nu + 4]
        self._last_action[lanes], self._steps[lanes] = 0.0, 0
        if self._is_randomized:
            parameters = {}
            for k, (name, (low, high)) in enumerate(self._ranges.items()):
                if low != high:
                    values = np.full(self.n, low)
                    values[lanes] = low + 0.5 * (high - low) * (1.0 + draws[:, nu + 4 + k])
                    parameters[name] = values
            self.batch.set_parameters(mask, **parameters)
        return self.observe()

    def step(
        self, action: Array | FloatArray, *, restart: BoolArray | None = None
    ) -> tuple[FloatArray, Array, BoolArray, BoolArray]:
        """Takes a step of `control_dt`.

        Args:
            action: (n, nu) actions from -1 to 1; values beyond are clamped.
            restart: (n,) bools, whether a robot begins a new episode, as by `reset`, instead of taking the step; its
                action is ignored and its reward is 0. None: no robot.

        Returns:
            Observations (n, observation_size), rewards (n,), whether each robot has fallen (n,), and whether its
            episode has taken `episode_time` (n,).

        Raises:
            ArgumentError: a wrong shape, or an entry that is not finite.
            ArgumentTypeError: `restart` is not an array of bools.
        """
        array, is_restarted = check_array("action", action), np.zeros(self.n, dtype=bool)
        if array.shape != (self.n, self.action_size):
            raise ArgumentError(f"action: expected shape ({self.n}, {self.action_size}), got {array.shape}")
        if restart is not None:
            is_restarted |= check_mask(restart, self.n, "restart")
            array = np.where(is_restarted[:, np.newaxis], 0.0, array)
        if len(lanes := np.flatnonzero(~np.isfinite(array).all(axis=1))):
            raise ArgumentError(f"action: expected finite numbers, got others in lanes {lanes[:8].tolist()}")
        array = np.clip(array, -1.0, 1.0)
        if self.action == "targets":
            targets = np.clip(self._home_joints + self._action_scale * array, self._lower, self._upper)
            self.batch.step(
                position=targets, stiffness=self._stiffness, damping=self._damping, steps=self._steps_per_action
            )
        elif self._walkers is None:
            self.batch.step(self._action_scale * array, steps=self._steps_per_action)
        else:
            for _ in range(self._steps_per_action):
                command = self._walkers.compute(self.batch.q, self.batch.v, self._command)
                self.batch.step(command.tau + self._action_scale * array)
        self._steps += 1
        reward = self._compute_reward(array)
        self._last_action = array
        ground = self.terrain.height(*self.batch.q[:, :2].T)
        has_fallen = self._find_fallen(ground)
        is_cut_off = (self._steps >= self._episode_steps) | np.isnan(ground)
        for lane in np.flatnonzero((self._steps % self._command_steps == 0) & ~is_restarted):
            self._command[lane] = self._max_command * self._generators[lane].uniform(-1.0, 1.0, 3)
        reward[is_restarted] = 0.0
        observations = self.reset(is_restarted) if is_restarted.any() else self.observe()
        return observations, reward, has_fallen & ~is_restarted, is_cut_off & ~is_restarted

    def observe(self) -> FloatArray:
        """Returns the observations of the present states (n, observation_size)."""
        q, v, nu = self.batch.q, self.batch.v, self.action_size
        out = np.empty((self.n, self.observation_size), dtype=np.float32)
        out[:, :6], out[:, 6:9], out[:, 9:12] = v[:, :6], -_vertical_in_base(q), self._command
        out[:, 12 : 12 + nu] = self._joints.of(q) - self._home_joints
        out[:, 12 + nu : 12 + 2 * nu] = v[:, self.robot.actuated_index]
        out[:, 12 + 2 * nu : 12 + 3 * nu] = self._last_action
        if len(self._height_points):
            headings = np.arctan2(
                2.0 * (q[:, 3] * q[:, 4] + q[:, 5] * q[:, 6]), 1.0 - 2.0 * (q[:, 4] ** 2 + q[:, 5] ** 2)
            )
            heights = self._heights_around(q[:, :2], headings, self._height_points)
            ground = self.terrain.height(*q[:, :2].T)
            known = np.where(np.isnan(heights), ground[:, np.newaxis], heights)
            out[:, 12 + 3 * nu :] = np.nan_to_num(known + (self._home_height - q[:, 2])[:, np.newaxis])
        return np.clip(out, -MAX_OBSERVATION, MAX_OBSERVATION, out=out)

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a VelocityTask, or an environment with one, cannot be copied or pickled; create another one with the same "
            "arguments"
        )

    def _compute_reward(self, action: Array) -> Array:
        """Returns the reward of a step that ended in the present state, see the class."""
        v = self.batch.v
        speed_error = np.hypot(v[:, 0] - self._command[:, 0], v[:, 1] - self._command[:, 1])
        turning_error = v[:, 5] - self._command[:, 2]
        power = np.abs(self.batch.tau * v[:, self.robot.actuated_index]).sum(axis=1)
        reward = np.exp(-np.square(speed_error / self._speed_scale))
        reward += TURNING_WEIGHT * np.exp(-np.square(turning_error / self._turning_scale))
        reward -= POWER_WEIGHT / self._weight * power
        reward -= ACTION_CHANGE_WEIGHT * np.square(action - self._last_action).mean(axis=1)
        return np.asarray(reward)

    def _heights_around(self, positions: Array, headings: Array, points: Array) -> Array:
        """Returns the terrain heights (m, k) [m] at points (k, 2) around positions (m, 2), turned by headings (m,)."""
        x, y = points.T
        s, c = np.sin(headings)[:, np.newaxis], np.cos(headings)[:, np.newaxis]
        return self.terrain.height(positions[:, :1] + c * x - s * y, positions[:, 1:] + s * x + c * y)

    def _check_start(self, foot_distance: float) -> None:
        """Raises if episodes may begin beside the terrain: its height is evaluated on a grid over the start area."""
        reach = self._start_area + foot_distance
        heights = self.terrain.height(*np.meshgrid(*(np.linspace(-r, r, 65) for r in reach)))
        if np.isnan(heights).any():
            raise ArgumentError(
                f"start_area: at the start of an episode the feet may be up to {reach[0]:.2f} m (x) and "
                f"{reach[1]:.2f} m (y) from the origin, where the terrain has a gap; make the area smaller or the "
                "terrain larger"
            )

    def _find_fallen(self, ground: Array) -> BoolArray:
        """Returns whether each robot has fallen (n,); `ground`: (n,) terrain heights under the bases [m] or NaN."""
        q = self.batch.q
        is_low = q[:, 2] - ground < FALLEN_HEIGHT * self._home_height
        return np.asarray(is_low | (_vertical_in_base(q)[:, 2] < FALLEN_TILT) | self.batch.has_diverged)


def _vertical_in_base(q: Array) -> Array:
    """Returns the upward vertical in base axes (n, 3) for configurations (n, nq) of robots with a free root."""
    x, y, z, w = q[:, 3:7].T
    return np.stack([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)], axis=1)


def _turn_about_vertical(quaternions: Array, angles: Array) -> Array:
    """Returns quaternions (k, 4), (x, y, z, w), turned about the vertical by angles (k,) [rad]."""
    x, y, z, w = quaternions.T
    s, c = np.sin(0.5 * angles), np.cos(0.5 * angles)
    turned = np.stack([c * x - s * y, c * y + s * x, c * z + s * w, c * w - s * z], axis=1)
    return np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True))


def _compute_joint_inertias(robot: Robot) -> Array:
    """Returns inertias m (nu,) that bound the response of the actuated joints to torques in ``q_home`` [kg m^2].

    With the rows and columns A of the inverse inertia matrix that belong to the actuated joints, ``m_i = 1 / sum_j
    |A_ij|``.  Then all eigenvalues of ``A diag(m)`` are at most 1.
    """
    M = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)).M
    response = np.linalg.inv(M)[np.ix_(robot.actuated_index, robot.actuated_index)]
    return np.asarray(1.0 / np.abs(response).sum(axis=1))


def _compute_foot_offsets(robot: Robot) -> Array:
    """Returns positions (20, 2) relative to the base: the feet in ``q_home``, and points 0.1 l around each [m]."""
    state = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    margin = 0.1 * robot.q_home[2]
    around = margin * np.array([(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
    feet = np.array([state.placement(leg.foot.frame).translation[:2] for leg in robot.legs.values()])
    return np.reshape(feet[:, np.newaxis] - robot.q_home[:2] + around, (-1, 2))


def _check_points(name: str, value: Sequence[Sequence[float]] | Array | None) -> Array:
    """Returns points as an array (k, 2); None gives no points."""
    points = check_array(name, () if value is None else value)
    if not points.size:
        return np.zeros((0, 2))
    return check_vector(name, points, (len(points) if points.ndim else 1, 2), "k points x, y")


def _expand(
    name: str, value: float | Sequence[float] | Array, size: int, entries: str = "one for each actuated joint"
) -> Array:
    """Returns a number or `size` numbers, 0 or more, as an array (size,)."""
    array = check_vector(
        name, np.full(size, value) if np.ndim(value) == 0 else value, (size,), f"or a number; {entries}"
    )
    if (array < 0.0).any():
        raise ArgumentError(f"{name}: expected numbers of 0 or more, got {array.min():g}")
    return array


def _check_range(name: str, value: Sequence[float]) -> tuple[float, float]:
    """Returns the lower and upper end of a range."""
    low, high = check_vector(name, value, (2,), "lower and upper end").tolist()
    if low > high:
        raise ArgumentError(f"{name}: expected a range from a lower to an upper end, got {low:g}, {high:g}")
    return low, high
