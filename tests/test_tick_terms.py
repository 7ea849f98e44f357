"""The terms of a control tick equal Pinocchio's, follow the layout, and are computed in one validated call."""

from __future__ import annotations

import ctypes
import itertools
import math
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from random_trees import random_robot, random_states
from reference_models import EVERYTHING
from slow_parameters import others_slow

import quaddyn as qd
from quaddyn.kernels import TickTerms, tick_terms, tick_terms_c

ROBOTS: dict[str, Callable[[], qd.Robot]] = {
    "go2": lambda: qd.load("go2", armature=0.02),
    "go2 planar": lambda: qd.load("go2", root="planar", armature=0.01),
    "solo12": lambda: qd.load("solo12"),
    "solo12 fixed": lambda: qd.load("solo12", root="fixed"),  # four joints on the world
    "anymal_c": lambda: qd.load("anymal_c"),
    "hyq": lambda: qd.load("hyq"),
    "b1_z1": lambda: qd.load("b1_z1"),
    "z1": lambda: qd.load("z1"),
    "continuous": lambda: qd.load("double_pendulum_continuous"),
    "every joint": lambda: qd.load(EVERYTHING, root="fixed", armature=0.03),
    "every joint, free": lambda: qd.load(EVERYTHING, root="free"),
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUADDYN_CACHE", str(tmp_path_factory.mktemp("terms")))
        yield


def some_frames(robot: qd.Robot) -> tuple[str, ...]:
    """Feet, base, and the outermost link and joint."""
    return tuple(dict.fromkeys((*robot.feet, robot.bodies[0].name, robot.bodies[-1].name, robot.frame_names[-1])))


def reference(terms: TickTerms, dyn: qd.Dynamics, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """Every block, computed by Pinocchio."""
    robot, state = terms.robot, dyn.update(q, v)
    data = robot.model.createData()
    pin.computeCentroidalMapTimeVariation(robot.model, data, q, v)
    out = {name: getattr(state, name) for name in ("M", "h", "com", "com_velocity", "com_jacobian", "com_drift")}
    out["momentum"] = state.centroidal_momentum
    out["momentum_matrix"] = data.Ag.reshape(6, -1)
    out["momentum_drift"] = data.dAg.reshape(6, -1) @ v
    for frame, at in terms.layout.frames.items():
        placed, J = state.placement(frame), state.jacobian(frame)
        assert not np.delete(J, at.chain, axis=1).any()
        out[f"{frame}.rotation"], out[f"{frame}.origin"] = placed.rotation, placed.translation
        out[f"{frame}.velocity"], out[f"{frame}.drift"] = state.velocity(frame), state.drift(frame)
        out[f"{frame}.jacobian"] = J[:, at.chain]
    return {name: np.array(x) for name, x in out.items()}


def assert_equal_to_pinocchio(robot: qd.Robot, frames: tuple[str, ...], seed: int, n: int = 4) -> None:
    """To 1e-12 of the largest entry of each kind of block, over all frames; blocks close to zero to 1e-14."""
    terms, dyn = TickTerms(robot, frames, momentum=True), qd.Dynamics(robot)
    q, v, _ = random_states(robot, np.random.default_rng(seed), n)
    for k in range(n):
        out = np.full(terms.size, np.nan)
        assert terms(q[k], v[k], out) is out
        got, wanted = terms.layout.views(out), reference(terms, dyn, q[k], v[k])
        scale: dict[str, float] = {}
        for name in got:
            kind = name.rsplit(".", 1)[-1]
            scale[kind] = max(scale.get(kind, 1e-2), np.abs(wanted[name]).max(initial=0.0))
        for name, x in got.items():
            error = np.abs(x - wanted[name]).max(initial=0.0)
            assert error <= 1e-12 * scale[name.rsplit(".", 1)[-1]], (name, error)


# -- values ------------------------------------------------------------------------------------------------------
#: Legs on roots of each kind, joints of every kind.
QUICK = {"go2", "go2 planar", "solo12 fixed", "continuous", "every joint", "every joint, free"}


@pytest.mark.parametrize("name", others_slow(ROBOTS, QUICK))
def test_every_term_equals_pinocchio(name: str) -> None:
    robot = ROBOTS[name]()
    assert_equal_to_pinocchio(robot, some_frames(robot), seed=1)


@pytest.mark.parametrize("seed", others_slow(range(6), range(3)))
def test_every_term_equals_pinocchio_on_random_trees(seed: int) -> None:
    robot = random_robot(seed, 8)
    assert_equal_to_pinocchio(robot, some_frames(robot), seed)


def test_momentum_is_accurate_far_from_the_world_origin() -> None:
    robot = qd.load("go2")
    terms, dyn = TickTerms(robot, (), momentum=True), qd.Dynamics(robot)
    (q,), (v,), _ = random_states(robot, np.random.default_rng(0), 1)
    near = terms.layout.views(terms(q, v, np.empty(terms.size)))
    q[:3] += 1e6
    far = terms.layout.views(terms(q, v, np.empty(terms.size)))
    for name in ("M", "h", "com_velocity", "momentum", "momentum_matrix", "momentum_drift"):
        assert np.array_equal(near[name], far[name])
    assert np.allclose(far["com"], dyn.update(q, v).com, rtol=1e-15)


def test_inertia_is_exactly_symmetric_and_drift_at_rest_exactly_zero() -> None:
    robot = qd.load("b1_z1", armature=0.1)
    terms = TickTerms(robot, some_frames(robot), momentum=True)
    q, _, _ = random_states(robot, np.random.default_rng(2), 1)
    views = terms.layout.views(terms(q[0], np.zeros(robot.nv), np.full(terms.size, np.nan)))
    assert np.array_equal(views["M"], views["M"].T)
    moving = [name for name in views if name.endswith(("velocity", "drift")) or name == "momentum"]
    assert len(moving) == 3 + 2 * len(terms.frames)
    assert not any(views[name].any() for name in moving)


# -- layout ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "go2 planar", "solo12 fixed", "every joint, free"])
@pytest.mark.parametrize("momentum", [False, True])
def test_blocks_follow_each_other_in_the_order_of_the_layout(name: str, momentum: bool) -> None:
    robot = ROBOTS[name]()
    frames = some_frames(robot)
    layout = TickTerms(robot, frames, momentum).layout
    whole = ["M", "h", "com", "com_velocity"]
    whole += [] if robot.root == "free" else ["com_jacobian", "com_drift"]
    whole += ["momentum", "momentum_matrix", "momentum_drift"] if momentum else []
    parts = ("rotation", "origin", "velocity", "drift", "jacobian")
    blocks = list(layout.blocks())
    assert [b[0] for b in blocks] == whole + [f"{f}.{part}" for f in frames for part in parts]
    ends = itertools.accumulate((math.prod(shape) for _, _, shape in blocks), initial=0)
    assert [*(start for _, start, _ in blocks), layout.size] == list(ends)
    assert (layout.com_jacobian is None) == (robot.root == "free") and (layout.momentum is not None) == momentum


@pytest.mark.parametrize("name", others_slow(ROBOTS, QUICK))
def test_chain_of_a_frame_lists_the_velocities_of_its_supporting_joints(name: str) -> None:
    robot = ROBOTS[name]()
    model, layout = robot.model, tick_terms._validated_layout(robot, robot.frame_names, False)
    for frame, at in layout.frames.items():
        joint = model.frames[robot.frame_id(frame)].parentJoint
        wanted = sorted(model.idx_vs[j] + k for j in model.supports[joint] for k in range(model.nvs[j]))
        assert list(at.chain) == wanted


def test_a_frame_that_does_not_move_has_an_empty_chain() -> None:
    robot = qd.load("z1")
    terms = TickTerms(robot, (robot.bodies[0].name,))
    at = terms.layout.frames[robot.bodies[0].name]
    out = terms(np.full(robot.nq, 0.3), np.ones(robot.nv), np.full(terms.size, np.nan))
    assert at.chain == () and at.jacobian == terms.size
    assert np.array_equal(out[at.rotation : at.origin], np.eye(3).ravel())
    assert not out[at.origin :].any()


# -- cost --------------------------------------------------------------------------------------------------------
def test_operation_count_of_the_terms_of_four_feet_is_within_bound() -> None:
    """Reference counts: change them only deliberately."""
    robot = qd.load("go2")
    operations = TickTerms(robot, (*robot.feet, "base")).operations
    assert operations.mul <= 1742 and operations.add <= 1410 and operations.div == 0, operations


def test_frames_of_one_body_share_operations_and_the_base_adds_few() -> None:
    robot = qd.load("go2")

    def cost(*frames: str) -> int:
        return TickTerms(robot, frames).operations.instructions

    assert cost("FL", "FL_foot") == cost("FL")  # the same point of the same body
    assert cost("FL", "base") - cost("FL") <= 20
    assert cost("FL", "FL_calf") - cost("FL") < 0.7 * (cost("FL") - cost())


# -- calls -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def go2(cache: Any) -> tuple[TickTerms, np.ndarray, np.ndarray, np.ndarray]:
    robot = qd.load("go2")
    terms = TickTerms(robot, robot.feet)
    q, v, _ = random_states(robot, np.random.default_rng(0), 1)
    return terms, q[0], v[0], terms(q[0], v[0], np.empty(terms.size))


def test_wrong_arguments_are_errors_that_name_them(go2: Any) -> None:
    terms, q, v, out = go2
    frozen = out.copy()
    frozen.flags.writeable = False
    wrong: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (qd.ArgumentError, r"q: expected shape \(19,\)", (v, v, out)),
        (qd.ArgumentError, r"v: expected shape \(18,\)", (q, q, out)),
        (qd.ArgumentError, r"out: expected shape \(660,\)", (q, v, out[1:])),
        (
            qd.ArgumentError,
            r"q: expected shape \(19,\)",
            (np.tile(q, (2, 1)), np.tile(v, (2, 1)), np.tile(out, (2, 1))),
        ),
        (qd.ArgumentError, "out: the array is read-only", (q, v, frozen)),
        (qd.ArgumentTypeError, "q: expected a numpy array", (q.tolist(), v, out)),
        (qd.ArgumentTypeError, "v: expected a numpy array", (q, v.astype(int), out)),
        (
            qd.ArgumentTypeError,
            "out: expected a numpy array of float64, got an array of float32",
            (q, v, out.astype("f4")),
        ),
        (qd.ArgumentTypeError, "out: expected a numpy array of float64, got NoneType", (q, v, None)),
        (TypeError, "out", (q, v)),
        (TypeError, "positional", (q, v, out, out)),
    ]
    for error, words, arguments in wrong:
        for call in (terms, terms.compute):
            raises(error, words, call, *arguments)


def test_invalid_states_raise_errors_that_name_the_entry(go2: Any) -> None:
    terms, q, v, out = go2
    wrong = [
        ("q", 4, np.nan, r"q\[4\]"),
        ("q", 3, 3.0, "quaternion"),
        ("q", 9, 1e12, "angle"),
        ("q", 0, np.inf, r"q\[0\]"),
    ]
    wrong += [("v", 17, np.nan, r"v\[17\] = nan"), ("v", 2, -np.inf, r"v\[2\] = -inf")]
    for name, index, value, words in wrong:
        given = {"q": q.copy(), "v": v.copy()}
        given[name][index] = value
        raises(qd.ArgumentError, words, terms, given["q"], given["v"], out.copy())


def test_strided_and_overlapping_arrays_are_accepted(go2: Any) -> None:
    terms, q, v, out = go2
    spread, wide = np.zeros(38), np.zeros(2 * terms.size)
    spread[::2] = q
    assert terms(spread[::2], v, wide[::2]) is not None
    assert np.array_equal(wide[::2], out)
    shared = np.zeros(terms.size)
    shared[5:24] = q
    assert np.array_equal(terms(shared[5:24], v, shared), out)  # q overlaps the output
    assert np.array_equal(terms.compute(q=q, v=v, out=shared), out)


def test_compiled_code_can_be_called_by_its_address(go2: Any) -> None:
    terms, q, v, out = go2
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(terms.address)
    got = np.zeros(terms.size)
    assert function(q.ctypes.data, v.ctypes.data, got.ctypes.data) == 0
    assert np.array_equal(got, out)
    assert function((2.0 * q).ctypes.data, v.ctypes.data, got.ctypes.data) == 1


def test_unpickled_terms_are_loaded_from_the_cache(go2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    terms, q, v, out = go2

    def refuse(*_: object) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(tick_terms, "_trace_terms", refuse)
    again = pickle.loads(pickle.dumps(terms))
    assert np.array_equal(again(q, v, np.empty(again.size)), out)
    assert again.operations == terms.operations and again.layout.frames == terms.layout.frames
    for other in ((terms.frames[:3], False), (terms.frames[::-1], False), (terms.frames, True)):
        raises(AssertionError, "traced again", TickTerms, terms.robot, *other)


def test_invalid_frames_are_rejected() -> None:
    robot = qd.load("go2")
    raises(qd.UnknownNameError, "tail", TickTerms, robot, ("tail",))
    raises(qd.ArgumentError, "'FL' is named twice", TickTerms, robot, ("FL", "FR", "FL"))
    raises(qd.ArgumentTypeError, "frames", TickTerms, robot, "FL")
    raises(qd.ArgumentTypeError, "momentum", TickTerms, robot, ("FL",), 1)
    raises(qd.ArgumentTypeError, "robot", TickTerms, "go2", ("FL",))


# -- C -----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("name", others_slow(["go2", "every joint"], ["every joint"]))
def test_c_source_compiles_without_a_warning_and_computes_the_same(name: str, tmp_path: Path) -> None:
    robot = ROBOTS[name]()
    frames = some_frames(robot)
    c, terms = tick_terms_c(robot, frames, momentum=True), TickTerms(robot, frames, momentum=True)
    (tmp_path / "terms.c").write_text(c.source, encoding="utf-8")
    flags = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-ffp-contract=off", "-shared", "-fPIC")
    library = tmp_path / "terms.so"
    subprocess.run(["cc", *flags, str(tmp_path / "terms.c"), "-o", str(library), "-lm"], check=True, timeout=120)
    function = getattr(ctypes.CDLL(str(library)), c.name)
    q, v, _ = random_states(robot, np.random.default_rng(4), 3)
    for k in range(3):
        got, wanted = np.full(terms.size, np.nan), terms(q[k], v[k], np.empty(terms.size))
        function(*(ctypes.c_void_p(x.ctypes.data) for x in (q[k].copy(), v[k].copy(), got)))
        for block, x in terms.layout.views(got).items():
            y = terms.layout.views(wanted)[block]
            assert np.abs(x - y).max(initial=0.0) <= 1e-12 * max(np.abs(y).max(initial=0.0), 1.0), block
