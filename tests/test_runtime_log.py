"""Recordings are intact after a crash, bounded in size, exported, and replayed bit for bit."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raising import raises
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.runtime import (
    ControlLoop,
    LoopTick,
    Operator,
    PlantInterface,
    RealTimeOptions,
    Recording,
    Request,
    Stage,
    WalkingController,
    load_recording,
)
from quaddyn.runtime.faults import Fault
from quaddyn.runtime.motor_command import MotorCommand
from quaddyn.runtime.recording import HEAD, record_type
from quaddyn.runtime.run_log import RunLog
from quaddyn.runtime.safety_checks import FaultCode
from quaddyn.simulation import Actuators, Encoders, FootSensors, Imu, Measurement, Sensors, Simulation

DT = 4e-3
#: Disabling the garbage collector takes half a second of each run here.
WITHOUT_GC_CONTROL = RealTimeOptions(disable_gc=False)


@pytest.fixture(scope="module")
def run(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Go2 that gets up and begins to trot on noisy sensors."""
    path = tmp_path_factory.mktemp("log") / "run.qdlog"
    sensors = Sensors(
        go2,
        np.random.default_rng(0),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05),
        imu=Imu(gyro_noise=0.01, accelerometer_noise=0.1),
        feet=FootSensors(noise=1.0),
    )
    side, walker, operator = (
        PlantInterface(Simulation(go2, dt=2e-3), sensors=sensors),
        WalkingController(go2, dt=DT),
        Operator(),
    )
    recording = Recording(path, go2, controller=walker, seconds=10.0)
    loop = ControlLoop(side, walker, operator=operator, clock=side, recorder=recording, real_time=WITHOUT_GC_CONTROL)
    operator.walk((0.3, 0.0, 0.1))
    loop.run(3.2)
    operator.emergency_stop("end of the test")
    loop.run(0.02)
    assert loop.recording_error is None
    recording.close()
    return path


def test_a_recording_describes_its_run(run: Path, go2: qd.Robot) -> None:
    log = load_recording(run)
    assert len(log) == 805 and log.robot().actuated == go2.actuated
    assert list(dict.fromkeys(log.stages)) == [Stage.DAMP, Stage.STAND_UP, Stage.RUN]
    assert log.faults == ("stopped: stopped by the operator: end of the test",)
    for word in ("805 ticks of 4 ms", "stand up", "folding 3", "solved ", "fault: stopped"):
        assert word in str(log)
    q, v = log.state(780, go2)
    assert 0.2 < q[2] < 0.4 and v is not None and np.abs(q[7:] - log.records["position"][780]).max() < 1e-12
    q, v = log.state(3, go2)  # before there is an estimate
    assert v is None and np.array_equal(q[7:], log.records["position"][3])
    m = log.measurement(100)
    assert m.foot_forces is not None and m.temperature is None and np.isclose(np.linalg.norm(m.accelerometer), 9.8, 0.2)


def test_a_replay_gives_the_same_commands_bit_for_bit(run: Path) -> None:
    log = load_recording(run)
    again = log.replay()
    assert again.identical and again.ticks > 790 and again.max_difference == 0.0
    # the replay detects a reading that differs by a billionth (a difference in the last bit may be lost in rounding)
    changed = log.records.copy()
    changed["gyro"][600, 1] += 1e-9
    other = RunLog(log.metadata, changed[:640])
    assert not other.replay().identical
    gaps = log.compare(other)
    assert gaps["gyro"] > 0.0 and gaps["position"] == 0.0
    with pytest.raises(qd.ArgumentError, match="does not contain the start"):
        RunLog(log.metadata, log.records[100:]).replay()


def test_controller_failure_on_an_invalid_reading_is_replayed(go2: qd.Robot, tmp_path: Path) -> None:
    sensors = Sensors(go2, np.random.default_rng(0), feet=FootSensors())
    walker, operator = WalkingController(go2, dt=DT), Operator()

    class Broken(PlantInterface):
        def read(self) -> Measurement:
            m = super().read()
            return replace(m, position=np.full(12, np.nan)) if self.now() > 1.5 else m

    side = Broken(Simulation(go2, dt=DT), sensors=sensors)
    recording = Recording(tmp_path / "log", go2, controller=walker, seconds=3.0)
    operator.walk()
    report = ControlLoop(
        side, walker, operator=operator, clock=side, recorder=recording, real_time=WITHOUT_GC_CONTROL
    ).run(1.6)
    assert report.fault is not None and report.fault.name == "reading not a number"  # not "controller failed"
    again = load_recording(tmp_path / "log").replay()
    assert again.identical and again.ticks > 360


def test_mcap_files_have_the_same_content(run: Path, tmp_path: Path) -> None:
    reader = pytest.importorskip("mcap.reader")
    log = load_recording(run)
    short = RunLog(log.metadata, log.records[::40])
    with short.to_mcap(tmp_path / "log.mcap", encoding="json").open("rb") as file:
        opened = reader.make_reader(file)
        messages = [(channel.topic, json.loads(m.data)) for _, channel, m in opened.iter_messages()]
        attached = {each.name: each.data for each in opened.iter_attachments()}
        kinds = {each.name: each.media_type for each in opened.iter_attachments()}
    topics = {topic for topic, _ in messages}
    with short.to_mcap(tmp_path / "log.mcap").open("rb") as file:
        names = {channel.topic for channel in reader.make_reader(file).get_summary().channels.values()}
    assert names == topics - {"/wanted"} | {"/controller_commands"}
    base = {"/base", "/base_velocity", "/odom", "/tf", "/tf_static", "/robot_description", "/robot_shapes"}
    assert topics == {"/joint_states", "/joint_commands", "/wanted", "/imu", "/feet", "/cmd_vel", "/tick", *base}
    assert (
        b"<robot" in attached["robot.urdf"]
        and json.loads(attached["about.json"])["controller"]["kind"] == "WalkingController"
    )
    assert (kinds["robot.urdf"], kinds["about.json"]) == ("application/xml", "application/json")
    states = [content for topic, content in messages if topic == "/joint_states"]
    assert states[3]["position"] == short.records["position"][3].tolist()


def tick(number: int) -> LoopTick:
    zero = np.zeros(12)
    m = Measurement(0.002 * number, zero + number, zero, np.zeros(3), np.zeros(3))
    command, request = MotorCommand.zero(12), Request(Stage.DAMP, (0.0, 0.0, 0.0))
    return LoopTick(number, 0.002 * number, 0.002 * number, m, Stage.DAMP, request, command, command, None, False)


def test_ring_buffer_keeps_only_the_last_seconds(go2: qd.Robot, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "ring", go2, dt=0.002, seconds=0.1)
    size = recording.path.stat().st_size
    for number in range(170):
        recording.record(tick(number))
    log = load_recording(recording.path)  # while it is written
    assert log.records["tick"].tolist() == list(range(120, 170)) and recording.path.stat().st_size == size
    assert np.array_equal(log.records["position"][:, 0], np.arange(120.0, 170.0))
    # A tick interrupted by a crash is ignored.
    recording._records["number"][10] = 0
    assert len(load_recording(recording.path)) == 49
    # The reason of the first fault and that of a later one, both with the same status.
    faults = [None, *(Fault.from_code(code, 0, 0.0, 0.0, go2) for code in (FaultCode.LINK_LOSS, FaultCode.POWER_LIMIT))]
    for number, fault in enumerate(faults, start=170):
        recording.record(replace(tick(number), fault=fault))
    reasons = load_recording(recording.path).text_columns()["fault"]
    assert reasons[-3:] == ["" if fault is None else str(fault) for fault in faults]
    recording.close()
    with pytest.raises(qd.ArgumentError, match="controller: required"):
        load_recording(tmp_path / "ring").replay()


KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from test_runtime_log import *
recording = Recording(sys.argv[1], qd.load("go2"), dt=0.002, seconds=1.0)
for number in range(10_000_000):
    recording.record(tick(number))
    if number == 700:
        print("going", flush=True)
"""


def test_recording_survives_a_killed_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "log"), str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    assert process.stdout is not None and process.stdout.readline() == "going\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60.0)
    process.stdout.close()
    ticks = load_recording(tmp_path / "log").records["tick"]
    assert len(ticks) >= 499 and ticks[-1] >= 699 and (np.diff(ticks) == 1).all()  # except for one that was interrupted


def test_full_disk_is_reported_before_the_first_tick(
    go2: qd.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, offset: int, length: int) -> None:
        assert length > 100_000  # all that will ever be written
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    raises(OSError, "No space", Recording, tmp_path / "log", go2, dt=0.002)
    assert not list(tmp_path.iterdir())


def test_invalid_recording_files_are_rejected(run: Path, tmp_path: Path, go2: qd.Robot) -> None:
    data = run.read_bytes()
    for content, why in (
        (b"", "expected a recording of a control loop .*, got an empty file"),
        (data[: len(data) // 2], "truncated"),
        (data[:6] + b"\x09" + data[7:], "version 9"),
        (data[:40] + b"\xff" * 10 + data[50:], "damaged"),
    ):
        (tmp_path / "bad").write_bytes(content)
        raises(qd.ArgumentError, why, load_recording, tmp_path / "bad")
    raises(OSError, "No such file", Recording, tmp_path / "nowhere" / "log", go2, dt=0.002)
    for wrong in ({}, {"dt": 0.0}, {"dt": 0.002, "seconds": np.inf}):
        with pytest.raises(qd.ArgumentError):
            Recording(tmp_path / "log", go2, **wrong)


# -- damage ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def short(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of five ticks."""
    recording = Recording(tmp_path_factory.mktemp("short") / "run.qdlog", go2, dt=0.002, seconds=0.01)
    for number in range(5):
        recording.record(replace(tick(number), was_reset=number == 0))
    recording.close()
    return recording.path


def with_description(data: bytes, change: Callable[[Any], object]) -> bytes:
    """The recording with a changed description; a return value of `change` replaces it."""
    magic, version, length, begin, size, capacity = HEAD.unpack_from(data)
    about = json.loads(data[HEAD.size : HEAD.size + length])
    changed = change(about)
    text = changed if isinstance(changed, bytes) else json.dumps(about if changed is None else changed).encode()
    head = HEAD.pack(magic, version, len(text), HEAD.size + len(text), size, capacity)
    return head + text + data[begin:]


def with_tick(data: bytes, name: str, value: object) -> bytes:
    """The recording with another value in its third tick."""
    *_, begin, _, capacity = HEAD.unpack_from(data)
    about = json.loads(data[HEAD.size : HEAD.size + HEAD.unpack_from(data)[2]])
    records = np.frombuffer(data, record_type(about["sizes"]), capacity, begin).copy()
    records[name][2] = value
    return data[:begin] + records.tobytes()


def read_all(path: Path, to: Path) -> RunLog:
    """Reads all properties of a recording."""
    log = load_recording(path)
    assert str(log) and len(log.stages) == len(log) and log.faults is not None and log.statuses is not None
    log.compare(log)
    log.to_mcap(to / "log.mcap")
    with contextlib.suppress(qd.ArgumentError):
        log.fit_actuators()
    return log


#: Parts of the description, by their keys.
PARTS = [
    *((name,) for name in ("sizes", "joints", "feet", "dt", "began", "quaddyn", "controller", "robot")),
    *(("sizes", name) for name in ("nu", "nf", "nq", "nv")),
    *(("joints", 0), ("feet", 1), ("robot", "name"), ("robot", "urdf"), ("robot", "root")),
]
#: Invalid replacements of a part.
INSTEAD: tuple[Any, ...] = (-1, 1.5, 1 << 70, float("nan"), True, "text", [], [[]], {}, {"a": None})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: ".".join(map(str, part)))
def test_a_damaged_description_of_a_recording_is_reported(part: tuple[Any, ...], short: Path, tmp_path: Path) -> None:
    """A missing part or one of another type gives an error that names the file when the log is read or used."""
    path, data, refused = tmp_path / "run.qdlog", short.read_bytes(), 0

    def left_out(about: Any) -> None:
        for key in part[:-1]:
            about = about[key]
        del about[part[-1]]

    def put(value: Any) -> Callable[[Any], None]:
        def change(about: Any) -> None:
            for key in part[:-1]:
                about = about[key]
            about[part[-1]] = value

        return change

    for change in (left_out, *map(put, INSTEAD)):
        path.write_bytes(with_description(data, change))
        try:
            read_all(path, tmp_path)
        except qd.ArgumentError as error:
            refused += str(path) in str(error)
    assert refused >= (len(INSTEAD) - 2 if part[-1] not in ("began", "quaddyn", "name", "urdf", "root", "dt") else 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("stage", value) for value in (-1, 99, 32767)),
        ("goal", 99),
        *((name, value) for name in ("begun", "deadline") for value in (np.nan, np.inf, -1e300)),
        ("status", b"\xff\xfe"),
        ("reason", b"caf\xc3\xa9"),
    ],
)
def test_tick_with_an_invalid_value_is_rejected(name: str, value: Any, short: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.qdlog"
    path.write_bytes(with_tick(short.read_bytes(), name, value))
    raises(qd.ArgumentError, f"^{path}: tick 2 is damaged: its {name}", load_recording, path)


def test_arbitrary_sensor_values_and_decreasing_times_are_read(short: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.qdlog"
    for name, value in (("time", np.nan), ("position", np.inf), ("gyro", -1e300), ("begun", -1.0), ("q", 1e300)):
        path.write_bytes(with_tick(short.read_bytes(), name, value))
        assert len(read_all(path, tmp_path)) == 5


def test_damaged_robots_and_controllers_of_recordings_are_reported(go2: qd.Robot, short: Path, tmp_path: Path) -> None:
    path, data = tmp_path / "run.qdlog", short.read_bytes()
    for change, said in (
        (lambda about: about["robot"].update(urdf="no XML"), "description of the robot"),
        (lambda about: about["robot"].update(root="fixed"), "description of the robot"),
        (lambda about: about["robot"].update(limits={"FL_hip": {"effort": "much"}}), "description of the robot"),
        (lambda about: about["robot"].update(feet={"FL": [1]}), "description of the robot"),
        (lambda about: about["robot"].__delitem__("q_home"), "description of the robot"),
        (lambda about: about.update(joints=about["joints"][::-1]), "not those of its robot"),
        (
            lambda about: about.update(controller={"kind": "WalkingController", "shoes": 2}),
            "controller in the log is damaged",
        ),
        (
            lambda about: about.update(controller={"kind": "WalkingController", "dt": "fast"}),
            "controller in the log is damaged",
        ),
    ):
        path.write_bytes(with_description(data, change))
        with pytest.raises(qd.ArgumentError, match=f"^{path}: .*{said}"):
            load_recording(path).replay() if "controller" in said else load_recording(path).robot()
    path.write_bytes(with_tick(with_tick(data, "q", 2.0), "v", 0.0))
    with pytest.raises(qd.ArgumentError, match=f"^{path}: tick 2 is damaged: its q"):
        load_recording(path).state(2, go2)


def test_randomly_corrupted_recordings_are_read_or_rejected(short: Path, tmp_path: Path) -> None:
    path, data, rng = tmp_path / "run.qdlog", short.read_bytes(), random.Random(45)
    length, refused = HEAD.size + HEAD.unpack_from(data)[2], 0
    for texts in (b"", b"[" * 100_000, b"\xff\xfe", b"Dear reader", b"null", b"[]", b"{}"):
        path.write_bytes(with_description(data, lambda about, texts=texts: texts))
        raises(qd.ArgumentError, rf"^{path}: the description of the run is damaged", load_recording, path)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 8, 64))):
            damaged[rng.randrange(rng.choice((HEAD.size, length, len(data))))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice((len(data), rng.randrange(len(data))))])
        try:
            read_all(path, tmp_path)
        except qd.ArgumentError as error:
            refused += str(path) in str(error)
    assert 20 < refused < 60


def test_log_commands_show_replay_and_convert_recordings(run: Path, tmp_path: Path) -> None:
    def quaddyn(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["log", *map(str, words)], env={"COLUMNS": "200"})
        return done.exit_code, done.output

    assert quaddyn("show", run)[1].startswith("go2_description, 805 ticks")
    assert json.loads(quaddyn("show", run, "--json")[1])["stages"]["run"] > 100
    code, said = quaddyn("compare", run, run)
    assert code == 0 and "position" in said
    assert quaddyn("view", run, "--record", tmp_path / "log.html") == (0, f"wrote {tmp_path / 'log.html'}\n")
    assert "solved" in (tmp_path / "log.html").read_text(encoding="utf-8")
    pytest.importorskip("matplotlib")
    assert quaddyn("plot", run, "--out", tmp_path / "log.png")[0] == 0
    assert (tmp_path / "log.png").stat().st_size > 10_000


def test_motor_delay_is_fitted_from_a_recording(go2: qd.Robot, run: Path, tmp_path: Path) -> None:
    log = load_recording(run)
    found = log.fit_actuators()
    log.records["torque"][len(log) // 2, 3] = np.nan
    raises(qd.ArgumentError, "no measured torques", log.fit_actuators)
    legs = [i for i, name in enumerate(go2.actuated) if "hip" not in name]
    # A torque is measured with the reading after the command, one period later.
    np.testing.assert_allclose(found.delay[legs], DT, rtol=0.1)
    done = CliRunner().invoke(app, ["log", "fit-actuators", str(run), "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["joints"] == list(go2.actuated) and told["delay"][legs[0]] == found.delay[legs[0]]
    assert told["viscous"] == [None] * go2.nu
    target = tmp_path / "motors.json"
    text = CliRunner().invoke(app, ["log", "fit-actuators", str(run), "--out", str(target)]).stdout
    assert "delay [ms]" in text and f"wrote {target}" in text
    motors, expected = Actuators.load(target, go2), found.actuators(go2, period=DT)
    for name, values in expected.constructor_arguments.items():
        np.testing.assert_array_equal(getattr(motors, name), values)
