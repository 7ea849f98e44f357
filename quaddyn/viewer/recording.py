"""`Recording`: the frames shown so far, and the self-contained page made of them."""

from __future__ import annotations

import base64
import gzip
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import QuaddynError
from .page import recorded_page
from .scene import SLOT, Blob

_EPS = 1e-9


class Recording:
    """Frames on one rising clock, at most `fps` a second of it.

    Times are the caller's (simulation) time [s].  A frame without a time follows the last by 1 / fps; one earlier than
    the last (a simulation was reset) starts over at that point of the clock, so that takes follow each other.

    Args:
        fps: frames kept per second.
        max_frames: the oldest frames are forgotten beyond this many.
    """

    def __init__(self, fps: float, max_frames: int) -> None:
        self.fps = fps
        self._frames: deque[tuple[float, NDArray[np.float32], str]] = deque(maxlen=max_frames)
        self.clear()

    def clear(self) -> None:
        """Forgets every frame and starts the clock anew."""
        self._frames.clear()
        self._offset = 0.0  # clock minus the caller's time
        self._clock = -np.inf  # of the last frame shown
        self._due = -np.inf  # when the next frame may be kept

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, time: float | None, poses: NDArray[np.float32], text: str) -> None:
        """Keeps a frame, (n, 10) poses of all slots, unless the last one kept is less than 1 / fps old."""
        if time is None:
            clock = 0.0 if np.isinf(self._clock) else self._clock + 1 / self.fps
        else:
            clock = time + self._offset
            if clock < self._clock:
                clock = self._clock + 1 / self.fps
                self._offset = clock - time
        self._clock = clock
        if clock < self._due - _EPS:
            return
        # Frames stay on the grid of fps, so that 1 kHz steps do not round 30 Hz down to 29.4 Hz.
        self._due = max(self._due + 1 / self.fps, clock) if np.isfinite(self._due) else clock + 1 / self.fps
        self._frames.append((clock, poses, text))

    def packet(self) -> bytes:
        """The animation as one packet: times from 0 [s], poses (frames, slots, 10), texts where they change."""
        start = self._frames[0][0]
        slots = max(len(poses) for _, poses, _ in self._frames)
        poses = np.zeros((len(self._frames), slots, SLOT), dtype=np.float32)
        texts: list[tuple[int, str]] = []
        for i, (_, shown, text) in enumerate(self._frames):
            poses[i, : len(shown)] = shown  # a slot made later was hidden before
            if not texts or texts[-1][1] != text:
                texts.append((i, text))
        blob = Blob()
        times = np.array([t - start for t, _, _ in self._frames], dtype=np.float32)
        header = {"times": blob.add(times), "poses": blob.add(_rounded(poses)), "slots": slots, "texts": texts}
        return blob.packet({"kind": "animation", **header})

    def write(self, path: Path, packets: Sequence[bytes], title: str) -> None:
        """Writes the page; `packets` are the scene and the camera.

        Raises:
            QuaddynError: nothing has been shown yet.
        """
        if not self._frames:
            raise QuaddynError("nothing to record: show() has not been called since the viewer was made or cleared")
        everything = b"".join(len(p).to_bytes(8, "little") + p for p in (*packets, self.packet()))
        data = base64.b64encode(gzip.compress(everything, 6, mtime=0)).decode()
        path.write_text(recorded_page(title, data), encoding="utf-8")


def _rounded(poses: NDArray[np.float32]) -> NDArray[np.float32]:
    """Keeps 16 bits of each mantissa (15 micrometres on a metre): the file compresses to half."""
    bits = (poses.view(np.uint32) + np.uint32(0x40)) & np.uint32(0xFFFFFF80)
    return bits.view(np.float32)
