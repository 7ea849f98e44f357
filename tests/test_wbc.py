"""Whole-body control: equations of motion, strict priorities, limits or a flag, and correct explanations."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from raising import raises
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.contact import Contact, contact_jacobian
from quaddyn.reference import Reference
from quaddyn.wbc import (
    Command,
    ComTask,
    ContactMotion,
    ForceTask,
    FrameTask,
    FrictionPyramid,
    LinearConstraint,
    NormalForce,
    PostureTask,
    TorqueLimits,
    TorqueRate,
    WholeBodyController,
    default_constraints,
)
from quaddyn.wbc.controller import GAIN_CHECK_INTERVAL
from quaddyn.wbc.element import scales

G = 9.81


def random_state(robot: qd.Robot, rng: np.random.Generator, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    q = robot.algorithms.integrate(robot.model, robot.q_home, 0.2 * size * rng.normal(size=robot.nv))
    return q, 0.5 * size * rng.normal(size=robot.nv)


def at_home() -> tuple[qd.Robot, qd.State]:
    """A Go2 at rest in its home stance."""
    robot = qd.load("go2")
    return robot, qd.Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))


def imbalance(reference: Reference, robot: qd.Robot, s: qd.State, c: Command) -> tuple[float, float]:
    """Largest row of ``rnea(q, v, a) - J^T f - S^T tau`` per weight, root and joints, by the in-house reference."""
    tau = reference.rnea(s.q, s.v, c.acceleration)
    for foot, force in c.forces.items():
        tau = tau - contact_jacobian(s, foot).T @ force
    tau = (tau - robot.generalized_torques(c.tau - c.friction_torque)) / (robot.mass * G)
    free = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
    return float(np.abs(tau[free]).max(initial=0.0)), float(np.abs(tau[robot.actuated_index]).max())


# -- priorities ----------------------------------------------------------------------------------------------------


def test_inequalities_work_on_any_level_and_tasks_on_level_0() -> None:
    robot, s = at_home()
    com = ComTask(robot)
    com.reference(s.com, acceleration=np.array([1.0, 0.0, 0.0]))
    gentle = TorqueLimits(robot, limits=4.0, name="gentle torque")  # less than the torque of standing
    c = WholeBodyController(robot, tasks=[com, gentle, [PostureTask(robot), ForceTask(robot)]]).compute(s)
    assert c.status.ok
    assert np.abs(c.levels[1].tasks["com"]).max() < 1e-9  # not relaxed for the lower torque limit
    assert c.levels[2].violations  # least violation of it
    rough = np.maximum(np.abs(c.tau) - 4.0, 0.0)
    assert 0.0 < np.linalg.norm(rough)
    plain = WholeBodyController(robot, tasks=[com, [PostureTask(robot), ForceTask(robot)]]).compute(s)
    assert np.linalg.norm(rough) < np.linalg.norm(np.maximum(np.abs(plain.tau) - 4.0, 0.0)) + 1e-9
    hard = FrameTask(robot, "base", "hard base")
    level_0 = [ContactMotion(robot), FrictionPyramid(), NormalForce(), hard]
    c = WholeBodyController(robot, constraints=level_0, tasks=[ForceTask(robot)]).compute(s)
    assert c.status.ok and np.abs(c.levels[0].tasks["hard base"]).max() < 1e-9


def test_custom_linear_constraints_hold() -> None:
    robot, s = at_home()
    up = np.array([[0.0, 0.0, 1.0]])
    equal = LinearConstraint("equal", 0.0, 0.0, forces={"FL": up, "RR": -up})
    knee = np.zeros((1, robot.nu))
    knee[0, robot.actuated.index("FL_calf_joint")] = 1.0
    weak = LinearConstraint("weak knee", -2.0, 2.0, torque=knee, unit="N m")
    level_0 = [ContactMotion(robot), FrictionPyramid(), equal, weak]
    c = WholeBodyController(robot, constraints=level_0).compute(s)
    assert c.status.ok
    assert c.forces["FL"][2] == pytest.approx(c.forces["RR"][2], abs=1e-7)
    assert abs(c.tau[robot.actuated.index("FL_calf_joint")]) <= 2.0 + 1e-7
    assert "weak knee" in c.levels[0].active
    raises(qd.ArgumentError, "equal", equal.set, 1.0, 0.0, torque=knee)


# -- hard ticks ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* are unstable at a control period:RuntimeWarning")
def test_extreme_references_give_a_finite_balanced_flagged_command() -> None:
    robot = qd.load("solo8")
    dyn, reference = qd.Dynamics(robot), Reference(robot.source, root=robot.root)
    s = dyn.update(*random_state(robot, np.random.default_rng(0), 0.3))

    def infinite(wbc: WholeBodyController) -> None:
        wbc.tasks["com"].gains(1e308, 0.0)
        wbc.tasks["com"].reference(np.full(3, 1e10))

    def huge(wbc: WholeBodyController) -> None:
        wbc.tasks["com"].weight = 1e200

    def heavy(wbc: WholeBodyController) -> None:
        wbc.tasks["posture"].weight = 1e308
        wbc.tasks["posture"].gains(1e10)

    outcomes = set()
    for ask in (infinite, huge, heavy):
        wbc = WholeBodyController(robot)
        good = wbc.compute(s).tau.copy()
        ask(wbc)
        c = wbc.compute(s)
        outcomes.add(c.status.outcome)
        assert np.isfinite(c.tau).all() and max(imbalance(reference, robot, s, c)) < 1e-9
        if c.status.outcome == "fallback":
            assert not c.status.ok and np.abs(c.tau).max() < 10.0 * robot.mass  # a robot of 2 kg: moderate torques
            assert not np.any(c.acceleration[robot.actuated_index]) and "fallback" in str(c)
        wbc.tasks["com"].gains(40.0)
        wbc.tasks["com"].weight = wbc.tasks["posture"].weight = 1.0
        wbc.reset()
        np.testing.assert_allclose(wbc.compute(s).tau.shape, good.shape)
    assert "fallback" in outcomes
    print(outcomes)


def test_invalid_input_raises_before_anything_is_computed(go2: qd.Robot) -> None:
    dyn = qd.Dynamics(go2)
    wbc = WholeBodyController(go2)
    s = dyn.update(go2.q_home, np.zeros(go2.nv))
    raises(qd.UnknownNameError, "LF", wbc.compute, s, ("LF",))
    raises(qd.ArgumentTypeError, "contacts", wbc.compute, s, "FL")
    with pytest.raises(qd.UnknownNameError, match="comm"):
        wbc.tasks["comm"]
    with pytest.raises(qd.UnknownNameError, match="FX"):
        wbc.contacts["FX"]
    raises(qd.ArgumentTypeError, "state", wbc.compute, go2.q_home)
    with pytest.raises(qd.ArgumentError, match="another robot"):
        WholeBodyController(qd.load("go2")).compute(s)
    unchecked = qd.Dynamics(go2, validate=False)
    with pytest.raises(qd.ArgumentError, match="expected finite"):
        wbc.compute(unchecked.update(go2.q_home, np.full(go2.nv, np.nan)))
    dyn.update(go2.q_home, np.zeros(go2.nv))
    with pytest.raises(qd.StaleStateError):
        wbc.compute(s)
    for options in ({"dt": 0.0}, {"friction": -1.0}, {"friction": np.nan}, {"ramp_time": -1.0}, {"damping": np.inf}):
        raises(qd.ArgumentError, next(iter(options)), WholeBodyController, go2, **options)
    with pytest.raises(qd.ArgumentError, match="is used twice"):
        WholeBodyController(go2, tasks=[ComTask(go2), ComTask(go2)])


# -- contacts ------------------------------------------------------------------------------------------------------
def test_inner_pyramid_reduces_friction_by_the_documented_ratio() -> None:
    robot, s = at_home()
    for faces in (4, 8, 16):
        com = ComTask(robot)
        com.reference(s.com, acceleration=np.array([50.0, 0.0, 0.0]))
        level_0 = [ContactMotion(robot), FrictionPyramid(faces=faces)]
        c = WholeBodyController(robot, constraints=level_0, tasks=[com, ForceTask(robot)], friction=0.5).compute(s)
        total = sum(c.forces.values())
        assert total[0] / total[2] <= 0.5 + 1e-9
        assert total[0] / total[2] == pytest.approx(0.5 * np.cos(np.pi / faces), abs=1e-6)


def test_compliant_contact_carries_the_force_of_its_spring() -> None:
    robot, s = at_home()
    soft = Contact.from_foot(robot, "FL", stiffness=5e3)
    wbc = WholeBodyController(robot, contacts=[soft])
    wbc.contacts["FL"].surface_height = 0.004
    depth = 0.004 - (s.placement("FL").translation[2] - robot.legs["FL"].foot.radius)
    c = wbc.compute(s)
    np.testing.assert_allclose(c.forces["FL"], (0.0, 0.0, 5e3 * depth), atol=1e-7)
    assert c.status.ok
    # a higher desired force pushes the foot down
    wbc = WholeBodyController(robot, contacts=[soft], tasks=[ForceTask(robot), PostureTask(robot)])
    wbc.contacts["FL"].surface_height = 0.004
    wbc.tasks["forces"].reference({"FL": np.array([0.0, 0.0, 5e3 * depth + 10.0])})
    down = wbc.compute(s)
    assert (contact_jacobian(s, "FL") @ down.acceleration)[2] < -0.1


# -- switching -----------------------------------------------------------------------------------------------------
def swaying_motion(
    robot: qd.Robot, lifted: tuple[str, ...], ticks: int, *, dt: float = 1e-3, crouch: float = 0.0
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """A smooth motion of the base above the other, stationary feet, lowered by `crouch` leg lengths."""
    dyn = qd.Dynamics(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    feet = {foot: s.placement(foot).translation for foot in robot.feet}
    length = scales(robot).length
    standing = [p for foot, p in feet.items() if foot not in lifted]
    centre = 0.7 * (np.mean(standing or list(feet.values()), axis=0) - s.com)
    q, rows = robot.q_home.copy(), slice(6, robot.nv)
    path = []
    for i in range(ticks + 2):
        phase = 2.0 * np.pi * dt * i  # once a second
        q[:3] = robot.q_home[:3] + np.array([centre[0], centre[1], -crouch * length])
        q[:3] += 0.01 * length * np.array([np.sin(phase), np.cos(phase), np.sin(phase) - 2.0])
        for _ in range(60):
            s = dyn.update(q, np.zeros(robot.nv))
            error = np.concatenate([feet[f] - s.placement(f).translation for f in robot.feet])
            if np.abs(error).max() < 1e-13:
                break
            J = np.vstack([s.jacobian(f)[:3, rows] for f in robot.feet])
            step = np.zeros(robot.nv)
            step[rows] = np.linalg.lstsq(J, error, rcond=None)[0]
            q = robot.algorithms.integrate(robot.model, q, step / max(1.0, 5.0 * np.abs(step).max()))
        path.append(q.copy())
    for i in range(1, ticks + 1):
        yield path[i], robot.algorithms.difference(robot.model, path[i - 1], path[i + 1]) / (2.0 * dt)


def largest_step(
    robot: qd.Robot,
    lifted: str | tuple[str, ...],
    ramp: float,
    *,
    apart: Iterable[tuple[float, float]] = ((0.01, 0.08),),
    dt: float = 1e-3,
    crouch: float = 0.0,
    share: float = 1.0,
    rate: float = np.inf,
) -> float:
    """Largest change of a torque between ticks, per m g l / 4, while contacts are broken and made.

    Args:
        robot: the robot.
        lifted: the feet whose contacts are switched.
        ramp: of the controller [s].
        apart: start and end times of the intervals without contact [s].
        dt: control period [s].
        crouch: how far below its home stance, in leg lengths.
        share: of the torque limits.
        rate: limit of the change in one period, per m g l / 4.
    """
    dyn, base = qd.Dynamics(robot), robot.bodies[0].name
    unit = scales(robot).torque
    level_0 = default_constraints(robot, 1e-3)  # the horizon of the joint bounds does not depend on the period
    for c in level_0:
        if isinstance(c, TorqueLimits):
            c.limits *= share
    if rate < np.inf:
        level_0.append(TorqueRate(robot, rate * unit / dt))
    wbc = WholeBodyController(robot, dt=dt, ramp_time=ramp, constraints=level_0)
    feet = (lifted,) if isinstance(lifted, str) else lifted
    taus = []
    for i, (q, v) in enumerate(swaying_motion(robot, feet, round(0.15 / dt), dt=dt, crouch=crouch)):
        s = dyn.update(q, v)
        wbc.tasks["com"].reference(s.com, s.com_velocity)  # the motion is prescribed: no feedback
        wbc.tasks["base"].reference(s.placement(base).rotation, s.velocity(base)[3:])
        away = any(start <= i * dt < end for start, end in apart)
        command = wbc.compute(s, [f for f in robot.feet if f not in feet or not away])
        assert command.status.ok
        taus.append(command.tau)
    return float(np.abs(np.diff(taus, axis=0)).max() / unit)


def test_torques_are_continuous_when_contacts_are_made_and_broken(go2: qd.Robot) -> None:
    for foot in ("FL", "RR"):
        ramped, plain = largest_step(go2, foot, 0.05), largest_step(go2, foot, 0.0)
        print(f"{foot}: {100 * ramped:.1f} % of m g l / 4 with ramps, {100 * plain:.1f} % without")
        assert ramped <= 0.05 < plain


#: Intervals without contact; every transition is reversed half-way.
REVERSED_TRANSITIONS = ((0.01, 0.03), (0.04, 0.055), (0.065, 0.07))


@pytest.mark.parametrize("feet", [("FR",), ("FL", "RR"), ("FL", "FR", "RL", "RR")])
def test_torques_are_continuous_when_contact_transitions_are_reversed(feet: tuple[str, ...]) -> None:
    assert largest_step(qd.load("go2"), feet, 0.05, apart=REVERSED_TRANSITIONS) <= 0.05


def test_a_torque_rate_keeps_torques_continuous_next_to_their_limits() -> None:
    # In a crouch with half the torques, level 1 has a single solution at times and many a millisecond later: the
    # strict optimum changes steeply, though without a jump: ten times less in a tenth of the time.
    robot = qd.load("anymal_c")
    near = {"crouch": 0.2, "share": 0.5}
    steep, fine = largest_step(robot, "FR", 0.05, **near), largest_step(robot, "FR", 0.05, dt=1e-4, **near)
    assert fine <= 0.05 < steep and fine < 0.2 * steep
    assert largest_step(robot, "FR", 0.05, rate=0.05, **near) <= 0.05 + 1e-9


# -- motion --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", others_slow(["go2", "solo12", "anymal_c"], ["go2"]))
def test_robots_stand_and_squat_without_tuning(name: str) -> None:
    robot = qd.load(name)
    dyn, sim = qd.Dynamics(robot), qd.Simulation(robot, dt=2e-3)
    wbc = WholeBodyController(robot, dt=2e-3)
    home = dyn.update(sim.q, sim.v).com.copy()
    depth, period = 0.15 * home[2], 0.8
    down = np.array([0.0, 0.0, -1.0])
    worst = 0.0
    for i in range(450):
        s = dyn.update(sim.q, sim.v)
        t = min(max(i * 2e-3 - 0.05, 0.0), period)
        w = 2.0 * np.pi / period
        wbc.tasks["com"].reference(
            home + 0.5 * depth * (1.0 - np.cos(w * t)) * down,
            0.5 * depth * w * np.sin(w * t) * down,
            0.5 * depth * w * w * np.cos(w * t) * down * (0.0 < t < period),
        )
        c = wbc.compute(s)
        assert c.status.ok
        worst = max(worst, float(np.abs(s.com - wbc.tasks["com"]._position).max()))
        sim.step(c.tau)
    assert worst < 0.01 * home[2]
    np.testing.assert_allclose(dyn.update(sim.q, sim.v).com, home, atol=2e-3 * home[2])


# -- the certificate -----------------------------------------------------------------------------------------------
def test_explanations_are_valid_counterfactuals() -> None:
    robot, s = at_home()

    def tick(limited: tuple[str, ...]) -> Command:
        wbc = WholeBodyController(robot)
        for foot in limited:
            wbc.contacts[foot].set_normal_force_bounds(0.0, 5.0)
        wbc.tasks["com"].reference(s.com, acceleration=np.array([0.0, 1.0, 0.0]))
        return wbc.compute(s)

    c = tick(("FR", "RL"))
    assert c.status.ok
    blamed = [loss for loss in c.losses() if loss.cause in ("the FR normal force", "the RL normal force")]
    assert blamed and " because of the" in c.explain()
    labels = {"com": ("x", "y", "z"), "base": ("rx", "ry", "rz")}
    for loss in blamed:
        task, row = loss.row.split()
        freed = tick(("RL",) if "FR" in loss.cause else ("FR",))
        without = freed.levels[1].tasks[task][labels[task].index(row)]
        assert abs(without) == pytest.approx(abs(loss.deficit_without_cause), abs=1e-6)
        assert abs(without) < abs(loss.deficit)
    assert "posture" not in c.explain() and "posture" in c.explain(include_last_level=True, max_lines=None)


@pytest.mark.parametrize("name", ["go2", "b1_z1"])
def test_command_properties_refer_to_its_own_tick(name: str) -> None:
    robot = qd.load(name)
    dyn = qd.Dynamics(robot)
    wbc = WholeBodyController(robot)
    s = dyn.update(robot.q_home, np.zeros(robot.nv))
    wanted = {foot: np.array([1.0, 2.0, 30.0]) for foot in robot.feet}
    wbc.tasks["com"].reference(s.com, acceleration=np.array([0.5, 0.0, 0.0]))
    wbc.tasks["forces"].reference(wanted)
    c = wbc.compute(s)
    # everything changes before the properties are read
    wbc.tasks["forces"].reference()
    wbc.tasks["com"].reference(s.com + 1.0)
    wbc.contacts["FL"].set_normal_force_bounds(0.0, 1.0)
    dyn.update(robot.q_home, np.ones(robot.nv))
    lacking = np.concatenate([wanted[foot] - c.forces[foot] for foot in robot.feet])
    np.testing.assert_allclose(c.levels[2].tasks["forces"], lacking, atol=1e-7)
    assert np.abs(c.levels[1].tasks["com"]).max() < 1e-9
    assert not wbc.tasks["forces"].references
    assert c.margins["FL normal force"] == pytest.approx(c.forces["FL"][2])


def test_margins_are_distances_to_the_limits() -> None:
    robot, s = at_home()
    c = WholeBodyController(robot).compute(s)
    for joint, tau, limit in zip(robot.actuated, c.tau, robot.effort_limits, strict=True):
        assert c.margins[f"{joint} torque limit"] == pytest.approx(limit - abs(tau), abs=1e-9)
    for foot, f in c.forces.items():
        assert c.margins[f"{foot} normal force"] == pytest.approx(f[2], abs=1e-9)
        inner = 0.6 / np.sqrt(2.0) * f[2] - max(abs(f[0]), abs(f[1]))
        assert c.margins[f"{foot} friction cone"] == pytest.approx(inner, abs=1e-9)
    assert [level.rank for level in c.levels] == [12, 6, 6]


def test_gains_that_are_unstable_at_the_control_period_raise_a_warning_that_names_the_task(go2: qd.Robot) -> None:
    s = qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv))
    for gains in ((1e9, None), (100.0, 2500.0), (1e6, 10.0)):
        wbc = WholeBodyController(go2, dt=1e-3)
        wbc.compute(s)
        wbc.tasks["com"].gains(*gains)
        with pytest.warns(RuntimeWarning, match=r"^com: the stiffness .* unstable at a control period of 0.001 s"):
            for _ in range(GAIN_CHECK_INTERVAL):
                wbc.compute(s)
    stable = WholeBodyController(go2, dt=1e-3)
    stable.tasks["com"].gains(0.9e6)
    stable.tasks["posture"].gains(2e4, 0.0)  # undamped
    foot = stable.tasks["FL"]
    foot.gains([1e4, 1e4, 1e9])
    foot.axes = ["x", "y"]  # the row with unstable gains is not used
    stable.compute(s)
    foot.axes = None
    with pytest.warns(RuntimeWarning, match=r"^FL: the stiffness 1e\+09 .* of row z are unstable"):
        for _ in range(GAIN_CHECK_INTERVAL):
            stable.compute(s)
    with pytest.warns(RuntimeWarning, match=r"^ramp_time: 50 s seems to be in milliseconds"):
        stable.ramp_time = 50
