"""`LogBuilder`: collects states, torques and contacts of a plant tick by tick for a `Log`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .log import Log, make_joint_fields
from .records import Checkpoint, ContactPoint


class LogBuilder:
    """Buffers for the ticks of a run.

    Args:
        robot: robot of the plant.
        start: state at the start of the run.
        steps_per_tick: time steps per tick.
        ticks: maximum number of ticks.
        spheres: names whose forces are recorded even if they are zero.
        record_residuals: whether to record the residual of each level of whole-body control.
    """

    __slots__ = (
        "_forces",
        "_outcomes",
        "_q",
        "_record_residuals",
        "_residuals",
        "_robot",
        "_start",
        "_steps_per_tick",
        "_tau",
        "_time",
        "_v",
    )

    def __init__(
        self,
        robot: Robot,
        start: Checkpoint,
        steps_per_tick: int,
        ticks: int,
        spheres: Sequence[str],
        record_residuals: bool,
    ) -> None:
        self._robot, self._start, self._steps_per_tick, self._record_residuals = (
            robot,
            start,
            steps_per_tick,
            record_residuals,
        )
        self._time = np.empty(ticks)
        self._q, self._v, self._tau = (np.empty((ticks, n)) for n in (robot.nq, robot.nv, robot.nu))
        self._forces = {name: np.zeros((ticks, 3)) for name in spheres}
        self._outcomes, self._residuals = list[str](), list[list[float]]()

    def record_state(self, i: int, time: float, q: Array, v: Array) -> None:
        """Records the state of the plant before the controller is called.

        Args:
            i: number of the tick, from 0.
            time: time of the plant [s].
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        self._time[i], self._q[i], self._v[i] = time, q, v

    def record_command(self, i: int, command: object, tau: Any, contacts: Sequence[ContactPoint]) -> None:
        """Records the command of a tick and the contacts after it.

        Args:
            i: number of the tick.
            command: value that the controller returned.
            tau: (nu,) torques of that value [N m or N].
            contacts: contacts of the last step.
        """
        self._tau[i] = tau
        for contact in contacts:
            name = contact.sphere if contact.link is None else contact.link
            self._forces.setdefault(name, np.zeros((len(self._time), 3)))[i] += contact.force
        self._outcomes.append(_read_outcome(command))
        self._residuals.append(_read_level_residuals(command) if self._record_residuals else [])

    def build(self) -> Log:
        """Returns the log of all ticks."""
        forces = np.array(list(self._forces.values())).reshape(-1, len(self._time), 3).transpose(1, 0, 2)
        return Log(
            self._start,
            self._steps_per_tick,
            frozen(self._time),
            frozen(self._q),
            frozen(self._v),
            frozen(self._tau),
            frozen(forces),
            tuple(self._forces),
            status=tuple(self._outcomes),
            level_residuals=_pad_rows(self._residuals),
            **make_joint_fields(self._robot),
            robot_record=self._robot,
        )


def _read_outcome(command: object) -> str:
    """Returns the outcome of a command's whole-body control; its mode without that; "" for torques only."""
    wbc_command = getattr(command, "wbc_command", command)
    if wbc_command is None:
        return str(getattr(getattr(command, "mode", None), "value", ""))
    return str(getattr(getattr(wbc_command, "status", None), "outcome", ""))


def _read_level_residuals(command: object) -> list[float]:
    """Returns the residual of each level of a command's whole-body control [m/s^2]."""
    return [level.residual for level in getattr(getattr(command, "wbc_command", command), "levels", ())]


def _pad_rows(rows: list[list[float]]) -> Array:
    """Returns rows of different lengths as one array, padded with NaN."""
    out = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for padded, row in zip(out, rows, strict=True):
        padded[: len(row)] = row
    return frozen(out)
