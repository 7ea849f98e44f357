"""Closed loops: the same mechanism in the coordinates of its independent joints."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from loop_robots import ankle, joint, knee, knee_leg, link, loop, planar, quadruped
from raising import raises

import quaddyn as qd
from quaddyn.errors import ArgumentError, ModelError, UnknownNameError
from quaddyn.identification import base_parameters
from quaddyn.robot.loop_closing import _cube_surface
from quaddyn.robot.loops import PlanarLoop, _flat_positions
from quaddyn.wbc import PostureTask, TorqueLimits


@pytest.fixture(scope="module", params=["knee", "ankle", "floating"])
def robot(request: pytest.FixtureRequest) -> qd.Robot:
    if request.param == "ankle":
        return qd.load(ankle(), armature=0.01)
    return qd.load(knee_leg(), root="free" if request.param == "floating" else "fixed", armature=0.01)


@pytest.fixture(scope="module")
def state(robot: qd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return robot.random_configuration(4), rng.normal(size=robot.nv), rng.normal(size=robot.nv)


def test_loops_stay_closed_everywhere(robot: qd.Robot) -> None:
    rng = np.random.default_rng(2)
    assert max(coupling_errors(robot, robot.neutral)) <= 1e-13
    assert max(max(coupling_errors(robot, robot.random_configuration(rng))) for _ in range(200)) <= 1e-13


def test_report_lists_loops_and_dependent_joints() -> None:
    leg = qd.load(knee_leg())
    assert leg.joint_names == leg.actuated == ("abduction", "hip_pitch", "knee_motor")
    assert dict(leg.coupling.followers).keys() == {"rod_pin", "knee"} and leg.model.nv == 5
    assert "loop 'knee_loop' (point) closes 'rod' and 'shank': knee, rod_pin follow knee_motor" in str(leg.report)
    assert leg.legs["leg"].joints == ("abduction", "hip_pitch", "knee")
    raises(UnknownNameError, r"moved by loop 'knee_loop'", leg.velocity_index, "knee")
    with pytest.raises(ArgumentError, match=r"loop 'knee_loop' does not close at q"):
        qd.Dynamics(leg).crba(leg.configuration(joints={"knee_motor": 1.6}))
    upper = leg.upper[leg.configuration_index("knee_motor")]
    assert 0.3 < upper < 1.0  # limited by the linkage or by the knee's limit
    at = leg.configuration(joints={"knee_motor": upper})
    assert np.abs(leg.coupling.configuration(at)[leg.model.joints[leg.model.getJointId("knee")].idx_q]) < 1.2 + 1e-9


def test_close_loop_is_equivalent_to_the_loop_joint_tag(robot: qd.Robot, state: tuple) -> None:
    q, v, a = state
    bare = re.sub("<loop_joint.*?</loop_joint>", "", robot.source)
    again = qd.load(bare, root=robot.root, armature=0.01)
    for each in robot.loops:  # one of two coupled loops leaves other joints independent
        ends = ((each.link_a, each.placement_a.translation), (each.link_b, each.placement_b.translation))
        again = again.close_loop(*ends, name=each.name)
    assert again.joint_names == robot.joint_names
    np.testing.assert_allclose(qd.Dynamics(again).rnea(q, v, a), qd.Dynamics(robot).rnea(q, v, a), atol=1e-10)
    assert [x.name for x in qd.load(again.source).loops] == [x.name for x in robot.loops]
    raises(ArgumentError, "loops=False, which left", qd.load(robot.source, loops=False).close_loop, *ends)
    raises(ArgumentError, "kind='screw'", again.close_loop, *ends, kind="screw")


SQUARE = {"a": "0 0 0", "b": "0 0 0.2", "c": "0.3 0 0"}


def four_bar(
    kind: str = "spherical", end: str = "b_link 0.3 0 0", where: str = "c_link 0 0 0.2", more: str = ""
) -> str:
    """Two uprights on a base, and a bar on one of them: a parallelogram of 0.3 m and 0.2 m."""
    return (
        '<robot name="four_bar">'
        + "".join(link(name, 1.0, "0.1 0 0.05") for name in ("base", "a_link", "b_link", "c_link"))
        + joint("a", "base", "a_link", SQUARE["a"], "0 1 0")
        + joint("b", "a_link", "b_link", SQUARE["b"], "0 1 0", 0.0)
        + joint("c", "base", "c_link", SQUARE["c"], "0 1 0", 0.0)
        + loop("bar", kind, where, end, more, '<axis xyz="0 1 0"/>' if kind == "revolute" else "")
        + "</robot>"
    )


@pytest.mark.parametrize("kind", ["spherical", "revolute"])
def test_redundant_constraints_of_a_planar_loop_are_accepted(kind: str) -> None:
    robot = qd.load(four_bar(kind))
    assert robot.joint_names == ("a",) and robot.coupling.residual(robot.coupling.configuration(robot.q_home)) < 1e-15
    q = np.array([0.7])  # a parallelogram: the bar stays level, both uprights turn alike
    np.testing.assert_allclose(robot.coupling.configuration(q), [0.7, -0.7, 0.7], atol=1e-14)
    np.testing.assert_allclose(robot.coupling.at(q).G[:, 0], [1.0, -1.0, 1.0], atol=1e-13)


def test_redundant_rod_closes_up_to_the_rounding_of_the_file() -> None:
    # A second bar beside that of the parallelogram, with numbers of eight digits.
    text = four_bar("revolute").replace(
        "</robot>",
        link("rod", 0.1, "0.15 0 0")
        + joint("r", "a_link", "rod", "0.00000001 0 0.10000001", "0 1 0", 0.0, "-3 3")
        + loop("second", "revolute", "rod 0.3 0 0", "c_link 0 0 0.1", inside='<axis xyz="0 1 0"/>')
        + "</robot>",
    )
    robot = qd.load(text, actuated=["a"])
    np.testing.assert_allclose(robot.coupling.configuration(np.array([0.4])), [0.4, -0.4, -0.4, 0.4], atol=1e-6)
    assert 1e-12 < robot.coupling.residual(robot.coupling.configuration(robot.q_home)) < 1e-7
    assert any("close up to" in finding.reason for finding in robot.report.findings)
    assert qd.cross_check(robot, samples=2).passed
    raises(ModelError, r"does not close|locks all", qd.load, text.replace("0.10000001", "0.1001"), actuated=["a"])


#: The second upright at the end of the bar.
HANGS = '<parent link="b_link"/><child link="c_link"/><origin xyz="0.3 0 0"/>'
CHAIN = four_bar("fixed", "d_link 0 0 0", "base 0.3 0 0").replace(
    "</robot>", link("d_link", 0.2, "0 0 0.01") + joint("d", "c_link", "d_link", "0 0 -0.2", "0 1 0", 0.0) + "</robot>"
)


@pytest.mark.parametrize("kind", ["revolute", "weld"])
def test_every_kind_of_loop_joint_gives_the_same_parallelogram(kind: str) -> None:
    text = four_bar("revolute")
    if kind == "weld":  # base, a, b, c and d in one chain, whose end is the base again
        text = CHAIN.replace('<parent link="base"/><child link="c_link"/><origin xyz="0.3 0 0"/>', HANGS)
    robot = qd.load(text, actuated=["a"])
    at = robot.coupling.at(np.array([0.4]))
    wanted = {"a": 0.4, "b": -0.4, "c": 0.4, "d": -0.4}
    values = [wanted[name] for name in robot.model.names[1:]]
    np.testing.assert_allclose(at.q, values, atol=1e-13)
    np.testing.assert_allclose(at.drift(np.array([2.0])), 0.0, atol=1e-12)
    ours, theirs = both_plants(robot, np.array([0.4]), np.zeros(1), 5e-4, 0.05)
    assert np.abs(ours.q - theirs.q).max() < 1e-4 < 1e-3 < np.abs(ours.q - 0.4).max()
    assert qd.cross_check(robot, samples=1, tolerance=1e-10).passed


def test_dependent_joints_can_be_chosen() -> None:
    robot = qd.load(four_bar(more=' dependent="a b"'), actuated=["a", "c"])
    assert robot.joint_names == robot.actuated == ("c",)
    with pytest.raises(ModelError, match=r"'nobody' is not a joint of loop 'bar'; its joints: a, b, c"):
        qd.load(four_bar(more=' dependent="nobody a"'))
    raises(ModelError, r"a cannot be these", qd.load, four_bar(more=' dependent="a"'))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (four_bar(end="b_link 0.9 0 0"), r"loop 'bar' does not close: .* m \(or rad\) apart near home"),
        (four_bar("fixed"), r"locks all of its joints"),
        (four_bar(end="base 0 0 0", where="base 0 0 0.1"), r"between which no joint moves"),
        (four_bar(end="nothing 0 0 0"), r"link 'nothing' does not exist"),
        (four_bar("screw"), r"type='screw' is not a type of loop joint"),
        # Both uprights and the bar in line: at home the parallelogram may also fold.
        (four_bar().replace(SQUARE["b"], "0.2 0 0").replace("0 0 0.2", "0.2 0 0"), r"singular at home: .* rank 1 .* 2"),
    ],
)
def test_loops_that_cannot_be_closed_are_rejected(text: str, says: str) -> None:
    raises(ModelError, says, qd.load, text)
    if "nothing" not in text and "screw" not in text:
        assert qd.load(text, loops=False).nv == 3


@pytest.mark.parametrize(
    ("joint", "instead", "says"),
    [
        (
            'lower="-2" upper="2" effort="40.0"',
            'lower="2" upper="2" effort="40.0"',
            r"must be at 3\.\d+ for its loops",
        ),
        ('upper="2" effort="40.0"', 'upper="1e9" effort="40.0"', None),
    ],
)
def test_home_is_within_the_range_of_the_independent_joint(joint: str, instead: str, says: str | None) -> None:
    text = knee_leg()
    at = text.index('<joint name="knee_motor"')
    text = text[:at] + text[at:].replace(joint, instead, 1)
    if says is None:
        assert qd.load(text).nv == 3
        return
    raises(ModelError, says, qd.load, text)


def test_linkage_locked_at_home_is_rejected() -> None:
    text = ankle()
    at = text.index('<joint name="left_tilt"')
    text = text[:at] + text[at:].replace('type="revolute"', 'type="fixed"', 1)
    with pytest.raises(
        ModelError, match=r"closes only at home and not after any motion of 'left_motor' or 'right_motor'"
    ):
        qd.load(text, root="fixed")


def test_zero_range_is_kept_with_a_warning() -> None:
    text = ankle()
    at = text.index('<joint name="left_tilt"')
    text = text[:at] + text[at:].replace('lower="-2"', 'lower="0"', 1)  # at home, where both motors are independent
    robot = qd.load(text, root="fixed")
    assert sum("is reduced to its home" in each.reason for each in robot.report.warnings) == 2
    for seed in range(5):
        np.testing.assert_array_equal(robot.random_configuration(seed), robot.q_home)


@pytest.mark.parametrize(("half", "is_kept"), [(4e-4, True), (1e-5, False)])
def test_range_of_a_cylinder_is_narrow_in_proportion_to_its_loop(half: float, is_kept: bool) -> None:
    """A cylinder of 3 cm length turns an arm: 0.4 mm are a range, 0.01 mm are not."""
    cylinder = joint("cylinder", "barrel", "piston", "0 0 0.02", "0 0 1", ends=f"{-half} {half}")
    text = "".join((
        '<robot name="press">', *(link(name, 0.1, "0 0 0.01") for name in ("base", "arm", "barrel", "piston")),
        joint("arm_pin", "base", "arm", "0 0 0", "0 1 0"),
        joint("barrel_pin", "base", "barrel", "0.03 0 0", "0 1 0"),
        cylinder.replace("revolute", "prismatic"),
        loop("press", "spherical", "arm 0.03 0 0.03", "piston 0 0 0.01", ' dependent="arm_pin barrel_pin"'),
        "</robot>",
    ))  # fmt: skip
    robot = qd.load(text, root="fixed")
    np.testing.assert_allclose(robot.upper - robot.lower, 2.0 * half if is_kept else 0.0, rtol=0.1)


def test_friction_of_dependent_joints_is_ignored_on_the_open_tree_as_well() -> None:
    text = knee_leg()
    at = text.index('<joint name="rod_pin"')
    end = text.index("</joint>", at)
    robot = qd.load(text[:end] + '<dynamics damping="0.3" friction="0.2"/>' + text[end:], root="fixed")
    report = qd.cross_check(robot, samples=2)
    assert report.passed, str(report)


def test_loop_tag_of_drake_is_read() -> None:
    tag = (
        '<drake:ball_constraint><drake:ball_constraint_body_A name="c_link"/><drake:ball_constraint_body_B '
        'name="b_link"/><drake:ball_constraint_p_AP value="0 0 0.2"/><drake:ball_constraint_p_BQ value="0.3 0 0"/>'
        "</drake:ball_constraint>"
    )
    text = four_bar()
    start, end = text.index("<loop_joint"), text.index("</loop_joint>") + len("</loop_joint>")
    text = (text[:start] + tag + text[end:]).replace("<robot ", '<robot xmlns:drake="http://drake.mit.edu" ')
    assert [each.kind for each in qd.load(text).loops] == ["point"]


def test_cross_check_detects_a_loop_that_is_closed_elsewhere(robot: qd.Robot) -> None:
    text = re.sub(r'(<link2 link="\w+" xyz="-?0.)0', r"\g<1>1", robot.source)
    assert text != robot.source and not qd.cross_check(robot, samples=1, tolerance=1e-10, source=text).passed


def test_embedded_plant_follows_forward_dynamics(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    dyn, plant = qd.Dynamics(robot), qd.Simulation(robot, dt=1e-4, floor=-np.inf, integrator="euler")
    plant.reset(q, 0.3 * v)
    tau, (at, speed) = np.linspace(0.2, -0.1, robot.nu), (q, 0.3 * v)
    start = plant.energy
    assert start == pytest.approx(sum(dyn.energy(q, 0.3 * v)), abs=1e-12)
    for _ in range(50):
        for _ in range(10):
            plant.step(tau)
        h, half = 1e-3, robot.integrate(at, speed, 5e-4)  # the midpoint rule
        middle = speed + 0.5 * h * dyn.aba(at, speed, robot.generalized_torques(tau))
        speed, at = speed + h * dyn.aba(half, middle, robot.generalized_torques(tau)), robot.integrate(at, middle, h)
    assert np.abs(robot.difference(at, plant.q)).max() < 1e-4 < 0.005 < np.abs(robot.difference(q, at)).max()
    assert max(coupling_errors(robot, plant.q)) <= 1e-13
    assert abs(plant.energy - start) > 1e-6


def both_plants(robot: qd.Robot, q: np.ndarray, v: np.ndarray, dt: float, time: float) -> list[qd.simulation.Plant]:
    """The embedded plant, and MuJoCo with constraints that are as hard as the step allows, after some time."""
    plants: list[qd.simulation.Plant] = [kind(robot, dt=dt, floor=-np.inf) for kind in (qd.Simulation, qd.MujocoPlant)]
    for plant in plants:
        plant.reset(q, v)
        for _ in range(round(time / dt)):
            plant.step(np.linspace(0.3, -0.2, robot.nu))
    return plants


def test_mujoco_constraints_converge_to_the_embedded_plant_with_stiffness(robot: qd.Robot, state: tuple) -> None:
    q, v, _ = state
    far = []
    for dt in (1e-3, 2.5e-4):
        ours, theirs = both_plants(robot, q, 0.3 * v, dt, 0.05)
        far.append(np.abs(robot.difference(ours.q, theirs.q)).max())
    assert far[1] < 0.5 * far[0] < 1e-3


def contact_point_jacobian(J: np.ndarray) -> np.ndarray:
    """Jacobian of the point that is the foot's radius below the center whose Jacobian is J."""
    lever = np.array([[0.0, 0.02, 0.0], [-0.02, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return np.asarray(J[:3] - lever @ J[3:])


def test_pushes_and_contacts_reach_the_motors_through_the_loop() -> None:
    leg = qd.load(knee_leg())
    q, rest = leg.configuration(joints={"knee_motor": -0.5, "hip_pitch": 0.2}), np.zeros(leg.nv)
    dyn = qd.Dynamics(leg)
    foot = dyn.frame_placement(q, "leg").translation
    plant = qd.Simulation(leg, dt=1e-3, floor=float(foot[2]) - 0.02 - 1e-5, integrator="euler")
    v = np.linalg.pinv(dyn.frame_jacobian(q, "leg")[:3]) @ np.array([0.0, 0.0, -0.5])
    plant.reset(q, v)
    plant.step(np.zeros(3), external={"rod": np.array([3.0, 0.0, 0.0])})
    (touching,) = plant.contacts
    force = (
        contact_point_jacobian(dyn.frame_jacobian(q, "leg")).T @ touching.force + dyn.frame_jacobian(q, "rod")[0] * 3.0
    )
    np.testing.assert_allclose(plant.v - v, 1e-3 * dyn.aba(q, v, force), atol=1e-9)
    assert np.abs(rest - plant.v).max() > 0.0


def test_whole_body_control_works_on_the_independent_joints() -> None:
    robot = qd.load(quadruped())
    assert robot.actuated[:3] == robot.legs["FL"].joints == ("FL_abduction", "FL_hip_pitch", "FL_knee")
    rng, wbc, dyn = np.random.default_rng(3), qd.WholeBodyController(robot), qd.Dynamics(robot)
    s = dyn.update(robot.q_home, 0.05 * rng.normal(size=robot.nv))
    command = wbc.compute(s, contacts=robot.feet)
    assert command.ok, str(command.status)
    on_feet = sum(contact_point_jacobian(s.jacobian(foot)).T @ command.forces[foot][:3] for foot in robot.feet)
    moved = dyn.rnea(s.q, s.v, command.acceleration)
    np.testing.assert_allclose(moved, robot.generalized_torques(command.tau) + on_feet, atol=1e-9)
    # The torque of the crank's motor at the same power.
    at = robot.coupling.at(s.q)
    knee, crank = robot.velocity_index("FL_knee"), robot.model.joints[robot.model.getJointId("FL_knee_motor")].idx_v
    motor = command.tau[2] / at.G[crank, knee]
    assert motor * at.velocity(s.v)[crank] == pytest.approx(command.tau[2] * s.v[knee])


def test_functions_without_loop_support_raise_an_error(robot: qd.Robot, state: tuple) -> None:
    q, v, a = state
    for use in (
        lambda: base_parameters(robot),
        lambda: qd.Dynamics(robot).rnea_derivatives(q, v, a),
        lambda: qd.Dynamics(robot).aba_derivatives(q, v, a),
    ):
        raises(ModelError, "loop", use)


@pytest.mark.parametrize("seed", range(60))
def test_range_of_a_four_bar_ends_where_its_links_are_collinear(seed: int) -> None:
    """Compares with a direct check: the other two bars reach inside the range and do not beyond it."""
    rng = np.random.default_rng(seed)
    a, b, c, d = rng.uniform(0.2, 1.0, 4)
    sense, at_home = int(rng.choice([-1, 1])), float(rng.uniform(-1.0, 1.0))

    def closes(t: float) -> bool:
        return bool(abs(c - d) <= abs(a + b * np.exp(1j * t)) <= c + d)

    home = next(t for t in rng.uniform(-np.pi, np.pi, 10_000) if closes(t))
    turn = np.exp(1j * rng.uniform(-np.pi, np.pi))
    bars = (complex(d), turn * a, turn * b * np.exp(1j * home), complex(c))
    loop = PlanarLoop((0, 1, 2, 3), (1, 1, sense, 1), bars, (1, 3, 0), 1, (-np.inf, np.inf))
    low, high = _flat_positions(SimpleNamespace(home=np.array([0.0, 0.0, at_home, 0.0])), loop)  # type: ignore[arg-type]
    assert low < at_home < high and np.isfinite(low) == np.isfinite(high)
    for angle in at_home + np.linspace(-2.0 * np.pi, 2.0 * np.pi, 400):
        if low + 1e-6 < angle < high - 1e-6:
            assert closes(home + sense * (angle - at_home)), angle
    for end, beyond in ((low, -1e-6), (high, 1e-6)):
        if np.isfinite(end):
            assert not closes(home + sense * (end + beyond - at_home))
            assert closes(home + sense * (end - beyond - at_home))


def test_loop_closes_throughout_the_ranges_of_two_independent_joints() -> None:
    """Not only at the corners and on the axes of their box: this range is narrowest elsewhere."""
    robot, rng = qd.load(planar(3, 5, (0, 3)), armature=0.01), np.random.default_rng(3)
    assert all(robot.coupling.closes(robot.random_configuration(rng)) for _ in range(300))


# -- rounding decides nothing ------------------------------------------------------------------------------------
def parallelogram(crank: float, bar: float, ends: str = "-1 1", effort: float = 0.0) -> str:
    """Two equal cranks with the same limits, connected by a rod; `effort` is the limit of all joints except j1."""
    return (
        '<robot name="parallelogram">'
        + link("base", 3.0, "0 0 0.02", "0.02 0.03 0.03")
        + link("first", 1.0, "0 0 -0.1")
        + link("second", 0.5, "0 0 -0.1")
        + link("rod", 0.2, f"{bar / 2} 0 0")
        + joint("j1", "base", "first", "0 0.03 0", "0 1 0", ends=ends)
        + joint("j2", "base", "second", f"{bar} 0.03 0", "0 1 0", effort, ends)
        + joint("j3", "first", "rod", f"0 0 -{crank}", "0 1 0", effort, "-3 3")
        + loop("rods", "spherical", f"rod {bar} 0 0", f"second 0 0 -{crank}")
        + "</robot>"
    )


@pytest.mark.parametrize("ends", ["-1 1", "-0.8 1.2", "0 1", "-1 0"])
def test_dependent_joint_with_the_range_of_its_leader_keeps_its_limits(ends: str) -> None:
    low, high = map(float, ends.split())
    for crank, bar in ((0.2, 0.1), (0.17, 0.13), (0.25, 0.04), (0.3, 0.1), (0.273, 0.144)):
        robot = qd.load(parallelogram(crank, bar, ends), root="fixed")
        limits = next(body.joint.limits for body in robot.bodies if body.joint is not None and body.joint.name == "j1")
        assert (limits.lower, limits.upper) == (low, high)
        assert not [finding for finding in robot.report.findings if "is reduced to" in finding.reason]


def test_independent_joint_of_a_fully_driven_parallelogram_does_not_depend_on_its_lengths() -> None:
    rng = np.random.default_rng(0)
    lengths = [[round(float(x), 3) for x in rng.uniform(0.05, 0.4, 2)] for _ in range(12)]
    leaders = {qd.load(parallelogram(*pair, effort=40.0), root="fixed").actuated for pair in lengths}
    assert len(leaders) == 1


@pytest.mark.parametrize("n", [2, 3, 6, 7, 30])
def test_rays_of_the_range_search_reach_the_surface_of_the_cube_and_stay_few(n: int) -> None:
    rays = _cube_surface(n)
    assert rays.shape[1] == n and len(rays) < 1000
    np.testing.assert_array_equal(np.abs(rays).max(axis=1), 1.0)
    np.testing.assert_array_equal(rays, _cube_surface(n))
    assert (np.ptp(rays, axis=0) == 2.0).all(), "both sides of each joint"


# -- closed loops beside joints that mimic others ---------------------------------------------------------------------
def mimic(text: str, leader: str, multiplier: float, offset: float = 0.0) -> str:
    """Adds a mimic tag to the text of a joint."""
    tag = f'<mimic joint="{leader}" multiplier="{multiplier}" offset="{offset}"/></joint>'
    return text.replace("</joint>", tag)


def machine(kind: str) -> str:
    """A leg with a four-bar knee.

    "gripper": two fingers on the base, one of which mimics the other; "belt": the knee's motor mimics the hip, the one
    on the loop and the other before it; "toe": a joint that mimics the knee, which the loop moves, and one that mimics
    the toe.
    """
    leg = knee()
    if kind == "belt":
        motor = joint("knee_motor", "thigh", "crank", "0 0.02 0", "0 1 0")
        assert motor in leg
        leg = leg.replace(motor, mimic(motor, "hip_pitch", -0.5, 0.1))
    parts = [
        link("base", 3.0, "0 0 0.02", "0.02 0.03 0.03"),
        link("hip", 0.5, "0.01 0 0"),
        joint("abduction", "base", "hip", "0.1 0.05 0", "1 0 0", ends="-0.8 0.8"),
        leg,
    ]
    ends = ("base", "finger_a", "finger_b") if kind == "gripper" else ("shank", "toe", "nail")
    if kind != "belt":
        parts += [
            link(ends[1], 0.2, "0.02 0.01 0.03"),
            link(ends[2], 0.1, "0.01 -0.01 0.02"),
            joint(ends[1] + "_joint", ends[0], ends[1], "0.02 0.03 -0.19", "0 0.6 0.8"),
            mimic(joint(ends[2] + "_joint", ends[0 if kind == "gripper" else 1], ends[2], "0.01 0 0.02", "1 0 0"),
                  ends[1] + "_joint", -0.7, 0.05),
        ]  # fmt: skip
    if kind == "toe":
        parts[-2] = mimic(parts[-2], "knee", -0.5, 0.02)
    return f'<robot name="{kind}">{"".join(parts)}</robot>'


@pytest.fixture(scope="module", params=["gripper", "belt", "toe", "floating gripper"])
def coupled(request: pytest.FixtureRequest) -> qd.Robot:
    return qd.load(machine(request.param.split()[-1]), root="free" if "floating" in request.param else "fixed")


def coupling_errors(robot: qd.Robot, q: np.ndarray) -> list[float]:
    """Residuals of loops [m] and of mimic joints [rad], by the robot's kinematics."""
    dyn, at, out = qd.Dynamics(robot), robot.coupling.at(q).q, []
    for each in robot.loops:
        a, b = dyn.frame_placement(q, each.link_a), dyn.frame_placement(q, each.link_b)
        out.append(float(np.linalg.norm(a.apply(each.placement_a.translation) - b.apply(each.placement_b.translation))))
    place = {name: robot.model.joints[robot.model.getJointId(name)].idx_q for name in robot.tree.joints_by_name}
    for each in robot.tree.joints:
        if each.mimic is not None:
            leader = at[place[each.mimic.joint]]
            out.append(abs(at[place[each.name]] - each.mimic.multiplier * leader - each.mimic.offset))
    return out


def test_dependent_joints_satisfy_loops_and_mimics_everywhere(coupled: qd.Robot) -> None:
    rng = np.random.default_rng(2)
    assert len(coupled.loops) == 1 and len(coupling_errors(coupled, coupled.q_home)) in (2, 3)
    assert max(max(coupling_errors(coupled, coupled.random_configuration(rng))) for _ in range(100)) <= 1e-13
    freedom = {"gripper": 4, "belt": 2, "toe": 3}[coupled.name] + (6 if coupled.root == "free" else 0)
    assert coupled.nv == freedom


def test_followers_name_their_loop_or_mimic_tag(coupled: qd.Robot) -> None:
    assert "loop 'knee_loop'" in coupled.coupling.followers["rod_pin"]
    assert {"knee_motor", "hip_pitch"} & set(coupled.joint_names)
    if coupled.name == "gripper":
        assert coupled.coupling.followers["finger_b_joint"] == "is moved by <mimic joint='finger_a_joint'>"


def test_swinging_motion_is_the_same_in_both_plants() -> None:
    pytest.importorskip("mujoco")
    coupled = qd.load(machine("toe"), root="fixed")
    q, ways = [], []
    start = np.array(coupled.q_home)
    for Plant, dt in ((qd.Simulation, 1e-4), (qd.MujocoPlant, 1e-4)):
        sim = Plant(coupled, dt=dt)
        sim.reset(start, np.zeros(coupled.nv))
        for _ in range(1500):
            sim.step(np.zeros(coupled.nu))
        q.append(sim.q.copy())
        ways.append(np.abs(sim.q - start).max())
        assert max(coupling_errors(coupled, sim.q)) <= 1e-12
    assert min(ways) > 0.02
    np.testing.assert_allclose(q[0], q[1], atol=1e-6)


def test_whole_body_control_moves_dependent_joints() -> None:
    coupled = qd.load(machine("belt"), root="fixed")
    wbc = qd.WholeBodyController(
        coupled,
        constraints=[TorqueLimits(coupled)],
        tasks=[[PostureTask(coupled, stiffness=100.0)]],
        contacts=[],
        dt=1e-3,
    )
    dyn, q, v = qd.Dynamics(coupled), np.array(coupled.q_home), np.array([0.3, -0.2])
    target = q + np.array([0.1, -0.1])
    wbc.tasks["posture"].reference(target)
    for _ in range(250):
        command = wbc.compute(dyn.update(q, v))
        assert command.ok
        a = dyn.aba(q, v, coupled.generalized_torques(command.tau))
        np.testing.assert_allclose(a, command.acceleration, atol=1e-9)
        q, v = coupled.integrate(q, 1e-3 * v), v + 1e-3 * a
    np.testing.assert_allclose(q, target, atol=5e-2)


def test_kernels_reject_loops_combined_with_mimic_joints(coupled: qd.Robot) -> None:
    raises(ModelError, r"closed loops and joints that mimic others", qd.compile, coupled, ("rnea",))
    assert qd.load(machine("gripper"), root="fixed", loops=False).loops == ()
    assert qd.load(machine("gripper"), root="fixed", mimic=False).nv == 5


def test_loop_locked_by_a_mimic_joint_is_rejected() -> None:
    text = machine("belt").replace('<joint name="hip_pitch" type="revolute">', '<joint name="hip_pitch" type="fixed">')
    raises(ModelError, "hip_pitch", qd.load, text, root="fixed")
    lever = machine("gripper").replace("</robot>", "")
    pin = joint("rod_pin", "crank", "rod", "-0.04 0 0", "0 1 0", 0.0, "-3 3")
    assert pin in lever
    with pytest.raises(ModelError, match="knee_loop"):
        qd.load(lever.replace(pin, mimic(pin, "knee_motor", 1.0)) + "</robot>", root="fixed")
