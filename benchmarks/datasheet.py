"""Claims of a data sheet against fresh seeds: does what it promises hold in trials that it never saw?

    quaddyn datasheet go2 --store go2.db --out go2.html
    python benchmarks/datasheet.py go2.db                                    # all claims, 100 fresh seeds each
    python benchmarks/datasheet.py go2.db --bounds "push 90" friction --trials 1000 --check

The measurement is read from its store (what is missing there is measured first).  At the level of each claim so many
trials are run with another seed.  With --check the exit code is 1 if fewer succeed than the claim says.
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
from quaddyn.campaigns.sheet_text import unit_format_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="of a data sheet")
    parser.add_argument("--bounds", nargs="*", default=(), help="names such as 'push 90', friction, 'speed trot'; all")
    parser.add_argument("--trials", type=int, default=100, help="fresh ones at each claim")
    parser.add_argument("--seed", type=int, help="of the fresh trials; by default the sheet's and a million")
    parser.add_argument("--workers", type=int, help="processes; 0: this one; by default one for each core")
    parser.add_argument("--out", type=Path, help="store of the fresh trials; by default they are not kept")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a claim does not hold")
    options = parser.parse_args()
    with Store.read(options.store, DataSheet) as store:
        campaign = store.campaign
    seed = campaign.seed + 1_000_000 if options.seed is None else options.seed
    if seed == campaign.seed:
        parser.error("--seed: that of the sheet is not fresh")
    fresh = dataclasses.replace(campaign, seed=seed)
    missed, seconds = [], 0.0
    with nullcontext() if options.workers == 0 else process_pool(options.workers) as pool:
        sheet = measure(campaign, pool, str(options.store))
        print(f"{options.trials} trials of seed {seed} at each claim of {options.store}")
        for robot in sheet.robots:
            cells = {cell.name: cell for cell in fresh.cells(robot.facts.source)}
            for bound in robot.bounds:
                level, claimed = bound.threshold.level, bound.threshold.probability
                if level is None or (options.bounds and bound.name not in options.bounds):
                    continue
                cases = [cells[bound.name].trial(level, number) for number in range(options.trials)]
                rows = list(run(fresh, pool, options.out, cases=cases).rows)
                good = sum(not isinstance(row.result, Failure) and row.result["success"] is True for row in rows)
                seconds += sum(row.seconds for row in rows)
                low, high = interval(good, len(rows))
                holds = good >= claimed * len(rows)
                missed += [] if holds else [f"{robot.facts.title} {bound.name}"]
                at = unit_format_of(bound, robot.facts).format(bound.values[level])
                print(
                    f"{robot.facts.title:10s} {bound.name:12s} {at:34s} claimed {claimed:.0%}: {good} of {len(rows)} "
                    f"succeed ({low:.3f} to {high:.3f})" + ("" if holds else "  MISSED"),
                    flush=True,
                )
    print(f"{seconds:.0f} s of CPU time; " + (f"missed: {', '.join(missed)}" if missed else "every claim holds"))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
