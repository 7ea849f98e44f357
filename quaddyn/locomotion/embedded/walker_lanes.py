"""Many equal walkers in arrays, and their transfer to and from the memory of one `EmbeddedWalker`; compiled.

A *lane* is one of n walkers.  It stores the block of memory in which all records of a walker lie, and the lane of its
whole-body controller, see `quaddyn.wbc.controller_lanes`.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ...compiler import ByteMatrix, ByteVector, IntMatrix, Matrix, call_kernel, compiled, entry
from ...wbc.controller_lanes import ControllerLanes, LaneFriction, load_lane, store_lane
from ...wbc.embedded import validate_state
from ...wbc.tick_data import TickOutcome
from ..velocity_limits import GaitLimits
from .embedded_walker import (
    EmbeddedWalker,
    apply_friction,
    lie_down,
    reset_embedded_walker,
    select_gait,
    stand_up,
    walker_tick,
)


class LaneRequest(enum.IntEnum):
    """A request that `request_lanes` makes."""

    RESET = 0
    STAND_UP = 1
    LIE_DOWN = 2


class WalkerLanes(NamedTuple):
    """States of m walkers after their last ticks.

    Attributes:
        memory: (m, bytes) records of each walker.
        wbc: states of their whole-body controllers.
        outcome: (m,) `TickOutcome` of the last tick.
    """

    memory: ByteMatrix
    wbc: ControllerLanes
    outcome: ByteVector


class WalkerWorkspace(NamedTuple):
    """Memory in which a thread computes the ticks of lanes.

    Attributes:
        walker: a walker, whose records lie in `memory`.
        memory: (bytes,) the records.
        friction: friction cones of its whole-body controller.
    """

    walker: EmbeddedWalker
    memory: ByteVector
    friction: LaneFriction


@compiled(inline=False)
def load_walker(i: int, lanes: WalkerLanes, work: WalkerWorkspace) -> None:
    """Sets the memory of a walker to the state of lane i."""
    work.memory[:] = lanes.memory[i]
    load_lane(i, lanes.wbc, work.friction, work.walker.wbc)
    apply_friction(work.walker)


@compiled(inline=False)
def store_walker(i: int, lanes: WalkerLanes, work: WalkerWorkspace) -> None:
    """Writes the state of a walker to lane i."""
    lanes.memory[i] = work.memory
    store_lane(i, lanes.wbc, work.walker.wbc)


@entry("walker", release=True)
def compute_walkers(
    work: WalkerWorkspace,
    lanes: WalkerLanes,
    q: Matrix,
    v: Matrix,
    velocity: Matrix,
    measured_contacts: IntMatrix,
    tau: Matrix,
    kernel: int,
) -> None:
    """Computes one tick of m lanes, one lane after the other, in the memory of one walker; see `walker_tick`.

    Args:
        work: memory of the walker; its state is that of the last lane afterwards.
        lanes: states of the lanes.
        q: (m, nq) configurations.
        v: (m, nv) velocities.
        velocity: (1 or m, 3) requested velocities [m/s, rad/s], heading frame, for all lanes or for each.
        measured_contacts: (m, 4) whether the sensor of each foot measures contact, or (m, 0) without foot sensors.
        tau: (m, nu) written: torques [N m].
        kernel: address of the kernel of the rigid-body terms, see `quaddyn.kernels.TickTerms.address`.
    """
    for i in range(len(lanes.outcome)):
        load_walker(i, lanes, work)
        wbc, row = work.walker.wbc, i if len(velocity) > 1 else 0
        outcome = validate_state(wbc, q[i], v[i])
        if outcome == TickOutcome.SOLVED and call_kernel(kernel, q[i], v[i], wbc.data.terms.values) != 0:
            outcome = TickOutcome.INVALID_STATE
        if outcome == TickOutcome.SOLVED:
            outcome = walker_tick(work.walker, q[i], v[i], velocity[row], measured_contacts[i], tau[i])
            store_walker(i, lanes, work)
        else:
            tau[i] = work.walker.output.tau
        lanes.outcome[i] = outcome


@entry("walker", release=True)
def request_lanes(work: WalkerWorkspace, lanes: WalkerLanes, request: LaneRequest, mask: ByteVector) -> None:
    """Resets lanes or changes their mode.

    Args:
        work: memory of a walker.
        lanes: states of the lanes.
        request: the request, for all of these lanes.
        mask: (m,) lanes that are concerned.
    """
    for i in range(len(mask)):
        if mask[i] != 0:
            load_walker(i, lanes, work)
            if request == LaneRequest.RESET:
                reset_embedded_walker(work.walker)
                lanes.outcome[i] = TickOutcome.SOLVED
            elif request == LaneRequest.STAND_UP:
                stand_up(work.walker)
            else:
                lie_down(work.walker)
            store_walker(i, lanes, work)


@entry("walker", release=True)
def select_lane_gaits(work: WalkerWorkspace, lanes: WalkerLanes, gait: GaitLimits, mask: ByteVector) -> None:
    """Sets the gait of lanes; see `request_lanes`."""
    for i in range(len(mask)):
        if mask[i] != 0:
            load_walker(i, lanes, work)
            select_gait(work.walker, gait)
            store_walker(i, lanes, work)
