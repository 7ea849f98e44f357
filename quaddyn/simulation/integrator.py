"""A step of a plant, and many in one call: compiled, from the torques that are asked for to the next state.

A step is taken whole, velocities first; where its account of energy does not hold, again by the midpoint rule, in
halves of halves (`Simulation` says why).  `run` comes back early when it needs help: more room for contacts, or
impulses that the compiled solver did not find.  It is called again with them and goes on where it was, which
`Memory.progress` tells.  Nothing is checked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiling import IntVector, Matrix, Vector, compiled, entry
from .actuators import Motors, delivered
from .bodies import Bodies, Pushes
from .contact_step import (
    CORRECTED,
    REBOUND,
    RESIDUAL,
    SPEED,
    TOLERANCE,
    ContactLaw,
    Contacts,
    Motion,
    StepModel,
    StepState,
    finish,
    position_correction,
    step,
)
from .energy_account import (
    BROKEN_HEIGHT,
    BROKEN_SHARE,
    FLIGHT_RISE,
    GROUND_RISE,
    KINETIC,
    LIFTING,
    POTENTIAL,
    RISING,
    SHARE,
    mechanical_energy,
)
from .motions import integrate
from .pieces import Collected, collect, show
from .terms import Terms, bias, joint_inertia, place_joints, push_forces

#: What `run` says: all steps are taken; the impulses of `CONTACTS` contacts are wanted; so is room for `NEEDED`
#: contacts; so is the motion of a smooth step; the motion has diverged.
DONE, HARD, NO_ROOM, SMOOTH, DIVERGED = range(5)
#: Of a contact solve, from good to bad.
STATUSES = ("free", "solved", "passive", "retried", "inaccurate")
FREE, SOLVED, PASSIVE, RETRIED, INACCURATE = range(5)
#: How far a step is: not begun; in the air, by the midpoint rule at once; whole; in pieces.
BEGIN, FAST, WHOLE, REFINED = range(4)
#: Slots of `Memory.progress`: how far; whether the terms are those of the state; whether the last step was fast; the
#: round of the midpoint rule; whether an answer to `HARD` or `SMOOTH` is there; whether to the latter; contacts and
#: status of the piece, in the end of the step; pieces to take, tried and taken; whether one has not been collected;
#: room wanted; steps taken, and how many of them were inaccurate.
(
    PHASE, EVALUATED, FLYING, TURN, ANSWERED, SMOOTHED, CONTACTS, STATUS, TO_TAKE, TRIED, TAKEN, PENDING, NEEDED, STEPS,
    POOR,
) = range(15)  # fmt: skip
#: Slots of what a piece, or the step, did: work of actuators, joints, contacts, pushes and corrections, and energy that
#: was made [J]; of it, what the scheme does not merely move to and fro; residual, and largest speed.
ACTUATORS, JOINTS, GROUND, PUSHES, CORRECTIONS, MADE, ERROR, WORST, FASTEST = range(9)

#: Rounds of the midpoint rule, at most, and the change of velocities that ends them, relative to the largest.
ROUNDS, CONVERGED = 4, 1e-7
#: The shortest part of a step, and how many are tried for one step, at most.
SHORTEST, MOST_TRIES = 1.0 / 32.0, 24


class Memory(NamedTuple):
    """State of a plant, and of a step under way.

    Attributes:
        q: (nq,) at the start of the step.
        v: (nv,) there.
        before: (nv,) one step earlier.
        work: (6,) since the last reset: the first six of `ACTUATORS` and what follows it [J].
        progress: (15,) see `PHASE`.
        tau: (nu,) torques that the motors deliver.
        external: (nv,) generalized forces of pushes.
        start: (4,) energies and powers at the start of the step, see `energy_account`.
        here: (4,) the same at the start of the piece.
        there: (4,) the same at its end.
        piece: (9,) what the piece did, see `ACTUATORS`.
        total: (9,) what the step did.
        lengths: (16,) of the pieces that are still to be taken, the next one last [s].
        q_here: (nq,) at the start of the piece.
        v_here: (nv,) there.
        v_before: (nv,) as long before as the piece is.
        middle: (nq,) at the middle of the piece.
        mean: (nv,) velocity there.
        foreseen: (nv,) velocity one piece earlier, if it were to end as foreseen.
        last: (nv,) velocity at its end in the last round.
        moving: (nv,) that moves the positions.
        q_there: (nq,) at the end of the piece.
        v_there: (nv,) there.
    """

    q: Vector
    v: Vector
    before: Vector
    work: Vector
    progress: IntVector
    tau: Vector
    external: Vector
    start: Vector
    here: Vector
    there: Vector
    piece: Vector
    total: Vector
    lengths: Vector
    q_here: Vector
    v_here: Vector
    v_before: Vector
    middle: Vector
    mean: Vector
    foreseen: Vector
    last: Vector
    moving: Vector
    q_there: Vector
    v_there: Vector


def memory(nq: int, nv: int, nu: int) -> Memory:
    """For a robot of these sizes."""
    x = np.zeros
    return Memory(
        x(nq), x(nv), x(nv), x(6), x(15, dtype=np.int64), x(nu), x(nv), x(4), x(4), x(4), x(9), x(9), x(16), x(nq),
        x(nv), x(nv), x(nq), x(nv), x(nv), x(nv), x(nv), x(nq), x(nv),
    )  # fmt: skip


@compiled()
def _copy(x: Vector, out: Vector) -> None:
    for i in range(len(out)):
        out[i] = x[i]


@compiled()
def _clear(out: Vector) -> None:
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
        law.damping, law.stiction, law.tolerance, law.allowed,
    )  # fmt: skip


@compiled()
def allowed_error(model: StepModel, memory: Memory) -> float:
    """Error of the energy of the last piece that needs no refinement [J]."""
    rise = GROUND_RISE if memory.progress[CONTACTS] > 0 else FLIGHT_RISE
    allowed: float = model.law.dt * (SHARE * max(memory.here[KINETIC], memory.there[KINETIC]) + rise * model.weight)
    return allowed


# -- a piece ---------------------------------------------------------------------------------------------------------
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
    state = StepState(v, memory.foreseen, memory.tau, memory.external)
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
    if p[SMOOTHED] == 0:
        if model.smooth and p[CONTACTS] == 0:
            return SMOOTH
        share = closing if rounds > 0 else h
        for j in range(len(v)):
            memory.moving[j] = share * memory.v_there[j] + h * motion.correction[j]
        integrate(model.bodies, memory.middle if rounds > 0 else memory.q_here, memory.moving, 1.0, memory.q_there)
    settle_account(model, terms, memory, motion, h, rounds == 0 and p[SMOOTHED] == 0)
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
def has_settled(memory: Memory, speed: float) -> bool:
    """Whether another round would change nothing; also where something is no number."""
    largest = 0.0
    for j in range(len(memory.last)):
        change = abs(memory.v_there[j] - memory.last[j])
        if not change <= largest:
            largest = change
    return not largest > CONVERGED * speed


@compiled(inline=False)
def settle_account(
    model: StepModel, terms: Terms, memory: Memory, motion: Motion, h: float, velocities_first: bool
) -> None:
    """Terms and energies at the end of the piece, and what it did."""
    piece, here, there, work, v, after = (
        memory.piece, memory.here, memory.there, motion.work, memory.v_here, memory.v_there,
    )  # fmt: skip
    _clear(piece)
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
    if velocities_first:  # positions half a step ahead of velocities (leapfrog) move energy to and fro, but make none
        piece[ERROR] = made - 0.5 * h * (there[RISING] - here[RISING])


# -- a step ----------------------------------------------------------------------------------------------------------
@compiled()
def begin_step(memory: Memory) -> None:
    """The first piece begins where the step does."""
    _copy(memory.q, memory.q_here)
    _copy(memory.v, memory.v_here)
    _copy(memory.before, memory.v_before)
    _copy(memory.start, memory.here)


@compiled(inline=False)
def refine(
    model: StepModel,
    pushes: Pushes,
    terms: Terms,
    memory: Memory,
    motion: Motion,
    contacts: Contacts,
    collected: Collected,
) -> int:
    """The step by the midpoint rule, in halves of halves where a whole one does not keep the account."""
    p, piece, total, lengths = memory.progress, memory.piece, memory.total, memory.lengths
    while p[TO_TAKE] > 0:
        top = p[TO_TAKE] - 1
        h = lengths[top]
        if p[PENDING] == 0:
            said: int = attempt(model, pushes, terms, memory, motion, contacts, h, ROUNDS)
            if said != DONE:
                return said
            p[TRIED] += 1
            poor = not abs(piece[ERROR]) <= allowed_error(model, memory) and p[STATUS] != INACCURATE
            if poor and h > SHORTEST * model.law.dt and p[TRIED] < MOST_TRIES:
                lengths[top], lengths[top + 1] = 0.5 * h, 0.5 * h
                p[TO_TAKE] += 1
                continue
            for each in range(WORST):
                total[each] += piece[each]
            total[WORST], total[FASTEST] = max(total[WORST], piece[WORST]), piece[FASTEST]
            if not piece[FASTEST] < model.runaway:
                return DONE
            p[PENDING] = 1
        if not collect(p[CONTACTS], p[STATUS], contacts, collected):
            p[NEEDED] = len(collected.keys)
            return NO_ROOM
        p[PENDING], p[TO_TAKE], p[TAKEN] = 0, top, p[TAKEN] + 1
        onward = 1.0 if top == 0 else lengths[top - 1] / h
        for j in range(len(memory.v)):
            memory.v_before[j] = memory.v_there[j] - onward * (memory.v_there[j] - memory.v_here[j])
        _copy(memory.v_there, memory.v_here)
        _copy(memory.q_there, memory.q_here)
        _copy(memory.there, memory.here)
    if p[TAKEN] > 1:
        p[CONTACTS], p[STATUS] = show(collected, contacts)
    return DONE


@compiled(inline=False)
def advance(
    model: StepModel,
    pushes: Pushes,
    terms: Terms,
    memory: Memory,
    motion: Motion,
    contacts: Contacts,
    collected: Collected,
) -> int:
    """One step, or the rest of one."""
    p, total, dt = memory.progress, memory.total, model.law.dt
    if p[PHASE] == BEGIN:
        if p[EVALUATED] == 0:
            evaluate(model.bodies, memory.q, memory.v, terms, motion, memory.start)
        else:
            _copy(memory.there, memory.start)
        p[EVALUATED] = 0  # until the step is taken
        begin_step(memory)
        p[PHASE] = FAST if model.adaptive and p[FLYING] == 1 else WHOLE
    if p[PHASE] == FAST:
        said: int = attempt(model, pushes, terms, memory, motion, contacts, dt, 1)
        if said == NO_ROOM:
            return said
        if p[CONTACTS] > 0:
            p[TURN] = 0
            evaluate(model.bodies, memory.q, memory.v, terms, motion, memory.start)
            p[PHASE] = WHOLE
    if p[PHASE] == WHOLE:
        said = attempt(model, pushes, terms, memory, motion, contacts, dt, 0)
        if said != DONE:
            return said
    if p[PHASE] != REFINED:
        if model.adaptive and not abs(memory.piece[ERROR]) <= allowed_error(model, memory):
            begin_step(memory)
            p[PHASE], p[TO_TAKE], p[TRIED], p[TAKEN], p[FLYING] = REFINED, 1, 0, 0, 1
            memory.lengths[0] = dt
            collected.held[0], collected.worst[0] = 0, FREE
            _clear(total)
        else:
            _copy(memory.piece, total)
    if p[PHASE] == REFINED:
        said = refine(model, pushes, terms, memory, motion, contacts, collected)
        if said != DONE:
            return said
    p[PHASE] = BEGIN
    if not total[FASTEST] < model.runaway:  # also true of NaN
        return DIVERGED
    kinetic = max(memory.start[KINETIC], memory.there[KINETIC])
    if abs(total[ERROR]) > BROKEN_SHARE * kinetic + BROKEN_HEIGHT * model.weight:
        p[STATUS] = INACCURATE
    if p[CONTACTS] > 0:
        p[FLYING] = 0
    for each in range(len(memory.work)):
        memory.work[each] += total[each]
    _copy(memory.v, memory.before)
    _copy(memory.v_there, memory.v)
    _copy(memory.q_there, memory.q)
    p[EVALUATED] = 1
    return DONE


@entry("the contact simulation", release=True)
def run(
    model: StepModel,
    motors: Motors,
    pushes: Pushes,
    terms: Terms,
    memory: Memory,
    motion: Motion,
    contacts: Contacts,
    collected: Collected,
    torques: Matrix,
    states: Matrix,
    again: bool,
) -> int:
    """A step under each row of `torques`.

    Args:
        model: the plant's.
        motors: the robot's.
        pushes: on the robot, all the time.
        terms: take the rigid-body terms.
        memory: the state, and where a step is.
        motion: work of a step.
        contacts: take the contacts.
        collected: take those of several pieces of a step.
        torques: (steps, nu) asked for [N m].
        states: (steps, nq + nv) take q and v after each step; (0, ...) if they are not wanted.
        again: whether to go on where the last call needed help.

    Returns:
        `DONE`, or what is needed.
    """
    p = memory.progress
    if not again:
        if p[PHASE] != BEGIN:
            p[EVALUATED] = 0
        p[PHASE], p[TURN], p[ANSWERED], p[SMOOTHED], p[PENDING], p[STEPS], p[POOR] = BEGIN, 0, 0, 0, 0, 0, 0
    nq = len(memory.q)
    while p[STEPS] < len(torques):
        if p[PHASE] == BEGIN:
            delivered(motors, torques[p[STEPS]], memory.v, memory.tau)
        said: int = advance(model, pushes, terms, memory, motion, contacts, collected)
        if said != DONE:
            return said
        if p[STATUS] == INACCURATE:
            p[POOR] += 1
        if len(states) > 0:
            for i in range(nq):
                states[p[STEPS], i] = memory.q[i]
            for i in range(len(memory.v)):
                states[p[STEPS], nq + i] = memory.v[i]
        p[STEPS] += 1
    return DONE


@entry("the contact simulation", release=True)
def forces_at(bodies: Bodies, q: Vector, pushes: Pushes, terms: Terms, out: Vector) -> None:
    """Generalized forces of pushes at q, into `out` (nv,)."""
    place_joints(bodies, q, terms)
    push_forces(bodies, terms, pushes, out)
