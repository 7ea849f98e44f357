"""Logs of simulations and recordings of robots have the same interface: columns, CSV, pandas, Parquet, commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raising import raises
from test_runtime_log import run as run
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.runtime import load_log, load_recording
from quaddyn.runtime.run_log import RunLog
from quaddyn.simulation import Log
from quaddyn.simulation.log import RecordedRun


def simulate(name: str, root: str | None = None, ticks: int = 5) -> Log:
    """A short fall with random torques."""
    robot, rng = qd.load(name, root=root), np.random.default_rng(0)
    sim = qd.Simulation(robot, dt=2e-3)
    sim.reset(np.array(sim.q), rng.uniform(-0.3, 0.3, robot.nv))
    return sim.run(lambda plant: rng.uniform(-1.0, 1.0, robot.nu), 2e-3 * ticks)


@pytest.fixture(scope="module")
def files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"simulation": simulate("go2").save(tmp_path_factory.mktemp("log") / "run.npz"), "robot": run}


def shorten(log: Any) -> RecordedRun:
    return RunLog(log.metadata, log.records[::40]) if isinstance(log, RunLog) else log


def test_columns_of_a_recording_are_the_recorded_values(run: Path, go2: qd.Robot) -> None:
    log = load_recording(run)
    columns, r = log.columns(), log.records
    assert {len(column) for column in columns.values()} == {len(log)}
    for i, joint in enumerate(go2.actuated):
        for quantity, unit in (("position", "rad"), ("velocity", "rad/s"), ("torque", "N m")):
            np.testing.assert_array_equal(columns[f"{quantity} {joint} [{unit}]"], r[quantity][:, i])
        np.testing.assert_array_equal(columns[f"tau {joint} [N m]"], log.commanded_torques[:, i])
        np.testing.assert_array_equal(columns[f"command stiffness {joint} [N m/rad]"], r["command_stiffness"][:, i])
        np.testing.assert_array_equal(columns[f"controller tau {joint} [N m]"], r["wanted_tau"][:, i])
        assert f"temperature {joint} [degC]" not in columns, "not measured"
    base = [*(f"base v{axis} [m/s]" for axis in "xyz"), *(f"base w{axis} [rad/s]" for axis in "xyz")]
    for k, name in enumerate(base):
        np.testing.assert_array_equal(columns[name], r["v"][:, k])
    np.testing.assert_array_equal(columns["base qw [1]"], r["q"][:, 6])
    np.testing.assert_array_equal(columns["gyro z [rad/s]"], r["gyro"][:, 2])
    np.testing.assert_array_equal(columns["foot force RR [N]"], r["foot_forces"][:, 3])
    np.testing.assert_array_equal(columns["requested turn rate [rad/s]"], r["velocity_wanted"][:, 2])
    assert columns["time [s]"][0] == 0.0 and np.array_equal(columns["reading time [s]"], r["time"])
    texts = log.text_columns()
    assert texts["stage"][0] == "damp" and any("solved" in text for text in texts["status"]) and texts["fault"][-1]


def test_requested_velocity_and_mode_of_walking_are_in_tables_and_messages(tmp_path: Path) -> None:
    robot = qd.load("go2")
    sim, dyn, walker = qd.Simulation(robot, dt=2e-3), qd.Dynamics(robot), qd.LocomotionController(robot, dt=2e-3)

    def walk(plant: Any) -> Any:
        velocity = (0.3, -0.1, 0.2) if plant.time > 0.1 else (0.0, 0.0, 0.0)
        return walker.compute(dyn.update(plant.q, plant.v), velocity)

    log = Log.load(sim.run(walk, 0.4).save(tmp_path / "walk.npz"))
    header, *_, last = log.to_csv(tmp_path / "walk.csv").read_text(encoding="utf-8").splitlines()
    row = dict(zip(header.split(","), last.split(","), strict=True))
    names = ("requested velocity x [m/s]", "requested velocity y [m/s]", "requested turn rate [rad/s]")
    assert [float(row[name]) for name in names] == [0.3, -0.1, 0.2] and row["mode"] == "moving"
    assert log.to_pandas()["mode"].iloc[0] == "starting"
    messages = dict((topic, message) for topic, _, _, message in list(log._tick_messages(None))[-1][1])
    assert messages["/cmd_vel"]["twist"]["angular"]["z"] == 0.2 and messages["/status"]["mode"] == "moving"
    log.to_mcap(tmp_path / "walk.mcap")
    assert "mode" not in simulate("go2").text_columns()


def test_log_of_a_simulation_is_viewed_as_a_page(tmp_path: Path) -> None:
    file, page = simulate("go2", ticks=40).save(tmp_path / "fall.npz"), tmp_path / "fall.html"
    done = CliRunner().invoke(app, ["log", "view", str(file), "--record", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "go2_description, fall.npz" in text and len(text) > 1_000_000  # with the meshes


@pytest.mark.parametrize(("name", "root"), [("go2", None), ("solo8", "planar"), ("go2", "fixed")])
def test_velocity_of_the_root_is_in_the_columns(name: str, root: str | None) -> None:
    log = simulate(name, root)
    columns = log.columns()
    found = {name: column for name, column in columns.items() if name.startswith("base ")}
    size = {"free": 7 + 6, "planar": 3 + 3, "fixed": 0}[log.root]
    assert len(found) == size
    if log.root == "free":
        np.testing.assert_array_equal(columns["base vy [m/s]"], log.v[:, 1])
        np.testing.assert_array_equal(columns["base wz [rad/s]"], log.v[:, 5])
    if log.root == "planar":
        np.testing.assert_array_equal(columns["base z [m]"], log.q[:, 1])
        np.testing.assert_array_equal(columns["base wy [rad/s]"], log.v[:, 2])


@pytest.mark.parametrize("kind", ["simulation", "robot"])
def test_tables_of_both_kinds_of_logs_are_equal_in_all_formats(
    files: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    log = shorten(load_log(files[kind]))
    columns, texts = log.columns(), log.text_columns()
    with pytest.raises(qd.UnknownNameError, match="text_columns"):
        columns["mode"]
    frames = {
        "pandas": log.to_pandas(),
        "csv": pandas.read_csv(log.to_csv(tmp_path / "x.csv"), keep_default_na=False, na_values=["nan"]),
        "parquet": pandas.read_parquet(log.to_parquet(tmp_path / "x.parquet")),
    }
    for frame in frames.values():
        assert list(frame.columns) == [*columns, *texts]
        for name, column in columns.items():
            np.testing.assert_allclose(frame[name].to_numpy(dtype=float), column, rtol=1e-15, atol=0.0)
        for name, text in texts.items():
            assert frame[name].tolist() == list(text)


@pytest.mark.parametrize("kind", ["simulation", "robot"])
@pytest.mark.parametrize("command", ["csv", "parquet", "mcap", "plot", "show"])
def test_log_commands_accept_both_kinds_of_files(
    files: dict[str, Path], kind: str, command: str, tmp_path: Path
) -> None:
    target = tmp_path / f"log.{'png' if command == 'plot' else command}"
    words = ["log", command, str(files[kind]), *([] if command == "show" else ["--out", str(target)])]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    if command == "show":
        assert "go2" in done.output and "ticks" in done.output
        report = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
        assert report["robot"] == "go2_description" and report["ticks"] == len(
            load_log(files[kind]).columns()["time [s]"]
        )
        return
    assert f"wrote {target}" in done.output and target.stat().st_size > 1000
    if command == "csv":
        first = target.read_text(encoding="utf-8").split("\n")[0].split(",")
        assert {"time [s]", "velocity FL_hip_joint [rad/s]", "base vx [m/s]"} <= set(first)


def test_robot_of_a_saved_log_is_restored(files: dict[str, Path]) -> None:
    log, robot = Log.load(files["simulation"]), qd.load("go2")
    again = log.robot()
    assert again.actuated == robot.actuated and again.source == robot.source
    np.testing.assert_array_equal(again.q_home, robot.q_home)
    assert simulate("go2").robot().name == robot.name
    with pytest.raises(qd.ArgumentError, match="damaged"):
        damaged = Log.load(files["simulation"])
        object.__setattr__(damaged, "robot_record", "{}")
        damaged.robot()


def test_log_without_its_robot_is_exported_without_transforms(files: dict[str, Path], tmp_path: Path) -> None:
    """Files of older versions do not contain the robot."""
    reader = pytest.importorskip("mcap.reader")
    with np.load(files["simulation"]) as saved:
        arrays = dict(saved)
    meta = json.loads(arrays.pop("meta").tobytes())
    del meta["record"]["Log"]["robot_record"]
    text = json.dumps({**meta, "format": 2}).encode()
    np.savez(tmp_path / "old.npz", meta=np.frombuffer(text, dtype=np.uint8), **arrays)
    old = Log.load(tmp_path / "old.npz")
    assert old.columns().keys() == Log.load(files["simulation"]).columns().keys()
    raises(qd.ArgumentError, "does not contain its robot", old.robot)
    with old.to_mcap(tmp_path / "old.mcap").open("rb") as file:
        topics = {each.topic for each in reader.make_reader(file).get_summary().channels.values()}
    assert {"/joint_states", "/odom"} < topics and "/tf" not in topics


def test_files_that_are_not_logs_are_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for content, text in (
        (b"nonsense", r"expected a log .* or a recording .*, got text; .* pass the file from which they were written"),
        (b"\x89MCAP0\r\n...", "got an MCAP file; .* pass the file from which they were written"),
        (b"<robot/>", "got XML$"),
        (b"", "got an empty file$"),
        (b"PK\x03\x04 nothing", "not a log saved by quaddyn, or it is damaged"),
    ):
        path.write_bytes(content)
        raises(qd.ArgumentError, f"^{path}: .*{text}", load_log, path)
    raises(OSError, "absent", load_log, tmp_path / "absent.npz")
