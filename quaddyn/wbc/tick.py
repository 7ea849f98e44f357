"""`Tick` and `Rows`: what tasks and constraints see of one instant, and what they say about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contacts import ContactFrame
from .scales import Scales


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """m linear rows ``lower <= A_a a + A_f f + A_tau tau <= upper`` on what a tick decides.

    Rows with ``lower == upper`` are wanted values, all others limits.  A matrix that is None is zero.

    Attributes:
        names: of the rows, for explanations: "FL friction cone", "com x".
        unit: of the rows, such as "m/s^2".
        lower, upper: (m,) in `unit`; infinite where there is no bound.
        acceleration: (m, nv).
        force: (m, nf) over the stacked forces of the tick's contacts, on the robot, world axes.
        torque: (m, nu).
        weights: (m,) that make rows of a level comparable when it cannot fulfil them all.
    """

    names: tuple[str, ...]
    unit: str
    lower: Array
    upper: Array
    acceleration: Array | None = None
    force: Array | None = None
    torque: Array | None = None
    weights: Array | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.lower)

    def check(self, owner: str, nv: int, nf: int, nu: int) -> None:
        """That an element of somebody's own has made no mistake.

        Raises:
            ArgumentError: parts that do not fit each other or the robot, or a number that is none.
        """
        m = len(self.names)
        parts = (("lower", self.lower, (m,)), ("upper", self.upper, (m,)), ("weights", self.weights, (m,)))
        matrices = (("acceleration", self.acceleration, nv), ("force", self.force, nf), ("torque", self.torque, nu))
        for what, part, shape in (*parts, *((what, part, (m, n)) for what, part, n in matrices)):
            if part is None:
                continue
            if np.shape(part) != shape:
                raise ArgumentError(f"{owner}: {what} of its rows: expected the shape {shape}, got {np.shape(part)}")
            sound = part < np.inf if what == "lower" else part > -np.inf if what == "upper" else np.isfinite(part)
            if not np.all(sound):
                raise ArgumentError(f"{owner}: {what} of its rows: NaN or infinite, got {part}")


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """One instant as tasks and constraints see it.

    Attributes:
        state: the robot's state.
        contacts: those that may carry force now, each with its place in the stacked force vector.
        dt: control period [s].
        scales: natural units of the robot.
        tau_before: (nu,) torques of the tick before [N m]; None on the first.
    """

    state: State
    contacts: tuple[ContactFrame, ...]
    dt: float
    scales: Scales
    tau_before: Array | None = None

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self.state.robot

    @property
    def nf(self) -> int:
        """Size of the stacked force vector."""
        return self.contacts[-1].columns.stop if self.contacts else 0

    def contact(self, name: str) -> ContactFrame | None:
        """The contact of that name if it may carry force now."""
        for contact in self.contacts:
            if contact.name == name:
                return contact
        return None

    def force_rows(self, contact: ContactFrame, block: Array) -> Array:
        """(m, nf) with `block` (m, contact.size) in the columns of `contact`."""
        out = np.zeros((len(block), self.nf))
        out[:, contact.columns] = block
        return out
