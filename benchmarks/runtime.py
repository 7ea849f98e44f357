"""Tests the runtime with random sequences of faults and with a robot that trots in another process in real time.

    python benchmarks/runtime.py [--parts NAME ...] [--minutes 0.3] [--schedules 100000] [--rate 500] [--check]
    python benchmarks/runtime.py --parts idle trot link kill c disk --minutes 10 --check  # on an idle machine, 26 min

Parts, each of which can be left out; what they will take is said beforehand:

- ``schedules``: random faults go through the safety layer: those of tests/runtime_faults.py in the readings of a trot,
  up to three at once, and random numbers in readings and commands; no torque may be beyond a limit at the reading that
  it was computed for, and what is not finite never reaches a motor.
- ``idle``: a loop that commands nothing, on a Go2 in a second process in real time, a tenth of ``--minutes``; it comes
  before ``trot``, ``link`` and ``disk`` in any case, since it shows how the machine stalls.
- ``trot``: it stands up and trots.  Its log is then replayed: all commands must be the same bit for bit, and its file
  no larger than was reserved.
- ``link``: the same with 2 ms latency, 1 ms jitter and 1 % loss each way, made up for by ``Walker(delay=...)``.
- ``kill``: a controller is killed in mid-trot; the robot's side must be damped, with its default watchdog of 2 periods
  (of 10 in all others), the log whole up to 20 ms before.
- ``c``: a program in C stands and nods on such a robot, without Python.
- ``disk``: a log's disk, a small tmpfs, is filled up while the robot trots: the loop must go on as before, and the log
  be whole.

Periods, latencies, overruns and CPU time are those of this machine, best an idle one.  With ``--check`` the exit code
says whether all of this was as it must be, and whether robots trotted all the time, with no more overruns than one in a
thousand ticks and those that the machine is to blame for: as many as the idle run had ticks that began too late for the
computation to be in time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from runtime_faults import DT, FAULTS, recorded_trot

import quaddyn as qd
from quaddyn.runtime import (
    ControlLoop,
    Histogram,
    LinkQuality,
    LoopStatistics,
    MotorCommand,
    Operator,
    RealTimeOptions,
    Recording,
    RobotInterface,
    RobotProcess,
    Safety,
    SafetyLimits,
    SharedMemory,
    SharedMemoryInterface,
    SystemClock,
    WalkingController,
    export_program,
    load_recording,
)
from quaddyn.runtime.controller import Controller
from quaddyn.runtime.loop_statistics import BIN_WIDTH
from quaddyn.runtime.stages import Stage
from quaddyn.simulation import Measurement


def processor() -> str:
    """Its name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def damage(rng: np.random.Generator, m: Measurement, tau: np.ndarray) -> tuple[Measurement, MotorCommand]:
    """Random numbers in a reading or in a command."""
    name = ("position", "velocity", "gyro", "accelerometer", "torque", "foot_forces", "temperature")[rng.integers(7)]
    part, command = getattr(m, name).copy(), MotorCommand.from_torques(tau)
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
        command = MotorCommand.from_torques(np.where(rng.random(len(tau)) < 0.1, rng.choice([np.nan, np.inf]), tau))
    return replace(m, **{name: part}), command


def intact(m: Measurement) -> bool:
    """Whether further faults can be put into a reading."""
    return m.position.shape == (12,) and not any(part is None for part in (m.torque, m.foot_forces, m.temperature))


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
            command = MotorCommand.from_torques(tau)
            if noisy and rng.random() < noisy and intact(m):
                m, command = damage(rng, m, tau)
            given = safety.filter_command(m, command).command.validated(12)  # finite, whatever came
            examined += 1
            if m.position.shape == (12,) and np.isfinite([m.position, m.velocity]).all():
                worst = max(worst, float((np.abs(given.compute_torque(m.position, m.velocity)) / effort).max()))
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
        self._off = MotorCommand.zero(robot.nu)

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        """No torque."""
        return self._off


#: Periods for which the robot's side goes on with the last command but in ``kill``, which is about its default of 2:
#: many machines stall for a few milliseconds several times a second, and damping in mid-stride is a push.
PATIENT = 10
#: What can be asked for, in the order in which it runs.
PARTS = ("schedules", "idle", "trot", "link", "kill", "c", "disk")
#: How long a robot that is damped needs until it rests [s].
RESTED = 2.5


class Persistent(Operator):
    """Wants the robot to trot, also after it had to be damped: counts how often and why, until it trots and later."""

    def __init__(self, velocity: tuple[float, float, float]) -> None:
        super().__init__()
        self.velocity, self.loop, self.trotted = velocity, None, False
        self.attempts, self.stops = Counter[str](), Counter[str]()
        self.walk(velocity)

    def read_device(self, now: float) -> None:
        """Forget a fault, and stand up anew when the robot rests: gravity is not felt in a fall."""
        if self.loop is None:
            return
        self.trotted = self.trotted or self.loop.stage is Stage.RUN
        fault = self.loop.safety.fault
        if fault is not None and now - fault.time > RESTED:
            (self.stops if self.trotted else self.attempts)[str(fault)] += 1
            self.reset()
            self.walk(self.velocity)


class AccountingClock(SystemClock):
    """Counts ticks of a loop that took more CPU time than a period has: their overruns are nobody else's."""

    def __init__(self, dt: float) -> None:
        super().__init__()
        self.heavy, self._dt, self._since = 0, dt, np.inf

    def sleep_until(self, time: float) -> None:
        """A tick ends here, and the next one begins."""
        self.heavy += int(thread_time() - self._since > self._dt)
        super().sleep_until(time)
        self._since = thread_time()


def loop_on(
    side: RobotInterface, dt: float, file: Path, *, idle: bool = False, kept: float = 10.0, delay: float = 0.0
) -> tuple[ControlLoop, Operator, Controller]:
    """A loop with all that belongs to it, on a robot in another process; its log goes back `kept` seconds."""
    robot, operator = side.robot, Operator() if idle else Persistent((0.3, 0.0, 0.0))
    controller: Controller = Idle(robot, dt) if idle else WalkingController(robot, dt=dt, delay=delay)
    recording = Recording(file, robot, controller=controller, seconds=kept)
    # With a link between, measured torques answer commands of some ticks ago.
    safety = Safety(robot, dt=dt, limits=SafetyLimits(max_torque_tracking_error=1e9, max_reading_age=0.05))
    real = RealTimeOptions(priority=50, lock_memory=True)
    # A machine that is busy with other things misses deadlines in bursts: here they are counted, not answered.
    loop = ControlLoop(
        side,
        controller,
        operator=operator,
        safety=safety,
        clock=AccountingClock(dt),
        real_time=real,
        recorder=recording,
        overrun="repeat",
    )
    if isinstance(operator, Persistent):
        operator.loop = loop
    return loop, operator, controller


def histogram(times: Histogram) -> str:
    """How many of a loop's times lie in ranges, in microseconds."""
    edges = [0, 20, 50, 100, 200, 500, 1000, 2000, 5000, 20000]
    shares = [int(times.counts[low:high].sum()) for low, high in pairwise(edges)] + [int(times.counts[20000:].sum())]
    words = [f"below {high}: {n}" for high, n in zip(edges[1:], shares, strict=False)] + [f"beyond: {shares[-1]}"]
    return ", ".join(words)


def stalled(found: LoopStatistics, idle: LoopStatistics, dt: float) -> float:
    """How many overruns a loop would have by the machine's stalls alone, as the idle loop shows them."""
    slack = dt - found.compute.quantile(0.5)
    late = int(idle.latency.counts[max(int(slack / BIN_WIDTH), 0) :].sum())
    return found.ticks * late / max(idle.ticks, 1)


def real_time(
    name: str, minutes: float, dt: float, quality: LinkQuality, *, idle: list[LoopStatistics], replay: bool = False
) -> bool:
    """A loop in this process, the robot in another one; whether it kept time and trotted throughout.

    The first one is idle, and its statistics are put into `idle`.
    """
    resting = not idle
    # A reading takes the link's mean delay to come, and its command as long to go.
    delay = 2.0 * (quality.latency + 0.5 * quality.jitter) + dt if quality.latency else 0.0
    began, seconds = os.times(), 60.0 * minutes
    with RobotProcess("go2", dt=dt, link_quality=quality, watchdog=PATIENT, plant="mujoco", priority=60) as process:
        side, file = process.interface(), process.path.with_suffix(".qdlog")
        kept = seconds + 10.0 if replay else 10.0
        loop, operator, controller = loop_on(side, dt, file, idle=resting, kept=kept, delay=delay)
        time.sleep(RESTED)  # without commands the robot has lain down meanwhile
        report = loop.run(seconds)
        status, believed, found = process.status(), controller.estimated_state, report.statistics
        attempts, stops = (getattr(operator, name, Counter[str]()) for name in ("attempts", "stops"))
        walked = "" if believed is None else f", {controller.status}, {np.hypot(*believed[0][:2]):.2f} m from the start"
        print(f"\n{name}: {1.0 / dt:g} Hz for {minutes:g} min{walked}\n{report}")
        for what in ("latency", "compute"):
            print(f"{what} [us]: {histogram(getattr(found, what))}")
        print(
            f"robot's side: {status['late']:.0f} of {status['ticks']:.0f} periods late, "
            f"{status['silences']:.0f} silences of 2 periods or more"
        )
        assert isinstance(loop.clock, AccountingClock)
        allowed = 1e-3 * found.ticks
        if resting:
            idle.append(found)
        else:
            machine = stalled(found, idle[0], dt)
            allowed += machine
            print(
                f"overruns: {found.overruns}, {loop.clock.heavy} with more CPU time than a period has; the machine's "
                f"stalls, as in the idle run, would make {machine:.0f}"
            )
        for what, whys in (("before it trotted", attempts), ("while it trotted", stops)):
            print(f"  stopped {what}: " + (", ".join(f"{n} times, {why}" for why, n in whys.items()) or "never"))
        side.close()
    ended = os.times()
    # Compiling and warming up are in it; they are short beside minutes.
    own, other = (sum(ended[k] - began[k] for k in of) / (ended.elapsed - began.elapsed) for of in ((0, 1), (2, 3)))
    print(f"CPU: {100.0 * own:.0f} % of a processor for the loop, {100.0 * other:.0f} % for the robot", flush=True)
    trotted = resting or (report.stage is Stage.RUN and not stops)
    same = not replay or replayed(file, found.ticks)
    file.unlink()
    return same and trotted and report.fault is None and found.overruns <= allowed


def program_in_c(seconds: float, dt: float) -> bool:
    """A controller without Python on a robot in another process; whether it drove it all the time."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("\nprogram in C: not tried, there is no compiler")
        return False
    with TemporaryDirectory() as folder, contextlib.ExitStack() as undo:
        export_program(qd.WholeBodyController(qd.load("go2"), dt=dt), folder, name="go2")
        program, sources = str(Path(folder) / "go2_drive"), sorted(map(str, Path(folder).glob("*.c")))
        subprocess.run([compiler, "-std=c99", "-O2", *sources, "-lm", "-o", program], check=True)
        process = undo.enter_context(RobotProcess("go2", dt=dt, watchdog=PATIENT, plant="mujoco", priority=60))
        # Priority as of the loop; where that is not permitted, without.
        ranked, chrt = [], shutil.which("chrt")
        if chrt is not None and not subprocess.run([chrt, "-f", "50", "true"], capture_output=True).returncode:
            ranked = [chrt, "-f", "50"]
        time.sleep(RESTED)
        began = os.times()
        done = subprocess.run(
            [*ranked, program, str(process.path), str(seconds)], capture_output=True, encoding="utf-8"
        )
        ended = os.times()
        share = sum(ended[k] - began[k] for k in (2, 3)) / (ended.elapsed - began.elapsed)
        print(f"\nprogram in C: {1.0 / dt:g} Hz for {seconds:g} s, {100.0 * share:.0f} % of a processor")
        print(f"  {done.stdout.strip() or done.stderr.strip()}")
    return done.returncode == 0 and "no fault" in done.stdout and "stopped 0 times" in done.stdout


def full_disk(seconds: float, dt: float, idle: list[LoopStatistics]) -> bool:
    """A trot whose log lies on a tmpfs that is filled up in its midst; whether loop and log are as if it were not."""
    with TemporaryDirectory() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, encoding="utf-8"
        )
        if mounted.returncode:
            print(f"\nfull disk: not tried, a tmpfs may not be mounted here: {mounted.stderr.strip()}")
            return False
        try:
            return _filled(Path(folder), seconds, dt, idle[0])
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)  # the log may still be mapped


def _filled(disk: Path, seconds: float, dt: float, idle: LoopStatistics) -> bool:
    with RobotProcess("go2", dt=dt, watchdog=PATIENT, plant="mujoco", priority=60) as process:
        side = process.interface()
        loop, operator, _ = loop_on(side, dt, disk / "run.qdlog")
        before = loop.run(seconds).statistics

        def fill() -> None:
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    pass

        filling = threading.Timer(0.2 * seconds, fill)
        filling.start()
        report = loop.run(seconds)
        filling.join()
        free, found = shutil.disk_usage(disk).free, report.statistics
        log = load_recording(disk / "run.qdlog")
        gaps = int((np.diff(log.records["last"]) != 1).sum())
        machine = stalled(found, idle, dt)
        print(
            f"\nfull disk: {found.overruns} overruns of {found.ticks} ticks, {before.overruns} before it was full; "
            f"the machine's stalls, as in the idle run, would make {machine:.0f}"
        )
        print(
            f"  {free} bytes free, the log has {len(log)} ticks to the last one, {gaps} gaps; {log.stages[-1].value!r}"
        )
        stops = sum(operator.stops.values()) if isinstance(operator, Persistent) else 0
        whole = not gaps and log.records["last"][-1] == before.ticks + found.ticks and loop.recording_error is None
        side.close()
    allowed = before.overruns + 1e-3 * found.ticks + machine
    return bool(whole and not free and not stops and found.overruns <= allowed)


def drive(path: str, file: str, dt: float) -> None:
    """What runs in the process that is killed: stand up and trot, for good."""
    side = SharedMemoryInterface(qd.load("go2"), path)
    loop, _, _ = loop_on(side, dt, Path(file))
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
        answered = memory.read_command()
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
    if log.stages[-1] is not Stage.RUN:
        print("  it had not come to trot")
    return bool(status["fault"]) and missing <= 0.02 and log.stages[-1] is Stage.RUN


def replayed(file: Path, ticks: int) -> bool:
    """A log of so many ticks fed to its controller once more; whether all of it is there, and the same."""
    size, log = file.stat().st_size, load_recording(file)
    began, at = time.perf_counter(), time.process_time()
    again = log.replay()
    cost, took = 1e6 * (time.process_time() - at) / max(again.ticks, 1), time.perf_counter() - began
    per_tick = log.records.dtype.itemsize
    reserved = round(ticks + 10.0 / log.metadata["dt"]) * per_tick
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"replay of {len(log)} ticks: {again.ticks} computed again in {took:.0f} s, {again.n_different} differ; "
        f"{cost:.0f} us a tick"
    )
    print(
        f"  the file has {size / 1e6:.1f} MB, {per_tick} bytes a tick; memory at most {most:.0f} MB, log included",
        flush=True,
    )
    return again.identical and len(log) == ticks and size - reserved < 0.1 * reserved + 1e6 and again.ticks > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the schedules")
    parser.add_argument("--minutes", type=float, default=0.3, help="of each trot in real time")
    parser.add_argument("--rate", type=float, default=500.0, help="[Hz]")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--drive", metavar="MEMORY", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive, options.log, 1.0 / options.rate)
        return 0
    bad = LinkQuality(latency=2e-3, jitter=1e-3, loss=0.01)
    dt, minutes = 1.0 / options.rate, options.minutes
    short = min(10.0, 60.0 * minutes)
    # What each does, and about how long it takes [s]: beside the runs, a process starts and compiles.
    idle: list[LoopStatistics] = []
    parts: dict[str, tuple[Callable[[], bool], float]] = {
        "schedules": (lambda: schedules(options.schedules, options.seed), 4e-3 * options.schedules),
        "idle": (lambda: real_time("idle", 0.1 * minutes, dt, LinkQuality(), idle=idle), 6.0 * minutes + 8.0),
        "trot": (
            lambda: real_time("trot", minutes, dt, LinkQuality(), idle=idle, replay=True),
            60.0 * minutes * (1.0 + 8e-4 / dt) + 15.0,
        ),
        "link": (lambda: real_time("trot over a bad link", minutes, dt, bad, idle=idle), 60.0 * minutes + 10.0),
        "kill": (lambda: killed(dt), 25.0),
        "c": (lambda: program_in_c(short, dt), short + 15.0),
        "disk": (lambda: full_disk(short, dt, idle), 2.0 * short + 15.0),
    }
    timed = {"trot", "link", "disk"} & set(options.parts)
    chosen = [name for name in PARTS if name in options.parts or (name == "idle" and timed)]
    whole = sum(parts[name][1] for name in chosen)
    print(
        f"{processor()}, load {os.getloadavg()[0]:.1f}; {len(chosen)} parts, about {whole / 60.0:.1f} min", flush=True
    )
    began, verdicts = time.monotonic(), dict[str, bool]()
    for i, name in enumerate(chosen):
        passed = time.monotonic() - began
        about = parts[name][1] / 60.0
        print(f"\n[{passed / 60.0:.1f} min] part {i + 1} of {len(chosen)}, {name}: about {about:.1f} min", flush=True)
        verdicts[name] = parts[name][0]()
    print("\n" + ", ".join(f"{name}: {'passed' if good else 'FAILED'}" for name, good in verdicts.items()))
    return int(options.check and not all(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
