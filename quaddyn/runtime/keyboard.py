"""`KeyboardOperator`: a robot driven from the terminal that the loop runs in."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import number
from .operator import Operator
from .stages import Stage

#: Direction of each key: forward, leftward, yaw.
DIRECTIONS = {"w": (1, 0, 0), "s": (-1, 0, 0), "a": (0, 1, 0), "d": (0, -1, 0), "q": (0, 0, 1), "e": (0, 0, -1)}
HELP = "r run, w a s d q e move, x stand, l lie down, o off, SPACE stop at once, z forget a fault"
#: Bytes that are looked at in a tick.
MOST = 64


@renamed_attributes(step="velocity_step", most="max_velocity", press="handle_key", raw="raw_terminal")
class KeyboardOperator(Operator, fixed=("velocity_step", "max_velocity")):
    """Keys of a terminal, see `HELP`; every key is a sign of life, and none is waited for.

    A terminal does not report when a key is released: the velocity stays until the next key, and a robot without an
    operator stops after `deadman_timeout`.  Run the loop inside the context `raw_terminal`, so that keys arrive without
    Enter.

    Args:
        deadman_timeout: how long no key may come while the robot runs before it lies down [s].
        step: of the velocity by each key: forward, leftward [m/s], yaw rate [rad/s].
        most: largest of each.
        file: of the terminal.

    Raises:
        ArgumentError: a time, step or bound that is not positive.
    """

    @renamed_parameters(dead_man="deadman_timeout", step="velocity_step", most="max_velocity")
    def __init__(
        self,
        *,
        deadman_timeout: float = 5.0,
        velocity_step: tuple[float, float, float] = (0.1, 0.1, 0.2),
        max_velocity: tuple[float, float, float] = (0.6, 0.3, 0.8),
        file: TextIO | None = None,
    ) -> None:
        super().__init__(deadman_timeout=deadman_timeout)
        for name, values in (("velocity_step", velocity_step), ("max_velocity", max_velocity)):
            if len(values) != 3 or not all(number(name, x) > 0.0 for x in values):
                raise ArgumentError(f"{name}: expected three positive numbers, got {values}")
        self.velocity_step, self.max_velocity = velocity_step, max_velocity
        self._file = (sys.stdin if file is None else file).fileno()

    @contextlib.contextmanager
    def raw_terminal(self) -> Iterator[KeyboardOperator]:
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

    def read_device(self, now: float) -> None:
        """Take the keys that have come."""
        ready, _, _ = select.select([self._file], [], [], 0.0)
        for key in os.read(self._file, MOST).decode("ascii", "ignore").lower() if ready else "":
            self.handle_key(key)

    def handle_key(self, key: str) -> None:
        """What a key does; one that means nothing is a sign of life."""
        self.keep_alive()
        if key == " ":
            self.emergency_stop("space bar")
        elif key == "r":
            self.walk()
        elif key == "x":
            self._steer((0.0, 0.0, 0.0))
        elif key == "l":
            self.damp()
        elif key == "o":
            self.power_off()
        elif key == "z":
            self.reset()
        elif key in DIRECTIONS:
            way = zip(self._velocity, DIRECTIONS[key], self.velocity_step, self.max_velocity, strict=True)
            x, y, turn = (min(max(v + sign * step, -most), most) for v, sign, step, most in way)
            self._steer((x, y, turn))

    def _steer(self, velocity: tuple[float, float, float]) -> None:
        if self._goal is Stage.RUN:  # a direction alone makes nobody stand up
            self.walk(velocity)
