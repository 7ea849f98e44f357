"""`SlopeLimiter`: limits of the velocity on the slope under the robot.

`SlopeStatics`: static conditions under which a robot can stand and walk on a slope.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Generator, Mapping
from types import MappingProxyType

import numpy as np
import pinocchio as pin

from ..compiler import Record, Vector, compiled, entry
from ..dynamics import Dynamics
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array, first_largest
from .footwork import MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET
from .friction_model import (
    PYRAMID_FACE_RATIO,
    FrictionState,
    compute_ground_slope,
    compute_known_friction,
    compute_slip_bound,
)
from .gait import GAITS, N_CYCLE_SAMPLES, Gait, GaitParameters
from .ground_plane import MAX_SLOPE, GroundPlane
from .modes import MAX_STANDING_FRACTION, is_dcm_near_edge
from .morphology import FEET, BodyParameters, Morphology
from .trunk_controller import BLIND_SLOPE_LOWERINGS, KNOWN_SLOPE_LOWERING, compute_slope_lowering
from .velocity_limits import (
    GROUND_FRICTION,
    GaitLimits,
    LegLimits,
    LegPoseSolver,
    LimitReason,
    clamp_velocity_by_friction,
    is_zero_velocity,
    scale_velocity,
)

#: Reasons for which a slope is infeasible; for torque and reach the name of the joint or the leg follows.
TOO_STEEP, OUTSIDE_SUPPORT = "slope above the supported maximum", "center of mass outside the support"
TORQUE_OF, REACH_OF = "torque of", "reach of"
#: Ratio of the required peak torque to the limit up to which a gait with flight phases is feasible: its flights are
#: lower.
PEAK_TORQUE_RATIO = 1.2
#: Slope and speed [sqrt(g l)] for which the legs must reach the ground with a larger lowering of the trunk.
LOWERING_TEST_SLOPE, LOWERING_TEST_SPEED = 0.5, 0.3
#: Ratio of the uncontrolled displacement of the divergent component until the next step to the distance of that step,
#: up to which a robot that starts beside its support can recover: the present stance feet reduce the displacement.
CAPTURE_DISTANCE_RATIO = 1.28
#: Number of corrections of the base position for the mass of the legs.
N_BASE_CORRECTIONS = 3

#: Evaluation in short parts, between which it yields; returns a reason or "".
Evaluation = Generator[None, None, str]


class SlopeStatics:
    """Static conditions of a stance on a slope: trunk parallel to the ground, center of mass above the feet.

    Three conditions are checked.  *Friction*: a vertical force is in the friction pyramid about the ground normal.
    *Support*: a robot that comes to the slope in its home stance, trunk parallel to the slope, has its center of mass
    above the support polygon, so that there is time to shift it, or so little outside that a step recovers it (capture
    point; Pratt et al. 2006).  *Legs*: for every set of stance feet of the gait, at mid-stance and at both ends of the
    stance, the legs reach the ground, and no motor exceeds its limit if the weight is distributed equally; in gaits
    with flight phases, the peak force of these feet (`VerticalForceProfile`): a single foot exerts less than two.
    Motion needs more: a robot may fall where these conditions hold.  A robot whose center of mass is outside its
    support may recover by more steps, or by coming to the slope from level ground.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        poses: leg kinematics.
        has_closed_form: whether the kinematics of all legs have a closed form, so that every part of `evaluate_legs` is
            short.
        slope_lowering: lowering of the trunk on slopes in blind locomotion, divided by the sine of their angle [l].
    """

    __slots__ = ("_dynamics", "_morphology", "_robot", "has_closed_form", "poses", "slope_lowering")

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        self._robot, self._morphology = robot, morphology
        self._dynamics, self.poses = Dynamics(robot), LegPoseSolver(robot)
        self.has_closed_form = all(leg.closed_form for leg in self.poses.legs.values())
        self.slope_lowering = self._find_slope_lowering() if self.has_closed_form else KNOWN_SLOPE_LOWERING

    def _find_slope_lowering(self) -> float:
        """Finds the largest lowering with which the legs of a trot reach the ground up and down a steep slope [l]."""
        limits, velocity = (
            np.full(self._robot.nu, math.inf),
            np.array([LOWERING_TEST_SPEED * self._morphology.speed_scale, 0.0, 0.0]),
        )
        for self.slope_lowering in BLIND_SLOPE_LOWERINGS:
            limit_reasons = (
                run_to_end(self.evaluate_legs(GAITS["trot"], velocity, np.array([slope, 0.0]), limits))
                for slope in (LOWERING_TEST_SLOPE, -LOWERING_TEST_SLOPE)
            )
            if not any(limit_reasons):
                return self.slope_lowering
        return KNOWN_SLOPE_LOWERING

    def limit_reason(
        self, gait: Gait, velocity: Array, angle: float, direction: float, friction: float, torque_limits: Array
    ) -> str:
        """Returns the reason for which the robot cannot walk on a slope, "" if it can.

        Args:
            gait: gait to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
            angle: angle of the slope [rad].
            direction: uphill direction, from the robot's forward direction [rad].
            friction: friction coefficient of the ground.
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        p, slope = self._morphology, math.tan(angle)
        if slope > PYRAMID_FACE_RATIO * friction:
            return GROUND_FRICTION
        if slope > MAX_SLOPE:
            return TOO_STEEP
        uphill = slope * np.array([math.cos(direction), math.sin(direction)])
        x, y, z = self._make_plane(uphill).normal.tolist()
        com_offset = p.height * x / z, p.height * y / z
        if is_dcm_near_edge(*com_offset, p.nominal_stance, MAX_STANDING_FRACTION) and not self._is_capturable(
            com_offset
        ):
            return OUTSIDE_SUPPORT
        return run_to_end(self.evaluate_legs(gait, velocity, uphill, torque_limits))

    def _is_capturable(self, com_offset: tuple[float, float]) -> bool:
        """Returns whether a step of a trot recovers a robot with a given offset of its center of mass.

        Args:
            com_offset: (2,) offset from the center of the feet, heading axes [m].
        """
        p, trot = self._morphology, GAITS["trot"]
        growth: float = math.exp(
            (1.0 - trot.duty_factor) * trot.period * p.time_scale * math.sqrt(p.gravity / p.height)
        )
        max_offset = CAPTURE_DISTANCE_RATIO * (
            np.abs(p.nominal_stance).min(axis=0) + np.array([MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET]) * p.length
        )
        return bool((growth * np.abs(com_offset) <= max_offset).all())

    def evaluate_legs(self, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array) -> Evaluation:
        """Evaluates, leg by leg, the torque or reach that limits the legs on a slope; "" if none does.

        Args:
            gait: gait to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
            uphill: (2,) slope of the ground forward and leftward.
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        p, plane = self._morphology, self._make_plane(uphill)
        has_constant_force = gait.vertical_force_profile.is_constant
        # In gaits with flight phases the force is small at the ends of the stance.
        half = 0.5 * gait.duty_factor * gait.period * p.time_scale * velocity[:2] * float(has_constant_force)
        max_fraction, motor = 0.0, 0
        for fraction in (0.0, -1.0, 1.0) if half.any() else (0.0,):
            torques = yield from self._evaluate_torques(gait, plane, fraction * half)
            if isinstance(torques, str):
                return torques
            fractions = (np.abs(torques) / torque_limits).max(axis=0)
            largest = float(fractions.max())
            if largest > max_fraction * (1.0 + TIE_TOLERANCE):
                motor = first_largest(fractions)
            max_fraction = max(max_fraction, largest)
        return (
            f"{TORQUE_OF} {self._robot.actuated[motor]}"
            if max_fraction > (1.0 if has_constant_force else PEAK_TORQUE_RATIO)
            else ""
        )

    def _make_plane(self, uphill: Array) -> GroundPlane:
        """Returns the plane through the home feet, below the center of mass, with a slope (2,), heading axes."""
        return GroundPlane(np.column_stack((self._morphology.nominal_stance, self._morphology.nominal_stance @ uphill)))

    def _evaluate_torques(
        self, gait: Gait, plane: GroundPlane, displacement: Array
    ) -> Generator[None, None, Array | str]:
        """Evaluates the motor torques (sets, nu) for each set of stance feet [N m], or the leg out of reach.

        Args:
            gait: gait to walk with.
            plane: plane of the ground through the origin, below the center of mass.
            displacement: (2,) displacement of the feet from mid-stance, along the ground [m].
        """
        p, robot = self._morphology, self._robot
        axes = plane.axes(0.0)
        feet = np.zeros((4, 3))
        feet[:, :2] = (p.nominal_stance * gait.footprint_scale + displacement) @ plane.compute_projection(0.0).T
        feet[:, 2] = feet[:, :2] @ plane.slope
        feet += p.radii[:, None] * axes[:, 2]
        com = np.array([0.0, 0.0, p.height - compute_slope_lowering(p, axes, self.slope_lowering)])
        R = axes @ p.heading.T
        q, base = np.array(robot.q_home), com + axes @ p.base_offset
        q[3:7] = pin.Quaternion(R).coeffs()
        for _ in range(N_BASE_CORRECTIONS):
            q[:3] = base
            for foot, position in zip(FEET, feet, strict=True):
                yield
                if not self.poses.place_foot(q, foot, R.T @ (position - base)):
                    return f"{REACH_OF} {foot}"
            state = self._dynamics.update(q.copy(), np.zeros(robot.nv))
            base = base + com - state.com
        # The state stays valid: the evaluation does not yield between here and its last use.
        weight = np.array([0.0, 0.0, p.mass * p.gravity])
        weight_torques = {foot: state.jacobian(foot)[:3].T @ weight for foot in FEET}
        torques = []
        for stance_feet, peak_force in list_stances(gait).items():
            fraction = peak_force / len(stance_feet)
            tau = state.gravity - fraction * sum((weight_torques[foot] for foot in stance_feet), np.zeros(robot.nv))
            torques.append(tau[robot.actuated_index])
        return np.array(torques)


def run_to_end(evaluation: Evaluation) -> str:
    """Runs an evaluation in parts to its end and returns its result, a reason or ""."""
    while True:
        try:
            next(evaluation)
        except StopIteration as end:
            result: str = end.value
            return result


@functools.lru_cache(maxsize=64)
def list_stances(gait: Gait) -> Mapping[tuple[str, ...], float]:
    """Returns the sets of stance feet of a gait in a cycle, with the peak vertical force of each [weights]."""
    peak_forces: dict[tuple[str, ...], float] = {}
    for k, force in enumerate(gait.vertical_force_profile.force.tolist()):
        phase = (k + 0.5) / N_CYCLE_SAMPLES
        feet = (
            foot
            for foot, offset in zip(FEET, gait.phase_offsets, strict=True)
            if (phase - offset) % 1.0 < gait.duty_factor
        )
        stance_feet = tuple(feet)
        peak_forces[stance_feet] = max(force, peak_forces.get(stance_feet, 0.0))
    peak_forces.pop((), None)
    return MappingProxyType(peak_forces)


#: Minimum slope that is evaluated.
MIN_SLOPE = 0.1
#: Change of the slope in the heading frame, and of the command [sqrt(g l)], after which the evaluation is repeated.
MIN_SLOPE_CHANGE, MIN_VELOCITY_CHANGE = 0.03, 0.03
#: Ratio of assumed to slip-estimated friction above which a stopped command is released.
RELEASE_FRICTION_RATIO = 1.5


class SlopeEvaluation(enum.IntEnum):
    """What the evaluation of the legs has to do in this tick."""

    NONE = 0
    START = 1
    CONTINUE = 2


class SlopeState(Record):
    """Slope under the robot, and the velocity that it allows."""

    min_velocity_change: float  # after which the evaluation is repeated [m/s]
    is_steep: bool  # whether the slope limits velocities at present
    is_sliding: bool  # whether the friction of the ground is insufficient
    uphill: Vector  # (2,) slope forward and leftward
    has_evaluated: bool  # whether the following case was evaluated, or is being evaluated
    is_evaluating: bool
    evaluated_gait: GaitParameters
    evaluated_velocity: Vector  # (3,) heading frame [m/s, rad/s]
    evaluated_uphill: Vector  # (2,)
    fraction: float  # of the velocity, which the last evaluation allows
    reason: LimitReason  # of the last evaluation


@entry("limits on slopes")
def reset_slope(slope: SlopeState) -> None:
    """Resets the evaluation."""
    slope.is_steep = False
    slope.is_sliding = False
    slope.has_evaluated = False
    slope.is_evaluating = False
    slope.fraction = 1.0
    slope.reason = LimitReason.NONE


@compiled()
def is_same_gait(a: GaitParameters, b: GaitParameters) -> bool:
    """Returns whether two gaits have the same parameters."""
    if a.period != b.period or a.duty_factor != b.duty_factor:
        return False
    for i in range(2):
        if a.footprint_scale[i] != b.footprint_scale[i]:
            return False
    for foot in range(4):
        if a.phase_offsets[foot] != b.phase_offsets[foot]:
            return False
    return True


@compiled()
def has_case_changed(slope: SlopeState, gait: GaitParameters, velocity: Vector) -> bool:
    """Returns whether gait, velocity (3,) or slope differ enough from the last evaluated ones."""
    if not slope.has_evaluated or not is_same_gait(slope.evaluated_gait, gait):
        return True
    for i in range(2):
        if abs(slope.uphill[i] - slope.evaluated_uphill[i]) > MIN_SLOPE_CHANGE:
            return True
    for i in range(3):
        if abs(velocity[i] - slope.evaluated_velocity[i]) > slope.min_velocity_change:
            return True
    return False


@entry("limits on slopes")
def update_slope(
    slope: SlopeState,
    gait: GaitParameters,
    velocity: Vector,
    yaw: float,
    friction: FrictionState,
) -> SlopeEvaluation:
    """Updates the slope under the robot, and returns what the evaluation of the legs has to do in this tick.

    A second call in the same tick changes nothing.

    Args:
        slope: state of the limiter.
        gait: gait to walk with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
        yaw: yaw angle of the heading frame [rad].
        friction: friction and normals of the contacts.
    """
    tangent = compute_ground_slope(friction)
    if tangent < MIN_SLOPE:
        reset_slope(slope)
        return SlopeEvaluation.NONE
    slope.is_steep = True
    if is_zero_velocity(velocity):
        return SlopeEvaluation.NONE
    required_friction = tangent / PYRAMID_FACE_RATIO
    min_slip_bound = required_friction * (RELEASE_FRICTION_RATIO if slope.is_sliding else 1.0)
    slope.is_sliding = (
        compute_known_friction(friction) < required_friction or compute_slip_bound(friction) < min_slip_bound
    )
    if slope.is_sliding:
        return SlopeEvaluation.NONE
    c, s, x, y, z = math.cos(yaw), math.sin(yaw), friction.normal[0], friction.normal[1], friction.normal[2]
    slope.uphill[0], slope.uphill[1] = -(c * x + s * y) / z, (s * x - c * y) / z
    if slope.is_evaluating:
        return SlopeEvaluation.CONTINUE
    return SlopeEvaluation.START if has_case_changed(slope, gait, velocity) else SlopeEvaluation.NONE


@entry("limits on slopes")
def begin_evaluation(slope: SlopeState, gait: GaitParameters, velocity: Vector) -> None:
    """Stores the case that is evaluated from now on."""
    slope.has_evaluated = True
    slope.is_evaluating = True
    slope.evaluated_gait.copy_from(gait)
    slope.evaluated_velocity[:] = velocity
    slope.evaluated_uphill[:] = slope.uphill


@entry("limits on slopes")
def clamp_velocity_on_slope(slope: SlopeState, velocity: Vector) -> LimitReason:
    """Scales a velocity (3,) down for the slope, after `update_slope`, and returns the reason."""
    if not slope.is_steep or is_zero_velocity(velocity):
        return LimitReason.NONE
    if slope.is_sliding:
        scale_velocity(velocity, 0.0)
        return LimitReason.GROUND_FRICTION
    scale_velocity(velocity, slope.fraction)
    return slope.reason


@entry("limits on slopes")
def clamp_velocity_on_ground(
    slope: SlopeState,
    body: BodyParameters,
    legs: LegLimits,
    gait: GaitLimits,
    velocity: Vector,
    friction: FrictionState,
) -> LimitReason:
    """Scales a velocity down for the slope and the friction of the ground, after `update_slope`; returns the reason.

    Args:
        slope: state of the slope limiter.
        body: parameters of the robot.
        legs: limits of its legs.
        gait: gait to walk with.
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far; written.
        friction: friction and normals of the contacts.
    """
    slope_reason = clamp_velocity_on_slope(slope, velocity)
    ground_friction = min(compute_known_friction(friction), compute_slip_bound(friction))
    friction_reason = clamp_velocity_by_friction(body, legs, gait, velocity, ground_friction)
    return slope_reason if friction_reason == LimitReason.NONE else friction_reason


def allocate_slope_state() -> SlopeState:
    """Returns the state of a limiter on level ground."""
    slope = SlopeState.allocate(
        uphill=2,
        evaluated_gait={"phase_offsets": 4, "footprint_scale": 2},
        evaluated_velocity=3,
        evaluated_uphill=2,
    )
    slope.fraction = 1.0
    return slope


#: Fractions of a command that are tried in this order; if none is feasible, the robot stops.
VELOCITY_FRACTIONS = 1.0, 0.75, 0.5, 0.25


class SlopeLimiter:
    """Limiter of velocities by friction and torques on the slope under the robot.

    *Friction*: with the smaller of the given friction and that of slips, the weight must be in the friction pyramid
    about the ground normal; a friction that is only assumed does not limit, since ground on which a robot stands has
    enough friction.  *Legs*: `SlopeStatics` at the ends of the strides, for the whole command and then for smaller
    fractions of it.  That takes milliseconds, and is evaluated in the background, one leg per tick; meanwhile the last
    result holds.

    Args:
        statics: static conditions of the robot; None where the leg kinematics have no closed form.
        speed_scale: unit of speed, ``sqrt(g l)`` [m/s].

    Attributes:
        state: record of the compiled functions, with the case and the result of the evaluation.
        leg_reason: text of `LimitReason.LEGS_ON_SLOPE`, the joint or leg that limits the velocity.
    """

    __slots__ = ("_evaluation", "_statics", "leg_reason", "state")

    def __init__(self, statics: SlopeStatics | None, speed_scale: float) -> None:
        self._statics, self.state = statics, allocate_slope_state()
        self.state.min_velocity_change = MIN_VELOCITY_CHANGE * speed_scale
        self.reset()

    def reset(self) -> None:
        """Resets the evaluation."""
        reset_slope.python(self.state)
        self._evaluation: Generator[None, None, tuple[float, str]] | None = None
        self.leg_reason = ""

    def advance_evaluation(
        self, evaluation: int, gait: Gait, timing: GaitParameters, velocity: Array, torque_limits: Array
    ) -> None:
        """Evaluates one part of the leg limits, or starts a new evaluation.

        Args:
            evaluation: `SlopeEvaluation` of `update_slope`.
            gait: gait to walk with.
            timing: its parameters, as passed to `update_slope`.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            torque_limits: (nu,) torque limits of the motors [N m].
        """
        if self._statics is None or evaluation == SlopeEvaluation.NONE:
            return
        state = self.state
        if evaluation == SlopeEvaluation.START:
            begin_evaluation(state, timing, velocity)
            uphill = state.uphill.copy()
            self._evaluation = self._evaluate_fractions(self._statics, gait, velocity.copy(), uphill, torque_limits)
        assert self._evaluation is not None
        try:
            next(self._evaluation)
        except StopIteration as end:
            state.fraction, self.leg_reason = end.value
            state.reason = LimitReason.LEGS_ON_SLOPE if self.leg_reason else LimitReason.NONE
            state.is_evaluating, self._evaluation = False, None

    @staticmethod
    def _evaluate_fractions(
        statics: SlopeStatics, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array
    ) -> Generator[None, None, tuple[float, str]]:
        """Returns the largest feasible fraction of a command, and the reason against the whole command; a generator."""
        first_reason = yield from statics.evaluate_legs(gait, np.zeros(3), uphill, torque_limits)
        if first_reason:
            return 0.0, first_reason
        for fraction in VELOCITY_FRACTIONS:
            reason = yield from statics.evaluate_legs(gait, fraction * velocity, uphill, torque_limits)
            if not reason:
                return fraction, first_reason
            first_reason = first_reason or reason
        return 0.0, first_reason
