"""`Steps`: what of a velocity the steps ahead allow, on ground that is known."""

from __future__ import annotations

import math

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import limbs_of
from ..robot.robot import Robot
from ..urdf.tree import Array
from .foothold_map import CLEAR, EVEN, HALF, STEEP, Window
from .foothold_map import MOVED as READ
from .gait import Gait
from .leg_limits import LegLimits
from .proportions import FEET, Proportions
from .trunk import CROUCH

# Lengths in units of l.
#: How far ahead of the front feet and behind the rear ones an edge counts, and lines across the way that are looked at.
AHEAD, BEHIND, LINES = 0.8, 0.2, 5
#: How far the robot goes, and how much it turns [rad], until the way is looked at again.
MOVED, TURNED = 0.1, 0.1
#: Ditches that are narrower are stepped across.
GAP = 0.25
#: Over how long a way the slope of steps is taken.
FLIGHT = 1.0
#: Way of a foot up and down for every height of an edge: who climbs has to be over it before the foot goes on.
UP, DOWN = 1.3, 0.6
#: Least share of a command that is worth going with; below it the robot stands.
LEAST = 0.3
#: Half the width of a place for which a leg's room is known, places forward and back, angles of a joint looked at.
ABOUT, PLACES, ANGLES = 0.12, np.linspace(-0.4, 0.4, 17), 41
#: What cuts a velocity.
FAST, HIGH = "steps ahead: speed of the joints", "steps ahead: reach of"


class Steps:
    """Cuts velocities for edges across the way, and refuses steps that are too high for the legs.

    An edge is where most ground across the way rises or falls at once: boxes that lie about are gone around or over,
    one foot at a time.  Two things limit what legs do there.

    *Speed of the joints*: in a swing they have time for some way of the foot, ``quick`` (`LegLimits`), of which the way
    against the hip and that over the edge are two sides at a right angle.

    *Range of the joints*: forward and back of its hip, at both ends of the stride, the leg has to lift its foot by the
    height of the edge and what it clears it by, while the trunk is as low as the slope of the steps has it.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        legs: what of a velocity they can do on level ground.
    """

    __slots__ = ("_at", "_edges", "_legs", "_lift", "_p", "_window")

    def __init__(self, robot: Robot, proportions: Proportions, legs: LegLimits) -> None:
        self._p, self._legs = proportions, legs
        limbs = limbs_of(robot)
        self._lift = [lift(limbs[foot].chain, i, proportions) for i, foot in enumerate(FEET)]
        self._window: Array | None = None
        self._at = 0.0, 0.0, 0.0
        self._edges = 0.0, 0.0, 0.0

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
        p, (x, y, turn) = self._p, velocity.tolist()
        if not (x or y):
            return velocity, limit
        aside = math.atan2(y, x)
        up, down, slope = self._ahead(window, place, yaw + aside)
        rise = max(UP * up, DOWN * down)
        if not rise:
            return velocity, limit
        stride = self._legs.speed(x, y, turn) * gait.duty * gait.period * p.time / p.length
        way = self._legs.quick(gait) ** 2 - rise**2
        cuts = [(1.0, limit), (math.sqrt(max(way, 0.0)) / stride, FAST)]
        low, half = CROUCH * math.sin(math.atan(slope)), 0.5 * stride * math.cos(aside)
        shares = np.linspace(1.0, LEAST, 15)
        for i, foot in enumerate(FEET):
            need = rise + CLEAR + float(p.radii[i]) / p.length + low
            room = np.minimum(*(np.interp(end * half * shares, PLACES, self._lift[i]) for end in (-1.0, 1.0)))
            enough = np.flatnonzero(room >= need)
            cuts.append((float(shares[enough[0]]) if enough.size else 0.0, f"{HIGH} {foot}"))
        share, limit = min(cuts, key=lambda each: each[0])
        return (share if share >= LEAST else 0.0) * velocity, limit

    def _ahead(self, window: Window, place: tuple[float, float], yaw: float) -> tuple[float, float, float]:
        """Highest edge up and down, and steepest slope of all, along a way from a place."""
        p, (x, y, before) = self._p, self._at
        near = math.hypot(place[0] - x, place[1] - y) < MOVED * p.length and abs(yaw - before) < TURNED
        if near and window.heights is self._window:
            return self._edges
        self._window, self._at = window.heights, (*place, yaw)
        cell, (n, m) = window.cell, window.heights.shape
        far, wide = float(np.abs(p.stance[:, 0]).max()), float(np.abs(p.stance[:, 1]).max())
        end = min(far + AHEAD * p.length, (HALF - READ) * p.length)
        along = np.arange(-far - BEHIND * p.length, end, cell)[:, None]
        across = np.linspace(-wide, wide, LINES)
        c, s = math.cos(yaw), math.sin(yaw)
        i = np.rint((place[0] + c * along - s * across - window.corner[0]) / cell).astype(int)
        j = np.rint((place[1] + s * along + c * across - window.corner[1]) / cell).astype(int)
        ground = np.sort(window.heights[np.clip(i, 0, n - 1), np.clip(j, 0, m - 1)] / p.length, axis=1)  # NaN last
        known = np.isfinite(ground).sum(axis=1)
        height = filled(ground[np.arange(len(ground)), np.maximum(known - 1, 0) // 2], round(GAP * p.length / cell))
        step, run = height[2:] - height[:-2], round(FLIGHT * p.length / cell)
        flat = STEEP * 2.0 * cell / p.length + EVEN
        steps = np.where(np.abs(step) > flat, step, 0.0)  # also where nothing is known
        slope = np.nan_to_num(np.abs(height[run:] - height[:-run])).max(initial=0.0) / FLIGHT
        self._edges = max(0.0, float(steps.max())), max(0.0, -float(steps.min())), float(slope)
        return self._edges


def filled(height: Array, count: int) -> Array:
    """Heights along a way, NaN where unknown, with ditches of up to `count` places filled: a morphological closing."""
    less, more = count // 2, count - count // 2
    for keep, pad, sides in ((np.fmax, -np.inf, (less, more)), (np.fmin, np.inf, (more, less))):
        around = np.pad(height, sides, constant_values=pad)
        out = keep.reduce(np.lib.stride_tricks.sliding_window_view(around, count + 1), axis=1)
        height = np.where(np.isfinite(height), out, np.nan)
    return height


def lift(leg: Chain, i: int, proportions: Proportions) -> Array:
    """How far up a foot can be lifted at `PLACES` forward and back of where it stands, within its joints' range [l].

    Args:
        leg: from the trunk to the foot.
        i: number of the foot.
        proportions: of the robot.
    """
    p, count = proportions, (ANGLES if leg.n < 3 else 9, *(ANGLES,) * (leg.n - 1))
    ends = zip(np.maximum(leg.lower, -math.pi), np.minimum(leg.upper, math.pi), count, strict=True)
    q = np.stack(np.meshgrid(*(np.linspace(*each) for each in ends), indexing="ij"), axis=-1).reshape(-1, leg.n)
    origins, _, tip = leg.forward(q)
    at = (tip - origins[:, 0]) @ p.heading / p.length
    place = (p.stance[i] - p.hips[i, :2]) / p.length
    ground = (float(p.radii[i]) - p.height - float(p.hips[i, 2])) / p.length
    at = at[np.abs(at[:, 1] - place[1]) < ABOUT] if p.sideways else at
    half = 0.5 * float(PLACES[1] - PLACES[0])
    out = np.zeros(len(PLACES))
    for k, ahead in enumerate(PLACES):
        heights = at[np.abs(at[:, 0] - place[0] - ahead) < half, 2]
        out[k] = max(0.0, float(heights.max(initial=ground)) - ground)
    return out
