"""Calls of a controller during its own tick, and read-only mappings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from interrupting import interrupt
from raising import raises

import quaddyn as qd
from quaddyn.contact import Contact
from quaddyn.errors import ArgumentError, ArgumentTypeError, ConcurrencyError
from quaddyn.exclusive_call import ExclusiveCall
from quaddyn.locomotion import LocomotionController
from quaddyn.simulation import Simulation
from quaddyn.wbc import PostureTask, WholeBodyController


@pytest.fixture
def controller_and_state(go2: qd.Robot) -> tuple[WholeBodyController, qd.State]:
    return WholeBodyController(go2), qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.add_contact(Contact(name="nose", frame="base")),
        lambda w: w.remove_contact("FR"),
        lambda w: w.add(PostureTask(w.robot, name="other"), 3),
        lambda w: w.remove("posture"),
        lambda w: w.reset(),
    ],
)
def test_elements_and_contacts_cannot_change_during_a_tick(controller_and_state, call) -> None:
    controller, state = controller_and_state
    controller.compute(state)
    before, names = controller.compute(state).tau, tuple(controller.contacts)

    def contacts() -> Iterator[str]:
        yield "FL"
        call(controller)

    with pytest.raises(ConcurrencyError, match="in progress; use one controller per thread"):
        controller.compute(state, contacts())
    assert tuple(controller.contacts) == names
    np.testing.assert_allclose(controller.compute(state).tau, before, rtol=1e-9)
    call(controller)  # allowed between ticks
    controller.compute(state, ("FL",))


# An exception in a finalizer of another package cannot leave it: Python prints it, and pytest warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["call", "controller", "plant"])
def test_interrupts_leave_no_lock_behind(controller_and_state, kind: str) -> None:
    """Signals whose handler raises at random times; 10^5 of them: benchmarks/under_fire.py."""
    controller, state = controller_and_state
    tau = controller.compute(state).tau
    plant, alone = Simulation(controller.robot), ExclusiveCall("controller")

    def locked() -> None:
        with alone.acquire("call"):
            pass

    call, count, longest = {
        "call": (locked, 1500, 3e-5),
        "controller": (lambda: controller.compute(state), 500, 1e-4),
        "plant": (lambda: plant.step(tau), 30, 1e-3),
    }[kind]
    assert interrupt(call, count, longest, np.random.default_rng(0)) > count // 10
    call()
    controller.reset()
    np.testing.assert_allclose(controller.compute(state).tau, tau, rtol=1e-9)


def test_elements_and_contacts_by_name_are_read_only(controller_and_state) -> None:
    controller, _ = controller_and_state
    for mapping in (controller.contacts, controller.tasks):
        name = next(iter(mapping))
        for write in (
            lambda m, n: m.pop(n),
            lambda m, _: m.clear(),
            lambda m, n: m.update({n: 3}),
            lambda m, _: m.popitem(),
            lambda m, n: m.setdefault(n + "x", 3),
            lambda m, n: m.__setitem__(n, 3),
            lambda m, n: m.__delitem__(n),
            lambda m, n: m.__ior__({n: 3}),
        ):
            raises(TypeError, "read-only", write, mapping, name)
        assert name in mapping


def test_extremely_slow_ramp_leaves_no_force_cap(controller_and_state) -> None:
    controller, state = controller_and_state
    controller.compute(state)
    controller.ramp_time = 1e14
    for _ in range(5):
        controller.compute(state, ("FL", "FR", "RL"))
    controller.ramp_time = 0.0
    controller.compute(state)
    assert controller._structure.schedule.ramps.cap.tolist() == [np.inf] * 4


def test_locomotion_rejects_invalid_plans_and_attributes(controller_and_state) -> None:
    whole_body, _ = controller_and_state
    with pytest.raises(ArgumentTypeError, match="righting_plan: expected a RightingPlan or None, got str"):
        LocomotionController(whole_body.robot, righting_plan="x")
    controller = LocomotionController(whole_body.robot)
    for name in ("mode", "path_reference", "gait_scheduler", "ground"):
        with pytest.raises(AttributeError):
            setattr(controller, name, 3)
    with pytest.raises(AttributeError, match="a LocomotionController has no path_reference before its first tick"):
        controller.path_reference  # noqa: B018
    whole_body.remove_contact("FL")
    with pytest.raises(ArgumentError, match="wbc: expected a contact for every foot; missing contacts: FL"):
        LocomotionController(whole_body.robot, wbc=whole_body)
