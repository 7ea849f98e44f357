"""The control loop: deadlines, stages, overruns and faults that end in damping, with a manual clock."""

from __future__ import annotations

import gc
import itertools
import os
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.errors import ArgumentTypeError
from quaddyn.locomotion.modes import LocomotionMode
from quaddyn.runtime import (
    Controller,
    ControlLoop,
    GamepadOperator,
    Histogram,
    KeyboardOperator,
    LateTick,
    LoopStatistics,
    LoopTick,
    ManualClock,
    MotorCommand,
    Operator,
    PlantInterface,
    RealTimeOptions,
    Recorder,
    RobotInterface,
    Stage,
    SystemClock,
    WalkingController,
)
from quaddyn.runtime.gamepad import AXES, BUTTONS
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.runtime.stages import StageMachine
from quaddyn.simulation import Encoders, FootSensors, Imu, Measurement, Sensors, Simulation

DT = 2e-3


class FakeInterface(RobotInterface):
    """Interface with joints at rest and IMU noise, which stores the written commands."""

    def __init__(self, robot: qd.Robot, clock: ManualClock) -> None:
        self.robot, self.clock, self.written, self.rng = robot, clock, [], np.random.default_rng(0)
        self.broken, self.failed, self.value = "", 0, None
        self.on_write: Callable[[], None] = lambda: None

    def read(self) -> Measurement:
        if self.broken == "read":
            self.failed += 1
            raise OSError("no route to robot")
        if self.broken == "type":
            return self.value
        zero, noise = np.zeros(self.robot.nu), 1e-3 * self.rng.standard_normal((2, 3))
        return Measurement(self.clock.now(), self.robot.q_home[7:], zero, noise[0], noise[1] + [0.0, 0.0, 9.81])

    def write(self, command: MotorCommand) -> None:
        if self.broken == "write":
            self.failed += 1
            raise OSError("no route to robot")
        self.on_write()
        self.written.append(command)


class ScriptedController(Controller):
    """Controller whose torque counts ticks, with prescribed delays and failures."""

    def __init__(self, robot: qd.Robot, clock: ManualClock) -> None:
        self.robot, self.dt, self.clock = robot, DT, clock
        self.takes: dict[int, float] = {}
        self.fails, self.ticks, self.resets, self.warm, self.done = -1, 0, 0, False, True
        self.why = ""
        self.stages: list[Stage] = []

    @property
    def is_settled(self) -> bool:
        return self.done

    @property
    def failure_reason(self) -> str:
        return self.why

    def warmup(self) -> None:
        self.warm = True

    def reset(self, measurement: Measurement) -> None:
        self.resets += 1

    def compute(self, measurement: Measurement, stage: Stage, velocity: object = None) -> MotorCommand:
        self.ticks += 1
        self.stages.append(stage)
        self.clock.advance(self.takes.get(self.ticks, 1e-4))
        if self.ticks == self.fails:
            raise ZeroDivisionError("division by zero")
        return MotorCommand.from_torques(np.full(self.robot.nu, 5.0))


class ListRecorder(Recorder):
    def __init__(self) -> None:
        self.ticks: list[LoopTick] = []

    def record(self, tick: LoopTick) -> None:
        self.ticks.append(tick)
        if len(self.ticks) == 90:
            raise OSError("no space left on device")


class LoopSetup:
    """A loop of the parts above; the garbage collector stays enabled, since disabling it takes 0.3 s per run."""

    def __init__(self, robot: qd.Robot, **options: object) -> None:
        options.setdefault("real_time", RealTimeOptions(disable_gc=False))
        self.clock, self.operator = ManualClock(100.0), options.pop("operator", None) or Operator()
        self.fake, self.controller = FakeInterface(robot, self.clock), ScriptedController(robot, self.clock)
        self.kept = ListRecorder()
        self.loop = ControlLoop(
            self.fake, self.controller, operator=self.operator, clock=self.clock, recorder=self.kept, **options
        )


def damping(command: MotorCommand) -> bool:
    return not command.tau.any() and not command.stiffness.any() and bool((command.damping > 0.0).all())


def test_stages_follow_in_order_and_none_is_skipped(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    report = scene.loop.run(0.01)
    assert report.stage is Stage.DAMP and scene.controller.ticks == 0 and all(map(damping, scene.fake.written))
    scene.operator.walk((0.3, 0.0, 0.0))
    scene.controller.done = False
    assert scene.loop.run(0.02).stage is Stage.STAND_UP and scene.controller.resets == 1
    scene.controller.done = True
    assert scene.loop.run(0.02).stage is Stage.RUN
    assert scene.fake.written[-2].tau[0] == 5.0 and damping(scene.fake.written[-1])  # the run has ended
    scene.operator.power_off()
    scene.controller.done = False
    assert scene.loop.run(0.02).stage is Stage.LIE_DOWN
    scene.controller.done = True
    report = scene.loop.run(0.02)
    assert report.stage is Stage.OFF and report.fault is None
    assert not scene.fake.written[-1].damping.any()
    order = list(dict.fromkeys(scene.controller.stages))
    assert order == [Stage.STAND_UP, Stage.RUN, Stage.LIE_DOWN] and scene.controller.warm


@pytest.mark.parametrize("goal", [Stage.OFF, Stage.DAMP, Stage.RUN])
@pytest.mark.parametrize("stage", Stage)
def test_every_stage_leads_to_every_goal_in_order_and_waits_for_its_end(stage: Stage, goal: Stage) -> None:
    def advance(start: Stage, *, is_settled: bool = True, fault: bool = False) -> Stage:
        machine = StageMachine()
        machine.stage = start
        return machine.advance(goal, is_settled=is_settled, fault=fault)

    assert advance(stage, fault=True) is (Stage.OFF if stage is goal is Stage.OFF else Stage.DAMP)
    waits = stage is Stage.LIE_DOWN or (stage is Stage.STAND_UP and goal is Stage.RUN)
    assert advance(stage, is_settled=False) is (stage if waits else advance(stage))
    path = [stage]
    while path[-1] is not goal:
        path.append(advance(path[-1]))
        assert len(path) <= 4
    for before, after in itertools.pairwise(path):
        assert after is not Stage.RUN or before is Stage.STAND_UP
        assert after.is_controlled or not before.is_controlled or before is Stage.LIE_DOWN
    assert advance(goal) is goal


@pytest.mark.parametrize("stamp", [np.nan, np.inf, -1.0, 99.0, "ahead"])
def test_reading_with_an_invalid_time_stamp_does_not_reach_the_controller(go2: qd.Robot, stamp: float | str) -> None:
    scene, wrong = LoopSetup(go2), [20]
    honest, given = scene.fake.read, list[float]()

    def read() -> Measurement:
        wrong[0] -= 1
        m = honest()
        return replace(m, time=m.time + 0.1 if stamp == "ahead" else stamp) if wrong[0] == 0 or wrong[0] < -20 else m

    scene.fake.read = read  # type: ignore[method-assign]
    scene.controller.compute = lambda m, *_: given.append(m.time) or MotorCommand.zero(go2.nu)  # type: ignore[method-assign, func-returns-value]
    scene.operator.walk()
    report = scene.loop.run(0.1)
    assert np.isfinite(given).all() and min(given) >= 100.0 and max(given) <= scene.clock.now()
    assert report.fault.name == "stale reading" and 100.0 + 40 * DT < report.fault.time < 100.0 + 48 * DT
    assert report.statistics.read_failures >= 5


@pytest.mark.parametrize(("scale", "unit"), [(1e3, "milliseconds"), (1e9, "nanoseconds"), (1.0, "")])
def test_time_stamps_in_other_units_are_named(go2: qd.Robot, scale: float, unit: str) -> None:
    scene = LoopSetup(go2)
    honest, calls = scene.fake.read, itertools.count()

    def read() -> Measurement:
        m = honest()
        ahead = 1.0 if not unit and 20 < next(calls) < 40 else 0.0  # stamps that are wrong for another reason
        return replace(m, time=scale * (m.time + ahead))

    scene.fake.read = read  # type: ignore[method-assign]
    scene.operator.walk()
    report = scene.loop.run(0.1)
    assert report.fault.name == "stale reading" and report.stamp_unit == unit
    assert (f"time stamps seem to be in {unit}" in str(report)) is bool(unit)


def test_deadlines_are_absolute_and_statistics_exact(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    scene.operator.walk()
    scene.controller.takes = {5: 1.5e-3}
    report = scene.loop.run(0.1)
    begun = [tick.start_time for tick in scene.kept.ticks]
    assert np.allclose(begun, 100.0 + DT * np.arange(50)) and report.statistics.ticks == 50
    s = report.statistics
    assert (
        s.overruns == 0 and np.isclose(s.compute.largest, 1.5e-3) and np.isclose(s.period.quantile(0.5), DT, atol=2e-6)
    )
    assert s.latency.largest < 1e-9 and "p99.99" in str(report)


def test_an_overrun_skips_deadlines_without_shifting_the_later_ones(go2: qd.Robot) -> None:
    scene = LoopSetup(go2, overrun="repeat")
    scene.operator.walk()
    scene.controller.takes = {10: 5.2e-3}
    report = scene.loop.run(0.1)
    due = np.array([tick.number for tick in scene.kept.ticks])
    assert report.statistics.overruns == 1 and report.statistics.missed_deadlines == 2 and report.fault is None
    assert np.flatnonzero(np.diff(due) > 1).size == 1 and np.diff(due).max() == 2
    late = [t for t in scene.kept.ticks if t.start_time > t.deadline + 1e-9]
    assert len(late) == 1 and np.isclose(late[0].start_time - late[0].deadline, 1.2e-3)


def test_overruns_decay_to_damping_and_recover(go2: qd.Robot) -> None:
    scene = LoopSetup(go2, overrun="decay", decay_ticks=10)
    scene.operator.walk()
    scene.controller.takes = {10: 8.2e-3}
    scene.loop.run(0.1)
    torques = [tick.command.tau[0] for tick in scene.kept.ticks if tick.stage is Stage.RUN]
    assert np.isclose(min(torques), 3.0) and torques[-1] == 5.0  # 4 of 10 are missed
    scene.controller.takes = {k: 8.2e-3 for k in range(100)}
    fault = scene.loop.run(0.1).fault
    assert fault.name == "controller late" and "deadlines missed" in fault.reason
    scene.controller.takes, done, scene.loop._pending_overruns = {}, len(scene.fake.written), 100.0
    scene.operator.reset()
    scene.operator.walk()
    scene.loop.run(0.05)
    assert {command.tau[0] for command in scene.fake.written[done:]} == {0.0, 5.0}  # a reset forgets the lateness

    scene = LoopSetup(go2, overrun="stop")
    scene.operator.walk()
    scene.controller.takes = {10: 2.3e-3}
    assert scene.loop.run(0.1).fault.name == "controller late"


@pytest.mark.parametrize("missed", [1, 2])
def test_lateness_of_every_second_tick_accumulates_if_it_misses_two_deadlines(go2: qd.Robot, missed: int) -> None:
    scene = LoopSetup(go2, overrun="decay", decay_ticks=10)
    scene.operator.walk()
    scene.controller.takes = {k: missed * DT + 2e-4 for k in range(10, 400, 2)}
    fault = scene.loop.run(0.3).fault
    torques = [tick.command.tau[0] for tick in scene.kept.ticks if tick.stage is Stage.RUN]
    if missed == 1:  # one punctual tick compensates one missed deadline
        assert fault is None and {round(float(tau), 6) for tau in torques} == {5.0, 4.5}
    else:
        assert fault is not None and fault.name == "controller late"
        assert scene.controller.ticks == 10 + 2 * 8 + 1  # 2, and 1 more with every pair; detected at the next tick


def test_all_fields_of_a_late_command_decay_to_damping(go2: qd.Robot) -> None:
    loop = LoopSetup(go2, overrun="decay", decay_ticks=10).loop
    loop._pending_overruns, all_of = 4.0, np.ones(go2.nu)
    given = MotorCommand(5.0 * all_of, 0.3 * all_of, 2.0 * all_of, 20.0 * all_of, 3.0 * all_of)
    late = loop._decay_to_damping(given)
    assert np.allclose(late.tau, 3.0) and np.allclose(late.stiffness, 12.0) and np.allclose(late.position, 0.3)
    np.testing.assert_allclose(late.damping, 0.6 * 3.0 + 0.4 * loop._damping_command.damping)
    np.testing.assert_allclose(late.damping * late.velocity, 0.6 * 3.0 * 2.0)


def test_exception_of_the_controller_is_a_fault_with_its_message(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    scene.operator.walk()
    scene.controller.fails = 10
    report = scene.loop.run(0.1)
    assert report.fault.reason == "the controller raised an exception: ZeroDivisionError: division by zero"
    first = next(i for i, tick in enumerate(scene.kept.ticks) if tick.fault is not None)
    assert all(damping(tick.command) for tick in scene.kept.ticks[first:])
    assert np.isclose(report.fault.time, scene.kept.ticks[first].start_time)  # at once
    assert scene.loop.stage is Stage.DAMP and scene.controller.ticks == 10
    scene.operator.reset()
    scene.operator.walk()
    assert scene.loop.run(0.05).fault is None and scene.loop.stage is Stage.RUN and scene.controller.resets == 2


def test_an_aborted_controller_is_a_fault_with_its_reason(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    scene.operator.walk()
    scene.loop.run(0.05)
    scene.controller.why = "the robot has fallen"
    report = scene.loop.run(0.05)
    assert str(report.fault) == "controller aborted: the robot has fallen" and scene.loop.stage is Stage.DAMP
    late = [tick for tick in scene.kept.ticks if tick.fault is not None]
    assert all(damping(tick.command) for tick in late) and late[0].number == 0  # at once


def test_operator_stop_is_immediate_and_deadman_timeout_makes_the_robot_lie_down(go2: qd.Robot) -> None:
    scene = LoopSetup(go2, operator=Operator(deadman_timeout=0.05))
    scene.operator.walk()
    scene.loop.run(0.04)
    assert scene.loop.stage is Stage.RUN
    scene.operator.keep_alive()
    scene.loop.run(0.04)
    assert scene.loop.stage is Stage.RUN
    assert scene.loop.run(0.04).stage is Stage.DAMP and Stage.LIE_DOWN in scene.controller.stages
    scene.operator.walk()
    scene.loop.run(0.02)
    scene.operator.emergency_stop("someone in the way")
    report = scene.loop.run(0.01)
    assert report.stage is Stage.DAMP and report.fault.reason == "stopped by the operator: someone in the way"


def test_lost_link_to_the_robot_is_a_fault(go2: qd.Robot) -> None:
    for broken, name in (("read", "stale reading"), ("write", "link lost")):
        scene = LoopSetup(go2)
        scene.operator.walk()
        scene.operator.read_device = lambda now, s=scene, b=broken: s.fake.__setattr__(
            "broken", b if now > 100.03 else ""
        )
        report = scene.loop.run(0.06)
        assert report.fault.name == name and 100.03 < report.fault.time < 100.05
        failures = report.statistics.read_failures, report.statistics.write_failures
        assert failures[broken == "write"] == scene.fake.failed > 10 and failures[broken != "write"] == 0
    with pytest.raises(OSError, match="no route"):  # before anything was written
        scene.fake.broken = "read"
        scene.loop.run(0.04)


@pytest.mark.parametrize("value", [None, np.zeros(12)])
def test_report_names_the_errors_of_read(go2: qd.Robot, value: object) -> None:
    scene = LoopSetup(go2)
    text = f"read: expected a Measurement from FakeInterface.read(), got {type(value).__name__}"
    with pytest.raises(ArgumentTypeError, match=re.escape(text)):  # before anything was written
        scene.fake.broken, scene.fake.value = "type", value
        scene.loop.run(0.04)
    scene.fake.broken = ""
    scene.operator.read_device = lambda now: scene.fake.__setattr__("broken", "type" if now > 100.02 else "")
    scene.operator.walk()
    report = scene.loop.run(0.06)
    assert report.fault.name == "stale reading" and damping(scene.fake.written[-1])
    n = report.statistics.read_failures
    assert n > 10 and f"read() failed {n} times with ArgumentTypeError: {text}" in str(report).splitlines()


def test_texts_of_failed_readings_need_bounded_memory() -> None:
    statistics = LoopStatistics.empty()
    for i in range(100):
        statistics.add_read_error(OSError(f"packet {i}"))
    assert len(statistics.read_errors) == 6 and statistics.read_errors["other errors"] == 95


def test_a_failed_recorder_ends_only_the_recording(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    report = scene.loop.run(0.4)
    assert report.statistics.ticks == 200 and len(scene.kept.ticks) == 90 and report.fault is None
    assert str(scene.loop.recording_error) == "no space left on device"


def test_ctrl_c_leaves_the_motors_damped(go2: qd.Robot) -> None:
    scene = LoopSetup(go2)
    scene.operator.walk()
    scene.operator.read_device = lambda now: scene.controller.ticks == 7 and (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        scene.loop.run(1.0)
    assert damping(scene.fake.written[-1]) and scene.fake.written[-2].tau.any()
    scene.operator.read_device = lambda now: scene.loop.request_stop()
    assert scene.loop.run(1.0).statistics.ticks == 1


def test_real_time_options_are_restored_and_reported() -> None:
    assert gc.isenabled()
    with RealTimeOptions(priority=1_000_000, cpus=(100_000,), lock_memory=False).applied() as said:
        assert not gc.isenabled()
        assert [line.partition(":")[2].split(" (")[0].strip() for line in said] == ["disabled", *["not permitted"] * 2]
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_quantiles_are_accurate_to_one_bin() -> None:
    """Times beyond the last bin are as large as the largest one."""
    times, histogram = np.random.default_rng(0).exponential(1e-3, 5000), Histogram()
    times[:3] = 0.5
    for t in times.tolist():
        histogram.add(t)
    for share in (0.1, 0.5, 0.99, 0.9999):
        exact = np.sort(times)[int(np.ceil(share * 5000)) - 1]
        assert exact <= histogram.quantile(share) <= exact + 1.0001e-6
    assert np.isclose(histogram.mean, times.mean()) and histogram.largest == times.max()


def test_system_clock_waits_until_a_deadline_and_not_after_it() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep_until(before - 1.0)
    clock.sleep_until(before + 0.01)
    assert clock.now() >= before + 0.01


def test_a_clock_that_is_none_is_rejected_with_the_methods_that_it_lacks(go2: qd.Robot) -> None:
    class Stopwatch:
        def now(self) -> float:
            return 0.0

    clock = ManualClock()
    parts = FakeInterface(go2, clock), ScriptedController(go2, clock)
    raises(
        ArgumentTypeError,
        r"clock: expected a Clock, got Stopwatch without sleep_until\(\)",
        ControlLoop,
        *parts,
        clock=Stopwatch(),
    )


def test_mismatched_parts_are_rejected(go2: qd.Robot) -> None:
    clock = ManualClock()
    with pytest.raises(qd.ArgumentError, match="controller: belongs to another robot"):
        ControlLoop(FakeInterface(go2, clock), ScriptedController(qd.load("a1"), clock))
    for options in ({"overrun": "wait"}, {"decay_ticks": 0}):
        raises(qd.ArgumentError, next(iter(options)), LoopSetup, go2, **options)
    with pytest.warns(RuntimeWarning, match="deadman_timeout: 500 s seems to be in milliseconds"):
        Operator(deadman_timeout=500.0)
    raises(qd.ArgumentError, "deadman_timeout", Operator, deadman_timeout=0.0)
    raises(qd.ArgumentError, "velocity", Operator().walk, (np.nan, 0.0, 0.0))
    raises(qd.ArgumentError, "delay", WalkingController, go2, delay=0.5)


def test_a_walking_controller_stands_up_trots_and_lies_down_on_sensor_readings(go2: qd.Robot) -> None:
    plant = Simulation(go2, dt=DT)
    sensors = Sensors(
        go2,
        np.random.default_rng(0),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05, torque_noise=0.2),
        imu=Imu(gyro_noise=0.01, accelerometer_noise=0.1),
        feet=FootSensors(noise=1.0),
        delay=2.0 * DT,
    )
    side, operator = PlantInterface(plant, sensors=sensors), Operator()
    walker = WalkingController(go2, dt=2.0 * DT, delay=2.0 * DT)
    loop = ControlLoop(side, walker, operator=operator, clock=side, real_time=RealTimeOptions(disable_gc=False))
    operator.walk((0.4, 0.0, 0.0))
    report = loop.run(3.6)
    assert report.fault is None, report.fault
    assert report.stage is Stage.RUN and plant.q[0] > 0.1
    assert report.velocity_limit == ""
    operator.walk((300.0, 0.0, 20.0))
    report = loop.run(0.1)
    assert re.search(r"commanded .* requested \+300.* \+20.* rad/s \(limited: ", report.velocity_limit)
    assert f"the requested velocity was limited: {report.velocity_limit}" in str(report)
    operator.damp()
    operator.read_device = lambda now: loop.request_stop() if loop.stage is Stage.DAMP else None
    report = loop.run(5.0)
    assert report.fault is None, report.fault
    assert report.stage is Stage.DAMP and walker.locomotion.mode.value == "lying"
    m = side.read()
    raises(qd.ArgumentError, "position", walker.compute, replace(m, position=np.full(12, np.nan)), Stage.RUN)
    assert walker.failure_reason == ""
    walker.locomotion._quadruped.mode = LocomotionMode.FALLEN
    walker.compute(m, Stage.RUN)
    assert walker.failure_reason == "the robot has fallen" and not walker.is_settled
    walker.reset(m)
    assert walker.failure_reason == ""


def test_missing_readings_are_bridged_by_prediction(go2: qd.Robot) -> None:
    walker, zero, rate = WalkingController(go2, dt=DT), np.zeros(12), 0.5
    joints = go2.q_home[7:]

    def yaw() -> float:
        R = walker.estimator._state.R
        return float(np.arctan2(R[1, 0], R[0, 0]))

    def read(time: float) -> float:
        walker.compute(
            Measurement(time, joints, zero, np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 9.81])), Stage.RUN
        )
        return yaw()

    walker.reset(Measurement(0.0, joints, zero, np.zeros(3), np.array([0.0, 0.0, 9.81])))
    first = read(1.0)
    assert read(1.0) == first  # a repeated reading adds no rotation, but the state is predicted
    q, _ = walker.estimated_state
    assert 2.0 * np.arctan2(q[5], q[6]) > first
    one = read(1.0 + DT) - first
    assert one == pytest.approx(rate * DT, rel=0.2)
    before = yaw()
    assert read(1.0 + 4.0 * DT) - before == pytest.approx(3.0 * one, rel=0.1)  # two were lost
    before = yaw()
    assert read(9.0) - before == pytest.approx(one, rel=0.3)  # a clock that jumps is not used


def test_scheduling_priority_is_set_for_this_process_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr("os.sched_getscheduler", lambda pid: ("policy of", pid))
    monkeypatch.setattr("os.sched_getparam", lambda pid: ("parameters of", pid))
    monkeypatch.setattr("os.sched_setscheduler", lambda pid, policy, p: told.append((pid, policy, p)))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: ("processors of", pid))
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: told.append((pid, cpus)))
    with RealTimeOptions(priority=50, cpus=(1, 0), lock_memory=False, disable_gc=False).applied() as said:
        assert said == ("processors [0, 1]: set", "SCHED_FIFO 50: on")
        (pinned, (pid, policy, parameters)) = told
        assert pinned == (0, (1, 0)) and (pid, policy, parameters.sched_priority) == (0, os.SCHED_FIFO, 50)
    assert told[2:] == [(0, ("policy of", 0), ("parameters of", 0)), (0, ("processors of", 0))]


def test_report_gives_the_reasons_of_the_end_the_stage_and_late_ticks(go2: qd.Robot) -> None:
    scene = LoopSetup(go2, overrun="repeat")
    report = scene.loop.run(0.01)
    assert report.end_reason == "the duration of 0.01 s has passed" and not report.stage_reason
    assert "took long" not in str(report)
    scene.operator.walk()
    scene.controller.done = False
    scene.controller.takes = {3: 2.7 * DT}  # the next tick starts late, and misses no deadline
    report = scene.loop.run(0.02)
    assert "not in the requested stage 'run', because the present stage is not completed" in str(report)
    late = report.statistics.latest_tick
    assert late is not None and late.missed_deadlines == 2 and np.isclose(late.compute, 2.7 * DT)
    assert "0 late ticks started late (see RealTimeOptions), 1 took long; the latest: tick 2 took long" in str(report)
    scene.loop.safety.raise_fault(FaultCode.OPERATOR_STOP, ": for a test")
    report = scene.loop.run(0.01)
    assert report.stage_reason.endswith("because the fault 'stopped' damps the motors until a reset")
    scene.fake.on_write = scene.loop.request_stop
    assert scene.loop.run(0.01).end_reason == "request_stop was called"


def test_late_ticks_are_counted_by_cause() -> None:
    statistics = LoopStatistics.empty()
    for tick in (LateTick(3, 1e-4, 2.5e-3, 1), LateTick(8, 9e-3, 1e-3, 5), LateTick(9, 8e-3, 1e-3, 4)):
        statistics.add_late_tick(tick)
    assert (statistics.overruns, statistics.missed_deadlines, statistics.late_starts) == (3, 10, 2)
    assert statistics.latest_tick is not None and statistics.latest_tick.number == 8
    assert "tick 8 started late: started 9 ms after its deadline, took 1 ms, missed deadlines: 5" in str(statistics)


def test_interface_without_a_robot_is_rejected_with_the_remedy(go2: qd.Robot) -> None:
    class NoRobot(FakeInterface):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match=r"'NoRobot' .* 'robot'; assign .* self\.robot = robot"):
        ControlLoop(NoRobot(), ScriptedController(go2, ManualClock()))
    with pytest.raises(AttributeError, match=r"has no attribute 'other'$"):
        _ = NoRobot().other  # type: ignore[attr-defined]


# -- keyboard and gamepad operators -----------------------------------------------------------------------------------
def test_keys_are_read_without_blocking_and_the_robot_lies_down_without_keys() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as file:
        operator = KeyboardOperator(deadman_timeout=1.0, file=file)
        with operator.raw_terminal():  # a pipe is not a terminal
            assert operator.poll(0.0).target_stage is Stage.DAMP
            os.write(write, b"w")  # a direction alone does not make the robot stand up
            assert operator.poll(0.1).target_stage is Stage.DAMP
            os.write(write, b"rwWwaq")
            request = operator.poll(0.2)
            assert request.target_stage is Stage.RUN and request.velocity == pytest.approx((0.3, 0.1, 0.2))
            os.write(write, b"w" * 20 + b"d" * 9)
            assert operator.poll(0.3).velocity == pytest.approx((0.6, -0.3, 0.2))
            os.write(write, b"x")
            assert operator.poll(0.4).velocity == (0.0, 0.0, 0.0)
            os.write(write, b"?")  # resets the dead-man timeout
            assert operator.poll(1.3).target_stage is operator.poll(2.2).target_stage is Stage.RUN
            assert operator.poll(2.4).target_stage is Stage.DAMP
            os.write(write, b" ")
            assert operator.poll(2.5).stop_reason == "space bar"
            os.write(write, b"z")
            request = operator.poll(2.6)
            assert request.reset_fault and not request.stop_reason and request.target_stage is Stage.DAMP
            assert not operator.poll(2.65).reset_fault
            os.write(write, b"rl")
            assert operator.poll(2.7).target_stage is Stage.DAMP
            os.write(write, b"o")
            assert operator.poll(2.8).target_stage is Stage.OFF
    os.close(write)
    for wrong in ({"velocity_step": (0.1, 0.1)}, {"max_velocity": (0.0, 1.0, 1.0)}, {"deadman_timeout": 0.0}):
        raises(qd.ArgumentError, next(iter(wrong)), KeyboardOperator, **wrong)


class Pad:
    """A gamepad."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.ways = {"forward": 0.0, "left": 0.0, "turn": 0.0}
        self.gone = False

    def get_axis(self, axis: int) -> float:
        return next(self.ways[name] for name, number in AXES.items() if number == axis)

    def get_button(self, button: int) -> bool:
        if self.gone:
            raise RuntimeError("Joystick not initialized")
        return any(BUTTONS[name] == button for name in self.down)


def test_gamepad_moves_the_robot_only_while_the_hold_button_is_pressed() -> None:
    pad = Pad()
    operator = GamepadOperator(pad, deadman_timeout=1.0)
    operator.poll(0.0)
    pad.down = {"run"}
    assert operator.poll(0.1).target_stage is Stage.DAMP  # without the hold button
    pad.down = {"hold"}
    assert operator.poll(0.2).target_stage is Stage.DAMP  # not later either
    pad.down, pad.ways = {"run", "hold"}, {"forward": -1.0, "left": 0.5, "turn": 0.05}
    request = operator.poll(0.3)
    assert request.target_stage is Stage.RUN and request.velocity == pytest.approx((0.6, -0.15, 0.0))
    pad.down = {"hold"}
    assert operator.poll(5.0).target_stage is Stage.RUN
    pad.down = set()
    assert operator.poll(5.5).velocity == (0.0, 0.0, 0.0) and operator.poll(5.9).target_stage is Stage.RUN
    assert operator.poll(6.1).target_stage is Stage.DAMP
    pad.down = {"hold"}  # pressing it again is not sufficient
    assert operator.poll(6.2).target_stage is Stage.DAMP and operator.poll(6.3).target_stage is Stage.DAMP
    pad.down = {"hold", "run"}
    assert operator.poll(6.4).target_stage is Stage.RUN
    pad.down = {"hold", "stop"}
    assert operator.poll(6.5).stop_reason == "gamepad"
    pad.down = {"reset"}
    assert operator.poll(6.6).reset_fault and operator.poll(6.7).target_stage is Stage.DAMP
    pad.down = {"off"}
    assert operator.poll(6.8).target_stage is Stage.OFF


def test_an_unplugged_gamepad_has_released_buttons() -> None:
    pad = Pad()
    operator = GamepadOperator(pad, deadman_timeout=0.5)
    operator.poll(0.0)
    pad.down, pad.ways["forward"] = {"run", "hold"}, -1.0
    assert operator.poll(0.1).velocity[0] > 0.0
    pad.gone = True
    assert operator.poll(0.2).velocity == (0.0, 0.0, 0.0) and operator.poll(0.7).target_stage is Stage.DAMP
    for wrong in ({"buttons": {"jump": 3}}, {"axes": {"up": 1}}, {"max_velocity": (1.0, 1.0, -1.0)}):
        raises(qd.ArgumentError, next(iter(wrong)), GamepadOperator, pad, **wrong)


@pytest.mark.parametrize("end", ["damp", "power_off", "emergency_stop", "reset", "silence"])
def test_a_stop_sets_the_requested_velocity_to_zero(end: str) -> None:
    operator = Operator(deadman_timeout=1.0)
    operator.walk((0.3, -0.1, 0.2))
    assert operator.poll(0.0).velocity == (0.3, -0.1, 0.2)
    if end != "silence":
        getattr(operator, end)()
    request = operator.poll(1.5 if end == "silence" else 0.1)
    assert (
        request.stop_reason
        if end == "emergency_stop"
        else request.target_stage is not Stage.RUN and request.velocity == (0.0, 0.0, 0.0)
    )
