"""Logs of a run can be plotted, saved and exported; docstrings state the former behavior."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.locomotion import LocomotionMode
from quaddyn.simulation import Log
from quaddyn.simulation.log import RENAMED_FIELDS


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
    """Formerly the data of a run was lost with the process."""
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
