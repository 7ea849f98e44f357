"""Tests whether robots can track the velocities that `LocomotionController.clamp_velocity` permits.

Random velocities (forward, sideways, turning) within the limits are commanded for twenty seconds each, in ``--trials``
trials of each robot, gait and plant (`quaddyn campaign reach`).  A trial succeeds if the robot is upright at the end
and the error of each velocity component is below a fifth of the speed of its fastest hip.  ``--check`` exits with 1 if
the fraction of successes over all trials is below `MIN_SUCCESS`.  Gaits that the controller rejects for a robot are
printed and skipped.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.binomial_bounds import lower_bound
from quaddyn.campaigns.walking_campaigns import VelocityLimitCampaign, gait_rejection

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
GAITS = ("crawl", "walk", "trot", "pace", "bound")
MIN_SUCCESS = 0.99


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def run_cells(campaign: VelocityLimitCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results, and returns the requirement if it is not met."""
    records = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    n_success_all = 0
    for name, plant, gait in itertools.product(campaign.robot, campaign.plants, campaign.gaits):
        n_success, causes, rejection = 0, [], gait_rejection(name, gait)
        if rejection:
            print(f"{name:9s} {plant:9s} {gait:13s} rejected: {rejection}", flush=True)
            continue
        for number in range(campaign.trials):
            case = campaign.case(name, gait, plant, number)
            record = records[case]
            if isinstance(record, Failure):
                causes.append(f"{number}: {record.error.splitlines()[0]}")
                continue
            n_success += bool(record["success"])
            if not record["success"]:
                command = ", ".join(f"{x:+.2f}" for x in case.velocity)
                after = "" if record["fell"] is None else f"after {record['fell']:.1f} s: "
                causes.append(f"{number} ({command}) {after}{record['reason']}")
        print(f"{name:9s} {plant:9s} {gait:13s} {n_success:3d}/{campaign.trials:<3d}  {'; '.join(causes)}", flush=True)
        n_success_all += n_success
    count = campaign.count()
    print(f"all: {n_success_all}/{count}, at least {lower_bound(n_success_all, count, 0.95):.1%} with 95 % confidence")
    return [f"{n_success_all}/{count} < {MIN_SUCCESS:.0%}"] if n_success_all < MIN_SUCCESS * count else []


def main() -> int:
    """Runs the campaign; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--gaits", default=",".join(GAITS))
    parser.add_argument("--plants", default="embedded")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the requirement is not met")
    options = parser.parse_args()
    campaign = VelocityLimitCampaign(
        robot=tuple(options.robots.split(",")),
        gaits=tuple(options.gaits.split(",")),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        seconds=options.seconds,
        seed=options.seed,
    )
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        not_met = run_cells(campaign, pool, options.store)
    if not_met:
        print("not met:", "; ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
