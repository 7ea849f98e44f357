"""`Recording`: what a controller asks of a plant and what comes of it, tick by tick, until it is a `Log`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .log import Log, recorded_joints
from .records import Checkpoint, ContactPoint


class Recording:
    """Room for a number of ticks.

    Args:
        robot: of the plant.
        start: where it begins.
        ratio: steps per tick.
        ticks: at most.
        spheres: whose forces have a place in the log in any case.
        record_residuals: whether to keep how far each level of whole-body control was missed.
    """

    __slots__ = ("_forces", "_lost", "_lost_levels", "_q", "_ratio", "_robot", "_said", "_start", "_tau", "_time", "_v")

    def __init__(
        self, robot: Robot, start: Checkpoint, ratio: int, ticks: int, spheres: Sequence[str], record_residuals: bool
    ) -> None:
        self._robot, self._start, self._ratio, self._lost_levels = robot, start, ratio, record_residuals
        self._time = np.empty(ticks)
        self._q, self._v, self._tau = (np.empty((ticks, n)) for n in (robot.nq, robot.nv, robot.nu))
        self._forces = {name: np.zeros((ticks, 3)) for name in spheres}
        self._said, self._lost = list[str](), list[list[float]]()

    def before(self, i: int, time: float, q: Array, v: Array) -> None:
        """The controller is about to be asked for the i-th time.

        Args:
            i: from 0.
            time: of the plant [s].
            q: (nq,) its configuration.
            v: (nv,) its velocity.
        """
        self._time[i], self._q[i], self._v[i] = time, q, v

    def after(self, i: int, answer: object, tau: Any, contacts: Sequence[ContactPoint]) -> None:
        """Its answer was carried out.

        Args:
            i: as before.
            answer: of the controller.
            tau: (nu,) that it asked for [N m].
            contacts: of the last step.
        """
        self._tau[i] = tau
        for contact in contacts:
            name = contact.sphere if contact.link is None else contact.link
            self._forces.setdefault(name, np.zeros((len(self._time), 3)))[i] += contact.force
        self._said.append(_outcome(answer))
        self._lost.append(_lost(answer) if self._lost_levels else [])

    def log(self) -> Log:
        """Of all ticks."""
        forces = np.array(list(self._forces.values())).reshape(-1, len(self._time), 3).transpose(1, 0, 2)
        return Log(
            self._start,
            self._ratio,
            frozen(self._time),
            frozen(self._q),
            frozen(self._v),
            frozen(self._tau),
            frozen(forces),
            tuple(self._forces),
            status=tuple(self._said),
            level_residuals=_table(self._lost),
            **recorded_joints(self._robot),
        )


def _outcome(answer: object) -> str:
    """Of a command, the outcome of its whole-body control; its mode where it did without, "" where there is neither."""
    whole = getattr(answer, "wbc_command", answer)
    if whole is None:
        return str(getattr(getattr(answer, "mode", None), "value", ""))
    return str(getattr(getattr(whole, "status", None), "outcome", ""))


def _lost(answer: object) -> list[float]:
    """What each level of a command's whole-body control lacks."""
    return [level.residual for level in getattr(getattr(answer, "wbc_command", answer), "levels", ())]


def _table(rows: list[list[float]]) -> Array:
    """Rows of several lengths side by side; nan where there is nothing."""
    out = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for to, row in zip(out, rows, strict=True):
        to[: len(row)] = row
    return frozen(out)
