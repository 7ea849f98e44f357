"""Explanations are short, list the largest losses first and name likely causes."""

from __future__ import annotations

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.wbc import ComTask, ContactMotion, FrictionPyramid, PostureTask, WholeBodyController
from quaddyn.wbc.explanation import _describe_largest


@pytest.fixture(scope="module")
def infeasible() -> qd.Command:
    """All four feet assumed to carry load while the legs move at 8 rad/s."""
    robot, rng = qd.load("go2"), np.random.default_rng(1)
    v = np.concatenate((np.zeros(6), 8.0 * rng.normal(size=12)))
    return WholeBodyController(robot).compute(qd.Dynamics(robot).update(robot.q_home, v))


def test_an_infeasible_tick_is_explained_in_five_lines_after_status_and_cause(infeasible: qd.Command) -> None:
    status, cause, *what = infeasible.explain().splitlines()
    assert status.startswith("infeasible")
    assert cause.startswith("likely cause: FR, ") and "move fast although they are assumed to carry load" in cause
    assert len(what) == 6 and what[-1].endswith("explain(max_lines=None) returns all of them")
    assert int(what[-1].split()[2]) == len(infeasible.explain(max_lines=None).splitlines()) - 2 - 5


def test_losses_are_grouped_and_the_largest_of_the_highest_level_come_first(infeasible: qd.Command) -> None:
    losses, lines = infeasible.losses(), infeasible.explain(max_lines=None).splitlines()[2:]
    assert 5 < len(lines) < len(losses) / 2
    keys = list(dict.fromkeys((x.level, x.element, x.cause) for x in losses))
    assert len(lines) == len(keys)
    firsts = [
        max((x for x in losses if (x.level, x.element, x.cause) == key), key=lambda x: abs(x.deficit)) for key in keys
    ]
    firsts.sort(key=lambda x: (x.level, -abs(x.deficit)))
    for line, first in zip(lines, firsts, strict=True):
        assert line.startswith(f"{first.row}: {abs(first.deficit):.3g} {first.unit}")
    assert any("more of contact" in line for line in lines)


def test_joints_beyond_their_bounds_and_missing_contacts_are_causes() -> None:
    robot = qd.load("go2")
    dyn, wbc = qd.Dynamics(robot), WholeBodyController(robot)
    v = np.zeros(robot.nv)
    text = wbc.compute(dyn.update(robot.q_home, v), contacts=()).explain()
    assert "likely cause: no contact was assumed to carry" in text
    q = robot.q_home.copy()
    q[7:] = robot.upper[7:] + 0.3
    text = WholeBodyController(robot).compute(dyn.update(q, v)).explain()
    assert text.startswith("infeasible") and "beyond their bounds" in text and "FL_hip_joint" in text.splitlines()[1]


def test_missing_contacts_are_no_cause_for_an_arm() -> None:
    robot = qd.load("ur5")
    posture = PostureTask(robot)
    posture.reference(robot.q_home + 1.0, acceleration=np.full(robot.nv, 1e4))
    wbc = WholeBodyController(robot, tasks=[[posture]])
    text = wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))).explain()
    assert "less than required because of" in text and "contact" not in text


def test_tick_without_losses_has_no_cause() -> None:
    robot = qd.load("go2")
    command = WholeBodyController(robot).compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)))
    assert command.explain().splitlines()[1:] == ["no deficits: all tasks reach their targets"]


def test_explanation_of_a_tipping_robot_names_the_foot_that_cannot_pull() -> None:
    """One foot is in the air; moving the center of mass from the edge of the other feet over them would make RR pull.

    Its friction cone and its minimum normal force both prevent that: neither is the only cause.
    """
    robot = qd.load("go2")
    s, wbc = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv)), WholeBodyController(robot)
    aside = np.array([-0.005, -0.005, 0.0])  # away from FL
    wbc.tasks["com"].reference(s.com + aside)
    command = wbc.compute(s, contacts=("FR", "RL", "RR"))
    losses = [loss for loss in command.losses() if loss.element in ("com", "base")]
    assert losses and {loss.cause for loss in losses} == {"RR, which cannot pull on the ground"}
    assert max(abs(loss.deficit_without_cause / loss.deficit) for loss in losses) < 1e-6
    assert "less than required because of RR, which cannot pull on the ground" in command.explain()
    wbc = WholeBodyController(robot)
    wbc.contacts["RR"].set_normal_force_bounds(5.0)
    wbc.tasks["com"].reference(s.com + aside)
    assert (
        "less than required because of the RR normal force" in wbc.compute(s, contacts=("FR", "RL", "RR")).explain()
    )  # the only cause


@pytest.mark.parametrize(("faces", "across"), [(4, 0.212), (8, 0.277)])
def test_friction_pyramid_is_named_with_the_friction_that_it_permits(faces: int, across: float) -> None:
    """On a slope, too: the pyramid of 4 faces permits mu / sqrt(2) across its faces and mu along its edges."""
    robot = qd.load("go2")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for normal in ((0.0, 0.0, 1.0), (0.0, 0.28, 0.96)):
        com = ComTask(robot)
        level_0 = [ContactMotion(robot), FrictionPyramid(faces=faces)]
        wbc = WholeBodyController(robot, constraints=level_0, tasks=[[com]], friction=0.3)
        for contact in wbc.contacts.values():
            contact.normal = normal
        com.reference(s.com, acceleration=np.array([4.0, 0.0, 0.0]))
        (loss,) = [loss for loss in wbc.compute(s).losses() if loss.row == "com x"]
        assert loss.cause.endswith(f"friction pyramid ({faces} faces: friction {across} to 0.3, by direction)")


def test_order_of_equal_losses_and_contacts_does_not_depend_on_rounding() -> None:
    robot, rng, texts, causes = qd.load("go2"), np.random.default_rng(0), set(), set()
    for _ in range(6):
        noise = 1.0 + 2e-16 * rng.standard_normal(12)
        v = np.concatenate((np.zeros(6), np.tile([0.0, 8.0, 8.0], 4) * noise))
        text = WholeBodyController(robot).compute(qd.Dynamics(robot).update(robot.q_home, v)).explain(max_lines=None)
        causes.add(text.splitlines()[1])
        texts.add(tuple(line.split(":")[0] for line in text.splitlines()[2:]))
    assert len(causes) == len(texts) == 1 and "FL, FR, " in causes.pop()
    assert _describe_largest(("FL_calf", "FR_calf"), np.array([-1.0, 1.0 + 2e-16])).endswith("(FL_calf)")
