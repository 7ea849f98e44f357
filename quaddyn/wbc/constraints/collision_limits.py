"""`CollisionLimits`: links keep their distance from each other and from obstacles."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ...compiling import Vector, compiled, local
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
from ..contact_points import rotated
from ..data import Frame, Instant, Model, frame_of
from ..element import Counts, Layout, References
from ..rows import Item, bound_motion
from .constraint import Constraint
from .pair_motion import add_point, dot3, end_motion, length3, pair_motion, resting_ends

#: Numbers before those of the pairs, and of each pair: ends and radius of the first capsule, of the second, whether the
#: second is a plane (its normal and a point of it), velocity of an obstacle, half lengths of the two segments, and how
#: many entries follow about the ends of the two.
HEAD, WIDTH = 4, 21
FIRST, FIRST_RADIUS, SECOND, SECOND_RADIUS, FLAT, SPEED, HALVES, FOLLOW = 0, 6, 7, 13, 14, 15, 18, 20
#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
SPARE = 2.0
#: Depth [m] beyond which a pair counts as outside: what the drift changes within a period moves a pair a little.
DEPTH = 1e-4
#: Room [m] that is kept for what happens within a period beyond the first order in dt.
KEPT = 1e-5
#: What a normal turns by within a period at most.
TURN = 0.5


class CollisionLimits(Constraint, fixed=("model", "obstacles", "left_out")):
    r"""Links keep a distance from each other, and from planes, boxes, spheres and capsules.

    For every near pair with distance d, room :math:`h = d - d_{min}` and rate p:

    .. math::

        \ddot h = n^T (J_2 - J_1)\, a + \dots \ge -2 p\, \dot h - p^2 h

    with n between the nearest points of the two capsules.  This is an exponential barrier with a double pole: whatever
    the tasks ask for, a pair with :math:`h \ge 0` and :math:`\dot h + p h \ge 0` (its *viable* states) keeps
    :math:`h \ge 0`.

    **What is promised, and under which assumptions.** The distance of capsules stays above `margin` from every viable
    state, and that of the links with it, as capsules contain them; if level 0 can be met (it asks a pair for no more
    than :math:`p\,|\dot h|`, so torques must be able to give this), accelerations are those asked for and constant over
    a control period dt, :math:`p\,dt \le 1/2`, and obstacles keep the velocity that was given.  Within a period
    the drift counts as constant.

    **Outside.** `Command.outside` names pairs that are not viable by more than 0.1 mm (times p for speeds).  They are
    driven apart along the same law, by no more than `most`.

    **Rows only for near pairs.** A pair has none while it could accelerate towards its limit by twice `most`; the row
    that comes does not act yet, so torques do not jump.  Each end of a capsule has a row of its own, so that they do
    not jump either where segments turn past each other in parallel.

    In an exported controller obstacles stay where they were when it was exported, with their velocities as given.

    Source: Nguyen, Sreenath 2016, "Exponential control barrier functions for enforcing high relative-degree
    safety-critical constraints", section III; `quaddyn.kinematics.CapsuleModel` for the geometry.

    Args:
        model: capsules and pairs; or the robot, for a `CapsuleModel` of it.
        obstacles: by name; `place` moves them.  Until then they are at the origin of the world.
        placed: by name of an obstacle, where its origin is, (3,) [m].
        links: that keep away from obstacles; all by default.
        self_collision: whether pairs of the robot's own links count.
        margin: d_min [m].
        rate: p [1/s].
        most: largest acceleration that is asked of a pair outside [m/s^2].
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
        self._of: dict[str, list[tuple[int, Array]]] = {key: [] for key in self.obstacles}
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
                    self._of[key].append((len(blocks), part[SECOND:SECOND_RADIUS].reshape(2, 3)))
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
        self._pairs()[:] = blocks
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
        for row, own in self._of[obstacle]:
            ends = own @ R.T
            ends[1 if shape.flat else slice(None)] += p
            rows[row, SECOND:SECOND_RADIUS] = ends.ravel()
            rows[row, SPEED:HALVES] = v

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
        model = self.model.robot.model
        data = model.createData()
        pin.forwardKinematics(model, data, q, v)
        places: dict[str, tuple[Array, Array, Array, Array]] = {}
        for body in {each for pair in self._entries for each in pair if each}:
            frame = self.model.robot.frame_id(body)
            place = pin.updateFramePlacement(model, data, frame)
            speed = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            places[body] = place.rotation.copy(), place.translation.copy(), speed.linear.copy(), speed.angular.copy()
        rooms, rates = np.zeros(len(self._entries)), np.zeros(len(self._entries))
        for k, (first, second) in enumerate(self._entries):
            z = numbers[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)]
            here = places[first]
            a = z[FIRST:FIRST_RADIUS].reshape(2, 3) @ here[0].T + here[1]
            b = z[SECOND:SECOND_RADIUS].reshape(2, 3)
            if z[FLAT] != 0.0:
                p, n, distance = a[0], -b[0], float(b[0] @ (a[0] - b[1]))
                other = z[SPEED:HALVES]
            else:
                there = places.get(second)
                if there is not None:
                    b = b @ there[0].T + there[1]
                s, t = nearest_on_segments(a[0], a[1], b[0], b[1])
                p, r = a[0] + s * (a[1] - a[0]), b[0] + t * (b[1] - b[0])
                distance = float(np.linalg.norm(r - p))
                n = (r - p) / max(distance, 1e-12)
                other = z[SPEED:HALVES]
                if there is not None:
                    other = there[2] + np.cross(there[3], r - there[1])
            rooms[k] = distance - z[FIRST_RADIUS] - z[SECOND_RADIUS] - numbers[0]
            rates[k] = n @ (other - here[2] - np.cross(here[3], p - here[1]))
        return rooms, rates

    def outside(self, numbers: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Names of the pairs that are nearer than `margin`, or too fast to stay beyond it."""
        room, speed = self._gaps(numbers, q, v)
        wrong = (room < -DEPTH) | (speed + numbers[1] * room < -DEPTH * numbers[1])
        return tuple(dict.fromkeys(self.labels[i] for i in np.flatnonzero(wrong).tolist()))

    def refer(self, to: References) -> tuple[int, int]:
        """The list of its pairs' frames, -1 for obstacles."""
        return to.index(to.frame(body) if body else -1 for pair in self._entries for body in pair), -1

    @classmethod
    def layout(cls, of: Counts) -> Layout:
        """Three numbers, and `WIDTH` and two frames for each pair; a row for every pair at most."""
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
    return np.array([*a.ravel(), ra, *b.ravel(), rb, float(flat), 0.0, 0.0, 0.0, *halves, 0.0])


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
            part[start : start + 6], part[half] = np.tile(end, 2), 0.0
            out.append(part)
    z[FOLLOW] = len(out) - 1
    return out


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


@compiled(inline=False)
def far_apart(first: Frame, second: Frame, two: bool, z: Vector, reach: float) -> bool:
    """Whether balls about two segments are apart by more than `reach`."""
    a, b, here, there, square = local(3), local(3), local(3), local(3), 0.0
    for i in range(3):
        a[i] = 0.5 * (z[i] + z[3 + i])
        b[i] = 0.5 * (z[SECOND + i] + z[SECOND + 3 + i])
    rotated(first.rotation, a, here)
    if two:
        rotated(second.rotation, b, there)
    for i in range(3):
        middle = here[i] + first.origin[i] - (there[i] + second.origin[i] if two else b[i])
        square += middle * middle
    return math.sqrt(square) - z[HALVES] - z[HALVES + 1] > reach


@compiled()
def common_entries(model: Model, first: int, second: int) -> int:
    """How many velocities, counted from the root, move both of two frames."""
    count = 0
    while (
        count < min(model.chains[first, 0], model.chains[second, 0])
        and model.chains[first, 1 + count] == model.chains[second, 1 + count]
    ):
        count += 1
    return count


@compiled()
def within_period(place: float, rate: float, time: float) -> float:
    """How fast a place in [0, 1] changes if it stays in there for a while."""
    return min(max(rate, -place / time), (1.0 - place) / time)


@compiled(inline=False)
def collision_limit_rows(item: Item, t: Instant) -> None:
    """Rows of the near pairs; `index` has the two frames of each."""
    margin, p, most = item.numbers[0], item.numbers[1], item.numbers[2]
    grouped = 6 if item.numbers[3] > 0.0 else 0
    P, V, C, later_P, later_V = local(12), local(12), local(12), local(12), local(12)
    n, w, c, u, x = local(3), local(3), local(3), local(3), local(3)
    at, other_at, slide, other_slide, n_rate, spare = local(3), local(3), local(3), local(3), local(3), local(3)
    J, J_rate = t.work.vectors[0], t.work.vectors[1]
    nv, dt = len(t.v), t.model.period
    ahead = 0.5 * dt * (1.0 + p * dt / 3.0)
    k = -1
    while k + 1 < item.size:
        k += 1
        z = item.numbers[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)]
        i, j = t.model.index[item.first + 2 * k], t.model.index[item.first + 2 * k + 1]
        first, second = frame_of(t.terms, t.model, i), frame_of(t.terms, t.model, max(j, 0))
        flat, radii = z[FLAT] != 0.0, z[FIRST_RADIUS] + z[SECOND_RADIUS]
        if not flat and far_apart(first, second, j >= 0, z, radii + margin + 4.0 * SPARE * most / (p * p)):
            k += int(min(max(z[FOLLOW], 0.0), 4.0))
            continue
        end_motion(first, z, P, V, C)
        if j >= 0:
            end_motion(second, z[SECOND:], P[6:], V[6:], C[6:])
        else:
            resting_ends(z[SECOND:], z[SPEED:], P[6:], V[6:], C[6:])
        distance, drift, place, other_place, rate, other_rate = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        if flat:
            for d in range(3):
                n[d] = -P[6 + d]
                w[d] = V[6 + d] - V[d]
                distance -= n[d] * (P[d] - P[9 + d])
                drift -= n[d] * C[d]
        else:
            distance, drift, place, other_place, rate, other_rate = pair_motion(P, V, C, n, w, c, u, x)
            if distance == 0.0:
                continue  # the segments cross: no direction leads out
            if z[FOLLOW] > 0.0 and (place <= 0.0 or place >= 1.0 or other_place <= 0.0 or other_place >= 1.0):
                continue  # the row of the end is the same
        speed, room = dot3(n, w), distance - radii - margin - KEPT
        least = min(-2.0 * p * speed - p * p * room, most)
        if least < -SPARE * most:
            continue
        for d in range(nv):
            J[d] = 0.0
            J_rate[d] = 0.0
        for d in range(3):
            n_rate[d] = 0.0
            slide[d] = 0.0
            other_slide[d] = 0.0
            at[d] = P[d] + place * (P[3 + d] - P[d])
            other_at[d] = P[6 + d] + other_place * (P[9 + d] - P[6 + d])
        if not flat:
            for d in range(12):
                later_P[d] = P[d] + dt * (V[d] + 0.5 * dt * C[d])
                later_V[d] = V[d] + dt * C[d]
            rate = within_period(place, rate, 3.0 * ahead)
            other_rate = within_period(other_place, other_rate, 3.0 * ahead)
            for d in range(3):
                slide[d] = rate * u[d]
                other_slide[d] = other_rate * x[d]
                n_rate[d] = (w[d] + other_slide[d] - slide[d]) / distance
            along = dot3(n, n_rate)
            for d in range(3):
                n_rate[d] -= along * n[d]
            turn = 3.0 * ahead * length3(n_rate)
            if turn > TURN:
                for d in range(3):
                    n_rate[d] *= TURN / turn
            later = pair_motion(later_P, later_V, C, spare, w, c, u, x)
            if later[0] > 0.0:
                drift = min(drift, later[1])
        common = 0
        if j >= 0:
            common = common_entries(t.model, i, j)
        jerk = add_point(first, t.v, grouped, common, at, slide, n, n_rate, -1.0, J, J_rate)
        if j >= 0:
            jerk += add_point(second, t.v, grouped, common, other_at, other_slide, n, n_rate, 1.0, J, J_rate)
        for d in range(nv):
            J[d] += 3.0 * ahead * J_rate[d]
        bound_motion(t, J, t.work.everything, least - drift + ahead * jerk, math.inf, 1.0, item.number, k)
