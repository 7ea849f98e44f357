"""Simulates quadrupeds on the contact models of both plants, with each estimate of the controller enabled and disabled.

A cell is a robot, a plant with a contact model, a task and a setting of the controller; the random numbers are the same
for all settings.  The settings are "estimated" (the default: friction and contacts of the feet are estimated),
"assumed" (nominal friction), "scheduled" (contacts according to the gait's schedule) and "neither" (no estimate).  A
cell passes if all of its trials succeed, see `quaddyn.campaigns.trial_runner.run_trial`.  The tasks are

- "flat", a trot on level ground at 0.4 sqrt(g l);
- "wrong-model", the same with errors of masses, damping, rotor inertias and foot radii in the controller's model
  (`Trial.model_error` of 0.25);
- "slope-10", "slope-15" and "slope-20", up a slope, in degrees;
- the obstacles "stairs" (with a terrain map), "stairs-blind", "boxes" and "relief" (blind), at any speed;
- the gaits "pace" and "bound";
- "push-0.1" and "push-0.5", a lateral force of 0.1 or 0.5 m g for 0.1 s.

On level ground and slopes a robot whose legs are too slow or too short for the speed is commanded the fastest one that
the controller allows.  Robots that refuse a gait are not counted in its cells.

The table has a row for each plant and setting, and every failure is listed with its cause.  ``--check`` exits with 1
if, in one plant, a setting passes more cells than the default by more than 1/40 of the cells and by more than one cell.
By default few trials are run; ``--robots``, ``--plants``, ``--tasks`` and ``--trials`` select others.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
from collections import defaultdict
from dataclasses import replace

from quaddyn.campaigns import process_pool
from quaddyn.campaigns.campaign import case_rng, load_cached_robot
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED
from quaddyn.campaigns.trial_runner import run_trial
from quaddyn.campaigns.walking_campaigns import ObstacleCampaign
from quaddyn.errors import ArgumentError
from quaddyn.locomotion import LocomotionController, Morphology

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
PLANTS = ("mujoco:stiff", "mujoco:mujoco", "mujoco:menagerie", "mujoco:soft")
#: Modes of the estimates of friction and of contacts, by name of the setting.
SETTINGS = {
    "estimated": ("estimated", "estimated"),
    "assumed": ("nominal", "estimated"),
    "scheduled": ("estimated", "scheduled"),
    "neither": ("nominal", "scheduled"),
}
#: Levels of `ObstacleCampaign` by name of the task.
OBSTACLES = {
    "stairs": "up-0.15-0.6",
    "stairs-blind": "up-0.15-0.6",
    "boxes": "blind-rubble-0.08",
    "relief": "blind-relief-0.15",
}
TASKS = (
    "flat", "wrong-model", "slope-10", "slope-15", "slope-20", *OBSTACLES, "pace", "bound", "push-0.1", "push-0.5",
)  # fmt: skip
FRICTION, DT = 1.0, 2e-3
FLAT_SPEED = 0.4  # [sqrt(g l)]
MODEL_ERROR = 0.25
#: Maximum random deviation of a trial from the direction [rad] and, relative, from the speed of the task.
DIRECTION_SPREAD, SPEED_SPREAD = math.radians(10.0), 0.1
#: Factor of the time limit on obstacles, on which the controller reduces the speed of some robots.
OBSTACLE_TIME_FACTOR = 2.0
#: Duration of a push [s], and its time as a fraction of the run.
PUSH_DURATION, PUSH_FRACTION = 0.1, 0.4
MAX_WORSE_FRACTION = 1.0 / 40.0  # fraction of the cells by which another setting may be better


def task_gait(task: str) -> str:
    """Returns the name of the gait of a task."""
    return task if task in ("pace", "bound") else "trot"


def make_trial(name: str, plant: str, task: str, setting: str, number: int, seed: int, seconds: float) -> Trial:
    """Returns a trial; motion and terrain depend on the seed and the number, but not on plant and setting."""
    morphology, rng = Morphology.from_robot(load_cached_robot(name)), case_rng(seed, number)
    heading, speed_factor = (
        rng.uniform(-DIRECTION_SPREAD, DIRECTION_SPREAD),
        1.0 + rng.uniform(-SPEED_SPREAD, SPEED_SPREAD),
    )
    friction, contacts = SETTINGS[setting]
    options = (("controller.friction", friction), ("controller.contact_detection", contacts))
    if task in OBSTACLES:
        obstacle_trial = ObstacleCampaign(robot=(name,), dt=DT, seed=seed).case(name, OBSTACLES[task], plant, number)
        return replace(
            obstacle_trial,
            options=options,
            friction=FRICTION,
            terrain_known=task == "stairs",
            seconds=OBSTACLE_TIME_FACTOR * obstacle_trial.seconds,
            max_velocity_error=None,
        )
    kind, _, size = task.partition("-")
    gait = task_gait(task)
    speed = FLAT_SPEED if kind in ("flat", "wrong") else DEFAULT_COMMAND_SPEED
    speed = speed_factor * clamped_speed(name, gait, speed * morphology.speed_scale)
    case = Trial(
        robot=name,
        plant=plant,
        options=options,
        dt=DT,
        seconds=round(seconds / DT) * DT,
        averaging_time=round(0.5 * seconds / DT) * DT,
        velocity=(speed, 0.0, 0.0),
        friction=FRICTION,
        seed=seed,
        number=number,
    )
    if kind == "slope":
        return replace(case, slope=math.radians(float(size)), slope_direction=heading)
    if kind == "push":
        velocity = float(size) * morphology.gravity * PUSH_DURATION
        time = PUSH_FRACTION * case.seconds
        side = math.copysign(0.5 * math.pi, heading) + heading
        return replace(case, push=velocity, push_direction=side, push_time=time, push_duration=PUSH_DURATION)
    if kind == "wrong":
        return replace(case, model_error=MODEL_ERROR)
    return replace(case, gait=gait)


@functools.cache
def clamped_speed(name: str, gait: str, speed: float) -> float:
    """Returns the forward speed [m/s] that the controller allows a robot in a gait, at most `speed`."""
    controller = LocomotionController(load_cached_robot(name), dt=DT, gait=gait)
    return float(controller.clamp_velocity((speed, 0.0, 0.0))[0])


def find_refusal(name: str, task: str) -> str:
    """Returns the reason for which a robot refuses the gait of a task, such as joints that are too slow, or ""."""
    try:
        clamped_speed(name, task_gait(task), 0.0)
    except ArgumentError as error:
        return str(error)
    return ""


def explain_failure(case: Trial) -> str:
    """Runs a trial and returns the cause of its failure, "" if it succeeds."""
    record = run_trial(case)
    if record["success"]:
        return ""
    time = "" if record["fell"] is None else f"{record['fell']:.1f} s: "
    limit = f" [{record['limit_reason']}]" if record["limit_reason"] else ""
    return f"{time}{record['reason']}{limit}"


def main() -> int:
    """Prints the table; returns 1 if the requirement of `--check` is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default="go2", help=f"comma-separated: {', '.join(ROBOTS)}, or files; or all")
    parser.add_argument(
        "--plants", default=",".join(PLANTS[1:]), help="comma-separated plants with their contact models"
    )
    parser.add_argument("--settings", default="estimated,neither", help=f"comma-separated: {', '.join(SETTINGS)}")
    parser.add_argument("--tasks", default="flat,slope-10", help=f"comma-separated: {', '.join(TASKS)}; or all")
    parser.add_argument("--trials", type=int, default=1, help="number of trials per cell")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trials")
    parser.add_argument("--seconds", type=float, default=6.0, help="duration of a trial, except with obstacles [s]")
    parser.add_argument("--workers", type=int, default=None, help="number of processes; default: one per core")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    robots = ROBOTS if options.robots == "all" else tuple(options.robots.split(","))
    tasks = TASKS if options.tasks == "all" else tuple(options.tasks.split(","))
    settings, plants = options.settings.split(","), options.plants.split(",")
    pairs = []
    for task, name in itertools.product(tasks, robots):
        if refusal := find_refusal(name, task):
            print(f"{task:12s} {name:9s} refused: {refusal}")
        else:
            pairs.append((task, name))
    cells = [(plant, *pair, setting) for plant in plants for pair in pairs for setting in settings]
    trials = [
        make_trial(name, plant, task, setting, number, options.seed, options.seconds)
        for plant, task, name, setting in cells
        for number in range(options.trials)
    ]
    passed: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    with process_pool(options.workers) as pool:
        failures = pool.map(explain_failure, trials)
        for plant, task, name, setting in cells:
            causes = {number: cause for number, cause in enumerate(itertools.islice(failures, options.trials)) if cause}
            passed[plant, task, setting].append(not causes)
            if causes:
                text = "; ".join(f"{number}: {cause}" for number, cause in causes.items())
                print(f"{plant:16s} {task:12s} {name:9s} {setting:9s} {text}", flush=True)
    print(f"seed {options.seed}, {options.trials} trials per cell; number of cells that pass")
    print(f"{'':26s}" + "".join(f"{task:>13s}" for task in tasks))
    missed, count = [], len(pairs)
    for plant in plants:
        totals = {}
        for setting in settings:
            rows = [passed[plant, task, setting] for task in tasks]
            totals[setting] = sum(map(sum, rows))
            row = "".join(f"{f'{sum(cell)}/{len(cell)}':>13s}" for cell in rows)
            print(f"{plant:16s} {setting:9s}{row}  all {totals[setting]}/{count}", flush=True)
        n_worse = max(totals.values()) - totals.get("estimated", count)
        if n_worse > max(1.0, MAX_WORSE_FRACTION * count):
            missed.append(f"{plant}: the default passes {n_worse} of {count} cells fewer")
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
