"""`run_trial`: simulates one `Trial` under its controller and evaluates the run.

`make_trial_setup` creates robot, controller, plant, terrain, sensors and motors of the trial.
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pinocchio as pin

from ..compiler import silence_messages
from ..deprecation import RENAMED, renamed_names
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, DivergenceError, UnknownNameError
from ..estimation import BaseEstimator, SensorNoise
from ..locomotion import Gait, LocomotionCommand, LocomotionController, LocomotionMode, Morphology, heading_axes
from ..locomotion.gait import find_gait
from ..locomotion.morphology import FEET
from ..robot import Robot, with_payload
from ..robot.configuration import rotate_configuration
from ..robot.inertial_update import with_inertials
from ..simulation import Actuators, Encoders, Imu, MujocoPlant, Plant, Sensors, Simulation
from ..simulation.terrain import Box, HeightField, Plane, Surface, Terrain
from ..urdf.tree import Array, Inertial, frozen
from .campaign import Record, case_rng, load_cached_robot
from .trial import Trial

#: Length of level ground before stairs, rubble and relief, from the center of the feet, and length of these [l].
LEVEL_LENGTH, FIELD_LENGTH = 1.0, 4.0
#: Number of steps of stairs, and width and thickness of their blocks [l].
N_STAIR_STEPS, TERRAIN_WIDTH, STEP_THICKNESS = 4, 8.0, 3.0
#: Fraction of the ground that rubble covers, and width of the rubble [l].
RUBBLE_COVERAGE, RUBBLE_WIDTH = 0.35, 2.4
#: Number of waves of a relief, range of wave numbers [1/l], grid spacing, and length of the transition from level
#: ground [l].
N_WAVES, WAVE_NUMBER_RANGE, GRID_SPACING, TRANSITION_LENGTH = 8, (2.0, 4.5), 0.05, 1.0


def make_trial_terrain(case: Trial, p: Morphology, robot: Robot, rng: np.random.Generator) -> list[Surface] | None:
    """Returns the terrain of a case in the initial heading of the robot; None for level ground."""
    yaw = p.yaw(robot.q_home)
    if case.slope:
        return [Plane.slope(case.slope, heading=case.slope_direction + yaw)]
    if case.step:
        return [Plane.floor(), _make_slab(case.step_distance, 40.0 * p.length, case.step, yaw)]
    if case.strips:
        return _make_strips(case.strips, p.length, yaw, rng)
    if case.boxes:
        return [Plane.floor(), *_make_boxes(case.boxes, p, yaw, rng)]
    if case.stairs:
        return _make_stairs(case.stairs, case.tread, p.length, yaw, rng)
    if case.rubble:
        return [Plane.floor(), *_make_rubble(case.rubble, p.length, yaw, rng)]
    if case.relief:
        return [_make_relief(case.relief, p.length, yaw, rng)]
    return None


def _make_slab(
    start: float, length: float, height: float, yaw: float, *, width: float = 20.0, depth: float = 1.0
) -> Box:
    """Returns solid ground up to a height over a length of the path [m], across its whole width."""
    R = _yaw_rotation(yaw)
    center = R @ np.array([start + 0.5 * length, 0.0, height - 0.5 * depth])
    return Box(center, np.array([length, width, depth]), R)


def _make_strips(max_height_step: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns level ground at the start, then strips of random length and height."""
    start = 0.7 * length
    strips: list[Surface] = [_make_slab(-10.0, 10.0 + start, 0.0, yaw)]
    height = 0.0
    while start < 15.0 * length:
        width = rng.uniform(0.5, 1.2) * length
        height += rng.uniform(-1.0, 1.0) * max_height_step
        strips.append(_make_slab(start, width, height, yaw))
        start += width
    return strips


def _make_boxes(height: float, p: Morphology, yaw: float, rng: np.random.Generator) -> list[Box]:
    """Returns boxes of one height that cover a tenth of the ground ahead, none under the first footholds."""
    front, half_width = float(np.abs(p.nominal_stance[:, 0]).max()), 2.0 * p.length
    boxes = []
    for _ in range(round(0.1 * 12.0 * 4.0 / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * p.length
        x, y = front + rng.uniform(0.6, 12.0) * p.length, rng.uniform(-half_width, half_width)
        boxes.append(_make_turned_box(x, y, size, height, yaw, rng))
    return boxes


def _make_turned_box(x: float, y: float, size: Array, height: float, yaw: float, rng: np.random.Generator) -> Box:
    """Returns a box on the floor with a random heading, at x ahead and y to the left of the robot [m]."""
    center = _yaw_rotation(yaw) @ np.array([x, y, 0.5 * height])
    return Box(center, np.array([*size, height]), _yaw_rotation(yaw + rng.uniform(-math.pi, math.pi)))


def _yaw_rotation(yaw: float) -> Array:
    """Returns the rotation (3, 3) about the vertical [rad]."""
    return np.asarray(pin.exp3(np.array([0.0, 0.0, yaw])))


def _make_stairs(rise: float, tread: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns stairs that rise by `rise` per step, or descend, starting within the first tread.

    Each block extends below all higher ones: a foot that sinks into a soft tread beside a riser would otherwise be
    pushed out of the end of the block.
    """
    first = LEVEL_LENGTH * length + rng.uniform(0.0, tread)
    edges = first + tread * np.arange(N_STAIR_STEPS)
    start, end = -10.0 * length, edges[-1] + 10.0 * length
    intervals = [(a, end) for a in (start, *edges)] if rise > 0.0 else [(start, b) for b in (*edges, end)]
    return [
        _make_slab(a, b - a, rise * i, yaw, width=TERRAIN_WIDTH * length, depth=STEP_THICKNESS * length)
        for i, (a, b) in enumerate(intervals)
    ]


def _make_rubble(max_height: float, length: float, yaw: float, rng: np.random.Generator) -> list[Surface]:
    """Returns boxes of random size, height and heading on a floor."""
    boxes: list[Surface] = []
    for _ in range(round(RUBBLE_COVERAGE * FIELD_LENGTH * RUBBLE_WIDTH / 0.25)):
        size = rng.uniform(0.3, 0.7, 2) * length
        height = rng.uniform(0.2, 1.0) * max_height
        x, y = LEVEL_LENGTH + 0.4 + rng.uniform(0.0, FIELD_LENGTH), rng.uniform(-0.5, 0.5) * RUBBLE_WIDTH
        boxes.append(_make_turned_box(x * length, y * length, size, height, yaw, rng))
    return boxes


def _make_relief(amplitude: float, length: float, yaw: float, rng: np.random.Generator) -> HeightField:
    """Returns smooth random terrain, level where the robot starts."""
    low, high = _bounding_rectangle(np.array([-3.0, -0.5 * TERRAIN_WIDTH]), np.array([15.0, 0.5 * TERRAIN_WIDTH]), yaw)
    counts = np.ceil((high - low) / GRID_SPACING - 1e-9).astype(int) + 1
    X, Y = np.meshgrid(*(a + GRID_SPACING * np.arange(n) for a, n in zip(low, counts, strict=True)), indexing="ij")
    ahead, left = math.cos(yaw) * X + math.sin(yaw) * Y, math.cos(yaw) * Y - math.sin(yaw) * X
    heights = np.zeros_like(X)
    for _ in range(N_WAVES):
        wave_number = rng.uniform(*WAVE_NUMBER_RANGE)
        direction = rng.uniform(-math.pi, math.pi)
        phase = rng.uniform(0.0, 2.0 * math.pi)
        heights += np.sin(wave_number * (ahead * math.cos(direction) + left * math.sin(direction)) + phase)
    heights *= amplitude / np.abs(heights).max()
    ramp = np.clip((ahead - 0.6 * LEVEL_LENGTH) / TRANSITION_LENGTH, 0.0, 1.0)
    heights *= ramp * ramp * (3.0 - 2.0 * ramp)
    return HeightField(length * low, np.full(2, GRID_SPACING * length), heights)


def _bounding_rectangle(low: Array, high: Array, yaw: float) -> tuple[Array, Array]:
    """Returns the corners of the axis-aligned rectangle around a rotated one."""
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    c, s = math.cos(yaw), math.sin(yaw)
    rotated = corners @ np.array([[c, s], [-s, c]])
    return rotated.min(axis=0), rotated.max(axis=0)


PLANTS: Mapping[str, type[Simulation] | type[MujocoPlant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
#: Owners of options, and the class whose constructor takes them.
OPTION_OWNERS: Mapping[str, type] = {
    "controller": LocomotionController,
    "gait": Gait,
    "embedded": Simulation,
    "mujoco": MujocoPlant,
}
#: Constructor arguments that a trial sets, or whose values are not plain values.
_RESERVED_ARGUMENTS = {
    "self", "robot", "dt", "gait", "wbc", "name", "terrain", "floor", "spheres", "actuators", "friction",
    "phase_offsets", "footprint_scale",
}  # fmt: skip

# Errors of a consumer IMU (BMI088 class, at 500 Hz) and of 14-bit encoders with differentiated velocity.
POSITION_NOISE, VELOCITY_NOISE, RESOLUTION = 5e-4, 0.05, 2.0 * math.pi / 2**14
GYRO_NOISE, ACCELEROMETER_NOISE = 5e-3, 0.05
IMU_BIASES = {
    "initial_gyro_bias": 5e-3, "initial_accelerometer_bias": 0.05, "gyro_bias_walk": 2e-4,
    "accelerometer_bias_walk": 1e-3,
}  # fmt: skip

#: Plant with compliant ground that creeps, and its creep: velocity [sqrt(g l)] per tangential force [m g / 4].
CREEPING, CREEP = "embedded:creeping", 0.2
#: Joint damping, rotor inertia and relative error of the feet's radii per relative error of masses.
DAMPING_ERROR, ARMATURE_ERROR, RADIUS_ERROR = 0.04, 0.016, 1.2


@dataclass
class TrialSetup:
    """Objects of one run; all are new, so that runs are independent."""

    robot: Robot  # model of the controller
    controller: LocomotionController  # controller of `robot`
    plant: Plant  # the simulated robot, with payload and model errors, in its initial state
    sensors: Sensors | None  # None if the controller is given the true state
    estimator: BaseEstimator | None  # likewise
    has_foot_sensors: bool  # whether the controller is given the measured foot contacts


def make_trial_setup(case: Trial, robot: Robot, rng: np.random.Generator) -> TrialSetup:
    """Returns the objects of one run.

    Raises:
        ArgumentError: a robot that cannot walk, or a number out of range.
        UnknownNameError: an option that does not exist.
        QuaddynError: MuJoCo is requested and not installed.
    """
    options = _options_by_owner(case)
    gait = find_gait(case.gait)
    if options["gait"]:
        gait = dataclasses.replace(gait, **options["gait"])
    terrain = make_trial_terrain(case, Morphology.from_robot(robot), robot, rng)
    terrain_map = None if not case.terrain_known or terrain is None else Terrain.from_surfaces(terrain)
    controller = LocomotionController(robot, dt=case.dt, gait=gait, terrain=terrain_map, **options["controller"])
    p = controller.morphology
    simulated_robot = with_model_error(with_trunk_load(robot, p, case), p, case.model_error, rng)
    actuators = None
    if case.torque_scale != 1.0:
        actuators = Actuators(simulated_robot, effort=case.torque_scale * simulated_robot.effort_limits)
    kind = case.plant.partition(":")[0]
    if case.plant == CREEPING:
        options[kind]["creep"] = CREEP * p.speed_scale / (p.mass * p.gravity / len(FEET))
    plant = PLANTS[kind](
        simulated_robot, dt=case.dt, friction=case.friction, terrain=terrain, actuators=actuators, **options[kind]
    )
    q, v = np.array(robot.q_home), np.zeros(robot.nv)
    if case.slope:
        q = rotate_configuration(q, Plane.slope(case.slope, heading=case.slope_direction + p.yaw(q)).tilt)
    plant.reset(q, v)
    sensors = estimator = None
    if case.use_state_estimate or case.delay or case.noise_scale:
        sensors = make_sensors(simulated_robot, case, rng)
        estimator = BaseEstimator(robot, dt=case.dt)
        estimator.reset(q, v)
    return TrialSetup(robot, controller, plant, sensors, estimator, bool(case.step or case.strips or case.boxes))


def option_names() -> dict[str, list[str]]:
    """Returns the names of all options by their owner: controller, gait or plant."""
    return {
        owner: [
            name
            for name in inspect.signature(vars(owner_class)["__init__"]).parameters
            if name not in _reserved_arguments(owner)
        ]
        for owner, owner_class in OPTION_OWNERS.items()
    }


def _current_option_name(option: str, plant: str) -> str:
    """Returns the current name of an option that may have the name of an earlier version, as in stores of that version.

    Args:
        option: owner and name, such as "plant.integrator".
        plant: kind of the plant, a key of `PLANTS`.
    """
    owner, _, name = option.partition(".")
    owner_class = OPTION_OWNERS.get(plant if owner == "plant" else owner)
    if owner_class is None:
        return option
    return f"{owner}.{RENAMED.get(f'{owner_class.__module__}.{owner_class.__qualname__}({name})', name)}"


def _reserved_arguments(owner: str) -> set[str]:
    """Returns the constructor arguments of an owner that are not options."""
    return _RESERVED_ARGUMENTS - {"friction"} if owner == "controller" else _RESERVED_ARGUMENTS


def _options_by_owner(case: Trial) -> dict[str, dict[str, Any]]:
    """Returns the options of a case by their owner; those of the plant under its name."""
    kind, _, contact = case.plant.partition(":")
    available = {f"{'plant' if owner in PLANTS else owner}.{name}": (owner, name)
             for owner, names in option_names().items() if owner not in PLANTS or owner == kind
             for name in names}  # fmt: skip
    options: dict[str, dict[str, Any]] = {owner: {} for owner in OPTION_OWNERS}
    if contact:
        if any(option == "plant.contact" for option, _ in case.options):
            raise ArgumentError(
                f"plant.contact: not accepted with the plant {case.plant!r}, which has its own contact model"
            )
        options[kind]["contact"] = "compliant" if case.plant == CREEPING else contact
    for given_name, value in case.options:
        option = _current_option_name(given_name, kind)
        if option not in available:
            raise UnknownNameError("option", option, available)
        owner, name = available[option]
        options[owner][name] = value
    return options


def with_trunk_load(robot: Robot, p: Morphology, case: Trial) -> Robot:
    """Returns the robot with a payload, or with a displaced trunk mass, so that the whole CoM moves by `com_offset`."""
    payload = case.payload
    if not (payload or case.com_offset):
        return robot
    direction = np.array([math.cos(case.com_offset_direction), math.sin(case.com_offset_direction), 0.0])
    if payload:
        shift = case.com_offset * (robot.mass + payload) / payload
        position = p.heading @ (shift * direction + (0.0, 0.0, 0.1 * p.length) - p.base_offset)
        return with_payload(robot, payload, position, diameter=0.1 * math.sqrt(10.0) * p.length)
    trunk = robot.bodies[0].inertial
    com_shift = p.heading @ (case.com_offset * robot.mass / trunk.mass * direction)
    inertial = dataclasses.replace(trunk, com=frozen(trunk.com + com_shift))
    return with_inertials(robot, {robot.bodies[0].name: inertial}, said="moved")


def with_model_error(robot: Robot, p: Morphology, error: float, rng: np.random.Generator) -> Robot:
    """Returns the simulated robot of a controller whose model `robot` has random errors.

    Args:
        robot: model of the controller.
        p: scales of the robot.
        error: bound on the relative error of masses.  Masses and inertias of bodies are multiplied by a factor between
            ``1 / (1 + error)`` and ``1 + error``.  Joints have additional damping up to `DAMPING_ERROR` times the error
            [m g l sqrt(l/g)] and rotor inertia up to `ARMATURE_ERROR` times the error [m l^2].  The relative errors of
            the foot radii are up to `RADIUS_ERROR` times the error.
        rng: random generator.
    """
    if not error:
        return robot
    bodies: dict[str, Inertial] = {}
    losses: dict[str, Array] = {}
    for body in robot.bodies:
        scale = math.exp(rng.uniform(-1.0, 1.0) * math.log1p(error))
        inertial = body.inertial
        if inertial.mass:
            bodies[body.name] = dataclasses.replace(
                inertial, mass=scale * inertial.mass, inertia=frozen(scale * inertial.inertia)
            )
    damping = DAMPING_ERROR * error * p.mass * p.gravity * p.length * p.time_scale
    armature = ARMATURE_ERROR * error * p.mass * p.length**2
    for joint in robot.tree.joints:
        if joint.name in robot.actuated:
            added_losses = np.array([damping, 0.0, armature]) * rng.random(3)
            losses[joint.name] = np.array([joint.damping, joint.friction, joint.armature]) + added_losses
    legs = {
        name: dataclasses.replace(
            leg,
            foot=dataclasses.replace(
                leg.foot, radius=leg.foot.radius * (1.0 + RADIUS_ERROR * error * rng.uniform(-1.0, 1.0))
            ),
        )
        for name, leg in robot.legs.items()
    }
    changed = with_inertials(robot, bodies, losses, said="drawn")
    return dataclasses.replace(changed, legs=MappingProxyType(legs))


def encoders(noise: float = 1.0) -> Encoders:
    """Returns the encoders of trials, with noise scaled by a factor."""
    return Encoders(
        position_noise=noise * POSITION_NOISE,
        velocity_noise=noise * VELOCITY_NOISE,
        resolution=RESOLUTION if noise else 0.0,
    )


def imu(noise: float = 1.0) -> Imu:
    """Returns the IMU of trials, with noise scaled by a factor."""
    scaled: dict[str, Any] = {name: noise * value for name, value in IMU_BIASES.items()}
    return Imu(gyro_noise=noise * GYRO_NOISE, accelerometer_noise=noise * ACCELEROMETER_NOISE, **scaled)


def sensor_noise() -> SensorNoise:
    """Returns the noise parameters of an estimator that match the sensors of trials exactly."""
    return SensorNoise(
        position=POSITION_NOISE, velocity=VELOCITY_NOISE, gyro=GYRO_NOISE, accelerometer=ACCELEROMETER_NOISE,
        **IMU_BIASES,
    )  # fmt: skip


def make_sensors(robot: Robot, case: Trial, rng: np.random.Generator) -> Sensors:
    """Returns the sensors of a trial, with its noise and delay."""
    return Sensors(robot, rng, encoders=encoders(case.noise_scale), imu=imu(case.noise_scale), delay=case.delay)


def check_options(case: Trial) -> None:
    """Rejects options that do not exist, before any run.

    Raises:
        UnknownNameError: an option that does not exist.
        ArgumentError: an option that is given twice.
    """
    names = [name for name, _ in case.options]
    if len(set(names)) < len(names):
        raise ArgumentError(f"options: expected each name once, got {', '.join(names)}")
    _options_by_owner(case)


#: Callback with the plant before each tick and the command of the controller.
Watch = Callable[[Plant, LocomotionCommand], object]
#: Force above which a foot is in contact, as a fraction of the weight.
CONTACT_WEIGHT_FRACTION = 0.02
#: Time from which the velocity is commanded [s].
COMMAND_START_TIME = 0.3
#: Time for which a run continues after a fall on slippery ground [s].
FALL_OBSERVATION_TIME = 1.0


def run_trial(case: Trial, watch: Watch | None = None) -> Record:
    """Runs one trial: simulates the robot of a case under its controller and evaluates the run.

    Args:
        case: the trial.
        watch: called before each control tick with the plant and the controller's command; None: not called.

    Returns:
        The record of the trial:

        - "success", and "reason" of a failure (None for a success); "fell", time of a fall [s] or None.
        - "vx", "vy" [m/s], "wz" [rad/s]: mean velocity in the heading frame, along the ground on slopes and stairs.
        - "ahead": distance covered, if the trial has a `course_interval` [m].
        - "velocity_ratio": velocity along the command divided by the commanded speed; "velocity_error": largest
          difference from the command in any component, in units of the trial (both None without a command or after a
          fall).
        - "flagged": fraction of ticks without a certified solution.
        - "torque": largest ratio of a motor torque to its limit; "torque_rms" [N m].
        - "power", "power_peak": mean and peak of the positive mechanical power of all motors [W]; "cost": cost of
          transport, mean power over weight times speed.
        - "predicted_slope_limit": result of `LocomotionController.slope_limit_reason` for the slope and its friction
          before the run, "" for no limit (None on other terrain).
        - "peak_motor_power": largest power of one motor over a control period after a drop of the friction, a fall
          included [m g sqrt(g l)] (None without such a drop).
        - "allowed_fraction": mean fraction of the commanded velocity that the controller admitted (None without a
          command); "limit_reason": the last reason of the controller for a reduction, "" for none.
    """
    setup = make_trial_setup(case, load_cached_robot(case.robot), case_rng(case.seed, case.number))
    evaluation = RunEvaluation(case, setup.plant, setup.controller.morphology)
    if case.slope:
        slope_arguments = case.slope, case.slope_direction, case.velocity
        evaluation.predicted_slope_limit = setup.controller.slope_limit_reason(*slope_arguments, friction=case.friction)
    with silence_messages(), gc_disabled():
        try:
            return _simulate(case, setup, evaluation, watch)
        except DivergenceError:
            return evaluation.record(setup.plant.time, "the plant diverged")


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Context without garbage collection, which takes 10 % of the time, while trials make no cyclic garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _simulate(case: Trial, setup: TrialSetup, evaluation: RunEvaluation, watch: Watch | None) -> Record:
    """Simulates the run, evaluates it in `evaluation`, and returns its record."""
    plant, controller, robot = setup.plant, setup.controller, setup.robot
    dynamics = Dynamics(robot)
    contact_threshold = CONTACT_WEIGHT_FRACTION * plant.robot.mass * controller.morphology.gravity
    stance_feet: tuple[str, ...] = tuple(robot.feet)
    was_pushed, has_dropped = not case.push, False
    fall: tuple[float, str] | None = None
    for k in range(round(case.seconds / case.dt)):
        t = k * case.dt
        if case.slip_friction:
            has_dropped, plant.friction = friction_at(case, t)
        if not was_pushed and t >= case.push_time - 1e-9:
            was_pushed = True
            push_angle = controller.morphology.yaw(plant.q) + case.push_direction
            force = (
                plant.robot.mass
                * case.push
                / case.push_duration
                * np.array([math.cos(push_angle), math.sin(push_angle), 0.0])
            )
            plant.push(robot.bodies[0].name, force, duration=case.push_duration)
        q, v = np.array(plant.q), np.array(plant.v)
        if setup.sensors is not None and setup.estimator is not None:
            reading = setup.sensors.read(plant)
            setup.estimator.update(
                np.array(reading.position),
                np.array(reading.velocity),
                np.array(reading.gyro),
                np.array(reading.accelerometer),
                stance_feet,
            )
            q, v = setup.estimator.odometry()
        measured_contacts = None
        if setup.has_foot_sensors and k:
            forces = plant.contact_forces
            measured_contacts = [foot for foot in robot.feet if forces[foot][2] > contact_threshold]
        command = controller.compute(dynamics.update(q, v), velocity_at(case, t), measured_contacts=measured_contacts)
        stance_feet = command.contacts
        if watch is not None:
            watch(plant, command)
        if command.mode is LocomotionMode.FALLEN and fall is None:
            fall = t, evaluation.describe_fall(controller)
        if fall is not None and (not has_dropped or t >= fall[0] + FALL_OBSERVATION_TIME):
            break
        previous_velocity = np.array(plant.v)
        plant.step(command.tau)
        if has_dropped:
            evaluation.add_motor_power(previous_velocity)
        if fall is None:
            evaluation.add(command)
            if evaluation.passed:
                return evaluation.record(None, None)
    if fall is not None:
        return evaluation.record(*fall)
    return evaluation.record(None, None if case.course_interval is None else "did not reach the end in time")


def friction_at(case: Trial, t: float) -> tuple[bool, float]:
    """Returns whether the friction of the ground has changed before time t [s], and the friction coefficient at t."""
    has_dropped = bool(case.slip_friction) and t >= case.slip_time - 1e-9
    is_over = bool(case.slip_duration) and t >= case.slip_time + case.slip_duration - 1e-9
    return has_dropped, case.slip_friction if has_dropped and not is_over else case.friction


def velocity_at(case: Trial, t: float) -> tuple[float, float, float]:
    """Returns the velocity that is commanded at time t [s]: forward, leftward [m/s], yaw rate [rad/s]."""
    return case.velocity if t > COMMAND_START_TIME else (0.0, 0.0, 0.0)


class EvaluatedPlant(Protocol):
    """Plant of a run: its robot, present state, and motor torques of the last step, see `Plant`."""

    @property
    def robot(self) -> Robot:
        """The simulated robot."""

    @property
    def q(self) -> Array:
        """Configuration (nq,)."""

    @property
    def v(self) -> Array:
        """Velocity (nv,)."""

    @property
    def tau(self) -> Array:
        """Motor torques (nu,) [N m or N]."""


class EvaluatedCommand(Protocol):
    """Command of a tick, see `LocomotionCommand`."""

    @property
    def ok(self) -> bool:
        """Whether all constraints are satisfied."""

    @property
    def requested_velocity(self) -> Array:
        """Velocity (3,) before clamping [m/s, rad/s]."""

    @property
    def clamped_velocity(self) -> Array:
        """Velocity (3,) after clamping [m/s, rad/s]."""

    @property
    def limit_reason(self) -> str:
        """Reason for the difference; "" without one."""


class RunEvaluation:
    """Evaluation of a run: running sums of velocities, torques, powers and limits.

    Args:
        case: the trial.
        plant: the plant in its initial state.
        morphology: proportions of the controller's robot.
    """

    def __init__(self, case: Trial, plant: EvaluatedPlant, morphology: Morphology) -> None:
        self.case, self.plant, self.proportions = case, plant, morphology
        self._dynamics = Dynamics(plant.robot)
        self._limits, self._index = plant.robot.effort_limits, plant.robot.actuated_index
        self._displacement, self._last_pose = np.zeros(3), (np.zeros(3), 0.0)
        self._ticks = self._uncertified_ticks = self._evaluated_ticks = 0
        self._max_torque_fraction = self._mean_square_sum = self._power_sum = self._peak_power = (
            self._peak_motor_power
        ) = 0.0
        self._commanded_ticks, self._allowed_sum, self._limit_reason = 0, 0.0, ""
        self.predicted_slope_limit: str | None = None
        self.passed, self._distance = False, 0.0
        yaw = self.proportions.yaw(plant.q)
        self._forward_direction, self._origin = np.array([math.cos(yaw), math.sin(yaw)]), self._com()
        gradient, uphill = math.tan(case.slope), case.slope_direction + yaw
        if case.stairs:
            gradient, uphill = case.stairs / case.tread, yaw
        self._ground_gradient = gradient * math.cos(uphill), gradient * math.sin(uphill)
        # Velocities are differences over the last `averaging_time` seconds.
        self._first_evaluated_tick = round(case.seconds / case.dt) - round(case.averaging_time / case.dt)

    def add(self, command: EvaluatedCommand) -> None:
        """Adds one tick, after the step of the plant."""
        self._ticks += 1
        self._uncertified_ticks += not command.ok
        if command.requested_velocity.any():
            self._commanded_ticks += 1
            self._allowed_sum += float(command.clamped_velocity @ command.requested_velocity) / float(
                command.requested_velocity @ command.requested_velocity
            )
            self._limit_reason = command.limit_reason or self._limit_reason
        if self.case.course_interval is None:
            if self._ticks < self._first_evaluated_tick:
                return
            com = self._com()
        else:
            com = self._com()
            self._distance = float(self._forward_direction @ (com - self._origin)[:2])
            begin, end = self.case.course_interval
            if self._distance < begin and not self._evaluated_ticks:
                return
            if not self._evaluated_ticks:  # limits on the approach are not evaluated
                self._commanded_ticks, self._allowed_sum = 0, 0.0
            self.passed = self._distance >= end
        plant = self.plant
        yaw = self.proportions.yaw(plant.q)
        if self._evaluated_ticks:
            last_com, last_yaw = self._last_pose
            displacement, turn = com - last_com, math.remainder(yaw - last_yaw, 2.0 * math.pi)
            gradient_x, gradient_y = self._ground_gradient
            displacement[2] = (
                gradient_x * displacement[0] + gradient_y * displacement[1]
            )  # along the ground, without the vertical motion of the trunk
            x, y, _ = heading_axes(last_yaw, gradient_x, gradient_y).T @ displacement
            self._displacement += [x, y, turn]
        self._last_pose = com, yaw
        self._evaluated_ticks += 1
        tau = plant.tau
        power = float(np.maximum(tau * plant.v[self._index], 0.0).sum())
        self._max_torque_fraction = max(self._max_torque_fraction, float((np.abs(tau) / self._limits).max()))
        self._mean_square_sum += float(tau @ tau) / len(tau)
        self._power_sum += power
        self._peak_power = max(self._peak_power, power)

    def add_motor_power(self, before: Array) -> None:
        """Adds the mechanical work of each motor in one step; `before` is the velocity (nv,) at its start."""
        plant, p = self.plant, self.proportions
        work = plant.tau * 0.5 * (before + plant.v)[self._index]
        self._peak_motor_power = max(
            self._peak_motor_power, float(work.max()) / (plant.robot.mass * p.gravity * p.speed_scale)
        )

    def _com(self) -> Array:
        """Returns the center of mass of the simulated robot, world frame (3,) [m]."""
        return self._dynamics.center_of_mass(np.array(self.plant.q))

    def describe_fall(self, controller: LocomotionController) -> str:
        """Returns the cause of a fall in standard phrases, so that falls can be counted by cause."""
        s: State = self._dynamics.update(np.array(self.plant.q), np.array(self.plant.v))
        R = s.placement(controller.robot.bodies[0].name).rotation @ self.proportions.heading
        ground_height = controller.ground.height(s.com[0], s.com[1]) if controller.ground is not None else 0.0
        is_low = s.com[2] - ground_height < 0.5 * self.proportions.height
        tilt = "rolled over" if abs(R[2, 1]) > abs(R[2, 0]) else "pitched over"
        return (
            "sank" if is_low and R[2, 2] > 0.8 else tilt
        ) + f", {controller.gait_scheduler.stance_mask.sum()} feet due on the ground"

    def record(self, fell: float | None, reason: str | None) -> Record:
        """Returns the record of the run.

        Args:
            fell: time of a fall [s]; None without one.
            reason: reason of a failure; None to evaluate the velocity.
        """
        case, p = self.case, self.proportions
        command: Array = np.array(case.velocity)
        count = max(self._evaluated_ticks, 1)
        velocity = self._displacement / (max(self._evaluated_ticks - 1, 1) * case.dt)
        speed = math.hypot(velocity[0], velocity[1])
        velocity_ratio = velocity_error = None
        if fell is None and command.any():
            units = np.array([case.unit_speed, case.unit_speed, case.unit_turn])
            command_norm_squared = float((command / units) @ (command / units))
            velocity_ratio = float((velocity / units) @ (command / units)) / command_norm_squared
            velocity_error = float(np.abs((velocity - command) / units).max())
            if reason is None and velocity_ratio < case.min_velocity_ratio:
                reason = f"slower than {100 * case.min_velocity_ratio:.0f} % of the command"
            elif reason is None and case.max_velocity_error is not None and velocity_error > case.max_velocity_error:
                reason = f"misses the command by more than {100 * case.max_velocity_error:.0f} %"
        weight = self.plant.robot.mass * p.gravity
        power = self._power_sum / count
        is_upright = fell is None
        return {
            "success": reason is None,
            "reason": reason,
            "fell": fell,
            "vx": float(velocity[0]) if is_upright else None,
            "vy": float(velocity[1]) if is_upright else None,
            "wz": float(velocity[2]) if is_upright else None,
            "ahead": None if case.course_interval is None else self._distance,
            "velocity_ratio": velocity_ratio,
            "velocity_error": velocity_error,
            "flagged": self._uncertified_ticks / max(self._ticks, 1),
            "torque": self._max_torque_fraction if is_upright else None,
            "torque_rms": math.sqrt(self._mean_square_sum / count) if is_upright else None,
            "power": power if is_upright else None,
            "power_peak": self._peak_power if is_upright else None,
            "cost": power / (weight * speed) if is_upright and speed > 0.02 * p.speed_scale else None,
            "predicted_slope_limit": self.predicted_slope_limit,
            "peak_motor_power": self._peak_motor_power if case.slip_friction else None,
            "allowed_fraction": self._allowed_sum / self._commanded_ticks if self._commanded_ticks else None,
            "limit_reason": self._limit_reason,
        }


__getattr__ = renamed_names(__name__, {"drive": "run_trial"})
