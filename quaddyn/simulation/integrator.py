"""A step of a plant, and many in one call: compiled, from the torques that are asked for to the next state.

A step is taken whole, velocities first; where its account of energy does not hold, again by the midpoint rule, in
halves of halves (`Simulation` says why).  `run` comes back early when it needs help: more room for contacts, or
impulses that the compiled solver did not find.  It is called again with them and goes on where it was, which
`Memory.progress` tells.  Nothing is checked.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled, entry
from .actuators import TorqueSpeedLimits
from .attempt import ROUNDS, allowed_error, attempt, clear, evaluate
from .bodies import Bodies, Pushes
from .contact_data import Contacts, Motion, StepModel
from .drives import begin, follow, settle, supply
from .energy_account import BROKEN_HEIGHT, BROKEN_SHARE, KINETIC
from .pieces import Collected, collect, show
from .step_memory import (
    ANSWERED,
    BEGIN,
    CONTACTS,
    DIVERGED,
    DONE,
    ERROR,
    EVALUATED,
    FAST,
    FASTEST,
    FLYING,
    FREE,
    INACCURATE,
    NEEDED,
    NO_ROOM,
    PENDING,
    PHASE,
    POOR,
    REFINED,
    SMOOTHED,
    STATUS,
    STEPS,
    TAKEN,
    TO_TAKE,
    TRIED,
    TURN,
    WHOLE,
    WORST,
    Memory,
)
from .terms import Terms, place_joints, push_forces

#: The shortest part of a step, and how many are tried for one step, at most.
SHORTEST, MOST_TRIES = 1.0 / 32.0, 24


@compiled()
def _copy(x: Vector, out: Vector) -> None:
    for i in range(len(out)):
        out[i] = x[i]


@compiled()
def begin_step(memory: Memory) -> None:
    """The first piece begins where the step does."""
    _copy(memory.q, memory.q_here)
    _copy(memory.v, memory.v_here)
    _copy(memory.before, memory.v_before)
    _copy(memory.start, memory.here)
    begin(memory.drives)


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
        follow(memory.drives, memory.v_here, h)
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
            clear(total)
        else:
            _copy(memory.piece, total)
            follow(memory.drives, memory.v_there, dt)
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
    settle(memory.drives, memory.tau)
    p[EVALUATED] = 1
    return DONE


@entry("the contact simulation", release=True)
def run(
    model: StepModel,
    motors: TorqueSpeedLimits,
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
            supply(motors, memory.drives, torques[p[STEPS]], memory.v, memory.tau)
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
