"""The viewer without a browser: poses, markers, recordings, inputs, and a server that is reachable only locally."""

from __future__ import annotations

import base64
import contextlib
import gc
import gzip
import html
import json
import math
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import websockets.exceptions
from call_counts import count_calls
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises
from slow_parameters import others_slow
from test_capsules import URDF
from waiting import wait_for
from websockets.sync.client import ClientConnection, connect

import quaddyn as qd
from quaddyn.errors import ArgumentError, QuaddynError, UnknownNameError
from quaddyn.kinematics import CapsuleModel
from quaddyn.simulation import Box, HeightField, Plane, stairs
from quaddyn.viewer import JointSliders, MeshError, ServerError, Viewer
from quaddyn.viewer import server as server_module
from quaddyn.viewer.figure import MAX_FIELD_SAMPLES, triangulate_height_field
from quaddyn.viewer.mesh import (
    AdjacentFiles,
    Part,
    make_arrow,
    make_box,
    make_capsule,
    make_cylinder,
    make_sphere,
    read_mesh,
    triangulate_fans,
)
from quaddyn.viewer.scene import Blob
from quaddyn.viewer.server import Pull, Spring
from quaddyn.viewer.viewer import _slider_range

QUADRUPEDS = ("a1", "anymal_b", "anymal_c", "b1", "go1", "go2", "hyq", "laikago", "solo8", "solo12")


# -- an independent reader of the pages ----------------------------------------------------------------------------
def unpack(packet: bytes) -> tuple[dict, object]:
    size = int.from_bytes(packet[:4], "little")
    header, body = json.loads(packet[4 : 4 + size]), packet[4 + size :]

    def array(ref: dict) -> np.ndarray:
        return np.frombuffer(body, ref["type"], ref["length"], ref["offset"])

    return header, array


@dataclass
class RecordedPage:
    """Contents of a recorded page."""

    slots: list[str]
    meshes: list[tuple[int, np.ndarray]]  # slot, (n, 3) points in the slot's frame
    collisions: list[tuple[int, np.ndarray]]  # the same for collision shapes
    bodies: list[dict]
    times: np.ndarray
    poses: np.ndarray  # (frames, slots, 10)
    texts: list
    reports: list
    camera: dict
    floor: float | None
    channels: list[tuple[str, str]]
    values: np.ndarray  # (frames, channels)
    paints: list[tuple[str, dict]]  # slot and material of each mesh

    def signal(self, panel: str, name: str) -> np.ndarray:
        return self.values[:, self.channels.index((panel, name))]

    def pose(self, name: str, frame: int = -1) -> np.ndarray:
        return self.poses[frame, self.slots.index(name)].astype(float)

    def world(self, frame: int = -1) -> dict[str, np.ndarray]:
        """Vertices of every slot in the world."""
        out: dict[str, list[np.ndarray]] = {}
        for slot, points in self.meshes:
            x = self.poses[frame, slot].astype(float)
            if x[7]:
                R = pin.Quaternion(x[6], *x[3:6]).toRotationMatrix()
                out.setdefault(self.slots[slot], []).append(points * x[7:] @ R.T + x[:3])
        return {k: np.concatenate(v) for k, v in out.items()}


def read(path: Path) -> RecordedPage:
    data = re.search(r'id="data">([^<]*)<', path.read_text(encoding="utf-8"))
    assert data is not None
    stream = gzip.decompress(base64.b64decode(data[1]))
    slots, geometries, meshes, collisions, materials, paints, bodies, rest, at = [], [], [], [], [], [], [], {}, 0
    while at < len(stream):
        size = int.from_bytes(stream[at : at + 8], "little")
        header, array = unpack(stream[at + 8 : at + 8 + size])
        at += 8 + size
        if header["kind"] != "scene":
            rest[header["kind"]] = header, array
            continue
        slots += ["/".join(s["path"]) for s in header["slots"]]
        geometries += [
            np.array(g["origin"]) + g["step"] * array(g["grid"]).reshape(-1, 3) for g in header["geometries"]
        ]
        materials += header["materials"]
        bodies += header["bodies"]
        for m in header["meshes"]:
            paints.append((slots[m["slot"]], materials[m["material"]]))
            T = np.array(m["matrix"]).reshape(4, 4).T
            (collisions if m.get("collision") else meshes).append(
                (m["slot"], geometries[m["geometry"]] @ T[:3, :3].T + T[:3, 3])
            )
    header, array = rest["animation"]
    poses = array(header["poses"]).reshape(-1, header["slots"], 10)
    channels = [(c["panel"], c["name"]) for c in rest["channels"][0]["channels"]]
    values = array(header["values"]).reshape(len(poses), -1)
    floor = rest["floor"][0]["height"]
    times = array(header["times"])
    return RecordedPage(
        slots, meshes, collisions, bodies, times, poses, header["texts"], header["reports"], rest["camera"][0], floor,
        channels, values, paints,
    )  # fmt: skip


@pytest.fixture
def viewer(go2: qd.Robot) -> Iterator[Viewer]:
    with Viewer(go2, serve=False, meshes=False) as made:
        yield made


def sample(robot: qd.Robot, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return pin.integrate(robot.model, np.array(robot.q_home), rng.uniform(-0.4, 0.4, robot.nv))


# -- the robot in its place ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(QUADRUPEDS, ["anymal_c", "laikago", "solo8"]))
def test_drawn_quadruped_has_the_extent_and_feet_of_its_model(name: str, tmp_path: Path) -> None:
    robot = qd.load(name)
    viewer = Viewer(robot, serve=False)
    assert viewer.missing_meshes == ()
    viewer.show(robot.q_home, show_com=False)
    world = read(viewer.record(tmp_path / "page.html")).world()
    everything = np.concatenate(list(world.values()))
    low, high = everything.min(axis=0), everything.max(axis=0)
    size = high - low
    assert -0.01 <= low[2] <= 0.01, "the lowest vertex touches the ground"
    assert size[0] > size[1] > 0.15, "longer than wide"
    assert size[2] < size[0] * 1.2
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, np.array(robot.q_home))
    hips = {n: data.oMf[robot.frame_id(robot.legs[n].joints[0])].translation for n in robot.feet}
    for leg in robot.legs.values():
        # the vertices around each foot belong to the last link of its leg, and reach it
        foot = data.oMf[robot.frame_id(leg.name)].translation
        last = robot.model.names[robot.model.frames[robot.frame_id(leg.name)].parentJoint]
        body = next(b for b in robot.bodies if b.joint is not None and b.joint.name == last)
        near = np.linalg.norm(world[f"Robot/{body.name}"] - foot, axis=1).min()
        assert near < leg.foot.radius + 0.02, (leg.name, near)
        assert np.sign(foot[1]) == (1 if leg.side == "left" else -1)
    base = world[f"Robot/{robot.bodies[0].name}"]
    for hip in hips.values():  # the trunk spans the hips
        assert (base.min(axis=0) - 0.12 < hip).all() and (hip < base.max(axis=0) + 0.12).all()


@pytest.mark.parametrize("root", ["free", "planar", "fixed"])
def test_body_poses_equal_forward_kinematics(root: str, tmp_path: Path) -> None:
    robot = qd.load("go2", root=root)
    q = sample(robot)
    viewer = Viewer(robot, serve=False, meshes=False)
    viewer.show(q)
    take = read(viewer.record(tmp_path / "page.html"))
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    for body in robot.bodies:
        placement = data.oMf[robot.model.getFrameId(body.name, pin.FrameType.BODY)]
        x = take.pose(f"Robot/{body.name}")
        np.testing.assert_allclose(x[:3], placement.translation, atol=1e-4)
        np.testing.assert_allclose(pin.Quaternion(x[6], *x[3:6]).toRotationMatrix(), placement.rotation, atol=1e-4)
        np.testing.assert_array_equal(x[7:], 1)


def test_stick_figure_connects_the_joints_and_reaches_the_feet(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    q = sample(go2)
    viewer.show(q, show_com=False)
    world = np.concatenate(list(read(viewer.record(tmp_path / "page.html")).world().values()))
    data = go2.model.createData()
    pin.framesForwardKinematics(go2.model, data, q)
    for name in (*go2.feet, *go2.joint_names):
        distance = np.linalg.norm(world - data.oMf[go2.frame_id(name)].translation, axis=1).min()
        assert distance < 0.025, name


MESHLESS = """<robot name="r"><link name="base"><inertial><mass value="1"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><geometry><mesh filename="absent.stl"/></geometry></visual>{collision}</link>
  <link name="arm"><inertial><origin xyz="0 0 -.2"/><mass value="1"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>{visual}</link>
  <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def test_a_missing_mesh_is_reported_and_replaced(tmp_path: Path) -> None:
    sphere = "<collision><geometry><sphere radius='0.3'/></geometry></collision>"
    for collision, instead, extent in (("", "a small box", 0.01), (sphere, "its collision shapes", 0.6)):
        robot = qd.load(MESHLESS.format(collision=collision, visual=""), root="fixed")
        viewer = Viewer(robot, serve=False)
        (missing,) = viewer.missing_meshes
        assert (missing.link, missing.uri, missing.substitute) == ("base", "absent.stl", instead)
        assert "absent.stl" in str(missing)
        viewer.show(robot.q_home)
        points = read(viewer.record(tmp_path / "page.html")).world()["Robot/base"]
        assert np.ptp(points, axis=0).max() == pytest.approx(extent, rel=0.01)


def test_bodies_are_described_with_boxes_of_their_inertia_and_effective_limits(tmp_path: Path) -> None:
    for name in ("go2", "solo12", "ur5"):
        robot = qd.load(name)
        viewer = Viewer(robot, serve=False, meshes=False)
        viewer.show(robot.q_home, reference_q=robot.q_home)
        described = read(viewer.record(tmp_path / "page.html")).bodies
        assert [d["name"] for d in described] == [body.name for body in robot.bodies], "ghosts are not described"
        for d, body in zip(described, robot.bodies, strict=True):
            a, b, c = np.square(d["box"])
            R = pin.Quaternion(*np.roll(d["axes"], 1)).toRotationMatrix()
            inertia = R @ np.diag([b + c, a + c, a + b]) @ R.T * d["mass"] / 12.0
            expected = np.array(body.inertial.inertia)
            np.testing.assert_allclose(inertia, expected, atol=1e-3 * np.abs(expected).max() + 1e-12)
            np.testing.assert_allclose(d["com"], body.inertial.com, atol=1e-12)
        by_joint = {d["joint"]["name"]: d["joint"] for d in described if d["joint"]}
        for joint, limit in zip(robot.actuated, robot.effort_limits.tolist(), strict=True):
            assert by_joint[joint]["effort"] == (None if name == "solo12" else limit), "1000 N m is no limit"


def test_collision_shapes_are_sent_apart_from_the_drawn_ones(tmp_path: Path) -> None:
    shape = "<{0}><origin xyz='1 0 0'/><geometry><box size='{1}'/></geometry></{0}>"
    text = MESHLESS.replace(
        '<visual><geometry><mesh filename="absent.stl"/></geometry></visual>', shape.format("visual", ".2 .2 .2")
    )
    robot = qd.load(text.format(collision=shape.format("collision", ".2 .4 .6"), visual=""), root="fixed")
    viewer = Viewer(robot, serve=False)
    viewer.show(robot.q_home)
    take = read(viewer.record(tmp_path / "page.html"))
    np.testing.assert_allclose(np.ptp(take.world()["Robot/base"], axis=0), [0.2, 0.2, 0.2], atol=1e-3)
    assert [take.slots[slot] for slot, _ in take.collisions] == ["Robot/base"]
    np.testing.assert_allclose(np.ptp(take.collisions[0][1], axis=0), [0.2, 0.4, 0.6], atol=1e-3)


def test_robot_without_visuals_is_drawn_by_collision_shapes_or_as_a_stick_figure(tmp_path: Path) -> None:
    text = MESHLESS.replace('<visual><geometry><mesh filename="absent.stl"/></geometry></visual>', "")
    box = "<collision><origin xyz='1 0 0'/><geometry><box size='.2 .4 .6'/></geometry></collision>"
    for collision, expected in ((box, [0.2, 0.4, 0.6]), ("", None)):
        robot = qd.load(text.format(collision=collision, visual=""), root="fixed")
        viewer = Viewer(robot, serve=False)
        viewer.show(robot.q_home)
        world = read(viewer.record(tmp_path / "page.html")).world()
        if expected:
            np.testing.assert_allclose(np.ptp(world["Robot/base"], axis=0), expected, atol=1e-3)
        else:
            assert len(world["Robot/arm"]) > 0


def test_primitive_shapes_have_their_declared_size_and_place(tmp_path: Path) -> None:
    cases = {
        "<box size='.2 .4 .6'/>": [0.2, 0.4, 0.6],
        "<sphere radius='.3'/>": [0.6, 0.6, 0.6],
        "<cylinder radius='.1' length='.5'/>": [0.2, 0.2, 0.5],
    }
    for shape, size in cases.items():
        visual = f"<visual><origin xyz='1 2 3' rpy='1.5707963267948966 0 0'/><geometry>{shape}</geometry></visual>"
        robot = qd.load(MESHLESS.format(collision="", visual=visual), root="fixed")
        viewer = Viewer(robot, serve=False)
        viewer.show(robot.q_home)
        points = read(viewer.record(tmp_path / "page.html")).world()["Robot/arm"]
        low, high = points.min(axis=0), points.max(axis=0)
        np.testing.assert_allclose(high - low, [size[0], size[2], size[1]], atol=1e-4)  # turned by 90 degrees about x
        np.testing.assert_allclose((high + low) / 2, [1, 2, 3], atol=1e-4)


def test_negative_mesh_scale_mirrors_the_mesh(tmp_path: Path) -> None:
    (tmp_path / "wedge.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n", encoding="utf-8"
    )
    visual = "<visual><geometry><mesh filename='wedge.obj' scale='2 -1 .5'/></geometry></visual>"
    path = tmp_path / "robot.urdf"
    path.write_text(MESHLESS.format(collision="", visual=visual), encoding="utf-8")
    robot = qd.load(path, root="fixed")
    viewer = Viewer(robot, serve=False)
    assert [m.uri for m in viewer.missing_meshes] == ["absent.stl"]
    viewer.show(robot.q_home)
    points = read(viewer.record(tmp_path / "page.html")).world()["Robot/arm"]
    np.testing.assert_allclose([points.min(axis=0), points.max(axis=0)], [[0, -1, 0], [2, 0, 0.5]], atol=1e-4)


# -- markers -------------------------------------------------------------------------------------------------------
def test_force_arrows_start_at_the_frame_and_have_the_documented_length(
    viewer: Viewer, go2: qd.Robot, tmp_path: Path
) -> None:
    q, rng = sample(go2), np.random.default_rng(1)
    forces = {name: rng.uniform(-60, 60, 3) for name in ("FL", "RR", "base")}
    forces["FR"] = np.array([0.0, 0.0, -50.0])  # straight down: half a turn
    viewer.show(q, forces={**forces, "RL": np.zeros(3)})
    take = read(viewer.record(tmp_path / "page.html"))
    data = go2.model.createData()
    pin.framesForwardKinematics(go2.model, data, q)
    assert viewer.newtons_per_meter > 0
    for name, force in forces.items():
        points = take.world()[f"Force/{name}"]
        tail = data.oMf[go2.frame_id(name)].translation
        along = (points - tail) @ force / np.linalg.norm(force)
        length = np.linalg.norm(force) / viewer.newtons_per_meter
        np.testing.assert_allclose([along.min(), along.max()], [0, length], atol=1e-4)
        tip = points[along.argmax()]
        np.testing.assert_allclose(tip, tail + force / viewer.newtons_per_meter, atol=1e-4)
    assert "Force/RL" not in take.slots, "a zero force is no arrow"


def test_moment_of_a_wrench_is_drawn(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show(go2.q_home, forces={"base": [0, 0, 10, 5, 0, 0]})
    take = read(viewer.record(tmp_path / "page.html"))
    points = take.world()["Moment/base"]
    assert np.ptp(points, axis=0).argmax() == 0, "along the moment's axis, x"


def test_drawn_friction_cones_have_the_given_coefficients(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show(go2.q_home, show_friction_cones=True, friction={"FL": 0.3, "FR": 0.6, "RL": 0.9, "RR": 1.2})
    take = read(viewer.record(tmp_path / "page.html"))
    for name, mu in {"FL": 0.3, "FR": 0.6, "RL": 0.9, "RR": 1.2}.items():
        points = take.world()[f"Cone/{name}"] - take.pose(f"Cone/{name}")[:3]
        rim = points[points[:, 2] > points[:, 2].max() - 1e-6]
        np.testing.assert_allclose(np.linalg.norm(rim[:, :2], axis=1) / rim[:, 2], mu, rtol=1e-3)


def test_contacts_are_drawn_with_points_forces_cones_and_support_polygon(go2: qd.Robot, tmp_path: Path) -> None:
    slope = Plane.slope(0.2, friction=0.4)
    sim = qd.Simulation(go2, terrain=slope)
    q = go2.q_home.copy()
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(0.0, -0.2, 0.0)).coeffs()
    q[:3] = q[2] * slope.normal
    sim.reset(q)
    sim.step(np.zeros(12))
    contacts = sim.contacts
    assert len(contacts) == 4
    viewer = Viewer(go2, serve=False, meshes=False)
    viewer.show(sim.q, contacts=contacts, show_friction_cones=True, show_support_polygon=True)
    viewer.show(sim.q)
    take = read(viewer.record(tmp_path / "page.html"))
    world = take.world(0)
    for i, contact in enumerate(contacts):
        name = f"{contact.sphere} {i}"
        np.testing.assert_allclose(take.pose(f"Contact/{name}", 0)[:3], contact.point, atol=1e-4)
        tip = contact.point + contact.force / viewer.newtons_per_meter
        assert np.linalg.norm(world[f"Force/{name}"] - tip, axis=1).min() < 1e-4
        away = world[f"Cone/{name}"] - contact.point
        along = away @ contact.normal
        rim = along > along.max() - 1e-4
        across = np.linalg.norm(away[rim] - np.outer(along[rim], contact.normal), axis=1)
        np.testing.assert_allclose(across / along[rim], 0.4, rtol=2e-3)
        assert take.pose(f"Contact/{name}", 1)[7] == 0.0, "gone in the next frame"
    edges = [f"Support/edge {i}" for i in range(4)]
    corners = {c.sphere: c.point for c in contacts}
    for edge, (a, b) in zip(edges, (("RL", "RR"), ("RR", "FR"), ("FR", "FL"), ("FL", "RL")), strict=True):
        for end in (a, b):
            distance = min(np.linalg.norm(world[e] - corners[end], axis=1).min() for e in edges)
            assert distance < 0.01, edge
    raises(qd.ArgumentTypeError, "contacts", viewer.show, sim.q, contacts=["FL"])


def test_ground_normals_are_drawn_at_the_contact_points(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    steep = np.array([-0.3, 0.1, 0.8])
    viewer.show(go2.q_home, normals={"FL": steep, "base": (0.0, 0.0, 1.0)})
    viewer.show(go2.q_home)
    take, dynamics = read(viewer.record(tmp_path / "page.html")), qd.Dynamics(go2)
    up, world = steep / np.linalg.norm(steep), take.world(0)
    at = dynamics.frame_placement(go2.q_home, "FL").translation - go2.legs["FL"].foot.radius * up
    along = (world["Normal/FL"] - at) @ up
    assert along.min() == pytest.approx(0.0, abs=1e-3) and along.max() > 0.1
    tip = world["Normal/FL"][along.argmax()]
    np.testing.assert_allclose(tip, at + along.max() * up, atol=1e-3)
    np.testing.assert_allclose(
        take.pose("Normal/base", 0)[:3], dynamics.frame_placement(go2.q_home, "base").translation, atol=1e-4
    )
    assert take.pose("Normal/FL", 1)[7] == 0.0, "gone in the next frame"


def test_footholds_are_drawn_at_their_positions_and_colored_by_cost(go2: qd.Robot, tmp_path: Path) -> None:
    """A disc for each selected foothold, a dot for each other candidate: green at zero cost, red at an edge."""
    controller = qd.LocomotionController(
        go2, dt=2e-3, terrain=lambda x, y: np.where(x > 0.7, np.nan, np.where(x > 0.3, 0.05, 0.02 + 0.05 * y))
    )
    plant, dynamics = qd.Simulation(go2, dt=2e-3), qd.Dynamics(go2)
    with Viewer(go2, serve=False, meshes=False, fps=100.0) as viewer:
        commands = []
        for k in range(700):
            command = controller.compute(dynamics.update(plant.q, plant.v), (0.5, 0.0, 0.0))
            plant.step(command.tau)
            if k % 20 == 0 and command.footholds:
                viewer.show(plant.q, footholds=command.footholds)
                commands.append(command)
        viewer.show(plant.q)
        take = read(viewer.record(tmp_path / "page.html"))
    assert len(take.poses) == len(commands) + 1 and len(commands) > 20
    dots = np.array([slot for slot, name in enumerate(take.slots) if name.startswith("Candidate/")])
    paints = dict(take.paints)
    colors = np.array([paints[take.slots[slot]]["color"][:3] for slot in dots])
    for frame, command in enumerate(commands):
        seen = take.poses[frame, dots, 7] > 0.0
        at, color = take.poses[frame, dots[seen], :3], colors[seen]
        count = 0
        for foot, foothold in command.footholds.items():
            disc = take.pose(f"Foothold/{foot}", frame)
            assert disc[7] > 0.0 and np.abs(disc[:3] - foothold.position).max() < 5e-3
            R = pin.Quaternion(disc[6], *disc[3:6]).toRotationMatrix()
            np.testing.assert_allclose(R[:, 2], foothold.normal, atol=1e-3)
            if foothold.is_blind:
                continue
            unknown = foothold.rejected[np.isfinite(foothold.rejected[:, 2])]
            away = np.linalg.norm(at[:, None] - np.concatenate((foothold.candidates, unknown)), axis=2)
            assert (away.min(axis=0) < 3e-3).all()
            red, green, blue = color[away.argmin(axis=0)].T
            rest = len(foothold.candidates)
            assert (red < green)[:rest][foothold.costs < 0.5].all() and (red > green)[:rest][foothold.costs > 2.5].all()
            assert (blue[:rest] < 0.3).all() and (red == green)[rest:].all() and (red == blue)[rest:].all()
            count += away.shape[1]
        assert seen.sum() == count
    every = [hold for command in commands for hold in command.footholds.values()]
    assert any(len(hold.rejected) for hold in every) and any(hold.costs.max(initial=0.0) > 10.0 for hold in every)
    assert any(hold.is_blind for hold in every) and sum(not hold.is_blind for hold in every) > 20
    assert not take.poses[-1, dots, 7].any(), "gone in the last frame"


def test_support_polygon_is_that_of_the_loaded_feet(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show(go2.q_home, show_support_polygon=True)
    viewer.show(go2.q_home, show_support_polygon=True, forces={"FL": [0, 0, 80], "RR": [0, 0, 80], "FR": [0, 0, 0]})
    viewer.show(go2.q_home, show_support_polygon=True, show_friction_cones=True, contacts=())  # in the air
    take = read(viewer.record(tmp_path / "page.html"))
    lengths = [[take.pose(f"Support/edge {i}", frame)[9] for i in range(4)] for frame in (0, 1)]
    data = go2.model.createData()
    pin.framesForwardKinematics(go2.model, data, go2.q_home)
    at = {foot: data.oMf[go2.frame_id(foot)].translation for foot in go2.feet}
    around = sum(np.linalg.norm(at[a] - at[b]) for a, b in (("FL", "FR"), ("FR", "RR"), ("RR", "RL"), ("RL", "FL")))
    assert sum(lengths[0]) == pytest.approx(around, rel=1e-3)
    assert lengths[1] == pytest.approx([np.linalg.norm(at["FL"] - at["RR"]), 0.0, 0.0, 0.0], rel=1e-3)
    assert not any(take.pose(f"Support/edge {i}", 2)[7:].any() for i in range(4))
    assert not any(path.startswith("Cone") for path in take.world(2))


def test_center_of_mass_is_drawn_above_its_projection(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    q = sample(go2)
    viewer.show(q)
    viewer.show(q, show_com=False)
    take = read(viewer.record(tmp_path / "page.html"))
    center = pin.centerOfMass(go2.model, go2.model.createData(), q)
    np.testing.assert_allclose(take.pose("Com/center", 0)[:3], center, atol=1e-4)
    np.testing.assert_allclose(take.pose("Com/ground", 0)[:2], center[:2], atol=1e-4)
    assert take.pose("Com/ground", 0)[2] < 0.01
    assert take.pose("Com/center", 1)[7] == 0


def test_desired_velocity_is_drawn_beside_the_measured_one(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    v = np.zeros(go2.nv)
    v[:3] = [0.4, 0, 0]
    viewer.show(go2.q_home, v=v, desired_velocity=[0.0, 0.6, 0.0])
    viewer.show(go2.q_home, v=v)
    take = read(viewer.record(tmp_path / "page.html"))
    shown, alone = take.world(0), take.world(1)["Velocity/com"]
    measured, wanted = shown["Velocity/com"], shown["Desired/com"]
    assert np.ptp(measured[:, 0]) == pytest.approx(0.2, abs=1e-3), "in half a second"
    assert np.ptp(wanted[:, 1]) == pytest.approx(0.3, abs=1e-3)
    centre = qd.Dynamics(go2).update(go2.q_home, v).com
    assert np.linalg.norm(centre - go2.q_home[:3]) > 0.01, "the base's origin is another point"
    assert measured[:, 0].min() == pytest.approx(centre[0], abs=2e-3)
    middle = 0.5 * (measured[:, 1].min() + measured[:, 1].max())
    assert middle == pytest.approx(centre[1], abs=2e-3)
    np.testing.assert_allclose(0.5 * (alone[:, 1:].min(0) + alone[:, 1:].max(0)), centre[1:], atol=2e-3)
    top = max(points[:, 2].max() for name, points in shown.items() if name.startswith("Robot/"))
    assert top < measured[:, 2].min() < measured[:, 2].max() < wanted[:, 2].max(), "above the robot, one over the other"


def test_curves_pass_through_their_points_and_are_removed(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    way = np.array([[0.0, 0.0, 0.1], [0.1, 0.0, 0.3], [0.2, 0.1, 0.1], [0.2, 0.1, 0.1]])  # the last piece has no length
    viewer.show(go2.q_home, curves={"FL": way})
    viewer.show(go2.q_home, curves={"FL": way[:2], "RR": np.zeros((0, 3))})
    take = read(viewer.record(tmp_path / "page.html"))
    both, one = take.world(0), take.world(1)
    for i in range(2):
        points = both[f"Curve/FL {i}"]
        for end in way[i : i + 2]:
            assert np.linalg.norm(points - end, axis=1).min() < 0.01
        direction = (way[i + 1] - way[i]) / np.linalg.norm(way[i + 1] - way[i])
        away = np.linalg.norm(np.cross(points - way[i], direction), axis=1)
        assert away.max() < 0.01
    assert {name for name in one if name.startswith("Curve")} == {"Curve/FL 0"}
    assert not any("RR" in slot for slot in take.slots if slot.startswith("Curve"))


def test_triads_follow_their_frames(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show_frames(["FL", "base"])
    q = sample(go2)
    viewer.show(q)
    viewer.show_frames(())
    viewer.show(q)
    take = read(viewer.record(tmp_path / "page.html"))
    data = go2.model.createData()
    pin.framesForwardKinematics(go2.model, data, q)
    placement = data.oMf[go2.frame_id("FL")]
    x = take.pose("Frames/FL", 0)
    np.testing.assert_allclose(x[:3], placement.translation, atol=1e-4)
    np.testing.assert_allclose(pin.Quaternion(x[6], *x[3:6]).toRotationMatrix(), placement.rotation, atol=1e-4)
    assert take.pose("Frames/base", 0)[7] > 0
    assert take.pose("Frames/FL", 1)[7] == 0
    assert [paint["glow"] for slot, paint in take.paints if slot == "Frames/FL"] == [True] * 3, "also in the shade"


def test_capsules_and_the_nearest_pair_are_drawn(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    model = CapsuleModel(go2, links=[f"{name}_foot" for name in go2.feet], reach=np.inf)
    viewer.show_capsules(model, nearest=1)
    viewer.show(q := sample(go2))
    viewer.show_capsules(None)
    viewer.show(q)
    take = read(viewer.record(tmp_path / "page.html"))
    for i, (capsule, ends) in enumerate(zip(model.capsules, model.world_segments(q), strict=True)):
        found = take.pose(f"Capsule/{capsule.link} {i}", 0)
        np.testing.assert_allclose(found[:3], ends.mean(axis=0), atol=1e-4)
        assert found[7] == 1.0 and take.pose(f"Capsule/{capsule.link} {i}", 1)[7] == 0.0
    distances, points = model.nearest(q)
    line = take.pose("Curve/pair 0 0", 0)
    np.testing.assert_allclose(line[:3], points[distances.argmin(), 0], atol=1e-4)
    assert line[9] == pytest.approx(distances.min(), abs=1e-4)


def test_trails_mark_the_shown_path(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show_trails(["FL", "com"], dots=20)
    way = []
    for k in range(30):
        q = np.array(go2.q_home)
        q[0] += 0.01 * k
        viewer.show(q)
        way.append(pin.centerOfMass(go2.model, go2.model.createData(), q))
    take = read(viewer.record(tmp_path / "page.html"))
    dots = [n for n in take.slots if n.startswith("Trail/com")]
    assert sum(n.startswith("Trail/FL") for n in take.slots) == len(dots) > 10
    steps = []
    for name in dots:
        x = take.pose(name)[:3]
        assert min(np.linalg.norm(x - p) for p in way) < 1e-4, "every dot is a place that was passed"
        steps.append(x[0])
    assert (np.diff(steps) > 0).all()
    viewer.show_trails(())
    viewer.show(go2.q_home)
    assert read(viewer.record(tmp_path / "page.html")).pose(dots[0])[7] == 0


# -- recordings ----------------------------------------------------------------------------------------------------
def test_frames_of_a_fast_loop_are_reduced_to_the_frame_rate(go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False, fps=30)
    for k in range(1001):
        viewer.show(go2.q_home, time=7 + k * 1e-3)
    take = read(viewer.record(tmp_path / "page.html"))
    assert len(take.times) in (30, 31)
    assert take.times[0] == 0
    np.testing.assert_allclose(np.diff(take.times), 1 / 30, atol=1.1e-3)


def test_frames_without_a_time_are_one_frame_apart(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    for _ in range(10):
        viewer.show(go2.q_home)
    take = read(viewer.record(tmp_path / "page.html"))
    np.testing.assert_allclose(take.times, np.arange(10) / 30, atol=1e-6)


def test_recording_time_continues_when_the_callers_clock_restarts(
    viewer: Viewer, go2: qd.Robot, tmp_path: Path
) -> None:
    for t in (0, 0.5, 1.0, 0, 0.5, 1.0):
        viewer.show(go2.q_home, time=t, caption=f"t = {t}")
    take = read(viewer.record(tmp_path / "page.html"))
    np.testing.assert_allclose(take.times, [0, 0.5, 1, 1 + 1 / 30, 1.5 + 1 / 30, 2 + 1 / 30], atol=1e-6)
    assert [text for _, text in take.texts] == ["t = 0", "t = 0.5", "t = 1.0"] * 2


def test_recording_contains_only_frames_shown_in_its_context(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    viewer.show(go2.q_home, caption="before")
    with viewer.recording(tmp_path / "page.html", title="<b>"):
        viewer.show(go2.q_home, caption="</script><script>alert(1)</script>")
    take = read(tmp_path / "page.html")
    assert [text for _, text in take.texts] == ["</script><script>alert(1)</script>"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" not in page
    assert "<title>&lt;b&gt;</title>" in page


def test_old_frames_are_discarded(go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False, max_frames=5)
    for k in range(9):
        viewer.show(go2.q_home, caption=str(k))
    assert [text for _, text in read(viewer.record(tmp_path / "page.html")).texts] == list("45678")


def test_recording_without_frames_raises_an_error(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    raises(QuaddynError, "nothing to record", viewer.record, tmp_path / "page.html")
    viewer.show(go2.q_home)
    viewer.clear_recording()
    raises(QuaddynError, "nothing to record", viewer.record, tmp_path / "page.html")


def test_ten_seconds_of_go2_with_meshes_fit_in_two_megabytes(go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False)
    for k in range(300):
        q = sample(go2, k)
        viewer.show(q, forces={name: [k, 1, 40] for name in go2.feet}, show_friction_cones=True)
    assert viewer.record(tmp_path / "page.html").stat().st_size < 2e6


def test_a_recorded_page_is_byte_for_byte_reproducible(go2: qd.Robot, tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        viewer = Viewer(go2, serve=False)
        viewer.show(go2.q_home, forces={"FL": [1, 2, 3]})
        pages.append(viewer.record(tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


# -- inputs --------------------------------------------------------------------------------------------------------
def test_invalid_input_is_named(viewer: Viewer, go2: qd.Robot) -> None:
    q = np.array(go2.q_home)
    not_unit = q.copy()
    not_unit[3:7] *= 1.1
    for kind, match, call in (
        (ArgumentError, "q: expected shape", lambda: viewer.show(q[:-1])),
        (ArgumentError, "q: expected finite", lambda: viewer.show(q * np.nan)),
        (ArgumentError, "q: a quaternion", lambda: viewer.show(not_unit)),
        (TypeError, "q: expected numbers", lambda: viewer.show("up")),
        (ArgumentError, "v: expected shape", lambda: viewer.show(q, v=q)),
        (ArgumentError, r"forces\['FL'\]", lambda: viewer.show(q, forces={"FL": [1, 2]})),
        (ArgumentError, r"forces\['FL'\]", lambda: viewer.show(q, forces={"FL": [1, 2, np.inf]})),
        (UnknownNameError, "FL", lambda: viewer.show(q, forces={"FLL": [0, 0, 1]})),
        (TypeError, "forces: expected a mapping", lambda: viewer.show(q, forces=[0, 0, 1])),
        (TypeError, "normals: expected a mapping", lambda: viewer.show(q, normals=[0, 0, 1])),
        (UnknownNameError, "FLL", lambda: viewer.show(q, normals={"FLL": [0, 0, 1]})),
        (
            ArgumentError,
            r"normals\['FL'\]: expected a vector of nonzero length",
            lambda: viewer.show(q, normals={"FL": [0, 0, 0]}),
        ),
        (TypeError, "footholds", lambda: viewer.show(q, footholds={"FL": [0, 0, 1]})),
        (TypeError, "footholds", lambda: viewer.show(q, footholds=["FL"])),
        (ArgumentError, "friction", lambda: viewer.show(q, show_friction_cones=True, friction=-1)),
        (UnknownNameError, "FLL", lambda: viewer.show(q, show_friction_cones=True, friction={"FLL": 1})),
        (ArgumentError, "friction", lambda: viewer.show(q, show_friction_cones=True, friction={"FL": 1})),
        (ArgumentError, "model", lambda: viewer.show_capsules(CapsuleModel(qd.load(URDF, root="fixed")))),
        (TypeError, "model", lambda: viewer.show_capsules("FL")),
        (UnknownNameError, "frame", lambda: viewer.show_frames(["nose"])),
        (TypeError, "names", lambda: viewer.show_frames("FL")),
        (UnknownNameError, "nose", lambda: viewer.show_trails(["nose"])),
        (ArgumentError, "dots", lambda: viewer.show_trails(["FL"], dots=0)),
        (ArgumentError, "time", lambda: viewer.show(q, time=np.nan)),
        (ArgumentError, "desired_velocity", lambda: viewer.show(q, desired_velocity=[0.1, 0.2])),
        (ArgumentError, r"curves\['FL'\]", lambda: viewer.show(q, curves={"FL": [0.0, 0.1, 0.2]})),
        (ArgumentError, r"curves\['FL'\]", lambda: viewer.show(q, curves={"FL": [[0.0, 0.1, np.nan]]})),
        (ArgumentError, "distance", lambda: viewer.set_camera(distance=0)),
        (ArgumentError, "elevation", lambda: viewer.set_camera(elevation=91)),
        (ArgumentError, "fps", lambda: Viewer(go2, serve=False, fps=0)),
        (QuaddynError, "serve=False", lambda: viewer.url),
    ):
        raises(kind, match, call)


def test_show_makes_few_calls_per_tick(go2: qd.Robot) -> None:
    """About 20 links, four forces and four cones: the number of calls is bounded, not the time."""
    with Viewer(go2) as viewer:
        forces = {name: np.array([1.0, 2.0, 40.0]) for name in go2.feet}
        viewer.show(go2.q_home, forces=forces, show_friction_cones=True, time=0.0)
        took = count_calls(lambda: viewer.show(go2.q_home, forces=forces, show_friction_cones=True, time=1e-3))
    print(f"{took} calls")
    assert took < 800


# -- the server ----------------------------------------------------------------------------------------------------
def listeners() -> list[tuple[str, int]]:
    """(address, port) of every TCP socket that this process listens on."""
    own = {link for fd in Path("/proc/self/fd").iterdir() if (link := _link(fd)).startswith("socket:")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                host, port = fields[1].split(":")
                address = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if table == "tcp" else host
                found.append((address, int(port, 16)))
    return found


def _link(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def connect_page(viewer: Viewer, **options: object) -> ClientConnection:
    """A web socket to the viewer without proxies."""
    sock = socket.create_connection(("127.0.0.1", port_of(viewer)))
    return connect(viewer.url.replace("http", "ws") + "socket", sock=sock, **options)


def port_of(viewer: Viewer) -> int:
    port = urllib.parse.urlsplit(viewer.url).port
    assert port is not None
    return port


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_pull_of_a_page_is_a_bounded_spring_force_at_the_clicked_point(
    go2: qd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = qd.Simulation(go2)
    body = [body.name for body in go2.bodies].index("FL_calf")
    point = np.array([0.01, 0.0, -0.1])
    with Viewer(go2, meshes=False, max_pull_force=30.0) as viewer, connect_page(viewer, max_size=None) as page:
        assert viewer.pull_forces(plant) == {}
        position = qd.Dynamics(go2).frame_placement(plant.q, "FL_calf").apply(point)

        def pulled(target: np.ndarray) -> np.ndarray:
            page.send(json.dumps({"pull": [body, *point.tolist(), *target.tolist()]}))
            assert wait_for(lambda: viewer.pull_forces(plant) != {})
            ((name, wrench),) = viewer.pull_forces(plant).items()
            assert name == "FL_calf"
            page.send(json.dumps({}))
            assert wait_for(lambda: viewer.pull_forces(plant) == {}), "released"
            return wrench

        small, large = (pulled(position + distance * np.eye(3)[1]) for distance in (0.02, 5.0))
        assert 0.0 < small[1] < 10.0 and large[1] == pytest.approx(30.0), "at most the largest force"
        origin = qd.Dynamics(go2).frame_placement(plant.q, "FL_calf").translation
        np.testing.assert_allclose(large[3:], np.cross(position - origin, large[:3]), atol=1e-9)
        for junk in ([body, 1, 2], [99, *[0.0] * 6], [-1, *[0.0] * 6], [0.5, *[0.0] * 6], [body, *[1e300] * 6], "x"):
            page.send(json.dumps({"keys": ["KeyW"], "pull": junk}))
            assert wait_for(lambda: viewer.pressed_keys == {"KeyW"}) and viewer.pull_forces(plant) == {}, junk
            page.send(json.dumps({}))
            assert wait_for(lambda: not viewer.pressed_keys)
        with pytest.raises(ArgumentError, match="plant"), Viewer(qd.load("a1"), meshes=False) as other:
            other.pull_forces(plant)
        with connect_without_token(viewer) as watcher:
            watcher.send(json.dumps({"pull": [0, 0, 0, 0, 1, 1, 1]}))
            watcher.ping().wait(10)
            assert viewer.pull_forces(plant) == {}, "not without the token"
        monkeypatch.setattr(server_module, "INPUT_TIMEOUT", 0.0)
        page.send(json.dumps({"pull": [0, 0, 0, 0, 1, 1, 1]}))
        page.ping().wait(10)
        assert viewer.pull_forces(plant) == {}, "a silent page does not pull"


def test_pull_is_damped_with_the_velocity_of_the_pulled_point(go2: qd.Robot) -> None:
    """The spring is not extended; the trunk moves and rotates."""
    rng, point, spring = np.random.default_rng(0), np.array([0.2, -0.1, 0.05]), Spring(go2, [1], 1.0, 1e6)
    q, v = np.array(go2.q_home), rng.normal(size=go2.nv)
    state = qd.Dynamics(go2).update(q, v)
    base, velocity = state.placement(go2.bodies[0].name), state.velocity(go2.bodies[0].name)
    arm = base.rotation @ point
    x, y, z = (base.translation + arm).tolist()
    (wrench,) = spring.compute_wrench(Pull(0, (0.2, -0.1, 0.05), (x, y, z)), q, v).values()
    force = wrench[:3]
    np.testing.assert_allclose(force, -spring._damping * (velocity[:3] + np.cross(velocity[3:], arm)), atol=1e-8)


def test_other_machines_need_a_token_even_to_watch(go2: qd.Robot) -> None:
    before = set(listeners())
    with Viewer(go2, meshes=False, host="0.0.0.0") as viewer:
        port = port_of(viewer)
        assert set(listeners()) - before == {("0.0.0.0", port)}
        assert "0.0.0.0" not in viewer.url and viewer.url != viewer.view_url
        paths = [urllib.parse.urlsplit(url).path for url in (viewer.url, viewer.view_url)]
        for path, status in ((paths[0], 200), (paths[1], 200), ("/", 404), ("/meshcat.js", 404), ("/guessed/", 404)):
            assert get(f"http://127.0.0.1:{port}{path}", Host="robot.lan")[0] == status, path
        sock = socket.create_connection(("127.0.0.1", port))
        with connect(f"ws://127.0.0.1:{port}{paths[1]}socket", sock=sock, max_size=None) as watcher:
            assert unpack(watcher.recv(timeout=10))[0]["kind"] == "scene"
            watcher.send(json.dumps({"keys": ["KeyW"]}))
            watcher.ping().wait(10)
            assert not viewer.pressed_keys
    raises(ServerError, "host", Viewer, go2, meshes=False, host="no.such.host.invalid")
    raises(ArgumentError, "host", Viewer, go2, meshes=False, host="")


def test_server_listens_only_on_the_loopback_interface(go2: qd.Robot) -> None:
    before = set(listeners())
    with Viewer(go2, meshes=False) as one, Viewer(go2, meshes=False) as two:
        new = set(listeners()) - before
        ports = {port_of(v) for v in (one, two)}
        assert new == {("127.0.0.1", port) for port in ports}
        assert len(ports) == 2, "two viewers at once have their own ports"
    assert set(listeners()) == before


def test_page_is_served_only_locally_and_may_load_nothing_else(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer:
        status, page = get(viewer.url)
        assert status == 200
        assert "default-src 'none'" in page
        assert get(viewer.url, Host="evil.example")[0] == 404, "DNS rebinding"
        assert get(viewer.url + "../../etc/passwd")[0] == 404
        with pytest.raises(websockets.exceptions.InvalidStatus, match="403"):
            connect_page(viewer, origin="http://evil.example").close()


def test_page_that_connects_late_receives_the_scene_and_the_newest_frame(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer:
        for k in range(300):
            viewer.show(go2.q_home, forces={"FL": [0, 0, k]}, caption=str(k))
        assert not viewer.wait(0.0)
        with connect_page(viewer, max_size=None) as page:
            assert viewer.wait(10)
            assert viewer.clients == 1
            kinds, slots = [], []
            while "frame" not in kinds:
                header, _ = unpack(page.recv(timeout=10))
                kinds.append(header["kind"])
                slots += header.get("slots", [])
            assert header["text"] == "299"
            assert {"scene", "camera"} <= set(kinds)
            assert ["Force", "FL"] in [s["path"] for s in slots]


def test_pressed_keys_are_those_of_all_pages_and_other_messages_are_ignored(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as first:
        assert viewer.pressed_keys == frozenset()
        first.send(json.dumps(["KeyW", "ShiftLeft", "F12", 7, None, ["KeyA"], "x" * 100]))
        assert wait_for(lambda: viewer.pressed_keys == {"KeyW", "ShiftLeft"})
        with connect_page(viewer, max_size=None) as second:
            second.send(json.dumps({"keys": ["ArrowLeft"], "axes": [-0.6, 0.1, 0.0]}).encode())
            assert wait_for(lambda: viewer.pressed_keys == {"KeyW", "ShiftLeft", "ArrowLeft"})
            assert viewer.gamepad_axes == (-0.6, 0.1, 0.0)  # the largest deflections
        assert wait_for(lambda: viewer.pressed_keys == {"KeyW", "ShiftLeft"}), "a closed page holds no key"
        assert viewer.clients == 1 and viewer.wait(0.0), "the other page is still connected"
        for junk in ("", "{", '{"KeyW": 1}', '"KeyW"', "[" * 1000, b"\xff\xfe", "null"):
            first.send(json.dumps(["KeyS"]))
            assert wait_for(lambda: viewer.pressed_keys == {"KeyS"})
            first.send(junk)
            assert wait_for(lambda: viewer.pressed_keys == set()), junk
        first.send(json.dumps(["KeyW"]))
        assert wait_for(lambda: viewer.pressed_keys == {"KeyW"})
        first.send(" " * 100_000)  # too long: the connection is closed, and its keys are released
        assert wait_for(lambda: viewer.pressed_keys == set())
    assert Viewer(go2, meshes=False, serve=False).pressed_keys == frozenset()


def test_slow_page_skips_frames_but_receives_the_last_one(go2: qd.Robot) -> None:
    with Viewer(go2) as viewer, connect_page(viewer, max_size=None) as page:
        assert viewer.wait(10)
        start = time.monotonic()
        for k in range(3000):
            viewer.show(go2.q_home, caption=str(k))
        assert time.monotonic() - start < 10, "show never waits for a page"
        texts = []
        while not texts or texts[-1] != "2999":
            header, _ = unpack(page.recv(timeout=10))
            if header["kind"] == "frame" and header["text"]:
                texts.append(header["text"])
        assert [int(t) for t in texts] == sorted({int(t) for t in texts})


def connect_page_that_never_reads(viewer: Viewer) -> socket.socket:
    """A page that never reads after its handshake, with a small receive buffer."""
    page = socket.socket()
    page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    page.connect(("127.0.0.1", port_of(viewer)))
    key = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    path = urllib.parse.urlsplit(viewer.url).path
    page.sendall(f"GET {path}socket HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}Sec-WebSocket-Version: 13\r\n\r\n".encode())
    return page


def buffered_bytes(viewer: Viewer) -> int:
    """Bytes that the server buffers for its pages."""
    return sum(client.stream._write_buffer._size for client in tuple(viewer._server._clients))


def test_pages_that_never_read_have_one_buffered_packet_each_and_are_closed(
    go2: qd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any traffic of the viewer; pages that read receive everything."""
    # The first pages stay connected during the whole test, also on a slow machine.
    monkeypatch.setattr(server_module, "WRITE_TIMEOUT", 600.0)
    with Viewer(go2, meshes=False) as viewer, contextlib.ExitStack() as stack:
        several = [stack.enter_context(connect_page_that_never_reads(viewer)) for _ in range(8)]
        assert wait_for(lambda: viewer.clients == len(several))
        packet = Blob().make_packet({"kind": "note", "text": "x" * 100_000})
        server = viewer._server
        for k in range(100):
            (server.send_packet if k % 2 else lambda packet: server.send_state("note", packet))(packet + bytes(k % 7))
        with connect_page(viewer, max_size=None) as page:
            got = 0
            while got < 50:  # what every page needs
                got += len(page.recv(timeout=60)) > 100_000
        # A hundred packets each would be fifty times as much; the system's buffers may take some of one packet.
        assert buffered_bytes(viewer) < 2 * len(several) * len(packet)
        assert wait_for(lambda: viewer.clients == len(several)), "the page that read has left, the others have not"
        # The next pages have a short timeout.  The first ones leave before: the system may still take packets for them,
        # and each packet has the timeout of its time.
        for first in several:
            first.close()
        assert wait_for(lambda: viewer.clients == 0)
        monkeypatch.setattr(server_module, "WRITE_TIMEOUT", 0.05)
        for _ in range(4):
            assert stack.enter_context(connect_page_that_never_reads(viewer)).recv(12) == b"HTTP/1.1 101"
        assert wait_for(lambda: viewer.clients == 0)


@pytest.mark.parametrize("said", ["", "GET / HT", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", "GET"])
def test_incomplete_request_is_closed_after_a_timeout(
    said: str, go2: qd.Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT", 0.2)
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as page:
        with socket.create_connection(("127.0.0.1", port_of(viewer)), timeout=30.0) as half:
            half.sendall(said.encode())
            began = time.monotonic()
            assert half.recv(1000) == b"" and time.monotonic() - began < 20.0
        time.sleep(0.3)
        assert viewer.clients == 1
        page.recv(timeout=10)  # pages stay connected


def test_unread_response_is_closed_after_a_timeout(go2: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT", 0.2)
    with Viewer(go2, meshes=False) as viewer, socket.socket() as half:
        half.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        half.connect(("127.0.0.1", port_of(viewer)))
        half.sendall(b"GET /meshcat.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3)
        assert wait_for(lambda: not viewer._server.connections)


def test_number_of_connections_is_bounded(go2: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 5)
    with Viewer(go2, meshes=False) as viewer, contextlib.ExitStack() as stack:
        address = "127.0.0.1", port_of(viewer)
        several = [stack.enter_context(socket.create_connection(address, timeout=30.0)) for _ in range(5)]
        assert wait_for(lambda: viewer._server.connections == 5)
        with socket.create_connection(address, timeout=30.0) as one_more, contextlib.suppress(ConnectionError):
            assert one_more.recv(1) == b""
        for each in several:
            each.close()
        assert wait_for(lambda: not viewer._server.connections)
        with connect_page(viewer, max_size=None):
            assert viewer.wait(10)


def test_port_in_use_raises_one_clear_error(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer:
        port = port_of(viewer)
        raises(ServerError, str(port), Viewer, go2, meshes=False, port=port)


def test_closing_or_dropping_a_viewer_frees_its_port(go2: qd.Robot) -> None:
    viewer = Viewer(go2, meshes=False)
    port = port_of(viewer)
    assert is_open(port)
    viewer.close()
    viewer.close()
    assert not is_open(port)
    with pytest.raises(QuaddynError, match="closed"):
        _ = viewer.url
    viewer.show(go2.q_home)  # a closed viewer still records

    viewer = Viewer(go2, meshes=False)
    port = port_of(viewer)
    del viewer
    gc.collect()
    assert not is_open(port)


SCRIPT = """
import sys, time
import quaddyn as qd
from quaddyn.viewer import Viewer
viewer = Viewer(qd.load("go2"), meshes=False)
print(viewer.url.split(":")[-1].split("/")[0], flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param("pass", 0, id="end", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", 3, id="exit", marks=pytest.mark.slow),
        pytest.param("1 / 0", 1, id="error"),
        pytest.param("time.sleep(600)", -signal.SIGKILL, id="kill"),
    ],
)
def test_server_stops_however_its_process_ends(end: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(end=end)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        if code < 0:
            assert is_open(port)
            process.kill()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert not is_open(port)
    assert ("Traceback" in errors) == (end == "1 / 0"), "a silent shutdown"


# -- who may do what -----------------------------------------------------------------------------------------------
def connect_without_token(viewer: Viewer) -> ClientConnection:
    """A page that has the address without the token."""
    port = port_of(viewer)
    sock = socket.create_connection(("127.0.0.1", port))
    return connect(f"ws://127.0.0.1:{port}/socket", sock=sock, max_size=None)


def test_page_without_the_token_is_read_only(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, Viewer(go2, meshes=False) as other:
        viewer.add_slider("gain", 0.0, 2.0, 1.0)
        assert urllib.parse.urlsplit(viewer.url).path != urllib.parse.urlsplit(other.url).path
        assert get(f"http://127.0.0.1:{port_of(viewer)}/")[0] == 200
        assert get(f"http://127.0.0.1:{port_of(viewer)}/guessed/")[0] == 404
        with connect_without_token(viewer) as watcher, connect_page(viewer, max_size=None) as driver:
            assert unpack(watcher.recv(timeout=10))[0]["kind"] == "scene"
            for said in ({"keys": ["KeyW"], "paused": True, "axes": [1, 1, 1]}, {"slide": ["gain", 2.0]}):
                watcher.send(json.dumps(said))
            watcher.ping().wait(10)
            driver.send(json.dumps({"keys": ["KeyS"]}))
            assert wait_for(lambda: viewer.pressed_keys == {"KeyS"})
            assert not viewer.is_paused and viewer.gamepad_axes == (0.0, 0.0, 0.0) and viewer.sliders == {"gain": 1.0}


def test_other_sites_can_neither_frame_the_page_nor_learn_its_address(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for path in ("", "meshcat.js"):
            with opener.open(viewer.url + path, timeout=10) as answer:
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_request_bodies_are_rejected_without_reading_them(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer:
        for head in ("Content-Length: 90000000", "Transfer-Encoding: chunked"):
            with socket.create_connection(("127.0.0.1", port_of(viewer))) as sock:
                sock.settimeout(10)
                sock.sendall(f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode())
                sent = 0
                with contextlib.suppress(OSError):  # the connection is closed
                    while sent < 20_000_000:
                        piece = b"x" * 65536
                        sock.sendall((b"10000\r\n" + piece + b"\r\n") if "chunked" in head else piece)
                        sent += len(piece)
                assert sent < 20_000_000, head
        assert get(viewer.url)[0] == 200, "and the page is still served"


def test_keys_and_axes_of_a_silent_page_are_released(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as page:
        page.send(json.dumps({"keys": ["KeyW"], "axes": [0.5, 0, -7]}))
        assert wait_for(lambda: viewer.pressed_keys == {"KeyW"})
        assert viewer.gamepad_axes == (0.5, 0.0, -1.0)
        assert wait_for(lambda: not viewer.pressed_keys and viewer.gamepad_axes == (0.0, 0.0, 0.0)), (
            "though it is still connected"
        )
        assert viewer.clients == 1
        for junk in ("text", [1, 2], [1, 2, "3"], [float("inf"), 0, 0], {"x": 1}):
            page.send(json.dumps({"axes": junk, "keys": ["KeyS"]}))
            assert wait_for(lambda: viewer.pressed_keys == {"KeyS"}) and viewer.gamepad_axes == (0.0, 0.0, 0.0)
            page.send(json.dumps({}))
            assert wait_for(lambda: viewer.pressed_keys == set())


def test_paused_page_blocks_the_loop_and_can_step_it(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as page:
        assert viewer.wait_while_paused() < 1.0, "nobody has paused"
        page.send(json.dumps({"paused": True}))
        assert wait_for(lambda: viewer.is_paused)
        for step in range(3):
            page.send(json.dumps({"paused": True, "step": 1}))
            viewer.wait_while_paused()
            assert viewer.is_paused, step
        held = threading.Thread(target=viewer.wait_while_paused)
        held.start()
        held.join(0.1)
        assert held.is_alive(), "no step is left"
        page.send(json.dumps({"paused": False}))
        held.join(10)
        assert not held.is_alive()
        page.send(json.dumps({"paused": True}))
        assert wait_for(lambda: viewer.is_paused)
        page.close()
        assert wait_for(lambda: not viewer.is_paused), "a closed page does not pause the viewer"


def test_sliders_stay_within_their_limits_and_are_sent_to_later_pages(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as page:
        viewer.add_slider("gain", 0.0, 2.0, 1.0, unit="x", group="gains")
        viewer.add_slider("__proto__", -1.0, 1.0, 0.0)
        page.send(json.dumps({"slide": ["gain", 1.5]}))
        assert wait_for(lambda: viewer.sliders == {"gain": 1.5, "__proto__": 0.0})
        for junk in (
            ["gain", "1"],
            ["gain", True],
            ["gain", float("nan")],
            ["other", 1.0],
            [["gain"], 1.0],
            ["gain"],
            5,
        ):
            page.send(json.dumps({"slide": junk}))
        for beyond, limit in ((-99, 0.0), (99, 2.0)):
            page.send(json.dumps({"slide": ["gain", beyond]}))
            assert wait_for(lambda limit=limit: viewer.sliders["gain"] == limit)
        with connect_page(viewer, max_size=None) as late:
            while (header := unpack(late.recv(timeout=10))[0])["kind"] != "sliders":
                pass
            first = header["sliders"][0]
            assert (first["name"], first["value"], first["group"]) == ("gain", 2.0, "gains")
            page.send(json.dumps({"slide": ["gain", 0.25]}))  # of another page
            while (header := unpack(late.recv(timeout=10))[0])["kind"] != "sliders":
                pass
            assert header["sliders"][0]["value"] == 0.25
        for low, high, value in ((1.0, 0.0, 0.5), (0.0, 1.0, 2.0), (0.0, np.inf, 1.0)):
            raises(ArgumentError, "slider", viewer.add_slider, "x", low, high, value)
        viewer.add_slider("gain", 0.0, 1.0, 0.5)
        assert viewer.sliders == {"gain": 0.5, "__proto__": 0.0}, "another one in its place"
    alone = Viewer(go2, serve=False, meshes=False)
    alone.add_slider("gain", 0.0, 1.0, 0.5)
    assert alone.sliders == {"gain": 0.5}, "nobody moves it"


def test_joint_sliders_move_the_robot(go2: qd.Robot) -> None:
    with Viewer(go2, meshes=False) as viewer, connect_page(viewer, max_size=None) as page:
        sliders = JointSliders(viewer)
        np.testing.assert_array_equal(sliders.update(), go2.q_home)
        assert sliders.update() is None
        assert set(viewer.sliders) == set(go2.joint_names)
        page.send(json.dumps({"slide": ["FL_calf_joint", -2.0]}))
        assert wait_for(lambda: viewer.sliders["FL_calf_joint"] == -2.0)
        q = sliders.update()
        assert q is not None
        changed = np.flatnonzero(q != go2.q_home)
        assert changed.tolist() == [go2.configuration_index("FL_calf_joint")] and q[changed[0]] == -2.0


# -- terrain, ghosts, plots ----------------------------------------------------------------------------------------
def test_drawn_terrain_equals_the_terrain_of_the_plants(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    turn = pin.rpy.rpyToMatrix(0.1, 0.2, 0.3)
    box = Box(np.array([0.5, 0.1, 0.2]), np.array([0.4, 0.6, 0.1]), rotation=turn)
    field = HeightField.from_function(lambda x, y: 0.1 * np.sin(3 * x) * y, (-2.0, -1.0), (0.0, 0.5), spacing=0.1)
    fine = HeightField.from_function(lambda x, y: 0.0 * x, (3.0, 7.0), (0.0, 1.0), spacing=0.01)
    slope = Plane.slope(0.2)
    sim = qd.Simulation(
        go2, terrain=(Plane.floor(-0.01), box, *stairs(2, rise=0.1, tread=0.3, distance=1.0), field, slope, fine)
    )
    viewer.show_plant(sim)
    take = read(viewer.record(tmp_path / "page.html"))
    world = take.world()
    found = [world[f"Terrain/{i}"] for i in range(6)]
    corners = (
        box.center + np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * box.size / 2 @ turn.T
    )
    for corner in corners:
        assert np.linalg.norm(found[0] - corner, axis=1).min() < 1e-4
    assert np.ptp(found[2][:, 0]) == pytest.approx(0.3, abs=1e-4)
    assert found[2][:, 2].max() == pytest.approx(0.2, abs=1e-4), "the second stair"
    for x, y, z in found[3]:
        assert z == pytest.approx(0.1 * np.sin(3 * x) * y, abs=1e-4)
    np.testing.assert_allclose(found[4] @ slope.normal, 0.0, atol=1e-3)
    assert len(found[5]) < 201 * 102 and np.ptp(found[5][:, 0]) == pytest.approx(4.0, abs=1e-3), "thinned, all of it"
    assert take.floor == pytest.approx(-0.01)
    for slot, paint in take.paints:
        assert min(paint["color"]) >= 0.0 and max(paint["color"]) <= 1.0, slot
    viewer.show_terrain(())
    viewer.show(go2.q_home)
    take = read(viewer.record(tmp_path / "page.html"))
    assert take.floor is None and not any(name.startswith("Terrain") for name in take.world())
    raises(ArgumentError, "plant", viewer.show_plant, qd.Simulation(qd.load("a1")))


def test_ghost_is_drawn_at_the_reference_configuration(go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False)
    q = sample(go2)
    viewer.show(go2.q_home)
    viewer.show(go2.q_home, reference_q=q)
    viewer.show(q)
    take = read(viewer.record(tmp_path / "page.html"))
    ghost, real = take.world(1), take.world(2)
    for body in go2.bodies:
        np.testing.assert_allclose(ghost[f"Ghost/{body.name}"], real[f"Robot/{body.name}"], atol=2e-4)
    assert not any(name.startswith("Ghost") for frame in (0, 2) for name in take.world(frame))
    raises(ArgumentError, "reference_q", viewer.show, q, reference_q=q[:-1])


def test_further_robots_and_ghosts_are_drawn_at_their_configurations(go2: qd.Robot, tmp_path: Path) -> None:
    viewer, arm, q = Viewer(go2, serve=False), qd.load("planar_3r"), sample(go2)
    viewer.add_robot("arm; 1", arm)
    viewer.add_robot("plan", go2, color=(1.0, 0.0, 0.0), opacity=0.5)
    viewer.show(q)
    viewer.show(go2.q_home, robots={"arm; 1": arm.q_home, "plan": q})
    take = read(viewer.record(tmp_path / "page.html"))
    drawn, real = take.world(1), take.world(0)
    for body in go2.bodies:
        np.testing.assert_allclose(drawn[f"robot plan/{body.name}"], real[f"Robot/{body.name}"], atol=2e-4)
    assert {f"robot arm; 1/{body.name}" for body in arm.bodies} <= set(drawn)
    assert not any(name.startswith("robot ") for name in real), "only where they have a configuration"
    assert {tuple(m["color"]) for slot, m in take.paints if slot.startswith("robot plan")} == {(1.0, 0.0, 0.0, 0.5)}
    assert {d["robot"] for d in take.bodies} == {go2.name, arm.name}
    for kind, match, call in (
        (UnknownNameError, "plam", lambda: viewer.show(q, robots={"plam": q})),
        (UnknownNameError, "reference", lambda: viewer.show(q, robots={"reference": q})),
        (TypeError, "robots", lambda: viewer.show(q, robots=[q])),
        (ArgumentError, r"robots\['plan'\]", lambda: viewer.show(q, robots={"plan": q[:-1]})),
        (ArgumentError, "name", lambda: viewer.add_robot("plan", go2)),
        (ArgumentError, "name", lambda: viewer.add_robot("reference", go2)),
        (ArgumentError, "opacity", lambda: viewer.add_robot("b", go2, opacity=0.0)),
        (ArgumentError, "color", lambda: viewer.add_robot("b", go2, color=(2.0, 0.0, 0.0))),
        (TypeError, "robot", lambda: viewer.add_robot("b", "go2")),
    ):
        raises(kind, match, call)


def test_limits_and_deficits_of_a_command_belong_to_bodies(go2: qd.Robot, tmp_path: Path) -> None:
    wbc, dynamics = qd.WholeBodyController(go2, dt=1e-3), qd.Dynamics(go2)
    state = dynamics.update(go2.q_home, np.zeros(go2.nv))
    easy = wbc.compute(state)
    wbc.tasks["com"].reference([0.3, 0.0, 0.5], np.zeros(3), [0.0, 0.0, 30.0])  # more than the motors can do
    hard = wbc.compute(state)
    viewer = Viewer(go2, serve=False, meshes=False)
    viewer.show(go2.q_home)
    viewer.show(go2.q_home, command=easy)
    viewer.show(go2.q_home, command=hard)
    reports = read(viewer.record(tmp_path / "page.html")).reports
    assert reports[:2] == [[0, None], [1, []]], "no command, then a command without deficits"
    names = [body.name for body in go2.bodies]
    texts = {names[index]: text for index, text in reports[2][1]}
    active = [name for name in hard.levels[0].active if name.endswith("torque limit")]
    assert active
    for name in active:
        assert f"{name}: active" in texts[name.removesuffix("_joint torque limit")]
    assert "com z: " in texts["base"] and "m/s^2 short of its target (level 1)" in texts["base"]
    raises(TypeError, "command", viewer.show, go2.q_home, command=hard.tau)


def test_joints_of_arms_are_plotted_and_void_limits_do_not_scale_torques(tmp_path: Path) -> None:
    for name in ("ur5", "solo12"):
        robot = qd.load(name)
        viewer = Viewer(robot, serve=False, meshes=False)
        q, v, tau = sample(robot), np.linspace(-1.0, 1.0, robot.nv), np.linspace(0.1, 1.0, robot.nu)
        viewer.show(q, v=v, tau=tau)
        take = read(viewer.record(tmp_path / "page.html"))
        for i, joint in enumerate(robot.actuated):
            position, velocity = (
                take.signal(f"joint {kind}", joint)[0] for kind in ("position [rad]", "velocity [rad/s]")
            )
            assert position == pytest.approx(q[robot.configuration_index(joint)], abs=1e-4)
            assert velocity == pytest.approx(v[robot.velocity_index(joint)], abs=1e-4)
            if name == "ur5":
                assert take.signal("torque / limit [%]", joint)[0] == pytest.approx(
                    100.0 * tau[i] / robot.effort_limits[i], rel=1e-3
                )
            else:
                assert take.signal("torque [N m]", joint)[0] == pytest.approx(tau[i], rel=1e-3)


def test_plots_contain_the_given_signals(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    yaw, v = np.array(go2.q_home), np.zeros(go2.nv)
    yaw[3:7] = [0, 0, np.sin(0.4), np.cos(0.4)]
    v[:2] = [0.3, 0.1]  # in the base's axes
    wanted = pin.rpy.rpyToMatrix(0, 0, 0.8) @ [0.5, -0.2, 0.0]
    tau = 0.25 * go2.effort_limits
    viewer.show(go2.q_home, time=0.0)
    viewer.show(
        yaw, v=v, tau=tau, desired_velocity=wanted, forces={"FL": [3, 0, 4]}, signals={"mine [V]": {"a": 7.0}}, time=0.1
    )
    viewer.show(yaw, signals={"height [m]": {"center of mass": 9.0}}, time=0.2)
    take = read(viewer.record(tmp_path / "page.html"))
    np.testing.assert_allclose(take.signal("speed [m/s]", "forward"), [np.nan, 0.3, np.nan], atol=1e-5)
    np.testing.assert_allclose(take.signal("speed [m/s]", "left")[1], 0.1, atol=1e-5)
    np.testing.assert_allclose(take.signal("speed [m/s]", "forward, desired")[1], 0.5, atol=1e-5)
    np.testing.assert_allclose(take.signal("speed [m/s]", "left, desired")[1], -0.2, atol=1e-5)
    np.testing.assert_allclose(take.signal("torque / limit [%]", "FL_calf_joint")[1], 25.0, atol=1e-4)
    np.testing.assert_allclose(take.signal("force [N]", "FL"), [0.0, 5.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(take.signal("mine [V]", "a"), [np.nan, 7.0, np.nan])
    height = take.signal("height [m]", "center of mass")
    assert height[0] == pytest.approx(pin.centerOfMass(go2.model, go2.model.createData(), go2.q_home)[2], abs=1e-5)
    assert height[2] == 9.0, "the caller's own"
    for bad, kind in (([1], TypeError), ({"a": 1.0}, TypeError), ({"a": {"b": "c"}}, TypeError)):
        raises(kind, "signals", viewer.show, yaw, signals=bad)
    raises(ArgumentError, "256", viewer.show, yaw, signals={"many": {str(i): 0.0 for i in range(300)}})


def test_body_contacts_are_drawn_and_counted(viewer: Viewer, go2: qd.Robot, tmp_path: Path) -> None:
    sim = qd.Simulation(go2, dt=2e-3)
    q = np.array(go2.q_home)
    q[3:7] = pin.Quaternion(pin.rpy.rpyToMatrix(1.6, 0.0, 0.0)).coeffs()
    sim.reset(q)
    for _ in range(300):
        sim.step(-0.3 * sim.v[6:])
        viewer.show_plant(sim)
    viewer.clear_recording()  # a recording omits frames above its frame rate
    viewer.show_plant(sim)
    take = read(viewer.record(tmp_path / "page.html"))
    total = np.linalg.norm(sum(sim.body_forces.values()))
    assert take.signal("force [N]", "body")[-1] == pytest.approx(total, rel=1e-3)
    for foot, force in sim.contact_forces.items():
        shown = any(name.startswith(f"Force/{foot} ") for name in take.world())
        assert shown == bool(force.any()), "no force where none is"
    assert sum("body" in name for name in take.slots) < 120, "marks are shared"


def test_notebooks_show_robots_viewers_and_recordings(go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    viewer.show(go2.q_home, caption="<b>&")
    page = viewer.record(tmp_path / "page.html")
    assert isinstance(page, Path) and page == tmp_path / "page.html"
    for shown in (viewer, page, qd.load("planar_3r")):
        frame = shown._repr_html_()
        assert frame is not None
        source = re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe>', frame)
        assert source is not None and html.unescape(source[1]).startswith("<!DOCTYPE html>")
    assert html.unescape(viewer._repr_html_()).count(page.read_text(encoding="utf-8")) == 1


def test_joint_sliders_span_the_limits_or_half_a_turn_each_way() -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'

    def of(limit: str, kind: str = "revolute", home: float = 0.25) -> tuple[float, float, float]:
        robot = qd.load(
            f'<robot name="r"><link name="a">{inertial}</link><link name="b">{inertial}</link><joint name="j" '
            f'type="{kind}"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>{limit}</joint></robot>',
            root="fixed",
            q_home=np.array([home]) if kind == "revolute" else None,
        )
        return _slider_range(robot, robot.tree.joints_by_name["j"])

    both = '<limit lower="{}" upper="{}" effort="1" velocity="1"/>'
    assert of(both.format(-1, 2)) == (-1.0, 2.0, 0.25)
    assert of(both.format(-1e9, 1e9)) == pytest.approx((0.25 - math.pi, 0.25 + math.pi, 0.25))
    assert of(both.format(-1, 1e9)) == pytest.approx((-1.0, 0.25 + math.pi, 0.25))
    assert of(both.format(0.25, 0.25)) == pytest.approx((0.249, 0.251, 0.25))
    assert of("", "continuous") == pytest.approx((-math.pi, math.pi, 0.0))


# -- mesh files and solids give the correct triangles, or a mesherror -------------------------------------------------
# The unit cube with outward faces, which all file formats can represent.
VERTICES = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]


def volume(*parts: Part) -> float:
    """Signed volume of closed parts: positive when every triangle is counter-clockwise seen from outside."""
    return sum(
        float(np.einsum("ij,ij->", a, np.cross(b, c))) / 6
        for a, b, c in (np.moveaxis(p.positions[p.triangles], 1, 0) for p in parts)
    )


def extent(*parts: Part) -> np.ndarray:
    points = np.concatenate([p.positions[p.triangles].reshape(-1, 3) for p in parts])
    return np.stack([points.min(axis=0), points.max(axis=0)])


def triangles() -> np.ndarray:
    return VERTICES[np.array(QUADS)[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)]


def binary_stl() -> bytes:
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *t.reshape(-1), 0) for t in triangles())
    return b"solid misleading".ljust(80) + struct.pack("<I", 12) + facets


def ascii_stl() -> bytes:
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x:e} {y} {z}\n" for x, y, z in t) + "endloop\nendfacet\n"
        for t in triangles()
    )
    return f"solid cube\n{facets}endsolid\n".encode()


def obj(negative: bool = False) -> bytes:
    index = (lambda i: i - 8) if negative else (lambda i: i + 1)
    lines = ["mtllib cube.mtl", *(f"v {x} {y} {z}" for x, y, z in VERTICES), "vt 0 0", "usemtl red"]
    lines += ["f " + " ".join(f"{index(i)}/1/" if not negative else str(index(i)) for i in quad) for quad in QUADS]
    return "\n".join(lines).encode()


def dae(
    node: str = "", unit: str = '<unit meter="1"/>', polygons: str = "polylist", diffuse: str = "<color>1 0 0 1</color>"
) -> bytes:
    corners = " ".join(str(i) for quad in QUADS for i in quad)
    body = {
        "polylist": f"<vcount>{'4 ' * 6}</vcount><p>{corners}</p>",
        "polygons": "".join(f"<p>{' '.join(map(str, quad))}</p>" for quad in QUADS),
        "triangles": "<p>" + " ".join(f"{a} {b} {c} {a} {c} {d}" for a, b, c, d in QUADS) + "</p>",
    }[polygons]
    floats = " ".join(f"{x:g}" for x in VERTICES.reshape(-1))
    return f"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
    <asset>{unit}<up_axis>Y_UP</up_axis></asset>
    <library_images><image id="picture"><init_from>skin.png</init_from></image></library_images>
    <library_effects><effect id="e"><profile_COMMON><technique sid="c"><lambert><diffuse>{diffuse}</diffuse></lambert>
      </technique></profile_COMMON></effect></library_effects>
    <library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
    <library_geometries><geometry id="g"><mesh>
      <source id="s"><float_array id="a" count="24">{floats}</float_array>
        <technique_common><accessor source="#a" count="8" stride="3"/></technique_common></source>
      <vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
      <{polygons} material="paint" count="6"><input semantic="VERTEX" source="#v" offset="0"/>{body}</{polygons}>
    </mesh></geometry></library_geometries>
    <library_visual_scenes><visual_scene id="scene"><node>{node}<node><instance_geometry url="#g"><bind_material>
      <technique_common><instance_material symbol="paint" target="#m"/></technique_common></bind_material>
      </instance_geometry></node></node></visual_scene></library_visual_scenes>
    <scene><instance_visual_scene url="#scene"/></scene></COLLADA>""".encode()


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


FILES = {
    "binary.stl": binary_stl(),
    "ascii.STL": ascii_stl(),
    "plain.obj": obj(),
    "negative.obj": obj(negative=True),
    "polylist.dae": dae(),
    "polygons.dae": dae(polygons="polygons"),
    "triangles.dae": dae(polygons="triangles"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_reads_the_same_cube(name: str, tmp_path: Path) -> None:
    parts = read_mesh(write(tmp_path, name, FILES[name]))
    assert volume(*parts) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(extent(*parts), [[0, 0, 0], [1, 1, 1]], atol=2e-5)
    assert sum(len(p.grid) for p in parts) == 8, "equal vertices are welded"


def test_collada_applies_units_and_nodes_but_not_the_up_axis(tmp_path: Path) -> None:
    node = "<translate>100 0 0</translate><rotate>0 0 1 90</rotate><scale>2 1 -1</scale>"
    parts = read_mesh(write(tmp_path, "x.dae", dae(node, '<unit meter="0.01"/>')))
    # 2 x 1 x 1 cm, turned about z, mirrored in z, one meter away; y up would have swapped y and z
    np.testing.assert_allclose(extent(*parts), [[0.99, 0, -0.01], [1.0, 0.02, 0]], atol=1e-6)
    assert volume(*parts) == pytest.approx(2e-6, rel=1e-3), "a mirrored part still has its outside outside"


def test_collada_matrix_is_row_major(tmp_path: Path) -> None:
    parts = read_mesh(write(tmp_path, "x.dae", dae("<matrix>0 -1 0 5 1 0 0 6 0 0 1 7 0 0 0 1</matrix>")))
    np.testing.assert_allclose(extent(*parts), [[4, 6, 7], [5, 7, 8]], atol=2e-5)


@pytest.mark.parametrize(
    ("color", "factor", "opacity"), [("1 1 1 0.5", "0.6", 0.3), ("1 1 1", "0.6", 0.6), ("1 1 1 0", "1", 1.0)]
)
def test_opacity_of_a_collada_surface_is_the_product_of_color_and_factor(
    color: str, factor: str, opacity: float, tmp_path: Path
) -> None:
    said = f"<transparent><color>{color}</color></transparent><transparency><float>{factor}</float></transparency>"
    data = dae().replace(b"</lambert>", said.encode() + b"</lambert>")
    (part,) = read_mesh(write(tmp_path, "x.dae", data))
    assert part.material is not None and part.material.color == pytest.approx((1.0, 0.0, 0.0, opacity))


def test_materials_of_mesh_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "cube.mtl").write_text("newmtl red\nKd 1 0.5 0\nd 0.25\n", encoding="utf-8")
    (part,) = read_mesh(write(tmp_path, "x.obj", obj()))
    assert part.material is not None
    assert part.material.color == (1.0, 0.5, 0.0, 0.25)
    (part,) = read_mesh(write(tmp_path, "x.dae", dae()))
    assert part.material is not None
    assert part.material.color == (1.0, 0.0, 0.0, 1.0)


def test_textures_are_read_only_from_the_neighborhood_of_the_mesh(tmp_path: Path) -> None:
    folder = tmp_path / "robot" / "meshes"
    folder.mkdir(parents=True)
    inside, outside = folder / "skin.png", tmp_path / "secret.png"
    for path in (inside, outside):
        path.write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "link.png").symlink_to(outside)
    mesh = folder / "x.dae"
    near = AdjacentFiles(mesh, tmp_path / "robot")
    assert near.find("skin.png") == inside.resolve()
    assert near.find("../meshes/skin.png") == inside.resolve()
    above = tmp_path / "robot" / "cover.png"
    above.write_bytes(inside.read_bytes())
    assert near.find("../cover.png") == above.resolve()
    for root in (folder, None):
        assert AdjacentFiles(mesh, root).find("../cover.png") is None, "that lies outside the package root"
    for reference in (
        "../../secret.png",
        str(outside),
        outside.as_uri(),
        "link.png",
        "http://127.0.0.1/skin.png",
        "//127.0.0.1/skin.png",
        "//[",
        "absent.png",
        "",
        "\0",
    ):
        assert near.find(reference) is None, reference
    write(folder, "x.dae", dae(diffuse='<texture texture="picture" texcoord="UV"/>'))
    (part,) = read_mesh(mesh)
    assert part.material is not None
    assert part.material.texture == inside.resolve()


def test_errors_of_invalid_mesh_files_state_the_reason(tmp_path: Path) -> None:
    cases = {
        "absent.stl": (None, "the file does not exist"),
        "short.stl": (binary_stl()[:-1], "STL file"),
        "empty.stl": (b"", "STL file"),
        "other.ply": (b"ply", "format"),
        "empty.obj": (b"", "no faces"),
        "word.obj": (b"v 0 0 zero\n", "line 1"),
        "range.obj": (b"v 0 0 0\nf 1 2 3\n", "out of range"),
        "nan.obj": (b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "finite"),
        "text.dae": (b"hello", "XML"),
        "entity.dae": (b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA>&a;</COLLADA>', "XML"),
        "empty.dae": (b"<COLLADA/>", "the file contains no triangles"),
        "loop.dae": (dae('<instance_node url="#loop"/>').replace(b"<node>", b'<node id="loop">', 1), "deep"),
        "huge.dae": (dae().replace(b"<vcount>4", b"<vcount>99999999999"), "corners"),
        "lost.dae": (dae().replace(b'url="#g"', b'url="#h"'), "not valid COLLADA"),
        "infinite.dae": (re.sub(rb"(<float_array[^>]*>)\s*\S+", rb"\1 1e999", dae()), "finite"),
    }
    for name, (data, reason) in cases.items():
        path = tmp_path / name if data is None else write(tmp_path, name, data)
        raises(MeshError, reason, read_mesh, path)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_corrupted_mesh_files_raise_only_mesh_errors(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                content[at] = data.draw(st.integers(0, 255))
            case 1:
                del content[at : at + data.draw(st.integers(1, 40))]
            case _:
                content[at:at] = data.draw(
                    st.sampled_from([b"-1 ", b"1e999 ", b"nan ", b"99999999999999999999 ", b"999999999 ", b"<", b"#"])
                )
        content = content or bytearray(b" ")
    path = write(tmp_path_factory.getbasetemp(), name, bytes(content))
    try:
        parts = read_mesh(path)
    except MeshError:
        return
    assert all(np.isfinite(p.positions).all() and p.triangles.max(initial=0) < max(len(p.grid), 1) for p in parts)


def test_solids_have_the_volume_of_geometry() -> None:
    assert volume(make_box((1, 2, 3))) == pytest.approx(6, rel=1e-3)
    assert volume(make_sphere(1)) == pytest.approx(4 / 3 * np.pi, rel=0.02)
    assert volume(make_cylinder(1, 2)) == pytest.approx(2 * np.pi, rel=0.01)
    assert volume(make_capsule(1, 2)) == pytest.approx((2 + 4 / 3) * np.pi, rel=0.02)
    np.testing.assert_allclose(extent(make_capsule(1, 2)), [[-1, -1, -2], [1, 1, 2]], atol=1e-4)
    np.testing.assert_allclose(extent(make_arrow())[:, 2], [0, 1], atol=1e-4)


@given(st.lists(st.integers(0, 7), max_size=20))
def test_fan_triangulation_uses_every_corner_of_every_polygon(counts: list[int]) -> None:
    corners = triangulate_fans(np.array(counts, dtype=np.int64), sum(counts))
    assert len(corners) == sum(max(n - 2, 0) for n in counts)
    starts = np.cumsum(counts) - counts
    expected = {int(s) + i for s, n in zip(starts, counts, strict=True) if n > 2 for i in range(n)}
    assert set(corners.reshape(-1).tolist()) == expected


def test_large_height_field_is_drawn_coarser_and_up_to_its_edges() -> None:
    rows, columns = 2 * MAX_FIELD_SAMPLES + 7, MAX_FIELD_SAMPLES + 1
    part = triangulate_height_field(np.zeros((rows, columns)), np.array([0.1, 0.2]))
    x, y = (np.unique(part.origin[axis] + part.step * part.grid[:, axis]) for axis in (0, 1))
    assert len(x) == 137 and len(y) == columns  # every third row and the last one, every column
    assert (x[0], y[0]) == (0.0, 0.0)
    np.testing.assert_allclose((x[1], x[-1], y[-1]), (0.3, 0.1 * (rows - 1), 0.2 * (columns - 1)), atol=1e-3)
