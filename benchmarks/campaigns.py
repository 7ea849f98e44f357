"""Measures the overhead of campaigns per case and the throughput limit of a client; compares results of executors.

    python benchmarks/campaigns.py                 # overhead per case, bytes, memory, scaling, and throughput limits
    python benchmarks/campaigns.py --equal 200     # compares stores of 200 robustness cases on every executor; minutes
    python benchmarks/campaigns.py --equal 200 --seconds 0   # with trials of full length: an hour
    python benchmarks/campaigns.py --scaling 20    # speed of two workers relative to one
    python benchmarks/campaigns.py --lanes 16      # speed of trials in one batch relative to single ones
    python benchmarks/campaigns.py --kills 50 --cases 500    # kills workers: no case may be lost or run twice

Requirements: the memory of the client grows by less than 10 MB over a million cases, two workers have at least 1.8
times the speed of one, and all executors write bitwise equal stores.
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
from quaddyn.campaigns import Campaign, Failure, Progress, Record, Store, run
from quaddyn.campaigns.campaign import encode, encode_record, find
from quaddyn.campaigns.executors import ProcessPool
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.walking_campaigns import VelocityLimitCampaign
from quaddyn.operating_system import cpu_name

TROT_CPU_TIME = 8.0  # CPU time of simulating 20 s of a trot with the embedded plant [s]


@dataclass(frozen=True)
class NumberedCase:
    """Numbered case with as many bytes as one of a robustness campaign."""

    number: int
    robot: str = "go2"
    plant: str = "embedded"
    gait: str = "trot"
    seed: int = 0
    push: tuple[float, ...] = (0.1234567890123, 30.1234567890123, 3.1234567890123)


@dataclass(frozen=True)
class EmptyCampaign(Campaign[NumberedCase]):
    """Campaign whose cases take no time, to measure the overhead."""

    name: ClassVar[str] = "nothing"
    Case: ClassVar[type] = NumberedCase

    trials: int = 1000

    def cases(self) -> Iterator[NumberedCase]:
        """Returns the cases, numbered from 0."""
        return map(NumberedCase, range(self.trials))

    def count(self) -> int:
        """Returns the number of cases."""
        return self.trials

    def run(self, case: NumberedCase) -> Record:
        """Returns a record with as many bytes as one of a robustness campaign."""
        x = case.number / 7.0
        return {"success": True, "reason": None, "seconds": x, "x": -x, "y": x / 3.0, "torque": x / 11.0, "work": x}


@dataclass(frozen=True)
class BusyCampaign(EmptyCampaign):
    """Campaign whose cases take about 50 ms of CPU time."""

    name: ClassVar[str] = "busy"

    def run(self, case: NumberedCase) -> Record:
        """Multiplies matrices."""
        a = np.full((24, 24), 1.0 + 1e-9 * case.number)
        for _ in range(8000):
            a = np.tanh(a @ a * 1e-2)
        return {"sum": float(a.sum())}


@dataclass(frozen=True)
class Overhead:
    """Overhead of one case on an executor: wall-clock time [s] and CPU time of the client [s]."""

    name: str
    batch: int
    wall: float
    client: float


def measure_overhead(name: str, executor: Executor | None, batch: int, count: int, folder: Path) -> Overhead:
    """Measures the overhead per case, the minimum of three runs after a warm-up."""
    run(EmptyCampaign(200), executor, batch=batch)
    times = []
    for i in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        run(EmptyCampaign(count), executor, folder / f"{name}-{batch}-{i}.db", batch=batch)
        times.append(((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count))
    return Overhead(name, batch, min(w for w, _ in times), min(client for _, client in times))


def measure_record_size(folder: Path) -> float:
    """Measures the size of a record of typical length in a store [bytes]."""
    path = folder / "bytes.db"
    run(EmptyCampaign(20_000), store=path)
    return path.stat().st_size / 20_000


def resident_memory() -> float:
    """Returns the resident memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def measure_memory(count: int, folder: Path) -> list[tuple[int, float]]:
    """Runs a campaign and returns pairs of finished cases and memory of the client [MB]."""
    marks: list[tuple[int, float]] = []

    def record_memory(progress: Progress) -> None:
        if progress.done >= (len(marks) + 1) * count // 10:
            marks.append((progress.done, resident_memory()))

    with ThreadPoolExecutor(2) as pool:
        run(EmptyCampaign(count), pool, folder / "memory.db", batch=100, progress=record_memory)
    return marks


def cpu_time(pids: Sequence[int]) -> float:
    """Returns the CPU time of processes and their threads since their start [s]."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_scaling(rounds: int, cases: int) -> float:
    """Measures the speed of two workers relative to one, from the minimum wall-clock times of alternating rounds.

    On a machine with other load, two workers do not get two cores.  The CPU time of a case with one worker and with two
    workers is therefore printed, too: if it is equal, the campaign engine does not limit the speed.
    """
    with campaigns.process_pool(1) as one, campaigns.process_pool(2) as two:
        wall_times: dict[ProcessPool, list[float]] = {one: [], two: []}
        cpu_times: dict[ProcessPool, list[float]] = {one: [], two: []}
        for executor in wall_times:
            run(BusyCampaign(4), executor)
        for _ in range(rounds):
            for executor in wall_times:
                start, before = time.perf_counter(), cpu_time(executor.pids())
                run(BusyCampaign(cases), executor)
                wall_times[executor].append(time.perf_counter() - start)
                cpu_times[executor].append((cpu_time(executor.pids()) - before) / cases)
        times_by_pool = ", ".join(
            f"{len(e.pids())} worker(s) {1e3 * min(times):.1f} ms" for e, times in cpu_times.items()
        )
        print(f"CPU time of a case: {times_by_pool}")
        ratios = sorted(a / b for a, b in zip(wall_times[one], wall_times[two], strict=True))
        print(f"wall-clock time of one worker relative to two, by round: {', '.join(f'{x:.2f}' for x in ratios)}")
        return min(wall_times[one]) / min(wall_times[two])


def shorten_trial(case: Trial, seconds: float) -> Trial:
    """Returns a copy of a trial that is shortened to a duration [s], with its push in the first half."""
    return replace(case, seconds=seconds, averaging_time=0.5 * seconds, push_time=min(case.push_time, 0.5 * seconds))


def compare_executors(name: str, count: int, seconds: float) -> bool:
    """Returns whether all executors write equal stores for the first cases of a campaign.

    Args:
        name: name of the campaign.
        count: number of cases.
        seconds: duration to which trials are shortened [s]; 0: full duration.
    """
    campaign = find(name)(trials=count)
    cases = [case for case, _ in zip(campaign.cases(), range(count), strict=False)]
    if seconds:
        cases = [shorten_trial(case, seconds) for case in cases]
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
    equal = all(rows == stores["serial"] and len(rows) == len(cases) for rows in stores.values())
    print(f"{len(cases)} cases of {name}: {'bitwise equal stores' if equal else 'STORES DIFFER'}")
    return equal


def kill_workers(count: int, cases: int) -> bool:
    """Kills workers one after the other during a campaign; returns whether each case has exactly one correct record."""
    campaign, killed = BusyCampaign(cases), 0
    interval = max(cases // (count + 1), 1)
    with campaigns.process_pool(2) as executor, tempfile.TemporaryDirectory() as folder:

        def kill(progress: Progress) -> None:
            nonlocal killed
            if killed < count and progress.done >= interval * (killed + 1):
                pids = executor.pids()
                if pids:
                    os.kill(pids[killed % len(pids)], signal.SIGKILL)
                    killed += 1

        summary = run(campaign, executor, Path(folder) / "kills.db", progress=kill)
        rows = list(summary.rows)
    n_crash_reports = sum(isinstance(row.result, Failure) and row.result.killed_workers for row in rows)
    lost = cases - len({encode(row.case) for row in rows})
    equal = all(not isinstance(r.result, Failure) and r.result == campaign.run(r.case) for r in rows)
    passed = killed == count and not lost and len(rows) == cases and not n_crash_reports and equal
    print(
        f"{killed} of {count} workers killed over {cases} cases: {lost} lost, {len(rows) - cases + lost} duplicated, "
        f"{n_crash_reports} reported as crashes, {'all' if equal else 'NOT ALL'} records equal those without kills"
    )
    return passed


def print_throughput_limits(overheads: Sequence[Overhead], size: float) -> None:
    """Prints the rates of cases at which the client becomes the bottleneck."""
    print("\n| executor | cases per message | overhead per case [us] | client [us] | client limit [cases/s] |", end="")
    print(f" max. cores at {TROT_CPU_TIME:g} s per case | at 50 ms per case |")
    print("|---|---|---|---|---|---|---|")
    for overhead in overheads:
        rate = 1.0 / overhead.client
        print(
            f"| {overhead.name} | {overhead.batch} | {overhead.wall * 1e6:.0f} | {overhead.client * 1e6:.0f} |"
            f" {rate:,.0f} | {rate * TROT_CPU_TIME:,.0f} | {rate * 0.05:,.0f} |"
        )
    print(f"\nA record takes {size:.0f} bytes on disk: {size * 1e6 / 1e6:.0f} MB per million.")
    print("Beyond the client limit: send more cases per message (--batch), or run several clients with different seeds")
    print("and stores, and read the stores together.")


def compare_lanes(n: int) -> bool:
    """Prints the processor times of trotting Go2 in one batch and one by one; returns whether the records are equal."""
    campaign = VelocityLimitCampaign(trials=n, gaits=("trot",), seconds=6.0)
    cases, ratios, are_equal = list(campaign.cases()), [], True
    campaign.run_batch(cases[:2]), campaign.run(cases[0])
    for _ in range(3):
        start = time.process_time()
        together = campaign.run_batch(cases)
        middle = time.process_time()
        alone = [campaign.run(case) for case in cases]
        ratios.append((time.process_time() - middle) / (middle - start))
        are_equal = are_equal and list(map(encode_record, together)) == list(map(encode_record, alone))
    print(
        f"{n} trials of {sum(case.seconds for case in cases):g} s in all: one by one {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the processor time of one batch; records {'equal' if are_equal else 'NOT EQUAL'}"
    )
    return are_equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, metavar="N", help="only compare the stores of N robustness cases")
    parser.add_argument("--campaign", default="robustness", help="name of the campaign for --equal")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="duration of each trial for --equal [s]; 0: full duration"
    )
    parser.add_argument("--kills", type=int, metavar="N", help="only kill N workers during --cases cases")
    parser.add_argument("--cases", type=int, default=2000, help="number of cases for the overhead and --kills")
    parser.add_argument("--scaling", type=int, metavar="N", help="only compare one worker with two in N rounds")
    parser.add_argument("--million", type=int, default=1_000_000, help="number of cases for the measurement of memory")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--lanes", type=int, metavar="N", help="only compare N trials in one batch with single ones")
    options = parser.parse_args()
    if options.lanes is not None:
        return 0 if compare_lanes(options.lanes) or not options.check else 1
    if options.equal is not None:
        return 0 if compare_executors(options.campaign, options.equal, options.seconds) else 1
    if options.kills is not None:
        return 0 if kill_workers(options.kills, options.cases) else 1
    print(cpu_name())
    if options.scaling is not None:
        ratio = measure_scaling(options.scaling, 40)
        print(f"speed of two workers relative to one: {ratio:.2f}")
        return 0 if ratio >= 1.8 or not options.check else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        overheads = []
        for title, make_executor in (
            ("serial", None),
            ("processes", lambda: campaigns.process_pool(2)),
            ("Dask", lambda: campaigns.dask_executor("local:2")),
        ):
            with ExitStack() as stack:
                executor = stack.enter_context(make_executor()) if make_executor else None
                for batch in (1, 100) if make_executor else (1,):
                    overheads.append(
                        measure_overhead(title, executor, batch, options.cases * (5 if batch > 1 else 1), folder)
                    )
                    print(f"measured: {title}, {batch} per message", file=sys.stderr, flush=True)
        print_throughput_limits(overheads, measure_record_size(folder))
        marks = measure_memory(options.million, folder)
        print(
            "\nmemory of the client over",
            f"{options.million:,} cases [MB]:",
            ", ".join(f"{megabytes:.0f}" for _, megabytes in marks),
        )
        growth = marks[-1][1] - marks[0][1]
    ratio = measure_scaling(8, 40)
    print(f"speed of two workers relative to one: {ratio:.2f}")
    requirements = {
        "memory grows by less than 10 MB": growth < 10.0,
        "two workers have at least 1.8 times the speed of one": ratio >= 1.8,
    }
    for text, met in requirements.items():
        print(f"{text}: {'met' if met else 'MISSED'}")
    return 0 if all(requirements.values()) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
