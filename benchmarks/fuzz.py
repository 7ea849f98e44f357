"""Tests `quaddyn.load` with mutated URDFs of real robots (fuzzing): crashes, unexpected errors, wrong acceptance.

    python benchmarks/fuzz.py --cases 40000 --seed 1 --keep failures/

Requirements: no mutant crashes or hangs the loader, raises an error other than `ModelError`, or is loaded although it
is physically impossible; at least 95 % of the mutants that an independent reader classifies as good are loaded.
Otherwise the exit code is 1.  The acceptance by kind of mutation is printed.
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

#: Number of loads whose CPU time is measured.
TIMED = 200


def main() -> int:
    """Runs the campaign and prints its results; returns 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=40_000, help="number of mutants (default 40000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the campaign (default 1)")
    loaders = ("quaddyn", "bodies", "pinocchio")
    parser.add_argument("--loader", choices=loaders, default="quaddyn", help="loader that is tested")
    parser.add_argument(
        "--mujoco", type=float, default=0.1, help="fraction of the files without faults that are also loaded by MuJoCo"
    )
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: run in this process")
    parser.add_argument("--store", help="file of results; an interrupted run continues from it")
    parser.add_argument("--json", type=Path, help="file to which results and failures are written")
    parser.add_argument("--keep", type=Path, help="folder in which failing mutants are saved")
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
    counts = fuzzing.OutcomeCounts()
    for outcome in outcomes(summary.results):
        if counts.add(outcome) and options.keep:
            save(outcome, options.keep)

    console.print(counts.table(), highlight=False, soft_wrap=True)
    figures = counts.figures()
    for name, value in figures.items():
        console.print(f"{name:32} {value:g}", highlight=False)
    load_times = measure_load_times([o.case.index for o in counts.outcomes if o.verdict == "loaded"][:TIMED], options)
    if load_times:
        console.print(
            f"{'CPU time of a load, median':32} {1e3 * statistics.median(load_times):.1f} ms", highlight=False
        )
    if options.json:
        failures = [describe(o) for o in counts.failures()]
        rejected = [describe(o) for o in counts.outcomes if o.oracle == "good" and o.verdict != "loaded"]
        report = {"seed": options.seed, "figures": figures, "failures": failures, "good but refused": rejected}
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if not counts.failures() and accepts_enough(counts, options.loader) else 1


def accepts_enough(counts: fuzzing.OutcomeCounts, loader: str) -> bool:
    """Returns whether enough good mutants were loaded.

    The independent reader does not support loops.  For the loader "bodies", all mutants that are equivalent to the
    original file must be loaded.
    """
    if loader != "bodies":
        return counts.share() >= 0.95
    verdicts = [o.verdict for o in counts.outcomes if o.case.kind.split(": ")[-1] in fuzz_bodies.SAME]
    return set(verdicts) <= {"loaded"}


def measure_load_times(indices: list[int], options: argparse.Namespace) -> list[float]:
    """Measures the CPU times of loading mutants [s], which are not in the records, since they depend on the machine."""
    with tempfile.TemporaryDirectory() as folder, fuzzing.Child(options.loader) as child:
        cases = (drawn(i, options.seed, options.loader) for i in indices)
        return [fuzzing.evaluate(case, child, Path(folder)).cpu for case in cases]


def save(outcome: fuzzing.Outcome, folder: Path) -> None:
    """Saves a failing mutant in a file that is named by its number and verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{outcome.case.index:06d}-{outcome.verdict}.urdf").write_bytes(outcome.case.data)


def describe(outcome: fuzzing.Outcome) -> dict[str, object]:
    """Returns a failure as a dictionary; the mutant can be generated again from its seed and index."""
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
