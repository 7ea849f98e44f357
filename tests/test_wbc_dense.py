"""The compiled dense path says what plain matrices say, whatever the robot, its contacts and its elements."""

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.wbc import (
    ComTask,
    Constraint,
    ContactMotion,
    FootTask,
    ForceTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    FrictionPyramid,
    JointAccelerationTask,
    JointBounds,
    LinearConstraint,
    MomentumTask,
    NormalForce,
    PostureTask,
    RelativeFrameTask,
    TorqueLimits,
    TorqueRate,
    compiled_memory,
    default_constraints,
    replay,
)
from quaddyn.wbc.dense import DenseTick
from quaddyn.wbc.tick import Rows


def compare(one, other, tolerance=1e-7, solvers=False):
    assert one.status.path == other.status.path == "dense"
    assert one.status.outcome == other.status.outcome
    if solvers and one.status.outcome == "infeasible":
        # What comes after is left to the test with one solver below.
        for k in range(2):
            np.testing.assert_allclose(one.levels[k].residual, other.levels[k].residual, rtol=1e-8)
        return
    for a, b in ((one.tau, other.tau), (one.acceleration, other.acceleration)):
        np.testing.assert_allclose(a, b, atol=tolerance * (1.0 + np.abs(b).max()))
    assert list(one.forces) == list(other.forces)
    for name, force in other.forces.items():
        np.testing.assert_allclose(one.forces[name], force, atol=tolerance * (1.0 + np.abs(force).max()))


@pytest.fixture
def answered(monkeypatch):
    """Whether compiled code answered, tick by tick."""
    told = []
    solve = DenseTick.solve

    def counted(self, *args):
        answer = solve(self, *args)
        told.append(answer is not None)
        return answer

    monkeypatch.setattr(DenseTick, "solve", counted)
    return told


class Silent:
    """In the place of a `DenseTick`: the controller falls back on plain matrices, and the same solver."""

    def solve(self, *_):
        return None

    def forget(self):
        pass


def pair(make):
    """A controller, and one that puts its matrices together by plain means."""
    one, other = make(), make()
    other._matrices = Silent()
    return one, other


def state(robot, rng, spread):
    q = pin.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv))
    return q, 0.3 * rng.normal(size=robot.nv)


@pytest.mark.parametrize(
    ("name", "friction"),
    [
        ("go2", 0.6),
        ("go2", 0.2),
        ("solo8", 0.6),
        ("solo8", 0.2),
        ("b1_z1", 0.2),
        ("anymal_b_kinova", 0.6),
        ("ur5", 0.6),
    ],
)
def test_both_agree_while_contacts_come_and_go(name, friction, answered):
    robot = qd.load(name)
    both = [
        qd.WholeBodyController(robot, friction=friction, ramp=0.004, fast=False, compiled=compiled)
        for compiled in (True, False)
    ]
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(5)
    feet = robot.feet if robot.root == "free" else ()
    sets = [feet, feet[:1] + feet[3:], (), feet[1:], feet[1:2], feet]
    for k in range(18):
        s = dyn.update(*state(robot, rng, 0.1))
        com = rng.normal(size=3)
        for wbc in both:
            if "com" in wbc.tasks:
                wbc.tasks["com"].reference(s.com + 0.01 * com, acceleration=2.0 * com)
                wbc.tasks["forces"].reference({feet[0]: np.array([0.0, 0.0, 20.0])} if k % 3 else None)
        compare(*(wbc.compute(s, sets[k // 3]) for wbc in both), solvers=True)
    assert np.mean(answered) > 0.95


@pytest.mark.parametrize("name", ["go2", "b1_z1", "centauro", "panda", "chain_10", "ur5"])
def test_the_masses_say_what_pinocchio_makes_of_them(name):
    robot = qd.load(name)
    wbc, dyn, rng = qd.WholeBodyController(robot, fast=False), qd.Dynamics(robot), np.random.default_rng(3)
    for distance in (0.0, 1e3):
        q, v = state(robot, rng, 0.3)
        if robot.root == "free":
            q[:3] += distance
        s = dyn.update(q, 5.0 * v)
        wbc.reset()
        wbc.compute(s)
        M, h, *_ = compiled_memory.kept(wbc._matrices._floats, robot.nv, robot.nu, 0)
        lost = 1e-12 * (1.0 + distance)  # by Pinocchio, which counts from the world's origin
        np.testing.assert_allclose(M, s.M, atol=lost * np.abs(s.M).max())
        np.testing.assert_allclose(h, s.h, atol=lost * np.abs(s.h).max())


class Heavy(Constraint):
    """An element of one's own: the base comes down at some acceleration at least."""

    def rows(self, tick):
        """One row."""
        J = tick.state.com_jacobian[2:]
        return [Rows(("own",), "m/s^2", np.array([-np.inf]), np.array([-0.1]), acceleration=J)]


def everything(robot, hand):
    """Elements of every kind that there is."""
    feet, base = robot.feet, robot.bodies[0].name
    wrench = LinearConstraint("push", -1.0, np.inf, forces={hand: np.eye(6)[2:3], feet[0]: 0.1 * np.eye(3)[2:]})
    torque = LinearConstraint("joints", 0.1, 0.1, torque=np.eye(robot.nu)[:1], acceleration=0.1 * np.eye(robot.nv)[:1])
    level_0 = [*default_constraints(robot, 1e-3), TorqueRate(robot, 2e4), wrench]
    first = [ComTask(robot, axes=("x", "z")), FrameOrientationTask(robot, base, "base", axes=("rx", "ry"))]
    first += [FootTask(robot, foot, weight=2.0) for foot in feet[:3]] + [Heavy("heavy")]
    second = [FrameTask(robot, hand, "hand pose", weight=0.5), MomentumTask(robot, axes=("rz",)), torque]
    third = [FramePositionTask(robot, base, "height", axes=("z",)), RelativeFrameTask(robot, hand, base)]
    last = [PostureTask(robot), JointAccelerationTask(robot, joints=robot.actuated[-3:]), ForceTask(robot)]
    return level_0, [first, second, third, last]


SURFACES = (
    {},
    {"unilateral": False},
    {"force_only": True, "friction": 0.4},
    {"stiffness": 1e4, "damping": 10.0},
)

#: Seeds by kind of surface: states of every sort, and some (beyond 13) where level 0 cannot be met and is nearly flat.
SEEDS = [(k, seed) for k in range(4) for seed in (11, 12, 13)] + [(1, 14), (3, 14), (3, 7), (1, 37), (2, 26)]


@pytest.mark.parametrize(("surface", "seed"), SEEDS)
def test_elements_and_contacts_of_every_kind_agree(surface, seed, answered):
    kind = {"kind": "surface", "half_size": (0.05, 0.03)} | SURFACES[surface]
    robot = qd.load("anymal_b_kinova")
    hand = "j2s6s200_end_effector"
    normal, offset = np.array([0.1, 0.2, 1.0]), np.array([0.01, -0.02, 0.03])
    contacts = [Contact(name=hand, frame=hand, normal=normal, offset=offset, **kind)]
    contacts.append(Contact(name=robot.feet[3], frame=robot.feet[3], radius=0.02, offset=offset, normal=-normal))
    contacts.append(
        Contact(name=robot.feet[2], frame=robot.feet[2], radius=0.02, stiffness=2e4, damping=50.0, offset=offset)
    )

    def make():
        level_0, levels = everything(robot, hand)
        wbc = qd.WholeBodyController(robot, tasks=levels, constraints=level_0, contacts=contacts, ramp=0.004)
        wbc.contacts[hand].limit(2.0, 80.0)
        return wbc

    both = pair(make)
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(seed)
    feet = robot.feet
    sets = [feet, (*feet, hand), (*feet[:3], hand), feet[:2], (feet[2], hand)]
    for k in range(25):
        s = dyn.update(*state(robot, rng, 0.1))
        for wbc in both:
            wbc.contacts[feet[2]].height = wbc.contacts[hand].height = float(s.placement(feet[2]).translation[2]) + 0.01
            if k % 2:
                wbc.tasks["forces"].reference({hand: np.arange(6.0), feet[2]: np.array([0.0, 0.0, 30.0])})
        compare(*(wbc.compute(s, sets[k // 5]) for wbc in both))
    assert np.mean(answered) > 0.8


def test_a_tick_of_the_compiled_dense_path_replays_bit_for_bit(tmp_path):
    robot = qd.load("anymal_b_kinova")
    hand = "j2s6s200_end_effector"
    grip = Contact(name=hand, frame=hand, kind="surface", half_size=(0.05, 0.05))
    level_0, levels = everything(robot, hand)
    wbc = qd.WholeBodyController(robot, tasks=levels, constraints=level_0, contacts=[grip], friction=0.3, ramp=0.004)
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(2)
    for k in range(12):
        command = wbc.compute(dyn.update(*state(robot, rng, 0.05)), (*robot.feet, hand) if 3 <= k < 8 else robot.feet)
        wbc.save_tick(tmp_path / "tick.npz")
        again = replay(tmp_path / "tick.npz")
        assert again.identical and again.command.status.path == "dense"
        np.testing.assert_array_equal(again.command.tau, command.tau)


def test_level_0_that_cannot_be_met_is_decided_as_by_plain_matrices():
    robot = qd.load("solo8")
    both = pair(lambda: qd.WholeBodyController(robot, ramp=0.0))
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(4)
    outcomes = set()
    for k in range(20):
        s = dyn.update(*state(robot, rng, 0.2))  # two-joint legs: contacts contradict each other sideways
        for wbc in both:
            wbc.tasks["torque"].limits[:] = 0.0 if k % 4 == 0 else 3.0
        one, other = (wbc.compute(s) for wbc in both)
        outcomes.add(one.status.outcome)
        assert abs(one.status.violation - other.status.violation) <= 1e-7 * (1.0 + other.status.violation)
        compare(one, other, 1e-6)
    assert "infeasible" in outcomes


def test_contacts_without_anything_that_holds_them_carry_forces_all_the_same():
    robot = qd.load("go2")
    both = pair(
        lambda: qd.WholeBodyController(
            robot,
            constraints=[FrictionPyramid(), NormalForce(), TorqueLimits(robot), JointBounds(robot, 1e-3)],
            tasks=[[ComTask(robot), ContactMotion(robot)], [PostureTask(robot), ForceTask(robot)]],
            fast=False,
        )
    )
    dyn, rng = qd.Dynamics(robot), np.random.default_rng(4)
    for _ in range(5):
        s = dyn.update(*state(robot, rng, 0.1))
        compare(*(wbc.compute(s) for wbc in both))
