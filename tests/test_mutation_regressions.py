"""Regression tests for one-line faults: each test fails for one mutation that other tests did not detect."""

from __future__ import annotations

import dataclasses
import math
import threading
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn import identification
from quaddyn.contact.solvers import ContactProblem, ImpactSolver
from quaddyn.demo import locomotion_run, run_locomotion_demo, run_squat_demo
from quaddyn.kernels.graph import Expr, Graph, differentiate
from quaddyn.kernels.kernel_cache import hash_robot_properties
from quaddyn.kinematics import LegKinematics, inverse_kinematics
from quaddyn.locomotion import LocomotionController, Morphology
from quaddyn.locomotion.morphology import make_body_parameters
from quaddyn.locomotion.path_reference import PathReference, advance_path_reference, compute_displacement
from quaddyn.locomotion.steering import REFERENCE_WAIT_TIME, allocate_steering_state, limit_reference_lead
from quaddyn.robot import validation
from quaddyn.simulation import Simulation
from quaddyn.urdf import parse
from quaddyn.wbc import FramePositionTask, VelocityController, WholeBodyController

BODY = (
    '<link name="{}"><inertial><mass value="1"/><inertia ixx="{}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    "</inertial></link>"
)
PAIR = (
    f'<robot name="r">{BODY}{BODY}<joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
    '<axis xyz="0 1 0"/></joint></robot>'
)


# -- files and the guard -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sign", ["", "-"])
def test_numbers_beyond_their_bound_are_rejected_for_both_signs(sign: str) -> None:
    text = PAIR.format("a", 1, "b", 1).replace("<axis", f'<origin xyz="0 {sign}1e4 0"/><axis')
    raises(qd.ModelError, "the magnitude exceeds 1000", parse, text)
    assert parse(text.replace("1e4", "999")).joints_by_name["j"].placement.translation[1] == float(f"{sign}999")


def test_base_inertia_is_validated_only_if_the_base_moves() -> None:
    impossible = PAIR.format("a", 9, "b", 1)
    raises(qd.ModelError, "principal moments", qd.load, impossible, root="free")
    assert qd.load(impossible, root="fixed").nv == 1


def test_validation_detects_slightly_inconsistent_dynamics(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = pin.rnea
    model = qd.load("small_quadruped").model
    assert validation.validate_model(model, "f")["RNEA(ABA) error"] < 1e-10
    monkeypatch.setattr(validation.pin, "rnea", lambda *a: honest(*a) * (1.0 + 1e-6))
    with pytest.raises(qd.ModelError):
        validation.validate_model(model, "f")


@pytest.mark.parametrize("name", ["small_quadruped", "go2", "anymal_c"])
def test_feet_are_spheres_that_touch_the_ground_at_home(name: str) -> None:
    robot = qd.load(name)
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    for foot, leg in robot.legs.items():
        assert leg.foot.radius > 0.005
        assert s.placement(foot).translation[2] == pytest.approx(leg.foot.radius, abs=1e-6)


# -- the demo's own checks -----------------------------------------------------------------------------------------
def add_sideways_contact_force(monkeypatch: pytest.MonkeyPatch) -> None:
    by_foot, by_point = Simulation.contact_forces.fget, Simulation.contacts.fget
    assert by_foot is not None and by_point is not None

    def pushed(force: np.ndarray) -> np.ndarray:
        return np.asarray(force + 0.61 * abs(force[2]) * np.array([1.0, 0.0, 0.0]))

    monkeypatch.setattr(
        Simulation, "contact_forces", property(lambda self: {k: pushed(f) for k, f in by_foot(self).items()})
    )
    monkeypatch.setattr(
        Simulation,
        "contacts",
        property(lambda self: [dataclasses.replace(c, force=pushed(c.force)) for c in by_point(self)]),
    )


def test_a_force_outside_its_cone_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qd.load("small_quadruped")
    add_sideways_contact_force(monkeypatch)
    for report in (run_squat_demo(robot, duration=0.2), run_locomotion_demo(robot, gait="stand", duration=0.3)):
        assert not report.checks["force outside the friction cone"].passed, report.motion


def test_accelerations_that_break_the_equations_of_motion_fail_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LocomotionController.compute

    def wrong(self: LocomotionController, *a: object, **k: object) -> object:
        command = honest(self, *a, **k)
        whole = command.wbc_command
        if whole is None:
            return command
        told = ("forces", "levels", "tau", "status", "margins", "ok")
        other = SimpleNamespace(acceleration=whole.acceleration + 1e-4, **{x: getattr(whole, x) for x in told})
        return dataclasses.replace(command, wbc_command=other)

    robot = qd.load("small_quadruped")
    name = "equations of motion, base rows"
    assert run_locomotion_demo(robot, gait="stand", duration=0.2).checks[name].passed
    monkeypatch.setattr(locomotion_run.LocomotionController, "compute", wrong)
    assert not run_locomotion_demo(robot, gait="stand", duration=0.2).checks[name].passed


# -- contacts ------------------------------------------------------------------------------------------------------
def test_restitution_is_reduced_until_an_impact_adds_no_energy() -> None:
    """Newton's law with friction between coupled contacts can create energy; the cap removes it and is reported."""
    capped, rng = 0, np.random.default_rng(0)
    for _ in range(60):
        J = rng.normal(size=(6, 7))
        W = J @ J.T + 1e-6 * np.eye(6)
        g = rng.normal(size=6)
        impact = ImpactSolver(1.0).collide(ContactProblem(W, g, 0.8))
        free = ImpactSolver(1.0)._attempt(ContactProblem(W, g, 0.8), 1.0)[1]
        assert impact.work <= 1e-9 * (1.0 + abs(free))
        capped += free > 1e-6
        assert (impact.restitution < 1.0) == (free > 0.0)
    assert capped > 5


# -- kinematics ----------------------------------------------------------------------------------------------------
def test_joint_limit_tolerance_is_1e_7() -> None:
    leg = LegKinematics(qd.load("go2"), "FL")
    middle = 0.5 * (leg.lower + leg.upper)
    for side, limit in ((1.0, leg.upper), (-1.0, leg.lower)):
        for beyond, inside in ((3e-8, True), (1e-6, False)):
            q = middle.copy()
            q[1] = limit[1] + side * beyond
            assert bool(leg._within_limits(q)) is inside


def test_inverse_kinematics_reports_convergence_only_if_the_error_is_small() -> None:
    robot = qd.load("ur5")
    dyn, q = qd.Dynamics(robot), np.array([0.3, -1.0, 1.2, 0.2, 0.5, 0.1])
    frame = robot.frame_names[-1]
    target = dyn.frame_placement(q, frame)
    found = inverse_kinematics(robot, {frame: target}, q0=q + 0.2)
    reached = dyn.frame_placement(found.q, frame)
    assert found.converged
    assert np.abs(reached.homogeneous - target.homogeneous).max() < 1e-9


@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_one_period_of_the_velocity_controller_ends_within_the_limits(dt: float) -> None:
    robot = qd.load("ur5")
    q = robot.q_home.copy()
    room = 0.5 * dt * float(robot.velocity_limits[2])
    q[2] = robot.upper[2] - room
    ik = VelocityController(robot, dt=dt)
    ik.tasks["posture"].reference(np.where(np.arange(6) == 2, robot.upper + 3.0, q))
    command = ik.compute(qd.Dynamics(robot).update(q, np.zeros(6)))
    assert command.q[2] == pytest.approx(robot.upper[2], abs=1e-9), "all of the room is used, and no more"


# -- locomotion ----------------------------------------------------------------------------------------------------
def test_path_reference_reaches_its_predicted_pose() -> None:
    course = PathReference(np.array([1.0, -2.0]), 0.7)
    course.velocity = np.array([0.5, -0.2, 1.1])
    position = course.position + compute_displacement(course.state, 2.0)
    for _ in range(400):
        advance_path_reference(course.state, 5e-3)
    np.testing.assert_allclose(course.position, position, atol=1e-9)
    assert course.yaw == pytest.approx(0.7 + 2.2)


def test_path_reference_waits_for_a_rotated_or_lagging_robot() -> None:
    """The reference waits beyond 0.2 rad, also over a full turn, and moves towards the robot beyond 0.08 l."""
    robot, dt = qd.load("go2"), 2e-3
    p = Morphology.from_robot(robot)
    course = PathReference(np.array([0.3, -0.2]), 0.0)
    records = allocate_steering_state(dt), make_body_parameters(p), course.state
    for turned, expected in ((0.5, 0.3), (-0.5, -0.3), (0.1, 0.0), (2.0 * math.pi + 0.5, 2.0 * math.pi + 0.3)):
        course.yaw = 0.0
        limit_reference_lead(*records, 0.0, 0.0, turned)
        assert math.remainder(course.yaw - expected, 2.0 * math.pi) == pytest.approx(0.0, abs=1e-12)
    before = course.position.copy()
    limit_reference_lead(*records, 0.07 * p.length, 0.0, 0.0)
    np.testing.assert_array_equal(course.position, before)
    limit_reference_lead(*records, 0.2 * p.length, 0.0, 0.0)
    share = dt / (REFERENCE_WAIT_TIME * p.time_scale) * (1.0 - 0.08 / 0.2)
    assert course.position[0] - before[0] == pytest.approx(share * 0.2 * p.length)


# -- kernels -------------------------------------------------------------------------------------------------------
def keyed(*change: str) -> str:
    """A robot whose last joint follows another one, with one text replaced at its last occurrence."""
    body = inertial(1.5, "0.1 0.2 0.3", "1.1 1.2 1.3", "0.01 0.02 0.03")
    losses, mimic = '<dynamics damping="2.1" friction="2.2"/>', '<mimic joint="bc" multiplier="1.6" offset="0.04"/>'
    joints = [
        joint(a + b, a, b, "0 0 1", "0.4 0.5 0.6", "0.7 0.8 0.9", ends="-1 1", effort=3, more=losses + more)
        for a, b, more in (("a", "b", ""), ("b", "c", ""), ("c", "d", mimic))
    ]
    text = urdf(*(link(name, body) for name in "abcd"), *joints)
    assert not change or change[0] in text
    return change[1].join(text.rsplit(change[0], 1)) if change else text


def test_kernel_key_depends_on_every_parameter_of_the_robot() -> None:
    arguments = ({}, *({name: 0.6} for name in ("damping", "friction", "armature")))
    robots = [qd.load("two_link_leg", **({"damping": 0.5, "friction": 0.5, "armature": 0.5} | x)) for x in arguments]
    changes = [
        ("0.1 0.2", "0.1 0.21"), ("1.5", "1.51"), ("1.1", "1.11"), ("0.03", "0.031"), ("0.4", "0.41"), ("0.9", "0.91"),
        ("0 0 1", "0 1 0"), ("2.1", "2.11"), ("2.2", "2.21"), ("revolute", "prismatic"), ('joint="bc"', 'joint="ab"'),
        ("1.6", "1.61"), ("0.04", "0.041"), ('name="r"', 'name="s"'), ('name="cd"', 'name="ce"'),
    ]  # fmt: skip
    robots += [qd.load(keyed(*change), root="fixed") for change in ((), *changes)] + [qd.load(keyed(), root="free")]
    keys = [hash_robot_properties(robot) for robot in robots]
    assert len(set(keys)) == len(keys)
    assert hash_robot_properties(qd.load(keyed(), root="free")) == keys[-1]


@pytest.mark.parametrize("which", [0, 1])
def test_derivative_of_a_quotient_follows_the_quotient_rule(which: int) -> None:
    """``d (x / y)`` along either argument, against the quotient rule by hand."""
    graph = Graph()
    x, y = graph.inputs(0, 2)
    (rate,) = differentiate(graph, [x / y], {which: graph.constant(1.0)})
    at = {0: 3.0, 1: 2.0}
    value = evaluate(graph, rate, at)
    assert value == pytest.approx(1.0 / 2.0 if which == 0 else -3.0 / 4.0)


def evaluate(graph: Graph, expression: Expr, inputs: dict[int, float]) -> float:
    def of(ref: int) -> float:
        i = ref >> 1
        op, left, right = graph.op[i], graph.left[i], graph.right[i]
        known = {"input": lambda: inputs[left], "const": lambda: graph.value[i]}
        two = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b}
        out = known[op]() if op in known else two[op](of(left), of(right))
        return -out if ref & 1 else out

    return of(expression.ref)


# -- explanations --------------------------------------------------------------------------------------------------
def test_explanation_names_the_conflicting_task_of_the_same_level() -> None:
    robot = qd.load("ur5")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    hand, other = (FramePositionTask(robot, robot.frame_names[-1], name=name) for name in ("hand", "other"))
    here = s.placement(robot.frame_names[-1]).translation
    for task, sign in ((hand, 1.0), (other, -1.0)):
        task.reference(here, acceleration=np.array([sign, 0.0, 0.0]))
    command = WholeBodyController(robot, tasks=[[hand, other]]).compute(s)
    losses = command.losses(include_last_level=True)
    assert {x.element: x.cause for x in losses} == {"hand": "the other task", "other": "the hand task"}


# -- threads -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["controller", "plant"])
def test_concurrent_call_is_rejected(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads in one controller would mix their states; the first call has the result of a single thread."""
    robot = qd.load("small_quadruped")
    s = qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    wbc, sim = WholeBodyController(robot), Simulation(robot)
    expected = wbc.compute(s).tau
    wbc.reset()
    inside, go_on = threading.Event(), threading.Event()

    def held(honest: object) -> object:
        def call(*arguments: object) -> object:
            inside.set()
            assert go_on.wait(60.0)
            return honest(*arguments)  # type: ignore[operator]

        return call

    if kind == "controller":
        call, match = (lambda: wbc.compute(s).tau), "one controller per thread"
        monkeypatch.setattr(wbc._structure.solver, "solve", held(wbc._structure.solver.solve))
    else:
        call, match = (lambda: sim.step(expected)), "one plant per thread"
        monkeypatch.setattr(Simulation, "_advance", held(Simulation._advance))
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    try:
        assert inside.wait(60.0)
        raises(qd.ConcurrencyError, match, call)
    finally:
        go_on.set()
        thread.join()
    if kind == "controller":
        np.testing.assert_array_equal(found[0], expected)
    else:
        assert sim.time == sim.dt
    call()


# -- identification ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("felt", [False, True])
def test_force_residuals_are_weighted_by_the_inverse_covariance(felt: bool) -> None:
    """``sum y^T S^-1 y`` over samples, ``S = diag(deviation^2) + force_noise^2 J^T J``, for deviations of all sizes."""
    robot, rng, n = qd.load("small_quadruped"), np.random.default_rng(0), 4
    deviation, force_noise, foot = np.geomspace(1e-2, 10.0, robot.nu), 0.3, robot.feet[0]
    q = np.array([pin.integrate(robot.model, robot.q_home, 0.3 * rng.normal(size=robot.nv)) for _ in range(n)])
    v, a, tau, f = (rng.normal(size=(n, size)) for size in (robot.nv, robot.nv, robot.nu, 3))
    gathered = identification.Accumulator(
        robot, torque_noise=deviation, force_noise=force_noise, root_noise=2.0, offsets=False
    )
    gathered.add(identification.Samples(q, v, a, tau, {foot: f} if felt else {}))
    expected, dynamics = 0.0, qd.Dynamics(robot)
    for k in range(n):
        J = dynamics.update(q[k], v[k]).jacobian(foot)[:3]
        y = np.r_[np.zeros(6), tau[k]] + felt * J.T @ f[k]
        S = np.diag(np.r_[np.full(6, 2.0), deviation] ** 2) + felt * force_noise**2 * J.T @ J
        expected += y @ np.linalg.solve(S, y)
    assert np.sum(gathered.whitened_factor()[:, -1] ** 2) == pytest.approx(expected, rel=1e-9)
