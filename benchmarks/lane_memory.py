"""Prints the memory of batches on a GPU: whole-body control and the plant, by record and for all lanes.

    python benchmarks/lane_memory.py --robot go2 --threads 33792

A lane stores its state; the memory of a tick or step in progress is needed for each thread that runs at the same time,
which computes one lane after the other.  Arrays that share memory with an earlier one are not counted again.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.compiler.kinds import Kind, RecordKind
from quaddyn.compiler.lane_memory import LaneMemory
from quaddyn.compiler.signatures import signature_of
from quaddyn.simulation import batch_cuda
from quaddyn.simulation.lane_steps import step_lane
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
    title: str, values: dict[str, Any], kinds: dict[str, Kind], shared: list[np.ndarray], stored: float, threads: int
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    # An H200 has 132 multiprocessors, each with registers for 256 threads of 255 registers.
    parser.add_argument("--threads", type=int, default=132 * 256, help="threads that run at the same time")
    arguments = parser.parse_args()
    robot, threads = qd.load(arguments.robot), arguments.threads
    controller = qd.WholeBodyController(robot)
    batch = controller.batch(1)
    workspace = batch._workspaces[0]
    e = controller_cuda.with_shared_memory(workspace.controller, controller.solver.tables)
    values: dict[str, Any] = {"e": e, "friction": workspace.friction}
    shared = controller_cuda.shared_arrays(e, workspace.friction)
    stored = batch.bytes_per_lane + e.data.terms.values.nbytes
    kinds = dict(signature_of(compute_lane)[0])
    print_memory("tick of whole-body control", values, kinds, shared, stored, threads)
    plants = qd.Simulation(robot, spheres={}).batch(1)
    worker = plants._first_worker
    plant = worker.simulation._plant_data()._replace(motors=worker._motors, pushes=worker.simulation._no_pushes)
    plant = with_shared_memory(plant)
    kinds = dict(signature_of(step_lane)[0])
    values, kinds = {"plant": plant, "layout": worker._layout}, kinds | dict(kinds["lanes"].fields)
    shared = batch_cuda.shared_arrays(plant, worker._layout)
    print_memory("step of the plant", values, kinds, shared, plants.bytes_per_lane, threads)


if __name__ == "__main__":
    main()
