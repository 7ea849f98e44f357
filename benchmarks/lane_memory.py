"""Prints the memory of a lane in progress on a GPU by record: the tick of whole-body control and the step of the plant.

    python benchmarks/lane_memory.py --robot go2

Arrays that share memory with an earlier one are not counted again.
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


def table_of(title: str, values: dict[str, Any], kinds: dict[str, Kind], shared: list[np.ndarray]) -> Table:
    """Returns the bytes of the arrays of a lane, the largest first."""
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
    table = Table("record", "bytes", title=f"{title}: {total / 1024:.1f} kB a lane, {shared_size / 1024:.1f} kB shared")
    listed = [(name, size) for name, size in sizes.most_common(30) if size]
    for name, size in listed:
        table.add_row(name, str(size))
    table.add_row("others", str(total - sum(size for _, size in listed)))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="go2", help="name of the robot")
    robot, console = qd.load(parser.parse_args().robot), Console(width=100)
    controller = qd.WholeBodyController(robot)
    workspace = controller.batch(1)._workspaces[0]
    e = controller_cuda.with_shared_memory(workspace.controller, controller.solver.tables)
    values: dict[str, Any] = {"e": e, "friction": workspace.friction}
    shared = controller_cuda.shared_arrays(e, workspace.friction)
    console.print(table_of("tick of whole-body control", values, dict(signature_of(compute_lane)[0]), shared))
    worker = qd.Simulation(robot, spheres={}).batch(1)._first_worker
    plant = worker.simulation._plant_data()._replace(motors=worker._motors, pushes=worker.simulation._no_pushes)
    plant = with_shared_memory(plant)
    kinds = dict(signature_of(step_lane)[0])
    values, kinds = {"plant": plant, "layout": worker._layout}, kinds | dict(kinds["lanes"].fields)
    console.print(table_of("step of the plant", values, kinds, batch_cuda.shared_arrays(plant, worker._layout)))


if __name__ == "__main__":
    main()
