"""Exported controllers beside those of Python: agreement, time per tick, start, hostile ticks under sanitizers.

    python benchmarks/c_controller.py                          # 20,000 ticks each of three robots, a minute or two
    python benchmarks/c_controller.py --ticks 1000000 --check  # exit code 1 if a bar is missed
    python benchmarks/c_controller.py --hostile 100000         # and as many hostile ticks

Bars: the same bits on every tick where neither side contracts products and sums; first torque of a program less than
10 ms after its start; no hostile tick that crashes, is not flagged or gives a torque that is not finite.
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

#: Largest time from the start of a program to its first torque [s].
START = 0.01
#: Ticks of one block, blocks of each side in turn.
BLOCK, ROUNDS = 20_000, 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=20_000, help="compared per robot")
    parser.add_argument("--hostile", type=int, default=2_000, help="under sanitizers, per robot")
    parser.add_argument("--robots", nargs="*", default=("go2", "anymal_c", "panda"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar is missed")
    options = parser.parse_args()
    missed = []
    for name in options.robots:
        with tempfile.TemporaryDirectory() as folder:
            if not compare(name, Path(folder), options.ticks, options.seed):
                missed.append(f"{name}: bits")
        with tempfile.TemporaryDirectory() as folder:
            if not times(name, Path(folder)):
                missed.append(f"{name}: start")
        if options.hostile:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    controller = qd.WholeBodyController(qd.load(name))
                    print(
                        f"{name}: hostile: {cc.hostile(controller, folder, options.hostile, *cc.SANITIZED)}", flush=True
                    )
                except AssertionError as error:
                    print(f"{name}: hostile: {error}", flush=True)
                    missed.append(f"{name}: hostile ticks")
    print("missed: " + ", ".join(missed) if missed else "all bars met")
    return 1 if options.check and missed else 0


class Neighbours(cc.Twins):
    """Beside the twins a third controller, in Python, to which every q and v are told off by an ulp at most.

    What it differs by no order of rounding can be expected to avoid.
    """

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.third, self.near = qd.WholeBodyController(self.robot), qd.Dynamics(self.robot)
        self.rng, self.apart = np.random.default_rng(7), 0.0

    def reset(self):
        """Forget, all three."""
        super().reset()
        self.third.reset()

    def tick(self, q, v, contacts):
        """Compare the third, too."""
        command = super().tick(q, v, contacts)
        state = self.near.update(*(x * (1.0 + 2.0**-52 * self.rng.integers(-1, 2, size=x.shape)) for x in (q, v)))
        tau = self.third.compute(state, contacts).tau
        if command.status.ok:
            apart = np.abs(tau - command.tau).max() / max(1.0, np.abs(command.tau).max())
            self.apart = max(self.apart, float(apart))
        return command

    def refuse(self, q, v, rng):
        """States that are refused tell nothing here."""

    def refer(self, name, *arguments):
        """A reference, told to all three."""
        super().refer(name, *arguments)
        self.third.tasks[name].reference(*arguments)

    def grease(self, name, share, damping, coulomb):
        """Friction, told to all three."""
        super().grease(name, share, damping, coulomb)
        friction = self.third.tasks[name]
        friction.share, friction.damping, friction.coulomb = share, damping, coulomb

    def push(self, name, wanted):
        """Forces, told to all three."""
        super().push(name, wanted)
        self.third.tasks[name].reference(wanted)


def compare(name: str, folder: Path, ticks: int, seed: int) -> bool:
    """Agreement: uncontracted, and as either is by default."""
    exact = cc.Twins(name, folder / "exact", *cc.SAME_BITS).live(ticks, seed)
    print(f"{name}: uncontracted: {exact}", flush=True)
    few = min(ticks, 20_000)
    usual = Neighbours(name, folder / "usual", "-O3", "-march=native", exact=False)
    print(f"{name}: contracted, calm: {usual.live(few, seed, calm=True)}", flush=True)
    print(f"{name}: Python with q and v off by an ulp: by {usual.apart:.1e} relative at most where solved", flush=True)
    return exact.different == 0


def times(name: str, folder: Path) -> bool:
    """Time per tick of C and Python in turn, standing at home; from start to first torque."""
    robot = qd.load(name)
    controller = qd.WholeBodyController(robot)
    source = cc.export_c(controller, folder)
    programs = {}
    for flags in ("-O2", "-O2 -ffp-contract=off", "-O3 -march=native"):
        built = folder / flags.replace(" ", "")
        programs[flags] = cc.compiled(folder, built, *flags.split(), program=folder / "main.c")
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller.warmup(quiet=True)
    found: dict[str, list[float]] = {each: [] for each in (*programs, "Python")}
    for _ in range(ROUNDS):
        for flags, program in programs.items():
            said = subprocess.run([str(program), str(BLOCK)], capture_output=True, encoding="utf-8", check=True).stdout
            found[flags].append(float(said.split(" us per tick")[0].split()[-1]))
        start = time.perf_counter()
        for _ in range(BLOCK):
            controller.compute(state)
        found["Python"].append(1e6 * (time.perf_counter() - start) / BLOCK)
    starts = []
    for _ in range(100):
        begin = time.perf_counter()
        subprocess.run([str(programs["-O2"]), "1"], stdout=subprocess.DEVNULL, check=True)
        starts.append(time.perf_counter() - begin)
    each = ", ".join(f"{statistics.median(x):.2f} us ({flags})" for flags, x in found.items())
    print(f"{name}: a tick standing: {each}", flush=True)
    kilobytes = sum(map(len, source.files.values())) / 1000.0
    size = Path(programs["-O2"]).stat().st_size / 1000.0
    print(
        f"{name}: start to first torque and end of the program: {1e3 * statistics.median(starts):.2f} ms, at most "
        f"{1e3 * max(starts):.2f}; {kilobytes:.0f} kB of text, program {size:.0f} kB, memory {source.memory}",
        flush=True,
    )
    return statistics.median(starts) < START


if __name__ == "__main__":
    sys.exit(main())
