"""Feet that stumble over unknown obstacles, and the estimate of terrain roughness."""

from __future__ import annotations

import numpy as np
import pytest
from slow_parameters import NIGHT

import quaddyn as qd
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.command import find_feet
from quaddyn.locomotion.footwork import Footwork, is_too_fast, update_contacts
from quaddyn.locomotion.gait import GaitScheduler
from quaddyn.locomotion.ground_plane import GroundPlane
from quaddyn.locomotion.leg_margins import measure_leg_lengths
from quaddyn.locomotion.morphology import FEET, make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.stumble_reflex import (
    ASSUMED_OBSTACLE_HEIGHT,
    BLOCKED_FOOT_DISTANCE,
    MAX_EXTRA_CLEARANCE,
    MAX_SCRAPING_LAG,
    RESTART_PHASE,
    ROUGH_HEIGHT,
    ROUGHNESS_DECAY_TIME,
    STUMBLE_SHAPES,
    StumbleState,
    add_touchdown,
    advance_stumble_reflex,
    allocate_foot_contacts,
    compute_extra_clearance,
    has_lowered_foot,
    set_swing_timing,
)
from quaddyn.locomotion.swing import UNIFORM_TIMING, SwingStates, SwingTrajectory, allocate_swings, start_swing
from quaddyn.robot import Robot

DT, SWING = 2e-3, 0.25


def opposing_force(p: Morphology) -> np.ndarray:
    """A force on the first foot, opposite to its motion along x."""
    return np.array([-0.1 * p.mass * p.gravity, 0.0, 0.0])


def begin_swing(p: Morphology) -> tuple[SwingStates, SwingTrajectory]:
    """The first foot begins a swing at the origin."""
    swings = allocate_swings()
    start_swing(swings, 0, np.zeros(3), np.zeros(3), np.array([0.0, 0.0, 1.0]), SWING, 0.15 * p.length, 0.1)
    return swings, SwingTrajectory.from_row(swings, 0)


def advance(
    stumbles: StumbleState,
    p: Morphology,
    swings: SwingStates,
    feet: np.ndarray,
    force: np.ndarray | None,
    dt: float = DT,
    monitored: tuple[int, ...] = (0,),
) -> None:
    """Advances the reaction with a contact force on the first foot, or with unknown forces."""
    contacts = allocate_foot_contacts()
    contacts.is_detected, contacts.has_forces = True, force is not None
    contacts.forces[0] = 0.0 if force is None else force
    stumbles.is_monitored[:] = [i in monitored for i in range(4)]
    advance_stumble_reflex(stumbles, swings, make_body_parameters(p), feet, contacts, SWING, dt)


def has_restarted(swing: SwingTrajectory) -> bool:
    """Whether a swing has been restarted away from the origin."""
    return bool(swing.start.any())


def blocked_swing(
    p: Morphology, share: float, force: np.ndarray | None
) -> tuple[StumbleState, SwingTrajectory, np.ndarray]:
    """A swing foot that is blocked by a wall at the fraction `share` of its swing."""
    stumbles, feet = StumbleState.allocate(**STUMBLE_SHAPES), np.zeros((4, 3))
    swings, swing = begin_swing(p)
    target = np.array([0.6 * p.length, 0.0, 0.0])
    for _ in range(round(2.0 * SWING / DT)):
        advance(stumbles, p, swings, feet, force)
        if has_restarted(swing):
            break
        swing.advance(DT, target, SWING)
        if swing.progress < share:
            feet[0] = swing.position
        feet[0, 2] = swing.position[2]  # vertical motion is free
    return stumbles, swing, feet


@pytest.mark.parametrize("estimated", [True, False])
def test_foot_blocked_early_is_raised_before_it_moves_forward(solo12: Robot, estimated: bool) -> None:
    p = Morphology.from_robot(solo12)
    stumbles, swing, feet = blocked_swing(p, 0.2, opposing_force(p) if estimated else None)
    extra = compute_extra_clearance(stumbles)
    assert not has_lowered_foot(stumbles) and extra == ASSUMED_OBSTACLE_HEIGHT
    assert swing.progress == RESTART_PHASE  # has time for the obstacle
    target, high = np.array([0.6 * p.length, 0.0, 0.0]), (0.15 + extra) * p.length
    x = []
    while swing.progress < 1.0:
        swing.advance(DT, target, SWING, high)
        x.append(swing.position[[0, 2]] - feet[0, [0, 2]])
    x = np.array(x)
    risen = x[np.argmax(x[:, 0] > 0.02 * p.length), 1]
    assert risen > ASSUMED_OBSTACLE_HEIGHT * p.length  # as high as the obstacle, before it moves forward
    assert np.allclose(swing.position[:2], target[:2], atol=1e-9)


def test_foot_that_is_pushed_back_stumbles(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    stumbles, feet = StumbleState.allocate(**STUMBLE_SHAPES), np.zeros((4, 3))
    (swings, swing), target = begin_swing(p), np.array([0.6 * p.length, 0.0, 0.0])
    while swing.progress < 0.5 and not has_restarted(swing):
        advance(stumbles, p, swings, feet, opposing_force(p))
        swing.advance(DT, target, SWING)
        feet[0, 0] -= DT * swing.velocity[0]
    assert has_restarted(swing)


def test_foot_blocked_late_is_put_down_in_place(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    stumbles, swing, feet = blocked_swing(p, 0.65, opposing_force(p))
    assert stumbles.is_lowered.tolist() == [1, 0, 0, 0]
    np.testing.assert_array_equal(stumbles.lowered_position[0], feet[0, :2])
    assert swing.progress > 0.65  # in time
    add_touchdown(stumbles, make_body_parameters(p), 0, np.zeros(3), 0.0)  # type: ignore[arg-type]
    assert not has_lowered_foot(stumbles)


def test_foot_that_tracks_its_path_or_lags_uniformly_does_not_stumble(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    for lag in (0.0, 0.15):  # at the end the lag is twice that of a stumble
        stumbles, feet = StumbleState.allocate(**STUMBLE_SHAPES), np.zeros((4, 3))
        (swings, swing), target = begin_swing(p), np.array([0.6 * p.length, 0.0, 0.0])
        while swing.progress < 0.9:
            advance(stumbles, p, swings, feet, opposing_force(p))
            swing.advance(DT, target, SWING)
            feet[0] = swing.position * (1.0 - lag, 1.0, 1.0)
        assert not has_restarted(swing) and stumbles.roughness == 0.0


@pytest.mark.parametrize(
    ("vertical", "min_lag"), [(0.05, BLOCKED_FOOT_DISTANCE), (0.2, MAX_SCRAPING_LAG), (2.0, MAX_SCRAPING_LAG)]
)
def test_foot_that_lands_early_or_scrapes_stumbles_only_far_behind_its_path(
    solo12: Robot, vertical: float, min_lag: float
) -> None:
    p = Morphology.from_robot(solo12)
    stumbles, feet = StumbleState.allocate(**STUMBLE_SHAPES), np.zeros((4, 3))
    (swings, swing), force, lag = begin_swing(p), p.mass * p.gravity * np.array([-0.1, 0.0, vertical]), 0.0
    while not has_restarted(swing):
        swing.advance(DT, np.array([0.6 * p.length, 0.0, 0.0]), SWING)
        feet[0, 2], lag = swing.position[2], float(swing.position[0])
        advance(stumbles, p, swings, feet, force)
    assert min_lag < lag / p.length < min_lag + 0.08  # of `BLOCKED_TIME`


def test_roughness_is_stored_bounded_and_decays(solo12: Robot) -> None:
    p = Morphology.from_robot(solo12)
    stumbles, feet = StumbleState.allocate(**STUMBLE_SHAPES), np.zeros((4, 3))
    swings, body = allocate_swings(), make_body_parameters(p)

    def land(foot: int, height_error: float) -> tuple[float, ...]:
        """Records a touchdown and returns the timing of the next swing."""
        add_touchdown(stumbles, body, foot, np.zeros(3), height_error)  # type: ignore[arg-type]
        set_swing_timing(stumbles, swings, foot)
        return tuple(swings.timing[foot].tolist())

    assert land(1, 0.9 * ROUGH_HEIGHT * p.length) == UNIFORM_TIMING and stumbles.roughness == 0.0
    assert land(1, -0.1 * p.length) != UNIFORM_TIMING and stumbles.roughness == pytest.approx(0.1)
    land(2, 5.0 * p.length)
    assert compute_extra_clearance(stumbles) == MAX_EXTRA_CLEARANCE
    time = ROUGHNESS_DECAY_TIME * p.time_scale
    for _ in range(1000):
        advance(stumbles, p, swings, feet, np.zeros(3), time / 1000, ())
    assert stumbles.roughness == pytest.approx(MAX_EXTRA_CLEARANCE * np.exp(-1.0), rel=1e-3)


def make_nominal_stance(
    robot: Robot,
) -> tuple[Morphology, Footwork, GaitScheduler, np.ndarray, np.ndarray, GroundPlane]:
    """Returns morphology, footwork, gait, centers of the feet and normals (4, 3), and the level ground below them."""
    p = Morphology.from_robot(robot)
    normals, feet = np.tile([0.0, 0.0, 1.0], (4, 1)), np.column_stack([p.nominal_stance, p.radii])
    ground = GroundPlane(feet - p.radii[:, None] * normals)
    return p, Footwork(p, measure_leg_lengths(robot)), GaitScheduler("trot", p.time_scale), feet, normals, ground


@pytest.mark.parametrize("away", [(0.0, 0.0, -0.05), (0.0, 0.0, 0.05), (0.02, 0.0, -0.04)])
def test_foot_lifted_off_its_foothold_along_the_normal_must_land_again(
    solo12: Robot, away: tuple[float, float, float]
) -> None:
    p, footwork, clock, feet, normals, ground = make_nominal_stance(solo12)
    state, contacts = footwork.state, footwork.contacts

    def stands(touching: tuple[str, ...] | None) -> set[str]:
        contacts.is_detected = touching is not None
        contacts.in_contact[:] = [foot in (touching or ()) for foot in FEET]
        body = make_body_parameters(p)
        update_contacts(state, body, clock.state, ground.state, feet, normals, contacts, DT)
        return set(find_feet(state.is_carrying))

    assert stands(FEET) == set(FEET)
    feet[0, 0] += 0.1 * p.length  # along the ground
    assert stands(FEET) == set(FEET)
    feet[0] += np.array(away) * p.length
    assert stands(None) == set(FEET)  # undetected with scheduled contacts
    assert stands(FEET) == set(FEET[1:]) and state.is_touchdown_late
    assert footwork.swings[0].progress >= 1.0 and np.array_equal(footwork.swings[0].position, feet[0])
    assert stands(FEET[1:]) == set(FEET[1:]) and state.is_touchdown_late  # in swing until ground contact is detected
    assert stands(FEET) == set(FEET) and not footwork.swings
    assert stands(FEET) == set(FEET) and not state.is_touchdown_late


def test_foot_that_slides_off_an_edge_is_lowered_until_it_is_slow(solo12: Robot) -> None:
    p, footwork, clock, feet, normals, ground = make_nominal_stance(solo12)
    state, contacts, body = footwork.state, footwork.contacts, make_body_parameters(p)
    contacts.is_detected, contacts.in_contact[:] = True, 1

    def carries() -> list[int]:
        update_contacts(state, body, clock.state, ground.state, feet, normals, contacts, DT)
        return state.is_carrying.tolist()

    assert carries() == [1, 1, 1, 1]
    contacts.is_too_fast[0] = 1
    assert carries() == [1, 1, 1, 1]  # measured to be in contact, as on ice
    contacts.in_contact[0] = 0
    assert carries() == [0, 1, 1, 1] and carries() == [0, 1, 1, 1] and state.is_touchdown_late
    contacts.is_too_fast[0], contacts.in_contact[0] = 0, 1
    assert carries() == [1, 1, 1, 1]


@pytest.mark.parametrize(("velocity", "expected"), [((0.9, 0, 0), 0), ((0.9, 0, -0.5), 1), ((0, 0, 0.6), 1)])
def test_fast_feet_are_not_in_contact(solo12: Robot, velocity: tuple[float, float, float], expected: int) -> None:
    """Velocities of the first foot in units of sqrt(g l): a foot that slides, falls, or moves away from the ground."""
    p, motion = Morphology.from_robot(solo12), allocate_motion()
    motion.foot_velocities[0] = np.array(velocity) * p.speed_scale
    body, normals = make_body_parameters(p), np.tile([0.0, 0.0, 1.0], (4, 1))
    assert [int(is_too_fast(body, motion, normals, foot)) for foot in range(4)] == [expected, 0, 0, 0]


def test_foot_near_its_foothold_on_a_map_needs_no_detected_contact(solo12: Robot) -> None:
    p, footwork, clock, feet, normals, ground = make_nominal_stance(solo12)
    state, contacts, body = footwork.state, footwork.contacts, make_body_parameters(p)
    contacts.is_detected, contacts.in_contact[:] = True, (0, 1, 1, 1)

    def lands(height: float) -> bool:
        """Ends the swing of the first foot at a height over its foothold [l]."""
        state.swings.is_swinging[0], state.swings.target[0] = 1, feet[0]
        raised = feet + np.array([0.0, 0.0, height * p.length]) * np.eye(4)[:, :1]
        update_contacts(state, body, clock.state, ground.state, raised, normals, contacts, DT)
        return bool(state.is_carrying[0])

    assert not lands(0.01)
    state.terrain.is_known = True
    assert lands(0.01) and not lands(0.1)
    state.is_blind[0] = 1
    assert not lands(0.01)


def test_level_ground_is_never_rough(solo12: Robot) -> None:
    dt = DT if NIGHT else 2.0 * DT
    controller = LocomotionController(solo12, dt=dt, contact_detection="estimated")
    p = controller.morphology
    plant, dynamics = qd.Simulation(solo12, dt=dt), qd.Dynamics(solo12)
    for k in range(round(2.0 / dt)):
        wanted = (0.4 * p.speed_scale, 0.0, 0.5) if k * dt > 0.1 else (0.0, 0.0, 0.0)
        plant.step(controller.compute(dynamics.update(plant.q, plant.v), wanted).tau)
        if controller.ground is not None:
            assert controller._walking.footwork.state.stumble.roughness < ROUGH_HEIGHT
