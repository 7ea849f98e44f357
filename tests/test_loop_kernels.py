"""Kernels of robots with planar loops, solved in closed form, equal `Dynamics`, which follows loops from home."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from loop_robots import ankle, knee_leg, planar
from raising import raises
from test_kernels import evaluate
from test_kernels_export import call_c, compile_c
from test_loops import CHAIN, HANGS, four_bar

import quaddyn as qd
from quaddyn.dynamics.state_terms import StateTerms, make_tick_terms
from quaddyn.errors import ArgumentError, ModelError
from quaddyn.kernels import TickTerms
from quaddyn.kernels.operations import KernelOptions, trace_operation
from quaddyn.kernels.tick_terms import _trace_terms, _validated_layout

STEP = 1e-6
WELDED = CHAIN.replace('<parent link="base"/><child link="c_link"/><origin xyz="0.3 0 0"/>', HANGS)
#: By name: a robot's file and the number of its independent joints.
LINKAGES = {
    **{f"four-bar {seed}": (planar(seed), 2) for seed in (0, 1, 2)},
    "four-bar, another input": (planar(4, follow=(1, 2)), 2),
    "four-bar on a pin": (planar(3, closed_by="revolute"), 2),
    "four-bar of a weld": (WELDED, 1),
    "parallelogram": (four_bar(), 1),
    "five-bar": (planar(1, 5, (2, 3)), 3),
    "five-bar, inputs on two sides": (planar(3, 5), 3),
}


def states(robot: qd.Robot, count: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    return q, rng.normal(size=(count, robot.nv)), rng.normal(size=(count, robot.nv))


def close_to(got: np.ndarray, wanted: np.ndarray, what: str) -> None:
    assert np.abs(got - wanted).max(initial=0.0) <= 1e-10 * max(1.0, np.abs(wanted).max(initial=0.0)), what


@pytest.mark.parametrize("name", LINKAGES)
def test_random_linkages_agree_with_dynamics_and_stay_closed(name: str) -> None:
    text, nv = LINKAGES[name]
    robot = qd.load(text, armature=0.01, actuated=["a"] if nv == 1 else None)
    assert robot.nv == nv and robot.coupling.spatial is None
    dyn, (q, v, a) = qd.Dynamics(robot), states(robot)
    tau, M = (
        evaluate(trace_operation(x, robot, KernelOptions()), *of) for x, of in (("rnea", (q, v, a)), ("crba", (q,)))
    )
    frames = (robot.loops[0].link_a, robot.loops[0].link_b)
    layout, slow = _validated_layout(robot, frames, True), StateTerms(robot, frames, True)
    found = evaluate(_trace_terms(robot, layout), q, v)
    for k in range(len(q)):
        close_to(tau[k], dyn.rnea(q[k], v[k], a[k]), "rnea")
        close_to(M[k].reshape(nv, nv), dyn.crba(q[k]), "crba")
        wanted = layout.views(slow.compute(q[k], v[k], np.zeros(slow.size)))
        views = layout.views(found[k])
        for block in wanted:
            close_to(views[block], wanted[block], block)
        ends = [
            views[f"{link}.rotation"] @ placed.translation + views[f"{link}.origin"]
            for link, placed in zip(frames, (robot.loops[0].placement_a, robot.loops[0].placement_b), strict=True)
        ]
        assert np.linalg.norm(ends[0] - ends[1]) <= 1e-12


@pytest.fixture(scope="module")
def leg() -> qd.Robot:
    return qd.load(knee_leg(), armature=0.01)


def test_machine_code_agrees_with_dynamics(leg: qd.Robot) -> None:
    dyn, (q, v, a) = qd.Dynamics(leg), states(leg, 11)
    names = (
        "rnea", "nle", "gravity", "crba", "aba", "regressor", "frame_jacobian", "frame_drift", "rnea_derivatives",
        "aba_derivatives",
    )  # fmt: skip
    fast = qd.compile(leg, names, frames=("rod",))
    for name, given in {"rnea": (q, v, a), "nle": (q, v), "gravity": (q,), "crba": (q,), "aba": (q, v, a)}.items():
        every, one = getattr(fast, name)(*given), getattr(dyn, name)
        for k in range(len(q)):
            close_to(every[k], one(*(x[k] for x in given)), name)
    q0, v0, a0 = q[0], v[0], a[0]
    close_to(fast.regressor(q0, v0, a0), dyn.regressor(q0, v0, a0), "regressor")
    close_to(fast.frame_jacobian(q0, "rod"), dyn.frame_jacobian(q0, "rod"), "frame_jacobian")
    close_to(fast.frame_drift(q0, v0, "rod"), dyn.frame_drift(q0, v0, "rod"), "frame_drift")
    report = qd.cross_check(leg, samples=2, tolerance=1e-10, kernels=True)  # with multipliers on the open tree
    assert report.passed and "crba (compiled)" in report.errors, str(report)
    assert fast.operations["rnea"].sqrt == 1 and "1 sqrt" in str(fast.operations["rnea"])
    # Derivatives, which `Dynamics` does not compute, by central differences.
    by_q, by_v, by_a = fast.rnea_derivatives(q0, v0, a0)
    for k, step in enumerate(STEP * np.eye(leg.nv)):
        near = [fast.rnea(leg.integrate(q0, x), v0, a0) for x in (step, -step)]
        np.testing.assert_allclose((near[0] - near[1]) / (2.0 * STEP), by_q[:, k], atol=1e-6)
        near = [fast.rnea(q0, v0 + x, a0) for x in (step, -step)]
        np.testing.assert_allclose((near[0] - near[1]) / (2.0 * STEP), by_v[:, k], atol=1e-6)
    close_to(by_a, dyn.crba(q0), "dtau_da")
    by_q, by_v, by_tau = fast.aba_derivatives(q0, v0, a0)
    for k, step in enumerate(STEP * np.eye(leg.nv)):
        near = [fast.aba(leg.integrate(q0, x), v0, a0) for x in (step, -step)]
        np.testing.assert_allclose((near[0] - near[1]) / (2.0 * STEP), by_q[:, k], rtol=1e-6, atol=1e-4)
        near = [fast.aba(q0, v0 + x, a0) for x in (step, -step)]
        np.testing.assert_allclose((near[0] - near[1]) / (2.0 * STEP), by_v[:, k], rtol=1e-6, atol=1e-4)
    close_to(by_tau, np.linalg.inv(dyn.crba(q0)), "da_dtau")


def test_runtime_parameters_work_with_loops(leg: qd.Robot) -> None:
    q, v, a = (x[0] for x in states(leg))
    fast = qd.compile(leg, ("rnea",), parameters="runtime")
    close_to(fast.rnea(q, v, a), qd.Dynamics(leg).rnea(q, v, a), "rnea")


def test_kernels_reject_configurations_in_which_no_loop_closes(leg: qd.Robot) -> None:
    fast, terms = qd.compile(leg, ("rnea",)), TickTerms(leg, ("rod",))
    low, high = leg.coupling.planar[0].ends
    knee, rest = leg.configuration_index("knee_motor"), np.zeros(leg.nv)
    assert low < leg.lower[knee] < leg.upper[knee] < high
    q = leg.q_home.copy()
    # Beyond the collinear position, where the loop would close again, and one turn further.
    for angle in (high + 1e-6, 0.5 * (high + low + 2.0 * np.pi), leg.q_home[knee] + 2.0 * np.pi, low - 1e-6):
        q[knee] = angle
        for use in (lambda: fast.rnea(q, rest, rest), lambda: terms(q, rest, np.zeros(terms.size))):
            raises(ArgumentError, "loop 'knee_loop' does not close at q", use)
        with pytest.raises(ArgumentError, match="loop 'knee_loop' does not close at q"):
            fast.rnea(np.stack([leg.q_home] * 9 + [q]), np.zeros((10, leg.nv)), np.zeros((10, leg.nv)))
    q[knee] = high - 1e-6
    assert np.isfinite(fast.rnea(q, rest, rest)).all()


def test_range_of_a_parallelogram_ends_where_its_links_are_collinear() -> None:
    robot = qd.load(four_bar())  # which could rotate fully without rounding
    np.testing.assert_allclose(robot.coupling.planar[0].ends, (-0.5 * np.pi, 0.5 * np.pi), atol=1e-7)
    fast = qd.compile(robot, ("gravity",))
    assert np.isfinite(fast.gravity(np.array([1.56]))).all()
    for angle in (1.6, -1.6, 3.1):
        for use in (fast.gravity, qd.Dynamics(robot).gravity):
            raises(ArgumentError, "loop 'bar' does not close at q", use, np.array([angle]))


def test_spatial_loops_are_rejected_by_kernels() -> None:
    robot = qd.load(ankle())
    assert isinstance(make_tick_terms(robot, ("foot",)), StateTerms)
    raises(ModelError, "loop 'left_ball' of 'ankle' is not planar", qd.compile, robot, ("rnea",))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
def test_c_source_closes_the_loop(leg: qd.Robot, tmp_path: Path) -> None:
    q, v, a = (x[0] for x in states(leg))
    source = qd.generate_c(leg, "rnea")
    assert "sqrt(" in source and "knee_motor" in source and "rod_pin" not in source
    close_to(call_c(compile_c(tmp_path, source), (leg.nv,), q, v, a), qd.Dynamics(leg).rnea(q, v, a), "rnea")
