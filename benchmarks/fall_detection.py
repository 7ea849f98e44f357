"""False and missed reports of falls: drawn trials, each simulated with the reaction to a fall and without it.

A trial is drawn from a seed and its number: robot, gait, terrain (floor, relief, boxes, stairs, slope, each with or
without a terrain map), friction that may drop during the run, velocity command, and pushes.  Without the reaction the
controller detects a fall (`FallWatch`) and goes on with whole-body control.  The true outcome is measured there: the
robot *is down* if its trunk is on the ground for `TOUCH_TIME`, if the trunk is tilted by more than `MAX_TILT`, or if
the center of mass is below `MIN_HEIGHT` of the commanded height for `LOW_TIME`.  It *stands on* if within 2 s after a
report it is never down, and if it is at the end at `STANDING_HEIGHT` of the commanded height or above.

*False report*: the robot stands on.  *Missed fall*: the robot is down, and no fall was reported until then.  *Warning
time*: from the report to the time at which the robot is down.  ``--check`` exits with 1 where a fall was reported
falsely or missed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import quaddyn as qd
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_terrain import make_trial_terrain
from quaddyn.errors import QuaddynError
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.simulation import MujocoPlant, Plant, Simulation, Terrain

DT = 2e-3  # period of controller and simulator [s]
ROBOTS = ("go2", "a1", "solo12", "anymal_c", "hyq", "b1", "laikago", "anymal_b")
#: Simulators: the embedded one, MuJoCo with the stiff contacts of `MujocoPlant`, and MuJoCo with its own defaults.
PLANTS = ("embedded", "mujoco", "mujoco-defaults")
GROUNDS = ("floor", "floor", "relief", "boxes", "stairs", "slope")
GAITS = ("trot", "trot", "trot", "walk", "pace", "bound", "crawl", "running_trot")
START = 0.5  # time at which a velocity is commanded [s]
LATER = 2.0  # time within which a robot that was reported as fallen has to be down [s]
#: Time for which the trunk has to be on the ground [sqrt(l/g)], and tilt [rad], from which on a robot is down.
TOUCH_TIME, MAX_TILT = 0.5, math.pi / 3.0
#: Height as a fraction of the commanded one below which a robot is down, after how long [sqrt(l/g)], and above which it
#: stands.
MIN_HEIGHT, LOW_TIME, STANDING_HEIGHT = 0.4, 1.0, 0.75
#: Called at every tick with time, plant and controller.
Watch = Callable[[float, Plant, LocomotionController], object]


@dataclass(frozen=True)
class Drawn:
    """One trial.

    Attributes:
        number: of the trial.
        robot, plant, gait, ground: names.
        told: whether the controller has a terrain map.
        height: of the terrain [l], or angle of the slope [rad].
        friction: Coulomb's coefficient of the ground.
        drop: coefficient after the drop; None without one.
        command: forward and leftward speed [sqrt(g l)] and yaw rate [sqrt(g/l)].
        push: change of velocity by the push [sqrt(g l)]; 0 without one.
        push_direction: world [rad].
        when: time of drop and push [s].
        seconds: duration [s].
    """

    number: int
    robot: str
    plant: str
    gait: str
    ground: str
    told: bool
    height: float
    friction: float
    drop: float | None
    command: tuple[float, float, float]
    push: float
    push_direction: float
    when: float
    seconds: float = 5.0


@dataclass
class Outcome:
    """What happened in one run.

    Attributes:
        reported: time of the first report of a fall [s]; inf without one.
        sign: of the report, the text of `LocomotionCommand.limit`.
        down: time at which the robot was down [s]; inf if it never was.
        stands: whether it stands on after a report, or at the end.
        measured: at the report: height of the center of mass over the commanded one, tilt [rad].
    """

    reported: float = math.inf
    sign: str = ""
    down: float = math.inf
    stands: bool = True
    measured: dict[str, float] = field(default_factory=dict)


def draw(seed: int, number: int, robots: tuple[str, ...], plants: tuple[str, ...]) -> Drawn:
    """Draw a trial."""
    rng = np.random.default_rng([seed, number])
    name, plant = str(rng.choice(robots)), str(rng.choice(plants))
    kind, gait = str(rng.choice(GROUNDS)), str(rng.choice(GAITS))
    height = {"floor": 0.0, "slope": rng.uniform(0.05, 0.35), "boxes": rng.uniform(0.03, 0.12)}.get(
        kind, rng.uniform(0.05, 0.18)
    )
    kinds = rng.choice(["none", "push", "drop", "both"], p=[0.2, 0.3, 0.35, 0.15])
    friction = float(rng.choice([0.4, 0.6, 1.0]))
    drop = float(rng.choice([0.03, 0.05, 0.1, 0.2, 0.3]))
    push = float(rng.uniform(0.1, 0.8))
    heading, speed = rng.uniform(-math.pi, math.pi), rng.uniform(0.1, 0.4)
    if kind != "floor":
        heading *= 0.1
    command = (speed * math.cos(heading), speed * math.sin(heading), float(rng.uniform(-0.2, 0.2)))
    return Drawn(
        number, name, plant, gait, kind, bool(rng.integers(2)) and kind != "floor", float(height), friction,
        drop if kinds in ("drop", "both") else None, command, push if kinds in ("push", "both") else 0.0,
        float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(1.5, 3.0)),
    )  # fmt: skip


def plant_of(name: str, robot: qd.Robot, **options: Any) -> Plant:
    """A plant of `PLANTS`."""
    if name == "embedded":
        return Simulation(robot, dt=DT, **options)
    plant = MujocoPlant(robot, dt=DT, **options)
    if name == "mujoco-defaults":
        import mujoco

        model = plant.model
        model.opt.cone, model.opt.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
        model.geom_solref[:], model.geom_solimp[:] = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
    return plant


def simulate(trial: Drawn, *, reaction: bool, watch: Watch | None = None) -> Outcome:
    """Run a trial, until `LATER` after the robot was reported as fallen or is down."""
    robot = qd.load(trial.robot)
    p = Morphology.from_robot(robot)
    size = {trial.ground: trial.height * (1.0 if trial.ground == "slope" else p.length)}
    if trial.ground == "stairs":
        size["tread"] = 0.9 * p.length
    case = None if trial.ground == "floor" else Trial(robot=trial.robot, **size)
    surfaces = None if case is None else make_trial_terrain(case, p, robot, np.random.default_rng([1, trial.number]))
    plant = plant_of(trial.plant, robot, friction=trial.friction, terrain=surfaces)
    known = Terrain.from_surfaces(surfaces) if trial.told and surfaces is not None else None
    controller = LocomotionController(robot, dt=DT, gait=trial.gait, terrain=known)
    fall, found, reason = controller._fall, Outcome(), [""]
    seen = fall.detect

    def why(*arguments: Any) -> str:
        reason[0] = seen(*arguments)
        return reason[0] if reaction else ""

    object.__setattr__(controller, "_fall", _Wrapped(fall, why))
    dynamics, trunk = qd.Dynamics(robot), {link.name for link, _ in robot.bodies[0].links}
    velocity = tuple(
        v * u for v, u in zip(trial.command, (p.speed_scale, p.speed_scale, 1.0 / p.time_scale), strict=True)
    )
    contact, low, done = 0.0, 0.0, False
    for k in range(round((trial.seconds + LATER) / DT)):
        t = k * DT
        if not done and t >= trial.when:
            done = True
            if trial.drop is not None:
                plant.friction = trial.drop
            if trial.push:
                way = np.array([math.cos(trial.push_direction), math.sin(trial.push_direction), 0.0])
                force = p.mass * trial.push * p.speed_scale / 0.1 * way
                plant.push(robot.bodies[0].name, force, duration=0.1)
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state, velocity if t >= START else (0.0, 0.0, 0.0))
        up = float((state.placement(robot.bodies[0].name).rotation @ p.heading)[2, 2])
        over = float(state.com[2]) - controller._quadruped.ground.height(*state.com[:2].tolist())
        height = over / controller._quadruped.trunk.desired_height
        if reason[0] and found.reported == math.inf:
            found.reported, found.sign = t, reason[0]
            found.measured = {"height": height, "tilt": math.acos(min(1.0, up))}
        if watch is not None:
            watch(t, plant, controller)
        try:
            plant.step(command.tau)
        except QuaddynError:
            found.down = min(found.down, t)
            break
        contact = contact + DT if trunk & set(plant.body_forces) else 0.0
        low = low + DT if height < MIN_HEIGHT else 0.0
        if contact > TOUCH_TIME * p.time_scale or low > LOW_TIME * p.time_scale or up < math.cos(MAX_TILT):
            found.down = min(found.down, t)
            break
        found.stands = height > STANDING_HEIGHT
        if t > max(found.reported if found.reported < math.inf else 0.0, trial.seconds - LATER) + LATER:
            break
    found.stands = found.stands and found.down == math.inf
    return found


class _Wrapped:
    """The reaction to falls with another method `why`."""

    def __init__(self, fall: Any, why: Callable[..., str]) -> None:
        self._fall, self.why = fall, why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fall, name)


def judged(free: Outcome) -> str:
    """The verdict on a run without the reaction: "stands", "fell", "false" or "missed"."""
    if free.reported < math.inf:
        return "false" if free.stands else "fell"
    return "missed" if free.down < math.inf else "stands"


def main() -> int:
    """Run the trials and print a line for each false or missed report, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--plants", default=",".join(PLANTS))
    parser.add_argument("--store", default=None, help="JSON lines of all trials are appended to this file")
    parser.add_argument("--check", action="store_true", help="exit with 1 on a false or missed report")
    options = parser.parse_args()
    robots, plants = tuple(options.robots.split(",")), tuple(options.plants.split(","))
    counts: Counter[str] = Counter()
    signs: Counter[str] = Counter()
    warnings: list[float] = []
    for number in range(options.first, options.first + options.trials):
        trial = draw(options.seed, number, robots, plants)
        try:
            free = simulate(trial, reaction=False)
        except qd.ArgumentError as error:  # a gait that the robot cannot do
            counts["refused"] += 1
            print(f"{number:5d} refused: {error}", file=sys.stderr)
            continue
        counts["trials"] += 1
        verdict = judged(free)
        if free.reported < math.inf:
            signs[free.sign] += 1
            if free.down < math.inf:
                warnings.append(free.down - free.reported)
        counts[verdict] += 1
        reacted = Outcome()
        if free.reported < math.inf:  # without a report, the two runs are the same
            reacted = simulate(trial, reaction=True)
            counts["down with the reaction"] += reacted.down < math.inf
        if options.store:
            with Path(options.store).open("a") as file:
                file.write(json.dumps([asdict(trial), asdict(free), asdict(reacted), verdict]) + "\n")
        if verdict in ("false", "missed"):
            print(f"{number:5d} {verdict}: {free}\n      {trial}", flush=True)
    print(f"{options.trials} trials of seed {options.seed}: {dict(counts)}; signs: {dict(signs)}")
    if warnings:
        low, middle = np.percentile(warnings, [10, 50])
        print(f"warning time: median {middle:.2f} s, 10th percentile {low:.2f} s")
    return 1 if options.check and counts["false"] + counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
