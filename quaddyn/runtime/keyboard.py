"""`KeyboardOperator`: a robot driven from the terminal that the loop runs in."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

from ..errors import ArgumentError
from ..robot.arguments import number
from .operator import Operator
from .stages import Stage

#: Direction of each key: forward, leftward, yaw.
DIRECTIONS = {"w": (1, 0, 0), "s": (-1, 0, 0), "a": (0, 1, 0), "d": (0, -1, 0), "q": (0, 0, 1), "e": (0, 0, -1)}
HELP = "r run, w a s d q e move, x stand, l lie down, o off, SPACE stop at once, z forget a fault"
#: Bytes that are looked at in a tick.
MOST = 64


class KeyboardOperator(Operator, fixed=("step", "most")):
    """Keys of a terminal, see `HELP`; every key is a sign of life, and none is waited for.

    A terminal does not tell when a key is let go: velocities stay until the next key, and `dead_man` is what stops a
    robot whose operator has gone.  Use it as a context, or inside `raw`, so that keys come without Enter.

    Args:
        dead_man: how long no key may come while the robot runs before it lies down [s].
        step: of the velocity by each key: forward, leftward [m/s], yaw rate [rad/s].
        most: largest of each.
        file: of the terminal.

    Raises:
        ArgumentError: a time, step or bound that is not positive.
    """

    def __init__(
        self,
        *,
        dead_man: float = 5.0,
        step: tuple[float, float, float] = (0.1, 0.1, 0.2),
        most: tuple[float, float, float] = (0.6, 0.3, 0.8),
        file: TextIO | None = None,
    ) -> None:
        super().__init__(dead_man=dead_man)
        for name, values in (("step", step), ("most", most)):
            if len(values) != 3 or not all(number(name, x) > 0.0 for x in values):
                raise ArgumentError(f"{name}: expected three positive numbers, got {values}")
        self.step, self.most = step, most
        self._file = (sys.stdin if file is None else file).fileno()

    @contextlib.contextmanager
    def raw(self) -> Iterator[KeyboardOperator]:
        """Let keys come at once and unseen, for as long as the context lasts; as it is where this is no terminal."""
        if not os.isatty(self._file):
            yield self
            return
        import termios
        import tty

        before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        try:
            yield self
        finally:
            termios.tcsetattr(self._file, termios.TCSADRAIN, before)

    def listen(self, now: float) -> None:
        """Take the keys that have come."""
        ready, _, _ = select.select([self._file], [], [], 0.0)
        for key in os.read(self._file, MOST).decode("ascii", "ignore").lower() if ready else "":
            self.press(key)

    def press(self, key: str) -> None:
        """What a key does; one that means nothing is a sign of life."""
        self.keep_alive()
        if key == " ":
            self.stop("space bar")
        elif key == "r":
            self.run()
        elif key == "x":
            self._steer((0.0, 0.0, 0.0))
        elif key == "l":
            self.damp()
        elif key == "o":
            self.off()
        elif key == "z":
            self.reset()
        elif key in DIRECTIONS:
            way = zip(self._velocity, DIRECTIONS[key], self.step, self.most, strict=True)
            x, y, turn = (min(max(v + sign * step, -most), most) for v, sign, step, most in way)
            self._steer((x, y, turn))

    def _steer(self, velocity: tuple[float, float, float]) -> None:
        if self._goal is Stage.RUN:  # a direction alone makes nobody stand up
            self.run(velocity)
