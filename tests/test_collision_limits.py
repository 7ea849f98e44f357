"""Capsules that contain collision shapes, and links that keep their distance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel, Obstacle
from quaddyn.kinematics.capsules import fit
from quaddyn.urdf.tree import Box, Cylinder
from quaddyn.wbc import CollisionLimits, JointBounds, PostureTask, TorqueLimits, replay

#: Two arms side by side, each of a shoulder and an elbow, that can reach each other.
ARMS = "".join(
    f"""
  <link name="{side}_upper"><inertial><origin xyz="0 0 -0.1"/><mass value="1"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 -0.1"/><geometry><cylinder radius="0.02" length="0.2"/></geometry></collision></link>
  <link name="{side}_lower"><inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>
    <inertia ixx="0.004" iyy="0.004" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 -0.1"/><geometry><box size="0.03 0.02 0.2"/></geometry></collision></link>
  <joint name="{side}_shoulder" type="revolute"><parent link="base"/><child link="{side}_upper"/>
    <origin xyz="0 {y} 0"/><axis xyz="1 0 0"/><limit lower="-2.5" upper="2.5" velocity="10" effort="60"/></joint>
  <joint name="{side}_elbow" type="revolute"><parent link="{side}_upper"/><child link="{side}_lower"/>
    <origin xyz="0 0 -0.2"/><axis xyz="1 0 0"/><limit lower="-2.5" upper="2.5" velocity="10" effort="40"/></joint>"""
    for side, y in (("left", 0.12), ("right", -0.12))
)
URDF = f'<robot name="arms"><link name="base"/>{ARMS}</robot>'


@pytest.fixture(scope="module")
def arms() -> qd.Robot:
    return qd.load(URDF, root="fixed")


def controller(robot: qd.Robot, limits: CollisionLimits | None, dt: float = 1e-3) -> qd.WholeBodyController:
    """Torque limits, joint bounds and, if any, collision limits over a posture that jumps at its targets."""
    bounds = JointBounds(robot, dt, acceleration=150.0, horizon=dt)
    constraints = [TorqueLimits(robot), bounds] + ([limits] if limits else [])
    return qd.WholeBodyController(
        robot, constraints=constraints, tasks=[[PostureTask(robot, stiffness=400.0)]], contacts=[], dt=dt
    )


def distance_to(shape: Box | Cylinder, points: np.ndarray) -> np.ndarray:
    """Of points from a shape about the origin, zero inside."""
    if isinstance(shape, Box):
        over = np.abs(points) - 0.5 * np.array(shape.size)
    else:
        radial = np.linalg.norm(points[:, :2], axis=1) - shape.radius
        over = np.stack((radial, np.abs(points[:, 2]) - 0.5 * shape.length), axis=1)
    return np.asarray(np.linalg.norm(np.maximum(over, 0.0), axis=1))


@pytest.mark.parametrize(
    "shape", [Box((0.4, 0.2, 0.1)), Box((0.1, 0.1, 0.02)), Cylinder(0.05, 0.3), Cylinder(0.1, 0.02)]
)
def test_capsules_contain_their_shape_and_reach_no_further_than_they_say(shape: Box | Cylinder) -> None:
    rng, found = np.random.default_rng(0), list(fit(shape))
    size = np.array(shape.size if isinstance(shape, Box) else (2 * shape.radius, 2 * shape.radius, shape.length))
    points = size * rng.uniform(-0.5, 0.5, (4000, 3))
    points[:2000] = np.where(rng.random((2000, 3)) < 0.5, 0.5 * size * np.sign(points[:2000]), points[:2000])
    points = points[distance_to(shape, points) == 0.0]
    gaps = []
    for ends, radius, excess in found:
        u = ends[1] - ends[0]
        s = np.clip((points - ends[0]) @ u / max(u @ u, 1e-300), 0.0, 1.0)
        gaps.append(np.linalg.norm(points - ends[0] - s[:, None] * u, axis=1) - radius)
        out = rng.normal(size=(4000, 3))
        skin = ends[rng.integers(2, size=4000)] + radius * out / np.linalg.norm(out, axis=1, keepdims=True)
        reached = float(distance_to(shape, skin).max())
        assert reached <= excess + 1e-12 and reached >= 0.8 * excess
    assert float(np.min(gaps, axis=0).max()) <= 1e-12


def test_distances_are_conservative_by_no_more_than_the_fit(arms: qd.Robot) -> None:
    model, exact = CapsuleModel(arms, reach=np.inf), CollisionModel(arms)
    assert {c.link for c in model.capsules} == set(exact.links) and not model.unread
    rng, compared = np.random.default_rng(0), 0
    for _ in range(100):
        q = arms.random_configuration(rng)
        true = {frozenset(s.links): s.distance for s in exact.separations(q)}
        found, points = model.nearest(q)
        np.testing.assert_array_equal(found, model.distances(q[None])[0])
        for (i, j), distance, (a, b) in zip(model.pairs.tolist(), found.tolist(), points, strict=True):
            one, other = model.capsules[i], model.capsules[j]
            wanted = true[frozenset((one.link, other.link))]
            if distance > 0.0:
                assert distance <= wanted + 1e-9 <= distance + one.excess + other.excess + 2e-6
                assert np.linalg.norm(a - b) == pytest.approx(distance, abs=1e-12)
                compared += 1
    assert compared > 200


def test_pairs_are_left_out_for_a_reason(arms: qd.Robot, tmp_path: Path) -> None:
    srdf = '<robot name="arms"><disable_collisions link1="right_lower" link2="left_lower" reason="Never"/></robot>'
    (tmp_path / "arms.srdf").write_text(srdf)
    for source in (srdf, tmp_path / "arms.srdf"):
        model = CapsuleModel(arms, srdf=source)
        assert model.left_out["left_lower", "right_lower"] == "disabled by the SRDF (Never)"
        names = [[model.capsules[i].link for i in pair] for pair in model.pairs.tolist()]
        assert names and ["left_lower", "right_lower"] not in names
    everything, near = CapsuleModel(arms, reach=np.inf), CapsuleModel(arms, reach=0.0)
    assert len(near.pairs) <= len(everything.pairs)
    with pytest.raises(qd.UnknownNameError, match="left_lwoer"):
        CapsuleModel(arms, srdf=srdf.replace("left_lower", "left_lwoer"))
    with pytest.raises(qd.ModelError, match="SRDF"):
        CapsuleModel(arms, srdf="<sdf/>")


def test_rows_are_the_second_derivative_of_the_distance(arms: qd.Robot) -> None:
    """Along the motion with any accelerations; of obstacles that move, too."""
    things = {"ball": Obstacle.sphere(0.05), "bar": Obstacle.capsule(0.02, [-0.1, 0, 0], [0.1, 0, 0.05])}
    things["wall"] = Obstacle.plane([0.0, 1.0, 0.2])
    where = {"ball": [0.0, 0.0, -0.25], "bar": [0.0, 0.35, -0.2], "wall": [0.0, -0.6, 0.0]}
    limits = CollisionLimits(CapsuleModel(arms, reach=np.inf), obstacles=things, placed=where, rate=1.0, most=1e6)
    wbc, dyn, rng, count = controller(arms, limits), qd.Dynamics(arms), np.random.default_rng(1), 0
    asked = 0
    speed, h = np.array([0.2, -0.3, 0.1]), 1e-4
    for _ in range(20):
        q, v, a = arms.random_configuration(rng), rng.normal(size=arms.nv), rng.normal(size=arms.nv)
        limits.place("ball", where["ball"], velocity=speed)
        problem = wbc.compute(dyn.update(q, v)).details.problem
        rows = {(g.owner, i): (g.A[i] @ a[arms.actuated_index], g.lower[i]) for g in problem.levels[0] if g.owner ==
                "collisions" for i in range(len(g.names))}  # fmt: skip
        room, rate = limits.gaps(q, v)
        around = []
        for t in (-h, h):
            limits.place("ball", where["ball"] + t * speed, velocity=speed)
            around.append(limits.gaps(pin.integrate(arms.model, q, t * v + 0.5 * t * t * a), v + t * a)[0])
        limits.place("ball", where["ball"], velocity=speed)
        np.testing.assert_allclose(rate, (around[1] - around[0]) / (2 * h), atol=1e-4)
        second = (around[1] - 2.0 * room + around[0]) / h**2
        wanted = np.minimum(-2.0 * rate - room, 1e6)
        followers = limits.block[3:].reshape(-1, 21)[:, 20].astype(int)
        # pairs whose nearest points are at an end leave their row to that end
        here = [k for k, n in enumerate(followers) if not n or room[k] < room[k + 1 : k + 1 + n].min() - 1e-9]
        assert len(rows) == len(here)
        for (value, lower), least, there in zip(rows.values(), wanted[here], second[here], strict=True):
            error = value + least - lower - there  # J a + drift = h''
            count += abs(error) < 1e-3 * (1.0 + abs(there))
            asked += 1
    assert asked > 500 and count >= 0.97 * asked  # the others come to the end of a segment within h


@pytest.mark.parametrize("guarded", [True, False])
def test_arms_cannot_be_made_to_cross(arms: qd.Robot, guarded: bool) -> None:
    limits = CollisionLimits(arms, margin=0.005)
    wbc, dyn, dt = controller(arms, limits if guarded else None), qd.Dynamics(arms), 1e-3
    rng, exact = np.random.default_rng(0), CollisionModel(arms)
    q, v, least, jump, before = np.array(arms.q_home), np.zeros(arms.nv), np.inf, 0.0, None
    for tick in range(600):
        if tick % 100 == 0:  # each arm to where the other one is
            wbc.tasks["posture"].reference(np.array([-1.5, 0.5, 1.5, -0.5]) * rng.uniform(0.3, 1.5, 4))
        command = wbc.compute(dyn.update(q, v))
        if guarded:
            assert command.ok and not command.outside
        if before is not None and tick % 100:
            jump = max(jump, float(np.abs(command.tau - before).max()))
        before = command.tau.copy()
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
        least = min(least, float(limits.gaps(q, v)[0].min()) + 0.005)
        if guarded and tick % 50 == 0:
            assert exact.distance(q) >= 0.005
    if guarded:
        assert 0.005 - 1e-5 <= least <= 0.02, least
    else:
        assert least < 0.0


def test_pairs_outside_are_named_and_come_apart(arms: qd.Robot, tmp_path: Path) -> None:
    limits = CollisionLimits(arms, obstacles={"ball": Obstacle.sphere(0.05)}, placed={"ball": [0.0, 1.0, 0.0]})
    wbc, dyn, dt = controller(arms, limits), qd.Dynamics(arms), 1e-3
    q, v = np.array(arms.q_home), np.zeros(arms.nv)
    wbc.tasks["posture"].reference(q)
    limits.place("ball", limits.model.placed(q)[0].mean(axis=0) + np.array([0.0, 0.07, 0.0]))
    link = limits.model.capsules[0].link
    command = wbc.compute(dyn.update(q, v))
    assert command.outside == (f"{link} - ball",)
    assert f"{link} - ball distance" in command.explain()
    for _ in range(200):
        command = wbc.compute(dyn.update(q, v))
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
    wbc.save_tick(tmp_path / "tick.npz")
    assert replay(tmp_path / "tick.npz").identical
    assert command.outside == () and limits.gaps(q, v)[0].min() > -1e-4


def test_mistakes_are_named(arms: qd.Robot) -> None:
    limits = CollisionLimits(arms, obstacles={"ball": Obstacle.sphere(0.05)}, placed={"ball": [1.0, 0.0, 0.0]})
    with pytest.raises(qd.UnknownNameError, match="bal"):
        limits.place("bal", [0, 0, 0])
    with pytest.raises(qd.ArgumentError, match="rotation"):
        limits.place("ball", [0, 0, 0], rotation=np.ones((3, 3)))
    with pytest.raises(qd.ArgumentError, match="normal"):
        Obstacle.plane([0, 0, 0])
    with pytest.raises(qd.ArgumentError, match="size"):
        Obstacle.box([1.0, 0.0, 1.0])
    with pytest.raises(qd.ArgumentError, match="radius"):
        Obstacle.sphere(-1.0)
    with pytest.raises(qd.UnknownNameError, match="nose"):
        CollisionLimits(arms, links=("nose",), obstacles={"ball": Obstacle.sphere(0.05)})
    with pytest.raises(qd.ArgumentTypeError, match="model"):
        CollisionLimits("arms")  # type: ignore[arg-type]
    with pytest.raises(qd.ArgumentError, match="no pair"):
        CollisionLimits(arms, self_collision=False)
