"""Pinocchio against the in-house reference on every robot: the largest and the median relative error per robot.

    python benchmarks/agreement.py [--samples 100] [--derivatives 10] [--seed 0] [--json FILE] [NAME ...]

Judged: every URDF of example-robot-data and of robots/ that the guard accepts, or those whose file name contains one
of the NAMEs.  The exit code is 1 if one of them does not agree.  Then, over all robots and algorithms, the largest
error and the largest median, those that solve with M apart: they are held to 100 eps cond(M).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import quaddyn as qd
from quaddyn.agreement import Agreement, cross_check
from quaddyn.agreement.algorithms import ILL_CONDITIONED
from quaddyn.robot.catalogue import example_robots, own_robots

HEADER = f"{'robot':<34}{'root':<7}{'dof':>4}{'largest':>10}  {'algorithm':<24}{'solving':>9}{'cond(M)':>9}  MuJoCo"


def main() -> int:
    parser = argparse.ArgumentParser(description="Pinocchio against the in-house reference on every robot")
    parser.add_argument("names", nargs="*", help="parts of file names; by default all")
    parser.add_argument("--samples", type=int, default=100, help="states per robot")
    parser.add_argument("--derivatives", type=int, default=10, help="in how many of them derivatives are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    options = parser.parse_args()
    start, done, refused = time.perf_counter(), [], 0
    print(HEADER)
    for path in files(options.names):
        try:
            robot = qd.load(path, packages=[example_robots().parent.parent])
        except qd.ModelError as error:
            refused += 1
            print(f"{path.stem:<34}refused: {str(error)[:100]}")
            continue
        agreement = cross_check(
            robot, samples=options.samples, seed=options.seed, source=path, derivatives=options.derivatives
        )
        done.append(agreement)
        print(row(path.stem, robot.nv, agreement), flush=True)
        for deviation in agreement.deviations:
            print(f"    {deviation}")
    if options.json is not None:
        options.json.write_text(json.dumps([a.to_json() for a in done], indent=1), encoding="utf-8")
    if done:
        print(summary(done))
    failed = [a.robot for a in done if not a.passed]
    seconds = time.perf_counter() - start
    print(
        f"{len(done)} robots compared, {refused} refused by the guard, {len(failed)} disagree {failed}; {seconds:.0f} s"
    )
    return 1 if failed or not done else 0


def files(names: Sequence[str]) -> list[Path]:
    found = [*sorted(example_robots().rglob("*.urdf")), *sorted(own_robots().glob("*.urdf"))]
    return [p for p in found if not names or any(n in p.name for n in names)]


def row(name: str, nv: int, agreement: Agreement) -> str:
    errors, third = agreement.errors, agreement.third
    solving = max((error for n, error in errors.items() if n in ILL_CONDITIONED), default=float("nan"))
    plain = max((n for n in errors if n not in ILL_CONDITIONED), key=errors.__getitem__)
    opinion = third.verdict[:60] if third.error is None else f"{third.verdict} ({third.error:.0e})"
    return (
        f"{name:<34}{agreement.root:<7}{nv:>4}{errors[plain]:>10.1e}  {plain:<24}{solving:>9.1e}"
        f"{agreement.condition[1]:>9.0e}  {opinion}" + ("" if agreement.passed else "  DISAGREES")
    )


def summary(done: Sequence[Agreement]) -> str:
    lines = ["", f"{'algorithm':<24}{'largest error':>14}{'largest median':>16}{'error/tolerance':>17}"]
    for name in dict.fromkeys(n for a in done for n in a.errors):
        those = [a for a in done if name in a.errors]
        error, median = max(a.errors[name] for a in those), max(a.medians[name] for a in those)
        lines.append(f"{name:<24}{error:>14.1e}{median:>16.1e}{max(a.ratios[name] for a in those):>17.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
