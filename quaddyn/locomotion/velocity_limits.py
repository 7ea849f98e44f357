"""The velocities that a gait can reach with a robot's legs.

- `VelocityLimits`: the limits of a gait.
- `LegWorkspace`: reachable area of each foot around its nominal position, within the joint limits.
- `LegPoseSolver`: robot configurations for given foot positions.
"""

from __future__ import annotations

import enum
import math

import numpy as np
from numpy.typing import NDArray

from ..compiler import Matrix, Record, Vector, compiled, entry, zeros
from ..kinematics import LegKinematics
from ..robot.configuration import independent_joints, set_joint_value
from ..robot.legs import make_limbs
from ..robot.limbs import Limb
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array
from .footwork import MAX_INWARD_FRACTION
from .gait import Gait, GaitParameters, write_gait_parameters
from .morphology import FEET, BodyParameters, Morphology, make_body_parameters


class LegPoseSolver:
    """Inverse kinematics that places feet leg by leg; joints that do not belong to legs stay at home.

    Args:
        robot: a quadruped.

    Attributes:
        legs: leg kinematics by name of the foot.

    Raises:
        QuaddynError: the kinematics of the legs are not supported, for example for coupled joints.
    """

    __slots__ = ("_joint_entries", "legs")

    def __init__(self, robot: Robot) -> None:
        joints_by_name = independent_joints(robot.bodies)
        self.legs = {foot: LegKinematics(robot, foot) for foot in FEET}
        self._joint_entries = {
            foot: [(robot.configuration_index(joint), joints_by_name[joint]) for joint in leg.joints]
            for foot, leg in self.legs.items()
        }

    def place_foot(self, q: Array, foot: str, points: Array) -> bool:
        """Sets the joints of a leg in configurations, on its branch at home.

        Args:
            q: (nq,) or (n, nq) configurations, updated.
            foot: name of the foot.
            points: (3,) or (n, 3) positions of the center of the foot sphere, base frame [m].

        Returns:
            Whether all positions are reached within the joint limits.
        """
        solution = self.legs[foot].inverse(points)
        if not (np.all(solution.reached) and np.all(solution.within_limits)):
            return False
        rows, values = np.atleast_2d(q), np.atleast_2d(solution.q)
        for row, angles in zip(rows, values.tolist(), strict=True):
            for (index, joint), value in zip(self._joint_entries[foot], angles, strict=True):
                set_joint_value(row, index, joint, value)
        return True


#: Number of sampled directions around a foot.  No direction is exactly forward or sideways, where a leg may just pass
#: an obstacle that it does not pass beside it.
N_DIRECTIONS = 24
#: Number of sampled distances along each direction from a foot, and maximum distance [l].
N_DISTANCES, MAX_DISTANCE = 24, 0.72
#: Fraction of the length of a straight leg that strides may use: near its full length a leg is too slow.
USABLE_LENGTH_FRACTION = 0.97


class LegWorkspace:
    """Reachable area of each foot at a height over level ground, while the trunk is level and at its nominal height.

    In every direction it ends at the first position which the leg's joints do not reach within their limits, on the
    leg's branch at home, or where the leg is nearly straight.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        poses: leg kinematics; None where they have no closed form, and the workspace is unknown.
    """

    __slots__ = ("_cache", "_limbs", "_morphology", "_poses")

    def __init__(self, robot: Robot, morphology: Morphology, poses: LegPoseSolver | None) -> None:
        self._morphology, self._poses, self._limbs = morphology, poses, make_limbs(robot)
        self._cache: dict[tuple[tuple[float, float], float], Array | None] = {}

    def measure_reach(self, footprint_scale: tuple[float, float], height: float = 0.0) -> Array | None:
        """Returns the radius of the workspace (4, N_DIRECTIONS) in each direction [m]; None where it is unknown.

        Args:
            footprint_scale: length and width of the footprint, divided by those at home.
            height: height of the feet over the ground [l].
        """
        key = footprint_scale, height
        if key not in self._cache:
            self._cache[key] = None if self._poses is None else self._measure_radii(self._poses, *key)
        return self._cache[key]

    def _measure_radii(self, poses: LegPoseSolver, footprint_scale: tuple[float, float], height: float) -> Array:
        """Measures the radii (4, N_DIRECTIONS) of the workspace [m] by inverse kinematics; see `measure_reach`."""
        p, radii = self._morphology, []
        angles = 2.0 * math.pi / N_DIRECTIONS * (np.arange(N_DIRECTIONS) + 0.5)
        distances = MAX_DISTANCE * p.length / N_DISTANCES * np.arange(1, N_DISTANCES + 1)
        # A leg without lateral motion moves straight ahead only, with the nominal width.
        lateral_factor, footprint_scale = (
            (1.0, footprint_scale) if p.can_step_sideways else (0.0, (footprint_scale[0], 1.0))
        )
        offsets = np.stack((np.cos(angles), lateral_factor * np.sin(angles)), axis=1)[:, None] * distances[:, None]
        base = np.array([0.0, 0.0, p.height]) + p.base_offset
        for i, foot in enumerate(FEET):
            positions = np.empty((N_DIRECTIONS, N_DISTANCES, 3))
            positions[..., :2] = p.nominal_stance[i] * footprint_scale + offsets
            positions[..., 2] = p.radii[i] + height * p.length
            solution = poses.legs[foot].inverse(((positions - base) @ p.heading.T).reshape(-1, 3))
            is_reachable = (
                np.asarray(solution.reached)
                & np.asarray(solution.within_limits)
                & is_bent(self._limbs[foot], solution.q)
            )
            is_reachable = is_reachable.reshape(N_DIRECTIONS, N_DISTANCES)
            n_reachable = np.where(is_reachable.all(axis=1), N_DISTANCES, np.argmin(is_reachable, axis=1))
            radii.append(MAX_DISTANCE * p.length / N_DISTANCES * n_reachable)
        return np.array(radii)


def is_bent(limb: Limb, q: Array) -> NDArray[np.bool_]:
    """Returns for each configuration whether a leg is not nearly straight.

    Args:
        limb: the leg.
        q: (n, joints) joint positions [rad or m].
    """
    origins, axes, tip = limb.chain.forward(q)
    hip_distance = np.linalg.norm(np.cross(tip - origins[:, limb.hip], axes[:, limb.hip]), axis=1)
    return np.asarray(hip_distance < USABLE_LENGTH_FRACTION * limb.reach)


#: Maximum mean speed of a swing foot relative to its hip, and of a hip relative to the stance feet, divided by l times
#: the velocity limit of the slowest joint.
SWING_SPEED_FRACTION = 0.18
#: Fraction of that which may be commanded in gaits with end support: the two legs of an end that swing together push
#: the robot back in every cycle, and the path reference is faster than the command to compensate it (`compensate_lag`).
COMMAND_RESERVE = 0.7
#: Fraction of the workspace that strides may use: the rest is for footholds that balance needs.
USABLE_WORKSPACE_FRACTION = 0.95
#: Height over the ground to which feet are lifted over unknown obstacles [l].
LIFTED_FOOT_HEIGHT = 0.25
#: Minimum factor by which a command is scaled on rough ground.
MIN_ROUGH_FRACTION = 0.25
#: Maximum speed on ground of known friction, as a multiple of that at which a force toward the center of mass would
#: leave the friction cone at the ends of a stance.
FRICTION_SPEED_RATIO = 2.0
#: Smallest speed that is divided by [m/s].
MIN_SPEED = 1e-9


class LimitReason(enum.IntEnum):
    """Reason for which a velocity is limited."""

    NONE = 0
    NO_STEPPING = 1
    NO_LATERAL_MOTION = 2
    STRIDE_OF_GAIT = 3
    JOINT_SPEED = 4
    FEET_CROSS = 5
    GROUND_FRICTION = 6
    LEGS_ON_SLOPE = 7  # `SlopeLimiter` has the text
    TERRAIN_STEP = 8  # `StepLookahead` has the text
    NO_PROGRESS = 9
    LEG_REACH = 10  # of the first foot; for the others, the index of the foot is added
    LEG_REACH_FR = 11
    LEG_REACH_RL = 12
    LEG_REACH_RR = 13
    JOINT_TORQUE = 14  # measured: the robot does not follow the command


class LegLimits(Record):
    """Limits of the legs that do not depend on the gait."""

    joint_speed: float  # smallest velocity limit of the leg joints [rad/s or m/s]; inf where there is none
    radius: float  # distance of the outermost hip from the center [m]
    half_width: float  # smallest lateral distance of a foot from the center [m]
    max_inward_fraction: float  # of that distance, by which a foot may move inward
    can_step_sideways: bool


class GaitLimits(Record):
    """A gait with the properties that limit velocities; see `Gait`."""

    timing: GaitParameters
    max_stride: float  # [l]
    has_end_support: bool
    is_reach_known: bool
    reach: Matrix  # (4, N_DIRECTIONS) radii of the workspaces of the feet, see `LegWorkspace` [m]
    lifted_reach: Matrix  # the same for feet at `LIFTED_FOOT_HEIGHT`


@compiled()
def compute_stance_time(gait: GaitLimits) -> float:
    """Returns the duration of a stance [s]."""
    return gait.timing.duty_factor * gait.timing.period


@entry("velocity limits")
def compute_swing_length(legs: LegLimits, gait: GaitLimits) -> float:
    """Returns the path length that the joints can cover in one swing [l]."""
    return SWING_SPEED_FRACTION * legs.joint_speed * (1.0 - gait.timing.duty_factor) * gait.timing.period


@entry("velocity limits")
def compute_max_hip_speed(legs: LegLimits, x: float, y: float, yaw_rate: float) -> float:
    """Returns an upper bound of the speed of all hips [m/s] at a velocity [m/s, rad/s]."""
    return math.sqrt(x * x + y * y) + abs(yaw_rate) * legs.radius


@compiled(inline=False)
def find_stride_scale(reach: Matrix, displacements: Matrix) -> tuple[float, int]:
    """Returns the largest factor of the displacements with which all feet stay in their workspaces, and the foot.

    Args:
        reach: (4, N_DIRECTIONS) radii of the workspaces [m].
        displacements: (4, 2) displacement of each foot from its nominal position, which it makes forward and backward,
            heading axes [m].

    Returns:
        The factor, inf where nothing limits it, and the index of the foot that limits it.
    """
    min_scale, limiting_foot = math.inf, 0
    for foot in range(4):
        x, y = displacements[foot, 0], displacements[foot, 1]
        distance = math.sqrt(x * x + y * y)
        if distance > 0.0:
            sector = math.atan2(y, x) * (N_DIRECTIONS / (2.0 * math.pi)) - 0.5
            first = math.floor(sector)
            alpha = sector - first
            for end in range(2):  # ahead and back
                i = (first + end * (N_DIRECTIONS // 2)) % N_DIRECTIONS
                a, b = reach[foot, i], reach[foot, (i + 1) % N_DIRECTIONS]
                scale = USABLE_WORKSPACE_FRACTION * (a + alpha * (b - a)) / distance
                if scale < min_scale * (1.0 - TIE_TOLERANCE):
                    limiting_foot = foot
                min_scale = min(min_scale, scale)
    return min_scale, limiting_foot


@compiled(inline=False)
def find_reach_scale(
    body: BodyParameters, gait: GaitLimits, reach: Matrix, x: float, y: float, yaw_rate: float
) -> tuple[float, int]:
    """Returns the largest factor of a velocity with which all feet stay in their workspaces, and the limiting foot.

    Args:
        body: parameters of the robot.
        gait: gait to move with.
        reach: (4, N_DIRECTIONS) radii of the workspaces [m].
        x: forward speed [m/s].
        y: leftward speed [m/s].
        yaw_rate: yaw rate [rad/s].
    """
    displacements, half_stance = zeros(4, 2), 0.5 * compute_stance_time(gait)
    length_scale, width_scale = gait.timing.footprint_scale[0], gait.timing.footprint_scale[1]
    for foot in range(4):
        a, b = body.nominal_stance[foot, 0], body.nominal_stance[foot, 1]
        displacements[foot, 0] = half_stance * (x - yaw_rate * width_scale * b)
        displacements[foot, 1] = half_stance * (y + yaw_rate * length_scale * a)
    return find_stride_scale(reach, displacements)


@compiled()
def is_zero_velocity(velocity: Vector) -> bool:
    """Returns whether all components of a velocity (3,) are zero."""
    for i in range(3):
        if velocity[i] != 0.0:
            return False
    return True


@compiled()
def scale_velocity(velocity: Vector, scale: float) -> None:
    """Multiplies a velocity (3,) by a factor."""
    for i in range(3):
        velocity[i] *= scale


@entry("velocity limits")
def clamp_velocity(
    body: BodyParameters, legs: LegLimits, gait: GaitLimits, velocity: Vector, reserve: float
) -> LimitReason:
    """Scales a velocity down, in all components alike, to the limits of the legs, and returns the reason.

    Args:
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to move with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; written.
        reserve: fraction of the limits that may be used.
    """
    x, y, yaw_rate = velocity[0], velocity[1], velocity[2]
    is_moving = not is_zero_velocity(velocity)
    if not gait.timing.has_swing_phase:
        scale_velocity(velocity, 0.0)
        return LimitReason.NO_STEPPING if is_moving else LimitReason.NONE
    width_scale, reason = gait.timing.footprint_scale[1], LimitReason.NONE
    if not legs.can_step_sideways:
        if width_scale != 1.0:
            scale_velocity(velocity, 0.0)
            return LimitReason.NO_LATERAL_MOTION if is_moving else LimitReason.NONE
        if y != 0.0 or yaw_rate != 0.0:
            y, yaw_rate, reason = 0.0, 0.0, LimitReason.NO_LATERAL_MOTION
    stance_time = compute_stance_time(gait)
    speed = max(compute_max_hip_speed(legs, x, y, yaw_rate), MIN_SPEED)
    max_inward_path = 2.0 * legs.max_inward_fraction * width_scale * legs.half_width
    scale = 1.0
    stride_scale = reserve * gait.max_stride * body.length / stance_time / speed
    if stride_scale < scale:
        scale, reason = stride_scale, LimitReason.STRIDE_OF_GAIT
    joint_scale = reserve * compute_swing_length(legs, gait) * body.length / stance_time / speed
    if joint_scale < scale:
        scale, reason = joint_scale, LimitReason.JOINT_SPEED
    width_limit = reserve * max_inward_path / stance_time / max(abs(y), MIN_SPEED)
    if width_limit < scale:
        scale, reason = width_limit, LimitReason.FEET_CROSS
    if gait.is_reach_known:
        reach_scale, foot = find_reach_scale(body, gait, gait.reach, x, y, yaw_rate)
        if reserve * reach_scale < scale:
            scale, reason = reserve * reach_scale, LimitReason(LimitReason.LEG_REACH + foot)
    velocity[0], velocity[1], velocity[2] = scale * x, scale * y, scale * yaw_rate
    return reason


@entry("velocity limits")
def clamp_command(body: BodyParameters, legs: LegLimits, gait: GaitLimits, velocity: Vector) -> LimitReason:
    """Scales a commanded velocity (3,) down to the limits of the legs, see `clamp_velocity`, and returns the reason."""
    return LimitReason(clamp_velocity(body, legs, gait, velocity, COMMAND_RESERVE if gait.has_end_support else 1.0))


@entry("velocity limits")
def clamp_velocity_on_rough_ground(
    body: BodyParameters,
    legs: LegLimits,
    gait: GaitLimits,
    velocity: Vector,
    extra_clearance: float,
    has_high_steps: bool,
) -> LimitReason:
    """Limits a velocity on rough ground without a terrain map, and returns the reason.

    Feet are lifted higher there, which takes a part of the distance that the joints can move them in a swing.  On high
    steps, strides must be within reach of the lifted feet.

    Args:
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to move with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far; written.
        extra_clearance: additional clearance of the feet [l].
        has_high_steps: whether the ground has high steps.
    """
    if is_zero_velocity(velocity):
        return LimitReason.NONE
    x, y, yaw_rate = velocity[0], velocity[1], velocity[2]
    speed = max(compute_max_hip_speed(legs, x, y, yaw_rate), MIN_SPEED)
    max_stride = max(compute_swing_length(legs, gait) - extra_clearance, 0.0) * body.length
    scale, reason = max_stride / compute_stance_time(gait) / speed, LimitReason.JOINT_SPEED
    if has_high_steps and gait.is_reach_known:
        reach_scale, foot = find_reach_scale(body, gait, gait.lifted_reach, x, y, yaw_rate)
        if reach_scale < scale:
            scale, reason = reach_scale, LimitReason(LimitReason.LEG_REACH + foot)
    if scale >= 1.0:
        return LimitReason.NONE
    scale_velocity(velocity, max(scale, MIN_ROUGH_FRACTION))
    return reason


@compiled()
def clamp_velocity_by_friction(
    body: BodyParameters, legs: LegLimits, gait: GaitLimits, velocity: Vector, friction: float
) -> LimitReason:
    """Limits a velocity on ground of known friction, and returns the reason.

    In a stance of duration T the hips pass over a foot from ``v T / 2`` behind to as much ahead, where a force toward
    the center of mass at height h has the horizontal fraction ``v T / (2 h)``.  The center of pressure moves along with
    the robot between two feet, so that `FRICTION_SPEED_RATIO` times the speed at which that equals the coefficient is
    possible.

    Args:
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to move with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; written.
        friction: friction coefficient of the ground; inf where it is only assumed.
    """
    speed = compute_max_hip_speed(legs, velocity[0], velocity[1], velocity[2])
    max_speed = FRICTION_SPEED_RATIO * 2.0 * body.height * friction / compute_stance_time(gait)
    if not speed > max_speed:
        return LimitReason.NONE
    scale_velocity(velocity, max_speed / speed)
    return LimitReason.GROUND_FRICTION


def allocate_gait_limits() -> GaitLimits:
    """Returns a record for the limits of a gait."""
    radii = (4, N_DIRECTIONS)
    return GaitLimits.allocate(timing={"phase_offsets": 4, "footprint_scale": 2}, reach=radii, lifted_reach=radii)


#: Minimum path length that a foot must be able to cover in its swing [l], in gaits with end support, in which no foot
#: of the same end can replace a late one.  The vertical motion alone takes 0.3.
MIN_SWING_LENGTH = 0.36
#: Reasons for which a velocity is limited.
NO_STEPPING, NO_LATERAL_MOTION = "gait does not step", "legs without lateral motion"
STRIDE_OF_GAIT, JOINT_SPEED, FEET_CROSS, LEG_REACH = (
    "stride of the gait",
    "speed of the joints",
    "feet would cross",
    "reach of",
)
GROUND_FRICTION = "friction of the ground"
NO_PROGRESS_MESSAGE, JOINT_TORQUE = "no progress: stopped", "torque of the joints"
#: Texts of the reasons; those of `LimitReason.LEGS_ON_SLOPE` and `LimitReason.TERRAIN_STEP` depend on the robot.
REASON_TEXTS = {
    LimitReason.NONE: "",
    LimitReason.NO_STEPPING: NO_STEPPING,
    LimitReason.NO_LATERAL_MOTION: NO_LATERAL_MOTION,
    LimitReason.STRIDE_OF_GAIT: STRIDE_OF_GAIT,
    LimitReason.JOINT_SPEED: JOINT_SPEED,
    LimitReason.FEET_CROSS: FEET_CROSS,
    LimitReason.GROUND_FRICTION: GROUND_FRICTION,
    LimitReason.NO_PROGRESS: NO_PROGRESS_MESSAGE,
    LimitReason.JOINT_TORQUE: JOINT_TORQUE,
    **{LimitReason.LEG_REACH + i: f"{LEG_REACH} {foot}" for i, foot in enumerate(FEET)},
}


class VelocityLimits:
    """Velocity limits of gaits on level ground.

    Feet stay within the stride of the gait and the reach of their legs, joints stay within their speed limits, and no
    foot crosses another.

    Args:
        morphology: lengths and units of the robot.
        workspace: reachable areas of its feet.

    Attributes:
        body: parameters of the robot, for compiled functions.
        legs: limits of the legs that do not depend on the gait, likewise.
    """

    __slots__ = ("_gait", "_gait_limits", "_morphology", "_workspace", "body", "legs")

    def __init__(self, morphology: Morphology, workspace: LegWorkspace) -> None:
        self._morphology, self._workspace = morphology, workspace
        stance = np.abs(morphology.nominal_stance)
        self.body = make_body_parameters(morphology)
        self.legs = LegLimits.from_values(
            joint_speed=morphology.joint_speed,
            radius=float(np.hypot(*stance.max(axis=0))),
            half_width=float(stance[:, 1].min()),
            max_inward_fraction=MAX_INWARD_FRACTION,
            can_step_sideways=morphology.can_step_sideways,
        )
        self._gait: Gait | None = None
        self._gait_limits = allocate_gait_limits()

    def write_gait(self, limits: GaitLimits, gait: Gait) -> None:
        """Writes the properties of a gait that limit velocities to a record."""
        write_gait_parameters(limits.timing, gait, self._morphology.time_scale)
        limits.max_stride, limits.has_end_support = gait.max_stride, gait.has_end_support
        for height, radii in ((0.0, limits.reach), (LIFTED_FOOT_HEIGHT, limits.lifted_reach)):
            reach = self._workspace.measure_reach(gait.footprint_scale, height)
            limits.is_reach_known = reach is not None
            radii[:] = 0.0 if reach is None else reach

    def gait_limits(self, gait: Gait) -> GaitLimits:
        """Returns the properties of a gait that limit velocities, until the next call with another gait."""
        if gait is not self._gait:
            self.write_gait(self._gait_limits, gait)
            self._gait = gait
        return self._gait_limits

    def max_hip_speed(self, x: float, y: float, yaw_rate: float) -> float:
        """Computes an upper bound of the speed of all hips [m/s].

        Args:
            x: forward speed [m/s].
            y: leftward speed [m/s].
            yaw_rate: yaw rate [rad/s].
        """
        return float(compute_max_hip_speed(self.legs, float(x), float(y), float(yaw_rate)))

    def gait_limit_reason(self, gait: Gait) -> str:
        """Returns the reason for which legs cannot perform a gait at any velocity; "" if they can.

        The legs must extend as fast as the trunk of a gait with flight phases rises, and where the front or the rear
        feet are all in the air while others carry, they must land in time.
        """
        p = self._morphology
        rate = p.gravity * gait.period * p.time_scale * float(gait.vertical_force_profile.rate.max())
        lands_late = gait.has_end_support and self.swing_length(gait) < MIN_SWING_LENGTH
        return JOINT_SPEED if lands_late or rate > SWING_SPEED_FRACTION * p.length * p.joint_speed else ""

    def swing_length(self, gait: Gait) -> float:
        """Computes the path length that the joints can cover in one swing [l]."""
        return float(compute_swing_length(self.legs, self.gait_limits(gait)))

    def clamp_velocity(self, gait: Gait, velocity: Array) -> tuple[Array, str]:
        """Returns the velocity, scaled down in all components alike, and the reason ("" if it was not limited).

        Args:
            gait: gait to move with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
        """
        clamped, limits = np.array(velocity, dtype=float), self.gait_limits(gait)
        return clamped, REASON_TEXTS[clamp_command(self.body, self.legs, limits, clamped)]
