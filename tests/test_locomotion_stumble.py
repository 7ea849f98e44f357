"""Feet that stumble over unknown obstacles, and the estimate of terrain roughness."""

from __future__ import annotations

import numpy as np
import pytest
from slow_parameters import NIGHT, others_slow

import quaddyn as qd
from quaddyn.campaigns import run
from quaddyn.campaigns.obstacles import ObstacleCampaign
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.footwork import Footwork
from quaddyn.locomotion.gait import GaitScheduler
from quaddyn.locomotion.ground_plane import SLOPE_TIME, GroundPlane
from quaddyn.locomotion.morphology import FEET
from quaddyn.locomotion.stumble_reflex import StumbleReflex
from quaddyn.locomotion.stumble_state import (
    ASSUMED_OBSTACLE_HEIGHT,
    MAX_EXTRA_CLEARANCE,
    ROUGH_HEIGHT,
    ROUGHNESS_DECAY_TIME,
)
from quaddyn.locomotion.swing import UNIFORM_TIMING, SwingMapping, SwingTrajectory
from quaddyn.locomotion.swing_state import allocate_swings
from quaddyn.locomotion.trunk_height_limiter import TrunkHeightLimiter
from quaddyn.robot import Robot

DT, SWING = 2e-3, 0.25


@pytest.fixture(scope="module")
def robot() -> Robot:
    return qd.load("solo12")


def opposing_force(p: Morphology) -> dict[str, np.ndarray]:
    """A force on the first foot, opposite to its motion along x."""
    return {"FL": np.array([-0.1 * p.mass * p.gravity, 0.0, 0.0])}


def begin_swing(p: Morphology) -> tuple[SwingMapping, SwingTrajectory]:
    """The first foot begins a swing at the origin."""
    swings = SwingMapping(allocate_swings())
    swings[0] = SwingTrajectory(
        np.zeros(3), np.zeros(3), duration=SWING, clearance=0.15 * p.length, touchdown_speed=0.1
    )
    return swings, swings[0]


def has_restarted(swing: SwingTrajectory) -> bool:
    """Whether a swing has been restarted away from the origin."""
    return bool(swing.start.any())


def blocked_swing(
    p: Morphology, share: float, forces: dict[str, np.ndarray] | None
) -> tuple[StumbleReflex, SwingMapping, np.ndarray]:
    """A swing foot that is blocked by a wall at the fraction `share` of its swing."""
    stumbles, feet = StumbleReflex(p), np.zeros((4, 3))
    swings, swing = begin_swing(p)
    target = np.array([0.6 * p.length, 0.0, 0.0])
    for _ in range(round(2.0 * SWING / DT)):
        stumbles.advance(swings, (0,), feet.copy(), forces, SWING, DT)
        if has_restarted(swing):
            break
        swing.advance(DT, target, SWING)
        if swing.progress < share:
            feet[0] = swing.position
        feet[0, 2] = swing.position[2]  # vertical motion is free
    return stumbles, swings, feet


@pytest.mark.parametrize("estimated", [True, False])
def test_foot_blocked_early_is_raised_before_it_moves_forward(robot: Robot, estimated: bool) -> None:
    p = Morphology.from_robot(robot)
    stumbles, swings, feet = blocked_swing(p, 0.2, opposing_force(p) if estimated else None)
    assert 0 not in stumbles.lowered_feet and stumbles.extra_clearance == ASSUMED_OBSTACLE_HEIGHT
    swing = swings[0]
    target, high = np.array([0.6 * p.length, 0.0, 0.0]), (0.15 + stumbles.extra_clearance) * p.length
    x = []
    while swing.progress < 1.0:
        swing.advance(DT, target, SWING, high)
        x.append(swing.position[[0, 2]] - feet[0, [0, 2]])
    x = np.array(x)
    risen = x[np.argmax(x[:, 0] > 0.02 * p.length), 1]
    assert risen > ASSUMED_OBSTACLE_HEIGHT * p.length  # as high as the obstacle, before it moves forward
    assert np.allclose(swing.position[:2], target[:2], atol=1e-9)


def test_foot_blocked_late_is_put_down_in_place(robot: Robot) -> None:
    p = Morphology.from_robot(robot)
    stumbles, swings, feet = blocked_swing(p, 0.65, opposing_force(p))
    assert stumbles.lowered_feet == {0: (feet[0, 0], feet[0, 1])}
    assert swings[0].progress > 0.65  # in time
    stumbles.record_touchdown(0, np.zeros(3), 0.0)
    assert not stumbles.lowered_feet


def test_foot_that_tracks_its_path_or_lags_uniformly_does_not_stumble(robot: Robot) -> None:
    p = Morphology.from_robot(robot)
    for lag in (0.0, 0.15):  # at the end the lag is twice that of a stumble
        stumbles, feet = StumbleReflex(p), np.zeros((4, 3))
        (swings, swing), target = begin_swing(p), np.array([0.6 * p.length, 0.0, 0.0])
        while swing.progress < 0.9:
            stumbles.advance(swings, (0,), feet.copy(), opposing_force(p), SWING, DT)
            swing.advance(DT, target, SWING)
            feet[0] = swing.position * (1.0 - lag, 1.0, 1.0)
        assert not has_restarted(swing) and stumbles.roughness == 0.0


@pytest.mark.parametrize("push", [0.0, 1.0])
def test_slow_foot_without_opposing_force_does_not_stumble(robot: Robot, push: float) -> None:
    p = Morphology.from_robot(robot)
    stumbles, feet = StumbleReflex(p), np.zeros((4, 3))
    (swings, swing), forces = begin_swing(p), {"FL": np.array([push * p.mass * p.gravity, 0.0, 0.0])}
    while swing.progress < 0.9:
        stumbles.advance(swings, (0,), feet.copy(), forces, SWING, DT)
        swing.advance(DT, np.array([0.6 * p.length, 0.0, 0.0]), SWING)
    assert not has_restarted(swing) and not stumbles.lowered_feet


@pytest.mark.parametrize(("vertical", "trips"), [(0.05, True), (0.2, False), (2.0, False)])
def test_foot_that_lands_early_or_scrapes_does_not_stumble(robot: Robot, vertical: float, trips: bool) -> None:
    p = Morphology.from_robot(robot)
    force = p.mass * p.gravity * np.array([-0.1, 0.0, vertical])
    stumbles, _, _ = blocked_swing(p, 0.2, {"FL": force})
    assert (stumbles.roughness > 0.0) is trips


def test_roughness_is_stored_bounded_and_decays(robot: Robot) -> None:
    p = Morphology.from_robot(robot)
    stumbles, feet = StumbleReflex(p), np.zeros((4, 3))
    stumbles.record_touchdown(1, np.zeros(3), 0.9 * ROUGH_HEIGHT * p.length)
    assert stumbles.roughness == 0.0 and stumbles.timing is UNIFORM_TIMING
    stumbles.record_touchdown(1, np.zeros(3), -0.1 * p.length)
    assert stumbles.roughness == pytest.approx(0.1) and stumbles.timing is not UNIFORM_TIMING
    stumbles.record_touchdown(2, np.zeros(3), 5.0 * p.length)
    assert stumbles.extra_clearance == MAX_EXTRA_CLEARANCE
    time = ROUGHNESS_DECAY_TIME * p.time_scale
    for _ in range(1000):
        stumbles.advance(SwingMapping(allocate_swings()), (), feet, {}, SWING, time / 1000)
    assert stumbles.roughness == pytest.approx(MAX_EXTRA_CLEARANCE * np.exp(-1.0), rel=1e-3)


@pytest.mark.parametrize("away", [(0.0, 0.0, -0.05), (0.0, 0.0, 0.05), (0.02, 0.0, -0.04)])
def test_foot_lifted_off_its_foothold_along_the_normal_must_land_again(
    robot: Robot, away: tuple[float, float, float]
) -> None:
    p = Morphology.from_robot(robot)
    footwork, clock, normals = (
        Footwork(p, TrunkHeightLimiter(robot, p).max_leg_length),
        GaitScheduler("trot", p.time_scale),
        [(0.0, 0.0, 1.0)] * 4,
    )
    feet = np.column_stack([p.nominal_stance, p.radii])
    ground = GroundPlane.from_feet(feet, p.radii, SLOPE_TIME * p.time_scale)

    def stands(touching: tuple[str, ...] | None) -> set[str]:
        return set(footwork.update_contacts(clock, ground, feet, normals, touching, DT))

    assert stands(FEET) == set(FEET)
    feet[0, 0] += 0.1 * p.length  # along the ground
    assert stands(FEET) == set(FEET)
    feet[0] += np.array(away) * p.length
    assert stands(None) == set(FEET)  # undetected with scheduled contacts
    assert stands(FEET) == set(FEET[1:]) and footwork.is_touchdown_late
    assert footwork.swings[0].progress >= 1.0 and np.array_equal(footwork.swings[0].position, feet[0])
    assert stands(FEET[1:]) == set(FEET[1:]) and footwork.is_touchdown_late  # in swing until ground contact is detected
    assert stands(FEET) == set(FEET) and not footwork.swings
    assert stands(FEET) == set(FEET) and not footwork.is_touchdown_late


def test_level_ground_is_never_rough(robot: Robot) -> None:
    dt = DT if NIGHT else 2.0 * DT
    controller = LocomotionController(robot, dt=dt, contact_detection="estimated")
    p = controller.morphology
    plant, dynamics = qd.Simulation(robot, dt=dt), qd.Dynamics(robot)
    for k in range(round(2.0 / dt)):
        wanted = (0.4 * p.speed_scale, 0.0, 0.5) if k * dt > 0.1 else (0.0, 0.0, 0.0)
        plant.step(controller.compute(dynamics.update(plant.q, plant.v), wanted).tau)
        if controller.ground is not None:
            assert controller._walking.footwork.stumble_reflex.roughness < ROUGH_HEIGHT


@pytest.mark.parametrize("name", others_slow(["solo12", "b1"], ["solo12"]))
@pytest.mark.parametrize("obstacle", ["blind-up-0.1-0.4", "blind-down-0.1-0.4"])
def test_unknown_stairs_are_passed(name: str, obstacle: str) -> None:
    campaign = ObstacleCampaign(
        robot=(name,), obstacles=(obstacle,), plants=("embedded",), trials=1, dt=DT if NIGHT else 2.0 * DT
    )
    ((_, record),) = run(campaign).results
    assert record["success"], record
