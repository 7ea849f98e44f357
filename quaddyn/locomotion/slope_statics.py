"""`SlopeStatics`: whether a robot can stand and walk on a slope at all, from statics alone."""

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
from .vertical_force import N_CYCLE_SAMPLES

#: What keeps a robot from a slope; of torque and reach the joint or the leg follows.
TOO_STEEP, GROUND_FRICTION, OUTSIDE_SUPPORT = (
    "steeper than ground is believed to be",
    "friction of the ground",
    "topples where it stands",
)
TORQUE_OF, REACH_OF = "torque of", "reach of"
#: What a motor may lack of the peak force of a gait with flight phases, as a share of its limit: it jumps less high.
PEAK_TORQUE_RATIO = 1.2
#: Rise of the slopes up and down which legs have to reach for a robot to crouch more, and the speed there [sqrt(g l)].
LOWERING_TEST_SLOPE, LOWERING_TEST_SPEED = 0.5, 0.3
#: How much farther than the place of the next step the divergent component may have come by then, left alone, of who
#: begins beside its feet and is caught: the feet that stand meanwhile hold it back.
CAPTURE_DISTANCE_RATIO = 1.28
#: Corrections of the base's place for what the legs weigh.
N_BASE_CORRECTIONS = 3

#: An answer that is worked out in short parts, between which it yields.
Evaluation = Generator[None, None, str]


class SlopeStatics:
    """The stance of locomotion on a slope, held still: trunk parallel to the ground, weight above the feet.

    Three things have to hold.  *Friction*: a vertical weight is in the pyramid about the ground's normal.  *Place*: who
    comes to the slope standing as at home, trunk parallel to it, has its weight between its feet, and so the time to
    shift it, or so little beside them that a step catches it (capture point; Pratt et al. 2006).  *Legs*: for every set
    of feet that the gait stands on, in the middle and at both ends of their stance, the legs reach the ground, and no
    motor needs more than its limit for an equal share of the weight on each of them; for gaits with flight phases, of
    the largest force with which these feet push off (`Thrust`): one that stands alone pushes with less than two.
    Motion takes more: a robot may fall where this sees nothing.  Who only topples from where it stands may be saved by
    more steps, or by coming to the slope from level ground.

    Args:
        robot: a quadruped.
        morphology: of the robot.

    Attributes:
        poses: of the robot.
        has_closed_form: whether all legs have a closed form, so that every part of `evaluate_legs` is short.
        slope_lowering: how much lower the trunk is on slopes that are only felt, times the sine of their angle [l].
    """

    __slots__ = ("_dynamics", "_p", "_robot", "has_closed_form", "poses", "slope_lowering")

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        self._robot, self._p = robot, morphology
        self._dynamics, self.poses = Dynamics(robot), LegPoseSolver(robot)
        self.has_closed_form = all(leg.closed_form for leg in self.poses.legs.values())
        self.slope_lowering = self._find_slope_lowering() if self.has_closed_form else KNOWN_SLOPE_LOWERING

    def _find_slope_lowering(self) -> float:
        """The deepest crouch with which a trot's legs reach the ground up and down a steep slope."""
        limits, ahead = (
            np.full(self._robot.nu, math.inf),
            np.array([LOWERING_TEST_SPEED * self._p.speed_scale, 0.0, 0.0]),
        )
        for self.slope_lowering in BLIND_SLOPE_LOWERINGS:
            ways = (
                run_to_end(self.evaluate_legs(GAITS["trot"], ahead, np.array([rise, 0.0]), limits))
                for rise in (LOWERING_TEST_SLOPE, -LOWERING_TEST_SLOPE)
            )
            if not any(ways):
                return self.slope_lowering
        return KNOWN_SLOPE_LOWERING

    def limit_reason(
        self, gait: Gait, velocity: Array, angle: float, direction: float, friction: float, torque_limits: Array
    ) -> str:
        """What keeps the robot from a slope, "" where nothing does.

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            angle: of the slope [rad].
            direction: uphill, from the robot's forward direction [rad].
            friction: Coulomb's coefficient of the ground.
            torque_limits: (nu,) of the motors [N m].
        """
        p, steep = self._p, math.tan(angle)
        if steep > PYRAMID_FACE_RATIO * friction:
            return GROUND_FRICTION
        if steep > MAX_SLOPE:
            return TOO_STEEP
        uphill = steep * np.array([math.cos(direction), math.sin(direction)])
        x, y, z = self._make_plane(uphill).normal.tolist()
        lean = p.height * x / z, p.height * y / z
        if is_dcm_near_edge(lean, p.nominal_stance, MAX_STANDING_FRACTION) and not self._is_capturable(lean):
            return OUTSIDE_SUPPORT
        return run_to_end(self.evaluate_legs(gait, velocity, uphill, torque_limits))

    def _is_capturable(self, com_offset: tuple[float, float]) -> bool:
        """Whether a step of a trot saves who stands with the centre of mass so far beside the middle of its feet.

        Args:
            com_offset: (2,) of the centre of mass, heading axes [m].
        """
        p, trot = self._p, GAITS["trot"]
        growth: float = math.exp(
            (1.0 - trot.duty_factor) * trot.period * p.time_scale * math.sqrt(p.gravity / p.height)
        )
        room = CAPTURE_DISTANCE_RATIO * (
            np.abs(p.nominal_stance).min(axis=0) + np.array([MAX_FORWARD_OFFSET, MAX_OUTWARD_OFFSET]) * p.length
        )
        return bool((growth * np.abs(com_offset) <= room).all())

    def evaluate_legs(self, gait: Gait, velocity: Array, uphill: Array, torque_limits: Array) -> Evaluation:
        """What motors lack or legs do not reach on a slope, "" for nothing; in parts of a leg each.

        Args:
            gait: to walk with.
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            uphill: (2,) rise of the slope forward and leftward.
            torque_limits: (nu,) of the motors [N m].
        """
        p, plane = self._p, self._make_plane(uphill)
        steady = gait.vertical_force_profile.is_constant
        # At both ends of its stance who jumps pushes with little.
        half = 0.5 * gait.duty_factor * gait.period * p.time_scale * velocity[:2] * float(steady)
        worst, motor = 0.0, 0
        for share in (0.0, -1.0, 1.0) if half.any() else (0.0,):
            found = yield from self._evaluate_torques(gait, plane, share * half)
            if isinstance(found, str):
                return found
            shares = (np.abs(found) / torque_limits).max(axis=0)
            largest = float(shares.max())
            if largest > worst * (1.0 + TIE_TOLERANCE):
                motor = first_largest(shares)
            worst = max(worst, largest)
        return f"{TORQUE_OF} {self._robot.actuated[motor]}" if worst > (1.0 if steady else PEAK_TORQUE_RATIO) else ""

    def _make_plane(self, uphill: Array) -> GroundPlane:
        """Through the feet at home, below the centre of mass; heading axes."""
        return GroundPlane(np.column_stack((self._p.nominal_stance, self._p.nominal_stance @ uphill)), 1.0)

    def _evaluate_torques(
        self, gait: Gait, plane: GroundPlane, displacement: Array
    ) -> Generator[None, None, Array | str]:
        """(sets, nu) of the motors for each set of feet that the gait stands on, or what is out of reach.

        Args:
            gait: to walk with.
            plane: of the ground; it is taken to go through the origin, below the centre of mass.
            displacement: (2,) of the feet from the middle of their stance, along the ground [m].
        """
        p, robot = self._p, self._robot
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
            for foot, place in zip(FEET, feet, strict=True):
                yield
                if not self.poses.place_foot(q, foot, R.T @ (place - base)):
                    return f"{REACH_OF} {foot}"
            state = self._dynamics.update(q.copy(), np.zeros(robot.nv))
            base = base + com - state.com
        # Nobody else updates the dynamics before the state is read: no part ends here.
        weight = np.array([0.0, 0.0, p.mass * p.gravity])
        bear = {foot: state.jacobian(foot)[:3].T @ weight for foot in FEET}
        out = []
        for standing, push in list_stances(gait).items():
            share = push / len(standing)
            tau = state.gravity - share * sum((bear[foot] for foot in standing), np.zeros(robot.nv))
            out.append(tau[robot.actuated_index])
        return np.array(out)


def run_to_end(evaluation: Evaluation) -> str:
    """The answer, at once."""
    while True:
        try:
            next(evaluation)
        except StopIteration as end:
            answer: str = end.value
            return answer


@functools.lru_cache(maxsize=64)
def list_stances(gait: Gait) -> Mapping[tuple[str, ...], float]:
    """The sets of feet that a gait stands on in a cycle, with the most that each pushes [weights], see `Thrust`."""
    found: dict[tuple[str, ...], float] = {}
    for k, push in enumerate(gait.vertical_force_profile.force.tolist()):
        phase = (k + 0.5) / N_CYCLE_SAMPLES
        on = (
            foot
            for foot, offset in zip(FEET, gait.phase_offsets, strict=True)
            if (phase - offset) % 1.0 < gait.duty_factor
        )
        standing = tuple(on)
        found[standing] = max(push, found.get(standing, 0.0))
    found.pop((), None)
    return MappingProxyType(found)
