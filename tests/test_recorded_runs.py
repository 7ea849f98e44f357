"""Recorded numbers of closed-loop runs: every gait, mode, detector and limit of the locomotion controller, estimators.

See `recorded`.  The runs reach the branches of the controller; torques averaged over short windows notice changes of
any rule on the way.  Rounding grows during a run, to at most 1e-5 of the torques, and windows are compared at 1e-3:
runs with QUADDYN_PERTURBATION=1e-12, the initial velocity [m/s], have to pass as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from recorded import SMALL, note

import quaddyn as qd
from quaddyn.contact import ContactSet
from quaddyn.estimation import (
    BaseEstimator,
    ContactForceEstimator,
    MomentumObserver,
    PayloadEstimator,
    SlipDetector,
    TouchdownDetector,
)
from quaddyn.locomotion import FEET, LocomotionCommand, LocomotionController, RightingMotion, RightingPlan
from quaddyn.locomotion.gait import GAITS
from quaddyn.robot import with_payload
from quaddyn.simulation import Actuators, Box, HeightField, Plane, Simulation, stairs

DT = 4e-3
#: Ticks of a window.
WINDOW = 20
Velocity = tuple[float, float, float]
Events = Mapping[float, Callable[[LocomotionController, Simulation], object]]


@dataclass(frozen=True)
class Run:
    """A run: robot, options of controller and plant, velocity command from each time on, and events."""

    robot: str = "go2"
    seconds: float = 1.0
    velocity: Mapping[float, Velocity] = field(default_factory=lambda: {0.0: (0.3, 0.0, 0.0)})
    options: Mapping[str, Any] = field(default_factory=dict)
    plant: Mapping[str, Any] = field(default_factory=dict)
    events: Events = field(default_factory=dict)
    knows_terrain: bool = False
    is_measured: bool = False
    flicker: float = 0.0  # probability per tick with which a foot sensor begins to miss contacts for some ticks
    payload: float = 0.0  # [robot masses]
    rotor: float = 0.0  # rotor inertia of all joints [kg m^2], with viscous friction of 10/s times that
    lift: float = 0.0  # initial height above the ground [m]
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)  # initial rotation vector [rad]
    tolerance: float = 1e-3  # larger where rounding grows more, also with QUADDYN_TARGET=x86-64,contract=off


def push(*force: float, seconds: float = 0.1) -> Callable[[LocomotionController, Simulation], object]:
    """Pushes the trunk with a force in multiples of the weight."""

    def apply(_: LocomotionController, plant: Simulation) -> None:
        weight = 9.81 * plant.robot.mass
        plant.push(plant.robot.bodies[0].name, weight * np.array(force), duration=seconds)

    return apply


def set_gait(name: str) -> Callable[[LocomotionController, Simulation], object]:
    """Changes the gait."""
    return lambda controller, _: setattr(controller, "gait", name)


def stand_up(controller: LocomotionController, _: Simulation) -> None:
    """Stands up."""
    controller.stand_up()


def lift(_: LocomotionController, plant: Simulation) -> None:
    """Lifts the robot by 15 cm, tilted and at rest, while the controller continues."""
    q = np.array(plant.q)
    q[2] += 0.15
    q[3:7] = pin.Quaternion(pin.exp3(np.array([0.1, -0.1, 0.3])) @ pin.Quaternion(q[3:7]).toRotationMatrix()).coeffs()
    plant.reset(q)


def lie_down(controller: LocomotionController, _: Simulation) -> None:
    """Lies down."""
    controller.lie_down()


def waves(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ground with bumps of 2 cm."""
    return np.asarray(0.02 * np.sin(7.0 * x + 1.0) * np.cos(6.0 * y))


CURVE = {0.0: (0.3, 0.1, 0.4), 0.6: (-0.2, -0.1, -0.5)}
ROUGH = HeightField.from_function(waves, (-1.0, 2.0), (-1.0, 1.0))
STAIRS = (Plane.floor(), *stairs(3, rise=0.06, tread=0.25, distance=0.3))
BUMP = (Plane.floor(), Box(np.array([0.36, 0.1, 0.0]), np.array([0.06, 0.4, 0.09])))
LEDGE = (Plane.floor(-0.05), Box(np.array([0.3, 0.0, -0.05]), np.array([0.5, 2.0, 0.1])))
RUNS = {
    **{f"{gait} of Go2": Run(velocity=CURVE, options={"gait": gait}, seconds=1.2) for gait in GAITS},
    "trot of HyQ": Run("hyq", velocity=CURVE),
    "walk of ANYmal": Run("anymal_c", velocity=CURVE, options={"gait": "walk"}),
    "trot of Solo12": Run("solo12", velocity=CURVE),
    "trot of Solo8": Run("solo8"),
    "fast": Run(velocity={0.0: (9.0, 0.0, 0.0), 0.8: (0.0, 9.0, 0.0), 1.4: (0.0, 0.0, 9.0)}, seconds=2.0),
    "start and stop": Run(velocity={0.0: (0.2, 0.0, 0.0), 0.5: (0.0, 0.0, 0.0), 1.2: (0.1, 0.0, 0.0)}, seconds=1.6),
    "other gaits": Run(events={0.4: set_gait("walk"), 1.4: set_gait("pace"), 2.2: set_gait("trot")}, seconds=2.8),
    "measured contacts": Run(velocity=CURVE, is_measured=True),
    "scheduled contacts": Run(velocity=CURVE, options={"contact_detection": "scheduled", "friction": "nominal"}),
    "pushed": Run(velocity=CURVE, events={0.3: push(0.0, 0.8, 0.0), 0.9: push(-0.7, -0.7, 0.0)}, seconds=1.5),
    "pushed at rest": Run(velocity={}, events={0.2: push(0.0, -0.9, 0.0)}, seconds=0.9),
    "pushed over": Run(events={0.2: push(0.2, 2.5, 0.3)}, seconds=0.64),
    "tilted": Run(velocity={}, events={0.2: push(0.0, 0.0, 0.0, 0.0, 0.6, 0.0, seconds=0.15)}, seconds=1.2),
    "pulled up": Run(velocity={}, events={0.2: push(0.0, 0.1, 1.8, seconds=0.3)}, seconds=1.2),
    "pulled up with sensors": Run(events={0.2: push(0.1, 0.1, 1.6, seconds=0.3)}, is_measured=True, seconds=1.2),
    "dropped": Run(velocity={}, lift=0.15, seconds=1.0),
    "dropped obliquely": Run(velocity={}, lift=0.2, rotation=(0.1, -0.15, 0.4), is_measured=True, seconds=1.0),
    "dropped on a ledge": Run(velocity={}, lift=0.15, plant={"terrain": LEDGE}, rotation=(0.0, 0.05, 0.0), seconds=1.2),
    "dropped on a ledge with sensors": Run(
        "anymal_c", velocity={}, lift=0.1, plant={"terrain": LEDGE}, is_measured=True, seconds=1.2
    ),
    "dropped with flickering sensors": Run(velocity={}, lift=0.15, is_measured=True, flicker=0.02, seconds=0.8),
    "dropped on a ledge with flickering sensors": Run(
        velocity={}, lift=0.1, plant={"terrain": LEDGE}, is_measured=True, flicker=0.02, seconds=1.6
    ),
    "dropped again in a landing and after it": Run(velocity={}, lift=0.1, events={0.3: lift, 1.3: lift}, seconds=1.9),
    "dropped again with sensors": Run(
        "anymal_c", velocity={}, lift=0.1, plant={"terrain": LEDGE}, events={0.45: lift}, is_measured=True, seconds=1.0
    ),
    "walks with flickering sensors": Run("solo12", velocity=CURVE, is_measured=True, flicker=0.01),
    "loaded and pulled up": Run(payload=0.25, velocity=CURVE, events={0.5: push(0.0, 0.1, 2.0, seconds=0.2)}),
    "up": Run(plant={"terrain": Plane.slope(0.2)}, rotation=(0.0, -0.2, 0.0), seconds=1.5),
    "across": Run(plant={"terrain": Plane.slope(0.2, heading=1.57)}, rotation=(0.2, 0.0, 0.0), seconds=1.0),
    "onto a slope on a map": Run(
        plant={"terrain": Plane.slope(0.15)}, rotation=(0.0, -0.15, 0.0), knows_terrain=True, seconds=1.5
    ),
    "steep": Run(plant={"terrain": Plane.slope(0.45)}, rotation=(0.0, -0.45, 0.0), knows_terrain=True),
    "stairs": Run(plant={"terrain": STAIRS}, knows_terrain=True, seconds=2.0),
    "stairs without a map": Run(plant={"terrain": STAIRS}, seconds=1.5),
    "stairs backward with a walk": Run(
        plant={"terrain": (Plane.floor(), *stairs(3, rise=0.05, tread=0.2, distance=0.35, heading=np.pi))},
        velocity={0.0: (-0.3, 0.0, 0.0)},
        options={"gait": "walk"},
        knows_terrain=True,
        seconds=2.0,
    ),
    "rough": Run("anymal_c", plant={"terrain": ROUGH}, velocity=CURVE, knows_terrain=True, seconds=1.5),
    "rough without a map": Run(plant={"terrain": ROUGH}, velocity=CURVE, seconds=1.5),
    "stumbles": Run(plant={"terrain": BUMP}, velocity={0.0: (0.5, 0.0, 0.0)}, seconds=1.5),
    "stumbles of Solo12": Run("solo12", plant={"terrain": BUMP}, velocity={0.0: (0.4, 0.0, 0.0)}, seconds=1.5),
    "wall": Run(plant={"terrain": (Plane.floor(), Plane.wall(0.45))}, velocity={0.0: (0.5, 0.0, 0.0)}, seconds=2.5),
    "ice": Run(plant={"friction": 0.12}, velocity=CURVE, seconds=2.0),
    "ice with sensors": Run("solo12", plant={"friction": 0.15}, is_measured=True, seconds=1.5),
    "rotors and friction that the model lacks": Run("solo12", velocity=CURVE, rotor=0.004, seconds=1.5),
    "loaded": Run(payload=0.25, options={"payload": "estimated"}, velocity=CURVE, seconds=0.8, tolerance=0.03),
    "loaded without an estimate": Run(payload=0.2, velocity=CURVE),
    "lies down": Run(velocity={}, events={0.2: lie_down, 1.6: stand_up},
                     seconds=2.6),
    "jumps": Run("a1", velocity={}, events={0.2: lambda c, _: c.jump(height=0.12)}, seconds=1.6),
    "jumps and turns": Run(
        "a1", velocity={}, events={0.2: lambda c, _: c.jump(distance=(0.15, 0.05), turn=0.3)}, seconds=1.6
    ),
    "rights itself": Run(
        velocity={}, lift=0.1, rotation=(3.0, 0.0, 0.0), events={0.8: stand_up}, seconds=4.0, tolerance=0.3
    ),
}  # fmt: skip


@cache
def load(name: str) -> qd.Robot:
    return qd.load(name)


def righting_plan(robot: qd.Robot) -> RightingPlan:
    with np.load(Path(__file__).parent / "data" / "righting_go2.npz") as file:
        motions = {
            side: RightingMotion(*(file[f"{side} {n}"] for n in ("poses", "times", "rests"))) for side in file["sides"]
        }
    return RightingPlan(robot.name, "of a test", motions)


def simulate(run: Run) -> tuple[LocomotionController, list[tuple[np.ndarray, np.ndarray]], list[LocomotionCommand]]:
    """Simulates a run; returns the controller, and states and commands of all ticks."""
    robot = load(run.robot)
    actual = with_payload(robot, run.payload * robot.mass, (0.03, -0.02, 0.05)) if run.payload else robot
    actuators = Actuators(actual, rotor_inertia=run.rotor, viscous=10.0 * run.rotor) if run.rotor else None
    plant, dynamics = Simulation(actual, dt=DT, actuators=actuators, **run.plant), qd.Dynamics(robot)
    options = dict(run.options)
    if run.knows_terrain:
        options["terrain"] = plant.terrain
    if abs(run.rotation[0]) > 1.0:
        options["righting_plan"] = righting_plan(robot)
    controller = LocomotionController(robot, dt=DT, **options)
    q, R = np.array(robot.q_home), pin.exp3(np.array(run.rotation))
    q[:3], q[3:7] = R @ q[:3], pin.Quaternion(R @ pin.Quaternion(q[3:7].copy()).toRotationMatrix()).coeffs()
    q[2] += run.lift + (q[2] < 0.0) * 0.5
    v = np.zeros(robot.nv)
    v[:3] = float(os.environ.get("QUADDYN_PERTURBATION", "0"))
    plant.reset(q, v)
    states, commands = [], []
    velocity: Velocity = (0.0, 0.0, 0.0)
    rng, is_missing = np.random.default_rng(9), np.zeros(4, dtype=bool)
    schedule, events = {round(t / DT): x for t, x in run.velocity.items()}, dict(run.events)
    by_tick = {round(t / DT): x for t, x in events.items()}
    for k in range(round(run.seconds / DT)):
        velocity = schedule.get(k, velocity)
        if k in by_tick:
            by_tick[k](controller, plant)
        is_missing = (is_missing | (rng.random(4) < run.flicker)) & (rng.random(4) < 0.9)
        forces = plant.contact_forces
        touching = [foot for i, foot in enumerate(FEET) if forces[foot][2] > 0.2 * robot.mass and not is_missing[i]]
        q, v = np.array(plant.q), np.array(plant.v)
        command = controller.compute(
            dynamics.update(q, v), velocity, measured_contacts=touching if run.is_measured else None
        )
        states.append((q, v))
        commands.append(command)
        plant.step(command.tau)
    return controller, states, commands


def windows(values: Any, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """Means over windows, as fractions of a scale, for `note`."""
    x = np.asarray(values, dtype=float).reshape(len(values), -1) / scale
    x = x[: len(x) // WINDOW * WINDOW]
    return np.asarray(SMALL * x.reshape(-1, WINDOW, x.shape[1]).mean(axis=1))


def note_run(states: list[tuple[np.ndarray, np.ndarray]], commands: list[LocomotionCommand], tolerance: float) -> None:
    """Notes a run: torques, motion, limits, contacts and footholds."""
    limits = np.abs(np.array([command.tau for command in commands])).max(axis=0) + 1e-3
    note("torques", windows([command.tau for command in commands], limits), tolerance)
    note("motion", windows([np.r_[q, v] for q, v in states]), tolerance)
    note("velocities", windows([np.r_[c.clamped_velocity, c.reference_velocity] for c in commands]), tolerance)
    note("modes", list(dict.fromkeys(c.mode.value for c in commands)))
    note("reasons", list(dict.fromkeys(c.limit_reason for c in commands)))
    rows = [
        np.r_[
            c.friction, c.desired_cop, c.estimated_payload_mass, len(c.contacts), len(c.slipping_feet),
            len(c.detected_contacts or ()), c.model_mismatch, c.ok, sum(s.progress for s in c.swings.values()),
            sum((np.r_[f.position, f.nominal.position] for f in c.footholds.values()), start=np.zeros(6)),
        ]
        for c in commands
    ]  # fmt: skip
    note("rest", windows(rows), 10.0 * tolerance)


@pytest.mark.filterwarnings("ignore:dt. the controller was made with:RuntimeWarning")
@pytest.mark.parametrize("name", RUNS)
def test_runs_have_the_recorded_torques(name: str) -> None:
    _, states, commands = simulate(RUNS[name])
    note_run(states, commands, RUNS[name].tolerance)


# -- answers of one call ---------------------------------------------------------------------------------------------
def velocities(rng: np.random.Generator, speed: float) -> np.ndarray:
    return np.asarray(rng.normal(size=3) * speed * rng.choice([0.0, 0.3, 3.0], 3) * [1.0, 1.0, 3.0])


@pytest.mark.parametrize("name", ["go2", "anymal_c", "hyq", "solo8"])
@pytest.mark.parametrize("gait", GAITS)
def test_limits_of_a_gait(name: str, gait: str) -> None:
    try:
        controller = LocomotionController(load(name), dt=DT, gait=gait)
    except qd.ArgumentError as error:
        note("error", str(error))
        return
    p, rng = controller.morphology, np.random.default_rng(1)
    note("morphology", [getattr(p, each) for each in p.__slots__])
    for _ in range(20):
        velocity = velocities(rng, p.speed_scale)
        note("clamped", controller.clamp_velocity(velocity), 1e-4)
        note("reason", controller.velocity_limit_reason(velocity))
    for angle in (0.1, 0.2, 0.3, 0.5):
        for heading in (0.0, 1.0, 2.5):
            note("slope", controller.slope_limit_reason(angle, heading, velocity, friction=0.7))


@pytest.mark.parametrize("name", ["a1", "anymal_c", "solo12"])
def test_plans_of_jumps(name: str) -> None:
    controller = LocomotionController(load(name), dt=DT, friction=0.8)
    length = controller.morphology.length
    for height, distance, turn in (
        (0.2, (0.0, 0.0), 0.0),
        (None, (0.5, 0.0), 0.0),
        (0.1, (-0.2, 0.3), 0.6),
        (5, (1, 0), 0),
    ):
        plan = controller.plan_jump(
            height=height and height * length, distance=tuple(length * x for x in distance), turn=turn
        )
        note("plan", {k: getattr(plan, k) for k in plan.__slots__ if not k.startswith("_")}, 1e-4)


# -- estimators ------------------------------------------------------------------------------------------------------
def motion(robot: qd.Robot, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """States of a robot that sways, with joints that follow smooth random courses."""
    rng, out = np.random.default_rng(2), []
    amplitude, phase = rng.normal(size=(2, robot.nv)) * 0.03, rng.uniform(0.0, 6.0, (2, robot.nv))
    rate = np.array([[5.0], [13.0]])
    for k in range(n):
        angle = rate * k * DT + phase
        q = robot.algorithms.integrate(robot.model, robot.q_home, (amplitude * np.sin(angle)).sum(axis=0))
        out.append((q, (amplitude * rate * np.cos(angle)).sum(axis=0)))
    return out


@pytest.mark.parametrize("flat_ground", [False, True])
@pytest.mark.parametrize("name", ["go2", "anymal_c"])
def test_base_estimates(name: str, flat_ground: bool) -> None:
    robot, rng = load(name), np.random.default_rng([3, flat_ground])
    estimator = BaseEstimator(robot, dt=DT, flat_ground=flat_ground, imu=robot.feet[0] if flat_ground else None)
    actuated, joints, stance = robot.actuated_index, [robot.configuration_index(j) for j in robot.actuated], set(FEET)
    for k, (q, v) in enumerate(motion(robot, 250)):
        if k == 0:
            estimator.initialize_at_rest(q[joints], np.array([0.2, -0.3, 9.8]))
        stance ^= {foot for foot in FEET if rng.random() < 0.03}
        position, velocity = (
            q[joints] + 1e-4 * rng.normal(size=robot.nu),
            v[actuated] + 0.02 * rng.normal(size=robot.nu),
        )
        gyro, force = v[3:6] + 0.01 * rng.normal(size=3) + 0.02, rng.normal((0.1, -0.1, 9.81), 0.1)
        found = estimator.update(position, velocity, gyro, force, sorted(stance), periods=1 + (k % 40 == 0))
        note("state", found)
        note("rest", (estimator.gyro_bias, estimator.accelerometer_bias, len(estimator.slipping_feet)))
        note("odometry", estimator.odometry())
        if k % 50 == 7:
            note("covariance", 1e3 * estimator.covariance)
            note("corrected", estimator.correct_pose(q[:3] + 0.01, {"xyzw": q[3:7]}, position_noise=0.02))
            note("predicted", estimator.predict([v, -v]))


@pytest.mark.parametrize("name", ["go2", "hyq"])
def test_force_estimates(name: str) -> None:
    robot, rng = load(name), np.random.default_rng(4)
    dynamics, contacts, length = qd.Dynamics(robot), ContactSet.from_feet(robot), 0.3
    observers = MomentumObserver(robot, dt=DT, gain=60.0), MomentumObserver(robot, dt=DT, gain=np.inf)
    forces = [ContactForceEstimator(contacts, dt=DT, rows=rows) for rows in ("all", "joints")]
    slips, touchdowns = SlipDetector(robot, dt=DT, length=length), TouchdownDetector(robot)
    payload = PayloadEstimator(robot, dt=DT, time_constant=0.5)
    weight, standing = 9.81 * robot.mass, dynamics.update(np.array(robot.q_home), np.zeros(robot.nv))
    jacobian = np.vstack([standing.jacobian(foot)[:3] for foot in robot.feet])
    hold = (standing.gravity - jacobian.T @ np.tile([0.0, 0.0, 0.25 * weight], 4))[robot.actuated_index]
    touching = set(robot.feet)
    for k, (q, v) in enumerate(motion(robot, 250)):
        s, tau = dynamics.update(q, v), hold + rng.normal(0.0, 0.02 * weight, robot.nu)
        touching ^= {foot for foot in robot.feet if rng.random() < 0.02}
        given = {foot: 0.25 * weight * rng.normal((0.1, 0.0, 0.6), 0.3) for foot in robot.feet}
        note("residuals", [observer.update(s, tau) for observer in observers], 1e-5)
        note("forces", [(found.stacked_forces, found.residual) for found in (f.update(s, tau) for f in forces)], 1e-4)
        slips.update(s, given, sorted(touching))
        note("slips", (slips.slip_probability, slips.friction_estimate, slips.max_held_ratio, slips.creep_compliance))
        touchdowns.raise_thresholds((0.3 if k > 100 else 0.0) * weight)
        touchdowns.update(k * DT, given)
        note("touchdowns", [float(foot in touchdowns.feet_in_contact) for foot in robot.feet])
        if k % 25 == 0:
            load_found = payload.update(s, tau)
            note("payload", (load_found.mass, load_found.first_moment, load_found.standard_deviation), 1e-5)
        else:
            payload.update(s, tau)
