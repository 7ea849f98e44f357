"""`StepLookahead`: limits of the velocity for terrain steps ahead, with a terrain map."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import Matrix, Vector, compiled, entry, local
from ..robot.bodies import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .foothold_map import SLOPE_SCALE, TerrainWindow
from .gait import Gait
from .morphology import FEET, Morphology
from .swing import EVEN_TERRAIN_TOLERANCE
from .trunk_controller import KNOWN_SLOPE_LOWERING
from .velocity_limits import VelocityLimits

#: Number of parallel lines along the path.
N_LINES = 5


class StepPath(NamedTuple):
    """Strip of terrain along the direction of motion."""

    heights: Matrix  # (n, m) heights of the ground, NaN where unknown [m]
    origin_x: float  # x of the first cell, world [m]
    origin_y: float  # y of the first cell, world [m]
    cell: float  # side of a cell, and distance between samples along the path [m]
    x: float  # position of the robot, world x [m]
    y: float  # position of the robot, world y [m]
    yaw: float  # direction of the path [rad]
    start_distance: float  # distance of its start behind (x, y) [m]
    half_width: float  # half its width [m]
    max_height: float  # absolute height to which heights are clamped [m]


@entry("terrain steps ahead")
def find_edges(
    path: StepPath, max_ditch: int, slope_length: int, middle: int, min_rise: float, work: Matrix, edges: Vector
) -> None:
    """Finds the highest rising and falling edges along a path, and its steepest part.

    Across the path the height is the lower median of the known heights at `N_LINES` points; where none is known it is
    the previous one.  Ditches are filled, except at the end of the known ground, where a fall does not count.

    Args:
        path: strip of terrain along the direction of motion.
        max_ditch: width up to which ditches are filled [samples]; edges in the first `max_ditch` samples do not count.
        slope_length: length over which the slope is measured [samples].
        middle: index of the first sample at which edges are ahead of the robot.
        min_rise: minimum rise over two samples of an edge [m].
        work: (2, samples) scratch; the first row receives the heights along the path.
        edges: (5,) written: rise and fall behind, rise and fall ahead, and rise or fall over `slope_length`; 0 where
            there is none [m].
    """
    count, profile, scratch, line = work.shape[1], work[0], work[1], local(N_LINES)
    n_known = sample_heights(path, line, profile)
    fill_ditches(profile, max_ditch, scratch)
    edges[:5] = 0.0
    for k in range(slope_length, count):
        rise = abs(profile[k] - profile[k - slope_length])
        if rise > edges[4]:
            edges[4] = rise
    for k in range(max_ditch, count - 2):
        rise, index = profile[k + 2] - profile[k], 0 if k < middle else 2
        if rise > min_rise and rise > edges[index]:
            edges[index] = rise
        if (
            -rise > min_rise and -rise > edges[index + 1] and k < n_known - max_ditch - 2
        ):  # beyond may be a narrow ditch
            edges[index + 1] = -rise


@compiled()
def sample_heights(path: StepPath, line: Vector, profile: Vector) -> int:
    """Computes the heights along a path, NaN before the first known one; returns the number of known samples."""
    heights, cell = path.heights, path.cell
    n, m, c, s = heights.shape[0], heights.shape[1], math.cos(path.yaw), math.sin(path.yaw)
    n_known, last_height = 0, math.nan
    for k in range(len(profile)):
        n_heights, forward = 0, k * cell - path.start_distance
        for a in range(N_LINES):
            lateral = path.half_width * (2.0 * a / (N_LINES - 1.0) - 1.0)
            i = math.floor((path.x + c * forward - s * lateral - path.origin_x) / cell + 0.5)
            j = math.floor((path.y + s * forward + c * lateral - path.origin_y) / cell + 0.5)
            if 0 <= i < n and 0 <= j < m and abs(heights[i, j]) <= math.inf:  # not NaN
                h, b = heights[i, j], n_heights
                while b > 0 and line[b - 1] > h:
                    line[b] = line[b - 1]
                    b -= 1
                line[b] = h
                n_heights += 1
        if n_heights > 0:
            last_height, n_known = min(max(line[(n_heights - 1) // 2], -path.max_height), path.max_height), k + 1
        profile[k] = last_height
    return n_known


@compiled()
def fill_ditches(heights: Vector, width: int, scratch: Vector) -> None:
    """Fills ditches of up to `width` samples in heights along a path, NaN where unknown, by morphological closing.

    Args:
        heights: (n,) heights along the path [m]; updated.
        width: maximum width of the ditches [samples].
        scratch: (n,) scratch.
    """
    n, half_left, half_right = len(heights), width // 2, width - width // 2
    for k in range(n):
        top = -math.inf
        for i in range(max(k - half_left, 0), min(k + half_right + 1, n)):
            if heights[i] > top:
                top = heights[i]
        scratch[k] = top
    for k in range(n):
        low = math.inf
        for i in range(max(k - half_right, 0), min(k + half_left + 1, n)):
            if abs(heights[i]) <= math.inf and scratch[i] < low:
                low = scratch[i]
        if abs(heights[k]) <= math.inf:
            heights[k] = low


# Lengths in units of l.
#: Distance ahead of the front feet up to which edges count, and additional distance for a robot stopped by an edge.
LOOKAHEAD_DISTANCE, STOPPED_EXTRA_DISTANCE = 0.8, 0.2
#: Distance and rotation [rad] after which the path is evaluated again.
UPDATE_DISTANCE, UPDATE_ANGLE = 0.05, 0.1
#: Maximum width of ditches that are stepped across.
MAX_DITCH_WIDTH = 0.25
#: Length over which the slope of a flight of steps is measured.
SLOPE_LENGTH = 1.0
#: Path length of a foot per height of an edge, up and down: a climbing foot has to be above the edge before it moves
#: on.
CLIMB_PATH_RATIO, DESCENT_PATH_RATIO = 1.3, 0.6
#: Maximum height of a step, and height to which terrain heights are clamped.
MAX_STEP_HEIGHT, UNLIMITED_HEIGHT = 0.4, 10.0
#: Minimum clearance over an edge that a leg must reach; swings use more (`foothold_map.TERRAIN_CLEARANCE`) if possible.
EDGE_CLEARANCE = 0.05
#: Minimum fraction of a command below which the robot stops, and factor by which steps must be lower before a stopped
#: robot starts again.
MIN_COMMAND_FRACTION, RESUME_HEIGHT_RATIO = 0.3, 0.85
#: Half-width of the cells and forward positions for which the lift of a leg is measured, and number of sampled angles
#: of a joint and of a joint that moves the foot sideways.
CELL_HALF_WIDTH, LIFT_POSITIONS, N_JOINT_ANGLES, N_LATERAL_ANGLES = 0.12, np.linspace(-0.4, 0.4, 17), 41, 9
#: Reasons for which a velocity is limited.
STEP_JOINT_SPEED, STEP_LEG_REACH, STEP_TOO_HIGH = (
    "terrain steps ahead: speed of the joints",
    "terrain steps ahead: reach of",
    "terrain steps ahead: step too high",
)


#: Cached results of `measure_foot_lift`, by all numbers on which they depend: computing one takes 30 ms.
_lift_cache: dict[bytes, Array] = {}
MAX_CACHED_LIFTS = 64


class Edges(NamedTuple):
    """Edges of the terrain along a path [l].

    Attributes:
        up: height of the highest rising edge.
        down: height of the highest falling edge.
        slope: largest rise or fall over `SLOPE_LENGTH`, divided by that length.
    """

    up: float = 0.0
    down: float = 0.0
    slope: float = 0.0


class StepLookahead:
    """Limits of velocities at terrain edges across the path; steps that are too high for the legs stop the robot.

    An edge is where most ground across the path rises or falls at once: single boxes are avoided or crossed one foot at
    a time, and narrow ditches are stepped across.  Behind unknown terrain, the ground continues where it is known
    again. Two limits of the legs are checked.

    *Joint speed*: in one swing the joints can cover a path length (`VelocityLimits.swing_length`) of which the
    horizontal path relative to the hip and the path over the edge are two sides at a right angle.

    *Joint range*: at both ends of the stride, forward and back of its hip, the leg has to lift its foot by the height
    of the edge and its clearance, with the trunk lowered for the slope of the steps.

    Edges behind the robot's center, which its rear feet still have to pass, limit the speed but never stop the robot.
    A stopped robot may turn in place, and continues where steps are clearly low enough.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        legs: velocity limits on level ground.
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
        "_morphology",
        "_stance",
        "_window",
        "_work",
    )

    def __init__(self, robot: Robot, morphology: Morphology, legs: VelocityLimits) -> None:
        self._morphology, self._legs = morphology, legs
        self._stance: list[float] = np.abs(morphology.nominal_stance).max(axis=0).tolist()
        limbs = make_limbs(robot)
        self._foot_lifts = [measure_foot_lift(limbs[foot].chain, i, morphology) for i, foot in enumerate(FEET)]
        self.reset()

    def reset(self) -> None:
        """Resets the evaluation of the terrain."""
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
        """Returns the velocity clamped for the terrain steps ahead, and the reason.

        Args:
            gait: gait to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            reason: reason for which it was clamped so far, else "".
            window: terrain window around the robot.
            position: (2,) position of the robot, world [m].
            yaw: yaw angle of the heading frame [rad].
        """
        x, y, yaw_rate = velocity.tolist()
        if not (x or y):
            return velocity, reason
        direction = math.atan2(y, x)
        self._update_edges(window, position, yaw + direction)
        edges_ahead, edges_behind = self._edges_ahead, self._edges_behind
        if not (edges_ahead.up or edges_ahead.down or edges_behind.up or edges_behind.down):
            self._is_stopped = False
            return velocity, reason
        query = gait, x, y, yaw_rate, edges_ahead, edges_behind, self._is_stopped
        if query != self._cached_query:  # commands and edges rarely change from tick to tick
            fraction, limit_reason = self._allowed_fraction(
                gait, velocity, direction, edges_ahead, 1.0 / RESUME_HEIGHT_RATIO if self._is_stopped else 1.0
            )
            fraction_behind, reason_behind = self._allowed_fraction(gait, velocity, direction, edges_behind)
            self._cached_query, self._cached_result = (
                query,
                min((fraction, limit_reason), (max(MIN_COMMAND_FRACTION, fraction_behind), reason_behind)),
            )
        fraction, limit_reason = self._cached_result
        self._is_stopped = fraction < MIN_COMMAND_FRACTION
        if self._is_stopped:
            return np.array([0.0, 0.0, yaw_rate]), limit_reason
        return (fraction * velocity, limit_reason) if fraction < 1.0 else (velocity, reason)

    def _allowed_fraction(
        self, gait: Gait, velocity: Array, direction: float, edges: Edges, height_scale: float = 1.0
    ) -> tuple[float, str]:
        """Returns the fraction of a velocity that edges allow, and the reason.

        Args:
            gait: gait to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
            direction: direction of motion from the forward direction [rad].
            edges: edges along the path.
            height_scale: factor by which the edges are taken to be higher.
        """
        p, (x, y, yaw_rate) = self._morphology, velocity.tolist()
        if height_scale * max(edges.up, edges.down) > MAX_STEP_HEIGHT:
            return 0.0, STEP_TOO_HIGH
        up, descent = height_scale * edges.up, height_scale * DESCENT_PATH_RATIO * edges.down
        rise = max(CLIMB_PATH_RATIO * up, descent)
        if not rise:
            return 1.0, ""
        stride = self._legs.max_hip_speed(x, y, yaw_rate) * gait.duty_factor * gait.period * p.time_scale / p.length
        remaining = self._legs.swing_length(gait) ** 2 - rise**2
        limits = [(1.0, ""), (math.sqrt(max(remaining, 0.0)) / max(stride, 1e-9), STEP_JOINT_SPEED)]
        lowering, half_stride = (
            KNOWN_SLOPE_LOWERING * math.sin(math.atan(edges.slope)),
            0.5 * stride * math.cos(direction),
        )
        # Lift of the center of a foot sphere, which rests on the ground at a height of its radius.
        required_lift = max(up, descent) + EDGE_CLEARANCE + lowering
        fractions = np.linspace(1.0, MIN_COMMAND_FRACTION, 15)
        for i, foot in enumerate(FEET):
            lift = np.minimum(
                *(np.interp(end * half_stride * fractions, LIFT_POSITIONS, self._foot_lifts[i]) for end in (-1.0, 1.0))
            )
            feasible = np.flatnonzero(lift >= required_lift)
            limits.append((float(fractions[feasible[0]]) if feasible.size else 0.0, f"{STEP_LEG_REACH} {foot}"))
        return min(limits, key=lambda limit: limit[0])

    def _update_edges(self, window: TerrainWindow, position: tuple[float, float], yaw: float) -> None:
        """Searches the edges along the path from a position (2,) [m], if robot or terrain have changed enough."""
        p, (x, y, last_yaw) = self._morphology, self._evaluated_pose
        has_turned = abs(math.remainder(yaw - last_yaw, 2.0 * math.pi)) >= UPDATE_ANGLE
        has_moved = math.hypot(position[0] - x, position[1] - y) >= UPDATE_DISTANCE * p.length
        if not (has_turned or has_moved) and window.heights is self._window:
            return
        self._is_stopped = self._is_stopped and not has_turned
        self._window, self._evaluated_pose = window.heights, (*position, yaw)
        cell, length, (half_length, half_width) = window.cell, p.length, self._stance
        start_distance, max_ditch, slope_length = (
            half_length + MAX_DITCH_WIDTH * length,
            round(MAX_DITCH_WIDTH * length / cell),
            round(SLOPE_LENGTH * length / cell),
        )
        count = math.ceil(
            (
                start_distance
                + half_length
                + (LOOKAHEAD_DISTANCE + self._is_stopped * STOPPED_EXTRA_DISTANCE + MAX_DITCH_WIDTH) * length
            )
            / cell
        )
        if self._work.shape[1] != count:
            self._work = np.empty((2, count))
        min_rise, edges = SLOPE_SCALE * 2.0 * cell + EVEN_TERRAIN_TOLERANCE * length, np.empty(5)
        strip = StepPath(
            window.heights,
            *window.corner,
            cell,
            *self._evaluated_pose,
            start_distance,
            half_width,
            UNLIMITED_HEIGHT * length,
        )
        find_edges(strip, max_ditch, slope_length, round(start_distance / cell), min_rise, self._work, edges)
        up, down, up_ahead, down_ahead, rise = (edges / length).tolist()
        self._edges_behind = Edges(up, down, rise / SLOPE_LENGTH)
        self._edges_ahead = Edges(up_ahead, down_ahead, rise / SLOPE_LENGTH)


def measure_foot_lift(leg: Chain, i: int, morphology: Morphology) -> Array:
    """Measures how far a foot can be lifted at `LIFT_POSITIONS` around its stance, within the joint range [l].

    Returns `UNLIMITED_HEIGHT` for legs with more than three joints, for which too many postures would be needed.

    Args:
        leg: kinematic chain from the trunk to the foot.
        i: index of the foot.
        morphology: lengths and units of the robot.
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
    positions = (tip - origins[:, 0]) @ p.heading / p.length
    home = (p.nominal_stance[i] - p.hips[i, :2]) / p.length
    ground = (float(p.radii[i]) - p.height - float(p.hips[i, 2])) / p.length
    positions = positions[np.abs(positions[:, 1] - home[1]) < CELL_HALF_WIDTH] if p.can_step_sideways else positions
    half_cell = 0.5 * float(LIFT_POSITIONS[1] - LIFT_POSITIONS[0])
    lifts = np.zeros(len(LIFT_POSITIONS))
    for k, position in enumerate(LIFT_POSITIONS):
        heights = positions[np.abs(positions[:, 0] - home[0] - position) < half_cell, 2]
        lifts[k] = max(0.0, float(heights.max(initial=ground)) - ground)
    while len(_lift_cache) >= MAX_CACHED_LIFTS:
        _lift_cache.pop(next(iter(_lift_cache)), None)
    _lift_cache[key] = frozen(lifts)
    return lifts
