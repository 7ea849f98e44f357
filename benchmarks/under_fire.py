"""Tests the runtime with injected faults: sensor readings, signals and forks.

    python benchmarks/under_fire.py [--parts NAME ...] [--ticks 100000] [--signals 100000] [--forks 40] [--seconds 60]
                                    [--check]

Parts, each of which can be omitted:

- ``safety``: compares the safety layer in Python with the exported one, compiled as C99, on random sequences of
  readings of a Go2 and of an arm without IMU and feet: values that are NaN, infinite, missing, constant, late, repeated
  or out of order, and impossible time stamps.  Required are identical faults and joints, and motor commands that are
  equal up to rounding.
- ``signals``: signal handlers raise exceptions at random moments of `WholeBodyController.compute`, `Simulation.step`
  and bare locks.  Required is that no lock is held afterwards and that the controller returns the same torques as
  before.
- ``forks``: forked child processes create a controller while three threads of the parent process do so, too, from its
  first import on.  Required is that no child process hangs.
- ``loop``: a control loop walks a simulated Go2 at 500 Hz, by the simulation's time, while its sensors, link,
  controller, operator and surroundings fail at random moments (`FAULTS`); the operator resets latched faults.  The
  requirements: every tick with a fault writes damping, every other command is finite and within the torque limits, a
  run ends with damping, the robot walks at least a tenth of the time, and the recording is complete after every run.

With ``--check`` the exit code is 1 if a requirement is not met.
"""

from __future__ import annotations

import argparse
import math
import platform
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from compiling_c import COMPILER
from interrupting import interrupt
from safety_in_c import DT, LIMITS, SafetyInC, differences
from soak import resident_memory

import quaddyn as qd
from quaddyn.exclusive_call import ExclusiveCall
from quaddyn.operating_system import cpu_name
from quaddyn.runtime import (
    Clock,
    ControlLoop,
    LoopTick,
    MotorCommand,
    Operator,
    PlantInterface,
    RealTimeOptions,
    Recorder,
    Recording,
    RobotInterface,
    Safety,
    Stage,
    WalkingController,
    load_recording,
)
from quaddyn.runtime.simulated_interface import make_noisy_sensors
from quaddyn.simulation import Measurement, Simulation

TESTS = Path(__file__).resolve().parents[1] / "tests"
PARTS = ("safety", "signals", "forks", "loop")
#: Forks of one process; the first ones occur during its imports.
FORKS_PER_PROCESS = 10
#: Period of the loop, duration of one run, mean time between faults, time from a fault to its reset [s].
LOOP_DT, RUN_TIME, FAULT_INTERVAL, RESET_DELAY = 2e-3, 60.0, 4.0, 0.5
#: Faults of the sensors, the link, the controller, the surroundings and the operator.
FAULTS = (
    *("NaN joint", "NaN gyroscope", "frozen", "jump", "old stamp", "stamp ahead", "NaN stamp", "no foot sensors"),
    *("read fails", "write fails", "controller fails", "NaN torques", "large torques", "late controller"),
    *("push", "fall", "emergency stop", "damp", "power off"),
)


def check_safety(ticks: int, seed: int) -> bool:
    """Compares the safety layer in Python and in C; returns whether they are identical."""
    if COMPILER is None:
        print("safety: not tested, no C compiler was found")
        return False
    is_identical = True
    for name in ("go2", "ur5"):
        with TemporaryDirectory() as folder:
            layer = SafetyInC(Safety(qd.load(name), dt=DT, limits=LIMITS), Path(folder))
            begin_time = time.process_time()
            deviations, faults, events = differences(layer, ticks // 2, seed)
            microseconds = 1e6 * (time.process_time() - begin_time) / (ticks // 2)
        is_identical = is_identical and not deviations
        print(
            f"safety, {name}: {len(deviations)} differences in {ticks // 2} ticks, "
            f"{microseconds:.0f} us per tick of both"
        )
        print("  faults: " + ", ".join(f"{event} {n}" for event, n in faults.most_common()))
        print("  events: " + ", ".join(f"{event} {n}" for event, n in events.most_common()))
        for text in deviations[:3]:
            print(f"  {text}")
    return is_identical


def check_signals(count: int, seed: int) -> bool:
    """Interrupts calls by signals; returns whether no lock is held afterwards and the torques are unchanged."""
    robot, rng, bare_lock = qd.load("go2"), np.random.default_rng(seed), ExclusiveCall("controller")
    state = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    controller, plant = qd.WholeBodyController(robot), Simulation(robot)
    tau = controller.compute(state).tau

    def lock() -> None:
        """Acquires and releases a lock."""
        with bare_lock.acquire("call"):
            pass

    calls: tuple[tuple[str, Callable[[], object], int, float], ...] = (
        ("bare lock", lock, count // 2, 3e-5),
        ("compute", lambda: controller.compute(state), count - count // 2 - count // 20, 1e-4),
        ("step", lambda: plant.step(tau), count // 20, 1e-3),
    )
    n_locked = 0
    for name, call, n_signals, max_delay in calls:
        try:
            n_interrupted = interrupt(call, n_signals, max_delay, rng)
            call()
            print(f"signals, {name}: {n_interrupted} of {n_signals} signals during a call, no lock held")
        except qd.ConcurrencyError as error:
            n_locked += 1
            print(f"signals, {name}: lock held: {error}")
    controller.reset()
    is_met = not n_locked and bool(np.allclose(controller.compute(state).tau, tau, rtol=1e-9))
    print(f"  torques afterwards: {'as before' if is_met else 'DIFFERENT'}")
    return is_met


def check_forks(count: int) -> bool:
    """Forks processes that create a controller; returns whether all succeed."""
    results = list[str]()
    while len(results) < count:
        command = [
            sys.executable,
            str(TESTS / "forking.py"),
            str(min(FORKS_PER_PROCESS, count - len(results))),
            "0.03",
            "300",
        ]
        results += subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    n_failed = len(results) - results.count("0")
    print(f"forks: {n_failed} of {len(results)} children hung or failed")
    return n_failed == 0


class FaultyRobot(RobotInterface, Clock):
    """Simulated robot, which is its own clock, with injected faults.

    Attributes:
        fault: name of the present fault, one of `FAULTS`; "" for none.
        plant: the simulation.
        last_command: the last command that was written.
    """

    def __init__(self, robot: qd.Robot) -> None:
        self.robot, self.fault, self._start_time = robot, "", 0.0
        self.plant, self.last_command = Simulation(robot, dt=LOOP_DT), MotorCommand.zero(robot.nu)
        self.restart()

    def restart(self) -> None:
        """Places the robot in its home configuration."""
        self._start_time += self.plant.time
        self.plant.reset()
        self._interface = PlantInterface(self.plant, sensors=make_noisy_sensors(self.robot))
        self._last_reading = self._interface.read()

    @property
    def step_time(self) -> float:
        """Time step of the simulation [s]."""
        return self.plant.dt

    def now(self) -> float:
        """Returns the time of the simulation, which `restart` continues [s]."""
        return self._start_time + self.plant.time

    def sleep_until(self, time: float) -> None:
        """Simulates until `time` [s], to the nearest step."""
        while self.now() < time - 0.5 * self.plant.dt:
            self._interface.step()

    def read(self) -> Measurement:
        """Returns a reading with the present fault."""
        if self.fault == "read fails":
            raise OSError("injected")
        if self.fault == "frozen":
            return self._last_reading
        m = self._interface.read()
        stamp = m.time + self._start_time
        stamp += {"old stamp": -0.05, "stamp ahead": 0.2, "NaN stamp": math.nan}.get(self.fault, 0.0)
        position, gyro = np.array(m.position), np.array(m.gyro)
        position[5] += {"NaN joint": math.nan, "jump": 1.0}.get(self.fault, 0.0)
        gyro[1] += math.nan if self.fault == "NaN gyroscope" else 0.0
        foot_forces = None if self.fault == "no foot sensors" else m.foot_forces
        self._last_reading = replace(m, time=stamp, position=position, gyro=gyro, foot_forces=foot_forces)
        return self._last_reading

    def write(self, command: MotorCommand) -> None:
        """Passes a command to the motors."""
        if self.fault == "write fails":
            raise OSError("injected")
        self.last_command = command
        self._interface.write(command)


class FaultyController(WalkingController):
    """Walking controller of a `FaultyRobot`, with its present fault."""

    faulty_robot: FaultyRobot

    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """Computes the command of one tick, with the present fault."""
        fault = self.faulty_robot.fault
        if fault == "controller fails":
            raise RuntimeError("injected")
        if fault == "late controller":
            self.faulty_robot.sleep_until(self.faulty_robot.now() + 5.0 * LOOP_DT)
        command = super().compute(measurement, stage, velocity)
        scale = {"NaN torques": math.nan, "large torques": 1e3}.get(fault)
        return command if scale is None else replace(command, tau=scale * (1.0 + command.tau))


class RandomOperator(Operator):
    """Operator that walks with random velocities, injects faults and resets them after `RESET_DELAY`."""

    def __init__(self, interface: FaultyRobot, safety: Safety, seed: int) -> None:
        super().__init__()
        self.n_injected, self._robot, self._safety = Counter[str](), interface, safety
        self._rng, self._fault_time, self._end_time, self._reset_time = np.random.default_rng(seed), 0.0, 0.0, math.inf
        self._is_upright = True

    def read_device(self, now: float) -> None:
        """Begins, ends and resets faults."""
        rng, robot = self._rng, self._robot
        if now >= self._fault_time:
            robot.fault = FAULTS[int(rng.integers(len(FAULTS)))]
            self.n_injected[robot.fault] += 1
            self._end_time = now + rng.choice((LOOP_DT, 0.02, 0.3))
            self._fault_time = self._end_time + rng.exponential(FAULT_INTERVAL)
            self._inject(robot.fault)
        if robot.fault and now >= self._end_time:
            robot.fault = ""
            self.walk(rng.uniform((-0.3, -0.2, -0.5), (0.5, 0.2, 0.5)))
        if self._safety.fault is None or robot.fault:
            self._reset_time = math.inf
        elif self._reset_time == math.inf:
            self._reset_time = now + RESET_DELAY
            if self._tilt_cosine() < 0.7:
                robot.restart()
        elif now >= self._reset_time:
            self._reset_time = math.inf
            self.reset()
            self.walk()

    def _tilt_cosine(self) -> float:
        """Returns the cosine of the angle between the base's z axis and the vertical."""
        x, y = self._robot.plant.q[3:5]
        return float(1.0 - 2.0 * (x * x + y * y))

    def _inject(self, fault: str) -> None:
        """Begins a fault of the surroundings or of the operator."""
        plant, weight = self._robot.plant, 9.81 * self._robot.robot.mass
        if fault == "push":
            plant.push("base", weight * self._rng.uniform(-1.0, 1.0, size=3), duration=0.1)
        elif fault == "fall":
            plant.push("base", (0.0, 2.0 * weight, 0.0), duration=0.2)
        elif fault == "emergency stop":
            self.emergency_stop()
        elif fault == "damp":
            self.damp()
        elif fault == "power off":
            self.power_off()


class CheckingRecorder(Recorder):
    """Recorder that checks every tick, before it passes the tick to a recording.

    Attributes:
        violations: number of ticks by the requirement that was not met.
        n_ticks: number of ticks by stage, "fault" for those with a fault.
        last: stages and fault codes of the ticks that the recording holds.
    """

    def __init__(self, recording: Recording, torque_limits: np.ndarray) -> None:
        self.recording, self.violations, self.n_ticks = recording, Counter[str](), Counter[str]()
        self.last, self._torque_limits = deque[tuple[Stage, int]](maxlen=recording.capacity), torque_limits

    def record(self, tick: LoopTick) -> None:
        """Checks and records a tick."""
        command, fault = tick.command, tick.fault
        self.n_ticks["fault" if fault is not None else tick.stage.value] += 1
        self.last.append((tick.stage, 0 if fault is None else fault.code))
        has_targets = bool(command.tau.any() or command.stiffness.any())
        if not np.isfinite(command.packed(len(self._torque_limits))).all():
            self.violations["not finite"] += 1
        if (np.abs(command.tau) > self._torque_limits * (1.0 + 1e-9)).any():
            self.violations["torque beyond its limit"] += 1
        if fault is not None and (has_targets or not (command.damping > 0.0).all()):
            self.violations["not damped with a fault"] += 1
        if not tick.stage.is_controlled and has_targets:
            self.violations[f"torques in stage {tick.stage.value}"] += 1
        self.recording.record(tick)


def check_loop(seconds: float, seed: int) -> bool:
    """Runs a loop with random faults; returns whether all requirements are met."""
    robot = qd.load("go2")
    interface, controller, safety = FaultyRobot(robot), FaultyController(robot, dt=LOOP_DT), Safety(robot, dt=LOOP_DT)
    controller.faulty_robot = interface
    operator, faults, problems = RandomOperator(interface, safety, seed), Counter[str](), Counter[str]()
    late_ticks = 0
    with TemporaryDirectory() as folder:
        recording = Recording(Path(folder) / "log", robot, controller=controller, seconds=RUN_TIME)
        recorder = CheckingRecorder(recording, robot.effort_limits)
        loop = ControlLoop(
            interface, controller, operator=operator, safety=safety, clock=interface, recorder=recorder,
            real_time=RealTimeOptions(disable_gc=False),
        )  # fmt: skip
        for run in range(max(1, math.ceil(seconds / RUN_TIME))):
            interface.fault = ""
            report = loop.run(min(RUN_TIME, seconds - run * RUN_TIME))
            late_ticks += report.statistics.overruns
            last, n_total = interface.last_command, recorder.n_ticks.total()
            if last.tau.any() or last.stiffness.any():
                problems["a run ended with torques"] += 1
            log = load_recording(recording.path)
            stages_and_faults = list(zip(log.stages, log.records["fault"].tolist(), strict=True))
            numbers = np.arange(n_total - len(recorder.last), n_total) + 1
            if loop.recording_error is not None or not np.array_equal(log.records["number"], numbers):
                problems[f"ticks are missing in the recording: {loop.recording_error}"] += 1
            elif stages_and_faults != list(recorder.last):
                problems["the recording has other stages or faults"] += 1
            faults.update(fault.split(":")[0] for fault in log.faults)
            found = dict(problems + recorder.violations) or "none"
            print(f"  {n_total} ticks, violations: {found}, memory {resident_memory():.1f} MiB", flush=True)
        recording.close()
    problems.update(recorder.violations)
    n_running = recorder.n_ticks[Stage.RUN.value]
    if n_running < 0.1 * recorder.n_ticks.total():
        problems["the robot does not walk"] += 1
    print(f"loop: {recorder.n_ticks.total()} ticks in {seconds:.0f} s, {late_ticks} late; {dict(recorder.n_ticks)}")
    print("  injected: " + ", ".join(f"{name} {n}" for name, n in operator.n_injected.most_common()))
    print("  faults: " + ", ".join(f"{name} {n}" for name, n in faults.most_common()))
    print(f"  requirements not met: {dict(problems) or 'none'}")
    return not problems


def main() -> int:
    """Runs the selected parts; returns 1 if `--check` finds a requirement that is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--ticks", type=int, default=100_000, help="number of ticks of both robots together")
    parser.add_argument("--signals", type=int, default=100_000, help="number of signals")
    parser.add_argument("--forks", type=int, default=40, help="number of forked processes")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the loop, simulated [s]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a requirement is not met")
    options = parser.parse_args()
    print(f"{cpu_name()}, Python {platform.python_version()}", flush=True)
    parts: dict[str, Callable[[], bool]] = {
        "safety": lambda: check_safety(options.ticks, options.seed),
        "signals": lambda: check_signals(options.signals, options.seed),
        "forks": lambda: check_forks(options.forks),
        "loop": lambda: check_loop(options.seconds, options.seed),
    }
    verdicts = {name: parts[name]() for name in PARTS if name in options.parts}
    print(", ".join(f"{name}: {'passed' if is_passed else 'FAILED'}" for name, is_passed in verdicts.items()))
    return int(options.check and not all(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
