"""`rollout`: motions of many plants under given torques, in several threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_fields
from ..dynamics.arguments import check_unit_norms
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import Numbers, check_array, check_integer, check_sequence, check_vector
from ..urdf.tree import Array, FrozenArrays
from .simulation import Simulation


@renamed_fields(inaccurate="n_inaccurate_steps", steps="n_steps")
@dataclass(frozen=True, slots=True, eq=False)
class Rollout(FrozenArrays):
    """Result of n rollouts.

    Attributes:
        q: (n, steps, nq) configurations after each step, read-only.
        v: (n, steps, nv) velocities after each step, read-only.
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
    sims = _plants(plants)
    robot, count = sims[0].robot, len(sims)
    starts = None
    if q is not None:
        configurations = np.atleast_2d(check_array("q", q))
        count = len(configurations)
        configurations = check_vector("q", configurations, (count, robot.nq), f"n, nq of {robot.name}")
        for each in configurations:
            check_unit_norms(robot, each)
        velocities = check_array("v", np.zeros(robot.nv) if v is None else v)
        if velocities.shape == (robot.nv,):
            velocities = np.tile(velocities, (count, 1))
        starts = configurations, check_vector("v", velocities, (count, robot.nv), f"n, nv of {robot.name}")
    elif v is not None:
        raise ArgumentError("v: initial velocities need initial configurations q")
    given = check_array("torques", torques)
    if given.ndim not in (2, 3):
        wanted = f"(steps, {robot.nu}) or ({count}, steps, {robot.nu})"
        raise ArgumentError(f"torques: expected shape {wanted}, got {given.shape}")
    steps = given.shape[-2]
    shape = (steps, robot.nu) if given.ndim == 2 else (count, steps, robot.nu)
    given = np.ascontiguousarray(check_vector("torques", given, shape, "steps, nu, or n, steps, nu"))
    states = np.empty((count, steps, robot.nq + robot.nv))
    taken, inaccurate = np.zeros((2, count), dtype=np.int64)

    def go(first: int) -> None:
        """Computes all rollouts of one plant."""
        sim = sims[first]
        for i in range(first, count, len(sims)):
            if starts is not None:
                sim.reset(starts[0][i], starts[1][i])
            taken[i], inaccurate[i] = sim._run_torques(given if given.ndim == 2 else given[i], states[i])

    workers = min(_threads(threads), len(sims), count)
    if workers > 1:
        with ThreadPoolExecutor(workers, "rollout") as pool:
            for _ in pool.map(go, range(min(len(sims), count))):
                pass
    else:
        for first in range(min(len(sims), count)):
            go(first)
    for each in (states, taken, inaccurate):
        each.flags.writeable = False
    return Rollout(states[:, :, : robot.nq], states[:, :, robot.nq :], taken, inaccurate)


def _plants(plants: Simulation | Iterable[Simulation]) -> tuple[Simulation, ...]:
    """Returns the plants as a tuple, or raises if they cannot be used together."""
    sims = (plants,) if isinstance(plants, Simulation) else check_sequence("plants", plants, "Simulations")
    for sim in sims:
        if not isinstance(sim, Simulation):
            raise ArgumentTypeError(f"plants: expected Simulations, got {type(sim).__name__}")
    if not sims:
        raise ArgumentError("plants: expected at least one")
    if any(sim.held_bodies for sim in sims):
        raise ArgumentError("plants: held_bodies= is not supported in rollouts; use `step`")
    if len(set(map(id, sims))) < len(sims):
        raise ArgumentError("plants: a plant is given twice; a plant has one state, make others")
    sizes = {(sim.robot.nq, sim.robot.nv, sim.robot.nu) for sim in sims}
    if len(sizes) > 1:
        raise ArgumentError(f"plants: their robots have different sizes (nq, nv, nu): {sorted(sizes)}")
    return sims


def _threads(threads: int | None) -> int:
    """Returns the maximum number of threads."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_integer("threads", threads)
