"""Compiled lowering of the trunk that the legs need to reach the ground; see `TrunkHeightLimiter`."""

import math

from ..compiler import Vec3, Vector, compiled, entry, vec3
from .body_parameters import BodyParameters
from .gait_timing import GaitState, compute_period, compute_time_to_liftoff
from .ground_state import GroundState, compute_heading_axes, plane_height, support_point
from .path_motion import PathState, compute_world_velocity
from .trunk_references import KNOWN_SLOPE_LOWERING, slope_lowering

#: Fraction of the maximum leg length that is used.
USABLE_REACH_FRACTION = 0.95
#: Maximum lowering of the trunk [h].
MAX_LOWERING_FRACTION = 0.25


@compiled()
def compute_excess_height(hip: Vec3, foot: Vec3, reach: float) -> float:
    """Returns the height of a hip over the highest point from which its leg reaches a foot [m]."""
    d = hip - foot
    excess: float = d[2] - math.sqrt(max(reach * reach - d[0] * d[0] - d[1] * d[1], 0.0))
    return excess


@entry("reach of the legs")
def compute_required_lowering(
    body: BodyParameters,
    max_leg_length: Vector,
    g: GaitState,
    path: PathState,
    ground: GroundState,
    swing_progress: Vector,
    com_x: float,
    com_y: float,
) -> float:
    """Computes the lowering of the trunk, relative to its height over a plane, that all legs need [m].

    Args:
        body: parameters of the robot.
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
        g: phases of the gait.
        path: path reference.
        ground: plane of the feet, with their present and next footholds.
        swing_progress: (4,) elapsed time of a swing divided by its duration; negative for a stance foot.
        com_x: center of mass, world x [m].
        com_y: center of mass, world y [m].
    """
    axes = compute_heading_axes(path.yaw, ground.slope[0], ground.slope[1])
    com_height = body.height - slope_lowering(body.length, axes[2, 2], KNOWN_SLOPE_LOWERING)
    com = vec3(com_x, com_y, plane_height(ground, com_x, com_y) + com_height)
    u, v = compute_world_velocity(path, 0.0)
    velocity = vec3(u, v, ground.slope[0] * u + ground.slope[1] * v)
    lowering, swing_time = 0.0, (1.0 - g.duty_factor) * compute_period(g)
    for foot in range(4):
        end = compute_time_to_liftoff(g, foot)
        begin = 0.0
        if swing_progress[foot] >= 0.0:
            end = max(0.0, 1.0 - swing_progress[foot]) * swing_time
            begin = end
        hip = com + axes @ vec3(body.hips[foot])
        center = support_point(ground, foot) + vec3(0.0, 0.0, body.radii[foot])
        reach = USABLE_REACH_FRACTION * max_leg_length[foot]
        lowering = max(lowering, compute_excess_height(hip + velocity * begin, center, reach))
        lowering = max(lowering, compute_excess_height(hip + velocity * end, center, reach))
    return min(lowering, MAX_LOWERING_FRACTION * body.height)
