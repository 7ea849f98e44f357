"""`Stage` and `StageMachine`: off, damp, stand up, run, lie down, damp, in this order and no other."""

from __future__ import annotations

import enum

from ..deprecation import renamed_attributes


@renamed_attributes(controlled="is_controlled")
class Stage(enum.Enum):
    """What a loop lets a robot do."""

    OFF = "off"
    DAMP = "damp"
    STAND_UP = "stand up"
    RUN = "run"
    LIE_DOWN = "lie down"

    @property
    def is_controlled(self) -> bool:
        """Whether the controller has a say."""
        return self in (Stage.STAND_UP, Stage.RUN, Stage.LIE_DOWN)


#: Where each stage leads when a goal is wanted, once what it does is done; faults lead to DAMP at once.
NEXT = {
    Stage.OFF: {Stage.DAMP: Stage.DAMP, Stage.RUN: Stage.DAMP},
    Stage.DAMP: {Stage.OFF: Stage.OFF, Stage.RUN: Stage.STAND_UP},
    Stage.STAND_UP: {Stage.RUN: Stage.RUN, Stage.DAMP: Stage.LIE_DOWN, Stage.OFF: Stage.LIE_DOWN},
    Stage.RUN: {Stage.DAMP: Stage.LIE_DOWN, Stage.OFF: Stage.LIE_DOWN},
    Stage.LIE_DOWN: {Stage.DAMP: Stage.DAMP, Stage.OFF: Stage.DAMP, Stage.RUN: Stage.STAND_UP},
}


class StageMachine:
    """Leads a robot to what the operator wants, stage by stage.

    Attributes:
        stage: now; OFF at first.
    """

    def __init__(self) -> None:
        self.stage = Stage.OFF

    def advance(self, goal: Stage, *, is_settled: bool, fault: bool) -> Stage:
        """One tick.

        Args:
            goal: that the operator wants: OFF, DAMP or RUN.
            is_settled: whether the controller has done what the present stage is for.
            fault: whether a fault is latched.

        Returns:
            The new stage.
        """
        if fault:
            self.stage = Stage.OFF if goal is Stage.OFF and self.stage is Stage.OFF else Stage.DAMP
            return self.stage
        following = NEXT[self.stage].get(goal)
        # Standing up and lying down are seen through, but a robot that stands up may be called back at once.
        waits = self.stage in (Stage.STAND_UP, Stage.LIE_DOWN) and following in (Stage.RUN, Stage.DAMP, Stage.STAND_UP)
        if following is not None and (is_settled or not waits):
            self.stage = following
        return self.stage
