"""Compares exported C controllers with those in Python: torques, time per tick, start-up time, invalid inputs.

    python benchmarks/c_controller.py                          # 20,000 ticks of each of three robots, two minutes
    python benchmarks/c_controller.py --ticks 1000000 --check  # exit code 1 if a requirement is not met
    python benchmarks/c_controller.py --hostile 100000         # 100,000 ticks with invalid inputs

Requirements: torques are bitwise equal on every tick if neither program contracts products and sums (FMA); the first
torque is computed less than 10 ms after the start of a program; under the sanitizers of the compiler, no tick with
invalid inputs crashes, lacks an error report or returns a torque that is not finite.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import controller_in_c as cc
import numpy as np

import quaddyn as qd

#: Maximum time from the start of a program to its first torque [s].
MAX_START_TIME = 0.01
#: Number of ticks of a block, and number of blocks of each program, which alternate.
BLOCK, ROUNDS = 20_000, 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=20_000, help="number of compared ticks per robot")
    parser.add_argument("--hostile", type=int, default=2_000, help="number of ticks with invalid inputs per robot")
    parser.add_argument("--robots", nargs="*", default=("go2", "anymal_c", "panda"), help="names of the catalogue")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    missed = []
    for name in options.robots:
        with tempfile.TemporaryDirectory() as folder:
            if not compare(name, Path(folder), options.ticks, options.seed):
                missed.append(f"{name}: bitwise equality")
        with tempfile.TemporaryDirectory() as folder:
            if not measure_times(name, Path(folder)):
                missed.append(f"{name}: start-up time")
        if options.hostile:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    controller = qd.WholeBodyController(qd.load(name))
                    print(
                        f"{name}: invalid inputs: {cc.hostile(controller, folder, options.hostile, *cc.SANITIZED)}",
                        flush=True,
                    )
                except AssertionError as error:
                    print(f"{name}: invalid inputs: {error}", flush=True)
                    missed.append(f"{name}: invalid inputs")
    print("missed: " + ", ".join(missed) if missed else "all requirements met")
    return 1 if options.check and missed else 0


class PerturbedTwins(cc.ControllerPair):
    """Pair of a C and a Python controller, and a third controller whose inputs q and v differ by at most one ulp.

    The difference of the third controller's torques is the effect of rounding errors of the inputs.  Different orders
    of rounding are expected to have effects of the same size.

    Attributes:
        max_difference: largest difference of the third controller's torques, relative to the largest torque.
    """

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.third, self.perturbed_dynamics = qd.WholeBodyController(self.robot), qd.Dynamics(self.robot)
        self.rng, self.max_difference = np.random.default_rng(7), 0.0

    def reset(self):
        """Resets all three controllers."""
        super().reset()
        self.third.reset()

    def tick(self, q, v, contacts):
        """Computes a tick with all three controllers and compares their torques."""
        command = super().tick(q, v, contacts)
        state = self.perturbed_dynamics.update(
            *(x * (1.0 + 2.0**-52 * self.rng.integers(-1, 2, size=x.shape)) for x in (q, v))
        )
        tau = self.third.compute(state, contacts).tau
        if command.status.ok:
            difference = np.abs(tau - command.tau).max() / max(1.0, np.abs(command.tau).max())
            self.max_difference = max(self.max_difference, float(difference))
        return command

    def check_rejection(self, q, v, rng):
        """Does nothing, since invalid states are not compared."""

    def set_reference(self, name, *arguments):
        """Sets a reference of a task in all three controllers."""
        super().set_reference(name, *arguments)
        self.third.tasks[name].reference(*arguments)

    def set_joint_friction(self, name, compensation_fraction, damping, coulomb):
        """Sets the parameters of joint friction in all three controllers."""
        super().set_joint_friction(name, compensation_fraction, damping, coulomb)
        friction = self.third.tasks[name]
        friction.compensation_fraction, friction.damping, friction.coulomb = compensation_fraction, damping, coulomb

    def set_force_references(self, name, reference):
        """Sets the reference of a force task in all three controllers."""
        super().set_force_references(name, reference)
        self.third.tasks[name].reference(reference)


def compare(name: str, folder: Path, ticks: int, seed: int) -> bool:
    """Compares torques without and with FMA contraction; returns whether the torques without it are bitwise equal."""
    exact = cc.ControllerPair(name, folder / "exact", *cc.SAME_BITS).run_closed_loop(ticks, seed)
    print(f"{name}: uncontracted: {exact}", flush=True)
    n_contracted = min(ticks, 20_000)
    contracted = PerturbedTwins(name, folder / "contracted", "-O3", "-march=native", exact=False)
    print(f"{name}: contracted, calm: {contracted.run_closed_loop(n_contracted, seed, calm=True)}", flush=True)
    print(
        f"{name}: Python with q and v changed by an ulp: relative difference at most "
        f"{contracted.max_difference:.1e} in solved ticks",
        flush=True,
    )
    return exact.different == 0


def measure_times(name: str, folder: Path) -> bool:
    """Measures the time per tick of C and Python while standing, and the start-up time.

    Returns:
        Whether the median of the start-up time is below `MAX_START_TIME`.
    """
    robot = qd.load(name)
    controller = qd.WholeBodyController(robot)
    source = cc.export_c(controller, folder)
    programs = {}
    for flags in ("-O2", "-O2 -ffp-contract=off", "-O3 -march=native"):
        built = folder / flags.replace(" ", "")
        programs[flags] = cc.compiled(folder, built, *flags.split(), program=folder / "main.c")
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller.warmup(quiet=True)
    tick_times: dict[str, list[float]] = {title: [] for title in (*programs, "Python")}
    for _ in range(ROUNDS):
        for flags, program in programs.items():
            output = subprocess.run(
                [str(program), str(BLOCK)], capture_output=True, encoding="utf-8", check=True
            ).stdout
            tick_times[flags].append(float(output.split(" us per tick")[0].split()[-1]))
        start = time.perf_counter()
        for _ in range(BLOCK):
            controller.compute(state)
        tick_times["Python"].append(1e6 * (time.perf_counter() - start) / BLOCK)
    starts = []
    for _ in range(100):
        start = time.perf_counter()
        subprocess.run([str(programs["-O2"]), "1"], stdout=subprocess.DEVNULL, check=True)
        starts.append(time.perf_counter() - start)
    tick_texts = ", ".join(f"{statistics.median(x):.2f} us ({flags})" for flags, x in tick_times.items())
    print(f"{name}: time per tick while standing: {tick_texts}", flush=True)
    kilobytes = sum(map(len, source.files.values())) / 1000.0
    size = Path(programs["-O2"]).stat().st_size / 1000.0
    print(
        f"{name}: from start to first torque and end of the program: median {1e3 * statistics.median(starts):.2f} ms, "
        f"maximum {1e3 * max(starts):.2f} ms; source {kilobytes:.0f} kB, program {size:.0f} kB, memory {source.memory}",
        flush=True,
    )
    return statistics.median(starts) < MAX_START_TIME


if __name__ == "__main__":
    sys.exit(main())
