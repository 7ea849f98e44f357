"""Scenes with a known result, integrated in the test: drops, a sliding box, a block on a slope, a bouncing ball."""

from __future__ import annotations

import os

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quaddyn as qd
from quaddyn.contact import Contact, ContactSet
from quaddyn.contact.solvers import ContactProblem, ContactSolution, FrictionalSolver, ImpactSolver

G = 9.81
ROBOTS: dict[str, qd.Robot] = {}


class Scene:
    """Semi-implicit Euler on `Dynamics`, `ContactSet` and `FrictionalSolver`, without code of the plants."""

    def __init__(self, robot: qd.Robot, contacts: ContactSet, dt: float, level: float = 0.0) -> None:
        self.robot, self.contacts, self.dt, self.level = robot, contacts, dt, level
        self.dyn, self.solver = qd.Dynamics(robot), FrictionalSolver()
        self.q, self.v, self.passive = robot.q_home.copy(), np.zeros(robot.nv), True

    def gaps(self, s: qd.State) -> np.ndarray:
        normals = {c.name: c.normal for c in self.contacts}
        places = self.contacts.positions(s)
        return np.array([normals[name] @ place for name, place in places.items()]) - self.level

    def step(self, force: np.ndarray, damping: float = 0.0) -> tuple[ContactSolution, float]:
        """Takes a step with implicit joint damping [N m s/rad]; returns the solution and the contacts' work [J]."""
        s = self.dyn.update(self.q, self.v)
        D = damping * np.diag(np.arange(self.robot.nv) >= 6)
        free = self.v + np.linalg.solve(s.M + self.dt * D, self.dt * (force - s.h - D @ self.v))
        gap = self.gaps(s)
        offset = np.where(gap > 0.0, gap, np.maximum(0.1 * gap, -0.1 * self.dt)) / self.dt
        J = self.contacts.jacobian(s)
        axes = [c.axes for c in self.contacts]
        problem = self.contacts.contact_problem(s, free, offset=offset, enforce_passivity=self.passive)
        if damping:  # the Delassus matrix of the damped inertia
            J_c = np.vstack([A @ J[3 * i : 3 * i + 3] for i, A in enumerate(axes)])
            W = J_c @ np.linalg.solve(s.M + self.dt * D, J_c.T)
            problem = ContactProblem(0.5 * (W + W.T), J_c @ free, problem.mu, offset, problem.previous_velocity)
        solution = self.solver.solve(problem)
        world = np.concatenate([A.T @ x for A, x in zip(axes, solution.impulses, strict=True)])
        after = free + np.linalg.solve(s.M + self.dt * D, J.T @ world)
        # residual of the equation of motion over the step
        left = s.M @ (after - self.v) - self.dt * (force - s.h - D @ after) - J.T @ world
        assert np.abs(left).max() <= 1e-9
        work = float(world @ (J @ (self.v + after)) / 2.0)
        self.q, self.v = pin.integrate(self.robot.model, self.q, self.dt * after), after
        return solution, work


@settings(max_examples=15 if "QUADDYN_SLOW" in os.environ else 4, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(("go2", "solo12", "anymal_c")),
    friction=st.floats(0.0, 2.0),
    dt=st.sampled_from((1e-3, 2e-3)),
)
def test_ground_adds_no_energy_to_a_dropped_robot(seed: int, name: str, friction: float, dt: float) -> None:
    if name not in ROBOTS:
        ROBOTS[name] = qd.load(name)
    robot, rng, height = ROBOTS[name], np.random.default_rng(seed), 0.05
    scene = Scene(robot, ContactSet.from_feet(robot, friction=friction), dt)
    scene.q = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.1, robot.nv))
    scene.v = rng.normal(0.0, 0.3, robot.nv)
    scene.v[2] = min(scene.v[2], 0.5)  # a faster start upwards does not land within the 0.2 s simulated
    scene.q[2] += 0.5 * height - scene.gaps(scene.dyn.update(scene.q, scene.v)).min()
    bar, touched, statuses = 1e-9 * robot.mass * G * height, 0, set()
    for _ in range(round(0.2 / dt)):
        force = np.zeros(robot.nv)
        force[6:] = 10.0 * robot.mass * (robot.q_home[7:] - scene.q[7:])
        solution, work = scene.step(force, damping=0.5 * robot.mass)
        assert work <= bar
        assert solution.converged and np.isfinite(scene.v).all()
        touched += bool(solution.impulses.any())
        statuses.add(solution.status)
    assert touched and statuses <= {"solved", "retried", "passive"}


def test_drop_gains_energy_without_enforced_passivity() -> None:
    """Without `enforce_passivity` the bound of the test above is violated."""
    robot = qd.load("go2")
    scene = Scene(robot, ContactSet.from_feet(robot), 1e-3)
    scene.passive, gains = False, []
    scene.q[2] += 0.01
    for _ in range(150):
        force = np.zeros(robot.nv)
        force[6:] = 10.0 * robot.mass * (robot.q_home[7:] - scene.q[7:])
        gains.append(scene.step(force, damping=0.5 * robot.mass)[1])
    assert max(gains) > 1e-9 * robot.mass * G * 0.05


def block(slope: float, friction: float, half_height: float = 0.05) -> Scene:
    """A block of 2 kg on three points, at rest on a slope through the origin."""
    text = """<robot name="block"><link name="base"><inertial><mass value="2"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.03" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    turn = pin.utils.rotate("y", slope)
    normal = turn[:, 2]
    home = np.concatenate((half_height * normal, pin.Quaternion(turn).coeffs()))
    robot = qd.load(text, root="free", q_home=home)
    corners = ((0.2, 0.1), (0.2, -0.1), (-0.2, 0.0))
    contacts = [
        Contact(
            name=f"c{i}", frame="base", offset=(x, y, 0.02 - half_height), radius=0.02, normal=normal, friction=friction
        )
        for i, (x, y) in enumerate(corners)
    ]
    return Scene(robot, ContactSet(robot, contacts), 1e-3)


@pytest.mark.parametrize("share", [0.99, 0.999, 1.001, 1.01, 1.5])
def test_block_on_a_slope_sticks_up_to_the_friction_limit(share: float) -> None:
    slope = np.arctan(0.5)
    mu = 0.5 / share
    scene = block(slope, mu)
    for _ in range(200):
        solution, _ = scene.step(np.zeros(6))
    speed = max(0.0, G * (np.sin(slope) - mu * np.cos(slope)) * 0.2)
    assert scene.v[0] == pytest.approx(speed, abs=1e-8) and np.abs(scene.v[1:]).max() < 1e-8
    assert solution.impulses[:, 2].sum() / scene.dt == pytest.approx(2.0 * G * np.cos(slope), rel=1e-9)


@pytest.mark.parametrize("mu", [0.2, 0.6, 1.0])
def test_sliding_box_stops_at_the_coulomb_distance(mu: float) -> None:
    # start at 1 m/s; a higher block would tip
    scene = block(0.0, mu, half_height=0.03)
    scene.v[0] = 1.0
    start = scene.q[0]
    for _ in range(round(1.2 / (mu * G) / scene.dt)):
        solution, work = scene.step(np.zeros(6))
        assert work <= 1e-12 and solution.converged
    assert scene.q[0] - start == pytest.approx(1.0 / (2.0 * mu * G), abs=1.0 * scene.dt)
    assert np.abs(scene.v).max() < 1e-8


@pytest.mark.parametrize("e", [0.0, 0.5, 0.9, 1.0])
def test_bouncing_ball_retains_e_squared_of_its_energy(e: float) -> None:
    # between impacts the parabola is exact, so that heights depend on the impacts alone
    height, v, solver, mass = 1.0, 0.0, ImpactSolver(e), 0.3
    for bounce in range(1, 5):
        v = -np.sqrt(2.0 * G * height)
        impact = solver.collide(ContactProblem(np.eye(3) / mass, np.array([0.0, 0.0, v]), 0.4))
        after = impact.solution.velocities[0, 2]
        assert impact.work == pytest.approx(0.5 * mass * (after**2 - v**2), abs=1e-9)
        height = after**2 / (2.0 * G)
        assert height == pytest.approx(e ** (2 * bounce), abs=1e-9)


def test_spinning_ball_loses_energy_in_every_bounce() -> None:
    rng, J = np.random.default_rng(17), np.hstack((np.eye(3), -pin.skew(np.array([0.0, 0.0, -0.1]))))
    M = np.diag([0.3, 0.3, 0.3, 0.002, 0.002, 0.002])
    for _ in range(50):
        v = rng.normal(0.0, 2.0, 6)
        v[2] = -abs(v[2])
        W = J @ np.linalg.solve(M, J.T)
        impact = ImpactSolver(0.8).collide(ContactProblem(W, J @ v, 0.3))
        after = v + np.linalg.solve(M, J.T @ impact.solution.impulses[0])
        change = 0.5 * (after @ M @ after - v @ M @ v)
        assert change == pytest.approx(impact.work, abs=1e-9) and change < 0.0
        assert after[2] == pytest.approx(-0.8 * v[2], abs=1e-8) and impact.restitution == 0.8
