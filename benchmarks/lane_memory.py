"""Prints the memory of batches on a GPU: whole-body control and the plant, by record and for all lanes.

    python benchmarks/lane_memory.py --robot go2 --threads 33792
    python benchmarks/lane_memory.py --trace                      # which entries ticks use, and when

A lane stores its state; the memory of a tick or step in progress is needed for each thread that runs at the same time,
which computes one lane after the other.  Arrays that share memory with an earlier one are not counted again.

With `--trace`, three ticks of whole-body control run as Python: the first of a lane, the second, with other velocities,
and one that is infeasible.  An entry is *live* from the access that writes it to the last one that reads it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.compiler import interpret, language
from quaddyn.compiler.kinds import Kind, RecordKind
from quaddyn.compiler.lane_memory import LaneMemory
from quaddyn.compiler.signatures import signature_of
from quaddyn.simulation import batch_cuda
from quaddyn.simulation.lanes import step_lane
from quaddyn.simulation.plant_data import with_shared_memory
from quaddyn.wbc import controller_cuda
from quaddyn.wbc.controller_lanes import compute_lane


def named_arrays(name: str, value: Any, kind: Kind) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the arrays of a value and their names."""
    if isinstance(kind, RecordKind):
        for x, (field, inner) in zip(value, kind.fields, strict=True):
            yield from named_arrays(f"{name}.{field}", x, inner)
    elif isinstance(value, np.ndarray) and value.size:
        yield name, value


#: Numbers of lanes whose memory is printed.
LANES = (1 << 12, 1 << 14, 1 << 16, 1 << 20)


def print_memory(
    title: str, values: dict[str, Any], kinds: dict[str, Kind], *, shared: list[np.ndarray], stored: float, threads: int
) -> None:
    """Prints the memory of a lane, of a thread, and of all lanes, and the bytes of the arrays of a thread.

    Args:
        title: what the threads compute.
        values: the arguments that each thread has for itself, by name.
        kinds: their kinds.
        shared: arrays that all threads share.
        stored: memory that a lane has for itself [bytes].
        threads: largest number of threads that run at the same time.
    """
    sizes, shared_size, ends = Counter[str](), 0, 0
    constant = {x.__array_interface__["data"][0] for x in shared}
    arrays = [pair for name, value in values.items() for pair in named_arrays(name, value, kinds[name])]
    arrays.sort(key=lambda pair: pair[1].__array_interface__["data"][0])
    for name, x in arrays:
        start = x.__array_interface__["data"][0]
        new = max(0, start + x.nbytes - max(start, ends)) // x.itemsize
        ends = max(ends, start + x.nbytes)
        if start in constant:
            shared_size += x.itemsize * new
        else:
            sizes[name] += x.itemsize * new
    total = LaneMemory(list(values.values()), [kinds[name] for name in values], 1, shared).bytes_per_lane
    lane, thread, common = (f"{size / 1024:.1f} kB" for size in (stored, total, shared_size))
    print(f"{title}: {lane} for each lane, {thread} for each thread, {common} shared")
    sums = (f"{(n * stored + min(n, threads) * total) / n / 1024:.0f} kB with {n:,}" for n in LANES)
    print(f"all memory over the number of lanes, with up to {threads:,} threads: {', '.join(sums)} lanes")
    table = Table("record of a thread", "bytes")
    listed = [(name, size) for name, size in sizes.most_common(30) if size]
    for name, size in listed:
        table.add_row(name, str(size))
    table.add_row("others", str(total - sum(size for _, size in listed)))
    Console(width=100).print(table)


class Trace:
    """Accesses to words of memory, and the periods in which their contents are live.

    Attributes:
        time: number of accesses.
        used: records and words of them that were read or written.
        periods: for each period in which a word is live: record, numbers of the first and last access.
    """

    def __init__(self) -> None:
        self.time, self.used, self.periods = 0, set[tuple[str, int]](), list[tuple[str, int, int]]()
        self._written, self._read = dict[int, tuple[str, int]](), dict[int, tuple[str, int]]()

    def read(self, name: str, x: np.ndarray) -> None:
        """Stores that the entries of an array are read."""
        self.time += 1
        for word in words_of(x):
            self.used.add((name, word))
            self._read[word] = name, self.time

    def write(self, name: str, x: np.ndarray) -> None:
        """Stores that the entries of an array are written."""
        self.time += 1
        for word in words_of(x):
            self.used.add((name, word))
            self._end_period(word)
            self._written[word] = name, self.time

    def finish(self) -> None:
        """Ends the periods of all words."""
        for word in {*self._written, *self._read}:
            self._end_period(word)

    def _end_period(self, word: int) -> None:
        name, end = self._read.get(word, ("", -1))
        _, start = self._written.get(word, ("", 0))
        if end > start:
            self.periods.append((name, start, end))


def words_of(x: np.ndarray) -> Iterable[int]:
    """Returns the numbers of the 8-byte words of memory that contain the entries of an array."""
    start = x.__array_interface__["data"][0]
    if x.flags.c_contiguous:
        return range(start >> 3, start + x.nbytes + 7 >> 3)
    return {start + int(np.dot(index, x.strides)) >> 3 for index in np.ndindex(x.shape)}


class TracedArray(np.ndarray):
    """Array of a record, or view of one, whose accesses `trace` stores."""

    trace, name = Trace(), ""

    def __array_finalize__(self, base: Any) -> None:
        self.name = getattr(base, "name", "")

    def read(self, x: np.ndarray) -> None:
        """Stores that a part of this array is read."""
        self.trace.read(self.name, x)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if not isinstance(found, np.ndarray):
            self.read(plain_view(self, key))
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, TracedArray):
            value.read(value.view(np.ndarray))
        self.trace.write(self.name, plain_view(self, key))
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[Any]:
        self.read(self.view(np.ndarray))
        return iter(self.view(np.ndarray))

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for x in inputs:
            if isinstance(x, TracedArray):
                x.read(x.view(np.ndarray))
        return getattr(function, method)(*(np.asarray(x) for x in inputs), **options)


def plain_view(x: np.ndarray, key: Any) -> np.ndarray:
    """Returns the view of the entries that a key selects."""
    return x.view(np.ndarray)[(*key, ...) if isinstance(key, tuple) else (key, ...)]


def traced(name: str, value: Any, shared: set[int]) -> Any:
    """Returns a record whose arrays are traced, except those that all threads share."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", range(len(value)))
        parts = [traced(f"{name}.{field}", x, shared) for field, x in zip(fields, value, strict=True)]
        return type(value)(*parts)
    if isinstance(value, np.ndarray) and value.size and value.__array_interface__["data"][0] not in shared:
        value = value.view(TracedArray)
        value.name = name
    return value


def load8(array: np.ndarray, *index: int) -> Any:
    """Reads as `language.load8`, which copies from a view."""
    if isinstance(array, TracedArray):
        array.read(language._lane_view(array.view(np.ndarray), index))
    return language.load8(array.view(np.ndarray), *index)


def trace_ticks(controller: qd.WholeBodyController) -> None:
    """Prints which entries of the memory of a thread three ticks use, and when."""
    robot, rng, batch = controller.robot, np.random.default_rng(0), controller.batch(2, threads=1)
    friction = batch._workspaces[0].friction
    e = controller_cuda.with_shared_memory(batch._workspaces[0].controller, controller.solver.tables)
    shared = {x.__array_interface__["data"][0] for x in controller_cuda.shared_arrays(e, friction)}
    for module in [m for m in sys.modules.values() if vars(m).get("load8") is language.load8 and m is not language]:
        module.load8 = load8
    q, v = np.tile(robot.q_home, (2, 1)), rng.normal(0.0, 0.1, (2, robot.nv))
    requested = np.ones((1, len(batch.contacts)), np.int8)
    hard = np.array([2.0, 1.0, 0.0, 1.0, 2.0, 1.0, *rng.normal(0.0, 6.0, robot.nv - 6)])
    for title, lane, velocity in (
        ("first tick", 0, v[0]),
        ("second tick", 0, v[0] + rng.normal(0.0, 0.3, robot.nv)),
        ("infeasible tick", 1, hard),
    ):
        v[lane], trace = velocity, Trace()
        TracedArray.trace = trace
        with interpret():
            compute_lane(lane, traced("e", e, shared), batch._lanes, friction, q, v, requested, batch._terms.address)
        trace.finish()
        print_trace(f"{title}: outcome {int(batch._lanes.outcome[lane])}", trace)


def print_trace(title: str, trace: Trace) -> None:
    """Prints the records that a tick uses."""
    changes = np.zeros(trace.time + 2, dtype=int)
    for _, start, end in trace.periods:
        changes[start] += 1
        changes[end] -= 1
    live, words = np.cumsum(changes), len({word for _, word in trace.used})
    used, at_peak, periods = Counter(name for name, _ in trace.used), Counter[str](), defaultdict(list)
    for name, start, end in trace.periods:
        at_peak[name] += start <= live.argmax() < end
        periods[name] += [start, end]
    print(f"{title}, {words / 128:.1f} kB used, at most {live.max() / 128:.1f} kB live at the same time")
    table = Table("record", "bytes used", "live at the maximum", "live [% of the tick]")
    for name, count in used.most_common(40):
        start, end = (100 * x / trace.time for x in (min(periods[name], default=0), max(periods[name], default=0)))
        table.add_row(name, str(8 * count), str(8 * at_peak[name]), f"{start:.0f} - {end:.0f}" if end else "-")
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    # An H200 has 132 multiprocessors, each with registers for 256 threads of 255 registers.
    parser.add_argument("--threads", type=int, default=132 * 256, help="threads that run at the same time")
    parser.add_argument("--trace", action="store_true", help="which entries ticks of whole-body control use")
    arguments = parser.parse_args()
    robot, threads = qd.load(arguments.robot), arguments.threads
    controller = qd.WholeBodyController(robot)
    if arguments.trace:
        trace_ticks(controller)
        return
    batch = controller.batch(1)
    workspace = batch._workspaces[0]
    e = controller_cuda.with_shared_memory(workspace.controller, controller.solver.tables)
    values: dict[str, Any] = {"e": e, "friction": workspace.friction}
    shared = controller_cuda.shared_arrays(e, workspace.friction)
    stored = batch.bytes_per_lane + e.data.terms.values.nbytes
    kinds = dict(signature_of(compute_lane)[0])
    print_memory("tick of whole-body control", values, kinds, shared=shared, stored=stored, threads=threads)
    plants = qd.Simulation(robot, spheres={}).batch(1)
    worker = plants._first_worker
    plant = worker.simulation._plant_data()._replace(motors=worker._motors, pushes=worker.simulation._no_pushes)
    plant = with_shared_memory(plant)
    kinds = dict(signature_of(step_lane)[0])
    values, kinds = {"plant": plant, "layout": worker._layout}, kinds | dict(kinds["lanes"].fields)
    shared = batch_cuda.shared_arrays(plant, worker._layout)
    print_memory("step of the plant", values, kinds, shared=shared, stored=plants.bytes_per_lane, threads=threads)


if __name__ == "__main__":
    main()
