"""`Steps`: what of a velocity the steps ahead allow, on ground that is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import limbs_of
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .foothold_map import EVEN
from .gait import Gait
from .ground_window import STEEP, Window
from .leg_limits import LegLimits
from .proportions import FEET, Proportions
from .steps_kernel import Way, find_edges
from .trunk import CROUCH

# Lengths in units of l.
#: How far ahead of the front feet an edge counts, and how much farther for who stands before one.
AHEAD, FARTHER = 0.8, 0.2
#: How far the robot goes, and how much it turns [rad], until the way is looked at again.
MOVED, TURNED = 0.05, 0.1
#: Ditches that are narrower are stepped across.
GAP = 0.25
#: Over how long a way the slope of steps is taken.
FLIGHT = 1.0
#: Way of a foot up and down for every height of an edge: who climbs has to be over it before the foot goes on.
UP, DOWN = 1.3, 0.6
#: No foot is lifted over more, and nothing is higher.
TALLEST, ENDLESS = 0.4, 10.0
#: How far above an edge a leg must be able to lift its foot; swings go for more (`foothold_map.CLEAR`) where they can.
OVER = 0.05
#: Least share of a command that is worth going with; below it the robot stands.
#: How much lower steps have to be for who stands before them.
LEAST, LOWER = 0.3, 0.85
#: Half the width of a place for which a leg's room is known, places forward and back, angles of a joint looked at, and
#: of one that moves the foot aside.
ABOUT, PLACES, ANGLES, ASIDE = 0.12, np.linspace(-0.4, 0.4, 17), 41, 9
#: What cuts a velocity.
FAST, HIGH, TALL = "steps ahead: speed of the joints", "steps ahead: reach of", "steps ahead: too high"


#: Results of `lift` by all the numbers that they follow from, of the last `MAX_LIFTS` legs: a result takes 30 ms.
_lifts: dict[bytes, Array] = {}
MAX_LIFTS = 64


class Edges(NamedTuple):
    """Of the ground along a way [l].

    Attributes:
        up: height of the highest one that rises.
        down: height of the highest one that falls.
        slope: the steepest rise or fall over `FLIGHT`.
    """

    up: float = 0.0
    down: float = 0.0
    slope: float = 0.0


class Steps:
    """Cuts velocities for edges across the way, and refuses steps that are too high for the legs.

    An edge is where most ground across the way rises or falls at once: boxes that lie about are gone around or over,
    one foot at a time, and narrow ditches are stepped across.  Behind what is not known, the ground begins where it is
    known again.  Two things limit what legs do there.

    *Speed of the joints*: in a swing they have time for some way of the foot, ``quick`` (`LegLimits`), of which the way
    against the hip and that over the edge are two sides at a right angle.

    *Range of the joints*: forward and back of its hip, at both ends of the stride, the leg has to lift its foot by the
    height of the edge and what it clears it by, while the trunk is as low as the slope of the steps has it.

    Edges behind the middle of the robot, which its rear feet are still to pass, slow it down and stop nobody.  Who was
    stopped may turn in place, and goes on where steps are clearly low enough.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        legs: what of a velocity they can do on level ground.
    """

    __slots__ = (
        "_answer",
        "_asked",
        "_at",
        "_before",
        "_behind",
        "_legs",
        "_lift",
        "_p",
        "_stance",
        "_stopped",
        "_window",
        "_work",
    )

    def __init__(self, robot: Robot, proportions: Proportions, legs: LegLimits) -> None:
        self._p, self._legs = proportions, legs
        self._stance: list[float] = np.abs(proportions.stance).max(axis=0).tolist()
        limbs = limbs_of(robot)
        self._lift = [lift(limbs[foot].chain, i, proportions) for i, foot in enumerate(FEET)]
        self.reset()

    def reset(self) -> None:
        """Forget the ground."""
        self._window: Array | None = None
        self._at = 0.0, 0.0, 0.0
        self._work = np.empty((2, 0))
        self._before = self._behind = Edges()
        self._stopped = False
        self._asked: tuple[object, ...] | None = None
        self._answer = 1.0, ""

    def within(
        self, gait: Gait, velocity: Array, limit: str, window: Window, place: tuple[float, float], yaw: float
    ) -> tuple[Array, str]:
        """The part of a velocity that the steps ahead allow, and what cuts it.

        Args:
            gait: to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            limit: what has cut it so far, "" where nothing did.
            window: the ground about the robot.
            place: of the robot, world [m].
            yaw: of the heading frame [rad].
        """
        x, y, turn = velocity.tolist()
        if not (x or y):
            return velocity, limit
        way = math.atan2(y, x)
        self._look(window, place, yaw + way)
        before, behind = self._before, self._behind
        if not (before.up or before.down or behind.up or behind.down):
            self._stopped = False
            return velocity, limit
        asked = gait, x, y, turn, before, behind, self._stopped
        if asked != self._asked:  # neither commands nor edges change at every tick
            share, why = self._share(gait, velocity, way, before, 1.0 / LOWER if self._stopped else 1.0)
            slowly, slow = self._share(gait, velocity, way, behind)
            self._asked, self._answer = asked, min((share, why), (max(LEAST, slowly), slow))
        share, why = self._answer
        self._stopped = share < LEAST
        if self._stopped:
            return np.array([0.0, 0.0, turn]), why
        return (share * velocity, why) if share < 1.0 else (velocity, limit)

    def _share(self, gait: Gait, velocity: Array, way: float, edges: Edges, more: float = 1.0) -> tuple[float, str]:
        """What edges leave of a velocity, and what cuts it; `more` times as high ones."""
        p, (x, y, turn) = self._p, velocity.tolist()
        if more * max(edges.up, edges.down) > TALLEST:
            return 0.0, TALL
        rise = more * max(UP * edges.up, DOWN * edges.down)
        if not rise:
            return 1.0, ""
        stride = self._legs.speed(x, y, turn) * gait.duty * gait.period * p.time / p.length
        left = self._legs.quick(gait) ** 2 - rise**2
        cuts = [(1.0, ""), (math.sqrt(max(left, 0.0)) / max(stride, 1e-9), FAST)]
        low, half = CROUCH * math.sin(math.atan(edges.slope)), 0.5 * stride * math.cos(way)
        shares = np.linspace(1.0, LEAST, 15)
        for i, foot in enumerate(FEET):
            need = rise + OVER + float(p.radii[i]) / p.length + low
            room = np.minimum(*(np.interp(end * half * shares, PLACES, self._lift[i]) for end in (-1.0, 1.0)))
            enough = np.flatnonzero(room >= need)
            cuts.append((float(shares[enough[0]]) if enough.size else 0.0, f"{HIGH} {foot}"))
        return min(cuts, key=lambda each: each[0])

    def _look(self, window: Window, place: tuple[float, float], yaw: float) -> None:
        """Find the edges along a way from a place, where that is to be looked at again."""
        p, (x, y, before) = self._p, self._at
        turned = abs(math.remainder(yaw - before, 2.0 * math.pi)) >= TURNED
        gone = math.hypot(place[0] - x, place[1] - y) >= MOVED * p.length
        if not (turned or gone) and window.heights is self._window:
            return
        self._stopped = self._stopped and not turned
        self._window, self._at = window.heights, (*place, yaw)
        cell, unit, (far, wide) = window.cell, p.length, self._stance
        back, gap, run = far + GAP * unit, round(GAP * unit / cell), round(FLIGHT * unit / cell)
        count = math.ceil((back + far + (AHEAD + self._stopped * FARTHER + GAP) * unit) / cell)
        if self._work.shape[1] != count:
            self._work = np.empty((2, count))
        steep, edges = STEEP * 2.0 * cell + EVEN * unit, np.empty(5)
        way = Way(window.heights, *window.corner, cell, *self._at, back, wide, ENDLESS * unit)
        find_edges(way, gap, run, round(back / cell), steep, self._work, edges)
        up, down, up_ahead, down_ahead, rise = (edges / unit).tolist()
        self._behind = Edges(up, down, rise / FLIGHT)
        self._before = Edges(up_ahead, down_ahead, rise / FLIGHT)


def lift(leg: Chain, i: int, proportions: Proportions) -> Array:
    """How far up a foot can be lifted at `PLACES` forward and back of where it stands, within its joints' range [l].

    `ENDLESS` for legs of more than three joints, of which too many postures would have to be looked at.

    Args:
        leg: from the trunk to the foot.
        i: number of the foot.
        proportions: of the robot.
    """
    if leg.n > 3:
        return np.full(len(PLACES), ENDLESS)
    p = proportions
    numbers = (*p.stance[i], *p.hips[i], p.radii[i], p.length, p.height, float(p.sideways))
    key = leg.content + np.concatenate([p.heading.ravel(), numbers]).tobytes()
    if key in _lifts:
        return _lifts[key]
    origins, _, tip = leg.forward(leg.postures(((ASIDE,) * (leg.n == 3) + (ANGLES, ANGLES))[-leg.n :]))
    at = (tip - origins[:, 0]) @ p.heading / p.length
    place = (p.stance[i] - p.hips[i, :2]) / p.length
    ground = (float(p.radii[i]) - p.height - float(p.hips[i, 2])) / p.length
    at = at[np.abs(at[:, 1] - place[1]) < ABOUT] if p.sideways else at
    half = 0.5 * float(PLACES[1] - PLACES[0])
    out = np.zeros(len(PLACES))
    for k, ahead in enumerate(PLACES):
        heights = at[np.abs(at[:, 0] - place[0] - ahead) < half, 2]
        out[k] = max(0.0, float(heights.max(initial=ground)) - ground)
    while len(_lifts) >= MAX_LIFTS:
        _lifts.pop(next(iter(_lifts)), None)
    _lifts[key] = frozen(out)
    return out
