"""The hidden Markov chains of `SlipDetector`, in restricted Python."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Matrix, Tensor, Vector, compiled, entry, local
from .moving_points import Points, locate, velocity_at

#: Probability from which on a foot counts as slipping, and below which no longer.
ON, OFF = 0.9, 0.5
#: Largest logarithm of odds.
MOST = 50.0
#: Fraction of its speed shortly before below which a foot counts as decelerating: it then shows no friction.
DECELERATING = 0.9
#: Squared residual of a foot's velocity, divided by its variance, up to which it counts for the creep compliance.
GATE = 9.0


class SlipModel(NamedTuple):
    """Parameters that do not change from tick to tick."""

    still: float  # variance of the velocity of a foot that holds, by axis [m^2/s^2]
    fast: float  # variance of the velocity of a foot that slips, by axis [m^2/s^2]
    landing: float  # variance added to `still` at touchdown [m^2/s^2]
    settling: float  # factor of that variance from one update to the next
    settled: float  # variance from landing below which a foot shows its creep [m^2/s^2]
    begins: float  # probability of a slip to begin between two updates
    ends: float  # probability of a slip to end between two updates
    part: float  # weight of one reading, of which successive ones are alike
    fading: float  # factor of the evidence of slips from one update to the next
    enough: float  # minimum mean of squared normal forces that shows friction [N^2]
    least: float  # minimum normal force of a foot that shows its creep or what it holds [N]
    unknown: float  # variance of the creep compliance before anything was measured [(m/s/N)^2]
    alike: float  # variance of the creep compliance from foot to foot, divided by its square
    most: float  # maximum creep compliance [m/s/N]
    remembering: float  # factor of the evidence of creep from one update to the next
    holding: float  # weight of one reading in the held ratio
    radius: Vector  # (nf,) of the feet [m]


class SlipMemory(NamedTuple):
    """State of the detector."""

    probability: Vector  # (nf,) that a foot slips
    slipping: IntVector  # (nf,) whether a foot counts as slipping
    evidence: Matrix  # (nf, 2) sums of tangential times normal and of squared normal forces [N^2]
    impact: Vector  # (nf,) variance of the velocity that is left of the touchdown [m^2/s^2]
    speed: Vector  # (nf,) speed along the ground shortly before [m/s]
    lasting: Vector  # (nf,) time that a foot has slipped without being braked, less that with it [updates]
    held: Vector  # (nf,) mean ratio of tangential to normal force while a foot holds
    creep: Vector  # (2,) sums of velocity against force times force [N m/s], and of squared force [N^2]


@compiled()
def posterior(m: SlipModel, p: float, odds: float) -> float:
    """Returns the probability of a slip from the one before and the logarithm of the odds of a reading."""
    p = p * (1.0 - m.ends) + (1.0 - p) * m.begins
    odds = math.log(p / (1.0 - p)) + m.part * min(odds, MOST)
    return 1.0 / (1.0 + math.exp(-min(max(odds, -MOST), MOST)))


@entry("the slip detector")
def listen(
    m: SlipModel, f: SlipMemory, motion: Matrix, forces: Matrix, given: IntVector, touching: IntVector, normals: Matrix
) -> None:
    """Updates the detector by one step.

    Args:
        m: parameters.
        f: state.
        motion: (nf, 6) velocities of the feet's centres, linear before angular, world axes.
        forces: (nf, 3) on the robot, world axes [N].
        given: (nf,) whether the force of a foot is given.
        touching: (nf,) whether a foot is in contact.
        normals: (nf, 3) unit, out of the ground under each foot.
    """
    along, shear = local(3), local(3)
    f.creep[0] *= m.remembering
    f.creep[1] *= m.remembering
    known = f.creep[1] + m.still / m.unknown
    compliance = min(max(f.creep[0] / known, 0.0), m.most)
    doubt = m.still / known + m.alike * compliance * compliance  # variance of the compliance
    for i in range(len(touching)):
        if touching[i] == 0:
            f.probability[i] = 0.0
            f.slipping[i] = 0
            f.evidence[i, 0], f.evidence[i, 1] = 0.0, 0.0
            f.impact[i], f.speed[i], f.lasting[i], f.held[i] = m.landing, 0.0, 0.0, 0.0
            continue
        normal = normals[i]
        for r in range(3):
            a, b = (r + 1) % 3, (r + 2) % 3
            turn = motion[i, 3 + a] * normal[b] - motion[i, 3 + b] * normal[a]
            along[r] = motion[i, r] - m.radius[i] * turn
        away = along[0] * normal[0] + along[1] * normal[1] + along[2] * normal[2]
        pressing = forces[i, 0] * normal[0] + forces[i, 1] * normal[1] + forces[i, 2] * normal[2]
        square, load, against = 0.0, 0.0, 0.0
        for r in range(3):
            along[r] -= away * normal[r]
            shear[r] = forces[i, r] - pressing * normal[r] if given[i] != 0 and pressing > 0.0 else 0.0
            square += along[r] * along[r]
            load += shear[r] * shear[r]
            against -= along[r] * shear[r]
        # A foot that holds moves at ``-c f``: its velocity along the force is less certain than that across it.
        across = max(square - against * against / load, 0.0) if load > 0.0 else 0.5 * square
        excess = against - compliance * load
        lag = excess * excess / load if load > 0.0 else 0.5 * square
        wide = m.still + f.impact[i] + m.alike * compliance * compliance * load
        long = m.still + f.impact[i] + doubt * load
        fast = m.fast + f.impact[i]
        odds = 0.5 * (lag / long + across / wide - square / fast + math.log(long * wide / (fast * fast)))
        # A foot that is hardly pressed has still to land, or does so again.
        f.impact[i] = m.landing if given[i] != 0 and pressing < m.least else m.settling * f.impact[i]
        p = posterior(m, f.probability[i], odds)
        f.probability[i] = p
        f.slipping[i] = 1 if p > (OFF if f.slipping[i] != 0 else ON) else 0
        speed, tangential = math.sqrt(square), math.sqrt(load)
        braked = speed < DECELERATING * f.speed[i]
        f.speed[i] += m.part * (speed - f.speed[i])
        f.lasting[i] = max(f.lasting[i] + (-1.0 if braked else 1.0), 0.0) if f.slipping[i] != 0 else 0.0
        if given[i] == 0 or not pressing > 0.0:
            continue
        # Least squares for tangential over normal force, forgetting, weighted with the probability of a slip.  A foot
        # that a soft contact brakes does not yet, or no longer, take all of the friction.
        if not braked:
            share = (1.0 - m.fading) * p
            f.evidence[i, 0] = m.fading * f.evidence[i, 0] + share * tangential * pressing
            f.evidence[i, 1] = m.fading * f.evidence[i, 1] + share * pressing * pressing
        if pressing < m.least or f.impact[i] > m.settled:
            continue
        f.held[i] += m.holding * ((tangential / pressing if p < OFF else 0.0) - f.held[i])
        if lag < GATE * long and across < GATE * wide:
            f.creep[0] += m.part * (1.0 - p) * against
            f.creep[1] += m.part * (1.0 - p) * load


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
def shown_friction(m: SlipModel, f: SlipMemory, updates: float) -> float:
    """Returns the least ratio of tangential to normal force of any foot that slips; inf where none does.

    Args:
        m: parameters.
        f: state.
        updates: minimum time that a foot has slipped without being braked [updates].
    """
    least = math.inf
    for i in range(len(f.slipping)):
        if f.slipping[i] != 0 and f.evidence[i, 1] > m.enough and f.lasting[i] >= updates:
            least = min(least, f.evidence[i, 0] / f.evidence[i, 1])
    return least


@entry("the slip detector")
def held_friction(f: SlipMemory) -> float:
    """Returns the largest ratio of tangential to normal force that a foot has held without slipping for some time."""
    most = 0.0
    for i in range(len(f.held)):
        most = max(most, f.held[i])
    return most
