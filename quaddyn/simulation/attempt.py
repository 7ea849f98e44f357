"""`attempt`: a piece of a step of a plant, whole or by the midpoint rule, with its account of energy; compiled."""

from __future__ import annotations

import math

from ..compiler import Vector, compiled
from .bodies import Bodies, Pushes
from .contact_data import ContactLaw, Contacts, Motion, StepModel, StepState
from .contact_step import CORRECTED, REBOUND, RESIDUAL, SPEED, TOLERANCE, finish, position_correction, step
from .energy_account import FLIGHT_RISE, GROUND_RISE, KINETIC, LIFTING, POTENTIAL, RISING, SHARE, mechanical_energy
from .motions import integrate
from .step_memory import (
    ACTUATORS,
    ANSWERED,
    CONTACTS,
    CORRECTIONS,
    DONE,
    ERROR,
    FASTEST,
    FREE,
    GROUND,
    HARD,
    JOINTS,
    MADE,
    NEEDED,
    NO_ROOM,
    PASSIVE,
    PUSHES,
    RETRIED,
    SMOOTH,
    SMOOTHED,
    SOLVED,
    STATUS,
    TURN,
    WORST,
    Memory,
)
from .terms import Terms, bias, joint_inertia, place_joints, push_forces

#: Rounds of the midpoint rule, at most, and the change of velocities that ends them, relative to the largest.
ROUNDS, CONVERGED = 4, 1e-7


@compiled()
def clear(out: Vector) -> None:
    """Make all entries zero."""
    for i in range(len(out)):
        out[i] = 0.0


@compiled(inline=False)
def evaluate(bodies: Bodies, q: Vector, v: Vector, terms: Terms, motion: Motion, energies: Vector) -> None:
    """Poses, Jacobian and inertia at a configuration, and the energies there at v."""
    place_joints(bodies, q, terms)
    joint_inertia(bodies, terms)
    mechanical_energy(bodies, terms, v, motion.correction, energies)


@compiled()
def law_of(law: ContactLaw, h: float) -> ContactLaw:
    """For pieces of length h, in which positions move on with the new velocity from the middle."""
    return ContactLaw(
        h, 0.5 * h, law.reach * (h / law.dt), law.slop, law.recovery_share, law.recovery_speed, law.stiffness,
        law.damping, law.creep, law.stiction, law.tolerance, law.allowed,
    )  # fmt: skip


@compiled()
def allowed_error(model: StepModel, memory: Memory) -> float:
    """Error of the energy of the last piece that needs no refinement [J]."""
    rise = GROUND_RISE if memory.progress[CONTACTS] > 0 else FLIGHT_RISE
    allowed: float = model.law.dt * (SHARE * max(memory.here[KINETIC], memory.there[KINETIC]) + rise * model.weight)
    return allowed


@compiled(inline=False)
def attempt(
    model: StepModel,
    pushes: Pushes,
    terms: Terms,
    memory: Memory,
    motion: Motion,
    contacts: Contacts,
    h: float,
    rounds: int,
) -> int:
    """A piece of length h by so many `rounds` of the midpoint rule, or for 0 of them the whole step, velocities first.

    The midpoint rule takes the terms at the middle: of q if v stayed, and at the mean of the velocities.  Velocities
    first takes those at the start, where they have been evaluated.
    """
    p, v, report, closing = memory.progress, memory.v_here, motion.report, 0.5 * h
    law = law_of(model.law, h) if rounds > 0 else model.law
    q = memory.middle if rounds > 0 else memory.q_here
    state = StepState(q, v, memory.foreseen, memory.tau, memory.external, memory.drives)
    while True:
        if p[ANSWERED] == 0:
            if p[TURN] == 0:
                begin_piece(model, pushes, terms, memory, closing, rounds > 0)
            bias(model.bodies, memory.mean, terms)
            k: int = step(model, law, terms, state, motion, contacts, memory.v_there)
            if k < 0:
                p[NEEDED] = -k
                return NO_ROOM
            p[CONTACTS] = k
            p[STATUS] = FREE if k == 0 else PASSIVE if report[REBOUND] > 0.0 else SOLVED
            if k > 0 and not report[RESIDUAL] <= law.tolerance:
                return HARD
        else:
            p[ANSWERED] = 0
            report[CORRECTED] = position_correction(p[CONTACTS], model, TOLERANCE, motion, contacts)
            report[SPEED] = finish(p[CONTACTS], model, h, state, motion, contacts, memory.v_there)
        if p[TURN] >= rounds - 1 or p[STATUS] >= RETRIED or has_settled(memory, report[SPEED]):
            break
        for j in range(len(v)):
            memory.mean[j] = 0.5 * (v[j] + memory.v_there[j])
            memory.foreseen[j] = 2.0 * v[j] - memory.v_there[j]
            memory.last[j] = memory.v_there[j]
        p[TURN] += 1
    p[TURN] = 0
    falls = model.free and p[CONTACTS] == 0
    if p[SMOOTHED] == 0:
        if model.smooth and p[CONTACTS] == 0:
            return SMOOTH
        share = closing if rounds > 0 else h
        for j in range(len(v)):
            memory.moving[j] = share * memory.v_there[j] + h * motion.correction[j]
        if falls and rounds == 0:
            fall_back(model.bodies, terms.poses[1], h, memory.moving)
        integrate(model.bodies, q, memory.moving, 1.0, memory.q_there)
    settle_account(model, terms, memory, motion, h, rounds == 0 and p[SMOOTHED] == 0 and not falls)
    p[SMOOTHED] = 0
    return DONE


@compiled()
def begin_piece(model: StepModel, pushes: Pushes, terms: Terms, memory: Memory, closing: float, midpoint: bool) -> None:
    """Where and at which velocity the terms are taken in the first round, and the forces of pushes there."""
    v, before = memory.v_here, memory.v_before
    for j in range(len(v)):
        memory.mean[j] = v[j] + 0.5 * (v[j] - before[j]) if midpoint else v[j]
        memory.foreseen[j], memory.last[j] = before[j], v[j]
    if midpoint:
        integrate(model.bodies, memory.q_here, v, closing, memory.middle)
        place_joints(model.bodies, memory.middle, terms)
        joint_inertia(model.bodies, terms)
    push_forces(model.bodies, terms, pushes, memory.external)


@compiled()
def fall_back(bodies: Bodies, root: Vector, h: float, moving: Vector) -> None:
    """Take back how much further than along its parabola a free root falls by the velocity at the end of a step."""
    for axis in range(3):
        for each in range(3):
            moving[axis] -= 0.5 * h * h * bodies.gravity[each] * root[3 * axis + each]


@compiled()
def has_settled(memory: Memory, speed: float) -> bool:
    """Whether another round would change nothing; also where something is no number."""
    largest = 0.0
    for j in range(len(memory.last)):
        change = abs(memory.v_there[j] - memory.last[j])
        if not change <= largest:
            largest = change
    return not largest > CONVERGED * speed


@compiled(inline=False)
def settle_account(model: StepModel, terms: Terms, memory: Memory, motion: Motion, h: float, leaps: bool) -> None:
    """Terms and energies at the end of the piece, and what it did.

    Where it `leaps`, positions that are half a step ahead of velocities move energy to and fro, but make none.
    """
    piece, here, there, work, v, after = (
        memory.piece, memory.here, memory.there, motion.work, memory.v_here, memory.v_there,
    )  # fmt: skip
    clear(piece)
    piece[FASTEST], piece[WORST] = motion.report[SPEED], motion.report[RESIDUAL]
    if not piece[FASTEST] < model.runaway:  # also true of NaN
        piece[ERROR], there[KINETIC] = math.inf, math.inf
        return
    evaluate(model.bodies, memory.q_there, after, terms, motion, there)
    for j in range(len(v)):
        piece[PUSHES] += 0.5 * h * memory.external[j] * (v[j] + after[j])
    piece[ACTUATORS], piece[JOINTS], piece[GROUND] = work[0], work[1], work[2]
    piece[CORRECTIONS] = h * there[LIFTING]
    made = there[KINETIC] + there[POTENTIAL] - here[KINETIC] - here[POTENTIAL]
    for each in range(ACTUATORS, MADE):
        made -= piece[each]
    piece[MADE], piece[ERROR] = made, made
    if leaps:
        piece[ERROR] = made - 0.5 * h * (there[RISING] - here[RISING])
