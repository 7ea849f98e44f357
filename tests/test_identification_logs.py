"""Logs of any format are identified: tables, recordings, MCAP files and bags, with mapped names and clear errors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow
from test_identification import make_samples
from test_mjcf import ARM, QUADRUPED
from test_runtime_log import tick
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.cli.identifying import read_column_names
from quaddyn.identification import (
    ActuatorFit,
    Identification,
    Samples,
    base_parameters,
    fit_actuators,
    identify,
    load_samples,
    samples_from_columns,
    save_samples,
)
from quaddyn.identification.log_samples import recorded_root
from quaddyn.runtime import MotorCommand, Recording, load_recording
from quaddyn.simulation import Actuators, Log, Measurement, MujocoPlant, Plant, Simulation
from quaddyn.simulation.log import BASE_COLUMNS
from quaddyn.simulation.log_files import read_columns
from quaddyn.simulation.mcap_file import write_messages

DAMPING = 0.3
DT = 2e-3


def swing(t: float) -> np.ndarray:
    """Position, velocity and acceleration (3, 12) of a motion of 12 joints about zero [rad]."""
    w = 3.0 + 0.7 * np.arange(12) + 4.0 * (np.arange(12) % 3 == 2)
    return 0.25 * np.array([np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)])


@pytest.fixture(scope="module")
def log() -> Log:
    """Go2 in a stand, with damping that its file does not have, which follows a motion."""
    truth = qd.load("go2", root="fixed", damping=DAMPING)
    sim, dyn, home = qd.Simulation(truth, dt=DT), qd.Dynamics(truth), truth.q_home
    sim.reset(home + swing(0.0)[0], swing(0.0)[1])

    def control(plant: qd.Simulation) -> np.ndarray:
        q, v, a = swing(plant.time)
        target = a + 400.0 * (home + q - plant.q) + 40.0 * (v - plant.v)
        return dyn.rnea(plant.q, plant.v, target) + DAMPING * plant.v

    return sim.run(control, 4.0)


@pytest.fixture(scope="module")
def held(log: Log) -> qd.Robot:
    return qd.load("go2", root="fixed")


def record(
    log: Log, path: Path, *, base: Callable[[float], np.ndarray] | None = None, sensors: bool = True, late: float = 0.0
) -> Path:
    """A recording of the same run by the control loop of a robot, which reads each value twice.

    `base` is the estimated position and quaternion at a time, `late` the first time of the sensors.
    """
    robot = qd.load("go2")
    recording = Recording(path, robot, dt=DT, seconds=len(log.time) * DT * 2)
    torque = 0.5 * (log.tau + np.roll(log.tau, 1, axis=0))
    for i in range(2 * len(log.time)):
        k = i // 2
        readings = log.positions[k], log.velocities[k], np.zeros(3), np.zeros(3), torque[k] if sensors else None
        q = None if base is None else np.concatenate([base(log.time[k]), log.positions[k]])
        recording.record(
            replace(
                tick(i),
                measurement=Measurement(late + log.time[k], *readings),
                deadline=0.5 * DT * i,
                start_time=0.5 * DT * i,
                command=MotorCommand.from_torques(log.tau[k]),
                estimated_state=None if q is None else (q, np.zeros(18)),
            )
        )
    recording.close()
    return path


def write_bag(log: Log, path: Path, storage: str) -> Path:
    """A bag of rosbag2 with joint states only, written by rosbags."""
    rosbag2, typesys = pytest.importorskip("rosbags.rosbag2"), pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    kinds = store.types
    with rosbag2.Writer(path, version=9, storage_plugin=getattr(rosbag2.StoragePlugin, storage)) as writer:
        connection = writer.add_connection("/joint_states", "sensor_msgs/msg/JointState", typestore=store)
        torque = 0.5 * (log.tau + np.roll(log.tau, 1, axis=0))
        for i, seconds in enumerate(log.time):
            ns = round((seconds + 1000.0) * 1e9)
            stamp = kinds["builtin_interfaces/msg/Time"](ns // 10**9, ns % 10**9)
            header = kinds["std_msgs/msg/Header"](stamp, "")
            rows = map(np.array, (log.positions[i].tolist(), log.velocities[i].tolist(), torque[i].tolist()))
            message = kinds["sensor_msgs/msg/JointState"](header, list(log.joint_names), *rows)
            writer.write(connection, ns, store.serialize_cdr(message, "sensor_msgs/msg/JointState"))
    return path


FORMATS: dict[str, Callable[[Log, Path], Path]] = {
    "npz": lambda log, folder: log.save(folder / "run.npz"),
    "csv": lambda log, folder: log.to_csv(folder / "run.csv"),
    "parquet": lambda log, folder: log.to_parquet(folder / "run.parquet"),
    "mcap": lambda log, folder: log.to_mcap(folder / "run.mcap"),
    "mcap in JSON": lambda log, folder: log.to_mcap(folder / "run.mcap", encoding="json"),
    "recording": lambda log, folder: record(log, folder / "run.qdlog"),
    "bag": lambda log, folder: write_bag(log, folder / "bag", "SQLITE3"),
    "bag of MCAP": lambda log, folder: write_bag(log, folder / "bag", "MCAP"),
    "file of a bag": lambda log, folder: next(write_bag(log, folder / "bag", "SQLITE3").glob("*.db3")),
}


@pytest.mark.parametrize("name", ["npz", "recording"])
def test_the_damping_of_a_robot_is_identified_from_its_log(name: str, log: Log, tmp_path: Path) -> None:
    path, target = FORMATS[name](log, tmp_path), tmp_path / "found.json"
    words = ["identify", str(path), "--robot", "go2", "--out", str(target)]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "150"})
    assert done.exit_code == 0, done.output
    assert "root=fixed is used, because the log does not contain the base" in done.output
    found = json.loads(target.read_text(encoding="utf-8"))
    assert found["samples"] > 1500 and found["inconsistent"] == []
    assert max(found["held_out"]["error"]) < 0.02 * max(found["held_out"]["signal"])
    for joint in log.joint_names:
        assert abs(found["parameters"][f"fv {joint}"] - DAMPING) < 0.02, joint


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"recording"}))
def test_samples_are_the_same_in_every_format(name: str, log: Log, held: qd.Robot, tmp_path: Path) -> None:
    columns = read_columns(FORMATS[name](log, tmp_path))
    root, reason = recorded_root(columns)
    assert root == "fixed" and reason.startswith("the log does not contain the base")
    found, expected = samples_from_columns(held, columns), samples_from_columns(held, log.columns())
    for x in ("q", "v", "a", "tau"):
        error, size = np.abs(getattr(found, x) - getattr(expected, x)), np.abs(getattr(expected, x)).max()
        # The measured torques of a bag differ from the commanded ones of a log at the first rows.
        assert np.median(error) <= 1e-9 * size and (x == "tau" or error.max() <= 1e-9 * size), x


def test_samples_of_a_log_are_a_motion_of_the_robot(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    """Without a filter, the torques are those of inverse dynamics at the rows, to the error of differences."""
    samples = load_samples(log.save(tmp_path / "run.npz"), held, cutoff=np.inf)
    dyn = qd.Dynamics(held)
    expected = np.array([dyn.rnea(*row) for row in zip(samples.q, samples.v, samples.a, strict=True)])
    expected += DAMPING * samples.v
    error = np.abs(samples.tau - expected).max()
    assert error < 0.02 * np.abs(samples.tau).max()
    shifted = np.abs(samples.tau[1:] - expected[:-1]).max()
    assert shifted > 3.0 * error, "the torques of a row are not those of the row before"
    np.testing.assert_array_equal(samples.q, log.q[2:-2])
    csv_samples = load_samples(log.to_csv(tmp_path / "run.csv"), held, cutoff=np.inf)
    np.testing.assert_allclose(csv_samples.tau, samples.tau, rtol=1e-15)


def test_contact_forces_and_base_of_a_free_robot_are_used(tmp_path: Path) -> None:
    """The unactuated equations of a robot that squats hold with the logged forces."""
    robot = qd.load("go2")
    sim, home = qd.Simulation(robot, dt=1e-3), robot.q_home[7:]

    def control(plant: qd.Simulation) -> np.ndarray:
        target = home + np.tile([0.0, 0.15, -0.3], 4) * np.sin(6.0 * plant.time)
        return 120.0 * (target - plant.q[7:]) - 4.0 * plant.v[6:]

    sim.run(control, 0.5)
    log = sim.run(control, 1.0)
    for path in (log.save(tmp_path / "run.npz"), log.to_mcap(tmp_path / "run.mcap")):
        columns = read_columns(path)
        assert recorded_root(columns) == ("free", "the log contains the base and contact forces")
        samples = samples_from_columns(robot, columns)
        assert set(samples.forces) == set(robot.feet) and samples.force_application == "ground"
        samples.check(robot)
        exact = samples_from_columns(robot, columns, cutoff=np.inf)  # a force acts from its row to the next one
        for foot in robot.feet:
            force = np.column_stack(
                [next(v for k, v in columns.items() if k.startswith(f"force {foot} {x}")) for x in "xyz"]
            )
            np.testing.assert_allclose(exact.forces[foot], 0.5 * (force[2:-2] + force[1:-3]), atol=1e-9)
        momentum_rate = sum(f[:, 2] for f in samples.forces.values()) - robot.mass * 9.81
        assert np.abs(momentum_rate).max() > 10.0, "the robot moves"
        dyn = qd.Dynamics(robot)
        for i in range(0, len(samples), 50):
            state = dyn.update(samples.q[i], samples.v[i])
            residual = state.M @ samples.a[i] + state.h
            for foot, forces in samples.forces.items():
                point = state.placement(foot).translation - [0.0, 0.0, robot.legs[foot].foot.radius]
                lever = point - samples.q[i, :3]
                rotation = state.placement("base").rotation
                residual[:3] -= rotation.T @ forces[i]
                residual[3:6] -= rotation.T @ np.cross(lever, forces[i])
            assert np.abs(residual[:3]).max() < 3.0 and np.abs(residual[3:6]).max() < 1.0


def sdk_table(log: Log, path: Path, **changes: Any) -> Path:
    """A table with the names and units of an SDK: milliseconds and degrees."""
    t = 1e3 * log.time
    columns: dict[str, np.ndarray] = {"stamp": t}
    for i in range(12):
        columns |= {
            f"q_{i}": np.degrees(log.positions[:, i]),
            f"dq_{i}": log.velocities[:, i],
            f"tau_{i}": log.tau[:, i],
        }
    columns |= changes
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "note"])
        for row in np.column_stack(list(columns.values())).tolist():
            writer.writerow([*row, "a, b"])
    return path


def sdk_names(log: Log) -> dict[str, str]:
    names = {"stamp": "time [ms]"}
    for i, joint in enumerate(log.joint_names):
        names |= {f"q_{i}": f"position {joint} [deg]", f"dq_{i}": f"velocity {joint}", f"tau_{i}": f"tau {joint} [N m]"}
    return names


def test_columns_of_another_table_are_mapped_to_joints(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    path, names = sdk_table(log, tmp_path / "sdk.csv"), sdk_names(log)
    samples = load_samples(path, held, names=names)
    expected = samples_from_columns(held, log.columns())
    for x in ("q", "v", "a", "tau"):
        np.testing.assert_allclose(getattr(samples, x), getattr(expected, x), rtol=1e-9, atol=1e-7)
    (tmp_path / "names.json").write_text(json.dumps(names), encoding="utf-8")
    words = ["identify", str(path), "--robot", "go2", "--json", "--start", "0.5", "--end", "3.0", "--cutoff", "60"]
    done = CliRunner().invoke(app, [*words, "--column", str(tmp_path / "names.json")])
    assert done.exit_code == 0, done.output
    assert abs(json.loads(done.stdout)["parameters"]["fv FL_hip_joint"] - DAMPING) < 0.03
    assert read_column_names([f"{old}={new}" for old, new in names.items()]) == names


def test_joints_of_messages_and_of_sample_files_are_mapped(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    names = {f"leg{i}": joint for i, joint in enumerate(log.joint_names)}
    other = {new: old for old, new in names.items()}
    columns = {" ".join(other.get(word, word) for word in name.split(" ")): x for name, x in log.columns().items()}
    mapped = samples_from_columns(held, columns, names=names)
    np.testing.assert_array_equal(mapped.tau, samples_from_columns(held, log.columns()).tau)
    qd.identification.save_samples(tmp_path / "x.csv", held, mapped)
    text = (tmp_path / "x.csv").read_text(encoding="utf-8")
    for new, old in other.items():
        text = text.replace(new, old)
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    np.testing.assert_array_equal(load_samples(tmp_path / "x.csv", held, names=names).tau, mapped.tau)


def test_velocities_are_computed_from_positions_if_they_are_missing(log: Log, held: qd.Robot) -> None:
    columns = {name: x for name, x in log.columns().items() if not name.startswith("velocity")}
    samples, expected = samples_from_columns(held, columns), samples_from_columns(held, log.columns())
    assert np.abs(samples.v - expected.v).max() < 0.02 * np.abs(expected.v).max()


def test_gaps_and_repeated_readings_do_not_enter_the_samples(log: Log, held: qd.Robot) -> None:
    columns = {name: np.delete(x, slice(700, 900), axis=0) for name, x in log.columns().items()}
    columns = {name: np.repeat(x, 2, axis=0) for name, x in columns.items()}
    samples, expected = samples_from_columns(held, columns), samples_from_columns(held, log.columns())
    assert 1700 < len(samples) < 1800
    assert np.abs(samples.a).max() < 1.1 * np.abs(expected.a).max()


def change(name: str, value: Any) -> Callable[[dict[str, np.ndarray]], None]:
    def apply(columns: dict[str, np.ndarray]) -> None:
        columns[name] = value(columns[name].copy())

    return apply


def put(row: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def apply(x: np.ndarray) -> np.ndarray:
        x[row] = value
        return x

    return apply


def rename(old: str, new: str) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda columns: columns.update({new: columns.pop(old)})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda c: c.pop("tau RR_calf_joint [N m]"),
            r"column 'tau RR_calf_joint' of go2_description is missing \(1 in",
        ),
        (lambda c: c.pop("time [s]"), "column 'time' of go2_description is missing"),
        (lambda c: c.pop("velocity FL_hip_joint [rad/s]"), "column 'velocity FL_hip_joint'"),
        (
            change("position FR_hip_joint [rad]", put(17, np.nan)),
            r"column 'position FR_hip_joint \[rad\]' is empty or nan in row 17 \(at 0.034 s\)",
        ),
        (change("time [s]", put(30, 0.01)), r"column 'time \[s\]' decreases from 0.058 s to 0.01 s in row 30"),
        (change("time [s]", put(3, np.inf)), r"column 'time \[s\]' is inf in row 3"),
        (change("time [s]", lambda t: 1e3 * t), r"column 'time \[s\]': the median step is 2 s.*'time \[ms\]'"),
        (change("time [s]", lambda t: 30.0 * t), r"derivative of column .* is 0.0333 times column"),
        (change("time [s]", lambda t: 1e9 * t), "the median step is"),
        (
            lambda c: [change(name, np.degrees)(c) for name in list(c) if name.startswith("position")],
            r"derivative of column 'position \w+ \[rad\]' is 57.3 times column 'velocity",
        ),
        (rename("time [s]", "time [min]"), r"column 'time \[min\]': expected a unit among s, ms, us, ns, got 'min'"),
        (lambda c: c.update({"tau FL_hip_joint": c["time [s]"]}), "are both 'tau FL_hip_joint'"),
        (lambda c: c.update({n: x[:15] for n, x in c.items()}), "expected at least 20 rows"),
        (
            change("position FL_hip_joint [rad]", lambda x: x[:50]),
            r"column 'position FL_hip_joint \[rad\]' has 50 rows, but column 'time \[s\]' has 2000",
        ),
        (
            change("time [s]", lambda x: x[:50]),
            r"column 'position FL_hip_joint \[rad\]' has 2000 rows, but column 'time \[s\]' has 50",
        ),
        (
            change("tau RR_calf_joint [N m]", lambda x: np.tile(x[:, None], 2)),
            r"column 'tau RR_calf_joint \[N m\]': expected one number for each row, got an array of shape \(2000, 2\)",
        ),
        (
            change("tau RR_calf_joint [N m]", lambda x: [10**400] * len(x)),
            r"column 'tau RR_calf_joint \[N m\]': an integer is beyond the range of floats",
        ),
    ],
)
def test_invalid_logs_are_rejected_with_file_and_column(
    damage: Callable[[dict[str, np.ndarray]], Any], message: str, log: Log, held: qd.Robot
) -> None:
    columns = dict(log.columns())
    damage(columns)
    raises(qd.ArgumentError, f"^run.csv: .*{message}", samples_from_columns, held, columns, source="run.csv")


def test_one_velocity_in_another_unit_is_rejected_by_name(log: Log, held: qd.Robot) -> None:
    columns, found = log.columns(), 0
    for joint in held.actuated:
        name = f"velocity {joint} [rad/s]"
        if np.sqrt(np.mean(columns[name] ** 2)) > 0.06:
            found += 1
            with pytest.raises(qd.ArgumentError, match=f"derivative of column 'position {joint} "):
                samples_from_columns(held, columns | {name: np.radians(columns[name])}, source="run")
    assert found >= 6


@pytest.mark.parametrize(
    "values", [["1"] * 2000, ["a"] * 2000, [1j] * 2000, [None, {}] * 1000, np.zeros(2000, dtype="M8[s]")]
)
def test_columns_that_are_not_numbers_are_rejected_by_name(values: Any, log: Log, held: qd.Robot) -> None:
    columns = log.columns() | {"position FL_hip_joint [rad]": values}
    with pytest.raises(qd.ArgumentTypeError, match=r"^run: column 'position FL_hip_joint \[rad\]': expected numbers"):
        samples_from_columns(held, columns, source="run")


@pytest.mark.parametrize("name", ["start", "end", "cutoff"])
def test_intervals_that_are_not_numbers_are_rejected_by_name(name: str, log: Log, held: qd.Robot) -> None:
    with pytest.raises(qd.ArgumentTypeError, match=f"^{name}: expected a number, got str '1'"):
        samples_from_columns(held, log.columns(), **{name: "1"})


def test_commands_name_the_file_of_an_invalid_log(log: Log, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    text = log.to_csv(path).read_text(encoding="utf-8")
    for old, new, message in (
        ("time [s]", "time [h]", "column 'time [h]': expected a unit among"),
        ("time [s]", "clock [s]", "column 'time' of go2_description is missing"),
        ("tau FL_hip_joint [N m]", "x", "column 'tau FL_hip_joint' of go2_description is missing (1 in all)"),
    ):
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        done = CliRunner().invoke(app, ["identify", str(path), "--robot", "go2"])
        assert isinstance(done.exception, qd.ArgumentError) and str(done.exception).startswith(f"{path}: {message}")


def test_log_of_another_robot_is_rejected(log: Log, tmp_path: Path) -> None:
    path = log.to_csv(tmp_path / "run.csv")
    done = CliRunner().invoke(app, ["identify", str(path), "--robot", "solo8"])
    said = str(done.exception)
    assert (
        said.startswith(f"{path}: column 'position FL_HFE' of ") and "is missing (8 in all); it has 'position F" in said
    )
    assert "the log is of another robot, or its names must be mapped" in said
    assert isinstance(done.exception, qd.ArgumentError)


def test_free_robot_needs_contact_forces_of_its_feet_alone(held: qd.Robot) -> None:
    robot = qd.load("go2")
    sim = qd.Simulation(robot, dt=1e-3)
    log = sim.run(lambda plant: np.zeros(12), 0.6)  # falls down
    with pytest.raises(qd.ArgumentError, match=r"column 'force \w+ [xyz] \[N\]' is .* N in row \d+; .*--start"):
        samples_from_columns(robot, log.columns())
    falling = samples_from_columns(robot, log.columns(), end=0.05)
    assert set(falling.forces) == set(robot.feet)
    columns = {name: x for name, x in log.columns().items() if not name.startswith("force")}
    raises(qd.ArgumentError, "column 'force FL x'", samples_from_columns, robot, columns)
    assert recorded_root(columns) == ("fixed", "the log does not contain contact forces")


def test_invalid_names_and_options_are_rejected(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    with pytest.raises(qd.ArgumentError, match="no column, joint or foot 'stamp'"):
        samples_from_columns(held, log.columns(), names={"stamp": "time"})
    for cutoff in (0.0, 0.01, 1e6, np.nan):
        with pytest.raises(qd.ArgumentError, match=r"cutoff: expected a frequency in .*half of the rate"):
            samples_from_columns(held, log.columns(), cutoff=cutoff)
    path = log.save(tmp_path / "run.npz")
    with pytest.raises(qd.ArgumentError, match=r"joints are all actuated, .* has 1 actuated joints and 2 degrees"):
        samples_from_columns(qd.load("two_link_leg", root="fixed", actuated=("hip",)), log.columns())
    (tmp_path / "bad.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "worse.json").write_text("{", encoding="utf-8")
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    for option, message in (
        ("absent.json", "--column: expected FROM=TO or a JSON file, got 'absent.json'"),
        (str(tmp_path / "bad.json"), "expected an object"),
        (str(tmp_path / "worse.json"), "is not JSON"),
        (str(tmp_path / "deep.json"), f"--column: {tmp_path / 'deep.json'}: the file is not JSON"),
        ("=x", "expected FROM=TO"),
    ):
        done = CliRunner().invoke(app, ["identify", str(path), "--robot", "go2", "--column", option])
        assert isinstance(done.exception, qd.ArgumentError) and message in str(done.exception)
    samples = samples_from_columns(held, log.columns())
    qd.identification.save_samples(tmp_path / "data.npz", held, samples)
    done = CliRunner().invoke(app, ["identify", str(tmp_path / "data.npz"), "--robot", "go2", "--start", "1"])
    assert "--cutoff, --start, --end: not accepted with a file of samples" in str(done.exception)


def joint_state(names: list[str], position: list[float], effort: list[float] | None = None) -> dict[str, Any]:
    return {"name": names, "position": position, "velocity": [], "effort": effort or []}


def test_invalid_messages_are_rejected_with_file_and_topic(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    path, kind = tmp_path / "x.mcap", "sensor_msgs/msg/JointState"

    def write(*messages: tuple[str, dict[str, Any]]) -> None:
        write_messages(path, [(0.01 * i, [(topic, kind, "", content)]) for i, (topic, content) in enumerate(messages)])

    write(("/a", joint_state(["j"], [0.0])), ("/a", joint_state(["k"], [0.0])))
    raises(qd.ArgumentError, f"^{path}: topic '/a': message 1 has 1 names", read_columns, path)
    write(("/a", joint_state(["j"], [0.0])), ("/b", joint_state(["j"], [0.0])))
    raises(qd.ArgumentError, "one topic of type sensor_msgs/msg/JointState, got '/a', '/b'", read_columns, path)
    write(*[("/a", joint_state(list(held.actuated), [0.0] * 12))] * 30)
    raises(qd.ArgumentError, f"^{path}: column 'tau FL_hip_joint' of .* is missing", load_samples, path, held)
    write_messages(path, [(0.0, [("/x", "std_msgs/msg/String", "", {"data": "x"})])])
    raises(qd.ArgumentError, "no messages of type sensor_msgs/msg/JointState", read_columns, path)


def write_json(path: Path, messages: dict[str, tuple[str, Any]], **options: Any) -> None:
    """Writes one message of any content for each topic."""
    writer = pytest.importorskip("mcap.writer")
    with path.open("wb") as file:
        mcap = writer.Writer(file)
        mcap.start()
        for topic, (kind, content) in messages.items():
            schema = mcap.register_schema(name=kind, encoding="jsonschema", data=b"{}")
            channel = mcap.register_channel(topic=topic, message_encoding="json", schema_id=schema)
            data = json.dumps(content, **options).encode()
            mcap.add_message(channel_id=channel, log_time=0, publish_time=0, data=data)
        mcap.finish()


STAMP = {"stamp": {"sec": 1, "nanosec": 0}, "frame_id": ""}


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        3,
        {"name": ["j"]},
        {"header": {"stamp": {"sec": "now"}}},
        {"header": {"stamp": None}},
        {"header": {"stamp": {"sec": 10**400, "nanosec": 0}}},
        {"header": STAMP, "name": ["j"], "position": [0.0], "velocity": [], "effort": [10**400]},
    ],
)
def test_json_messages_without_fields_are_rejected_by_name(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.mcap"
    write_json(path, {"/joint_states": ("sensor_msgs/msg/JointState", content)})
    raises(qd.ArgumentError, f"^{path}: a message lacks a field", read_columns, path)


@pytest.mark.parametrize("sort_keys", [False, True])
def test_order_of_the_keys_of_json_messages_does_not_matter(sort_keys: bool, tmp_path: Path) -> None:
    joints = {"header": STAMP, "name": ["j"], "position": [0.5], "velocity": [], "effort": []}
    pose = {"position": {"x": 1, "y": 2.0, "z": 3.0}, "orientation": {"x": 0.0, "y": 0.6, "z": 0.0, "w": 0.8}}
    twist = {"linear": {"x": 4.0, "y": 5.0, "z": 6.0}, "angular": {"x": 7.0, "y": 8.0, "z": 9.0}}
    odometry = {"header": STAMP, "pose": {"pose": pose}, "twist": {"twist": twist}}
    messages = {
        "/joint_states": ("sensor_msgs/msg/JointState", joints),
        "/odom": ("nav_msgs/msg/Odometry", odometry),
    }
    write_json(tmp_path / "x.mcap", messages, sort_keys=sort_keys)
    columns = read_columns(tmp_path / "x.mcap")
    base = [float(columns[name][0]) for name in BASE_COLUMNS["free"]]
    assert base == [1.0, 2.0, 3.0, 0.0, 0.6, 0.0, 0.8, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]


def test_invalid_files_are_rejected_by_name(held: qd.Robot, log: Log, tmp_path: Path) -> None:
    for name, content, message in (
        ("x.parquet", b"PAR1nonsense", "not Parquet"),
        ("x.mcap", b"\x89MCAP0\r\nnonsense", "damaged"),
        ("x.csv", b"position a,time\nx,y\n", "no numbers"),
        ("x.csv", b"time,position a\n0,1\n1,oops\n", ":3: column 'position a': 'oops' is not a number"),
        ("x.csv", b"time,position a\n0,1\n1,\xff\xfe\n", ":3: column 'position a': '"),
        ("x.csv", b"time,position a\n0,1\n1\n", ":3: column 'position a': '' is not a number"),
        ("x.csv", b"time,position a\n" + 200_000 * b"1", "not a table"),
        ("x.csv", b"time,time,position a\n0,1,2\n", "column 'time' occurs twice"),
        ("x.txt", b"", "expected a name ending in .csv, .npz, .parquet, .mcap, .db3, .bag, got 'x.txt', whose"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(qd.ArgumentError) as caught:
            load_samples(path, held)
        assert message in str(caught.value) and name in str(caught.value)
    for name in ("absent.mcap", "absent.csv", "absent.parquet", "absent.txt"):
        raises(OSError, "absent", load_samples, tmp_path / name, held)


@pytest.mark.parametrize("read", [load_samples, lambda path, _: read_columns(path)])
def test_names_that_end_in_another_format_than_the_content_are_reported(
    read: Callable[[Path, qd.Robot], object], held: qd.Robot, log: Log, tmp_path: Path
) -> None:
    log.save(tmp_path / "run.npz")
    log.to_csv(tmp_path / "run.csv")
    contents = {
        "an NPZ archive; rename the file to end in .npz": (tmp_path / "run.npz").read_bytes(),
        "text; rename a table to end in .csv, or pass": (tmp_path / "run.csv").read_bytes(),
        "an MCAP file; rename the file to end in .mcap": b"\x89MCAP0\r\n",
        "a Parquet file; rename the file to end in .parquet": b"PAR1",
        "a recording of a control loop; read it with quaddyn.runtime.load_recording": b"QDRLOG",
        "XML; pass": b"\xef\xbb\xbf <robot name='x'/>",
        "an empty file; pass": b"",
        "unknown data; pass": bytes(range(50)),
    }
    for ending in (".csv", ".npz", ".mcap", ".parquet", ".db3", ".bag"):
        for words, content in contents.items():
            path = tmp_path / f"lie{ending}"
            path.write_bytes(content)
            if ending not in words.split(" or ")[0]:
                with pytest.raises(qd.ArgumentError) as caught:
                    read(path, held)
                assert str(caught.value).startswith(f"{path}: the name ends in {ending}, but the content is {words}")


def test_empty_entries_of_a_table_are_named(held: qd.Robot, log: Log, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with log.to_csv(path).open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)

    def write(name: str, empty: Callable[[int], bool]) -> None:
        i = header.index(name)
        table = [[*row[:i], "" if empty(k) else row[i], *row[i + 1 :]] for k, row in enumerate(rows)]
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *table])

    for name, empty, row in (
        ("position FL_hip_joint [rad]", lambda k: k == 0, 0),
        ("tau RR_calf_joint [N m]", lambda k: True, 0),
        ("tau RR_calf_joint [N m]", lambda k: k == 7, 7),
        ("time [s]", lambda k: k < 3, 0),
    ):
        write(name, empty)
        with pytest.raises(qd.ArgumentError) as caught:
            load_samples(path, held)
        assert str(caught.value).startswith(f"{path}: column {name!r} is empty or nan in row {row}"), caught.value
    write("force FL x [N]", lambda k: k == 0)  # is not needed
    np.testing.assert_array_equal(load_samples(path, held).tau, samples_from_columns(held, log.columns()).tau)


def test_damaged_bags_are_rejected_by_name(held: qd.Robot, tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    (tmp_path / "x.db3").write_bytes(b"SQLite format 3\0nonsense")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "metadata.yaml").write_text("nonsense", encoding="utf-8")
    raises(qd.ArgumentError, f"^{tmp_path}: the folder is not a bag of rosbag2", load_samples, tmp_path, held)
    for name in ("x.db3", "folder"):
        raises(qd.ArgumentError, f"{tmp_path / name}: the bag cannot be read", load_samples, tmp_path / name, held)


def test_missing_package_for_bags_is_named(held: qd.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rosbags.highlevel", None)
    (tmp_path / "metadata.yaml").touch()
    raises(qd.QuaddynError, r"pip install 'quaddyn\[rosbags\]'", load_samples, tmp_path, held)


def test_recording_columns_are_samples_without_a_file(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    recording = load_recording(record(log, tmp_path / "run.qdlog"))
    samples = samples_from_columns(held, recording.columns(), cutoff=np.inf)
    assert isinstance(samples, Samples) and len(samples) == len(log.time) - 4
    np.testing.assert_array_equal(samples.q, log.q[2:-2])


def rolling(t: float) -> np.ndarray:
    half = 0.5 * 0.3 * np.sin(t)
    return np.array([0.0, 0.0, 0.4, np.sin(half), 0.0, 0.0, np.cos(half)])


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (lambda t: np.array([0.1 * t, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0]), r"'base x \[m\]': the base moves by 0.4 m,"),
        (rolling, r"'base qw \[1\]': the base moves by 0.3 rad,"),
    ],
)
def test_walking_recordings_are_not_identified_with_a_fixed_root(
    base: Callable[[float], np.ndarray], message: str, log: Log, held: qd.Robot, tmp_path: Path
) -> None:
    path = record(log, tmp_path / "run.qdlog", base=base)
    done = CliRunner().invoke(app, ["identify", str(path), "--robot", "go2"], env={"COLUMNS": "150"})
    assert "root=fixed is used, because the log does not contain contact forces" in done.output
    assert isinstance(done.exception, qd.ArgumentError)
    with pytest.raises(qd.ArgumentError, match=f"^{path}: column {message} but the root is fixed; .* foot sensors"):
        raise done.exception
    mcap = load_recording(path).to_mcap(tmp_path / "run.mcap")
    raises(qd.ArgumentError, "the base moves by", load_samples, mcap, held)
    moving = str(done.exception).split("'")[1]
    assert len(load_samples(mcap, held, names={moving: "unused"})) > 1500


def test_base_that_rests_is_a_fixed_root(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    """Both signs of a quaternion are one orientation."""

    def resting(t: float) -> np.ndarray:
        sign = 1.0 if t < 2.0 else -1.0
        return np.array([0.0, 0.002 * np.sin(t), 0.4, 0.0, 0.0, 0.6 * sign, 0.8 * sign])

    recording = load_recording(record(log, tmp_path / "run.qdlog", base=resting))
    assert len(samples_from_columns(held, recording.columns())) > 1500
    assert recorded_root(recording.columns()) == ("fixed", "the log does not contain contact forces")


def test_fixed_root_of_a_simulated_free_robot_is_rejected(held: qd.Robot) -> None:
    sim = qd.Simulation(qd.load("go2"), dt=1e-3)
    columns = sim.run(lambda plant: np.zeros(12), 0.3).columns()
    with pytest.raises(qd.ArgumentError, match=r"the base moves by .*; load the robot with a moving root"):
        samples_from_columns(held, columns)


def test_interval_is_in_the_time_of_plots_and_of_other_formats(log: Log, held: qd.Robot, tmp_path: Path) -> None:
    recording = load_recording(record(log, tmp_path / "run.qdlog", late=100.0))
    samples = samples_from_columns(held, recording.columns(), start=1.0, end=2.0, cutoff=np.inf)
    np.testing.assert_allclose(samples.q, log.q[502:999], atol=1e-12)
    mcap = load_samples(recording.to_mcap(tmp_path / "run.mcap"), held, start=1.0, end=2.0, cutoff=np.inf)
    assert abs(np.ptp(mcap.q[:, 0]) - np.ptp(samples.q[:, 0])) < 0.01


@pytest.mark.parametrize("encoding", ["ros2", "json"])
def test_torques_of_mcap_files_are_those_of_the_log(encoding: Any, log: Log, tmp_path: Path) -> None:
    """Commanded torques act from their message to the next one, also those of recordings without torque sensors."""
    recording = load_recording(record(log, tmp_path / "run.qdlog", sensors=False))
    columns = read_columns(recording.to_mcap(tmp_path / "run.mcap", encoding=encoding))
    for name, values in recording.columns().items():
        if name.startswith("tau "):
            np.testing.assert_array_equal(columns.pop(name.partition(" [")[0]), values)
    assert not any(name.startswith(("tau ", "torque ")) for name in columns)
    recording = load_recording(record(log, tmp_path / "run.qdlog"))
    columns = read_columns(recording.to_mcap(tmp_path / "run.mcap", encoding=encoding))
    assert "torque FL_hip_joint" in columns and "tau FL_hip_joint" not in columns


def _noisy_columns(
    robot: qd.Robot, seed: int, *, coulomb: float = 0.0, substeps: int | None = None
) -> dict[str, np.ndarray]:
    """Returns a log of 10 s of a sum of sines with viscous friction of 2 N m s/rad and noise of 0.1 N m.

    With `substeps`, torques are means from a row to the next, computed with this number of steps, as commands are.
    """
    dynamics, t, n = qd.Dynamics(robot), np.arange(0.0, 10.0, 0.004), robot.nv
    w, rng = 2.0 * np.pi / 10.0 * np.arange(1, 8), np.random.default_rng(5)
    size, shift = rng.uniform(0.1, 0.5, (n, 1, 7)) / w, rng.uniform(0.0, 6.3, (n, 1, 7))

    def motion(t: np.ndarray) -> tuple[np.ndarray, ...]:
        phase = w * t[:, None] + shift
        waves = (size * np.sin(phase), size * w * np.cos(phase), -size * w**2 * np.sin(phase))
        return tuple(np.ascontiguousarray(x.sum(axis=2).T) for x in waves)

    def torque(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        rigid = np.array([dynamics.rnea(*state) for state in zip(q, v, a, strict=True)])
        return rigid + 2.0 * v + coulomb * np.sign(v)

    q, v, a = motion(t)
    if substeps is None:
        kind, tau = "torque", torque(q, v, a)
    else:
        fine = t[:, None] + 0.004 * (np.arange(substeps) + 0.5) / substeps
        kind, tau = "tau", torque(*motion(fine.ravel())).reshape(len(t), substeps, n).mean(axis=1)
    tau += 0.1 * np.random.default_rng(seed).standard_normal(tau.shape)
    columns = {"time [s]": t}
    for i, joint in enumerate(robot.actuated):
        columns |= {f"position {joint}": q[:, i], f"velocity {joint}": v[:, i], f"{kind} {joint}": tau[:, i]}
    return columns


@pytest.mark.parametrize("name", ["ur5", "z1"])
@pytest.mark.parametrize(("cutoff", "substeps"), [(None, None), (10.0, None), (np.inf, None), (10.0, 10)])
def test_coulomb_friction_in_filtered_logs_has_no_bias(
    name: str, cutoff: float | None, substeps: int | None, tmp_path: Path
) -> None:
    """The low-pass smooths the sign of the velocity in the torques and in the column of friction in the same way."""
    robot = qd.load(name)
    base = base_parameters(robot)
    values = dict(zip(base.names, qd.Dynamics(robot).parameters(), strict=True))
    values |= {name: {"fv": 2.0, "fc": 3.0}[name[:2]] for name in base.names if name[:3] in ("fv ", "fc ")}
    is_coulomb = np.array([base.names[k].startswith("fc ") for k in base.independent])
    samples = samples_from_columns(robot, _noisy_columns(robot, 1, coulomb=3.0, substeps=substeps), cutoff=cutoff)
    save_samples(tmp_path / "data.npz", robot, samples)
    for method in ("weighted", "consistent"):
        found = identify(base, samples, method=method)
        z = (found.beta - base.project(np.array([*values.values()]))) / found.deviation
        assert 0.5 < np.sqrt(np.mean(z**2)) < 1.4, method  # the prior is exact and reduces the errors of a light robot
        assert abs(z[is_coulomb].mean()) < 1.5, method
        np.testing.assert_allclose(found.beta[is_coulomb], 3.0, atol=0.02)
        again = identify(base, load_samples(tmp_path / "data.npz", robot), method=method)
        np.testing.assert_allclose(again.deviation, found.deviation, rtol=1e-9)
        np.testing.assert_allclose(again.beta, found.beta, atol=1e-9)
        np.testing.assert_allclose(found.validate(samples).error, found.noise, rtol=1e-6)


@pytest.mark.parametrize("cutoff", [None, np.inf])
def test_given_noise_below_the_residuals_does_not_reduce_standard_deviations(cutoff: float | None) -> None:
    robot = qd.load("ur5")
    base = base_parameters(robot)
    parameters = np.where([name.startswith("fv ") for name in base.names], 2.0, qd.Dynamics(robot).parameters())
    for method in ("weighted", "consistent"):
        z = []
        for seed in range(3):
            columns = _noisy_columns(robot, seed)
            joint = f"torque {robot.actuated[1]}"
            columns[joint] = columns[joint] + np.random.default_rng([seed, 1]).standard_normal(2500)
            found = identify(base, samples_from_columns(robot, columns, cutoff=cutoff), method=method, torque_noise=0.1)
            assert any("given noise" in text and robot.actuated[1] in text for text in found.remarks)
            assert (
                found.noise_ratio[1] == pytest.approx(10.0, rel=0.2)
                and (found.noise_ratio[[0, 2, 3, 4, 5]] < 2.0).all()
            )
            z.append((found.beta - base.project(parameters)) / found.deviation)
        assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4, method


@pytest.mark.parametrize("cutoff", [None, 10.0, np.inf])
def test_standard_deviations_account_for_the_low_pass(cutoff: float | None) -> None:
    robot = qd.load("ur5")
    base = base_parameters(robot)
    parameters = np.where([name.startswith("fv ") for name in base.names], 2.0, qd.Dynamics(robot).parameters())
    logs = [samples_from_columns(robot, _noisy_columns(robot, seed), cutoff=cutoff) for seed in range(3)]
    for method in ("weighted", "consistent"):
        fits = [identify(base, samples, method=method) for samples in logs]
        z = [(found.beta - base.project(parameters)) / found.deviation for found in fits]
        assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4, method


@pytest.mark.parametrize("scale", [0.8, 1.2, 2.0])
def test_wrong_time_scale_is_rejected_despite_noise_and_delay_of_the_velocities(scale: float) -> None:
    robot = qd.load("ur5")
    columns = _noisy_columns(robot, 0)
    for joint in robot.actuated:
        name, noise = f"velocity {joint}", np.random.default_rng(1).standard_normal(2500)
        columns[name] = np.concatenate([np.zeros(10), columns[name][:-10]]) + 0.3 * noise
    assert len(samples_from_columns(robot, columns))
    columns["time [s]"] = scale * columns["time [s]"]
    with pytest.raises(qd.ArgumentError, match=r"derivative of column 'position .*' is [0-9.]+ times column"):
        samples_from_columns(robot, columns)


@pytest.mark.parametrize("quantity", ["position", "velocity"])
def test_a_reversed_joint_is_rejected_by_name_despite_noise(quantity: str) -> None:
    robot = qd.load("ur5")
    columns = _noisy_columns(robot, 0)
    for joint in robot.actuated:
        columns[f"velocity {joint}"] = columns[f"velocity {joint}"] + 0.3 * np.random.default_rng(1).standard_normal(
            2500
        )
    assert len(samples_from_columns(robot, columns))
    for joint in robot.actuated:
        name = f"{quantity} {joint}"
        with pytest.raises(qd.ArgumentError, match=f"'position {joint}' has the opposite sign of .*'velocity {joint}'"):
            samples_from_columns(robot, columns | {name: -columns[name]})


@pytest.mark.parametrize("cutoff", [None, np.inf])
def test_correlated_residuals_increase_standard_deviations_and_are_reported(cutoff: float | None) -> None:
    robot = qd.load("ur5")
    base = base_parameters(robot)
    parameters = np.where([name.startswith("fv ") for name in base.names], 2.0, qd.Dynamics(robot).parameters())
    z = []
    for seed in range(3):
        columns = _noisy_columns(robot, seed)
        assert not any("correlated" in x for x in identify(base, samples_from_columns(robot, columns)).remarks)
        for i, joint in enumerate(robot.actuated):  # an error of the model that lasts 0.1 s
            steps = np.random.default_rng([seed, i]).standard_normal(100)
            columns[f"torque {joint}"] = columns[f"torque {joint}"] + 0.5 * np.repeat(steps, 25)
        found = identify(base, samples_from_columns(robot, columns, cutoff=cutoff))
        assert any("correlated" in x for x in found.remarks)
        z.append((found.beta - base.project(parameters)) / found.deviation)
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4


def test_torques_before_the_gear_are_reported() -> None:
    robot = qd.load("ur5")
    columns = _noisy_columns(robot, 0)
    before_gear = {name: x / 50.0 if name.startswith("torque ") else x for name, x in columns.items()}
    remarks = [identify(robot, samples_from_columns(robot, x)).remarks for x in (columns, before_gear)]
    assert not any("gear ratio" in x for x in remarks[0])
    assert any("gear ratio" in x for x in remarks[1])


def test_smaller_prior_weight_is_advised_where_it_changes_parameters() -> None:
    robot = qd.load("ur5")
    samples = samples_from_columns(robot, _noisy_columns(robot, 0))
    heavy, light = (identify(robot, samples, prior_weight=weight) for weight in (1e5, None))
    assert heavy.prior_reducible and any("pass a smaller prior weight" in x for x in heavy.remarks)
    assert not light.prior_reducible


# -- identified parameters in files -----------------------------------------------------------------------------------
mujoco = pytest.importorskip("mujoco")


def heavier(robot: qd.Robot) -> qd.Robot:
    """The robot with a payload, friction and rotors that its file does not have."""
    text = robot.source if isinstance(robot.source, str) else robot.source.decode()
    root = ElementTree.fromstring(text)
    for mass in root.iter("mass"):
        mass.set("value", repr(1.2 * float(mass.get("value", "0"))))
    return qd.load(
        ElementTree.tostring(root, encoding="unicode"),
        root=robot.root,
        damping=0.4,
        friction=0.3,
        armature=0.02,
        allow_massless=True,
    )


def identified(robot: qd.Robot, count: int = 300) -> Identification:
    return identify(robot, make_samples(heavier(robot), count), torque_noise=1e-3)


@pytest.fixture(scope="module")
def arm() -> qd.Robot:
    return qd.load("ur5")


@pytest.fixture(scope="module")
def found(arm: qd.Robot) -> Identification:
    return identified(arm)


def assert_same_dynamics(a: qd.Robot, b: qd.Robot) -> None:
    assert a.actuated == b.actuated
    rng = np.random.default_rng(0)
    for what in ("damping", "friction", "armature"):
        np.testing.assert_allclose(getattr(a, what), getattr(b, what), rtol=1e-9, atol=1e-12)
    q, v, acceleration = a.random_configuration(rng), *rng.normal(size=(2, a.nv))
    expected = qd.Dynamics(b).rnea(q, v, acceleration)
    np.testing.assert_allclose(qd.Dynamics(a).rnea(q, v, acceleration), expected, atol=1e-7 * np.abs(expected).max())


def test_mjcf_of_a_robot_is_the_identified_robot(found: Identification, tmp_path: Path) -> None:
    path = found.save_mjcf(tmp_path / "found.xml")
    assert_same_dynamics(qd.load(path, root="fixed"), found.identified_robot())
    model = mujoco.MjModel.from_xml_path(str(path))
    for joint, (viscous, coulomb, rotor) in found.joint_losses.items():
        dof = model.joint(joint).dofadr[0]
        values = model.dof_damping[dof], model.dof_frictionloss[dof], model.dof_armature[dof]
        np.testing.assert_allclose(values, (viscous, coulomb, rotor), rtol=1e-12)


@pytest.mark.parametrize("text", [QUADRUPED.replace("{}", ""), ARM], ids=["quadruped", "arm"])
def test_attributes_of_an_mjcf_are_replaced_and_all_else_is_kept(text: str, tmp_path: Path) -> None:
    """Bodies with several joints, joints beside the origin, bodies without joints and without names."""
    text = text.replace("<compiler ", '<compiler inertiafromgeom="true" ')
    source = tmp_path / "robot.xml"
    source.write_text(text.replace('<body pos=".1 0 0">', '<body name="wrist" pos=".1 0 0">'), encoding="utf-8")
    robot = qd.load(source, root="fixed")
    result = identified(robot, 120)
    path = result.save_mjcf(tmp_path / "found.xml", source)
    assert_same_dynamics(qd.load(path, root=robot.root), result.identified_robot())
    before, after = (mujoco.MjModel.from_xml_path(str(each)) for each in (source, path))
    for what in ("geom_size", "geom_pos", "jnt_range", "jnt_axis", "body_pos", "body_quat", "actuator_gear"):
        np.testing.assert_array_equal(getattr(after, what), getattr(before, what))
    assert not np.allclose(after.body_mass[1:], before.body_mass[1:])


def test_mjcf_of_another_robot_is_rejected(found: Identification, tmp_path: Path) -> None:
    source = tmp_path / "other.xml"
    for text, error, message in (
        (ARM, qd.ArgumentError, "no body 'shoulder_link'"),
        ("<mujoco>", qd.ModelError, "not valid XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><mujoco/>', qd.ModelError, "not valid XML"),
    ):
        source.write_text(text, encoding="utf-8")
        raises(error, message, found.save_mjcf, tmp_path / "found.xml", source)
    renamed = found.save_mjcf(source).read_text(encoding="utf-8").replace('"elbow_joint"', '"knee"')
    source.write_text(renamed, encoding="utf-8")
    raises(qd.ArgumentError, "no joint 'elbow_joint'", found.save_mjcf, tmp_path / "found.xml", source)


def test_file_of_actuators_gives_the_identified_friction(found: Identification, arm: qd.Robot, tmp_path: Path) -> None:
    path = found.actuators().save(tmp_path / "actuators.json")
    again = Actuators.load(path, arm)
    for name, values in found.actuators().constructor_arguments.items():
        np.testing.assert_array_equal(getattr(again, name), values)
    losses = np.array([found.joint_losses[name] for name in arm.actuated]).T
    np.testing.assert_allclose([again.damping, again.friction, again.armature], losses, rtol=1e-12)
    plain = qd.load("ur5", damping=dict(zip(arm.actuated, losses[0], strict=True)))
    expected = qd.Simulation(plain, dt=1e-3)
    without = Actuators(arm, viscous=again.viscous)
    plant = qd.Simulation(arm, dt=1e-3, actuators=without)
    for each in (plant, expected):
        each.reset(arm.q_home, np.ones(arm.nv))
        each.step(np.zeros(arm.nu))
    np.testing.assert_allclose(plant.v, expected.v, atol=1e-12)
    with pytest.raises(
        qd.ArgumentError, match=r"damping of joint 'shoulder_pan_joint' is 9, .*load the robot with damping=0"
    ):
        found.actuators(qd.load("ur5", damping=9.0))
    raises(qd.ArgumentError, "expected the joints of", found.actuators, qd.load("planar_3r"))


def test_files_of_actuators_are_validated(arm: qd.Robot, tmp_path: Path) -> None:
    path = Actuators(arm, no_load_speed=5.0, corner_speed=2.0, delay=0.01, viscous=0.1).save(tmp_path / "a.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    joints = document["joints"]
    joints["elbow_joint"] = {"no_load_speed": None, "corner_speed": None, "coulomb": 2}  # changed by a user
    path.write_text(json.dumps({**document, "joints": dict(reversed(joints.items()))}), encoding="utf-8")
    again = Actuators.load(path, arm)
    i = arm.actuated.index("elbow_joint")
    assert again.no_load_speed[i] == np.inf and again.no_load_speed[i - 1] == 5.0
    assert (again.coulomb[i], again.viscous[i], again.delay[i]) == (2.0, 0.0, 0.0)
    assert again.effort[i] == arm.effort_limits[i]
    for change, message in (
        ({"viscous": -1.0}, "joint 'elbow_joint': expected numbers of at least 0"),
        ({"viscous": None}, "joint 'elbow_joint': expected numbers"),
        ({"stickiness": 1.0}, "stickiness = 1.0"),
        ({"delay": "1"}, "delay = '1'"),
        ({"delay": 10**400}, "joint 'elbow_joint': delay: the integer is beyond the range of floats"),
        ({"corner_speed": 3.0, "no_load_speed": 2.0}, "corner_speed: expected at most the no-load speed"),
    ):
        path.write_text(json.dumps({**document, "joints": {**joints, "elbow_joint": change}}), encoding="utf-8")
        with pytest.raises(qd.ArgumentError, match=message) as caught:
            Actuators.load(path, arm)
        assert str(caught.value).startswith(f"{path}: ")
    for text in ("", "[]", "{}", '{"format": 2, "joints": {}}', '{"format": 1, "joints": {"a": 1}}', "[" * 5000):
        path.write_text(text, encoding="utf-8")
        raises(qd.ArgumentError, r"expected a file of Actuators\.save with format 1", Actuators.load, path, arm)
    path.write_text('{"format": 1, "joints": {"knee": {}}}', encoding="utf-8")
    raises(qd.ArgumentError, "but 'elbow_joint' is only in the robot", Actuators.load, path, arm)


@pytest.mark.parametrize("kind", ["ur5", "mjcf"])
def test_identify_command_writes_all_formats(kind: str, arm: qd.Robot, tmp_path: Path) -> None:
    source = kind
    if kind == "mjcf":
        source = str(tmp_path / "arm.xml")
        Path(source).write_text(
            ARM.replace('<body pos=".1 0 0">', '<body name="wrist" pos=".1 0 0">'), encoding="utf-8"
        )
    robot = qd.load(source, root="fixed")
    save_samples(tmp_path / "data.npz", robot, make_samples(heavier(robot), 100))
    names = ("found.urdf", "found.xml", "found.json")
    for name in names:
        words = ["identify", str(tmp_path / "data.npz"), "--robot", source, "--root", "fixed", "--out", name]
        words[words.index(name)] = str(tmp_path / name)
        done = CliRunner().invoke(app, [*words, "--actuators", str(tmp_path / "motors.json")])
        assert done.exit_code == 0, done.output
        assert f"wrote {tmp_path / name}" in done.output and f"wrote {tmp_path / 'motors.json'}" in done.output
    parameters = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["parameters"]
    plain = qd.load(source, root="fixed", damping=0.0, friction=0.0, armature=0.0)
    motors = Actuators.load(tmp_path / "motors.json", plain)
    assert ("load the robot with damping=0, friction=0, armature=0" in done.output) is (kind == "mjcf")
    loaded = [qd.load(tmp_path / name, root="fixed", allow_massless=True) for name in names[:2]]
    for i, joint in enumerate(robot.actuated):
        assert abs(motors.damping[robot.actuated_index[i]] - parameters[f"fv {joint}"]) < 1e-12
        for each in loaded:
            assert abs(each.damping[each.velocity_index(joint)] - parameters[f"fv {joint}"]) < 1e-12
    if kind == "mjcf":
        assert "<geom" in (tmp_path / "found.xml").read_text(encoding="utf-8"), "the geometry of the source"


def test_values_that_also_depend_on_the_file_are_marked(arm: qd.Robot) -> None:
    """Fits of the same data to two files agree in the values without a mark."""
    data = make_samples(heavier(arm), 300)
    one, two = (identify(file, data, torque_noise=1e-3, method="least_squares") for file in (arm, heavier(arm)))
    marks = np.array([one.mark_losses(joint) for joint in arm.actuated])
    losses = (np.array([found.joint_losses[joint] for joint in arm.actuated]) for found in (one, two))
    changes = np.abs(next(losses) - next(losses)) > 1e-3
    np.testing.assert_array_equal(marks == "*", changes)
    assert 0 < changes.sum() < changes.size
    masses = [np.array([x.mass for x in found.inertials.values()]) for found in (one, two)]
    assert np.abs(masses[0] - masses[1]).max() > 0.1
    assert all(one.mark_mass(body.name) == "*" == one.mark_com(body.name) for body in arm.bodies)
    assert one.total_mass is None and "sum of all masses" not in one.ambiguity
    assert one.ambiguity in str(one)


# -- fit of actuators to simulated data -------------------------------------------------------------------------------
STEP, N, LATE = 2e-3, 3000, 3
#: Parameters of the two joints.
VISCOUS, COULOMB, EFFORT = np.array([0.3, 0.1]), np.array([0.5, 1.2]), np.array([20.0, 12.0])
CORNER, NO_LOAD, PLAY = 8.0, 20.0, 0.02


@pytest.fixture(scope="module")
def leg() -> qd.Robot:
    return qd.load("two_link_leg", root="fixed")


@pytest.fixture(scope="module")
def data(leg: qd.Robot) -> dict[str, np.ndarray]:
    """Simulated data of a test stand with sensors at motors and joints, with noise."""
    rng, t = np.random.default_rng(0), STEP * np.arange(N)[:, None]
    v = 7.0 * np.sin([3.0, 4.1] * t + [0.3, 1.1]) + 4.0 * np.sin([6.9, 9.4] * t)
    asked = EFFORT * (1.2 * np.sin([9.3, 12.7] * t + 1.0) + 0.05 * rng.standard_normal((N, 2)).cumsum(axis=0) / 20.0)
    motors = Actuators(leg, effort=EFFORT, corner_speed=CORNER, no_load_speed=NO_LOAD)
    late = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    delivered = np.array([motors.apply_limits(tau, speed) for tau, speed in zip(late, v, strict=True)])
    load = delivered - VISCOUS * v - COULOMB * np.sign(v)
    noise = {"velocity": 0.05, "motor_torque": 0.15, "joint_torque": 0.2, "backlash_offset": 1e-3}
    clean = {
        "velocity": v,
        "motor_torque": delivered,
        "joint_torque": load,
        "backlash_offset": 0.5 * PLAY * np.sign(load),
    }
    noisy = {name: x + noise[name] * rng.standard_normal(x.shape) for name, x in clean.items()}
    return {"commanded": asked, **noisy}


def check(found: ActuatorFit, tolerance: float) -> None:
    np.testing.assert_allclose(found.delay, LATE * STEP, atol=0.1 * STEP)
    np.testing.assert_allclose(found.viscous, VISCOUS, atol=tolerance)
    np.testing.assert_allclose(found.coulomb, COULOMB, atol=5.0 * tolerance)
    np.testing.assert_allclose(found.effort, EFFORT, rtol=0.02)
    np.testing.assert_allclose(found.corner_speed, CORNER, rtol=0.05)
    np.testing.assert_allclose(found.no_load_speed, NO_LOAD, rtol=0.05)


@pytest.mark.parametrize(("length", "is_limit"), [(1, False), (2, True), (3, True)])
def test_torques_that_saturate_for_two_samples_or_more_determine_the_effort(
    leg: qd.Robot, length: int, is_limit: bool
) -> None:
    rng, k = np.random.default_rng(4), np.arange(1000)[:, None]
    commanded = EFFORT * np.where(k % 20 < length, 1.6, 0.4 * np.sin([0.31, 0.23] * k))
    torque = np.clip(commanded, -EFFORT, EFFORT) + 0.01 * rng.standard_normal(commanded.shape)
    found = fit_actuators(leg, dt=STEP, commanded=commanded, velocity=np.ones_like(torque), motor_torque=torque)
    np.testing.assert_allclose(found.effort, EFFORT if is_limit else np.full(2, np.nan), rtol=1e-3)


def test_actuator_parameters_are_recovered(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    found = fit_actuators(leg, dt=STEP, **data)
    check(found, 0.01)
    np.testing.assert_allclose(found.backlash, PLAY, rtol=0.02)
    np.testing.assert_allclose(found.noise, 0.15, rtol=0.15)
    motors = found.actuators(leg, rotor_inertia=0.01)
    np.testing.assert_array_equal(motors.effort, found.effort)
    np.testing.assert_array_equal(motors.backlash, found.backlash)
    np.testing.assert_array_equal(motors.delay, found.delay)
    np.testing.assert_array_equal(motors.damping[leg.actuated_index], found.viscous)
    assert str(found).count("\n") == 2 and "0.02" in str(found)


@pytest.mark.parametrize("value", [50.0, -50.0])
def test_samples_that_are_not_valid_do_not_enter_the_fit(
    leg: qd.Robot, data: dict[str, np.ndarray], value: float
) -> None:
    valid = np.random.default_rng(1).random(N) > 0.5
    damaged = {name: np.where(valid[:, None] | (name == "commanded"), x, value - x) for name, x in data.items()}
    found = fit_actuators(leg, dt=STEP, valid=valid, **damaged)
    check(found, 0.02)
    np.testing.assert_allclose(found.backlash, PLAY, rtol=0.03)


def test_joint_or_motor_torque_is_sufficient(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    parts = {name: x for name, x in data.items() if name not in ("motor_torque", "backlash_offset")}
    found = fit_actuators(leg, dt=STEP, **parts)
    check(found, 0.02)
    assert np.isnan(found.backlash).all()
    parts = {name: data[name] for name in ("commanded", "velocity", "motor_torque")}
    found = fit_actuators(leg, dt=STEP, **parts)
    assert np.isnan(found.viscous).all() and np.isnan(found.coulomb).all()
    np.testing.assert_allclose(found.effort, EFFORT, rtol=0.02)


def test_unidentifiable_actuator_parameters_are_nan(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """Data with small torques on joints at rest."""
    rng, asked = np.random.default_rng(1), 0.1 * data["commanded"]
    found = fit_actuators(
        leg,
        dt=STEP,
        commanded=asked,
        velocity=np.zeros((N, 2)),
        motor_torque=asked + 0.01 * rng.standard_normal((N, 2)),
    )
    np.testing.assert_allclose(found.delay, 0.0, atol=0.1 * STEP)
    for name in ("viscous", "coulomb", "effort", "corner_speed", "no_load_speed", "backlash"):
        assert np.isnan(getattr(found, name)).all(), name
    assert "-" in str(found) and np.isinf(found.actuators(leg).no_load_speed).all()
    still = fit_actuators(
        leg, dt=STEP, commanded=np.zeros((N, 2)), velocity=np.zeros((N, 2)), motor_torque=np.zeros((N, 2))
    )
    assert np.isnan(still.delay).all()


@pytest.mark.parametrize("kind", ["motor_torque", "joint_torque"])
def test_torques_below_the_noise_determine_no_delay(leg: qd.Robot, data: dict[str, np.ndarray], kind: str) -> None:
    """Torques of the first joint are below the noise, those of the second determine the delay."""
    rng, scale = np.random.default_rng(4), np.array([0.02, 1.0])
    asked = 0.2 * scale * data["commanded"]
    late = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    noisy = {kind: late + 2.0 * rng.standard_normal((N, 2))}
    found = fit_actuators(leg, dt=STEP, commanded=asked, velocity=data["velocity"], **noisy)
    assert np.isnan(found.delay[0])
    assert abs(found.delay[1] - LATE * STEP) <= 2.0 * STEP
    np.testing.assert_allclose(found.noise, 2.0, rtol=0.1)
    assert found.actuators(leg).delay[0] == 0.0 and str(found).splitlines()[1].split()[1] == "-"


def test_invalid_data_are_rejected(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    some = {name: data[name] for name in ("commanded", "velocity", "motor_torque")}
    for name in some:
        raises(qd.ArgumentError, name, fit_actuators, leg, dt=STEP, **some | {name: np.full((N, 2), np.nan)})
        with pytest.raises(qd.ArgumentError):
            fit_actuators(leg, dt=STEP, **some | {name: data[name][:, :1]})
    with pytest.raises(qd.ArgumentError, match="motor_torque, joint_torque"):
        fit_actuators(leg, dt=STEP, commanded=data["commanded"], velocity=data["velocity"])
    raises(qd.ArgumentError, "dt", fit_actuators, leg, dt=0.0, **some)
    raises(qd.ArgumentError, "max_delay", fit_actuators, leg, dt=STEP, max_delay=3.0, **some)
    with pytest.raises(qd.ArgumentError, match="robot"):
        fit_actuators(leg, dt=STEP, **some).actuators(qd.load("go2"))


# -- round trip ----------------------------------------------------------------------------------------------------
ROTOR = 0.03
PLANTED = {
    "delay": [0.004, 0.0065], "viscous": VISCOUS, "coulomb": COULOMB, "effort": [40.0, 14.0], "corner_speed": 4.0,
    "no_load_speed": 9.0, "backlash": [PLAY, 1.5 * PLAY],
}  # fmt: skip


def recorded(plant: Plant, asked: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Simulates 4 s of position control of a hanging leg, or of given torques."""
    out: dict[str, list[Any]] = {name: [] for name in ("commanded", "q", "velocity", "motor_torque", "backlash_offset")}
    hanging = np.array([-0.5 * np.pi, 0.0])
    plant.reset(hanging)
    for k in range(4000):
        t, ahead, faster = plant.time, *(plant.backlash_state or (0.0, 0.0))
        goal = hanging + 0.8 * np.sin([3.1 * t, 4.3 * t]) + 0.2 * np.sin([11.0 * t, 13.0 * t])
        tau = [60.0, 25.0] * (goal - plant.q - ahead) - [3.0, 1.0] * (plant.v + faster)
        tau = tau + [12.0, 6.0] * np.sin([17.0 * t, 23.0 * t]) if asked is None else asked[k]
        out["q"].append(plant.q)
        out["velocity"].append(plant.v)
        plant.step(tau)
        out["commanded"].append(tau)
        out["motor_torque"].append(plant.tau)
        out["backlash_offset"].append(ahead)
    return {name: np.array(rows) for name, rows in out.items()}


@pytest.mark.parametrize("kind", others_slow([Simulation, MujocoPlant], [Simulation]))
def test_plant_with_fitted_actuators_reproduces_the_recorded_motion(kind: type[Any]) -> None:
    leg, dt, rng = qd.load("two_link_leg", root="fixed", armature=ROTOR), 1e-3, np.random.default_rng(1)
    log = recorded(kind(leg, dt=dt, actuators=Actuators(leg, **PLANTED)))
    q, dyn = log.pop("q"), qd.Dynamics(leg)
    v = log["velocity"]
    a = np.diff(v, axis=0, append=v[-1:]) / dt
    clean = {**log, "joint_torque": np.array([dyn.rnea(*state) for state in zip(q, v, a, strict=True)])}
    noise = {"commanded": 0.0, "velocity": 0.01, "motor_torque": 0.1, "joint_torque": 0.2, "backlash_offset": 1e-3}
    noisy = {name: x + noise[name] * rng.standard_normal(x.shape) for name, x in clean.items()}
    found = fit_actuators(leg, dt=dt, **noisy)
    for name, value in PLANTED.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=0.15, err_msg=name)
    again = recorded(kind(leg, dt=dt, actuators=found.actuators(leg)), log["commanded"])["q"]
    assert np.ptp(q, axis=0).min() > 1.9
    assert np.abs(again - q).max() < 0.025
    # Both parts matter: without either, the same torques give another motion.
    for name in ("delay", "backlash"):
        other = Actuators(leg, **{**PLANTED, name: 0.0})
        assert np.abs(recorded(kind(leg, dt=dt, actuators=other), log["commanded"])["q"] - q).max() > 0.03, name


def test_control_period_is_subtracted_from_the_actuator_delay(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    found = fit_actuators(
        leg, dt=STEP, commanded=data["commanded"], velocity=data["velocity"], motor_torque=data["motor_torque"]
    )
    np.testing.assert_allclose(found.actuators(leg, period=STEP).delay, (LATE - 1) * STEP, atol=0.1 * STEP)
    np.testing.assert_array_equal(found.actuators(leg, delay=0.0).delay, 0.0)


def test_backlash_is_fitted_where_the_torque_is_large(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """At weak torques, which occur most of the time here, the teeth are between the flanks."""
    weak = np.arange(N)[:, None] % 10 < 7
    torque = np.where(weak, 0.1, 1.0) * data["joint_torque"]
    play = np.where(weak, 0.1, 0.5) * PLAY * np.sign(torque)
    measured = {"motor_torque": torque, "joint_torque": torque, "backlash_offset": play}
    rest = measured | {"commanded": np.roll(torque, -LATE, axis=0)}
    np.testing.assert_allclose(fit_actuators(leg, dt=STEP, **data | rest).backlash, PLAY, rtol=0.05)


def test_noise_is_not_identified_as_backlash(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    play = 1e-3 * np.random.default_rng(3).standard_normal((N, 2))
    found = fit_actuators(leg, dt=STEP, **data | {"backlash_offset": play})
    np.testing.assert_array_equal(found.backlash, 0.0)
    with pytest.raises(qd.ArgumentError, match="rotor_inertia"):
        fit_actuators(leg, dt=STEP, **data).actuators(leg)


def test_frozen_readings_are_not_identified_as_torque_limit(leg: qd.Robot, data: dict[str, np.ndarray]) -> None:
    """Readings are frozen for three samples at times, while motors deliver the commanded torques."""
    rng, asked = np.random.default_rng(2), 0.5 * data["commanded"]
    delivered = np.vstack((np.repeat(asked[:1], LATE, axis=0), asked[:-LATE]))
    delivered = delivered + 0.05 * rng.standard_normal((N, 2))
    new = np.ones(N, dtype=bool)
    for k in rng.integers(100, N - 10, 60):
        delivered[k : k + 3], new[k : k + 3] = 0.3 * delivered[k], False
    for counted in (None, new):
        found = fit_actuators(
            leg, dt=STEP, commanded=asked, velocity=data["velocity"], motor_torque=delivered, valid=counted
        )
        np.testing.assert_allclose(found.delay, LATE * STEP, atol=0.1 * STEP)
        assert np.isnan(found.effort).all() and np.isnan(found.no_load_speed).all()
    np.testing.assert_allclose(found.noise, 0.05, rtol=0.05)
    few = fit_actuators(leg, dt=STEP, **data, valid=np.arange(N) < 10)
    assert np.isnan(few.delay).all()
    raises(qd.ArgumentError, "valid", fit_actuators, leg, dt=STEP, **data, valid=np.ones(N))
