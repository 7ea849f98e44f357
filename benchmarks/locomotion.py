"""Quadrupeds trot in both plants, and are pushed, loaded, put on ice, steps and slopes: how often does it end well?

``--fleet`` runs eight robots with forward, sideways and turning commands; ``--trials N`` runs N seeded trials of each
disturbance on one robot; ``--endurance S`` is one long trot, ``--cost`` the time of a tick.  A trial succeeds when the
robot is upright 5 s after the disturbance and reaches 70 % of the commanded speed.  ``--check`` exits with 1 where a
bar is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import multiprocessing
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.estimation import BaseEstimator
from quaddyn.locomotion import LocomotionController, Mode, Proportions
from quaddyn.robot.bodies import combine
from quaddyn.simulation import Encoders, Imu, MujocoPlant, Plant, Sensors, Simulation
from quaddyn.simulation.terrain import Box, Plane
from quaddyn.urdf.tree import Inertial, Pose, frozen

Array = np.ndarray
PLANTS: dict[str, type[Plant]] = {"embedded": Simulation, "mujoco": MujocoPlant}
FLEET = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
#: Froude-like speed of the commands, in sqrt(g l), and yaw rate [rad/s].
SPEED, YAW_RATE = 0.25, 0.5

# What a consumer IMU (BMI088 class, at 500 Hz) and 14-bit encoders with differentiated velocity give.
ENCODERS = Encoders(position_noise=5e-4, velocity_noise=0.05, resolution=2.0 * math.pi / 2**14)
IMU = Imu(
    gyro_noise=5e-3,
    accelerometer_noise=0.05,
    gyro_bias=5e-3,
    accelerometer_bias=0.05,
    gyro_walk=2e-4,
    accelerometer_walk=1e-3,
)
DELAY = 2e-3


@dataclasses.dataclass
class World:
    """A plant and what disturbs the robot in it."""

    plant: Plant
    velocity: Array
    disturb: Callable[[Plant, float], None] = lambda plant, t: None
    feel: bool = False
    sensors: Sensors | None = None


@dataclasses.dataclass
class Outcome:
    """How a trial went.

    Attributes:
        fell: when, or None [s].
        speed: (3,) mean velocity over the last part, heading axes.
        commanded: (3,).
        flagged: share of ticks whose whole-body command was not certified.
        cause: of a failure, in words.
    """

    fell: float | None
    speed: Array
    commanded: Array
    flagged: float
    cause: str = ""


def drive(world: World, seconds: float, *, dt: float, measured: float, gait: str = "trot") -> Outcome:
    """Let the controller drive for some time; velocities count over the last `measured` seconds."""
    plant = world.plant
    robot = plant.robot
    brain = qd.load(NAME) if robot.name == "loaded" else robot  # a payload is nothing that the controller knows
    controller, dynamics, truth = LocomotionController(brain, dt=dt, gait=gait), qd.Dynamics(brain), qd.Dynamics(robot)
    estimator = BaseEstimator(brain, dt=dt) if world.sensors is not None else None
    if estimator is not None:
        estimator.reset(np.array(plant.q), np.array(plant.v))
    load = 0.02 * robot.mass * controller.proportions.gravity
    ratio = round(dt / plant.dt)
    flagged, way, last, standing = 0, np.zeros(3), None, tuple(robot.feet)
    for k in range(round(seconds / dt)):
        t = k * dt
        world.disturb(plant, t)
        q, v = np.array(plant.q), np.array(plant.v)
        if estimator is not None and world.sensors is not None:
            m = world.sensors.read(plant)
            q, v = estimator.update(
                np.array(m.position), np.array(m.velocity), np.array(m.gyro), np.array(m.accelerometer), standing
            )
        touching = [f for f, x in plant.contact_forces.items() if x[2] > load] if world.feel and k else None
        command = controller.compute(
            dynamics.update(q, v), world.velocity if t > 0.3 else (0.0,) * 3, touching=touching
        )
        standing = command.contacts
        if command.mode is Mode.FALLEN:
            s = truth.update(np.array(plant.q), np.array(plant.v))
            return Outcome(t, np.zeros(3), world.velocity, flagged / (k + 1), why(controller, s, t))
        flagged += not command.ok
        if t >= seconds - measured - 1e-9:
            com = truth.center_of_mass(np.array(plant.q))
            yaw = heading(plant.q, controller.proportions)
            if last is not None:
                d, turn = com - last[0], math.remainder(yaw - last[1], 2.0 * math.pi)
                c, s_ = math.cos(last[1]), math.sin(last[1])
                way += [c * d[0] + s_ * d[1], c * d[1] - s_ * d[0], turn]
            last = com, yaw
        for _ in range(ratio):
            plant.step(command.tau)
    return Outcome(None, way / (measured - dt), world.velocity, flagged / round(seconds / dt))


def heading(q: Array, p: Proportions) -> float:
    R = pin.Quaternion(np.array(q[3:7])).toRotationMatrix() @ p.heading
    return math.atan2(R[1, 0], R[0, 0])


def why(controller: LocomotionController, s: qd.State, t: float) -> str:
    """A cause that can be counted."""
    R = s.placement(controller.robot.bodies[0].name).rotation @ controller.proportions.heading
    low = s.com[2] - controller.ground.height(s.com[0], s.com[1]) < 0.5 * controller.proportions.height
    lean = "rolled over" if abs(R[2, 1]) > abs(R[2, 0]) else "pitched over"
    return ("sank" if low and R[2, 2] > 0.8 else lean) + f", {controller.clock.stance.sum()} feet due on the ground"


# -- worlds --------------------------------------------------------------------------------------------------------
NAME = "go2"


def command(rng: np.random.Generator, p: Proportions) -> Array:
    """A direction at random, at the benchmark's speed."""
    angle = rng.uniform(-math.pi, math.pi)
    return SPEED * p.speed * np.array([math.cos(angle), math.sin(angle), 0.0])


def pushed(kind: str, rng: np.random.Generator, p: Proportions, robot: qd.Robot, dt: float, moving: bool) -> World:
    plant = PLANTS[kind](robot, dt=dt)
    when, side = rng.uniform(1.5, 2.5), rng.choice([-1.0, 1.0])
    done = []

    def disturb(plant: Plant, t: float) -> None:
        if t >= when and not done:
            done.append(t)
            yaw = heading(plant.q, p)
            force = side * robot.mass * 0.5 / 0.1 * np.array([-math.sin(yaw), math.cos(yaw), 0.0])
            plant.push(robot.bodies[0].name, force, duration=0.1)

    return World(plant, command(rng, p) if moving else np.zeros(3), disturb)


def loaded(robot: qd.Robot, rng: np.random.Generator, p: Proportions) -> qd.Robot:
    """The robot with 20 % more mass on its base, such that its centre of mass moves by 3 cm sideways or along."""
    extra, angle = 0.2 * robot.mass, rng.uniform(-math.pi, math.pi)
    away = 0.03 * (robot.mass + extra) / extra
    place = p.heading @ (np.array([away * math.cos(angle), away * math.sin(angle), 0.1 * p.length]) - p.offset)
    inertia = extra * (0.1 * p.length) ** 2 * np.eye(3)
    payload = Inertial(extra, frozen(place), frozen(inertia))
    body = robot.bodies[0]
    total = combine(((body.inertial, Pose.identity()), (payload, Pose.identity())))
    model = robot.model.copy()
    model.inertias[1] = model.inertias[1] + pin.Inertia(extra, place, inertia)
    bodies = (dataclasses.replace(body, inertial=total), *robot.bodies[1:])
    return dataclasses.replace(robot, name="loaded", bodies=bodies, model=model)


def stepped(rng: np.random.Generator, p: Proportions) -> list[Box]:
    """Strips across the way, each at most 5 % of the leg's length higher or lower than the next."""
    boxes, x, height = [Box(np.array([-10.0, 0.0, -0.5]), np.array([20.6, 20.0, 1.0]))], 0.3, 0.0
    while x < 6.0:
        width = rng.uniform(0.5, 1.2) * p.length
        height += rng.uniform(-1.0, 1.0) * 0.05 * p.length
        boxes.append(Box(np.array([x + 0.5 * width, 0.0, height - 0.5]), np.array([width, 20.0, 1.0])))
        x += width
    return boxes


def on_slope(robot: qd.Robot, angle: float, direction: float) -> Array:
    """Home, turned so that all feet stand on the slope."""
    q = np.array(robot.q_home)
    axis = np.array([math.sin(direction), -math.cos(direction), 0.0])
    R = pin.exp3(angle * axis)
    base = pin.SE3(pin.Quaternion(q[3:7]).toRotationMatrix(), q[:3])
    turned = pin.SE3(R, np.zeros(3)) * base
    q[:3], q[3:7] = turned.translation, pin.Quaternion(turned.rotation).coeffs()
    return q


def world(scenario: str, kind: str, seed: int, dt: float) -> tuple[World, float]:
    """The world of one trial and how long it lasts."""
    robot = qd.load(NAME)
    rng, p, Kind = np.random.default_rng(seed), Proportions.of(robot), PLANTS[kind]
    if scenario == "push, standing":
        return pushed(kind, rng, p, robot, dt, False), 7.6
    if scenario == "push, trotting":
        return pushed(kind, rng, p, robot, dt, True), 7.6
    if scenario == "friction 0.4":
        wanted = command(rng, p)
        wanted[2] = rng.uniform(-0.5, 0.5)
        return World(Kind(robot, dt=dt, friction=0.4), wanted), 6.5
    if scenario == "payload +20 %, CoM 3 cm":
        return World(Kind(loaded(robot, rng, p), dt=dt), command(rng, p)), 6.5
    if scenario == "steps, 5 % of l":
        return World(
            Kind(robot, dt=dt, terrain=stepped(rng, p)), SPEED * p.speed * np.array([1.0, 0, 0]), feel=True
        ), 7.5
    if scenario == "slope, 10 degrees":
        direction = rng.uniform(-math.pi, math.pi)
        plant = Kind(robot, dt=dt, terrain=Plane.slope(math.radians(10.0), heading=direction))
        plant.reset(on_slope(robot, math.radians(10.0), direction))
        return World(plant, command(rng, p)), 6.5
    if scenario == "noise, 2 ms delay":
        plant = Kind(robot, dt=dt)
        sensors = Sensors(robot, rng, encoders=ENCODERS, imu=IMU, delay=DELAY)
        return World(plant, command(rng, p), sensors=sensors), 6.5
    raise KeyError(scenario)


SCENARIOS = {
    "push, standing": 0.95,
    "push, trotting": 0.95,
    "friction 0.4": 0.95,
    "payload +20 %, CoM 3 cm": 0.95,
    "steps, 5 % of l": 0.9,
    "slope, 10 degrees": 0.9,
    "noise, 2 ms delay": 0.9,
}


def trial(job: tuple[str, str, int, float, str]) -> Outcome:
    """One seeded trial."""
    global NAME
    scenario, kind, seed, dt, NAME = job
    try:
        made, seconds = world(scenario, kind, seed, dt)
        out = drive(made, seconds, dt=dt, measured=2.0 if "push" in scenario else 4.0)
    except qd.DivergenceError:
        return Outcome(0.0, np.zeros(3), np.ones(3), 0.0, "the plant diverged")
    size = float(out.commanded[:2] @ out.commanded[:2])
    if out.fell is None and size > 0.0 and float(out.speed[:2] @ out.commanded[:2]) < 0.7 * size:
        out.cause = "slower than 70 % of the command"
    return out


def fleet_job(job: tuple[str, str, tuple[float, float, float], float, float]) -> Outcome:
    """One robot, one command."""
    name, kind, shape, seconds, dt = job
    robot = qd.load(name)
    p = Proportions.of(robot)
    wanted = np.array(shape) * [SPEED * p.speed, SPEED * p.speed, YAW_RATE]
    out = drive(World(PLANTS[kind](robot, dt=dt), wanted), seconds, dt=dt, measured=seconds - 4.0)
    miss = float(np.abs((out.speed - wanted) / [SPEED * p.speed, SPEED * p.speed, YAW_RATE]).max())
    if out.fell is None and miss > 0.15:
        out.cause = f"misses the command by {100 * miss:.0f} %"
    return out


def tick_cost(name: str) -> tuple[float, float, float]:
    """Median and 99th percentile of the whole locomotion tick, per-tick minimum of 5 replays, and computeAllTerms."""
    robot = qd.load(name)
    plant, dynamics, controller = Simulation(robot), qd.Dynamics(robot), LocomotionController(robot)
    wanted = np.array([SPEED * controller.proportions.speed, 0.0, 0.0])
    states = []
    for _ in range(1500):
        q, v = np.array(plant.q), np.array(plant.v)
        states.append((q, v))
        plant.step(controller.compute(dynamics.update(q, v), wanted).tau)
    times = np.full((5, len(states)), np.inf)
    terms = []
    data = robot.model.createData()
    for run in range(5):
        controller.reset()
        for k, (q, v) in enumerate(states):
            start = time.perf_counter()
            controller.compute(dynamics.update(q, v), wanted)
            times[run, k] = time.perf_counter() - start
            if k % 10 == 0:
                start = time.perf_counter()
                pin.computeAllTerms(robot.model, data, q, v)
                terms.append(time.perf_counter() - start)
    best = times.min(axis=0)[200:]
    return float(np.median(best)), float(np.percentile(best, 99)), float(np.median(terms))


def endurance(name: str, seconds: float, dt: float) -> list[str]:
    """A long trot in changing directions; what went wrong."""
    robot = qd.load(name)
    plant, dynamics = Simulation(robot, dt=dt), qd.Dynamics(robot)
    controller, check = LocomotionController(robot, dt=dt), qd.Dynamics(robot)
    p, rng = controller.proportions, np.random.default_rng(0)
    weight, worst, flagged, start = p.mass * p.gravity, 0.0, 0, 0
    wrong, wanted, began = [], np.zeros(3), time.perf_counter()
    for k in range(round(seconds / dt)):
        if k % round(5.0 / dt) == 0:
            wanted = command(rng, p) + np.array([0.0, 0.0, 1.0]) * rng.uniform(-0.5, 0.5)
        q, v = np.array(plant.q), np.array(plant.v)
        out = controller.compute(dynamics.update(q, v), wanted)
        if out.whole_body is None or not np.isfinite(out.tau).all():
            wrong.append(f"fell or not finite at {k * dt:.1f} s")
            break
        flagged += not out.ok
        forces = {}
        for foot, force in out.forces.items():
            lever = np.array([0.0, 0.0, -robot.legs[foot].foot.radius])
            forces[foot] = np.concatenate((force, np.cross(lever, force)))
        worst = max(
            worst, float(np.abs(check.rnea(q, v, np.array(out.whole_body.acceleration), fext=forces)[:6]).max())
        )
        plant.step(out.tau)
        if k == round(20.0 / dt):
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(
        f"{name}: {plant.time:.0f} s of trot in {time.perf_counter() - began:.0f} s; base rows of RNEA at most "
        f"{worst / weight:.1e} m g; flagged ticks {flagged}; memory grew by {grown} kB"
    )
    wrong += [f"equations of motion miss by {worst / weight:.1e} m g"] if worst > 1e-8 * weight else []
    wrong += [f"memory grew by {grown} kB"] if grown > 20_000 else []
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dt", type=float, default=2e-3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--scenarios", default=None, help="parts of names, separated by commas")
    parser.add_argument("--fleet", action="store_true")
    parser.add_argument("--robots", default=",".join(FLEET))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--endurance", type=float, metavar="SECONDS", help="of one long trot")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    kinds, missed = options.plants.split(","), []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        if options.fleet:
            print(f"trot for {options.seconds:g} s, controller at {1 / options.dt:.0f} Hz, true state")
            shapes = {"forward": (1.0, 0.0, 0.0), "sideways": (0.0, 1.0, 0.0), "turning": (0.0, 0.0, 1.0)}
            keys = [(n, k, w) for n in options.robots.split(",") for k in kinds for w in shapes]
            jobs = [(n, k, shapes[w], options.seconds, options.dt) for n, k, w in keys]
            for key, out in zip(keys, pool.imap(fleet_job, jobs), strict=True):
                verdict = f"fell at {out.fell:.2f} s: {out.cause}" if out.fell is not None else out.cause or "ok"
                wanted, got = out.commanded.round(3).tolist(), out.speed.round(3).tolist()
                said = f"wanted {wanted} got {got}, flagged {out.flagged:.2%}, {verdict}"
                print(f"{key[0]:9s} {key[1]:8s} {key[2]:8s} {said}", flush=True)
                missed += [] if verdict == "ok" else [str(key)]
        elif options.endurance:
            missed += endurance(options.robot, options.endurance, options.dt)
        elif options.cost:
            median, p99, terms = tick_cost(options.robot)
            print(
                f"{options.robot}: locomotion tick {1e6 * median:.0f} us, p99 {1e6 * p99:.0f} us = "
                f"{p99 / terms:.0f} x computeAllTerms ({1e6 * terms:.1f} us)"
            )
            missed += ["tick"] if p99 > 60.0 * terms else []
        else:
            print(f"{options.robot}, seeds {options.seed} to {options.seed + options.trials - 1}")
            print(f"{'scenario':26s} {'plant':9s} success   bar  causes of failure")
            wanted = (options.scenarios or "").split(",")
            for scenario, bar in SCENARIOS.items():
                if not any(part in scenario for part in wanted):
                    continue
                for kind in kinds:
                    seeds = range(options.seed, options.seed + options.trials)
                    jobs = [(scenario, kind, seed, options.dt, options.robot) for seed in seeds]
                    outs = pool.map(trial, jobs, chunksize=1)
                    good = sum(out.fell is None and not out.cause for out in outs)
                    causes = Counter(out.cause for out in outs if out.cause)
                    said = "; ".join(f"{count} x {cause}" for cause, count in causes.most_common())
                    print(f"{scenario:26s} {kind:9s} {good:4d}/{len(outs):<4d} {bar:.0%}  {said}", flush=True)
                    missed += [f"{scenario} {kind}"] if good < bar * len(outs) else []
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
