"""Fuzz `quaddyn.load` with mutated real URDFs: 40,000 cases, a progress bar, the acceptance table, the failures kept.

    python benchmarks/fuzz.py --cases 40000 --seed 1 --keep failures/

Ends with exit code 0 only if nothing crashed, hung, raised a foreign error or was accepted though impossible, and
at least 95 % of the mutants that the independent reader calls good were loaded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import fuzz_bodies
import fuzzing
from fuzz_campaign import Fuzz, drawn, outcomes

from quaddyn.campaigns import process_pool, run

#: Loads whose CPU time is measured.
TIMED = 200


def main() -> int:
    """Run the campaign and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=40_000, help="number of mutants (default 40000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the campaign (default 1)")
    loaders = ("quaddyn", "bodies", "pinocchio")
    parser.add_argument("--loader", choices=loaders, default="quaddyn", help="what is tested")
    parser.add_argument("--mujoco", type=float, default=0.1, help="share of faultless files MuJoCo is asked about")
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    parser.add_argument("--store", help="file of results; an interrupted run continues from it")
    parser.add_argument("--json", type=Path, help="write figures and failures here")
    parser.add_argument("--keep", type=Path, help="save the failing mutants in this directory")
    options = parser.parse_args()

    console = Console()
    campaign = Fuzz(number=options.cases, seed=options.seed, loader=options.loader, mujoco=options.mujoco)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=console) as progress,
        nullcontext() if not options.jobs else process_pool(options.jobs) as pool,
    ):
        task = progress.add_task(f"fuzzing {options.loader}", total=options.cases)
        summary = run(
            campaign, pool, options.store, progress=lambda p: progress.update(task, completed=p.done), batch=20
        )
    tally = fuzzing.OutcomeCounts()
    for outcome in outcomes(summary.results):
        if tally.add(outcome) and options.keep:
            save(outcome, options.keep)

    console.print(tally.table(), highlight=False, soft_wrap=True)
    figures = tally.figures()
    for name, value in figures.items():
        console.print(f"{name:32} {value:g}", highlight=False)
    loads = cpu_times([o.case.index for o in tally.outcomes if o.verdict == "loaded"][:TIMED], options)
    if loads:
        console.print(f"{'CPU time of a load, median':32} {1e3 * statistics.median(loads):.1f} ms", highlight=False)
    if options.json:
        failures = [describe(o) for o in tally.failures()]
        refused = [describe(o) for o in tally.outcomes if o.oracle == "good" and o.verdict != "loaded"]
        report = {"seed": options.seed, "figures": figures, "failures": failures, "good but refused": refused}
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if not tally.failures() and loads_enough(tally, options.loader) else 1


def loads_enough(tally: fuzzing.OutcomeCounts, loader: str) -> bool:
    """Of those that an independent reader calls good; it knows nothing of loops: there, of those that are the same."""
    if loader != "bodies":
        return tally.share() >= 0.95
    same = [o.verdict for o in tally.outcomes if o.case.kind.split(": ")[-1] in fuzz_bodies.SAME]
    return set(same) <= {"loaded"}


def cpu_times(indices: list[int], options: argparse.Namespace) -> list[float]:
    """CPU time of loading some mutants [s]: no part of a record, which is the same on every machine."""
    with tempfile.TemporaryDirectory() as folder, fuzzing.Child(options.loader) as child:
        cases = (drawn(i, options.seed, options.loader) for i in indices)
        return [fuzzing.judge(case, child, Path(folder)).cpu for case in cases]


def save(outcome: fuzzing.Outcome, folder: Path) -> None:
    """Keep a failing mutant, under its number and verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{outcome.case.index:06d}-{outcome.verdict}.urdf").write_bytes(outcome.case.data)


def describe(outcome: fuzzing.Outcome) -> dict[str, object]:
    """A failure as plain data; its seed and index make the mutant again."""
    return {
        "index": outcome.case.index,
        "kind": outcome.case.kind,
        "base": outcome.case.base.name,
        "root": outcome.case.root,
        "via": outcome.case.via,
        "oracle": outcome.oracle,
        "reasons": outcome.reasons[:5],
        "verdict": outcome.verdict,
        "message": outcome.message[:500],
        "misfits": outcome.misfits[:5],
    }


if __name__ == "__main__":
    sys.exit(main())
