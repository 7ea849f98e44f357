"""`Parts`: what a controller is made of; `Told`: what a tick of it was told, from which it can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..dynamics import Dynamics, State
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contacts import ContactFrame, ContactSettings, place
from .levels import NOTHING, Levels, Plain, Wishes
from .scales import Scales
from .solving import Solver
from .switching import Switch
from .tick import Rows, Tick


class Told(NamedTuple):
    """Everything that a tick was told.

    Attributes:
        q, v: the state.
        numbers, wishes: of the elements, as in `Levels`.
        before: (nu,) torques of the tick before, None on the first.
        settings: per contact (contact, least, largest force), and its height where that counts.
        shares: per contact its share and cap.
        said: rows that elements gave themselves, by name.
    """

    q: Array
    v: Array
    numbers: Array
    wishes: Wishes
    before: Array | None
    settings: tuple[Any, ...]
    shares: tuple[tuple[float, float], ...]
    said: Mapping[str, list[Rows]] = NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What the ticks of a controller have in common.

    Attributes:
        robot: the robot.
        levels: tasks and constraints.
        settings: contacts by name.
        switches: how much of each there is.
        scales: natural units.
        dt: control period [s].
        solver: of plain matrices, with the options of all.
    """

    robot: Robot
    levels: Levels
    settings: Mapping[str, ContactSettings]
    switches: Mapping[str, Switch]
    scales: Scales
    dt: float
    solver: Solver

    def tick(self, state: State, before: Array | None) -> Tick:
        """The instant as elements see it."""
        now = (
            (settings, self.switches[name].share, self.switches[name].cap) for name, settings in self.settings.items()
        )
        return self._tick(state, now, before)

    def again(self, told: Told) -> tuple[Plain, State]:
        """The plain matrices of a tick that is over, and its state."""
        state = Dynamics(self.robot, validate=False).update(told.q, told.v)
        then = []
        for (contact, minimum, maximum, *height), (share, cap) in zip(told.settings, told.shares, strict=True):
            settings = ContactSettings(self.robot, contact)
            settings.limit(minimum, maximum)
            if height:
                settings.height = height[0]
            then.append((settings, share, cap))
        with self.levels.as_told(told.numbers, told.wishes):
            return self.levels.problem(self._tick(state, then, told.before), told.said), state

    def _tick(self, state: State, contacts: Any, before: Array | None) -> Tick:
        frames: list[ContactFrame] = []
        start = 0
        for settings, share, cap in contacts:
            if share > 0.0:
                frames.append(place(state, settings, start, share, cap))
                start += settings.size
        return Tick(state, tuple(frames), self.dt, self.scales, before)
