"""`GamepadOperator`: operator by gamepad, with a hold button as dead-man switch."""

from __future__ import annotations

import os
from typing import Any, Protocol

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, QuaddynError
from ..extras import import_extra
from ..robot.arguments import check_number
from .operator import Operator

#: Deflections below this fraction of the range are ignored.
DEAD_ZONE = 0.1
#: Numbers of buttons and axes of an Xbox gamepad in SDL.
BUTTONS = {"run": 0, "lie down": 1, "stop": 2, "off": 6, "reset": 7, "hold": 5}
AXES = {"forward": 1, "left": 0, "turn": 3}


class Pad(Protocol):
    """Methods required of a gamepad, the same as those of ``pygame.joystick.Joystick``."""

    def get_axis(self, axis: int, /) -> float: ...  # noqa: D102
    def get_button(self, button: int, /) -> bool: ...  # noqa: D102


@renamed_attributes(most="max_velocity")
class GamepadOperator(Operator, fixed=("max_velocity", "buttons", "axes")):
    """Operator by gamepad: sticks move the robot while the hold button is pressed; without it the robot stands.

    The hold button is the dead-man switch: when it stays released for `deadman_timeout`, the robot lies down.

    Args:
        pad: a ``pygame.joystick.Joystick``; None: the first connected one (extra: gamepad).
        deadman_timeout: time with the hold button released after which a running robot lies down [s].
        max_velocity: velocity at full deflection: forward, leftward [m/s], yaw rate [rad/s].
        buttons: index of the buttons "run", "lie down", "stop", "off", "reset", "hold" by name; None, or missing names:
            as in `BUTTONS`.
        axes: index of the axes "forward", "left", "turn" by name, each negative when pushed forward or to the left;
            None, or missing names: as in `AXES`.

    Raises:
        QuaddynError: no gamepad, or pygame is not installed.
        ArgumentError: an unknown name, or a velocity that is not positive.
    """

    @renamed_parameters(dead_man="deadman_timeout", most="max_velocity")
    def __init__(
        self,
        pad: Pad | None = None,
        *,
        deadman_timeout: float = 2.0,
        max_velocity: tuple[float, float, float] = (0.6, 0.3, 0.8),
        buttons: dict[str, int] | None = None,
        axes: dict[str, int] | None = None,
    ) -> None:
        super().__init__(deadman_timeout=deadman_timeout)
        for what, given, known in (("buttons", buttons, BUTTONS), ("axes", axes, AXES)):
            if unknown := sorted(set(given or {}) - set(known)):
                raise ArgumentError(f"{what}: expected names from {', '.join(known)}, got {unknown}")
        if len(max_velocity) != 3 or not all(check_number("max_velocity", x) > 0.0 for x in max_velocity):
            raise ArgumentError(f"max_velocity: expected three positive numbers, got {max_velocity}")
        self.max_velocity, self.buttons, self.axes = max_velocity, BUTTONS | (buttons or {}), AXES | (axes or {})
        self._update_pad: Any = None
        if pad is None:
            pad, self._update_pad = _first_pad()
        self._pad, self._previous_buttons, self._is_running = pad, dict.fromkeys(self.buttons, True), False

    def read_device(self, now: float) -> None:
        """Reads the gamepad; all buttons of a disconnected one are released."""
        if self._update_pad is not None:
            self._update_pad()
        try:
            is_pressed = {name: bool(self._pad.get_button(number)) for name, number in self.buttons.items()}
            deflections = [self._pad.get_axis(self.axes[name]) for name in ("forward", "left", "turn")]
        except Exception:  # pygame.error of a disconnected pad
            is_pressed, deflections = dict.fromkeys(self.buttons, False), [0.0, 0.0, 0.0]
        newly_pressed = {name for name in is_pressed if is_pressed[name] and not self._previous_buttons[name]}
        self._previous_buttons = is_pressed
        if is_pressed["stop"]:
            self.emergency_stop("gamepad")
        if "reset" in newly_pressed:
            self.reset()
            self._is_running = False
        if "lie down" in newly_pressed or "off" in newly_pressed:
            (self.power_off if "off" in newly_pressed else self.damp)()
            self._is_running = False
        elif "run" in newly_pressed and is_pressed["hold"]:
            self._is_running = True
        if self._is_running and is_pressed["hold"]:
            x, y, turn = (
                -limit * (deflection if abs(deflection) > DEAD_ZONE else 0.0)
                for deflection, limit in zip(deflections, self.max_velocity, strict=True)
            )
            self.walk((x, y, turn))
        elif self._is_running:
            self._velocity = (0.0, 0.0, 0.0)
            if now - self._last_input_time > self.deadman_timeout:  # "run" must be pressed again
                self._is_running = False


def _first_pad() -> tuple[Pad, Any]:
    """Returns the first connected gamepad, and the function that updates its state."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # opens no window
    pygame = import_extra("pygame", "gamepad")
    pygame.display.init()
    pygame.joystick.init()
    if not pygame.joystick.get_count():
        raise QuaddynError("gamepad: no gamepad is connected")
    return pygame.joystick.Joystick(0), pygame.event.pump
