"""Collision limits keep links at a distance from each other and from obstacles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from collision_campaign import HostileCase, HostileReferences
from raising import raises
from test_capsules import URDF

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel, Obstacle
from quaddyn.wbc import CollisionLimits, JointBounds, PostureTask, TorqueLimits, replay
from quaddyn.wbc.constraints.collision_distances import PAIR_ENTRIES, SECOND_ORDER_MARGIN, make_capsule_parameters
from quaddyn.wbc.constraints.collision_limits import has_invalid_run_ends, make_pair_list


@pytest.fixture(scope="module")
def arms() -> qd.Robot:
    return qd.load(URDF, root="fixed")


def controller(robot: qd.Robot, limits: CollisionLimits | None, dt: float = 1e-3) -> qd.WholeBodyController:
    """Controller with torque limits, joint bounds and optional collision limits, over a stiff posture task."""
    bounds = JointBounds(robot, dt, acceleration=150.0, horizon=dt)
    constraints = [TorqueLimits(robot), bounds] + ([limits] if limits else [])
    return qd.WholeBodyController(
        robot, constraints=constraints, tasks=[[PostureTask(robot, stiffness=400.0)]], contacts=[], dt=dt
    )


def test_collision_rows_are_those_of_the_least_barrier_rate(arms: qd.Robot) -> None:
    """Rows equal the derivative of the least ``c' + p c`` over all points of two capsules, with squared distances c.

    No further term is needed for points that slide. This holds for any acceleration, and for moving obstacles.
    """
    things = {"ball": Obstacle.sphere(0.05), "bar": Obstacle.capsule(0.02, [-0.1, 0, 0], [0.1, 0, 0.05])}
    things["wall"] = Obstacle.plane([0.0, 1.0, 0.2])
    where = {"ball": [0.0, 0.0, -0.25], "bar": [0.0, 0.35, -0.2], "wall": [0.0, -0.6, 0.0]}
    p, h, asked, count, inside = 20.0, 1e-5, 0, 0, 0
    limits = CollisionLimits(
        CapsuleModel(arms, reach=np.inf),
        obstacles=things,
        obstacle_positions=where,
        barrier_rate=p,
        max_acceleration=1e6,
    )
    wbc, dyn, rng = controller(arms, limits, 1e-9), qd.Dynamics(arms), np.random.default_rng(1)
    speed, reach = np.array([0.2, -0.3, 0.1]), limits.margin + limits._capsules()[limits._pairs, 6].sum(axis=1)[:, None]
    for _ in range(20):
        q, v, a = arms.random_configuration(rng), 10.0 * rng.normal(size=arms.nv), rng.normal(size=arms.nv)
        limits.set_obstacle_pose("ball", where["ball"], velocity=speed)
        problem = wbc.compute(dyn.update(q, v)).details.problem
        found = [g for g in problem.levels[0] if g.element == "collisions"]
        rows = [(row @ a[arms.actuated_index], low) for g in found for row, low in zip(g.A, g.lower, strict=True)]
        nearest, speeds = limits._margins_of_parts(limits.block, q, v)
        room, rate = limits._margins_of_parts(limits.block, q, v, p)
        some, around, least = np.isfinite(room), list[np.ndarray](), list[np.ndarray]()
        for t in (-h, 0.0, h):
            limits.set_obstacle_pose("ball", where["ball"] + t * speed, velocity=speed)
            now = pin.integrate(arms.model, q, t * v + 0.5 * t * t * a), v + t * a
            around.append(limits._margins_of_parts(limits.block, *now)[0])
            above, change = limits._margins_of_parts(limits.block, *now, p)
            above = np.where(some, above, 0.0)
            least.append((above + reach) * (change + p * (above - SECOND_ORDER_MARGIN)))
        np.testing.assert_allclose(speeds[some], (around[2][some] - around[0][some]) / (2 * h), atol=1e-3)
        assert (nearest <= room + 1e-15)[some].all()
        # if the nearest points are at an end, only that end has a row
        between = least[1][:, 0] < least[1][:, 1:].min(axis=1) - 1e-9
        some[:, 0] &= ~np.isfinite(room[:, 1]) | between
        inside += int(between.sum())
        d, rate, room, there = (x[some] for x in (room + reach, rate, room, least[2]))
        there = (there - least[0][some]) / (2 * h)
        assert len(rows) == len(d)
        for k, (value, lower) in enumerate(rows):
            second = value - 2.0 * p * rate[k] - p * p * (room[k] - SECOND_ORDER_MARGIN) - lower  # J a + drift
            error = d[k] * (second + p * rate[k]) + rate[k] * (rate[k] + p * (room[k] - SECOND_ORDER_MARGIN)) - there[k]
            count += abs(error) < 1e-4 * (1.0 + abs(there[k]))
            asked += 1
    assert asked > 500 and inside > 10 and count >= 0.97 * asked  # the other points reach the end of a segment within h


@pytest.mark.parametrize("with_limits", [True, False])
def test_arms_keep_their_distance_with_crossing_targets(arms: qd.Robot, with_limits: bool) -> None:
    limits = CollisionLimits(arms, margin=0.005)
    wbc, dyn, dt = controller(arms, limits if with_limits else None), qd.Dynamics(arms), 1e-3
    rng, exact = np.random.default_rng(0), CollisionModel(arms)
    q, v, least, jump, before = np.array(arms.q_home), np.zeros(arms.nv), np.inf, 0.0, None
    for tick in range(600):
        if tick % 100 == 0:  # target of each arm: the position of the other one
            wbc.tasks["posture"].reference(np.array([-1.5, 0.5, 1.5, -0.5]) * rng.uniform(0.3, 1.5, 4))
        command = wbc.compute(dyn.update(q, v))
        if with_limits:
            assert command.ok and not command.nonviable
        if before is not None and tick % 100:
            jump = max(jump, float(np.abs(command.tau - before).max()))
        before = command.tau.copy()
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
        least = min(least, float(limits.distance_margins(q, v)[0].min()) + 0.005)
        if with_limits and tick % 50 == 0:
            assert exact.distance(q) >= 0.005
    if with_limits:
        assert 0.005 <= least <= 0.02, least
    else:
        assert least < 0.0


def test_torques_are_continuous_when_links_pass_each_other() -> None:
    """At ticks 509 and 526, rows of the nearest points of nearly parallel links would change torques by 11 %."""
    record = HostileReferences(ticks=540).run(HostileCase(robot="solo12", number=0, ticks=540, seed=0, limited=True))
    assert record["success"] and record["changes"] > 100 and record["penetrating"] == 0
    assert record["held"] > 0 and record["caused"] < 0.01


def test_pairs_within_their_margin_are_reported_and_separate(arms: qd.Robot, tmp_path: Path) -> None:
    limits = CollisionLimits(
        arms, obstacles={"ball": Obstacle.sphere(0.05)}, obstacle_positions={"ball": [0.0, 1.0, 0.0]}
    )
    wbc, dyn, dt = controller(arms, limits), qd.Dynamics(arms), 1e-3
    q, v = np.array(arms.q_home), np.zeros(arms.nv)
    wbc.tasks["posture"].reference(q)
    limits.set_obstacle_pose("ball", limits.model.world_segments(q)[0].mean(axis=0) + np.array([0.0, 0.07, 0.0]))
    link = limits.model.capsules[0].link
    command = wbc.compute(dyn.update(q, v))
    assert command.nonviable == (f"{link} - ball",)
    assert f"{link} - ball distance" in command.explain()
    for _ in range(200):
        command = wbc.compute(dyn.update(q, v))
        q, v = q + dt * v + 0.5 * dt * dt * command.acceleration, v + dt * command.acceleration
    wbc.save_tick(tmp_path / "tick.npz")
    assert replay(tmp_path / "tick.npz").identical
    assert command.nonviable == () and limits.distance_margins(q, v)[0].min() > -1e-4


def test_only_pairs_that_can_reach_their_limit_have_rows() -> None:
    """Exactly the pairs that could reach their limit with twice `max_acceleration` have rows; obstacles move."""
    robot, rng = qd.load("go2"), np.random.default_rng(5)
    things = {"ball": Obstacle.sphere(0.1), "bar": Obstacle.capsule(0.03, [0, 0, 0], [0.5, 0.2, 0.1])}
    limits = CollisionLimits(
        robot, obstacles=things, obstacle_positions={"ball": [0.6, 0.3, 0.2], "bar": [-0.6, 0.4, 0.1]}
    )
    wbc, dyn, count = controller(robot, limits), qd.Dynamics(robot), 0
    for speed in (0.0, 0.05, 1.0, 3.0, 10.0):
        for _ in range(6):
            q = robot.interpolate(robot.q_home, robot.random_configuration(rng), rng.uniform())
            v = speed * rng.normal(size=robot.nv)
            limits.set_obstacle_pose("ball", [0.6, 0.3, 0.2], velocity=rng.normal(size=3))
            groups = wbc.compute(dyn.update(q, v)).details.problem.levels[0]
            found = Counter(name for group in groups if group.element == "collisions" for name in group.names)
            rooms, speeds = limits._margins_of_parts(limits.block, q, v, limits.barrier_rate)
            p, b, h = limits.barrier_rate, limits.max_acceleration, rooms - SECOND_ORDER_MARGIN
            k = np.where(h <= b / p**2, p * h, np.sqrt(np.maximum(2.0 * b * (h - 0.5 * b / p**2), 0.0)))
            slope = np.where(h <= b / p**2, p, b / np.maximum(k, b / p))
            needs = np.isfinite(rooms) & (-slope * speeds - p * (speeds + k) >= -2.0 * b)
            ends = np.isfinite(rooms[:, 1])  # pairs with a row for the inner points only if these are between the ends
            least = Counter(f"{limits.pairs[i]} distance" for i, x in np.argwhere(needs) if x > 0 or not ends[i])
            most = Counter(f"{limits.pairs[i]} distance" for i in np.argwhere(needs)[:, 0])
            assert least <= found <= most
            count += found.total()
    assert count > 1000


def test_pair_list_has_runs_of_the_same_capsule() -> None:
    """Runs have one first capsule and up to eight second ones, either segments or planes; other lists are invalid."""
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 40, (300, 2))), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    capsules = np.array([make_capsule_parameters(np.zeros((2, 3)), 0.0, is_plane=i >= 35) for i in range(40)])
    pairs = pairs[np.argsort(pairs[:, 1] >= 35, kind="stable")]
    listed = np.array(make_pair_list(pairs, capsules)).reshape(-1, PAIR_ENTRIES)
    assert not has_invalid_run_ends(listed) and (listed[:, :2] == pairs).all()
    for k, (a, b, end) in enumerate(listed.tolist()):
        together = listed[k:end]
        assert end > k and (together[:, 0] == a).all() and (together[:, 1] < b + 8).all()
        assert len(set((together[:, 1] >= 35).tolist())) == 1
    assert len(set(listed[:, 2].tolist())) < 0.6 * len(pairs)
    for k in np.flatnonzero(np.append(True, np.diff(listed[:, 2]) > 0)).tolist():  # the runs
        for end in (k, -1, len(listed) + 1, listed[k, 2] + 8):
            wrong = listed.copy()
            wrong[k, 2] = end
            assert has_invalid_run_ends(wrong)


def test_invalid_arguments_are_rejected_by_name(arms: qd.Robot) -> None:
    limits = CollisionLimits(
        arms, obstacles={"ball": Obstacle.sphere(0.05)}, obstacle_positions={"ball": [1.0, 0.0, 0.0]}
    )
    raises(qd.UnknownNameError, "bal", limits.set_obstacle_pose, "bal", [0, 0, 0])
    raises(qd.ArgumentError, "rotation", limits.set_obstacle_pose, "ball", [0, 0, 0], rotation=np.ones((3, 3)))
    raises(qd.ArgumentError, "normal", Obstacle.plane, [0, 0, 0])
    raises(qd.ArgumentError, "size", Obstacle.box, [1.0, 0.0, 1.0])
    raises(qd.ArgumentError, "radius", Obstacle.sphere, -1.0)
    with pytest.raises(qd.UnknownNameError, match="nose"):
        CollisionLimits(arms, links=("nose",), obstacles={"ball": Obstacle.sphere(0.05)})
    raises(qd.ArgumentTypeError, "model", CollisionLimits, "arms")
    raises(qd.ArgumentError, "no pair", CollisionLimits, arms, self_collision=False)
