"""The runtime at work: random fault schedules, and a robot that trots in another process in real time.

    python benchmarks/runtime.py [--schedules 100000] [--seconds 20] [--rate 500] [--check]

First, schedules of random faults (stuck, flipped, swapped, scaled, noisy, late and missing readings, wild commands)
go through the safety layer; no torque may be beyond a limit at the reading that it was computed for, and what is not
finite never reaches a motor.  Then a Go2 in a second process stands up and trots, without and with 2 ms latency, 1 ms
jitter and 1 % loss, beside an idle loop: periods, latencies and overruns are those of this machine.  With ``--check``
the exit code says whether all torques were within limits.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.runtime import (
    LinkQuality,
    Loop,
    MotorCommand,
    Operator,
    RealTime,
    Recording,
    RobotProcess,
    Safety,
    SafetyLimits,
    Walker,
)
from quaddyn.runtime.controller import Controller
from quaddyn.runtime.stages import Stage
from quaddyn.simulation import Measurement

DT = 2e-3


def processor() -> str:
    """Its name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def damage(rng: np.random.Generator, m: Measurement, tau: np.ndarray, kept: Measurement) -> tuple[Measurement, object]:
    """A random fault of a reading or of a command."""
    parts = {name: getattr(m, name).copy() for name in ("position", "velocity", "gyro", "accelerometer")}
    name = ("position", "velocity", "gyro", "accelerometer")[rng.integers(4)]
    at, kind = rng.integers(len(parts[name])), rng.integers(9)
    command = MotorCommand.torques(tau)
    if kind == 0:
        parts[name][at] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e12, 0.0])
    elif kind == 1:
        parts[name] = getattr(kept, name).copy()
    elif kind == 2:
        parts[name][at] *= -1.0
    elif kind == 3:
        parts[name] = rng.permutation(parts[name])
    elif kind == 4:
        parts[name] *= rng.normal(1.0, 3.0)
    elif kind == 5:
        parts[name] += rng.normal(0.0, 10.0 ** rng.uniform(-3.0, 3.0), parts[name].shape)
    elif kind == 6:
        return kept, command  # late
    elif kind == 7:
        wild = 10.0 ** rng.uniform(0.0, 300.0) * rng.standard_normal((4, len(tau)))
        command = MotorCommand(tau * 10.0 ** rng.uniform(0.0, 6.0), wild[0], wild[1], abs(wild[2]), abs(wild[3]))
    else:
        command = MotorCommand.torques(np.where(rng.random(len(tau)) < 0.1, rng.choice([np.nan, np.inf]), tau))
    return Measurement(m.time, **parts), command


def schedules(count: int, ticks: int = 12) -> bool:
    """Random faults that begin, mix and end at random; whether all torques were within limits."""
    robot, rng = qd.load("go2"), np.random.default_rng(0)
    safety, effort = Safety(robot, dt=DT), robot.effort_limits
    home, worst, named, damped = robot.q_home[7:], 0.0, set(), 0
    began = time.process_time()
    for _ in range(count):
        safety.reset()
        position, velocity = home + rng.normal(0.0, 0.2, 12), rng.normal(0.0, 3.0, 12)
        kept, first = None, rng.integers(1, 4)
        for k in range(ticks):
            noise = rng.standard_normal((2, 3))
            position = position + DT * velocity
            m = Measurement(DT * k, position, velocity, 0.1 * noise[0], 0.1 * noise[1] + [0.0, 0.0, 9.81])
            tau, kept = rng.normal(0.0, 10.0, 12), m if kept is None else kept
            command = MotorCommand.torques(tau)
            if k >= first and rng.random() < 0.5:
                with np.errstate(all="ignore"):
                    m, command = damage(rng, m, tau, kept)
            given = safety.examine(m, command).command.checked(12)  # finite, whatever came
            if np.isfinite(m.position).all() and np.isfinite(m.velocity).all():
                with np.errstate(all="ignore"):
                    share = np.abs(given.torque_at(m.position, m.velocity)) / effort
                worst = max(worst, float(share.max()))
        if safety.fault is not None:
            damped += 1
            named.add(safety.fault.name)
    cost = 1e6 * (time.process_time() - began) / (count * ticks)
    print(f"{count} random schedules of {ticks} ticks: {damped} ended in damping, {len(named)} kinds of faults named")
    print(f"largest torque at the reading it was computed for: {worst:.9f} of the limit; {cost:.0f} us per tick")
    return worst <= 1.0 + 1e-9


class Idle(Controller):
    """Asks for nothing."""

    def __init__(self, robot: qd.Robot, dt: float) -> None:
        self.robot, self.dt = robot, dt
        self._off = MotorCommand.off(robot.nu)

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        """No torque."""
        return self._off


def real_time(name: str, seconds: float, dt: float, quality: LinkQuality, *, idle: bool = False) -> None:
    """A loop in this process, the robot in another one."""
    with RobotProcess("go2", dt=dt, quality=quality, watchdog=10, plant="mujoco") as process:
        side, operator = process.interface(), Operator()
        controller = Idle(process.robot, dt) if idle else Walker(process.robot, dt=dt)
        file = process.path.with_suffix(".qdlog")
        recording = Recording(file, process.robot, controller=controller, seconds=10.0)
        # With a link between, measured torques answer commands of some ticks ago.
        safety = Safety(process.robot, dt=dt, limits=SafetyLimits(following=1e9, stale=0.05))
        real = RealTime(priority=50, lock_memory=True)
        loop = Loop(side, controller, operator=operator, safety=safety, real_time=real, recorder=recording)
        loop.run(1.0)
        operator.run((0.3, 0.0, 0.0))
        report = loop.run(seconds)
        status = process.status()
        mode = (
            "" if idle else f", {controller.locomotion.mode.value}, x = {controller.estimator._p[0]:+.2f} m estimated"
        )
        print(f"\n{name}: {1.0 / dt:g} Hz for {seconds:g} s{mode}\n{report}")
        print(f"robot's side: {status['late']:.0f} of {status['ticks']:.0f} periods late")
        recording.close()
        side.close()
        file.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each real-time run; 0 for none")
    parser.add_argument("--rate", type=float, default=500.0, help="[Hz]")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print(processor())
    sound = schedules(options.schedules)
    if options.seconds > 0.0:
        bad = LinkQuality(latency=2e-3, jitter=1e-3, loss=0.01)
        real_time("idle", options.seconds, 1.0 / options.rate, LinkQuality(), idle=True)
        real_time("trot", options.seconds, 1.0 / options.rate, LinkQuality())
        real_time("trot over a bad link", options.seconds, 1.0 / options.rate, bad)
    return int(options.check and not sound)


if __name__ == "__main__":
    sys.exit(main())
