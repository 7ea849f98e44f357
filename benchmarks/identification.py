"""Tests identification on large data: ranks by two methods, streaming with bounded memory, prediction errors.

1. Base parameters of every catalogue robot by pivoted QR and by rule, and whether the two null spaces are one.
2. Samples of a machine off the file, as many as asked for, in log files that the campaign "identification" reads piece
   by piece; the memory of the process and the throughput are printed, with the error of what was found.
3. Prediction error over the noise floor (what the true parameters leave) on unseen samples.
4. QR factors of many small log files from the same campaign, merged as a tree, beside one pass over all samples.

    python benchmarks/identification.py                       # a million samples of ur5
    python benchmarks/identification.py --samples 10000000 --check
    python benchmarks/identification.py --robots go2 --samples 100000 --force-noise

With --check the exit code is 1 if ranks differ, memory passes 1 GB, streaming differs from one batch by more than
1e-10, merged factors from one pass by more than 1e-12, or an error passes twice the noise floor.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from boundary import cpu
from rich.console import Console
from rich.table import Table

import quaddyn as qd
from quaddyn.campaigns import process_pool, run
from quaddyn.campaigns.identification import IdentificationCampaign, merge_results
from quaddyn.identification import (
    Accumulator,
    Samples,
    base_parameters,
    fit_accumulated,
    group_by_rule,
    identify,
    save_samples,
)
from quaddyn.identification.consistent_fit import thicken_pseudo_inertia
from quaddyn.identification.inertia import parameters_of, pseudo_inertia
from quaddyn.identification.samples import MeasuredForces
from quaddyn.identification.stacked_regressor import StackedRegressor, random_states

MEMORY_BAR, FLOOR_BAR, STREAMING_BAR, MERGING_BAR = 1e9, 2.0, 1e-10, 1e-12  # [B], [-], [-], [-]
POOL, FILE = 4096, 50_000  # states of a machine, samples of a log file
NOISE = 0.02  # of torques and forces, over their root mean square

console = Console()


class Machine:
    """A robot whose parameters are some way off its file's, and noisy samples of its motion.

    States are drawn from a pool of random ones, so that data of any length cost the fit's time and not the generator's:
    torques of the pool are computed once, noise is new in every sample.
    """

    def __init__(self, name: str, seed: int, pool: int = POOL) -> None:
        rng = np.random.default_rng(seed)
        self.robot = robot = qd.load(name)
        delta = qd.Dynamics(robot).parameters().reshape(-1, 13).copy()
        for row, body in zip(delta, robot.bodies, strict=True):
            if row[9] > 0.0:
                L = np.linalg.cholesky(thicken_pseudo_inertia(pseudo_inertia(row[:10])))
                U = np.eye(4) + 0.2 * np.triu(rng.standard_normal((4, 4)))
                row[:10] = parameters_of(L @ U @ U.T @ L.T)
            if body.joint is not None:
                row[10:] = rng.uniform(0.5, 1.5, 3) * [0.1, 0.2, 0.01]
        self.delta, self._rng = delta.ravel(), rng
        self._q, self._v, self._a = random_states(robot, pool, rng)
        y = StackedRegressor(robot)(self._q, self._v, self._a) @ self.delta
        self._f = np.zeros((pool, 0))
        self.force_noise = 0.0
        if robot.root != "fixed":  # the feet carry the motion with the least forces
            rest = dict.fromkeys(robot.feet, np.zeros((pool, 3)))
            J = MeasuredForces(robot).jacobians(Samples(self._q, self._v, self._a, y[:, 6:], rest, "ground"))
            self._f = np.einsum("nij,nj->ni", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), y[:, :6])
            y = y - np.einsum("nij,ni->nj", J, self._f)
            self.force_noise = NOISE * float(np.sqrt(np.mean(self._f**2)))
        self._tau = y[:, robot.actuated_index]
        self.torque_noise = NOISE * np.sqrt(np.mean(self._tau**2, axis=0))

    def draw(self, count: int) -> Samples:
        """So many samples."""
        k = self._rng.integers(0, len(self._q), count)
        tau = self._tau[k] + self.torque_noise * self._rng.standard_normal((count, self.robot.nu))
        f = self._f[k] + self.force_noise * self._rng.standard_normal((count, self._f.shape[1]))
        forces = {foot: f[:, 3 * i : 3 * i + 3].copy() for i, foot in enumerate(self.robot.feet)} if f.size else {}
        return Samples(self._q[k], self._v[k], self._a[k], tau, forces, "ground" if forces else "frame")


def written(machine: Machine, count: int, folder: Path) -> tuple[str, ...]:
    """So many samples in log files; their names."""
    paths = []
    for start in range(0, count, FILE):
        paths.append(str(folder / f"log {len(paths)}.npz"))
        save_samples(paths[-1], machine.robot, machine.draw(min(FILE, count - start)))
    return tuple(paths)


def ranks() -> bool:
    table = Table(title="base parameters: columns, QR, rules, angle between the null spaces, gap")
    for column in ("robot", "10 a body", "QR", "rules", "angle", "13 a body", "QR", "rules", "angle", "gap [decades]"):
        table.add_column(column.replace("[", "\\["), justify="left" if column == "robot" else "right")
    agree = True
    for name in qd.CATALOGUE:
        robot, cells, gaps = qd.load(name, mimic=False), [], []
        for inertial in (True, False):
            base, rules = base_parameters(robot, inertial=inertial), group_by_rule(robot, inertial=inertial)
            angle = rules.disagreement(base)
            agree &= angle < 1e-8
            cells += [str(base.certificate.columns), str(base.size), str(rules.rank), f"{angle:.0e}"]
            sure = "" if base.certificate.is_unambiguous else f", {base.certificate.ambiguous.size} ambiguous"
            gaps.append(f"{np.log10(base.certificate.gap):.1f}{sure}")
        table.add_row(name, *cells, " / ".join(gaps))
    console.print(table)
    return agree


def streaming(name: str, count: int, seed: int, force_noise: bool, jobs: int) -> bool:
    machine = Machine(name, seed)
    base = base_parameters(machine.robot)
    noises = {"torque_noise": machine.torque_noise, "force_noise": machine.force_noise}
    options = noises if force_noise else {}
    before = memory()
    with tempfile.TemporaryDirectory() as folder, nullcontext() if not jobs else process_pool(jobs) as pool:
        campaign = IdentificationCampaign(
            robot=name,
            files=written(machine, count, Path(folder)),
            torque_noise=float(np.mean(machine.torque_noise)) if force_noise else None,
            force_noise=machine.force_noise if force_noise else None,
        )
        cpu_start = time.process_time()
        summary = run(campaign, pool)
        spent, cpu_spent = summary.seconds, time.process_time() - cpu_start
        factors = merge_results(summary.results)  # the results know their files
    start = time.perf_counter()
    found = fit_accumulated(factors, method="consistent")
    solving = time.perf_counter() - start
    peak, size = memory(), 8 * count * (machine.robot.nq + 2 * machine.robot.nv + machine.robot.nu)
    z = np.sqrt(np.mean(((found.beta - base.project(machine.delta)) / found.deviation) ** 2))
    probe = machine.draw(2000)
    H = base.regressor()(probe.q, probe.v, probe.a)
    truth, y = H @ base.project(machine.delta), MeasuredForces(machine.robot).generalized_forces(probe)
    floor = np.sqrt(np.mean((truth - y) ** 2, axis=0))
    ratio = float((found.validate(probe).error / floor).max())
    clean = float((np.sqrt(np.mean((H @ found.beta - truth) ** 2, axis=0)) / floor).max())
    # the same samples at once and in pieces
    few = machine.draw(3000)
    whole = identify(base, few, method="weighted", **options).beta
    pieces = identify(base, (few[i : i + 11] for i in range(0, 3000, 11)), method="weighted", **options).beta
    difference = float(np.abs(whole - pieces).max() / np.abs(whole).max())
    console.print(
        f"{name}: {count:,} samples ({size / 1e9:.2f} GB of data) in {spent:.1f} s ({cpu_spent:.1f} s of one core): "
        f"{count / spent:,.0f} samples/s, {count * machine.robot.nv / spent:,.0f} rows/s of {base.size} parameters; "
        f"fit {solving:.2f} s, {found.iterations} steps\n"
        f"  memory: {before / 1e6:.0f} MB before, peak {peak / 1e6:.0f} MB\n"
        f"  unseen torques: {ratio:.3f} of the noise floor, {clean:.1e} of it without the noise of the measurement; "
        f"parameters off by {z:.2f} of their stated deviations; not physical: {len(found.inconsistent_bodies)} bodies\n"
        f"  streaming against batch: {difference:.1e}"
    )
    good = peak < MEMORY_BAR and ratio <= FLOOR_BAR and difference <= STREAMING_BAR
    return good and found.converged and not found.inconsistent_bodies


def many_logs(name: str, files: int, seed: int, jobs: int) -> bool:
    """Log files of two thousand samples each, on every worker, against one pass."""
    machine = Machine(name, seed)
    noise = float(np.mean(machine.torque_noise))
    once = Accumulator(base_parameters(machine.robot), torque_noise=noise)
    with tempfile.TemporaryDirectory() as folder, nullcontext() if not jobs else process_pool(jobs) as pool:
        paths = [str(Path(folder) / f"log {i}.npz") for i in range(files)]
        for path in paths:
            part = machine.draw(2000)
            once.add(part)
            save_samples(path, machine.robot, part)
        summary = run(IdentificationCampaign(robot=name, files=tuple(paths), torque_noise=noise), pool)
        merged = merge_results(summary.results)
    one, other = (fit_accumulated(each, method="weighted").beta for each in (merged, once))
    difference = float(np.abs(one - other).max() / np.abs(other).max())
    console.print(
        f"{name}: {files} logs, {merged.samples:,} samples in {summary.seconds:.1f} s; merged against one pass: "
        f"{difference:.1e}"
    )
    return merged.samples == once.samples and difference <= MERGING_BAR


def memory() -> float:
    """Largest memory the process has had [B]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> int:
    parser = argparse.ArgumentParser(description="identification at scale")
    parser.add_argument("--robots", nargs="*", default=["ur5"], help="which are streamed")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--force-noise", action="store_true", help="whiten torques and contact forces together")
    parser.add_argument("--no-ranks", action="store_true", help="streaming alone")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--logs", type=int, default=40, help="log files of the campaign")
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: none")
    options = parser.parse_args()
    console.print(cpu())
    results = [] if options.no_ranks else [ranks()]
    results += [
        streaming(name, options.samples, options.seed, options.force_noise, options.jobs) for name in options.robots
    ]
    results += [many_logs(name, options.logs, options.seed, options.jobs) for name in options.robots if options.logs]
    console.print("every bar is met" if all(results) else "[red]a bar is missed[/]")
    return 0 if all(results) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
