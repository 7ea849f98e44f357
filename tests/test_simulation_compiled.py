"""Compiled functions of contacts, simulation and preview give the same results as in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import recorded
from reference_models import EVERYTHING

import quaddyn as qd
from quaddyn import Simulation
from quaddyn.compiler import Entry, interpret
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.contact.solvers import frictional_core as solver
from quaddyn.dynamics import joint_placements, kinematic_tree
from quaddyn.locomotion import com_preview, gait, ground_plane, path_reference
from quaddyn.locomotion.gait import GAITS, GaitScheduler, compute_force_profile
from quaddyn.simulation import (
    Actuators,
    Box,
    HeightField,
    Plane,
    actuators,
    integrator,
    terms,
    terrain,
)
from quaddyn.simulation.plant_data import StepResult
from quaddyn.simulation.terrain import Terrain

#: Largest difference, as a fraction of the largest number of an array, or of 1.
TOLERANCE = 1e-12


@contextmanager
def as_python() -> Iterator[None]:
    """Replaces every entry by its Python function, also in calls of other entries."""
    with interpret(), pytest.MonkeyPatch.context() as patch:
        for unit in CompilationUnit.registry.values():
            for each in unit.entries:
                patch.setattr(each, "_call", None)
        yield


def run_compiled_and_python(entry: Entry, *arguments: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Results and arguments after the call, in machine code and in Python, from copies of the arguments."""
    mine, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    machine = entry.compile()(*mine)
    with as_python():
        assert entry.compile() is entry.python
        return [(machine, mine), (entry.python(*theirs), theirs)]


def assert_close(a: Any, b: Any, what: str = "") -> None:
    """Asserts that numbers, arrays and named tuples are equal up to rounding, and integers exactly."""
    if isinstance(a, tuple):
        for name, x, y in zip(getattr(a, "_fields", range(len(a))), a, b, strict=True):
            assert_close(x, y, f"{what}.{name}")
    elif isinstance(a, np.ndarray) and a.dtype == np.float64:
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b), what)
        scale = max(1.0, np.abs(a[np.isfinite(a)]).max(initial=0.0))
        np.testing.assert_allclose(a, b, rtol=0.0, atol=TOLERANCE * scale, err_msg=what)
    elif isinstance(a, float):
        assert a == b or abs(a - b) <= TOLERANCE * max(1.0, abs(a)), what
    else:
        np.testing.assert_array_equal(a, b, what)


def assert_compiled_equals_python(entry: Entry, *arguments: Any) -> Any:
    """Asserts equal results in machine code and Python, and returns the result."""
    (result, after), (expected, wanted) = run_compiled_and_python(entry, *arguments)
    assert type(result) is type(expected) or isinstance(expected, np.generic | int)
    assert_close(result, expected, entry.__name__)
    assert_close(after, wanted, entry.__name__)
    recorded.note(entry.__name__, (expected, wanted))
    return result


# -- solver --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_compiled_contact_solver_equals_python(k: int) -> None:
    rng = np.random.default_rng([1, k])
    for i in range(12):
        J = rng.normal(size=(3 * k, 3 * k + 6))
        G, g = J @ J.T / (3 * k), rng.normal(size=3 * k)
        g[2::3] -= 1.0
        mu = rng.uniform(0.1, 1.0, k)
        start = rng.normal(size=3 * k) if i % 2 else np.zeros(3 * k)
        work = solver.make_contact_workspace(k + i % 3)  # extra capacity has no effect
        residual = assert_compiled_equals_python(solver.solve_contact_problem, G, g, mu, start, 1e-8, 4, work)
        assert residual <= 1e-8


def test_compiled_contact_solver_equals_python_where_newton_steps_stall() -> None:
    """More contacts than degrees of freedom: impulses are not unique, velocities are."""
    rng, swept = np.random.default_rng(2), 0
    for _ in range(25):
        J = rng.normal(size=(18, 7))
        G, g, mu = J @ J.T, J @ rng.normal(size=7), np.full(6, 0.9)
        (a, (*_, mine, _, _, work)), (b, (*_, theirs, _, _, _)) = run_compiled_and_python(
            solver.solve_contact_problem, G, g, mu, np.zeros(18), 1e-8, 4, solver.make_contact_workspace(6)
        )
        swept += work.effort.steps > solver.MAX_FIRST_NEWTON_STEPS
        if max(a, b) <= 1e-8:
            np.testing.assert_allclose(G @ mine, G @ theirs, atol=1e-6)
        else:
            assert min(a, b) > 1e-8
    assert swept


def test_compiled_contact_solver_equals_python_without_a_solution() -> None:
    bad = np.full(6, np.inf)
    assert (
        assert_compiled_equals_python(
            solver.solve_contact_problem,
            np.eye(6),
            bad,
            np.ones(2),
            np.zeros(6),
            1e-8,
            1,
            solver.make_contact_workspace(2),
        )
        == np.inf
    )


# -- where spheres touch -------------------------------------------------------------------------------------------
def hills(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(0.08 * np.sin(7.0 * x) * np.cos(5.0 * y) + 0.1 * np.abs(x))


def landscape(rng: np.random.Generator) -> Terrain:
    return Terrain.from_surfaces(
        [
            Plane(np.array([0.0, 0.0, -0.1]), rng.normal(size=3) + np.array([0.0, 0.0, 4.0])),
            Box(rng.uniform(-0.3, 0.3, 3), rng.uniform(0.1, 0.4, 3), pin.exp3(rng.normal(size=3)), friction=0.3),
            HeightField.from_function(hills, (-0.5, 0.5), (-0.4, 0.6), spacing=0.1),
            HeightField.from_function(lambda x, y: np.abs(x) + 0.0 * y, (-0.5, 0.5), (-0.5, 0.5), spacing=0.1),
        ]
    )


@pytest.mark.parametrize("seed", range(6))
def test_compiled_collision_detection_equals_python(seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    ground, n = landscape(rng).to_arrays(0.6), 60
    centers, radii = rng.uniform(-0.6, 0.6, (25, 3)), rng.uniform(0.01, 0.15, 25)
    integers = np.zeros((2, n), dtype=np.int64)
    found = terrain.CollisionBuffer(np.zeros(n), np.zeros((n, 3)), np.zeros(n), integers[0], integers[1])
    count = assert_compiled_equals_python(terrain.collide, centers, radii, ground, 0.05, found)
    assert count > 10
    small = terrain.CollisionBuffer(*(part[:5].copy() for part in found))
    assert assert_compiled_equals_python(terrain.collide, centers, radii, ground, 0.05, small) == -count


# -- the step ------------------------------------------------------------------------------------------------------
def step_arguments(sim: Simulation, steps: int = 1) -> tuple[Any, ...]:
    """Arguments of `integrator.run_steps` for some steps from where a simulation is."""
    torques, states = np.zeros((steps, sim.robot.nu)), np.zeros((steps, sim.robot.nq + sim.robot.nv))
    return sim._plant_data(), torques, states, False


def set_random_state(sim: Simulation, rng: np.random.Generator, *, lift: float, speed: float) -> None:
    """A random state, with pushes."""
    robot = sim.robot
    q = pin.integrate(robot.model, robot.q_home, 0.05 * rng.normal(size=robot.nv))
    if robot.root == "free":
        q[2] = robot.q_home[2] + lift
    sim.reset(q, speed * rng.normal(size=robot.nv))
    sim._memory.v_previous[:] = sim.v + 0.01 * rng.normal(size=robot.nv)
    sim._active_pushes = sim._make_point_forces(
        {robot.frame_names[-1]: rng.normal(size=6), robot.frame_names[0]: rng.normal(size=6)}
    )


SIMULATIONS: dict[str, Callable[[], Simulation]] = {
    "go2": lambda: Simulation(qd.load("go2")),
    "coarse": lambda: Simulation(qd.load("solo12"), dt=0.01, friction=0.9),
    "compliant": lambda: Simulation(qd.load("go2"), contact="compliant"),
    "rigid": lambda: Simulation(qd.load("go2"), contact="rigid"),
    "an arm": lambda: Simulation(qd.load("b1_z1"), friction=0.4),
    "a leg": lambda: Simulation(qd.load("two_link_leg")),
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_compiled_steps_equal_python(name: str) -> None:
    sim, rng = SIMULATIONS[name](), np.random.default_rng([4, list(SIMULATIONS).index(name)])
    touched = 0
    for lift, speed in ((-0.01, 0.0), (0.0, 0.3), (0.3, 2.0)):
        set_random_state(sim, rng, lift=lift, speed=speed)
        said = assert_compiled_equals_python(integrator.run_steps, *step_arguments(sim))
        assert said == (StepResult.NEEDS_CONTACT_SOLVER if name == "rigid" and lift <= 0.0 else StepResult.DONE)
        assert said == integrator.run_steps(*step_arguments(sim))  # the real ones
        touched += sim._n_contacts > 0
    assert touched >= 2 or name == "a leg"


def test_compiled_steps_equal_python_at_a_joint_stop() -> None:
    sim = Simulation(qd.load("two_link_leg", root="fixed"), joint_stops=True)
    robot, held = sim.robot, 0
    for speed in (0.0, 1.0, 30.0):
        sim.reset(robot.upper - 5e-3, np.full(robot.nv, speed))
        assert assert_compiled_equals_python(integrator.run_steps, *step_arguments(sim)) == StepResult.DONE
        assert integrator.run_steps(*step_arguments(sim)) == StepResult.DONE
        held += bool(sim._contacts.impulses[: 3 * sim._n_contacts].any())
    assert held


def test_compiled_steps_equal_python_with_motor_delay_and_backlash() -> None:
    leg, rng = qd.load("two_link_leg", root="fixed"), np.random.default_rng(6)
    motors = Actuators(leg, rotor_inertia=0.1, backlash=[0.02, 0.0], delay=[0.0, 2.5e-3], viscous=0.1, coulomb=0.2)
    sim = Simulation(leg, actuators=motors)
    for _ in range(4):
        sim.reset(leg.q_home, rng.normal(size=2))
        arguments = (
            *step_arguments(sim, 20)[:-3],
            5.0 * rng.normal(size=(20, 2)),
            np.zeros((20, leg.nq + leg.nv)),
            False,
        )
        assert assert_compiled_equals_python(integrator.run_steps, *arguments) == StepResult.DONE
        sim._drives.offset[:], sim._drives.speed[:] = 0.01 * rng.choice([-1.0, 1.0], 2), 3.0 * rng.normal(size=2)
        assert_compiled_equals_python(
            actuators.start_step,
            motors.torque_speed_limits,
            sim._drives,
            rng.normal(size=2),
            sim.v,
            sim.dt,
            np.zeros(2),
        )
        assert_compiled_equals_python(actuators.end_step, sim._drives, np.zeros(2), sim.v, rng.normal(size=2), sim.dt)


def test_step_reports_insufficient_contact_capacity() -> None:
    sim, rng = Simulation(qd.load("go2")), np.random.default_rng(5)
    set_random_state(sim, rng, lift=-0.01, speed=0.0)
    sim._contacts, sim._accumulated = sim._make_buffers(2)
    assert assert_compiled_equals_python(integrator.run_steps, *step_arguments(sim)) == StepResult.NEEDS_CAPACITY
    roomy = Simulation(qd.load("go2"))
    for each in (sim, roomy):
        each.reset()
        each.step(np.zeros(12))
    assert sim._n_contacts >= 4 and sim.v.tobytes() == roomy.v.tobytes()


@pytest.mark.parametrize("root", ["free", "fixed", "planar"])
def test_rigid_body_terms_equal_pinocchio(root: str) -> None:
    model = qd.load(EVERYTHING, root=root).model
    armature, rng = np.linspace(0.1, 0.2, model.nv), np.random.default_rng(11)
    model.armature = armature
    tree, data = kinematic_tree.make_kinematic_tree(model, armature), model.createData()
    found, moved = terms.make_step_terms(tree), np.zeros(model.nq)
    for scale in (0.0, 1e-4, 0.1, 3.0):
        q = pin.integrate(model, pin.neutral(model), rng.normal(size=model.nv))
        v = rng.normal(size=model.nv)
        joint_placements.place_joints(tree, q, found.joints)
        terms.compute_inertia(tree, found)
        terms.compute_bias(tree, v, found)
        joint_placements.integrate_configuration(tree, q, v, scale, moved)
        h, M = pin.nonLinearEffects(model, data, q, v), pin.crba(model, data, q, pin.Convention.WORLD)
        pin.computeJointJacobians(model, data, q)
        at_origin = data.J[:3].T + np.cross(data.J[3:].T, found.joints.origin)
        assert_close(
            (found.h, np.triu(found.M), found.joints.J[:, :3], found.joints.J[:, 3:]),
            (h, np.triu(M), at_origin, data.J[3:].T),
        )
        assert_close(moved, pin.integrate(model, q, scale * v))


# -- the preview ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(10))
def test_compiled_com_preview_equals_python(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    offsets = rng.uniform(-0.5, 1.0, 4)
    g, path = gait.allocate_gait_state(), path_reference.PathState.allocate(position=2, velocity=3)
    g.phase, g.nominal_period, g.rate_scale = rng.uniform(-0.5, 2.0), rng.uniform(0.3, 1.0), rng.uniform(1.0, 1.5)
    g.duty_factor, g.is_running = rng.uniform(0.3, 0.8), seed % 5 != 4
    g.phase_offsets[:], g.first_swing[:] = offsets, np.ceil(-offsets - 0.6)
    g.last_swing[:] = np.full(4, np.inf) if seed % 2 else g.first_swing + rng.integers(-1, 3, 4)
    compute_force_profile(g.force_profile, g.phase_offsets, g.duty_factor)
    path.position[:], path.yaw, path.velocity[:] = rng.normal(size=2), rng.normal(), rng.normal(size=3)
    preview = com_preview.make_preview_parameters(SimpleNamespace(gravity=9.81, height=0.4, natural_frequency=5.0))
    reference = com_preview.ComReference.allocate(cop=2, dcm=2, load_fractions=4)
    stance, feet, offset = rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    assert_compiled_equals_python(com_preview.update_com_reference, preview, g, path, stance, feet, offset, reference)


@pytest.mark.parametrize("seed", range(10))
def test_compiled_gait_equals_python(seed: int) -> None:
    """Phases, transitions and timing of a scheduler after random commands."""
    rng = np.random.default_rng([8, seed])
    scheduler = GaitScheduler(str(rng.choice(sorted(GAITS))), 0.2)
    scheduler.start(lead_phase=0.1)
    for _ in range(int(rng.integers(1, 400))):
        scheduler.advance(0.002)
    scheduler.set_gait(str(rng.choice(sorted(GAITS))))
    for entry in (gait.advance_phase, gait.start_stepping):
        for _ in range(20):
            assert_compiled_equals_python(entry, scheduler.state, float(rng.uniform(0.0, 0.01)))
        assert_compiled_equals_python(gait.stop_stepping, scheduler.state)
    assert_compiled_equals_python(gait.write_timing, scheduler.state, gait.allocate_feet_timing())
    assert_compiled_equals_python(gait.is_transitioning, scheduler.state)


@pytest.mark.parametrize("seed", range(10))
def test_compiled_ground_plane_equals_python(seed: int) -> None:
    rng, plane = np.random.default_rng([9, seed]), ground_plane.allocate_ground_state()
    plane.points[:], plane.next_footholds[:] = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    plane.has_next_foothold[:] = rng.integers(0, 2, 4)
    assert_compiled_equals_python(ground_plane.set_slope, plane)
    assert_compiled_equals_python(ground_plane.advance_slope, plane, 0.3)
    for _ in range(3):
        plane.points[:] = rng.normal(size=(4, 3))
        assert_compiled_equals_python(ground_plane.advance_on_map, plane, 0.002, 0.2, 0.1, 0.3, float(rng.normal()))
    assert_compiled_equals_python(ground_plane.plane_height, plane, 0.3, -0.2)
    assert_compiled_equals_python(ground_plane.write_heading_axes, 0.3, 0.2, -0.1, np.full((3, 3), np.nan))
    assert_compiled_equals_python(ground_plane.write_projection, plane, 0.3, np.full((2, 2), np.nan))
