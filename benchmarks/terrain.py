"""Quadrupeds on slopes, in both plants: which angles they climb, descend and cross, and what they say beforehand.

Cells of robot, plant, friction, angle and way, some trials each (`quaddyn campaign slopes`), beside what
`LocomotionController.slope_limit` says of each trial before it begins.  There are two ways to be wrong: to say nothing,
and fall or miss the commanded speed ("said go"), and to name a limit of a slope that the robot then walks
("said no").  ``--check`` exits with 1 where nothing is said against a cell and less than 95 % of its trials succeed, or
if fewer than 95 % of all trials go as was said.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.slopes import SLOPE_DIRECTIONS, SlopeCampaign
from quaddyn.campaigns.trial import Trial

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
BAR = 0.95


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def outcome(case: Trial, record: object) -> str:
    """In words; "" of a success."""
    if isinstance(record, Failure):
        return record.error.splitlines()[0]
    if record["success"]:  # type: ignore[index]
        return ""
    if record["fell"] is not None:  # type: ignore[index]
        return f"{record['fell']:.1f} s: {record['reason']}"  # type: ignore[index]
    x, y = record["vx"] / case.unit_speed, record["vy"] / case.unit_speed  # type: ignore[index]
    return f"{record['reason']} ({x:.2f}, {y:.2f})"  # type: ignore[index]


def slopes(campaign: SlopeCampaign, pool: object, store: str | None) -> list[str]:
    """Every cell; what missed the bars."""
    found = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    missed, right, over, under, flagged = [], 0, 0, 0, 0.0
    for name, plant, friction, way, angle in itertools.product(
        campaign.robot, campaign.plants, campaign.friction, campaign.ways, campaign.angles
    ):
        good, causes, said = 0, [], []
        for number in range(campaign.trials):
            case = campaign.case(name, angle, way, friction, plant, number)
            record = found[case]
            why = outcome(case, record)
            good += not why
            causes += [why] if why else []
            if isinstance(record, Failure):
                continue
            said.append(str(record["predicted_slope_limit"]))
            flagged = max(flagged, float(record["flagged"] or 0.0))
            right += (not why) == (not said[-1])
            over += bool(why) and not said[-1]
            under += not why and bool(said[-1])
        against = sorted({each for each in said if each})
        print(
            f"{name:9s} {plant:9s} {friction:4.2f} {way:7s} {angle:4.0f} deg {good:3d}/{campaign.trials:<3d} "
            f"said {', '.join(against) or 'go':28s} {'; '.join(causes)}",
            flush=True,
        )
        bad = not against and good < BAR * campaign.trials
        missed += [f"{name} {plant} {friction:g} {way} {angle:g} deg"] if bad else []
    count = campaign.count()
    print(f"went as was said: {right} of {count}; said go and failed: {over}; said no and went: {under}")
    print(f"ticks without a certificate: at most {flagged:.2%} of a trial")
    return missed + (["what was said"] if right < BAR * count else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--angles", default="10,15,20,25")
    parser.add_argument("--ways", default=",".join(SLOPE_DIRECTIONS))
    parser.add_argument("--friction", default="0.8", help="of the ground; several between commas")
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--gait", default="trot")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", default=None, help="file of results; an interrupted run continues from it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    campaign = SlopeCampaign(
        robot=tuple(options.robots.split(",")),
        angles=tuple(float(angle) for angle in options.angles.split(",")),
        ways=tuple(options.ways.split(",")),
        friction=tuple(float(friction) for friction in options.friction.split(",")),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        gait=options.gait,
        seconds=options.seconds,
        seed=options.seed,
    )
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        missed = slopes(campaign, pool, options.store)
    if missed:
        print("missed:", "; ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
