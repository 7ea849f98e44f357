"""Tests the claims of a data sheet with new seeds: each claimed success rate must hold in trials with another seed.

    quaddyn datasheet go2 --store go2.db --out go2.html
    python benchmarks/datasheet.py go2.db                                    # all claims, 100 new trials each
    python benchmarks/datasheet.py go2.db --bounds "push 90" friction --trials 1000 --check

The data sheet is read from its store; missing trials are run first.  For each claim, trials with another seed are run
at the claimed level.  With --check the exit code is 1 if fewer trials succeed than claimed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from contextlib import nullcontext
from pathlib import Path

from quaddyn.campaigns import Failure, Store, process_pool, run
from quaddyn.campaigns.binomial_bounds import interval
from quaddyn.campaigns.datasheet import DataSheet, measure
from quaddyn.campaigns.sheet_page import unit_format_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="store of the data sheet")
    parser.add_argument(
        "--bounds",
        nargs="*",
        default=(),
        help="names of claims, such as 'push 90', friction, 'speed trot'; default: all",
    )
    parser.add_argument("--trials", type=int, default=100, help="number of new trials for each claim")
    parser.add_argument(
        "--seed", type=int, help="seed of the new trials; default: the seed of the data sheet plus a million"
    )
    parser.add_argument(
        "--workers", type=int, help="number of worker processes; 0: run in this process; default: one per core"
    )
    parser.add_argument("--out", type=Path, help="store of the new trials; default: they are not stored")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a claim does not hold")
    options = parser.parse_args()
    with Store.read(options.store, DataSheet) as store:
        campaign = store.campaign
    seed = campaign.seed + 1_000_000 if options.seed is None else options.seed
    if seed == campaign.seed:
        parser.error("--seed: this is the seed of the data sheet; choose another one")
    new_campaign = dataclasses.replace(campaign, seed=seed)
    missed, seconds = [], 0.0
    with nullcontext() if options.workers == 0 else process_pool(options.workers) as pool:
        sheet = measure(campaign, pool, str(options.store))
        print(f"{options.trials} trials of seed {seed} at each claim of {options.store}")
        for robot in sheet.robots:
            cells = {cell.name: cell for cell in new_campaign.cells(robot.facts.source)}
            for bound in robot.bounds:
                level, claimed = bound.threshold.level, bound.threshold.probability
                if level is None or (options.bounds and bound.name not in options.bounds):
                    continue
                cases = [cells[bound.name].trial(level, number) for number in range(options.trials)]
                rows = list(run(new_campaign, pool, options.out, cases=cases).rows)
                n_success = sum(not isinstance(row.result, Failure) and row.result["success"] is True for row in rows)
                seconds += sum(row.seconds for row in rows)
                low, high = interval(n_success, len(rows))
                holds = n_success >= claimed * len(rows)
                missed += [] if holds else [f"{robot.facts.title} {bound.name}"]
                level_text = unit_format_of(bound, robot.facts).format(bound.values[level])
                print(
                    f"{robot.facts.title:10s} {bound.name:12s} {level_text:34s} claimed {claimed:.0%}: "
                    f"{n_success} of {len(rows)} succeed ({low:.3f} to {high:.3f})" + ("" if holds else "  MISSED"),
                    flush=True,
                )
    print(f"{seconds:.0f} s of CPU time; " + (f"missed: {', '.join(missed)}" if missed else "all claims hold"))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
