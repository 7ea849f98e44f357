"""The runtime at work: random fault schedules, and a robot that trots in another process in real time.

    python benchmarks/runtime.py [--schedules 100000] [--seconds 20] [--replay 60] [--rate 500] [--check]

First, schedules of random faults go through the safety layer: those of tests/runtime_faults.py in the readings of a
trot, up to three at once, and random numbers in readings and commands; no torque may be beyond a limit at the reading
that it was computed for, and what is not finite never reaches a motor.  Then a Go2 in a second process stands up and
trots, without and with 2 ms latency, 1 ms jitter and 1 % loss, beside an idle loop: periods, latencies and overruns are
those of this machine.  A controller is killed in mid-trot: the robot's side must be damped, and the log whole up to
20 ms before.  A log of a simulated trot is replayed: all commands must be the same bit for bit.  With ``--check`` the
exit code says whether torques, replay and kill were as they must be.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from runtime_faults import DT, FAULTS, recorded_trot

import quaddyn as qd
from quaddyn.runtime import (
    LinkQuality,
    Loop,
    MotorCommand,
    Operator,
    PlantInterface,
    RealTime,
    Recording,
    RobotInterface,
    RobotProcess,
    Safety,
    SafetyLimits,
    SharedMemory,
    SharedMemoryInterface,
    Walker,
    load_recording,
)
from quaddyn.runtime.controller import Controller
from quaddyn.runtime.simulated import noisy_sensors
from quaddyn.runtime.stages import Stage
from quaddyn.simulation import Measurement


def processor() -> str:
    """Its name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def damage(rng: np.random.Generator, m: Measurement, tau: np.ndarray) -> tuple[Measurement, MotorCommand]:
    """Random numbers in a reading or in a command."""
    name = ("position", "velocity", "gyro", "accelerometer", "torque", "foot_forces", "temperature")[rng.integers(7)]
    part, command = getattr(m, name).copy(), MotorCommand.torques(tau)
    at, kind = rng.integers(len(part)), rng.integers(6)
    if kind == 0:
        part[at] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e12, 0.0])
    elif kind == 1:
        part = rng.permutation(part)
    elif kind == 2:
        part *= rng.normal(1.0, 3.0)
    elif kind == 3:
        part += rng.normal(0.0, 10.0 ** rng.uniform(-3.0, 3.0), part.shape)
    elif kind == 4:
        wild = 10.0 ** rng.uniform(-2.0, 300.0) * rng.standard_normal((4, len(tau)))
        command = MotorCommand(tau * 10.0 ** rng.uniform(0.0, 6.0), wild[0], wild[1], abs(wild[2]), abs(wild[3]))
    else:
        command = MotorCommand.torques(np.where(rng.random(len(tau)) < 0.1, rng.choice([np.nan, np.inf]), tau))
    return replace(m, **{name: part}), command


def intact(m: Measurement) -> bool:
    """Whether further faults can be put into a reading."""
    return m.position.shape == (12,) and m.torque is not None


@np.errstate(all="ignore")
def schedules(count: int, seed: int, ticks: int = 24) -> bool:
    """Faults that begin, mix and end at random in a trot; whether all torques were within limits."""
    robot, rng = qd.load("go2"), np.random.default_rng(seed)
    trot, changes = recorded_trot(robot), [fault.change for fault in FAULTS.values()]
    safety, effort = Safety(robot, dt=DT), robot.effort_limits
    worst, named, damped, examined = 0.0, Counter[str](), 0, 0
    began = time.process_time()
    for _ in range(count):
        safety.reset()
        start = rng.integers(len(trot) - ticks)
        # Which faults, when they begin and end, and how often numbers are random.
        chosen = rng.integers(len(changes), size=rng.integers(1, 4))
        spans = np.sort(rng.integers(ticks + 1, size=(len(chosen), 2)))
        noisy = rng.choice([0.0, 0.0, 0.02, 0.5])
        for k in range(ticks):
            m, tau = trot[start + k]
            for change, (first, last) in zip(chosen, spans, strict=True):
                if first <= k < last and intact(m):
                    m, tau = changes[change](m, tau, k - first, trot[start + first][0])
            command = MotorCommand.torques(tau)
            if noisy and rng.random() < noisy and intact(m):
                m, command = damage(rng, m, tau)
            given = safety.examine(m, command).command.checked(12)  # finite, whatever came
            examined += 1
            if m.position.shape == (12,) and np.isfinite([m.position, m.velocity]).all():
                worst = max(worst, float((np.abs(given.torque_at(m.position, m.velocity)) / effort).max()))
        if safety.fault is not None:
            damped += 1
            named[safety.fault.name] += 1
    cost = 1e6 * (time.process_time() - began) / examined
    print(
        f"{count} random schedules of {ticks} ticks: {damped} ended in damping, "
        f"{cost:.0f} us a tick with what makes the faults"
    )
    print("  " + ", ".join(f"{name} {n}" for name, n in named.most_common()))
    print(f"  largest torque at the reading it was computed for: {worst:.12f} of the limit, none that is not finite")
    return worst <= 1.0 + 1e-9


class Idle(Controller):
    """Asks for nothing."""

    def __init__(self, robot: qd.Robot, dt: float) -> None:
        self.robot, self.dt = robot, dt
        self._off = MotorCommand.off(robot.nu)

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        """No torque."""
        return self._off


def loop_on(side: RobotInterface, dt: float, file: Path, *, idle: bool = False) -> tuple[Loop, Operator, Controller]:
    """A loop with all that belongs to it, on a robot in another process."""
    robot, operator = side.robot, Operator()
    controller: Controller = Idle(robot, dt) if idle else Walker(robot, dt=dt)
    recording = Recording(file, robot, controller=controller, seconds=10.0)
    # With a link between, measured torques answer commands of some ticks ago.
    safety = Safety(robot, dt=dt, limits=SafetyLimits(following=1e9, stale=0.05))
    real = RealTime(priority=50, lock_memory=True)
    # A machine that is busy with other things misses deadlines in bursts: here they are counted, not answered.
    loop = Loop(
        side, controller, operator=operator, safety=safety, real_time=real, recorder=recording, overrun="repeat"
    )
    return loop, operator, controller


def real_time(name: str, seconds: float, dt: float, quality: LinkQuality, *, idle: bool = False) -> bool:
    """A loop in this process, the robot in another one; whether it ended without a fault."""
    with RobotProcess("go2", dt=dt, quality=quality, watchdog=10, plant="mujoco", priority=60) as process:
        side, file = process.interface(), process.path.with_suffix(".qdlog")
        loop, operator, controller = loop_on(side, dt, file, idle=idle)
        if not idle:
            operator.run((0.3, 0.0, 0.0))
        report = loop.run(seconds)
        status, believed = process.status(), controller.estimate
        walked = "" if believed is None else f", {controller.status}, at x = {believed[0][0]:+.2f} m as it believes"
        print(f"\n{name}: {1.0 / dt:g} Hz for {seconds:g} s{walked}\n{report}")
        print(f"robot's side: {status['late']:.0f} of {status['ticks']:.0f} periods late")
        side.close()
        file.unlink()
    return report.fault is None


def drive(path: str, file: str, dt: float) -> None:
    """What runs in the process that is killed: stand up and trot, for good."""
    side = SharedMemoryInterface(qd.load("go2"), path)
    loop, operator, _ = loop_on(side, dt, Path(file))
    operator.run((0.3, 0.0, 0.0))
    loop.run()


def killed(dt: float, watchdog: int = 2, seconds: float = 5.0) -> bool:
    """SIGKILL for a controller in mid-trot: when the robot damps, and how much of the log is there."""
    with RobotProcess("go2", dt=dt, watchdog=watchdog, plant="mujoco", priority=60) as process:
        memory = SharedMemory(process.path, 12, 4)
        file = process.path.with_suffix(".qdlog")
        call = ["--drive", str(process.path), "--log", str(file), "--rate", str(1.0 / dt)]
        controller = subprocess.Popen([sys.executable, __file__, *call])
        give_up = time.monotonic() + 90.0
        while time.monotonic() < give_up and controller.poll() is None:
            time.sleep(0.2)
            log = load_recording(file) if file.exists() and file.stat().st_size else None
            if (
                log is not None
                and len(log)
                and log.stages[-1] is Stage.RUN
                and log.stages.count(Stage.RUN) * dt > seconds
            ):
                break
        lost = bool(process.status()["fault"])
        controller.kill()
        controller.wait()
        answered = memory.command()
        time.sleep(20.0 * watchdog * dt)
        status, log = process.status(), load_recording(file)
        missing = (answered[1] if answered else np.nan) - log.records["time"][-1]
        gaps = int((np.diff(log.records["last"]) != 1).sum())
        words = f"watchdog of {watchdog} periods of {1e3 * dt:g} ms"
        print(f"\nkilled in {log.stages[-1].value!r} after {log.records['last'][-1]} ticks; {words}")
        if lost:
            print("  the watchdog had damped the robot before: this machine kept the controller waiting")
        print(f"  {status['silent']:.0f} periods later: damped {bool(status['fault'])}")
        print(f"  the log ends {1e3 * missing:.1f} ms before the last command, {len(log)} ticks, {gaps} gaps")
        memory.close()
        file.unlink()
    return bool(status["fault"]) and missing <= 0.02


def replayed(seconds: float) -> bool:
    """A trot of a simulated robot on noisy sensors, not in real time, and its replay; whether it is the same."""
    robot = qd.load("go2")
    side = PlantInterface(qd.Simulation(robot, dt=DT), sensors=noisy_sensors(robot))
    walker, operator, rng = Walker(robot, dt=DT), Operator(), np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.qdlog"
        recording = Recording(file, robot, controller=walker, seconds=seconds + 10.0)
        loop = Loop(side, walker, operator=operator, clock=side, recorder=recording)
        left, fault = seconds, None
        while left > 0.0 and fault is None:
            operator.run(rng.uniform(-1.0, 1.0, 3) * [0.3, 0.15, 0.5])
            fault = loop.run(min(left, 10.0)).fault
            left -= 10.0
        log = load_recording(file)
        began = time.process_time()
        again = log.replay()
    cost = 1e6 * (time.process_time() - began) / max(again.ticks, 1)
    print(
        f"\nreplay of {len(log)} ticks ({fault or 'no fault'}): {again.ticks} computed again, "
        f"{again.differing} differ; {cost:.0f} us a tick"
    )
    return again.identical and fault is None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each real-time run; 0 for none")
    parser.add_argument("--replay", type=float, default=60.0, help="length of the log that is replayed [s]; 0 for none")
    parser.add_argument("--rate", type=float, default=500.0, help="[Hz]")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--drive", metavar="MEMORY", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive, options.log, 1.0 / options.rate)
        return 0
    print(processor())
    sound = schedules(options.schedules, options.seed)
    if options.replay > 0.0:
        sound = replayed(options.replay) and sound
    if options.seconds > 0.0:
        bad = LinkQuality(latency=2e-3, jitter=1e-3, loss=0.01)
        dt = 1.0 / options.rate
        real_time("idle", options.seconds, dt, LinkQuality(), idle=True)
        real_time("trot", options.seconds, dt, LinkQuality())
        real_time("trot over a bad link", options.seconds, dt, bad)
        sound = killed(dt) and sound
    return int(options.check and not sound)


if __name__ == "__main__":
    sys.exit(main())
