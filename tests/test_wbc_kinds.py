"""Kinds of elements: a tick writes the rows of their layouts, and every kind is registered completely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wbc_elements import ELEMENTS, EXPORTED, IN_PYTHON, ROBOTS, contacts_for

import quaddyn as qd
from quaddyn import wbc
from quaddyn.wbc import ComTask, ContactMotion, PostureTask, Task, WholeBodyController, elements
from quaddyn.wbc.element import CUSTOM, Element, Layout, RowCounts

#: Base classes, and elements without rows or without rows in compiled code.
BASES, ROWLESS = {"task", "constraint"}, {"joint_friction"}


def test_every_exported_kind_has_a_unique_code_and_every_code_a_kind() -> None:
    own = {name: cls for name, cls in EXPORTED.items() if name not in BASES}
    silent = [name for name, cls in own.items() if "kind" not in vars(cls) and name not in IN_PYTHON]
    assert not silent, f"{silent}: a class without a kind of its own is treated as a user's class"
    compiled = {cls.kind.code: cls for cls in own.values() if cls.kind is not CUSTOM}
    assert len(compiled) == len(own) - len(IN_PYTHON), "two kinds have the same code"
    assert elements.ELEMENT_CLASSES == compiled | {CUSTOM.code: Element}
    assert all(getattr(wbc, kind.__name__, None) is kind for kind in EXPORTED.values())


def test_every_kind_of_element_has_an_instance_for_tests() -> None:
    assert set(ELEMENTS) | ROWLESS | BASES == set(EXPORTED)
    for name, make in ELEMENTS.items():
        assert type(make(ROBOTS["go2"]())) is EXPORTED[name]


@pytest.mark.parametrize("kind", ELEMENTS)
def test_tick_writes_exactly_the_rows_of_the_layout(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, told = ROBOTS["go2"](), list[Layout]()
    element: Any = ELEMENTS[kind](robot)
    layout = type(element).declare_layout
    monkeypatch.setattr(
        type(element), "declare_layout", classmethod(lambda cls, counts: told.append(layout(counts)) or told[-1])
    )
    motion = [] if kind == "contact_motion" else [ContactMotion(robot)]
    below = PostureTask(robot, "below")
    contacts = contacts_for(kind, robot, np.random.default_rng(0))
    if kind != "held_object":
        contacts = contacts[-1:]  # the sole, which some rows use
    controller = WholeBodyController(robot, constraints=[*motion, element], tasks=[below], contacts=contacts)
    monkeypatch.undo()
    s, wanted, limits = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)), 0, 0
    if kind == "torque_rate":
        controller.compute(s)  # there is no rate on the first tick
    command = controller.compute(s, () if kind == "foot" else None)
    for group in (g for level in command.details.problem.levels for g in level if g.element == element.name):
        wanted += int(np.count_nonzero(group.is_equality))
        limits += int(np.count_nonzero(~group.is_equality))
    assert wanted + limits > 0, "the kind has no function that writes its rows"
    if element.kind is CUSTOM:
        return
    assert wanted <= told[-1].equalities and limits <= told[-1].limits
    if isinstance(element, Task):
        assert wanted == len(element.rows_used) and told[-1].equalities == len(element.labels)
        assert told[-1].parameter_count == len(element.block)


@pytest.mark.parametrize("kind", [name for name in ELEMENTS if issubclass(EXPORTED[name], Task)])
def test_motion_task_without_a_reference_holds_the_current_position(kind: str) -> None:
    robot, rng = ROBOTS["go2"](), np.random.default_rng(0)
    task: Task = ELEMENTS[kind](robot)
    controller = WholeBodyController(robot, constraints=[ContactMotion(robot)], tasks=[task, PostureTask(robot)])
    task.reference_position = None
    q = robot.algorithms.integrate(robot.model, robot.q_home, 0.1 * rng.normal(size=robot.nv))
    s = qd.Dynamics(robot).update(q, np.zeros(robot.nv))
    controller.compute(s, ())
    if task.size and task.stiffness.any():
        assert task.reference_position is not None, "the kind has no function that captures the reference"
        np.testing.assert_allclose(task.reference_position, task.position(s), atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"parameter_count": 21}, "3 rows and 21 parameters, got 3 and 22"),
        ({"rows": 2}, "2 rows and 22 parameters, got 3 and 22"),
        ({"first": range(1, 3)}, "a reference from 1 to 2, got 0"),
    ],
)
def test_layout_that_does_not_fit_its_element_is_rejected(wrong: dict[str, Any], words: str) -> None:
    class Own(ComTask):
        @classmethod
        def declare_layout(cls, counts: RowCounts) -> Layout:
            return super().declare_layout(counts)._replace(**wrong)

    robot = ROBOTS["go2"]()
    with pytest.raises(
        qd.ArgumentError,
        match=f"mine: the layout that Own.declare_layout returns does not fit the element: expected {words}",
    ):
        WholeBodyController(robot, tasks=[Own(robot, "mine")])


def test_element_whose_kind_is_not_registered_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = ROBOTS["go2"]()
    monkeypatch.setattr(ComTask, "kind", ComTask.kind._replace(code=99))
    with pytest.raises(qd.ArgumentError, match="com: no tick would write its rows; export ComTask"):
        WholeBodyController(robot, tasks=[ComTask(robot)])
