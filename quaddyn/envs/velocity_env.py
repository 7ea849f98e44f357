"""`QuadrupedVelocityVectorEnv` and `QuadrupedVelocityEnv`: environments of Gymnasium for `VelocityTask`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from .registration import AUTORESET_METADATA, Env, VectorEnv, make_box, repeat_space
from .velocity_task import MAX_OBSERVATION, VelocityTask

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


def _make_spaces(task: VelocityTask) -> tuple[Any, Any]:
    """Returns the observation space and the action space of one robot."""
    return (
        make_box(MAX_OBSERVATION, task.observation_size),
        make_box(1.0, task.action_size),
    )


def _reject_rendering(render_mode: str | None) -> None:
    """Raises if a render mode is given."""
    if render_mode is not None:
        raise ArgumentError(f"render_mode: expected None, got {render_mode!r}; draw states of the batch with qd.Viewer")


class QuadrupedVelocityVectorEnv(VectorEnv):
    """Environments in which quadrupeds follow commanded velocities, all stepped in one call; see `VelocityTask`.

    ``gymnasium.make_vec("quaddyn/QuadrupedVelocity-v0", num_envs=1000, robot="go2")`` makes one. Observations are
    float32 arrays (num_envs, size). Episodes begin again automatically at the step after their end
    (`AutoresetMode.NEXT_STEP`): in that step the action is ignored and the reward is 0.

    Lane i of an environment that is reset with a seed equals a `QuadrupedVelocityEnv` that is reset with ``seed + i``.

    Args:
        num_envs: number of robots.
        render_mode: None.
        arguments: further arguments of `VelocityTask`.

    Attributes:
        task: the task, with the batch of robots.

    Raises:
        ArgumentError: see `VelocityTask`; or a render mode is given.
        QuaddynError: Gymnasium is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": [], **AUTORESET_METADATA}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__()
        _reject_rendering(render_mode)
        self.task = VelocityTask(num_envs, **arguments)
        self.num_envs, self.render_mode = self.task.n, None
        self.single_observation_space, self.single_action_space = _make_spaces(self.task)
        self.observation_space = repeat_space(self.single_observation_space, self.num_envs)
        self.action_space = repeat_space(self.single_action_space, self.num_envs)
        self._has_ended = np.zeros(self.num_envs, dtype=bool)
        self._is_seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Begins new episodes of all robots.

        Args:
            seed: seed of the first robot; the others have the following integers. None: the random numbers continue;
                if there was no seed before, a seed of the operating system.
            options: not used.

        Returns:
            Observations (num_envs, size), and an empty dictionary.
        """
        super().reset(seed=seed)
        if seed is None and not self._is_seeded:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._is_seeded = True
        self._has_ended[:] = False
        return self.task.reset(seed=seed), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[FloatArray, NDArray[np.float64], BoolArray, BoolArray, dict[str, Any]]:
        """Takes a step of all robots; those whose episode ended in the last step begin a new one.

        Args:
            actions: (num_envs, nu) actions from -1 to 1.

        Returns:
            Observations, rewards (num_envs,), whether robots have fallen, whether episodes were cut off, and the
            dictionary of infos with "command" (num_envs, 3).

        Raises:
            ArgumentError: actions of a wrong shape or not finite.
        """
        began = self._has_ended
        observations, rewards, has_fallen, is_cut_off = self.task.step(actions)
        if began.any():
            observations = self.task.reset(began)
            rewards[began], has_fallen[began], is_cut_off[began] = 0.0, False, False
        self._has_ended = has_fallen | is_cut_off
        infos = {"command": self.task.command, "_command": np.ones(self.num_envs, dtype=bool)}
        return observations, rewards, has_fallen, is_cut_off, infos


class QuadrupedVelocityEnv(Env):
    """Environment in which one quadruped follows commanded velocities; see `VelocityTask`.

    ``gymnasium.make("quaddyn/QuadrupedVelocity-v0", robot="go2")`` makes one. `QuadrupedVelocityVectorEnv` steps many
    in one call.

    Args:
        render_mode: None.
        arguments: further arguments of `VelocityTask`.

    Attributes:
        task: the task, with a batch of one robot.

    Raises:
        ArgumentError: see `VelocityTask`; or a render mode is given.
        QuaddynError: Gymnasium is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__()
        _reject_rendering(render_mode)
        self.task = VelocityTask(1, **{"threads": 1, **arguments})
        self.render_mode = None
        self.observation_space, self.action_space = _make_spaces(self.task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Begins a new episode.

        Args:
            seed: seed of the random numbers; None: they continue.
            options: not used.

        Returns:
            The observation (size,), and an empty dictionary.
        """
        super().reset(seed=seed)
        self.task.set_generator(0, self.np_random)
        return self.task.reset()[0], {}

    def step(self, action: NDArray[Any]) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Takes a step.

        Args:
            action: (nu,) action from -1 to 1.

        Returns:
            The observation, the reward, whether the robot has fallen, whether the episode was cut off, and a dictionary
            with "command" (3,).

        Raises:
            ArgumentError: an action of a wrong shape or not finite.
        """
        observations, rewards, has_fallen, is_cut_off = self.task.step(np.asarray(action)[np.newaxis])
        infos = {"command": self.task.command[0]}
        return observations[0], float(rewards[0]), bool(has_fallen[0]), bool(is_cut_off[0]), infos
