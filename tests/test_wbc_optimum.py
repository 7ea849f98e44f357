"""Ticks that eliminate limbs and contacts reach the optimum of the whole problem in plain matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from exact_optimum import excess
from numpy_wbc import NumpyTick, assert_same_rows, numpy_tick
from slow_parameters import others_slow
from wbc_elements import KINDS, ROBOTS, everything

import quaddyn as qd
from quaddyn.contact import Contact, contact_jacobian
from quaddyn.wbc import (
    Command,
    ComTask,
    ContactMotion,
    FootTask,
    ForceTask,
    FrictionPyramid,
    JointBounds,
    NormalForce,
    PostureTask,
    TorqueLimits,
    TorqueRate,
    WholeBodyController,
    default_constraints,
    replay,
)


def assert_strict_optimum(c: Command, p: NumpyTick, tolerance: float = 1e-8, *, flat: float = 1e-9) -> str:
    """Asserts that a tick is the strict optimum, by its torques or, if levels are nearly flat, by exact arithmetic.

    Returns:
        "torques" or "levels", by the comparison; "infeasible" if level 0 is infeasible.
    """
    assert c.status.outcome in ("solved", "infeasible"), c.status
    assert_same_rows(c.details.problem, p.problem)
    x = p.optimum()
    a, f, tau = p.unknowns.recover(x)
    stacked = np.concatenate([np.zeros(0), *c.forces.values()])
    size = 1.0 + np.abs(tau).max()
    if np.abs(c.tau - tau).max() <= tolerance * size:
        np.testing.assert_allclose(c.acceleration, a, atol=10.0 * tolerance * (1.0 + np.abs(a).max()))
        np.testing.assert_allclose(stacked, f, atol=10.0 * tolerance * (1.0 + np.abs(f).max(initial=0.0)))
        return "torques" if c.status.ok else "infeasible"
    over = excess(c.details.problem.matrices(), c.details.x)
    assert over is not None
    assert over[0] <= 1e-9 and max(over[:2]) <= flat and max(over) <= max(1e-6, flat), (over, str(c.status))
    return "levels" if c.status.ok else "infeasible"


def states(robot: qd.Robot, count: int, seed: int, spread: float = 0.15) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        q = robot.algorithms.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv))
        yield q, 0.3 * rng.normal(size=robot.nv)


def contact_sets(robot: qd.Robot) -> list[tuple[str, ...]]:
    feet = robot.feet if robot.root != "fixed" else ()
    return [feet, feet[:1] + feet[3:], (), feet[1:], feet[1:2], feet]


BENDS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 3e-2)
SLIPPERY = [(name, mu) for name in (*ROBOTS, "anymal_b_kinova", "panda", "chain_10") for mu in (0.6, 0.2)]


@pytest.mark.parametrize(("name", "friction"), others_slow(SLIPPERY, SLIPPERY[::8] + SLIPPERY[3::8]))
def test_random_ticks_with_changing_contacts_reach_the_strict_optimum(name: str, friction: float) -> None:
    robot = ROBOTS[name]() if name in ROBOTS else qd.load(name)
    dyn, rng, seen, before = qd.Dynamics(robot), np.random.default_rng(5), Counter[str](), None
    constraints = [*default_constraints(robot, 1e-3), TorqueRate(robot, 2e4)]
    wbc = WholeBodyController(robot, friction=friction, ramp_time=0.004, constraints=constraints)
    for k, (q, v) in enumerate(states(robot, 24, seed=4)):
        s = dyn.update(q, v)
        if "com" in wbc.tasks:
            wbc.tasks["com"].reference(s.com + 0.01 * rng.normal(size=3), acceleration=2.0 * rng.normal(size=3))
            foot = robot.feet[1]
            wbc.tasks[foot].reference(s.placement(foot).translation, acceleration=5.0 * rng.normal(size=3))
            wbc.tasks["forces"].reference({robot.feet[0]: np.array([0.0, 0.0, 20.0])} if k % 3 else None)
        c = wbc.compute(s, contact_sets(robot)[k // 4])
        seen[assert_strict_optimum(c, numpy_tick(wbc, s, before))] += 1
        before = c.tau
    assert seen["levels"] <= 2, seen


@pytest.mark.parametrize(
    "name", others_slow(["go2", "anymal_c", "bolt", "b1_z1", "passive go2"], ["bolt", "b1_z1", "passive go2"])
)
def test_ticks_of_slow_motion_reach_the_strict_optimum(name: str) -> None:
    robot = ROBOTS[name]()
    dyn, seen = qd.Dynamics(robot), Counter[str]()
    wbc = WholeBodyController(robot, ramp_time=0.0)
    for k, (q, v) in enumerate(states(robot, 12, seed=2, spread=0.02)):
        s = dyn.update(q, 0.1 * v)
        seen[assert_strict_optimum(wbc.compute(s, contact_sets(robot)[k // 2]), numpy_tick(wbc, s))] += 1
    assert seen["levels"] <= 1, seen


def test_saturated_ticks_reach_the_strict_optimum() -> None:
    robot = qd.load("anymal_c")
    dyn, rng, seen = qd.Dynamics(robot), np.random.default_rng(1), Counter[str]()
    wbc = WholeBodyController(robot, ramp_time=0.0, friction=0.15)
    wbc.tasks["torque"].limits *= 0.4
    for q, v in states(robot, 24, seed=3, spread=0.05):
        s = dyn.update(q, v)
        wbc.tasks["com"].reference(s.com, acceleration=5.0 * rng.normal(size=3))
        c = wbc.compute(s)
        assert c.levels[0].active
        seen[assert_strict_optimum(c, numpy_tick(wbc, s))] += 1
    assert seen["levels"] <= 2 and seen["torques"] > 12, seen


@pytest.mark.parametrize("name", ["go2", "solo8", "bolt"])
def test_infeasible_level_0_has_the_least_violation(name: str) -> None:
    robot = ROBOTS[name]()
    dyn, seen = qd.Dynamics(robot), Counter[str]()
    wbc = WholeBodyController(robot, ramp_time=0.0)
    for k, (q, v) in enumerate(states(robot, 16, seed=4, spread=0.2)):
        s = dyn.update(q, v)
        wbc.tasks["torque"].limits[:] = 0.0 if k % 4 == 0 else 3.0
        wbc.contacts[robot.feet[0]].set_normal_force_bounds(1e4 if k % 5 == 0 else 0.0)
        seen[assert_strict_optimum(wbc.compute(s), numpy_tick(wbc, s))] += 1
    assert seen["infeasible"] >= 4, seen


@pytest.mark.parametrize(
    ("name", "bend"),
    others_slow(
        [(name, bend) for name in ("go2", "solo12", "anymal_c", "hyq") for bend in BENDS],
        [*(("go2", bend) for bend in BENDS), ("hyq", 0.0), ("hyq", 1e-9)],
    ),
)
def test_ticks_with_straight_legs_reach_the_strict_optimum(name: str, bend: float) -> None:
    """Directions with a sensitivity of 1e-9 are used; rounding of their rows leaves an uncertainty of 1e-7."""
    robot = qd.load(name)
    dyn, q = qd.Dynamics(robot), robot.q_home.copy()
    for leg in robot.legs.values():
        for joint in leg.joints:
            q[robot.configuration_index(joint)] = bend
    bounds = JointBounds(robot, 1e-3, position=False)
    level_0 = [ContactMotion(robot), FrictionPyramid(), NormalForce(), TorqueLimits(robot), bounds]
    for stance in (robot.feet, robot.feet[:1], robot.feet[1:3]):
        wbc = WholeBodyController(robot, constraints=level_0, ramp_time=0.0)
        s = dyn.update(q, np.zeros(robot.nv))
        wbc.tasks["com"].reference(s.com - (0.0, 0.0, 0.02))
        assert_strict_optimum(wbc.compute(s, stance), numpy_tick(wbc, s), 1e-6, flat=1e-5 if bend == 1e-9 else 1e-9)


@pytest.mark.parametrize("seed", others_slow(range(11, 14), [11]))
@pytest.mark.parametrize("surface", range(len(KINDS)))
def test_ticks_with_elements_and_contacts_of_every_kind_reach_the_strict_optimum(surface: int, seed: int) -> None:
    robot, hand = qd.load("anymal_b_kinova"), "j2s6s200_end_effector"
    normal, offset = np.array([0.1, 0.2, 1.0]), np.array([0.01, -0.02, 0.03])
    feet, kind = robot.feet, {"kind": "surface", "half_size": (0.05, 0.03)} | KINDS[surface]
    contacts = [
        Contact(name=hand, frame=hand, normal=normal, offset=offset, **kind),
        Contact(name=feet[3], frame=feet[3], radius=0.02, offset=offset, normal=-normal),
        Contact(name=feet[2], frame=feet[2], radius=0.02, stiffness=2e4, damping=50.0, offset=offset),
    ]
    level_0, levels = everything(robot, hand)
    wbc = WholeBodyController(robot, tasks=levels, constraints=level_0, contacts=contacts, ramp_time=0.004)
    wbc.contacts[hand].set_normal_force_bounds(2.0, 80.0)
    dyn, rng, seen, before = qd.Dynamics(robot), np.random.default_rng(seed), Counter[str](), None
    stances = [feet, (*feet, hand), (*feet[:3], hand), feet[:2], (feet[2], hand)]
    for k in range(15):
        q = robot.algorithms.integrate(robot.model, robot.q_home, 0.1 * rng.normal(size=robot.nv))
        s = dyn.update(q, 0.3 * rng.normal(size=robot.nv))
        wbc.contacts[feet[2]].surface_height = wbc.contacts[hand].surface_height = (
            float(s.placement(feet[2]).translation[2]) + 0.01
        )
        if k % 2:
            wbc.tasks["forces"].reference({hand: np.arange(6.0), feet[2]: np.array([0.0, 0.0, 30.0])})
        c = wbc.compute(s, stances[k // 3])
        seen[assert_strict_optimum(c, numpy_tick(wbc, s, before))] += 1
        before = c.tau
    assert seen["levels"] <= 3, seen


def test_remaining_freedom_gives_the_minimum_norm_solution() -> None:
    """Without a posture task, the remaining freedom minimizes the norm of accelerations and forces."""
    robot = qd.load("anymal_c")
    dyn, before, seen = qd.Dynamics(robot), None, Counter[str]()
    levels = [ComTask(robot, axes=("z",)), [ForceTask(robot, contacts=robot.feet[:2]), FootTask(robot, "RR")]]
    constraints = [*default_constraints(robot, 1e-3), TorqueRate(robot, 1e5)]
    wbc = WholeBodyController(robot, tasks=levels, constraints=constraints, ramp_time=0.0)
    for q, v in states(robot, 8, seed=6, spread=0.05):
        s = dyn.update(q, v)
        c = wbc.compute(s, robot.feet[:3])
        seen[assert_strict_optimum(c, numpy_tick(wbc, s, before))] += 1
        before = c.tau
    assert seen["levels"] == 0 and seen["torques"] >= 6, seen


def test_contacts_constrained_on_level_1_carry_forces(go2: qd.Robot) -> None:
    constraints = [FrictionPyramid(), NormalForce(), TorqueLimits(go2), JointBounds(go2, 1e-3)]
    tasks = [[ComTask(go2), ContactMotion(go2)], [PostureTask(go2), ForceTask(go2)]]
    wbc = WholeBodyController(go2, constraints=constraints, tasks=tasks)
    dyn, seen = qd.Dynamics(go2), Counter[str]()
    for q, v in states(go2, 6, seed=4, spread=0.1):
        s = dyn.update(q, v)
        seen[assert_strict_optimum(wbc.compute(s), numpy_tick(wbc, s))] += 1
    assert seen["torques"] == 6, seen


def test_contact_changes_between_ticks_take_effect(solo12: qd.Robot) -> None:
    wbc, dyn = WholeBodyController(solo12, ramp_time=0.0), qd.Dynamics(solo12)
    s = dyn.update(solo12.q_home, np.zeros(18))
    for k in range(3):
        if k == 1:
            wbc.contacts["FL"].set_normal_force_bounds(6.0, 7.0)
            wbc.contacts["FR"].normal = (0.2, 0.0, 1.0)
        elif k == 2:
            wbc.friction = 0.1
            wbc.tasks["com"].reference(acceleration=np.array([2.0, 0.0, 0.0]))
        c = wbc.compute(s)
        assert assert_strict_optimum(c, numpy_tick(wbc, s)) == "torques"
        assert k == 0 or 6.0 - 1e-9 <= c.forces["FL"][2] <= 7.0 + 1e-9


def test_quantities_without_a_task_are_minimal() -> None:
    """A symmetric robot with a task for its height alone has no lateral forces."""
    robot = qd.load("small_quadruped")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    command = qd.WholeBodyController(robot, tasks=[[ComTask(robot, axes="z")]]).compute(s)
    total = sum(command.forces.values())
    assert total[2] == pytest.approx(robot.mass * 9.81, rel=1e-3)
    assert abs(total[1]) < 1e-9 and abs(command.acceleration[1]) < 1e-9 and abs(total[0]) < 1e-3 * total[2]


@pytest.mark.parametrize("name", ["solo8", "go2"])
def test_stance_foot_has_the_acceleration_that_damps_its_velocity(name: str, tmp_path: Path) -> None:
    """Also for a leg of two joints, which cannot move its foot sideways: the base moves instead."""
    robot, rng = qd.load(name), np.random.default_rng(0)
    dynamics = qd.Dynamics(robot)
    for _ in range(3):
        s = dynamics.update(robot.q_home, 0.5 * rng.normal(size=robot.nv))
        wbc = qd.WholeBodyController(robot)
        for _ in range(2):
            command = wbc.compute(s, contacts=("FL",))
        wbc.save_tick(tmp_path / "tick.npz")
        # In the first attempt: the rows of the contact are used only if those of its limb give another motion.
        memory = replay(tmp_path / "tick.npz").record.inputs.memory
        assert (memory.limit_starts[:, -1] >= 0).tolist() == [True, False] and not memory.skips_elimination
        (held,) = (g for g in command.details.problem.levels[0] if g.names[0] == "FL contact x")
        moved = contact_jacobian(s, "FL")[:3] @ command.acceleration  # without drift
        assert command.status.violation < 1e-9 and np.abs(s.drift("FL")[:3]).max() > 0.01
        np.testing.assert_allclose(moved, held.lower + held.offset, atol=1e-8 * np.abs(moved).max())
