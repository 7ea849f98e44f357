"""Compiled estimators against formulas in NumPy with Pinocchio's matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pinocchio as pin
import pytest
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.contact import Contact, ContactSet
from quaddyn.estimation import (
    ContactForceEstimator,
    MomentumObserver,
    SensorNoise,
    SlipDetector,
    TouchdownDetector,
    slip_detector,
)
from quaddyn.estimation.slip_detector import SLIP_END_PROBABILITY, SLIP_ONSET_PROBABILITY

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
def test_forces_are_zero_in_unobservable_directions_at_any_tolerance(tolerance: float) -> None:
    robot = qd.load("go2")
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(4)
    contacts = ContactSet(
        robot,
        [
            *(Contact.from_foot(robot, foot, normal=rng.normal(0.0, 1.0, 3)) for foot in robot.feet),
            Contact(name="belly", frame=robot.bodies[0].name, offset=np.array([0.1, 0.0, -0.1])),
            Contact(name="sole", frame="FL", kind="surface", half_size=np.array([0.01, 0.02])),
        ],
    )
    straight = robot.q_home.copy()
    straight[[robot.configuration_index(leg.knee) for leg in robot.legs.values() if leg.knee]] = 0.0
    for rows in ("all", "joints"):
        estimator = ContactForceEstimator(contacts, dt=DT, rows=rows, rank_tolerance=tolerance)  # type: ignore[arg-type]
        for q in (straight, robot.q_home):
            for v in (np.zeros(robot.nv), rng.normal(0.0, 1.0, robot.nv)):
                s = dyn.update(q, v)
                got = estimator.update(s, rng.normal(0.0, 5.0, robot.nu))
                r = estimator.observer.residual
                if tolerance < 1e-3:  # the number of zero singular values depends on rounding
                    close(contacts.jacobian(s).T @ got.stacked_forces + got.residual, r)
                    continue
                forces, undetermined = plain_forces(contacts, s, r, rows, tolerance)
                assert got.unobservable_dimensions == undetermined
                close(got.stacked_forces, forces)


def test_estimation_kernels_agree_with_python() -> None:
    robot = qd.load("go2")
    answers = []
    for context in (nullcontext, interpret):
        dyn, contacts, said = qd.Dynamics(robot), ContactSet.from_feet(robot), []
        estimator = ContactForceEstimator(contacts, dt=DT, rank_tolerance=0.2)
        slips, touchdowns = SlipDetector(robot, dt=DT, length=0.3), TouchdownDetector(robot)
        with context():
            for k, (q, v, tau) in enumerate(states(robot, 5, 4)):
                s = dyn.update(q, v)
                found = estimator.update(s, tau)
                slips.update(s, found.stacked_forces.reshape(4, 3), robot.feet)
                touchdowns.update(k * DT, found.forces)
                said.append(
                    (
                        found.stacked_forces,
                        found.unobservable_dimensions,
                        slips.slip_probability,
                        touchdowns.feet_in_contact,
                    )
                )
        answers.append(said)
    for (a, m, p, t), (b, n, q, u) in zip(*answers, strict=True):
        close(a, b)
        assert m == n and t == u and p == pytest.approx(q, rel=1e-9)


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


def density(x: np.ndarray, covariance: np.ndarray) -> float:
    """Logarithm of a normal density up to a constant."""
    return -0.5 * float(x @ np.linalg.solve(covariance, x) + np.linalg.slogdet(covariance)[1])


def test_slip_detector_agrees_with_the_hidden_markov_chain() -> None:
    """Sticking feet creep at ``-c f``, with c by recursive least squares; slipping feet move at random."""
    robot, rng = qd.load("anymal_c"), np.random.default_rng(7)
    length, dyn = 0.5, qd.Dynamics(robot)
    detector, noise = SlipDetector(robot, dt=DT, length=length), SensorNoise()
    unit, square, weight = math.sqrt(length / 9.81), 9.81 * length, robot.mass * 9.81 / 4
    still = noise.contact_velocity**2 + (length * noise.velocity) ** 2
    fast, part = still + slip_detector.SLIDING_SPEED**2 * square, DT / (slip_detector.CORRELATION_TIME * unit)
    begins, ends = slip_detector.ONSET_RATE * DT / unit, DT / (slip_detector.SLIP_TIME * unit)
    fading, settling = (
        math.exp(-DT / (slip_detector.FRICTION_TIME * unit)),
        math.exp(-2.0 * DT / (slip_detector.BRAKING_TIME * unit)),
    )
    landing, settled = slip_detector.TOUCHDOWN_SPEED**2 * square, slip_detector.SETTLED_SPEED**2 * square
    scale, light = math.sqrt(square) / weight, slip_detector.MIN_HOLDING_FORCE * weight
    n = np.array([0.1, -0.2, 1.0]) / math.sqrt(1.05)
    first = np.cross(n, [1.0, 0.0, 0.0]) / np.linalg.norm(np.cross(n, [1.0, 0.0, 0.0]))
    tangents = np.array([first, np.cross(n, first)])
    p, slips, evidence, impact, held = np.zeros(4), [False] * 4, np.zeros((4, 2)), np.full(4, landing), np.zeros(4)
    before, creep = np.zeros(4), np.zeros(2)
    seen, v = set(), np.zeros(robot.nv)
    for k in range(600):
        v = 0.95 * v + rng.normal(0.0, 0.02 + 0.05 * (k // 150 % 2), robot.nv)
        s, forces = dyn.update(robot.q_home, v), rng.normal(0.0, 30.0, (4, 3)) + 150.0 * n
        touching = robot.feet if k % 100 < 80 else robot.feet[:2]
        said = detector.update(s, forces, touching, normal=n)
        creep *= math.exp(-DT / (slip_detector.CREEP_TIME * unit))
        known = creep[1] + still / (slip_detector.UNKNOWN_CREEP * scale) ** 2
        c = min(max(creep[0] / known, 0.0), slip_detector.MAX_CREEP * scale)
        for i, foot in enumerate(robot.feet):
            if foot not in touching:
                p[i], slips[i], evidence[i], impact[i], before[i], held[i] = 0.0, False, 0.0, landing, 0.0, 0.0
                continue
            u = s.velocity(foot)
            u = tangents @ (u[:3] - robot.legs[foot].foot.radius * np.cross(u[3:], n))
            pressing, f = float(forces[i] @ n), tangents @ forces[i]
            spread = still + impact[i] + (slip_detector.CREEP_FRACTION * c) ** 2 * float(f @ f)
            holds = spread * np.eye(2) + still / known * np.outer(f, f)
            odds = density(u, (fast + impact[i]) * np.eye(2)) - density(u + c * f, holds)
            impact[i] = landing if pressing < light else settling * impact[i]
            prior = p[i] * (1.0 - ends) + (1.0 - p[i]) * begins
            odds = math.log(prior / (1.0 - prior)) + part * min(odds, 50.0)
            p[i] = 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))
            reference_weight = part if slips[i] else 1.0
            slips[i] = bool(p[i] > (SLIP_END_PROBABILITY if slips[i] else SLIP_ONSET_PROBABILITY))
            speed, along = float(np.linalg.norm(u)), float(np.linalg.norm(f))
            if pressing > 0.0 and speed >= 0.9 * before[i]:
                evidence[i] = fading * evidence[i] + (1.0 - fading) * p[i] * pressing * np.array([along, pressing])
            before[i] += reference_weight * (speed - before[i])
            if pressing >= light and impact[i] <= settled:
                share = DT / (slip_detector.HOLDING_TIME * unit + DT)
                held[i] += share * ((along / pressing if p[i] < SLIP_END_PROBABILITY else 0.0) - held[i])
                lag = float((u + c * f) @ f) / along
                if lag**2 < 9.0 * float(f @ holds @ f) / along**2 and float(np.linalg.det([u, f])) ** 2 < (
                    9.0 * spread * along**2
                ):
                    creep += part * (1.0 - p[i]) * np.array([-float(u @ f), along**2])
        assert said == detector.slipping_feet == tuple(f for f, on in zip(robot.feet, slips, strict=True) if on)
        np.testing.assert_allclose(list(detector.slip_probability.values()), p, rtol=1e-7, atol=1e-12)
        least = slip_detector.MIN_EVIDENCE * weight**2
        shown = [a / b for (a, b), on in zip(evidence.tolist(), slips, strict=True) if on and b > least]
        assert detector.friction_estimate == (pytest.approx(min(shown), rel=1e-7) if shown else None)
        assert detector.max_held_ratio == pytest.approx(held.max(), rel=1e-7, abs=1e-12)
        seen |= set(said)
    assert seen == set(robot.feet)
