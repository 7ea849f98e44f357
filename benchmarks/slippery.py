"""Quadrupeds on ground that becomes slippery under them, unannounced: who stays up, who goes on, how violent it gets.

Cells of robot, plant, slip and what the controller goes by, some trials each (`quaddyn campaign slippery`): friction
falls to 0.2 for good, to 0.1 for one second, and to that of ice, 0.03.  Beside the successes: who stayed up, and the
most power that one motor put in over a control period afterwards, falls included, in m g sqrt(g l).  ``--check`` exits
with 1 where, over all robots and plants and with the friction estimated, fewer succeed than the bar of the slip, or
where a motor puts in more than `VIOLENT` (about what one does in the push of a jump).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.friction_drop import FRICTION_DROPS, FRICTION_OPTIONS, FrictionDropCampaign

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
VIOLENT = 4.0


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def cells(campaign: FrictionDropCampaign, pool: object, store: str | None) -> list[str]:
    """Every cell; what missed the bars."""
    found = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    missed = []
    for friction, slip in itertools.product(campaign.friction, campaign.slips):
        total = every = upright = 0
        most = 0.0
        for name, plant in itertools.product(campaign.robot, campaign.plants):
            good, up, causes, burst = 0, 0, [], 0.0
            for number in range(campaign.trials):
                case = campaign.case(name, slip, friction, plant, number)
                record = found[case]
                if isinstance(record, Failure):
                    causes.append(record.error.splitlines()[0])
                    continue
                good += bool(record["success"])
                up += record["fell"] is None
                burst = max(burst, float(record["peak_motor_power"] or 0.0))
                after = "" if record["fell"] is None else f"{record['fell'] - case.slip_time:.1f} s after: "
                causes += [] if record["success"] else [f"{after}{record['reason']}"]
            print(
                f"{friction:9s} {slip:6s} {name:9s} {plant:9s} success {good:3d}/{campaign.trials:<3d} "
                f"up {up:3d}/{campaign.trials:<3d} power {burst:5.2f}  {'; '.join(causes)}",
                flush=True,
            )
            total, every, upright, most = total + good, every + campaign.trials, upright + up, max(most, burst)
        print(f"{friction:9s} {slip:6s} all: success {total}/{every}, up {upright}/{every}, power {most:.2f}")
        if friction == "estimated":
            missed += [f"{slip} success"] if total < FRICTION_DROPS[slip].bar * every else []
            missed += [f"{slip} power"] if most > VIOLENT else []
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--slips", default=",".join(FRICTION_DROPS))
    parser.add_argument("--friction", default=",".join(FRICTION_OPTIONS), help="what the controller goes by")
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--noise", type=float, default=0.0, help="multiple of consumer sensors', 2 ms late")
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
        missed = cells(campaign, pool, options.store)
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
