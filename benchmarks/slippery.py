"""Tests quadrupeds on ground whose friction drops suddenly: rates of success and of falls, and peak motor power.

A cell is a combination of robot, plant, friction drop and source of the controller's friction coefficient, each with
``--trials`` trials (`quaddyn campaign slippery`).  Friction drops to 0.2 permanently, to 0.1 for one second, or to that
of ice, 0.03.  Printed are the successes, the robots that did not fall, and the largest power of one motor over a
control period after the drop, falls included, in m g sqrt(g l).  ``--check`` exits with 1 if, over all robots and
plants and with estimated friction, the success rate is below that required for the drop, or if a motor power exceeds
`MAX_MOTOR_POWER` (about that of a jump).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.walking_campaigns import FRICTION_DROPS, FRICTION_OPTIONS, FrictionDropCampaign

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
MAX_MOTOR_POWER = 4.0


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def run_cells(campaign: FrictionDropCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results, and returns the requirements that are not met."""
    records = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    not_met = []
    for friction, slip in itertools.product(campaign.friction, campaign.slips):
        total = n_trials = upright = 0
        max_power = 0.0
        for name, plant in itertools.product(campaign.robot, campaign.plants):
            n_success, n_upright, causes, peak_power = 0, 0, [], 0.0
            for number in range(campaign.trials):
                case = campaign.case(name, slip, friction, plant, number)
                record = records[case]
                if isinstance(record, Failure):
                    causes.append(record.error.splitlines()[0])
                    continue
                n_success += bool(record["success"])
                n_upright += record["fell"] is None
                peak_power = max(peak_power, float(record["peak_motor_power"] or 0.0))
                after = "" if record["fell"] is None else f"{record['fell'] - case.slip_time:.1f} s after: "
                causes += [] if record["success"] else [f"{after}{record['reason']}"]
            print(
                f"{friction:9s} {slip:6s} {name:9s} {plant:9s} success {n_success:3d}/{campaign.trials:<3d} "
                f"upright {n_upright:3d}/{campaign.trials:<3d} power {peak_power:5.2f}  {'; '.join(causes)}",
                flush=True,
            )
            total, n_trials, upright = total + n_success, n_trials + campaign.trials, upright + n_upright
            max_power = max(max_power, peak_power)
        print(
            f"{friction:9s} {slip:6s} all: success {total}/{n_trials}, upright {upright}/{n_trials}, "
            f"power {max_power:.2f}"
        )
        if friction == "estimated":
            not_met += [f"{slip} success"] if total < FRICTION_DROPS[slip].bar * n_trials else []
            not_met += [f"{slip} power"] if max_power > MAX_MOTOR_POWER else []
    return not_met


def main() -> int:
    """Runs the campaign; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--slips", default=",".join(FRICTION_DROPS), help="friction drops (default: %(default)s)")
    parser.add_argument(
        "--friction", default=",".join(FRICTION_OPTIONS), help="sources of the controller's friction coefficient"
    )
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument(
        "--noise", type=float, default=0.0, help="sensor noise in multiples of consumer sensors, delayed by 2 ms"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    campaign = FrictionDropCampaign(
        robot=tuple(options.robots.split(",")),
        slips=tuple(options.slips.split(",")),
        friction=tuple(options.friction.split(",")),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        noise_scale=options.noise,
        seed=options.seed,
    )
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        not_met = run_cells(campaign, pool, options.store)
    if not_met:
        print("not met:", "; ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
