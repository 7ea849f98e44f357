"""`QuadrupedVelocityVectorEnv` and `QuadrupedVelocityEnv`: environments of Gymnasium for `VelocityTask`.

`TaskRenderer` makes pages and pictures of the robots of a task.
"""

from __future__ import annotations

import contextlib
import io
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, QuaddynError
from ..lane_blocks import check_mask
from ..robot.arguments import check_integer, check_vector
from ..strict_attributes import StrictAttributes
from ..viewer import Viewer
from ..viewer.video import open_page_pictures
from .registration import AUTORESET_METADATA, Env, VectorEnv, make_box, repeat_space
from .velocity_task import MAX_OBSERVATION, VelocityTask

#: Maximum number of robots that a page shows, those of the first lanes.
MAX_ROBOTS = 16
#: Size of pictures [pixels].
PICTURE_SIZE = (640, 480)

Picture = NDArray[np.uint8]


class TaskRenderer(StrictAttributes, fixed=("task", "mode")):
    """Renderer of the first robots of a task, with a page of `quaddyn.viewer.Viewer`.

    Args:
        task: the task.
        mode: "human": a page in a browser, shown in real time; "rgb_array": pictures, drawn by a browser without a
            window.
        allowed: supported modes.

    Attributes:
        task: the task.
        mode: the mode, or None for no rendering.

    Raises:
        ArgumentError: `mode` is not a supported mode.
        QuaddynError: "rgb_array" without an installed browser or without Pillow.
    """

    def __init__(self, task: VelocityTask, mode: str | None, allowed: tuple[str, ...]) -> None:
        if mode is not None and mode not in allowed:
            raise ArgumentError(f"render_mode: expected None or one of {', '.join(allowed)}, got {mode!r}")
        self.task, self.mode = task, mode
        self._viewer: Viewer | None = None
        self._take_picture: Callable[[float], bytes] | None = None
        self._close_resources: Callable[[], object] = contextlib.ExitStack().close
        self._n_frames, self._next_time = 0, 0.0
        self._names = [f"robot {i}" for i in range(1, min(task.n, MAX_ROBOTS))]
        if mode is not None:
            self._open()

    @property
    def viewer(self) -> Viewer:
        """Viewer of the page, such as for its address `Viewer.url`.

        Raises:
            QuaddynError: the environment was made without a render mode, or has been closed.
        """
        if self._viewer is None:
            raise QuaddynError("render_mode: the environment was made without one, or has been closed")
        return self._viewer

    def _open(self) -> None:
        """Opens the page."""
        task, is_human = self.task, self.mode == "human"
        with contextlib.ExitStack() as resources:
            viewer = Viewer(task.robot, terrain=task.terrain, open_browser=is_human, max_frames=1)
            self._viewer = resources.enter_context(viewer)
            for name in self._names:
                viewer.add_robot(name, task.robot)
            if not is_human:
                try:
                    import PIL.Image  # noqa: F401
                except ImportError:
                    raise QuaddynError(
                        "render_mode: Pillow is not installed; install it with: pip install 'quaddyn[envs]'"
                    ) from None
                self._take_picture = resources.enter_context(open_page_pictures(viewer.view_url, PICTURE_SIZE))
            # A program that ends without calling `close` also ends the browser.
            self._close_resources = weakref.finalize(self, resources.pop_all().close)

    def draw(self) -> Picture | None:
        """Draws the present states; returns a picture (height, width, 3) in the mode "rgb_array", else None."""
        task, batch, viewer = self.task, self.task.batch, self.viewer
        self._n_frames += 1
        frame_time = self._n_frames * task.control_dt
        forward, sideways, turning = task.command[0]
        viewer.show(
            batch.q[0],
            v=batch.v[0],
            forces=dict(zip(batch.spheres, batch.contact_forces[0], strict=True)),
            tau=batch.tau[0],
            robots=dict(zip(self._names, batch.q[1:], strict=False)),
            caption=f"command {forward:.2f} m/s forward, {sideways:.2f} m/s sideways, {turning:.2f} rad/s",
            time=frame_time,
        )
        if self._take_picture is None:
            now = time.monotonic()
            time.sleep(max(min(self._next_time - now, task.control_dt), 0.0))
            self._next_time = max(self._next_time, now) + task.control_dt
            return None
        import PIL.Image

        picture = PIL.Image.open(io.BytesIO(self._take_picture(frame_time)))
        return np.asarray(picture.convert("RGB"), dtype=np.uint8)

    def close(self) -> None:
        """Closes the page and the browser."""
        self._viewer, self._take_picture = None, None
        self._close_resources()


FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


def _make_spaces(task: VelocityTask) -> tuple[Any, Any]:
    """Returns the observation space and the action space of one robot."""
    return (
        make_box(MAX_OBSERVATION, task.observation_size),
        make_box(1.0, task.action_size),
    )


class QuadrupedVelocityVectorEnv(VectorEnv):
    """Environments in which quadrupeds follow commanded velocities, all stepped in one call; see `VelocityTask`.

    ``gymnasium.make_vec("quaddyn/QuadrupedVelocity-v0", num_envs=1000, robot="go2")`` makes one. Observations are
    float32 arrays (num_envs, size). Episodes begin again automatically at the step after their end
    (`AutoresetMode.NEXT_STEP`): in that step the action is ignored and the reward is 0.

    Lane i of an environment that is reset with a seed equals a `QuadrupedVelocityEnv` that is reset with ``seed + i``.

    Args:
        num_envs: number of robots.
        render_mode: None, or "human": a page in the browser shows the first 16 robots after every step, in real time.
        arguments: further arguments of `VelocityTask`.

    Attributes:
        task: the task, with the batch of robots.

    Raises:
        ArgumentError: see `VelocityTask`; or another render mode.
        QuaddynError: Gymnasium is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["human"], **AUTORESET_METADATA}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__()
        self.task = VelocityTask(check_integer("num_envs", num_envs), **arguments)
        self._renderer = TaskRenderer(self.task, render_mode, ("human",))
        self.num_envs, self.render_mode = self.task.n, render_mode
        self.metadata = {**self.metadata, "render_fps": 1.0 / self.task.control_dt}
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
            options: dictionary; its entry "reset_mask", (num_envs,) bools, selects the robots that begin a new episode,
                without it all robots.

        Returns:
            Observations (num_envs, size), and the dictionary of infos with "command" (num_envs, 3).

        Raises:
            ArgumentError: "reset_mask" has a wrong shape.
            ArgumentTypeError: "reset_mask" does not have bools.
        """
        mask = check_mask((options or {}).get("reset_mask"), self.num_envs, "reset_mask")
        super().reset(seed=seed)
        if seed is None and not self._is_seeded:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._is_seeded = True
        self._has_ended[mask] = False
        observations = self.task.reset(mask, seed=seed)
        self.render()
        return observations, self._make_infos()

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
        observations, rewards, has_fallen, is_cut_off = self.task.step(actions, restart=self._has_ended)
        self._has_ended = has_fallen | is_cut_off
        self.render()
        return observations, rewards, has_fallen, is_cut_off, self._make_infos()

    def _make_infos(self) -> dict[str, Any]:
        """Returns the infos of the present states."""
        return {"command": self.task.command, "_command": np.ones(self.num_envs, dtype=bool)}

    @property
    def viewer(self) -> Viewer:
        """Viewer of the page that shows the robots; raises a `QuaddynError` without a render mode."""
        return self._renderer.viewer

    def render(self) -> None:
        """Draws the present states, if there is a render mode; `reset` and `step` call it."""
        if self.render_mode is not None:
            self._renderer.draw()

    def close_extras(self, **_: Any) -> None:
        """Closes the page; `close` calls it."""
        self._renderer.close()


class QuadrupedVelocityEnv(Env):
    """Environment in which one quadruped follows commanded velocities; see `VelocityTask`.

    ``gymnasium.make("quaddyn/QuadrupedVelocity-v0", robot="go2")`` makes one. `QuadrupedVelocityVectorEnv` steps many
    in one call.

    Args:
        render_mode: None; "human": a page in the browser shows the robot after every step, in real time; "rgb_array":
            `render` returns pictures, such as for `gymnasium.wrappers.RecordVideo`, drawn by an installed browser
            without a window.
        arguments: further arguments of `VelocityTask`.

    Attributes:
        task: the task, with a batch of one robot.

    Raises:
        ArgumentError: see `VelocityTask`; or another render mode.
        QuaddynError: Gymnasium is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"]}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__()
        self.task = VelocityTask(1, **{"threads": 1, **arguments})
        self._renderer = TaskRenderer(self.task, render_mode, ("human", "rgb_array"))
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": 1.0 / self.task.control_dt}
        self.observation_space, self.action_space = _make_spaces(self.task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Begins a new episode.

        Args:
            seed: seed of the random numbers; None: they continue.
            options: not used.

        Returns:
            The observation (size,), and the dictionary of infos with "command" (3,).
        """
        super().reset(seed=seed)
        self.task.set_generator(0, self.np_random)
        observation = self.task.reset()[0]
        self._show()
        return observation, {"command": self.task.command[0]}

    def step(self, action: NDArray[Any]) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Takes a step.

        Args:
            action: (nu,) action from -1 to 1.

        Returns:
            The observation, the reward, whether the robot has fallen, whether the episode was cut off, and the
            dictionary of infos with "command" (3,).

        Raises:
            ArgumentError: an action of a wrong shape or not finite.
        """
        action = check_vector("action", action, (self.task.action_size,), "one for each actuated joint")
        observations, rewards, has_fallen, is_cut_off = self.task.step(action[np.newaxis])
        infos = {"command": self.task.command[0]}
        self._show()
        return observations[0], float(rewards[0]), bool(has_fallen[0]), bool(is_cut_off[0]), infos

    @property
    def viewer(self) -> Viewer:
        """Viewer of the page that shows the robot; raises a `QuaddynError` without a render mode."""
        return self._renderer.viewer

    def _show(self) -> None:
        """Draws the present state in the mode "human"."""
        if self.render_mode == "human":
            self._renderer.draw()

    def render(self) -> Picture | None:
        """Returns a picture (480, 640, 3) of the present state in the mode "rgb_array"; else None."""
        return self._renderer.draw() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the page and the browser."""
        self._renderer.close()
