"""`rollout`: motions of many plants under given torques, in several threads."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_fields
from ..dynamics.arguments import check_unit_norms
from ..errors import ArgumentError
from ..lane_blocks import max_threads
from ..robot.arguments import Numbers, check_array, check_sequence, check_type, check_vector
from ..urdf.tree import Array, FrozenArrays
from .lanes import LaneCommands, LaneWorker
from .simulation import Simulation


@renamed_fields(inaccurate="n_inaccurate_steps", steps="n_steps")
@dataclass(frozen=True, slots=True, eq=False)
class Rollout(FrozenArrays):
    """Result of n rollouts.

    Attributes:
        q: (n, steps, nq) configurations after each step, read-only.
        v: (n, steps, nv) velocities after each step, read-only [m/s, rad/s].
        n_steps: (n,) number of steps taken. If it is less than in `q`, the motion diverged, and the remaining rows
            repeat the last state.
        n_inaccurate_steps: (n,) number of steps with status "inaccurate", see `Simulation.status`.
    """

    q: Array
    v: Array
    n_steps: NDArray[np.int64]
    n_inaccurate_steps: NDArray[np.int64]


def rollout(
    plants: Simulation | Iterable[Simulation],
    torques: Numbers,
    *,
    q: Numbers | None = None,
    v: Numbers | None = None,
    threads: int | None = None,
) -> Rollout:
    """Steps plants under given torques, like ``mujoco.rollout.rollout``.

    Without `q` there is one rollout per plant, from its present state; plants may differ in everything but the sizes of
    their robots. With n initial states there are n rollouts, which are distributed over the plants; one plant per
    thread is enough, as with MuJoCo's ``data``. The plants should then be made with the same arguments, so that a
    result does not depend on the plant.

    All steps of a rollout are one call of machine code that releases the interpreter lock. Results equal those of
    `Simulation.step` bit for bit for any number of threads. Each plant is left in the last state of its last rollout.

    Args:
        plants: one or several plants, each at most once.
        torques: (steps, nu) for all rollouts or (n, steps, nu), commanded torques [N m or N]; `Actuators` delay and
            limit them.
        q: (n, nq) initial configurations, or (nq,) for one rollout; None: the present states.
        v: (n, nv) initial velocities, or (nv,) for all rollouts; None: zero. Only with `q`.
        threads: maximum number of threads; None: the number of cores available to this process.

    Returns:
        The states after each step. A motion that diverges ends only its own rollout.

    Raises:
        ArgumentTypeError: a plant is not a `Simulation`, or an array is not numeric.
        ArgumentError: no plant or one twice, robots of different sizes, a wrong shape, or an entry that is not finite.
    """
    simulations = _validate_plants(plants)
    robot, count = simulations[0].robot, len(simulations)
    initial_states = None
    if q is not None:
        configurations = np.atleast_2d(check_array("q", q))
        count = len(configurations)
        configurations = check_vector("q", configurations, (count, robot.nq), f"n, nq of {robot.name}")
        for array in configurations:
            check_unit_norms(robot, array)
        velocities = check_array("v", np.zeros(robot.nv) if v is None else v)
        if velocities.shape == (robot.nv,):
            velocities = np.tile(velocities, (count, 1))
        initial_states = configurations, check_vector("v", velocities, (count, robot.nv), f"n, nv of {robot.name}")
    elif v is not None:
        raise ArgumentError("v: accepted only together with the initial configurations q; pass q")
    torque_array = check_array("torques", torques)
    if torque_array.ndim not in (2, 3):
        expected = f"(steps, {robot.nu}) or ({count}, steps, {robot.nu})"
        raise ArgumentError(f"torques: expected shape {expected}, got {torque_array.shape}")
    steps = torque_array.shape[-2]
    if torque_array.ndim == 3 and len(torque_array) != count:
        plants_text = "1 plant" if count == 1 else f"{count} plants"
        source = f"{plants_text} without initial states" if q is None else f"{count} configurations q"
        raise ArgumentError(
            f"torques: {len(torque_array)} rollouts, but {source}; pass q= (n, {robot.nq}) and torques "
            f"(n, steps, {robot.nu}) for the same number n of rollouts"
        )
    shape = (steps, robot.nu) if torque_array.ndim == 2 else (count, steps, robot.nu)
    torque_array = np.ascontiguousarray(check_vector("torques", torque_array, shape, "steps, nu, or n, steps, nu"))
    states = np.empty((count, steps, robot.nq + robot.nv))
    n_taken, n_inaccurate = np.zeros((2, count), dtype=np.int64)

    def run_plant(plant_index: int) -> None:
        """Computes all rollouts that are assigned to one plant."""
        simulation, rows = simulations[plant_index], slice(plant_index, count, len(simulations))
        if initial_states is None:
            n_taken[plant_index], n_inaccurate[plant_index] = simulation._run_torques(
                torque_array if torque_array.ndim == 2 else torque_array[plant_index], states[plant_index]
            )
            return
        q_start, v_start = (array[rows] for array in initial_states)
        simulation.reset(q_start[-1], v_start[-1])
        worker = LaneWorker(simulation)
        block = worker.make_block(q_start, v_start)
        no_targets = np.zeros((0, robot.nu))
        lane_torques = torque_array[np.newaxis] if torque_array.ndim == 2 else np.ascontiguousarray(torque_array[rows])
        commands = LaneCommands(lane_torques, no_targets, no_targets, no_targets, no_targets, 1)
        lane_states = np.empty((len(q_start), steps, robot.nq + robot.nv))
        worker.run(block, commands, lane_states)
        states[rows], n_taken[rows], n_inaccurate[rows] = lane_states, block.states.n_steps, block.states.n_inaccurate
        simulation._read_lane(int(block.states.n_steps[-1]), diverged=bool(block.states.has_diverged[-1]))

    n_workers = min(max_threads(threads), len(simulations), count)
    if n_workers > 1:
        with ThreadPoolExecutor(n_workers, "rollout") as pool:
            for _ in pool.map(run_plant, range(min(len(simulations), count))):
                pass
    else:
        for plant_index in range(min(len(simulations), count)):
            run_plant(plant_index)
    for array in (states, n_taken, n_inaccurate):
        array.flags.writeable = False
    return Rollout(states[:, :, : robot.nq], states[:, :, robot.nq :], n_taken, n_inaccurate)


def _validate_plants(plants: Simulation | Iterable[Simulation]) -> tuple[Simulation, ...]:
    """Returns the plants as a tuple, or raises if they cannot be used together."""
    simulations = (plants,) if isinstance(plants, Simulation) else check_sequence("plants", plants, "Simulations")
    for simulation in simulations:
        check_type("plants", simulation, Simulation, "Simulation objects")
    if not simulations:
        raise ArgumentError("plants: expected at least one plant, got none")
    if any(simulation.held_bodies for simulation in simulations):
        raise ArgumentError(
            "plants: plants with held_bodies= are not supported in rollouts; call step of each plant instead"
        )
    if len(set(map(id, simulations))) < len(simulations):
        raise ArgumentError(
            "plants: expected different plants, but one is given twice; make a separate plant for each rollout"
        )
    sizes = {(simulation.robot.nq, simulation.robot.nv, simulation.robot.nu) for simulation in simulations}
    if len(sizes) > 1:
        raise ArgumentError(f"plants: expected robots of the same sizes (nq, nv, nu), got {sorted(sizes)}")
    return simulations
