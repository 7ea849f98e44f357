"""`SlopeStatics`: static conditions under which a robot can stand and walk on a slope."""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Mapping
from types import MappingProxyType

import numpy as np
import pinocchio as pin

from ..dynamics import Dynamics
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array, first_largest
from .footwork import MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET
from .friction_model import PYRAMID_FACE_RATIO
from .gait import GAITS, Gait
from .ground_plane import MAX_SLOPE, GroundPlane
from .leg_pose_solver import LegPoseSolver
from .modes import MAX_STANDING_FRACTION, is_dcm_near_edge
from .morphology import FEET, Morphology
from .trunk_controller import BLIND_SLOPE_LOWERINGS, KNOWN_SLOPE_LOWERING, compute_slope_lowering
from .velocity_limits import GROUND_FRICTION
from .vertical_force import N_CYCLE_SAMPLES

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
