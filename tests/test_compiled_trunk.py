"""Compiled references of the trunk equal the same functions in Python."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from test_simulation_compiled import assert_compiled_equals_python as assert_machine_code_equals_python
from unit_scaling import assert_compiled_equals_python

import quaddyn as qd
from quaddyn.locomotion import leg_margins, trunk_controller
from quaddyn.locomotion.com_preview import ComReference
from quaddyn.locomotion.friction_model import FrictionState
from quaddyn.locomotion.gait import GaitScheduler
from quaddyn.locomotion.ground_plane import allocate_ground_state
from quaddyn.locomotion.morphology import BodyParameters, Morphology, make_body_parameters
from quaddyn.locomotion.motion import allocate_motion
from quaddyn.locomotion.path_reference import PathState
from quaddyn.locomotion.swing import allocate_swings


@pytest.fixture(scope="module")
def body() -> BodyParameters:
    return make_body_parameters(Morphology.from_robot(qd.load("go2")))


def random_trunk(rng: np.random.Generator) -> trunk_controller.TrunkState:
    trunk = trunk_controller.allocate_trunk_state()
    trunk.slope_lowering, trunk.height, trunk.target_height = 0.3, rng.normal(size=3), 0.3
    trunk.com_offset[:], trunk.target_offset[:] = rng.normal(size=(2, 3)), rng.normal(size=2)
    trunk.remaining_time = float(rng.choice([-0.1, 1e-3, 0.5]))
    trunk.height_trim, trunk.tilt_trim[:] = 0.01, 0.03 * rng.normal(size=2)  # less than its limit along each axis
    return trunk


@pytest.mark.parametrize("seed", range(20))
def test_compiled_trunk_references_equal_python(seed: int, body: BodyParameters) -> None:
    rng = np.random.default_rng([10, seed])
    trunk, ground = random_trunk(rng), allocate_ground_state()
    reference = ComReference.allocate(cop=2, dcm=2, load_fractions=4)
    reference.cop[:], reference.dcm[:] = 0.1 * rng.normal(size=2), 0.1 * rng.normal(size=2)
    reference.load_fractions[:] = rng.choice([0.0, 0.5], 4) * (seed % 4 > 0)
    reference.frequency, reference.vertical_force = 5.0, float(rng.uniform(0.0, 2.0))
    reference.height, reference.height_rate = 0.1 * rng.normal(), rng.normal()
    path = PathState.allocate(position=2, velocity=3)
    path.yaw, path.velocity[:] = rng.normal(), rng.normal(size=3)
    ground.points[:], ground.slope[:] = rng.normal(size=(4, 3)), 0.3 * rng.normal(size=2)
    ground.slope_rate[:], ground.climb_rate, ground.lowering = rng.normal(size=2), 0.1, 0.02
    ground.follows_map = bool(seed % 2)
    motion, friction = allocate_motion(), FrictionState.allocate(normals=(4, 3), has_new_normal=4, normal=3)
    motion.com, motion.velocity, motion.R_base = rng.normal(size=3), rng.normal(size=3), pin.exp3(rng.normal(size=3))
    friction.friction, friction.normal[:], trunk.is_stepping_fast = 0.5, (0.0, 0.6, 0.8), bool(seed % 3)
    arguments = trunk, reference, path, ground, body, motion, friction
    assert_compiled_equals_python(trunk_controller.update_trunk_references, *arguments, 0.002)
    trunk_controller.update_trunk_references(*arguments, 0.002)
    np.testing.assert_allclose(trunk.references.base @ trunk.references.base.T, np.eye(3), atol=1e-12)
    com, base, rows = np.full(22, 2.0), np.full(28, 2.0), np.full((4, 8), np.nan)
    assert assert_machine_code_equals_python(trunk_controller.write_task_references, trunk, com, base, rows)
    assert not assert_machine_code_equals_python(trunk_controller.write_task_references, trunk, com, com, rows)
    assert_compiled_equals_python(trunk_controller.set_base_weight, trunk, base, float(rng.choice([1.0, 0.1])))


@pytest.mark.parametrize("seed", range(5))
def test_compiled_trunk_motions_equal_python(seed: int, body: BodyParameters) -> None:
    rng = np.random.default_rng([11, seed])
    trunk, numbers = random_trunk(rng), [float(x) for x in rng.normal(size=8)]
    numbers[1] = -abs(numbers[1])  # a falling trunk
    assert_compiled_equals_python(trunk_controller.start_trunk_motion, trunk, *numbers[:4])
    assert_compiled_equals_python(trunk_controller.start_trunk_stop, trunk, body, *numbers[:4])
    assert_compiled_equals_python(trunk_controller.lower_trunk, trunk, *numbers[4:7])


def test_motion_references_are_those_of_the_tasks() -> None:
    robot, rng = qd.load("go2"), np.random.default_rng(12)
    direct, public = qd.WholeBodyController(robot), qd.WholeBodyController(robot)
    trunk = trunk_controller.allocate_trunk_state()
    references = trunk.references
    references.com, references.com_velocity, references.com_acceleration = rng.normal(size=(3, 3))
    references.base, references.base_velocity = pin.exp3(rng.normal(size=3)), rng.normal(size=3)
    references.has_force[:], references.base_weight_fraction = (0, 1, 1, 0), 0.25
    references.contact_forces[1:3] = rng.normal(size=(2, 3))
    com, base = public.tasks["com"], public.tasks["base"]
    com.reference(references.com, references.com_velocity, references.com_acceleration)
    base.reference(references.base, references.base_velocity)
    base.weight = 0.25 * base.weight
    forces = {"FR": references.contact_forces[1], "RL": references.contact_forces[2]}
    public.tasks["forces"].reference(forces)
    tasks = direct.tasks
    rows = np.full((4, 8), np.nan)
    assert trunk_controller.write_task_references(trunk, tasks["com"].block, tasks["base"].block, rows)
    tasks["forces"].set_point_forces(("FL", "FR", "RL", "RR"), rows)
    np.testing.assert_array_equal(direct.parameter_vector, public.parameter_vector)
    given = tasks["forces"].references
    assert given.keys() == forces.keys() and len(given) == 2 and "FL" not in given
    for name, force in forces.items():
        np.testing.assert_array_equal(given[name], force)
    with pytest.raises(KeyError):
        given["FL"]
    state = qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv))
    commands = [each.compute(state) for each in (direct, public)]
    assert commands[0].tau.tobytes() == commands[1].tau.tobytes()
    for problem in (commands[0].details.problem, commands[1].details.problem):
        np.testing.assert_array_equal(
            np.concatenate([group.lower for level in problem.levels for group in level]),
            np.concatenate([group.lower for level in commands[0].details.problem.levels for group in level]),
        )


def test_point_forces_of_other_contacts_are_rejected() -> None:
    wbc = qd.WholeBodyController(qd.load("go2"))
    with pytest.raises(qd.UnknownNameError, match="nose"):
        wbc.tasks["forces"].set_point_forces(("nose",), np.ones((1, 8)))


@pytest.mark.parametrize("seed", range(10))
def test_compiled_lowering_of_the_trunk_equals_python(seed: int, body: BodyParameters) -> None:
    rng, scheduler, ground = np.random.default_rng([14, seed]), GaitScheduler("trot", 0.2), allocate_ground_state()
    scheduler.start()
    for _ in range(10 * seed):
        scheduler.advance(0.005)
    path = PathState.allocate(position=2, velocity=3)
    path.yaw, path.velocity[:] = rng.normal(), rng.normal(size=3)
    ground.points[:, :2] = body.nominal_stance + 0.05 * rng.normal(size=(4, 2))
    ground.next_footholds[:], ground.has_next_foothold[:] = 0.1 * rng.normal(size=(4, 3)), rng.integers(0, 2, 4)
    ground.slope[:] = 0.2 * rng.normal(size=2)
    swings = allocate_swings()
    swings.progress[:], swings.is_swinging[:] = rng.uniform(0.0, 1.0, 4), rng.integers(0, 2, 4)
    arguments = body, np.full(4, 0.4), scheduler.state, path, ground, swings, 0.01, -0.02
    assert assert_compiled_equals_python(leg_margins.compute_required_lowering, *arguments) >= 0.0
