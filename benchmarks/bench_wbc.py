"""Compares the computing time of whole-body control with that of TSID and PlaCo on the same recorded ticks.

    python benchmarks/bench_wbc.py                 # all robots, gaits and regimes
    python benchmarks/bench_wbc.py --robots go2 --ticks 60 --check

TSID and PlaCo run in separate processes; the programs alternate after each chunk of ticks.  All controllers solve
the same problem: stance feet do not accelerate, friction pyramids have the same faces, and normal forces and torques
have the same bounds (level 0); center of mass, base orientation and swing feet are tasks of level 1, posture and
contact forces of level 2.  TSID and PlaCo have no third level; there, posture and forces have a small weight in level
1.

*solve* is the time from (q, v) to torques, called from Python, without setting the references; *all* includes it.  The
time of a tick is the minimum over the replays; the median and the 99th percentile over the ticks are printed, in
microseconds.  quaddyn changes contacts within its tick, the other controllers before it: their 99th percentile includes
the time of the change; the value in brackets does not.  The error of quaddyn is the KKT residual and the violation of
level 0; the error of the others is the difference of their squared level-1 residual from the strict optimum.

With ``--check`` the median of *solve* relative to TSID must not exceed `MAX_TSID_RATIOS`, and the 99th percentile must
not exceed that of TSID.

A controller whose environment cannot be created is skipped with a message.  Without TSID, ratios refer to the times in
`rivals/recorded.json` (written by ``--save-recorded``); processor and versions of that recording are printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import (
    ComTask,
    ContactMotion,
    FootTask,
    ForceTask,
    FrameOrientationTask,
    FrictionPyramid,
    JointBounds,
    NormalForce,
    PostureTask,
    TorqueLimits,
)

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rivals import environments
from rivals.process import Rival, pin_to_cpu, plain_urdf

ROBOTS = ("go2", "solo12", "anymal_c")
GAITS = ("stand", "trot")
REGIMES = ("calm", "saturated", "hard")
#: Control period [s], and weights of posture and contact forces relative to level 1 where a controller has no level 2.
DT, POSTURE_WEIGHT, FORCE_WEIGHT = 1e-3, 1e-3, 1e-6

#: File of the times of TSID in an earlier run, with the processor and versions.
RECORDED = Path(__file__).resolve().parent / "rivals" / "recorded.json"

#: Maximum median of the time relative to TSID by regime, standing and trotting, and the target median.
MAX_TSID_RATIOS = {"calm": (0.24, 0.34), "saturated": (0.33, 0.42), "hard": (0.40, 0.52)}
TARGET_TSID_RATIOS = {"calm": (0.20, 0.28), "saturated": (0.27, 0.34), "hard": (0.32, 0.42)}


def record(robot: qd.Robot, gait: str, regime: str, ticks: int, seed: int) -> dict[str, np.ndarray]:
    """Makes a recording of ticks, in the format of the package `rivals`.

    Args:
        robot: a quadruped.
        gait: one of `GAITS`.
        regime: "calm" (slow sway), "saturated" (sway at the limits of friction and torque) or "hard" (independent
            random states and references).
        ticks: number of ticks.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    feet, nu, nv = robot.feet, robot.nu, robot.nv
    leg_pairs = [tuple(i for i in range(4) if i in pair) for pair in ((0, 3), (1, 2))]
    contacts = np.ones((ticks, 4), dtype=bool)
    if gait == "trot":
        for k in range(ticks):
            contacts[k] = [i in leg_pairs[k // 50 % 2] for i in range(4)]
    q, v = np.zeros((ticks, robot.nq)), np.zeros((ticks, nv))
    com, turn = np.zeros((ticks, 3)), np.zeros((ticks, 3))
    swing, posture = np.zeros((ticks, 4, 3)), np.zeros((ticks, nu))
    size = {"calm": 0.02, "saturated": 0.05, "hard": 0.25}[regime]
    push = {"calm": 0.3, "saturated": 3.0, "hard": 6.0}[regime]
    direction, phase = rng.normal(size=nv), rng.uniform(0.0, 2.0 * np.pi, size=nv)
    for k in range(ticks):
        if regime == "hard":
            step, v[k] = size * rng.normal(size=nv), 0.5 * rng.normal(size=nv)
            com[k], turn[k] = push * rng.normal(size=3), 2.0 * push * rng.normal(size=3)
            swing[k], posture[k] = 5.0 * push * rng.normal(size=(4, 3)), 50.0 * rng.normal(size=nu)
        else:
            w, t = 2.0 * np.pi * 2.0, k * DT * 4.0
            step = size * direction * np.sin(w * t + phase)
            v[k] = 0.5 * size * direction * np.cos(w * t + phase)
            com[k] = push * np.array([np.sin(w * t), np.cos(w * t), 0.2 * np.sin(2.0 * w * t)])
            turn[k] = push * 0.5 * np.sin(w * t + np.arange(3.0))
            swing[k] = 2.0 * push * np.sin(w * t + np.arange(12.0).reshape(4, 3))
            posture[k] = push * np.sin(w * t + np.arange(nu))
        q[k] = robot.algorithms.integrate(robot.model, robot.q_home, step)
    friction = {"calm": 0.6, "saturated": 0.25, "hard": 0.4}[regime]
    effort = np.tile(np.minimum(robot.effort_limits, 1e6), (ticks, 1)) * {"calm": 1.0}.get(regime, 0.6)
    weight = robot.mass * 9.81
    return {
        "urdf": np.array(plain_urdf(robot)),
        "feet": np.array([f"contact_{robot.legs[foot].foot.name}" for foot in feet]),
        "base": np.array(robot.bodies[0].name),
        "joints": np.array(robot.actuated),
        "dt": np.array(DT),
        "q": q,
        "v": v,
        "contacts": contacts,
        "com": com,
        "turn": turn,
        "swing": swing,
        "posture": posture,
        "friction": np.full(ticks, friction),
        "force_min": np.full(ticks, 0.01 * weight),
        "force_max": np.full(ticks, 3.0 * weight),
        "effort": effort,
        "posture_weight": np.array(POSTURE_WEIGHT),
        "force_weight": np.array(FORCE_WEIGHT),
    }


class QuaddynRunner:
    """quaddyn's controller on a recording, with the interface of `Rival`.

    Args:
        robot: robot of the recording.
        r: arrays of the recording by name, see `record`.
        bounds: whether level 0 includes joint bounds.
        ramp: duration of the contact ramps at touchdown and lift-off [s].
    """

    def __init__(self, robot: qd.Robot, r: dict[str, np.ndarray], *, bounds: bool = False, ramp: float = 0.0) -> None:
        self.r, self.robot, self.dyn = r, robot, qd.Dynamics(robot)
        no_gains = {"stiffness": 0.0, "damping": 0.0}
        self.com = ComTask(robot, **no_gains)
        self.turn = FrameOrientationTask(robot, robot.bodies[0].name, "base", **no_gains)
        self.swing = [FootTask(robot, foot, **no_gains) for foot in robot.feet]
        self.posture = PostureTask(robot, weight=np.sqrt(POSTURE_WEIGHT), **no_gains)
        self.limits = TorqueLimits(robot, limits=r["effort"][0])
        level_0 = [ContactMotion(robot, damping=0.0), FrictionPyramid(), NormalForce(), self.limits]
        level_0 += [JointBounds(robot, DT)] if bounds else []
        forces = ForceTask(robot, weight=np.sqrt(FORCE_WEIGHT))
        # The faces of a pyramid that is inscribed in the cone of this coefficient have the recorded coefficient.
        mu = float(r["friction"][0]) * np.sqrt(2.0)
        contacts = [Contact(name=foot, frame=foot, friction=mu) for foot in robot.feet]
        self.wbc = qd.WholeBodyController(
            robot,
            dt=DT,
            tasks=[[self.com, self.turn, *self.swing], [self.posture, forces]],
            constraints=level_0,
            contacts=contacts,
            ramp_time=ramp,
        )
        for settings in self.wbc.contacts.values():
            settings.set_normal_force_bounds(float(r["force_min"][0]), float(r["force_max"][0]))
        self.stand = [tuple(np.array(robot.feet)[mask].tolist()) for mask in r["contacts"]]
        ticks = len(r["q"])
        self.a, self.f = np.zeros((ticks, robot.nv)), np.zeros((ticks, 4, 3))
        self.violation, self.kkt = np.zeros(ticks), np.zeros(ticks)
        self.outcomes = [""] * ticks
        self.solve, self.references = np.full(ticks, np.inf), np.full(ticks, np.inf)

    def run(self, first: int, last: int) -> None:
        """Computes ticks first ... last - 1 once and updates the minimum times."""
        r, clock, update, compute = self.r, time.perf_counter, self.dyn.update, self.wbc.compute
        for k in range(first, last):
            self.limits.limits[:] = r["effort"][k]
            q, v, feet = r["q"][k].copy(), r["v"][k].copy(), self.stand[k]
            t0 = clock()
            self.set_references(k)
            t1 = clock()
            command = compute(update(q, v), feet)
            t2 = clock()
            self.references[k], self.solve[k] = min(self.references[k], t1 - t0), min(self.solve[k], t2 - t1)
            self.a[k], self.violation[k], self.kkt[k] = (
                command.acceleration,
                command.status.violation,
                command.status.kkt,
            )
            self.outcomes[k] = command.status.outcome

    def set_references(self, k: int) -> None:
        """Sets the task references of tick k."""
        r = self.r
        self.com.reference(acceleration=r["com"][k])
        self.turn.reference(acceleration=r["turn"][k])
        for task, acceleration, in_contact in zip(self.swing, r["swing"][k], r["contacts"][k], strict=True):
            if not in_contact:
                task.reference(acceleration=acceleration)
        self.posture.reference(acceleration=r["posture"][k])


def level_1_residual(robot: qd.Robot, r: dict[str, np.ndarray], a: np.ndarray) -> np.ndarray:
    """Returns the squared residual of level 1 of every tick for given accelerations."""
    dyn, out = qd.Dynamics(robot), np.zeros(len(a))
    for k in range(len(a)):
        s = dyn.update(r["q"][k].copy(), r["v"][k].copy())
        base = robot.bodies[0].name
        rows = [s.com_jacobian @ a[k] + s.com_drift - r["com"][k]]
        rows.append(s.jacobian(base)[3:] @ a[k] + s.drift(base)[3:] - r["turn"][k])
        for i, foot in enumerate(robot.feet):
            if not r["contacts"][k, i]:
                rows.append(s.jacobian(foot)[:3] @ a[k] + s.drift(foot)[:3] - r["swing"][k, i])
        out[k] = sum(float(row @ row) for row in rows)
    return out


def statistics(times: np.ndarray) -> tuple[float, float]:
    """Returns median and 99th percentile of times [s] in microseconds."""
    return 1e6 * float(np.median(times)), 1e6 * float(np.percentile(times, 99))


def load_recorded_times() -> dict[str, Any]:
    """Reads TSID's median and 99th percentile [us] of an earlier run by robot, gait and regime, with their source."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8"))) if RECORDED.exists() else {"source": "", "times": {}}


def compare(
    robot: qd.Robot, gait: str, regime: str, options: argparse.Namespace, tsid_times: dict[str, tuple[float, ...]]
) -> list[str]:
    """Prints one block of the table, stores TSID's times and returns the requirements that are not met."""
    r = record(robot, gait, regime, options.ticks, options.seed)
    controllers = {"quaddyn": QuaddynRunner(robot, r), "  with joint bounds": QuaddynRunner(robot, r, bounds=True)}
    max_ratio, target_ratio = (ratios[regime][GAITS.index(gait)] for ratios in (MAX_TSID_RATIOS, TARGET_TSID_RATIOS))
    runners: dict[str, QuaddynRunner | Rival] = dict(controllers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.npz"
        np.savez(path, **r)
        for name in options.rivals:
            try:
                runners[name] = Rival(name, path)
            except environments.UnavailableError as reason:
                print(f"  {name} skipped: {reason}")
                if name == "tsid":
                    print(f"  ratios refer to recorded times of TSID: {load_recorded_times()['source']}")
        for controller in controllers.values():
            controller.run(0, options.ticks)  # compiles, and warms the caches
            controller.solve[:] = controller.references[:] = np.inf
        for turn in range(options.replays):
            pin_to_cpu(turn, [runner for runner in runners.values() if isinstance(runner, Rival)])
            for first in range(0, options.ticks, options.chunk):
                for runner in runners.values():
                    runner.run(first, min(first + options.chunk, options.ticks))
        recorded_answers = {name: runner.answer() for name, runner in runners.items() if isinstance(runner, Rival)}
    optimal_residuals = level_1_residual(robot, r, controllers["quaddyn"].a)
    solved = np.array([o == "solved" for o in controllers["quaddyn"].outcomes])
    tsid = recorded_answers.get("tsid")
    missed: list[str] = []
    title = f"{robot.name} {gait} {regime}"
    if tsid is not None:
        tsid_times[title] = tuple(round(value, 1) for value in statistics(tsid["solve"]))
    print(f"{robot.name} {gait} {regime}: {solved.mean():.0%} of {options.ticks} ticks solved at level 0")
    for name, controller in controllers.items():
        solve, p99 = statistics(controller.solve)
        with_references, with_references_p99 = statistics(controller.solve + controller.references)
        line = (
            f"  {name:20s} solve {solve:6.1f} (p99 {p99:6.1f})  all {with_references:6.1f} ({with_references_p99:6.1f})"
        )
        if tsid is not None:
            tsid_solve, _ = statistics(tsid["solve"])
            _, tsid_p99 = statistics(tsid["solve"] + tsid["changes"])
            tsid_with_references, _ = statistics(tsid["solve"] + tsid["references"] + tsid["changes"])
            ratio = solve / tsid_solve
            line += f"  to TSID {ratio:4.2f} / {with_references / tsid_with_references:4.2f} all"
            if name == "quaddyn":
                line += f" (limit {max_ratio:.2f}, target {target_ratio:.2f})"
            if name == "quaddyn" and ratio > max_ratio:
                missed.append(f"{robot.name} {gait} {regime}: {ratio:.3f} > {max_ratio} of TSID")
            if name == "quaddyn" and p99 > tsid_p99:
                missed.append(f"{robot.name} {gait} {regime} p99: {p99:.0f} > {tsid_p99:.0f} us")
        elif title in load_recorded_times()["times"]:
            line += f"  to recorded TSID {solve / load_recorded_times()['times'][title][0]:4.2f}"
        line += f"  KKT {controller.kkt[solved].max(initial=0.0):.0e}"
        line += f"  level 0 {controller.violation[solved].max(initial=0.0):.0e}"
        print(line)
    for name, answer in recorded_answers.items():
        solve, within = statistics(answer["solve"])
        _, p99 = statistics(answer["solve"] + answer["changes"])
        with_references, with_references_p99 = statistics(answer["solve"] + answer["references"] + answer["changes"])
        compared = answer["ok"] & solved
        excess = level_1_residual(robot, r, answer["a"])[compared] - optimal_residuals[compared]
        line = (
            f"  {name:20s} solve {solve:6.1f} (p99 {p99:6.1f} [{within:.1f}])  all {with_references:6.1f} "
            f"({with_references_p99:6.1f})"
        )
        line += f"  ok {answer['ok'].mean():4.0%}  level-1 excess: median {np.median(excess):.0e}"
        print(line + f", largest {excess.max(initial=0.0):.0e}" if compared.any() else line)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), help="names of the catalogue")
    parser.add_argument("--gaits", nargs="+", default=list(GAITS), choices=GAITS, help="gaits of the recordings")
    parser.add_argument(
        "--regimes", nargs="+", default=list(REGIMES), choices=REGIMES, help="regimes of the recordings"
    )
    parser.add_argument(
        "--rivals",
        nargs="*",
        default=list(environments.NAMES),
        choices=environments.NAMES,
        help="controllers that are compared",
    )
    parser.add_argument("--ticks", type=int, default=200, help="number of ticks of each recording (default 200)")
    parser.add_argument("--replays", type=int, default=10, help="number of replays of each tick (default 10)")
    parser.add_argument(
        "--chunk", type=int, default=25, help="number of ticks after which the controllers alternate (default 25)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the recordings")
    parser.add_argument("--save-recorded", action="store_true", help="save TSID's times for machines without TSID")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(
        f"{cpu()}; Pinocchio {pin.__version__}; times in microseconds, called from Python {platform.python_version()}"
    )
    missed: list[str] = []
    tsid_times: dict[str, tuple[float, ...]] = {}
    if "tsid" not in options.rivals:
        print(f"ratios refer to recorded times of TSID: {load_recorded_times()['source']}")
    for name in options.robots:
        robot = qd.load(name)
        for gait in options.gaits:
            for regime in options.regimes:
                missed += compare(robot, gait, regime, options, tsid_times)
                sys.stdout.flush()
    for line in missed:
        print(f"MISSED {line}")
    if options.save_recorded and tsid_times:
        source = f"this script with {environments.TSID}, Python {platform.python_version()}, on {cpu()}"
        RECORDED.write_text(json.dumps({"source": source, "times": tsid_times}, indent=1) + "\n", encoding="utf-8")
    return 1 if options.check and missed else 0


def cpu() -> str:
    """Returns the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


if __name__ == "__main__":
    sys.exit(main())
