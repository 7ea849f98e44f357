"""`LegKinematics`: forward and inverse kinematics of one leg, in closed form where its geometry allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError, UnreachableError
from ..robot.arguments import check_number
from ..robot.chain import Chain
from ..robot.configuration import joint_value
from ..robot.legs import make_limbs
from ..robot.limbs import forward_and_left, leg_forward_and_left, trunk_placement
from ..robot.robot import Robot
from ..urdf.tree import Array, frozen
from .leg_geometry import LegGeometry, read_leg_geometry
from .nearest_foot_position import HIP_TOLERANCE, clamp_to_annulus, nearest_in_turned_plane
from .numeric_leg import NumericLeg, chain_jacobian
from .two_link import REDUNDANCY_MODES, TwoLinks, reduce_links

KNEE_BRANCHES = ("forward", "backward")
HIP_BRANCHES = ("below", "above")
#: A joint this far beyond a limit is still within it [rad]: what rounding leaves at a stretched knee.
LIMIT_TOLERANCE = 1e-7
#: Beyond this no length or angle is taken seriously [m or rad].
MAX_INPUT = 1e8
#: Share of the leg's length by which a target may miss the workspace before its nearest point is looked for.
_REACH_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class LegSolution:
    """An answer of `LegKinematics.inverse`: one, or N at once when it was asked for N points.

    Attributes:
        q: (n,) or (N, n) joint values [rad]; where the target is out of reach, those of the nearest point.
        reached: whether the foot arrives within the tolerance; joint limits are another matter.
        distance: from the foot to the target [m].
        within_limits: whether every joint is within its limits.
        point: (3,) or (N, 3) where q puts the foot, base frame [m].
    """

    q: Array
    reached: bool | NDArray[np.bool_]
    distance: float | Array
    within_limits: bool | NDArray[np.bool_]
    reached_position: Array


class LegKinematics:
    """Kinematics of one leg: from its joints to its foot and back, in the frame of the base.

    The foot is the centre of the contact sphere, the frame named like the leg.  Joints are in ``joints`` order, hip to
    ankle; a continuous joint takes its angle.  Vectors may come one by one, (n,) or (3,), or by the N, (N, n), (N, 3).

    The closed form is read off the URDF's geometry, whatever its axes, signs, offsets and zero pose.  It covers legs of
    2 to 4 parallel joints, alone or below one joint in any other direction ("abduction"); joints at the end whose axis
    passes through the foot keep their home values.  Axes parallel to within 1e-4 rad count as parallel; a few Newton
    steps take out what that leaves.  Every branch has a name that means the same on every robot:

    - knee "forward" or "backward": to which side the knee stands off the line from hip to foot when the foot hangs
      below the hip.  It is the sense of bending, so that a branch does not jump when the foot swings past the hip.
    - hip "below" or "above": where the foot is, seen in the frame that the abduction joint turns and that is upright at
      home.  A leg without abduction has no such choice.  (Where the first axis is steep instead of along the body,
      "below" is the side of that axis on which the foot stands at home.)

    Legs of more than two links take `angle`, where the last link points, and `redundancy` for what is then still free.
    Legs that fit no closed form say ``closed_form is False``.  They are solved numerically, one target after the other,
    within their joint limits; the knee's name means the same, the hip's nothing.

    A limb that hangs from a spine is taken with the spine at its zero.

    Source: source B (the mechanical dog) for two links; Siciliano et al., *Robotics: Modelling, Planning and Control*,
    2009, section 2.12, for the rest; W. Kahan, *Miscalculating Area and Angles of a Needle-like Triangle*, 2014, for
    the sine of a knee that is almost straight.

    Args:
        robot: any robot with legs.
        leg: its name, such as "FL".

    Attributes:
        robot, name: as given.
        joints: names of the joints, hip to ankle.
        lower, upper: (n,) joint limits [rad].
        q_home: (n,) the joints in ``robot.q_home`` [rad].
        closed_form: whether `inverse` is exact.

    Raises:
        UnknownNameError: the robot has no such leg.
    """

    def __init__(self, robot: Robot, leg: str) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if not isinstance(leg, str) or leg not in robot.legs:
            raise UnknownNameError("leg", leg, robot.legs)
        self.robot, self.name, self.joints = robot, leg, robot.legs[leg].joints
        limbs = make_limbs(robot)
        # The limb's own chain is in the trunk's frame; ours is in the root link's, as Pinocchio's.
        self._chain = Chain(robot.bodies, limbs[leg].indices, limbs[leg].chain.tip)
        own = leg_forward_and_left(limbs[leg], *forward_and_left(limbs))
        forward, left = (trunk_placement(robot.bodies).rotation @ x for x in own)
        joints = [j for j in self._chain.joints if j is not None]
        self.q_home = frozen([joint_value(robot.q_home, robot.configuration_index(j.name), j) for j in joints])
        self.lower, self.upper = frozen(self._chain.lower), frozen(self._chain.upper)
        self._wrap_center = np.array([_wrap_center(a, b) for a, b in zip(self.lower, self.upper, strict=True)])
        self._is_revolute = np.array([j.type != "prismatic" for j in joints])
        self._geometry = read_leg_geometry(self._chain, self.q_home, forward, left)
        self._numeric = None if self._geometry else NumericLeg(robot, leg, self._chain, limbs[leg], self.q_home, left)
        self._reduced: dict[str, TwoLinks] = {}
        if self._geometry is not None:
            self._reduced = {choice: reduce_links(self._geometry, None, choice) for choice in REDUNDANCY_MODES}

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
        """The names (knee, hip) of the branches, in the order of `inverse_all`; without abduction hip is "below"."""
        hips = HIP_BRANCHES if self._geometry is not None and self._geometry.has_abduction else HIP_BRANCHES[:1]
        return tuple((knee, hip) for hip in hips for knee in KNEE_BRANCHES)

    @property
    def fixed_joints(self) -> tuple[str, ...]:
        """The joints beyond the knee, which `inverse` leaves at home when it is given no angle and no redundancy."""
        geometry = self._geometry
        return self.joints[geometry.n_active - len(geometry.links) + 2 :] if geometry is not None else ()

    @property
    def hip(self) -> Array:
        """(3,) the origin of the first joint, base frame [m]."""
        return np.array(self._chain.forward(np.zeros(self.n))[0][0])

    @property
    def segments(self) -> Array:
        """(n,) distances from joint origin to joint origin, the last one to the foot, at the zero pose [m]."""
        origins, _, tip = self._chain.forward(np.zeros(self.n))
        return np.asarray(np.linalg.norm(np.diff(np.vstack((origins, tip)), axis=0), axis=1))

    def forward(self, q: ArrayLike) -> Array:
        """Where the foot is.

        Args:
            q: (n,) or (N, n) joint values [rad].

        Returns:
            (3,) or (N, 3) in the base frame [m].

        Raises:
            ArgumentError: another shape, or an entry that is not finite.
        """
        return self._chain.forward(_check_vectors("q", q, self.n))[2]

    def jacobian(self, q: ArrayLike) -> Array:
        """How the foot moves with the joints: ``d foot / dt = J dq/dt``, base axes.

        Args:
            q: (n,) or (N, n) joint values [rad].

        Returns:
            (3, n) or (N, 3, n) [m/rad].

        Raises:
            ArgumentError: another shape, or an entry that is not finite.
        """
        return self._jacobian(_check_vectors("q", q, self.n))[1]

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
        """Joint values that put the foot at `p`, on the branch of these names.

        Joint limits choose between whole turns of a joint and are reported, not enforced; `inverse_all` gives the
        branches that respect them.  At full stretch, and with the foot on the abduction axis, the answer is exact;
        where every angle of a joint serves, it takes one of them.  Out of reach, the answer is the nearest point that
        this branch reaches, limits aside.

        Args:
            p: (3,) or (N, 3) foot, base frame [m].
            knee: "forward" or "backward"; that of ``q_home`` by default.
            hip: "below" or "above".
            angle: () or (N,) where the last of three or four links points, in the leg's plane, from forward (0) to up
                (pi/2) [rad]; None leaves it free.
            redundancy: what joints beyond the knee do when they are free: "hold" their home values, or keep each link
                "parallel" to the one before the last, as in a pantograph.
            tolerance: within which the foot counts as arrived [m].
            strict: raise when a target is out of reach.

        Raises:
            ArgumentError: wrong shapes, entries that are not finite, or unknown branch names.
            UnreachableError: with `strict`, a target out of reach; it carries the target and the nearest point.
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
                raise ArgumentError(f"angle: leg {self.name!r} is solved numerically and takes no angle")
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
        """Every branch that puts the foot at `p`: two for a planar leg, up to four with abduction.

        A leg without a closed form gives one solution for each side of the knee, of perhaps more.
        Branches that coincide, such as the two knees of a stretched leg, count once; whole turns do not count.

        Args:
            p: (3,) foot, base frame [m].
            within_limits: leave out what violates the joint limits.
            angle: as `inverse`.
            redundancy: as `inverse`.
            tolerance: as `inverse`.

        Returns:
            (k, n) joint values [rad], in the order knee forward, backward; hip below, above; k = 0 out of reach.

        Raises:
            ArgumentError: as `inverse`.
        """
        target = _check_vectors("p", p, 3)
        if target.ndim != 1:
            raise ArgumentError(f"p: expected shape (3,), one point, got {target.shape}")
        found: list[Array] = []
        for s in self._solve_branches(target, angle, redundancy, tolerance):
            new = all(np.abs(_wrap(s.q - q, self._is_revolute)).max() > LIMIT_TOLERANCE for q in found)
            if s.reached and new and (s.within_limits or not within_limits):
                found.append(s.q)
        return np.array(found).reshape(-1, self.n)

    def reachable(
        self,
        p: ArrayLike,
        *,
        within_limits: bool = True,
        angle: ArrayLike | None = None,
        redundancy: str = "hold",
        tolerance: float = 1e-12,
    ) -> bool | NDArray[np.bool_]:
        """Whether some branch puts the foot at `p`.

        Args:
            p: (3,) or (N, 3) foot, base frame [m].
            within_limits: joint limits must be respected.
            angle: as `inverse`; legs of more than two links are judged with this choice made.
            redundancy: as `inverse`.
            tolerance: as `inverse`.

        Raises:
            ArgumentError: as `inverse`.
        """
        target = _check_vectors("p", p, 3)
        found = np.zeros(target.shape[:-1], dtype=np.bool_)
        for s in self._solve_branches(target, angle, redundancy, tolerance):
            found |= np.logical_and(s.reached, s.within_limits) if within_limits else s.reached
        return bool(found) if target.ndim == 1 else found

    # -- the closed form ---------------------------------------------------------------------------------------
    def _solve_branches(
        self, p: Array, angle: ArrayLike | None, redundancy: str, tolerance: float
    ) -> list[LegSolution]:
        return [
            self.inverse(p, knee=knee, hip=hip, angle=angle, redundancy=redundancy, tolerance=tolerance)
            for knee, hip in self.branches
        ]

    def _solve_closed_form(self, p: Array, bend: int, hip: float, leg: TwoLinks) -> Array:
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
        # Turned back by the abduction, the target lies in the leg's plane: its part b along the second axis is given.
        nb = float(geometry.n @ geometry.b)
        b = (geometry.lateral - float(geometry.n @ geometry.a) * along) / nb
        s = hip * np.sqrt(np.maximum((distance_from_axis - b) * (distance_from_axis + b), 0.0))
        foot = (along * float(geometry.e1 @ geometry.a) + b * float(geometry.e1 @ geometry.b)) + 1j * s
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
            b[is_outside] = foot[is_outside].real * float(geometry.e1 @ geometry.b) + geometry.lateral * nb
        # (b + 0.0: the angle of a vanishing vector is then 0, not pi)
        q[:, 0] = np.arctan2(rc, rb + 0.0) - np.arctan2(geometry.side * foot.imag, b + 0.0)
        q[:, 1 : geometry.n_active] = leg.solve(foot, bend)
        return q

    def _reduced_leg(self, angle: ArrayLike | None, redundancy: str, count: int, ndim: int) -> TwoLinks:
        assert self._geometry is not None
        if angle is None:
            return self._reduced[redundancy]
        if len(self._geometry.links) == 2:
            raise ArgumentError(f"angle: leg {self.name!r} has two links; the angle of the last one is not free")
        try:
            value = np.asarray(angle, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"angle: expected a number or (N,) of them, got {type(angle).__name__}") from None
        if value.shape not in ((), (count,) if ndim == 2 else ()) or not np.isfinite(value).all():
            raise ArgumentError(f"angle: expected finite numbers of shape () or ({count},), got {value!r}")
        return reduce_links(self._geometry, value, redundancy)

    def _home_bend(self, leg: TwoLinks) -> int:
        geometry = self._geometry
        assert geometry is not None
        plane = slice(geometry.n_active - len(geometry.links), geometry.n_active)
        bend = leg.bend_sign(self.q_home[plane])
        if bend == 0:  # straight at home: the wider part of the knee's range
            sign = geometry.signs[1] * self.robot.legs[self.name].knee_sign
            bend = 1 if sign > 0.0 else -1
        return bend

    def _refine(
        self, q: Array, point: Array, miss: Array, p: Array, tolerance: float, leg: TwoLinks
    ) -> tuple[Array, Array, Array]:
        """Newton steps for what axes that are not quite parallel leave; a step that does not help is not taken."""
        geometry = self._geometry
        assert geometry is not None
        for _ in range(3):
            off = np.flatnonzero((miss > 0.1 * tolerance) & (miss < 2.0 * geometry.parallelism_error))
            if not off.size:
                break
            free_rates = self._free_joint_rates(geometry, leg)
            _, J = self._jacobian(q[off])
            dq = (np.linalg.pinv(J @ free_rates, rcond=1e-6) @ (p[off] - point[off])[:, :, None])[
                :, :, 0
            ] @ free_rates.T
            trial = q[off] + dq
            new_point = self._chain.forward(trial)[2]
            new = np.linalg.norm(new_point - p[off], axis=-1)
            better = new < miss[off]
            rows = off[better]
            q[rows], point[rows], miss[rows] = trial[better], new_point[better], new[better]
            if not rows.size:
                break
        return q, point, miss

    def _free_joint_rates(self, geometry: LegGeometry, leg: TwoLinks) -> Array:
        """(n, 2 or 3) joint rates for the turns that the choices of a branch leave free."""
        first = geometry.n_active - len(geometry.links)
        free_rates = np.zeros((self.n, first + 2))
        free_rates[:first, :first] = np.eye(first)
        free_rates[first : geometry.n_active, first:] = leg.joint_rates
        return free_rates

    # -- shared ------------------------------------------------------------------------------------------------
    def _jacobian(self, q: Array) -> tuple[Array, Array]:
        return chain_jacobian(self._chain, q, self._is_revolute)

    def _wrap_angles(self, q: Array) -> Array:
        return np.where(self._is_revolute, self._wrap_center + _wrap(q - self._wrap_center, self._is_revolute), q)

    def _within_limits(self, q: Array) -> NDArray[np.bool_]:
        return np.asarray(((q >= self.lower - LIMIT_TOLERANCE) & (q <= self.upper + LIMIT_TOLERANCE)).all(axis=-1))

    def __repr__(self) -> str:
        kind = "closed form" if self.closed_form else "numeric"
        return f"LegKinematics({self.robot.name!r}, {self.name!r}, n={self.n}, {kind})"


def _check_vectors(name: str, value: ArrayLike, size: int) -> Array:
    """`value` as (size,) or (N, size) finite floats."""
    try:
        given = np.asarray(value)
    except ValueError:  # ragged
        given = np.asarray(None)
    if given.dtype.kind not in "fiu":
        raise ArgumentTypeError(f"{name}: expected ({size},) or (N, {size}) numbers, got {str(value)[:60]}")
    out = given.astype(np.float64)
    if out.ndim not in (1, 2) or out.shape[-1] != size:
        raise ArgumentError(f"{name}: expected shape ({size},) or (N, {size}), got {out.shape}")
    if not np.isfinite(out).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {out[~np.isfinite(out)][0]}")
    if np.abs(out).max(initial=0.0) > MAX_INPUT:
        raise ArgumentError(f"{name}: every entry must be at most {MAX_INPUT:g} in size, got {np.abs(out).max():.3g}")
    return out


def _check_name(kind: str, name: object, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownNameError(f"{kind} branch" if kind != "redundancy" else kind, name, known)


def _wrap(angle: Array, is_revolute: NDArray[np.bool_]) -> Array:
    """Angles less the whole turns in them; what slides stays as it is."""
    check_integer = 2.0 * np.pi * np.round(angle / (2.0 * np.pi))
    return np.asarray(np.where(is_revolute, angle - check_integer, angle))


def _wrap_center(lower: float, upper: float) -> float:
    """The angle about which a joint's values are given: if a whole turn brings one into the range, this one does."""
    if np.isfinite(lower) and np.isfinite(upper):
        return 0.5 * (lower + upper)
    return max(lower + np.pi, 0.0) if np.isfinite(lower) else min(upper - np.pi, 0.0)
