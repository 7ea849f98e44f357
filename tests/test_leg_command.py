"""The command `quaddyn leg`: the survey for its table and the animation for its picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.demo.leg import configuration, show_branches
from quaddyn.kinematics import LegKinematics, reachable_curve, survey_leg
from quaddyn.viewer import Viewer

runner = CliRunner()
#: Robots without legs.  They are listed because loading all robots takes seconds in each process that collects tests.
LEGLESS = (
    "rx90", "kinova", "panda", "ur3", "ur5", "ur10", "xarm7", "z1", "chain_10", "asr_twodof", "double_pendulum",
    "double_pendulum_continuous", "double_pendulum_simple", "finger_edu", "planar_3r", "chain_4",
)  # fmt: skip
#: Robots whose legs are similar to those of others; they are tested only in the nightly run.
LIKE_OTHERS = (
    "talos",
    "wheeled_quadruped",
    "a1",
    "go1",
    "laikago",
    "b1_z1",
    "anymal_b",
    "anymal_b_kinova",
    "b1",
    "hyq",
    "solo12",
)


def test_table_of_go2_is_correct_and_fits_80_columns(tmp_path: Path) -> None:
    page = tmp_path / "leg.html"
    arguments = ["leg", "go2", "--samples", "200", "--record", str(page), "--seconds", "1"]
    result = runner.invoke(app, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("targets:"))]
    assert max(map(len, table)) <= 80
    for words in (
        "FL_calf_joint",
        "-2.72 to -0.84 rad; 0.2130 m to the foot",
        "0.0955 m",
        "closed form",
        "200 of 200",
        "seed 0",
    ):
        assert words in result.stdout
    assert sum("knee backward, hip below" in line and "home" in line for line in lines) == 4
    assert page.stat().st_size > 100_000


def test_json_of_one_leg_contains_figures_without_animation() -> None:
    result = runner.invoke(app, ["leg", "two_link_leg", "--json", "--leg", "leg"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    (leg,) = said["legs"]
    assert said["cpu"]
    assert leg["closed_form"] is True
    assert [b["name"] for b in leg["branches"]] == ["knee forward", "knee backward"]
    assert sum(b["contains_home"] for b in leg["branches"]) == 1
    assert leg["n_reached"] == leg["samples"] == 1000
    assert leg["max_error"] <= 1e-12


def test_an_infinite_limit_is_null_in_json() -> None:
    result = runner.invoke(app, ["leg", "centauro", "--json", "--leg", "FL", "--samples", "20"])
    assert result.exit_code == 0, result.output
    (leg,) = json.loads(result.stdout)["legs"]
    assert leg["lower"][-1] is None
    assert leg["segments"][-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["ur5"], "ur5 has no legs"), (["go2", "--leg", "XX"], "'XX'")],
)
def test_missing_legs_or_unknown_leg_is_one_line_error(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quaddyn.cli import main

    monkeypatch.setattr("sys.argv", ["quaddyn", "leg", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len([line for line in said if line.startswith("error:")]) == 1
    assert words in said[-1]


def test_reach_of_go2_follows_from_its_link_lengths() -> None:
    leg = LegKinematics(qd.load("go2"), "FL")
    found = survey_leg(leg, samples=300)
    side, thigh, calf = found.segments
    ends = [np.sqrt(side**2 + thigh**2 + calf**2 + 2 * thigh * calf * np.cos(q)) for q in (leg.lower[2], leg.upper[2])]
    np.testing.assert_allclose(found.reach, ends, atol=1e-9)
    assert found.n_reached == 300
    assert found.branches[1].contains_home
    assert found.branches[1].name == "knee backward, hip below"
    assert found.branches[0].fraction_within_limits == 0.0  # the knee bends one way only
    np.testing.assert_array_equal(survey_leg(leg, samples=300).farthest, found.farthest)


@pytest.mark.parametrize("name", ["go2", "bolt"])
def test_reachable_curve_has_orthogonal_forward_up_and_sideways_axes(name: str) -> None:
    robot = qd.load(name)
    c = reachable_curve(LegKinematics(robot, next(iter(robot.legs))), points=8)
    centre = 0.5 * (c[0] + c[4])
    axes = np.array([0.5 * (c[0] - c[4]), c[2] - c[6], (0.5 * (c[1] + c[5]) - centre) / 0.3])
    np.testing.assert_allclose(axes @ axes.T, np.eye(3) * (axes[0] @ axes[0]), atol=1e-12)


@pytest.mark.slow  # other robots are loaded below
def test_listed_robots_have_no_legs() -> None:
    assert [name for name in LEGLESS if qd.load(name).legs] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in LIKE_OTHERS else [])
        for n in qd.CATALOGUE
        # A loop moves the knee of the closed leg; inverse kinematics finds 96 % of the samples of the leg of G1.
        if n not in (*LEGLESS, "closed_leg_biped", "g1")
    ],
)
def test_every_leg_is_surveyed_and_follows_its_reachable_curve(name: str) -> None:
    robot = qd.load(name)
    leg = LegKinematics(robot, next(iter(robot.legs)))
    found = survey_leg(leg, samples=50)
    assert found.n_reached == found.samples
    assert found.max_error <= 1e-12
    low, high = found.reach
    rng = np.random.default_rng(7)
    inside = rng.uniform(np.maximum(leg.lower, -np.pi), np.minimum(leg.upper, np.pi), (2000, leg.n))
    far = np.linalg.norm(leg.forward(inside) - found.hip, axis=1)
    assert low - 1e-9 <= far.min()
    assert far.max() <= high + 1e-9
    curve = reachable_curve(leg, points=60)
    followed = leg.inverse(curve)
    assert np.all(followed.reached)
    assert np.all(followed.within_limits) or not np.any(leg.upper > leg.lower)  # some files allow no motion
    steps = np.linalg.norm(np.diff(np.vstack((curve, curve[:1])), axis=0), axis=1)
    assert 0.0 < steps.max() < 4.0 * steps.mean()  # closed, and no jump
    # The foot of the drawn robot is at the drawn target, by Pinocchio's forward kinematics.
    data = robot.model.createData()
    q = configuration(leg, followed.q[17])
    pin.framesForwardKinematics(robot.model, data, q)
    base = data.oMf[robot.frame_id(robot.tree.root.name)]
    np.testing.assert_allclose(data.oMf[robot.frame_id(leg.name)].translation, base.act(curve[17]), atol=1e-10)


def test_the_animation_shows_the_target_and_the_limits_of_a_branch(go2: qd.Robot) -> None:
    leg = LegKinematics(go2, "FL")
    texts: list[str] = []
    shares: list[float] = []

    class Page(Viewer):
        def show(self, q, **options):  # type: ignore[no-untyped-def]
            texts.append(options["caption"])
            assert set(options["points"]) == {"target"}
            super().show(q, **options)

    with Page(go2, serve=False, meshes=False) as viewer:
        show_branches(leg, viewer, seconds=1.0, progress=shares.append)
    assert shares[-1] == 1.0
    assert texts[0] == "FL: knee backward, hip below"
    assert all(t.endswith("beyond the joint limits") for t in texts if t.startswith("FL: knee forward"))
    raises(qd.QuaddynError, "seconds", show_branches, leg, viewer, seconds=0.0)


def test_options_out_of_range_are_rejected() -> None:
    leg = LegKinematics(qd.load("solo8"), "FL")
    raises(qd.QuaddynError, "samples", survey_leg, leg, samples=0)
    raises(qd.QuaddynError, "points", reachable_curve, leg, points=2)


def test_a_point_marker_is_created_where_it_is_requested() -> None:
    robot = qd.load("two_link_leg")
    viewer = Viewer(robot, serve=False)
    before = len(viewer._scene.slots)
    viewer.show(robot.q_home, points={"here": (0.1, 0.2, 0.3)}, show_com=False)
    assert len(viewer._scene.slots) == before + 1
    np.testing.assert_allclose(viewer._recording._frames[-1][1][-1][:3], (0.1, 0.2, 0.3), atol=1e-6)
    raises(qd.QuaddynError, "points", viewer.show, robot.q_home, points={"here": (0.1, np.nan, 0.3)})
