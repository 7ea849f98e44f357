"""Pinocchio against the in-house reference on every robot: the largest and the median relative error per robot.

    python benchmarks/agreement.py [--samples 100] [--derivatives 10] [--seed 0] [--jobs 1] [--json FILE] [NAME ...]

Judged: every URDF of example-robot-data and of robots/ that the guard accepts, or those whose file name contains one
of the NAMEs (`quaddyn campaign agreement`).  The exit code is 1 if one of them does not agree.  Then, over all robots
and algorithms, the largest error and the largest median, those that solve with M apart: they are held to
100 eps cond(M).
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

HEADER = f"{'robot':<34}{'root':<7}{'dof':>4}{'largest':>10}  {'algorithm':<24}{'solving':>9}{'cond(M)':>9}  MuJoCo"


def main() -> int:
    parser = argparse.ArgumentParser(description="Pinocchio against the in-house reference on every robot")
    parser.add_argument("names", nargs="*", help="parts of file names; by default all")
    parser.add_argument("--samples", type=int, default=100, help="states per robot")
    parser.add_argument("--derivatives", type=int, default=10, help="in how many of them derivatives are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: this one")
    parser.add_argument("--store", help="file of results, gone on with if it is there")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    options = parser.parse_args()
    campaign = VerificationCampaign(
        names=tuple(options.names),
        samples=options.samples,
        n_derivative_samples=options.derivatives,
        block=options.samples,
        seed=options.seed,
    )
    start, done, failed, refused = time.perf_counter(), [], [], 0
    print(HEADER)
    with nullcontext() if options.jobs == 0 else process_pool(options.jobs) as pool:
        for case, record in run(campaign, pool, options.store).results:
            name = Path(case.file).stem
            if isinstance(record, Failure):
                failed.append(name)
                print(f"{name:<34}{record.error}")
            elif record["refused"] is not None:
                refused += 1
                print(f"{name:<34}refused: {str(record['refused'])[:100]}")
            else:
                done.append({"file": case.file, **record})
                failed += [] if record["success"] else [name]
                print(row(name, record))
    if options.json is not None:
        options.json.write_text(json.dumps(done, indent=1), encoding="utf-8")
    if done:
        print(summary(done))
    seconds = time.perf_counter() - start
    print(
        f"{len(done)} robots compared, {refused} refused by the guard, {len(failed)} disagree {failed}; {seconds:.0f} s"
    )
    return 1 if failed or not done else 0


def of(record: Record, kind: str) -> dict[str, float]:
    """Values of "errors", "medians" or "ratios" by algorithm."""
    return {name.split(" ", 1)[1]: value for name, value in record.items() if name.startswith(f"{kind} ")}


def row(name: str, record: Record) -> str:
    errors = of(record, "errors")
    solving = max((error for n, error in errors.items() if n in ILL_CONDITIONED), default=float("nan"))
    plain = max((n for n in errors if n not in ILL_CONDITIONED), key=errors.__getitem__)
    opinion = str(record["third"])
    opinion = opinion[:60] if record["third_error"] is None else f"{opinion} ({record['third_error']:.0e})"
    return (
        f"{name:<34}{record['root']:<7}{record['nv']:>4}{errors[plain]:>10.1e}  {plain:<24}{solving:>9.1e}"
        f"{record['condition']:>9.0e}  {opinion}" + ("" if record["success"] else f"  DISAGREES: {record['reason']}")
    )


def summary(done: Sequence[Record]) -> str:
    lines = ["", f"{'algorithm':<24}{'largest error':>14}{'largest median':>16}{'error/tolerance':>17}"]
    for name in dict.fromkeys(n for record in done for n in of(record, "errors")):
        worst = [max(of(record, kind)[name] for record in done if name in of(record, kind))
                 for kind in ("errors", "medians", "ratios")]  # fmt: skip
        lines.append(f"{name:<24}{worst[0]:>14.1e}{worst[1]:>16.1e}{worst[2]:>17.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
