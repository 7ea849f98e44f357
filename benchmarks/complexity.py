"""Measures how operations and computing times of dynamics algorithms grow with the number of links.

    python benchmarks/complexity.py              # print the table
    python benchmarks/complexity.py --out docs   # and draw docs/complexity.png

The algorithms are those of quaddyn's reference implementation, with chains of 2 to 1,000 links, and of Pinocchio, with
chains of up to 200 links, since the size of Pinocchio's data grows with the cube of the number of links.  The models
are built directly, without a file.  A power of the number of links is fitted over all chains of at least --fit links
and printed beside the exponent according to theory; the times of shorter chains consist mainly of the overhead of a
call.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from boundary import cpu
from counting import count_operations
from integrators import Array
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from quaddyn.reference.algorithms import aba, crba, forward_dynamics, rnea
from quaddyn.reference.kinematics import place_bodies
from quaddyn.reference.model import Model, build_model
from quaddyn.reference.reader import Description, JointDescription, LinkDescription

#: Length [m], mass [kg] and radius [m] of a link, as in source D.
LENGTH, MASS, RADIUS = 0.1, 1.0, 0.005
#: Numbers of links, and the largest number for Pinocchio.
SIZES = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
PINOCCHIO_LIMIT = 200

#: Function of a model and (q, v, x), where x are accelerations or torques.
Algorithm = Callable[[Model, Array, Array, Array], Any]

#: Algorithms of the reference implementation.
REFERENCE: dict[str, Algorithm] = {
    "RNEA": lambda model, q, v, x: rnea(place_bodies(model, q), v, x),
    "ABA": lambda model, q, v, x: aba(place_bodies(model, q), v, x),
    "Lie group": lambda model, q, v, x: forward_dynamics(model, q, v, x),
    "CRBA": lambda model, q, v, x: crba(place_bodies(model, q)),
}

#: Exponent of the growth according to theory, or its upper bound.
THEORY = {"RNEA": "1", "ABA": "1", "Lie group": "1", "CRBA": "<= 2", "dense M^-1": "3"}


def dense_inverse(M: Array) -> Array:
    """Computes the inverse (n, n) of a positive definite matrix by Gauss-Jordan elimination without pivoting.

    All 4 n^3 operations are counted.  LAPACK's inverse, whose time is measured, skips zeros and takes half as many.

    Source: Golub, Van Loan, *Matrix Computations*, 2013, sections 3.2 and 4.2.
    """
    A = np.hstack([M, np.eye(len(M))])
    for k in range(len(M)):
        row = A[k] / A[k, k]
        A = A - A[:, k : k + 1] * row
        A[k] = row
    return np.asarray(A[:, len(M) :])


def link_inertia() -> Array:
    """Returns the inertia (3, 3) of a thin cylinder along y about its center [kg m^2]."""
    across, along = MASS * (LENGTH**2 / 12.0 + RADIUS**2 / 4.0), 0.5 * MASS * RADIUS**2
    return np.diag([across, along, across])


def reference_chain(n: int) -> Model:
    """Builds source D's chain of n rods with perpendicular neighboring axes for the reference implementation."""
    center, link_transform = np.array([0.0, LENGTH / 2.0, 0.0]), np.eye(4)
    link_transform[1, 3] = LENGTH
    links = [LinkDescription("base", 0.0, np.zeros(3), np.zeros((3, 3)), True)]
    joints = []
    for i in range(n):
        placement, axis = (link_transform if i else np.eye(4)), np.eye(3)[2 * (i % 2)]
        joints.append(
            JointDescription(
                f"joint{i}", "revolute", links[-1].name, f"link{i}", placement, axis, -np.pi, np.pi, 0.0, 0.0
            )
        )
        links.append(LinkDescription(f"link{i}", MASS, center, link_inertia(), False))
    return build_model(Description(f"chain of {n}", tuple(links), tuple(joints)), "fixed")


def pinocchio_chain(n: int) -> pin.Model:
    """Builds the same chain for Pinocchio."""
    model = pin.Model()
    inertia = pin.Inertia(MASS, np.array([0.0, LENGTH / 2.0, 0.0]), link_inertia())
    for i in range(n):
        joint = (pin.JointModelRX, pin.JointModelRZ)[i % 2]()
        placement = pin.SE3(np.eye(3), np.array([0.0, LENGTH if i else 0.0, 0.0]))
        model.appendBodyToJoint(model.addJoint(i, joint, placement, f"joint{i}"), inertia, pin.SE3.Identity())
    return model


def random_state(n: int) -> tuple[Array, Array, Array]:
    """Returns random (q, v, x) with entries between -1 and 1, which are the same in every run."""
    q, v, x = np.random.default_rng(n).uniform(-1.0, 1.0, (3, n))
    return q, v, x


def fit_exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Returns the fitted slope of log(cost) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


@dataclass(frozen=True, eq=False)
class Curve:
    """Cost of an algorithm over the number of links; `unit` is "operations" or "s"."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    costs: tuple[float, ...]

    def exponent(self, smallest: int) -> float:
        """Returns the fitted exponent of the growth over chains of at least `smallest` links."""
        pairs = [(n, c) for n, c in zip(self.sizes, self.costs, strict=True) if n >= smallest]
        return fit_exponent(*zip(*pairs, strict=True))


def count_costs(name: str, sizes: Sequence[int], advance: Callable[[], None] = lambda: None) -> Curve:
    """Counts the operations of an algorithm of `REFERENCE` or of "dense M^-1"; calls `advance` after each size."""
    costs = []
    for n in sizes:
        model, (q, v, x) = reference_chain(n), random_state(n)
        if name in REFERENCE:
            costs.append(count_operations(REFERENCE[name], model, q, v, x))
        else:
            costs.append(count_operations(dense_inverse, crba(place_bodies(model, q))))
        advance()
    return Curve(name, "operations", tuple(sizes), tuple(costs))


def measure_time(call: Callable[[], object], budget: float = 0.2) -> float:
    """Measures the median time of a call [s] over as many calls as fit into `budget` [s], at least three."""
    call()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 1000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def time_reference(sizes: Sequence[int], advance: Callable[[], None]) -> list[Curve]:
    """Measures the times of `REFERENCE` and of LAPACK's inverse of M."""
    costs: dict[str, list[float]] = {name: [] for name in THEORY}
    for n in sizes:
        model, (q, v, x) = reference_chain(n), random_state(n)
        for name, algorithm in REFERENCE.items():
            costs[name].append(measure_time(lambda f=algorithm, m=model, a=(q, v, x): f(m, *a)))  # type: ignore[misc]
        M = crba(place_bodies(model, q))
        costs["dense M^-1"].append(measure_time(lambda M=M: np.linalg.inv(M)))  # type: ignore[misc]
        advance()
    return [Curve(name, "s", tuple(sizes), tuple(c)) for name, c in costs.items()]


def time_pinocchio(sizes: Sequence[int], advance: Callable[[], None]) -> list[Curve]:
    """Measures the times of Pinocchio's RNEA, ABA and CRBA."""
    costs: dict[str, list[float]] = {"RNEA": [], "ABA": [], "CRBA": []}
    for n in sizes:
        model, (q, v, x) = pinocchio_chain(n), random_state(n)
        data = model.createData()
        calls: dict[str, Callable[[], object]] = {
            "RNEA": lambda m=model, d=data, a=(q, v, x): pin.rnea(m, d, *a),  # type: ignore[misc]
            "ABA": lambda m=model, d=data, a=(q, v, x): pin.aba(m, d, *a),  # type: ignore[misc]
            "CRBA": lambda m=model, d=data, q=q: pin.crba(m, d, q),  # type: ignore[misc]
        }
        for name, call in calls.items():
            costs[name].append(measure_time(call))
        advance()
    return [Curve(name, "s", tuple(sizes), tuple(c)) for name, c in costs.items()]


#: Curves by title of their table and plot.
Panels = dict[str, list[Curve]]


def print_tables(panels: Panels, fit: int, console: Console) -> None:
    """Prints a table for each panel."""
    for title, curves in panels.items():
        table = Table(title=title)
        table.add_column("algorithm")
        for n in curves[0].sizes:
            table.add_column(f"{n}", justify="right")
        table.add_column(f"exponent\nfor {fit} or more", justify="right")
        table.add_column("theory", justify="right")
        for curve in curves:
            cells = [f"{c:.2e}" for c in curve.costs]
            cells += [""] * (len(curves[0].sizes) - len(cells))
            table.add_row(curve.name, *cells, f"{curve.exponent(fit):.2f}", THEORY[curve.name])
        console.print(table)


def draw(panels: Panels, fit: int, path: Path) -> None:
    """Draws the panels side by side as a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 4.2), layout="tight")
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for curve in curves:
            label = f"{curve.name}: n^{curve.exponent(fit):.2f}"
            color = f"C{list(THEORY).index(curve.name)}"
            axis.loglog(curve.sizes, curve.costs, "o-", color=color, markersize=3, linewidth=1.0, label=label)
        axis.set(title=title, xlabel="links n", ylabel={"s": "time [s]"}.get(curves[0].unit, curves[0].unit))
        axis.grid(color="0.9")
        axis.legend(fontsize=8)
    axes[-1].annotate(cpu(), (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize=7, color="0.4")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="number of links of the longest chain")
    parser.add_argument("--fit", type=int, default=50, help="number of links of the shortest chain of the fit")
    parser.add_argument("--out", type=Path, help="folder for complexity.png")
    options = parser.parse_args()

    sizes = [n for n in SIZES if n <= options.largest]
    short = [n for n in sizes if n <= PINOCCHIO_LIMIT]
    if sum(n >= options.fit for n in short) < 2:
        parser.error(f"--largest {options.largest} leaves fewer than two chains of at least {options.fit} links")
    console = Console()
    with Progress(console=console, transient=True) as progress:

        def add_progress(title: str, total: int) -> Callable[[], None]:
            task = progress.add_task(title, total=total)
            return lambda: progress.advance(task)

        advance = add_progress("operations of the reference", len(REFERENCE) * len(sizes) + len(short))
        counts = [count_costs(name, sizes, advance) for name in REFERENCE] + [count_costs("dense M^-1", short, advance)]
        panels = {
            "operations of the reference": counts,
            "times of the reference": time_reference(sizes, add_progress("times of the reference", len(sizes))),
            "times of Pinocchio": time_pinocchio(short, add_progress("times of Pinocchio", len(short))),
        }
    print_tables(panels, options.fit, console)
    console.print(f"{cpu()}, Python {platform.python_version()}, pin {pin.__version__}, numpy {np.__version__}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(panels, options.fit, options.out / "complexity.png")
        console.print(f"wrote {options.out / 'complexity.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
