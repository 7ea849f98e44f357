"""`Proprioception`: what joint torques tell of the load, of feet that touch and of feet that slip."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..dynamics import State
from ..estimation.force_sharing import share_out
from ..estimation.force_trigger import pull
from ..estimation.momentum_residual import observe
from ..estimation.slip_chain import held_friction, shown_friction, watch
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import Command
from .felt_friction import FeltFriction
from .felt_ground import FeltGround
from .grip import Grip
from .proportions import FEET, Proportions
from .unknown_load import UnknownLoad


class Proprioception:
    """The estimates that a locomotion controller was asked for; each that it was not is neutral and costs nothing.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].
        grip: is told of the friction that slips show.
        payload: whether to find and carry mass that the robot's file does not know of.
        touching: whether to find out which feet touch.
        friction: whether to find out how slippery the ground is.
    """

    __slots__ = ("_feels", "_felt", "_grip", "_load", "_normals", "_order", "_slips", "_touches")

    def __init__(
        self,
        robot: Robot,
        proportions: Proportions,
        dt: float,
        grip: Grip,
        *,
        payload: bool,
        touching: bool,
        friction: bool,
    ) -> None:
        self._grip, self._feels = grip, touching
        self._load = UnknownLoad(robot, proportions, dt) if payload else None
        self._slips = FeltFriction(robot, proportions, dt) if friction else None
        self._felt = FeltGround(robot, proportions, dt) if touching or friction else None
        self._touches: tuple[str, ...] | None = None
        self._normals, self._order = np.zeros((len(FEET), 3)), [robot.feet.index(foot) for foot in FEET]

    def warmup(self) -> None:
        """Compile what is compiled at first use."""
        for each in (observe, share_out, pull, watch, shown_friction, held_friction):
            each.compile()

    def reset(self) -> None:
        """Forget the motion and what was found."""
        if self._load is not None:
            self._load.reset()
        if self._felt is not None:
            self._felt.reset()
        if self._slips is not None:
            self._slips.reset()
            self._grip.show(math.inf)

    def pause(self) -> None:
        """Feet are not on the ground; what was found is kept."""
        if self._load is not None:
            self._load.pause()
        if self._felt is not None:
            self._felt.reset()

    # -- feet ------------------------------------------------------------------------------------------------------
    def touching(
        self,
        state: State,
        tau: Array,
        normals: Sequence[tuple[float, float, float]],
        told: tuple[str, ...] | None,
        blocked: Collection[str] = (),
        swinging: Collection[str] = (),
        *,
        flight: bool = False,
    ) -> tuple[str, ...] | None:
        """The feet that touch: as told, or as the torques say; None where the schedule is to be trusted.

        It is in gaits with flight phases: who is in the air can neither wait for the ground nor carry sooner, and what
        the centre of mass does up there is planned for the moment at which all feet are to land.

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            normals: of the ground under each foot, in the order of `FEET`.
            told: the feet that feel the ground, where that is measured.
            blocked: the feet whose paths have gone on without them.
            swinging: the feet in the middle of their swings.
            flight: whether the gait has flight phases.
        """
        self._touches = told
        if self._felt is not None and (told is None or self._slips is not None):
            self._normals[self._order] = normals
            found = self._felt.update(state, tau, self._normals, blocked, swinging)
            self._touches = found if told is None else told
        return self._touches if self._feels and not flight else told

    @property
    def forces(self) -> Mapping[str, Array] | None:
        """(3,) by foot, on the robot, world axes, as last estimated [N]; None where they are not."""
        return None if self._felt is None else self._felt.forces

    @property
    def model_mismatch(self) -> bool:
        """Whether the model does not explain the motion of feet in the air, so that estimated forces are unreliable."""
        return self._felt is not None and self._felt.model_mismatch

    @property
    def uncertainty(self) -> float:
        """Force at a foot that may be an error of the estimate [N]."""
        return 0.0 if self._felt is None else self._felt.uncertainty

    def slips(self, state: State, carrying: Collection[str], *, telling: bool, rough: bool = False) -> None:
        """Look whether feet slip, after `touching`.

        Args:
            state: now.
            carrying: the feet that are to carry.
            telling: whether their slips say how slippery the ground is.
            rough: whether a foot may scrape along edges.
        """
        if self._slips is not None and self._felt is not None and self._touches is not None:
            down = [foot for foot in carrying if foot in self._touches]
            forces, normals = self._felt.stacked, self._normals
            self._grip.show(self._slips.update(state, forces, down, normals, telling=telling, rough=rough))

    @property
    def slipping(self) -> tuple[str, ...]:
        """The feet that slip."""
        return () if self._slips is None else self._slips.slipping

    # -- load ------------------------------------------------------------------------------------------------------
    @property
    def mass(self) -> float:
        """That the robot is taken to carry beside its own [kg]."""
        return 0.0 if self._load is None else self._load.mass

    def shift(self, state: State) -> tuple[float, float]:
        """Of the centre of mass of robot and load from that of the robot, along world x and y [m]."""
        return (0.0, 0.0) if self._load is None else self._load.shift(state)

    def carry(self, state: State, tau: Array, command: Command) -> Array:
        """Torques (nu,) for the robot and its load [N m].

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            command: for the robot without its load.
        """
        if self._load is None:
            return command.tau
        self._load.update(state, tau)
        return command.tau + self._load.torques(state, command.forces)
