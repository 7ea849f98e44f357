"""Time stepping of the lanes of a batch (see `lanes`), each from its commanded torques to its next states; compiled.

A separate compilation unit: simulations of one robot do not need it.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Tensor, Vector, compiled, entry
from .integrator import begin_run, clear_last_step, take_step
from .lanes import LaneData, compute_lane_command, load_lane, store_lane, with_lane_weight
from .plant_data import PlantData, StepPhase, StepResult


@compiled()
def is_finite(x: Vector) -> bool:
    """Returns whether all entries of a vector are finite."""
    size = 0.0
    for k in range(len(x)):
        size += abs(x[k])
    return math.isfinite(size)


@compiled(inline=False)
def run_lane(i: int, plant: PlantData, lanes: LaneData, states: Tensor) -> int:
    """Takes all commanded steps of lane i, as `run_lanes`, or continues where the last call for it returned early.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call; the lane is then unchanged.
    """
    memory, contacts = plant.memory, plant.contacts
    present, layout, commands, cursor = lanes.states, lanes.layout, lanes.commands, lanes.cursor
    progress, nq, n_periods, steps_per_period = (
        memory.progress, len(memory.q), commands.torques.shape[1], commands.steps_per_period,
    )  # fmt: skip
    if not cursor.is_loaded:
        if present.n_contacts[i] > len(contacts.keys):
            progress.required_capacity = present.n_contacts[i]
            return StepResult.NEEDS_CAPACITY
        load_lane(i, lanes, plant)
        begin_run(memory)
        cursor.is_loaded, cursor.period, cursor.step = True, 0, 0
    lane_plant = with_lane_weight(i, plant, lanes.parameters)
    while cursor.period < n_periods and present.has_diverged[i] == 0:
        if progress.phase == StepPhase.NOT_STARTED:
            compute_lane_command(i, cursor.period, commands, layout, memory.drives, memory.q, memory.v)
        result: int = StepResult.DIVERGED
        if is_finite(layout.command):
            result = take_step(lane_plant, layout.command)
        if result == StepResult.DIVERGED:
            present.has_diverged[i] = 1
            clear_last_step(memory, contacts)
        elif result != StepResult.DONE:
            return result
        else:
            cursor.step += 1
            if cursor.step == steps_per_period:
                if len(states) > 0:
                    states[i, cursor.period, :nq] = memory.q
                    states[i, cursor.period, nq:] = memory.v
                cursor.step = 0
                cursor.period += 1
    if progress.n_contacts > present.keys.shape[1]:
        cursor.required_contacts = progress.n_contacts
        return StepResult.NEEDS_LANE_CAPACITY
    if len(states) > 0:
        for period in range(cursor.period, n_periods):
            states[i, period, :nq] = memory.q
            states[i, period, nq:] = memory.v
    store_lane(i, lanes, plant)
    cursor.is_loaded = False
    return StepResult.DONE


@compiled(inline=False)
def step_lane(i: int, plant: PlantData, lanes: LaneData, states: Tensor, results: IntVector) -> None:
    """Takes all commanded steps of lane i in a memory that is only for this lane; see `quaddyn.compiler.lane_kernels`.

    Args:
        i: number of the lane.
        plant: as for `run_lanes`.
        lanes: as for `run_lanes`.
        states: as for `run_lanes`.
        results: (m,) receives the `StepResult`; a lane whose result is not `DONE` is unchanged, and needs `run_lanes`.
    """
    lanes.cursor.is_loaded = False
    results[i] = run_lane(i, plant, lanes, states)


@entry("the contact simulation of batches", release=True)
def run_lanes(plant: PlantData, lanes: LaneData, states: Tensor, resume: bool) -> int:
    """Takes all commanded steps of m lanes, one lane after the other, in the memory of one plant.

    A lane that has diverged is not stepped. One that diverges, or whose command is not finite, keeps its last valid
    state.

    Args:
        plant: data and memory of the plant; its memory, limits of the motors, friction of the terrain, and inertia of
            the first body are those of the last lane afterwards.
        lanes: states, parameters and commands of the lanes.
        states: (m, T, nq + nv) receives q and v after each period; (0, ...) if they are not needed. Rows of steps that
            were not taken repeat the last state.
        resume: whether to continue where the last call returned early.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call.
    """
    cursor = lanes.cursor
    if not resume:
        cursor.lane, cursor.is_loaded = 0, False
    while cursor.lane < len(lanes.states.q):
        result: int = run_lane(cursor.lane, plant, lanes, states)
        if result != StepResult.DONE:
            return result
        cursor.lane += 1
    return StepResult.DONE
