"""Elements and contacts that are added and removed between ticks, custom elements, and details of ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy_wbc import assert_same_rows, numpy_tick
from raising import raises
from slow_parameters import others_slow
from wbc_elements import ROBOTS, any_contacts, everything

import quaddyn as qd
from quaddyn.compiler import interpret
from quaddyn.contact import Contact
from quaddyn.wbc import (
    Command,
    ComTask,
    Constraint,
    FootTask,
    ForceTask,
    FramePositionTask,
    FrictionPyramid,
    LinearConstraint,
    MomentumTask,
    RelativeFrameTask,
    Task,
    TorqueRate,
    WholeBodyController,
    default_constraints,
    default_tasks,
)
from quaddyn.wbc.contact_ramps import advance_ramp, make_ramps
from quaddyn.wbc.tick import Rows, Tick


def swaying_state(robot: qd.Robot, k: int) -> tuple[np.ndarray, np.ndarray]:
    """State k of a slow sway."""
    rng = np.random.default_rng(3)
    direction, phase = 0.05 * rng.normal(size=robot.nv), rng.uniform(0.0, 6.0, size=robot.nv)
    q = pin.integrate(robot.model, robot.q_home, direction * np.sin(0.3 * k + phase))
    return q, 0.3 * direction * np.cos(0.3 * k + phase)


def tick(wbc: WholeBodyController, dyn: qd.Dynamics, k: int, contacts: tuple[str, ...] | None = None) -> Command:
    return wbc.compute(dyn.update(*swaying_state(wbc.robot, k)), contacts)


def assert_optimal_tick(
    wbc: WholeBodyController, dyn: qd.Dynamics, k: int, before: Command | None, stance: tuple[str, ...]
) -> Command:
    """Computes a tick and asserts that it is the strict optimum of plain matrices."""
    s = dyn.update(*swaying_state(wbc.robot, k))
    c = wbc.compute(s, stance)
    p = numpy_tick(wbc, s, None if before is None else before.tau)
    assert_same_rows(c.details.problem, p.problem)
    _, _, tau = p.unknowns.recover(p.optimum())
    np.testing.assert_allclose(c.tau, tau, atol=1e-7 * (1.0 + np.abs(tau).max()))
    return c


# -- elements --------------------------------------------------------------------------------------------------------
def test_elements_can_be_added_and_removed_during_a_ramp(go2: qd.Robot) -> None:
    dyn, before = qd.Dynamics(go2), None
    wbc = WholeBodyController(go2, ramp_time=0.02, constraints=[*default_constraints(go2, 1e-3), TorqueRate(go2, 3e3)])
    wbc.tasks["com"].reference(np.array([0.0, 0.01, 0.3]), acceleration=np.array([0.3, 0.0, 0.0]))
    wbc.tasks["forces"].reference({"FL": np.array([0.0, 0.0, 40.0])})
    rival = WholeBodyController(go2, ramp_time=0.02)
    kept = {name: wbc.tasks[name].block.copy() for name in ("com", "joint bounds", "torque", "posture")}
    shares = []
    for k in range(52):
        stance = go2.feet if k < 3 or k >= 26 else go2.feet[1:]
        if k == 8:
            wbc.add(RelativeFrameTask(go2, "FR", "FL", "apart", weight=0.1), 2)
        elif k == 10:
            wbc.add(MomentumTask(go2), 3)
        elif k == 14:
            wbc.remove("apart")
        elif k == 32:
            wbc.remove("base")
            wbc.add(LinearConstraint("even", -5.0, 5.0, forces={"FR": np.eye(3)[2:], "RL": -np.eye(3)[2:]}), 0)
        elif k == 40:
            wbc.remove("even")
        before = assert_optimal_tick(wbc, dyn, k, before, stance)
        shares.append(wbc.contact_activations["FL"])
        tick(rival, dyn, k, stance)
        assert wbc.contact_activations == rival.contact_activations
    assert 0.0 in shares and 1.0 in shares and len(set(shares)) > 20
    assert wbc.levels[2:] == (("posture", "forces"), ("momentum",)) and "base" not in wbc.tasks
    for name, block in kept.items():
        np.testing.assert_array_equal(wbc.tasks[name].block, block)
    assert wbc.tasks["forces"].references.keys() == {"FL"}


def test_next_level_number_adds_a_level(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2, tasks=[ComTask(go2)])
    wbc.add(FramePositionTask(go2, "RR", "last"), 2)
    assert wbc.levels[1:] == (("com",), ("last",))
    assert_optimal_tick(wbc, dyn, 0, None, go2.feet[:3])
    for name in ("com", "last"):
        wbc.remove(name)
    assert wbc.levels[1:] == ((), ())
    assert_optimal_tick(wbc, dyn, 1, None, go2.feet)


def test_rejected_change_has_no_effect(go2: qd.Robot) -> None:
    dyn, twin = qd.Dynamics(go2), WholeBodyController(go2, ramp_time=0.02)
    wbc = WholeBodyController(go2, ramp_time=0.02)
    com = wbc.tasks["com"]
    refused: list[tuple[Callable[[], None], type[Exception], str]] = [
        (lambda: wbc.add(ComTask(go2), 1), qd.ArgumentError, "the name 'com' is used twice"),
        (lambda: wbc.add(ComTask(go2, "other"), 4), qd.ArgumentError, "level: expected 0 to 3"),
        (lambda: wbc.add(ComTask(go2, "other"), True), qd.ArgumentError, "level"),
        (
            lambda: wbc.add(ComTask(qd.load("solo12"), "other"), 1),
            qd.ArgumentError,
            "'other' was made for robot 'solo",
        ),
        (lambda: wbc.add("com", 1), qd.ArgumentTypeError, "expected tasks and constraints"),  # type: ignore[arg-type]
        (lambda: wbc.add(ForceTask(go2, "f", contacts=["hand"]), 1), qd.UnknownNameError, "hand"),
        (lambda: wbc.add(LinearConstraint("l", 0, 1, forces={"hand": np.eye(3)}), 0), qd.UnknownNameError, "hand"),
        (lambda: wbc.remove("comm"), qd.UnknownNameError, "comm"),
        (lambda: wbc.add_contact("FL"), qd.ArgumentTypeError, "contact: expected"),  # type: ignore[arg-type]
        (lambda: wbc.add_contact(Contact(name="hand", frame="hand")), qd.UnknownNameError, "hand"),
        (lambda: wbc.remove_contact("hand"), qd.UnknownNameError, "hand"),
    ]
    for k in range(22):
        stance = go2.feet if k < 2 else go2.feet[1:]
        if k >= 4 and refused:
            change, error, words = refused.pop()
            raises(error, words, change)
        assert wbc.tasks["com"] is com
        np.testing.assert_array_equal(tick(wbc, dyn, k, stance).tau, tick(twin, dyn, k, stance).tau)
        assert wbc.contact_activations == twin.contact_activations and wbc.levels == twin.levels
    assert not refused


def test_removed_element_belongs_to_no_controller(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    com = wbc.tasks["com"]
    com.reference(np.array([0.1, 0.2, 0.3]))
    tick(wbc, dyn, 0)
    wbc.remove("com")
    com.gains(3.0)
    tick(wbc, dyn, 1)
    other = WholeBodyController(go2, tasks=[com])
    np.testing.assert_array_equal(other.tasks["com"].block[-3:], [0.1, 0.2, 0.3])
    assert tick(other, dyn, 2).status.ok and tick(wbc, dyn, 2).status.ok
    wbc.add(com, 1)  # taken from the other one
    raises(qd.ArgumentError, "'com' was passed to another controller", tick, other, dyn, 3)
    assert tick(wbc, dyn, 3).status.ok


# -- contacts --------------------------------------------------------------------------------------------------------
def test_contacts_can_be_added_and_removed_during_a_ramp() -> None:
    robot, hand = qd.load("b1_z1"), "gripperMover"
    dyn, before = qd.Dynamics(robot), None
    wbc, rival = (WholeBodyController(robot, ramp_time=0.02) for _ in range(2))
    grip = Contact(name="grip", frame=hand, kind="surface", half_size=(0.05, 0.05), unilateral=False)
    for k in range(60):
        stance = robot.feet if k < 3 or k >= 18 else robot.feet[1:]
        stance = stance[:3] if k >= 43 else stance  # the last foot moves while the first one is removed and added
        mine = stance
        if k == 8:
            wbc.add_contact(grip)
        elif k == 40:
            wbc.remove_contact("grip")
        elif k == 45:
            wbc.remove_contact("FL")
        elif k == 48:
            wbc.add_contact(Contact.from_foot(robot, "FL"))
        if 10 <= k < 30:
            mine = (*stance, "grip")
        if 45 <= k < 48:
            mine = stance[1:]
        before = assert_optimal_tick(wbc, dyn, k, before, mine)
        tick(rival, dyn, k, stance)
        if k < 45:
            assert all(wbc.contact_activations[foot] == rival.contact_activations[foot] for foot in robot.feet)
        else:
            assert all(wbc.contact_activations[foot] == rival.contact_activations[foot] for foot in robot.feet[1:])
            assert wbc.contact_activations.get("FL") == (None if k < 48 else pytest.approx(min(1.0, (k - 47) / 20)))
    assert set(tick(wbc, dyn, 60).forces) == set(robot.feet)  # the feet are the default contacts


def test_force_cap_grows_from_zero_with_the_weight_per_requested_contact(go2: qd.Robot) -> None:
    wbc, dyn = WholeBodyController(go2, dt=1e-3, ramp_time=0.01), qd.Dynamics(go2)
    tick(wbc, dyn, 0, ())
    for k in range(1, 6):
        tick(wbc, dyn, k, ("FL", "RR"))
        caps = wbc._structure.schedule.ramps.cap
        np.testing.assert_allclose(caps[[0, 3]], 0.5 * go2.mass * 9.81 * k / (10 - k), rtol=1e-9)
    wbc.reset()
    wbc.contacts["FL"].set_normal_force_bounds(200.0)
    tick(wbc, dyn, 0, ())
    command = tick(wbc, dyn, 1, ("FL", "RR"))  # 200 N is more than the cap
    assert all((group.lower <= group.upper).all() for group in command.details.problem.levels[0])


def test_force_cap_of_a_contact_that_is_released_during_its_ramp_decreases() -> None:
    """From the lesser of cap and force: the load of a grip is the norm of a force whose components have the cap."""
    for load in (0.0, 3.0, 1e3):
        ramps = make_ramps(1)
        for _ in range(4):
            advance_ramp(ramps, 0, True, 0.1, 20.0, load)
        caps = [ramps.cap[0]]
        for _ in range(4):
            advance_ramp(ramps, 0, False, 0.1, 20.0, load)
            caps.append(ramps.cap[0])
        np.testing.assert_allclose(caps[1:], min(caps[0], load) * np.array([0.75, 0.5, 0.25, 0.0]), atol=1e-12)


def test_replaced_contact_keeps_its_activation(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    tick(wbc, dyn, 0)
    wbc.contacts["FR"].set_normal_force_bounds(0.0, 33.0)
    wbc.add_contact(Contact.from_foot(go2, "FL", friction=0.05, normal=(0.1, 0.0, 1.0)))
    assert wbc.contact_activations["FL"] == 1.0 and wbc.contacts["FR"].max_normal_force == 33.0
    c = assert_optimal_tick(wbc, dyn, 1, None, go2.feet)
    f, n = c.forces["FL"], wbc.contacts["FL"].normal
    assert np.linalg.norm(f - (f @ n) * n) <= 0.05 * (f @ n) + 1e-7
    wbc.friction = 0.3
    assert wbc.contacts["FL"].friction == 0.05 and wbc.contacts["FR"].friction == 0.3


def test_contact_used_by_an_element_cannot_be_removed(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    wbc.add(ForceTask(go2, "push", contacts=["FL"]), 2)
    raises(qd.ArgumentError, "'push'", wbc.remove_contact, "FL")
    wbc.tasks["push"].reference({"FL": np.zeros(3)})
    wbc.tasks["forces"].reference({"FL": np.zeros(3), "FR": np.zeros(3)})  # it still has all feet
    assert_optimal_tick(wbc, dyn, 0, None, go2.feet)
    wbc.remove("push")
    wbc.tasks["forces"].reference()
    wbc.remove_contact("FL")
    with pytest.raises(qd.UnknownNameError, match="FL"):
        wbc.tasks["forces"].reference({"FL": np.zeros(3)})
    assert_optimal_tick(wbc, dyn, 1, None, go2.feet[1:])


def test_contact_under_another_name_shares_the_frame_of_its_foot_task(go2: qd.Robot) -> None:
    """Contact and task use one frame: they blend during the ramp, then the contact alone controls it."""
    dyn, before = qd.Dynamics(go2), None
    link = go2.model.frames[go2.frame_id("FL")].name
    wbc = WholeBodyController(go2, ramp_time=0.01)
    wbc.remove_contact("FL")
    wbc.add_contact(Contact(name="paw", frame=link, radius=0.02))
    for k in range(30):
        before = assert_optimal_tick(wbc, dyn, k, before, go2.feet[1:] if k < 5 else (*go2.feet[1:], "paw"))
        owners = {group.element for level in before.details.problem.levels for group in level}
        assert ("FL" in owners) == (wbc.contact_activations["paw"] < 1.0)
    assert not wbc.tasks["FL"].has_reference


def test_reference_of_a_foot_is_cleared_only_when_its_contact_is_completed(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2, dt=1e-3, ramp_time=0.003)
    for k, stance in enumerate((go2.feet, go2.feet, *[go2.feet[1:]] * 5, *[go2.feet] * 4)):
        if k == 1:
            wbc.tasks["FR"].reference(np.array([0.2, -0.1, 0.1]))
        tick(wbc, dyn, k, stance)
        assert wbc.tasks["FR"].has_reference == (k >= 1)  # for its next swing
        assert wbc.tasks["FL"].has_reference == (wbc.contact_activations["FL"] < 1.0)  # by default its position
    assert wbc.contact_activations["FL"] == 1.0


# -- elements of one's own ---------------------------------------------------------------------------------------------
class CustomComTask(Task):
    """Custom task of the center of mass."""

    def __init__(self, robot: qd.Robot, name: str = "own com") -> None:
        units = ("m/s^2",) * 3
        super().__init__(robot, name, ("x", "y", "z"), units, 3, stiffness=30.0, damping=None, weight=0.7, axes=None)

    def position(self, s: qd.State) -> np.ndarray:
        return s.com

    def error(self, s: qd.State) -> np.ndarray:
        return np.asarray(self._position - s.com)

    def velocity(self, s: qd.State) -> np.ndarray:
        return s.com_velocity

    def jacobian(self, s: qd.State) -> np.ndarray:
        return s.com_jacobian

    def drift(self, s: qd.State) -> np.ndarray:
        return s.com_drift


class CustomConstraint(Constraint):
    """Rows over all variables: equal front forces, bounded joint accelerations, one fixed torque."""

    def __init__(self, robot: qd.Robot) -> None:
        super().__init__("together")
        self.slow, self.tight = np.eye(robot.nv)[6:8], np.eye(robot.nu)[:1]
        self.bound = 40.0

    def rows(self, tick: Tick) -> list[Rows]:
        out = [
            Rows(("slow",) * 2, "rad/s^2", np.full(2, -self.bound), np.full(2, self.bound), acceleration=self.slow),
            Rows(("torque",), "N m", np.array([0.5]), np.array([0.5]), torque=self.tight, weights=np.array([0.2])),
        ]
        left, right = tick.contact("FL"), tick.contact("FR")
        if left is not None and right is not None:
            up = np.eye(3)[2:]
            force = tick.force_rows(left, up) - tick.force_rows(right, up)
            out.append(Rows(("alike",), "N", np.array([-4.0]), np.array([4.0]), force=force))
        return out


class CustomDriftFootTask(FootTask):
    """Task of a foot with a custom drift, which blends with the contact like other foot tasks."""

    def drift(self, s: qd.State) -> np.ndarray:
        return np.array(super().drift(s))


class CustomConstructorTask(ComTask):
    """Subclass with another constructor and unchanged rows."""

    def __init__(self, robot: qd.Robot) -> None:
        super().__init__(robot, "named", axes=("x",))


class CustomFriction(FrictionPyramid):
    """Subclass without changes."""


def test_custom_elements_are_solved_in_the_same_tick(go2: qd.Robot) -> None:
    dyn, before = qd.Dynamics(go2), None
    constraints = [e for e in default_constraints(go2, 1e-3) if e.name != "friction"]
    levels = default_tasks(go2)
    levels[0] = [e for e in levels[0] if e.name not in ("FL", "com")]
    wbc = WholeBodyController(go2, ramp_time=0.01, constraints=constraints, tasks=levels)
    for element, level in (
        (CustomFriction(), 0),
        (CustomConstraint(go2), 0),
        (CustomComTask(go2), 1),
        (CustomDriftFootTask(go2, "FL"), 1),
        (CustomConstructorTask(go2), 2),
    ):
        wbc.add(element, level)
    assert [e.name for _, e in wbc._structure.solver.tables.custom_elements] == ["together", "own com", "FL"]
    for k in range(45):
        stance = go2.feet if k < 3 or 18 <= k < 38 else go2.feet[1:]
        if k == 30:
            wbc.tasks["own com"].select(("x", "z"))
        before = assert_optimal_tick(wbc, dyn, k, before, stance)
    assert wbc.tasks["own com"].has_reference


def test_invalid_rows_of_custom_elements_are_rejected_by_name(go2: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    good = {"lower": np.zeros(1), "upper": np.ones(1), "acceleration": np.ones((1, go2.nv))}
    wbc = WholeBodyController(go2)
    own = LinearConstraint("own", 0.0, 0.0, acceleration=np.zeros((1, go2.nv)))
    said: dict[str, object] = {}
    wbc.add(own, 1)
    own.rows = lambda tick: [Rows(("own",), "", **(good | said))]  # type: ignore[method-assign,arg-type]
    want = tick(wbc, dyn, 0).tau
    for what, value in (
        ("lower", np.full(1, np.nan)),
        ("lower", np.full(1, np.inf)),
        ("upper", np.full(1, -np.inf)),
        ("upper", np.ones(2)),
        ("lower", 0.0),
        ("weights", np.full(1, np.inf)),
        ("weights", np.ones((1, 1))),
        ("acceleration", np.full((1, go2.nv), np.nan)),
        ("acceleration", np.ones((2, go2.nv))),
        ("acceleration", np.ones(go2.nv)),
        ("force", np.ones((1, 11))),
        ("torque", np.full((1, go2.nu), np.inf)),
    ):
        said = {what: value}
        raises(qd.ArgumentError, f"own.rows: {what}", tick, wbc, dyn, 1)
    said = {"acceleration": [[1.0] * go2.nv], "lower": [0.0]}  # lists are accepted
    np.testing.assert_allclose(tick(wbc, dyn, 0).tau, want, atol=1e-9)
    said = {"lower": np.full(1, -np.inf), "upper": np.full(1, np.inf)}
    assert tick(wbc, dyn, 1).status.ok


def test_number_of_rows_of_an_element_may_change_and_be_zero(go2: qd.Robot) -> None:
    """The number of rows changes from tick to tick; memory is allocated for the maximum."""
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2, constraints=[])
    own = LinearConstraint("own", 0.0, 0.0, acceleration=np.eye(go2.nv)[6:9])
    wbc.add(own, 0)
    for k, count in enumerate((3, 1, 0, 2, 5)):
        own.rows = (
            lambda tick, m=count: [  # type: ignore[method-assign,misc]
                Rows(("own",) * m, "", np.full(m, 2.0), np.full(m, 2.0), acceleration=np.eye(go2.nv)[6 : 6 + m])
            ]
        )
        c = assert_optimal_tick(wbc, dyn, k, None, go2.feet)
        np.testing.assert_allclose(c.acceleration[6 : 6 + count], 2.0, atol=1e-8)
        assert sum(g.element == "own" for g in c.details.problem.levels[0]) == (count > 0)


# -- details, and the tick as plain Python -----------------------------------------------------------------------------
def test_computing_details_does_not_change_ticks(go2: qd.Robot) -> None:
    dyn, old, early = qd.Dynamics(go2), list[Command](), list[tuple[Any, float, str]]()
    wbc, twin = (WholeBodyController(go2, ramp_time=0.01) for _ in range(2))
    for each in (wbc, twin):
        each.add(CustomComTask(go2), 1)
        each.add(CustomConstraint(go2), 0)
    for k in range(12):
        stance = go2.feet if k < 4 else go2.feet[1:]
        for each in (wbc, twin):
            each.tasks["own com"].reference(np.array([0.0, 0.001 * k, 0.3]))
            each.tasks["together"].bound = 40.0 + k
            each.tasks["together"].slow = (1.0 + 0.01 * k) * np.eye(go2.nv)[6:8]
            each.tasks["forces"].reference({"RR": np.array([0.0, 0.0, float(k)])})
            each.contacts["RL"].set_normal_force_bounds(0.0, 100.0 - k)
        before = (
            wbc.parameter_vector.copy(),
            wbc.tasks["forces"].references,
            {n: s.contact for n, s in wbc.contacts.items()},
        )
        for command in old:
            assert command.details.problem.levels and command.margins and len(command.levels) == 3
        np.testing.assert_array_equal(wbc.parameter_vector, before[0])
        assert (
            wbc.tasks["forces"].references is before[1] and {n: s.contact for n, s in wbc.contacts.items()} == before[2]
        )
        mine, theirs = tick(wbc, dyn, k, stance), tick(twin, dyn, k, stance)
        np.testing.assert_array_equal(mine.tau, theirs.tau)
        early.append((theirs.margins, theirs.levels[1].residual, theirs.explain() if k % 4 == 3 else ""))
        old.append(mine)
    for k, (command, (margins, residual, words)) in enumerate(zip(old, early, strict=True)):
        assert command.margins == margins and command.levels[1].residual == residual
        assert k % 4 != 3 or command.explain() == words


@pytest.mark.parametrize(
    "name",
    [
        *others_slow(["go2", "bolt", "passive go2", "anymal_b_kinova"], ["bolt"]),
        "solo8",
        "ur5",
        "planar hyq",
    ],
)
def test_compiled_tick_equals_plain_python(name: str) -> None:
    """Python checks every index: all kinds of elements and contacts, in calm, ramped and infeasible ticks."""
    robot = ROBOTS[name]() if name in ROBOTS else qd.load(name)

    def make() -> WholeBodyController:
        if name == "anymal_b_kinova":
            hand = "j2s6s200_end_effector"
            level_0, levels = everything(robot, hand)
            sole = Contact(name=hand, frame=hand, kind="surface", half_size=(0.05, 0.03))
            return WholeBodyController(robot, tasks=levels, constraints=level_0, contacts=[sole], ramp_time=0.004)
        wbc = WholeBodyController(
            robot, friction=0.3, ramp_time=0.004, contacts=any_contacts(robot, np.random.default_rng(4))
        )
        if robot.root == "free":
            wbc.add(CustomComTask(robot), 1)
        return wbc

    dyn, fast = qd.Dynamics(robot), make()
    with interpret():
        slow = make()
        slow._structure.solver.bind_machine_code()
    every = tuple(fast.contacts)
    for k, stance in enumerate((every, every[1:], every[1:], every[:-1], ())):
        for wbc in (fast, slow):
            if k == 3:
                wbc.tasks["torque"].limits *= 0.01
        one = tick(fast, dyn, k, stance)
        with interpret():
            other = tick(slow, dyn, k, stance)
        assert one.status.outcome == other.status.outcome
        np.testing.assert_allclose(one.tau, other.tau, atol=1e-9 * (1.0 + np.abs(other.tau).max()))
