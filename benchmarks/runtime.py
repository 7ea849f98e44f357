"""Tests the runtime with random sequences of faults, and in real time with a robot in a second process.

    python benchmarks/runtime.py [--parts NAME ...] [--minutes 0.3] [--schedules 100000] [--rate 500] [--check]
    python benchmarks/runtime.py --parts idle trot link kill c disk --minutes 10 --check  # on an idle machine, 26 min

Parts, each of which can be omitted; the expected duration is printed before each part:

- ``schedules``: passes random faults through the safety layer: up to three faults of tests/runtime_faults.py at once in
  the readings of a trot, and random numbers in readings and commands.  Required is that no torque exceeds a limit at
  the reading for which it was computed, and that no value that is not finite is sent to a motor.
- ``idle``: runs a loop that commands zero torques, on a Go2 in a second process, for a tenth of ``--minutes``.  It
  always runs before ``trot``, ``link`` and ``disk``, because it measures the stalls of the machine.
- ``trot``: the robot stands up and trots.  99.9 % of the ticks must take at most 500 us of processor time.  The log is
  then replayed: required are identical commands, bit for bit, a file that is not larger than the reserved space, and
  that no tick takes more processor time than a period both in the run and in the replay, which would be an overrun of
  the loop's own doing.
- ``link``: the same with 2 ms latency, 1 ms jitter and 1 % loss in each direction, compensated by the controller's
  ``delay``.
- ``kill``: kills the controller during a trot.  Required are damping by the robot's process, with the default watchdog
  of 2 periods (10 in all other parts), and a complete log up to 20 ms before the end.
- ``c``: a C program controls the robot without Python; it stands and nods.
- ``walker``: a C program controls the robot without Python; it walks, for ``--minutes``.
- ``disk``: fills the disk of the log, a small tmpfs, while the robot trots.  Required are an unaffected loop and a
  complete log.

Periods, latencies, overruns and processor times depend on the machine, which should be otherwise idle.  With
``--check`` the exit code is 1 if one of these requirements is not met, if a robot did not trot all the time, or if
there were more overruns than one per thousand ticks plus those explained by stalls of the machine: the number of ticks
of the idle run that began too late to complete the computation in time.
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
from typing import Any

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
from quaddyn.runtime.walking_controller import make_walking_controller
from quaddyn.simulation import Measurement


def cpu_name() -> str:
    """Returns the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def insert_random_numbers(
    rng: np.random.Generator, m: Measurement, tau: np.ndarray
) -> tuple[Measurement, MotorCommand]:
    """Inserts random numbers into a reading or a command."""
    name = ("position", "velocity", "gyro", "accelerometer", "torque", "foot_forces", "temperature")[rng.integers(7)]
    values, command = getattr(m, name).copy(), MotorCommand.from_torques(tau)
    index, kind = rng.integers(len(values)), rng.integers(6)
    if kind == 0:
        values[index] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e12, 0.0])
    elif kind == 1:
        values = rng.permutation(values)
    elif kind == 2:
        values *= rng.normal(1.0, 3.0)
    elif kind == 3:
        values += rng.normal(0.0, 10.0 ** rng.uniform(-3.0, 3.0), values.shape)
    elif kind == 4:
        gains = 10.0 ** rng.uniform(-2.0, 300.0) * rng.standard_normal((4, len(tau)))
        command = MotorCommand(tau * 10.0 ** rng.uniform(0.0, 6.0), gains[0], gains[1], abs(gains[2]), abs(gains[3]))
    else:
        command = MotorCommand.from_torques(np.where(rng.random(len(tau)) < 0.1, rng.choice([np.nan, np.inf]), tau))
    return replace(m, **{name: values}), command


def is_complete_reading(m: Measurement) -> bool:
    """Returns whether a reading has all values, so that further faults can be inserted."""
    return m.position.shape == (12,) and not any(part is None for part in (m.torque, m.foot_forces, m.temperature))


@np.errstate(all="ignore")
def check_fault_schedules(n_schedules: int, seed: int, ticks: int = 24) -> bool:
    """Passes random fault sequences through the safety layer; returns whether all torques were within limits."""
    robot, rng = qd.load("go2"), np.random.default_rng(seed)
    trot, fault_changes = recorded_trot(robot), [fault.change for fault in FAULTS.values()]
    safety, effort = Safety(robot, dt=DT), robot.effort_limits
    max_fraction, fault_counts, n_damped, n_checked = 0.0, Counter[str](), 0, 0
    begin_time = time.process_time()
    for _ in range(n_schedules):
        safety.reset()
        start = rng.integers(len(trot) - ticks)
        # Draw the faults, their intervals, and the probability of random numbers.
        faults = rng.integers(len(fault_changes), size=rng.integers(1, 4))
        intervals = np.sort(rng.integers(ticks + 1, size=(len(faults), 2)))
        noise_probability = rng.choice([0.0, 0.0, 0.02, 0.5])
        for k in range(ticks):
            m, tau = trot[start + k]
            for change, (first, last) in zip(faults, intervals, strict=True):
                if first <= k < last and is_complete_reading(m):
                    m, tau = fault_changes[change](m, tau, k - first, trot[start + first][0])
            command = MotorCommand.from_torques(tau)
            if noise_probability and rng.random() < noise_probability and is_complete_reading(m):
                m, command = insert_random_numbers(rng, m, tau)
            filtered = safety.filter_command(m, command).command.validated(12)  # finite for any input
            n_checked += 1
            if m.position.shape == (12,) and np.isfinite([m.position, m.velocity]).all():
                max_fraction = max(
                    max_fraction, float((np.abs(filtered.compute_torque(m.position, m.velocity)) / effort).max())
                )
        if safety.fault is not None:
            n_damped += 1
            fault_counts[safety.fault.name] += 1
    microseconds = 1e6 * (time.process_time() - begin_time) / n_checked
    print(
        f"{n_schedules} random schedules of {ticks} ticks: {n_damped} ended in damping; "
        f"{microseconds:.0f} us per tick, generation of faults included"
    )
    print("  " + ", ".join(f"{name} {n}" for name, n in fault_counts.most_common()))
    print(f"  largest torque at the reading for which it was computed: {max_fraction:.12f} of the limit; all finite")
    return max_fraction <= 1.0 + 1e-9


class IdleController(Controller):
    """Controller that commands zero torques."""

    def __init__(self, robot: qd.Robot, dt: float) -> None:
        self.robot, self.dt = robot, dt
        self._off = MotorCommand.zero(robot.nu)

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        """Returns zero torques."""
        return self._off


#: Periods without a command after which the watchdog damps the robot, except in ``kill``, which tests the default of 2.
#: Many machines stall for a few milliseconds several times a second, and damping during a stride disturbs the gait.
WATCHDOG_PERIODS = 10
#: Processor time of 99.9 % of the ticks, at most [us].
MAX_TICK_TIME = 500.0
#: Parts in the order in which they run.
PARTS = ("schedules", "idle", "trot", "link", "kill", "c", "walker", "disk")
#: Time until a damped robot is at rest [s].
DAMPING_TIME = 2.5


class PersistentOperator(Operator):
    """Operator that commands a trot, also after a fault, and counts faults by reason, before and during the trot."""

    def __init__(self, velocity: tuple[float, float, float]) -> None:
        super().__init__()
        self.velocity, self.loop, self.trotted = velocity, None, False
        self.stops_before_trot, self.stops_during_trot = Counter[str](), Counter[str]()
        self.walk(velocity)

    def read_device(self, now: float) -> None:
        """Resets a fault and stands up again when the robot is at rest: gravity cannot be measured during a fall."""
        if self.loop is None:
            return
        if not self.trotted and self.loop.stage is Stage.RUN:
            self.trotted = True
        fault = self.loop.safety.fault
        if fault is not None and now - fault.time > DAMPING_TIME:
            (self.stops_during_trot if self.trotted else self.stops_before_trot)[str(fault)] += 1
            self.reset()
            self.walk(self.velocity)


class AccountingClock(SystemClock):
    """Clock that measures the processor times of ticks, and finds the causes of those that took longer than a period.

    Attributes:
        cpu: processor times of the ticks.
        causes: number of ticks that took longer than a period by cause.  "computing" and "page faults" are ticks whose
            processor time is longer than a period, which includes interrupts and the time in which a virtual machine
            does not run: `replay_log` finds those that take as long again.  In the others the thread did not run:
            "preempted" by another process, "blocked" in a call of the system, or "not scheduled" if neither is counted.
        long_ticks: numbers of the ticks that took more processor time than a period.
    """

    def __init__(self, dt: float) -> None:
        super().__init__()
        self.cpu, self.causes, self.long_ticks, self._dt = Histogram(), Counter[str](), list[int](), dt
        self._start: tuple[float, float, Any] | None = None

    def sleep_until(self, time: float) -> None:
        """Ends the times of a tick, sleeps, and starts those of the next one."""
        if self._start is not None:  # not before the first tick
            cpu, wall = thread_time() - self._start[0], self.now() - self._start[1]
            self.cpu.add(cpu)
            if wall > self._dt:
                self._find_cause(cpu, wall, self._start[2])
        super().sleep_until(time)
        self._start = thread_time(), self.now(), resource.getrusage(resource.RUSAGE_THREAD)

    def _find_cause(self, cpu: float, wall: float, before: Any) -> None:
        """Counts a tick that took longer than a period; `before` is the usage of resources at its start."""
        after = resource.getrusage(resource.RUSAGE_THREAD)
        faults = after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt
        preempted, blocked = after.ru_nivcsw - before.ru_nivcsw, after.ru_nvcsw - before.ru_nvcsw
        if cpu > self._dt:
            cause = "page faults" if faults else "computing"
            self.long_ticks.append(self.cpu.total - 1)
        else:
            cause = "preempted" if preempted else "blocked" if blocked else "not scheduled"
        self.causes[cause] += 1


def make_loop(
    interface: RobotInterface,
    dt: float,
    file: Path,
    *,
    idle: bool = False,
    log_seconds: float = 10.0,
    delay: float = 0.0,
) -> tuple[ControlLoop, Operator, Controller]:
    """Returns a loop on a robot in a second process, its operator and its controller; the log covers `log_seconds`."""
    robot, operator = interface.robot, Operator() if idle else PersistentOperator((0.3, 0.0, 0.0))
    controller: Controller = IdleController(robot, dt) if idle else WalkingController(robot, dt=dt, delay=delay)
    recording = Recording(file, robot, controller=controller, seconds=log_seconds)
    # With a delayed link, measured torques correspond to commands of earlier ticks: disable the comparison.
    safety = Safety(robot, dt=dt, limits=SafetyLimits(max_torque_tracking_error=1e9, max_reading_age=0.05))
    scheduling = RealTimeOptions(priority=50, lock_memory=True)
    # Other processes cause bursts of missed deadlines: here they are counted and do not stop the robot.
    loop = ControlLoop(
        interface,
        controller,
        operator=operator,
        safety=safety,
        clock=AccountingClock(dt),
        real_time=scheduling,
        recorder=recording,
        overrun="repeat",
    )
    if isinstance(operator, PersistentOperator):
        operator.loop = loop
    return loop, operator, controller


def format_histogram(times: Histogram) -> str:
    """Returns the number of a loop's times in each range, in microseconds, as text."""
    edges = [0, 20, 50, 100, 200, 500, 1000, 2000, 5000, 20000]
    counts = [int(times.counts[low:high].sum()) for low, high in pairwise(edges)] + [int(times.counts[20000:].sum())]
    texts = [f"below {high}: {n}" for high, n in zip(edges[1:], counts, strict=False)] + [f"beyond: {counts[-1]}"]
    return ", ".join(texts)


def expected_stall_overruns(statistics: LoopStatistics, idle_statistics: LoopStatistics, dt: float) -> float:
    """Returns the number of overruns that stalls of the machine alone would cause, estimated from the idle loop."""
    slack = dt - statistics.compute.quantile(0.5)
    n_late = int(idle_statistics.latency.counts[max(int(slack / BIN_WIDTH), 0) :].sum())
    return statistics.ticks * n_late / max(idle_statistics.ticks, 1)


def run_in_real_time(
    name: str,
    minutes: float,
    dt: float,
    quality: LinkQuality,
    *,
    idle_statistics: list[LoopStatistics],
    replay: bool = False,
) -> bool:
    """Runs a loop in this process and the robot in a second one; returns whether all requirements are met.

    The first run is idle, and its statistics are appended to `idle_statistics`.
    """
    is_idle = not idle_statistics
    # The mean delay of the link applies twice, to the reading and to its command.
    delay = 2.0 * (quality.latency + 0.5 * quality.jitter) + dt if quality.latency else 0.0
    begin, seconds = os.times(), 60.0 * minutes
    with RobotProcess(
        "go2", dt=dt, link_quality=quality, watchdog=WATCHDOG_PERIODS, plant="mujoco", priority=60
    ) as process:
        interface, file = process.interface(), process.path.with_suffix(".qdlog")
        log_seconds = seconds + 10.0 if replay else 10.0
        loop, operator, controller = make_loop(interface, dt, file, idle=is_idle, log_seconds=log_seconds, delay=delay)
        time.sleep(DAMPING_TIME)  # without commands the robot lies down
        report = loop.run(seconds)
        status, estimate, statistics = process.status(), controller.estimated_state, report.statistics
        stops_before_trot, stops_during_trot = (
            getattr(operator, name, Counter[str]()) for name in ("stops_before_trot", "stops_during_trot")
        )
        motion_text = (
            "" if estimate is None else f", {controller.status}, {np.hypot(*estimate[0][:2]):.2f} m from the start"
        )
        print(f"\n{name}: {1.0 / dt:g} Hz for {minutes:g} min{motion_text}\n{report}")
        for label in ("latency", "compute"):
            print(f"{label} [us]: {format_histogram(getattr(statistics, label))}")
        print(
            f"robot's process: {status['late']:.0f} of {status['ticks']:.0f} periods late, "
            f"{status['silences']:.0f} intervals of 2 periods or more without a command"
        )
        assert isinstance(loop.clock, AccountingClock)
        cpu, max_overruns = loop.clock.cpu, 1e-3 * statistics.ticks
        quantiles = {f"p{100.0 * fraction:g}": 1e6 * cpu.quantile(fraction) for fraction in (0.5, 0.99, 0.999)}
        print("processor time of a tick [us]: " + ", ".join(f"{name} {time:.0f}" for name, time in quantiles.items()))
        causes = ", ".join(f"{n} {cause}" for cause, n in loop.clock.causes.items())
        print(f"ticks longer than a period: {causes or 'none'}")
        if is_idle:
            idle_statistics.append(statistics)
        else:
            stall_overruns = expected_stall_overruns(statistics, idle_statistics[0], dt)
            max_overruns += stall_overruns
            print(
                f"overruns: {statistics.overruns}, {cpu.counts[int(dt / BIN_WIDTH) :].sum()} with more processor time "
                f"than a period; expected from the stalls in the idle run: {stall_overruns:.0f}"
            )
        for label, reasons in (("before it trotted", stops_before_trot), ("while it trotted", stops_during_trot)):
            print(
                f"  stopped {label}: " + (", ".join(f"{n} times, {reason}" for reason, n in reasons.items()) or "never")
            )
        interface.close()
    end = os.times()
    # Includes compilation and warm-up, which are short compared with the run.
    loop_cpu, robot_cpu = (
        sum(end[k] - begin[k] for k in fields) / (end.elapsed - begin.elapsed) for fields in ((0, 1), (2, 3))
    )
    print(
        f"processor time: {100.0 * loop_cpu:.0f} % of a core for the loop, {100.0 * robot_cpu:.0f} % for the robot",
        flush=True,
    )
    is_fast = not replay or quantiles["p99.9"] <= MAX_TICK_TIME
    has_trotted = is_idle or (report.stage is Stage.RUN and not stops_during_trot)
    is_identical = not replay or replay_log(file, statistics.ticks, loop.clock.long_ticks)
    file.unlink()
    return is_fast and is_identical and has_trotted and report.fault is None and statistics.overruns <= max_overruns


def run_c_program(seconds: float, dt: float, *, walks: bool) -> bool:
    """Controls a robot in a second process with a C program; returns whether it ran without a fault or a stop."""
    compiler, name = shutil.which("cc") or shutil.which("gcc"), "walker" if walks else "whole-body controller"
    if compiler is None:
        print(f"\n{name} in C: not tested, no C compiler was found")
        return False
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        robot = qd.load("go2")
        controller = qd.LocomotionController(robot, dt=dt) if walks else qd.WholeBodyController(robot, dt=dt)
        export_program(controller, folder, name="go2")
        program, sources = str(Path(folder) / "go2_drive"), sorted(map(str, Path(folder).glob("*.c")))
        subprocess.run([compiler, "-std=c99", "-O2", *sources, "-lm", "-o", program], check=True)
        process = stack.enter_context(
            RobotProcess("go2", dt=dt, watchdog=WATCHDOG_PERIODS, plant="mujoco", priority=60)
        )
        # The priority of the loop, if it is permitted.
        priority_command, chrt = [], shutil.which("chrt")
        if chrt is not None and not subprocess.run([chrt, "-f", "50", "true"], capture_output=True).returncode:
            priority_command = [chrt, "-f", "50"]
        time.sleep(DAMPING_TIME)
        begin = os.times()
        result = subprocess.run(
            [*priority_command, program, str(process.path), str(seconds), *(("0.4", "0", "0.2") if walks else ())],
            capture_output=True,
            encoding="utf-8",
        )
        end = os.times()
        cpu_fraction = sum(end[k] - begin[k] for k in (2, 3)) / (end.elapsed - begin.elapsed)
        print(f"\n{name} in C: {1.0 / dt:g} Hz for {seconds:g} s, {100.0 * cpu_fraction:.0f} % of a core")
        print(f"  {result.stdout.strip() or result.stderr.strip()}")
    is_walking = not walks or result.stdout.strip().endswith("moving")
    return is_walking and not result.returncode and all(x in result.stdout for x in ("no fault", "stopped 0 times"))


def fill_disk_during_trot(seconds: float, dt: float, idle: list[LoopStatistics]) -> bool:
    """Runs a trot and fills the tmpfs of its log; returns whether loop and log are unaffected."""
    with TemporaryDirectory() as folder:
        result = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, encoding="utf-8"
        )
        if result.returncode:
            print(f"\nfull disk: not tested, a tmpfs cannot be mounted: {result.stderr.strip()}")
            return False
        try:
            return _run_with_full_disk(Path(folder), seconds, dt, idle[0])
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)  # the log may still be mapped


def _run_with_full_disk(disk: Path, seconds: float, dt: float, idle: LoopStatistics) -> bool:
    with RobotProcess("go2", dt=dt, watchdog=WATCHDOG_PERIODS, plant="mujoco", priority=60) as process:
        interface = process.interface()
        loop, operator, _ = make_loop(interface, dt, disk / "run.qdlog")
        before = loop.run(seconds).statistics

        def fill_disk() -> None:
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    pass

        timer = threading.Timer(0.2 * seconds, fill_disk)
        timer.start()
        report = loop.run(seconds)
        timer.join()
        free, statistics = shutil.disk_usage(disk).free, report.statistics
        log = load_recording(disk / "run.qdlog")
        gaps = int((np.diff(log.records["last"]) != 1).sum())
        stall_overruns = expected_stall_overruns(statistics, idle, dt)
        print(
            f"\nfull disk: {statistics.overruns} overruns of {statistics.ticks} ticks, {before.overruns} before; "
            f"expected from the stalls in the idle run: {stall_overruns:.0f}"
        )
        print(f"  {free} bytes free; the log has {len(log)} ticks and {gaps} gaps; last stage {log.stages[-1].value!r}")
        stops_during_trot = sum(operator.stops_during_trot.values()) if isinstance(operator, PersistentOperator) else 0
        is_complete = (
            not gaps and log.records["last"][-1] == before.ticks + statistics.ticks and loop.recording_error is None
        )
        interface.close()
    max_overruns = before.overruns + 1e-3 * statistics.ticks + stall_overruns
    return bool(is_complete and not free and not stops_during_trot and statistics.overruns <= max_overruns)


def run_controller(path: str, file: str, dt: float) -> None:
    """Stands up and trots until the process is killed."""
    interface = SharedMemoryInterface(qd.load("go2"), path)
    loop, _, _ = make_loop(interface, dt, Path(file))
    loop.run()


def kill_controller(dt: float, watchdog: int = 2, seconds: float = 5.0) -> bool:
    """Kills a controller during a trot; returns whether the robot is damped and the log complete."""
    with RobotProcess("go2", dt=dt, watchdog=watchdog, plant="mujoco", priority=60) as process:
        memory = SharedMemory(process.path, 12, 4)
        file = process.path.with_suffix(".qdlog")
        arguments = ["--drive", str(process.path), "--log", str(file), "--rate", str(1.0 / dt)]
        controller = subprocess.Popen([sys.executable, __file__, *arguments])
        deadline = time.monotonic() + 90.0
        while time.monotonic() < deadline and controller.poll() is None:
            time.sleep(0.2)
            log = load_recording(file) if file.exists() and file.stat().st_size else None
            if (
                log is not None
                and len(log)
                and log.stages[-1] is Stage.RUN
                and log.stages.count(Stage.RUN) * dt > seconds
            ):
                break
        was_damped = bool(process.status()["fault"])
        controller.kill()
        controller.wait()
        last_command = memory.read_command()
        time.sleep(20.0 * watchdog * dt)
        status, log = process.status(), load_recording(file)
        missing = (last_command[1] if last_command else np.nan) - log.records["time"][-1]
        gaps = int((np.diff(log.records["last"]) != 1).sum())
        watchdog_text = f"watchdog of {watchdog} periods of {1e3 * dt:g} ms"
        print(f"\nkilled in {log.stages[-1].value!r} after {log.records['last'][-1]} ticks; {watchdog_text}")
        if was_damped:
            print("  the watchdog had damped the robot before, because the machine stalled the controller")
        print(f"  {status['silent']:.0f} periods later: damped {bool(status['fault'])}")
        print(f"  the log ends {1e3 * missing:.1f} ms before the last command, {len(log)} ticks, {gaps} gaps")
        memory.close()
        file.unlink()
    if log.stages[-1] is not Stage.RUN:
        print("  the robot had not started to trot")
    return bool(status["fault"]) and missing <= 0.02 and log.stages[-1] is Stage.RUN


def replay_log(file: Path, ticks: int, long_ticks: list[int]) -> bool:
    """Replays a log of a number of ticks; returns whether it is complete and all commands are identical.

    The replay executes the same instructions with the same numbers: ticks that took long in the run and not in the
    replay were not long because of the loop itself.

    Args:
        file: the log.
        ticks: number of ticks.
        long_ticks: numbers of the ticks that took more processor time than a period.
    """
    size, log = file.stat().st_size, load_recording(file)
    begin_time, begin_cpu_time = time.perf_counter(), time.process_time()
    controller = make_walking_controller(log.robot(), log.metadata["controller"])
    times, compute = dict[float, float](), controller.compute

    def measure(measurement: Measurement, *arguments: Any) -> MotorCommand:
        """Computes a command and stores its processor time by the time stamp of the reading."""
        start = thread_time()
        command = compute(measurement, *arguments)
        times[measurement.time] = thread_time() - start
        return command

    controller.compute = measure  # type: ignore[method-assign]
    replay = log.replay(controller)
    microseconds, duration = (
        1e6 * (time.process_time() - begin_cpu_time) / max(replay.ticks, 1),
        time.perf_counter() - begin_time,
    )
    per_tick = log.records.dtype.itemsize
    reserved = round(ticks + 10.0 / log.metadata["dt"]) * per_tick
    max_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(
        f"replay of {len(log)} ticks: {replay.ticks} recomputed in {duration:.0f} s, {replay.n_different} differ; "
        f"{microseconds:.0f} us per tick"
    )
    again = [times.get(float(log.records["time"][k]), 0.0) for k in long_ticks]
    n_own = sum(time > log.metadata["dt"] for time in again)
    print(
        f"  {len(again)} ticks took more processor time than a period in the run; in the replay they took at most "
        f"{1e6 * max(again, default=0.0):.0f} us, {n_own} more than a period"
    )
    print(
        f"  file: {size / 1e6:.1f} MB, {per_tick} bytes per tick; memory at most {max_memory:.0f} MB with the log",
        flush=True,
    )
    return (
        replay.identical
        and not n_own
        and len(log) == ticks
        and size - reserved < 0.1 * reserved + 1e6
        and replay.ticks > 0
    )


def main() -> int:
    """Runs the selected parts; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts",
        nargs="+",
        default=PARTS,
        choices=PARTS,
        metavar="NAME",
        help="parts to run (default: all): " + ", ".join(PARTS),
    )
    parser.add_argument("--schedules", type=int, default=100_000, help="number of random schedules")
    parser.add_argument("--seed", type=int, default=0, help="seed of the schedules")
    parser.add_argument("--minutes", type=float, default=0.3, help="duration of each trot in real time [min]")
    parser.add_argument("--rate", type=float, default=500.0, help="rate of the loop [Hz]")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    parser.add_argument("--drive", metavar="MEMORY", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        run_controller(options.drive, options.log, 1.0 / options.rate)
        return 0
    lossy_link = LinkQuality(latency=2e-3, jitter=1e-3, loss=0.01)
    dt, minutes = 1.0 / options.rate, options.minutes
    short_seconds = min(10.0, 60.0 * minutes)
    # Function and approximate duration of each part [s], including start and compilation of its processes.
    idle: list[LoopStatistics] = []
    parts: dict[str, tuple[Callable[[], bool], float]] = {
        "schedules": (lambda: check_fault_schedules(options.schedules, options.seed), 4e-3 * options.schedules),
        "idle": (
            lambda: run_in_real_time("idle", 0.1 * minutes, dt, LinkQuality(), idle_statistics=idle),
            6.0 * minutes + 8.0,
        ),
        "trot": (
            lambda: run_in_real_time("trot", minutes, dt, LinkQuality(), idle_statistics=idle, replay=True),
            60.0 * minutes * (1.0 + 8e-4 / dt) + 15.0,
        ),
        "link": (
            lambda: run_in_real_time("trot over a lossy link", minutes, dt, lossy_link, idle_statistics=idle),
            60.0 * minutes + 10.0,
        ),
        "kill": (lambda: kill_controller(dt), 25.0),
        "c": (lambda: run_c_program(short_seconds, dt, walks=False), short_seconds + 15.0),
        "walker": (lambda: run_c_program(60.0 * minutes, dt, walks=True), 60.0 * minutes + 30.0),
        "disk": (lambda: fill_disk_during_trot(short_seconds, dt, idle), 2.0 * short_seconds + 15.0),
    }
    needs_idle = {"trot", "link", "disk"} & set(options.parts)
    names = [name for name in PARTS if name in options.parts or (name == "idle" and needs_idle)]
    total_seconds = sum(parts[name][1] for name in names)
    print(
        f"{cpu_name()}, load {os.getloadavg()[0]:.1f}; {len(names)} parts, about {total_seconds / 60.0:.1f} min",
        flush=True,
    )
    begin_time, verdicts = time.monotonic(), dict[str, bool]()
    for i, name in enumerate(names):
        elapsed = time.monotonic() - begin_time
        minutes_of_part = parts[name][1] / 60.0
        print(
            f"\n[{elapsed / 60.0:.1f} min] part {i + 1} of {len(names)}, {name}: about {minutes_of_part:.1f} min",
            flush=True,
        )
        verdicts[name] = parts[name][0]()
    print("\n" + ", ".join(f"{name}: {'passed' if is_passed else 'FAILED'}" for name, is_passed in verdicts.items()))
    return int(options.check and not all(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
