"""`Animation`: stored frames, and the self-contained page made of them."""

from __future__ import annotations

import base64
import gzip
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import QuaddynError
from .page import recorded_page
from .scene import SLOT, Blob

_EPS = 1e-9


class AnimationFrame(NamedTuple):
    """One frame: time [s], (n, 10) poses of the slots, caption, (m,) values of the plot channels."""

    clock: float
    poses: NDArray[np.float32]
    text: str
    values: NDArray[np.float32]


class Animation:
    """Frames at increasing times, at most `fps` per second.

    Times are those of the caller (simulation) [s]. A frame without a time follows the last one by 1 / fps. A frame
    earlier than the last one (a reset simulation) is appended after it, so that takes follow each other.

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
        self._offset = 0.0  # clock minus the caller's time
        self._clock = -np.inf  # of the last frame shown
        self._due = -np.inf  # when the next frame may be kept

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, time: float | None, poses: NDArray[np.float32], text: str, values: NDArray[np.float32]) -> float:
        """Stores a frame unless the last stored one is less than 1 / fps older; returns its time [s]."""
        if time is None:
            clock = 0.0 if np.isinf(self._clock) else self._clock + 1 / self.fps
        else:
            clock = time + self._offset
            if clock < self._clock:
                clock = self._clock + 1 / self.fps
                self._offset = clock - time
        self._clock = clock
        if clock < self._due - _EPS:
            return clock
        # Frames stay on the grid of fps, so that 1 kHz steps do not round 30 Hz down to 29.4 Hz.
        self._due = max(self._due + 1 / self.fps, clock) if np.isfinite(self._due) else clock + 1 / self.fps
        self._frames.append(AnimationFrame(clock, poses, text, values))
        return clock

    def packet(self) -> bytes:
        """Returns the animation as one packet.

        It contains times from 0 [s], poses (frames, slots, 10), values of the channels (frames, m), and captions where
        they change.
        """
        start, count = self._frames[0].clock, len(self._frames)
        slots, channels = (max(len(getattr(f, kind)) for f in self._frames) for kind in ("poses", "values"))
        poses = np.zeros((count, slots, SLOT), dtype=np.float32)
        values = np.full((count, channels), np.nan, dtype=np.float32)
        texts: list[tuple[int, str]] = []
        for i, (_, shown, text, measured) in enumerate(self._frames):
            poses[i, : len(shown)] = shown  # a slot made later was hidden before
            values[i, : len(measured)] = measured
            if not texts or texts[-1][1] != text:
                texts.append((i, text))
        blob = Blob()
        times = np.array([frame.clock - start for frame in self._frames], dtype=np.float32)
        header = {"times": blob.add(times), "poses": blob.add(_rounded(poses)), "slots": slots, "texts": texts}
        header["values"] = blob.add(_rounded(values))
        return blob.packet({"kind": "animation", **header})

    def page(self, packets: Sequence[bytes], title: str) -> str:
        """Returns the page; `packets` are those of scene and camera.

        Raises:
            QuaddynError: there are no frames.
        """
        if not self._frames:
            raise QuaddynError("nothing to record: show() has not been called since the viewer was made or cleared")
        everything = b"".join(len(p).to_bytes(8, "little") + p for p in (*packets, self.packet()))
        return recorded_page(title, base64.b64encode(gzip.compress(everything, 6, mtime=0)).decode())


def _rounded(poses: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounds to 16 bits of mantissa (15 micrometers per meter), which halves the size of the compressed file."""
    bits = (poses.view(np.uint32) + np.uint32(0x40)) & np.uint32(0xFFFFFF80)
    return np.where(np.isnan(poses), poses, bits.view(np.float32))
