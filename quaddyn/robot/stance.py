"""Standing configurations: feet level, knees bent within their limits, center of mass between the feet."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..urdf.tree import Array
from .algorithms import Algorithms
from .bodies import CompositeBody, joint_indices
from .configuration import independent_joints, set_joint_value
from .legs import make_limbs
from .limbs import Limb, forward_and_left, leg_forward_and_left, trunk_placement
from .robot import Robot

#: Extension of a standing leg, as a fraction of its stretched length, in order of preference.
EXTENSIONS = (0.8, 0.7, 0.9, 0.6)
#: The part of each joint's range, and of the reachable extension, that a stance stays away from.
RANGE_MARGIN = 0.02
#: A knee that bends this many times as far forward as backward bends forward by default, as human knees do.
FORWARD_RANGE_RATIO = 3.0
#: No robot stands higher than this [m].
MAX_HEIGHT = 1e3
#: Samples along each joint when looking for a first guess, by the number of joints.
_SAMPLES_PER_JOINT = {1: 25, 2: 25, 3: 7, 4: 5, 5: 4, 6: 4, 7: 3}
_MAX_ITERATIONS = 30
_MAX_RESIDUAL, _CONVERGENCE_TOLERANCE = 1e-10, 1e-13
#: The search for a stance ends after this many iterations in a row that leave more than this fraction of the error.
_MAX_STALLED_ITERATIONS, _MIN_ERROR_RATIO = 4, 0.99
_Features = tuple[Array, Array, Array, Array, Array]


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    q: Array
    residual: float  # [m]
    knee_direction: str
    turned: bool


class _LegStance:
    """Stance problem of one leg, in its own joint values (angles for continuous joints)."""

    def __init__(self, limb: Limb, forward: Array, left: Array, has_sole: bool) -> None:
        self.limb, self.chain = limb, limb.chain
        self.level = has_sole and limb.knee < limb.chain.n - 1  # whether ankles level a sole
        self.forward, self.left = leg_forward_and_left(limb, forward, left)
        self.up = np.cross(forward, left)
        self.fore = float(self.forward @ forward)  # of a shift along the robot, what this leg moves in its plane
        low, high = self.chain.lower, self.chain.upper
        turning = np.array([j is not None and j.type != "prismatic" for j in self.chain.joints])
        widest = np.where(turning, np.pi, 0.5)
        # A range that excludes the window around 0 keeps its own part nearest to 0.
        self.low = np.where(np.isfinite(low), np.maximum(low, np.minimum(-widest, high - widest)), -widest)
        self.high = np.where(np.isfinite(high), np.minimum(high, np.maximum(widest, low + widest)), widest)
        span = self.high - self.low
        self.low, self.high = self.low + RANGE_MARGIN * span, self.high - RANGE_MARGIN * span
        self.middle = np.clip(np.zeros(self.chain.n), self.low, self.high)
        self.normal = limb.knee if turning[limb.knee] else limb.hip  # the joint whose axis is normal to the leg's plane
        self.side = float(self.measure(self.middle)[3][2])
        self.sole = self._foot_vectors(*self.chain.forward(np.zeros(self.chain.n)))

    @functools.cached_property
    def samples(self) -> Array:
        """(N, n) grid over the joint ranges, for initial guesses; a leg with ankles has a fine one in its plane."""
        k = _SAMPLES_PER_JOINT[self.chain.n]
        axes = [np.linspace(a, b, k) for a, b in zip(self.low, self.high, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.chain.n)
        if not self.level:
            return grid
        bent = [self.limb.hip, self.limb.knee]
        axes = [np.linspace(self.low[i], self.high[i], _SAMPLES_PER_JOINT[2]) for i in bent]
        plane = np.tile(self.middle, (axes[0].size * axes[1].size, 1))
        plane[:, bent] = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.concatenate((plane, grid))

    @functools.cached_property
    def sampled(self) -> _Features:
        """Features of all `samples`."""
        return self.measure(self.samples)

    def measure(self, q: Array) -> _Features:
        """Returns foot position ahead of the hip, leg extension, foot height, plane normal and knee offset [m].

        The normal of the leg plane is given by its components upward (tilt), forward (turn) and to the left.
        """
        return self._measure(*self.chain.forward(q))

    def _measure(self, origins: Array, axes: Array, tip: Array) -> _Features:
        hip, knee = origins[..., self.limb.hip, :], origins[..., self.limb.knee, :]
        axis = axes[..., self.normal, :]
        line = tip - hip
        plane = np.stack((axis @ self.up, axis @ self.forward, axis @ self.left), axis=-1)
        offset = _distance_from_line(line, knee - hip, self.forward, self.up)
        return line @ self.forward, np.linalg.norm(line, axis=-1), tip @ self.up, plane, offset

    def _foot_vectors(self, origins: Array, axes: Array, tip: Array) -> Array:
        """Returns the last axis, times the leg length, and the foot from the last joint, (..., 6) [m]."""
        return np.concatenate((self.limb.reach * axes[..., -1, :], tip - origins[..., -1, :]), axis=-1)

    def turned(self, plane: Array) -> NDArray[np.bool_]:
        """Returns whether the leg is turned over, front to back or outside in, relative to the middle of its range."""
        return np.asarray(plane[..., 2] * self.side < -0.1)

    @functools.cached_property
    def default_direction(self) -> str:
        """Knee direction in which the leg stands by default: backward, unless the knee bends mostly forward.

        The knee bends relative to the line from hip to ankle, since a contact point may be anywhere on a sole.
        """
        hip, knee = self.limb.hip, self.limb.knee
        q = np.tile(self.middle, (9, 1))
        q[:, knee] = np.linspace(self.low[knee], self.high[knee], 9)
        origins, _, tip = self.chain.forward(q)
        ankle = origins[:, -1, :]
        if np.linalg.norm(ankle - origins[:, knee, :], axis=-1).max() < 0.1 * self.limb.reach:
            ankle = tip
        line, part = ankle - origins[:, hip, :], origins[:, knee, :] - origins[:, hip, :]
        offsets = _distance_from_line(line, part, self.forward, self.up)
        return "forward" if offsets.max() > FORWARD_RANGE_RATIO * max(-offsets.min(), 0.0) else "backward"

    def hip_height(self) -> float:
        """Returns the height of the hip pitch joint in the base frame, with the joints at `middle` [m]."""
        return float(self.chain.forward(self.middle)[0][self.limb.hip] @ self.up)

    def extension_range(self) -> tuple[float, float]:
        """Returns the shortest and longest comfortable distance from hip to foot [m]."""
        bending = self.chain.n - self.limb.hip - 1  # the hip itself and what lies above it do not stretch the leg
        k = {0: 1, 1: 33}.get(bending, _SAMPLES_PER_JOINT[bending] if bending else 1)
        axes = [np.linspace(a, b, k) for a, b in zip(self.low[-bending:], self.high[-bending:], strict=True)]
        q = np.tile(self.middle, (k**bending, 1))
        q[:, self.chain.n - bending :] = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, bending)
        extension = self.measure(q)[1]
        low, high = float(extension.min()), float(extension.max())
        return low + 0.05 * (high - low), high - 0.05 * (high - low)

    def residual(self, q: Array, height: float, shift: float, level: bool = False) -> Array:
        """Returns the residuals: fore-aft offset of the foot, height error, tilt and turn of the leg plane [m].

        With `level`, those of the foot's orientation follow: a sole is level as with all joints at zero.
        """
        poses = self.chain.forward(q)
        residual = self._residual(self._measure(*poses), height, shift)
        if not level:
            return residual
        return np.concatenate((residual, self._foot_vectors(*poses) - self.sole), axis=-1)

    def _residual(self, features: _Features, height: float, shift: float) -> Array:
        along, _, foot_height, plane, _ = features
        weight = 0.0 if self.limb.chain.n <= 2 else self.limb.reach  # a two-joint leg has its plane given
        ahead = along - self.fore * shift
        return np.stack((ahead, foot_height - height, weight * plane[..., 0], weight * plane[..., 1]), axis=-1)

    def solve(self, height: float, shift: float, knee_direction: str, guesses: Sequence[Array] = ()) -> _Solution:
        """Solves for a posture: tries the guesses, else samples and refines by damped Gauss-Newton."""
        reach = self.limb.reach
        for guess in guesses:  # legs of one robot often have one solution
            inside = guess.shape == self.low.shape and bool(((guess >= self.low) & (guess <= self.high)).all())
            if not inside:
                continue
            found = self._solution(guess, height, shift)
            if found.residual < 0.01 * reach:
                if found.residual > _CONVERGENCE_TOLERANCE or self.level:
                    found = self._solution(self._refined(guess.copy(), height, shift), height, shift)
                if found.residual < _MAX_RESIDUAL and found.knee_direction == knee_direction and not found.turned:
                    return found
        features = self.sampled
        r = self._residual(features, height, shift)
        middling = (self.samples - self.middle) / np.maximum(self.high - self.low, 1e-9)
        cost = (r**2).sum(axis=-1) / reach**2 + 1e-2 * (middling**2).sum(axis=-1)
        sign = 1.0 if knee_direction == "forward" else -1.0
        _, _, _, plane, knee_offsets = features
        good = (sign * knee_offsets > 0.01 * reach) & ~self.turned(plane)
        cost = np.where(good, cost, cost + 100.0)

        def rank(s: _Solution) -> tuple[int, float]:
            return (s.knee_direction == knee_direction) + (not s.turned), -s.residual

        best: _Solution | None = None
        # If no sample has this knee direction, several starts do not help.
        for k, start in enumerate(np.argsort(cost, kind="stable")[: 3 if good.any() else 1]):
            refine = self._refined if k == 0 else self._refine  # levelling a sole takes as long again
            q = refine(self.samples[start].copy(), height, shift)
            found = self._solution(q, height, shift)
            if best is None or rank(found) > rank(best):
                best = found
            if best.residual < _MAX_RESIDUAL and rank(best)[0] == 2:
                break
        assert best is not None
        return best

    def _solution(self, q: Array, height: float, shift: float) -> _Solution:
        features = self.measure(q)
        r = self._residual(features, height, shift)
        _, _, _, plane, offset = features
        knee_direction = "forward" if float(offset) > 0.0 else "backward"
        return _Solution(q, float(np.abs(r[:2]).max()), knee_direction, bool(self.turned(plane)))

    def _refined(self, q: Array, height: float, shift: float) -> Array:
        """Returns a posture near q; its sole is level if the limits permit it."""
        if self.level:
            q = self._refine(q, height, shift, level=True)
            if np.abs(self.residual(q, height, shift)[:2]).max() < _MAX_RESIDUAL:
                return q
        return self._refine(q, height, shift)

    def _refine(self, q: Array, height: float, shift: float, level: bool = False) -> Array:
        n, step, damping = self.chain.n, 1e-6, 1e-6
        offsets = np.vstack((np.zeros(n), step * np.eye(n), -step * np.eye(n)))
        least, stalled = np.inf, 0
        for _ in range(_MAX_ITERATIONS):
            r = self.residual(q + offsets, height, shift, level)
            J = (r[1 : n + 1] - r[n + 1 :]).T / (2.0 * step)
            error = float(np.linalg.norm(r[0]))
            stalled = stalled + 1 if error > _MIN_ERROR_RATIO * least else 0
            least = min(least, error)
            solved = r[0] if level else r[0, :2]
            if np.abs(solved).max() < _CONVERGENCE_TOLERANCE or stalled > _MAX_STALLED_ITERATIONS:
                break
            free = np.ones(n, dtype=bool)
            for _ in range(n):  # joints at a limit that would leave it stand still
                A, Jf = J[:, free], J[:, free]
                dq = np.zeros(n)
                dq[free] = -np.linalg.solve(
                    A.T @ Jf + damping * self.limb.reach**2 * np.eye(int(free.sum())), A.T @ r[0]
                )
                leaving = free & (
                    ((q + dq < self.low - 1e-12) & (q <= self.low)) | ((q + dq > self.high + 1e-12) & (q >= self.high))
                )
                if not leaving.any() or not (free & ~leaving).any():
                    break
                free &= ~leaving
            q = np.clip(q + np.clip(dq, -0.5, 0.5), self.low, self.high)
            damping = max(damping * 0.3, 1e-12)
        return q


def knee_offset(limb: Limb, angles: Array, forward: Array, up: Array) -> float:
    """Returns the distance of the knee from the line hip to foot in the sagittal plane [m]; forward positive."""
    origins, _, tip = limb.chain.forward(angles)
    hip = origins[limb.hip]
    return float(_distance_from_line(tip - hip, origins[limb.knee] - hip, forward, up))


def _distance_from_line(line: Array, part: Array, forward: Array, up: Array) -> Array:
    cross = (part @ forward) * (line @ up) - (part @ up) * (line @ forward)
    return np.asarray(cross * np.sign(line @ up) / np.maximum(np.linalg.norm(line, axis=-1), 1e-9))


@renamed_parameters(bend="knee_direction")
def stance(robot: Robot, *, height: float | None = None, knee_direction: Mapping[str, str] | None = None) -> Array:
    """Returns a standing configuration of `robot` on flat ground.

    The base is level; the bending plane of every leg is vertical; feet are below their hips, moved together fore or aft
    to balance the center of mass; the lowest points of all foot spheres are at z = 0.

    Args:
        robot: a robot with legs.
        height: height of the origin of the base frame above the ground [m].  None: the legs are extended to 0.8 of
            their stretched length, or as close to it as the limits permit.
        knee_direction: "forward" or "backward" by leg name; legs that are not given keep the direction of `robot.legs`.

    Returns:
        (nq,) configuration.

    Raises:
        ArgumentError: the robot has no legs, `height` or `knee_direction` is invalid, or no level stance at this height
            is within the joint limits.
        UnknownNameError: `knee_direction` names a leg that the robot does not have.
    """
    if not robot.legs:
        raise ArgumentError(f"robot: {robot.name!r} has no legs to stand on")
    if height is not None:
        if isinstance(height, bool) or not isinstance(height, int | float | np.integer | np.floating):
            raise ArgumentTypeError(f"height: expected a number [m], got {type(height).__name__}")
        if not abs(height) < MAX_HEIGHT:
            raise ArgumentError(f"height: expected a finite height of magnitude below {MAX_HEIGHT:g} m, got {height}")
    check_knee_directions(knee_direction or {}, robot.legs)
    for leg in robot.legs.values():
        for joint in leg.joints:
            robot.configuration_index(joint)  # a stance needs legs whose joints move on their own
    problem = StanceProblem(
        robot.model, robot.algorithms, robot.bodies, robot.root, make_limbs(robot), bool(robot.loops)
    )
    knee_directions = {name: leg.knee_direction for name, leg in robot.legs.items()} | dict(knee_direction or {})
    q, residual, _ = problem.solve(height=height, knee_direction=knee_directions)
    if residual > 1e-6:
        raise ArgumentError(
            f"height: the robot cannot stand level at {height} m within its joint limits (position error of a foot: "
            f"{residual:.3g} m)"
        )
    return q


def check_knee_directions(knee_directions: Mapping[str, str], legs: Iterable[str]) -> None:
    """Validates knee directions by leg name.

    Raises:
        UnknownNameError: no such leg.
        ArgumentError: neither "forward" nor "backward".
    """
    legs = tuple(legs)
    for name, value in knee_directions.items():
        if name not in legs:
            raise UnknownNameError("leg in knee_direction=", name, legs)
        if value not in ("forward", "backward"):
            raise ArgumentError(f"knee_direction[{name!r}]={value!r}: expected 'forward' or 'backward'")


class StanceProblem:
    """Stance problem of all legs of one robot."""

    def __init__(
        self,
        model: pin.Model,
        pinocchio: Algorithms,
        bodies: Sequence[CompositeBody],
        root: str,
        limbs: Mapping[str, Limb],
        has_loops: bool = False,
        level_soles: bool = True,
    ) -> None:
        self.has_soles = len(limbs) == 2 and level_soles
        # A loop closes from the middle of the joint ranges more often than from zero.
        self.is_upright = len(limbs) == 2 and not has_loops
        self.pinocchio = pinocchio
        self.model, self.bodies, self.root, self.limbs = model, bodies, root, dict(limbs)
        self.forward, self.left = forward_and_left(self.limbs)
        self.up = np.cross(self.forward, self.left)
        self.legs = {
            name: _LegStance(limb, self.forward, self.left, self.has_soles) for name, limb in self.limbs.items()
        }

    def solve(
        self, *, height: float | None = None, knee_direction: Mapping[str, str] | None = None
    ) -> tuple[Array, float, dict[str, str]]:
        """Returns the configuration (nq,), the largest foot error [m] and the knee direction of each leg.

        A leg without an entry in `knee_direction` bends in its default direction if its limits permit it, else in the
        other one.
        """
        requested_directions = dict(knee_direction or {})
        q, residual, knee_directions = self._solve_feet(height, 0.0, requested_directions)
        offset = self._imbalance(q)
        if abs(offset) > 0.1 * self._wheelbase(q):  # the feet move below the center of mass
            moved = self._solve_feet(height, offset, requested_directions)
            if moved[1] <= max(residual, 1e-9):
                q, residual, knee_directions = moved
        return q, residual, knee_directions

    def _solve_feet(
        self, height: float | None, shift: float, requested_directions: Mapping[str, str]
    ) -> tuple[Array, float, dict[str, str]]:
        """Returns the stance at the first extension that all feet reach, or else the one of least foot error."""
        best: tuple[Array, float, dict[str, str]] | None = None
        for extension in EXTENSIONS if height is None else EXTENSIONS[:1]:
            plane = self._ground_height(extension) if height is None else -height
            values: dict[str, Array] = {}
            knee_directions: dict[str, str] = {}
            worst = 0.0
            for name, leg in self.legs.items():
                target = plane + self.limbs[name].contact.radius
                direction = requested_directions.get(name, leg.default_direction)
                found = [leg.solve(target, shift, direction, tuple(values.values()))]
                if found[0].residual > _MAX_RESIDUAL and name not in requested_directions:
                    found.append(leg.solve(target, shift, "forward" if direction == "backward" else "backward"))
                chosen = min(found, key=lambda s: s.residual)
                values[name], knee_directions[name] = chosen.q, chosen.knee_direction
                worst = max(worst, chosen.residual)
            if best is None or worst < best[1]:
                best = (self._configuration(values, plane), worst, knee_directions)
            if worst < _MAX_RESIDUAL:
                break
        assert best is not None
        return best

    def _ground_height(self, extension: float) -> float:
        """Returns the height of the ground in the base frame [m] for legs extended to this fraction of their length."""
        ground_heights, lows, highs = [], [], []
        for name, leg in self.legs.items():
            hip, radius = leg.hip_height(), self.limbs[name].contact.radius
            near, far = leg.extension_range()
            ground_heights.append(hip - float(np.clip(extension * self.limbs[name].reach, near, far)) - radius)
            lows.append(hip - far - radius)
            highs.append(hip - near - radius)
        return float(np.clip(np.mean(ground_heights), max(lows), max(max(lows), min(highs))))

    def _configuration(self, values: Mapping[str, Array], plane: float) -> Array:
        first_indices = joint_indices(self.bodies, self.root)
        if self.is_upright:  # the torso of a humanoid is upright at zero
            q = zero_configuration(self.model, self.pinocchio, self.bodies, self.root)
        else:
            q = mid_range_configuration(self.model, self.pinocchio, self.bodies, self.root)
        for name, q_leg in values.items():
            for joint, value in zip(self.limbs[name].chain.joints, q_leg, strict=True):
                assert joint is not None
                # A solution of 0 up to rounding is set to 0.
                set_joint_value(q, first_indices[joint.name][0], joint, float(value) if abs(value) > 1e-12 else 0.0)
        if self.root in ("free", "planar"):
            q[2 if self.root == "free" else 1] = -plane
        return q

    def _imbalance(self, q: Array) -> float:
        """Returns the distance of the center of mass ahead of the middle of the feet [m]."""
        feet, com = self._feet_and_com(q)
        return float((com - feet.mean(axis=0)) @ self.forward)

    def _wheelbase(self, q: Array) -> float:
        """Returns the distance between the foremost and the rearmost foot [m], at least 1 mm."""
        feet, _ = self._feet_and_com(q)
        return max(float(np.ptp(feet @ self.forward)), 1e-3)

    def _feet_and_com(self, q: Array) -> tuple[Array, Array]:
        """Returns the feet (n, 3) and the center of mass (3,) [m]; with a fixed root in the trunk's frame."""
        model = self.model
        data = model.createData()
        self.pinocchio.framesForwardKinematics(model, data, q)
        com = np.array(self.pinocchio.centerOfMass(model, data, q))
        frames = [model.getFrameId(name, pin.FrameType.OP_FRAME) for name in self.limbs]
        feet = np.array([data.oMf[frame].translation for frame in frames])
        if self.root != "fixed":
            return feet, com
        base, mass = self.bodies[0].inertial, sum(b.inertial.mass for b in self.bodies)
        com = com + base.mass / mass * (base.com - com)  # Pinocchio leaves out links fixed to the world
        to_trunk = trunk_placement(self.bodies).inverse()
        return to_trunk.apply(feet), to_trunk.apply(com)


def mid_range_configuration(
    model: pin.Model, pinocchio: Algorithms, bodies: Sequence[CompositeBody], root: str
) -> Array:
    """Returns the configuration (nq,) with every 1-dof joint in the middle of its range (0 if unbounded)."""
    q, first_indices = np.array(pinocchio.neutral(model)), joint_indices(bodies, root)
    for joint in independent_joints(bodies).values():
        if joint.nq != 1:
            continue
        low, high = joint.limits.lower, joint.limits.upper
        bounded = np.isfinite(low) and np.isfinite(high)
        q[first_indices[joint.name][0]] = 0.5 * (low + high) if bounded else np.clip(0.0, low, high)
    return q


def zero_configuration(model: pin.Model, pinocchio: Algorithms, bodies: Sequence[CompositeBody], root: str) -> Array:
    """Returns the configuration (nq,) with every 1-dof joint at 0, or near the limit that is nearest to 0."""
    q, first_indices = np.array(pinocchio.neutral(model)), joint_indices(bodies, root)
    for joint in independent_joints(bodies).values():
        if joint.nq == 1:
            low, high = joint.limits.lower, joint.limits.upper
            margin = RANGE_MARGIN * (high - low) if np.isfinite(high - low) else 0.0
            q[first_indices[joint.name][0]] = np.clip(0.0, low + margin, high - margin)
    return q
