"""Pinocchio and the reference implementation agree on every robot; `cross_check` detects every modification."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import SubElement

import fuzzing
import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from reference_models import EVERYTHING, KINDS, tree
from slow_parameters import NIGHT, others_slow
from urdf_editing import Urdf

import quaddyn as qd
from quaddyn.dynamics import Dynamics
from quaddyn.reference import Reference
from quaddyn.robot.catalogue import CATALOGUE, example_robot_folder, find_entry, own_robot_folder
from quaddyn.verification import VerificationReport, cross_check
from quaddyn.verification.algorithms import ILL_CONDITIONED, Sample, compare, compare_with_mujoco
from quaddyn.verification.check import read_reference

#: Files that validation rejects: impossible inertias, a file without links, and mimics of joints that do not exist.
REFUSED = {"alex_psyonic_hands", "human", "icub", "romeo", "romeo_laas_small", "romeo_small", "ur3"}
FILES = [p for folder in (example_robot_folder(), own_robot_folder()) for p in sorted(folder.rglob("*.urdf"))]
ACCEPTED = [p for p in FILES if p.stem not in REFUSED]

#: One robot of each kind in the catalogue, and one of each family of larger robots.
QUICK = {
    CATALOGUE[name].path
    for name in ("go2", "solo8", "anymal_b_kinova", "centauro", "bolt", "ur5", "panda", "finger_edu", "two_link_leg")
} | {p for p in ACCEPTED if p.stem in {"alexander_v1.lowerBodyOnly", "baxter", "hextilt_flying_arm_5"}}

#: Largest nv whose derivatives are compared here: they take nv complex steps of the reference.
SMALL = 40


def check(robot: qd.Robot, source: object, **options: object) -> VerificationReport:
    """The report of `cross_check`; derivatives, which take most of the time, are compared at one state by default."""
    defaults = {"samples": 3, "mujoco": False} if NIGHT else {"samples": 2, "mujoco": False, "n_derivative_samples": 1}
    return cross_check(robot, source=source, **{**defaults, **options})


@functools.cache
def go2() -> qd.Robot:
    return qd.load("go2")


@functools.cache
def text() -> str:
    return find_entry("go2").path.read_text(encoding="utf-8")


def assert_medians(agreement: VerificationReport) -> None:
    """Asserts median errors of at most 1e-12, or of 100 eps cond(M) where an algorithm solves with M."""
    leave = 100 * np.finfo(float).eps * agreement.condition[1]
    for name, median in agreement.medians.items():
        assert median <= (max(1e-12, leave) if name in ILL_CONDITIONED else 1e-12), (name, median)


# -- every robot ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", others_slow(ACCEPTED, QUICK), ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_pinocchio_and_reference_agree_on_every_robot_and_algorithm(path: Path) -> None:
    robot = qd.load(path, packages=[example_robot_folder().parent.parent])
    agreement = check(robot, path, n_derivative_samples=int(robot.nv <= SMALL), mujoco=True)
    assert agreement.passed, str(agreement)
    assert_medians(agreement)


def test_every_catalogue_robot_is_cross_checked() -> None:
    assert {entry.path for entry in CATALOGUE.values()} <= set(ACCEPTED)


def test_cross_check_reads_the_source_of_the_robot_by_default() -> None:
    kept = cross_check(go2(), samples=1, n_derivative_samples=0, mujoco=False)
    assert kept.passed
    assert kept.errors == check(go2(), text(), samples=1, n_derivative_samples=0).errors
    changed = dataclasses.replace(go2(), source=edited("FL_thigh", "inertial/mass", "value", "1.2").encode())
    found = cross_check(changed, samples=1, n_derivative_samples=0, mujoco=False).deviations
    assert ("FL_thigh", "mass") in {(d.name, d.quantity) for d in found}


@pytest.mark.parametrize(
    ("name", "root"),
    others_slow(
        itertools.product(("go2", "anymal_c", "solo8", "double_pendulum_continuous"), ("free", "planar", "fixed")),
        [("go2", "free"), ("double_pendulum_continuous", "planar"), ("go2", "fixed")],
    ),
)
def test_pinocchio_and_reference_agree_for_every_root_type(name: str, root: str) -> None:
    robot = qd.load(name, root=root)
    agreement = check(robot, find_entry(name).path)
    assert agreement.passed, str(agreement)
    assert_medians(agreement)


ODD = [(a, b, root) for root in ("free", "planar", "fixed") for a in KINDS for b in KINDS]
#: Every joint type as parent and as child of another one, and at each root.
QUICK_ODD = [
    (first, KINDS[(i + step) % len(KINDS)], root)
    for step, root in enumerate(("free", "planar", "fixed"))
    for i, first in enumerate(KINDS)
]


@pytest.mark.parametrize(("first", "second", "root"), others_slow(ODD, QUICK_ODD))
def test_every_pair_of_joint_types_agrees_for_any_axis(first: str, second: str, root: str) -> None:
    source = tree((first, second))
    agreement = check(qd.load(source, root=root), source, samples=2)
    assert not agreement.deviations
    assert not agreement.failed_algorithms, str(agreement)


def test_tree_of_all_joint_types_agrees_on_every_algorithm() -> None:
    agreement = check(qd.load(EVERYTHING, root="free"), EVERYTHING)
    assert agreement.passed, str(agreement)


def test_overridden_joint_parameters_and_limits_are_not_deviations() -> None:
    robot = qd.load(
        "go2",
        armature={"FL_calf_joint": 0.1},
        damping=0.3,
        friction={"RR_hip_joint": 2.0},
        limits={"FL_thigh_joint": {"lower": -0.5}, "FR_thigh_joint": {"upper": 0.5}},
    )
    agreement = check(robot, find_entry("go2").path)
    assert agreement.passed, str(agreement)


def test_repaired_inertia_is_not_a_deviation() -> None:
    broken = text().replace('ixx="0.02448"', 'ixx="0.92448"')
    assert broken != text()
    robot = qd.load(broken, repair=["inertia"])
    assert any("replaces it by the nearest possible inertia" in f.reason for f in robot.report.findings)
    agreement = check(robot, broken)
    assert agreement.passed, str(agreement)


def test_mimic_joint_agrees_whether_coupled_or_independent() -> None:
    coupled = tree(("revolute", "revolute", "revolute")).replace(
        '<joint name="joint2" type="revolute">', '<joint name="joint2" type="revolute"><mimic joint="joint1"/>'
    )
    for mimic, nv in ((True, 2), (False, 3)):
        robot = qd.load(coupled, mimic=mimic)
        assert robot.nv == nv
        agreement = check(robot, coupled)
        assert agreement.passed, str(agreement)


def test_both_readers_agree_on_mutated_files_that_pass_validation() -> None:
    accepted = 0
    small = [p for p in ACCEPTED if p.stat().st_size < 20_000]
    pool = [fuzzing.Base(p.name, p.read_bytes(), None, frozenset()) for p in small]
    for case in fuzzing.draw(40 if NIGHT else 20, 7, pool):
        try:
            source = case.data.decode()
            robot = qd.load(source)
        except (qd.QuaddynError, UnicodeDecodeError):
            continue
        accepted += 1
        agreement = check(robot, source, samples=1, n_derivative_samples=0)
        assert not agreement.deviations, (case.kind, case.base.name, str(agreement))
        assert not agreement.failed_algorithms, (case.kind, str(agreement))
    assert accepted >= (12 if NIGHT else 6)


# -- mutants of the file ----------------------------------------------------------------------------------------------
def edited(element: str, child: str, attribute: str, new: str | Callable[[str], str]) -> str:
    """URDF of Go2 with one attribute changed: of a link or joint (child "."), or of one of its child elements."""
    urdf = Urdf.of("go2")
    found = urdf.joint(element) if element.endswith("_joint") else urdf.link(element)
    at = found.find(child)
    if at is None:
        at = SubElement(found, child)
    old = at.get(attribute, "")
    at.set(attribute, new(old) if callable(new) else new)
    assert at.get(attribute) != old
    return str(urdf)


def shifted(by: float) -> Callable[[str], str]:
    """Function that adds `by` to the first number of a text."""
    return lambda old: " ".join([repr(float(old.split()[0]) + by), *old.split()[1:]])


def negative(old: str) -> str:
    """The number with opposite sign."""
    return repr(-float(old))


#: The edit, and the name and quantity that must be reported.
FILE_MUTANTS = {
    "a slightly wrong iyy": (("FL_thigh", "inertial/inertia", "iyy", shifted(1e-8)), "FL_thigh", "inertia"),
    "the sign of a product of inertia": (("FL_thigh", "inertial/inertia", "ixz", negative), "FL_thigh", "inertia"),
    "a wrong mass of the base": (("base", "inertial/mass", "value", shifted(1e-6)), "base", "mass"),
    "a wrong center of mass": (("RR_thigh", "inertial/origin", "xyz", shifted(1e-7)), "RR_thigh", "center of mass"),
    "an axis of the other sign": (("FL_calf_joint", "axis", "xyz", "0 -1 0"), "FL_calf", "axis"),
    "an axis that is tilted a little": (("FL_hip_joint", "axis", "xyz", "1 1e-7 0"), "FL_hip", "axis"),
    "a joint moved": (("RL_thigh_joint", "origin", "xyz", shifted(1e-7)), "RL_thigh", "placement"),
    "a joint turned": (("RL_thigh_joint", "origin", "rpy", shifted(1e-7)), "RL_thigh", "placement"),
    "a lower limit": (("RR_hip_joint", "limit", "lower", shifted(1e-7)), "RR_hip_joint", "lower limit"),
    "damping": (("RR_hip_joint", "dynamics", "damping", "0.1"), "RR_hip_joint", "damping"),
    "friction": (("RR_hip_joint", "dynamics", "friction", "0.1"), "RR_hip_joint", "friction"),
    "a sliding joint": (("RR_hip_joint", ".", "type", "prismatic"), "RR_hip_joint", "type"),
    "a fixed joint": (("RR_hip_joint", ".", "type", "fixed"), "RR_hip_joint", "joint"),
    "a renamed joint": (("RR_hip_joint", ".", "name", "RR_hip"), "RR_hip_joint", "joint"),
    "a calf on the wrong thigh": (("FL_calf_joint", "parent", "link", "FR_thigh"), "FL_calf", "parent"),
}


@pytest.mark.parametrize("mutant", FILE_MUTANTS)
def test_edited_file_is_detected_and_its_link_or_joint_named(mutant: str) -> None:
    change, name, quantity = FILE_MUTANTS[mutant]
    agreement = check(go2(), edited(*change), samples=1, n_derivative_samples=0)
    assert not agreement.passed
    assert (name, quantity) in {(d.name, d.quantity) for d in agreement.deviations}
    assert name in str(agreement)
    # One place was edited: only elements that depend on it are reported.
    assert len({d.name for d in agreement.deviations}) <= 6


# -- changes of the model and of the algorithms ----------------------------------------------------------------------
def change_gravity(model: pin.Model) -> None:
    model.gravity.linear = np.array([0.0, 0.0, -9.80665])


def change_armature(model: pin.Model) -> None:
    model.armature[9] += 1e-3


@pytest.mark.parametrize(
    ("change", "name", "quantity"),
    [(change_gravity, "world", "gravity"), (change_armature, "FR_hip_joint", "armature")],
)
def test_modified_model_is_detected_and_named(change: Callable[[pin.Model], None], name: str, quantity: str) -> None:
    model = go2().model.copy()
    change(model)
    agreement = check(dataclasses.replace(go2(), model=model), text(), samples=1, n_derivative_samples=0)
    assert (name, quantity) in {(d.name, d.quantity) for d in agreement.deviations}
    assert agreement.failed_algorithms  # the algorithms differ, too


METHODS = (
    *("rnea", "crba", "aba", "nle", "gravity", "coriolis", "mass_inverse", "joint_friction", "regressor"),
    *("parameters", "center_of_mass", "com_jacobian", "centroidal_momentum", "frame_jacobian", "frame_velocity"),
    "frame_drift",
)


@pytest.mark.parametrize("method", METHODS)
def test_relative_error_of_1e_8_in_any_algorithm_is_detected(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = getattr(Dynamics, method)
    monkeypatch.setattr(Dynamics, method, lambda *args, **options: (1.0 + 1e-8) * true(*args, **options))
    robot = qd.load("small_quadruped", damping=0.1, friction=0.1)
    agreement = check(robot, find_entry("small_quadruped").path, samples=1, n_derivative_samples=0)
    assert method in agreement.failed_algorithms


@pytest.mark.parametrize("method", ["rnea_derivatives", "aba_derivatives"])
def test_relative_error_of_1e_8_in_a_derivative_is_detected(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = getattr(Dynamics, method)

    def wrong(*args):  # type: ignore[no-untyped-def]
        first, second, third = true(*args)
        return first, second * (1.0 + 1e-8), third

    monkeypatch.setattr(Dynamics, method, wrong)
    assert check(go2(), text(), samples=1).failed_algorithms == (method,)


@pytest.mark.parametrize("quantity", ["M", "h", "gravity", "com", "com_velocity", "com_jacobian", "com_drift"])
def test_relative_error_of_1e_8_in_a_state_is_detected(quantity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = getattr(qd.State, quantity).fget
    monkeypatch.setattr(qd.State, quantity, property(lambda self: true(self) * (1.0 + 1e-8)))
    assert check(go2(), text(), samples=1, n_derivative_samples=0).failed_algorithms == ("update (State)",)


def test_nan_result_counts_as_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dynamics, "gravity", lambda self, q: np.full(self.robot.nv, np.nan))
    agreement = check(go2(), text(), samples=1, n_derivative_samples=0)
    assert agreement.failed_algorithms == ("gravity",)
    assert agreement.to_json()["algorithms"]["gravity"]["error"] is None  # type: ignore[index]


# -- the third opinion ------------------------------------------------------------------------------------------------
def test_mujoco_mass_matrix_agrees_and_a_modified_inertia_disagrees() -> None:
    rng = np.random.default_rng(0)
    oracle, wrong = (
        Reference(text(), root="free"),
        Reference(edited("FL_thigh", "inertial/inertia", "ixx", "0.01"), root="free"),
    )
    right = compare_with_mujoco(oracle, text(), rng, 1e-9)
    assert right.verdict == "agrees"
    assert right.error is not None
    assert right.error < 1e-12
    other = compare_with_mujoco(wrong, text(), rng, 1e-9)
    assert other.verdict == "disagrees"
    assert not cross_check(go2(), samples=1, reference=wrong, source=text(), n_derivative_samples=0).passed


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        (tree(("planar", "revolute")), "not compared: no joint, or one that MuJoCo does not have"),
        (find_entry("bolt").path, "not compared: MuJoCo drops the inertia of 'FL_FOOT', a link without mass"),
        (find_entry("hyq").path, "refused: "),
        (tree(("revolute", "continuous", "prismatic")), "agrees"),
    ],
)
def test_mujoco_comparison_reports_its_verdict(source: object, verdict: str) -> None:
    said = compare_with_mujoco(Reference(source), source, np.random.default_rng(0), 1e-9).verdict  # type: ignore[arg-type]
    assert said.startswith(verdict)
    assert verdict != "refused: " or "inertia" in said  # MuJoCo words the rest of the sentence, which may change


def test_without_mujoco_no_third_opinion_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    said = compare_with_mujoco(Reference(text()), text(), np.random.default_rng(0), 1e-9)
    assert said.verdict == "not compared: MuJoCo is not installed"
    assert check(go2(), text(), samples=1, n_derivative_samples=0).third_opinion.verdict == "not compared"


# -- the report -------------------------------------------------------------------------------------------------------
def test_worst_sample_reproduces_its_error() -> None:
    agreement = check(go2(), text(), n_derivative_samples=0)
    worst = agreement.worst_sample
    sample = Sample(worst.q, worst.v, worst.a, worst.tau, worst.fext)
    errors = compare(Dynamics(go2()), read_reference(go2(), text()), sample, derivatives=False)
    assert errors[worst.algorithm] == agreement.errors[worst.algorithm]
    assert agreement.ratios[worst.algorithm] == worst.ratio == max(agreement.ratios.values())


def test_samples_depend_only_on_the_seed() -> None:
    first, again, other = (check(go2(), text(), samples=1, seed=s, n_derivative_samples=0) for s in (1, 1, 2))
    assert first.errors == again.errors
    assert (first.worst_sample.q == again.worst_sample.q).all()
    assert (first.worst_sample.q != other.worst_sample.q).any()


def test_report_is_printed_as_table_and_json() -> None:
    agreement = check(go2(), text(), samples=1, mujoco=True)
    table = str(agreement)
    assert all(name in table for name in agreement.errors)
    assert table.endswith("\nagrees")
    data = json.loads(json.dumps(agreement.to_json(), allow_nan=False))
    assert data["passed"] is True
    assert data["MuJoCo"]["verdict"] == "agrees"
    assert set(data["algorithms"]) == set(agreement.errors)
    failed = check(go2(), edited("RR_hip_joint", ".", "type", "continuous"))
    assert str(failed).endswith("\nDOES NOT AGREE")
    data = json.loads(json.dumps(failed.to_json(), allow_nan=False))
    assert (data["passed"], data["deviations"][0]["name"]) == (False, "RR_hip_joint")


def test_progress_is_reported_and_invalid_options_are_rejected() -> None:
    shares: list[float] = []
    check(go2(), text(), samples=4, n_derivative_samples=0, progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    raises(qd.ArgumentError, "samples", check, go2(), text(), samples=0)
    raises(qd.ModelError, "not readable XML", check, go2(), "<robot")


def test_compiled_kernels_are_compared_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUADDYN_CACHE", str(tmp_path))
    robot = qd.load("two_link_leg")
    names = {"rnea (compiled)", "crba (compiled)", "aba (compiled)"}
    assert not names & set(cross_check(robot, samples=1, mujoco=False).errors)
    agreement = cross_check(robot, samples=4, mujoco=False, kernels=True)
    assert agreement.passed and names < set(agreement.errors)
    other = qd.load("two_link_leg", armature=0.5)
    monkeypatch.setattr("quaddyn.verification.check.compile", lambda _, what: qd.compile(other, what))
    wrong = cross_check(robot, samples=2, mujoco=False, kernels=True)
    assert not wrong.passed and all(wrong.errors[name] > 1e-3 for name in names)
