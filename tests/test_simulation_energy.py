"""The embedded plant creates no energy in flight or on the ground at any speed, or reports it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.control import JointPD
from quaddyn.simulation import Simulation, Work, terms
from quaddyn.simulation.plant_data import SphereContacts
from quaddyn.simulation.simulation import FallbackContactSolver

G = 9.81


@cache
def robot_of(name: str) -> qd.Robot:
    return qd.load(name)


def throw_robot(name: str, seed: int, speed: float = 10.0, *, height: float = 0.3, **options: object) -> Simulation:
    """A robot thrown down from a height, with random velocities and without torques."""
    robot = robot_of(name)
    sim, q = Simulation(robot, **options), robot.q_home.copy()  # type: ignore[arg-type]
    v = np.random.default_rng(seed).normal(0.0, speed, robot.nv)
    if robot.root == "free":
        q[2] += height
        v[2] = -abs(v[2])
    sim.reset(q, v)
    return sim


@pytest.mark.parametrize("integrator", ["adaptive", "euler", "rk4"])
def test_tilted_robot_in_free_fall_follows_the_parabola_exactly(integrator: str) -> None:
    """The joints do not move, and gravity acts along world axes."""
    robot = robot_of("go2")
    sim, q = Simulation(robot, floor=-np.inf, integrator=integrator), robot.random_configuration(3)
    q[7:] = robot.q_home[7:]
    sim.reset(q, np.zeros(robot.nv))
    for _ in range(100):
        sim.step(np.zeros(robot.nu))
    np.testing.assert_allclose(sim.q[:3] - q[:3], [0.0, 0.0, -0.5 * G * sim.time**2], atol=1e-9)
    np.testing.assert_allclose(sim.q[3:], q[3:], atol=1e-9)


def kinetic_energy(sim: Simulation) -> float:
    return qd.Dynamics(sim.robot).energy(sim.q, sim.v).kinetic


# -- free flight ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "b1_z1", "ur5"])
def test_flight_at_10_rad_per_s_conserves_energy(name: str) -> None:
    for seed in range(3):
        sim = throw_robot(name, seed, floor=-np.inf, joint_stops=False)  # which dissipate energy
        start, scale = sim.energy, kinetic_energy(sim)
        for _ in range(300):
            sim.step(np.zeros(sim.robot.nu))
            assert sim.status == "free"
        assert abs(sim.energy - start - sim.work.joints) < 2e-3 * scale


# -- the ground ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "dt"), [("go2", 1e-3), ("solo12", 1e-3), ("anymal_c", 1e-3), ("anymal_c", 1e-2)])
def test_energy_of_a_passive_robot_thrown_at_the_ground_does_not_rise(name: str, dt: float) -> None:
    for seed in (0, 3):
        sim = throw_robot(name, seed, dt=dt)
        start, touched = sim.energy, False
        for _ in range(round(0.25 / dt)):
            sim.step(np.zeros(sim.robot.nu))
            touched = touched or sim.status != "free"
            assert sim.energy - start < 1e-2 * sim.robot.mass * G  # lifted by less than a centimeter
        assert touched and sim.work.contacts < 0.0


def test_impulses_of_refined_steps_change_the_momentum() -> None:
    sim = throw_robot("go2", 4, height=0.05)
    dyn, mass, impulse, touched = qd.Dynamics(sim.robot), sim.robot.mass, np.zeros(3), 0
    start = dyn.update(sim.q, sim.v).com_velocity.copy()
    for _ in range(100):
        sim.step(np.zeros(12))
        force = sum((point.force for point in sim.contacts), start=np.array([0.0, 0.0, -mass * G]))
        impulse, touched = impulse + sim.dt * force, touched + bool(sim.contacts)
    change = mass * (dyn.update(sim.q, sim.v).com_velocity - start)
    assert touched > 10 and np.linalg.norm(change - impulse) < 0.01 * np.linalg.norm(impulse)


# -- the account ---------------------------------------------------------------------------------------------------
def test_energy_balance_is_complete() -> None:
    robot = qd.load("go2", damping=0.1, friction=0.2)
    sim, rng = Simulation(robot), np.random.default_rng(0)
    q = robot.q_home.copy()
    q[2] -= 0.01  # begins inside the ground
    v = rng.normal(0.0, 3.0, robot.nv)
    v[2] = -1.0
    sim.reset(q, v)
    sim.push("base", [30.0, 0.0, 20.0], duration=0.05)
    start = sim.energy
    for _ in range(150):
        sim.step(rng.normal(0.0, 5.0, robot.nu))
        work = sim.work
        parts = work.actuators + work.joints + work.contacts + work.pushes
        assert work.total == pytest.approx(parts)
        gained = sim.energy - start
        assert gained == pytest.approx(
            work.total + work.constraint_corrections + work.integration_error, abs=1e-9 * (kinetic_energy(sim) + 1.0)
        )
    assert (
        work.actuators
        and work.pushes
        and work.constraint_corrections > 0.0
        and work.joints < 0.0
        and work.contacts < 0.0
    )
    assert abs(work.integration_error) < 5e-3 * robot.mass * G


def test_violated_energy_balance_is_flagged() -> None:
    options = {"dt": 5e-3, "floor": -np.inf, "joint_stops": False}
    poor, good = (throw_robot("go2", 0, 20.0, integrator=name, **options) for name in ("euler", "adaptive"))  # type: ignore[arg-type]
    flags = []
    for _ in range(20):
        for sim in (poor, good):
            before = sim.work.integration_error
            sim.step(np.zeros(12))
            if not sim.ok:
                flags.append(sim)
                assert sim.status == "inaccurate" and not sim.ok and sim.residual == 0.0
                assert abs(sim.work.integration_error - before) > terms.INACCURATE_HEIGHT * sim.robot.mass * G
    assert poor in flags and good not in flags
    sim.reset()
    assert sim.ok and sim.work == Work()


def test_unsolvable_contacts_are_passed_once_per_substep_to_the_fallback_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solve, asked = FallbackContactSolver.solve, list[int]()

    def answer(hard: FallbackContactSolver, contacts: SphereContacts, k: int) -> tuple[float, str]:
        asked.append(k)
        return solve(hard, contacts, k)[0], status

    monkeypatch.setattr(FallbackContactSolver, "solve", answer)
    for status in ("inaccurate", "solved"):
        sim = throw_robot("go2", 0, height=0.0, contact="rigid")
        for _ in range(3):
            asked.clear()
            sim.step(np.zeros(12))
            # for the whole step, and for its single substep: no further iterations, no halving
            assert len(asked) == 2 if status == "inaccurate" else len(asked) > 2


def test_slow_motion_is_not_refined() -> None:
    robot = robot_of("go2")
    pd = JointPD(robot)
    sims = [Simulation(robot, integrator=name) for name in ("euler", "adaptive")]
    for _ in range(100):
        for sim in sims:
            sim.step(pd.compute(sim.q, sim.v, robot.q_home).tau)
    assert sims[0].q.tobytes() == sims[1].q.tobytes() and sims[0].v.tobytes() == sims[1].v.tobytes()


@pytest.mark.parametrize("kind", [qd.Simulation, qd.MujocoPlant])
@pytest.mark.parametrize("dt", [0.1, 0.011, 0.0, -1e-3, np.nan, np.inf])
def test_step_size_out_of_range_is_rejected(kind: type[qd.Simulation | qd.MujocoPlant], dt: float) -> None:
    raises(qd.ArgumentError, r"dt: .* at most 0\.01", kind, robot_of("go2"), dt=dt)
