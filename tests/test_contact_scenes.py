"""Energy of dropped robots, integrated in the test without code of the plants."""

from __future__ import annotations

import os

import numpy as np
import pinocchio as pin
from hypothesis import given, settings
from hypothesis import strategies as st

import quaddyn as qd
from quaddyn.contact import ContactSet
from quaddyn.contact.solvers import ContactProblem, ContactSolution, FrictionalSolver
from quaddyn.simulation import Plane, Simulation, stairs

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


def test_drop_gains_energy_without_enforced_passivity(go2: qd.Robot) -> None:
    """Without `enforce_passivity` the bound of the test above is violated."""
    scene = Scene(go2, ContactSet.from_feet(go2), 1e-3)
    scene.passive, gains = False, []
    scene.q[2] += 0.01
    for _ in range(150):
        force = np.zeros(go2.nv)
        force[6:] = 10.0 * go2.mass * (go2.q_home[7:] - scene.q[7:])
        gains.append(scene.step(force, damping=0.5 * go2.mass)[1])
    assert max(gains) > 1e-9 * go2.mass * G * 0.05


def test_contact_forces_of_a_robot_that_tumbles_over_edges_are_in_their_friction_cones() -> None:
    """This also holds in steps of several substeps, in which the normal turns from one face of an edge to the other."""
    robot, rng = qd.load("go2"), np.random.default_rng(0)
    plant = Simulation(
        robot, dt=4e-3, friction=0.6, terrain=[Plane.floor(), *stairs(5, rise=0.1, tread=0.2, distance=0.1)]
    )
    q, v = robot.q_home.copy(), np.concatenate([[3.0, 0.0, 0.0], 3.0 * rng.normal(size=3), 4.0 * rng.normal(size=12)])
    q[2] += 0.4
    plant.reset(q, v)
    excess = []
    for _ in range(160):
        plant.step(np.zeros(robot.nu))
        for contact in plant.contacts:
            normal_force = contact.force @ contact.normal
            tangential_force = np.linalg.norm(contact.force - normal_force * contact.normal)
            excess.append(tangential_force - contact.friction * normal_force)
            assert abs(np.linalg.norm(contact.normal) - 1.0) < 1e-9
    assert len(excess) > 300 and max(excess) < 1e-6 * robot.mass * G
