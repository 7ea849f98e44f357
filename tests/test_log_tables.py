"""Logs of simulations and recordings of robots have the same interface: columns, CSV, pandas, Parquet, commands."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from raising import raises
from test_runtime_log import run as run
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.locomotion import LocomotionMode
from quaddyn.runtime import load_log, load_recording
from quaddyn.runtime.run_log import RunLog
from quaddyn.simulation import Log
from quaddyn.simulation.log import RENAMED_FIELDS, RecordedRun


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


# -- logs of a run can be plotted, saved and exported -----------------------------------------------------------------
@pytest.fixture(scope="module")
def sim() -> qd.Simulation:
    return qd.Simulation(qd.load("go2"))


@pytest.fixture(scope="module")
def log(sim: qd.Simulation) -> Log:
    dyn, wbc = qd.Dynamics(sim.robot), qd.WholeBodyController(sim.robot)
    wbc.tasks.com.reference(dyn.center_of_mass(sim.q) + np.array([0.0, 0.0, 0.3]))  # beyond the reach of the legs
    sim.reset()
    return sim.run(lambda plant: wbc.compute(dyn.update(plant.q, plant.v)), 0.02, record_residuals=True)


def test_a_run_accepts_commands_and_records_their_status(log: Log) -> None:
    assert log.status == ("solved",) * 20
    assert (
        log.level_residuals.shape == (20, 3)
        and (log.level_residuals[:, 0] < 1e-6).all()
        and (log.level_residuals[:, 2] > 1.0).all()
    )
    assert log.tau.shape == (20, 12) and log.joint_names == qd.load("go2").actuated
    assert repr(log) == "Log('go2_description', 20 ticks of 1 ms, 20 solved)"


def test_a_fall_is_recorded_in_the_log(sim: qd.Simulation, tmp_path: Path) -> None:
    limp = SimpleNamespace(tau=np.zeros(12), mode=LocomotionMode.FALLEN, wbc_command=None)
    sim.reset()
    log = sim.run(lambda plant: limp, 0.002)
    assert log.status == ("fallen", "fallen")
    assert "fallen" in log.to_csv(tmp_path / "run.csv").read_text(encoding="utf-8")


def test_saved_log_is_restored_bit_for_bit(sim: qd.Simulation, log: Log, tmp_path: Path) -> None:
    again = Log.load(log.save(tmp_path / "run.npz"))
    for what in ("time", "q", "v", "tau", "forces", "joint_slices", "level_residuals"):
        np.testing.assert_array_equal(getattr(again, what), getattr(log, what))
    for what in ("spheres", "status", "root", "joint_names", "joint_units", "steps_per_tick"):
        assert getattr(again, what) == getattr(log, what)
    sim.replay(log)
    there = sim.q.copy(), sim.v.copy()
    sim.reset()
    sim.replay(again)
    np.testing.assert_array_equal(sim.q, there[0])
    np.testing.assert_array_equal(sim.v, there[1])


def test_files_of_the_first_format_are_read(log: Log, tmp_path: Path) -> None:
    """Their classes and fields have the names of the first version."""
    with np.load(log.save(tmp_path / "new.npz")) as saved:
        arrays = dict(saved)
    meta = json.loads(arrays.pop("meta").tobytes())
    old = {new: name for names in RENAMED_FIELDS.values() for name, new in names.items()}
    fields = {old.get(name, name): value for name, value in meta["record"]["Log"].items()}
    assert set(old.values()) < set(fields)
    text = json.dumps({"format": 1, "record": {"Log": fields}}).replace("ActivePush", "Push")
    text = text.replace("ContactPoint", "TouchingPoint")
    np.savez(tmp_path / "old.npz", meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    again = Log.load(tmp_path / "old.npz")
    np.testing.assert_array_equal(again.level_residuals, log.level_residuals)
    assert again.joint_names == log.joint_names and again.initial_checkpoint.robot == log.initial_checkpoint.robot


def test_files_that_are_not_logs_are_rejected_without_advice_to_load_them_unsafely(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    np.savez(file, meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(qd.ArgumentError, match="not a log") as caught:
        Log.load(file)
    assert "pickle" not in str(caught.value)
    for text in (b"", b"nonsense", b"PK\x03\x04"):
        file.write_bytes(text)
        raises(qd.ArgumentError, "not a log", Log.load, file)
    raises(OSError, "none", Log.load, tmp_path / "none.npz")


def test_log_is_exported_to_csv(log: Log, tmp_path: Path) -> None:
    with log.to_csv(tmp_path / "run.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20 and rows[0]["status"] == "solved"
    assert float(rows[3]["time [s]"]) == log.time[3]
    assert float(rows[3]["tau FL_hip_joint [N m]"]) == log.tau[3, log.joint_names.index("FL_hip_joint")]
    assert float(rows[3]["position RR_calf_joint [rad]"]) == log.q[3, -1]
    assert float(rows[3]["base qw [1]"]) == log.q[3, 6]
    assert float(rows[3]["force FL z [N]"]) == log.forces[3, 0, 2]
    assert float(rows[3]["residual of level 2 [m/s^2]"]) == log.level_residuals[3, 2]


def test_log_is_exported_to_mcap_in_json(log: Log, tmp_path: Path) -> None:
    from mcap.reader import make_reader

    with log.to_mcap(tmp_path / "run.mcap", encoding="json").open("rb") as file:
        reader = make_reader(file)
        schemas = {s.name for s in reader.get_summary().schemas.values()}
        found: dict[str, list[tuple[int, dict]]] = {}
        for schema, channel, message in reader.iter_messages():
            assert schema.encoding == "jsonschema" and channel.message_encoding == "json"
            properties = json.loads(schema.data)["properties"]
            content = json.loads(message.data)
            assert set(content) == set(properties)
            found.setdefault(channel.topic, []).append((message.log_time, content))
    assert {"sensor_msgs/msg/JointState", "geometry_msgs/msg/WrenchStamped", "quaddyn/msg/Status"} <= schemas
    feet = {f"/contact/{foot}" for foot in ("FL", "FR", "RL", "RR")}
    assert {"/joint_states", "/base", "/base_velocity", "/status", *feet} <= set(found)
    at_each_tick = {"/joint_states", "/base", "/base_velocity", "/odom", "/status", *feet}
    assert {len(found[topic]) for topic in at_each_tick} == {20}
    at, joints = found["/joint_states"][5]
    assert at == round(log.time[5] * 1e9) and joints["name"] == list(log.joint_names)
    np.testing.assert_array_equal(joints["position"], log.q[5, 7:])
    np.testing.assert_array_equal(joints["velocity"], log.v[5, 6:])
    np.testing.assert_array_equal(joints["effort"], log.tau[5])
    pose = found["/base"][5][1]["pose"]
    np.testing.assert_array_equal([*pose["position"].values(), *pose["orientation"].values()], log.q[5, :7])
    force = found["/contact/FL"][5][1]["wrench"]["force"]
    np.testing.assert_array_equal(list(force.values()), log.forces[5, log.spheres.index("FL")])
    said = found["/status"][5][1]
    assert said["outcome"] == "solved" and said["ok"] is True
    assert said["level_residuals"] == log.level_residuals[5].tolist()


def test_log_is_plotted(log: Log, tmp_path: Path) -> None:
    figure = log.plot(tmp_path / "run.png")
    assert len(figure.axes) == 6 and (tmp_path / "run.png").stat().st_size > 10_000
    assert figure.axes[2].get_ylabel() == "torque [N m]" and len(figure.axes[2].lines) == 12


@pytest.mark.parametrize(
    ("package", "call", "extra"),
    [
        ("mcap", "to_mcap", "mcap"),
        ("matplotlib", "plot", "plot"),
        ("pandas", "to_pandas", "export"),
        ("pyarrow", "to_parquet", "export"),
    ],
)
def test_a_missing_extra_is_named(
    log: Log, package: str, call: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(qd.QuaddynError, match=rf"quaddyn\[{extra}\]"):
        getattr(log, call)(*(() if call == "to_pandas" else (tmp_path / "x.png",)))


def test_continuous_joints_are_angles_in_a_log() -> None:
    robot = qd.load("double_pendulum_continuous")
    sim = qd.Simulation(robot)
    sim.reset(robot.configuration(joints=[0.5, -0.25]))
    log = sim.run(lambda plant: np.zeros(2), 0.002)
    np.testing.assert_allclose(log.positions[0], [0.5, -0.25], atol=1e-12)
    assert log.base is None and log.status == ("", "") and log.joint_units == ("rad", "rad")


def test_prismatic_joints_have_linear_units_in_a_log() -> None:
    inertia = "<mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
    links = "".join(f"<link name='{name}'><inertial>{inertia}</inertial></link>" for name in ("rail", "cart"))
    joint = "<parent link='rail'/><child link='cart'/><limit lower='-1' upper='1' effort='9' velocity='9'/>"
    cart = qd.load(f"<robot name='cart'>{links}<joint name='slide' type='prismatic'>{joint}</joint></robot>")
    log = qd.Simulation(cart).run(lambda plant: [1.0], 0.002)
    assert {"position slide [m]", "velocity slide [m/s]", "tau slide [N]"} < set(log.columns())
    assert log.plot().axes[0].get_ylabel() == "position [rad, m]"


def test_runs_that_begin_in_contact_and_under_a_push_are_replayed_in_both_plants(tmp_path: Path) -> None:
    robot = qd.load("small_quadruped")
    for plant in (qd.Simulation(robot), qd.MujocoPlant(robot)):
        for _ in range(5):
            plant.step(np.zeros(robot.nu))
        plant.push("FL", [1.0, 0.0, 0.0], duration=np.inf)
        assert plant.contacts
        log = plant.run(lambda plant: np.zeros(robot.nu), 0.01, control_dt=0.002)
        again = Log.load(log.save(tmp_path / "run.npz"))
        end = plant.q.copy()
        plant.replay(again)
        np.testing.assert_array_equal(plant.q, end)
        assert log.level_residuals.shape == (5, 0) and again.steps_per_tick == 2


@pytest.mark.filterwarnings("ignore:.* below the ground")
def test_links_in_contact_with_the_ground_are_in_the_log() -> None:
    robot = qd.load("small_quadruped")
    sim = qd.Simulation(robot)
    q = np.array(sim.q)
    q[2:7] = 0.02, 1.0, 0.0, 0.0, 0.0  # on its back
    sim.reset(q)
    log = sim.run(lambda plant: np.zeros(robot.nu), 0.2, control_dt=0.01)
    links = log.spheres[len(sim.spheres) :]
    assert links and all(log.forces[:, log.spheres.index(link)].any() for link in links)
    assert log.forces[-1].sum() == pytest.approx(
        sum(f.sum() for f in (*sim.contact_forces.values(), *sim.body_forces.values()))
    )
