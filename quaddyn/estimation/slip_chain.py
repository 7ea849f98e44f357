"""The hidden Markov chains of `SlipDetector`, in restricted Python."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiling import IntVector, Matrix, Tensor, Vector, compiled, entry, local
from .moving_points import Points, locate, velocity_at

#: Probability from which on a foot counts as slipping, and below which no longer.
ON, OFF = 0.9, 0.5
#: Largest logarithm of odds.
MOST = 50.0


class SlipModel(NamedTuple):
    """What does not change from tick to tick."""

    still: float  # variance of the velocity of a foot that holds, by axis [m^2/s^2]
    fast: float  # of one that slips
    begins: float  # probability of a slip to begin between two updates
    ends: float  # and to end
    part: float  # what a reading counts for
    fading: float  # share of what forces have shown that is kept
    enough: float  # least mean of squared normal forces that shows anything [N^2]
    radius: Vector  # (nf,) of the feet [m]


class SlipMemory(NamedTuple):
    """Of each foot."""

    probability: Vector  # (nf,) that it slips
    slipping: IntVector  # (nf,) whether it counts as slipping
    evidence: Matrix  # (nf, 2) sums of tangential times normal and of squared normal forces [N^2]


@compiled()
def posterior(m: SlipModel, p: float, square: float) -> float:
    """Probability of slipping, from that before and the squared speed."""
    p = p * (1.0 - m.ends) + (1.0 - p) * m.begins
    odds = math.log(m.still / m.fast) + 0.5 * square * (1.0 / m.still - 1.0 / m.fast)
    odds = math.log(p / (1.0 - p)) + m.part * min(odds, MOST)
    return 1.0 / (1.0 + math.exp(-min(max(odds, -MOST), MOST)))


@entry("the slip detector")
def listen(
    m: SlipModel, f: SlipMemory, motion: Matrix, forces: Matrix, given: IntVector, touching: IntVector, normals: Matrix
) -> None:
    """One step further.

    Args:
        m: the detector.
        f: its memory.
        motion: (nf, 6) velocities of the feet's centres, linear before angular, world axes.
        forces: (nf, 3) on the robot, world axes [N].
        given: (nf,) whether there is a force.
        touching: (nf,) whether a foot touches the ground.
        normals: (nf, 3) unit, out of the ground under each foot.
    """
    along = local(3)
    for i in range(len(touching)):
        if touching[i] == 0:
            f.probability[i] = 0.0
            f.slipping[i] = 0
            f.evidence[i, 0], f.evidence[i, 1] = 0.0, 0.0
            continue
        normal = normals[i]
        for r in range(3):
            a, b = (r + 1) % 3, (r + 2) % 3
            turn = motion[i, 3 + a] * normal[b] - motion[i, 3 + b] * normal[a]
            along[r] = motion[i, r] - m.radius[i] * turn
        away = along[0] * normal[0] + along[1] * normal[1] + along[2] * normal[2]
        square, total = 0.0, 0.0
        for r in range(3):
            u = along[r] - away * normal[r]
            square += u * u
            total += forces[i, r] * forces[i, r]
        p = posterior(m, f.probability[i], square)
        f.probability[i] = p
        f.slipping[i] = 1 if p > (OFF if f.slipping[i] != 0 else ON) else 0
        pressing = forces[i, 0] * normal[0] + forces[i, 1] * normal[1] + forces[i, 2] * normal[2]
        if given[i] != 0 and pressing > 0.0:
            # Least squares for tangential over normal force, forgetting, and each by how sure the slip is.
            tangential, share = math.sqrt(max(total - pressing * pressing, 0.0)), (1.0 - m.fading) * p
            f.evidence[i, 0] = m.fading * f.evidence[i, 0] + share * tangential * pressing
            f.evidence[i, 1] = m.fading * f.evidence[i, 1] + share * pressing * pressing


@entry("the slip detector")
def watch(
    m: SlipModel,
    f: SlipMemory,
    feet: Points,
    columns: Matrix,
    placed: Tensor,
    v: Vector,
    forces: Matrix,
    given: IntVector,
    touching: IntVector,
    normals: Matrix,
    motion: Matrix,
) -> None:
    """As `listen`, with the velocities of the feet, which `motion` takes.

    Args:
        m: the detector.
        f: its memory.
        feet: their centres.
        columns: of the world Jacobian, as of `State.kinematics`.
        placed: joints, as of `State.kinematics`.
        v: (nv,).
        forces: as of `listen`.
        given: as of `listen`.
        touching: as of `listen`.
        normals: as of `listen`.
        motion: (nf, 6).
    """
    at = local(3)
    for i in range(len(touching)):
        if touching[i] != 0:
            locate(feet, placed, i, at)
            velocity_at(feet, columns, v, i, at, motion[i])
    listen(m, f, motion, forces, given, touching, normals)


@entry("the slip detector")
def shown_friction(m: SlipModel, f: SlipMemory) -> float:
    """Least ratio of tangential to normal force of any foot that slips; inf where none does."""
    least = math.inf
    for i in range(len(f.slipping)):
        if f.slipping[i] != 0 and f.evidence[i, 1] > m.enough:
            least = min(least, f.evidence[i, 0] / f.evidence[i, 1])
    return least
