"""`Steps`: what of a velocity the steps ahead allow, on ground that is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import limbs_of
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .foothold_map import EVEN_TERRAIN_TOLERANCE
from .gait import Gait
from .morphology import FEET, Morphology
from .step_lookahead_kernel import StepPath, find_edges
from .terrain_window import SLOPE_SCALE, TerrainWindow
from .trunk_controller import KNOWN_SLOPE_LOWERING
from .velocity_limits import VelocityLimits

# Lengths in units of l.
#: How far ahead of the front feet an edge counts, and how much farther for who stands before one.
LOOKAHEAD_DISTANCE, STOPPED_EXTRA_DISTANCE = 0.8, 0.2
#: How far the robot goes, and how much it turns [rad], until the way is looked at again.
UPDATE_DISTANCE, UPDATE_ANGLE = 0.05, 0.1
#: Ditches that are narrower are stepped across.
MAX_DITCH_WIDTH = 0.25
#: Over how long a way the slope of steps is taken.
SLOPE_LENGTH = 1.0
#: Way of a foot up and down for every height of an edge: who climbs has to be over it before the foot goes on.
CLIMB_PATH_RATIO, DESCENT_PATH_RATIO = 1.3, 0.6
#: No foot is lifted over more, and nothing is higher.
MAX_STEP_HEIGHT, UNLIMITED_HEIGHT = 0.4, 10.0
#: How far above an edge a leg must be able to lift its foot; swings go for more (`foothold_map.CLEAR`) where they can.
EDGE_CLEARANCE = 0.05
#: Least share of a command that is worth going with; below it the robot stands.
#: How much lower steps have to be for who stands before them.
MIN_COMMAND_FRACTION, RESUME_HEIGHT_RATIO = 0.3, 0.85
#: Half the width of a place for which a leg's room is known, places forward and back, angles of a joint looked at, and
#: of one that moves the foot aside.
CELL_HALF_WIDTH, LIFT_POSITIONS, N_JOINT_ANGLES, N_LATERAL_ANGLES = 0.12, np.linspace(-0.4, 0.4, 17), 41, 9
#: What cuts a velocity.
STEP_JOINT_SPEED, STEP_LEG_REACH, STEP_TOO_HIGH = (
    "steps ahead: speed of the joints",
    "steps ahead: reach of",
    "steps ahead: too high",
)


#: Results of `lift` by all the numbers that they follow from, of the last `MAX_LIFTS` legs: a result takes 30 ms.
_lift_cache: dict[bytes, Array] = {}
MAX_CACHED_LIFTS = 64


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


class StepLookahead:
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
        morphology: of the robot.
        legs: what of a velocity they can do on level ground.
    """

    __slots__ = (
        "_cached_query",
        "_cached_result",
        "_edges_ahead",
        "_edges_behind",
        "_evaluated_pose",
        "_foot_lifts",
        "_is_stopped",
        "_legs",
        "_p",
        "_stance",
        "_window",
        "_work",
    )

    def __init__(self, robot: Robot, morphology: Morphology, legs: VelocityLimits) -> None:
        self._p, self._legs = morphology, legs
        self._stance: list[float] = np.abs(morphology.nominal_stance).max(axis=0).tolist()
        limbs = limbs_of(robot)
        self._foot_lifts = [measure_foot_lift(limbs[foot].chain, i, morphology) for i, foot in enumerate(FEET)]
        self.reset()

    def reset(self) -> None:
        """Forget the ground."""
        self._window: Array | None = None
        self._evaluated_pose = 0.0, 0.0, 0.0
        self._work = np.empty((2, 0))
        self._edges_ahead = self._edges_behind = Edges()
        self._is_stopped = False
        self._cached_query: tuple[object, ...] | None = None
        self._cached_result = 1.0, ""

    def clamp_velocity(
        self, gait: Gait, velocity: Array, reason: str, window: TerrainWindow, position: tuple[float, float], yaw: float
    ) -> tuple[Array, str]:
        """The part of a velocity that the steps ahead allow, and what cuts it.

        Args:
            gait: to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            reason: what has cut it so far, "" where nothing did.
            window: the ground about the robot.
            position: of the robot, world [m].
            yaw: of the heading frame [rad].
        """
        x, y, turn = velocity.tolist()
        if not (x or y):
            return velocity, reason
        way = math.atan2(y, x)
        self._update_edges(window, position, yaw + way)
        before, behind = self._edges_ahead, self._edges_behind
        if not (before.up or before.down or behind.up or behind.down):
            self._is_stopped = False
            return velocity, reason
        asked = gait, x, y, turn, before, behind, self._is_stopped
        if asked != self._cached_query:  # neither commands nor edges change at every tick
            share, why = self._allowed_fraction(
                gait, velocity, way, before, 1.0 / RESUME_HEIGHT_RATIO if self._is_stopped else 1.0
            )
            slowly, slow = self._allowed_fraction(gait, velocity, way, behind)
            self._cached_query, self._cached_result = (
                asked,
                min((share, why), (max(MIN_COMMAND_FRACTION, slowly), slow)),
            )
        share, why = self._cached_result
        self._is_stopped = share < MIN_COMMAND_FRACTION
        if self._is_stopped:
            return np.array([0.0, 0.0, turn]), why
        return (share * velocity, why) if share < 1.0 else (velocity, reason)

    def _allowed_fraction(
        self, gait: Gait, velocity: Array, direction: float, edges: Edges, height_scale: float = 1.0
    ) -> tuple[float, str]:
        """What edges leave of a velocity, and what cuts it; `height_scale` times as high ones."""
        p, (x, y, turn) = self._p, velocity.tolist()
        if height_scale * max(edges.up, edges.down) > MAX_STEP_HEIGHT:
            return 0.0, STEP_TOO_HIGH
        rise = height_scale * max(CLIMB_PATH_RATIO * edges.up, DESCENT_PATH_RATIO * edges.down)
        if not rise:
            return 1.0, ""
        stride = self._legs.max_hip_speed(x, y, turn) * gait.duty_factor * gait.period * p.time_scale / p.length
        left = self._legs.swing_length(gait) ** 2 - rise**2
        cuts = [(1.0, ""), (math.sqrt(max(left, 0.0)) / max(stride, 1e-9), STEP_JOINT_SPEED)]
        low, half = KNOWN_SLOPE_LOWERING * math.sin(math.atan(edges.slope)), 0.5 * stride * math.cos(direction)
        shares = np.linspace(1.0, MIN_COMMAND_FRACTION, 15)
        for i, foot in enumerate(FEET):
            need = rise + EDGE_CLEARANCE + float(p.radii[i]) / p.length + low
            room = np.minimum(
                *(np.interp(end * half * shares, LIFT_POSITIONS, self._foot_lifts[i]) for end in (-1.0, 1.0))
            )
            enough = np.flatnonzero(room >= need)
            cuts.append((float(shares[enough[0]]) if enough.size else 0.0, f"{STEP_LEG_REACH} {foot}"))
        return min(cuts, key=lambda each: each[0])

    def _update_edges(self, window: TerrainWindow, position: tuple[float, float], yaw: float) -> None:
        """Find the edges along a way from a place, where that is to be looked at again."""
        p, (x, y, before) = self._p, self._evaluated_pose
        turned = abs(math.remainder(yaw - before, 2.0 * math.pi)) >= UPDATE_ANGLE
        gone = math.hypot(position[0] - x, position[1] - y) >= UPDATE_DISTANCE * p.length
        if not (turned or gone) and window.heights is self._window:
            return
        self._is_stopped = self._is_stopped and not turned
        self._window, self._evaluated_pose = window.heights, (*position, yaw)
        cell, unit, (far, wide) = window.cell, p.length, self._stance
        back, gap, run = (
            far + MAX_DITCH_WIDTH * unit,
            round(MAX_DITCH_WIDTH * unit / cell),
            round(SLOPE_LENGTH * unit / cell),
        )
        count = math.ceil(
            (back + far + (LOOKAHEAD_DISTANCE + self._is_stopped * STOPPED_EXTRA_DISTANCE + MAX_DITCH_WIDTH) * unit)
            / cell
        )
        if self._work.shape[1] != count:
            self._work = np.empty((2, count))
        steep, edges = SLOPE_SCALE * 2.0 * cell + EVEN_TERRAIN_TOLERANCE * unit, np.empty(5)
        way = StepPath(window.heights, *window.corner, cell, *self._evaluated_pose, back, wide, UNLIMITED_HEIGHT * unit)
        find_edges(way, gap, run, round(back / cell), steep, self._work, edges)
        up, down, up_ahead, down_ahead, rise = (edges / unit).tolist()
        self._edges_behind = Edges(up, down, rise / SLOPE_LENGTH)
        self._edges_ahead = Edges(up_ahead, down_ahead, rise / SLOPE_LENGTH)


def measure_foot_lift(leg: Chain, i: int, morphology: Morphology) -> Array:
    """How far up a foot can be lifted at `PLACES` forward and back of where it stands, within its joints' range [l].

    `ENDLESS` for legs of more than three joints, of which too many postures would have to be looked at.

    Args:
        leg: from the trunk to the foot.
        i: number of the foot.
        morphology: of the robot.
    """
    if leg.n > 3:
        return np.full(len(LIFT_POSITIONS), UNLIMITED_HEIGHT)
    p = morphology
    numbers = (*p.nominal_stance[i], *p.hips[i], p.radii[i], p.length, p.height, float(p.can_step_sideways))
    key = leg.content + np.concatenate([p.heading.ravel(), numbers]).tobytes()
    if key in _lift_cache:
        return _lift_cache[key]
    origins, _, tip = leg.forward(
        leg.postures(((N_LATERAL_ANGLES,) * (leg.n == 3) + (N_JOINT_ANGLES, N_JOINT_ANGLES))[-leg.n :])
    )
    at = (tip - origins[:, 0]) @ p.heading / p.length
    place = (p.nominal_stance[i] - p.hips[i, :2]) / p.length
    ground = (float(p.radii[i]) - p.height - float(p.hips[i, 2])) / p.length
    at = at[np.abs(at[:, 1] - place[1]) < CELL_HALF_WIDTH] if p.can_step_sideways else at
    half = 0.5 * float(LIFT_POSITIONS[1] - LIFT_POSITIONS[0])
    out = np.zeros(len(LIFT_POSITIONS))
    for k, ahead in enumerate(LIFT_POSITIONS):
        heights = at[np.abs(at[:, 0] - place[0] - ahead) < half, 2]
        out[k] = max(0.0, float(heights.max(initial=ground)) - ground)
    while len(_lift_cache) >= MAX_CACHED_LIFTS:
        _lift_cache.pop(next(iter(_lift_cache)), None)
    _lift_cache[key] = frozen(out)
    return out
