"""Explanations are short, list the largest losses first and name likely causes."""

from __future__ import annotations

import numpy as np
import pytest

import quaddyn as qd
from quaddyn.wbc import (
    ComTask,
    CustomTask,
    LinearConstraint,
    Loss,
    PostureTask,
    WholeBodyController,
)
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


def test_joints_beyond_their_bounds_and_missing_contacts_are_causes(go2: qd.Robot) -> None:
    dyn, wbc = qd.Dynamics(go2), WholeBodyController(go2)
    v = np.zeros(go2.nv)
    text = wbc.compute(dyn.update(go2.q_home, v), contacts=()).explain()
    assert "likely cause: no contact was assumed to carry" in text
    q = go2.q_home.copy()
    q[7:] = go2.upper[7:] + 0.3
    text = WholeBodyController(go2).compute(dyn.update(q, v)).explain()
    assert text.startswith("infeasible") and "beyond their bounds" in text and "FL_hip_joint" in text.splitlines()[1]


def test_missing_contacts_are_no_cause_for_an_arm() -> None:
    robot = qd.load("ur5")
    posture = PostureTask(robot)
    posture.reference(robot.q_home + 1.0, acceleration=np.full(robot.nv, 1e4))
    wbc = WholeBodyController(robot, tasks=[[posture]])
    text = wbc.compute(qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))).explain()
    assert (
        "less than the required 1e+04 because of several limits together (torque, joint bounds)" in text
        and "contact" not in text
    )


def test_explanation_of_a_tipping_robot_names_the_foot_that_cannot_pull(go2: qd.Robot) -> None:
    """One foot is in the air; moving the center of mass from the edge of the other feet over them would make RR pull.

    Its friction cone and its minimum normal force both prevent that: neither is the only cause.
    """
    s, wbc = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), WholeBodyController(go2)
    aside = np.array([-0.005, -0.005, 0.0])  # away from FL
    wbc.tasks["com"].reference(s.com + aside)
    command = wbc.compute(s, contacts=("FR", "RL", "RR"))
    losses = [loss for loss in command.losses() if loss.element in ("com", "base")]
    assert losses and {loss.cause for loss in losses} == {"RR, which cannot pull on the ground"}
    assert max(abs(loss.deficit_without_cause / loss.deficit) for loss in losses) < 1e-6
    assert " because of RR, which cannot pull on the ground" in command.explain()
    wbc = WholeBodyController(go2)
    wbc.contacts["RR"].set_normal_force_bounds(5.0)
    wbc.tasks["com"].reference(s.com + aside)
    assert " because of the RR normal force" in wbc.compute(s, contacts=("FR", "RL", "RR")).explain()  # the only cause


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_explanations_state_whether_a_value_is_less_or_more_than_required(direction: float, go2: qd.Robot) -> None:
    s, wbc = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)), WholeBodyController(go2, friction=0.1)
    wbc.tasks["com"].reference(s.com, acceleration=direction * np.array([3.0, 0.0, 0.0]))
    command = wbc.compute(s)
    (loss,) = [loss for loss in command.losses() if loss.row == "com x"]
    assert loss.target == pytest.approx(3.0 * direction) and loss.deficit * direction > 1.0
    text = "less than the required 3 because of" if direction > 0.0 else "more than the required -3 because of"
    assert text in command.explain()


def test_explanations_of_violated_limits_give_the_limit(go2: qd.Robot) -> None:
    """Level 0 requires at least 3 m/s^2 to one side, without upward acceleration."""
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    for side, text in ((1.0, "less than the permitted 3"), (-1.0, "more than the permitted -3")):
        wbc = WholeBodyController(go2, friction=0.1)
        bounds = sorted((3.0 * side, np.inf * side))
        lower, upper = np.array([bounds[0], -np.inf]), np.array([bounds[1], 0.0])
        wbc.add(LinearConstraint("go", lower, upper, acceleration=s.com_jacobian[[0, 2]], unit="m/s^2"), level=0)
        losses = [loss for loss in wbc.compute(s).losses() if loss.element == "go" and loss.target]
        assert len(losses) == 1 and losses[0].is_limit and losses[0].target == 3.0 * side and text in str(losses[0])


class Own(CustomTask):
    """Accelerations of a frame without a reference position, of some axes."""

    def __init__(self, robot: qd.Robot, frame: str, acceleration: list[float], axes: slice = slice(0, 3)) -> None:
        self._frame, self._axes = frame, axes
        super().__init__(robot, "own", len(acceleration), stiffness=0.0)
        self.reference(acceleration=np.array(acceleration))

    def error(self, s: qd.State) -> np.ndarray:
        return np.zeros(len(self.labels))

    def jacobian(self, s: qd.State) -> np.ndarray:
        return s.jacobian(self._frame)[self._axes]


def explain_own(robot: qd.Robot, q: np.ndarray, tasks: list, **options: float) -> list[Loss]:
    """Returns the deficits of the task "own", the largest first."""
    command = WholeBodyController(robot, tasks=tasks, **options).compute(
        qd.Dynamics(robot).update(q, np.zeros(robot.nv))
    )
    return sorted((x for x in command.losses() if x.element == "own"), key=lambda x: -abs(x.deficit))


def test_explanations_name_the_actual_causes_of_deficits(go2: qd.Robot) -> None:
    """Friction, torque limits, tasks of higher and of equal priority, and a singular configuration."""
    q, posture = go2.q_home, PostureTask(go2)

    def own(*acceleration: float) -> Own:
        return Own(go2, "base", [*acceleration, 0.0, 0.0, 0.0], slice(0, 6))

    (loss, *_) = explain_own(go2, q, [[own(3.0, 0.0, 0.0)], [posture]], friction=0.1)
    assert "friction pyramid" in loss.cause
    weak = qd.load("go2", limits={name: {"effort": 10.0} for name in go2.actuated if "calf" in name})
    lift = Own(weak, "base", [0.0, 0.0, 20.0, 0.0, 0.0, 0.0], slice(0, 6))
    (loss, *_) = explain_own(weak, q, [[lift], [PostureTask(weak)]], friction=1.0)
    assert "torque limit" in loss.cause
    (loss, *_) = explain_own(go2, q, [[PostureTask(go2)], [own(4.0, 0.0, 0.0)], [ComTask(go2)]], friction=0.6)
    assert loss.cause == "the posture task" and abs(loss.deficit) > 3.0
    (loss, *_) = explain_own(go2, q, [[PostureTask(go2), own(4.0, 0.0, 0.0)]], friction=0.6)
    assert loss.cause == "the posture task"


def test_deficits_in_a_singular_configuration_are_explained_by_it() -> None:
    robot = qd.load("planar_3r")
    tip, dynamics = robot.frame_names[-1], qd.Dynamics(robot)
    q = np.zeros(robot.nq)
    J = dynamics.update(q, np.zeros(robot.nv)).jacobian(tip)[:3]
    # The end of a stretched arm moves only perpendicular to the arm.
    (row,) = np.flatnonzero(np.linalg.norm(J, axis=1) > 1e-9)
    along = [0.0, 0.0, 0.0]
    along[(int(row) + 1) % 3] = 1.0
    (loss, *others) = explain_own(robot, q, [[Own(robot, tip, along)], [PostureTask(robot)]])
    assert not others and loss.deficit == pytest.approx(1.0)
    assert loss.cause == "the configuration, in which the rows of own have rank 1 instead of 3"


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
