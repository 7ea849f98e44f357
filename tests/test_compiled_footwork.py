"""Compiled swings, reaction to obstacles and footwork equal Python; snapshots of records do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_simulation_compiled import assert_compiled_equals_python as assert_machine_code_equals_python
from unit_scaling import assert_compiled_equals_python

import quaddyn as qd
from quaddyn.compiler import Record
from quaddyn.locomotion import LocomotionController, Morphology, footwork, stumble_reflex
from quaddyn.locomotion import swing as swing_rules
from quaddyn.locomotion.command import find_feet
from quaddyn.locomotion.foothold import DESCENT_BEGUN, PLACED_BEFORE_OBSTACLE
from quaddyn.locomotion.footwork import REASONS, FootworkState, SelectionReason, make_selections
from quaddyn.locomotion.gait import GaitScheduler, GaitState
from quaddyn.locomotion.ground_plane import GroundState, allocate_ground_state
from quaddyn.locomotion.morphology import FEET, BodyParameters, make_body_parameters
from quaddyn.locomotion.motion import Motion, allocate_motion
from quaddyn.locomotion.path_reference import PathState
from quaddyn.locomotion.state_fields import RecordSnapshot
from quaddyn.locomotion.stumble_reflex import FootContacts
from quaddyn.locomotion.swing import SwingTiming, list_swings

DT = 2e-3


@pytest.fixture(scope="module")
def body(morphology: Morphology) -> BodyParameters:
    return make_body_parameters(morphology)


def fill(record: Record, rng: np.random.Generator) -> None:
    """Sets all fields to random values: flags to 0 or 1, numbers of the order of 1."""
    for name, x in zip(record._fields, record, strict=True):
        if isinstance(x, Record):
            fill(x, rng)
        elif x.dtype == np.int64 or isinstance(getattr(record, name), bool):
            x[...] = rng.integers(0, 2, x.shape)
        else:
            x[...] = rng.uniform(-0.3, 0.3, x.shape)


def random_footwork(rng: np.random.Generator) -> FootworkState:
    """A state of the footwork with two or three swing feet on the average."""
    f = footwork.allocate_footwork()
    fill(f, rng)
    swings = f.swings
    swings.liftoff_number[:], swings.n_liftoffs = 1 + rng.permutation(4), 4
    swings.progress[:], swings.duration[:] = rng.uniform(0.0, 1.2, 4), rng.uniform(0.1, 0.3, 4)
    swings.timing[:] = (0.0, 1.0, 0.2, 0.9)
    f.max_hip_distance[:] = rng.uniform(0.05, 0.3, 4)
    f.stumble.blocked_time[:] = rng.uniform(0.0, 0.02, 4)
    f.stumble.roughness = rng.choice([0.0, 0.1])
    f.selections.reason[:] = rng.integers(0, 3, 4)
    return f


def random_contacts(rng: np.random.Generator) -> FootContacts:
    contacts = stumble_reflex.allocate_foot_contacts()
    fill(contacts, rng)
    contacts.is_detected = bool(rng.random() < 0.8)
    contacts.forces[:] *= 500.0
    return contacts


def random_gait(rng: np.random.Generator, p: Morphology) -> GaitState:
    scheduler = GaitScheduler(str(rng.choice(["trot", "walk", "pronk"])), p.time_scale)
    scheduler.start(lead_phase=0.0)
    for _ in range(int(rng.integers(1, 400))):
        scheduler.advance(DT)
    scheduler.rate_scale = float(rng.choice([1.0, 1.2]))
    return scheduler.state


def random_ground(rng: np.random.Generator) -> GroundState:
    ground = allocate_ground_state()
    fill(ground, rng)
    return ground


def random_feet(rng: np.random.Generator, f: FootworkState, p: Morphology) -> tuple[np.ndarray, np.ndarray]:
    """Centers of the foot spheres, some of them near their paths, and normals of the ground."""
    feet = rng.normal(np.column_stack([p.nominal_stance, p.radii]), 0.02)
    near = rng.random(4) < 0.7
    feet[near] = f.swings.position[near] + rng.normal(scale=0.03, size=(4, 3))[near]
    f.stumble.last_feet[:] = feet + rng.normal(scale=1e-4, size=(4, 3))
    normals = rng.normal((0.0, 0.0, 1.0), 0.1, (4, 3))
    return np.ascontiguousarray(feet), normals / np.linalg.norm(normals, axis=1)[:, None]


@pytest.mark.parametrize("seed", range(10))
def test_compiled_swings_equal_python(seed: int) -> None:
    rng, swings = np.random.default_rng([1, seed]), random_footwork(np.random.default_rng(seed)).swings
    position, velocity, normal = rng.normal(size=(3, 3))
    assert_compiled_equals_python(
        swing_rules.start_swing, swings, 2, position, velocity, normal, 0.2, 0.05, 0.1, velocity="[m/s]"
    )
    for foot in range(4):
        assert_compiled_equals_python(swing_rules.move_swing, swings, foot, *rng.normal(size=3).tolist(), 0.2, 0.1, DT)
    blocks = rng.normal(size=(4, 22))
    assert_machine_code_equals_python(footwork.set_foot_references, swings, rng.normal(size=(4, 3)), *blocks)


@pytest.mark.parametrize("seed", range(12))
def test_compiled_reaction_to_obstacles_equals_python(seed: int, morphology: Morphology, body: BodyParameters) -> None:
    rng = np.random.default_rng([2, seed])
    f, contacts = random_footwork(rng), random_contacts(rng)
    feet, _ = random_feet(rng, f, morphology)
    records = f.stumble, f.swings, body
    assert_compiled_equals_python(stumble_reflex.advance_stumble_reflex, *records, feet, contacts, 0.2, DT)


@pytest.mark.parametrize("seed", range(12))
def test_compiled_contact_update_equals_python(seed: int, morphology: Morphology, body: BodyParameters) -> None:
    rng = np.random.default_rng([3, seed])
    f, gait, ground, contacts = (
        random_footwork(rng),
        random_gait(rng, morphology),
        random_ground(rng),
        random_contacts(rng),
    )
    (feet, normals), motion = random_feet(rng, f, morphology), allocate_motion()
    motion.feet[:], motion.foot_velocities[:] = feet, 0.5 * f.swings.velocity
    assert_compiled_equals_python(footwork.update_contacts, f, body, gait, ground, feet, normals, contacts, DT)
    assert_compiled_equals_python(footwork.is_waiting_for_touchdown, f, gait)
    for foot in range(4):
        assert_compiled_equals_python(footwork.is_blocked, f, body, feet, normals, foot)
        assert_compiled_equals_python(footwork.is_at_rest, f, body, motion, normals, foot)
        assert_compiled_equals_python(footwork.is_mid_swing, f, foot)
        assert_compiled_equals_python(footwork.is_grounded, f, foot)


@pytest.mark.parametrize("seed", range(8))
def test_compiled_footholds_equal_python(seed: int, morphology: Morphology, body: BodyParameters) -> None:
    rng = np.random.default_rng([4, seed])
    f, gait, ground = random_footwork(rng), random_gait(rng, morphology), random_ground(rng)
    path, motion, balance = (
        PathState.allocate(position=2, velocity=3),
        allocate_motion(),
        footwork.allocate_balance(),
    )
    for record in (path, motion, balance):
        fill(record, rng)
    records: tuple[Any, ...] = f, body, gait, path, ground, motion
    assert_compiled_equals_python(footwork.advance_swings, *records, balance, DT)
    assert_compiled_equals_python(footwork.begin_selections, *records)
    assert_compiled_equals_python(footwork.compute_nominal_clearance, ground)
    for foot in range(4):
        assert_compiled_equals_python(footwork.compute_nominal_foothold, *records, balance, foot)
        assert_compiled_equals_python(footwork.select_blind_foothold, f, body, gait, ground, foot)
        point, normal = rng.normal(size=(2, 3))
        assert_compiled_equals_python(footwork.aim_swing, f, body, gait, foot, point, normal, foot % 3)
        assert_compiled_equals_python(footwork.add_clearance, f, body, ground, foot)
        assert_compiled_equals_python(footwork.finish_selection, f, foot, DT)


def test_swings_are_visited_in_the_order_of_their_lift_offs() -> None:
    f = footwork.allocate_footwork()
    for foot in (2, 0, 3):
        swing_rules.start_swing(f.swings, foot, np.ones(3), np.zeros(3), np.array([0.0, 0.0, 1.0]), 0.2, 0.05, 0.1)
    assert list(list_swings(f.swings)) == [2, 0, 3]
    found = swing_rules.find_next_swing(f.swings, 0)
    for expected in (2, 0, 3, -1):
        assert found == expected
        found = swing_rules.find_next_swing(f.swings, int(f.swings.liftoff_number[found]))
    f.swings.is_swinging[0] = 0
    swings = list_swings(f.swings)
    assert list(swings) == [2, 3]
    swings[2].timing = SwingTiming(0.1, 1.0, 0.0, 0.9)
    assert swings[2].timing == SwingTiming(0.1, 1.0, 0.0, 0.9) and swings[3].timing == SwingTiming(0.0, 1.0, 0.0, 1.0)


def test_selections_have_the_reasons_and_windows_of_their_rows() -> None:
    f, windows = random_footwork(np.random.default_rng(5)), [object()] * 4
    f.swings.is_swinging[:] = f.selections.is_selected[:] = 1
    f.selections.reason[:], f.selections.is_on_map[:] = (0, 1, 2, 0), (1, 1, 0, 0)
    found = make_selections(f, windows)  # type: ignore[arg-type]
    assert [found[i].reason for i in range(4)] == ["", PLACED_BEFORE_OBSTACLE, DESCENT_BEGUN, ""]
    assert [found[i].window is None for i in range(4)] == [False, False, True, True]
    assert found[1].stance.com == tuple(f.selections.com[1]) and found[1].nominal == tuple(f.selections.nominal[1])
    assert set(REASONS) == set(SelectionReason)


def test_names_of_a_mask() -> None:
    assert find_feet(np.array([1, 0, 0, 1])) == (FEET[0], FEET[3]) and find_feet(np.zeros(4, dtype=np.int64)) == ()


def test_snapshot_of_a_record_in_a_record() -> None:
    motion: Motion = allocate_motion()
    f = random_footwork(np.random.default_rng(6))
    for record in (f, f.swings, motion):
        fill(record, np.random.default_rng(7))
        snapshot, before = RecordSnapshot(record), record.copy()
        memory = snapshot.take()
        fill(record, np.random.default_rng(8))
        restored = snapshot.restore(memory)
        for name in record._fields:
            np.testing.assert_array_equal(repr(getattr(restored, name)), repr(getattr(before, name)))


def test_swings_and_footholds_of_a_command_do_not_change(go2: qd.Robot) -> None:
    controller, plant, dynamics = LocomotionController(go2, dt=DT), qd.Simulation(go2, dt=DT), qd.Dynamics(go2)
    commands, positions = [], []
    for _ in range(500):
        command = controller.compute(dynamics.update(plant.q, plant.v), (0.2, 0.0, 0.0))
        plant.step(command.tau)
        if controller._walking.footwork.swings:
            commands.append(command)
            swings = controller._walking.footwork.swings.items()
            positions.append({FEET[i]: (s.position.copy(), s.target.copy(), s.progress) for i, s in swings})
    assert commands
    for command, expected in zip(commands, positions, strict=True):
        assert list(command.swings) == list(expected) == list(command.footholds)
        for foot, (position, target, progress) in expected.items():
            swing = command.swings[foot]
            np.testing.assert_array_equal(swing.position, position)
            np.testing.assert_array_equal(swing.target, target)
            assert swing.progress == progress and command.footholds[foot] is command.footholds[foot]
