"""The compiled tick says what the dense path says, to rounding, and hands over what it does not know."""

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import (
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
    default_constraints,
    replay,
)

ROBOTS = ("go2", "solo12", "anymal_c", "hyq")


def pair(robot, **options):
    return [qd.WholeBodyController(robot, dt=1e-3, fast=fast, **options) for fast in (True, False)]


def sets(robot):
    a, b, c, d = robot.feet
    return [robot.feet, (a, d), (), (b, c, d), (b,), robot.feet, (a, b)]


def compare(one, other, tolerance=1e-7):
    for a, b in ((one.tau, other.tau), (one.acceleration, other.acceleration)):
        np.testing.assert_allclose(a, b, atol=tolerance * (1.0 + np.abs(b).max()))
    assert list(one.forces) == list(other.forces)
    for name, force in other.forces.items():
        np.testing.assert_allclose(one.forces[name], force, atol=tolerance * (1.0 + np.abs(force).max()))


def random_states(robot, count, seed, spread=0.15):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield pin.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv)), 0.3 * rng.normal(size=18)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("friction", [0.6, 0.2])
def test_both_paths_agree_while_contacts_come_and_go(name, friction):
    robot = qd.load(name)
    fast, dense = pair(robot, friction=friction, ramp=0.004)
    dyn = qd.Dynamics(robot)
    rng = np.random.default_rng(3)
    compiled = 0
    for k, (q, v) in enumerate(random_states(robot, 56, seed=4)):
        s = dyn.update(q, v)
        com, foot = rng.normal(size=3), rng.normal(size=3)
        for wbc in (fast, dense):
            wbc.tasks["com"].reference(s.com + 0.01 * com, acceleration=2.0 * com)
            wbc.tasks[robot.feet[1]].reference(s.placement(robot.feet[1]).translation, acceleration=5.0 * foot)
            wbc.tasks["forces"].reference({robot.feet[0]: np.array([0.0, 0.0, 20.0])} if k % 3 else None)
        contacts = sets(robot)[k // 8]
        one, other = fast.compute(s, contacts=contacts), dense.compute(s, contacts=contacts)
        assert other.status.path == "dense" and one.status.outcome == other.status.outcome
        compare(one, other)
        if one.status.path == "compiled":
            compiled += 1
            # (on which level a limit counts that two levels press on is a matter of rounding)
            assert sum(level.rank for level in one.levels) == sum(level.rank for level in other.levels)
            # a cap of exactly zero is a wanted value, one of 1e-17 N a limit
            both = one.margins.keys() & other.margins.keys()
            for a, b in zip(one.levels, other.levels, strict=True):
                assert both & set(a.active) == both & set(b.active)
                assert abs(a.residual - b.residual) <= 1e-7 * (1.0 + b.residual)
    assert compiled >= 40


def test_the_equations_of_motion_hold_on_the_base():
    robot = qd.load("go2")
    wbc = qd.WholeBodyController(robot, ramp=0.0)
    dyn, check = qd.Dynamics(robot), qd.Dynamics(robot)
    for k, (q, v) in enumerate(random_states(robot, 28, seed=5)):
        command = wbc.compute(dyn.update(q, v), contacts=sets(robot)[k // 4])
        assert command.status.path == "compiled"
        s = check.update(q, v)
        load = check.rnea(q, v, command.acceleration)
        for foot, force in command.forces.items():
            J = s.jacobian(foot)
            lever = np.array([0.0, 0.0, -robot.legs[foot].foot.radius])
            load -= J[:3].T @ force + J[3:].T @ np.cross(lever, force)
        assert np.abs(load[:6]).max() <= 1e-9 * robot.mass * 9.81
        np.testing.assert_allclose(load[6:], command.tau, atol=1e-9 * robot.mass)


def test_own_levels_with_freedom_left_over_agree_too():
    """No posture: what is left goes to the shortest accelerations and forces, in both paths the same."""
    robot = qd.load("anymal_c")
    dyn = qd.Dynamics(robot)
    commands = []
    for fast in (True, False):
        levels = [ComTask(robot, axes=("z",)), [ForceTask(robot, contacts=robot.feet[:2]), FootTask(robot, "RR")]]
        extra = [*default_constraints(robot, 1e-3), TorqueRate(robot, 1e5)]
        wbc = qd.WholeBodyController(robot, tasks=levels, constraints=extra, ramp=0.0, fast=fast)
        for q, v in random_states(robot, 6, seed=6, spread=0.05):
            commands.append(wbc.compute(dyn.update(q, v), contacts=robot.feet[:3]))
    for one, other in zip(commands[:6], commands[6:], strict=True):
        compare(one, other)
        assert other.status.path == "dense"
    assert sum(c.status.path == "compiled" for c in commands[:6]) >= 4


def test_what_it_does_not_know_goes_the_dense_way():
    def path(robot, **options):
        wbc = qd.WholeBodyController(robot, **options)
        return wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))).status.path

    go2 = qd.load("go2")
    assert path(go2) == "compiled"
    assert path(qd.load("solo8")) == "dense"
    assert path(go2, damping=1e-3) == "dense"
    assert path(go2, fast=False) == path(go2, compiled=False) == "dense"
    assert path(go2, contacts=[Contact(name="belly", frame="base")]) == "dense"
    assert path(go2, tasks=[PostureTask(go2, joints=go2.actuated[:6])]) == "dense"


def test_straight_knees_and_an_impossible_level_0_are_handed_over():
    robot = qd.load("solo12")
    dyn = qd.Dynamics(robot)
    q = robot.q_home.copy()
    for leg in robot.legs.values():
        for joint in leg.joints:
            q[robot.configuration_index(joint)] = 1e-6
    fast, dense = pair(robot)
    s = dyn.update(q, np.zeros(18))
    one, other = fast.compute(s), dense.compute(s)
    assert one.status.path == "dense" and one.status.outcome == other.status.outcome
    compare(one, other)
    fast, dense = pair(robot)
    for wbc in (fast, dense):
        for foot in robot.feet:
            wbc.contacts[foot].limit(1e4)
    s = dyn.update(robot.q_home, np.zeros(18))
    one, other = fast.compute(s), dense.compute(s)
    assert one.status.path == "dense" and one.status.outcome == other.status.outcome == "infeasible"
    compare(one, other)


def test_a_contact_changed_between_ticks_is_seen():
    robot = qd.load("solo12")
    fast, dense = pair(robot, ramp=0.0)
    dyn = qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(18))
    for k in range(3):
        for wbc in (fast, dense):
            if k == 1:
                wbc.contacts["FL"].limit(6.0, 7.0)
                wbc.contacts["FR"].normal = (0.2, 0.0, 1.0)
            elif k == 2:
                wbc.friction = 0.1
                wbc.tasks["com"].reference(acceleration=np.array([2.0, 0.0, 0.0]))
        one = fast.compute(s)
        assert one.status.path == "compiled"
        compare(one, dense.compute(s))
        assert k == 0 or 6.0 - 1e-9 <= one.forces["FL"][2] <= 7.0 + 1e-9


def test_details_are_those_of_the_tick_whatever_came_after():
    robot = qd.load("go2")
    fast, dense = pair(robot)
    dyn = qd.Dynamics(robot)
    rng = np.random.default_rng(7)
    s = dyn.update(robot.q_home, 0.1 * rng.normal(size=18))
    one, other = fast.compute(s), dense.compute(s)
    want = [level.residual for level in other.levels]
    fast.tasks["com"].reference(np.array([1.0, 2.0, 3.0]))
    fast.contacts["FL"].limit(5.0)
    fast.compute(dyn.update(robot.q_home, np.zeros(18)), contacts=robot.feet[:2])
    np.testing.assert_allclose([level.residual for level in one.levels], want, atol=1e-8)
    assert fast.tasks["com"].block[-3:].tolist() == [1.0, 2.0, 3.0]
    assert one.margins.keys() == other.margins.keys()


def test_a_compiled_tick_in_a_file_comes_out_bit_for_bit(tmp_path):
    robot = qd.load("go2")
    wbc = qd.WholeBodyController(robot, friction=0.2)
    dyn = qd.Dynamics(robot)
    for q, v in random_states(robot, 5, seed=8, spread=0.05):
        command = wbc.compute(dyn.update(q, v))
    assert command.status.path == "compiled"
    dyn.update(robot.q_home, np.zeros(18))
    wbc.save_tick(tmp_path / "tick.npz")
    again = replay(tmp_path / "tick.npz")
    assert again.identical and again.difference == 0.0
    np.testing.assert_array_equal(again.command.tau, command.tau)
    assert again.command.status.path == again.record.command.status.path == "compiled"


@pytest.mark.parametrize("name", ["solo12", "hyq", "b1", "anymal_b", "laikago"])
def test_a_tick_knows_inertia_and_bias_as_pinocchio_does(name):
    """It computes M and h itself: torques are those of Pinocchio's inverse dynamics to rounding, anywhere."""
    robot = qd.load(name)
    wbc = qd.WholeBodyController(robot, ramp=0.0)
    dyn = qd.Dynamics(robot)
    for k, (q, v) in enumerate(random_states(robot, 12, seed=17)):
        q[:2] += 10.0 * k
        command = wbc.compute(dyn.update(q, v), contacts=() if k % 3 == 0 else robot.feet)
        s, total = dyn.update(q, v), np.zeros(robot.nv)
        for foot, force in command.forces.items():
            J = s.jacobian(foot)
            total += J[:3].T @ force + J[3:].T @ np.cross([0.0, 0.0, -robot.legs[foot].foot.radius], force)
        tau = s.M @ command.acceleration + s.h - total
        scale = np.abs(s.M) @ np.abs(command.acceleration) + np.abs(s.h) + np.abs(total)
        assert command.status.path == "compiled"
        assert (np.abs(tau - robot.expand(command.tau)) <= 1e-11 * scale.max()).all()


def test_limits_and_gains_of_constraints_are_set_in_place_or_whole():
    robot = qd.load("go2")
    limits, bounds, motion = TorqueLimits(robot), JointBounds(robot, 1e-3), ContactMotion(robot)
    wbc = qd.WholeBodyController(robot, constraints=[motion, FrictionPyramid(), NormalForce(), limits, bounds])
    s = qd.Dynamics(robot).update(robot.q_home, np.full(robot.nv, 0.01))
    wbc.compute(s)
    limits.limits[:] = 4.8
    assert np.abs(wbc.compute(s).tau).max() <= 4.8 + 1e-9
    limits.limits = 5.0
    assert 4.9 < np.abs(wbc.compute(s).tau).max() <= 5.0 + 1e-9
    bounds.velocity = 0.0
    braking = wbc.compute(s).acceleration[robot.actuated_index]
    assert (braking <= 1e-9).all()
    motion.damping = 0.0
    with pytest.raises(qd.ArgumentError, match=r"limits: .* no NaN"):
        limits.limits = np.nan
    with pytest.raises(qd.ArgumentError, match="velocity: expected a number or 12"):
        bounds.velocity = np.zeros(3)
    with pytest.raises(qd.ArgumentError, match="damping: expected a finite number"):
        motion.damping = -1.0
    assert motion.damping == 0.0
    with pytest.raises(qd.ArgumentError, match="height: expected a finite"):
        wbc.contacts["FL"].height = np.nan
