"""Pitfalls of Pinocchio's API: arguments that it accepts silently or crashes with raise errors that name them.

`test_importer_pitfalls` tests those of its importer.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from test_importer_pitfalls import URDF, edited

import quaddyn as qd


@pytest.fixture
def dyn(go2: qd.Robot) -> qd.Dynamics:
    return qd.Dynamics(go2)


# -- the API: arguments -----------------------------------------------------------------------------------------
def state(robot: qd.Robot, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    q = pin.integrate(robot.model, robot.q_home, 0.3 * rng.standard_normal(robot.nv))
    return q, rng.standard_normal(robot.nv), rng.standard_normal(robot.nv)


CALLS = {"rnea": 3, "aba": 3, "crba": 1, "nle": 2, "gravity": 1, "coriolis": 2, "mass_inverse": 1, "update": 2}


def test_results_of_a_robot_with_one_joint_have_the_usual_dimensions() -> None:
    """Pinocchio's bindings convert a matrix of one column to a vector."""
    robot = qd.load(URDF, root="fixed")
    dyn = qd.Dynamics(robot)
    one = np.array([0.5])
    for call in ("rnea", "aba", "gravity", "nle"):
        assert getattr(dyn, call)(*[one] * CALLS[call]).shape == (1,), call
    for call in ("crba", "coriolis", "mass_inverse"):
        assert getattr(dyn, call)(*[one] * CALLS[call]).shape == (1, 1), call
    for reference in ("local_world_aligned", "local", "world"):
        assert dyn.frame_jacobian(one, "toe", reference=reference).shape == (6, 1), reference
        assert dyn.update(one, one).jacobian("toe", reference=reference).shape == (6, 1), reference
    assert dyn.com_jacobian(one).shape == dyn.update(one, one).com_jacobian.shape == (3, 1)
    assert dyn.update(one, one).M.shape == (1, 1)


# -- the API: names ---------------------------------------------------------------------------------------------


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


def test_every_frame_is_available_in_a_new_workspace(dyn: qd.Dynamics) -> None:
    """Pinocchio aborts when its Data is older than the model's last frame."""
    q, _, _ = state(dyn.robot)
    for name in dyn.robot.frame_names:
        jacobian = dyn.frame_jacobian(q, name)
        assert jacobian.shape == (6, 18) and np.isfinite(jacobian).all() and jacobian.any()


# -- the API: memory --------------------------------------------------------------------------------------------
def test_vectors_of_the_robot_are_copies_of_the_model(go2: qd.Robot) -> None:
    robot = copy.deepcopy(go2)
    robot.model.lowerPositionLimit[:] = 7.0
    robot.model.effortLimit[:] = 7.0
    assert np.array_equal(robot.lower, go2.lower) and np.array_equal(robot.effort_limits, go2.effort_limits)


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
