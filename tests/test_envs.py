"""Environments: the velocity task by itself, and its environments in Gymnasium."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from browser import require
from raising import raises
from test_compiled_footwork import fill
from test_simulation_compiled import as_python

import quaddyn as qd
import quaddyn.envs
from quaddyn.envs import VelocityTask, register_environments
from quaddyn.envs.registration import MissingGymnasium
from quaddyn.errors import ArgumentError, ArgumentTypeError
from quaddyn.locomotion import (
    LocomotionController,
    contact_estimation,
    friction_model,
    gait,
    ground_plane,
    landing,
    progress_monitor,
    slope_limiter,
    steering,
    trunk_controller,
    walk_start,
)
from quaddyn.locomotion.walker import Walker, lose_ground
from quaddyn.simulation import Actuators, Box, HeightField, Plane, Simulation, rollout, stairs
from quaddyn.viewer.video import open_page_pictures

NAME = "quaddyn/QuadrupedVelocity-v0"
needs_gymnasium = pytest.mark.skipif(importlib.util.find_spec("gymnasium") is None, reason="needs gymnasium")


# -- the task ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["go2", "solo12", "anymal_c"])
def test_robots_stand_with_actions_of_zero(name: str) -> None:
    task = VelocityTask(8, name, threads=1, max_command=(0.0, 0.0, 0.0))
    for _ in range(150):
        observations, rewards, has_fallen, is_cut_off = task.step(np.zeros((8, task.action_size)))
    assert not has_fallen.any() and not is_cut_off.any()
    assert (rewards > 1.4).all() and (rewards <= 1.5).all()  # the largest reward is 1.5
    assert observations.shape == (8, task.observation_size) and observations.dtype == np.float32
    assert task.batch.q[:, 2].min() > 0.8 * task.robot.q_home[2]


def test_default_gains_are_stable_for_the_light_joints_of_an_arm() -> None:
    edges = [Plane.floor(), Box([0.0, 0.0, 0.02], [0.5, 6.0, 0.04])]
    task = VelocityTask(8, "anymal_b_kinova", terrain=edges, start_area=0.5, threads=1)
    task.reset(seed=1)
    for _ in range(50):
        has_fallen = task.step(np.zeros((8, task.action_size)))[2]
        assert not has_fallen.any() and np.abs(task.batch.v).max() < 10.0


def test_entries_of_an_observation(go2: qd.Robot) -> None:
    task = VelocityTask(3, go2, threads=1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = rng.uniform(-1.0, 1.0, (3, 12))
        observations, _, _, _ = task.step(action)
    task.set_command([0.3, -0.1, 0.2])
    observations = task.observe()
    for q, v, seen, a in zip(task.batch.q, task.batch.v, observations, action, strict=True):
        down = pin.Quaternion(q[3:7]).matrix().T @ [0.0, 0.0, -1.0]
        expected = [*v[:6], *down, 0.3, -0.1, 0.2, *(q[7:] - go2.q_home[7:]), *v[6:], *a]
        np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-6)


def test_reward_follows_its_formula(go2: qd.Robot) -> None:
    task = VelocityTask(4, go2, threads=1, max_command=(1.0, 0.5, 1.0))
    rng = np.random.default_rng(1)
    last = np.zeros((4, 12))
    for _ in range(4):
        action, command = rng.uniform(-1.0, 1.0, (4, 12)), task.command
        _, rewards, _, _ = task.step(action)
        v, tau = task.batch.v, task.batch.tau
        expected = (
            np.exp(-((v[:, 0] - command[:, 0]) ** 2 + (v[:, 1] - command[:, 1]) ** 2) / 0.25)
            + 0.5 * np.exp(-((v[:, 5] - command[:, 2]) ** 2) / 0.25)
            - 0.05 * np.abs(tau * v[:, 6:]).sum(axis=1) / (go2.mass * 9.81)
            - 0.01 * ((action - last) ** 2).mean(axis=1)
        )
        np.testing.assert_allclose(rewards, expected, rtol=1e-9)
        last = action


def test_falls_end_an_episode(go2: qd.Robot) -> None:
    task = VelocityTask(4, go2, threads=1)
    q = np.tile(go2.q_home, (4, 1))
    q[1, 3:7] = np.sin(np.pi / 4.0), 0.0, 0.0, np.cos(np.pi / 4.0)  # on its side
    q[2, 2] *= 0.3
    q[3, 3:7] = 0.0, 0.0, 1.0, 0.0  # turned about the vertical, which is not a fall
    with pytest.warns(RuntimeWarning, match="^q of lane 2: .* below the ground"):
        task.batch.reset(q=q)
    has_fallen = task.step(np.zeros((4, 12)))[2]
    assert has_fallen.tolist() == [False, True, True, False]


def test_residuals_are_added_to_the_torques_of_a_locomotion_controller(go2: qd.Robot) -> None:
    task = VelocityTask(2, go2, action="residuals", threads=1)
    task.reset(seed=3)
    q, v, command = task.batch.q.copy(), task.batch.v.copy(), task.command
    walkers = qd.LocomotionController(go2, dt=4e-3).batch(2)
    plants = qd.Simulation(go2, dt=4e-3, spheres={}, integrator="euler").batch(2)
    plants.reset(q=q, v=v)
    action = np.random.default_rng(0).uniform(-0.2, 0.2, (2, 12))
    task.step(action)
    for _ in range(5):
        plants.step(walkers.compute(plants.q, plants.v, command).tau + 0.2 * go2.effort_limits * action)
    np.testing.assert_array_equal(task.batch.q, plants.q)
    for _ in range(150):
        _, rewards, has_fallen, _ = task.step(np.zeros((2, 12)))
    assert not has_fallen.any() and (rewards > 1.0).all(), "the controller follows the commands"


@pytest.mark.parametrize("name", ["go2", "anymal_c"])
def test_robots_start_on_the_terrain_and_observe_its_height(name: str) -> None:
    robot = qd.load(name)
    slope = HeightField.from_function(lambda x, y: 0.1 * x + 1.0, (-3.0, 3.0), (-2.0, 2.0), spacing=0.1)
    points = np.array([[0.4, 0.0], [-0.4, 0.0], [0.0, 0.3]])
    task = VelocityTask(6, robot, terrain=slope, start_area=(1.0, 0.5), height_points=points, threads=1)
    observations = task.reset(seed=0)
    q = task.batch.q
    assert np.ptp(q[:, 0]) > 0.3 and np.abs(q[:, :2]).max() <= 1.0
    for base, seen in zip(q, observations, strict=True):
        forward = pin.Quaternion(base[3:7]).matrix()[:, 0]
        turned = np.array([points @ [forward[0], -forward[1]], points @ [forward[1], forward[0]]]).T + base[:2]
        heights = 0.1 * turned[:, 0] + 1.0 + robot.q_home[2] - base[2]
        np.testing.assert_allclose(seen[-3:], heights, atol=1e-6)
    for _ in range(50):
        _, _, has_fallen, is_cut_off = task.step(np.zeros((6, robot.nu)))
    assert not has_fallen.any() and not is_cut_off.any(), "a robot 1 m above the origin has not fallen"
    above = task.batch.q[:, 2] - (0.1 * task.batch.q[:, 0] + 1.0)
    assert ((above > 0.6 * robot.q_home[2]) & (above < 1.05 * robot.q_home[2])).all()
    q = task.batch.q.copy()
    q[2, 0] = 3.5  # outside the terrain
    task.batch.reset(q=q)
    _, _, _, is_cut_off = task.step(np.zeros((6, robot.nu)))
    assert is_cut_off.tolist() == [False, False, True, False, False, False]


def test_feet_may_start_over_a_narrow_gap(go2: qd.Robot) -> None:
    sides = [Box([x, 0.0, -0.1], [60.0, 60.0, 0.2]) for x in (-29.8, 30.4)]  # a gap of 0.2 m
    task = VelocityTask(200, go2, terrain=sides, start_area=(20.0, 0.0), threads=1)
    np.testing.assert_allclose(task.batch.q[:, 2], 1.02 * go2.q_home[2])


def test_torques_as_actions(go2: qd.Robot) -> None:
    task = VelocityTask(2, go2, action="torques", threads=1)
    action = np.array([np.full(12, 0.1), np.full(12, 7.0)])
    task.step(action)
    expected = np.array([0.1 * go2.effort_limits, go2.effort_limits])  # an action above 1 is clamped
    np.testing.assert_allclose(task.batch.tau, expected)


def test_targets_stay_within_the_joint_limits(go2: qd.Robot) -> None:
    task = VelocityTask(1, go2, action_scale=100.0, stiffness=1.0, damping=0.0, threads=1, control_dt=0.004)
    home = task.batch.q[0, 7:].copy()
    task.step(np.ones((1, 12)))
    np.testing.assert_allclose(task.batch.tau[0], go2.upper[7:] - home, atol=0.1)


def test_lanes_are_independent_and_commands_are_drawn_again(go2: qd.Robot) -> None:
    options: dict[str, Any] = {
        "command_time": 0.1, "episode_time": 0.2, "friction": (0.3, 0.9), "payload": (-0.2, 2.0),
        "motor_strength": (0.8, 1.1), "threads": 1,
    }  # fmt: skip
    many, one = VelocityTask(5, go2, **options), VelocityTask(1, go2, **options)
    for i in range(5):
        many.set_generator(i, np.random.default_rng([4, i]))
    one.set_generator(0, np.random.default_rng([4, 3]))
    a, b = many.reset(), one.reset()
    rng, commands = np.random.default_rng(2), set()
    for step in range(1, 11):
        assert a[3].tobytes() == b[0].tobytes()
        action = rng.uniform(-1.0, 1.0, (5, 12))
        a, _, _, is_cut_off = many.step(action)
        b, _, _, _ = one.step(action[3:4])
        commands.add(one.command.tobytes())
        assert (is_cut_off == (step >= 10)).all()
    assert len(commands) == 3
    for name, (low, high) in (("friction", (0.3, 0.9)), ("payload", (-0.2, 2.0)), ("motor_strength", (0.8, 1.1))):
        values = getattr(many.batch, name)
        assert len(set(values)) == 5 and low <= values.min() < values.max() <= high
        assert values[3] == getattr(one.batch, name)[0]
    before = many.batch.friction.copy()
    mask = np.array([True, False, False, False, True])
    many.reset(mask)
    assert ((many.batch.friction != before) == mask).all()
    assert (many.batch.time == 0.0).tolist() == mask.tolist()


def test_seed_of_a_reset_repeats_the_episode_of_its_robots(go2: qd.Robot) -> None:
    many, one = VelocityTask(3, go2, threads=1), VelocityTask(1, go2, threads=1)
    first = many.reset(seed=5)
    other = many.reset()
    np.testing.assert_array_equal(many.reset(seed=5), first)
    np.testing.assert_array_equal(one.reset(seed=7)[0], first[2])
    assert not (other == first).all(axis=1).any()
    mask = np.array([True, False, False])
    many.reset(mask, seed=9)
    assert not (many.observe()[0] == first[0]).all() and (many.observe()[1:] == first[1:]).all()
    raises(ArgumentError, "seed: expected a whole number >= 0, got -1", many.reset, seed=-1)


def test_wrong_arguments_are_named(go2: qd.Robot) -> None:
    task = VelocityTask(2, go2, threads=1)
    nan = np.zeros((2, 12))
    nan[1, 3] = np.nan
    small = HeightField.from_function(lambda x, y: 0.0 * x, (-1.0, 1.0), (-1.0, 1.0))
    for call, words in (
        (lambda: VelocityTask(0, go2), "n: expected"),
        (lambda: VelocityTask(1, "two_link_leg"), "robot: expected four legs"),
        (lambda: VelocityTask(1, go2, action="muscles"), "action: expected one of"),
        (lambda: VelocityTask(1, go2, action_scale=-1.0), "action_scale"),
        (lambda: VelocityTask(1, go2, stiffness=[1.0, 2.0]), "stiffness"),
        (lambda: VelocityTask(1, go2, damping=-1.0), "damping"),
        (lambda: VelocityTask(1, go2, control_dt=0.005), "control_dt: expected a whole number of dt"),
        (lambda: VelocityTask(1, go2, dt=0.1), "dt"),
        (lambda: VelocityTask(1, go2, integrator="magic"), "integrator"),
        (lambda: VelocityTask(1, go2, max_command=(1.0, 1.0, -1.0)), "max_command"),
        (lambda: VelocityTask(1, go2, command_time=0.0), "command_time"),
        (lambda: VelocityTask(1, go2, episode_time=-1.0), "episode_time"),
        (lambda: VelocityTask(1, go2, friction=(0.9, 0.3)), "friction: expected a range"),
        (lambda: VelocityTask(1, go2, friction=(0.3, -0.3)), "friction"),
        (lambda: VelocityTask(1, go2, payload=(-50.0, 0.0)), "payload"),
        (lambda: VelocityTask(1, go2, motor_strength=(-1.0, 1.0)), "motor_strength"),
        (lambda: VelocityTask(1, go2, threads=0), "threads"),
        (lambda: VelocityTask(1, go2, terrain=[1.0]), "terrain"),
        (lambda: VelocityTask(1, go2, start_area=(1.0, -1.0)), "start_area"),
        (lambda: VelocityTask(1, go2, height_points=[[0.1, 0.2, 0.3]]), r"height_points: .* \(1, 2\)"),
        (lambda: VelocityTask(1, go2, height_points=[[0.1, np.nan]]), r"height_points\[1\] = nan"),
        (lambda: VelocityTask(1, go2, terrain=small, start_area=(0.9, 0.0)), "start_area: .* the terrain has a gap"),
        (lambda: task.step(np.zeros((2, 11))), "action: expected shape"),
        (lambda: task.step(nan), r"action: expected finite numbers, got others in lanes \[1\]"),
        (lambda: task.set_command([1.0, 2.0]), "command"),
        (lambda: task.set_generator(2, np.random.default_rng(0)), "lane: expected 0 to 1"),
        (lambda: task.reset(np.array([True])), "mask"),
    ):
        raises(ArgumentError, words, call)
    raises(ArgumentTypeError, "mask", task.reset, np.array([1, 0]))


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium.envs.registration", None)
    for call in (register_environments, MissingGymnasium):
        raises(qd.QuaddynError, r"pip install 'quaddyn\[envs\]'", call)


# -- Gymnasium -----------------------------------------------------------------------------------------------------
@needs_gymnasium
@pytest.mark.parametrize("options", [{}, {"action": "torques", "robot": "solo12"}, {"robot": "anymal_c"}])
def test_gymnasium_accepts_the_environment(options: dict[str, Any]) -> None:
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(NAME, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(env.unwrapped)
    env.close()


@needs_gymnasium
def test_quadrupeds_of_the_catalogue_have_names_of_their_own() -> None:
    import gymnasium

    names = [name for name in gymnasium.registry if name.startswith("quaddyn/")]
    assert {"quaddyn/Go2Velocity-v0", "quaddyn/AnymalCVelocity-v0", "quaddyn/Solo12Velocity-v0"} < set(names)
    for name in ("quaddyn/Go2Velocity-v0", "quaddyn/AnymalCVelocity-v0"):
        env = gymnasium.make(name)
        robot = env.spec.kwargs["robot"]  # type: ignore[union-attr]
        assert env.unwrapped.task.robot.mass == qd.load(robot).mass  # type: ignore[attr-defined]
        observation, _ = env.reset(seed=0)
        assert np.isfinite(observation).all() and np.isfinite(env.step(env.action_space.sample())[1])


@needs_gymnasium
def test_seeded_runs_are_equal_and_lanes_equal_single_environments() -> None:
    import gymnasium

    options: dict[str, Any] = {"robot": "go2", "friction": (0.3, 0.9), "command_time": 0.1}
    vectors = [gymnasium.make_vec(NAME, num_envs=6, threads=k, **options) for k in (1, 2)]
    single = gymnasium.make(NAME, **options)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 6, 12)).astype(np.float32)
    runs: list[list[bytes]] = [[], []]
    for run, env in zip(runs, vectors, strict=True):
        observations, _ = env.reset(seed=7)
        run.append(observations.tobytes())
        for action in actions:
            observations, rewards, terminated, _, _ = env.step(action)
            run.append(observations.tobytes() + rewards.tobytes())
        assert not terminated.all()
        assert observations in env.observation_space
    assert runs[0] == runs[1] and len(set(runs[0])) == 31
    other = vectors[0].reset(seed=8)[0]
    assert other.tobytes() != runs[0][0]
    alone, _ = single.reset(seed=7 + 2)
    observations, _ = vectors[0].reset(seed=7)
    for action in actions[:20]:
        assert alone.tobytes() == observations[2].tobytes()
        observations, rewards, terminated, truncated, _ = vectors[0].step(action)
        alone, reward, ended, cut_off, infos = single.step(action[2])
        assert (reward, ended, cut_off) == (rewards[2], terminated[2], truncated[2])
        if ended:
            break
    assert infos["command"].shape == (3,)


@needs_gymnasium
def test_lanes_equal_single_environments_across_episodes_with_residuals_on_stairs() -> None:
    import gymnasium
    from gymnasium.vector import SyncVectorEnv

    terrain = [Plane.floor(), *stairs(3, rise=0.05, tread=0.3, distance=0.4)]
    options: dict[str, Any] = {
        "robot": "go2", "action": "residuals", "terrain": terrain, "start_area": (0.8, 0.3), "friction": (0.3, 0.9),
        "height_points": [[0.3, 0.0]], "episode_time": 0.1, "command_time": 0.12,
    }  # fmt: skip
    many = gymnasium.make_vec(NAME, num_envs=3, threads=2, **options)
    single = SyncVectorEnv([lambda: gymnasium.make(NAME, **options)] * 3)
    rng = np.random.default_rng(0)
    ours, theirs = many.reset(seed=5), single.reset(seed=5)
    for step in range(1, 15):
        assert ours[0].tobytes() == theirs[0].tobytes()
        assert {k: x.tobytes() for k, x in ours[-1].items()} == {k: x.tobytes() for k, x in theirs[-1].items()}
        action = rng.uniform(-1.0, 1.0, (3, 12)).astype(np.float32)
        theirs = single.step(action)  # type: ignore[assignment]
        if step % 6 == 0:
            action[:] = np.nan  # episodes begin again, and actions are ignored
        ours = many.step(action)  # type: ignore[assignment]
        for a, b in zip(ours[1:4], theirs[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert ours[3].all() == (step % 6 == 5)
    single.close()


@needs_gymnasium
def test_mask_of_a_reset_and_clear_errors() -> None:
    import gymnasium

    env = gymnasium.make_vec(NAME, num_envs=2, robot="go2", threads=1)
    first, _ = env.reset(seed=0)
    env.step(np.zeros((2, 12)))
    later, infos = env.reset(seed=1, options={"reset_mask": np.array([False, True])})
    task = env.unwrapped.task  # type: ignore[attr-defined]
    assert (task.batch.time == 0.0).tolist() == [False, True] and (later != first).any(axis=1).all()
    np.testing.assert_array_equal(infos["command"], task.command)
    single = gymnasium.make(NAME, robot="go2").unwrapped
    for error, words, call in (
        (ArgumentTypeError, "reset_mask: expected bools", lambda: env.reset(options={"reset_mask": np.ones(2)})),
        (ArgumentError, r"num_envs: expected .*, got 0", lambda: gymnasium.make_vec(NAME, num_envs=0)),
        (ArgumentError, r"action: .* \(12,\) .*, got shape \(11,\)", lambda: single.step(np.zeros(11))),
        (ArgumentTypeError, "cannot be copied or pickled; create another", lambda: copy.deepcopy(single)),
        (ArgumentTypeError, "cannot be copied or pickled; create another", lambda: pickle.dumps(env)),
    ):
        raises(error, words, call)


@needs_gymnasium
def test_ended_episodes_begin_again_at_the_next_step() -> None:
    import gymnasium

    env = gymnasium.make_vec(NAME, num_envs=3, robot="go2", episode_time=0.1, threads=1)
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(seed=0)
    zero = np.zeros((3, 12), dtype=np.float32)
    q = task.batch.q.copy()
    q[1, 2] = 0.05
    with pytest.warns(RuntimeWarning, match="^q of lane 1: .* below the ground"):
        task.batch.reset(np.array([False, True, False]), q=q)
    _, rewards, terminated, truncated, _ = env.step(zero)
    assert terminated.tolist() == [False, True, False] and not truncated.any() and rewards[1] != 0.0
    observations, rewards, terminated, truncated, _ = env.step(np.ones((3, 12), dtype=np.float32))
    assert not terminated.any() and rewards[1] == 0.0 != rewards[0] and task.batch.time[1] == 0.0
    assert (observations[1, -12:] == 0.0).all() and (observations[0, -12:] == 1.0).all()
    for step in range(3, 8):
        _, _, _, truncated, infos = env.step(zero)
        assert truncated.tolist() == [step == 5, step == 7, step == 5]
    assert infos["command"].shape == (3, 3)
    env.close()


@needs_gymnasium
def test_statistics_of_gymnasium_work_on_the_vector_environment() -> None:
    import gymnasium
    from gymnasium.wrappers.vector import RecordEpisodeStatistics

    env = RecordEpisodeStatistics(gymnasium.make_vec(NAME, num_envs=2, robot="go2", episode_time=0.1, threads=1))
    env.reset(seed=0)
    for _ in range(5):
        _, _, _, truncated, infos = env.step(np.zeros((2, 12), dtype=np.float32))
    assert truncated.all() and infos["episode"]["l"].tolist() == [5, 5]


@pytest.mark.skipif(sys.modules.get("gymnasium") is not None, reason="needs an installation without gymnasium")
def test_environments_without_gymnasium_name_the_extra() -> None:
    for make in (quaddyn.envs.QuadrupedVelocityEnv, quaddyn.envs.QuadrupedVelocityVectorEnv):
        raises(qd.QuaddynError, r"pip install 'quaddyn\[envs\]'", make)


@needs_gymnasium
def test_pages_and_pictures_show_the_robots(go2: qd.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    require("chromium")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for make in (quaddyn.envs.QuadrupedVelocityEnv, quaddyn.envs.QuadrupedVelocityVectorEnv):
        raises(ArgumentError, "render_mode: expected None or one of human", make, robot=go2, render_mode="ansi")
    env = gymnasium.make(NAME, robot=go2, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert isinstance(first, np.ndarray) and first.shape == (480, 640, 3) and first.dtype == np.uint8
    for _ in range(25):
        env.step(np.full(12, 0.5))
    assert np.abs(env.render() - first.astype(int)).mean() > 0.5, "the robot has moved"
    assert np.array_equal(env.render(), env.render())
    env.close()
    envs = gymnasium.make_vec(NAME, num_envs=3, robot=go2, render_mode="human")
    envs.reset(seed=0)
    begin = time.monotonic()
    for _ in range(11):
        envs.step(np.zeros((3, 12)))
    assert time.monotonic() - begin > 0.15, "shown in real time"
    assert opened == [envs.unwrapped.viewer.url]  # type: ignore[attr-defined]
    envs.close()
    with pytest.raises(qd.QuaddynError, match="closed"):
        envs.unwrapped.viewer  # type: ignore[attr-defined]  # noqa: B018


def test_browser_without_connection_leaves_no_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[asyncio.Runner] = []
    real = asyncio.Runner.close
    monkeypatch.setattr("asyncio.Runner.close", lambda runner: (closed.append(runner), real(runner)))
    monkeypatch.setattr("quaddyn.viewer.video._find_browser", lambda: "browser")
    monkeypatch.setattr("quaddyn.viewer.video._run_browser", lambda *_: nullcontext("ws://127.0.0.1:1/"))
    with pytest.raises(OSError), open_page_pictures("about:blank", (64, 64)):
        pass
    assert len(closed) == 1


@needs_gymnasium
def test_browser_of_pictures_ends_with_the_program_or_before(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    require("chromium")
    started: list[subprocess.Popen[Any]] = []
    real = subprocess.Popen
    monkeypatch.setattr(
        "quaddyn.viewer.video.subprocess.Popen", lambda *a, **k: started.append(real(*a, **k)) or started[-1]
    )
    env = gymnasium.make(NAME, robot="go2", render_mode="rgb_array")
    env.reset(seed=0)
    os.killpg(started[0].pid, signal.SIGKILL)
    for _ in range(2):
        raises(qd.QuaddynError, "the browser process ended before", env.render)
    for _ in range(2):
        env.close()
    monkeypatch.undo()
    program = (
        "import subprocess, gymnasium, quaddyn.envs\n"
        "real = subprocess.Popen\n"
        "subprocess.Popen = lambda *a, **k: (p := real(*a, **k), print(p.pid))[0]\n"
        f"env = gymnasium.make({NAME!r}, robot='go2', render_mode='rgb_array')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=120.0)
    assert done.returncode == 0 and done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


# -- `rollout` equals `simulation.step` bit for bit, for any number of threads ----------------------------------------
STEPS = 60


@pytest.fixture(scope="module")
def solo() -> qd.Robot:
    return qd.load("solo12")


def random_initial_states(robot: qd.Robot, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Initial states from which robots land within some steps."""
    rng = np.random.default_rng(seed)
    q, v = np.tile(robot.q_home, (count, 1)), rng.normal(0.0, 1.0, (count, robot.nv))
    q[:, 2] += rng.uniform(0.0, 0.02, count)
    return q, v


def step_individually(sim: Simulation, torques: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """States of individual steps, and the number of inaccurate steps."""
    states, poor = [], 0
    for tau in torques:
        sim.step(tau)
        states.append((sim.q, sim.v))
        poor += not sim.ok
    return np.array([q for q, _ in states]), np.array([v for _, v in states]), poor


PLANTS: dict[str, Callable[[qd.Robot], Simulation]] = {
    "frictional": Simulation,
    "compliant": lambda robot: Simulation(robot, contact="compliant"),
    "rigid": lambda robot: Simulation(robot, contact="rigid", dt=2e-3),
    "rk4": lambda robot: Simulation(robot, integrator="rk4"),
    "rough": lambda robot: Simulation(
        robot, terrain=[Plane.floor(0.0), Box(np.array([0.2, 0.1, 0.0]), np.array([0.2, 0.2, 0.04]))]
    ),
    "weak": lambda robot: Simulation(
        robot, actuators=Actuators(robot, effort=1.0, no_load_speed=10.0, corner_speed=4.0, rotor_inertia=1e-3)
    ),
}


@pytest.mark.parametrize("kind", PLANTS)
def test_rollout_equals_individual_steps(kind: str, solo: qd.Robot) -> None:
    torques = np.random.default_rng(1).normal(0.0, 0.5, (3, STEPS, 12))
    q, v = random_initial_states(solo, 3)
    plants, alone = [PLANTS[kind](solo) for _ in range(3)], PLANTS[kind](solo)
    for threads in (1, 3):
        found = rollout(plants, torques, q=q, v=v, threads=threads)
        for i, sim in enumerate(plants):
            alone.reset(q[i], v[i])
            expected_q, expected_v, poor = step_individually(alone, torques[i])
            assert found.q[i].tobytes() == expected_q.tobytes() and found.v[i].tobytes() == expected_v.tobytes()
            assert found.n_steps[i] == STEPS and found.n_inaccurate_steps[i] == poor
            assert sim.q.tobytes() == alone.q.tobytes() and sim.time == alone.time
            assert sim.tau.tobytes() == alone.tau.tobytes() and sim.work == alone.work and sim.status == alone.status
            sim.step(torques[i, 0])  # continues from its state
            alone.step(torques[i, 0])
            assert sim.v.tobytes() == alone.v.tobytes()


def test_rollouts_reuse_a_smaller_number_of_plants(solo: qd.Robot) -> None:
    torques, (q, v) = np.zeros((STEPS, 12)), random_initial_states(solo, 7, seed=2)
    few = rollout([Simulation(solo) for _ in range(2)], torques, q=q, v=v, threads=2)
    one = rollout(Simulation(solo), torques, q=q, v=v)
    assert few.q.shape == (7, STEPS, solo.nq) and few.v.shape == (7, STEPS, solo.nv)
    assert few.q.tobytes() == one.q.tobytes() and few.v.tobytes() == one.v.tobytes()
    assert len({each.tobytes() for each in few.q}) == 7
    assert not few.q.flags.writeable and not few.v.flags.writeable and not few.n_steps.flags.writeable


def test_plants_with_different_parameters_keep_their_pushes(solo: qd.Robot) -> None:
    def made() -> list[Simulation]:
        out = [Simulation(solo, friction=mu) for mu in (0.2, 0.9)] + [Simulation(solo, terrain=Plane.floor(-0.1))]
        for i, sim in enumerate(out):
            sim.push(solo.frame_names[-1], np.array([5.0 * i, 3.0, 1.0]), duration=0.01)
            sim.push("base_link", np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3]), duration=0.025)
        return out

    torques = np.random.default_rng(3).normal(0.0, 0.5, (STEPS, 12))
    plants = made()
    found = rollout(plants, torques, threads=2)
    for i, alone in enumerate(made()):
        expected_q, expected_v, _ = step_individually(alone, torques)
        assert found.q[i].tobytes() == expected_q.tobytes() and found.v[i].tobytes() == expected_v.tobytes()
        assert plants[i].work == alone.work


def test_divergence_ends_only_its_own_rollout(solo: qd.Robot) -> None:
    torques = np.zeros((2, STEPS, 12))
    torques[0, 20:] = 1e12
    free = Actuators(solo, effort=np.inf)
    plants = [Simulation(solo, actuators=free) for _ in range(2)]
    found = rollout(plants, torques, threads=2)
    last = found.n_steps[0]
    assert 20 <= last < STEPS and found.n_steps[1] == STEPS
    assert np.isfinite(found.q).all() and np.isfinite(found.v).all()
    assert (found.q[0, last:] == found.q[0, last - 1]).all() and plants[0].q.tobytes() == found.q[0, -1].tobytes()
    with pytest.raises(qd.errors.DivergenceError):
        plants[0].step(torques[0, last])
    plants[0].reset()
    plants[0].step(np.zeros(12))


def test_mismatched_arguments_are_named(solo: qd.Robot) -> None:
    sim, other, tau = Simulation(solo), Simulation(qd.load("two_link_leg")), np.zeros((5, 12))
    q = solo.q_home
    for call, words in (
        (lambda: rollout([], tau), "at least one"),
        (lambda: rollout([sim, sim], tau), "twice"),
        (lambda: rollout([sim, other], tau), "of the same sizes"),
        (lambda: rollout(sim, np.zeros((5, 11))), "torques"),
        (lambda: rollout(sim, np.zeros((2, 5, 12))), "torques: 2 rollouts, but 1 plant without .* pass q= "),
        (lambda: rollout(sim, np.zeros(12)), "torques"),
        (lambda: rollout(sim, np.full((5, 12), np.nan)), "finite"),
        (lambda: rollout(sim, tau, q=q[:-1]), "q"),
        (lambda: rollout(sim, tau, q=2.0 * q), "q"),
        (lambda: rollout(sim, tau, q=[q, q], v=np.zeros((3, 18))), "v"),
        (lambda: rollout(sim, tau, v=np.zeros(18)), "together with the initial configurations"),
        (lambda: rollout(sim, tau, threads=0), "threads"),
    ):
        raises(ArgumentError, words, call)
    raises(ArgumentTypeError, "Simulation objects", rollout, [sim, "plant"], tau)
    none = rollout(sim, np.zeros((0, 12)))
    assert none.q.shape == (1, 0, solo.nq) and sim.time == 0.0


# -- resets -----------------------------------------------------------------------------------------------------------
@cache
def walker() -> Walker:
    """Records of a controller."""
    robot = qd.load("go2")
    controller = LocomotionController(robot, dt=2e-3)
    controller.compute(qd.Dynamics(robot).update(np.array(robot.q_home), np.zeros(robot.nv)))
    return controller._walking.records.walker


def flatten(value: Any, name: str) -> dict[str, np.ndarray]:
    """Returns all arrays of a record by name."""
    if isinstance(value, np.ndarray):
        return {name: value}
    fields = zip(value._fields, value, strict=True)
    return {key: x for field, each in fields for key, x in flatten(each, f"{name}.{field}").items()}


def after_reset(reset: Callable[[Walker], object], names: list[str], seed: int) -> dict[str, np.ndarray]:
    """Returns the arrays of the named records after a reset, before which they are random."""
    e = copy.deepcopy(walker())
    records = {name: e.landing if name == "landing" else getattr(e.walk, name) for name in names}
    for record in records.values():
        fill(record, np.random.default_rng(seed))
    with as_python():
        reset(e)
    return {key: x for name, record in records.items() for key, x in flatten(record, name).items()}


#: Resets, and the records that they reset.
RESETS: dict[str, tuple[Callable[[Walker], object], str]] = {
    "ground contact": (lambda e: contact_estimation.reset_ground_contact(e.walk.ground_contact), "ground_contact"),
    "contacts": (lambda e: contact_estimation.reset_contact_estimate(e.walk.contacts), "contacts"),
    "friction": (lambda e: friction_model.reset_friction_estimate(e.walk.friction_parameters, e.walk.slips), "slips"),
    "progress": (lambda e: progress_monitor.reset_progress(e.walk.progress), "progress"),
    "slope": (lambda e: slope_limiter.reset_slope(e.walk.slope), "slope"),
    "steering": (lambda e: steering.reset_steering(e.walk.steering), "steering"),
    "trunk": (lambda e: trunk_controller.reset_trunk(e.walk.trunk, 0.3), "trunk"),
    "gait": (lambda e: gait.restart_gait(e.walk.gait, e.walk.gait_limits.timing, 0.5), "gait"),
    "plane of unknown terrain": (lambda e: ground_plane.advance_slope(e.walk.ground, 1.0), "ground"),
    "walk": (
        lambda e: walk_start.begin_walk(e.walk, e.initial_footwork, 0.1),
        "gait path ground ground_contact contacts progress steering trunk footwork",
    ),
    "loss of the ground": (lose_ground, "landing ground_contact contacts gait"),
    "tick in the air": (lambda e: landing.extend_legs(e.landing, e.walk), "landing"),
    "end of a landing": (lambda e: landing.balance_landing(e.landing, e.walk, True), "ground_contact contacts trunk"),
}
#: Fields that every reset may keep: parameters, outputs of the next tick, and values that a flag makes invalid.
KEPT = {
    "ground_contact": "dt|last_rate|last_feet|ground_force",
    "contacts": r"observer\.(dt|beta|damping|friction|stiction_speed|actuated|p|drive|current)|rotors\..*|residual|"
    r"trigger\.(.*threshold.*|dwell_time|passed_since|changed)|in_contact|is_known|is_followed",
    "slips": r"slip\.motion|loads\..*",
    "progress": "alpha",
    "slope": "min_velocity_change|uphill|evaluated_.*",
    "steering": "dt|friction|is_transitioning",
    "trunk": "slope_lowering|base_weight.*|references.*",
    "gait": r"trot\..*",
    "path": "",
    "ground": "next_footholds|map_height|map_center",
    "footwork": "",
    "landing": "reach|com_weight|in_contact|positions|velocities|acceleration|jump_yaw",
}
#: Additional fields that single resets keep.
ALSO_KEPT = {
    "tick in the air": r"landing\.(settled_time|stopping_distance|is_com_weight_changed|is_jump)",
    "plane of unknown terrain": r"ground\.(points|has_next_foothold|slope)",
    "end of a landing": r"trunk\.(height|com_offset|tilt_trim|desired_height|desired_rate)",
}


@pytest.mark.parametrize("name", RESETS)
def test_state_after_a_reset_does_not_depend_on_its_history(name: str) -> None:
    reset, records = RESETS[name]
    one, other = (after_reset(reset, records.split(), seed) for seed in (0, 1))
    kept = "|".join([*(rf"{record}\.({KEPT[record]})" for record in records.split()), ALSO_KEPT.get(name, "-")])
    changed = [key for key in one if not np.array_equal(one[key], other[key], equal_nan=True)]
    assert [key for key in changed if not re.fullmatch(kept, key)] == []
