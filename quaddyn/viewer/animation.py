"""`Animation`: stored frames, and the self-contained page made of them.

The live and the recorded web page consist of meshcat's viewer and the scripts of this package, and do not access the
network.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import importlib.resources
import importlib.util
import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import QuaddynError
from ..operating_system import SystemPath, describe_os_error
from .figure import BodyTexts
from .scene import SLOT, Blob

#: Content security policy: the page loads nothing from outside, whatever a mesh or text contains.
_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}"
)


#: Scripts in the order of their dependencies; uPlot (MIT license, beside it) draws the plots.
_SCRIPTS = (
    "geometry.js", "flags.js", "stage.js", "plots.js", "player.js", "inspector.js", "panel.js", "drive.js", "main.js"
)  # fmt: skip


@functools.cache
def _read_text(name: str) -> str:
    """Returns the text of a file in the folder ``web`` of this subpackage."""
    return (importlib.resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


@functools.cache
def _make_scripts() -> str:
    """Returns the scripts of the page, with the plot library."""
    license_text = "/*! uPlot\n" + _read_text("uPlot.LICENSE") + "*/\n"
    return "".join(
        _make_script_element(text)
        for text in (license_text + _read_text("uPlot.iife.min.js"), *map(_read_text, _SCRIPTS))
    )


@functools.cache
def read_meshcat_script() -> str:
    """Returns the viewer script of meshcat (three.js, orbit controls, menu) from its package, with its license note.

    Raises:
        QuaddynError: the installed meshcat has no viewer script.
    """
    spec = importlib.util.find_spec("meshcat")
    folder = Path(spec.origin).parent / "viewer" / "dist" if spec is not None and spec.origin else Path("-")
    try:
        script = (folder / "main.min.js").read_text(encoding="utf-8")
        license_file = folder / "main.min.js.LICENSE.txt"
        license_text = license_file.read_text(encoding="utf-8") if license_file.is_file() else ""
    except OSError as error:
        raise QuaddynError(
            f"the file main.min.js of meshcat, which the viewer requires, cannot be read: {describe_os_error(error)}; "
            "reinstall meshcat"
        ) from None
    return license_text + "\n" + script


class RecordedPage(SystemPath):
    """Path of a recorded page, which displays the page in a notebook."""

    def _repr_html_(self) -> str:
        return embed_in_iframe(self.read_text(encoding="utf-8"))


def embed_in_iframe(page: str, *, height: int = 480) -> str:
    """Returns a page in a frame for a notebook, without access to the notebook and without a server."""
    style = f"width: 100%; height: {height}px; border: 1px solid #8884; border-radius: 6px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _make_page(title: str, policy: str, scripts: str) -> str:
    """Returns an HTML page with its content security policy."""
    styles = _read_text("uPlot.min.css") + _read_text("page.css")
    values = {"title": html.escape(title), "policy": policy, "styles": styles, "scripts": scripts}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _read_text("page.html"))


def make_live_page(title: str, hosts: Iterable[str], port: int, view_path: str, *, may_control: bool) -> str:
    """Returns the page of the server, which loads meshcat and the frames from the server.

    Args:
        title: title of the page.
        hosts: names and addresses of the server.
        port: port of the server.
        view_path: path of the page without control, for links that are passed on.
        may_control: whether the server accepts input of this page.
    """
    connect = " ".join(("'self'", *(f"ws://{host}:{port}" for host in hosts)))
    policy = _POLICY.format(script="'self' 'unsafe-inline'", connect=connect)
    call = f"showLive({json.dumps(may_control)}, {json.dumps(view_path)});"
    scripts = '<script src="meshcat.js"></script>\n' + _make_scripts() + _make_script_element(call)
    return _make_page(title, policy, scripts)


def make_recorded_page(title: str, data: str) -> str:
    """Returns the self-contained page of `data`: base64 of gzip of length-prefixed packets."""
    policy = _POLICY.format(script="'unsafe-inline'", connect="'none'")
    scripts = _make_script_element(read_meshcat_script()) + _make_scripts()
    scripts += f'<script type="application/octet-stream" id="data">{data}</script>\n' + _make_script_element(
        "playRecording();"
    )
    return _make_page(title, policy, scripts)


def _make_script_element(source: str) -> str:
    """Returns an HTML script element with this source."""
    return "<script>" + source.replace("</script", "<\\/script") + "</script>\n"


#: Tolerance of the times of frames (rounding) [s].
_TIME_TOLERANCE = 1e-9


class AnimationFrame(NamedTuple):
    """Frame of an animation."""

    time: float  # time [s]
    poses: NDArray[np.float32]  # (n, 10) position, quaternion and scale of each moving object (slot) of the scene
    text: str  # caption
    values: NDArray[np.float32]  # (m,) values of the plot channels
    report: BodyTexts | None  # index and text of each body about the tick, see `BodyReports`; None without a command


class Animation:
    """Frames at increasing times, at most `fps` per second.

    Times are those of the caller (simulation) [s]. A frame without a time follows the last one by 1 / fps. A frame
    earlier than the last one (a reset simulation) is appended after it, so that runs follow each other.

    Args:
        fps: frames stored per second.
        max_frames: maximum number of frames, beyond which the oldest are deleted.
    """

    def __init__(self, fps: float, max_frames: int) -> None:
        self.fps = fps
        self._frames: deque[AnimationFrame] = deque(maxlen=max_frames)
        self.clear()

    def clear(self) -> None:
        """Deletes all frames and restarts the time."""
        self._frames.clear()
        self._offset = 0.0  # time in the recording minus the caller's time [s]
        self._last_time = -np.inf  # time of the last frame shown [s]
        self._next_time = -np.inf  # earliest time of the next stored frame [s]

    def __len__(self) -> int:
        return len(self._frames)

    def add(
        self,
        time: float | None,
        poses: NDArray[np.float32],
        text: str,
        values: NDArray[np.float32],
        report: BodyTexts | None,
    ) -> float:
        """Stores a frame unless the last stored one is less than 1 / fps older; returns its time [s]."""
        if time is None:
            recording_time = 0.0 if np.isinf(self._last_time) else self._last_time + 1 / self.fps
        else:
            recording_time = time + self._offset
            if recording_time < self._last_time:
                recording_time = self._last_time + 1 / self.fps
                self._offset = recording_time - time
        self._last_time = recording_time
        if recording_time < self._next_time - _TIME_TOLERANCE:
            return recording_time
        # Frames stay on the grid of fps, so that 1 kHz steps do not round 30 Hz down to 29.4 Hz.
        self._next_time = (
            max(self._next_time + 1 / self.fps, recording_time)
            if np.isfinite(self._next_time)
            else recording_time + 1 / self.fps
        )
        self._frames.append(AnimationFrame(recording_time, poses, text, values, report))
        return recording_time

    def make_packet(self) -> bytes:
        """Returns the animation as one packet.

        It contains times from 0 [s], poses (frames, slots, 10), values of the channels (frames, m), and captions and
        reports where they change.
        """
        start, count = self._frames[0].time, len(self._frames)
        slots, channels = (max(len(getattr(f, kind)) for f in self._frames) for kind in ("poses", "values"))
        poses = np.zeros((count, slots, SLOT), dtype=np.float32)
        values = np.full((count, channels), np.nan, dtype=np.float32)
        texts: list[tuple[int, str]] = []
        reports: list[tuple[int, BodyTexts | None]] = []
        for i, (_, frame_poses, text, frame_values, report) in enumerate(self._frames):
            poses[i, : len(frame_poses)] = frame_poses  # a slot made later was hidden before
            values[i, : len(frame_values)] = frame_values
            if not texts or texts[-1][1] != text:
                texts.append((i, text))
            if not reports or reports[-1][1] != report:
                reports.append((i, report))
        blob = Blob()
        times = np.array([frame.time - start for frame in self._frames], dtype=np.float32)
        header = {"times": blob.add(times), "poses": blob.add(_round_mantissa(poses)), "slots": slots, "texts": texts}
        header |= {"reports": reports, "values": blob.add(_round_mantissa(values))}
        return blob.make_packet({"kind": "animation", **header})

    def make_page(self, packets: Sequence[bytes], title: str) -> str:
        """Returns the self-contained HTML page; `packets` are those of scene and camera.

        Raises:
            QuaddynError: there are no frames.
        """
        if not self._frames:
            raise QuaddynError(
                "the viewer has nothing to record, because show() was not called since it was made or cleared; call "
                "show() first"
            )
        data = b"".join(len(p).to_bytes(8, "little") + p for p in (*packets, self.make_packet()))
        return make_recorded_page(title, base64.b64encode(gzip.compress(data, 6, mtime=0)).decode())


def _round_mantissa(poses: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounds to 16 bits of mantissa (15 micrometers per meter), which halves the size of the compressed page."""
    bits = (poses.view(np.uint32) + np.uint32(0x40)) & np.uint32(0xFFFFFF80)
    return np.where(np.isnan(poses), poses, bits.view(np.float32))
