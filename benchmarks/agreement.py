"""Compares Pinocchio with quaddyn's reference implementation on every robot; requires relative errors within tolerance.

    python benchmarks/agreement.py [--samples 100] [--derivatives 10] [--seed 0] [--jobs 1] [--json FILE] [NAME ...]

All URDFs of example-robot-data and of robots/ that pass validation are compared, or those whose file name contains one
of the NAMEs (`quaddyn campaign verification`).  The exit code is 1 if the implementations disagree on a robot.  A
second table lists the largest error and the largest median of each algorithm over all robots.  Algorithms that solve a
linear system with M have a separate column; their tolerance is 100 eps cond(M).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from quaddyn.campaigns import Failure, Record, process_pool, run
from quaddyn.campaigns.verification import VerificationCampaign
from quaddyn.verification.algorithms import ILL_CONDITIONED

#: Head of the first table.
HEADER = f"{'robot':<34}{'root':<7}{'dof':>4}{'largest':>10}  {'algorithm':<24}{'solving':>9}{'cond(M)':>9}  MuJoCo"


def main() -> int:
    parser = argparse.ArgumentParser(description="compares Pinocchio with quaddyn's reference implementation")
    parser.add_argument("names", nargs="*", help="parts of the file names of the compared robots (default: all robots)")
    parser.add_argument("--samples", type=int, default=100, help="states per robot")
    parser.add_argument(
        "--derivatives", type=int, default=10, help="number of these states in which derivatives are compared"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the states")
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: run in this process")
    parser.add_argument("--store", help="file of results; an interrupted run continues from it")
    parser.add_argument("--json", type=Path, help="file to which all results are written")
    options = parser.parse_args()
    campaign = VerificationCampaign(
        names=tuple(options.names),
        samples=options.samples,
        derivatives=options.derivatives,
        block=options.samples,
        seed=options.seed,
    )
    start, compared, failed, n_rejected = time.perf_counter(), [], [], 0
    print(HEADER)
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        for case, record in run(campaign, pool, options.store).results:
            name = Path(case.file).stem
            if isinstance(record, Failure):
                failed.append(name)
                print(f"{name:<34}{record.error}")
            elif record["refused"] is not None:
                n_rejected += 1
                print(f"{name:<34}rejected: {str(record['refused'])[:100]}")
            else:
                compared.append({"file": case.file, **record})
                failed += [] if record["success"] else [name]
                print(robot_line(name, record))
    if options.json is not None:
        options.json.write_text(json.dumps(compared, indent=1), encoding="utf-8")
    if compared:
        print(algorithm_table(compared))
    seconds = time.perf_counter() - start
    print(f"{len(compared)} robots compared, {n_rejected} rejected, {len(failed)} disagree {failed}; {seconds:.0f} s")
    return 1 if failed or not compared else 0


def values_by_algorithm(record: Record, kind: str) -> dict[str, float]:
    """Returns the values of a kind ("errors", "medians" or "ratios") by algorithm."""
    return {name.split(" ", 1)[1]: value for name, value in record.items() if name.startswith(f"{kind} ")}


def robot_line(name: str, record: Record) -> str:
    """Returns the line of a robot in the first table."""
    errors = values_by_algorithm(record, "errors")
    solving_error = max((error for n, error in errors.items() if n in ILL_CONDITIONED), default=float("nan"))
    worst_algorithm = max((n for n in errors if n not in ILL_CONDITIONED), key=errors.__getitem__)
    mujoco_result = str(record["third"])
    mujoco_result = (
        mujoco_result[:60] if record["third_error"] is None else f"{mujoco_result} ({record['third_error']:.0e})"
    )
    return (
        f"{name:<34}{record['root']:<7}{record['nv']:>4}{errors[worst_algorithm]:>10.1e}  {worst_algorithm:<24}"
        f"{solving_error:>9.1e}{record['condition']:>9.0e}  {mujoco_result}"
        + ("" if record["success"] else f"  DISAGREES: {record['reason']}")
    )


def algorithm_table(compared: Sequence[Record]) -> str:
    """Returns the second table: the largest values over all robots, by algorithm."""
    lines = ["", f"{'algorithm':<24}{'largest error':>14}{'largest median':>16}{'error/tolerance':>17}"]
    for name in dict.fromkeys(n for record in compared for n in values_by_algorithm(record, "errors")):
        largest_values = [max(values_by_algorithm(record, kind).get(name, 0.0) for record in compared)
                 for kind in ("errors", "medians", "ratios")]  # fmt: skip
        lines.append(f"{name:<24}{largest_values[0]:>14.1e}{largest_values[1]:>16.1e}{largest_values[2]:>17.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
