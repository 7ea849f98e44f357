"""Source D's experiments: falling chains of 4 and 10 links, 2,000 steps of 0.5 ms by semi-implicit Euler.

The same integrator on Pinocchio, on the reference (articulated bodies, and source D's Lie-group recursion) and on
MuJoCo shows how far the implementations differ; a high-order adaptive integrator shows how far the integrator itself
is from the exact motion; energy shows what each integrator gains or loses.  Of the bent chain of ten links, the most
chaotic, even that exact motion is known to 1e-10 m for half a second only and to 3 mm after one, as two tolerances
show.

    python benchmarks/source_d.py              # print the tables
    python benchmarks/source_d.py --out docs   # and draw docs/chain_4.png and docs/chain_10.png
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

OURS = "Pinocchio, ABA"
SAMPLE = 10  # every how many steps the exact motion is asked for
SOURCE_BAR = 1e-3  # [m] the source's own
SEEDS = range(5)
COLORS = {"MuJoCo, Euler": "#e08214", "reference, ABA": "#2166ac", "reference, Lie group": "#7fbf7b"}


@dataclass(frozen=True, eq=False)
class Result:
    """What one fall gave.

    Attributes:
        fall: the fall.
        t: (k,) [s].
        paths: by implementation, (k, 3) the last link's center of mass by the same integrator [m].
        exact: (j, 3) its exact path, every SAMPLE steps [m].
        energies: by integrator, (k,) energy [J].
        divergences: of runs that started close together, by seed.
    """

    fall: Fall
    t: Array
    paths: dict[str, Array]
    exact: Array
    energies: dict[str, Array]
    divergences: tuple[Divergence, ...]

    def differences(self) -> dict[str, Array]:
        """By implementation, (k,) distance from Pinocchio's path [m]."""
        return {name: distance(path, self.paths[OURS]) for name, path in self.paths.items() if name != OURS}

    def error(self) -> Array:
        """(j,) distance of the integrator from the exact path [m]."""
        return distance(self.paths[OURS][::SAMPLE], self.exact)


def measure(fall: Fall, progress: Progress, *, chaos: bool) -> Result:
    """Run one fall by everything at hand."""
    task = progress.add_task(fall.name, total=7 + (len(SEEDS) if chaos else 0))

    def done(motion: Motion) -> Motion:
        progress.advance(task)
        return motion

    motions = {name: done(fall.euler(name)) for name in fall.accelerations}
    paths = {name: fall.last_com(motion) for name, motion in motions.items()}
    paths["MuJoCo, Euler"] = fall.mujoco()[1]
    progress.advance(task)
    exact = fall.last_com(done(fall.exact(motions[OURS].t[::SAMPLE])))
    energies = {
        "semi-implicit Euler": fall.energy(motions[OURS]),
        "Runge-Kutta 4": fall.energy(done(fall.rk4())),
        "variational midpoint": fall.energy(done(fall.variational())),
    }
    divergences = []
    for seed in SEEDS if chaos else ():
        divergences.append(divergence(fall, np.random.default_rng(seed)))
        progress.advance(task)
    return Result(fall, motions[OURS].t, paths, exact, energies, tuple(divergences))


def tables(results: list[Result], console: Console) -> None:
    half = STEPS // 2
    agreement = Table(
        title=escape(f"Last center of mass, largest distance from Pinocchio [m]; dt = {DT} s, {STEPS} steps")
    )
    energy = Table(title=escape("Energy drift: largest |E - E(0)|, and at the end [J]"))
    agreement.add_column("fall")
    energy.add_column("fall")
    for column in (*COLORS, "the integrator from exact"):
        agreement.add_column(f"{column}\nto {half * DT:g} s / to {STEPS * DT:g} s", justify="right")
    for column in results[0].energies:
        energy.add_column(column, justify="right")
    for r in results:
        cells = [
            f"{d[: half + 1].max():.1e} / {d.max():.1e}" for d in map(r.differences().get, COLORS) if d is not None
        ]
        error = r.error()
        agreement.add_row(r.fall.name, *cells, f"{error[: half // SAMPLE + 1].max():.1e} / {error.max():.1e}")
        drifts = [e - e[0] for e in r.energies.values()]
        energy.add_row(r.fall.name, *(f"{np.abs(d).max():.1e}, {d[-1]:+.1e}" for d in drifts))
    console.print(agreement, energy)
    for r in results:
        if r.divergences:
            rates = [d.rate for d in r.divergences]
            d = r.divergences[0]
            console.print(
                f"{r.fall.name}: two runs 1e-12 rad apart diverge at {np.median(rates):.1f} 1/s "
                f"({min(rates):.1f} to {max(rates):.1f} over {len(rates)} directions; Runge-Kutta, "
                f"fitted from {d.window[0]:.2f} s to {d.window[1]:.2f} s, scatter of the log {d.scatter:.2f})"
            )


def draw(results: list[Result], path: Path) -> None:
    """The source's plot - Y of the last center of mass, and the difference - then energy, or divergence."""
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


def _draw_paths(top: Any, middle: Any, r: Result) -> None:
    every = len(r.t) // 25
    top.plot(r.t, r.paths[OURS][:, 1], color="0.2", label=OURS)
    for (name, color), mark in zip(COLORS.items(), "o+x", strict=True):
        top.plot(r.t[::every], r.paths[name][::every, 1], mark, color=color, markersize=4, label=name, fillstyle="none")
        middle.semilogy(r.t, r.differences()[name] + 1e-18, color=color, linewidth=1.0, label=f"{name} - Pinocchio")
    top.plot(r.t[::SAMPLE], r.exact[:, 1], "--", color="#b2182b", linewidth=1.0, label="exact motion")
    top.set_ylabel("Y of the last center of mass [m]")
    middle.semilogy(r.t[::SAMPLE], r.error() + 1e-18, "--", color="#b2182b", linewidth=1.0, label="Euler - exact")
    middle.axhline(SOURCE_BAR, color="0.6", linewidth=0.8, label="the source's bar")
    middle.set_ylabel("distance [m]")


def _draw_divergence(axis: Any, r: Result) -> None:
    for k, d in enumerate(r.divergences):
        axis.semilogy(d.t, d.distance, color="0.6", linewidth=0.7, label=None if k else "two runs, 1e-12 rad apart")
    d = r.divergences[0]
    t = np.array(d.window)
    axis.semilogy(t, np.exp(d.rate * t + d.offset), color="#b2182b", label=f"exp({d.rate:.1f} t / s)")
    axis.set(xlabel="time [s]", ylabel="distance of joints [rad]")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for chain_4.png and chain_10.png")
    options = parser.parse_args()
    console = Console()
    with Progress(console=console, transient=True) as progress:
        short = [measure(make(), progress, chaos=False) for make in (fall_4_as_coded, fall_4_rods)]
        long = [measure(make(), progress, chaos=True) for make in (fall_10, fall_10_bent)]
    tables(short + long, console)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for results, name in ((short, "chain_4.png"), (long, "chain_10.png")):
            draw(results, options.out / name)
            console.print(f"drew {options.out / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
