"""`Memory`: the state of a plant and of a step under way, so that a step that needs help can go on where it was."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Vector
from .drives import Drives

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
        drives: the motors, from the torques that are asked for to the joints.
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
    drives: Drives


def memory(nq: int, nv: int, drives: Drives) -> Memory:
    """For a robot of these sizes and motors."""
    x = np.zeros
    return Memory(
        x(nq), x(nv), x(nv), x(6), x(15, dtype=np.int64), x(len(drives.actuated)), x(nv), x(4), x(4), x(4),
        x(9), x(9), x(16), x(nq), x(nv), x(nv), x(nq), x(nv), x(nv), x(nv), x(nv), x(nq), x(nv), drives,
    )  # fmt: skip
