"""The rows of each element in a compiled tick equal those of plain matrices with Pinocchio's terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from finite_differences import derivative, second_derivative
from numpy_wbc import AXES, assert_same_rows, numpy_tick
from slow_parameters import others_slow
from wbc_elements import ELEMENTS, EXPORTED, ROBOTS, any_contacts, contacts_for, state

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import Command, ContactMotion, ForceTask, JointAccelerationTask, Task, WholeBodyController


def set_random_references(wbc: WholeBodyController, s: qd.State, rng: np.random.Generator) -> None:
    """Sets random references of all elements; positions are those of another state."""
    elsewhere = qd.Dynamics(wbc.robot).update(*state(wbc.robot, rng))
    for element in wbc.tasks.values():
        if isinstance(element, Task):
            n = len(element.labels)
            there = element.position(elsewhere) if element.size else None
            element.reference(there, rng.normal(size=n), rng.normal(size=n))
        elif isinstance(element, ForceTask):
            named = [name for name in wbc.contacts if rng.random() < 0.7]
            element.reference({name: rng.normal(size=rng.choice([3, 6])) for name in named})
    for settings in wbc.contacts.values():
        settings.surface_height = float(s.placement(settings.frame).translation @ settings.normal) + 0.02
        settings.set_normal_force_bounds(*((2.0, 80.0) if rng.random() < 0.5 else (0.0, np.inf)))


def kinds_and_robots(kinds: list[str]) -> list[Any]:
    """Each kind of element on Go2 and on every fourth robot; the rest in the nightly run."""
    pairs = [(kind, name) for kind in kinds for name in ROBOTS]
    often = {pair for i, pair in enumerate(pairs) if pair[1] == "go2" or (i // len(ROBOTS) + i % len(ROBOTS)) % 4 == 1}
    return others_slow(pairs, often)


@pytest.mark.parametrize(
    ("kind", "robot_name"), kinds_and_robots([kind for kind in ELEMENTS if kind != "collision_limits"])
)
def test_rows_equal_those_of_plain_matrices(kind: str, robot_name: str) -> None:
    """In any state, with contacts of any kind: active, ramped and inactive."""
    robot = ROBOTS[robot_name]()
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(len(kind) + 100 * len(robot_name))
    element = ELEMENTS[kind](robot)
    motion = [] if isinstance(element, ContactMotion) else [ContactMotion(robot)]
    rest = JointAccelerationTask(robot, "rest")
    wbc = WholeBodyController(
        robot, constraints=motion, tasks=[element, [], rest], contacts=contacts_for(kind, robot, rng), ramp_time=0.004
    )
    names, count, before = tuple(wbc.contacts), 0, None
    for k in range(9):
        s = dyn.update(*state(robot, rng))
        if k > 0:  # the first one holds the current position
            set_random_references(wbc, s, rng)
        chosen = [name for i, name in enumerate(names) if (k // 3 + i) % 3]
        c = wbc.compute(s, chosen)
        count += assert_same_rows(c.details.problem, numpy_tick(wbc, s, before).problem)
        before = c.tau
    assert count > 12


class Motion:
    """The motion through a state with the accelerations of random unknowns x.

    Attributes:
        x: random accelerations and forces.
        a: the resulting generalized accelerations (nv,).
    """

    def __init__(self, wbc: WholeBodyController, s: qd.State, rng: np.random.Generator) -> None:
        unknowns = numpy_tick(wbc, s).unknowns
        self.robot, self.q, self.v = wbc.robot, s.q.copy(), s.v.copy()
        self.x = 2.0 * rng.normal(size=unknowns.n)
        self.a = unknowns.T @ self.x + unknowns.t
        self.dynamics = qd.Dynamics(self.robot)

    def at(self, t: float) -> qd.State:
        """Returns the state at time t."""
        q = pin.integrate(self.robot.model, self.q, t * self.v + 0.5 * t * t * self.a)
        return self.dynamics.update(q, self.v + t * self.a)

    def second(self, f: Callable[[qd.State], Any]) -> np.ndarray:
        """Second derivative of a function of the state."""
        return second_derivative(lambda t: np.array(f(self.at(t))))

    def turning(self, frame: str) -> np.ndarray:
        """Angular acceleration of a frame."""
        start = self.at(0.0).placement(frame).rotation
        return self.second(lambda s: pin.log3(s.placement(frame).rotation @ start.T))


def equality_row_residuals(c: Command, owner: str, x: np.ndarray) -> dict[str, float]:
    """Values of the rows with target zero at x, by name."""
    out: dict[str, float] = {}
    for group in (g for level in c.details.problem.levels for g in level if g.element == owner):
        out |= dict(zip(group.names, (group.A @ x - group.lower).tolist(), strict=True))
    return out


@pytest.mark.parametrize(
    ("kind", "robot_name"), kinds_and_robots([k for k in ELEMENTS if issubclass(EXPORTED[k], Task)])
)
def test_motion_rows_are_second_derivatives_of_what_they_measure(kind: str, robot_name: str) -> None:
    robot = ROBOTS[robot_name]()
    dyn, rng, task = qd.Dynamics(robot), np.random.default_rng(0), ELEMENTS[kind](robot)
    task.gains(0.0)
    wbc = WholeBodyController(robot, constraints=[], tasks=[task], contacts=any_contacts(robot, rng), ramp_time=0.0)
    s = dyn.update(*state(robot, rng))
    c = wbc.compute(s, () if kind == "foot" else tuple(wbc.contacts))
    motion = Motion(wbc, s, rng)
    if kind == "momentum":
        rate = derivative(lambda t: np.array(task.velocity(motion.at(t))))
    else:
        task.hold_position(motion.at(0.0))
        rate = -motion.second(task.error)
    rows = equality_row_residuals(c, "element", motion.x)
    assert len(rows) == len(task.rows_used)
    for name, value in zip(task.row_names, rate, strict=True):
        if name in rows:
            assert rows[name] == pytest.approx(value, rel=1e-6, abs=1e-6 * (1.0 + np.abs(motion.a).max())), name


@pytest.mark.parametrize("robot_name", ROBOTS)
def test_contact_rows_are_accelerations_of_contact_points(robot_name: str) -> None:
    """Acceleration of the center of the sphere, and of the point below it due to the rotation of the sphere."""
    robot = ROBOTS[robot_name]()
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(1)
    contacts = [replace(c, force_only=False, stiffness=None) for c in any_contacts(robot, rng)]
    hold = ContactMotion(robot, damping=0.0)
    wbc = WholeBodyController(robot, constraints=[hold], tasks=[], contacts=contacts, ramp_time=0.0)
    s = dyn.update(*state(robot, rng))
    c = wbc.compute(s, tuple(wbc.contacts))
    motion = Motion(wbc, s, rng)
    rows = equality_row_residuals(c, "contact", motion.x)
    for contact in contacts:

        def centre(s: qd.State, contact: Contact = contact) -> np.ndarray:
            pose = s.placement(contact.frame)
            return np.array(pose.translation + pose.rotation @ contact.offset)

        turning = motion.turning(contact.frame)
        wanted = motion.second(centre) - np.cross(turning, contact.radius * contact.normal)
        wanted = np.concatenate((wanted, turning))[: contact.rows]
        found = [rows[f"{contact.name} contact {axis}"] for axis in AXES[: contact.rows]]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * (1.0 + np.abs(motion.a).max()))
