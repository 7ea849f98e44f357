"""Texts of printed objects are unchanged."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from expected_outputs import check_expected_file, check_output, rounded
from test_printed import agreement

import quaddyn as qd
from quaddyn.identification.actuator_fit import ActuatorFit
from quaddyn.identification.base_parameters import RankCertificate
from quaddyn.identification.identification_result import MAX_PRINTED_BODIES, Identification
from quaddyn.robot.report import ValidationReport
from quaddyn.runtime import Stage
from quaddyn.runtime.faults import FAULT_TEXTS, Fault
from quaddyn.runtime.loop import LoopReport
from quaddyn.runtime.loop_statistics import LoopStatistics
from quaddyn.runtime.preflight_report import PreflightCheck, PreflightReport
from quaddyn.urdf.tree import Finding, Where
from quaddyn.verification.report import MAX_PRINTED_DEVIATIONS, Deviation, ThirdOpinion
from quaddyn.wbc import ComTask, FrameTask, PostureTask
from quaddyn.wbc.certificate import Status
from quaddyn.wbc.explanation import Loss


def assert_texts(name: str, *things: object, more: bool = False) -> None:
    check_expected_file(name, "\n".join(f"-- {k}\n{thing}" for k, thing in enumerate(things)), more=more)


def test_text_of_an_agreement_lists_deviations_and_marks_failures() -> None:
    differs = tuple(Deviation(f"link {i}", "mass", "1", "2", 0.5) for i in range(MAX_PRINTED_DEVIATIONS + 2))
    missing = Deviation("hip", "frame", "there", "missing", math.inf)
    assert_texts(
        "said_agreement",
        agreement(),
        agreement(deviations=differs, third_opinion=ThirdOpinion("not compared")),
        agreement(
            deviations=(missing, *differs[: MAX_PRINTED_DEVIATIONS - 1]),
            third_opinion=ThirdOpinion("refused: no such file"),
        ),
        agreement(ratios={"rnea": 1.0, "crba": 1.01, "aba": math.nan}, third_opinion=ThirdOpinion("disagrees", 0.5)),
    )
    assert not agreement(third_opinion=ThirdOpinion("disagrees", 0.5)).passed and agreement(ratios={"rnea": 1.0}).passed


def test_texts_of_file_and_preflight_reports_are_unchanged() -> None:
    finding = Finding("warning", Where("dog.urdf", 3, "<link>"), "odd", "mend it")
    checks = (
        PreflightCheck("limits", True, "all there"),
        PreflightCheck("sign of hip", False, "turned", "the hip"),
        PreflightCheck("IMU", None, "-"),
    )
    assert_texts(
        "said_reports",
        ValidationReport((), {"mass": "the file"}, {"RNEA(ABA) error": 1.25e-12}),
        ValidationReport((finding,), {}, {}),
        PreflightReport(checks),
        PreflightReport(checks[:1]),
    )
    assert [PreflightReport(some).passed for some in (checks, checks[:2], checks[:1], checks[::2])] == [
        False,
        False,
        True,
        False,
    ]


def test_texts_of_loop_statistics_and_faults_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load("two_link_leg")
    statistics = LoopStatistics.empty()
    for k in range(1000):
        statistics.period.add(1e-3 + 1e-6 * (k % 10))
        statistics.latency.add(5e-5 if k else 2.5e-3)
    statistics.ticks, statistics.overruns, statistics.missed_deadlines = 1000, 3, 4
    faults = [
        Fault.from_code(code, index, 1.2345, 1.0, robot, what="said", time=0.5)
        for code in sorted(FAULT_TEXTS)
        for index in (-1, 1)
    ]
    assert_texts(
        "said_loop",
        LoopReport(statistics, Stage.DAMP, faults[0], ("one line", "another"), silences=2),
        LoopReport(LoopStatistics.empty(), Stage.RUN, None, ()),
        *(f"{fault.code} {fault.joint}: {fault}" for fault in faults),
        more=True,  # kinds of faults may be added
    )


def test_texts_of_status_and_losses_are_unchanged() -> None:
    assert_texts(
        "said_losses",
        Status("solved", 1.23e-9, 4.56e-12),
        Loss("com x", 1, -1.23456, 2.0, "m/s^2", "", 0.0, "com"),
        Loss("com x", 1, -1.23456, 2.0, "m/s^2", "the FL friction cone", 0.0123, "com"),
        Loss("com x", 1, -1.23456, 2.0, "m/s^2", "the FL friction cone", 0.0124, "com"),
        RankCertificate(10, 12, np.ones(12), 1e6, np.array([]), 1e-12, 30, 0, 1e-9),
        RankCertificate(12, 12, np.ones(12), math.inf, np.array([1e-8, 1e-5]), 1e-12, 30, 7, 1e-9),
    )


def test_texts_of_robots_and_controllers_are_unchanged() -> None:
    robot = qd.load("small_quadruped")
    arm = qd.load("two_link_leg")
    dyn = qd.Dynamics(arm, validate=False)
    state = dyn.update(arm.q_home, np.zeros(arm.nv))
    fresh = repr(state)
    dyn.update(arm.q_home, np.zeros(arm.nv))
    tasks = ComTask(robot), PostureTask(robot), FrameTask(robot, robot.bodies[0].name, name="base")
    wbc = qd.WholeBodyController(robot)
    walking = qd.LocomotionController(robot, gait="stand")
    assert_texts(
        "said_objects", robot, arm, arm.motors, dyn, fresh, repr(state), wbc, *tasks, *wbc.contacts.values(), walking
    )


@pytest.mark.parametrize("inertial", [False, True])
def test_texts_of_body_and_motor_fits_are_unchanged(inertial: bool) -> None:
    def body(name: str, joint: Any) -> Any:
        return SimpleNamespace(name=name, joint=joint, inertial=SimpleNamespace(mass=2.0))

    joints = [SimpleNamespace(name=f"joint{i}", nv=1) for i in range(MAX_PRINTED_BODIES + 1)]
    bodies = [body("base", None), *(body(f"a body with a long name {i}", joint) for i, joint in enumerate(joints))]
    robot = SimpleNamespace(
        name="dog", root="fixed", bodies=bodies, actuated=("joint0",), velocity_index=lambda name: 0
    )
    width = 10 if inertial else 13
    rows = np.zeros((len(bodies), width))
    rows[:, 0], rows[:, 1], rows[:, 4:6], rows[:, 6], rows[:, 9] = 2.0, 0.1, 0.1, 0.1, 0.1
    rows[:, 10:] = (0.12345, 0.2, 0.01) if not inertial else ()
    names = [f"{word} {each.name}" for each in bodies for word in (*"m lx ly lz".split(), *width * ["x"])[:width]]
    base: Any = SimpleNamespace(
        robot=robot, size=20, inertial=inertial, names=names, groups=lambda: (names[0], *names[width : width + 4]),
        K=np.zeros((20, rows.size)), independent=np.arange(20),
    )  # fmt: skip
    fit = Identification(
        base=base, method="weighted", beta=np.zeros(20),
        covariance=np.eye(20), delta=rows.ravel(), noise=np.array([0.1, 0.2]), samples=100, n_identifiable=18,
        condition=123.456,
        converged=not inertial, iterations=1, unidentifiable=("a", "b") if inertial else (),
        offset=np.array([0.5, 0.0]), mean_residual=np.array([0.0, -0.3]), drift=np.array([[0.01, 0.1], [2.0, 0.1]]),
    )  # fmt: skip
    numbers = np.array([1.23456, math.nan])
    motors = ActuatorFit(("hip", "long_knee"), 1e-3 * numbers, *(numbers[::-1] + k for k in range(7)))
    assert_texts(f"said_fits_{inertial}", fit, motors)
    assert rounded("1.00000000001 -0.0 2e-3") == "1 0 0.002"


@pytest.mark.parametrize(
    ("text", "expected", "same"),
    [
        ("[0.0, 5.71]", "[-0.0, 5.71]", True),
        ("[0.001 0.    0.341]", "[ 0.001 -0.     0.341]", True),
        ("5.72 N,\n 1e-05", "5.71 N, 2e-05", True),
        ("5.73", "5.71", False),
        ("-5.71", "5.71", False),
        ("51 mm", "50 mm", False),
        ("FL1 moved", "FL2 moved", False),
        ("stood", "fell", False),
        ("1.0 2.0", "1.0", False),
    ],
)
def test_output_is_compared_to_the_last_printed_digit(text: str, expected: str, same: bool) -> None:
    with nullcontext() if same else pytest.raises(AssertionError):
        check_output(text, expected)
