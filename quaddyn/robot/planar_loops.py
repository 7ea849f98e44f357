"""`PlanarLoop`: a loop of parallel axes in which three pivots follow all others: a four-bar or a five-bar linkage.

At given angles of the other pivots the bars between two of the three are one stiff side, so that the three are the
corners of a triangle of known sides.  It has two mirror images, which meet only where it is flat and the loop singular:
the one of home is the one that continuous motion keeps.

Source: McCarthy and Soh, *Geometric Design of Linkages*, 2011, chapter 2 (the four-bar by its diagonal).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..urdf.tree import Array
from .loop_arrays import Closures, make_closure_workspace
from .loop_solver import loop_residual

#: Largest angle between axes that count as parallel [rad]; least length of a bar, as a fraction of the loop's size.
PARALLEL_TOLERANCE, MIN_BAR_LENGTH = 1e-10, 1e-7
#: How near to flat a loop that can turn all around may come (a cosine): a parallelogram is flat up to rounding.
FLATNESS_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class PlanarLoop:
    """Pivots around a planar loop in their order along it, and the bars between them.

    Attributes:
        joints: per pivot its joint, as an index of `Closures`; -1 where the tree is cut.
        senses: per pivot 1 if its joint rotates the bar after it against the one before it, -1 for the opposite sense.
        bars: per pivot the bar to the next pivot with all joints at home: x + i y in the plane, divided by the loop
            size.
        corners: the three dependent pivots, as indices of `joints`; further pivots are between the first and the
            second.
        mirrored: 1 if the corners are counterclockwise at home, -1 if clockwise.
        ends: coordinates of the independent joint at which the loop is flat, on either side of home; infinite if there
            are none, and with several independent joints.
    """

    joints: tuple[int, ...]
    senses: tuple[int, ...]
    bars: tuple[complex, ...]
    corners: tuple[int, int, int]
    mirrored: int
    ends: tuple[float, float]

    @property
    def independent(self) -> int:
        """The joint that all others follow; -1 if there are several, for which `ends` is not defined."""
        free = [i for k, i in enumerate(self.joints) if k not in self.corners]
        return free[0] if len(free) == 1 else -1

    def side(self, corner: int) -> range:
        """Returns the pivots from a corner (0, 1, 2) to before the next one; n or more stands for the pivot minus n."""
        first, last = self.corners[corner], self.corners[(corner + 1) % 3]
        return range(first, last if last > first else last + len(self.joints))


def find_planar_loop(closures: Closures, group: int) -> PlanarLoop | None:
    """Returns the loop of a group of joints if it is planar with three dependent pivots, else None."""
    c, joints = closures, range(int(closures.joints[group]), int(closures.joints[group + 1]))
    loops = range(int(c.loops[group]), int(c.loops[group + 1]))
    if len(loops) != 1 or c.rows[loops[0]] == 1 or any(c.slides[i] for i in joints):
        return None
    (loop,) = loops
    poses, end = _placements_at_home(c, group)
    axes = {i: poses[i, :9].reshape(3, 3).T @ c.axes[i] for i in joints}
    sides = [_joints_inward(c, int(joint)) for joint in c.sides[loop]]
    normal = axes[joints[0]]
    every = [*axes.values(), *([end[6:9]] if c.rows[loop] == 5 else [])]
    if any(np.linalg.norm(np.cross(normal, axis)) > PARALLEL_TOLERANCE for axis in every):
        return None

    across = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    across /= np.linalg.norm(across)
    along = np.cross(across, normal)

    def flat(point: Array) -> complex:
        return complex(point @ along, point @ across) / float(c.size[group])

    # Out along one side, over the cut, and back along the other.
    around = sides[0][::-1] + ([-1] if c.rows[loop] < 6 else []) + sides[1]
    turns = [1] * len(sides[0]) + ([1] if c.rows[loop] < 6 else []) + [-1] * len(sides[1])
    senses = [t if i < 0 else t * round(float(axes[i] @ normal)) for i, t in zip(around, turns, strict=True)]
    points = [flat(end[9:] if i < 0 else poses[i, 9:]) for i in around]
    bars = [b - a for a, b in zip(points, points[1:] + points[:1], strict=True)]
    following = [k for k, i in enumerate(around) if i < 0 or c.own[i] < 0]
    if len(following) != 3:
        return None
    # The longest chain of other pivots lies between the first two.
    gaps = [(following[(k + 1) % 3] - following[k]) % len(around) for k in range(3)]
    first = int(np.argmax(gaps))
    corners = following[first], following[(first + 1) % 3], following[(first + 2) % 3]
    base, third = points[corners[1]] - points[corners[0]], points[corners[2]] - points[corners[1]]
    if min(abs(base), abs(third), abs(base + third)) < MIN_BAR_LENGTH:
        return None
    start = bars[corners[0]] / abs(bars[corners[0]]) if bars[corners[0]] else 1.0
    bars = [_remove_rounding(bar / start) for bar in bars]  # that bar along x: a number less
    mirrored = 1 if _cross(base, third) > 0.0 else -1
    found = PlanarLoop(tuple(around), tuple(senses), tuple(bars), corners, mirrored, (-math.inf, math.inf))
    return replace(found, ends=_flat_positions(c, found))


def _flat_positions(c: Closures, loop: PlanarLoop) -> tuple[float, float]:
    """Returns `PlanarLoop.ends`: the squared side with the pivot, ``A + B cos(t)``, is bounded by the other sides."""
    if loop.independent < 0:
        return -math.inf, math.inf
    bar_indices = [k % len(loop.joints) for k in loop.side(0)]
    a, b = (loop.bars[k] for k in bar_indices)
    others = [abs(loop.bars[loop.corners[k]]) for k in (1, 2)]
    A, B = abs(a) ** 2 + abs(b) ** 2, 2.0 * abs(a) * abs(b)
    if B == 0.0:
        return -math.inf, math.inf
    least, most = (((others[0] + sign * others[1]) ** 2 - A) / B for sign in (-1.0, 1.0))
    home = math.atan2((b / a).imag, (b / a).real)
    near = math.acos(min(most, 1.0)) if most < 1.0 + FLATNESS_TOLERANCE else None
    far = math.acos(max(least, -1.0)) if least > -1.0 - FLATNESS_TOLERANCE else None
    # |t| >= near, |t| <= far; without the first the loop passes t = 0, without the second t = pi.
    if near is None and far is None:
        return -math.inf, math.inf
    if near is None:
        assert far is not None
        low, high = -far, far
    else:
        low, high = near, (2.0 * math.pi - near if far is None else far)
        if home < 0.0:
            low, high = -high, -low
    sense = loop.senses[bar_indices[1]]
    ends = sorted(float(c.home[loop.independent]) + sense * (t - home) for t in (low, high))
    return ends[0], ends[1]


def _cross(a: complex, b: complex) -> float:
    return (a.conjugate() * b).imag


def _remove_rounding(x: complex) -> complex:
    """Returns `x` without parts that are rounding errors relative to the loop size."""
    return complex(*(0.0 if abs(part) < 1e-16 else part for part in (x.real, x.imag)))


def _joints_inward(c: Closures, joint: int) -> list[int]:
    """Returns the joints from this one inward."""
    out = []
    while joint >= 0:
        out.append(joint)
        joint = int(c.parent[joint])
    return out


def _placements_at_home(c: Closures, group: int) -> tuple[Array, Array]:
    """Returns placements (n, 12) of a group's joints and (12,) of its last loop's closing point, in its base body."""
    work, rows = make_closure_workspace(c), int(c.rows.sum())
    loop_residual(c, work, group, c.home, np.zeros((rows, len(c.q))), np.zeros(rows))
    return work.poses, work.ends[0]
