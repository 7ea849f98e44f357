"""`TaskRenderer`: pages and pictures of the robots of a `VelocityTask`."""

from __future__ import annotations

import contextlib
import io
import time
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, QuaddynError
from ..strict_attributes import StrictAttributes
from ..viewer import Viewer
from ..viewer.video import open_page_pictures
from .velocity_task import VelocityTask

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
