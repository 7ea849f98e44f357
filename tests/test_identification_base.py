"""Base parameters: known ranks, null spaces by rules and by QR, and equivalence for joint torques."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raising import raises

import quaddyn as qd
from quaddyn.identification import base_parameters, group_by_rule
from quaddyn.identification.base_parameters import StackedRegressor, random_states

INERTIA = '<inertial><origin xyz="0.01 0.02 0.03"/><mass value="1"/><inertia ixx="0.02" iyy="0.03" izz="0.04" '
INERTIA += 'ixy="0.001" ixz="0.002" iyz="0.003"/></inertial>'
LIMIT = '<limit lower="-1" upper="1" effort="10" velocity="5"/>'


def urdf(joints: list[tuple[str, int, str, str, str]]) -> str:
    """A tree of bodies of equal inertia; each joint is (type, parent, xyz, rpy, axis), body 0 the bare base."""
    parts = ['<link name="b0"/>']
    for k, (kind, parent, xyz, rpy, axis) in enumerate(joints, start=1):
        parts.append(
            f'<link name="b{k}">{INERTIA if kind != "fixed" else ""}</link><joint name="j{k}" type="{kind}">'
            f'<parent link="b{parent}"/><child link="b{k}"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            f"{LIMIT}</joint>"
        )
    return f'<robot name="tree">{"".join(parts)}</robot>'


#: Robots that are tested only in the nightly run.
MANY_JOINTS = ("g1", "talos", "wheeled_quadruped", "centauro", "b1_z1", "b1", "anymal_b_kinova")


def puma(tilt: float = 0.0) -> qd.Robot:
    """The Puma 560's geometry, modified Denavit-Hartenberg (Craig, Introduction to Robotics, section 3.7)."""
    h = np.pi / 2
    table = [(0, 0, 0), (-h, 0, 0), (0, 0.4318, 0.1501), (-h, 0.0203, 0.4318), (h, 0, 0), (-h, 0, 0)]
    joints = [("fixed", 0, "0 0 0", f"{tilt!r} 0 0", "0 0 1")]
    for k, (alpha, a, d) in enumerate(table, start=1):
        xyz = f"{a} {-d * np.sin(alpha):.17g} {d * np.cos(alpha):.17g}"
        joints.append(("revolute", k, xyz, f"{alpha!r} 0 0", "0 0 1"))
    return qd.load(urdf(joints), root="fixed")


def tilted(name: str, tilt: float) -> qd.Robot:
    """A catalogue arm with a tilted base."""
    source = qd.load(name).source
    text = source.decode() if isinstance(source, bytes) else source
    root = qd.load(name).tree.root.name
    slope = (
        f'<link name="slope"/><joint name="slope_joint" type="fixed"><parent link="slope"/><child link="{root}"/>'
        f'<origin rpy="{tilt!r} 0 0"/></joint></robot>'
    )
    return qd.load(text.replace("</robot>", slope), root="fixed")


# -- the table of known ranks ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["ur5", "rx90", "puma"])
def test_six_joint_arms_have_36_base_parameters_and_52_with_friction_and_rotors(name: str) -> None:
    """Khalil and Dombre 2002, ch. 9: 36, or 40 with rotor inertias, because Ia1 and Ia2 are grouped with Lzz."""
    robot = puma() if name == "puma" else qd.load(name)
    assert base_parameters(robot, inertial=True).size == 36
    assert base_parameters(robot).size == 36 + 12 + 4


@pytest.mark.parametrize("name", ["rx90", "puma"])
def test_first_axis_not_parallel_to_gravity_adds_two_base_parameters(name: str) -> None:
    robot = puma(0.3) if name == "puma" else tilted(name, 0.3)
    assert base_parameters(robot, inertial=True).size == 38
    assert base_parameters(robot).size == 38 + 12 + 4


@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_b", "anymal_c"])
def test_floating_base_robot_with_twelve_joints_has_94_base_parameters(name: str) -> None:
    robot = qd.load(name)
    assert base_parameters(robot, inertial=True).size == 10 + 7 * 12
    assert base_parameters(robot).size == 10 + 7 * 12 + 3 * 12


@pytest.mark.parametrize("name", ["ur5", "rx90"])
def test_rotors_of_the_first_two_joints_are_grouped(name: str) -> None:
    base = base_parameters(qd.load(name))
    alone = [g for g in base.groups() if g.startswith("Ia") and " + " not in g and " - " not in g]
    joints = qd.load(name).actuated
    assert sorted(alone) == sorted(f"Ia {joint}" for joint in joints[2:])


# -- rules and QR ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in MANY_JOINTS else [])
        for n in qd.CATALOGUE
        if n != "closed_leg_biped"  # identification does not support loops
    ],
)
def test_rules_and_qr_find_the_same_null_space_on_every_catalogue_robot(name: str) -> None:
    robot = qd.load(name, mimic=False)
    for inertial in (True, False):
        base, rules = base_parameters(robot, inertial=inertial), group_by_rule(robot, inertial=inertial)
        assert rules.rank == base.size
        assert rules.disagreement(base) < 1e-8  # right angles of kinova and xarm7 have eleven and five digits


@st.composite
def trees(draw: st.DrawFn) -> str:
    joints = []
    for k in range(draw(st.integers(1, 6))):
        kinds = ["revolute", "revolute", "continuous", "prismatic", "planar", "floating"]
        kind = draw(st.sampled_from(kinds if k else kinds[:-1]))  # a floating joint at the base is the root itself
        axis = draw(st.sampled_from(["1 0 0", "0 1 0", "0 0 1", "0 0.6 0.8", "0.6 0 -0.8"]))
        xyz = draw(st.sampled_from(["0 0 0", "0.3 0 0", "0 0.2 0", "0 0 0.4", "0.1 -0.2 0.3"]))
        rpy = draw(st.sampled_from(["0 0 0", "1.5707963267948966 0 0", "0 1.5707963267948966 0", "0.3 -0.4 0.5"]))
        joints.append((kind, draw(st.integers(max(0, k - 2), k)), xyz, rpy, axis))
    return urdf(joints)


@settings(max_examples=20, deadline=None)
@given(text=trees(), root=st.sampled_from(["fixed", "planar", "free"]), seed=st.integers(0, 2**31))
def test_rules_and_qr_agree_on_trees_of_all_joint_types(text: str, root: str, seed: int) -> None:
    if root != "fixed":  # a floating base has mass
        text = text.replace('<link name="b0"/>', f'<link name="b0">{INERTIA}</link>')
    robot = qd.load(text, root=root)
    for inertial in (True, False):
        base, rules = base_parameters(robot, inertial=inertial, seed=seed), group_by_rule(robot, inertial=inertial)
        assert rules.rank == base.size, (base.certificate, rules.by_body)
        assert rules.disagreement(base) < 1e-9


def test_rank_is_ambiguous_for_a_tilt_of_1e_6_and_unambiguous_for_exact_geometry() -> None:
    exact, tiny = base_parameters(puma()).certificate, base_parameters(puma(1e-6)).certificate
    assert exact.is_unambiguous
    assert np.log10(exact.gap) > 13
    assert not tiny.is_unambiguous
    assert tiny.ambiguous.max() < 1e-3


# -- equivalence -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "ur5", "double_pendulum_continuous", "b1_z1"])
@pytest.mark.parametrize("inertial", [True, False])
def test_base_parameters_determine_the_torques(name: str, inertial: bool) -> None:
    robot = qd.load(name)
    dyn, base = qd.Dynamics(robot), base_parameters(robot, inertial=inertial)
    states = random_states(robot, 20, np.random.default_rng(7))
    full = StackedRegressor(robot, inertial=inertial)(*states)
    delta = dyn.parameters(inertial=inertial)
    for k, (q, v, a) in enumerate(zip(*states, strict=True)):
        np.testing.assert_array_equal(full[k], dyn.regressor(q, v, a, inertial=inertial))
    tau = full @ delta
    scale = np.abs(tau).max()
    np.testing.assert_allclose(base.regressor()(*states) @ base.project(delta), tau, atol=1e-12 * scale)
    np.testing.assert_allclose(full @ base.P[:, : base.size], base.regressor()(*states), atol=0)


def test_mapping_matrices_satisfy_the_relations_of_source_c(go2: qd.Robot) -> None:
    base = base_parameters(go2)
    Pb, Pd = np.split(base.P, [base.size], axis=1)
    np.testing.assert_array_equal(base.K, Pb.T + base.Kd @ Pd.T)
    np.testing.assert_array_equal(base.P.T @ base.P, np.eye(len(base.names)))


def test_nearest_parameters_keep_base_parameters_and_the_prior(go2: qd.Robot) -> None:
    base, delta = base_parameters(go2), qd.Dynamics(go2).parameters()
    np.testing.assert_allclose(base.nearest_parameters(base.project(delta), delta), delta, atol=1e-12)
    beta = base.project(delta) + np.random.default_rng(0).standard_normal(base.size)
    np.testing.assert_allclose(base.project(base.nearest_parameters(beta, delta)), beta, atol=1e-10)


def test_regressor_row_of_a_joint_depends_only_on_its_subtree(go2: qd.Robot) -> None:
    support = StackedRegressor(go2).support
    row = go2.velocity_index("FL_thigh_joint")
    known = base_parameters(go2).names
    names = {known[k].split()[1] for k in np.flatnonzero(support[row])}
    assert names == {"FL_thigh", "FL_calf", "FL_thigh_joint"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda q, v, a: (q[:, :-1], v, a), "shape"),
        (lambda q, v, a: (q, v[:2], a), "samples"),
        (lambda q, v, a: (q, v * np.nan, a), "finite"),
        (lambda q, v, a: (q.astype(np.float32), v, a), "float64"),
        (lambda q, v, a: (q * 2.0, v, a), "does not have norm 1"),
        (lambda q, v, a: (q, v * 1e200, a), "overflows"),
    ],
)
def test_invalid_samples_are_rejected_by_name(go2: qd.Robot, change: object, word: str) -> None:
    states = random_states(go2, 3, np.random.default_rng(0))
    with np.errstate(all="ignore"), pytest.raises(qd.ArgumentError, match=word):
        StackedRegressor(go2)(*change(*states))  # type: ignore[operator]


def test_invalid_rank_options_are_rejected(go2: qd.Robot) -> None:
    raises(qd.ArgumentError, "samples", base_parameters, go2, samples=3)
    raises(qd.ArgumentError, "tolerance", base_parameters, go2, tolerance=2.0)
