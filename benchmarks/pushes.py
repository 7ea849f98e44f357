"""Pushes quadrupeds at random phases of their gaits and counts recoveries by size and direction of the push.

A cell is a combination of robot, plant, gait and size of the push (`quaddyn campaign pushes`).  The size is the change
of velocity by a force on the trunk for 0.1 s, in sqrt(g l); pushes come from eight directions in turn, at a random
phase of the gait.  Robots whose controller rejects a gait are skipped.  Sums follow by gait and by direction relative
to the heading [degrees].  ``--check`` exits with 1 if the fraction of recoveries of a gait and size in a plant is below
`BARS`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.pushes import N_DIRECTIONS, PushCampaign

ROBOTS = ("go2", "solo12", "anymal_c", "hyq", "a1", "laikago", "b1")

#: Required fraction of recoveries over all robots, in either plant, by gait and size [sqrt(g l)]: below the measured
#: fractions by so much that other seeds pass, too.
BARS = {("trot", 0.3): 0.92, ("trot", 0.5): 0.82}


def bars(campaign: PushCampaign) -> dict[tuple[str, float], float]:
    """Returns the required fractions for the gaits and sizes of a campaign."""
    return {key: bar for key, bar in BARS.items() if key[0] in campaign.gaits and key[1] in campaign.sizes}


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def cells(campaign: PushCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results and sums, and returns the missed requirements."""
    found = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    sums: dict[tuple[str, str, float], list[bool]] = defaultdict(list)
    for plant, gait, name in itertools.product(campaign.plants, campaign.gaits, campaign.robot):
        for size in campaign.sizes:
            results, causes = [], []
            for number in range(campaign.trials):
                case = campaign.case(name, gait, size, plant, number)
                record = found[case]
                if isinstance(record, Failure):
                    causes.append(record.error.splitlines()[0])
                    if "cannot do" in record.error:
                        continue
                good = not isinstance(record, Failure) and bool(record["success"])
                results.append(good)
                angle = f"to {(number % N_DIRECTIONS) * 360 // N_DIRECTIONS}"
                for group in (f"{gait}", angle, "all"):
                    sums[plant, group, size].append(good)
                if not good and not isinstance(record, Failure):
                    after = "" if record["fell"] is None else f" {record['fell'] - case.push_time:.2f} s after"
                    causes.append(f"{angle[3:]}:{after} {record['reason']}")
            print(
                f"{plant:9s} {gait:12s} {name:9s} {size:.2f} {sum(results):3d}/{len(results):<3d} {'; '.join(causes)}"
            )
    sizes = "".join(f"{size:>10.2f}" for size in campaign.sizes)
    print(f"{'survived':22s}{sizes}")
    groups = [*campaign.gaits, *(f"to {k * 360 // N_DIRECTIONS}" for k in range(N_DIRECTIONS)), "all"]
    for plant, group in itertools.product(campaign.plants, groups):
        those = [sums[plant, group, size] for size in campaign.sizes]
        print(f"{plant:9s} {group:12s}" + "".join(f"{f'{sum(t)}/{len(t)}':>10s}" for t in those), flush=True)
    missed = []
    for (gait, size), bar in bars(campaign).items():
        for plant in campaign.plants:
            results = sums[plant, gait, size]
            if sum(results) < bar * len(results) or not results:
                missed.append(f"{plant} {gait} {size:g}: {sum(results)} of {len(results)}, bar {bar:.0%}")
    return missed


def main() -> int:
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
    if options.check and not bars(campaign):
        parser.error(f"--check: requirements exist only for {', '.join(f'{gait} {size:g}' for gait, size in BARS)}")
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        missed = cells(campaign, pool, options.store)
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
