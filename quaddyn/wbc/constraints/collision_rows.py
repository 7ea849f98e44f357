"""Rows of `CollisionLimits`, and the numbers that they read.

Why a row keeps a pair apart.  Let ``phi = h' + k(h)``, with ``h >= 0`` and ``phi >= 0`` at the start of a period.

1. k(0) = 0, and k has no slope above p; so ``h' >= -k(h)`` keeps ``h >= 0`` for as long as ``phi >= 0``.
2. ``phi' = h'' + k'(h) h'``: the row is ``phi' >= -p phi``.  Where phi = 0 it asks for ``h'' = k' k <= most``.
3. Over a period, with a constant, ``h''(t) = h''(0) + t y``, but for second order in t.  ``y = 3 J' a + z``: J' is the
   derivative of the row by time along the velocities now (`pair_motion.add_point`), z that of the drift.  The row asks
   its bound of ``h'' + (dt / 2) (1 + p dt / 3) y``, which is what phi(dt) is made of.
4. Where drifts alone would ask a pair for more than `most`, phi may decay faster than by p, down to a half within the
   period.  This is where nearest points of two nearly parallel segments slide fast, and far from any harm.
5. z is no less than the difference of the drifts now and dt later along the motion at a = 0, minus the jerk of the two
   points.  The drift falls at once where a nearest point leaves the end of its segment and begins to slide; the drift
   later knows.
"""

from __future__ import annotations

import math

from ...compiling import IntMatrix, IntVector, Matrix, Tensor, Vector, compiled, entry, local, zeros
from ..data import Instant, Model, frame_of
from ..rows import Item, bound_motion
from .pair_motion import add_point, dot3, end_motion, fastest, length3, pair_motion, plane_motion, resting_ends

#: Numbers before those of the capsules, and of each capsule: ends of its segment, radius, half its length, whether it
#: is a plane (its normal and a point of it), velocity of an obstacle.
HEAD, WIDTH = 4, 12
RADIUS, HALF, FLAT, SPEED = 6, 7, 8, 9
#: Entries of `Work.segments`: ends, their velocities, their accelerations at a = 0; middle, its velocity, and how much
#: faster the ends are than that.
MIDDLE, MIDDLE_SPEED, SPIN, SEGMENT = 18, 21, 24, 25
#: Parts of a pair: the whole, the two ends of the first capsule, those of the second.
PARTS = 5
#: A pair has a row unless it could approach with this many times `most` and not come near its limit.
SPARE = 2.0
#: Room [m] that is kept for what happens within a period beyond the first order in dt.
KEPT = 1e-5
#: What a normal turns by within a period at most.
TURN = 0.5


@compiled()
def copy_ends(segment: Vector, end: int, P: Vector, V: Vector, C: Vector) -> None:
    """Ends of a segment, or the one end 1 or 2 of it twice."""
    for e in range(2):
        at = 3 * e if end == 0 else 3 * (end - 1)
        for d in range(3):
            P[3 * e + d] = segment[at + d]
            V[3 * e + d] = segment[6 + at + d]
            C[3 * e + d] = segment[12 + at + d]


@compiled()
def copy_part(a: Vector, b: Vector, part: int, P: Vector, V: Vector, C: Vector) -> None:
    """Ends of both segments of a part of a pair."""
    copy_ends(a, part if part < 3 else 0, P, V, C)
    copy_ends(b, part - 2 if part > 2 else 0, P[6:], V[6:], C[6:])


@compiled()
def has_part(part: int, flat: bool, half: float, other_half: float) -> bool:
    """Whether a pair has this part: a ball has no ends, and to a plane a capsule is its ends."""
    if flat:
        return part == 0 if half == 0.0 else part == 1 or part == 2
    return part == 0 or (half > 0.0 and other_half > 0.0)


@entry("gaps of pairs")
def pair_gaps(
    numbers: Matrix,
    frames: IntVector,
    pairs: IntMatrix,
    rotations: Tensor,
    origins: Matrix,
    velocities: Matrix,
    segments: Matrix,
    out: Matrix,
    rates: Matrix,
) -> int:
    """Distances of capsules' surfaces, and how they change; how many pairs there are.

    Args:
        numbers: (capsules, WIDTH).
        frames: (capsules,) numbers of bodies, -1 for obstacles.
        pairs: (pairs, 2) numbers of capsules.
        rotations: (bodies, 3, 3).
        origins: (bodies, 3).
        velocities: (bodies, 6) linear, angular.
        segments: (capsules, SEGMENT), memory.
        out: (pairs, PARTS) [m]; left as it is where there is no such part.
        rates: (pairs, PARTS) [m/s].
    """
    P, V, C, still = local(12), local(12), local(12), zeros(6)
    n, w, c, u, x = local(3), local(3), local(3), local(3), local(3)
    for k in range(len(frames)):
        z, segment, i = numbers[k], segments[k], frames[k]
        if i >= 0:
            end_motion(rotations[i], origins[i], velocities[i], still, z, segment, segment[6:], segment[12:])
        else:
            resting_ends(z, z[SPEED:], segment, segment[6:], segment[12:])
    count: int = pairs.shape[0]
    for k in range(count):
        a, b = pairs[k, 0], pairs[k, 1]
        flat, radii = numbers[b, FLAT] != 0.0, numbers[a, RADIUS] + numbers[b, RADIUS]
        for part in range(PARTS):
            if has_part(part, flat, numbers[a, HALF], numbers[b, HALF]):
                copy_part(segments[a], segments[b], part, P, V, C)
                distance = plane_motion(P, V, C, n, w)[0] if flat else pair_motion(P, V, C, n, w, c, u, x)[0]
                out[k, part] = distance - radii
                rates[k, part] = dot3(n, w) if distance != 0.0 else 0.0
    return count


@compiled()
def largest_speed(room: float, p: float, most: float) -> float:
    """How fast a pair may approach: ``p h``, and beyond ``h = most / p^2`` what `most` stops in time."""
    soft = most / (p * p)
    if room <= soft:
        return p * room
    return math.sqrt(2.0 * most * (room - 0.5 * soft))


@compiled()
def least_acceleration(room: float, speed: float, p: float, most: float) -> float:
    """What ``h'' `` has to be so that ``h' + k(h)`` decays by p at most, k being `largest_speed`."""
    allowed = largest_speed(room, p, most)
    slope = p
    if room > most / (p * p):
        slope = most / allowed
    return min(-slope * speed - p * (speed + allowed), most)


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


@compiled(inline=False)
def end_of_middle(x: Vector) -> None:
    """Middle, its velocity, and the rest, of a segment whose ends are known."""
    spin = 0.0
    for d in range(3):
        x[MIDDLE + d] = 0.5 * (x[d] + x[3 + d])
        x[MIDDLE_SPEED + d] = 0.5 * (x[6 + d] + x[9 + d])
        spin += (x[9 + d] - x[6 + d]) * (x[9 + d] - x[6 + d])
    x[SPIN] = 0.5 * math.sqrt(spin)


@compiled()
def far(a: Vector, b: Vector, halves: float, reach: float, p: float, most: float) -> bool:
    """Whether no point of two segments needs a row, from their middles alone."""
    square, speed = 0.0, 0.0
    for d in range(3):
        square += (b[MIDDLE + d] - a[MIDDLE + d]) * (b[MIDDLE + d] - a[MIDDLE + d])
        speed += (b[MIDDLE_SPEED + d] - a[MIDDLE_SPEED + d]) * (b[MIDDLE_SPEED + d] - a[MIDDLE_SPEED + d])
    room = math.sqrt(square) - halves - reach
    return least_acceleration(room, -(math.sqrt(speed) + a[SPIN] + b[SPIN]), p, most) < -SPARE * most


@compiled()
def within_period(place: float, rate: float, time: float) -> float:
    """How fast a place in [0, 1] changes if it stays in there for a while."""
    return min(max(rate, -place / time), (1.0 - place) / time)


@compiled(inline=False)
def collision_limit_rows(item: Item, t: Instant) -> None:
    """Rows of the near pairs; `index` has the capsules' frames, and the pairs behind their number."""
    margin, p, most = item.numbers[0], item.numbers[1], item.numbers[2]
    grouped = 6 if item.numbers[3] > 0.0 else 0
    segments = t.work.segments
    for k in range(item.size):
        z, segment = item.numbers[HEAD + WIDTH * k : HEAD + WIDTH * (k + 1)], segments[k]
        i = t.model.index[item.first + k]
        if i >= 0:
            f = frame_of(t.terms, t.model, i)
            end_motion(f.rotation, f.origin, f.velocity, f.drift, z, segment, segment[6:], segment[12:])
        else:
            resting_ends(z, z[SPEED:], segment, segment[6:], segment[12:])
        end_of_middle(segment)
    for k in range(t.model.index[item.second]):
        a, b = t.model.index[item.second + 1 + 2 * k], t.model.index[item.second + 2 + 2 * k]
        one: Vector = item.numbers[HEAD + WIDTH * a : HEAD + WIDTH * (a + 1)]
        two: Vector = item.numbers[HEAD + WIDTH * b : HEAD + WIDTH * (b + 1)]
        flat, reach = two[FLAT] != 0.0, one[RADIUS] + two[RADIUS] + margin
        if flat or not far(segments[a], segments[b], one[HALF] + two[HALF], reach, p, most):
            i, j = t.model.index[item.first + a], t.model.index[item.first + b]
            part = 0
            while part < PARTS:
                if has_part(part, flat, one[HALF], two[HALF]):
                    near = part_row(
                        t, item, i, j, segments[a], segments[b], PARTS * k + part, flat, reach, p, most, grouped
                    )
                    if part == 0 and not near:
                        part = PARTS  # no part of it is nearer
                part += 1


@compiled(inline=False)
def part_row(
    t: Instant,
    item: Item,
    i: int,
    j: int,
    a: Vector,
    b: Vector,
    row: int,
    flat: bool,
    reach: float,
    p: float,
    most: float,
    grouped: int,
) -> bool:
    """The row of one part of a pair, if it needs one.

    Args:
        t: the instant.
        item: the element.
        i: frame of the first.
        j: frame of the second, -1 for an obstacle.
        a: the first in `Work.segments`.
        b: the second.
        row: number of the part among all.
        flat: whether the second is a plane.
        reach: distance of the segments at which there is no room left.
        p: rate.
        most: largest acceleration.
        grouped: velocities below this one belong to one joint.

    Returns:
        Whether other parts of the pair may need one.
    """
    P, V, C, later_P, later_V = local(12), local(12), local(12), local(12), local(12)
    n, w, c, u, x = local(3), local(3), local(3), local(3), local(3)
    at, other_at, slide, other_slide, n_rate, spare = local(3), local(3), local(3), local(3), local(3), local(3)
    J, J_rate, nv, dt = t.work.vectors[0], t.work.vectors[1], len(t.v), t.model.period
    ahead = 0.5 * dt * (1.0 + p * dt / 3.0)
    copy_part(a, b, row % PARTS, P, V, C)
    distance, drift, place, other_place, rate, other_rate = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if flat:
        distance, drift = plane_motion(P, V, C, n, w)
    else:
        distance, drift, place, other_place, rate, other_rate = pair_motion(P, V, C, n, w, c, u, x)
        if least_acceleration(distance - reach, -fastest(V), p, most) < -SPARE * most:
            return False
        if distance == 0.0:
            return True  # the segments cross: no direction leads out
        ends = place <= 0.0 or place >= 1.0 or other_place <= 0.0 or other_place >= 1.0
        if row % PARTS == 0 and ends and dot3(u, u) > 0.0 and dot3(x, x) > 0.0:
            return True  # the row of the end is the same
    room, speed = distance - reach - KEPT, dot3(n, w)
    least = least_acceleration(room, speed, p, most)
    if least < -SPARE * most:
        return True
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
    common = common_entries(t.model, i, j) if j >= 0 else 0
    first = frame_of(t.terms, t.model, i)
    jerk = add_point(first, t.v, grouped, common, at, slide, n, n_rate, -1.0, J, J_rate)
    if j >= 0:
        second = frame_of(t.terms, t.model, j)
        jerk += add_point(second, t.v, grouped, common, other_at, other_slide, n, n_rate, 1.0, J, J_rate)
    for d in range(nv):
        J[d] += 3.0 * ahead * J_rate[d]
    lower, spare_speed = least - drift + ahead * jerk, speed + largest_speed(room, p, most)
    if spare_speed > 0.0:
        lower = max(lower - spare_speed * max(0.5 / dt - p, 0.0), min(lower, most))
    bound_motion(t, J, t.work.everything, lower, math.inf, 1.0, item.number, row)
    return True
