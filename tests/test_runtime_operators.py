"""Keyboard and gamepad operators: their requests, and the effect of released keys and buttons."""

from __future__ import annotations

import os

import pytest
from raising import raises

import quaddyn as qd
from quaddyn.runtime import GamepadOperator, KeyboardOperator, Operator, Stage
from quaddyn.runtime.gamepad import AXES, BUTTONS


def test_keys_are_read_without_blocking_and_the_robot_lies_down_without_keys() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as file:
        operator = KeyboardOperator(deadman_timeout=1.0, file=file)
        with operator.raw_terminal():  # a pipe is not a terminal
            assert operator.poll(0.0).target_stage is Stage.DAMP
            os.write(write, b"w")  # a direction alone does not make the robot stand up
            assert operator.poll(0.1).target_stage is Stage.DAMP
            os.write(write, b"rwWwaq")
            request = operator.poll(0.2)
            assert request.target_stage is Stage.RUN and request.velocity == pytest.approx((0.3, 0.1, 0.2))
            os.write(write, b"w" * 20 + b"d" * 9)
            assert operator.poll(0.3).velocity == pytest.approx((0.6, -0.3, 0.2))
            os.write(write, b"x")
            assert operator.poll(0.4).velocity == (0.0, 0.0, 0.0)
            os.write(write, b"?")  # resets the dead-man timeout
            assert operator.poll(1.3).target_stage is operator.poll(2.2).target_stage is Stage.RUN
            assert operator.poll(2.4).target_stage is Stage.DAMP
            os.write(write, b" ")
            assert operator.poll(2.5).stop_reason == "space bar"
            os.write(write, b"z")
            request = operator.poll(2.6)
            assert request.reset_fault and not request.stop_reason and request.target_stage is Stage.DAMP
            assert not operator.poll(2.65).reset_fault
            os.write(write, b"rl")
            assert operator.poll(2.7).target_stage is Stage.DAMP
            os.write(write, b"o")
            assert operator.poll(2.8).target_stage is Stage.OFF
    os.close(write)
    for wrong in ({"velocity_step": (0.1, 0.1)}, {"max_velocity": (0.0, 1.0, 1.0)}, {"deadman_timeout": 0.0}):
        raises(qd.ArgumentError, next(iter(wrong)), KeyboardOperator, **wrong)


class Pad:
    """A gamepad."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.ways = {"forward": 0.0, "left": 0.0, "turn": 0.0}
        self.gone = False

    def get_axis(self, axis: int) -> float:
        return next(self.ways[name] for name, number in AXES.items() if number == axis)

    def get_button(self, button: int) -> bool:
        if self.gone:
            raise RuntimeError("Joystick not initialized")
        return any(BUTTONS[name] == button for name in self.down)


def test_gamepad_moves_the_robot_only_while_the_hold_button_is_pressed() -> None:
    pad = Pad()
    operator = GamepadOperator(pad, deadman_timeout=1.0)
    operator.poll(0.0)
    pad.down = {"run"}
    assert operator.poll(0.1).target_stage is Stage.DAMP  # without the hold button
    pad.down = {"hold"}
    assert operator.poll(0.2).target_stage is Stage.DAMP  # not later either
    pad.down, pad.ways = {"run", "hold"}, {"forward": -1.0, "left": 0.5, "turn": 0.05}
    request = operator.poll(0.3)
    assert request.target_stage is Stage.RUN and request.velocity == pytest.approx((0.6, -0.15, 0.0))
    pad.down = {"hold"}
    assert operator.poll(5.0).target_stage is Stage.RUN
    pad.down = set()
    assert operator.poll(5.5).velocity == (0.0, 0.0, 0.0) and operator.poll(5.9).target_stage is Stage.RUN
    assert operator.poll(6.1).target_stage is Stage.DAMP
    pad.down = {"hold"}  # pressing it again is not sufficient
    assert operator.poll(6.2).target_stage is Stage.DAMP and operator.poll(6.3).target_stage is Stage.DAMP
    pad.down = {"hold", "run"}
    assert operator.poll(6.4).target_stage is Stage.RUN
    pad.down = {"hold", "stop"}
    assert operator.poll(6.5).stop_reason == "gamepad"
    pad.down = {"reset"}
    assert operator.poll(6.6).reset_fault and operator.poll(6.7).target_stage is Stage.DAMP
    pad.down = {"off"}
    assert operator.poll(6.8).target_stage is Stage.OFF


def test_an_unplugged_gamepad_has_released_buttons() -> None:
    pad = Pad()
    operator = GamepadOperator(pad, deadman_timeout=0.5)
    operator.poll(0.0)
    pad.down, pad.ways["forward"] = {"run", "hold"}, -1.0
    assert operator.poll(0.1).velocity[0] > 0.0
    pad.gone = True
    assert operator.poll(0.2).velocity == (0.0, 0.0, 0.0) and operator.poll(0.7).target_stage is Stage.DAMP
    for wrong in ({"buttons": {"jump": 3}}, {"axes": {"up": 1}}, {"max_velocity": (1.0, 1.0, -1.0)}):
        raises(qd.ArgumentError, next(iter(wrong)), GamepadOperator, pad, **wrong)


@pytest.mark.parametrize("end", ["damp", "power_off", "emergency_stop", "reset", "silence"])
def test_a_stop_sets_the_requested_velocity_to_zero(end: str) -> None:
    operator = Operator(deadman_timeout=1.0)
    operator.walk((0.3, -0.1, 0.2))
    assert operator.poll(0.0).velocity == (0.3, -0.1, 0.2)
    if end != "silence":
        getattr(operator, end)()
    request = operator.poll(1.5 if end == "silence" else 0.1)
    assert (
        request.stop_reason
        if end == "emergency_stop"
        else request.target_stage is not Stage.RUN and request.velocity == (0.0, 0.0, 0.0)
    )
