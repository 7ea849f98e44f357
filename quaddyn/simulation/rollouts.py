"""`rollout`: many plants under given torques, over threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_fields
from ..dynamics.arguments import check_unit
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import Numbers, check_vector, floats, several, whole
from ..urdf.tree import Array, FrozenArrays
from .simulation import Simulation


@renamed_fields(inaccurate="n_inaccurate_steps", steps="n_steps")
@dataclass(frozen=True, slots=True, eq=False)
class Rollout(FrozenArrays):
    """What n rollouts made of their plants.

    Attributes:
        q: (n, steps, nq) configurations after each step, read-only.
        v: (n, steps, nv) velocities after each step, read-only.
        n_steps: (n,) how many steps were taken.  Where there are fewer than in `q` the motion diverged, and the rest of
            its rows repeat the last state.
        n_inaccurate_steps: (n,) steps that did not meet their tolerances, see `Simulation.status`.
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
    """Step plants under given torques, as ``mujoco.rollout.rollout`` does.

    Without `q` there is a rollout for each plant, from its present state; plants may differ in anything but the sizes
    of their robots.  With n initial states there are n rollouts, which the plants take in turn: one for each thread is
    enough, as of MuJoCo's ``data``.  They should be alike, then no result depends on which of them it came from.

    All steps of a rollout are one call of machine code, which does not hold the interpreter's lock.  Results are those
    of stepping each plant by `Simulation.step`, bit for bit, whatever the number of threads.  Every plant ends in the
    last state of its last rollout.

    Args:
        plants: one or several, each once.
        torques: (steps, nu) for all rollouts, or (n, steps, nu), of the actuated joints [N m]; `Actuators` deliver what
            they can of them.
        q: (n, nq) initial configurations, or (nq,) of a single one.
        v: (n, nv) initial velocities, or (nv,) of all; at rest by default.  Only with `q`.
        threads: at most; by default as many as there are cores for this process.

    Returns:
        The states after each step.  A motion that diverges ends its own rollout only.

    Raises:
        ArgumentTypeError: a plant that is no `Simulation`, or something else than numbers.
        ArgumentError: no plant or one twice, robots of different sizes, another shape, or an entry that is not finite.
    """
    sims = _plants(plants)
    robot, count = sims[0].robot, len(sims)
    starts = None
    if q is not None:
        configurations = np.atleast_2d(floats("q", q))
        count = len(configurations)
        configurations = check_vector("q", configurations, (count, robot.nq), f"n, nq of {robot.name}")
        for each in configurations:
            check_unit(robot, each)
        velocities = floats("v", np.zeros(robot.nv) if v is None else v)
        if velocities.shape == (robot.nv,):
            velocities = np.tile(velocities, (count, 1))
        starts = configurations, check_vector("v", velocities, (count, robot.nv), f"n, nv of {robot.name}")
    elif v is not None:
        raise ArgumentError("v: initial velocities need initial configurations q")
    given = floats("torques", torques)
    if given.ndim not in (2, 3):
        wanted = f"(steps, {robot.nu}) or ({count}, steps, {robot.nu})"
        raise ArgumentError(f"torques: expected shape {wanted}, got {given.shape}")
    steps = given.shape[-2]
    shape = (steps, robot.nu) if given.ndim == 2 else (count, steps, robot.nu)
    given = np.ascontiguousarray(check_vector("torques", given, shape, "steps, nu, or n, steps, nu"))
    states = np.empty((count, steps, robot.nq + robot.nv))
    taken, inaccurate = np.zeros((2, count), dtype=np.int64)

    def go(first: int) -> None:
        """All rollouts of one plant."""
        sim = sims[first]
        for i in range(first, count, len(sims)):
            if starts is not None:
                sim.reset(starts[0][i], starts[1][i])
            taken[i], inaccurate[i] = sim._play(given if given.ndim == 2 else given[i], states[i])

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
    """The plants, which fit each other."""
    sims = (plants,) if isinstance(plants, Simulation) else several("plants", plants, "Simulations")
    for sim in sims:
        if not isinstance(sim, Simulation):
            raise ArgumentTypeError(f"plants: expected Simulations, got {type(sim).__name__}")
    if not sims:
        raise ArgumentError("plants: expected at least one")
    if any(sim.held_bodies for sim in sims):
        raise ArgumentError("plants: bodies given by held_bodies= move in `step` alone, not in rollouts")
    if len(set(map(id, sims))) < len(sims):
        raise ArgumentError("plants: the same one is there twice; a plant has one state")
    sizes = {(sim.robot.nq, sim.robot.nv, sim.robot.nu) for sim in sims}
    if len(sizes) > 1:
        raise ArgumentError(f"plants: their robots have different sizes (nq, nv, nu): {sorted(sizes)}")
    return sims


def _threads(threads: int | None) -> int:
    """How many, at most."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return whole("threads", threads)
