"""Measures the time of whole-body ticks of robots with other structures than Go2, of the slowest and infeasible ticks.

    python benchmarks/ticks.py --robots slow --baseline DIR --check   # against another checkout of this package
    python benchmarks/ticks.py --tail 1000000 --check                 # the slowest of very many
    python benchmarks/ticks.py --infeasible --check                   # level 0 cannot be met

`--robots` takes catalogue names, "go2_continuous" (Go2 whose joints turn without end: each has two coordinates),
"solo8_slipping" or "slow", which stands for what is not four legs of three revolute joints.  Feet that cannot all move
on their own, as Solo8's, stand still where they stand; those of solo8_slipping move as they come, so that no
accelerations keep them all where they are, by some 1e-5 m/s^2.  Each robot stands and trots, calm, saturated
and hard, on the ticks of `bench_wbc.py`.  This checkout and the baseline each run in a process of their own, in turn
chunk by chunk; times are the least of each tick over the replays, then the median and the 99th percentile.  Bars: the
ratio to the baseline, and that go2_continuous takes what go2 takes.

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
from rivals.process import Checkout, share_cpu

SLOW = ("b1_z1", "solo8", "solo8_slipping", "centauro", "go2_continuous")
HERE = Path(__file__).resolve().parents[1]

#: Median time over the baseline's; how far joints of another type may be apart.
FASTER, ALIKE = 0.6, 0.15


def source(name: str) -> str:
    """What `quaddyn.load` takes: a catalogue name, or the text of a Go2 with continuous joints and no meshes."""
    if name != "go2_continuous":
        return name.removesuffix("_slipping")
    text = qd.load("go2").source
    text = text.decode() if isinstance(text, bytes) else text
    for kind in ("visual", "collision"):
        text = re.sub(rf"<{kind}\b(?:(?!</{kind}>).)*<mesh\b.*?</{kind}>", "", text, flags=re.DOTALL)
    return text.replace('type="revolute"', 'type="continuous"')


def hold_still(robot: qd.Robot, recording: dict[str, np.ndarray]) -> None:
    """Take away the velocity of feet that stand, in ticks where they cannot all move on their own."""
    dynamics = qd.Dynamics(robot)
    for q, v, contacts in zip(recording["q"], recording["v"], recording["contacts"], strict=True):
        state = dynamics.update(q.copy(), v.copy())
        J = np.vstack([state.jacobian(foot)[:3] for foot, on in zip(robot.feet, contacts, strict=True) if on])
        if np.linalg.matrix_rank(J, tol=1e-9) < len(J):
            v -= np.linalg.pinv(J, rcond=1e-9) @ (J @ v)


class Contest:
    """Checkouts in turn on the same recordings of some robots.

    Args:
        names: of the robots.
        options: of the command line.
    """

    def __init__(self, names: list[str], options: argparse.Namespace) -> None:
        self.kinds = [(name, gait, regime) for name in names for gait in GAITS for regime in REGIMES]
        checkouts = {"here": HERE} | ({"baseline": options.baseline} if options.baseline else {})
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            robots = {name: qd.load(source(name)) for name in names}
            for i, (name, gait, regime) in enumerate(self.kinds):
                recording = record(robots[name], gait, regime, options.ticks, options.seed)
                if not name.endswith("_slipping"):
                    hold_still(robots[name], recording)
                np.savez(folder / f"{i}.npz", robot=np.array(source(name)), **recording)
            workers = {label: Checkout(at, folder, label) for label, at in checkouts.items()}
            for turn in range(
                options.replays + 1
            ):  # the first one compiles; spread, so that no kind meets a bad moment only
                share_cpu(turn, workers.values())
                for gait_and_regime in [kind[1:] for kind in self.kinds if kind[0] == names[0]]:
                    # all robots' ticks of one kind lie close in time: they are compared with each other, too
                    mine = [i for i, kind in enumerate(self.kinds) if kind[1:] == gait_and_regime]
                    for first in range(0, options.ticks, options.chunk):
                        for i in mine:
                            for worker in workers.values():
                                worker.run(i, first, min(first + options.chunk, options.ticks))
            self.answers = {label: worker.answers() for label, worker in workers.items()}

    def judge(self) -> list[str]:
        """Print the table; the bars that were missed."""
        missed = []
        for i, (name, gait, regime) in enumerate(self.kinds):
            here = self.answers["here"][i]
            title = f"{name} {gait} {regime}"
            median, p99 = statistics(here["solve"])
            line = f"{title:30s} {median:7.1f} (p99 {p99:7.1f})  solved {here['solved'].mean():4.0%}"
            if "baseline" in self.answers:
                base = self.answers["baseline"][i]
                other, other_p99 = statistics(base["solve"])
                both = here["solved"] & base["solved"]
                apart = np.abs(here["a"] - base["a"])[both].max(initial=0.0) / (1.0 + np.abs(base["a"]).max())
                line += f"  baseline {other:7.1f} ({other_p99:7.1f}, {base['solved'].mean():4.0%})"
                line += f"  ratio {median / other:4.2f}  answers {apart:.0e} apart"
                if median > FASTER * other and name in SLOW:
                    missed.append(f"{title}: {median / other:.3f} > {FASTER} of the baseline")
            print(line)
        return missed + self._alike()

    def _alike(self) -> list[str]:
        """Go2 with either type of joints."""
        missed = []
        for i, (name, gait, regime) in enumerate(self.kinds):
            if name != "go2_continuous" or ("go2", gait, regime) not in self.kinds:
                continue
            twin = self.kinds.index(("go2", gait, regime))
            for label, answers in self.answers.items():
                ratio = np.median(answers[i]["solve"]) / np.median(answers[twin]["solve"])
                print(f"go2 {gait} {regime}, {label}: continuous joints take {ratio:4.2f} of what revolute ones take")
                if label == "here" and abs(ratio - 1.0) > ALIKE:
                    missed.append(f"go2 {gait} {regime}: continuous over revolute joints {ratio:.2f}")
        return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", metavar="NAME", help='catalogue names and those above, or "slow"')
    parser.add_argument("--baseline", type=Path, metavar="DIR", help="another checkout of this package")
    parser.add_argument("--tail", type=int, nargs="?", const=20_000, metavar="N", help="of N ticks (default 20000)")
    parser.add_argument(
        "--infeasible", nargs="*", metavar="NAME", help="ticks of robots (default go2) whose joints nothing can stop"
    )
    parser.add_argument("--ticks", type=int, default=100, help="ticks of each kind (default 100)")
    parser.add_argument("--replays", type=int, default=10, help="replays of each tick (default 10)")
    parser.add_argument("--chunk", type=int, default=25, help="ticks before the next one's turn (default 25)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    if not (options.robots or options.tail or options.infeasible is not None):
        parser.error("name something to measure: --robots, --tail or --infeasible")
    print(f"{cpu()}; Pinocchio {pin.__version__}; Python {platform.python_version()}; times in microseconds")
    missed: list[str] = []
    names = list(dict.fromkeys(n for name in options.robots or () for n in (SLOW if name == "slow" else (name,))))
    # Go2's two kinds of joints are run side by side, the others one after the other.
    groups = [[name] for name in names if not name.startswith("go2")]
    if "go2_continuous" in names:
        groups.append(["go2", "go2_continuous"])
    elif "go2" in names:
        groups.append(["go2"])
    for group in groups:
        try:
            missed += Contest(group, options).judge()
        except environments.UnavailableError as reason:
            missed.append(f"{', '.join(group)}: {reason}")
        sys.stdout.flush()
    if options.tail:
        missed += tick_tails.tail("go2", options.tail, options.seed)
    if options.infeasible is not None:
        for name in options.infeasible or ("go2",):
            missed += tick_tails.infeasible(name, options.ticks, options.replays, options.seed)
    for line in missed:
        print(f"MISSED {line}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
