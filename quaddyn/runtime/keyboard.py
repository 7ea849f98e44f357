"""`KeyboardOperator`: operator that reads the keys of the terminal in which the loop runs."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import check_number
from .operator import Operator
from .stages import Stage

#: Direction of the velocity change of each key: forward, leftward, yaw.
DIRECTIONS = {"w": (1, 0, 0), "s": (-1, 0, 0), "a": (0, 1, 0), "d": (0, -1, 0), "q": (0, 0, 1), "e": (0, 0, -1)}
HELP = "r run, w a s d q e move, x stand, l lie down, o off, SPACE stop at once, z clear a fault"
#: Largest number of bytes read per tick.
MAX_BYTES_PER_TICK = 64


@renamed_attributes(step="velocity_step", most="max_velocity", press="handle_key", raw="raw_terminal")
class KeyboardOperator(Operator, fixed=("velocity_step", "max_velocity")):
    """Operator by keys of a terminal, see `HELP`; every key restarts the dead-man timeout, and reading never waits.

    A terminal does not report when a key is released: the velocity stays until the next key, and a robot without an
    operator stops after `deadman_timeout`.  Run the loop inside the context `raw_terminal`, so that keys arrive without
    Enter.

    Args:
        deadman_timeout: time without a key after which a running robot lies down [s].
        velocity_step: change of the velocity by each key: forward, leftward [m/s], yaw rate [rad/s].
        max_velocity: largest magnitude of each component, in the same units.
        file: the terminal; None: standard input.

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
            if len(values) != 3 or not all(check_number(name, x) > 0.0 for x in values):
                raise ArgumentError(f"{name}: expected three positive numbers, got {values}")
        self.velocity_step, self.max_velocity = velocity_step, max_velocity
        self._file = (sys.stdin if file is None else file).fileno()

    @contextlib.contextmanager
    def raw_terminal(self) -> Iterator[KeyboardOperator]:
        """Context in which the terminal delivers keys at once and without echo; no effect if it is not a terminal."""
        if not os.isatty(self._file):
            yield self
            return
        import termios
        import tty

        previous_attributes = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        try:
            yield self
        finally:
            termios.tcsetattr(self._file, termios.TCSADRAIN, previous_attributes)

    def read_device(self, now: float) -> None:
        """Handles the keys that have arrived."""
        ready, _, _ = select.select([self._file], [], [], 0.0)
        for key in os.read(self._file, MAX_BYTES_PER_TICK).decode("ascii", "ignore").lower() if ready else "":
            self.handle_key(key)

    def handle_key(self, key: str) -> None:
        """Handles one key; an unassigned key restarts the dead-man timeout."""
        self.keep_alive()
        if key == " ":
            self.emergency_stop("space bar")
        elif key == "r":
            self.walk()
        elif key == "x":
            self._set_velocity((0.0, 0.0, 0.0))
        elif key == "l":
            self.damp()
        elif key == "o":
            self.power_off()
        elif key == "z":
            self.reset()
        elif key in DIRECTIONS:
            components = zip(self._velocity, DIRECTIONS[key], self.velocity_step, self.max_velocity, strict=True)
            x, y, turn = (min(max(v + sign * step, -limit), limit) for v, sign, step, limit in components)
            self._set_velocity((x, y, turn))

    def _set_velocity(self, velocity: tuple[float, float, float]) -> None:
        """Sets the velocity of a walking robot; has no effect in other stages."""
        if self._target_stage is Stage.RUN:  # a direction key does not make the robot stand up
            self.walk(velocity)
