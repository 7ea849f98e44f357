"""`CollisionLimits`: links keep their distance from each other and from obstacles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ...errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ...kinematics.capsule_model import CapsuleModel
from ...kinematics.capsules import Capsule
from ...kinematics.obstacles import Obstacle
from ...kinematics.segments import nearest_on_segments
from ...robot.arguments import check_vector
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar
from ..codes import COLLISION_LIMITS
from ..element import Counts, Layout, References
from .collision_rows import (
    FIRST,
    FIRST_RADIUS,
    FLAT,
    FOLLOW,
    FRESH,
    HALVES,
    HEAD,
    PART,
    SECOND,
    SECOND_RADIUS,
    SEGMENTS,
    SPEED,
    WIDTH,
    largest_speed,
    pair_gaps,
)
from .constraint import Constraint

#: Depth [m] beyond which a pair counts as outside.
DEPTH = 1e-4


class CollisionLimits(Constraint, fixed=("model", "obstacles", "left_out")):
    r"""Links keep a distance from each other, and from planes, boxes, spheres and capsules.

    For every near pair with distance d, room :math:`h = d - d_{min}`, rate p and largest acceleration b, the speed of
    approach may be

    .. math::

        k(h) = \begin{cases} p\,h & h \le b / p^2 \\ \sqrt{2 b\,(h - b / (2 p^2))} & \text{beyond} \end{cases}

    (slower than what b stops in time, and slowly at the end), and the row keeps it there, with n between the nearest
    points of the two capsules:

    .. math::

        \ddot h = n^T (J_2 - J_1)\, a + \dots \ge -k'(h)\, \dot h - p\,(\dot h + k(h))

    This is an exponential barrier with a double pole near the limit.  *Viable* are the states with :math:`h \ge 0` and
    :math:`\dot h + k(h) \ge 0`; a viable pair is never asked for :math:`\ddot h > b`.

    **What is promised, and under which assumptions.** From a viable state the distance of capsules stays above
    `margin`, whatever the tasks ask for, and that of the links with it, as capsules contain them.  This assumes that
    level 0 can be met, that accelerations are those that were asked for and constant over a control period dt,
    :math:`p\,dt \le 1/2`, and that obstacles keep the velocity that was given.  Level 0 may be infeasible where joint
    and torque limits leave less than b: commands say so.

    **Within a period** the row changes, and so it holds for its mean over dt: for the Jacobian as it will be, to first
    order in dt; for the lesser of the drifts now and after dt; and with a reserve for the jerk of both points, bounded
    by the rates of the joints between them (no derivative of a point by joint angles is longer than a joint's lever).
    What is of second order in dt is left to 0.01 mm of room that is kept besides.

    **Outside.** `Command.outside` names pairs that are not viable by more than 0.1 mm (times p for speeds).  They are
    driven apart along the same law, by no more than `most`.

    **Rows only for near pairs.** A pair has none while it could accelerate towards its limit by twice `most`; the row
    that comes does not act yet, so torques do not jump.  Each end of a capsule has a row of its own, so that they do
    not jump either where segments turn past each other in parallel.

    In an exported controller obstacles stay where they were when it was exported, with their velocities as given.

    Source: Nguyen, Sreenath 2016, "Exponential control barrier functions for enforcing high relative-degree
    safety-critical constraints", section III, for rate p; k beyond that and the bound within a period are additions.
    `quaddyn.kinematics.CapsuleModel` for the geometry.

    Args:
        model: capsules and pairs; or the robot, for a `CapsuleModel` of it.
        obstacles: by name; `place` moves them.  Until then they are at the origin of the world.
        placed: by name of an obstacle, where its origin is, (3,) [m].
        links: that keep away from obstacles; all by default.
        self_collision: whether pairs of the robot's own links count.
        margin: d_min [m].
        rate: p [1/s].
        most: b, largest acceleration that is asked of a pair and counted on [m/s^2].
        name: by which the controller knows it.

    Attributes:
        model: as given or made.
        obstacles: as given.
        margin, rate, most: as given; may be set at any time.
        left_out: names of pairs that are nearer than `margin` at home, such as feet and their ground: level 0 could not
            be met from there on.

    Raises:
        ArgumentError: no pair is left.
        UnknownNameError: no such link or obstacle.
    """

    code = COLLISION_LIMITS
    unit = "m/s^2"
    margin, rate, most = Scalar(0), Scalar(1, zero=False), Scalar(2, zero=False)

    def __init__(
        self,
        model: CapsuleModel | Robot,
        *,
        obstacles: Mapping[str, Obstacle] | None = None,
        placed: Mapping[str, ArrayLike] | None = None,
        links: tuple[str, ...] | None = None,
        self_collision: bool = True,
        margin: float = 0.01,
        rate: float = 50.0,
        most: float = 100.0,
        name: str = "collisions",
    ) -> None:
        self.model = CapsuleModel(model) if isinstance(model, Robot) else model
        if not isinstance(self.model, CapsuleModel):
            raise ArgumentTypeError(f"model: expected a CapsuleModel or a Robot, got {type(model).__name__}")
        self.obstacles = dict(obstacles or {})
        for key, each in self.obstacles.items():
            if not isinstance(each, Obstacle):
                raise ArgumentTypeError(f"obstacles[{key!r}]: expected an Obstacle, got {type(each).__name__}")
        robot, capsules = self.model.robot, self.model.capsules
        known = {each.link for each in capsules}
        for link in links or ():
            if link not in known:
                raise UnknownNameError("link", link, known)
        labels, entries, blocks = list[str](), list[tuple[str, str]](), list[Array]()
        of: dict[str, list[tuple[int, Array]]] = {key: [] for key in self.obstacles}
        own = self.model.pairs.tolist() if self_collision else []
        there = self.model.distances(robot.q_home).tolist()
        near = {_links(capsules, *pair) for pair, distance in zip(own, there, strict=False) if distance <= margin}
        left_out = sorted(near)
        for i, j in own:
            a, b = capsules[i], capsules[j]
            if _links(capsules, i, j) in near:
                continue
            for part in _with_ends(_numbers(a.ends, a.radius, b.ends, b.radius)):
                labels.append(_links(capsules, i, j))
                entries.append((a.body, b.body))
                blocks.append(part)
        home = self.model.placed(robot.q_home)
        where = {key: np.zeros(3) for key in self.obstacles}
        for key, at in (placed or {}).items():
            if key not in where:
                raise UnknownNameError("obstacle in placed=", key, where)
            where[key] = check_vector(f"placed[{key!r}]", at, (3,), "a point")
        for key, obstacle in self.obstacles.items():
            for i, capsule in enumerate(capsules):
                if links is not None and capsule.link not in links:
                    continue
                pairs = _against(capsule.ends, capsule.radius, obstacle)
                if any(_home_gap(home[i], part, where[key]) <= margin for part in pairs):
                    left_out.append(f"{capsule.link} - {key}")
                    continue
                for part in pairs:
                    of[key].append((len(blocks), part[SECOND:SECOND_RADIUS].reshape(2, 3)))
                    labels.append(f"{capsule.link} - {key}")
                    entries.append((capsule.body, ""))
                    blocks.append(part)
        if not blocks:
            raise ArgumentError(f"model: no pair of {robot.name!r} is left to keep apart")
        super().__init__(name, HEAD + WIDTH * len(blocks), robot=robot)
        self.labels, self.left_out = tuple(labels), tuple(dict.fromkeys(left_out))
        self._entries = entries
        self.margin, self.rate, self.most = margin, rate, most
        self.block[3] = float(robot.root == "free")
        _number_segments(blocks, entries, labels)
        self._pairs()[:] = blocks
        self._of = {
            key: (np.array([i for i, _ in found], dtype=np.intp), np.array([x for _, x in found]).reshape(-1, 2, 3))
            for key, found in of.items()
        }
        for key, point in where.items():
            self.place(key, point)

    def place(
        self, obstacle: str, position: ArrayLike, *, rotation: ArrayLike | None = None, velocity: ArrayLike = (0, 0, 0)
    ) -> None:
        """Say where an obstacle is from now on.

        Args:
            obstacle: name.
            position: (3,) of its origin [m].
            rotation: (3, 3) from its axes to the world's; none by default.
            velocity: (3,) [m/s].

        Raises:
            UnknownNameError: no such obstacle.
            ArgumentError: not numbers of these shapes, or no rotation.
        """
        if obstacle not in self.obstacles:
            raise UnknownNameError("obstacle", obstacle, self.obstacles)
        p = check_vector("position", position, (3,), "a point")
        v = check_vector("velocity", velocity, (3,), "a velocity")
        R = np.eye(3) if rotation is None else np.asarray(rotation, dtype=np.float64)
        if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6):
            raise ArgumentError(f"rotation: expected a rotation matrix (3, 3), got {rotation!r}")
        shape, rows = self.obstacles[obstacle], self._pairs()
        which, own = self._of[obstacle]
        ends = own @ R.T
        ends[:, 1 if shape.flat else slice(None)] += p
        rows[which, SECOND:SECOND_RADIUS] = ends.reshape(-1, 6)
        rows[which, SPEED:HALVES] = v

    def _pairs(self) -> Array:
        return self.block[HEAD:].reshape(-1, WIDTH)

    def gaps(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Room of every pair above `margin` [m], and its rate of change [m/s].

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        return self._gaps(self.block, q, v)

    def _gaps(self, numbers: Array, q: Array, v: Array) -> tuple[Array, Array]:
        model, data = self.model.robot.model, self.model.robot.model.createData()
        pin.forwardKinematics(model, data, q, v)
        bodies = {each: i for i, each in enumerate(dict.fromkeys(x for pair in self._entries for x in pair if x))}
        R, at, speeds = np.zeros((len(bodies), 3, 3)), np.zeros((len(bodies), 3)), np.zeros((len(bodies), 6))
        for body, i in bodies.items():
            frame = self.model.robot.frame_id(body)
            place = pin.updateFramePlacement(model, data, frame)
            R[i], at[i] = place.rotation, place.translation
            speeds[i] = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        frames = np.array([[bodies.get(x, -1) for x in pair] for pair in self._entries], dtype=np.int64)
        rooms, rates = np.zeros(len(frames)), np.zeros(len(frames))
        pair_gaps(numbers[HEAD:].reshape(-1, WIDTH), frames, R, at, speeds, rooms, rates)
        return rooms - numbers[0], rates

    def outside(self, numbers: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Names of the pairs that are nearer than `margin`, or too fast to stay beyond it."""
        room, speed = self._gaps(numbers, q, v)
        p, most = float(numbers[1]), float(numbers[2])
        allowed = np.array([largest_speed(each, p, most) for each in room.tolist()])
        wrong = (room < -DEPTH) | (speed + allowed < -DEPTH * p)
        return tuple(dict.fromkeys(self.labels[i] for i in np.flatnonzero(wrong).tolist()))

    def refer(self, to: References) -> tuple[int, int]:
        """The list of its pairs' frames, -1 for obstacles."""
        return to.index(to.frame(body) if body else -1 for pair in self._entries for body in pair), -1

    @classmethod
    def layout(cls, of: Counts) -> Layout:
        """Four numbers, and `WIDTH` and two frames for each pair; a row for every pair at most."""
        n = of.rows
        return Layout(n, HEAD + WIDTH * n, first=range(of.entries - 2 * n + 1), limits=n, pairs=n)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{self.labels[row]} distance"


def _links(capsules: tuple[Capsule, ...], i: int, j: int) -> str:
    return f"{capsules[i].link} - {capsules[j].link}"


def _numbers(a: Array, ra: float, b: Array, rb: float, *, flat: bool = False) -> Array:
    first, second = float(np.linalg.norm(a[1] - a[0])), float(np.linalg.norm(b[1] - b[0]))
    halves = [0.5 * first, 0.0 if flat else 0.5 * second]
    return np.array([*a.ravel(), ra, *b.ravel(), rb, float(flat), 0.0, 0.0, 0.0, *halves, *np.zeros(WIDTH - FOLLOW)])


def _with_ends(z: Array) -> list[Array]:
    """A pair, and each end of either segment against the other one.

    Where segments turn past each other in parallel the nearest points jump, and with them the rate of the distance.
    Distances of the ends do not: a pair whose nearest points are inside of both segments, and four ends, have a
    barrier each, and the least of them is the distance.
    """
    if z[FLAT] != 0.0 or min(z[HALVES : HALVES + 2]) == 0.0:
        return [z]
    out = [z]
    for start, half in ((FIRST, HALVES), (SECOND, HALVES + 1)):
        for end in (z[start : start + 3], z[start + 3 : start + 6]):
            part = z.copy()
            part[start : start + 6], part[half], part[PART] = np.tile(end, 2), 0.0, len(out)
            out.append(part)
    z[FOLLOW] = len(out) - 1
    return out


def _number_segments(blocks: list[Array], entries: list[tuple[str, str]], labels: list[str]) -> None:
    """Each segment is numbered, and belongs to the first pair that has it."""
    numbers: dict[tuple[str, bytes], int] = {}
    whole = blocks[0]
    for z, bodies, label in zip(blocks, entries, labels, strict=True):
        if z[PART] != 0.0:  # ends of the pair before
            z[SEGMENTS : SEGMENTS + 2] = whole[SEGMENTS : SEGMENTS + 2]
            continue
        whole = z
        for i, (body, at) in enumerate(zip(bodies, (FIRST, SECOND), strict=True)):
            key = (body or label.rpartition(" - ")[2] + " (obstacle)", z[at : at + 6].tobytes())
            z[FRESH + i] = key not in numbers
            z[SEGMENTS + i] = numbers.setdefault(key, len(numbers))


def _against(ends: Array, radius: float, obstacle: Obstacle) -> list[Array]:
    """Pairs of a capsule and an obstacle, by their numbers; either end against a plane."""
    if obstacle.flat:
        n = 1 if np.array_equal(ends[0], ends[1]) else 2
        return [_numbers(np.stack((e, e)), radius, obstacle.ends[0], 0.0, flat=True) for e in ends[:n]]
    shapes = zip(obstacle.ends, obstacle.radii.tolist(), strict=True)
    return [part for other, r in shapes for part in _with_ends(_numbers(ends, radius, other, r))]


def _home_gap(ends: Array, z: Array, at: Array) -> float:
    """Distance at home, the robot's capsule at `ends` in the world."""
    b, radii = z[SECOND:SECOND_RADIUS].reshape(2, 3), z[FIRST_RADIUS] + z[SECOND_RADIUS]
    if z[FLAT] != 0.0:
        return float(((ends - at) @ b[0]).min() - radii)
    b = b + at  # that of the whole capsule: its ends are no nearer
    s, t = nearest_on_segments(ends[0], ends[1], b[0], b[1])
    return float(np.linalg.norm(ends[0] + s * (ends[1] - ends[0]) - b[0] - t * (b[1] - b[0])) - radii)
