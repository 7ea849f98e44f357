"""`LocomotionMode`, and the compiled decisions about the mode of a robot on the ground."""

import enum
import math
from typing import NamedTuple

from ..compiler import Matrix, Record, Vector, compiled, entry, zeros
from ..deprecation import renamed_attributes
from .gait import GaitParameters, GaitState, set_target_gait, start_stepping, stop_stepping
from .morphology import BodyParameters
from .path_reference import PathState, compute_foothold
from .steering import MAX_REFERENCE_LEAD
from .velocity_limits import is_zero_velocity

#: Offset of a stance foot from its nominal position above which the robot steps [l], and offset of the divergent
#: component above which it steps, as a fraction of the distance from the center of the feet to the support edge.
MAX_FOOT_OFFSET, MAX_DCM_FRACTION = 0.12, 0.5
#: Offset of the center of mass that a standing robot can correct without a step, as a fraction of the distance from
#: the center of the feet to the support edge.
MAX_STANDING_FRACTION = 0.98


class SupportEdge(NamedTuple):
    """Edge of the support by the indices of two feet."""

    start: int
    end: int


#: Edges of the support, counterclockwise: the inside is to the left.
SUPPORT_EDGES = SupportEdge(0, 2), SupportEdge(2, 3), SupportEdge(3, 1), SupportEdge(1, 0)


class ModeCode(enum.IntEnum):
    """Codes of the members of `LocomotionMode`, which have the same names."""

    STARTING = 0
    LYING = 1
    RISING = 2
    STANDING = 3
    MOVING = 4
    RECOVERING = 5
    LOWERING = 6
    CROUCHING = 7
    JUMPING = 8
    AIRBORNE = 9
    LANDING = 10
    FALLEN = 11
    RIGHTING = 12


@renamed_attributes(upright="is_upright")
class LocomotionMode(enum.Enum):
    """Mode of the locomotion controller.

    The mode is "starting" until it is measured that the ground carries the robot: by feet in contact, by a terrain map
    on which all feet stand, or by the acceleration of the center of mass.  Whole-body control is that of "standing".
    """

    STARTING = "starting"
    LYING = "lying"
    RISING = "rising"
    STANDING = "standing"
    MOVING = "moving"
    RECOVERING = "recovering"
    LOWERING = "lowering"
    CROUCHING = "crouching"
    JUMPING = "jumping"
    AIRBORNE = "airborne"
    LANDING = "landing"
    FALLEN = "fallen"
    RIGHTING = "righting"

    @property
    def is_upright(self) -> bool:
        """Whether the trunk is at its commanded height in this mode."""
        return is_upright(self.code)

    @property
    def code(self) -> ModeCode:
        """Code of the mode in compiled functions."""
        return _CODES[self]

    @staticmethod
    def from_code(code: int) -> "LocomotionMode":
        """Returns the mode of a code of compiled functions."""
        return _MODES[code]


@compiled()
def is_upright(mode: ModeCode) -> bool:
    """Returns whether the trunk is at its commanded height in a mode."""
    return (
        mode == ModeCode.STARTING or mode == ModeCode.STANDING or mode == ModeCode.MOVING or mode == ModeCode.RECOVERING
    )


_CODES = {mode: ModeCode[mode.name] for mode in LocomotionMode}
_MODES = {int(code): mode for mode, code in _CODES.items()}


class ModeState(Record):
    """Present mode, and the conditions of its changes."""

    mode: ModeCode
    has_started: bool  # whether there was a tick since the last start or restart
    is_first_tick: bool  # whether the present tick is the first one
    lead_phase: float  # time from the start until the first foot may lift off [cycles]
    is_lying_requested: bool  # whether the robot is to lie down
    is_settled: bool  # whether the robot has stood long enough for a recovery step
    is_trunk_moving: bool  # whether the trunk moves to another height or offset
    is_stuck: bool  # whether the command is ignored, since the robot makes no progress
    dcm_error: Vector  # (2,) error of the divergent component, world x and y [m]


@entry("mode decisions")
def set_mode_conditions(
    state: ModeState,
    lead_phase: float,
    error_x: float,
    error_y: float,
    is_trunk_moving: bool,
    is_settled: bool,
    is_stuck: bool,
) -> None:
    """Sets the conditions of the tick for `next_mode`, but `is_lying_requested`."""
    state.lead_phase = lead_phase
    state.dcm_error[0], state.dcm_error[1] = error_x, error_y
    state.is_trunk_moving, state.is_settled, state.is_stuck = is_trunk_moving, is_settled, is_stuck


@compiled()
def compute_center(positions: Matrix) -> tuple[float, float]:
    """Returns the mean of four positions, world x and y [m]."""
    x, y = 0.0, 0.0
    for i in range(4):
        x += positions[i, 0]
        y += positions[i, 1]
    return 0.25 * x, 0.25 * y


@entry("mode decisions")
def is_dcm_near_edge(error_x: float, error_y: float, feet: Matrix, fraction: float) -> bool:
    """Returns whether the divergent component is so near the support edge that only a step prevents a fall.

    Args:
        error_x: divergent component minus the center of the feet, world x [m].
        error_y: the same, world y [m].
        feet: (4, 3) or (4, 2) positions of the feet in the order FL, FR, RL, RR, world [m].
        fraction: limit, as a fraction of the distance from the center of the feet to the support edge.
    """
    center_x, center_y = compute_center(feet)
    for edge in SUPPORT_EDGES:
        ax, ay = feet[edge.start, 0] - center_x, feet[edge.start, 1] - center_y
        ex, ey = feet[edge.end, 0] - feet[edge.start, 0], feet[edge.end, 1] - feet[edge.start, 1]
        margin = ey * ax - ex * ay  # distance of the center from the edge times the edge's length
        if ey * error_x - ex * error_y > fraction * margin:
            return True
    return False


@entry("mode decisions")
def is_stance_misplaced(feet: Matrix, path: PathState, stance: Matrix, length: float) -> bool:
    """Returns whether a stance foot is far from its nominal position, forward or sideways.

    Args:
        feet: (4, 3) or (4, 2) positions of the feet, world [m].
        path: path reference, for its heading.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        length: leg length [m].
    """
    home = zeros(4, 2)
    for foot in range(4):
        home[foot, 0], home[foot, 1] = compute_foothold(path, stance, foot, 0.0)
    center_x, center_y = compute_center(feet)
    home_x, home_y = compute_center(home)
    max_offset, c, s = MAX_FOOT_OFFSET * length, math.cos(path.yaw), math.sin(path.yaw)
    for foot in range(4):
        dx = feet[foot, 0] - center_x - home[foot, 0] + home_x
        dy = feet[foot, 1] - center_y - home[foot, 1] + home_y
        if abs(c * dx + s * dy) > max_offset or abs(c * dy - s * dx) > max_offset:
            return True
    return False


@entry("mode decisions")
def next_mode(
    state: ModeState,
    body: BodyParameters,
    gait: GaitParameters,
    g: GaitState,
    path: PathState,
    velocity: Vector,
    feet: Matrix,
    stance: Matrix,
) -> ModeCode:
    """Returns the mode of the next tick for a robot on the ground; starts and stops the gait.

    The caller starts the motion of the trunk if the next mode is `ModeCode.LOWERING` and the present one is another.

    Args:
        state: present mode and conditions.
        body: parameters of the robot.
        gait: gait to move with.
        g: state of the gait.
        path: the path reference.
        velocity: (3,) commanded velocity, clamped [m/s, rad/s].
        feet: (4, 3) centers of the foot spheres, world [m].
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
    """
    mode, error_x, error_y = state.mode, state.dcm_error[0], state.dcm_error[1]
    is_idle = is_zero_velocity(velocity)
    if mode == ModeCode.STANDING or mode == ModeCode.STARTING:
        if state.is_lying_requested:
            return ModeCode.LOWERING
        if not is_idle:
            set_target_gait(g, gait)
            start_stepping(g, state.lead_phase)
            return ModeCode.MOVING
        if state.is_settled and (
            is_dcm_near_edge(error_x, error_y, feet, MAX_DCM_FRACTION)
            or is_stance_misplaced(feet, path, stance, body.length)
        ):
            set_target_gait(g, g.trot)
            start_stepping(g, 0.0)
            return ModeCode.RECOVERING
    elif mode == ModeCode.MOVING or mode == ModeCode.RECOVERING:
        if not g.is_running:
            return ModeCode.STANDING
        has_stopped = g.phase >= 1.0 and is_zero_velocity(path.velocity)
        is_balanced = max(abs(error_x), abs(error_y)) < 0.5 * MAX_REFERENCE_LEAD * body.length
        # Motors of a stuck robot may be too weak to balance it by steps; it can still recover from standing.
        if state.is_lying_requested or (is_idle and has_stopped and (is_balanced or state.is_stuck)):
            stop_stepping(g)
        elif not is_idle:
            set_target_gait(g, gait)
            start_stepping(g, state.lead_phase)  # cancels a stop
            return ModeCode.MOVING
    elif not state.is_trunk_moving:
        if mode == ModeCode.RISING:
            return ModeCode.STANDING
        if mode == ModeCode.CROUCHING:
            return ModeCode.JUMPING
        return ModeCode.LYING
    return mode


def allocate_mode_state() -> ModeState:
    """Returns a record for `next_mode`."""
    return ModeState.allocate(dcm_error=2)
