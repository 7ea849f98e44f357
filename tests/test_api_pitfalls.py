"""Pitfalls of Pinocchio's API: arguments that it accepts silently or crashes with raise errors that name them.

`test_importer_pitfalls` tests those of its importer.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from test_importer_pitfalls import URDF, edited

import quaddyn as qd


@pytest.fixture(scope="module")
def go2() -> qd.Robot:
    return qd.load("go2")


@pytest.fixture
def dyn(go2: qd.Robot) -> qd.Dynamics:
    return qd.Dynamics(go2)


# -- the API: arguments -----------------------------------------------------------------------------------------
def state(robot: qd.Robot, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
    return q, rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)


CALLS = {
    "rnea": ("q", "v", "a"),
    "aba": ("q", "v", "tau"),
    "crba": ("q",),
    "nle": ("q", "v"),
    "gravity": ("q",),
    "coriolis": ("q", "v"),
    "mass_inverse": ("q",),
    "center_of_mass": ("q",),
    "com_jacobian": ("q",),
    "centroidal_momentum": ("q", "v"),
    "energy": ("q", "v"),
    "rnea_derivatives": ("q", "v", "a"),
    "aba_derivatives": ("q", "v", "tau"),
    "regressor": ("q", "v", "a"),
    "update": ("q", "v"),
}
SLOTS = [(call, i, name) for call, names in CALLS.items() for i, name in enumerate(names)]


@pytest.mark.parametrize(("call", "index", "name"), SLOTS)
def test_argument_that_is_not_a_finite_vector_of_the_right_size_is_refused_by_name(
    dyn: qd.Dynamics, call: str, index: int, name: str
) -> None:
    arguments = list(state(dyn.robot)[: len(CALLS[call])])
    good = arguments[index]
    wrong = {
        "short": good[:-1],
        "long": np.append(good, 0.0),
        "empty": good[:0],
        "column": good[:, None],
        "row": good[None],
        "scalar": np.float64(1.0),
        "complex": good.astype(complex),
        "object": good.astype(object),
        "text": good.astype(str),
        "None": None,
        "nan": np.where(np.arange(good.size) == good.size - 1, np.nan, good),
        "inf": np.where(np.arange(good.size) == good.size - 1, np.inf, good),
    }
    for label, value in wrong.items():
        arguments[index] = value
        with pytest.raises(qd.ArgumentError) as caught:
            getattr(dyn, call)(*arguments)
        assert isinstance(caught.value, ValueError), label
        assert re.search(rf"\b{name}\b", str(caught.value)), (label, str(caught.value))


def test_results_of_a_robot_with_one_joint_have_the_usual_dimensions() -> None:
    """Pinocchio's bindings convert a matrix of one column to a vector."""
    robot = qd.load(URDF, root="fixed")
    dyn = qd.Dynamics(robot)
    one = np.array([0.5])
    for call in ("rnea", "aba", "gravity", "nle"):
        assert getattr(dyn, call)(*[one] * len(CALLS[call])).shape == (1,), call
    for call in ("crba", "coriolis", "mass_inverse"):
        assert getattr(dyn, call)(*[one] * len(CALLS[call])).shape == (1, 1), call
    for reference in ("local_world_aligned", "local", "world"):
        assert dyn.frame_jacobian(one, "toe", reference=reference).shape == (6, 1), reference
        assert dyn.update(one, one).jacobian("toe", reference=reference).shape == (6, 1), reference
    assert dyn.com_jacobian(one).shape == dyn.update(one, one).com_jacobian.shape == (3, 1)
    assert dyn.update(one, one).M.shape == (1, 1)


@pytest.mark.parametrize("call", ["rnea", "aba", "crba", "update"])
def test_lists_other_floats_and_strided_arrays_are_accepted_or_refused_by_name(dyn: qd.Dynamics, call: str) -> None:
    q, v, a = state(dyn.robot)
    arguments = [q, v, a][: len(CALLS[call])]
    kinds: dict[str, Callable[[Any], Any]] = {
        "list": lambda x: x.tolist(),
        "float16": lambda x: x.astype(np.float16),
        "float32": lambda x: x.astype(np.float32),
        "int": lambda x: np.zeros(x.size, dtype=np.int64),
        "strided": lambda x: np.repeat(x, 2)[::2],
        "reversed": lambda x: x[::-1].copy()[::-1],
        "big endian": lambda x: x.astype(">f8"),
        "read-only": lambda x: np.frombuffer(x.tobytes()),
    }
    exact = {"list", "strided", "reversed", "big endian", "read-only"}
    truth = getattr(dyn, call)(*arguments)
    truth = np.array(truth.M if call == "update" else truth)
    for label, kind in kinds.items():
        for i in range(1 if len(arguments) == 1 else 2):
            changed = list(arguments)
            changed[-1 - i if len(arguments) > 1 else 0] = kind(changed[-1 - i if len(arguments) > 1 else 0])
            try:
                value = getattr(dyn, call)(*changed)
            except qd.ArgumentError as error:
                assert re.match(r"(q|v|a|tau)\b", str(error)), (label, str(error))
                continue
            value = np.array(value.M if call == "update" else value)
            assert np.isfinite(value).all()
            if label in exact:
                assert np.array_equal(value, truth), label
    wide = getattr(dyn, call)(*(x.astype(np.longdouble) for x in arguments))
    assert np.array_equal(wide.M if call == "update" else wide, truth)


def test_quaternion_that_is_not_of_unit_length_is_refused(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    for factor in (1.01, 0.99, 1 + 1e-4, 0.0, -0.5, 1e200):
        bad = q.copy()
        bad[3:7] *= factor
        for call in ("rnea", "crba", "gravity", "update"):
            with pytest.raises(qd.ArgumentError, match=r"\bq\b"):
                getattr(dyn, call)(bad, *(v, a)[: len(CALLS[call]) - 1])
    flipped = q.copy()
    flipped[3:7] *= -1  # the same rotation
    assert np.allclose(dyn.crba(flipped), dyn.crba(q), rtol=1e-12, atol=1e-12)


def test_continuous_joint_off_the_unit_circle_is_refused() -> None:
    robot = qd.load(edited('"revolute"', '"continuous"'), root="fixed")
    dyn = qd.Dynamics(robot)
    assert robot.nq == 2
    assert np.isfinite(dyn.crba(np.array([0.6, 0.8]))).all()
    with pytest.raises(qd.ArgumentError, match=r"\bq\b"):
        dyn.crba(np.array([0.6, 0.7]))


def test_finite_arguments_never_give_nan(dyn: qd.Dynamics) -> None:
    """An internal overflow raises an error that names the argument instead of returning NaN."""
    q, v, a = state(dyn.robot)
    for call, arguments in (("rnea", (q, v * 1e200, a)), ("nle", (q, v * 1e200)), ("aba", (q, v * 1e200, a))):
        try:
            value = getattr(dyn, call)(*arguments)
        except qd.QuaddynError as error:
            assert str(error)
        else:
            assert np.isfinite(value).all()


# -- the API: names ---------------------------------------------------------------------------------------------
FRAME_CALLS = ["frame_placement", "frame_jacobian", "frame_velocity", "frame_drift"]


@pytest.mark.parametrize("call", FRAME_CALLS)
def test_unknown_frame_name_raises_and_lists_near_matches(dyn: qd.Dynamics, call: str) -> None:
    q, v, _ = state(dyn.robot)
    arguments = (q,) if call in ("frame_placement", "frame_jacobian") else (q, v)
    with pytest.raises(qd.UnknownNameError, match="FL_calf"):
        getattr(dyn, call)(*arguments, "FL_clf")
    for name in ("typo", "", "universe", 0, 5, -1, 10**9, 2**63, np.int64(3), None, 1.5, b"FL", ("FL",), ["FL"]):
        with pytest.raises(qd.QuaddynError):
            getattr(dyn, call)(*arguments, name)


def test_error_for_a_pinocchio_frame_id_contains_the_frame_name(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    i = dyn.robot.model.getFrameId("FL_calf")
    for name in (i, np.int64(i)):
        for call in (
            lambda n: dyn.frame_placement(q, n),
            lambda n: dyn.rnea(q, v, a, fext={n: np.zeros(3)}),
            lambda n: dyn.update(q, v).jacobian(n),
            lambda n: qd.Simulation(dyn.robot).push(n, [1.0, 0.0, 0.0], duration=0.1),
        ):
            with pytest.raises(qd.UnknownNameError, match=rf"^frame: expected a name.* {i}; did you mean 'FL_calf'"):
                call(name)
    with pytest.raises(qd.UnknownNameError, match=r"^frame: expected a name, got the int -1; known: "):
        dyn.frame_placement(q, -1)  # type: ignore[arg-type]


def test_pinocchio_force_is_accepted_as_an_external_force(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    wrench = np.array([3.0, -2.0, 40.0, 0.5, 0.1, -0.2])
    force = pin.Force(wrench[:3], wrench[3:])
    for each in (dyn, qd.Dynamics(dyn.robot, validate=False)):
        for call in (each.rnea, each.aba):
            np.testing.assert_array_equal(call(q, v, a, fext={"FL": force}), call(q, v, a, fext={"FL": wrench}))
    plants = qd.Simulation(dyn.robot), qd.Simulation(dyn.robot)
    for plant, given in zip(plants, (force, wrench), strict=True):
        plant.push("base", given, duration=1.0)
        plant.step(np.zeros(dyn.robot.nu), external={"FL": given})
    np.testing.assert_array_equal(plants[0].v, plants[1].v)
    with pytest.raises(qd.ArgumentError, match=r"fext\['FL'\].*finite"):
        dyn.rnea(q, v, a, fext={"FL": pin.Force(wrench * np.nan)})


@pytest.mark.parametrize("call", ["jacobian", "velocity", "drift", "placement"])
def test_unknown_frame_name_raises_on_a_state_too(dyn: qd.Dynamics, call: str) -> None:
    q, v, _ = state(dyn.robot)
    s = dyn.update(q, v)
    for name in ("typo", "universe", 0, -1, 10**9, None, ["FL"]):
        with pytest.raises(qd.QuaddynError):
            getattr(s, call)(name)


def test_unknown_reference_raises(dyn: qd.Dynamics) -> None:
    q, _, _ = state(dyn.robot)
    for reference in ("LOCAL", "", "base", 1, None):
        with pytest.raises(qd.QuaddynError, match="reference"):
            dyn.frame_jacobian(q, "FL", reference=reference)  # type: ignore[arg-type]


def test_every_frame_is_available_in_a_new_workspace(dyn: qd.Dynamics) -> None:
    """Pinocchio aborts when its Data is older than the model's last frame."""
    q, _, _ = state(dyn.robot)
    for name in dyn.robot.frame_names:
        jacobian = dyn.frame_jacobian(q, name)
        assert jacobian.shape == (6, 18) and np.isfinite(jacobian).all() and jacobian.any()


@pytest.mark.parametrize("call", ["rnea", "aba"])
def test_external_force_that_is_malformed_is_refused(dyn: qd.Dynamics, call: str) -> None:
    q, v, a = state(dyn.robot)
    force = np.array([0.0, 0.0, 10.0])
    wrong: list[Any] = [
        {"typo": force},
        {"universe": force},
        {0: force},
        {"FL": force[:2]},
        {"FL": np.append(force, 0.0)},
        {"FL": force[:, None]},
        {"FL": 10.0},
        {"FL": None},
        {"FL": np.array([0, 0, np.nan])},
        {"FL": np.full(6, np.inf)},
        {"FL": force.astype(complex)},
        [force],
        [],
        force,
        np.zeros((14, 6)),
        [pin.Force.Zero()],
        "FL",
    ]
    for fext in wrong:
        with pytest.raises(qd.QuaddynError):
            getattr(dyn, call)(q, v, a, fext=fext)


def test_external_force_at_a_foot_is_its_jacobian_transposed(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    force = np.array([3.0, -5.0, 40.0])
    with_force, without = dyn.rnea(q, v, a, fext={"FL": force}), dyn.rnea(q, v, a)
    assert np.allclose(without - with_force, dyn.frame_jacobian(q, "FL")[:3].T @ force, rtol=0, atol=1e-12)
    assert np.array_equal(dyn.rnea(q, v, a, fext={}), without), "and it is gone in the next call"


# -- the API: memory --------------------------------------------------------------------------------------------
def test_stateless_calls_return_copies(dyn: qd.Dynamics) -> None:
    (q1, v1, a1), (q2, v2, a2) = state(dyn.robot, 1), state(dyn.robot, 2)
    first = {
        c: getattr(dyn, c)(*(q1, v1, a1)[: len(CALLS[c])])
        for c in ("rnea", "aba", "crba", "nle", "gravity", "coriolis")
    }
    first["jacobian"] = dyn.frame_jacobian(q1, "FL")
    first["placement"] = dyn.frame_placement(q1, "FL").translation
    kept = {name: value.copy() for name, value in first.items()}
    for c in ("rnea", "aba", "crba", "nle", "gravity", "coriolis"):
        getattr(dyn, c)(*(q2, v2, a2)[: len(CALLS[c])])
    dyn.frame_jacobian(q2, "FL")
    dyn.frame_placement(q2, "FL")
    dyn.update(q2, v2)
    for name, value in first.items():
        assert np.array_equal(value, kept[name]), name


def test_a_states_arrays_are_read_only_views(dyn: qd.Dynamics) -> None:
    q, v, _ = state(dyn.robot)
    s = dyn.update(q, v)
    for array in (s.M, s.h, s.com, s.jacobian("FL"), s.velocity("FL"), s.drift("FL"), s.placement("FL").translation):
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array[...] = 0.0


def test_a_stale_state_raises_when_read(dyn: qd.Dynamics) -> None:
    q, v, _ = state(dyn.robot)
    old = dyn.update(q, v)
    assert old.M.shape == (18, 18)
    new = dyn.update(q, v)
    for name in ("M", "h", "com"):
        with pytest.raises(qd.StaleStateError):
            getattr(old, name)
    for name in ("jacobian", "velocity", "drift", "placement"):
        with pytest.raises(qd.StaleStateError):
            getattr(old, name)("FL")
    assert new.M.shape == (18, 18)


def test_failed_update_leaves_no_partially_updated_state(dyn: qd.Dynamics) -> None:
    q, v, _ = state(dyn.robot)
    s = dyn.update(q, v)
    kept = s.M.copy()
    with pytest.raises(qd.ArgumentError):
        dyn.update(q * np.nan, v)
    try:
        assert np.array_equal(s.M, kept)
    except qd.StaleStateError:
        assert s.is_stale


def test_stateless_call_does_not_change_a_valid_state(dyn: qd.Dynamics) -> None:
    (q1, v1, _), (q2, v2, a2) = state(dyn.robot, 1), state(dyn.robot, 2)
    s = dyn.update(q1, v1)
    kept = [x.copy() for x in (s.M, s.h, s.com, s.jacobian("FL"), s.placement("RR").translation)]
    dyn.crba(q2), dyn.rnea(q2, v2, a2), dyn.frame_jacobian(q2, "FL"), dyn.center_of_mass(q2)
    try:
        now = [s.M, s.h, s.com, s.jacobian("FL"), s.placement("RR").translation]
    except qd.StaleStateError:
        return
    assert all(np.array_equal(a, b) for a, b in zip(kept, now, strict=True))


def test_vectors_of_the_robot_are_read_only_copies_of_the_model(go2: qd.Robot) -> None:
    robot = copy.deepcopy(go2)
    for name in ("lower", "upper", "velocity_limits", "effort_limits", "damping", "friction", "armature", "q_home"):
        array = getattr(robot, name)
        with pytest.raises(ValueError):
            array[...] = 0.0
    robot.model.lowerPositionLimit[:] = 7.0
    robot.model.effortLimit[:] = 7.0
    assert np.array_equal(robot.lower, go2.lower) and np.array_equal(robot.effort_limits, go2.effort_limits)
    with pytest.raises(AttributeError):
        robot.name = "other"  # type: ignore[misc]


def test_arguments_are_not_modified(dyn: qd.Dynamics) -> None:
    q, v, a = state(dyn.robot)
    kept = q.copy(), v.copy(), a.copy()
    dyn.rnea(q, v, a, fext={"FL": np.ones(3)})
    dyn.aba(q, v, a)
    dyn.update(q, v)
    q_in_state = dyn.update(q, v).q
    q[:3] += 1.0
    assert np.array_equal(q_in_state, kept[0])
    assert np.array_equal(v, kept[1]) and np.array_equal(a, kept[2])


# -- the API: threads and processes -----------------------------------------------------------------------------
def test_threads_with_separate_workspaces_agree_with_one_thread(go2: qd.Robot) -> None:
    states = [state(go2, seed) for seed in range(40)]
    alone = qd.Dynamics(go2)
    truth = [(alone.rnea(q, v, a), alone.frame_placement(q, "RL").translation) for q, v, a in states]
    wrong: list[int] = []

    def work(offset: int) -> None:
        mine = qd.Dynamics(go2)
        for round_ in range(5):
            for i in range(len(states)):
                k = (i + offset + round_) % len(states)
                q, v, a = states[k]
                if not (
                    np.array_equal(mine.rnea(q, v, a), truth[k][0])
                    and np.array_equal(mine.frame_placement(q, "RL").translation, truth[k][1])
                ):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("copied", [lambda r: pickle.loads(pickle.dumps(r)), copy.deepcopy, copy.copy])
def test_copied_robot_equals_the_original(go2: qd.Robot, copied: Any) -> None:
    twin = copied(go2)
    q, v, a = state(go2)
    assert np.array_equal(qd.Dynamics(twin).rnea(q, v, a), qd.Dynamics(go2).rnea(q, v, a))
    assert (twin.feet, twin.actuated, twin.frame_names) == (go2.feet, go2.actuated, go2.frame_names)
    assert not twin.lower.flags.writeable and not twin.tree.joints[0].axis.flags.writeable
    assert str(twin.report) == str(go2.report)


def _torque(robot: qd.Robot) -> Any:
    return qd.Dynamics(robot).rnea(*state(robot))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_robot_works_in_another_process(go2: qd.Robot, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert np.array_equal(pool.apply(_torque, (go2,)), _torque(go2))


def test_pickled_errors_keep_their_message() -> None:
    with pytest.raises(qd.ModelError) as caught:
        qd.load(edited('value="1.5"', 'value="heavy"'))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
