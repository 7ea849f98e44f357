"""Pushes quadrupeds at random phases of their gaits and counts recoveries by size and direction of the push.

A cell is a combination of robot, plant, gait and size of the push (`quaddyn campaign pushes`).  The size is the change
of velocity by a force on the trunk for 0.1 s, in sqrt(g l); pushes come from eight directions in turn, at a random
phase of the gait.  Robots whose controller rejects a gait are skipped.  Sums follow by gait and by direction relative
to the heading [degrees].  ``--check`` exits with 1 if the fraction of recoveries of a gait and size in a plant is below
`MIN_RECOVERY`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.walking_campaigns import N_DIRECTIONS, PushCampaign

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "a1", "laikago", "b1")

#: Required fraction of recoveries over all robots, in either plant, by gait and size [sqrt(g l)].  The margin below the
#: measured fractions covers the variation between seeds.
MIN_RECOVERY = {("trot", 0.3): 0.92, ("trot", 0.5): 0.82}


def required_fractions(campaign: PushCampaign) -> dict[tuple[str, float], float]:
    """Returns the required fractions for the gaits and sizes of a campaign."""
    return {
        key: fraction for key, fraction in MIN_RECOVERY.items() if key[0] in campaign.gaits and key[1] in campaign.sizes
    }


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def run_cells(campaign: PushCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results and sums, and returns the requirements that are not met."""
    records = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    sums: dict[tuple[str, str, float], list[bool]] = defaultdict(list)
    for plant, gait, name in itertools.product(campaign.plants, campaign.gaits, campaign.robot):
        for size in campaign.sizes:
            results, causes = [], []
            for number in range(campaign.trials):
                case = campaign.case(name, gait, size, plant, number)
                record = records[case]
                if isinstance(record, Failure):
                    causes.append(record.error.splitlines()[0])
                    if "cannot move with the gait" in record.error:
                        continue
                has_recovered = not isinstance(record, Failure) and bool(record["success"])
                results.append(has_recovered)
                angle = f"to {(number % N_DIRECTIONS) * 360 // N_DIRECTIONS}"
                for group in (f"{gait}", angle, "all"):
                    sums[plant, group, size].append(has_recovered)
                if not has_recovered and not isinstance(record, Failure):
                    after = "" if record["fell"] is None else f" {record['fell'] - case.push_time:.2f} s after"
                    causes.append(f"{angle[3:]}:{after} {record['reason']}")
            print(
                f"{plant:9s} {gait:12s} {name:9s} {size:.2f} {sum(results):3d}/{len(results):<3d} {'; '.join(causes)}"
            )
    sizes = "".join(f"{size:>10.2f}" for size in campaign.sizes)
    print(f"{'recoveries':22s}{sizes}")
    groups = [*campaign.gaits, *(f"to {k * 360 // N_DIRECTIONS}" for k in range(N_DIRECTIONS)), "all"]
    for plant, group in itertools.product(campaign.plants, groups):
        results_by_size = [sums[plant, group, size] for size in campaign.sizes]
        print(f"{plant:9s} {group:12s}" + "".join(f"{f'{sum(t)}/{len(t)}':>10s}" for t in results_by_size), flush=True)
    not_met = []
    for (gait, size), required in required_fractions(campaign).items():
        for plant in campaign.plants:
            results = sums[plant, gait, size]
            if sum(results) < required * len(results) or not results:
                not_met.append(f"{plant} {gait} {size:g}: {sum(results)} of {len(results)}, required {required:.0%}")
    return not_met


def main() -> int:
    """Runs the campaign; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--gaits", default="stand,walk,trot,running_trot")
    parser.add_argument("--sizes", default="0.2,0.3,0.4,0.5,0.6,0.7", help="change of the velocity [sqrt(g l)]")
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=8, help="trials of each cell, from eight directions in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    campaign = PushCampaign(
        robot=tuple(options.robots.split(",")),
        gaits=tuple(options.gaits.split(",")),
        sizes=tuple(float(size) for size in options.sizes.split(",")),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        seed=options.seed,
    )
    if options.check and not required_fractions(campaign):
        parser.error(
            f"--check: requirements exist only for {', '.join(f'{gait} {size:g}' for gait, size in MIN_RECOVERY)}"
        )
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        not_met = run_cells(campaign, pool, options.store)
    if not_met:
        print("not met:", "; ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
