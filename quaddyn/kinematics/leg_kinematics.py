"""`LegKinematics`: forward and inverse kinematics of one leg, in closed form where its geometry allows.

`NumericLeg`: numeric inverse kinematics of a leg without a closed form, from several starts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..deprecation import renamed_fields
from ..dynamics.arguments import EXCESS_FACTOR, UNIT_CHECKS
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError, UnreachableError
from ..robot.arguments import check_number, check_type
from ..robot.bodies import Chain
from ..robot.configuration import joint_value, set_joint_value
from ..robot.legs import make_limbs
from ..robot.limbs import Limb, forward_and_left, leg_forward_and_left, trunk_placement
from ..robot.robot import Robot, make_foot_name_error
from ..robot.units import JointUnits
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, frozen
from .inverse import inverse_kinematics
from .leg_geometry import (
    HIP_TOLERANCE,
    REDUNDANCY_MODES,
    LegGeometry,
    TwoLinks,
    clamp_to_annulus,
    nearest_in_turned_plane,
    read_leg_geometry,
    reduce_links,
)

#: Number of values of each joint in the grid of possible starts, by the number of joints.
_GRID_SIZES = {1: 64, 2: 24, 3: 11, 4: 6, 5: 4, 6: 4, 7: 3}
#: Number of starts that are refined; the result with the nearest foot is returned.
_N_STARTS = 6
#: Bend up to which a knee counts as straight, as a fraction of the squared reach of the leg: rounding errors.
_STRAIGHT_TOLERANCE = 1e-12
#: Displacement of a straight knee by which the side to which it bends is determined [rad or m].
_PROBE_DISPLACEMENT = 0.1


def chain_jacobian(chain: Chain, q: Array, is_revolute: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Returns the tip (..., 3) of a chain [m] and its Jacobian (..., 3, n), base axes; `is_revolute` is (n,)."""
    origins, axes, tip = chain.forward(q)
    J = np.where(is_revolute[:, None], np.cross(axes, tip[..., None, :] - origins), axes)
    return tip, np.swapaxes(J, -1, -2)


class NumericLeg:
    """Numeric inverse kinematics of one leg.

    Args:
        robot: the robot.
        leg: name of the leg and its foot.
        chain: chain of its joints in the base frame.
        limb: the limb, with the indices of hip and knee.
        q_home: (n,) joint values at home [rad or m].
        left: (3,) left unit vector of the base.
    """

    def __init__(self, robot: Robot, leg: str, chain: Chain, limb: Limb, q_home: Array, left: Array) -> None:
        self._robot, self._leg, self._chain, self._limb = robot, leg, chain, limb
        self._joints = [j for j in chain.joints if j is not None]
        self._names = [j.name for j in self._joints]
        axis = chain.forward(q_home)[1][limb.hip]
        self._side = -1.0 if axis @ left < -FILE_ANGLE_TOLERANCE else 1.0
        self._straight_tolerance = _STRAIGHT_TOLERANCE * limb.reach**2
        self._home_bend = float(self._knee_bend(q_home))
        if (
            abs(self._home_bend) < self._straight_tolerance
        ):  # straight at home: towards the wider part of the knee's range
            bent_q = q_home.copy()
            bent_q[limb.knee] += _PROBE_DISPLACEMENT * robot.legs[leg].knee_sign
            self._home_bend = float(self._knee_bend(bent_q))
        ranges = [
            np.linspace(*_finite_range(low, high, j.type == "prismatic"), _GRID_SIZES[chain.n])
            for low, high, j in zip(chain.lower, chain.upper, self._joints, strict=True)
        ]
        self._samples = np.vstack((q_home, np.array(list(itertools.product(*ranges)))))
        self._knee_bends = self._knee_bend(self._samples)
        self._feet = chain.forward(self._samples)[2]

    def _knee_bend(self, q: Array) -> Array:
        """Returns the knee's bend (...): positive for a knee forward, negative backward [m^2]."""
        origins, axes, tip = self._chain.forward(q)
        hip, knee = origins[..., self._limb.hip, :], origins[..., self._limb.knee, :]
        return np.asarray(self._side * (np.cross(knee - hip, tip - hip) * axes[..., self._limb.hip, :]).sum(axis=-1))

    def solve(self, p: Array, knee: str | None) -> Array:
        """Returns the joint values (n,) with the foot nearest to `p` (3,) [m], for a knee direction and the limits."""
        desired_bend = {"forward": 1.0, "backward": -1.0, None: -1.0 if self._home_bend < 0.0 else 1.0}[knee]
        candidates = np.flatnonzero(desired_bend * self._knee_bends >= -self._straight_tolerance)
        if not candidates.size:  # the knee cannot bend to that side
            candidates = np.arange(len(self._samples))
        distances = np.linalg.norm(self._feet[candidates] - p, axis=1)
        best: Array = self._samples[candidates[int(distances.argmin())]]
        smallest = float(distances.min())
        for start in candidates[np.argsort(distances, kind="stable")[:_N_STARTS]]:
            q = self._refine(p, self._samples[start])
            distance = float(np.linalg.norm(self._chain.forward(q)[2] - p))
            if distance < smallest and desired_bend * float(self._knee_bend(q)) >= -1e-9:
                best, smallest = q, distance
            if smallest < 1e-12:
                break
        return best

    def _refine(self, p: Array, start: Array) -> Array:
        """Returns the joint values (n,) after iterating from `start`."""
        q = np.array(self._robot.neutral)
        for joint, value in zip(self._joints, start, strict=True):
            set_joint_value(q, self._robot.configuration_index(joint.name), joint, float(value))
        solution = inverse_kinematics(
            self._robot,
            {self._leg: p},
            q0=q,
            joints=self._names,
            move_root=False,
            tolerance=1e-13,
            max_iterations=200,
            restarts=0,
        )
        indices = [self._robot.configuration_index(name) for name in self._names]
        return np.array(
            [
                np.arctan2(solution.q[i + 1], solution.q[i]) if j.type == "continuous" else solution.q[i]
                for i, j in zip(indices, self._joints, strict=True)
            ]
        )


def _finite_range(lower: float, upper: float, is_prismatic: bool) -> tuple[float, float]:
    """Returns a finite part of a joint's range, without redundant whole turns."""
    half_range = 1.0 if is_prismatic else np.pi
    if np.isfinite(lower) and np.isfinite(upper):
        middle = min(max(0.0, lower), upper)
        return max(lower, middle - half_range), min(upper, middle + half_range)
    if np.isfinite(lower):
        return max(lower, -half_range), max(lower, -half_range) + 2.0 * half_range
    return min(upper, half_range) - 2.0 * half_range, min(upper, half_range)


KNEE_BRANCHES = ("forward", "backward")
HIP_BRANCHES = ("below", "above")
#: Violation of a joint limit that counts as rounding, such as that of a stretched knee [rad].
LIMIT_TOLERANCE = 1e-7
#: Largest length or angle that is accepted [m or rad].
MAX_INPUT = 1e8
#: Distance from the workspace above which a target counts as unreachable, as a fraction of the leg's length.
_REACH_TOLERANCE = 1e-13


@renamed_fields(point="reached_position")
@dataclass(frozen=True, slots=True, eq=False)
class LegSolution:
    """Result of `LegKinematics.inverse`, for one target (3,) or for N targets (N, 3).

    Attributes:
        q: (n,) or (N, n) joint values [rad]; for an unreachable target, those of the nearest point.
        reached: boolean, or (N,) of them: whether the foot is at the target within the tolerance, without regard to
            joint limits.
        distance: () or (N,) distance from the foot to the target [m].
        within_limits: boolean, or (N,) of them: whether every joint is within its limits.
        reached_position: (3,) or (N, 3) position of the foot at `q`, base frame [m].
    """

    q: Array
    reached: bool | NDArray[np.bool_]
    distance: float | Array
    within_limits: bool | NDArray[np.bool_]
    reached_position: Array


class LegKinematics:
    """Forward and inverse kinematics of one leg, in the frame of the base.

    The foot is the center of the contact sphere, the frame with the name of the leg.  Joint values are in the order of
    `joints`, from hip to ankle; a continuous joint has its angle.  Vectors may be given one at a time, (n,) or (3,), or
    N at a time, (N, n) or (N, 3).

    The closed form is derived from the geometry in the robot's file, whatever its axes, signs, offsets and zero pose.
    It covers legs of 2 to 4 parallel joints, alone or below one joint in any other direction ("abduction"); joints at
    the end whose axis passes through the foot keep their home values.  Axes within 1e-4 rad are treated as parallel; a
    few Newton steps remove the resulting error.  Every branch has a name with the same meaning on every robot:

    - knee "forward" or "backward": the side of the line from hip to foot on which the knee is when the foot hangs below
      the hip.  It is the direction of bending, so that a branch does not change when the foot swings past the hip.
    - hip "below" or "above": the position of the foot in the frame that rotates with the abduction joint and is upright
      at home.  A leg without abduction has no such choice.  (If the first axis is steep instead of along the body,
      "below" is the side of that axis on which the foot is at home.)

    For legs of more than two links, `angle` is the direction of the last link, and `redundancy` determines the joints
    that are still free.  A leg without a closed form has ``closed_form == False``.  It is solved numerically, one
    target after the other, within its joint limits; the knee's name has the same meaning, the hip's none.

    A limb that is attached to a spine is computed with the spine at zero.

    Source: source B (the mechanical dog) for two links; Siciliano et al., *Robotics: Modelling, Planning and Control*,
    2009, section 2.12, for the rest; W. Kahan, *Miscalculating Area and Angles of a Needle-like Triangle*, 2014, for
    the sine of a knee that is almost straight.

    Args:
        robot: any robot with legs.
        leg: name of the leg, such as "FL".

    Attributes:
        robot, name: as given.
        joints: names of the joints, from hip to ankle.
        lower, upper: (n,) joint limits [rad].
        q_home: (n,) joint values in ``robot.q_home`` [rad].

    Raises:
        UnknownNameError: the robot has no such leg.
    """

    def __init__(self, robot: Robot, leg: str) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        if not isinstance(leg, str) or leg not in robot.legs:
            raise make_foot_name_error(robot, "leg", leg, robot.legs)
        self.robot, self.name, self.joints = robot, leg, robot.legs[leg].joints
        limbs = make_limbs(robot)
        # The chain of the limb is in the frame of the trunk; this one is in that of the root link, as Pinocchio's.
        self._chain = Chain(robot.bodies, limbs[leg].indices, limbs[leg].chain.tip)
        directions = leg_forward_and_left(limbs[leg], *forward_and_left(limbs))
        forward, left = (trunk_placement(robot.bodies).rotation @ x for x in directions)
        joints = [j for j in self._chain.joints if j is not None]
        self.q_home = frozen([joint_value(robot.q_home, robot.configuration_index(j.name), j) for j in joints])
        self.lower, self.upper = frozen(self._chain.lower), frozen(self._chain.upper)
        self._wrap_center = np.array([_wrap_center(a, b) for a, b in zip(self.lower, self.upper, strict=True)])
        self._indices = np.array([robot.configuration_index(j.name) for j in joints], dtype=np.intp)
        self._joint_units, self._unit_checks = JointUnits(robot, excess_factor=EXCESS_FACTOR), UNIT_CHECKS
        self._is_revolute = np.array([j.type != "prismatic" for j in joints])
        self._geometry = read_leg_geometry(self._chain, self.q_home, forward, left)
        self._numeric = None if self._geometry else NumericLeg(robot, leg, self._chain, limbs[leg], self.q_home, left)
        self._reduced: dict[str, TwoLinks] = {}
        if self._geometry is not None:
            self._reduced = {mode: reduce_links(self._geometry, None, mode) for mode in REDUNDANCY_MODES}

    @property
    def n(self) -> int:
        """Number of joints."""
        return self._chain.n

    @property
    def closed_form(self) -> bool:
        """Whether `inverse` is a closed form; otherwise it iterates."""
        return self._geometry is not None

    @property
    def branches(self) -> tuple[tuple[str, str], ...]:
        """Names (knee, hip) of the branches, in the order of `inverse_all`; without abduction hip is "below"."""
        hips = HIP_BRANCHES if self._geometry is not None and self._geometry.has_abduction else HIP_BRANCHES[:1]
        return tuple((knee, hip) for hip in hips for knee in KNEE_BRANCHES)

    @property
    def fixed_joints(self) -> tuple[str, ...]:
        """Names of the joints beyond the knee that `inverse` leaves at home unless angle or redundancy is given."""
        geometry = self._geometry
        return self.joints[geometry.n_active - len(geometry.links) + 2 :] if geometry is not None else ()

    @property
    def hip(self) -> Array:
        """(3,) origin of the first joint, base frame [m]."""
        return np.array(self._chain.forward(np.zeros(self.n))[0][0])

    @property
    def segments(self) -> Array:
        """(n,) distances from joint origin to joint origin, the last one to the foot, at the zero pose [m]."""
        origins, _, tip = self._chain.forward(np.zeros(self.n))
        return np.asarray(np.linalg.norm(np.diff(np.vstack((origins, tip)), axis=0), axis=1))

    def forward(self, q: ArrayLike) -> Array:
        """Computes the position of the foot.

        Args:
            q: (n,) or (N, n) joint values [rad].

        Returns:
            (3,) or (N, 3) in the base frame [m].

        Raises:
            ArgumentError: another shape, or an entry that is not finite.

        Warns:
            RuntimeWarning: joint values of one of the first calls are far beyond their limits and seem to be in degrees
                or millimeters; once.
        """
        return self._chain.forward(self._check_joints(q))[2]

    def _check_joints(self, q: ArrayLike) -> Array:
        """Returns joint values (n,) or (N, n) as an array, or raises; the first calls check their unit."""
        values = _check_vectors("q", q, self.n)
        if self._unit_checks and values.size:
            self._unit_checks -= 1
            configuration = self.robot.q_home.copy()
            configuration[self._indices] = values.reshape(-1, self.n)[0]
            self._joint_units.warn("q", configuration, stacklevel=4)
        return values

    def jacobian(self, q: ArrayLike) -> Array:
        """Computes the Jacobian of the foot's position: ``d foot / dt = J dq/dt``, base axes.

        Args:
            q: (n,) or (N, n) joint values [rad].

        Returns:
            (3, n) or (N, 3, n) [m/rad].

        Raises:
            ArgumentError: another shape, or an entry that is not finite.

        Warns:
            RuntimeWarning: as of `forward`.
        """
        return self._jacobian(self._check_joints(q))[1]

    def inverse(
        self,
        p: ArrayLike,
        *,
        knee: str | None = None,
        hip: str = "below",
        angle: ArrayLike | None = None,
        redundancy: str = "hold",
        tolerance: float = 1e-12,
        strict: bool = False,
    ) -> LegSolution:
        """Computes joint values that place the foot at `p`, on the named branch.

        Joint limits determine only the number of whole turns of a joint; they are reported, not enforced.
        `inverse_all` returns the branches that respect them.  At full stretch, and with the foot on the abduction axis,
        the result is exact; where every angle of a joint is a solution, one of them is returned.  For an unreachable
        target the result is that of the nearest point that this branch reaches, without regard to limits.

        Args:
            p: (3,) or (N, 3) target position of the foot, base frame [m].
            knee: "forward" or "backward"; None for that of ``q_home``.
            hip: "below" or "above".
            angle: () or (N,) direction of the last of three or four links, in the leg's plane, from forward (0) to up
                (pi/2) [rad]; None leaves it free.
            redundancy: rule for joints beyond the knee that are free: "hold" for their home values, or "parallel" to
                keep each link parallel to the one before the last, as in a pantograph.
            tolerance: largest distance of the foot from a target that counts as reached [m].
            strict: whether to raise an error if a target is unreachable.

        Raises:
            ArgumentError: wrong shapes, entries that are not finite, or unknown branch names.
            UnreachableError: with `strict`, an unreachable target; the error has the target and the nearest point.
        """
        target = _check_vectors("p", p, 3)
        _check_name("hip", hip, HIP_BRANCHES)
        _check_name("redundancy", redundancy, REDUNDANCY_MODES)
        if knee is not None:
            _check_name("knee", knee, KNEE_BRANCHES)
        tolerance = check_number("tolerance", tolerance)
        if not (np.isfinite(tolerance) and tolerance > 0.0):
            raise ArgumentError(f"tolerance: expected a positive length, got {tolerance}")
        points = target.reshape(-1, 3)
        if self._geometry is not None:
            leg = self._reduced_leg(angle, redundancy, len(points), target.ndim)
            bend = self._home_bend(leg) if knee is None else {"forward": -1, "backward": 1}[knee]
            q = self._solve_closed_form(points, bend, 1.0 if hip == "above" else -1.0, leg)
        else:
            assert self._numeric is not None
            if angle is not None:
                raise ArgumentError(
                    f"angle: not accepted for leg {self.name!r}, which is solved numerically; remove it"
                )
            q = np.array([self._numeric.solve(x, knee) for x in points]).reshape(-1, self.n)
        q = self._wrap_angles(q)
        point = self._chain.forward(q)[2]
        miss = np.linalg.norm(point - points, axis=-1)
        if self._geometry is not None:
            q, point, miss = self._refine(q, point, miss, points, tolerance, leg)
        reached, within_limits = miss <= tolerance, self._within_limits(q)
        if strict and not reached.all():
            first = int(np.argmin(reached))
            raise UnreachableError(self.name, points[first], point[first])
        if target.ndim == 1:
            return LegSolution(q[0], bool(reached[0]), float(miss[0]), bool(within_limits[0]), point[0])
        return LegSolution(q, reached, miss, within_limits, point)

    def inverse_all(
        self,
        p: ArrayLike,
        *,
        within_limits: bool = True,
        angle: float | None = None,
        redundancy: str = "hold",
        tolerance: float = 1e-12,
    ) -> Array:
        """Returns the joint values of every branch that places the foot at `p`, at most four.

        A planar leg has two branches, a leg with abduction four.  A leg without a closed form has one solution for each
        side of the knee, although more may exist.  Branches that coincide, such as the two knees of a stretched leg,
        are returned once, without regard to whole turns.

        Args:
            p: (3,) target position of the foot, base frame [m].
            within_limits: whether to leave out branches that violate the joint limits.
            angle: as `inverse` [rad]; None leaves it free.
            redundancy: as `inverse`.
            tolerance: as `inverse` [m].

        Returns:
            (k, n) joint values [rad], in the order knee forward, backward; hip below, above; k = 0 for an unreachable
            target.

        Raises:
            ArgumentError: as `inverse`.
        """
        target = _check_vectors("p", p, 3)
        if target.ndim != 1:
            raise ArgumentError(f"p: expected one point of shape (3,), got shape {target.shape}")
        solutions: list[Array] = []
        for solution in self._solve_branches(target, angle, redundancy, tolerance):
            is_new = all(np.abs(_wrap(solution.q - q, self._is_revolute)).max() > LIMIT_TOLERANCE for q in solutions)
            if solution.reached and is_new and (solution.within_limits or not within_limits):
                solutions.append(solution.q)
        return np.array(solutions).reshape(-1, self.n)

    def reachable(
        self,
        p: ArrayLike,
        *,
        within_limits: bool = True,
        angle: ArrayLike | None = None,
        redundancy: str = "hold",
        tolerance: float = 1e-12,
    ) -> bool | NDArray[np.bool_]:
        """Returns whether some branch places the foot at `p`.

        Args:
            p: (3,) or (N, 3) target position of the foot, base frame [m].
            within_limits: whether joint limits must be respected.
            angle: as `inverse` [rad]; legs of more than two links must reach `p` with this choice; None leaves it free.
            redundancy: as `inverse`.
            tolerance: as `inverse` [m].

        Raises:
            ArgumentError: as `inverse`.
        """
        target = _check_vectors("p", p, 3)
        is_reachable = np.zeros(target.shape[:-1], dtype=np.bool_)
        for solution in self._solve_branches(target, angle, redundancy, tolerance):
            is_reachable |= (
                np.logical_and(solution.reached, solution.within_limits) if within_limits else solution.reached
            )
        return bool(is_reachable) if target.ndim == 1 else is_reachable

    # -- the closed form ---------------------------------------------------------------------------------------
    def _solve_branches(
        self, p: Array, angle: ArrayLike | None, redundancy: str, tolerance: float
    ) -> list[LegSolution]:
        """Returns the solution of every branch."""
        return [
            self.inverse(p, knee=knee, hip=hip, angle=angle, redundancy=redundancy, tolerance=tolerance)
            for knee, hip in self.branches
        ]

    def _solve_closed_form(self, p: Array, bend: int, hip: float, leg: TwoLinks) -> Array:
        """Computes the joint values (N, n) of one branch for targets (N, 3) in closed form.

        Args:
            p: (N, 3) targets, base frame [m].
            bend: -1 for a knee forward, +1 for a knee backward.
            hip: -1.0 for a foot below the abduction axis, +1.0 for one above.
            leg: the leg reduced to two links.
        """
        geometry = self._geometry
        assert geometry is not None
        r = p - geometry.origin
        q = np.tile(self.q_home, (len(p), 1))
        e1 = r @ geometry.e1
        tolerance = _REACH_TOLERANCE * (geometry.reach + abs(geometry.hip) + abs(geometry.lateral))
        if not geometry.has_abduction:
            foot = clamp_to_annulus(e1 + 1j * (r @ geometry.e2), leg)
            q[:, : geometry.n_active] = leg.solve(foot, bend)
            return q
        along, rb, rc = r @ geometry.a, r @ geometry.b, r @ geometry.c
        on_axis = np.hypot(rb, rc) <= HIP_TOLERANCE * leg.longest
        rb, rc = np.where(on_axis, 0.0, rb), np.where(on_axis, 0.0, rc)
        distance_from_axis = np.hypot(rb, rc)
        # Rotated back by the abduction angle, the target lies in the leg's plane, which determines its component b.
        n_along_b = float(geometry.n @ geometry.b)
        b = (geometry.lateral - float(geometry.n @ geometry.a) * along) / n_along_b
        height = hip * np.sqrt(np.maximum((distance_from_axis - b) * (distance_from_axis + b), 0.0))
        foot = (along * float(geometry.e1 @ geometry.a) + b * float(geometry.e1 @ geometry.b)) + 1j * height
        hip_distance = np.abs(foot - leg.hip - leg.G)
        is_outside = (
            (np.abs(b) > distance_from_axis + tolerance)
            | (hip_distance > leg.longest + tolerance)
            | (hip_distance < leg.shortest - tolerance)
        )
        if is_outside.any():
            foot[is_outside] = nearest_in_turned_plane(
                geometry, leg.select(is_outside), along[is_outside], distance_from_axis[is_outside], hip
            )
            b[is_outside] = foot[is_outside].real * float(geometry.e1 @ geometry.b) + geometry.lateral * n_along_b
        # (b + 0.0: the angle of a vanishing vector is then 0, not pi)
        q[:, 0] = np.arctan2(rc, rb + 0.0) - np.arctan2(geometry.side * foot.imag, b + 0.0)
        q[:, 1 : geometry.n_active] = leg.solve(foot, bend)
        return q

    def _reduced_leg(self, angle: ArrayLike | None, redundancy: str, count: int, ndim: int) -> TwoLinks:
        """Returns the leg reduced to two links, by the angle of its last link or a rule for redundant joints."""
        assert self._geometry is not None
        if angle is None:
            return self._reduced[redundancy]
        if len(self._geometry.links) == 2:
            raise ArgumentError(
                f"angle: not accepted for leg {self.name!r}, whose two links have no redundancy; remove it"
            )
        try:
            value = np.asarray(angle, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"angle: expected a number or an array (N,), got {type(angle).__name__}") from None
        if value.shape not in ((), (count,) if ndim == 2 else ()) or not np.isfinite(value).all():
            raise ArgumentError(f"angle: expected finite numbers of shape () or ({count},), got {value!r}")
        return reduce_links(self._geometry, value, redundancy)

    def _home_bend(self, leg: TwoLinks) -> int:
        """Returns the direction in which the knee bends at home: -1 forward, +1 backward."""
        geometry = self._geometry
        assert geometry is not None
        plane = slice(geometry.n_active - len(geometry.links), geometry.n_active)
        bend = leg.bend_sign(self.q_home[plane])
        if bend == 0:  # straight at home: towards the wider part of the knee's range
            sign = geometry.signs[1] * self.robot.legs[self.name].knee_sign
            bend = 1 if sign > 0.0 else -1
        return bend

    def _refine(
        self, q: Array, point: Array, miss: Array, p: Array, tolerance: float, leg: TwoLinks
    ) -> tuple[Array, Array, Array]:
        """Reduces the error of axes that are not exactly parallel by Newton steps, as long as they reduce it."""
        geometry = self._geometry
        assert geometry is not None
        for _ in range(3):
            inaccurate = np.flatnonzero((miss > 0.1 * tolerance) & (miss < 2.0 * geometry.parallelism_error))
            if not inaccurate.size:
                break
            free_rates = self._free_joint_rates(geometry, leg)
            _, J = self._jacobian(q[inaccurate])
            dq = (np.linalg.pinv(J @ free_rates, rcond=1e-6) @ (p[inaccurate] - point[inaccurate])[:, :, None])[
                :, :, 0
            ] @ free_rates.T
            trial = q[inaccurate] + dq
            new_point = self._chain.forward(trial)[2]
            new_miss = np.linalg.norm(new_point - p[inaccurate], axis=-1)
            better = new_miss < miss[inaccurate]
            rows = inaccurate[better]
            q[rows], point[rows], miss[rows] = trial[better], new_point[better], new_miss[better]
            if not rows.size:
                break
        return q, point, miss

    def _free_joint_rates(self, geometry: LegGeometry, leg: TwoLinks) -> Array:
        """Returns (n, 2 or 3) joint rates for unit rates of the angles that a branch leaves free."""
        first = geometry.n_active - len(geometry.links)
        free_rates = np.zeros((self.n, first + 2))
        free_rates[:first, :first] = np.eye(first)
        free_rates[first : geometry.n_active, first:] = leg.joint_rates
        return free_rates

    # -- both solvers ------------------------------------------------------------------------------------------------
    def _jacobian(self, q: Array) -> tuple[Array, Array]:
        """Returns positions (N, 3) [m] and Jacobians (N, 3, n) of the foot."""
        return chain_jacobian(self._chain, q, self._is_revolute)

    def _wrap_angles(self, q: Array) -> Array:
        """Returns joint values with the whole turns removed that bring them nearest to the middle of their ranges."""
        return np.where(self._is_revolute, self._wrap_center + _wrap(q - self._wrap_center, self._is_revolute), q)

    def _within_limits(self, q: Array) -> NDArray[np.bool_]:
        """Returns whether all joint values are within their limits, to rounding."""
        return np.asarray(((q >= self.lower - LIMIT_TOLERANCE) & (q <= self.upper + LIMIT_TOLERANCE)).all(axis=-1))

    def __repr__(self) -> str:
        kind = "closed form" if self.closed_form else "numeric"
        return f"LegKinematics({self.robot.name!r}, {self.name!r}, n={self.n}, {kind})"


def _check_vectors(name: str, value: ArrayLike, size: int) -> Array:
    """Returns `value` as finite floats of shape (size,) or (N, size); raises an error under its name otherwise."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.asarray(None)
    if array.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"{name}: expected ({size},) or (N, {size}) numbers, got {str(value)[:60]}")
    out = array.astype(np.float64)
    if out.ndim not in (1, 2) or out.shape[-1] != size:
        raise ArgumentError(f"{name}: expected shape ({size},) or (N, {size}), got {out.shape}")
    if not np.isfinite(out).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {out[~np.isfinite(out)][0]}")
    if np.abs(out).max(initial=0.0) > MAX_INPUT:
        raise ArgumentError(f"{name}: expected entries of at most {MAX_INPUT:g}, got {np.abs(out).max():.3g}")
    return out


def _check_name(kind: str, name: object, known: tuple[str, ...]) -> None:
    """Raises `UnknownNameError` unless `name` is one of `known`."""
    if name not in known:
        raise UnknownNameError(f"{kind} branch" if kind != "redundancy" else kind, name, known)


def _wrap(angle: Array, is_revolute: NDArray[np.bool_]) -> Array:
    """Returns revolute joint values without their whole turns, in [-pi, pi]; prismatic ones are unchanged."""
    whole_turns = 2.0 * np.pi * np.round(angle / (2.0 * np.pi))
    return np.asarray(np.where(is_revolute, angle - whole_turns, angle))


def _wrap_center(lower: float, upper: float) -> float:
    """Returns the center of the interval, 2 pi wide, in which a joint's values are returned.

    If some whole turn brings a value into the joint's range, this interval does.
    """
    if np.isfinite(lower) and np.isfinite(upper):
        return 0.5 * (lower + upper)
    return max(lower + np.pi, 0.0) if np.isfinite(lower) else min(upper - np.pi, 0.0)
