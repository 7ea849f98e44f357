"""Measures times of whole-body ticks: of robots with other structures than Go2, of the slowest and of infeasible ticks.

    python benchmarks/ticks.py --robots slow --baseline DIR --check   # compared with another checkout of this package
    python benchmarks/ticks.py --tail 1000000 --check                 # the slowest of many ticks
    python benchmarks/ticks.py --infeasible --check                   # ticks with an infeasible level 0

`--robots` takes catalogue names, "go2_continuous" (Go2 with continuous joints, each with two coordinates),
"solo8_slipping", or "slow" for all robots that do not have four legs of three revolute joints.  Stance feet that cannot
move independently, as those of Solo8, are at rest.  In "solo8_slipping" they have random velocities, so that no
accelerations satisfy all contact conditions, by some 1e-5 m/s^2.  Each robot stands and trots, in the regimes calm,
saturated and hard of `bench_wbc.py`.  This checkout and the baseline run in separate processes, in alternation after
each chunk of ticks.  The time of a tick is the shortest of all replays; printed are median and 99th percentile over
ticks.  Required are a median of at most `MAX_BASELINE_RATIO` of the baseline, and equal times of go2_continuous and go2
within `MAX_JOINT_TYPE_DIFFERENCE`.

For `--tail` and `--infeasible` see `tick_tails.py`.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pinocchio as pin

import quaddyn as qd

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tick_tails
from bench_wbc import GAITS, REGIMES, cpu, record, statistics
from rivals import environments
from rivals.process import Checkout, pin_to_cpu

SLOW_ROBOTS = ("b1_z1", "solo8", "solo8_slipping", "centauro", "go2_continuous")
ROOT = Path(__file__).resolve().parents[1]

#: Largest median time divided by that of the baseline; largest relative difference between joint types.
MAX_BASELINE_RATIO, MAX_JOINT_TYPE_DIFFERENCE = 0.6, 0.15


def robot_source(name: str) -> str:
    """Returns the argument of `quaddyn.load`: a catalogue name, or the URDF of Go2 with continuous joints."""
    if name != "go2_continuous":
        return name.removesuffix("_slipping")
    text = qd.load("go2").source
    text = text.decode() if isinstance(text, bytes) else text
    for kind in ("visual", "collision"):
        text = re.sub(rf"<{kind}\b(?:(?!</{kind}>).)*<mesh\b.*?</{kind}>", "", text, flags=re.DOTALL)
    return text.replace('type="revolute"', 'type="continuous"')


def remove_foot_velocities(robot: qd.Robot, recording: dict[str, np.ndarray]) -> None:
    """Removes the velocity of stance feet in ticks in which they cannot move independently."""
    dynamics = qd.Dynamics(robot)
    for q, v, contacts in zip(recording["q"], recording["v"], recording["contacts"], strict=True):
        state = dynamics.update(q.copy(), v.copy())
        J = np.vstack([state.jacobian(foot)[:3] for foot, on in zip(robot.feet, contacts, strict=True) if on])
        if np.linalg.matrix_rank(J, tol=1e-9) < len(J):
            v -= np.linalg.pinv(J, rcond=1e-9) @ (J @ v)


class CheckoutComparison:
    """Comparison of checkouts, in alternation, on the same recordings of some robots.

    Args:
        names: names of the robots.
        options: options of the command line.
    """

    def __init__(self, names: list[str], options: argparse.Namespace) -> None:
        self.kinds = [(name, gait, regime) for name in names for gait in GAITS for regime in REGIMES]
        checkouts = {"here": ROOT} | ({"baseline": options.baseline} if options.baseline else {})
        with tempfile.TemporaryDirectory() as temporary_folder:
            folder = Path(temporary_folder)
            robots = {name: qd.load(robot_source(name)) for name in names}
            for i, (name, gait, regime) in enumerate(self.kinds):
                recording = record(robots[name], gait, regime, options.ticks, options.seed)
                if not name.endswith("_slipping"):
                    remove_foot_velocities(robots[name], recording)
                np.savez(folder / f"{i}.npz", robot=np.array(robot_source(name)), **recording)
            workers = {label: Checkout(at, folder, label) for label, at in checkouts.items()}
            # The first pass compiles.  All kinds alternate, so that other load affects them alike.
            for replay in range(options.replays + 1):
                pin_to_cpu(replay, workers.values())
                for gait_and_regime in [kind[1:] for kind in self.kinds if kind[0] == names[0]]:
                    # Ticks of all robots of one kind are close in time, since they are compared with each other, too.
                    indices = [i for i, kind in enumerate(self.kinds) if kind[1:] == gait_and_regime]
                    for first in range(0, options.ticks, options.chunk):
                        for i in indices:
                            for worker in workers.values():
                                worker.run(i, first, min(first + options.chunk, options.ticks))
            self.answers = {label: worker.answers() for label, worker in workers.items()}

    def print_results(self) -> list[str]:
        """Prints the table; returns the requirements that are not met."""
        not_met = []
        for i, (name, gait, regime) in enumerate(self.kinds):
            here = self.answers["here"][i]
            title = f"{name} {gait} {regime}"
            median, p99 = statistics(here["solve"])
            line = f"{title:30s} {median:7.1f} (p99 {p99:7.1f})  solved {here['solved'].mean():4.0%}"
            if "baseline" in self.answers:
                base = self.answers["baseline"][i]
                other, other_p99 = statistics(base["solve"])
                both_solved = here["solved"] & base["solved"]
                difference = np.abs(here["a"] - base["a"])[both_solved].max(initial=0.0) / (
                    1.0 + np.abs(base["a"]).max()
                )
                line += f"  baseline {other:7.1f} ({other_p99:7.1f}, {base['solved'].mean():4.0%})"
                line += f"  ratio {median / other:4.2f}  difference {difference:.0e}"
                if median > MAX_BASELINE_RATIO * other and name in SLOW_ROBOTS:
                    not_met.append(f"{title}: {median / other:.3f} > {MAX_BASELINE_RATIO} of the baseline")
            print(line)
        return not_met + self._compare_joint_types()

    def _compare_joint_types(self) -> list[str]:
        """Compares the times of Go2 with revolute and with continuous joints."""
        not_met = []
        for i, (name, gait, regime) in enumerate(self.kinds):
            if name != "go2_continuous" or ("go2", gait, regime) not in self.kinds:
                continue
            revolute_index = self.kinds.index(("go2", gait, regime))
            for label, answers in self.answers.items():
                ratio = np.median(answers[i]["solve"]) / np.median(answers[revolute_index]["solve"])
                print(f"go2 {gait} {regime}, {label}: time with continuous joints / with revolute joints {ratio:4.2f}")
                if label == "here" and abs(ratio - 1.0) > MAX_JOINT_TYPE_DIFFERENCE:
                    not_met.append(f"go2 {gait} {regime}: time with continuous / with revolute joints {ratio:.2f}")
        return not_met


def main() -> int:
    """Prints the selected measurements; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--robots", nargs="+", metavar="NAME", help='catalogue names, "go2_continuous", "solo8_slipping" or "slow"'
    )
    parser.add_argument("--baseline", type=Path, metavar="DIR", help="another checkout of this package")
    parser.add_argument(
        "--tail",
        type=int,
        nargs="?",
        const=20_000,
        metavar="N",
        help="measure the slowest of N ticks (default %(const)s)",
    )
    parser.add_argument(
        "--infeasible", nargs="*", metavar="NAME", help="measure infeasible ticks of these robots (default: go2)"
    )
    parser.add_argument("--ticks", type=int, default=100, help="ticks of each kind (default 100)")
    parser.add_argument("--replays", type=int, default=10, help="replays of each tick (default 10)")
    parser.add_argument(
        "--chunk", type=int, default=25, help="ticks of one process before the next one runs (default 25)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    if not (options.robots or options.tail or options.infeasible is not None):
        parser.error("pass at least one of --robots, --tail and --infeasible")
    print(f"{cpu()}; Pinocchio {pin.__version__}; Python {platform.python_version()}; times in microseconds")
    not_met: list[str] = []
    names = list(
        dict.fromkeys(n for name in options.robots or () for n in (SLOW_ROBOTS if name == "slow" else (name,)))
    )
    # Go2 with both joint types runs in alternation, the other robots one after the other.
    groups = [[name] for name in names if not name.startswith("go2")]
    if "go2_continuous" in names:
        groups.append(["go2", "go2_continuous"])
    elif "go2" in names:
        groups.append(["go2"])
    for group in groups:
        try:
            not_met += CheckoutComparison(group, options).print_results()
        except environments.UnavailableError as reason:
            not_met.append(f"{', '.join(group)}: {reason}")
        sys.stdout.flush()
    if options.tail:
        not_met += tick_tails.measure_tail("go2", options.tail, options.seed)
    if options.infeasible is not None:
        for name in options.infeasible or ("go2",):
            not_met += tick_tails.measure_infeasible(name, options.ticks, options.replays, options.seed)
    for line in not_met:
        print(f"NOT MET {line}")
    return 1 if options.check and not_met else 0


if __name__ == "__main__":
    sys.exit(main())
