"""Tests quadrupeds on obstacles scaled by leg length, with a terrain map and blind: stairs, boxes, rough ground.

A cell is a combination of robot, plant and obstacle; each has ``--trials`` trials (`quaddyn campaign obstacles`).  A
trial succeeds if the robot passes the whole obstacle without a fall, with a speed error along the path below a fifth of
the command.  It ends as predicted if it succeeds, or if the robot does not fall and its speed is that which the
controller permitted, within a fifth of the command: slower where steps require it, or zero where they are too high.
``--check`` exits with 1 if the success rate of a cell is below that required for its obstacle.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

import numpy as np

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED, robot_proportions
from quaddyn.campaigns.walking_campaigns import CONTACT_DETECTION_OPTIONS, OBSTACLES, ObstacleCampaign

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "b1", "laikago")


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def run_cells(campaign: ObstacleCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results, and returns those below the required success rate."""
    records = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    not_met = []
    for name, plant, title in itertools.product(campaign.robot, campaign.plants, campaign.obstacles):
        n_success, n_slower, causes, speeds, flagged = 0, 0, [], [], []
        for number in range(campaign.trials):
            case = campaign.case(name, title, plant, number)
            record = records[case]
            if isinstance(record, Failure):
                causes.append(record.error.splitlines()[0])
                continue
            n_success += bool(record["success"])
            flagged.append(record["flagged"])
            position_text = f" at {(record['ahead'] - case.course_interval[0]) / robot_proportions(name).length:.1f} l"
            if record["vx"] is not None:
                speeds.append(record["vx"] / case.unit_speed)
                position_text = f" ({speeds[-1]:.2f} of the speed"
                position_text += f", {record['limit_reason']})" if record["limit_reason"] else ")"
                is_slower_as_predicted = (record["allowed_fraction"] or 0.0) < 1.0 and abs(
                    speeds[-1] - record["allowed_fraction"]
                ) < campaign.max_velocity_error
                n_slower += not record["success"] and is_slower_as_predicted
            causes += [] if record["success"] else [f"{record['reason']}{position_text}"]
        mean_speed = f"{np.mean(speeds):.2f}" if speeds else "   -"
        n_as_predicted = n_success + n_slower
        print(
            f"{name:9s} {plant:9s} {title:19s} {n_success:3d}/{campaign.trials:<3d} as predicted "
            f"{n_as_predicted:3d} speed {mean_speed} flagged {100.0 * np.mean(flagged or [0.0]):4.1f} %  "
            f"{'; '.join(causes)}",
            flush=True,
        )
        not_met += [f"{name} {plant} {title}"] if n_success < OBSTACLES[title].bar * campaign.trials else []
    return not_met


def main() -> int:
    """Runs the campaign; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument(
        "--obstacles", default="", help="parts of names of obstacles, separated by commas (default: all)"
    )
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--gait", default="trot")
    parser.add_argument("--speed", type=float, default=DEFAULT_COMMAND_SPEED, help="commanded [sqrt(g l)]")
    parser.add_argument("--friction", type=float, default=0.8)
    parser.add_argument("--touching", default="estimated", choices=tuple(CONTACT_DETECTION_OPTIONS))
    parser.add_argument("--dt", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    name_parts = [part for part in options.obstacles.split(",") if part]
    for part in name_parts:
        if not any(part in name for name in OBSTACLES):
            parser.error(
                f"--obstacles: no name of an obstacle contains {part!r}; valid names are {', '.join(OBSTACLES)}"
            )
    campaign = ObstacleCampaign(
        robot=tuple(options.robots.split(",")),
        obstacles=tuple(name for name in OBSTACLES if not name_parts or any(part in name for part in name_parts)),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        gait=options.gait,
        speed=options.speed,
        friction=options.friction,
        touching=options.touching,
        dt=options.dt,
        seed=options.seed,
    )
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        not_met = run_cells(campaign, pool, options.store)
    if not_met:
        print("not met:", "; ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
