"""Compiled estimators against formulas in NumPy with Pinocchio's matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pinocchio as pin
import pytest
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.contact import Contact, ContactSet
from quaddyn.estimation import (
    ContactForceEstimator,
    MomentumObserver,
    TouchdownDetector,
)

DT = 2e-3
ROBOTS = [("go1", "free"), ("anymal_c", "free"), ("solo12", "planar"), ("z1", "fixed"), ("go2", "free")]


def states(robot: qd.Robot, seed: int, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Joint configurations near home with distant base positions, velocities and torques."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        q = pin.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.3, robot.nv))
        if robot.root == "free":
            q[:2] += rng.normal(0.0, 20.0, 2)
        v = rng.normal(0.0, 2.0, robot.nv) * rng.choice([1.0, 1.0, 2e-4], robot.nv)  # some joints nearly at rest
        out.append((q, v, rng.normal(0.0, 5.0, robot.nu)))
    return out


class PlainObserver:
    """Momentum observer with matrices: ``p = M v``, ``C^T v - g``."""

    def __init__(self, robot: qd.Robot, gain: float) -> None:
        self.robot, self.dynamics, self.beta = robot, qd.Dynamics(robot), math.exp(-gain * DT)
        self.r, self.p, self.drive = np.zeros(robot.nv), None, np.zeros(robot.nv)

    def update(self, s: qd.dynamics.State, tau: np.ndarray) -> np.ndarray:
        robot, v = self.robot, s.v
        p = s.M @ v
        drive = self.dynamics.coriolis(s.q, v).T @ v - s.gravity
        drive -= robot.damping * v + robot.friction * v / np.maximum(np.abs(v), 1e-3)
        if self.p is not None:
            u = (p - self.p) / DT - 0.5 * (self.drive + drive)
            u[robot.actuated_index] -= tau
            self.r = self.beta * self.r + (1.0 - self.beta) * u
        self.p, self.drive = p, drive
        return self.r


def plain_forces(
    contacts: ContactSet, s: qd.dynamics.State, r: np.ndarray, rows: str, tolerance: float
) -> tuple[np.ndarray, int]:
    """Least squares by singular values; returns forces and the number of undetermined directions."""
    J = contacts.jacobian(s)
    if rows == "all":
        root = np.linalg.cholesky(s.M)
        A, b = np.linalg.solve(root, J.T), np.linalg.solve(root, r)
    else:
        driven = contacts.robot.actuated_index
        A, b = J.T[driven], r[driven]
    forces, _, rank, _ = np.linalg.lstsq(A, b, rcond=tolerance)
    return forces, len(J) - int(rank)


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    """Asserts equality within 1e-10 of the largest entry."""
    np.testing.assert_allclose(got, wanted, rtol=0.0, atol=1e-10 * max(1.0, float(np.abs(wanted).max(initial=0.0))))


@pytest.mark.parametrize(("name", "root"), others_slow(ROBOTS, ROBOTS[:3]))
@pytest.mark.parametrize("gain", [50.0, np.inf])
def test_recursive_residual_agrees_with_matrices(name: str, root: str, gain: float) -> None:
    robot = qd.load(name, root=root)
    dyn, plain, observer = qd.Dynamics(robot), PlainObserver(robot, gain), MomentumObserver(robot, dt=DT, gain=gain)
    for q, v, tau in states(robot, 0, 30):
        s = dyn.update(q, v)
        close(observer.update(s, tau), plain.update(s, tau))
    observer.reset()
    assert not observer.is_initialized and not observer.residual.any()


def test_residual_agrees_for_robots_with_coupled_joints() -> None:
    robot = qd.load("panda")
    assert robot.coupling is not None
    dyn, plain, observer = qd.Dynamics(robot), PlainObserver(robot, 80.0), MomentumObserver(robot, dt=DT, gain=80.0)
    rng = np.random.default_rng(3)
    for _ in range(10):
        q, v = (
            robot.algorithms.integrate(robot.model, robot.q_home, rng.normal(0.0, 0.1, robot.nv)),
            rng.normal(0.0, 1.0, robot.nv),
        )
        s, tau = dyn.update(q, v), rng.normal(0.0, 1.0, robot.nu)
        close(observer.update(s, tau), plain.update(s, tau))


@pytest.mark.parametrize("name", others_slow(["go2", "anymal_c", "hyq"], ["go2", "anymal_c"]))
@pytest.mark.parametrize("rows", ["all", "joints"])
def test_contact_forces_are_the_least_squares_solution(name: str, rows: str) -> None:
    robot = qd.load(name)
    dyn, contacts = qd.Dynamics(robot), ContactSet.from_feet(robot)
    estimator = ContactForceEstimator(contacts, dt=DT, rows=rows)  # type: ignore[arg-type]
    for k, (q, v, tau) in enumerate(states(robot, 1, 40)):
        contacts.activate(robot.feet[: k % 5])
        s = dyn.update(q, v)
        got = estimator.update(s, tau)
        forces, undetermined = plain_forces(contacts, s, estimator.observer.residual, rows, 1e-3)
        assert got.unobservable_dimensions == undetermined and tuple(got.forces) == contacts.active
        close(got.stacked_forces, forces)
        close(np.concatenate([*got.forces.values(), np.zeros(0)]), forces)
        close(got.residual, estimator.observer.residual - contacts.jacobian(s).T @ forces)


@pytest.mark.parametrize("tolerance", [0.0, 1e-8, 1e-3, 0.05, 0.3])
def test_forces_are_zero_in_unobservable_directions_at_any_tolerance(tolerance: float, go2: qd.Robot) -> None:
    dyn, rng = qd.Dynamics(go2), np.random.default_rng(4)
    contacts = ContactSet(
        go2,
        [
            *(Contact.from_foot(go2, foot, normal=rng.normal(0.0, 1.0, 3)) for foot in go2.feet),
            Contact(name="belly", frame=go2.bodies[0].name, offset=np.array([0.1, 0.0, -0.1])),
            Contact(name="sole", frame="FL", kind="surface", half_size=np.array([0.01, 0.02])),
        ],
    )
    straight = go2.q_home.copy()
    straight[[go2.configuration_index(leg.knee) for leg in go2.legs.values() if leg.knee]] = 0.0
    for rows in ("all", "joints"):
        estimator = ContactForceEstimator(contacts, dt=DT, rows=rows, rank_tolerance=tolerance)  # type: ignore[arg-type]
        for q in (straight, go2.q_home):
            for v in (np.zeros(go2.nv), rng.normal(0.0, 1.0, go2.nv)):
                s = dyn.update(q, v)
                got = estimator.update(s, rng.normal(0.0, 5.0, go2.nu))
                r = estimator.observer.residual
                if tolerance < 1e-3:  # the number of zero singular values depends on rounding
                    close(contacts.jacobian(s).T @ got.stacked_forces + got.residual, r)
                    continue
                forces, undetermined = plain_forces(contacts, s, r, rows, tolerance)
                assert got.unobservable_dimensions == undetermined
                close(got.stacked_forces, forces)


# -- detectors -------------------------------------------------------------------------------------------------------
def plain_trigger(on: float, off: float, dwell: float, feet: int) -> Callable[[float, np.ndarray], list[bool]]:
    """Schmitt triggers with dwell time for all normal forces."""
    touching, since = [False] * feet, [math.nan] * feet

    def update(time: float, normal: np.ndarray) -> list[bool]:
        for i, force in enumerate(normal):
            if not (force < off if touching[i] else force > on):
                since[i] = math.nan
                continue
            if math.isnan(since[i]):
                since[i] = time
            if time - since[i] >= dwell * (1.0 - 1e-9):
                touching[i], since[i] = not touching[i], math.nan
        return list(touching)

    return update


def test_touchdown_detector_is_a_schmitt_trigger_with_dwell_time() -> None:
    robot, rng = qd.load("go2"), np.random.default_rng(6)
    detector = TouchdownDetector(robot, dwell_time=0.005)
    plain = plain_trigger(detector.touchdown_threshold, detector.liftoff_threshold, detector.dwell_time, 4)
    n, forces, changes = np.array([0.0, 0.6, 0.8]), np.zeros((4, 3)), 0
    for k in range(3000):
        forces = 0.8 * forces + rng.normal(0.0, 8.0, (4, 3))
        given = forces if k % 2 else dict(zip(robot.feet, forces, strict=True))
        changes += len(detector.update(k * DT, given, normal=n))  # type: ignore[arg-type]
        wanted = plain(k * DT, forces @ n)
        assert detector.feet_in_contact == tuple(f for f, on in zip(robot.feet, wanted, strict=True) if on)
    assert changes == len(detector.events.history) > 50
