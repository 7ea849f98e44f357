"""Reach of the legs, and compiled lowering of the trunk that they need to reach the ground."""

import math

import numpy as np

from ..compiler import Vec3, Vector, compiled, entry, vec3
from ..robot.chain import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from ..urdf.tree import Array
from .gait import GaitState, compute_period, compute_time_to_liftoff
from .ground_plane import GroundState, compute_heading_axes, plane_height, support_point
from .morphology import FEET, BodyParameters
from .path_reference import PathState, compute_world_velocity
from .swing import SwingStates
from .trunk_controller import KNOWN_SLOPE_LOWERING, slope_lowering

#: Number of sampled configurations of a leg for its maximum length.
N_REACH_SAMPLES = 4096
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
    swings: SwingStates,
    com_x: float,
    com_y: float,
) -> float:
    """Computes the lowering of the trunk, relative to its height over a plane, that all legs need [m].

    Feet may stand low, or far behind or ahead, on a known terrain.  A stance foot stays in place while its hip moves
    on: from now to the end of the stance, the hip of a trunk that follows the plane of the feet must be within the
    leg's reach of the foot.

    Args:
        body: parameters of the robot.
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
        g: phases of the gait.
        path: path reference.
        ground: plane of the feet, with their present and next footholds.
        swings: swings of the feet.
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
        if swings.is_swinging[foot] != 0:
            end = max(0.0, 1.0 - swings.progress[foot]) * swing_time
            begin = end
        hip = com + axes @ vec3(body.hips[foot])
        center = support_point(ground, foot) + vec3(0.0, 0.0, body.radii[foot])
        reach = USABLE_REACH_FRACTION * max_leg_length[foot]
        lowering = max(lowering, compute_excess_height(hip + velocity * begin, center, reach))
        lowering = max(lowering, compute_excess_height(hip + velocity * end, center, reach))
    return min(lowering, MAX_LOWERING_FRACTION * body.height)


def measure_leg_lengths(robot: Robot) -> Array:
    """Returns the maximum distance (4,) of each foot from its leg's first joint [m].

    Joint limits are included: the knees of many robots do not straighten.
    """
    limbs = make_limbs(robot)
    return np.array([measure_leg_reach(limbs[foot].chain) for foot in FEET])


def measure_leg_reach(leg: Chain) -> float:
    """Computes the maximum distance of a leg's tip from its first joint, within the joint limits [m].

    Args:
        leg: kinematic chain of the leg.
    """
    count = max(2, round(N_REACH_SAMPLES ** (1.0 / leg.n)))
    origins, _, tip = leg.forward(leg.postures((count,) * leg.n))
    return float(np.linalg.norm(tip - origins[:, 0], axis=1).max())
