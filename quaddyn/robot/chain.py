"""`Chain`: forward kinematics of one serial limb for many configurations at once, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..urdf.tree import Array, Pose
from .bodies import CompositeBody


class Chain:
    """Serial chain of 1-dof joints with a tip on its last body.

    Args:
        bodies: composite bodies of the robot.
        indices: indices of the bodies that the joints of the chain move, from the first to the last.
        tip: (3,) point on the last body, in its frame [m].
    """

    def __init__(self, bodies: Sequence[CompositeBody], indices: Sequence[int], tip: Array) -> None:
        self.indices = tuple(indices)
        self.joints = tuple(bodies[i].joint for i in indices)
        self.tip = tip
        start = Pose.identity()
        above = bodies[indices[0]].parent
        while above > 0:  # a limb that hangs from a moving body, such as a spine: that body at its zero
            start = bodies[above].placement @ start
            above = bodies[above].parent
        placements = [bodies[i].placement for i in indices]
        placements[0] = start @ placements[0]
        self._placements = placements
        self._axes = [bodies[i].joint.axis for i in indices]  # type: ignore[union-attr]
        self._slides = [bodies[i].joint.type == "prismatic" for i in indices]  # type: ignore[union-attr]
        K = [np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]]) for a in self._axes]
        self._K, self._K2 = np.array(K), np.array([each @ each for each in K])

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.indices)

    @property
    def lower(self) -> Array:
        """(n,) lower limits [rad or m]."""
        return np.array([j.limits.lower if j is not None else -np.inf for j in self.joints])

    @property
    def upper(self) -> Array:
        """(n,) upper limits [rad or m]."""
        return np.array([j.limits.upper if j is not None else np.inf for j in self.joints])

    @property
    def content(self) -> bytes:
        """All numbers on which forward kinematics and limits depend, as bytes: equal for equal chains."""
        poses = [part for pose in self._placements for part in (pose.rotation.ravel(), pose.translation)]
        return np.concatenate([*poses, *self._axes, self._slides, self.tip, self.lower, self.upper]).tobytes()

    def postures(self, counts: Sequence[int]) -> Array:
        """Returns a grid (k, n) of joint values within the limits, over one turn at most [rad or m].

        Args:
            counts: (n,) number of values of each joint.
        """
        ends = zip(np.maximum(self.lower, -np.pi), np.minimum(self.upper, np.pi), counts, strict=True)
        return np.stack(np.meshgrid(*(np.linspace(*each) for each in ends), indexing="ij"), axis=-1).reshape(-1, self.n)

    def forward(self, q: Array) -> tuple[Array, Array, Array]:
        """Returns joint origins, joint axes and tip in the base frame.

        Args:
            q: (..., n) joint values [rad or m]; for a continuous joint its angle.

        Returns:
            Joint origins (..., n, 3) [m], joint axes (..., n, 3), tip (..., 3) [m].
        """
        q = np.asarray(q, dtype=np.float64)
        origins, axes = np.empty((*q.shape, 3)), np.empty((*q.shape, 3))
        angles = q[..., None, None]
        turns = np.eye(3) + np.sin(angles) * self._K + (1.0 - np.cos(angles)) * self._K2
        R, p = np.eye(3), np.zeros(3)
        for i, (placement, axis) in enumerate(zip(self._placements, self._axes, strict=True)):
            p = p + R @ placement.translation
            R = R @ placement.rotation
            axes[..., i, :] = R @ axis
            if self._slides[i]:
                p = p + axes[..., i, :] * q[..., i, None]
            else:
                R = R @ turns[..., i, :, :]
            origins[..., i, :] = p
        return origins, axes, np.asarray(p + R @ self.tip)
