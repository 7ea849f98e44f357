"""`TrunkController`: references of the whole-body controller for center of mass, base and contact forces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..compiler import IntVector, Mat3, Matrix, Record, Vec3, Vector, compiled, entry, mat3, vec3
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from ..wbc.tasks import ComTask, ForceTask, FrameOrientationTask
from ..wbc.tasks.motion_parameters import motion_parameters, set_has_reference
from .com_preview import ComReference
from .friction_model import PYRAMID_FACE_RATIO, FrictionModel, FrictionState
from .gait import clamp
from .ground_plane import GroundState, compute_heading_axes, plane_height
from .morphology import FEET, BodyParameters, Morphology, make_body_parameters
from .motion import Motion
from .path_reference import PathState
from .swing import advance_quintic

#: Fraction of the attitude weight in flight: the legs move to their footholds, and the trunk rotates in reaction.
FLIGHT_BASE_FRACTION = 8e-4
#: The same after a push that accelerates the steps: the trunk then acts as a flywheel.
FAST_STEP_BASE_FRACTION = 0.25
#: Feedback of the divergent component [omega].
DIVERGENT_GAIN = 0.5
#: Maximum horizontal acceleration, as a fraction of that which the friction pyramid allows in any direction or, after a
#: push that accelerates the steps, of that which the friction cone allows: the edges of the pyramid lie on the cone.
GROUND_FORCE_FRACTION = 0.9
#: Lowering of the trunk on a slope, divided by the sine of its angle [l]: feet at touchdown ahead and at lift-off
#: behind are then no farther from their hips than on level ground.
KNOWN_SLOPE_LOWERING = 0.1
#: Longest time to stop a fall [sqrt(l/g)].
STOPPING_TIME = 1.0
#: Maximum integral correction of height [h] and tilt [rad], and its time constant [sqrt(l/g)].
HEIGHT_TRIM, TILT_TRIM, TRIM_TIME = 0.06, 0.15, 4.0
#: Angle below which a rotation is computed from the limits of its coefficients [rad].
SMALL_ANGLE = 1e-9
#: Numbers of parameters of the tasks "com" and "base".
COM_BLOCK_SIZE, BASE_BLOCK_SIZE = 22, 28


class TrunkReferences(Record):
    """References of the tasks "com", "base" and "forces" of the whole-body controller."""

    com: Vec3  # center of mass, world [m]
    com_velocity: Vec3  # [m/s]
    com_acceleration: Vec3  # [m/s^2]
    base: Mat3  # attitude of the base
    base_velocity: Vec3  # its angular velocity, world [rad/s]
    base_weight_fraction: float  # fraction of the weight of the task "base"
    contact_forces: Matrix  # (4, 3) on the robot, world [N]
    has_force: IntVector  # (4,) whether a foot carries load; the others have the reference zero


class TrunkState(Record):
    """Motion of the trunk to another height or offset, and integral corrections; see `TrunkController`."""

    is_stepping_fast: bool  # whether a push has accelerated the steps; set by the caller at each tick
    slope_lowering: float  # in blind locomotion, divided by the sine of the slope's angle [l]
    height: Vec3  # over the ground [m], its rate [m/s] and its acceleration [m/s^2]
    com_offset: Matrix  # (2, 3) offset from the center of the feet: [m], [m/s] and [m/s^2], world x and y in rows
    target_height: float  # [m]
    target_offset: Vector  # (2,) [m]
    remaining_time: float  # of the motion to the targets [s]; 0 or less at rest
    height_trim: float  # integral correction of the height [m]
    tilt_trim: Vector  # (2,) integral correction of the attitude, rotation vector along world x and y [rad]
    desired_height: float  # of the center of mass over the plane of the feet, measured vertically [m]
    desired_rate: float  # [m/s]
    base_weight: Vec3  # weight of the task "base" where `base_weight_fraction` is 1; valid elsewhere
    base_weight_fraction: float  # present fraction of that weight
    references: TrunkReferences  # of the whole-body controller


# -- rules -----------------------------------------------------------------------------------------------------------
@compiled()
def slope_lowering(length: float, normal_z: float, fraction: float) -> float:
    """Returns the lowering of the trunk on a slope [m].

    Args:
        length: leg length [m].
        normal_z: vertical component of the slope's unit normal.
        fraction: lowering divided by leg length and sine of the slope's angle.
    """
    return fraction * length * math.sqrt(1.0 - normal_z * normal_z)


@compiled(inline=False)
def compute_friction_fraction(
    x: float, y: float, slope_x: float, slope_y: float, friction: float, gravity: float
) -> float:
    """Computes the fraction of an acceleration along the ground that friction allows, in [0, 1].

    With the weight m g, the force tangential to the ground is ``m (a + g sin(angle) u)`` with the uphill direction u,
    and the normal force ``m g cos(angle)``.

    Args:
        x: horizontal acceleration along x [m/s^2].
        y: horizontal acceleration along y [m/s^2].
        slope_x: slope of the ground along x.
        slope_y: slope of the ground along y.
        friction: maximum ratio of tangential to normal force.
        gravity: gravitational acceleration [m/s^2].
    """
    rise = slope_x * x + slope_y * y
    steep = slope_x * slope_x + slope_y * slope_y
    max_acceleration = friction * gravity
    squared_acceleration, uphill_power = x * x + y * y + rise * rise, gravity * rise
    margin = (max_acceleration * max_acceleration - gravity * gravity * steep) / (1.0 + steep)
    if margin <= 0.0:  # the foot slides in any case
        return 0.0 if uphill_power > 0.0 else 1.0
    if squared_acceleration + 2.0 * uphill_power <= margin:
        return 1.0
    return (
        math.sqrt(uphill_power * uphill_power + squared_acceleration * margin) - uphill_power
    ) / squared_acceleration


@compiled()
def make_tilt_rotation(a: float, b: float) -> Mat3:
    """Returns the rotation matrix of the horizontal rotation vector (a, b, 0) [rad] (Rodrigues' formula)."""
    angle = math.sqrt(a * a + b * b)
    s, k = 1.0, 0.5
    if angle > SMALL_ANGLE:
        s = math.sin(angle) / angle
        half = math.sin(0.5 * angle) / (0.5 * angle)
        k = 0.5 * half * half
    return mat3(
        1.0 - k * b * b, k * a * b, s * b,
        k * a * b, 1.0 - k * a * a, -s * a,
        -s * b, s * a, 1.0 - k * angle * angle,
    )  # fmt: skip


# -- motion to another height or offset ------------------------------------------------------------------------------
@compiled()
def is_trunk_moving(trunk: TrunkState) -> bool:
    """Returns whether a motion to another height or offset is in progress."""
    return trunk.remaining_time > 0.0


@entry("references of the trunk")
def reset_trunk(trunk: TrunkState, height: float) -> None:
    """Resets all motions and corrections of a trunk at rest at a height over the ground [m]."""
    trunk.is_stepping_fast = False
    trunk.height = vec3(height, 0.0, 0.0)
    trunk.target_height, trunk.desired_height, trunk.desired_rate = height, height, 0.0
    trunk.remaining_time, trunk.height_trim = 0.0, 0.0
    trunk.com_offset[:] = 0.0
    trunk.target_offset[:] = 0.0
    trunk.tilt_trim[:] = 0.0


@entry("references of the trunk")
def start_trunk_motion(trunk: TrunkState, height: float, offset_x: float, offset_y: float, time: float) -> None:
    """Starts a smooth motion of the center of mass to another height [m] and offset [m] in a time [s]."""
    trunk.target_height = height
    trunk.target_offset[0], trunk.target_offset[1] = offset_x, offset_y
    trunk.remaining_time = time


@entry("references of the trunk")
def start_trunk_stop(
    trunk: TrunkState, body: BodyParameters, height: float, rate: float, distance: float, min_height: float
) -> None:
    """Starts to bring the falling center of mass to rest; see `TrunkController.stop_fall`."""
    trunk.height = vec3(height, rate, 0.0)
    trunk.height_trim = 0.0
    for i in range(2):
        trunk.tilt_trim[i] = 0.0
        trunk.target_offset[i] = 0.0
        for k in range(3):
            trunk.com_offset[i, k] = 0.0
    stopping_distance = min(distance, max(height - min_height, 0.2 * distance))
    trunk.remaining_time = min(2.0 * stopping_distance / max(-rate, 1e-9), STOPPING_TIME * body.time_scale)
    trunk.target_height = height + 0.5 * rate * trunk.remaining_time


@entry("references of the trunk")
def lower_trunk(trunk: TrunkState, rate: float, min_height: float, dt: float) -> bool:
    """Lowers the trunk by one tick; returns False if it is already at the minimum height [m]."""
    height = trunk.height[0]
    is_above: bool = height > min_height
    if is_above:
        trunk.height = vec3(max(height - rate * dt, min_height), -rate, 0.0)
    else:
        trunk.height = vec3(height, 0.0, 0.0)
    trunk.target_height = trunk.height[0]
    return is_above


@compiled()
def advance_trunk_motion(trunk: TrunkState, dt: float) -> None:
    """Advances the motion to another height or offset by `dt` [s]."""
    time = trunk.remaining_time
    if time <= 0.0:
        return
    height = trunk.height
    z, rate, acceleration = advance_quintic(height[0], height[1], height[2], trunk.target_height, 0.0, time, dt)
    trunk.height = vec3(z, rate, acceleration)
    for i in range(2):
        offset = trunk.com_offset[i]
        offset[0], offset[1], offset[2] = advance_quintic(
            offset[0], offset[1], offset[2], trunk.target_offset[i], 0.0, time, dt
        )
    trunk.remaining_time = time - dt


# -- references ------------------------------------------------------------------------------------------------------
@compiled()
def compute_ground_acceleration(
    trunk: TrunkState,
    reference: ComReference,
    ground: GroundState,
    body: BodyParameters,
    motion: Motion,
    friction: FrictionState,
    weight: float,
) -> Vec3:
    """Computes the acceleration of the center of mass along the ground that friction allows [m/s^2].

    Args:
        trunk: state of the trunk.
        reference: reference of the center of mass from the preview.
        ground: plane of the feet.
        body: parameters of the robot.
        motion: measured motion.
        friction: friction and normals of the contacts.
        weight: vertical contact force divided by the mass [m/s^2].
    """
    stiffness = weight / (body.height + reference.height)
    gain, omega = stiffness * (1.0 + DIVERGENT_GAIN), reference.frequency
    com, velocity, cop, dcm = motion.com, motion.velocity, reference.cop, reference.dcm
    x = stiffness * (com[0] - cop[0]) - gain * (com[0] + velocity[0] / omega - dcm[0])
    y = stiffness * (com[1] - cop[1]) - gain * (com[1] + velocity[1] / omega - dcm[1])
    normal, usable_ratio = friction.normal, 1.0 if trunk.is_stepping_fast else PYRAMID_FACE_RATIO
    fraction = compute_friction_fraction(
        x, y, -normal[0] / normal[2], -normal[1] / normal[2],
        GROUND_FORCE_FRACTION * usable_ratio * friction.friction, weight,
    )  # fmt: skip
    x, y = fraction * x, fraction * y
    return vec3(x, y, ground.slope[0] * x + ground.slope[1] * y)


@compiled()
def update_com_references(
    trunk: TrunkState,
    reference: ComReference,
    ground: GroundState,
    body: BodyParameters,
    motion: Motion,
    friction: FrictionState,
    lowering: float,
    dt: float,
) -> None:
    """Computes the references of center of mass and contact forces.

    Args:
        trunk: state of the trunk; its references, desired height and height correction are written.
        reference: reference of the center of mass from the preview.
        ground: plane of the feet.
        body: parameters of the robot.
        motion: measured motion.
        friction: friction and normals of the contacts.
        lowering: lowering of the trunk on the slope [m].
        dt: control period [s].
    """
    com, velocity, references = motion.com, motion.velocity, trunk.references
    height, rate = trunk.height[0], trunk.height[1] + reference.height_rate
    # Vertical contact force per mass: while a fall is stopped, much more than the weight.
    weight = max(reference.vertical_force * body.gravity + trunk.height[2], 0.0)
    acceleration = compute_ground_acceleration(trunk, reference, ground, body, motion, friction, weight)
    plane = plane_height(ground, com[0], com[1])
    base_height = plane - ground.lowering - lowering + reference.height
    trunk.desired_height = base_height + height - plane
    trunk.desired_rate = rate + ground.climb_rate
    limit = HEIGHT_TRIM * body.height
    alpha = dt / (TRIM_TIME * body.time_scale)
    trunk.height_trim = clamp(trunk.height_trim + alpha * (base_height + height - com[2]), -limit, limit)
    climb_rate = ground.slope[0] * velocity[0] + ground.slope[1] * velocity[1] + ground.climb_rate
    references.com = vec3(com[0], com[1], base_height + height + trunk.height_trim)
    references.com_velocity = vec3(velocity[0], velocity[1], rate + climb_rate)
    references.com_acceleration = acceleration + vec3(0.0, 0.0, weight - body.gravity)
    force = (acceleration + vec3(0.0, 0.0, weight)) * body.mass
    for foot in range(4):
        fraction = max(reference.load_fractions[foot], 0.0)
        references.has_force[foot] = int(fraction > 0.0)
        references.contact_forces[foot, 0:3] = force * fraction


@compiled()
def update_base_references(
    trunk: TrunkState,
    path: PathState,
    ground: GroundState,
    body: BodyParameters,
    motion: Motion,
    axes: Mat3,
    dt: float,
) -> None:
    """Computes the attitude and the angular velocity of a base that is parallel to the ground.

    Args:
        trunk: state of the trunk; its references and its correction of the attitude are written.
        path: path reference.
        ground: plane of the feet.
        body: parameters of the robot.
        motion: measured motion.
        axes: heading axes on the slope, see `compute_heading_axes`.
        dt: control period [s].
    """
    references, R = trunk.references, axes @ body.heading.T
    error, alpha = R @ motion.R_base.T, dt / (TRIM_TIME * body.time_scale)
    lean_x, lean_y = 0.5 * (error[2, 1] - error[1, 2]), 0.5 * (error[0, 2] - error[2, 0])  # of small angles
    tilt = trunk.tilt_trim
    tilt[0] = clamp(tilt[0] + alpha * lean_x, -TILT_TRIM, TILT_TRIM)
    tilt[1] = clamp(tilt[1] + alpha * lean_y, -TILT_TRIM, TILT_TRIM)
    references.base = make_tilt_rotation(tilt[0], tilt[1]) @ R
    normal = vec3(axes[0, 2], axes[1, 2], axes[2, 2])
    cosine_squared = normal[2] * normal[2]
    tilt_rate = vec3(cosine_squared * ground.slope_rate[1], -cosine_squared * ground.slope_rate[0], 0.0)
    references.base_velocity = normal * path.velocity[2] + tilt_rate


@entry("references of the trunk")
def update_trunk_references(
    trunk: TrunkState,
    reference: ComReference,
    path: PathState,
    ground: GroundState,
    body: BodyParameters,
    motion: Motion,
    friction: FrictionState,
    dt: float,
) -> None:
    """Computes the references of the whole-body controller for one tick; see `TrunkController`.

    Args:
        trunk: state of the trunk; advanced by `dt`, and its references are written.
        reference: reference of the center of mass from the preview.
        path: path reference.
        ground: plane of the feet.
        body: parameters of the robot.
        motion: measured motion.
        friction: friction and normals of the contacts.
        dt: control period [s].
    """
    advance_trunk_motion(trunk, dt)
    axes = compute_heading_axes(path.yaw, ground.slope[0], ground.slope[1])
    fraction = KNOWN_SLOPE_LOWERING if ground.follows_map else trunk.slope_lowering
    lowering = slope_lowering(body.length, axes[2, 2], fraction)
    update_com_references(trunk, reference, ground, body, motion, friction, lowering, dt)
    update_base_references(trunk, path, ground, body, motion, axes, dt)
    carries_load = False
    for foot in range(4):
        carries_load = carries_load or reference.load_fractions[foot] != 0.0
    trunk.references.base_weight_fraction = 1.0
    if not carries_load:
        trunk.references.base_weight_fraction = FLIGHT_BASE_FRACTION
    elif trunk.is_stepping_fast:
        trunk.references.base_weight_fraction = FAST_STEP_BASE_FRACTION


# -- tasks of the whole-body controller ------------------------------------------------------------------------------
@entry("references of the trunk")
def set_base_weight(trunk: TrunkState, base: Vector, fraction: float) -> None:
    """Sets the weight of the task "base" to a fraction of that which it has on the ground.

    Args:
        trunk: state of the trunk, which stores the weight while it is reduced.
        base: (28,) parameters of the task "base".
        fraction: fraction of the weight.
    """
    if fraction == trunk.base_weight_fraction:
        return
    weight = motion_parameters(base, 3).weight
    if trunk.base_weight_fraction == 1.0:
        trunk.base_weight = vec3(weight)
    weight[0:3] = trunk.base_weight * fraction
    trunk.base_weight_fraction = fraction


@compiled()
def write_motion_reference(task: Vector, velocity: Vec3, acceleration: Vec3) -> Vector:
    """Writes the velocity and acceleration of a motion task with three rows, and returns its reference position."""
    p = motion_parameters(task, 3)
    set_has_reference(p, True)
    p.velocity[0:3] = velocity
    p.acceleration[0:3] = acceleration
    return p.position


@compiled()
def write_force_references(references: TrunkReferences, rows: Matrix) -> None:
    """Writes the contact forces as in `TickInputData.force_references`.

    Args:
        references: references to be written.
        rows: (4, 8) written: for each foot 1, whether it has a reference, the force [N], and three zeros.
    """
    for foot in range(4):
        row = rows[foot]
        row[0], row[1] = 1.0, float(references.has_force[foot])
        row[2:5] = references.contact_forces[foot]
        row[5:8] = vec3(0.0, 0.0, 0.0)


@entry("references of the trunk")
def write_task_references(trunk: TrunkState, com: Vector, base: Vector, forces: Matrix) -> bool:
    """Writes the references into the parameters of the tasks "com" and "base", and those of contact forces.

    Args:
        trunk: state of the trunk; it stores the weight of the task "base" while it is reduced.
        com: (22,) parameters of the task "com".
        base: (28,) parameters of the task "base".
        forces: (4, 8) references of contact forces; see `write_force_references`.

    Returns:
        False if a task has another number of parameters, so that only the contact forces are written.
    """
    references = trunk.references
    write_force_references(references, forces)
    if len(com) != COM_BLOCK_SIZE or len(base) != BASE_BLOCK_SIZE:
        return False
    position = write_motion_reference(com, references.com_velocity, references.com_acceleration)
    position[0:3] = references.com
    position = write_motion_reference(base, references.base_velocity, vec3(0.0, 0.0, 0.0))
    R = references.base
    position[0:3] = R[0]
    position[3:6] = R[1]
    position[6:9] = R[2]
    set_base_weight(trunk, base, references.base_weight_fraction)
    return True


def allocate_trunk_state() -> TrunkState:
    """Returns a trunk at rest."""
    references = {"contact_forces": (4, 3), "has_force": 4}
    trunk = TrunkState.allocate(com_offset=(2, 3), target_offset=2, tilt_trim=2, references=references)
    trunk.base_weight_fraction = 1.0
    return trunk


#: Natural frequency of the height control [1/sqrt(l/g)].
HEIGHT_FREQUENCY = 2.5
#: Weights of height and attitude (per l) relative to that of the horizontal motion of the center of mass, 1.  With two
#: feet in contact not all can be satisfied; the horizontal motion has priority, since it decides about falling.
HEIGHT_WEIGHT, BASE_WEIGHT = 2.0, 1.25
#: `KNOWN_SLOPE_LOWERING` in blind locomotion, for robots whose legs fold that far: a leg that is nearly straight at
#: lift-off needs a very fast knee.
BLIND_SLOPE_LOWERINGS = 0.3, 0.2
#: Time to stand up or to lie down [sqrt(l/g)].
RISING_TIME = 6.0


class TrunkController:
    """References of the tasks "com", "base" and "forces".

    *Horizontally* the center of mass has no position reference.  With the error e of its divergent component, the
    center of pressure ``z* + (1 + k) e`` makes e decay at the rate k lambda / omega (Englsberger et al. 2015; lambda is
    omega^2 except in gaits with flight phases, see `preview_com`), hence

        cddot = lambda (c - z*) - lambda (1 + k) e,

    clamped to the friction limit.  Two point feet exert no moment about the line between them: a force that moves the
    center of mass across that line rotates the trunk, and keeping the trunk upright costs force.  After a push that
    accelerates the steps (`adapt_step_timing`) the weight of the attitude is reduced: the trunk acts as a flywheel for
    a while (Stephens 2007, "Humanoid push recovery").  The *height* is measured vertically over the plane of the feet:
    then the same law holds on a slope, with the vertical acceleration that keeps the height.  The trunk is parallel to
    that plane and points along the path reference.  Integral action compensates mass that is not in the robot's model.

    Args:
        morphology: lengths and units of the robot.
        wbc: the whole-body controller, whose references are set.
        friction_model: friction and normals of the contacts.
        height: present height of the center of mass over the ground [m].
        slope_lowering: lowering on slopes in blind locomotion, divided by the sine of their angle [l].

    Attributes:
        state: record of the compiled functions, with all of the state.
    """

    __slots__ = (
        "_body",
        "_friction_model",
        "_morphology",
        "_wbc",
        "force_rows",
        "state",
    )

    def __init__(
        self,
        morphology: Morphology,
        wbc: WholeBodyController,
        friction_model: FrictionModel,
        height: float,
        slope_lowering: float = KNOWN_SLOPE_LOWERING,
    ) -> None:
        self._morphology, self._wbc, self._friction_model = morphology, wbc, friction_model
        self._body, self.state = make_body_parameters(morphology), allocate_trunk_state()
        self.force_rows = np.zeros((4, 8))
        self.state.slope_lowering = slope_lowering
        reset_trunk.python(self.state, height)

    @staticmethod
    def set_gains(morphology: Morphology, tasks: Mapping[str, Any]) -> None:
        """Sets gains and weights of the tasks.

        Args:
            morphology: lengths and units of the robot.
            tasks: tasks "com" and "base" of the whole-body controller.
        """
        p = morphology
        rate = (HEIGHT_FREQUENCY / p.time_scale) ** 2
        tasks["com"].gains(np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, 2.0 * math.sqrt(rate)]))
        tasks["com"].weight = np.array([1.0, 1.0, HEIGHT_WEIGHT])
        tasks["base"].weight = BASE_WEIGHT * p.length

    def go_to(self, height: float, com_offset: tuple[float, float] = (0.0, 0.0), time: float = RISING_TIME) -> None:
        """Starts a smooth motion of the center of mass to another height and offset.

        Args:
            height: target height over the ground [m].
            com_offset: (2,) target offset from the center of the feet, world [m].
            time: duration [sqrt(l/g)].
        """
        x, y = com_offset
        start_trunk_motion.python(self.state, float(height), float(x), float(y), time * self._morphology.time_scale)

    @property
    def has_standard_tasks(self) -> bool:
        """Whether compiled code may write the references of the tasks "com", "base" and "forces" directly."""
        tasks = self._wbc.tasks
        com, base, forces = tasks["com"], tasks["base"], tasks["forces"]
        sizes = len(com.block) == COM_BLOCK_SIZE and len(base.block) == BASE_BLOCK_SIZE
        return sizes and (type(com), type(base), type(forces)) == (ComTask, FrameOrientationTask, ForceTask)

    def attach_force_rows(self) -> None:
        """Sets `force_rows` to the rows from which the whole-body controller reads the references of forces.

        If the task "forces" or its contacts are not the standard ones, `force_rows` is a separate array.
        """
        forces = self._wbc.tasks["forces"]
        rows = forces.point_force_rows(FEET) if type(forces) is ForceTask else None
        self.force_rows = np.zeros((4, 8)) if rows is None else rows

    def write_references(self) -> None:
        """Writes the references of the record to the tasks of the whole-body controller."""
        state, tasks = self.state, self._wbc.tasks
        com_task, base_task = tasks["com"], tasks["base"]
        if not write_task_references(state, com_task.block, base_task.block, self.force_rows):
            references = state.references
            com_task.reference(references.com, references.com_velocity, references.com_acceleration)
            base_task.reference(references.base, references.base_velocity)
        tasks["forces"].set_point_forces(FEET, self.force_rows)

    def restore_base_weight(self) -> None:
        """Restores the weight of the task "base"; `write_task_references` does so where feet carry load."""
        self.reduce_base_weight(1.0)

    def reduce_base_weight(self, fraction: float = FLIGHT_BASE_FRACTION) -> None:
        """Reduces the weight of the task "base", until `restore_base_weight`.

        Args:
            fraction: fraction of the weight that remains.
        """
        set_base_weight.python(self.state, self._wbc.tasks["base"].block, fraction)


def compute_slope_lowering(morphology: Morphology, axes: Array, fraction: float = KNOWN_SLOPE_LOWERING) -> float:
    """Computes the lowering of the trunk on a slope [m].

    Args:
        morphology: lengths and units of the robot.
        axes: (3, 3) `heading_axes` of the slope.
        fraction: lowering divided by leg length and sine of the slope's angle.
    """
    return slope_lowering(morphology.length, float(axes[2, 2]), fraction)
