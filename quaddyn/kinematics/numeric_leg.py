"""`NumericLeg`: numeric inverse kinematics of a leg without a closed form, from several starts."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ..robot.chain import Chain
from ..robot.configuration import set_joint_value
from ..robot.limbs import Limb
from ..robot.robot import Robot
from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array
from .inverse import inverse_kinematics

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
