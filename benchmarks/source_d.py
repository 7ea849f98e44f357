"""Reproduces the experiments of source D: falling chains of 4 and 10 links, 2,000 steps of 0.5 ms.

The semi-implicit Euler integrator is combined with the forward dynamics of Pinocchio, of the reference
(articulated-body algorithm, and source D's Lie-group recursion) and of MuJoCo; the differences are those of the
implementations.  A high-order adaptive integrator measures the integration error, and the energy drift of three
integrators is compared.  For the bent chain of ten links, the most chaotic one, two tolerances show that the exact
motion itself is accurate to 1e-10 m for half a second, and to 3 mm after one second.

    python benchmarks/source_d.py              # print the tables
    python benchmarks/source_d.py --out docs   # also plot docs/chain_4.png and docs/chain_10.png
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from falls import (
    DT,
    STEPS,
    Divergence,
    Fall,
    distance,
    divergence,
    fall_4_as_coded,
    fall_4_rods,
    fall_10,
    fall_10_bent,
)
from integrators import Array, Motion
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

BASELINE = "Pinocchio, ABA"
SAMPLE_INTERVAL = 10  # steps between samples of the exact motion
SOURCE_TOLERANCE = 1e-3  # tolerance stated by the source [m]
SEEDS = range(5)
COLORS = {"MuJoCo, Euler": "#e08214", "reference, ABA": "#2166ac", "reference, Lie group": "#7fbf7b"}


@dataclass(frozen=True, eq=False)
class Result:
    """Results of one fall.

    Attributes:
        fall: the fall.
        t: (k,) times [s].
        paths: by implementation, (k, 3) center of mass of the last link with semi-implicit Euler [m].
        exact: (j, 3) its exact path, every `SAMPLE_INTERVAL` steps [m].
        energies: by integrator, (k,) energy [J].
        divergences: by seed, divergence of two runs with nearly equal initial states.
    """

    fall: Fall
    t: Array
    paths: dict[str, Array]
    exact: Array
    energies: dict[str, Array]
    divergences: tuple[Divergence, ...]

    def differences(self) -> dict[str, Array]:
        """Returns by implementation the (k,) distance from Pinocchio's path [m]."""
        return {name: distance(path, self.paths[BASELINE]) for name, path in self.paths.items() if name != BASELINE}

    def error(self) -> Array:
        """Returns the (j,) distance of the integrator's path from the exact one [m]."""
        return distance(self.paths[BASELINE][::SAMPLE_INTERVAL], self.exact)


def run_fall(fall: Fall, progress: Progress, *, with_divergence: bool) -> Result:
    """Simulates one fall with all implementations and integrators."""
    task = progress.add_task(fall.name, total=7 + (len(SEEDS) if with_divergence else 0))

    def count_done(motion: Motion) -> Motion:
        progress.advance(task)
        return motion

    motions = {name: count_done(fall.euler(name)) for name in fall.accelerations}
    paths = {name: fall.last_com(motion) for name, motion in motions.items()}
    paths["MuJoCo, Euler"] = fall.mujoco()[1]
    progress.advance(task)
    exact = fall.last_com(count_done(fall.exact(motions[BASELINE].t[::SAMPLE_INTERVAL])))
    energies = {
        "semi-implicit Euler": fall.energy(motions[BASELINE]),
        "Runge-Kutta 4": fall.energy(count_done(fall.rk4())),
        "variational midpoint": fall.energy(count_done(fall.variational())),
    }
    divergences = []
    for seed in SEEDS if with_divergence else ():
        divergences.append(divergence(fall, np.random.default_rng(seed)))
        progress.advance(task)
    return Result(fall, motions[BASELINE].t, paths, exact, energies, tuple(divergences))


def print_tables(results: list[Result], console: Console) -> None:
    """Prints agreement, energy drift and divergence rates."""
    half = STEPS // 2
    agreement = Table(
        title=escape(
            f"Center of mass of the last link, largest distance from Pinocchio [m]; dt = {DT} s, {STEPS} steps"
        )
    )
    energy = Table(title=escape("Energy drift: largest |E - E(0)|, and E - E(0) at the end [J]"))
    agreement.add_column("fall")
    energy.add_column("fall")
    for column in (*COLORS, "integration error"):
        agreement.add_column(f"{column}\nto {half * DT:g} s / to {STEPS * DT:g} s", justify="right")
    for column in results[0].energies:
        energy.add_column(column, justify="right")
    for r in results:
        cells = [
            f"{d[: half + 1].max():.1e} / {d.max():.1e}" for d in map(r.differences().get, COLORS) if d is not None
        ]
        error = r.error()
        agreement.add_row(r.fall.name, *cells, f"{error[: half // SAMPLE_INTERVAL + 1].max():.1e} / {error.max():.1e}")
        drifts = [e - e[0] for e in r.energies.values()]
        energy.add_row(r.fall.name, *(f"{np.abs(d).max():.1e}, {d[-1]:+.1e}" for d in drifts))
    console.print(agreement, energy)
    for r in results:
        if r.divergences:
            rates = [d.rate for d in r.divergences]
            d = r.divergences[0]
            console.print(
                f"{r.fall.name}: two runs that start 1e-12 rad apart diverge with the rate {np.median(rates):.1f} 1/s "
                f"({min(rates):.1f} to {max(rates):.1f} over {len(rates)} directions; Runge-Kutta, "
                f"fitted from {d.window[0]:.2f} s to {d.window[1]:.2f} s, "
                f"standard deviation of the log {d.scatter:.2f})"
            )


def draw_figure(results: list[Result], path: Path) -> None:
    """Plots Y of the last center of mass and the differences, as in the source, then energy errors or divergences."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, len(results), figsize=(5.0 * len(results), 8.0), squeeze=False, layout="tight")
    for column, r in zip(axes.T, results, strict=True):
        _draw_paths(column[0], column[1], r)
        if r.divergences:
            _draw_divergence(column[2], r)
        else:
            for name, e in r.energies.items():
                column[2].semilogy(r.t, np.abs(e - e[0]) + 1e-17, label=name, linewidth=1.0)
            column[2].set(xlabel="time [s]", ylabel="|E - E(0)| [J]")
        column[0].set_title(r.fall.name, fontsize=10)
        for axis in column:
            axis.grid(color="0.9")
            axis.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def _draw_paths(path_axis: Any, distance_axis: Any, r: Result) -> None:
    marker_interval = len(r.t) // 25
    path_axis.plot(r.t, r.paths[BASELINE][:, 1], color="0.2", label=BASELINE)
    for (name, color), mark in zip(COLORS.items(), "o+x", strict=True):
        path_axis.plot(
            r.t[::marker_interval],
            r.paths[name][::marker_interval, 1],
            mark,
            color=color,
            markersize=4,
            label=name,
            fillstyle="none",
        )
        distance_axis.semilogy(
            r.t, r.differences()[name] + 1e-18, color=color, linewidth=1.0, label=f"{name} - Pinocchio"
        )
    path_axis.plot(r.t[::SAMPLE_INTERVAL], r.exact[:, 1], "--", color="#b2182b", linewidth=1.0, label="exact motion")
    path_axis.set_ylabel("Y of the last center of mass [m]")
    distance_axis.semilogy(
        r.t[::SAMPLE_INTERVAL], r.error() + 1e-18, "--", color="#b2182b", linewidth=1.0, label="Euler - exact motion"
    )
    distance_axis.axhline(SOURCE_TOLERANCE, color="0.6", linewidth=0.8, label="tolerance of the source")
    distance_axis.set_ylabel("distance [m]")


def _draw_divergence(axis: Any, r: Result) -> None:
    for k, d in enumerate(r.divergences):
        axis.semilogy(d.t, d.distance, color="0.6", linewidth=0.7, label=None if k else "two runs, 1e-12 rad apart")
    d = r.divergences[0]
    t = np.array(d.window)
    axis.semilogy(t, np.exp(d.rate * t + d.offset), color="#b2182b", label=f"exp({d.rate:.1f} t / s)")
    axis.set(xlabel="time [s]", ylabel="distance of joints [rad]")


def main() -> int:
    """Prints the tables and, with ``--out``, writes the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder in which chain_4.png and chain_10.png are written")
    options = parser.parse_args()
    console = Console()
    with Progress(console=console, transient=True) as progress:
        short = [run_fall(make(), progress, with_divergence=False) for make in (fall_4_as_coded, fall_4_rods)]
        long = [run_fall(make(), progress, with_divergence=True) for make in (fall_10, fall_10_bent)]
    print_tables(short + long, console)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for results, name in ((short, "chain_4.png"), (long, "chain_10.png")):
            draw_figure(results, options.out / name)
            console.print(f"wrote {options.out / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
