"""The compiled motion of center of mass, trunk and feet equals Pinocchio's; compiled functions equal Python."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from test_simulation_compiled import assert_compiled_equals_python

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.locomotion import FEET, LocomotionController, Morphology
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.motion import Motion, allocate_motion, find_motion_terms, read_motion, set_attitude
from quaddyn.wbc import WholeBodyController

DT = 2e-3


def random_state(robot: qd.Robot, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return pin.integrate(robot.model, robot.q_home, rng.normal(size=robot.nv)), rng.normal(size=robot.nv)


def read_by_pinocchio(state: qd.State, p: Morphology, shift: tuple[float, ...] = (0.0, 0.0)) -> Motion:
    """Motion of a state; the center of mass is shifted horizontally."""
    motion, base, (x, y, z) = allocate_motion(), state.robot.bodies[0].name, state.com.tolist()
    set_attitude(motion, state.placement(base).rotation, p.heading)
    motion.com, motion.velocity = (x + shift[0], y + shift[1], z), state.com_velocity  # type: ignore[assignment]
    motion.payload_shift = (*shift, 0.0)  # type: ignore[assignment]
    motion.angular_velocity, motion.feet[:] = state.velocity(base)[3:], state.origins(FEET)
    motion.foot_velocities[:] = [state.velocity(foot)[:3] for foot in FEET]
    return motion


def read(wbc: WholeBodyController, state: qd.State, shift: tuple[float, float] = (0.0, 0.0)) -> Motion:
    """Reads the motion of a state from the terms of a controller."""
    terms, foot_frames, update_terms = find_motion_terms(wbc)
    q, v = state.writable_coordinates()
    update_terms(q, v)
    motion = allocate_motion()
    motion.payload_shift = (*shift, 0.0)  # type: ignore[assignment]
    read_motion(q, v, terms, foot_frames, make_body_parameters(Morphology.from_robot(wbc.robot)), motion)
    return motion


def assert_reads_as_pinocchio(wbc: WholeBodyController, seed: int) -> None:
    """Asserts that the motion of random states is that of Pinocchio."""
    robot = wbc.robot
    rng, dynamics, p = np.random.default_rng([1, seed]), qd.Dynamics(robot), Morphology.from_robot(robot)
    for _ in range(20):
        x, y = rng.normal(size=2).tolist()
        state = dynamics.update(*random_state(robot, rng))
        for mine, theirs in zip(read(wbc, state, (x, y)), read_by_pinocchio(state, p, (x, y)), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("name", ["go2", "solo12", "hyq"])
def test_motion_equals_pinocchio(name: str) -> None:
    robot = qd.load(name)
    wbc = WholeBodyController(robot, dt=DT)
    assert_reads_as_pinocchio(wbc, 0)
    dynamics, p = qd.Dynamics(robot), Morphology.from_robot(robot)
    for contacts in ((), FEET[:1], FEET):  # also while the controller computes ticks, and without any contact
        state = dynamics.update(*random_state(robot, np.random.default_rng(2)))
        motion, expected = read(wbc, state), read_by_pinocchio(state, p)
        values = wbc.compute(state, contacts).tau
        np.testing.assert_allclose(motion.feet, expected.feet, rtol=0.0, atol=1e-14)
        fresh = WholeBodyController(robot, dt=DT)
        if contacts == ():
            np.testing.assert_array_equal(values, fresh.compute(state, contacts).tau)


def test_motion_is_read_after_elements_and_contacts_changed(go2: qd.Robot) -> None:
    wbc = WholeBodyController(go2, dt=DT)
    assert_reads_as_pinocchio(wbc, 1)
    wbc.add_contact(Contact.from_foot(go2, "FL"))
    wbc.remove("posture")
    assert_reads_as_pinocchio(wbc, 2)


def test_motion_is_read_of_a_controller_without_foot_frames(go2: qd.Robot) -> None:
    wbc = WholeBodyController(go2, dt=DT)
    for foot in FEET:
        wbc.remove(foot)
    wbc.remove_contact("RR")
    assert "RR" not in wbc.solver.tables.frames
    assert_reads_as_pinocchio(wbc, 3)


def test_terms_of_a_state_are_computed_once(go2: qd.Robot) -> None:
    wbc, dynamics = WholeBodyController(go2, dt=DT), qd.Dynamics(go2)
    calls = []
    compute = wbc.solver._fill_terms
    wbc.solver._fill_terms = lambda q, v, out: calls.append(1) or compute(q, v, out)
    for _ in range(3):
        state = dynamics.update(go2.q_home, np.zeros(go2.nv))
        read(wbc, state)
        wbc.compute(state)
    assert len(calls) == 3


def test_stale_states_are_rejected(go2: qd.Robot) -> None:
    controller, dynamics = LocomotionController(go2, dt=DT), qd.Dynamics(go2)
    state = dynamics.update(go2.q_home, np.zeros(go2.nv))
    dynamics.update(go2.q_home, np.zeros(go2.nv))
    with pytest.raises(qd.StaleStateError):
        controller.compute(state)


@pytest.mark.parametrize("seed", range(5))
def test_compiled_motion_equals_python(seed: int) -> None:
    rng, robot = np.random.default_rng([3, seed]), qd.load("go2")
    wbc, p = WholeBodyController(robot, dt=DT), Morphology.from_robot(robot)
    q, v = random_state(robot, rng)
    wbc.solver.update_terms(q, v)
    frames = np.array([wbc.solver.tables.frames.index(foot) for foot in FEET])
    motion = allocate_motion()
    motion.payload_shift = rng.normal(size=3)  # type: ignore[assignment]
    assert_compiled_equals_python(read_motion, q, v, wbc.solver.data.terms, frames, make_body_parameters(p), motion)
