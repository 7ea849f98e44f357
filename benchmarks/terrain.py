"""Quadrupeds on slopes, in both plants: which angles they climb, descend and cross.

Cells of robot, angle and way, some trials each (`quaddyn campaign slopes`), beside what the controller says beforehand
(`LocomotionController.slope_limit`).  ``--check`` exits with 1 where less than 95 % of a cell's trials succeed.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections import defaultdict
from contextlib import nullcontext

from quaddyn.campaigns import Failure, run, workers
from quaddyn.campaigns.slopes import WAYS, Slopes
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.worker_memory import robot
from quaddyn.locomotion import LocomotionController

ROBOTS = ("go2", "solo12", "anymal_c")
BAR = 0.95


@functools.cache
def controller(name: str, gait: str) -> LocomotionController:
    """Asked about slopes, never run."""
    return LocomotionController(robot(name), gait=gait)


def beforehand(case: Trial, gait: str) -> str:
    """What the controller says of a slope before it is there."""
    return controller(case.robot, gait).slope_limit(
        case.slope, case.slope_direction, case.velocity, friction=case.friction
    )


def slopes(options: argparse.Namespace, pool: object) -> list[str]:
    """Every cell; which missed the bar."""
    campaign = Slopes(
        robot=tuple(options.robots.split(",")),
        angles=tuple(float(angle) for angle in options.angles.split(",")),
        ways=tuple(options.ways.split(",")),
        plants=tuple(options.plants.split(",")),
        trials=options.trials,
        gait=options.gait,
        friction=options.friction,
        seconds=options.seconds,
        seed=options.seed,
    )
    cells: dict[tuple[str, float, str, str], list[str]] = defaultdict(list)
    named = {round(way, 3): name for name, way in WAYS.items()}
    start, flagged, agreed = time.process_time(), 0.0, 0
    for case, record in run(campaign, pool, options.store).results:
        way = named[round(min(WAYS.values(), key=lambda w: abs(w - case.slope_direction)), 3)]
        said = record.error if isinstance(record, Failure) else record["reason"] or "ok"
        if not isinstance(record, Failure):
            flagged = max(flagged, record["flagged"])
            if record["fell"] is not None:
                said = f"{record['fell']:.1f} s: {said}"
            elif said != "ok":
                said += f" ({record['vx'] / case.unit_speed:.2f}, {record['vy'] / case.unit_speed:.2f})"
            if options.verbose:
                print(
                    case.robot, case.plant, round(math.degrees(case.slope)), way, case.number, said, record, flush=True
                )
        cells[case.robot, round(math.degrees(case.slope), 3), way, case.plant].append(said)
        agreed += (said == "ok") == (beforehand(case, options.gait) == "")
    missed = []
    for (name, angle, way, plant), said in sorted(cells.items()):
        good = said.count("ok")
        causes = "; ".join(each for each in said if each != "ok")
        print(f"{name:9s} {angle:4.0f} deg {way:7s} {plant:9s} {good:3d}/{len(said):<3d} {causes}", flush=True)
        missed += [f"{name} {angle:g} deg {way} {plant}"] if good < BAR * len(said) else []
    print(f"said beforehand rightly: {agreed} of {campaign.count()}")
    ran = campaign.count() * campaign.seconds
    print(
        f"{1e3 * (time.process_time() - start) / ran:.0f} ms of CPU for a second; flagged ticks at most {flagged:.2%}"
    )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--angles", default="10,15,20,25")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--plants", default="embedded,mujoco")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--gait", default="trot")
    parser.add_argument("--friction", type=float, default=0.8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for this one")
    parser.add_argument("--store", default=None, help="file of all runs, gone on with if it is there")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with nullcontext() if options.jobs == 0 else workers(options.jobs) as pool:
        missed = slopes(options, pool)
    if missed:
        print("missed:", ", ".join(missed))
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
