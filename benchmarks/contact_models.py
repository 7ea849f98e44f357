"""Quadrupeds on the contact models of both plants, with each estimate of the controller on and off.

Cells of robot, plant with its contact model, task and setting of the controller, with the same random numbers for all
settings. The settings are "estimated" (the defaults: friction and contacts of the feet are estimated), "assumed" (the
friction is assumed), "scheduled" (the contacts follow the gait's schedule) and "neither" (no estimate). A cell passes
if all of its trials succeed, see `quaddyn.campaigns.trial_runner.run_trial`. The tasks are "flat", a trot at 0.4 sqrt(g
l) on level ground; "wrong-model", the same with masses, damping, rotor inertias and radii of feet that the controller
has wrong (`Trial.model_error` of 0.25); "slope-10", "slope-15" and "slope-20", up, in degrees; the obstacles "stairs"
(with a terrain map), "stairs-blind", "boxes" and "relief" (blind); the gaits "pace" and "bound"; and "push-0.1" and
"push-0.5", a force of so many m g from the side for 0.1 s.

The table has a row per plant and setting, and every failure is listed with its cause.  ``--check`` exits with 1 where,
in one plant, some setting passes more cells than the defaults by more than one cell in forty (and by more than one).
The default is short; ``--robots``, ``--plants``, ``--tasks`` and ``--trials`` choose.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import replace

from quaddyn.campaigns.obstacles import ObstacleCampaign
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED
from quaddyn.campaigns.trial_runner import run_trial
from quaddyn.campaigns.worker_memory import case_rng, load_cached_robot
from quaddyn.locomotion import Morphology

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
PLANTS = ("mujoco:stiff", "mujoco:mujoco", "mujoco:menagerie", "mujoco:soft")
SETTINGS = {
    "estimated": ("estimated", "estimated"),
    "assumed": ("nominal", "estimated"),
    "scheduled": ("estimated", "scheduled"),
    "neither": ("nominal", "scheduled"),
}
OBSTACLES = {
    "stairs": "up-0.15-0.6",
    "stairs-blind": "blind-up-0.1-0.6",
    "boxes": "blind-rubble-0.08",
    "relief": "blind-relief-0.15",
}
TASKS = (
    "flat", "wrong-model", "slope-10", "slope-15", "slope-20", *OBSTACLES, "pace", "bound", "push-0.1", "push-0.5",
)  # fmt: skip
FRICTION, DT = 1.0, 2e-3
FLAT_SPEED = 0.4  # [sqrt(g l)]
MODEL_ERROR = 0.25
DIRECTION_SPREAD, SPEED_SPREAD = math.radians(10.0), 0.1  # of each trial, about what is named
PUSH_DURATION, PUSH_FRACTION = 0.1, 0.4  # [s], and when it comes as a fraction of the run
ALLOWED = 1.0 / 40.0  # fraction of the cells


def case_of(name: str, plant: str, task: str, setting: str, number: int, seed: int, seconds: float) -> Trial:
    """Returns one trial; the same number is the same motion and ground for every plant and setting."""
    p, rng = Morphology.from_robot(load_cached_robot(name)), case_rng(seed, number)
    turn, haste = rng.uniform(-DIRECTION_SPREAD, DIRECTION_SPREAD), 1.0 + rng.uniform(-SPEED_SPREAD, SPEED_SPREAD)
    friction, contacts = SETTINGS[setting]
    options = (("controller.friction", friction), ("controller.contact_detection", contacts))
    if task in OBSTACLES:
        made = ObstacleCampaign(robot=(name,), dt=DT, seed=seed).case(name, OBSTACLES[task], plant, number)
        return replace(made, options=options, friction=FRICTION)
    kind, _, size = task.partition("-")
    speed = (FLAT_SPEED if kind in ("flat", "wrong") else DEFAULT_COMMAND_SPEED) * p.speed_scale * haste
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
        return replace(case, slope=math.radians(float(size)), slope_direction=turn)
    if kind == "push":
        velocity = float(size) * p.gravity * PUSH_DURATION
        when = PUSH_FRACTION * case.seconds
        side = math.copysign(0.5 * math.pi, turn) + turn
        return replace(case, push=velocity, push_direction=side, push_time=when, push_duration=PUSH_DURATION)
    if kind == "wrong":
        return replace(case, model_error=MODEL_ERROR)
    return case if kind == "flat" else replace(case, gait=kind)


def main() -> int:
    """Prints the table; returns 1 if `--check` fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default="go2", help=f"some of {', '.join(ROBOTS)}, or files; or all")
    parser.add_argument("--plants", default=",".join(PLANTS[1:]))
    parser.add_argument("--settings", default="estimated,neither", help=f"some of {', '.join(SETTINGS)}")
    parser.add_argument("--tasks", default="flat,slope-10", help=f"some of {', '.join(TASKS)}; or all")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=6.0, help="of a trial, but for obstacles [s]")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    robots = ROBOTS if options.robots == "all" else tuple(options.robots.split(","))
    tasks = TASKS if options.tasks == "all" else tuple(options.tasks.split(","))
    settings = options.settings.split(",")
    passed: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for plant in options.plants.split(","):
        for task in tasks:
            for name in robots:
                for setting in settings:
                    causes = []
                    for number in range(options.trials):
                        case = case_of(name, plant, task, setting, number, options.seed, options.seconds)
                        record = run_trial(case)
                        if not record["success"]:
                            when = "" if record["fell"] is None else f"{record['fell']:.1f} s: "
                            limit = f" [{record['limit_reason']}]" if record["limit_reason"] else ""
                            causes.append(f"{number}: {when}{record['reason']}{limit}")
                    passed[plant, task, setting].append(not causes)
                    if causes:
                        print(f"{plant:16s} {task:12s} {name:9s} {setting:9s} {'; '.join(causes)}", flush=True)
    print(f"seed {options.seed}, {options.trials} trials a cell, cells that pass")
    print(f"{'':26s}" + "".join(f"{task:>13s}" for task in tasks))
    missed = []
    for plant in options.plants.split(","):
        totals = {}
        for setting in settings:
            cells = [passed[plant, task, setting] for task in tasks]
            totals[setting] = sum(map(sum, cells))
            row = "".join(f"{f'{sum(cell)}/{len(cell)}':>13s}" for cell in cells)
            print(f"{plant:16s} {setting:9s}{row}  all {totals[setting]}/{sum(map(len, cells))}", flush=True)
        count = len(tasks) * len(robots)
        if "estimated" in totals:
            worse = max(totals.values()) - totals["estimated"]
            missed += [f"{plant}: {worse} of {count} cells worse"] if worse > max(1.0, ALLOWED * count) else []
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
