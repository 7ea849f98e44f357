"""Measures false and missed reports of falls in random trials, each simulated with and without the reaction to a fall.

A seed and a number determine a trial: robot, gait, terrain (floor, relief, boxes, stairs, slope, each with or without a
terrain map), friction that may drop during the run, velocity command, and pushes.  Without the reaction, the controller
detects a fall (`FallDetectorState`) and continues with whole-body control.  The true outcome is measured in this run,
from the plant and its terrain, not from the controller's estimate of the ground: the robot *is down* if its trunk is on
the ground for `TOUCH_TIME`, if the trunk is tilted by more than `MAX_TILT`, or if the center of mass is below
`MIN_HEIGHT` for `LOW_TIME`.  It *remains standing* if it is never down within 2 s after a report, if its trunk does not
touch the ground after the report, and if it stands in the last `STANDING_TIME`: higher than `STANDING_HEIGHT` and
tilted by less than `STANDING_TILT`.

*False report*: the robot remains standing.  *Missed fall*: the robot is down, and no fall was reported before.
*Warning time*: from the report to the time at which the robot is down.  ``--check`` exits with 1 if a fall was reported
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
from quaddyn.campaigns.trial_runner import make_trial_terrain
from quaddyn.errors import QuaddynError
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.fall_detection import SIGN_TEXTS
from quaddyn.simulation import MujocoPlant, Plant, Simulation, Terrain

DT = 2e-3  # period of controller and simulator [s]
ROBOTS = ("go2", "a1", "solo12", "anymal_c", "hyq", "b1", "laikago", "anymal_b")
#: Plants: the embedded one, MuJoCo with the stiff contacts of `MujocoPlant`, and MuJoCo with its default contacts.
PLANTS = ("embedded", "mujoco", "mujoco-defaults")
#: Types of terrain and gaits; repeated ones are drawn more often.
GROUNDS = ("floor", "floor", "relief", "boxes", "stairs", "slope")
GAITS = ("trot", "trot", "trot", "walk", "pace", "bound", "crawl", "running_trot")
START = 0.5  # time of the velocity command [s]
LATER = 2.0  # maximum time from a correct report of a fall until the robot is down [s]
#: Time of trunk contact with the ground [sqrt(l/g)], and tilt [rad], beyond which a robot is down.
TOUCH_TIME, MAX_TILT = 0.5, math.pi / 3.0
#: Fraction of the height of the center of mass at home below which a robot is down after `LOW_TIME` [sqrt(l/g)].
MIN_HEIGHT, LOW_TIME = 0.4, 1.0
#: Height, as a fraction of that at home, and tilt [rad] of a standing robot, and time for which they hold [sqrt(l/g)].
STANDING_HEIGHT, STANDING_TILT, STANDING_TIME = 0.6, 0.6, 1.0
#: Function that is called at every tick with time, plant and controller.
Watch = Callable[[float, Plant, LocomotionController], object]


@dataclass(frozen=True)
class FallTrial:
    """Random trial.

    Attributes:
        number: number of the trial.
        robot, plant, gait, ground: names.
        told: whether the controller has a terrain map.
        height: height of the terrain [l], or angle of the slope [rad].
        friction: friction coefficient of the ground.
        drop: friction coefficient after a drop; None: no drop.
        command: forward and leftward speed [sqrt(g l)] and yaw rate [sqrt(g/l)].
        push: change of velocity by the push [sqrt(g l)]; 0: no push.
        push_direction: horizontal angle in world axes [rad].
        when: time of the drop and of the push [s].
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
    """Outcome of a run.

    Attributes:
        reported: time of the first report of a fall [s]; inf: no report.
        sign: reason of the report, the text of `LocomotionCommand.limit_reason`.
        down: time at which the robot was down [s]; inf: it was never down.
        stands: whether the robot remains standing after a report, or stands at the end.
        measured: values at the report: "height" of the center of mass divided by that at home, "tilt" [rad].
    """

    reported: float = math.inf
    sign: str = ""
    down: float = math.inf
    stands: bool = True
    measured: dict[str, float] = field(default_factory=dict)


def draw_trial(seed: int, number: int, robots: tuple[str, ...], plants: tuple[str, ...]) -> FallTrial:
    """Draws a trial."""
    rng = np.random.default_rng([seed, number])
    name, plant = str(rng.choice(robots)), str(rng.choice(plants))
    kind, gait = str(rng.choice(GROUNDS)), str(rng.choice(GAITS))
    height = {"floor": 0.0, "slope": rng.uniform(0.05, 0.35), "boxes": rng.uniform(0.03, 0.12)}.get(
        kind, rng.uniform(0.05, 0.18)
    )
    disturbance = rng.choice(["none", "push", "drop", "both"], p=[0.2, 0.3, 0.35, 0.15])
    friction = float(rng.choice([0.4, 0.6, 1.0]))
    drop = float(rng.choice([0.03, 0.05, 0.1, 0.2, 0.3]))
    push = float(rng.uniform(0.1, 0.8))
    heading, speed = rng.uniform(-math.pi, math.pi), rng.uniform(0.1, 0.4)
    if kind != "floor":
        heading *= 0.1
    command = (speed * math.cos(heading), speed * math.sin(heading), float(rng.uniform(-0.2, 0.2)))
    return FallTrial(
        number, name, plant, gait, kind, bool(rng.integers(2)) and kind != "floor", float(height), friction,
        drop if disturbance in ("drop", "both") else None, command, push if disturbance in ("push", "both") else 0.0,
        float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(1.5, 3.0)),
    )  # fmt: skip


def make_plant(name: str, robot: qd.Robot, **options: Any) -> Plant:
    """Builds a plant of `PLANTS`."""
    if name == "embedded":
        return Simulation(robot, dt=DT, **options)
    plant = MujocoPlant(robot, dt=DT, **options)
    if name == "mujoco-defaults":
        import mujoco

        model = plant.model
        model.opt.cone, model.opt.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
        model.geom_solref[:], model.geom_solimp[:] = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
    return plant


def simulate(trial: FallTrial, *, reaction: bool, watch: Watch | None = None) -> Outcome:
    """Runs a trial until the robot is down, or until `LATER` after a report of a fall.

    Args:
        trial: the trial.
        reaction: whether the controller reacts to a fall.
        watch: function that is called at every tick.
    """
    robot = qd.load(trial.robot)
    morphology = Morphology.from_robot(robot)
    terrain_options = {trial.ground: trial.height * (1.0 if trial.ground == "slope" else morphology.length)}
    if trial.ground == "stairs":
        terrain_options["tread"] = 0.9 * morphology.length
    terrain_trial = None if trial.ground == "floor" else Trial(robot=trial.robot, **terrain_options)
    surfaces = (
        None
        if terrain_trial is None
        else make_trial_terrain(terrain_trial, morphology, robot, np.random.default_rng([1, trial.number]))
    )
    plant = make_plant(trial.plant, robot, friction=trial.friction, terrain=surfaces)
    terrain_map = Terrain.from_surfaces(surfaces) if trial.told and surfaces is not None else None
    controller = LocomotionController(robot, dt=DT, gait=trial.gait, terrain=terrain_map)
    controller._walking.bind().data.parameters.folds_legs = reaction
    detector, outcome = controller._quadruped.fall_detector, Outcome()
    dynamics, trunk = qd.Dynamics(robot), {link.name for link, _ in robot.bodies[0].links}
    velocity = tuple(
        v * u
        for v, u in zip(
            trial.command, (morphology.speed_scale, morphology.speed_scale, 1.0 / morphology.time_scale), strict=True
        )
    )
    ground = None if surfaces is None else Terrain.from_surfaces(surfaces)
    contact_time, low_time, standing_time, disturbed, has_touched = 0.0, 0.0, 0.0, False, False
    for k in range(round((trial.seconds + LATER) / DT)):
        t = k * DT
        if not disturbed and t >= trial.when:
            disturbed = True
            if trial.drop is not None:
                plant.friction = trial.drop
            if trial.push:
                direction = np.array([math.cos(trial.push_direction), math.sin(trial.push_direction), 0.0])
                force = morphology.mass * trial.push * morphology.speed_scale / 0.1 * direction
                plant.push(robot.bodies[0].name, force, duration=0.1)
        state = dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(state, velocity if t >= START else (0.0, 0.0, 0.0))
        tilt_cosine = float((state.placement(robot.bodies[0].name).rotation @ morphology.heading)[2, 2])
        level = 0.0 if ground is None else float(ground.height(*state.com[:2].tolist()))
        height = (float(state.com[2]) - level) / morphology.height
        if detector.sign and outcome.reported == math.inf:
            outcome.reported, outcome.sign = t, SIGN_TEXTS[detector.sign]
            outcome.measured = {"height": height, "tilt": math.acos(min(1.0, tilt_cosine))}
        if watch is not None:
            watch(t, plant, controller)
        try:
            plant.step(command.tau)
        except QuaddynError:
            outcome.down = min(outcome.down, t)
            break
        is_touching = bool(trunk & set(plant.body_forces))
        has_touched = has_touched or (is_touching and outcome.reported < math.inf)
        contact_time = contact_time + DT if is_touching else 0.0
        low_time = low_time + DT if height < MIN_HEIGHT else 0.0
        stands_now = height > STANDING_HEIGHT and tilt_cosine > math.cos(STANDING_TILT)
        standing_time = standing_time + DT if stands_now else 0.0
        if (
            contact_time > TOUCH_TIME * morphology.time_scale
            or low_time > LOW_TIME * morphology.time_scale
            or tilt_cosine < math.cos(MAX_TILT)
        ):
            outcome.down = min(outcome.down, t)
            break
        outcome.stands = standing_time > STANDING_TIME * morphology.time_scale and not has_touched
        if t > max(outcome.reported if outcome.reported < math.inf else 0.0, trial.seconds - LATER) + LATER:
            break
    outcome.stands = outcome.stands and outcome.down == math.inf
    return outcome


def classify(without_reaction: Outcome) -> str:
    """Classifies a run without the reaction: "stands", "fell", "false" or "missed"."""
    if without_reaction.reported < math.inf:
        return "false" if without_reaction.stands else "fell"
    return "missed" if without_reaction.down < math.inf else "stands"


def main() -> int:
    """Runs the trials and prints a line for each false or missed report, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="number of trials")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trials")
    parser.add_argument("--robots", default=",".join(ROBOTS), help="comma-separated names of the catalogue")
    parser.add_argument("--plants", default=",".join(PLANTS), help="comma-separated plants")
    parser.add_argument("--store", default=None, help="file to which JSON lines of all trials are appended")
    parser.add_argument("--check", action="store_true", help="exit code 1 after a false or missed report")
    options = parser.parse_args()
    robots, plants = tuple(options.robots.split(",")), tuple(options.plants.split(","))
    counts: Counter[str] = Counter()
    signs: Counter[str] = Counter()
    warnings: list[float] = []
    for number in range(options.first, options.first + options.trials):
        trial = draw_trial(options.seed, number, robots, plants)
        try:
            without_reaction = simulate(trial, reaction=False)
        except qd.ArgumentError as error:  # the robot does not support the gait
            counts["rejected"] += 1
            print(f"{number:5d} rejected: {error}", file=sys.stderr)
            continue
        counts["trials"] += 1
        verdict = classify(without_reaction)
        if without_reaction.reported < math.inf:
            signs[without_reaction.sign] += 1
            if without_reaction.down < math.inf:
                warnings.append(without_reaction.down - without_reaction.reported)
        counts[verdict] += 1
        with_reaction = Outcome()
        if without_reaction.reported < math.inf:  # without a report, the two runs are equal
            with_reaction = simulate(trial, reaction=True)
            counts["down with the reaction"] += with_reaction.down < math.inf
        if options.store:
            with Path(options.store).open("a") as file:
                file.write(json.dumps([asdict(trial), asdict(without_reaction), asdict(with_reaction), verdict]) + "\n")
        if verdict in ("false", "missed"):
            print(f"{number:5d} {verdict}: {without_reaction}\n      {trial}", flush=True)
    print(f"{options.trials} trials of seed {options.seed}: {dict(counts)}; reasons of the reports: {dict(signs)}")
    if warnings:
        percentile_10, median = np.percentile(warnings, [10, 50])
        print(f"warning time: median {median:.2f} s, 10th percentile {percentile_10:.2f} s")
    return 1 if options.check and counts["false"] + counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
