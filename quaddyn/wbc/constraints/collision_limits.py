"""`CollisionLimits`: links keep their distance from each other and from obstacles."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ...compiling import Vector, compiled
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
from ..contact_points import add_cross, rotated
from ..data import Frame, Instant, frame_of
from ..element import Counts, Layout, References
from ..rows import Item, bound_motion
from .constraint import Constraint

#: Numbers before those of the pairs, and of each pair: ends and radius of the first capsule, of the second, whether the
#: second is a plane (its normal and a point of it), velocity of an obstacle, half lengths of the two segments, and how
#: many entries follow about the ends of the two.
HEAD, WIDTH = 3, 21
FIRST, FIRST_RADIUS, SECOND, SECOND_RADIUS, FLAT, SPEED, HALVES, FOLLOW = 0, 6, 7, 13, 14, 15, 18, 20
#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
SPARE = 2.0
#: Depth [m] beyond which a pair counts as outside: what the drift changes within a period moves a pair a little.
DEPTH = 1e-4
#: What keeps nearest points of nearly parallel segments from moving infinitely fast.
REGULAR = 1e-3


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


@compiled()
def dot3(a: Vector, b: Vector) -> float:
    """``a . b`` of three."""
    total: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return total


@compiled()
def end_points(frame: Frame, z: Vector, a: Vector, b: Vector) -> None:
    """The ends of a segment, the first six of z in the frame, in the world."""
    rotated(frame.rotation, z, a)
    rotated(frame.rotation, z[3:], b)
    for i in range(3):
        a[i] += frame.origin[i]
        b[i] += frame.origin[i]


@compiled(inline=False)
def point_motion(frame: Frame, p: Vector, velocity: Vector, drift: Vector, r: Vector) -> None:
    """Velocity of the material point p of a body, and its acceleration at a = 0; r is memory for three."""
    omega = frame.velocity[3:]
    for i in range(3):
        r[i] = p[i] - frame.origin[i]
        velocity[i] = 0.0
        drift[i] = 0.0
    add_cross(omega, r, velocity)
    add_cross(omega, velocity, drift)
    add_cross(frame.drift[3:], r, drift)
    for i in range(3):
        velocity[i] += frame.velocity[i]
        drift[i] += frame.drift[i]


@compiled(inline=False)
def along_normal(frame: Frame, n: Vector, p: Vector, sign: float, r: Vector, turn: Vector, J: Vector) -> None:
    """``J += sign n^T J_p`` over all velocities, of the point p of a body; r and turn are memory for three."""
    for i in range(3):
        r[i] = p[i] - frame.origin[i]
        turn[i] = 0.0
    add_cross(r, n, turn)
    for k in range(len(frame.chain)):
        x = 0.0
        for i in range(3):
            x += n[i] * frame.jacobian[i, k] + turn[i] * frame.jacobian[3 + i, k]
        J[frame.chain[k]] += sign * x


@compiled(inline=False)
def sliding(
    w: Vector, n: Vector, d: float, u: Vector, x: Vector, spin_u: float, spin_x: float, su: float, sx: float
) -> float:
    """What distance d accelerates by beside its end points: ``|P w|^2 / d - g^T H^-1 g``.

    The nearest points slide along the segments so that the distance stays least; H is the Hessian of the distance over
    the two places, g its derivative by time.  A point at the end of its segment does not slide.

    Args:
        w: velocity of the second point against the first; P takes what is across n.
        n: from the first to the second.
        d: distance of the points.
        u: the first segment.
        x: the second.
        spin_u: ``n . (omega_1 x u)``.
        spin_x: ``n . (omega_2 x x)``.
        su: 1 if the first point is inside of its segment, else 0.
        sx: likewise of the second.
    """
    along = dot3(n, w)
    across = max(dot3(w, w) - along * along, 0.0) / d
    uu, xx, ux = su * dot3(u, u), sx * dot3(x, x), su * sx * dot3(u, x)
    gu = -su * ((dot3(w, u) - along * dot3(n, u)) / d + spin_u)
    gx = sx * ((dot3(w, x) - along * dot3(n, x)) / d + spin_x)
    slides = 0.0
    if uu > 0.0 and xx > 0.0:
        hu, hx = uu * (1.0 + REGULAR), xx * (1.0 + REGULAR)
        slides = d * (hx * gu * gu + 2.0 * ux * gu * gx + hu * gx * gx) / (hu * hx - ux * ux)
    elif uu > 0.0:
        slides = d * gu * gu / uu
    elif xx > 0.0:
        slides = d * gx * gx / xx
    return across - slides


@compiled(inline=False)
def collision_limit_rows(item: Item, t: Instant) -> None:
    """``n . (a_2 - a_1) >= -2 p h' - p^2 h`` of each near pair; `index` has the two frames of each."""
    margin, p, most = item.numbers[0], item.numbers[1], item.numbers[2]
    points, motion, other, J = t.work.vectors[0], t.work.vectors[1], t.work.vectors[2], t.work.vectors[3]
    a0, a1, b0, b1, pa, pb, n = points, points[3:], points[6:], points[9:], points[12:], points[15:], points[18:]
    va, da, vb, db, r, turn, w = motion, motion[3:], motion[6:], motion[9:], motion[12:], motion[15:], motion[18:]
    u, x, spin = other, other[3:], other[6:]
    nv = len(t.v)
    k = -1
    while k + 1 < item.size:
        k += 1
        z = item.numbers[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)]
        first = frame_of(t.terms, t.model, t.model.index[item.first + 2 * k])
        body = t.model.index[item.first + 2 * k + 1]
        second = frame_of(t.terms, t.model, max(body, 0))
        flat = z[FLAT] != 0.0
        end_points(first, z, a0, a1)
        if body >= 0:
            end_points(second, z[SECOND:], b0, b1)
        else:
            for i in range(3):
                b0[i] = z[SECOND + i]
                b1[i] = z[SECOND + 3 + i]
        radii, su, sx = z[FIRST_RADIUS] + z[SECOND_RADIUS], 0.0, 0.0
        if flat:
            distance = 0.0
            for i in range(3):
                pa[i] = a0[i]
                pb[i] = a0[i]
                n[i] = -b0[i]
                distance += b0[i] * (a0[i] - b1[i])
        else:
            square = 0.0
            for i in range(3):
                middle = 0.5 * (b0[i] + b1[i] - a0[i] - a1[i])
                square += middle * middle
            # at rest beyond this there is no row; moving parts are judged below
            if math.sqrt(square) - z[HALVES] - z[HALVES + 1] - radii - margin > 4.0 * SPARE * most / (p * p):
                k += int(min(max(z[FOLLOW], 0.0), 4.0))
                continue
            s, v = nearest_on_segments(a0, a1, b0, b1)
            square = 0.0
            for i in range(3):
                u[i] = a1[i] - a0[i]
                x[i] = b1[i] - b0[i]
                pa[i] = a0[i] + s * u[i]
                pb[i] = b0[i] + v * x[i]
                n[i] = pb[i] - pa[i]
                square += n[i] * n[i]
            distance = math.sqrt(square)
            if distance < 1e-9:
                continue  # the segments cross: no direction leads out
            for i in range(3):
                n[i] /= distance
            su = 1.0 if s > 0.0 and s < 1.0 else 0.0
            sx = 1.0 if v > 0.0 and v < 1.0 else 0.0
            if z[FOLLOW] > 0.0 and su * sx == 0.0:
                continue  # the row of the end is the same
        point_motion(first, pa, va, da, r)
        if body >= 0:
            point_motion(second, pb, vb, db, r)
        else:
            for i in range(3):
                vb[i] = z[SPEED + i]
                db[i] = 0.0
        for i in range(3):
            w[i] = vb[i] - va[i]
        room, speed = distance - radii - margin, dot3(n, w)
        least = min(-2.0 * p * speed - p * p * room, most)
        if least < -SPARE * most:
            continue
        drift = dot3(n, db) - dot3(n, da)
        if not flat:
            for i in range(3):
                spin[i] = 0.0
            add_cross(first.velocity[3:], u, spin)
            spin_u, spin_x = dot3(n, spin), 0.0
            if body >= 0:
                for i in range(3):
                    spin[i] = 0.0
                add_cross(second.velocity[3:], x, spin)
                spin_x = dot3(n, spin)
            drift += sliding(w, n, distance, u, x, spin_u, spin_x, su, sx)
        for j in range(nv):
            J[j] = 0.0
        along_normal(first, n, pa, -1.0, r, turn, J)
        if body >= 0:
            along_normal(second, n, pb, 1.0, r, turn, J)
        bound_motion(t, J, t.work.everything, least - drift, math.inf, 1.0, item.number, k)
