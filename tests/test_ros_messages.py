"""Logs as ROS 2 messages: other readers of MCAP, CDR and message definitions give the values that were written."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from test_runtime_log import run as run

import quaddyn as qd
from quaddyn.runtime import load_recording
from quaddyn.runtime.run_log import RunLog
from quaddyn.simulation import Log
from quaddyn.simulation.mcap_file import (
    MESSAGES,
    NUMBERS,
    decode_cdr,
    encode_cdr,
    encode_json,
    make_schema,
    make_simple_shapes_urdf,
    read_messages,
    write_messages,
)
from quaddyn.urdf import parse

STANDARD = [kind for kind in MESSAGES if not kind.startswith("quaddyn/")]


def random_value(kind: str, rng: np.random.Generator) -> Any:
    """A value of a field."""
    if kind.endswith("]"):
        element, _, size = kind[:-1].partition("[")
        return [random_value(element, rng) for _ in range(int(size) if size else int(rng.integers(0, 4)))]
    if kind in MESSAGES:
        return {name: random_value(field, rng) for field, name in MESSAGES[kind]}
    if kind == "string":
        return "".join(chr(int(c)) for c in rng.integers(32, 0x2FF, int(rng.integers(0, 9))))
    if kind == "float64":
        return float(rng.standard_normal() * 10.0 ** rng.integers(-9, 9))
    return bool(rng.integers(0, 2)) if kind == "bool" else int(rng.integers(0, 200))


def plain(message: Any) -> Any:
    """A message of rosbags as dictionaries, lists and numbers."""
    if hasattr(message, "__msgtype__"):
        fields = {name: getattr(message, name) for name in message.__dataclass_fields__ if name != "__msgtype__"}
        return {name: plain(value) for name, value in fields.items()}
    if isinstance(message, np.ndarray | list):
        return [plain(entry) for entry in message]
    return message.item() if isinstance(message, np.generic) else message


def typestore(kind: str) -> Any:
    """Types that rosbags reads from the schema of a message type."""
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.EMPTY)
    store.register(typesys.get_types_from_msg(make_schema(kind, "ros2msg").decode(), kind))
    return store


@pytest.mark.parametrize("kind", MESSAGES)
def test_bytes_and_schema_of_every_message_agree_with_rosbags(kind: str) -> None:
    store, rng = typestore(kind), np.random.default_rng(0)
    for _ in range(20):
        content = random_value(kind, rng)
        data = encode_cdr(kind, content)
        message = store.deserialize_cdr(data, kind)
        assert plain(message) == content and decode_cdr(kind, data) == content
        assert bytes(store.serialize_cdr(message, kind)) == data
        assert decode_cdr(kind, bytes(store.serialize_cdr(message, kind, little_endian=False))) == content


@pytest.mark.parametrize("kind", STANDARD)
def test_definitions_of_standard_messages_are_those_of_ros2(kind: str) -> None:
    """The hash of a type (REP-2011) covers names, types and order of all fields, also of nested messages."""
    typesys = pytest.importorskip("rosbags.typesys")
    official = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    assert typestore(kind).hash_rihs01(kind) == official.hash_rihs01(kind)


def test_invalid_messages_are_rejected_with_the_type() -> None:
    kind = "sensor_msgs/msg/JointState"
    content = {"header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": "a"}, "name": ["j"]}
    content |= {"position": [1.0], "velocity": [], "effort": []}
    data = encode_cdr(kind, content)
    for end in range(len(data)):
        if end not in (len(data) - 4, len(data)):
            raises(qd.ArgumentError, f"not a message of type {kind}", decode_cdr, kind, data[:end])
    for damaged in (b"\x00\x03" + data[2:], data[:12] + b"\xff\xff\xff\x7f" + data[16:]):
        raises(qd.ArgumentError, "not a message", decode_cdr, kind, damaged)
    with pytest.raises(qd.ArgumentError, match="orientation_covariance: expected 9 entries, got 8"):
        encode_cdr("sensor_msgs/msg/Imu", random_value("sensor_msgs/msg/Imu", np.random.default_rng(0)) | {
            "orientation_covariance": [0.0] * 8})  # fmt: skip
    raises(qd.ArgumentError, r"Time\.sec", encode_cdr, "builtin_interfaces/msg/Time", {"sec": 2**31, "nanosec": 0})
    assert set(NUMBERS.values()) == {x for x in NUMBERS.values() if struct.calcsize(x)}


def test_json_has_empty_arrays_in_place_of_values_that_are_not_finite() -> None:
    content = {"position": [1.0, np.nan], "effort": [2.0], "v": {"x": np.inf, "y": 0.0}, "late": np.nan, "name": ["a"]}
    expected = {"position": [], "effort": [2.0], "v": {}, "late": None, "name": ["a"]}
    assert json.loads(encode_json(content)) == expected


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A robot that falls and lands, read from a file."""
    robot = qd.load("go2")
    sim = qd.Simulation(robot, dt=2e-3)
    q = np.array(sim.q)
    q[2], q[3:7] = q[2] + 0.1, np.array([0.1, 0.2, 0.3, 0.9]) / np.linalg.norm([0.1, 0.2, 0.3, 0.9])
    sim.reset(q, 0.1 * np.arange(robot.nv, dtype=float))
    log = sim.run(lambda plant: 0.5 * np.ones(12), 0.2)
    return Log.load(log.save(tmp_path_factory.mktemp("log") / "run.npz"))


def read_with_rosbags(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """All messages of a file by topic: time [ns] and fields."""
    highlevel, out = pytest.importorskip("rosbags.highlevel"), {}
    with highlevel.AnyReader([path]) as reader:
        for connection, stamp, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            out.setdefault(connection.topic, []).append((stamp, plain(message)))
    return out


def test_rosbags_reads_the_log_of_a_simulation(log: Log, tmp_path: Path) -> None:
    found = read_with_rosbags(log.to_mcap(tmp_path / "run.mcap"))
    feet = {f"/contact/{name}": s for s, name in enumerate(log.spheres)}
    assert {"/joint_states", "/base", "/base_velocity", "/odom", "/tf", "/tf_static", *feet} <= set(found)
    for i, (stamp, joints) in enumerate(found["/joint_states"]):
        assert (
            stamp
            == round(1e9 * log.time[i])
            == 10**9 * joints["header"]["stamp"]["sec"] + (joints["header"]["stamp"]["nanosec"])
        )
        assert joints["name"] == list(log.joint_names) and joints["position"] == log.q[i, 7:].tolist()
        assert joints["velocity"] == log.v[i, 6:].tolist() and joints["effort"] == log.tau[i].tolist()
    for i, (_, odometry) in enumerate(found["/odom"]):
        pose, twist = odometry["pose"]["pose"], odometry["twist"]["twist"]
        assert [*pose["position"].values(), *pose["orientation"].values()] == log.q[i, :7].tolist()
        assert [*twist["linear"].values(), *twist["angular"].values()] == log.v[i, :6].tolist()
        assert odometry["child_frame_id"] == "base" and odometry["header"]["frame_id"] == "world"
    for topic, s in feet.items():
        forces = [list(message["wrench"]["force"].values()) for _, message in found[topic]]
        np.testing.assert_array_equal(forces, log.forces[:, s])
    assert len(found["/joint_states"]) == len(found["/odom"]) == len(log.time)


def link_placements(messages: dict[str, list[tuple[int, Any]]], tick: int) -> dict[str, np.ndarray]:
    """Homogeneous transformations of all links in the world, from /tf and /tf_static."""
    transforms = [*messages["/tf_static"][0][1]["transforms"], *messages["/tf"][tick][1]["transforms"]]
    parents = {t["child_frame_id"]: (t["header"]["frame_id"], t["transform"]) for t in transforms}
    assert len(parents) == len(transforms)

    def place(link: str) -> np.ndarray:
        if link == "world":
            return np.eye(4)
        parent, transform = parents[link]
        rotation, translation = transform["rotation"], transform["translation"]
        local = pin.SE3(pin.Quaternion(*(rotation[k] for k in "wxyz")), np.array([translation[k] for k in "xyz"]))
        return place(parent) @ local.homogeneous

    return {link: place(link) for link in parents}


@pytest.mark.parametrize("name", ["go2", "solo8", "ur5", "two_link_leg"])
def test_transforms_place_every_link_of_the_description(name: str, tmp_path: Path) -> None:
    """With /tf, /tf_static and /robot_description a viewer of ROS 2 draws the robot."""
    robot = qd.load(name)
    sim, rng = qd.Simulation(robot, dt=5e-3), np.random.default_rng(0)
    log = sim.run(lambda plant: rng.uniform(-1.0, 1.0, robot.nu), 0.05)
    found = read_with_rosbags(log.to_mcap(tmp_path / "run.mcap"))
    ((_, description),) = found["/robot_description"]
    links = {element.get("name") for element in ElementTree.fromstring(description["data"]).iter("link")}
    assert len(found["/tf"]) == 5  # every second tick of 5 ms
    for i in (0, 4):
        placements, dyn = link_placements(found, i), qd.Dynamics(robot)
        assert set(placements) | {"world"} == links | {"world"}
        for link, placement in placements.items():
            np.testing.assert_allclose(placement, dyn.frame_placement(log.q[2 * i], link).homogeneous, atol=1e-9)


def test_file_contains_a_foxglove_layout_and_shapes_without_mesh_files(log: Log, tmp_path: Path) -> None:
    reader = pytest.importorskip("mcap.reader")
    with log.to_mcap(tmp_path / "run.mcap").open("rb") as file:
        opened = reader.make_reader(file)
        attached = {each.name: each for each in opened.iter_attachments()}
        channels = {each.topic: each for each in opened.get_summary().channels.values()}
        assert opened.get_header().profile == "ros2"
    layout = json.loads(attached["foxglove_layout.json"].data)
    scene = layout["configById"]["3D!robot"]
    assert scene["layers"]["robot"]["topic"] == "/robot_shapes" and scene["followTf"] == "base"
    drawn = json.dumps(layout["layout"])
    assert all(panel in drawn for panel in layout["configById"])
    topics = {line["value"].split(".")[0] for panel in layout["configById"].values() for line in panel.get("paths", ())}
    assert topics <= set(channels)
    assert b"<robot" in attached["robot.urdf"].data
    for topic in ("/robot_description", "/tf_static"):
        assert "durability: 1" in channels[topic].metadata["offered_qos_profiles"]
    robot = qd.load("go2")
    shapes = ElementTree.fromstring(make_simple_shapes_urdf(robot))
    assert not list(shapes.iter("mesh"))
    drawn_links = {link.get("name") for link in shapes.findall("link") if link.find("visual") is not None}
    assert {"base", *(f"{leg}_{part}" for leg in robot.feet for part in ("hip", "thigh", "calf"))} <= drawn_links
    tree = parse(make_simple_shapes_urdf(robot))
    assert [link.name for link in tree.links] == [link.name for link in robot.tree.links]
    for drawn_joint, joint in zip(tree.joints, robot.tree.joints, strict=True):
        assert (drawn_joint.name, drawn_joint.type, drawn_joint.child) == (joint.name, joint.type, joint.child)
        np.testing.assert_allclose(
            drawn_joint.placement.homogeneous, joint.placement.homogeneous, atol=1e-8, err_msg=joint.name
        )


def test_rosbags_reads_a_recording_of_a_control_loop(run: Path, tmp_path: Path) -> None:
    recording = load_recording(run)
    short = RunLog(recording.metadata, recording.records[::20])
    found, r = read_with_rosbags(short.to_mcap(tmp_path / "log.mcap")), short.records
    for i, (stamp, joints) in enumerate(found["/joint_states"]):
        assert stamp == round(1e9 * (r["begun"][i] - r["begun"][0]))
        assert joints["position"] == r["position"][i].tolist() and joints["velocity"] == r["velocity"][i].tolist()
    for i, (_, imu) in enumerate(found["/imu"]):
        assert list(imu["angular_velocity"].values()) == r["gyro"][i].tolist()
        assert list(imu["linear_acceleration"].values()) == r["accelerometer"][i].tolist()
        assert imu["orientation_covariance"][0] == -1.0
    estimated = np.flatnonzero(np.isfinite(r["q"]).all(axis=1))
    assert 0 < len(estimated) == len(found["/odom"])
    for i, (_, odometry) in zip(estimated, found["/odom"], strict=True):
        assert list(odometry["twist"]["twist"]["angular"].values()) == r["v"][i, 3:6].tolist()
    for i, (_, tick) in enumerate(found["/tick"]):
        assert tick["number"] == r["last"][i] and tick["status"].encode() == r["status"][i]
    assert [m["force"] for _, m in found["/feet"]] == r["foot_forces"].tolist()


@pytest.mark.parametrize("encoding", ["ros2", "json"])
def test_messages_are_read_back_from_both_encodings(log: Log, encoding: Any, tmp_path: Path) -> None:
    path = log.to_mcap(tmp_path / "run.mcap", encoding=encoding)
    kinds = ("sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry")
    found = list(read_messages(path, kinds))
    assert [topic for topic, *_ in found] == ["/joint_states", "/odom"] * len(log.time)
    assert found[2][3]["position"] == log.q[1, 7:].tolist() and found[2][2] == pytest.approx(log.time[1])


def test_invalid_mcap_files_are_rejected_by_name(log: Log, tmp_path: Path) -> None:
    path = log.to_mcap(tmp_path / "run.mcap")
    data = path.read_bytes()
    middle = len(data) // 2
    for content in (b"", b"nonsense", data[:middle], data[:middle] + bytes(200) + data[middle + 200 :]):
        path.write_bytes(content)
        raises(qd.ArgumentError, f"^{path}.*damaged", list, read_messages(path, ("sensor_msgs/msg/JointState",)))
    raises(qd.ArgumentError, "encoding: expected", log.to_mcap, path, encoding="xml")


def test_topics_have_names_that_ros2_accepts(tmp_path: Path) -> None:
    kind, content = "std_msgs/msg/String", {"data": "x"}
    topics = ("/contact/shank 1", "/contact/shank-1", "/contact/shank_1")
    ticks = [(0.01 * i, [(topic, kind, "", content) for topic in topics]) for i in range(2)]
    names = [topic for topic, *_ in read_messages(write_messages(tmp_path / "x.mcap", ticks), (kind,))]
    assert len(set(names)) == 3 and names[:3] == names[3:] and names[0] == "/contact/shank_1"
    assert all(re.fullmatch("[A-Za-z0-9_/]+", name) for name in names)
    written = write_messages(tmp_path / "x.mcap", ticks, encoding="json")
    assert [topic for topic, *_ in read_messages(written, (kind,))][:3] == list(topics)
