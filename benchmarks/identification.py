"""Tests identification on large data: ranks by two methods, streaming with bounded memory, prediction errors.

1. The base parameters of every robot of the catalogue are computed by pivoted QR and by rules; the null spaces of both
   are compared.
2. Samples of a robot whose parameters differ from its file are written to log files, which the campaign
   "identification" reads in parts.  Memory of the process, throughput and the error of the parameters are printed.
3. The prediction error on new samples is divided by the noise floor, which is the error with the true parameters.
4. The QR factors of many small log files from the same campaign are merged as a tree and compared with those of a
   single pass over all samples.

    python benchmarks/identification.py                       # a million samples of ur5
    python benchmarks/identification.py --samples 10000000 --check
    python benchmarks/identification.py --robots go2 --samples 100000 --force-noise

With --check the exit code is 1 if ranks differ, memory exceeds 1 GB, streaming differs from one batch by more than
1e-10, merged factors differ from a single pass by more than 1e-12, or an error exceeds twice the noise floor.
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
from quaddyn.identification.base_parameters import StackedRegressor, random_states
from quaddyn.identification.consistent_fit import parameters_of, pseudo_inertia, thicken_pseudo_inertia
from quaddyn.identification.samples import MeasuredForces

#: Maximum memory [bytes], prediction error relative to the noise floor, and relative differences of the parameters with
#: streaming and with merged factors.
MAX_MEMORY, MAX_NOISE_FLOOR_RATIO, MAX_STREAMING_DIFFERENCE, MAX_MERGING_DIFFERENCE = 1e9, 2.0, 1e-10, 1e-12
POOL, FILE = 4096, 50_000  # number of random states of a robot, number of samples of a log file
NOISE = 0.02  # standard deviation of the noise of torques and forces, divided by their root mean square

console = Console()


class SimulatedRobot:
    """Robot whose parameters differ from those of its file, and noisy samples of its motion.

    States are drawn from a fixed pool of random states, whose torques are computed once, so that samples are generated
    fast.  The noise is different for every sample.

    Attributes:
        robot: robot with the parameters of the file.
        delta: true dynamic parameters.
        torque_noise: standard deviation of the joint torques (nu,) [N m].
        force_noise: standard deviation of the contact forces [N].
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
        if robot.root != "fixed":  # the contact forces of minimum norm that produce the motion
            no_forces = dict.fromkeys(robot.feet, np.zeros((pool, 3)))
            J = MeasuredForces(robot).jacobians(Samples(self._q, self._v, self._a, y[:, 6:], no_forces, "ground"))
            self._f = np.einsum("nij,nj->ni", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), y[:, :6])
            y = y - np.einsum("nij,ni->nj", J, self._f)
            self.force_noise = NOISE * float(np.sqrt(np.mean(self._f**2)))
        self._tau = y[:, robot.actuated_index]
        self.torque_noise = NOISE * np.sqrt(np.mean(self._tau**2, axis=0))

    def draw(self, count: int) -> Samples:
        """Draws a number of samples."""
        k = self._rng.integers(0, len(self._q), count)
        tau = self._tau[k] + self.torque_noise * self._rng.standard_normal((count, self.robot.nu))
        f = self._f[k] + self.force_noise * self._rng.standard_normal((count, self._f.shape[1]))
        forces = {foot: f[:, 3 * i : 3 * i + 3].copy() for i, foot in enumerate(self.robot.feet)} if f.size else {}
        return Samples(self._q[k], self._v[k], self._a[k], tau, forces, "ground" if forces else "frame")


def write_logs(robot_data: SimulatedRobot, count: int, folder: Path) -> tuple[str, ...]:
    """Writes samples of a robot to log files and returns the paths of the files."""
    paths = []
    for start in range(0, count, FILE):
        paths.append(str(folder / f"log {len(paths)}.npz"))
        save_samples(paths[-1], robot_data.robot, robot_data.draw(min(FILE, count - start)))
    return tuple(paths)


def compare_ranks() -> bool:
    """Prints the ranks of all robots by QR and by rules; returns whether the null spaces agree."""
    table = Table(
        title="Base parameters: number of columns, rank by QR and by rules, angle between the null spaces, gap"
    )
    for column in (
        "robot",
        "10 per body",
        "QR",
        "rules",
        "angle",
        "13 per body",
        "QR",
        "rules",
        "angle",
        "gap [decades]",
    ):
        table.add_column(column.replace("[", "\\["), justify="left" if column == "robot" else "right")
    agree = True
    for name in qd.CATALOGUE:
        robot, cells, gaps = qd.load(name, mimic=False), [], []
        for inertial in (True, False):
            base, rules = base_parameters(robot, inertial=inertial), group_by_rule(robot, inertial=inertial)
            angle = rules.disagreement(base)
            agree &= angle < 1e-8
            cells += [str(base.certificate.columns), str(base.size), str(rules.rank), f"{angle:.0e}"]
            ambiguity = "" if base.certificate.is_unambiguous else f", {base.certificate.ambiguous.size} ambiguous"
            gaps.append(f"{np.log10(base.certificate.gap):.1f}{ambiguity}")
        table.add_row(name, *cells, " / ".join(gaps))
    console.print(table)
    return agree


def identify_from_logs(name: str, count: int, seed: int, force_noise: bool, jobs: int) -> bool:
    """Identifies a robot from log files; prints the results and returns whether the requirements are met.

    Args:
        name: name of the robot.
        count: number of samples.
        seed: seed of parameters, states and noise.
        force_noise: whether torques and contact forces are whitened together.
        jobs: number of worker processes; 0: run in this process.
    """
    robot_data = SimulatedRobot(name, seed)
    base = base_parameters(robot_data.robot)
    noises = {"torque_noise": robot_data.torque_noise, "force_noise": robot_data.force_noise}
    options = noises if force_noise else {}
    before = peak_memory()
    with tempfile.TemporaryDirectory() as folder, nullcontext() if not jobs else process_pool(jobs) as pool:
        campaign = IdentificationCampaign(
            robot=name,
            files=write_logs(robot_data, count, Path(folder)),
            torque_noise=float(np.mean(robot_data.torque_noise)) if force_noise else None,
            force_noise=robot_data.force_noise if force_noise else None,
        )
        cpu_start = time.process_time()
        summary = run(campaign, pool)
        seconds, cpu_seconds = summary.seconds, time.process_time() - cpu_start
        factors = merge_results(summary.results)  # the results contain the names of their files
    start = time.perf_counter()
    fit = fit_accumulated(factors, method="consistent")
    solving = time.perf_counter() - start
    peak, size = peak_memory(), 8 * count * (robot_data.robot.nq + 2 * robot_data.robot.nv + robot_data.robot.nu)
    deviation_ratio = np.sqrt(np.mean(((fit.beta - base.project(robot_data.delta)) / fit.deviation) ** 2))
    new_samples = robot_data.draw(2000)
    H = base.regressor()(new_samples.q, new_samples.v, new_samples.a)
    true_forces, y = (
        H @ base.project(robot_data.delta),
        MeasuredForces(robot_data.robot).generalized_forces(new_samples),
    )
    floor = np.sqrt(np.mean((true_forces - y) ** 2, axis=0))
    ratio = float((fit.validate(new_samples).error / floor).max())
    noise_free_ratio = float((np.sqrt(np.mean((H @ fit.beta - true_forces) ** 2, axis=0)) / floor).max())
    # the same samples in one batch and in parts
    samples = robot_data.draw(3000)
    batch_parameters = identify(base, samples, method="weighted", **options).beta
    streamed_parameters = identify(
        base, (samples[i : i + 11] for i in range(0, 3000, 11)), method="weighted", **options
    ).beta
    difference = float(np.abs(batch_parameters - streamed_parameters).max() / np.abs(batch_parameters).max())
    console.print(
        f"{name}: {count:,} samples ({size / 1e9:.2f} GB of data) in {seconds:.1f} s ({cpu_seconds:.1f} s of CPU "
        f"time): {count / seconds:,.0f} samples/s, {count * robot_data.robot.nv / seconds:,.0f} rows/s of {base.size} "
        f"parameters; fit {solving:.2f} s, {fit.iterations} iterations\n"
        f"  memory: {before / 1e6:.0f} MB before, peak {peak / 1e6:.0f} MB\n"
        f"  prediction error on new samples: {ratio:.3f} of the noise floor, {noise_free_ratio:.1e} of it for "
        f"noise-free torques; parameter error: {deviation_ratio:.2f} of the estimated deviations (rms); bodies with "
        f"unphysical inertia: {len(fit.inconsistent_bodies)}\n"
        f"  streaming compared with one batch: {difference:.1e}"
    )
    met = peak < MAX_MEMORY and ratio <= MAX_NOISE_FLOOR_RATIO and difference <= MAX_STREAMING_DIFFERENCE
    return met and fit.converged and not fit.inconsistent_bodies


def compare_merged_factors(name: str, files: int, seed: int, jobs: int) -> bool:
    """Compares merged factors of log files of 2,000 samples each with a single pass; returns whether they agree."""
    robot_data = SimulatedRobot(name, seed)
    noise = float(np.mean(robot_data.torque_noise))
    single_pass = Accumulator(base_parameters(robot_data.robot), torque_noise=noise)
    with tempfile.TemporaryDirectory() as folder, nullcontext() if not jobs else process_pool(jobs) as pool:
        paths = [str(Path(folder) / f"log {i}.npz") for i in range(files)]
        for path in paths:
            part = robot_data.draw(2000)
            single_pass.add(part)
            save_samples(path, robot_data.robot, part)
        summary = run(IdentificationCampaign(robot=name, files=tuple(paths), torque_noise=noise), pool)
        merged = merge_results(summary.results)
    merged_parameters, single_pass_parameters = (
        fit_accumulated(each, method="weighted").beta for each in (merged, single_pass)
    )
    difference = float(np.abs(merged_parameters - single_pass_parameters).max() / np.abs(single_pass_parameters).max())
    console.print(
        f"{name}: {files} logs, {merged.samples:,} samples in {summary.seconds:.1f} s; merged factors "
        f"compared with a single pass: {difference:.1e}"
    )
    return merged.samples == single_pass.samples and difference <= MAX_MERGING_DIFFERENCE


def peak_memory() -> float:
    """Returns the peak memory of the process [bytes]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Tests identification on large data.")
    parser.add_argument("--robots", nargs="*", default=["ur5"], help="robots that are identified")
    parser.add_argument("--samples", type=int, default=1_000_000, help="number of samples per robot")
    parser.add_argument("--seed", type=int, default=0, help="seed of parameters, states and noise")
    parser.add_argument("--force-noise", action="store_true", help="whiten torques and contact forces together")
    parser.add_argument("--no-ranks", action="store_true", help="skip the comparison of ranks")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--logs", type=int, default=40, help="number of log files for the comparison of merged factors")
    parser.add_argument("--jobs", type=int, default=0, help="number of worker processes; 0: run in this process")
    options = parser.parse_args()
    console.print(cpu())
    results = [] if options.no_ranks else [compare_ranks()]
    results += [
        identify_from_logs(name, options.samples, options.seed, options.force_noise, options.jobs)
        for name in options.robots
    ]
    results += [
        compare_merged_factors(name, options.logs, options.seed, options.jobs)
        for name in options.robots
        if options.logs
    ]
    console.print("all requirements met" if all(results) else "[red]a requirement is not met[/]")
    return 0 if all(results) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
