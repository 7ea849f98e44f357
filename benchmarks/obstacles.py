"""Quadrupeds over obstacles in proportion to their legs: stairs up and down, boxes, relief; with a map and blind.

Cells of robot, plant and obstacle, some trials each (`quaddyn campaign obstacles`).  A trial succeeds if the robot
passes the whole obstacle without a fall, at the commanded speed along the way give or take a fifth.  It ends as said if
it succeeds, or stays on its feet and goes as fast as the controller said it would, give or take a fifth of the command:
slower where steps ask for it, or not at all where they are too high.  ``--check`` exits with 1 where a cell misses the
bar of its obstacle.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

import numpy as np

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.obstacles import CONTACT_DETECTION_OPTIONS, OBSTACLES, ObstacleCampaign
from quaddyn.campaigns.trial_campaign import DEFAULT_COMMAND_SPEED, robot_proportions

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "b1", "laikago")


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def cells(campaign: ObstacleCampaign, pool: object, store: str | None) -> list[str]:
    """Every cell; which missed the bar of its obstacle."""
    found = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    missed = []
    for name, plant, title in itertools.product(campaign.robot, campaign.plants, campaign.obstacles):
        good, said, causes, speeds, flagged = 0, 0, [], [], []
        for number in range(campaign.trials):
            case = campaign.case(name, title, plant, number)
            record = found[case]
            if isinstance(record, Failure):
                causes.append(record.error.splitlines()[0])
                continue
            good += bool(record["success"])
            flagged.append(record["flagged"])
            where = f" at {(record['ahead'] - case.course_interval[0]) / robot_proportions(name).length:.1f} l"
            if record["vx"] is not None:
                speeds.append(record["vx"] / case.unit_speed)
                where = f" ({speeds[-1]:.2f} of the speed"
                where += f", {record['limit_reason']})" if record["limit_reason"] else ")"
                slow = (record["allowed_fraction"] or 0.0) < 1.0 and abs(
                    speeds[-1] - record["allowed_fraction"]
                ) < campaign.max_velocity_error
                said += not record["success"] and slow
            causes += [] if record["success"] else [f"{record['reason']}{where}"]
        pace = f"{np.mean(speeds):.2f}" if speeds else "   -"
        print(
            f"{name:9s} {plant:9s} {title:19s} {good:3d}/{campaign.trials:<3d} as said {good + said:3d} speed {pace} "
            f"flagged {100.0 * np.mean(flagged or [0.0]):4.1f} %  {'; '.join(causes)}",
            flush=True,
        )
        missed += [f"{name} {plant} {title}"] if good < OBSTACLES[title].bar * campaign.trials else []
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--obstacles", default="", help="those whose name contains one of these words; all by default")
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
    words = [word for word in options.obstacles.split(",") if word]
    for word in words:
        if not any(word in name for name in OBSTACLES):
            parser.error(f"--obstacles: no obstacle has {word!r} in its name; there are {', '.join(OBSTACLES)}")
    campaign = ObstacleCampaign(
        robot=tuple(options.robots.split(",")),
        obstacles=tuple(name for name in OBSTACLES if not words or any(word in name for word in words)),
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
        missed = cells(campaign, pool, options.store)
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
