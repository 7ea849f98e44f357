"""Validation of models: repairs, options and measured errors."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.robot import validation
from quaddyn.robot.bodies import combine_inertials, merge_fixed_links, pseudo_inertia
from quaddyn.robot.catalogue import example_robot_folder
from quaddyn.urdf import parse
from quaddyn.urdf.reader import rotation_from_rpy
from quaddyn.urdf.tree import Inertial, Pose

ROMEO = "romeo_description/urdf/romeo_small.urdf"


def chain(*links: tuple[float, float], kind: str = "revolute", axis: str = "0 1 0", size: float = 0.5) -> str:
    """A serial chain of (mass, moment of inertia) links."""
    parts = [link("l0")]
    for i, (mass, moment) in enumerate(links, start=1):
        place = f"0 0 {-size if i > 1 else 0}"
        parts.append(link(f"l{i}", inertial(mass, f"0 0 {-size / 2}", moment) if mass or moment else ""))
        parts.append(joint(f"j{i}", f"l{i - 1}", f"l{i}", axis, place, kind=kind, ends="-1 1"))
    return urdf(*parts, name="chain")


def test_inconsistent_composite_body_is_rejected_and_can_be_repaired() -> None:
    path = example_robot_folder() / ROMEO
    with pytest.raises(qd.ModelError, match=r"physically impossible .* pass repair=") as caught:
        qd.load(path)
    assert "romeo_small.urdf:" in str(caught.value)
    robot = qd.load(path, repair=("inertia",))
    repaired = [f for f in robot.report.warnings if "repair=" in f.reason]
    assert repaired
    for body in robot.bodies[1:]:
        moments = np.linalg.eigvalsh(pseudo_inertia(body.inertial))
        assert moments[0] >= -1e-12 * moments[-1]


def test_repair_changes_only_the_inertia_of_the_model() -> None:
    path = example_robot_folder() / ROMEO
    robot = qd.load(path, repair=("inertia",))
    file = merge_fixed_links(parse(path.read_bytes()))
    assert robot.mass == pytest.approx(sum(b.inertial.mass for b in file), rel=1e-15)
    for body in robot.bodies[1:]:
        assert body.joint is not None
        ours = robot.model.inertias[robot.model.getJointId(body.joint.name)]
        assert ours.inertia == pytest.approx(body.inertial.inertia, abs=1e-15)
        assert ours.lever == pytest.approx(body.inertial.com, abs=1e-15)


def test_repair_does_not_change_a_valid_robot() -> None:
    repaired, plain = qd.load("go2", repair=("inertia",)), qd.load("go2")
    assert [str(f) for f in repaired.report] == [str(f) for f in plain.report]
    for a, b in zip(repaired.model.inertias, plain.model.inertias, strict=True):
        assert a.toDynamicParameters() == pytest.approx(b.toDynamicParameters(), abs=1e-15)


def test_massless_bodies_are_accepted_only_if_allowed_and_with_mass_below_them() -> None:
    with pytest.raises(qd.ModelError, match=r"l1.*has no mass.*allow_massless=True"):
        qd.load(chain((0, 0), (1, 0.1)).replace("0 1 0", "1 0 0", 1))
    robot = qd.load(chain((0, 0), (1, 0.1)).replace("0 1 0", "1 0 0", 1), allow_massless=True)
    tau = np.array([0.3, -0.2])
    zero = np.zeros(2)
    dyn = qd.Dynamics(robot)
    q = np.array([0.4, 0.3])
    assert dyn.rnea(q, zero, dyn.aba(q, zero, tau)) == pytest.approx(tau, abs=1e-12)
    raises(qd.ModelError, "joint 'j2'", qd.load, chain((1, 0.1), (0, 0)), allow_massless=True)


def test_motion_that_moves_no_mass_is_refused() -> None:
    """A point mass on its own axis of rotation."""
    point = chain((1, 0), size=0.0)
    raises(qd.ModelError, r"joint 'j1' has the diagonal entry 0 in the mass matrix", qd.load, point)


def test_redundant_joints_are_rejected() -> None:
    same = chain((1e-9, 1e-12), (1, 0.1), kind="prismatic")
    raises(qd.ModelError, r"not positive definite|disagree", qd.load, same.replace('value="1e-09"', 'value="1e-14"'))


def test_tiny_mass_with_large_inertia_is_rejected() -> None:
    raises(qd.ModelError, "mass 1e-09 kg and an inertia too large for it", qd.load, chain((1e-9, 1.0)))


def test_ineffective_limits_are_reported() -> None:
    (reason,) = [f.reason for f in qd.load("solo12").report.warnings if "too large to have an effect" in f.reason]
    assert "effort=1000" in reason and "velocity=1000" in reason and "and 7 more" in reason
    assert not [f for f in qd.load("anymal_c").report.warnings if "too large to have an effect" in f.reason]


def test_combining_parts_keeps_mass_com_and_kinetic_energy() -> None:
    rng = np.random.default_rng(7)
    parts = []
    for _ in range(4):
        A = rng.standard_normal((3, 3))
        sigma = A @ A.T
        inertial = Inertial(float(rng.uniform(0.1, 2)), rng.standard_normal(3), np.trace(sigma) * np.eye(3) - sigma)
        parts.append((inertial, Pose.of(rotation_from_rpy(*rng.uniform(-3, 3, 3)), rng.standard_normal(3))))
    whole = combine_inertials(parts)
    v, w = rng.standard_normal(3), rng.standard_normal(3)
    energy = 0.0
    for inertial, pose in parts:
        velocity = v + np.cross(w, pose.apply(inertial.com))
        turned = pose.rotation @ inertial.inertia @ pose.rotation.T
        energy += 0.5 * inertial.mass * velocity @ velocity + 0.5 * w @ turned @ w
    about = v + np.cross(w, whole.com)
    assert 0.5 * whole.mass * about @ about + 0.5 * w @ whole.inertia @ w == pytest.approx(energy, rel=1e-13)


def test_checks_of_every_catalogue_robot_have_a_margin() -> None:
    for name in qd.CATALOGUE:
        checks = qd.load(name).report.check_results
        assert checks["smallest eigenvalue of M (unit diagonal)"] > 1e4 * validation.MIN_EIGENVALUE, name
        assert checks["RNEA(ABA) error"] < 1e-2 * validation.MAX_ROUND_TRIP_ERROR, name


def test_samples_are_valid_configurations_of_every_joint_kind() -> None:
    robot = qd.load(example_robot_folder() / "kinova_description/robots/kinova.urdf", root="free")
    q = validation.sample_near_neutral(robot.model, np.random.default_rng(1))
    assert pin.isNormalized(robot.model, q, 1e-12)
