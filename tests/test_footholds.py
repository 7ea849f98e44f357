"""Why a foot goes where it goes: the record of a tick agrees with the map, and changes nothing."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest
from sparing import NIGHT

import quaddyn as qd
from quaddyn.kinematics import LegKinematics
from quaddyn.locomotion import Foothold, LocomotionCommand, LocomotionController, Proportions
from quaddyn.locomotion.foothold import BLIND, BORDER, CHEAPEST, STUMBLED, TERMS, WANTED, Choice
from quaddyn.locomotion.foothold_kernel import PATCH
from quaddyn.locomotion.foothold_map import GOOD, FootholdMap
from quaddyn.locomotion.ground_window import ASIDE, CELL, ROUGH, STEEP
from quaddyn.locomotion.leg_margins import LegMargins, Stay
from quaddyn.locomotion.proportions import FEET
from quaddyn.locomotion.stretch import Stretch
from quaddyn.locomotion.swing import SETTLED
from quaddyn.simulation.terrain import Box, Plane, Terrain, stairs

DT = 2e-3


@functools.cache
def proportions() -> Proportions:
    return Proportions.of(qd.load("go2"))


@functools.cache
def margins(name: str = "go2") -> LegMargins:
    robot = qd.load(name)
    p = Proportions.of(robot)
    return LegMargins(robot, p, Stretch(robot, p).reach)


def stay(x: float = 0.0, y: float = 0.0, height: float | None = None) -> Stay:
    """At home, and still."""
    return Stay((x, y, proportions().height if height is None else height), (0.0, 0.0), 0.0, np.zeros(2), 0.0)


def weighed(
    terrain: Callable[[np.ndarray, np.ndarray], np.ndarray], x: float, y: float
) -> tuple[FootholdMap, Foothold]:
    known = FootholdMap(terrain, proportions())
    known.advance(0.0, 0.0, DT)
    found = known.choose(x, y)
    assert found is not None
    return known, Foothold(
        Choice(0, (x, y), (x, y), found[:3], found[3], "", known.window, stay(), (0.0, 0.0)), margins()
    )


def rough(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Waves, a step across them, and nothing known beyond x = 0.1."""
    out = 0.02 * np.sin(9.0 * x + 1.0) * np.cos(13.0 * y) + 0.1 * x + np.where(y > 0.03, 0.05, 0.0)
    return np.where(x > 0.1, np.nan, out)


@pytest.mark.parametrize("seed", range(5))
def test_terms_are_those_of_the_plane_of_least_squares_about_each_place(seed: int) -> None:
    """And the chosen place costs no more than any other."""
    x, y = np.random.default_rng(seed).uniform((-0.2, -0.1), (0.08, 0.1))
    _, foothold = weighed(rough, x, y)
    cell, length = CELL * proportions().length, proportions().length
    away = cell * np.arange(-PATCH, PATCH + 1)
    X, Y = (grid.ravel() for grid in np.meshgrid(away, away, indexing="ij"))
    A = np.column_stack((X, Y, np.ones_like(X)))
    assert len(foothold.candidates) + len(foothold.ruled_out) == 13 * 13 and foothold.candidates.shape[0] > 20
    for place, terms, normal in zip(foothold.candidates, foothold.terms, foothold.normals, strict=True):
        heights = rough(place[0] + X, place[1] + Y)
        plane, *_ = np.linalg.lstsq(A, heights)
        steep, off = np.hypot(*plane[:2]) / STEEP, np.abs(heights - A @ plane).max() / (ROUGH * length)
        aside = np.hypot(place[0] - x, place[1] - y) / (ASIDE * length)
        np.testing.assert_allclose(terms, [steep**2, off**2, aside**2], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normal, [*-plane[:2], 1.0] / np.sqrt(1.0 + plane[:2] @ plane[:2]), atol=1e-12)
    for place in foothold.ruled_out:
        assert np.isnan(rough(place[0] + X, place[1] + Y)).any()
    np.testing.assert_allclose(foothold.costs, foothold.terms.sum(axis=1))
    if foothold.why == CHEAPEST:
        best = int(foothold.costs.argmin())
        assert foothold.wanted.cost > GOOD or math.isnan(foothold.wanted.cost)
        assert foothold.chosen.cost == pytest.approx(foothold.costs[best], rel=1e-12)
        np.testing.assert_allclose(foothold.place, foothold.candidates[best], atol=1e-12)
    else:
        assert foothold.why == WANTED and foothold.wanted.cost <= GOOD and foothold.deviation == 0.0
    assert foothold.other is None or foothold.other.cost >= foothold.chosen.cost


def test_of_even_ground_the_wanted_place_is_taken_and_of_an_edge_the_distance_is_told() -> None:
    cell = CELL * proportions().length
    _, even = weighed(lambda x, y: 0.2 * x, 0.031, -0.02)
    assert even.why == WANTED and even.deviation == 0.0 and even.edge == math.inf and not len(even.ruled_out)
    assert even.chosen.cost == pytest.approx(0.04 / STEEP**2) and even.chosen.costs["deviation"] == 0.0
    assert even.place[2] == pytest.approx(0.2 * 0.031) == pytest.approx(even.wanted.place[2])
    _, near = weighed(lambda x, y: np.where(x > 0.05, 0.1, 0.0), 0.03, 0.0)
    assert (
        near.why == CHEAPEST
        and near.place[0] < 0.03
        and near.deviation == pytest.approx(math.dist((0.03, 0.0), near.place[:2]))
    )
    assert near.edge == pytest.approx(0.05 - near.place[0], abs=cell)
    assert near.wanted.costs["roughness"] > 10.0 > near.chosen.cost
    said = str(near)
    assert CHEAPEST in said and f"cost {near.chosen.cost:.2f} = " in said and "best of the others" in said
    assert f"{1e3 * near.edge:.0f} mm from an edge" in said and f"wanted {1e3 * near.deviation:.0f} mm away" in said


def test_at_the_border_of_what_is_known_nothing_is_weighed() -> None:
    _, lone = weighed(lambda x, y: np.where(np.hypot(x, y) < 0.03, 0.0, np.nan), 0.0, 0.0)
    assert lone.why == BORDER and not len(lone.candidates) and len(lone.ruled_out) == 13 * 13
    assert math.isnan(lone.chosen.cost) and lone.other is None
    assert "169 of 169 places ruled out" in str(lone) and "not all of the ground about it is known" in str(lone)


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c", "solo8"])
def test_a_legs_margins_are_those_of_forward_kinematics(name: str) -> None:
    """Of a foot where the leg's joints put it: distance to the first joint, and shank over a level floor."""
    robot = qd.load(name)
    p, rng = Proportions.of(robot), np.random.default_rng(2)
    reach, data = Stretch(robot, p).reach, robot.model.createData()
    known = FootholdMap(lambda x, y: 0.0 * x, p)
    known.advance(0.0, 0.0, DT)
    for i in (0, 3):
        leg = LegKinematics(robot, FEET[i])
        for _ in range(10):
            q = np.array(robot.q_home)
            places = [robot.configuration_index(joint) for joint in leg.joints]
            q[places] += rng.uniform(-0.25, 0.25, leg.n)
            q[:7] = robot.q_home[:7]
            pin.framesForwardKinematics(robot.model, data, q)
            foot = data.oMf[robot.frame_id(FEET[i])].translation.copy()
            bottom = foot - [0.0, 0.0, p.radii[i]]
            first, knee = (
                data.oMi[robot.model.getJointId(joint)].translation.copy() for joint in (leg.joints[0], leg.joints[-1])
            )
            com = pin.centerOfMass(robot.model, data, np.array(robot.q_home)).copy()
            room, shank = LegMargins(robot, p, reach).of(
                i,
                bottom[None],
                np.array([0.0, 0.0, 1.0]),
                Stay(tuple(com), (0.0, 0.0), 0.0, np.zeros(2), p.yaw(q)),
                known.window,
            )[0]
            assert room == pytest.approx(reach[i] - np.linalg.norm(foot - first), abs=1e-9)
            line = foot + np.linspace(0.0, 1.0, 9)[:, None] * (knee - foot)
            cells = np.rint(line[:, :2] / known.window.cell) - np.rint(bottom[:2] / known.window.cell)
            beside = np.abs(cells).sum(axis=1) > 1
            assert shank == pytest.approx(line[beside, 2].min() if beside.any() else np.inf, abs=1e-9)


def test_margins_see_a_leg_that_is_too_short_and_a_shank_in_a_riser() -> None:
    p = proportions()
    foot = np.array([*p.stance[0], 0.0])
    near, far = margins().of(
        0, foot + np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0]]), np.array([0.0, 0.0, 1.0]), stay(), None
    )
    assert near[0] > 0.0 > far[0] and np.isnan([near[1], far[1]]).all()
    # Knees of Go2 point backward: what rises behind the foot meets the shank.
    for high, clear in ((0.0, True), (0.2, False)):
        known = FootholdMap(lambda x, y, high=high: np.where(x < foot[0] - 0.04, high, 0.0), p)
        known.advance(0.0, 0.0, DT)
        _, shank = margins().of(0, foot[None], np.array([0.0, 0.0, 1.0]), stay(), known.window)[0]
        assert (shank > 0.0) == clear
    # The thigh is no shank: what stands below the hip of a leg that points back is ahead of the knee.
    back = foot - [0.12, 0.0, 0.0]
    known = FootholdMap(lambda x, y: np.where(x > foot[0] - 0.03, 1.0, 0.0), p)
    known.advance(0.0, 0.0, DT)
    assert margins().of(0, back[None], np.array([0.0, 0.0, 1.0]), stay(), known.window)[0, 1] > 0.0


def test_a_body_that_goes_on_leaves_its_leg_less_room() -> None:
    p, up = proportions(), np.array([0.0, 0.0, 1.0])
    foot = np.array([[*p.stance[0], 0.0]])
    still, moving = (
        margins().of(0, foot, up, Stay((0.0, 0.0, p.height), (way / 0.4, 0.0), 0.4, np.zeros(2), 0.0), None)[0, 0]
        for way in (0.0, 0.2)
    )
    ahead = margins().of(0, foot, up, stay(0.2), None)[0, 0]
    uphill = stay()._replace(slope=np.array([0.3, 0.1])).after((0.2, -0.1))
    assert stay().after((0.2, 0.0)).com == stay(0.2).com and uphill.com == pytest.approx((0.2, -0.1, p.height + 0.05))
    turned = Stay((0.0, 0.0, p.height), (0.4, 0.1), 0.5, np.zeros(2), 0.5 * math.pi)
    np.testing.assert_allclose(turned.travel, [-0.05, 0.2], atol=1e-12)
    assert moving == pytest.approx(ahead, abs=1e-12) and ahead < still


@functools.cache
def steps() -> Terrain:
    p = proportions()
    rise, tread, start = 0.2 * p.length, 0.6 * p.length, float(p.stance[:, 0].max()) + 0.3 * p.length
    top = Box(np.array([start + 3 * tread + 2.0, 0.0, 1.5 * rise]), np.array([4.0, 3.0, 3 * rise]))
    return Terrain.from_surfaces([Plane.floor(), *stairs(3, rise=rise, tread=tread, distance=start), top])


def climb(
    look: Callable[[LocomotionController, LocomotionCommand], object], ticks: int, *, told: bool = True
) -> np.ndarray:
    """Torques of a walk up stairs, with somebody who looks at every command."""
    robot, ground, dt = qd.load("go2"), steps(), DT if NIGHT else 2.0 * DT
    controller = LocomotionController(robot, dt=dt, terrain=ground if told else None)
    plant, dynamics, tau = qd.Simulation(robot, dt=dt, friction=0.8, terrain=ground), qd.Dynamics(robot), []
    for _ in range(ticks):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.25 * proportions().speed, 0.0, 0.1))
        look(controller, command)
        tau.append(command.tau.copy())
        plant.step(command.tau)
    return np.array(tau)


def test_who_looks_at_footholds_changes_nothing() -> None:
    """And every foot in the air has one, whose place is what its swing aims at, until the target is settled.

    A foothold that was kept says later what it said at first: ground that is read anew meanwhile is another array.
    """
    seen: list[str] = []
    said: dict[int, list[str]] = {}  # by tick, every third: texts take longer than ticks
    ticks = itertools.count()
    places: dict[str, np.ndarray] = {}

    def look(controller: LocomotionController, command: LocomotionCommand) -> None:
        p = controller.proportions
        assert set(command.footholds) == set(command.swings)
        assert set(command.normals) == set(command.contacts)
        tick = next(ticks)
        if tick % 3 == 0:
            explained = command.explain()
            assert all(foothold.why in explained for foothold in command.footholds.values())
            said[tick] = [str(foothold) for foothold in command.footholds.values()]
        for foot, foothold in command.footholds.items():
            i = FEET.index(foot)
            r = p.radii[i] - 0.01 * p.length
            aimed = command.swings[foot].target - r * foothold.normal
            assert not foothold.blind and np.abs(aimed - foothold.place).max() < 1e-9
            if command.swings[foot].progress > SETTLED + 0.05 and foot in places:
                np.testing.assert_array_equal(foothold.place, places[foot], "a settled target is not chosen anew")
            places[foot] = foothold.place
            if foothold.why == CHEAPEST:
                assert foothold.chosen.cost == pytest.approx(foothold.costs.min())
            seen.append(foothold.why)

    many = 400 if NIGHT else 250
    watched = climb(look, many)
    assert {WANTED, CHEAPEST} <= set(seen) and set(places) == set(FEET)
    kept: list[list[Foothold]] = []
    np.testing.assert_array_equal(
        watched,
        climb(lambda _, command: kept.append(list(command.footholds.values())), many),
        "looking changes nothing",
    )
    assert sum(len(texts) for texts in said.values()) > 100
    for tick, texts in said.items():
        assert [str(foothold) for foothold in kept[tick]] == texts
    last = max(tick for tick, texts in said.items() if texts)
    again = pickle.loads(pickle.dumps(kept[last]))
    assert [str(foothold) for foothold in again] == said[last]


def test_a_robot_that_is_told_nothing_says_so() -> None:
    said: set[str] = set()

    def look(_: LocomotionController, command: LocomotionCommand) -> None:
        for foothold in command.footholds.values():
            assert foothold.blind and foothold.ground is None and not len(foothold.candidates)
            assert not len(foothold.ruled_out) and foothold.other is None and math.isnan(foothold.edge)
            assert math.isfinite(foothold.chosen.reach) and "blind" in str(foothold)
            said.add(foothold.why)

    climb(look, 300, told=False)
    assert BLIND in said and said <= {BLIND, STUMBLED}


def test_terms_have_names_of_their_own() -> None:
    _, foothold = weighed(rough, -0.1, 0.0)
    assert tuple(foothold.chosen.costs) == TERMS and foothold.terms.shape[1] == len(TERMS)
    with pytest.raises(ValueError, match="read-only"):
        foothold.costs[0] = 0.0
