"""`Stage` and `StageMachine`: off, damp, stand up, run, lie down and the transitions between them."""

from __future__ import annotations

import enum

from ..deprecation import renamed_attributes


@renamed_attributes(controlled="is_controlled")
class Stage(enum.Enum):
    """Stage of a control loop, which determines what the robot may do.

    Attributes:
        is_controlled: whether the controller computes the commands in this stage.
    """

    is_controlled: bool

    OFF = "off"
    DAMP = "damp"
    STAND_UP = "stand up"
    RUN = "run"
    LIE_DOWN = "lie down"

    def __init__(self, value: str) -> None:
        self.is_controlled = value in ("stand up", "run", "lie down")

    __hash__ = object.__hash__  # that of Enum is computed in Python


#: Next stage of each stage by the requested stage, once the present one is completed; faults lead to DAMP at once.
TRANSITIONS = {
    Stage.OFF: {Stage.DAMP: Stage.DAMP, Stage.RUN: Stage.DAMP},
    Stage.DAMP: {Stage.OFF: Stage.OFF, Stage.RUN: Stage.STAND_UP},
    Stage.STAND_UP: {Stage.RUN: Stage.RUN, Stage.DAMP: Stage.LIE_DOWN, Stage.OFF: Stage.LIE_DOWN},
    Stage.RUN: {Stage.DAMP: Stage.LIE_DOWN, Stage.OFF: Stage.LIE_DOWN},
    Stage.LIE_DOWN: {Stage.DAMP: Stage.DAMP, Stage.OFF: Stage.DAMP, Stage.RUN: Stage.STAND_UP},
}


class StageMachine:
    """State machine that leads a robot to the requested stage.

    Attributes:
        stage: present stage; OFF at first.
    """

    def __init__(self) -> None:
        self.stage = Stage.OFF

    def advance(self, goal: Stage, *, is_settled: bool, fault: bool) -> Stage:
        """Makes at most one transition and returns the new stage.

        Args:
            goal: stage requested by the operator: OFF, DAMP or RUN.
            is_settled: whether the controller has completed the present stage.
            fault: whether a fault is latched.
        """
        if fault:
            self.stage = Stage.OFF if goal is Stage.OFF and self.stage is Stage.OFF else Stage.DAMP
            return self.stage
        following = TRANSITIONS[self.stage].get(goal)
        if following is None:
            return self.stage
        # Standing up and lying down are completed first, except that a robot may lie down while it stands up.
        waits = self.stage in (Stage.STAND_UP, Stage.LIE_DOWN) and following in (Stage.RUN, Stage.DAMP, Stage.STAND_UP)
        if is_settled or not waits:
            self.stage = following
        return self.stage
