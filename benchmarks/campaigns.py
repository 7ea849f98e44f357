"""What driving a campaign costs, where one client becomes the limit, and that every executor gives the same store.

python benchmarks/campaigns.py                 # cost per case, bytes, memory, scaling; the table of limits
python benchmarks/campaigns.py --equal 200     # as many robustness cases on every executor, bit for bit; some minutes
python benchmarks/campaigns.py --equal 200 --seconds 0   # of full length: an hour
python benchmarks/campaigns.py --scaling 20    # two workers against one
python benchmarks/campaigns.py --kills 50 --cases 500    # workers killed one after the other: nothing lost or doubled
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from quaddyn import campaigns
from quaddyn.campaigns import Campaign, Failure, Progress, Record, Store, registry, run
from quaddyn.campaigns.plain_values import encode, encode_record
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.worker_processes import ProcessPool
from quaddyn.demo.report import cpu_name

SECONDS_OF_A_TROT = 8.0  # of one core, for 20 s of a trot in the embedded plant


@dataclass(frozen=True)
class Number:
    """A case as long as that of a robustness campaign."""

    number: int
    robot: str = "go2"
    plant: str = "embedded"
    gait: str = "trot"
    seed: int = 0
    push: tuple[float, ...] = (0.1234567890123, 30.1234567890123, 3.1234567890123)


@dataclass(frozen=True)
class Nothing(Campaign[Number]):
    """Cases that take no time: what is left is the engine's."""

    name: ClassVar[str] = "nothing"
    Case: ClassVar[type] = Number

    trials: int = 1000

    def cases(self) -> Iterator[Number]:
        """By number."""
        return map(Number, range(self.trials))

    def count(self) -> int:
        """As many as trials."""
        return self.trials

    def run(self, case: Number) -> Record:
        """A record as long as that of a robustness campaign."""
        x = case.number / 7.0
        return {"success": True, "reason": None, "seconds": x, "x": -x, "y": x / 3.0, "torque": x / 11.0, "work": x}


@dataclass(frozen=True)
class Busy(Nothing):
    """Cases of about 50 ms of one core."""

    name: ClassVar[str] = "busy"

    def run(self, case: Number) -> Record:
        """Products of matrices."""
        a = np.full((24, 24), 1.0 + 1e-9 * case.number)
        for _ in range(8000):
            a = np.tanh(a @ a * 1e-2)
        return {"sum": float(a.sum())}


@dataclass(frozen=True)
class Cost:
    """Of one case on an executor: wall clock [s], the client's processor time [s]."""

    name: str
    batch: int
    wall: float
    client: float


def cost(name: str, executor: Executor | None, batch: int, count: int, folder: Path) -> Cost:
    """The engine's cost per case: the best of three runs, the workers warm."""
    run(Nothing(200), executor, batch=batch)
    found = []
    for i in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        run(Nothing(count), executor, folder / f"{name}-{batch}-{i}.db", batch=batch)
        found.append(((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count))
    return Cost(name, batch, min(w for w, _ in found), min(c for _, c in found))


def bytes_per_record(folder: Path) -> float:
    """Of a store of cases and records of the usual length."""
    path = folder / "bytes.db"
    run(Nothing(20_000), store=path)
    return path.stat().st_size / 20_000


def resident() -> float:
    """Memory of this process now [MB]."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def memory(count: int, folder: Path) -> list[tuple[int, float]]:
    """(cases done, memory of the client [MB]) over a run."""
    marks: list[tuple[int, float]] = []

    def look(progress: Progress) -> None:
        if progress.done >= (len(marks) + 1) * count // 10:
            marks.append((progress.done, resident()))

    with ThreadPoolExecutor(2) as pool:
        run(Nothing(count), pool, folder / "memory.db", batch=100, progress=look)
    return marks


def processor_time(pids: Sequence[int]) -> float:
    """Of these processes and their threads, since they began [s]."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def scaling(rounds: int, cases: int) -> float:
    """Speed of two workers over that of one on the same work: the best time of each, alternated.

    On a machine with neighbours two workers do not get two cores.  What a case then takes of a processor, by one worker
    and by two, tells whether the engine stands in the way; it is printed.
    """
    with campaigns.process_pool(1) as one, campaigns.process_pool(2) as two:
        took: dict[ProcessPool, list[float]] = {one: [], two: []}
        spent: dict[ProcessPool, list[float]] = {one: [], two: []}
        for executor in took:
            run(Busy(4), executor)
        for _ in range(rounds):
            for executor in took:
                start, before = time.perf_counter(), processor_time(executor.pids())
                run(Busy(cases), executor)
                took[executor].append(time.perf_counter() - start)
                spent[executor].append((processor_time(executor.pids()) - before) / cases)
        each = ", ".join(f"{len(e.pids())} worker(s) {1e3 * min(times):.1f} ms" for e, times in spent.items())
        print(f"processor time of a case: {each}")
        ratios = sorted(a / b for a, b in zip(took[one], took[two], strict=True))
        print(f"wall time of one worker over that of two, by round: {', '.join(f'{x:.2f}' for x in ratios)}")
        return min(took[one]) / min(took[two])


def shortened(case: Trial, seconds: float) -> Trial:
    """A trial over so many seconds, its push within."""
    return replace(case, seconds=seconds, averaging_time=0.5 * seconds, push_time=min(case.push_time, 0.5 * seconds))


def equal(name: str, count: int, seconds: float) -> bool:
    """Whether every executor gives the same store for the first cases of a campaign, runs cut to `seconds` if not 0."""
    campaign = registry.find(name)(trials=count)
    cases = [case for case, _ in zip(campaign.cases(), range(count), strict=False)]
    if seconds:
        cases = [shortened(case, seconds) for case in cases]
    stores: dict[str, set[tuple[str, str]]] = {}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        executors: dict[str, Executor | None] = {
            "serial": None,
            "processes": stack.enter_context(campaigns.process_pool(2)),
            "threads": stack.enter_context(ThreadPoolExecutor(2)),
            "Dask": stack.enter_context(campaigns.dask_executor("local:2")),
        }
        for title, executor in executors.items():
            path, start = Path(folder) / f"{title}.db", time.perf_counter()
            run(campaign, executor, path, cases=cases)
            with Store.read(path, type(campaign)) as store:
                stores[title] = {
                    (encode(r.case), r.result.error if isinstance(r.result, Failure) else encode_record(r.result))
                    for r in store.rows()
                }
            print(f"{title:10} {len(stores[title])} records in {time.perf_counter() - start:.1f} s", flush=True)
    same = all(found == stores["serial"] and len(found) == len(cases) for found in stores.values())
    print(f"{len(cases)} cases of {name}: {'bit-equal stores' if same else 'STORES DIFFER'}")
    return same


def kills(count: int, cases: int) -> bool:
    """Whether every case is there once, with its record, after workers were killed one after the other."""
    campaign, killed = Busy(cases), 0
    every = max(cases // (count + 1), 1)
    with campaigns.process_pool(2) as executor, tempfile.TemporaryDirectory() as folder:

        def kill(progress: Progress) -> None:
            nonlocal killed
            if killed < count and progress.done >= every * (killed + 1):
                pids = executor.pids()
                if pids:
                    os.kill(pids[killed % len(pids)], signal.SIGKILL)
                    killed += 1

        summary = run(campaign, executor, Path(folder) / "kills.db", progress=kill)
        rows = list(summary.rows)
    poison = sum(isinstance(row.result, Failure) and row.result.killed_workers for row in rows)
    lost = cases - len({encode(row.case) for row in rows})
    same = all(not isinstance(r.result, Failure) and r.result == campaign.run(r.case) for r in rows)
    good = killed == count and not lost and len(rows) == cases and not poison and same
    print(
        f"{killed} of {count} workers killed over {cases} cases: {lost} lost, {len(rows) - cases + lost} doubled, "
        f"{poison} taken for poison, {'all' if same else 'NOT ALL'} records as without a kill"
    )
    return good


def limits(costs: Sequence[Cost], size: float) -> None:
    """Where the client becomes the limit, from what was measured here."""
    print(
        "\n| executor | cases per message | overhead per case [us] | client [us] | client's limit [cases/s] |", end=""
    )
    print(f" cores kept busy at {SECONDS_OF_A_TROT:g} s a case | at 50 ms a case |")
    print("|---|---|---|---|---|---|---|")
    for c in costs:
        rate = 1.0 / c.client
        print(
            f"| {c.name} | {c.batch} | {c.wall * 1e6:.0f} | {c.client * 1e6:.0f} | {rate:,.0f} |"
            f" {rate * SECONDS_OF_A_TROT:,.0f} | {rate * 0.05:,.0f} |"
        )
    print(f"\nA record takes {size:.0f} bytes on disk: {size * 1e6 / 1e6:.0f} MB a million.")
    print("Beyond the limit: send more cases per message (--batch), give each client a share of the cases by its seed")
    print("and a store of its own, and read the stores together.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, metavar="N", help="compare the stores of N robustness cases, and end")
    parser.add_argument("--campaign", default="robustness", help="for --equal")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each run for --equal; 0: as the campaign has it")
    parser.add_argument("--kills", type=int, metavar="N", help="kill N workers during --cases cases, and end")
    parser.add_argument("--cases", type=int, default=2000, help="for the cost per case, and for --kills")
    parser.add_argument("--scaling", type=int, metavar="N", help="rounds of one worker against two, and end")
    parser.add_argument("--million", type=int, default=1_000_000, help="cases over which memory is watched")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar is missed")
    given = parser.parse_args()
    if given.equal is not None:
        return 0 if equal(given.campaign, given.equal, given.seconds) else 1
    if given.kills is not None:
        return 0 if kills(given.kills, given.cases) else 1
    print(cpu_name())
    if given.scaling is not None:
        ratio = scaling(given.scaling, 40)
        print(f"two workers over one: {ratio:.2f}")
        return 0 if ratio >= 1.8 or not given.check else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        costs = []
        for title, make in (
            ("serial", None),
            ("processes", lambda: campaigns.process_pool(2)),
            ("Dask", lambda: campaigns.dask_executor("local:2")),
        ):
            with ExitStack() as stack:
                executor = stack.enter_context(make()) if make else None
                for batch in (1, 100) if make else (1,):
                    costs.append(cost(title, executor, batch, given.cases * (5 if batch > 1 else 1), folder))
                    print(f"measured: {title}, {batch} per message", file=sys.stderr, flush=True)
        limits(costs, bytes_per_record(folder))
        marks = memory(given.million, folder)
        print("\nclient's memory over", f"{given.million:,} cases [MB]:", ", ".join(f"{mb:.0f}" for _, mb in marks))
        grown = marks[-1][1] - marks[0][1]
    ratio = scaling(8, 40)
    print(f"two workers over one: {ratio:.2f}")
    bars = {"memory grows by less than 10 MB": grown < 10.0, "two workers >= 1.8 of one": ratio >= 1.8}
    for text, holds in bars.items():
        print(f"{text}: {'holds' if holds else 'MISSED'}")
    return 0 if all(bars.values()) or not given.check else 1


if __name__ == "__main__":
    sys.exit(main())
