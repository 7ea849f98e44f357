"""Counts the operations of generated kernels and compares them with published counts and with other formulations.

    python benchmarks/kernel_operations.py            # print the tables
    python benchmarks/kernel_operations.py --check    # exit code 1 if an operation count exceeds its limit

All operations are counted by the same counter (`Program.operations`).  Requirement: inverse dynamics takes at most the
multiplications and additions of `ROBOTS`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lagrange import count_operations as lagrange_counts
from lagrange import count_unsimplified
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from random_trees import arm

import quaddyn as qd
from quaddyn.identification import base_parameters
from quaddyn.kernels.graph import OperationCounts, Program
from quaddyn.kernels.operations import KernelOptions, trace_operation

#: By robot: maximum number of multiplications and additions of inverse dynamics (None: no requirement), and the counts
#: that other programs publish or print for the same robot, or a remark.
ROBOTS = {
    "rx90": ((213, 209), "SYMORO+ 253/238; SymPyBotics 655/460"),
    "puma": ((228, 219), "a 6R arm with full inertias"),
    "ur5": ((143, 127), "SymPyBotics 681/488"),
    "go2": ((653, 653), "naive trace 1054/871"),
    "solo12": ((546, 514), ""),
    "anymal_b": ((640, 638), ""),
    "anymal_c": (None, ""),
    "hyq": (None, ""),
    "panda": (None, ""),
    "stanford": (None, "a sliding joint"),
    "scara": (None, "axes parallel to the first, a sliding joint"),
}
#: Other operations whose counts are printed.
OTHER_OPERATIONS = ("nle", "gravity", "crba", "aba", "base_regressor", "rnea_derivatives")


def load_robot(name: str) -> qd.Robot:
    """Loads a robot of the catalogue or a textbook arm."""
    return arm(name) if name in ("puma", "stanford", "scara") else qd.load(name)


def print_inverse_dynamics(console: Console) -> bool:
    """Prints the operation counts of inverse dynamics; returns whether all limits are kept."""
    table = Table(title="Inverse dynamics: operations of the emitted code")
    for column in (
        "robot",
        "dof",
        "mul",
        "add",
        "div",
        "neg",
        "sincos",
        "instructions",
        "fused",
        "limit",
        "published, remarks",
    ):
        table.add_column(column, justify="left" if column in ("robot", "published, remarks") else "right")
    all_met = True
    for name, (limit, published) in ROBOTS.items():
        robot = load_robot(name)
        counts = trace_operation("rnea", robot, KernelOptions()).operations
        met = limit is None or (counts.mul <= limit[0] and counts.add <= limit[1])
        all_met &= met
        limit_text = "" if limit is None else f"{limit[0]}/{limit[1]} {'met' if met else 'MISSED'}"
        cells = (
            robot.nv,
            counts.mul,
            counts.add,
            counts.div,
            counts.neg,
            counts.sincos,
            counts.instructions,
            counts.fused,
        )
        table.add_row(name, *map(str, cells), limit_text, published)
    console.print(table)
    return all_met


def print_other_operations(console: Console) -> None:
    """Prints the operation counts of `OTHER_OPERATIONS`."""
    table = Table(title="Other operations: mul/add/div")
    for column in ("robot", *OTHER_OPERATIONS):
        table.add_column(column, justify="left" if column == "robot" else "right")
    for name in ("ur5", "go2"):
        rows = [
            trace_operation(operation, load_robot(name), KernelOptions()).operations for operation in OTHER_OPERATIONS
        ]
        table.add_row(
            name, *(f"{counts.mul}/{counts.add}" + (f"/{counts.div}" if counts.div else "") for counts in rows)
        )
    console.print(table)


def print_formulations(console: Console, name: str = "rx90") -> None:
    """Prints the operation counts of Lagrange's equations, regressors and recursions, and those of source C."""
    robot = load_robot(name)
    table = Table(
        title=f"Formulations of the inverse dynamics of a 6R arm ({name}): mul/add by the same counter, and in source C"
    )
    for column in ("formulation", "counted", "source C"):
        table.add_column(column, justify="left" if column == "formulation" else "right")

    def add_row(formulation: str, counts: OperationCounts | tuple[int, int], source_c: str = "") -> None:
        mul, add = counts if isinstance(counts, tuple) else (counts.mul, counts.add)
        table.add_row(formulation, f"{mul:,}/{add:,}", source_c)

    add_row("Lagrange in 4x4 matrices, without simplification", count_unsimplified(robot.nv), "66,271/51,548")
    add_row("the same, zeros folded, common subexpressions shared", lagrange_counts(robot))
    add_row(
        "standard regressor times 13 parameters per link",
        count_regressor_product(trace_operation("regressor", robot, KernelOptions())),
    )
    add_row(
        "base regressor times base parameters",
        count_regressor_product(trace_operation("base_regressor", robot, KernelOptions())),
        "551/312",
    )
    runtime_counts = trace_operation("rnea", robot, KernelOptions(runtime=True)).operations
    add_row("recursion, base parameters as inputs", runtime_counts, "(form of the line above)")
    add_row("recursion, numbers folded", trace_operation("rnea", robot, KernelOptions()).operations)
    console.print(table)
    rank = base_parameters(robot, inertial=True).size
    console.print(
        f"The columns are not for the same robot: source C does not publish its robot; this one has {rank} base "
        "parameters, full inertias and the offsets of its file.  The Lagrange line of source C is the count of "
        "Hollerbach (1980) for the formula of Uicker and Kahn with six joints; the count here is for the same "
        "formula with products of poses shared between its sums.\n"
    )


def count_regressor_product(program: Program) -> tuple[int, int]:
    """Counts the multiplications and additions of a regressor and of its product with the parameters."""
    counts, (rows, columns) = program.operations, program.outputs[0][1]
    mul, add = counts.mul, counts.add
    for i in range(rows):
        values = [x.number for x in program.results[i * columns : (i + 1) * columns]]
        mul += sum(1 for x in values if x is None or abs(x) not in (0.0, 1.0))
        add += max(0, sum(1 for x in values if x != 0.0) - 1)
    return mul, add


def print_tables(console: Console) -> bool:
    """Prints all tables; returns whether all limits are kept."""
    all_met = print_inverse_dynamics(console)
    print_other_operations(console)
    print_formulations(console)
    return all_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    all_met = print_tables(Console(width=160))
    return int(options.check and not all_met)


if __name__ == "__main__":
    sys.exit(main())
