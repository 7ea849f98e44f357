"""The demo runs on every quadruped without tuning, and its checks detect failures."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from finite_differences import derivative
from raising import raises
from slow_parameters import NIGHT, others_slow
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn import demo
from quaddyn.cli import app
from quaddyn.contact import ContactSet
from quaddyn.contact.solvers import FrictionalSolver
from quaddyn.control import JointPD
from quaddyn.demo import (
    DemoReport,
    JumpRequest,
    Push,
    run_locomotion_demo,
    run_squat_demo,
    supports_locomotion,
)
from quaddyn.demo.locomotion_demo import crouched_configuration
from quaddyn.demo.locomotion_run import HELP, LocomotionRun, parse_terrain, velocity_from_keys
from quaddyn.demo.motion import JointSwingMotion, SquatMotion, contact_jacobian
from quaddyn.demo.report import MIN_STORED_SAMPLES, DemoTimeSeries, frame_number
from quaddyn.kinematics import inverse_kinematics
from quaddyn.locomotion import LocomotionCommand, LocomotionController, LocomotionMode, Morphology
from quaddyn.robot.configuration import rotate_configuration
from quaddyn.simulation import Simulation
from quaddyn.viewer import Viewer
from quaddyn.wbc import VelocityController

QUADRUPEDS = "a1 anymal_b anymal_c b1 go1 go2 hyq laikago solo8 solo12 small_quadruped b1_z1".split()


@pytest.mark.parametrize("name", others_slow(QUADRUPEDS, ["solo8", "b1_z1"]))
def test_every_quadruped_stands_and_squats_without_tuning(name: str) -> None:
    robot, begun = qd.load(name), time.perf_counter()
    report = run_squat_demo(robot, duration=1.0)
    # The run time in the report is at most that measured here.
    assert report.steps <= report.steps_per_second * (time.perf_counter() - begun)
    assert report.passed, {k: c for k, c in report.checks.items() if not c.passed}
    assert report.motion == "squat" and report.steps == 1000
    low, high = report.base_height or (0.0, 0.0)
    assert high - low > 0.01  # the base moves
    assert report.weight_mean == pytest.approx(1.0, abs=1e-3)
    # Limits of the checks; the others depend on rounding, step size and depth of the squat.
    allowed = {"mean vertical force against m g": 1e-3, "vertical force against m g, standing": 1e-3}
    allowed |= {"force outside the friction cone": 1e-6, "slip of a foot": 1e-3, "contact law residual": 1e-8}
    allowed |= {"steps with a saturated joint": 0, "steps with a stance foot in the air": 0}
    assert {check: report.checks[check].limit for check in allowed} == allowed
    energy = report.checks["energy out of the floor"].limit / (robot.mass * 9.81 * (high - low))
    assert energy == pytest.approx(1e-5, rel=0.1)


@pytest.mark.parametrize("name", others_slow(["g1", "talos", "closed_leg_biped"], ["closed_leg_biped"]))
def test_humanoids_stand_and_squat_on_their_soles_without_tuning(name: str) -> None:
    report = run_squat_demo(qd.load(name), duration=4.0 if NIGHT else 0.6)
    assert report.passed, report.checks
    assert report.motion == "squat" and report.seconds == pytest.approx(4.0 if NIGHT else 0.6)
    assert report.base_height is not None and report.base_height[1] - report.base_height[0] > 2e-3
    assert report.normal_force is not None and report.normal_force[0] > 0.2 * report.weight


def test_weak_humanoid_fails_the_check_of_its_center_of_mass() -> None:
    robot = qd.load("closed_leg_biped")
    limits = {name: qd.Limits(effort=5.0) if "crank" in name else {} for name in robot.actuated}
    weak = qd.load("closed_leg_biped", limits={name: limit for name, limit in limits.items() if limit})
    report = run_squat_demo(weak, duration=0.5)
    assert not report.checks["error of the center of mass"].passed


def test_wheeled_robots_squat_on_held_wheels_or_are_rejected() -> None:
    wheeled = qd.load("wheeled_quadruped")
    assert not supports_locomotion(wheeled)
    assert run_squat_demo(wheeled, duration=1.0).passed
    raises(qd.ArgumentError, r"wheels.*FL_wheel_joint", LocomotionController, wheeled)
    raises(qd.ArgumentError, "cannot balance its weight", run_squat_demo, qd.load("wheeled_biped"), duration=0.5)


def test_slow_squat_lowers_the_base_by_30_percent() -> None:
    robot = qd.load("go2")
    report = run_squat_demo(robot, duration=4.0, dt=1e-3 if NIGHT else 4e-3)
    assert report.passed
    low, high = report.base_height or (0.0, 0.0)
    assert high - low == pytest.approx(0.3 * robot.q_home[2], rel=0.01)
    assert report.steps_per_second > 0.0 and report.plant_steps_per_second > report.steps_per_second
    assert report.cpu
    assert set(report.torques) == {"leg joint 1", "leg joint 2", "leg joint 3 (knee)"}
    for torque in report.torques.values():
        assert -torque.limit < torque.lowest < torque.highest < torque.limit


@pytest.mark.parametrize("name", others_slow(["go2", "solo8"], ["go2"]))
def test_robot_with_planar_root_squats(name: str) -> None:
    report = run_squat_demo(qd.load(name, root="planar"), duration=1.0 if NIGHT else 0.5)
    assert report.passed and report.motion == "squat"


@pytest.mark.parametrize(("name", "root"), [("ur5", None), ("xarm7", None), ("chain_10", None), ("go2", "fixed")])
def test_robot_without_stance_feet_swings_its_joints(name: str, root: str | None) -> None:
    report = run_squat_demo(qd.load(name, root=root), duration=1.0 if NIGHT else 0.5)
    assert report.passed, {k: c for k, c in report.checks.items() if not c.passed}
    assert report.motion == "swing"
    assert report.normal_force is None and report.weight_mean is None and report.base_height is None
    assert "slip of a foot" not in report.checks


def test_energy_balance_error_is_of_first_order_in_dt() -> None:
    robot = qd.load("anymal_b")
    coarse, fine = (
        run_squat_demo(robot, duration=0.3 if NIGHT else 0.15, dt=dt).checks["energy balance"].value
        for dt in (1e-3, 2.5e-4)
    )
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


def test_robot_that_cannot_stand_is_rejected() -> None:
    raises(qd.ArgumentError, "cannot balance its weight", run_squat_demo, qd.load("bolt"))
    raises(qd.ArgumentError, "duration", run_squat_demo, qd.load("go2"), duration=0.0)


def test_wrong_contact_forces_fail_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load("go2")
    honest = Simulation.contact_forces.fget
    assert honest is not None
    monkeypatch.setattr(
        Simulation, "contact_forces", property(lambda self: {k: 1.01 * f for k, f in honest(self).items()})
    )
    report = run_squat_demo(robot, duration=0.2)
    assert not report.passed
    assert not report.checks["mean vertical force against m g"].passed


def test_weak_motor_fails_the_checks() -> None:
    strong = qd.load("go2")
    needed = max(max(-t.lowest, t.highest) for t in run_squat_demo(strong, duration=0.1).torques.values())
    weak = dataclasses.replace(strong, effort_limits=np.full(12, 0.8 * needed))  # less than needed to stand
    report = run_squat_demo(weak, duration=0.2)
    assert not report.passed
    assert not report.checks["steps with a saturated joint"].passed
    assert not report.checks["reduction of the squat by limits"].passed


def test_same_run_gives_the_same_report() -> None:
    robot = qd.load("solo12")
    first, second = run_squat_demo(robot, duration=0.2), run_squat_demo(robot, duration=0.2)
    for field in dataclasses.fields(DemoReport):
        if "steps_per_second" not in field.name:
            assert getattr(first, field.name) == getattr(second, field.name), field.name


# -- locomotion ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "plant", "gait", "push"),
    others_slow(
        [("go2", "embedded", "trot", None), ("solo12", "mujoco", "walk", "6@2.2")], [("go2", "embedded", "trot", None)]
    ),
)
def test_quadruped_stands_up_walks_and_stops(name: str, plant: str, gait: str, push: str | None) -> None:
    robot, texts, dt = qd.load(name), [], 2e-3 if NIGHT else 4e-3
    pushes = [] if push is None else [Push.parse(push)]
    report = run_locomotion_demo(
        robot, gait=gait, plant=plant, duration=4.5, dt=dt, pushes=pushes, progress=texts.append
    )
    assert report.passed, {k: c for k, c in report.checks.items() if not c.passed}
    assert report.motion == gait and report.clamped_velocity is not None
    low, high = report.base_height or (0.0, 0.0)
    assert low < 0.7 * high  # starts from a crouch
    assert report.weight_mean == pytest.approx(1.0, abs=0.02)
    if push is None:
        assert report.measured_velocity is not None
        assert report.measured_velocity[0] == pytest.approx(0.25 * np.sqrt(9.81 * 0.426), rel=0.15)
    assert texts == sorted(texts) and texts[-1] == 1.0


@pytest.mark.parametrize(
    ("ground", "blind"),
    others_slow(
        [("slope=10,90", False), ("stairs=0.03,0.3", False), ("waves=0.03,0.8", True)], [("waves=0.03,0.8", True)]
    ),
)
def test_quadruped_walks_on_slopes_stairs_and_waves(ground: str, blind: bool) -> None:
    report = run_locomotion_demo(qd.load("go2"), terrain=ground, blind=blind, duration=5.0, dt=2e-3 if NIGHT else 4e-3)
    assert report.passed, {k: c for k, c in report.checks.items() if not c.passed}
    assert report.measured_velocity is not None


def test_reductions_of_a_jump_and_a_velocity_by_limits_are_reported() -> None:
    controller = LocomotionController(qd.load("a1"), dt=4e-3)
    plan, asked = controller.plan_jump(height=5.0), np.array([9.0, 0.0, 0.1])
    run: Any = SimpleNamespace(
        requested=asked,
        clamped=controller.clamp_velocity(asked),
        limit_reason=controller.velocity_limit_reason(asked),
    )
    forward, turn, height = LocomotionRun.requested_values(run, plan, velocity=True)
    assert (forward.name, forward.requested, forward.limit_reason) == (
        "forward velocity",
        9.0,
        controller.velocity_limit_reason(asked),
    )
    assert forward.is_reduced and forward.planned < 5.0 and turn.is_reduced  # all components are scaled equally
    assert (height.name, height.requested, height.planned, height.limit_reason) == (
        "height of the jump",
        5.0,
        plan.height,
        plan.limit_reason,
    )
    assert height.is_reduced and height.limit_reason
    assert [each.name for each in LocomotionRun.requested_values(run, plan, velocity=False)] == ["height of the jump"]


def test_jump_is_checked_by_its_landing_position() -> None:
    robot = qd.load("a1")
    report = run_locomotion_demo(robot, jump=JumpRequest.parse("0.1,0.15,20"), duration=3.4, dt=4e-3)
    assert report.passed and report.motion == "jump" and "+0.150 m forward" in report.jump_summary
    assert [each.name for each in report.requests] == ["height of the jump", "jump forward", "turn of the jump"]
    assert report.requests[1].requested == 0.15 and report.reduced_requests == ()
    assert report.checks["landing error of the feet"].value < 0.1
    assert report.checks["relative error of the jump's rise"].value < 0.15
    started: list[Any] = []
    with pytest.raises(qd.ArgumentError, match=r"duration: expected more than .* got 0\.2 s"):
        run_locomotion_demo(robot, jump=JumpRequest(0.1, 0.0, 0.0), duration=0.2, on_start=started.append)
    with pytest.raises(qd.ArgumentError, match=r"did not start the jump within duration=0\.7 s"):
        run_locomotion_demo(robot, jump=JumpRequest(5.0, 0.0, 0.0), duration=0.7, on_start=started.append)
    ((height,),) = started
    assert height.is_reduced and height.limit_reason, "known before the first tick"
    for text in ("", "a", "-0.1", "1,2,3,4"):
        raises(qd.ArgumentError, "jump: expected HEIGHT", JumpRequest.parse, text)


def test_terrain_options_are_parsed() -> None:
    robot = qd.load("go2")
    slope = parse_terrain("slope=20,90", robot)
    assert slope.terrain.height([0.0], [1.0])[0] == pytest.approx(np.tan(np.radians(20.0)))
    assert slope.terrain.height([1.0], [0.0])[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(
        slope.tilt @ [0.0, 0.0, 1.0], [0.0, -np.sin(np.radians(20)), np.cos(np.radians(20))], atol=1e-12
    )
    q = rotate_configuration(robot.q_home, slope.tilt)
    feet = [qd.Dynamics(robot).frame_placement(q, foot).translation for foot in robot.feet]
    radius = robot.legs["FL"].foot.radius
    away = [foot @ slope.tilt[:, 2] - radius for foot in feet]
    np.testing.assert_allclose(away, 0.0, atol=2e-3)
    steps = parse_terrain("stairs=0.05,0.3", robot).terrain
    assert steps.height([0.0, 2.5, 10.0], [0.0, 0.0, 0.0]).tolist() == pytest.approx([0.0, 0.25, 0.25])
    assert np.ptp(parse_terrain("waves=0.05,0.6", robot).terrain.height(np.linspace(-2, 2, 99), np.zeros(99))) > 0.04
    for text in (
        "slope",
        "slope=x",
        "slope=60",
        "slope=32",
        "slope=nan",
        "slope=1,2,3",
        "stairs=0.1",
        "stairs=-0.1,0.3",
        "waves=9,1",
    ):
        raises(qd.ArgumentError, "terrain", run_locomotion_demo, robot, terrain=text)
    with pytest.raises(
        qd.ArgumentError, match=r"'slope=20,90', since a friction coefficient of 0\.3 holds up to 17 deg"
    ):
        run_locomotion_demo(robot, terrain="slope=20,90", friction=0.3)
    raises(qd.UnknownNameError, "stairs", run_locomotion_demo, robot, terrain="stars=0.1,0.3")


@pytest.mark.parametrize("name", ["go2", "anymal_c"])
def test_crouched_robot_is_lower_over_the_same_footholds(name: str) -> None:
    robot = qd.load(name)
    dynamics, q = qd.Dynamics(robot), crouched_configuration(robot, 0.8)
    base = robot.bodies[0].name
    before, after = (dynamics.frame_placement(x, base).translation for x in (robot.q_home, q))
    np.testing.assert_allclose(after, before * [1.0, 1.0, 0.8], atol=1e-9)
    for foot in robot.feet:
        home, there = (dynamics.frame_placement(x, foot).translation for x in (robot.q_home, q))
        np.testing.assert_allclose(there, home, atol=1e-6)


def test_mean_velocity_is_printed_where_no_gait_cycle_has_the_full_command() -> None:
    """On stairs without a terrain map the reference differs from the command in every gait cycle."""
    words = ["demo", "--headless", "--gait", "trot", "--seconds", "3", "--terrain", "stairs=0.05,0.3", "--blind"]
    shown = CliRunner().invoke(app, words).stdout
    assert "measured nothing" not in shown
    assert re.search(r"(mean|measured) \+0\.[45]", shown), shown


def test_unmeasured_velocity_is_reported() -> None:
    robot, begun = qd.load("go2"), time.perf_counter()
    report = run_locomotion_demo(robot, duration=0.2)
    assert report.steps <= report.steps_per_second * (time.perf_counter() - begun)
    assert report.measured_velocity is None and report.unmeasured_checks == ("time to stand up", "velocity")
    stood = run_locomotion_demo(robot, duration=0.2, gait="stand")
    assert stood.passed and stood.unmeasured_checks == ("time to stand up",)
    shown = CliRunner().invoke(app, ["demo", "--headless", "--gait", "trot", "--seconds", "0.2"]).stdout
    assert "not measured: time to stand up, velocity" in shown and "all checks passed" not in shown


def test_robot_that_does_not_stand_up_or_walk_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, compute = qd.load("small_quadruped"), LocomotionController.compute

    def keep_rising(self: LocomotionController, s: qd.State, velocity: np.ndarray) -> LocomotionCommand:
        """A robot that is too heavy for its motors is not fallen."""
        return dataclasses.replace(compute(self, s, velocity), mode=LocomotionMode.RISING)

    def walk_slowly(self: LocomotionController, s: qd.State, velocity: np.ndarray) -> LocomotionCommand:
        return compute(self, s, 0.1 * velocity)

    for altered, duration, failed in (
        (keep_rising, 2.0, "time to stand up"),
        (walk_slowly, 3.8, "missing fraction of the commanded distance"),
    ):
        monkeypatch.setattr(LocomotionController, "compute", altered)
        assert run_locomotion_demo(robot, duration=duration, dt=4e-3).failed_checks == (failed,)


def test_fall_fails_the_checks() -> None:
    report = run_locomotion_demo(qd.load("go2"), duration=2.1, dt=4e-3, pushes=[Push(2000.0, 1.6)])
    assert not report.passed and not report.checks["ticks fallen"].passed


def test_invalid_locomotion_demos_are_rejected_by_name() -> None:
    robot = qd.load("go2")
    for options, match in (({"duration": 0.0}, "duration"), ({"plant": "moon"}, "plant"), ({"gait": "tort"}, "trot")):
        raises((qd.ArgumentError, qd.UnknownNameError), match, run_locomotion_demo, robot, **options)
    raises(qd.ArgumentError, "quadruped", run_locomotion_demo, qd.load("ur5"))
    raises(qd.ArgumentError, "teleop", run_locomotion_demo, robot, teleop=True)
    raises(qd.ArgumentError, "velocity", run_locomotion_demo, robot, duration=0.5, velocity=(np.nan, 0.0, 0.0))
    raises(qd.ArgumentError, "push", run_locomotion_demo, robot, duration=1.0, pushes=[Push(80.0, 10.0)])
    for text in ("80", "80@-1", "x@2", "nan@1", "1@nan", "inf@1"):
        raises(qd.ArgumentError, "push", Push.parse, text)
    assert not supports_locomotion(qd.load("ur5")) and not supports_locomotion(qd.load("go2", root="planar"))
    assert supports_locomotion(robot) and not supports_locomotion(
        qd.load("solo8")
    )  # legs of two joints cannot step sideways


def test_keys_give_a_velocity_command_and_no_key_gives_none() -> None:
    p = Morphology.from_robot(qd.load("go2"))
    assert velocity_from_keys((), p) is None and velocity_from_keys({"ShiftLeft"}, p) is None
    forward = velocity_from_keys({"KeyW"}, p)
    np.testing.assert_allclose(forward, [0.25 * p.speed_scale, 0.0, 0.0])
    np.testing.assert_array_equal(velocity_from_keys({"KeyW", "ArrowUp"}, p), forward)
    np.testing.assert_allclose(velocity_from_keys({"KeyW", "ShiftLeft"}, p), 1.5 * forward)
    np.testing.assert_array_equal(velocity_from_keys({"KeyW", "KeyS"}, p), 0.0)
    both = velocity_from_keys({"KeyQ", "ArrowRight"}, p)
    assert both[0] == 0.0 and both[1] > 0.0 > both[2]


class Keyboard(Viewer):
    """Viewer with simulated key presses after a given time."""

    def __init__(self, robot: qd.Robot) -> None:
        super().__init__(robot, serve=False, meshes=False)
        self.texts: list[str] = []
        self.wanted: list[np.ndarray] = []
        self.time, self.ends = 0.0, 2.8

    @property
    def pressed_keys(self) -> frozenset[str]:
        return frozenset({"KeyA"} if self.time > 1.6 else ())

    def show(self, q: np.ndarray, **options: object) -> None:  # type: ignore[override]
        self.time = float(options["time"])  # type: ignore[arg-type]
        self.texts += [str(options["caption"])] if "caption" in options else []
        if self.time > self.ends and "caption" in options:
            raise KeyboardInterrupt


def test_teleoperated_robot_stands_until_a_key_turns_it_and_an_interrupt_ends_the_run() -> None:
    robot = qd.load("go2")
    keyboard = Keyboard(robot)
    report = run_locomotion_demo(robot, viewer=keyboard, teleop=True, duration=60.0, dt=4e-3)
    assert report.passed and 2.8 <= report.seconds < 3.0
    assert report.clamped_velocity == (0.0, 0.0, 0.0)
    assert any(text.startswith("standing") for text in keyboard.texts)
    assert keyboard.texts[-1].startswith("trot: moving")
    assert HELP in keyboard.texts[-1]
    turning = float(keyboard.texts[-1].splitlines()[1].split()[-2])
    assert turning == pytest.approx(0.12 / Morphology.from_robot(robot).time_scale, abs=0.01)
    keyboard.time, keyboard.ends = 0.0, 0.4
    report = run_locomotion_demo(robot, viewer=keyboard, duration=60.0)  # type: ignore[arg-type]
    assert report.interrupted and 0.4 <= report.seconds < 0.6  # the report covers the run until the interrupt


# -- plots ---------------------------------------------------------------------------------------------------------
def test_time_series_are_thinned_uniformly() -> None:
    robot = qd.load("go2")
    time_series = DemoTimeSeries(robot, robot.feet)
    count = 5 * MIN_STORED_SAMPLES + 3
    for k in range(count):
        time_series.add(1e-3 * k, np.full(12, k), np.full((4, 3), 2.0 * k), 0.3, np.full(3, 0.5), np.full(3, -k))
    samples = time_series.samples
    assert MIN_STORED_SAMPLES <= len(samples) < 2 * MIN_STORED_SAMPLES
    steps = np.diff(samples["time"])
    np.testing.assert_allclose(steps, steps[0])
    assert samples["time"][0] == 0.0 and samples["time"][-1] > 1e-3 * count - 2.0 * steps[0]
    index = np.round(1e3 * samples["time"])
    np.testing.assert_allclose(samples["tau"], np.tile(index[:, None], (1, 12)))
    np.testing.assert_allclose(samples["forces"], 2.0 * np.tile(index[:, None, None], (1, 4, 3)))
    np.testing.assert_allclose(samples["velocity"], np.tile(-index[:, None], (1, 3)))
    np.testing.assert_allclose((samples["height"][5], samples["desired_velocity"][5, 2]), (0.3, 0.5))


def test_locomotion_plot_has_limits_forces_velocity_and_height(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    robot, path = qd.load("go2"), tmp_path / "out.png"
    run_locomotion_demo(robot, duration=2.0, pushes=[Push(20.0, 1.7)], plot=path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 20_000
    panels = {axes.get_ylabel(): axes for axes in figures[0].axes}
    assert len(panels) == 6
    for kind, limit in (("leg joint 1", 23.7), ("leg joint 3 (knee)", 45.43)):
        lines = panels[f"{kind}\ntorque [N m]"].lines
        dashed = {float(line.get_ydata()[0]) for line in lines if line.get_linestyle() == "--"}
        assert dashed == {limit, -limit}
        assert sum(len(line.get_xdata()) > 900 for line in lines) == 4
    carried = [line.get_ydata() for line in panels["normal force [N]"].lines if len(line.get_xdata()) > 900]
    assert np.sum(carried, axis=0).mean() == pytest.approx(robot.mass * 9.81, rel=0.05)
    height = panels["height of the\ncenter of mass [m]"].lines[-1].get_ydata()
    assert height[0] < 0.8 * height.max()
    for axes in panels.values():
        assert any(line.get_linestyle() == ":" and line.get_xdata()[0] == pytest.approx(1.7) for line in axes.lines)


@pytest.mark.parametrize(("name", "panels"), [("go2", 5), ("ur5", 2)])
def test_squat_and_swing_are_plotted(name: str, panels: int, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    run_squat_demo(qd.load(name), duration=0.3, plot=path)
    assert path.read_text(encoding="utf-8").count('id="axes_') == panels


def test_plot_that_cannot_be_written_is_rejected_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, calls = qd.load("go2"), []
    raises(qd.ArgumentError, "plot", run_locomotion_demo, robot, plot=tmp_path / "out.txt", progress=calls.append)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if not installed
    for job in (run_locomotion_demo, run_squat_demo):
        with pytest.raises(qd.QuaddynError, match=r"pip install 'quaddyn\[plot\]'"):
            job(robot, plot=tmp_path / "out.png", progress=calls.append)
    assert not calls and not list(tmp_path.iterdir())


# -- motions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "anymal_c", "solo8"])
def test_squat_moves_the_base_straight_down_on_rolling_feet(name: str) -> None:
    robot = qd.load(name)
    dyn = qd.Dynamics(robot)
    squat = SquatMotion(dyn, 8.0, 0.6)
    for t in np.linspace(1.1, 6.9, 7):
        wanted = squat.at(t)
        s = dyn.update(wanted.q, wanted.v)
        np.testing.assert_allclose(wanted.q[:2], robot.q_home[:2], atol=1e-9)
        np.testing.assert_allclose(wanted.q[3:7], robot.q_home[3:7], atol=1e-9)
        assert wanted.q[2] == pytest.approx(wanted.height, abs=1e-9)
        speed = 1e-3 + np.abs(wanted.v).max()
        for foot, leg in robot.legs.items():
            assert s.placement(foot).translation[2] == pytest.approx(leg.foot.radius, abs=1e-6)
            assert np.abs(contact_jacobian(s, foot) @ wanted.v).max() < 1e-3 * speed


@pytest.mark.parametrize("kind", ["squat", "swing"])
def test_velocity_and_acceleration_are_the_derivatives_of_the_motion(kind: str) -> None:
    robot = qd.load("go2", root="free" if kind == "squat" else "fixed")
    dyn = qd.Dynamics(robot)
    motion = SquatMotion(dyn, 4.0, 0.6) if kind == "squat" else JointSwingMotion(dyn, 4.0)
    for t in (0.5, 1.3, 1.7, 2.2, 3.0):
        here = motion.at(t)
        v = derivative(lambda h, t=t, q=here.q: pin.difference(robot.model, q, motion.at(t + h).q), 1e-4)
        a = derivative(lambda h, t=t: motion.at(t + h).v, 1e-4)
        np.testing.assert_allclose(here.v, v, atol=5e-3)
        np.testing.assert_allclose(here.a, a, atol=5e-2)
    for t in (0.0, 4.0):
        np.testing.assert_allclose(motion.at(t).q, robot.q_home, atol=1e-9)
        np.testing.assert_allclose(motion.at(t).v, 0.0, atol=1e-9)


def test_swing_respects_motor_and_joint_limits() -> None:
    robot = qd.load("planar_3r")
    dyn = qd.Dynamics(robot)
    swing = JointSwingMotion(dyn, 1.0)
    for t in np.linspace(0.0, 1.0, 50):
        w = swing.at(t)
        assert (w.q >= robot.lower).all() and (w.q <= robot.upper).all()
        assert (np.abs(dyn.rnea(w.q, w.v, w.a)) <= robot.effort_limits).all()
    assert swing.amplitude.max() > 1e-3


# -- viewer --------------------------------------------------------------------------------------------------------
def test_demo_reports_progress_and_writes_a_recording(tmp_path: Path) -> None:
    shares: list[float] = []
    run_squat_demo(qd.load("small_quadruped"), duration=0.2, record=tmp_path / "out.html", progress=shares.append)
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0 and len(shares) >= 6
    assert "<html" in (tmp_path / "out.html").read_text(encoding="utf-8")[:500].lower()


def test_viewer_shows_30_frames_per_second_with_forces() -> None:
    frames: list[tuple[float, float]] = []

    class Screen(Viewer):
        def show(self, q, *, time, contacts, **options) -> None:  # type: ignore[no-untyped-def,override]
            frames.append((time, sum(contact.force[2] for contact in contacts)))

    robot = qd.load("go2")
    screen = Screen(robot, serve=False, meshes=False)
    run_squat_demo(robot, duration=0.5, viewer=screen)
    assert len(frames) == 16
    assert all(force == pytest.approx(robot.mass * 9.81, rel=0.5) for time, force in frames[1:])


def test_realtime_run_lasts_as_long_as_its_duration() -> None:
    import time

    start = time.perf_counter()
    run_squat_demo(qd.load("ur5"), duration=0.5, realtime=True)
    assert time.perf_counter() - start >= 0.45


def test_gamepad_sticks_act_like_keys_and_sliders_set_gains() -> None:
    from quaddyn.demo.locomotion_run import SHIFT_FACTOR, GainSliders, velocity_from_keys
    from quaddyn.locomotion import LocomotionController, Morphology

    robot = qd.load("solo12")
    p = Morphology.from_robot(robot)
    assert velocity_from_keys((), p) is None and velocity_from_keys((), p, (0.0, 0.0, 0.0)) is None
    key = velocity_from_keys(("KeyW", "ShiftLeft"), p)
    np.testing.assert_allclose(velocity_from_keys((), p, (1.0, 0.0, 0.0)), key)
    np.testing.assert_allclose(
        velocity_from_keys(("KeyW", "ShiftLeft"), p, (1.0, 0.0, 0.0)),
        key,
        err_msg="key and stick together are not faster",
    )
    half = velocity_from_keys((), p, (0.0, 0.5, -0.5))
    np.testing.assert_allclose(half, 0.5 * SHIFT_FACTOR * np.array([0.0, 0.2 * p.speed_scale, -0.12 / p.time_scale]))

    class Page:
        def __init__(self) -> None:
            self.sliders: dict[str, float] = {}

        def add_slider(self, name: str, low: float, high: float, value: float, **_: str) -> None:
            assert low < value < high
            self.sliders[name] = value

    controller, page = LocomotionController(robot), Page()
    tasks = controller.wbc.tasks
    before = {name: (tasks[name].stiffness, tasks[name].damping) for name in ("com", "base", "FL", "RR")}
    gains = GainSliders(controller, page)  # type: ignore[arg-type]
    gains.apply({**page.sliders, "feet in the air: stiffness": 4.0, "height: damping": 0.5})
    np.testing.assert_allclose(tasks["FL"].stiffness, 4.0 * before["FL"][0])
    np.testing.assert_allclose(tasks["RR"].damping, 2.0 * before["RR"][1], err_msg="damping ratio unchanged")
    np.testing.assert_allclose(tasks["com"].damping, 0.5 * before["com"][1])
    np.testing.assert_array_equal(tasks["base"].stiffness, before["base"][0])
    gains.apply(page.sliders)
    np.testing.assert_allclose(tasks["FL"].damping, before["FL"][1])


@pytest.mark.parametrize("plant", ["embedded", "mujoco"])
def test_demo_tick_lasts_one_controller_period(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lasted: list[float] = []
    tick = LocomotionRun.tick

    def timed(self: LocomotionRun, velocity: np.ndarray, external: object) -> object:
        begun = self.plant.time
        command = tick(self, velocity)
        lasted.append((self.plant.time - begun) / self.controller.dt)
        return command

    monkeypatch.setattr(LocomotionRun, "tick", timed)
    report = run_locomotion_demo(qd.load("small_quadruped"), gait="stand", plant=plant, duration=0.1)
    np.testing.assert_allclose(lasted, 1.0, rtol=1e-9)
    assert len(lasted) == report.steps


def test_rounding_of_periods_does_not_delay_frames() -> None:
    for period in (1e-3, 2e-3, 2.5e-3, 1e-2):
        exact = Fraction(str(period))
        assert [frame_number(k * period) for k in range(2000)] == [int(30 * k * exact) for k in range(2000)]


# -- common attributes of commands and statuses, requested and clamped values -----------------------------------------
def test_ok_is_a_property_of_every_command_and_status() -> None:
    robot = qd.load("go2")
    sim, dyn = qd.Simulation(robot), qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    command = qd.WholeBodyController(robot).compute(s)
    walking = qd.LocomotionController(robot).compute(s)
    velocity = VelocityController(robot).compute(s)
    problem = ContactSet.from_feet(robot).contact_problem(s, s.v)
    for each in (
        command, command.status, walking, velocity, velocity.status, sim, FrictionalSolver().solve(problem),
        inverse_kinematics(robot, {"FL": s.placement("FL").translation}),
    ):  # fmt: skip
        assert each.ok is True, type(each)
    assert velocity.status.outcome == command.status.outcome == "solved"
    assert JointPD(robot).compute(robot.q_home, s.v, robot.q_home).ok is True


def test_an_infeasible_command_is_not_ok() -> None:
    robot = qd.load("go2")
    dyn, wbc = qd.Dynamics(robot), qd.WholeBodyController(robot)
    wbc.tasks.torque.limits = 0.01
    command = wbc.compute(dyn.update(robot.q_home, np.zeros(robot.nv)))
    assert command.ok is command.status.ok is False
    assert command.status.outcome == "infeasible"


def test_velocity_beyond_the_gait_is_reported_with_its_limit() -> None:
    robot = qd.load("solo12")
    dyn, controller = qd.Dynamics(robot), qd.LocomotionController(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    command = controller.compute(s, (9.0, 0.0, 0.0))
    np.testing.assert_array_equal(command.requested_velocity, [9.0, 0.0, 0.0])
    np.testing.assert_array_equal(command.clamped_velocity, controller.clamp_velocity((9.0, 0.0, 0.0)))
    assert (
        command.is_limited
        and command.limit_reason == controller.velocity_limit_reason([9, 0, 0]) == "stride of the gait"
    )
    assert "requested +9.000" in str(command) and "(limited: stride of the gait" in str(command)
    slow = controller.compute(s, (0.1, 0.0, 0.0))
    assert not slow.is_limited and slow.limit_reason == "" and "asked" not in str(slow)
    assert controller.velocity_limit_reason((0.0, 9.0, 0.0)) == "feet would cross"
    controller.gait = "stand"
    assert controller.velocity_limit_reason((0.1, 0.0, 0.0)) == "gait does not step"


def test_demo_reports_requested_and_clamped_velocity(capsys: pytest.CaptureFixture[str]) -> None:
    robot = qd.load("go2")
    report = demo.run_locomotion_demo(robot, velocity=(9.0, 0.0, 0.0), duration=0.2)
    assert report.requested_velocity == (9.0, 0.0, 0.0) and report.limit_reason and report.clamped_velocity is not None
    assert 0.1 < report.clamped_velocity[0] < 2.0

    from quaddyn.cli.tables import demo_json, print_demo
    from quaddyn.verification import cross_check

    plain = json.loads(json.dumps(demo_json(report)))
    assert plain["requested_velocity"] == [9.0, 0.0, 0.0] and plain["limit_reason"] == report.limit_reason
    print_demo(report, cross_check(robot, samples=1, n_derivative_samples=False))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 80, "one screen of 24 lines, with the robot"
    assert lines[1].split(maxsplit=5)[:5] == ["forward,", "left", "[m/s],", "turn", "[rad/s]"]
    assert "requested +9.000" in lines[1] and "commanded" in lines[2] and "measured" in lines[3]
    words = " ".join(" ".join(lines).split())
    assert "requested" in words and "+9.000" in words and f"limited by {report.limit_reason}" in words


def test_arguments_are_validated_before_anything_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def never(self: object, **options: object) -> float:
        raise AssertionError("compiled")

    monkeypatch.setattr(qd.LocomotionController, "warmup", never)
    monkeypatch.setattr(qd.Simulation, "warmup", never)
    robot = qd.load("go2")
    for wrong in (
        {"velocity": (1.0, 2.0)},
        {"velocity": (1.0, np.nan, 0.0)},
        {"record": tmp_path / "none" / "page.html"},
        {"plot": tmp_path / "none" / "plot.png"},
        {"plot": "plot.doc"},
        {"gait": "moonwalk"},
        {"plant": "bullet"},
        {"friction": -1.0},
        {"dt": 1.0},
        {"pushes": [demo.Push(10.0, 100.0)]},
    ):
        with pytest.raises(qd.QuaddynError):
            demo.run_locomotion_demo(robot, **wrong)  # type: ignore[arg-type]
    for wrong in ({"record": tmp_path}, {"duration": 0.0}):
        with pytest.raises(qd.ArgumentError):
            demo.run_squat_demo(robot, **wrong)  # type: ignore[arg-type]
    raises(AssertionError, "compiled", demo.run_locomotion_demo, robot, duration=0.2)


def test_objects_have_informative_texts() -> None:
    robot = qd.load("go2")
    wbc = qd.WholeBodyController(robot, friction=0.5)
    first, *levels, contacts = str(wbc).splitlines()
    assert first == repr(wbc) == "WholeBodyController('go2_description', dt=0.001, friction=0.5, ramp_time=0.05)"
    assert levels == [f"level {k}: {', '.join(names)}" for k, names in enumerate(wbc.levels)]
    assert levels[2] == "level 2: posture, forces" and contacts == "contacts: FL, FR, RL, RR"
    assert repr(qd.Simulation(robot, dt=2e-3)) == "Simulation('go2_description', dt=0.002, friction=0.6)"
