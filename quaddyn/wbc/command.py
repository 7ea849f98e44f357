"""`Command`: what is asked of the motors, with the certificate that it is what was asked of the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ..urdf.tree import Array
from .certificate import Details, LevelReport, Status, report
from .explanation import explain


class Command:
    """Torques, and everything that was decided with them.

    `details` and what follows from them (`levels`, `margins`, `explain`) are made when they are first read, from what
    the tick was told and with the controller's own elements: in the controller's thread, then.  A copy or a pickle
    holds all of it and needs no controller.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m]; where a `TorqueRate` starts from at the next tick, so copy them
            before you write to them.
        acceleration: (nv,) accelerations that result [m/s^2, rad/s^2].
        forces: by contact, (3,) at a point or (6,) on a surface, on the robot at the contact point, world axes
            [N, N m].
        status: `Status`.
        details: `Details`, the problem behind the command.
        levels: `LevelReport` of each level.
    """

    __slots__ = ("acceleration", "details", "forces", "levels", "status", "tau")

    acceleration: Array
    details: Details
    forces: Mapping[str, Array]
    levels: tuple[LevelReport, ...]
    status: Status
    tau: Array

    #: By name, how an attribute is made when it is first read.
    made: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(
        self, tau: Array, acceleration: Array, forces: Mapping[str, Array], status: Status, details: Details
    ) -> None:
        self.tau, self.acceleration, self.forces, self.status = tau, acceleration, forces, status
        self.details = details

    def __getattr__(self, name: str) -> Any:
        make = type(self).made.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        setattr(self, name, value)
        return value

    @property
    def margins(self) -> Mapping[str, float]:
        """By name of a limit, the least distance to its bounds in its own unit; negative where it is violated."""
        out: dict[str, float] = {}
        found = self.details
        for groups in found.problem.levels:
            for group in groups:
                y = group.A @ found.x
                slack = np.minimum(y - group.lower, group.upper - y)
                for name, wanted, room in zip(group.names, group.wanted.tolist(), slack.tolist(), strict=True):
                    if not wanted:
                        out[name] = min(room, out.get(name, np.inf))
        return out

    def explain(self, *, threshold: float = 1e-3, last: bool = False) -> str:
        """In words, what was lost to what; see `quaddyn.wbc.explanation`, which solves again for every suspect.

        Args:
            threshold: losses below this are not worth a sentence, in the rows' own units.
            last: also of the last of three or more levels, whose wishes are there to fill what the others leave.
        """
        return explain(self, threshold=threshold, last=last)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.tau.copy(), self.acceleration.copy(), dict(self.forces), self.status, self.details)

    def __repr__(self) -> str:
        return f"Command({self.status}, max|tau| = {np.abs(self.tau).max(initial=0.0):.4g} N m)"


def _levels(command: Command) -> tuple[LevelReport, ...]:
    found = command.details
    return tuple(report(found, k) for k in range(len(found.problem.levels)))


def _restored(tau: Array, acceleration: Array, forces: dict[str, Array], status: Status, details: Details) -> Command:
    return Command(tau, acceleration, MappingProxyType(forces), status, details)


Command.made = {"levels": _levels}
