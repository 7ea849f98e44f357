"""Capsules that contain collision shapes, and the pairs of them that may collide."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from raising import raises
from urdf_text import collision, inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.kinematics import CapsuleModel, CollisionModel
from quaddyn.kinematics.capsule_model import _cover_mesh, fit_capsules
from quaddyn.urdf.tree import BoxShape, CylinderShape


def arm(side: str, y: float, middle: str = "0 0 -0.1") -> str:
    upper, lower = f"{side}_upper", f"{side}_lower"
    tube, bar = collision('cylinder radius="0.02" length="0.2"', middle), collision('box size="0.03 0.02 0.2"', middle)
    return (
        link(upper, inertial(1.0, middle, "0.01 0.01 0.002"), tube)
        + link(lower, inertial(0.5, middle, "0.004 0.004 0.001"), bar)
        + joint(f"{side}_shoulder", "base", upper, "1 0 0", f"0 {y} 0", ends="-2.5 2.5", velocity=10)
        + joint(f"{side}_elbow", upper, lower, "1 0 0", "0 0 -0.2", ends="-2.5 2.5", velocity=10)
    )


#: Two arms side by side, each of a shoulder and an elbow, that can reach each other.
URDF = urdf(link("base"), arm("left", 0.12), arm("right", -0.12), name="arms")


@pytest.fixture(scope="module")
def arms() -> qd.Robot:
    return qd.load(URDF, root="fixed")


def distance_to(shape: BoxShape | CylinderShape, points: np.ndarray) -> np.ndarray:
    """Distances of points from a shape at the origin, zero inside."""
    if isinstance(shape, BoxShape):
        over = np.abs(points) - 0.5 * np.array(shape.size)
    else:
        radial = np.linalg.norm(points[:, :2], axis=1) - shape.radius
        over = np.stack((radial, np.abs(points[:, 2]) - 0.5 * shape.length), axis=1)
    return np.asarray(np.linalg.norm(np.maximum(over, 0.0), axis=1))


@pytest.mark.parametrize(
    "shape", [BoxShape((0.4, 0.2, 0.1)), BoxShape((0.1, 0.1, 0.02)), CylinderShape(0.05, 0.3), CylinderShape(0.1, 0.02)]
)
def test_capsules_contain_their_shape_and_extend_at_most_by_their_overapproximation(
    shape: BoxShape | CylinderShape,
) -> None:
    rng, found = np.random.default_rng(0), list(fit_capsules(shape))
    size = np.array(shape.size if isinstance(shape, BoxShape) else (2 * shape.radius, 2 * shape.radius, shape.length))
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


def test_capsule_distances_are_conservative_within_the_overapproximation(arms: qd.Robot) -> None:
    model, exact = CapsuleModel(arms, reach=np.inf), CollisionModel(arms)
    again = pickle.loads(pickle.dumps(model))
    assert again.capsules[0].link == model.capsules[0].link and np.array_equal(again.pairs, model.pairs)
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
                assert distance <= wanted + 1e-9 <= distance + one.overapproximation + other.overapproximation + 2e-6
                assert np.linalg.norm(a - b) == pytest.approx(distance, abs=1e-12)
                compared += 1
    assert compared > 200


def test_excluded_pairs_have_a_reason(arms: qd.Robot, tmp_path: Path) -> None:
    srdf = '<robot name="arms"><disable_collisions link1="right_lower" link2="left_lower" reason="Never"/></robot>'
    (tmp_path / "arms.srdf").write_text(srdf, encoding="utf-8")
    for source in (srdf, tmp_path / "arms.srdf"):
        model = CapsuleModel(arms, srdf=source)
        assert model.excluded_pairs["left_lower", "right_lower"] == "disabled by the SRDF (Never)"
        names = [[model.capsules[i].link for i in pair] for pair in model.pairs.tolist()]
        assert names and ["left_lower", "right_lower"] not in names
    everything, near = CapsuleModel(arms, reach=np.inf), CapsuleModel(arms, reach=0.0)
    assert len(near.pairs) <= len(everything.pairs)
    raises(qd.UnknownNameError, "left_lwoer", CapsuleModel, arms, srdf=srdf.replace("left_lower", "left_lwoer"))
    raises(qd.ModelError, "SRDF", CapsuleModel, arms, srdf="<sdf/>")


@pytest.mark.parametrize(("radius", "length"), [(0.05, 0.4), (0.1, 0.02), (0.03, 0.0)])
def test_mesh_capsules_contain_the_mesh_and_extend_at_most_by_their_overapproximation(
    radius: float, length: float
) -> None:
    """The points are those of a capsule in a random pose, which the fit does not use."""
    rng = np.random.default_rng(0)
    axis, place = rng.normal(size=3), rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    way = rng.normal(size=(2000, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    points = place + np.sign(way @ axis)[:, None] * 0.5 * length * axis + radius * way
    found = list(_cover_mesh(points))
    inside = np.zeros(len(points), dtype=bool)
    for ends, reach, excess in found:
        u = ends[1] - ends[0]
        s = np.clip((points - ends[0]) @ u / max(u @ u, 1e-300), 0.0, 1.0)
        inside |= np.linalg.norm(points - ends[0] - s[:, None] * u, axis=1) <= reach
        way = rng.normal(size=(2000, 3))
        way /= np.linalg.norm(way, axis=1)[:, None]
        beyond = (way @ ends.T).max(axis=1) + reach - (way @ points.T).max(axis=1)
        assert beyond.max() <= excess + 1e-9 and excess < 0.1 * (radius + length)
    assert inside.all()


def test_rounding_does_not_affect_the_order_of_equally_near_pairs() -> None:
    robot = qd.load("small_quadruped")
    model, home, orders = CollisionModel(robot), np.array(robot.q_home), set()
    rng = np.random.default_rng(0)
    for _ in range(10):
        q = home * (1.0 + 2e-16 * rng.standard_normal(robot.nq))
        orders.add(tuple(each.links for each in model.separations(q)))
    assert len(orders) == 1
