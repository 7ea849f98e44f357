"""Tests quadrupeds on slopes and the controller's prediction of the angles that they climb, descend and cross.

A cell is a combination of robot, plant, friction, angle and direction, each with ``--trials`` trials (`quaddyn campaign
slopes`).  Before each trial `LocomotionController.slope_limit_reason` predicts whether the slope is feasible.  There
are two kinds of wrong predictions: feasible, but the robot falls or misses the commanded speed, and infeasible, but the
robot walks the slope.  ``--check`` exits with 1 if a cell is predicted feasible and less than 95 % of its trials
succeed, or if less than 95 % of all predictions are right.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from contextlib import nullcontext

from quaddyn.campaigns import Failure, Progress, process_pool, run
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.walking_campaigns import SLOPE_DIRECTIONS, SlopeCampaign

ROBOTS = ("go2", "a1", "solo12", "anymal_b", "anymal_c", "hyq", "b1", "laikago")
MIN_SUCCESS = 0.95


def print_progress(progress: Progress) -> None:
    """Prints the number of finished cases."""
    print(f"\r{progress.done} of {progress.total}", end="", file=sys.stderr, flush=True)


def outcome(case: Trial, record: object) -> str:
    """Returns the reason of a failure, "" for a success."""
    if isinstance(record, Failure):
        return record.error.splitlines()[0]
    if record["success"]:  # type: ignore[index]
        return ""
    if record["fell"] is not None:  # type: ignore[index]
        return f"{record['fell']:.1f} s: {record['reason']}"  # type: ignore[index]
    x, y = record["vx"] / case.unit_speed, record["vy"] / case.unit_speed  # type: ignore[index]
    return f"{record['reason']} ({x:.2f}, {y:.2f})"  # type: ignore[index]


def run_cells(campaign: SlopeCampaign, pool: object, store: str | None) -> list[str]:
    """Runs all cells, prints their results, and returns the requirements that are not met."""
    records = {case: record for case, record in run(campaign, pool, store, progress=print_progress).results}
    print(file=sys.stderr)
    not_met, n_right, n_false_feasible, n_false_infeasible, flagged = [], 0, 0, 0, 0.0
    for name, plant, friction, direction, angle in itertools.product(
        campaign.robot, campaign.plants, campaign.friction, campaign.ways, campaign.angles
    ):
        n_success, causes, predictions = 0, [], []
        for number in range(campaign.trials):
            case = campaign.case(name, angle, direction, friction, plant, number)
            record = records[case]
            failure = outcome(case, record)
            n_success += not failure
            causes += [failure] if failure else []
            if isinstance(record, Failure):
                continue
            predictions.append(str(record["predicted_slope_limit"]))
            flagged = max(flagged, float(record["flagged"] or 0.0))
            n_right += (not failure) == (not predictions[-1])
            n_false_feasible += bool(failure) and not predictions[-1]
            n_false_infeasible += not failure and bool(predictions[-1])
        predicted_limits = sorted({each for each in predictions if each})
        print(
            f"{name:9s} {plant:9s} {friction:4.2f} {direction:7s} {angle:4.0f} deg {n_success:3d}/"
            f"{campaign.trials:<3d} predicted {', '.join(predicted_limits) or 'feasible':28s} {'; '.join(causes)}",
            flush=True,
        )
        is_violated = not predicted_limits and n_success < MIN_SUCCESS * campaign.trials
        not_met += [f"{name} {plant} {friction:g} {direction} {angle:g} deg"] if is_violated else []
    count = campaign.count()
    print(
        f"right predictions: {n_right} of {count}; wrong: feasible, but failed: {n_false_feasible}; infeasible, but "
        f"walked: {n_false_infeasible}"
    )
    print(f"ticks without a certificate: at most {flagged:.2%} of a trial")
    return not_met + (["predictions"] if n_right < MIN_SUCCESS * count else [])


def main() -> int:
    """Runs the campaign; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--angles", default="10,15,20,25", help="angles of the slopes [deg]")
    parser.add_argument(
        "--ways", default=",".join(SLOPE_DIRECTIONS), help="directions of the path (default: %(default)s)"
    )
    parser.add_argument("--friction", default="0.8", help="friction coefficients of the ground, separated by commas")
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
        not_met = run_cells(campaign, pool, options.store)
    if not_met:
        print("not met:", "; ".join(not_met))
    return 1 if not_met and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
